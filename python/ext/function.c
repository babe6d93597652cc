/* torch.autograd.Function: forward and backward written in Python.
 *
 * One result: its node is the function's. Several: each result has a small node of its own that puts its gradient down in the
 * function's node and sends on a token; the function's node, whose rank is lower, runs when all of them have. */
#include "face.h"

typedef struct context_object {
    PyObject_HEAD
    PyObject *attributes;
    PyObject *to_save, *dirty, *fixed;   /* tuples of tensors: save_for_backward, mark_dirty, mark_non_differentiable */
    PyObject *function;                  /* the class */
    PyObject *needs;                     /* a tuple of bools */
    fai_node *node;                      /* borrowed; NULL in forward and when the node is gone */
    bool zeros;                          /* missing gradients come as zeros */
} context_object;

typedef struct function_params {
    context_object *context;
    int nresults;
    fa_tensor **given;                   /* gradients of the results that were put down so far; NULL: one result only */
    fai_meta *metas;                     /* of the results */
    fai_node_op op;
    char name[64];
} function_params;

/* ---- the context ---- */

static PyTypeObject Context;

static int context_traverse(PyObject *self, visitproc visit, void *arg)
{
    context_object *c = (context_object *)self;
    Py_VISIT(c->attributes);
    Py_VISIT(c->to_save);
    Py_VISIT(c->dirty);
    Py_VISIT(c->fixed);
    Py_VISIT(c->function);
    return 0;
}

static int context_clear(PyObject *self)
{
    context_object *c = (context_object *)self;
    Py_CLEAR(c->attributes);
    Py_CLEAR(c->to_save);
    Py_CLEAR(c->dirty);
    Py_CLEAR(c->fixed);
    Py_CLEAR(c->function);
    Py_CLEAR(c->needs);
    return 0;
}

static void context_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    context_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *keep_tuple(PyObject **slot, PyObject *args)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *o = PyTuple_GET_ITEM(args, i);
        if (!Py_IsNone(o) && !fapy_tensor_check(o))
            return PyErr_Format(PyExc_TypeError, "save_for_backward can only save variables, but argument %zd is of type %s. Keep other things as attributes of ctx.",
                                i, Py_TYPE(o)->tp_name);
    }
    Py_XSETREF(*slot, Py_NewRef(args));
    Py_RETURN_NONE;
}
static PyObject *context_save(PyObject *self, PyObject *args) { return keep_tuple(&((context_object *)self)->to_save, args); }
static PyObject *context_dirty(PyObject *self, PyObject *args) { return keep_tuple(&((context_object *)self)->dirty, args); }
static PyObject *context_fixed(PyObject *self, PyObject *args) { return keep_tuple(&((context_object *)self)->fixed, args); }

static PyObject *context_zeros(PyObject *self, PyObject *on)
{
    const int truth = PyObject_IsTrue(on);
    if (truth < 0) return NULL;
    ((context_object *)self)->zeros = truth;
    Py_RETURN_NONE;
}

static PyObject *context_saved(PyObject *self, void *unused)
{
    context_object *c = (context_object *)self;
    (void)unused;
    if (!c->node) return Py_NewRef(c->to_save ? c->to_save : PyTuple_New(0));
    if (c->node->freed && c->node->saved_any) {
        PyErr_SetString(PyExc_RuntimeError, "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
                        "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
                        "backward through the graph a second time or if you need to access saved tensors after calling backward.");
        return NULL;
    }
    PyObject *tuple = PyTuple_New(c->node->nkept);
    for (int i = 0; tuple && i < c->node->nkept; i++) {
        const uint32_t mark = FAPY_MARK;
        PyObject *t = c->node->kept[i].tensor ? fapy_take(fai_node_kept(c->node, i), mark) : Py_NewRef(Py_None);
        if (!t) Py_CLEAR(tuple);
        else PyTuple_SET_ITEM(tuple, i, t);
    }
    return tuple;
}

