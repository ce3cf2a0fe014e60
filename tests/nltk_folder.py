"""NLTK's data for tests: sentences that end with full stops, and WordNet as Debian has it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

WORDNET = Path("/usr/share/wordnet")
_NOUNS = (
    "Tops act animal artifact attribute body cognition communication event feeling food group "
    "location motive object person phenomenon plant possession process quantity relation shape "
    "state substance time"
)
_VERBS = (
    "body change cognition communication competition consumption contact creation emotion motion "
    "perception possession social stative weather"
)


def with_punkt(folder: Path) -> Path:
    """A data folder in which NLTK finds sentences."""
    english = folder / "nltk_data" / "tokenizers" / "punkt_tab" / "english"
    english.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (english / name).write_text("")
    return folder


def with_wordnet(folder: Path) -> Path:
    """A data folder in which NLTK finds WordNet."""
    if not WORDNET.is_dir():
        pytest.skip("needs WordNet: apt-get install wordnet-base")
    place = folder / "nltk_data" / "corpora" / "wordnet"
    shutil.copytree(WORDNET, place)  # NLTK follows no links
    (place / "index.sense").touch()  # for keys of senses alone
    kinds = [("adj.all", 3), ("adj.pert", 3), ("adv.all", 4)]
    kinds += [(f"noun.{name}", 1) for name in _NOUNS.split()]
    kinds += [(f"verb.{name}", 2) for name in _VERBS.split()] + [("adj.ppl", 3)]
    lines = (f"{number:02}\t{name}\t{kind}\n" for number, (name, kind) in enumerate(kinds))
    (place / "lexnames").write_text("".join(lines))
    return folder
