/* Reductions for the compute type REAL. Included once for each type.
 *
 * A unit is what one thread works on: one result, or up to 64 neighbouring ones where the kept dimension is the contiguous one,
 * so that vectors run across results. Where there are few units and much in each, spans of 2^k blocks are worked on in parallel
 * and joined afterwards, which is the same tree. */

#ifndef REDUCE_ONCE
#define REDUCE_ONCE
/* Merges neighbouring dimensions that lie behind each other, and drops those of one element; at least one is left. */
static void reduce_space(const fa_plan_view *v, int from, int to, fai_cpu_space *space, fa_i64 *stride) {
    space->ndim = 0;
    for (int d = from; d < to; d++) {
        if (v->size[d] == 1) continue;
        int last = space->ndim - 1;
        if (last >= 0 && stride[last] == v->stride[d] * v->size[d]) {
            space->size[last] *= v->size[d];
            stride[last] = v->stride[d];
        } else {
            space->size[space->ndim] = v->size[d];
            stride[space->ndim++] = v->stride[d];
        }
    }
    if (space->ndim) return;
    space->ndim = 1;
    space->size[0] = 1;
    stride[0] = 1;
}

static int64_t reduce_offset(const fai_cpu_space *space, const fa_i64 *stride, int64_t i) {
    int64_t offset = 0;
    for (int d = space->ndim - 1; d > 0; d--) {
        offset += i % space->size[d] * stride[d];
        i /= space->size[d];
    }
    return offset + i * stride[0];
}
#endif

typedef struct N(reduce_call) {
    const fa_plan *plan;
    char *const *pointers;
    const struct N(reducer) *row;
    fai_cpu_space kept, reduced;
    fa_i64 kept_stride[FA_PLAN_DIMS], reduced_stride[FA_PLAN_DIMS];
    int dtype, bytes;
    int64_t count, blocks;
    bool by_columns;
    int64_t line, tiles;        /* by columns: results in a line of the kept space's last dimension, units a line */
    int64_t span, spans;        /* blocks worked on in one go, and how many such goes a unit has */
    REAL *results;              /* of spans */
} N(reduce_call);

/* Elements begin .. begin+n-1 (at most a block) of one result, as contiguous REALs. */
static const REAL *N(reduce_elements)(const N(reduce_call) *c, const char *base, int64_t begin, int64_t n, REAL *tile) {
    char raw[BLOCK * 8];
    const bool line = c->reduced.ndim == 1 && c->reduced_stride[0] == 1;
    const char *p = base + begin * c->bytes;
    if (line && c->dtype == OWN_DTYPE) return (const REAL *)(const void *)p;
    if (!line) {
        void *target = c->dtype == OWN_DTYPE ? (void *)tile : (void *)raw;
        FAI_NAME(fai_cpu_gather)(target, base, c->bytes, &c->reduced, c->reduced_stride, begin, n);
        p = raw;
    }
    if (c->dtype != OWN_DTYPE) FAI_NAME(N(fai_cpu_load))(tile, p, c->dtype, n);
    return tile;
}

/* Where the results of a unit begin, how many there are, and the input's first element for them. */
static int64_t N(reduce_unit)(const N(reduce_call) *c, int64_t unit, int64_t *width, const char **base) {
    int64_t first = unit;
    *width = 1;
    if (c->by_columns) {
        const int64_t at = unit % c->tiles * COLUMNS;
        first = unit / c->tiles * c->line + at;
        *width = c->line - at < COLUMNS ? c->line - at : COLUMNS;
    }
    *base = c->pointers[1] + reduce_offset(&c->kept, c->kept_stride, first) * c->bytes;
    return first;
}

