/* The module: registry, paths, calling, moving. */
#include "module.h"
#include <string.h>

void fai_module_clear(fa_module *m)
{
    fai_module_unlist(m);
    for (int i = 0; i < m->nentries; i++) {
        fai_module_disown(m, &m->entries[i]);
        fai_unref(m->entries[i].object);
        fai_free(FAI_TAG_TEXT, m->entries[i].name, strlen(m->entries[i].name) + 1);
    }
    fai_free(FAI_TAG_OBJECT, m->entries, (size_t)m->room * sizeof *m->entries);
    if (m->data_bytes) fai_free(FAI_TAG_OBJECT, m->data, m->data_bytes);
    else if (m->type && m->type->release) m->type->release(m->data);
    m->entries = NULL, m->nentries = m->room = m->nslots = 0;
    m->data = NULL, m->data_bytes = 0;
}

static void destroy_module(void *object)
{
    fai_module_clear(object);
    if (fai_other_face.free_module) fai_other_face.free_module(object);
    else fai_free(FAI_TAG_OBJECT, object, sizeof(fa_module));
}

/* ---- who is whose: every object remembers the first module that registered it, for paths in errors ---- */

static void adopt(fa_module *m, const fai_entry *e)
{
    if (!e->object) return;
    if (e->kind == FAI_ENTRY_MODULE) {
        fa_module *child = e->object;
        if (!child->parent && child != m) child->parent = m;
    } else {
        fa_tensor *t = e->object;
        if (!t->owner) t->owner = m;
    }
}

void fai_module_disown(const fa_module *m, const fai_entry *e)
{
    if (!e->object) return;
    if (e->kind == FAI_ENTRY_MODULE) {
        fa_module *child = e->object;
        if (child->parent == m) child->parent = NULL;
    } else {
        fa_tensor *t = e->object;
        if (t->owner == m) t->owner = NULL;
    }
}

static const fai_entry *entry_of(const fa_module *m, const void *object)
{
    for (int i = 0; i < m->nentries; i++)
        if (m->entries[i].object == object && !m->entries[i].gone) return &m->entries[i];
    return NULL;
}

const fai_entry *fai_path_of(const fa_tensor *t, char *path, size_t n, fa_module **root, fa_module **owner)
{
    fa_module *m = t->owner;
    const fai_entry *own = m ? entry_of(m, t) : NULL, *chain[32];
    int depth = 0;
    *path = 0;
    if (!own) return NULL;
    *owner = m;
    for (const fai_entry *e; depth < 32 && m->parent && (e = entry_of(m->parent, m)); m = m->parent) chain[depth++] = e;
    *root = m;
    while (depth-- > 0 && strlen(path) + 110 < n) snprintf(path + strlen(path), n - strlen(path), "%s%s", *path ? "." : "", chain[depth]->name);
    return own;
}

static void tell_path(const fa_tensor *t, char *out, size_t n)
{
    char path[256], name[112] = "";
    fa_module *root, *owner;
    const fai_entry *e = fai_path_of(t, path, sizeof path, &root, &owner);
    *out = 0;
    if (!e) return;
    const char *type = fai_other_face.module_name ? fai_other_face.module_name(owner) : owner->type->name;
    if (!fai_other_face.root_name || !fai_other_face.root_name(root, name, sizeof name))
        snprintf(name, sizeof name, "%s", fai_other_face.module_name ? fai_other_face.module_name(root) : root->type->name);
    snprintf(out, n, "%s%s%s (%s), its %s %s", name, *path ? "." : "", path, type, e->kind == FAI_ENTRY_PARAMETER ? "parameter" : "buffer", e->name);
}

__attribute__((constructor)) static void set_up(void)
{
    fai_set_destructor(FAI_MODULE, destroy_module);
    fai_set_path_of(tell_path);
}

bool fai_module_init(fa_module *m, const fa_module_type *type, size_t data_bytes)
{
    m->object.kind = FAI_MODULE;
    m->type = type;
    m->training = true;
    if (data_bytes && !(m->data = fai_calloc(FAI_TAG_OBJECT, data_bytes))) return fai_fail_memory(type->name, data_bytes), false;
    m->data_bytes = data_bytes;
    fai_module_list(m);
    return true;
}

static fa_module *allocate(const char *name)
{
    if (fai_other_face.new_module) return fai_other_face.new_module(name);
    fa_module *m = fai_calloc(FAI_TAG_OBJECT, sizeof *m);
    if (!m) return fai_fail_memory(name, sizeof *m);
    fai_object_init(m, FAI_MODULE);
    return m;
}

