"""How long the stages of an image may take."""

from __future__ import annotations

import pytest

from benchfleet.rentals.stage_limits import stage_limits


@pytest.mark.parametrize(
    ("image", "boots_system", "provision", "login"),
    [
        ("ubuntu:24.04", False, 10, 10),
        ("ollama/ollama", False, 10, 10),
        ("vllm/vllm-openai:latest", False, 30, 20),
        ("lmsysorg/SGLang", True, 30, 20),
        ("ubuntu2404", True, 25, 10),
    ],
)
def test_heavy_images_and_whole_systems_may_take_longer(
    image: str, boots_system: bool, provision: int, login: int
) -> None:
    limits = stage_limits(image, boots_system=boots_system)
    assert (limits.provision, limits.ssh_wait) == (provision * 60, login * 60)
