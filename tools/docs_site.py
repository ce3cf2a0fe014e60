"""The hook of the docs site (mkdocs.yml): generates the reference, and adds pages outside docs/.

A page that docs/ links to may lie elsewhere in the project, such as the README of an example. It
becomes a page of the site under its path in the project, and links are adapted to that.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs_python import http_api, python_api
from docs_reference import campaign_file, command_line
from docs_troubleshooting import troubleshooting

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FIRST_OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")  # of the project's own folder
GENERATED = {
    "reference-cli.md": command_line,
    "reference-campaign.md": campaign_file,
    "reference-python.md": python_api,
    "reference-http.md": http_api,
    "troubleshooting.md": troubleshooting,
}
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and each file outside docs/ that a page links to."""
    os.environ["COLUMNS"] = "80"  # the width of the help texts
    for uri, render in GENERATED.items():
        files.append(File.generated(config, uri, content=render()))
    waiting = [*DOCS.rglob("*.md"), *(ROOT / name for name in FIRST_OUTSIDE)]
    added: set[Path] = set()
    while waiting:
        page = waiting.pop()
        if not page.is_relative_to(DOCS):
            uri = page.relative_to(ROOT).as_posix()
            files.append(File.generated(config, uri, abs_src_path=str(page)))
        if page.suffix != ".md":
            continue
        for target in _targets(page):
            if target not in added and not target.is_relative_to(DOCS):
                added.add(target)
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt links and the indentation of lists."""
    source = page.file.abs_src_path
    if source is None:  # generated
        return markdown
    own = Path(source)

    def adapted(match: re.Match[str]) -> str:
        target = (own.parent / match[2]).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            return match[0]
        return f"{match[1]}{os.path.relpath(_uri(target), Path(_uri(own)).parent)}{match[3]}"

    return indented(_LINK.sub(adapted, markdown))


def indented(markdown: str) -> str:
    """What is inside lists with four spaces, as Python-Markdown reads it; GitHub asks for two."""
    lines, block, shift = [], "", 0
    for line in markdown.splitlines():
        indent = len(line) - len(line.lstrip())
        if not block:
            shift = {2: 2, 3: 1}.get(indent, 0)
        if line.lstrip().startswith("```"):
            block = "" if block else "```"
        lines.append(f"{' ' * shift}{line}" if line.strip() else line)
    return "\n".join(lines) + "\n"


def _targets(page: Path) -> set[Path]:
    """The files of the project that a page links to, but for its first page."""
    links = _LINK.findall(page.read_text("utf-8"))
    targets = {(page.parent / link).resolve() for _, link, _ in links}
    return {file for file in targets if file.is_file() and file.is_relative_to(ROOT)} - {
        ROOT / "README.md"
    }


def _uri(file: Path) -> str:
    """Where the site has a file of the project."""
    if file == ROOT / "README.md":
        return "README.md"
    return file.relative_to(DOCS if file.is_relative_to(DOCS) else ROOT).as_posix()
