"""Plugins by name: built-ins as ``module:Class`` strings, the rest by entry point, all lazy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

from benchfleet.errors import MissingExtra, PluginError, UnknownName
from benchfleet.hints import hint

Family = Literal[
    "models",
    "benchmarks",
    "attention",
    "ledgers",
    "engines",
    "exporters",
    "policies",
    "providers",
    "stores",
]

_BUILT_IN: dict[str, dict[str, str]] = {
    "models": {
        "llama_cpp": "benchfleet.models.served.managed:LlamaCppAdapter",
        "llama_cpp_offline": "benchfleet.models.llama_cpp_offline:LlamaCppOfflineAdapter",
        "mock": "benchfleet.models.mock:MockAdapter",
        "none": "benchfleet.models.none:NoAdapter",
        "ollama": "benchfleet.models.served.ollama:OllamaAdapter",
        "ollama_serve": "benchfleet.models.served.managed:OllamaServeAdapter",
        "openai": "benchfleet.models.served.openai:OpenAIAdapter",
        "sglang": "benchfleet.models.served.managed:SglangAdapter",
        "transformers": "benchfleet.models.transformers:TransformersAdapter",
        "transformers_serve": "benchfleet.models.served.managed:TransformersServeAdapter",
        "vllm": "benchfleet.models.served.vllm:VllmAdapter",
        "vllm_offline": "benchfleet.models.vllm_offline:VllmOfflineAdapter",
    },
    "benchmarks": {
        "aime2024": "benchfleet.benchmarks.lm_eval.named:Aime2024",
        "aime2025": "benchfleet.benchmarks.lm_eval.named:Aime2025",
        "babilong": "benchfleet.benchmarks.lm_eval.long_context:Babilong",
        "command": "benchfleet.benchmarks.command:Command",
        "gpqa": "benchfleet.benchmarks.lm_eval.named:Gpqa",
        "gsm8k": "benchfleet.benchmarks.lm_eval.named:Gsm8k",
        "humaneval": "benchfleet.benchmarks.lm_eval.humaneval:HumanEval",
        "ifeval": "benchfleet.benchmarks.lm_eval.named:IFEval",
        "infinite_bench": "benchfleet.benchmarks.lm_eval.long_context:InfiniteBench",
        "inspect": "benchfleet.benchmarks.inspect_tasks.benchmark:Inspect",
        "lm_eval": "benchfleet.benchmarks.lm_eval.benchmark:LmEval",
        "longbench": "benchfleet.benchmarks.lm_eval.long_context:LongBench",
        "longbench_e": "benchfleet.benchmarks.lm_eval.long_context:LongBenchE",
        "longbench_v2": "benchfleet.benchmarks.lm_eval.long_context:LongBenchV2",
        "loogle": "benchfleet.benchmarks.lm_eval.loogle:Loogle",
        "mmlu_pro": "benchfleet.benchmarks.lm_eval.named:MmluPro",
        "mock_benchmark": "benchfleet.benchmarks.mock_benchmark:MockBenchmark",
        "python": "benchfleet.benchmarks.python:Python",
        "judge": "benchfleet.benchmarks.judge:Judge",
        "recall": "benchfleet.benchmarks.recall:Recall",
        "ruler": "benchfleet.benchmarks.lm_eval.ruler:Ruler",
        "serving": "benchfleet.benchmarks.serving.benchmark:Serving",
    },
    "attention": {
        "adaptive_sampling": "benchfleet.models.attention.adaptive_sampling:AdaptiveSampling",
        "dense": "benchfleet.models.attention.dense:Dense",
        "double_sparsity": "benchfleet.models.attention.double_sparsity:DoubleSparsity",
        "hash_attention": "benchfleet.models.attention.hash_attention:HashAttention",
        "local": "benchfleet.models.attention.local:Local",
        "magic_pig": "benchfleet.models.attention.magic_pig:MagicPig",
        "oracle_top_k": "benchfleet.models.attention.oracle_top_k:OracleTopK",
        "oracle_top_p": "benchfleet.models.attention.oracle_top_p:OracleTopP",
        "pq_cache": "benchfleet.models.attention.pq_cache:PQCache",
        "quest": "benchfleet.models.attention.quest:Quest",
        "random_sampling": "benchfleet.models.attention.random_sampling:RandomSampling",
        "sink": "benchfleet.models.attention.sink:Sink",
        "sink_local": "benchfleet.models.attention.sink_local:SinkLocal",
        "streaming": "benchfleet.models.attention.sink_local:Streaming",
    },
    "ledgers": {
        "git+file": "benchfleet.ledger.git.open:OpenedGit",
        "git+http": "benchfleet.ledger.git.open:OpenedGit",
        "git+https": "benchfleet.ledger.git.open:OpenedGit",
        "git+ssh": "benchfleet.ledger.git.open:OpenedGit",
        "postgres": "benchfleet.ledger.postgres.ledger:PostgresLedger",
        "postgresql": "benchfleet.ledger.postgres.ledger:PostgresLedger",
        "sqlite": "benchfleet.ledger.sqlite.ledger:SqliteLedger",
    },
    "engines": {
        "local": "benchfleet.engines.local:LocalEngine",
        "ray": "benchfleet.engines.ray_engine:RayEngine",
    },
    "exporters": {
        "every_eval_ever": "benchfleet.exporters.every_eval_ever:EveryEvalEverExporter",
        "hub_dataset": "benchfleet.exporters.hub_dataset:HubDatasetExporter",
        "inspect": "benchfleet.exporters.inspect_logs:InspectExporter",
        "lm_eval": "benchfleet.exporters.lm_eval:LmEvalExporter",
        "mlflow": "benchfleet.exporters.mlflow_runs:MlflowExporter",
        "model_card": "benchfleet.exporters.model_card:ModelCardExporter",
        "wandb": "benchfleet.exporters.wandb_runs:WandbExporter",
    },
    "policies": {
        "fifo": "benchfleet.policies.fifo:Fifo",
        "longest-first": "benchfleet.policies.by_time:LongestFirst",
        "shortest-first": "benchfleet.policies.by_time:ShortestFirst",
        "warm-first": "benchfleet.policies.warm_first:WarmFirst",
    },
    "providers": {
        "runpod": "benchfleet.providers.runpod:RunPodProvider",
        "static": "benchfleet.providers.static:StaticProvider",
        "tensordock": "benchfleet.providers.tensordock:TensorDockProvider",
        "vast": "benchfleet.providers.vast:VastProvider",
    },
    "stores": {
        "file": "benchfleet.results.stores.folder:FolderStore",
        "rsync": "benchfleet.results.stores.rsync:RsyncStore",
        **dict.fromkeys(
            ("abfs", "az", "gcs", "gs", "memory", "s3"),
            "benchfleet.results.stores.object_store:ObjectStore",
        ),
    },
}
_SINGULAR = {
    "models": "adapter",
    "benchmarks": "benchmark",
    "attention": "attention config",
    "ledgers": "ledger",
    "engines": "engine",
    "exporters": "exporter",
    "policies": "placement policy",
    "providers": "provider",
    "stores": "results store",
}
_EXTRA_OF = {
    "httpx2": "rent",
    "psycopg": "postgres",
}  # packages that a plugin's module cannot do without
_BASES = {
    "models": "benchfleet.models.base:Adapter",
    "benchmarks": "benchfleet.benchmarks.base:Benchmark",
    "engines": "benchfleet.engines.plugin:EnginePlugin",
    "attention": "benchfleet.models.attention.base:AttentionConfig",
    "exporters": "benchfleet.exporters.base:Exporter",
    "providers": "benchfleet.providers.base:Provider",
    "stores": "benchfleet.results.stores.base:ResultStore",
}


class Plugin:
    """What a plugin says of the packages that it needs; the base classes of families derive from
    this."""

    requires: ClassVar[tuple[str, ...]] = ()  # modules that must be importable, such as ("torch",)
    extra: ClassVar[str] = ""  # the extra of benchfleet that brings them
    example: ClassVar[str] = ""  # an entry of a campaign file, for lists of what there is

    @classmethod
    def unavailable(cls) -> str:
        """What else than a package this host lacks for it, and what to do; ``""`` for nothing."""
        return ""


@dataclass(frozen=True, kw_only=True)
class PluginInfo:
    """A plugin as the lists of the command line show it."""

    name: str
    plugin: Any = None  # its class; None where it cannot be imported
    problem: str = ""  # why it cannot be used here

    @property
    def summary(self) -> str:
        """The first sentence or paragraph of its docstring."""
        return " ".join((self.plugin.__doc__ or "").partition("\n\n")[0].split())


@cache
def _entry_points(family: str) -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=f"benchfleet.{family}")}


def names(family: Family) -> list[str]:
    """Every name of a family, built-in or installed, sorted; ``_`` in front hides one."""
    all_names = {*_BUILT_IN[family], *_entry_points(family)}
    return sorted(name for name in all_names if not name.startswith("_"))


def load(family: Family, name: str, *, runs_here: bool = True) -> Any:
    """The class that bears the name; `runs_here` says that this process is to use its packages.

    Raises `UnknownName` with the near ones, `MissingExtra` where the class says that packages are
    lacking here, and `PluginError` where it does not derive from the base class of its family.
    """
    plugin = _plugin(family, name)
    if runs_here and (message := _missing_packages(family, name, plugin)):
        raise MissingExtra(message)
    return plugin


def info(family: Family, name: str) -> PluginInfo:
    """What there is to say of a plugin, whether or not it can be used here."""
    try:
        plugin = _plugin(family, name)
    except (PluginError, ImportError) as error:
        return PluginInfo(name=name, problem=str(error))
    problem = _missing_packages(family, name, plugin) or plugin.unavailable()
    return PluginInfo(name=name, plugin=plugin, problem=problem)


def _plugin(family: Family, name: str) -> Any:
    """The class of that name, whether or not its packages are here."""
    location = _BUILT_IN[family].get(name) or _entry_points(family).get(name)
    if location is None:
        raise UnknownName(no_such(family, name))
    try:
        plugin = _imported(location)
    except ModuleNotFoundError as error:
        extra = _EXTRA_OF.get(error.name or "")
        if extra is None:
            raise
        raise MissingExtra(
            f"{_SINGULAR[family]} {name!r} needs {error.name}; pip install 'benchfleet[{extra}]'"
        ) from None
    base = _imported(_BASES[family]) if family in _BASES else None
    if base and not (isinstance(plugin, type) and issubclass(plugin, base)):
        raise PluginError(
            f"{_SINGULAR[family]} {name!r} ({location}) does not derive from the base class of its "
            f"family; make it a subclass of {_BASES[family].replace(':', '.')}"
        )
    if base and (missing := sorted(getattr(plugin, "__abstractmethods__", ()))):
        raise PluginError(
            f"{_SINGULAR[family]} {name!r} ({location}) lacks {', '.join(missing)}; write what the "
            f"base class {_BASES[family].replace(':', '.')} asks for"
        )
    return plugin


def _missing_packages(family: Family, name: str, plugin: Any) -> str:
    if family not in _BASES:
        return ""
    missing = [package for package in plugin.requires if find_spec(package) is None]
    if not missing:
        return ""
    return (
        f"{_SINGULAR[family]} {name!r} needs {', '.join(missing)}; "
        f"pip install 'benchfleet[{plugin.extra}]'"
    )


def version_mismatch(
    family: Family, name: str, version: int | str | None, *, runs_here: bool = True
) -> str:
    """What is wrong where the plugin has another version here than `version`, which a cell was
    made with; ``""`` where nothing is, or the cell is older than versions. Raises as `load`."""
    if version is None:
        return ""
    if version == (installed := load(family, name, runs_here=runs_here).version):
        return ""
    return (
        f"{_SINGULAR[family]} {name!r} has version {installed} here, but the cell needs {version}; "
        "install the same release on all machines"
    )


def _imported(location: str) -> Any:
    module, _, attribute = location.partition(":")
    return getattr(import_module(module), attribute)


def no_such(family: Family, name: str) -> str:
    """The sentence that says what there is instead."""
    return f"no {_SINGULAR[family]} {name!r}; {hint(name, names(family))}"
