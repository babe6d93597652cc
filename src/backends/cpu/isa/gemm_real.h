/* Matrix product for one compute type; gemm.c includes it for f32, f64 and i64. Three ways, by shape:
 *   vector   one row or column: dot products along k, or a wide tile
 *   direct   small: tiles read A and B where they are; B's columns must lie side by side, else B is first turned on the stack
 *   packed   large: B in panels of TILE_COLS columns, A in panels of PACKED_ROWS rows, so that a tile reads both in order
 * k is split by k alone and every element of C is summed by one task in one order, so results don't depend on threads. */

typedef struct N(problem) {
    int64_t m, n;
    N(source) s;       /* s.table unused */
    int64_t b_col;
    N(target) t;
} N(problem);

#define K_WHOLE (3200 / (int64_t)sizeof(REAL)) /* up to here k is not split */
#define CHUNK_ROWS (16 * PACKED_ROWS)
#define CHUNK_COLS (16 * TILE_COLS)
#define SMALL_B 4096 /* elements turned on the stack */

/* ---- tiles: one function per number of rows and vectors ---- */
typedef void (*N(tile_function))(const N(source) *s, const N(target) *t, N(mask) mask);
#define TILE(rows, vectors)                                                                                          \
    static void N(tile_##rows##_##vectors)(const N(source) *s, const N(target) *t, N(mask) mask) {                   \
        N(vec) sum[rows][TILE_VECTORS_MAX];                                                                          \
        N(accumulate)(sum, rows, vectors, false, true, s, mask);                                                     \
        N(finish)(sum, rows, vectors, rows, t, mask);                                                                \
    }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
#define TILE_NAMES(rows) {N(tile_##rows##_1), N(tile_##rows##_2)}
TILES(1) TILES(2) TILES(3) TILES(4) TILE(1, 4)
#if TILE_ROWS >= 6
TILES(5) TILES(6)
#endif
#if TILE_ROWS >= 8
TILES(7) TILES(8)
#endif
static const N(tile_function) N(tiles)[TILE_ROWS][2] = {
    TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3), TILE_NAMES(4),
#if TILE_ROWS >= 6
    TILE_NAMES(5), TILE_NAMES(6),
#endif
#if TILE_ROWS >= 8
    TILE_NAMES(7), TILE_NAMES(8),
#endif
};

/* Out of line, and the mask made late: the accumulators need every register. */
static __attribute__((noinline)) void N(tile_packed)(const N(source) *given, const N(target) *t, int rows, int cols) {
    N(source) s = *given;
    s.a_row = 1;
    s.a_col = PACKED_ROWS;
    s.b_row = TILE_COLS;
    N(vec) sum[PACKED_ROWS][TILE_VECTORS_MAX];
    if (cols > LANES) {
        N(accumulate)(sum, PACKED_ROWS, 2, false, false, &s, N(first)(0));
        N(finish)(sum, PACKED_ROWS, 2, rows, t, N(first)(cols - LANES));
    } else {
        N(accumulate)(sum, PACKED_ROWS, 1, false, false, &s, N(first)(0));
        N(finish)(sum, PACKED_ROWS, 1, rows, t, N(first)(cols));
    }
}

/* Columns of a strip that ends at n: how many vectors, and how much of the last is used. */
INLINE int N(strip)(int64_t left, N(mask) *mask) {
    const int cols = left < TILE_COLS ? (int)left : TILE_COLS;
    const int vectors = cols > LANES ? 2 : 1;
    *mask = N(first)(cols - (vectors - 1) * LANES);
    return vectors;
}

/* One strip of columns, all rows, B read with s.b_row. Rows are shared evenly: 10 rows are 5 and 5, not 8 and 2. */
static void N(strip_direct)(int64_t m, int vectors, N(mask) mask, const N(source) *from, const N(target) *to) {
    N(source) s = *from;
    N(target) t = *to;
    const int64_t steps = (m + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t few = m / steps, more = m % steps;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t rows = few + (i < more);
        N(tiles)[rows - 1][vectors - 1](&s, &t, mask);
        s.a += rows * s.a_row;
        t.c += rows * t.c_row;
        t.d = t.d ? t.d + rows * t.d_row : NULL;
    }
}

