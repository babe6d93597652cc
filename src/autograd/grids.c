/* Sampling at places of a grid: affine_grid, which makes one, and grid_sample, which reads an image or a volume there. A place is
 * given by one number between -1 and 1 for each side; the corners of the element that it falls into are gathered and weighted. */
#include "sides.h"

typedef struct sampler {
    int sides;
    bool nearest, align;
    enum { ZEROS, BORDER, REFLECTION } padding;
    int64_t size[FAI_MAX_SIDES]; /* of x, the last side first: the order of the grid's numbers */
} sampler;

static fa_tensor *rows2(int row, fa_tensor *x, double n) { return fai_row2(row, fai_of(x), fai_number(n)); }
static fa_tensor *held(fa_tensor *x, double low, double high) {
    return rows2(FAI_ROW_minimum, rows2(FAI_ROW_maximum, x, low), high);
}

/* A number in [-1, 1] as a coordinate: -1 and 1 are the middles of the outer elements (align), or their outer edges. */
static fa_tensor *unscaled(fa_tensor *g, int64_t size, bool align) {
    const double n = (double)size;
    g = fai_add_number(g, 1);
    return align ? fai_multiply(g, (n - 1) / 2) : fai_divide(fai_add_number(fai_multiply(g, n), -1), 2);
}

/* v thrown back from low and high until it lies between them. */
static fa_tensor *reflected(fa_tensor *v, double low, double high) {
    const double span = high - low;
    if (span <= 0) return fai_multiply(v, 0);
    v = fa_abs(fai_add_number(v, -low));
    fa_tensor *extra = rows2(FAI_ROW_fmod, v, span), *flips = fa_floor(fai_divide(v, span));
    fa_tensor *odd = fa_ne_scalar(fa_fmod_scalar(flips, 2), 0);
    return fa_where(odd, fai_add_number(fa_neg(extra), span + low), fai_add_number(extra, low));
}

/* Where side s is read, within what an index can hold; places that are no number lie outside. */
static fa_tensor *coordinate(const sampler *how, fa_tensor *grid, int s) {
    const double size = (double)how->size[s];
    fa_tensor *v = unscaled(fa_select(grid, -1, s), how->size[s], how->align);
    v = fai_choose(fa_isfinite(v), v, -1);
    if (how->padding == REFLECTION) v = how->align ? reflected(v, 0, size - 1) : reflected(v, -0.5, size - 0.5);
    return how->padding == ZEROS ? held(v, -2, size + 1) : held(v, 0, size - 1);
}

/* x [n, c, all] at one corner of every place: at[s] is its index on side s, weight what it counts (NULL: 1). */
static fa_tensor *corner(const sampler *how, fa_tensor *x, fa_tensor *const *at, fa_tensor *weight) {
    fa_tensor *index = NULL;
    int64_t stride = 1;
    for (int s = 0; s < how->sides; s++) {
        const double last = (double)how->size[s] - 1;
        fa_tensor *in = fa_logical_and(fa_ge_scalar(at[s], 0), fa_le_scalar(at[s], last));
        weight = weight ? fai_choose(in, weight, 0) : fa_cast(in, (fa_dtype)x->dtype);
        fa_tensor *step = fa_to_dtype(held(at[s], 0, last), FA_INT64);
        step = fai_row2(FAI_ROW_mul, fai_of(step), (fai_operand){.scalar = fa_scalar_of_int(stride)});
        index = index ? fa_add(index, step) : step;
        stride *= how->size[s];
    }
    index = fa_expand(fa_unsqueeze(index, 1), FA_SHAPE(-1, x->size[1], -1));
    return fa_mul(fa_gather(x, 2, index), fa_unsqueeze(weight, 1));
}

