"""``benchfleet phase``: lists of what phases have to do, for repositories that share them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from benchfleet.cli.shared import options
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import display_path
from benchfleet.compat.phase_lists import lists
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.git.branch import Branch, find_repository
from benchfleet.study import Study

BRANCH = "benchfleet/phases"
_ROOTS = ("data", "results", "")
_ACTS = """\
acts:
  generate  write phase/<phase>.txt with the results that are not done yet, one name a line
  import    take over a repository of the earlier tools; name its folder instead of a campaign

In a git repository the lists are committed to a branch, and pushed where there is a remote; no
checkout and no index is touched. Elsewhere they are written as files.

"""


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("act", choices=sorted(_DO), metavar="ACT", help=", ".join(_DO))
    options.campaign(parser, example="benchfleet phase generate study.py --repo ../results")
    options.choice(parser)
    parser.add_argument("--repo", metavar="DIR", type=Path, help="where the lists go (here)")
    parser.add_argument(
        "--branch", metavar="NAME", default=BRANCH, help=f"the branch that has them ({BRANCH})"
    )
    parser.add_argument(
        "--root", metavar="DIR", help="the folder that phase/ lies in (data or results, if there)"
    )
    parser.add_argument(
        "--settings", metavar="FILE", type=Path, help="with `import`: the campaign of its results"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="with `import`: only say what would be done",
    )
    parser.epilog = _ACTS + (parser.epilog or "")


def main(arguments: argparse.Namespace) -> int:
    """Do the act, and tell of it."""
    return _DO[arguments.act](arguments)


def _generate(arguments: argparse.Namespace) -> int:
    study, cells = options.opened(arguments)
    if arguments.ledger:  # others are to find the cells there
        with closing(study.open_ledger()) as ledger:
            study.record_campaign(ledger)
            ledger.enroll(cells)
    records = study.records(cells)
    done = {str(record.fingerprint) for record in records if record.state == "success"}
    try:
        listed = lists(cells, done, rest=study.campaign.name)
    except ValueError as error:
        raise BenchfleetError(str(error)) from error
    root = _root(arguments)
    folder = Path(os.path.abspath(arguments.repo or "."))
    if not folder.is_dir():
        raise wrong_option("--repo", f"no folder {folder}")
    repository = find_repository(folder)
    if repository is None:
        where, commit = _written(folder, root, listed), ""
    else:
        where, commit = _committed(arguments, study, repository, root, listed)
    if arguments.json:
        told = {"campaign": study.campaign.name, "where": where, "commit": commit, "lists": listed}
        print_json(told)
        return 0
    for name, entries in listed.items():
        say(f"  phase/{name}.txt  {len(entries)} to do")
    say(where)
    return 0


def _root(arguments: argparse.Namespace) -> str | None:
    root: str | None = arguments.root
    if root is None:
        return None
    parts = Path(root).parts
    if Path(root).is_absolute() or ".." in parts or ".git" in parts:
        raise wrong_option("--root", f"{root!r} is no folder inside the repository")
    return "/".join(parts).strip(".")


def _written(folder: Path, root: str | None, listed: Mapping[str, list[str]]) -> str:
    """Write the lists as files, each whole or not at all."""
    root = _chosen(root, lambda path: (folder / path).is_dir())
    place = folder / root / "phase"
    place.mkdir(parents=True, exist_ok=True)
    for name, entries in listed.items():
        draft = place / f".{name}.{os.getpid()}"
        draft.write_bytes(_text(entries))
        os.replace(draft, place / f"{name}.txt")
    return f"written to {display_path(place)}"


def _committed(
    arguments: argparse.Namespace,
    study: Study,
    repository: Path,
    root: str | None,
    listed: Mapping[str, list[str]],
) -> tuple[str, str]:
    """Commit the lists to the branch, and push; what was done, and the commit."""
    branch = Branch(repository, arguments.branch)

    def files(there: Callable[[str], bool]) -> dict[str, bytes]:
        folder = _chosen(root, there)
        above = f"{folder}/" if folder else ""
        return {f"{above}phase/{name}.txt": _text(entries) for name, entries in listed.items()}

    counts = ", ".join(f"{name} {len(entries)} to do" for name, entries in listed.items())
    commit = branch.put(files, f"phase {study.campaign.name}: {counts}", by=study.host)
    if not commit:
        return f"nothing changed on {branch.name}", ""
    pushed = "pushed to origin as" if branch.remote else "committed to"
    return f"{pushed} {branch.name} ({commit[:12]})", commit


def _chosen(root: str | None, there: Callable[[str], bool]) -> str:
    """The folder that the earlier tools' folders lie in, where it is not named."""
    if root is not None:
        return root
    below = [one for one in _ROOTS if one and (there(f"{one}/phase") or there(f"{one}/runs"))]
    return below[0] if below else ""


def _text(entries: list[str]) -> bytes:
    return "".join(f"{entry}\n" for entry in entries).encode()


def _import(arguments: argparse.Namespace) -> int:
    from benchfleet.cli.verbs.phase_import import (
        main as take_over,
    )  # the runner's and results' rooms

    return take_over(arguments)


_DO: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "generate": _generate,
    "import": _import,
}
