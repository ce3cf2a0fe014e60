"""Loading real models and letting them go, and models that cannot be loaded."""

from __future__ import annotations

import gc
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
import torch
from transformers import LlamaForCausalLM

from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models.transformers import TransformersAdapter

from .conftest import DEMO, DENSE, PROMPTS, SHORT, STREAMING, LoadAdapter, declared, loaded


@pytest.mark.parametrize(
    ("kwargs", "dtype"),
    [
        ({}, "float32"),
        ({"dtype": "bfloat16"}, "bfloat16"),
        ({"torch_dtype": "torch.float64"}, "float64"),
    ],
)
def test_provenance_tells_what_was_effective(
    adapter: LoadAdapter, kwargs: Mapping[str, str], dtype: str
) -> None:
    mine = adapter(**kwargs)
    mine.configure(STREAMING)
    mine.answer(PROMPTS[:1], SHORT)
    output = mine.provenance()
    assert output["dtype"] == dtype
    assert output["torch"] == torch.__version__
    assert output["attn_implementation"] == "sdpa"
    assert (output["decoding"], output["cache"]) == ("benchfleet", "growing")
    assert len(output["devices"]) == 1
    assert output["model_digest"] == mine.model.digest


def test_a_half_precision_checkpoint_is_float32_on_a_cpu(adapter: LoadAdapter) -> None:
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        pytest.skip("there is a GPU here, which takes the checkpoint's own dtype")
    assert adapter(DEMO).provenance()["dtype"] == "float32"


def test_unloading_lets_the_weights_go(adapter: LoadAdapter) -> None:
    mine = adapter()
    mine.configure(STREAMING)
    mine.answer(PROMPTS, SHORT)
    model = ref(loaded(mine).model)
    mine.unload()
    assert model() is None
    mine.unload()


def test_a_model_that_hangs_together_in_a_cycle_is_let_go_too(adapter: LoadAdapter) -> None:
    mine = adapter()
    model = loaded(mine).model
    vars(model)["held"] = [model]
    model = ref(model)
    gc.disable()
    try:
        mine.unload()
        assert model() is None
    finally:
        gc.enable()


