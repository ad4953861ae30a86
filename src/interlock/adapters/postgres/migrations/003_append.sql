-- Creating runs and appending records: one statement a batch, of one process.
--
-- The lock of the store is taken first, so commits are in the order of positions, and readers never see a position
-- before a smaller one. Each transition is compared with the stored row; one that does not match is answered alone.
-- Plans are kept: planning for the arrays of each call takes as long as storing a few transitions.

create function lock_store() returns void
language sql set search_path from current as $$
    select pg_advisory_xact_lock(1229734731, hashtext(current_schema()))
$$;

-- Wakes the other processes when this transaction commits. The payload is the process that wrote, and what it is about,
-- so that a process reads only what it waits for: `bus`, `claims`, `orders` and `schedules`. One without a word is about
-- records.
--
-- A delivery waits for runs that begin or end, and an agent that wakes or sleeps is broadcast to its subscribers: so
-- these are about the bus too.
create function notify_others(p_owner bigint, p_what text default '') returns void
language sql set search_path from current as $$
    select pg_notify('interlock_' || current_schema(), coalesce(p_owner::text, '') || ' ' || p_what)
$$;

create function store_questions(p_run text, p_questions jsonb) returns void
language plpgsql set search_path from current as $$
begin
    delete from questions where run = p_run;
    delete from unlisted where run = p_run;
    insert into questions (token, run, since, until, body, crc)
        select each->>'token', each->>'run', (each->>'since')::bigint, (each->>'until')::bigint,
            decode(each->>'body', 'base64'), (each->>'crc')::bigint
        from jsonb_array_elements(p_questions) each;
end
$$;

-- The writes of a record that only the store knows of; budgets and the bus have `apply_batch`. Bodies are base64: jsonb
-- holds no NUL.
create function apply_writes(p_owner bigint, p_also jsonb) returns void
language plpgsql set search_path from current as $$
begin
    if p_also ? 'outgoing' then
        insert into outbox (key, run, body, owner, attempts, due_at)
            select each->>'key', each->>'run', decode(each->>'body', 'base64'), p_owner, 0, 0
            from jsonb_array_elements(p_also->'outgoing') each
            on conflict (key) do nothing;
    end if;
    if p_also ? 'asking' then
        perform store_questions(p_also->'asking'->>'run', p_also->'asking'->'questions');
    end if;
    if p_also ? 'approvals' then
        insert into approvals (id, tool, run, at, body)
            select each->>'id', each->>'tool', each->>'run', (each->>'at')::bigint, decode(each->>'body', 'base64')
            from jsonb_array_elements(p_also->'approvals') each
            on conflict (id) do nothing;
    end if;
    if p_also ? 'orders' then
        update orders set outcome = decode(each->>'outcome', 'base64')
            from jsonb_array_elements(p_also->'orders') each
            where orders.key = each->>'key' and orders.outcome = ''::bytea;
    end if;
end
$$;

create type transition_answer as (
    idx bigint, outcome text, seq bigint, position bigint, link bytea, detail text, grants text, on_bus text
);

-- Stores the records of runs that matched, and all that is written with them; `p_again` are answers to transitions that
-- were stored before. `p_first` is the position before the first of them.
create function store_records(
    p_idx bigint[], p_numbers bigint[], p_born date[], p_links bytea[], p_first bigint, p_again transition_answer[],
    p_seqs bigint[], p_crcs bigint[], p_bodies bytea[],
    p_presence json, p_bus json, p_lines bytea[], p_spending json, p_rules json
) returns setof transition_answer
language plpgsql set search_path from current as $$
declare
    positions bigint[];
    places integer[];
    presence jsonb[];
    grants text[];
    on_bus text[];
begin
    if p_presence is not null or p_bus is not null or p_spending is not null then
        select array_agg(stored.position order by given.idx) into positions
            from generate_series(1, cardinality(p_seqs)) as given(idx)
            left join (
                select fresh.idx, p_first + fresh.place as position
                from unnest(p_idx) with ordinality as fresh(idx, place)
                union all select again.idx, again.position from unnest(p_again) as again
            ) as stored on stored.idx = given.idx;
        select array_agg(written.place), array_agg(written.presence), array_agg(written.grants), array_agg(written.bus)
            into places, presence, grants, on_bus
            from apply_batch(
                array(select idx::integer from unnest(p_idx) as fresh(idx)
                    union all select again.idx::integer from unnest(p_again) as again where again.outcome = 'done'),
                p_idx::integer[], positions, p_presence, p_bus, p_lines, p_spending, p_rules
            ) as written;
    end if;
    insert into records (born, run, seq, position, crc, link, presence, body)
        select fresh.born, fresh.number, given.seq, p_first + fresh.place, given.crc, fresh.link, written.presence, given.body
        from unnest(p_idx, p_numbers, p_born, p_links) with ordinality as fresh(idx, number, born, link, place)
        join unnest(p_seqs, p_crcs, p_bodies) with ordinality as given(seq, crc, body, idx) on given.idx = fresh.idx
        left join unnest(places, presence) as written(place, presence) on written.place = fresh.idx
        order by fresh.place;
    return query
        select stored.idx, stored.outcome, stored.seq, stored.position, stored.link, stored.detail,
            written.grants, written.on_bus
        from (
            select fresh.idx, 'done' as outcome, null::bigint as seq, p_first + fresh.place as position, fresh.link,
                null::text as detail
            from unnest(p_idx, p_links) with ordinality as fresh(idx, link, place)
            union all select again.idx, again.outcome, again.seq, again.position, again.link, again.detail
            from unnest(p_again) as again
        ) as stored
        left join unnest(places, grants, on_bus) as written(place, grants, on_bus) on written.place = stored.idx;
