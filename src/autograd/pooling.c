/* Pooling in terms of fa_max_pool2d and fa_avg_pool2d: a line is a plane of one row; a volume is pooled in its planes first, then
 * along its depth. Adaptive pooling, whose windows differ in length, gathers each window by an index. */
#include "sides.h"
#include <math.h>

/* x, floating, with channels before its sides. */
static bool begin_empty(const char *op, fa_tensor *x, int sides) {
    char shape[160];
    if (!fai_begin1(op, "x", x)) return false;
    fai_text_shape(shape, sizeof shape, x->ndim, x->size);
    if (x->ndim != sides + 1 && x->ndim != sides + 2)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "%s: Expected %dD or %dD (batch mode) tensor with optional 0 dim batch size for input, but got:%s. Channels "
            "stand before the last %d dimension%s",
            op, sides + 1, sides + 2, shape, sides, sides == 1 ? "" : "s");
    if (fai_is_float(x->dtype)) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op, "\"%s\" not implemented for '%s'. It takes floating tensors: fa_cast(x, FA_FLOAT32)",
                    op, fai_dtype_title((fa_dtype)x->dtype));
}

/* Nothing but the first dimension may be empty. */
static bool is_there(const char *op, const fa_tensor *x) {
    char shape[160];
    fai_text_shape(shape, sizeof shape, x->ndim, x->size);
    for (int d = 1; d < x->ndim; d++)
        if (x->size[d] == 0)
            return fai_fail(
                FA_ERR_RUNTIME, op,
                "%s(): Expected input to have non-zero size for non-batch dimensions, but input has sizes %s with dimension "
                "%d being empty",
                op, shape, d);
    return true;
}

static bool begin(const char *op, fa_tensor *x, int sides) { return begin_empty(op, x, sides) && is_there(op, x); }

/* ---- windows of one size ---- */

typedef struct window {
    int64_t kernel[FAI_MAX_SIDES], stride[FAI_MAX_SIDES], padding[FAI_MAX_SIDES], dilation[FAI_MAX_SIDES];
} window;

static bool window_of(const char *op, int sides, window *w, fa_shape kernel, fa_shape stride, fa_shape padding,
                      fa_shape dilation) {
    return fai_sides(op, "kernel_size", kernel, sides, 1, w->kernel) &&
           fai_sides(op, "stride", stride.ndim ? stride : kernel, sides, 1, w->stride) &&
           fai_sides(op, "padding", padding, sides, 0, w->padding) && fai_sides(op, "dilation", dilation, sides, 1, w->dilation);
}

fa_tensor *fai_max_pool1d(fa_tensor *x, fa_shape kernel, fa_shape stride, fa_shape padding, fa_shape dilation, bool ceil_mode,
                          fa_tensor **indices) {
    FAI_CALLED("max_pool1d");
    window w;
    fa_tensor *at = NULL;
    if (!begin("max_pool1d", x, 1) || !window_of("max_pool1d", 1, &w, kernel, stride, padding, dilation)) return NULL;
    FA_SCOPE;
    fa_tensor *r =
        fai_max_pool2d(fai_raised(x), fai_raised_sides(1, w.kernel[0]), fai_raised_sides(1, w.stride[0]),
                       fai_raised_sides(0, w.padding[0]), fai_raised_sides(1, w.dilation[0]), ceil_mode, indices ? &at : NULL);
    r = fa_squeeze_dim(r, -2);
    if (r && indices && !(*indices = fa_keep(fa_squeeze_dim(at, -2)))) return NULL;
    return fa_keep(r);
}

fa_tensor *fai_plain_avg_pool1d(fa_tensor *x, fa_shape kernel, fa_shape stride, fa_shape padding, bool ceil_mode,
                          bool count_include_pad) {
    FAI_CALLED("avg_pool1d");
    window w;
    if (!begin("avg_pool1d", x, 1) || !window_of("avg_pool1d", 1, &w, kernel, stride, padding, FA_SHAPE(1))) return NULL;
    FA_SCOPE;
    fa_tensor *r = fai_avg_pool2d(fai_raised(x), fai_raised_sides(1, w.kernel[0]), fai_raised_sides(1, w.stride[0]),
                                  fai_raised_sides(0, w.padding[0]), ceil_mode, count_include_pad);
    return fa_keep(fa_squeeze_dim(r, -2));
}

