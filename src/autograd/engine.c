/* Backward: nodes by rank from a heap, each once all its consumers have run. Gradients for leaves wait until everything has
 * succeeded, so a failed backward leaves every .grad as it was. */
#include "autograd.h"
#include <math.h>
#include <string.h>

enum { START = 32, POLL_EVERY = 64, MAX_INPUTS = 16, SIDES = 16 };

/* What a backward knows of one node. */
typedef struct entry {
    fai_node *node;
    fa_tensor *grad;    /* sum so far; the entry's own reference */
    bool owned;         /* made here: may be added to in place */
    bool needed;        /* leads to an input that was asked for */
    bool ready;         /* commit: grad is the leaf's new .grad */
    uint8_t stream;     /* whose work grad is, on its device */
    int target;         /* 1 + which of the asked inputs it is, 0 for none */
    void *old_task;     /* what the node said before: backward may be nested */
    uint32_t old_at;
} entry;

typedef struct task {
    entry few[START];                 /* most graphs need no more; the arrays begin here */
    uint32_t few_heap[START], few_leaves[START];
    entry *entries;
    uint32_t count, room, spare;      /* spare: 1 + first free entry, linked by old_at */
    uint32_t *heap, nheap, heap_room; /* entries by rank, highest first */
    uint32_t *leaves, nleaves, leaves_room;
    bool pruned, create_graph, retain_graph;
    struct { fa_device device; int stream; } side[SIDES]; /* where nodes ran that are not the caller's own streams */
    int nsides;
    fa_tensor *const *inputs;         /* the tensors asked for */
    fa_tensor **captured;             /* where their gradients go; NULL: to their .grad */
} task;

/* Makes room for one more; few is the array's place in the task, which is not the heap's to give back. */
static bool grow(void **array, uint32_t *room, uint32_t count, size_t each, const void *few)
{
    if (count < *room) return true;
    uint32_t larger = *room ? *room * 2 : START;
    const bool inside = *array && *array == few;
    void *new = inside ? fai_alloc(FAI_TAG_GRAPH, larger * each) : fai_realloc(FAI_TAG_GRAPH, *array, *room * each, larger * each);
    if (!new) return fai_fail_memory("backward", larger * each);
    if (inside) memcpy(new, few, *room * each);
    *array = new;
    *room = larger;
    return true;
}

static void give_back(void *array, uint32_t room, size_t each, const void *few)
{
    if (array != few) fai_free(FAI_TAG_GRAPH, array, room * each);
}

static entry *entry_of(task *t, const fai_node *node)
{
    return node->task == t ? &t->entries[node->task_at] : NULL;
}

static entry *enter(task *t, fai_node *node)
{
    entry *e = entry_of(t, node);
    if (e) return e;
    uint32_t at;
    if (t->spare) {
        at = t->spare - 1;
        t->spare = t->entries[at].old_at;
    } else {
        if (!grow((void **)&t->entries, &t->room, t->count, sizeof *t->entries, t->few)) return NULL;
        at = t->count++;
    }
    t->entries[at] = (entry){.node = node, .old_task = node->task, .old_at = node->task_at};
    fai_node_ref(node);
    node->task = t;
    node->task_at = at;
    return &t->entries[at];
}

static void leave(task *t, uint32_t at)
{
    entry *e = &t->entries[at];
    fai_node *node = e->node;
    fa_tensor *grad = e->grad;
    node->task = e->old_task, node->task_at = e->old_at;
    *e = (entry){.old_at = t->spare};
    t->spare = at + 1;
    fai_unref(grad);
    fai_node_unref(node);
}

/* ---- the heap ---- */

static bool before(const task *t, uint32_t a, uint32_t b) { return t->entries[a].node->rank > t->entries[b].node->rank; }

