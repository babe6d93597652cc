/* Reductions, in the one order that every backend keeps: elements of one result are numbered in row-major order of the reduced
 * dimensions and cut into blocks of 1,024; in a block element i goes to partial i mod 16, each starting from the row's start and
 * filled in order; the 16 are joined as a binary tree (0 with 8, 1 with 9, ..., then by 4, 2, 1); the blocks' results are joined
 * as a tree of neighbours, level by level, an odd one carried up.
 *
 *   row      reduce: FAI_REDUCE_<name> of kernels_gen.h
 *   view[0]  the results, side by side: result r at place r (reduce_index: int64, the place of the largest among the elements)
 *   view[1]  the input: n[0] kept dimensions first, in the results' order, then the reduced ones
 *   view[2]  reduce_index only: the largest itself, side by side; or none
 *   n[1]     elements of one result, as many as the reduced dimensions have
 *   n[3]     reduce_index: 1 for the smallest instead. The first one counts; NaN is larger, and smaller, than all else
 *   numel    results; groups = numel: one group works for one result
 *
 * -DFA_ROW=<row> makes the row a constant. */
#include "pieces.h"
#include "reduce_rows.h"

#if defined(FA_ROW)
#define REDUCE_ROW FA_ROW
#else
#define REDUCE_ROW P.row
#endif
#define REDUCE_BLOCK 1024
#define REDUCE_STACK 48

/* Offset of element i of the dimensions from .. to-1 of view[1]. */
#define REDUCE_OFFSET(result, i, from, to)                                         \
    {                                                                              \
        fa_i64 rest_ = (i);                                                        \
        result = 0;                                                                \
        for (int d = (int)(to) - 1; d >= (int)(from); --d) {                       \
            if (d == (int)(from)) {                                                \
                result += rest_ * P.view[1].stride[d];                             \
            } else {                                                               \
                result += rest_ % P.view[1].size[d] * P.view[1].stride[d];         \
                rest_ /= P.view[1].size[d];                                        \
            }                                                                      \
        }                                                                          \
    }

/* Takes block number `block` into the counter: place i of it holds the result of 2^i blocks. */
FN void N(reduce_push)(int row, LOCAL_POINTER REAL *stack, fa_i64 block, REAL value) {
    int place = 0;
    for (; block & 1; block >>= 1) {
        value = N(fa_reduce_join)(row, stack[place], value);
        ++place;
    }
    stack[place] = value;
}

FN REAL N(reduce_total)(int row, LOCAL_POINTER const REAL *stack, fa_i64 blocks) {
    REAL value = N(fa_reduce_start)(row);
    int some = 0;
    for (int place = 0; blocks >> place; ++place)
        if (blocks >> place & 1) {
            value = some ? N(fa_reduce_join)(row, stack[place], value) : stack[place];
            some = 1;
        }
    return value;
}

#if defined(FA_IS_C) && defined(FA_OWN)
/* A block of count elements side by side. The row is a constant, so that the 16 partials are a vector. */
static inline __attribute__((always_inline)) REAL N(reduce_lanes)(int row, const REAL *x, int count) {
    REAL part[16];
    const int whole = count - count % 16;
    ITEMS(16) { part[item] = N(fa_reduce_start)(row); }
    for (int i = 0; i < whole; i += 16) ITEMS(16) { part[item] = N(fa_reduce_join)(row, part[item], N(fa_reduce_element)(row, x[i + item])); }
    for (int i = whole; i < count; ++i) part[i - whole] = N(fa_reduce_join)(row, part[i - whole], N(fa_reduce_element)(row, x[i]));
    for (int step = 8; step > 0; step /= 2)
        for (int i = 0; i < step; ++i) part[i] = N(fa_reduce_join)(row, part[i], part[i + step]);
    return part[0];
}
FN REAL N(reduce_block)(int row, const REAL *x, int count) {
#define REDUCE_CASE(r) case r: return N(reduce_lanes)(r, x, count);
    switch (row) {
        REDUCE_CASE(0) REDUCE_CASE(1) REDUCE_CASE(2) REDUCE_CASE(3) REDUCE_CASE(4) REDUCE_CASE(5) REDUCE_CASE(6)
        REDUCE_CASE(7) REDUCE_CASE(8) REDUCE_CASE(9) REDUCE_CASE(10) REDUCE_CASE(11) REDUCE_CASE(12)
    default: return N(reduce_lanes)(row, x, count);
    }
#undef REDUCE_CASE
}
FN REAL N(reduce_pieces)(const fa_plan *plan, int row, const REAL *memory, REAL *stack) {
    const fa_i64 count = plan->n[1];
    const fa_plan_view *view = &plan->view[1];
    fa_i64 block = 0;
    REAL room[REDUCE_BLOCK];
    for (; block * REDUCE_BLOCK < count; ++block) {
        const fa_i64 first = block * REDUCE_BLOCK;
        const int here = count - first < REDUCE_BLOCK ? (int)(count - first) : REDUCE_BLOCK;
        const REAL *x = fa_piece(view->size, view->stride, (int)plan->n[0], plan->ndim, memory, first, here, room);
        N(reduce_push)(row, stack, block, N(reduce_block)(row, x, here));
    }
    return N(reduce_total)(row, stack, block);
}
#endif

