/* The exponential of matrices: halved until small, Taylor's series, squared again as often. Written in public operators, which
 * make its derivatives. */
#include "composite.h"
#include <fa_linalg.h>
#include <math.h>

enum { TERMS_FLOAT = 10, TERMS_DOUBLE = 16 }; /* the rest of the series is below the type's precision for norms up to 0.5 */

fa_tensor *fa_matrix_exp(fa_tensor *a) {
    const char *op = "matrix_exp";
    if (!fai_begin1(op, "A", a)) return NULL;
    if (a->ndim < 2 || a->size[a->ndim - 1] != a->size[a->ndim - 2] || !fai_is_float((fa_dtype)a->dtype)) {
        char shape[160];
        fai_text_shape(shape, sizeof shape, a->ndim, a->size);
        return fai_fail(FA_ERR_RUNTIME, op,
                        "linalg.matrix_exp: A must be batches of square matrices of floating point numbers, but it is a %s tensor of shape %s", fai_dtype_title((fa_dtype)a->dtype),
                        shape);
    }
    if (a->numel == 0) return fa_clone(a);
    FAI_CALLED(op);
    FA_SCOPE;
    double norm;
    {
        FA_NO_GRAD;
        norm = fa_item(fa_amax(fa_sum_dims(fa_abs(a), FA_DIMS(-2), false)));
    }
    if (fa_failed()) return NULL;
    const int halvings = norm > 0.5 && isfinite(norm) ? (int)ceil(log2(norm / 0.5)) : 0, terms = a->dtype == FA_FLOAT64 ? TERMS_DOUBLE : TERMS_FLOAT;
    fa_tensor *x = fai_multiply(fai_widened(a), ldexp(1, -halvings));
    fa_tensor *eye = x ? fa_eye(a->size[a->ndim - 1], a->size[a->ndim - 1], .dtype = (fa_dtype)x->dtype, .device = a->device) : NULL, *r = eye;
    for (int k = terms; r && k > 0; k--) r = fa_add(fai_divide(fa_matmul(x, r), k), eye);
    for (int k = 0; r && k < halvings; k++) r = fa_matmul(r, r);
    return fa_keep(r ? fa_cast(r, (fa_dtype)a->dtype) : NULL);
}
