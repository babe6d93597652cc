/* State dicts, and modules as text. */
#include "module.h"
#include <string.h>

/* ---- state dicts ---- */

static bool add_to_state(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    (void)owner;
    if (!entry->object || !entry->persistent) return true;
    return fa_tensors_add(context, path, fa_detach(entry->object));
}

fa_tensors *fa_state_dict(fa_module *m)
{
    if (!fai_module_check("state_dict", m)) return NULL;
    FA_SCOPE;
    fa_tensors *state = fa_tensors_new();
    return state && fai_walk(m, add_to_state, state) ? fai_return(state) : NULL;
}

/* The errors of a load, in torch's order and words: missing, unexpected, then sizes. */
typedef struct loading { const fa_tensors *state; bool apply; fai_text missing, sizes; int64_t used; } loading;

static bool load_one(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    loading *l = context;
    fa_tensor *t = entry->object, *from;
    (void)owner;
    if (!t || !entry->persistent) return true;
    from = fa_tensors_find(l->state, path);
    if (!from) {
        fai_text_add(&l->missing, "%s\"%s\"", l->missing.length ? ", " : "", path);
        return true;
    }
    l->used++;
    if (l->apply) {
        ++*fai_version(t);
        return fai_copy("load_state_dict", t, from);
    }
    bool same = from->ndim == t->ndim;
    for (int i = 0; same && i < t->ndim; i++) same = from->size[i] == t->size[i];
    if (!same) {
        char a[160], b[160];
        fai_text_shape(a, sizeof a, from->ndim, from->size);
        fai_text_shape(b, sizeof b, t->ndim, t->size);
        fai_text_add(&l->sizes, "\n\tsize mismatch for %s: copying a param with shape torch.Size(%s) from checkpoint, the shape in current model is torch.Size(%s).", path, a, b);
    }
    return true;
}

static bool has_path(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    (void)owner;
    return !(entry->object && entry->persistent && strcmp(path, context) == 0);
}

static void list_unexpected(fa_module *m, const fa_tensors *state, fai_text *out)
{
    for (int64_t i = 0; i < fa_tensors_count(state); i++) {
        fa_path name;
        snprintf(name, sizeof name, "%s", fa_tensors_name_at(state, i));
        if (fai_walk(m, has_path, name)) fai_text_add(out, "%s\"%s\"", out->length ? ", " : "", name);
    }
}

bool fa_load_state_dict(fa_module *m, const fa_tensors *state, bool strict)
{
    if (fai_refuse_pending("load_state_dict") || !fai_module_check("load_state_dict", m)) return false;
    if (!state) return fai_fail(FA_ERR_TYPE, "load_state_dict", "argument 'state' is NULL: named tensors are needed"), false;
    FA_SCOPE;
    FA_NO_GRAD;
    loading l = {.state = state};
    fai_text unexpected = {0};
    fai_walk(m, load_one, &l);
    if (strict) list_unexpected(m, state, &unexpected);
    bool ok = !(strict && (l.missing.length || unexpected.length)) && !l.sizes.length && !l.missing.failed && !l.sizes.failed;
    if (!ok) {
        fai_text text = {0};
        fai_text_add(&text, "Error(s) in loading state_dict for %s:", m->type->name);
        if (strict && l.missing.length) fai_text_add(&text, "\n\tMissing key(s) in state_dict: %s. ", l.missing.data);
        if (unexpected.length) fai_text_add(&text, "\n\tUnexpected key(s) in state_dict: %s. ", unexpected.data);
        if (l.sizes.length) fai_text_add(&text, "%s", l.sizes.data);
        fai_fail(FA_ERR_RUNTIME, "load_state_dict", "%s", text.data ? text.data : "no memory");
        fai_text_free(&text);
    }
    fai_text_free(&l.missing);
    fai_text_free(&l.sizes);
    fai_text_free(&unexpected);
    l = (loading){.state = state, .apply = true};
    ok = ok && fai_walk(m, load_one, &l);
    fai_text_free(&l.missing);
    return ok;
}

bool fa_save_module(const char *path, fa_module *m)
{
    FA_SCOPE;
    FAI_CALLED("save_module");
    fa_tensors *state = fa_state_dict(m);
    return state && fa_save(path, state);
}

bool fa_load_module(const char *path, fa_module *m)
{
    FA_SCOPE;
    FAI_CALLED("load_module");
    const fa_load_options options = {.struct_size = sizeof options, .device = FA_CPU};
    if (fai_refuse_pending("load_module")) return false;
    fa_tensors *state = fa_load_with(path, &options);
    return state && fa_load_state_dict(m, state, true);
}

/* ---- text ---- */

static void module_text(fai_text *text, fa_module *m, int indent);

static void children_text(fai_text *text, fa_module *m, int indent)
{
    const bool list = strcmp(m->type->name, "ModuleList") == 0;
    fai_text previous = {0};
    int run = 0;
    size_t start = 0;
    for (int i = 0; i < m->nentries; i++) {
        if (m->entries[i].kind != FAI_ENTRY_MODULE || !m->entries[i].object) continue;
        fai_text child = {0};
        module_text(&child, m->entries[i].object, indent + 2);
        /* a list shows equal neighbours as one line: (0-2): 3 x Linear(...) */
        bool same = list && run > 0 && child.data && previous.data && strcmp(child.data, previous.data) == 0;
        if (same) {
            text->length = start;
            run++;
        } else {
            start = text->length;
            run = 1;
        }
        fai_text_add(text, "\n%*s(", indent + 2, "");
        if (run > 1) fai_text_add(text, "%d-", i - run + 1);
        fai_text_add(text, "%s): ", m->entries[i].name);
        if (run > 1) fai_text_add(text, "%d x ", run);
        fai_text_add(text, "%s", child.data ? child.data : "?");
        fai_text_free(&previous);
        previous = child;
    }
    fai_text_free(&previous);
    fai_text_add(text, "\n%*s", indent, "");
}

static void module_text(fai_text *text, fa_module *m, int indent)
{
    char description[512] = "";
    if (m->type->describe) m->type->describe(m, description, sizeof description);
    fai_text_add(text, "%s(", m->type->name);
    if (fa_child_count(m) == 0) fai_text_add(text, "%s", description);
    else {
        if (*description) fai_text_add(text, "\n%*s%s", indent + 2, "", description);
        children_text(text, m, indent);
    }
    fai_text_add(text, ")");
}

size_t fa_module_to_text(fa_module *m, char *out, size_t n)
{
    if (!fai_module_check("module_to_text", m)) return 0;
    fai_text text = {0};
    module_text(&text, m, 0);
    if (text.failed) fai_fail_memory("module_to_text", text.length);
    size_t length = text.length;
    if (n) snprintf(out, n, "%s", text.data ? text.data : "");
    fai_text_free(&text);
    return length;
}

void fa_module_print(fa_module *m)
{
    if (!fai_module_check("module_print", m)) return;
    fai_text text = {0};
    module_text(&text, m, 0);
    if (text.failed) fai_fail_memory("module_print", text.length);
    else puts(text.data);
    fai_text_free(&text);
}