/* [..., c, d, h, w] as [volumes, d, h, w]. */
static fa_tensor *volumes(fa_tensor *x) {
    if (!x) return NULL;
    const int64_t *side = &x->size[x->ndim - 3];
    int64_t n = 1;
    for (int i = 0; i < x->ndim - 3; i++) n *= x->size[i];
    return fa_reshape(x, FA_SHAPE(n, side[0], side[1], side[2]));
}

/* [volumes, d, h, w] as [volumes, 1, d, h w]: the depth as one side of a plane. */
static fa_tensor *depth_as_side(fa_tensor *planes) {
    return planes ? fa_reshape(planes, FA_SHAPE(planes->size[0], 1, planes->size[1], planes->size[2] * planes->size[3])) : NULL;
}

/* The shape of a pooled x: its own, with the sides of planes [volumes, d, h, w] and the depth of pooled [volumes, 1, d', h w]. */
static fa_shape pooled_shape(const fa_tensor *x, const fa_tensor *planes, const fa_tensor *pooled) {
    fa_shape s = fa_shape_of_tensor(x);
    s.dim[s.ndim - 3] = pooled->size[2], s.dim[s.ndim - 2] = planes->size[2], s.dim[s.ndim - 1] = planes->size[3];
    return s;
}

/* at_depth counts d * (h w) + place; at_plane holds for each of these its place within a plane of x. */
static fa_tensor *volume_indices(const fa_tensor *x, fa_tensor *at_plane, fa_tensor *at_depth) {
    if (!at_plane || !at_depth) return NULL;
    const int64_t places = at_depth->size[3], plane = x->size[x->ndim - 2] * x->size[x->ndim - 1];
    fa_tensor *flat = fa_flatten(at_depth, 1, -1), *place = fa_gather(fa_flatten(at_plane, 1, -1), 1, flat);
    fa_tensor *depth = fai_row2(FAI_ROW_floor_divide, fai_of(flat), (fai_operand){.scalar = fa_scalar_of_int(places)});
    return fa_add(fai_row2(FAI_ROW_mul, fai_of(depth), (fai_operand){.scalar = fa_scalar_of_int(plane)}), place);
}

fa_tensor *fai_plain_max_pool3d(fa_tensor *x, fa_shape kernel, fa_shape stride, fa_shape padding, fa_shape dilation, bool ceil_mode,
                          fa_tensor **indices) {
    FAI_CALLED("max_pool3d");
    window w;
    fa_tensor *at_plane = NULL, *at_depth = NULL;
    if (!begin("max_pool3d", x, 3) || !window_of("max_pool3d", 3, &w, kernel, stride, padding, dilation)) return NULL;
    FA_SCOPE;
    fa_tensor *planes =
        fai_max_pool2d(volumes(x), FA_SHAPE(w.kernel[1], w.kernel[2]), FA_SHAPE(w.stride[1], w.stride[2]),
                       FA_SHAPE(w.padding[1], w.padding[2]), FA_SHAPE(w.dilation[1], w.dilation[2]), ceil_mode, &at_plane);
    fa_tensor *r = fai_max_pool2d(depth_as_side(planes), FA_SHAPE(w.kernel[0], 1), FA_SHAPE(w.stride[0], 1),
                                  FA_SHAPE(w.padding[0], 0), FA_SHAPE(w.dilation[0], 1), ceil_mode, &at_depth);
    if (!r) return NULL;
    const fa_shape shape = pooled_shape(x, planes, r);
    r = fa_reshape(r, shape);
    if (r && indices && !(*indices = fa_keep(fa_reshape(volume_indices(x, at_plane, at_depth), shape)))) return NULL;
    return fa_keep(r);
}

