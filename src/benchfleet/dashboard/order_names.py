"""What an order names: a verb of a fixed list, with ids and filters that pages show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from benchfleet.dashboard.rows import ShownState
from benchfleet.dashboard.views.filters import Filters

MAX_CHOSEN = 500  # cells, or tiles of the matrix, in one order
Verb = Literal["retry", "cancel", "release", "drain", "remove", "add", "override", "stop"]
StateFilter = Literal["", ShownState]
ChangedFilter = Literal["", "10min", "1h", "24h"]
KEY = r"^[A-Za-z0-9_-]{8,64}$"
Name = Annotated[str, Field(max_length=300)]


class OrderNames(BaseModel):
    """What an order is about. Tiles mean those of their cells that the filters leave."""

    verb: Verb
    cell: list[Name] = Field(default=[], max_length=MAX_CHOSEN)
    tile: list[Name] = Field(default=[], max_length=MAX_CHOSEN)
    group: Name = ""
    runner: Name = ""
    device: Name = ""
    host: Name = ""  # whose devices; for tiles a filter
    phase: Name = ""
    model: Name = ""
    config: Name = ""
    benchmark: Name = ""
    subset: Name = ""
    state: StateFilter = ""
    changed: ChangedFilter = ""
    q: Name = ""

    @property
    def filters(self) -> Filters:
        """The filters of the matrix that tiles were chosen in."""
        return Filters(
            model=self.model,
            config=self.config,
            benchmark=self.benchmark,
            subset=self.subset,
            state=self.state,
            host=self.host,
            changed=self.changed,
            text=self.q,
        )

    def fields(self) -> Iterator[tuple[str, str]]:
        """What a form sends to name the same, without the verb."""
        for name, value in self.model_dump(exclude={"verb", "key"}).items():
            for one in value if isinstance(value, list) else [value]:
                if one:
                    yield name, one


class KeyedNames(OrderNames):
    """The same, with a key that lets the order act once."""

    key: str = Field(pattern=KEY)
