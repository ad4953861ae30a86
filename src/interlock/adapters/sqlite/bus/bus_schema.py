"""Migrations that make the tables of the bus: numbered, never edited, only added to."""

BUS_MIGRATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "008_broadcasts",
        (
            # The body is the line of `events.jsonl`.
            """create table broadcasts (
                position integer primary key,
                id text not null unique,
                hops integer not null,
                crc integer not null,
                body blob not null
            ) strict""",
            """create table subscriptions (
                crew text not null,
                agent text not null,
                pattern text not null,
                silent integer not null,
                origin text not null,
                primary key (crew, agent, pattern)
            ) strict, without rowid""",
            "create table crew_heads (crew text primary key, sha text not null) strict, without rowid",
            # Counts every change of subscriptions, so that a cache knows when to read them again.
            "create table bus_changes (name text primary key, number integer not null) strict, without rowid",
            "insert into bus_changes (name, number) values ('subscriptions', 0), ('delayed', 0)",
        ),
    ),
    (
        "009_deliveries",
        (
            # `taken` is the key of the turn that has claimed it and has not recorded it yet.
            """create table inbox (
                number integer primary key,
                crew text not null,
                agent text not null,
                broadcast integer not null,
                taken text not null
            ) strict""",
            "create unique index inbox_once on inbox (crew, agent, broadcast)",
            "create index inbox_taken on inbox (taken) where taken <> ''",
            """create table mailboxes (
                crew text not null,
                agent text not null,
                unread integer not null,
                primary key (crew, agent)
            ) strict, without rowid""",
            """create table deliveries (
                number integer primary key,
                crew text not null,
                agent text not null,
                broadcast integer not null,
                attempts integer not null,
                try_at integer not null
            ) strict""",
            "create unique index deliveries_once on deliveries (crew, agent, broadcast)",
            "create index deliveries_by_time on deliveries (try_at)",
            """create table active (
                crew text not null,
                agent text not null,
                run text not null,
                primary key (crew, agent, run)
            ) strict, without rowid""",
            """create table announced (
                crew text not null,
                agent text not null,
                start integer not null,
                number integer not null,
                primary key (crew, agent)
            ) strict, without rowid""",
        ),
    ),
    (
        "010_delayed",
        (
            """create table delayed (
                id text primary key,
                type text not null,
                repeat_key text,
                due_at integer not null,
                crc integer not null,
                body blob not null
            ) strict, without rowid""",
            "create unique index delayed_by_key on delayed (type, repeat_key) where repeat_key is not null",
            "create index delayed_by_time on delayed (due_at)",
            """create table dead (
                number integer primary key,
                id text not null,
                crew text not null,
                agent text not null,
                body blob not null
            ) strict""",
            "create unique index dead_once on dead (id, crew, agent)",
        ),
    ),
)

QUIET_LIFECYCLE: tuple[str, tuple[str, ...]] = (
    "014_lifecycle",
    (
        # Presence changes of a record without subscribers. Positions are those of broadcasts; a row has
        # that of its last one. No index of ids: it would write one more page with every turn.
        "create table lifecycle (position integer primary key, crc integer not null, body blob not null) strict",
    ),
)

DELAYED_IN_ORDER: tuple[str, tuple[str, ...]] = (
    "012_delayed_in_order",
    (
        # Ids are random: a table in their order has every page of it touched by a few hundred signals.
        "drop index delayed_by_key",
        "drop index delayed_by_time",
        "alter table delayed rename to delayed_before",
        """create table delayed (
            number integer primary key,
            id text not null unique,
            type text not null,
            repeat_key text,
            due_at integer not null,
            crc integer not null,
            body blob not null
        ) strict""",
        "insert into delayed (id, type, repeat_key, due_at, crc, body)"
        " select id, type, repeat_key, due_at, crc, body from delayed_before order by due_at, id",
        "drop table delayed_before",
        "create unique index delayed_by_key on delayed (type, repeat_key) where repeat_key is not null",
        "create index delayed_by_time on delayed (due_at)",
    ),
)

# Who ended and began work is part of the record, before the body: reading it must not read a large body.
PRESENCE_IN_RECORDS: tuple[str, tuple[str, ...]] = (
    "025_presence_in_records",
    (
        "drop index records_by_run",
        "alter table records rename to records_before",
        """create table records (
            position integer primary key,
            run integer not null,
            seq integer not null,
            crc integer not null,
            link blob not null,
            presence any,
            body blob not null
        ) strict""",
        "insert into records (position, run, seq, crc, link, body)"
        " select position, run, seq, crc, link, body from records_before order by position",
        "drop table records_before",
        "create unique index records_by_run on records (run, seq)",
        # The table `active` follows behind the records from now on.
        "insert or replace into bus_changes (name, number) values ('presence', 0),"
        " ('presence_filled', (select coalesce(max(position), 0) from records))",
    ),
)
