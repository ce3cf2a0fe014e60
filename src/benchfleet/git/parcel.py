"""What a push brings: the objects that the other side lacks, as a pack."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Collection, Iterable

from benchfleet.errors import GitError
from benchfleet.git.objects import FOLDER, SUBMODULE, Objects

_TYPES = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
MOST = 1000  # objects; of more, git finds out what they have in common
LARGE = 16_000_000  # bytes


class Parcel:
    """Objects for somebody who has those that are `there`, with all that they lead to.

    Raises GitError where one is not here, or where they are too many to be sent as they are.
    """

    def __init__(self, objects: Objects, there: Collection[str]) -> None:
        self._objects, self._there = objects, there
        self._found: dict[str, tuple[str, bytes]] = {}
        self._size = 0

    def packed(self, oids: Iterable[str]) -> bytes:
        """These objects and what they lead to, as a pack (gitformat-pack(5))."""
        for oid in oids:
            self._add(oid)
        out = [struct.pack(">4sII", b"PACK", 2, len(self._found))]
        for kind, content in self._found.values():
            out += _head(_TYPES[kind], len(content)), zlib.compress(content, 1)
        body = b"".join(out)
        return body + hashlib.sha1(body, usedforsecurity=False).digest()

    def _add(self, oid: str) -> None:
        waiting = [oid]
        while waiting:
            oid = waiting.pop()
            if not self._lacks(oid):
                continue
            kind, _ = self._put(oid)
            if kind == "tag":
                raise GitError(f"{oid} is a tag")
            if kind == "commit":
                commit = self._objects.commit_of(oid)
                waiting += commit.parents
                before = [self._tree_of(parent) for parent in commit.parents]
                self._add_tree(commit.tree, [tree for tree in before if tree])
            elif kind == "tree":
                self._below(oid, [])

    def _lacks(self, oid: str) -> bool:
        return oid not in self._there and oid not in self._found

    def _put(self, oid: str) -> tuple[str, bytes]:
        found = self._found[oid] = self._objects.read(oid)
        self._size += len(found[1])
        if len(self._found) > MOST or self._size > LARGE:
            raise GitError("it is much")
        return found

    def _tree_of(self, commit: str) -> str:
        """What another commit holds; "" where that is not here."""
        try:
            return self._objects.commit_of(commit).tree
        except GitError:
            return ""

    def _add_tree(self, tree: str, before: list[str]) -> None:
        if tree not in before and self._lacks(tree):
            self._put(tree)
            self._below(tree, before)

    def _below(self, tree: str, before: list[str]) -> None:
        """What lies in a folder, and lay in none of those that were there before."""
        known = [self._objects.everything(one) for one in before]
        folders = [{name: oid.hex() for mode, name, oid in one if mode == FOLDER} for one in known]
        for mode, name, oid in set(self._objects.everything(tree)).difference(*known):
            if mode == FOLDER:
                self._add_tree(oid.hex(), [one[name] for one in folders if name in one])
            elif mode != SUBMODULE and self._lacks(oid.hex()):
                self._put(oid.hex())


def _head(type: int, size: int) -> bytes:
    """The type and size of an object, seven bits a byte after the first four."""
    byte, size = (type << 4) | (size & 15), size >> 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    out.append(byte)
    return bytes(out)
