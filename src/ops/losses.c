/* Negative log likelihood and its derivative (kernels/loss.k.h): shapes, checks, plans. */
#include "ordered.h"
#include "../../kernels/status.h"
#include "ops_gen.h"
#include <string.h>

enum { NONE, MEAN, SUM };

static int reduction_of(const char *op, const char *name) {
    if (name && !strcmp(name, "none")) return NONE;
    if (name && !strcmp(name, "mean")) return MEAN;
    if (name && !strcmp(name, "sum")) return SUM;
    fai_fail(FA_ERR_VALUE, op, "%s is not a valid value for reduction. Give \"mean\", \"sum\" or \"none\".",
             name ? name : "NULL");
    return -1;
}

/* Sizes of x [classes], [batch, classes] or [batch, classes, ...]. */
static void nll_numbers(fa_plan *plan, int ndim, const int64_t *size, int reduction, int64_t ignore_index) {
    plan->n[0] = ndim > 1 ? size[0] : 1;
    plan->n[1] = size[ndim > 1];
    plan->n[2] = 1;
    for (int d = 2; d < ndim; d++) plan->n[2] *= size[d];
    plan->n[3] = reduction;
    plan->n[4] = ignore_index;
}

static bool check_target(const fa_tensor *x, const fa_tensor *target) {
    const char *op = "nll_loss";
    char found[160], wanted[160];
    int64_t size[FA_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++)
        if (d != (x->ndim > 1)) size[n++] = x->size[d];
    if (x->ndim == 0)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "input tensor should be 1D or 2D, or have more dimensions after the classes; it has none");
    if (target->dtype != FA_INT64 && target->dtype != FA_UINT8)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "expected target dtype to be Long or Byte, but got %s. Convert it: fa_cast(target, FA_INT64).",
                        fai_dtype_title((fa_dtype)target->dtype));
    if (x->ndim > 1 && (target->ndim == 0 || target->size[0] != x->size[0]))
        return fai_fail(FA_ERR_VALUE, op, "Expected input batch_size (%lld) to match target batch_size (%lld).",
                        (long long)x->size[0], target->ndim ? (long long)target->size[0] : 1LL);
    if (target->ndim > 1 && x->ndim <= 2)
        return fai_fail(FA_ERR_RUNTIME, op, "0D or 1D target tensor expected, multi-target not supported");
    bool same = target->ndim == n || (n == 0 && target->numel == 1);
    for (int d = 0; same && d < n; d++) same = target->size[d] == size[d];
    if (same) return true;
    fai_text_shape(found, sizeof found, target->ndim, target->size);
    fai_text_shape(wanted, sizeof wanted, n, size);
    return fai_fail(FA_ERR_RUNTIME, op,
                    "size mismatch (got input: targets of shape %s, expected %s: the input's shape without its classes)", found,
                    wanted);
}

static bool check_weight(const fa_tensor *x, const fa_tensor *weight) {
    char found[160];
    const int64_t classes = x->size[x->ndim > 1];
    if (!weight) return true;
    fai_text_shape(found, sizeof found, weight->ndim, weight->size);
    if (weight->ndim != 1 || weight->numel != classes)
        return fai_fail(
            FA_ERR_RUNTIME, "nll_loss",
            "weight tensor should be defined either for all %lld classes or no classes but got weight tensor of shape: %s",
            (long long)classes, found);
    if (weight->dtype != x->dtype)
        return fai_fail(FA_ERR_RUNTIME, "nll_loss",
                        "expected scalar type %s but found %s. The weight has to have the input's dtype.",
                        fai_dtype_title((fa_dtype)x->dtype), fai_dtype_title((fa_dtype)weight->dtype));
    return true;
}

