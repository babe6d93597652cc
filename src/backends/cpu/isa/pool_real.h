/* Pooling for one type; pool.c includes it for f32 and f64. Outputs of a row are made side by side, STRIP at a time, tap after
 * tap, so that the loops vectorise; a tap that falls outside for the first or last outputs is run for the others only. Sums have
 * the order that the text has. Other storage types are converted plane by plane. */

#define STRIP 128

/* A tap is its distance from the window's corner within the plane, -1: none yet. Of the width of REAL, so that both vectorise. */
#ifdef FA_F32
typedef fa_i32 N(tap_id);
#else
typedef fa_i64 N(tap_id);
#endif

typedef struct N(pool) {
    const fa_plan *plan;
    char *const *pointers;
    int64_t height, width, oh, ow, window_y, window_x, stride_y, stride_x, pad_y, pad_x;
    void (*plane)(const struct N(pool) *job, const REAL *from, REAL *to, int64_t plane);
    int64_t in_size, out_size;  /* elements of a plane that is read, and of one that is written */
    int from, to;               /* their pointers */
    atomic_bool no_memory;      /* the text must do it */
} N(pool);

/* Outputs x with 0 <= x * stride + shift < width. */
static void N(span)(int64_t shift, int64_t stride, int64_t width, int64_t outputs, int64_t *first, int64_t *end) {
    if (shift >= 0 && shift + (outputs - 1) * stride < width) { /* most taps; spares the divisions */
        *first = 0;
        *end = outputs;
        return;
    }
    const int64_t low = shift >= 0 ? 0 : (-shift + stride - 1) / stride,
                  high = width - shift <= 0 ? 0 : (width - shift + stride - 1) / stride;
    *first = low;
    *end = high < outputs ? high : outputs;
}

/* ---- maximum ---- */
typedef N(tap_id) N(taps) __attribute__((vector_size(FAI_VECTOR_BYTES)));

/* One tap for n outputs; `room` elements may be read from row on. Selects, not branches: which tap wins is anybody's guess. best
 * and tap have space for whole vectors. */
INLINE void N(max_tap)(REAL *best, N(tap_id) *tap, const REAL *row, int64_t n, const int64_t stride, N(tap_id) id, int64_t room) {
    N(taps) lane;
    for (int l = 0; l < LANES; l++) lane[l] = l;
    for (int64_t i = 0; i < n; i += LANES, row += LANES * stride, room -= LANES * stride) {
        REAL line[LANES];
        if ((LANES - 1) * stride < room)
            for (int l = 0; l < LANES; l++) line[l] = row[l * stride];
        else
            for (int l = 0; l < LANES; l++) line[l] = i + l < n ? row[l * stride] : 0;
        const N(vec) v = N(load)(line), b = N(load)(best + i);
        N(taps) t;
        memcpy(&t, tap + i, sizeof t);
        const N(taps) take = ((N(taps))(v > b) | (N(taps))(v != v) | (t < 0)) & (lane < (N(tap_id))(n - i));
        N(put)(best + i, (N(vec))(((N(taps))v & take) | ((N(taps))b & ~take)));
        t = (id & take) | (t & ~take);
        memcpy(tap + i, &t, sizeof t);
    }
}

static void N(max_row)(const N(pool) *job, const REAL *plane, REAL *best, N(tap_id) *tap, int64_t y, int64_t x, int64_t count) {
    const fa_i64 *n = job->plan->n;
    for (int64_t i = 0; i < count + LANES; i++) best[i] = 0, tap[i] = -1;
    for (int64_t i = 0; i < job->window_y; i++) {
        const int64_t at_y = y * job->stride_y - job->pad_y + i * n[11];
        if (at_y < 0 || at_y >= job->height) continue;
        for (int64_t j = 0; j < job->window_x; j++) {
            int64_t first, end;
            const int64_t shift = x * job->stride_x - job->pad_x + j * n[12];
            N(span)(shift, job->stride_x, job->width, count, &first, &end);
            const REAL *row = plane + at_y * job->width + shift + first * job->stride_x;
            const N(tap_id) id = (N(tap_id))(i * n[11] * job->width + j * n[12]);
            const int64_t room = plane + job->height * job->width - row;
            if (job->stride_x == 1) N(max_tap)(best + first, tap + first, row, end - first, 1, id, room);
            else if (job->stride_x == 2) N(max_tap)(best + first, tap + first, row, end - first, 2, id, room);
            else N(max_tap)(best + first, tap + first, row, end - first, job->stride_x, id, room);
        }
    }
}

