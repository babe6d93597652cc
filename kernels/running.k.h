/* Running largest, smallest and logarithms of sums of exponentials along the middle one of [outer, dim, inner], operands
 * contiguous. The order is that of scan.k.h: chunks of 16 are run through alone, then joined with what came before them.
 *
 *   running   view[0] = y, view[1] = x; view[2] = places of the largest or smallest so far (int64), or none
 *             n[0] = rows = outer * inner, n[1] = dim, n[2] = inner, n[3] = 0 largest, 1 smallest, 2 log of sum of exponentials;
 *             n[5] = rows that a group does at once, a power of two up to 256; groups = ceil(n[0] / n[5])
 * Of equal elements the last one's place counts, and NaN stays once it was met. */

#define RUNNING_CHUNK 16

/* Whether v, which comes later, takes the place of the best so far. */
FN int N(running_better)(REAL v, REAL best, int least) {
    if (N(fa_isnan)(v) != 0) return 1;
    return least ? v <= best : v >= best;
}

#ifdef FA_I64
FN REAL N(running_log_add)(REAL a, REAL b) { return a + b; } /* of no use: integers become floats first */
#else
FN REAL N(running_log_add)(REAL a, REAL b) {
    const REAL high = N(fa_max)(a, b), low = N(fa_min)(a, b);
    if (low == high && N(fa_isinf)(high) != 0) return high;
    return high + N(fa_log1p)(N(fa_exp)(low - high));
}
#endif

/* Joins v, at place k, to the best and its place; place -1: there is nothing yet. */
#define RUNNING_JOIN(best, at, v, k)                                                      \
    if (at < 0) {                                                                         \
        best = (v);                                                                       \
        at = (k);                                                                         \
    } else if (kind == 2) {                                                               \
        best = N(running_log_add)(best, (v));                                             \
    } else if (N(running_better)((v), best, kind)) {                                      \
        best = (v);                                                                       \
        at = (k);                                                                         \
    }

KERNEL(N(running), 256) {
    LOCAL(REAL, last, 256);     /* of each chunk: its own last result, then what came before it; and their places */
    LOCAL(fa_i64, last_at, 256);
    LOCAL(REAL, before, 256);   /* of each row: what came before the chunks at hand */
    LOCAL(fa_i64, before_at, 256);
    const fa_i64 rows = P.n[0], dim = P.n[1], inner = P.n[2];
    const int kind = (int)P.n[3], per_group = (int)P.n[5], chunks = 256 / per_group;
    ITEMS(256) {
        before[item] = 0;
        before_at[item] = -1;
    }
    for (fa_i64 first = 0; first * RUNNING_CHUNK < dim; first += chunks) {
        ITEMS(256) { /* neighbours are rows side by side in memory */
            const fa_i64 row = GROUP * per_group + item % per_group, base = row / inner * dim * inner + row % inner;
            const fa_i64 begin = (first + item / per_group) * RUNNING_CHUNK;
            REAL best = 0;
            fa_i64 at = -1;
            if (row < rows)
                for (fa_i64 k = begin; k < begin + RUNNING_CHUNK && k < dim; ++k) {
                    const REAL v = LOAD_ARG(1, base + k * inner);
                    RUNNING_JOIN(best, at, v, k)
                }
            last[item] = best;
            last_at[item] = at;
        }
        BARRIER();
        ITEMS(256) {
            if (item < per_group) {
                REAL best = before[item];
                fa_i64 at = before_at[item];
                for (int chunk = 0; chunk < chunks; ++chunk) {
                    const int mine = chunk * per_group + item;
                    const REAL v = last[mine];
                    const fa_i64 k = last_at[mine];
                    last[mine] = best;
                    last_at[mine] = at;
                    if (k >= 0) {
                        RUNNING_JOIN(best, at, v, k)
                    }
                }
                before[item] = best;
                before_at[item] = at;
            }
        }
        BARRIER();
        ITEMS(256) {
            const fa_i64 row = GROUP * per_group + item % per_group, base = row / inner * dim * inner + row % inner;
            const fa_i64 begin = (first + item / per_group) * RUNNING_CHUNK;
            REAL own = 0;
            fa_i64 own_at = -1;
            if (row < rows)
                for (fa_i64 k = begin; k < begin + RUNNING_CHUNK && k < dim; ++k) {
                    const fa_i64 to = base + k * inner;
                    const REAL v = LOAD_ARG(1, to);
                    RUNNING_JOIN(own, own_at, v, k)
                    REAL best = last[item];
                    fa_i64 at = last_at[item];
                    RUNNING_JOIN(best, at, own, own_at)
                    STORE_ARG(0, to, best);
                    if (P.view[2].kind == FA_VIEW_TENSOR) ARG(fa_i64, 2)[to] = at;
                }
        }
        BARRIER();
    }
}
#undef RUNNING_JOIN
#undef RUNNING_CHUNK
