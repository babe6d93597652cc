/* Normalisation in terms of fa_layer_norm and fa_batch_norm: of groups of channels, of single images, by the root of the mean
 * square, over neighbouring channels, to unit length. */
#include "autocast.h"
#include "composite.h"
#include <fa_functional.h>
#include <float.h>
#include <math.h>

/* weight or bias [c] as a tensor that broadcasts along x's dimension 1, in the type that x is computed in. */
static fa_tensor *along_channels(fa_tensor *t, const fa_tensor *x) {
    fa_shape shape = {.ndim = x->ndim - 1};
    for (int d = 0; d < shape.ndim; d++) shape.dim[d] = d ? 1 : t->numel;
    return fa_reshape(fai_widened(t), shape);
}

/* normalised, in float32 for the 16-bit types, times weight plus bias, then in x's type. */
static fa_tensor *scaled(fa_tensor *normalised, const fa_tensor *x, fa_tensor *weight, fa_tensor *bias) {
    fa_tensor *r = normalised;
    if (weight) r = fa_mul(r, along_channels(weight, x));
    if (bias) r = fa_add(r, along_channels(bias, x));
    return fa_cast(r, (fa_dtype)x->dtype);
}

static bool channels_fit(const char *op, const char *name, const fa_tensor *t, const fa_tensor *x) {
    char shape[160], input[160];
    if (!t || (t->ndim == 1 && t->numel == x->size[1])) return true;
    fai_text_shape(shape, sizeof shape, t->ndim, t->size);
    fai_text_shape(input, sizeof input, x->ndim, x->size);
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "Expected %s to be a vector of size equal to the number of channels in input, but got %s of shape %s and input of "
        "shape %s",
        name, name, shape, input);
}

/* ---- groups of channels ---- */

fa_tensor *fai_plain_group_norm(fa_tensor *x, int64_t groups, fa_tensor *weight, fa_tensor *bias, double eps) {
    const char *op = "group_norm", *const names[] = {"x", "weight", "bias"};
    char shape[160];
    FAI_CALLED(op);
    if (!fai_op_begin(op, 3, names, (fa_tensor *const[]){x, weight, bias}, 6)) return NULL;
    if (x->ndim < 2)
        return fai_fail(FA_ERR_RUNTIME, op, "Expected at least 2 dimensions for input tensor but received %d", x->ndim);
    if (groups < 1 || x->size[1] % groups) {
        fai_text_shape(shape, sizeof shape, x->ndim, x->size);
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Expected number of channels in input to be divisible by num_groups, but got input of shape %s and num_groups=%lld",
            shape, (long long)groups);
    }
    if (!channels_fit(op, "weight", weight, x) || !channels_fit(op, "bias", bias, x)) return NULL;
    if (x->numel == groups) {
        fai_text_shape(shape, sizeof shape, x->ndim, x->size);
        return fai_fail(FA_ERR_VALUE, op,
                        "Expected more than 1 value per channel when training, got input size %s: each of the %lld groups has one value, and less its mean "
                        "that is 0. Use fewer groups",
                        shape, (long long)groups);
    }
    FA_SCOPE;
    if (x->numel == 0) return fa_keep(fa_clone(x));
    const int64_t rows = x->size[0] * groups, width = x->numel / rows;
    fa_tensor *r = fai_layer_norm(fa_reshape(fai_widened(x), FA_SHAPE(rows, width)), FA_SHAPE(width), NULL, NULL, eps);
    return fa_keep(scaled(fa_reshape(r, fa_shape_of_tensor(x)), x, weight, bias));
}

/* ---- single images ---- */

