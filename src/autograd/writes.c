/* Writes in place that are no elementwise row: copies, fills, random numbers, and writes at indices, which are the out-of-place
 * operator followed by a copy. Derivatives: what is overwritten gets none, what is written gets its own. */
#include "composite.h"
#include "../ops/random.h"
#include <fa_functional.h>
#include <math.h>

/* ---- copy ---- */

static bool copy_backward(fai_node *node, fa_tensor *g, fa_tensor **grads) {
    const fai_meta *from = &node->metas[1];
    if (fai_node_needs(node, 0) && !(grads[0] = fai_zeros_of(g, fai_meta_shape(&node->metas[0])))) return false;
    return !fai_node_needs(node, 1) || (grads[1] = fa_to(fa_sum_to(g, fai_meta_shape(from)), from->device)) != NULL;
}

static const fai_node_op copy_op = {.name = "CopyBackwards", .backward = copy_backward, .bare = true};

static bool record_copy(fa_tensor *t, fa_tensor *from, fai_write *write) {
    if (!fai_recording() || !fai_is_float(t->dtype) || !(fai_wants_grad(t) || fai_wants_grad(from))) return true;
    fai_node *node = fai_node_new(&copy_op, 2, 0, 0);
    if (node && fai_node_input(node, 0, t, true) && fai_node_input(node, 1, from, true) && fai_in_place_begin(t, node, write)) return true;
    return fai_node_unref(node), false;
}

static bool may_write(const char *op, fa_tensor *t) { return fai_check(op, "t", t) && !fai_refuse_pending(op) && fai_in_place_check(op, t); }

fa_tensor *fa_copy_(fa_tensor *t, fa_tensor *from) {
    if (!may_write("copy_", t) || !fai_check("copy_", "from", from)) return NULL;
    FA_SCOPE;
    fai_write write = {NULL, NULL, NULL};
    fa_tensor *source = from;
    if (!fai_fits("copy_", t, 1, (const fa_tensor *const[]){from}) || !fai_separate("copy_", t, &source)) return NULL;
    if (!record_copy(t, from, &write)) return NULL;
    if (!fai_copy("copy_", t, source)) return fai_in_place_cancel(&write), NULL;
    fai_in_place_done(t, &write);
    return t;
}

/* ---- one value, random values ---- */

/* Writes through fill; a tensor with a gradient is written by way of a copy, so that what made it gets none. */
static fa_tensor *filled(const char *op, fa_tensor *t, bool (*fill)(const char *op, fa_tensor *t, const void *with), const void *with) {
    if (!may_write(op, t)) return NULL;
    if (fai_recording() && fai_wants_grad(t)) {
        FA_SCOPE;
        fa_tensor *values = fai_empty_like(op, t);
        return values && fill(op, values, with) ? fa_copy_(t, values) : NULL;
    }
    if (!fill(op, t, with)) return NULL;
    ++*fai_version(t);
    return t;
}

static bool fill_scalar(const char *op, fa_tensor *t, const void *with) {
    return fai_number_fits(op, *(const fa_scalar *)with, (fa_dtype)t->dtype) && fai_fill_scalar(op, t, *(const fa_scalar *)with);
}

typedef struct draw { double a, b; fa_generator *generator; } draw;
static bool fill_uniform(const char *op, fa_tensor *t, const void *with) {
    const draw *of = with;
    return fai_fill_uniform(op, t, of->a, of->b, of->generator);
}
static bool fill_normal(const char *op, fa_tensor *t, const void *with) {
    const draw *of = with;
    return fai_fill_normal(op, t, of->a, of->b, of->generator);
}
static bool fill_bernoulli(const char *op, fa_tensor *t, const void *with) {
    const draw *of = with;
    return fai_fill_bernoulli(op, t, of->a, of->generator);
}

