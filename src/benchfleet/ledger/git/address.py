"""Where a ledger in a git repository is: what its URL says, and how its refs are called."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from benchfleet.errors import LedgerMisnamed
from benchfleet.ledger.addresses import display_url

ROOT = "refs/benchfleet"
_SCHEMES = ("git+file", "git+ssh", "git+https", "git+http")
_OPTIONS = ("profile", "large")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
_HOME = (".local", ".lan", ".home", ".internal", ".home.arpa")
LARGE = 5_000_000  # bytes of a file that is left on its host


@dataclass(frozen=True, kw_only=True)
class Address:
    """What the URL of a git ledger says."""

    remote: str  # for git
    label: str  # for messages, without a password
    hosted: bool  # others use its server too: few pushes and reads a minute
    large: int = LARGE  # bytes; a larger file of a result stays on its host


def address_of(url: str) -> Address:
    """Read the URL of a git ledger. Raises LedgerMisnamed for what is none."""
    label = display_url(url)
    scheme, _, rest = url.partition(":")
    if scheme not in _SCHEMES or not rest:
        raise LedgerMisnamed(f"{label} is not a git ledger; write {_EXAMPLES}")
    split = urlsplit(url.removeprefix("git+"))
    options = dict(parse_qsl(split.query, keep_blank_values=True))
    if wrong := [name for name in options if name not in _OPTIONS]:
        raise LedgerMisnamed(f"{label}: no option {wrong[0]!r}; there are {', '.join(_OPTIONS)}")
    bare = split._replace(query="", fragment="")
    if split.scheme == "file":
        if split.netloc not in ("", "localhost"):
            raise LedgerMisnamed(f"{label}: a file has no host; write git+file:///path/to/lab.git")
        path = os.path.abspath(os.path.expanduser(unquote(split.path)))
        remote = f"file://{quote(path)}"
    elif not split.hostname:
        raise LedgerMisnamed(f"{label} names no host; write {_EXAMPLES}")
    else:
        remote = bare.geturl()
    return Address(
        remote=remote,
        label=label,
        hosted=_hosted(options, split.scheme, split.hostname or "", label),
        large=_size(options["large"], label) if "large" in options else LARGE,
    )


def with_real_path(url: str) -> str:
    """The URL of a repository on disk as every folder and every link to it has it; another URL as
    it is. Raises LedgerMisnamed for what is no git ledger."""
    remote = urlsplit(address_of(url).remote)
    if remote.scheme != "file":
        return url
    query = url.partition("?")[1:]
    return f"git+file://{quote(os.path.realpath(unquote(remote.path)))}{''.join(query)}"


_EXAMPLES = "git+file:///path/to/lab.git, git+ssh://git@host/lab.git or git+https://host/lab.git"


def _hosted(options: Mapping[str, str], scheme: str, host: str, label: str) -> bool:
    """Whether a server that others use too is to be spared: any on the internet, unless the URL
    says otherwise."""
    if "profile" in options:
        if options["profile"] not in ("local", "hosted"):
            raise LedgerMisnamed(
                f"{label}: no profile {options['profile']!r}; there are local, hosted"
            )
        return options["profile"] == "hosted"
    if scheme == "file":
        return False
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return "." in host and not host.endswith(_HOME)


def _size(text: str, label: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise LedgerMisnamed(f"{label}: large={text!r} is not a size; write large=20MB")
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


def ref_part(name: str) -> str:
    """A name as one part of a ref; two names never become the same."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", name)[:80]
    if plain == name and plain:
        return name
    return f"{plain.strip('-') or 'x'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Refs:
    """How the refs of one campaign's ledger are called.

    ::

        refs/benchfleet/<campaign>/ledger               what the ledger is, and its compactions
        refs/benchfleet/<campaign>/enrolled             every enrolment, one after the other
        refs/benchfleet/<campaign>/log/<installation>   what an installation did, commit by commit
        refs/benchfleet/<campaign>/state/<events>       a snapshot, for machines that come new
        refs/benchfleet/<campaign>/claims/<fingerprint> the last thing that happened to a cell
        refs/heads/machine/<host>-<installation>        the results of an installation
    """

    campaign: str

    @property
    def root(self) -> str:
        return f"{ROOT}/{ref_part(self.campaign)}"

    @property
    def ledger(self) -> str:
        return f"{self.root}/ledger"

    @property
    def enrolled(self) -> str:
        return f"{self.root}/enrolled"

    @property
    def logs(self) -> str:
        return f"{self.root}/log/"

    @property
    def snapshots(self) -> str:
        return f"{self.root}/state/"

    @property
    def claims(self) -> str:
        return f"{self.root}/claims/"


def mirror_folder(parent: Path, address: Address, campaign: str) -> Path:
    """Where an installation keeps what it saw of a ledger."""
    digest = hashlib.sha256(f"{address.remote}\n{campaign}".encode()).hexdigest()[:12]
    return parent / f"git-{digest}"
