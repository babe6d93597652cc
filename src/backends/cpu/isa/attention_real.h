/* Attention for one compute type; see attention.c. */

#ifndef FAI_ATTENTION_ONCE
#define FAI_ATTENTION_ONCE
enum { TILE = 64 };
#endif

/* gemm.c: c = alpha * a b, added to c or not, on this thread. */
void FAI_NAME(N(fai_cpu_multiply))(int64_t m, int64_t n, int64_t k, REAL alpha, const REAL *a, int64_t a_row, int64_t a_col,
                                   const REAL *b, int64_t b_row, int64_t b_col, REAL *c, int64_t c_row, bool add);

typedef struct N(attention) {
    const fa_plan *plan;
    char *const *pointers;
    int64_t heads, length, width, depth, columns;
    bool causal;
    REAL scale;
} N(attention);

typedef struct N(head) {
    int64_t b, h;
} N(head);

static N(attention) N(attention_of)(const fa_plan *plan, char *const *pointers) {
    return (N(attention)){plan,       pointers,   plan->n[1],      plan->n[2],      plan->n[3],
                          plan->n[4], plan->n[5], plan->n[6] != 0, (REAL)plan->f[0]};
}

/* Row `first` of a head of operand k. */
INLINE REAL *N(rows_at)(const N(attention) * a, int k, N(head) at, int64_t first) {
    const fa_i64 *stride = a->plan->view[k].stride;
    return (REAL *)(void *)a->pointers[k] + at.b * stride[0] + at.h * stride[1] + first * stride[2];
}
INLINE int64_t N(row_of)(const N(attention) * a, int k) { return a->plan->view[k].stride[2]; }

/* ---- a tile of scores: scale * q k^T and the mask ---- */

static void N(mask_tile)(const N(attention) * a, int k, N(head) at, int64_t i0, int64_t j0, int64_t rows, int64_t cols,
                         REAL *score) {
    const fa_plan_view *v = &a->plan->view[k];
    for (int64_t i = 0; i < rows; i++, score += TILE) {
        const int64_t from = at.b * v->stride[0] + at.h * v->stride[1] + (i0 + i) * v->stride[2] + j0 * v->stride[3];
        if (v->dtype == FA_T_BOOL) {
            const unsigned char *pass = (const unsigned char *)a->pointers[k] + from;
            for (int64_t j = 0; j < cols; j++) score[j] = pass[j * v->stride[3]] ? score[j] : -(REAL)INFINITY;
        } else {
            for (int64_t j = 0; j < cols; j++) score[j] += LOAD(a->pointers[k], v->dtype, from + j * v->stride[3]);
        }
    }
}

/* q and k: the operands' numbers in the plan; mask: that of the mask. */
static void N(score_tile)(const N(attention) * a, int q, int k, int mask, N(head) at, int64_t i0, int64_t j0, int64_t rows,
                          int64_t cols, REAL *score) {
    FAI_NAME(N(fai_cpu_multiply))
    (rows, cols, a->depth, a->scale, N(rows_at)(a, q, at, i0), N(row_of)(a, q), 1, N(rows_at)(a, k, at, j0), 1, N(row_of)(a, k),
     score, TILE, false);
    if (a->plan->view[mask].kind) N(mask_tile)(a, mask, at, i0, j0, rows, cols, score);
    if (a->causal && j0 + cols > i0 + 1)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = i0 + i + 1 > j0 ? i0 + i + 1 - j0 : 0; j < cols; j++) score[i * TILE + j] = -(REAL)INFINITY;
}

/* e^x, and 0 where that is nothing beside the 1 of a row's largest: subnormal numbers on the way would cost a hundred times
 * as much. */
INLINE REAL N(weight)(REAL x) {
    const REAL e = N(fa_exp)(x < -80 ? -80 : x);
    return x < -80 ? 0 : e;
}

/* ---- forward ---- */

/* The largest of a row; NaN are passed over and come back with the sum. */
static REAL N(row_top)(const REAL *p, int64_t n, REAL most) {
    N(vec) lanes[2] = {N(all)(0) + most, N(all)(0) + most};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        UNROLL
        for (int j = 0; j < 2; j++) {
            const N(vec) x = N(load)(p + i + j * LANES);
            const __typeof__(x > x) more = x > lanes[j];
            lanes[j] = (N(vec))(((__typeof__(more))x & more) | ((__typeof__(more))lanes[j] & ~more));
        }
    }
    REAL part[2 * LANES];
    memcpy(part, lanes, sizeof part);
    for (int j = 0; j < 2 * LANES; j++) most = part[j] > most ? part[j] : most;
    for (; i < n; i++) most = p[i] > most ? p[i] : most;
    return most;
}

