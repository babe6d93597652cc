/* One elementwise row over tensors of any layout and type, for the compute type REAL. Included once for each type.
 *
 * The iteration space is cut into pieces for the threads, and a piece into tiles. For each tile every operand becomes a pointer
 * to contiguous elements of the compute type, in the cheapest way that its layout allows (enum way); the row's loop runs; and
 * the result goes from its tile to where it belongs, unless it could be written there at once. */

#ifndef EW_WALK_ONCE
#define EW_WALK_ONCE
enum { EW_TILE = 512, EW_PAD = 16, EW_SHORT = 64, EW_OPERANDS = 4 };

enum way {
    WAY_NONE,      /* the row has no such operand */
    WAY_DIRECT,    /* in memory as the loop wants it: flat, or the inner dimension of a long row */
    WAY_CONSTANT,  /* one value for the whole piece: its tile is filled once */
    WAY_LINE,      /* one value for each long row */
    WAY_REPEAT,    /* short rows, the same for all: the tile holds them repeated, and is read at a phase */
    WAY_CONVERT,   /* as direct, of another type */
    WAY_GATHER     /* any strides: collected element by element, then converted */
};

/* Elements of the whole space lie side by side in this view. */
static bool ew_is_flat(const fa_plan *plan, const fa_plan_view *v) {
    fa_i64 expected = 1;
    for (int d = plan->ndim - 1; d >= 0; d--) {
        if (plan->view[0].size[d] != 1 && v->stride[d] != expected) return false;
        expected *= plan->view[0].size[d];
    }
    return true;
}

static bool ew_is_constant(const fa_plan *plan, const fa_plan_view *v) {
    for (int d = 0; d < plan->ndim; d++)
        if (plan->view[0].size[d] != 1 && v->stride[d] != 0) return false;
    return true;
}

/* All outer strides are 0: every row is the same. */
static bool ew_repeats(const fa_plan *plan, const fa_plan_view *v) {
    for (int d = 0; d < plan->ndim - 1; d++)
        if (plan->view[0].size[d] != 1 && v->stride[d] != 0) return false;
    return v->stride[plan->ndim - 1] == 1;
}

/* One element of the inner dimension: rows of a plan that is long enough are walked one by one. */
static int64_t ew_offset(const fa_plan *plan, const fa_plan_view *v, int64_t row) {
    int64_t offset = 0;
    for (int d = plan->ndim - 2; d >= 0; d--) {
        offset += row % plan->view[0].size[d] * v->stride[d];
        row /= plan->view[0].size[d];
    }
    return offset;
}
#endif

typedef struct N(ew_call) {
    const fa_plan *plan;
    char *const *pointers;
    void (*row)(int64_t n, REAL *out, const REAL *a, const REAL *b, const REAL *c, const REAL *d, PARAM *params);
    fai_cpu_space space;
    int64_t inner;          /* elements of a row */
    bool by_rows;           /* rows are long: each on its own, views by their inner stride */
    int noperands;
    enum way way[1 + EW_OPERANDS];  /* [0] the result: direct, convert or gather (scatter) */
} N(ew_call);

static enum way N(ew_way)(const fa_plan *plan, const fa_plan_view *v, bool by_rows) {
    if (v->kind == FA_VIEW_SCALAR || ew_is_constant(plan, v)) return WAY_CONSTANT;
    if (by_rows && v->stride[plan->ndim - 1] == 0) return WAY_LINE;
    if (ew_is_flat(plan, v) || (by_rows && v->stride[plan->ndim - 1] == 1))
        return v->dtype == OWN_DTYPE ? WAY_DIRECT : WAY_CONVERT;
    return !by_rows && ew_repeats(plan, v) ? WAY_REPEAT : WAY_GATHER;
}

static void N(ew_fill)(REAL *to, const void *from, int dtype, int64_t n) {
    REAL value;
    FAI_NAME(N(fai_cpu_load))(&value, from, dtype, 1);
    for (int64_t i = 0; i < n; i++) to[i] = value;
}

