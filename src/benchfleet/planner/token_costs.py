"""What the tokens of served cells will cost, as a range."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchfleet.benchmarks.base import benchmark_class
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.canonical import canonical_json
from benchfleet.domain.cell import Cell, Fingerprint, Workload
from benchfleet.domain.token_price import TokenPrice
from benchfleet.planner.forecast import SPECIAL_TOKENS


@dataclass(frozen=True, kw_only=True)
class _Earlier:
    """The tokens of one sample of a cell that ended, on the mean."""

    prompt: float
    completion: float
    samples: int
    is_limited: bool  # to fewer samples than the benchmark has


@dataclass(frozen=True, kw_only=True)
class CostRange:
    """The least and the most that something costs."""

    low: float
    high: float
    currency: str


@dataclass(frozen=True, kw_only=True)
class TokenCosts:
    """The costs of the priced cells to run: one range for each currency."""

    ranges: Sequence[CostRange] = ()
    cells: int = 0  # priced ones
    unknown: int = 0  # of these, those of which nothing is known


class TokenForecast:
    """Ranges by cell: from earlier cells that asked the same, else from the bounds of the cell."""

    def __init__(self, records: Iterable[CellRecord], cells: Mapping[Fingerprint, Cell]) -> None:
        self._earlier: defaultdict[str, list[_Earlier]] = defaultdict(list)  # by workload
        for record in records:
            cell = record.cell or cells.get(record.fingerprint)
            metrics = record.outcome.metrics if record.outcome else {}
            samples = int(metrics.get("samples") or 0)
            if cell is None or record.state != "success" or not samples:
                continue
            prompt, completion = (
                float(metrics.get(name, 0)) for name in ("prompt_tokens", "completion_tokens")
            )
            if prompt or completion:
                earlier = _Earlier(
                    prompt=prompt / samples,
                    completion=completion / samples,
                    samples=samples,
                    is_limited=cell.workload.limit is not None,
                )
                self._earlier[_key(cell.workload)].append(earlier)

    def of(self, cell: Cell) -> CostRange | None:
        """What its tokens cost; None if it has no price, or if nothing is known."""
        price = TokenPrice.of(cell.model.outside)
        if price is None:
            return None
        work = cell.workload
        costs = []
        for one in self._earlier.get(_key(work), ()):
            if work.limit or not one.is_limited:
                samples = work.limit or one.samples
                tokens = round(one.prompt * samples), round(one.completion * samples)
                costs.append(price.cost(*tokens))
        if not costs:
            if (most := _most_tokens(work)) is None:
                return None
            costs = [0.0, price.cost(*most)]
        return CostRange(low=min(costs), high=max(costs), currency=price.currency)

    def total(self, cells: Iterable[Cell]) -> TokenCosts:
        """Of these cells together."""
        priced = [cell for cell in cells if TokenPrice.of(cell.model.outside)]
        ranges = [one for cell in priced if (one := self.of(cell))]
        sums: dict[str, tuple[float, float]] = {}
        for one in ranges:
            low, high = sums.get(one.currency, (0.0, 0.0))
            sums[one.currency] = low + one.low, high + one.high
        return TokenCosts(
            ranges=tuple(
                CostRange(low=low, high=high, currency=currency)
                for currency, (low, high) in sums.items()
            ),
            cells=len(priced),
            unknown=len(priced) - len(ranges),
        )


def _key(work: Workload) -> str:
    """Equal for workloads that ask the same, but for their limits."""
    return canonical_json([work.name, work.subset, dict(work.params), dict(work.generation)])


def _most_tokens(work: Workload) -> tuple[int, int] | None:
    """Of all prompts and all answers at most; None if the samples are not known in advance. A
    character is seldom more than one token."""
    benchmark = benchmark_class(work.benchmark)({**work.params, **work.outside})
    longest = benchmark.longest_prompt(work.subset)
    samples = work.declared_samples
    answer = work.generation.get("max_new_tokens")
    if longest is None or samples is None or not isinstance(answer, int):
        return None
    return samples * (longest + SPECIAL_TOKENS), samples * answer
