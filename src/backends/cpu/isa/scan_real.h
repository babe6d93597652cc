/* For one compute type; see scan.c. */

typedef struct N(scan_job) {
    const fa_plan *plan;
    char *to;
    const char *from;
    int to_type, from_type;
} N(scan_job);

INLINE REAL N(scan_joined)(REAL a, REAL b, bool product) {
#ifdef FA_I64
    return (REAL)(product ? (fa_u64)a * (fa_u64)b : (fa_u64)a + (fa_u64)b);
#else
    return product ? a * b : a + b;
#endif
}

/* At most a block in its order; what came before in, what comes out. product is a constant at every use. */
INLINE REAL N(scan_block)(REAL *y, const REAL *x, int64_t n, REAL before, const bool product) {
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        REAL run[4] = {product, product, product, product};
        for (int j = 0; j < 16; j++)
            for (int c = 0; c < 4; c++) y[i + c * 16 + j] = run[c] = N(scan_joined)(run[c], x[i + c * 16 + j], product);
        for (int c = 0; c < 4; c++) {
            for (int j = 0; j < 16; j++) y[i + c * 16 + j] = N(scan_joined)(before, y[i + c * 16 + j], product);
            before = N(scan_joined)(before, run[c], product);
        }
    }
    for (; i < n; i += 16) {
        REAL run = product;
        for (int64_t j = i; j < i + 16 && j < n; j++) {
            run = N(scan_joined)(run, x[j], product);
            y[j] = N(scan_joined)(before, run, product);
        }
        before = N(scan_joined)(before, run, product);
    }
    return before;
}

static void N(reverse)(REAL *p, int64_t n) {
    for (int64_t i = 0; i < n / 2; i++) {
        const REAL other = p[i];
        p[i] = p[n - 1 - i];
        p[n - 1 - i] = other;
    }
}

/* Rows that lie side by side in memory. */
static void N(scan_rows)(void *context, int64_t begin, int64_t end) {
    const N(scan_job) *job = context;
    const int64_t dim = job->plan->n[1];
    const bool product = job->plan->n[3] != 0, reverse = job->plan->n[4] != 0;
    for (int64_t row = begin; row < end; row++) {
        REAL in[BLOCK], out[BLOCK], before = product;
        for (int64_t k = 0; k < dim; k += BLOCK) {
            const int64_t n = least(BLOCK, dim - k), at = row * dim + (reverse ? dim - k - n : k);
            N(unpack)(in, job->from, job->from_type, at, n);
            if (reverse) N(reverse)(in, n);
            before = product ? N(scan_block)(out, in, n, before, true) : N(scan_block)(out, in, n, before, false);
            if (reverse) N(reverse)(out, n);
            N(pack)(job->to, job->to_type, at, out, n);
        }
    }
}

/* Strips of ACROSS rows whose elements are neighbours. */
static void N(scan_strips)(void *context, int64_t begin, int64_t end) {
    const N(scan_job) *job = context;
    const int64_t dim = job->plan->n[1], inner = job->plan->n[2], strips = (inner + ACROSS - 1) / ACROSS;
    const bool product = job->plan->n[3] != 0;
    for (int64_t strip = begin; strip < end; strip++) {
        const int64_t first = strip / strips * dim * inner + strip % strips * ACROSS;
        const int width = (int)least(ACROSS, inner - strip % strips * ACROSS);
        REAL in[ACROSS], run[ACROSS], before[ACROSS], out[ACROSS];
        for (int w = 0; w < ACROSS; w++) before[w] = run[w] = product;
        for (int64_t k = 0; k < dim; k++) {
            const int64_t at = first + (job->plan->n[4] ? dim - 1 - k : k) * inner;
            const REAL *x = N(fetch)(job->from, job->from_type, at, width, in);
            if (k % 16 == 0 && k > 0)
                for (int w = 0; w < width; w++) {
                    before[w] = N(scan_joined)(before[w], run[w], product);
                    run[w] = product;
                }
            for (int w = 0; w < width; w++) {
                run[w] = N(scan_joined)(run[w], x[w], product);
                out[w] = N(scan_joined)(before[w], run[w], product);
            }
            N(pack)(job->to, job->to_type, at, out, width);
        }
    }
}

void FAI_NAME(N(fai_cpu_scan))(const fa_plan *plan, char *const *pointers) {
    N(scan_job) job = {plan, pointers[0], pointers[1], plan->view[0].dtype, plan->view[1].dtype};
    const int64_t inner = plan->n[2], strips = (inner + ACROSS - 1) / ACROSS;
    if (inner == 1)
        fai_parallel(plan->n[0], rows_per_piece(plan->n[1]), N(scan_rows), &job);
    else if (plan->n[0] > 0)
        fai_parallel(plan->n[0] / inner * strips, rows_per_piece(plan->n[1] * ACROSS), N(scan_strips), &job);
}
