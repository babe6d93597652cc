/* The type of modules: birth and end, attributes and their rules, registration. What is Python by nature (hooks, state dicts,
 * printing) stands in facula/nn/modules/module.py, whose class Module derives from this type. */
#include "nn.h"

static PyObject *str_forward, *str_getattr, *no_arguments;

/* ---- names ---- */

PyObject *fapy_typename(PyObject *o) {
    if (fapy_tensor_check(o)) return PyObject_CallMethod(o, "type", NULL);
    PyTypeObject *type = PyType_Check(o) ? (PyTypeObject *)o : Py_TYPE(o);
    PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__"),
             *name = PyObject_GetAttrString((PyObject *)type, "__qualname__");
    PyObject *text = NULL;
    if (name && (!module || !PyUnicode_Check(module) || PyUnicode_CompareWithASCIIString(module, "builtins") == 0))
        text = Py_NewRef(name);
    else if (name)
        text = PyUnicode_FromFormat("%U.%U", module, name);
    Py_XDECREF(module), Py_XDECREF(name);
    return text;
}

/* A format whose first %U is what was found. */
static void refuse(PyObject *class, const char *format, PyObject *found, PyObject *name) {
    PyObject *type = fapy_typename(found);
    if (type) PyErr_Format(class, format, type, name);
    Py_XDECREF(type);
}

fai_entry *fapy_entry(fa_module *m, PyObject *name) {
    Py_ssize_t length;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &length) : NULL;
    if (!text) return PyErr_Clear(), NULL;
    return fai_find_entry(m, text, (size_t)length);
}

bool fapy_initialised(PyObject *module, const char *what) {
    if (M(module)->type) return true;
    PyErr_Format(PyExc_AttributeError, "cannot assign %s before Module.__init__() call", what);
    return false;
}

/* ---- entries: the registry, and the dict beside it ---- */

/* A property of that name is asked before the dict; then the dict stays without it. */
static bool mirror(PyObject *self, PyObject *name, PyObject *value) {
    const PyObject *descriptor = _PyType_Lookup(Py_TYPE(self), name);
    if (descriptor && Py_TYPE(descriptor)->tp_descr_set) return true;
    if (PyObject_GenericSetAttr(self, name, value) == 0) return true;
    if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    PyErr_Clear();
    return true;
}

static bool entry_set(void *module, const char *name, void *object, bool parameter) {
    PyObject *text = PyUnicode_InternFromString(name);
    if (parameter && object && Py_TYPE(object) == &fapy_Tensor) Py_SET_TYPE((PyObject *)object, &fapy_Parameter);
    const bool fine = text && mirror(module, text, object ? object : Py_None);
    Py_XDECREF(text);
    return fine || fapy_foreign();
}

bool fapy_set_entry(PyObject *module, PyObject *name, fai_entry_kind kind, bool persistent, PyObject *value) {
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (!text) return false;
    if (strlen(text) != (size_t)length)
        return PyErr_SetString(PyExc_ValueError, "a name in a module can't contain a null character"), false;
    fa_module *m = M(module);
    fai_entry *e = fai_find_entry(m, text, (size_t)length);
    const uint32_t mark = FAPY_MARK;
    if (e && (e->kind == FAI_ENTRY_MODULE) != (kind == FAI_ENTRY_MODULE)) fai_module_unset(m, e);
    if (!fai_module_set(m, "setattr", text, kind, persistent, Py_IsNone(value) ? NULL : value)) return fapy_raise(), false;
    if (kind == FAI_ENTRY_PARAMETER && !Py_IsNone(value)) ((fa_tensor *)value)->object.flags |= FAI_PARAMETER;
    fapy_sweep(mark);
    return true;
}

bool fapy_unset_entry(PyObject *module, PyObject *name) {
    fai_entry *e = fapy_entry(M(module), name);
    if (!e) return true;
    fai_module_unset(M(module), e);
    return mirror(module, name, NULL);
}

/* ---- registration: torch's checks in torch's order ---- */

static const char *const kind_names[] = {"parameter", "buffer", "module"};

