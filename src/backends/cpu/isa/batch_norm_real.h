/* Batch normalisation for one compute type; see norm.c. A channel of [batch, channels, space] is runs of `space` elements; where
 * space is 1, channels lie side by side and are done ACROSS at a time. */

typedef struct N(channels) {
    int64_t channels, batch, space, count;
} N(channels);

INLINE N(channels) N(channels_of)(const fa_plan *plan) {
    return (N(channels)){plan->n[0], plan->n[1], plan->n[2], plan->n[1] * plan->n[2]};
}

/* Elements k .. k+n-1 of channel c of operand `view`: where they lie if they are one run, else copied together. */
static const REAL *N(channel_in)(const N(norm_job) *job, const N(channels) *s, int view, int64_t c, int64_t k, int64_t n,
                                 REAL *buffer) {
    const int dtype = job->plan->view[view].dtype;
    if (k / s->space == (k + n - 1) / s->space)
        return N(fetch)(job->pointers[view], dtype, (k / s->space * s->channels + c) * s->space + k % s->space, n, buffer);
    for (int64_t done = 0; done < n;) {
        const int64_t at = k + done, run = least(s->space - at % s->space, n - done);
        N(unpack)(buffer + done, job->pointers[view], dtype, (at / s->space * s->channels + c) * s->space + at % s->space, run);
        done += run;
    }
    return buffer;
}

/* ---- statistics ---- */
static void N(batch_norm_keep)(const N(norm_job) *job, const N(channels) *s, int64_t c, REAL mean, REAL squares) {
    const REAL momentum = (REAL)job->plan->f[1], count = (REAL)s->count;
    N(norm_store)(job, 0, c, mean);
    N(norm_store)(job, 1, c, N(norm_inverse)(squares / count, (REAL)job->plan->f[0]));
    N(norm_store)(job, 2, c, (1 - momentum) * N(norm_at)(job, 2, c, 0) + momentum * mean);
    N(norm_store)(job, 3, c, (1 - momentum) * N(norm_at)(job, 3, c, 0) + momentum * (squares / (REAL)(s->count - 1)));
}

static void N(batch_norm_stats_channel)(const N(norm_job) *job, const N(channels) *s, int64_t c) {
    REAL in[BLOCK], out[BLOCK];
    N(tree) sum, squares;
    sum.blocks = squares.blocks = 0;
    for (int64_t k = 0; k < s->count; k += BLOCK) {
        const int64_t n = least(BLOCK, s->count - k);
        N(push)(&sum, N(block_sum)(N(channel_in)(job, s, 4, c, k, n, in), n));
    }
    const REAL mean = N(tree_total)(&sum) / (REAL)s->count;
    for (int64_t k = 0; k < s->count; k += BLOCK) {
        const int64_t n = least(BLOCK, s->count - k);
        const REAL *x = N(channel_in)(job, s, 4, c, k, n, in);
        for (int64_t j = 0; j < n; j++) out[j] = (x[j] - mean) * (x[j] - mean);
        N(push)(&squares, N(block_sum)(out, n));
    }
    N(batch_norm_keep)(job, s, c, mean, N(tree_total)(&squares));
}

static void N(batch_norm_stats_wide)(const N(norm_job) *job, const N(channels) *s, int64_t c, int width) {
    REAL in[ACROSS], out[ACROSS], mean[ACROSS], squares[ACROSS];
    N(columns) sums;
    N(columns_begin)(&sums);
    for (int64_t k = 0; k < s->batch; k++) N(columns_add)(&sums, N(norm_in)(job, 4, k * s->channels + c, width, in), width);
    N(columns_total)(&sums, mean);
    for (int w = 0; w < ACROSS; w++) mean[w] /= (REAL)s->count;
    N(columns_begin)(&sums);
    for (int64_t k = 0; k < s->batch; k++) {
        const REAL *x = N(norm_in)(job, 4, k * s->channels + c, width, in);
        for (int w = 0; w < width; w++) out[w] = (x[w] - mean[w]) * (x[w] - mean[w]);
        N(columns_add)(&sums, out, width);
    }
    N(columns_total)(&sums, squares);
    for (int w = 0; w < width; w++) N(batch_norm_keep)(job, s, c + w, mean[w], squares[w]);
}

static void N(batch_norm_stats_part)(void *context, int64_t begin, int64_t end) {
    const N(norm_job) *job = context;
    const N(channels) s = N(channels_of)(job->plan);
    for (int64_t i = begin; i < end; i++)
        if (s.space > 1)
            N(batch_norm_stats_channel)(job, &s, i);
        else
            N(batch_norm_stats_wide)(job, &s, i * ACROSS, (int)least(ACROSS, s.channels - i * ACROSS));
}

