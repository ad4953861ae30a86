-- Roles of a store. Members of interlock_owner change the schema, of interlock_app use the store, of interlock_read
-- only look. No role but the owner can change or delete a record: the functions that do belong to the owner.
do $$
declare
    name text;
begin
    foreach name in array array['interlock_owner', 'interlock_app', 'interlock_read'] loop
        if not exists (select 1 from pg_roles where rolname = name) then
            execute format('create role %I nologin', name);
        end if;
    end loop;
    -- Only who owns the database may grant it; a member of interlock_owner that migrates has it already.
    if not has_database_privilege('interlock_owner', current_database(), 'create') then
        execute format('grant create on database %I to interlock_owner', current_database());
    end if;
    execute format('alter schema %I owner to interlock_owner', current_schema());
    for name in
        select format('alter table %I owner to interlock_owner', relname) from pg_class
            where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
        union all select format('alter view %I owner to interlock_owner', relname) from pg_class
            where relnamespace = current_schema()::regnamespace and relkind = 'v'
        union all select format('alter function %s owner to interlock_owner', oid::regprocedure) from pg_proc
            where pronamespace = current_schema()::regnamespace
        union all select format('alter type %I owner to interlock_owner', typname) from pg_type
            where typnamespace = current_schema()::regnamespace and typtype = 'c'
            and exists (select 1 from pg_class where pg_class.oid = typrelid and relkind = 'c')
    loop
        execute name;
    end loop;
    execute format('revoke all on all functions in schema %I from public', current_schema());
    execute format('grant usage on schema %I to interlock_app, interlock_read', current_schema());
    execute format('grant execute on all functions in schema %I to interlock_app', current_schema());
    execute format('grant select on all tables in schema %I to interlock_app, interlock_read', current_schema());
    execute format('grant insert, update, delete on all tables in schema %I to interlock_app', current_schema());
    execute format('grant usage on all sequences in schema %I to interlock_app', current_schema());
    execute format('grant execute on function row_crc to interlock_read');
    revoke update, delete on records from interlock_app;
    for name in select inhrelid::regclass::text from pg_inherits where inhparent = 'records'::regclass loop
        execute format('revoke all on %s from interlock_app, interlock_read', name);
    end loop;
    revoke insert, update, delete on migrations, store_identity from interlock_app;
end
$$;