fa_module *fai_module_make(const fa_module_type *type, size_t data_bytes)
{
    fa_module *m = allocate(type->name);
    if (!m) return NULL;
    if (!fai_module_init(m, type, data_bytes)) return fai_unref(m), NULL;
    return fai_scope_add(m, type->name) ? m : NULL;
}

fa_module *fa_module_new(const fa_module_type *type, void *data)
{
    if (!type || !type->name || !type->forward) return fai_fail(FA_ERR_TYPE, "module_new", "argument 'type' needs a name and a forward");
    fa_module *m = fai_module_make(type, 0);
    if (m) m->data = data;
    return m;
}

bool fai_module_check(const char *op, const fa_module *m)
{
    if (m) return true;
    if (!fa_failed()) fai_fail(FA_ERR_TYPE, op, "argument 'module' is NULL: a module is needed");
    return false;
}

void *fa_module_data(const fa_module *m) { return m ? m->data : NULL; }
const char *fa_module_name(const fa_module *m) { return m ? m->type->name : ""; }
bool fa_is_training(const fa_module *m) { return m && m->training; }

/* ---- registration ---- */

static uint32_t hash_name(const char *name, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash;
}

fai_entry *fai_find_entry(const fa_module *m, const char *name, size_t length)
{
    const uint32_t hash = hash_name(name, length);
    for (int i = 0; i < m->nentries; i++) {
        fai_entry *e = &m->entries[i];
        if (e->hash == hash && !e->gone && strncmp(e->name, name, length) == 0 && e->name[length] == 0) return e;
    }
    return NULL;
}

/* A layer reads its slots by number: one that was taken away waits there for another of its kind. */
static fai_entry *find_gone(const fa_module *m, const char *name, fai_entry_kind kind)
{
    for (int i = 0; i < m->nslots; i++) {
        fai_entry *e = &m->entries[i];
        if (e->gone && strcmp(e->name, name) == 0 && (e->kind == FAI_ENTRY_MODULE) == (kind == FAI_ENTRY_MODULE)) return e;
    }
    return NULL;
}

static bool check_name(const char *op, const char *kind, const char *name)
{
    if (!name) return fai_fail(FA_ERR_TYPE, op, "argument 'name' is NULL: a name is needed"), false;
    if (!*name) return fai_fail(FA_ERR_KEY, op, "%s name can't be empty string \"\"", kind), false;
    if (strchr(name, '.')) return fai_fail(FA_ERR_KEY, op, "%s name can't contain \".\", got: %s", kind, name), false;
    if (strlen(name) > 100) return fai_fail(FA_ERR_VALUE, op, "%s name is %zu bytes long, at most 100 are allowed", kind, strlen(name)), false;
    return true;
}

static fai_entry *add_entry(fa_module *m, const char *op, const char *name)
{
    if (m->nentries == m->room) {
        int room = m->room ? m->room * 2 : 4;
        fai_entry *more = fai_realloc(FAI_TAG_OBJECT, m->entries, (size_t)m->room * sizeof *more, (size_t)room * sizeof *more);
        if (!more) return fai_fail_memory(op, (size_t)room * sizeof *more);
        m->entries = more, m->room = room;
    }
    char *copy = fai_alloc(FAI_TAG_TEXT, strlen(name) + 1);
    if (!copy) return fai_fail_memory(op, strlen(name) + 1);
    fai_entry *e = &m->entries[m->nentries++];
    *e = (fai_entry){.name = strcpy(copy, name), .hash = hash_name(name, strlen(name))};
    return e;
}

bool fai_module_set(fa_module *m, const char *op, const char *name, fai_entry_kind kind, bool persistent, void *object)
{
    fai_entry *e = fai_find_entry(m, name, strlen(name));
    if (!e && (e = find_gone(m, name, kind))) e->gone = false;
    if (!e && !(e = add_entry(m, op, name))) return false;
    void *old = e->object;
    fai_module_disown(m, e);
    e->kind = kind;
    e->persistent = persistent;
    e->object = fai_ref(object);
    adopt(m, e);
    const bool fine = !m->object.type || fai_other_face.entry_set(m, name, object, kind == FAI_ENTRY_PARAMETER);
    fai_unref(old); /* last: it may be the end of much, in Python of what calls back */
    return fine;
}

