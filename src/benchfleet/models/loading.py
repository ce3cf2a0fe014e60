"""Bringing a checkpoint into memory, and the names of what may go wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from traceback import clear_frames
from typing import Any

from benchfleet.domain.failure import Stage
from benchfleet.errors import CellFailure
from benchfleet.models.device_map import check_device_map, check_gpus
from benchfleet.models.digest import checkpoint_config
from benchfleet.models.quantization import check_quantization

_DTYPES = ("auto", "float32", "bfloat16", "float16", "float64")
_DTYPE_KEYS = ("dtype", "torch_dtype")
_TOKEN_KEYS = ("token", "use_auth_token")
_OURS = {
    "revision": "write it with the model's name, as name@revision",
    "cache_dir": "set HF_HOME instead",
    "local_files_only": "nothing is ever downloaded",
    "output_loading_info": "it is for benchfleet to ask",
    **dict.fromkeys(_TOKEN_KEYS, "set HF_TOKEN instead, which is kept nowhere"),
}
_HARMLESS = frozenset(
    {"dtype", "torch_dtype", "device_map", "max_memory", "attn_implementation", "rope_scaling"}
    | {"quantization_config", "variant", "subfolder", "padding_side", "truncation_side"}
    | {"chat_template", "bos_token", "eos_token", "pad_token", "unk_token"}
)
_SWITCHES_OF_CODE = frozenset({"trust_remote_code", "weights_only", "use_kernels"})
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory")


def check_kwargs(kwargs: Mapping[str, Any]) -> str | None:
    """What is wrong with a model's `model_kwargs` and what to do about it, or None."""
    for name, instead in _OURS.items():
        if name in kwargs:
            return f"model_kwargs may not hold {name}; {instead}"
    if "device_map" in kwargs and (why := check_device_map(kwargs["device_map"])):
        return why
    names = [name for name in _DTYPE_KEYS if name in kwargs]
    if len(names) > 1:
        return "dtype and torch_dtype are one setting; remove torch_dtype"
    for name in names:
        value = kwargs[name]
        if not isinstance(value, str) or value.removeprefix("torch.") not in _DTYPES:
            return f"{name} must be one of {', '.join(_DTYPES)}; not {value!r}"
    return None


def check_tokenizer_kwargs(kwargs: Mapping[str, Any]) -> str | None:
    """What is wrong with a model's `tokenizer_kwargs` and what to do about it, or None."""
    for name in _TOKEN_KEYS:
        if name in kwargs:
            return f"tokenizer_kwargs may not hold {name}; {_OURS[name]}"
    return None


def code_kwargs(kwargs: Mapping[str, Any]) -> str:
    """Those of the kwargs of `from_pretrained` that may have code run; ``""`` where none does.

    What is not known to be harmless counts, but for plain numbers and switches.
    """
    unknown = [
        name
        for name, value in kwargs.items()
        if name in _SWITCHES_OF_CODE
        or not (value is None or isinstance(value, (bool, int, float)) or name in _HARMLESS)
        or (name == "attn_implementation" and "/" in str(value))  # a kernel of the hub
    ]
    return f"the kwargs {', '.join(unknown)}" if unknown else ""


