"""Keeps the lists of phases beside a ledger in git, during a run and at its end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from types import TracebackType

from benchfleet.errors import BenchfleetError, GitAway, LedgerAway
from benchfleet.git.shared_files import SharedFiles
from benchfleet.ledger.base import Ledger
from benchfleet.results.stores.phase_lists import update_lists

_LAST_TIMEOUT_S = 60.0  # for the last look
_END_TIMEOUT_S = 15.0  # for a git command that was interrupted
_CALL_TIMEOUT_S = 5.0  # for the ledger
_LEAST_PAUSE_S = 0.1


class ListKeeper:
    """Removes done lines and follows edits, in a thread. It reports each problem once."""

    def __init__(self, ledger: Ledger, campaign: str, *, notify: Callable[[str], object]) -> None:
        self._ledger, self._campaign, self._notify = ledger, campaign, notify
        self._stopping, self._reported = threading.Event(), set[str]()
        self._notices = set[str]()  # of lists that wait
        self._last_look = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ListKeeper:
        with contextlib.suppress(BenchfleetError):
            if (files := self._ledger.shared_files()) is not None:
                self._thread = threading.Thread(
                    target=self._run, args=(files,), name="lists", daemon=True
                )
                self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_END_TIMEOUT_S)

    def stop(self, *, wait: bool) -> None:
        """End the thread, after a last look at the lists if somebody waits for it."""
        self._last_look = wait
        self._stopping.set()
        if wait and self._thread is not None:
            self._thread.join(_LAST_TIMEOUT_S)

    def _run(self, files: SharedFiles) -> None:
        with contextlib.closing(files.objects):
            self._look(files)
            while not self._stopping.wait(max(_LEAST_PAUSE_S, files.every())):
                self._look(files)
            if self._last_look:
                self._look(files)

    def _look(self, files: SharedFiles) -> None:
        try:
            with self._ledger.within(_CALL_TIMEOUT_S):
                updates = update_lists(files, self._campaign, self._ledger)
            notices = {notice for update in updates for notice in update.notices}
            messages = [message for update in updates for message in update.messages]
            for message in (*messages, *sorted(notices - self._notices)):
                self._notify(message)
            self._notices = notices
        except (GitAway, LedgerAway):
            pass  # the run says so itself
        except BenchfleetError as error:
            if str(error) not in self._reported:
                self._reported.add(str(error))
                self._notify(f"the lists of phases were not updated: {error}")
