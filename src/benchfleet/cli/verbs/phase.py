"""``benchfleet phase``: lists of what phases have to do, for repositories that share them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

from benchfleet.cli.shared import options
from benchfleet.cli.shared.actions import Action, add_actions
from benchfleet.cli.text.output import print_json, say
from benchfleet.cli.text.terminal import display_path
from benchfleet.compat.legacy_repository import finished_names
from benchfleet.compat.phase_lists import SUFFIX, by_result_name, lists
from benchfleet.domain.humanize import counted
from benchfleet.errors import BenchfleetError, wrong_option
from benchfleet.git.branch import Branch, Read, find_repository
from benchfleet.git.objects import Objects
from benchfleet.git.process import Git
from benchfleet.git.shared_files import SharedFiles
from benchfleet.results.stores.phase_lists import (
    ALL_SEEN,
    owner_of_lists,
    seen_ref,
    update_lists,
)
from benchfleet.study import Study

BRANCH = "benchfleet/phases"
_ROOTS = ("data", "results", "")
_EXAMPLE = "benchfleet phase generate study.py --repo ../results"


def configure(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.epilog = f"""\
In a git repository the lists are committed to a branch, and pushed where there is a remote; no
checkout and no index is touched. Elsewhere they are written as files.

example: {_EXAMPLE}"""
    add_actions(parser, _ACTIONS, _options)


def _options(parser: argparse.ArgumentParser) -> None:
    options.campaign(parser, example=_EXAMPLE)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="write and push nothing; print what would be done",
    )


def _generate_options(parser: argparse.ArgumentParser) -> None:
    options.choice(parser)
    parser.add_argument("--repo", metavar="DIR", type=Path, help="where the lists go (here)")
    parser.add_argument(
        "--branch", metavar="NAME", default=BRANCH, help=f"the branch that has them ({BRANCH})"
    )
    parser.add_argument(
        "--root", metavar="DIR", help="the folder that phase/ lies in (data or results, if there)"
    )


def _import_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--settings", metavar="FILE", type=Path, help="the campaign of the repository's results"
    )
    parser.add_argument("--details", action="store_true", help="list every name of the summary")


def main(arguments: argparse.Namespace) -> int:
    """Do the action and print its result."""
    return int(arguments.do(arguments))


def _generate(arguments: argparse.Namespace) -> int:
    study, cells = options.opened(arguments)
    root = _root(arguments)
    folder = Path(os.path.abspath(arguments.repo or "."))
    if not folder.is_dir():
        raise wrong_option("--repo", f"no folder {folder}")
    repository = find_repository(folder)
    if repository is not None and not arguments.dry_run:
        _check_owner(study, Branch(repository, arguments.branch))
    if arguments.ledger and not arguments.dry_run:  # others are to find the cells there
        with closing(study.open_ledger()) as ledger:
            study.record_campaign(ledger)
            ledger.enroll(cells)
    if repository is not None and not arguments.dry_run:
        _follow_edits(arguments, study, repository)
    records = study.records(cells)
    done = {str(one.fingerprint) for one in records if one.state in ("success", "cancelled")}
    try:
        cells_by_name = by_result_name(study.cells())
        unknown = _UnknownLines(cells_by_name)
        if not records:
            names = finished_names(folder, study.campaign.name) & cells_by_name.keys()
            done = {str(cells_by_name[name].fingerprint) for name in names}
            where = f"{study.ledger_text} records no cell of {study.campaign.name}"
            count = f"{counted(len(done), 'result')} in {display_path(folder)} count as done"
            say(f"benchfleet: {where}; {count}; name its ledger by --ledger", to=sys.stderr)
        listed = lists(cells, done, rest=study.campaign.name)
    except ValueError as error:
        raise BenchfleetError(str(error)) from error
    if arguments.dry_run:
        where, commit = "nothing is written (--dry-run)", ""
    elif repository is None:
        where, commit = _written(folder, root, listed, unknown), ""
    else:
        where, commit = _committed(arguments, study, repository, root, listed, unknown)
    if arguments.json:
        payload = {
            "campaign": study.campaign.name,
            "where": where,
            "commit": commit,
            "lists": listed,
        }
        print_json({**payload, "unknown": unknown.by_file})
        return 0
    for name, entries in listed.items():
        say(f"  phase/{name}.txt  {len(entries)} to do")
    for name, lines in unknown.by_file.items():
        say(f"  phase/{name}.txt  unknown, kept as comments: {', '.join(lines)}")
    say(where)
    return 0


def _check_owner(study: Study, branch: Branch) -> None:
    """Raises BenchfleetError if the lists of the branch are those of another campaign."""
    if branch.remote is None:
        return
    campaign = study.campaign.name
    if other := owner_of_lists(branch.remote.refs(ALL_SEEN), campaign, branch.name):
        raise BenchfleetError(
            f"the lists on the branch {branch.name} belong to the campaign {other!r}, which would "
            f"take those of {campaign!r} for edits; name another branch with --branch, or delete "
            f"{seen_ref(other, branch.name)} on the remote if that campaign is over"
        )


def _follow_edits(arguments: argparse.Namespace, study: Study, repository: Path) -> None:
    """Take in what people changed in the lists of a remote, before these are written again."""
    branch = Branch(repository, arguments.branch)
    ledger = study.open_existing_ledger(writes=True)
    if ledger is None:
        return
    with closing(ledger), closing(Objects(Git(repository))) as objects:
        if branch.remote is None:
            return
        files = SharedFiles(
            remote=branch.remote,
            objects=objects,
            every=lambda: 0.0,
            wait_to_push=lambda: None,
            shallow=False,
        )
        for update in update_lists(files, study.campaign.name, ledger, branches=[branch.name]):
            say(*(f"benchfleet: {message}" for message in update.messages), to=sys.stderr)
            for notice in update.notices:
                raise BenchfleetError(notice)


class _UnknownLines:
    """Lines of earlier lists that name no cell of the campaign; they stay as comments."""

    def __init__(self, known_names: Iterable[str]) -> None:
        self._known_names = set(known_names)
        self.by_file: dict[str, list[str]] = {}

    def text(self, name: str, entries: list[str], earlier: bytes | None) -> bytes:
        """The list `name` with these entries, and with comments and unknown lines of before."""
        lines = [line.strip() for line in (earlier or b"").decode("utf-8", "replace").splitlines()]
        comments = [line for line in lines if line.startswith("#")]
        others = [line for line in lines if line and not line.startswith("#")]
        unknown = [line for line in others if not {line, f"{line}{SUFFIX}"} & self._known_names]
        if unknown:
            self.by_file[name] = unknown
        comment_lines = dict.fromkeys([*comments, *(f"# {line}" for line in unknown)])
        return "".join(f"{line}\n" for line in (*entries, *comment_lines)).encode()


def _root(arguments: argparse.Namespace) -> str | None:
    root: str | None = arguments.root
    if root is None:
        return None
    parts = Path(root).parts
    if Path(root).is_absolute() or ".." in parts or ".git" in parts:
        raise wrong_option("--root", f"{root!r} is not a folder inside the repository")
    return "/".join(parts).strip(".")


def _written(
    folder: Path, root: str | None, listed: Mapping[str, list[str]], unknown: _UnknownLines
) -> str:
    """Write the lists as files, each whole or not at all."""
    root = _chosen(root, lambda path: (folder / path).is_dir())
    phase_folder = folder / root / "phase"
    phase_folder.mkdir(parents=True, exist_ok=True)
    for name, entries in listed.items():
        draft = phase_folder / f".{name}.{os.getpid()}"
        file = phase_folder / f"{name}.txt"
        draft.write_bytes(unknown.text(name, entries, file.read_bytes() if file.exists() else None))
        os.replace(draft, file)
    return f"written to {display_path(phase_folder)}"


def _committed(
    arguments: argparse.Namespace,
    study: Study,
    repository: Path,
    root: str | None,
    listed: Mapping[str, list[str]],
    unknown: _UnknownLines,
) -> tuple[str, str]:
    """Commit the lists to the branch, and push; what was done, and the commit."""
    branch, git = Branch(repository, arguments.branch), Git(repository)

    def in_checkout(path: str) -> bool:
        return not git.run("cat-file", "-e", f"HEAD:{path}").code

    def files(read: Read) -> dict[str, bytes]:
        folder = _chosen(root, lambda path: read(path) is not None, in_checkout)
        above = f"{folder}/" if folder else ""
        paths = {name: f"{above}phase/{name}.txt" for name in listed}
        return {path: unknown.text(name, listed[name], read(path)) for name, path in paths.items()}

    counts = ", ".join(f"{name} {len(entries)} to do" for name, entries in listed.items())
    text, beside = (
        f"phase {study.campaign.name}: {counts}",
        seen_ref(study.campaign.name, branch.name),
    )
    commit = branch.put(files, text, by=study.host, beside=beside)
    if not commit:
        return f"nothing changed on {branch.name}", ""
    pushed = "pushed to origin as" if branch.remote else "committed to"
    return f"{pushed} {branch.name} ({commit[:12]})", commit


def _chosen(root: str | None, *checks: Callable[[str], bool]) -> str:
    """The folder that the earlier tools' folders lie in, where it is not named. Each check says
    whether a path exists in a tree; the first tree with such folders counts."""
    if root is not None:
        return root
    for exists in checks:
        for one in _ROOTS:
            folders = (f"{one}/phase", f"{one}/runs") if one else ("phase",)
            if any(exists(folder) for folder in folders):
                return one
    return ""


def _import(arguments: argparse.Namespace) -> int:
    from benchfleet.cli.verbs.phase_import import (
        main as take_over,
    )  # the runner's and results' rooms

    return take_over(arguments)


_ACTIONS: dict[str, Action] = {
    "generate": (
        "write phase/<phase>.txt with the results that are not done yet, one name a line",
        _generate,
        _generate_options,
    ),
    "import": (
        "take over a repository of the earlier tools; name its folder instead of a campaign",
        _import,
        _import_options,
    ),
}
