"""The third step of publication: one rename of a sealed attempt to its public path."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from benchfleet.errors import ResultsError
from benchfleet.results import layout as names
from benchfleet.results.disk import make_folders, sync_folder
from benchfleet.results.layout import Layout

Moves = Sequence[tuple[Path, Path]]  # sealed folders with their public paths
PublishAll = Callable[[Moves], Sequence[ResultsError | None]]  # see `publish_all`


def publish(folder: Path, public: Path) -> None:
    """Rename a sealed folder to its public path; durable when this returns.

    Raises ResultsError where something else lies there: nothing is ever overwritten.
    """
    (wrong,) = publish_all([(folder, public)])
    if wrong is not None:
        raise wrong


def publish_all(moves: Moves) -> Sequence[ResultsError | None]:
    """Publish these, and remove their cells' earlier attempts that did not fail. Returns what
    `publish` raises of each. A folder that several have in common is synced once."""
    wrong: dict[Path, ResultsError] = {}  # by public path
    moved: list[tuple[Path, Path]] = []
    changed: dict[Path, list[Path]] = {}  # public paths by the folders to be synced for them
    for folder, public in moves:
        try:
            for part in (*_moved(folder, public), public.parent):
                changed.setdefault(part, []).append(public)
            moved.append((folder, public))
        except OSError as error:
            if folder.exists() or not public.exists():
                wrong[public] = _not_published(folder, public, error)
            # else another runner, opening the campaign, was quicker
    for part, waiting in changed.items():
        try:
            sync_folder(part)
        except OSError as error:
            wrong.update((public, _not_kept(public, error)) for public in waiting)
    for folder, public in moved:
        # What cannot be removed takes room and does no other harm.
        with contextlib.suppress(OSError):
            if public not in wrong and _tidy(folder.parent):
                folder.parent.rmdir()
    return [wrong.get(public) for _, public in moves]


def _not_published(folder: Path, public: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"{public} cannot be published ({error.strerror}); the sealed result waits in {folder}."
        " Move what lies there, as `benchfleet verify --repair` does, and run again."
    )


def _not_kept(public: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"{public} is published, but its disk does not say that it keeps it ({error.strerror})"
    )


def move(folder: Path, to: Path) -> None:
    """Rename a folder to a path that does not exist; durable when this returns. Raises OSError."""
    changed = _moved(folder, to)
    for part in (*changed, to.parent, folder.parent):
        sync_folder(part)


def set_aside(layout: Layout, path: str, moment: str) -> Path | None:
    """Move what lies at a path of the results folder to ``.evidence/<moment>/<path>``, and return
    its path there; None where another process was quicker. Raises OSError."""
    number, target = 0, layout.evidence / moment / path
    while os.path.lexists(target):
        number += 1
        target = layout.evidence / f"{moment}.{number}" / path
    try:
        move(layout.root / path, target)
    except FileNotFoundError:
        return None
    return target


def _moved(folder: Path, public: Path) -> list[Path]:
    """Rename the folder; the folders that got a new name besides the public one's own."""
    try:
        os.rename(folder, public)
    except FileNotFoundError:  # the first cell of its model, its config or its benchmark
        changed = make_folders(public.parent)
        os.rename(folder, public)
        return changed
    return []


def _tidy(attempts: Path) -> bool:
    """Remove attempts of a published cell that only hold samples which the result has too; what
    failed stays, as evidence, and what is being scored again is another's to remove. Whether
    nothing is left."""
    has_others = False
    for name in os.listdir(attempts):
        if name.startswith(names.RESCORED) or (attempts / name / names.FAILURE).exists():
            has_others = True
        else:
            shutil.rmtree(attempts / name, ignore_errors=True)
    return not has_others
