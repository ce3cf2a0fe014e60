"""Which notices of a run are worth a message, and what it says."""

from __future__ import annotations

from dataclasses import dataclass

from benchfleet.domain.humanize import counted
from benchfleet.domain.notification import NotificationKind, NotificationSettings
from benchfleet.runner.progress import Notice, Progress

_MIN_FAILED_CELLS = 3  # below, a share says little


@dataclass(frozen=True, kw_only=True)
class Message:
    """One thing that happened."""

    kind: NotificationKind
    text: str
    final: bool = False  # the run is over


class MessageWriter:
    """Turns notices into messages; each costs the run no more than a comparison of counts."""

    def __init__(self, settings: NotificationSettings) -> None:
        self._settings = settings
        self._ran = self._interrupted = self._warned = False

    def messages(self, notice: Notice, progress: Progress) -> list[Message]:
        """The messages about a notice that the campaign asks for."""
        written = self._of(notice, progress)
        return [message for message in written if message.kind in self._settings.on]

    def _of(self, notice: Notice, progress: Progress) -> list[Message]:
        if notice.kind == "interrupted":
            self._interrupted = True
        elif notice.kind == "gate_decided":
            kind: NotificationKind = "phase_done" if notice.data["opened"] else "gate_failed"
            return [Message(kind=kind, text=f"Phase {notice.message}")]
        elif notice.kind == "host_lost":
            return [Message(kind="host_lost", text=f"Host {notice.data['host']}: {notice.message}")]
        elif notice.kind == "budget_used":
            return [Message(kind="budget", text=notice.message)]
        elif notice.kind in ("cell_done", "cell_failed"):
            self._ran = True
            return self._failures(progress)
        elif notice.kind == "run_ended" and self._ran and not self._interrupted:
            is_done = progress.ended >= progress.total
            first = "The campaign is done" if is_done else "The run ended before all cells"
            text = f"{first}: {_counts(progress)}"
            return [Message(kind="campaign_done", text=text, final=True)]
        return []

    def _failures(self, progress: Progress) -> list[Message]:
        """Once, when too many of the ended cells have failed."""
        failed = progress.states.get("failed", 0) + progress.states.get("partial", 0)
        if self._warned or failed < _MIN_FAILED_CELLS:
            return []
        share = failed / max(1, progress.ended)
        if share <= self._settings.failures:
            return []
        self._warned = True
        text = f"{share:.0%} of the ended cells failed: {_counts(progress)}"
        return [Message(kind="failures", text=text)]


def _counts(progress: Progress) -> str:
    states = {state: count for state, count in progress.states.items() if count}
    parts = [counted(progress.total, "cell"), *(f"{n} {state}" for state, n in states.items())]
    return ", ".join(parts)