/* What stays the same for a whole piece is put into the tiles before its first one. */
static void N(ew_prepare)(const N(ew_call) *call, REAL (*tile)[EW_TILE + EW_PAD + EW_SHORT], int64_t n) {
    for (int k = 1; k <= call->noperands; k++) {
        const fa_plan_view *v = &call->plan->view[k];
        REAL *to = tile[k];
        if (call->way[k] == WAY_CONSTANT) {
            const REAL value = (REAL)SCALARS(call->plan)[k];
            if (v->kind != FA_VIEW_SCALAR) N(ew_fill)(to, call->pointers[k], v->dtype, n < EW_TILE ? n : EW_TILE);
            else for (int64_t i = 0; i < (n < EW_TILE ? n : EW_TILE); i++) to[i] = value;
        } else if (call->way[k] == WAY_REPEAT) {
            FAI_NAME(N(fai_cpu_load))(to, call->pointers[k], v->dtype, call->inner);
            for (int64_t i = call->inner; i < (n < EW_TILE ? n : EW_TILE) + call->inner; i++) to[i] = to[i - call->inner];
        }
    }
}

/* Operand k of the elements begin .. begin+n-1 as contiguous REALs. offset: of the row in it (0 unless by_rows); first: the
 * row's first tile. */
static const REAL *N(ew_operand)(const N(ew_call) *call, int k, int64_t begin, int64_t offset, int64_t n, bool first,
                                 REAL *tile) {
    if (call->way[k] == WAY_NONE) return NULL; /* its view says nothing */
    const fa_plan_view *v = &call->plan->view[k];
    const int bytes = v->kind == FA_VIEW_TENSOR ? fai_cpu_bytes(v->dtype) : 0; /* a number has no dtype of its own */
    const char *p = call->pointers[k];
    char raw[EW_TILE * 8];
    switch (call->way[k]) {
    case WAY_NONE: break;
    case WAY_DIRECT: return (const REAL *)(const void *)p + offset + begin;
    case WAY_CONSTANT: return tile;
    case WAY_LINE:
        if (first) N(ew_fill)(tile, p + offset * bytes, v->dtype, n);
        return tile;
    case WAY_REPEAT: return tile + begin % call->inner;
    case WAY_CONVERT: FAI_NAME(N(fai_cpu_load))(tile, p + (offset + begin) * bytes, v->dtype, n); return tile;
    case WAY_GATHER: break;
    }
    void *target = v->dtype == OWN_DTYPE ? (void *)tile : (void *)raw;
    if (call->by_rows) {
        const fai_cpu_space line = {.ndim = 1, .size = {call->inner}};
        FAI_NAME(fai_cpu_gather)(target, p + offset * bytes, bytes, &line, &v->stride[call->plan->ndim - 1], begin, n);
    } else {
        FAI_NAME(fai_cpu_gather)(target, p, bytes, &call->space, v->stride, begin, n);
    }
    if (target == raw) FAI_NAME(N(fai_cpu_load))(tile, raw, v->dtype, n);
    return tile;
}

static void N(ew_result)(const N(ew_call) *call, int64_t begin, int64_t offset, int64_t n, const REAL *tile) {
    const fa_plan_view *v = &call->plan->view[0];
    const int bytes = fai_cpu_bytes(v->dtype);
    char *p = call->pointers[0], raw[EW_TILE * 8];
    if (call->way[0] == WAY_CONVERT) {
        FAI_NAME(N(fai_cpu_store))(p + (offset + begin) * bytes, v->dtype, tile, n);
    } else if (call->way[0] == WAY_GATHER) {
        const void *from = v->dtype == OWN_DTYPE ? (const void *)tile : (const void *)raw;
        if (from == raw) FAI_NAME(N(fai_cpu_store))(raw, v->dtype, tile, n);
        const fai_cpu_space line = {.ndim = 1, .size = {call->inner}};
        if (call->by_rows)
            FAI_NAME(fai_cpu_scatter)(p + offset * bytes, from, bytes, &line, &v->stride[call->plan->ndim - 1], begin, n);
        else FAI_NAME(fai_cpu_scatter)(p, from, bytes, &call->space, v->stride, begin, n);
    }
}

