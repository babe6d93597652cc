/* From a plan (kernels/gemm.k.h describes it) to products: batches, storage types, threads. Included per type after gemm_real.h.
 */

typedef struct N(job) {
    const fa_plan *plan;
    char *const *pointers;
    REAL alpha, beta;
    int nb, way;
    bool added, converted;            /* D is there; some operand has another storage type */
    int64_t m, n, row_chunk, col_chunk, rows_in, cols_in; /* chunk sizes and how many make one matrix */
} N(job);

/* A matrix of another storage type as one of REAL without gaps; row and col become its strides: what ran along memory still does.
 */
static void N(widen)(REAL *to, const char *from, int dtype, int64_t rows, int64_t cols, int64_t *row, int64_t *col) {
    const bool across = *row == 1 && *col != 1;
    const int64_t lines = across ? cols : rows, length = across ? rows : cols;
    const int64_t line = across ? *col : *row, step = across ? *row : *col;
    const int64_t size = (int64_t)fa_dtype_size((fa_dtype)dtype);
    for (int64_t i = 0; i < lines; i++, to += length)
        if (step == 1) FAI_NAME(N(fai_cpu_load))(to, from + i * line * size, dtype, length);
        else
            for (int64_t j = 0; j < length; j++) to[j] = LOAD(from, dtype, i * line + j * step);
    *row = across ? 1 : length;
    *col = across ? length : 1;
}

/* No memory for converted copies: plain loops. */
static void N(plain_any)(const N(job) *job, N(problem) *p, const char *a, const char *b, char *c, const char *d, int64_t d_col) {
    const fa_plan_view *view = job->plan->view;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            REAL sum = 0;
            for (int64_t k = 0; k < p->s.k; k++)
                sum = N(fma1)(LOAD(a, view[1].dtype, i * p->s.a_row + k * p->s.a_col),
                              LOAD(b, view[2].dtype, k * p->s.b_row + j * p->b_col), sum);
            REAL v = N(fma1)(p->t.alpha, sum, 0);
            if (d) v = N(fma1)(job->beta, LOAD(d, view[3].dtype, i * p->t.d_row + j * d_col), v);
            STORE(c, view[0].dtype, i * p->t.c_row + j, p->t.act == 1 && v <= 0 ? 0 : v);
        }
}

/* c = beta * d for a D whose columns do not lie side by side; the product then adds to c. */
static void N(spread)(N(problem) *p, const char *d, int dtype, int64_t d_col) {
    N(target) *t = &p->t;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) t->c[i * t->c_row + j] = N(fma1)(t->beta, LOAD(d, dtype, i * t->d_row + j * d_col), 0);
    t->d = t->c;
    t->d_row = t->c_row;
    t->beta = 1;
}

/* Part of one matrix whose operands have other storage types: copies of REAL, the product, one rounding at the end. */
static void N(run_converted)(const N(job) *job, N(problem) *p, const char *a, const char *b, char *c, const char *d,
                             int64_t d_col) {
    const fa_plan_view *view = job->plan->view;
    const int64_t m = p->m, n = p->n, k = p->s.k;
    const size_t room = sizeof(REAL) * (size_t)(m * k + k * n + m * n);
    REAL *copy = fai_cpu_scratch_take(room);
    if (!copy) {
        N(plain_any)(job, p, a, b, c, d, d_col);
        return;
    }
    N(problem) q = *p;
    q.s.a = copy;
    q.s.b = copy + m * k;
    q.t.c = copy + m * k + k * n;
    q.t.c_row = n;
    N(widen)(copy, a, view[1].dtype, m, k, &q.s.a_row, &q.s.a_col);
    N(widen)(copy + m * k, b, view[2].dtype, k, n, &q.s.b_row, &q.b_col);
    if (d) N(spread)(&q, d, view[3].dtype, d_col);
    N(product)(&q, job->way);
    for (int64_t i = 0; i < m; i++)
        FAI_NAME(N(fai_cpu_store))
        (c + i * p->t.c_row * (int64_t)fa_dtype_size((fa_dtype)view[0].dtype), view[0].dtype, q.t.c + i * n, n);
    fai_cpu_scratch_give(copy, room);
}

