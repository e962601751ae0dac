"""Memory: a call takes O(L) of it, never O(L x S)."""

import sys

import pytest
from helpers import run_python

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

MEGABYTE = 2**20
# Scratch of two threads and the parts of split keys; stacks and what the allocator keeps.
ALLOWANCE = 6 * MEGABYTE

# The high water mark of the process, less what it held before the call.
CODE = """
import numpy as np
import attnmod as am

def kilobytes(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))

def uniform(*shape):
    return np.random.default_rng(0).random(shape, dtype=np.float32)

x = uniform(1, 8)
am.scaled_dot_product_attention(x, x, x, num_threads=2)
{inputs}
before = kilobytes("VmRSS")
assert kilobytes("VmHWM") - before < 1024, "the inputs themselves were built in place"
result = {call}
print((kilobytes("VmHWM") - before) * 1024)
"""


def growth(inputs, call):
    return int(run_python(CODE.format(inputs=inputs, call=call)))


@pytest.mark.parametrize(
    "call",
    [
        "am.scaled_dot_product_attention(q, k, k, num_threads=2)",
        "am.scaled_dot_product_attention(q, k, k, is_causal=True, q_offset=99_999, num_threads=2)",
        "am.scaled_dot_product_attention(q, k, k, np.zeros(100_000, bool), num_threads=2)",
        "am.key_weights(q, k, num_threads=2)",
    ],
)
def test_one_query_against_many_keys(call):
    inputs = "q, k = uniform(4, 1, 64), uniform(4, 100_000, 64)"
    weights = 4 * 100_000 * 4
    assert growth(inputs, call) < ALLOWANCE + weights


@pytest.mark.parametrize(
    ("call", "results"),
    [
        ("am.scaled_dot_product_attention(x, x, x, num_threads=2)", 8),
        ("am.scaled_dot_product_attention(x, x, x, is_causal=True, return_lse=True)", 9),
        ("am.scaled_dot_product_attention(x, x, x, dropout_p=0.5, rng=1, softcap=2.0)", 8),
        ("am.key_weights(x, x)", 1),
    ],
)
def test_long_sequences(call, results):
    length = 8192
    scores = 4 * length**2
    grown = growth(f"x = uniform(1, {length}, 8)", call)
    assert grown < ALLOWANCE + 4 * length * results
    assert grown < scores / 8


@pytest.mark.parametrize(
    "strides", ["x.transpose(0, 2, 1).copy().transpose(0, 2, 1)", "x[:, ::-1]"]
)
def test_inputs_of_other_layouts_are_not_copied(strides):
    inputs = f"x = uniform(4, 4_000, 1000); y = {strides}; q = uniform(4, 1, 1000)"
    if "copy" in strides:
        inputs = "y = uniform(4, 1000, 4_000).transpose(0, 2, 1); q = uniform(4, 1, 1000)"
    assert growth(inputs, "am.scaled_dot_product_attention(q, y, y)") < ALLOWANCE


def test_broadcast_inputs_and_masks_are_not_expanded():
    inputs = """
x = np.broadcast_to(uniform(1, 2000, 8), (64, 2000, 8))
mask = np.broadcast_to(uniform(2000), (64, 2000, 2000))
"""
    out = 64 * 2000 * 8 * 4
    call = "am.scaled_dot_product_attention(x, x, x, mask)"
    assert growth(inputs, call) < ALLOWANCE + out


LEAKS = """
import sys
import numpy as np
import attnmod as am

q = np.ones((2, 4, 70, 64), np.float32)
k = np.ones((2, 2, 130, 64), np.float32)
mask = np.ones((70, 130), bool)
out = np.empty_like(q)
swapped = k.astype(">f4")
lens = np.array([5, 130])

def good():
    am.scaled_dot_product_attention(
        q, k, swapped, mask, 0.5, enable_gqa=True, kv_lens=lens, alibi_slopes=[1.0] * 4,
        sinks=np.zeros(4), rng=1, return_weights=True, return_lse=True, out=out)
    am.attention_scores(q, k, mask, enable_gqa=True, stage="weights", q_offset=lens)
    am.key_weights(q, k, mask, enable_gqa=True)
    state = am.scaled_dot_product_attention(q, q, q, return_lse=True)
    am.merge_states(*state, *state)
    am.softmax(q, 1)

def bad():
    for changes in ({"kv_lens": 999}, {"scale": np.nan}, {"window": 3}, {"attn_mask": lens},
                    {"out": out[:1]}, {"value": swapped[:, :1]}, {"sinks": [1j]}, {"rng": "x"}):
        given = {"query": q, "key": k, "value": k, "attn_mask": mask, "out": out}
        try:
            am.scaled_dot_product_attention(enable_gqa=True, **given | changes)
        except (TypeError, ValueError):
            continue
        raise AssertionError(changes)

def held():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    everything = (q, k, mask, out, swapped, lens, q.dtype, swapped.dtype, lens.dtype)
    return [sys.getrefcount(x) for x in everything], pages

for _ in range(20):
    {name}()
references, pages = held()
for _ in range(400):
    {name}()
after, pages_after = held()
assert references == after, (references, after)
print((pages_after - pages) * 4096)
"""


@pytest.mark.parametrize("name", ["good", "bad"])
def test_calls_hold_on_to_nothing(name):
    # Scratch alone is 100 KB a call: 400 that kept it would hold 40 MB.
    assert int(run_python(LEAKS.replace("{name}", name))) < MEGABYTE
