/* Convolution and its derivative towards the input for one type, without im2col. conv.c includes it for f32 and f64.
 *
 * The source (the input, or the gradient of the output) is copied once into a field with zeros around it, its rows and columns
 * sorted by their remainder modulo the stride. In that field every tap of the weight is a constant distance: with output
 * positions numbered through whole rows of the field, p = row * field width + column, the product of a tile of outputs is a
 * matrix product whose row k of B begins at field + table[k] + p. A few of the positions are no outputs (row ends); they are
 * computed and dropped.
 *
 * The derivative towards the input with stride s falls into s x s lattices of inputs, each of which is such a convolution of the
 * gradient by some of the taps. Without padding and stride the source itself is the field. */

/* Where a vector of positions goes: `count` outputs from `to` on, those of the lanes that pick moves to the front. */
typedef struct N(place) { N(picker) pick; N(mask) store; int64_t to; } N(place);

typedef struct N(conv) {
    const fa_plan *plan;
    char *const *pointers;
    int64_t images, groups, sources, outputs;  /* channels of one group on each side */
    side y, x;
    int64_t out_height, out_width;
    int64_t out_chunk, chunks;                 /* output channels of a task, tasks of one group and image */
    int64_t field;                             /* elements of a field, without the slack behind it */
    bool in_place, gapless;                    /* the source is the field; lattices are whole rows of the own type */
    int nlattices;
    lattice *lattices;
    const REAL *bias;                          /* all output channels; or NULL */
    atomic_bool no_memory;                     /* a task had no field: the plain text must do it all */
} N(conv);

/* ---- the field ---- */
INLINE void N(copy_line)(REAL *to, const REAL *from, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) N(put)(to + i, N(load)(from + i));
    if (i < n) {
        const N(mask) mask = N(first)((int)(n - i));
        N(put_some)(to + i, mask, N(load_some)(from + i, mask));
    }
}

/* One plane of the source into its place in the field; what lies around it is 0 and stays so. */
static void N(fill_field)(REAL *to, const char *plane, int dtype, const side *y, const side *x) {
    for (int64_t py = 0; py < y->phases; py++)
        for (int64_t px = 0; px < x->phases; px++, to += y->length * x->length) {
            int64_t row, rows, col, cols;
            side_inside(y, py, &row, &rows);
            side_inside(x, px, &col, &cols);
            if (cols <= col) continue;
            for (; row < rows; row++) {
                const int64_t from = (row * y->phases + py - y->before) * x->source + col * x->phases + px - x->before;
                REAL *line = to + row * x->length + col;
                if (dtype != OWN_TYPE)
                    for (int64_t i = 0; i < cols - col; i++) line[i] = LOAD(plane, dtype, from + i * x->phases);
                else if (x->phases == 1) N(copy_line)(line, (const REAL *)(const void *)plane + from, cols - col);
                else
                    for (int64_t i = 0; i < cols - col; i++) line[i] = ((const REAL *)(const void *)plane)[from + i * x->phases];
            }
        }
}

/* ---- tiles ---- */
typedef struct N(store) { REAL *c; int64_t c_row; const REAL *bias; const N(place) *place; } N(store);

INLINE void N(store_tile)(N(vec) (*restrict sum)[TILE_VECTORS_MAX], const int rows, const int vectors, const N(store) *s) {
    REAL *c = s->c;
    const REAL *bias = s->bias;
    const N(place) *place = s->place;
    const int64_t c_row = s->c_row;
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++) {
            N(vec) v = sum[i][j];
            if (bias) v += N(all)(bias[i]);
            N(put_some)(c + i * c_row + place[j].to, place[j].store, N(squeeze)(v, place[j].pick));
        }
    }
}

typedef void (*N(conv_tile_function))(const N(source) *s, const N(store) *t, N(mask) mask);
#define CONV_TILE(rows, vectors)                                                                                                \
    static void N(conv_tile_##rows##_##vectors)(const N(source) *s, const N(store) *t, N(mask) mask) {                          \
        N(vec) sum[rows][TILE_VECTORS_MAX];                                                                                     \
        N(accumulate)(sum, rows, vectors, true, true, s, mask);                                                                 \
        N(store_tile)(sum, rows, vectors, t);                                                                                   \
    }
