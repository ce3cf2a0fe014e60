-- All that ever happened, as events, for whoever reads it: what is an event by itself, and what the
-- rows of attempts tell. A claim is told by its cell's row while it runs, then by the one of its end.
create view history as
select seq, at, kind, ordinal, fingerprint, data,
       null::bigint as number,                  -- of the row in `ended` that tells it
       seq as written                           -- the number that its row is found by; never less
from event
union all
select seq, at, 'finished', ordinal, '',
       '{"attempt": ' || attempt || ', "token": ' || token || ', "runner": ' || to_json(runner)
       || ', "outcome": ' || outcome || '}',
       number, seq
from ended
union all
select claim_seq, claimed_at, 'claimed', ordinal, '',
       '{"attempt": ' || attempt || ', "token": ' || token || ', "runner": ' || to_json(runner)
       || '}',
       number, seq
from ended where claim_seq is not null
union all
select claim_seq, claimed_at, 'claimed', ordinal, '',
       '{"attempt": ' || attempt || ', "token": ' || token || ', "runner": ' || to_json(runner)
       || '}',
       null, claim_seq
from cell where state = 'running' and claim_seq is not null;

-- Who could read events can read this.
do $$
declare
  one record;
begin
  for one in
    select grantee from pg_class, aclexplode(relacl)
    where pg_class.oid = 'event'::regclass and grantee <> relowner and privilege_type = 'SELECT'
  loop
    execute format('grant select on history to %s',
                   case one.grantee when 0 then 'public' else one.grantee::regrole::text end);
  end loop;
end $$;
