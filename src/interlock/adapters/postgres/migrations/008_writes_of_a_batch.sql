-- Everything that goes with the records of a batch, but outbox, questions, approvals and orders: budgets, the bus and
-- presence. It refuses nothing: a transition that is in `p_applied` is stored already, or will be in this statement.

-- The writes of transitions, in order. `p_heard` is the presence that somebody hears of. A place that is not in `p_fresh`
-- has a record that was stored before, or none: only what has an answer is done again (`AtomicWrites.to_repeat`).
create function apply_bus(
    p_bus json, p_bodies bytea[], p_heard json, p_applied integer[], p_fresh integer[], p_positions bigint[], p_rules json
) returns table (place integer, answer json)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v record;
    v_each record;
    v_done record;
    v_last bigint;
    v_mail json[];
    v_reached json[];
    v_withheld json[];
    v_news boolean;
    v_has_dead boolean := false;
begin
    select greatest(coalesce((select max(position) from broadcasts), 0), coalesce((select max(position) from lifecycle), 0))
    into v_last;
    for v in
        select coalesce(b.place, h.place) as place, b.heard, b.taken, b.put_back, b.handed_back, b.taking, b.emissions,
            h.crew, h.at, h.series, h.agents, h.hops, h.ended, h.turned
        from json_to_recordset(coalesce(p_bus, '[]')) as b (
            place integer, heard json, taken text[], put_back text[], handed_back json, taking json, emissions json
        )
        full join json_to_recordset(coalesce(p_heard, '[]')) as h (
            place integer, crew text, at bigint, series text, agents text[], hops integer[], ended integer, turned integer[]
        ) on h.place = b.place
        where coalesce(b.place, h.place) = any (p_applied)
        order by 1
    loop
        v_mail := '{}';
        v_reached := '{}';
        v_withheld := '{}';
        v_news := false;
        if v.place = any (p_fresh) then
            delete from deliveries d using json_array_elements(v.heard) as told, broadcasts b
            where d.number = (told ->> 0)::bigint and b.position = d.broadcast and b.id = told ->> 1;
            delete from inbox i where i.taken = any (v.taken);
            perform unclaim_inbox(key) from unnest(v.put_back) as key;
            insert into deliveries (crew, agent, broadcast)
            select back.told ->> 0, back.told ->> 1, b.position
            from json_array_elements(v.handed_back) with ordinality as back (told, n)
            join broadcasts b on b.id = back.told ->> 2 order by back.n
            on conflict (crew, agent, broadcast) do nothing;
        end if;
        for v_each in select told ->> 0 as key, told ->> 1 as crew, told ->> 2 as agent
            from json_array_elements(v.taking) as told
        loop
            v_mail := v_mail || claim_inbox(v_each.key, v_each.crew, v_each.agent, (p_rules ->> 'taken_max')::integer);
        end loop;
        if v.place = any (p_fresh) then
            v_last := greatest(v_last, p_positions[v.place] << 32);
        else
            -- After all that came with the newest record: nothing is stored before what readers may have read.
            v_last := greatest(v_last, (
                select (newest.position << 32) + (1::bigint << 31) from (
                    select coalesce(
                        max(p_positions[fresh]) filter (where fresh < v.place), min(p_positions[fresh]) - 1,
                        (select position from heads where name = 'records')
                    ) as position from unnest(p_fresh) as fresh
                ) as newest where newest.position > 0
            ));
        end if;
        for v_each in
            select e.*, p_bodies[e.body] as line from json_to_recordset(v.emissions) as e (
                id text, body integer, crc integer, hops integer, crew text, agent text, counted text, told text[],
                kind text[], at bigint
            )
            union all select * from broadcasts_of_presence(
                v.crew, v.at, v.series, v.agents, v.hops, v.ended, v.turned
            )
        loop
            if v_each.body is null and v_last < (p_positions[v.place] << 32) + (1 << 30) - cardinality(v.turned) then
                -- Presence has the positions at which it would be derived if nobody heard of it.
                v_last := (p_positions[v.place] << 32) + (1 << 30) - cardinality(v.turned);
            end if;
            v_done := announce(
                v_each.id, v_each.line, v_each.crc, v_each.hops, v_each.crew, v_each.agent, v_each.counted, v_each.told,
                v_each.kind, v_each.at, p_rules, v_last
            );
            v_last := v_done.last_position;
            v_news := v_news or v_done.is_new;
            v_has_dead := v_has_dead or v_done.has_dead;
            if v_done.refusal <> '' then
                v_withheld := v_withheld || json_build_array(v_each.id, v_done.refusal);
            elsif v_done.reached is not null then
                v_reached := v_reached || array(select json_array_elements(v_done.reached));
            end if;
        end loop;
        place := v.place;
        answer := json_build_object('mail', v_mail, 'reached', v_reached, 'withheld', v_withheld, 'news', v_news);
        return next;
    end loop;
    if v_has_dead then
        perform trim_dead_letters((p_rules ->> 'dead_max')::integer);
    end if;
