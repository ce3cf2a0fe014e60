"""Plugins as a campaign names them: one that is not to be had is a mistake at its key."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from benchfleet.errors import MissingExtra, PluginError
from benchfleet.registry import Family, load

from .entry import Entry

_LOOK = (
    "import json, sys; from importlib.util import find_spec;"
    " print(json.dumps([name for name in sys.argv[1:] if find_spec(name) is None]))"
)
_LOOK_S = 60.0


def plugin(
    family: Family, name: str, entry: Entry, *, python: str = "", runs_here: bool = True
) -> Any:
    """The class of that name, or None with the mistake noted at `entry`. Its packages must be here,
    or in the environment of the interpreter `python` that is to use them; not where it does not
    run yet."""
    try:
        try:
            return load(family, name, runs_here=runs_here)
        except MissingExtra:
            if not python:
                raise
            chosen = load(family, name, runs_here=False)
            if missing := _missing_in(python, chosen.requires):
                install = f"{python} -m pip install 'benchfleet[{chosen.extra}]'"
                entry.wrong(f"{name!r} needs {', '.join(missing)} in {python}; {install}")
                return None
            return chosen
    except PluginError as error:
        entry.wrong(str(error))
    except (ImportError, AttributeError) as error:
        entry.wrong(f"the plugin {name!r} cannot be imported: {error}")
    return None


def _missing_in(python: str, modules: tuple[str, ...]) -> list[str]:
    """The modules that cannot be found by that interpreter; all of them if it does not answer."""
    words = [python, "-c", _LOOK, *modules]
    try:
        done = subprocess.run(
            words, cwd="/", capture_output=True, text=True, timeout=_LOOK_S, check=True
        )
        return list(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        return list(modules)
