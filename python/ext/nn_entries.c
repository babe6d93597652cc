/* A module's registry seen from Python: _parameters, _buffers and _modules as live mappings, and walks over a whole net, which take
 * no recursion: a net may be deep, and may contain itself. */
#include "nn.h"

/* ---- mappings ---- */

typedef struct entries_object {
    PyObject_HEAD PyObject *module;
    fai_entry_kind kind;
} entries_object;
#define E(o) ((entries_object *)(o))

PyObject *fapy_entries_new(PyObject *module, fai_entry_kind kind) {
    PyObject *class = fapy_layer_class("_Entries");
    if (!class) return PyErr_SetString(PyExc_RuntimeError, "facula.nn is not imported"), NULL;
    PyObject *o = ((PyTypeObject *)class)->tp_alloc((PyTypeObject *)class, 0);
    if (o) E(o)->module = Py_NewRef(module), E(o)->kind = kind;
    return o;
}

static bool is_here(const fai_entry *e, fai_entry_kind kind) { return e->kind == kind && !e->gone; }

static Py_ssize_t entries_length(PyObject *self) {
    const fa_module *m = M(E(self)->module);
    Py_ssize_t n = 0;
    for (int i = 0; i < m->nentries; i++) n += is_here(&m->entries[i], E(self)->kind);
    return n;
}

static fai_entry *find(PyObject *self, PyObject *name) {
    fai_entry *e = fapy_entry(M(E(self)->module), name);
    return e && e->kind == E(self)->kind ? e : NULL;
}

/* KeyError(name): a tuple as it is would be taken for the error's arguments. */
static void no_key(PyObject *name) {
    PyObject *error = PyObject_CallOneArg(PyExc_KeyError, name);
    if (error) PyErr_SetObject(PyExc_KeyError, error);
    Py_XDECREF(error);
}

static PyObject *entries_get(PyObject *self, PyObject *name) {
    const fai_entry *e = find(self, name);
    if (!e) return no_key(name), NULL;
    return Py_NewRef(e->object ? (PyObject *)e->object : Py_None);
}

/* As torch's dicts, this asks less than setattr: what is no Parameter may stand among parameters (a tensor of another kind). */
static int entries_set(PyObject *self, PyObject *name, PyObject *value) {
    const fai_entry_kind kind = E(self)->kind;
    const fai_entry *e = find(self, name);
    if (!value) {
        if (!e) return no_key(name), -1;
        return fapy_unset_entry(E(self)->module, name) ? 0 : -1;
    }
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "a module's names are str, not %s", Py_TYPE(name)->tp_name), -1;
    const bool fits = Py_IsNone(value) || (kind == FAI_ENTRY_MODULE ? fapy_module_check(value) : fapy_tensor_check(value));
    if (!fits)
        return PyErr_Format(PyExc_TypeError, "'%U' can't be a %s: a %s or None is needed", name, Py_TYPE(value)->tp_name,
                            kind == FAI_ENTRY_MODULE ? "Module" : "Tensor"),
               -1;
    return fapy_set_entry(E(self)->module, name, kind, e ? e->persistent : true, value) ? 0 : -1;
}

static int entries_contains(PyObject *self, PyObject *name) { return find(self, name) != NULL; }

