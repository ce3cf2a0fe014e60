-- Every statement of the SQLite ledger. A statement's name stands above it; sql.py calls it by
-- that name. All of them run inside `begin immediate`, but those under "Reading".

---------------------------------------------------------------------------------- Enrolling

-- name: last_ordinal
-- The order of enrolment goes on from here.
select coalesce(max(ordinal), 0) from cell;

-- name: known
-- What the ledger has of cells that the campaign declares: a look-up by fingerprint for each.
select cell.fingerprint, cell.ordinal, cell.state, spec.terms
from cell join spec using (ordinal)
where fingerprint in (select value from json_each(:among));

-- name: paths_near
-- The allotted paths that equal one of these or hold it, and those of these that hold allotted ones:
-- what lies inside a path sorts between 'path/' and 'path0' ('0' follows '/'). Both are look-ups in
-- the index on path.
select path, false from cell where path in (select value from json_each(:lineage))
union all
select wanted.value, true from json_each(:paths) as wanted
where exists (select 1 from cell where path > wanted.value || '/' and path < wanted.value || '0');

-- name: add_lane
insert or ignore into lane (load_key, gpus, vram) values (:load_key, :gpus, :vram);

-- name: lane
select number from lane where load_key = :load_key and gpus = :gpus and vram = :vram;

-- name: add_cell
insert into cell (ordinal, fingerprint, id, path, lane, priority)
values (:ordinal, :fingerprint, :id, :path, :lane, :priority);

-- name: add_spec
insert into spec (ordinal, spec, terms) values (:ordinal, :spec, :terms);

-- name: change_cell
update cell set lane = :lane, priority = :priority where ordinal = :ordinal;

-- name: change_terms
update spec set terms = :terms where ordinal = :ordinal;

----------------------------------------------------------------------------------- Claiming

-- name: last_event
-- Up to here a handle has to know what happened.
select coalesce(max(seq), 0) from event;

-- name: next_due
-- When the next back-off of a cell is over: here, and in the handle's own table.
select (select min(ready) from cell where state = 'pending' and ready is not null),
       (select min(ready) from temp.chosen where ready is not null);

-- name: wake
-- Cells whose back-off is over become claimable. The index holds only the cells that wait, by
-- time, so that this costs nothing while none is due.
update cell set ready = null
where state = 'pending' and ready is not null and ready <= :now;

-- name: heads
-- Every lane in which cells wait, and where the best of them stands.
select lane.number, lane.load_key, lane.gpus, lane.vram, -head.priority, 0.0, head.ordinal
from lane cross join cell as head on head.ordinal = (
  select ordinal from cell
  where cell.lane = lane.number and state = 'pending' and ready is null
  order by priority desc, ordinal limit 1
);

-- name: of_lane
-- The best cells of a lane.
select -cell.priority, 0.0, cell.ordinal, cell.fingerprint, cell.path, cell.attempt, cell.tries,
       cell.token, spec.spec, spec.terms,
       (select event.data from event where event.seq = cell.outcome)
from cell cross join spec using (ordinal)
where cell.lane = :lane and cell.state = 'pending' and cell.ready is null
order by cell.priority desc, cell.ordinal limit :limit;

-- name: chosen_heads
-- The same among the cells of one choice alone, which are in their own ordered list, so that
-- neither the other pending cells nor the size of the choice matter.
select lane.number, lane.load_key, lane.gpus, lane.vram, -head.priority, head.rank, head.ordinal
from lane cross join temp.chosen as head on head.choice = :choice and head.ordinal = (
  select ordinal from temp.chosen
  where choice = :choice and chosen.lane = lane.number and ready is null
  order by priority desc, rank, ordinal limit 1
);

-- name: chosen_of_lane
-- What runs is never given again, whatever the list says (+: no index of states is to be used).
select -chosen.priority, chosen.rank, cell.ordinal, cell.fingerprint, cell.path, cell.attempt,
       cell.tries, cell.token, spec.spec, spec.terms,
       (select event.data from event where event.seq = cell.outcome)
from temp.chosen cross join cell using (ordinal) cross join spec using (ordinal)
where chosen.choice = :choice and chosen.lane = :lane and chosen.ready is null
  and +cell.state = 'pending'
order by chosen.priority desc, chosen.rank, chosen.ordinal limit :limit;

-- name: take
update cell
set state = 'running', attempt = :attempt, token = :token, runner = :runner, expires = :expires
where ordinal = :ordinal;

--------------------------------------------------------------- Claiming among chosen cells
-- `Offer.among` may hold a million cells, nearly the same in every claim of a run. The handle's own
-- connection keeps those that can be claimed, or wait for their back-off, in a temporary table,
-- and follows what happens to them, and to their ranks (chosen_table.py).

