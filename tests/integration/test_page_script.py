"""The script of a page is made once and kept in the user's cache."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import vl_convert

from benchfleet.reports import page_script as page_script_module
from benchfleet.reports.page_script import page_script

SNIPPET = "vegaEmbed('#chart', {});"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The snippets that a script was made of."""
    snippets: list[str] = []

    def bundle(snippet: str) -> str:
        snippets.append(snippet)
        return f"{snippet}\r\n// é {len(snippets)}"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    return snippets


def test_the_script_holds_what_it_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script = page_script(SNIPPET)
    assert len(script) > 500_000
    assert not re.search(r"""\bimport\s*[({"'*]|\bfrom\s*["']https?:""", script)
    assert page_script(SNIPPET) == script


def test_the_script_is_made_once_for_each_snippet_and_version(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert page_script(SNIPPET) == page_script(SNIPPET) == f"{SNIPPET}\r\n// é 1"
    assert made == [SNIPPET]
    page_script("other")
    monkeypatch.setattr(page_script_module, "version", lambda name: "999")
    page_script(SNIPPET)
    assert made == [SNIPPET, "other", SNIPPET]


def test_an_emptied_file_is_made_again(made: list[str], tmp_path: Path) -> None:
    page_script(SNIPPET)
    (file,) = (one for one in (tmp_path / "cache").rglob("*") if one.is_file())
    file.write_bytes(b"")
    assert page_script(SNIPPET).endswith("// é 2")
    assert page_script(SNIPPET).endswith("// é 2")


def test_no_cache_is_no_error(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    assert page_script(SNIPPET).endswith("// é 1")
    assert page_script(SNIPPET).endswith("// é 2")
