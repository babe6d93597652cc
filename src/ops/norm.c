/* Layer and batch normalisation and their fused derivatives (kernels/norm.k.h): shapes, checks, plans. */
#include "norm.h"
#include "ordered.h"
#include "ops_gen.h"
#include <stdio.h>

static bool check_float(const char *op, const fa_tensor *x) {
    if (fai_is_float(x->dtype)) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op, "\"%s\" not implemented for '%s'. It takes floating tensors: fa_cast(x, FA_FLOAT32).",
                    op, fai_dtype_title((fa_dtype)x->dtype));
}

/* Fills a plan from n operands, of which the first `written` are results; NULL ones are left out. */
static void plan_operands(fa_plan *plan, fa_tensor *const *operands, int n, int written) {
    fai_plan_begin(plan);
    for (int k = 0; k < n; k++)
        if (operands[k]) fai_plan_view(plan, k, operands[k], k < written);
    plan->nviews = n;
}

/* fai_run reads the device from operand 0, which a derivative may leave out: then any other one says it. */
static bool run(int kernel, fa_plan *plan, fa_tensor **operands, int n, fa_tensor *x, const char *op) {
    if (!operands[0]) operands[0] = x;
    return fai_run(kernel + fai_compute(x->dtype), plan, operands, n, op);
}

/* ---- layer norm ---- */

static bool check_layer_shapes(const fa_tensor *x, fa_shape shape, const fa_tensor *weight, const fa_tensor *bias) {
    char wanted[160], found[160];
    const int first = x->ndim - shape.ndim;
    bool ok = shape.ndim >= 1 && first >= 0;
    for (int d = 0; ok && d < shape.ndim; d++) ok = x->size[first + d] == shape.dim[d];
    fai_text_shape(wanted, sizeof wanted, shape.ndim < 0 || shape.ndim > FA_MAX_DIMS ? 0 : shape.ndim, shape.dim);
    fai_text_shape(found, sizeof found, x->ndim, x->size);
    if (!ok)
        return fai_fail(FA_ERR_RUNTIME, "layer_norm",
                        "Given normalized_shape=%s, expected input with shape [*%s%s, but got input of size%s", wanted,
                        shape.ndim > 0 ? ", " : "", wanted + 1, found);
    for (int k = 0; k < 2; k++) {
        const fa_tensor *t = k ? bias : weight;
        if (!t) continue;
        bool same = t->ndim == shape.ndim;
        for (int d = 0; same && d < shape.ndim; d++) same = t->size[d] == shape.dim[d];
        fai_text_shape(found, sizeof found, t->ndim, t->size);
        if (!same)
            return fai_fail(
                FA_ERR_RUNTIME, "layer_norm",
                "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and normalized_shape = %s",
                k ? "bias" : "weight", k ? "bias" : "weight", found, wanted);
        if (!fai_check_dtype("layer_norm", k ? "bias" : "weight", t, fai_is_float(t->dtype), "floating")) return false;
    }
    return true;
}

static int64_t count_of(fa_shape shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    return n;
}

/* Statistics have x's dimensions, those that are normalised of size 1. */
static fa_tensor *layer_stat(const fa_tensor *x, fa_shape shape) {
    int64_t size[FA_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++) size[d] = d < x->ndim - shape.ndim ? x->size[d] : 1;
    return fai_empty("layer_norm", fai_wide_type(x->dtype), x->device, x->ndim, size);
}

