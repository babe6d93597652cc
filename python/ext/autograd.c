/* Derivatives for Python: backward, modes, the graph's nodes as objects. */
#include "face.h"
#include "ops/ops.h"

#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS

/* ---- grad_fn ---- */

typedef struct node_object { PyObject_HEAD fai_node *node; char name[64]; } node_object;

static void node_dealloc(PyObject *self)
{
    fai_node_unref(((node_object *)self)->node);
    PyObject_Free(self);
}
static PyObject *node_repr(PyObject *self) { return PyUnicode_FromFormat("<%s object at %p>", ((node_object *)self)->name, self); }
static PyObject *node_name(PyObject *self, PyObject *unused)
{
    const node_object *o = (node_object *)self;
    (void)unused;
    return PyUnicode_FromFormat("%s%s", o->node->op->bare ? "torch::autograd::" : "", o->name);
}

static PyObject *node_new(fai_node *node)
{
    extern PyTypeObject fapy_Node;
    if (!node) Py_RETURN_NONE;
    node_object *o = PyObject_New(node_object, &fapy_Node);
    if (!o) return NULL;
    fai_node_ref(node);
    o->node = node;
    snprintf(o->name, sizeof o->name, node->op->bare ? "%s" : node->custom ? "%sBackward" : "%sBackward0", node->op->name);
    return (PyObject *)o;
}

static PyObject *node_next(PyObject *self, void *unused)
{
    const fai_node *node = ((node_object *)self)->node;
    (void)unused;
    PyObject *tuple = PyTuple_New(node->ninputs);
    for (int i = 0; tuple && i < node->ninputs; i++) {
        PyObject *next = node_new(node->edges[i].node), *pair = next ? Py_BuildValue("(Ni)", next, 0) : NULL;
        if (!pair) Py_CLEAR(tuple);
        else PyTuple_SET_ITEM(tuple, i, pair);
    }
    return tuple;
}

static PyObject *node_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(a) != Py_TYPE(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((node_object *)a)->node == ((node_object *)b)->node) == (op == Py_EQ));
}
static Py_hash_t node_hash(PyObject *self) { return (Py_hash_t)((uintptr_t)((node_object *)self)->node >> 4); }

static PyMethodDef node_methods[] = {{"name", node_name, METH_NOARGS, "name()\n--\n\nThe operation's name."}, {0}};
static PyGetSetDef node_attributes[] = {{"next_functions", node_next, NULL, "The operations that made its inputs.", NULL}, {0}};
PyTypeObject fapy_Node = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula.autograd.graph.Node", .tp_basicsize = sizeof(node_object), .tp_flags = Py_TPFLAGS_DEFAULT,
                          .tp_dealloc = node_dealloc, .tp_repr = node_repr, .tp_methods = node_methods, .tp_getset = node_attributes,
                          .tp_richcompare = node_compare, .tp_hash = node_hash, .tp_doc = "A recorded operation.\n\n"
              ">>> y = torch.ones(2, requires_grad=True).exp()\n"
              ">>> y.grad_fn.name(), len(y.grad_fn.next_functions)\n"
              "('ExpBackward0', 1)"};

PyObject *fapy_grad_fn(fa_tensor *t)
{
    if (fa_is_leaf(t)) Py_RETURN_NONE;
    fai_node *node = fai_grad_node(t);
    if (fa_failed()) return fapy_raise();
    return node_new(node);
}

/* ---- hooks ---- */

/* A result for the engine: borrowed from its scope. */
static fa_tensor *call_hook(fa_tensor *grad, void *hook)
{
    PyObject *result = PyObject_CallOneArg(hook, (PyObject *)grad);
    if (result && !Py_IsNone(result) && !fapy_tensor_check(result)) {
        PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'", Py_TYPE(result)->tp_name);
        Py_CLEAR(result);
    }
    if (result && !Py_IsNone(result) && !fai_same_shape((fa_tensor *)result, grad)) {
        PyObject *name = PyObject_GetAttrString(hook, "__name__");
        PyErr_Clear();
        PyErr_Format(PyExc_RuntimeError, "hook '%S' has changed the size of value", name ? name : hook);
        Py_XDECREF(name);
        Py_CLEAR(result);
    }
    if (!result) return fapy_foreign(), NULL;
    if (Py_IsNone(result)) return Py_DECREF(result), grad;
    return fai_scope_add(result, "hook") ? (fa_tensor *)result : NULL;
}

