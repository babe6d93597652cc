/* Losses: an elementwise row or a fused kernel, then the reduction; with torch's checks. */
#include "composite.h"
#include <math.h>

/* ---- reductions ---- */

bool fai_check_reduction(const char *op, const char *reduction) {
    if (reduction && (!strcmp(reduction, "mean") || !strcmp(reduction, "sum") || !strcmp(reduction, "none"))) return true;
    return fai_fail(FA_ERR_VALUE, op, "%s is not a valid value for reduction; give \"mean\", \"sum\" or \"none\"",
                    reduction ? reduction : "NULL");
}

fa_tensor *fai_reduce_loss(fa_tensor *loss, const char *reduction) {
    if (!loss || !strcmp(reduction, "none")) return loss;
    return !strcmp(reduction, "sum") ? fa_sum(loss) : fa_mean(loss);
}

/* "torch.Size([2, 3])" */
static const char *size_text(const fa_tensor *t, char *out, size_t n) {
    char shape[160];
    fai_text_shape(shape, sizeof shape, t->ndim, t->size);
    snprintf(out, n, "torch.Size(%s)", shape);
    return out;
}

static bool begin_loss(const char *op, fa_tensor *x, fa_tensor *target, const char *reduction) {
    return fai_begin2(op, "input", x, "target", target) && fai_check_reduction(op, reduction);
}

/* Losses of torch that broadcast, and say that it is probably not meant. */
static void warn_of_sizes(const char *op, const fa_tensor *x, const fa_tensor *target) {
    char found[200], expected[200];
    if (fai_same_shape(x, target)) return;
    fai_warn(op,
             "Using a target size (%s) that is different to the input size (%s). This will likely lead to incorrect results due "
             "to broadcasting. "
             "Please ensure they have the same size.",
             size_text(target, found, sizeof found), size_text(x, expected, sizeof expected));
}

/* A row over both, and its reduction: one node. */
static fa_tensor *reduced_row(int row, fa_tensor *x, fa_tensor *target, const double *number, const char *reduction) {
    const fai_operand operands[] = {fai_of(x), fai_of(target)};
    if (!strcmp(reduction, "none")) return fai_row(row, 2, operands, number);
    FA_SCOPE;
    if (row == FAI_ROW_l1_element) return fa_keep(fai_reduce_loss(fai_row(row, 2, operands, number), reduction)); /* as torch shows it */
    return fa_keep(fai_row_reduced(row, 2, operands, number, strcmp(reduction, "sum") != 0));
}

/* ---- distances ---- */

static fa_tensor *distance_loss(const char *op, int row, fa_tensor *x, fa_tensor *target, const char *reduction,
                                const double *number) {
    FA_SCOPE;
    if (x && target && target->ndim == 0) x = fai_beside(x, target);
    if (x && target && x->ndim == 0) target = fai_beside(target, x);
    if (!begin_loss(op, x, target, reduction)) return NULL;
    warn_of_sizes(op, x, target);
    if (!fai_is_float(x->dtype) && !fai_is_float(target->dtype))
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "\"%s\" not implemented for '%s'; a loss needs a floating tensor: fa_cast(x, FA_FLOAT32)", op,
                        fai_dtype_title((fa_dtype)x->dtype));
    return fa_keep(reduced_row(row, x, target, number, reduction));
}

/* Each element times its weight; the mean is divided by the sum of the weights (weighs), or by how many there are. */
static fa_tensor *weighted_loss(const char *op, int row, fa_tensor *x, fa_tensor *target, fa_tensor *weight, const char *reduction,
                                const double *number, bool weighs) {
    char found[200], expected[200];
    if (!weight) return distance_loss(op, row, x, target, reduction, number);
    if (!begin_loss(op, x, target, reduction) || !fai_begin2(op, "input", x, "weight", weight)) return NULL;
    if (!fai_same_shape(weight, x))
        return fai_fail(FA_ERR_VALUE, op, "Weights and input must have the same size. They have %s and %s.",
                        size_text(weight, found, sizeof found), size_text(x, expected, sizeof expected));
    FA_SCOPE;
    fa_tensor *loss = distance_loss(op, row, x, target, "none", number);
    loss = loss ? fa_mul(loss, weight) : NULL;
    if (!weighs || strcmp(reduction, "mean") != 0) return fa_keep(fai_reduce_loss(loss, reduction));
    return fa_keep(fa_div(fa_sum(loss), fa_sum(weight)));
}

fa_tensor *fai_plain_mse_loss(fa_tensor *x, fa_tensor *target, const char *reduction, fa_tensor *weight) {
    return weighted_loss("mse_loss", FAI_ROW_mse_element, x, target, weight, reduction, NULL, true);
}