static void N(max_plane)(const N(pool) *job, const REAL *from, REAL *to, int64_t plane) {
    N(tap_id) tap[STRIP + LANES];
    REAL best[STRIP + LANES];
    fa_i64 *indices = job->plan->view[1].kind ? (fa_i64 *)(void *)job->pointers[1] + plane * job->oh * job->ow : NULL;
    for (int64_t y = 0; y < job->oh; y++)
        for (int64_t x = 0; x < job->ow; x += STRIP) {
            const int64_t count = job->ow - x < STRIP ? job->ow - x : STRIP, at = y * job->ow + x;
            N(max_row)(job, from, best, tap, y, x, count);
            for (int64_t i = 0; i < count; i++) to[at + i] = best[i];
            if (!indices) continue;
            const int64_t start = (y * job->stride_y - job->pad_y) * job->width + x * job->stride_x - job->pad_x;
            for (int64_t i = 0; i < count; i++) indices[at + i] = start + i * job->stride_x + tap[i];
        }
}

static void N(max_back_plane)(const N(pool) *job, const REAL *from, REAL *to, int64_t plane) {
    const fa_i64 *indices = (const fa_i64 *)(const void *)job->pointers[2] + plane * job->in_size;
    for (int64_t i = 0; i < job->out_size; i++) to[i] = 0;
    for (int64_t i = 0; i < job->in_size; i++)
        if (indices[i] >= 0 && indices[i] < job->out_size) to[indices[i]] += from[i];
}

/* ---- mean ---- */

/* Elements that one side of a window at `start` counts for the divisor: with the padding, or without. */
INLINE REAL N(counted)(int64_t start, int64_t window, int64_t length, int64_t padding, bool padding_counts) {
    const int64_t limit = padding_counts ? length + padding : length, end = start + window < limit ? start + window : limit;
    return (REAL)(end - (padding_counts || start > 0 ? start : 0));
}

/* The divisors of one row of `count` windows from x on. */
static void N(divisors)(const N(pool) *job, REAL *to, int64_t y, int64_t x, int64_t count) {
    const bool padding = job->plan->n[11];
    const REAL instead = (REAL)job->plan->n[12];
    const REAL rows = N(counted)(y * job->stride_y - job->pad_y, job->window_y, job->height, job->pad_y, padding);
    for (int64_t i = 0; i < count; i++) {
        const REAL cols = N(counted)((x + i) * job->stride_x - job->pad_x, job->window_x, job->width, job->pad_x, padding);
        to[i] = instead != 0 ? instead : rows * cols;
    }
}

INLINE void N(sum_tap)(REAL *restrict sum, const REAL *restrict row, int64_t n, const int64_t stride) {
    for (int64_t i = 0; i < n; i++) sum[i] += row[i * stride];
}

static void N(avg_plane)(const N(pool) *job, const REAL *from, REAL *to, int64_t plane) {
    REAL divisor[STRIP];
    (void)plane;
    for (int64_t y = 0; y < job->oh; y++) {
        REAL *sum = to + y * job->ow;
        for (int64_t x = 0; x < job->ow; x++) sum[x] = 0;
        const int64_t y0 = y * job->stride_y - job->pad_y,
                      y1 = y0 + job->window_y < job->height ? y0 + job->window_y : job->height;
        for (int64_t at_y = y0 > 0 ? y0 : 0; at_y < y1; at_y++)
            for (int64_t j = 0; j < job->window_x; j++) {
                int64_t first, end;
                N(span)(j - job->pad_x, job->stride_x, job->width, job->ow, &first, &end);
                const REAL *row = from + at_y * job->width + j - job->pad_x + first * job->stride_x;
                if (job->stride_x == 1) N(sum_tap)(sum + first, row, end - first, 1);
                else if (job->stride_x == 2) N(sum_tap)(sum + first, row, end - first, 2);
                else N(sum_tap)(sum + first, row, end - first, job->stride_x);
            }
        if (y0 >= job->height) continue;
        for (int64_t x = 0; x < job->ow; x += STRIP) {
            const int64_t count = job->ow - x < STRIP ? job->ow - x : STRIP;
            N(divisors)(job, divisor, y, x, count);
            for (int64_t i = 0; i < count; i++)
                if ((x + i) * job->stride_x - job->pad_x < job->width) sum[x + i] /= divisor[i];
        }
    }
}

