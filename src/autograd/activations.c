/* Activations of more than one expression, and those that draw random numbers. */
#include "composite.h"
#include "ops/random.h"
#include <float.h>
#include <math.h>

/* ---- from rows ---- */

fa_tensor *fai_glu(fa_tensor *x, int64_t dim) {
    int at;
    FAI_CALLED("glu");
    if (!fai_begin1("glu", "x", x)) return NULL;
    if (x->ndim == 0) return fai_fail(FA_ERR_RUNTIME, "glu", "glu does not support scalars because halving size must be even");
    if (!fai_wrap_dim("glu", dim, x->ndim, &at)) return NULL;
    if (x->size[at] % 2)
        return fai_fail(FA_ERR_RUNTIME, "glu", "Halving dimension must be even, but dimension %d is size %lld", at,
                        (long long)x->size[at]);
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_UNSUPPORTED, "glu", "\"glu_cpu\" not implemented for '%s': fa_cast(x, FA_FLOAT32)",
                        fai_dtype_title((fa_dtype)x->dtype));
    FA_SCOPE;
    const int64_t half = x->size[at] / 2;
    fa_tensor *wide = fai_widened(x);
    fa_tensor *gate = fa_sigmoid(fa_slice(wide, at, half, 2 * half, 1));
    return fa_keep(fa_cast(fa_mul(fa_slice(wide, at, 0, half, 1), gate), (fa_dtype)x->dtype));
}

fa_tensor *fai_plain_prelu(fa_tensor *x, fa_tensor *weight) {
    const char *op = "prelu";
    FAI_CALLED(op);
    if (!fai_begin2(op, "x", x, "weight", weight)) return NULL;
    if (weight->ndim > 1)
        return fai_fail(FA_ERR_RUNTIME, op, "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = %d",
                        weight->ndim);
    if (x->dtype != weight->dtype)
        return fai_fail(FA_ERR_RUNTIME, op, "prelu: Type promoting not supported. Got %s and %s: fa_cast",
                        fa_dtype_name((fa_dtype)x->dtype), fa_dtype_name((fa_dtype)weight->dtype));
    if (weight->numel != 1 && x->ndim == 0) return fai_fail(FA_ERR_RUNTIME, op, "Not allow zero-dim input tensor.");
    const int64_t channels = x->ndim >= 2 ? x->size[1] : 1;
    if (weight->numel != 1 && weight->numel != channels)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = %lld and channel size = %lld.",
            (long long)weight->numel, (long long)channels);
    FA_SCOPE;
    fa_shape along = {.ndim = x->ndim > 1 ? x->ndim - 1 : x->ndim};
    for (int d = 0; d < along.ndim; d++) along.dim[d] = d ? 1 : weight->numel;
    return fa_keep(fa_prelu_element(x, fa_reshape(weight, along)));
}

fa_tensor *fai_plain_softmin(fa_tensor *x, int64_t dim) {
    FAI_CALLED("softmin");
    FA_SCOPE;
    return fai_begin1("softmin", "x", x) ? fa_keep(fa_softmax(fa_neg(x), dim)) : NULL;
}