#define CONV_TILES(rows) CONV_TILE(rows, 1) CONV_TILE(rows, 2)
#define CONV_NAMES(rows) {N(conv_tile_##rows##_1), N(conv_tile_##rows##_2)}
CONV_TILES(1) CONV_TILES(2) CONV_TILES(3) CONV_TILES(4)
#if TILE_ROWS >= 6
CONV_TILES(5) CONV_TILES(6)
#endif
#if TILE_ROWS >= 8
CONV_TILES(7) CONV_TILES(8)
#endif
static const N(conv_tile_function) N(conv_tiles)[TILE_ROWS][2] = {
    CONV_NAMES(1), CONV_NAMES(2), CONV_NAMES(3), CONV_NAMES(4),
#if TILE_ROWS >= 6
    CONV_NAMES(5), CONV_NAMES(6),
#endif
#if TILE_ROWS >= 8
    CONV_NAMES(7), CONV_NAMES(8),
#endif
};

/* ---- one group of one image ---- */

/* `rows` lines of outputs, made side by side, to where a spread lattice or another storage type wants them. */
static void N(store_spread)(const N(conv) *job, const lattice *l, const REAL *from, int64_t from_row, int64_t p0, int cols,
                            int64_t rows, int64_t plane) {
    const int dtype = job->plan->view[0].dtype;
    for (int j = 0; j < cols; j++) {
        const int64_t i = (p0 + j) / job->x.length, x = (p0 + j) % job->x.length;
        if (x >= l->cols) continue;
        const int64_t at = (l->row + i * l->step_y) * job->out_width + l->col + x * l->step_x;
        for (int64_t r = 0; r < rows; r++)
            STORE(job->pointers[0], dtype, (plane + r) * job->out_height * job->out_width + at, from[r * from_row + j]);
    }
}

static void N(conv_lattice)(const N(conv) *job, const lattice *l, const REAL *field, int64_t first_plane, int64_t first_bias,
                            int64_t o0, int64_t o1) {
    const int64_t plane_size = job->out_height * job->out_width;
    const REAL *weights = (const REAL *)(const void *)l->weights;
    const N(place) *places = (const N(place) *)(const void *)l->places;
    REAL spread[TILE_ROWS * TILE_COLS];
    N(place) whole[2];
    for (int j = 0; j < 2; j++) whole[j] = (N(place)){N(pick)((unsigned)((1ull << LANES) - 1)), N(first)(LANES), j * LANES};
    for (int64_t p = 0; p < l->positions; p += TILE_COLS) {
        const int cols = l->positions - p < TILE_COLS ? (int)(l->positions - p) : TILE_COLS;
        const int vectors = cols > LANES ? 2 : 1;
        const N(mask) mask = N(first)(cols - (vectors - 1) * LANES);
        N(source) s = {.k = l->k, .a_row = 1, .b = field + p, .table = l->table};
        for (int64_t o = o0, rows; o < o1; o += rows) {
            rows = block_of_rows(o - o0, o1 - o0, TILE_ROWS);
            s.a = weights + o * l->k;
            s.a_col = rows;
            N(store) t = {.bias = job->bias ? job->bias + first_bias + o : NULL};
            if (job->gapless) {
                t.c = (REAL *)(void *)job->pointers[0] + (first_plane + o) * plane_size;
                t.c_row = plane_size;
                t.place = places + p / LANES;
                N(conv_tiles)[rows - 1][vectors - 1](&s, &t, mask);
            } else {
                t.c = spread;
                t.c_row = TILE_COLS;
                t.place = whole;
                N(conv_tiles)[rows - 1][vectors - 1](&s, &t, mask);
                N(store_spread)(job, l, spread, TILE_COLS, p, cols, rows, first_plane + o);
            }
        }
    }
}

