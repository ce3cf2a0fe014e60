-- A claim writes no history of its own: while an attempt runs, its claim is told by the cell's row,
-- and afterwards by the one row that says how it ended. Those rows name their cell's row before, so
-- that a cell's attempts are found by the primary key alone. What older versions told stays as it
-- is, events with all their data, also the claims of cells that run now.
set local statement_timeout = 0;

-- An attempt that was finished, for ever: the event 'finished', and mostly 'claimed' too.
create table ended (
  seq bigint primary key,                       -- the number of the event 'finished'
  at double precision not null,
  ordinal bigint not null,
  attempt integer not null,
  token bigint not null,
  runner text not null,
  claim_seq bigint,                             -- of 'claimed'; null: that is an event by itself
  claimed_at double precision,
  before bigint,                                -- the row here of the cell's attempt before
  outcome text not null
) with (autovacuum_vacuum_insert_scale_factor = 0.02);

alter table cell
  add column claim_seq bigint,                  -- of a running cell's 'claimed', as in `ended`
  add column claimed_at double precision,
  add column last bigint,                       -- its last row in `ended`
  add column before bigint;                     -- the one before that

-- Nobody who does not know of this writes on: a claim told twice would not be one any more.
alter table event rename column cell to ordinal;

-- Who could read and write events can do so with what is told of attempts.
do $$
declare
  one record;
  role text;
begin
  for one in
    select grantee, privilege_type from pg_class, aclexplode(relacl)
    where pg_class.oid = 'event'::regclass and grantee <> relowner
      and privilege_type in ('SELECT', 'INSERT')
  loop
    role := case one.grantee when 0 then 'public' else one.grantee::regrole::text end;
    execute format('grant %s on ended to %s', one.privilege_type, role);
    if one.privilege_type = 'INSERT' then
      execute format('grant usage on sequence event_seq_seq to %s', role);
    end if;
  end loop;
end $$;