static bool push(task *t, uint32_t at)
{
    if (!grow((void **)&t->heap, &t->heap_room, t->nheap, sizeof *t->heap, t->few_heap)) return false;
    uint32_t i = t->nheap++;
    while (i > 0 && before(t, at, t->heap[(i - 1) / 2])) {
        t->heap[i] = t->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    t->heap[i] = at;
    return true;
}

static uint32_t pop(task *t)
{
    uint32_t top = t->heap[0], last = t->heap[--t->nheap], i = 0;
    for (uint32_t child = 1; child < t->nheap; child = 2 * i + 1) {
        if (child + 1 < t->nheap && before(t, t->heap[child + 1], t->heap[child])) child++;
        if (!before(t, t->heap[child], last)) break;
        t->heap[i] = t->heap[child];
        i = child;
    }
    t->heap[i] = last;
    return top;
}

/* ---- streams: a node runs where its forward ran; who takes up another stream's work waits for it ---- */

static inline bool streams_used(void) { return FAI_UNLIKELY(atomic_load_explicit(&fai_streams_used, memory_order_relaxed)); }

/* The entry's gradient becomes the current stream's. */
static bool take_over(entry *e)
{
    if (!streams_used()) return true;
    const int from = e->stream;
    e->stream = (uint8_t)fai_stream_id(e->grad->device);
    return fai_stream_take_over(e->grad->buffer, from, "backward");
}

/* The caller's streams have all of what was queued so far. */
static bool join_sides(task *t)
{
    bool ok = true;
    for (int i = 0; i < t->nsides; i++) ok &= fai_stream_join(t->side[i].device, t->side[i].stream, "backward");
    t->nsides = 0;
    return ok;
}

/* While the caller's own stream is current. */
static bool note_side(task *t, fa_device device, int stream)
{
    for (int i = 0; i < t->nsides; i++)
        if (fa_device_equal(t->side[i].device, device) && t->side[i].stream == stream) return true;
    if (t->nsides == SIDES && !join_sides(t)) return false; /* rare: so many streams that the first are joined early */
    t->side[t->nsides].device = device;
    t->side[t->nsides++].stream = stream;
    return true;
}

/* ---- summing gradients ---- */

static fa_tensor *sum(task *t, fa_tensor *a, fa_tensor *b)
{
    const fai_operand operands[] = {{.tensor = a}, {.tensor = b}};
    return t->create_graph ? fai_row(FAI_ROW_add, 2, operands, NULL) : fai_row_raw("backward", FAI_ROW_add, 2, operands, NULL, (fa_dtype)a->dtype);
}

/* Adds grad (borrowed from the current scope) to what the node has. */
static bool deliver(task *t, fai_node *node, fa_tensor *grad)
{
    entry *e = enter(t, node);
    if (!e) return false;
    if (!e->grad) {
        e->grad = fai_ref(grad);
        if (streams_used()) e->stream = (uint8_t)fai_stream_id(grad->device);
        return push(t, node->task_at);
    }
    if (!take_over(e)) return false;
    if (e->owned && !t->create_graph) {
        const fai_operand operands[] = {{.tensor = e->grad}, {.tensor = grad}};
        return fai_row_into("backward", FAI_ROW_add, e->grad, 2, operands, NULL);
    }
    fa_tensor *total = sum(t, e->grad, grad);
    if (!total) return false;
    e = entry_of(t, node);
    fai_unref(e->grad);
    e->grad = fai_ref(total);
    e->owned = true;
    return true;
}

/* ---- which nodes matter, when only some inputs are asked for ---- */

static bool visit(task *t, fai_node *root)
{
    uint32_t *stack = NULL, depth = 0, room = 0, *next = NULL, next_room = 0;
    bool ok = false;
    if (entry_of(t, root)) return true;
    if (!enter(t, root)) return false;
    if (!grow((void **)&stack, &room, 0, sizeof *stack, NULL) || !grow((void **)&next, &next_room, 0, sizeof *next, NULL)) goto done;
    stack[0] = root->task_at, next[0] = 0, depth = 1;
    while (depth) {
        fai_node *node = t->entries[stack[depth - 1]].node;
        if (next[depth - 1] < node->ninputs) {
            fai_node *child = node->edges[next[depth - 1]++].node;
            if (!child || entry_of(t, child)) continue;
            if (!enter(t, child) || !grow((void **)&stack, &room, depth, sizeof *stack, NULL) || !grow((void **)&next, &next_room, depth, sizeof *next, NULL)) goto done;
            stack[depth] = child->task_at, next[depth++] = 0;
            continue;
        }
        entry *e = &t->entries[stack[--depth]];
        e->needed |= e->target != 0;
        for (int i = 0; i < node->ninputs && !e->needed; i++) {
            entry *child = node->edges[i].node ? entry_of(t, node->edges[i].node) : NULL;
            e->needed = child && child->needed;
        }
    }
    ok = true;
done:
    fai_free(FAI_TAG_GRAPH, stack, room * sizeof *stack);
    fai_free(FAI_TAG_GRAPH, next, next_room * sizeof *next);
    return ok;
}

/* ---- running ---- */

static bool has_nan(fa_tensor *t)
{
    FA_SCOPE;
    const fai_operand x = {.tensor = t};
    bool all[FA_MAX_DIMS];
    memset(all, 1, sizeof all);
    fa_tensor *nan = fai_row_raw("anomaly mode", FAI_ROW_isnan, 1, &x, NULL, FA_DTYPE_DEFAULT);
    fa_tensor *any = nan ? fai_reduce_raw("anomaly mode", FAI_REDUCE_any, nan, all, false, FA_BOOL) : NULL;
    return any && fa_item(any) != 0;
}

static bool check_gradient(task *t, const fai_node *node, int i, fa_tensor **grad)
{
    const fai_meta *meta = &node->metas[i];
    bool same = meta->ndim == (*grad)->ndim;
    for (int d = 0; same && d < meta->ndim; d++) same = meta->size[d] == (*grad)->size[d];
    if (!same) {
        char got[160], want[160];
        fai_text_shape(got, sizeof got, (*grad)->ndim, (*grad)->size);
        fai_text_shape(want, sizeof want, meta->ndim, meta->size);
        fai_fail(FA_ERR_RUNTIME, "backward", "Function %sBackward%s returned an invalid gradient at index %d - got %s but expected shape compatible with %s",
                 node->op->name, node->custom ? "" : "0", i, got, want);
        return false;
    }
    if (!fa_device_equal((*grad)->device, meta->device)) {
        if (meta->ndim > 0)
            return fai_fail(FA_ERR_RUNTIME, "backward", "Function %sBackward%s returned an invalid gradient at index %d - expected device %s but got %s. A gradient lies "
                            "where its input does: give fa_to(gradient, fa_device_of(input))", node->op->name, node->custom ? "" : "0", i, fa_device_text(meta->device),
                            fa_device_text((*grad)->device)), false;
        if (!(*grad = fa_to(*grad, meta->device))) return false; /* one number goes where it belongs, as in torch */
    }
    if ((*grad)->dtype != meta->dtype) *grad = t->create_graph ? fa_cast(*grad, (fa_dtype)meta->dtype) : fai_cast("backward", *grad, (fa_dtype)meta->dtype);
    if (*grad && fai_tls.anomaly && has_nan(*grad)) {
        fai_fail(FA_ERR_RUNTIME, "backward", "Function '%sBackward%s' returned nan values in its %dth output.", node->op->name, node->custom ? "" : "0", i);
        return false;
    }
    return *grad != NULL;
}

static bool fail_second_time(const fai_node *node)
{
    fai_fail(FA_ERR_RUNTIME, "backward",
             "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate "
             "values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph "
             "a second time or if you need to access saved tensors after calling backward. (In C: compute the loss anew in each step, or give .retain_graph = true. The node is %s.)",
             node->op->name);
    return false;
}

static bool run_node(task *t, fai_node *node, fa_tensor *g)
{
    fa_tensor *few[MAX_INPUTS] = {NULL}, **grads = few;
    const size_t bytes = node->ninputs * sizeof *grads;
    if (node->freed && node->saved_any) return fail_second_time(node);
    if (node->ninputs > MAX_INPUTS && !(grads = fai_calloc(FAI_TAG_GRAPH, bytes))) return fai_fail_memory("backward", bytes), false;
    bool any = false, ok = true;
    for (int i = 0; i < node->ninputs; i++) {
        fai_edge *edge = &node->edges[i];
        entry *e = edge->node && t->pruned ? entry_of(t, edge->node) : NULL;
        edge->needed = edge->node && (!t->pruned || (e && e->needed));
        any |= edge->needed;
    }
    if (any) {
        FA_SCOPE;
        ok = node->op->backward(node, g, grads);
        if (!ok && !fa_failed()) fai_fail(FA_ERR_FOREIGN, node->op->name, "the backward function failed without saying why (fa_error_set)");
        for (int i = 0; ok && i < node->ninputs; i++)
            if (grads[i] && node->edges[i].needed) ok = check_gradient(t, node, i, &grads[i]) && deliver(t, node->edges[i].node, grads[i]);
    }
    if (grads != few) fai_free(FAI_TAG_GRAPH, grads, bytes);
    if (ok && !t->retain_graph) fai_node_free_kept(node);
    return ok;
}

static fa_tensor *hooked(task *t, const fai_node *node, const fai_hook *hooks, fa_tensor *g)
{
    (void)t;
    if (!hooks) return g;
    fa_tensor *changed = fai_call_hooks(hooks, g);
    if (!changed) return NULL;
    bool same = changed->ndim == node->result.ndim;
    for (int i = 0; same && i < changed->ndim; i++) same = changed->size[i] == node->result.size[i];
    if (!same) return fai_fail(FA_ERR_RUNTIME, "backward", "a gradient hook has changed the size of value");
    if (fa_device_equal(changed->device, g->device)) return changed;
    return fai_fail(FA_ERR_RUNTIME, "backward", "a gradient hook has changed the device of value (was %s, got %s)", fa_device_text(g->device),
                    fa_device_text(changed->device));
}

/* .grad of a tensor that is no leaf but asked for it. */
static bool retain(task *t, fa_tensor *owner, fa_tensor *g)
{
    fa_tensor *total = owner->grad ? sum(t, owner->grad, g) : g;
    if (!total) return false;
    fa_tensor *old = owner->grad;
    owner->grad = fai_ref(total);
    fai_unref(old);
    return true;
}

/* One entry off the heap: hooks, capture, then its node's backward; leaves wait for the commit. */
static bool process_here(task *t, uint32_t at)
{
    FA_SCOPE;
    fai_node *node = t->entries[at].node;
    if (!take_over(&t->entries[at])) return false;
    const bool leaf = node->op == &fai_accumulate_op;
    fa_tensor *variable = leaf ? fai_accumulated(node) : NULL;
    fa_tensor *g = hooked(t, node, leaf ? (variable->extra ? variable->extra->hooks : NULL) : node->hooks, t->entries[at].grad);
    if (!g) return false;
    if (g != t->entries[at].grad) {
        fai_unref(t->entries[at].grad);
        t->entries[at].grad = fai_ref(g);
        t->entries[at].owned = false;
    }
    const int target = t->entries[at].target;
    if (target && !t->captured && !leaf && node->retains != t->inputs[target - 1] && !retain(t, t->inputs[target - 1], g)) return false;
    if (target && t->captured) {
        fai_unref(t->captured[target - 1]);
        t->captured[target - 1] = fai_ref(g);
    }
    if (node->retains && !retain(t, node->retains, g)) return false;
    if (leaf) {
        /* A parameter that was frozen after it was used gets none. */
        if (!target && (t->pruned || !FAI_HAS(variable, FAI_REQUIRES_GRAD))) return leave(t, at), true;
        if (!grow((void **)&t->leaves, &t->leaves_room, t->nleaves, sizeof *t->leaves, t->few_leaves)) return false;
        t->leaves[t->nleaves++] = at;
        return true;
    }
    if (t->pruned && !t->entries[at].needed) return true;
    fa_tensor *held = fai_ref(g);
    bool ok = run_node(t, node, held);
    fai_unref(held);
    if (ok && !t->pruned) leave(t, at);
    return ok;
}

static bool process(task *t, uint32_t at)
{
    const fai_node *node = t->entries[at].node;
    if (!streams_used() || node->op == &fai_accumulate_op || node->result.device.type == FA_DEVICE_CPU) return process_here(t, at);
    const fa_device device = node->result.device; /* the node may be gone afterwards */
    const int stream = node->stream;
    if (stream != fai_stream_id(device) && !note_side(t, device, stream)) return false;
    const int before = fai_stream_swap(device, stream);
    const bool ok = process_here(t, at);
    fai_stream_swap(device, before);
    return ok;
}

/* ---- giving leaves their gradients ---- */

/* A gradient that nobody else can see may become .grad itself; else it is copied. */
static fa_tensor *fresh(task *t, fa_tensor *g)
{
    if (t->create_graph) return fai_ref(g);
    if (g->object.refs == 1 && FAI_HAS(g, FAI_CONTIGUOUS) && !g->base && atomic_load(&g->buffer->refs) == 1) {
        fai_node *node = g->node;
        g->node = NULL;
        fai_node_unref(node);
        return fai_ref(g);
    }
    fa_tensor *copy = fai_empty_like("backward", g);
    if (!copy || !fai_copy("backward", copy, g)) return NULL;
    return fai_ref(copy);
}

/* First everything that can fail, into the entries; then the pointers. */
static bool commit(task *t)
{
    for (uint32_t i = 0; i < t->nleaves; i++) {
        FA_SCOPE;
        entry *e = &t->entries[t->leaves[i]];
        fa_tensor *leaf = fai_accumulated(e->node), *ready;
        if (!fai_same_shape(e->grad, leaf)) {
            char got[160], want[160];
            fai_text_shape(got, sizeof got, e->grad->ndim, e->grad->size);
            fai_text_shape(want, sizeof want, leaf->ndim, leaf->size);
            return fai_fail(FA_ERR_RUNTIME, "backward",
                            "the gradient of a leaf came in shape %s, but the leaf has shape %s now: fa_t_ or its kind changed it after it was used", got, want);
        }
        if (leaf->grad && (t->create_graph || leaf->grad->node)) {
            ready = fai_ref(sum(t, leaf->grad, e->grad));
        } else if (leaf->grad) {
            continue; /* added in place below: needs no memory */
        } else {
            ready = fresh(t, e->grad);
        }
        if (!ready) return false;
        fai_unref(e->grad);
        e->grad = ready;
        e->owned = true;
        e->ready = true;
    }
    bool ok = true;
    for (uint32_t i = 0; i < t->nleaves; i++) {
        entry *e = &t->entries[t->leaves[i]];
        fa_tensor *leaf = fai_accumulated(e->node);
        if (e->ready) {
            fa_tensor *old = leaf->grad;
            leaf->grad = e->grad;
            e->grad = NULL;
            fai_unref(old);
        } else {
            const fai_operand operands[] = {{.tensor = leaf->grad}, {.tensor = e->grad}};
            ok &= fai_row_into("backward", FAI_ROW_add, leaf->grad, 2, operands, NULL);
            ++*fai_version(leaf->grad);
        }
    }
    return ok;
}

static bool drain(task *t)
{
    for (uint32_t steps = 1; t->nheap; steps++) {
        if (steps % POLL_EVERY == 0 && fai_poll("backward")) return false;
        if (!process(t, pop(t))) return false;
    }
    return join_sides(t) && (t->captured || commit(t));
}

static void clean_up(task *t)
{
    for (uint32_t at = t->count; at-- > 0;)
        if (t->entries[at].node) leave(t, at);
    give_back(t->entries, t->room, sizeof *t->entries, t->few);
    give_back(t->heap, t->heap_room, sizeof *t->heap, t->few_heap);
    give_back(t->leaves, t->leaves_room, sizeof *t->leaves, t->few_leaves);
}

/* ---- the roots ---- */

static fa_tensor *root_gradient(task *t, fa_tensor *root, fa_tensor *given, int i)
{
    char a[160], b[160];
    if (given) {
        bool same = given->ndim == root->ndim;
        for (int d = 0; same && d < root->ndim; d++) same = given->size[d] == root->size[d];
        if (!same) {
            fai_text_shape(a, sizeof a, given->ndim, given->size);
            fai_text_shape(b, sizeof b, root->ndim, root->size);
            return fai_fail(FA_ERR_RUNTIME, "backward", "Mismatch in shape: grad_output[%d] has a shape of torch.Size(%s) and output[%d] has a shape of torch.Size(%s).", i, a, i, b);
        }
        if (!fa_device_equal(given->device, root->device))
            return fai_fail(FA_ERR_RUNTIME, "backward", "the gradient is on %s but the tensor it belongs to is on %s: move it with fa_to", fa_device_text(given->device),
                            fa_device_text(root->device));
        return t->create_graph ? fa_cast(given, (fa_dtype)root->dtype) : fai_cast("backward", given, (fa_dtype)root->dtype);
    }
    if (root->numel != 1) {
        fai_text_shape(a, sizeof a, root->ndim, root->size);
        return fai_fail(FA_ERR_RUNTIME, "backward",
                        "grad can be implicitly created only for scalar outputs. This one has the shape %s: reduce it first (fa_mean, fa_sum) or give .gradient.", a);
    }
    fa_tensor *one = fai_empty_like("backward", root);
    return one && fai_fill_scalar("backward", one, fa_scalar_of_float(1)) ? one : NULL;
}

static bool start(task *t, fa_tensor *root, fa_tensor *given, int i)
{
    FA_SCOPE;
    if (!fai_check("backward", "root", root)) return false;
    if (!fai_wants_grad(root)) {
        fai_fail(FA_ERR_RUNTIME, "backward",
                 "element %d of tensors does not require grad and does not have a grad_fn. Nothing that made it requires a gradient, or it was made under "
                 "no_grad, detached, or read back as a number.", i);
        return false;
    }
    fa_tensor *g = root_gradient(t, root, given, i);
    fai_node *node = g ? fai_grad_node(root) : NULL;
    return node && (!t->pruned || visit(t, node)) && deliver(t, node, g);
}

/* Enters the nodes of the inputs asked for, before the graph is searched for them. */
static bool set_targets(task *t, fa_tensor *const *inputs, int n)
{
    for (int i = 0; i < n; i++) {
        if (!fai_check("backward", "inputs", inputs[i])) return false;
        if (!fai_wants_grad(inputs[i])) {
            fai_fail(FA_ERR_RUNTIME, "grad", "One of the differentiated Tensors does not require grad: input %d", i);
            return false;
        }
        fai_node *node = fai_grad_node(inputs[i]);
        entry *e = node ? enter(t, node) : NULL;
        if (!e) return false;
        e->target = i + 1;
        e->needed = true;
    }
    return true;
}

/* Nodes of targets were entered without their children: search from each of them too. */
static bool search_below(task *t, int n)
{
    for (uint32_t at = 0; at < (uint32_t)n && at < t->count; at++) {
        fai_node *node = t->entries[at].node;
        for (int k = 0; k < node->ninputs; k++)
            if (node->edges[k].node && !visit(t, node->edges[k].node)) return false;
    }
    return true;
}

static bool run(task *t, fa_tensor *const *roots, fa_tensor *const *gradients, int nroots, fa_tensor *const *inputs, int ninputs)
{
    const bool was_off = fai_tls.grad_off, was_inference = fai_tls.inference;
    fai_backwards++;
    const uint16_t autocast = fai_tls.autocast;
    t->inputs = inputs;
    bool ok = set_targets(t, inputs, ninputs) && (!t->pruned || search_below(t, ninputs));
    fai_tls.grad_off = !t->create_graph;
    fai_tls.inference = false;
    fai_tls.autocast = 0; /* derivatives have the types that forward gave them */
    for (int i = 0; ok && i < nroots; i++) ok = start(t, roots[i], gradients ? gradients[i] : NULL, i);
    ok = ok && drain(t);
    if (!ok && t->nsides) join_sides(t);
    fai_tls.grad_off = was_off, fai_tls.inference = was_inference, fai_tls.autocast = autocast;
    clean_up(t);
    return ok;
}

static void begin(task *t, bool create_graph, bool retain_graph)
{
    memset(&t->entries, 0, sizeof *t - offsetof(task, entries)); /* all but the small arrays */
    t->entries = t->few, t->heap = t->few_heap, t->leaves = t->few_leaves;
    t->room = t->heap_room = t->leaves_room = START;
    t->create_graph = create_graph, t->retain_graph = retain_graph || create_graph;
}

bool fa_backward_with(fa_tensor *root, const fa_backward_options *options)
{
    if (fai_refuse_pending("backward") || !fai_check("backward", "root", root)) return false;
    if (options->inputs && options->ninputs == 0) {
        fai_fail(FA_ERR_RUNTIME, "backward", "`inputs` argument to `backward()` cannot be empty.");
        return false;
    }
    task t;
    begin(&t, options->create_graph, options->retain_graph);
    t.pruned = options->ninputs > 0;
    return run(&t, &root, options->gradient ? (fa_tensor *const[]){options->gradient} : NULL, 1, options->inputs, options->ninputs);
}

/* NULL entries: an error, zeros or left NULL, as asked. */
static bool hand_out(fa_tensor *const *inputs, int n, fa_tensor **grads, const fa_grad_options *options)
{
    for (int i = 0; i < n; i++) {
        if (grads[i]) continue;
        if (options->materialize_grads) {
            grads[i] = fai_empty_like("grad", inputs[i]);
            if (!grads[i] || !fai_zero("grad", grads[i])) return false;
        } else if (!options->allow_unused) {
            fai_fail(FA_ERR_RUNTIME, "grad",
                     "The differentiated Tensor at index %d appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior.", i);
            return false;
        }
    }
    return true;
}

/* One engine serves both: what it says of itself is said under the name that was called. */
static bool fails_as_grad(void)
{
    fa_error *e = &fai_cold_block()->error;
    if (fai_tls.error_pending && !strcmp(e->op, "backward")) snprintf(e->op, sizeof e->op, "grad");
    return false;
}

bool fa_grad_of_with(fa_tensor *const *outputs, int noutputs, fa_tensor *const *inputs, int ninputs, fa_tensor **grads, const fa_grad_options *options)
{
    for (int i = 0; i < ninputs; i++) grads[i] = NULL;
    if (fai_refuse_pending("grad")) return false;
    task t;
    begin(&t, options->create_graph, options->retain_graph);
    t.pruned = true, t.captured = grads;
    bool ok = run(&t, outputs, options->grad_outputs, noutputs, inputs, ninputs);
    for (int i = 0; i < ninputs; i++) {
        /* the same input asked for twice: targets keep the last, so look for its first */
        for (int k = i + 1; k < ninputs && !grads[i]; k++)
            if (inputs[k] == inputs[i] && grads[k]) grads[i] = fai_ref(grads[k]);
        if (grads[i] && streams_used() && !fai_on_cpu(grads[i])) ok &= fa_record_stream(grads[i], fa_current_stream(grads[i]->device));
        if (grads[i] && !fai_scope_add(grads[i], "grad")) grads[i] = NULL, ok = false;
    }
    return (ok && hand_out(inputs, ninputs, grads, options)) || fails_as_grad();
}
