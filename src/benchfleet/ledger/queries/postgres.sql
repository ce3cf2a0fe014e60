-- Every statement of the PostgreSQL ledger. A statement's name stands above it; postgres.py calls
-- it by that name. A claim, a finish, a renewal and a release are one statement each, and so one
-- transaction and one round trip. The clock is the server's, unless a test brings another as `now`.
--
-- Events are numbered in the order in which they can be seen: whoever appends one holds a shared
-- lock (`turn`) from before it has its number until it commits, and holds no row's lock that it
-- asks for later; whoever has to know that nothing below a number is still to come waits for the
-- others (`all_told`).

---------------------------------------------------------------------------------- Connecting

-- name: session
-- How each connection works. Plans are made once: those of a claim take longer than the claim. A
-- server that would forget what it said was committed, when it crashes, is asked not to.
select set_config('search_path', %(search_path)s, false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('jit', 'off', false),
       set_config('synchronous_commit', case current_setting('synchronous_commit')
                    when 'off' then 'on' else current_setting('synchronous_commit') end, false),
       set_config('statement_timeout', %(statement_timeout)s, false),
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, false);

-- name: there
-- Whether the schema of the campaign holds a ledger that we may see.
select to_regclass(%(meta)s) is not null;

-- name: schema_there
select exists (select from pg_namespace where nspname = %(schema)s);

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
select extract(epoch from clock_timestamp())::float8;

---------------------------------------------------------------------------------- Enrolling

-- name: enrolling
-- One enrolls at a time; claims and finishes go on meanwhile.
select value from meta where key = 'enrolled' for update;

-- name: enrolled
update meta set value = (value::bigint + 1)::text where key = 'enrolled';

-- name: last_ordinal
select coalesce(max(ordinal), 0) from cell;

-- name: known
select cell.fingerprint, cell.ordinal, cell.state, spec.terms
from cell join spec using (ordinal)
where cell.fingerprint = any (%(among)s::text[]);

-- name: paths_near
-- The allotted paths that equal one of these or hold it, and those of these that hold allotted ones:
-- what lies inside a path sorts between 'path/' and 'path0' ('0' follows '/').
select cell.path, false from cell where cell.path = any (%(lineage)s::text[])
union all
select wanted.path, true from unnest(%(paths)s::text[]) as wanted (path)
where exists (select from cell where cell.path > wanted.path || '/' collate "C"
                                 and cell.path < wanted.path || '0' collate "C");

-- name: add_lane
insert into lane (load_key, gpus, vram) values (%(load_key)s, %(gpus)s, %(vram)s)
on conflict do nothing;

-- name: lane
select number from lane where load_key = %(load_key)s and gpus = %(gpus)s and vram = %(vram)s;

-- name: add_cells
with fresh as (
  select * from unnest(
    %(ordinals)s::bigint[], %(fingerprints)s::text[], %(ids)s::text[], %(paths)s::text[],
    %(lanes)s::bigint[], %(priorities)s::bigint[], %(specs)s::text[], %(terms)s::text[]
  ) as fresh (ordinal, fingerprint, id, path, lane, priority, spec, terms)
), added as (
  insert into cell (ordinal, fingerprint, id, path, lane, priority)
  select ordinal, fingerprint, id, path, lane, priority from fresh
)
insert into spec (ordinal, spec, terms) select ordinal, spec, terms from fresh;

-- name: change_cells
-- What ended in the meantime follows the campaign no longer.
with other as (
  select * from unnest(
    %(ordinals)s::bigint[], %(lanes)s::bigint[], %(priorities)s::bigint[], %(terms)s::text[]
  ) as other (ordinal, lane, priority, terms)
), changed as (
  update cell set lane = other.lane, priority = other.priority from other
  where cell.ordinal = other.ordinal and cell.state in ('pending', 'running')
  returning cell.ordinal
)
update spec set terms = other.terms from other join changed using (ordinal)
where spec.ordinal = other.ordinal;

----------------------------------------------------------------------------------- Claiming

