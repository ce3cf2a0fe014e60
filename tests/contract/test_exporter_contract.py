"""Exporters to files and hubs against the contract, read by the other tool's own reader."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from benchfleet.domain.question_draws import draw_id
from benchfleet.exporters.base import Exporter
from benchfleet.exporters.every_eval_ever import EveryEvalEverExporter
from benchfleet.exporters.hub_dataset import HubDatasetExporter
from benchfleet.exporters.inspect_logs import InspectExporter
from benchfleet.exporters.lm_eval import LmEvalExporter
from benchfleet.exporters.model_card import ModelCardExporter
from benchfleet.testing import ExporterContract
from benchfleet.testing.exporter_contract import sample_results
from hub_uploads import UploadHub
from hubs import serving

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other tools' libraries
SCHEMAS = Path(__file__).parents[1] / "data/every_eval_ever"


class TestLmEval(ExporterContract):
    heavy: ClassVar[tuple[str, ...]] = ("lm_eval", "torch", "transformers")

    def open(self, folder: Path) -> Exporter:
        return LmEvalExporter(str(folder / "out"), "study")

    def read(self, folder: Path) -> list[tuple[str, float]]:
        datasets = pytest.importorskip("datasets")
        from lm_eval.utils import get_latest_filename, get_results_filenames, make_table
        from lm_eval.utils import get_sample_results_filenames as get_samples_filenames

        found = []
        for place in sorted(
            {file.parent for file in (folder / "out").rglob("*.json*")} - {folder / "out"}
        ):
            files = [str(file) for file in place.iterdir()]
            content = json.loads(
                Path(get_latest_filename(get_results_filenames(files))).read_text()
            )
            ((task, values),) = content["results"].items()
            assert task in make_table(content)
            (samples,) = get_samples_filenames(files)
            rows = datasets.load_dataset(
                "json", data_files=samples, split="train", cache_dir=str(folder / "cache")
            )
            assert len(rows) == content["n-samples"][task]["effective"]
            found.append((content["benchfleet"]["fingerprint"], values["score,none"]))
        return found


class TestEveryEvalEver(ExporterContract):
    heavy: ClassVar[tuple[str, ...]] = ("jsonschema",)

    def open(self, folder: Path) -> Exporter:
        return EveryEvalEverExporter(str(folder / "out"), "study")

    def read(self, folder: Path) -> list[tuple[str, float]]:
        import jsonschema

        schema, lines_schema = (
            json.loads((SCHEMAS / f"{name}.schema.json").read_text())
            for name in ("eval", "instance_level_eval")
        )
        found = []
        for file in (folder / "out").glob("data/*/*/*/*.json"):
            record = json.loads(file.read_text())
            jsonschema.validate(record, schema)
            details = record["detailed_evaluation_results"]
            lines = (folder / "out" / details["file_path"]).read_text().splitlines()
            assert len(lines) == details["total_rows"]
            results = {one["evaluation_result_id"]: one for one in record["evaluation_results"]}
            for line in map(json.loads, lines):
                jsonschema.validate(line, lines_schema)
                assert line["evaluation_id"] == record["evaluation_id"]
                assert line["evaluation_result_id"] in results
            fingerprint = record["source_metadata"]["additional_details"]["fingerprint"]
            found.append((fingerprint, record["evaluation_results"][0]["score_details"]["score"]))
        return found


class TestInspect(ExporterContract):
    def open(self, folder: Path) -> Exporter:
        pytest.importorskip("inspect_ai")
        return InspectExporter(str(folder / "out"), "study")

    def read(self, folder: Path) -> list[tuple[str, float]]:
        from inspect_ai.log import list_eval_logs, read_eval_log

        found = []
        for info in list_eval_logs(str(folder / "out")):
            log = read_eval_log(info)
            assert log.status == "success"
            assert log.results
            assert len(log.samples or []) == log.results.completed_samples
            score = log.results.scores[0].metrics["score"].value
            found.append(((log.eval.metadata or {})["fingerprint"], score))
        return found

    def test_several_answers_to_a_question_are_epochs_of_one_sample(self, tmp_path: Path) -> None:
        exporter = self.open(tmp_path)
        from inspect_ai.log import (
            list_eval_logs,
            read_eval_log,
            read_eval_log_sample,
            read_eval_log_sample_summaries,
        )

        one, _ = sample_results(tmp_path / "results", ("Paris", "Rome", "4", "5"))
        draws = [("q-0", 0), ("q-0", 1), ("q-1", 0), ("q-1", 1)]
        samples = [
            {**sample, "id": draw_id(question, draw), "question": question, "draw": draw}
            for sample, (question, draw) in zip(one.samples(), draws, strict=True)
        ]
        exporter.put([replace(one, samples=lambda: samples)])
        (info,) = list_eval_logs(str(tmp_path / "out"))
        log = read_eval_log(info)
        assert log.eval.config.epochs == 2
        assert log.eval.dataset.samples == 2
        assert log.eval.dataset.sample_ids == ["q-0", "q-1"]
        assert log.results is not None
        assert (log.results.total_samples, log.results.completed_samples) == (4, 4)
        expected = [("q-0", 1), ("q-0", 2), ("q-1", 1), ("q-1", 2)]
        assert sorted((str(each.id), each.epoch) for each in log.samples or []) == expected
        summaries = read_eval_log_sample_summaries(info)
        assert sorted((str(each.id), each.epoch) for each in summaries) == expected
        assert read_eval_log_sample(info, "q-0", 2).output.completion == "Rome"

    def test_answers_stop_for_the_reason_that_the_run_knows(self, tmp_path: Path) -> None:
        ends = ["stop", "length", "empty", "unparsed", "refused", "error"]
        one, _ = sample_results(tmp_path / "results", ["Rome"] * 7)
        *ended, unknown = one.samples()
        samples = [{**s, "ended": end} for s, end in zip(ended, ends, strict=True)]
        self.open(tmp_path).put([replace(one, samples=lambda: [*samples, unknown])])
        from inspect_ai.log import list_eval_logs, read_eval_log

        (info,) = list_eval_logs(str(tmp_path / "out"))
        reasons = [sample.output.stop_reason for sample in read_eval_log(info).samples or []]
        expected = ["stop", "max_tokens", "stop", "stop", "content_filter", "unknown", "unknown"]
        assert reasons == expected

    def test_single_answers_have_one_epoch(self, tmp_path: Path) -> None:
        one, _ = sample_results(tmp_path / "results")
        self.open(tmp_path).put([one])
        from inspect_ai.log import list_eval_logs, read_eval_log

        (info,) = list_eval_logs(str(tmp_path / "out"))
        log = read_eval_log(info)
        assert log.eval.config.epochs is None
        assert [(sample.id, sample.epoch) for sample in log.samples or []] == [("s0", 1), ("s1", 1)]


class TestHubFolder(ExporterContract):
    def open(self, folder: Path) -> Exporter:
        return HubDatasetExporter(str(folder / "out"), "study")

    def read(self, folder: Path) -> list[tuple[str, float]]:
        return _dataset_rows(folder / "out", folder / "cache")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[UploadHub]:
    hub = UploadHub()
    with serving(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_TOKEN", "hf_a_token_of_mine")
        yield hub


class TestHubDataset(ExporterContract):
    @pytest.fixture(autouse=True)
    def _hub(self, hub: UploadHub) -> None:
        self.hub = hub

    def open(self, folder: Path) -> Exporter:
        return HubDatasetExporter("hf://datasets/me/results", "study")

    def read(self, folder: Path) -> list[tuple[str, float]]:
        assert self.hub.private == {"datasets/me/results": True}
        for name, content in self.hub.files["datasets/me/results"].items():
            file = folder / "clone" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return _dataset_rows(folder / "clone", folder / "cache")


def _dataset_rows(repository: Path, cache: Path) -> list[tuple[str, float]]:
    """What `datasets` reads of a repository; every result has its samples."""
    datasets = pytest.importorskip("datasets")
    results, samples = (
        datasets.load_dataset(
            str(repository), name, split="train", cache_dir=str(cache / os.urandom(4).hex())
        )
        for name in ("results", "samples")
    )
    assert {*samples["fingerprint"]} == {*results["fingerprint"]}
    return list(zip(results["fingerprint"], results["score"], strict=True))


class TestModelCard(ExporterContract):
    def open(self, folder: Path) -> Exporter:
        return ModelCardExporter(str(folder / "out"), "study")

    def read(self, folder: Path) -> list[tuple[str, float]]:
        return _card_results((folder / "out" / "README.md").read_text())


class TestModelCardOnHub(TestModelCard):
    @pytest.fixture(autouse=True)
    def _hub(self, hub: UploadHub) -> None:
        self.hub = hub

    def open(self, folder: Path) -> Exporter:
        return ModelCardExporter("hf://me/tiny", "study")

    def read(self, folder: Path) -> list[tuple[str, float]]:
        return _card_results(self.hub.files["models/me/tiny"]["README.md"].decode())


def _card_results(text: str) -> list[tuple[str, float]]:
    from huggingface_hub import ModelCard

    results = ModelCard(text).data.eval_results or []
    assert "## Evaluation results" in text
    return [((one.dataset_args or {})["fingerprint"], one.metric_value) for one in results]