static void release_hook(void *hook) { Py_DECREF((PyObject *)hook); }

typedef struct handle_object { PyObject_HEAD PyObject *tensor; int id; } handle_object;

static PyObject *handle_remove(PyObject *self, PyObject *unused)
{
    handle_object *h = (handle_object *)self;
    (void)unused;
    if (h->tensor) fa_remove_hook((fa_tensor *)h->tensor, h->id);
    fa_error_take(); /* removed already */
    Py_CLEAR(h->tensor);
    Py_RETURN_NONE;
}
static PyObject *handle_enter(PyObject *self, PyObject *unused) { (void)unused; return Py_NewRef(self); }
static PyObject *handle_exit(PyObject *self, PyObject *args) { (void)args; return handle_remove(self, NULL); }
static void handle_dealloc(PyObject *self)
{
    Py_XDECREF(((handle_object *)self)->tensor);
    PyObject_Free(self);
}
static PyMethodDef handle_methods[] = {{"remove", handle_remove, METH_NOARGS, "remove()\n--\n\nTakes the hook off."}, {"__enter__", handle_enter, METH_NOARGS, NULL},
                                       {"__exit__", handle_exit, METH_VARARGS, NULL}, {0}};
static PyTypeObject Handle = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula.utils.hooks.RemovableHandle", .tp_basicsize = sizeof(handle_object),
                              .tp_flags = Py_TPFLAGS_DEFAULT, .tp_dealloc = handle_dealloc, .tp_methods = handle_methods, .tp_doc = "Takes a hook off again."};

static PyObject *tensor_register_hook(PyObject *self, PyObject *hook)
{
    if (!fa_is_requires_grad((fa_tensor *)self)) return PyErr_SetString(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient"), NULL;
    if (!PyCallable_Check(hook)) return PyErr_Format(PyExc_TypeError, "register_hook(): hook must be callable, not %s", Py_TYPE(hook)->tp_name);
    handle_object *h = PyObject_New(handle_object, &Handle);
    if (!h) return NULL;
    h->id = fa_register_hook((fa_tensor *)self, call_hook, Py_NewRef(hook), release_hook);
    h->tensor = h->id > 0 ? Py_NewRef(self) : NULL;
    if (h->id <= 0) return Py_DECREF(hook), Py_DECREF(h), fapy_raise();
    fapy_track(self);
    return (PyObject *)h;
}

int fapy_hooks_traverse(fa_tensor *t, visitproc visit, void *arg)
{
    for (const fai_hook *h = t->extra ? t->extra->hooks : NULL; h; h = h->next)
        if (h->call == call_hook) Py_VISIT((PyObject *)h->data);
    return 0;
}

void fapy_hooks_clear(fa_tensor *t)
{
    fai_hook *hooks = t->extra ? t->extra->hooks : NULL;
    if (!hooks) return;
    t->extra->hooks = NULL;
    fai_free_hooks(hooks);
}

/* ---- backward ---- */

static PyObject *tensor_backward(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    enum { GRADIENT, RETAIN, CREATE, INPUTS };
    static const fapy_parameter parameters[] = {{"gradient", FAPY_T, FAPY_OPTIONAL | FAPY_NONE}, {"retain_graph", FAPY_BOOL, FAPY_OPTIONAL | FAPY_NONE},
                                                {"create_graph", FAPY_BOOL, FAPY_OPTIONAL}, {"inputs", FAPY_OBJ, FAPY_OPTIONAL | FAPY_NONE}};
    static const fapy_signature signature = {"backward", 4, parameters};
    fapy_value v[4];
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    fa_tensor *one = NULL;
    fapy_value list[1] = {{.given = false}};
    static const fapy_parameter tensors[] = {{"inputs", FAPY_TS, 0}};
    static const fapy_signature inputs = {"backward", 1, tensors};
    if (v[INPUTS].given && fapy_tensor_check(v[INPUTS].as.o)) one = (fa_tensor *)v[INPUTS].as.o;
    else if (v[INPUTS].given && !fapy_parse(&inputs, &v[INPUTS].as.o, 1, NULL, 0, list)) return NULL;
    if (v[INPUTS].given && !one && list[0].as.ts.n == 0) return fapy_done(&inputs, list), PyErr_SetString(PyExc_RuntimeError, "`inputs` argument to `backward()` cannot be empty."), NULL;
    const uint32_t mark = FAPY_MARK;
    const fa_backward_options options = {.struct_size = sizeof options, .gradient = v[GRADIENT].given ? v[GRADIENT].as.t : NULL,
                                         .create_graph = v[CREATE].given && v[CREATE].as.b,
                                         .retain_graph = v[RETAIN].given ? v[RETAIN].as.b : v[CREATE].given && v[CREATE].as.b,
                                         .inputs = one ? &one : list[0].given ? list[0].as.ts.at : NULL, .ninputs = one ? 1 : list[0].given ? list[0].as.ts.n : 0};
    const bool fine = fa_backward_with((fa_tensor *)self, &options);
    if (list[0].given) fapy_done(&inputs, list);
    return fapy_bool_or_raise(fine, mark);
}

static PyObject *tensor_detach(PyObject *self, PyObject *unused)
{
    (void)unused;
    const uint32_t mark = FAPY_MARK;
    return fapy_take(fa_detach((fa_tensor *)self), mark);
}

static PyObject *tensor_requires_grad_(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"requires_grad", FAPY_BOOL, FAPY_OPTIONAL}};
    static const fapy_signature signature = {"requires_grad_", 1, parameters};
    fapy_value v[1];
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    const uint32_t mark = FAPY_MARK;
    return fapy_take(fa_requires_grad((fa_tensor *)self, v[0].given ? v[0].as.b : true), mark);
}

