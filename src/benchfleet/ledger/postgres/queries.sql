-- Every statement of the PostgreSQL ledger. A statement's name stands above it; the code runs it by
-- that name. A claim, a finish, a renewal, a release and a reap are one statement each, and so one
-- transaction and one round trip. `now` is null unless a test brings its own clock.
--
-- A statement that changes several cells locks them in the order of their fingerprints, or skips
-- those that are locked, so no two wait for each other. A lateral join is a look-up for each row on
-- its left, in their order. Events are inserted in the order of `position`: the sort needs all rows,
-- so all cells are locked before the first event has its number (see next_event).

---------------------------------------------------------------------------------- Connecting

-- name: session
-- The settings that each connection works with, whatever the role's own settings say. Plans are made
-- once per connection, and look rows up by their keys: one made while a table is small would else
-- read all of it when it is large. A commit survives a crash of the server.
select set_config('search_path', %(search_path)s, false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('enable_seqscan', 'off', false),
       set_config('enable_hashjoin', 'off', false),
       set_config('enable_mergejoin', 'off', false),
       set_config('jit', 'off', false),
       set_config('max_parallel_workers_per_gather', '0', false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('lock_timeout', '0', false),
       set_config('extra_float_digits', '1', false),
       set_config('array_nulls', 'on', false),
       set_config('synchronous_commit', case current_setting('synchronous_commit')
                    when 'off' then 'on' else current_setting('synchronous_commit') end, false),
       set_config('statement_timeout', %(statement_timeout)s, false),
       set_config('idle_in_transaction_session_timeout', %(idle_timeout)s, false);

-- name: process
-- The server's process behind this connection: a pooler shows a changing one.
select pg_backend_pid();

-- name: has_ledger
-- Whether the schema holds a ledger that we may see.
select to_regclass(%(meta)s) is not null;

-- name: has_view
-- Whether a view is there and names this in its definition.
select coalesce(position(%(text)s::text in pg_get_viewdef(to_regclass(%(view)s))) > 0, false);

-- name: has_schema
select exists (select from pg_namespace where nspname = %(schema)s);

-- name: ledgers
-- The schemas that hold a ledger which we may see.
select n.nspname from pg_namespace n join pg_class c on c.relnamespace = n.oid
where c.relname = 'meta' and c.relkind = 'r' and n.nspname like 'benchfleet\_%%'
  and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
order by n.nspname;

-- name: meta
select key, value from meta;

-- name: lock_creation
-- Of two who make ledgers at once, one waits.
select pg_advisory_xact_lock(hashtextextended('benchfleet makes a ledger', 0));

-- name: add_meta
insert into meta (key, value) values (%(key)s, %(value)s);

-- name: server_time
select date_part('epoch', clock_timestamp());

---------------------------------------------------------------------------------- Enrolling

-- name: lock_enrolment
-- One enrols at a time; claims and finishes go on meanwhile.
select pg_advisory_xact_lock(hashtextextended(current_schema() || ' enrols', 0));

-- name: last_ordinal
select coalesce(max(ordinal), 0) from cell;

-- name: enrolled_cells
-- What the ledger has of the cells that the campaign declares.
select fingerprint, ordinal, state, terms from cell join spec using (ordinal)
where fingerprint = any (%(fingerprints)s::text[]);

-- name: conflicting_paths
-- The allotted paths that equal one of these or hold it, and those of these that hold allotted ones:
-- what lies inside a path sorts between 'path/' and 'path0' ('0' follows '/').
select path, false from cell where path = any (%(lineage)s::text[])
union all
select requested.path, true from unnest(%(paths)s::text[]) as requested (path)
where exists (select from cell where path > requested.path || '/' collate "C"
                                 and path < requested.path || '0' collate "C");

-- name: add_cells
with new_cell as materialized (
  select * from unnest(
    %(ordinal)s::bigint[], %(fingerprint)s::text[], %(id)s::text[], %(path)s::text[],
    %(spec)s::text[], %(terms)s::text[]
  ) as new_cell (ordinal, fingerprint, id, path, spec, terms)
), added as (
  insert into cell (ordinal, fingerprint, id, path)
  select ordinal, fingerprint, id, path from new_cell
)
insert into spec (ordinal, spec, terms) select ordinal, spec, terms from new_cell;

-- name: change_terms
-- A cell that has ended meanwhile no longer follows the campaign.
update spec set terms = changed.terms
from unnest(%(ordinal)s::bigint[], %(terms)s::text[]) as changed (ordinal, terms)
  join cell using (ordinal)
where spec.ordinal = changed.ordinal and cell.state in ('pending', 'running');

----------------------------------------------------------------------------------- Claiming

-- name: claim
-- Claims the first `limit` of the candidates that are pending, ready and not locked, in their order.
-- Returns each cell with the outcome of its last attempt. It reads no candidate after the last one
-- that it claims.
with moment as materialized (
  select clock(%(now)s) as now
), claimable as (
  select match.ordinal, candidate.position
  from json_array_elements_text(%(candidates)s) with ordinality as candidate (fingerprint, position)
    cross join lateral (
      select cell.ordinal from cell cross join moment
      where cell.fingerprint = candidate.fingerprint and cell.state = 'pending'
        and (cell.ready is null or cell.ready <= moment.now)
      for update of cell skip locked
    ) as match
  limit %(limit)s
), leased as (
  update cell set state = 'running', attempt = cell.attempt + 1, token = cell.token + 1,
                  ready = null, runner = %(runner)s, expires = moment.now + %(lease)s
  from claimable cross join moment
  where cell.ordinal = claimable.ordinal
  returning cell.*, claimable.position
), claimed as (
  insert into event (at, kind, fingerprint, data)
  select moment.now, 'claimed', fingerprint, attempt_data(attempt, token, runner)
  from leased cross join moment order by position
)
select leased.fingerprint, path, attempt, tries, token, spec, terms, event.data
from leased join spec using (ordinal) left join event on event.seq = leased.outcome
order by position;

----------------------------------------------------------------------------- Holding, ending

-- name: renew
-- A lease is valid while its token is the cell's. If the handle knows which runner claimed it, that
-- must be the cell's runner too: a standby that lost a claim gives the same token to another.
with locked as materialized (
  select match.ordinal
  from (
    select * from json_to_recordset(%(leases)s)
      as lease (fingerprint text, token bigint, runner text)
    order by fingerprint
  ) as lease cross join lateral (
    select ordinal from cell
    where fingerprint = lease.fingerprint and token = lease.token and state = 'running'
      and cell.runner = coalesce(lease.runner, cell.runner)
    for update
  ) as match
)
update cell set expires = clock(%(now)s) + %(lease)s
from locked where cell.ordinal = locked.ordinal
returning cell.fingerprint, cell.token;

-- name: report_progress
with old as (
  delete from progress where runner in (
    select runner from progress
    where at < clock(%(now)s) - %(max_age)s and runner <> %(runner)s for update skip locked
  )
)
insert into progress (runner, at, data) values (%(runner)s, clock(%(now)s), %(data)s)
on conflict (runner) do update set at = excluded.at, data = excluded.data;

-- name: progress
select runner, clock(%(now)s) - at, data from progress
where at >= clock(%(now)s) - %(max_age)s order by runner;

-- name: finish
-- Ends attempts whose tokens are their cells' and have not ended; the runner counts as for `renew`.
-- Returns the attempts that it ended. A cell that is pending again wakes the listeners.
with moment as materialized (
  select clock(%(now)s) as now
), locked as materialized (
  select match.*, ended.*
  from (
    select * from json_to_recordset(%(ended)s) as ended (
      position integer, fingerprint text, attempt integer, token bigint, runner text,
      new_state text, retry_in float8, charged integer, outcome text)
    order by fingerprint
  ) as ended cross join lateral (
    select ordinal, cell.runner as claimant from cell
    where fingerprint = ended.fingerprint and token = ended.token and ended_token < ended.token
      and cell.runner = coalesce(ended.runner, cell.runner)
    for update
  ) as match
), finished as (
  insert into event (at, kind, fingerprint, data)
  select moment.now, 'finished', fingerprint,
         attempt_data(attempt, token, claimant, ', "outcome": ' || outcome)
  from locked cross join moment order by position
  returning seq, fingerprint
), written as (
  update cell set state = new_state, ready = moment.now + retry_in, tries = tries + charged,
                  ended_token = locked.token, expires = null, outcome = finished.seq
  from locked join finished using (fingerprint) cross join moment
  where cell.ordinal = locked.ordinal
)
select position, case new_state when 'pending' then pg_notify(current_schema(), '') end
from locked;

-- name: ended_attempts
-- The cells of leases that `finish` refused, and how their last attempts ended.
select cell.fingerprint, token, ended_token, runner, data
from cell left join event on event.seq = cell.outcome
where cell.fingerprint = any (%(fingerprints)s::text[]);

-- name: release
-- The runner counts as for `renew`.
with locked as materialized (
  select match.*, lease.*
  from (
    select * from json_to_recordset(%(leases)s)
      as lease (position integer, fingerprint text, token bigint, runner text)
    order by fingerprint
  ) as lease cross join lateral (
    select ordinal, attempt, cell.runner as claimant from cell
    where fingerprint = lease.fingerprint and token = lease.token and state = 'running'
      and cell.runner = coalesce(lease.runner, cell.runner)
    for update
  ) as match
), released as (
  insert into event (at, kind, fingerprint, data)
  select clock(%(now)s), 'released', fingerprint,
         attempt_data(attempt, token, claimant, ', "reason": ' || %(reason)s)
  from locked order by position
), freed as (
  update cell set state = 'pending', token = cell.token + 1, expires = null
  from locked where cell.ordinal = locked.ordinal
)
select pg_notify(current_schema(), '') from locked limit 1;

-- name: reap
-- The token stays: the writer that was too late may still finish while nobody else claims. A cell
-- that is being renewed or ended at this moment is skipped.
with expired as materialized (
  select ordinal, fingerprint, attempt, token, runner, expires from cell
  where state = 'running' and expires <= clock(%(now)s)
  for update skip locked
), reaped as (
  insert into event (at, kind, fingerprint, data)
  select clock(%(now)s), 'reaped', fingerprint, attempt_data(attempt, token, runner)
  from expired order by expires, ordinal
), freed as (
  update cell set state = 'pending', expires = null
  from expired where cell.ordinal = expired.ordinal
)
select fingerprint, pg_notify(current_schema(), '') from expired;

-- name: retry
-- The token may stay: the attempt that ended the cell cannot end it twice.
update cell set state = 'pending', tries = 0
where fingerprint = %(fingerprint)s
  and state in ('success', 'partial', 'failed', 'skipped', 'cancelled');

-- name: cancel
update cell set state = 'cancelled', ready = null, token = token + 1, expires = null
where fingerprint = %(fingerprint)s and state in ('pending', 'running');

-- name: add_event
insert into event (at, kind, fingerprint, data)
values (clock(%(now)s), %(kind)s, %(fingerprint)s, %(data)s)
returning seq;

-- name: lock_subject
-- Of two who append to a subject, one waits: the statement after this one sees the other's event.
select pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || %(fingerprint)s, 0));

