"""Make small stand-ins for the models, the data and the weights that `study.py` names.

    python stand_ins.py FOLDER

- Two models: the trained one of ../recall, and a Phi-3 of the same size with random weights.
- LongBench: three questions of each subset, in the format of the hub.
- Weights of HashAttention that fit both models: random planes, where trained ones are networks.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Phi3Config, Phi3ForCausalLM

RECALL = Path(__file__).parent.parent / "recall" / "model"
LAYERS, HEADS, CHANNELS, BITS = 2, 2, 32, 32  # of both models; of a code
SUBSETS = ("narrativeqa", "qasper", "hotpotqa")
FILLER = "the lamp of the point burned whale oil, and ada kept it for years. "


def main(folder: Path) -> None:
    torch.manual_seed(0)
    models = folder / "models"
    shutil.copytree(RECALL, models / "llama", dirs_exist_ok=True)
    make_phi(models / "phi")
    make_data(folder / "longbench")
    make_hash_weights(folder / "hash_attention.safetensors")


def make_phi(folder: Path) -> None:
    """A Phi-3 with random weights and the tokenizer of the recall model."""
    config = json.loads((RECALL / "config.json").read_text())
    names = [
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers"),
        *("num_attention_heads", "num_key_value_heads", "max_position_embeddings"),
        *("bos_token_id", "eos_token_id", "pad_token_id"),
    ]
    model = Phi3ForCausalLM(Phi3Config(**{name: config[name] for name in names}))
    model.save_pretrained(folder)
    for file in RECALL.glob("tokenizer*.json"):
        shutil.copy(file, folder)


def make_data(folder: Path) -> None:
    """LongBench as its repository on the hub has it: JSON lines, a file for each config."""
    folder.mkdir(parents=True, exist_ok=True)
    for subset in SUBSETS:
        rows = [
            {
                "input": f"who kept the lamp {number}?",
                "question": f"who kept the lamp {number}?",
                "context": FILLER * (8 + 4 * number),
                "answers": ["ada"],
                "all_classes": [],
                "length": 100 * (number + 1),
                "dataset": subset,
                "language": "en",
                "_id": f"{subset}-{number}",
            }
            for number in range(3)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{subset}.jsonl").write_text(text)


def make_hash_weights(file: Path) -> None:
    """For each layer and head random planes, the same for queries and keys: the fewer bits two
    codes differ in, the smaller is the angle."""
    tensors = {}
    for layer in range(LAYERS):
        planes = torch.randn(HEADS, CHANNELS, BITS)
        for of in ("query", "key"):
            tensors[f"layers.{layer}.{of}.0.weight"] = planes.clone()
            tensors[f"layers.{layer}.{of}.0.bias"] = torch.zeros(HEADS, BITS)
    save_file(tensors, file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