fa_tensor *fai_layer_norm_forward(fa_tensor *x, fa_shape shape, fa_tensor *weight, fa_tensor *bias, double eps, fa_tensor **mean,
                                  fa_tensor **rstd) {
    const char *op = "layer_norm";
    if (!check_float(op, x) || !check_layer_shapes(x, shape, weight, bias)) return NULL;
    FA_SCOPE;
    const int64_t width = count_of(shape);
    fa_tensor *operands[6] = {fai_empty(op, (fa_dtype)x->dtype, x->device, x->ndim, x->size),
                              layer_stat(x, shape),
                              layer_stat(x, shape),
                              fai_contiguous(op, x),
                              weight ? fai_contiguous(op, weight) : NULL,
                              bias ? fai_contiguous(op, bias) : NULL};
    for (int k = 0; k < 6; k++)
        if (!operands[k] && (k < 4 || (k == 4 && weight) || (k == 5 && bias))) return NULL;
    if (x->numel > 0) {
        fa_plan plan;
        plan_operands(&plan, operands, 6, 3);
        plan.n[0] = x->numel / width, plan.n[1] = width, plan.n[2] = fai_rows_per_group(width);
        plan.f[0] = eps;
        plan.groups = fai_groups(plan.n[0], plan.n[2]);
        if (!run(FAI_K_layer_norm_f32, &plan, operands, 6, x, op)) return NULL;
    }
    *mean = fa_keep(operands[1]);
    *rstd = fa_keep(operands[2]);
    return fa_keep(operands[0]);
}

static bool layer_norm_towards_x(fa_tensor *g, fa_tensor *x, int64_t width, fa_tensor *weight, fa_tensor *mean, fa_tensor *rstd,
                                 fa_tensor **out) {
    fa_tensor *operands[6] = {fai_empty_like("layer_norm", x), g, x, mean, rstd, weight};
    fa_plan plan;
    if (!(*out = operands[0])) return false;
    if (x->numel == 0) return true;
    plan_operands(&plan, operands, 6, 1);
    plan.n[0] = x->numel / width, plan.n[1] = width, plan.n[2] = fai_rows_per_group(width);
    plan.groups = fai_groups(plan.n[0], plan.n[2]);
    return run(FAI_K_layer_norm_backward_f32, &plan, operands, 6, x, "layer_norm");
}

static bool layer_norm_towards_weight(fa_tensor *g, fa_tensor *x, fa_shape shape, fa_dtype dtype, fa_tensor *mean,
                                      fa_tensor *rstd, fa_tensor **weight_grad, fa_tensor **bias_grad) {
    fa_tensor *operands[6] = {NULL, NULL, g, x, mean, rstd};
    const int64_t width = count_of(shape), rows = width ? x->numel / width : 0;
    fa_plan plan;
    if (weight_grad && !(*weight_grad = operands[0] = fai_empty("layer_norm", dtype, x->device, shape.ndim, shape.dim)))
        return false;
    if (bias_grad && !(*bias_grad = operands[1] = fai_empty("layer_norm", dtype, x->device, shape.ndim, shape.dim))) return false;
    if (rows == 0)
        return (!weight_grad || fai_zero("layer_norm", *weight_grad)) && (!bias_grad || fai_zero("layer_norm", *bias_grad));
    plan_operands(&plan, operands, 6, 2);
    plan.n[0] = rows, plan.n[1] = width, plan.n[2] = fai_rows_per_group(rows);
    plan.groups = fai_groups(width, plan.n[2]);
    return run(FAI_K_layer_norm_weight_backward_f32, &plan, operands, 6, x, "layer_norm");
}

bool fai_layer_norm_grads(fa_tensor *g, fa_tensor *x, fa_shape shape, fa_tensor *weight, fa_tensor *mean, fa_tensor *rstd,
                          fa_tensor **x_grad, fa_tensor **weight_grad, fa_tensor **bias_grad) {
    const char *op = "layer_norm";
    FA_SCOPE;
    const fa_dtype dtype = weight ? (fa_dtype)weight->dtype : (fa_dtype)x->dtype;
    g = fai_contiguous(op, g), x = fai_contiguous(op, x), mean = fai_contiguous(op, mean), rstd = fai_contiguous(op, rstd);
    if (weight && !(weight = fai_contiguous(op, weight))) return false;
    if (!g || !x || !mean || !rstd) return false;
    if (x_grad && !layer_norm_towards_x(g, x, count_of(shape), weight, mean, rstd, x_grad)) return false;
    if ((weight_grad || bias_grad) && !layer_norm_towards_weight(g, x, shape, dtype, mean, rstd, weight_grad, bias_grad))
        return false;
    if (x_grad) fa_keep(*x_grad);
    if (weight_grad) fa_keep(*weight_grad);
    if (bias_grad) fa_keep(*bias_grad);
    return true;
}

