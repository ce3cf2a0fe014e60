"""The ``notify`` of a campaign file."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchfleet.campaign.load import load_campaign
from benchfleet.domain.notification import NOTIFICATION_KINDS, NotificationSettings
from benchfleet.errors import CampaignError

TEXT = """\
campaign: study
notify: {notify}
matrix: {{models: [{{name: m, adapter: mock}}], benchmarks: [mock_benchmark]}}
"""


def read(folder: Path, notify: str) -> NotificationSettings | None:
    file = folder / "study.yaml"
    file.write_text(TEXT.format(notify=notify))
    return load_campaign(file).notify


def test_addresses_are_named_and_the_rest_has_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, "{to: env:CHAT}") == NotificationSettings(to=("env:CHAT",))
    assert read(
        tmp_path, '{to: [env:A, "file:~/b"], on: [failures], failures: 2.5%, every: 1h}'
    ) == NotificationSettings(
        to=("env:A", "file:~/b"), on=("failures",), failures=0.025, every=3600.0
    )
    assert read(tmp_path, "null") is None
    assert len(NOTIFICATION_KINDS) == 7


def test_the_record_for_other_hosts_says_where_addresses_are_and_not_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT", "json://secret")
    read(tmp_path, "{to: env:CHAT}")
    record = load_campaign(tmp_path / "study.yaml").record
    assert record
    assert "env:CHAT" in str(record.event().data)
    assert "secret" not in str(record.event().data)


@pytest.mark.parametrize(
    ("notify", "message"),
    [
        ("{}", "name the addresses as env:NAME or file:PATH"),
        ("{to: 'slack://a/b/c'}", "is not env:NAME or file:PATH"),
        ("{to: env:A, on: [done]}", "no message 'done'"),
        ("{to: env:A, failures: 150%}", "invalid share '150%': use 0% to 100%"),
        ("{to: env:A, every: soon}", "every"),
    ],
)
def test_mistakes_are_named_and_no_address_is_repeated(
    notify: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(CampaignError) as caught:
        read(tmp_path, notify)
    assert message in str(caught.value)
    assert "slack" not in str(caught.value)
