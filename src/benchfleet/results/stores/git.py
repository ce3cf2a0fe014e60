"""A result store in a git repository: sealed attempts as files of a tree.

::

    results/<campaign>/<model>/<config>/<benchmark>[_<subset>][/r<repeat>]/   as in the results tree
    runs/<campaign>/<model>/<benchmark>_<model>_<config>_<repeat>.json       summary of the result

A file above the repository's size limit stays on its host. ``left_out.json`` beside the others has
its name, size, digest and host, and the campaign's store if there is one: that has whole results.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import Lease, Outcome
from benchfleet.domain.cell import Cell
from benchfleet.domain.names import entry_name, path_part
from benchfleet.environment import host_name
from benchfleet.errors import GitAway, GitDenied, GitError, ResultsError, StoreUnreachable
from benchfleet.git.objects import EMPTY_TREE, Objects, read_pin, write_pin
from benchfleet.git.remote import Remote
from benchfleet.results import layout as names
from benchfleet.results.disk import read_plain
from benchfleet.results.layout import LEFT_OUT, Layout
from benchfleet.results.read import has_seal, sealed
from benchfleet.results.stores.base import ResultStore


def result_path(campaign: str, path: str) -> str:
    """The folder of a cell's result in a repository."""
    return f"results/{path_part(campaign)}/{path}"


def summary_path(campaign: str, path: str) -> str:
    """The file of a result's summary, from the result's path. Each model has a folder, since every
    commit rewrites the whole tree object of a folder that it changes."""
    return f"runs/{path_part(campaign)}/{path.partition('/')[0]}/{entry_name(path)}.json"


class GitStore(ResultStore):
    """The results of a campaign on the branches of a repository.

    Nothing is uploaded here: the ledger commits each result together with its finish.
    """

    def __init__(self, campaign: str, remote: Remote, objects: Objects, display_url: str) -> None:
        self._campaign, self._remote, self._objects = campaign, remote, objects
        self.display_url = display_url
        self._trees: list[str] | None = None
        self._expected: dict[str, str] = {}  # by path

    def put(self, folder: Path, path: str, digest: str) -> None:
        raise ResultsError(f"{self.display_url} stores results only through its ledger")

    def expect(self, digests: Mapping[str, str]) -> None:
        self._expected.update(digests)

    def digests(self, paths: Collection[str]) -> Mapping[str, str]:
        return {path: result[1] for path in paths if (result := self._find(path))}

    def is_complete(self, path: str) -> bool:
        """Whether all files of a result are in the repository."""
        if (result := self._find(path)) is None:
            return False
        left_out = f"{result_path(self._campaign, path)}/{LEFT_OUT}"
        return self._objects.lookup(result[0], left_out) is None

    def fetch(self, paths: Collection[str], into: Path) -> None:
        for path in paths:
            if result := self._find(path):
                tree, digest = result
                tree_path = result_path(self._campaign, path)
                try:
                    if extract(self._objects, tree, tree_path, into / path, digest):
                        left_out = _file(self._objects, tree, f"{tree_path}/{LEFT_OUT}", "")
                        (into / path / LEFT_OUT).write_bytes(left_out)
                except ResultsError:  # the caller reports what is wrong, by the seal
                    (into / path).mkdir(parents=True, exist_ok=True)
                    seal = _file(self._objects, tree, f"{tree_path}/{names.CELL}", "")
                    (into / path / names.CELL).write_bytes(seal)

    @property
    def repository(self) -> tuple[Remote, Objects]:
        """The remote and the local objects."""
        return self._remote, self._objects

    def _find(self, path: str) -> tuple[str, str] | None:
        """The tree that has a result, and its seal's digest: that of the ledger, if any has it."""
        if self._trees is None:
            self._trees = self._read()
        tree_path, first = result_path(self._campaign, path), None
        for tree in self._trees:
            if digest := seal_digest(self._objects, tree, tree_path):
                first = first or (tree, digest)
                if self._expected.get(path, digest) == digest:
                    return tree, digest
        return first

    def _read(self) -> list[str]:
        try:
            tips = self._remote.refs("refs/heads/machine/*", "refs/heads/main")
            fetch_branches(self._remote, self._objects, tips)
        except (GitAway, GitDenied) as error:
            raise StoreUnreachable(str(error)) from error
        return [self._objects.commit_of(oid).tree for oid in tips.values()]


def seal_digest(objects: Objects, tree: str, tree_path: str) -> str:
    """The SHA-256 of the cell.json of a result in a tree; "" if there is none."""
    seal = objects.lookup(tree, f"{tree_path}/{names.CELL}")
    if seal is None or seal[1]:
        return ""
    return hashlib.sha256(objects.read(seal[0])[1]).hexdigest()


def fetch_branches(remote: Remote, objects: Objects, tips: Mapping[str, str]) -> None:
    """Fetch the new commits of these branches. Raises GitAway, GitDenied."""
    names = {ref: "of-" + hashlib.sha256(ref.encode()).hexdigest() for ref in tips}
    new = {ref: oid for ref, oid in tips.items() if read_pin(objects.git, names[ref]) != oid}
    remote.fetch(new.values())
    remote.complete(new.values())
    for ref, oid in new.items():
        write_pin(objects.git, names[ref], oid)


