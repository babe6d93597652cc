/* Convolution of one and three dimensions and transposed convolution, in terms of fa_conv2d and its derivative towards the input.
 * One dimension is a plane of one row. Three are two: windows along the depth become channels. The transposed convolution is
 * conv2d's derivative; in three dimensions it adds windows along the depth back into place. */
#include "sides.h"

typedef struct geometry {
    const char *op;
    int sides;
    bool transposed;
    int64_t stride[FAI_MAX_SIDES], padding[FAI_MAX_SIDES], dilation[FAI_MAX_SIDES], output_padding[FAI_MAX_SIDES], groups;
} geometry;

/* ---- what is allowed ---- */

bool fai_sides(const char *op, const char *argument, fa_shape given, int sides, int64_t least, int64_t out[FAI_MAX_SIDES]) {
    char shape[160];
    if (given.ndim != 1 && given.ndim != sides) {
        fai_text_shape(shape, sizeof shape, given.ndim < 0 || given.ndim > FA_MAX_DIMS ? 0 : given.ndim, given.dim);
        return fai_fail(FA_ERR_RUNTIME, op, "expected %s to be a single integer value or a list of %d values, but got %s=%s",
                        argument, sides, argument, shape);
    }
    for (int s = 0; s < sides; s++) {
        out[s] = given.dim[given.ndim == 1 ? 0 : s];
        if (out[s] > INT32_MAX)
            return fai_fail(FA_ERR_RUNTIME, op, "integer out of range: %s of %lld, at most 2147483647 is possible", argument,
                            (long long)out[s]);
        if (out[s] >= least) continue;
        return least ? fai_fail(FA_ERR_RUNTIME, op, "non-positive %s is not supported: got %lld, give 1 or more", argument,
                                (long long)out[s])
                     : fai_fail(FA_ERR_RUNTIME, op, "negative %s is not supported: got %lld", argument, (long long)out[s]);
    }
    return true;
}

bool fai_batch_or_not(const char *op, const fa_tensor *x, int sides) {
    char shape[160];
    if (x->ndim == sides + 1 || x->ndim == sides + 2) return true;
    fai_text_shape(shape, sizeof shape, x->ndim, x->size);
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s. Channels stand before the last "
        "%d dimension%s",
        sides + 1, sides + 2, op, shape, sides, sides == 1 ? "" : "s");
}

static bool options(geometry *g, fa_shape stride, fa_shape padding, fa_shape dilation, int64_t groups) {
    if (groups <= 0)
        return fai_fail(FA_ERR_RUNTIME, g->op, "non-positive groups is not supported: groups is %lld, it must be 1 or more",
                        (long long)groups);
    g->groups = groups;
    return fai_sides(g->op, "stride", stride, g->sides, 1, g->stride) &&
           fai_sides(g->op, "padding", padding, g->sides, 0, g->padding) &&
           fai_sides(g->op, "dilation", dilation, g->sides, 1, g->dilation);
}

/* weight [o, c / groups, ...], or [c, o / groups, ...] of a transposed convolution. */
static bool weight_fits(const geometry *g, const fa_tensor *x, const fa_tensor *weight) {
    char shape[160], input[160];
    fai_text_shape(shape, sizeof shape, weight->ndim, weight->size);
    fai_text_shape(input, sizeof input, x->ndim, x->size);
    if (weight->ndim != g->sides + 2)
        return fai_fail(
            FA_ERR_RUNTIME, g->op,
            "Expected %d-dimensional input for %d-dimensional weight %s, but got %d-dimensional input of size %s instead. "
            "The weight has %d dimensions",
            weight->ndim, weight->ndim, shape, x->ndim, input, g->sides + 2);
    if (weight->size[0] % g->groups || weight->size[0] < g->groups)
        return fai_fail(
            FA_ERR_RUNTIME, g->op,
            "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got weight of size [%s] instead",
            (long long)g->groups, (long long)g->groups, shape);
    const int64_t channels = x->size[x->ndim - g->sides - 1];
    const int64_t wanted = g->transposed ? weight->size[0] : weight->size[1] * g->groups;
    if (channels == wanted) return true;
    return fai_fail(FA_ERR_RUNTIME, g->op,
                    "Given %s=%lld, weight of size %s, expected input%s to have %lld channels, but got %lld channels instead",
                    g->transposed ? "transposed" : "groups", g->transposed ? 1LL : (long long)g->groups, shape, input,
                    (long long)wanted, (long long)channels);
}

