"""Commits files to a branch of the user's repository, without touching a checkout or an index."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchfleet.errors import GitError
from benchfleet.git.objects import EMPTY_TREE, Objects
from benchfleet.git.process import Git
from benchfleet.git.remote import RefUpdate, Remote

ORIGIN = "origin"
Read = Callable[[str], bytes | None]  # what a path holds; None where it does not exist
MAX_PUSHES = 5  # conflicting pushes


def find_repository(folder: Path) -> Path | None:
    """The folder that the objects of the repository around `folder` lie in, whatever worktree
    that is in; None where there is no repository."""
    for parent in (folder, *folder.parents):
        candidate = parent / ".git"
        if candidate.is_dir():
            return candidate
        if candidate.is_file():
            own = (parent / candidate.read_text("utf-8").partition("gitdir:")[2].strip()).resolve()
            common = own / "commondir"
            return (own / common.read_text("utf-8").strip()).resolve() if common.is_file() else own
        if (parent / "HEAD").is_file() and (parent / "objects").is_dir():
            return parent
    return None


class Branch:
    """One branch: of the remote `origin` where the repository has one, or else its own."""

    def __init__(self, repository: Path, name: str) -> None:
        self._git = Git(repository)
        self.name, self._ref = name, f"refs/heads/{name}"
        if self._git.run("check-ref-format", self._ref).code:
            raise GitError(f"{name!r} can be no branch")
        url = self._git.run("config", "--get", f"remote.{ORIGIN}.url")
        self.remote = Remote(self._git, ORIGIN, ORIGIN) if not url.code else None

    def put(
        self,
        change: Callable[[Read], Mapping[str, bytes]],
        message: str,
        *,
        by: str,
        beside: str = "",
    ) -> str:
        """Commit the files that `change` returns, by path, and push. Returns the commit, or "" if
        nothing changed. The ref `beside` of the remote moves to it too. `change` gets a function
        that reads a path of the branch, and is called again after a conflicting push. Raises
        GitError."""
        objects = Objects(self._git)
        try:
            for _ in range(MAX_PUSHES):
                tip = self._tip()
                tree = objects.commit_of(tip).tree if tip else EMPTY_TREE
                read = self._reader(tree)
                new = tree
                for path, content in sorted(change(read).items()):
                    new = objects.with_file(new, path, objects.blob(content))
                if new == tree:
                    return ""
                who = self._who() or f"{_user()} <{_user()}@{by}>"
                parents = (tip,) if tip else ()
                commit = objects.commit(new, parents, message, who=who, at=time.time())
                if self._move(tip, commit, beside):
                    return commit
        finally:
            objects.close()
        raise GitError(
            f"{self.name} was changed by others {MAX_PUSHES} times in a row; run it again"
        )

    def _who(self) -> str:
        """The user as git knows them; "" if none is configured."""
        identity = self._git.run("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")
        return (
            ""
            if identity.code
            else identity.out.decode("utf-8", "replace").rpartition("> ")[0] + ">"
        )

    def _tip(self) -> str:
        if self.remote is None:
            return self._git.run("rev-parse", "-q", "--verify", self._ref).out.decode().strip()
        tip = self.remote.refs(self._ref).get(self._ref, "")
        if tip and self._git.run("cat-file", "-e", f"{tip}^{{tree}}").code:
            self.remote.fetch([tip])
        return tip

    def _move(self, old: str, new: str, beside: str) -> bool:
        if self.remote is not None:
            updates = [RefUpdate(ref=self._ref, old=old, new=new)]
            if beside:
                before = self.remote.refs(beside).get(beside, "")
                updates.append(RefUpdate(ref=beside, old=before, new=new))
            return self.remote.push(updates)
        if f"branch {self._ref}\n" in self._git.output("worktree", "list", "--porcelain").decode():
            raise GitError(f"{self.name} is checked out; name another branch, or add a remote")
        return not self._git.run("update-ref", self._ref, new, old or "0" * 40).code

    def _reader(self, tree: str) -> Read:
        def read(path: str) -> bytes | None:
            answer = self._git.run("cat-file", "-p", f"{tree}:{path}")
            return None if answer.code else answer.out

        return read


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "benchfleet"
