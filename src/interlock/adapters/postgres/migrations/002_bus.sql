-- Broadcasts, who hears them, and budgets wider than a run. Ids and names are compared by bytes.
-- Every change of these tables is made under the lock of the store, as every record.

-- The body is the line of `events.jsonl`. The crc is mixed with the position.
create table broadcasts (
    position bigint primary key,
    id text collate "C" not null unique,
    hops integer not null,
    crc integer not null,
    body bytea not null
);

-- Presence changes without subscribers that no record tells of. A row has the position of its last broadcast.
create table lifecycle (position bigint primary key, crc integer not null, body bytea not null);

-- `segments` is the trimmed pattern, split: SQL and Python must not trim in two ways. Blank patterns have none.
create table subscriptions (
    crew text collate "C" not null,
    agent text collate "C" not null,
    pattern text collate "C" not null,
    silent boolean not null,
    origin text not null,
    segments text[] collate "C" not null,
    primary key (crew, agent, pattern)
);
create index subscriptions_by_segments on subscriptions (cardinality(segments), (segments[1]));

create table crew_heads (crew text collate "C" primary key, sha text collate "C" not null);

-- `taken` is the key of the turn that has claimed it and has not recorded it yet.
create table inbox (
    crew text collate "C" not null,
    agent text collate "C" not null,
    broadcast bigint not null,
    taken text collate "C" not null default '',
    primary key (crew, agent, broadcast)
);
create index inbox_taken on inbox (taken) where taken <> '';

create table mailboxes (
    crew text collate "C" not null,
    agent text collate "C" not null,
    unread integer not null,
    primary key (crew, agent)
) with (fillfactor = 60);

create table deliveries (
    number bigint generated always as identity primary key,
    crew text collate "C" not null,
    agent text collate "C" not null,
    broadcast bigint not null,
    attempts integer not null default 0,
    try_at bigint not null default 0,
    unique (crew, agent, broadcast)
);
create index deliveries_by_time on deliveries (try_at);

-- Who is at work in a run, and in how many runs each agent is. One row a run, because every handoff changes it: an
-- update in place, instead of a row that goes and one that comes.
create table active (
    run text collate "C" not null,
    crew text collate "C" not null,
    agents text[] collate "C" not null,
    primary key (run, crew)
) with (fillfactor = 50);
create table active_counts (
    crew text collate "C" not null,
    agent text collate "C" not null,
    runs integer not null,
    primary key (crew, agent)
) with (fillfactor = 50);

create table announced (
    crew text collate "C" not null,
    agent text collate "C" not null,
    start bigint not null,
    number integer not null,
    primary key (crew, agent)
) with (fillfactor = 60);

create table delayed (
    number bigint generated always as identity primary key,
    id text collate "C" not null unique,
    type text collate "C" not null,
    repeat_key text collate "C",
    due_at bigint not null,
    updated_at bigint not null,
    crc integer not null,
    body bytea not null
);
create unique index delayed_by_key on delayed (type, repeat_key) where repeat_key is not null;
create index delayed_by_time on delayed (due_at);

create table dead (
    number bigint generated always as identity primary key,
    id text collate "C" not null,
    crew text collate "C" not null,
    agent text collate "C" not null,
    body bytea not null,
    unique (id, crew, agent)
);

-- Usage by UTC window; `period` is empty for errors in a row. `alerted` are lines.
create table counters (
    crew text collate "C" not null,
    scope text collate "C" not null,
    period text collate "C" not null,
    start bigint not null,
    calls bigint not null,
    tokens bigint not null,
    cost bigint not null,
    errors bigint not null,
    alerted text not null,
    primary key (crew, scope, period)
) with (fillfactor = 60);

create table reservations (
    key text collate "C" primary key,
    at bigint not null,
    tokens bigint not null,
    cost_micros bigint not null,
    alerts text not null,
    exceeded text not null
);
create index reservations_by_time on reservations (at);
