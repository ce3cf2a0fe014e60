"""Offline runs of Weights & Biases: one a result, in a project with the campaign's name.

benchfleet sends nothing itself: ``wandb sync`` uploads the runs, with the user's own login. A run's
id is made of the cell's fingerprint, so a run that is uploaded again replaces the earlier one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.errors import ExportError
from benchfleet.exporters.base import ExportedResult, Exporter

_NOTE = "benchfleet.json"  # in a run's folder: the result that it holds


class WandbExporter(Exporter):
    """Offline runs of Weights & Biases, for `wandb sync`."""

    destination: ClassVar[str] = "a folder"
    requires: ClassVar[tuple[str, ...]] = ("wandb",)
    extra: ClassVar[str] = "wandb"

    def __init__(self, where: str, campaign: str) -> None:
        super().__init__(where or f"{campaign}-wandb", campaign)
        self._runs = Path(self.where, "wandb")
        self.hint = f"wandb sync {self._runs}/offline-run-*"

    def digests(self) -> Mapping[str, str]:
        return {note["fingerprint"]: note["digest"] for note in self._notes().values()}

    def put(self, results: Sequence[ExportedResult]) -> None:
        import wandb

        written: list[tuple[Path, ExportedResult]] = []
        try:
            Path(self.where).mkdir(parents=True, exist_ok=True)
            try:
                for result in results:
                    for folder in self._runs.glob(f"offline-run-*-{_run_id(result)}"):
                        shutil.rmtree(folder)
                    written.append((self._log(result), result))
            finally:
                wandb.teardown()  # a run is on disk only once W&B's own process has ended
                for folder, result in written:
                    note = {"fingerprint": result.fingerprint, "digest": result.digest}
                    (folder / _NOTE).write_text(json.dumps(note))
        except (OSError, wandb.errors.Error) as error:
            raise ExportError(f"wandb at {self.where}: {error}") from error

    def _log(self, result: ExportedResult) -> Path:
        """Write one run; its folder."""
        import wandb

        cell = result.cell
        settings = wandb.Settings(
            mode="offline",
            silent=True,
            console="off",
            disable_code=True,
            disable_git=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        )
        run = wandb.init(
            project=self.campaign,
            id=_run_id(result),
            name=str(cell.id),
            group=cell.model.name,
            job_type=cell.workload.label,
            dir=self.where,
            config=_config(result),
            settings=settings,
            reinit="finish_previous",
        )
        folder = Path(run.dir).parent
        run.summary.update({**result.metrics, **_seconds(result)})
        run.log({"samples": _table(result)})
        run.finish()
        return folder

    def _notes(self) -> dict[Path, dict[str, str]]:
        """What the whole runs hold, by folder."""
        notes = {}
        for file in sorted(self._runs.glob(f"offline-run-*/{_NOTE}")):
            try:
                notes[file.parent] = json.loads(file.read_bytes())
            except (OSError, ValueError):
                continue  # an interrupted export wrote it; the result is exported again
        return notes


def _run_id(result: ExportedResult) -> str:
    return result.fingerprint[:32]


def _seconds(result: ExportedResult) -> dict[str, float]:
    return {f"seconds/{stage}": value for stage, value in result.seconds.items()}


def _table(result: ExportedResult) -> Any:
    import wandb

    names = ("id", "predicted_answer", "score", "prompt_tokens", "completion_tokens", "seconds")
    rows = [[sample.get(name) for name in names] for sample in result.samples()]
    return wandb.Table(columns=[*names], data=rows)


def _config(result: ExportedResult) -> dict[str, Any]:
    cell = result.cell
    return {
        "model": cell.model.name,
        "adapter": cell.model.adapter,
        "model_kwargs": dict(cell.model.model_kwargs),
        "config": cell.config.name,
        "attention": cell.config.identity(),
        "benchmark": cell.workload.name,
        "subset": cell.workload.subset,
        "params": dict(cell.workload.params),
        "generation": dict(cell.workload.generation),
        "limit": cell.workload.limit,
        "repeat": cell.repeat,
        "fingerprint": result.fingerprint,
        "digest": result.digest,
        "provenance": dict(result.provenance),
    }
