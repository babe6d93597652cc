/* Views and in-place operations together. A view knows its base; writing through a view makes a new node for the base, and a view
 * that is older than its base's last write gets a new node when somebody asks (fai_grad_node). */
#include "autograd.h"
#include "generated.h"
#include <string.h>

/* A view's place in its base, relative to the base's first element. Gradients of a base that lies in memory in order have that
 * layout themselves; those of another one (made under no_grad, or detached) go through a flat picture of its memory. */
typedef struct geometry {
    fa_shape size, stride, base_size, base_stride;
    int64_t offset, length; /* length: of the picture; 0: none is needed */
} geometry;

static geometry geometry_of(const fa_tensor *view)
{
    const fa_tensor *base = view->base;
    geometry at = {.size = fa_shape_of(view->ndim, view->size), .stride = fa_shape_of(view->ndim, view->stride), .offset = view->offset - base->offset,
                   .base_size = fa_shape_of(base->ndim, base->size), .base_stride = fa_shape_of(base->ndim, base->stride)};
    if (FAI_HAS(base, FAI_CONTIGUOUS)) return at;
    at.length = 1;
    for (int d = 0; d < base->ndim; d++) at.length += (base->size[d] - 1) * base->stride[d];
    return at;
}

/* A gradient of the base as memory in which the view's strides hold, and back. */
static fa_tensor *to_memory(const geometry *at, fa_tensor *g)
{
    return at->length ? fa_as_strided_embed(g, fa_shape_of(1, &at->length), at->base_size, at->base_stride, 0) : fa_contiguous(g);
}
static fa_tensor *from_memory(const geometry *at, fa_tensor *memory)
{
    return at->length ? fa_as_strided(memory, at->base_size, at->base_stride, 0) : memory;
}
/* Such memory with part at the view's elements, zeros elsewhere. */
static fa_tensor *embedded(const geometry *at, fa_tensor *part)
{
    return fai_added_into(part, at->length ? fa_shape_of(1, &at->length) : at->base_size, at->size, at->stride, at->offset);
}

void fai_mark_view(fa_tensor *result, fa_tensor *x)
{
    if (!fai_recording() && !FAI_HAS(result, FAI_INFERENCE)) {
        const bool of_grad = fai_wants_grad(x) || FAI_HAS(x, FAI_VIEW_OF_GRAD);
        result->object.flags |= of_grad ? FAI_NO_GRAD_VIEW | FAI_VIEW_OF_GRAD : FAI_NO_GRAD_VIEW;
    }
    if (!fai_recording() || FAI_HAS(x, FAI_INFERENCE)) return;
    result->base = fai_ref(x->base ? x->base : x);
    result->view_version = *fai_version(result);
}

/* ---- a view read out of its base ---- */

static bool reread_backward(fai_node *node, fa_tensor *g, fa_tensor **grads)
{
    const geometry *at = node->params;
    if (!fai_node_needs(node, 0)) return true;
    grads[0] = from_memory(at, embedded(at, g));
    return grads[0] != NULL;
}

static const fai_node_op reread_op = {.name = "AsStrided", .backward = reread_backward};

bool fai_remake_view(fa_tensor *view)
{
    fai_node *node = fai_node_new(&reread_op, 1, 0, sizeof(geometry));
    if (!node) return false;
    *(geometry *)node->params = geometry_of(view);
    if (!fai_node_input(node, 0, view->base, true)) return fai_node_unref(node), false;
    fai_node_finish(node, view);
    view->view_version = *fai_version(view);
    return true;
}

/* ---- a base written through a view ---- */

typedef struct write_params { geometry at; fai_node *inner; } write_params;

/* The gradient of the region goes through the op that wrote it; the rest passes. */
static bool write_backward(fai_node *node, fa_tensor *g, fa_tensor **grads)
{
    write_params *p = node->params;
    const geometry *at = &p->at;
    fa_tensor *inner[8] = {NULL};
    if (p->inner->ninputs > 8) return fai_fail(FA_ERR_UNSUPPORTED, "backward", "an in-place op of more than 8 inputs on a view"), false;
    fa_tensor *memory = to_memory(at, g);
    fa_tensor *part = fa_as_strided(memory, at->size, at->stride, at->offset);
    for (int i = 0; i < p->inner->ninputs; i++) p->inner->edges[i].needed = i == 0 ? true : fai_node_needs(node, i);
    if (!part || !p->inner->op->backward(p->inner, fa_contiguous(part), inner)) return false;
    if (fai_node_needs(node, 0)) {
        fa_tensor *written = embedded(at, fa_ones(at->size, .dtype = FA_BOOL, .device = g->device));
        fa_tensor *rest = fai_row3(FAI_ROW_masked_fill, fai_of(memory), fai_of(written), fai_number(0));
        grads[0] = from_memory(at, inner[0] ? fa_add(rest, embedded(at, inner[0])) : rest);
        if (!grads[0]) return false;
    }
    for (int i = 1; i < p->inner->ninputs; i++) grads[i] = inner[i];
    return true;
}

static void write_release(fai_node *node) { fai_node_unref(((write_params *)node->params)->inner); }

static const fai_node_op write_op = {.name = "CopySlices", .backward = write_backward, .release = write_release, .bare = true};

