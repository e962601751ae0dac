"""Dropout: which weights go is a function of seed and place alone."""

import math

import numpy as np
import pytest
from helpers import DTYPES, check, make_qkv, normal, same_bits

import attnmod as am
from attnmod import reference


def kept(query, key, value, **options):
    _, weights = am.scaled_dot_product_attention(
        query, key, value, return_weights=True, enable_gqa=True, **options
    )
    return weights != 0


# kat_vectors of Random123, by the authors of the generator: counter, key and words.
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0, 0, 0, 0], [0, 0], "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_of_the_reference_gives_the_published_numbers(counter, key, words):
    row, quad, seed = (low | high << 32 for low, high in (counter[:2], counter[2:], key))
    keys = np.arange(4, dtype=np.uint64) + np.uint64(4 * quad)
    got = reference.philox(np.uint64(row), keys, seed)
    assert " ".join(f"{word:08x}" for word in got) == words


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dropout_p", [0.1, 0.5, 0.9, 2.0**-40, 1 - 2.0**-40])
def test_same_weights_are_dropped_as_in_the_reference(dtype, dropout_p):
    query, key, value = make_qkv(2, 3, queries=37, keys=131, dtype=dtype)
    check(query, key, value, dropout_p=dropout_p, rng=11)
    _, want = reference.scaled_dot_product_attention(
        query, key, value, dropout_p=dropout_p, rng=11, return_weights=True
    )
    assert np.array_equal(kept(query, key, value, dropout_p=dropout_p, rng=11), want != 0)


@pytest.mark.parametrize(
    ("leading", "kv_heads", "queries", "keys"),
    [
        ((), None, 5, 9),
        ((3,), None, 70, 3),
        ((2, 2, 3), None, 4, 5),
        ((2, 6), 2, 3, 200),
        ((9,), 1, 1, 1000),
    ],
)
def test_place_is_counted_over_all_leading_axes_and_query_heads(leading, kv_heads, queries, keys):
    arrays = make_qkv(*leading, queries=queries, keys=keys, kv_heads=kv_heads)
    check(*arrays, dropout_p=0.4, rng=2**64 - 1)


def test_broadcast_batches_have_masks_of_their_own():
    query, key, value = normal(4, 1, 3, 5), normal(2, 6, 5), normal(2, 6, 5, seed=1)
    out = check(np.broadcast_to(query, (4, 2, 3, 5)), key, value, dropout_p=0.5, rng=1)
    assert not same_bits(out[0], out[1])


@pytest.mark.parametrize(
    "seed", [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, np.int64(5), np.uint64(7)]
)
def test_seed_has_sixty_four_bits(seed):
    check(*make_qkv(2, queries=5, keys=30), dropout_p=0.5, rng=seed)


def test_seeds_differ_in_their_masks():
    arrays = make_qkv(2, queries=20, keys=30)
    masks = [kept(*arrays, dropout_p=0.5, rng=seed) for seed in (0, 1, 2**32, 2**33, 2**63)]
    assert len({mask.tobytes() for mask in masks}) == len(masks)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_mask_is_the_same_at_any_number_of_threads(threads):
    arrays = make_qkv(3, 4, queries=70, keys=200, kv_heads=2)
    options = {"dropout_p": 0.3, "rng": 9, "enable_gqa": True}
    want = am.scaled_dot_product_attention(*arrays, num_threads=1, **options)
    assert same_bits(am.scaled_dot_product_attention(*arrays, num_threads=threads, **options), want)
    check(*arrays, num_threads=threads, **options)


def test_mask_does_not_depend_on_layout():
    query, key, value = make_qkv(2, 3, queries=20, keys=30)
    options = {"dropout_p": 0.3, "rng": 9}
    want = am.scaled_dot_product_attention(query, key, value, **options)
    other = [np.asfortranarray(x) for x in (query, key, value)]
    assert same_bits(am.scaled_dot_product_attention(*other, **options), want)


def test_share_of_kept_weights_is_as_asked():
    query, key, value = make_qkv(4, queries=200, keys=500)
    for dropout_p in (0.05, 0.5, 0.8):
        mask = kept(query, key, value, dropout_p=dropout_p, rng=3)
        deviation = math.sqrt(dropout_p * (1 - dropout_p) / mask.size)
        assert abs(mask.mean() - (1 - dropout_p)) < 5 * deviation


def test_kept_weights_grow_by_the_share_that_went():
    query, key, value = make_qkv(2, queries=5, keys=40, dtype="float64")
    _, plain = am.scaled_dot_product_attention(query, key, value, return_weights=True)
    _, dropped = am.scaled_dot_product_attention(
        query, key, value, dropout_p=0.25, rng=0, return_weights=True
    )
    grown = dropped[dropped != 0] / plain[dropped != 0]
    assert np.abs(grown - 4 / 3).max() <= 8 * 2.0**-53


def test_lse_is_that_before_dropout():
    arrays = make_qkv(2, queries=5, keys=40)
    _, plain = am.scaled_dot_product_attention(*arrays, return_lse=True)
    _, dropped = am.scaled_dot_product_attention(*arrays, dropout_p=0.9, rng=0, return_lse=True)
    assert same_bits(plain, dropped)


def test_all_is_dropped_at_one_and_nothing_at_zero():
    arrays = make_qkv(2, queries=5, keys=40)
    out, weights, lse = am.scaled_dot_product_attention(
        *arrays, dropout_p=1.0, rng=0, return_weights=True, return_lse=True
    )
    assert not out.any()
    assert not weights.any()
    assert np.isfinite(lse).all()
    assert same_bits(
        am.scaled_dot_product_attention(*arrays, dropout_p=0, rng=0),
        am.scaled_dot_product_attention(*arrays),
    )


def test_generator_gives_one_number_as_the_seed():
    arrays = make_qkv(2, queries=5, keys=40)
    generator, twin = np.random.default_rng(42), np.random.default_rng(42)
    for _ in range(2):
        seed = int(twin.integers(2**64, dtype=np.uint64))
        assert same_bits(
            am.scaled_dot_product_attention(*arrays, dropout_p=0.5, rng=generator),
            am.scaled_dot_product_attention(*arrays, dropout_p=0.5, rng=seed),
        )
    assert generator.bit_generator.state == twin.bit_generator.state


def test_without_rng_every_call_draws_a_seed_of_its_own():
    arrays = make_qkv(2, queries=20, keys=40)
    assert not np.array_equal(kept(*arrays, dropout_p=0.5), kept(*arrays, dropout_p=0.5))


def test_generator_moves_on_only_where_there_is_dropout():
    arrays = make_qkv(1, queries=2, keys=3)
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    am.scaled_dot_product_attention(*arrays, dropout_p=0.0, rng=rng)
    assert rng.bit_generator.state == before
    am.scaled_dot_product_attention(*arrays, dropout_p=0.1, rng=rng)
    assert rng.bit_generator.state != before
