-- The rules of budgets wider than a run, for what goes with an append. The rules in Python
-- (`store_rules/budget_rules.py`) are the reference; tests compare both on random histories.
-- All counters of a batch are read by one statement and written by one; between them orders are applied in memory, one
-- after the other, because each depends on those before it.

-- Whether a call of this estimate may be made; `p_spent` includes what is reserved.
create function has_room(p_most bigint, p_spent bigint, p_estimate bigint) returns boolean
language sql immutable parallel safe as $$
    select p_spent < p_most and (p_estimate > p_most or p_spent + p_estimate <= p_most)
$$;

create function amount_of(p_what text, p_tokens bigint, p_cost bigint) returns bigint
language sql immutable parallel safe as $$
    select case p_what when 'calls' then 1 when 'tokens' then p_tokens when 'cost' then p_cost else 0 end
$$;

-- `p_spending` is an object: `counters` ([crew, scope, period, milliseconds of the period]), `keys` of reservations, and
-- `orders`, which name both by number. `at` is the time of the caller, which takes it from the store.
create function apply_spending(p_spending json, p_applied integer[]) returns table (place integer, grants json)
language plpgsql as $$
declare
    v_crew text[];
    v_scope text[];
    v_period text[];
    v_length bigint[];
    v_start bigint[];
    v_calls bigint[];
    v_tokens bigint[];
    v_cost bigint[];
    v_errors bigint[];
    v_alerted text[];
    v_is_changed boolean[];
    v_keys text[];
    v_held_at bigint[];
    v_held_tokens bigint[];
    v_held_cost bigint[];
    v_held_alerts text[];
    v_held_exceeded text[];
    v_expired bigint;
    v_oldest bigint;
    v_more_calls bigint;
    v_more_tokens bigint;
    v_more_cost bigint;
    v_more_errors integer;
    v_order record;
    v_limit record;
    v_at bigint;
    v_grant json;
    v_alerts text[];
    v_exceeded text[];
    v_used bigint;
    v_left bigint;
    v_window bigint;
    v_counter integer;
    v_is_stale boolean;
    v_is_refused boolean;
    v_answers json[] := '{}';
    v_place integer := 0;