static bool check_name(PyObject *self, PyObject *name, fai_entry_kind kind) {
    const char *what = kind_names[kind];
    if (!PyUnicode_Check(name)) {
        PyObject *type = fapy_typename(name);
        if (type) PyErr_Format(PyExc_TypeError, "%s name should be a string. Got %U", what, type);
        Py_XDECREF(type);
        return false;
    }
    const bool dotted = PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1) >= 0;
    if (dotted && kind == FAI_ENTRY_MODULE)
        return PyErr_Format(PyExc_KeyError, "module name can't contain \".\", got: %U", name), false;
    if (dotted) return PyErr_Format(PyExc_KeyError, "%s name can't contain \".\"", what), false;
    if (PyUnicode_GET_LENGTH(name) == 0) return PyErr_Format(PyExc_KeyError, "%s name can't be empty string \"\"", what), false;
    const fai_entry *e = fapy_entry(M(self), name);
    PyObject *there = e && e->kind == kind ? NULL : PyObject_GetAttr(self, name);
    if (!there) return PyErr_Clear(), true;
    Py_DECREF(there);
    return PyErr_Format(PyExc_KeyError, "attribute '%U' already exists", name), false;
}

static bool check_leaf(PyObject *value, PyObject *name) {
    if (fa_is_leaf((fa_tensor *)value)) return true;
    PyErr_Format(PyExc_ValueError,
                 "Cannot assign non-leaf Tensor to parameter '%U'. Model parameters must be created explicitly. To express '%U' "
                 "as a function of another Tensor, compute the value in the forward() method.",
                 name, name);
    return false;
}

