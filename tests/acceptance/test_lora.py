"""LoRA adapters in a campaign: one load for all, scores of merged weights, failures by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lora_adapters import merged, saved_lora
from packages import require
from tiny_models import saved_model

from .conftest import User

require("peft")
pytestmark = pytest.mark.filterwarnings("ignore")  # of PEFT
STUDY = """\
campaign: study
defaults: {generation: {max_new_tokens: 8}, limits: {tries: 1}}
matrix:
  models:
    - {name: one, base: base, lora: one}
    - {name: untrained, base: base, lora: untrained}
    - {name: base, path: base}
    - {name: merged, path: merged}
  configs: {dense: null, streaming: {attention: [{sink: 2}, {local: 8}]}}
  benchmarks: [mock_benchmark]
"""


def answers(user: User, path: str) -> list[dict[str, Any]]:
    """Answer and score of each sample of a published cell."""
    text = (user.results / path / "mock_benchmark" / "samples.jsonl").read_text()
    return [
        {name: sample[name] for name in ("id", "predicted_answer", "score")}
        for sample in map(json.loads, text.splitlines())
    ]


def test_adapters_share_the_load_of_their_base_and_score_as_merged_weights(user: User) -> None:
    base = saved_model(user.folder / "base", "llama")
    one = saved_lora(base, user.folder / "one", seed=1)
    saved_lora(base, user.folder / "untrained", seed=2, trained=False)
    merged(base, one, user.folder / "merged")
    user.write(STUDY)
    done = user.run("run", "study.yaml", "--cpu-slots", "1", "--log-json", code=1)
    for config in ("dense", "streaming"):
        assert answers(user, f"one/{config}") == answers(user, f"merged/{config}")
        assert answers(user, f"one/{config}") != answers(user, f"base/{config}")
    assert "load: lora_not_applied" in user.run("failures", "study.yaml", code=None).stdout
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    order = [one["cell"].split("/")[0] for one in events if one["kind"] == "cell_started"]
    others = [name for name in order if name != "untrained"]
    assert others.index("merged") in (0, 4)  # those that share weights come together
    seal = json.loads((user.results / "one/dense/mock_benchmark/cell.json").read_text())
    assert seal["provenance"]["model"]["lora_digest"] == seal["cell"]["model"]["lora_digest"]
