"""Reports and data frames of large campaigns: time and peak memory of each view.

A campaign with the asked number of cells is made with the real ledger and the real result folders,
without syncing them; each result has some samples. Then each view runs in a process of its own, and
its CPU time, its time and its peak memory are printed. With `--keep DIR` the campaign stays there,
and the next call measures it again without making it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from measure import aim, arguments, folder

MODELS, CONFIGS, SUBSETS = 20, 20, 25
CAMPAIGN = """\
campaign: large
defaults: {{repeats: {repeats}}}
matrix:
  models: [{models}]
  configs: {{{configs}}}
  benchmarks: [recall: {{subsets: [{subsets}]}}]
suites: {{core: {{benchmarks: [recall]}}}}
"""
BATCH = 500  # cells that are claimed and ended at once
MAX_SECONDS = {"report": 10.0, "terminal": 10.0, "html": 10.0, "cells": 5.0, "comparisons": 10.0}
MAX_BYTES = 1_000_000_000
VIEWS = ("cells", "report", "terminal", "html", "comparisons", "samples", "attempts")


def campaign(repeats: int) -> str:
    """The text of a campaign with MODELS × CONFIGS × SUBSETS × repeats cells."""
    return CAMPAIGN.format(
        repeats=repeats,
        models=", ".join(f"{{name: m{n}, adapter: mock}}" for n in range(MODELS)),
        configs=", ".join(f"c{n}: {{settings: {{n: {n}}}}}" for n in range(CONFIGS)),
        subsets=", ".join(str(128 + 16 * n) for n in range(SUBSETS)),
    )


def make(work: Path, repeats: int, samples: int) -> Path:
    """The campaign's file in `work`, with a ledger and results; made where it is not there."""
    from benchfleet.campaign.load import load_campaign
    from benchfleet.domain.attempt import RunnerId
    from benchfleet.study import open_study

    file = work / "large.yaml"
    if file.exists():
        return file
    draft = work / "draft.yaml"
    draft.write_text(campaign(repeats))
    for name in ("fsync", "fdatasync"):
        setattr(os, name, lambda handle: None)
    study = open_study(load_campaign(draft))
    cells = study.cells()
    rng, began = random.Random(1), time.perf_counter()
    with closing(study.open_ledger()) as ledger:
        ledger.enroll(cells)
        waiting = iter(cells)
        while batch := {cell.fingerprint: cell for cell in islice(waiting, BATCH)}:
            claims = ledger.claim(RunnerId("perf"), [*batch], limit=BATCH)
            ended = [(c.lease, _result(study, batch, c, rng, samples)) for c in claims]
            ledger.finish_all(ended)
    draft.rename(file)
    print(f"made {len(cells)} cells in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    return file


def _result(
    study: Any, cells: Mapping[Any, Any], claim: Any, rng: random.Random, samples: int
) -> Any:
    from benchfleet.domain.attempt import Outcome
    from benchfleet.results.publish import publish
    from benchfleet.results.write import AttemptFolder, Verdict

    cell = cells[claim.lease.fingerprint]
    chance = 0.4 + 0.4 * (int(cell.fingerprint[:4], 16) / 0xFFFF)
    lines, scores = [], []
    for index in range(samples):
        record = {"index": index, "id": f"{cell.repeat}-{index}", "columns": {}}
        record |= {"predicted_answer": "some answer", "prompt_tokens": 512, "seconds": 0.25}
        lines.append(json.dumps(record) + "\n")
        scores.append(float(rng.random() < chance))
    attempt = AttemptFolder(study.layout.attempt(claim.lease))
    attempt.record("".join(lines).encode())
    score = {"overall": sum(scores) / samples, "per_sample": scores, "tasks": {}, "summary": {}}
    verdict = Verdict(score=score, seconds={"load": 1.0, "benchmark": 9.0}, provenance={})
    sealed = attempt.seal(cell, claim.path, verdict)
    publish(attempt.folder, study.layout.published(claim.path))
    seconds = {"load": 1.0, "benchmark": 9.0}
    return Outcome(state="success", digest=sealed.digest, metrics=sealed.metrics, seconds=seconds)


def view(name: str, file: Path) -> None:
    """One view, in this process."""
    if name in ("report", "terminal", "html"):
        from benchfleet.cli.main import main

        form = "json" if name == "report" else name
        output = file.parent / f"large.{form}"
        if main(["report", str(file), "--format", form, "--output", str(output)]):
            raise SystemExit(f"{name} failed")
        return
    import benchfleet

    frame = getattr(benchfleet.load(file), name)
    print(f"{len(frame)} rows", file=sys.stderr)


def measured(name: str, file: Path) -> dict[str, float]:
    """CPU seconds and peak bytes of a view, in a process of its own."""
    words = [sys.executable, __file__, "--view", name, "--keep", str(file.parent)]
    began = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{name} ended with {os.waitstatus_to_exitcode(status)}")
    return {
        "cpu": used.ru_utime + used.ru_stime,
        "wall": time.perf_counter() - began,
        "bytes": used.ru_maxrss * 1024.0,
    }


def main() -> None:
    options = arguments(
        __doc__ or "",
        numbers={"cells": 100_000, "samples": 5},
        words={"view": "", "only": "", "keep": ""},
    )
    if options.view:
        view(options.view, Path(options.keep) / "large.yaml")
        return
    kept_folder = Path(options.keep)
    with nullcontext(kept_folder) if options.keep else folder(options) as work:
        repeats = max(1, options.cells // (MODELS * CONFIGS * SUBSETS))
        file = make(work, repeats, options.samples)
        figures = {}
        for name in [options.only] if options.only else VIEWS:
            one = figures[name] = measured(name, file)
            print(
                f"{name:12} {one['cpu']:6.1f} s of CPU  {one['wall']:6.1f} s  "
                f"{one['bytes'] / 1e6:6.0f} MB",
                flush=True,
            )
    for name, most in MAX_SECONDS.items():
        if name in figures:
            aim(f"{name}, s", figures[name]["wall"], most)
    if "report" in figures:
        aim("report, GB", figures["report"]["bytes"] / 1e9, MAX_BYTES / 1e9)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
