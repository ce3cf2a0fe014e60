"""Exporters to trackers of runs, W&B and MLflow, against the contract of exporters."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.errors import ExportError
from benchfleet.exporters.base import Exporter
from benchfleet.exporters.mlflow_runs import MlflowExporter
from benchfleet.exporters.wandb_runs import WandbExporter
from benchfleet.testing import ExporterContract
from benchfleet.testing.exporter_contract import sample_results
from mlflow_server import mlflow_server

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other tools' libraries
_BLOCK = 32 * 1024


class TestWandb(ExporterContract):
    def open(self, folder: Path) -> Exporter:
        return WandbExporter(str(folder / "out"), "study")

    def read(self, folder: Path) -> list[tuple[str, float]]:
        return [_wandb_run(file) for file in (folder / "out").glob("wandb/offline-run-*/*.wandb")]


def _wandb_run(file: Path) -> tuple[str, float]:
    """Fingerprint and score of a run, as W&B's own record format has them."""
    from wandb.proto.wandb_internal_pb2 import Record

    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    for data in _wandb_records(file.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        for update in (*record.run.config.update, *record.config.update):
            config[update.key or update.nested_key[0]] = json.loads(update.value_json)
        for update in (*record.run.summary.update, *record.summary.update):
            summary[update.key or update.nested_key[0]] = json.loads(update.value_json)
    return config["fingerprint"], summary["score"]


def _wandb_records(content: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format: parts in blocks, after W&B's own header."""
    position, parts = 7, b""
    while position < len(content):
        if (left := -position % _BLOCK) < 7 and left:
            position += left  # a block's end is filled up
            continue
        _, size, kind = struct.unpack_from("<IHB", content, position)
        parts += content[position + 7 : position + 7 + size]
        position += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


@pytest.fixture(scope="module")
def mlflow_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as address:
        yield address


class TestMlflow(ExporterContract):
    @pytest.fixture(autouse=True)
    def _address(self, mlflow_address: str) -> None:
        self.address = mlflow_address

    def open(self, folder: Path) -> Exporter:
        return MlflowExporter(self.address, folder.name)

    def read(self, folder: Path) -> list[tuple[str, float]]:
        from mlflow import MlflowClient

        client = MlflowClient(self.address)
        experiment = client.get_experiment_by_name(folder.name)
        assert experiment
        found = []
        for run in client.search_runs([experiment.experiment_id]):
            assert run.info.status == "FINISHED"
            names = {file.path for file in client.list_artifacts(run.info.run_id)}
            assert names == {"config.json", "metrics.json", "samples.jsonl"}
            found.append((run.data.tags["benchfleet.fingerprint"], run.data.metrics["score"]))
        return found

    def test_a_run_that_was_left_halfway_is_replaced(self, tmp_path: Path) -> None:
        one, _ = sample_results(tmp_path / "results")
        exporter = self.open(tmp_path)
        broken = replace(one, folder=tmp_path / "nothing")  # its files cannot be sent
        with pytest.raises(ExportError):
            exporter.put([broken])
        assert dict(exporter.digests()) == {}
        exporter.put([one])
        assert self.read(tmp_path) == [(one.fingerprint, one.score)]
