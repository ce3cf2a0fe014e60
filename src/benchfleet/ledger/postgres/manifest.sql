-- The manifest: one row for each attempt, and for each rental without one. `reports/manifest.py` makes
-- the same rows; its docstrings say what they mean.

create or replace view benchmark_manifest as
with fact as (  -- events, with JSON as PostgreSQL reads it: NaN is a number of Python's
  select seq, at, kind, fingerprint,
    regexp_replace(data, ': -?(NaN|Infinity)', ': null', 'g')::json as data
  from event
),
ended as (  -- who cancels a cell names no token: what runs it ends
  select fingerprint, case when kind = 'cancel_asked' then
    (select max((claim.data::json->>'token')::bigint) from event as claim
      where claim.fingerprint = fact.fingerprint and claim.kind = 'claimed' and claim.seq < fact.seq)
    else (data->>'token')::bigint end as token, min(seq) as seq from fact
  where kind in ('finished', 'released', 'reaped', 'cancel_asked') group by 1, 2
),
used as (
  select fingerprint, (data->>'token')::bigint as token, max(seq) as seq from fact
  where kind = 'used' group by 1, 2
),
attempt as (
  select began.seq, began.fingerprint, began.at as began, ending.at as completed,
    began.data->>'attempt' as number, began.data->>'runner' as runner,
    cell.path, spec.spec::json #>> '{model,name}' as model,
    (spec.terms::json->>'priority')::integer as priority, ending.kind as kind,
    case when ending.kind <> 'finished' then coalesce(ending.data->>'reason', case when ending.kind = 'reaped' then 'its lease ran out' end)
      else 'taken from ' || (ending.data #>> '{outcome,taken_from}') end as reason,
    ending.data->'outcome' as outcome,
    coalesce(nullif(ending.data #>> '{outcome,host}', ''), usage.data->>'host', '') as host,
    coalesce(ending.data #> '{outcome,usage}', usage.data->'usage') as usage
  from fact as began
  join cell on cell.fingerprint = began.fingerprint
  join spec on spec.ordinal = cell.ordinal
  left join ended on ended.fingerprint = began.fingerprint and ended.token = (began.data->>'token')::bigint
  left join fact as ending on ending.seq = ended.seq
  left join used on used.fingerprint = began.fingerprint and used.token = (began.data->>'token')::bigint
  left join fact as usage on usage.seq = used.seq
  where began.kind = 'claimed'
),
measured as (
  select seq,
    coalesce(
      outcome #>> '{metrics,output_tokens_per_second}', outcome #>> '{reported,output_tokens_per_second}',
      outcome #>> '{metrics,tokens_per_second}', outcome #>> '{reported,tokens_per_second}')::double precision as speed,
    coalesce(
      outcome #>> '{metrics,total_requests}', outcome #>> '{reported,total_requests}',
      outcome #>> '{metrics,samples}', outcome #>> '{reported,samples}')::double precision as requests,
    coalesce(
      outcome #>> '{metrics,error_count}', outcome #>> '{reported,error_count}',
      outcome #>> '{metrics,errors}', outcome #>> '{reported,errors}')::double precision as errors,
    (usage->>'cost')::double precision as cost, (usage->>'seconds')::double precision as seconds,
    coalesce((usage->>'token_cost')::double precision, 0) as token_cost, (usage->>'tokens')::double precision as tokens
  from attempt
),
priced as (  -- an hour of the slot, and a million tokens
  select seq, speed, requests, errors, cost,
    case when cost > token_cost and seconds > 0 then (cost - token_cost) / seconds * 3600 end as hour,
    case when tokens > 0 then token_cost / tokens * 1e6::double precision end as million
  from measured
),
step as (
  select seq, at, kind, data, data->>'id' as id, nullif(data->>'why', '') as why
  from fact
  where fingerprint = 'rentals' and kind in ('rental_intended', 'rental_created', 'rental_ready',
    'rental_returning', 'rental_ended', 'rental_void')
),
latest as (  -- what the first and the last steps of each rental say
  select id, min(seq) as first, max(seq) as last,
    max(seq) filter (where kind = 'rental_intended') as intent,
    max(seq) filter (where data->>'instance' is not null) as instance,
    max(seq) filter (where data->>'hourly' is not null) as hourly,
    max(seq) filter (where kind = 'rental_ready') as ready,
    min(seq) filter (where why is not null) as why
  from step group by id
),
ending as (  -- what each instance of a rental cost
  select id, instance, cost, exact from (
    select id, instance, (data->>'cost')::numeric as cost,
      bool_and((data->>'exact')::boolean) over (partition by id) as exact,
      row_number() over (partition by id, instance order by seq desc) as number
    from (
      select id, seq, data, coalesce(data->>'instance', (
        select one.data->>'instance' from step as one
        where one.id = step.id and one.seq < step.seq and one.data->>'instance' is not null
        order by one.seq desc limit 1)) as instance
      from step where kind = 'rental_ended'
    ) as each
  ) as numbered where number = 1
),
bill as (select id, sum(cost) as cost, bool_and(exact) as exact from ending group by id),
rental as (
  select latest.id, latest.first as seq, replace(last.kind, 'rental_', '') as state,
    coalesce(intent.data #>> '{account,provider}', first.data #>> '{account,provider}') as provider,
    coalesce(intent.data->>'entry', '') || '-' || latest.id as host,
    coalesce(intent.data->>'gpu', '') as gpu,
    coalesce(intent.data->>'owner', '') as owner,
    coalesce(intent.data->>'offer', '') as offer,
    case when intent.seq is null then 0.0 else intent.at end as intended,
    coalesce(instance.data->>'instance', '') as instance,
    coalesce((hourly.data->>'hourly')::double precision, 0) / 1e6::double precision as price,
    coalesce(ready.data->>'address', '') as address,
    coalesce((ready.data->>'port')::integer, 22) as port,
    coalesce(why.why, '') as why, why.data->'failure' as failure,
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
    greatest(0, trunc((coalesce(completed, 0) - began) * 100))::numeric as time
  from attempt join rental on rental.host = attempt.host
),
weighed as (
  select seq, id, cost, case when sum(time) over (partition by id) > 0 then time else 1 end as weight
  from timed
),
shared as (
  select seq, id, cost, div(cost * weight, total) as part,
    row_number() over (partition by id order by mod(cost * weight, total) desc, seq) as rank
  from (select *, sum(weight) over (partition by id) as total from weighed) as all_of_it
),
share as (
  select seq, id,
    (part + case when rank <= cost - sum(part) over (partition by id) then 1 else 0 end)
      ::double precision / 1e6::double precision as cost
  from shared
),
line as (
  select
    substr(fingerprint, 1, 12) || '-' || number as id, runner as run_id, began as created,
    case when rental.id is null then nullif(outcome->>'device_type', '') else gpu end as gpu_type,
    coalesce(provider, 'local') as provider, model, priority,
    coalesce(nullif(attempt.host, ''), runner) as worker_id,
    instance as session_id, address as instance_ip, port as ssh_port, offer as offer_id,
    case when rental.id is null then hour else price end as price_per_hour,
    case when kind = 'finished' then outcome->>'state' else replace(coalesce(kind, 'running'), 'cancel_asked', 'cancelled') end as status,
    began, completed, nullif(outcome->>'digest', '') as benchmark_id,
    path as output_file, speed as tokens_per_second, requests as total_requests, errors as error_count,
    coalesce(outcome #>> '{first,kind}', outcome #>> '{failure,kind}') as failure_reason,
    coalesce(outcome #>> '{first,stage}', outcome #>> '{failure,stage}') as failure_stage,
    coalesce(outcome #>> '{first,message}', outcome #>> '{failure,message}') as error_message,
    coalesce(share.cost, priced.cost) as total_cost,
    case when rental.id is null and priced.cost is null then nullif(reason, '')
      else coalesce(exact, 'estimated') || coalesce('; ' || nullif(reason, ''), '') end as notes,
    case when hour is null then million
      when speed > 0 then hour / 3600 / speed * 1e6::double precision + coalesce(million, 0) end as cost_per_million_tokens,
    0 as alone, attempt.seq as seq
  from attempt
  join priced on priced.seq = attempt.seq
  left join rental on rental.host = attempt.host
  left join share on share.seq = attempt.seq
  union all
  select id, owner, intended, gpu, provider, null, null, owner, instance, address, port, offer,
    price, state, null, null, null, null, null, null, null,
    failure->>'kind', failure->>'stage', failure->>'message',
    final_cost::double precision / 1e6::double precision, why, null, 1, seq
  from rental where id not in (select id from timed)
)
select id, run_id,
  to_char(to_timestamp(trunc(created)) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as created_at,
  gpu_type, provider, model, priority, worker_id, session_id, instance_ip, ssh_port, offer_id,
  price_per_hour, status,
  to_char(to_timestamp(trunc(began)) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as started_at,
  to_char(to_timestamp(trunc(completed)) at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as completed_at,
  benchmark_id, output_file, tokens_per_second, total_requests, error_count, failure_reason,
  failure_stage, error_message, total_cost, notes, cost_per_million_tokens
from line order by coalesce(began, created), alone, seq;
