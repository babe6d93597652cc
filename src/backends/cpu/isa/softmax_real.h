/* Softmax for one compute type; see softmax.c. */

typedef struct N(softmax_job) {
    char *to;
    const char *a, *b; /* x; or g and y */
    int to_type, a_type, b_type;
    int64_t dim, inner;
    bool log;
} N(softmax_job);

/* ---- elementwise loops over a block ---- */
INLINE void N(exp_less)(REAL *restrict to, const REAL *restrict x, REAL less, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = N(fa_exp)(x[i] - less);
}
/* The same without the promise that they are apart: to may be x. */
INLINE void N(scale_block)(REAL *to, REAL factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] *= factor;
}

/* The largest; NaN are passed over. */
INLINE N(vec) N(larger)(N(vec) x, N(vec) most) {
    const __typeof__(x > most) mask = x > most; /* all bits of a lane */
    return (N(vec))(((__typeof__(mask))x & mask) | ((__typeof__(mask))most & ~mask));
}

static REAL N(block_max)(const REAL *p, int64_t n, REAL most) {
    N(vec) lanes[4];
    UNROLL
    for (int j = 0; j < 4; j++) lanes[j] = N(all)(0) + most;
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        UNROLL
        for (int j = 0; j < 4; j++) lanes[j] = N(larger)(N(load)(p + i + j * LANES), lanes[j]);
    }
    const N(vec) both = N(larger)(N(larger)(lanes[0], lanes[1]), N(larger)(lanes[2], lanes[3]));
    for (int j = 0; j < LANES; j++) most = both[j] > most ? both[j] : most;
    for (; i < n; i++) most = p[i] > most ? p[i] : most;
    return most;
}

/* ---- one row, contiguous ---- */
static void N(softmax_row)(const N(softmax_job) *job, int64_t row) {
    REAL in[BLOCK], out[BLOCK];
    const int64_t dim = job->dim, base = row * dim;
    const bool stays = job->to_type == OWN_TYPE && !job->log; /* the exponentials wait in the result */
    REAL most = -(REAL)INFINITY;
    for (int64_t k = 0; k < dim; k += BLOCK) {
        const int64_t n = least(BLOCK, dim - k);
        most = N(block_max)(N(fetch)(job->a, job->a_type, base + k, n, in), n, most);
    }
    N(tree) tree;
    tree.blocks = 0;
    for (int64_t k = 0; k < dim; k += BLOCK) {
        const int64_t n = least(BLOCK, dim - k);
        REAL *to = stays ? N(room)(job->to, job->to_type, base + k, out) : out;
        N(exp_less)(to, N(fetch)(job->a, job->a_type, base + k, n, in), most, n);
        N(push)(&tree, N(block_sum)(to, n));
    }
    const REAL total = N(tree_total)(&tree), factor = 1 / total, less = job->log ? N(fa_log)(total) : 0;
    for (int64_t k = 0; k < dim; k += BLOCK) {
        const int64_t n = least(BLOCK, dim - k);
        REAL *to = N(room)(job->to, job->to_type, base + k, out);
        if (!stays) {
            const REAL *x = N(fetch)(job->a, job->a_type, base + k, n, in);
            if (job->log)
                for (int64_t i = 0; i < n; i++) to[i] = x[i] - most - less;
            else if (dim > BLOCK)
                N(exp_less)(to, x, most, n); /* else they are still in the buffer */
        }
        if (!job->log) N(scale_block)(to, factor, n);
        N(settle)(job->to, job->to_type, base + k, to, n);
    }
}

static void N(softmax_backward_row)(const N(softmax_job) *job, int64_t row) {
    REAL first[BLOCK], second[BLOCK], out[BLOCK];
    const int64_t dim = job->dim, base = row * dim;
    N(tree) tree;
    tree.blocks = 0;
    for (int64_t k = 0; k < dim; k += BLOCK) {
        const int64_t n = least(BLOCK, dim - k);
        const REAL *g = N(fetch)(job->a, job->a_type, base + k, n, first);
        if (!job->log) {
            const REAL *y = N(fetch)(job->b, job->b_type, base + k, n, second);
            for (int64_t i = 0; i < n; i++) out[i] = g[i] * y[i];
            g = out;
        }
        N(push)(&tree, N(block_sum)(g, n));
    }
    const REAL total = N(tree_total)(&tree);
    for (int64_t k = 0; k < dim; k += BLOCK) {
        const int64_t n = least(BLOCK, dim - k);
        const REAL *g = N(fetch)(job->a, job->a_type, base + k, n, first),
                   *y = N(fetch)(job->b, job->b_type, base + k, n, second);
        REAL *to = N(room)(job->to, job->to_type, base + k, out);
        if (job->log)
            for (int64_t i = 0; i < n; i++) to[i] = g[i] - N(fa_exp)(y[i]) * total;
        else
            for (int64_t i = 0; i < n; i++) to[i] = y[i] * (g[i] - total);
        N(settle)(job->to, job->to_type, base + k, to, n);
    }
}

