/* Reading and writing by index on the CPU (kernels/index.k.h describes the plans): where the last dimensions lie side by side in
 * both tensors and share an index, they are copied in one go. */
#include "../cpu.h"
#include "../../../../kernels/dialect.h"
#include "../../../../kernels/status.h"

/* The space of the plan, cut into `rows` of `run` elements; of each operand: 0 the one that is indexed, 1 the other, 2 the
 * index. */
typedef struct index_job {
    const fa_plan *plan;
    char *indexed, *other;
    const char *index;
    fa_i64 *status;
    int ndim, index_type;
    bool writes; /* other goes into indexed; else the other way round */
    int64_t bytes, rows, run;
    int64_t size[FA_PLAN_DIMS], stride[3][FA_PLAN_DIMS];
} index_job;

/* Takes dimensions from the end into the run while elements follow each other and the index does not change. */
static void find_run(index_job *job) {
    job->run = 1;
    while (job->ndim > 0) {
        const int last = job->ndim - 1;
        if (job->size[last] != 1 &&
            (job->stride[0][last] != job->run || job->stride[1][last] != job->run || job->stride[2][last] != 0))
            break;
        job->run *= job->size[last];
        job->ndim--;
    }
    job->rows = 1;
    for (int d = 0; d < job->ndim; d++) job->rows *= job->size[d];
}

/* Element number so many of the index tensor, by the place in the space. */
static int64_t position_of(const index_job *job, const int64_t *place) {
    int64_t position = 0;
    for (int d = 0; d < job->ndim; d++)
        if (job->stride[2][d] != 0) position = position * job->size[d] + place[d];
    return position;
}

/* -1: a bad one, which is reported. */
static inline int64_t index_of(const index_job *job, int64_t at, const int64_t *place) {
    int64_t i = job->index_type == FA_T_INT64 ? ((const fa_i64 *)(const void *)job->index)[at]
                                              : (int64_t)fa_load_i64(job->index, job->index_type, at);
    if (!job->status) return i;
    const int64_t size = job->plan->n[2];
    if (FAI_LIKELY(i >= 0 && i < size)) return i;
    if (i < 0 && i >= -size && !job->plan->n[5]) return i + size;
    report_index(job->status, (int)job->plan->n[4], i, job->plan->n[3], size, position_of(job, place), 0);
    return -1;
}

static inline void copy_run(char *to, const char *from, size_t bytes) {
    switch (bytes) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, bytes);
    }
}

static void index_rows(void *context, int64_t begin, int64_t end) {
    const index_job *job = context;
    const size_t bytes = (size_t)(job->run * job->bytes);
    int64_t at[FA_PLAN_DIMS] = {0}, offset[3] = {0};
    for (int64_t rest = begin, d = job->ndim - 1; d >= 0; d--) {
        at[d] = rest % job->size[d];
        rest /= job->size[d];
        for (int k = 0; k < 3; k++) offset[k] += at[d] * job->stride[k][d];
    }
    for (int64_t row = begin; row < end; row++) {
        const int64_t index = index_of(job, offset[2], at);
        char *indexed = job->indexed + (offset[0] + (index < 0 ? 0 : index) * job->plan->n[1]) * job->bytes;
        char *other = job->other + offset[1] * job->bytes;
        if (index >= 0 || !job->writes || !job->status) copy_run(job->writes ? indexed : other, job->writes ? other : indexed, bytes);
        for (int d = job->ndim - 1; d >= 0; d--) {
            for (int k = 0; k < 3; k++) offset[k] += job->stride[k][d];
            if (++at[d] < job->size[d]) break;
            for (int k = 0; k < 3; k++) offset[k] -= at[d] * job->stride[k][d];
            at[d] = 0;
        }
    }
}

static void run_index(const fa_plan *plan, char *const *pointers, bool writes) {
    const int indexed = writes ? 0 : 1, other = writes ? 1 : 0;
    if (plan->numel == 0) return;
    index_job job = {.plan = plan,
                     .indexed = pointers[indexed],
                     .other = pointers[other],
                     .index = pointers[2],
                     .status = plan->view[3].kind ? (fa_i64 *)(void *)pointers[3] : NULL,
                     .ndim = plan->ndim,
                     .index_type = plan->view[2].dtype,
                     .writes = writes,
                     .bytes = plan->n[0]};
    for (int d = 0; d < plan->ndim; d++) {
        job.size[d] = plan->view[other].size[d];
        job.stride[0][d] = plan->view[indexed].stride[d];
        job.stride[1][d] = plan->view[other].stride[d];
        job.stride[2][d] = plan->view[2].stride[d];
    }
    find_run(&job);
    if (writes)
        index_rows(&job, 0, job.rows); /* places may repeat: the last one stays */
    else
        fai_parallel(job.rows, 1 + 16384 / job.run, index_rows, &job);
}

void FAI_NAME(fai_cpu_index_read)(const fa_plan *plan, char *const *pointers) { run_index(plan, pointers, false); }
void FAI_NAME(fai_cpu_index_write)(const fa_plan *plan, char *const *pointers) { run_index(plan, pointers, true); }
