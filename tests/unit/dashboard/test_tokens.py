"""One-time links and sessions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchfleet.dashboard.tokens import LINK_LIFETIME_S, SESSION_LIFETIME_S, Tokens, own_key


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_link_opens_one_session() -> None:
    tokens = Tokens(b"key", 8050)
    link = tokens.link()
    assert tokens.spend(link)
    assert not tokens.spend(link)


def test_tokens_expire() -> None:
    clock = Clock()
    tokens = Tokens(b"key", 8050, clock)
    link, session = tokens.link(), tokens.session()
    clock.now += LINK_LIFETIME_S + 1
    assert not tokens.spend(link)
    assert tokens.is_session(session)
    clock.now += SESSION_LIFETIME_S
    assert not tokens.is_session(session)


@pytest.mark.parametrize(
    "other",
    [Tokens(b"another key", 8050), Tokens(b"key", 8051)],
    ids=["another user's", "another port's"],
)
def test_tokens_of_others_are_refused(other: Tokens) -> None:
    tokens = Tokens(b"key", 8050)
    assert not tokens.spend(other.link())
    assert not tokens.is_session(other.session())


def test_a_link_is_not_a_session_and_nonsense_is_neither() -> None:
    tokens = Tokens(b"key", 8050)
    assert not tokens.is_session(tokens.link())
    assert not tokens.spend(tokens.session())
    for nonsense in ("", ".", "a.b.c", "\u00e9.\u00e9", "9999999999.x."):
        assert not tokens.spend(nonsense)
        assert not tokens.is_session(nonsense)


def test_a_session_outlives_the_server() -> None:
    assert Tokens(b"key", 8050).is_session(Tokens(b"key", 8050).session())


def test_the_key_is_made_once_for_this_user_alone(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    key = own_key(environ)
    assert len(key) == 32
    assert own_key(environ) == key
    (file,) = tmp_path.rglob("dashboard.key")
    assert file.stat().st_mode & 0o777 == 0o600
    os.chmod(file, 0o644)
    with pytest.raises(PermissionError, match="readable by others"):
        own_key(environ)
