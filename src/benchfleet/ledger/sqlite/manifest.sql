-- The manifest: one row for each attempt, and for each rental without one. `reports/manifest.py` makes
-- the same rows; its docstrings say what they mean.

create view if not exists benchmark_manifest as
with fact as (  -- events, with JSON as SQLite reads it: NaN is a number of Python's
  select seq, at, kind, fingerprint,
    case when json_valid(data) then data else
      replace(replace(replace(data, ': NaN', ': null'), ': Infinity', ': null'), ': -Infinity', ': null')
    end as data
  from event
),
ended as (  -- who cancels a cell names no token: what runs it ends
  select fingerprint, case when kind = 'cancel_asked' then
    (select max(json_extract(claim.data, '$.token')) from event as claim
      where claim.fingerprint = fact.fingerprint and claim.kind = 'claimed' and claim.seq < fact.seq)
    else json_extract(data, '$.token') end as token, min(seq) as seq from fact
  where kind in ('finished', 'released', 'reaped', 'cancel_asked') group by 1, 2
),
used as (
  select fingerprint, json_extract(data, '$.token') as token, max(seq) as seq from fact
  where kind = 'used' group by 1, 2
),
attempt as (
  select began.seq, began.fingerprint, began.at as began, ending.at as completed,
    json_extract(began.data, '$.attempt') as number, json_extract(began.data, '$.runner') as runner,
    cell.path, json_extract(spec.spec, '$.model.name') as model,
    json_extract(spec.terms, '$.priority') as priority, ending.kind as kind,
    case when ending.kind <> 'finished' then coalesce(json_extract(ending.data, '$.reason'), case when ending.kind = 'reaped' then 'its lease ran out' end)
      else 'taken from ' || json_extract(ending.data, '$.outcome.taken_from') end as reason,
    json_extract(ending.data, '$.outcome') as outcome,
    coalesce(nullif(json_extract(ending.data, '$.outcome.host'), ''), json_extract(use.data, '$.host'), '') as host,
    coalesce(json_extract(ending.data, '$.outcome.usage'), json_extract(use.data, '$.usage')) as usage
  from fact as began
  join cell on cell.fingerprint = began.fingerprint
  join spec on spec.ordinal = cell.ordinal
  left join ended on ended.fingerprint = began.fingerprint and ended.token = json_extract(began.data, '$.token')
  left join fact as ending on ending.seq = ended.seq
  left join used on used.fingerprint = began.fingerprint and used.token = json_extract(began.data, '$.token')
  left join fact as use on use.seq = used.seq
  where began.kind = 'claimed'
),
measured as (
  select seq,
    coalesce(
      json_extract(outcome, '$.metrics.output_tokens_per_second'), json_extract(outcome, '$.reported.output_tokens_per_second'),
      json_extract(outcome, '$.metrics.tokens_per_second'), json_extract(outcome, '$.reported.tokens_per_second')) as speed,
    coalesce(
      json_extract(outcome, '$.metrics.total_requests'), json_extract(outcome, '$.reported.total_requests'),
      json_extract(outcome, '$.metrics.samples'), json_extract(outcome, '$.reported.samples')) as requests,
    coalesce(
      json_extract(outcome, '$.metrics.error_count'), json_extract(outcome, '$.reported.error_count'),
      json_extract(outcome, '$.metrics.errors'), json_extract(outcome, '$.reported.errors')) as errors,
    json_extract(usage, '$.cost') as cost, json_extract(usage, '$.seconds') as seconds,
    coalesce(json_extract(usage, '$.token_cost'), 0.0) as token_cost, json_extract(usage, '$.tokens') as tokens
  from attempt
),
priced as (  -- an hour of the slot, and a million tokens
  select seq, speed, requests, errors, cost,
    case when cost > token_cost and seconds > 0 then 1.0 * (cost - token_cost) / seconds * 3600 end as hour,
    case when tokens > 0 then 1.0 * token_cost / tokens * 1e6 end as million
  from measured
),
step as (
  select seq, at, kind, data, json_extract(data, '$.id') as id,
    nullif(json_extract(data, '$.why'), '') as why
  from fact
  where fingerprint = 'rentals' and kind in ('rental_intended', 'rental_created', 'rental_ready',
    'rental_returning', 'rental_ended', 'rental_void')
),
latest as (  -- what the first and the last steps of each rental say
  select id, min(seq) as first, max(seq) as last,
    max(case when kind = 'rental_intended' then seq end) as intent,
    max(case when json_extract(data, '$.instance') is not null then seq end) as instance,
    max(case when json_extract(data, '$.hourly') is not null then seq end) as hourly,
    max(case when kind = 'rental_ready' then seq end) as ready,
    min(case when why is not null then seq end) as why
  from step group by id
),
ending as (  -- what each instance of a rental cost
  select id, instance, cost, exact from (
    select id, instance, json_extract(data, '$.cost') as cost,
      min(json_extract(data, '$.exact')) over (partition by id) as exact,
      row_number() over (partition by id, instance order by seq desc) as number
    from (
      select id, seq, data, coalesce(json_extract(data, '$.instance'), (
        select json_extract(one.data, '$.instance') from step as one
        where one.id = step.id and one.seq < step.seq
          and json_extract(one.data, '$.instance') is not null
        order by one.seq desc limit 1)) as instance
      from step where kind = 'rental_ended'
    )
  ) where number = 1
),
bill as (select id, sum(cost) as cost, min(exact) as exact from ending group by id),
rental as (
  select latest.id, latest.first as seq, replace(last.kind, 'rental_', '') as state,
    coalesce(json_extract(intent.data, '$.account.provider'), json_extract(first.data, '$.account.provider')) as provider,
    coalesce(json_extract(intent.data, '$.entry'), '') || '-' || latest.id as host,
    coalesce(json_extract(intent.data, '$.gpu'), '') as gpu,
    coalesce(json_extract(intent.data, '$.owner'), '') as owner,
    coalesce(json_extract(intent.data, '$.offer'), '') as offer,
    case when intent.seq is null then 0.0 else intent.at end as intended,
    coalesce(json_extract(instance.data, '$.instance'), '') as instance,
    coalesce(json_extract(hourly.data, '$.hourly'), 0) / 1e6 as price,
    coalesce(json_extract(ready.data, '$.address'), '') as address,
    coalesce(json_extract(ready.data, '$.port'), 22) as port,
    coalesce(why.why, '') as why, json_extract(why.data, '$.failure') as failure,
    case when last.kind in ('rental_ended', 'rental_void') then coalesce(bill.cost, 0) end as final_cost,  -- null while it is open
    case when last.kind = 'rental_ended' and bill.exact then 'exact' else 'estimated' end as exact
  from latest
  join step as first on first.seq = latest.first
  join step as last on last.seq = latest.last
  left join step as intent on intent.seq = latest.intent
  left join step as instance on instance.seq = latest.instance
  left join step as hourly on hourly.seq = latest.hourly
  left join step as ready on ready.seq = latest.ready
  left join step as why on why.seq = latest.why
  left join bill on bill.id = latest.id
),
timed as (  -- attempts on rented machines, by hundredths of a second
  select attempt.seq, rental.id, final_cost as cost,
    max(0, cast((coalesce(completed, 0) - began) * 100 as integer)) as time
  from attempt join rental on rental.host = attempt.host
),
weighed as (
  select seq, id, cost, case when sum(time) over (partition by id) > 0 then time else 1 end as weight
  from timed
),
shared as (
  select seq, id, cost, cost * weight / total as part,
    row_number() over (partition by id order by cost * weight % total desc, seq) as rank
  from (select *, sum(weight) over (partition by id) as total from weighed)
),
share as (
  select seq, id,
    (part + (rank <= cost - sum(part) over (partition by id))) / 1e6 as cost
  from shared
),
line as (
  select
    substr(fingerprint, 1, 12) || '-' || number as id, runner as run_id, began as created,
    case when rental.id is null then nullif(json_extract(outcome, '$.device_type'), '') else gpu end as gpu_type,
    coalesce(provider, 'local') as provider, model, priority,
    coalesce(nullif(attempt.host, ''), runner) as worker_id,
    instance as session_id, address as instance_ip, port as ssh_port, offer as offer_id,
    case when rental.id is null then hour else price end as price_per_hour,
    case when kind = 'finished' then json_extract(outcome, '$.state') else replace(coalesce(kind, 'running'), 'cancel_asked', 'cancelled') end as status,
    began, completed, nullif(json_extract(outcome, '$.digest'), '') as benchmark_id,
    path as output_file, speed as tokens_per_second, requests as total_requests, errors as error_count,
    coalesce(json_extract(outcome, '$.first.kind'), json_extract(outcome, '$.failure.kind')) as failure_reason,
    coalesce(json_extract(outcome, '$.first.stage'), json_extract(outcome, '$.failure.stage')) as failure_stage,
    coalesce(json_extract(outcome, '$.first.message'), json_extract(outcome, '$.failure.message')) as error_message,
    coalesce(share.cost, priced.cost) as total_cost,
    case when coalesce(rental.id, priced.cost) is null then nullif(reason, '')
      else coalesce(exact, 'estimated') || coalesce('; ' || nullif(reason, ''), '') end as notes,
    case when hour is null then million
      when speed > 0 then hour / 3600 / speed * 1e6 + coalesce(million, 0) end as cost_per_million_tokens,
    0 as alone, attempt.seq as seq
  from attempt
  join priced on priced.seq = attempt.seq
  left join rental on rental.host = attempt.host
  left join share on share.seq = attempt.seq
  union all
  select id, owner, intended, gpu, provider, null, null, owner, instance, address, port, offer,
    price, state, null, null, null, null, null, null, null,
    json_extract(failure, '$.kind'), json_extract(failure, '$.stage'), json_extract(failure, '$.message'),
    final_cost / 1e6, why, null, 1, seq
  from rental where id not in (select id from timed)
)
select id, run_id,
  strftime('%Y-%m-%dT%H:%M:%SZ', cast(created as integer), 'unixepoch') as created_at,
  gpu_type, provider, model, priority, worker_id, session_id, instance_ip, ssh_port, offer_id,
  price_per_hour, status,
  strftime('%Y-%m-%dT%H:%M:%SZ', cast(began as integer), 'unixepoch') as started_at,
  strftime('%Y-%m-%dT%H:%M:%SZ', cast(completed as integer), 'unixepoch') as completed_at,
  benchmark_id, output_file, tokens_per_second, total_requests, error_count, failure_reason,
  failure_stage, error_message, total_cost, notes, cost_per_million_tokens
from line order by coalesce(began, created), alone, seq;