end
$$;

create function append_records(
    p_owner bigint, p_runs text[], p_epochs bigint[], p_seqs bigint[], p_lasts bigint[], p_links bytea[],
    p_crcs bigint[], p_bodies bytea[], p_statuses text[], p_reasons text[], p_agents text[],
    p_updated bigint[], p_usages bigint[], p_also jsonb[],
    p_presence json, p_bus json, p_lines bytea[], p_spending json, p_rules json
) returns setof transition_answer
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan as $$
declare
    matched bigint[];
    numbers bigint[];
    months date[];
    links bytea[];
    first bigint;
    others transition_answer[] := '{}';
begin
    perform lock_store();
    with given as (
        select * from unnest(p_runs, p_epochs, p_seqs, p_lasts, p_links, p_bodies,
            p_statuses, p_reasons, p_agents, p_updated)
        with ordinality as given(run, epoch, seq, last, link, body, status, reason, agent, updated, idx)
    ), changed as (
        update runs set
            status = given.status, reason = given.reason, agent = given.agent, seq = given.last,
            updated_at = given.updated,
            calls = p_usages[given.idx * 8 - 7], input_tokens = p_usages[given.idx * 8 - 6],
            output_tokens = p_usages[given.idx * 8 - 5], cost_micros = p_usages[given.idx * 8 - 4],
            unpriced_calls = p_usages[given.idx * 8 - 3], cache_read_tokens = p_usages[given.idx * 8 - 2],
            cache_write_tokens = p_usages[given.idx * 8 - 1], reasoning_tokens = p_usages[given.idx * 8],
            link = substring(sha256(runs.link || given.body) from 1 for 16)
        from given
        where runs.run = given.run and runs.owner = p_owner and runs.epoch = given.epoch
            and runs.seq = given.seq - 1 and (given.link is null or runs.link = given.link)
        returning given.idx, runs.number, runs.born, runs.link
    ), head as (
        update heads set position = position + (select count(*) from changed) where name = 'records'
        returning position - (select count(*) from changed) as before
    )
    select coalesce(array_agg(changed.idx order by idx), '{}'), array_agg(number order by idx),
        array_agg(born order by idx), array_agg(link order by idx), max(head.before)
        into matched, numbers, months, links, first
        from changed cross join head;
    if cardinality(matched) < cardinality(p_runs) then
        select array_agg(other) into others from answer_unmatched(
            p_owner, p_runs, p_epochs, p_seqs, p_lasts, p_bodies, matched) as other;
    end if;
    -- Not with a record that was stored before: what it wrote may be changed since, as an approval that was revoked.
    perform apply_writes(p_owner, given.also)
        from unnest(p_also) with ordinality as given(also, idx)
        where given.also is not null and given.idx = any (matched);
    return query select * from store_records(
        matched, numbers, months, links, first, others, p_seqs, p_crcs, p_bodies,
        p_presence, p_bus, p_lines, p_spending, p_rules);
    perform notify_others(p_owner, case
        when p_bus is not null or 'running' <> any (p_statuses) or exists (select 1 from subscriptions) then 'bus'
        else '' end);
end
$$;

-- Answers transitions that the stored row does not match: the very record is there, or why it is refused.
create function answer_unmatched(
    p_owner bigint, p_runs text[], p_epochs bigint[], p_seqs bigint[], p_lasts bigint[], p_bodies bytea[],
    p_matched bigint[]
) returns setof transition_answer
language sql stable set search_path from current as $$
    select given.idx, case
        when runs.number is null then
            case when exists (select from tombstones where tombstones.run = given.run) then 'deleted' else 'missing' end
        when not runs.intact then 'damaged'
        when runs.epoch <> given.epoch or runs.owner is distinct from p_owner then 'fenced'
        when runs.seq = given.last and records.body = given.body then 'done'
        when runs.seq <> given.seq - 1 then 'order'
        else 'forked' end,
        runs.seq, records.position, records.link, null::text, null::text, null::text
    from unnest(p_runs, p_epochs, p_seqs, p_lasts, p_bodies)
        with ordinality as given(run, epoch, seq, last, body, idx)
    left join run_rows runs on runs.run = given.run
    left join records on records.born = runs.born and records.run = runs.number and records.seq = given.seq
    where given.idx <> all (p_matched)
    order by given.idx
