"""Opens the accounts at providers that an inventory names."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet import registry
from benchfleet.domain.rent import ProviderAccess
from benchfleet.domain.rental import Account
from benchfleet.providers.base import Provider
from benchfleet.providers.secret import read_secret


def open_provider(access: ProviderAccess) -> Provider:
    """The account of a provider. Raises PluginError, SecretError."""
    plugin: type[Provider] = registry.load("providers", access.name)
    key = read_secret(access.key or f"env:{plugin.key_variable}")
    provider = plugin.open(key, access.url)
    if access.visible_within is not None:
        provider.visible_within_s = access.visible_within
    return provider


def open_accounts(accesses: Sequence[ProviderAccess]) -> dict[Account, Provider]:
    """All accounts, by what identifies them. Asks each provider who we are. Raises ProviderError,
    PluginError, SecretError."""
    providers = [open_provider(access) for access in accesses]
    return {provider.account(): provider for provider in providers}
