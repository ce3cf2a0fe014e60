"""A ledger's URL: taken apart, as people may see it, and what is usual where it leads."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import unquote

from benchfleet import registry
from benchfleet.errors import UnknownName
from benchfleet.ledger.base import DEFAULT_LEASE_S

MAX_NAME_BYTES = 63  # bytes of an identifier in PostgreSQL
_NO_SECRET = ("passfile",)  # of the options whose names speak of a password or secret
_NO_URL = re.compile(  # libpq's other form, and a URL that lacks a part of its ://
    r"\s*(host|hostaddr|port|dbname|user|password|service)\s*=|postgres(ql)?(?!://)(:|//)"
)
_PASSWORD = re.compile(r"(//[^:@/?]*):(.*)@")  # to the last @: it may be spelt wrongly
_OPTION = re.compile(r"(?<=[?&])([^=&]+)=([^&]*)&?")
_WORD = re.compile(
    r"""\b(\w*(?:pass(?!file)|secret)\w*\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s'&]+)""", re.I
)
_QUOTED = re.compile(r"""(["'])(.+?)\1""")


def schema_name(campaign: str) -> str:
    """The name of the schema that a campaign's ledger has to itself."""
    plain = re.sub(r"[^a-z0-9_]", "_", campaign)
    name = f"benchfleet_{plain}"
    if plain != campaign or len(name) > MAX_NAME_BYTES:
        digest = hashlib.sha256(campaign.encode()).hexdigest()[:8]
        name = f"{name[: MAX_NAME_BYTES - 9]}_{digest}"
    return name


def display_url(url: str) -> str:
    """The URL as people may see it: without a password."""
    return redact(url).rstrip("?&")


def redact(text: str) -> str:
    """The same with no password of an address in it."""
    without = _OPTION.sub(lambda one: "" if _secret(one) else one[0], text)  # they may have an @
    without = _PASSWORD.sub(r"\1@", without)
    return _WORD.sub(r"\1…", without)


def redact_message(text: str, url: str) -> str:
    """A driver's error text about the URL, without the URL's passwords and quoted parts of them."""
    secrets = [match[2] for match in _PASSWORD.finditer(url)]
    secrets += [one[2] for one in _OPTION.finditer(url) if _secret(one)]

    def cited(quoted: re.Match[str]) -> str:
        return '"…"' if any(quoted[2] in secret for secret in secrets) else quoted[0]

    return _QUOTED.sub(cited, text.replace(url, display_url(url)))


def has_reserved_characters(url: str) -> bool:
    """Whether a password stands in the URL with characters that would part it elsewhere."""
    match = re.match(r"[^:]+://[^:@/?]*:([^?]*)@", url)
    return match is not None and bool(re.search(r"[@/\s]|%(?![0-9A-Fa-f]{2})", match[1]))


def _secret(option: re.Match[str]) -> bool:
    name = unquote(option[1]).lower()
    return ("pass" in name or "secret" in name) and name not in _NO_SECRET


def split_url(url: str) -> tuple[str, str]:
    """``sqlite:///abs/ledger.db``, ``sqlite:rel.db``, a bare path, or ``postgresql://host/db`` as
    scheme and rest. A name alone, ``sqlite:///ledger.db``, is in the current folder, as
    SQLAlchemy has it. Raises UnknownName for a scheme that no ledger has, and for an address
    of PostgreSQL that is not a URL."""
    if _NO_URL.match(url):
        raise UnknownName(
            "the address of a ledger on PostgreSQL is a URL, and this is none: write "
            "postgresql://USER@HOST:PORT/DATABASE, and keep the password in ~/.pgpass or PGPASSWORD"
        )
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme:
        return "sqlite", url
    if scheme not in registry.names("ledgers"):
        raise UnknownName(registry.no_such("ledgers", scheme))
    if scheme == "sqlite" and re.fullmatch(r"///[^/]+", rest):
        return scheme, rest.removeprefix("///")
    rest = rest.removeprefix("//")
    if scheme == "sqlite" and rest.startswith("//"):  # sqlite:////abs/ledger.db, as others write it
        rest = "/" + rest.lstrip("/")
    return scheme, rest


def are_distinct(one: str, other: str) -> bool:
    """Whether two addresses, their paths absolute, lead to two ledgers. A server may be known by
    several addresses, so two of one kind may be the same, unless they name two databases."""
    kinds = [_kind(split_url(address)[0]) for address in (one, other)]
    if one == other or kinds[0] != kinds[1] or "sqlite" in kinds:
        return one != other
    databases = {_database(address) for address in (one, other)}
    return kinds[0] == "postgresql" and len(databases - {""}) == 2


def _database(url: str) -> str:
    """The name of the database in an address of PostgreSQL; ``""`` where something else says it."""
    before, _, query = url.partition("?")
    options = {unquote(option.partition("=")[0]) for option in query.split("&")}
    _, _, name = before.partition("://")[2].partition("/")
    return "" if "dbname" in options else unquote(name)


def _kind(scheme: str) -> str:
    return "postgresql" if scheme == "postgres" else scheme.partition("+")[0]


def default_lease(url: str) -> float:
    """Seconds of a lease in this ledger: longer where a heartbeat is dear."""
    if not url:
        return DEFAULT_LEASE_S
    kind = registry.load("ledgers", split_url(url)[0])
    return float(kind.default_lease_s)
