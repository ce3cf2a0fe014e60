"""Reads the addresses that a campaign's messages go to."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from benchfleet.domain.notification import NotificationSettings
from benchfleet.errors import CampaignError, MissingExtra, Mistake
from benchfleet.providers.secret import Secret, SecretError, read_secret


def read_addresses(settings: NotificationSettings, folder: Path | None) -> list[Secret]:
    """The addresses, each hidden from messages and from the environment of cells. Files are
    relative to `folder`.

    Raises `CampaignError` if the addresses cannot be read, and `MissingExtra` without Apprise.
    """
    if find_spec("apprise") is None:
        raise MissingExtra("'notify' needs apprise; pip install 'benchfleet[notify]'")
    addresses: list[Secret] = []
    for source in settings.to:
        kind, _, name = source.partition(":")
        if kind == "file":
            source = f"file:{Path(folder or '.', Path(name).expanduser())}"
        try:
            text = read_secret(source).reveal()
        except SecretError as error:
            text = str(error).replace("the provider's key", "addresses of Apprise")
            mistake = Mistake(key="notify.to", message=text)
            raise CampaignError("campaign", [mistake]) from None
        addresses += [Secret(one) for one in text.split()]
    return addresses
