"""What would be rented, as people read it before they agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchfleet.domain.humanize import counted, duration
from benchfleet.planner.rent.build import LOCAL_LOT, UNKNOWN_S, Built, Market
from benchfleet.planner.rent.choose import RentPlan

_MILLION = 1_000_000


def plan_lines(
    plan: RentPlan, markets: Sequence[Market], built: Built, *, currency: str
) -> Iterator[str]:
    """One line for each entry, then the range of cost and time with their bounds."""
    for market in markets:
        name, count = market.entry.name, plan.counts.get(market.entry.name, 0)
        if not market.offers:
            yield f"  {name}: nobody offers {market.entry.gpu} on these terms now"
            continue
        offer = market.offers[0]
        cells = counted(plan.cells.get(name, 0), "cell")
        price = f"from {offer.hourly / _MILLION:.3f} {offer.currency}/h"
        where = f"{offer.provider} ({offer.region})" if offer.region else offer.provider
        machines = f"{count} of at most {market.entry.count} × {offer.gpu}"
        yield f"  {name}: {machines}, {price} at {where}; {cells}"
    if local := plan.cells.get(LOCAL_LOT):
        yield f"  {LOCAL_LOT}: {counted(local, 'cell')}"
    low, expected, high = (f"{amount / _MILLION:.2f}" for amount in plan.cost)
    yield f"  cost: {expected} {currency}, from {low} to {high}; {_cost_bound(plan, currency)}"
    least, usual, most = map(duration, plan.seconds)
    quickest = ""
    if plan.seconds_bound:
        quickest = f"; for this money no plan takes less than {duration(plan.seconds_bound)}"
    yield f"  time: {usual}, from {least} to {most}{quickest}"
    if built.unknown:
        cells = counted(built.unknown, "cell")
        assumed = duration(UNKNOWN_S)
        yield f"  note: the time of {cells} is not known; {assumed} each is assumed, or limits.cell"
    if built.unplaceable:
        yield f"  note: {counted(built.unplaceable, 'cell')} can run on none of these machines"


def _cost_bound(plan: RentPlan, currency: str) -> str:
    bound = f"{plan.cost_bound / _MILLION:.2f} {currency}"
    return f"no plan that ends by then costs less than {bound} (gap {plan.gap:.0%})"
