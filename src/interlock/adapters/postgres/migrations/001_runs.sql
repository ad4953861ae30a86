-- Runs, their records, and who owns them. Ids are compared by bytes. No triggers and no foreign keys.

-- What identifies this store to clients that continue from a position.
create table store_identity (identity text not null);
insert into store_identity (identity) values (replace(gen_random_uuid()::text, '-', ''));

-- Processes. `connected` is since when the session lasts, `seen` is its last sign of life. One that ended or was found
-- dead is `gone`, for good.
create table owners (
    id bigint generated always as identity primary key,
    host text not null,
    pid integer not null,
    version text not null,
    connected timestamptz not null default clock_timestamp(),
    seen timestamptz not null default clock_timestamp(),
    gone boolean not null default false,
    worker boolean not null default false,  -- it claims runs that wait
    -- The newest rules and format that it can drive.
    rules integer not null,
    format integer not null,
    -- How far the clock of its machine was behind the server's at the last sign of life.
    clock_behind_ms bigint not null default 0
) with (fillfactor = 50);
-- Every process looks for silent ones with each sign of life; the rows of those that ended stay for a day.
create index owners_present on owners (id) where not gone;

create function row_crc(
    run text, root text, crew text, crew_sha text, organization text, born date, created_at bigint, continues text,
    rules integer, format integer, private boolean, owner bigint, epoch bigint, status text, reason text, agent text,
    seq bigint, updated_at bigint, calls bigint, input_tokens bigint, output_tokens bigint, cost_micros bigint,
    unpriced_calls bigint, cache_read_tokens bigint, cache_write_tokens bigint, reasoning_tokens bigint, link bytea
) returns text language sql immutable parallel safe as $$
    select md5(
        run || chr(31) || root || chr(31) || crew || chr(31) || crew_sha || chr(31) || organization
        || chr(31) || (born - date '1970-01-01')::text || chr(31) || created_at::text || chr(31) || continues
        || chr(31) || rules::text || chr(31) || format::text || chr(31) || private::text
        || chr(31) || coalesce(owner::text, '') || chr(31) || epoch::text || chr(31) || status || chr(31) || reason
        || chr(31) || agent || chr(31) || seq::text || chr(31) || updated_at::text || chr(31) || calls::text
        || chr(31) || input_tokens::text || chr(31) || output_tokens::text || chr(31) || cost_micros::text
        || chr(31) || unpriced_calls::text || chr(31) || cache_read_tokens::text
        || chr(31) || cache_write_tokens::text || chr(31) || reasoning_tokens::text || chr(31) || encode(link, 'hex')
    )
$$;

create table runs (
    number bigint generated always as identity primary key,
    run text collate "C" not null unique,
    root text collate "C" not null,
    crew text collate "C" not null,
    crew_sha text collate "C" not null,
    organization text collate "C" not null,
    born date not null,
    created_at bigint not null,
    continues text collate "C" not null,
    rules integer not null,
    format integer not null,
    private boolean not null,
    owner bigint,
    epoch bigint not null,
    status text collate "C" not null,
    reason text not null,
    agent text collate "C" not null,
    seq bigint not null,
    updated_at bigint not null,
    calls bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cost_micros bigint not null,
    unpriced_calls bigint not null,
    cache_read_tokens bigint not null,
    cache_write_tokens bigint not null,
    reasoning_tokens bigint not null,
    link bytea not null,
    -- A checksum of all other columns but the number: a flipped bit is reported as damage instead of read as data.
    crc text collate "C" generated always as (row_crc(
        run, root, crew, crew_sha, organization, born, created_at, continues, rules, format, private, owner, epoch,
        status, reason, agent, seq, updated_at, calls, input_tokens, output_tokens, cost_micros, unpriced_calls,
        cache_read_tokens, cache_write_tokens, reasoning_tokens, link
    )) stored
) with (fillfactor = 60);
-- The planner takes a plain comparison for one that few rows meet, and reads all of them; nearly all rows are intact.
create view run_rows as
    select *, coalesce(crc = row_crc(
        run, root, crew, crew_sha, organization, born, created_at, continues, rules, format, private, owner, epoch,
        status, reason, agent, seq, updated_at, calls, input_tokens, output_tokens, cost_micros, unpriced_calls,
        cache_read_tokens, cache_write_tokens, reasoning_tokens, link
    ), false) as intact
    from runs;
create index runs_by_status on runs (status, crew, number);
create index runs_by_crew on runs (crew, number);
-- What `claim_runs` chooses among: not the many that are paused for people.
create index runs_to_claim on runs (number)
    where case status when 'running' then true when 'paused' then reason = 'set_aside' end;
create index runs_by_owner on runs (owner) where owner is not null;
create index runs_unowned on runs (organization, number) where status = 'running' and owner is null;

-- The newest position of each order: no position is given twice, and all become visible in order. Each record has 2^32
-- positions for broadcasts, so more than 2^31 records would be out of order: they are refused.
create table heads (
    name text primary key,
    position bigint not null constraint no_more_than_2147483647_records check (position < 2147483648)
);
insert into heads (name, position) values ('records', 0);