-- name: claim
-- Take the best cells that fit: the head of every lane that fits the offer and whatever has waited
-- out its back-off, then the best of those that nobody else is taking. More are looked at (`ahead`)
-- than are wanted, since others look at the same. The first column of each row says how many were.
with moment as materialized (
  select coalesce(%(now)s::float8, extract(epoch from clock_timestamp())::float8) as now
), fit as materialized (
  select lane.number, coalesce(wish.weight, %(others)s::float8) as weight
  from lane left join unnest(%(models)s::text[], %(weights)s::float8[]) as wish (load_key, weight)
    on wish.load_key = lane.load_key
  where lane.gpus <= %(gpus)s::bigint and lane.vram <= %(vram)s::bigint
    and coalesce(wish.weight, %(others)s::float8) is not null
), candidate as materialized (
  select ordinal, priority, weight from (
    select head.ordinal, head.priority, fit.weight from fit cross join lateral (
      select cell.ordinal, cell.priority from cell
      where cell.lane = fit.number and cell.state = 'pending' and cell.ready is null
      order by cell.priority desc, cell.ordinal limit %(ahead)s::bigint
    ) as head
    union all
    select cell.ordinal, cell.priority, fit.weight
    from moment cross join cell join fit on fit.number = cell.lane
    where cell.state = 'pending' and cell.ready <= moment.now
  ) as either
  order by priority desc, weight, ordinal limit %(ahead)s::bigint
), free as materialized (
  select cell.ordinal, candidate.priority, candidate.weight
  from candidate join cell on cell.ordinal = candidate.ordinal
  where cell.ordinal = any (array (select ordinal from candidate)) -- a look-up, whatever is guessed
    and cell.state = 'pending' and (cell.ready is null or cell.ready <= (select now from moment))
  order by candidate.priority desc, candidate.weight, candidate.ordinal
  limit %(limit)s::bigint for update of cell skip locked
), taken as (
  update cell set state = 'running', attempt = attempt + 1, token = token + 1, ready = null,
                  runner = %(runner)s, expires = moment.now + %(lease)s::float8
  from free cross join moment where cell.ordinal = free.ordinal
    and cell.ordinal = any (array (select ordinal from free))
  returning cell.*, free.weight
), turn as materialized (
  select pg_advisory_xact_lock_shared(%(turn)s::bigint) from taken limit 1
), told as (
  insert into event (at, kind, fingerprint, data)
  select moment.now, 'claimed', taken.fingerprint,
         '{"attempt": ' || attempt || ', "token": ' || token
         || ', "runner": ' || to_json(runner) || '}'
  from taken cross join moment cross join turn
)
select seen.candidates, taken.ordinal, taken.fingerprint, taken.path, taken.attempt, taken.tries,
       taken.token, spec.spec, spec.terms, event.data
from (select count(*) as candidates from candidate) as seen
  left join taken on true
  left join spec on spec.ordinal = taken.ordinal
  left join event on event.seq = taken.outcome
order by taken.priority desc, taken.weight, taken.ordinal;

-- name: claim_chosen
-- Take the first free ones of these cells, which are in the order of a choice. Nothing is taken
-- where the handle does not know of all that could come before them: cells that were enrolled or
-- changed since it looked (`enrolled`), or that wait again (`news`). The first columns of each row
-- say how that stands, and when, and which candidates were begun (`begun`) or do not wait any more (`gone`).
with moment as materialized (
  select coalesce(%(now)s::float8, extract(epoch from clock_timestamp())::float8) as now
), candidate as materialized (
  select ordinal, place from unnest(%(ordinals)s::bigint[]) with ordinality as one (ordinal, place)
), news as materialized (
  select cell.ordinal, cell.fingerprint, cell.lane, cell.priority, cell.ready
  from cell left join unnest(%(returned)s::bigint[], %(readies)s::float8[])
      as known (ordinal, ready) on known.ordinal = cell.ordinal
  where cell.state = 'pending' and cell.token > 0
    and (known.ordinal is null or cell.ready is distinct from known.ready)
), looked as materialized (
  select (select value from meta where key = 'enrolled') as enrolled,
         (select now from moment) as now,
         (select json_agg(json_build_array(ordinal, fingerprint, lane, priority, ready))
          from news) as news,
         array_agg(ordinal) filter (where cell.token > 0) as begun,
         array_agg(ordinal) filter (where cell.state <> 'pending') as gone
  from candidate join cell using (ordinal)
  where cell.ordinal = any (%(ordinals)s::bigint[])
), free as materialized (
  select cell.ordinal, candidate.place
  from looked cross join candidate join cell on cell.ordinal = candidate.ordinal
  where looked.news is null and looked.enrolled = %(enrolled)s
    and cell.ordinal = any (%(ordinals)s::bigint[])
    and cell.state = 'pending' and (cell.ready is null or cell.ready <= (select now from moment))
  order by candidate.place
  limit %(limit)s::bigint for update of cell skip locked
), taken as (
  update cell set state = 'running', attempt = attempt + 1, token = token + 1, ready = null,
                  runner = %(runner)s, expires = moment.now + %(lease)s::float8
  from free cross join moment where cell.ordinal = free.ordinal
    and cell.ordinal = any (array (select ordinal from free))
  returning cell.*, free.place
), turn as materialized (
  select pg_advisory_xact_lock_shared(%(turn)s::bigint) from taken limit 1
), told as (
  insert into event (at, kind, fingerprint, data)
  select moment.now, 'claimed', taken.fingerprint,
         '{"attempt": ' || attempt || ', "token": ' || token
         || ', "runner": ' || to_json(runner) || '}'
  from taken cross join moment cross join turn
)
select looked.enrolled, looked.now, looked.news, looked.begun, looked.gone,
       taken.ordinal, taken.fingerprint, taken.path, taken.attempt, taken.tries,
       taken.token, spec.spec, spec.terms, event.data