/* ---- batch norm ---- */

static bool check_per_channel(const char *name, const fa_tensor *t, int64_t channels) {
    if (!t) return true;
    if (t->numel != channels || t->ndim != 1)
        return fai_fail(FA_ERR_RUNTIME, "batch_norm",
                        "%s should contain %lld elements not %lld. It is a vector with one number for each channel.", name,
                        (long long)channels, (long long)t->numel);
    return fai_check_dtype("batch_norm", name, t, fai_is_float(t->dtype), "floating");
}

static bool check_batch(const fa_tensor *x, fa_tensor *const stats[4], bool training) {
    static const char *const names[4] = {"running_mean", "running_var", "weight", "bias"};
    char found[160];
    fai_text_shape(found, sizeof found, x->ndim, x->size);
    if (x->ndim < 2)
        return fai_fail(FA_ERR_RUNTIME, "batch_norm",
                        "Expected an input of shape [batch, channels, ...], but got input of size%s", found);
    for (int k = 0; k < 4; k++)
        if (!check_per_channel(names[k], stats[k], x->size[1])) return false;
    if (!training && (!stats[0] || !stats[1]))
        return fai_fail(FA_ERR_RUNTIME, "batch_norm",
                        "Expected running_mean and running_var to be defined when training is false");
    if (training && x->size[1] > 0 && x->numel / x->size[1] == 1)
        return fai_fail(FA_ERR_VALUE, "batch_norm",
                        "Expected more than 1 value per channel when training, got input size torch.Size(%s). If it is the last, smaller batch of a "
                        "loader, leave it out: drop_last=True. (In C: .drop_last = true.)", found);
    return true;
}

static void batch_numbers(fa_plan *plan, const fa_tensor *x, double eps) {
    plan->n[0] = x->size[1], plan->n[1] = x->size[0], plan->n[2] = 1;
    for (int d = 2; d < x->ndim; d++) plan->n[2] *= x->size[d];
    plan->n[3] = fai_rows_per_group(plan->n[1] * plan->n[2]);
    plan->f[0] = eps;
}

/* Mean and rstd of x's channels; the running statistics move towards them. */
static bool batch_stats(fa_tensor *x, fa_tensor *running_mean, fa_tensor *running_var, double momentum, double eps,
                        fa_tensor **mean, fa_tensor **rstd) {
    const char *op = "batch_norm";
    fa_tensor *operands[5] = {fai_empty(op, fai_wide_type(x->dtype), x->device, 1, &x->size[1]),
                              fai_empty(op, fai_wide_type(x->dtype), x->device, 1, &x->size[1]),
                              running_mean ? fai_contiguous(op, running_mean) : NULL,
                              running_var ? fai_contiguous(op, running_var) : NULL, x};
    fa_plan plan;
    if (!operands[0] || !operands[1] || (running_mean && !operands[2]) || (running_var && !operands[3])) return false;
    plan_operands(&plan, operands, 5, 4);
    batch_numbers(&plan, x, eps);
    plan.f[1] = momentum;
    plan.groups = fai_groups(plan.n[0], plan.n[3]);
    if (!run(FAI_K_batch_norm_stats_f32, &plan, operands, 5, x, op)) return false;
    *mean = operands[0];
    *rstd = operands[1];
    return (operands[2] == running_mean || fai_copy(op, running_mean, operands[2])) &&
           (operands[3] == running_var || fai_copy(op, running_var, operands[3]));
}

