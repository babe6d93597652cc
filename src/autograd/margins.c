/* More losses, in terms of rows: margins between scores, distances and labels, and the likelihoods of Poisson and Gauss. */
#include "composite.h"
#include <fa_functional.h>
#include <math.h>

/* All there and of a known reduction, the first floating; optional: bit i set where inputs[i] may be NULL. */
static bool begin(const char *op, int n, const char *const *names, fa_tensor *const *inputs, uint32_t optional,
                  const char *reduction) {
    if (!fai_op_begin(op, n, names, inputs, optional) || !fai_check_reduction(op, reduction)) return false;
    if (fai_is_float(inputs[0]->dtype)) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op,
                    "\"%s\" not implemented for '%s'; a loss needs a floating tensor: fa_cast(x, FA_FLOAT32)", op,
                    fai_dtype_title((fa_dtype)inputs[0]->dtype));
}

/* 16-bit inputs in float32, so that a loss is rounded once; type: what it is cast to in the end; DEFAULT: to none. */
static bool widen(int n, fa_tensor **const inputs[], fa_dtype *type) {
    const int narrow = (*inputs[0])->dtype;
    bool all = narrow == FA_FLOAT16 || narrow == FA_BFLOAT16;
    for (int i = 0; i < n; i++) {
        fa_tensor *t = *inputs[i];
        all = all && (!t || !fai_is_float(t->dtype) || t->dtype == narrow);
        *inputs[i] = fai_widened(t);
        if (t && !*inputs[i]) return false;
    }
    *type = all ? (fa_dtype)narrow : FA_DTYPE_DEFAULT;
    return true;
}

static fa_tensor *finished(fa_tensor *loss, const char *reduction, fa_dtype type) {
    loss = fai_reduce_loss(loss, reduction);
    return type == FA_DTYPE_DEFAULT ? loss : fa_cast(loss, type);
}

static fa_tensor *above(fa_tensor *x, double low) { return fa_clamp_min(x, fa_scalar_of_float(low)); }
static fa_tensor *less(double n, fa_tensor *x) { return fai_row2(FAI_ROW_sub, fai_number(n), fai_of(x)); }
/* x where target is (or is not) n, else 0. */
static fa_tensor *where_is(fa_tensor *target, double n, fa_tensor *x) { return fai_choose(fai_equals(target, n), x, 0); }
static fa_tensor *where_is_not(fa_tensor *target, double n, fa_tensor *x) {
    return fai_choose(fai_row2(FAI_ROW_ne, fai_of(target), fai_number(n)), x, 0);
}

/* ---- distances ---- */

fa_tensor *fai_plain_triplet_margin_loss(fa_tensor *anchor, fa_tensor *positive, fa_tensor *negative, double margin, double p,
                                   double eps, bool swap, const char *reduction) {
    static const char *const op = "triplet_margin_loss", *const names[] = {"anchor", "positive", "negative"};
    FAI_CALLED(op);
    if (!begin(op, 3, names, (fa_tensor *const[]){anchor, positive, negative}, 0, reduction)) return NULL;
    if (anchor->ndim != positive->ndim || anchor->ndim != negative->ndim)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
            "%dD, positive %dD, and negative %dD inputs",
            anchor->ndim, positive->ndim, negative->ndim);
    if (!(margin > 0)) return fai_fail(FA_ERR_VALUE, op, "margin must be greater than 0, got %g", margin);
    FA_SCOPE;
    fa_dtype type;
    if (!widen(3, (fa_tensor * *const[]){&anchor, &positive, &negative}, &type)) return NULL;
    const fa_shape last = FA_SHAPE(-1);
    fa_tensor *near = fa_norm_dims(fai_add_number(fa_sub(anchor, positive), eps), p, last, false);
    fa_tensor *far = fa_norm_dims(fai_add_number(fa_sub(anchor, negative), eps), p, last, false);
    if (swap) far = fa_minimum(far, fa_norm_dims(fai_add_number(fa_sub(positive, negative), eps), p, last, false));
    return fa_keep(finished(above(fa_sub(fai_add_number(near, margin), far), 0), reduction, type));
}

