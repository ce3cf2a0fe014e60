"""Compare four attention configs on two models: 2 × 4 × (3 + 1) = 32 cells in one call.

    python study.py FOLDER

FOLDER holds what `stand_ins.py` makes. For the real study, name models of the hub, leave `data`
out, take the published weights (`benchfleet attention --convert`), and list your GPUs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from benchfleet import AdapterConfig, BenchmarkConfig, BenchmarkExecutor
from benchfleet.models.attention.hash_attention import HashAttention
from benchfleet.models.attention.local import Local
from benchfleet.models.attention.sink import Sink
from benchfleet.models.attention.sink_local import SinkLocal, Streaming

folder = Path(sys.argv[1]).resolve()

executor = BenchmarkExecutor(
    gpu_ids=[],  # the CPU; [0, 1, 2, 3] for four GPUs
    max_concurrent_runs=2,
    base_result_dir=str(folder / "sparse_attention_comparison"),
)
streaming_config = Streaming(window_size=124, sink_size=4)
sink_local_config = SinkLocal(window_size=96, sink_size=32)
hash_attention_config = [
    Sink(sink_size=16),
    Local(window_size=16),
    HashAttention(heavy_size=96, weights=str(folder / "hash_attention.safetensors")),
]
data = {"data": str(folder / "longbench")}

results = executor.run_benchmark_matrix(
    model_names=[str(folder / "models" / "llama"), str(folder / "models" / "phi")],
    sparse_attention_configs=[
        ("dense", None),
        ("streaming", streaming_config),
        ("hash_attention", hash_attention_config),
        ("sink_local", sink_local_config),
    ],
    benchmark_configs=[
        BenchmarkConfig("longbench", ["narrativeqa", "qasper", "hotpotqa"], data),
        BenchmarkConfig("mock_benchmark"),
    ],
    adapter_config=AdapterConfig(
        model_kwargs={"torch_dtype": torch.bfloat16}, tokenizer_kwargs={"padding_side": "left"}
    ),
    generation_kwargs={"max_new_tokens": 8},  # 512 for models that answer in sentences
)
for result in results.individual_results:
    reused = ", reused" if result.reused else ""
    print(f"{result.stub.result_dir}: score {result.metrics['overall_score']:.2f}{reused}")
for failed in results.failed_executions:
    print(f"{failed.stub.result_dir}: {failed.error_message}")
