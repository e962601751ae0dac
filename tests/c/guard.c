/* Buffers between pages that can't be touched. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <stdint.h>
#include <sys/mman.h>

/* Each slot is mapped once: a guard page, the room for a buffer, a guard page. */
enum { SLOTS = 96, GUARD = 65536, ROOM = 1 << 24 }; /* a page is 4 to 64 KiB */

static struct {
    char *room;
    char *buffer;
    size_t bytes;
} slots[SLOTS];
static int slots_used;

static const char *const place_names[] = {"at the end", "at the start", "askew"};

const char *place_name(enum place place) { return place_names[place]; }

void guarded_reset(void) { slots_used = 0; }

void *guarded(size_t bytes, enum place place)
{
    if (slots_used == SLOTS || bytes >= ROOM) {
        fprintf(stderr, "guarded: no room for %zu bytes\n", bytes);
        abort();
    }
    const int slot = slots_used++;
    if (!slots[slot].room) {
        char *pages = mmap(NULL, ROOM + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED || mprotect(pages + GUARD, ROOM, PROT_READ | PROT_WRITE) != 0) {
            perror("guarded: mmap");
            abort();
        }
        slots[slot].room = pages + GUARD;
    }
    char *buffer = slots[slot].room + (place == ASKEW ? 1 : 0);
    if (place == AT_END)
        buffer = slots[slot].room + ROOM - bytes;
    slots[slot].buffer = buffer;
    slots[slot].bytes = bytes;
    return memset(buffer, 0xff, bytes);
}

void guarded_describe(const void *address, char *text, size_t size)
{
    const char *at = address;
    for (int slot = 0; slot < slots_used; slot++) {
        const char *room = slots[slot].room, *buffer = slots[slot].buffer;
        if (at < room - GUARD || at >= room + ROOM + GUARD)
            continue;
        if (at < buffer)
            snprintf(text, size, "%td bytes before buffer %d of %zu bytes", buffer - at, slot,
                     slots[slot].bytes);
        else
            snprintf(text, size, "byte %td of buffer %d of %zu bytes", at - buffer, slot,
                     slots[slot].bytes);
        return;
    }
    snprintf(text, size, "%p, near no buffer", (void *)(uintptr_t)address);
}

bool untouched(const void *bytes, size_t n)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < n; i++)
        if (byte[i] != 0xff)
            return false;
    return true;
}

char *guarded_matrix(ptrdiff_t rows, ptrdiff_t cols, ptrdiff_t row, ptrdiff_t col, size_t size,
                     enum place place)
{
    if (rows == 0 || cols == 0)
        return guarded(0, place);
    const ptrdiff_t down = (rows - 1) * row, across = (cols - 1) * col;
    const ptrdiff_t lowest = (down < 0 ? down : 0) + (across < 0 ? across : 0);
    const ptrdiff_t highest = (down > 0 ? down : 0) + (across > 0 ? across : 0);
    return (char *)guarded((size_t)(highest - lowest) + size, place) - lowest;
}

void *guarded_tile(const struct attn_kernels *isa, ptrdiff_t rows, int lanes, enum place place)
{
    const ptrdiff_t size = (ptrdiff_t)isa->real_size;
    return guarded_matrix(rows, lanes, isa->tile_lanes * size, size, isa->real_size, place);
}

void expect_tile_gaps(const struct attn_kernels *isa, const void *tile, ptrdiff_t rows, int lanes)
{
    const size_t row = (size_t)isa->tile_lanes * isa->real_size;
    const size_t used = (size_t)lanes * isa->real_size;
    for (ptrdiff_t r = 0; r + 1 < rows; r++)
        expect(untouched((const char *)tile + (size_t)r * row + used, row - used),
               "wrote to lanes past %d of row %td", lanes, r);
}

void copy_tile(const struct attn_kernels *isa, void *to, const void *from, ptrdiff_t rows,
               int lanes)
{
    const size_t row = (size_t)isa->tile_lanes * isa->real_size;
    for (ptrdiff_t r = 0; r < rows; r++)
        memcpy((char *)to + (size_t)r * row, (const char *)from + (size_t)r * row,
               (size_t)lanes * isa->real_size);
}
