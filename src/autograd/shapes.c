/* Operators that arrange elements anew: dimensions moved, tiles, turns, diagonals, triangles, combinations, elements taken by number. */
#include "composite.h"
#include <fa_functional.h>

static fa_tensor *places_to(fa_device device, int64_t n) { return fa_arange(0, n, 1, .dtype = FA_INT64, .device = device); }

/* ---- dimensions ---- */

/* Dimensions as numbers from 0 on, none twice. */
static bool check_dims(const char *op, const char *argument, const fa_tensor *x, fa_shape dims, int *at) {
    bool seen[FA_MAX_DIMS] = {false};
    for (int i = 0; i < dims.ndim; i++) {
        if (!fai_wrap_dim(op, dims.dim[i], x->ndim, &at[i])) return false;
        if (seen[at[i]]) {
            char text[160];
            fai_text_shape(text, sizeof text, dims.ndim, dims.dim);
            return fai_fail(FA_ERR_RUNTIME, op, "%s: repeated dim in `%s` (%s)", op, argument, text);
        }
        seen[at[i]] = true;
    }
    return true;
}

fa_tensor *fa_movedim(fa_tensor *x, fa_shape source, fa_shape destination) {
    const char *op = "movedim";
    int from[FA_MAX_DIMS], to[FA_MAX_DIMS], next = 0;
    if (!fai_begin1(op, "x", x) || !fai_shape_ok(op, "source", source) || !fai_shape_ok(op, "destination", destination))
        return NULL;
    if (source.ndim != destination.ndim)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "movedim: Invalid source or destination dims: source (%d dims) should contain the same number of dims as "
                        "destination (%d dims)",
                        (int)source.ndim, (int)destination.ndim);
    if (!check_dims(op, "source", x, source, from) || !check_dims(op, "destination", x, destination, to)) return NULL;
    fa_shape order = {.ndim = x->ndim};
    bool moved[FA_MAX_DIMS] = {false};
    for (int d = 0; d < x->ndim; d++) order.dim[d] = -1;
    for (int i = 0; i < source.ndim && x->ndim; i++) order.dim[to[i]] = from[i], moved[from[i]] = true;
    for (int d = 0; d < x->ndim; d++) {
        if (order.dim[d] >= 0) continue;
        while (moved[next]) next++;
        order.dim[d] = next++;
    }
    FAI_CALLED(op);
    return fa_permute(x, order);
}

fa_tensor *fa_tile(fa_tensor *x, fa_shape repeats) {
    if (!fai_begin1("tile", "x", x) || !fai_shape_ok("tile", "repeats", repeats)) return NULL;
    FAI_CALLED("tile");
    fa_shape full = {.ndim = x->ndim > repeats.ndim ? x->ndim : repeats.ndim};
    const int missing = full.ndim - repeats.ndim;
    for (int d = 0; d < full.ndim; d++) full.dim[d] = d < missing ? 1 : repeats.dim[d - missing];
    return fa_repeat(x, full);
}

fa_tensor *fa_roll_dims(fa_tensor *x, fa_shape shifts, fa_shape dims) {
    const char *op = "roll";
    if (!fai_begin1(op, "x", x) || !fai_shape_ok(op, "shifts", shifts) || !fai_shape_ok(op, "dims", dims)) return NULL;
    if (shifts.ndim == 0) return fai_fail(FA_ERR_RUNTIME, op, "roll: `shifts` required, one for each dimension");
    FAI_CALLED(op);
    FA_SCOPE;
    if (dims.ndim == 0 && shifts.ndim == 1)
        return fa_keep(fa_reshape(fa_roll(fa_reshape(x, FA_SHAPE(-1)), shifts.dim[0], 0), fa_shape_of_tensor(x)));
    if (shifts.ndim != dims.ndim)
        return fai_fail(FA_ERR_RUNTIME, op, "shifts and dimensions must align. shifts: %d, dims:%d", (int)shifts.ndim,
                        (int)dims.ndim);
    fa_tensor *r = x;
    for (int i = 0; i < dims.ndim; i++) r = fa_roll(r, shifts.dim[i], dims.dim[i]);
    return fa_keep(r);
}

