"""Scores that several processes read are those that one reads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from benchfleet.results.layout import Layout
from benchfleet.results.publish import publish

from .conftest import sealed_folder

# Reads 40 results by processes of their own, and prints what they say and how many there were.
READ = """\
import json, os, sys
from benchfleet.results import scores_of_many as module
module.MANY, module._CHUNK = 10, 5
os.sched_getaffinity = lambda process: {0, 1}
readers = set()
class Pool(module.ProcessPoolExecutor):
    def shutdown(self, *args, **kwargs):
        readers.update(self._processes or ())
        super().shutdown(*args, **kwargs)
module.ProcessPoolExecutor = Pool
scores = module.scores_of_many([(sys.argv[1], sys.argv[2]), (sys.argv[1], "other")] * 20)
print(json.dumps([[dict(one.scores) for one in scores], len(readers)]))
"""
WAIT = """\
import os, sys, time
from benchfleet.results import scores_of_many as module
module.MANY, module._CHUNK = 1, 1
os.sched_getaffinity = lambda process: {0, 1}
def slow(result):
    print(f"process {os.getpid()}", flush=True)
    time.sleep(0.2)
module.scores_of = slow
module.scores_of_many([("", "")] * 100)
"""


def test_several_processes_read_what_one_does(layout: Layout) -> None:
    folder, digest = sealed_folder(layout)
    public = layout.published("m/c/b")
    publish(folder, public)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(public), digest],
        capture_output=True,
        text=True,
        check=True,
    )
    scores, readers = json.loads(done.stdout)
    assert scores == [{"s0": 1.0, "s1": 0.0}, {}] * 20
    assert readers == 2


def test_an_interrupt_leaves_no_reader_and_one_trace() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAIT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout
        reader = int(process.stdout.readline().split()[1])
        os.killpg(process.pid, signal.SIGINT)  # as a terminal's Ctrl-C does
        output, errors = process.communicate()  # ends once no reader has them open
        assert process.returncode != 0
    assert errors.count("Traceback") == 1
    assert output.count("process") < 50  # what nobody waits for is not read
    assert not Path(f"/proc/{reader}").exists()
