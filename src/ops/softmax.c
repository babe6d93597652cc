/* Softmax and log-softmax along a dimension, and their fused derivatives (kernels/softmax.k.h). */
#include "ordered.h"
#include "ops_gen.h"

static bool check_type(const char *op, const char *kernel, const fa_tensor *x) {
    if (fai_is_float(x->dtype)) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op,
                    "\"%s_lastdim_kernel_impl\" not implemented for '%s'. It takes floating tensors: fa_cast(x, FA_FLOAT32).",
                    kernel, fai_dtype_title((fa_dtype)x->dtype));
}

/* out and its one or two inputs, all contiguous. */
static fa_tensor *run_rows(const char *op, int kernel, fa_tensor *const operands[3], int n, int dim, bool log) {
    fa_tensor *out = operands[0];
    const fai_lines rows = fai_lines_of(out, dim);
    fa_plan plan;
    if (out->numel == 0) return out;
    fai_plan_begin(&plan);
    for (int k = 0; k < n; k++) fai_plan_view(&plan, k, operands[k], k == 0);
    plan.numel = out->numel;
    plan.n[0] = rows.outer * rows.inner, plan.n[1] = rows.dim, plan.n[2] = rows.inner, plan.n[3] = log;
    plan.n[4] = fai_rows_per_group(rows.dim);
    plan.groups = fai_groups(plan.n[0], plan.n[4]);
    return fai_run(kernel + fai_compute(out->dtype), &plan, operands, n, op) ? out : NULL;
}

static fa_tensor *forward(const char *op, fa_tensor *x, int64_t dim, bool log) {
    int at;
    if (!check_type(op, log ? "log_softmax" : "softmax", x) || !fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    FA_SCOPE;
    fa_tensor *source = fai_contiguous(op, x), *out = source ? fai_empty_like(op, source) : NULL;
    return out ? fa_keep(run_rows(op, FAI_K_softmax_f32, (fa_tensor *const[3]){out, source}, 2, at, log)) : NULL;
}

static fa_tensor *backward(const char *op, fa_tensor *g, fa_tensor *result, int64_t dim, bool log) {
    int at;
    if (!check_type(op, log ? "log_softmax_backward" : "softmax_backward", g) || !fai_wrap_dim(op, dim, result->ndim, &at))
        return NULL;
    if (g->numel != result->numel)
        return fai_fail(FA_ERR_RUNTIME, op, "the gradient has %lld elements, the result %lld: their shapes must be the same",
                        (long long)g->numel, (long long)result->numel);
    FA_SCOPE;
    fa_tensor *incoming = fai_contiguous(op, g), *y = fai_contiguous(op, result);
    fa_tensor *out = incoming && y ? fai_empty_like(op, y) : NULL;
    return out ? fa_keep(run_rows(op, FAI_K_softmax_backward_f32, (fa_tensor *const[3]){out, incoming, y}, 3, at, log)) : NULL;
}

fa_tensor *fai_softmax_forward(fa_tensor *x, int64_t dim) { return forward("softmax", x, dim, false); }
fa_tensor *fai_log_softmax_forward(fa_tensor *x, int64_t dim) { return forward("log_softmax", x, dim, true); }
fa_tensor *fai_softmax_grad_forward(fa_tensor *g_out, fa_tensor *result, int64_t dim) {
    return backward("softmax_grad", g_out, result, dim, false);
}
fa_tensor *fai_log_softmax_grad_forward(fa_tensor *g_out, fa_tensor *result, int64_t dim) {
    return backward("log_softmax_grad", g_out, result, dim, true);
}