static bool bias_fits(const geometry *g, const fa_tensor *weight, const fa_tensor *bias) {
    const int64_t wanted = g->transposed ? weight->size[1] * g->groups : weight->size[0];
    if (!bias || (bias->ndim == 1 && bias->size[0] == wanted)) return true;
    char shape[160], bias_shape[160];
    fai_text_shape(shape, sizeof shape, weight->ndim, weight->size);
    fai_text_shape(bias_shape, sizeof bias_shape, bias->ndim, bias->size);
    return fai_fail(
        FA_ERR_RUNTIME, g->op,
        "Given weight of size %s, expected bias to be 1-dimensional with %lld elements, but got bias of size %s instead", shape,
        (long long)wanted, bias_shape);
}

/* "(4 x 5)" */
static const char *sides_text(char out[96], int sides, const int64_t *size) {
    size_t at = (size_t)snprintf(out, 96, "(");
    for (int s = 0; s < sides; s++) at += (size_t)snprintf(out + at, 96 - at, s ? " x %lld" : "%lld", (long long)size[s]);
    snprintf(out + at, 96 - at, ")");
    return out;
}

static bool window_fits(const geometry *g, const fa_tensor *x, const fa_tensor *weight) {
    int64_t padded[FAI_MAX_SIDES], reach[FAI_MAX_SIDES];
    bool fits = true;
    char sizes[96], window[96];
    for (int s = 0; s < g->sides; s++) {
        padded[s] = x->size[x->ndim - g->sides + s] + 2 * g->padding[s];
        reach[s] = g->dilation[s] * (weight->size[2 + s] - 1) + 1;
        fits = fits && weight->size[2 + s] > 0 && padded[s] >= reach[s];
    }
    if (fits) return true;
    return fai_fail(
        FA_ERR_RUNTIME, g->op,
        "Calculated padded input size per channel: %s. Kernel size: %s. Kernel size can't be greater than actual input "
        "size, nor 0: use a larger input, more padding, or a smaller kernel",
        sides_text(sizes, g->sides, padded), sides_text(window, g->sides, reach));
}

static bool begin(const geometry *g, fa_tensor *x, fa_tensor *weight, fa_tensor *bias) {
    const char *const names[] = {"x", "weight", "bias"};
    if (!fai_op_begin(g->op, 3, names, (fa_tensor *const[]){x, weight, bias}, 4) || !fai_batch_or_not(g->op, x, g->sides))
        return false;
    const fa_tensor *other = weight->dtype != x->dtype ? weight : bias && bias->dtype != x->dtype ? bias : NULL;
    if (!other) return true;
    return fai_fail(
        FA_ERR_RUNTIME, g->op,
        "Input type (%s) and %s type (%s) should be the same. Convert the input or the layer: fa_cast, fa_module_to_dtype",
        fai_dtype_title((fa_dtype)x->dtype), other == weight ? "weight" : "bias", fai_dtype_title((fa_dtype)other->dtype));
}

/* ---- one dimension ---- */

fa_tensor *fai_plain_conv1d(fa_tensor *x, fa_tensor *weight, fa_tensor *bias, fa_shape stride, fa_shape padding, fa_shape dilation,
                      int64_t groups) {
    FAI_CALLED("conv1d");
    geometry g = {.op = "conv1d", .sides = 1};
    if (!begin(&g, x, weight, bias) || !options(&g, stride, padding, dilation, groups) || !weight_fits(&g, x, weight) ||
        !bias_fits(&g, weight, bias) || !window_fits(&g, x, weight))
        return NULL;
    FA_SCOPE;
    fa_tensor *r = fai_conv2d(fai_raised(x), fai_raised(weight), bias, fai_raised_sides(1, g.stride[0]),
                              fai_raised_sides(0, g.padding[0]), fai_raised_sides(1, g.dilation[0]), groups);
    return fa_keep(fa_squeeze_dim(r, -2));
}

