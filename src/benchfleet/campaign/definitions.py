"""``PHASES`` and ``RUNNER_CONFIGS`` of a Python file, as the plain data of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchfleet.domain.phase_definition import PhaseDefinition, RunnerConfig, name_of

PHASES, RUNNERS, RUN, BENCHMARK = "PHASES", "RUNNER_CONFIGS", "RUN", "BENCHMARK"
MODELS = "MODELS"
_NAMED_BY_LEVEL = ("command", "python")  # the others have levels as subsets
_NO_ADAPTER = {"command": {"adapter": "none"}}  # a script opens its model by itself
_HOW = (
    f"says {PHASES}, and not how one of them is run; write {RUN} = ['python', 'run.py', "
    f"'{{benchmark}}', '{{model}}', '{{config_name}}'], or {BENCHMARK} = {{'python': {{…}}}}"
)


def campaign_from_definitions(names: Mapping[str, Any], file: Path) -> dict[str, Any] | None:
    """The campaign that a file's `names` define; None where they define none so.

    A level is a benchmark of its own, by its name; a rerun is a repeat, and a config a setting
    that the benchmark receives. What else the campaign needs is taken from its `campaign`, a
    mapping. Raises ValueError for what cannot be one.
    """
    if PHASES not in names:
        return None
    own = names.get("campaign") or {}
    if not isinstance(own, Mapping):
        raise ValueError(f"campaign must be a mapping beside {PHASES}")
    phases = names[PHASES]
    if isinstance(phases, PhaseDefinition) or not isinstance(phases, (list, tuple)):
        raise ValueError(f"{PHASES} must be a list of PhaseDefinition")
    benchmark = _benchmark(names)
    return {
        "campaign": file.stem,
        **own,
        "phases": _apart(
            [
                _phase(number, phase, benchmark, _models(names))
                for number, phase in enumerate(phases)
            ]
        ),
        "runners": _runners(names.get(RUNNERS, {})),
    }


def _apart(phases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The phases, each without what one before it has: a result in two lists is made once."""
    axes = [phase.pop("axes") for phase in phases]
    for number, phase in enumerate(phases):
        excluded = []
        for before in axes[:number]:
            both = {
                axis: [name for name in names if name in before[axis]]
                for axis, names in axes[number].items()
            }
            if all(both.values()):
                excluded.append(both)
        if excluded:
            phase["exclude"] = excluded
    return phases


def _benchmark(names: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if (argv := names.get(RUN)) is not None:
        if isinstance(argv, Mapping):
            return "command", dict(argv)
        return "command", {"argv": list(argv)}
    declared = names.get(BENCHMARK)
    if isinstance(declared, str):
        return declared, {}
    if isinstance(declared, Mapping) and len(declared) == 1:
        ((name, settings),) = declared.items()
        return name, dict(settings or {})
    raise ValueError(_HOW)


def _models(names: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a campaign says of models beside their names, by name."""
    declared = names.get(MODELS) or {}
    if not isinstance(declared, Mapping) or not all(
        isinstance(one, Mapping) for one in declared.values()
    ):
        raise ValueError(f"{MODELS} must map names to mappings, such as {{'path': …}}")
    return declared


def _phase(
    number: int, phase: Any, benchmark: tuple[str, dict[str, Any]], models: Mapping[str, Any]
) -> dict[str, Any]:
    where = f"{PHASES}[{number}]"
    if not isinstance(phase, PhaseDefinition):
        raise ValueError(f"{where} must be a PhaseDefinition; import it from benchfleet")
    named = {
        axis: _names(f"{where}.{axis}", getattr(phase, axis))
        for axis in ("configs", "levels", "models")
    }
    if isinstance(phase.reruns, bool) or not isinstance(phase.reruns, int) or phase.reruns < 1:
        raise ValueError(f"{where}.reruns must be a whole number from 1, not {phase.reruns!r}")
    name, settings = benchmark
    matrix: dict[str, Any] = {
        "models": [
            {"name": model, **_NO_ADAPTER.get(name, {}), **models.get(model, {})}
            for model in named["models"]
        ],
        "configs": {config: {"settings": {"name": config}} for config in named["configs"]},
        "benchmarks": [{name: _at_level(name, settings, level)} for level in named["levels"]],
    }
    if phase.reruns > 1:
        matrix["include"] = [{"models": "*", "repeats": phase.reruns}]
    gate = {"gate": phase.gate} if phase.gate else {}
    axes = {
        "models": named["models"],
        "configs": named["configs"],
        "benchmarks" if name in _NAMED_BY_LEVEL else "subsets": named["levels"],
        "repeats": [str(number) for number in range(phase.reruns)],
    }
    requires = list(phase.requires)
    return {"name": phase.phase, "matrix": matrix, "requires": requires, "axes": axes, **gate}


def _at_level(name: str, settings: Mapping[str, Any], level: str) -> dict[str, Any]:
    """The benchmark as it is run at one level."""
    if name == "command":
        return {**settings, "name": level}
    if name == "python":
        params = settings.get("params") or {}
        return {**settings, "name": level, "params": {**params, "level": level}}
    return {**settings, "subsets": [level]}


def _names(where: str, values: Any) -> list[str]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        values = [values]
    try:
        names = [name_of(value) for value in values]
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if not names:
        raise ValueError(f"{where} is empty; name at least one")
    return names


def _runners(configs: Any) -> dict[str, Any]:
    if not isinstance(configs, Mapping):
        raise ValueError(f"{RUNNERS} must be a mapping from host names to RunnerConfig")
    rules = {}
    for host, config in configs.items():
        if not isinstance(config, RunnerConfig):
            raise ValueError(
                f"{RUNNERS}[{host!r}] must be a RunnerConfig; import it from benchfleet"
            )
        rule: dict[str, Any] = {}
        if config.phase:
            rule["phases"] = [config.phase]
        if config.allowed_models:
            rule["models"] = _names(f"{RUNNERS}[{host!r}].allowed_models", config.allowed_models)
        rules[str(host)] = rule
    return rules
