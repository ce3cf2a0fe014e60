-- The schema: cells, what they ask for, and everything that ever happened to them.
-- Times are seconds since the epoch by the ledger's clock.

-- What the ledger is: 'schema' (its number) and 'campaign' (its name).
create table if not exists meta (
  key text primary key,
  value text not null
) without rowid;
insert or ignore into meta values ('schema', '2');

-- One row a cell, kept narrow because every claim and finish rewrites it.
create table if not exists cell (
  ordinal integer primary key,                  -- the order of enrolment
  fingerprint text not null unique,
  id text not null,
  path text not null unique,                    -- allotted once, never changed
  state text not null default 'pending' check (state in (
    'pending', 'running', 'success', 'partial', 'failed', 'skipped', 'cancelled')),
  ready real,                                   -- end of the back-off; null: it may be claimed
  attempt integer not null default 0,           -- claims so far
  tries integer not null default 0,             -- tries used up
  token integer not null default 0,             -- the fencing number; only ever grows
  ended_token integer not null default 0,       -- of the last attempt that was finished
  runner text not null default '',              -- who claimed it last
  expires real,                                 -- end of the lease of a running cell
  outcome integer references event (seq)        -- the event of the last finish
);

-- Leases that run out are found without a walk over the other cells.
create index if not exists cell_running on cell (expires)
  where state = 'running';

-- What a cell is, apart from the hot row. `spec` stays as it was first enrolled; `terms` is what
-- is no part of the identity and follows the campaign: needs, limits, priority, where the model is.
create table if not exists spec (
  ordinal integer primary key references cell (ordinal),
  spec text not null,
  terms text not null
);

-- What each runner reported last of its slots, as JSON: only for people who watch.
create table if not exists progress (
  runner text primary key,
  at real not null,
  data text not null
) without rowid;

-- Appended facts; rows are never changed or removed, so seq only grows.
create table if not exists event (
  seq integer primary key,
  at real not null,
  kind text not null,
  fingerprint text not null,
  data text not null
);
