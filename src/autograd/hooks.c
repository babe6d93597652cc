/* What a user may ask of a tensor's place in the graph: gradients, hooks, detach, modes. */
#include "autograd.h"

static int next_hook_id = 1;

fa_tensor *fai_call_hooks(const fai_hook *hooks, fa_tensor *grad)
{
    for (const fai_hook *h = hooks; h; h = h->next) {
        fa_tensor *changed = h->call(grad, h->data);
        if (!changed) {
            if (!fa_failed()) fai_fail(FA_ERR_FOREIGN, "backward", "a gradient hook returned NULL without an error: return the gradient to keep it as it is");
            return NULL;
        }
        grad = changed;
    }
    return grad;
}

void fai_free_hooks(fai_hook *hooks)
{
    for (fai_hook *next; hooks; hooks = next) {
        next = hooks->next;
        if (hooks->release) hooks->release(hooks->data);
        fai_free(FAI_TAG_GRAPH, hooks, sizeof *hooks);
    }
}

/* Where a tensor's hooks hang: at the node that made it, or, for a leaf, at itself. */
static fai_hook **hooks_of(fa_tensor *t)
{
    if (t->node) return fai_grad_node(t) ? &t->node->hooks : NULL;
    if (!t->extra && !(t->extra = fai_calloc(FAI_TAG_OBJECT, sizeof *t->extra))) return fai_fail_memory("register_hook", sizeof *t->extra);
    return &t->extra->hooks;
}

int fa_register_hook(fa_tensor *t, fa_grad_hook hook, void *data, void (*release)(void *data))
{
    if (!fai_check("register_hook", "t", t)) return 0;
    if (!hook) return fai_fail(FA_ERR_TYPE, "register_hook", "argument 'hook' is NULL: a function is needed"), 0;
    if (!fai_wants_grad(t)) return fai_fail(FA_ERR_RUNTIME, "register_hook", "cannot register a hook on a tensor that doesn't require gradient"), 0;
    fai_hook **at = hooks_of(t), *new = at ? fai_alloc(FAI_TAG_GRAPH, sizeof *new) : NULL;
    if (!new) return fai_fail_memory("register_hook", sizeof *new), 0;
    while (*at) at = &(*at)->next;
    *new = (fai_hook){NULL, next_hook_id++, hook, data, release};
    *at = new;
    return new->id;
}

bool fa_remove_hook(fa_tensor *t, int id)
{
    if (!fai_check("remove_hook", "t", t)) return false;
    fai_hook **at = t->node ? &t->node->hooks : t->extra ? &t->extra->hooks : NULL;
    for (; at && *at; at = &(*at)->next) {
        if ((*at)->id != id) continue;
        fai_hook *gone = *at;
        *at = gone->next;
        gone->next = NULL;
        fai_free_hooks(gone);
        return true;
    }
    fai_fail(FA_ERR_KEY, "remove_hook", "the tensor has no hook of number %d", id);
    return false;
}

/* ---- leaves and gradients ---- */