static PyObject *tensor_retain_grad(PyObject *self, PyObject *unused)
{
    (void)unused;
    const uint32_t mark = FAPY_MARK;
    return fapy_bool_or_raise(fa_retain_grad((fa_tensor *)self), mark);
}

/* grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads): the three are tuples. */
static PyObject *grad(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    enum { OUTPUTS, INPUTS, GIVEN, RETAIN, CREATE, UNUSED, ZEROS, COUNT };
    static const fapy_parameter parameters[] = {{"outputs", FAPY_TS, 0}, {"inputs", FAPY_TS, 0}, {"grad_outputs", FAPY_TS, FAPY_OPTIONAL | FAPY_NONE},
        {"retain_graph", FAPY_BOOL, FAPY_OPTIONAL | FAPY_NONE}, {"create_graph", FAPY_BOOL, FAPY_OPTIONAL}, {"allow_unused", FAPY_BOOL, FAPY_OPTIONAL | FAPY_NONE},
        {"materialize_grads", FAPY_BOOL, FAPY_OPTIONAL}};
    static const fapy_signature signature = {"grad", COUNT, parameters};
    fapy_value v[COUNT];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    const uint32_t mark = FAPY_MARK;
    const int ninputs = v[INPUTS].as.ts.n;
    fa_tensor **grads = PyMem_Calloc((size_t)ninputs + 1, sizeof *grads);
    if (!grads) return fapy_done(&signature, v), PyErr_NoMemory();
    if (v[GIVEN].given && v[GIVEN].as.ts.n != v[OUTPUTS].as.ts.n) {
        PyErr_Format(PyExc_RuntimeError, "got %d tensors and %d gradients", v[OUTPUTS].as.ts.n, v[GIVEN].as.ts.n);
        return PyMem_Free(grads), fapy_done(&signature, v), NULL;
    }
    const bool create = v[CREATE].given && v[CREATE].as.b;
    const fa_grad_options options = {.struct_size = sizeof options, .grad_outputs = v[GIVEN].given ? v[GIVEN].as.ts.at : NULL,
                                     .retain_graph = v[RETAIN].given ? v[RETAIN].as.b : create, .create_graph = create,
                                     .materialize_grads = v[ZEROS].given && v[ZEROS].as.b,
                                     .allow_unused = (v[UNUSED].given && v[UNUSED].as.b) || (v[ZEROS].given && v[ZEROS].as.b)};
    const bool fine = fa_grad_of_with(v[OUTPUTS].as.ts.at, v[OUTPUTS].as.ts.n, v[INPUTS].as.ts.at, ninputs, grads, &options);
    PyObject *result = fine ? fapy_take_tuple(grads, ninputs, mark) : fapy_bool_or_raise(false, mark);
    PyMem_Free(grads);
    fapy_done(&signature, v);
    return result;
}