INLINE void N(advance_columns)(N(target) *t, int64_t columns) {
    t->c += columns;
    t->d = t->d ? t->d + columns : NULL;
}

static void N(direct)(const N(problem) *p) {
    N(source) s = p->s;
    N(target) t = p->t;
    N(mask) mask;
    int64_t j = 0;
    if (p->m == 1)
        for (; j + 4 * LANES <= p->n; j += 4 * LANES, s.b += 4 * LANES, N(advance_columns)(&t, 4 * LANES))
            N(tile_1_4)(&s, &t, N(first)(LANES));
    for (; j < p->n; j += TILE_COLS, s.b += TILE_COLS, N(advance_columns)(&t, TILE_COLS)) {
        const int vectors = N(strip)(p->n - j, &mask);
        N(strip_direct)(p->m, vectors, mask, &s, &t);
    }
}

/* ---- packing ---- */

/* to[k * to_row + i] = from[i * row + k] for `count` lines i, k < depth: lines that run along k are turned. */
static void N(turn)(REAL *to, int64_t to_row, const REAL *from, int64_t row, int count, int64_t depth) {
#if TURN_WIDE
    for (int i = 0; i < count; i += LANES) {
        const int lanes = count - i < LANES ? count - i : LANES;
        const N(mask) mask = N(first)(lanes);
        const REAL *line[LANES];
        for (int l = 0; l < LANES; l++) line[l] = from + (i + (l < lanes ? l : lanes - 1)) * row;
        int64_t k = 0;
        for (; k + 4 <= depth; k += 4) N(turn_wide)(line, k, to + k * to_row + i, to_row, mask);
        for (; k < depth; k++)
            for (int l = 0; l < lanes; l++) to[k * to_row + i + l] = line[l][k];
    }
#else
    for (int64_t k0 = 0; k0 < depth; k0 += 16) { /* a cache line of every line at a time */
        const int64_t k1 = k0 + 16 < depth ? k0 + 16 : depth;
        for (int i = 0; i < count; i += 4) {
            int64_t k = k0;
            const int lines = count - i < 4 ? count - i : 4;
            const REAL *line[4];
            for (int l = 0; l < lines; l++) line[l] = from + (i + l) * row + k0;
            if (lines == 4)
                for (; k + 4 <= k1; k += 4) {
                    N(transpose4)(line, to + k * to_row + i, to_row);
                    for (int l = 0; l < 4; l++) line[l] += 4;
                }
            for (; k < k1; k++)
                for (int l = 0; l < lines; l++) to[k * to_row + i + l] = *line[l]++;
        }
    }
#endif
}

/* A panel of TILE_COLS columns of B; columns beyond `cols` become 0. */
static void N(pack_b)(REAL *to, const REAL *b, int64_t b_row, int64_t b_col, int cols, int64_t depth) {
    if (b_col == 1) {
        const bool wide = cols > LANES;
        const N(mask) mask = N(first)(wide ? cols - LANES : cols);
        for (int64_t k = 0; k < depth; k++, b += b_row, to += TILE_COLS) {
            N(put)(to, wide ? N(load)(b) : N(load_some)(b, mask));
            N(put)(to + LANES, wide ? N(load_some)(b + LANES, mask) : (N(vec)){0});
        }
        return;
    }
    if (cols < TILE_COLS)
        for (int64_t k = 0; k < depth; k++)
            for (int j = cols; j < TILE_COLS; j++) to[k * TILE_COLS + j] = 0;
    if (b_row == 1) N(turn)(to, TILE_COLS, b, b_col, cols, depth);
    else
        for (int64_t k = 0; k < depth; k++)
            for (int j = 0; j < cols; j++) to[k * TILE_COLS + j] = b[k * b_row + j * b_col];
}

