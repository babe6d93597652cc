/* Matrix product: C[b] = act(alpha * A[b] @ B[b] + beta * D[b]) for every b of a batch.
 *
 *   view[0] = C [batch..., m, n], written; stride of n must be 1
 *   view[1] = A [batch..., m, k], view[2] = B [batch..., k, n]: any strides, so a transpose costs nothing here and a batch
 *             stride of 0 repeats a matrix
 *   view[3] = D [batch..., m, n], or kind FA_VIEW_NONE: any strides, so a row or column of biases has a stride of 0; D may be
 *             C itself (then with C's strides)
 *   n[0] = m, n[1] = n, n[2] = k, n[3] = activation (0 none, 1 relu), n[4] = number of matrices in the batch,
 *   n[5] = number of batch dimensions; n[6] = alpha, n[7] = beta as integers for the i64 instance
 *   f[0] = alpha, f[1] = beta for the others. beta 0 does not read D.
 *   groups = n[4] * ceil(m / 64) * ceil(n / 64)
 *
 * Every view may have a storage dtype of its own; float16 and bfloat16 are multiplied and summed in float32 and rounded once,
 * small integers in int64. A group makes a tile of 64 x 64 by steps of 16 through k; an item makes 4 x 4 of it. */

#ifndef FA_GEMM_TILE
#define FA_GEMM_TILE 64
#define FA_GEMM_STEP 16
#define FA_GEMM_LEFT 17  /* of a row of A and of B in local memory: neighbours store to different banks */
#define FA_GEMM_RIGHT 66
/* The 4 x 4 sums of an item by name, so that every compiler keeps them in registers. */
#define GEMM_ROW(DO, i) DO(i, 0) DO(i, 1) DO(i, 2) DO(i, 3)
#define GEMM_EACH(DO) GEMM_ROW(DO, 0) GEMM_ROW(DO, 1) GEMM_ROW(DO, 2) GEMM_ROW(DO, 3)
#define GEMM_TAKE(i, j) REAL sum##i##j = MINE_OF(sum, i * 4 + j);
#define GEMM_KEEP(i, j) MINE_OF(sum, i * 4 + j) = sum##i##j;
#define GEMM_ADD(i, j) sum##i##j = N(gemm_multiply_add)(a##i, b##j, sum##i##j);
#endif

/* Fused where hardware does it; in plain C without it, where it would be a call of libm, two roundings. Integers wrap. */
FN REAL N(gemm_multiply_add)(REAL x, REAL y, REAL sum) {
#if defined(FA_I64)
    return (fa_i64)((fa_u64)x * (fa_u64)y + (fa_u64)sum);
#elif defined(FA_IS_C) && !defined(__FMA__)
    return x * y + sum;
#else
    return N(fa_fma)(x, y, sum);
#endif
}