/* ---- one part of one matrix of the batch ---- */
static void N(run_part)(const N(job) *job, int64_t matrix, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
    const fa_plan_view *view = job->plan->view;
    const int nb = job->nb;
    int64_t at[4] = {0};
    for (int dim = nb - 1; dim >= 0; dim--) {
        const int64_t i = matrix % view[0].size[dim];
        matrix /= view[0].size[dim];
        for (int v = 0; v < 3 + job->added; v++) at[v] += i * view[v].stride[dim];
    }
    N(problem) p = {.m = i1 - i0, .n = j1 - j0, .b_col = view[2].stride[nb + 1],
        .s = {.k = job->plan->n[2], .a_row = view[1].stride[nb], .a_col = view[1].stride[nb + 1], .b_row = view[2].stride[nb]},
        .t = {.c_row = view[0].stride[nb], .alpha = job->alpha, .beta = job->beta, .act = (int)job->plan->n[3]}};
    at[0] += i0 * p.t.c_row + j0;
    at[1] += i0 * p.s.a_row;
    at[2] += j0 * p.b_col;
    const int64_t d_col = job->added ? view[3].stride[nb + 1] : 0;
    char *from[4] = {NULL};
    if (job->added) {
        p.t.d_row = view[3].stride[nb];
        at[3] += i0 * p.t.d_row + j0 * d_col;
    }
    for (int v = 0; v < 3 + job->added; v++) from[v] = job->pointers[v] + at[v] * (int64_t)fa_dtype_size((fa_dtype)view[v].dtype);
    if (job->converted) {
        N(run_converted)(job, &p, from[1], from[2], from[0], from[3], d_col);
        return;
    }
    p.t.c = (REAL *)(void *)from[0];
    p.s.a = (const REAL *)(const void *)from[1];
    p.s.b = (const REAL *)(const void *)from[2];
    p.t.d = (const REAL *)(const void *)from[3];
    if (job->added && d_col != 1 && p.n > 1) N(spread)(&p, from[3], view[3].dtype, d_col);
    N(product)(&p, job->way);
}

/* Tasks are numbered matrix by matrix, column chunk by column chunk, row chunks last: neighbours share B, and are run as one. */
static void N(run_tasks)(void *context, int64_t begin, int64_t end) {
    const N(job) *job = context;
    while (begin < end) {
        const int64_t row = begin % job->rows_in, col = begin / job->rows_in % job->cols_in,
                      matrix = begin / (job->rows_in * job->cols_in);
        const int64_t run = job->rows_in - row < end - begin ? job->rows_in - row : end - begin;
        const int64_t i1 = (row + run) * job->row_chunk, j1 = (col + 1) * job->col_chunk;
        N(run_part)(job, matrix, row * job->row_chunk, i1 < job->m ? i1 : job->m, col * job->col_chunk,
                    j1 < job->n ? j1 : job->n);
        begin += run;
    }
}

#define TASK_WORK ((int64_t)1 << 19) /* multiply-adds that repay a thread */

static bool N(same_types)(const fa_plan *plan, bool added) {
    for (int v = 0; v < 3 + added; v++)
        if (plan->view[v].dtype != OWN_TYPE) return false;
    return true;
}