static PyObject *entries_list(PyObject *self, bool names, bool values) {
    const fa_module *m = M(E(self)->module);
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < m->nentries; i++) {
        const fai_entry *e = &m->entries[i];
        if (!is_here(e, E(self)->kind)) continue;
        PyObject *value = e->object ? e->object : Py_None, *item;
        if (!names)
            item = Py_NewRef(value);
        else
            item = values ? Py_BuildValue("(sO)", e->name, value) : PyUnicode_FromString(e->name);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *entries_keys(PyObject *self, PyObject *unused) {
    (void)unused;
    return entries_list(self, true, false);
}
static PyObject *entries_values(PyObject *self, PyObject *unused) {
    (void)unused;
    return entries_list(self, false, true);
}
static PyObject *entries_items(PyObject *self, PyObject *unused) {
    (void)unused;
    return entries_list(self, true, true);
}
static PyObject *entries_iter(PyObject *self) {
    PyObject *list = entries_list(self, true, false), *iterator = list ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

static int entries_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(E(self)->module);
    return 0;
}
static int entries_clear(PyObject *self) {
    Py_CLEAR(E(self)->module);
    return 0;
}
static void entries_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    entries_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PySequenceMethods entries_sequence = {.sq_contains = entries_contains};
static PyMappingMethods entries_mapping = {
    .mp_length = entries_length, .mp_subscript = entries_get, .mp_ass_subscript = entries_set};
static PyMethodDef entries_methods[] = {{"keys", entries_keys, METH_NOARGS, "keys()\n--\n\nThe names, in order."},
                                        {"values", entries_values, METH_NOARGS, "values()\n--\n\nThe objects, in order."},
                                        {"items", entries_items, METH_NOARGS, "items()\n--\n\nNames and objects, in order."},
                                        {0}};
PyTypeObject fapy_Entries = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._EntriesBase",
                             .tp_basicsize = sizeof(entries_object),
                             .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                                         Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .tp_dealloc = entries_dealloc,
                             .tp_traverse = entries_traverse,
                             .tp_clear = entries_clear,
                             .tp_iter = entries_iter,
                             .tp_as_sequence = &entries_sequence,
                             .tp_as_mapping = &entries_mapping,
                             .tp_methods = entries_methods,
                             .tp_doc = "Entries of a module of one kind, by name; a live view."};

/* ---- walks: modules in torch's order, each before its children, or their tensors ---- */

typedef struct level {
    PyObject *module;
    PyObject *prefix;
    int at;
} level; /* prefix: of its entries, "" or "a.b." */
typedef enum walk_kind { WALK_MODULES, WALK_PARAMETERS, WALK_BUFFERS } walk_kind;
typedef struct walk_object {
    PyObject_HEAD level *levels;
    int nlevels, room;
    PyObject *seen_modules, *seen; /* sets of addresses; seen: of tensors, or NULL */
    walk_kind kind;
    bool names, recurse, fresh; /* fresh: the last level's module itself has not been given */
} walk_object;
#define W(o) ((walk_object *)(o))

/* True if it was new; -1: exception. */
static int add_to(PyObject *set, void *object) {
    if (!set) return 1;
    PyObject *address = PyLong_FromVoidPtr(object);
    const int in = address ? PySet_Contains(set, address) : -1;
    const int result = in < 0 || (in == 0 && PySet_Add(set, address)) ? -1 : !in;
    Py_XDECREF(address);
    return result;
}

/* prefix: without its dot; may be NULL where no names are wanted. Takes prefix's reference. */
static bool push(walk_object *w, PyObject *module, PyObject *prefix) {
    if (w->nlevels == w->room) {
        const int room = w->room ? w->room * 2 : 8;
        level *more = PyMem_Realloc(w->levels, (size_t)room * sizeof *more);
        if (!more) return Py_XDECREF(prefix), PyErr_NoMemory(), false;
        w->levels = more, w->room = room;
    }
    w->levels[w->nlevels++] = (level){Py_NewRef(module), prefix, 0};
    w->fresh = true;
    return true;
}

static void pop(walk_object *w) {
    level gone = w->levels[--w->nlevels];
    Py_DECREF(gone.module), Py_XDECREF(gone.prefix);
}

static PyObject *join(PyObject *prefix, const char *name) {
    return PyUnicode_GET_LENGTH(prefix) ? PyUnicode_FromFormat("%U.%s", prefix, name) : PyUnicode_FromString(name);
}

static PyObject *give(walk_object *w, PyObject *prefix, const char *name, PyObject *object) {
    if (!w->names) return Py_NewRef(object);
    PyObject *path = name ? join(prefix, name) : Py_NewRef(prefix), *pair = path ? PyTuple_Pack(2, path, object) : NULL;
    Py_XDECREF(path);
    return pair;
}