fa_tensor *fai_plain_avg_pool3d(fa_tensor *x, fa_shape kernel, fa_shape stride, fa_shape padding, bool ceil_mode,
                          bool count_include_pad) {
    FAI_CALLED("avg_pool3d");
    window w;
    if (!begin("avg_pool3d", x, 3) || !window_of("avg_pool3d", 3, &w, kernel, stride, padding, FA_SHAPE(1))) return NULL;
    FA_SCOPE;
    fa_tensor *planes =
        fai_avg_pool2d(volumes(fai_widened(x)), FA_SHAPE(w.kernel[1], w.kernel[2]), FA_SHAPE(w.stride[1], w.stride[2]),
                       FA_SHAPE(w.padding[1], w.padding[2]), ceil_mode, count_include_pad);
    fa_tensor *r = fai_avg_pool2d(depth_as_side(planes), FA_SHAPE(w.kernel[0], 1), FA_SHAPE(w.stride[0], 1),
                                  FA_SHAPE(w.padding[0], 0), ceil_mode, count_include_pad);
    return r ? fa_keep(fa_cast(fa_reshape(r, pooled_shape(x, planes, r)), (fa_dtype)x->dtype)) : NULL;
}

/* ---- power averages ---- */

static fa_tensor *power_pool(const char *op, int sides, fa_tensor *x, double norm_type, fa_shape kernel, fa_shape stride,
                             bool ceil_mode) {
    FAI_CALLED(op);
    int64_t k[FAI_MAX_SIDES];
    double count = 1;
    if (!fai_begin1(op, "x", x) || !fai_sides(op, "kernel_size", kernel, sides, 1, k)) return NULL;
    for (int s = 0; s < sides; s++) count *= (double)k[s];
    if (!stride.ndim) stride = kernel;
    FA_SCOPE;
    const fa_shape no_padding = FA_SHAPE(0);
    fa_tensor *powers = fai_row2(FAI_ROW_pow, fai_of(x), fai_number(norm_type));
    if (!powers || !begin(op, powers, sides)) return NULL;
    fa_tensor *mean = sides == 1   ? fai_avg_pool1d(powers, kernel, stride, no_padding, ceil_mode, true)
                      : sides == 2 ? fai_avg_pool2d(powers, kernel, stride, no_padding, ceil_mode, true)
                                   : fai_avg_pool3d(powers, kernel, stride, no_padding, ceil_mode, true);
    fa_tensor *total = fai_multiply(fa_mul(fa_sign(mean), fa_relu(fa_abs(mean))), count);
    return fa_keep(fai_row2(FAI_ROW_pow, fai_of(total), fai_number(1 / norm_type)));
}

fa_tensor *fai_plain_lp_pool1d(fa_tensor *x, double norm_type, fa_shape kernel, fa_shape stride, bool ceil_mode) {
    return power_pool("lp_pool1d", 1, x, norm_type, kernel, stride, ceil_mode);
}
fa_tensor *fai_plain_lp_pool2d(fa_tensor *x, double norm_type, fa_shape kernel, fa_shape stride, bool ceil_mode) {
    return power_pool("lp_pool2d", 2, x, norm_type, kernel, stride, ceil_mode);
}
fa_tensor *fai_plain_lp_pool3d(fa_tensor *x, double norm_type, fa_shape kernel, fa_shape stride, bool ceil_mode) {
    return power_pool("lp_pool3d", 3, x, norm_type, kernel, stride, ceil_mode);
}

/* ---- back to where the largest stood ---- */

