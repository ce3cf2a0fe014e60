"""Results in a git repository: a sealed attempt as files of a tree, and back again.

::

    results/<campaign>/<model>/<config>/<benchmark>[_<subset>][/r<repeat>]/   as in the results tree
    runs/<model>/<benchmark>_<model>_<config>_<repeat>.json                  the result in short

A file that is larger than what the repository is to hold stays on its host; ``left_out.json``
beside the others names it with its size, its digest, its host, and the place that the campaign
names for its results, where it does: whole results go there.
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
from benchfleet.errors import GitAway, GitDenied, GitError, ResultsError, StoreUnreachable
from benchfleet.git.objects import EMPTY_TREE, Objects, held, kept
from benchfleet.git.remote import Remote
from benchfleet.results import layout as names
from benchfleet.results.disk import read_plain
from benchfleet.results.layout import LEFT_OUT, Layout
from benchfleet.results.read import has_seal, sealed
from benchfleet.results.stores.base import Place


def place_of(campaign: str, path: str) -> str:
    """Where the results of a cell are in a repository."""
    return f"results/{path_part(campaign)}/{path}"


def run_of(id: str) -> str:
    """Where the result of a cell in short is: a folder for each model, since a folder of all
    results would be written anew, whole, with each of them."""
    return f"runs/{id.partition('/')[0]}/{entry_name(id)}.json"


class GitPlace(Place):
    """The results of a campaign on the branches of a repository.

    Nothing is put there by itself: a result comes with the finish that tells of it.
    """

    def __init__(self, campaign: str, remote: Remote, objects: Objects, shown: str) -> None:
        self._campaign, self._remote, self._objects = campaign, remote, objects
        self.shown = shown
        self._trees: list[str] | None = None

    def put(self, folder: Path, path: str, digest: str) -> None:
        raise ResultsError(f"{self.shown} takes results as their cells end, and no others")

    def there(self, paths: Collection[str]) -> Mapping[str, str]:
        return {path: found[1] for path in paths if (found := self._found(path))}

    def fetch(self, paths: Collection[str], into: Path) -> None:
        for path in paths:
            if found := self._found(path):
                tree, digest = found
                place = place_of(self._campaign, path)
                try:
                    if take_out(self._objects, tree, place, into / path, digest):
                        told = _file(self._objects, tree, f"{place}/{LEFT_OUT}", "")
                        (into / path / LEFT_OUT).write_bytes(told)
                except ResultsError:  # whoever asked sees by the seal what is wrong with it
                    (into / path).mkdir(parents=True, exist_ok=True)
                    seal = _file(self._objects, tree, f"{place}/{names.CELL}", "")
                    (into / path / names.CELL).write_bytes(seal)

    @property
    def repository(self) -> tuple[Remote, Objects]:
        """The remote, and the objects that are here."""
        return self._remote, self._objects

    def _found(self, path: str) -> tuple[str, str] | None:
        """The tree that has a result, and the digest of its seal."""
        if self._trees is None:
            self._trees = self._read()
        for tree in self._trees:
            seal = self._objects.at(tree, f"{place_of(self._campaign, path)}/{names.CELL}")
            if seal is not None and not seal[1]:
                return tree, hashlib.sha256(self._objects.read(seal[0])[1]).hexdigest()
        return None

    def _read(self) -> list[str]:
        try:
            tips = self._remote.refs("refs/heads/machine/*", "refs/heads/main")
            bring(self._remote, self._objects, tips)
        except (GitAway, GitDenied) as error:
            raise StoreUnreachable(str(error)) from error
        return [self._objects.commit_of(oid).tree for oid in tips.values()]


def bring(remote: Remote, objects: Objects, tips: Mapping[str, str]) -> None:
    """Fetch what these branches have and was not fetched before. Raises GitAway, GitDenied."""
    names = {ref: "of-" + hashlib.sha256(ref.encode()).hexdigest() for ref in tips}
    new = {ref: oid for ref, oid in tips.items() if held(objects.git, names[ref]) != oid}
    remote.fetch(new.values())
    remote.complete(new.values())
    for ref, oid in new.items():
        kept(objects.git, names[ref], oid)


class Carrier:
    """Puts what an attempt sealed into a tree: what a ledger in git takes along as it finishes."""

    def __init__(self, layout: Layout, campaign: str, large: int, place: str = "") -> None:
        """`large` in bytes; `place` is the campaign's, as people may see it."""
        self._layout, self._campaign, self._large = layout, campaign, large
        self._place = {"place": place} if place else {}

    def __call__(
        self, objects: Objects, tree: str, lease: Lease, outcome: Outcome, id: str, path: str = ""
    ) -> str | None:
        """The tree with the files added; None where the attempt sealed nothing. Where it was
        published at `path`, they are there.

        Raises GitError where what was sealed cannot be read.
        """
        if not outcome.digest:
            return None
        folder = self._folder(lease, outcome.digest, path)
        try:
            content, digest = sealed(folder)
        except ResultsError as error:
            if not folder.exists():  # a ledger alone, without results
                return None
            raise GitError(str(error)) from error
        if digest != outcome.digest:
            raise GitError(f"{folder} is not what was finished: its seal is another")
        where = {"host": outcome.host, **self._place}
        made = _put(objects, EMPTY_TREE, folder, content, self._large, where)
        tree = objects.with_folder(tree, place_of(self._campaign, content["path"]), made)
        run = json.dumps(summary(content, outcome, self._campaign), indent=2, sort_keys=True)
        return objects.with_file(
            tree, run_of(id or content["id"]), objects.blob(f"{run}\n".encode())
        )

    def _folder(self, lease: Lease, digest: str, path: str) -> Path:
        """Where what was finished lies, or ought to."""
        plain = self._layout.attempt(lease)
        called = self._layout.attempts_called(lease.fingerprint, plain.name)
        if not called:
            return self._layout.published(path) if path else plain
        return next((place for place in called if has_seal(place, digest)), called[0])


