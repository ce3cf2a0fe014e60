"""Asking the Hugging Face hub which commit a name means: two small requests, nothing heavy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from benchfleet.environment import hub_token, offline, without_token
from benchfleet.reachability import HUB, unreachable_hub

_TIMEOUT_S = 10.0  # seconds for one answer


class HubRefused(ValueError):
    """The hub does not give the model away; nothing to wait for."""


class HubUnreachable(ValueError):
    """The hub could not be asked."""


def commit_of(name: str, revision: str, *, environ: Mapping[str, str]) -> str:
    """The commit that the revision means now, of a model whose files may be had.

    Raises HubRefused where there is none or it is not for this user, HubUnreachable where the
    hub cannot be asked.
    """
    from urllib.parse import quote

    base = _address(environ)
    what = f"{name}@{revision}"
    about = f"{base}/api/models/{quote(name)}/revision/{quote(revision, safe='')}"
    try:
        commit = str(json.loads(_ask("GET", about, what, environ))["sha"])
    except (KeyError, TypeError, json.JSONDecodeError):
        raise HubUnreachable(f"{base} does not answer as a hub does") from None
    # What a gated model is, everyone may know; its files tell whether they may be had.
    _ask("HEAD", f"{base}/{quote(name)}/resolve/{commit}/config.json", what, environ)
    return commit


def config_of(name: str, commit: str, *, environ: Mapping[str, str]) -> dict[str, Any]:
    """The config.json of a model, without its other files. Raises as `commit_of`."""
    from urllib.parse import quote

    base = _address(environ)
    file = f"{base}/{quote(name)}/resolve/{commit}/config.json"
    try:
        config = json.loads(_ask("GET", file, name, environ))
    except json.JSONDecodeError:
        raise HubUnreachable(f"{base} does not answer as a hub does") from None
    return config if isinstance(config, dict) else {}


def revisions_of(name: str, *, environ: Mapping[str, str]) -> list[str]:
    """The branches and tags of a model. Raises as `commit_of`."""
    from urllib.parse import quote

    base = _address(environ)
    try:
        refs = json.loads(_ask("GET", f"{base}/api/models/{quote(name)}/refs", name, environ))
        return [str(ref["name"]) for kind in ("branches", "tags") for ref in refs.get(kind, ())]
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
        raise HubUnreachable(f"{base} does not answer as a hub does") from None


def _address(environ: Mapping[str, str]) -> str:
    """The hub's address. Raises HubUnreachable where it cannot be asked."""
    if variable := offline(environ):
        raise HubUnreachable(f"{variable} is set")
    base = environ.get("HF_ENDPOINT", "").rstrip("/") or HUB
    if not base.startswith(("http://", "https://")):
        raise HubUnreachable(f"HF_ENDPOINT is not a web address: {base}")
    if host := unreachable_hub(environ):
        raise HubUnreachable(f"{host} cannot be reached")
    return base


def _ask(method: str, url: str, what: str, environ: Mapping[str, str]) -> bytes:
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    request = Request(url, method=method, headers={"User-Agent": "benchfleet"})  # noqa: S310
    if token := hub_token(environ):
        # Not sent on where the answer sends to another host.
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - of a base whose scheme was checked
            return bytes(answer.read())
    except HTTPError as error:
        with error:
            raise _refusal(error, what, bool(token)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        detail = getattr(reason, "strerror", None) or str(reason)
        raise HubUnreachable(without_token(detail, environ)) from None


def _refusal(error: Any, what: str, has_token: bool) -> ValueError:
    code = error.headers.get("X-Error-Code", "")
    name, _, revision = what.partition("@")
    if code == "RevisionNotFound":
        return HubRefused(f"the hub has no revision {revision!r} of {name}")
    if code == "EntryNotFound":
        return HubRefused(f"{name} on the hub holds no config.json; name a model of transformers")
    if code == "GatedRepo" or error.code == 403:
        return HubRefused(gated(name, has_token))
    if error.code in (401, 404):
        more = "" if has_token else "; if it is private, set HF_TOKEN"
        return HubRefused(f"the hub has no model {name}{more}")
    return HubUnreachable(f"it answered {error.code} {error.reason}")


def gated(name: str, has_token: bool) -> str:
    """What to do about a model that is given to those alone who asked."""
    if has_token:
        return f"{name} is gated: ask for access on its page, as the user whose HF_TOKEN is set"
    return f"{name} is gated: ask for access on its page, then set HF_TOKEN to a token of yours"
