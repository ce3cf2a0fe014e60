"""The first program of a slot: binds it to its devices, starts it, and cleans up after it.

Run by path with a bare interpreter (``python -S -E launch.py``), so that nothing is imported
before the environment is set. Its first frame, ``open``, says devices, threads, log, and which
interpreter becomes the slot. The launcher stays as its supervisor. When the slot ends or breaks a
limit (`watchdog.py`), or the runner is gone, it ends all that the slot started, and then exits as
the slot did. Its own reports go to standard error, as markers (`engines/log_markers.py`); so does
what is printed where there is no log, as on another machine. Only the standard library and what
lies beside it.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import struct
import sys
import time
import zlib

if __package__:
    from benchfleet.slot.watchdog import Watchdog
else:  # run by path, so that its own folder is where modules are looked for first
    from watchdog import Watchdog  # type: ignore[no-redef]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
MAX_FIRST_FRAME_BYTES = 2**20
MAX_CAUSE_CHARS = 300  # so that it fits into a marker
KILL_GRACE_S = 10.0
_SLOT = """\
import sys
sys.path[:] = [part for part in sys.path if part]  # no module of the working folder's
if folder := sys.argv[3]:  # this package alone: what lies beside it is another interpreter's
    from importlib.util import module_from_spec, spec_from_file_location
    spec = spec_from_file_location(
        "benchfleet", folder + "/__init__.py", submodule_search_locations=[folder]
    )
    sys.modules["benchfleet"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["benchfleet"])
from benchfleet.slot.main import main
main()
"""
OOM_SCORE_ADJ = "500"  # of 1000: the kernel kills a slot before the runner and others
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
)
# Idle OpenMP threads of a CPU slot sleep: while they spin, those of other runs on the machine wait.
_YIELDING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"}
_MISLEADING = ("LOCAL_RANK", "RANK", "WORLD_SIZE")  # a launcher's leftovers
_ORPHANED = ("host_lost", "the slot has no contact with its runner")  # no verdict on the cell
_SECRET = ("PGPASSWORD",)  # the ledger's: no slot speaks to it, and much prints its environment


def main() -> None:
    """Read the first frame, set the environment, start the slot and outlive it."""
    guard = _fork_guard(int(sys.argv[2])) if sys.argv[1:2] == ["--guard"] else None
    opening = _first_frame(0)
    reads, writes = os.dup(0), os.dup(1)  # held to the end: the channel closes with this process
    report = os.dup(2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = 2
    if opening.get("log"):
        log = os.open(opening["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    signals = _signal_pipe()
    limits, sets_limits = os.pipe()  # from the slot to its watchdog
    parent, supervisor = opening.get("parent", guard), os.getpid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if parent is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)
        if os.getppid() != parent:
            raise SystemExit(0)  # it died before the request stood
    slot = os.fork()
    if slot == 0:
        _become_slot(opening, (reads, writes, sets_limits), supervisor)
    os.close(sets_limits)
    watchdog = Watchdog(slot, opening["slot"], limits, heartbeat=opening["heartbeat"])
    markers = MarkerWriter(report, opening.get("marker_key", ""))
    ended, orphaned = _wait_for_end(slot, reads, signals, parent, watchdog, markers)
    status = _end_all(slot, ended)
    cause = watchdog.exit_cause(status)
    if cause and opening.get("log"):
        _log(f"slot ends ({cause[0]}): {cause[1]}")
    if opening.get("scratch"):
        import shutil

        shutil.rmtree(os.path.expanduser(opening["scratch"]), ignore_errors=True)
    why = " ".join(cause or orphaned)[:MAX_CAUSE_CHARS].replace("\0", "")
    markers.write(f"ended {status} {why}")
    _exit_like(status)


class MarkerWriter:
    """Reports to the engine; nothing where the engine gave no `key` for it."""

    def __init__(self, handle: int, key: str) -> None:
        self._handle, self._key = handle, key

    def write(self, text: str) -> None:
        if self._key:
            with contextlib.suppress(OSError):
                os.write(self._handle, f"\0{self._key} {text}\0".encode("ascii", "replace"))

    def write_if_room(self, text: str) -> None:
        """The same, unless the pipe is full: a supervisor waits for no reader."""
        if text and select.select([], [self._handle], [], 0)[1]:
            self.write(text)


def slot_environment(inherited: dict, opening: dict) -> dict:  # type: ignore[type-arg]
    """The environment of a slot bound to `order`'s devices and threads."""
    environment = dict(inherited)
    for name in _THREADS:
        environment[name] = str(opening["threads"])
    if not opening["gpus"]:
        for name, value in _YIELDING.items():
            environment.setdefault(name, value)
    environment["CUDA_VISIBLE_DEVICES"] = opening["gpus"]
    environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # NVML's order, by which ids are given
    environment["TOKENIZERS_PARALLELISM"] = "false"
    environment["BENCHFLEET_SLOT"] = opening["slot"]
    environment["BENCHFLEET_OWNER"] = opening.get("owner", "")
    environment["BENCHFLEET_TELLS_ROOM"] = "1" if opening.get("tells_room") else ""
    for name in (*_MISLEADING, *_SECRET):
        environment.pop(name, None)
    return environment


