"""How lm-eval's generators of RULER are called: seeded, bounded, and without the network.

By themselves they take 500 samples, never end where a text cannot be short enough, draw words from
a generator that remembers earlier tasks, and run code that a tokenizer's repository brings. For
tokenizers and lengths that suit them, their rows are the same here.

Imports lm-eval, and so torch: for slots alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from benchfleet.benchmarks.base import Session

from .url_file import fetch

_PACKAGE = "lm_eval.tasks.ruler"
_SEED = 42  # lm-eval's own for words
_OWN_SAMPLES = 500  # that lm-eval makes by itself
_EXAMPLE_NOISES, _EXAMPLE_HOPS, _EXAMPLE_TOKENS = 5, 4, 30  # of the example in variable tracking
_GENERATORS = {
    "niah_utils": "generate_samples",
    "vt_utils": "sys_vartrack_w_noise_random",
    "cwe_utils": "sys_word_pair_random",
    "fwe_utils": "sys_kwext",
    "qa_utils": "generate_samples",
}


@contextmanager
def made_for(
    session: Session, module_name: str, samples: int, downloads: Mapping[str, Path]
) -> Iterator[None]:
    """While this lasts, the generators of a module make so many samples. `downloads` are the files
    that it reads, by their names; those that are not there are fetched."""
    module = _module(module_name)
    name = _GENERATORS[module_name]
    bounded = _Bounded(session, 50 * (samples + 100))
    patches: dict[str, Any] = {
        "get_tokenizer": bounded.load,
        name: _generator(module, name, samples, bounded),
    }
    if module_name in ("vt_utils", "cwe_utils"):  # the others end by themselves
        patches["generate_input_output"] = bounded.counted(module)
    if module_name == "cwe_utils":
        patches["RNG"] = _word_chance(module, session.repeat)
    if module_name == "qa_utils":
        patches["download_json"] = _reader(downloads)
    _forget(module)
    originals = {attribute: getattr(module, attribute) for attribute in patches}
    try:
        vars(module).update(patches)
        yield
    finally:
        vars(module).update(originals)


class _Bounded:
    """A tokenizer that finds every text short once it was asked too often, which ends a search."""

    def __init__(self, session: Session, calls: int) -> None:
        self._session, self._calls = session, calls
        self._tokenizer: Any = None

    @property
    def exhausted(self) -> bool:
        return self._calls <= 0

    def load(self, name: str) -> _Bounded:
        """lm-eval's `get_tokenizer`, without code of the tokenizer's repository."""
        from transformers import AutoTokenizer

        kwargs = self._session.model.tokenizer_kwargs
        self._tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True, **kwargs)
        if not self._tokenizer("The quick brown fox").input_ids:
            raise ValueError(f"the tokenizer {name} finds no token in a text")
        return self

    def __call__(self, text: str) -> Any:
        self._calls -= 1
        return SimpleNamespace(input_ids=[]) if self.exhausted else self._tokenizer(text)

    def counted(self, module: ModuleType) -> Callable[..., Any]:
        """The module's `generate_input_output`, which may fail without a call of the tokenizer."""
        original = module.generate_input_output

        def generate_input_output(*args: Any, **kwargs: Any) -> Any:
            self._calls -= 1
            if not self.exhausted:
                return original(*args, **kwargs)
            text = module.TEMPLATE.format(context="", query="", num_v=0)
            return (text, []) if module.__name__.endswith("vt_utils") else ("", text, [])

        return generate_input_output


def _generator(
    module: ModuleType, name: str, samples: int, bounded: _Bounded
) -> Callable[..., Any]:
    original = getattr(module, name)

    def generate(*args: Any, **kwargs: Any) -> Any:
        length = kwargs["max_seq_length"]
        if kwargs.get("num_samples", _OWN_SAMPLES) == 1:  # the example of variable tracking
            kwargs["max_seq_length"] = max(length, _example_tokens(module, bounded))
        else:
            kwargs["num_samples"] = samples
            example = kwargs.get("icl_example")
            if example and len(bounded(_example_text(example)).input_ids) >= length:
                raise ValueError(_too_short(length))
        rows = original(*args, **kwargs)
        if bounded.exhausted or not all(row["outputs"] for row in rows):
            raise ValueError(_too_short(length))
        return rows

    return generate


def _too_short(length: int) -> str:
    return f"its prompts do not fit into {length} tokens of this tokenizer; ask for a longer text"


def _example_text(example: Mapping[str, Any]) -> str:
    return f"{example['input']} {' '.join(example['outputs'])}\n\n"


def _example_tokens(module: ModuleType, bounded: _Bounded) -> int:
    """What the shortest example takes, and a tenth more; chance stays as it was."""
    import numpy

    state, other = random.getstate(), numpy.random.get_state()
    text, answer = module.generate_input_output(_EXAMPLE_NOISES, 1, _EXAMPLE_HOPS, is_icl=True)
    random.setstate(state)
    numpy.random.set_state(other)
    return (len(bounded(f"{text} {answer}").input_ids) + _EXAMPLE_TOKENS) * 11 // 10


def _word_chance(module: ModuleType, repeat: int) -> random.Random:
    """What draws the words, as it is in a new process."""
    chance = random.Random(_SEED + repeat)  # noqa: S311 - data, not secrets
    chance.shuffle(sorted(module.WORDS))
    return chance


def _reader(downloads: Mapping[str, Path]) -> Callable[[str], Any]:
    import json

    def download_json(url: str) -> Any:
        file = downloads[url.rpartition("/")[2]]
        if not file.is_file():
            fetch(url, file)
        return json.loads(file.read_text("utf-8"))

    return download_json


def _module(name: str) -> ModuleType:
    """One of lm-eval's modules, marked so that its tasks use this one and load no other."""
    import nltk

    download, nltk.download = nltk.download, lambda *_, **__: False  # importing fetches
    try:
        module = import_module(f"{_PACKAGE}.{name}")
    finally:
        nltk.download = download
    module.__mtime__ = Path(str(module.__file__)).stat().st_mtime_ns  # type: ignore[attr-defined]
    return module


def _forget(module: ModuleType) -> None:
    """Drop the texts of other data folders."""
    caches: Sequence[str] = ("get_haystack", "read_squad", "read_hotpotqa", "download_json")
    for name in caches:
        clear = getattr(getattr(module, name, None), "cache_clear", None)
        if clear:
            clear()
