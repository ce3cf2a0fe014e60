"""The unit that `benchfleet service` writes, as systemd reads it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchfleet.cli.shared.unit_variables import passed_variables, secret_variables
from benchfleet.cli.verbs.service import unit
from benchfleet.errors import BenchfleetError

ROOT = Path(__file__).parents[4]
HOSTILE = ["my study.yaml", "100%i", "$HOME/${PATH}", 'a"b', "back\\slash", "it's", ";", "é", "#"]


def words(value: str, variables: dict[str, str]) -> list[str]:
    """The words of an ExecStart line: quotes and escapes, then %, then variables (but in the name
    of the program), as systemd.service(5) has them."""
    found = [re.sub(r"\\(.)", r"\1", word) for word in re.findall(r'"((?:[^"\\]|\\.)*)"', value)]
    assert "%" not in "".join(word.replace("%%", "") for word in found)
    program, *rest = [word.replace("%%", "%") for word in found]

    def variable(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables[match[1] or match[2]]

    return [program, *(re.sub(r"\$\$|\$\{(\w+)\}|\$(\w+)", variable, word) for word in rest)]


def line(text: str, key: str) -> str:
    (found,) = re.findall(f"^{key}=(.*)$", text, re.MULTILINE)
    return str(found)


def test_every_word_arrives_as_it_was_written(tmp_path: Path) -> None:
    says = [sys.executable, "-c", "import sys; print(*sys.argv[1:], sep='\\n')", *HOSTILE]
    text = unit("study", says, folder=tmp_path, environ={})
    started = subprocess.run(
        words(line(text, "ExecStart"), {}), capture_output=True, text=True, check=True
    )
    assert started.stdout.splitlines() == HOSTILE


def test_a_program_with_a_dollar_in_its_path_is_started_too(tmp_path: Path) -> None:
    text = unit("study", ["/opt/$x/benchfleet", "run"], folder=tmp_path, environ={})
    program = ["/usr/bin/env", "/opt/$x/benchfleet", "run"]
    assert words(line(text, "ExecStart"), {}) == program


def test_the_folder_and_what_the_shell_had_are_kept_and_no_secret() -> None:
    environ = {"PATH": "/a b:/100%", "HF_HOME": "/h", "HF_TOKEN": "hf_secret", "OTHER": "x"}
    text = unit("st%udy", ["/b", "run"], folder=Path("/a b/100%"), environ=environ)
    assert line(text, "WorkingDirectory") == "/a b/100%%"
    assert 'Environment="PATH=/a b:/100%%"\nEnvironment="HF_HOME=/h"\n' in text
    assert "hf_secret" not in text
    assert "OTHER" not in text
    assert line(text, "Description") == "benchfleet: st%%udy"


def test_the_settings_that_the_docs_name_are_kept() -> None:
    environ = {
        "PGPASSFILE": "/srv/pgpass",
        "PGSERVICEFILE": "/srv/services",
        "BENCHFLEET_RESULT_CACHE": "file:///mnt/team/cache",
        "BENCHFLEET_TRUST": "study,postgresql://db:5432/a,postgresql://me@db/bench",
        "CUDA_VISIBLE_DEVICES": "1",
        "RAY_ADDRESS": "head.lab:6379",
        "https_proxy": "http://proxy.lab:3128",
    }
    text = unit("study", ["/b", "run"], folder=Path("/"), environ=environ)
    assert dict(re.findall(r'^Environment="(\w+)=(.*)"$', text, re.MULTILINE)) == environ


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HF_TOKEN", "hush-hush"),
        ("PGPASSWORD", "hush-hush"),
        ("AWS_SECRET_ACCESS_KEY", "hush-hush"),
        ("VAST_API_KEY", "hush-hush"),
        ("BENCHFLEET_TRUST", "study,postgresql://me:hush-hush@db/bench"),
        ("BENCHFLEET_TRUST", "study,postgresql://db/bench?password=hush-hush"),
        ("https_proxy", "http://me:hush-hush@proxy:3128"),
        ("https_proxy", "me:hush-hush@proxy:3128"),
    ],
)
def test_no_secret_is_kept_and_each_is_named(variable: str, value: str) -> None:
    environ = {"PATH": "/b", variable: value}
    assert "hush-hush" not in unit("study", ["/b", "run"], folder=Path("/"), environ=environ)
    assert secret_variables(environ) == [variable]


def test_each_variable_of_the_docs_is_kept_or_a_secret() -> None:
    families = "BENCHFLEET|PG|AWS|HF|TRANSFORMERS|XDG_CACHE|RAY|OPENAI|OLLAMA|RSYNC|NLTK"
    names = {
        name
        for page in (ROOT / "docs").rglob("*.md")
        for name in re.findall(rf"\b(?:{families})_?[A-Z][A-Z_]*[A-Z]\b", page.read_text())
    }
    assert len(names) > 15
    environ = dict.fromkeys(names, "x")
    kept = {*passed_variables(environ), *secret_variables(environ)}
    assert names - kept == set()


def test_it_is_started_again_for_as_long_as_its_ledger_is_away() -> None:
    text = unit("study", ["/b", "run"], folder=Path("/"), environ={})
    assert line(text, "Restart") == "on-failure"
    assert line(text, "RestartSec") == "30"
    assert line(text, "StartLimitIntervalSec") == "0"  # systemd counts no starts
    assert "StartLimitBurst" not in text
    assert "3" not in line(text, "RestartPreventExitStatus").split()


def test_what_a_line_cannot_hold_is_refused() -> None:
    with pytest.raises(BenchfleetError, match="control characters"):
        unit("study", ["/b", "run", "a\nExecStartPre=rm"], folder=Path("/"), environ={})


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "my 100% $study"
    folder.mkdir()
    text = unit("study", [sys.executable, *HOSTILE], folder=folder, environ=dict(os.environ))
    file = tmp_path / "benchfleet-study.service"
    file.write_text(text)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--user", file],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