static bool unpool_fits(const char *op, int sides, const fa_tensor *x, const fa_tensor *indices, const window *w,
                        fa_shape output_size, int64_t *out) {
    char found[160], wanted[160];
    if (indices->dtype != FA_INT64)
        return fai_fail(FA_ERR_RUNTIME, op, "elements in indices should be type int64 but got: %s",
                        fai_dtype_title((fa_dtype)indices->dtype));
    if (!fai_same_shape(x, indices)) {
        fai_text_shape(wanted, sizeof wanted, x->ndim, x->size);
        fai_text_shape(found, sizeof found, indices->ndim, indices->size);
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Expected shape of indices to be same as that of the input tensor (%s) but got indices tensor with shape: %s", wanted,
            found);
    }
    if (output_size.ndim && output_size.ndim != sides)
        return fai_fail(FA_ERR_VALUE, op,
                        "output_size should be a sequence containing %d or %d elements, but it has a length of '%d'", sides,
                        sides + 2, (int)output_size.ndim);
    for (int s = 0; s < sides; s++) {
        const int64_t usual = (x->size[x->ndim - sides + s] - 1) * w->stride[s] + w->kernel[s] - 2 * w->padding[s];
        out[s] = output_size.ndim ? output_size.dim[s] : usual;
        if (output_size.ndim && (out[s] <= usual - w->stride[s] || out[s] >= usual + w->stride[s]))
            return fai_fail(FA_ERR_VALUE, op, "invalid output_size: %lld (dim %d must be between %lld and %lld)",
                            (long long)out[s], s, (long long)(usual - w->stride[s]), (long long)(usual + w->stride[s]));
    }
    return true;
}

static fa_tensor *unpool(const char *op, int sides, fa_tensor *x, fa_tensor *indices, fa_shape kernel, fa_shape stride,
                         fa_shape padding, fa_shape output_size) {
    FAI_CALLED(op);
    window w;
    int64_t out[FAI_MAX_SIDES], places = 1;
    if (!fai_begin2(op, "x", x, "indices", indices) || !begin(op, x, sides) ||
        !window_of(op, sides, &w, kernel, stride, padding, FA_SHAPE(1)) ||
        !unpool_fits(op, sides, x, indices, &w, output_size, out))
        return NULL;
    FA_SCOPE;
    fa_shape flat = {.ndim = x->ndim - sides + 1}, full = fa_shape_of_tensor(x);
    for (int s = 0; s < sides; s++) {
        full.dim[x->ndim - sides + s] = out[s];
        if (!fai_mul(places, out[s], &places)) places = INT64_MAX; /* refused where it is allocated */
    }
    for (int d = 0; d < flat.ndim; d++) flat.dim[d] = d + 1 < flat.ndim ? x->size[d] : places;
    fa_tensor *r = fa_scatter(fai_zeros_of(x, flat), -1, fa_flatten(indices, -sides, -1), fa_flatten(x, -sides, -1));
    return fa_keep(fa_reshape(r, full));
}

fa_tensor *fai_plain_max_unpool1d(fa_tensor *x, fa_tensor *indices, fa_shape kernel, fa_shape stride, fa_shape padding,
                            fa_shape output_size) {
    return unpool("max_unpool1d", 1, x, indices, kernel, stride, padding, output_size);
}
fa_tensor *fai_plain_max_unpool2d(fa_tensor *x, fa_tensor *indices, fa_shape kernel, fa_shape stride, fa_shape padding,
                            fa_shape output_size) {
    return unpool("max_unpool2d", 2, x, indices, kernel, stride, padding, output_size);
}
fa_tensor *fai_plain_max_unpool3d(fa_tensor *x, fa_tensor *indices, fa_shape kernel, fa_shape stride, fa_shape padding,
                            fa_shape output_size) {
    return unpool("max_unpool3d", 3, x, indices, kernel, stride, padding, output_size);
}

/* ---- windows as long as needed for a given number of them ---- */

/* Window i of out over size elements; the longest of all: where the remainder of i * size is the largest multiple of the
 * divisor. */
static int64_t first_of(int64_t i, int64_t size, int64_t out) { return i * size / out; }
static int64_t end_of(int64_t i, int64_t size, int64_t out) { return ((i + 1) * size + out - 1) / out; }
static int64_t longest(int64_t size, int64_t out) {
    int64_t divisor = size, other = out;
    while (other) {
        const int64_t rest = divisor % other;
        divisor = other, other = rest;
    }
    return (size - divisor + (out - 1)) / out + 1;
}

