"""Objects of a repository: commits, folders and files. They are written as loose files."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import zlib
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchfleet.errors import GitError
from benchfleet.git.object_reader import ObjectReader
from benchfleet.git.process import Git

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
MAX_CACHED_FOLDERS = 500  # that are remembered; a merge asks for each result in the same few
_FOLDER, _FILE = b"40000", b"100644"  # modes
_ENTRY = re.compile(rb"(\d+) ([^\0]+)\0(.{20})", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit, with what matters of it here."""

    oid: str
    tree: str
    parents: tuple[str, ...]
    message: str


class Objects:
    """The objects of one repository, for any number of threads."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self._folders: dict[str, Mapping[str, tuple[str, bool]]] = {}  # what was read lately
        self._reader = ObjectReader(git)

    def close(self) -> None:
        self._reader.close()

    # Writing

    def blob(self, content: bytes) -> str:
        return self._write("blob", content)

    def tree(self, entries: Mapping[str, tuple[str, bool]]) -> str:
        """A folder: by name, the object and whether it is a folder itself. Raises GitError at
        a name that git would not take."""
        return self._tree(
            {
                _raw(name): (_FOLDER if folder else _FILE, bytes.fromhex(oid))
                for name, (oid, folder) in entries.items()
            }
        )

    def _tree(self, entries: Mapping[bytes, tuple[bytes, bytes]]) -> str:
        """A folder by names, modes and objects, as git keeps them."""

        def order(entry: tuple[bytes, tuple[bytes, bytes]]) -> bytes:
            name, (mode, _) = entry  # git compares a folder's name as if it ended with a slash
            return name + b"/" * (mode == _FOLDER)

        return self._write(
            "tree",
            b"".join(
                mode + b" " + name + b"\0" + oid
                for name, (mode, oid) in sorted(entries.items(), key=order)
            ),
        )

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
        return self.with_all(tree, {path: (folder, True)})

    def with_file(self, tree: str, path: str, blob: str) -> str:
        """The tree with a file at `path`, over what lay there."""
        return self.with_all(tree, {path: (blob, False)})

    def with_all(self, tree: str, additions: Mapping[str, tuple[str, bool]]) -> str:
        """The tree with these objects, by path, over what lay there; True for a folder. Each folder
        on the way is written once; all else in it stays: links, submodules and modes too."""
        entries = {name: (mode, oid) for mode, name, oid in self._entries(tree)}
        below: dict[str, dict[str, tuple[str, bool]]] = {}
        for path, (oid, folder) in additions.items():
            name, _, rest = path.partition("/")
            if rest:
                below.setdefault(name, {})[rest] = oid, folder
            else:
                entries[_raw(name)] = _FOLDER if folder else _FILE, bytes.fromhex(oid)
        for name, some in below.items():
            old_mode, old = entries.get(_raw(name), (b"", b""))
            added = self.with_all(old.hex() if old_mode == _FOLDER else EMPTY_TREE, some)
            entries[_raw(name)] = _FOLDER, bytes.fromhex(added)
        return self._tree(entries)

    def _write(self, kind: str, content: bytes) -> str:
        whole = f"{kind} {len(content)}\0".encode() + content
        oid = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        file = self.git.folder / "objects" / oid[:2] / oid[2:]
        if file.exists():
            return oid
        file.parent.mkdir(exist_ok=True)
        beside = file.with_name(f"tmp_obj_{oid[:8]}{os.getpid()}{threading.get_ident()}")
        beside.write_bytes(zlib.compress(whole, 1))
        os.replace(beside, file)
        return oid

    # Reading

    def read(self, oid: str) -> tuple[str, bytes]:
        """An object's type and content. Raises GitError where it is not here."""
        content = self._reader.read(oid)
        if content is None:
            raise GitError(f"the object {oid} is not in {self.git.folder}; run the command again")
        return content

    def has(self, oid: str) -> bool:
        """Whether an object is here."""
        return self._reader.read(oid) is not None

    def commit_of(self, oid: str) -> Commit:
        """Raises GitError for what is no commit."""
        kind, content = self.read(oid)
        if kind != "commit":
            raise GitError(f"{oid} is a {kind} and no commit")
        head, _, message = content.decode("utf-8", "surrogateescape").partition("\n\n")
        headers = [line.split(" ", 1) for line in head.splitlines() if " " in line]
        return Commit(
            oid=oid,
            tree=next(value for name, value in headers if name == "tree"),
            parents=tuple(value for name, value in headers if name == "parent"),
            message=message,
        )

    def since(self, tip: str, ancestor: str) -> list[Commit]:
        """The commits from after `ancestor` ("": all) to `tip` along first parents, oldest first.

        Raises GitError where `ancestor` is not among them.
        """
        commits: list[Commit] = []
        oid = tip
        while oid and oid != ancestor:
            commits.append(self.commit_of(oid))
            oid = commits[-1].parents[0] if commits[-1].parents else ""
        if oid != ancestor:
            raise GitError(f"{tip} does not follow {ancestor}: its history was rewritten")
        return commits[::-1]

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
        folder = self._folders.get(tree)
        if folder is None:
            folder = {
                name.decode("utf-8", "surrogateescape"): (oid.hex(), mode == _FOLDER)
                for mode, name, oid in self._entries(tree)
                if mode == _FOLDER or mode.startswith(b"100")
            }
            if len(self._folders) >= MAX_CACHED_FOLDERS:
                self._folders.clear()
            self._folders[tree] = folder
        return folder

    def _entries(self, tree: str) -> list[tuple[bytes, bytes, bytes]]:
        """Mode, name and object of all that lies in a folder, links and submodules too."""
        return _ENTRY.findall(self.read(tree)[1]) if tree != EMPTY_TREE else []

    def lookup(self, tree: str, path: str) -> tuple[str, bool] | None:
        """The object at a path of a tree and whether it is a folder; None where there is none."""
        entry: tuple[str, bool] | None = (tree, True)
        for name in path.split("/"):
            if entry is None or not entry[1]:
                return None
            entry = self._listed(entry[0]).get(name)
        return entry


def _raw(name: str) -> bytes:
    """A name as git keeps it. Raises GitError for one that git would not take."""
    if name in ("", ".", "..") or name.lower() == ".git" or "/" in name or "\0" in name:
        raise GitError(f"{name!r} can be no name in a git tree")
    return name.encode("utf-8", "surrogateescape")


def read_pin(git: Git, name: str) -> str:
    """The object that is held under a name; "" for none."""
    try:
        return _pin_file(git, name).read_text().strip()
    except FileNotFoundError:
        return ""


def write_pin(git: Git, name: str, oid: str) -> None:
    """Hold an object, and all that it leads to, against being collected and fetched again."""
    file = _pin_file(git, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{name}.{os.getpid()}.lock")
    beside.write_text(f"{oid}\n")
    os.replace(beside, file)


def _pin_file(git: Git, name: str) -> Path:
    return git.folder / "refs" / "kept" / name