fa_tensor *fa_rot90(fa_tensor *x, int64_t k, int64_t dim0, int64_t dim1) {
    const char *op = "rot90";
    int a, b;
    if (!fai_begin1(op, "x", x)) return NULL;
    if (x->ndim < 2) return fai_fail(FA_ERR_RUNTIME, op, "expected total dims >= 2, but got total dims = %d", x->ndim);
    if (!fai_wrap_dim(op, dim0, x->ndim, &a) || !fai_wrap_dim(op, dim1, x->ndim, &b)) return NULL;
    if (a == b)
        return fai_fail(FA_ERR_RUNTIME, op, "expected rotation dims to be different, but got dim0 = %d and dim1 = %d", a, b);
    FAI_CALLED(op);
    FA_SCOPE;
    switch ((k % 4 + 4) % 4) {
    case 1: return fa_keep(fa_transpose(fa_flip(x, FA_DIMS(b)), a, b));
    case 2: return fa_keep(fa_flip(x, FA_DIMS(a, b)));
    case 3: return fa_keep(fa_transpose(fa_flip(x, FA_DIMS(a)), a, b));
    default: return fa_keep(fa_clone(x));
    }
}

/* ---- repeating ---- */

static bool has_dims(const char *op, const fa_tensor *x, int64_t dim) {
    if (x->ndim) return true;
    return fai_fail(FA_ERR_INDEX, op, "Dimension specified as %lld but tensor has no dimensions", (long long)dim);
}

static bool check_repeats(const char *op, const fa_tensor *repeats, int64_t size, int dim) {
    if (repeats->ndim > 1)
        return fai_fail(FA_ERR_RUNTIME, op, "repeats must be 0-dim or 1-dim tensor; it has %d dimensions", repeats->ndim);
    if (repeats->dtype != FA_INT64 && repeats->dtype != FA_INT32)
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "\"repeat_interleave_cpu\" not implemented for '%s': repeats are fa_cast(repeats, FA_INT64)",
                        fai_dtype_title((fa_dtype)repeats->dtype));
    if (repeats->numel == 1 || repeats->numel == size) return true;
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "repeats must have the same size as input along dim, but got repeats.size(0) = %lld and input.size(%d) = %lld",
        (long long)repeats->numel, dim, (long long)size);
}