def load_checkpoint(
    folder: str, model_kwargs: Mapping[str, Any], tokenizer_kwargs: Mapping[str, Any]
) -> tuple[Any, Any]:
    """The model, ready to answer, and its tokenizer.

    A CPU takes float32 and a GPU the checkpoint's own dtype unless `model_kwargs` name one. All
    the devices in sight are used: a model is spread over several GPUs.
    Raises ValueError for kwargs or a checkpoint that cannot be, MemoryError, and what transformers
    raises.
    """
    import torch
    from transformers import AutoModelForCausalLM

    wrong = check_kwargs(model_kwargs)
    if wrong is not None:
        raise ValueError(wrong)
    kwargs = {name: value for name, value in model_kwargs.items() if name not in _DTYPE_KEYS}
    device = _device()
    check_gpus(kwargs.get("device_map"), torch.cuda.device_count())
    spread = "device_map" not in kwargs and device == "cuda"
    if spread:
        kwargs["device_map"] = {"": 0} if torch.cuda.device_count() == 1 else "auto"
    named = next((model_kwargs[name] for name in _DTYPE_KEYS if name in model_kwargs), None)
    dtype = (named or ("float32" if device == "cpu" else "auto")).removeprefix("torch.")
    check_quantization(model_kwargs)
    check_quantization(checkpoint_config(folder))
    trusts = {"trust_remote_code": False}  # not given, transformers asks on standard input
    tokenizer = load_tokenizer(folder, tokenizer_kwargs)
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, local_files_only=True, output_loading_info=True, **{**trusts, **kwargs}
    )
    if info["missing_keys"]:
        some = ", ".join(sorted(info["missing_keys"])[:3])
        raise ValueError(
            f"the checkpoint lacks weights, which would be random ({some}, …);"
            " save the whole model again"
        )
    if spread and {"cpu", "disk"} & {str(part) for part in model.hf_device_map.values()}:
        raise MemoryError("the model does not fit into the memory of this slot's GPUs")
    return (model if "device_map" in kwargs else model.to(device)).eval(), tokenizer


def load_tokenizer(folder: str, tokenizer_kwargs: Mapping[str, Any]) -> Any:
    """The tokenizer of a checkpoint. Raises what transformers raises."""
    from transformers import AutoTokenizer

    trusts = {"trust_remote_code": False}  # not given, transformers asks on standard input
    return AutoTokenizer.from_pretrained(
        folder, local_files_only=True, **{**trusts, **tokenizer_kwargs}
    )


def empty_checkpoint(
    folder: str, model_kwargs: Mapping[str, Any], tokenizer_kwargs: Mapping[str, Any]
) -> tuple[Any, Any]:
    """As `load_checkpoint`, with the model's modules but none of its weights: on torch's ``meta``
    device. It knows how long texts may be, and computes nothing."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    trusts = {"trust_remote_code": model_kwargs.get("trust_remote_code", False)}
    tokenizer = load_tokenizer(folder, tokenizer_kwargs)
    config = AutoConfig.from_pretrained(folder, local_files_only=True, **trusts)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, **trusts)
    return model.eval(), tokenizer


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends an answer, by the model's account and the tokenizer's."""
    ends = model.generation_config.eos_token_id if model.generation_config else None
    ids = list(ends) if isinstance(ends, (list, tuple)) else [ends]
    return [end for end in (*ids, tokenizer.eos_token_id) if end is not None]


def generation_settings(model: Any) -> dict[str, Any]:
    """The generation settings that a checkpoint brings and that apply to every answer."""
    penalty = getattr(model.generation_config, "repetition_penalty", None)
    return {} if penalty in (None, 1) else {"repetition_penalty": float(penalty)}


@contextmanager
def classify_load_errors(stage: Stage) -> Iterator[None]:
    """Give what is raised while a model is loaded or switched its kind."""
    try:
        with out_of_memory(stage):
            yield
    except ImportError as error:
        message = f"{error}; pip install 'benchfleet[hf]' brings what most models need"
        raise CellFailure(stage=stage, kind="missing_extra", message=message) from error
    except FileNotFoundError as error:
        raise CellFailure(stage=stage, kind="model_not_found", message=str(error)) from error
    except (ValueError, TypeError) as error:
        raise CellFailure(stage=stage, kind="user_error", message=str(error)) from error


@contextmanager
def out_of_memory(stage: Stage) -> Iterator[None]:
    """Turn the ways in which memory ends into one failure, which may be tried again."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # torch.OutOfMemoryError is a RuntimeError, and what the CPU raises is only that.
        text = str(error).lower()
        if not isinstance(error, MemoryError) and not any(sign in text for sign in _OUT_OF_MEMORY):
            raise
        # The frames that failed hold tensors for as long as the error is looked at.
        clear_frames(error.__traceback__)
        raise CellFailure(
            stage=stage, kind="oom", message=str(error) or "out of memory", retryable=True
        ) from error


def empty_device_caches() -> None:
    """Give memory that torch keeps for later back to the devices."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
