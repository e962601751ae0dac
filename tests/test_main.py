"""``python -m attnmod``: the words, the heat map, the facts and the table."""

import contextlib
import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import run_python

import attnmod as am
from attnmod import bench, demo, reference
from attnmod.__main__ import main
from attnmod.heatmap import color_count, display_width, heatmap

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
GOLDEN = json.loads((Path(__file__).parent / "golden" / "tutorial.json").read_text())


ALWAYS_THERE = ("attnmod", "NumPy")


def module(*arguments):
    """The code that runs ``python -m attnmod``."""
    run = "runpy.run_module('attnmod', run_name='__main__')"
    return f"import runpy, sys; sys.argv[1:] = {list(arguments)!r}; {run}"


@pytest.fixture
def small_and_quick(monkeypatch):
    """One small case, one round, and the demo's layer is not timed."""
    contenders = {name: bench.CONTENDERS[name] for name in ALWAYS_THERE}
    monkeypatch.setattr(bench, "CONTENDERS", contenders)
    monkeypatch.setattr(bench, "CASES", bench.CASES[:1])
    monkeypatch.setattr(bench, "ROUNDS", 1)
    monkeypatch.setattr(demo, "LAYER", demo.LAYER._replace(queries=70, keys=70))
    monkeypatch.setattr(demo, "best_ms", lambda call, seconds: 1.0)


# The main job.


def test_words_and_their_vectors_are_the_tutorials():
    np.testing.assert_array_equal(demo.INPUTS, np.array(GOLDEN["inputs"], np.float32))
    assert " ".join(demo.WORDS) == "Your journey starts with one step"


def test_main_job_shows_the_tutorials_numbers_and_says_that_they_are_right():
    text = run_python(module())
    for name in ("weights", "context"):
        for word, row in zip(demo.WORDS, GOLDEN["all_queries"][name], strict=True):
            cells = " +".join(re.escape(f"{x:.4f}") for x in row)
            assert re.search(rf"^ *{word} +{cells}$", text, re.MULTILINE), (name, word)
    assert "attnmod.reference agrees" in text
    assert "NumPy agrees" in text
    assert re.search(r"NumPy +[0-9.]+ ms\n +attnmod +[0-9.]+ ms, [0-9.]+ times as fast", text)


def test_main_job_is_plain_text_where_output_is_no_terminal():
    assert "\x1b" not in run_python(module(), TERM="xterm-256color", COLORTERM="truecolor")


@pytest.mark.parametrize(
    ("environment", "escape"),
    [
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "\x1b[48;2;253;231;37;38;2;0;0;0m  0.2379 "),
        ({"TERM": "xterm", "COLORTERM": ""}, "\x1b[48;5;220;38;5;16m  0.2379 "),
        ({"TERM": "xterm", "NO_COLOR": "1"}, None),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, None),
    ],
    ids=["24-bit", "256", "NO_COLOR", "dumb"],
)
def test_main_job_is_coloured_in_a_terminal_that_wants_it(environment, escape):
    text = in_terminal("from attnmod import demo; demo.show_words()", environment)
    assert "attnmod.reference agrees" in text
    if escape is None:
        assert "\x1b" not in text
    else:
        assert escape in text


