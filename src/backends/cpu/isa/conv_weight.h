/* The derivative of convolution towards the weight, for one type. Included after conv_real.h, whose field it uses.
 *
 * With the gradient of the output laid out in rows as wide as the field's, zeros in the gaps, the derivative of one weight is a
 * dot product of two lines in memory: gradient[o] and field + table[k]. A tile of 4 outputs by several taps runs along them, over
 * all images of a block, before lanes are added up. Images are split into parts by shape alone and the parts' sums are added in
 * order, so threads don't show. (A gap is a product with 0: an infinity in the input may give NaN where a loop over outputs only
 * would not.) */

#if FAI_VECTOR_BYTES == 64
#define DOT_TAPS 6
#else
#define DOT_TAPS 3
#endif
#define DOT_OUTPUTS 4

typedef struct N(weight_job) {
    N(conv) conv;                  /* sides and counts as in the forward direction */
    int64_t k, *table, positions;  /* positions: rounded up to whole vectors */
    int64_t block, part, parts;    /* images of a block, blocks of a part */
    REAL *sums;                    /* [parts][all outputs][k] */
} N(weight_job);

typedef struct N(lines) {
    const REAL *gradient, *field;
    int64_t gradient_row, gradient_image, field_image, images, length;
} N(lines);

/* sums[o * k + t] += dot(gradient line o, field line t) for `used` of 4 (or 1) outputs and `count` taps. */
INLINE void N(dot_tile)(const int outputs, const int count, const N(lines) *l, const int64_t *table, REAL *sums, int64_t k,
                        int used) {
    N(vec) sum[DOT_OUTPUTS][DOT_TAPS];
    UNROLL
    for (int o = 0; o < outputs; o++) {
        UNROLL
        for (int t = 0; t < count; t++) sum[o][t] = (N(vec)){0};
    }
    for (int64_t image = 0; image < l->images; image++) {
        const REAL *g[DOT_OUTPUTS], *f[DOT_TAPS];
        UNROLL
        for (int o = 0; o < outputs; o++) g[o] = l->gradient + image * l->gradient_image + (o < used ? o : 0) * l->gradient_row;
        UNROLL
        for (int t = 0; t < count; t++) f[t] = l->field + image * l->field_image + table[t];
        for (int64_t p = 0; p < l->length; p += LANES) {
            N(vec) line[DOT_TAPS];
            UNROLL
            for (int t = 0; t < count; t++) line[t] = N(load)(f[t] + p);
            UNROLL
            for (int o = 0; o < outputs; o++) {
                const N(vec) v = N(load)(g[o] + p);
                UNROLL
                for (int t = 0; t < count; t++) sum[o][t] = N(fma)(v, line[t], sum[o][t]);
            }
        }
    }
    UNROLL
    for (int o = 0; o < outputs; o++) {
        if (o >= used) continue;
        UNROLL
        for (int t = 0; t < count; t++) sums[o * k + t] += N(total)(sum[o][t]);
    }
}

#define DOT_TILE(outputs, count)                                                                                               \
    static __attribute__((noinline)) void N(dot_tile_##outputs##_##count)(const N(lines) *l, const int64_t *table, REAL *sums, \
                                                                          int64_t k, int used) {                               \
        N(dot_tile)(outputs, count, l, table, sums, k, used);                                                                  \
    }
typedef void (*N(dot_function))(const N(lines) *l, const int64_t *table, REAL *sums, int64_t k, int used);
#define DOT_TILES(count) DOT_TILE(1, count) DOT_TILE(4, count)
#define DOT_NAMES(count) {N(dot_tile_1_##count), N(dot_tile_4_##count)}
DOT_TILES(1) DOT_TILES(2) DOT_TILES(3)
#if DOT_TAPS == 6
DOT_TILES(4) DOT_TILES(5) DOT_TILES(6)
#endif
static const N(dot_function) N(dot_tiles)[DOT_TAPS][2] = {
    DOT_NAMES(1), DOT_NAMES(2), DOT_NAMES(3),
#if DOT_TAPS == 6
    DOT_NAMES(4), DOT_NAMES(5), DOT_NAMES(6),
#endif
};

