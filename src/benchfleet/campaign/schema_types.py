"""What may stand under a key, in the words of JSON Schema.

The tables of keys that the readers go by hold these, and `campaign.schema` is made of the same
tables: so an editor's schema knows every key that is read, and no other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from benchfleet.domain.units import MONEY_PATTERN, PRICE_PATTERN, SIZE_PATTERN, TIME_PATTERN

from .entry import MAX_COUNT

Shape = Mapping[str, Any]

TEXT: Shape = {"type": "string"}
NAME: Shape = {"type": "string", "minLength": 1, "pattern": r"^[^.\s]"}
LABEL: Shape = {"type": ["string", "integer"]}
TRUTH: Shape = {"type": "boolean"}
MAPPING: Shape = {"type": "object"}
SIZE: Shape = {"type": "string", "pattern": f"^{SIZE_PATTERN}$", "examples": ["22GB", "512MiB"]}
TIME: Shape = {"type": "string", "pattern": f"^(?=.){TIME_PATTERN}$", "examples": ["6h", "1h30m"]}
PRICE: Shape = {
    "anyOf": [
        {"type": "string", "pattern": f"^{PRICE_PATTERN}$"},
        {"type": "number", "minimum": 0},
    ],
    "examples": ["0.39 EUR/h", "$1.20/gpu/h"],
}
MONEY: Shape = {"type": "string", "pattern": f"^{MONEY_PATTERN}$", "examples": ["0.15 USD"]}
SHARE: Shape = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "string", "pattern": r"^\d+(\.\d+)? ?%$"},
    ],
    "examples": ["2%", 0.02],
}
ARGUMENT: Shape = {"type": ["string", "number"]}
REPEATS = 10_000  # at most


def whole(least: int = 1, most: int = MAX_COUNT) -> Shape:
    """A whole number."""
    return {"type": "integer", "minimum": least, "maximum": most}


SLOTS: Shape = {"anyOf": [whole(), {"const": "auto"}]}


def plugin(family: str) -> Shape:
    """The name of a plugin; which there are is filled in when the schema is made."""
    return {"$ref": f"#/$defs/{family}"}


def listing(item: Shape, *, least: int = 0) -> Shape:
    """A list."""
    return {"type": "array", "items": item, **({"minItems": least} if least else {})}


def one_or_list(item: Shape) -> Shape:
    """An item, or a list of them."""
    return {"anyOf": [item, listing(item)]}


def either(*shapes: Shape) -> Shape:
    """Any of the shapes."""
    return {"anyOf": list(shapes)}


def doc(shape: Shape, meaning: str) -> Shape:
    """The shape with what it means, which editors show."""
    return {**shape, "description": meaning}


def nullable(shape: Shape) -> Shape:
    """The shape or null, which stands for the default everywhere."""
    if "description" in shape:
        inner = {key: value for key, value in shape.items() if key != "description"}
        return doc(nullable(inner), shape["description"])
    if "anyOf" in shape:
        return {**shape, "anyOf": [*shape["anyOf"], {"type": "null"}]}
    return {"anyOf": [shape, {"type": "null"}]}


def mapping(keys: Mapping[str, Shape], *, required: Collection[str] = ()) -> Shape:
    """A mapping of these keys alone."""
    return {
        "type": "object",
        "properties": {
            key: shape if key in required else nullable(shape) for key, shape in keys.items()
        },
        "required": list(required),
        "additionalProperties": False,
    }


def named(item: Shape, names: Shape, *, single: bool = False) -> Shape:
    """A mapping from names to items; a `single` one has one name."""
    bounds = {"minProperties": 1, **({"maxProperties": 1} if single else {})}
    return {"type": "object", "propertyNames": names, "additionalProperties": item, **bounds}
