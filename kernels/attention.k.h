/* softmax(scale * q k^T + mask) v without the matrix of scores, and its derivative. Operands q [b, h, l, e], k [b, h, s, e],
 * v [b, h, s, ev] of the compute type, any strides but 1 in the last dimension; mask [b, h, l, s] of any type and strides, or
 * none: bool lets a score pass or not, numbers are added.
 *
 *   attention           view[0] = result [b, h, l, ev], view[1] = logarithm of each row's sum of exponentials [b, h, l],
 *                       contiguous (infinity for a row that may look at nothing, whose result is 0), view[2] = q, view[3] =
 *                       k, view[4] = v, view[5] = mask
 *   attention_backward  view[0] = gradients, a vector: of q as [b, l, h, e], of k as [b, s, h, e], of v as [b, s, h, ev];
 *                       view[1] = q, view[2] = k, view[3] = v, view[4] = mask, view[5] = gradient of the result, view[6] =
 *                       result, view[7] = logarithms
 *   n[0] = b, n[1] = h, n[2] = l, n[3] = s, n[4] = e, n[5] = ev, n[6] = 1: row i looks at columns up to i only; f[0] = scale
 *   groups = b * h * ceil(l / 16); of the derivative b * h * (ceil(l / 16) + ceil(s / 16))
 *
 * Here e and ev are at most 256. A group has 16 rows of its own, which 16 items each work for, and meets all others 64 at a
 * time. The derivative's first groups own rows of q, the others rows of k and v: nobody adds to what another one writes. */

#ifndef FA_ATTENTION
#define FA_ATTENTION
#define ATTENTION_MEMORY()                                                                                                       \
    LOCAL(REAL, near, 16 * 17);                                                                                                  \
    LOCAL(REAL, far, 64 * 17)
/* part(j) of an item = the product of its group's row item / 16 (of A) with row item % 16 + 16 * j of the 64 (of B), over
 * depth. */
#define ATTENTION_DOT(part, A, a_row, a_rows, B, b_row, b_rows, depth)                                                           \
    ITEMS(256) { UNROLLED for (int j = 0; j < 4; ++j) MINE_OF(part, j) = 0; }                                                    \
    for (fa_i64 d0 = 0; d0 < (depth); d0 += 16) {                                                                                \
        ITEMS(256) {                                                                                                             \
            const int r_ = item / 16, d_ = item % 16;                                                                            \
            near[r_ * 17 + d_] = r_ < (a_rows) && d0 + d_ < (depth) ? (A)[r_ * (a_row) + d0 + d_] : 0;                           \
            for (int j = 0; j < 4; ++j)                                                                                          \
                far[(r_ + 16 * j) * 17 + d_] =                                                                                   \
                    r_ + 16 * j < (b_rows) && d0 + d_ < (depth) ? (B)[(r_ + 16 * j) * (b_row) + d0 + d_] : 0;                    \
        }                                                                                                                        \
        BARRIER();                                                                                                               \
        ITEMS(256) {                                                                                                             \
            for (int d = 0; d < 16; ++d)                                                                                         \
                UNROLLED for (int j = 0; j < 4; ++j) MINE_OF(part, j) +=                                                         \
                    near[item / 16 * 17 + d] * far[(item % 16 + 16 * j) * 17 + d];                                               \
        }                                                                                                                        \
        BARRIER();                                                                                                               \
    }
/* What the mask (view k) makes of a score of row i and column j. */
#define ATTENTION_MASKED(score, k, i, j)                                                                                         \
    (P.view[k].kind == FA_VIEW_NONE ? (score)                                                                                    \
     : P.view[k].dtype == FA_T_BOOL ? (LOAD_ARG(k, ATTENTION_MASK_AT(k, i, j)) != 0 ? (score) : (REAL)-FA_INFINITY)              \
                                    : (score) + LOAD_ARG(k, ATTENTION_MASK_AT(k, i, j)))
#define ATTENTION_MASK_AT(k, i, j)                                                                                               \
    (b * P.view[k].stride[0] + h * P.view[k].stride[1] + (i)*P.view[k].stride[2] + (j)*P.view[k].stride[3])
#define ATTENTION_ROWS(k, first)                                                                                                 \
    (ARG(const REAL, k) + b * P.view[k].stride[0] + h * P.view[k].stride[1] + (first)*P.view[k].stride[2])
#define ATTENTION_LEFT(count, first, most) ((count) - (first) < (most) ? (count) - (first) : (most))
#endif