#undef fa_fill_
fa_tensor *fa_fill_(fa_tensor *t, fa_scalar value) { return filled("fill_", t, fill_scalar, &value); }
fa_tensor *fa_zero_(fa_tensor *t) { return filled("zero_", t, fill_scalar, &(fa_scalar){FA_SCALAR_INT, {0}}); }
fa_tensor *fai_uniform_(fa_tensor *t, double low, double high, fa_generator *g) {
    return filled("uniform_", t, fill_uniform, &(draw){low, high, g});
}
fa_tensor *fai_normal_(fa_tensor *t, double mean, double std, fa_generator *g) { return filled("normal_", t, fill_normal, &(draw){mean, std, g}); }
fa_tensor *fai_bernoulli_(fa_tensor *t, double p, fa_generator *g) { return filled("bernoulli_", t, fill_bernoulli, &(draw){p, 0, g}); }
fa_tensor *fa_uniform_(fa_tensor *t, double low, double high) { return fai_uniform_(t, low, high, NULL); }
fa_tensor *fa_normal_(fa_tensor *t, double mean, double std) { return fai_normal_(t, mean, std, NULL); }
fa_tensor *fa_bernoulli_(fa_tensor *t, double p) { return fai_bernoulli_(t, p, NULL); }

/* ---- at indices ---- */

/* t takes what an out-of-place operator made of it; refused before that is computed where t may not be written. */
static fa_tensor *take(fa_tensor *t, fa_tensor *result) { return result ? fa_copy_(t, result) : NULL; }

fa_tensor *fa_scatter_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *src) {
    FAI_CALLED("scatter_");
    FA_SCOPE;
    return may_write("scatter_", t) ? take(t, fa_scatter(t, dim, index, src)) : NULL;
}

#undef fa_scatter_value_
#undef fa_scatter_value
fa_tensor *fa_scatter_value_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_scalar value) {
    FAI_CALLED("scatter_");
    FA_SCOPE;
    return may_write("scatter_", t) ? take(t, fa_scatter_value(t, dim, index, value)) : NULL;
}

fa_tensor *fa_scatter_add_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *src) {
    FAI_CALLED("scatter_add_");
    FA_SCOPE;
    return may_write("scatter_add_", t) ? take(t, fa_scatter_add(t, dim, index, src)) : NULL;
}

fa_tensor *fa_index_add_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *src) {
    FAI_CALLED("index_add_");
    FA_SCOPE;
    return may_write("index_add_", t) ? take(t, fa_index_add(t, dim, index, src)) : NULL;
}

fa_tensor *fa_index_put_(fa_tensor *t, fa_tensor *const *indices, int nindices, fa_tensor *values, bool accumulate) {
    FAI_CALLED("index_put_");
    FA_SCOPE;
    return may_write("index_put_", t) ? take(t, fa_index_put(t, indices, nindices, fai_beside(values, t), accumulate)) : NULL;
}

fa_tensor *fa_index_copy_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *src) {
    FAI_CALLED("index_copy_");
    FA_SCOPE;
    return may_write("index_copy_", t) ? take(t, fa_index_copy(t, dim, index, src)) : NULL;
}

fa_tensor *fa_index_fill_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_tensor *value) {
    FAI_CALLED("index_fill_");
    FA_SCOPE;
    return may_write("index_fill_", t) ? take(t, fa_index_fill(t, dim, index, value)) : NULL;
}

#undef fa_index_fill_scalar_
#undef fa_index_fill_scalar
fa_tensor *fa_index_fill_scalar_(fa_tensor *t, int64_t dim, fa_tensor *index, fa_scalar value) {
    FAI_CALLED("index_fill_");
    FA_SCOPE;
    return may_write("index_fill_", t) ? take(t, fa_index_fill_scalar(t, dim, index, value)) : NULL;
}

fa_tensor *fa_masked_scatter_(fa_tensor *t, fa_tensor *mask, fa_tensor *src) {
    FAI_CALLED("masked_scatter_");
    FA_SCOPE;
    return may_write("masked_scatter_", t) ? take(t, fa_masked_scatter(t, mask, src)) : NULL;
}

/* ---- along a dimension ---- */

/* A running sum or product of integers is int64; in place it wraps into t's type. */
static fa_tensor *take_scan(const char *op, fa_tensor *t, int64_t dim, fa_tensor *(*scan)(fa_tensor *x, int64_t dim)) {
    FAI_CALLED(op);
    FA_SCOPE;
    if (!may_write(op, t)) return NULL;
    if (t->dtype == FA_BOOL)
        return fai_fail(FA_ERR_UNSUPPORTED, op, "\"%s\" not implemented for 'Bool': the out-of-place form gives an int64 tensor", op);
    const bool reads_old = scan == fa_cumprod && fai_recording() && fai_wants_grad(t); /* its derivative does, as torch's */
    return take(t, scan(reads_old ? fa_clone(t) : t, dim));
}

