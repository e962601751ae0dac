"""What README.md and the other pages say is so."""

import re
from pathlib import Path

import pytest

import attnmod as am
from attnmod import reference

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "docs/design.md",
    "docs/performance.md",
]


def test_example_runs():
    example = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    names = {}
    exec(example, names)
    arrays = (names["query"], names["key"], names["value"])
    want = reference.scaled_dot_product_attention(*arrays, is_causal=True, window=(128, 0))
    assert names["out"].shape == (1, 8, 512, 64)
    assert names["lse"].shape == (1, 8, 512)
    assert abs(names["out"] - want).max() < 1e-5


def test_every_public_name_is_mentioned():
    missing = [name for name in am.__all__ if name not in README and not name.startswith("_")]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_links_and_paths_lead_to_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    paths = re.findall(r"`((?:attnmod|csrc|tests|benchmarks|docs)/[\w./]*)`", text)
    missing = [link for link in links if not (ROOT / page).parent.joinpath(link).exists()]
    missing += [path for path in paths if not (ROOT / path).exists()]
    assert missing == []


def test_map_of_the_source_names_folders_that_exist():
    folders = re.findall(r"^    ([a-z]+/[a-z/]*) ", README, re.MULTILINE)
    assert len(folders) >= 8
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_file_list_of_the_design_is_the_files_that_there_are():
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b[a-z]\w*(?:\.inc)?\.[ch]\b", design))
    sources = {path.name for path in (ROOT / "csrc").glob("[ckp]*/*.c")}  # core, kernel, python
    assert sources - named == set()
    assert named - {path.name for path in (ROOT / "csrc").rglob("*.[ch]")} == set()
