/* Calling a module. A row's layer and Sequential run without a Python frame while nobody listens and forward is their own. */
#include "nn.h"

bool fapy_global_hooks; /* set by facula.nn.modules.module when a hook for all modules is there */
static PyObject *str_forward, *str_hooked, *str_otherwise, *layer_forward, *sequential_forward;

/* ---- rows ---- */

/* A slot that was taken away may live on as an attribute: weight_norm and its kind compute it anew. */
static bool borrow_missing(PyObject *self, PyObject **held) {
    fa_module *m = M(self);
    for (int i = 0; i < m->nslots; i++) {
        if (!m->entries[i].gone) continue;
        PyObject *value = PyObject_GetAttrString(self, m->entries[i].name);
        if (!value) return false;
        if (!fapy_tensor_check(value)) {
            PyErr_Format(PyExc_TypeError, "%s: attribute '%s' must be Tensor, not %s", Py_TYPE(self)->tp_name, m->entries[i].name,
                         Py_TYPE(value)->tp_name);
            return Py_DECREF(value), false;
        }
        held[i] = value;
    }
    return true;
}

/* The forward of a row's layer over tensors. Its parameters are held: another thread may take them away meanwhile. */
static PyObject *run_layer(PyObject *self, PyObject *const *args, int n) {
    fa_module *m = M(self);
    PyObject *held[FAPY_HELD_SLOTS] = {NULL}, *result = NULL;
    const int nslots = m->nslots < FAPY_HELD_SLOTS ? m->nslots : FAPY_HELD_SLOTS;
    const uint32_t mark = FAPY_MARK;
    bool missing = false;
    for (int i = 0; i < nslots; i++) {
        held[i] = Py_XNewRef((PyObject *)m->entries[i].object);
        missing |= m->entries[i].gone;
    }
    if (FAI_LIKELY(!missing))
        result = fapy_take(m->type->forward(m, (fa_tensor *const *)args, n), mark);
    else if (borrow_missing(self, held)) {
        for (int i = 0; i < nslots; i++)
            if (m->entries[i].gone) m->entries[i].object = held[i];
        result = fapy_take(m->type->forward(m, (fa_tensor *const *)args, n), mark);
        for (int i = 0; i < nslots && i < m->nentries; i++)
            if (m->entries[i].gone) m->entries[i].object = NULL;
    }
    for (int i = 0; i < nslots; i++) Py_XDECREF(held[i]);
    return result;
}

static bool takes(const fa_module *m, PyObject *const *args, Py_ssize_t n) {
    if (FAI_UNLIKELY(!m->layer || m->detour || n != m->layer->ninputs || m->type == &fapy_python_module)) return false;
    for (Py_ssize_t i = 0; i < n; i++)
        if (FAI_UNLIKELY(!fapy_tensor_check(args[i]))) return false;
    return true;
}

/* The same with keywords, and with arguments that are wrong: for these the errors. */
PyObject *fapy_layer_forward(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    fa_module *m = M(self);
    if (FAI_LIKELY(!names && takes(m, args, n))) return run_layer(self, args, (int)n);
    if (!m->layer || m->type == &fapy_python_module)
        return PyErr_Format(PyExc_RuntimeError, "%s.forward(): the layer's own __init__ was not called", Py_TYPE(self)->tp_name),
               NULL;
    const Py_ssize_t all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    if (m->detour || (all > m->layer->ninputs && _PyType_Lookup(Py_TYPE(self), str_otherwise))) {
        PyObject *otherwise = PyObject_GetAttr(self, str_otherwise);
        PyObject *result = otherwise ? PyObject_Vectorcall(otherwise, args, (size_t)n, names) : NULL;
        Py_XDECREF(otherwise);
        return result;
    }
    fapy_parameter parameters[3];
    const fapy_layer *row = &fapy_layers[m->layer - fai_layers];
    char text[64], *at = text, *save = NULL;
    snprintf(text, sizeof text, "%s", row->inputs);
    for (int i = 0; i < m->layer->ninputs; i++, at = NULL) parameters[i] = (fapy_parameter){strtok_r(at, ", ", &save), FAPY_T, 0};
    fapy_signature signature = {m->layer->op, m->layer->ninputs, parameters};
    char name[80];
    snprintf(name, sizeof name, "%s.forward", Py_TYPE(self)->tp_name);
    if (n == 0 && !names && signature.n == 1)
        return PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional argument: '%s'", name, parameters[0].name), NULL;
    if (all != signature.n) signature.name = name;
    if (n > signature.n)
        return PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments but %zd were given", name, signature.n + 1,
                            n + 1),
               NULL;
    fapy_value v[3];
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    PyObject *inputs[3];
    for (int i = 0; i < signature.n; i++) inputs[i] = (PyObject *)v[i].as.t;
    return run_layer(self, inputs, signature.n);
}

/* ---- Sequential ---- */

