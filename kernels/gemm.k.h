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
#define FA_GEMM_PITCH 66 /* of a row in local memory: no two items of a store on one bank */
#endif

typedef struct N(gemm_part) { REAL v[16]; } N(gemm_part);

/* Fused where hardware does it; in plain C, where it could be a call of libm, two roundings. Integers wrap. */
FN REAL N(gemm_multiply_add)(REAL x, REAL y, REAL sum) {
#if defined(FA_I64)
    return (fa_i64)((fa_u64)x * (fa_u64)y + (fa_u64)sum);
#elif defined(FA_IS_C)
    return x * y + sum;
#else
    return N(fa_fma)(x, y, sum);
#endif
}

KERNEL(N(gemm), 256) {
    LOCAL(REAL, left, FA_GEMM_PITCH * FA_GEMM_STEP);  /* [k][m] */
    LOCAL(REAL, right, FA_GEMM_PITCH * FA_GEMM_STEP); /* [k][n] */
    PRIVATE(N(gemm_part), sum, 256);
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
    ITEMS(256) {
        for (int i = 0; i < 16; ++i) MINE(sum).v[i] = 0;
    }
    for (fa_i64 k0 = 0; k0 < depth; k0 += FA_GEMM_STEP) {
        ITEMS(256) { /* neighbours load what lies side by side in memory */
            for (int part = 0; part < 4; ++part) {
                const int e = item + part * 256;
                const int ak = a_col == 1 ? e % 16 : e / 64, am = a_col == 1 ? e / 16 : e % 64;
                const int bk = b_col == 1 ? e / 64 : e % 16, bn = b_col == 1 ? e % 64 : e / 16;
                left[ak * FA_GEMM_PITCH + am] =
                    row0 + am < m && k0 + ak < depth ? LOAD_ARG(1, a + (row0 + am) * a_row + (k0 + ak) * a_col) : 0;
                right[bk * FA_GEMM_PITCH + bn] =
                    col0 + bn < n && k0 + bk < depth ? LOAD_ARG(2, b + (k0 + bk) * b_row + (col0 + bn) * b_col) : 0;
            }
        }
        BARRIER();
        ITEMS(256) {
            const int row = item / 16 * 4, col = item % 16;
            for (int k = 0; k < FA_GEMM_STEP; ++k)
                for (int i = 0; i < 4; ++i)
                    for (int j = 0; j < 4; ++j)
                        MINE(sum).v[i * 4 + j] = N(gemm_multiply_add)(
                            left[k * FA_GEMM_PITCH + row + i], right[k * FA_GEMM_PITCH + col + j * 16], MINE(sum).v[i * 4 + j]);
        }
        BARRIER();
    }
#ifdef FA_I64
    const fa_i64 alpha = P.n[6], beta = P.n[7];
#else
    const REAL alpha = (REAL)P.f[0], beta = (REAL)P.f[1];
#endif
    ITEMS(256) {
        for (int e = 0; e < 16; ++e) {
            const fa_i64 row = row0 + item / 16 * 4 + e / 4, col = col0 + item % 16 + e % 4 * 16;
            if (row < m && col < n) {
                REAL v = N(gemm_multiply_add)(alpha, MINE(sum).v[e], 0);
                if (P.view[3].kind && beta != 0)
                    v = N(gemm_multiply_add)(beta, LOAD_ARG(3, d + row * P.view[3].stride[nb] + col * P.view[3].stride[nb + 1]),
                                             v);
                if (P.n[3] == 1 && v <= 0) v = 0;
                STORE_ARG(0, c + row * P.view[0].stride[nb] + col, v);
            }
        }
    }
}