static PyObject *register_parameter(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"name", "param", NULL};
    PyObject *name, *value;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:register_parameter", names, &name, &value)) return NULL;
    if (!fapy_initialised(self, "parameter") || !check_name(self, name, FAI_ENTRY_PARAMETER)) return NULL;
    if (!Py_IsNone(value) && !fapy_parameter_check(value))
        return refuse(PyExc_TypeError, "cannot assign '%U' object to parameter '%U' (torch.nn.Parameter or None required)", value,
                      name),
               NULL;
    if (!Py_IsNone(value) && !check_leaf(value, name)) return NULL;
    if (!fapy_set_entry(self, name, FAI_ENTRY_PARAMETER, true, value)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *register_buffer(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"name", "tensor", "persistent", NULL};
    PyObject *name, *value;
    int persistent = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|p:register_buffer", names, &name, &value, &persistent)) return NULL;
    if (!fapy_initialised(self, "buffer") || !check_name(self, name, FAI_ENTRY_BUFFER)) return NULL;
    if (!Py_IsNone(value) && !fapy_tensor_check(value))
        return refuse(PyExc_TypeError, "cannot assign '%U' object to buffer '%U' (torch Tensor or None required)", value, name),
               NULL;
    if (!fapy_set_entry(self, name, FAI_ENTRY_BUFFER, persistent, value)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *add_module(PyObject *self, PyObject *args, PyObject *keywords) {
    static char *names[] = {"name", "module", NULL};
    PyObject *name, *value;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:add_module", names, &name, &value)) return NULL;
    if (!Py_IsNone(value) && !fapy_module_check(value))
        return refuse(PyExc_TypeError, "%U is not a Module subclass", value, name), NULL;
    if (!fapy_initialised(self, "module") || !check_name(self, name, FAI_ENTRY_MODULE)) return NULL;
    if (!fapy_set_entry(self, name, FAI_ENTRY_MODULE, true, value)) return NULL;
    Py_RETURN_NONE;
}

/* ---- attributes ---- */

/* nn.Buffer(tensor): a tensor that carries _is_buffer. */
static bool is_buffer(PyObject *value, bool *persistent) {
    if (!fapy_tensor_check(value) || !((fa_tensor *)value)->attributes) return false;
    PyObject *attributes = ((fa_tensor *)value)->attributes;
    if (!PyDict_GetItemString(attributes, "_is_buffer")) return false;
    PyObject *kept = PyDict_GetItemString(attributes, "persistent");
    *persistent = kept != Py_False;
    return true;
}

static int set_plain(PyObject *self, PyObject *name, PyObject *value) {
    if (M(self)->layer && fapy_layer_attribute(self, name, value)) return -1;
    if (name == str_forward) M(self)->own_forward = value != NULL;
    return PyObject_GenericSetAttr(self, name, value);
}

/* An entry of that name is there: what may it become? */
static int set_over(PyObject *self, PyObject *name, PyObject *value, const fai_entry *e) {
    static const char *const wanted[] = {"cannot assign '%U' as parameter '%U' (torch.nn.Parameter or None expected)",
                                         "cannot assign '%U' as buffer '%U' (torch.nn.Buffer, torch.Tensor or None expected)",
                                         "cannot assign '%U' as child module '%U' (torch.nn.Module or None expected)"};
    if (!Py_IsNone(value) && !(e->kind == FAI_ENTRY_BUFFER && fapy_tensor_check(value)))
        return refuse(PyExc_TypeError, wanted[e->kind], value, name), -1;
    return fapy_set_entry(self, name, e->kind, e->persistent, value) ? 0 : -1;
}

static bool not_a_class_attribute(PyObject *self, PyObject *name) {
    if (!_PyType_Lookup(Py_TYPE(self), name)) return true;
    return PyErr_Format(PyExc_KeyError, "attribute '%U' already exists", name), false;
}

/* PyObject_GetAttr and its kin refuse other names themselves; the methods of those names, called by hand, come here. */
static bool is_name(PyObject *name) {
    if (PyUnicode_Check(name)) return true;
    PyErr_Format(PyExc_TypeError, "attribute name must be string, not '%s'", Py_TYPE(name)->tp_name);
    return false;
}

static int module_setattro(PyObject *self, PyObject *name, PyObject *value) {
    if (!is_name(name)) return -1;
    fai_entry *e = fapy_entry(M(self), name);
    bool persistent = true;
    if (!value) {
        if (!e) return set_plain(self, name, NULL);
        return fapy_unset_entry(self, name) ? 0 : -1;
    }
    if (fapy_parameter_check(value)) {
        if (!fapy_initialised(self, "parameters") || (!e && !not_a_class_attribute(self, name)) || !check_leaf(value, name))
            return -1;
        return fapy_set_entry(self, name, FAI_ENTRY_PARAMETER, true, value) ? 0 : -1;
    }
    if (e && e->kind == FAI_ENTRY_PARAMETER) return set_over(self, name, value, e);
    if (fapy_module_check(value)) {
        if (!fapy_initialised(self, "module")) return -1;
        return fapy_set_entry(self, name, FAI_ENTRY_MODULE, true, value) ? 0 : -1;
    }
    if (e && e->kind == FAI_ENTRY_MODULE) return set_over(self, name, value, e);
    if (is_buffer(value, &persistent)) {
        if (!fapy_initialised(self, "buffer")) return -1;
        return fapy_set_entry(self, name, FAI_ENTRY_BUFFER, persistent, value) ? 0 : -1;
    }
    return e ? set_over(self, name, value, e) : set_plain(self, name, value);
}

/* The property is asked once more, for the error that Python has thrown away: it is told, and is the cause of the one raised. */
static PyObject *failed_property(PyObject *self, PyObject *name, PyObject *property) {
    PyObject *type, *error, *trace, *value = Py_TYPE(property)->tp_descr_get(property, self, (PyObject *)Py_TYPE(self));
    Py_DECREF(property);
    if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    PyErr_Format(PyExc_AttributeError,
                 "'%s' object has no attribute '%U'. The class has a property of that name, in which this was raised: %S",
                 Py_TYPE(self)->tp_name, name, error);
    PyObject *outer_type, *outer, *outer_trace;
    PyErr_Fetch(&outer_type, &outer, &outer_trace);
    PyErr_NormalizeException(&outer_type, &outer, &outer_trace);
    PyException_SetCause(outer, error); /* takes error */
    PyErr_Restore(outer_type, outer, outer_trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return NULL;
}

/* super().__getattr__(name) is there for those who call it. It does not make attributes slow: see set_up_class. */
static PyObject *module_getattr(PyObject *self, PyObject *name) {
    if (!is_name(name)) return NULL;
    /* Python comes here with the first error gone, when a property of the class has ended in an AttributeError of its own. */
    PyObject *property = _PyType_Lookup(Py_TYPE(self), name);
    if (property && Py_TYPE(property)->tp_descr_get) return Py_INCREF(property), failed_property(self, name, property);
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(self)->tp_name, name);
    return NULL;
}

static PyObject *get_training(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(M(self)->training);
}
static int set_training(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    const int on = value ? PyObject_IsTrue(value) : 0;
    if (on >= 0) fai_module_mode(M(self), on);
    return on < 0 ? -1 : 0;
}

static PyObject *get_entries(PyObject *self, void *kind) {
    if (M(self)->type) return fapy_entries_new(self, (fai_entry_kind)(intptr_t)kind);
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '_%ss'", Py_TYPE(self)->tp_name, kind_names[(intptr_t)kind]);
    return NULL;
}

/* m._modules = {...}: the entries of that kind become those. */
static int set_entries(PyObject *self, PyObject *value, void *kind) {
    if (!value || !fapy_initialised(self, kind_names[(intptr_t)kind]))
        return value ? -1 : (PyErr_SetString(PyExc_AttributeError, "can't delete the registry of a module"), -1);
    PyObject *view = fapy_entries_new(self, (fai_entry_kind)(intptr_t)kind), *copy = PyDict_New();
    int failed = !view || !copy || PyDict_Update(copy, value);
    PyObject *done = failed ? NULL : PyObject_CallMethod(view, "clear", NULL);
    Py_XDECREF(done);
    done = done ? PyObject_CallMethod(view, "update", "O", copy) : NULL;
    failed = failed || !done;
    Py_XDECREF(done), Py_XDECREF(view), Py_XDECREF(copy);
    return failed ? -1 : 0;
}

/* The names of buffers that state dicts leave out. */
static PyObject *get_non_persistent(PyObject *self, void *unused) {
    PyObject *set = PySet_New(NULL);
    (void)unused;
    for (int i = 0; set && i < M(self)->nentries; i++) {
        const fai_entry *e = &M(self)->entries[i];
        if (e->gone || e->persistent || e->kind != FAI_ENTRY_BUFFER) continue;
        PyObject *name = PyUnicode_FromString(e->name);
        if (!name || PySet_Add(set, name)) Py_CLEAR(set);
        Py_XDECREF(name);
    }
    return set;
}

static int set_non_persistent(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    for (int i = 0; i < M(self)->nentries; i++) {
        fai_entry *e = &M(self)->entries[i];
        PyObject *name = PyUnicode_FromString(e->name);
        const int in = name && value ? PySequence_Contains(value, name) : 0;
        Py_XDECREF(name);
        if (in < 0) return -1;
        if (e->kind == FAI_ENTRY_BUFFER) e->persistent = !in;
    }
    return 0;
}

/* Dicts of hooks, by name; made when first asked for. From then on calls look into them. */
static PyObject *hooks_of(PyObject *self, PyObject *name) {
    fa_module *m = M(self);
    if (!m->host && !(m->host = PyDict_New())) return NULL;
    PyObject *hooks = PyDict_GetItemWithError(m->host, name);
    if (hooks) return Py_NewRef(hooks);
    if (PyErr_Occurred()) return NULL;
    PyObject *collections = PyImport_ImportModule("collections");
    hooks = collections ? PyObject_CallMethod(collections, "OrderedDict", NULL) : NULL;
    Py_XDECREF(collections);
    if (hooks && PyDict_SetItem(m->host, name, hooks)) Py_CLEAR(hooks);
    if (hooks) m->hooked = true;
    return hooks;
}

static PyObject *set_hooks(PyObject *self, PyObject *args) {
    PyObject *name, *hooks;
    fa_module *m = M(self);
    if (!PyArg_ParseTuple(args, "OO", &name, &hooks) || (!m->host && !(m->host = PyDict_New())) ||
        PyDict_SetItem(m->host, name, hooks))
        return NULL;
    m->hooked = true;
    Py_RETURN_NONE;
}

/* None, or the dicts of hooks that are there. */
static PyObject *get_hooks(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef(M(self)->host ? (PyObject *)M(self)->host : Py_None);
}
static PyObject *get_detour(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(M(self)->detour);
}
static int set_detour(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    M(self)->detour = value == Py_True;
    return 0;
}

/* ---- birth and end ---- */

static bool initialise(PyObject *self, const fa_module_type *type, size_t bytes) {
    fa_module *m = M(self);
    while (m->nentries > 0) { /* again: the registry is new, and attributes that stood in it go */
        fai_entry *last = &m->entries[m->nentries - 1];
        PyObject *name = PyUnicode_FromString(last->name);
        m->nslots = 0;
        fai_module_unset(m, last);
        const bool fine = name && mirror(self, name, NULL);
        Py_XDECREF(name);
        if (!fine) return false;
    }
    if (m->type) fai_module_clear(m);
    return fai_module_init(m, type, bytes) || (fapy_raise(), false);
}

static int module_init(PyObject *self, PyObject *args, PyObject *keywords) {
    if (keywords && PyDict_GET_SIZE(keywords)) {
        Py_ssize_t at = 0;
        PyObject *name, *value;
        PyDict_Next(keywords, &at, &name, &value);
        return PyErr_Format(PyExc_TypeError, "%s.__init__() got an unexpected keyword argument '%U'", Py_TYPE(self)->tp_name,
                            name),
               -1;
    }
    if (PyTuple_GET_SIZE(args))
        return PyErr_Format(PyExc_TypeError, "%s.__init__() takes 1 positional argument but %zd were given",
                            Py_TYPE(self)->tp_name, PyTuple_GET_SIZE(args) + 1),
               -1;
    return initialise(self, &fapy_python_module, 0) ? 0 : -1;
}

/* Before the first object of a class: calls without a tuple of arguments, unless it has a __call__ of its own; attributes straight from
 * the dict, unless it has a __getattr__ of its own. */
static void set_up_class(PyTypeObject *type) {
    if (type->tp_call == fapy_module_call) {
        type->tp_vectorcall_offset = offsetof(fa_module, vectorcall);
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    }
    if (type->tp_getattro == PyObject_GenericGetAttr) return;
    const PyObject *hook = _PyType_Lookup(type, str_getattr), *own = PyDict_GetItem(fapy_ModuleBase.tp_dict, str_getattr);
    PyObject *whole = PyUnicode_InternFromString("__getattribute__");
    if (whole && hook == own && _PyType_Lookup(type, whole) == _PyType_Lookup(&PyBaseObject_Type, whole))
        type->tp_getattro = PyObject_GenericGetAttr;
    Py_XDECREF(whole);
}

static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)args, (void)keywords;
    set_up_class(type);
    PyObject *self = PyBaseObject_Type.tp_new(type, no_arguments, NULL);
    if (!self) return NULL;
    M(self)->object.kind = FAI_MODULE;
    M(self)->training = true;
    M(self)->vectorcall = (void *)fapy_module_vectorcall;
    return self;
}

