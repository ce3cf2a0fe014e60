-- The statements of the mirror of a git ledger, beside those of the SQLite ledger.

-- name: last_numbers
-- The numbers of the last cell and event: later ones belong to the current transaction.
select (select coalesce(max(ordinal), 0) from cell), (select coalesce(max(seq), 0) from event);

-- name: events_after
select seq, at, kind, fingerprint, data from event where seq > :seq order by seq;

-- name: cells_after
select cell.fingerprint, cell.id, cell.path, spec.spec, spec.terms
from cell join spec using (ordinal) where cell.ordinal > :ordinal order by cell.ordinal;

-- name: cell_at
select fingerprint from cell where ordinal = :ordinal;

-- name: id_of
select id from cell where fingerprint = :fingerprint;

-- name: extend
update cell set expires = :expires where fingerprint = :fingerprint and state = 'running';

-- name: running_claims
-- The running cells, each with the data of its last claim.
select fingerprint,
       (select event.data from event
        where event.fingerprint = cell.fingerprint and event.kind = 'claimed'
        order by event.seq desc limit 1)
from cell where state = 'running';

-- name: log_tips
select ref, tip, moved from log;

-- name: set_log_tip
insert or replace into log (ref, tip, moved) values (:ref, :tip, :moved);

-- name: claim_refs
select fingerprint, turn, base, object from claim where object <> '';

-- name: claim_ref
select turn, base, object from claim where fingerprint = :fingerprint;

-- name: set_claim_ref
insert or replace into claim (fingerprint, turn, base, object)
values (:fingerprint, :turn, :base, :object);

-- name: set_ref_object
update claim set object = :object where fingerprint = :fingerprint;

-- name: savepoint
savepoint step;

-- name: rollback_savepoint
rollback to step;

-- name: release_savepoint
release step;

-- name: ended_refs
-- Refs of cells that ended long ago.
select claim.fingerprint, claim.object
from claim join cell using (fingerprint) join event on event.seq = cell.outcome
where cell.state not in ('pending', 'running') and claim.object <> '' and claim.object <> '?'
  and (event.at < :before or cell.outcome <= :seen)
limit :limit;

-- name: snapshot_cells
-- The state of the cells that were ever claimed or changed.
select cell.ordinal, cell.fingerprint, cell.state, cell.ready, cell.attempt, cell.tries, cell.token,
       cell.ended_token, cell.runner, cell.outcome, claim.turn, claim.base
from claim join cell using (fingerprint) order by cell.ordinal;

-- name: snapshot_subjects
select fingerprint, turn, base from claim where fingerprint not in (select fingerprint from cell);

-- name: restore_cell
update cell
set state = :state, ready = :ready, attempt = :attempt, tries = :tries, token = :token,
    ended_token = :ended_token, runner = :runner, outcome = :outcome
where ordinal = :ordinal and fingerprint = :fingerprint;

-- name: restore_event
insert into event (seq, at, kind, fingerprint, data) values (:seq, :at, :kind, :fingerprint, :data);

-- name: shift_back_offs
-- After the clock restarted: back-offs keep what remained of them when the remote was last read.
update cell set ready = :now + max(0, ready - (select coalesce(max(moved), 0) from log))
where ready is not null;

-- name: shift_log_times
update log set moved = :now + moved - (select max(moved) from log);