/* ---- three dimensions ---- */

/* x [n, c, d, h, w], padded along d, as windows: [n, d', c, kd, h, w]. */
static fa_tensor *depth_windows(const geometry *g, fa_tensor *x, int64_t depth) {
    x = g->padding[0] ? fai_pad(x, FA_SHAPE(0, 0, 0, 0, g->padding[0], g->padding[0]), "constant", 0) : x;
    const int64_t reach = g->dilation[0] * (depth - 1) + 1;
    x = fa_unfold(x, 2, reach, g->stride[0]);
    if (g->dilation[0] > 1) x = fa_slice(x, -1, 0, reach, g->dilation[0]);
    return fa_permute(x, FA_DIMS(0, 2, 1, 5, 3, 4));
}

fa_tensor *fai_plain_conv3d(fa_tensor *x, fa_tensor *weight, fa_tensor *bias, fa_shape stride, fa_shape padding, fa_shape dilation,
                      int64_t groups) {
    FAI_CALLED("conv3d");
    geometry g = {.op = "conv3d", .sides = 3};
    if (!begin(&g, x, weight, bias) || !options(&g, stride, padding, dilation, groups) || !weight_fits(&g, x, weight) ||
        !bias_fits(&g, weight, bias) || !window_fits(&g, x, weight))
        return NULL;
    FA_SCOPE;
    const bool batched = x->ndim == 5;
    const int64_t *k = weight->size;
    x = depth_windows(&g, batched ? x : fa_unsqueeze(x, 0), k[2]);
    if (!x) return NULL;
    const int64_t images = x->size[0], depth = x->size[1];
    x = fa_reshape(x, FA_SHAPE(images * depth, x->size[2] * k[2], x->size[4], x->size[5]));
    fa_tensor *r =
        fai_conv2d(x, fa_reshape(weight, FA_SHAPE(k[0], k[1] * k[2], k[3], k[4])), bias, FA_SHAPE(g.stride[1], g.stride[2]),
                   FA_SHAPE(g.padding[1], g.padding[2]), FA_SHAPE(g.dilation[1], g.dilation[2]), groups);
    if (!r) return NULL;
    r = fa_permute(fa_reshape(r, FA_SHAPE(images, depth, k[0], r->size[2], r->size[3])), FA_DIMS(0, 2, 1, 3, 4));
    return fa_keep(fa_contiguous(batched ? r : fa_squeeze_dim(r, 0)));
}

/* ---- the size of x kept ---- */

fa_tensor *fai_plain_conv_same(fa_tensor *x, fa_tensor *weight, fa_tensor *bias, fa_shape dilation, int64_t groups) {
    static const char *const ops[] = {"conv1d", "conv2d", "conv3d"};
    if (!fai_begin2("conv_same", "x", x, "weight", weight)) return NULL;
    const int sides = weight->ndim - 2;
    if (sides < 1 || sides > 3)
        return fai_fail(FA_ERR_RUNTIME, "conv_same",
                        "weight must have 3, 4 or 5 dimensions, for conv1d, conv2d or conv3d, but has %d", weight->ndim);
    const char *op = ops[sides - 1];
    FAI_CALLED(op);
    int64_t dilations[FAI_MAX_SIDES];
    if (!fai_batch_or_not(op, x, sides) || !fai_sides(op, "dilation", dilation, sides, 1, dilations)) return NULL;
    fa_shape padding = {.ndim = sides}, more = {.ndim = 2 * sides};
    bool uneven = false;
    for (int s = 0; s < sides; s++) {
        const int64_t total = dilations[s] * (weight->size[2 + s] - 1);
        padding.dim[s] = total > 0 ? total / 2 : 0;
        more.dim[2 * (sides - 1 - s) + 1] = total > 0 ? total % 2 : 0; /* the odd one goes behind */
        uneven |= total > 0 && total % 2;
    }
    FA_SCOPE;
    if (uneven) x = fai_pad(x, more, "constant", 0);
    const fa_shape one = FA_SHAPE(1);
    return fa_keep(sides == 1   ? fai_conv1d(x, weight, bias, one, padding, dilation, groups)
                   : sides == 2 ? fai_conv2d(x, weight, bias, one, padding, dilation, groups)
                                : fai_conv3d(x, weight, bias, one, padding, dilation, groups));
}

