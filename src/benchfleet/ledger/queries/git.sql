-- What the mirror of a ledger in git is asked beside the statements of the SQLite ledger.

-- name: claimable
-- As the SQLite ledger has it, of the share `own` of `many`: a share goes by a cell's number, which
-- is the same in every mirror. What is long is read of the best alone.
with wish as materialized (select key, value from json_each(:models)),
best as materialized (
  select head.ordinal, head.priority, coalesce(wish.value, :others) as weight
  from lane left join wish on wish.key = lane.load_key
  cross join cell as head on head.ordinal in (
    select ordinal from cell
    where cell.lane = lane.number and state = 'pending' and ready is null
      and ordinal * 2654435761 % 4294967296 / 65536 % :many = :own
    order by priority desc, ordinal limit :limit
  )
  where lane.gpus <= :gpus and lane.vram <= :vram and coalesce(wish.value, :others) is not null
  order by head.priority desc, weight, head.ordinal limit :limit
)
select cell.ordinal, cell.fingerprint, cell.path, cell.attempt, cell.tries, cell.token,
       spec.spec, spec.terms, (select event.data from event where event.seq = cell.outcome)
from best join cell using (ordinal) join spec using (ordinal)
order by best.priority desc, best.weight, best.ordinal;

-- name: claimable_chosen
-- The same of the cells of one choice.
with wish as materialized (select key, value from json_each(:models)),
best as materialized (
  select head.ordinal, head.priority, head.rank + coalesce(wish.value, :others) as weight
  from lane left join wish on wish.key = lane.load_key
  cross join temp.chosen as head on head.choice = :choice and head.ordinal in (
    select ordinal from temp.chosen
    where choice = :choice and chosen.lane = lane.number and ready is null
      and ordinal * 2654435761 % 4294967296 / 65536 % :many = :own
    order by priority desc, rank, ordinal limit :limit
  )
  join cell on cell.ordinal = head.ordinal and +cell.state = 'pending'
  where lane.gpus <= :gpus and lane.vram <= :vram and coalesce(wish.value, :others) is not null
  order by head.priority desc, weight, head.ordinal limit :limit
)
select cell.ordinal, cell.fingerprint, cell.path, cell.attempt, cell.tries, cell.token,
       spec.spec, spec.terms, (select event.data from event where event.seq = cell.outcome)
from best join cell using (ordinal) join spec using (ordinal)
order by best.priority desc, best.weight, best.ordinal;

-- name: how_much
-- How many cells and events there are: whatever comes after these is of one transaction.
select (select coalesce(max(ordinal), 0) from cell), (select coalesce(max(seq), 0) from event);

-- name: events_after
select seq, at, kind, fingerprint, data from event where seq > :seq order by seq;

-- name: cells_after
select cell.fingerprint, cell.id, cell.path, lane.load_key, lane.gpus, lane.vram, cell.priority,
       spec.spec, spec.terms
from cell join lane on lane.number = cell.lane join spec using (ordinal)
where cell.ordinal > :ordinal order by cell.ordinal;

-- name: cell_at
select cell.fingerprint, lane.load_key, lane.gpus, lane.vram, cell.priority
from cell join lane on lane.number = cell.lane where cell.ordinal = :ordinal;

-- name: id_of
select id from cell where fingerprint = :fingerprint;

-- name: unwait
-- A cell that another machine claimed had its back-off over there, if not here.
update cell set ready = null where ordinal = :ordinal;

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
