/* What modules tell a report of missing memory: the names of parameters, and whether evaluation records graphs that nobody will use.
 * Every module stands in a list; those that are in no other module are the ones that users know by their class. */
#include "module.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 48, LEAST_PART = 20, MANY = 8 };

static struct { pthread_mutex_t lock; fa_module *newest; size_t count; uint64_t made; } live = {.lock = PTHREAD_MUTEX_INITIALIZER};

void fai_module_list(fa_module *m)
{
    if (m->listed) return;
    pthread_mutex_lock(&live.lock);
    m->listed = true;
    m->maker = &fai_tls;
    m->serial = ++live.made;
    m->newer = NULL;
    m->older = live.newest;
    if (live.newest) live.newest->newer = m;
    live.newest = m;
    live.count++;
    pthread_mutex_unlock(&live.lock);
}

void fai_module_unlist(fa_module *m)
{
    if (!m->listed) return;
    pthread_mutex_lock(&live.lock);
    if (m->older) m->older->newer = m->newer;
    if (m->newer) m->newer->older = m->older;
    else live.newest = m->older;
    live.count--;
    m->listed = false;
    pthread_mutex_unlock(&live.lock);
}

void fai_module_mode(fa_module *m, bool training)
{
    if (m->training && !training) m->evaluated_at = fai_backwards;
    m->training = training;
}

static const char *class_of(const fa_module *m) { return m->object.type && fai_other_face.class_name ? fai_other_face.class_name(m) : m->type->name; }

/* ---- roots ---- */

static int by_place(const void *a, const void *b)
{
    const fa_module *x = *(fa_module *const *)a, *y = *(fa_module *const *)b;
    return x < y ? -1 : x > y;
}

typedef void visit_root(void *context, fa_module *root);

/* The lock is held. Another thread's module may change under our eyes, unless both hold Python's lock. */
static void visit_roots(visit_root *visit, void *context)
{
    const size_t room = live.count;
    size_t n = 0;
    fa_module **all = fai_alloc(FAI_TAG_OTHER, room * sizeof *all);
    bool *inside = fai_calloc(FAI_TAG_OTHER, room);
    if (all && inside) {
        for (fa_module *m = live.newest; m; m = m->older)
            if (m->maker == &fai_tls || fai_other_face.site) all[n++] = m;
        qsort(all, n, sizeof *all, by_place);
        for (size_t i = 0; i < n; i++)
            for (int k = 0; k < all[i]->nentries; k++) {
                fa_module *child = all[i]->entries[k].object;
                fa_module **found = all[i]->entries[k].kind == FAI_ENTRY_MODULE && child ? bsearch(&child, all, n, sizeof *all, by_place) : NULL;
                if (found) inside[found - all] = true;
            }
        for (size_t i = 0; i < n; i++)
            if (!inside[i]) visit(context, all[i]);
    }
    fai_free(FAI_TAG_OTHER, all, all ? room * sizeof *all : 0);
    fai_free(FAI_TAG_OTHER, inside, inside ? room : 0);
}

/* ---- names ---- */

typedef struct naming { fai_holders *holders; const char *class; fa_path path; } naming;

static void name_tensor(naming *n, const fai_entry *entry, const fa_tensor *t)
{
    char title[80];
    if (t->buffer) {
        snprintf(title, sizeof title, "%s of %s", entry->kind == FAI_ENTRY_PARAMETER ? "parameters" : "buffers", n->class);
        fai_holder(n->holders, t->buffer, title, n->path);
    }
    if (!t->grad || !t->grad->buffer) return;
    snprintf(title, sizeof title, "gradients of %s", n->class);
    fai_holder(n->holders, t->grad->buffer, title, n->path);
}