void fai_module_unset(fa_module *m, fai_entry *e)
{
    void *old = e->object;
    const int at = (int)(e - m->entries);
    fai_module_disown(m, e);
    e->object = NULL;
    if (at < m->nslots) e->gone = true;
    else {
        fai_free(FAI_TAG_TEXT, e->name, strlen(e->name) + 1);
        memmove(e, e + 1, (size_t)(m->nentries - at - 1) * sizeof *e);
        m->nentries--;
    }
    fai_unref(old);
}

static bool set_entry(fa_module *m, const char *op, const char *name, fai_entry_kind kind, bool persistent, void *object)
{
    static const char *const kinds[] = {"parameter", "buffer", "module"};
    if (!fai_module_check(op, m) || !check_name(op, kinds[kind], name)) return false;
    const fai_entry *e = fai_find_entry(m, name, strlen(name));
    if (e && e->kind != kind) return fai_fail(FA_ERR_KEY, op, "attribute '%s' already exists, as a %s", name, kinds[e->kind]), false;
    return fai_module_set(m, op, name, kind, persistent, object);
}

bool fa_add_parameter(fa_module *m, const char *name, fa_tensor *t)
{
    if (fai_refuse_pending("add_parameter")) return false;
    if (t && t->node) return fai_fail(FA_ERR_VALUE, "add_parameter", "Cannot assign non-leaf Tensor to parameter '%s'. Detach it first: fa_detach(t).", name ? name : ""), false;
    if (t && fai_is_float(t->dtype) && !fa_requires_grad(t, true)) return false;
    if (!set_entry(m, "add_parameter", name, FAI_ENTRY_PARAMETER, true, t)) return false;
    if (t) t->object.flags |= FAI_PARAMETER;
    return true;
}

bool fa_add_buffer(fa_module *m, const char *name, fa_tensor *t, bool persistent)
{
    return !fai_refuse_pending("add_buffer") && set_entry(m, "add_buffer", name, FAI_ENTRY_BUFFER, persistent, t);
}

/* A module inside itself would never end. */
static bool contains(const fa_module *m, const fa_module *wanted)
{
    if (m == wanted) return true;
    for (int i = 0; i < m->nentries; i++)
        if (m->entries[i].kind == FAI_ENTRY_MODULE && m->entries[i].object && contains(m->entries[i].object, wanted)) return true;
    return false;
}

bool fa_add_module(fa_module *m, const char *name, fa_module *child)
{
    if (fai_refuse_pending("add_module") || !fai_module_check("add_module", m)) return false;
    if (child && contains(child, m)) return fai_fail(FA_ERR_VALUE, "add_module", "module '%s' would contain itself", name ? name : ""), false;
    return set_entry(m, "add_module", name, FAI_ENTRY_MODULE, true, child);
}

/* ---- finding ---- */

int fa_child_count(const fa_module *m)
{
    int n = 0;
    for (int i = 0; m && i < m->nentries; i++) n += m->entries[i].kind == FAI_ENTRY_MODULE && m->entries[i].object;
    return n;
}

fa_module *fa_child(fa_module *m, int at)
{
    if (!fai_module_check("child", m)) return NULL;
    int n = fa_child_count(m), wanted = at < 0 ? at + n : at;
    for (int i = 0; i < m->nentries; i++)
        if (m->entries[i].kind == FAI_ENTRY_MODULE && m->entries[i].object && wanted-- == 0) return m->entries[i].object;
    return fai_fail(FA_ERR_INDEX, "child", "index %d is out of range: %s has %d children", at, m->type->name, n);
}

static fai_entry *follow(fa_module *m, const char *op, const char *path)
{
    char have[400] = "";
    for (const char *at = path;;) {
        size_t length = strcspn(at, ".");
        fai_entry *e = fai_find_entry(m, at, length);
        if (e && !at[length]) return e;
        if (!e || e->kind != FAI_ENTRY_MODULE || !e->object) {
            for (int i = 0; i < m->nentries && strlen(have) < 280; i++) snprintf(have + strlen(have), sizeof have - strlen(have), " %s", m->entries[i].name);
            return fai_fail(FA_ERR_ATTRIBUTE, op, "%s has no attribute `%.*s` (path %.120s). It has:%s", m->type->name, (int)length, at, path, *have ? have : " nothing");
        }
        m = e->object;
        at += length + 1;
    }
}

static bool check_path(const char *op, const char *path)
{
    return path || fai_fail(FA_ERR_TYPE, op, "argument 'path' is NULL: a path is needed, such as \"0.weight\"");
}

