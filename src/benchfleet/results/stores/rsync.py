"""A result store in a folder of another host, reached by rsync over OpenSSH."""

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
from benchfleet.environment import child_environment
from benchfleet.errors import ResultsError, StoreUnreachable
from benchfleet.results.layout import CELL, check_path
from benchfleet.results.stores.base import INCOMING, REPLACED, ResultStore

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
_IO_TIMEOUT_S = 60
_UNREACHABLE_CODES = frozenset({10, 12, 30, 35, 255})  # exit codes for a lost connection or host
_PARTIAL_CODES = frozenset({23, 24})
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
"""  # the last `rm`: if another host published the same result meanwhile, ours is inside it


class RsyncStore(ResultStore):
    """``rsync://user@host[:port]/folder``: each campaign has a folder below it.

    The host needs rsync and a shell. ``RSYNC_RSH`` names another ssh, or options for it.
    """

    def __init__(self, url: str, campaign: str) -> None:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        folder = unquote(parts.path)
        user = f"{parts.username}@" if parts.username else ""
        named = _HOST.fullmatch(name) and folder.strip("/")
        if not named or parts.password or user.startswith("-"):
            raise ResultsError(f"invalid store {url}: write rsync://user@host/folder")
        self.display_url = url
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
        incoming = f"{INCOMING}/{name}"
        incoming_path = f"{self._root}/{incoming}"
        make = f"mkdir -p {shlex.quote(incoming_path)} && rsync"
        self._rsync([f"--rsync-path={make}", f"{folder}/", f"{self._host}:{incoming_path}/"])
        above = path.rpartition("/")[0]
        values = {
            "root": self._root,
            "path": path,
            "above": above,
            "coming": incoming,
            "name": name,
            "digest": digest,
            "replaced": REPLACED,
            "aside": f"{path.replace('/', '+')}@{uuid.uuid4().hex[:8]}",
        }
        quoted = {key: shlex.quote(word) for key, word in values.items()}
        self._run_script(_PUBLISH.format(cell=CELL, **quoted))

    def digests(self, paths: Collection[str]) -> Mapping[str, str]:
        for path in paths:
            check_path(path)
        if not paths:
            return {}
        script = (
            f"cd {shlex.quote(self._root)} 2>/dev/null || exit 0\n"
            f'while IFS= read -r path; do [ -f "$path/{CELL}" ] && [ ! -L "$path/{CELL}" ] && '
            f'echo "$(sha256sum < "$path/{CELL}" | cut -c1-64) $path"; done; true'
        )
        output = self._run_script(script, input_text="".join(f"{path}\n" for path in paths))
        lines = (line.partition(" ") for line in output.splitlines())
        return {path: digest for digest, _, path in lines if path in paths}

    def fetch(self, paths: Collection[str], into: Path) -> None:
        if not (digests := self.digests(paths)):
            return
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="\n") as names:
            names.write("".join(f"{path}/\n" for path in digests))
            names.flush()
            arguments = [f"--files-from={names.name}", f"{self._host}:{self._root}/", f"{into}/"]
            self._rsync(arguments, accepted=_PARTIAL_CODES)

    def check_writable(self) -> None:
        self._run_script(
            f"folder={shlex.quote(self._root)}\n"
            'while [ ! -e "$folder" ]; do folder=$(dirname "$folder"); done\n'
            f'file=$(mktemp "$folder/{INCOMING}-XXXXXX") && rm -f "$file"'
        )

    def remove(self, path: str) -> None:
        check_path(path)
        leaving = f"{INCOMING}/{uuid.uuid4().hex}"
        root, public, aside = map(shlex.quote, (self._root, path, leaving))
        self._run_script(
            f"cd {root} && mkdir -p {INCOMING} || exit 1\n"
            f"[ -e {public} ] || exit 0\n"
            f"mv {public} {aside} && rm -rf {aside}"
        )

    def _rsync(self, arguments: Sequence[str], *, accepted: Collection[int] = ()) -> None:
        shell = f"--rsh={shlex.join(self._ssh)}"
        command = [
            "rsync",
            "-rts",
            "--no-links",
            "--chmod=ugo=rwX",
            f"--timeout={_IO_TIMEOUT_S}",
            shell,
        ]
        done = _run(
            [*command, "--", *arguments]
            if not arguments[0].startswith("--")
            else [*command, *arguments]
        )
        if done.returncode not in (0, *accepted):
            raise self._error(done)

    def _run_script(self, script: str, *, input_text: str = "") -> str:
        done = _run(
            [*self._ssh, self._host, f"exec sh -c {shlex.quote(script)}"], input_text=input_text
        )
        if done.returncode:
            raise self._error(done)
        return done.stdout

    def _error(self, done: subprocess.CompletedProcess[str]) -> ResultsError:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        message = "; ".join(lines[:2]) or f"exit code {done.returncode}"
        if done.returncode not in _UNREACHABLE_CODES or _REFUSED.search(done.stderr):
            return ResultsError(f"{self.display_url} refuses: {message}")
        return StoreUnreachable(f"{self.display_url} cannot be reached: {message}")


def _run(command: Sequence[str], *, input_text: str = "") -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            input=input_text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            env=child_environment(),
            start_new_session=True,  # Ctrl-C goes to the runner only
        )
    except FileNotFoundError:
        raise ResultsError(f"{command[0]} is missing on this host; install it") from None
