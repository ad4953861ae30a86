-- Deleting records: only here, because no role but the owner may.

create function drop_records(p_born date, p_number bigint) returns void
language sql security definer set search_path from current as $$
    delete from records where born = p_born and run = p_number
$$;

-- Drops the partitions of past months whose runs are all deleted; returns how many. The last two months stay.
-- Most are not empty, and are looked at before writers have to wait. One that somebody reads stays until the next time:
-- all writers wait while this one waits for readers.
create function drop_empty_partitions() returns integer
language plpgsql security definer set search_path from current as $$
declare
    name text;
    is_empty boolean;
    dropped integer := 0;
begin
    for name in
        select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
        where inhparent = 'records'::regclass
            and to_date(right(relname, 6), 'YYYYMM') < date_trunc('month', now()) - interval '1 month'
        order by relname
    loop
        execute format('select not exists (select from %I)', name) into is_empty;
        continue when not is_empty;
        perform lock_store();
        execute format('select not exists (select from %I)', name) into is_empty;
        continue when not is_empty;
        begin
            perform set_config('lock_timeout', '200ms', true);
            execute format('alter table records detach partition %I', name);
            execute format('drop table %I', name);
            dropped := dropped + 1;
        exception when lock_not_available then
            exit;
        end;
    end loop;
    return dropped;
end
$$;