fa_tensor *fa_get_parameter(fa_module *m, const char *path)
{
    if (!fai_module_check("get_parameter", m) || !check_path("get_parameter", path)) return NULL;
    fai_entry *e = follow(m, "get_parameter", path);
    if (!e) return NULL;
    if (e->kind == FAI_ENTRY_MODULE) return fai_fail(FA_ERR_ATTRIBUTE, "get_parameter", "`%s` is a module, not a parameter or buffer", path);
    return e->object ? e->object : fai_fail(FA_ERR_ATTRIBUTE, "get_parameter", "`%s` is empty: the layer was made without it", path);
}

fa_module *fa_get_module(fa_module *m, const char *path)
{
    if (!fai_module_check("get_module", m) || !check_path("get_module", path)) return NULL;
    if (!*path) return m;
    fai_entry *e = follow(m, "get_module", path);
    if (!e) return NULL;
    return e->kind == FAI_ENTRY_MODULE ? e->object : fai_fail(FA_ERR_ATTRIBUTE, "get_module", "`%s` is a tensor, not a module", path);
}

/* ---- walking ---- */

static bool walk_below(fa_module *m, char *path, size_t length, fai_visit *visit, void *context)
{
    for (int pass = 0; pass < 3; pass++) /* torch's order: own parameters, own buffers, then children */
        for (int i = 0; i < m->nentries; i++) {
            fai_entry *e = &m->entries[i];
            if ((int)e->kind != pass) continue;
            int more = snprintf(path + length, sizeof(fa_path) - length, "%s%s", length ? "." : "", e->name);
            size_t end = length + (size_t)more < sizeof(fa_path) ? length + (size_t)more : sizeof(fa_path) - 1;
            bool ok = e->kind == FAI_ENTRY_MODULE ? !e->object || walk_below(e->object, path, end, visit, context) : visit(context, path, m, e);
            path[length] = 0;
            if (!ok) return false;
        }
    return true;
}

bool fai_walk(fa_module *m, fai_visit *visit, void *context)
{
    fa_path path = "";
    return walk_below(m, path, 0, visit, context);
}

typedef struct listing { fai_entry_kind kind; fa_tensor **out; fa_path *names; int room, count; bool own; } listing;

static bool list_one(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    listing *l = context;
    (void)owner;
    if (entry->kind != l->kind || !entry->object) return true;
    for (int i = 0; i < l->count && i < l->room; i++)
        if (l->out[i] == entry->object) return true;
    if (l->count < l->room) {
        l->out[l->count] = entry->object;
        if (l->names) snprintf(l->names[l->count], sizeof(fa_path), "%s", path);
    }
    l->count++;
    return true;
}

int fai_list_tensors(fa_module *m, fai_entry_kind kind, fa_tensor **out, fa_path *names, int room)
{
    listing l = {.kind = kind, .out = out, .names = names, .room = out ? room : 0};
    if (m) fai_walk(m, list_one, &l);
    return l.count;
}

int fa_parameters(fa_module *m, fa_tensor **parameters, fa_path *names, int room)
{
    return fai_module_check("parameters", m) ? fai_list_tensors(m, FAI_ENTRY_PARAMETER, parameters, names, room) : 0;
}

int fa_buffers(fa_module *m, fa_tensor **buffers, fa_path *names, int room)
{
    return fai_module_check("buffers", m) ? fai_list_tensors(m, FAI_ENTRY_BUFFER, buffers, names, room) : 0;
}

static bool add_numel(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    (void)path, (void)owner;
    if (entry->kind == FAI_ENTRY_PARAMETER && entry->object) *(int64_t *)context += ((fa_tensor *)entry->object)->numel;
    return true;
}

int64_t fa_parameter_numel(fa_module *m)
{
    int64_t n = 0;
    if (m) fai_walk(m, add_numel, &n);
    return n;
}

static bool forget_grad(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    (void)context, (void)path, (void)owner;
    if (entry->kind == FAI_ENTRY_PARAMETER && entry->object) fa_set_grad(entry->object, NULL);
    return true;
}

void fa_zero_grad_of(fa_module *m)
{
    if (m && !fai_refuse_pending("zero_grad")) fai_walk(m, forget_grad, NULL);
}

fa_module *fa_train(fa_module *m, bool on)
{
    if (!fai_module_check("train", m)) return NULL;
    fai_module_mode(m, on);
    for (int i = 0; i < m->nentries; i++)
        if (m->entries[i].kind == FAI_ENTRY_MODULE && m->entries[i].object) fa_train(m->entries[i].object, on);
    return m;
}

static bool first_device(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    (void)path, (void)owner;
    if (entry->object) *(fa_device *)context = ((fa_tensor *)entry->object)->device;
    return !entry->object;
}