/* out[s] of output_size, whose -1 keeps x's size; *uniform: all windows have one size. */
static bool sizes_wanted(const char *op, const fa_tensor *x, int sides, fa_shape output_size, int64_t *out, bool *uniform) {
    if (output_size.ndim != 1 && output_size.ndim != sides)
        return fai_fail(FA_ERR_RUNTIME, op, "%s: output_size must be %d, but it has %d numbers", op, sides,
                        (int)output_size.ndim);
    *uniform = true;
    for (int s = 0; s < sides; s++) {
        const int64_t size = x->size[x->ndim - sides + s];
        out[s] = output_size.dim[output_size.ndim == 1 ? 0 : s];
        if (out[s] == -1) out[s] = size;
        if (out[s] < 0)
            return fai_fail(FA_ERR_RUNTIME, op,
                            "%s: elements of output_size must be greater than or equal to 0 but received %lld", op,
                            (long long)out[s]);
        *uniform = *uniform && out[s] > 0 && size % out[s] == 0;
    }
    return true;
}

/* Dimension d of x becomes out windows [out, longest]; a window that is shorter repeats its last element. */
static fa_tensor *windows_along(const char *op, fa_tensor *x, int d, int64_t out) {
    if (!x || out == 0) return NULL;
    const int64_t size = x->size[d], most = longest(size, out), shape[2] = {out, most};
    fa_tensor *from = fai_empty(op, FA_INT64, FA_CPU, 2, shape);
    if (!from) return NULL;
    int64_t *index = fa_data(from);
    for (int64_t i = 0; i < out; i++)
        for (int64_t k = 0; k < most; k++) {
            const int64_t at = first_of(i, size, out) + k, last = end_of(i, size, out) - 1;
            *index++ = at < last ? at : last;
        }
    return fa_unflatten(fa_index_select(x, d, fai_constant(fa_flatten(from, 0, -1), x->device)), d, FA_SHAPE(out, most));
}

/* The mean of each window along d. */
static fa_tensor *means_along(const char *op, fa_tensor *x, int d, int64_t out) {
    if (!x) return NULL;
    if (out == 0) return fa_slice(x, d, 0, 0, 1);
    const int64_t size = x->size[d], most = longest(size, out), shape[2] = {out, most};
    fa_tensor *shares = fai_empty(op, FA_FLOAT64, FA_CPU, 2, shape);
    if (!shares) return NULL;
    double *share = fa_data(shares);
    for (int64_t i = 0; i < out; i++)
        for (int64_t k = 0, length = end_of(i, size, out) - first_of(i, size, out); k < most; k++)
            *share++ = k < length ? 1 / (double)length : 0;
    fa_shape along = {.ndim = x->ndim + 1 - d, .dim = {out, most, 1, 1, 1, 1, 1, 1}};
    shares = fa_reshape(fai_constant(fa_cast(shares, (fa_dtype)x->dtype), x->device), along);
    return fa_sum_dims(fa_mul(windows_along(op, x, d, out), shares), FA_DIMS(d + 1), false);
}

static fa_tensor *adaptive_mean(const char *op, int sides, fa_tensor *x, fa_shape output_size) {
    FAI_CALLED(op);
    int64_t out[FAI_MAX_SIDES];
    bool uniform, one = true;
    if (!begin_empty(op, x, sides) || !sizes_wanted(op, x, sides, output_size, out, &uniform)) return NULL;
    fa_shape kernel = {.ndim = sides}, dims = {.ndim = sides};
    for (int s = 0; s < sides; s++) {
        dims.dim[s] = s - sides;
        one = one && out[s] == 1;
        kernel.dim[s] = uniform ? x->size[x->ndim - sides + s] / out[s] : 0;
    }
    if (one) return fa_mean_dims(x, dims, true); /* of nothing too, as torch has it */
    if (!is_there(op, x)) return NULL;
    const fa_shape no_padding = FA_SHAPE(0);
    if (uniform)
        return sides == 1   ? fai_avg_pool1d(x, kernel, kernel, no_padding, false, true)
               : sides == 2 ? fai_avg_pool2d(x, kernel, kernel, no_padding, false, true)
                            : fai_avg_pool3d(x, kernel, kernel, no_padding, false, true);
    FA_SCOPE;
    fa_tensor *r = fai_widened(x);
    for (int s = sides - 1; s >= 0; s--) r = means_along(op, r, x->ndim - sides + s, out[s]);
    return fa_keep(fa_cast(r, (fa_dtype)x->dtype));
}

