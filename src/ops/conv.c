/* Convolution of two dimensions and its derivatives: what is checked, and the plan of kernels/conv.k.h. Each derivative is an
 * operator of its own, and the derivatives of all three are the other two. */
#include "window.h"
#include "kernels/conv_groups.h"
#include "ops_gen.h"

typedef struct geometry {
    fai_planes in, out;
    int64_t kernel[2], stride[2], padding[2], dilation[2], groups;
} geometry;

static bool options(const char *op, geometry *g, fa_shape stride, fa_shape padding, fa_shape dilation, int64_t groups)
{
    if (groups <= 0)
        return fai_fail(FA_ERR_RUNTIME, op, "non-positive groups is not supported: groups is %lld, it must be 1 or more",
                        (long long)groups);
    g->groups = groups;
    return fai_pair(op, "stride", stride, 1, g->stride) && fai_pair(op, "padding", padding, 0, g->padding) &&
           fai_pair(op, "dilation", dilation, 1, g->dilation);
}

static bool batch_or_not(const char *op, int ndim, const int64_t *size)
{
    char shape[128];
    if (ndim == 3 || ndim == 4) return true;
    fai_text_shape(shape, sizeof shape, ndim, size);
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: %s. The last three dimensions are "
        "channels, height and width",
        shape);
}

/* Kernels count within a plane and within a filter in 32 bits. */
static bool counts_fit(const char *op, const geometry *g, const int64_t *padded, int64_t channels)
{
    const double plane = (double)padded[0] * (double)padded[1];
    const double filter = (double)channels * (double)g->kernel[0] * (double)g->kernel[1];
    if (plane <= INT32_MAX && filter <= INT32_MAX && g->stride[0] <= INT32_MAX && g->stride[1] <= INT32_MAX) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op,
                    "a padded plane of %lld x %lld, a filter of %lld x %lld x %lld, a stride of %lld x %lld: planes, filters and "
                    "strides of more than 2147483647 are not supported. Cut the input into smaller pieces",
                    (long long)padded[0], (long long)padded[1], (long long)channels, (long long)g->kernel[0],
                    (long long)g->kernel[1], (long long)g->stride[0], (long long)g->stride[1]);
}

/* weight [o, c / groups, kh, kw] against input planes; fills kernel and the output's planes. */
static bool weight_fits(const char *op, geometry *g, int ndim, const int64_t *input, int weight_ndim, const int64_t *weight)
{
    char shape[128], input_shape[128];
    if (!batch_or_not(op, ndim, input)) return false;
    fai_text_shape(shape, sizeof shape, weight_ndim, weight);
    fai_text_shape(input_shape, sizeof input_shape, ndim, input);
    if (weight_ndim != 4)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "weight must have 4 dimensions [out channels, in channels / groups, height, width], but has shape %s",
                        shape);
    if (weight[0] % g->groups || weight[0] < g->groups)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got weight of size [%s] instead",
            (long long)g->groups, (long long)g->groups, shape);
    g->in = fai_planes_of(ndim, input);
    if (g->in.channels != weight[1] * g->groups)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Given groups=%lld, weight of size %s, expected input%s to have %lld channels, but got %lld channels instead",
            (long long)g->groups, shape, input_shape, (long long)(weight[1] * g->groups), (long long)g->in.channels);
    const int64_t length[2] = {g->in.height, g->in.width};
    int64_t padded[2], reach[2], out[2];
    for (int s = 0; s < 2; s++) {
        g->kernel[s] = weight[2 + s];
        padded[s] = length[s] + 2 * g->padding[s], reach[s] = g->dilation[s] * (g->kernel[s] - 1) + 1;
        out[s] = (padded[s] - reach[s]) / g->stride[s] + 1;
    }
    if (g->kernel[0] < 1 || g->kernel[1] < 1 || padded[0] < reach[0] || padded[1] < reach[1])
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Calculated padded input size per channel: (%lld x %lld). Kernel size: (%lld x %lld). Kernel size can't be "
            "greater than actual input size, nor 0: use a larger input, more padding, or a smaller kernel",
            (long long)padded[0], (long long)padded[1], (long long)reach[0], (long long)reach[1]);
    g->out = (fai_planes){g->in.images, weight[0], out[0], out[1]};
    return counts_fit(op, g, padded, weight[1]);
}

static bool gradient_fits(const char *op, const geometry *g, const fa_tensor *gradient)
{
    const fai_planes *o = &g->out;
    if (gradient->ndim == 3 || gradient->ndim == 4) {
        const fai_planes is = fai_planes_of(gradient->ndim, gradient->size);
        if (is.images == o->images && is.channels == o->channels && is.height == o->height && is.width == o->width) return true;
    }
    char shape[128];
    fai_text_shape(shape, sizeof shape, gradient->ndim, gradient->size);
    return fai_fail(FA_ERR_RUNTIME, op,
                    "the gradient of the output has shape %s, but with these options the output is [%lld, %lld, %lld, %lld]",
                    shape, (long long)o->images, (long long)o->channels, (long long)o->height, (long long)o->width);
}

static const char *short_name(const fa_tensor *t)
{
    static const char *name[FA_DTYPE_COUNT] = {"",         "bool",      "unsigned char", "signed char", "short", "int",
                                               "long int", "c10::Half", "c10::BFloat16", "float",       "double"};
    return name[t->dtype];
}

