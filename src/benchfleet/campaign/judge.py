"""The key ``judge`` of a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchfleet.domain.judging import DEFAULT_SCALE
from benchfleet.hints import hint

from .entry import Entry
from .schema_types import MAPPING, NAME, TEXT, Shape, doc, listing, mapping, one_or_list

if TYPE_CHECKING:
    from .benchmarks import DeclaredWorkload
    from .configs import DeclaredConfig
    from .declared_model import DeclaredModel

_NUMBER: Shape = {"type": "number"}
KEYS: Mapping[str, Shape] = {
    "model": doc(one_or_list(NAME), "names of 'models': each judges all answers"),
    "rubric": doc(TEXT, "a file with the instructions; {response} and {column} are filled in"),
    "pairwise": doc(TEXT, "a config: answers are compared with its answers, in both orders"),
    "scale": doc(listing(_NUMBER, least=2), "the least and greatest verdict ([1, 5])"),
    "generation": doc(MAPPING, "generation kwargs of the judges"),
}
JUDGE: Shape = doc(mapping(KEYS), "models that grade the stored answers, as cells of their own")


def read_judge(entry: Entry, folder: Path) -> dict[str, Any]:
    """The judges' settings with the rubric's text; empty where there are none."""
    if entry.absent:
        return {}
    fields = entry.fields(KEYS)
    names = [item.name() for item in fields["model"].items(single=True)]
    if not names:
        entry.wrong("names no judge; write model: NAME, an entry of 'models'")
    rubric = _rubric(fields["rubric"], entry, folder)
    scale = [item.value for item in fields["scale"].items()] or list(DEFAULT_SCALE)
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in scale)
    if not numbers or len(scale) != 2 or scale[0] >= scale[1]:
        fields["scale"].wrong("must be the least and the greatest verdict, such as [1, 5]")
    return {
        "models": names,
        "rubric": rubric,
        "pairwise": fields["pairwise"].text(),
        "scale": scale,
        "generation": fields["generation"].kwargs(),
    }


def check_judges(
    workloads: Iterable[DeclaredWorkload],
    models: Iterable[DeclaredModel],
    configs: Iterable[DeclaredConfig],
) -> None:
    """Note the judges that are no models, and the baselines that are no configs."""
    model_names, config_names = [m.name for m in models], [c.name for c in configs]
    for one in workloads:
        judge = one.workload.judge if one.workload else {}
        entry = one.settings.inside("judge")
        for name in judge.get("models", ()):
            if name not in model_names:
                entry.inside("model").wrong(f"no model {name!r}; {hint(name, model_names)}")
        baseline = judge.get("pairwise")
        if baseline and baseline not in config_names:
            message = f"no config {baseline!r}; {hint(baseline, config_names)}"
            entry.inside("pairwise").wrong(message)


def _rubric(entry: Entry, judge: Entry, folder: Path) -> str:
    if entry.absent:
        judge.wrong("has no rubric; write rubric: FILE with the judge's instructions")
        return ""
    try:
        text = Path(folder, Path(entry.text()).expanduser()).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        entry.wrong(f"cannot be read: {error}")
        return ""
    if not text:
        entry.wrong("is empty; write the judge's instructions in it")
    return text
