-- The tables of one campaign's ledger, in a PostgreSQL schema of its own: a campaign is granted,
-- backed up and dropped by itself, and its events have numbers of their own. Times are seconds since
-- the epoch by the server's clock.

-- What the ledger is: 'schema' (the number of this script) and 'campaign' (its name).
create table meta (
  key text primary key,
  value text not null
);

-- One row per cell. Every claim and finish writes a new version of the row, so pages keep some room,
-- and dead versions are vacuumed long before they are a fifth of a large table.
create table cell (
  ordinal bigint primary key,                   -- the order of enrolment
  fingerprint text collate "C" not null unique,
  id text not null,
  path text collate "C" not null unique,        -- allotted once, never changed
  state text not null default 'pending',
  ready double precision,                       -- end of the back-off; null: it may be claimed
  attempt integer not null default 0,           -- claims so far
  tries integer not null default 0,             -- tries used up
  token bigint not null default 0,              -- the fencing number; only ever grows
  ended_token bigint not null default 0,        -- of the last attempt that was finished
  runner text not null default '',              -- who claimed it last
  expires double precision,                     -- end of the lease of a running cell
  outcome bigint                                -- the event of the last finish
) with (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);

-- The few cells that run. It is not by `expires`, so that a renewal changes no index.
create index cell_running on cell (ordinal) where state = 'running';

-- What a cell is. `spec` stays as it was first enrolled; `terms` is not part of the identity and
-- follows the campaign: needs, limits, priority, where the model is.
create table spec (
  ordinal bigint primary key,
  spec text not null,
  terms text not null
);

-- The numbers of events, in the order in which readers see them: a writer that draws one holds a shared
-- lock until it commits, and a reader waits for the lock before it reads (`await_events`). Draw one
-- only after all rows of cells that the transaction changes are locked: a writer that waited for a
-- row while it holds this lock could wait for ever for one that waits behind a reader.
create sequence event_seq;
create function next_event() returns bigint language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(hashtextextended(current_schema(), 0));
  return nextval('event_seq');
end $$;

-- What happened; rows are only appended.
create table event (
  seq bigint primary key default next_event(),
  at double precision not null,
  kind text not null,
  fingerprint text collate "C" not null,        -- of the cell; '' where it is about none
  data text not null                            -- JSON
) with (autovacuum_vacuum_insert_scale_factor = 0.02);
create index event_of_cell on event (fingerprint, seq);

-- What each runner reported last of its slots, as JSON: only for people who watch.
create table progress (
  runner text collate "C" primary key,
  at double precision not null,
  data text not null
);

-- The time: the server's, unless a test gives another.
create function clock(test_time double precision) returns double precision language sql as
  $$ select coalesce(test_time, date_part('epoch', clock_timestamp())) $$;

-- The attempt of an event, as JSON.
create function attempt_data(attempt integer, token bigint, runner text, more text default '')
returns text language sql stable as $$
  select '{"attempt": ' || attempt || ', "token": ' || token || ', "runner": ' || to_json(runner)
         || more || '}'
$$;