$$;

-- Creates runs. `p_rows` has the columns of each run. With `p_repeated` the outcome of an earlier try is unknown: a run
-- that begins with the very record is that of the earlier try.
create function create_runs(
    p_owner bigint, p_rows jsonb, p_links bytea[], p_crcs bigint[], p_bodies bytea[], p_also jsonb[], p_repeated boolean,
    p_presence json, p_bus json, p_lines bytea[], p_spending json, p_rules json
) returns setof transition_answer
language plpgsql set search_path from current set plan_cache_mode = force_generic_plan as $$
declare
    made record;
    created bigint[] := '{}';
    numbers bigint[] := '{}';
    months date[] := '{}';
    links bytea[] := '{}';
    others transition_answer[] := '{}';
    first bigint;
    may_begin boolean;
begin
    perform lock_store();
    may_begin := is_listed(p_owner);
    for idx in 1 .. jsonb_array_length(p_rows) loop
        made := create_run(
            p_rows->(idx - 1), p_links[idx], p_bodies[idx], p_also[idx]->'heard', p_repeated, may_begin);
        if made.outcome = 'new' then
            created := created || idx::bigint;
            numbers := numbers || made.number;
            months := months || made.born;
            links := links || p_links[idx];
        else
            others := others || (
                idx, made.outcome, null, made.place, p_links[idx], made.detail, null, null)::transition_answer;
        end if;
        if p_also[idx] is not null and made.outcome = 'new' then
            perform apply_writes((p_rows->(idx - 1)->>'owner')::bigint, p_also[idx]);
        end if;
    end loop;
    if cardinality(created) > 0 and not exists (select 1 from run_format) then
        insert into run_format select 1, (p_rows->0->>'rules')::integer, (p_rows->0->>'format')::integer;
    end if;
    update heads set position = position + cardinality(created) where name = 'records'
        returning position - cardinality(created) into first;
    return query select * from store_records(
        created, numbers, months, links, first, others,
        array_fill(1::bigint, array[cardinality(p_links)]), p_crcs, p_bodies,
        p_presence, p_bus, p_lines, p_spending, p_rules);
    perform notify_others(p_owner, case
        when exists (select 1 from jsonb_array_elements(p_rows) each where each->>'owner' is null) then 'bus claims'
        else 'bus' end);
end
$$;

-- Stores the row of a run, without its record. `outcome` is `new`, `done` if it was there before, or why it is refused:
-- a process that was found dead, or whose store was moved, begins no run (`p_is_listed`).
-- Deliveries that it starts with go at once, so that no other run of the batch starts with them.
create function create_run(
    p_row jsonb, p_link bytea, p_body bytea, p_heard jsonb, p_repeated boolean, p_is_listed boolean,
    out outcome text, out number bigint, out born date, out place bigint, out detail text
)
language plpgsql set search_path from current as $$
declare
    made runs;
begin
    if p_repeated then
        select records.position into place from runs join records
            on records.born = runs.born and records.run = runs.number and records.seq = 1
            where runs.run = p_row->>'run' and records.body = p_body;
        if place is not null then
            outcome := 'done';
            return;
        end if;
    end if;
    if not p_is_listed then
        outcome := 'fenced';
        return;
    end if;
    if p_heard is not null then
        detail := first_not_queued(p_heard);
    end if;
    if detail is not null then
        outcome := 'heard';
        return;
    end if;
    outcome := 'exists';
    if exists (select 1 from tombstones where run = p_row->>'run') then
        return;
    end if;
    made := jsonb_populate_record(null::runs, p_row);
    insert into runs (
        run, root, crew, crew_sha, organization, born, created_at, continues, rules, format, private, owner, epoch,
        status, reason, agent, seq, updated_at, calls, input_tokens, output_tokens, cost_micros, unpriced_calls,
        cache_read_tokens, cache_write_tokens, reasoning_tokens, link
    ) values (
        made.run, made.root, made.crew, made.crew_sha, made.organization, made.born, made.created_at, made.continues,
        made.rules, made.format, made.private, made.owner, made.epoch, made.status, made.reason, made.agent, made.seq,
        made.updated_at, made.calls, made.input_tokens, made.output_tokens, made.cost_micros, made.unpriced_calls,
        made.cache_read_tokens, made.cache_write_tokens, made.reasoning_tokens, p_link
    ) on conflict (run) do nothing returning * into made;
    if made.number is null then
        return;
    end if;
    outcome := 'new';
    number := made.number;
    born := made.born;
    delete from deliveries using jsonb_array_elements(p_heard) as told where deliveries.number = (told->>0)::bigint;
end
$$;