/* Element i of w results side by side. */
static const REAL *N(reduce_row)(const N(reduce_call) *c, const char *base, int64_t i, int64_t w, REAL *tile) {
    char raw[COLUMNS * 8];
    const int last = c->kept.ndim - 1;
    const char *p = base + reduce_offset(&c->reduced, c->reduced_stride, i) * c->bytes;
    if (c->kept_stride[last] == 1 && c->dtype == OWN_DTYPE) return (const REAL *)(const void *)p;
    if (c->kept_stride[last] != 1) {
        const fai_cpu_space line = {.ndim = 1, .size = {w}};
        void *target = c->dtype == OWN_DTYPE ? (void *)tile : (void *)raw;
        FAI_NAME(fai_cpu_gather)(target, p, c->bytes, &line, &c->kept_stride[last], 0, w);
        p = raw;
    }
    if (c->dtype != OWN_DTYPE) FAI_NAME(N(fai_cpu_load))(tile, p, c->dtype, w);
    return tile;
}

/* One block of up to 64 results side by side. */
static void N(reduce_columns)(const N(reduce_call) *c, const char *base, int64_t begin, int64_t n, int64_t w, REAL *out) {
    REAL part[LANES][COLUMNS], tile[COLUMNS];
    const REAL start = c->row->start();
    const int lanes = n < LANES ? (int)n : LANES; /* joining with a start changes nothing */
    for (int lane = 0; lane < lanes; lane++)
        for (int64_t j = 0; j < w; j++) part[lane][j] = start;
    if (c->dtype == OWN_DTYPE && c->reduced.ndim == 1 && c->kept_stride[c->kept.ndim - 1] == 1) {
        c->row->columns((const REAL *)(const void *)base + begin * c->reduced_stride[0], c->reduced_stride[0], n, w, part);
    } else {
        for (int64_t i = 0; i < n; i++) {
            const REAL *row = N(reduce_row)(c, base, begin + i, w, tile);
            c->row->columns(row, 0, 1, w, part + i % LANES);
        }
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half && lane + half < lanes; lane++) c->row->join(part[lane], part[lane + half], w);
    for (int64_t j = 0; j < w; j++) out[j] = part[0][j];
}

/* A counter of joined results, w side by side: place i holds those of 2^i leaves. */
static void N(reduce_push)(const N(reduce_call) *c, REAL (*stack)[COLUMNS], int64_t leaf, const REAL *value, int64_t w) {
    REAL sum[COLUMNS];
    int place = 0;
    for (int64_t j = 0; j < w; j++) sum[j] = value[j];
    for (; leaf & 1; leaf >>= 1, place++) {
        c->row->join(stack[place], sum, w);
        for (int64_t j = 0; j < w; j++) sum[j] = stack[place][j];
    }
    for (int64_t j = 0; j < w; j++) stack[place][j] = sum[j];
}

static void N(reduce_total)(const N(reduce_call) *c, REAL (*stack)[COLUMNS], int64_t leaves, REAL *out, int64_t w) {
    bool some = false;
    for (int64_t j = 0; j < w; j++) out[j] = c->row->start();
    for (int place = 0; leaves >> place; place++) {
        if (!(leaves >> place & 1)) continue;
        if (some) c->row->join(stack[place], out, w);
        for (int64_t j = 0; j < w; j++) out[j] = stack[place][j];
        some = true;
    }
}

/* Blocks first .. last-1 of a unit. */
static void N(reduce_span)(const N(reduce_call) *c, const char *base, int64_t w, int64_t first, int64_t last, REAL *out) {
    REAL stack[STACK][COLUMNS], value[COLUMNS], tile[BLOCK];
    for (int64_t b = first; b < last; b++) {
        const int64_t begin = b * BLOCK, n = c->count - begin < BLOCK ? c->count - begin : BLOCK;
        if (c->by_columns) N(reduce_columns)(c, base, begin, n, w, value);
        else value[0] = c->row->block(N(reduce_elements)(c, base, begin, n, tile), n);
        if (last - first > 1) N(reduce_push)(c, stack, b - first, value, w);
    }
    if (last - first != 1) N(reduce_total)(c, stack, last - first, value, w);
    for (int64_t j = 0; j < w; j++) out[j] = value[j];
}