fa_tensor *fai_plain_cosine_embedding_loss(fa_tensor *x1, fa_tensor *x2, fa_tensor *target, double margin, const char *reduction) {
    static const char *const op = "cosine_embedding_loss", *const names[] = {"x1", "x2", "target"};
    FAI_CALLED(op);
    if (!begin(op, 3, names, (fa_tensor *const[]){x1, x2, target}, 0, reduction)) return NULL;
    const bool one = target->ndim == 0 && x1->ndim == 1 && x2->ndim == 1;
    if (!one && !(target->ndim == 1 && x1->ndim == 2 && x2->ndim == 2))
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "%dD target tensor expects %dD input tensors, but found inputs with %d and %d dimensions: [n, d], [n, d] and [n]",
            target->ndim, target->ndim + 1, x1->ndim, x2->ndim);
    FA_SCOPE;
    fa_dtype type;
    if (!widen(3, (fa_tensor * *const[]){&x1, &x2, &target}, &type)) return NULL;
    const fa_shape last = FA_SHAPE(-1);
    fa_tensor *products = fa_sum_dims(fa_mul(x1, x2), last, false);
    fa_tensor *squares1 = fai_add_number(fa_sum_dims(fa_square(x1), last, false), 1e-12);
    fa_tensor *squares2 = fai_add_number(fa_sum_dims(fa_square(x2), last, false), 1e-12);
    fa_tensor *cosine = fa_div(products, fa_sqrt(fa_mul(squares1, squares2)));
    fa_tensor *loss =
        fa_add(where_is(target, 1, less(1, cosine)), where_is(target, -1, above(fai_add_number(cosine, -margin), 0)));
    return fa_keep(finished(loss, reduction, type));
}

/* ---- scores ---- */

fa_tensor *fai_plain_margin_ranking_loss(fa_tensor *x1, fa_tensor *x2, fa_tensor *target, double margin, const char *reduction) {
    static const char *const op = "margin_ranking_loss", *const names[] = {"x1", "x2", "target"};
    FAI_CALLED(op);
    if (!begin(op, 3, names, (fa_tensor *const[]){x1, x2, target}, 0, reduction)) return NULL;
    if (x1->ndim != x2->ndim || x1->ndim != target->ndim)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "margin_ranking_loss : All input tensors should have same dimension but got sizes of %d, %d and %d dimensions",
            x1->ndim, x2->ndim, target->ndim);
    FA_SCOPE;
    fa_dtype type;
    if (!widen(3, (fa_tensor * *const[]){&x1, &x2, &target}, &type)) return NULL;
    return fa_keep(finished(above(fai_add_number(fa_mul(fa_neg(target), fa_sub(x1, x2)), margin), 0), reduction, type));
}

fa_tensor *fai_plain_hinge_embedding_loss(fa_tensor *x, fa_tensor *target, double margin, const char *reduction) {
    static const char *const op = "hinge_embedding_loss", *const names[] = {"x", "target"};
    FAI_CALLED(op);
    if (!begin(op, 2, names, (fa_tensor *const[]){x, target}, 0, reduction)) return NULL;
    FA_SCOPE;
    fa_dtype type;
    if (!widen(2, (fa_tensor * *const[]){&x, &target}, &type)) return NULL;
    fa_tensor *loss = fa_add(where_is_not(target, 1, above(less(margin, x), 0)), where_is_not(target, -1, x));
    return fa_keep(finished(loss, reduction, type));
}

fa_tensor *fai_plain_soft_margin_loss(fa_tensor *x, fa_tensor *target, const char *reduction) {
    static const char *const op = "soft_margin_loss", *const names[] = {"x", "target"};
    FAI_CALLED(op);
    if (!begin(op, 2, names, (fa_tensor *const[]){x, target}, 0, reduction)) return NULL;
    FA_SCOPE;
    fa_dtype type;
    if (!widen(2, (fa_tensor * *const[]){&x, &target}, &type)) return NULL;
    return fa_keep(finished(fa_log1p(fa_exp(fa_mul(fa_neg(target), x))), reduction, type));
}

/* x [n, c] or [c], target and weight as the two losses below take them. */
static bool classes_fit(const char *op, const fa_tensor *x, const fa_tensor *target, int target_ndim) {
    char found[160], shape[160];
    const bool fits = (x->ndim == 1 || x->ndim == 2) && x->size[x->ndim - 1] > 0 && target->dtype == FA_INT64 &&
                      (target->ndim == x->ndim - 1 + target_ndim || (x->ndim == 1 && target->ndim == 1 && target->numel == 1)) &&
                      (x->ndim == 1 || target->size[0] == x->size[0]) && (target_ndim == 0 || fai_same_shape(x, target));
    if (fits) return true;
    fai_text_shape(shape, sizeof shape, x->ndim, x->size);
    fai_text_shape(found, sizeof found, target->ndim, target->size);
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s; and an int64 target of %s, found %s of "
        "shape %s",
        shape, target_ndim ? "the same shape" : "a class for each row", fa_dtype_name((fa_dtype)target->dtype), found);
}

