/* What the composite operators share. A composite is C over public operators, so its derivatives come for free: it opens a
 * scope for its intermediates and lifts its result out of it with fa_keep. It never lifts an argument, which belongs to somebody
 * else. */
#ifndef FAI_COMPOSITE_H
#define FAI_COMPOSITE_H

#include "generated.h"
#include "ops/views.h"
#include <string.h>

/* Every size of x left and right of dim, multiplied: how a dimension is reached in a tensor of any rank. */
typedef struct fai_split {
    int64_t outer, size, inner;
} fai_split;
static inline fai_split fai_split_at(const fa_tensor *x, int dim) {
    fai_split s = {1, x->ndim ? x->size[dim] : 1, 1};
    for (int d = 0; d < dim; d++) s.outer *= x->size[d];
    for (int d = dim + 1; d < x->ndim; d++) s.inner *= x->size[d];
    return s;
}

static inline fa_tensor *fai_multiply(fa_tensor *x, double by) { return fai_row2(FAI_ROW_mul, fai_of(x), fai_number(by)); }
static inline fa_tensor *fai_divide(fa_tensor *x, double by) { return fai_row2(FAI_ROW_div, fai_of(x), fai_number(by)); }
static inline fa_tensor *fai_add_number(fa_tensor *x, double n) { return fai_row2(FAI_ROW_add, fai_of(x), fai_number(n)); }
/* condition ? x : number, in x's dtype. */
static inline fa_tensor *fai_choose(fa_tensor *condition, fa_tensor *x, double number) {
    return fai_row3(FAI_ROW_where, fai_of(condition), fai_of(x), fai_number(number));
}

/* A floating tensor whose elements are exactly what the comparison with a number says. */
static inline fa_tensor *fai_equals(fa_tensor *x, double n) { return fai_row2(FAI_ROW_eq, fai_of(x), fai_number(n)); }

/* The start of a composite of one, two or three tensors: all there and on one device. */
static inline bool fai_begin1(const char *op, const char *name, fa_tensor *x) { return fai_op_begin(op, 1, &name, &x, 0); }
static inline bool fai_begin2(const char *op, const char *a_name, fa_tensor *a, const char *b_name, fa_tensor *b) {
    return fai_op_begin(op, 2, (const char *const[]){a_name, b_name}, (fa_tensor *const[]){a, b}, 0);
}

/* float16 and bfloat16 computed in float32, as torch computes them inside one kernel: x itself if it is neither. */
static inline fa_tensor *fai_widened(fa_tensor *x) {
    return x && (x->dtype == FA_FLOAT16 || x->dtype == FA_BFLOAT16) ? fa_to_dtype(x, FA_FLOAT32) : x;
}

/* shapes.c */
fa_tensor *fai_repeat_interleave_sized(fa_tensor *x, fa_tensor *repeats, int64_t dim, int64_t n); /* n: what the repeats add up to; below 0: not known */

/* order.c */
bool fai_no_bool(const char *op, const char *kernel, const fa_tensor *x);

/* losses.c */
bool fai_check_reduction(const char *op, const char *reduction);
fa_tensor *fai_reduce_loss(fa_tensor *loss, const char *reduction); /* "none" gives loss itself */

#endif
