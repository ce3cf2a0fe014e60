"""What a cell's failure says where the package for its LoRA adapter or quantization is missing."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from benchfleet.domain.cell import Model
from benchfleet.errors import CellFailure
from benchfleet.models import lora, quantization


def test_a_lora_adapter_without_peft_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora, "find_spec", lambda name: None)
    model = Model(
        name="m", adapter="transformers", source="m", digest="1", lora="l", lora_digest="2"
    )
    with pytest.raises(CellFailure, match=r"pip install 'benchfleet\[lora\]'") as raised:
        lora.LoraSwitch().switch(object(), model)
    assert raised.value.kind == "missing_extra"


def test_quantization_without_bitsandbytes_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(quantization, "version", missing)
    with pytest.raises(CellFailure, match=r"pip install 'benchfleet\[quantization\]'") as raised:
        quantization.check_quantization({"quantization_config": {"load_in_8bit": True}})
    assert raised.value.kind == "missing_extra"
