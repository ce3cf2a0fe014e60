-- What a claim and a finish rewrite is apart from what never changes: a row of a cell that is
-- rewritten is entered anew into every index of its table, and those by name and path are as large
-- as the campaign. Events name their cell by its number. What a claim and a finish do is a function,
-- whose steps are planned once for each connection.
set local statement_timeout = 0;

-- What a cell is called and where its results go, for ever.
create table identity (
  ordinal bigint primary key,
  fingerprint text collate "C" not null unique,
  id text not null,
  path text collate "C" not null unique         -- allotted once, never changed
);
insert into identity select ordinal, fingerprint, id, path from cell;

-- An event of a cell has its number, and no fingerprint but where no such cell was known.
alter table event add column cell bigint;
drop index event_of_cell;
update event set cell = identity.ordinal, fingerprint = ''
from identity where identity.fingerprint = event.fingerprint;
create index event_of_cell on event (cell, seq);

-- The last outcome is the newest 'finished' of the cell's events. `turned` is the transaction that
-- made the cell wait again: whoever knows all of those before one asks for the later ones alone.
-- Constraints are read anew for each statement that rewrites a row, which takes longer than to rewrite
-- it; the functions below are all that does.
alter table spec drop constraint spec_ordinal_fkey;
alter table cell
  drop constraint cell_state_check, drop constraint cell_lane_fkey,
  drop column fingerprint, drop column id, drop column path, drop column outcome,
  add column turned xid8;
update cell set turned = pg_current_xact_id() where state = 'pending' and token > 0;
drop index cell_claimable, cell_backing_off, cell_returned;
create index cell_fresh on cell (lane, priority desc, ordinal)
  where state = 'pending' and token = 0;
create index cell_returned on cell (turned)
  where state = 'pending' and token > 0;

-- Who could read and write cells can do so with what was theirs.
do $$
declare
  one record;
begin
  for one in
    select grantee, privilege_type from pg_class, aclexplode(relacl)
    where pg_class.oid = 'cell'::regclass and grantee <> relowner
      and privilege_type in ('SELECT', 'INSERT')
  loop
    execute format('grant %s on identity to %s', one.privilege_type,
                   case one.grantee when 0 then 'public' else one.grantee::regrole::text end);
  end loop;
end $$;

-- Takes the first free ones of these cells, which are in the order of a choice. Nothing is taken
-- where the caller does not know of all that could come before them: cells that were enrolled or
-- changed since it looked, or that wait again. Whoever names no enrolment has no order to keep.
-- The answer is one text, the cheapest that there is, of records (by E'\x1e') of fields (by E'\x1f').
-- The first says how things stand: the time, the enrolment, a horizon, what waits again (all before
-- the horizon is told of now), and which of the candidates that were passed over were begun, and
-- wait no more. The others are what was taken: number, attempt, tries, token, and the event of the
-- last finish. None of these has such a character, JSON least of all.
create function claim_cells(
  who text, lasts float8, clock float8, enrolment_known text, since xid8, known bigint[],
  known_turned xid8[], candidates bigint[], most integer, turn bigint
) returns text language plpgsql as $$
declare
  moment float8 := coalesce(clock, extract(epoch from clock_timestamp()));
  someone text := to_json(who);
  free bigint[] := candidates;
  passed bigint[];
  next integer := 1;
  taken integer := 0;
  enrolment text;
  horizon xid8;
  news text;
  begun text;
  gone text;
  number bigint;
  nth integer;
  used integer;
  fence bigint;
  last_ended bigint;
  ended text;
  answer text := '';