/* Elements begin .. end-1 of the space or, by rows, of row `row`. */
static void N(ew_run)(const N(ew_call) *call, int64_t row, int64_t begin, int64_t end,
                      REAL (*tile)[EW_TILE + EW_PAD + EW_SHORT]) {
    int64_t offset[1 + EW_OPERANDS] = {0};
    bool tiled = false;
    for (int k = 0; k <= call->noperands; k++) {
        if (call->by_rows && call->way[k] != WAY_CONSTANT) offset[k] = ew_offset(call->plan, &call->plan->view[k], row);
        tiled |= call->way[k] != WAY_DIRECT && call->way[k] != WAY_NONE;
    }
    const int64_t step = tiled ? EW_TILE : end - begin;
    for (int64_t at = begin; at < end; at += step) {
        const int64_t n = end - at < step ? end - at : step;
        const REAL *operand[EW_OPERANDS];
        for (int k = 0; k < EW_OPERANDS; k++)
            operand[k] = N(ew_operand)(call, k + 1, at, offset[k + 1], n, at == begin, tile[k + 1]);
        REAL *out = call->way[0] == WAY_DIRECT ? (REAL *)(void *)call->pointers[0] + offset[0] + at : tile[0];
        call->row(n, out, operand[0], operand[1], operand[2], operand[3], (PARAM *)SCALARS(call->plan) + 5);
        N(ew_result)(call, at, offset[0], n, tile[0]);
    }
}

static void N(ew_piece)(void *context, int64_t begin, int64_t end) {
    const N(ew_call) *call = context;
    REAL tile[1 + EW_OPERANDS][EW_TILE + EW_PAD + EW_SHORT];
    N(ew_prepare)(call, tile, end - begin);
    if (!call->by_rows) {
        N(ew_run)(call, 0, begin, end, tile);
        return;
    }
    for (int64_t row = begin / call->inner; begin < end; row++) {
        const int64_t stop = (row + 1) * call->inner < end ? (row + 1) * call->inner : end;
        N(ew_run)(call, row, begin - row * call->inner, stop - row * call->inner, tile);
        begin = stop;
    }
}

/* Chooses the ways. False if the plan's elements are not all in a line, so that rows may be walked. */
static bool N(ew_choose)(N(ew_call) *call, int64_t numel) {
    bool flat = true;
    for (int k = 0; k <= call->noperands; k++) {
        const fa_plan_view *v = &call->plan->view[k];
        call->way[k] = N(ew_way)(call->plan, v, call->by_rows);
        if (k == 0 && call->way[k] != WAY_DIRECT && call->way[k] != WAY_CONVERT) /* one element, or strides of any kind */
            call->way[k] = numel > 1 ? WAY_GATHER : v->dtype == OWN_DTYPE ? WAY_DIRECT : WAY_CONVERT;
        flat &= call->way[k] == WAY_DIRECT || call->way[k] == WAY_CONVERT || call->way[k] == WAY_CONSTANT;
    }
    return flat;
}

void FAI_NAME(N(fai_cpu_ew))(const fa_plan *plan, char *const *pointers) {
    const fai_row_info *info = &fai_rows[plan->row];
    if (plan->row == FAI_ROW_positive && KEEPS(plan->view[0].dtype) && FAI_NAME(fai_cpu_copy)(plan, pointers)) return;
    N(ew_call) call = {.plan = plan, .pointers = pointers, .row = ROWS[plan->row], .noperands = info->noperands};
    call.space = (fai_cpu_space){.ndim = plan->ndim ? plan->ndim : 1, .size = {1}};
    int64_t numel = 1;
    for (int d = 0; d < plan->ndim; d++) numel *= call.space.size[d] = plan->view[0].size[d];
    call.inner = call.space.size[call.space.ndim - 1];
    if (!N(ew_choose)(&call, numel) && call.inner >= EW_SHORT) {
        call.by_rows = true;
        N(ew_choose)(&call, numel);
    }
    const int64_t grain = 32768 / info->cost + 1;
    if (numel <= grain) N(ew_piece)(&call, 0, numel);
    else fai_parallel(numel, grain, N(ew_piece), &call);
}

#undef REAL
#undef FA_SUFFIX
#undef OWN_DTYPE
#undef SCALARS
#undef PARAM
#undef ROWS
#undef KEEPS