def _fork_guard(parent: int) -> int:
    """Leave a guard between `parent` and the supervisor, which returns from here with its pid.

    Ray kills the children of what it ends, and a killed supervisor could end nothing itself.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(0)  # it died before the request stood
    guard = os.getpid()
    if supervisor := os.fork():
        os.closerange(0, 3)  # the channel is to close with the supervisor
        _exit_like(os.waitpid(supervisor, 0)[1])
    os.setsid()
    return guard


def _become_slot(opening: dict, channel: "tuple[int, int, int]", supervisor: int) -> None:  # type: ignore[type-arg]
    """Exec the slot, in a session of its own, to be killed with its supervisor."""
    signal.set_wakeup_fd(-1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(0)
    os.setsid()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OOM_SCORE_ADJ)
    for handle in channel:
        os.set_inheritable(handle, True)
    python = opening.get("python") or sys.executable
    arguments = [",".join(map(str, channel)), json.dumps(opening), opening.get("package", "")]
    environment = slot_environment(dict(os.environ), opening)
    try:
        os.execve(python, [python, "-c", _SLOT, *arguments], environment)  # noqa: S606
    except OSError as error:
        _log(f"the interpreter {python} cannot be started: {error.strerror}")
        os._exit(1)


def _wait_for_end(
    slot: int,
    reads: int,
    signals: int,
    parent: "int | None",
    watchdog: Watchdog,
    markers: MarkerWriter,
) -> "tuple[int | None, tuple[str, ...]]":
    """The wait status of the slot; None where it still runs and is to be ended. Where that is
    because nobody is there to hear it, the cause."""
    watch = select.poll()
    # Its hang-up alone: what the runner writes is the slot's to read.
    watch.register(reads, getattr(select, "POLLRDHUP", 0))
    watch.register(signals, select.POLLIN)
    while True:
        ready = dict(watch.poll(watchdog.every * 1000))
        received = os.read(signals, 4096) if signals in ready else b""
        orphaned = reads in ready or (parent is not None and os.getppid() != parent)
        pid = -1
        while pid != 0:  # what lost its parent is buried here too
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == slot:
                return status, _ORPHANED if orphaned else ()
        if orphaned:
            _log("slot ends: it has no contact with its runner")
            return None, _ORPHANED
        if signal.SIGTERM in received or watchdog.check():
            return None, ()
        markers.write_if_room(watchdog.heartbeat())


def _end_all(slot: int, status: "int | None") -> int:
    """Kill the slot and all that it started; the slot's wait status.

    On Linux a process that lost its parent becomes a child of this one, whatever session it went
    into, so that nothing is left when this process has no child any more.
    """
    until, pause = time.monotonic() + KILL_GRACE_S, 0.001
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(slot, signal.SIGKILL)
    while time.monotonic() < until:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == slot:
            status = ended
        if pid == 0:
            for child in _children():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            time.sleep(pause)
            pause = min(0.1, 2 * pause)
    else:
        _log(f"killed, and still there: {_children()}")
    return signal.SIGKILL if status is None else status


def _children() -> "list[int]":
    """The children of this process, as Linux tells them; none elsewhere."""
    pids = []
    for entry in os.listdir("/proc") if sys.platform == "linux" else ():
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", "rb") as file:
                parent = file.read().rpartition(b")")[2].split()[1]  # the name may hold anything
                if int(parent) == os.getpid():
                    pids.append(int(entry))
    return pids


def _log(text: str) -> None:
    """Add a line to the slot's log, where the disk takes it."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode("utf-8", "backslashreplace"))


def _exit_like(status: int) -> None:
    """End this process as the slot ended, which is all that its runner sees."""
    if os.WIFSIGNALED(status):
        import resource

        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the slot has left its own
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _signal_pipe() -> int:
    """The end of a pipe from which signals are read, one byte each."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: None)
    return reads


def _prctl(request: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(request, value)


def _first_frame(handle: int) -> dict:  # type: ignore[type-arg]
    length, crc = struct.unpack(">II", _exactly(handle, 8))
    if length > MAX_FIRST_FRAME_BYTES or zlib.crc32(text := _exactly(handle, length)) != crc:
        raise SystemExit("a slot's first frame must be 'open'")
    opening = json.loads(text)
    if opening.get("type") != "open" or opening.get("attached"):
        raise SystemExit("a slot's first frame must be 'open'")
    return opening  # type: ignore[no-any-return]


def _exactly(handle: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = os.read(handle, count - len(data))
        if not piece:
            raise SystemExit(0)  # the engine went away before it said anything
        data += piece
    return data


if __name__ == "__main__":
    main()
