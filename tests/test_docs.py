"""The examples of the docstrings run and print what they say."""

import doctest
import importlib
import inspect

import pytest

import attnmod as am


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize(
    "name", ["attnmod", "attnmod.functional", "attnmod.reference", "attnmod.threads"]
)
def test_examples_of_the_docstrings(name):
    if name == "attnmod.threads":
        pytest.importorskip("threadpoolctl")
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("module", [am, am.reference], ids=["attnmod", "reference"])
def test_every_public_function_has_an_example(module):
    functions = [getattr(module, name) for name in module.__all__]
    functions = [function for function in functions if inspect.isfunction(function)]
    assert functions
    for function in functions:
        assert ">>> " in inspect.getdoc(function), function


def test_reference_has_every_function_of_arrays():
    for name in am.functional.__dict__:
        function = getattr(am.functional, name)
        if inspect.isfunction(function) and not name.startswith("_"):
            ours = inspect.signature(function).parameters
            theirs = inspect.signature(getattr(am.reference, name)).parameters
            missing = [p for p in ours if p not in theirs and "options" not in theirs]
            assert set(missing) <= {"out", "num_threads"}