static void N(reduce_store)(const N(reduce_call) *c, int64_t first, REAL *value, int64_t w) {
    const int dtype = c->plan->view[0].dtype;
    for (int64_t j = 0; j < w; j++) value[j] = c->row->finish(value[j], (REAL)c->count);
    FAI_NAME(N(fai_cpu_store))(c->pointers[0] + first * fai_cpu_bytes(dtype), dtype, value, w);
}

static void N(reduce_units)(void *context, int64_t begin, int64_t end) {
    const N(reduce_call) *c = context;
    for (int64_t unit = begin; unit < end; unit++) {
        REAL value[COLUMNS];
        const char *base;
        int64_t w, first = N(reduce_unit)(c, unit, &w, &base);
        N(reduce_span)(c, base, w, 0, c->blocks, value);
        N(reduce_store)(c, first, value, w);
    }
}

static void N(reduce_spans)(void *context, int64_t begin, int64_t end) {
    const N(reduce_call) *c = context;
    for (int64_t at = begin; at < end; at++) {
        const char *base;
        int64_t w, first = at % c->spans * c->span;
        N(reduce_unit)(c, at / c->spans, &w, &base);
        const int64_t last = first + c->span < c->blocks ? first + c->span : c->blocks;
        N(reduce_span)(c, base, w, first, last, c->results + at * (c->by_columns ? COLUMNS : 1));
    }
}

static void N(reduce_in_spans)(N(reduce_call) *c, int64_t units) {
    REAL results[RESULTS], stack[STACK][COLUMNS], value[COLUMNS];
    const int64_t step = c->by_columns ? COLUMNS : 1;
    c->results = results;
    fai_parallel(units * c->spans, 1, N(reduce_spans), c);
    for (int64_t unit = 0; unit < units; unit++) {
        const char *base;
        int64_t w, first = N(reduce_unit)(c, unit, &w, &base);
        for (int64_t s = 0; s < c->spans; s++) N(reduce_push)(c, stack, s, results + (unit * c->spans + s) * step, w);
        N(reduce_total)(c, stack, c->spans, value, w);
        N(reduce_store)(c, first, value, w);
    }
}

static void N(reduce_begin)(N(reduce_call) *c, const fa_plan *plan, char *const *pointers) {
    const fa_plan_view *v = &plan->view[1];
    *c = (N(reduce_call)){
        .plan = plan, .pointers = pointers, .dtype = v->dtype, .bytes = fai_cpu_bytes(v->dtype), .count = plan->n[1]};
    c->blocks = (c->count + BLOCK - 1) / BLOCK;
    reduce_space(v, 0, (int)plan->n[0], &c->kept, c->kept_stride);
    reduce_space(v, (int)plan->n[0], plan->ndim, &c->reduced, c->reduced_stride);
    c->line = c->kept.size[c->kept.ndim - 1];
    c->tiles = (c->line + COLUMNS - 1) / COLUMNS;
    const bool few = c->count <= COLUMNS && c->line >= COLUMNS / 2; /* then it pays to collect them side by side */
    c->by_columns = few || (c->line >= 8 && c->kept_stride[c->kept.ndim - 1] == 1 && c->reduced_stride[c->reduced.ndim - 1] != 1);
}

void FAI_NAME(N(fai_cpu_reduce))(const fa_plan *plan, char *const *pointers) {
    N(reduce_call) c;
    N(reduce_begin)(&c, plan, pointers);
    c.row = &N(reducers)[plan->row];
    const int64_t units = c.by_columns ? plan->numel / c.line * c.tiles : plan->numel, width = c.by_columns ? COLUMNS : 1;
    /* spans of at least 16 blocks (4 by columns), fewer where the results would not fit */
    c.span = c.by_columns ? 4 : 16;
    while ((c.blocks + c.span - 1) / c.span * units * width > RESULTS && c.span < c.blocks) c.span *= 2;
    c.spans = (c.blocks + c.span - 1) / c.span;
    if (units < 16 && c.spans > 1) {
        N(reduce_in_spans)(&c, units);
    } else {
        const int64_t work = c.count * width;
        fai_parallel(units, 32768 / (work + 1) + 1, N(reduce_units), &c);
    }
}

