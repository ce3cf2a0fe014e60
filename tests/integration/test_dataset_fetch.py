"""lm-eval's data from a hub on loopback: fetched once for a host, or refused with what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hubs import TOKEN, DatasetHub, client_of, serving
from packages import require

require("lm_eval")

EXAMPLES = Path(__file__).parents[2] / "examples" / "recall"
TASK = """\
include: EXAMPLES/tasks/recall_choice.yaml
task: rows
dataset_path: org/Rows
dataset_kwargs: {}
"""


@pytest.fixture
def hub() -> Iterator[DatasetHub]:
    hub = DatasetHub()
    with serving(hub):
        yield hub


@pytest.fixture
def environ(hub: DatasetHub, tmp_path: Path) -> dict[str, str]:
    return {**client_of(hub, tmp_path), "HF_TOKEN": TOKEN}


BUILD = """\
import os, sys
from pathlib import Path
from types import SimpleNamespace as Of
from benchfleet.benchmarks.lm_eval.harness import build_task
from benchfleet.benchmarks.lm_eval.tasks import own_task, remote_data_of
from benchfleet.errors import CellFailure
loan = Of(model=Of(name_or_path=""), tokenizer=None)
session = Of(generation={}, repeat=0, seed=7)
settings = {"metadata": None, "num_fewshot": None}
print("begins", flush=True)
try:
    own = own_task(Path(sys.argv[1]), "rows")
    task = build_task("rows", own, session, loan, settings, [remote_data_of("rows", own)])
    print(len(task.eval_docs))
except CellFailure as error:
    print(error.kind, error.is_retryable, error)
"""
Build = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "rows.yaml").write_text(TASK.replace("EXAMPLES", str(EXAMPLES)))
    return folder


@pytest.fixture
def build(tasks: Path, environ: dict[str, str]) -> Build:
    """Starts a process that builds the task, under a name that the hub receives."""

    def start(client: str = "one", **more: str) -> subprocess.Popen[str]:
        named = {"HF_HUB_USER_AGENT_ORIGIN": f"client/{client}", **more}
        return subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tasks)],
            env={**environ, **named},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def _end(process: subprocess.Popen[str]) -> str:
    """The last line that a process says, once it has ended as it should."""
    output, complained = process.communicate(timeout=120)
    assert process.returncode == 0, complained
    assert TOKEN not in output + complained
    return output.splitlines()[-1]


def _two(hub: DatasetHub, build: Build) -> list[subprocess.Popen[str]]:
    """One that fetches the data, for as long as the hub holds them, and one that came later."""
    hub.hold = 60.0
    first = build("one")
    assert hub.fetching.wait(60)
    second = build("two")
    assert second.stdout is not None
    assert second.stdout.readline() == "begins\n"
    return [first, second]


def test_one_fetches_the_data_while_the_other_asks_the_hub_nothing(
    hub: DatasetHub, build: Build
) -> None:
    first, second = _two(hub, build)
    assert not hub.others.wait(4)
    hub.others.set()
    assert [_end(first), _end(second)] == ["6", "6"]
    assert hub.fetches() == 1


def test_where_the_one_who_fetches_is_killed_the_other_goes_on(
    hub: DatasetHub, build: Build
) -> None:
    first, second = _two(hub, build)
    first.kill()
    first.communicate(timeout=60)
    assert _end(second) == "6"
    assert hub.fetches() == 2


def test_offline_the_missing_data_set_is_named_with_what_to_do(
    hub: DatasetHub, build: Build, tasks: Path
) -> None:
    with (tasks / "rows.yaml").open("a") as file:
        file.write("dataset_name: easy\n")
    output = _end(build(HF_DATASETS_OFFLINE="1"))
    assert output.startswith("dataset_missing False the data set org/Rows (config easy) is not in")
    assert "and HF_DATASETS_OFFLINE is set: fetch it where there is a network" in output
    assert hub.asked == []


def test_data_that_are_not_for_this_user_say_so(build: Build) -> None:
    output = _end(build(HF_TOKEN="hf_of_somebody_else"))  # noqa: S106
    assert output.startswith("dataset_missing False rows cannot have the data set org/Rows")
    assert "set HF_TOKEN" in output
    assert "somebody" not in output


def test_a_fetch_that_breaks_off_may_be_tried_again_and_then_serves_offline(
    hub: DatasetHub, build: Build
) -> None:
    hub.break_off = True
    output = _end(build())
    assert output.startswith(
        "dataset_missing True fetching the data set org/Rows of rows broke off"
    )
    hub.break_off = False
    assert _end(build()) == "6"
    hub.asked.clear()
    assert _end(build(HF_DATASETS_OFFLINE="1")) == "6"
    assert hub.asked == []


CAMPAIGN = """\
campaign: study
matrix:
  models: [{name: tiny, path: EXAMPLES/model, model_kwargs: {dtype: float32}}]
  configs:
    dense: null
    streaming: {attention: [{sink: 4}, {local: 20}]}
  benchmarks:
    - lm_eval: {tasks: rows, include_path: ./tasks}
"""


def _run(folder: Path, environ: dict[str, str], *words: str, code: int = 0) -> str:
    """What ``benchfleet`` says; neither it nor any file that it leaves may hold the token."""
    (folder / "study.yaml").write_text(CAMPAIGN.replace("EXAMPLES", str(EXAMPLES)))
    done = subprocess.run(
        [sys.executable, "-m", "benchfleet", *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=200,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == code, printed
    assert TOKEN not in printed
    output = [
        str(file)
        for file in folder.rglob("*")
        if file.is_file() and TOKEN.encode() in file.read_bytes()
    ]
    assert output == []
    return printed


def test_two_slots_fetch_once_and_a_failure_that_speaks_of_the_token_tells_it_nowhere(
    hub: DatasetHub, environ: dict[str, str], tasks: Path, tmp_path: Path
) -> None:
    (tasks / "leaks.py").write_text(
        "import os\n\ndef text(doc):\n    raise RuntimeError('sent ' + os.environ['HF_TOKEN'])\n"
    )
    with (tasks / "rows.yaml").open("a") as file:
        file.write("doc_to_text: !function leaks.text\n")
    _run(tmp_path, environ, "run", "study.yaml", "--cpu-slots", "2", code=1)
    assert hub.fetches() == 1
    attempts = tmp_path / "benchmark_results" / "study" / ".attempts"
    failures = [json.loads(file.read_text()) for file in attempts.rglob("failure.json")]
    assert {failure["message"] for failure in failures} == {"RuntimeError: sent [token]"}
    assert len(failures) >= 2
    assert all("sent [token]" in failure["trace"] for failure in failures)


@pytest.mark.usefixtures("tasks")
def test_offline_a_campaign_whose_data_are_missing_is_refused_before_it_runs(
    hub: DatasetHub, environ: dict[str, str], tmp_path: Path
) -> None:
    alone = {**environ, "HF_HUB_OFFLINE": "1"}
    output = _run(tmp_path, alone, "run", "study.yaml", "--cpu-slots", "1", code=2)
    assert "matrix.benchmarks[0].lm_eval.tasks" in output
    assert "the data set org/Rows is not in this host's cache" in output
    assert hub.asked == []