static PyObject *set_detect_anomaly(PyObject *self, PyObject *on)
{
    (void)self;
    const int truth = PyObject_IsTrue(on);
    return truth < 0 ? NULL : PyBool_FromLong(fa_set_detect_anomaly(truth));
}

PyMethodDef fapy_autograd_methods[] = {
    {"register_hook", tensor_register_hook, METH_O, "register_hook(hook)\n--\n\nhook(grad) is called with the gradient of this tensor in backward; it may return another one. Returns a handle with remove()."},
    {"backward", FAST(tensor_backward), "backward(gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
     "Adds the derivative of this tensor with respect to every leaf that requires a gradient to the leaf's .grad."},
    {"detach", tensor_detach, METH_NOARGS, "detach()\n--\n\nThe same memory without history."},
    {"requires_grad_", FAST(tensor_requires_grad_), "requires_grad_(requires_grad=True)\n--\n\nSets requires_grad in place; returns the tensor."},
    {"retain_grad", tensor_retain_grad, METH_NOARGS, "retain_grad()\n--\n\nKeeps .grad of a tensor that is no leaf, too."},
    {0}};

/* ---- modes ---- */

static PyObject *is_grad_enabled(PyObject *self, PyObject *unused) { (void)self, (void)unused; return PyBool_FromLong(fa_is_grad_enabled()); }
static PyObject *is_inference_mode(PyObject *self, PyObject *unused) { (void)self, (void)unused; return PyBool_FromLong(fa_is_inference_mode()); }

PyMethodDef fapy_autograd_functions[] = {
    {"_grad", FAST(grad), NULL},
    {"_set_detect_anomaly", set_detect_anomaly, METH_O, NULL},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "is_grad_enabled()\n--\n\nWhether operations are recorded on this thread."},
    {"is_inference_mode_enabled", is_inference_mode, METH_NOARGS, "is_inference_mode_enabled()\n--\n\nWhether inference_mode is on on this thread."},
    {0}};

/* no_grad, enable_grad, set_grad_enabled, inference_mode: one type, used as a context or around a function. */
typedef enum mode_kind { NO_GRAD, ENABLE_GRAD, SET_GRAD, INFERENCE } mode_kind;
typedef struct mode_object { PyObject_HEAD mode_kind kind; bool on, was_grad, was_inference, entered; } mode_object;

static void mode_set(mode_object *m)
{
    m->was_grad = fa_is_grad_enabled(), m->was_inference = fa_is_inference_mode();
    if (m->kind == INFERENCE) fa_set_inference_mode(m->on);
    else fa_set_grad_enabled(m->on);
}

static PyObject *mode_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    mode_object *m = (mode_object *)self;
    if (!m->entered) mode_set(m);
    m->entered = false;
    Py_RETURN_NONE;
}

static PyObject *mode_exit(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)args, (void)n;
    mode_object *m = (mode_object *)self;
    fa_set_grad_enabled(m->was_grad);
    fa_set_inference_mode(m->was_inference);
    Py_RETURN_NONE;
}

/* Around a function: the wrapper is made in Python, where functools keeps name and signature. */
static PyObject *mode_call(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *helper = PyImport_ImportModule("facula.autograd.grad_mode"), *wrap = helper ? PyObject_GetAttrString(helper, "_wrap") : NULL;
    Py_XDECREF(helper);
    if (!wrap) return NULL;
    PyObject *first = PyTuple_Pack(1, self), *all = first ? PySequence_Concat(first, args) : NULL;
    PyObject *result = all ? PyObject_Call(wrap, all, keywords) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(all);
    Py_DECREF(wrap);
    return result;
}

static PyObject *mode_clone(PyObject *self, PyObject *unused)
{
    (void)unused;
    mode_object *m = (mode_object *)self, *copy = PyObject_New(mode_object, Py_TYPE(self));
    if (copy) copy->kind = m->kind, copy->on = m->on, copy->entered = false;
    return (PyObject *)copy;
}