def in_terminal(code, environment):
    """What code prints to a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    inherited = {name: x for name, x in os.environ.items() if name != "NO_COLOR"}
    path = str(Path(am.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=theirs,
        env={**inherited, "PYTHONPATH": path, **environment},
    )
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # so Linux says that the terminal's other side is closed
        while part := os.read(ours, 65536):
            text += part
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return text.decode().replace("\r\n", "\n")


@pytest.mark.usefixtures("small_and_quick")
def test_exit_status_is_0_where_all_agree(capsys):
    assert main([]) == main(["demo"]) == 0
    assert "DIFFERS" not in capsys.readouterr().out


@pytest.mark.usefixtures("small_and_quick")
def test_exit_status_is_1_where_the_reference_differs(monkeypatch, capsys):
    def wrong(*arrays, **options):
        context, weights = am.scaled_dot_product_attention(*arrays, **options)
        return context, weights + np.float32(1e-3)

    monkeypatch.setattr(reference, "scaled_dot_product_attention", wrong)
    assert main([]) == 1
    assert "attnmod.reference DIFFERS: largest difference 1.0e-03" in capsys.readouterr().out


@pytest.mark.usefixtures("small_and_quick")
def test_exit_status_is_1_where_numpy_differs(monkeypatch, capsys):
    monkeypatch.setattr(demo, "numpy_attention", lambda query, key, value, is_causal: value + 1)
    assert main([]) == 1
    assert "NumPy DIFFERS" in capsys.readouterr().out


def test_a_nan_counts_as_a_difference():
    assert not demo.say("NumPy", demo.largest_difference(np.array([np.nan]), np.zeros(1)), 1.0)


# The heat map.


def test_examples_of_the_heat_map():
    assert doctest.testmod(sys.modules[heatmap.__module__]) == (0, 4)


def test_heat_map_labels_both_sides():
    assert heatmap([[0.75, 0.25], [0.5, 1.0]], ["first", "second"], ["one", "two"]).split("\n") == [
        "           one     two",
        " first  0.7500  0.2500",
        "second  0.5000  1.0000",
    ]


@pytest.mark.parametrize("colors", [256, 2**24])
def test_coloured_heat_map_is_the_plain_one_with_colours(colors):
    arguments = ([[0.75, 0.25], [0.5, np.nan]], ["a", "b"], ["c", "longer than a number"])
    colored = ESCAPE.sub("", heatmap(*arguments, colors=colors))
    assert [line.rstrip() for line in colored.split("\n")] == heatmap(*arguments).split("\n")


def test_more_is_brighter():
    text = heatmap([[0.0, 1.0, 2.0, 3.0]], [""], list("abcd"), colors=2**24)
    grounds = [tuple(map(int, x)) for x in re.findall(r"48;2;(\d+);(\d+);(\d+)", text)]
    brightness = [0.299 * red + 0.587 * green + 0.114 * blue for red, green, blue in grounds]
    assert len(brightness) == 4
    assert brightness == sorted(brightness)


def test_equal_numbers_have_equal_colours():
    text = heatmap([[0.5, 0.5]], [""], ["a", "b"], colors=256)
    assert len(set(re.findall(r"48;5;(\d+)", text))) == 1


def test_what_is_not_finite_is_not_coloured():
    text = heatmap([[np.nan, -np.inf, 1.0, 2.0]], [""], list("abcd"), colors=256)
    assert text.count("\x1b[48") == 2
    assert text.split("\n")[1].split("\x1b")[0].split() == ["nan", "-inf"]


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("word", 4), ("注意力", 6), ("ﾊﾝ", 2), ("Ｗ", 2), ("e\u0301", 1), ("🧸", 2)],
)
def test_wide_characters_take_two_columns_and_combining_ones_none(text, width):
    assert display_width(text) == width


def test_wide_labels_keep_the_columns_in_line():
    labels = ["注意力", "a", "e\u0301e\u0301", "ｱﾃﾝｼｮﾝです"]
    lines = heatmap(np.eye(4), labels, labels).split("\n")
    assert len({display_width(line) for line in lines}) == 1
    for line in lines[1:]:
        places = [display_width(line[: cell.end()]) for cell in re.finditer(r"\d\.\d{4}", line)]
        heads = [display_width(lines[0].split(label)[0] + label) for label in labels]
        assert places == heads


def test_control_characters_in_labels_are_escaped():
    text = heatmap([[1.0]], ["\x1b[2J"], ["\n"])
    assert text.split("\n")[0].endswith("\\n")
    assert "\\x1b[2J" in text
    assert "\x1b" not in text


def test_heat_map_names_a_shape_that_is_not_the_labels():
    with pytest.raises(ValueError, match=r"matrix: expected shape \(1, 2\) .*, got \(2, 2\)"):
        heatmap(np.eye(2), ["a"], ["b", "c"])


def test_heat_map_without_rows_is_its_head():
    assert heatmap(np.zeros((0, 2)), [], ["a", "b"]) == "  a  b"


class Terminal:
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "colors"),
    [
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, 2**24),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, 2**24),
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm", "NO_COLOR": ""}, 256),
        ({"TERM": "xterm", "NO_COLOR": "0"}, 0),
        ({"TERM": "dumb"}, 0),
        ({}, 0),
    ],
)
def test_colours_are_what_the_environment_says(monkeypatch, environment, colors):
    for name in ("TERM", "COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, x in environment.items():
        monkeypatch.setenv(name, x)
    assert color_count(Terminal()) == colors


# info and bench.


def test_info_tells_versions_instruction_sets_and_threads():
    text = run_python(module("info"), ATTNMOD_ISA="generic", ATTNMOD_NUM_THREADS="3")
    facts = dict(re.split("  +", line, maxsplit=1) for line in text.split("\n"))
    assert facts["attnmod"] == am.__version__
    assert facts["NumPy"] == np.__version__
    assert facts["ISA used"] == "generic"
    assert facts["ISAs compiled"].split()[0] == facts["ISAs found"].split()[0] == "generic"
    assert facts["threads"] == "3"
    assert facts["processors"] == str(os.cpu_count())
    assert facts["compiler"].split()[0] in ("gcc", "clang")
    shares = run_python("import attnmod as am; print(am.share_threads_with_numpy())")
    can = {"True": "can", "False": "cannot"}[shares]
    assert facts["NumPy's BLAS"].endswith(f" ({can} share attnmod's threads)")


@pytest.mark.usefixtures("small_and_quick")
def test_bench_times_each_contender_on_each_case(capsys):
    assert main(["bench"]) == 0
    head, row = capsys.readouterr().out.strip().split("\n")[-2:]
    assert head.split()[-2:] == list(ALWAYS_THERE)
    assert re.fullmatch(r"tutorial \(1, 1, 6, 6, 2\) +[0-9.e-]+ +[0-9.e-]+ +\([0-9.]+\)", row)


def test_bench_leaves_out_what_is_not_installed(monkeypatch):
    def absent(case):
        raise ImportError

    monkeypatch.setattr(bench, "CONTENDERS", {**bench.CONTENDERS, "torch": absent})
    names = bench.installed()
    assert {"attnmod", "NumPy"} <= set(names)
    assert "torch" not in names


@pytest.mark.parametrize("name", bench.CONTENDERS)
def test_contenders_compute_the_same(name):
    if name not in bench.installed():
        pytest.skip(f"{name} is not installed")
    for case in bench.CASES:
        call = bench.CONTENDERS[name](case)
        want = reference.scaled_dot_product_attention(*case.arrays(), is_causal=case.is_causal)
        np.testing.assert_allclose(np.asarray(call()), want, rtol=0, atol=1e-5, err_msg=case.name)


def test_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["dance"])
    assert "invalid choice: 'dance'" in capsys.readouterr().err


def test_version_is_the_packages(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"attnmod {am.__version__}\n"
