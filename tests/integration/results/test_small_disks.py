"""Disks that take a part of what an attempt writes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

SMALL_DISK = """
import resource, signal, sys
from pathlib import Path
from benchfleet.results.samples import read_samples
from benchfleet.results.write import AttemptFolder, Verdict
from benchfleet.testing.sample_cells import sample_cell

def small(most):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

def line(index):
    answer = b"x" * 90
    return b'{"index": %d, "id": "s", "columns": {}, "predicted_answer": "%s"}\\n' % (index, answer)

score = {"overall": 1.0, "per_sample": [1.0] * 20, "tasks": {}, "summary": {}}
folder = AttemptFolder(Path(sys.argv[1]))
try:
    ACT
except OSError as error:
    print("refused,", len(read_samples(folder.folder / "samples.jsonl")), "samples kept")
"""


TORN = b'{"index": 1, "id": "s1", "col\n'


def on_a_small_disk(folder: Path, act: str) -> str:
    """What an attempt says in a process whose files may not grow beyond a size."""
    script = SMALL_DISK.replace("    ACT\n", textwrap.indent(textwrap.dedent(act), "    "))
    done = subprocess.run(
        env={k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")},
        args=[sys.executable, "-c", script, str(folder)],
        capture_output=True,
    )
    assert not done.stderr, done.stderr.decode()
    return done.stdout.decode().strip()


def test_a_sample_of_which_the_disk_takes_a_part_is_no_sample(tmp_path: Path) -> None:
    output = on_a_small_disk(
        tmp_path / "attempt",
        """
        folder.record(line(0))
        small(200)
        folder.record(line(1))
        """,
    )
    assert output == "refused, 1 samples kept"


def test_a_disk_that_gets_full_while_sealing_costs_no_recorded_sample(tmp_path: Path) -> None:
    output = on_a_small_disk(
        tmp_path / "attempt",
        """
        folder.record(b"".join(map(line, range(20))))
        small((folder.folder / "samples.jsonl").stat().st_size)
        (folder.folder / "raw_results.csv").touch()
        folder.seal(sample_cell(), "a/b/c", Verdict(score=score, seconds={}, provenance={}))
        """,
    )
    assert output == "refused, 20 samples kept"
    assert sorted(f.name for f in (tmp_path / "attempt").iterdir() if f.name.startswith(".")) == []
