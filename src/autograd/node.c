/* Nodes: making them, saving tensors for backward, and dropping graphs of any depth without recursion. */
#include "autograd.h"
#include <string.h>

enum { BLOCK_STEP = 256, BLOCK_CLASSES = 6, SPARE_EACH = 128 };

typedef struct graveyard { fai_node *first; bool draining; } graveyard;
static __thread graveyard dead __attribute__((tls_model("initial-exec")));
static __thread struct { fai_node *first; int count; } spare[BLOCK_CLASSES] __attribute__((tls_model("initial-exec")));

static void drop_spare(void)
{
    for (int c = 0; c < BLOCK_CLASSES; c++) {
        for (fai_node *n = spare[c].first, *next; n; n = next) {
            next = n->next;
            fai_free(FAI_TAG_GRAPH, n, (size_t)(c + 1) * BLOCK_STEP);
        }
        spare[c].first = NULL;
        spare[c].count = 0;
    }
}

static fai_node *take_block(size_t *bytes)
{
    size_t class = (*bytes + BLOCK_STEP - 1) / BLOCK_STEP - 1;
    if (class >= BLOCK_CLASSES) return fai_alloc(FAI_TAG_GRAPH, *bytes);
    *bytes = (class + 1) * BLOCK_STEP;
    fai_node *n = spare[class].first;
    if (!n) return fai_alloc(FAI_TAG_GRAPH, *bytes);
    spare[class].first = n->next;
    spare[class].count--;
    return n;
}

static void give_block(fai_node *n)
{
    size_t class = n->block_bytes / BLOCK_STEP - 1;
    if (n->block_bytes % BLOCK_STEP == 0 && class < BLOCK_CLASSES && spare[class].count < SPARE_EACH && fai_caches_on()) {
        if (!spare[class].first) fai_watch_thread();
        n->next = spare[class].first;
        spare[class].first = n;
        spare[class].count++;
    } else {
        fai_free(FAI_TAG_GRAPH, n, n->block_bytes);
    }
}

fai_node *fai_node_new(const fai_node_op *op, int ninputs, int nkept, size_t params_bytes)
{
    const size_t edges = sizeof(fai_node), kept = edges + (size_t)ninputs * sizeof(fai_edge), params = kept + (size_t)nkept * sizeof(fai_kept);
    const size_t metas = params + ((params_bytes + 7) & ~(size_t)7);
    size_t bytes = metas + (size_t)ninputs * sizeof(fai_meta);
    fai_node *node = take_block(&bytes);
    if (!node) return fai_fail_memory(op->name, bytes);
    char *block = (char *)node;
    memset(node, 0, metas);
    node->refs = 1;
    node->ninputs = (uint16_t)ninputs, node->nkept = (uint16_t)nkept;
    node->op = op;
    node->rank = 1;
    node->edges = (fai_edge *)(void *)(block + edges);
    node->kept = (fai_kept *)(void *)(block + kept);
    node->params = block + params;
    node->metas = (fai_meta *)(void *)(block + metas);
    node->block_bytes = (uint32_t)bytes, node->params_bytes = (uint32_t)params_bytes;
    return node;
}

static void set_meta(fai_meta *meta, const fa_tensor *t)
{
    meta->ndim = t->ndim, meta->dtype = t->dtype, meta->device = t->device;
    for (int i = 0; i < t->ndim; i++) meta->size[i] = t->size[i];
}

bool fai_node_input(fai_node *node, int i, fa_tensor *t, bool differentiable)
{
    if (!t) {
        memset(&node->metas[i], 0, sizeof node->metas[i]);
        return true;
    }
    set_meta(&node->metas[i], t);
    if (!differentiable || !fai_wants_grad(t)) return true;
    fai_node *from = fai_grad_node(t);
    if (!from) return false;
    fai_node_ref(from);
    node->edges[i].node = from;
    node->edges[i].needed = true;
    if (from->rank >= node->rank) node->rank = from->rank + 1;
    return true;
}

/* A result that its own node keeps would be a cycle: an alias without the node is kept instead. */
static fa_tensor *alias(fa_tensor *t)
{
    fa_tensor *a = fai_view("save for backward", t, t->ndim, t->size, t->stride, t->offset);
    if (a) fai_scope_take(a);
    return a;
}

/* An input may be written in place by what its node leads to, x.add_(x * x), and would then hold itself through its new node. So an
 * alias with the node of now is kept, except of what can't be written with a record: leaves that need a gradient, integers. */
static fa_tensor *own_input(fa_tensor *t)
{
    if (!fai_is_float(t->dtype) || (!t->node && FAI_HAS(t, FAI_REQUIRES_GRAD))) return fai_ref(t);
    fa_tensor *a = alias(t);
    if (a && t->node) {
        fai_node_ref(t->node);
        a->node = t->node;
        a->output = t->output;
    }
    return a;
}

bool fai_node_keep(fai_node *node, int i, fa_tensor *t, bool is_result)
{
    fai_kept *k = &node->kept[i];
    if (!t) return true;
    if (FAI_HAS(t, FAI_INFERENCE)) {
        fai_fail(FA_ERR_RUNTIME, node->op->name,
                 "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by "
                 "autograd. To work around this, clone the tensor outside inference mode and use the clone.");
        return false;
    }
    k->tensor = is_result ? alias(t) : own_input(t);
    k->version = *fai_version(t);
    k->is_result = is_result;
    node->saved_any = true;
    return k->tensor != NULL;
}

void fai_node_keep_hidden(fai_node *node, int i, fa_tensor *t)
{
    if (!t) return;
    node->kept[i] = (fai_kept){.tensor = fai_ref(t), .version = *fai_version(t)};
    node->saved_any = true;
}