/* Tasks: image by image, group by group, chunk of output channels by chunk. Neighbours share a field. */
static void N(conv_tasks)(void *context, int64_t begin, int64_t end) {
    N(conv) *job = context;
    const fa_plan_view *source = &job->plan->view[1];
    const int64_t plane = job->y.source * job->x.source, area = job->y.phases * job->x.phases * job->y.length * job->x.length;
    const int64_t size = (int64_t)fa_dtype_size((fa_dtype)source->dtype);
    const size_t room = sizeof(REAL) * (size_t)(job->field + TILE_COLS);
    REAL *field = NULL;
    int64_t filled = -1;
    if (!job->in_place) {
        field = fai_cpu_scratch_take(room);
        if (!field) {
            atomic_store(&job->no_memory, true);
            return;
        }
        memset(field, 0, room);
    }
    for (int64_t task = begin; task < end; task++) {
        const int64_t chunk = task % job->chunks, group = task / job->chunks % job->groups,
                      image = task / job->chunks / job->groups;
        const char *from = job->pointers[1] + (image * job->groups + group) * job->sources * plane * size;
        const REAL *use = (const REAL *)(const void *)from;
        if (!job->in_place) {
            if (filled != task / job->chunks)
                for (int64_t c = 0; c < job->sources; c++)
                    N(fill_field)(field + c * area, from + c * plane * size, source->dtype, &job->y, &job->x);
            filled = task / job->chunks;
            use = field;
        }
        const int64_t o0 = chunk * job->out_chunk, o1 = o0 + job->out_chunk < job->outputs ? o0 + job->out_chunk : job->outputs;
        for (int i = 0; i < job->nlattices; i++) {
            lattice of_group = job->lattices[i];
            of_group.weights += group * job->outputs * of_group.k * (int64_t)sizeof(REAL);
            N(conv_lattice)(job, &of_group, use, (image * job->groups + group) * job->outputs, group * job->outputs, o0, o1);
        }
    }
    fai_cpu_scratch_give(field, room);
}

/* ---- what a call prepares: lattices, tables, packed weights, places; all in one block ---- */
/* Table and weights of one lattice. Output channel o of a group: rows of blocks as conv_lattice runs them. */
static void N(pack_lattice)(const N(conv) *job, lattice *l, const taps *ty, const taps *tx) {
    const fa_plan_view *view = &job->plan->view[2];
    REAL *weights = (REAL *)(void *)l->weights;
    int64_t k = 0;
    for (int64_t c = 0; c < job->sources; c++)
        for (int64_t i = 0; i < ty->kernel; i++)
            for (int64_t j = 0; j < tx->kernel; j++) {
                int64_t y, x;
                if (!tap_of(ty, l->row, i, &y) || !tap_of(tx, l->col, j, &x)) continue;
                l->table[k] = field_at(&job->y, &job->x, c, y, x);
                for (int64_t g = 0; g < job->groups; g++)
                    for (int64_t o0 = 0; o0 < job->outputs; o0 += job->out_chunk) {
                        const int64_t o1 = o0 + job->out_chunk < job->outputs ? o0 + job->out_chunk : job->outputs;
                        for (int64_t o = o0, rows; o < o1; o += rows) {
                            rows = block_of_rows(o - o0, o1 - o0, TILE_ROWS);
                            for (int64_t r = 0; r < rows; r++) {
                                const int64_t line = ty->back ? (g * job->sources + c) * job->outputs + o + r
                                                              : (g * job->outputs + o + r) * job->sources + c;
                                weights[(g * job->outputs + o) * l->k + k * rows + r] =
                                    LOAD(job->pointers[2], view->dtype, (line * ty->kernel + i) * tx->kernel + j);
                            }
                        }
                    }
                k++;
            }
}

static void N(find_places)(const N(conv) *job, const lattice *l) {
    N(place) *place = (N(place) *)(void *)l->places;
    for (int64_t p = 0; p < l->positions; p += LANES, place++) {
        unsigned bits = 0;
        int count = 0;
        int64_t to = 0;
        for (int lane = 0; lane < LANES && p + lane < l->positions; lane++) {
            const int64_t y = (p + lane) / job->x.length, x = (p + lane) % job->x.length;
            if (x >= l->cols) continue;
            if (!count++) to = y * l->cols + x;
            bits |= 1u << lane;
        }
        *place = (N(place)){N(pick)(bits), N(first)(count), to};
    }
}

