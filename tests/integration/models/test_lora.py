"""LoRA adapters that are switched on resident weights, against merged weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.domain.cell import Cell, Config, Model
from benchfleet.errors import CampaignError, CellFailure
from benchfleet.models.base import Prompt
from benchfleet.models.transformers import TransformersAdapter
from lora_adapters import merged, saved_lora
from packages import require
from tiny_models import saved_model

require("peft")
pytestmark = pytest.mark.filterwarnings("ignore")  # of PEFT
PROMPTS = [Prompt(context=f"text {number} ", question="why?") for number in range(4)]
GREEDY = {"max_new_tokens": 12, "temperature": 0, "seed": 1}
TEXT = """\
campaign: study
matrix:
  models: [{{name: base, path: base}}, {loras}]
  benchmarks: [mock_benchmark]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base model, two LoRA adapters, one that was not trained, and the first one merged."""
    root = tmp_path_factory.mktemp("lora")
    base = saved_model(root / "base", "llama")
    one = saved_lora(base, root / "one", seed=1)
    saved_lora(base, root / "two", seed=2)
    saved_lora(base, root / "untrained", seed=3, trained=False)
    merged(base, one, root / "merged")
    return root


def models_of(folder: Path, *loras: str) -> dict[str, Model]:
    entries = ", ".join(f"{{name: {one}, base: base, lora: {one}}}" for one in loras)
    (folder / "study.yaml").write_text(TEXT.format(loras=entries))
    campaign = load_campaign(folder / "study.yaml")
    return {one.model.name: one.model for one in campaign.matrix.models}


def model_of(folder: Path) -> Model:
    digest = TransformersAdapter.digest(str(folder))
    return Model(name="m", adapter="transformers", source=str(folder), digest=digest)


def loaded(model: Model) -> TransformersAdapter:
    adapter = TransformersAdapter(model)
    adapter.load()
    return adapter


def answers(adapter: TransformersAdapter, model: Model) -> list[str]:
    adapter.switch(model)
    adapter.configure(Config(name="dense"))
    return [answer.text for answer in adapter.answer(PROMPTS, GREEDY)]


def logits(adapter: TransformersAdapter, model: Model) -> Any:
    import torch

    adapter.switch(model)
    adapter.configure(Config(name="dense"))
    with adapter.lend() as loan, torch.inference_mode():
        return loan.model(input_ids=torch.arange(40)[None]).logits


def test_an_adapter_has_its_own_identity_and_its_base_s_load(folder: Path) -> None:
    models = models_of(folder, "one", "two")
    assert len({model.load_key for model in models.values()}) == 1
    assert len({str(model.identity()) for model in models.values()}) == 3
    campaign = load_campaign(folder / "study.yaml")
    for cell in campaign.matrix.expand():
        assert Cell.from_dict(cell.to_dict()).fingerprint == cell.fingerprint
    moved = replace(models["one"], lora="/elsewhere/one")
    assert moved.identity() == models["one"].identity()


def test_switched_weights_answer_as_merged_ones_and_the_base_as_before(folder: Path) -> None:
    import torch

    models = models_of(folder, "one", "two")
    adapter = loaded(models["base"])
    base = answers(adapter, models["base"])
    one = answers(adapter, models["one"])
    two = answers(adapter, models["two"])
    assert len({str(texts) for texts in (base, one, two)}) == 3
    assert answers(adapter, models["one"]) == one
    assert answers(adapter, models["base"]) == base
    assert adapter.provenance().get("lora_digest") is None

    other = model_of(folder / "merged")
    whole = loaded(other)
    assert answers(whole, other) == one
    switched, merged_ones = logits(adapter, models["one"]), logits(whole, other)
    assert float((switched - merged_ones).abs().max() / merged_ones.abs().max()) < 2e-5  # float32
    assert adapter.provenance()["lora_digest"] == models["one"].lora_digest
    fresh = loaded(models["base"])
    assert torch.equal(logits(adapter, models["base"]), logits(fresh, models["base"]))


def test_an_adapter_that_changes_nothing_is_a_failure_by_name(folder: Path) -> None:
    models = models_of(folder, "one", "untrained")
    adapter = loaded(models["base"])
    base = answers(adapter, models["base"])
    with pytest.raises(CellFailure) as failure:
        adapter.switch(models["untrained"])
    assert (failure.value.stage, failure.value.kind) == ("load", "lora_not_applied")
    assert "changes no logits" in str(failure.value)
    assert answers(adapter, models["one"]) != base
    assert answers(adapter, models["base"]) == base


def test_an_adapter_for_another_model_or_that_changed_is_refused(folder: Path) -> None:
    models = models_of(folder, "one")
    adapter = loaded(models["base"])
    with pytest.raises(CellFailure, match="changed since the campaign was read"):
        adapter.switch(replace(models["one"], lora_digest="0" * 64))
    other = loaded(model_of(saved_model(folder / "other", "gpt_neox")))
    with pytest.raises(CellFailure) as failure:
        other.switch(models["one"])
    assert failure.value.stage == "load"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{name: a, base: bse, lora: one}", "no model 'bse' in this list; did you mean 'base'?"),
        ("{name: a, lora: one}", "has no base"),
        ("{name: a, base: base}", "name the folder of the LoRA adapter"),
        ("{name: a, base: base, lora: nowhere}", "holds no adapter_config.json"),
        ("{name: a, base: base, lora: one, path: x}", "the base, which all other settings"),
        (
            "{name: m, adapter: mock}, {name: a, base: m, lora: one}",
            "this adapter takes no LoRA adapters",
        ),
    ],
)
def test_mistakes_are_named(folder: Path, entry: str, message: str) -> None:
    (folder / "wrong.yaml").write_text(TEXT.format(loras=entry))
    with pytest.raises(CampaignError) as caught:
        load_campaign(folder / "wrong.yaml")
    assert message in str(caught.value)
