/* Softmax and log-softmax over the middle one of [outer, dim, inner], and their derivatives. All operands are contiguous and have
 * storage dtypes of their own. A row is one (outer, inner); its sums follow ordered.h.
 *
 *   softmax            view[0] = y, view[1] = x
 *   softmax_backward   view[0] = gradient of x, view[1] = g, view[2] = y
 *   n[0] = rows = outer * inner, n[1] = dim, n[2] = inner, n[3] = 1 for the logarithm, n[4] = rows that a group does at once
 *   groups = ceil(n[0] / n[4]) */
#include "ordered.h"

#define AT(k) (ROW / inner * dim * inner + ROW % inner + (k) * inner)

KERNEL(N(softmax), 256) {
    ORDERED_MEMORY();
    LOCAL(REAL, top, 16);
    LOCAL(REAL, total, 16);
    const fa_i64 rows = P.n[0], dim = P.n[1], inner = P.n[2], per_group = P.n[4];
    ITEMS(256) { /* the largest: any order will do. A NaN is passed over here and comes back with the sum */
        REAL most = (REAL)fa_bits_f32(0xff800000u); /* minus infinity */
        if (ROW < rows)
            for (fa_i64 k = item % TEAM; k < dim; k += TEAM) {
                const REAL x = LOAD_ARG(1, AT(k));
                most = x > most ? x : most;
            }
        ordered_part[item] = most;
    }
    BARRIER();
    ITEMS(256) {
        if (item < per_group) {
            REAL most = ordered_part[item * TEAM];
            for (int i = 1; i < TEAM; ++i) most = ordered_part[item * TEAM + i] > most ? ordered_part[item * TEAM + i] : most;
            top[item] = most;
        }
    }
    BARRIER();
    ORDERED_SUM(total, dim, N(fa_exp)(LOAD_ARG(1, AT(k)) - top[OWNER]));
    ITEMS(256) {
        if (ROW < rows) {
            const REAL most = top[OWNER], factor = 1 / total[OWNER], less = P.n[3] ? N(fa_log)(total[OWNER]) : 0;
            for (fa_i64 k = item % TEAM; k < dim; k += TEAM) {
                const REAL x = LOAD_ARG(1, AT(k)) - most;
                STORE_ARG(0, AT(k), P.n[3] ? x - less : N(fa_exp)(x) * factor);
            }
        }
    }
}

KERNEL(N(softmax_backward), 256) {
    ORDERED_MEMORY();
    LOCAL(REAL, total, 16);
    const fa_i64 rows = P.n[0], dim = P.n[1], inner = P.n[2], per_group = P.n[4];
    ORDERED_SUM(total, dim, P.n[3] ? LOAD_ARG(1, AT(k)) : LOAD_ARG(1, AT(k)) * LOAD_ARG(2, AT(k)));
    ITEMS(256) {
        if (ROW < rows)
            for (fa_i64 k = item % TEAM; k < dim; k += TEAM) {
                const REAL g = LOAD_ARG(1, AT(k)), y = LOAD_ARG(2, AT(k));
                STORE_ARG(0, AT(k), P.n[3] ? g - N(fa_exp)(y) * total[OWNER] : y * (g - total[OWNER]));
            }
    }
}

#undef AT
