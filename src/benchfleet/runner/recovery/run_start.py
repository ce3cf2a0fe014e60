"""What a run does before its cells: it enters and takes what is there already, enrolls its cells,
and puts right what a crash left."""

from __future__ import annotations

from benchfleet.domain.humanize import counted, duration
from benchfleet.results.cache import ResultCache
from benchfleet.results.publish import PublishAll
from benchfleet.runner.context import RunnerContext
from benchfleet.runner.progress import NoticeKind
from benchfleet.runner.recovery.cached import CachedResults, TakenResults
from benchfleet.runner.recovery.rebuild import adopt_published
from benchfleet.runner.recovery.startup import (
    publish_committed,
    release_killed,
    remove_empty_folders,
    remove_joined_parts,
    remove_late_attempts,
)
from benchfleet.runner.run_state import RunState
from benchfleet.runner.scheduler.run_request import RunRequest


class RunStart:
    """The start of one run."""

    def __init__(
        self,
        context: RunnerContext,
        request: RunRequest,
        state: RunState,
        *,
        publish_all: PublishAll,
        cache: ResultCache | None,
    ) -> None:
        self._ledger, self._layout = context.ledger, context.layout
        self._local_host, self._state = context.local_host, state
        self._cells, self._options = request.cells, request.options
        self._publish_all = publish_all
        self._cached = CachedResults(context, cache, publish_all) if cache else None

    def begin(self) -> None:
        """Do all of it, count the cells, and report what was done. Raises LedgerError."""
        adopted = adopt_published(
            self._ledger, self._layout, self._local_host, self._cells, seen=self._taking_in
        )
        with self._state.waiting_for("the ledger, which has not taken this run in yet"):
            if self._options.enrolls:
                self._ledger.enroll(self._cells)
            self._ledger.reap()
            released = release_killed(self._ledger, self._local_host)
        cached = self._take_cached()
        self._state.count()
        self._state.progress.reused = self._state.progress.states.get("success", 0)
        self._state.notify("run_started")
        self._report_cached(cached)
        if adopted.entered:
            results = counted(adopted.entered, "result")
            message = f"entered {results} of this folder that the ledger did not have"
            self._state.notify("warning", message=message)
        if released:
            message = f"released {counted(released, 'cell')} of a run that ended without notice"
            self._state.notify("warning", message=message)
        for path, why in adopted.refused:
            self._state.notify("warning", cell=path, message=why)
        for late in publish_committed(self._ledger, self._layout, publish_all=self._publish_all):
            kind: NoticeKind = "warning" if late.problem else "published_late"
            self._state.notify(kind, cell=late.path, message=late.problem)
        remove_late_attempts(self._ledger, self._layout)
        remove_joined_parts(self._ledger, self._layout)
        remove_empty_folders(self._layout)

    def _take_cached(self) -> TakenResults:
        """Take what the result cache has of the enrolled cells."""
        if self._cached is None:
            return TakenResults()
        with self._state.waiting_for("the result cache, from which results are taken"):
            return self._cached.take(self._cells)

    def _report_cached(self, cached: TakenResults) -> None:
        for problem in cached.problems:
            self._state.notify("warning", message=problem)
        if cached.results:
            results, saved = counted(cached.results, "result"), duration(cached.seconds)
            message = f"took {results} from {cached.cache}, which saves {saved} of computing"
            self._state.notify("results_taken", message=message)

    def _taking_in(self, done: int, of: int) -> None:
        """Show progress: a hosted repository takes some seconds for each batch."""
        if self._ledger.hosted:
            self._state.count()
            message = f"the ledger, to enter results of this folder: {done} of {of}"
            self._state.notify("waiting", message=message)