/* ---- up to ACROSS neighbouring rows; base is the place of the first one's first element ---- */
static void N(softmax_wide)(const N(softmax_job) *job, int64_t base, int width) {
    REAL in[ACROSS], out[ACROSS], most[ACROSS], total[ACROSS], less[ACROSS];
    N(columns) sums;
    N(columns_begin)(&sums);
    for (int w = 0; w < ACROSS; w++) most[w] = -(REAL)INFINITY;
    for (int64_t k = 0; k < job->dim; k++) {
        const REAL *x = N(fetch)(job->a, job->a_type, base + k * job->inner, width, in);
        for (int w = 0; w < width; w++) most[w] = x[w] > most[w] ? x[w] : most[w];
    }
    for (int64_t k = 0; k < job->dim; k++) {
        const REAL *x = N(fetch)(job->a, job->a_type, base + k * job->inner, width, in);
        for (int w = 0; w < width; w++) out[w] = N(fa_exp)(x[w] - most[w]);
        N(columns_add)(&sums, out, width);
    }
    N(columns_total)(&sums, total);
    for (int w = 0; w < width; w++) less[w] = job->log ? N(fa_log)(total[w]) : 1 / total[w];
    for (int64_t k = 0; k < job->dim; k++) {
        const int64_t at = base + k * job->inner;
        const REAL *x = N(fetch)(job->a, job->a_type, at, width, in);
        REAL *to = N(room)(job->to, job->to_type, at, out);
        if (job->log)
            for (int w = 0; w < width; w++) to[w] = x[w] - most[w] - less[w];
        else
            for (int w = 0; w < width; w++) to[w] = N(fa_exp)(x[w] - most[w]) * less[w];
        N(settle)(job->to, job->to_type, at, to, width);
    }
}

static void N(softmax_backward_wide)(const N(softmax_job) *job, int64_t base, int width) {
    REAL first[ACROSS], second[ACROSS], out[ACROSS], total[ACROSS];
    N(columns) sums;
    N(columns_begin)(&sums);
    for (int64_t k = 0; k < job->dim; k++) {
        const int64_t at = base + k * job->inner;
        const REAL *g = N(fetch)(job->a, job->a_type, at, width, first), *y = N(fetch)(job->b, job->b_type, at, width, second);
        for (int w = 0; w < width; w++) out[w] = job->log ? g[w] : g[w] * y[w];
        N(columns_add)(&sums, out, width);
    }
    N(columns_total)(&sums, total);
    for (int64_t k = 0; k < job->dim; k++) {
        const int64_t at = base + k * job->inner;
        const REAL *g = N(fetch)(job->a, job->a_type, at, width, first), *y = N(fetch)(job->b, job->b_type, at, width, second);
        REAL *to = N(room)(job->to, job->to_type, at, out);
        if (job->log)
            for (int w = 0; w < width; w++) to[w] = g[w] - N(fa_exp)(y[w]) * total[w];
        else
            for (int w = 0; w < width; w++) to[w] = y[w] * (g[w] - total[w]);
        N(settle)(job->to, job->to_type, at, to, width);
    }
}

/* ---- rows and threads ---- */
static void N(softmax_rows)(void *context, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) N(softmax_row)(context, row);
}
static void N(softmax_backward_rows)(void *context, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) N(softmax_backward_row)(context, row);
}

/* A strip is up to ACROSS rows of one outer index. */
#define STRIPS(inner) (((inner) + ACROSS - 1) / ACROSS)
#define STRIP_LOOP(body)                                                                                                         \
    const N(softmax_job) *job = context;                                                                                         \
    for (int64_t strip = begin; strip < end; strip++) {                                                                          \
        const int64_t outer = strip / STRIPS(job->inner), column = strip % STRIPS(job->inner) * ACROSS;                          \
        body(job, outer * job->dim * job->inner + column, (int)least(ACROSS, job->inner - column));                              \
    }
static void N(softmax_strips)(void *context, int64_t begin, int64_t end) { STRIP_LOOP(N(softmax_wide)) }
static void N(softmax_backward_strips)(void *context, int64_t begin, int64_t end) { STRIP_LOOP(N(softmax_backward_wide)) }

static void N(softmax_spread)(N(softmax_job) *job, int64_t rows, void (*by_row)(void *, int64_t, int64_t),
                              void (*by_strip)(void *, int64_t, int64_t)) {
    if (job->inner == 1)
        fai_parallel(rows, rows_per_piece(job->dim), by_row, job);
    else if (rows > 0)
        fai_parallel(rows / job->inner * STRIPS(job->inner), rows_per_piece(job->dim * ACROSS), by_strip, job);
}
#undef STRIPS
#undef STRIP_LOOP

static N(softmax_job) N(softmax_job_of)(const fa_plan *plan, char *const *pointers) {
    return (N(softmax_job)){.to = pointers[0],
                            .a = pointers[1],
                            .b = pointers[2],
                            .to_type = plan->view[0].dtype,
                            .a_type = plan->view[1].dtype,
                            .b_type = plan->view[2].dtype,
                            .dim = plan->n[1],
                            .inner = plan->n[2],
                            .log = plan->n[3] != 0};
}

void FAI_NAME(N(fai_cpu_softmax))(const fa_plan *plan, char *const *pointers) {
    N(softmax_job) job = N(softmax_job_of)(plan, pointers);
    N(softmax_spread)(&job, plan->n[0], N(softmax_rows), N(softmax_strips));
}

void FAI_NAME(N(fai_cpu_softmax_backward))(const fa_plan *plan, char *const *pointers) {
    N(softmax_job) job = N(softmax_job_of)(plan, pointers);
    N(softmax_spread)(&job, plan->n[0], N(softmax_backward_rows), N(softmax_backward_strips));
}