/* The next own tensor of the last level's module, NULL: no more (or an exception). */
static PyObject *next_tensor(walk_object *w) {
    level *top = &w->levels[w->nlevels - 1];
    const fai_entry_kind wanted = w->kind == WALK_PARAMETERS ? FAI_ENTRY_PARAMETER : FAI_ENTRY_BUFFER;
    const fa_module *m = M(top->module);
    while (top->at < m->nentries) {
        const fai_entry *e = &m->entries[top->at++];
        if (e->kind != wanted || !e->object) continue;
        const int new = add_to(w->seen, e->object);
        if (new < 0) return NULL;
        if (new) return give(w, top->prefix, e->name, e->object);
    }
    top->at = 0;
    w->fresh = false;
    return NULL;
}

/* Goes to the next module: a child of the last level, or of one above. False: none is left, or an exception. */
static bool advance(walk_object *w) {
    while (w->nlevels) {
        level *top = &w->levels[w->nlevels - 1];
        const fa_module *m = M(top->module);
        while (w->recurse && top->at < m->nentries) {
            const fai_entry *e = &m->entries[top->at++];
            if (e->kind != FAI_ENTRY_MODULE || !e->object) continue;
            const int new = add_to(w->seen_modules, e->object);
            if (new < 0) return false;
            if (!new) continue;
            PyObject *prefix = w->names ? join(top->prefix, e->name) : NULL;
            return (prefix || !w->names) && push(w, e->object, prefix);
        }
        pop(w);
    }
    return false;
}

static PyObject *walk_next(PyObject *self) {
    walk_object *w = W(self);
    while (w->nlevels) {
        const level *top = &w->levels[w->nlevels - 1];
        if (w->fresh && w->kind == WALK_MODULES) {
            w->fresh = false;
            return give(w, top->prefix, NULL, top->module);
        }
        PyObject *item = w->fresh ? next_tensor(w) : NULL;
        if (item || PyErr_Occurred()) return item;
        if (!w->fresh && !advance(w)) return NULL;
    }
    return NULL;
}

static int walk_traverse(PyObject *self, visitproc visit, void *arg) {
    for (int i = 0; i < W(self)->nlevels; i++) Py_VISIT(W(self)->levels[i].module);
    return 0;
}

static int walk_clear(PyObject *self) {
    while (W(self)->nlevels) pop(W(self));
    Py_CLEAR(W(self)->seen);
    Py_CLEAR(W(self)->seen_modules);
    return 0;
}

static void walk_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    walk_clear(self);
    PyMem_Free(W(self)->levels);
    PyObject_GC_Del(self);
}

PyTypeObject fapy_Walk = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._Walk",
                          .tp_basicsize = sizeof(walk_object),
                          .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .tp_dealloc = walk_dealloc,
                          .tp_traverse = walk_traverse,
                          .tp_clear = walk_clear,
                          .tp_iter = PyObject_SelfIter,
                          .tp_iternext = walk_next,
                          .tp_doc = "The modules of a net, or their tensors, one after the other."};

static walk_object *walk_new(PyObject *module, walk_kind kind, PyObject *prefix, bool recurse, bool once, PyObject *memo) {
    if (!M(module)->type)
        return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '_modules': Module.__init__() was not called",
                            Py_TYPE(module)->tp_name),
               NULL;
    walk_object *w = PyObject_GC_New(walk_object, &fapy_Walk);
    if (!w) return NULL;
    w->levels = NULL, w->nlevels = w->room = 0, w->kind = kind, w->names = prefix != NULL, w->recurse = recurse;
    w->seen = once && kind != WALK_MODULES ? PySet_New(NULL) : NULL;
    w->seen_modules = memo ? Py_NewRef(memo) : once ? PySet_New(NULL) : NULL;
    PyObject_GC_Track(w);
    if (PyErr_Occurred() || add_to(w->seen_modules, module) < 0 || !push(w, module, Py_XNewRef(prefix))) Py_CLEAR(w);
    return w;
}

/* ---- the methods ---- */

static PyObject *named(PyObject *self, PyObject *args, PyObject *keywords, walk_kind kind, bool names) {
    static char *all[] = {"prefix", "recurse", "remove_duplicate", NULL}, *one[] = {"recurse", NULL};
    PyObject *prefix = NULL;
    int recurse = 1, once = 1;
    if (!names && !PyArg_ParseTupleAndKeywords(args, keywords, "|p", one, &recurse)) return NULL;
    if (names && !PyArg_ParseTupleAndKeywords(args, keywords, "|Upp", all, &prefix, &recurse, &once)) return NULL;
    PyObject *path = names ? prefix ? Py_NewRef(prefix) : PyUnicode_FromString("") : NULL;
    PyObject *walk = names && !path ? NULL : (PyObject *)walk_new(self, kind, path, recurse, once, NULL);
    Py_XDECREF(path);
    return walk;
}