def test_what_the_libraries_brought_is_not_searched_for_garbage(
    checkpoint: Callable[..., Path],
) -> None:
    """In a process of its own: here they are loaded already, and frozen objects stay frozen."""
    code = f"""
import gc
from benchfleet.models.transformers import TransformersAdapter
from benchfleet.domain.cell import Model
source = {str(checkpoint())!r}
digest = TransformersAdapter.digest(source)
TransformersAdapter(Model(name="m", adapter="transformers", source=source, digest=digest)).load()
assert gc.isenabled()
print(gc.get_freeze_count(), len(gc.get_objects()))
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    frozen, searched = map(int, output.stdout.split())
    assert frozen > 10 * searched


def test_a_hub_name_loads_from_the_local_cache(
    checkpoint: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--org--tiny"
    shutil.copytree(checkpoint(), repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    digest = TransformersAdapter.digest("org/tiny")
    assert digest == commit
    model = Model(name="m", adapter="transformers", source="org/tiny", digest=digest)
    mine = TransformersAdapter(model)
    mine.load()
    mine.configure(DENSE)
    assert mine.answer(PROMPTS[:1], SHORT)[0].completion_tokens > 0
    mine.unload()


def failure_of(model: Model) -> CellFailure:
    with pytest.raises(CellFailure) as caught:
        TransformersAdapter(model).load()
    assert caught.value.stage == "load"
    return caught.value


def test_a_model_that_is_gone_is_not_found(checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint(), tmp_path / "model")
    model = declared(folder)
    shutil.rmtree(folder)
    failure = failure_of(model)
    assert failure.kind == "model_not_found"
    assert "model is not there" in str(failure)


def test_a_model_that_changed_since_it_was_declared_is_refused(
    checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(checkpoint(), tmp_path / "model")
    model = declared(folder)
    (folder / "generation_config.json").write_text("{}")
    failure = failure_of(model)
    assert failure.kind == "user_error"
    assert "has changed since the campaign was read" in str(failure)


def test_a_config_of_no_known_kind_is_the_users_error(
    checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(checkpoint(), tmp_path / "model")
    (folder / "config.json").write_text('{"model_type": "no_such_kind"}')
    assert failure_of(declared(folder)).kind == "user_error"


def test_lacking_weights_are_refused_and_not_made_up(
    checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(checkpoint(), tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    failure = failure_of(declared(folder))
    assert failure.kind == "user_error"
    assert "lacks weights" in str(failure)
    assert "model.layers.1.mlp.up_proj.weight" in str(failure)


@pytest.mark.parametrize(
    ("kwargs", "output"),
    [
        ({"dtype": "half"}, "dtype must be one of"),
        ({"no_such_setting": 4}, "no_such_setting"),
        ({"device_map": {"model": "cpu", "lm_head": 70}}, r"names GPU 70, .* needs: {gpus: 71}"),
        ({"device_map": {"model": "cpu", "lm_head": "gpu"}}, "'gpu', which is no device; use auto"),
    ],
)
def test_wrong_model_kwargs_are_the_users_error(
    checkpoint: Callable[..., Path], kwargs: Mapping[str, Any], output: str
) -> None:
    failure = failure_of(declared(checkpoint(), **kwargs))
    assert failure.kind == "user_error"
    assert re.search(output, str(failure))


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_the_cache_argument_may_have_its_old_or_its_new_name(
    adapter: LoadAdapter, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """transformers calls it `cache` from 5.24 on."""
    plain = adapter()
    expected = [answer.text for answer in plain.answer(PROMPTS, SHORT)]
    forward = LlamaForCausalLM.forward
    real = "cache" if "cache" in signature(forward).parameters else "past_key_values"

    def renamed(self: Any, input_ids: Any = None, position_ids: Any = None, **others: Any) -> Any:
        others[real] = others.pop(name, None)
        return forward(self, input_ids=input_ids, position_ids=position_ids, **others)

    names, kind = ("self", "input_ids", "position_ids", name), Parameter.POSITIONAL_OR_KEYWORD
    shown = [Parameter(one, kind) for one in names]
    monkeypatch.setattr(renamed, "__signature__", Signature(shown), raising=False)
    monkeypatch.setattr(LlamaForCausalLM, "forward", renamed)
    assert [answer.text for answer in adapter().answer(PROMPTS, SHORT)] == expected


def test_a_model_without_keys_and_values_is_refused(checkpoint: Callable[..., Path]) -> None:
    failure = failure_of(declared(checkpoint("mamba")))
    assert failure.kind == "user_error"
    assert "keeps no keys and values" in str(failure)


@pytest.mark.parametrize("device_map", ["auto", {"": "cpu"}, {"model": 0, "lm_head": 0}])
def test_a_device_map_places_the_weights_and_changes_no_answer(
    adapter: LoadAdapter, device_map: str | Mapping[str, Any]
) -> None:
    if not torch.cuda.is_available() and device_map == {"model": 0, "lm_head": 0}:
        device_map = {"model": "cpu", "lm_head": "cpu"}  # part by part, as on several GPUs
    plain, mapped = adapter(), adapter(device_map=device_map)
    expected = [answer.text for answer in plain.answer(PROMPTS, SHORT)]
    assert [answer.text for answer in mapped.answer(PROMPTS, SHORT)] == expected
    assert mapped.model.digest == plain.model.digest


def test_a_model_over_several_devices_answers_as_on_one(
    adapter: LoadAdapter, tmp_path: Path
) -> None:
    """The parts lie on two devices, one of them the disk, since this may be all that is here."""
    parts = ("model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb", "lm_head")
    device_map = {**dict.fromkeys(parts, "cpu"), "model.layers.1": "disk"}
    split = adapter(device_map=device_map, offload_folder=str(tmp_path))
    expected = [answer.text for answer in adapter().answer(PROMPTS, SHORT)]
    assert [answer.text for answer in split.answer(PROMPTS, SHORT)] == expected
    split.configure(STREAMING)
    assert split.answer(PROMPTS[:1], SHORT)[0].measures["density"] < 1


def test_code_of_a_checkpoint_runs_only_if_the_model_says_so(
    adapter: LoadAdapter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "custom"
    shutil.copytree(DEMO, folder)
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "of_mine"
    config["auto_map"] = {
        "AutoConfig": "mine.MyConfig",
        "AutoModelForCausalLM": "mine.MyModel",
    }
    (folder / "config.json").write_text(json.dumps(config))
    mark = tmp_path / "ran"
    (folder / "mine.py").write_text(
        "from pathlib import Path\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        f"Path({str(mark)!r}).touch()\n"
        "class MyConfig(LlamaConfig):\n    model_type = 'of_mine'\n"
        "class MyModel(LlamaForCausalLM):\n    config_class = MyConfig\n"
    )
    with pytest.raises(CellFailure, match="trust_remote_code"):
        adapter(folder)
    assert not mark.exists()
    assert "[y/N]" not in capsys.readouterr().out
    trusting = adapter(folder, trust_remote_code=True)
    assert mark.exists()
    assert "trust_remote_code" in TransformersAdapter.code(trusting.model)
    expected = [answer.text for answer in adapter(DEMO).answer(PROMPTS, SHORT)]
    assert [answer.text for answer in trusting.answer(PROMPTS, SHORT)] == expected
