"""`BenchmarkExecutor`: runs a matrix on this machine's GPUs or CPU, and never a cell twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchfleet.campaign.base import Machine
from benchfleet.domain.attempt import CellRecord
from benchfleet.domain.cell import Cell
from benchfleet.domain.event import Event
from benchfleet.domain.humanize import counted, examples
from benchfleet.errors import CampaignError, DeviceError, Mistake, ResultsError
from benchfleet.fleet import Fleet, choose_pool
from benchfleet.result_locations import deleted_notice, rerun_deleted
from benchfleet.results.layout import Layout
from benchfleet.results.read import published_folders
from benchfleet.runner.events import EventQueue
from benchfleet.runner.recovery.rebuild import rebuild
from benchfleet.runner.recovery.startup import publish_committed
from benchfleet.runner.resources.local_host import this_host
from benchfleet.runner.resources.shapes import Pool
from benchfleet.runner.run_end import RunEnd
from benchfleet.runs.live_state import combine, registered_run
from benchfleet.study import Study, open_study
from benchfleet.summary import summarised, write_summary
from benchfleet.wiring import run_cells

from .arguments import CALL, Arguments, read_arguments
from .checks import (
    check_callback,
    check_resuming,
    read_count,
    read_folder,
    read_gpu_ids,
    read_ledger,
    read_timeout,
)
from .collect import ProgressCallback, ProgressReporter, failure, result, stub
from .interrupt import deferred_interrupt, handles_ctrl_c
from .values import (
    AdapterConfig,
    BenchmarkConfig,
    BenchmarkFailure,
    BenchmarkResult,
    ExecutionResults,
)


class BenchmarkExecutor:
    """Runs matrices of models × attention configs × benchmarks × subsets on this machine.

    `gpu_ids` are the GPUs to use, as ``nvidia-smi`` numbers them; ``[]`` runs on the CPU.
    `max_concurrent_runs` cells run at a time over all devices; where that is more than there are
    GPUs, they share them. `base_result_dir` holds the results and, unless a `ledger` is named
    (such as ``sqlite:///local/ledger.db``), the ledger. `progress` is called with an
    `ExecutionProgress` whenever something happened. `limits` and `repeats` are those of a
    campaign's defaults. Unless `quiet`, a call prints which cells it skips.

    The last four are those of sparse-attention-hub: `timeout_per_benchmark` is ``limits["cell"]``
    in seconds, and `verbose` the contrary of `quiet`; the other two cannot be changed.

    Raises CampaignError for wrong arguments, all at once.
    """

    def __init__(
        self,
        gpu_ids: Sequence[int],
        max_concurrent_runs: int,
        base_result_dir: str | os.PathLike[str] = "./benchmark_results",
        *,
        ledger: str = "",
        progress: ProgressCallback | None = None,
        limits: Mapping[str, Any] | None = None,
        repeats: int | None = None,
        quiet: bool = False,
        timeout_per_benchmark: float | None = None,
        verbose: bool = True,
        enable_resumability: bool = True,
        required_result_files: Sequence[str] | None = None,
    ) -> None:
        mistakes: list[Mistake] = []
        self.gpu_ids = read_gpu_ids(gpu_ids, mistakes)
        self.max_concurrent_runs = read_count(max_concurrent_runs, mistakes)
        self.base_result_dir = read_folder(base_result_dir, mistakes)
        self._ledger, self._progress = read_ledger(ledger, mistakes), progress
        self._limits, self._repeats, self._quiet = limits, repeats, quiet or not verbose
        check_callback(progress, mistakes)
        self._timeout = read_timeout(timeout_per_benchmark, mistakes)
        check_resuming(enable_resumability, required_result_files, mistakes)
        if mistakes:
            raise CampaignError("BenchmarkExecutor", mistakes)

    def run_benchmark_matrix(
        self,
        model_names: Sequence[str | os.PathLike[str] | Mapping[str, Any]],
        sparse_attention_configs: Sequence[tuple[str, Any]],
        benchmark_configs: Sequence[BenchmarkConfig | str | Mapping[str, Any]],
        adapter_config: AdapterConfig,
        generation_kwargs: Mapping[str, Any] | None = None,
        request_kwargs: Mapping[str, Any] | None = None,
        *,
        progress: ProgressCallback | None = None,
        limits: Mapping[str, Any] | None = None,
        repeats: int | None = None,
        retry_failed: bool = True,
    ) -> ExecutionResults:
        """Run every combination that has no result yet, and return what there is of all of them.

        A cell that fails is in `failed_executions`, with its reason, and stops nothing. A later
        call reuses what is done, tries again what failed (unless `retry_failed` is false), and
        runs again what was deleted. `progress`, `limits` and `repeats` go over those of the
        executor. A setting in `request_kwargs` is a mistake that says what replaces it.

        Raises CampaignError for wrong arguments, all at once and before anything runs;
        LedgerError or ResultsError where ledger or folder cannot be used; and KeyboardInterrupt
        after a Ctrl-C, once running cells have stopped and were given back with their samples.
        """
        call = read_arguments(
            Path.cwd(),
            model_names,
            sparse_attention_configs,
            benchmark_configs,
            adapter_config,
            generation_kwargs,
            request_kwargs=request_kwargs,
            limits=self._limited(self._limits if limits is None else limits),
            repeats=self._repeats if repeats is None else repeats,
        )
        pool, study = self._checked(call, progress)
        cells = study.cells()
        inbox, serving = EventQueue(), threading.Event()
        watch = ProgressReporter(progress or self._progress, inbox.now)
        with (
            deferred_interrupt(inbox, serving),
            registered_run(study, ends_on="SIGINT" if handles_ctrl_c() else "") as feed,
        ):
            done, deleted = _prepare(study, cells, retry_failed=retry_failed)
            if not self._quiet:
                _print_skipped(cells, done, deleted)
            fleet, observer = Fleet(pool=pool), combine(watch, feed)
            end = run_cells(study, cells, fleet, inbox=inbox, observer=observer, serving=serving)
            serving.clear()
            records = study.records(cells)
            summary = summarised(study, cells, records, end)
            write_summary(study, summary)
            feed.ended(end)
        results, failures = _collected(
            study, cells, records, call, adapter_config, done, _reasons(records, end, watch)
        )
        return ExecutionResults(
            execution_summary=summary,
            individual_results=results,
            failed_executions=failures,
            execution_time=end.seconds,
        )

    def _limited(self, limits: Any) -> Any:
        """The limits with the executor's `timeout_per_benchmark`, unless they have a `cell`."""
        if self._timeout is None or not isinstance(limits, (Mapping, type(None))):
            return limits
        return {"cell": self._timeout, **(limits or {})}

    def _checked(self, call: Arguments, progress: Any) -> tuple[Pool, Study]:
        """The devices and the campaign, or every mistake in executor and call at once."""
        mistakes: list[Mistake] = []
        check_callback(progress, mistakes)
        if self.base_result_dir.exists() and not self.base_result_dir.is_dir():
            message = f"{self.base_result_dir} is a file; name a folder"
            mistakes.append(Mistake(key="base_result_dir", message=message))
        try:
            slots = None if self.gpu_ids else self.max_concurrent_runs
            pool = choose_pool(
                Machine(
                    gpus=self.gpu_ids,
                    cpu_slots=slots,
                    max_concurrent_runs=self.max_concurrent_runs,
                )
            )
        except DeviceError as error:
            message = str(error).replace("leave --gpus out", "give gpu_ids=[]")
            mistakes.append(Mistake(key="gpu_ids", message=message))
        try:
            campaign = call.campaign(self.base_result_dir)
        except CampaignError as error:
            raise CampaignError(CALL, [*mistakes, *error.mistakes]) from None
        if mistakes:
            raise CampaignError(CALL, mistakes)
        return pool, open_study(campaign, ledger=self._ledger)


def _prepare(
    study: Study, cells: Sequence[Cell], *, retry_failed: bool
) -> tuple[dict[str, str], list[CellRecord]]:
    """Reconcile the ledger with the folder and the arguments; return the paths of the finished
    cells by fingerprint, and the cells whose results were deleted.

    A lost ledger is rebuilt from the results. A cell runs again if it failed, or if its folder
    was deleted.
    """
    layout = study.layout
    ledger = study.open_ledger(known_results=True)
    try:
        if not any(True for _ in ledger.cells()) and _holds_results(layout):
            rebuild(ledger, layout, this_host(host=study.host, folder=layout.own_id()))
        for _ in publish_committed(ledger, layout):
            pass  # a crash kept them from their place; they are no news to this caller
        records = list(ledger.cells(fingerprints={str(cell.fingerprint) for cell in cells}))
        failed = [record for record in records if record.state in ("failed", "partial")]
        for record in failed if retry_failed else []:
            ledger.record(Event(kind="retry_asked", fingerprint=record.fingerprint))
    finally:
        ledger.close()
    deleted = rerun_deleted(study, records)
    done = {str(record.fingerprint): record.path for record in records if record.state == "success"}
    for record in deleted:
        del done[record.fingerprint]
    return done, deleted


def _print_skipped(
    cells: Sequence[Cell], done: Mapping[str, str], deleted: Sequence[CellRecord]
) -> None:
    """Print what the call does not run, and what it runs again since it was deleted."""
    if done:
        paths = examples(list(done.values()))
        print(f"skipping {len(done)} of {counted(len(cells), 'cell')}, done before: {paths}")
    if deleted:
        print(deleted_notice(deleted))


def _holds_results(layout: Layout) -> bool:
    """Whether results of the folder itself lie here: those of campaigns in it lie deeper."""
    folders = published_folders(layout.root)
    return any(len(folder.relative_to(layout.root).parts) == 3 for folder in folders)


def _reasons(records: Iterable[CellRecord], end: RunEnd, watch: ProgressReporter) -> dict[str, str]:
    """Why cells have no result although no attempt of theirs says so, by fingerprint."""
    reasons = {str(r.fingerprint): watch.warnings.get(r.path) or end.broken for r in records}
    for cell, why in end.impossible:
        reasons[cell.fingerprint] = f"it cannot run here: {why}"
    return reasons


def _collected(
    study: Study,
    cells: Iterable[Cell],
    records: Iterable[CellRecord],
    call: Arguments,
    adapter_config: Any,
    done: Mapping[str, str],
    reasons: Mapping[str, str],
) -> tuple[list[BenchmarkResult], list[BenchmarkFailure]]:
    """Every cell as a result or as a failure, in the order of the matrix."""
    by_fingerprint = {record.fingerprint: record for record in records}
    results, failures = [], []
    for cell in cells:
        record = by_fingerprint[cell.fingerprint]
        described = stub(cell, record, call, adapter_config, study.layout)
        why = reasons.get(cell.fingerprint, "")
        if record.state == "success":
            try:
                reused = cell.fingerprint in done
                results.append(result(described, record, study.layout, reused=reused))
                continue
            except ResultsError as error:
                why = why or f"{error}; move the folder away and call again"
        failures.append(failure(described, record, why))
    return results, failures
