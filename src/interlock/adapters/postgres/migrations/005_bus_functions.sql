-- The rules of the bus, for what goes with an append: a batch of transitions stays one statement. The rules in Python
-- (`store_rules/bus_rules.py`) are the reference; tests compare both on random histories.
-- What may change without a new schema (limits, texts) comes with each call, in `p_rules`.

-- The crc32 of zlib. Servers before 18 have none; it is used only for what is made here: broadcasts of presence.
create function crc32_of(p_body bytea) returns integer
language plpgsql immutable parallel safe as $$
declare
    v_crc bigint := 4294967295;
begin
    for v_place in 0 .. length(p_body) - 1 loop
        v_crc := v_crc # get_byte(p_body, v_place);
        for v_bit in 1 .. 8 loop
            v_crc := (v_crc >> 1) # (3988292384 * (v_crc & 1));
        end loop;
    end loop;
    return (v_crc # 4294967295)::bit(32)::integer;
end
$$;

-- A crc is mixed with the position, so that a body that ends up at another position is noticed.
create function salted_crc(p_crc integer, p_position bigint) returns integer
language sql immutable parallel safe as $$
    select p_crc # p_position::bit(32)::integer # (p_position >> 32)::bit(32)::integer
$$;

-- Whether a subscription with these segments receives a type with those: `*` is exactly one segment.
create function hears(p_segments text[], p_kind text[]) returns boolean
language plpgsql immutable parallel safe as $$
begin
    if cardinality(p_segments) <> cardinality(p_kind) then
        return false;
    end if;
    for v_place in 1 .. cardinality(p_kind) loop
        if p_segments[v_place] <> '*' and p_segments[v_place] <> p_kind[v_place] then
            return false;
        end if;
    end loop;
    return true;
end
$$;

-- The subscribers of a type without its sender, by name. One that has any subscription that is not silent is not.
create function subscribers_of(p_kind text[], p_crew text, p_agent text)
returns table (crew text, agent text, silent boolean)
language sql stable as $$
    select s.crew, s.agent, bool_and(s.silent) from subscriptions s
    where cardinality(p_kind) > 0 and cardinality(s.segments) = cardinality(p_kind)
        and s.segments[1] in ('*', p_kind[1]) and hears(s.segments, p_kind)
        and (p_agent = '' or (s.crew, s.agent) <> (p_crew, p_agent))
    group by s.crew, s.agent order by s.crew, s.agent
$$;

create function presence_type(p_agent text, p_begins boolean) returns text
language sql immutable parallel safe as $$
    select concat('agent:', p_agent, case when p_begins then ':wake' else ':sleep' end)
$$;

-- The id of the first broadcast in `[[number, id], ...]` whose delivery is not queued any more; null if all are.
create function first_not_queued(p_heard jsonb) returns text
language sql stable as $$
    select heard.told ->> 1 from jsonb_array_elements(p_heard) with ordinality as heard (told, place)
    where not exists (
        select from deliveries d join broadcasts b on b.position = d.broadcast
        where d.number = (heard.told ->> 0)::bigint and b.id = heard.told ->> 1
    )
    order by heard.place limit 1
$$;

-- Presence

-- Notes who ended and began work, in order. Answers by place: who turned (woke or slept), by number in the transition,
-- and whether anybody hears of it. Set-based: nearly every transition has presence, and nearly none anything else.
create function change_presence(p_presence json, p_fresh integer[])
returns table (place integer, turned integer[], is_heard boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    -- One plan for all calls: planning this anew takes several times as long as one transition.
    return query
    with entry as materialized (
        select t.place, t.crew, t.run, each.agent, each.n - 1 as n, each.n > t.ended as begins, a.agents as known
        from json_to_recordset(p_presence) as t (place integer, crew text, run text, agents text[], ended integer)
        cross join unnest(t.agents) with ordinality as each (agent, n)
        left join active a on a.run = t.run and a.crew = t.crew
        where t.place = any (p_fresh)
    ), changed as materialized (
        -- Whether it was at work in this run: by what the batch said last, else by the table.
        select e.*, case e.begins::integer - coalesce(
            lag(e.begins) over (partition by e.crew, e.run, e.agent order by e.place, e.n), e.agent = any (e.known), false
        )::integer when 1 then 1 when -1 then -1 else 0 end as delta from entry e
    ), counted as (
        select c.*, coalesce(k.runs, 0) + sum(c.delta) over (partition by c.crew, c.agent order by c.place, c.n) as runs
        from changed c left join active_counts k on k.crew = c.crew and k.agent = c.agent
    ), turned as (
        select c.*, (c.delta = 1 and c.runs = 1) or (c.delta = -1 and c.runs = 0) as has_turned from counted c
    ), last as (
        select distinct on (c.crew, c.run, c.agent) c.crew, c.run, c.agent, c.begins, c.known from changed c
        order by c.crew, c.run, c.agent, c.place desc, c.n desc
    ), by_run as (
        select l.crew, l.run, min(l.known) as known, array_agg(l.agent) as agents,
            coalesce(array_agg(l.agent) filter (where l.begins), '{}') as begun
        from last l group by l.crew, l.run
    ), now_active as materialized (
        select r.crew, r.run, array(
            select k from unnest(r.known) k where k <> all (r.agents) union all select unnest(r.begun) order by 1
        ) as agents from by_run r
    ), kept as (
        insert into active (run, crew, agents) select n.run, n.crew, n.agents from now_active n where n.agents <> '{}'
        on conflict (run, crew) do update set agents = excluded.agents
    ), dropped as (
        delete from active a using now_active n where n.agents = '{}' and a.run = n.run and a.crew = n.crew
    ), recounted as (
        insert into active_counts (crew, agent, runs)
        select c.crew, c.agent, sum(c.delta) from changed c group by c.crew, c.agent having sum(c.delta) <> 0
        on conflict (crew, agent) do update set runs = active_counts.runs + excluded.runs
    ), listens as materialized (
        select exists (select from subscriptions) as anybody
    )
    select t.place, coalesce(array_agg(t.n::integer order by t.n) filter (where t.has_turned), '{}'),
        bool_or(case when t.has_turned and l.anybody then exists (
            select from subscribers_of(string_to_array(presence_type(t.agent, t.begins), ':'), t.crew, t.agent)
        ) else false end)
    from turned t cross join listens l group by t.place;
end
$$;

-- The column `presence` of a record whose events do not tell all: its time, who ended, who began, and the numbers of
-- those of whom there is nothing to derive.
create function presence_column(p_at bigint, p_agents text[], p_ended integer, p_turned integer[]) returns jsonb
language sql immutable as $$
    select jsonb_build_array(p_at, p_agents[: p_ended], p_agents[p_ended + 1 :], (
        select coalesce(jsonb_agg(n order by n), '[]')
        from generate_series(0, cardinality(p_agents) - 1) n where n <> all (p_turned)
    ))
$$;
