/* The memory of devices: what the library counts of it, as Python's numbers, dicts and texts. A device that is not there has used nothing. */
#include "bind.h"

/* False and an exception if it is no device; index given unless no such device is there. */
static bool device_of(PyObject *o, const char *function, fa_device *out, bool *there)
{
    if (!fapy_device_from(o, function, "device", 1, out)) return false;
    *there = fa_device_is_available(out->type);
    if (*there && !fai_device_resolve(out, function)) return fapy_raise(), false;
    return true;
}

static PyObject *empty_cache(PyObject *self, PyObject *device)
{
    fa_device d;
    bool there;
    (void)self;
    if (!device_of(device, "empty_cache", &d, &there)) return NULL;
    if (there && !fa_empty_cache(d)) return fapy_raise();
    Py_RETURN_NONE;
}

static PyObject *cache_devices(PyObject *self, PyObject *on)
{
    (void)self;
    return PyBool_FromLong(fa_memory_caching(on == Py_True));
}

static void put(void *dict, const char *name, int64_t value)
{
    PyObject *number = PyLong_FromLongLong(value);
    if (number && !PyErr_Occurred()) PyDict_SetItemString(dict, name, number);
    Py_XDECREF(number);
}

/* {name: number}; empty where there is no device. */
static PyObject *memory_stats(PyObject *self, PyObject *device)
{
    fa_device d;
    fa_memory_stats stats;
    bool there;
    (void)self;
    if (!device_of(device, "memory_stats", &d, &there)) return NULL;
    PyObject *dict = PyDict_New();
    if (!dict || !there) return dict;
    if (!fa_memory_get_stats(d, &stats)) return Py_DECREF(dict), fapy_raise();
    fa_memory_visit_stats(&stats, put, dict);
    if (PyErr_Occurred()) Py_CLEAR(dict);
    return dict;
}

/* (allocated, reserved, peak allocated, peak reserved) in bytes; zeros where there is no device. */
static PyObject *memory_use(PyObject *self, PyObject *device)
{
    fa_device d;
    bool there;
    (void)self;
    if (!device_of(device, "memory_allocated", &d, &there)) return NULL;
    if (!there) return Py_BuildValue("iiii", 0, 0, 0, 0);
    return Py_BuildValue("KKKK", (unsigned long long)fa_memory_allocated(d), (unsigned long long)fa_memory_reserved(d),
                         (unsigned long long)fa_max_memory_allocated(d), (unsigned long long)fa_max_memory_reserved(d));
}

/* (bytes, blocks) that the library holds on the host: tests look for leaks with it. */
static PyObject *host_memory(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    const fa_memory_use use = fa_host_memory_use();
    return Py_BuildValue("KK", (unsigned long long)use.bytes, (unsigned long long)use.blocks);
}

static void put_count(PyObject *dict, const char *name, const fa_memory_count *c)
{
    const uint64_t value[] = {c->current, c->peak, c->allocated, c->freed};
    static const char *const part[] = {"current", "peak", "allocated", "freed"};
    char full[64];
    for (int i = 0; i < 4; i++) {
        snprintf(full, sizeof full, "%s.%s", name, part[i]);
        put(dict, full, (int64_t)value[i]);
    }
}

/* {name: number} of the host's pinned memory. */
static PyObject *pinned_stats(PyObject *self, PyObject *unused)
{
    fa_pinned_stats s;
    PyObject *dict = PyDict_New();
    (void)self, (void)unused;
    if (!dict) return NULL;
    fa_pinned_get_stats(&s);
    put_count(dict, "allocations", &s.allocations);
    put_count(dict, "allocated_bytes", &s.allocated_bytes);
    put_count(dict, "active_requests", &s.active_requests);
    put_count(dict, "active_bytes", &s.active_bytes);
    put(dict, "num_host_alloc", (int64_t)s.allocations.allocated);
    put(dict, "num_host_free", (int64_t)s.allocations.freed);
    if (PyErr_Occurred()) Py_CLEAR(dict);
    return dict;
}