/* inner becomes part of a new node of the base. Its first input is the view itself; the edge that matters now is the base's. */
static fai_node *write_through(fa_tensor *view, fai_node *inner)
{
    fa_tensor *base = view->base;
    fai_node *node = fai_node_new(&write_op, inner->ninputs ? inner->ninputs : 1, 0, sizeof(write_params));
    if (!node) return NULL;
    write_params *p = node->params;
    p->at = geometry_of(view);
    if (!fai_node_input(node, 0, base, true)) return fai_node_unref(node), NULL;
    for (int i = 1; i < inner->ninputs; i++) {
        node->edges[i] = inner->edges[i];
        node->metas[i] = inner->metas[i];
        if (node->edges[i].node) fai_node_ref(node->edges[i].node);
    }
    if (inner->rank >= node->rank) node->rank = inner->rank + 1;
    node->saved_any = inner->saved_any;
    inner->result.ndim = view->ndim;
    return node;
}

/* What the view is after the write: read out of a base that `through` made. */
static fai_node *read_again(const fa_tensor *view, fai_node *through)
{
    fai_node *node = fai_node_new(&reread_op, 1, 0, sizeof(geometry));
    if (!node) return NULL;
    *(geometry *)node->params = geometry_of(view);
    fai_node_input(node, 0, view->base, false);
    fai_node_ref(through);
    node->edges[0] = (fai_edge){through, true};
    node->rank = through->rank + 1;
    return node;
}

static void *fail_no_grad_view(const char *op)
{
    return fai_fail(FA_ERR_RUNTIME, op,
                    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case is "
                    "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either "
                    "both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to "
                    "be tracked).");
}

bool fai_in_place_allowed(const char *op, fa_tensor *t)
{
    if (FAI_HAS(t, FAI_INFERENCE) && !fai_tls.inference) {
        fai_fail(FA_ERR_RUNTIME, op,
                 "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before doing inplace "
                 "update.See https://github.com/pytorch/rfcs/pull/17 for more details.");
        return false;
    }
    /* A view's gradient comes through its base; a leaf made of a view, x = b.view(2, 3) with x.requires_grad, has no other. */
    const bool leaf = !t->node && FAI_HAS(t, FAI_REQUIRES_GRAD);
    const bool leaf_view = t->base && !t->base->node && (FAI_HAS(t->base, FAI_REQUIRES_GRAD) || fai_wants_grad(t));
    if (fai_recording() && (leaf || leaf_view)) {
        fai_fail(FA_ERR_RUNTIME, op,
                 "a %sleaf Variable that requires grad is %sbeing used in an in-place operation. Update parameters under FA_NO_GRAD, or use the out-of-place form.",
                 leaf_view ? "view of a " : "", "");
        return false;
    }
    if (fai_recording() && FAI_HAS(t, FAI_MULTI_VIEW)) {
        fai_fail(FA_ERR_RUNTIME, op,
                 "Output 0 of %s is a view and is being modified inplace. This view is the output of a function that returns multiple views. Such "
                 "functions do not allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
                 t->node && !strcmp(t->node->op->name, "Select") ? "Unbind" : "Split");
        return false;
    }
    return !(fai_recording() && FAI_HAS(t, FAI_VIEW_OF_GRAD)) || fail_no_grad_view(op);
}

bool fai_in_place_check(const char *op, fa_tensor *t) { return fai_in_place_allowed(op, t) && fai_check_writable(op, t); }

bool fai_in_place_begin(fa_tensor *t, fai_node *node, fai_write *write)
{
    *write = (fai_write){NULL, NULL, NULL};
    if (FAI_HAS(t, FAI_NO_GRAD_VIEW)) return fail_no_grad_view(node->op->name);
    if (t->base) {
        write->through = write_through(t, node);
        write->reread = write->through ? read_again(t, write->through) : NULL;
        if (!write->reread) return fai_node_unref(write->through), false;
        ((write_params *)write->through->params)->inner = node;
    }
    write->node = node;
    return true;
}

void fai_in_place_cancel(fai_write *write)
{
    fai_node_unref(write->reread);
    fai_node_unref(write->through ? write->through : write->node); /* the first holds the second */
}

void fai_in_place_done(fa_tensor *t, fai_write *write)
{
    ++*fai_version(t);
    if (!write->node) {
        if (t->base && !fai_wants_grad(t->base)) t->view_version = *fai_version(t);
        return;
    }
    if (!t->base) {
        fai_node_finish(write->node, t);
        return;
    }
    fai_node_finish(write->through, t->base);
    fai_node_finish(write->reread, t);
    t->view_version = *fai_version(t);
}

fa_tensor *fai_as_strided_embed_forward(fa_tensor *x, fa_shape shape, fa_shape view_shape, fa_shape strides, int64_t offset)
{
    fa_tensor *out = fai_empty("as_strided_embed", (fa_dtype)x->dtype, x->device, shape.ndim, shape.dim);
    if (!out || !fai_zero("as_strided_embed", out)) return NULL;
    fa_tensor *region = fai_view("as_strided_embed", out, view_shape.ndim, view_shape.dim, strides.dim, offset);
    return region && fai_copy("as_strided_embed", region, x) ? out : NULL;
}