static bool is_row(PyObject *child) {
    const fa_module *m = M(child);
    return m->layer && !m->hooked && !m->own_forward && !m->detour && Py_TYPE(child)->tp_call == fapy_module_call &&
           _PyType_Lookup(Py_TYPE(child), str_forward) == layer_forward && m->type != &fapy_python_module;
}

static bool is_whole(const fa_module *m) {
    for (int i = 0; i < m->nslots; i++)
        if (m->entries[i].gone) return false;
    return true;
}

/* Linear followed by ReLU is one operation. */
static PyObject *run_pair(PyObject *linear, PyObject *x) {
    const fa_module *m = M(linear);
    PyObject *weight = Py_XNewRef((PyObject *)m->entries[0].object), *bias = Py_XNewRef((PyObject *)m->entries[1].object);
    const uint32_t mark = FAPY_MARK;
    fa_tensor *r;
    {
        FAI_CALLED("linear");
        r = fa_linear_relu((fa_tensor *)x, (fa_tensor *)weight, (fa_tensor *)bias);
    }
    PyObject *result = fapy_take(r, mark);
    Py_XDECREF(weight), Py_XDECREF(bias);
    return result;
}

static PyObject *run_sequential(PyObject *self, PyObject *x) {
    fa_module *m = M(self);
    Py_INCREF(x);
    for (int i = 0; x && i < m->nentries; i++) {
        PyObject *child = m->entries[i].object, *y;
        if (m->entries[i].kind != FAI_ENTRY_MODULE) continue;
        if (!child) return Py_DECREF(x), PyErr_SetString(PyExc_TypeError, "'NoneType' object is not callable"), NULL;
        Py_INCREF(child);
        if (!fapy_global_hooks && fapy_tensor_check(x) && is_row(child)) {
            PyObject *next = i + 1 < m->nentries ? m->entries[i + 1].object : NULL;
            if (next && M(child)->type == &fai_layer_Linear && m->entries[i + 1].kind == FAI_ENTRY_MODULE &&
                M(next)->type == &fai_layer_ReLU && is_row(next) && is_whole(M(child))) {
                y = run_pair(child, x);
                i++;
            } else {
                y = takes(M(child), &x, 1) ? run_layer(child, &x, 1) : fapy_layer_forward(child, &x, 1, NULL);
            }
        } else {
            y = PyObject_CallOneArg(child, x);
        }
        Py_DECREF(child);
        Py_DECREF(x);
        x = y;
    }
    return x;
}

static PyObject *sequential_method(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    static const fapy_parameter parameters[] = {{"input", FAPY_OBJ, 0}};
    static const fapy_signature signature = {"Sequential.forward", 1, parameters};
    fapy_value v[1];
    if (n > 1)
        return PyErr_Format(PyExc_TypeError, "Sequential.forward() takes 2 positional arguments but %zd were given", n + 1), NULL;
    return fapy_parse(&signature, args, n, names, 0, v) ? run_sequential(self, v[0].as.o) : NULL;
}

static PyMethodDef sequential_methods[] = {{"forward", (PyCFunction)(void (*)(void))sequential_method,
                                            METH_FASTCALL | METH_KEYWORDS,
                                            "forward(input)\n--\n\nThe children, one after the other."},
                                           {0}};
PyTypeObject fapy_SequentialBase = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._SequentialBase",
                                    .tp_basicsize = sizeof(fa_module),
                                    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                    .tp_methods = sequential_methods,
                                    .tp_call = fapy_module_call,
                                    .tp_doc = "What runs its children one after the other."};

/* ---- every module ---- */

static PyObject *call_hooked(PyObject *self, PyObject *const *args, size_t n, PyObject *names) {
    PyObject *method = PyObject_GetAttr(self, str_hooked);
    PyObject *result = method ? PyObject_Vectorcall(method, args, n, names) : NULL;
    Py_XDECREF(method);
    return result;
}

/* A forward written in Python, with self before the arguments: in the room before them where the caller left some. */
static PyObject *call_unbound(PyObject *forward, PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf), all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *result;
    Py_INCREF(forward);
    if (nargsf & PY_VECTORCALL_ARGUMENTS_OFFSET) {
        PyObject **with = (PyObject **)(uintptr_t)args - 1, *was = with[0];
        with[0] = self;
        result = PyObject_Vectorcall(forward, with, (size_t)n + 1, names);
        with[0] = was;
    } else {
        PyObject *few[8], **with = all < 8 ? few : PyMem_Malloc(((size_t)all + 1) * sizeof *with);
        if (!with) return Py_DECREF(forward), PyErr_NoMemory();
        with[0] = self;
        memcpy(with + 1, args, (size_t)all * sizeof *with);
        result = PyObject_Vectorcall(forward, with, (size_t)n + 1, names);
        if (with != few) PyMem_Free(with);
    }
    Py_DECREF(forward);
    return result;
}

