"""What may stand under ``hardware``, and rules over it."""

from __future__ import annotations

from benchfleet.campaign.hardware import read_hardware
from benchfleet.campaign.rules import Axes, read_exclude
from benchfleet.domain.hardware import Hardware

from .reading import mistakes_of, read


def test_an_entry_has_a_name_of_its_gpu_and_provider() -> None:
    entry = read(
        """\
        - {gpu: RTX 4090, provider: vast}
        - A100 80GB
        - {name: two, gpu: H100, gpus: 2, provider: local}
        """
    )
    assert read_hardware(entry) == [
        Hardware(name="rtx-4090-vast", gpu="RTX 4090", provider="vast"),
        Hardware(name="a100-80gb", gpu="A100 80GB"),
        Hardware(name="two", gpu="H100", gpus=2, provider="local"),
    ]
    assert mistakes_of(entry) == {}


def test_mistakes_say_what_to_write() -> None:
    entry = read(
        """\
        - {gpu: RTX 4090, provider: vats}
        - {name: one, provider: vast}
        - {name: one, gpu: H100}
        - {name: same, gpu: NVIDIA H100}
        - {name: one, gpu: H200}
        """
    )
    read_hardware(entry)
    messages = list(mistakes_of(entry).values())
    assert "did you mean 'vast'?" in messages[0]
    assert "names no GPU" in messages[1]
    assert "are the same hardware" in messages[2]
    assert "stands twice" in messages[3]


def test_a_rule_is_held_against_the_hardware_of_its_matrix() -> None:
    axes = Axes(models=["7b"], configs=["dense"], workloads=[("s", "")], hardware=["a"], repeats=1)
    assert read_exclude(read("{hardware: a}"), axes)
    entry = read("{hardware: b}")
    read_exclude(entry, axes)
    assert "no hardware 'b' in this matrix" in next(iter(mistakes_of(entry).values()))
