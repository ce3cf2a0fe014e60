"""lm-eval's model class over an adapter's answers, with context and question apart.

The adapter reads a context once for all its questions, and cuts the middle out of one that is too
long. Any adapter can answer so. What an earlier attempt recorded is not asked again.

Imports lm-eval, and so torch: for slots alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from lm_eval.api.model import LM
from lm_eval.models.api_models import JsonChatStr

from benchfleet.benchmarks.asking import answer_fields, ask
from benchfleet.errors import CellFailure
from benchfleet.models.base import Answer, Prompt

from .answers import DETAILS
from .parts import ContextEnd, PartSession

_MAX_NEW_TOKENS = 256  # lm-eval's own where a task names none


class PromptedLM(LM):  # type: ignore[misc]
    """Asks the adapter of a session; its cache hook is `Answers`."""

    def __init__(
        self, *, session: PartSession, context_end: ContextEnd, tokenizer: Any = None
    ) -> None:
        super().__init__()
        self._session, self._context_end = session, context_end
        self._tokenizer = tokenizer  # for chat templates alone
        self.last = Answer(text="")  # the answer that the cache hook records
        self._last_context = ""

    def tokens(self, text: str, *, add_special_tokens: bool = True) -> int:
        """The tokens of the last prompt, or of the answer to it."""
        return self.last.prompt_tokens if add_special_tokens else self.last.completion_tokens

    def measures(self) -> Mapping[str, float]:
        """Those of the last answer."""
        return self.last.measures

    def details(self) -> Mapping[str, Any]:
        """What else a record has of the last answer."""
        fields = answer_fields(self.last)
        return {name: fields[name] for name in DETAILS}

    def context(self) -> str:
        """The context of the last prompt."""
        return self._last_context

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        answers = self.cache_hook.recorded_answers(requests)
        prompts = [self._prompt(request) for request in requests]
        for batch in self._batches(requests, prompts):
            if all(answers[index] is not None for index in batch):
                continue
            # Whole, as it would have been asked at first: numbers depend on a prompt's neighbours.
            coming = ask(
                self._session,
                [prompts[index] for index in batch],
                self._generation(requests[batch[0]].args[1]),
                sample=requests[batch[0]].doc_id,
            )
            for position, answer in coming:
                index = batch[position]
                if answers[index] is None:
                    answers[index], self.last = answer.text, answer
                    self._last_context = prompts[index].context
                    self.cache_hook.add_partial("generate_until", requests[index].args, answer.text)
        return cast(list[str], answers)

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise CellFailure(
            stage="benchmark",
            kind="user_error",
            message="this task compares likelihoods, so context and question cannot be asked apart;"
            " remove 'context'",
        )

    loglikelihood_rolling = loglikelihood

    @property
    def tokenizer_name(self) -> str:
        """lm-eval asks it for chat templates."""
        return str(self._tokenizer.name_or_path) if self._tokenizer else ""

    def chat_template(self, chat_template: bool | str = False) -> str:
        """The tokenizer's own."""
        return str(self._tokenizer.chat_template or "") if self._tokenizer else ""

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> Any:
        """The messages as one text, whose special tokens the adapter does not add again; as they
        are, for a config with a chat of its own."""
        if self._session.config.chat is not None:
            return JsonChatStr(json.dumps(chat_history))
        text: str = self._tokenizer.apply_chat_template(
            chat_history,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
        return text

    def _prompt(self, request: Any) -> Prompt:
        text = request.args[0]
        if isinstance(text, JsonChatStr):
            messages = json.loads(text.prompt)
            return Prompt(messages=tuple((one["role"], str(one["content"])) for one in messages))
        try:
            end = self._context_end(request.doc, text)
        except ValueError as error:
            raise CellFailure(stage="benchmark", kind="user_error", message=str(error)) from error
        return Prompt(context=text[:end], question=text[end:])

    def _batches(self, requests: Sequence[Any], prompts: Sequence[Prompt]) -> list[list[int]]:
        """Those of the same settings together, and among them those of the same context."""
        groups: dict[str, dict[str, list[int]]] = {}
        for index, (request, prompt) in enumerate(zip(requests, prompts, strict=True)):
            contexts = groups.setdefault(repr(request.args[1]), {})
            contexts.setdefault(prompt.context, []).append(index)
        size, batches = self._session.batch_size, []
        for contexts in groups.values():
            order = [index for indices in contexts.values() for index in indices]
            batches += [order[at : at + size] for at in range(0, len(order), size)]
        return batches

    def _generation(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """lm-eval's settings of one request under the campaign's names."""
        generation = dict(settings)
        until = generation.pop("until", None) or []
        greedy = generation.pop("do_sample", None) is False
        temperature = generation.pop("temperature", None) or 0
        max_new_tokens = generation.pop("max_gen_toks", _MAX_NEW_TOKENS)
        return {
            **generation,
            "max_new_tokens": max_new_tokens,
            "temperature": 0 if greedy else temperature,
            "stop": [stop for stop in ([until] if isinstance(until, str) else until) if stop],
            "seed": self._session.prompt_seed,
        }