fa_device fa_module_device(const fa_module *m)
{
    fa_device device = FA_CPU;
    if (m) fai_walk((fa_module *)(uintptr_t)m, first_device, &device);
    return device;
}

/* ---- calling ---- */

static bool is_parameter(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    (void)path, (void)owner;
    *(bool *)context |= entry->kind == FAI_ENTRY_PARAMETER && entry->object && fa_is_requires_grad(entry->object);
    return !*(bool *)context;
}

void fai_module_rows(fa_module *m, const fa_tensor *x)
{
    bool learns = false;
    fai_walk(m, is_parameter, &learns);
    if (!learns) return;
    uint64_t what = fai_hash(&m->serial, sizeof m->serial, x->dtype);
    what = fai_hash(x->size + 1, (size_t)(x->ndim - 1) * sizeof *x->size, what);
    fai_memory_rows(x->device, x->size[0], what);
}

fa_tensor *fa_call_with(fa_module *m, fa_tensor *const *inputs, int ninputs)
{
    if (!fai_module_check("call", m)) return NULL;
    FA_SCOPE;
    fai_note_call(m, ninputs > 0 ? inputs[0] : NULL);
    fai_ref(m); /* a forward may drop its own module's last other owner */
    fa_tensor *result = fai_is_plain(m) ? m->type->forward(m, inputs, ninputs) : fai_other_face.call(m, (void *const *)inputs, ninputs);
    if (!result && !fa_failed()) fai_fail(FA_ERR_FOREIGN, m->type->name, "forward returned NULL without an error");
    fai_unref(m);
    return fai_return(result);
}

/* ---- moving: new memory for all first, then the swap, so that an error leaves the module whole ---- */

typedef struct move { fa_device device; fa_dtype dtype; fa_tensor **from, **to; int count, room; } move;

static bool prepare(move *mv, fa_tensor *t)
{
    for (int i = 0; i < mv->count; i++)
        if (mv->from[i] == t) return true;
    fa_dtype dtype = mv->dtype && fai_is_float(t->dtype) ? mv->dtype : (fa_dtype)t->dtype;
    fa_device device = mv->device.type ? mv->device : t->device;
    if (dtype == (fa_dtype)t->dtype && fa_device_equal(device, t->device)) return true;
    fa_tensor *new = fai_empty("to", dtype, device, t->ndim, t->size);
    if (!new || !fai_copy("to", new, t)) return false;
    mv->from[mv->count] = t;
    mv->to[mv->count++] = new;
    return true;
}

static bool prepare_entry(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    fa_tensor *t = entry->object;
    (void)path, (void)owner;
    return !t || (prepare(context, t) && (!t->grad || prepare(context, t->grad)));
}

static bool count_entry(void *context, const char *path, fa_module *owner, fai_entry *entry)
{
    (void)path, (void)owner;
    *(int *)context += entry->object ? 2 : 0;
    return true;
}

static bool move_module(fa_module *m, move *mv)
{
    FA_SCOPE;
    FA_NO_GRAD;
    fai_walk(m, count_entry, &mv->room);
    const size_t bytes = (size_t)mv->room * sizeof *mv->from;
    mv->from = fai_alloc(FAI_TAG_OBJECT, bytes), mv->to = fai_alloc(FAI_TAG_OBJECT, bytes);
    bool ok = mv->room == 0 || (mv->from && mv->to);
    if (!ok) fai_fail_memory("to", bytes);
    ok = ok && fai_walk(m, prepare_entry, mv);
    for (int i = 0; ok && i < mv->count; i++) fai_set_memory(mv->from[i], mv->to[i]);
    fai_free(FAI_TAG_OBJECT, mv->from, mv->from ? bytes : 0);
    fai_free(FAI_TAG_OBJECT, mv->to, mv->to ? bytes : 0);
    return ok;
}

bool fa_module_to(fa_module *m, fa_device device)
{
    if (fai_refuse_pending("to") || !fai_module_check("to", m) || !fai_device_resolve(&device, "to")) return false;
    return move_module(m, &(move){.device = device});
}

bool fa_module_to_dtype(fa_module *m, fa_dtype dtype)
{
    if (fai_refuse_pending("to") || !fai_module_check("to", m)) return false;
    if (!fa_dtype_is_floating(dtype))
        return fai_fail(FA_ERR_TYPE, "to", "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.%s", fa_dtype_name(dtype)), false;
    return move_module(m, &(move){.dtype = dtype});
}
