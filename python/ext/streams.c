/* Streams and events for python/facula/_streams.py: streams are pairs of a device and a number there, events are objects. */
#include "bind.h"
#include <structmember.h>

typedef struct event { PyObject_HEAD fa_event *event; } event;

static bool stream_from(PyObject *device, PyObject *id, fa_stream *out)
{
    if (!fapy_device_from(device, "stream", "device", 1, &out->device)) return false;
    const long number = PyLong_AsLong(id);
    if (number == -1 && PyErr_Occurred()) return false;
    out->id = (int)number;
    if (out->device.type == FA_DEVICE_CPU) out->device.index = -1;
    return true;
}

/* The two arguments of a function that is about one stream; format: "OO:name". */
static bool stream_argument(PyObject *args, const char *format, fa_stream *out)
{
    PyObject *device, *id;
    return PyArg_ParseTuple(args, format, &device, &id) && stream_from(device, id, out);
}

static PyObject *named(fa_stream s)
{
    if (!s.device.type || fa_failed()) return fapy_raise();
    return Py_BuildValue("Ni", fapy_device_new(s.device), s.id);
}

static PyObject *yes_or_raise(bool yes) { return fa_failed() ? fapy_raise() : PyBool_FromLong(yes); }

/* (device, id) of a stream that is made, or of the default, the current, or somebody else's one */
static PyObject *stream_get(PyObject *self, PyObject *args)
{
    const char *which;
    PyObject *device;
    unsigned long long number = 0;
    int priority = 0;
    fa_device d;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO|iK:stream", &which, &device, &priority, &number)) return NULL;
    if (!fapy_device_from(device, "stream", "device", 1, &d)) return NULL;
    void *handle = (void *)(uintptr_t)number;
    if (!strcmp(which, "new")) return named(fa_stream_new(d, priority));
    if (!strcmp(which, "external")) return named(fa_stream_external(d, handle));
    return named(!strcmp(which, "default") ? fa_default_stream(d) : fa_current_stream(d));
}

static PyObject *stream_set(PyObject *self, PyObject *args)
{
    fa_stream s;
    (void)self;
    if (!stream_argument(args, "OO:set_stream", &s)) return NULL;
    return fa_set_current_stream(s) ? Py_NewRef(Py_None) : fapy_raise();
}

/* (priority, the driver's handle) */
static PyObject *stream_facts(PyObject *self, PyObject *args)
{
    fa_stream s;
    (void)self;
    if (!stream_argument(args, "OO:stream", &s)) return NULL;
    const int priority = fa_stream_priority(s);
    void *handle = fa_stream_native(s);
    if (fa_failed()) return fapy_raise();
    return Py_BuildValue("iK", priority, (unsigned long long)(uintptr_t)handle);
}

static PyObject *stream_query(PyObject *self, PyObject *args)
{
    fa_stream s;
    (void)self;
    if (!stream_argument(args, "OO:query", &s)) return NULL;
    return yes_or_raise(fa_stream_query(s));
}

static PyObject *stream_synchronize(PyObject *self, PyObject *args)
{
    fa_stream s;
    (void)self;
    if (!stream_argument(args, "OO:synchronize", &s)) return NULL;
    return fa_stream_synchronize(s) ? Py_NewRef(Py_None) : fapy_raise();
}

static PyObject *stream_wait_stream(PyObject *self, PyObject *args)
{
    PyObject *device, *id, *other_device, *other_id;
    fa_stream s, other;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO:wait_stream", &device, &id, &other_device, &other_id)) return NULL;
    if (!stream_from(device, id, &s) || !stream_from(other_device, other_id, &other)) return NULL;
    return fa_stream_wait_stream(s, other) ? Py_NewRef(Py_None) : fapy_raise();
}

/* Tensor.record_stream: of any object with a device and a stream_id */
FAPY_DO(record_stream)
{
    PyObject *device = PyObject_GetAttrString(v[1].as.o, "device"), *id = device ? PyObject_GetAttrString(v[1].as.o, "stream_id") : NULL;
    fa_stream s;
    const bool fine = id && stream_from(device, id, &s);
    if (!id) PyErr_Clear(), PyErr_Format(PyExc_TypeError, "record_stream(): argument 's' (position 1) must be Stream, not %s", Py_TYPE(v[1].as.o)->tp_name);
    Py_XDECREF(device), Py_XDECREF(id);
    if (!fine) return NULL;
    return fa_record_stream(v[0].as.t, s) ? Py_NewRef(Py_None) : fapy_raise();
}