static int module_traverse(PyObject *self, visitproc visit, void *arg) {
    const fa_module *m = M(self);
    for (int i = 0; i < m->nentries; i++) Py_VISIT((PyObject *)m->entries[i].object);
    Py_VISIT((PyObject *)m->host);
    return 0;
}

static int module_clear(PyObject *self) {
    fa_module *m = M(self);
    for (int i = 0; i < m->nentries; i++) {
        PyObject *old = m->entries[i].object;
        fai_module_disown(m, &m->entries[i]);
        m->entries[i].object = NULL;
        Py_XDECREF(old);
    }
    PyObject *host = m->host;
    m->host = NULL;
    Py_XDECREF(host);
    return 0;
}

static void module_dealloc(PyObject *self) {
    if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
    module_clear(self);
    fai_end(self);
}

static void free_module(void *module) { Py_TYPE((PyObject *)module)->tp_free(module); }

static PyObject *no_forward(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)args, (void)n, (void)names;
    PyErr_Format(PyExc_NotImplementedError, "Module [%s] is missing the required \"forward\" function", Py_TYPE(self)->tp_name);
    return NULL;
}

static PyObject *no_repr(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return PyUnicode_FromString("");
}
static PyObject *is_initialised(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(M(self)->type != NULL);
}

static fa_tensor *python_forward(fa_module *m, fa_tensor *const *inputs, int ninputs) {
    return fapy_call_from_c(m, (void *const *)inputs, ninputs);
}
const fa_module_type fapy_python_module = {.name = "Module", .forward = python_forward};

