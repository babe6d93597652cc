/* Sizes changed: interpolation, pixels that become channels and back, windows as columns and columns added back.
 *
 * Interpolation goes along one dimension after the other, the last first. A result is a sum of taps: elements of x picked by an
 * index times weights, both worked out here as torch does, in float32 for all types but float64. */
#include "autocast.h"
#include "sides.h"
#include <math.h>

/* ---- interpolation ---- */

typedef enum blend { NEAREST, NEAREST_EXACT, LINEAR, CUBIC } blend;
enum { MOST_TAPS = 4 };
static const int taps_of[] = {1, 1, 2, 4};

/* One dimension: out elements from in ones. */
typedef struct axis {
    int64_t in, out;
    double step; /* of x for one element of the result */
    bool corners, narrow;
} axis;

static double rounded(const axis *a, double v) { return a->narrow ? (double)(float)v : v; }

/* Where element i of the result lies in x. */
static double place(const axis *a, int64_t i) {
    if (a->corners) return rounded(a, a->step * (double)i);
    return rounded(a, rounded(a, a->step * ((double)i + 0.5)) - 0.5);
}

static int64_t within(int64_t i, int64_t size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

/* The cubic of Keys with a = -0.75: near for distances up to 1, far up to 2. */
static double near_weight(double x) { return ((-0.75 + 2) * x - (-0.75 + 3)) * x * x + 1; }
static double far_weight(double x) { return ((-0.75 * x + 5 * 0.75) * x - 8 * 0.75) * x + 4 * 0.75; }

static void taps(const axis *a, blend k, int64_t i, int64_t at[MOST_TAPS], double weight[MOST_TAPS]) {
    if (k == NEAREST || k == NEAREST_EXACT) {
        const float step = (float)a->step;
        const float from = k == NEAREST ? floorf((float)i * step) : floorf((float)(((double)i + 0.5) * (double)step));
        at[0] = within((int64_t)from, a->in), weight[0] = 1;
        return;
    }
    double x = place(a, i);
    if (k == LINEAR && x < 0) x = 0;
    const double low = floor(x), t = rounded(a, x - low);
    const int64_t first = (int64_t)low;
    if (k == LINEAR) {
        at[0] = within(first, a->in), at[1] = within(first + 1, a->in);
        weight[0] = 1 - t, weight[1] = t;
        return;
    }
    for (int n = 0; n < 4; n++) at[n] = within(first - 1 + n, a->in);
    weight[0] = far_weight(t + 1), weight[1] = near_weight(t), weight[2] = near_weight(1 - t), weight[3] = far_weight(2 - t);
}

static fa_tensor *resized(fa_tensor *x, int d, const axis *a, blend k) {
    const int count = taps_of[k];
    const int64_t shape[2] = {count, a->out};
    fa_tensor *places = x ? fai_empty("interpolate", FA_INT64, FA_CPU, 2, shape) : NULL;
    fa_tensor *weights = places ? fai_empty("interpolate", FA_FLOAT64, FA_CPU, 2, shape) : NULL;
    if (!weights) return NULL;
    int64_t *at = fa_data(places), one[MOST_TAPS];
    double *weight = fa_data(weights), share[MOST_TAPS];
    for (int64_t i = 0; i < a->out; i++) {
        taps(a, k, i, one, share);
        for (int n = 0; n < count; n++) at[n * a->out + i] = one[n], weight[n * a->out + i] = share[n];
    }
    places = fai_constant(places, x->device);
    if (count == 1) return fa_index_select(x, d, fa_select(places, 0, 0));
    weights = fai_constant(fa_cast(weights, (fa_dtype)x->dtype), x->device);
    fa_shape along = {.ndim = x->ndim - d, .dim = {a->out, 1, 1, 1, 1, 1, 1, 1}};
    fa_tensor *sum = NULL;
    for (int n = 0; n < count; n++) {
        fa_tensor *part = fa_mul(fa_index_select(x, d, fa_select(places, 0, n)), fa_reshape(fa_select(weights, 0, n), along));
        sum = sum ? fa_add(sum, part) : part;
    }
    return sum;
}

static const struct mode {
    const char *name;
    int sides; /* 0: 1 to 3 */
    blend blend;
} modes[] = {{"nearest", 0, NEAREST},  {"nearest-exact", 0, NEAREST_EXACT},
             {"linear", 1, LINEAR},    {"bilinear", 2, LINEAR},
             {"trilinear", 3, LINEAR}, {"bicubic", 2, CUBIC},
             {"area", 0, NEAREST}};

static const struct mode *mode_of(const fa_tensor *x, const char *name) {
    const struct mode *m = NULL;
    const int sides = x->ndim - 2;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (name && !strcmp(modes[i].name, name)) m = &modes[i];
    if (sides < 1 || sides > 3 || !m)
        return fai_fail(
            FA_ERR_UNSUPPORTED, "interpolate",
            "Input Error: Only 3D, 4D and 5D input Tensors supported (got %dD) for the modes: nearest | linear | bilinear | "
            "bicubic | trilinear | area | nearest-exact (got %s)",
            x->ndim, name ? name : "NULL");
    if (m->sides == 0 || m->sides == sides) return m;
    return fai_fail(FA_ERR_UNSUPPORTED, "interpolate", "Got %dD input, but %s mode needs %dD input", x->ndim, name, m->sides + 2);
}

/* Fills an axis for each side from size or scale_factor, of which one is given. */
static bool axes_of(const fa_tensor *x, fa_shape size, fa_factors scale, bool corners, axis *axes) {
    const char *op = "interpolate";
    const int sides = x->ndim - 2;
    if (size.ndim == 0 && scale.n == 0) return fai_fail(FA_ERR_VALUE, op, "either size or scale_factor should be defined");
    if (size.ndim > 0 && scale.n > 0) return fai_fail(FA_ERR_VALUE, op, "only one of size or scale_factor should be defined");
    const int given = scale.n ? scale.n : size.ndim;
    if (given != 1 && given != sides)
        return fai_fail(FA_ERR_VALUE, op,
                        "Input and %s must have the same number of spatial dimensions: input has %d, and %d numbers were given",
                        scale.n ? "scale_factor" : "output", sides, given);
    for (int s = 0; s < sides; s++) {
        axis *a = &axes[s];
        const double factor = scale.n ? scale.factor[given == 1 ? 0 : s] : 0;
        *a = (axis){.in = x->size[2 + s], .corners = corners, .narrow = x->dtype != FA_FLOAT64};
        const double wanted = scale.n ? floor((double)a->in * factor) : (double)size.dim[given == 1 ? 0 : s];
        if (!(a->in > 0 && wanted > 0 && wanted < 9e15))
            return fai_fail(FA_ERR_RUNTIME, op,
                            "Input and output sizes should be greater than 0, but got input %lld and output %.0f at side %d",
                            (long long)a->in, wanted, s);
        a->out = (int64_t)wanted;
        if (corners)
            a->step = a->out > 1 ? rounded(a, (double)(a->in - 1) / (double)(a->out - 1)) : 0;
        else
            a->step = rounded(a, scale.n ? 1 / factor : (double)a->in / (double)a->out);
    }
    return true;
}

static fa_tensor *interpolate(fa_tensor *x, fa_shape size, fa_factors scale_factor, const char *mode, bool align_corners) {
    const char *op = "interpolate";
    axis axes[FAI_MAX_SIDES];
    FAI_CALLED(op);
    if (!fai_begin1(op, "x", x)) return NULL;
    const struct mode *m = mode_of(x, mode);
    if (!m || !axes_of(x, size, scale_factor, align_corners, axes)) return NULL;
    if (align_corners && m->blend < LINEAR)
        return fai_fail(
            FA_ERR_VALUE, op,
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear");
    if (!fai_is_float(x->dtype) && !(m->blend < LINEAR && x->dtype == FA_UINT8))
        return fai_fail(FA_ERR_UNSUPPORTED, op, "\"compute_indices_weights_%s\" not implemented for '%s': fa_cast(x, FA_FLOAT32)",
                        m->blend < LINEAR    ? "nearest"
                        : m->blend == LINEAR ? "linear"
                                             : "cubic",
                        fai_dtype_title((fa_dtype)x->dtype));
    const int sides = x->ndim - 2;
    FA_SCOPE;
    if (!strcmp(m->name, "area")) {
        fa_shape out = {.ndim = sides};
        for (int s = 0; s < sides; s++) out.dim[s] = axes[s].out;
        return fa_keep(sides == 1   ? fa_adaptive_avg_pool1d(x, out)
                       : sides == 2 ? fa_adaptive_avg_pool2d(x, out)
                                    : fa_adaptive_avg_pool3d(x, out));
    }
    fa_tensor *r = m->blend < LINEAR ? x : fai_widened(x);
    for (int s = sides - 1; s >= 0; s--) r = resized(r, 2 + s, &axes[s], m->blend);
    return fa_keep(fa_cast(r, (fa_dtype)x->dtype));
}

/* "area" is adaptive pooling, whose own lines of autocast.tab hold; all other modes go up to float32 on an accelerator. */
fa_tensor *fai_interpolate(fa_tensor *x, fa_shape size, fa_factors scale_factor, const char *mode, bool align_corners) {
    fai_casting c;
    if (FAI_LIKELY(!fai_tls.autocast) || (mode && !strcmp(mode, "area"))) return interpolate(x, size, scale_factor, mode, align_corners);
    const bool fine = fai_cast_begin(&c, "interpolate", FAI_CASTS(FAI_CAST_OWN, FAI_CAST_FLOAT32), &x, 1);
    return fai_cast_end(&c, fine ? interpolate(x, size, scale_factor, mode, align_corners) : NULL);
}

/* ---- pixels and channels ---- */

static bool pixels_fit(const char *op, const char *argument, const fa_tensor *x, int64_t factor) {
    if (x->ndim < 3)
        return fai_fail(FA_ERR_RUNTIME, op, "%s expects input to have at least 3 dimensions, but got input with %d dimension(s)",
                        op, x->ndim);
    if (x->ndim + 2 > FA_MAX_DIMS)
        return fai_fail(FA_ERR_RUNTIME, op, "x has %d dimensions; %s takes at most %d: fa_flatten the first ones", x->ndim, op,
                        FA_MAX_DIMS - 2);
    if (factor >= 1) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "%s expects a positive %s, but got %lld", op, argument, (long long)factor);
}

fa_tensor *fa_pixel_shuffle(fa_tensor *x, int64_t upscale_factor) {
    const char *op = "pixel_shuffle";
    const int64_t r = upscale_factor;
    FAI_CALLED(op);
    if (!fai_begin1(op, "x", x) || !pixels_fit(op, "upscale_factor", x, r)) return NULL;
    const int c = x->ndim - 3;
    const int64_t channels = x->size[c], h = x->size[c + 1], w = x->size[c + 2];
    if (r > 3037000499 || channels % (r * r))
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            "input.size(-3)=%lld is not divisible by %lld * %lld",
            (long long)channels, (long long)r, (long long)r);
    FA_SCOPE;
    fa_shape full = fa_shape_of_tensor(x), shape = full, order = {.ndim = c + 5};
    full.ndim = c + 5;
    full.dim[c] = channels / (r * r), full.dim[c + 1] = r, full.dim[c + 2] = r, full.dim[c + 3] = h, full.dim[c + 4] = w;
    for (int d = 0; d < c; d++) order.dim[d] = d;
    const int picked[5] = {0, 3, 1, 4, 2}; /* channels, h, r, w, r */
    for (int d = 0; d < 5; d++) order.dim[c + d] = c + picked[d];
    shape.dim[c] = channels / (r * r), shape.dim[c + 1] = h * r, shape.dim[c + 2] = w * r;
    return fa_keep(fa_reshape(fa_permute(fa_reshape(x, full), order), shape));
}

