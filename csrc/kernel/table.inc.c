/* All kernels for one ISA and one real type. Whoever includes this has set REAL_BITS, opened the
 * ISA's target region and included its simd header; every name here is static, so that no function
 * compiled for one machine can be linked into the path of another. */
#define TILE_LANES (TILE_VECTORS * LANES)

#include "exp.inc.c"
#include "pack.inc.c"
#include "product.inc.c"
#include "rows.inc.c"
#include "scores.inc.c"
#include "softmax.inc.c"
#include "dropout.inc.c"

static void fill_table(struct attn_kernels *table, const char *isa)
{
    *table = (struct attn_kernels){
        .isa = isa,
        .lanes = LANES,
        .tile_lanes = TILE_LANES,
        .real_size = sizeof(real),
        .pack = pack,
        .unpack = unpack,
        .set_lanes = set_lanes,
        .get_lanes = get_lanes,
        .widen = widen,
        .narrow = narrow,
        .product = product,
        .product_add = product_add,
        .product_seen = product_seen,
        .score_rows = score_rows,
        .add_rows = add_rows,
        .all_finite = all_finite,
        .softcap = softcap,
        .add_bias = add_bias,
        .mask = mask,
        .mask_effect = mask_effect,
        .spread = spread,
        .alibi = alibi,
        .clip = clip,
        .softmax_step = softmax_step,
        .softmax_end = softmax_end,
        .softmax_rows = softmax_rows,
        .dropout = dropout,
        .add_lanes = add_lanes,
        .sum_lanes = sum_lanes,
    };
}
