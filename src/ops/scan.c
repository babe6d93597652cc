/* Running sums and products along a dimension (kernels/scan.k.h). */
#include "scan.h"
#include "ordered.h"
#include "ops_gen.h"

/* out and x: contiguous, the same shape; out may be x. */
bool fai_scan(const char *op, fa_tensor *out, fa_tensor *x, int dim, bool product) {
    const fai_lines rows = fai_lines_of(x, dim);
    fa_plan plan;
    if (x->numel == 0) return true;
    fai_plan_begin(&plan);
    fai_plan_view(&plan, 0, out, true);
    fai_plan_view(&plan, 1, x, false);
    plan.numel = x->numel;
    plan.n[0] = rows.outer * rows.inner, plan.n[1] = rows.dim, plan.n[2] = rows.inner, plan.n[3] = product;
    plan.n[5] = 256; /* rows at once: as many as leave an item a chunk of 16 */
    while (plan.n[5] > 1 && rows.dim > 256 / plan.n[5] * 16) plan.n[5] /= 2;
    plan.groups = fai_groups(plan.n[0], plan.n[5]);
    return fai_run(FAI_K_scan_f32 + fai_compute(out->dtype), &plan, (fa_tensor *const[]){out, x}, 2, op);
}

static fa_tensor *scanned(const char *op, fa_tensor *x, int64_t dim, bool product) {
    int at;
    if (!fai_wrap_dim(op, dim, x->ndim, &at)) return NULL;
    FA_SCOPE;
    fa_tensor *source = fai_contiguous(op, x);
    const fa_dtype dtype = fai_is_float(x->dtype) ? (fa_dtype)x->dtype : FA_INT64;
    fa_tensor *out = source ? fai_empty(op, dtype, x->device, x->ndim, x->size) : NULL;
    return out && fai_scan(op, out, source, at, product) ? fa_keep(out) : NULL;
}

fa_tensor *fai_cumsum_forward(fa_tensor *x, int64_t dim) { return scanned("cumsum", x, dim, false); }
fa_tensor *fai_cumprod_forward(fa_tensor *x, int64_t dim) { return scanned("cumprod", x, dim, true); }
