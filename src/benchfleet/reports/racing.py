"""A race: which configs of a campaign are surely worse than the one that leads.

Configs race within a model × benchmark that has several configs and repeats. A decision looks at
whole repeats only, in their order, so that it does not depend on which samples come first. The
error is shared by all ordered pairs of configs in all these groups. So with the campaign's
confidence no config is ever stopped wrongly, however often somebody looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.averages import mean
from benchfleet.domain.cell import Cell
from benchfleet.domain.name_patterns import matches
from benchfleet.domain.race import RaceHistory, RaceSettings, RaceStop
from benchfleet.results.read import SampleScores
from benchfleet.results.summary import is_mean

from .anytime import AnytimeDifference, anytime_difference, paired_units
from .pooling import Scores, column_names
from .race_standings import Group, Race, Standing, Verdict

_ACTIVE = ("pending", "running")


def race_of(
    settings: RaceSettings,
    cells: Sequence[Cell],
    records: Sequence[CellRecord],
    scores: Scores,
    history: RaceHistory,
) -> Race:
    """How the race of these cells stands, by the results that `scores` finds here."""
    record_of = {record.fingerprint: record for record in records}
    columns = column_names(cells)
    members: dict[tuple[str, str], dict[str, _Lane]] = {}
    for cell in cells:
        lanes = members.setdefault((cell.model.name, columns[cell.fingerprint]), {})
        lane = lanes.setdefault(cell.config.name, _Lane({}, {}))
        if (record := record_of.get(cell.fingerprint)) is not None:
            lane.records[cell.repeat] = record
        lane.cells[cell.repeat] = cell
    racing = {
        key: lanes
        for key, lanes in members.items()
        if len(lanes) > 1 and any(len(lane.cells) > 1 for lane in lanes.values())
    }
    comparisons = sum(len(lanes) * (len(lanes) - 1) for lanes in racing.values())
    alpha = (1 - settings.confidence) / max(1, comparisons)
    kept_configs = _baseline_or_named(settings, cells)
    groups = [
        _group(key, lanes, scores, alpha, kept_configs, history) for key, lanes in racing.items()
    ]
    return Race(confidence=settings.confidence, comparisons=comparisons, groups=tuple(groups))


@dataclass(frozen=True)
class _Lane:
    """The repeats of one config."""

    cells: dict[int, Cell]
    records: dict[int, CellRecord]

    def outcome(self, repeat: int) -> Literal["result", "none", "open"]:
        """What became of a repeat: it has a result, will have none, or has not ended."""
        if repeat not in self.cells:
            return "none"
        record = self.records.get(repeat)
        if record is None or record.state in _ACTIVE:
            return "open"
        return "result" if record.state == "success" else "none"


def _group(
    key: tuple[str, str],
    lanes: Mapping[str, _Lane],
    scores: Scores,
    alpha: float,
    kept_configs: Sequence[str],
    history: RaceHistory,
) -> Group:
    model, benchmark = key
    reads = {config: _reads(lane, scores) for config, lane in lanes.items()}
    over = {one for one in lanes if history.is_over((model, one, benchmark))}
    note = _unfit(lanes, reads)
    if note and any(
        history.is_stopped(one) for lane in lanes.values() for one in lane.records.values()
    ):
        note += "; `benchfleet retry --raced` brings back what it stopped before"
    leader = "" if note else _leader(reads, over, kept_configs)
    standings = []
    for config, lane in lanes.items():
        difference: AnytimeDifference | RaceStop | None = None
        rival = leader
        if config in over:
            difference = history.stops[model, config, benchmark]
            rival = difference.leader
        elif leader and config != leader:
            difference = _difference(lanes, reads, config, leader, alpha)
        is_worse = isinstance(difference, RaceStop) or bool(difference and difference.is_worse)
        active = tuple(one for one in lane.records.values() if one.state in _ACTIVE)
        stopped = sum(map(history.is_stopped, lane.records.values()))
        verdict: Verdict = "in" if reads[config] else "no result"
        if note and not stopped:
            verdict = "does not race"
        elif config == leader:
            verdict = "leads"
        elif (model, config, benchmark) in history.overridden:
            verdict = "brought back"
        elif is_worse and active:
            verdict = "kept" if _is_kept(config, kept_configs) else "stops"
        elif stopped:
            verdict = "stopped"
        elif is_worse:
            verdict = "worse"
        standings.append(
            Standing(
                config=config,
                verdict=verdict,
                repeats=len(reads[config]),
                of=len(lane.cells),
                difference=difference,
                compared_with=rival if difference else "",
                active=active,
                stopped=stopped,
            )
        )
    return Group(
        model=model, benchmark=benchmark, leader=leader, standings=tuple(standings), note=note
    )


def _reads(lane: _Lane, scores: Scores) -> dict[int, SampleScores]:
    """The scores of each repeat whose samples are here."""
    reads = {}
    for repeat in sorted(lane.records):
        if lane.outcome(repeat) == "result" and (read := scores(lane.records[repeat])).scores:
            reads[repeat] = read
    return reads


def _unfit(lanes: Mapping[str, _Lane], reads: Mapping[str, Mapping[int, SampleScores]]) -> str:
    """Why the group cannot race; ``""`` if it can."""
    for config, lane in lanes.items():
        ended = (record.outcome for record in lane.records.values() if record.state == "success")
        if any(one and one.metrics.get("samples") == 0 for one in ended):
            return "it has no score of each sample"
        for repeat, read in reads[config].items():
            outcome = lane.records[repeat].outcome
            if outcome is None:
                continue
            if not outcome.reported.get("ranked", True):
                return "a higher score is not better"
            headline = float(outcome.metrics.get("overall_score", math.nan))
            if not is_mean(headline, read.scores.values()):
                return "the score is not the mean of its samples' scores"
            if not all(0 <= score <= 1 for score in read.scores.values()):
                return "a race needs scores from 0 to 1"
    return ""


def _leader(
    reads: Mapping[str, Mapping[int, SampleScores]], over: set[str], kept_configs: Sequence[str]
) -> str:
    """The highest mean over the samples that all configs in the race have, or over its own if they
    share none; of equals a kept one, then the first."""
    values: dict[str, dict[str, float]] = {}
    for config, repeats in reads.items():
        if config not in over:
            answers: dict[str, list[float]] = {}
            for read in repeats.values():
                for sample, score in read.scores.items():
                    answers.setdefault(sample, []).append(score)
            if answers:
                values[config] = {sample: mean(some) for sample, some in answers.items()}
    if not values:
        return ""
    shared = set.intersection(*(set(scored) for scored in values.values()))
    means = {
        config: mean([scored[sample] for sample in shared or scored])
        for config, scored in values.items()
    }
    return max(means, key=lambda one: (means[one], _is_kept(one, kept_configs)))


def _difference(
    lanes: Mapping[str, _Lane],
    reads: Mapping[str, Mapping[int, SampleScores]],
    config: str,
    leader: str,
    alpha: float,
) -> AnytimeDifference | None:
    """The config less the leader, over the repeats before the first that is not over."""
    ours, theirs, contexts = [], [], dict[str, str]()
    for repeat in sorted({*lanes[config].cells, *lanes[leader].cells}):
        outcomes = {lanes[one].outcome(repeat) for one in (config, leader)}
        if "none" in outcomes:
            continue
        if outcomes != {"result"} or any(repeat not in reads[one] for one in (config, leader)):
            break
        ours.append(reads[config][repeat].scores)
        theirs.append(reads[leader][repeat].scores)
        contexts |= {**reads[leader][repeat].contexts, **reads[config][repeat].contexts}
    differences = paired_units(ours, theirs, contexts)
    return anytime_difference(differences, alpha) if differences else None


def _baseline_or_named(settings: RaceSettings, cells: Sequence[Cell]) -> Sequence[str]:
    """The configs that are never stopped: the named ones, or the baseline of reports."""
    if settings.keep is not None:
        return settings.keep
    configs = {cell.config.name: cell.config for cell in cells}
    dense = [name for name, config in configs.items() if not config.attention]
    return [*dense, *configs][:1]


def _is_kept(config: str, kept_configs: Sequence[str]) -> bool:
    return bool(kept_configs) and matches(tuple(kept_configs), config)
