/* Pooling of two dimensions: what is checked, and the plan of kernels/pool.k.h. */
#include "window.h"
#include "ops_gen.h"

bool fai_pair(const char *op, const char *argument, fa_shape given, int64_t least, int64_t out[2])
{
    char shape[128];
    if (given.ndim == 1 || given.ndim == 2) {
        out[0] = given.dim[0], out[1] = given.dim[given.ndim - 1];
        if (out[0] > INT32_MAX || out[1] > INT32_MAX)
            return fai_fail(FA_ERR_RUNTIME, op, "integer out of range: %s of [%lld, %lld], at most 2147483647 is possible", argument,
                            (long long)out[0], (long long)out[1]);
        if (out[0] >= least && out[1] >= least) return true;
        if (least)
            return fai_fail(FA_ERR_RUNTIME, op, "%s should be greater than zero, but got [%lld, %lld]", argument,
                            (long long)out[0], (long long)out[1]);
        return fai_fail(FA_ERR_RUNTIME, op, "negative %s is not supported: got [%lld, %lld]", argument, (long long)out[0],
                        (long long)out[1]);
    }
    fai_text_shape(shape, sizeof shape, given.ndim < 0 || given.ndim > FA_MAX_DIMS ? 0 : given.ndim, given.dim);
    return fai_fail(FA_ERR_RUNTIME, op,
                    "expected %s to be a single integer value or a list of 2 values, for height and width, but got %s=%s",
                    argument, argument, shape);
}

bool fai_pool_input(const char *op, const fa_tensor *x)
{
    char shape[128];
    fai_text_shape(shape, sizeof shape, x->ndim, x->size);
    if (!fai_is_float(x->dtype))
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "\"%s\" not implemented for '%s'. It takes floating tensors: fa_cast(x, FA_FLOAT32)", op,
                        fai_dtype_title((fa_dtype)x->dtype));
    bool empty = false;
    for (int i = x->ndim == 4; i < x->ndim; i++) empty |= x->size[i] == 0;
    if ((x->ndim == 3 || x->ndim == 4) && !empty) return true;
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:%s. The last "
        "three dimensions are channels, height and width",
        shape);
}

enum { MOST_OF_A_PLANE = 1 << 30 }; /* kernels count in 32 bits there */

typedef struct window {
    fai_planes in, out;
    int64_t kernel[2], stride[2], padding[2], extra[2]; /* extra: n[11] and n[12] of the plan */
} window;

/* Outputs along one side; the last window may begin beyond the input's end but not in the padding behind it. */
static int64_t outputs(int64_t length, int64_t reach, int64_t stride, int64_t padding, bool ceil_mode)
{
    const int64_t over = length + 2 * padding - reach;
    if (over < 0 && !(ceil_mode && over + stride > 0)) return 0;
    int64_t n = (ceil_mode ? over + stride - 1 : over) / stride + 1;
    if (ceil_mode && (n - 1) * stride >= length + padding) n--;
    return n;
}

static bool measure(const char *op, window *w, int ndim, const int64_t *size, const int64_t dilation[2], bool ceil_mode)
{
    w->in = fai_planes_of(ndim, size);
    const int64_t length[2] = {w->in.height, w->in.width};
    int64_t out[2];
    for (int s = 0; s < 2; s++) {
        const int64_t reach = dilation[s] * (w->kernel[s] - 1) + 1;
        if (w->padding[s] * 2 > reach)
            return fai_fail(
                FA_ERR_RUNTIME, op,
                "pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld and dilation=%lld",
                (long long)w->padding[s], (long long)w->kernel[s], (long long)dilation[s]);
        out[s] = outputs(length[s], reach, w->stride[s], w->padding[s], ceil_mode);
    }
    const int64_t padded[2] = {length[0] + 2 * w->padding[0], length[1] + 2 * w->padding[1]};
    if ((double)padded[0] * (double)padded[1] > MOST_OF_A_PLANE)
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "a padded plane of %lld x %lld: planes of more than 1073741824 elements are not supported. Cut the input "
                        "into smaller pieces",
                        (long long)padded[0], (long long)padded[1]);
    if (out[0] < 1 || out[1] < 1)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Given input size: (%lldx%lldx%lld). Calculated output size: (%lldx%lldx%lld). Output size is too small: "
            "the window does not fit into the input",
            (long long)w->in.channels, (long long)length[0], (long long)length[1], (long long)w->in.channels, (long long)out[0],
            (long long)out[1]);
    w->out = (fai_planes){w->in.images, w->in.channels, out[0], out[1]};
    return true;
}

