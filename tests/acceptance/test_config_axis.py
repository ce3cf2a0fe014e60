"""Configs that change more than attention: weights, keys and values, settings."""

from __future__ import annotations

import json
import sqlite3
from itertools import groupby
from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign

from .conftest import User

MODEL = Path(__file__).parents[2] / "examples" / "recall" / "model"
STUDY = f"""\
campaign: study
matrix:
  models: [{{name: tiny, path: {MODEL}}}]
  configs:
    dense: null
    int8: {{quantization: bitsandbytes-int8}}
    kv-int8: {{kv_cache: int8}}
    int8-streaming: {{quantization: bitsandbytes-int8, attention: {{streaming: 60}}}}
    half: {{model_kwargs: {{dtype: bfloat16}}, generation: {{max_new_tokens: 1}}}}
  benchmarks: [recall: {{subsets: "128", samples: 4}}]
"""


FOLDER = "benchmark_results/study"


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    user = User(tmp_path_factory.mktemp("user"))
    user.write(STUDY)
    user.run("run", "study.yaml", "--cpu-slots", "1")
    return user


def test_each_config_runs_with_its_own_weights_cache_and_settings(user: User) -> None:
    ran = {}
    for file in user.folder.glob(f"{FOLDER}/tiny/*/recall_128/cell.json"):
        model = json.loads(file.read_text())["provenance"]["model"]
        ran[file.parts[-3]] = (model["cache"], model["dtype"], model.get("quantization"))
    assert ran == {
        "dense": ("growing", "float32", None),
        "int8": ("growing", "float32", "bitsandbytes"),
        "kv-int8": ("int8", "float32", None),
        "int8-streaming": ("growing", "float32", "bitsandbytes"),
        "half": ("growing", "bfloat16", None),
    }


def test_cells_with_the_same_weights_run_one_after_another(user: User) -> None:
    ledger = sqlite3.connect(user.folder / FOLDER / "ledger.db")
    rows = ledger.execute("select id from cell order by outcome").fetchall()
    ledger.close()
    order = [id.split("/")[1] for (id,) in rows]
    keys = {
        cell.config.name: cell.model.load_key
        for cell in load_campaign(user.folder / "study.yaml").matrix.expand()
    }
    assert keys["dense"] == keys["kv-int8"]
    assert keys["int8"] == keys["int8-streaming"]
    assert len(set(keys.values())) == 3
    assert len([*groupby(order, key=keys.__getitem__)]) == 3