/* pinned_reset(peaks): else what was ever allocated and freed. */
static PyObject *pinned_reset(PyObject *self, PyObject *peaks)
{
    (void)self;
    const int truth = PyObject_IsTrue(peaks);
    if (truth < 0) return NULL;
    if (truth) fa_pinned_reset_peak();
    else fa_pinned_reset_accumulated();
    Py_RETURN_NONE;
}

static PyObject *pinned_empty_cache(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    fa_pinned_empty_cache();
    Py_RETURN_NONE;
}

static PyObject *reset_with(PyObject *device, void (*reset)(fa_device), const char *function)
{
    fa_device d;
    bool there;
    if (!device_of(device, function, &d, &there)) return NULL;
    if (!there) return PyErr_Format(PyExc_RuntimeError, "invalid argument to %s", function);
    reset(d);
    Py_RETURN_NONE;
}
static PyObject *reset_peak(PyObject *self, PyObject *device) { (void)self; return reset_with(device, fa_reset_peak_memory_stats, "reset_peak_memory_stats"); }
static PyObject *reset_accumulated(PyObject *self, PyObject *device)
{
    (void)self;
    return reset_with(device, fa_reset_accumulated_memory_stats, "reset_accumulated_memory_stats");
}

static PyObject *mem_get_info(PyObject *self, PyObject *device)
{
    fa_device d;
    uint64_t free_bytes, total;
    (void)self;
    if (!fapy_device_from(device, "mem_get_info", "device", 1, &d)) return NULL;
    if (!fai_device_resolve(&d, "mem_get_info") || !fa_memory_info(d, &free_bytes, &total)) return fapy_raise();
    return Py_BuildValue("KK", (unsigned long long)free_bytes, (unsigned long long)total);
}

/* memory_fraction(device[, fraction]) */
static PyObject *memory_fraction(PyObject *self, PyObject *args)
{
    PyObject *device;
    double fraction = -1;
    fa_device d;
    (void)self;
    if (!PyArg_ParseTuple(args, "O|d", &device, &fraction) || !fapy_device_from(device, "set_per_process_memory_fraction", "device", 1, &d)) return NULL;
    if (!fai_device_resolve(&d, "set_per_process_memory_fraction")) return fapy_raise();
    if (PyTuple_GET_SIZE(args) == 1) return PyFloat_FromDouble(fa_memory_fraction(d));
    return fa_set_memory_fraction(d, fraction) ? Py_NewRef(Py_None) : fapy_raise();
}

/* What a function writes that is asked for the length first. */
static PyObject *text_of(fa_device d, bool flag, size_t (*write)(fa_device, bool, char *, size_t))
{
    size_t room = 8192;
    for (;;) {
        char *text = PyMem_Malloc(room);
        if (!text) return PyErr_NoMemory();
        const size_t n = write(d, flag, text, room);
        PyObject *result = n < room && !fa_failed() ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace") : NULL;
        PyMem_Free(text);
        if (result || n < room || fa_failed()) return fa_failed() ? (Py_XDECREF(result), fapy_raise()) : result;
        room = n + 1;
    }
}

static PyObject *memory_summary(PyObject *self, PyObject *args)
{
    PyObject *device;
    int abbreviated;
    fa_device d;
    (void)self;
    if (!PyArg_ParseTuple(args, "Op", &device, &abbreviated) || !fapy_device_from(device, "memory_summary", "device", 1, &d)) return NULL;
    return text_of(d, abbreviated, fa_memory_summary);
}

static size_t explain(fa_device d, bool unused, char *out, size_t n) { (void)unused; return fa_memory_explain(d, out, n); }
static PyObject *memory_explain(PyObject *self, PyObject *device)
{
    fa_device d;
    (void)self;
    return fapy_device_from(device, "memory_explain", "device", 1, &d) ? text_of(d, false, explain) : NULL;
}