-- name: last_event_of
select coalesce(max(seq), 0) from event where fingerprint = %(fingerprint)s;

-- name: notify
-- Wakes the listeners: cells may be claimed.
select pg_notify(current_schema(), '');

------------------------------------------------------------------------------------ Reading

-- name: await_events
-- Waits until every event that has a number is committed. Meanwhile no event gets a number.
select pg_advisory_xact_lock(hashtextextended(current_schema(), 0));

-- name: last_event
select coalesce(max(seq), 0) from event;

-- name: events
select seq, at, kind, fingerprint, data from event
where seq > %(since)s and seq <= %(last)s
  and (%(kinds)s::text[] is null or kind = any (%(kinds)s::text[]))
order by seq;

-- name: events_of
select seq, at, kind, fingerprint, data from event
where fingerprint = any (%(fingerprints)s::text[]) and seq > %(since)s and seq <= %(last)s
  and (%(kinds)s::text[] is null or kind = any (%(kinds)s::text[]))
order by seq;

-- name: cells
select cell.ordinal, cell.fingerprint, id, path, state, attempt, tries, token, runner, expires,
       ready, event.data, spec, terms
from cell left join event on event.seq = cell.outcome
  left join spec on %(with_cell)s and spec.ordinal = cell.ordinal
where cell.ordinal > %(after)s and state = any (%(states)s::text[])
order by cell.ordinal;

-- name: cells_of
select cell.ordinal, cell.fingerprint, id, path, state, attempt, tries, token, runner, expires,
       ready, event.data, spec, terms
from cell left join event on event.seq = cell.outcome
  left join spec on %(with_cell)s and spec.ordinal = cell.ordinal
where cell.fingerprint = any (%(fingerprints)s::text[])
  and cell.ordinal > %(after)s and state = any (%(states)s::text[])
order by cell.ordinal;

------------------------------------------------------------------------------------- Copying

-- name: counts
select (select count(*) from cell), (select count(*) from event);

-- name: set_event_number
-- The next event gets the number after those that were copied.
select setval('event_seq', (select coalesce(max(seq), 0) + 1 from event), false);