/* The gradient of `outputs` channels of one image in lines as wide as the field's; gaps are 0 already. */
static void N(fill_gradient)(const N(conv) *c, REAL *to, int64_t line, const char *from, int dtype, int64_t outputs) {
    const int64_t oh = c->out_height, ow = c->out_width;
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t y = 0; y < oh; y++) {
            REAL *row = to + o * line + y * c->x.length;
            const int64_t at = (o * oh + y) * ow;
            if (dtype == OWN_TYPE) N(copy_line)(row, (const REAL *)(const void *)from + at, ow);
            else
                for (int64_t x = 0; x < ow; x++) row[x] = LOAD(from, dtype, at + x);
        }
}

static void N(dot_all)(const N(weight_job) *job, const N(lines) *lines, int64_t outputs, REAL *sums) {
    for (int64_t o = 0; o < outputs; o += DOT_OUTPUTS) {
        N(lines) l = *lines;
        l.gradient += o * l.gradient_row;
        const int used = outputs - o < DOT_OUTPUTS ? (int)(outputs - o) : DOT_OUTPUTS;
        for (int64_t k = 0, count; k < job->k; k += count) {
            count = block_of_rows(k, job->k, DOT_TAPS);
            N(dot_tiles)[count - 1][used > 1](&l, job->table + k, sums + o * job->k + k, job->k, used);
        }
    }
}

/* Tasks: part by part, group by group, chunk of output channels by chunk. */
static void N(weight_tasks)(void *context, int64_t begin, int64_t end) {
    N(weight_job) *job = context;
    N(conv) *c = &job->conv;
    const fa_plan_view *view = c->plan->view;
    const int64_t area = c->y.phases * c->x.phases * c->y.length * c->x.length;
    const int64_t in_bytes = c->y.source * c->x.source * (int64_t)fa_dtype_size((fa_dtype)view[2].dtype);
    const int64_t out_bytes = c->out_height * c->out_width * (int64_t)fa_dtype_size((fa_dtype)view[1].dtype);
    const int64_t gradient_image = c->out_chunk * job->positions;
    const size_t room = sizeof(REAL) * (size_t)(job->block * (c->field + gradient_image) + LANES);
    REAL *gradient = fai_cpu_scratch_take(room), *field = gradient + job->block * gradient_image;
    if (!gradient) {
        atomic_store(&c->no_memory, true);
        return;
    }
    memset(gradient, 0, room);
    for (int64_t task = begin; task < end; task++) {
        const int64_t chunk = task % c->chunks, group = task / c->chunks % c->groups, part = task / c->chunks / c->groups;
        const int64_t o0 = chunk * c->out_chunk, outputs = c->outputs - o0 < c->out_chunk ? c->outputs - o0 : c->out_chunk;
        const int64_t first = group * c->outputs + o0;
        REAL *sums = job->sums + (part * c->groups * c->outputs + first) * job->k;
        memset(sums, 0, sizeof(REAL) * (size_t)(outputs * job->k));
        const int64_t end_image = (part + 1) * job->part < c->images ? (part + 1) * job->part : c->images;
        for (int64_t image = part * job->part; image < end_image; image += job->block) {
            const int64_t images = end_image - image < job->block ? end_image - image : job->block;
            for (int64_t i = 0; i < images; i++) {
                for (int64_t s = 0; s < c->sources; s++)
                    N(fill_field)(field + i * c->field + s * area,
                                  c->pointers[2] + (((image + i) * c->groups + group) * c->sources + s) * in_bytes, view[2].dtype,
                                  &c->y, &c->x);
                N(fill_gradient)(c, gradient + i * gradient_image, job->positions,
                                 c->pointers[1] + ((image + i) * c->groups * c->outputs + first) * out_bytes, view[1].dtype,
                                 outputs);
            }
            const N(lines) lines = {gradient, field, job->positions, gradient_image, c->field, images, job->positions};
            N(dot_all)(job, &lines, outputs, sums);
        }
    }
    fai_cpu_scratch_give(gradient, room);
}

