/* For one compute type; see running.c. */
#undef OWN_TYPE
#if defined(FA_F32)
#define OWN_TYPE FA_T_FLOAT32
#elif defined(FA_F64)
#define OWN_TYPE FA_T_FLOAT64
#else
#define OWN_TYPE FA_T_INT64
#endif

#ifndef FAI_RUNNING_ONCE
#define FAI_RUNNING_ONCE
enum { RUNNING_LARGEST = 0, RUNNING_SMALLEST, RUNNING_LOG_SUM, RUNNING_CHUNK = 16 };
typedef struct running_job {
    const fa_plan *plan;
    char *y;
    const char *x;
    fa_i64 *places;
} running_job;
#endif

/* The row from x[base] on, elements `step` apart. dtype is known where the type is the compute type's own. */
INLINE void N(running_extreme)(const running_job *job, int64_t base, int64_t n, int64_t step, int least, int x_type, int y_type) {
    REAL best = LOAD(job->x, x_type, base);
    fa_i64 at = 0;
    for (int64_t k = 0, i = base; k < n; k++, i += step) {
        const REAL v = LOAD(job->x, x_type, i);
        const int better = (least ? v <= best : v >= best) || N(fa_isnan)(v) != 0;
        best = better ? v : best;
        at = better ? k : at;
        STORE(job->y, y_type, i, best);
        if (job->places) job->places[i] = at;
    }
}

#ifndef FA_I64
INLINE REAL N(log_add)(REAL a, REAL b) {
    const REAL high = N(fa_max)(a, b), low = N(fa_min)(a, b);
    if (low == high && N(fa_isinf)(high) != 0) return high;
    return high + N(fa_log1p)(N(fa_exp)(low - high));
}

static void N(running_log_sum)(const running_job *job, int64_t base, int64_t n, int64_t step) {
    const int x_type = job->plan->view[1].dtype, y_type = job->plan->view[0].dtype;
    REAL before = 0;
    for (int64_t begin = 0; begin < n; begin += RUNNING_CHUNK) {
        const int64_t end = begin + RUNNING_CHUNK < n ? begin + RUNNING_CHUNK : n;
        REAL run = 0;
        for (int64_t k = begin; k < end; k++) {
            const REAL v = LOAD(job->x, x_type, base + k * step);
            run = k == begin ? v : N(log_add)(run, v);
            STORE(job->y, y_type, base + k * step, begin ? N(log_add)(before, run) : run);
        }
        before = begin ? N(log_add)(before, run) : run;
    }
}
#endif

static void N(running_rows)(void *context, int64_t begin, int64_t end) {
    const running_job *job = context;
    const int64_t n = job->plan->n[1], inner = job->plan->n[2];
    const int x_type = job->plan->view[1].dtype, y_type = job->plan->view[0].dtype, least = job->plan->n[3] == RUNNING_SMALLEST;
    for (int64_t row = begin; row < end; row++) {
        const int64_t base = row / inner * n * inner + row % inner;
#ifndef FA_I64
        if (job->plan->n[3] == RUNNING_LOG_SUM) {
            N(running_log_sum)(job, base, n, inner);
            continue;
        }
#endif
        if (x_type == OWN_TYPE && y_type == OWN_TYPE)
            N(running_extreme)(job, base, n, inner, least, OWN_TYPE, OWN_TYPE);
        else
            N(running_extreme)(job, base, n, inner, least, x_type, y_type);
    }
}

void FAI_NAME(N(fai_cpu_running))(const fa_plan *plan, char *const *pointers) {
    running_job job = {plan, pointers[0], pointers[1], plan->view[2].kind ? (fa_i64 *)(void *)pointers[2] : NULL};
    if (plan->n[1] > 0) fai_parallel(plan->n[0], 1 + 4096 / plan->n[1], N(running_rows), &job);
}
