"""LoRA adapters for tiny models, and the merged weights that they stand for."""

from __future__ import annotations

from pathlib import Path


def saved_lora(base: Path, folder: Path, *, seed: int, trained: bool = True) -> Path:
    """A LoRA adapter of random weights over the model in `base`; an untrained one adds nothing."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype="float32")
    settings = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])
    adapted = get_peft_model(model, settings)
    if trained:
        for name, weights in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weights, std=0.3)
    adapted.save_pretrained(str(folder))
    return folder


def merged(base: Path, lora: Path, folder: Path) -> Path:
    """The model with the adapter's weights merged into its own, with the base's tokenizer."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(base, dtype="float32")
    PeftModel.from_pretrained(model, lora).merge_and_unload().save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder
