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
create index event_of_cell on event (cell, seq) where cell is not null;
create index event_of_stranger on event (fingerprint, seq) where fingerprint <> '';

-- The last outcome is the newest 'finished' of the cell's events. `turned` is the transaction that
-- made the cell wait again: whoever knows all of those before one asks for the later ones alone.
alter table cell
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
-- changed since it looked, or that wait again. A row without a number says how that stands: which
-- enrolment there is (`enrolment`), what waits again (`news`, of which all before `horizon` are told
-- now), and which of the candidates that were passed over were begun, and wait no more (`gone`).
-- Whoever names no enrolment has no order to keep.
create function claim_cells(
  who text, lasts float8, clock float8, enrolment_known text, since xid8, known bigint[],
  known_turned xid8[], candidates bigint[], most integer, turn bigint
) returns table (
  number bigint, name text, place text, nth integer, used integer, fence bigint, what text,
  how text, ended text, moment float8, enrolment text, horizon xid8, news text, begun bigint[],
  gone bigint[]
) language plpgsql as $$
declare
  someone text := to_json(who);
  free bigint[] := candidates;
  passed bigint[];
  next integer := 1;
  taken integer := 0;
  last_ended bigint;
begin
  moment := coalesce(clock, extract(epoch from clock_timestamp()));
  select value, pg_snapshot_xmin(pg_current_snapshot()) into enrolment, horizon
  from meta where key = 'enrolled';
  if enrolment <> enrolment_known then
    return next;
    return;
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
    return next;
    return;
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
      next := next + 1;
      select identity.fingerprint, identity.path, spec.spec, spec.terms
      into name, place, what, how
      from identity join spec using (ordinal) where identity.ordinal = number;
      ended := null;
      if last_ended > 0 then
        select data into ended from event
        where event.cell = number and kind = 'finished' order by seq desc limit 1;
      end if;
      taken := taken + 1;
      if taken = 1 then
        perform pg_advisory_xact_lock_shared(turn);
      end if;
      insert into event (at, kind, fingerprint, cell, data) values (
        moment, 'claimed', '', number,
        '{"attempt": ' || nth || ', "token": ' || fence || ', "runner": ' || someone || '}');
      return next;
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
  if passed is not null or taken = 0 then
    number := null;
    select array_agg(ordinal) filter (where token > 0),
           array_agg(ordinal) filter (where state <> 'pending')
    into begun, gone
    from cell where ordinal = any (passed);
    return next;
  end if;
end $$;

-- Ends these attempts, each while its token is the cell's and has not ended: the places, in what was
-- given, of those that it ended. Whoever names cells in the order of their fingerprints waits for
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
  if done <> '{}' then  -- no row is waited for from here on
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
