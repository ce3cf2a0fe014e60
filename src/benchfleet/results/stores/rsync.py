"""A folder of another host, reached by rsync over the OpenSSH client, as a place for results."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from benchfleet.domain.names import path_part
from benchfleet.errors import ResultsError, StoreUnreachable
from benchfleet.results.layout import CELL, check_path
from benchfleet.results.stores.base import INCOMING, REPLACED, Place

_SSH = (
    "-o",
    "BatchMode=yes",
    "-o",
    "LogLevel=ERROR",
    "-o",
    "ConnectTimeout=15",
    "-o",
    "ServerAliveInterval=15",
)
_SILENCE = 60  # seconds without a byte until rsync gives up
_AWAY = frozenset({10, 12, 30, 35, 255})  # its exit codes for a line or a host that is gone
_SOME_MISSING = frozenset({23, 24})
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]")
_REFUSED = re.compile(r"^mkdir: |not found|Host key verification failed", re.MULTILINE)
_PUBLISH = """\
set -e
cd {root}
if [ -e {path} ]; then
  if [ "$(sha256sum < {path}/{cell} 2>/dev/null | cut -c1-64)" = {digest} ]; then
    rm -rf {coming}
    exit 0
  fi
  mkdir -p {replaced}
  mv {path} {replaced}/{aside}
fi
mkdir -p {above}
mv {coming} {path}
rm -rf {path}/{name}
sync {path} 2>/dev/null || sync
"""  # the last `rm`: where another put the same result at that moment, ours came to lie inside it


class RsyncPlace(Place):
    """``rsync://user@host[:port]/folder``: below it each campaign has a folder.

    The host needs rsync and a shell. Another ssh, or options for it, are named by ``RSYNC_RSH``.
    """

    def __init__(self, url: str, campaign: str) -> None:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        folder = unquote(parts.path)
        if not _HOST.fullmatch(name) or not folder.strip("/") or parts.password:
            raise ResultsError(f"{url} is no place; write rsync://user@host/folder")
        user = f"{parts.username}@" if parts.username else ""
        if user.startswith("-"):
            raise ResultsError(f"{url} is no place; write rsync://user@host/folder")
        self.shown = url
        self._host = f"{user}{name}"
        self._ssh = shlex.split(os.environ.get("RSYNC_RSH", "")) or ["ssh"]
        self._ssh += [*_SSH, *(("-p", str(parts.port)) if parts.port else ())]
        folder = folder.rstrip("/")
        if folder.startswith("/~/"):
            folder = folder[3:]
        self._root = f"{folder}/{path_part(campaign)}" if campaign else folder

    def put(self, folder: Path, path: str, digest: str) -> None:
        check_path(path)
        name = f"{digest[:16]}-{uuid.uuid4().hex[:8]}"
        coming = f"{INCOMING}/{name}"
        whole = f"{self._root}/{coming}"
        make = f"mkdir -p {shlex.quote(whole)} && rsync"
        self._rsync([f"--rsync-path={make}", f"{folder}/", f"{self._host}:{whole}/"])
        above = path.rpartition("/")[0]
        words = {
            "root": self._root,
            "path": path,
            "above": above,
            "coming": coming,
            "name": name,
            "digest": digest,
            "replaced": REPLACED,
            "aside": f"{path.replace('/', '+')}@{uuid.uuid4().hex[:8]}",
        }
        quoted = {key: shlex.quote(word) for key, word in words.items()}
        self._asked(_PUBLISH.format(cell=CELL, **quoted))

    def there(self, paths: Collection[str]) -> Mapping[str, str]:
        for path in paths:
            check_path(path)
        if not paths:
            return {}
        look = (
            f"cd {shlex.quote(self._root)} 2>/dev/null || exit 0\n"
            f'while IFS= read -r path; do [ -f "$path/{CELL}" ] && [ ! -L "$path/{CELL}" ] && '
            f'echo "$(sha256sum < "$path/{CELL}" | cut -c1-64) $path"; done; true'
        )
        said = self._asked(look, given="".join(f"{path}\n" for path in paths))
        lines = (line.partition(" ") for line in said.splitlines())
        return {path: digest for digest, _, path in lines if path in paths}

    def fetch(self, paths: Collection[str], into: Path) -> None:
        if not (there := self.there(paths)):
            return
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n") as names:
            names.write("".join(f"{path}/\n" for path in there))
            names.flush()
            words = [f"--files-from={names.name}", f"{self._host}:{self._root}/", f"{into}/"]
            self._rsync(words, passed=_SOME_MISSING)

    def _rsync(self, words: Sequence[str], *, passed: Collection[int] = ()) -> None:
        shell = f"--rsh={shlex.join(self._ssh)}"
        command = ["rsync", "-rts", "--no-links", "--chmod=ugo=rwX", f"--timeout={_SILENCE}", shell]
        done = _run(
            [*command, "--", *words] if not words[0].startswith("--") else [*command, *words]
        )
        if done.returncode not in (0, *passed):
            raise self._error(done)

    def _asked(self, script: str, *, given: str = "") -> str:
        done = _run([*self._ssh, self._host, f"exec sh -c {shlex.quote(script)}"], given=given)
        if done.returncode:
            raise self._error(done)
        return done.stdout

    def _error(self, done: subprocess.CompletedProcess[str]) -> ResultsError:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        said = "; ".join(lines[:2]) or f"exit code {done.returncode}"
        if done.returncode not in _AWAY or _REFUSED.search(done.stderr):
            return ResultsError(f"{self.shown} refuses: {said}")
        return StoreUnreachable(f"{self.shown} cannot be reached: {said}")


def _run(command: Sequence[str], *, given: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            start_new_session=True,  # a Ctrl-C is the runner's to heed
        )
    except FileNotFoundError:
        raise ResultsError(f"there is no {command[0]} on this host; install it") from None
