"""The providers that come with benchfleet keep the contract, each against its simulated API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from benchfleet.providers import runpod, tensordock, vast
from benchfleet.providers.base import CreatedBroken, ProviderError
from benchfleet.providers.client import ApiClient
from benchfleet.providers.secret import Secret
from benchfleet.testing.provider_contract import ProviderContract
from benchfleet.testing.simulated_runpod import RunPodApi
from benchfleet.testing.simulated_tensordock import TensorDockApi
from benchfleet.testing.simulated_vast import VastApi


class TestVast(ProviderContract):
    api = VastApi
    intervals = vast.INTERVALS
    definite: ClassVar[Mapping[str, type[ProviderError]]] = {
        **ProviderContract.definite,
        "broken": CreatedBroken,
    }
    unknown: ClassVar[Mapping[str, int]] = {**ProviderContract.unknown, "broken": 1}

    def make_provider(self, key: Secret, client: ApiClient) -> vast.VastProvider:
        return vast.VastProvider(client)


class TestTensorDock(ProviderContract):
    api = TensorDockApi
    intervals = tensordock.INTERVALS

    def make_provider(self, key: Secret, client: ApiClient) -> tensordock.TensorDockProvider:
        return tensordock.TensorDockProvider(client)


class TestRunPod(ProviderContract):
    api = RunPodApi
    intervals = runpod.INTERVALS

    def make_provider(self, key: Secret, client: ApiClient) -> runpod.RunPodProvider:
        return runpod.RunPodProvider(client, "https://provider.test")
