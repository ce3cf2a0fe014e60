"""The files of others that the wheel brings: unchanged, licensed, and nothing from elsewhere."""

from __future__ import annotations

import hashlib
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import benchfleet.dashboard
from benchfleet.dashboard.app import ASSETS

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

FOLDER = Path(benchfleet.dashboard.__file__).parent
STATIC = FOLDER / "static"
ALLOWED_LICENSES = {"0BSD", "MIT", "BSD-3-Clause", "BSD-2-Clause", "ISC", "Apache-2.0"}
OWN = {
    *("app.css", "icon.svg", "live.js", "keys.js"),
    *("matrix.js", "select.js", "log.js", "curves.js"),
}


def vendored() -> list[dict[str, Any]]:
    assets: list[dict[str, Any]] = tomllib.loads((STATIC / "VENDOR.toml").read_text())["asset"]
    return assets


def test_vendored_files_are_as_they_were_taken() -> None:
    for asset in vendored():
        content = (STATIC / asset["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == asset["sha256"], asset["file"]
        assert asset["license"] in ALLOWED_LICENSES
        assert (STATIC / asset["license_file"]).stat().st_size > 100
        assert re.fullmatch(r"\d+\.\d+\.\d+", asset["version"])


def test_every_served_file_is_our_own_or_recorded() -> None:
    assert set(ASSETS) == OWN | {asset["file"] for asset in vendored()}


def test_no_file_of_ours_names_another_origin() -> None:
    names = [*sorted(FOLDER.rglob("*.j2")), *(STATIC / name for name in sorted(OWN))]
    for file in names:
        text = file.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"(https?:)?//[a-z0-9]", text), file.name


@pytest.mark.parametrize(
    "pattern",
    [
        r"hx-on",
        r"\bjs:",
        r"hx-trigger=\"[^\"]*\[",
        r"\sstyle=",
        r"\son[a-z]+=",
        r"\|\s*safe",
        r"<style",
    ],
)
def test_no_template_needs_eval_or_inline_code(pattern: str) -> None:
    for file in FOLDER.rglob("*.j2"):
        assert not re.search(pattern, file.read_text(encoding="utf-8")), file.name


def test_our_scripts_do_not_evaluate_text() -> None:
    for file in STATIC.glob("*.js"):
        if file.name in OWN:
            assert not re.search(r"\beval\(|new Function|document\.write", file.read_text())
