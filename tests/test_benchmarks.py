"""What the benchmarks count, whom they time, and the page that they write; no times."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from attnmod import reference
from benchmarks import page, performance, suite
from benchmarks.contenders import Call, load
from benchmarks.limits import Limits
from benchmarks.records import Record, record
from benchmarks.rows import Row
from benchmarks.run import Result, Timing, run_row

SMALL = Row("small", (2, 4, 2, 7, 11, 4))


@pytest.mark.parametrize(
    "row",
    [
        SMALL,
        replace(SMALL, causal=True),
        replace(SMALL, window=(2, 3)),
        replace(SMALL, window=(2, 0), causal=True),
        replace(SMALL, kv_lens=True),
        replace(SMALL, kv_lens=True, causal=True),
        replace(SMALL, shape=(1, 2, 2, 11, 7, 4)),
        replace(SMALL, shape=(1, 2, 2, 11, 7, 4), window=(1, 1)),
    ],
    ids=Row.describe,
)
def test_flops_count_the_pairs_that_see_each_other(row):
    inputs = row.inputs()
    scores = reference.attention_scores(*inputs[:2], stage="biased", **inputs.options)
    assert row.flops == 4 * row.shape[-1] * np.count_nonzero(scores > -np.inf)


def test_names_of_rows_differ():
    assert len(suite.GROUP_OF) == len(suite.ROWS)


def test_rows_are_selected_by_name_pattern_and_group():
    assert [row.name for row in suite.select(["vit", "swin-??"])] == ["vit", "swin-49", "swin-64"]
    assert suite.select(["decode"]) == suite.GROUPS["decode"]
    assert all(row.in_table for row in suite.select(["table"]))
    with pytest.raises(ValueError, match=r"^rows: expected names .*tutorial.*, got 'bertie'$"):
        suite.select(["bertie"])


def test_variants_are_not_in_the_forward_table():
    assert [row.name for row in suite.ROWS if row.in_table and row.base] == []


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize(
    "row",
    [
        SMALL,
        SMALL.variant("causal", causal=True),
        SMALL.variant("weights", weights=True),
        SMALL.variant("float16", dtype="float16"),
        *(SMALL.variant(mask, mask=mask) for mask in ("float", "bool", "bias", "padding")),
    ],
    ids=lambda row: row.name,
)
def test_attnmod_and_numpy_find_the_same(row):
    result = run_row(row, load(["numpy"], threads=1), seconds=0, rounds=1)
    assert result.wrong == {}
    assert set(result.timings) == {"attnmod", "numpy"}
    assert (result.base is None) == (row.base is None)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize(
    "option",
    [{"softcap": 5.0}, {"alibi": True}, {"sinks": True}, {"window": (2, 2)}, {"kv_lens": True}],
    ids=lambda option: next(iter(option)),
)
def test_options_that_numpy_lacks_are_timed_for_attnmod_alone(option):
    row = SMALL.variant("option", **option)
    result = run_row(row, load(["numpy"], threads=1), seconds=0, rounds=1)
    assert result.wrong == {}
    assert set(result.timings) == {"attnmod"}


class Zeros:
    name = "zeros"

    def prepare(self, row, inputs):
        return Call(lambda: [np.zeros_like(inputs.query)], list)


def test_who_is_wrong_is_named_and_not_timed():
    result = run_row(SMALL, [Zeros()], seconds=0, rounds=1)
    assert set(result.wrong) == {"zeros"}
    assert result.timings == {}


def found(row, nanoseconds, base=None, limits=None, **peers):
    times = {"attnmod": nanoseconds, **peers}
    timings = {name: Timing(time, time, samples=1) for name, time in times.items()}
    return record(Result(row, timings, base=base), limits)


def test_cost_is_the_time_of_an_operation_beside_that_in_the_base():
    causal = suite.GPT2.variant("causal", causal=True)
    assert found(causal, 300.0, Timing(400.0, 400.0, 1)).cost == pytest.approx(1.5, rel=2e-3)


def test_share_is_of_what_takes_longer_arithmetic_or_reading():
    fast = Limits(threads=1, fma_all=100.0, read_all=1e9)
    share = found(suite.GPT2, suite.GPT2.flops / 50.0, limits=fast)
    assert (share.limit, share.share) == ("FMA", pytest.approx(0.5))
    slow = Limits(threads=1, fma_all=1e9, read_all=10.0)
    share = found(suite.DECODE_GQA, suite.DECODE_GQA.bytes_read / 4.0, limits=slow)
    assert (share.limit, share.share) == ("read", pytest.approx(0.4))


def document(*records):
    return {
        "machine": {
            "processor": "Abacus",
            "architecture": "wood",
            "usable": 2,
            "attnmod": {"isa": "beads", "compiler": "carpenter"},
        },
        "versions": {"attnmod": "1", "numpy": "2"},
        "limits": asdict(Limits(threads=2, fma_one=1.0)),
        "rows": [asdict(one) for one in records],
    }


def test_page_shows_what_was_measured_and_says_what_was_not():
    bert = found(suite.BERT, 2e6, torch=1e6, jax=9e6)
    text = page.text({"rows": document(bert, found(suite.VIT, 1e6, torch=4e6))})
    assert "Abacus" in text
    lines = [line.split() for line in text.splitlines() if line.startswith(("| bert", "| torch"))]
    assert "| bert | 8,12,128,128,64 | 2.00 | 201 GF/s | – | 1.00 ( 0.50) | 9.00 ( 4.50) |" in [
        " ".join(line) for line in lines
    ]
    assert ["|", "torch", "|", "1.41", "|", "0.50", "|", "bert", "|", "2", "|"] in lines
    assert "- bert: torch, 0.50" in text
    assert page.MISSING in text
    assert "$" not in text


def test_rows_measured_again_replace_the_old_ones_in_the_suites_order():
    old = document(found(suite.BERT, 1.0), found(suite.GPT2, 2.0))
    new = document(found(suite.GPT2, 3.0), found(suite.VIT, 4.0))
    rows = [Record(**row) for row in performance.merge(old, new)["rows"]]
    assert [(row.name, row.minimum["attnmod"]) for row in rows] == [
        ("bert", 1.0),
        ("vit", 4.0),
        ("gpt2", 3.0),
    ]