static PyObject *set_grad_repr(PyObject *self)
{
    return PyUnicode_FromFormat("%s.autograd.grad_mode.set_grad_enabled(mode=%s)", fapy_names, ((mode_object *)self)->on ? "True" : "False");
}

static PyMethodDef mode_methods[] = {{"__enter__", mode_enter, METH_NOARGS, NULL}, {"__exit__", (PyCFunction)(void (*)(void))mode_exit, METH_FASTCALL, NULL},
                                     {"clone", mode_clone, METH_NOARGS, "clone()\n--\n\nAnother one of the same kind."}, {0}};

static PyObject *mode_make(PyTypeObject *type, PyObject *args, PyObject *keywords);
#define MODE(variable, title, doc) static PyTypeObject variable = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula.autograd.grad_mode." title, .tp_basicsize = sizeof(mode_object), \
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = mode_make, .tp_call = mode_call, .tp_methods = mode_methods, .tp_doc = doc}
MODE(no_grad, "no_grad", "no_grad()\n--\n\nNothing is recorded inside: `with torch.no_grad():` or `@torch.no_grad()`.\n\n"
              ">>> x = torch.ones(1, requires_grad=True)\n"
              ">>> with torch.no_grad():\n"
              "...     (x * 2).requires_grad\n"
              "False");
MODE(enable_grad, "enable_grad", "enable_grad()\n--\n\nOperations are recorded inside, also within no_grad.\n\n"
              ">>> x = torch.ones(1, requires_grad=True)\n"
              ">>> with torch.no_grad(), torch.enable_grad():\n"
              "...     (x * 2).requires_grad\n"
              "True");
MODE(set_grad, "set_grad_enabled", "set_grad_enabled(mode)\n--\n\nSets at once whether operations are recorded; as a context, until its end.\n\n"
              ">>> x = torch.ones(1, requires_grad=True)\n"
              ">>> with torch.set_grad_enabled(False):\n"
              "...     (x * 2).requires_grad\n"
              "False");
MODE(inference_mode, "inference_mode", "inference_mode(mode=True)\n--\n\nNothing is recorded inside, and what is made there can't take part in a graph later.\n\n"
              ">>> with torch.inference_mode():\n"
              "...     y = torch.ones(1)\n"
              ">>> y.is_inference()\n"
              "True");

static PyObject *mode_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"mode", NULL};
    PyObject *on = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O", names, &on)) return NULL;
    const bool takes = type == &set_grad || type == &inference_mode, function = on && PyCallable_Check(on) && !PyBool_Check(on);
    if (type == &set_grad && !on) return PyErr_SetString(PyExc_TypeError, "set_grad_enabled() missing 1 required positional argument: 'mode'"), NULL;
    if (on && !takes && !function) return PyErr_Format(PyExc_TypeError, "%s() takes no arguments", type->tp_name);
    if (on && takes && !function && !PyBool_Check(on))
        return PyErr_Format(PyExc_TypeError, "%s(): argument 'enabled' (position 1) must be bool, not %s", type == &set_grad ? "set_grad_enabled" : "inference_mode", Py_TYPE(on)->tp_name);
    mode_object *m = PyObject_New(mode_object, type);
    if (!m) return NULL;
    m->kind = type == &no_grad ? NO_GRAD : type == &enable_grad ? ENABLE_GRAD : type == &set_grad ? SET_GRAD : INFERENCE;
    m->on = takes ? !on || function || on == Py_True : m->kind == ENABLE_GRAD;
    m->entered = false;
    if (m->kind == SET_GRAD) mode_set(m), m->entered = true;
    if (!function) return (PyObject *)m;
    PyObject *wrapped = PyObject_CallOneArg((PyObject *)m, on); /* @torch.no_grad without parentheses */
    Py_DECREF(m);
    return wrapped;
}

bool fapy_autograd_set_up(PyObject *module)
{
    static PyTypeObject *const types[] = {&fapy_Node, &Handle, &no_grad, &enable_grad, &set_grad, &inference_mode};
    set_grad.tp_repr = set_grad_repr;
    static const char *const names[] = {"Node", "_TensorHookHandle", "no_grad", "enable_grad", "set_grad_enabled", "inference_mode"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) || PyModule_AddObjectRef(module, names[i], (PyObject *)types[i])) return false;
    return fapy_function_set_up(module);
}
