"""A remote repository: which refs it has, their objects, and compare-and-swap pushes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchfleet.errors import GitAway, GitDenied, GitError, PushRejected
from benchfleet.git.process import Git, summarize_stderr

REFS_TIMEOUT_S = 60.0  # to list refs, which tells that a remote hangs
# What git says of a ref that is not as it was expected, here or in the remote's transaction.
STALE_MESSAGES = (
    *("stale info", "fetch first", "non-fast-forward", "already exists", "remote ref updated"),
    *("failed to update ref", "transaction failed", "cannot lock ref", "failed to lock"),
    *("incorrect old value", "reference already exists", "atomic push failed"),
)
DENIED_MESSAGES = (
    *("authentication failed", "permission denied", "could not read username", "access denied"),
    *("could not read password", "returned error: 403", "returned error: 401", "not authorized"),
    *("host key verification failed", "dubious ownership", "insufficient permission"),
)
# What servers say of a push that they will reject again: rules, rights, archived repositories.
FORBIDDEN_MESSAGES = (
    *DENIED_MESSAGES,
    *("protected branch", "protected ref", "not allowed to", "rule violations", "hidden ref"),
    *("read-only", "read only"),
)


@dataclass(frozen=True, kw_only=True)
class RefUpdate:
    """A ref that is to go from one object to another; "" stands for no ref."""

    ref: str
    old: str
    new: str


class Remote:
    """The repository at `url`."""

    def __init__(self, git: Git, url: str, label: str) -> None:
        self._git, self._url, self._label = git, url, label
        self.refused = ""  # why the last refused push was refused

    def refs(self, *patterns: str) -> dict[str, str]:
        """The remote's refs that match (``refs/benchfleet/study/*``), with their objects.

        Raises GitAway, GitDenied.
        """
        words = "ls-remote", "--refs", self._url, *patterns
        ended = self._git.run_remote(*words, timeout=REFS_TIMEOUT_S)
        if ended.code:
            raise self._failed(ended.err)
        pairs = (line.split("\t", 1) for line in ended.out.decode("utf-8", "replace").splitlines())
        return {name: oid for oid, name in pairs}

    def fetch(self, oids: Iterable[str], *, without_files: bool = False, depth: int = 0) -> None:
        """Bring these objects and what they lead to: all that came before, or no more than `depth`
        commits. `without_files` leaves the content of files to a later fetch, where the remote can
        do that. Raises GitAway, GitDenied."""
        targets = list(dict.fromkeys(oids))
        # Without a word git leaves out for ever what it left out once.
        sparing = ["--filter=blob:none"] if without_files else ["--no-filter"]
        sparing += [f"--depth={depth}"] if depth else []
        if self._url.startswith("file://"):  # the server is a process of our own
            config = "-c uploadpack.allowFilter=true -c core.bigFileThreshold=1m"
            sparing.append(f"--upload-pack=git {config} upload-pack")
        for start in range(0, len(targets), 500):
            ended = self._git.run_remote(
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc"),
                *("--no-recurse-submodules", *sparing, self._url, *targets[start : start + 500]),
            )
            if ended.code:
                raise self._failed(ended.err)

    def complete(self, commits: Iterable[str]) -> None:
        """Bring the files of these commits that an earlier fetch left out. Raises GitAway,
        GitDenied."""
        if any((self._git.folder / "objects" / "pack").glob("*.promisor")):
            listing = "rev-list", "--objects", "--no-walk", "--missing=print", "--stdin"
            config = self._git.output(*listing, stdin="\n".join(commits).encode()).decode()
            self.fetch(line[1:] for line in config.splitlines() if line.startswith("?"))

    def push(self, updates: Sequence[RefUpdate], *, expected: Mapping[str, str] = {}) -> bool:
        """Change all these refs or none; False where one of them, or one of those that are to be
        as `expected` says, is another now.

        Raises GitAway where it is not known how it ended, PushRejected where the remote rejects it,
        and another GitDenied where it says that it always will.
        """
        leases = {**{update.ref: update.old for update in updates}, **expected}
        targets = {**{update.ref: update.new for update in updates}, **expected}
        ended = self._git.run_remote(
            *("push", "--porcelain", "--atomic", "--no-verify", "--recurse-submodules=no"),
            *(f"--force-with-lease={ref}:{old}" for ref, old in leases.items()),
            self._url,
            *(f"{new}:{ref}" for ref, new in targets.items()),
        )
        if not ended.code:
            return True
        lines = ended.out.decode("utf-8", "replace").splitlines()
        reasons = [line.rpartition("\t")[2] for line in lines if line.startswith("!\t")]
        if not reasons:
            raise self._failed(ended.err)
        others = [why for why in reasons if not any(lost in why for lost in STALE_MESSAGES)]
        if not others:
            self.refused = summarize_stderr(ended.err)
            return False
        if any("unpacker error" in why for why in others):
            raise GitAway(f"{self._label} cannot store the push: {summarize_stderr(ended.err)}")
        # If one ref is refused, all are; the others only report "atomic push failure".
        why = next((why for why in others if "atomic push failure" not in why), others[0])
        text = f"{self._label} rejects the push: {why}; {summarize_stderr(ended.err)}"
        forbidden = any(word in f"{why} {ended.err}".lower() for word in FORBIDDEN_MESSAGES)
        raise (GitDenied if forbidden else PushRejected)(text)

    def _failed(self, err: str) -> GitError:
        text = summarize_stderr(err).replace(self._url, self._label)
        low = err.lower()
        if "does not support --atomic" in low:
            return GitError(f"{self._label} takes no atomic pushes, which a ledger needs: {text}")
        denied = any(word in low for word in DENIED_MESSAGES)
        return (GitDenied if denied else GitAway)(f"{self._label}: {text}")