/* A panel of PACKED_ROWS rows of A; rows beyond `rows` become 0. */
static void N(pack_a)(REAL *to, const REAL *a, int64_t a_row, int64_t a_col, int rows, int64_t depth) {
    if (rows < PACKED_ROWS)
        for (int64_t k = 0; k < depth; k++)
            for (int i = rows; i < PACKED_ROWS; i++) to[k * PACKED_ROWS + i] = 0;
    if (a_col == 1) N(turn)(to, PACKED_ROWS, a, a_row, rows, depth);
    else
        for (int64_t k = 0; k < depth; k++)
            for (int i = 0; i < rows; i++) to[k * PACKED_ROWS + i] = a[i * a_row + k * a_col];
}

/* ---- direct, with B turned into strips on the stack ---- */
static __attribute__((noinline)) void N(direct_turned)(const N(problem) *p) {
    REAL strip[SMALL_B] __attribute__((aligned(64)));
    N(source) s = p->s;
    N(target) t = p->t;
    s.b = strip;
    s.b_row = TILE_COLS;
    for (int64_t j = 0; j < p->n; j += TILE_COLS, N(advance_columns)(&t, TILE_COLS)) {
        N(mask) mask;
        const int vectors = N(strip)(p->n - j, &mask);
        const int cols = p->n - j < TILE_COLS ? (int)(p->n - j) : TILE_COLS;
        N(pack_b)(strip, p->s.b + j * p->b_col, p->s.b_row, p->b_col, cols, s.k);
        N(strip_direct)(p->m, vectors, mask, &s, &t);
    }
}

/* ---- packed ---- */

/* The same problem for k in [k0, k1): the first part adds D, later parts add what is there, the last one activates. */
static N(problem) N(part_of_k)(const N(problem) *p, int64_t k0, int64_t k1) {
    N(problem) part = *p;
    part.s.k = k1 - k0;
    part.s.a += k0 * p->s.a_col;
    part.s.b += k0 * p->s.b_row;
    if (k0 > 0) {
        part.t.d = p->t.c;
        part.t.d_row = p->t.c_row;
        part.t.beta = 1;
    }
    if (k1 < p->s.k) part.t.act = 0;
    return part;
}

static int64_t N(split_of_k)(int64_t k) {
    if (k <= K_WHOLE) return k > 0 ? k : 1;
    const int64_t parts = (k + K_WHOLE * 2 / 3 - 1) / (K_WHOLE * 2 / 3);
    return ((k + parts - 1) / parts + 7) & ~(int64_t)7;
}

/* Rows [0, m) of p against packed panels of B. `a` holds CHUNK_ROWS rows. */
static void N(rows_packed)(const N(problem) *p, const REAL *b, REAL *a) {
    const int64_t depth = p->s.k;
    for (int64_t i0 = 0; i0 < p->m; i0 += CHUNK_ROWS) {
        const int64_t rows = p->m - i0 < CHUNK_ROWS ? p->m - i0 : CHUNK_ROWS;
        for (int64_t i = 0; i < rows; i += PACKED_ROWS)
            N(pack_a)(a + i * depth, p->s.a + (i0 + i) * p->s.a_row, p->s.a_row, p->s.a_col,
                      rows - i < PACKED_ROWS ? (int)(rows - i) : PACKED_ROWS, depth);
        for (int64_t j = 0; j < p->n; j += TILE_COLS) {
            const int cols = p->n - j < TILE_COLS ? (int)(p->n - j) : TILE_COLS;
            N(source) s = {.k = depth, .b = b + j * depth};
            N(target) t = p->t;
            t.c += i0 * t.c_row + j;
            t.d = t.d ? t.d + i0 * t.d_row + j : NULL;
            for (int64_t i = 0; i < rows; i += PACKED_ROWS) {
                s.a = a + i * depth;
                N(tile_packed)(&s, &t, rows - i < PACKED_ROWS ? (int)(rows - i) : PACKED_ROWS, cols);
                t.c += PACKED_ROWS * t.c_row;
                t.d = t.d ? t.d + PACKED_ROWS * t.d_row : NULL;
            }
        }
    }
}

