"""Run a program that a model wrote: in bubblewrap, without network, and with limits.

The program sees the interpreter and the system's libraries, an empty ``/tmp``, and no variable of
the environment. It has no network, and its processes end with it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_TIMEOUT_S = 10.0
_MEMORY_BYTES = 2 * 2**30  # of addresses
_FILES_BYTES = 64 * 2**20  # of all files in /tmp, and of one file
_MAX_PROCESSES, _MAX_OPEN_FILES = 64, 64
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/alternatives")
_INSTALL = "install bubblewrap, such as by apt-get install bubblewrap"
# The mark is on a copy of stdout, so that only a program that ran to its end leaves it.
_START = """
import os, resource as r, sys
mark, code = sys.stdin.read().split("\\n", 1)
out = os.dup(1)
null = os.open(os.devnull, os.O_RDWR)
for fd in (0, 1, 2): os.dup2(null, fd)
limits = {r.RLIMIT_AS: %d, r.RLIMIT_FSIZE: %d, r.RLIMIT_NPROC: %d, r.RLIMIT_NOFILE: %d,
          r.RLIMIT_CORE: 0, r.RLIMIT_CPU: %d}
for limit, value in limits.items(): r.setrlimit(limit, (value, value))
try:
    exec(compile(code, "<program>", "exec"), {"__name__": "__main__"})
except BaseException:
    os._exit(1)
os.write(out, mark.encode())
os._exit(0)
"""


@cache
def sandbox_problem() -> str:
    """Why programs cannot be run here, and what to do; ``""`` where they can."""
    if not shutil.which("bwrap"):
        return f"runs code that the model writes, in a sandbox; {_INSTALL}"
    done = subprocess.run(
        [*_command(), sys.executable, "-I", "-c", ""],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return ""
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return (
        "runs code that the model writes, in a sandbox, and bubblewrap does not start here "
        f"({reason}); let it use user namespaces, or run these cells on another host"
    )


def runs_to_its_end(program: str, *, timeout_s: float = _TIMEOUT_S) -> bool:
    """Whether the program ends without an exception, within the limits."""
    mark = secrets.token_hex(16)
    limits = (_MEMORY_BYTES, _FILES_BYTES, _MAX_PROCESSES, _MAX_OPEN_FILES, int(timeout_s) + 1)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as source:
        source.write(f"{mark}\n{program}".encode("utf-8", "replace"))
        source.seek(0)
        words = [*_command(), sys.executable, "-I", "-c", _START % limits]
        process = subprocess.Popen(
            words, stdin=source, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()  # all others of its sandbox end with it
            process.wait()
        output.seek(0)
        return process.returncode == 0 and output.read(len(mark) + 1) == mark.encode()


def _command() -> list[str]:
    """bubblewrap up to the program's own words."""
    interpreter = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)}
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    words += ["--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    for folder in _SYSTEM:
        if os.path.islink(folder):
            words += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            words += ["--ro-bind", folder, folder]
    words += ["--size", str(_FILES_BYTES), "--tmpfs", "/tmp"]  # noqa: S108 - within the sandbox
    for folder in sorted(interpreter - {"/usr"}):
        words += ["--ro-bind", folder, folder]
    return [*words, "--remount-ro", "/dev", "--chdir", "/tmp", "--"]  # noqa: S108 - likewise
