"""Time one decoded token: each attention config in mode fast beside the best dense attention.

    python perf/attention.py [--keys 4096 8192 32768 131072] [--dtype float32 bfloat16] [--rounds 5]

It prints the attention of one layer alone, in milliseconds and as a ratio to dense attention with
folded heads in the same round, and one token of a small model on transformers' own path and on
benchfleet's. Layers rotate, so that no cache of the processor holds the keys.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from benchfleet.domain.attention_step import AttentionStep
from benchfleet.models.attention.compose import build_steps
from benchfleet.models.attention.forward import SparseAttention, register
from benchfleet.models.attention.sdpa import dense_attention
from benchfleet.models.attention.tally import Tally
from benchfleet.models.cache import growing_cache

HEADS, KEY_HEADS, DIM, LAYERS = 32, 8, 128, 4
CHANNELS = "channels.json"  # in a temporary folder
DOUBLE_SPARSITY = {"heavy_size": 1024, "sorted_channel_file": CHANNELS, "dense_layers": []}
CONFIGS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "sink+local 1,024": [("sink", {"sink_size": 4}), ("local", {"window_size": 1020})],
    "quest 1,024, group": [("quest", {"heavy_size": 1024, "share": "group", "dense_layers": []})],
    "quest 1,024, head": [("quest", {"heavy_size": 1024, "dense_layers": []})],
    "double_sparsity, group": [("double_sparsity", {**DOUBLE_SPARSITY, "share": "group"})],
    "double_sparsity, head": [("double_sparsity", DOUBLE_SPARSITY)],
    "random_sampling 3 %": [("random_sampling", {"rate": 0.03})],
    "oracle_top_k 1,024": [("oracle_top_k", {"heavy_size": 1024})],
}


def write_channels(folder: Path) -> None:
    """Channels in random order for each key head: which they are does not change the time."""
    draw = random.Random(42)
    lists = {
        f"model.layers.{layer}.self_attn.qk_proj": [
            draw.sample(range(DIM), DIM) for _ in range(KEY_HEADS)
        ]
        for layer in range(LAYERS)
    }
    (folder / CHANNELS).write_text(json.dumps(lists), encoding="utf-8")


def steps_of(named: list[tuple[str, dict[str, Any]]], folder: Path) -> Any:
    def placed(params: dict[str, Any]) -> dict[str, Any]:
        return {k: str(folder / v) if v == CHANNELS else v for k, v in params.items()}

    return build_steps([AttentionStep(name=name, params=placed(params)) for name, params in named])


def timed(rounds: int, runs: dict[str, Callable[[], object]], device: str) -> dict[str, float]:
    """The median milliseconds of each run; the runs take turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if device == "cuda":
                torch.cuda.synchronize()
            if number:  # the first warms up
                times[name].append((time.perf_counter() - started) * 1000)
    return {name: statistics.median(each) for name, each in times.items()}


def attention_alone(keys: int, dtype: torch.dtype, rounds: int, device: str, folder: Path) -> None:
    module = SimpleNamespace(num_key_value_groups=HEADS // KEY_HEADS, is_causal=True, layer_idx=0)
    config = LlamaConfig(num_hidden_layers=LAYERS)
    cache = growing_cache(config)
    shape = (1, KEY_HEADS, keys, DIM)
    for layer in range(LAYERS):
        pair = torch.randn(2, *shape, dtype=dtype, device=device)
        cache.update(pair[0], pair[1], layer)
    query = torch.randn(1, HEADS, 1, DIM, dtype=dtype, device=device)
    counted = torch.ones(1, 1, dtype=torch.bool, device=device)

    def layers(run: Callable[[int, Any, Any], object]) -> Callable[[], None]:
        def all_layers() -> None:
            for layer in range(LAYERS):
                module.layer_idx = layer
                run(layer, cache.layers[layer].keys, cache.layers[layer].values)

        return all_layers

    runs: dict[str, Callable[[], object]] = {
        "dense, folded": layers(lambda _, k, v: dense_attention(module, query, k, v, None)),
        "dense, transformers": layers(
            lambda _, k, v: sdpa_attention_forward(module, query, k, v, None)
        ),
    }
    for name, named in CONFIGS.items():
        attention = SparseAttention()
        attention.steps, attention.fast = steps_of(named, folder), True
        own = SimpleNamespace(layers=[SimpleNamespace(states={}) for _ in range(LAYERS)])
        tally = Tally(1, device)

        def run(_: int, k: Any, v: Any, a: Any = attention, c: Any = own, t: Any = tally) -> object:
            with a.counting(t, counted, cache=c):
                return a(module, query, k, v, None)

        runs[name] = layers(run)
    print(f"\nAttention of one layer, {keys:,} keys, {str(dtype)[6:]}, {device}")
    print_ratios(timed(rounds, runs, device), LAYERS)


def whole_model(keys: int, dtype: torch.dtype, rounds: int, device: str, folder: Path) -> None:
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        head_dim=DIM,
        max_position_embeddings=2 * keys,
        vocab_size=1000,
    )
    model = LlamaForCausalLM(config).to(device=device, dtype=dtype).eval()
    token = torch.zeros(1, 1, dtype=torch.long, device=device)
    counted = torch.ones(1, 1, dtype=torch.bool, device=device)

    def filled(cache: Any) -> Any:
        for layer in range(LAYERS):
            pair = torch.randn(2, 1, KEY_HEADS, keys, DIM, dtype=dtype, device=device)
            cache.update(pair[0], pair[1], layer)
        return cache

    def decoding(cache: Any, implementation: str) -> None:
        model.set_attn_implementation(implementation)
        position = torch.full((1, 1), cache.get_seq_length(), device=device)
        model(input_ids=token, past_key_values=cache, use_cache=True, position_ids=position)

    stock, grown = filled(DynamicCache(config=config)), filled(growing_cache(config))
    dense = SparseAttention()
    folded = register(dense, own="sdpa")
    runs: dict[str, Callable[[], object]] = {
        "dense, folded": lambda: decoding(grown, folded),
        "dense, transformers": lambda: decoding(stock, "sdpa"),
    }
    for name, named in list(CONFIGS.items())[:2]:
        attention, cache = SparseAttention(), filled(growing_cache(config))
        attention.steps, attention.fast = steps_of(named, folder), True
        registered = register(attention, own="sdpa")
        tally = Tally(1, device)

        def run(a: Any = attention, c: Any = cache, t: Any = tally, n: str = registered) -> None:
            with a.counting(t, counted, cache=c):
                decoding(c, n)

        runs[name] = run
    print(f"\nOne token of a small model, {keys:,} keys, {str(dtype)[6:]}, {device}")
    print_ratios(timed(rounds, runs, device), 1)


def print_ratios(times: dict[str, float], per: int) -> None:
    best = times["dense, folded"]
    for name, each in times.items():
        print(f"  {name:24} {each / per:9.2f} ms   {best / each:6.2f} x the best dense")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, nargs="+", default=[4096, 8192, 32768])
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.inference_mode(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_channels(folder)
        for dtype in options.dtype:
            kind = getattr(torch, dtype)
            for keys in options.keys:
                attention_alone(keys, kind, options.rounds, device, folder)
            whole_model(max(options.keys), kind, options.rounds, device, folder)


if __name__ == "__main__":
    main()