/* Few columns: packing A would not be repaid, so tiles read it where it is. */
static void N(rows_unpacked)(const N(problem) *p, const REAL *b) {
    N(source) s = p->s;
    N(target) t = p->t;
    s.b_row = TILE_COLS;
    for (int64_t j = 0; j < p->n; j += TILE_COLS, N(advance_columns)(&t, TILE_COLS)) {
        N(mask) mask;
        const int vectors = N(strip)(p->n - j, &mask);
        s.b = b + j * s.k;
        N(strip_direct)(p->m, vectors, mask, &s, &t);
    }
}

/* No memory to pack into: plain loops, slower but right. */
static void N(plain)(const N(problem) *p) {
    const N(target) *t = &p->t;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            REAL sum = 0;
            for (int64_t k = 0; k < p->s.k; k++)
                sum = N(fma1)(p->s.a[i * p->s.a_row + k * p->s.a_col], p->s.b[k * p->s.b_row + j * p->b_col], sum);
            REAL v = N(fma1)(t->alpha, sum, 0);
            if (t->d) v = N(fma1)(t->beta, t->d[i * t->d_row + j], v);
            t->c[i * t->c_row + j] = t->act == 1 && v <= 0 ? 0 : v;
        }
}

static void N(packed)(const N(problem) *p) {
    const int64_t k_part = N(split_of_k)(p->s.k);
    const int64_t chunk = p->n < CHUNK_COLS ? (p->n + TILE_COLS - 1) / TILE_COLS * TILE_COLS : CHUNK_COLS;
    const bool pack_rows = p->n > 2 * TILE_COLS || (p->s.a_col != 1 && p->s.a_row != 1);
    const size_t room = sizeof(REAL) * (size_t)(k_part * (chunk + (pack_rows ? CHUNK_ROWS : 0)));
    REAL *b = fai_cpu_scratch_take(room);
    if (!b) {
        N(plain)(p);
        return;
    }
    for (int64_t j0 = 0; j0 < p->n; j0 += chunk)
        for (int64_t k0 = 0; k0 < p->s.k; k0 += k_part) {
            N(problem) part = N(part_of_k)(p, k0, k0 + k_part < p->s.k ? k0 + k_part : p->s.k);
            part.n = p->n - j0 < chunk ? p->n - j0 : chunk;
            part.s.b += j0 * p->b_col;
            N(advance_columns)(&part.t, j0);
            for (int64_t j = 0; j < part.n; j += TILE_COLS)
                N(pack_b)(b + j * part.s.k, part.s.b + j * p->b_col, p->s.b_row, p->b_col,
                          part.n - j < TILE_COLS ? (int)(part.n - j) : TILE_COLS, part.s.k);
            if (pack_rows) N(rows_packed)(&part, b, b + k_part * chunk);
            else N(rows_unpacked)(&part, b);
        }
    fai_cpu_scratch_give(b, room);
}