fa_tensor *fai_nll_loss_forward(fa_tensor *x, fa_tensor *target, fa_tensor *weight, const char *reduction, int64_t ignore_index,
                                fa_tensor **total) {
    const char *op = "nll_loss";
    const int way = reduction_of(op, reduction);
    if (way < 0) return NULL;
    if (!fai_is_float(x->dtype))
        return fai_fail(
            FA_ERR_UNSUPPORTED, op,
            "\"nll_loss_out_frame\" not implemented for '%s'. The input is log-probabilities: fa_log_softmax gives them.",
            fai_dtype_title((fa_dtype)x->dtype));
    if (!check_target(x, target) || !check_weight(x, weight)) return NULL;
    const int64_t classes = x->size[x->ndim > 1];
    if (!fai_indices_fit(op, target, 0, classes - 1, ignore_index, FA_STATUS_TARGET, 1, classes)) return NULL;
    FA_SCOPE;
    fa_tensor *out = fai_empty(op, (fa_dtype)x->dtype, x->device, way == NONE ? target->ndim : 0, target->size);
    fa_tensor *operands[6] = {out,
                              fai_empty(op, fai_wide_type(x->dtype), x->device, 0, NULL),
                              fai_contiguous(op, x),
                              fai_contiguous(op, target),
                              weight ? fai_contiguous(op, weight) : NULL,
                              fai_status(op, x->device)};
    fa_plan plan;
    for (int k = 0; k < 6; k++)
        if (!operands[k] && (k != 4 || weight)) return NULL;
    fai_plan_begin(&plan);
    for (int k = 0; k < 6; k++)
        if (operands[k]) fai_plan_view(&plan, k, operands[k], k < 2 || k == 5);
    nll_numbers(&plan, x->ndim, x->size, way, ignore_index);
    plan.numel = target->numel;
    plan.groups = way == NONE ? fai_groups(target->numel, 256) : 1;
    plan.n[5] = fai_on_cpu(x) ? 0 : fai_status_number(op);
    if (!fai_run(FAI_K_nll_loss_f32 + fai_compute(x->dtype), &plan, operands, 6, op) || !fai_status_ok(op, operands[5]))
        return NULL;
    *total = fa_keep(operands[1]);
    return fa_keep(out);
}

fa_tensor *fai_nll_loss_backward_forward(fa_tensor *g_out, fa_tensor *target, fa_tensor *weight, fa_shape shape,
                                         const char *reduction, int64_t ignore_index, fa_tensor *total) {
    const char *op = "nll_loss_backward";
    const int way = reduction_of(op, reduction);
    if (way < 0) return NULL;
    if (!fai_is_float(g_out->dtype))
        return fai_fail(FA_ERR_UNSUPPORTED, op, "\"nll_loss_backward\" not implemented for '%s'. A gradient has floating numbers.",
                        fai_dtype_title((fa_dtype)g_out->dtype));
    const int64_t batch_and_space = shape.ndim > 0 ? target->numel : 0;
    if (g_out->numel != (way == NONE ? batch_and_space : 1))
        return fai_fail(FA_ERR_RUNTIME, op, "the gradient has %lld elements; with reduction \"%s\" the loss has %lld",
                        (long long)g_out->numel, reduction, (long long)(way == NONE ? batch_and_space : 1));
    FA_SCOPE;
    fa_tensor *operands[5] = {fai_empty(op, (fa_dtype)g_out->dtype, g_out->device, shape.ndim, shape.dim),
                              fai_contiguous(op, g_out), fai_contiguous(op, target), weight ? fai_contiguous(op, weight) : NULL,
                              total};
    fa_plan plan;
    if (!operands[0] || !operands[1] || !operands[2] || (weight && !operands[3])) return NULL;
    if (operands[0]->numel == 0) return fa_keep(operands[0]);
    fai_plan_begin(&plan);
    for (int k = 0; k < 5; k++)
        if (operands[k]) fai_plan_view(&plan, k, operands[k], k == 0);
    nll_numbers(&plan, shape.ndim, shape.dim, way, ignore_index);
    plan.numel = operands[0]->numel;
    plan.groups = fai_groups(plan.numel, 1024);
    return fai_run(FAI_K_nll_loss_backward_f32 + fai_compute(g_out->dtype), &plan, operands, 5, op) ? fa_keep(operands[0]) : NULL;
}
