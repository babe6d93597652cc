/* Copies between views of one element type: flat ones by memcpy, transposed ones in blocks that use every cache line they touch,
 * all others in the order of their indices. */
#include "convert.h"
#include "copy.h"
#include <string.h>

enum { BLOCK = 32, TILE = 512, GRAIN = 65536 };

typedef struct copy {
    char *to;
    const char *from;
    int bytes;
    fai_cpu_space space;
    const fa_i64 *to_stride, *from_stride;
    bool to_flat, from_flat;
    int a, b;              /* dimensions of a transposed copy: `from` is contiguous along a, `to` along b */
} copy;

static bool is_flat(const fai_cpu_space *space, const fa_i64 *stride) {
    fa_i64 expected = 1;
    for (int d = space->ndim - 1; d >= 0; d--) {
        if (space->size[d] != 1 && stride[d] != expected) return false;
        expected *= space->size[d];
    }
    return true;
}

static void copy_flat(void *context, int64_t begin, int64_t end) {
    const copy *c = context;
    memcpy(c->to + begin * c->bytes, c->from + begin * c->bytes, (size_t)((end - begin) * c->bytes));
}

static void copy_strided(void *context, int64_t begin, int64_t end) {
    const copy *c = context;
    if (c->to_flat) {
        FAI_NAME(fai_cpu_gather)(c->to + begin * c->bytes, c->from, c->bytes, &c->space, c->from_stride, begin, end - begin);
        return;
    }
    char tile[TILE * 8];
    for (int64_t at = begin; at < end; at += TILE) {
        const int64_t n = end - at < TILE ? end - at : TILE;
        const char *from = c->from_flat ? c->from + at * c->bytes : tile;
        if (!c->from_flat) FAI_NAME(fai_cpu_gather)(tile, c->from, c->bytes, &c->space, c->from_stride, at, n);
        FAI_NAME(fai_cpu_scatter)(c->to, from, c->bytes, &c->space, c->to_stride, at, n);
    }
}

/* ---- transposed: to[i * rows_to + j] = from[i + j * columns_from] for na x nb elements ---- */
typedef uint32_t words __attribute__((vector_size(16), aligned(4), may_alias));

static void transpose_4(uint32_t *to, int64_t to_row, const uint32_t *from, int64_t from_row) {
    words r[4], s[4];
    for (int k = 0; k < 4; k++) r[k] = *(const words *)(const void *)(from + k * from_row);
    s[0] = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    s[1] = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    s[2] = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    s[3] = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    *(words *)(void *)to = __builtin_shufflevector(s[0], s[2], 0, 1, 4, 5);
    *(words *)(void *)(to + to_row) = __builtin_shufflevector(s[0], s[2], 2, 3, 6, 7);
    *(words *)(void *)(to + 2 * to_row) = __builtin_shufflevector(s[1], s[3], 0, 1, 4, 5);
    *(words *)(void *)(to + 3 * to_row) = __builtin_shufflevector(s[1], s[3], 2, 3, 6, 7);
}

#define BLOCK_OF(type)                                                                     \
    for (int64_t i = 0; i < na; i++)                                                       \
        for (int64_t j = 0; j < nb; j++) ((type *)to)[i * to_row + j] = ((const type *)from)[i + j * from_row]

static void transpose_block(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t na, int64_t nb, int bytes) {
    if (bytes == 4 && na % 4 == 0 && nb % 4 == 0) {
        for (int64_t i = 0; i < na; i += 4)
            for (int64_t j = 0; j < nb; j += 4)
                transpose_4((uint32_t *)to + i * to_row + j, to_row, (const uint32_t *)from + i + j * from_row, from_row);
        return;
    }
    switch (bytes) {
    case 1: BLOCK_OF(uint8_t); break;
    case 2: BLOCK_OF(uint16_t); break;
    case 4: BLOCK_OF(uint32_t); break;
    default: BLOCK_OF(uint64_t); break;
    }
}

/* Bands begin .. end-1: BLOCK rows along a, all of b, of one place in the other dimensions each. */
static void copy_transposed(void *context, int64_t begin, int64_t end) {
    const copy *c = context;
    const int64_t size_a = c->space.size[c->a], size_b = c->space.size[c->b], bands = (size_a + BLOCK - 1) / BLOCK;
    const int64_t to_row = c->to_stride[c->a], from_row = c->from_stride[c->b];
    for (int64_t band = begin; band < end; band++) {
        int64_t outer = band / bands, i = band % bands * BLOCK, to = i * to_row, from = i;
        for (int d = c->space.ndim - 1; d >= 0; d--) {
            if (d == c->a || d == c->b) continue;
            to += outer % c->space.size[d] * c->to_stride[d];
            from += outer % c->space.size[d] * c->from_stride[d];
            outer /= c->space.size[d];
        }
        const int64_t na = size_a - i < BLOCK ? size_a - i : BLOCK;
        for (int64_t j = 0; j < size_b; j += BLOCK) {
            const int64_t nb = size_b - j < BLOCK ? size_b - j : BLOCK;
            transpose_block(c->to + (to + j) * c->bytes, to_row, c->from + (from + j * from_row) * c->bytes, from_row, na, nb,
                            c->bytes);
        }
    }
}

/* Both dimensions are worth a block, and neither view is contiguous along the other's. */
static bool find_transposed(copy *c) {
    c->a = c->b = -1;
    for (int d = 0; d < c->space.ndim; d++) {
        if (c->space.size[d] < 8) continue;
        if (c->from_stride[d] == 1) c->a = d;
        if (c->to_stride[d] == 1) c->b = d;
    }
    return c->a >= 0 && c->b >= 0 && c->a != c->b;
}

bool FAI_NAME(fai_cpu_copy)(const fa_plan *plan, char *const *pointers) {
    const fa_plan_view *to = &plan->view[0], *from = &plan->view[1];
    if (from->kind == FA_VIEW_SCALAR || to->dtype != from->dtype) return false;
    copy c = {.to = pointers[0],
              .from = pointers[1],
              .bytes = fai_cpu_bytes(to->dtype),
              .to_stride = to->stride,
              .from_stride = from->stride};
    c.space = (fai_cpu_space){.ndim = plan->ndim ? plan->ndim : 1, .size = {1}};
    int64_t numel = 1;
    for (int d = 0; d < plan->ndim; d++) numel *= c.space.size[d] = to->size[d];
    c.to_flat = is_flat(&c.space, to->stride);
    c.from_flat = is_flat(&c.space, from->stride);
    if (c.to_flat && c.from_flat) {
        fai_parallel(numel, GRAIN, copy_flat, &c);
    } else if (find_transposed(&c)) {
        const int64_t bands = (c.space.size[c.a] + BLOCK - 1) / BLOCK, band = BLOCK * c.space.size[c.b];
        const int64_t all = numel ? numel / (c.space.size[c.a] * c.space.size[c.b]) * bands : 0;
        fai_parallel(all, GRAIN / band + 1, copy_transposed, &c);
    } else {
        fai_parallel(numel, GRAIN, copy_strided, &c);
    }
    return true;
}