static fa_tensor *sampled(const sampler *how, fa_tensor *x, fa_tensor *grid) {
    fa_tensor *v[FAI_MAX_SIDES], *low[FAI_MAX_SIDES], *at[FAI_MAX_SIDES], *sum = NULL;
    for (int s = 0; s < how->sides; s++) {
        if (!(v[s] = coordinate(how, grid, s))) return NULL;
        low[s] = fa_detach(how->nearest ? fa_round(v[s]) : fa_floor(v[s]));
    }
    if (how->nearest) return corner(how, x, low, NULL);
    for (int bits = 0; bits < 1 << how->sides; bits++) {
        fa_tensor *weight = NULL;
        for (int s = 0; s < how->sides; s++) {
            const bool high = bits >> s & 1;
            fa_tensor *part = fa_sub(v[s], low[s]);
            if (!high) part = fai_add_number(fa_neg(part), 1);
            at[s] = high ? fai_add_number(low[s], 1) : low[s];
            weight = weight ? fa_mul(weight, part) : part;
        }
        fa_tensor *here = corner(how, x, at, weight);
        sum = sum ? fa_add(sum, here) : here;
    }
    return sum;
}

static bool read_modes(const char *mode, const char *padding, sampler *how) {
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    const char *op = "grid_sample";
    how->nearest = mode && strcmp(mode, "nearest") == 0;
    if (mode && strcmp(mode, "bicubic") == 0)
        return fai_fail(FA_ERR_UNSUPPORTED, op, "grid_sample: mode 'bicubic' is not in Facula; use 'bilinear'");
    if (!how->nearest && (!mode || strcmp(mode, "bilinear") != 0))
        return fai_fail(FA_ERR_VALUE, op,
                        "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '%s'",
                        mode ? mode : "NULL");
    for (int i = 0; i < 3; i++)
        if (padding && strcmp(padding, paddings[i]) == 0) return how->padding = i, true;
    return fai_fail(FA_ERR_VALUE, op,
                    "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '%s'",
                    padding ? padding : "NULL");
}

static bool check_shapes(const fa_tensor *x, const fa_tensor *grid) {
    const char *op = "grid_sample";
    char a[160], b[160];
    fai_text_shape(a, sizeof a, x->ndim, x->size), fai_text_shape(b, sizeof b, grid->ndim, grid->size);
    if (!fai_is_float(x->dtype) || x->dtype != grid->dtype)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "grid_sampler(): expected input and grid to have same dtype, but input has %s and grid has %s. Give two "
                        "floating tensors of one type",
                        fa_dtype_name((fa_dtype)x->dtype), fa_dtype_name((fa_dtype)grid->dtype));
    if (x->ndim != grid->ndim || (x->ndim != 4 && x->ndim != 5))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes %s "
                        "and grid with sizes %s. Images are [n, c, h, w], their grid is [n, rows, columns, 2]",
                        a, b);
    if (x->size[0] != grid->size[0])
        return fai_fail(FA_ERR_RUNTIME, op,
                        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s and grid with sizes %s",
                        a, b);
    if (grid->size[grid->ndim - 1] != x->ndim - 2)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "grid_sampler(): expected grid to have size %d in last dimension, but got grid with sizes %s. It holds one "
                        "number for each side",
                        x->ndim - 2, b);
    for (int d = 2; d < x->ndim; d++)
        if (x->size[d] == 0)
            return fai_fail(FA_ERR_RUNTIME, op,
                            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s with "
                            "dimension %d being empty",
                            a, d);
    return true;
}

fa_tensor *fai_plain_grid_sample(fa_tensor *x, fa_tensor *grid, const char *mode, const char *padding_mode, bool align_corners) {
    FAI_CALLED("grid_sample");
    sampler how = {.align = align_corners};
    if (!fai_begin2("grid_sample", "x", x, "grid", grid) || !read_modes(mode, padding_mode, &how) || !check_shapes(x, grid))
        return NULL;
    FA_SCOPE;
    how.sides = x->ndim - 2;
    for (int s = 0; s < how.sides; s++) how.size[s] = x->size[x->ndim - 1 - s];
    fa_shape shape = fa_shape_of_tensor(grid);
    const fa_dtype dtype = (fa_dtype)x->dtype;
    int64_t places = 1;
    for (int d = grid->ndim - 2; d > 0; d--) places *= shape.dim[d], shape.dim[d + 1] = shape.dim[d];
    shape.dim[1] = x->size[1];
    fa_tensor *flat = fa_reshape(fai_widened(x), FA_SHAPE(x->size[0], x->size[1], fai_split_at(x, 1).inner));
    fa_tensor *r = sampled(&how, flat, fa_reshape(fai_widened(grid), FA_SHAPE(grid->size[0], places, how.sides)));
    return fa_keep(fa_reshape(fa_cast(r, dtype), shape));
}