/* ---- events ---- */

static PyObject *event_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"enable_timing", NULL};
    int timing = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p:Event", names, &timing)) return NULL;
    event *e = (event *)type->tp_alloc(type, 0);
    if (!e) return NULL;
    const uint32_t mark = FAPY_MARK;
    e->event = fapy_own(fa_event_new(timing), mark);
    if (e->event) return (PyObject *)e;
    Py_DECREF(e);
    return fapy_raise();
}

static void event_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    fai_unref(((event *)self)->event);
    type->tp_free(self);
}

static PyObject *event_record(PyObject *self, PyObject *args)
{
    fa_stream s;
    if (!stream_argument(args, "OO:record", &s)) return NULL;
    return fa_event_record(((event *)self)->event, s) ? Py_NewRef(Py_None) : fapy_raise();
}

static PyObject *event_wait(PyObject *self, PyObject *args)
{
    fa_stream s;
    if (!stream_argument(args, "OO:wait", &s)) return NULL;
    return fa_event_wait(((event *)self)->event, s) ? Py_NewRef(Py_None) : fapy_raise();
}

static PyObject *event_query(PyObject *self, PyObject *unused) { (void)unused; return yes_or_raise(fa_event_query(((event *)self)->event)); }

static PyObject *event_synchronize(PyObject *self, PyObject *unused)
{
    (void)unused;
    return fa_event_synchronize(((event *)self)->event) ? Py_NewRef(Py_None) : fapy_raise();
}

static PyTypeObject event_type;
static PyObject *event_elapsed(PyObject *self, PyObject *end)
{
    if (Py_TYPE(end) != &event_type) return PyErr_SetString(PyExc_TypeError, "elapsed_time(): argument 'end_event' must be an Event"), NULL;
    const double milliseconds = fa_event_elapsed(((event *)self)->event, ((event *)end)->event);
    return fa_failed() ? fapy_raise() : PyFloat_FromDouble(milliseconds);
}

static PyObject *event_device(PyObject *self, void *unused)
{
    (void)unused;
    const fa_device d = fa_event_device(((event *)self)->event);
    return d.type ? fapy_device_new(d) : Py_NewRef(Py_None);
}

static PyObject *event_address(PyObject *self, void *unused) { (void)unused; return PyLong_FromVoidPtr(((event *)self)->event); }

static PyMethodDef event_methods[] = {{"record", event_record, METH_VARARGS, NULL}, {"wait", event_wait, METH_VARARGS, NULL},
    {"query", event_query, METH_NOARGS, NULL}, {"synchronize", event_synchronize, METH_NOARGS, NULL}, {"elapsed", event_elapsed, METH_O, NULL}, {0}};
static PyGetSetDef event_attributes[] = {{"device", event_device, NULL, NULL, NULL}, {"address", event_address, NULL, NULL, NULL}, {0}};
static PyTypeObject event_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._Event", .tp_basicsize = sizeof(event), .tp_flags = Py_TPFLAGS_DEFAULT,
                                  .tp_new = event_make, .tp_dealloc = event_dealloc, .tp_methods = event_methods, .tp_getset = event_attributes};

PyMethodDef fapy_stream_functions[] = {{"_stream", stream_get, METH_VARARGS, NULL}, {"_stream_set", stream_set, METH_VARARGS, NULL},
    {"_stream_facts", stream_facts, METH_VARARGS, NULL}, {"_stream_query", stream_query, METH_VARARGS, NULL},
    {"_stream_synchronize", stream_synchronize, METH_VARARGS, NULL}, {"_stream_wait_stream", stream_wait_stream, METH_VARARGS, NULL}, {0}};

bool fapy_streams_set_up(PyObject *module)
{
    return !PyType_Ready(&event_type) && !PyModule_AddObjectRef(module, "_Event", (PyObject *)&event_type) && !PyModule_AddFunctions(module, fapy_stream_functions);
}
