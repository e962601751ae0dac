/* tile.c: see tile.h. From queries and keys to scores; masks by position are ranges of keys. */
#include "tile.h"

#include <assert.h>

#include "number.h"

/* Asks for n elements, `step` bytes apart, of memory that will be needed soon. */
static inline __attribute__((always_inline)) void fetch(const char *from, ptrdiff_t step,
                                                        ptrdiff_t n)
{
    enum { LINE = 64 };
    if (n <= 0 || step < 0 || step > LINE) /* backwards, or too many lines for what they hold */
        return;
    const char *const end = from + n * step;
    for (from -= (uintptr_t)from % LINE; from < end; from += LINE)
        __builtin_prefetch(from);
    /* GCC takes a function that only asks for one without effect, and drops calls of it. */
    __asm__ volatile("");
}

/* The same of each row. All are asked for before any is read: groups of rows, each packed when it has
 * come, would wait for memory one after the other. */
static inline __attribute__((always_inline)) void fetch_rows(const struct attn_rows *rows,
                                                             ptrdiff_t offset, ptrdiff_t n)
{
    for (int lane = 0; lane < rows->count; lane++)
        fetch(rows->row[lane] + offset * rows->step, rows->step, n);
}

char *tile_base(const struct tile *tile, const struct operand *operand, ptrdiff_t head)
{
    char *at = operand->data + head * operand->head;
    for (int axis = 0; axis < tile->plan->shape->batch_axes; axis++)
        at += tile->batch[axis] * operand->batch[axis];
    return at;
}

void tile_rows(const struct tile *tile, const struct operand *operand, struct attn_rows *rows)
{
    char *base = tile_base(tile, operand, 0);
    rows->count = tile->count;
    rows->vectors = tile->vectors;
    rows->dtype = operand->dtype;
    rows->step = operand->col;
    for (int lane = 0; lane < tile->count; lane++)
        rows->row[lane] = base + tile->head[lane] * operand->head
                          + tile->query[lane] * operand->row;
}

/* The integer of an option for this tile's batch; `none` where it was not given. */
static int64_t batch_integer(const struct tile *tile, const struct operand *option, int64_t none)
{
    return option->data ? *(const int64_t *)(const void *)tile_base(tile, option, 0) : none;
}

/* A bound on keys that moves with the query: beyond any key it may stay there, and adding a query to
 * it can't overflow. */
static int64_t moving_bound(int64_t bound)
{
    const int64_t far = INT64_C(1) << 62;
    return least(most(bound, -far), far);
}

static void find_ranges(struct tile *tile)
{
    const attn_problem *p = tile->plan->problem;
    const attn_shape *shape = tile->plan->shape;
    const int64_t queries = batch_integer(tile, &tile->plan->q_lens, shape->queries);
    const int64_t keys = batch_integer(tile, &tile->plan->kv_lens, shape->keys);
    tile->offset = batch_integer(tile, &tile->plan->q_offset, 0);

    int64_t first_of_0 = INT64_MIN, end_of_0 = INT64_MAX; /* of a query 0 */
    const int64_t after_of_0 = saturated_sum(tile->offset, 1);
    if (p->causal)
        end_of_0 = after_of_0;
    if (p->window_right != ATTN_OPEN)
        end_of_0 = least(end_of_0, saturated_sum(after_of_0, p->window_right));
    if (p->window_left != ATTN_OPEN)
        first_of_0 = saturated_sum(tile->offset, -p->window_left);
    first_of_0 = moving_bound(first_of_0);
    end_of_0 = moving_bound(end_of_0);

    tile->start = INT64_MAX, tile->stop = 0;
    tile->inner_start = 0, tile->inner_stop = keys;
    for (int lane = 0; lane < tile->count; lane++) {
        const int64_t query = tile->query[lane];
        int64_t first = most(0, first_of_0 + query);
        int64_t end = least(query < queries ? keys : 0, end_of_0 + query);
        if (end <= first)
            first = end = 0;
        else
            tile->start = least(tile->start, first);
        tile->stop = most(tile->stop, end);
        tile->inner_start = most(tile->inner_start, first);
        tile->inner_stop = least(tile->inner_stop, end);
        tile->first[lane] = first;
        tile->end[lane] = end;
    }
    /* Tiles of keys begin at multiples of 4, which is how dropout counts. */
    tile->start = least(tile->start, tile->stop) / 4 * 4;
}

static void carve_scratch(struct tile *tile, char *scratch)
{
    const struct scratch_layout *layout = &tile->plan->scratch;
    const size_t lane_bytes = (size_t)tile->plan->kernels->tile_lanes
                              * tile->plan->kernels->real_size;
    void **const lane_array[NUM_LANE_ARRAYS] = {&tile->max,        &tile->sum,      &tile->owed,
                                                &tile->factor,     &tile->distance, &tile->slope,
                                                &tile->first_lane, &tile->end_lane};
    tile->packed = scratch + layout->query;
    tile->scores = scratch + layout->scores;
    tile->bias = scratch + layout->bias;
    tile->out = scratch + layout->out;
    tile->key_rows = scratch + layout->key;
    tile->value_rows = scratch + layout->value;
    for (size_t i = 0; i < NUM_LANE_ARRAYS; i++)
        *lane_array[i] = scratch + layout->lanes + i * lane_bytes;
}

