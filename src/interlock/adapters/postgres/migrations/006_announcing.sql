-- Broadcasts that go with an append: rate limits, inboxes, deliveries, dead letters, and the writes of a transition.

-- A dead letter takes the place of one for the same broadcast and subscriber, as the newest. Its bound is kept by
-- `trim_dead_letters`, once a call.
create function add_dead_letter(
    p_id text, p_body bytea, p_reason text, p_at bigint, p_crew text, p_agent text, p_from_crew text, p_silent boolean
) returns void
language plpgsql as $$
begin
    delete from dead where id = p_id and crew = p_crew and agent = p_agent;
    insert into dead (id, crew, agent, body) values (p_id, p_crew, p_agent,
        convert_to(concat('{"id":', to_json(p_id), ',"broadcast":'), 'UTF8') || p_body || convert_to(concat(
            ',"reason":', to_json(p_reason), ',"at":', p_at,
            case when p_crew <> '' then concat(',"crew":', to_json(p_crew)) end,
            case when p_agent <> '' then concat(',"agent":', to_json(p_agent)) end,
            case when p_from_crew <> '' then concat(',"fromCrew":', to_json(p_from_crew)) end,
            case when p_silent then ',"silent":true' end, '}'
        ), 'UTF8'));
end
$$;

create function trim_dead_letters(p_most integer) returns void
language sql as $$
    delete from dead where number <= (select number from dead order by number desc offset p_most limit 1)
$$;

-- Removes the derived broadcasts of records: the role of an application may change nothing else of a record.
create function clear_presence(p_positions bigint[]) returns void
language sql security definer set search_path from current as $$
    update records set presence = null where position = any (p_positions)
$$;

-- The reason why a broadcast with subscribers is refused, or empty. If it is allowed, it is counted. A clock that was
-- set back starts a new minute: otherwise it could silence an agent for hours.
create function refusal_by_rate(p_crew text, p_counted text, p_hops integer, p_at bigint, p_rules json) returns text
language plpgsql as $$
declare
    v_start bigint;
    v_number integer;
begin
    if p_hops > (p_rules ->> 'hops_max')::integer then
        return 'hops';
    elsif p_counted = '' then
        return '';
    end if;
    select start, number into v_start, v_number from announced where crew = p_crew and agent = p_counted;
    v_start := coalesce(v_start, 0);
    v_number := coalesce(v_number, 0);
    if p_at < v_start or p_at >= v_start + 60000 then
        v_start := p_at;
        v_number := 0;
    end if;
    if v_number >= (p_rules ->> 'per_minute_max')::integer then
        return 'rate';
    end if;
    insert into announced (crew, agent, start, number) values (p_crew, p_counted, v_start, v_number + 1)
    on conflict (crew, agent) do update set start = excluded.start, number = excluded.number;
    return '';
end
$$;

-- Removes the oldest broadcast of a full inbox or queue. It becomes a dead letter; none is lost.
create function evict_oldest(p_crew text, p_agent text, p_silent boolean, p_at bigint, p_rules json) returns void
language plpgsql as $$
declare
    v_oldest record;
begin
    if p_silent then
        select b.position, b.id, b.body into v_oldest from inbox i join broadcasts b on b.position = i.broadcast
        where i.crew = p_crew and i.agent = p_agent and i.taken = '' order by i.broadcast limit 1;
        if not found then
            return;
        end if;
        delete from inbox where crew = p_crew and agent = p_agent and broadcast = v_oldest.position;
        update mailboxes set unread = unread - 1 where crew = p_crew and agent = p_agent;
    else
        select d.number, b.id, b.body into v_oldest from deliveries d join broadcasts b on b.position = d.broadcast
        where d.crew = p_crew and d.agent = p_agent order by d.broadcast, d.number limit 1;
        if not found then
            return;
        end if;
        delete from deliveries where number = v_oldest.number;
    end if;
    perform add_dead_letter(
        v_oldest.id, v_oldest.body, p_rules ->> 'inbox_full', p_at, p_crew, p_agent, '', p_silent
    );
end
$$;

-- Delivers a new broadcast: into the inbox of each silent subscriber, into the queue of each other one.
create function deliver_to(
    p_crews text[], p_agents text[], p_silent boolean[], p_position bigint, p_at bigint, p_rules json
) returns boolean
language plpgsql as $$
declare
    v_most integer := (p_rules ->> 'inbox_max')::integer;
    v_full record;
    v_has_evicted boolean := false;
