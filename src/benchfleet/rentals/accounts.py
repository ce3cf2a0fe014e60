"""Opens the accounts at providers that an inventory names."""

from __future__ import annotations

from collections.abc import Sequence

from benchfleet import registry
from benchfleet.domain.rent import ProviderAccess
from benchfleet.domain.rental import Account
from benchfleet.environment import hide_variable
from benchfleet.providers.base import Provider
from benchfleet.providers.secret import Secret, read_secret


def hide_keys(accesses: Sequence[ProviderAccess]) -> None:
    """Leave the variables that have keys out of the environment of processes that are started from
    now on. Raises PluginError."""
    for access in accesses:
        source = access.key or f"env:{_plugin(access).key_variable}"
        if source.startswith("env:"):
            hide_variable(source.removeprefix("env:"))


def _plugin(access: ProviderAccess) -> type[Provider]:
    plugin: type[Provider] = registry.load("providers", access.name)
    return plugin


def open_provider(access: ProviderAccess) -> Provider:
    """The account of a provider. Raises PluginError, SecretError."""
    plugin = _plugin(access)
    source = access.key or (f"env:{plugin.key_variable}" if plugin.key_variable else "")
    key = read_secret(source) if source else Secret("")
    provider = plugin.open(key, access.url)
    if access.visible_within is not None:
        provider.visible_within_s = access.visible_within
    return provider


def open_accounts(accesses: Sequence[ProviderAccess]) -> dict[Account, Provider]:
    """All accounts, by what identifies them. Asks each provider who we are. Raises ProviderError,
    PluginError, SecretError."""
    providers = [open_provider(access) for access in accesses]
    return {provider.account(): provider for provider in providers}