static PyObject *block_of(const fa_memory_block *b)
{
    return Py_BuildValue("KKKKKOOs", (unsigned long long)b->segment, (unsigned long long)b->segment_bytes, (unsigned long long)b->address,
                         (unsigned long long)b->bytes, (unsigned long long)b->requested, b->live ? Py_True : Py_False, b->small ? Py_True : Py_False, b->op);
}

/* [(segment, its bytes, address, bytes, requested, live, small, op)] in the order of addresses. */
static PyObject *memory_blocks(PyObject *self, PyObject *device)
{
    fa_device d;
    bool there;
    (void)self;
    if (!device_of(device, "memory_snapshot", &d, &there)) return NULL;
    const size_t room = there ? fa_memory_blocks(d, NULL, 0) : 0;
    fa_memory_block *block = PyMem_Calloc(room + 1, sizeof *block);
    if (!block) return PyErr_NoMemory();
    size_t n = room ? fa_memory_blocks(d, block, room) : 0;
    if (n > room) n = room;
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *one = block_of(&block[i]);
        if (one) PyList_SET_ITEM(list, (Py_ssize_t)i, one);
        else Py_CLEAR(list);
    }
    PyMem_Free(block);
    if (fa_failed()) return Py_XDECREF(list), fapy_raise();
    return list;
}

static PyObject *memory_alloc(PyObject *self, PyObject *args)
{
    PyObject *device;
    Py_ssize_t bytes;
    fa_device d;
    (void)self;
    if (!PyArg_ParseTuple(args, "On", &device, &bytes) || !fapy_device_from(device, "caching_allocator_alloc", "device", 1, &d)) return NULL;
    if (bytes < 0) return PyErr_Format(PyExc_RuntimeError, "invalid size of an allocation: %zd", bytes);
    const uint64_t address = fai_device_resolve(&d, "caching_allocator_alloc") ? fa_memory_alloc(d, (size_t)bytes) : 0;
    return address ? PyLong_FromUnsignedLongLong(address) : fapy_raise();
}

static PyObject *memory_free(PyObject *self, PyObject *args)
{
    PyObject *device;
    unsigned long long address;
    fa_device d;
    (void)self;
    if (!PyArg_ParseTuple(args, "OK", &device, &address) || !fapy_device_from(device, "caching_allocator_delete", "device", 1, &d)) return NULL;
    if (!fai_device_resolve(&d, "caching_allocator_delete") || !fa_memory_free(d, address)) return fapy_raise();
    Py_RETURN_NONE;
}

/* package(folder): whose frames are not the user's. */
static PyObject *package(PyObject *self, PyObject *folder)
{
    (void)self;
    const char *text = PyUnicode_AsUTF8(folder);
    if (!text) return NULL;
    fapy_site_set_up(text);
    Py_RETURN_NONE;
}

PyMethodDef fapy_memory_functions[] = {
    {"_package", package, METH_O, NULL},
    {"_empty_cache", empty_cache, METH_O, NULL},
    {"_cache_devices", cache_devices, METH_O, NULL},
    {"_memory_stats", memory_stats, METH_O, NULL},
    {"_memory_use", memory_use, METH_O, NULL},
    {"_host_memory", host_memory, METH_NOARGS, NULL},
    {"_reset_peak", reset_peak, METH_O, NULL},
    {"_reset_accumulated", reset_accumulated, METH_O, NULL},
    {"_mem_get_info", mem_get_info, METH_O, NULL},
    {"_memory_fraction", memory_fraction, METH_VARARGS, NULL},
    {"_memory_summary", memory_summary, METH_VARARGS, NULL},
    {"_pinned_stats", pinned_stats, METH_NOARGS, NULL},
    {"_pinned_reset", pinned_reset, METH_O, NULL},
    {"_pinned_empty_cache", pinned_empty_cache, METH_NOARGS, NULL},
    {"_memory_explain", memory_explain, METH_O, NULL},
    {"_memory_blocks", memory_blocks, METH_O, NULL},
    {"_memory_alloc", memory_alloc, METH_VARARGS, NULL},
    {"_memory_free", memory_free, METH_VARARGS, NULL},
    {0}};