/* With base NULL only counts; returns the bytes needed. */
static size_t N(prepare)(N(conv) *job, const taps *ty, const taps *tx, char *base) {
    size_t used = 0;
    const int64_t steps_y = ty->back ? ty->stride : 1, steps_x = tx->back ? tx->stride : 1;
    job->lattices = take(base, &used, sizeof(lattice) * (size_t)(steps_y * steps_x));
    job->nlattices = 0;
    for (int64_t row = 0; row < steps_y && row < job->out_height; row++)
        for (int64_t col = 0; col < steps_x && col < job->out_width; col++) {
            lattice l = {.row = row, .col = col, .step_y = steps_y, .step_x = steps_x,
                .rows = (job->out_height - row + steps_y - 1) / steps_y, .cols = (job->out_width - col + steps_x - 1) / steps_x};
            int64_t down = 0, across = 0, at;
            for (int64_t i = 0; i < ty->kernel; i++) down += tap_of(ty, row, i, &at);
            for (int64_t j = 0; j < tx->kernel; j++) across += tap_of(tx, col, j, &at);
            l.k = job->sources * down * across;
            l.positions = (l.rows - 1) * job->x.length + l.cols;
            l.table = take(base, &used, sizeof(int64_t) * (size_t)(l.k + 1));
            l.weights = take(base, &used, sizeof(REAL) * (size_t)(l.k * job->outputs * job->groups + 1));
            l.places = take(base, &used, job->gapless ? sizeof(N(place)) * (size_t)(l.positions / LANES + 2) : 0);
            if (!base) continue;
            N(pack_lattice)(job, &l, ty, tx);
            if (job->gapless) N(find_places)(job, &l);
            job->lattices[job->nlattices++] = l;
        }
    job->bias = NULL;
    if (job->plan->view[3].kind != FA_VIEW_NONE) {
        const int64_t n = job->outputs * job->groups;
        REAL *bias = take(base, &used, sizeof(REAL) * (size_t)n);
        for (int64_t i = 0; base && i < n; i++) bias[i] = LOAD(job->pointers[3], job->plan->view[3].dtype, i);
        job->bias = bias;
    }
    return used;
}

static taps N(side_of)(const N(conv) *job, bool back, int which, side *s) {
    const fa_i64 *n = job->plan->n;
    taps t = {.kernel = n[5 + which], .stride = n[9 + which], .padding = n[11 + which], .dilation = n[13 + which], .back = back};
    if (back) {
        t.lowest = floor_divide(t.padding - (t.kernel - 1) * t.dilation, t.stride);
        const int64_t highest = floor_divide(n[2 + which] - 1 + t.padding, t.stride);
        *s = (side){.phases = 1, .before = -t.lowest, .length = highest - t.lowest + 1, .source = n[7 + which]};
    } else {
        const int64_t reach = (n[7 + which] - 1) * t.stride + (t.kernel - 1) * t.dilation + 1;
        *s = (side){.phases = t.stride, .before = t.padding, .length = (reach + t.stride - 1) / t.stride, .source = n[2 + which]};
    }
    return t;
}

/* False if there was no memory. back: the derivative towards the input. */
static bool N(convolve)(const fa_plan *plan, char *const *pointers, bool back) {
    const fa_i64 *n = plan->n;
    N(conv) job = {.plan = plan, .pointers = pointers, .images = n[0], .groups = n[15]};
    job.sources = (back ? n[4] : n[1]) / job.groups;
    job.outputs = (back ? n[1] : n[4]) / job.groups;
    job.out_height = back ? n[2] : n[7];
    job.out_width = back ? n[3] : n[8];
    const taps ty = N(side_of)(&job, back, 0, &job.y), tx = N(side_of)(&job, back, 1, &job.x);
    if (job.images * job.outputs * job.out_height * job.out_width <= 0) return true;
    job.field = job.sources * job.y.phases * job.x.phases * job.y.length * job.x.length;
    job.in_place = side_is_source(&job.y) && side_is_source(&job.x) && plan->view[1].dtype == OWN_TYPE;
    job.gapless = plan->view[0].dtype == OWN_TYPE && (!back || (ty.stride == 1 && tx.stride == 1));
    job.out_chunk = job.images * job.groups < 16 && job.outputs > 16 ? 16 : job.outputs;
    job.chunks = (job.outputs + job.out_chunk - 1) / job.out_chunk;
    const size_t room = N(prepare)(&job, &ty, &tx, NULL);
    char *base = fai_cpu_scratch_take(room);
    if (!base) return false;
    N(prepare)(&job, &ty, &tx, base);
    const double work =
        (double)job.out_chunk * (double)(job.sources * ty.kernel * tx.kernel) * (double)(job.out_height * job.out_width);
    const int64_t grain = work * 4 < 1 << 20 ? (int64_t)((1 << 18) / (work + 1)) + 1 : 1;
    fai_parallel(job.images * job.groups * job.chunks, grain, N(conv_tasks), &job);
    fai_cpu_scratch_give(base, room);
    return !job.no_memory;
}