from looked
  left join taken on true
  left join spec on spec.ordinal = taken.ordinal
  left join event on event.seq = taken.outcome
order by taken.place;

-- name: lanes
-- Every lane, and the enrolment that they are of in the first column.
select meta.value, lane.number, lane.load_key, lane.gpus, lane.vram
from meta left join lane on true where meta.key = 'enrolled';

-- name: fresh
-- The cells that nobody began yet.
select ordinal, fingerprint, lane, priority from cell
where state = 'pending' and ready is null and token = 0;

-- name: fresh_among
select ordinal, fingerprint, lane, priority from cell
where fingerprint = any (%(among)s::text[]) and state = 'pending' and token = 0;

----------------------------------------------------------------------------- Holding, ending

-- name: held
-- The cell of a lease, as the lease is compared with it, and how its last attempt ended.
select cell.token, cell.ended_token, event.data
from cell left join event on event.seq = cell.outcome
where cell.fingerprint = %(fingerprint)s;

-- name: renew
update cell
set expires = coalesce(%(now)s::float8, extract(epoch from clock_timestamp())::float8)
              + %(lease)s::float8
from unnest(%(fingerprints)s::text[], %(tokens)s::bigint[]) as lease (fingerprint, token)
where cell.fingerprint = lease.fingerprint and cell.token = lease.token and cell.state = 'running'
returning cell.fingerprint, cell.token;

-- name: finish
-- End the attempt while its token is the cell's and has not ended; no row where it holds no longer.
with moment as materialized (
  select coalesce(%(now)s::float8, extract(epoch from clock_timestamp())::float8) as now
), mine as materialized (
  select ordinal from cell
  where fingerprint = %(fingerprint)s and token = %(token)s::bigint and ended_token < token
  for update
), turn as materialized (
  select ordinal, pg_advisory_xact_lock_shared(%(turn)s::bigint) from mine
), told as (
  insert into event (at, kind, fingerprint, data)
  select moment.now, 'finished', %(fingerprint)s,
         '{"attempt": ' || %(attempt)s::bigint || ', "token": ' || %(token)s::bigint
         || ', "runner": ' || to_json(cell.runner) || ', "outcome": ' || %(outcome)s || '}'
  from turn cross join moment join cell using (ordinal)
  returning seq
)
update cell
set state = %(state)s, ready = moment.now + %(retry_in)s::float8,
    tries = tries + %(charged)s::integer, ended_token = token, expires = null, outcome = told.seq
from mine cross join moment cross join told
where cell.ordinal = mine.ordinal
returning cell.ordinal;

-- name: release
with given as (
  update cell set state = 'pending', token = cell.token + 1, expires = null
  from unnest(%(fingerprints)s::text[], %(tokens)s::bigint[]) as lease (fingerprint, token)
  where cell.fingerprint = lease.fingerprint and cell.token = lease.token
    and cell.state = 'running'
  returning cell.fingerprint, cell.attempt, lease.token, cell.runner
), turn as materialized (
  select pg_advisory_xact_lock_shared(%(turn)s::bigint) from given limit 1
)
insert into event (at, kind, fingerprint, data)
select coalesce(%(now)s::float8, extract(epoch from clock_timestamp())::float8),
       'released', fingerprint,
       '{"attempt": ' || attempt || ', "token": ' || token
       || ', "runner": ' || to_json(runner) || ', "reason": ' || %(reason)s || '}'