static PyObject *parameters(PyObject *self, PyObject *args, PyObject *keywords) {
    return named(self, args, keywords, WALK_PARAMETERS, false);
}
static PyObject *named_parameters(PyObject *self, PyObject *args, PyObject *keywords) {
    return named(self, args, keywords, WALK_PARAMETERS, true);
}
static PyObject *buffers(PyObject *self, PyObject *args, PyObject *keywords) {
    return named(self, args, keywords, WALK_BUFFERS, false);
}
static PyObject *named_buffers(PyObject *self, PyObject *args, PyObject *keywords) {
    return named(self, args, keywords, WALK_BUFFERS, true);
}
static PyObject *modules(PyObject *self, PyObject *unused) {
    (void)unused;
    return (PyObject *)walk_new(self, WALK_MODULES, NULL, true, true, NULL);
}

static PyObject *named_modules(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"memo", "prefix", "remove_duplicate", NULL};
    PyObject *memo = NULL, *prefix = NULL;
    int once = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OUp", names, &memo, &prefix, &once)) return NULL;
    PyObject *path = prefix ? Py_NewRef(prefix) : PyUnicode_FromString("");
    PyObject *walk = path ? (PyObject *)walk_new(self, WALK_MODULES, path, true, once, NULL) : NULL;
    Py_XDECREF(path);
    return walk;
}

static PyObject *children_list(PyObject *self, bool names) {
    fa_module *m = M(self);
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < m->nentries; i++) {
        const fai_entry *e = &m->entries[i];
        bool before = e->kind != FAI_ENTRY_MODULE || !e->object;
        for (int k = 0; !before && k < i; k++) before = m->entries[k].object == e->object;
        if (before) continue;
        PyObject *item = names ? Py_BuildValue("(sO)", e->name, e->object) : Py_NewRef(e->object);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    PyObject *iterator = list ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

static PyObject *children(PyObject *self, PyObject *unused) {
    (void)unused;
    return children_list(self, false);
}
static PyObject *named_children(PyObject *self, PyObject *unused) {
    (void)unused;
    return children_list(self, true);
}

/* What each module of a net is told; a net that is wide or deep costs no stack. */
typedef bool each(PyObject *module, void *context);
static bool for_all(PyObject *self, each *tell, void *context) {
    walk_object *w = walk_new(self, WALK_MODULES, NULL, true, true, NULL);
    PyObject *module = NULL;
    bool fine = w != NULL;
    while (fine && (module = walk_next((PyObject *)w))) {
        fine = tell(module, context);
        Py_DECREF(module);
    }
    Py_XDECREF(w);
    return fine && !PyErr_Occurred();
}

static PyObject *str_train, *own_train;

/* A class below may have a train of its own: then it is asked, as torch's train asks each child. */
static bool train_tree(PyObject *self, bool on) {
    fa_module *m = M(self);
    fai_module_mode(m, on);
    for (int i = 0; i < m->nentries; i++) {
        PyObject *child = m->entries[i].object, *done = NULL;
        if (m->entries[i].kind != FAI_ENTRY_MODULE || !child) continue;
        if (Py_EnterRecursiveCall(" in train()")) return false;
        Py_INCREF(child);
        bool fine;
        if (_PyType_Lookup(Py_TYPE(child), str_train) == own_train)
            fine = train_tree(child, on);
        else
            fine = (done = PyObject_CallMethodOneArg(child, str_train, on ? Py_True : Py_False)) != NULL;
        Py_XDECREF(done);
        Py_DECREF(child);
        Py_LeaveRecursiveCall();
        if (!fine) return false;
    }
    return true;
}

static PyObject *train(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"mode", NULL};
    PyObject *mode = Py_True;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:train", names, &mode)) return NULL;
    if (!PyBool_Check(mode)) return PyErr_SetString(PyExc_ValueError, "training mode is expected to be boolean"), NULL;
    if (!str_train && !(str_train = PyUnicode_InternFromString("train"))) return NULL;
    own_train = PyDict_GetItem(fapy_ModuleBase.tp_dict, str_train);
    return train_tree(self, mode == Py_True) ? Py_NewRef(self) : NULL;
}