static bool instance_fits(const char *op, const fa_tensor *x, bool use_input_stats, const fa_tensor *mean, const fa_tensor *var) {
    int64_t places = 1;
    char shape[160];
    for (int d = 2; d < x->ndim; d++) places *= x->size[d];
    fai_text_shape(shape, sizeof shape, x->ndim, x->size);
    if (use_input_stats && (x->ndim < 3 || places == 1))
        return fai_fail(FA_ERR_VALUE, op, "Expected more than 1 spatial element when training, got input size torch.Size(%s)",
                        shape);
    if (x->ndim < 3)
        return fai_fail(FA_ERR_RUNTIME, op, "Expected at least 3 dimensions [n, c, sides], got input size %s", shape);
    if (use_input_stats || (mean && var)) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "Expected running_mean and running_var to be defined when use_input_stats is false");
}

/* What a running statistic of the channels becomes: moved towards the mean over the images of what each image has. */
static fa_tensor *moved(fa_tensor *running, fa_tensor *of_images, double momentum) {
    FA_NO_GRAD;
    fa_tensor *mean = fa_cast(fa_mean_dims(of_images, FA_DIMS(0), false), (fa_dtype)running->dtype);
    return fa_add(fai_multiply(running, 1 - momentum), fai_multiply(mean, momentum));
}

fa_tensor *fai_plain_instance_norm(fa_tensor *x, fa_tensor *running_mean, fa_tensor *running_var, fa_tensor *weight, fa_tensor *bias,
                             bool use_input_stats, double momentum, double eps) {
    const char *op = "instance_norm", *const names[] = {"x", "running_mean", "running_var", "weight", "bias"};
    FAI_CALLED(op);
    if (!fai_op_begin(op, 5, names, (fa_tensor *const[]){x, running_mean, running_var, weight, bias}, 30) ||
        !instance_fits(op, x, use_input_stats, running_mean, running_var) || !channels_fit(op, "running_mean", running_mean, x) ||
        !channels_fit(op, "running_var", running_var, x) || !channels_fit(op, "weight", weight, x) ||
        !channels_fit(op, "bias", bias, x))
        return NULL;
    if (use_input_stats && (running_mean || running_var) && fai_refuse_pending(op)) return NULL;
    if (!use_input_stats) return fai_batch_norm(x, running_mean, running_var, weight, bias, false, momentum, eps);
    FA_SCOPE;
    int64_t width = 1;
    for (int d = 2; d < x->ndim; d++) width *= x->size[d];
    fa_tensor *wide = fa_reshape(fai_widened(x), FA_SHAPE(x->size[0], x->size[1], width));
    fa_tensor *mean = running_mean ? moved(running_mean, fa_mean_dims(wide, FA_DIMS(2), false), momentum) : NULL;
    fa_tensor *var = running_var ? moved(running_var, fa_var_dims(wide, FA_DIMS(2), 1, false), momentum) : NULL;
    if ((running_mean && !mean) || (running_var && !var)) return NULL;
    fa_tensor *r = x->numel == 0 ? fa_clone(x) : fai_layer_norm(wide, FA_SHAPE(width), NULL, NULL, eps);
    if (x->numel > 0) r = scaled(fa_reshape(r, fa_shape_of_tensor(x)), x, weight, bias);
    /* from here on nothing is allocated, or running statistics would move for a call that failed */
    if (!r || (mean && !fai_copy(op, running_mean, mean)) || (var && !fai_copy(op, running_var, var))) return NULL;
    return fa_keep(r);
}

/* ---- root of the mean square ---- */

static double machine_epsilon(int dtype) { return dtype == FA_FLOAT64 ? DBL_EPSILON : FLT_EPSILON; }