KERNEL(N(gemm), 256) {
    LOCAL(REAL, left, FA_GEMM_TILE * FA_GEMM_LEFT);   /* [m][k] */
    LOCAL(REAL, right, FA_GEMM_STEP * FA_GEMM_RIGHT); /* [k][n] */
    PRIVATES(REAL, sum, 16, 256);
    const fa_i64 m = P.n[0], n = P.n[1], depth = P.n[2];
    const fa_i64 across = (n + FA_GEMM_TILE - 1) / FA_GEMM_TILE, down = (m + FA_GEMM_TILE - 1) / FA_GEMM_TILE;
    const fa_i64 col0 = GROUP % across * FA_GEMM_TILE, row0 = GROUP / across % down * FA_GEMM_TILE;
    const int nb = (int)P.n[5];
    const fa_i64 a_row = P.view[1].stride[nb], a_col = P.view[1].stride[nb + 1];
    const fa_i64 b_row = P.view[2].stride[nb], b_col = P.view[2].stride[nb + 1];
    fa_i64 c = 0, a = 0, b = 0, d = 0, rest = GROUP / (across * down);
    for (int dim = nb - 1; dim >= 0; --dim) {
        const fa_i64 i = rest % P.view[0].size[dim];
        rest /= P.view[0].size[dim];
        c += i * P.view[0].stride[dim];
        a += i * P.view[1].stride[dim];
        b += i * P.view[2].stride[dim];
        if (P.view[3].kind) d += i * P.view[3].stride[dim];
    }
    const int high = m - row0 < FA_GEMM_TILE ? (int)(m - row0) : FA_GEMM_TILE;
    const int wide = n - col0 < FA_GEMM_TILE ? (int)(n - col0) : FA_GEMM_TILE, lines = (high + 3) / 4;
    UNROLLED for (int i = 0; i < 16; ++i)
        ITEMS(256) { MINE_OF(sum, i) = 0; }
    for (fa_i64 k0 = 0; k0 < depth; k0 += FA_GEMM_STEP) {
        const int deep = depth - k0 < FA_GEMM_STEP ? (int)(depth - k0) : FA_GEMM_STEP;
        const fa_i64 from_a = a + row0 * a_row + k0 * a_col, from_b = b + k0 * b_row + col0 * b_col;
        for (int part = 0; part < 4; ++part) { /* neighbours load what lies side by side in memory */
            if (a_col == 1)
                GRID(16, 16) {
                    const int row = part * 16 + GRID_Y(16), k = GRID_X(16), end = row < high ? deep : 0;
                    const fa_i64 at = from_a + row * a_row + k;
                    left[row * FA_GEMM_LEFT + k] = k < end ? LOAD_ARG(1, at) : 0;
                }
            else
                GRID(4, 64) {
                    const int k = part * 4 + GRID_Y(64), row = GRID_X(64), end = k < deep ? high : 0;
                    const fa_i64 at = from_a + row * a_row + k * a_col;
                    left[row * FA_GEMM_LEFT + k] = row < end ? LOAD_ARG(1, at) : 0;
                }
            if (b_col == 1)
                GRID(4, 64) {
                    const int k = part * 4 + GRID_Y(64), col = GRID_X(64), end = k < deep ? wide : 0;
                    const fa_i64 at = from_b + k * b_row + col;
                    right[k * FA_GEMM_RIGHT + col] = col < end ? LOAD_ARG(2, at) : 0;
                }
            else
                GRID(16, 16) {
                    const int col = part * 16 + GRID_Y(16), k = GRID_X(16), end = col < wide ? deep : 0;
                    const fa_i64 at = from_b + k * b_row + col * b_col;
                    right[k * FA_GEMM_RIGHT + col] = k < end ? LOAD_ARG(2, at) : 0;
                }
        }
        BARRIER();
        GRID(lines, 16) { /* the items past `lines` of a GPU multiply zeros */
            const int row = GRID_Y(16) * 4, col = GRID_X(16);
            GEMM_EACH(GEMM_TAKE)
            for (int k = 0; k < FA_GEMM_STEP; ++k) {
                const REAL a0 = left[row * FA_GEMM_LEFT + k], a1 = left[(row + 1) * FA_GEMM_LEFT + k];
                const REAL a2 = left[(row + 2) * FA_GEMM_LEFT + k], a3 = left[(row + 3) * FA_GEMM_LEFT + k];
                const REAL b0 = right[k * FA_GEMM_RIGHT + col], b1 = right[k * FA_GEMM_RIGHT + col + 16];
                const REAL b2 = right[k * FA_GEMM_RIGHT + col + 32], b3 = right[k * FA_GEMM_RIGHT + col + 48];
                GEMM_EACH(GEMM_ADD)
            }
            GEMM_EACH(GEMM_KEEP)
        }
        BARRIER();
    }
#ifdef FA_I64
    const fa_i64 alpha = P.n[6], beta = P.n[7];
#else
    const REAL alpha = (REAL)P.f[0], beta = (REAL)P.f[1];
#endif
    const fa_i64 c_row = P.view[0].stride[nb], d_row = P.view[3].stride[nb], d_col = P.view[3].stride[nb + 1];
    const int add = P.view[3].kind && beta != 0, relu = P.n[3] == 1;
    UNROLLED for (int e = 0; e < 16; ++e)
        GRID(lines, 16) {
            const int row = GRID_Y(16) * 4 + e / 4, col = GRID_X(16) + e % 4 * 16;
            const fa_i64 to = c + (row0 + row) * c_row + col0 + col, from = d + (row0 + row) * d_row + (col0 + col) * d_col;
            if (row < high && col < wide) {
                REAL v = N(gemm_multiply_add)(alpha, MINE_OF(sum, e), 0);
                if (add) v = N(gemm_multiply_add)(beta, LOAD_ARG(3, from), v);
                if (relu && v <= 0) v = 0;
                STORE_ARG(0, to, v);
            }
        }
}
