"""A push to a repository in a folder here, said to its `git receive-pack` by ourselves.

`git push` is four processes more, and has the repository look at every ref it has. Hooks, rules,
quarantine and atomicity are receive-pack's own, as with any push.
"""

from __future__ import annotations

import os
import random
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from benchfleet.errors import GitError
from benchfleet.git.objects import Objects
from benchfleet.git.packets import END, Advertised, Answer, Packets, advertised, asked, reported
from benchfleet.git.parcel import Parcel
from benchfleet.git.process import Git

TIDIES = 1 / 32  # of the pushes; after these the repository is tidied
_HIDING = 500  # refs that are named one by one; more make too long an environment
_CHANGING = r"^(url\..*\.(push)?insteadof|push\.pushoption)$"  # where a push goes, or what it says
_OURS = ("GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_PROTOCOL")  # which git keeps from a server too
Swaps = list[tuple[str, str, str]]  # old, new, ref


class Receiver:
    """The repository in `folder`. Of the `spared` refs (as ``receive.hideRefs`` has them) it looks
    only at those that a push is about: where there are many, that is what a push costs."""

    def __init__(self, git: Git, folder: str, objects: Objects, spared: Sequence[str]) -> None:
        self._git, self._folder, self._objects, self._spared = git, folder, objects, spared
        self._environ = {k: v for k, v in git.environ.items() if k not in _OURS}

    def push(self, leases: Mapping[str, str], wanted: Mapping[str, str]) -> Answer | None:
        """Change all these refs from one object to another, or none; None where that is to be left
        to git. Raises GitAway where it takes too long."""
        until = time.monotonic() + self._git.timeout
        tidies = random.random() < TIDIES  # noqa: S311
        command = self._command(leases, tidies)
        with self._git.running(command, "receive-pack", self._environ) as process:
            packets, err = _heard(process, until)
            answer: Answer | None = None
            swaps: Swaps = []
            request = END
            if packets.ended:
                answer, swaps = _judged(found := advertised(packets.lines), leases, wanted)
                request = self._request(swaps, found) if swaps else END
            out, more = process.communicate(request, timeout=until - time.monotonic())
        said = (err + more).decode("utf-8", "replace")
        if not packets.ended:
            return Answer(done=False, err=said or "git receive-pack says nothing")
        if request == END:
            return answer
        if tidies:
            self._tidy()
        return reported(out, said, len(swaps))

    def _command(self, leases: Mapping[str, str], tidies: bool) -> list[str]:
        settings = ["core.alternateRefsCommand=true"]  # of its own refs, which are known by then
        if self._spared and len(leases) <= _HIDING:
            hidden = *self._spared, *(f"!{ref}" for ref in leases)
            settings += [f"receive.hideRefs={rule}" for rule in hidden]  # the last that fits holds
        if not tidies:
            settings.append("receive.autoGC=false")
        options = (word for setting in settings for word in ("-c", setting))
        return ["git", *options, "receive-pack", self._folder]

    def _tidy(self) -> None:
        """Gather its refs in one file, unless it wants no such care: each that lies alone is opened
        twice for a push. Git takes care of its objects by itself, and of refs far later."""
        there = "git", "-C", self._folder
        with suppress(GitError):
            cares = self._git.answered(
                [*there, "config", "--type=bool", "receive.autoGC"], "config"
            )
            if cares.out.strip() != b"false":
                self._git.answered([*there, "pack-refs", "--all"], "pack-refs")

    def _request(self, swaps: Swaps, found: Advertised) -> bytes:
        new = [new for _, new, _ in swaps if new]
        try:
            return asked(swaps, Parcel(self._objects, found.there).packed(new) if new else b"")
        except GitError:  # something is not here, or it is much: git knows how
            return END


def receiver(git: Git, url: str, objects: Objects, spared: Sequence[str]) -> Receiver | None:
    """For a repository in a folder here, where nothing that the user set changes a push."""
    split = urlsplit(url)
    if split.scheme != "file" or split.netloc or split.query or split.fragment:
        return None
    told = git.ask("config", "--null", "--get-regexp", _CHANGING).out.decode("utf-8", "replace")
    for key, _, value in (setting.partition("\n") for setting in told.split("\0") if setting):
        if key == "push.pushoption" or url.startswith(value):
            return None
    return Receiver(git, unquote(split.path), objects, spared)


def _heard(process: subprocess.Popen[bytes], until: float) -> tuple[Packets, bytes]:
    """What it says first, and what it complains of meanwhile."""
    out, err = process.stdout, process.stderr
    if out is None or err is None:
        raise GitError("git receive-pack has no pipes")
    packets, said = Packets(), b""
    with selectors.DefaultSelector() as selector:
        selector.register(out, selectors.EVENT_READ)
        selector.register(err, selectors.EVENT_READ)
        while not packets.ended:
            ready = selector.select(until - time.monotonic())
            if not ready:
                raise subprocess.TimeoutExpired(process.args, 0.0)
            for key, _ in ready:
                more = os.read(key.fd, 1 << 16)
                if not more:
                    selector.unregister(key.fileobj)
                if key.fileobj is err:
                    said += more
                elif not more:
                    return packets, said
                else:
                    try:
                        packets.feed(more)
                    except ValueError:
                        return packets, said + more[:200]
    return packets, said


def _judged(
    found: Advertised, leases: Mapping[str, str], wanted: Mapping[str, str]
) -> tuple[Answer | None, Swaps]:
    """What is to be said to it, if anything: else what came of the push, None for what git is to
    do."""
    if "atomic" not in found.can:
        return Answer(done=False, err="it does not support --atomic push"), []
    if not found.plain:
        return None, []
    at = {ref: found.refs.get(ref, "") for ref in wanted}
    for ref in wanted:
        if at[ref] not in (leases[ref], wanted[ref]):
            err = f"{ref} is at {at[ref] or 'nothing'} by now"
            return Answer(done=False, reasons=["stale info"], err=err), []
    swaps = [(at[ref], new, ref) for ref, new in wanted.items() if at[ref] != new]
    return Answer(done=True) if not swaps else None, swaps