/* n numbers from -1 to 1: the middles of the outer elements, or their edges' (align). */
static fa_tensor *side(const fa_tensor *like, int64_t n, bool align) {
    fa_tensor *r = fa_linspace_with(-1, 1, n, FA_TENSOR_OPTIONS(.dtype = (fa_dtype)like->dtype, .device = like->device));
    if (n == 1) return fai_multiply(r, 0);
    return align ? r : fai_multiply(r, (double)(n - 1) / (double)n);
}

fa_tensor *fai_plain_affine_grid(fa_tensor *theta, fa_shape size, bool align_corners) {
    FAI_CALLED("affine_grid");
    const char *op = "affine_grid";
    char a[160], b[160];
    if (!fai_begin1(op, "theta", theta)) return NULL;
    const int sides = size.ndim - 2;
    fai_text_shape(a, sizeof a, theta->ndim, theta->size), fai_text_shape(b, sizeof b, size.ndim, size.dim);
    if (!fai_is_float(theta->dtype))
        return fai_fail(FA_ERR_VALUE, op, "Expected theta to have floating point type, but got %s", fa_dtype_name((fa_dtype)theta->dtype));
    if (sides != 2 && sides != 3)
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size %s", b);
    if (theta->ndim != 3 || theta->size[0] != size.dim[0] || theta->size[1] != sides || theta->size[2] != sides + 1)
        return fai_fail(FA_ERR_VALUE, op,
                        "Expected a batch of %dD affine matrices of shape Nx%dx%d for size %s. Got %s. N is the first number of size",
                        sides, sides, sides + 1, b, a);
    for (int d = 0; d < size.ndim; d++)
        if (size.dim[d] <= 0) return fai_fail(FA_ERR_VALUE, op, "Expected non-zero, positive output size. Got %s", b);
    FA_SCOPE;
    const fa_dtype dtype = (fa_dtype)theta->dtype;
    if (!(theta = fai_widened(theta))) return NULL;
    fa_shape full = {.ndim = sides + 1};
    for (int d = 0; d < sides; d++) full.dim[d] = size.dim[d + 2];
    full.dim[sides] = 1;
    fa_tensor *parts[FAI_MAX_SIDES + 1];
    for (int s = 0; s < sides; s++) { /* the last side first */
        fa_shape own = FA_SHAPE(1, 1, 1, 1);
        own.ndim = sides + 1, own.dim[sides - 1 - s] = size.dim[size.ndim - 1 - s];
        parts[s] = fa_expand(fa_reshape(side(theta, size.dim[size.ndim - 1 - s], align_corners), own), full);
    }
    parts[sides] = fa_ones_with(full, FA_TENSOR_OPTIONS(.dtype = (fa_dtype)theta->dtype, .device = theta->device));
    for (int s = 0; s <= sides; s++)
        if (!parts[s]) return NULL;
    fa_tensor *base = fa_reshape(fa_cat(parts, sides + 1, -1), FA_SHAPE(1, -1, sides + 1));
    fa_tensor *r = fa_matmul(base, fa_transpose(theta, 1, 2));
    fa_shape shape = {.ndim = sides + 2};
    shape.dim[0] = size.dim[0], shape.dim[sides + 1] = sides;
    for (int d = 0; d < sides; d++) shape.dim[d + 1] = size.dim[d + 2];
    return fa_keep(fa_cast(fa_reshape(r, shape), dtype));
}
