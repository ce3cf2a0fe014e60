"""A model that is only named: for scripts that open it, or ask a server for it, by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from benchfleet.domain.cell import Config, Model
from benchfleet.errors import CellFailure
from benchfleet.models.base import Adapter, Answer, Prompt
from benchfleet.models.digest import files_digest
from benchfleet.models.fetch import check_current


class NoAdapter(Adapter):
    """Opens nothing; `command` benchmarks run with it, and no others.

    A name is its own identity; a file or folder is known by its content.
    """

    example: ClassVar[str] = "{name: m, adapter: none, model: my-model}"
    opens: ClassVar[bool] = False

    @classmethod
    def digest(cls, source: str) -> str:
        return files_digest(Path(source)) if Path(source).is_absolute() else f"name:{source}"

    @classmethod
    def fetch(cls, model: Model) -> Path | None:
        """The file or folder. Raises CellFailure if it is gone, or has changed since the campaign
        was read: a script would measure other weights under the name of these."""
        if not Path(model.source).is_absolute():
            return None
        try:
            check_current(model.source, model.digest, cls.digest(model.source))
        except (ValueError, OSError) as error:
            raise CellFailure(stage="load", kind="model_not_found", message=str(error)) from error
        return Path(model.source)

    def load(self) -> None:
        raise CellFailure(
            stage="load",
            kind="user_error",
            message=f"{self.model.name} has the adapter 'none', which opens nothing: it serves "
            "'command' benchmarks alone; give it another adapter, or leave this benchmark out",
        )

    def configure(self, config: Config) -> None:
        self.load()

    def answer(self, prompts: Sequence[Prompt], generation: Mapping[str, Any]) -> list[Answer]:
        self.load()
        return []

    def unload(self) -> None:
        """There is nothing to let go of."""

    def provenance(self) -> Mapping[str, Any]:
        return {"adapter": "none"}