fa_tensor *fa_requires_grad(fa_tensor *t, bool on)
{
    if (!fai_check("requires_grad", "t", t)) return NULL;
    if (t->node && !on)
        return fai_fail(FA_ERR_RUNTIME, "requires_grad",
                        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't require "
                        "differentiation use var_no_grad = var.detach().");
    if (on && !fai_is_float(t->dtype))
        return fai_fail(FA_ERR_RUNTIME, "requires_grad", "only Tensors of floating point dtype can require gradients, this one is %s", fa_dtype_name((fa_dtype)t->dtype));
    if (on && FAI_HAS(t, FAI_INFERENCE) && !fai_tls.inference)
        return fai_fail(FA_ERR_RUNTIME, "requires_grad", "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    if (t->node) return t;
    if (on) t->object.flags |= FAI_REQUIRES_GRAD;
    else t->object.flags &= (uint16_t)~FAI_REQUIRES_GRAD;
    return t;
}

bool fa_is_requires_grad(const fa_tensor *t) { return fai_wants_grad(t); }
bool fa_is_leaf(const fa_tensor *t) { return t && !t->node && !(fai_is_stale(t) && fai_wants_grad(t)); }
fa_tensor *fa_grad(const fa_tensor *t) { return t ? t->grad : NULL; }

bool fa_set_grad(fa_tensor *t, fa_tensor *grad)
{
    if (!fai_check("set_grad", "t", t)) return false;
    if (grad) {
        char a[160], b[160];
        bool same = grad->ndim == t->ndim;
        for (int i = 0; same && i < t->ndim; i++) same = grad->size[i] == t->size[i];
        fai_text_shape(a, sizeof a, grad->ndim, grad->size);
        fai_text_shape(b, sizeof b, t->ndim, t->size);
        if (!same)
            return fai_fail(FA_ERR_RUNTIME, "set_grad",
                            "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please ensure that the gradient and the tensor are the same size", a, b), false;
        if (grad->dtype != t->dtype)
            return fai_fail(FA_ERR_RUNTIME, "set_grad", "attempting to assign a gradient with dtype '%s' to a tensor with grad_dtype '%s'. Convert it with fa_cast.",
                            fa_dtype_name((fa_dtype)grad->dtype), fai_dtype_title((fa_dtype)t->dtype)), false;
        if (!fa_device_equal(grad->device, t->device))
            return fai_fail(FA_ERR_RUNTIME, "set_grad", "attempting to assign a gradient located on device '%s' to a tensor located on device '%s'. Please ensure that the gradient and the tensor are on the same device",
                            fa_device_text(grad->device), fa_device_text(t->device)), false;
    }
    fa_tensor *old = t->grad;
    t->grad = fai_ref(grad);
    fai_unref(old);
    return true;
}

bool fa_retain_grad(fa_tensor *t)
{
    if (!fai_check("retain_grad", "t", t)) return false;
    if (!fai_wants_grad(t)) return fai_fail(FA_ERR_RUNTIME, "retain_grad", "can't retain_grad on Tensor that has requires_grad=False"), false;
    fai_node *node = t->node ? fai_grad_node(t) : NULL;
    if (!t->node) return true; /* leaves keep theirs anyway */
    if (!node) return false;
    node->retains = t;
    t->object.flags |= FAI_RETAIN_GRAD;
    return true;
}

fa_tensor *fa_detach(fa_tensor *t)
{
    return fai_check("detach", "t", t) ? fai_view("detach", t, t->ndim, t->size, t->stride, t->offset) : NULL;
}

fa_tensor *fa_data_of(fa_tensor *t)
{
    fa_tensor *data = fai_check("data", "t", t) ? fai_view("data", t, t->ndim, t->size, t->stride, t->offset) : NULL;
    fai_cell *cell = data ? fai_calloc(FAI_TAG_OBJECT, sizeof *cell) : NULL;
    if (!cell) return data ? fai_fail_memory("data", sizeof *cell) : NULL;
    if (data->cell && --data->cell->refs == 0) fai_free(FAI_TAG_OBJECT, data->cell, sizeof *data->cell);
    cell->refs = 1;
    data->cell = cell;
    return data;
}

const char *fa_grad_fn_name(const fa_tensor *t)
{
    static __thread char text[96];
    if (!t || (fai_is_stale(t) && fai_wants_grad(t->base) && !fai_remake_view((fa_tensor *)(uintptr_t)t)) || !t->node) return NULL;
    snprintf(text, sizeof text, "%s%s", t->node->op->name, t->node->op->bare ? "" : t->node->custom ? "Backward" : "Backward0");
    return text;
}

/* ---- modes ---- */

bool fa_set_grad_enabled(bool on)
{
    bool was = !fai_tls.grad_off;
    fai_tls.grad_off = !on;
    return was;
}

bool fa_set_inference_mode(bool on)
{
    bool was = fai_tls.inference;
    fai_tls.inference = on;
    return was;
}

bool fa_set_detect_anomaly(bool on)
{
    bool was = fai_tls.anomaly;
    fai_tls.anomaly = on;
    return was;
}

bool fa_is_grad_enabled(void) { return fai_recording(); }
bool fa_is_inference_mode(void) { return fai_tls.inference; }
