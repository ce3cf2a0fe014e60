"""Builds a repository of earlier tools as years of use leave one, with a remote."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from repositories import git, make_bare

Name = tuple[str, str, str, int]  # level, model, config, rerun
MODELS = ("Deepseek_V2-Q8", "phi-local", "phi-remote")  # one of each generation, and its sibling
CONFIGS = ("base_line", "rag")
RERUNS = 2


def entry(name: Name) -> str:
    """The file that a result is called by."""
    return "{}_{}_{}_{}.json".format(*name)


@dataclass
class EarlierRepository:
    """What was built, and what a takeover has to find in it."""

    folder: Path  # a checkout
    remote: Path
    done: dict[Name, float] = field(default_factory=dict)  # the scores
    todo: list[Name] = field(default_factory=list)
    seconds: float = 0.0  # that the results took

    def means(self, more: dict[str, float]) -> dict[tuple[str, str, str], float]:
        """The mean of each model, config and level, from these files and `more` results."""
        scores: dict[tuple[str, str, str], list[float]] = {}
        for level, model, config, rerun in [*self.done, *self.todo]:
            name = level, model, config, rerun
            score = self.done[name] if name in self.done else more[entry(name)]
            scores.setdefault((model, config, level), []).append(score)
        return {key: fmean(values) for key, values in scores.items()}


def build(folder: Path, levels: int) -> EarlierRepository:
    """Twelve names a level, of which every fifth is to do; in `folder`/repo and remote.git."""
    made = EarlierRepository(folder / "repo", make_bare(folder / "remote.git"))
    data = made.folder / "data"
    for below in ("phase", "runs/claims", "runs/raw"):
        (data / below).mkdir(parents=True)
    lists: dict[str, list[str]] = {"phase1": [], "phase2": []}
    names = product([f"level_{n}-easy" for n in range(levels)], MODELS, CONFIGS, range(RERUNS))
    for number, name in enumerate(names):
        if number % 5 == 4:
            made.todo.append(name)
            lists["phase1" if name[1] == MODELS[0] else "phase2"].append(entry(name))
            continue
        made.done[name] = score = (number % 7) / 8
        made.seconds += 60 + number
        text = json.dumps(_result(name, number, score), indent=2)
        (data / "runs" / entry(name)).write_text(text + "\n")
        (data / "runs/raw" / entry(name).replace(".json", "_raw.txt")).write_text(f"log {number}\n")
    _add_disorder(data, made, lists)
    for phase, lines in lists.items():
        (data / "phase" / f"{phase}.txt").write_text("".join(f"{line}\n" for line in lines))
    git(made.folder, "init", "-q", "-b", "main")
    git(made.folder, "add", "-A")
    me = ("-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgSign=false")
    git(made.folder, *me, "commit", "-q", "-m", "years of use")
    git(made.folder, "remote", "add", "origin", str(made.remote))
    git(made.folder, "push", "-q", "origin", "main")
    return made


def _result(name: Name, number: int, score: float) -> dict[str, Any]:
    """A result: the long form of the first generation, or the short one of the second."""
    level, model, config, _ = name
    host = f"host-{number % 12}"
    if model == MODELS[0]:
        run = {"level": level, "model": {"name": model}, "configuration": config}
        times = {"load_time_s": 10.0, "total_time_s": 60.0 + number}
        return {"run": run, "hostname": host, "success_rate": score, "moves": number, **times}
    run = {"level": {"name": level}, "model_team": {"token": "phi"}, "configuration": config}
    return {"run": run, "hostname": host, "score": score, "time_s": 60.0 + number}


def _add_disorder(data: Path, made: EarlierRepository, lists: dict[str, list[str]]) -> None:
    """Claims, broken files, empty lists and stray lines, none of which is a result."""
    runs = data / "runs"
    (runs / "claims" / f"{entry(made.todo[0])}.claim").write_text("host-1\n")
    conflict = "<<<<<<< HEAD\nhost-1\n=======\nhost-2\n>>>>>>> claim\n"
    (runs / "claims" / f"{entry(made.todo[1])}.claim").write_text(conflict)
    (runs / "broken_phi-local_rag_0.json").write_text('{"run": ')
    (runs / "list_phi-local_rag_0.json").write_text("[]")
    renamed = _result(("level_0-easy", MODELS[0], "rag", 0), 0, 0.5)
    (runs / "level_0-easy_phi-local_old_0.json").write_text(json.dumps(renamed))
    error = {**_result(made.todo[2], 0, 0.0), "error": "CUDA out of memory"}
    (runs / entry(made.todo[2])).write_text(json.dumps(error))
    (data / "phase" / "phase0.txt").write_text("")
    (data / "phase" / "phase3.txt").write_text("\n")
    lists["phase1"] += [entry(next(iter(made.done))), "repeat the easy ones!"]