static PyGetSetDef attributes[] = {
    {"training", get_training, set_training, "Whether it is in training mode.", NULL},
    {"_parameters", get_entries, set_entries, "Its own parameters by name: a live view.", (void *)FAI_ENTRY_PARAMETER},
    {"_buffers", get_entries, set_entries, "Its own buffers by name: a live view.", (void *)FAI_ENTRY_BUFFER},
    {"_modules", get_entries, set_entries, "Its children by name: a live view.", (void *)FAI_ENTRY_MODULE},
    {"_non_persistent_buffers_set", get_non_persistent, set_non_persistent, "Names of buffers that are not in state dicts.",
     NULL},
    {"_all_hooks", get_hooks, NULL, "The dicts of hooks, or None.", NULL},
    {"_detour", get_detour, set_detour, "Its forward goes through _forward_otherwise.", NULL},
    {"_initialised", is_initialised, NULL, "Module.__init__ was called.", NULL},
    {0}};

#define KEYWORDS(f) (PyCFunction)(void (*)(void))(f), METH_VARARGS | METH_KEYWORDS
static PyMethodDef own_methods[] = {
    {"register_parameter", KEYWORDS(register_parameter),
     "register_parameter(name, param)\n--\n\nAdds a parameter under name; None keeps the name empty."},
    {"register_buffer", KEYWORDS(register_buffer),
     "register_buffer(name, tensor, persistent=True)\n--\n\nAdds a tensor that moves with the module and is no parameter; "
     "persistent: it is in state dicts."},
    {"add_module", KEYWORDS(add_module), "add_module(name, module)\n--\n\nAdds a child under name."},
    {"register_module", KEYWORDS(add_module), "register_module(name, module)\n--\n\nAdds a child under name."},
    {"forward", (PyCFunction)(void (*)(void))no_forward, METH_FASTCALL | METH_KEYWORDS,
     "forward(*input)\n--\n\nWhat a call does: every subclass has its own."},
    {"extra_repr", no_repr, METH_NOARGS, "extra_repr()\n--\n\nWhat is printed between the parentheses."},
    {"__getattr__", module_getattr, METH_O | METH_COEXIST, NULL},
    {"_hooks", hooks_of, METH_O, NULL},
    {"_set_hooks", set_hooks, METH_VARARGS, NULL},
    {0}};