static PyObject *context_needs(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((context_object *)self)->needs ? ((context_object *)self)->needs : Py_None);
}

static PyMethodDef context_methods[] = {
    {"save_for_backward", context_save, METH_VARARGS, "save_for_backward(*tensors)\n--\n\nKeeps tensors, inputs or results of forward, for backward."},
    {"mark_dirty", context_dirty, METH_VARARGS, "mark_dirty(*args)\n--\n\nSays which inputs forward wrote in place."},
    {"mark_non_differentiable", context_fixed, METH_VARARGS, "mark_non_differentiable(*args)\n--\n\nSays which results have no derivative."},
    {"set_materialize_grads", context_zeros, METH_O, "set_materialize_grads(value)\n--\n\nFalse: gradients of results that were not used come as None and not as zeros."},
    {0}};
static PyGetSetDef context_attributes[] = {{"saved_tensors", context_saved, NULL, "What save_for_backward kept.", NULL},
                                           {"needs_input_grad", context_needs, NULL, "For each argument of forward, whether it needs a gradient.", NULL},
                                           {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {0}};
static PyTypeObject Context = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula.autograd.function.FunctionCtx", .tp_basicsize = sizeof(context_object),
                               .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, .tp_new = PyType_GenericNew, .tp_dealloc = context_dealloc,
                               .tp_traverse = context_traverse, .tp_clear = context_clear, .tp_methods = context_methods, .tp_getset = context_attributes,
                               .tp_dictoffset = offsetof(context_object, attributes), .tp_doc = "What forward leaves for backward.\n\n"
              ">>> class Double(torch.autograd.Function):\n"
              "...     @staticmethod\n"
              "...     def forward(ctx, x):\n"
              "...         ctx.factor = 2\n"
              "...         return x * ctx.factor\n"
              "...     @staticmethod\n"
              "...     def backward(ctx, grad):\n"
              "...         return grad * ctx.factor\n"
              "...\n"
              ">>> x = torch.tensor(3.0, requires_grad=True)\n"
              ">>> torch.autograd.grad(Double.apply(x), x)\n"
              "(tensor(2.),)"};

/* ---- backward ---- */

static PyObject *gradients(fai_node *node, fa_tensor *g)
{
    function_params *p = node->params;
    PyObject *args = PyTuple_New(p->nresults + 1);
    if (!args) return NULL;
    PyTuple_SET_ITEM(args, 0, Py_NewRef(p->context));
    for (int i = 0; i < p->nresults; i++) {
        fa_tensor *given = p->given ? p->given[i] : g;
        PyObject *o = NULL;
        if (given) {
            o = fai_ref(given);
        } else if (p->context->zeros && p->metas[i].dtype) {
            const uint32_t mark = FAPY_MARK;
            o = fapy_take(fa_zeros_with(fa_shape_of(p->metas[i].ndim, p->metas[i].size), FA_TENSOR_OPTIONS(.dtype = p->metas[i].dtype, .device = p->metas[i].device)), mark);
        } else {
            o = Py_NewRef(Py_None);
        }
        if (!o) return Py_DECREF(args), NULL;
        PyTuple_SET_ITEM(args, i + 1, o);
    }
    return args;
}

/* Borrowed by the engine's scope from now on. */
static bool hand_over(PyObject *t, fa_tensor **out)
{
    *out = (fa_tensor *)Py_NewRef(t);
    return fai_scope_add(*out, "backward");
}

