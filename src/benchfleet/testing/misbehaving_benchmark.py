"""A benchmark that misbehaves on purpose, for testing what runs it."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchfleet.benchmarks.base import Benchmark, Record, Score, Session
from benchfleet.errors import CellFailure

NOISE = bytes(range(256)) * 4 + b"\n"  # what ``print`` writes before its lines
ODD = "a\n'name' \"of\" ü\udce9 .txt"  # a file that ``files`` leaves, as the file system has it
_DEFAULTS: dict[str, Any] = {
    "samples": 3,
    "act": "",
    "at": 1,
    "once": "",
    "size": 0,
    "seconds": 0,
    "shared": "",
}


class Hostile(Benchmark):
    """Records `samples` samples, and before sample `at` does `act`.

    ``score`` fails when all are recorded. ``memory`` fails with a batch larger than `size`, and
    ``oversubscribe`` while another does so within `size` milliseconds, seen by the folder `shared`.
    ``wait`` goes on when the file `shared` is gone, and ``owe`` writes it as the slot ends.
    With `once` (a file's path) it does so only while that file does not exist, and makes it.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = {**_DEFAULTS, **params}

    def params(self) -> Mapping[str, Any]:
        return self._params

    def check_subset(self, subset: str) -> str | None:
        return None

    def run(self, session: Session) -> Score:
        params = self._params
        session.expect(params["samples"])
        recorded_ids = {(record.index, record.id) for record in session.recorded}
        for index in range(params["samples"]):
            if index == params["at"] and params["act"] != "score" and self._is_due():
                self._act(params["act"], session)
            if (index, f"sample-{index}") not in recorded_ids:
                time.sleep(params["seconds"])
                session.record(
                    Record(
                        index=index,
                        id=f"sample-{index}",
                        columns={"pid": os.getpid()},
                        predicted_answer="\udce9\x00\u2028"
                        if params["act"] == "unicode"
                        else "yes",
                    )
                )
        if params["act"] == "score" and self._is_due():
            raise RuntimeError("it cannot be scored, on purpose")
        overall = float("nan") if params["act"] == "nan" else 1.0
        return Score(overall=overall, per_sample=[1.0] * params["samples"])

    def _is_due(self) -> bool:
        once = self._params["once"]
        if not once:
            return True
        if Path(once).exists():
            return False
        Path(once).touch()
        return True

    def _act(self, act: str, session: Session) -> None:
        do: Callable[[Session], None] | None = getattr(self, f"_act_{act}", None)
        if do is not None:
            do(session)

    def _act_kill(self, session: Session) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _act_exit(self, session: Session) -> None:
        os._exit(7)

    def _act_stop(self, session: Session) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def _act_grip(self, session: Session) -> None:
        # for `size` milliseconds nothing else of Python runs, nor does this
        ctypes.PyDLL(None).usleep(1000 * self._params["size"])

    def _act_grind(self, session: Session) -> None:
        # nothing else of Python runs while this computes
        sum(range(self._params["size"]))

    def _act_raise(self, session: Session) -> None:
        raise RuntimeError("it went wrong on purpose")

    def _act_transient(self, session: Session) -> None:
        raise CellFailure(
            stage="benchmark", kind="error", message="it may work later", retryable=True
        )

    def _act_memory(self, session: Session) -> None:
        if session.batch_size > self._params["size"]:
            raise MemoryError

    def _act_oversubscribe(self, session: Session) -> None:
        # memory enough for one: a fake of what neighbours share
        folder = Path(self._params["shared"])
        (folder / str(os.getpid())).touch()
        try:
            time.sleep(self._params["size"] / 1000)
            if sum(_is_alive(int(file.name)) for file in folder.iterdir()) > 1:
                raise MemoryError
        finally:
            (folder / str(os.getpid())).unlink()

    def _act_leave(self, session: Session) -> None:
        sys.exit(3)

    def _act_print(self, session: Session) -> None:
        os.write(1, NOISE)
        print("a line on stdout")
        print("a line on stderr", file=sys.stderr)

    def _act_flood(self, session: Session) -> None:
        for _ in range(max(1, self._params["size"] // 2**20)):
            os.write(1, b"x" * 2**20)

    def _act_files(self, session: Session) -> None:
        (session.scratch / "nested").mkdir()
        (session.scratch / "nested" / "big.bin").write_bytes(b"x" * self._params["size"])
        (session.scratch / "empty.txt").touch()
        (session.scratch / ODD).touch()
        (session.scratch / "link").symlink_to("/etc/passwd")

    def _act_owe(self, session: Session) -> None:
        # at its end the process says so in the file `shared`
        file = Path(self._params["shared"])
        atexit.register(lambda: file.write_text("paid"))

    def _act_wait(self, session: Session) -> None:
        while Path(self._params["shared"]).exists():
            time.sleep(0.01)

    def _act_hang(self, session: Session) -> None:
        time.sleep(3600)

    def _act_litter(self, session: Session) -> None:
        # it goes on, and leaves a file and a process in a session of its own
        (session.scratch / "big.bin").write_bytes(b"x" * self._params["size"])
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )

    def _act_child(self, session: Session) -> None:
        marker = Path(self._params["once"] or os.devnull)
        child = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        if marker != Path(os.devnull):
            marker.write_text(str(child.pid))
        os.kill(os.getpid(), signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