fa_tensor *fai_plain_adaptive_avg_pool1d(fa_tensor *x, fa_shape output_size) {
    return adaptive_mean("adaptive_avg_pool1d", 1, x, output_size);
}
fa_tensor *fai_plain_adaptive_avg_pool2d(fa_tensor *x, fa_shape output_size) {
    return adaptive_mean("adaptive_avg_pool2d", 2, x, output_size);
}
fa_tensor *fai_plain_adaptive_avg_pool3d(fa_tensor *x, fa_shape output_size) {
    return adaptive_mean("adaptive_avg_pool3d", 3, x, output_size);
}

/* For each window its elements' positions within x's sides, [windows..., elements...]. */
static fa_tensor *places(const char *op, fa_tensor *x, int sides, const int64_t *out) {
    fa_shape shape = {.ndim = sides};
    int64_t n = 1;
    for (int s = 0; s < sides; s++) n *= shape.dim[s] = x->size[x->ndim - sides + s];
    fa_tensor *t = fa_reshape(fa_arange(0, n, 1, .dtype = FA_INT64, .device = x->device), shape);
    for (int s = sides - 1; s >= 0; s--) t = windows_along(op, t, s, out[s]);
    return t;
}

/* [..., out, longest, out, longest, ...] as [..., out, out, ..., elements of a window]. */
static fa_tensor *windows_last(fa_tensor *t, int sides) {
    if (!t) return NULL;
    fa_shape order = {.ndim = t->ndim};
    const int lead = t->ndim - 2 * sides;
    for (int d = 0; d < lead; d++) order.dim[d] = d;
    for (int s = 0; s < sides; s++) order.dim[lead + s] = lead + 2 * s, order.dim[lead + sides + s] = lead + 2 * s + 1;
    return fa_flatten(fa_permute(t, order), -sides, -1);
}

static fa_tensor *adaptive_max(const char *op, int sides, fa_tensor *x, fa_shape output_size, fa_tensor **indices) {
    FAI_CALLED(op);
    int64_t out[FAI_MAX_SIDES];
    bool uniform, nothing = false;
    fa_tensor *at = NULL;
    if (!begin(op, x, sides) || !sizes_wanted(op, x, sides, output_size, out, &uniform)) return NULL;
    FA_SCOPE;
    fa_shape shape = fa_shape_of_tensor(x);
    for (int s = 0; s < sides; s++) {
        shape.dim[x->ndim - sides + s] = out[s];
        nothing = nothing || out[s] == 0;
    }
    if (nothing) {
        if (indices && !(*indices = fa_keep(fa_zeros(shape, .dtype = FA_INT64, .device = x->device)))) return NULL;
        return fa_keep(fai_zeros_of(x, shape));
    }
    fa_tensor *windows = x;
    for (int s = sides - 1; s >= 0; s--) windows = windows_along(op, windows, x->ndim - sides + s, out[s]);
    fa_tensor *r = fa_max_dim(windows_last(windows, sides), -1, false, &at);
    if (!r || !indices) return fa_keep(r);
    fa_tensor *from = windows_last(places(op, x, sides, out), sides);
    if (!from) return NULL;
    shape.dim[shape.ndim++] = from->size[sides];
    from = fa_squeeze_dim(fa_gather(fa_expand(from, shape), -1, fa_unsqueeze(at, -1)), -1);
    return (*indices = fa_keep(from)) ? fa_keep(r) : NULL;
}

fa_tensor *fai_adaptive_max_pool1d(fa_tensor *x, fa_shape output_size, fa_tensor **indices) {
    return adaptive_max("adaptive_max_pool1d", 1, x, output_size, indices);
}
fa_tensor *fai_adaptive_max_pool2d(fa_tensor *x, fa_shape output_size, fa_tensor **indices) {
    return adaptive_max("adaptive_max_pool2d", 2, x, output_size, indices);
}
fa_tensor *fai_plain_adaptive_max_pool3d(fa_tensor *x, fa_shape output_size, fa_tensor **indices) {
    return adaptive_max("adaptive_max_pool3d", 3, x, output_size, indices);
}