end
$$;

-- The broadcasts of those who woke and slept with one record, as the emissions of `apply_bus`, without a body.
create function broadcasts_of_presence(
    p_crew text, p_at bigint, p_series text, p_agents text[], p_hops integer[], p_ended integer, p_turned integer[]
) returns table (
    id text, body integer, crc integer, hops integer, crew text, agent text, counted text, told text[], kind text[],
    at bigint, line bytea
)
language sql immutable as $$
    select made.id, null::integer, crc32_of(made.line), made.hops, p_crew, made.agent,
        case when made.agent = '' then '' else made.agent || ':' end, '{}'::text[], string_to_array(made.type, ':'), p_at, made.line
    from (
        select named.*, convert_to(concat(
            '{"id":', to_json(named.id), ',"type":', to_json(named.type), ',"source":{"type":"system"},"createdAt":', p_at, '}'
        ), 'UTF8') as line
        from (
            select n, p_agents[n + 1] as agent, p_hops[n + 1] as hops, p_series || lpad(to_hex(n), 4, '0') as id,
                presence_type(p_agents[n + 1], n >= p_ended) as type
            from unnest(p_turned) as n
        ) named
    ) made
    order by made.n
$$;

-- `p_applied` are the places in the batch (from 1) whose record is stored, `p_fresh` those whose record is new, and
-- `p_positions` their positions, by place. A row for each place with an answer; `presence` is the column of its record.
create function apply_batch(
    p_applied integer[], p_fresh integer[], p_positions bigint[],
    p_presence json, p_bus json, p_bodies bytea[], p_spending json, p_rules json
) returns table (place integer, presence jsonb, grants text, bus text)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_places integer[];
    v_presence jsonb[];
    v_turned boolean[];
    v_heard json;
begin
    if p_presence is not null then
        with present as (
            select t.*, c.turned, c.is_heard from change_presence(p_presence, p_fresh) c
            join json_to_recordset(p_presence) as t (
                place integer, crew text, at bigint, told boolean, series text, agents text[], hops integer[], ended integer
            ) on t.place = c.place
        )
        select array_agg(p.place), array_agg(
                case when p.is_heard or cardinality(p.turned) = 0 then null
                    when p.told and cardinality(p.turned) = cardinality(p.agents) then to_jsonb(1)
                    else presence_column(p.at, p.agents, p.ended, p.turned) end
            ), array_agg(cardinality(p.turned) > 0), json_agg(p) filter (where p.is_heard)
        into v_places, v_presence, v_turned, v_heard from present p;
    end if;
    if p_bus is null and v_heard is null and p_spending is null then
        -- Nearly always.
        return query select p.place, p.presence, null::text, case when p.turned then '{"news":true}' end
        from unnest(v_places, v_presence, v_turned) as p (place, presence, turned);
        return;
    end if;
    return query
    with granted as materialized (
        select g.place, g.grants from apply_spending(p_spending, p_applied) g where p_spending is not null
    ), told as materialized (
        select b.place, b.answer from apply_bus(p_bus, p_bodies, v_heard, p_applied, p_fresh, p_positions, p_rules) b
        where p_bus is not null or v_heard is not null
    ), present as (
        select p.* from unnest(v_places, v_presence, v_turned) as p (place, presence, turned)
    )
    select every.place, p.presence, g.grants::text, case
        when t.answer is null and p.turned then '{"news":true}'
        when p.turned and not (t.answer ->> 'news')::boolean and p.presence is not null
            then (t.answer::jsonb || jsonb '{"news":true}')::text
        else t.answer::text end
    from unnest(p_applied) as every (place)
    left join present p on p.place = every.place
    left join granted g on g.place = every.place
    left join told t on t.place = every.place
    where p.place is not null or g.place is not null or t.place is not null;
end
$$;
