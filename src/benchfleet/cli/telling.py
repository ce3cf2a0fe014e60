"""What happened in a run, as sentences for a person."""

from __future__ import annotations

from benchfleet.cli.words import moment
from benchfleet.domain.words import counted, duration
from benchfleet.runner.progress import Notice, Progress, Running

# Worth no sentence: the counts show it.
QUIET = {"cell_progress", "slot_opening", "slot_ready", "cell_started", "run_ended"}


def standing(progress: Progress) -> str:
    """``30 cells · 12 done (12 reused) · 2 failed``"""
    states = progress.states
    parts = [counted(progress.total, "cell"), f"{progress.ended} done"]
    if progress.reused:
        parts[-1] += f" ({progress.reused} reused)"
    for state in ("failed", "partial", "skipped", "cancelled", "running"):
        if states.get(state):
            parts.append(f"{states[state]} {state}")
    return " · ".join(parts)


def as_of(counted_at: float | None) -> str:
    """`` (as of 14:02, when its ledger last told)``; empty for counts that are those of a run's
    end."""
    return f" (as of {moment(counted_at)}, when its ledger last told)" if counted_at else ""


def speed(slot: Running, now: float) -> str:
    """``412 tok/s``; empty where no tokens were counted."""
    rate = slot.tokens_per_second(now)
    return "" if rate is None else f"{rate:.0f} tok/s" if rate >= 10 else f"{rate:.1f} tok/s"


def held(slot: Running) -> str:
    """``31.2/80 GB`` of the fullest of its GPUs, or ``1.4 GB RAM``; empty where it is not known."""
    if slot.reading is None:
        return ""
    gpus = [gpu for gpu in slot.reading.gpus if gpu.memory is not None and gpu.total]
    if gpus:
        fullest = max(gpus, key=lambda gpu: (gpu.memory or 0) / (gpu.total or 1))
        return f"{(fullest.memory or 0) / 1e9:.1f}/{(fullest.total or 0) / 1e9:.0f} GB"
    return f"{slot.reading.ram / 1e9:.1f} GB RAM" if slot.reading.ram else ""


def told(notice: Notice, progress: Progress) -> str:
    """A notice as one sentence."""
    data = notice.data
    if notice.kind == "cell_done":
        metrics = data["metrics"]
        error = f" ± {metrics['stderr']:.3f}" if "stderr" in metrics else ""
        score = f"{metrics['overall_score']:.3f}{error}"
        return f"✓ {notice.cell}  {score}  {duration(data['took'])}"
    if notice.kind == "cell_failed":
        again = data["retry_in"]
        after = f"; again in {duration(again)}" if again else "; again" if again == 0 else ""
        after += f" {data['differently']}" if data["differently"] else ""
        return f"✗ {notice.cell}  {notice.message}{after}"
    if notice.kind == "cell_released":
        samples = counted(data["samples"], "sample")
        return f"↩ {notice.cell}  given back with {samples} ({notice.message})"
    if notice.kind == "cell_cancelled":
        return f"↩ {notice.cell}  cancelled; {counted(data['samples'], 'sample', 'are')} kept"
    if notice.kind == "claim_lost":
        return f"↩ {notice.cell}  {notice.message}"
    if notice.kind == "host_ready":
        return f"+ host {data['host']}: {counted(data['slots'], 'slot')} on {data['devices']}"
    if notice.kind == "host_lost":
        again = "" if data["hopeless"] else "; it is tried again"
        return f"! host {data['host']}: {notice.message}{again}"
    if notice.kind == "slots_changed":
        return f"~ {notice.message}"
    if notice.kind == "slot_lost":
        return f"! slot {notice.slot} ended: {notice.message}; another takes its place"
    if notice.kind == "published_late":
        return f"✓ {notice.cell}  published now; the run before ended too early"
    if notice.kind == "waiting":
        return f"… waiting for {': '.join(filter(None, (notice.cell, notice.message)))}"
    if notice.kind == "gate_decided":
        return f"▪ phase {notice.message}"
    if notice.kind == "kept_off":
        return f"⊘ {notice.message}"
    if notice.kind == "interrupted":
        if data["times"] > 1:
            return f"{notice.message} again: ended now"
        if not data["cells"]:
            return f"{notice.message}: ending"
        stop = counted(data["cells"], "running cell", "stop")
        return (
            f"{notice.message}: {stop} after the sample at hand, and what is there is kept;"
            " again to end now"
        )
    return f"! {notice.cell} {notice.message}".replace("  ", " ")
