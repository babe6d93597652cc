/* What graphs keep alive on a device, told when its memory is missing. Nodes whose results lie on a device stand in a list. A node that
 * more references lead to than the nodes of the list hold is held from outside: by a variable, a list of losses, a running sum.
 *
 * How much would be free without such results is not guessed: their end is played through on a table of counts (trial), reference by
 * reference as fai_node_unref and fai_unref would do it, and the buffers whose last reference goes are added up. Nothing is changed. */
#include "autograd.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 64, LEAST_TERMS = 3, LEAST_PART = 20 /* of what is in use: less is not worth a sentence */ };

__thread uint64_t fai_backwards;
static struct { pthread_mutex_t lock; fai_node *newest; } live = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The first dimension of what a layer with parameters gets. */
static void note_rows(const fai_node *node)
{
    const fai_node *leaf = NULL;
    const fai_meta *batch = NULL;
    for (int i = 0; i < node->ninputs; i++) {
        if (node->edges[i].node && node->edges[i].node->op == &fai_accumulate_op) leaf = node->edges[i].node;
        else if (!batch && node->metas[i].ndim >= 2) batch = &node->metas[i];
    }
    if (!leaf || !batch) return;
    const uint64_t what = fai_hash(batch->size + 1, (size_t)(batch->ndim - 1) * sizeof *batch->size, (uintptr_t)leaf ^ batch->dtype);
    fai_memory_rows(node->result.device, batch->size[0], what);
}

void fai_graph_list(fai_node *node, const fa_tensor *result)
{
    node->site = fai_buffer_site(result->buffer);
    node->maker = &fai_tls;
    node->listed = true;
    note_rows(node);
    pthread_mutex_lock(&live.lock);
    node->newer = NULL;
    node->older = live.newest;
    if (live.newest) live.newest->newer = node;
    live.newest = node;
    pthread_mutex_unlock(&live.lock);
}

void fai_graph_unlist(fai_node *node)
{
    pthread_mutex_lock(&live.lock);
    if (node->older) node->older->newer = node->newer;
    if (node->newer) node->newer->older = node->older;
    else live.newest = node->older;
    pthread_mutex_unlock(&live.lock);
    node->listed = false;
}

/* Another thread's graph may change under our eyes, unless both hold Python's lock. */
static bool is_ours(const fai_node *node) { return !node->listed || node->maker == &fai_tls || fai_other_face.site; }

/* ---- a table of what was seen: nodes, tensors, buffers ---- */

typedef struct seen {
    const void *key;
    int64_t gone;      /* references that would be gone */
    int32_t inner;     /* references from nodes of the list */
    bool dead, reaches;
} seen;

typedef struct trial {
    seen *slot;
    size_t room, used;
    const fai_node **stack;
    size_t depth, stack_room;
    uint64_t bytes;
    fa_device device;
    bool failed;
} trial;

static seen nothing;