def summary(content: Mapping[str, Any], outcome: Outcome, campaign: str) -> dict[str, Any]:
    """A result in short, with the names that users of the earlier tools know."""
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
        "result": place_of(campaign, content["path"]),
        "digest": outcome.digest,
        "metrics": content["metrics"],
        **{f"{name}_time_s": value for name, value in outcome.seconds.items()},
    }


def _put(
    objects: Objects,
    tree: str,
    folder: Path,
    content: Mapping[str, Any],
    large: int,
    where: Mapping[str, str],
) -> str:
    left_out = {}
    for name in (names.CELL, *content["files"]):
        file = folder / name
        try:
            size = os.lstat(file).st_size
            if size > large and name != names.CELL:
                digest = content["files"][name]
                left_out[name] = {"bytes": size, "sha256": digest, **where}
            else:
                tree = objects.with_file(tree, name, objects.blob(read_plain(file)))
        except OSError as error:
            raise GitError(f"{file} cannot be read: {error.strerror}") from error
    if left_out:
        text = json.dumps(left_out, indent=2, sort_keys=True)
        tree = objects.with_file(tree, LEFT_OUT, objects.blob(f"{text}\n".encode()))
    return tree


def take_out(objects: Objects, tree: str, place: str, folder: Path, digest: str) -> list[str]:
    """Write the result at a place of a tree into `folder`, which is new; the names of the files
    that stayed on their host.

    Every file is checked against the seal, and that against `digest`. Raises ResultsError for what
    is not as it was sealed, or leads out of its folder.
    """
    found = objects.at(tree, place)
    if found is None or not found[1]:
        raise ResultsError(f"{place} is not in the repository")
    seal = _file(objects, found[0], names.CELL, place)
    if hashlib.sha256(seal).hexdigest() != digest:
        raise ResultsError(f"{place}/{names.CELL} is not what the ledger took for its result")
    try:
        files: Mapping[str, str] = json.loads(seal)["files"]
        told = objects.at(found[0], LEFT_OUT)
        left_out = json.loads(objects.read(told[0])[1]) if told else {}
    except (ValueError, LookupError, TypeError) as error:
        raise ResultsError(f"{place} cannot be read: {error}") from error
    folder.mkdir(parents=True)
    absent = []
    for name, wanted in files.items():
        if any(part in ("", ".", "..") or "\0" in part for part in name.split("/")):
            raise ResultsError(f"{place} names {name!r}, which is no file of its folder")
        if name in left_out:
            absent.append(name)
            continue
        content = _file(objects, found[0], name, place)
        if hashlib.sha256(content).hexdigest() != wanted:
            raise ResultsError(f"{place}/{name} is not as it was sealed")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / names.CELL).write_bytes(seal)
    return absent


def _file(objects: Objects, tree: str, name: str, place: str) -> bytes:
    found = objects.at(tree, name)
    if found is None or found[1]:
        raise ResultsError(f"{place}/{name} is missing")
    return objects.read(found[0])[1]