static bool take_results(fai_node *node, PyObject *result, fa_tensor **grads)
{
    function_params *p = node->params;
    const bool tuple = PyTuple_Check(result) || PyList_Check(result);
    Py_ssize_t n = tuple ? PySequence_Fast_GET_SIZE(result) : 1;
    while (tuple && n > node->ninputs && Py_IsNone(PySequence_Fast_GET_ITEM(result, n - 1))) n--;
    if (n != node->ninputs) {
        PyErr_Format(PyExc_RuntimeError, "function %sBackward returned an incorrect number of gradients (expected %d, got %zd)", p->name, node->ninputs, n);
        return false;
    }
    for (int i = 0; i < node->ninputs; i++) {
        PyObject *o = tuple ? PySequence_Fast_GET_ITEM(result, i) : result;
        if (Py_IsNone(o)) continue;
        if (!fapy_tensor_check(o)) {
            PyErr_Format(PyExc_RuntimeError, "function %sBackward returned an invalid gradient at index %d: expected a Tensor or None, found %s", p->name, i, Py_TYPE(o)->tp_name);
            return false;
        }
        if (!node->edges[i].node) continue;
        if (!hand_over(o, &grads[i])) return false;
    }
    return true;
}

static void forget_given(function_params *p)
{
    for (int i = 0; p->given && i < p->nresults; i++) {
        fa_tensor *g = p->given[i];
        p->given[i] = NULL;
        fai_unref(g);
    }
}

static bool function_backward(fai_node *node, fa_tensor *g, fa_tensor **grads)
{
    function_params *p = node->params;
    PyObject *args = gradients(node, g), *backward = args ? PyObject_GetAttrString(p->context->function, "backward") : NULL;
    forget_given(p);
    PyObject *result = backward ? PyObject_CallObject(backward, args) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(backward);
    const bool fine = result && take_results(node, result, grads);
    Py_XDECREF(result);
    return fine ? true : fai_tls.error_pending ? false : fapy_foreign();
}

static void function_release(fai_node *node)
{
    function_params *p = node->params;
    forget_given(p);
    PyMem_Free(p->given);
    PyMem_Free(p->metas);
    if (p->context) p->context->node = NULL;
    Py_CLEAR(p->context);
}

/* A result of several: puts its gradient down, and sends a token. */
typedef struct pick_params { int at; fai_node_op op; } pick_params;

static bool pick_backward(fai_node *node, fa_tensor *g, fa_tensor **grads)
{
    fai_node *function = node->edges[0].node;
    function_params *p = function->params;
    pick_params *pick = node->params;
    if (function->task != node->task) forget_given(p); /* left by a backward that failed */
    fa_tensor *old = p->given[pick->at];
    p->given[pick->at] = fai_ref(g);
    fai_unref(old);
    grads[0] = fai_empty("backward", FA_FLOAT32, FA_CPU, 1, (const int64_t[]){0});
    return grads[0] != NULL;
}

static bool make_pick(fai_node *function, int at, fa_tensor *result)
{
    fai_node *node = fai_node_new(&fai_accumulate_op, 1, 0, sizeof(pick_params));
    if (!node) return false;
    pick_params *p = node->params;
    *p = (pick_params){at, {.name = function->op->name, .backward = pick_backward}};
    node->op = &p->op;
    node->custom = true;
    node->metas[0] = (fai_meta){.ndim = 1, .dtype = FA_FLOAT32, .device = FA_CPU, .size = {0}};
    fai_node_ref(function);
    node->edges[0] = (fai_edge){function, true};
    node->rank = function->rank + 1;
    fai_node_finish(node, result);
    result->output = (uint16_t)at;
    return true;
}

/* ---- apply ---- */

static bool contains(PyObject *tuple, PyObject *o)
{
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++)
        if (PyTuple_GET_ITEM(tuple, i) == o) return true;
    return false;
}