fa_tensor *fa_pixel_unshuffle(fa_tensor *x, int64_t downscale_factor) {
    const char *op = "pixel_unshuffle";
    const int64_t r = downscale_factor;
    FAI_CALLED(op);
    if (!fai_begin1(op, "x", x) || !pixels_fit(op, "downscale_factor", x, r)) return NULL;
    const int c = x->ndim - 3;
    for (int s = 1; s <= 2; s++)
        if (x->size[c + s] % r)
            return fai_fail(FA_ERR_RUNTIME, op,
                            "pixel_unshuffle expects %s to be divisible by downscale_factor, but input.size(%d)=%lld is not "
                            "divisible by %lld",
                            s == 1 ? "height" : "width", s - 3, (long long)x->size[c + s], (long long)r);
    FA_SCOPE;
    const int64_t channels = x->size[c], h = x->size[c + 1] / r, w = x->size[c + 2] / r;
    fa_shape full = fa_shape_of_tensor(x), shape = full, order = {.ndim = c + 5};
    full.ndim = c + 5;
    full.dim[c] = channels, full.dim[c + 1] = h, full.dim[c + 2] = r, full.dim[c + 3] = w, full.dim[c + 4] = r;
    for (int d = 0; d < c; d++) order.dim[d] = d;
    const int picked[5] = {0, 2, 4, 1, 3}; /* channels, r, r, h, w */
    for (int d = 0; d < 5; d++) order.dim[c + d] = c + picked[d];
    shape.dim[c] = channels * r * r, shape.dim[c + 1] = h, shape.dim[c + 2] = w;
    return fa_keep(fa_reshape(fa_permute(fa_reshape(x, full), order), shape));
}

