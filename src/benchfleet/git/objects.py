"""Objects of a repository: written as loose files, read through one process that stays."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import zlib
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchfleet.errors import GitError
from benchfleet.git.process import Git

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_FOLDERS = 500  # that are remembered; a merge asks for each result in the same few
FOLDER, SUBMODULE, _FILE = b"40000", b"160000", b"100644"  # modes
_ENTRY = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit, with what matters of it here."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    message: str


class Objects:
    """The objects of one repository. Not to be used by two threads at once."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self._folders: dict[str, Mapping[str, tuple[str, bool]]] = {}  # what was read lately
        self._reader: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        if self._reader is not None:
            self._reader.communicate()
            self._reader = None

    # Writing

    def blob(self, content: bytes) -> str:
        return self._write("blob", content)

    def tree(self, entries: Mapping[str, tuple[str, bool]]) -> str:
        """A folder: by name, the object and whether it is a folder itself. Raises GitError at
        a name that git would not take."""
        found = []
        for name, (oid, folder) in entries.items():
            if name in ("", ".", "..") or name.lower() == ".git" or "/" in name or "\0" in name:
                raise GitError(f"{name!r} can be no name in a git tree")
            raw = name.encode("utf-8", "surrogateescape")
            mode = FOLDER if folder else _FILE
            # Git compares a folder's name as if it ended with a slash.
            found.append((raw + b"/" * folder, mode + b" " + raw + b"\0" + bytes.fromhex(oid)))
        return self._write("tree", b"".join(entry for _, entry in sorted(found)))

    def commit(
        self, tree: str, parents: tuple[str, ...], message: str, *, who: str, at: float
    ) -> str:
        """`who` as ``name <address>``, `at` in seconds since the epoch."""
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        stamp = f"{who} {int(at)} +0000"
        lines += [f"author {stamp}", f"committer {stamp}", "", message]
        return self._write("commit", "\n".join(lines).encode("utf-8", "surrogateescape"))

    def with_folder(self, tree: str, path: str, folder: str) -> str:
        """The tree with `folder` at `path`, over what lay there."""
        name, _, rest = path.partition("/")
        entries = dict(self.entries(tree))
        if rest:
            below, is_folder = entries.get(name, (EMPTY_TREE, True))
            folder = self.with_folder(below if is_folder else EMPTY_TREE, rest, folder)
        entries[name] = folder, True
        return self.tree(entries)

    def with_file(self, tree: str, path: str, blob: str) -> str:
        """The tree with a file at `path`, over what lay there."""
        above, _, name = path.rpartition("/")
        below = self.at(tree, above) if above else (tree, True)
        entries = dict(self.entries(below[0])) if below and below[1] else {}
        entries[name] = blob, False
        made = self.tree(entries)
        return self.with_folder(tree, above, made) if above else made

    def _write(self, kind: str, content: bytes) -> str:
        whole = f"{kind} {len(content)}\0".encode() + content
        oid = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        file = self.git.folder / "objects" / oid[:2] / oid[2:]
        if file.exists():
            return oid
        file.parent.mkdir(exist_ok=True)
        beside = file.with_name(f"tmp_obj_{oid[:8]}{os.getpid()}")
        beside.write_bytes(zlib.compress(whole, 1))
        os.replace(beside, file)
        return oid

    # Reading

    def read(self, oid: str) -> tuple[str, bytes]:
        """An object's type and content. Raises GitError where it is not here."""
        reader = self._reader
        if reader is None or reader.poll() is not None:
            reader = self._reader = subprocess.Popen(
                self.git.command("cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self.git.environ,
                start_new_session=True,
            )
        asked, answer = reader.stdin, reader.stdout
        if asked is None or answer is None:
            raise GitError("git cat-file has no pipes")
        asked.write(f"{oid}\n".encode())
        asked.flush()
        head = answer.readline().split()
        if len(head) != 3:
            raise GitError(f"the object {oid} is not in {self.git.folder}")
        content = answer.read(int(head[2]))
        answer.read(1)
        return head[1].decode(), content

    def has(self, oid: str) -> bool:
        """Whether an object is here."""
        try:
            return bool(self.read(oid))
        except GitError:
            return False

    def commit_of(self, oid: str) -> Commit:
        """Raises GitError for what is no commit."""
        kind, content = self.read(oid)
        if kind != "commit":
            raise GitError(f"{oid} is a {kind} and no commit")
        head, _, message = content.decode("utf-8", "surrogateescape").partition("\n\n")
        told = [line.split(" ", 1) for line in head.splitlines() if " " in line]
        return Commit(
            oid=oid,
            tree=next(value for name, value in told if name == "tree"),
            parents=tuple(value for name, value in told if name == "parent"),
            message=message,
        )

    def since(self, tip: str, known: str) -> list[Commit]:
        """The commits from after `known` ("": all) to `tip` along first parents, oldest first.

        Raises GitError where `known` is not among them.
        """
        found: list[Commit] = []
        oid = tip
        while oid and oid != known:
            found.append(self.commit_of(oid))
            oid = found[-1].parents[0] if found[-1].parents else ""
        if oid != known:
            raise GitError(f"{tip} does not follow {known}: its history was rewritten")
        return found[::-1]

    def back(self, oid: str, most: int) -> Iterator[Commit]:
        """A commit and those before it along first parents, as far as they are here."""
        for _ in range(most):
            if not oid or not self.has(oid):
                return
            yield (commit := self.commit_of(oid))
            oid = commit.parents[0] if commit.parents else ""

    def entries(self, tree: str) -> ItemsView[str, tuple[str, bool]]:
        """What lies in a folder: by name, the object and whether it is a folder.

        Links and the like are passed over.
        """
        return self._listed(tree).items()

    def _listed(self, tree: str) -> Mapping[str, tuple[str, bool]]:
        if tree not in self._folders:
            if len(self._folders) >= _FOLDERS:
                self._folders.clear()
            self._folders[tree] = {
                name.decode("utf-8", "surrogateescape"): (oid.hex(), mode == FOLDER)
                for mode, name, oid in self.everything(tree)
                if mode == FOLDER or mode.startswith(b"100")
            }
        return self._folders[tree]

    def everything(self, tree: str) -> list[tuple[bytes, bytes, bytes]]:
        """Mode, name and object of all that lies in a folder, links and submodules too."""
        return _ENTRY.findall(self.read(tree)[1]) if tree != EMPTY_TREE else []

    def at(self, tree: str, path: str) -> tuple[str, bool] | None:
        """The object at a path of a tree and whether it is a folder; None where there is none."""
        found: tuple[str, bool] | None = (tree, True)
        for name in path.split("/"):
            if found is None or not found[1]:
                return None
            found = self._listed(found[0]).get(name)
        return found


def held(git: Git, name: str) -> str:
    """The object that is held under a name; "" for none."""
    try:
        return _held(git, name).read_text().strip()
    except FileNotFoundError:
        return ""


def kept(git: Git, name: str, oid: str) -> None:
    """Hold an object, and all that it leads to, against being collected and fetched again."""
    file = _held(git, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{name}.{os.getpid()}.lock")
    beside.write_text(f"{oid}\n")
    os.replace(beside, file)


def _held(git: Git, name: str) -> Path:
    return git.folder / "refs" / "kept" / name