static bool types_fit(const char *op, const fa_tensor *x, const fa_tensor *weight, const fa_tensor *bias)
{
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "\"%s\" not implemented for '%s'. It takes floating tensors: fa_cast(x, FA_FLOAT32)", op,
                        fai_dtype_title((fa_dtype)x->dtype));
    const fa_tensor *other = weight->dtype != x->dtype ? weight : bias && bias->dtype != x->dtype ? bias : NULL;
    if (!other) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "Input type (%s) and %s type (%s) should be the same. Convert the input or the layer: fa_cast, fa_module_to_dtype",
                    short_name(x), other == weight ? "weight" : "bias", short_name(other));
}

/* Runs one of the three kernels over contiguous tensors; t[0] is written. direction: of fa_conv_groups. */
static bool run(const char *op, int direction, const geometry *g, fa_tensor *const *t, int count)
{
    if (t[0]->numel == 0) return true;
    fa_plan plan;
    fai_plan_begin(&plan);
    for (int k = 0; k < count; k++) fai_plan_view(&plan, k, t[k], k == 0);
    plan.n[0] = g->in.images, plan.n[1] = g->in.channels, plan.n[2] = g->in.height, plan.n[3] = g->in.width;
    plan.n[4] = g->out.channels, plan.n[7] = g->out.height, plan.n[8] = g->out.width, plan.n[15] = g->groups;
    for (int s = 0; s < 2; s++)
        plan.n[5 + s] = g->kernel[s], plan.n[9 + s] = g->stride[s], plan.n[11 + s] = g->padding[s],
                   plan.n[13 + s] = g->dilation[s];
    plan.numel = t[0]->numel;
    plan.groups = fa_conv_groups(plan.n, direction);
    static const int kernel[] = {FAI_K_conv2d_f32, FAI_K_conv2d_input_f32, FAI_K_conv2d_weight_f32};
    return fai_run(kernel[direction] + fai_compute(t[0]->dtype), &plan, t, count, op);
}

fa_tensor *fai_conv2d_forward(fa_tensor *x, fa_tensor *weight, fa_tensor *bias, fa_shape stride, fa_shape padding,
                              fa_shape dilation, int64_t groups) {
    geometry g;
    if (!options("conv2d", &g, stride, padding, dilation, groups) || !types_fit("conv2d", x, weight, bias) ||
        !weight_fits("conv2d", &g, x->ndim, x->size, weight->ndim, weight->size))
        return NULL;
    if (bias && (bias->ndim != 1 || bias->size[0] != weight->size[0])) {
        char shape[128], bias_shape[128];
        fai_text_shape(shape, sizeof shape, weight->ndim, weight->size);
        fai_text_shape(bias_shape, sizeof bias_shape, bias->ndim, bias->size);
        return fai_fail(
            FA_ERR_RUNTIME, "conv2d",
            "Given weight of size %s, expected bias to be 1-dimensional with %lld elements, but got bias of size %s instead",
            shape, (long long)weight->size[0], bias_shape);
    }
    FA_SCOPE;
    const int64_t size[4] = {g.out.images, g.out.channels, g.out.height, g.out.width};
    x = fai_contiguous("conv2d", x), weight = fai_contiguous("conv2d", weight);
    if (bias && !(bias = fai_contiguous("conv2d", bias))) return NULL; /* not: no bias */
    fa_tensor *out = x && weight ? fai_empty("conv2d", (fa_dtype)x->dtype, x->device, x->ndim, size + 4 - x->ndim) : NULL;
    if (!out) return NULL;
    fa_tensor *const t[4] = {out, x, weight, bias};
    return run("conv2d", 0, &g, t, bias ? 4 : 3) ? fa_keep(out) : NULL;
}

fa_tensor *fai_conv2d_input_forward(fa_tensor *g_out, fa_tensor *weight, fa_shape shape, fa_shape stride, fa_shape padding,
                                    fa_shape dilation, int64_t groups) {
    const char *op = "conv2d_input";
    geometry g;
    if (!options(op, &g, stride, padding, dilation, groups) || !types_fit(op, g_out, weight, NULL) ||
        !weight_fits(op, &g, shape.ndim, shape.dim, weight->ndim, weight->size) || !gradient_fits(op, &g, g_out))
        return NULL;
    FA_SCOPE;
    g_out = fai_contiguous(op, g_out), weight = fai_contiguous(op, weight);
    fa_tensor *out = g_out && weight ? fai_empty(op, (fa_dtype)g_out->dtype, g_out->device, shape.ndim, shape.dim) : NULL;
    if (!out) return NULL;
    return run(op, 1, &g, (fa_tensor *const[3]){out, g_out, weight}, 3) ? fa_keep(out) : NULL;
}

fa_tensor *fai_conv2d_weight_forward(fa_tensor *g_out, fa_tensor *x, fa_shape shape, fa_shape stride, fa_shape padding,
                                     fa_shape dilation, int64_t groups) {
    const char *op = "conv2d_weight";
    geometry g;
    if (!options(op, &g, stride, padding, dilation, groups) || !types_fit(op, g_out, x, NULL) ||
        !weight_fits(op, &g, x->ndim, x->size, shape.ndim, shape.dim) || !gradient_fits(op, &g, g_out))
        return NULL;
    FA_SCOPE;
    g_out = fai_contiguous(op, g_out), x = fai_contiguous(op, x);
    fa_tensor *out = g_out && x ? fai_empty(op, (fa_dtype)x->dtype, x->device, shape.ndim, shape.dim) : NULL;
    if (!out) return NULL;
    return run(op, 2, &g, (fa_tensor *const[3]){out, g_out, x}, 3) ? fa_keep(out) : NULL;
}