static fai_node *make_node(context_object *c, PyObject *const *args, Py_ssize_t nargs, PyObject *const *results, Py_ssize_t nresults)
{
    const int nsaved = c->to_save ? (int)PyTuple_GET_SIZE(c->to_save) : 0;
    fai_node *node = fai_node_new(&fai_accumulate_op, (int)nargs, nsaved, sizeof(function_params));
    if (!node) return NULL;
    function_params *p = node->params;
    PyObject *name = PyObject_GetAttrString(c->function, "__name__");
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    snprintf(p->name, sizeof p->name, "%s", text ? text : "Function");
    Py_XDECREF(name);
    PyErr_Clear();
    p->op = (fai_node_op){.name = p->name, .backward = function_backward};
    node->op = &p->op;
    node->custom = true;
    p->nresults = (int)nresults;
    p->metas = PyMem_Calloc((size_t)nresults + 1, sizeof *p->metas);
    p->given = nresults > 1 ? PyMem_Calloc((size_t)nresults, sizeof *p->given) : NULL;
    bool fine = p->metas && (nresults == 1 || p->given);
    for (int i = 0; fine && i < nargs; i++) fine = fai_node_input(node, i, fapy_tensor_check(args[i]) ? (fa_tensor *)args[i] : NULL, true);
    for (int i = 0; fine && i < nsaved; i++) {
        PyObject *t = PyTuple_GET_ITEM(c->to_save, i);
        if (Py_IsNone(t)) continue;
        bool result = false;
        for (Py_ssize_t r = 0; r < nresults; r++) result = result || results[r] == t;
        fine = fai_node_keep(node, i, (fa_tensor *)t, result);
    }
    for (Py_ssize_t i = 0; fine && i < nresults; i++) {
        if (!fapy_tensor_check(results[i])) continue;
        const fa_tensor *t = (fa_tensor *)results[i];
        p->metas[i] = (fai_meta){.ndim = t->ndim, .dtype = t->dtype, .device = t->device};
        memcpy(p->metas[i].size, t->size, sizeof t->size);
    }
    if (!fine) {
        PyMem_Free(p->metas);
        PyMem_Free(p->given);
        return fai_node_unref(node), NULL;
    }
    p->op.release = function_release;
    p->context = (context_object *)Py_NewRef(c);
    c->node = node;
    Py_CLEAR(c->to_save);
    return node;
}

/* A result that is an input is its alias, unless forward says that it wrote there. */
static PyObject *own_result(context_object *c, PyObject *result, PyObject *const *args, Py_ssize_t nargs)
{
    for (Py_ssize_t i = 0; i < nargs; i++) {
        if (args[i] != result || contains(c->dirty, result)) continue;
        fa_tensor *t = (fa_tensor *)result;
        const uint32_t mark = FAPY_MARK;
        return fapy_take(fai_view("apply", t, t->ndim, t->size, t->stride, t->offset), mark);
    }
    return Py_NewRef(result);
}

static bool connect(context_object *c, fai_node *node, PyObject **results, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        fa_tensor *t = (fa_tensor *)results[i];
        if (!fapy_tensor_check(results[i]) || !fai_is_float(t->dtype) || contains(c->fixed, results[i])) continue;
        if (contains(c->dirty, results[i])) {
            if (fa_is_leaf(t) && FAI_HAS(t, FAI_REQUIRES_GRAD))
                return PyErr_SetString(PyExc_RuntimeError, "a leaf Variable that requires grad has been used in an in-place operation."), false;
            ++*fai_version(t);
        }
        if (n > 1) {
            if (!make_pick(node, (int)i, t)) return fapy_raise(), false;
        } else {
            fai_node_ref(node);
            fai_node_finish(node, t);
        }
    }
    return true;
}