static void name_below(naming *n, const fa_module *m, size_t length, int depth)
{
    for (int i = 0; i < m->nentries && depth < DEEPEST; i++) {
        const fai_entry *e = &m->entries[i];
        if (!e->object) continue;
        const int more = snprintf(n->path + length, sizeof n->path - length, "%s%s", length ? "." : "", e->name);
        const size_t end = length + (size_t)more < sizeof n->path ? length + (size_t)more : sizeof n->path - 1;
        if (e->kind == FAI_ENTRY_MODULE) name_below(n, e->object, end, depth + 1);
        else name_tensor(n, e, e->object);
        n->path[length] = 0;
    }
}

static void name_root(void *context, fa_module *root)
{
    naming n = {.holders = context, .class = class_of(root)};
    name_below(&n, root, 0, 0);
}

static void tell_names(fa_device device, fai_holders *all)
{
    (void)device;
    pthread_mutex_lock(&live.lock);
    visit_roots(name_root, all);
    pthread_mutex_unlock(&live.lock);
}

/* ---- evaluation ----
 *
 * A module in evaluation mode whose parameters are in graphs, although no backward has run since it was put into that mode. */

static bool has_leaf(const fa_module *m, const fa_tensor *leaf, int depth)
{
    for (int i = 0; i < m->nentries && depth < DEEPEST; i++) {
        const fai_entry *e = &m->entries[i];
        if (e->object == leaf) return true;
        if (e->kind == FAI_ENTRY_MODULE && e->object && has_leaf(e->object, leaf, depth + 1)) return true;
    }
    return false;
}

static bool is_in(void *module, const fa_tensor *leaf) { return has_leaf(module, leaf, 0); }

typedef struct judging { fa_device device; uint64_t in_use; fai_text *out; } judging;

static void judge_root(void *context, fa_module *root)
{
    const judging *j = context;
    char amount[32];
    if (root->training || root->evaluated_at != fai_backwards) return;
    const uint64_t bytes = fai_graph_bytes(j->device, is_in, root);
    if (!bytes || bytes * LEAST_PART < j->in_use) return;
    fai_text_bytes(amount, sizeof amount, bytes);
    fai_text_add(j->out,
                 " %s is in evaluation mode, and no backward has run since; its graphs are recorded all the same, and hold %s: evaluation mode does "
                 "not turn that off, FA_NO_GRAD does.",
                 class_of(root), amount);
}

static void tell_evaluation(fa_device device, uint64_t in_use, fai_text *out)
{
    if (!fai_recording()) return; /* that advice is followed already */
    judging j = {device, in_use, out};
    pthread_mutex_lock(&live.lock);
    visit_roots(judge_root, &j);
    pthread_mutex_unlock(&live.lock);
}

/* ---- scopes: in C, what a loop without one makes lives on ---- */

static void tell_scopes(fa_device device, uint64_t in_use, fai_text *out)
{
    uint64_t bytes = 0, count = 0;
    char amount[32];
    for (uint32_t i = fai_tls.nmarks ? fai_tls.marks[fai_tls.nmarks - 1] : 0; i < fai_tls.nowned; i++) {
        const fai_object *o = fai_tls.owned[i];
        const fa_tensor *t = (const fa_tensor *)o;
        if (!o || o->kind != FAI_TENSOR || o->refs != 1 || !t->buffer || !fa_device_equal(t->device, device)) continue;
        if (atomic_load(&t->buffer->refs) != 1) continue; /* others hold it too */
        bytes += t->buffer->room;
        count++;
    }
    if (count < MANY || bytes * 2 < in_use) return;
    fai_text_bytes(amount, sizeof amount, bytes);
    fai_text_add(out,
                 " The innermost scope owns %llu tensors there, with %s, which live until it closes: if they come from a loop, begin its block with "
                 "FA_SCOPE;",
                 (unsigned long long)count, amount);
    fai_text_add(out, " or fa_drop what is needed no longer.");
}

__attribute__((constructor)) static void set_up(void)
{
    fai_memory_witness.names = tell_names;
    fai_memory_witness.evaluation = tell_evaluation;
    fai_memory_witness.scopes = tell_scopes;
}
