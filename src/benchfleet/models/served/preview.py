"""What a server would get for a prompt, and the tokens that its model would make of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchfleet.domain.cell import Config
from benchfleet.models.base import Prompt, PromptView
from benchfleet.models.encoding import Encoder
from benchfleet.models.loading import classify_load_errors, load_tokenizer

NO_TOKENIZER = "the server makes the tokens; give the model a 'tokenizer' folder to see them"
_OWN_TEMPLATE = "the request names another chat template, so its tokens are not known here"
_NO_TEMPLATE = "this tokenizer has no chat template; the server applies one, or refuses"


def preview_encoder(folder: str, tokenizer_kwargs: Mapping[str, Any], config: Config) -> Encoder:
    """The encoder of a tokenizer, with the options of the config's chat. Raises CellFailure."""
    with classify_load_errors("load"):
        encoder = Encoder(load_tokenizer(folder, tokenizer_kwargs), max_length=None)
    encoder.configure(config)
    return encoder


def request_view(body: Mapping[str, Any], encoder: Encoder | None, note: str = "") -> PromptView:
    """The body of a request, with its tokens if `encoder` can tell. `note` says why it cannot."""
    messages = tuple((one["role"], str(one["content"])) for one in body.get("messages") or ())
    text = "" if messages else str(body["prompt"])
    note = note or ("" if encoder else NO_TOKENIZER)
    if messages and encoder and not note:
        note = "" if encoder.has_template else _NO_TEMPLATE
        note = _OWN_TEMPLATE if "chat_template" in body else note
    view = PromptView(text=text, messages=messages, request=body, note=note)
    if encoder is None or note:
        return view
    seen = encoder.view(Prompt(context=text, messages=messages), max_new_tokens=0)
    return PromptView(
        text=seen.text,
        messages=messages,
        tokens=seen.tokens,
        pieces=seen.pieces,
        request=body,
    )