void FAI_NAME(N(fai_cpu_gemm))(const fa_plan *plan, char *const *pointers) {
    N(job) job = {
        .plan = plan, .pointers = pointers, .nb = (int)plan->n[5], .m = plan->n[0], .n = plan->n[1], .rows_in = 1, .cols_in = 1};
#ifdef FA_I64
    job.alpha = plan->n[6];
    job.beta = plan->n[7];
#else
    job.alpha = (REAL)plan->f[0];
    job.beta = (REAL)plan->f[1];
#endif
    const int64_t m = job.m, n = job.n, k = plan->n[2], batch = plan->n[4];
    if (m <= 0 || n <= 0 || batch <= 0) return;
    job.added = plan->view[3].kind != FA_VIEW_NONE && job.beta != 0;
    job.converted = !N(same_types)(plan, job.added);
    const fa_plan_view *view = plan->view;
    N(problem) whole = {
        .m = m,
        .n = n,
        .b_col = view[2].stride[job.nb + 1],
        .s = {.k = k, .a_row = view[1].stride[job.nb], .a_col = view[1].stride[job.nb + 1], .b_row = view[2].stride[job.nb]},
        .t = {.c_row = view[0].stride[job.nb],
              .d = job.added ? (const REAL *)(const void *)pointers[3] : NULL,
              .d_row = view[3].stride[job.nb]}};
    job.way = N(choose)(&whole);
    job.row_chunk = m;
    job.col_chunk = n;
    const double work = (double)m * (double)n * (double)(k + 1);
    if (batch == 1 && work <= 2.0 * (double)TASK_WORK && !job.converted && (!job.added || view[3].stride[job.nb + 1] == 1)) {
        whole.t.c = (REAL *)(void *)pointers[0];
        whole.s.a = (const REAL *)(const void *)pointers[1];
        whole.s.b = (const REAL *)(const void *)pointers[2];
        whole.t.alpha = job.alpha;
        whole.t.beta = job.beta;
        whole.t.act = (int)plan->n[3];
        N(product)(&whole, job.way);
        return;
    }
    if (work * (double)batch <= 2.0 * (double)TASK_WORK) {
        for (int64_t matrix = 0; matrix < batch; matrix++) N(run_part)(&job, matrix, 0, m, 0, n);
        return;
    }
    int64_t grain = 1;
    if (work > 2.0 * (double)TASK_WORK) {
        job.row_chunk = CHUNK_ROWS;
        job.col_chunk = CHUNK_COLS;
        job.rows_in = (m + CHUNK_ROWS - 1) / CHUNK_ROWS;
        job.cols_in = (n + CHUNK_COLS - 1) / CHUNK_COLS;
        const double task =
            (double)(m < CHUNK_ROWS ? m : CHUNK_ROWS) * (double)(n < CHUNK_COLS ? n : CHUNK_COLS) * (double)(k + 1);
        if (task < (double)TASK_WORK) grain = (int64_t)((double)TASK_WORK / task) + 1;
    } else grain = (int64_t)((double)TASK_WORK / work) + 1;
    fai_parallel(batch * job.rows_in * job.cols_in, grain, N(run_tasks), &job);
}

/* One product for another kernel, on this thread: c = alpha * a b, added to what is there or not. */
void FAI_NAME(N(fai_cpu_multiply))(int64_t m, int64_t n, int64_t k, REAL alpha, const REAL *a, int64_t a_row, int64_t a_col, const REAL *b,
                                   int64_t b_row, int64_t b_col, REAL *c, int64_t c_row, bool add);
void FAI_NAME(N(fai_cpu_multiply))(int64_t m, int64_t n, int64_t k, REAL alpha, const REAL *a, int64_t a_row, int64_t a_col, const REAL *b,
                                   int64_t b_row, int64_t b_col, REAL *c, int64_t c_row, bool add) {
    const N(problem) p = {.m = m, .n = n, .b_col = b_col,
        .s = {.k = k, .a = a, .a_row = a_row, .a_col = a_col, .b = b, .b_row = b_row},
        .t = {.c = c, .c_row = c_row, .d = add ? c : NULL, .d_row = c_row, .alpha = alpha, .beta = 1}};
    if (m > 0 && n > 0) N(product)(&p, N(choose)(&p));
}