static void N(channels_spread)(N(norm_job) *job, void (*part)(void *, int64_t, int64_t)) {
    const N(channels) s = N(channels_of)(job->plan);
    if (s.space > 1)
        fai_parallel(s.channels, rows_per_piece(s.count), part, job);
    else if (s.space == 1)
        fai_parallel((s.channels + ACROSS - 1) / ACROSS, rows_per_piece(s.count * ACROSS), part, job);
}

void FAI_NAME(N(fai_cpu_batch_norm_stats))(const fa_plan *plan, char *const *pointers) {
    N(norm_job) job = {plan, pointers};
    N(channels_spread)(&job, N(batch_norm_stats_part));
}

/* ---- y = (x - mean) * (rstd * weight) + bias ---- */
INLINE REAL N(batch_norm_rstd)(const N(norm_job) *job, int k, int64_t c) {
    const REAL v = N(norm_at)(job, k, c, 1);
    return job->plan->n[4] & 1 ? N(norm_inverse)(v, (REAL)job->plan->f[0]) : v;
}

/* One channel of one item of the batch. */
static void N(batch_norm_run)(const N(norm_job) *job, int64_t at, int64_t c, int64_t space) {
    REAL in[BLOCK], out[BLOCK];
    const REAL mean = N(norm_at)(job, 2, c, 0), factor = N(batch_norm_rstd)(job, 3, c) * N(norm_at)(job, 4, c, 1);
    const REAL bias = N(norm_at)(job, 5, c, 0);
    for (int64_t i = 0; i < space; i += BLOCK) {
        const int64_t n = least(BLOCK, space - i);
        const REAL *x = N(norm_in)(job, 1, at + i, n, in);
        REAL *y = N(norm_room)(job, 0, at + i, out);
        for (int64_t j = 0; j < n; j++) y[j] = (x[j] - mean) * factor + bias;
        N(norm_settle)(job, 0, at + i, y, n);
    }
}

static void N(batch_norm_wide)(const N(norm_job) *job, const N(channels) *s, int64_t c, int width) {
    REAL in[ACROSS], out[ACROSS], mean[ACROSS], factor[ACROSS], bias[ACROSS];
    for (int w = 0; w < width; w++) {
        mean[w] = N(norm_at)(job, 2, c + w, 0);
        factor[w] = N(batch_norm_rstd)(job, 3, c + w) * N(norm_at)(job, 4, c + w, 1);
        bias[w] = N(norm_at)(job, 5, c + w, 0);
    }
    for (int64_t k = 0; k < s->batch; k++) {
        const int64_t at = k * s->channels + c;
        const REAL *x = N(norm_in)(job, 1, at, width, in);
        REAL *y = N(norm_room)(job, 0, at, out);
        for (int w = 0; w < width; w++) y[w] = (x[w] - mean[w]) * factor[w] + bias[w];
        N(norm_settle)(job, 0, at, y, width);
    }
}

static void N(batch_norm_part)(void *context, int64_t begin, int64_t end) {
    const N(norm_job) *job = context;
    const N(channels) s = N(channels_of)(job->plan);
    for (int64_t i = begin; i < end; i++)
        if (s.space > 1)
            N(batch_norm_run)(job, i * s.space, i % s.channels, s.space);
        else
            N(batch_norm_wide)(job, &s, i * ACROSS, (int)least(ACROSS, s.channels - i * ACROSS));
}

void FAI_NAME(N(fai_cpu_batch_norm))(const fa_plan *plan, char *const *pointers) {
    N(norm_job) job = {plan, pointers};
    const N(channels) s = N(channels_of)(plan);
    if (s.space > 1)
        fai_parallel(s.batch * s.channels, rows_per_piece(s.space), N(batch_norm_part), &job);
    else
        N(channels_spread)(&job, N(batch_norm_part));
}

/* ---- derivatives ---- */
typedef struct N(slopes) {
    REAL mean, mean_g, slope, factor;
    bool training;
} N(slopes);

/* From a channel's two sums: what is stored, and what the gradient of x needs. */
static N(slopes) N(batch_norm_slopes)(const N(norm_job) *job, const N(channels) *s, int64_t c, REAL sum_g, REAL sum_gx) {
    const REAL rstd = N(batch_norm_rstd)(job, 6, c), count = (REAL)s->count;
    N(norm_store)(job, 1, c, sum_gx * rstd);
    N(norm_store)(job, 2, c, sum_g);
    return (N(slopes)){N(norm_at)(job, 5, c, 0), sum_g / count, sum_gx / count * (rstd * rstd), rstd * N(norm_at)(job, 7, c, 1),
                       (job->plan->n[4] & 2) != 0};
}