fa_tensor *fai_plain_multi_margin_loss(fa_tensor *x, fa_tensor *target, int64_t p, double margin, fa_tensor *weight,
                                 const char *reduction) {
    static const char *const op = "multi_margin_loss", *const names[] = {"x", "target", "weight"};
    FAI_CALLED(op);
    if (!begin(op, 3, names, (fa_tensor *const[]){x, target, weight}, 4, reduction)) return NULL;
    if (p != 1 && p != 2) return fai_fail(FA_ERR_VALUE, op, "only p == 1 and p == 2 supported, found %lld", (long long)p);
    if (!classes_fit(op, x, target, 0)) return NULL;
    const int64_t classes = x->size[x->ndim - 1];
    if (weight && (weight->ndim != 1 || weight->numel != classes))
        return fai_fail(FA_ERR_RUNTIME, op, "inconsistent weight size, expected %lld elements but got %lld", (long long)classes,
                        (long long)weight->numel);
    FA_SCOPE;
    fa_dtype type;
    if (!widen(3, (fa_tensor * *const[]){&x, &target, &weight}, &type)) return NULL;
    fa_tensor *rows = x->ndim == 1 ? fa_unsqueeze(x, 0) : x, *index = fa_reshape(target, FA_SHAPE(-1, 1));
    fa_tensor *terms = above(fai_add_number(fa_sub(rows, fa_gather(rows, 1, index)), margin), 0);
    if (p == 2) terms = fa_square(terms);
    if (weight) terms = fa_mul(terms, fa_unsqueeze(fa_index_select(weight, 0, fa_reshape(target, FA_SHAPE(-1))), 1));
    terms = fa_scatter_value(terms, 1, index, fa_scalar_of_float(0)); /* the class itself does not count */
    fa_tensor *loss = fai_divide(fa_sum_dims(terms, FA_SHAPE(1), false), (double)classes);
    return fa_keep(finished(x->ndim == 1 ? fa_squeeze_dim(loss, 0) : loss, reduction, type));
}

fa_tensor *fai_plain_multilabel_margin_loss(fa_tensor *x, fa_tensor *target, const char *reduction) {
    static const char *const op = "multilabel_margin_loss", *const names[] = {"x", "target"};
    FAI_CALLED(op);
    if (!begin(op, 2, names, (fa_tensor *const[]){x, target}, 0, reduction) || !classes_fit(op, x, target, 1)) return NULL;
    FA_SCOPE;
    fa_dtype type;
    if (!widen(2, (fa_tensor * *const[]){&x, &target}, &type)) return NULL;
    fa_tensor *rows = x->ndim == 1 ? fa_unsqueeze(x, 0) : x, *labels = x->ndim == 1 ? fa_unsqueeze(target, 0) : target;
    const fai_operand zero = {.scalar = fa_scalar_of_int(0)};
    /* labels end at the first that is below 0 */
    fa_tensor *ends = fa_cumsum(fa_to_dtype(fai_row2(FAI_ROW_lt, fai_of(labels), zero), FA_INT64), 1);
    fa_tensor *valid = fai_row2(FAI_ROW_eq, fai_of(ends), zero),
              *index = fai_row3(FAI_ROW_where, fai_of(valid), fai_of(labels), zero);
    fa_tensor *counts =
        labels ? fa_scatter_add(fai_zeros_of(labels, fa_shape_of_tensor(labels)), 1, index, fa_to_dtype(valid, FA_INT64)) : NULL;
    fa_tensor *others = fai_row2(FAI_ROW_eq, fai_of(counts), zero);
    fa_tensor *pairs = above(less(1, fa_sub(fa_unsqueeze(fa_gather(rows, 1, index), 2), fa_unsqueeze(rows, 1))), 0);
    pairs = fai_choose(fa_logical_and(fa_unsqueeze(valid, 2), fa_unsqueeze(others, 1)), pairs, 0);
    fa_tensor *loss = fai_divide(fa_sum_dims(pairs, FA_SHAPE(1, 2), false), (double)x->size[x->ndim - 1]);
    return fa_keep(finished(x->ndim == 1 ? fa_squeeze_dim(loss, 0) : loss, reduction, type));
}

