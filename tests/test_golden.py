"""The numbers of a well-known tutorial, as PyTorch prints them (golden/tutorial.json)."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnmod as am
from attnmod import reference

GOLDEN = json.loads((Path(__file__).parent / "golden" / "tutorial.json").read_text())
INPUTS = np.array(GOLDEN["inputs"], np.float32)


def numbers(*path):
    x = GOLDEN
    for name in path:
        x = x[name]
    return np.array(x, np.float32)


def assert_printed(got, want):
    """Equal to the last printed digit: 1e-6 of the largest number (their sums cancel)."""
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 1e-6 * np.abs(want).max()


modules = pytest.mark.parametrize("module", [am, reference], ids=["attnmod", "reference"])


@modules
def test_second_word_attends_without_weights(module):
    scores = module.attention_scores(INPUTS[1:2], INPUTS, scale=1.0)
    assert_printed(scores[0], numbers("query_2", "scores"))
    assert_printed(scores[0] / scores[0].sum(), numbers("query_2", "naive_weights"))
    assert_printed(module.softmax(scores)[0], numbers("query_2", "softmax_weights"))
    out, weights = module.scaled_dot_product_attention(
        INPUTS[1:2], INPUTS, INPUTS, scale=1.0, return_weights=True
    )
    assert_printed(weights[0], numbers("query_2", "softmax_weights"))
    assert_printed(out[0], numbers("query_2", "context"))


@modules
def test_all_words_attend_without_weights(module):
    out, weights = module.scaled_dot_product_attention(
        INPUTS, INPUTS, INPUTS, scale=1.0, return_weights=True
    )
    scores = module.attention_scores(INPUTS, INPUTS, scale=1.0)
    assert_printed(scores, numbers("all_queries", "scores"))
    assert_printed(weights, numbers("all_queries", "weights"))
    assert_printed(out, numbers("all_queries", "context"))


@modules
def test_second_word_attends_with_trainable_weights(module):
    query, key, value = (
        INPUTS @ numbers("trainable_query_2", name) for name in ("W_query", "W_key", "W_value")
    )
    assert_printed(query[1], numbers("trainable_query_2", "query_2"))
    assert_printed(key, numbers("trainable_query_2", "keys"))
    assert_printed(value, numbers("trainable_query_2", "values"))
    scores = module.attention_scores(query[1:2], key, scale=1.0)
    assert_printed(scores[0], numbers("trainable_query_2", "scores"))
    out, weights = module.scaled_dot_product_attention(query[1:2], key, value, return_weights=True)
    assert_printed(weights[0], numbers("trainable_query_2", "weights"))
    assert_printed(out[0], numbers("trainable_query_2", "context"))


def project(case, prefix=""):
    """Query, key and value of a class's saved weights; torch's Linear keeps them out x in."""
    state = GOLDEN[case]["state"]
    projected = []
    for name in ("W_query", "W_key", "W_value"):
        if prefix + name in state:
            projected.append(INPUTS @ numbers(case, "state", prefix + name))
        else:
            y = INPUTS @ numbers(case, "state", f"{prefix}{name}.weight").T
            bias = f"{prefix}{name}.bias"
            projected.append(y + numbers(case, "state", bias) if bias in state else y)
    return projected


def batch_of_two(x):
    return np.stack([x, x])


@modules
@pytest.mark.parametrize("case", ["SelfAttention_v1", "SelfAttention_v2"])
def test_self_attention(module, case):
    out = module.scaled_dot_product_attention(*project(case))
    assert_printed(out, numbers(case, "output"))


@modules
def test_causal_attention(module):
    arrays = [batch_of_two(x) for x in project("CausalAttention")]
    out = module.scaled_dot_product_attention(*arrays, is_causal=True)
    assert_printed(out, numbers("CausalAttention", "output"))


@modules
def test_wrapper_of_heads_side_by_side(module):
    heads = [project("MultiHeadAttentionWrapper", f"heads.{i}.") for i in range(2)]
    query, key, value = (np.stack(arrays) for arrays in zip(*heads, strict=True))
    out = module.scaled_dot_product_attention(query, key, value, is_causal=True)
    joined = np.concatenate(list(out), axis=-1)
    assert_printed(batch_of_two(joined), numbers("MultiHeadAttentionWrapper", "output"))


@modules
@pytest.mark.parametrize(
    ("case", "num_heads"), [("MultiHeadAttention", 2), ("MultiHeadAttention_bias_4_heads", 4)]
)
def test_multi_head_attention(module, case, num_heads):
    arrays = [
        batch_of_two(x).reshape(2, len(INPUTS), num_heads, -1).transpose(0, 2, 1, 3)
        for x in project(case)
    ]
    out = module.scaled_dot_product_attention(*arrays, is_causal=True)
    joined = out.transpose(0, 2, 1, 3).reshape(2, len(INPUTS), -1)
    weight, bias = (
        numbers(case, "state", "out_proj.weight"),
        numbers(case, "state", "out_proj.bias"),
    )
    assert_printed(joined @ weight.T + bias, numbers(case, "output"))
