"""What every adapter must do, as a suite that any adapter can be put through.

Derive from `AdapterContract` in a test module and write `make_model`::

    class TestMyAdapter(AdapterContract):
        @classmethod
        def make_model(cls, folder):
            return cls.model_of("my_adapter", "my-model")

The model may be tiny, but it must be real: the suite loads it and asks it.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benchfleet.domain.cell import Config, Model
from benchfleet.models.base import Adapter, Answer, Prompt, adapter_class

DENSE = Config(name="dense")
GREEDY = {"max_new_tokens": 4, "temperature": 0, "seed": 7}
PROMPTS = [Prompt(context=f"text {number} ", question="why?") for number in range(5)]
HOSTILE = ["\0", "\ud7ff\u200b\u202e", "😀" * 50, "<script>alert(1)</script>", "[red]{x}%s\\"]
_HEAVY = "import sys; from benchfleet import registry; registry.load('models', sys.argv[1]); "
_HEAVY += "print([name for name in ('torch', 'transformers', 'vllm') if name in sys.modules])"


class AdapterContract:
    """The behaviour of an adapter; see `benchfleet.models.base`."""

    batch_is_exact: ClassVar[bool] = True  # False: a batch may change the last digits of scores

    @classmethod
    def make_model(cls, folder: Path) -> Model:
        """The model of the suite; `folder` is empty and is kept for all tests of the class."""
        raise NotImplementedError

    @staticmethod
    def model_of(adapter: str, source: str, **kwargs: Any) -> Model:
        """A model as a campaign declares it."""
        kind = adapter_class(adapter)
        outside = {name: value for name, value in kwargs.items() if name in kind.outside}
        return Model(
            name="m",
            adapter=adapter,
            source=source,
            digest=kind.identify(source, kwargs),
            adapter_version=kind.version,
            model_kwargs={k: value for k, value in kwargs.items() if k not in outside},
            outside=outside,
        )

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Model:
        return cls.make_model(tmp_path_factory.mktemp("model"))

    @pytest.fixture(scope="class")
    @classmethod
    def adapter(cls, model: Model) -> Iterator[Adapter]:
        adapter = adapter_class(model.adapter)(model)
        try:
            adapter.load()
            adapter.configure(DENSE)
            yield adapter
        finally:
            adapter.unload()

    def test_its_identity_is_a_text_that_does_not_change(self, model: Model) -> None:
        kind = adapter_class(model.adapter)
        assert model.digest
        assert kind.identify(model.source, model.kwargs) == model.digest
        assert isinstance(kind.version, int)
        assert all(isinstance(name, str) for name in (*kind.outside, *kind.keys))

    def test_it_takes_a_dense_config_and_common_settings(self, model: Model) -> None:
        kind = adapter_class(model.adapter)
        assert kind.check(model, DENSE) is None
        assert dict(kind.check_generation(GREEDY)) == {}

    def test_wrong_settings_get_messages_and_raise_nothing(self, model: Model) -> None:
        messages = adapter_class(model.adapter).check_generation({"max_new_tokens": "x", "y": 1})
        assert all(isinstance(text, str) and text for text in messages.values())

    def test_it_names_code_and_downloads(self, model: Model) -> None:
        kind = adapter_class(model.adapter)
        assert isinstance(kind.code(model), str)
        assert all(str(one) and one.kind for one in kind.downloads(model))

    def test_its_module_imports_nothing_heavy(self, model: Model) -> None:
        words = [sys.executable, "-c", _HEAVY, model.adapter]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "[]"

    def test_each_prompt_gets_one_answer_in_order(self, adapter: Adapter) -> None:
        answers = adapter.answer(PROMPTS, GREEDY)
        assert len(answers) == len(PROMPTS)
        for answer in answers:
            check_answer(adapter, answer)
        if self.batch_is_exact:
            alone = [adapter.answer([prompt], GREEDY)[0].text for prompt in PROMPTS]
            assert [answer.text for answer in answers] == alone

    def test_greedy_answers_do_not_depend_on_earlier_ones(self, adapter: Adapter) -> None:
        first = [answer.text for answer in adapter.answer(PROMPTS, GREEDY)]
        adapter.answer(PROMPTS[::-1], {**GREEDY, "max_new_tokens": 2})
        assert [answer.text for answer in adapter.answer(PROMPTS, GREEDY)] == first

    def test_answers_come_one_by_one_too_each_position_once(self, adapter: Adapter) -> None:
        answers = dict(adapter.answer_each(PROMPTS, GREEDY))
        assert sorted(answers) == list(range(len(PROMPTS)))

    def test_no_prompts_get_no_answers(self, adapter: Adapter) -> None:
        assert list(adapter.answer([], GREEDY)) == []

    def test_messages_with_roles_are_answered(self, adapter: Adapter) -> None:
        prompt = Prompt(messages=(("user", "Who are you?"),))
        (answer,) = adapter.answer([prompt], GREEDY)
        check_answer(adapter, answer)

    @pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
    def test_hostile_texts_are_answered(self, adapter: Adapter, text: str) -> None:
        (answer,) = adapter.answer([Prompt(context=text, question="?")], GREEDY)
        check_answer(adapter, answer)

    def test_a_config_may_be_set_again(self, adapter: Adapter) -> None:
        before = [answer.text for answer in adapter.answer(PROMPTS[:2], GREEDY)]
        adapter.configure(DENSE)
        assert [answer.text for answer in adapter.answer(PROMPTS[:2], GREEDY)] == before

    def test_its_provenance_is_json(self, adapter: Adapter) -> None:
        provenance = adapter.provenance()
        assert provenance["adapter"]
        json.dumps(dict(provenance), allow_nan=False)

    def test_it_may_be_unloaded_twice_without_having_been_loaded(self, model: Model) -> None:
        adapter = adapter_class(model.adapter)(model)
        adapter.unload()
        adapter.unload()

    def test_it_answers_the_same_after_it_was_loaded_again(
        self, model: Model, adapter: Adapter
    ) -> None:
        before = [answer.text for answer in adapter.answer(PROMPTS[:2], GREEDY)]
        other = adapter_class(model.adapter)(model)
        try:
            other.load()
            other.configure(DENSE)
            assert [answer.text for answer in other.answer(PROMPTS[:2], GREEDY)] == before
        finally:
            other.unload()


def check_answer(adapter: Adapter, answer: Answer) -> None:
    """Whether an answer can be recorded, and measures what its adapter says."""
    assert isinstance(answer.text, str)
    json.dumps([answer.text, dict(answer.measures)], allow_nan=False).encode()
    assert answer.prompt_tokens >= 0
    assert answer.completion_tokens >= 0
    assert answer.seconds >= 0
    assert all(math.isfinite(value) for value in answer.measures.values())
    if adapter.measures is not None:
        assert set(answer.measures) <= adapter.measures