static PyObject *eval(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *done = PyObject_CallMethod(self, "train", "O", Py_False);
    return done;
}

static bool zero_own(PyObject *module, void *to_none) {
    const fa_module *m = M(module);
    for (int i = 0; i < m->nentries; i++) {
        fa_tensor *t = m->entries[i].object;
        if (m->entries[i].kind != FAI_ENTRY_PARAMETER || !t || !t->grad) continue;
        if (*(bool *)to_none ? !fa_set_grad(t, NULL)
                             : (fa_detach_(t->grad), !fa_requires_grad(t->grad, false) || !fa_zero_(t->grad)))
            return fapy_raise(), false;
    }
    return true;
}

static PyObject *zero_grad(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"set_to_none", NULL};
    int given = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p:zero_grad", names, &given)) return NULL;
    bool to_none = given;
    const uint32_t mark = FAPY_MARK;
    const bool fine = for_all(self, zero_own, &to_none);
    fapy_sweep(mark);
    if (!fine) return NULL;
    Py_RETURN_NONE;
}

/* Its own part of a state dict: parameters, then buffers that are kept. */
static PyObject *save_own(PyObject *self, PyObject *args) {
    static const fai_entry_kind order[] = {FAI_ENTRY_PARAMETER, FAI_ENTRY_BUFFER};
    PyObject *into, *prefix;
    int keep_vars;
    if (!PyArg_ParseTuple(args, "OUp", &into, &prefix, &keep_vars)) return NULL;
    fa_module *m = M(self);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < m->nentries; i++) {
            const fai_entry *e = &m->entries[i];
            if (e->kind != order[pass] || !e->object || !e->persistent) continue;
            const uint32_t mark = FAPY_MARK;
            PyObject *name = PyUnicode_FromFormat("%U%s", prefix, e->name), *value = NULL;
            if (name) value = keep_vars ? Py_NewRef((PyObject *)e->object) : fapy_take(fa_detach(e->object), mark);
            const int failed = !value || PyObject_SetItem(into, name, value);
            Py_XDECREF(name), Py_XDECREF(value);
            if (failed) return NULL;
        }
    Py_RETURN_NONE;
}

#define WORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS
PyMethodDef fapy_walk_methods[] = {
    {"parameters", WORDS(parameters), "parameters(recurse=True)\n--\n\nAll parameters, each once."},
    {"named_parameters", WORDS(named_parameters),
     "named_parameters(prefix='', recurse=True, remove_duplicate=True)\n--\n\nAll parameters with their paths."},
    {"buffers", WORDS(buffers), "buffers(recurse=True)\n--\n\nAll buffers, each once."},
    {"named_buffers", WORDS(named_buffers),
     "named_buffers(prefix='', recurse=True, remove_duplicate=True)\n--\n\nAll buffers with their paths."},
    {"modules", modules, METH_NOARGS, "modules()\n--\n\nThis module and all below it, each once."},
    {"named_modules", WORDS(named_modules),
     "named_modules(memo=None, prefix='', remove_duplicate=True)\n--\n\nThis module and all below it with their paths."},
    {"children", children, METH_NOARGS, "children()\n--\n\nThe modules directly below it."},
    {"named_children", named_children, METH_NOARGS, "named_children()\n--\n\nThe modules directly below it with their names."},
    {"train", WORDS(train), "train(mode=True)\n--\n\nTraining mode for all of it; returns the module."},
    {"eval", eval, METH_NOARGS, "eval()\n--\n\nEvaluation mode for all of it; returns the module."},
    {"_save_own", save_own, METH_VARARGS, NULL},
    {"zero_grad", WORDS(zero_grad), "zero_grad(set_to_none=True)\n--\n\nForgets the gradients of all parameters."},
    {0}};