/* Element i goes to the places from the sum of the repeats before it on: each place looks up whose it is. */
fa_tensor *fai_repeat_interleave_sized(fa_tensor *x, fa_tensor *repeats, int64_t dim, int64_t n) {
    const char *op = "repeat_interleave";
    int at;
    if (!fai_begin2(op, "x", x, "repeats", repeats) || !fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    if (!has_dims(op, x, dim) || !check_repeats(op, repeats, x->size[at], at)) return NULL;
    FAI_CALLED(op);
    FA_SCOPE;
    if (x->size[at] == 0) return fa_keep(fa_clone(x));
    fa_tensor *each = fa_expand(fa_reshape(fa_cast(repeats, FA_INT64), FA_SHAPE(-1)), FA_SHAPE(x->size[at]));
    fa_tensor *ends = fa_cumsum(each, 0);
    if (n < 0 || !fai_capturing(x->device)) { /* there are no numbers in a capture, but the kernel looks at each */
        const int64_t least = fa_item_int(fa_amin(each)), found = fa_item_int(fa_slice(ends, 0, -1, INT64_MAX, 1));
        if (fa_failed()) return NULL;
        if (least < 0) return fai_fail(FA_ERR_RUNTIME, op, "repeats can not be negative; the smallest is %lld", (long long)least);
        if (n >= 0 && n != found)
            return fai_fail(FA_ERR_RUNTIME, op, "allocated size does not match required size: output_size is %lld, the repeats add up to %lld", (long long)n, (long long)found);
        n = found;
    }
    return fa_keep(fa_index_select(x, at, fa_searchsorted(ends, places_to(x->device, n), true, false)));
}

fa_tensor *fa_repeat_interleave_tensor(fa_tensor *x, fa_tensor *repeats, int64_t dim) { return fai_repeat_interleave_sized(x, repeats, dim, -1); }

/* ---- diagonals and triangles ---- */

fa_tensor *fa_diag_embed(fa_tensor *x, int64_t offset, int64_t dim0, int64_t dim1) {
    const char *op = "diag_embed";
    int a, b;
    if (!fai_begin1(op, "x", x)) return NULL;
    if (x->ndim == 0 || x->ndim == FA_MAX_DIMS)
        return fai_fail(x->ndim ? FA_ERR_RUNTIME : FA_ERR_INDEX, op, "x has %d dimensions; it must have 1 to %d, and the result has one more", x->ndim,
                        FA_MAX_DIMS - 1);
    if (!fai_wrap_dim(op, dim0, x->ndim + 1, &a) || !fai_wrap_dim(op, dim1, x->ndim + 1, &b)) return NULL;
    if (a == b) return fai_fail(FA_ERR_RUNTIME, op, "diagonal dimensions cannot be identical %d, %d", a, b);
    if (offset > INT64_MAX / 4 || offset < -(INT64_MAX / 4))
        return fai_fail(FA_ERR_RUNTIME, op, "offset=%lld is out of range: no matrix has such a diagonal", (long long)offset);
    const int64_t size = x->size[x->ndim - 1] + (offset < 0 ? -offset : offset);
    fa_shape shape = {.ndim = x->ndim + 1};
    for (int d = 0, from = 0; d < shape.ndim; d++) shape.dim[d] = d == a || d == b ? size : x->size[from++];
    FAI_CALLED(op);
    return fa_diagonal_backward(x, shape, offset, a, b);
}

fa_tensor *fa_diag(fa_tensor *x, int64_t diagonal) {
    if (!fai_begin1("diag", "x", x)) return NULL;
    FAI_CALLED("diag");
    FA_SCOPE;
    if (x->ndim == 1) return fa_keep(fa_diag_embed(x, diagonal, 0, 1));
    if (x->ndim == 2) return fa_keep(fa_clone(fa_diagonal(x, diagonal, 0, 1)));
    return fai_fail(FA_ERR_RUNTIME, "diag", "diag(): Supports 1D or 2D tensors. Got %dD", x->ndim);
}

fa_tensor *fa_diagflat(fa_tensor *x, int64_t offset) {
    if (!fai_begin1("diagflat", "x", x)) return NULL;
    FAI_CALLED("diagflat");
    FA_SCOPE;
    return fa_keep(fa_diag_embed(fa_reshape(x, FA_SHAPE(-1)), offset, 0, 1));
}

fa_tensor *fai_plain_trace(fa_tensor *x) {
    if (!fai_begin1("trace", "x", x)) return NULL;
    if (x->ndim != 2) return fai_fail(FA_ERR_RUNTIME, "trace", "trace: expected a matrix, but got tensor with dim %d", x->ndim);
    if (!fai_no_bool("trace", "trace", x)) return NULL;
    FAI_CALLED("trace");
    FA_SCOPE;
    return fa_keep(fa_sum(fa_diagonal(x, 0, 0, 1)));
}

/* The rows and columns of a triangle's elements, row by row: int64 [2, n]. */
static fa_tensor *triangle_indices(const char *op, int64_t rows, int64_t columns, int64_t offset, bool upper, fa_device device) {
    if (rows < 0) return fai_fail(FA_ERR_RUNTIME, op, "row must be non-negative, got%lld", (long long)rows);
    if (columns < 0) return fai_fail(FA_ERR_RUNTIME, op, "col must be non-negative, got%lld", (long long)columns);
    FAI_CALLED(op);
    FA_SCOPE;
    fa_tensor *all = fa_ones(FA_SHAPE(rows, columns), .dtype = FA_BOOL, .device = FA_CPU);
    fa_tensor *places = fa_contiguous(fa_t(fa_nonzero(upper ? fa_triu(all, offset) : fa_tril(all, offset))));
    return places && fai_device_resolve(&device, op) ? fa_keep(fai_constant(places, device)) : NULL;
}

fa_tensor *fa_tril_indices(int64_t rows, int64_t columns, int64_t offset, fa_device device) {
    return triangle_indices("tril_indices", rows, columns, offset, false, device);
}
fa_tensor *fa_triu_indices(int64_t rows, int64_t columns, int64_t offset, fa_device device) {
    return triangle_indices("triu_indices", rows, columns, offset, true, device);
}

/* ---- combinations ---- */

static bool check_vector(const char *op, const fa_tensor *x) {
    if (x->ndim == 1) return true;
    char text[160];
    fai_text_shape(text, sizeof text, x->ndim, x->size);
    return fai_fail(FA_ERR_RUNTIME, op, "Expect a 1D vector, but got shape %s", text);
}

fa_tensor *fa_cartesian_prod(fa_tensor *const *tensors, int ntensors) {
    const char *op = "cartesian_prod";
    fa_tensor *parts[FA_MAX_DIMS];
    if (!fai_list_begin(op, "tensors", tensors, ntensors, false)) return NULL;
    for (int i = 0; i < ntensors; i++)
        if (!check_vector(op, tensors[i])) return NULL;
    if (ntensors == 1) return fa_alias(tensors[0]);
    FAI_CALLED(op);
    FA_SCOPE;
    if (fa_meshgrid(tensors, ntensors, "ij", parts, FA_MAX_DIMS) < 0) return NULL;
    for (int i = 0; i < ntensors; i++) parts[i] = fa_reshape(parts[i], FA_SHAPE(-1));
    return fa_keep(fa_stack(parts, ntensors, 1));
}

/* All r-tuples of places in order, kept where each place is above (or not below) the one before. */
fa_tensor *fa_combinations(fa_tensor *x, int64_t r, bool with_replacement) {
    const char *op = "combinations";
    fa_tensor *list[FA_MAX_DIMS], *parts[FA_MAX_DIMS], *kept = NULL;
    if (!fai_begin1(op, "x", x) || !check_vector(op, x)) return NULL;
    if (r < 0) return fai_fail(FA_ERR_RUNTIME, op, "Expect a non-negative number, but got %lld", (long long)r);
    if (r > FA_MAX_DIMS)
        return fai_fail(FA_ERR_UNSUPPORTED, op, "combinations of %lld elements: at most %d are supported", (long long)r,
                        FA_MAX_DIMS);
    FAI_CALLED(op);
    FA_SCOPE;
    if (r == 0) return fa_keep(fa_empty(FA_SHAPE(0), .dtype = (fa_dtype)x->dtype, .device = x->device));
    fa_tensor *places = places_to(x->device, x->numel);
    for (int i = 0; i < r; i++) list[i] = places;
    if (!places || fa_meshgrid(list, (int)r, "ij", parts, FA_MAX_DIMS) < 0) return NULL;
    for (int i = 1; i < r; i++) {
        fa_tensor *grows = with_replacement ? fa_le(parts[i - 1], parts[i]) : fa_lt(parts[i - 1], parts[i]);
        if (!(kept = i == 1 ? grows : fa_logical_and(kept, grows))) return NULL;
    }
    for (int i = 0; i < r; i++) {
        fa_tensor *at = kept ? fa_masked_select(parts[i], kept) : parts[i];
        if (!(parts[i] = at ? fa_index_select(x, 0, at) : NULL)) return NULL;
    }
    return fa_keep(fa_stack(parts, (int)r, 1));
}

/* ---- elements by number ---- */

fa_tensor *fa_take(fa_tensor *x, fa_tensor *index) {
    if (!fai_begin2("take", "x", x, "index", index)) return NULL;
    if (index->dtype != FA_INT64)
        return fai_fail(FA_ERR_RUNTIME, "take", "take(): Expected a long tensor for index, but got %s: fa_cast(index, FA_INT64)",
                        fai_dtype_title((fa_dtype)index->dtype));
    FAI_CALLED("take");
    FA_SCOPE;
    fa_tensor *line = fa_reshape(x, FA_SHAPE(-1));
    return fa_keep(fa_index(line, &index, 1));
}

fa_tensor *fa_take_along_dim(fa_tensor *x, fa_tensor *index, int64_t dim) {
    const char *op = "take_along_dim";
    int at, ndim;
    fa_shape shape = {0};
    if (!fai_begin2(op, "x", x, "index", index)) return NULL;
    if (index->dtype != FA_INT64)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "torch.take_along_dim(): dtype of indices should be Long but got %s: fa_cast(index, FA_INT64)",
                        fai_dtype_title((fa_dtype)index->dtype));
    if (index->ndim != x->ndim)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got %d dimensions "
            "for input, and %d dimensions for indices",
            x->ndim, index->ndim);
    if (!has_dims(op, x, dim) || !fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    FAI_CALLED(op);
    FA_SCOPE;
    fa_tensor one = *x, other = *index; /* shapes only: along dim they may differ */
    one.size[at] = other.size[at] = 1;
    if (!fai_broadcast(op, 2, (const fa_tensor *const[]){&one, &other}, &ndim, shape.dim)) return NULL;
    shape.ndim = ndim;
    fa_shape own = shape, theirs = shape;
    own.dim[at] = x->size[at], theirs.dim[at] = index->size[at];
    return fa_keep(fa_gather(fa_expand(x, own), at, fa_expand(index, theirs)));
}