static bool window_of(const char *op, window *w, fa_shape kernel, fa_shape stride, fa_shape padding)
{
    if (!stride.ndim) stride = kernel;
    return fai_pair(op, "kernel_size", kernel, 1, w->kernel) && fai_pair(op, "stride", stride, 1, w->stride) &&
           fai_pair(op, "padding", padding, 0, w->padding);
}

static bool gradient_fits(const char *op, const window *w, const fa_tensor *g)
{
    const fai_planes *o = &w->out;
    if (g->ndim == 3 || g->ndim == 4) {
        const fai_planes is = fai_planes_of(g->ndim, g->size);
        if (is.images == o->images && is.channels == o->channels && is.height == o->height && is.width == o->width) return true;
    }
    char shape[128];
    fai_text_shape(shape, sizeof shape, g->ndim, g->size);
    return fai_fail(FA_ERR_RUNTIME, op,
                    "the gradient of the output has shape %s, but with these options the output is [%lld, %lld, %lld, %lld]",
                    shape, (long long)o->images, (long long)o->channels, (long long)o->height, (long long)o->width);
}

/* t[k] belongs to view k, NULL: none; t[0] is written, t[1] too where second_written. */
static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

static bool run(const char *op, int kernel, const window *w, fa_tensor *const *t, int count, bool second_written)
{
    if (t[0]->numel == 0) return true;
    const bool dilated = kernel == FAI_K_max_pool2d_f32 || kernel == FAI_K_max_pool2d_backward_f32;
    fa_plan plan;
    fai_plan_begin(&plan);
    for (int k = 0; k < count; k++)
        if (t[k]) fai_plan_view(&plan, k, t[k], k == 0 || (k == 1 && second_written));
    plan.n[0] = w->in.images * w->in.channels, plan.n[1] = w->in.height, plan.n[2] = w->in.width, plan.n[3] = w->out.height,
    plan.n[4] = w->out.width;
    for (int s = 0; s < 2; s++) { /* what is larger than the plane changes nothing more, and could overflow 32 bits */
        const int64_t length = s ? w->in.width : w->in.height, padded = length + 2 * w->padding[s];
        plan.n[5 + s] = at_most(w->kernel[s], padded), plan.n[7 + s] = at_most(w->stride[s], length + w->padding[s]);
        plan.n[9 + s] = w->padding[s], plan.n[11 + s] = dilated ? at_most(w->extra[s], padded) : w->extra[s];
    }
    plan.numel = t[0]->numel;
    plan.groups = fai_groups(plan.numel, 256);
    return fai_run(kernel + fai_compute(t[0]->dtype), &plan, t, count, op);
}

static fa_tensor *new_output(const char *op, const window *w, int ndim, fa_dtype dtype, fa_device device)
{
    const int64_t size[4] = {w->out.images, w->out.channels, w->out.height, w->out.width};
    return fai_empty(op, dtype, device, ndim, size + 4 - ndim);
}

fa_tensor *fai_max_pool2d_forward(fa_tensor *x, fa_shape kernel, fa_shape stride, fa_shape padding, fa_shape dilation,
                                  bool ceil_mode, fa_tensor **indices) {
    const char *op = "max_pool2d";
    window w;
    if (!fai_pool_input(op, x) || !window_of(op, &w, kernel, stride, padding) ||
        !fai_pair(op, "dilation", dilation, 1, w.extra) || !measure(op, &w, x->ndim, x->size, w.extra, ceil_mode))
        return NULL;
    FA_SCOPE;
    x = fai_contiguous(op, x);
    fa_tensor *out = x ? new_output(op, &w, x->ndim, (fa_dtype)x->dtype, x->device) : NULL;
    fa_tensor *at = out && indices ? new_output(op, &w, x->ndim, FA_INT64, x->device) : NULL;
    if (!out || (indices && !at) || !run(op, FAI_K_max_pool2d_f32, &w, (fa_tensor *const[3]){out, at, x}, 3, true)) return NULL;
    if (indices) *indices = fa_keep(at);
    return fa_keep(out);
}

