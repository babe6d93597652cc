/* Layer normalisation for one compute type; see norm.c. */

typedef struct N(norm_job) {
    const fa_plan *plan;
    char *const *pointers;
} N(norm_job);

/* Operand k from element `at` on, where it lies or in the buffer; the i-th element of a small operand. */
INLINE const REAL *N(norm_in)(const N(norm_job) *job, int k, int64_t at, int64_t n, REAL *buffer) {
    return N(fetch)(job->pointers[k], job->plan->view[k].dtype, at, n, buffer);
}
INLINE REAL N(norm_at)(const N(norm_job) *job, int k, int64_t i, REAL otherwise) {
    return job->plan->view[k].kind == FA_VIEW_NONE ? otherwise : LOAD(job->pointers[k], job->plan->view[k].dtype, i);
}
INLINE REAL *N(norm_room)(const N(norm_job) *job, int k, int64_t at, REAL *buffer) {
    return N(room)(job->pointers[k], job->plan->view[k].dtype, at, buffer);
}
INLINE void N(norm_settle)(const N(norm_job) *job, int k, int64_t at, const REAL *buffer, int64_t n) {
    N(settle)(job->pointers[k], job->plan->view[k].dtype, at, buffer, n);
}
INLINE void N(norm_store)(const N(norm_job) *job, int k, int64_t i, REAL value) {
    if (job->plan->view[k].kind != FA_VIEW_NONE) STORE(job->pointers[k], job->plan->view[k].dtype, i, value);
}
INLINE bool N(norm_has)(const N(norm_job) *job, int k) { return job->plan->view[k].kind != FA_VIEW_NONE; }
INLINE REAL N(norm_inverse)(REAL variance, REAL eps) { return 1 / N(fa_sqrt)(variance + eps); }

/* ---- forward ---- */
/* The sum of n elements of operand k from `base` on; with square, of the squares of their distances to `from`. */
static REAL N(norm_sum)(const N(norm_job) *job, int k, int64_t base, int64_t count, bool square, REAL from) {
    REAL in[BLOCK], out[BLOCK];
    N(tree) tree;
    tree.blocks = 0;
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t n = least(BLOCK, count - i);
        const REAL *x = N(norm_in)(job, k, base + i, n, in);
        if (square) {
            for (int64_t j = 0; j < n; j++) out[j] = (x[j] - from) * (x[j] - from);
            x = out;
        }
        N(push)(&tree, N(block_sum)(x, n));
    }
    return N(tree_total)(&tree);
}

static void N(layer_norm_row)(const N(norm_job) *job, int64_t row) {
    REAL in[BLOCK], out[BLOCK], weights[BLOCK], biases[BLOCK];
    const int64_t width = job->plan->n[1], base = row * width;
    const REAL mean = N(norm_sum)(job, 3, base, width, false, 0) / (REAL)width;
    const REAL rstd = N(norm_inverse)(N(norm_sum)(job, 3, base, width, true, mean) / (REAL)width, (REAL)job->plan->f[0]);
    N(norm_store)(job, 1, row, mean);
    N(norm_store)(job, 2, row, rstd);
    for (int64_t i = 0; i < width; i += BLOCK) {
        const int64_t n = least(BLOCK, width - i);
        const REAL *x = N(norm_in)(job, 3, base + i, n, in);
        const REAL *w = N(norm_has)(job, 4) ? N(norm_in)(job, 4, i, n, weights) : NULL;
        const REAL *b = N(norm_has)(job, 5) ? N(norm_in)(job, 5, i, n, biases) : NULL;
        REAL *y = N(norm_room)(job, 0, base + i, out);
        if (w && b)
            for (int64_t j = 0; j < n; j++) y[j] = (x[j] - mean) * rstd * w[j] + b[j];
        else if (w)
            for (int64_t j = 0; j < n; j++) y[j] = (x[j] - mean) * rstd * w[j] + 0;
        else if (b)
            for (int64_t j = 0; j < n; j++) y[j] = (x[j] - mean) * rstd + b[j];
        else
            for (int64_t j = 0; j < n; j++) y[j] = (x[j] - mean) * rstd + 0;
        N(norm_settle)(job, 0, base + i, y, n);
    }
}

static void N(layer_norm_rows)(void *context, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) N(layer_norm_row)(context, row);
}

void FAI_NAME(N(fai_cpu_layer_norm))(const fa_plan *plan, char *const *pointers) {
    N(norm_job) job = {plan, pointers};
    fai_parallel(plan->n[0], rows_per_piece(plan->n[1]), N(layer_norm_rows), &job);
}

