-- Which process owns a run, which is alive, and which leads.
--
-- A process is dead if its sign of life is older than 1.5 s, its lock can be had, and the asker has been connected for
-- 2 s: after a restart of the server every process has time to come back. All times are those of the server.

create function owner_lock_class() returns integer
language sql immutable set search_path from current as $$
    select hashtext('interlock owner ' || current_schema())
$$;

-- Whether a process is gone. One that is found dead leaves runs, orders and leaderships behind: all others are woken,
-- the asker too.
create function is_gone(p_id bigint, p_me bigint) returns boolean
language plpgsql set search_path from current as $$
declare
    other owners;
begin
    select * into other from owners where id = p_id;
    if other.id is null or other.gone then
        return true;
    end if;
    if other.id = p_me or other.seen > clock_timestamp() - interval '1.5 s' then
        return false;
    end if;
    if not exists (
        select 1 from owners where id = p_me and not gone and connected < clock_timestamp() - interval '2 s'
    ) or not pg_try_advisory_xact_lock(owner_lock_class(), p_id::integer) then
        return false;
    end if;
    update owners set gone = true where id = p_id and seen <= clock_timestamp() - interval '1.5 s';
    if not found then
        return false;
    end if;
    perform notify_others(p_id, 'claims orders');
    return true;
end
$$;

-- Whether a process may take anything: it is listed, and nobody has found it dead. Rows of the dead are deleted after a
-- day, so one that wakes later has none.
create function is_listed(p_me bigint) returns boolean
language sql stable set search_path from current as $$
    select exists (select 1 from owners where id = p_me and not gone)
$$;

-- Asks the same as `is_gone`, and changes nothing.
create function seems_gone(p_id bigint) returns boolean
language sql stable set search_path from current as $$
    select not exists (
        select 1 from owners where id = p_id and not gone and (
            seen > clock_timestamp() - interval '1.5 s' or exists (
                select 1 from pg_locks where locktype = 'advisory' and granted and objsubid = 2
                and database = (select oid from pg_database where datname = current_database())
                and classid = (owner_lock_class()::bigint & 4294967295)::oid and objid = p_id::oid))
    )
$$;

create function claim_run(
    p_run text, p_me bigint, out outcome text, out epoch bigint, out link bytea, out owner bigint
)
language plpgsql set search_path from current as $$
declare
    found_row run_rows;
begin
    perform 1 from runs where runs.run = p_run for update;
    select * into found_row from run_rows where run_rows.run = p_run;
    owner := found_row.owner;
    if found_row.number is null then
        outcome := case when exists (select 1 from tombstones where tombstones.run = p_run)
            then 'deleted' else 'missing' end;
    elsif not found_row.intact then
        outcome := 'damaged';
    elsif found_row.owner <> p_me and not is_gone(found_row.owner, p_me) then
        outcome := 'owned';
    elsif not is_listed(p_me) then
        outcome := 'fenced';
    else
        update runs set owner = p_me, epoch = runs.epoch + 1 where number = found_row.number
            returning runs.epoch, runs.link into epoch, link;
        outcome := 'done';
    end if;
end
$$;

-- Claims runs that wait for a driver, in the order that the port `Owners` tells: runs that are driven
-- already count as turns, and a turn counts less with the weight of its organization. Owners that are dead are marked
-- first.
create function claim_runs(
    p_me bigint, p_limit bigint, p_rules bigint, p_format bigint, p_at bigint, p_crews text[], p_organizations text[],
    p_driven text[], p_weights jsonb
) returns table (run text, epoch bigint, link bytea)
language plpgsql set search_path from current as $$
#variable_conflict use_column
declare
    chosen bigint[];