fa_tensor *fai_plain_l1_loss(fa_tensor *x, fa_tensor *target, const char *reduction, fa_tensor *weight) {
    return weighted_loss("l1_loss", FAI_ROW_l1_element, x, target, weight, reduction, NULL, true);
}

fa_tensor *fai_plain_smooth_l1_loss(fa_tensor *x, fa_tensor *target, const char *reduction, double beta) {
    if (!(beta >= 0))
        return fai_fail(FA_ERR_RUNTIME, "smooth_l1_loss", "smooth_l1_loss does not support negative values for beta. Found %g.",
                        beta);
    if (beta == 0) return distance_loss("smooth_l1_loss", FAI_ROW_l1_element, x, target, reduction, NULL);
    return distance_loss("smooth_l1_loss", FAI_ROW_smooth_l1_element, x, target, reduction, &beta);
}

fa_tensor *fai_plain_huber_loss(fa_tensor *x, fa_tensor *target, const char *reduction, double delta, fa_tensor *weight) {
    if (!(delta > 0))
        return fai_fail(FA_ERR_RUNTIME, "huber_loss", "huber_loss does not support non-positive values for delta. Found %g.",
                        delta);
    return weighted_loss("huber_loss", FAI_ROW_huber_element, x, target, weight, reduction, &delta, false);
}

/* ---- binary cross entropy ---- */

static bool check_probabilities(const char *name, fa_tensor *t) {
    if (t->numel == 0 || fai_capturing(t->device)) return true; /* there are no numbers yet */
    FA_SCOPE;
    FA_NO_GRAD;
    const double low = fa_item(fa_amin(t)), high = fa_item(fa_amax(t));
    if (fa_failed()) return false;
    if (low >= 0 && high <= 1) return true;
    return fai_fail(FA_ERR_RUNTIME, "bce_loss",
                    "all elements of %s should be between 0 and 1. They lie between %g and %g. For logits use "
                    "fa_bce_with_logits_loss.",
                    name, low, high);
}

static bool check_bce(fa_tensor *x, fa_tensor *target, fa_tensor *weight, const char *reduction) {
    const char *op = "bce_loss", *const names[] = {"x", "target", "weight"};
    char found[200], expected[200];
    if (!fai_op_begin(op, 3, names, (fa_tensor *const[]){x, target, weight}, 4) || !fai_check_reduction(op, reduction))
        return false;
    if (!fai_same_shape(x, target))
        return fai_fail(
            FA_ERR_VALUE, op,
            "Using a target size (%s) that is different to the input size (%s) is deprecated. Please ensure they have the "
            "same size.",
            size_text(target, found, sizeof found), size_text(x, expected, sizeof expected));
    if (x->dtype != target->dtype)
        return fai_fail(FA_ERR_RUNTIME, op, "Found dtype %s but expected %s: fa_cast(target, ...)",
                        fai_dtype_title((fa_dtype)target->dtype), fai_dtype_title((fa_dtype)x->dtype));
    return check_probabilities("input", x) && check_probabilities("target", target);
}

fa_tensor *fai_plain_bce_loss(fa_tensor *x, fa_tensor *target, fa_tensor *weight, const char *reduction) {
    if (!check_bce(x, target, weight, reduction)) return NULL;
    if (!weight) return reduced_row(FAI_ROW_bce_element, x, target, NULL, reduction);
    FA_SCOPE;
    fa_tensor *loss = fa_bce_element(x, target);
    loss = fa_mul(loss, fa_expand(weight, fa_shape_of_tensor(x)));
    return fa_keep(fai_reduce_loss(loss, reduction));
}

/* -(w * y * log(s) + (1 - y) * log(1 - s)) for s = sigmoid(x), in a form that never overflows. */
static fa_tensor *weighted_logits(fa_tensor *x, fa_tensor *y, fa_tensor *pos_weight) {
    fa_tensor *rest = fai_row2(FAI_ROW_sub, fai_number(1), fai_of(y));
    fa_tensor *factor = fai_add_number(fa_mul(fai_add_number(pos_weight, -1), y), 1);
    return fa_sub(fa_mul(rest, x), fa_mul(factor, fa_log_sigmoid(x)));
}