static void find_slopes(struct tile *tile)
{
    double slope[MAX_TILE_LANES] = {0};
    for (int lane = 0; lane < tile->count; lane++) {
        const char *at = tile_base(tile, &tile->plan->alibi_slopes, tile->head[lane]);
        slope[lane] = *(const double *)(const void *)at;
    }
    tile->plan->kernels->set_lanes(tile->slope, slope);
}

static void pack_queries(struct tile *tile)
{
    const struct attn_plan *plan = tile->plan;
    const struct attn_kernels *k = plan->kernels;
    const ptrdiff_t features = plan->shape->features;
    struct attn_rows rows;
    tile_rows(tile, &plan->query, &rows);
    if (!plan->few_rows) {
        k->pack(tile->packed, &rows, 0, features);
        return;
    }
    for (int r = 0; r < rows.count; r++) {
        const struct attn_matrix row = {rows.row[r], rows.dtype, 0, rows.step};
        k->widen((char *)tile->packed + (size_t)(r * features) * k->real_size, &row, 1, features);
    }
}

/* The features of a row of keys or of values. */
static ptrdiff_t features_of(const struct attn_plan *plan, const struct operand *operand)
{
    return operand == &plan->value ? plan->shape->value_features : plan->shape->features;
}

static char *key_row(const struct tile *tile, const struct operand *operand, ptrdiff_t key)
{
    return tile_base(tile, operand, tile->kv_head) + key * operand->row;
}

void tile_fetch_keys(const struct tile *tile, const struct operand *operand, ptrdiff_t key)
{
    const struct attn_plan *plan = tile->plan;
    const ptrdiff_t keys = least(plan->key_tile, tile->stop - key);
    if (keys <= 0)
        return;
    const ptrdiff_t features = features_of(plan, operand);
    const char *row = key_row(tile, operand, key);
    for (ptrdiff_t i = 0; i < keys; i++, row += operand->row)
        fetch(row, operand->col, features);
}

void tile_fetch(const struct tile *tile)
{
    const struct attn_plan *plan = tile->plan;
    struct attn_rows rows;
    tile_rows(tile, &plan->query, &rows);
    fetch_rows(&rows, 0, plan->shape->features);
    if (plan->read_once)
        tile_fetch_keys(tile, &plan->key, tile->start);
    if (!plan->out.data)
        return;
    if (plan->read_once)
        tile_fetch_keys(tile, &plan->value, tile->start);
    tile_rows(tile, &plan->out, &rows);
    fetch_rows(&rows, 0, plan->shape->value_features);
}

void tile_load(struct tile *tile)
{
    if (tile->plan->alibi_slopes.data)
        find_slopes(tile);
    pack_queries(tile);
}

void tile_locate(struct tile *tile, const struct attn_plan *plan, ptrdiff_t head_block)
{
    ptrdiff_t rest = head_block / plan->head_blocks;
    tile->plan = plan;
    tile->first_head = head_block % plan->head_blocks * plan->tile_heads;
    tile->kv_head = tile->first_head / plan->group;
    tile->flat_batch = rest;
    for (int axis = plan->shape->batch_axes - 1; axis >= 0; axis--) {
        tile->batch[axis] = rest % plan->shape->batch_dim[axis];
        rest /= plan->shape->batch_dim[axis];
    }
}

void tile_open(struct tile *tile, const struct attn_plan *plan, char *scratch, ptrdiff_t number)
{
    const struct attn_kernels *k = plan->kernels;
    /* Later rows first: under a causal mask they have more to do, and what is short comes last. */
    const ptrdiff_t index = plan->tiles - 1 - number % plan->tiles;
    tile_locate(tile, plan, number / plan->tiles);
    carve_scratch(tile, scratch);
    tile->part = 0;

    const ptrdiff_t first_vector = index * plan->row_vectors / plan->tiles;
    const ptrdiff_t end_vector = (index + 1) * plan->row_vectors / plan->tiles;
    tile->vectors = (int)(end_vector - first_vector);
    tile->first_row = first_vector * k->lanes;
    tile->count = (int)(least(end_vector * k->lanes, plan->rows) - tile->first_row);
    assert(tile->count > 0 && tile->count <= tile->vectors * k->lanes);
    ptrdiff_t head = tile->first_row % plan->tile_heads;
    ptrdiff_t query = tile->first_row / plan->tile_heads;
    for (int lane = 0; lane < tile->count; lane++) {
        tile->head[lane] = tile->first_head + head;
        tile->query[lane] = query;
        if (++head == plan->tile_heads)
            head = 0, query++;
    }
    find_ranges(tile);
}

void tile_take_part(struct tile *tile, ptrdiff_t part)
{
    const ptrdiff_t size = tile->plan->part_keys;
    tile->part = part;
    tile->start = most(tile->start, part * size);
    tile->stop = least(tile->stop, (part + 1) * size);
}

