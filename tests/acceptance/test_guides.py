"""The guides and the examples' READMEs, run as written. Those for clusters are run beside the tests
of these clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from guide_runner import ROOT, blocks_of, guide_in

# test_ray.py, test_slurm_cluster.py, test_rented_example.py
ELSEWHERE = {"ray", "slurm", "rented-gpus"}
EXAMPLES_ELSEWHERE = {"attention_study"}  # test_attention_study.py
GUIDES = {file.stem: file for file in sorted((ROOT / "docs/guides").glob("*.md"))}
COMING_FROM = {f"from-{file.stem}": file for file in (ROOT / "docs/coming-from").glob("*.md")}
READMES = {f"example-{file.parent.name}": file for file in (ROOT / "examples").glob("*/README.md")}
PAGES = {"quickstart": ROOT / "docs/quickstart.md", **GUIDES, **COMING_FROM, **READMES}
RUN_HERE = {
    name: page
    for name, page in PAGES.items()
    if name not in ELSEWHERE and any(block.language == "sh" for block in blocks_of(page))
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(RUN_HERE))
def test_a_page_does_what_it_says(name: str, tmp_path: Path) -> None:
    if name == "from-inspect":
        pytest.importorskip("inspect_ai", reason="Inspect is not installed")
    with guide_in(tmp_path) as guide:
        guide.run(PAGES[name])


def test_each_example_is_listed_and_run() -> None:
    listed = (ROOT / "examples/README.md").read_text("utf-8")
    guides = "".join(page.read_text("utf-8") for page in GUIDES.values())
    for readme in (ROOT / "examples").glob("*/README.md"):
        name = readme.parent.name
        assert f"[{name}]({name}/README.md)" in listed
        run = f"example-{name}" in RUN_HERE or f"examples/{name}" in guides
        assert run or name in EXAMPLES_ELSEWHERE, name


def test_every_guide_of_coming_from_another_tool_is_run() -> None:
    assert COMING_FROM.keys() <= RUN_HERE.keys()