static void N(avg_back_plane)(const N(pool) *job, const REAL *from, REAL *to, int64_t plane) {
    REAL share[STRIP], divisor[STRIP];
    (void)plane;
    for (int64_t i = 0; i < job->out_size; i++) to[i] = 0;
    for (int64_t y = 0; y < job->oh; y++) {
        const int64_t y0 = y * job->stride_y - job->pad_y,
                      y1 = y0 + job->window_y < job->height ? y0 + job->window_y : job->height;
        for (int64_t x = 0; x < job->ow; x += STRIP) {
            const int64_t count = job->ow - x < STRIP ? job->ow - x : STRIP;
            N(divisors)(job, divisor, y, x, count);
            for (int64_t i = 0; i < count; i++) share[i] = from[y * job->ow + x + i] / divisor[i];
            for (int64_t at_y = y0 > 0 ? y0 : 0; at_y < y1; at_y++)
                for (int64_t j = job->window_x - 1; j >= 0; j--) { /* from the last: an element then meets its windows in order */
                    int64_t first, end;
                    const int64_t shift = x * job->stride_x - job->pad_x + j;
                    N(span)(shift, job->stride_x, job->width, count, &first, &end);
                    REAL *row = to + at_y * job->width + shift;
                    for (int64_t i = first; i < end; i++) row[i * job->stride_x] += share[i];
                }
        }
    }
}

/* ---- planes ---- */
static void N(pool_tasks)(void *context, int64_t begin, int64_t end) {
    N(pool) *job = context;
    const fa_plan_view *from = &job->plan->view[job->from], *to = &job->plan->view[job->to];
    const int64_t from_bytes = job->in_size * fai_cpu_bytes(from->dtype), to_bytes = job->out_size * fai_cpu_bytes(to->dtype);
    const bool same = from->dtype == OWN_TYPE && to->dtype == OWN_TYPE;
    const size_t room = sizeof(REAL) * (size_t)(job->in_size + job->out_size);
    REAL *in = NULL;
    if (!same && !(in = fai_cpu_scratch_take(room))) {
        atomic_store(&job->no_memory, true);
        return;
    }
    for (int64_t plane = begin; plane < end; plane++) {
        char *read = job->pointers[job->from] + plane * from_bytes, *write = job->pointers[job->to] + plane * to_bytes;
        if (same) job->plane(job, (const REAL *)(const void *)read, (REAL *)(void *)write, plane);
        else {
            FAI_NAME(N(fai_cpu_load))(in, read, from->dtype, job->in_size);
            job->plane(job, in, in + job->in_size, plane);
            FAI_NAME(N(fai_cpu_store))(write, to->dtype, in + job->in_size, job->out_size);
        }
    }
    fai_cpu_scratch_give(in, room);
}

typedef void N(pool_text)(const fa_plan *plan, char *const *pointers, fa_i64 group);

static void N(pool_run)(const fa_plan *plan, char *const *pointers, bool back, int from,
                        void (*plane)(const N(pool) *job, const REAL *from, REAL *to, int64_t plane), N(pool_text) *text) {
    const fa_i64 *n = plan->n;
    N(pool) job = {.plan = plan,
                   .pointers = pointers,
                   .height = n[1],
                   .width = n[2],
                   .oh = n[3],
                   .ow = n[4],
                   .window_y = n[5],
                   .window_x = n[6],
                   .stride_y = n[7],
                   .stride_x = n[8],
                   .pad_y = n[9],
                   .pad_x = n[10],
                   .plane = plane,
                   .from = from};
    job.in_size = back ? job.oh * job.ow : job.height * job.width;
    job.out_size = back ? job.height * job.width : job.oh * job.ow;
    if (sizeof(N(tap_id)) < 8 && job.height * job.width > INT32_MAX) job.no_memory = true; /* a tap would not fit */
    const int64_t work = job.height * job.width + job.oh * job.ow * job.window_y * job.window_x;
    if (!job.no_memory) fai_parallel(n[0], 1 + 32768 / (work + 1), N(pool_tasks), &job);
    if (job.no_memory)
        for (fa_i64 group = 0; group < (n[0] * job.out_size + 255) / 256; group++) text(plan, pointers, group);
}

void FAI_NAME(N(fai_cpu_max_pool2d))(const fa_plan *plan, char *const *pointers) {
    N(pool_run)(plan, pointers, false, 2, N(max_plane), N(max_pool2d));
}
void FAI_NAME(N(fai_cpu_max_pool2d_backward))(const fa_plan *plan, char *const *pointers) {
    N(pool_run)(plan, pointers, true, 1, N(max_back_plane), N(max_pool2d_backward));
}
void FAI_NAME(N(fai_cpu_avg_pool2d))(const fa_plan *plan, char *const *pointers) {
    N(pool_run)(plan, pointers, false, 1, N(avg_plane), N(avg_pool2d));
}
void FAI_NAME(N(fai_cpu_avg_pool2d_backward))(const fa_plan *plan, char *const *pointers) {
    N(pool_run)(plan, pointers, true, 1, N(avg_back_plane), N(avg_pool2d_backward));
}