class GitResultWriter:
    """Writes the objects of a sealed attempt, so that the git ledger commits it with the finish."""

    def __init__(self, layout: Layout, campaign: str, max_bytes: int, store_url: str = "") -> None:
        """`store_url` is the campaign's store, without credentials."""
        self._layout, self._campaign, self._max_bytes = layout, campaign, max_bytes
        self._store = {"place": store_url} if store_url else {}

    def __call__(
        self, objects: Objects, lease: Lease, outcome: Outcome, path: str = ""
    ) -> Mapping[str, tuple[str, bool]]:
        """The files of the attempt, or of the result published at `path`: objects by their path in
        the repository, True for a folder; empty if nothing was sealed. Raises GitError if a file
        cannot be read."""
        if not outcome.digest:
            return {}
        folder = self._folder(lease, outcome.digest, path)
        try:
            content, digest = sealed(folder)
        except ResultsError as error:
            if not folder.exists():  # the ledger is used without results
                return {}
            raise GitError(str(error)) from error
        if digest != outcome.digest:
            raise GitError(f"{folder}: the seal differs from the finished attempt's")
        # What came from a result cache ran elsewhere, and its files are here.
        host = host_name() if outcome.taken_from else outcome.host
        location = {"host": host, **self._store}
        result_tree = _add_files(objects, EMPTY_TREE, folder, content, self._max_bytes, location)
        run = json.dumps(summary(content, outcome, self._campaign), indent=2, sort_keys=True)
        return {
            result_path(self._campaign, content["path"]): (result_tree, True),
            summary_path(self._campaign, content["path"]): (
                objects.blob(f"{run}\n".encode()),
                False,
            ),
        }

    def _folder(self, lease: Lease, digest: str, path: str) -> Path:
        plain = self._layout.attempt(lease)
        folders = self._layout.attempts_called(lease.fingerprint, plain.name)
        if not folders:
            return self._layout.published(path) if path else plain
        return next((folder for folder in folders if has_seal(folder, digest)), folders[0])


def summary(content: Mapping[str, Any], outcome: Outcome, campaign: str) -> dict[str, Any]:
    """The summary of a result, with the field names of the earlier tools."""
    cell = Cell.from_dict(content["cell"])
    return {
        "run": {
            "configuration": cell.config.name,
            "model": cell.model.name,
            "level": cell.workload.label,
            "rerun": cell.repeat,
        },
        "campaign": campaign,
        "hostname": outcome.host,
        "device": outcome.device,
        "fingerprint": content["fingerprint"],
        "result": result_path(campaign, content["path"]),
        "digest": outcome.digest,
        "success_rate": content["metrics"]["overall_score"],
        "metrics": content["metrics"],
        **{f"{name}_time_s": value for name, value in outcome.seconds.items()},
    }


def _add_files(
    objects: Objects,
    tree: str,
    folder: Path,
    content: Mapping[str, Any],
    max_bytes: int,
    location: Mapping[str, str],
) -> str:
    left_out = {}
    for name in (names.CELL, *content["files"]):
        file = folder / name
        try:
            size = os.lstat(file).st_size
            if size > max_bytes and name != names.CELL:
                digest = content["files"][name]
                left_out[name] = {"bytes": size, "sha256": digest, **location}
            else:
                tree = objects.with_file(tree, name, objects.blob(read_plain(file)))
        except OSError as error:
            raise GitError(f"{file} cannot be read: {error.strerror}") from error
    if left_out:
        text = json.dumps(left_out, indent=2, sort_keys=True)
        tree = objects.with_file(tree, LEFT_OUT, objects.blob(f"{text}\n".encode()))
    return tree


def extract(objects: Objects, tree: str, tree_path: str, folder: Path, digest: str) -> list[str]:
    """Write a result of a tree into the new `folder`; returns the files that stayed on their host.

    Each file is checked against the seal, and the seal against `digest`. Raises ResultsError for a
    file that differs, which is written too, or lies outside of its folder.
    """
    entry = objects.lookup(tree, tree_path)
    if entry is None or not entry[1]:
        raise ResultsError(f"{tree_path} is not in the repository")
    seal = _file(objects, entry[0], names.CELL, tree_path)
    if hashlib.sha256(seal).hexdigest() != digest:
        raise ResultsError(f"{tree_path}/{names.CELL} differs from the result that the ledger has")
    try:
        files: Mapping[str, str] = json.loads(seal)["files"]
        note = objects.lookup(entry[0], LEFT_OUT)
        left_out = json.loads(objects.read(note[0])[1]) if note else {}
    except (ValueError, LookupError, TypeError) as error:
        raise ResultsError(f"{tree_path} cannot be read: {error}") from error
    folder.mkdir(parents=True)
    absent = []
    for name, expected_digest in files.items():
        if any(part in ("", ".", "..") or "\0" in part for part in name.split("/")):
            raise ResultsError(f"{tree_path} names {name!r}, which is outside of its folder")
        if name in left_out:
            absent.append(name)
            continue
        content = _file(objects, entry[0], name, tree_path)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        if hashlib.sha256(content).hexdigest() != expected_digest:
            raise ResultsError(f"{tree_path}/{name} differs from its seal")
    (folder / names.CELL).write_bytes(seal)
    return absent


def _file(objects: Objects, tree: str, name: str, tree_path: str) -> bytes:
    entry = objects.lookup(tree, name)
    if entry is None or entry[1]:
        raise ResultsError(f"{tree_path}/{name} is missing")
    return objects.read(entry[0])[1]
