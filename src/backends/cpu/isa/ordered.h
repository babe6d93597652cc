/* The order of sums of kernels/ordered.h, as vectors: 16 lanes are one to eight registers. Included per type after vector.h.
 *
 * Kernels work on blocks of at most 1,024 elements. A block that is contiguous and of the compute type is used where it lies;
 * others are unpacked into a buffer that stays in the first cache. */

#undef OWN_TYPE
#if defined(FA_F32)
#define OWN_TYPE FA_T_FLOAT32
#elif defined(FA_F64)
#define OWN_TYPE FA_T_FLOAT64
#else
#define OWN_TYPE FA_T_INT64
#endif

#ifndef FAI_ORDERED_ONCE
#define FAI_ORDERED_ONCE
#define SHARED static __attribute__((unused)) /* not every kernel needs all of it */
#define BLOCK  1024
#define ACROSS 64 /* columns that are summed side by side */
#define DEEP   40 /* levels of the tree of blocks */
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t rows_per_piece(int64_t elements) { return 1 + 32768 / (elements + 1); } /* a thread's least work */
#endif

/* ---- storage types ---- */
SHARED void N(unpack)(REAL *to, const char *from, int dtype, int64_t at, int64_t n) {
    switch (dtype) {
    case OWN_TYPE: memcpy(to, (const REAL *)(const void *)from + at, (size_t)n * sizeof(REAL)); break;
    case FA_T_FLOAT16:
        for (int64_t i = 0; i < n; i++) to[i] = (REAL)fa_half_to_f32(((const fa_u16 *)(const void *)from)[at + i]);
        break;
    case FA_T_BFLOAT16:
        for (int64_t i = 0; i < n; i++) to[i] = (REAL)fa_bf16_to_f32(((const fa_u16 *)(const void *)from)[at + i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++) to[i] = LOAD(from, dtype, at + i);
    }
}

SHARED void N(pack)(char *to, int dtype, int64_t at, const REAL *from, int64_t n) {
    switch (dtype) {
    case OWN_TYPE: memcpy((REAL *)(void *)to + at, from, (size_t)n * sizeof(REAL)); break;
    case FA_T_FLOAT16:
        for (int64_t i = 0; i < n; i++) ((fa_u16 *)(void *)to)[at + i] = fa_f32_to_half((float)from[i]);
        break;
    case FA_T_BFLOAT16:
        for (int64_t i = 0; i < n; i++) ((fa_u16 *)(void *)to)[at + i] = fa_f32_to_bf16((float)from[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++) STORE(to, dtype, at + i, from[i]);
    }
}

/* n elements from `at` on, where they lie or in the buffer. */
INLINE const REAL *N(fetch)(const char *from, int dtype, int64_t at, int64_t n, REAL *buffer) {
    if (dtype == OWN_TYPE) return (const REAL *)(const void *)from + at;
    N(unpack)(buffer, from, dtype, at, n);
    return buffer;
}
/* Where n results may be written: in place, or the buffer that `pack` then stores. */
INLINE REAL *N(room)(char *to, int dtype, int64_t at, REAL *buffer) {
    return dtype == OWN_TYPE ? (REAL *)(void *)to + at : buffer;
}
INLINE void N(settle)(char *to, int dtype, int64_t at, const REAL *buffer, int64_t n) {
    if (dtype != OWN_TYPE) N(pack)(to, dtype, at, buffer, n);
}

/* ---- one row ---- */
/* The sum of at most a block. */
SHARED REAL N(block_sum)(const REAL *p, int64_t n) {
    enum { COUNT = 16 / LANES };
    N(vec) sum[COUNT];
    UNROLL
    for (int j = 0; j < COUNT; j++) sum[j] = (N(vec)){0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        UNROLL
        for (int j = 0; j < COUNT; j++) sum[j] += N(load)(p + i + j * LANES);
    }
    REAL part[16];
    memcpy(part, sum, sizeof part);
    for (int lane = 0; i + lane < n; lane++) part[lane] += p[i + lane];
    UNROLL
    for (int half = 8; half > 0; half /= 2) {
        UNROLL
        for (int lane = 0; lane < half; lane++) part[lane] += part[lane + half];
    }
    return part[0];
}

/* The tree over blocks: place i holds the sum of 2^i of them. */
typedef struct N(tree) {
    int64_t blocks;
    REAL stack[DEEP];
} N(tree);

INLINE void N(push)(N(tree) *t, REAL sum) {
    int place = 0;
    for (int64_t before = t->blocks; before & 1; before >>= 1) sum = t->stack[place++] + sum;
    t->stack[place] = sum;
    t->blocks++;
}

INLINE REAL N(tree_total)(const N(tree) *t) {
    REAL sum = 0;
    bool some = false;
    for (int place = 0; t->blocks >> place; place++)
        if (t->blocks >> place & 1) {
            sum = some ? t->stack[place] + sum : t->stack[place];
            some = true;
        }
    return sum;
}

/* ---- up to ACROSS columns side by side; row k adds to lanes k % 16 ---- */
typedef struct N(columns) {
    int64_t rows, blocks;
    REAL part[16][ACROSS], stack[DEEP][ACROSS];
} N(columns);

INLINE void N(columns_begin)(N(columns) *c) {
    c->rows = c->blocks = 0;
    memset(c->part, 0, sizeof c->part);
}

SHARED void N(columns_block)(N(columns) *c) {
    for (int half = 8; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            for (int w = 0; w < ACROSS; w++) c->part[lane][w] += c->part[lane + half][w];
    int place = 0;
    for (int64_t before = c->blocks; before & 1; before >>= 1, place++)
        for (int w = 0; w < ACROSS; w++) c->part[0][w] = c->stack[place][w] + c->part[0][w];
    memcpy(c->stack[place], c->part[0], sizeof c->part[0]);
    memset(c->part, 0, sizeof c->part);
    c->blocks++;
}

INLINE void N(columns_add)(N(columns) *c, const REAL *values, int width) {
    REAL *part = c->part[c->rows & 15];
    if (width == ACROSS)
        for (int w = 0; w < ACROSS; w++) part[w] += values[w];
    else
        for (int w = 0; w < width; w++) part[w] += values[w];
    if ((++c->rows & (BLOCK - 1)) == 0) N(columns_block)(c);
}

SHARED void N(columns_total)(N(columns) *c, REAL total[ACROSS]) {
    if (c->rows & (BLOCK - 1)) N(columns_block)(c);
    bool some = false;
    for (int w = 0; w < ACROSS; w++) total[w] = 0;
    for (int place = 0; c->blocks >> place; place++)
        if (c->blocks >> place & 1) {
            for (int w = 0; w < ACROSS; w++) total[w] = some ? c->stack[place][w] + total[w] : c->stack[place][w];
            some = true;
        }
}
