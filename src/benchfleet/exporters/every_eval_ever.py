"""Records of Every Eval Ever, schema 0.3.0 (https://github.com/evaleval/every_eval_ever).

A result is ``data/<benchmark>/<developer>/<model>/<uuid>.json``, with its samples in
``<uuid>_samples.jsonl`` beside it. The UUID is made of the cell's fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchfleet.domain.averages import BOOTSTRAP_STDERR
from benchfleet.exporters.base import ExportedResult
from benchfleet.exporters.folder import FolderExporter
from benchfleet.exporters.samples import as_text, question_of, targets_of, text_values

_SCHEMA = "0.3.0"
_SERVED = ("openai", "ollama")  # adapters of servers that others may run
_GENERATION = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k"}


class EveryEvalEverExporter(FolderExporter):
    """Records of Every Eval Ever, with each sample."""

    name: ClassVar[str] = "every_eval_ever"

    def files(self, result: ExportedResult) -> Mapping[str, bytes]:
        developer, model = _developer_and_model(result)
        number = uuid.UUID(hex=result.fingerprint[:32], version=4)
        benchmark = result.path.split("/")[2].partition("@")[0]
        stem = f"data/{_part(benchmark)}/{_part(developer)}/{_part(model)}/{number}"
        instances = [_instance(result, sample) for sample in result.samples()]
        lines = "".join(json.dumps(one) + "\n" for one in instances if one).encode()
        record = _record(result, benchmark)
        if not lines:
            return {f"{stem}.json": json.dumps(record, indent=2).encode()}
        record["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{stem}_samples.jsonl",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(lines).hexdigest(),
            "total_rows": lines.count(b"\n"),
        }
        return {
            f"{stem}_samples.jsonl": lines,
            f"{stem}.json": json.dumps(record, indent=2).encode(),
        }


def _developer_and_model(result: ExportedResult) -> tuple[str, str]:
    developer, slash, model = result.cell.model.name.rpartition("/")
    return (developer if slash else "unknown"), model


def _part(name: str) -> str:
    return name.replace("/", "_").lstrip(".") or "_"


def _model_id(result: ExportedResult) -> str:
    return "/".join(_developer_and_model(result))


def _evaluation_id(result: ExportedResult, benchmark: str) -> str:
    return f"{benchmark}/{_model_id(result)}/{result.fingerprint[:16]}"


def _record(result: ExportedResult, benchmark: str) -> dict[str, Any]:
    cell = result.cell
    served = cell.model.adapter in _SERVED
    names = [("score", result.score), *result.tasks.items()]
    return {
        "schema_version": _SCHEMA,
        "evaluation_id": _evaluation_id(result, benchmark),
        "evaluation_timestamp": str(int(result.began)),
        "retrieved_timestamp": str(int(result.ended)),
        "source_metadata": {
            "source_name": "benchfleet",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
            "additional_details": text_values(
                {
                    "fingerprint": result.fingerprint,
                    "digest": result.digest,
                    "path": result.path,
                    "git_commit": result.provenance.get("git"),
                }
            ),
        },
        "eval_library": {
            "name": "benchfleet",
            "version": str(result.provenance.get("benchfleet") or "unknown"),
        },
        "model_info": {
            "name": _developer_and_model(result)[1],
            "id": _model_id(result),
            "developer": _developer_and_model(result)[0],
            "inference_engine": {"name": cell.model.adapter},
            "additional_details": {
                "deployment_type": "unknown" if served else "self_deployed",
                "model_availability": "unknown",
                "digest": cell.model.digest,
                "config": cell.config.name,
                "attention": as_text(cell.config.identity()),
                "model_kwargs": as_text(dict(cell.model.model_kwargs)),
            },
        },
        "evaluation_results": [
            _evaluation(result, benchmark, name, value) for name, value in names
        ],
    }


def _evaluation(result: ExportedResult, benchmark: str, name: str, value: float) -> dict[str, Any]:
    work = result.cell.workload
    count = result.scored_samples
    uncertainty: dict[str, Any] = {}
    if name == "score" and result.stderr is not None:
        is_bootstrap = result.stderr == result.summary.get(BOOTSTRAP_STDERR)
        method = "bootstrap" if is_bootstrap else "analytic"
        uncertainty["standard_error"] = {"value": result.stderr, "method": method}
    if count is not None:
        uncertainty["num_samples"] = count
    arguments = {
        ours: work.generation[key] for ours, key in _GENERATION.items() if key in work.generation
    }
    if isinstance(most := work.generation.get("max_new_tokens"), int) and most > 0:
        arguments["max_tokens"] = most
    return {
        "evaluation_result_id": f"{result.fingerprint[:16]}#{name}",
        "evaluation_name": benchmark if name == "score" else f"{benchmark} {name}",
        "source_data": {
            "dataset_name": work.name if work.subset is None else f"{work.name}/{work.subset}",
            "source_type": "other",
            "additional_details": text_values(
                {
                    "version": work.version,
                    "data_digest": work.data_digest or None,
                    "params": dict(work.params),
                    "limit": work.limit,
                }
            ),
        },
        "metric_config": {
            "metric_id": f"benchfleet.{name}",
            "metric_name": str(result.summary.get("metric") or name) if name == "score" else name,
            "lower_is_better": False,
        },
        "score_details": {
            "score": value,
            **({"uncertainty": uncertainty} if uncertainty else {}),
        },
        "generation_config": {
            "generation_args": arguments,
            "additional_details": text_values(
                {**work.generation, "batch_size": work.batch_size or "auto"}
            ),
        },
    }


def _instance(result: ExportedResult, sample: Mapping[str, Any]) -> dict[str, Any] | None:
    """One sample; None for one without a score, which the schema does not allow."""
    if "score" not in sample:
        return None
    benchmark = result.path.split("/")[2].partition("@")[0]
    question, targets, answer = question_of(sample), targets_of(sample), sample["predicted_answer"]
    tokens: Sequence[int] = [sample.get("prompt_tokens", 0), sample.get("completion_tokens", 0)]
    return {
        "schema_version": _SCHEMA,
        "evaluation_id": _evaluation_id(result, benchmark),
        "model_id": _model_id(result),
        "evaluation_name": benchmark,
        "evaluation_result_id": f"{result.fingerprint[:16]}#score",
        "sample_id": str(sample["id"]),
        "sample_hash": hashlib.sha256(
            (question + "".join(targets)).encode("utf-8", "surrogatepass")
        ).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": question, "reference": targets},
        "output": {"raw": [answer]},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": answer,
                "extraction_method": "custom",
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": sample["score"], "is_correct": sample["score"] >= 1.0},
        "token_usage": {
            "input_tokens": int(tokens[0]),
            "output_tokens": int(tokens[1]),
            "total_tokens": int(sum(tokens)),
        },
        "performance": {"latency_ms": 1000.0 * (sample.get("seconds") or 0.0)},
    }
