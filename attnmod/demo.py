"""The main job: a tutorial's six words attend to each other, and one layer is timed.

The words and their vectors are those with which a well-known tutorial explains attention, "Your
journey starts with one step". It uses plain dot products there, without the scale 1 / sqrt(E).
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import attnmod as am
from attnmod import reference
from attnmod.bench import PAUSE_SECONDS, Array, Case, best_ms, numpy_attention
from attnmod.heatmap import color_count, heatmap

WORDS = ("Your", "journey", "starts", "with", "one", "step")
INPUTS = np.array(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ],
    np.float32,
)
LAYER = Case("GPT-2", 1, 12, 1024, 1024, 64, is_causal=True)

# float32 rounds numbers near 1 by up to 6e-8, and the layer sums a thousand, in another order than
# NumPy. A mistake is off by far more.
TOLERANCE = 1e-6
LAYER_TOLERANCE = 1e-5


def run() -> int:
    """Prints both parts; the exit status, 1 when a result is wrong."""
    right = show_words()
    print()
    return 0 if time_layer() and right else 1


def show_words() -> bool:
    """Prints the six words' weights and context vectors; whether they are the reference's."""
    context, weights = am.scaled_dot_product_attention(
        INPUTS, INPUTS, INPUTS, scale=1.0, return_weights=True
    )
    print("Attention weights of dot products: what a row's word takes from each column's\n")
    print(heatmap(weights, WORDS, WORDS, colors=color_count(sys.stdout)))
    print("\nContext vectors: the words' vectors, summed with these weights\n")
    print(heatmap(context, WORDS, [f"[{i}]" for i in range(context.shape[-1])]))
    print()

    want = reference.scaled_dot_product_attention(
        INPUTS, INPUTS, INPUTS, scale=1.0, return_weights=True
    )
    off = largest_difference(np.hstack([context, weights]), np.hstack(want))
    return say("attnmod.reference", off, TOLERANCE)


def time_layer() -> bool:
    """Prints how long a layer takes here and in plain NumPy; whether both give the same."""
    query, key, value = LAYER.arrays()
    sizes = (LAYER.batch, LAYER.heads, LAYER.queries, LAYER.features)
    print(f"One layer of GPT-2's size, {sizes} causal, float32, {am.get_num_threads()} threads")

    def ours() -> Any:
        return am.scaled_dot_product_attention(query, key, value, is_causal=True)

    def theirs() -> Any:
        return numpy_attention(query, key, value, is_causal=True)

    our_ms, their_ms = best_ms(ours, 0.3), best_ms(theirs, 0.6)
    time.sleep(PAUSE_SECONDS)
    our_ms = min(our_ms, best_ms(ours, 0.3))
    print(f"  NumPy    {their_ms:8.2f} ms")
    print(f"  attnmod  {our_ms:8.2f} ms, {their_ms / our_ms:.1f} times as fast")
    return say("NumPy", largest_difference(ours(), theirs()), LAYER_TOLERANCE)


def largest_difference(got: Array, want: Array) -> float:
    return float(np.abs(got - want).max())


def say(judge: str, off: float, tolerance: float) -> bool:
    right = off <= tolerance
    verdict = "agrees" if right else "DIFFERS"
    print(f"{judge} {verdict}: largest difference {off:.1e}, allowed {tolerance:.0e}")
    return right
