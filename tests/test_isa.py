"""Every instruction set of this machine: each in a process whose ATTNMOD_ISA hides better ones."""

import numpy as np
import pytest
from helpers import DTYPES, check, check_key_weights, make_qkv, normal, run_python

import attnmod as am


def check_everything():
    """A compact set of cases: each kernel, with full and partial vectors, in each real type."""
    for dtype in DTYPES:
        for queries, keys, features in [
            (1, 1, 1),
            (5, 7, 3),
            (16, 96, 64),
            (65, 130, 40),
            (1, 300, 65),
        ]:
            arrays = make_qkv(
                2, 4, queries=queries, keys=keys, features=features, kv_heads=2, dtype=dtype
            )
            check(*arrays)
            check(*arrays, is_causal=True, q_offset=keys - queries)
            check(*arrays, normal(queries, keys) > 0, dropout_p=0.3, rng=1)
            check(
                *arrays, normal(2, 1, queries, keys, dtype=dtype), window=(90, 7), softcap=4.0,
                alibi_slopes=[0.1, 0.2, 0.3, 0.4], sinks=[0.0, 1.0, 2.0, -1.0], q_lens=queries - 1,
                kv_lens=[keys, keys // 2],
            )  # fmt: skip
            check_key_weights(*arrays[:2], is_causal=True, q_offset=keys - queries)
        query, key, value = make_qkv(2, queries=30, keys=100, dtype=dtype)
        key[:, 40:] = np.nan
        value[:, 40:] = np.inf
        value[1, 3, 2] = np.nan
        check(query, key, value, kv_lens=40)


@pytest.mark.parametrize("isa", ["generic", "avx2", "avx512", "neon"])
def test_instruction_set(isa):
    if isa not in am.cpu_info()["found"]:
        pytest.skip(f"this machine has no {isa}")
    code = (
        "import attnmod as am, test_isa; test_isa.check_everything(); print(am.cpu_info()['isa'])"
    )
    assert run_python(code, ATTNMOD_ISA=isa) == isa


def test_best_instruction_set_is_the_default():
    code = "import attnmod as am; print(am.cpu_info()['isa'], am.cpu_info()['found'][-1])"
    used, best = run_python(code, ATTNMOD_ISA="").split()
    assert used == best
    assert am.cpu_info()["found"][0] == "generic"
    assert set(am.cpu_info()["found"]) <= set(am.cpu_info()["compiled"])


def test_unknown_name_hides_nothing():
    code = "import attnmod as am; print(am.cpu_info()['isa'])"
    assert run_python(code, ATTNMOD_ISA="sse9") == run_python(code, ATTNMOD_ISA="")