bool fai_node_keep_alias(fai_node *node, int i)
{
    fai_kept *k = &node->kept[i];
    fa_tensor *t = alias(k->tensor);
    if (!t) return false;
    fai_unref(k->tensor);
    k->tensor = t;
    k->is_result = true;
    return true;
}

static void *fail_version(const fai_node *node, const fai_kept *k)
{
    char shape[160], made[80] = "";
    const fa_tensor *t = k->tensor;
    const fai_node *maker = k->is_result ? node : t->node;
    fai_text_shape(shape, sizeof shape, t->ndim, t->size);
    if (maker) snprintf(made, sizeof made, ", which is output 0 of %s", maker->op->name);
    return fai_fail(FA_ERR_RUNTIME, "backward",
                    "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.%s%sTensor %s]%s, is at "
                    "version %u; expected version %u instead. Hint: %s needs the old value in its derivative: use the out-of-place form of the "
                    "operation that changed it.",
                    fai_on_cpu(t) ? "" : "cuda.", fai_dtype_title((fa_dtype)t->dtype), shape, made, *fai_version(k->tensor), k->version, node->op->name);
}

fa_tensor *fai_node_kept(fai_node *node, int i)
{
    fai_kept *k = &node->kept[i];
    if (!k->tensor) return NULL;
    if (k->version != *fai_version(k->tensor)) return fail_version(node, k);
    if (!k->is_result) return k->tensor; /* the node holds it while its backward runs */
    fa_tensor *t = fai_view(node->op->name, k->tensor, k->tensor->ndim, k->tensor->size, k->tensor->stride, k->tensor->offset);
    if (t) {
        fai_node_ref(node);
        t->node = node;
    }
    return t;
}

void fai_node_finish(fai_node *node, fa_tensor *result)
{
    set_meta(&node->result, result);
    if (FAI_UNLIKELY(atomic_load_explicit(&fai_streams_used, memory_order_relaxed))) node->stream = (uint8_t)fai_stream_id(result->device);
    if (result->node && result->node->retains == result) { /* written in place: .grad belongs to the new value, as in torch */
        result->node->retains = NULL;
        node->retains = result;
    }
    if (result->node) fai_node_unref(result->node);
    result->node = node;
    if (FAI_UNLIKELY(result->device.type != FA_DEVICE_CPU) && !node->listed) fai_graph_list(node, result);
}

void fai_node_ref(fai_node *node) { node->refs++; }

void fai_node_free_kept(fai_node *node)
{
    for (int i = 0; i < node->nkept; i++) {
        fa_tensor *t = node->kept[i].tensor;
        node->kept[i].tensor = NULL;
        fai_unref(t);
    }
    node->freed = true;
}

static void bury(fai_node *node)
{
    if (FAI_UNLIKELY(node->listed)) fai_graph_unlist(node);
    if (node->op == &fai_accumulate_op && node->kept[0].tensor) node->kept[0].tensor->accumulator = NULL;
    fai_node_free_kept(node);
    for (int i = 0; i < node->ninputs; i++)
        if (node->edges[i].node) fai_node_unref(node->edges[i].node);
    if (node->op->release) node->op->release(node);
    fai_free_hooks(node->hooks);
    give_block(node);
}

/* What dies while a node dies waits in a list: a chain of a million nodes needs no deeper stack than one. */
void fai_node_unref(fai_node *node)
{
    if (!node || --node->refs > 0) return;
    node->next = dead.first;
    dead.first = node;
    if (dead.draining) return;
    dead.draining = true;
    while (dead.first) {
        fai_node *n = dead.first;
        dead.first = n->next;
        bury(n);
    }
    dead.draining = false;
}

static void forget_graph(fa_tensor *t)
{
    if (FAI_HAS(t, FAI_RETAIN_GRAD) && t->node && t->node->retains == t) t->node->retains = NULL;
    fai_node *node = t->node;
    fa_tensor *grad = t->grad;
    t->node = NULL, t->grad = NULL;
    fai_node_unref(node);
    fai_unref(grad);
    if (t->extra) {
        fai_free_hooks(t->extra->hooks);
        fai_free(FAI_TAG_OBJECT, t->extra, sizeof *t->extra);
        t->extra = NULL;
    }
}

__attribute__((constructor)) static void set_up(void)
{
    fai_set_forget_graph(forget_graph);
    fai_on_cache_drop(drop_spare);
    fai_on_thread_end(drop_spare);
}

/* ---- leaves ---- */

static bool never_runs(fai_node *node, fa_tensor *g, fa_tensor **grads)
{
    (void)node, (void)g, (void)grads;
    return true;
}

const fai_node_op fai_accumulate_op = {.name = "AccumulateGrad", .backward = never_runs, .bare = true};

static fai_node *accumulator(fa_tensor *leaf)
{
    if (leaf->accumulator) return leaf->accumulator;
    fai_node *node = fai_node_new(&fai_accumulate_op, 0, 1, 0);
    if (!node) return NULL;
    node->rank = 0;
    node->kept[0].tensor = fai_ref(leaf);
    set_meta(&node->result, leaf);
    leaf->accumulator = node;
    /* Edges keep it alive from here on; the first is made by the caller, who borrows this reference's successor. */
    node->refs = 0;
    return node;
}

fai_node *fai_grad_node(fa_tensor *t)
{
    if (fai_is_stale(t) && fai_wants_grad(t->base) && !fai_remake_view(t)) return NULL;
    return t->node ? t->node : accumulator(t);
}
