"""GPUs that are busy, broken or shared, and limits of memory, as a user meets them.

The GPUs are those of a recording; the mock model computes on none of them.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable

from .conftest import MOCK, User, end_of, wait_for_line, well

ADA = {"pid": 7, "name": "python3", "user": "ada"}
MANY = MOCK + "defaults: {repeats: 3}\n"
HELD = MANY.replace("mock_benchmark", "{_hostile: {samples: 2, act: wait, shared: GATE}}")


def devices(user: User) -> set[str]:
    """Those that results were made on."""
    sealed = [json.loads(content) for content in user.published().values()]
    assert {one["provenance"]["driver"] for one in sealed} == {"550.54.15"}
    return {one["provenance"]["device"] for one in sealed}


def test_a_gpu_that_was_named_is_shared_if_that_is_requested_too(
    user: User, gpus: Callable[..., None]
) -> None:
    gpus(well(0), well(1, processes=[ADA]))
    user.write(MANY)
    output = user.run("run", "study.yaml", "--share-gpus", code=2).stderr
    assert "--share-gpus" in output
    assert "--gpus 0,1" in output
    user.run("run", "study.yaml", "--gpus", "1", "--share-gpus")
    assert devices(user) == {"gpu:1"}


def test_a_gpu_that_is_broken_is_left_out_and_its_cells_go_elsewhere(
    user: User, gpus: Callable[..., None]
) -> None:
    gpus(well(0), {"index": 1, "lost": "GPU is lost"})
    gate = user.write("", "gate")  # while it is there, no cell ends
    user.write(HELD.replace("GATE", str(gate)))
    process = user.start("run", "study.yaml")
    lines = [wait_for_line(process, "gpu:1 is left out")]
    gate.unlink()
    lines.append(end_of(process))
    output = " ".join("".join(lines).split())
    assert "gpu:1 is left out: slots do not start" in output
    assert "does not answer (NVML: GPU is lost)" in output
    assert devices(user) == {"gpu:0"}


def test_a_run_waits_for_gpus_until_somebody_ends_it(user: User, gpus: Callable[..., None]) -> None:
    gpus(well(0, processes=[ADA]))
    user.write(MANY)
    process = user.start("run", "study.yaml")
    wait_for_line(process, "left alone")
    process.send_signal(signal.SIGINT)
    end_of(process, 130)
    assert user.json("status", "study.yaml")["pending"] == 6


def test_a_cell_over_its_limit_of_ram_fails_by_name_and_the_others_go_on(user: User) -> None:
    (user.folder / "hog.py").write_text(
        "import json, sys, time\n"
        "held = b'x' * int(sys.argv[1])\n"
        "time.sleep(60 if len(held) > 10**8 else 0)\n"
        "print(json.dumps({'score': 1.0}))\n"
    )
    hog = f"{{name: %s, argv: [{sys.executable}, hog.py, '%d'], files: [hog.py]}}"
    benchmarks = ", ".join(
        f"{{command: {hog % (name, size)}}}"
        for name, size in (("small", 10**6), ("large", 6 * 10**8))
    )
    user.write(
        MOCK.replace("[mock_benchmark]", f"[{benchmarks}]")
        + "defaults: {limits: {ram: 300MB, tries: 1}}\n"
    )
    done = user.run("run", "study.yaml", "--only", "models=m1", code=1)
    output = " ".join(done.stdout.split())
    assert "oom" in output
    assert "over its limit of 300 MB; most of it python" in output
    assert list(user.published()) == ["m1/dense/small"]
