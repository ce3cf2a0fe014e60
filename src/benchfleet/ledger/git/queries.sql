-- What the mirror of a ledger in git is asked beside the statements of the SQLite ledger.

-- name: how_much
-- How many cells and events there are: whatever comes after these is of one transaction.
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

-- name: beat
update cell set expires = :expires where fingerprint = :fingerprint and state = 'running';

-- name: tips
select ref, tip, moved from log;

-- name: moved
insert or replace into log (ref, tip, moved) values (:ref, :tip, :moved);

-- name: standing
select fingerprint, turn, base, object from claim where object <> '';

-- name: standing_of
select turn, base, object from claim where fingerprint = :fingerprint;

-- name: stand
insert or replace into claim (fingerprint, turn, base, object)
values (:fingerprint, :turn, :base, :object);

-- name: point
update claim set object = :object where fingerprint = :fingerprint;

-- name: part
savepoint part;

-- name: undo_part
rollback to part;

-- name: end_part
release part;

-- name: ended_long_ago
-- Cells whose refs serve nobody any more.
select claim.fingerprint, claim.object
from claim join cell using (fingerprint) join event on event.seq = cell.outcome
where cell.state not in ('pending', 'running') and claim.object <> '' and claim.object <> '?'
  and (event.at < :before or cell.outcome <= :seen)
limit :limit;

-- name: state_cells
-- How the cells stand to which something happened.
select cell.ordinal, cell.fingerprint, cell.state, cell.ready, cell.attempt, cell.tries, cell.token,
       cell.ended_token, cell.runner, cell.outcome, claim.turn, claim.base
from claim join cell using (fingerprint) order by cell.ordinal;

-- name: stand_cell
update cell
set state = :state, ready = :ready, attempt = :attempt, tries = :tries, token = :token,
    ended_token = :ended_token, runner = :runner, expires = :expires, outcome = :outcome
where ordinal = :ordinal and fingerprint = :fingerprint;

-- name: happen
insert into event (seq, at, kind, fingerprint, data) values (:seq, :at, :kind, :fingerprint, :data);

-- name: count_anew
-- Where the clock counts anew: leases begin again, and of back-offs is left what was left when the
-- remote was last looked at.
update cell
set expires = case when expires is not null then :now + :lease end,
    ready = case when ready is not null
            then :now + max(0, ready - (select coalesce(max(moved), 0) from log)) end
where expires is not null or ready is not null;

-- name: move_anew
update log set moved = :now + moved - (select max(moved) from log);
