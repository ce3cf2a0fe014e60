"""Reading published results; writes nothing."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from gzip import BadGzipFile
from pathlib import Path
from typing import Any

from benchfleet.domain.attempt import CellRecord
from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.disk import (
    PACKED_SUFFIX,
    TAKEN_SUFFIX,
    content_digest,
    digest_of,
    open_plain,
    read_plain,
    subfolders,
)
from benchfleet.results.layout import Layout
from benchfleet.results.samples import read_samples


@dataclass(frozen=True, kw_only=True)
class SampleScores:
    """The scores of a result's samples, by their ids."""

    scores: Mapping[str, float] = field(default_factory=dict)  # empty if it has only one for all
    contexts: Mapping[str, str] = field(default_factory=dict)  # of samples that name theirs
    local: bool = False  # the samples were read, whether or not they have scores


def sample_scores(folder: Path | str) -> SampleScores:
    """Each sample's score, where the benchmark scores sample by sample, and its context."""
    scores: dict[str, float] = {}
    repeated: dict[str, list[float]] = {}  # several answers to a question are one value, their mean
    contexts: dict[str, str] = {}
    for record in read_samples(f"{folder}/{names.SAMPLES}").values():
        if "score" not in record:
            continue
        question = record.get("question") or record["id"]
        score = float(record["score"])
        if question in scores:
            repeated.setdefault(question, [scores[question]]).append(score)
        else:
            scores[question] = score
        if context := record.get("context"):
            contexts[question] = context
    scores.update((question, math.fsum(some) / len(some)) for question, some in repeated.items())
    return SampleScores(scores=scores, contexts=contexts, local=True)


def sealed(folder: Path) -> tuple[dict[str, Any], str]:
    """A folder's cell.json and its digest.

    Raises ResultsError where there is none to read, or one of another format.
    """
    file = folder / names.CELL
    try:
        content = read_plain(file)
        seal = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsError(f"{file} cannot be read: {error}") from error
    if not isinstance(seal, dict) or "fingerprint" not in seal:
        raise ResultsError(f"{file} is not a cell of benchfleet")
    if seal.get("format") != names.FORMAT:
        raise ResultsError(
            f"{file} has the results format {seal.get('format')!r}, and this benchfleet knows"
            f" {names.FORMAT} alone; use the benchfleet that wrote it"
        )
    return seal, hashlib.sha256(content).hexdigest()


def damage(folder: Path, content: Mapping[str, Any]) -> str:
    """What of a published folder is not as it was sealed; ``""`` where all of it is.

    Only plain files inside the folder are looked at, whatever the content names.
    """
    for name, digest in content.get("files", {}).items():
        try:
            wrong = file_damage(folder, name, digest)
        except OSError as error:
            wrong = f"{name} cannot be read ({error.strerror})"
        if wrong:
            return wrong
    return ""


def file_damage(folder: Path, name: str, digest: str) -> str:
    """What of one sealed file is not as it was; ``""`` where all of it is. One that was compressed
    in its place is as it was. Raises OSError where it is there and cannot be read."""
    if _leaves(folder, name):
        return f"{name!r} is not a file of its folder"
    try:
        digest_file = digest_of if name in names.REQUIRED_FILES else content_digest
        current = digest_file(folder / name)
    except (FileNotFoundError, NotADirectoryError):
        return f"{name} is missing"
    except BadGzipFile:
        return f"{name}{PACKED_SUFFIX} is not as it was packed"
    return "" if current == digest else f"{name} is not as it was sealed"


def file_names(folder: Path) -> list[str]:
    """Every file of a folder, by its name in it. Raises ResultsError for other than plain files."""
    found_names = []
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if Path(parent, name).is_symlink() or (
                name in files and not Path(parent, name).is_file()
            ):
                relative = Path(parent, name).relative_to(folder)
                raise ResultsError(f"{relative} is not a plain file")
        found_names += [Path(parent, name).relative_to(folder).as_posix() for name in files]
    return sorted(found_names)


def sealed_names(content: bytes) -> list[str]:
    """The files that a cell.json names, beside itself. Raises ResultsError for names that lead out
    of its folder, and for what is not a cell.json."""
    try:
        names_ = list(json.loads(content)["files"].keys())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ResultsError(f"its {names.CELL} is none of benchfleet") from None
    for name in names_:
        if not isinstance(name, str) or "\\" in name or _is_outside(name):
            raise ResultsError(
                f"its {names.CELL} names {name!r}, which is not a file of its folder"
            )
    return names_


def unsealed(present: Collection[str], named: Collection[str]) -> list[str]:
    """Which files of a folder its seal does not name. What took the place of a sealed file is none
    of them; `damage` holds its content against the seal."""
    replacements = {
        f"{name}{end}"
        for name in {*named} - {*present} - names.REQUIRED_FILES
        for end in (PACKED_SUFFIX, TAKEN_SUFFIX)
    }
    return sorted({*present} - {*named, *replacements, names.CELL})