-- `born` is the month in which the run began: a run is in one partition, and its records are unique there.
create table records (
    born date not null,
    run bigint not null,
    seq bigint not null,
    position bigint not null,
    crc bigint not null,
    link bytea not null,
    presence jsonb,
    body bytea not null,
    primary key (born, run, seq)
) partition by range (born);
create index records_by_position on records (position);

do $$
begin
    alter table records alter column body set compression lz4;
exception when feature_not_supported then
    null; -- a server without lz4 compresses large bodies in its own way
end
$$;

-- Makes the partition of a month. It locks out no writer: the table is made first, and attached then.
create function make_partition(p_born date) returns void
language plpgsql security definer set search_path from current as $$
declare
    month date := date_trunc('month', p_born)::date;
    name text := 'records_' || to_char(month, 'YYYYMM');
begin
    perform pg_advisory_xact_lock(1229734731, hashtext(current_schema() || '.' || name));
    if to_regclass(format('%I', name)) is not null then
        return;
    end if;
    execute format('create table %I (like records including defaults including compression)', name);
    execute format('alter table records attach partition %I for values from (%L) to (%L)',
        name, month, (month + interval '1 month')::date);
end
$$;

-- The format with which runs begin: one row from the first run on.
create table run_format (
    only_one integer primary key check (only_one = 1),
    rules integer not null,
    format integer not null
);

-- Work that one process does for all. A write of a leader compares the epoch.
create table leaders (
    name text collate "C" primary key,
    epoch bigint not null,
    owner bigint,
    candidate text not null -- which of the owner's tasks leads
);

-- Runs that a process could not drive, and when to try them again.
create table asides (
    run text collate "C" not null,
    owner bigint not null,
    reason text not null,
    at bigint not null,
    tries integer not null,
    again_at bigint not null,
    primary key (run, owner)
);

-- Providers that asked a process to wait: no process calls them until then.
create table provider_holds (server text collate "C" primary key, until bigint not null);

create table crews (sha text collate "C" primary key, body bytea not null);

create table tombstones (
    run text collate "C" primary key,
    crew text collate "C" not null,
    seq bigint not null,
    link bytea not null,
    deleted_at bigint not null
);

create table outbox (
    number bigint generated always as identity primary key,
    key text collate "C" not null unique,
    run text collate "C" not null,
    body bytea not null,
    owner bigint, -- the process that sends it
    attempts integer not null,
    due_at bigint not null
);
create index outbox_by_run on outbox (run);

create table orders (
    number bigint generated always as identity primary key,
    key text collate "C" not null unique,
    run text collate "C" not null,
    root text collate "C" not null,
    kind text not null,
    body bytea not null,
    ordered_by text not null,
    at bigint not null,
    outcome bytea not null
);
create index orders_open on orders (root) where outcome = ''::bytea;
create index orders_by_age on orders (at);
create index orders_by_run on orders (run);

create table questions (
    token text collate "C" primary key,
    run text collate "C" not null,
    since bigint not null,
    until bigint not null,
    body bytea not null,
    crc bigint not null
);
create index questions_by_run on questions (run);
create index questions_by_age on questions (since, token);
create index questions_by_deadline on questions (until) where until > 0;
-- Runs whose questions are not known yet.
create table unlisted (run text collate "C" primary key);

-- A cache of what a run has cost by agent up to this seq; the journals are authoritative.
create table spent (run text collate "C" primary key, seq bigint not null, body bytea not null, crc bigint not null);

create table approvals (
    id text collate "C" primary key,
    tool text collate "C" not null,
    run text collate "C" not null,
    at bigint not null,
    body bytea not null
);
create index approvals_by_tool on approvals (tool);
create index approvals_by_run on approvals (run);
create table revoked_approvals (
    id text collate "C" primary key,
    run text collate "C" not null,
    at bigint not null,
    body bytea not null
);
create index revoked_approvals_by_run on revoked_approvals (run);
create index revoked_approvals_by_age on revoked_approvals (at);

create table run_schedules (id text collate "C" primary key, body bytea not null);

create table requests (
    caller text collate "C" not null,
    key text collate "C" not null,
    fingerprint bytea not null,
    planned text not null,
    at bigint not null,
    status integer not null,
    body bytea not null,
    primary key (caller, key)
);
create index requests_by_age on requests (at);

create table webhook_cursors (hook text collate "C" primary key, position bigint not null);
create table webhook_letters (
    number bigint generated always as identity primary key,
    hook text collate "C" not null,
    key text collate "C" not null,
    body bytea not null,
    attempts integer not null,
    due_at bigint not null,
    dead boolean not null,
    error text not null,
    unique (hook, key)
);
create index webhook_letters_by_due on webhook_letters (dead, due_at);

create table closed_sessions (session text collate "C" primary key, until bigint not null);

-- The mark of a move to or from another store: at most one row. While there is one, only a move may open the store.
create table store_move (
    only_one boolean primary key default true check (only_one),
    move text not null,
    state text not null,
    other text not null
);
