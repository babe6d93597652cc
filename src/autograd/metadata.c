/* Changes in place that leave the elements alone: another order of dimensions, more or fewer of size 1, and detach_. The tensor
 * stays the same object and takes over what the out-of-place view of it is. */
#include "composite.h"
#include <fa_functional.h>

/* A gradient that is there keeps the old shape. One that a graph still has to give is refused when it comes. */
static bool gradient_would_fit(const char *op, const fa_tensor *t, const fa_tensor *v) {
    if (!t->grad || t->node || fai_same_shape(t, v)) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "the tensor has a gradient, which would keep the old shape: clear it first, fa_set_grad(t, NULL)");
}

/* Nothing here can fail. v dies with the caller's scope. */
static fa_tensor *become(fa_tensor *t, const fa_tensor *v) {
    t->ndim = v->ndim;
    memcpy(t->size, v->size, sizeof t->size);
    memcpy(t->stride, v->stride, sizeof t->stride);
    fai_update_contiguous(t);
    ++*fai_version(t);
    if (v->node) {
        fai_node_ref(v->node);
        fai_node_finish(v->node, t);
    }
    if (t->base && (v->node || !fai_wants_grad(t->base))) t->view_version = *fai_version(t);
    return t;
}

typedef fa_tensor *view_of(fa_tensor *t, int64_t a, int64_t b);

/* A tensor that has a graph records the change even where recording is off: its gradient would come in the wrong shape. A view of
 * such a tensor need not, it is read out of its base anew when its gradient is asked for. */
static fa_tensor *change(const char *op, fa_tensor *t, view_of *make, int64_t a, int64_t b) {
    FAI_CALLED(op);
    if (!fai_check(op, "t", t) || fai_refuse_pending(op) || !fai_in_place_allowed(op, t)) return NULL;
    FA_SCOPE;
    const bool was_off = fai_tls.grad_off, was_inference = fai_tls.inference;
    if (t->node && !t->base) fai_tls.grad_off = fai_tls.inference = false;
    fa_tensor *v = make(t, a, b);
    fai_tls.grad_off = was_off, fai_tls.inference = was_inference;
    return v && gradient_would_fit(op, t, v) ? become(t, v) : NULL;
}

static fa_tensor *transposed(fa_tensor *t, int64_t a, int64_t b) { return fa_transpose(t, a, b); }
static fa_tensor *squeezed_dim(fa_tensor *t, int64_t dim, int64_t unused) { return (void)unused, fa_squeeze_dim(t, dim); }
static fa_tensor *unsqueezed(fa_tensor *t, int64_t dim, int64_t unused) { return (void)unused, fa_unsqueeze(t, dim); }
static fa_tensor *squeezed(fa_tensor *t, int64_t a, int64_t b) { return (void)a, (void)b, fa_squeeze(t); }
static fa_tensor *matrix_transposed(fa_tensor *t, int64_t a, int64_t b) {
    (void)a, (void)b;
    if (t->ndim <= 2) return fa_t(t);
    return fai_fail(FA_ERR_RUNTIME, "t_", "t_() expects a tensor with <= 2 dimensions, but self is %dD; use fa_transpose_",
                    t->ndim);
}

fa_tensor *fa_transpose_(fa_tensor *t, int64_t dim0, int64_t dim1) { return change("transpose_", t, transposed, dim0, dim1); }
fa_tensor *fa_t_(fa_tensor *t) { return change("t_", t, matrix_transposed, 0, 0); }
fa_tensor *fa_squeeze_(fa_tensor *t) { return change("squeeze_", t, squeezed, 0, 0); }
fa_tensor *fa_squeeze_dim_(fa_tensor *t, int64_t dim) { return change("squeeze_", t, squeezed_dim, dim, 0); }
fa_tensor *fa_unsqueeze_(fa_tensor *t, int64_t dim) { return change("unsqueeze_", t, unsqueezed, dim, 0); }

fa_tensor *fa_detach_(fa_tensor *t) {
    const char *op = "detach_";
    if (!fai_check(op, "t", t) || fai_refuse_pending(op)) return NULL;
    if (t->base || FAI_HAS(t, FAI_NO_GRAD_VIEW))
        return fai_fail(FA_ERR_RUNTIME, op, "Can't detach views in-place. Use detach() instead. In C that is fa_detach(t).");
    fai_node *node = t->node;
    if (node && node->retains == t) node->retains = NULL;
    t->node = NULL;
    t->object.flags &= (uint16_t) ~(FAI_REQUIRES_GRAD | FAI_RETAIN_GRAD);
    fai_node_unref(node);
    return t;
}