PyTypeObject fapy_ModuleBase = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._ModuleBase",
                                .tp_basicsize = sizeof(fa_module),
                                .tp_flags =
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                                .tp_vectorcall_offset = offsetof(fa_module, vectorcall),
                                .tp_call = fapy_module_call,
                                .tp_new = module_new,
                                .tp_init = module_init,
                                .tp_dealloc = module_dealloc,
                                .tp_traverse = module_traverse,
                                .tp_clear = module_clear,
                                .tp_setattro = module_setattro,
                                .tp_getattro = PyObject_GenericGetAttr,
                                .tp_getset = attributes,
                                .tp_doc = "What every module is."};

/* ---- set-up ---- */

static PyMethodDef *join_methods(void) {
    size_t n = 1, at = 0;
    for (PyMethodDef *m = own_methods; m->ml_name; m++) n++;
    for (PyMethodDef *m = fapy_walk_methods; m->ml_name; m++) n++;
    PyMethodDef *all = calloc(n, sizeof *all);
    for (PyMethodDef *m = own_methods; all && m->ml_name; m++) all[at++] = *m;
    for (PyMethodDef *m = fapy_walk_methods; all && m->ml_name; m++) all[at++] = *m;
    return all;
}

bool fapy_nn_set_up(PyObject *module) {
    str_forward = PyUnicode_InternFromString("forward"), str_getattr = PyUnicode_InternFromString("__getattr__"),
    no_arguments = PyTuple_New(0);
    if (!str_forward || !str_getattr || !no_arguments || !(fapy_ModuleBase.tp_methods = join_methods()))
        return PyErr_NoMemory(), false;
    fai_other_face.new_module = fapy_new_module, fai_other_face.free_module = free_module;
    fapy_mistakes_set_up();
    fai_other_face.entry_set = entry_set, fai_other_face.built = fapy_layer_built;
    fai_other_face.plain = fapy_is_plain, fai_other_face.call = fapy_call_from_c;
    fapy_LayerBase.tp_base = fapy_SequentialBase.tp_base = &fapy_ModuleBase;
    static PyTypeObject *const types[] = {&fapy_ModuleBase, &fapy_LayerBase, &fapy_SequentialBase, &fapy_Entries, &fapy_Walk};
    static const char *const names[] = {"_ModuleBase", "_LayerBase", "_SequentialBase", "_EntriesBase", "_Walk"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) || PyModule_AddObjectRef(module, names[i], (PyObject *)types[i])) return false;
    return fapy_call_set_up() && !PyModule_AddFunctions(module, fapy_layer_functions) && !PyModule_AddFunctions(module, fapy_mistakes_functions) &&
           !PyModule_AddFunctions(module, fapy_recurrent_functions);
}
