"""Each notebook's cells run in order, and print what is stored below them."""

import contextlib
import io
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_prints_what_it_shows(path):
    variables = {"__name__": "__main__"}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"])
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(source, str(path), "exec"), variables)
        shown = "".join("".join(output["text"]) for output in cell["outputs"])
        assert printed.getvalue() == shown, source