fa_tensor *fai_plain_multilabel_soft_margin_loss(fa_tensor *x, fa_tensor *target, fa_tensor *weight, const char *reduction) {
    static const char *const op = "multilabel_soft_margin_loss", *const names[] = {"x", "target", "weight"};
    FAI_CALLED(op);
    if (!begin(op, 3, names, (fa_tensor *const[]){x, target, weight}, 4, reduction)) return NULL;
    if (x->ndim == 0) return fai_fail(FA_ERR_RUNTIME, op, "a 0-dim input has no classes: [..., c] is needed");
    FA_SCOPE;
    fa_dtype type;
    if (!widen(3, (fa_tensor * *const[]){&x, &target, &weight}, &type)) return NULL;
    fa_tensor *loss = fa_neg(fa_add(fa_mul(target, fa_log_sigmoid(x)), fa_mul(less(1, target), fa_log_sigmoid(fa_neg(x)))));
    if (weight) loss = fa_mul(loss, weight);
    loss = fai_divide(fa_sum_dims(loss, FA_SHAPE(-1), false), (double)x->size[x->ndim - 1]);
    return fa_keep(finished(loss, reduction, type));
}

/* ---- likelihoods ---- */

fa_tensor *fai_plain_poisson_nll_loss(fa_tensor *x, fa_tensor *target, bool log_input, bool full, double eps, const char *reduction) {
    static const char *const op = "poisson_nll_loss", *const names[] = {"x", "target"};
    FAI_CALLED(op);
    if (!begin(op, 2, names, (fa_tensor *const[]){x, target}, 0, reduction)) return NULL;
    FA_SCOPE;
    fa_dtype type;
    if (!widen(2, (fa_tensor * *const[]){&x, &target}, &type)) return NULL;
    fa_tensor *loss =
        log_input ? fa_sub(fa_exp(x), fa_mul(target, x)) : fa_sub(x, fa_mul(target, fa_log(fai_add_number(x, eps))));
    if (full) { /* Stirling's formula for the logarithm of the factorial */
        fa_tensor *stirling = fa_sub(fa_mul(target, fa_log(target)), target);
        stirling = fa_add(stirling, fai_multiply(fa_log(fai_multiply(target, 6.283185307179586)), 0.5));
        loss = fa_add(loss, fai_choose(fai_row2(FAI_ROW_gt, fai_of(target), fai_number(1)), stirling, 0));
    }
    return fa_keep(finished(loss, reduction, type));
}

/* var with x's dimensions: of the same shape, or without the last dimension, or with one of size 1. */
static fa_tensor *variances(const char *op, const fa_tensor *x, fa_tensor *var) {
    bool leading = var->ndim == x->ndim || var->ndim == x->ndim - 1;
    for (int d = 0; leading && d + 1 < x->ndim; d++) leading = var->size[d] == x->size[d];
    if (leading && var->ndim == x->ndim - 1) return fa_unsqueeze(var, -1);
    if (fai_same_shape(x, var) || (leading && x->ndim && var->size[x->ndim - 1] == 1)) return var;
    return fai_fail(
        FA_ERR_VALUE, op,
        "var is of incorrect size: it has the input's shape, or that with a last size of 1, or that without the last dimension");
}

fa_tensor *fai_plain_gaussian_nll_loss(fa_tensor *x, fa_tensor *target, fa_tensor *var, bool full, double eps, const char *reduction) {
    static const char *const op = "gaussian_nll_loss", *const names[] = {"x", "target", "var"};
    FAI_CALLED(op);
    if (!begin(op, 3, names, (fa_tensor *const[]){x, target, var}, 0, reduction)) return NULL;
    FA_SCOPE;
    fa_dtype type;
    if (!widen(3, (fa_tensor * *const[]){&x, &target, &var}, &type)) return NULL;
    var = variances(op, x, var);
    if (!var) return NULL;
    const bool ask = var->numel && !fai_capturing(var->device);
    fa_tensor *least = ask ? fa_amin(var) : NULL;
    if (ask && !least) return NULL;
    if (least && fa_item(least) < 0) return fai_fail(FA_ERR_VALUE, op, "var has negative entry/entries");
    fa_tensor *held = fa_add(var, fa_detach(fa_sub(above(var, eps), var))); /* not below eps; the derivative does not know */
    fa_tensor *loss = fai_multiply(fa_add(fa_log(held), fa_div(fa_square(fa_sub(x, target)), held)), 0.5);
    if (full) loss = fai_add_number(loss, 0.9189385332046727);
    return fa_keep(finished(loss, reduction, type));
}
