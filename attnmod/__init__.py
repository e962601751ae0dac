"""Attention for NumPy: fused, threaded, in C.

>>> import numpy as np
>>> import attnmod as am
>>> q, k, v = np.random.default_rng(0).standard_normal((3, 1, 12, 128, 64), dtype=np.float32)
>>> am.scaled_dot_product_attention(q, k, v, is_causal=True).shape
(1, 12, 128, 64)
"""

from attnmod import reference
from attnmod.functional import (
    attention_scores,
    key_weights,
    merge_states,
    scaled_dot_product_attention,
    softmax,
)
from attnmod.threads import (
    cpu_info,
    get_num_threads,
    register_threadpoolctl,
    set_num_threads,
    share_threads_with_numpy,
)

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "attention_scores",
    "cpu_info",
    "get_num_threads",
    "key_weights",
    "merge_states",
    "reference",
    "register_threadpoolctl",
    "scaled_dot_product_attention",
    "set_num_threads",
    "share_threads_with_numpy",
    "softmax",
]