begin
    -- One claim at a time: two that choose among the same runs would share them badly.
    perform pg_advisory_xact_lock(1229734731, hashtext(current_schema() || ' claims'));
    perform is_gone(id, p_me) from owners where not gone and seen < clock_timestamp() - interval '1.5 s';
    if not is_listed(p_me) then
        return;
    end if;
    with waiting as (
        select number, organization, crew from runs
        -- As in the index `runs_to_claim`.
        where case status when 'running' then true when 'paused' then reason = 'set_aside' end
            and (owner is null or owner = p_me and run <> all (p_driven)
                or owner <> p_me and not exists (select 1 from owners where id = runs.owner and not gone))
            and root = run and not private and rules <= p_rules and format <= p_format
            and (p_crews is null or crew = any (p_crews))
            and (p_organizations is null or organization = any (p_organizations))
            and not exists (
                select 1 from asides where asides.run = runs.run and asides.owner = p_me
                    and at <= p_at and again_at > p_at)
            -- Last, because it is slow: a sum over the row.
            and (select intact from run_rows where run_rows.number = runs.number)
    ), driven as (
        select organization, crew, count(*) as runs from runs
        where status = 'running' and root = run and owner is not null and exists (select 1 from waiting)
            and exists (select 1 from owners where id = runs.owner and not gone)
        group by organization, crew
    ), of_crew as (
        select number, organization, crew,
            row_number() over (partition by organization, crew order by number)
                + coalesce((
                    select runs from driven
                    where driven.organization = waiting.organization and driven.crew = waiting.crew), 0) as turn,
            min(number) over (partition by organization, crew) as oldest_of_crew,
            min(number) over (partition by organization) as oldest
        from waiting
    ), of_organization as (
        select number, oldest,
            (row_number() over (partition by organization order by turn, oldest_of_crew) - 1
                + coalesce((
                    select sum(runs) from driven where driven.organization = of_crew.organization), 0)
            )::double precision / coalesce((p_weights->>organization)::double precision, 1) as turn
        from of_crew
    )
    select array_agg(number order by turn, oldest) into chosen
        from (select * from of_organization order by turn, oldest limit p_limit) first_ones;
    return query
        with free as (
            select number from runs where number = any (chosen)
                and (owner is null or owner = p_me or not exists (select 1 from owners where id = runs.owner and not gone))
            for update skip locked
        ), changed as (
            update runs set owner = p_me, epoch = epoch + 1 from free where runs.number = free.number
            returning runs.number, runs.run, runs.epoch, runs.link
        )
        select run, epoch, link from changed order by array_position(chosen, number);
end
$$;

create function release_runs(p_runs text[], p_me bigint) returns void
language plpgsql set search_path from current as $$
declare
    released text[];
    words text;
begin
    with changed as (
        update runs set owner = null where run = any (p_runs) and owner = p_me
        returning run, status = 'running' or reason = 'set_aside' as waits
    )
    select array_agg(run), case when bool_or(waits) then 'claims' else '' end into released, words from changed;
    if released is null then
        return;
    end if;
    if exists (select 1 from orders where outcome = ''::bytea and (run = any (released) or root = any (released))) then
        words := words || ' orders';
    end if;
    perform notify_others(p_me, words);
end
$$;

-- Makes a candidate of a process the leader of a name, and returns its epoch; null while another one leads.
create function try_lead(p_name text, p_me bigint, p_candidate text) returns bigint
language plpgsql set search_path from current as $$
declare
    present leaders;
begin
    insert into leaders (name, epoch, owner, candidate) values (p_name, 0, null, '') on conflict (name) do nothing;
    select * into present from leaders where name = p_name for update;
    if present.owner = p_me and present.candidate = p_candidate then
        return present.epoch;
    end if;
    if not is_listed(p_me) or present.owner is not null and not is_gone(present.owner, p_me) then
        return null;
    end if;
    update leaders set epoch = epoch + 1, owner = p_me, candidate = p_candidate where name = p_name;
    return present.epoch + 1;
end
$$;

create function stop_leading(p_name text, p_epoch bigint, p_me bigint) returns void
language plpgsql set search_path from current as $$
begin
    update leaders set owner = null where name = p_name and epoch = p_epoch;
    if found then
        perform notify_others(p_me, 'claims');
    end if;
end
$$;