fa_tensor *fai_plain_bilinear(fa_tensor *x1, fa_tensor *x2, fa_tensor *weight, fa_tensor *bias) {
    const char *op = "bilinear", *const names[] = {"x1", "x2", "weight", "bias"};
    FAI_CALLED(op);
    if (!fai_op_begin(op, 4, names, (fa_tensor *const[]){x1, x2, weight, bias}, 8)) return NULL;
    if (weight->ndim != 3 || x1->ndim < 1 || x1->ndim != x2->ndim)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "bilinear(): input dimensions do not match: got %d and %d, and a weight of %d dimensions (3 wanted)",
                        x1->ndim, x2->ndim, weight->ndim);
    for (int d = 0; d + 1 < x1->ndim; d++)
        if (x1->size[d] != x2->size[d])
            return fai_fail(FA_ERR_RUNTIME, op, "bilinear(): input batch dimensions do not match at dim %d: got %lld and %lld", d,
                            (long long)x1->size[d], (long long)x2->size[d]);
    const fa_tensor *const x[2] = {x1, x2};
    for (int i = 0; i < 2; i++)
        if (x[i]->size[x[i]->ndim - 1] != weight->size[1 + i])
            return fai_fail(FA_ERR_RUNTIME, op, "bilinear(): input%d size does not match weight size: got %lld but expected %lld",
                            i + 1, (long long)x[i]->size[x[i]->ndim - 1], (long long)weight->size[1 + i]);
    const int64_t out = weight->size[0], in1 = weight->size[1], in2 = weight->size[2];
    if (bias && (bias->ndim != 1 || bias->numel != out))
        return fai_fail(FA_ERR_RUNTIME, op, "bilinear(): bias size does not match weight size: got %lld but expected %lld",
                        (long long)bias->numel, (long long)out);
    FA_SCOPE;
    const fa_dtype type = (fa_dtype)x1->dtype;
    x1 = fai_widened(x1), x2 = fai_widened(x2), weight = fai_widened(weight);
    if (!x1 || !x2 || !weight || (bias && !(bias = fai_widened(bias)))) return NULL;
    fa_shape shape = fa_shape_of_tensor(x1);
    const int64_t rows = in1 ? x1->numel / in1 : 0;
    shape.dim[shape.ndim - 1] = out;
    /* [rows, in1] by [in1, out in2], then each row of [rows, out, in2] by x2's */
    fa_tensor *first = fa_matmul(fa_reshape(x1, FA_SHAPE(rows, in1)),
                                 fa_reshape(fa_permute(weight, FA_DIMS(1, 0, 2)), FA_SHAPE(in1, out * in2)));
    fa_tensor *r = fa_matmul(fa_reshape(first, FA_SHAPE(rows, out, in2)), fa_reshape(x2, FA_SHAPE(rows, in2, 1)));
    r = fa_reshape(r, shape);
    return fa_keep(fa_cast(bias ? fa_add(r, bias) : r, type));
}

/* ---- random ---- */

static bool probability(const char *op, fa_tensor *x, double p) {
    if (!fai_begin1(op, "x", x)) return false;
    if (!(p >= 0 && p <= 1)) return fai_fail(FA_ERR_VALUE, op, "dropout probability has to be between 0 and 1, but got %g", p);
    if (fai_is_float(x->dtype)) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "result type Float can't be cast to the desired output type %s; convert x first: fa_cast(x, FA_FLOAT32)",
                    fai_dtype_title((fa_dtype)x->dtype));
}

/* 1 where an element, or a whole channel, is kept. */
static fa_tensor *kept(const char *op, const fa_tensor *x, double p, bool channels) {
    FA_NO_GRAD;
    fa_shape shape = fa_shape_of_tensor(x);
    for (int d = 2; channels && d < shape.ndim; d++) shape.dim[d] = 1;
    fa_tensor *noise = channels ? fai_empty(op, (fa_dtype)x->dtype, x->device, shape.ndim, shape.dim)
                                : fai_empty_strided(op, (fa_dtype)x->dtype, x->device, x->ndim, x->size, x->stride);
    return noise && fai_fill_bernoulli(op, noise, 1 - p, NULL) ? noise : NULL;
}

static bool has_channels(const char *op, const fa_tensor *x) {
    if (x->ndim >= 2) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "Feature dropout requires at least 2 dimensions in the input: [n, c, ...], found %d",
                    x->ndim);
}

fa_tensor *fa_feature_dropout(fa_tensor *x, double p, bool training) {
    const char *op = "feature_dropout";
    if (!probability(op, x, p)) return NULL;
    if (!training || p == 0 || x->numel == 0) return x;
    if (!has_channels(op, x)) return NULL;
    if (p == 1) return fai_multiply(x, 0);
    FA_SCOPE;
    return fa_keep(fa_mul(x, fai_divide(kept(op, x, p, true), 1 - p)));
}

