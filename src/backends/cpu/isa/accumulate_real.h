/* For one compute type; see accumulate.c. */
#undef OWN_TYPE
#if defined(FA_F32)
#define OWN_TYPE FA_T_FLOAT32
#elif defined(FA_F64)
#define OWN_TYPE FA_T_FLOAT64
#else
#define OWN_TYPE FA_T_INT64
#endif

#ifndef FAI_ACCUMULATE_ONCE
#define FAI_ACCUMULATE_ONCE
typedef struct accumulate_job {
    const fa_plan *plan;
    char *out;
    const char *src;
    const fa_i64 *keys, *positions; /* positions NULL: in order */
} accumulate_job;

static int64_t column_offset(int64_t i, const fa_plan_view *view) {
    int64_t offset = 0;
    for (int d = view->ndim - 1; d >= 0; d--) {
        offset += i % view->size[d] * view->stride[d];
        i /= view->size[d];
    }
    return offset;
}

/* Columns from `at` on that lie side by side in out and src, at most `most`. */
static int64_t column_run(const fa_plan *plan, int64_t at, int64_t most) {
    const int last = plan->view[0].ndim - 1;
    if (last < 0 || plan->view[1].ndim - 1 != last || plan->view[0].stride[last] != 1 || plan->view[1].stride[last] != 1)
        return 1;
    const int64_t left = plan->view[0].size[last] - at % plan->view[0].size[last];
    return left < most ? left : most;
}
#endif

INLINE REAL N(add_wrapping)(REAL a, REAL b) {
#ifdef FA_I64
    return (REAL)((fa_u64)a + (fa_u64)b);
#else
    return a + b;
#endif
}

/* By plan.n[5]: 0 added, 1 multiplied, 2 the largest, 3 the smallest. */
INLINE REAL N(join_by)(REAL a, REAL b, int64_t how) {
    if (how == 2) return N(fa_max)(a, b);
    if (how == 3) return N(fa_min)(a, b);
#ifdef FA_I64
    if (how == 1) return (REAL)((fa_u64)a * (fa_u64)b);
#else
    if (how == 1) return a * b;
#endif
    return N(add_wrapping)(a, b);
}

/* One run of columns: every position in order. */
static void N(accumulate_run)(const accumulate_job *job, int64_t to, int64_t from, int64_t run) {
    const fa_plan *plan = job->plan;
    const int out_type = plan->view[0].dtype, src_type = plan->view[1].dtype;
    const bool plain = out_type == OWN_TYPE && src_type == OWN_TYPE && plan->n[5] == 0;
    for (int64_t p = 0; p < plan->n[0]; p++) {
        const int64_t key = job->keys[p];
        if (key == plan->n[4]) continue;
        const int64_t at = to + key * plan->n[3], source = from + (job->positions ? job->positions[p] : p) * plan->n[2];
        if (plain) {
            REAL *o = (REAL *)(void *)job->out + at;
            const REAL *s = (const REAL *)(const void *)job->src + source;
            for (int64_t j = 0; j < run; j++) o[j] = N(add_wrapping)(o[j], s[j]);
        } else
            for (int64_t j = 0; j < run; j++)
                STORE(job->out, out_type, at + j,
                      N(join_by)(LOAD(job->out, out_type, at + j), LOAD(job->src, src_type, source + j), plan->n[5]));
    }
}

/* Sorted keys and a storage type that would round at every step: each sum is made apart and rounded once. */
static void N(accumulate_segments)(const accumulate_job *job, int64_t to, int64_t from) {
    const fa_plan *plan = job->plan;
    for (int64_t p = 0; p < plan->n[0];) {
        const int64_t key = job->keys[p], at = to + key * plan->n[3];
        REAL sum = key == plan->n[4] ? 0 : LOAD(job->out, plan->view[0].dtype, at);
        for (; p < plan->n[0] && job->keys[p] == key; p++)
            sum = N(join_by)(sum, LOAD(job->src, plan->view[1].dtype, from + job->positions[p] * plan->n[2]), plan->n[5]);
        if (key != plan->n[4]) STORE(job->out, plan->view[0].dtype, at, sum);
    }
}

static void N(accumulate_columns)(void *context, int64_t begin, int64_t end) {
    const accumulate_job *job = context;
    const fa_plan *plan = job->plan;
    for (int64_t column = begin; column < end;) {
        const int64_t to = column_offset(column, &plan->view[0]), from = column_offset(column, &plan->view[1]);
        const bool apart = job->positions && plan->view[0].dtype != OWN_TYPE;
        const int64_t run = apart ? 1 : column_run(plan, column, end - column);
        if (apart)
            N(accumulate_segments)(job, to, from);
        else
            N(accumulate_run)(job, to, from, run);
        column += run;
    }
}

void FAI_NAME(N(fai_cpu_index_accumulate))(const fa_plan *plan, char *const *pointers) {
    accumulate_job job = {plan, pointers[0], pointers[1], (const fa_i64 *)(const void *)pointers[2],
                          plan->view[3].kind ? (const fa_i64 *)(const void *)pointers[3] : NULL};
    const int64_t by_work = 1 + 32768 / (plan->n[0] + 1);
    fai_parallel(plan->n[1], by_work < 16 ? 16 : by_work, N(accumulate_columns), &job);
}
