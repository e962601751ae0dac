/* dispatch.c: see dispatch.h. Decided once per process. */
#include "dispatch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

static const struct attn_isa isa[] = {
    {"generic", attn_generic_f32, attn_generic_f64},
#if defined(__x86_64__)
    {"avx2", attn_avx2_f32, attn_avx2_f64},
    {"avx512", attn_avx512_f32, attn_avx512_f64},
#elif defined(__aarch64__)
    {"neon", attn_neon_f32, attn_neon_f64},
#endif
};
enum { NUM_ISAS = sizeof isa / sizeof *isa };

static struct attn_kernels table_f32, table_f64;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    const char *limit = getenv("ATTNMOD_ISA");
    for (int rank = 0; rank < NUM_ISAS; rank++) {
        if (!attn_cpu_has(isa[rank].name))
            continue;
        isa[rank].f32(&table_f32);
        isa[rank].f64(&table_f64);
        if (limit && strcmp(limit, isa[rank].name) == 0)
            break;
    }
}

const struct attn_kernels *attn_dispatch(attn_dtype dtype)
{
    pthread_once(&once, fill_tables);
    return dtype == ATTN_F64 ? &table_f64 : &table_f32;
}

const struct attn_isa *attn_isa_of_rank(int rank) { return rank < NUM_ISAS ? &isa[rank] : NULL; }

const char *attn_isa_compiled(int rank) { return rank < NUM_ISAS ? isa[rank].name : NULL; }

const char *attn_isa_found(int rank)
{
    for (int i = 0; i < NUM_ISAS; i++)
        if (attn_cpu_has(isa[i].name) && rank-- == 0)
            return isa[i].name;
    return NULL;
}

const char *attn_isa_used(void) { return attn_dispatch(ATTN_F32)->isa; }