/* Adds the parts, in order. */
static void N(add_parts)(void *context, int64_t begin, int64_t end) {
    const N(weight_job) *job = context;
    const int64_t all = job->conv.groups * job->conv.outputs * job->k;
    for (int64_t i = begin; i < end; i++) {
        REAL sum = job->sums[i];
        for (int64_t part = 1; part < job->parts; part++) sum += job->sums[part * all + i];
        STORE(job->conv.pointers[0], job->conv.plan->view[0].dtype, i, sum);
    }
}

/* Images to a block: long enough lines for the adding up of lanes not to count, but in the second cache. Blocks to a part. */
static void N(choose_parts)(N(weight_job) *job) {
    const N(conv) *c = &job->conv;
    const int64_t image_bytes = (int64_t)sizeof(REAL) * (c->field + c->out_chunk * job->positions);
    const int64_t wanted = (32 * LANES + job->positions - 1) / job->positions, fit = 1 + (1 << 20) / image_bytes;
    job->block = wanted < fit ? wanted : fit;
    if (job->block > c->images) job->block = c->images;
    const int64_t blocks = (c->images + job->block - 1) / job->block;
    const int64_t sums_bytes = (int64_t)sizeof(REAL) * c->groups * c->outputs * job->k, room = 1 + (8 << 20) / (sums_bytes + 1);
    int64_t parts = blocks < 16 ? blocks : 16;
    if (parts > room) parts = room;
    job->part = (blocks + parts - 1) / parts * job->block;
    job->parts = (c->images + job->part - 1) / job->part;
}

static bool N(convolve_weight)(const fa_plan *plan, char *const *pointers) {
    const fa_i64 *n = plan->n;
    N(weight_job) job = {.conv = {.plan = plan,
                                  .pointers = pointers,
                                  .images = n[0],
                                  .groups = n[15],
                                  .sources = n[1] / n[15],
                                  .outputs = n[4] / n[15],
                                  .out_height = n[7],
                                  .out_width = n[8]}};
    N(conv) *c = &job.conv;
    if (c->images <= 0 || c->out_height <= 0 || c->out_width <= 0 || c->sources <= 0 || c->outputs <= 0)
        return false; /* sums of nothing */
    const taps ty = N(side_of)(c, false, 0, &c->y), tx = N(side_of)(c, false, 1, &c->x);
    c->field = c->sources * c->y.phases * c->x.phases * c->y.length * c->x.length;
    c->out_chunk = c->images * c->groups < 16 || c->outputs > 64 ? 32 : c->outputs;
    if (c->out_chunk > c->outputs) c->out_chunk = c->outputs;
    c->chunks = (c->outputs + c->out_chunk - 1) / c->out_chunk;
    job.k = c->sources * ty.kernel * tx.kernel;
    job.positions = ((c->out_height - 1) * c->x.length + c->out_width + LANES - 1) / LANES * LANES;
    N(choose_parts)(&job);
    const size_t sums = sizeof(REAL) * (size_t)(job.parts * c->groups * c->outputs * job.k),
                 room = sums + sizeof(int64_t) * (size_t)job.k + 64;
    job.sums = fai_cpu_scratch_take(room);
    if (!job.sums) return false;
    job.table = (int64_t *)(void *)((char *)job.sums + ((sums + 63) & ~(size_t)63));
    for (int64_t k = 0; k < job.k; k++)
        job.table[k] = field_at(&c->y, &c->x, k / (ty.kernel * tx.kernel), k / tx.kernel % ty.kernel * ty.dilation,
                                k % tx.kernel * tx.dilation);
    const double work = (double)job.part * (double)(c->out_chunk * job.k) * (double)job.positions;
    const int64_t grain = work * 4 < 1 << 20 ? (int64_t)((1 << 18) / (work + 1)) + 1 : 1;
    fai_parallel(job.parts * c->groups * c->chunks, grain, N(weight_tasks), &job);
    if (!c->no_memory) fai_parallel(c->groups * c->outputs * job.k, 1 << 14, N(add_parts), &job);
    fai_cpu_scratch_give(job.sums, room);
    return !c->no_memory;
}