fa_tensor *fa_cumsum_(fa_tensor *t, int64_t dim) { return take_scan("cumsum_", t, dim, fa_cumsum); }
fa_tensor *fa_cumprod_(fa_tensor *t, int64_t dim) { return take_scan("cumprod_", t, dim, fa_cumprod); }

/* ---- numbers where rows take tensors ---- */

static fai_operand number(fa_scalar s) { return (fai_operand){.scalar = s}; }

fai_operand fai_no_bound(const fa_tensor *x, fai_operand other, bool upper) {
    const bool is_float = (x && fai_is_float(x->dtype)) || (other.tensor ? fai_is_float(other.tensor->dtype) : other.scalar.kind == FA_SCALAR_FLOAT);
    return number(is_float ? fa_scalar_of_float(upper ? HUGE_VAL : -HUGE_VAL) : fa_scalar_of_int(upper ? INT64_MAX : INT64_MIN));
}

#undef fa_clamp_scalars
#undef fa_clamp_scalars_
#undef fa_clamp_min
#undef fa_clamp_max
#undef fa_clamp_min_
#undef fa_clamp_max_
#undef fa_rsub_scalar
#undef fa_rdiv_scalar
#undef fa_rpow_scalar
fa_tensor *fa_clamp_scalars(fa_tensor *x, fa_scalar low, fa_scalar high) { return fai_row3(FAI_ROW_clamp, fai_of(x), number(low), number(high)); }
static fa_tensor *clamp_(const char *op, fa_tensor *t, fai_operand low, fai_operand high) {
    FAI_CALLED(op);
    return fai_row_in_place(FAI_ROW_clamp, 3, (fai_operand[]){fai_of(t), low, high}, NULL);
}
fa_tensor *fa_clamp_scalars_(fa_tensor *t, fa_scalar low, fa_scalar high) { return clamp_("clamp_", t, number(low), number(high)); }
fa_tensor *fa_clamp_min_(fa_tensor *t, fa_scalar low) { return clamp_("clamp_min_", t, number(low), fai_no_bound(t, number(low), true)); }
fa_tensor *fa_clamp_max_(fa_tensor *t, fa_scalar high) { return clamp_("clamp_max_", t, fai_no_bound(t, number(high), false), number(high)); }
fa_tensor *fa_clamp_min(fa_tensor *x, fa_scalar low) { return fai_row3(FAI_ROW_clamp, fai_of(x), number(low), fai_no_bound(x, number(low), true)); }
fa_tensor *fa_clamp_max(fa_tensor *x, fa_scalar high) { return fai_row3(FAI_ROW_clamp, fai_of(x), fai_no_bound(x, number(high), false), number(high)); }
fa_tensor *fa_rsub_scalar(fa_tensor *x, fa_scalar s) { return fai_row2(FAI_ROW_sub, number(s), fai_of(x)); }
fa_tensor *fa_rdiv_scalar(fa_tensor *x, fa_scalar s) { return fai_row2(FAI_ROW_div, number(s), fai_of(x)); }
fa_tensor *fa_rpow_scalar(fa_tensor *x, fa_scalar s) { return fai_row2(FAI_ROW_pow, number(s), fai_of(x)); }

/* ---- rounding to decimals ---- */

static const double *scale_of(int decimals, double scale[2]) {
    scale[0] = decimals > 0 ? pow(10, decimals) : 1;
    scale[1] = decimals < 0 ? pow(10, -(double)decimals) : 1;
    return scale;
}

fa_tensor *fa_round_decimals(fa_tensor *x, int decimals) {
    FAI_CALLED("round_decimals");
    return fai_row(FAI_ROW_round_scaled, 1, (fai_operand[]){fai_of(x)}, scale_of(decimals, (double[2]){0}));
}
fa_tensor *fa_round_decimals_(fa_tensor *t, int decimals) {
    FAI_CALLED("round_decimals_");
    return fai_row_in_place(FAI_ROW_round_scaled, 1, (fai_operand[]){fai_of(t)}, scale_of(decimals, (double[2]){0}));
}