fa_tensor *fa_channel_shuffle(fa_tensor *x, int64_t groups) {
    const char *op = "channel_shuffle";
    FAI_CALLED(op);
    if (!fai_begin1(op, "x", x)) return NULL;
    if (x->ndim < 3)
        return fai_fail(FA_ERR_RUNTIME, op, "channel_shuffle expects input with > 2 dims, but got input with %d dimensions",
                        x->ndim);
    if (groups < 1 || x->size[1] % groups)
        return fai_fail(FA_ERR_RUNTIME, op, "Number of channels must be divisible by groups. Got %lld channels and %lld groups.",
                        (long long)x->size[1], (long long)groups);
    FA_SCOPE;
    fa_tensor *split = fa_unflatten(x, 1, FA_SHAPE(groups, x->size[1] / groups));
    return fa_keep(fa_flatten(fa_transpose(split, 1, 2), 1, 2));
}

/* ---- windows as columns ---- */

typedef struct columns {
    int64_t kernel[FAI_MAX_SIDES], dilation[FAI_MAX_SIDES], padding[FAI_MAX_SIDES], stride[FAI_MAX_SIDES];
    int64_t reach[2], padded[2], count[2]; /* of one window; the image with its padding; how many windows */
} columns;

static bool columns_of(const char *op, columns *c, const int64_t *image, fa_shape kernel, fa_shape dilation, fa_shape padding,
                       fa_shape stride) {
    if (!fai_sides(op, "kernel_size", kernel, 2, 1, c->kernel) || !fai_sides(op, "dilation", dilation, 2, 1, c->dilation) ||
        !fai_sides(op, "padding", padding, 2, 0, c->padding) || !fai_sides(op, "stride", stride, 2, 1, c->stride))
        return false;
    for (int s = 0; s < 2; s++) {
        c->reach[s] = c->dilation[s] * (c->kernel[s] - 1) + 1;
        c->padded[s] = image[s] + 2 * c->padding[s];
        c->count[s] = c->padded[s] < c->reach[s] ? 0 : (c->padded[s] - c->reach[s]) / c->stride[s] + 1;
    }
    if (c->count[0] > 0 && c->count[1] > 0) return true;
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "Given input with spatial size (%lld, %lld), kernel_size=(%lld, %lld), dilation=(%lld, %lld), padding=(%lld, %lld), "
        "calculated shape of the array of sliding blocks as (%lld, %lld), but its components must be at least one.",
        (long long)image[0], (long long)image[1], (long long)c->kernel[0], (long long)c->kernel[1], (long long)c->dilation[0],
        (long long)c->dilation[1], (long long)c->padding[0], (long long)c->padding[1], (long long)c->count[0],
        (long long)c->count[1]);
}

