/* The heart of matrix product and convolution: a tile of C, `rows` x `vectors` accumulators that stay in registers while k runs.
 * Included per type after vector.h. rows and vectors are constants at every use, so the loops over them unroll.
 *
 * A is read one number at a time with any strides. Row k of B begins at b + k * b_row, or at b + table[k] where a table is given
 * (a convolution's taps), and holds its columns side by side; the last vector of a row is read under a mask. */

#if FAI_VECTOR_BYTES == 64
#define TILE_ROWS 8      /* of a tile whose A lies where the caller left it */
#define PACKED_ROWS 14   /* of a tile whose A was packed: 28 accumulators of 32 registers */
#elif FAI_VECTOR_BYTES == 32
#define TILE_ROWS 6
#define PACKED_ROWS 6
#else
#define TILE_ROWS 4
#define PACKED_ROWS 4
#endif
#undef TILE_COLS
#define TILE_COLS (2 * LANES)
#define TILE_VECTORS_MAX 4

#undef OWN_TYPE
#if defined(FA_F32)
#define OWN_TYPE FA_T_FLOAT32
#elif defined(FA_F64)
#define OWN_TYPE FA_T_FLOAT64
#else
#define OWN_TYPE FA_T_INT64
#endif

typedef struct N(source) {
    int64_t k;
    const REAL *a;
    int64_t a_row, a_col;
    const REAL *b;
    int64_t b_row;
    const int64_t *table;
} N(source);

/* Where a tile goes: c = act(alpha * sum + beta * d); d NULL: nothing is added. */
typedef struct N(target) {
    REAL *c;
    int64_t c_row;
    const REAL *d;
    int64_t d_row;
    REAL alpha, beta;
    int act;
} N(target);

INLINE void N(accumulate)(N(vec) (*restrict sum)[TILE_VECTORS_MAX], const int rows, const int vectors, const bool tabled,
                          const bool masked, const N(source) *s, N(mask) mask) {
    const REAL *a = s->a, *b = s->b;
    const int64_t a_row = s->a_row, a_col = s->a_col, b_row = s->b_row;
    const int64_t *table = s->table;
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++) sum[i][j] = (N(vec)){0};
    }
    for (int64_t k = s->k; k > 0; k--) {
        const REAL *from = tabled ? b + *table++ : b;
        N(vec) right[TILE_VECTORS_MAX];
        UNROLL
        for (int j = 0; j < vectors; j++)
            right[j] = masked && j == vectors - 1 ? N(load_some)(from + j * LANES, mask) : N(load)(from + j * LANES);
        UNROLL
        for (int i = 0; i < rows; i++) {
            const N(vec) left = N(all)(a[i * a_row]);
            UNROLL
            for (int j = 0; j < vectors; j++) sum[i][j] = N(fma)(left, right[j], sum[i][j]);
        }
        a += a_col;
        if (!tabled) b += b_row;
    }
}

INLINE N(vec) N(activate)(N(vec) v, int act) {
#ifndef FA_I64
    if (act == 1) {
        const N(vec) zero = {0};
        const __typeof__(v <= zero) low = v <= zero; /* all bits of a lane; NaN stays */
        v = (N(vec))((__typeof__(low))v & ~low);
    }
#endif
    (void)act;
    return v;
}

INLINE void N(finish)(N(vec) (*restrict sum)[TILE_VECTORS_MAX], const int rows, const int vectors, int used_rows,
                      const N(target) *t, N(mask) mask) {
    const N(vec) alpha = N(all)(t->alpha), beta = N(all)(t->beta), zero = {0};
    REAL *c = t->c;
    const REAL *d = t->d;
    const int64_t c_row = t->c_row, d_row = t->d_row;
    const int act = t->act;
    UNROLL
    for (int i = 0; i < rows; i++) {
        if (i >= used_rows) continue;
        UNROLL
        for (int j = 0; j < vectors; j++) {
            const bool last = j == vectors - 1;
            N(vec) v = N(fma)(alpha, sum[i][j], zero);
            const REAL *from = d ? d + i * d_row + j * LANES : NULL;
            if (d) v = N(fma)(beta, last ? N(load_some)(from, mask) : N(load)(from), v);
            v = N(activate)(v, act);
            REAL *to = c + i * c_row + j * LANES;
            if (last) N(put_some)(to, mask, v);
            else N(put)(to, v);
        }
    }
}
