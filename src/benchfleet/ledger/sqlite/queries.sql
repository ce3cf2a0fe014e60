-- Every statement of the SQLite ledger. A statement's name stands above it; base.py calls it by
-- that name. All of them run inside `begin immediate`, but those under "Reading".

---------------------------------------------------------------------------------- Enrolling

-- name: last_ordinal
-- The order of enrolment goes on from here.
select coalesce(max(ordinal), 0) from cell;

-- name: enrolled_cells
-- The cells that the campaign declares, as the ledger has them: a look-up by fingerprint for each.
select cell.fingerprint, cell.ordinal, cell.state, spec.terms
from cell join spec using (ordinal)
where fingerprint in (select value from json_each(:fingerprints));

-- name: conflicting_paths
-- The allotted paths that equal one of these or hold it, and those of these that hold allotted ones:
-- what lies inside a path sorts between 'path/' and 'path0' ('0' follows '/'). Both are look-ups in
-- the index on path.
select path, false from cell where path in (select value from json_each(:lineage))
union all
select requested.value, true from json_each(:paths) as requested
where exists (select 1 from cell where path > requested.value || '/' and path < requested.value || '0');

-- name: add_cell
insert into cell (ordinal, fingerprint, id, path) values (:ordinal, :fingerprint, :id, :path);

-- name: add_spec
insert into spec (ordinal, spec, terms) values (:ordinal, :spec, :terms);

-- name: change_terms
update spec set terms = :terms where ordinal = :ordinal;

----------------------------------------------------------------------------------- Claiming

-- name: claimable
-- The candidates that may be claimed, in their order: a look-up by fingerprint for each.
select cell.ordinal, cell.fingerprint, cell.path, cell.attempt, cell.tries, cell.token,
       spec.spec, spec.terms, (select event.data from event where event.seq = cell.outcome)
from json_each(:candidates) as candidate
  cross join cell on cell.fingerprint = candidate.value
  cross join spec using (ordinal)
where cell.state = 'pending' and (cell.ready is null or cell.ready <= :now)
order by candidate.key limit :limit;

-- name: claim_cell
update cell
set state = 'running', ready = null, attempt = :attempt, token = :token, runner = :runner,
    expires = :expires
where ordinal = :ordinal;

----------------------------------------------------------------------------- Holding, ending

-- name: cell_state
-- The cell that a lease is compared with.
select ordinal, state, attempt, token, ended_token, runner, outcome
from cell where fingerprint = :fingerprint;

-- name: running_cells
-- Those of the cells that run: a look-up by fingerprint for each.
select cell.ordinal, cell.fingerprint, cell.token
from json_each(:fingerprints) as lease cross join cell on cell.fingerprint = lease.value
where cell.state = 'running';

-- name: renew
update cell set expires = :expires where ordinal in (select value from json_each(:ordinals));

-- name: report_progress
insert or replace into progress (runner, at, data) values (:runner, :at, :data);

-- name: forget_progress
delete from progress where at < :before;

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

-- name: last_event_of
-- Searched from the end, where the last event of a subject usually is.
select seq from event where fingerprint = :fingerprint order by seq desc limit 1;

------------------------------------------------------------------------------------ Reading

-- name: progress
select runner, at, data from progress where at >= :since order by runner;

-- name: cells
select cell.fingerprint, cell.id, cell.path, cell.state, cell.attempt, cell.tries, cell.token,
       cell.runner, cell.expires, cell.ready, event.data,
       case when :with_cell then spec.spec end, case when :with_cell then spec.terms end
from cell left join event on event.seq = cell.outcome
          left join spec on :with_cell and spec.ordinal = cell.ordinal
where cell.state in (select value from json_each(:states))
order by cell.ordinal;

-- name: cells_of
select cell.fingerprint, cell.id, cell.path, cell.state, cell.attempt, cell.tries, cell.token,
       cell.runner, cell.expires, cell.ready, event.data,
       case when :with_cell then spec.spec end, case when :with_cell then spec.terms end
from cell left join event on event.seq = cell.outcome
          left join spec on :with_cell and spec.ordinal = cell.ordinal
where cell.ordinal in (  -- a set of ordinals comes in its order, so that no row is sorted
  select selected.ordinal from cell as selected
  where selected.fingerprint in (select value from json_each(:fingerprints))
    and selected.state in (select value from json_each(:states))
)
order by cell.ordinal;

-- name: last_event
select coalesce(max(seq), 0) from event;

-- name: events
select seq, at, kind, fingerprint, data from event
where seq > :since and (:kinds is null or kind in (select value from json_each(:kinds)))
order by seq;