fa_tensor *fai_plain_bce_with_logits_loss(fa_tensor *x, fa_tensor *target, fa_tensor *weight, fa_tensor *pos_weight,
                                    const char *reduction) {
    const char *op = "bce_with_logits_loss", *const names[] = {"x", "target", "weight", "pos_weight"};
    char found[200], expected[200];
    if (!fai_op_begin(op, 4, names, (fa_tensor *const[]){x, target, weight, pos_weight}, 12) ||
        !fai_check_reduction(op, reduction))
        return NULL;
    if (!fai_same_shape(x, target))
        return fai_fail(FA_ERR_VALUE, op, "Target size (%s) must be the same as input size (%s)",
                        size_text(target, found, sizeof found), size_text(x, expected, sizeof expected));
    if (!weight && !pos_weight) return reduced_row(FAI_ROW_bce_logits_element, x, target, NULL, reduction);
    FA_SCOPE;
    fa_tensor *loss = pos_weight ? weighted_logits(x, target, pos_weight) : fa_bce_logits_element(x, target);
    if (weight) loss = fa_mul(loss, weight);
    return fa_keep(fai_reduce_loss(loss, reduction));
}

/* ---- Kullback-Leibler ---- */

fa_tensor *fai_plain_kl_div_loss(fa_tensor *x, fa_tensor *target, const char *reduction, bool log_target) {
    const char *op = "kl_div_loss";
    const bool batch = reduction && !strcmp(reduction, "batchmean");
    if (!begin_loss(op, x, target, batch ? "sum" : reduction)) return NULL;
    if (!strcmp(reduction, "mean"))
        fai_warn(op, "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
                     "only by the batch size, "
                     "and aligns with the KL div math definition.'mean' will be changed to behave the same as 'batchmean' in the "
                     "next major release.");
    FA_SCOPE;
    fa_tensor *loss = log_target ? fa_mul(fa_exp(target), fa_sub(target, x)) : fa_kl_div_element(x, target);
    if (!batch) return fa_keep(fai_reduce_loss(loss, reduction));
    return fa_keep(fai_divide(fa_sum(loss), x->ndim ? (double)x->size[0] : 1));
}

/* ---- class indices ---- */

/* target with the ignored positions made 0, shaped for gather along the classes; *counted: where a target counts. */
static fa_tensor *safe_target(fa_tensor *target, int class_dim, int64_t ignore_index, fa_tensor **counted) {
    fa_tensor *index = fa_cast(target, FA_INT64);
    const fai_operand ignored = {.scalar = fa_scalar_of_int(ignore_index)}, zero = {.scalar = fa_scalar_of_int(0)};
    *counted = fai_row2(FAI_ROW_ne, fai_of(index), ignored);
    return fa_unsqueeze(fai_row3(FAI_ROW_where, fai_of(*counted), fai_of(index), zero), class_dim);
}

/* The weight of each target's class. */
static fa_tensor *weight_of(fa_tensor *weight, fa_tensor *index, int class_dim) {
    fa_tensor *flat = fa_index_select(weight, 0, fa_reshape(index, FA_SHAPE(-1)));
    return fa_squeeze_dim(flat && index ? fa_reshape(flat, fa_shape_of_tensor(index)) : NULL, class_dim);
}

fa_tensor *fa_nll_loss_double(fa_tensor *x, fa_tensor *target, fa_tensor *weight, const char *reduction, int64_t ignore_index,
                              fa_tensor *total) {
    const char *op = "nll_loss_double", *const names[] = {"x", "target", "weight", "total"};
    if (!fai_op_begin(op, 4, names, (fa_tensor *const[]){x, target, weight, total}, 12) || !fai_check_reduction(op, reduction))
        return NULL;
    FA_SCOPE;
    const int class_dim = x->ndim == 1 ? 0 : 1;
    fa_tensor *counted, *index = safe_target(target, class_dim, ignore_index, &counted);
    fa_tensor *loss = fa_neg(fa_squeeze_dim(fa_gather(x, class_dim, index), class_dim));
    if (weight) loss = fa_mul(loss, weight_of(weight, index, class_dim));
    loss = fai_choose(counted, loss, 0);
    if (!strcmp(reduction, "none")) return fa_keep(loss);
    loss = fa_sum(loss);
    return fa_keep(!strcmp(reduction, "mean") ? fa_div(loss, total) : loss);
}

/* ---- cross entropy ---- */