static PyObject *call_forward(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    const fa_module *m = M(self);
    PyObject *forward = m->own_forward ? NULL : _PyType_Lookup(Py_TYPE(self), str_forward);
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (forward == layer_forward && !names && takes(m, args, n)) return run_layer(self, args, (int)n);
    if (forward == sequential_forward && !names && n == 1) return run_sequential(self, args[0]);
    if (forward && (PyFunction_Check(forward) || Py_TYPE(forward) == &PyMethodDescr_Type))
        return call_unbound(forward, self, args, nargsf, names);
    forward = PyObject_GetAttr(self, str_forward);
    PyObject *result = forward ? PyObject_Vectorcall(forward, args, nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET, names) : NULL;
    Py_XDECREF(forward);
    return result;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (Py_EnterRecursiveCall(" while calling a module")) return NULL;
    if (PyVectorcall_NARGS(nargsf) > 0 && fapy_tensor_check(args[0])) fai_note_call(M(self), (fa_tensor *)args[0]);
    PyObject *result = FAI_UNLIKELY(M(self)->hooked || fapy_global_hooks)
                           ? call_hooked(self, args, (size_t)PyVectorcall_NARGS(nargsf), names)
                           : call_forward(self, args, nargsf, names);
    Py_LeaveRecursiveCall();
    return result;
}

PyObject *fapy_module_call(PyObject *self, PyObject *args, PyObject *keywords) {
    const Py_ssize_t n = PyTuple_GET_SIZE(args), k = keywords ? PyDict_GET_SIZE(keywords) : 0;
    if (!k) return call(self, &PyTuple_GET_ITEM(args, 0), (size_t)n, NULL);
    PyObject **all = PyMem_Malloc((size_t)(n + k) * sizeof *all), *names = PyTuple_New(k), *name, *value, *result = NULL;
    Py_ssize_t at = 0, i = 0;
    if (!all || !names)
        PyErr_NoMemory();
    else {
        for (; i < n; i++) all[i] = PyTuple_GET_ITEM(args, i);
        for (i = 0; PyDict_Next(keywords, &at, &name, &value); i++) {
            PyTuple_SET_ITEM(names, i, Py_NewRef(name));
            all[n + i] = value;
        }
        result = call(self, all, (size_t)n, names);
    }
    PyMem_Free(all);
    Py_XDECREF(names);
    return result;
}

/* A class that got a __call__ of its own after its first object was made is asked for it. */
PyObject *fapy_module_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (FAI_LIKELY(Py_TYPE(self)->tp_call == fapy_module_call)) return call(self, args, nargsf, names);
    const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    PyObject *tuple = PyTuple_New(n), *keywords = names ? PyDict_New() : NULL, *result = NULL;
    bool fine = tuple && (!names || keywords);
    for (Py_ssize_t i = 0; fine && i < n; i++) PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; fine && names && i < PyTuple_GET_SIZE(names); i++)
        fine = !PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i), args[n + i]);
    if (fine) result = Py_TYPE(self)->tp_call(self, tuple, keywords);
    Py_XDECREF(tuple), Py_XDECREF(keywords);
    return result;
}

/* ---- calls from C ---- */

bool fapy_is_plain(const void *module) {
    PyObject *self = (PyObject *)(uintptr_t)module;
    const fa_module *m = module;
    if (fapy_global_hooks || m->type == &fapy_python_module || m->hooked || m->own_forward || m->detour ||
        Py_TYPE(self)->tp_call != fapy_module_call)
        return false;
    const PyObject *forward = _PyType_Lookup(Py_TYPE(self), str_forward);
    return (forward == layer_forward && is_whole(m)) || (forward == sequential_forward && !m->layer);
}

void *fapy_call_from_c(void *module, void *const *inputs, int ninputs) {
    PyObject *args[FAPY_MOST];
    if (ninputs > FAPY_MOST)
        return fai_fail(FA_ERR_VALUE, "call", "a module takes at most %d inputs, %d were given", FAPY_MOST, ninputs);
    for (int i = 0; i < ninputs; i++) args[i] = inputs[i] ? inputs[i] : Py_None;
    PyObject *result = PyObject_Vectorcall(module, args, (size_t)ninputs, NULL);
    if (!result) return fapy_foreign(), NULL;
    if (!fapy_tensor_check(result)) {
        fai_fail(FA_ERR_TYPE, "call", "%s.forward() must give a Tensor here, not %s", Py_TYPE(module)->tp_name,
                 Py_TYPE(result)->tp_name);
        return Py_DECREF(result), NULL;
    }
    return fai_scope_add(result, "call") ? result : NULL;
}

bool fapy_call_set_up(void) {
    str_forward = PyUnicode_InternFromString("forward"), str_hooked = PyUnicode_InternFromString("_call_hooked");
    str_otherwise = PyUnicode_InternFromString("_forward_otherwise");
    if (!str_forward || !str_hooked || !str_otherwise) return false;
    layer_forward = PyDict_GetItem(fapy_LayerBase.tp_dict, str_forward);
    sequential_forward = PyDict_GetItem(fapy_SequentialBase.tp_dict, str_forward);
    return layer_forward && sequential_forward;
}
