"""Which rows there are, by group."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatch

from benchmarks.rows import Row

GPT2 = Row("gpt2", (1, 12, 12, 1024, 1024, 64), in_table=True)
GPT2_CAUSAL = replace(GPT2, name="gpt2-causal", causal=True)
BERT = Row("bert", (8, 12, 12, 128, 128, 64), in_table=True)
VIT = Row("vit", (4, 12, 12, 197, 197, 64), in_table=True)
LLAMA = Row("llama", (1, 32, 8, 2048, 2048, 128), causal=True, in_table=True)
SWIN = Row("swin-49", (64, 12, 12, 49, 49, 32))
SWIN_64 = Row("swin-64", (64, 12, 12, 64, 64, 32))
LONG_4096 = Row("long-4096", (1, 4, 4, 4096, 4096, 64), causal=True)
DECODE_GQA = Row("decode-gqa-4k", (1, 32, 8, 1, 4096, 128), in_table=True)
DECODE_L4 = Row("decode-gqa-4k-l4", (1, 32, 8, 4, 4096, 128))
DECODE_L8 = Row("decode-gqa-4k-l8", (1, 32, 8, 8, 4096, 128))
WINDOW_128 = LONG_4096.variant("window-128", window=(127, 0))


def _gpt2_heads(features: int, base: Row | None = None) -> Row:
    return Row(f"head-{features}", (1, 12, 12, 1024, 1024, features), base=base)


HEAD_32, HEAD_128 = _gpt2_heads(32), _gpt2_heads(128)

GROUPS: dict[str, list[Row]] = {
    "tiny": [
        Row("tutorial", (1, 1, 1, 6, 6, 2), in_table=True),
        Row("tutorial-causal", (2, 1, 1, 6, 6, 2), causal=True),
        Row("tiny-16", (1, 4, 4, 16, 16, 16)),
    ],
    "short": [
        BERT,
        VIT,
        SWIN,
        SWIN_64,
        Row("batch-16", (512, 8, 8, 16, 16, 64)),
        Row("cross", (2, 8, 8, 4096, 77, 40), in_table=True),
    ],
    "long": [
        Row("medium-512", (2, 12, 12, 512, 512, 64)),
        GPT2_CAUSAL,
        GPT2,
        LLAMA,
        LONG_4096,
        Row("long-8192", (1, 4, 4, 8192, 8192, 64), causal=True, in_table=True),
    ],
    "decode": [
        Row("decode-mha-1k", (1, 12, 12, 1, 1024, 64), in_table=True),
        Row("decode-mha-16k", (1, 12, 12, 1, 16384, 64)),
        Row("decode-mha-128k", (1, 4, 4, 1, 131072, 64)),
        Row("decode-gqa-1k", (1, 32, 8, 1, 1024, 128)),
        DECODE_GQA,
        Row("decode-gqa-32k", (1, 32, 8, 1, 32768, 128)),
        Row("decode-gqa-128k", (1, 8, 2, 1, 131072, 128)),
        Row("decode-gqa-batch", (16, 32, 8, 1, 1024, 128)),
        Row("decode-mqa-4k", (1, 32, 1, 1, 4096, 128)),
        Row("decode-mqa-128k", (1, 16, 1, 1, 131072, 64)),
        Row("decode-mha-4k-l4", (1, 12, 12, 4, 4096, 64)),
        Row("decode-mha-4k-l16", (1, 12, 12, 16, 4096, 64)),
        Row("decode-gqa-4k-l2", (1, 32, 8, 2, 4096, 128)),
        DECODE_L4,
        DECODE_L8,
        Row("decode-gqa-4k-l16", (1, 32, 8, 16, 4096, 128)),
    ],
    "options": [
        GPT2.variant("float-mask", mask="float"),
        GPT2.variant("bool-mask", mask="bool"),
        GPT2.variant("bias-mask", mask="bias"),
        SWIN.variant("swin-49-bias", mask="bias"),
        BERT.variant("padding-mask", mask="padding"),
        BERT.variant("kv-lens", kv_lens=True),
        GPT2.variant("softcap", softcap=30.0),
        GPT2_CAUSAL.variant("softcap-causal", softcap=30.0),
        GPT2_CAUSAL.variant("alibi", alibi=True),
        GPT2_CAUSAL.variant("sinks", sinks=True),
        WINDOW_128,
        LONG_4096.variant("window-1024", window=(1023, 0)),
        GPT2.variant("dropout", dropout=0.1),
        GPT2.variant("weights", weights=True),
        GPT2.variant("lse", lse=True),
    ],
    "dtypes": [
        GPT2.variant("gpt2-float64", dtype="float64", base=None),
        BERT.variant("bert-float64", dtype="float64", base=None),
        GPT2.variant("gpt2-float16", dtype="float16"),
        GPT2_CAUSAL.variant("gpt2-causal-float16", dtype="float16"),
        BERT.variant("bert-float16", dtype="float16"),
        DECODE_GQA.variant("decode-float16", dtype="float16"),
        GPT2.variant("gpt2-bfloat16", dtype="bfloat16"),
        GPT2_CAUSAL.variant("gpt2-causal-bfloat16", dtype="bfloat16"),
        BERT.variant("bert-bfloat16", dtype="bfloat16"),
        DECODE_GQA.variant("decode-bfloat16", dtype="bfloat16"),
    ],
    "heads": [
        HEAD_32,
        _gpt2_heads(33, HEAD_32),
        _gpt2_heads(40),
        _gpt2_heads(63, GPT2),
        _gpt2_heads(65, GPT2),
        _gpt2_heads(80),
        _gpt2_heads(96),
        _gpt2_heads(127, HEAD_128),
        HEAD_128,
        _gpt2_heads(192),
        _gpt2_heads(256),
    ],
    # Sizes beside those that tiles are made for: a cliff here would be a bug.
    "neighbours": [
        GPT2.variant("near-1023", shape=(1, 12, 12, 1023, 1023, 64)),
        GPT2.variant("near-1025", shape=(1, 12, 12, 1025, 1025, 64)),
        GPT2.variant("near-primes", shape=(1, 11, 11, 1021, 1019, 61)),
        GPT2_CAUSAL.variant("near-1025-causal", shape=(1, 12, 12, 1025, 1025, 64)),
        GPT2_CAUSAL.variant("near-primes-causal", shape=(1, 11, 11, 1021, 1021, 67)),
        BERT.variant("near-127", shape=(8, 12, 12, 127, 127, 64)),
        BERT.variant("near-129", shape=(8, 12, 12, 129, 129, 64)),
        SWIN.variant("near-48", shape=(64, 12, 12, 48, 48, 32)),
        SWIN.variant("near-50", shape=(64, 12, 12, 50, 50, 32)),
        SWIN_64.variant("near-65", shape=(64, 12, 12, 65, 65, 32)),
        WINDOW_128.variant("near-window-127", window=(126, 0)),
        WINDOW_128.variant("near-window-129", window=(128, 0)),
        DECODE_GQA.variant("near-4093-decode", shape=(1, 32, 8, 1, 4093, 128)),
        DECODE_GQA.variant("near-4097-decode", shape=(1, 32, 8, 1, 4097, 128)),
        DECODE_L4.variant("near-l3-decode", shape=(1, 32, 8, 3, 4096, 128)),
        DECODE_L4.variant("near-l5-decode", shape=(1, 32, 8, 5, 4096, 128)),
        DECODE_L8.variant("near-l7-decode", shape=(1, 32, 8, 7, 4096, 128)),
        DECODE_L8.variant("near-l9-decode", shape=(1, 32, 8, 9, 4096, 128)),
    ],
    # The plots of time and memory against L.
    "lengths": [
        Row(f"length-{2**power}", (1, 2, 2, 2**power, 2**power, 64)) for power in range(7, 15)
    ],
}

ROWS = [row for rows in GROUPS.values() for row in rows]
GROUP_OF = {row.name: group for group, rows in GROUPS.items() for row in rows}


def select(patterns: list[str]) -> list[Row]:
    """The rows whose names match a shell pattern; a group's name means its rows, "table" those of
    the forward table."""
    chosen: set[str] = set()
    for pattern in patterns:
        matching = {row.name for row in ROWS if fnmatch(row.name, pattern)}
        matching |= {row.name for row in GROUPS.get(pattern, [])}
        if pattern == "table":
            matching |= {row.name for row in ROWS if row.in_table}
        if not matching:
            known = ", ".join([*GROUPS, "table", *GROUP_OF])
            raise ValueError(f"rows: expected names or patterns of {known}, got {pattern!r}")
        chosen |= matching
    return [row for row in ROWS if row.name in chosen]