static PyObject *run_forward(PyObject *type, context_object *c, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *forward = PyObject_GetAttrString(type, "forward"), *set_up = forward ? PyObject_GetAttrString(type, "setup_context") : NULL;
    PyObject *inputs = set_up ? PyTuple_New(nargs) : NULL, *result = NULL;
    if (!inputs) goto done;
    for (Py_ssize_t i = 0; i < nargs; i++) PyTuple_SET_ITEM(inputs, i, Py_NewRef(args[i]));
    const bool was_off = fai_tls.grad_off;
    fai_tls.grad_off = true;
    if (Py_IsNone(set_up)) {
        PyObject *one = PyTuple_Pack(1, c), *all = one ? PySequence_Concat(one, inputs) : NULL;
        result = all ? PyObject_CallObject(forward, all) : NULL;
        Py_XDECREF(one);
        Py_XDECREF(all);
    } else {
        result = PyObject_CallObject(forward, inputs);
        PyObject *nothing = result ? PyObject_CallFunctionObjArgs(set_up, c, inputs, result, NULL) : NULL;
        if (!nothing) Py_CLEAR(result);
        Py_XDECREF(nothing);
    }
    fai_tls.grad_off = was_off;
done:
    Py_XDECREF(forward);
    Py_XDECREF(set_up);
    Py_XDECREF(inputs);
    return result;
}

static bool any_wanted(context_object *c, PyObject *const *args, Py_ssize_t nargs)
{
    bool any = false;
    c->needs = PyTuple_New(nargs);
    for (Py_ssize_t i = 0; c->needs && i < nargs; i++) {
        const bool wants = fai_recording() && fapy_tensor_check(args[i]) && fai_wants_grad((fa_tensor *)args[i]);
        any = any || wants;
        PyTuple_SET_ITEM(c->needs, i, PyBool_FromLong(wants));
    }
    return any;
}

static PyObject *function_apply(PyObject *type, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    if (names && PyTuple_GET_SIZE(names)) return PyErr_SetString(PyExc_TypeError, "apply() takes no keyword arguments"), NULL;
    context_object *c = (context_object *)Context.tp_alloc(&Context, 0);
    if (!c) return NULL;
    c->function = Py_NewRef(type);
    c->zeros = true;
    const bool wanted = any_wanted(c, args, nargs);
    PyObject *result = c->needs ? run_forward(type, c, args, nargs) : NULL;
    if (!result) return Py_DECREF(c), NULL;
    const bool several = PyTuple_Check(result);
    const Py_ssize_t n = several ? PyTuple_GET_SIZE(result) : 1;
    PyObject *all = PyTuple_New(n);
    bool fine = all != NULL;
    for (Py_ssize_t i = 0; fine && i < n; i++) {
        PyObject *one = several ? PyTuple_GET_ITEM(result, i) : result;
        PyObject *own = fapy_tensor_check(one) ? own_result(c, one, args, nargs) : Py_NewRef(one);
        fine = own != NULL;
        if (own) PyTuple_SET_ITEM(all, i, own);
    }
    Py_DECREF(result);
    if (fine && wanted) {
        const uint32_t mark = FAPY_MARK;
        fai_node *node = make_node(c, args, nargs, ((PyTupleObject *)all)->ob_item, n);
        fapy_sweep(mark);
        fine = node ? connect(c, node, ((PyTupleObject *)all)->ob_item, n) : (fapy_raise(), false);
        if (node) fai_node_unref(node);
    }
    Py_DECREF(c);
    if (!fine) return Py_XDECREF(all), NULL;
    if (several) return all;
    PyObject *one = Py_NewRef(PyTuple_GET_ITEM(all, 0));
    Py_DECREF(all);
    return one;
}

static PyMethodDef function_methods[] = {
    {"apply", (PyCFunction)(void (*)(void))function_apply, METH_CLASS | METH_FASTCALL | METH_KEYWORDS, "apply(*args)\n--\n\nRuns forward and records backward."}, {0}};
static PyTypeObject FunctionBase = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._FunctionBase", .tp_basicsize = sizeof(PyObject),
                                    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_methods = function_methods, .tp_new = PyType_GenericNew};

bool fapy_function_set_up(PyObject *module)
{
    return !PyType_Ready(&Context) && !PyType_Ready(&FunctionBase) && !PyModule_AddObjectRef(module, "FunctionCtx", (PyObject *)&Context) &&
           !PyModule_AddObjectRef(module, "_FunctionBase", (PyObject *)&FunctionBase);
}