def _is_outside(name: str) -> bool:
    return any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name


def _leaves(folder: Path, name: str) -> bool:
    """Whether a name leads out of the folder, by its parts or through a link."""
    parts = name.split("/")
    if _is_outside(name):
        return True
    return any(folder.joinpath(*parts[:end]).is_symlink() for end in range(1, len(parts)))


def is_published(layout: Layout, path: str, digest: str) -> bool:
    """Whether what lies at a public path is the result with that digest of its cell.json."""
    return has_seal(layout.published(path), digest)


def published_metrics(layout: Layout, path: str, digest: str) -> dict[str, Any]:
    """The metrics of the result with that digest of its cell.json, as its seal has them.

    A script may have left a metrics.json of its own: its keys are in it too, and the sealed
    headline counts. Raises ResultsError where another thing lies there, or the file was changed.
    """
    folder = layout.published(path)
    seal, seal_digest = sealed(folder)
    if seal_digest != digest:
        raise ResultsError(f"{folder} holds another result than the ledger has for this cell")
    if wrong := file_damage(folder, names.METRICS, seal["files"][names.METRICS]):
        raise ResultsError(f"{folder}: {wrong}")
    try:
        content = json.loads(read_plain(folder / names.METRICS))
    except (OSError, ValueError, RecursionError):
        content = None  # a script's own, and no JSON
    own = content if isinstance(content, dict) else {}
    metrics = seal["metrics"]
    return {
        "task_scores": {},
        "summary": metrics,
        **own,
        "overall_score": metrics["overall_score"],
    }


def has_seal(folder: Path | str, digest: str) -> bool:
    """Whether a folder's cell.json has that digest."""
    try:
        return digest_of(f"{folder}/{names.CELL}") == digest
    except OSError:
        return False


def sealed_attempts(layout: Layout, among: Collection[str] | None = None) -> dict[Path, str]:
    """The attempts that are sealed and not published, with the digest of their cell.json;
    `among` are the fingerprints to look for, None for all."""
    digests = {}
    try:
        cells = os.listdir(layout.attempts)
    except FileNotFoundError:
        return {}
    for fingerprint in cells:
        if among is not None and fingerprint not in among:
            continue
        for folder in subfolders(layout.attempts_of(fingerprint)):
            if not os.path.exists(f"{folder}/{names.CELL}"):
                continue
            try:
                digests[Path(folder)] = digest_of(f"{folder}/{names.CELL}")
            except FileNotFoundError:
                continue  # its own runner publishes it just now
    return digests


def left_attempts(layout: Layout, among: Collection[str] | None = None) -> dict[str, list[Path]]:
    """The attempts that did not fail, by fingerprint: running, sealed, or left by a killed runner.
    Folders of a rescoring are not attempts."""
    attempts: dict[str, list[Path]] = {}
    for folder in map(Path, subfolders(layout.attempts, 2)):
        fingerprint = folder.parent.name
        ended = folder.name.startswith(names.RESCORED) or (folder / names.FAILURE).exists()
        if not ended and (among is None or fingerprint in among):
            attempts.setdefault(fingerprint, []).append(folder)
    return attempts


def too_late(
    layout: Layout, attempts: Mapping[str, list[Path]], records: Iterable[CellRecord]
) -> list[Path]:
    """The attempts of cells whose result is published already. A runner began them before it knew
    of the result, so they are obsolete."""
    return [
        folder
        for record in records
        if record.state == "success" and record.fingerprint in attempts and record.outcome
        if is_published(layout, record.path, record.outcome.digest)
        for folder in attempts[record.fingerprint]
    ]


def published_folders(root: Path) -> Iterator[Path]:
    """Every published folder below a campaign's folder; links are not followed."""
    for levels in (3, 4):
        for folder in subfolders(root, levels):
            file = Path(folder, names.CELL)
            if os.path.exists(file) and not _is_hidden_or_linked(root, file):
                yield file.parent


def has_published(root: Path) -> bool:
    """Whether anything may be published below a campaign's folder; quick."""
    try:
        with os.scandir(root) as entries:
            return any(not one.name.startswith(".") and one.is_dir() for one in entries)
    except FileNotFoundError:
        return False


def is_sealed(root: Path, folder: Path) -> bool:
    """Whether a public folder has a cell.json; links are not followed."""
    file = folder / names.CELL
    return file.is_file() and not _is_hidden_or_linked(root, file)


def _is_hidden_or_linked(root: Path, file: Path) -> bool:
    parts = file.relative_to(root).parts
    inside = (root.joinpath(*parts[: n + 1]) for n in range(len(parts)))
    return parts[0].startswith(".") or any(part.is_symlink() for part in inside)


def log_tail(log: Path, *, lines: int = 20, most: int = 8192) -> str:
    """The last lines of a log, at most `most` bytes of them: a log may be one huge line."""
    try:
        with open(open_plain(log), "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - most))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
