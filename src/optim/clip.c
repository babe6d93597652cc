/* Clipping: gradients scaled together, so that their joint norm is at most a given one. Nothing is read back until the end. */
#include "optim.h"
#include <math.h>

static bool check_arguments(fa_tensor *const *parameters, int n, double max_norm, double norm_type) {
    if (n < 0 || (n > 0 && !parameters))
        return fai_fail(FA_ERR_TYPE, "clip_grad_norm", "argument 'parameters' must be a list of tensors; found %s with n = %d",
                        parameters ? "one" : "NULL", n);
    for (int i = 0; i < n; i++)
        if (!fai_check("clip_grad_norm", "parameters", parameters[i])) return false;
    if (isnan(max_norm) || isnan(norm_type))
        return fai_fail(FA_ERR_VALUE, "clip_grad_norm", "max_norm and norm_type must be numbers; found %g and %g", max_norm,
                        norm_type);
    return true;
}

/* The norm of every gradient, on the first one's device and in its dtype or a wider one: a 1-d tensor. */
static fa_tensor *all_norms(fa_tensor *const *parameters, int n, double norm_type, fa_tensor **norms, int count) {
    fa_dtype dtype = FA_DTYPE_DEFAULT;
    int at = 0;
    for (int i = 0; i < n; i++) {
        fa_tensor *grad = parameters[i]->grad;
        if (!grad) continue;
        dtype = dtype ? fa_promote_types(dtype, (fa_dtype)grad->dtype) : (fa_dtype)grad->dtype;
        fa_tensor *norm = fa_norm(grad, norm_type);
        norms[at] = norm && at > 0 ? fa_to(norm, norms[0]->device) : norm;
        if (!norms[at++]) return NULL;
    }
    for (int i = 0; i < count; i++)
        if (!(norms[i] = fa_cast(norms[i], dtype))) return NULL;
    return fa_stack(norms, count, 0);
}

/* What gradients are multiplied by: max_norm / (total + 1e-6), at most 1. */
static fa_tensor *coefficient(fa_tensor *total, double max_norm) {
    fa_tensor *shifted = fa_add_scalar(total, 1e-6);
    return fa_minimum_scalar(fa_mul_scalar(fa_reciprocal(shifted), max_norm), 1.0);
}

static bool scale(fa_tensor *const *parameters, int n, fa_tensor *factor) {
    for (int i = 0; i < n; i++) {
        fa_tensor *grad = parameters[i]->grad;
        if (!grad) continue;
        fa_tensor *here = fa_to(factor, grad->device);
        if (!here) return false;
        fai_operand operands[] = {fai_of(grad), fai_of(here)};
        if (!fai_row_in_place(FAI_ROW_mul, 2, operands, NULL)) return false;
    }
    return true;
}

double fa_clip_grad_norm(fa_tensor *const *parameters, int n, double max_norm, double norm_type) {
    int count = 0;
    if (fai_refuse_pending("clip_grad_norm") || !check_arguments(parameters, n, max_norm, norm_type)) return -1;
    for (int i = 0; i < n; i++) count += parameters[i]->grad != NULL;
    if (!count) return 0;
    const size_t bytes = (size_t)count * sizeof(fa_tensor *);
    fa_tensor **norms = fai_alloc(FAI_TAG_OBJECT, bytes);
    if (!norms) return fai_fail_memory("clip_grad_norm", bytes), -1;
    FA_SCOPE;
    FA_NO_GRAD;
    fa_tensor *all = all_norms(parameters, n, norm_type, norms, count);
    fai_free(FAI_TAG_OBJECT, norms, bytes);
    fa_tensor *total = all ? fa_norm(all, norm_type) : NULL, *factor = total ? coefficient(total, max_norm) : NULL;
    if (!factor || !scale(parameters, n, factor)) return -1;
    const double norm = fa_item(total);
    return fa_failed() ? -1 : norm;
}