/* Reads the mask of a tile of keys, into tile->bias, and asks for that of the next. */
static enum mask_effect read_mask(struct tile *tile, ptrdiff_t key, ptrdiff_t keys)
{
    const struct attn_plan *plan = tile->plan;
    const ptrdiff_t next = key + keys, next_keys = least(plan->key_tile, tile->stop - next);
    struct attn_rows rows;
    tile_rows(tile, &plan->mask, &rows);
    if (plan->same_mask)
        rows.count = rows.vectors = 1;
    plan->kernels->pack(tile->bias, &rows, key, keys);
    fetch_rows(&rows, next, next_keys);
    const enum mask_effect effect = plan->kernels->mask_effect(tile->bias, keys, rows.count,
                                                               rows.dtype == ATTN_BOOL);
    if (plan->same_mask && effect != MASK_PASSES)
        plan->kernels->spread(tile->bias, keys, tile->vectors);
    return effect;
}

static void apply_mask(struct tile *tile, ptrdiff_t keys)
{
    const struct attn_plan *plan = tile->plan;
    if (plan->mask.dtype == ATTN_BOOL)
        plan->kernels->mask(tile->scores, tile->bias, keys, tile->vectors);
    else
        plan->kernels->add_bias(tile->scores, tile->bias, keys, tile->vectors);
}

static void add_alibi(struct tile *tile, ptrdiff_t key, ptrdiff_t keys)
{
    const struct attn_kernels *k = tile->plan->kernels;
    double distance[MAX_TILE_LANES] = {0};
    for (int lane = 0; lane < tile->count; lane++)
        distance[lane] = (double)saturated_sum(tile->offset, tile->query[lane]) - (double)key;
    k->set_lanes(tile->distance, distance);
    k->alibi(tile->scores, keys, tile->vectors, tile->distance, tile->slope);
}

static void clip_ranges(struct tile *tile, ptrdiff_t key, ptrdiff_t keys)
{
    const struct attn_kernels *k = tile->plan->kernels;
    double first[MAX_TILE_LANES] = {0}, end[MAX_TILE_LANES] = {0};
    for (int lane = 0; lane < tile->count; lane++) {
        first[lane] = (double)most(0, least(keys, tile->first[lane] - key));
        end[lane] = (double)most(0, least(keys, tile->end[lane] - key));
    }
    k->set_lanes(tile->first_lane, first);
    k->set_lanes(tile->end_lane, end);
    k->clip(tile->scores, keys, tile->vectors, tile->first_lane, tile->end_lane);
}

struct key_rows tile_key_rows(struct tile *tile, const struct operand *operand, ptrdiff_t key,
                              ptrdiff_t keys)
{
    const struct attn_plan *plan = tile->plan;
    const bool values = operand == &plan->value;
    const ptrdiff_t size = (ptrdiff_t)plan->kernels->real_size;
    const ptrdiff_t features = features_of(plan, operand);
    const char *from = key_row(tile, operand, key);

    if (!(values ? plan->widen_value : plan->widen_key))
        return (struct key_rows){from, operand->row / size, operand->col / size};
    const struct attn_matrix matrix = {from, operand->dtype, operand->row, operand->col};
    void *to = values ? tile->value_rows : tile->key_rows;
    plan->kernels->widen(to, &matrix, keys, features);
    return (struct key_rows){to, features, 1};
}

/* scale · q·k, softcapped. */
static void dot_products(struct tile *tile, ptrdiff_t key, ptrdiff_t keys)
{
    const struct attn_plan *plan = tile->plan;
    const struct attn_kernels *k = plan->kernels;
    const struct key_rows rows = tile_key_rows(tile, &plan->key, key, keys);
    if (plan->few_rows)
        k->score_rows(tile->scores, rows.data, rows.row, tile->packed, keys, plan->shape->features,
                      tile->count, plan->factor);
    else
        k->product(tile->scores, rows.data, rows.row, rows.col, tile->packed, keys,
                   plan->shape->features, tile->vectors, plan->factor);
    if (plan->softcap > 0)
        k->softcap(tile->scores, keys, tile->vectors, plan->softcap);
}

enum tile_sight tile_scores(struct tile *tile, ptrdiff_t key, ptrdiff_t keys, attn_stage stage)
{
    const struct attn_plan *plan = tile->plan;
    const bool biased = stage >= ATTN_BIASED;
    enum mask_effect effect = MASK_PASSES;
    if (biased && plan->mask.data)
        effect = read_mask(tile, key, keys);
    if (effect == MASK_HIDES) { /* -inf, whatever the scores are */
        apply_mask(tile, keys);
        return TILE_HIDDEN;
    }

    dot_products(tile, key, keys);
    if (!biased)
        return TILE_SEEN;
    if (plan->alibi_slopes.data)
        add_alibi(tile, key, keys);
    if (effect == MASK_MIXES)
        apply_mask(tile, keys);
    const bool clipped = key < tile->inner_start || key + keys > tile->inner_stop;
    if (clipped)
        clip_ranges(tile, key, keys);
    return clipped || effect == MASK_MIXES || plan->alibi_slopes.data ? TILE_MASKED : TILE_SEEN;
}