begin
    select array_agg(given ->> 0 order by n), array_agg(given ->> 1 order by n), array_agg(given ->> 2 order by n),
        array_agg((given ->> 3)::bigint order by n), array_agg(coalesce(c.start, 0) order by n),
        array_agg(coalesce(c.calls, 0) order by n), array_agg(coalesce(c.tokens, 0) order by n),
        array_agg(coalesce(c.cost, 0) order by n), array_agg(coalesce(c.errors, 0) order by n),
        array_agg(coalesce(c.alerted, '') order by n), array_agg(false)
    into v_crew, v_scope, v_period, v_length, v_start, v_calls, v_tokens, v_cost, v_errors, v_alerted, v_is_changed
    from json_array_elements(p_spending -> 'counters') with ordinality as counter (given, n)
    left join counters c on c.crew = given ->> 0 and c.scope = given ->> 1 and c.period = given ->> 2;
    select array_agg(given order by n), array_agg(r.at order by n), array_agg(r.tokens order by n),
        array_agg(r.cost_micros order by n), array_agg(r.alerts order by n), array_agg(r.exceeded order by n), min(r.at)
    into v_keys, v_held_at, v_held_tokens, v_held_cost, v_held_alerts, v_held_exceeded, v_oldest
    from json_array_elements_text(p_spending -> 'keys') with ordinality as key (given, n)
    left join reservations r on r.key = given;

    for v_order in
        select o.* from json_to_recordset(p_spending -> 'orders') as o (
            place integer, key integer, is_settlement boolean, at bigint, tokens bigint, cost bigint, newest integer,
            limits json, trials json, adds integer[], calls bigint, is_known boolean, has_failed boolean, circuits integer[]
        ) where o.place = any (p_applied)
    loop
        if v_order.place <> v_place then
            if v_place > 0 then
                place := v_place;
                grants := array_to_json(v_answers);
                return next;
            end if;
            v_place := v_order.place;
            v_answers := '{}';
        end if;

        if v_order.is_settlement then
            v_at := v_held_at[v_order.key];
            if v_at is null then
                continue;
            end if;
            v_held_at[v_order.key] := null;
            if not v_order.is_known then
                continue;
            end if;
            if v_order.calls <> 0 then
                foreach v_counter in array v_order.circuits loop
                    v_errors[v_counter] := case when v_order.has_failed then v_errors[v_counter] + 1 else 0 end;
                    v_alerted[v_counter] := case when v_order.has_failed then v_alerted[v_counter] else '' end;
                    v_start[v_counter] := v_order.at;
                    v_is_changed[v_counter] := true;
                end loop;
            end if;
            v_more_calls := v_order.calls - 1;
            v_more_tokens := v_order.tokens - v_held_tokens[v_order.key];
            v_more_cost := v_order.cost - v_held_cost[v_order.key];
            v_more_errors := v_order.has_failed::integer;
        else
            if v_held_at[v_order.key] is not null then
                v_answers := v_answers || json_build_object(
                    'alerts', string_to_array(v_held_alerts[v_order.key], E'\n'),
                    'exceeded', string_to_array(v_held_exceeded[v_order.key], E'\n')
                );
                continue;
            end if;
            v_at := greatest(v_order.at, v_start[v_order.newest]);
            v_grant := null;
            for v_limit in
                select l.* from json_to_recordset(v_order.limits) as l (
                    counter integer, name text, label text, what text, most bigint, alert bigint, "then" text, above integer
                ) where l."then" <> 'warn'
            loop
                v_counter := v_limit.counter;
                v_is_stale := v_length[v_counter] > 0 and v_start[v_counter] < v_at - v_at % v_length[v_counter];
                v_used := case when v_is_stale then 0 else case v_limit.what
                    when 'calls' then v_calls[v_counter] when 'tokens' then v_tokens[v_counter]
                    when 'cost' then v_cost[v_counter] else v_errors[v_counter] end end;
                if v_length[v_counter] = 0 then
                    v_left := v_start[v_counter] + 60000 - v_at;
                    v_is_refused := v_errors[v_counter] >= v_limit.most and v_left > 0;
                else
                    v_left := case when v_is_stale then v_at - v_at % v_length[v_counter] else v_start[v_counter] end
                        + v_length[v_counter] - v_at;
                    v_is_refused := not case v_limit.what when 'errors' then v_used < v_limit.most
                        else has_room(v_limit.most, v_used, amount_of(v_limit.what, v_order.tokens, v_order.cost)) end;
                end if;
                if v_is_refused then
                    v_grant := json_build_object(
                        'refused', v_limit.label, 'what', v_limit.what, 'then', v_limit."then", 'wait_ms', v_left,
                        'above', v_limit.above, 'most', v_limit.most, 'used', v_used
                    );
                    exit;
                end if;
            end loop;
            if v_grant is not null then
                v_answers := v_answers || v_grant;
                continue;
            end if;

            v_alerts := '{}';
            v_exceeded := '{}';
            -- Limits that only warn come first, then the alerts; each once a window.
            for v_limit in
                select l.*, pass = 1 as is_alert, case pass when 0 then l.name || ' exceeded' else l.name end as note
                from generate_series(0, 1) as pass, json_to_recordset(v_order.limits) as l (
                    counter integer, name text, label text, what text, most bigint, alert bigint, "then" text, above integer, n integer
                )
                where case pass when 0 then l."then" = 'warn' and l.alert is distinct from l.most else l.alert is not null end
                order by pass, l.n
            loop
                v_counter := v_limit.counter;
                v_is_stale := v_length[v_counter] > 0 and v_start[v_counter] < v_at - v_at % v_length[v_counter];
                v_used := case when v_is_stale then 0 else case v_limit.what
                    when 'calls' then v_calls[v_counter] when 'tokens' then v_tokens[v_counter]
                    when 'cost' then v_cost[v_counter] else v_errors[v_counter] end end
                    + amount_of(v_limit.what, v_order.tokens, v_order.cost);
                if v_used < v_limit.alert and v_limit.is_alert or v_used <= v_limit.most and not v_limit.is_alert then
                    continue;
                end if;
                if v_is_stale then
                    v_start[v_counter] := v_at - v_at % v_length[v_counter];
                    v_calls[v_counter] := 0;
                    v_tokens[v_counter] := 0;
                    v_cost[v_counter] := 0;
                    v_errors[v_counter] := 0;
                    v_alerted[v_counter] := '';
                end if;
                if v_limit.note = any (string_to_array(v_alerted[v_counter], E'\n')) then
                    continue;
                end if;
                v_alerted[v_counter] := concat_ws(E'\n', nullif(v_alerted[v_counter], ''), v_limit.note);
                v_is_changed[v_counter] := true;
                if v_limit.is_alert then
                    v_alerts := v_alerts || v_limit.label;
                else
                    v_exceeded := v_exceeded || v_limit.label;
                end if;
            end loop;
            for v_limit in
                select (t ->> 0)::integer as counter, (t ->> 1)::bigint as most from json_array_elements(v_order.trials) as t
            loop
                if v_errors[v_limit.counter] >= v_limit.most then
                    v_start[v_limit.counter] := v_at;
                    v_is_changed[v_limit.counter] := true;
                end if;
            end loop;
            -- Every window of a reservation is over after two days.
            v_expired := greatest(v_expired, v_at - 172800000);
            if v_oldest < v_at - 172800000 then
                select array_agg(case when held.at >= v_at - 172800000 then held.at end order by n), min(held.at) filter (where held.at >= v_at - 172800000)
                into v_held_at, v_oldest from unnest(v_held_at) with ordinality as held (at, n);
            end if;
            v_oldest := least(v_oldest, v_at);
            v_held_at[v_order.key] := v_at;
            v_held_tokens[v_order.key] := v_order.tokens;
            v_held_cost[v_order.key] := v_order.cost;
            v_held_alerts[v_order.key] := array_to_string(v_alerts, E'\n');
            v_held_exceeded[v_order.key] := array_to_string(v_exceeded, E'\n');
            v_answers := v_answers || json_build_object('alerts', v_alerts, 'exceeded', v_exceeded);
            v_more_calls := 1;
            v_more_tokens := v_order.tokens;
            v_more_cost := v_order.cost;
            v_more_errors := 0;
        end if;

        foreach v_counter in array v_order.adds loop
            v_window := v_at - v_at % v_length[v_counter];
            if v_start[v_counter] > v_window then
                continue; -- that window was over before the call was
            end if;
            if v_start[v_counter] < v_window then
                v_start[v_counter] := v_window;
                v_calls[v_counter] := 0;
                v_tokens[v_counter] := 0;
                v_cost[v_counter] := 0;
                v_errors[v_counter] := 0;
                v_alerted[v_counter] := '';
            end if;
            v_calls[v_counter] := v_calls[v_counter] + v_more_calls;
            v_tokens[v_counter] := v_tokens[v_counter] + v_more_tokens;
            v_cost[v_counter] := v_cost[v_counter] + v_more_cost;
            v_errors[v_counter] := v_errors[v_counter] + v_more_errors;
            v_is_changed[v_counter] := true;
        end loop;
    end loop;
    if v_place > 0 then
        place := v_place;
        grants := array_to_json(v_answers);
        return next;
    end if;

    insert into counters (crew, scope, period, start, calls, tokens, cost, errors, alerted)
    select c.crew, c.scope, c.period, c.start, c.calls, c.tokens, c.cost, c.errors, c.alerted
    from unnest(v_crew, v_scope, v_period, v_start, v_calls, v_tokens, v_cost, v_errors, v_alerted, v_is_changed)
        as c (crew, scope, period, start, calls, tokens, cost, errors, alerted, is_changed)
    where c.is_changed
    on conflict (crew, scope, period) do update set start = excluded.start, calls = excluded.calls,
        tokens = excluded.tokens, cost = excluded.cost, errors = excluded.errors, alerted = excluded.alerted;
    delete from reservations r using unnest(v_keys, v_held_at) as held (key, at) where r.key = held.key and held.at is null;
    delete from reservations where at < v_expired;
    insert into reservations (key, at, tokens, cost_micros, alerts, exceeded)
    select held.* from unnest(v_keys, v_held_at, v_held_tokens, v_held_cost, v_held_alerts, v_held_exceeded)
        as held (key, at, tokens, cost_micros, alerts, exceeded)
    where held.at is not null
    on conflict (key) do update set at = excluded.at, tokens = excluded.tokens, cost_micros = excluded.cost_micros,
        alerts = excluded.alerts, exceeded = excluded.exceeded 
        where (reservations.at, reservations.tokens, reservations.cost_micros, reservations.alerts, reservations.exceeded)
            is distinct from (excluded.at, excluded.tokens, excluded.cost_micros, excluded.alerts, excluded.exceeded);
end
$$;
