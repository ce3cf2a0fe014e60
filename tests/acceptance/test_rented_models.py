"""Models on a rented machine: pulled or delivered, verified, and refused if they are too large."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubs import TOKEN, ModelHub, client_of, serving
from rented_machines import KEY, RealCloud, real_cloud

from .conftest import User

MODEL = Path(__file__).parents[2] / "examples" / "recall" / "model"
WEIGHTS = "model.safetensors"
STUDY = f"""\
campaign: study
matrix:
  models: [org/tiny, org/large, org/gated, {{name: mine, path: {MODEL}}}]
  configs: {{dense: null}}
  benchmarks: [recall: {{subsets: [64], samples: 4}}]
"""


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    """A hub with the model of the example, one whose weights take 60 GB, and a gated one."""
    files = {file.name: file.read_bytes() for file in MODEL.iterdir()}
    sizes = {f"org/large/{WEIGHTS}": 60 * 10**9}
    hub = ModelHub(dict.fromkeys(("org/tiny", "org/large", "org/gated"), files), sizes)
    with serving(hub):
        yield hub


@pytest.fixture
def rented(
    user: User, hub: ModelHub, tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[RealCloud]:  # fmt: skip
    for name, value in client_of(hub, user.folder / "here").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("VAST_API_KEY", KEY)
    with real_cloud(lambda: tmp_path_factory.mktemp("rented")) as cloud:
        there = client_of(hub, tmp_path_factory.mktemp("there"))
        names = [name for name in there if name.startswith(("HF_", "XDG_", "NO_PROXY"))]
        cloud.environment = {name: there[name] for name in names}
        user.write(STUDY)
        (user.folder / "machines.yaml").write_text(
            f"providers: {{vast: {{url: '{cloud.url}', visible_within: 1s}}}}\n"
            f"rent: [{{name: r4090, gpu: RTX 4090, python: {sys.executable}}}]\n"
        )
        yield cloud


def test_models_are_pulled_verified_delivered_or_refused_by_name(
    user: User, hub: ModelHub, rented: RealCloud
) -> None:
    hub.damage = 1
    words = ["run", "study.yaml", "--machines", "machines.yaml", "--rent", "--yes"]
    out, err = user.start(*words).communicate(timeout=400)
    assert user.json("status", "study.yaml")["success"] == 2, out + err
    assert hub.fetched(WEIGHTS) == 2  # the first had another digest; the large one never began
    rows = user.json("manifest", "study.yaml")["manifest"]
    ended = {(row["model"], row["failure_stage"], row["failure_reason"]) for row in rows}
    assert ended == {
        ("org/tiny", "pull", "error"),
        ("org/tiny", None, None),
        ("org/large", "fit", "oom"),
        ("org/gated", "pull", "model_not_found"),
        ("mine", None, None),
    }
    messages = {row["model"]: row["error_message"] for row in rows if row["failure_stage"]}
    assert f"{WEIGHTS} of org/tiny came without the digest of the hub" in messages["org/tiny"]
    assert "its weights take 60.0 GB, and its GPUs have 25.8 GB free" in messages["org/large"]
    assert "org/gated is gated. A rented machine gets no token" in messages["org/gated"]
    assert "HF_TOKEN" not in messages["org/gated"]
    published = [json.loads(cell) for cell in user.published().values()]
    seconds = {one["cell"]["model"]["name"]: one["seconds"] for one in published}
    assert seconds["org/tiny"]["pull"] > 0
    assert "pull" not in seconds["mine"]
    assert not rented.cloud.living
