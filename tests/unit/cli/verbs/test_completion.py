"""``benchfleet completion``: scripts that complete verbs, their options and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from benchfleet.cli.main import VERBS, main
from benchfleet.cli.verbs.completion import SHELLS

COMPLETE = """\
source "$1"
cd "$2"
for line in "st" "run --mach" "slurm subm" "run stu"; do
  COMP_WORDS=(benchfleet $line)
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _shtab_benchfleet benchfleet "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  echo "${COMPREPLY[@]}"
done
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_names_every_verb_and_its_shell_reads_it(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = tmp_path / f"script.{shell}"
    script.write_text(capsys.readouterr().out)
    assert all(verb in script.read_text() for verb in VERBS)
    if which(shell):
        subprocess.run([shell, "-n", str(script)], check=True)


@pytest.mark.skipif(which("bash") is None, reason="no bash here")
def test_bash_completes_verbs_options_and_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["completion", "bash"])
    script = tmp_path / "script.bash"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "study.yaml").touch()
    words = ["bash", "-c", COMPLETE, "bash", str(script), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    verbs, option, own_verb, file = done.stdout.splitlines()
    assert sorted(verbs.split()) == ["status", "stop"]
    assert (option, own_verb, file) == ("--machines", "submit", "study.yaml")


def test_help_imports_neither_verbs_nor_shtab() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "benchfleet", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "shtab" not in done.stderr
    assert "benchfleet.cli.verbs." not in done.stderr
