-- Every statement of the PostgreSQL ledger. A statement's name stands above it; the ledger calls it
-- by that name. A claim, a finish, both at once, a renewal and a release are one statement each, and so
-- one transaction and one round trip. The clock is the server's, unless a test brings another as
-- `now`.
--
-- Events are numbered in the order in which they can be seen: whoever appends one holds a shared
-- lock (`turn`) from before it has its number until it commits, and holds no row's lock that it
-- asks for later; whoever has to know that nothing below a number is still to come waits for the
-- others (`all_told`). An end that brings a claim along has the rows of what ended, and `turn`, before
-- it claims; a claim waits for no row, but passes over those that are locked.
--
-- A claim has a number and no row of events: while the cell runs, its own row tells of it, then the
-- row in `ended`. Where an attempt ends otherwise, its claim becomes an event by itself.

---------------------------------------------------------------------------------- Connecting

-- name: session
-- How each connection works. Plans are made once: those of a claim take longer than the claim. A
-- server that would forget what it said was committed, when it crashes, is asked not to. Nor is one
-- to start workers for a look at the news: a plan that knows no bounds expects much, and finds little.
-- What a role's own settings say of isolation, locks, numbers and arrays is for other programs:
-- whoever waits for an event has to see it afterwards, and times are told to their last digit.
select set_config('search_path', %(search_path)s, false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('jit', 'off', false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('lock_timeout', '0', false),
       set_config('extra_float_digits', '1', false),
       set_config('array_nulls', 'on', false),
       set_config('max_parallel_workers_per_gather', '0', false),
       set_config('synchronous_commit', case current_setting('synchronous_commit')
                    when 'off' then 'on' else current_setting('synchronous_commit') end, false),
       set_config('statement_timeout', %(statement_timeout)s, false),
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, false);

-- name: era
-- Since when the server works, and where the ledger is in it: what another took over, or was restored,
-- differs, and may lack what was committed last. The time is a number: a date would come as a role has
-- dates written.
select date_part('epoch', pg_postmaster_start_time()), to_regclass(%(meta)s)::oid;

-- name: process
select pg_backend_pid();

-- name: there
-- Whether the schema of the campaign holds a ledger that we may see.
select to_regclass(%(meta)s) is not null;

-- name: schema_there
select exists (select from pg_namespace where nspname = %(schema)s);

-- name: owner
-- Whose ledger it is.
select pg_get_userbyid(relowner) from pg_class where oid = to_regclass(%(meta)s);

-- name: ledgers
-- The schemas that hold a ledger which we may see.
select n.nspname from pg_namespace n join pg_class c on c.relnamespace = n.oid
 where c.relname = 'meta' and c.relkind = 'r' and n.nspname like 'benchfleet\_%%'
   and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
 order by n.nspname;

-- name: meta
select key, value from meta;

-- name: making
-- Two who make or migrate ledgers at once take turns.
select pg_advisory_xact_lock(hashtextextended('benchfleet migrates', 0));

-- name: note_meta
insert into meta (key, value) values (%(key)s, %(value)s)
on conflict (key) do update set value = excluded.value;

-- name: time
select date_part('epoch', clock_timestamp());

---------------------------------------------------------------------------------- Enrolling

-- name: enrolling
-- One enrolls at a time; claims and finishes go on meanwhile.
select value from meta where key = 'enrolled' for update;

-- name: enrolled
update meta set value = (value::bigint + 1)::text where key = 'enrolled';

-- name: last_ordinal
select coalesce(max(ordinal), 0) from cell;

-- name: known
select identity.fingerprint, identity.ordinal, cell.state, spec.terms
from identity join cell using (ordinal) join spec using (ordinal)
where identity.fingerprint = any (%(among)s::text[]);

-- name: paths_near
-- The allotted paths that equal one of these or hold it, and those of these that hold allotted ones:
-- what lies inside a path sorts between 'path/' and 'path0' ('0' follows '/').
select path, false from identity where path = any (%(lineage)s::text[])
union all
select wanted.path, true from unnest(%(paths)s::text[]) as wanted (path)
where exists (select from identity where path > wanted.path || '/' collate "C"
                                     and path < wanted.path || '0' collate "C");

-- name: add_lane
insert into lane (load_key, gpus, vram) values (%(load_key)s, %(gpus)s, %(vram)s)
on conflict do nothing;

-- name: lane
select number from lane where load_key = %(load_key)s and gpus = %(gpus)s and vram = %(vram)s;

-- name: add_cells
with fresh as (
  select * from unnest(
    %(ordinal)s::bigint[], %(fingerprint)s::text[], %(id)s::text[], %(path)s::text[],
    %(lane)s::bigint[], %(priority)s::bigint[], %(spec)s::text[], %(terms)s::text[]
  ) as fresh (ordinal, fingerprint, id, path, lane, priority, spec, terms)
), added as (
  insert into cell (ordinal, lane, priority) select ordinal, lane, priority from fresh
), called as (
  insert into identity (ordinal, fingerprint, id, path)
  select ordinal, fingerprint, id, path from fresh
)
insert into spec (ordinal, spec, terms) select ordinal, spec, terms from fresh;

-- name: change_cells
-- What ended in the meantime follows the campaign no longer.
with other as (
  select * from unnest(
    %(ordinal)s::bigint[], %(lane)s::bigint[], %(priority)s::bigint[], %(terms)s::text[]
  ) as other (ordinal, lane, priority, terms)
), changed as (
  update cell set lane = other.lane, priority = other.priority from other
  where cell.ordinal = other.ordinal and cell.state in ('pending', 'running')
  returning cell.ordinal
)
update spec set terms = other.terms from other join changed using (ordinal)
where spec.ordinal = other.ordinal;

----------------------------------------------------------------------------------- Claiming

-- name: claim_best
-- The best cells that fit: the head of every lane that fits the offer and whatever has waited out its
-- back-off. More are looked at than are wanted, since others look at the same.
with moment as materialized (
  select coalesce($3::float8, date_part('epoch', clock_timestamp())) as now
), fit as materialized (
  select lane.number, coalesce(wish.weight, $6::float8) as weight
  from lane left join unnest($4::text[], $5::float8[]) as wish (load_key, weight)
    on wish.load_key = lane.load_key
  where lane.gpus <= $7::bigint and lane.vram <= $8::bigint
    and coalesce(wish.weight, $6::float8) is not null
), best as materialized (
  select ordinal from (
    select head.ordinal, head.priority, fit.weight from fit cross join lateral (
      select cell.ordinal, cell.priority from cell
      where cell.lane = fit.number and cell.state = 'pending' and cell.token = 0
      order by cell.priority desc, cell.ordinal limit $9::bigint
    ) as head
    union all
    select cell.ordinal, cell.priority, fit.weight
    from moment cross join cell join fit on fit.number = cell.lane
    where cell.state = 'pending' and cell.token > 0
      and (cell.ready is null or cell.ready <= moment.now)
  ) as either
  order by priority desc, weight, ordinal limit $9::bigint
), taken as (
  update cell set state = 'running', attempt = cell.attempt + 1, token = cell.token + 1,
                  ready = null, runner = $1::text, expires = moment.now + $2::float8,
                  claimed_at = moment.now,
                  claim_seq = case when pg_advisory_xact_lock_shared($11::bigint) is null then 0
                              else nextval('event_seq_seq') end
  from moment
  where cell.ordinal = any (array(
    select free.ordinal from best cross join lateral (
      select cell.ordinal from cell
      where cell.ordinal = best.ordinal and cell.state = 'pending'
        and (cell.ready is null or cell.ready <= (select now from moment))
      for update skip locked
    ) as free limit $10::bigint))
  returning cell.ordinal, cell.attempt, cell.tries, cell.token, cell.ended_token, cell.last,
            cell.priority, cell.lane
)
select (select count(*) from best), taken.ordinal, taken.attempt, taken.tries, taken.token,
       case when taken.last is not null then (
              select '{"outcome": ' || outcome || '}' from ended where number = taken.last)
            when taken.ended_token > 0 then (
              select data from event where event.ordinal = taken.ordinal and kind = 'finished'
              order by seq desc limit 1) end,
       identity.fingerprint, identity.path, spec.spec, spec.terms
from (values (0)) as always
  left join (taken join fit on fit.number = taken.lane
             join identity on identity.ordinal = taken.ordinal
             join spec on spec.ordinal = taken.ordinal) on true
order by taken.priority desc, fit.weight, taken.ordinal;

-- name: claim_first
-- Takes one cell that nobody began, as most claims do where few runners are, and says when, with a
-- horizon. No row comes where it is not free, or where `claim_cells` has more to tell. A row that is
-- locked is passed over; the lock of those who append events is taken once the only row is. What waits
-- again is asked for in order: expecting many, the server would else walk through all cells for one.
update cell set state = 'running', attempt = 1, token = 1, runner = $1::text,
                claimed_at = coalesce($3::float8, date_part('epoch', clock_timestamp())),
                expires = coalesce($3::float8, date_part('epoch', clock_timestamp()))
                          + $2::float8,
                claim_seq = case when pg_advisory_xact_lock_shared($7::bigint) is null then 0
                            else nextval('event_seq_seq') end
where ordinal = (
  select ordinal from cell
  where ordinal = $6::bigint and state = 'pending' and token = 0
    and (select value from meta where key = 'enrolled') = $4::text
    and (select turned from cell as other
         where state = 'pending' and token > 0 and turned >= $5::xid8
         order by turned limit 1) is null
  for update skip locked)
returning ordinal, claimed_at, pg_snapshot_xmin(pg_current_snapshot());

-- name: claim_fresh
-- The same of several, the first that are free, with those of them that somebody had begun, and what
-- each cell is. No row comes where none of them is free, or where `claim_cells` has more to tell.
with taken as (
  update cell set state = 'running', attempt = 1, token = 1, runner = $1::text,
                  claimed_at = coalesce($3::float8, date_part('epoch', clock_timestamp())),
                  expires = coalesce($3::float8, date_part('epoch', clock_timestamp()))
                            + $2::float8,
                  claim_seq = case when pg_advisory_xact_lock_shared($8::bigint) is null then 0
                              else nextval('event_seq_seq') end
  where ordinal = any (array(
    select free.ordinal from unnest($6::bigint[]) as candidate (ordinal) cross join lateral (
      select cell.ordinal from cell
      where cell.ordinal = candidate.ordinal and state = 'pending' and token = 0
      for update skip locked
    ) as free
    where (select value from meta where key = 'enrolled') = $4::text
      and (select turned from cell as other
           where state = 'pending' and token > 0 and turned >= $5::xid8
           order by turned limit 1) is null
    limit $7::bigint))
  returning ordinal, claimed_at
), reached as materialized (
  select count(*) as cells,
         case when count(*) < $7::bigint then cardinality($6::bigint[])
         else max(array_position($6::bigint[], ordinal)) end as place
  from taken
)
select ordinal, claimed_at, pg_snapshot_xmin(pg_current_snapshot()), (
  select string_agg(ordinal::text, ',') from cell, reached
  where place > cells and ordinal = any (($6::bigint[])[:place]) and token > 0),
  fingerprint, path, spec, terms
from taken join identity using (ordinal) join spec using (ordinal);

-- name: claim_cells
-- Takes the first free ones of these cells, which are in the order of a choice. Nothing is taken
-- where the caller does not know of all that could come before them: cells that were enrolled or
-- changed since it looked, or that wait again; those are told of by `claim_news`. Each row says how
-- things stand: the time, the enrolment, a horizon, whether all was known, and which of the
-- candidates that were passed over were begun, and wait no more. Then what was taken: number,
-- attempt, tries, token, the event of the last finish, and what the cell is.
-- The rows are locked, all of them, in an order of their own before the first event has its number.
-- Of what waits again one more than is known is looked at: the server, which takes half of all cells
-- for such ones where half have ended, would else walk through all.
with stands as materialized (
  select coalesce($3::float8, date_part('epoch', clock_timestamp())) as now,
         value as enrolment, pg_snapshot_xmin(pg_current_snapshot()) as horizon,
         value = $4::text and not exists (
           select from (
             select ordinal, turned from cell
             where state = 'pending' and token > 0 and turned >= $5::xid8
             order by turned limit cardinality($6::bigint[]) + 1
           ) as again
           where not exists (select from unnest($6::bigint[], $7::xid8[]) as one (ordinal, turned)
                             where one.ordinal = again.ordinal and one.turned = again.turned)
         ) as known
  from meta where key = 'enrolled'
), taken as (
  update cell set state = 'running', attempt = cell.attempt + 1, token = cell.token + 1,
                  ready = null, runner = $1::text, expires = stands.now + $2::float8,
                  claimed_at = stands.now,
                  claim_seq = case when pg_advisory_xact_lock_shared($10::bigint) is null then 0
                              else nextval('event_seq_seq') end
  from stands
  where stands.known and cell.ordinal = any (array(
    select free.ordinal from unnest($8::bigint[]) as candidate (ordinal) cross join lateral (
      select cell.ordinal from cell
      where cell.ordinal = candidate.ordinal and cell.state = 'pending'
        and (cell.ready is null or cell.ready <= (select now from stands))
      for update skip locked
    ) as free
    where (select known from stands) limit $9::bigint))
  returning cell.ordinal, cell.attempt, cell.tries, cell.token, cell.ended_token, cell.last
), passed as materialized (
  select string_agg(ordinal::text, ',') filter (where token > 0) as begun,
         string_agg(ordinal::text, ',') filter (where state <> 'pending') as gone
  from cell where ordinal = any ($8::bigint[])
    and (select known and ((select count(*) from taken) < $9::bigint
                           or not exists (select from taken where ordinal = ($8::bigint[])[1]))
         from stands)
)
select stands.now, stands.enrolment, stands.horizon, stands.known, passed.begun, passed.gone,
       taken.ordinal, taken.attempt, taken.tries, taken.token,
       case when taken.last is not null then (
              select '{"outcome": ' || outcome || '}' from ended where number = taken.last)
            when taken.ended_token > 0 then (
              select data from event where event.ordinal = taken.ordinal and kind = 'finished'
              order by seq desc limit 1) end,
       fingerprint, path, spec, terms
from stands cross join passed
  left join (taken join identity using (ordinal) join spec using (ordinal)) on true;

-- name: claim_news
-- What waits again since a transaction, all of it before the horizon of a claim that was refused.
-- The server expects far more of that than there is, and would join it with all names.
select ordinal, (select fingerprint from identity where identity.ordinal = cell.ordinal),
       lane, priority, ready, turned::text::bigint
from cell
where state = 'pending' and token > 0 and turned >= %(since)s::text::xid8;

-- name: texts
-- What cells are, and where their results go.
select identity.ordinal, fingerprint, path, spec, terms
from identity join spec using (ordinal) where identity.ordinal = any ($1::bigint[]);

-- name: crowd
-- Who ended cells within some seconds, and which ended since an event, or lately where none is given;
-- and the event of the last end, to ask from next: to look at the sequence of events takes a right that
-- nothing else needs. The newest are asked for in order: expecting a third of all, the server would else
-- walk through all. What runs is not asked for: its index is full of what ran since the table was
-- cleared of old versions.
with late as materialized (
  select ordinal, runner, at from ended
  where seq > coalesce($1::bigint, (select max(seq) from ended) - 1024)
  order by seq desc limit 10000
)
select (select json_agg(runner) from (
          select runner from late
          where at > coalesce($2::float8, date_part('epoch', clock_timestamp())) - $3::float8
          group by runner) as one),
       (select string_agg(ordinal::text, ',') from late),
       (select max(seq) from ended);

-- name: lanes
-- Every lane, and the enrolment that they are of in the first column.
select meta.value, lane.number, lane.load_key, lane.gpus, lane.vram
from meta left join lane on true where meta.key = 'enrolled';

-- name: fresh
-- The cells that nobody began yet.
select ordinal, fingerprint, lane, priority from cell join identity using (ordinal)
where state = 'pending' and token = 0;

-- name: fresh_among
select ordinal, fingerprint, lane, priority from identity join cell using (ordinal)
where fingerprint = any (%(among)s::text[]) and state = 'pending' and token = 0;

----------------------------------------------------------------------------- Holding, ending

-- name: held
-- The cell of a lease, as the lease is compared with it, and how its last attempt ended.
select cell.token, cell.ended_token, cell.runner,
       case when cell.last is not null then (
              select '{"outcome": ' || outcome || '}' from ended where number = cell.last)
            when cell.ended_token > 0 then (
              select data from event where event.ordinal = cell.ordinal and kind = 'finished'
              order by seq desc limit 1) end
from identity join cell using (ordinal)
where identity.fingerprint = %(fingerprint)s;

-- name: renew
-- Whoever touches several cells locks them in one order, so that none waits for one who waits for it.
-- Who claimed counts where that is known: a server that lost a claim gives its token to another.
with held as materialized (
  select cell.ordinal, identity.fingerprint
  from unnest(%(fingerprints)s::text[], %(tokens)s::bigint[], %(runners)s::text[])
      as lease (fingerprint, token, runner)
    join identity using (fingerprint) join cell using (ordinal)
  where cell.token = lease.token and cell.state = 'running'
    and cell.runner = coalesce(lease.runner, cell.runner)
  order by identity.fingerprint for update of cell
)
update cell
set expires = coalesce(%(now)s::float8, date_part('epoch', clock_timestamp()))
              + %(lease)s::float8
from held where cell.ordinal = held.ordinal
returning held.fingerprint, cell.token;

-- name: ordinals
-- The numbers of cells that another handle claimed.
select fingerprint, ordinal from identity where fingerprint = any (%(among)s::text[]);

-- name: finish_cell
-- Ends an attempt while its token is the cell's and has not ended; a row says that it did. Who claimed
-- it counts where that is known, as for `renew`. What waits again wakes others. No row is waited for
-- once the only one is locked.
with done as (
  update cell set state = $4::text, tries = tries + $6::integer, ended_token = token, expires = null,
                  ready = coalesce($8::float8, date_part('epoch', clock_timestamp()))
                          + $5::float8,
                  turned = case $4::text when 'pending' then pg_current_xact_id() end,
                  before = last, last = nextval('ended_number_seq')
  where ordinal = $1::bigint and token = $2::bigint and ended_token < token
    and runner = coalesce($10::text, runner)
  returning last, ordinal, runner, claim_seq, claimed_at, before,
            pg_advisory_xact_lock_shared($9::bigint),
            case $4::text when 'pending' then pg_notify(current_schema(), '') end
)
insert into ended (number, seq, at, ordinal, attempt, token, runner, claim_seq, claimed_at, before,
                   outcome)
select last, nextval('event_seq_seq'),
       coalesce($8::float8, date_part('epoch', clock_timestamp())), ordinal, $3::integer,
       $2::bigint, runner, claim_seq, claimed_at, before, $7::text
from done
returning 1;

-- name: finish_cells
-- The same for several at once: the places, in what was given, of those that it ended. Whoever names
-- cells in the order of their fingerprints waits for nobody who waits for them. States and JSON come
-- joined by a character that they never have: to take an array of them apart takes longer.
with given as materialized (
  select * from unnest($1::bigint[], $2::bigint[], $3::integer[],
                       string_to_array($4::text, e'\x1e'), $5::float8[], $6::integer[],
                       string_to_array($7::text, e'\x1e'), $10::text[])
    with ordinality as given (number, fence, nth, becomes, waits, charge, how, claimant, place)
), done as (
  update cell set state = becomes, tries = tries + charge, ended_token = token, expires = null,
                  ready = coalesce($8::float8, date_part('epoch', clock_timestamp()))
                          + waits,
                  turned = case becomes when 'pending' then pg_current_xact_id() end,
                  before = last, last = nextval('ended_number_seq')
  from given
  where cell.ordinal = given.number and cell.token = fence and cell.ended_token < cell.token
    and cell.runner = coalesce(claimant, cell.runner)
  returning last, cell.ordinal, nth, fence, runner, claim_seq, claimed_at, before, how, becomes,
            place
), all_ended as materialized (
  select bool_or(becomes = 'pending') as wakes from done having count(*) > 0
), turn as materialized (
  select pg_advisory_xact_lock_shared($9::bigint),
         case when wakes then pg_notify(current_schema(), '') end
  from all_ended
), told as (
  insert into ended (number, seq, at, ordinal, attempt, token, runner, claim_seq, claimed_at,
                     before, outcome)
  select last, nextval('event_seq_seq'),
         coalesce($8::float8, date_part('epoch', clock_timestamp())), ordinal, nth, fence,
         runner, claim_seq, claimed_at, before, how
  from turn cross join done
)
select place from done;

-- name: exchange_first
-- `finish_cell`, of what does not wait again, and `claim_first` after it. The row says last how many
-- ended; what was not claimed is null.
with done as (
  update cell set state = $11::text, tries = tries + $12::integer, ended_token = token,
                  expires = null, ready = null, turned = null,
                  before = last, last = nextval('ended_number_seq')
  where ordinal = $8::bigint and token = $9::bigint and ended_token < token
    and runner = coalesce($14::text, runner)
  returning last, ordinal, runner, claim_seq, claimed_at, before,
            pg_advisory_xact_lock_shared($7::bigint)
), told as (
  insert into ended (number, seq, at, ordinal, attempt, token, runner, claim_seq, claimed_at,
                     before, outcome)
  select last, nextval('event_seq_seq'),
         coalesce($3::float8, date_part('epoch', clock_timestamp())), ordinal,
         $10::integer, $9::bigint, runner, claim_seq, claimed_at, before, $13::text
  from done
), taken as (
  update cell set state = 'running', attempt = 1, token = 1, runner = $1::text,
                  claimed_at = coalesce($3::float8, date_part('epoch', clock_timestamp())),
                  expires = coalesce($3::float8, date_part('epoch', clock_timestamp()))
                            + $2::float8,
                  claim_seq = nextval('event_seq_seq')
  where ordinal = (
    select ordinal from cell
    where ordinal = $6::bigint and state = 'pending' and token = 0
      and exists (select from done)
      and (select value from meta where key = 'enrolled') = $4::text
      and (select turned from cell as other
           where state = 'pending' and token > 0 and turned >= $5::xid8
           order by turned limit 1) is null
    for update skip locked)
  returning ordinal, claimed_at
)
select ordinal, claimed_at, pg_snapshot_xmin(pg_current_snapshot()), (select count(*) from done)
from (values (0)) as always left join taken on true;

-- name: exchange_fresh
-- `finish_cells`, of what does not wait again, and `claim_fresh` after it where all of them ended. Each
-- row says last how many did; what was not claimed is null.
with given as materialized (
  select * from unnest($9::bigint[], $10::bigint[], $11::integer[],
                       string_to_array($12::text, e'\x1e'), $13::integer[],
                       string_to_array($14::text, e'\x1e'), $15::text[])
    as given (number, fence, nth, becomes, charge, how, claimant)
), done as (
  update cell set state = becomes, tries = tries + charge, ended_token = token, expires = null,
                  ready = null, turned = null, before = last, last = nextval('ended_number_seq')
  from given
  where cell.ordinal = given.number and cell.token = fence and cell.ended_token < cell.token
    and cell.runner = coalesce(claimant, cell.runner)
  returning last, cell.ordinal, nth, fence, runner, claim_seq, claimed_at, before, how
), all_ended as materialized (
  select count(*) as ends from done having count(*) > 0
), turn as materialized (
  select ends, pg_advisory_xact_lock_shared($8::bigint) from all_ended
), told as (
  insert into ended (number, seq, at, ordinal, attempt, token, runner, claim_seq, claimed_at,
                     before, outcome)
  select last, nextval('event_seq_seq'),
         coalesce($3::float8, date_part('epoch', clock_timestamp())), ordinal, nth, fence,
         runner, claim_seq, claimed_at, before, how
  from turn cross join done
), taken as (
  update cell set state = 'running', attempt = 1, token = 1, runner = $1::text,
                  claimed_at = coalesce($3::float8, date_part('epoch', clock_timestamp())),
                  expires = coalesce($3::float8, date_part('epoch', clock_timestamp()))
                            + $2::float8,
                  claim_seq = nextval('event_seq_seq')
  where ordinal = any (array(
    select free.ordinal from unnest($6::bigint[]) as candidate (ordinal) cross join lateral (
      select cell.ordinal from cell
      where cell.ordinal = candidate.ordinal and state = 'pending' and token = 0
      for update skip locked
    ) as free
    where (select ends from turn) = cardinality($9::bigint[])
      and (select value from meta where key = 'enrolled') = $4::text
      and (select turned from cell as other
           where state = 'pending' and token > 0 and turned >= $5::xid8
           order by turned limit 1) is null
    limit $7::bigint))
  returning ordinal, claimed_at
), reached as materialized (
  select count(*) as cells,
         case when count(*) < $7::bigint then cardinality($6::bigint[])
         else max(array_position($6::bigint[], ordinal)) end as place
  from taken
)
select ordinal, claimed_at, pg_snapshot_xmin(pg_current_snapshot()), (
  select string_agg(ordinal::text, ',') from cell, reached
  where place > cells and ordinal = any (($6::bigint[])[:place]) and token > 0),
  fingerprint, path, spec, terms, (select count(*) from done)
from (values (0)) as always
  left join (taken join identity using (ordinal) join spec using (ordinal)) on true;

-- name: release
-- Who claimed counts as for `renew`.
with held as materialized (
  select cell.ordinal, cell.attempt, cell.token, cell.runner, cell.claim_seq, cell.claimed_at
  from unnest(%(fingerprints)s::text[], %(tokens)s::bigint[], %(runners)s::text[])
      as lease (fingerprint, token, runner)
    join identity using (fingerprint) join cell using (ordinal)
  where cell.token = lease.token and cell.state = 'running'
    and cell.runner = coalesce(lease.runner, cell.runner)
  order by identity.fingerprint for update of cell
), given as (
  update cell set state = 'pending', token = cell.token + 1, expires = null, claim_seq = null,
                  turned = pg_current_xact_id()
  from held where cell.ordinal = held.ordinal
  returning held.*
), turn as materialized (
  select pg_advisory_xact_lock_shared(%(turn)s::bigint), pg_notify(current_schema(), '')
  from given limit 1
), told as (
  select given.*, '{"attempt": ' || attempt || ', "token": ' || token
                  || ', "runner": ' || to_json(runner) as data
  from given cross join turn
), claimed as (
  insert into event (seq, at, kind, fingerprint, ordinal, data)
  select claim_seq, claimed_at, 'claimed', '', ordinal, data || '}'
  from told where claim_seq is not null
)
insert into event (at, kind, fingerprint, ordinal, data)
select coalesce(%(now)s::float8, date_part('epoch', clock_timestamp())),
       'released', '', ordinal, data || ', "reason": ' || %(reason)s || '}'
from told;

-- name: reap
-- The token stays: the writer that was too late may still finish while nobody else claims. What is
-- being renewed or ended at this moment is left alone.
with moment as materialized (
  select coalesce(%(now)s::float8, date_part('epoch', clock_timestamp())) as now
), expired as materialized (
  select ordinal, attempt, token, runner, claim_seq, claimed_at from cell
  where state = 'running' and expires <= (select now from moment)
  order by expires, ordinal for update skip locked
), reaped as (
  update cell set state = 'pending', expires = null, claim_seq = null, turned = pg_current_xact_id()
  from expired where cell.ordinal = expired.ordinal
  returning expired.*
), turn as materialized (
  select pg_advisory_xact_lock_shared(%(turn)s::bigint), pg_notify(current_schema(), '')
  from reaped limit 1
), told as (
  select reaped.*, '{"attempt": ' || attempt || ', "token": ' || token
                   || ', "runner": ' || to_json(runner) || '}' as data
  from reaped cross join turn
), claimed as (
  insert into event (seq, at, kind, fingerprint, ordinal, data)
  select claim_seq, claimed_at, 'claimed', '', ordinal, data from told where claim_seq is not null
), ended as (
  insert into event (at, kind, fingerprint, ordinal, data)
  select moment.now, 'reaped', '', ordinal, data from told cross join moment
)
select fingerprint from reaped join identity using (ordinal);

-- name: retry
-- The token may stay: the attempt that ended the cell cannot end it twice.
update cell set state = 'pending', tries = 0, turned = pg_current_xact_id()
where ordinal = (select ordinal from identity where fingerprint = %(fingerprint)s)
  and state in ('success', 'partial', 'failed', 'skipped', 'cancelled');

-- name: cancel
-- Of a cell that runs the claim becomes an event.
with held as materialized (
  select cell.* from cell join identity using (ordinal)
  where fingerprint = %(fingerprint)s and state in ('pending', 'running')
  for update of cell
), cancelled as (
  update cell set state = 'cancelled', ready = null, token = cell.token + 1, expires = null,
                  claim_seq = null
  from held where cell.ordinal = held.ordinal
)
insert into event (seq, at, kind, fingerprint, ordinal, data)
select claim_seq, claimed_at, 'claimed', '', ordinal,
       '{"attempt": ' || attempt || ', "token": ' || token
       || ', "runner": ' || to_json(runner) || '}'
from held where state = 'running' and claim_seq is not null;

-- name: all_told
-- Waits until whoever appends events has committed, and lets nobody begin until we have.
select pg_advisory_xact_lock(%(turn)s::bigint);

-- name: add_event
insert into event (at, kind, fingerprint, ordinal, data)
select coalesce(%(now)s::float8, date_part('epoch', clock_timestamp())), %(kind)s,
       case when found.ordinal is null then %(fingerprint)s else '' end, found.ordinal, %(data)s
from (select max(ordinal) as ordinal from identity where fingerprint = %(fingerprint)s) as found
returning seq;

-- name: notify
-- Whoever listens looks at what can be claimed. Few transactions do so: they commit one by one.
select pg_notify(current_schema(), '');

-- name: last_event
select greatest((select max(seq) from event), (select max(seq) from ended),
                (select max(claim_seq) from cell where state = 'running'), 0);

------------------------------------------------------------------------------------- Moving

-- name: counts
select (select count(*) from cell), (select count(*) from event) + (select count(*) from ended);

-- name: arriving
create temporary table arriving_cell (
  ordinal bigint, fingerprint text, id text, path text, lane bigint, priority bigint, state text,
  ready float8, attempt integer, tries integer, token bigint, ended_token bigint, runner text,
  expires float8, outcome bigint
) on commit drop;
create temporary table arriving_event (
  seq bigint, at float8, kind text, fingerprint text, data text
) on commit drop;

-- name: cells_arrived
insert into identity select ordinal, fingerprint, id, path from arriving_cell order by ordinal;
insert into cell (ordinal, lane, priority, state, ready, attempt, tries, token, ended_token, runner,
                  expires, turned)
select ordinal, lane, priority, state, ready, attempt, tries, token, ended_token, runner, expires,
       pg_current_xact_id()
from arriving_cell order by ordinal;

-- name: events_arrived
insert into event (seq, at, kind, fingerprint, ordinal, data)
select seq, at, kind, case when ordinal is null then arriving_event.fingerprint else '' end,
       ordinal, data
from arriving_event left join identity using (fingerprint) order by seq;

-- name: go_on
-- Numbers are given from behind those that were brought along.
select setval(pg_get_serial_sequence('event', 'seq'),
              (select coalesce(max(seq), 0) + 1 from event), false),
       setval(pg_get_serial_sequence('lane', 'number'),
              (select coalesce(max(number), 0) + 1 from lane), false);

-- name: lane_rows
select number, load_key, gpus, vram from lane order by number;

-- name: cell_rows
select cell.ordinal, fingerprint, id, path, lane, priority, state, ready, attempt, tries, token,
       ended_token, runner, expires, coalesce(
         (select seq from ended where number = cell.last), (
         select seq from event where event.ordinal = cell.ordinal and kind = 'finished'
         order by seq desc limit 1))
from cell join identity using (ordinal)
order by cell.ordinal;

-- name: spec_rows
select ordinal, spec, terms from spec order by ordinal;

-- name: event_rows
select seq, at, kind, coalesce(identity.fingerprint, history.fingerprint), data
from history left join identity using (ordinal)
order by seq;

------------------------------------------------------------------------------------ Reading

-- name: cells
select cell.ordinal, identity.fingerprint, identity.id, identity.path, cell.state, cell.attempt,
       cell.tries, cell.token, cell.runner, cell.expires, cell.ready,
       coalesce('{"outcome": ' || ended.outcome || '}', old.data),
       case when %(whole)s then spec.spec end, case when %(whole)s then spec.terms end
from cell join identity using (ordinal)
  left join ended on ended.number = cell.last
  left join lateral (
    select data from event where event.ordinal = cell.ordinal and kind = 'finished'
    order by seq desc limit 1
  ) as old on cell.ended_token > 0 and cell.last is null
  left join spec on %(whole)s and spec.ordinal = cell.ordinal
where cell.ordinal > %(after)s and cell.state = any (%(states)s::text[])
order by cell.ordinal;

-- name: cells_among
select cell.ordinal, identity.fingerprint, identity.id, identity.path, cell.state, cell.attempt,
       cell.tries, cell.token, cell.runner, cell.expires, cell.ready,
       coalesce('{"outcome": ' || ended.outcome || '}', old.data),
       case when %(whole)s then spec.spec end, case when %(whole)s then spec.terms end
from cell join identity using (ordinal)
  left join ended on ended.number = cell.last
  left join lateral (
    select data from event where event.ordinal = cell.ordinal and kind = 'finished'
    order by seq desc limit 1
  ) as old on cell.ended_token > 0 and cell.last is null
  left join spec on %(whole)s and spec.ordinal = cell.ordinal
where cell.ordinal > %(after)s
  and identity.fingerprint = any (%(among)s::text[]) and cell.state = any (%(states)s::text[])
order by cell.ordinal;

-- name: events
-- Whoever ended after `last` was still running then: its claim is among these. `written` bounds what
-- is looked through of claims that are told by their ends.
select seq, at, kind, coalesce(identity.fingerprint, history.fingerprint), data
from history left join identity using (ordinal)
where written > %(since)s and seq > %(since)s and seq <= %(last)s
  and (%(kinds)s::text[] is null or kind = any (%(kinds)s::text[]))
order by seq;

-- name: events_among
-- A cell's attempts are a chain from the last one. Events of cells that were enrolled later than told
-- of bear the fingerprint themselves; '' stands for those about no cell. What is found by cell is
-- materialized: a plan that knows no bounds takes them for narrow, and would walk through all events.
with recursive named as materialized (
  select ordinal from identity where fingerprint = any (%(among)s::text[])
), ends as (
  select number, before from ended
  where number = any (array(select last from named join cell using (ordinal)))
  union all
  select ended.number, ended.before from ends join ended on ended.number = ends.before
), found as materialized (
  select * from history where number is null and ordinal = any (array(select ordinal from named))
  union all
  select * from history where number = any (array(select number from ends))
  union all
  select * from history
  where number is null and ordinal is null
    and case fingerprint when '' then (select '' = any (%(among)s::text[]))
        else fingerprint = any (%(among)s::text[]) end
)
select seq, at, kind, coalesce(identity.fingerprint, found.fingerprint), data
from found left join identity using (ordinal)
where seq > %(since)s and seq <= %(last)s
  and (%(kinds)s::text[] is null or kind = any (%(kinds)s::text[]))
order by seq;