static void N(batch_norm_backward_run)(const N(norm_job) *job, int64_t at, int64_t space, const N(slopes) *p) {
    REAL first[BLOCK], second[BLOCK], out[BLOCK];
    const REAL mean = p->mean, mean_g = p->mean_g, slope = p->slope, factor = p->factor;
    for (int64_t i = 0; i < space; i += BLOCK) {
        const int64_t n = least(BLOCK, space - i);
        const REAL *g = N(norm_in)(job, 3, at + i, n, first), *x = N(norm_in)(job, 4, at + i, n, second);
        REAL *to = N(norm_room)(job, 0, at + i, out);
        if (p->training)
            for (int64_t j = 0; j < n; j++) to[j] = (g[j] - mean_g - (x[j] - mean) * slope) * factor;
        else
            for (int64_t j = 0; j < n; j++) to[j] = g[j] * factor;
        N(norm_settle)(job, 0, at + i, to, n);
    }
}

static void N(batch_norm_backward_channel)(const N(norm_job) *job, const N(channels) *s, int64_t c) {
    REAL first[BLOCK], second[BLOCK], product[BLOCK];
    const REAL mean = N(norm_at)(job, 5, c, 0);
    N(tree) sum_g, sum_gx;
    sum_g.blocks = sum_gx.blocks = 0;
    for (int64_t k = 0; k < s->count; k += BLOCK) {
        const int64_t n = least(BLOCK, s->count - k);
        const REAL *g = N(channel_in)(job, s, 3, c, k, n, first), *x = N(channel_in)(job, s, 4, c, k, n, second);
        for (int64_t j = 0; j < n; j++) product[j] = g[j] * (x[j] - mean);
        N(push)(&sum_g, N(block_sum)(g, n));
        N(push)(&sum_gx, N(block_sum)(product, n));
    }
    const N(slopes) p = N(batch_norm_slopes)(job, s, c, N(tree_total)(&sum_g), N(tree_total)(&sum_gx));
    if (N(norm_has)(job, 0))
        for (int64_t k = 0; k < s->batch; k++) N(batch_norm_backward_run)(job, (k * s->channels + c) * s->space, s->space, &p);
}

static void N(batch_norm_backward_sums)(const N(norm_job) *job, const N(channels) *s, int64_t c, int width, N(slopes) *p) {
    REAL first[ACROSS], second[ACROSS], product[ACROSS], mean[ACROSS], total_g[ACROSS], total_gx[ACROSS];
    N(columns) sum_g, sum_gx;
    N(columns_begin)(&sum_g);
    N(columns_begin)(&sum_gx);
    for (int w = 0; w < width; w++) mean[w] = N(norm_at)(job, 5, c + w, 0);
    for (int64_t k = 0; k < s->batch; k++) {
        const int64_t at = k * s->channels + c;
        const REAL *g = N(norm_in)(job, 3, at, width, first), *x = N(norm_in)(job, 4, at, width, second);
        for (int w = 0; w < width; w++) product[w] = g[w] * (x[w] - mean[w]);
        N(columns_add)(&sum_g, g, width);
        N(columns_add)(&sum_gx, product, width);
    }
    N(columns_total)(&sum_g, total_g);
    N(columns_total)(&sum_gx, total_gx);
    for (int w = 0; w < width; w++) p[w] = N(batch_norm_slopes)(job, s, c + w, total_g[w], total_gx[w]);
}

static void N(batch_norm_backward_wide)(const N(norm_job) *job, const N(channels) *s, int64_t c, int width) {
    REAL first[ACROSS], second[ACROSS], out[ACROSS], mean[ACROSS], mean_g[ACROSS], slope[ACROSS], factor[ACROSS];
    N(slopes) p[ACROSS];
    N(batch_norm_backward_sums)(job, s, c, width, p);
    if (!N(norm_has)(job, 0)) return;
    for (int w = 0; w < width; w++) {
        mean[w] = p[w].mean;
        mean_g[w] = p[w].mean_g;
        slope[w] = p[w].slope;
        factor[w] = p[w].factor;
    }
    for (int64_t k = 0; k < s->batch; k++) {
        const int64_t at = k * s->channels + c;
        const REAL *g = N(norm_in)(job, 3, at, width, first), *x = N(norm_in)(job, 4, at, width, second);
        REAL *to = N(norm_room)(job, 0, at, out);
        if (p[0].training)
            for (int w = 0; w < width; w++) to[w] = (g[w] - mean_g[w] - (x[w] - mean[w]) * slope[w]) * factor[w];
        else
            for (int w = 0; w < width; w++) to[w] = g[w] * factor[w];
        N(norm_settle)(job, 0, at, to, width);
    }
}

static void N(batch_norm_backward_part)(void *context, int64_t begin, int64_t end) {
    const N(norm_job) *job = context;
    const N(channels) s = N(channels_of)(job->plan);
    for (int64_t i = begin; i < end; i++)
        if (s.space > 1)
            N(batch_norm_backward_channel)(job, &s, i);
        else
            N(batch_norm_backward_wide)(job, &s, i * ACROSS, (int)least(ACROSS, s.channels - i * ACROSS));
}

void FAI_NAME(N(fai_cpu_batch_norm_backward))(const fa_plan *plan, char *const *pointers) {
    N(norm_job) job = {plan, pointers};
    N(channels_spread)(&job, N(batch_norm_backward_part));
}