/* ---- transposed ---- */

static bool output_padding_fits(const geometry *g) {
    bool fits = true;
    char padding[96], stride[96], dilation[96];
    for (int s = 0; s < g->sides; s++)
        fits = fits && (g->output_padding[s] < g->stride[s] || g->output_padding[s] < g->dilation[s]);
    if (fits) return true;
    return fai_fail(
        FA_ERR_RUNTIME, g->op,
        "output padding must be smaller than either stride or dilation, but got output_padding %s, stride %s, dilation %s",
        sides_text(padding, g->sides, g->output_padding), sides_text(stride, g->sides, g->stride),
        sides_text(dilation, g->sides, g->dilation));
}

/* The size of side s; -1 and torch's sentence where it is none. */
static bool output_sizes(const geometry *g, const fa_tensor *x, const fa_tensor *weight, int64_t *out) {
    for (int s = 0; s < g->sides; s++) {
        const int64_t n = x->size[x->ndim - g->sides + s], reach = g->dilation[s] * (weight->size[2 + s] - 1) + 1;
        out[s] = (n - 1) * g->stride[s] - 2 * g->padding[s] + reach + g->output_padding[s];
        if (n > 0 && weight->size[2 + s] > 0 && out[s] > 0) continue;
        return fai_fail(
            FA_ERR_RUNTIME, g->op,
            "Given input size per channel: %lld. Calculated output size per channel: %lld. Output size is too small: side %d",
            (long long)n, (long long)out[s], s);
    }
    return true;
}

/* Of two dimensions, without bias. Where more is added behind than a stride, conv2d's derivative does not reach it: it is made
 * without padding and cut out. */
static fa_tensor *transposed_plane(fa_tensor *x, fa_tensor *weight, const int64_t *out, const int64_t *stride,
                                   const int64_t *padding, const int64_t *dilation, const int64_t *more, int64_t groups) {
    if (!x || !weight) return NULL;
    fa_shape shape = fa_shape_of_tensor(x);
    const int c = shape.ndim - 3;
    const bool plain = more[0] < stride[0] && more[1] < stride[1];
    shape.dim[c] = weight->size[1] * groups;
    for (int s = 0; s < 2; s++) shape.dim[c + 1 + s] = plain ? out[s] : out[s] - more[s] + 2 * padding[s];
    fa_tensor *r =
        fa_conv2d_input(x, weight, shape, FA_SHAPE(stride[0], stride[1]),
                        plain ? FA_SHAPE(padding[0], padding[1]) : FA_SHAPE(0, 0), FA_SHAPE(dilation[0], dilation[1]), groups);
    if (plain) return r;
    return fai_pad(r, FA_SHAPE(-padding[1], more[1] - padding[1], -padding[0], more[0] - padding[0]), "constant", 0);
}

/* x [n, c, d, h, w]: every depth is a plane that gives kd planes, which are added where they belong. */
static fa_tensor *transposed_volume(const geometry *g, fa_tensor *x, fa_tensor *weight, const int64_t *out) {
    if (!x) return NULL;
    const int64_t images = x->size[0], depth = x->size[2], kd = weight->size[2], o = weight->size[1] * g->groups;
    const int64_t reach = g->dilation[0] * (kd - 1) + 1, full = (depth - 1) * g->stride[0] + reach;
    fa_tensor *planes =
        fa_reshape(fa_permute(x, FA_DIMS(0, 2, 1, 3, 4)), FA_SHAPE(images * depth, x->size[1], x->size[3], x->size[4]));
    fa_tensor *filters = fa_reshape(weight, FA_SHAPE(weight->size[0], weight->size[1] * kd, weight->size[3], weight->size[4]));
    fa_tensor *r = transposed_plane(planes, filters, out + 1, g->stride + 1, g->padding + 1, g->dilation + 1,
                                    g->output_padding + 1, g->groups);
    r = fa_reshape(r, FA_SHAPE(images, depth, o, kd, out[1], out[2]));
    r = fa_permute(r, FA_DIMS(0, 2, 1, 4, 5, 3));
    if (g->dilation[0] > 1)
        r = fa_slice_backward(r, FA_SHAPE(images, o, depth, out[1], out[2], reach), 5, 0, reach, g->dilation[0]);
    r = fa_unfold_backward(r, FA_SHAPE(images, o, full, out[1], out[2]), 2, reach, g->stride[0]);
    return fai_pad(r, FA_SHAPE(0, 0, 0, 0, -g->padding[0], g->output_padding[0] - g->padding[0]), "constant", 0);
}