fa_tensor *fai_plain_rms_norm(fa_tensor *x, fa_shape shape, fa_tensor *weight, double eps) {
    const char *op = "rms_norm", *const names[] = {"x", "weight"};
    char wanted[160], found[160];
    FAI_CALLED(op);
    if (!fai_op_begin(op, 2, names, (fa_tensor *const[]){x, weight}, 2) || !fai_shape_ok(op, "shape", shape)) return NULL;
    fai_text_shape(wanted, sizeof wanted, shape.ndim, shape.dim);
    bool fits = shape.ndim > 0 && shape.ndim <= x->ndim;
    fa_shape dims = {.ndim = shape.ndim};
    for (int d = 0; fits && d < shape.ndim; d++) {
        fits = x->size[x->ndim - shape.ndim + d] == shape.dim[d];
        dims.dim[d] = x->ndim - shape.ndim + d;
    }
    fai_text_shape(found, sizeof found, x->ndim, x->size);
    if (!fits)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "Given normalized_shape=%s, expected input with shape [*, those sizes], but got input of size%s", wanted,
                        found);
    if (weight && (weight->ndim != shape.ndim || memcmp(weight->size, shape.dim, sizeof(int64_t) * (size_t)shape.ndim) != 0)) {
        fai_text_shape(found, sizeof found, weight->ndim, weight->size);
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Expected weight to be of same shape as normalized_shape, but got weight of shape %s and normalized_shape = %s",
            found, wanted);
    }
    FA_SCOPE;
    fa_tensor *wide = fai_widened(x);
    fa_tensor *mean = fa_mean_dims(fa_square(wide), dims, true);
    fa_tensor *r = fa_mul(wide, fa_rsqrt(fai_add_number(mean, eps < 0 ? machine_epsilon(x->dtype) : eps)));
    if (weight) r = fa_mul(r, fai_widened(weight));
    return fa_keep(fa_cast(r, (fa_dtype)x->dtype));
}

/* ---- neighbouring channels, unit length ---- */

static fa_tensor *local_response_norm(fa_tensor *x, int64_t size, double alpha, double beta, double k) {
    const char *op = "local_response_norm";
    FAI_CALLED(op);
    if (!fai_begin1(op, "x", x)) return NULL;
    if (x->ndim < 3) return fai_fail(FA_ERR_VALUE, op, "Expected 3D or higher dimensionality input (got %d dimensions)", x->ndim);
    if (size < 1) return fai_fail(FA_ERR_VALUE, op, "argument 'size' is %lld; give 1 or more channels", (long long)size);
    FA_SCOPE;
    if (x->numel == 0) return fa_keep(fa_clone(x));
    const int64_t images = x->size[0], channels = x->size[1], places = x->numel / (images * channels);
    fa_tensor *squares = fa_reshape(fa_square(x), FA_SHAPE(images, 1, channels, places));
    squares = fai_pad(squares, FA_SHAPE(0, 0, size / 2, (size - 1) / 2), "constant", 0);
    fa_tensor *mean = fai_avg_pool2d(squares, FA_SHAPE(size, 1), FA_SHAPE(1), FA_SHAPE(0), false, true);
    fa_tensor *base = fai_add_number(fai_multiply(fa_reshape(mean, fa_shape_of_tensor(x)), alpha), k);
    return fa_keep(fa_div(x, fai_row2(FAI_ROW_pow, fai_of(base), fai_number(beta))));
}

/* float32 under autocast, but for three dimensions on the CPU: torch pools those by another operator, which is not in its list. */
fa_tensor *fai_local_response_norm(fa_tensor *x, int64_t size, double alpha, double beta, double k) {
    fai_casting c;
    if (FAI_LIKELY(!fai_tls.autocast)) return local_response_norm(x, size, alpha, beta, k);
    const uint8_t casts = FAI_CASTS(x && x->ndim == 3 ? FAI_CAST_OWN : FAI_CAST_FLOAT32, FAI_CAST_FLOAT32);
    const bool fine = fai_cast_begin(&c, "local_response_norm", casts, &x, 1);
    return fai_cast_end(&c, fine ? local_response_norm(x, size, alpha, beta, k) : NULL);
}

fa_tensor *fai_plain_normalize(fa_tensor *x, double p, int64_t dim, double eps) {
    FAI_CALLED("normalize");
    if (!fai_begin1("normalize", "x", x)) return NULL;
    FA_SCOPE;
    fa_tensor *wide = fai_widened(x), *length = fa_norm_dims(wide, p, FA_DIMS(dim), true);
    return fa_keep(fa_cast(fa_div(wide, fa_clamp_min(length, fa_scalar_of_float(eps))), (fa_dtype)x->dtype));
}