static bool movable(const char *op, const fa_tensor *x) {
    if (fai_is_float(x->dtype) || x->dtype == FA_BOOL) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op, "\"%s_out_cpu\" not implemented for '%s': fa_cast(x, FA_FLOAT32)", op,
                    fai_dtype_title((fa_dtype)x->dtype));
}

fa_tensor *fai_im2col(fa_tensor *x, fa_shape kernel, fa_shape dilation, fa_shape padding, fa_shape stride) {
    const char *op = "im2col";
    columns c;
    FAI_CALLED(op);
    if (!fai_begin1(op, "x", x) || !fai_batch_or_not(op, x, 2) || !movable(op, x) ||
        !columns_of(op, &c, &x->size[x->ndim - 2], kernel, dilation, padding, stride))
        return NULL;
    FA_SCOPE;
    const bool batched = x->ndim == 4;
    const int64_t channels = x->size[x->ndim - 3];
    fa_tensor *r = batched ? x : fa_unsqueeze(x, 0);
    if (c.padding[0] || c.padding[1])
        r = fai_pad(r, FA_SHAPE(c.padding[1], c.padding[1], c.padding[0], c.padding[0]), "constant", 0);
    for (int s = 0; s < 2; s++) r = fa_slice(fa_unfold(r, 2 + s, c.reach[s], c.stride[s]), -1, 0, c.reach[s], c.dilation[s]);
    r = fa_permute(r, FA_DIMS(0, 1, 4, 5, 2, 3)); /* [n, c, count, count, kernel, kernel] */
    const int64_t images = batched ? x->size[0] : 1;
    r = fa_reshape(r, FA_SHAPE(images, channels * c.kernel[0] * c.kernel[1], c.count[0] * c.count[1]));
    return fa_keep(batched ? r : fa_squeeze_dim(r, 0));
}