/* ---- towards x ---- */
/* gw = g * weight and gx = gw * normalised x of one block. */
INLINE void N(layer_norm_parts)(const N(norm_job) *job, int64_t base, int64_t i, int64_t n, REAL mean, REAL rstd, REAL *gw,
                                REAL *x_hat) {
    REAL in[BLOCK];
    const REAL *g = N(norm_in)(job, 1, base + i, n, in);
    if (N(norm_has)(job, 5)) {
        REAL weights[BLOCK];
        const REAL *w = N(norm_in)(job, 5, i, n, weights);
        for (int64_t j = 0; j < n; j++) gw[j] = g[j] * w[j];
    } else
        memcpy(gw, g, (size_t)n * sizeof(REAL));
    const REAL *x = N(norm_in)(job, 2, base + i, n, in);
    for (int64_t j = 0; j < n; j++) x_hat[j] = (x[j] - mean) * rstd;
}

static void N(layer_norm_backward_row)(const N(norm_job) *job, int64_t row) {
    REAL gw[BLOCK], x_hat[BLOCK], out[BLOCK];
    const int64_t width = job->plan->n[1], base = row * width;
    const REAL mean = N(norm_at)(job, 3, row, 0), rstd = N(norm_at)(job, 4, row, 1);
    N(tree) sum_g, sum_gx;
    sum_g.blocks = sum_gx.blocks = 0;
    for (int64_t i = 0; i < width; i += BLOCK) {
        const int64_t n = least(BLOCK, width - i);
        N(layer_norm_parts)(job, base, i, n, mean, rstd, gw, x_hat);
        N(push)(&sum_g, N(block_sum)(gw, n));
        for (int64_t j = 0; j < n; j++) out[j] = gw[j] * x_hat[j];
        N(push)(&sum_gx, N(block_sum)(out, n));
    }
    const REAL mean_g = N(tree_total)(&sum_g) / (REAL)width, mean_gx = N(tree_total)(&sum_gx) / (REAL)width;
    for (int64_t i = 0; i < width; i += BLOCK) {
        const int64_t n = least(BLOCK, width - i);
        if (width > BLOCK) N(layer_norm_parts)(job, base, i, n, mean, rstd, gw, x_hat); /* else they are still there */
        REAL *to = N(norm_room)(job, 0, base + i, out);
        for (int64_t j = 0; j < n; j++) to[j] = (gw[j] - mean_g - x_hat[j] * mean_gx) * rstd;
        N(norm_settle)(job, 0, base + i, to, n);
    }
}

static void N(layer_norm_backward_rows)(void *context, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) N(layer_norm_backward_row)(context, row);
}

void FAI_NAME(N(fai_cpu_layer_norm_backward))(const fa_plan *plan, char *const *pointers) {
    N(norm_job) job = {plan, pointers};
    fai_parallel(plan->n[0], rows_per_piece(plan->n[1]), N(layer_norm_backward_rows), &job);
}

/* ---- towards weight and bias: strips of ACROSS columns ---- */
static void N(layer_norm_weight_strips)(void *context, int64_t begin, int64_t end) {
    const N(norm_job) *job = context;
    const int64_t rows = job->plan->n[0], width = job->plan->n[1];
    for (int64_t strip = begin; strip < end; strip++) {
        REAL first[ACROSS], second[ACROSS], product[ACROSS], total[ACROSS];
        const int64_t column = strip * ACROSS;
        const int n = (int)least(ACROSS, width - column);
        N(columns) sum_g, sum_gx;
        N(columns_begin)(&sum_g);
        N(columns_begin)(&sum_gx);
        for (int64_t row = 0; row < rows; row++) {
            const REAL *g = N(norm_in)(job, 2, row * width + column, n, first),
                       *x = N(norm_in)(job, 3, row * width + column, n, second);
            const REAL mean = N(norm_at)(job, 4, row, 0), rstd = N(norm_at)(job, 5, row, 1);
            for (int w = 0; w < n; w++) product[w] = g[w] * ((x[w] - mean) * rstd);
            N(columns_add)(&sum_gx, product, n);
            N(columns_add)(&sum_g, g, n);
        }
        N(columns_total)(&sum_gx, total);
        for (int w = 0; w < n; w++) N(norm_store)(job, 0, column + w, total[w]);
        N(columns_total)(&sum_g, total);
        for (int w = 0; w < n; w++) N(norm_store)(job, 1, column + w, total[w]);
    }
}

void FAI_NAME(N(fai_cpu_layer_norm_weight_backward))(const fa_plan *plan, char *const *pointers) {
    N(norm_job) job = {plan, pointers};
    fai_parallel((plan->n[1] + ACROSS - 1) / ACROSS, rows_per_piece(plan->n[0] * ACROSS), N(layer_norm_weight_strips), &job);
}
