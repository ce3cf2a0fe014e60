-- The first schema: cells, what they ask for, and everything that ever happened to them.
-- Times are seconds since the epoch by the ledger's clock.

-- What the ledger is: 'schema' (the number of the last migration) and 'campaign' (its name).
create table meta (
  key text primary key,
  value text not null
) without rowid;

-- A lane: the cells that one loaded model serves and that ask for the same devices. There are
-- about as many lanes as models, so a claim looks at the head of each lane that fits the offer.
create table lane (
  number integer primary key,
  load_key text not null,
  gpus integer not null,
  vram integer not null,
  unique (load_key, gpus, vram)
);

-- One row a cell, kept narrow because every claim and finish rewrites it.
create table cell (
  ordinal integer primary key,                  -- the order of enrolment
  fingerprint text not null unique,
  id text not null,
  path text not null unique,                    -- allotted once, never changed
  lane integer not null references lane (number),
  priority integer not null,
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

-- Claims stay flat however many cells have ended or wait: each of these holds only its own.
create index cell_claimable on cell (lane, priority desc, ordinal)
  where state = 'pending' and ready is null;
create index cell_backing_off on cell (ready)
  where state = 'pending' and ready is not null;
create index cell_running on cell (expires)
  where state = 'running';

-- What a cell is, apart from the hot row. `spec` stays as it was first enrolled; `terms` is what
-- is no part of the identity and follows the campaign: needs, limits, priority, where the model is.
create table spec (
  ordinal integer primary key references cell (ordinal),
  spec text not null,
  terms text not null
);

-- Appended facts; rows are never changed or removed, so seq only grows.
create table event (
  seq integer primary key,
  at real not null,
  kind text not null,
  fingerprint text not null,
  data text not null
);