begin
  select value, pg_snapshot_xmin(pg_current_snapshot()) into enrolment, horizon
  from meta where key = 'enrolled';
  if enrolment <> enrolment_known then
    return concat_ws(E'\x1f', moment, enrolment, horizon, '', '', '');
  end if;
  if enrolment_known is not null and exists (
    select from cell where state = 'pending' and token > 0 and turned >= since
      and not exists (select from unnest(known, known_turned) as one (ordinal, turned)
                      where one.ordinal = cell.ordinal and one.turned = cell.turned)
  ) then
    select json_agg(json_build_array(cell.ordinal, fingerprint, lane, priority, ready,
                                     turned::text)) into news
    from cell join identity using (ordinal)
    where state = 'pending' and token > 0 and turned >= since;
    return concat_ws(E'\x1f', moment, enrolment, horizon, coalesce(news, ''), '', '');
  end if;
  while next <= cardinality(free) and taken < most loop
    update cell set state = 'running', attempt = attempt + 1, token = token + 1, ready = null,
                    runner = who, expires = moment + lasts
    where ordinal = (
      select ordinal from cell
      where ordinal = free[next] and state = 'pending' and (ready is null or ready <= moment)
      for update skip locked
    )
    returning ordinal, attempt, tries, token, ended_token
    into number, nth, used, fence, last_ended;
    if found then
      ended := '';
      if last_ended > 0 then
        select data into ended from event
        where event.cell = number and kind = 'finished' order by seq desc limit 1;
      end if;
      next := next + 1;
      taken := taken + 1;
      if taken = 1 then
        perform pg_advisory_xact_lock_shared(turn);
      end if;
      insert into event (at, kind, fingerprint, cell, data) values (
        moment, 'claimed', '', number,
        '{"attempt": ' || nth || ', "token": ' || fence || ', "runner": ' || someone || '}');
      answer := answer || E'\x1e' || number || E'\x1f' || nth || E'\x1f' || used || E'\x1f'
                || fence || E'\x1f' || ended;
    elsif passed is null then  -- others were quicker: look at all that are left at once
      passed := free[next:];
      select array_agg(one.ordinal order by one.place) into free
      from unnest(passed[2:]) with ordinality as one (ordinal, place)
        join cell on cell.ordinal = one.ordinal
      where state = 'pending' and (ready is null or ready <= moment);
      next := 1;
    else
      next := next + 1;
    end if;
  end loop;
  if passed is not null then
    select string_agg(ordinal::text, ',') filter (where token > 0),
           string_agg(ordinal::text, ',') filter (where state <> 'pending')
    into begun, gone
    from cell where ordinal = any (passed);
  end if;
  return concat_ws(E'\x1f', moment, enrolment, horizon, '', coalesce(begun, ''),
                   coalesce(gone, '')) || answer;
end $$;

-- Ends an attempt while its token is the cell's and has not ended; whether it did.
create function finish_cell(
  name text, fence bigint, nth integer, becomes text, waits float8, charge integer, how text,
  clock float8, turn bigint
) returns boolean language plpgsql as $$
declare
  moment float8 := coalesce(clock, extract(epoch from clock_timestamp()));
  number bigint;
  who text;
begin
  update cell set state = becomes, ready = moment + waits, tries = tries + charge,
                  ended_token = token, expires = null,
                  turned = case becomes when 'pending' then pg_current_xact_id() end
  where ordinal = (select ordinal from identity where fingerprint = name)
    and token = fence and ended_token < token
  returning ordinal, runner into number, who;
  if not found then
    return false;
  end if;
  perform pg_advisory_xact_lock_shared(turn);  -- no row is waited for from here on
  insert into event (at, kind, fingerprint, cell, data) values (
    moment, 'finished', '', number,
    '{"attempt": ' || nth || ', "token": ' || fence || ', "runner": ' || to_json(who)
    || ', "outcome": ' || how || '}');
  return true;
end $$;

-- The same for several at once: the places, in what was given, of those that it ended. Whoever names cells in the order of their fingerprints waits for
-- nobody who waits for them.
create function finish_cells(
  names text[], tokens bigint[], attempts integer[], states text[], waits float8[],
  charges integer[], outcomes text[], clock float8, turn bigint
) returns integer[] language plpgsql as $$
declare
  moment float8 := coalesce(clock, extract(epoch from clock_timestamp()));
  done integer[] := '{}';
  numbers bigint[] := '{}';
  runners text[] := '{}';
  number bigint;
  who text;
begin
  for place in 1 .. cardinality(names) loop
    update cell set state = states[place], ready = moment + waits[place],
                    tries = tries + charges[place], ended_token = token, expires = null,
                    turned = case states[place] when 'pending' then pg_current_xact_id() end
    where ordinal = (select ordinal from identity where fingerprint = names[place])
      and token = tokens[place] and ended_token < token
    returning ordinal, runner into number, who;
    if found then
      done := done || place;
      numbers := numbers || number;
      runners := runners || who;
    end if;
  end loop;
  if done <> '{}' then
    perform pg_advisory_xact_lock_shared(turn);
    for place in 1 .. cardinality(done) loop
      insert into event (at, kind, fingerprint, cell, data) values (
        moment, 'finished', '', numbers[place],
        '{"attempt": ' || attempts[done[place]] || ', "token": ' || tokens[done[place]]
        || ', "runner": ' || to_json(runners[place]) || ', "outcome": '
        || outcomes[done[place]] || '}');
    end loop;
  end if;
  return done;
end $$;
