"""The planner's problem: a campaign's cells, this machine, hosts, and what providers offer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchfleet.domain.cell import Cell
from benchfleet.domain.hardware import MachineHardware, hardware_problem
from benchfleet.domain.rent import RentEntry
from benchfleet.planner.rent.problem import CellGroup, Lot, RentProblem, Span
from benchfleet.providers.base import GpuOffer
from benchfleet.rentals.stage_limits import stage_limits
from benchfleet.runner.resources.shapes import Pool, impossible
from benchfleet.runner.scheduler.duration_model import DurationModel

UNKNOWN_S = 600.0  # assumed for a cell of which nothing is known
_UNKNOWN_RANGE_S = 60.0, 3600.0
_LOAD = Span(low=10.0, expected=120.0, high=900.0)  # where nobody knows
_MIN_SETUP_S, _SETUP_S = 180.0, 420.0
_SPREAD = 2.0  # of the usual error, at both ends of the range
_MIN_SHARE = 0.1  # of an expected time, at the low end
_MILLION = 1_000_000
LOCAL_LOT = "this machine"


@dataclass(frozen=True, kw_only=True)
class Market:
    """The offers for one entry, cheapest first."""

    entry: RentEntry
    offers: tuple[GpuOffer, ...]

    @property
    def machine(self) -> MachineHardware:
        """What one of its machines has."""
        offer = self.offers[0]
        return MachineHardware(
            gpus=(offer.gpu,) * offer.count, memory=offer.vram, provider=offer.provider
        )


@dataclass(frozen=True, kw_only=True)
class Built:
    """The problem, and the cells that it cannot say much about."""

    problem: RentProblem
    unplaceable: int  # cells that nothing here can run
    unknown: int  # cells of whose time nothing is known


def split_entries(entries: Sequence[RentEntry], cells: Iterable[Cell]) -> list[RentEntry]:
    """The entries, each of one provider if cells name providers."""
    if not any(one.provider for cell in cells for one in cell.hardware):
        return list(entries)
    return [
        replace(entry, name=f"{entry.name}-{provider}", providers=(provider,))
        if len(entry.providers) > 1
        else entry
        for entry in entries
        for provider in entry.providers
    ]


def build(
    cells: Sequence[Cell],
    times: DurationModel,
    markets: Sequence[Market],
    *,
    pool: Pool | None = None,
    hosts: Sequence[str] = (),
) -> Built:
    """The problem of these cells. `pool` is this machine's, `hosts` those of the inventory, of
    which nothing is known: cells that name no hardware may run there, one at a time."""
    lots = [_lot(market) for market in markets if market.offers]
    if pool is not None and pool.devices:
        lots.append(Lot(name=LOCAL_LOT, count=1, slots=pool.slots))
    lots += [Lot(name=host, count=1) for host in hosts]
    counts: Counter[tuple[Span, str, frozenset[str], int]] = Counter()
    loads: dict[str, Span] = {}
    unplaceable = unknown = 0
    for cell in cells:
        if cell.need.endpoint:
            continue  # it asks a server elsewhere
        names = {one.entry.name for one in markets if one.offers and _fits(cell, one)}
        if pool is not None and pool.devices and not impossible(cell.need, [pool]):
            names.add(LOCAL_LOT)
        names |= set(hosts) if not cell.hardware else set()
        if not names:
            unplaceable += 1
            continue
        seconds = _seconds(cell, times)
        unknown += seconds is None
        span = seconds or _unknown(cell)
        name = cell.model.name
        loads.setdefault(name, _load(times, name))
        counts[span, name, frozenset(names), max(1, cell.need.gpus)] += 1
    groups = tuple(
        CellGroup(count=count, seconds=span, model=model, lots=names, width=width)
        for (span, model, names, width), count in counts.items()
    )
    used = {name for group in groups for name in group.lots}
    problem = RentProblem(
        groups=groups, lots=tuple(lot for lot in lots if lot.name in used), loads=loads
    )
    return Built(problem=problem, unplaceable=unplaceable, unknown=unknown)


def _lot(market: Market) -> Lot:
    entry, offers = market.entry, market.offers
    limit = round(entry.max_price.amount * _MILLION) if entry.max_price else 0
    return Lot(
        name=entry.name,
        count=entry.count,
        prices=tuple(offer.hourly for offer in offers),
        dearest=limit or offers[min(len(offers), entry.count + 1) - 1].hourly,
        setup=Span(low=_MIN_SETUP_S, expected=_SETUP_S, high=stage_limits(entry.image).total),
        slots=entry.cpu_slots or entry.gpus,
    )


def _fits(cell: Cell, market: Market) -> bool:
    need, offer = cell.need, market.offers[0]
    return (
        need.gpus <= market.entry.gpus
        and need.vram <= offer.vram
        and not hardware_problem(cell.hardware, market.machine)
    )


def _seconds(cell: Cell, times: DurationModel) -> Span | None:
    expected = times.expected(cell)
    if expected is None:
        return None
    error = _SPREAD * times.error(1)
    seconds = expected.seconds
    return Span(
        low=seconds * max(_MIN_SHARE, 1 - error), expected=seconds, high=seconds * (1 + error)
    )


def _unknown(cell: Cell) -> Span:
    low, high = _UNKNOWN_RANGE_S
    if cell.limits.cell:
        high = max(low, cell.limits.cell)
    return Span(low=low, expected=min(UNKNOWN_S, high), high=high)


def _load(times: DurationModel, model: str) -> Span:
    seconds = times.load(model)
    return Span(low=seconds / 2, expected=seconds, high=seconds * 2) if seconds else _LOAD


def planned_entries(markets: Sequence[Market], counts: Mapping[str, int]) -> tuple[RentEntry, ...]:
    """The entries of which something is rented, with as many machines as planned."""
    return tuple(
        replace(one.entry, planned=counts[one.entry.name])
        for one in markets
        if counts.get(one.entry.name)
    )