/* ---- vector: c[i] = act(alpha * dot(row i of A, x) + beta * d[i]), rows along k, x side by side ---- */
#define DOT_ROWS 4
static void N(dots)(int64_t m, const N(source) *s, const N(target) *t) {
    const REAL *x = s->b;
    const int64_t whole = s->k / LANES * LANES;
    const N(mask) mask = N(first)((int)(s->k - whole));
    for (int64_t i0 = 0; i0 < m; i0 += DOT_ROWS) {
        const REAL *a[DOT_ROWS];
        for (int r = 0; r < DOT_ROWS; r++) a[r] = s->a + (i0 + r < m ? i0 + r : m - 1) * s->a_row;
        N(vec) even[DOT_ROWS] = {{0}}, odd[DOT_ROWS] = {{0}};
        int64_t k = 0;
        for (; k + 2 * LANES <= whole; k += 2 * LANES) {
            const N(vec) x0 = N(load)(x + k), x1 = N(load)(x + k + LANES);
            UNROLL
            for (int r = 0; r < DOT_ROWS; r++) {
                even[r] = N(fma)(N(load)(a[r] + k), x0, even[r]);
                odd[r] = N(fma)(N(load)(a[r] + k + LANES), x1, odd[r]);
            }
        }
        if (k < whole) {
            UNROLL
            for (int r = 0; r < DOT_ROWS; r++) even[r] = N(fma)(N(load)(a[r] + k), N(load)(x + k), even[r]);
        }
        if (whole < s->k) {
            UNROLL
            for (int r = 0; r < DOT_ROWS; r++)
                odd[r] = N(fma)(N(load_some)(a[r] + whole, mask), N(load_some)(x + whole, mask), odd[r]);
        }
        for (int r = 0; r < DOT_ROWS && i0 + r < m; r++) {
            REAL v = N(fma1)(t->alpha, N(total)(even[r] + odd[r]), 0);
            if (t->d) v = N(fma1)(t->beta, t->d[(i0 + r) * t->d_row], v);
            t->c[(i0 + r) * t->c_row] = t->act == 1 && v <= 0 ? 0 : v;
        }
    }
}

/* ---- the way, chosen for the whole problem so that its parts go the same way whatever the threads ---- */
enum { N(WAY_DOTS), N(WAY_DOTS_ACROSS), N(WAY_WIDE), N(WAY_DIRECT), N(WAY_TURNED), N(WAY_PACKED) };

static int N(choose)(const N(problem) *p) {
    const N(source) *s = &p->s;
    if (p->n == 1 && s->a_col == 1 && s->b_row == 1) return N(WAY_DOTS);
    if (p->m == 1 && s->a_col == 1 && s->b_row == 1 && p->b_col != 1) return N(WAY_DOTS_ACROSS);
    if (p->n == 1 && s->a_row == 1 && p->t.c_row == 1 && (!p->t.d || p->t.d_row == 1)) return N(WAY_WIDE);
    const bool panel = p->n <= 32 && s->b_row == p->n && s->k <= 4 * K_WHOLE; /* B is narrow, without gaps: as if packed */
    const bool small = s->k * p->n <= SMALL_B || p->m <= TILE_ROWS || panel;
    if (small && (p->b_col == 1 || p->n == 1)) return N(WAY_DIRECT);
    if (small && s->k * TILE_COLS <= SMALL_B) return N(WAY_TURNED);
    return N(WAY_PACKED);
}

/* One row of C instead of one column: everything of C and A lies side by side along m. */
static void N(wide)(const N(problem) *p) {
    N(problem) q = *p;
    q.m = 1;
    q.n = p->m;
    q.s.a = p->s.b;
    q.s.a_col = p->s.b_row;
    q.s.b = p->s.a;
    q.s.b_row = p->s.a_col;
    q.b_col = 1;
    N(direct)(&q);
}

/* One row of C, B's columns along k: the dot products of B's columns with A's row. */
static void N(dots_across)(const N(problem) *p) {
    N(source) s = p->s;
    N(target) t = p->t;
    s.a = p->s.b;
    s.a_row = p->b_col;
    s.b = p->s.a;
    t.c_row = t.d_row = 1;
    N(dots)(p->n, &s, &t);
}

static void N(product)(const N(problem) *p, int way) {
    switch (way) {
    case N(WAY_DOTS): N(dots)(p->m, &p->s, &p->t); break;
    case N(WAY_DOTS_ACROSS): N(dots_across)(p); break;
    case N(WAY_WIDE): N(wide)(p); break;
    case N(WAY_DIRECT): N(direct)(p); break;
    case N(WAY_TURNED): N(direct_turned)(p); break;
    default:
        if (p->s.k > 0) N(packed)(p);
        else N(plain)(p);
    }
}