static REAL N(row_exp)(REAL *restrict p, int64_t n, REAL less) {
    for (int64_t i = 0; i < n; i++) p[i] = N(weight)(p[i] - less);
    return N(block_sum)(p, n);
}

static void N(scale_row)(REAL *p, int64_t n, REAL by) {
    for (int64_t i = 0; i < n; i++) p[i] *= by;
}

/* Columns j0 .. of the scores join what the tile's rows have seen before. */
static void N(join_tile)(const N(attention) * a, N(head) at, int64_t i0, int64_t j0, int64_t rows, int64_t cols, REAL *top,
                         REAL *total) {
    REAL score[TILE * TILE] __attribute__((aligned(64)));
    REAL *out = N(rows_at)(a, 0, at, i0);
    const int64_t out_row = N(row_of)(a, 0);
    N(score_tile)(a, 2, 3, 5, at, i0, j0, rows, cols, score);
    for (int64_t i = 0; i < rows; i++) {
        const REAL most = N(row_top)(score + i * TILE, cols, top[i]), from = most == -(REAL)INFINITY ? 0 : most;
        const REAL factor = N(weight)(top[i] - from);
        total[i] = total[i] * factor + N(row_exp)(score + i * TILE, cols, from);
        top[i] = most;
        if (j0 > 0) N(scale_row)(out + i * out_row, a->columns, factor);
    }
    FAI_NAME(N(fai_cpu_multiply))
    (rows, a->columns, cols, 1, score, TILE, 1, N(rows_at)(a, 4, at, j0), N(row_of)(a, 4), 1, out, out_row, j0 > 0);
}

static void N(attention_rows)(void *context, int64_t begin, int64_t end) {
    const N(attention) *a = context;
    const int64_t tiles = (a->length + TILE - 1) / TILE;
    for (int64_t task = begin; task < end; task++) {
        const N(head) at = {task / tiles / a->heads, task / tiles % a->heads};
        const int64_t i0 = task % tiles * TILE, rows = least(TILE, a->length - i0),
                      last = a->causal ? least(a->width, i0 + rows) : a->width;
        REAL top[TILE], total[TILE], *lse = (REAL *)(void *)a->pointers[1] + (at.b * a->heads + at.h) * a->length + i0;
        for (int i = 0; i < TILE; i++) top[i] = -(REAL)INFINITY, total[i] = 0;
        for (int64_t j0 = 0; j0 < last; j0 += TILE) N(join_tile)(a, at, i0, j0, rows, least(TILE, last - j0), top, total);
        for (int64_t i = 0; i < rows; i++) {
            REAL *out = N(rows_at)(a, 0, at, i0 + i);
            lse[i] = total[i] == 0 ? (REAL)INFINITY : top[i] + N(fa_log)(total[i]);
            if (total[i] == 0)
                memset(out, 0, (size_t)a->columns * sizeof(REAL));
            else
                N(scale_row)(out, a->columns, 1 / total[i]);
        }
    }
}

void FAI_NAME(N(fai_cpu_attention))(const fa_plan *plan, char *const *pointers) {
    N(attention) a = N(attention_of)(plan, pointers);
    const int64_t tiles = (a.length + TILE - 1) / TILE, work = TILE * a.width * (a.depth + a.columns + 16);
    fai_parallel(plan->n[0] * a.heads * tiles, 1 + 400000 / (work + 1), N(attention_rows), &a);
}

/* ---- backward ---- */

/* score becomes the weights, slope (the gradient of the weights) that of the scores, times scale. */
static void N(slopes)(int64_t cols, REAL *restrict score, REAL *restrict slope, REAL lse, REAL delta, REAL scale) {
    for (int64_t j = 0; j < cols; j++) {
        const REAL p = N(weight)(score[j] - lse);
        score[j] = p;
        slope[j] = p * (slope[j] - delta) * scale;
    }
}

typedef struct N(gradients) {
    REAL *q, *k, *v; /* row 0 of the head */
    int64_t q_row, k_row, v_row;
} N(gradients);