KERNEL(N(attention), 256) {
    ATTENTION_MEMORY();
    LOCAL(REAL, score, 16 * 64);
    LOCAL(REAL, top, 16);
    LOCAL(REAL, total, 16);
    LOCAL(REAL, factor, 16);
    PRIVATES(REAL, part, 4, 256);
    PRIVATES(REAL, sum, 16, 256);
    const fa_i64 length = P.n[2], width = P.n[3], depth = P.n[4], columns = P.n[5], tiles = (length + 15) / 16;
    const fa_i64 i0 = GROUP % tiles * 16, h = GROUP / tiles % P.n[1], b = GROUP / tiles / P.n[1];
    const fa_i64 end = P.n[6] && i0 + 16 < width ? i0 + 16 : width;
    const REAL scale = (REAL)P.f[0];
    ITEMS(256) {
        UNROLLED for (int j = 0; j < 16; ++j) MINE_OF(sum, j) = 0;
        if (item < 16) {
            top[item] = (REAL)-FA_INFINITY;
            total[item] = 0;
        }
    }
    for (fa_i64 j0 = 0; j0 < end; j0 += 64) {
        const fa_i64 here = ATTENTION_LEFT(end, j0, 64);
        ATTENTION_DOT(part, ATTENTION_ROWS(2, i0), P.view[2].stride[2], ATTENTION_LEFT(length, i0, 16), ATTENTION_ROWS(3, j0),
                      P.view[3].stride[2], here, depth)
        ITEMS(256) {
            const fa_i64 i = i0 + item / 16;
            UNROLLED for (int j = 0; j < 4; ++j) {
                const int c = item % 16 + 16 * j;
                const int seen = i < length && c < here && !(P.n[6] && j0 + c > i);
                score[item / 16 * 64 + c] = seen ? ATTENTION_MASKED(MINE_OF(part, j) * scale, 5, i, j0 + c) : (REAL)-FA_INFINITY;
            }
        }
        BARRIER();
        ITEMS(256) {
            if (item < 16) {
                REAL most = top[item];
                for (int c = 0; c < 64; ++c) most = score[item * 64 + c] > most ? score[item * 64 + c] : most;
                const REAL from = most == (REAL)-FA_INFINITY ? 0 : most;
                factor[item] = N(fa_exp)(top[item] - from);
                REAL all = total[item] * factor[item];
                for (int c = 0; c < 64; ++c) {
                    const REAL e = N(fa_exp)(score[item * 64 + c] - from);
                    score[item * 64 + c] = e;
                    all += e;
                }
                total[item] = all;
                top[item] = most;
            }
        }
        BARRIER();
        ITEMS(256) {
            UNROLLED for (int j = 0; j < 16; ++j) {
                const fa_i64 c = item % 16 + 16 * j;
                if (c < columns) {
                    REAL v = MINE_OF(sum, j) * factor[item / 16];
                    for (int k = 0; k < here; ++k) v += score[item / 16 * 64 + k] * ATTENTION_ROWS(4, j0 + k)[c];
                    MINE_OF(sum, j) = v;
                }
            }
        }
        BARRIER();
    }
    ITEMS(256) {
        const int r = item / 16;
        const fa_i64 i = i0 + r;
        if (i < length) {
            UNROLLED for (int j = 0; j < 16; ++j) {
                const fa_i64 c = item % 16 + 16 * j;
                if (c < columns)
                    ARG(REAL, 0)
                    [b * P.view[0].stride[0] + h * P.view[0].stride[1] + i * P.view[0].stride[2] + c] =
                        total[r] == 0 ? 0 : MINE_OF(sum, j) / total[r];
            }
            if (item % 16 == 0)
                ARG(REAL, 1)[(b * P.n[1] + h) * length + i] = total[r] == 0 ? (REAL)FA_INFINITY : top[r] + N(fa_log)(total[r]);
        }
    }
}