static bool blocks_fit(const char *op, const fa_tensor *x, const columns *c) {
    const int64_t rows = x->size[x->ndim - 2], blocks = x->size[x->ndim - 1];
    if (rows % (c->kernel[0] * c->kernel[1]))
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=%lld and "
            "kernel_size=(%lld, %lld).",
            (long long)rows, (long long)c->kernel[0], (long long)c->kernel[1]);
    if (blocks == c->count[0] * c->count[1]) return true;
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "Given output_size and options, expected size of input's dimension 2 to match the calculated number of sliding blocks "
        "%lld * %lld = %lld, but got input.size(2)=%lld.",
        (long long)c->count[0], (long long)c->count[1], (long long)(c->count[0] * c->count[1]), (long long)blocks);
}

fa_tensor *fai_col2im(fa_tensor *x, fa_shape output_size, fa_shape kernel, fa_shape dilation, fa_shape padding, fa_shape stride) {
    const char *op = "col2im";
    columns c;
    int64_t image[FAI_MAX_SIDES];
    char shape[160];
    FAI_CALLED(op);
    if (!fai_begin1(op, "x", x) || !movable(op, x) || !fai_sides(op, "output_size", output_size, 2, 1, image) ||
        !columns_of(op, &c, image, kernel, dilation, padding, stride))
        return NULL;
    if (x->ndim != 2 && x->ndim != 3) {
        fai_text_shape(shape, sizeof shape, x->ndim, x->size);
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but "
            "got: %s",
            shape);
    }
    if (!blocks_fit(op, x, &c)) return NULL;
    FA_SCOPE;
    const int64_t images = x->ndim == 3 ? x->size[0] : 1, channels = x->size[x->ndim - 2] / (c.kernel[0] * c.kernel[1]);
    fa_tensor *r = fa_reshape(fai_widened(x), FA_SHAPE(images, channels, c.kernel[0], c.kernel[1], c.count[0], c.count[1]));
    r = fa_permute(r, FA_DIMS(0, 1, 4, 5, 2, 3));
    fa_shape full = FA_SHAPE(images, channels, c.count[0], c.count[1], c.kernel[0], c.kernel[1]);
    for (int s = 1; s >= 0; s--) { /* the last dimension holds the windows of side s */
        full.dim[full.ndim - 1] = c.reach[s];
        if (c.dilation[s] > 1) r = fa_slice_backward(r, full, -1, 0, c.reach[s], c.dilation[s]);
        full.ndim--;
        full.dim[2 + s] = c.padded[s];
        r = fa_unfold_backward(r, full, 2 + s, c.reach[s], c.stride[s]);
    }
    if (c.padding[0] || c.padding[1])
        r = fai_pad(r, FA_SHAPE(-c.padding[1], -c.padding[1], -c.padding[0], -c.padding[0]), "constant", 0);
    r = fa_cast(r, (fa_dtype)x->dtype);
    return fa_keep(x->ndim == 3 ? r : fa_squeeze_dim(r, 0));
}
