"""The demo's trainer run for a few steps, and the checkpoint that is shipped, asked for real."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchfleet.benchmarks.recall import Recall
from benchfleet.domain.cell import Model
from benchfleet.models.base import Answer, Prompt
from kept_sessions import KeptSession

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

EXAMPLE = Path(__file__).parents[2] / "examples" / "recall"
SHIPPED = EXAMPLE / "model"
FILES = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}
SINK = 4


# Runs the script several times in one process, each time with the words of one argument.
ONE_AFTER_THE_OTHER = """\
import runpy, shlex, sys
script, *runs = sys.argv[1:]
for words in runs:
    sys.argv = [script, *shlex.split(words)]
    runpy.run_path(script, run_name="__main__")
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three checkpoints of a few steps: one of a process of its own, and of another process first
    one with another seed, then one with the same."""
    folder = tmp_path_factory.mktemp("trained")
    script = str(EXAMPLE / "train.py")

    def words(name: str, seed: int) -> list[str]:
        options = f"--steps 3 --samples 0 --threads 1 --seed {seed} --out".split()
        return [*options, str(folder / name)]

    both = [shlex.join(words("other", 4)), shlex.join(words("again", 3))]
    commands = [[script, *words("first", 3)], ["-c", ONE_AFTER_THE_OTHER, script, *both]]
    runs = [
        subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for command in commands
    ]
    for run, times in zip(runs, (1, 2), strict=True):
        output, _ = run.communicate(timeout=240)
        assert run.returncode == 0, output.decode()
        assert output.decode().count("step    3 of 3") == times
    return {name: folder / name for name in ("first", "again", "other")}


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_training_twice_with_one_seed_gives_equal_weights_and_another_seed_gives_others(
    trained: Mapping[str, Path],
) -> None:
    assert weights(trained["first"]) == weights(trained["again"])
    assert weights(trained["first"]) != weights(trained["other"])


def test_training_writes_a_whole_checkpoint_that_names_no_folder(
    trained: Mapping[str, Path],
) -> None:
    files = list(trained["first"].iterdir())
    assert {file.name for file in files} == FILES
    for file in files:
        assert str(trained["first"].parent).encode() not in file.read_bytes()


def test_what_training_writes_loads_as_a_model_of_half_precision(
    trained: Mapping[str, Path],
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(trained["first"])
    assert model.dtype == torch.float16
    assert model.config.vocab_size == len(
        transformers.AutoTokenizer.from_pretrained(trained["first"])
    )


def test_the_shipped_checkpoint_is_of_the_kind_that_the_script_writes(
    trained: Mapping[str, Path],
) -> None:
    def output(folder: Path) -> dict[str, Any]:
        config = json.loads((folder / "config.json").read_text())
        del config["transformers_version"]
        vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        return {"config": config, "vocabulary": vocabulary}

    assert output(SHIPPED) == output(trained["first"])
    assert {file.name for file in SHIPPED.iterdir()} == FILES
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 2**20


@dataclass
class MaskedModel:
    """The shipped model in one pass: dense over the text, `window` for the question's tokens."""

    independent = False

    model: Any
    tokenizer: Any
    window: int | None = None  # None: dense

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        texts = [prompt.context + prompt.question for prompt in prompts]
        tokens = self.tokenizer(texts, return_tensors="pt")["input_ids"]
        length = tokens.shape[1]
        query, key = torch.arange(length)[:, None], torch.arange(length)[None]
        seen = key <= query
        if self.window is not None:
            asking = query >= length - len(prompts[0].question)
            seen &= ~asking | (key < SINK) | (key > query - self.window)
        mask = torch.zeros(length, length).masked_fill(~seen, torch.finfo(torch.float32).min)
        with torch.no_grad():
            scores = self.model(tokens, attention_mask=mask.expand(len(texts), 1, -1, -1)).logits
        return [
            Answer(text=text) for text in self.tokenizer.batch_decode(scores[:, -1:].argmax(-1))
        ]


@pytest.fixture(scope="module")
def shipped() -> Iterator[MaskedModel]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32)
    yield MaskedModel(model.eval(), transformers.AutoTokenizer.from_pretrained(SHIPPED))
    torch.set_num_threads(threads)


def accuracy(shipped: MaskedModel, length: int, window: int | None) -> float:
    adapter = MaskedModel(shipped.model, shipped.tokenizer, window)
    session = KeptSession(
        adapter=adapter,
        model=Model(name="shipped", adapter="transformers", source=str(SHIPPED), digest="shipped"),
        subset=str(length),
        seed=20,
        batch_size=20,
        generation=Recall.default_generation,
    )
    return Recall({"samples": 60}).run(session).overall


@pytest.mark.parametrize("length", [128, 512, 1024])
def test_the_shipped_model_with_dense_attention_recalls_at_every_length(
    shipped: MaskedModel, length: int
) -> None:
    assert accuracy(shipped, length, None) >= 0.95


def test_the_shipped_model_forgets_what_left_its_window(shipped: MaskedModel) -> None:
    assert accuracy(shipped, 512, 32) <= 0.3
    assert 0.2 <= accuracy(shipped, 512, 256) <= 0.75
    assert accuracy(shipped, 128, 256) >= 0.95


def test_the_shipped_tokenizer_reads_every_character_and_puts_one_start_in_front(
    shipped: MaskedModel,
) -> None:
    tokenizer = shipped.tokenizer
    for sample in Recall({"samples": 30}).samples("128", 0):
        text = sample.prompt.context + sample.prompt.question
        tokens = tokenizer(text)["input_ids"]
        assert tokens[0] == tokenizer.bos_token_id
        assert len(tokens) == 1 + len(text)
        assert tokenizer.unk_token_id not in tokens
        assert tokenizer.decode(tokens[1:]) == text