static void N(backward_tile)(const N(attention) * a, N(head) at, int64_t i0, int64_t j0, int64_t rows, int64_t cols,
                             const N(gradients) * to, const REAL *delta, bool first) {
    REAL score[TILE * TILE] __attribute__((aligned(64))), slope[TILE * TILE] __attribute__((aligned(64)));
    const REAL *lse = (REAL *)(void *)a->pointers[7] + (at.b * a->heads + at.h) * a->length + i0;
    const REAL *q = N(rows_at)(a, 1, at, i0), *k = N(rows_at)(a, 2, at, j0), *v = N(rows_at)(a, 3, at, j0),
               *g = N(rows_at)(a, 5, at, i0);
    const int64_t q_row = N(row_of)(a, 1), k_row = N(row_of)(a, 2), v_row = N(row_of)(a, 3), g_row = N(row_of)(a, 5);
    N(score_tile)(a, 1, 2, 4, at, i0, j0, rows, cols, score);
    FAI_NAME(N(fai_cpu_multiply))(rows, cols, a->columns, 1, g, g_row, 1, v, 1, v_row, slope, TILE, false);
    for (int64_t i = 0; i < rows; i++) N(slopes)(cols, score + i * TILE, slope + i * TILE, lse[i], delta[i], a->scale);
    FAI_NAME(N(fai_cpu_multiply))
    (cols, a->columns, rows, 1, score, 1, TILE, g, g_row, 1, to->v + j0 * to->v_row, to->v_row, !first);
    FAI_NAME(N(fai_cpu_multiply))
    (cols, a->depth, rows, 1, slope, 1, TILE, q, q_row, 1, to->k + j0 * to->k_row, to->k_row, !first);
    FAI_NAME(N(fai_cpu_multiply))
    (rows, a->depth, cols, 1, slope, TILE, 1, k, k_row, 1, to->q + i0 * to->q_row, to->q_row, j0 > 0);
}

/* The sums of result times gradient of a tile's rows. */
static void N(deltas)(const N(attention) * a, N(head) at, int64_t i0, int64_t rows, REAL *delta) {
    for (int64_t i = 0; i < rows; i++) {
        const REAL *g = N(rows_at)(a, 5, at, i0 + i), *y = N(rows_at)(a, 6, at, i0 + i);
        N(vec) sum = {0};
        int64_t c = 0;
        for (; c + LANES <= a->columns; c += LANES) sum += N(load)(g + c) * N(load)(y + c);
        delta[i] = N(total)(sum);
        for (; c < a->columns; c++) delta[i] += g[c] * y[c];
    }
}

static void N(head_backward)(const N(attention) * a, N(head) at, const N(gradients) * to) {
    for (int64_t j0 = 0; j0 < a->width; j0 += TILE) {
        const int64_t cols = least(TILE, a->width - j0), begin = a->causal ? j0 / TILE * TILE : 0;
        for (int64_t j = 0; begin >= a->length && j < cols; j++) { /* nobody looks at these */
            memset(to->k + (j0 + j) * to->k_row, 0, (size_t)a->depth * sizeof(REAL));
            memset(to->v + (j0 + j) * to->v_row, 0, (size_t)a->columns * sizeof(REAL));
        }
        for (int64_t i0 = begin; i0 < a->length; i0 += TILE) {
            REAL delta[TILE];
            const int64_t rows = least(TILE, a->length - i0);
            N(deltas)(a, at, i0, rows, delta);
            N(backward_tile)(a, at, i0, j0, rows, cols, to, delta, i0 == begin);
        }
    }
}

static void N(attention_heads_backward)(void *context, int64_t begin, int64_t end) {
    const N(attention) *a = context;
    REAL *q = (REAL *)(void *)a->pointers[0], *k = q + a->plan->n[0] * a->length * a->heads * a->depth,
         *v = k + a->plan->n[0] * a->width * a->heads * a->depth;
    for (int64_t task = begin; task < end; task++) {
        const N(head) at = {task / a->heads, task % a->heads};
        const N(gradients) to = {q + (at.b * a->length * a->heads + at.h) * a->depth,
                                 k + (at.b * a->width * a->heads + at.h) * a->depth,
                                 v + (at.b * a->width * a->heads + at.h) * a->columns,
                                 a->heads * a->depth,
                                 a->heads * a->depth,
                                 a->heads * a->columns};
        N(head_backward)(a, at, &to);
    }
}

void FAI_NAME(N(fai_cpu_attention_backward))(const fa_plan *plan, char *const *pointers) {
    N(attention) a = N(attention_of)(plan, pointers);
    const int64_t work = a.length * a.width * (a.depth + a.columns + 16) * 2;
    fai_parallel(plan->n[0] * a.heads, 1 + 400000 / (work + 1), N(attention_heads_backward), &a);
}
