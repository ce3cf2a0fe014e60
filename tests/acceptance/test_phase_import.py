"""A repository of the earlier tools, as the field left it, taken over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .conftest import User

LEVELS = [f"level_{number}-easy" for number in range(10)]
MODELS = ["Deepseek_V2-Q8", "phi"]
CONFIGS = ["base_line", "rag"]


def names(reruns: int = 3) -> list[tuple[str, str, str, int]]:
    return [(le, m, c, r) for le in LEVELS for m in MODELS for c in CONFIGS for r in range(reruns)]


def field_like(folder: Path) -> Path:
    """120 entries: results, errors, claims, conflicts and what is in no list."""
    runs = folder / "repo" / "data" / "runs"
    for place in (runs / "claims", runs / "raw", runs.parent / "phase"):
        place.mkdir(parents=True)
    listed = []
    for number, (level, model, config, rerun) in enumerate(names()):
        entry = f"{level}_{model}_{config}_{rerun}.json"
        if number % 10 != 9:
            listed.append(entry)
        if number % 4 == 3 and number % 10 != 9:
            continue  # only to do
        run = {"level": level, "model": {"name": model}, "configuration": config, "reruns": 3}
        result: dict[str, Any] = {"run": run, "hostname": f"host-{number % 3}"}
        if number % 12 == 6:
            result["error"] = "CUDA out of memory"
        else:
            result |= {"success_rate": number / 120, "moves": number, "total_time_s": 1.5}
        (runs / entry).write_text(json.dumps(result))
        (runs / "raw" / f"{entry.removesuffix('.json')}_raw.txt").write_text(f"log {number}\n")
    (runs.parent / "phase" / "phase1.txt").write_text("\n".join(listed) + "\n")
    waiting = [name for name in listed if not (runs / name).exists()]
    (runs / "claims" / f"{waiting[0]}.claim").write_text("host-1\n")
    conflict = "<<<<<<< HEAD\nhost-1\n=======\nhost-2\n>>>>>>> claim\n"
    (runs / "claims" / f"{waiting[1]}.claim").write_text(conflict)
    (runs / "broken_phi_rag_0.json").write_text('{"run": ')
    (runs / "huge_phi_rag_0.json").write_text('{"success_rate": 1' + "0" * 400 + "}")
    (runs / "moves_phi_rag_0.json").write_text('{"success_rate": 1, "moves": 1' + "0" * 400 + "}")
    (runs / "link.json").symlink_to("/etc/passwd")
    odd = "caf\xe9_phi_rag_0.json\n".encode("latin-1") + f"{listed[0]}\n".encode()
    (runs.parent / "phase" / "phase2.txt").write_bytes(odd)
    return folder / "repo"


def test_a_field_like_repository_is_taken_over_once_and_nothing_is_invented(user: User) -> None:
    repo = field_like(user.folder)
    before = {p: p.read_bytes() for p in repo.rglob("*") if p.is_file() and not p.is_symlink()}
    seen = user.json("phase", "import", "repo", "--dry-run")
    assert not (user.folder / "phase_settings.py").exists()
    assert seen["phases"] == {"phase1": 108, "phase2": 1}
    errors = seen["errors that counted as done"]
    assert len(errors) == 11
    assert any(one.startswith("huge_phi_rag_0.json: it has none of") for one in errors)
    assert (
        "phase/phase2.txt: 1 line is no UTF-8: caf\ufffd_phi_rag_0.json"
        in (seen["could not be read"])
    )
    assert any(
        one.startswith("runs/broken_phi_rag_0.json: cannot be read")
        for one in seen["could not be read"]
    )
    conflict = next(one for one in seen["could not be read"] if "conflict markers" in one)
    assert conflict.endswith("it names host-1, host-2")
    assert len(seen["claimed and never finished"]) == 2
    assert seen["names without a unique reading"] == []
    user.run("phase", "import", "repo")
    settings = user.folder / "phase_settings.py"
    text = settings.read_text()
    assert "# 'phase2': phases above have all of its 1 cell" in text
    assert "not how one of them is run" in user.run("plan", str(settings), code=2).stderr
    user.write("print('{\"success_rate\": 1}')\n", "play.py")
    settings.write_text(text + 'RUN = ["python", "play.py"]\n')
    words = ("phase", "import", "repo", "--settings", "phase_settings.py")
    done = seen["results"]
    would = user.json(*words, "--dry-run")
    assert would["would be published"] + len(would["of no cell of the campaign"]) == done
    assert not (user.folder / "benchmark_results").exists()
    assert user.json(*words)["published"] == would["would be published"]
    again = user.json(*words)
    assert (again["published"], again["known already"]) == (0, would["would be published"])
    status = user.json("status", "phase_settings.py")
    assert status["success"] == would["would be published"]
    folder = user.folder / "benchmark_results/phase_settings/phi/rag/level_0-easy"
    cell = json.loads((folder / "r0" / "cell.json").read_text())
    assert cell["provenance"]["entry"] == "level_0-easy_phi_rag_0.json"
    assert cell["metrics"]["overall_score"] == 9 / 120
    assert (folder / "r0" / "log.txt").read_text() == "log 9\n"
    user.run("verify", "phase_settings.py", code=None)
    after = {p: p.read_bytes() for p in repo.rglob("*") if p.is_file() and not p.is_symlink()}
    assert after == before


def test_imported_results_are_known_on_other_hosts_with_their_durations(user: User) -> None:
    field_like(user.folder)
    user.run("phase", "import", "repo")
    settings = user.folder / "phase_settings.py"
    user.write("print('{\"success_rate\": 1}')\n", "play.py")
    settings.write_text(settings.read_text() + 'RUN = ["python", "play.py"]\n')
    shared = ("--ledger", f"sqlite:///{user.folder}/shared.db")
    user.run("phase", "import", "repo", "--settings", "phase_settings.py", *shared)
    status = user.json("status", "phase_settings.py", *shared, "--results", "other_host")
    assert status["gone"] == []
    assert len(status["elsewhere"]) == status["success"] > 0
    retried = user.json("retry", "phase_settings.py", "--gone", *shared, "--results", "other_host")
    assert retried["pending_again"] == []
    folder = user.folder / "benchmark_results/phase_settings/phi/rag/level_0-easy"
    cell = json.loads((folder / "r0" / "cell.json").read_text())
    assert cell["seconds"] == {"benchmark": 1.5}


def test_what_is_no_such_repository_is_reported(user: User) -> None:
    assert "has neither phase/ nor runs/" in user.run("phase", "import", ".", code=2).stderr
