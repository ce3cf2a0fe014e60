"""Commands that stand for sbatch, squeue and scancel, with a queue in a file: for tests."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = """\
#!{python} -S
import json, pathlib, re, sys
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
folder = pathlib.Path("{folder}")
fails = json.loads((folder / "fails.json").read_text())  # before a test can see the call
with open(folder / "calls", "a") as calls:
    calls.write(json.dumps([name, *words]) + "\\n")
options = dict(word.lstrip("-").partition("=")[::2] for word in words)
jobs = json.loads((folder / "jobs.json").read_text())
if name in fails and not fails[name].startswith("late "):
    sys.exit(f"{{name}}: error: {{fails[name]}}")
if name == "sbatch":
    script = sys.stdin.read()
    (folder / "script").write_text(script)
    named = re.search("^#SBATCH --job-name=(.*)$", script, re.M)[1]
    number = 1 + len({{job["id"].partition("_")[0] for job in jobs}})
    for task in range(int(options["array"].partition("-")[2]) + 1):
        state = {{"id": f"{{number}}_{{task}}", "name": named, "state": "PENDING"}}
        jobs.append(state)
    print(number)
elif name == "squeue":
    for job in jobs:
        if job["name"] == options["name"] and job["state"] != "GONE":
            left, node = ("59:30", "n1") if job["state"] == "RUNNING" else ("1:00:00", "")
            print(job["id"], job["state"], left, node, "Priority" if not node else "None", sep="|")
elif name == "scancel":
    for job in jobs:
        if job["name"] == options["name"] and options.get("state", job["state"]) == job["state"]:
            job["state"] = "GONE"
if name != "squeue":
    (folder / "jobs.new").write_text(json.dumps(jobs))
    (folder / "jobs.new").replace(folder / "jobs.json")  # a test reads it meanwhile
if name in fails:
    sys.exit(f"{{name}}: error: {{fails[name]}}")
"""


@dataclass(frozen=True)
class FakeSlurm:
    """The commands, in a folder that belongs on the PATH."""

    folder: Path

    def install(self) -> None:
        self.folder.mkdir()
        for name in ("sbatch", "squeue", "scancel"):
            program = self.folder / name
            program.write_text(_PROGRAM.format(python=sys.executable, folder=self.folder))
            program.chmod(0o755)
        (self.folder / "jobs.json").write_text("[]")
        (self.folder / "calls").touch()
        self.fails()

    def fails(self, **messages: str) -> None:
        """These commands fail from now on, and no others; "late …": after they did their work."""
        new = self.folder / "fails.new"
        new.write_text(json.dumps(messages))
        new.replace(self.folder / "fails.json")  # a command reads it meanwhile

    def jobs(self) -> list[dict[str, str]]:
        """Those that wait or run."""
        jobs: list[dict[str, str]] = json.loads((self.folder / "jobs.json").read_text())
        return [job for job in jobs if job["state"] != "GONE"]

    def become(self, state: str) -> None:
        """Each job that is not gone takes this state; GONE: it ended."""
        jobs: list[dict[str, Any]] = json.loads((self.folder / "jobs.json").read_text())
        for job in jobs:
            if job["state"] != "GONE":
                job["state"] = state
        (self.folder / "jobs.json").write_text(json.dumps(jobs))

    @property
    def script(self) -> str:
        """The script that was submitted last."""
        return (self.folder / "script").read_text()

    def calls(self, name: str) -> list[list[str]]:
        """The words of each call of a command."""
        lines = map(json.loads, (self.folder / "calls").read_text().splitlines())
        return [words for command, *words in lines if command == name]
