"""The transformers adapter on an NVIDIA GPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchfleet.domain.attention_step import AttentionStep
from benchfleet.domain.cell import Config, Model
from benchfleet.models.base import Prompt
from benchfleet.models.transformers import TransformersAdapter

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU in sight"),
]
DEMO = Path(__file__).parents[2] / "examples" / "recall" / "model"
PROMPTS = [
    Prompt(context="aa bb K7 cc dd ee " * 40, question="?K"),
    Prompt(context="Q3 and more of it ", question="what is ?Q"),
    Prompt(context="", question="?A"),
]
DENSE = Config(name="dense")
WINDOW = Config(
    name="window", attention=(AttentionStep(name="local", params={"window_size": 100_000}),)
)
SPARSE = Config(
    name="sparse",
    attention=(
        AttentionStep(name="streaming", params={"sink_size": 2, "window_size": 6}),
        AttentionStep(name="oracle_top_k", params={"heavy_size": 0.1}),
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights of some 400 MB in bfloat16, with grouped heads and the demo's tokenizer."""
    torch.manual_seed(0)
    saved = tmp_path_factory.mktemp("model")
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=74,
            hidden_size=1024,
            intermediate_size=4096,
            num_hidden_layers=12,
            num_attention_heads=16,
            num_key_value_heads=4,
            max_position_embeddings=4096,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        )
    )
    model.to(torch.bfloat16).save_pretrained(saved)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DEMO / name, saved / name)
    return saved


@pytest.fixture
def adapter(folder: Path) -> Iterator[TransformersAdapter]:
    digest = TransformersAdapter.digest(str(folder))
    made = TransformersAdapter(
        Model(name="m", adapter="transformers", source=str(folder), digest=digest)
    )
    made.load()
    yield made
    made.unload()


def test_a_gpu_takes_the_checkpoints_own_dtype(adapter: TransformersAdapter) -> None:
    output = adapter.provenance()
    assert output["dtype"] == "bfloat16"
    assert output["devices"] == [torch.cuda.get_device_name(0)]


@pytest.mark.parametrize("prompts", [PROMPTS[:1], PROMPTS], ids=["one", "batch"])
def test_a_window_beyond_the_length_equals_dense_bit_for_bit(
    adapter: TransformersAdapter, prompts: list[Prompt]
) -> None:
    logits: list[torch.Tensor] = []
    assert adapter._loaded is not None
    adapter._loaded.model.register_forward_hook(
        lambda module, args, output: logits.append(output.logits.clone())
    )
    adapter.configure(DENSE)
    adapter.answer(prompts, {"max_new_tokens": 8})
    dense, logits[:] = list(logits), []
    adapter.configure(WINDOW)
    answers = adapter.answer(prompts, {"max_new_tokens": 8})
    assert len(logits) == len(dense) > 2
    assert all(map(torch.equal, logits, dense))
    assert [answer.measures["density"] for answer in answers] == [1.0] * len(prompts)


def test_sparse_configs_count_and_give_no_nan(adapter: TransformersAdapter) -> None:
    adapter.configure(SPARSE)
    answers = adapter.answer(PROMPTS, {"max_new_tokens": 8})
    assert 0 < answers[0].measures["density"] < 0.25
    assert 0 < answers[0].measures["attention_error"] < 2
    adapter.configure(Config(name="all", attention=SPARSE.attention, everywhere=True))
    again = adapter.answer(PROMPTS, {"max_new_tokens": 8})
    assert again[0].measures["density"] > answers[0].measures["density"]


def test_sampling_runs_on_the_gpu_and_repeats(adapter: TransformersAdapter) -> None:
    adapter.configure(DENSE)
    settings = {"max_new_tokens": 16, "temperature": 1.5, "top_p": 0.9, "seed": 3}
    first = [answer.text for answer in adapter.answer(PROMPTS, settings)]
    adapter.configure(DENSE)
    assert [answer.text for answer in adapter.answer(PROMPTS, settings)] == first


def test_memory_is_back_after_unload(folder: Path) -> None:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    digest = TransformersAdapter.digest(str(folder))
    adapter = TransformersAdapter(
        Model(name="m", adapter="transformers", source=str(folder), digest=digest)
    )
    adapter.load()
    loaded = torch.cuda.memory_allocated()
    assert loaded - before[0] > 200 * 2**20
    adapter.configure(SPARSE)
    adapter.answer(PROMPTS, {"max_new_tokens": 8})
    adapter.unload()
    torch.cuda.synchronize()
    # What cuBLAS keeps for its workspaces stays.
    assert torch.cuda.memory_allocated() - before[0] < 64 * 2**20
    assert torch.cuda.memory_reserved() - before[1] < 128 * 2**20