KERNEL(N(attention_backward), 256) {
    ATTENTION_MEMORY();
    LOCAL(REAL, weight, 16 * 64);
    LOCAL(REAL, slope, 16 * 64);
    LOCAL(REAL, lse, 64);
    LOCAL(REAL, delta, 64);
    PRIVATES(REAL, part, 4, 256);
    PRIVATES(REAL, other, 4, 256);
    PRIVATES(REAL, first, 16, 256);
    PRIVATES(REAL, second, 16, 256);
    const fa_i64 heads = P.n[1], length = P.n[2], width = P.n[3], depth = P.n[4], columns = P.n[5];
    const fa_i64 q_tiles = (length + 15) / 16, k_tiles = (width + 15) / 16, q_groups = P.n[0] * heads * q_tiles;
    const int of_q = GROUP < q_groups; /* the group owns rows of q, else of k and v */
    const fa_i64 tiles = of_q ? q_tiles : k_tiles, place = of_q ? GROUP : GROUP - q_groups;
    const fa_i64 r0 = place % tiles * 16, h = place / tiles % heads, b = place / tiles / heads, mine = of_q ? length : width;
    const fa_i64 begin = !of_q && P.n[6] ? r0 / 64 * 64 : 0, theirs = of_q ? width : length;
    const fa_i64 end = of_q && P.n[6] && r0 + 16 < width ? r0 + 16 : theirs;
    const REAL scale = (REAL)P.f[0];
    ITEMS(256) { UNROLLED for (int j = 0; j < 16; ++j) MINE_OF(first, j) = MINE_OF(second, j) = 0; }
    for (fa_i64 c0 = begin; c0 < end; c0 += 64) {
        const fa_i64 here = ATTENTION_LEFT(end, c0, 64), rows = ATTENTION_LEFT(mine, r0, 16);
        const fa_i64 i0 = of_q ? r0 : c0, j0 = of_q ? c0 : r0, queries = of_q ? rows : here;
        GLOBAL const REAL *q = ATTENTION_ROWS(1, i0), *k = ATTENTION_ROWS(2, j0), *v = ATTENTION_ROWS(3, j0),
                          *g = ATTENTION_ROWS(5, i0);
        const fa_i64 q_row = P.view[1].stride[2], k_row = P.view[2].stride[2], v_row = P.view[3].stride[2],
                     g_row = P.view[5].stride[2];
        ITEMS(256) { /* of each query: the logarithm, and the sum of its result times its gradient */
            if (item < queries) {
                GLOBAL const REAL *y = ATTENTION_ROWS(6, i0 + item);
                REAL sum = 0;
                for (fa_i64 c = 0; c < columns; ++c) sum += g[item * g_row + c] * y[c];
                delta[item] = sum;
                lse[item] = ARG(REAL, 7)[(b * heads + h) * length + i0 + item];
            }
        }
        ATTENTION_DOT(part, of_q ? q : k, of_q ? q_row : k_row, rows, of_q ? k : q, of_q ? k_row : q_row, here, depth)
        ATTENTION_DOT(other, of_q ? g : v, of_q ? g_row : v_row, rows, of_q ? v : g, of_q ? v_row : g_row, here, columns)
        ITEMS(256) {
            UNROLLED for (int j = 0; j < 4; ++j) {
                const int r = item / 16, c = item % 16 + 16 * j, query = of_q ? r : c, key = of_q ? c : r;
                const int seen = r < rows && c < here && !(P.n[6] && j0 + key > i0 + query);
                const REAL p =
                    seen ? N(fa_exp)(ATTENTION_MASKED(MINE_OF(part, j) * scale, 4, i0 + query, j0 + key) - lse[query]) : 0;
                weight[r * 64 + c] = p;
                slope[r * 64 + c] = seen ? p * (MINE_OF(other, j) - delta[query]) * scale : 0;
            }
        }
        BARRIER();
        ITEMS(256) {
            GLOBAL const REAL *far_rows = of_q ? k : q;
            const fa_i64 far_row = of_q ? k_row : q_row;
            UNROLLED for (int j = 0; j < 16; ++j) {
                const fa_i64 c = item % 16 + 16 * j;
                REAL a = MINE_OF(first, j), d = MINE_OF(second, j);
                if (c < depth)
                    for (int t = 0; t < here; ++t) a += slope[item / 16 * 64 + t] * far_rows[t * far_row + c];
                if (!of_q && c < columns)
                    for (int t = 0; t < here; ++t) d += weight[item / 16 * 64 + t] * g[t * g_row + c];
                MINE_OF(first, j) = a;
                MINE_OF(second, j) = d;
            }
        }
        BARRIER();
    }
    ITEMS(256) {
        const fa_i64 r = r0 + item / 16, of_k = P.n[0] * length * heads * depth, of_v = of_k + P.n[0] * width * heads * depth;
        if (r < mine) {
            UNROLLED for (int j = 0; j < 16; ++j) {
                const fa_i64 c = item % 16 + 16 * j, row = (b * mine + r) * heads + h;
                if (c < depth) ARG(REAL, 0)[(of_q ? 0 : of_k) + row * depth + c] = MINE_OF(first, j);
                if (!of_q && c < columns) ARG(REAL, 0)[of_v + row * columns + c] = MINE_OF(second, j);
            }
        }
    }
}