static seen *place(seen *slot, size_t room, const void *key)
{
    size_t at = ((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u >> 16;
    while (slot[at & (room - 1)].key && slot[at & (room - 1)].key != key) at++;
    return &slot[at & (room - 1)];
}

static seen *look(trial *t, const void *key)
{
    if (t->used * 2 >= t->room) {
        const size_t room = t->room ? t->room * 2 : 1024;
        seen *slot = t->failed ? NULL : fai_calloc(FAI_TAG_OTHER, room * sizeof *slot);
        if (!slot) return t->failed = true, nothing = (seen){0}, &nothing;
        for (size_t i = 0; i < t->room; i++)
            if (t->slot[i].key) *place(slot, room, t->slot[i].key) = t->slot[i];
        fai_free(FAI_TAG_OTHER, t->slot, t->room * sizeof *slot);
        t->slot = slot, t->room = room;
    }
    seen *s = place(t->slot, t->room, key);
    if (!s->key) s->key = key, t->used++;
    return s;
}

static void push(trial *t, const fai_node *node)
{
    if (t->depth == t->stack_room) {
        const size_t room = t->stack_room ? t->stack_room * 2 : 256;
        void *stack = fai_realloc(FAI_TAG_OTHER, t->stack, t->stack_room * sizeof *t->stack, room * sizeof *t->stack);
        if (!stack) {
            t->failed = true;
            return;
        }
        t->stack = stack, t->stack_room = room;
    }
    t->stack[t->depth++] = node;
}

static void end_trial(trial *t)
{
    fai_free(FAI_TAG_OTHER, t->slot, t->room * sizeof *t->slot);
    fai_free(FAI_TAG_OTHER, t->stack, t->stack_room * sizeof *t->stack);
    *t = (trial){0};
}

/* ---- playing an end through ---- */

static void release_node(trial *t, const fai_node *node)
{
    if (!node || !is_ours(node)) return;
    seen *s = look(t, node);
    if (++s->gone < node->refs || s->dead) return;
    s->dead = true;
    push(t, node);
}

static void release_buffer(trial *t, fai_buffer *b)
{
    if (!b) return;
    seen *s = look(t, b);
    if (++s->gone < atomic_load(&b->refs) || s->dead) return;
    s->dead = true;
    if (fa_device_equal(b->device, t->device)) t->bytes += b->room;
}

static void release_tensor(trial *t, const fa_tensor *x)
{
    if (!x) return;
    seen *s = look(t, x);
    if (++s->gone < x->object.refs || s->dead) return;
    s->dead = true;
    release_buffer(t, x->buffer);
    release_node(t, x->node);
    release_tensor(t, x->grad);
    release_tensor(t, x->base);
}

/* The end of what waits on the stack, and of what that holds. */
static void play(trial *t)
{
    while (t->depth && !t->failed) {
        const fai_node *node = t->stack[--t->depth];
        for (int i = 0; i < node->nkept; i++) release_tensor(t, node->kept[i].tensor);
        for (int i = 0; i < node->ninputs; i++) release_node(t, node->edges[i].node);
    }
}

static void kill_result(trial *t, const fai_node *node)
{
    seen *s = look(t, node);
    if (s->dead) return;
    s->dead = true;
    push(t, node);
}

/* ---- who is held from outside ---- */

static void count_holder(trial *t, const fa_tensor *x) /* a tensor that a node keeps holds the node that made it */
{
    seen *s = x ? look(t, x) : NULL;
    if (!s || s->inner++) return;
    if (x->node) look(t, x->node)->inner++;
    count_holder(t, x->base);
}

/* The lock is held. */
static void count_inner(trial *t)
{
    for (const fai_node *n = live.newest; n; n = n->older) {
        if (!is_ours(n)) continue;
        for (int i = 0; i < n->ninputs; i++)
            if (n->edges[i].node) look(t, n->edges[i].node)->inner++;
        for (int i = 0; i < n->nkept; i++) count_holder(t, n->kept[i].tensor);
    }
}

static bool is_held(trial *t, const fai_node *n) { return is_ours(n) && fa_device_equal(n->result.device, t->device) && n->refs > look(t, n)->inner; }

static bool is_single(const fai_node *n)
{
    for (int i = 0; i < n->result.ndim; i++)
        if (n->result.size[i] != 1) return false;
    return true;
}

/* ---- results that are held: groups of the same operator and line ---- */

typedef struct group {
    const fai_node *first; /* one of them */
    int count;
    bool sum;              /* these are added up, and the sum is held */
    const fai_node *root;  /* the sum */
    uint64_t bytes;
} group;

static bool is_addition(const fai_node *n) { return !strncmp(n->op->name, "Add", 3) || !strncmp(n->op->name, "Sum", 3); }
static bool alike(const fai_node *a, const fai_node *b) { return a->op == b->op && a->site == b->site && is_single(a) == is_single(b); }

static int add_to(group *all, int n, const fai_node *node, const fai_node *root)
{
    int i = 0;
    while (i < n && (all[i].root != root || !alike(all[i].first, node))) i++;
    if (i == GROUPS) return n;
    if (i == n) all[n++] = (group){.first = node, .sum = root != NULL, .root = root};
    all[i].count++;
    return n;
}

/* What a sum of single numbers is made of: the results that additions lead to. */
static int add_terms(group *all, int n, const fai_node *root, trial *t)
{
    const fai_node *at = root;
    while (at && is_addition(at) && is_single(at)) {
        const fai_node *next = NULL;
        for (int i = 0; i < at->ninputs; i++) {
            const fai_node *from = at->edges[i].node;
            if (!from || !from->listed || !is_single(from) || look(t, from)->dead) continue;
            if (is_addition(from) && !next) next = from;
            else n = add_to(all, n, from, root);
        }
        at = next;
    }
    return n;
}

static int find_groups(trial *t, group *all)
{
    int n = 0;
    for (const fai_node *node = live.newest; node; node = node->older) {
        if (!is_held(t, node) || node->op == &fai_accumulate_op) continue;
        if (is_addition(node) && is_single(node)) n = add_terms(all, n, node, t);
        n = add_to(all, n, node, NULL);
    }
    return n;
}

static bool is_worth(const group *g) { return g->sum ? g->count >= LEAST_TERMS : g->count >= 2; }

static void measure(trial *held, group *g, fa_device device)
{
    trial t = {.device = device};
    for (const fai_node *node = live.newest; node; node = node->older)
        if (g->sum ? node == g->root : is_held(held, node) && alike(g->first, node)) kill_result(&t, node);
    play(&t);
    g->bytes = t.failed ? 0 : t.bytes;
    end_trial(&t);
}

static void tell(const group *g, fai_text *out)
{
    char amount[32], site[160];
    const fai_node_op *op = g->first->op;
    fai_text_bytes(amount, sizeof amount, g->bytes);
    fai_site_text(g->first->site, site, sizeof site);
    const char *tail = op->bare ? "" : g->first->custom ? "Backward" : "Backward0";
    if (g->sum)
        fai_text_add(out,
                     " A running sum of %d results of %s%s%s keeps all their graphs, which hold %s: add fa_item(loss) instead, unless a backward "
                     "of the sum is to follow.",
                     g->count, op->name, tail, site, amount);
    else if (is_single(g->first))
        fai_text_add(out,
                     " %d single numbers, results of %s%s%s, are kept with their graphs, which hold %s. If they are losses in a list, keep "
                     "fa_item(loss) instead.",
                     g->count, op->name, tail, site, amount);
    else
        fai_text_add(out,
                     " %d results of %s%s%s are kept with their graphs, which hold %s: keep fa_detach(y), or compute under FA_NO_GRAD, if no "
                     "backward is to follow.",
                     g->count, op->name, tail, site, amount);
}

static void tell_graphs(fa_device device, uint64_t in_use, fai_text *out)
{
    group all[GROUPS];
    trial held = {.device = device};
    const group *most = NULL;
    pthread_mutex_lock(&live.lock);
    count_inner(&held);
    const int n = held.failed ? 0 : find_groups(&held, all);
    for (int i = 0; i < n; i++) {
        if (!is_worth(&all[i])) continue;
        measure(&held, &all[i], device);
        if (all[i].bytes * LEAST_PART >= in_use && all[i].bytes && (!most || all[i].bytes > most->bytes)) most = &all[i];
    }
    if (most) tell(most, out);
    pthread_mutex_unlock(&live.lock);
    end_trial(&held);
}

/* ---- graphs that lead to certain leaves ---- */

static int by_rank(const void *a, const void *b)
{
    const fai_node *x = *(const fai_node *const *)a, *y = *(const fai_node *const *)b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static bool leads_there(trial *t, const fai_node *node, bool (*wanted)(void *, const fa_tensor *), void *context)
{
    for (int i = 0; i < node->ninputs; i++) {
        const fai_node *from = node->edges[i].node;
        if (!from) continue;
        if (from->op == &fai_accumulate_op ? wanted(context, fai_accumulated(from)) : look(t, from)->reaches) return true;
    }
    return false;
}

uint64_t fai_graph_bytes(fa_device device, bool (*wanted)(void *context, const fa_tensor *leaf), void *context)
{
    trial held = {.device = device}, end = {.device = device};
    size_t n = 0, i = 0;
    pthread_mutex_lock(&live.lock);
    for (const fai_node *node = live.newest; node; node = node->older) n++;
    const fai_node **nodes = fai_alloc(FAI_TAG_OTHER, n * sizeof *nodes);
    if (nodes) {
        for (const fai_node *node = live.newest; node; node = node->older) nodes[i++] = node;
        qsort(nodes, n, sizeof *nodes, by_rank);
        count_inner(&held);
        for (i = 0; i < n; i++) {
            if (!is_ours(nodes[i]) || !leads_there(&held, nodes[i], wanted, context)) continue;
            look(&held, nodes[i])->reaches = true;
            if (is_held(&held, nodes[i])) kill_result(&end, nodes[i]);
        }
        play(&end);
        fai_free(FAI_TAG_OTHER, nodes, n * sizeof *nodes);
    }
    pthread_mutex_unlock(&live.lock);
    const uint64_t bytes = held.failed || end.failed ? 0 : end.bytes;
    end_trial(&held);
    end_trial(&end);
    return bytes;
}

__attribute__((constructor)) static void set_up(void) { fai_memory_witness.graphs = tell_graphs; }