fa_tensor *fai_batch_norm_forward(fa_tensor *x, fa_tensor *running_mean, fa_tensor *running_var, fa_tensor *weight,
                                  fa_tensor *bias, bool training, double momentum, double eps, fa_tensor **mean,
                                  fa_tensor **rstd) {
    const char *op = "batch_norm";
    if (!check_float(op, x) || !check_batch(x, (fa_tensor *const[4]){running_mean, running_var, weight, bias}, training))
        return NULL;
    if (training && (running_mean || running_var) && fai_refuse_pending(op)) return NULL;
    FA_SCOPE;
    fa_tensor *source = fai_contiguous(op, x),
              *out = source ? fai_empty(op, (fa_dtype)x->dtype, x->device, x->ndim, x->size) : NULL;
    fa_tensor *m = NULL, *r = NULL, *w = weight ? fai_contiguous(op, weight) : NULL, *b = bias ? fai_contiguous(op, bias) : NULL;
    if (!out || (weight && !w) || (bias && !b)) return NULL;
    if (x->numel == 0) return fa_keep(out);
    if (training) { /* from here on nothing is allocated, or running statistics would move for a call that failed */
        if (!batch_stats(source, running_mean, running_var, momentum, eps, &m, &r)) return NULL;
    } else if (!(m = fai_contiguous(op, running_mean)) || !(r = fai_contiguous(op, running_var)))
        return NULL;
    fa_tensor *operands[6] = {out, source, m, r, w, b};
    fa_plan plan;
    plan_operands(&plan, operands, 6, 1);
    batch_numbers(&plan, x, eps);
    plan.n[4] = training ? 0 : 1;
    plan.groups = fai_groups(x->numel, 1024);
    if (!run(FAI_K_batch_norm_f32, &plan, operands, 6, x, op)) return NULL;
    if (training) *mean = fa_keep(m), *rstd = fa_keep(r);
    return fa_keep(out);
}

bool fai_batch_norm_grads(fa_tensor *g, fa_tensor *x, fa_tensor *weight, fa_tensor *mean, fa_tensor *rstd_or_var, bool training,
                          double eps, fa_tensor **x_grad, fa_tensor **weight_grad, fa_tensor **bias_grad) {
    const char *op = "batch_norm";
    FA_SCOPE;
    const fa_dtype dtype = weight ? (fa_dtype)weight->dtype : (fa_dtype)x->dtype;
    const int64_t channels = x->size[1];
    fa_tensor *operands[8] = {NULL,
                              NULL,
                              NULL,
                              fai_contiguous(op, g),
                              fai_contiguous(op, x),
                              fai_contiguous(op, mean),
                              fai_contiguous(op, rstd_or_var),
                              weight ? fai_contiguous(op, weight) : NULL};
    for (int k = 3; k < 7 + (weight != NULL); k++)
        if (!operands[k]) return false;
    if (x_grad && !(*x_grad = operands[0] = fai_empty(op, (fa_dtype)x->dtype, x->device, x->ndim, x->size))) return false;
    if (weight_grad && !(*weight_grad = operands[1] = fai_empty(op, dtype, x->device, 1, &channels))) return false;
    if (bias_grad && !(*bias_grad = operands[2] = fai_empty(op, dtype, x->device, 1, &channels))) return false;
    if (x->numel > 0) {
        fa_plan plan;
        plan_operands(&plan, operands, 8, 3);
        batch_numbers(&plan, x, eps);
        plan.n[4] = training ? 2 : 1;
        plan.groups = fai_groups(channels, plan.n[3]);
        if (!run(FAI_K_batch_norm_backward_f32, &plan, operands, 8, x, op)) return false;
    } else if ((weight_grad && !fai_zero(op, *weight_grad)) || (bias_grad && !fai_zero(op, *bias_grad)))
        return false;
    if (x_grad) fa_keep(*x_grad);
    if (weight_grad) fa_keep(*weight_grad);
    if (bias_grad) fa_keep(*bias_grad);
    return true;
}
