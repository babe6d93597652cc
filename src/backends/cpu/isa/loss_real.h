/* For one compute type; see loss.c. */

typedef struct N(nll_job) {
    const fa_plan *plan;
    char *const *pointers;
} N(nll_job);

INLINE int64_t N(nll_class)(const N(nll_job) *job, int view, int64_t k) {
    const char *p = job->pointers[view];
    return job->plan->view[view].dtype == FA_T_INT64 ? ((const fa_i64 *)(const void *)p)[k]
                                                     : (int64_t)fa_load_i64(p, job->plan->view[view].dtype, k);
}
INLINE REAL N(nll_weight)(const N(nll_job) *job, int view, int64_t c) {
    return job->plan->view[view].kind == FA_VIEW_NONE ? 1 : LOAD(job->pointers[view], job->plan->view[view].dtype, c);
}

/* Losses and weights of the elements k .. k+n-1, n at most a block. */
static void N(nll_block)(const N(nll_job) *job, int64_t k, int64_t n, REAL *loss, REAL *weight) {
    const int64_t classes = job->plan->n[1], space = job->plan->n[2];
    const int x_type = job->plan->view[2].dtype;
    for (int64_t i = 0; i < n; i++) {
        const int64_t c = N(nll_class)(job, 3, k + i);
        loss[i] = weight[i] = 0;
        if (c == job->plan->n[4]) continue;
        if (c < 0 || c >= classes) {
            report_index((fa_i64 *)(void *)job->pointers[5], FA_STATUS_TARGET, c, 1, classes, k + i, 0);
            continue;
        }
        weight[i] = N(nll_weight)(job, 4, c);
        loss[i] = -(LOAD(job->pointers[2], x_type, ((k + i) / space * classes + c) * space + (k + i) % space) * weight[i]);
    }
}

void FAI_NAME(N(fai_cpu_nll_loss))(const fa_plan *plan, char *const *pointers) {
    const N(nll_job) job = {plan, pointers};
    const int64_t count = plan->n[0] * plan->n[2];
    const int out_type = plan->view[0].dtype;
    N(tree) losses, weights;
    losses.blocks = weights.blocks = 0;
    for (int64_t k = 0; k < count; k += BLOCK) {
        REAL loss[BLOCK], weight[BLOCK];
        const int64_t n = least(BLOCK, count - k);
        N(nll_block)(&job, k, n, loss, weight);
        if (plan->n[3] == 0) {
            N(pack)(pointers[0], out_type, k, loss, n);
            continue;
        }
        N(push)(&losses, N(block_sum)(loss, n));
        N(push)(&weights, N(block_sum)(weight, n));
    }
    const REAL loss = N(tree_total)(&losses), weight = N(tree_total)(&weights);
    if (plan->n[3] != 0) STORE(pointers[0], out_type, 0, plan->n[3] == 1 ? loss / weight : loss);
    STORE(pointers[1], plan->view[1].dtype, 0, weight);
}

/* Zeros, then one number an element. */
static void N(nll_backward_part)(void *context, int64_t begin, int64_t end) {
    const N(nll_job) *job = context;
    const fa_plan *plan = job->plan;
    const int64_t classes = plan->n[1], space = plan->n[2];
    const int out_type = plan->view[0].dtype, g_type = plan->view[1].dtype;
    const size_t bytes = fa_dtype_size((fa_dtype)out_type);
    memset(job->pointers[0] + (size_t)(begin * classes * space) * bytes, 0, (size_t)((end - begin) * classes * space) * bytes);
    const REAL total = plan->n[3] == 1 ? LOAD(job->pointers[4], plan->view[4].dtype, 0) : 1;
    for (int64_t k = begin * space; k < end * space; k++) {
        const int64_t c = N(nll_class)(job, 2, k);
        if (c == plan->n[4] || c < 0 || c >= classes) continue;
        REAL gradient = -(N(nll_weight)(job, 3, c) * LOAD(job->pointers[1], g_type, plan->n[3] == 0 ? k : 0));
        if (plan->n[3] == 1) gradient /= total;
        STORE(job->pointers[0], out_type, (k / space * classes + c) * space + k % space, gradient);
    }
}

void FAI_NAME(N(fai_cpu_nll_loss_backward))(const fa_plan *plan, char *const *pointers) {
    N(nll_job) job = {plan, pointers};
    fai_parallel(plan->n[0], rows_per_piece(plan->n[1] * plan->n[2]), N(nll_backward_part), &job);
}
