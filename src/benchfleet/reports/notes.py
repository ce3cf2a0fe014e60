"""What a reader should know before trusting a report's numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.humanize import counted, examples

from .pooling import Row

_FIND_SAMPLES = (
    "`benchfleet merge` brings what another host or a store has, and `benchfleet verify` names "
    "what was changed."
)


def notes(rows: Sequence[Row], records: Iterable[CellRecord]) -> Iterator[str]:
    """What a reader must know to read the numbers correctly."""
    if bare := dict.fromkeys(row.benchmark for row in rows if row.has_none):
        yield f"Without scores of samples, each repeat counts as one value: {examples(bare)}."
    if without := [row for row in rows if row.lacks_samples and not row.by_sample]:
        yield (
            "Some samples are not here or were changed, so each repeat counts as one value: "
            f"{examples(dict.fromkeys(row.benchmark for row in without))}. {_FIND_SAMPLES}"
        )
    some = [
        f"{row.model} / {config} / {row.benchmark}"
        for row in rows
        if row.by_sample
        for config, pool in row.pools.items()
        if pool.lacks_samples
    ]
    if some:
        yield (
            "The samples of some repeats are not here or were changed, so these repeats do not "
            f"count: {examples(some)}. A result without any other repeat shows its mean alone. "
            f"{_FIND_SAMPLES}"
        )
    whole = (row for row in rows if not (row.by_sample or row.lacks_samples or row.has_none))
    if headlines := dict.fromkeys(row.benchmark for row in whole):
        yield (
            "The score is not the mean of its samples' scores, so each repeat counts as one value: "
            f"{examples(headlines)}."
        )
    if unscored := dict.fromkeys(row.benchmark for row in rows if _has_unscored_samples(row)):
        yield f"Samples without a score count in no mean: {examples(unscored)}."
    if any(map(_has_uneven_samples, rows)):
        yield (
            "Some configs have fewer samples than others: means use all of a config's samples, "
            "differences and ranking only those that two configs share."
        )
    if any(pool.is_slowed and pool.tokens() for row in rows for pool in row.pools.values()):
        yield (
            "No speed is shown for sparse configs whose density was measured: measuring it "
            "computes dense attention as well."
        )
    if dense := _dense_after_all(rows):
        yield (
            "These configs left out no key, so they are dense attention here; see the layers and "
            f"sizes of their steps: {examples(dense)}."
        )
    records = [record for record in records if record.state == "success"]
    by_cache = Counter(one.outcome.taken_from for one in records if one.outcome)
    del by_cache[""]
    for cache, count in by_cache.items():
        results = counted(count, "result", "come")
        yield f"{results} from the result cache {cache}; other runs computed them."
    if len(hosts := _hosts(records)) > 1:
        what = "machines" if len({host for host, _ in hosts}) > 1 else "kinds of device"
        texts = [f"{host} ({device})" if device else host for host, device in hosts]
        yield (
            f"Results come from {len(hosts)} {what}, which can change scores slightly and speed "
            f"a lot: {examples(texts)}."
        )


def _dense_after_all(rows: Sequence[Row]) -> list[str]:
    """``model / config`` of those with attention steps whose every measured density is 1."""
    densities: dict[str, list[float]] = {}
    for row in rows:
        for config, pool in row.pools.items():
            if pool.is_slowed and (density := pool.density()) is not None:
                densities.setdefault(f"{row.model} / {config}", []).append(density)
    return [name for name, values in densities.items() if min(values) == 1.0]


def _has_uneven_samples(row: Row) -> bool:
    """Whether some of its configs have other samples than the rest."""
    pools = (pool for pool in row.measured().values() if not pool.apart)
    return len({frozenset(pool.values) for pool in pools}) > 1


def _has_unscored_samples(row: Row) -> bool:
    outcomes = (outcome for pool in row.pools.values() for outcome in pool.outcomes)
    return any(outcome.metrics.get("unscored") for outcome in outcomes)


def _hosts(records: Iterable[CellRecord]) -> list[tuple[str, str]]:
    """The hosts of the results, each with its kind of device if known. A server that a host asks is
    no device of it."""
    kinds: dict[str, set[str]] = {}
    for outcome in (record.outcome for record in records):
        if outcome and outcome.host:
            kind = outcome.device.partition(":")[0]
            kinds.setdefault(outcome.host, set()).add("" if kind == "endpoint" else kind)
    return [
        (host, kind) for host, some in sorted(kinds.items()) for kind in sorted(some - {""} or {""})
    ]
