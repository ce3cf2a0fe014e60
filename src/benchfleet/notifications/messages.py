"""Which notices of a run and which events of its ledger are worth a message, and what it says."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchfleet.domain.event import Event
from benchfleet.domain.humanize import counted
from benchfleet.domain.notification import NotificationKind, NotificationSettings
from benchfleet.domain.phase import newest_decisions
from benchfleet.domain.state import FINAL_STATES
from benchfleet.runner.progress import Notice, Progress

_MIN_FAILED_CELLS = 3  # below, a share says little


@dataclass(frozen=True, kw_only=True)
class Message:
    """One thing that happened. Workers that report the same thing give it the same key."""

    kind: NotificationKind
    text: str
    final: bool = False  # the campaign or the run is over
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    again_after: tuple[str, ...] = ()  # kinds of events after which the key may come again

    def data(self) -> dict[str, Any]:
        """What the ledger keeps of it; JSON values."""
        return {"key": self.key, "message": self.kind, "text": self.text, "final": self.final}


class MessageWriter:
    """Turns notices into messages; each costs the run no more than a comparison of counts."""

    def __init__(self, settings: NotificationSettings) -> None:
        self._settings = settings
        self._warned = False
        self.ran = self.interrupted = self.ended = False

    def messages(self, notice: Notice, progress: Progress) -> list[Message]:
        """The messages about a notice that the campaign asks for."""
        written = self._of(notice, progress)
        return [message for message in written if message.kind in self._settings.on]

    def _of(self, notice: Notice, progress: Progress) -> list[Message]:
        if notice.kind == "interrupted":
            self.interrupted = True
        elif notice.kind == "run_ended":
            self.ended = True
        elif notice.kind == "host_lost":
            return [Message(kind="host_lost", text=f"Host {notice.data['host']}: {notice.message}")]
        elif notice.kind in ("budget_used", "budget_spent"):
            kind: NotificationKind = "budget" if notice.kind == "budget_used" else "budget_spent"
            key = f"{kind}: {notice.data['budget']}"
            return [Message(kind=kind, text=notice.message, key=key)]
        elif notice.kind in ("cell_done", "cell_failed"):
            self.ran = True
            return self.failures(progress.states)
        return []

    def failures(self, states: Mapping[str, int]) -> list[Message]:
        """The message that too many of the ended cells have failed, by counts of cells; once."""
        failed = states.get("failed", 0) + states.get("partial", 0)
        if self._warned or failed < _MIN_FAILED_CELLS or "failures" not in self._settings.on:
            return []
        share = failed / sum(states.get(state, 0) for state in FINAL_STATES)
        if share <= self._settings.failures:
            return []
        self._warned = True
        text = f"{share:.0%} of the ended cells failed: {cells_text(states)}"
        again_after = ("retry_asked", "enrolled")
        return [Message(kind="failures", text=text, key="failures", again_after=again_after)]


def campaign_done(states: Mapping[str, int]) -> Message:
    """The message that all cells of a campaign have ended."""
    text = f"The campaign is done: {cells_text(states)}"
    again_after = ("finished",)
    return Message(
        kind="campaign_done", text=text, final=True, key="campaign_done", again_after=again_after
    )


def run_ended(run: str, states: Mapping[str, int]) -> Message:
    """The message that a run is over, while cells of its campaign wait."""
    text = f"The run ended before all cells: {cells_text(states)}"
    return Message(kind="campaign_done", text=text, final=True, key=f"run_ended: {run}")


def gate_message(event: Event) -> Message:
    """The message about the decision on a gate."""
    ((phase, decision),) = newest_decisions([event]).items()
    kind: NotificationKind = "phase_done" if decision.state == "opened" else "gate_failed"
    return Message(kind=kind, text=f"Phase {phase}: {decision}")


def recorded_message(event: Event) -> Message:
    """The message that a worker recorded in the ledger."""
    data = event.data
    return Message(kind=data["message"], text=data["text"], final=data["final"], key=data["key"])


def cells_text(states: Mapping[str, int]) -> str:
    """``4 cells, 3 success, 1 failed``"""
    parts = [counted(sum(states.values()), "cell")]
    return ", ".join([*parts, *(f"{count} {state}" for state, count in states.items() if count)])