/* What is dropped becomes the value that SELU's negative end has; then mean and variance are brought back. */
static fa_tensor *alpha(const char *op, fa_tensor *x, double p, bool training, bool channels) {
    if (!probability(op, x, p)) return NULL;
    if (!training || p == 0 || x->numel == 0) return x;
    if (channels && !has_channels(op, x)) return NULL;
    if (p == 1) return fai_multiply(x, 0);
    const double end = 1.7580993408473766, a = 1 / sqrt((end * end * p + 1) * (1 - p));
    FA_SCOPE;
    fa_tensor *noise = kept(op, x, p, channels);
    fa_tensor *shift = fai_add_number(fai_multiply(fai_add_number(noise, -1), end * a), end * a * p);
    return fa_keep(fa_add(fa_mul(x, fai_multiply(noise, a)), shift));
}

fa_tensor *fa_alpha_dropout(fa_tensor *x, double p, bool training) { return alpha("alpha_dropout", x, p, training, false); }
fa_tensor *fa_feature_alpha_dropout(fa_tensor *x, double p, bool training) {
    return alpha("feature_alpha_dropout", x, p, training, true);
}

fa_tensor *fai_rrelu(fa_tensor *x, double lower, double upper, bool training) {
    const char *op = "rrelu";
    FAI_CALLED(op);
    if (!fai_begin1(op, "x", x)) return NULL;
    if (!(lower <= upper))
        return fai_fail(FA_ERR_RUNTIME, op, "Lower bound should be less than or equal to the upper bound: found %g and %g", lower,
                        upper);
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_UNSUPPORTED, op, "\"rrelu_with_noise_out_cpu\" not implemented for '%s': fa_cast(x, FA_FLOAT32)",
                        fai_dtype_title((fa_dtype)x->dtype));
    if (!training) return fa_leaky_relu(x, (lower + upper) / 2);
    FA_SCOPE;
    fa_tensor *slopes = NULL;
    if (!fai_on_cpu(x)) { /* a number for each element: nobody waits to know how many are needed */
        FA_NO_GRAD;
        slopes = fai_empty(op, x->dtype == FA_FLOAT64 ? FA_FLOAT64 : FA_FLOAT32, x->device, x->ndim, x->size);
        if (!slopes || !fai_fill_uniform(op, slopes, lower, upper, NULL)) return NULL;
        slopes = fa_cast(fai_choose(fai_row2(FAI_ROW_le, fai_of(x), fai_number(0)), slopes, 1), (fa_dtype)x->dtype);
    } else {
        FA_NO_GRAD; /* a number is drawn for each element that is not above 0, in order */
        fa_tensor *places = fa_squeeze_dim(fa_nonzero(fai_row2(FAI_ROW_le, fai_of(fa_flatten(x, 0, -1)), fai_number(0))), 1);
        fa_tensor *drawn = places ? fai_empty(op, FA_FLOAT64, x->device, 1, places->size) : NULL;
        if (!drawn || (drawn->numel && !fai_fill_uniform(op, drawn, lower, upper, NULL))) return NULL;
        fa_tensor *ones = fa_ones(FA_SHAPE(x->numel), .dtype = (fa_dtype)x->dtype, .device = x->device);
        slopes = fa_index_put(ones, (fa_tensor *const[]){places}, 1, fa_cast(drawn, (fa_dtype)x->dtype), false);
    }
    return fa_keep(fa_mul(x, fa_reshape(slopes, fa_shape_of_tensor(x))));
}

fa_tensor *fai_gumbel_softmax(fa_tensor *logits, double tau, bool hard, int64_t dim) {
    const char *op = "gumbel_softmax";
    FAI_CALLED(op);
    if (!fai_begin1(op, "logits", logits)) return NULL;
    FA_SCOPE;
    fa_tensor *drawn = fai_empty_like(op, logits);
    if (!drawn || !fai_fill_exponential(op, drawn, 1, NULL)) return NULL;
    fa_tensor *soft = fa_softmax(fai_divide(fa_sub(logits, fa_log(drawn)), tau), dim);
    if (!hard) return fa_keep(soft);
    fa_tensor *at = fa_argmax_dim(soft, dim, true);
    fa_tensor *one = fa_scatter_value(fai_zeros_of(logits, fa_shape_of_tensor(logits)), dim, at, fa_scalar_of_float(1));
    return fa_keep(fa_add(fa_sub(one, fa_detach(soft)), soft));
}