KERNEL(N(reduce), 256) {
    LOCAL(REAL, part, 256);
    LOCAL(REAL, stack, REDUCE_STACK);
    const int row = REDUCE_ROW;
    const fa_i64 count = P.n[1], blocks = (count + REDUCE_BLOCK - 1) / REDUCE_BLOCK;
    fa_i64 base;
    REDUCE_OFFSET(base, GROUP, 0, P.n[0]);
#if defined(FA_IS_C) && defined(FA_OWN)
    if (P.ndim > P.n[0] && P.view[1].size[P.ndim - 1] >= FA_PIECE_ROW) {
        const REAL total = N(reduce_pieces)(&P, row, ARG(const REAL, 1) + base, stack);
        ARG(REAL, 0)[GROUP] = N(fa_reduce_finish)(row, total, (REAL)count);
        return;
    }
#endif
    for (fa_i64 first = 0; first < blocks; first += 16) { /* 16 blocks at once, 16 partials each */
        const int here = blocks - first < 16 ? (int)(blocks - first) : 16;
        ITEMS(16 * here) {
            const fa_i64 begin = (first + item / 16) * REDUCE_BLOCK;
            const fa_i64 end = begin + REDUCE_BLOCK < count ? begin + REDUCE_BLOCK : count;
            REAL a = N(fa_reduce_start)(row);
            for (fa_i64 i = begin + item % 16; i < end; i += 16) {
                fa_i64 offset;
                REDUCE_OFFSET(offset, i, P.n[0], P.ndim);
                a = N(fa_reduce_join)(row, a, N(fa_reduce_element)(row, LOAD_ARG(1, base + offset)));
            }
            part[item] = a;
        }
        BARRIER();
        for (int step = 8; step > 0; step /= 2) {
            ITEMS(16 * here) {
                if (item % 16 < step) part[item] = N(fa_reduce_join)(row, part[item], part[item + step]);
            }
            BARRIER();
        }
        ITEMS(1) {
            if (item == 0)
                for (int b = 0; b < here; ++b) N(reduce_push)(row, stack, first + b, part[b * 16]);
        }
        BARRIER();
    }
    ITEMS(1) {
        if (item == 0) STORE_ARG(0, GROUP, N(fa_reduce_finish)(row, N(reduce_total)(row, stack, blocks), (REAL)count));
    }
}

/* Whether v, at place i, comes before the best so far, at place j (-1: there is none). */
FN int N(reduce_better)(REAL v, fa_i64 i, REAL best, fa_i64 j, int least) {
    if (i < 0) return 0;
    if (j < 0) return 1;
    const int nan = N(fa_isnan)(v) != 0, had_nan = N(fa_isnan)(best) != 0;
    if (nan || had_nan) return nan && (!had_nan || i < j);
    return v == best ? i < j : least ? v < best : v > best;
}

KERNEL(N(reduce_index), 256) {
    LOCAL(REAL, best, 256);
    LOCAL(fa_i64, place, 256);
    const fa_i64 count = P.n[1];
    const int least = (int)P.n[3];
    fa_i64 base;
    REDUCE_OFFSET(base, GROUP, 0, P.n[0]);
    ITEMS(256) {
        REAL b = 0;
        fa_i64 j = -1;
        for (fa_i64 i = item; i < count; i += 256) {
            fa_i64 offset;
            REDUCE_OFFSET(offset, i, P.n[0], P.ndim);
            const REAL v = LOAD_ARG(1, base + offset);
            if (N(reduce_better)(v, i, b, j, least)) {
                b = v;
                j = i;
            }
        }
        best[item] = b;
        place[item] = j;
    }
    BARRIER();
    for (int step = 128; step > 0; step /= 2) {
        ITEMS(step) {
            if (item < step && N(reduce_better)(best[item + step], place[item + step], best[item], place[item], least)) {
                best[item] = best[item + step];
                place[item] = place[item + step];
            }
        }
        BARRIER();
    }
    ITEMS(1) {
        if (item == 0) {
            ARG(fa_i64, 0)[GROUP] = place[0];
            if (P.view[2].kind == FA_VIEW_TENSOR) STORE_ARG(2, GROUP, best[0]);
        }
    }
}
#undef REDUCE_ROW
