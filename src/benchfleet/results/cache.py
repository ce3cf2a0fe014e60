"""A result cache: results by the fingerprint of their cell, shared by campaigns and ledgers.

It lies in any result store, below a folder of its own::

    <url>/fingerprints/<first 2 digits>/<next 2>/<fingerprint>/   a sealed result

The first sound result of a cell stays; of two that are uploaded at the same moment, the later one
does. Names of models and configs are no part of a fingerprint, so a result taken from here is
sealed again, with the names and the path of the campaign that takes it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from benchfleet.domain.attempt import Outcome
from benchfleet.domain.cell import Cell
from benchfleet.errors import ResultsError
from benchfleet.results.consistency import wrong_content
from benchfleet.results.disk import encoded, sync_folder, write_synced
from benchfleet.results.formats import config, pretty
from benchfleet.results.incoming_check import has_arrived, refusal
from benchfleet.results.layout import CELL, CONFIG, REQUIRED_FILES
from benchfleet.results.outcome import parsed_outcome
from benchfleet.results.read import sealed
from benchfleet.results.stores.base import ResultStore, open_store
from benchfleet.results.transfer.download import sync_files

_MAX_SECONDS = 1e10  # of a cell; three centuries
FOLDER = "fingerprints"  # below the cache's URL, where a campaign has its name


def is_cacheable(cell: Cell) -> bool:
    """Whether its result holds on every machine. A part of a split cell is no result, and a speed
    counts only for the hardware that the cell names."""
    return cell.part is None and (not cell.workload.measures_speed or bool(cell.hardware))


@dataclass(frozen=True, kw_only=True)
class Cached:
    """A result that came from the cache."""

    fingerprint: str
    folder: Path
    problem: str = ""  # why it cannot be used; "" if it is the cell's result, as it was sealed


class ResultCache:
    """The result cache at a URL. Errors are those of a result store."""

    def __init__(self, store: ResultStore) -> None:
        self.store = store  # what keeps it
        self.display_url = store.display_url

    def entry_url(self, fingerprint: str) -> str:
        """Where it keeps the result of a cell, without credentials."""
        return f"{self.display_url.rstrip('/')}/{FOLDER}/{_path(fingerprint)}"

    def digests(self, fingerprints: Collection[str]) -> Mapping[str, str]:
        """The SHA-256 of the cell.json of each of these cells that has a result."""
        paths = {_path(one): one for one in fingerprints}
        return {paths[path]: digest for path, digest in self.store.digests([*paths]).items()}

    def put(self, folder: Path, fingerprint: str, digest: str) -> None:
        """Upload a sealed result, unless the cell has one that is sound."""
        present = self.digests([fingerprint])
        if present.get(fingerprint) == digest:
            return
        if present:
            with TemporaryDirectory() as into:
                if any(not one.problem for one in self.fetch(present, Path(into))):
                    return
        self.store.put(folder, _path(fingerprint), digest)

    def fetch(self, digests: Mapping[str, str], into: Path) -> Iterator[Cached]:
        """Download the results with these digests, by fingerprint, and check each against its
        seal; `into` is empty."""
        self.store.fetch([_path(one) for one in digests], into)
        for fingerprint, digest in digests.items():
            path = _path(fingerprint)
            if has_arrived(into, path):
                problem = refusal(into, path, fingerprint, digest) or _defect(into / path)
                yield Cached(fingerprint=fingerprint, folder=into / path, problem=problem)


def open_cache(url: str) -> ResultCache:
    """The result cache at this URL. Raises PluginError or ResultsError."""
    return ResultCache(open_store(url, FOLDER))


def reseal(folder: Path, cell: Cell, path: str, cache_url: str) -> Outcome:
    """Seal a result again as the one of `cell` at `path`, durably, and return its outcome. Its
    provenance stays, and names the cache. It used nothing here."""
    content, digest = sealed(folder)
    earlier = encoded(pretty(config(Cell.from_dict(content["cell"]))))
    own = {}
    if content["files"][CONFIG] == _sha256(earlier):  # not the benchmark's own
        own[CONFIG] = encoded(pretty(config(cell)))
    taken_from = {"cache": cache_url, "digest": digest}
    seal = {
        **content,
        "id": cell.id,
        "path": path,
        "cell": cell.to_dict(),
        "provenance": {**content["provenance"], "taken_from": taken_from},
        "usage": {},
        "files": {**content["files"], **{name: _sha256(text) for name, text in own.items()}},
    }
    own[CELL] = encoded(pretty(seal))
    outcome = parsed_outcome(seal, _sha256(own[CELL]))
    write_synced(folder, own)
    sync_files(folder)
    for below, _, _ in os.walk(folder):
        sync_folder(below)
    return outcome


def _defect(folder: Path) -> str:
    """Why the content of a sealed folder is not that of a result; "" if it is."""
    try:
        content, digest = sealed(folder)
        if missing := REQUIRED_FILES - {CELL} - content["files"].keys():
            return f"{', '.join(sorted(missing))} was never sealed"
        pretty(content)  # it is sealed again: numbers that are none cannot be
        if sum(parsed_outcome(content, digest).seconds.values()) > _MAX_SECONDS:
            return "it took impossibly long"
        return "; ".join(wrong_content(folder, content, content["metrics"]))
    except (ArithmeticError, RecursionError, OSError, ValueError) as error:
        return str(error)
    except (ResultsError, LookupError, TypeError, AttributeError):
        return f"its {CELL} is not as benchfleet writes it"


def _sha256(content: bytes) -> str:
    return sha256(content).hexdigest()


def _path(fingerprint: str) -> str:
    if len(fingerprint) != 64 or not fingerprint.isalnum():
        raise ResultsError(f"{fingerprint!r} is not a fingerprint")
    return f"{fingerprint[:2]}/{fingerprint[2:4]}/{fingerprint}"
