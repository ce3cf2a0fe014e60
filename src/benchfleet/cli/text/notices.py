"""What happened in a run, as sentences for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchfleet.cli.text.terminal import moment
from benchfleet.domain.humanize import counted, duration, examples
from benchfleet.domain.part import is_part_id
from benchfleet.runner.progress import Notice, Progress

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40  # as in `logging`
LEVELS = {"debug": DEBUG, "info": INFO, "warning": WARNING, "error": ERROR}
_LEVEL_OF_KIND: Mapping[str, int] = {
    **dict.fromkeys(("cell_progress", "run_started", "run_ended"), 0),  # no sentence
    **dict.fromkeys(("cell_started", "slot_opening", "slot_ready"), DEBUG),
    **dict.fromkeys(
        (
            "warning",
            "host_lost",
            "slot_lost",
            "claim_lost",
            "kept_off",
            "blocked",
            "budget_used",
            "budget_spent",
        ),
        WARNING,
    ),
    **dict.fromkeys(("cell_released", "cell_cancelled", "interrupted"), WARNING),
}


def level_of(notice: Notice) -> int:
    """How serious a notice is; 0 for one without a sentence of its own."""
    if notice.kind == "cell_failed":
        return ERROR if notice.data["retry_in"] is None else WARNING
    return _LEVEL_OF_KIND.get(notice.kind, INFO)


def counts_text(progress: Progress) -> str:
    """``30 cells · 12 done (12 reused) · 2 failed``: done are those that succeeded."""
    states = progress.states
    parts = [counted(progress.total, "cell"), f"{states.get('success', 0)} done"]
    if progress.reused:
        parts[-1] += f" ({progress.reused} reused)"
    for state in ("failed", "partial", "skipped", "cancelled", "running"):
        if states.get(state):
            parts.append(f"{states[state]} {state}")
    return " · ".join(parts)


def progress_text(share: float, eta_s: float | None) -> str:
    """``43 % · ETA 2 min 10 s``"""
    percent = int(100 * share)  # 100 only where all is done
    return f"{percent} %" + (f" · ETA {duration(eta_s)}" if eta_s is not None else "")


def awaited_text(progress: Progress, now: float) -> str:
    """``waiting for host lab, since 1 min 05 s``; empty where all hosts are here."""
    if not (awaited := progress.awaited):
        return ""
    noun = "host" if len(awaited) == 1 else "hosts"
    since = duration(max(0.0, now - min(awaited.values())))
    return f"waiting for {noun} {examples(sorted(awaited))}, since {since}"


def as_of(counted_at: float | None) -> str:
    """`` (as of 14:02, when its ledger last answered)``; empty for counts that are those of a run's
    end."""
    return f" (as of {moment(counted_at)}, when its ledger last answered)" if counted_at else ""


def speed_text(rate: float | None) -> str:
    """``412 tok/s``; empty where no tokens were counted."""
    return "" if rate is None else f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s"


def memory_text(memory: int | None, total: int | None) -> str:
    """``31.2/80 GB`` of a GPU, or ``1.4 GB RAM`` without a total; empty where it is not known."""
    if memory is None:
        return ""
    used = f"{memory / 1e9:.1f}"
    return f"{used}/{total / 1e9:.0f} GB" if total else f"{used} GB RAM"


def sentence(notice: Notice) -> str:
    """A notice as one sentence."""
    if (write := _SENTENCES.get(notice.kind)) is not None:
        return write(notice)
    return f"! {notice.cell} {notice.message}".replace("  ", " ")


def _done(notice: Notice) -> str:
    metrics = notice.data["metrics"]
    took = duration(notice.data["took"])
    if is_part_id(notice.cell):  # its whole cell is scored once all parts are joined
        return f"✓ {notice.cell}  {counted(metrics['samples'], 'sample')}  {took}"
    error = f" ± {metrics['stderr']:.3f}" if "stderr" in metrics else ""
    score = f"{metrics['overall_score']:.3f}{error}"
    return f"✓ {notice.cell}  {score}  {took}"


def _failed(notice: Notice) -> str:
    again = notice.data["retry_in"]
    if again is None:
        after = ""
    elif notice.ending:
        after = "; again in the next run"
    else:
        after = f"; again in {duration(again)}" if again else "; again"
    after += f" {notice.data['differently']}" if notice.data["differently"] else ""
    return f"✗ {notice.cell}{_on_host(notice)}  {notice.message}{after}"


def _on_host(notice: Notice) -> str:
    """`` on lab2``; empty for this machine."""
    return f" on {host}" if (host := notice.data.get("host")) else ""


def _slot_lost(notice: Notice) -> str:
    after = "" if notice.ending else "; another takes its place"
    return f"! slot {notice.slot}{_on_host(notice)} ended: {notice.message}{after}"


def _host_lost(notice: Notice) -> str:
    again = "" if notice.data["hopeless"] or notice.ending else "; it is tried again"
    return f"! host {notice.data['host']}: {notice.message}{again}"


def _host_ready(notice: Notice) -> str:
    data = notice.data
    return f"+ host {data['host']}: {counted(data['slots'], 'slot')} on {data['devices']}"


def _interrupted(notice: Notice) -> str:
    if notice.data["times"] > 1:
        return f"{notice.message} again: ended now"
    if not notice.data["cells"]:
        return f"{notice.message}: ending"
    stop = counted(notice.data["cells"], "running cell", "stop")
    return (
        f"{notice.message}: {stop} after the sample at hand, and what is there is kept;"
        " again to end now"
    )


def _samples(notice: Notice, verb: str = "") -> str:
    return counted(notice.data["samples"], "sample", verb)


def _with_samples(notice: Notice) -> str:
    """Of scripts no sample is counted before the end, though their answers may be kept."""
    return f" with {_samples(notice)}" if notice.data["samples"] else ""


_SENTENCES: Mapping[str, Callable[[Notice], str]] = {
    "cell_done": _done,
    "cell_failed": _failed,
    "cell_released": lambda n: f"↩ {n.cell}  given back{_with_samples(n)} ({n.message})",
    "cell_resumed": lambda n: f"↻ {n.cell}  resumes after {_samples(n)} of an earlier attempt",
    "cell_split": lambda n: f"⑂ {n.cell}  split into {n.data['parts']} parts",
    "cell_cancelled": lambda n: f"↩ {n.cell}  cancelled; {_samples(n, 'are')} kept",
    "cell_started": lambda n: f"▸ {n.cell}  attempt {n.data['attempt']} on slot {n.slot}",
    "slot_opening": lambda n: f"+ slot {n.slot} starts on {n.data['devices']}",
    "slot_ready": lambda n: f"+ slot {n.slot} is ready",
    "claim_lost": lambda n: f"↩ {n.cell}  {n.message}",
    "host_ready": _host_ready,
    "host_lost": _host_lost,
    "slots_changed": lambda n: f"~ {n.message}",
    "slot_lost": _slot_lost,
    "results_taken": lambda n: f"✓ {n.message}",
    "published_late": lambda n: f"✓ {n.cell}  published now; the run before ended too early",
    "waiting": lambda n: f"… waiting for {': '.join(filter(None, (n.cell, n.message)))}",
    "gate_decided": lambda n: f"▪ phase {n.message}",
    "kept_off": lambda n: f"⊘ {n.message}",
    "blocked": lambda n: f"⊘ {n.message}",
    "interrupted": _interrupted,
}