static fa_tensor *transposed_sides(const geometry *g, fa_tensor *x, fa_tensor *weight, const int64_t *out) {
    if (g->sides == 2) return transposed_plane(x, weight, out, g->stride, g->padding, g->dilation, g->output_padding, g->groups);
    if (g->sides == 3) {
        if (x->ndim == 5) return transposed_volume(g, x, weight, out);
        return fa_squeeze_dim(transposed_volume(g, fa_unsqueeze(x, 0), weight, out), 0);
    }
    const int64_t size[2] = {1, out[0]}, stride[2] = {1, g->stride[0]}, padding[2] = {0, g->padding[0]};
    const int64_t dilation[2] = {1, g->dilation[0]}, more[2] = {0, g->output_padding[0]};
    fa_tensor *r = transposed_plane(fai_raised(x), fai_raised(weight), size, stride, padding, dilation, more, g->groups);
    return fa_squeeze_dim(r, -2);
}

static fa_tensor *transposed(const char *op, int sides, fa_tensor *x, fa_tensor *weight, fa_tensor *bias, fa_shape stride,
                             fa_shape padding, fa_shape output_padding, int64_t groups, fa_shape dilation) {
    FAI_CALLED(op);
    geometry g = {.op = op, .sides = sides, .transposed = true};
    int64_t out[FAI_MAX_SIDES];
    if (!begin(&g, x, weight, bias) || !options(&g, stride, padding, dilation, groups) ||
        !fai_sides(op, "output_padding", output_padding, sides, 0, g.output_padding) || !output_padding_fits(&g) ||
        !weight_fits(&g, x, weight) || !bias_fits(&g, weight, bias) || !output_sizes(&g, x, weight, out))
        return NULL;
    FA_SCOPE;
    const fa_dtype type = (fa_dtype)x->dtype;
    if (bias || sides == 3) x = fai_widened(x), weight = fai_widened(weight); /* what is added here is rounded once */
    fa_tensor *r = x && weight ? transposed_sides(&g, x, weight, out) : NULL;
    fa_shape along = {.ndim = sides + 1};
    for (int d = 0; bias && d <= sides; d++) along.dim[d] = d ? 1 : bias->size[0];
    if (bias) r = fa_add(r, fa_reshape(fai_widened(bias), along));
    return fa_keep(fa_cast(r, type));
}

fa_tensor *fai_plain_conv_transpose1d(fa_tensor *x, fa_tensor *weight, fa_tensor *bias, fa_shape stride, fa_shape padding,
                                fa_shape output_padding, int64_t groups, fa_shape dilation) {
    return transposed("conv_transpose1d", 1, x, weight, bias, stride, padding, output_padding, groups, dilation);
}

fa_tensor *fai_plain_conv_transpose2d(fa_tensor *x, fa_tensor *weight, fa_tensor *bias, fa_shape stride, fa_shape padding,
                                fa_shape output_padding, int64_t groups, fa_shape dilation) {
    return transposed("conv_transpose2d", 2, x, weight, bias, stride, padding, output_padding, groups, dilation);
}

fa_tensor *fai_plain_conv_transpose3d(fa_tensor *x, fa_tensor *weight, fa_tensor *bias, fa_shape stride, fa_shape padding,
                                fa_shape output_padding, int64_t groups, fa_shape dilation) {
    return transposed("conv_transpose3d", 3, x, weight, bias, stride, padding, output_padding, groups, dilation);
}
