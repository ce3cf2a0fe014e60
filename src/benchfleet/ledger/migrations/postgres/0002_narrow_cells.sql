-- What a claim and a finish rewrite is apart from what never changes: a row of a cell that is
-- rewritten is entered anew into every index of its table, and those by name and path are as large
-- as the campaign. Events name their cell by its number.
set local statement_timeout = 0;

-- What a cell is called and where its results go, for ever.
create table identity (
  ordinal bigint primary key,
  fingerprint text collate "C" not null unique,
  id text not null,
  path text collate "C" not null unique         -- allotted once, never changed
);
insert into identity select ordinal, fingerprint, id, path from cell;

-- An event of a cell has its number, and no fingerprint but where no such cell was known.
alter table event add column cell bigint;
drop index event_of_cell;
update event set cell = identity.ordinal, fingerprint = ''
from identity where identity.fingerprint = event.fingerprint;
create index event_of_cell on event (cell, seq);

-- The last outcome is the newest 'finished' of the cell's events. `turned` is the transaction that
-- made the cell wait again: whoever knows all of those before one asks for the later ones alone.
-- Constraints are read anew for each statement that rewrites a row, which takes longer than to rewrite
-- it; the statements of a claim and a finish are all that does.
alter table spec drop constraint spec_ordinal_fkey;
alter table cell
  drop constraint cell_state_check, drop constraint cell_lane_fkey,
  drop column fingerprint, drop column id, drop column path, drop column outcome,
  add column turned xid8;
update cell set turned = pg_current_xact_id() where state = 'pending' and token > 0;
drop index cell_claimable, cell_backing_off, cell_returned;
create index cell_fresh on cell (lane, priority desc, ordinal)
  where state = 'pending' and token = 0;
create index cell_returned on cell (turned)
  where state = 'pending' and token > 0;

-- Who could read and write cells can do so with what was theirs.
do $$
declare
  one record;
begin
  for one in
    select grantee, privilege_type from pg_class, aclexplode(relacl)
    where pg_class.oid = 'cell'::regclass and grantee <> relowner
      and privilege_type in ('SELECT', 'INSERT')
  loop
    execute format('grant %s on identity to %s', one.privilege_type,
                   case one.grantee when 0 then 'public' else one.grantee::regrole::text end);
  end loop;
end $$;
