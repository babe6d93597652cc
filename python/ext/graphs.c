/* Graphs and pools for python/facula/_graphs.py, which gives them PyTorch's names. */
#include "bind.h"
#include <structmember.h>

typedef struct graph { PyObject_HEAD fa_graph *graph; } graph;
typedef struct pool { PyObject_HEAD fa_mempool *pool; } pool;

static PyObject *done(bool fine) { return fine && !fa_failed() ? Py_NewRef(Py_None) : fapy_raise(); }

static PyObject *graph_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args, (void)keywords;
    graph *g = (graph *)type->tp_alloc(type, 0);
    if (!g) return NULL;
    const uint32_t mark = FAPY_MARK;
    g->graph = fapy_own(fa_graph_new(), mark);
    if (g->graph) return (PyObject *)g;
    Py_DECREF(g);
    return fapy_raise();
}

static void graph_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    fai_unref(((graph *)self)->graph);
    type->tp_free(self);
}

static PyObject *graph_begin(PyObject *self, PyObject *args)
{
    PyObject *device;
    fa_stream s;
    unsigned long long id;
    if (!PyArg_ParseTuple(args, "OiK:capture_begin", &device, &s.id, &id)) return NULL;
    if (!fapy_device_from(device, "capture_begin", "device", 1, &s.device)) return NULL;
    return done(fa_graph_begin(((graph *)self)->graph, s, id));
}

static PyObject *graph_end(PyObject *self, PyObject *unused) { (void)unused; return done(fa_graph_end(((graph *)self)->graph)); }
static PyObject *graph_replay(PyObject *self, PyObject *unused) { (void)unused; return done(fa_graph_replay(((graph *)self)->graph)); }
static PyObject *graph_reset(PyObject *self, PyObject *unused) { (void)unused; return done(fa_graph_reset(((graph *)self)->graph)); }

static PyObject *graph_pool(PyObject *self, PyObject *unused)
{
    (void)unused;
    const uint64_t id = fa_graph_pool(((graph *)self)->graph);
    return id ? PyLong_FromUnsignedLongLong(id) : fapy_raise();
}

/* (ready, steps, the driver's own) */
static PyObject *graph_facts(PyObject *self, PyObject *unused)
{
    (void)unused;
    const fa_graph_facts f = fa_graph_get_facts(((graph *)self)->graph);
    return Py_BuildValue("NKN", PyBool_FromLong(f.ready), (unsigned long long)(f.launches + f.copies + f.fills), PyLong_FromVoidPtr(f.native));
}

static PyObject *graph_dump(PyObject *self, PyObject *path)
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    PyObject *result = done(fa_graph_dump(((graph *)self)->graph, PyBytes_AS_STRING(bytes)));
    Py_DECREF(bytes);
    return result;
}

static PyMethodDef graph_methods[] = {{"begin", graph_begin, METH_VARARGS, NULL}, {"end", graph_end, METH_NOARGS, NULL}, {"replay", graph_replay, METH_NOARGS, NULL},
    {"reset", graph_reset, METH_NOARGS, NULL}, {"pool", graph_pool, METH_NOARGS, NULL}, {"facts", graph_facts, METH_NOARGS, NULL}, {"dump", graph_dump, METH_O, NULL}, {0}};
static PyTypeObject graph_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._Graph", .tp_basicsize = sizeof(graph), .tp_flags = Py_TPFLAGS_DEFAULT,
                                  .tp_new = graph_make, .tp_dealloc = graph_dealloc, .tp_methods = graph_methods};

/* ---- pools ---- */

static PyObject *pool_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *device;
    fa_device d;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O:MemPool", &device) || !fapy_device_from(device, "MemPool", "device", 1, &d)) return NULL;
    pool *p = (pool *)type->tp_alloc(type, 0);
    if (!p) return NULL;
    const uint32_t mark = FAPY_MARK;
    p->pool = fapy_own(fa_mempool_new(d), mark);
    if (p->pool) return (PyObject *)p;
    Py_DECREF(p);
    return fapy_raise();
}

static void pool_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    fai_unref(((pool *)self)->pool);
    type->tp_free(self);
}

/* (id, bytes taken from the driver) */
static PyObject *pool_facts(PyObject *self, PyObject *unused)
{
    (void)unused;
    const fa_mempool *p = ((pool *)self)->pool;
    return Py_BuildValue("KK", (unsigned long long)fa_mempool_id(p), (unsigned long long)fa_mempool_reserved(p));
}

#define POOL_BEFORE "facula.pool_before"
/* What was the thread's pool before, for _pool_leave; None: no pool. */
static PyObject *pool_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    void *before = fa_mempool_enter(((pool *)self)->pool);
    if (before) return PyCapsule_New(before, POOL_BEFORE, NULL);
    if (fa_failed()) return fapy_raise();
    Py_RETURN_NONE;
}

static PyMethodDef pool_methods[] = {{"facts", pool_facts, METH_NOARGS, NULL}, {"enter", pool_enter, METH_NOARGS, NULL}, {0}};
static PyTypeObject pool_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._MemPool", .tp_basicsize = sizeof(pool), .tp_flags = Py_TPFLAGS_DEFAULT,
                                 .tp_new = pool_make, .tp_dealloc = pool_dealloc, .tp_methods = pool_methods};

static PyObject *pool_leave(PyObject *self, PyObject *before)
{
    (void)self;
    void *was = Py_IsNone(before) ? NULL : PyCapsule_GetPointer(before, POOL_BEFORE);
    if (PyErr_Occurred() || (was && PyCapsule_SetName(before, "facula.pool_left"))) return NULL; /* it serves once */
    fa_mempool_leave(was);
    Py_RETURN_NONE;
}

static PyObject *pool_new(PyObject *self, PyObject *unused) { (void)self, (void)unused; return PyLong_FromUnsignedLongLong(fa_graph_pool_new()); }

static PyObject *stream_capturing(PyObject *self, PyObject *args)
{
    PyObject *device;
    fa_stream s;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi:is_capturing", &device, &s.id) || !fapy_device_from(device, "is_capturing", "device", 1, &s.device)) return NULL;
    const bool yes = fa_stream_is_capturing(s);
    return fa_failed() ? fapy_raise() : PyBool_FromLong(yes);
}

static PyObject *sync_mode(PyObject *self, PyObject *args)
{
    int mode = -1;
    (void)self;
    if (!PyArg_ParseTuple(args, "|i:sync_debug_mode", &mode)) return NULL;
    if (PyTuple_GET_SIZE(args) && !fa_set_sync_debug_mode(mode)) return fapy_raise();
    return PyLong_FromLong(fa_sync_debug_mode());
}

static PyMethodDef functions[] = {{"_sync_debug_mode", sync_mode, METH_VARARGS, NULL}, {"_pool_leave", pool_leave, METH_O, NULL}, {"_graph_pool_new", pool_new, METH_NOARGS, NULL},
    {"_stream_capturing", stream_capturing, METH_VARARGS, NULL}, {0}};

bool fapy_graphs_set_up(PyObject *module)
{
    return !PyType_Ready(&graph_type) && !PyModule_AddObjectRef(module, "_Graph", (PyObject *)&graph_type) && !PyType_Ready(&pool_type) &&
           !PyModule_AddObjectRef(module, "_MemPool", (PyObject *)&pool_type) && !PyModule_AddFunctions(module, functions);
}