fa_tensor *fai_max_pool2d_backward_forward(fa_tensor *g_out, fa_tensor *indices, fa_shape shape, fa_shape kernel, fa_shape stride,
                                           fa_shape padding, fa_shape dilation, bool ceil_mode) {
    const char *op = "max_pool2d_backward";
    window w;
    if (!fai_pool_input(op, g_out) || !window_of(op, &w, kernel, stride, padding) ||
        !fai_pair(op, "dilation", dilation, 1, w.extra))
        return NULL;
    if (shape.ndim != g_out->ndim)
        return fai_fail(FA_ERR_RUNTIME, op, "shape has %d dimensions, the gradient %d: they must agree", shape.ndim, g_out->ndim);
    if (!measure(op, &w, shape.ndim, shape.dim, w.extra, ceil_mode) || !gradient_fits(op, &w, g_out) ||
        !gradient_fits(op, &w, indices) ||
        !fai_check_dtype(op, "indices", indices, indices->dtype == FA_INT64, "an int64 tensor, as fa_max_pool2d gives it"))
        return NULL;
    FA_SCOPE;
    g_out = fai_contiguous(op, g_out), indices = fai_contiguous(op, indices);
    fa_tensor *out = g_out && indices ? fai_empty(op, (fa_dtype)g_out->dtype, g_out->device, shape.ndim, shape.dim) : NULL;
    if (!out) return NULL;
    return run(op, FAI_K_max_pool2d_backward_f32, &w, (fa_tensor *const[3]){out, g_out, indices}, 3, false) ? fa_keep(out) : NULL;
}

static const int64_t no_dilation[2] = {1, 1};

fa_tensor *fai_avg_pool2d_forward(fa_tensor *x, fa_shape kernel, fa_shape stride, fa_shape padding, bool ceil_mode,
                                  bool count_include_pad) {
    const char *op = "avg_pool2d";
    window w = {.extra = {count_include_pad, 0}};
    if (!fai_pool_input(op, x) || !window_of(op, &w, kernel, stride, padding) ||
        !measure(op, &w, x->ndim, x->size, no_dilation, ceil_mode))
        return NULL;
    FA_SCOPE;
    x = fai_contiguous(op, x);
    fa_tensor *out = x ? new_output(op, &w, x->ndim, (fa_dtype)x->dtype, x->device) : NULL;
    if (!out) return NULL;
    return run(op, FAI_K_avg_pool2d_f32, &w, (fa_tensor *const[2]){out, x}, 2, false) ? fa_keep(out) : NULL;
}

fa_tensor *fai_avg_pool2d_backward_forward(fa_tensor *g_out, fa_shape shape, fa_shape kernel, fa_shape stride, fa_shape padding,
                                           bool ceil_mode, bool count_include_pad) {
    const char *op = "avg_pool2d_backward";
    window w = {.extra = {count_include_pad, 0}};
    if (!fai_pool_input(op, g_out) || !window_of(op, &w, kernel, stride, padding)) return NULL;
    if (shape.ndim != g_out->ndim)
        return fai_fail(FA_ERR_RUNTIME, op, "shape has %d dimensions, the gradient %d: they must agree", shape.ndim, g_out->ndim);
    if (!measure(op, &w, shape.ndim, shape.dim, no_dilation, ceil_mode) || !gradient_fits(op, &w, g_out)) return NULL;
    FA_SCOPE;
    g_out = fai_contiguous(op, g_out);
    fa_tensor *out = g_out ? fai_empty(op, (fa_dtype)g_out->dtype, g_out->device, shape.ndim, shape.dim) : NULL;
    if (!out) return NULL;
    return run(op, FAI_K_avg_pool2d_backward_f32, &w, (fa_tensor *const[2]){out, g_out}, 2, false) ? fa_keep(out) : NULL;
}