begin
    insert into inbox (crew, agent, broadcast)
    select crew, agent, p_position from unnest(p_crews, p_agents, p_silent) as s (crew, agent, silent) where s.silent;
    insert into mailboxes (crew, agent, unread)
    select crew, agent, 1 from unnest(p_crews, p_agents, p_silent) as s (crew, agent, silent) where s.silent
    on conflict (crew, agent) do update set unread = mailboxes.unread + 1;
    insert into deliveries (crew, agent, broadcast)
    select s.crew, s.agent, p_position
    from unnest(p_crews, p_agents, p_silent) with ordinality as s (crew, agent, silent, place)
    where not s.silent order by s.place;
    for v_full in
        select s.crew, s.agent, s.silent
        from unnest(p_crews, p_agents, p_silent) with ordinality as s (crew, agent, silent, place)
        where case when s.silent
            then (select m.unread from mailboxes m where m.crew = s.crew and m.agent = s.agent)
            else (select count(*) from deliveries d where d.crew = s.crew and d.agent = s.agent)
        end > v_most
        order by s.place
    loop
        perform evict_oldest(v_full.crew, v_full.agent, v_full.silent, p_at, p_rules);
        v_has_evicted := true;
    end loop;
    return v_has_evicted;
end
$$;

-- Stores a broadcast after a position, and delivers it if it is new. `last_position` is that of the newest one then,
-- `refusal` why it reached nobody, and `has_dead` whether there is a new dead letter.
create function announce(
    p_id text, p_body bytea, p_crc integer, p_hops integer, p_crew text, p_agent text, p_counted text, p_told text[],
    p_kind text[], p_at bigint, p_rules json,
    inout last_position bigint, out is_new boolean, out reached json, out refusal text, out has_dead boolean
)
language plpgsql as $$
declare
    v_crews text[];
    v_agents text[];
    v_silent boolean[];
begin
    refusal := '';
    has_dead := false;
    insert into broadcasts (position, id, hops, crc, body)
    values (last_position + 1, p_id, p_hops, salted_crc(p_crc, last_position + 1), p_body) on conflict (id) do nothing;
    is_new := found;
    if not is_new then
        return;
    end if;
    last_position := last_position + 1;
    select array_agg(s.crew), array_agg(s.agent), array_agg(s.silent), json_agg(json_build_array(s.crew, s.agent, s.silent))
    into v_crews, v_agents, v_silent, reached
    from subscribers_of(p_kind, p_crew, p_agent) s
    where s.crew <> p_crew or s.agent <> all (p_told);
    if v_crews is null then
        return;
    end if;
    refusal := refusal_by_rate(p_crew, p_counted, p_hops, p_at, p_rules);
    if refusal = '' then
        has_dead := deliver_to(v_crews, v_agents, v_silent, last_position, p_at, p_rules);
    else
        reached := null;
        has_dead := true;
        perform add_dead_letter(p_id, p_body, p_rules ->> refusal, p_at, '', '', p_crew, false);
    end if;
end
$$;

-- Claims the oldest unread broadcasts under a key. The same key gets the same answer. Bodies are in base64: they are
-- bytes, and a damaged one must not fail the whole batch; whoever reads the answer verifies the crc.
create function claim_inbox(p_key text, p_crew text, p_agent text, p_most integer) returns json
language plpgsql as $$
declare
    v_count integer;
begin
    if not exists (select from inbox i join broadcasts b on b.position = i.broadcast where i.taken = p_key) then
        update inbox i set taken = p_key from (
            select broadcast from inbox where crew = p_crew and agent = p_agent and taken = '' order by broadcast limit p_most
        ) oldest
        where i.crew = p_crew and i.agent = p_agent and i.broadcast = oldest.broadcast;
        get diagnostics v_count = row_count;
        if v_count > 0 then
            update mailboxes set unread = unread - v_count where crew = p_crew and agent = p_agent;
        end if;
    end if;
    return (
        select coalesce(json_agg(json_build_array(
            b.position, b.crc, b.hops, translate(encode(b.body, 'base64'), E'\n', '')
        ) order by i.broadcast), '[]')
        from inbox i join broadcasts b on b.position = i.broadcast where i.taken = p_key
    );
end
$$;

-- Makes the broadcasts claimed under a key unread again.
create function unclaim_inbox(p_key text) returns void
language sql as $$
    with returned as (
        update inbox set taken = '' where taken = p_key returning crew, agent
    )
    insert into mailboxes (crew, agent, unread) select crew, agent, count(*) from returned group by crew, agent
    on conflict (crew, agent) do update set unread = mailboxes.unread + excluded.unread
$$;