/* ---- the place of the largest ---- */

static void N(index_store)(const N(reduce_call) *c, int64_t at, fa_i64 place, const REAL *value) {
    const fa_plan_view *v = &c->plan->view[2];
    ((fa_i64 *)(void *)c->pointers[0])[at] = place;
    if (v->kind == FA_VIEW_TENSOR) FAI_NAME(N(fai_cpu_store))(c->pointers[2] + at * fai_cpu_bytes(v->dtype), v->dtype, value, 1);
}

static void N(index_one)(const N(reduce_call) *c, int64_t result) {
    REAL tile[BLOCK], best = 0;
    const char *base;
    const bool least = c->plan->n[3] != 0;
    int64_t w, place = -1;
    N(reduce_unit)(c, result, &w, &base);
    for (int64_t begin = 0; begin < c->count && !N(fa_isnan)(best); begin += BLOCK) { /* nothing comes before a NaN */
        const int64_t n = c->count - begin < BLOCK ? c->count - begin : BLOCK;
        const REAL *p = N(reduce_elements)(c, base, begin, n, tile);
        const REAL most = N(reducers)[least ? FAI_REDUCE_amin : FAI_REDUCE_amax].block(p, n);
        if (place >= 0 && !N(fa_isnan)(most) && !(least ? most < best : most > best)) continue;
        int64_t i = 0;
        while (p[i] != most && !(N(fa_isnan)(p[i]) && N(fa_isnan)(most))) i++;
        best = p[i];
        place = begin + i;
    }
    N(index_store)(c, result, place, &best);
}

/* Vectors across results: a value and its place of the same width. */
static void N(index_columns)(const N(reduce_call) *c, int64_t unit) {
    REAL best[COLUMNS], tile[COLUMNS];
    PLACE place[COLUMNS];
    const char *base;
    const bool least = c->plan->n[3] != 0;
    int64_t w, first = N(reduce_unit)(c, unit, &w, &base);
    for (int64_t i = 0; i < c->count; i++) {
        const REAL *row = N(reduce_row)(c, base, i, w, tile);
        for (int64_t j = 0; j < w && i == 0; j++) best[j] = row[j], place[j] = 0;
        for (int64_t j = 0; j < w; j++) {
            const int more = least ? row[j] < best[j] : row[j] > best[j], nan = N(fa_isnan)(row[j]) && !N(fa_isnan)(best[j]);
            best[j] = more || nan ? row[j] : best[j];
            place[j] = more || nan ? (PLACE)i : place[j];
        }
    }
    for (int64_t j = 0; j < w; j++) N(index_store)(c, first + j, place[j], &best[j]);
}

static void N(index_units)(void *context, int64_t begin, int64_t end) {
    const N(reduce_call) *c = context;
    for (int64_t unit = begin; unit < end; unit++) {
        if (c->by_columns) N(index_columns)(c, unit);
        else N(index_one)(c, unit);
    }
}

void FAI_NAME(N(fai_cpu_reduce_index))(const fa_plan *plan, char *const *pointers) {
    N(reduce_call) c;
    N(reduce_begin)(&c, plan, pointers);
    c.by_columns = c.by_columns && c.count > 0 && c.count < INT32_MAX;
    const int64_t units = c.by_columns ? plan->numel / c.line * c.tiles : plan->numel, width = c.by_columns ? COLUMNS : 1;
    fai_parallel(units, 32768 / (c.count * width + 1) + 1, N(index_units), &c);
}

#undef REAL
#undef FA_SUFFIX
#undef OWN_DTYPE
#undef PLACE
