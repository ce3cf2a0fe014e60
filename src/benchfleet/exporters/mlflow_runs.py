"""Runs of an MLflow server: one a result, in an experiment with the campaign's name."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit, urlunsplit

from benchfleet.errors import BenchfleetError, ExportError
from benchfleet.exporters.base import ExportedResult, Exporter
from benchfleet.exporters.samples import text_values

_FINGERPRINT, _DIGEST = "benchfleet.fingerprint", "benchfleet.digest"
_FILES = ("config.json", "metrics.json", "samples.jsonl")
_PAGE = 1000  # runs of one answer
_MAX_PARAM = 500  # characters, the least that a server takes
_MAX_METRICS = 900  # of one request; the server takes 1000 in all
_UNFIT = re.compile(r"[^\w\-. /:]")
_SETTINGS = {  # of MLflow's library
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # its own retry for ten minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # its errors are raised too
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # with the password
}


class MlflowExporter(Exporter):
    """Runs of an MLflow server, with parameters, metrics and files."""

    destination: ClassVar[str] = "the server's address (MLFLOW_TRACKING_URI)"
    requires: ClassVar[tuple[str, ...]] = ("mlflow",)
    extra: ClassVar[str] = "mlflow"

    def __init__(self, where: str, campaign: str) -> None:
        self._address = where or os.environ.get("MLFLOW_TRACKING_URI", "")
        if not self._address:
            raise ExportError(
                "mlflow has no address; write --to mlflow=http://127.0.0.1:5000, "
                "or set MLFLOW_TRACKING_URI"
            )
        super().__init__(_without_password(self._address), campaign)

    @cached_property
    def _client(self) -> Any:
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self._address)

    def digests(self) -> Mapping[str, str]:
        with self._errors():
            tags = [tags for _, tags in self._runs(self._experiment())]
        return {one[_FINGERPRINT]: one[_DIGEST] for one in tags if _DIGEST in one}

    def put(self, results: Sequence[ExportedResult]) -> None:
        with self._errors():
            experiment = self._experiment(create=True)
            earlier: dict[str, list[str]] = {}
            for run, tags in self._runs(experiment):
                earlier.setdefault(tags[_FINGERPRINT], []).append(run)
            for result in results:
                for run in earlier.get(result.fingerprint, ()):
                    self._client.delete_run(run)
                self._log(result, experiment)

    def _experiment(self, *, create: bool = False) -> str:
        experiment = self._client.get_experiment_by_name(self.campaign)
        if experiment is not None:
            if experiment.lifecycle_stage == "deleted":
                raise ExportError(
                    f"experiment {self.campaign!r} of {self.where} is deleted; "
                    "restore it, or remove it with mlflow gc"
                )
            return str(experiment.experiment_id)
        if not create:
            return ""
        location = _files_of_database(self._address, self.campaign)
        return str(self._client.create_experiment(self.campaign, artifact_location=location))

    def _runs(self, experiment: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        """The runs that benchfleet made, also those that an interrupted export left."""
        token: str | None = None
        while experiment:
            page = self._client.search_runs([experiment], max_results=_PAGE, page_token=token)
            for run in page:
                if _FINGERPRINT in run.data.tags:
                    yield run.info.run_id, run.data.tags
            token = page.token
            if not token:
                return

    def _log(self, result: ExportedResult, experiment: str) -> None:
        from mlflow.entities import Metric, Param, RunTag

        tags = {_FINGERPRINT: result.fingerprint, "benchfleet.path": result.path}
        began, ended = int(1000 * result.began), int(1000 * result.ended)
        created = self._client.create_run(
            experiment, start_time=began, tags=tags, run_name=str(result.cell.id)
        )
        run = created.info.run_id
        params = [Param(key, text[:_MAX_PARAM]) for key, text in _params(result).items()]
        metrics = [
            Metric(_UNFIT.sub("_", name), value, ended, 0)
            for name, value in result.metrics.items()
            if math.isfinite(value)
        ]
        facts = text_values({**result.provenance, **_seconds(result)})
        run_tags = [RunTag(f"benchfleet.{name}", text) for name, text in facts.items()]
        self._client.log_batch(run, params=params, tags=run_tags)
        for start in range(0, len(metrics), _MAX_METRICS):
            self._client.log_batch(run, metrics=metrics[start : start + _MAX_METRICS])
        for name in _FILES:
            self._client.log_artifact(run, str(result.folder / name))
        self._client.set_terminated(run, status="FINISHED", end_time=ended)
        self._client.set_tag(run, _DIGEST, result.digest)  # last: now the result is whole

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from mlflow.exceptions import MlflowException

        try:
            yield
        except BenchfleetError:
            raise
        except Exception as error:  # MLflow lets through those of its database's library
            message = str(error).partition("\n")[0].replace(self._address, self.where)
            if not isinstance(error, (MlflowException, OSError)):
                message = f"{type(error).__name__}: {message}"
            raise ExportError(f"mlflow at {self.where}: {message}") from error


def _params(result: ExportedResult) -> dict[str, str]:
    cell = result.cell
    return text_values(
        {
            "model": cell.model.name,
            "adapter": cell.model.adapter,
            "config": cell.config.name,
            "attention": cell.config.identity(),
            "benchmark": cell.workload.name,
            "subset": cell.workload.subset,
            "limit": cell.workload.limit,
            "repeat": cell.repeat,
            "batch_size": cell.workload.batch_size or "auto",
            **{f"generation.{k}": v for k, v in cell.workload.generation.items()},
            **{f"model.{k}": v for k, v in cell.model.model_kwargs.items()},
        }
    )


def _seconds(result: ExportedResult) -> dict[str, float]:
    return {f"seconds.{stage}": value for stage, value in result.seconds.items()}


def _files_of_database(address: str, campaign: str) -> str | None:
    """Where the files of an experiment lie: beside a database file, whatever folder is current.
    None leaves it to the server."""
    kind, _, name = address.partition("?")[0].partition(":///")
    if kind.partition("+")[0] != "sqlite" or not name:
        return None
    return str(Path(name).resolve().parent / "mlruns" / campaign)


def _without_password(address: str) -> str:
    parts = urlsplit(address)
    if not parts.netloc:  # a file, such as sqlite:////srv/ml.db
        return address.partition("?")[0]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query=""))