-- name: make_chosen
create temporary table chosen (
  ordinal integer not null, choice integer not null, lane integer not null,
  priority integer not null, rank real not null, ready real, primary key (ordinal, choice)
) without rowid;

-- name: make_chosen_claimable
create index temp.chosen_claimable on chosen (choice, lane, priority desc, rank, ordinal)
  where ready is null;

-- name: make_chosen_backing_off
create index temp.chosen_backing_off on chosen (ready) where ready is not null;

-- name: happened
-- To which cells something happened since, and whether cells came or changed.
select distinct fingerprint, kind = 'enrolled' from event where seq > :seen;

-- name: forget_chosen
delete from temp.chosen;

-- name: forget_chosen_of
delete from temp.chosen where choice = :number;

-- name: begun
-- What was claimed is in no list any more, so that a claim never walks past it.
delete from temp.chosen where ordinal = :ordinal;

-- name: leave_out
-- The same for what others claimed, and for what ended.
delete from temp.chosen where ordinal in (
  select cell.ordinal from json_each(:among) as one
  cross join cell on cell.fingerprint = one.value
);

-- name: leave_out_of
delete from temp.chosen where choice = :number and ordinal in (
  select cell.ordinal from json_each(:among) as one
  cross join cell on cell.fingerprint = one.value
);

-- name: choose
insert or replace into temp.chosen (ordinal, choice, lane, priority, rank, ready)
select cell.ordinal, :number, cell.lane, cell.priority, wanted.value, cell.ready
from json_each(:ranks) as wanted cross join cell on cell.fingerprint = wanted.key
where cell.state = 'pending';

-- name: chosen_wake
update temp.chosen set ready = null where ready is not null and ready <= :now;

----------------------------------------------------------------------------- Holding, ending

-- name: held
-- The cell of a lease, as the lease is compared with it.
select ordinal, state, attempt, token, ended_token, runner, outcome
from cell where fingerprint = :fingerprint;

-- name: held_of
-- Those of many cells that run, each a look-up by fingerprint.
select cell.ordinal, cell.fingerprint, cell.token
from json_each(:among) as one cross join cell on cell.fingerprint = one.value
where cell.state = 'running';

-- name: renew
update cell set expires = :expires where ordinal in (select value from json_each(:ordinals));

-- name: finish
-- The event with the outcome is appended next, under the number that is the next one here.
update cell
set state = :state, ready = :ready, tries = tries + :charged, ended_token = :token,
    expires = null, outcome = (select coalesce(max(seq), 0) + 1 from event)
where ordinal = :ordinal;

-- name: release
update cell set state = 'pending', token = token + 1, expires = null where ordinal = :ordinal;

-- name: expired
-- By time, not by ordinal, so that the index of running cells serves.
select ordinal, fingerprint, attempt, token, runner from cell
where state = 'running' and expires <= :now
order by expires;

-- name: reap
-- The token stays: the writer that was too late may still finish while nobody else claims.
update cell set state = 'pending', expires = null where ordinal = :ordinal;

-- name: retry
-- The token may stay: the attempt that ended the cell cannot end it twice.
update cell set state = 'pending', tries = 0
where fingerprint = :fingerprint
  and state in ('success', 'partial', 'failed', 'skipped', 'cancelled');

-- name: cancel
update cell set state = 'cancelled', ready = null, token = token + 1, expires = null
where fingerprint = :fingerprint and state in ('pending', 'running');

-- name: add_event
insert into event (at, kind, fingerprint, data) values (:at, :kind, :fingerprint, :data);

-- name: event
select data from event where seq = :seq;

------------------------------------------------------------------------------------ Reading

-- name: cells
select cell.fingerprint, cell.id, cell.path, cell.state, cell.attempt, cell.tries, cell.token,
       cell.runner, cell.expires, cell.ready, event.data,
       case when :whole then spec.spec end, case when :whole then spec.terms end
from cell left join event on event.seq = cell.outcome
          left join spec on :whole and spec.ordinal = cell.ordinal
where cell.state in (select value from json_each(:states))
order by cell.ordinal;

-- name: cells_among
select cell.fingerprint, cell.id, cell.path, cell.state, cell.attempt, cell.tries, cell.token,
       cell.runner, cell.expires, cell.ready, event.data,
       case when :whole then spec.spec end, case when :whole then spec.terms end
from cell left join event on event.seq = cell.outcome
          left join spec on :whole and spec.ordinal = cell.ordinal
where cell.ordinal in (  -- a set of ordinals comes in its order, so that no row is sorted
  select chosen.ordinal from cell as chosen
  where chosen.fingerprint in (select value from json_each(:among))
    and chosen.state in (select value from json_each(:states))
)
order by cell.ordinal;

-- name: events
select seq, at, kind, fingerprint, data from event
where seq > :since and (:kinds is null or kind in (select value from json_each(:kinds)))
order by seq;