static bool check_cross_entropy(fa_tensor *x, fa_tensor *target, fa_tensor *weight, const char *reduction, double smoothing) {
    const char *op = "cross_entropy", *const names[] = {"x", "target", "weight"};
    if (!fai_op_begin(op, 3, names, (fa_tensor *const[]){x, target, weight}, 4) || !fai_check_reduction(op, reduction))
        return false;
    if (!(smoothing >= 0 && smoothing <= 1))
        return fai_fail(FA_ERR_RUNTIME, op, "label_smoothing must be between 0.0 and 1.0. Got: %g", smoothing);
    if (!fai_is_float(x->dtype))
        return fai_fail(
            FA_ERR_UNSUPPORTED, op,
            "\"log_softmax_lastdim_kernel_impl\" not implemented for '%s'; logits are floating: fa_cast(x, FA_FLOAT32)",
            fai_dtype_title((fa_dtype)x->dtype));
    if (x->ndim == 0)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "Expected floating point type for target with class probabilities, got %s; a 0-dim input has no classes",
                        fai_dtype_title((fa_dtype)target->dtype));
    const int64_t classes = x->size[x->ndim == 1 ? 0 : 1];
    if (weight && (weight->ndim != 1 || weight->numel != classes)) {
        char shape[200];
        fai_text_shape(shape, sizeof shape, weight->ndim, weight->size);
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "weight tensor should be defined either for all %lld classes or no classes but got weight tensor of shape: %s",
            (long long)classes, shape);
    }
    return true;
}

/* weight [c] shaped so that it broadcasts over x's class dimension. */
static fa_tensor *weight_along(fa_tensor *weight, const fa_tensor *x, int class_dim) {
    fa_shape shape = {.ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++) shape.dim[d] = d == class_dim ? weight->numel : 1;
    return fa_reshape(weight, shape);
}

static fa_tensor *with_probabilities(fa_tensor *x, fa_tensor *target, fa_tensor *weight, const char *reduction,
                                     int64_t ignore_index, double smoothing) {
    const char *op = "cross_entropy";
    if (!fai_is_float(target->dtype))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "Expected floating point type for target with class probabilities, got %s. A target of x's shape holds "
                        "probabilities; class indices have one dimension less.",
                        fai_dtype_title((fa_dtype)target->dtype));
    if (ignore_index >= 0) return fai_fail(FA_ERR_RUNTIME, op, "ignore_index is not supported for floating point target");
    const int class_dim = x->ndim == 1 ? 0 : 1;
    const double classes = (double)x->size[class_dim];
    FA_SCOPE;
    if (smoothing > 0) target = fai_add_number(fai_multiply(target, 1 - smoothing), smoothing / classes);
    fa_tensor *loss = fa_mul(fa_log_softmax(x, class_dim), target);
    if (weight) loss = fa_mul(loss, weight_along(weight, x, class_dim));
    if (!strcmp(reduction, "none")) return fa_keep(fa_neg(fa_sum_dims(loss, FA_DIMS(class_dim), false)));
    loss = fa_neg(fa_sum(loss));
    return fa_keep(!strcmp(reduction, "sum") ? loss : fai_divide(loss, (double)x->numel / classes));
}

/* The part of label smoothing that spreads over all classes: -sum of weighted log-probabilities, 0 where the target is
 * ignored. */
static fa_tensor *spread_loss(fa_tensor *log_p, fa_tensor *target, fa_tensor *weight, const char *reduction,
                              int64_t ignore_index) {
    const int class_dim = log_p->ndim == 1 ? 0 : 1;
    fa_tensor *counted, *index = safe_target(target, class_dim, ignore_index, &counted);
    fa_tensor *terms = weight ? fa_mul(log_p, weight_along(weight, log_p, class_dim)) : log_p;
    fa_tensor *loss = fai_choose(counted, fa_neg(fa_sum_dims(terms, FA_DIMS(class_dim), false)), 0);
    if (!strcmp(reduction, "none") || !loss) return loss;
    if (!strcmp(reduction, "sum")) return fa_sum(loss);
    fa_tensor *share =
        weight ? fai_choose(counted, weight_of(weight, index, class_dim), 0) : fa_to_dtype(counted, (fa_dtype)log_p->dtype);
    return fa_div(fa_sum(loss), fa_sum(share));
}

fa_tensor *fai_plain_cross_entropy(fa_tensor *x, fa_tensor *target, fa_tensor *weight, const char *reduction, int64_t ignore_index,
                             double label_smoothing) {
    FAI_CALLED("cross_entropy");
    if (!check_cross_entropy(x, target, weight, reduction, label_smoothing)) return NULL;
    if (fai_same_shape(x, target)) return with_probabilities(x, target, weight, reduction, ignore_index, label_smoothing);
    const int class_dim = x->ndim == 1 ? 0 : 1;
    FA_SCOPE;
    fa_tensor *log_p = fa_log_softmax(x, class_dim);
    fa_tensor *loss = log_p ? fai_nll_loss(log_p, target, weight, reduction, ignore_index) : NULL;
    if (label_smoothing == 0 || !loss) return fa_keep(loss);
    fa_tensor *spread = spread_loss(log_p, target, weight, reduction, ignore_index);
    return fa_keep(
        fa_add(fai_multiply(loss, 1 - label_smoothing), fai_multiply(spread, label_smoothing / (double)x->size[class_dim])));
}
