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

-- name: path_taken
-- Whether a path equals, lies inside, or holds one that is allotted already. `:lineage` is the
-- path with its parents; what lies inside it sorts between 'path/' and 'path0' ('0' follows '/').
-- Both are look-ups in the index on path.
select exists (select 1 from cell where path in (select value from json_each(:lineage)))
    or exists (select 1 from cell where path > :path || '/' and path < :path || '0');

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

-- name: wake
-- Cells whose back-off is over become claimable. The index holds only the cells that wait, by
-- time, so that this costs nothing while none is due.
update cell set ready = null
where state = 'pending' and ready is not null and ready <= :now;

-- name: claimable
-- The best cells that fit: the head of every lane that fits the offer, then the best of those.
-- `:load_key` null means any model.
select cell.ordinal, cell.fingerprint, cell.path, cell.attempt, cell.tries, cell.token,
       spec.spec, spec.terms, (select event.data from event where event.seq = cell.outcome)
from lane cross join cell on cell.ordinal in (
  select head.ordinal from cell as head
  where head.lane = lane.number and head.state = 'pending' and head.ready is null
  order by head.priority desc, head.ordinal limit :limit
) join spec using (ordinal)
where lane.gpus <= :gpus and lane.vram <= :vram
  and (:load_key is null or lane.load_key = :load_key)
order by cell.priority desc, cell.ordinal
limit :limit;

-- name: claimable_chosen
-- The same among the chosen cells alone, driven from their own ordered list, so that neither the
-- other pending cells nor the size of the choice matter.
select cell.ordinal, cell.fingerprint, cell.path, cell.attempt, cell.tries, cell.token,
       spec.spec, spec.terms, (select event.data from event where event.seq = cell.outcome)
from lane cross join cell on cell.ordinal in (
  select head.ordinal from temp.chosen cross join cell as head on head.ordinal = chosen.ordinal
  where chosen.lane = lane.number and chosen.ready is null
    and head.state = 'pending' and head.ready is null
  order by chosen.priority desc, chosen.ordinal limit :limit
) join spec using (ordinal)
where lane.gpus <= :gpus and lane.vram <= :vram
  and (:load_key is null or lane.load_key = :load_key)
order by cell.priority desc, cell.ordinal
limit :limit;

-- name: take
update cell
set state = 'running', attempt = :attempt, token = :token, runner = :runner, expires = :expires
where ordinal = :ordinal;

--------------------------------------------------------- Claiming among chosen fingerprints
-- `Offer.among` may hold 100,000 fingerprints, the same in every claim of a run. The handle's own
-- connection keeps those that have not ended in a temporary table, and follows the events since.

-- name: make_choice
create temporary table choice (number integer not null, seen integer not null);

-- name: make_chosen
create temporary table chosen (
  ordinal integer primary key, lane integer not null, priority integer not null, ready real
);

-- name: make_chosen_claimable
create index temp.chosen_claimable on chosen (lane, priority desc, ordinal) where ready is null;

-- name: make_chosen_backing_off
create index temp.chosen_backing_off on chosen (ready) where ready is not null;

-- name: choice
-- Which choice the temporary table holds, how far it has followed, how far it could follow, and
-- whether something happened since that adds or moves cells.
select number, seen, (select coalesce(max(seq), 0) from event),
       exists (select 1 from event
               where event.seq > choice.seen and kind in ('enrolled', 'retry_asked'))
from temp.choice;

-- name: forget_choice
delete from temp.choice;

-- name: forget_chosen
delete from temp.chosen;

-- name: fill_chosen
insert into temp.chosen (ordinal, lane, priority, ready)
select cell.ordinal, cell.lane, cell.priority, cell.ready
from json_each(:among) as wanted cross join cell on cell.fingerprint = wanted.value
where cell.state in ('pending', 'running');

-- name: fill_choice
insert into temp.choice (number, seen) select :number, coalesce(max(seq), 0) from event;

-- name: drop_ended
-- What ended since leaves the list, so that a claim never walks past cells that are done.
delete from temp.chosen where ordinal in (
  select cell.ordinal from event cross join cell on cell.fingerprint = event.fingerprint
  where event.seq > :seen and cell.state not in ('pending', 'running')
);

-- name: chosen_back_off
-- What was sent back since is put aside until its time, for the same reason.
update temp.chosen
set ready = (select cell.ready from cell where cell.ordinal = chosen.ordinal)
where ordinal in (
  select cell.ordinal from event cross join cell on cell.fingerprint = event.fingerprint
  where event.seq > :seen and event.kind = 'finished'
);

-- name: chosen_wake
update temp.chosen set ready = null where ready is not null and ready <= :now;

-- name: followed
update temp.choice set seen = :seen;

----------------------------------------------------------------------------- Holding, ending

-- name: held
-- The cell of a lease, as the lease is compared with it.
select ordinal, state, attempt, token, ended_token, runner, outcome
from cell where fingerprint = :fingerprint;

-- name: renew
update cell set expires = :expires where ordinal = :ordinal;

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

-- name: last_event
select max(seq) from event;

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