from given cross join turn;

-- name: reap
-- The token stays: the writer that was too late may still finish while nobody else claims. What is
-- being renewed or ended at this moment is left alone.
with moment as materialized (
  select coalesce(%(now)s::float8, extract(epoch from clock_timestamp())::float8) as now
), expired as materialized (
  select ordinal from cell
  where state = 'running' and expires <= (select now from moment)
  order by expires, ordinal for update skip locked
), reaped as (
  update cell set state = 'pending', expires = null from expired
  where cell.ordinal = expired.ordinal
  returning cell.fingerprint, cell.attempt, cell.token, cell.runner
), turn as materialized (
  select pg_advisory_xact_lock_shared(%(turn)s::bigint) from reaped limit 1
), told as (
  insert into event (at, kind, fingerprint, data)
  select moment.now, 'reaped', fingerprint,
         '{"attempt": ' || attempt || ', "token": ' || token
         || ', "runner": ' || to_json(runner) || '}'
  from reaped cross join moment cross join turn
)
select fingerprint from reaped;

-- name: wake
-- Cells whose back-off is over become like any others, so that a claim finds them in their lane.
update cell set ready = null where ordinal in (
  select ordinal from cell
  where state = 'pending'
    and ready <= coalesce(%(now)s::float8, extract(epoch from clock_timestamp())::float8)
  for update skip locked
);

-- name: retry
-- The token may stay: the attempt that ended the cell cannot end it twice.
update cell set state = 'pending', tries = 0
where fingerprint = %(fingerprint)s
  and state in ('success', 'partial', 'failed', 'skipped', 'cancelled');

-- name: cancel
update cell set state = 'cancelled', ready = null, token = token + 1, expires = null
where fingerprint = %(fingerprint)s and state in ('pending', 'running');

-- name: all_told
-- Waits until whoever appends events has committed, and lets nobody begin until we have.
select pg_advisory_xact_lock(%(turn)s::bigint);

-- name: add_event
insert into event (at, kind, fingerprint, data)
values (coalesce(%(now)s::float8, extract(epoch from clock_timestamp())::float8),
        %(kind)s, %(fingerprint)s, %(data)s)
returning seq;

-- name: last_event
select coalesce(max(seq), 0) from event;

------------------------------------------------------------------------------------- Moving

-- name: counts
select (select count(*) from cell), (select count(*) from event);

-- name: go_on
-- Numbers are given from behind those that were brought along.
select setval(pg_get_serial_sequence('event', 'seq'),
              (select coalesce(max(seq), 0) + 1 from event), false),
       setval(pg_get_serial_sequence('lane', 'number'),
              (select coalesce(max(number), 0) + 1 from lane), false);

------------------------------------------------------------------------------------ Reading

-- name: cells
select cell.ordinal, cell.fingerprint, cell.id, cell.path, cell.state, cell.attempt, cell.tries, cell.token,
       cell.runner, cell.expires, cell.ready, event.data,
       case when %(whole)s then spec.spec end, case when %(whole)s then spec.terms end
from cell left join event on event.seq = cell.outcome
          left join spec on %(whole)s and spec.ordinal = cell.ordinal
where cell.ordinal > %(after)s and cell.state = any (%(states)s::text[])
order by cell.ordinal;

-- name: cells_among
select cell.ordinal, cell.fingerprint, cell.id, cell.path, cell.state, cell.attempt, cell.tries, cell.token,
       cell.runner, cell.expires, cell.ready, event.data,
       case when %(whole)s then spec.spec end, case when %(whole)s then spec.terms end
from cell left join event on event.seq = cell.outcome
          left join spec on %(whole)s and spec.ordinal = cell.ordinal
where cell.ordinal > %(after)s
  and cell.fingerprint = any (%(among)s::text[]) and cell.state = any (%(states)s::text[])
order by cell.ordinal;

-- name: events
select seq, at, kind, fingerprint, data from event
where seq > %(since)s and seq <= %(last)s
  and (%(kinds)s::text[] is null or kind = any (%(kinds)s::text[]))
order by seq;

-- name: events_among
select seq, at, kind, fingerprint, data from event
where seq > %(since)s and seq <= %(last)s
  and fingerprint <> '' and fingerprint = any (%(among)s::text[])
  and (%(kinds)s::text[] is null or kind = any (%(kinds)s::text[]))
order by seq;
