/* The small values that torch's functions take and give: device, dtype, Size, layout, memory_format; and numbers of Python. */
#include "face.h"

/* ---- device ---- */

PyObject *fapy_device_new(fa_device device)
{
    fapy_device_object *o = PyObject_New(fapy_device_object, &fapy_Device);
    if (o) o->device = device;
    return (PyObject *)o;
}

static bool device_of_index(int64_t index, fa_device *out)
{
    if (index < 0) return PyErr_SetString(PyExc_RuntimeError, "Device index must not be negative"), false;
    const fa_device accelerator = fa_accelerator();
    *out = fa_device_of_type(accelerator.type ? accelerator.type : FA_DEVICE_CUDA, (int)index);
    return true;
}

bool fapy_device_from(PyObject *o, const char *function, const char *argument, int position, fa_device *out)
{
    if (Py_TYPE(o) == &fapy_Device) return *out = ((fapy_device_object *)o)->device, true;
    if (PyUnicode_Check(o)) {
        const char *text = PyUnicode_AsUTF8(o);
        if (!text) return false;
        *out = fa_device_parse(text);
        return out->type ? true : (fapy_raise(), false);
    }
    if (PyLong_Check(o) && !PyBool_Check(o)) {
        const int64_t index = PyLong_AsLongLong(o); /* beyond int64: Python's OverflowError */
        return !PyErr_Occurred() && device_of_index(index, out);
    }
    if (position) PyErr_Format(PyExc_TypeError, "%s(): argument '%s' (position %d) must be torch.device, not %s", function, argument, position, Py_TYPE(o)->tp_name);
    else PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be torch.device, not %s", function, argument, Py_TYPE(o)->tp_name);
    return false;
}

static PyObject *device_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"type", "index", NULL}, *named[] = {"device", "index", NULL};
    PyObject *what = NULL, *index = NULL;
    const bool by_device = keywords && PyDict_GetItemString(keywords, "device");
    (void)type;
    if (PyTuple_GET_SIZE(args) == 0 && (!keywords || PyDict_Size(keywords) == 0))
        return PyErr_SetString(PyExc_TypeError, "device() received an invalid combination of arguments - got (), but expected one of:\n * (torch.device device)\n * (str type, int index = -1)\n"), NULL;
    PyObject *name, *given;
    for (Py_ssize_t at = 0; keywords && PyDict_Next(keywords, &at, &name, &given);)
        if (PyUnicode_CompareWithASCIIString(name, by_device ? "device" : "type") && PyUnicode_CompareWithASCIIString(name, "index"))
            return PyErr_Format(PyExc_TypeError, "device() got an unexpected keyword argument '%U'", name);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:device", by_device ? named : names, &what, &index)) return NULL;
    fa_device device;
    PyObject *text = PyBytes_Check(what) ? PyUnicode_FromEncodedObject(what, "utf-8", "strict") : Py_NewRef(what);
    if (!text) return NULL;
    if (!PyUnicode_Check(text) && Py_TYPE(text) != &fapy_Device && (PyBool_Check(text) || !PyLong_Check(text))) {
        PyErr_Format(PyExc_TypeError, "device() received an invalid combination of arguments - got (%s), but expected one of:\n * (torch.device device)\n"
                     "      didn't match because some of the arguments have invalid types: (!%s!)\n * (str type, int index = -1)\n",
                     Py_TYPE(what)->tp_name, Py_TYPE(what)->tp_name);
        return Py_DECREF(text), NULL;
    }
    const bool fine = fapy_device_from(text, "device", "type", 1, &device);
    Py_DECREF(text);
    if (!fine) return NULL;
    if (!index || Py_IsNone(index)) return fapy_device_new(device);
    if (!PyLong_Check(index) || PyBool_Check(index))
        return PyErr_Format(PyExc_TypeError, "device(): argument 'index' (position 2) must be int, not %s", Py_TYPE(index)->tp_name);
    const long long i = PyLong_AsLongLong(index);
    if (PyErr_Occurred()) return NULL;
    if (device.index >= 0) return PyErr_Format(PyExc_RuntimeError, "type (string) must not include an index because index was passed explicitly: %s", fa_device_text(device));
    if (i < 0) return PyErr_SetString(PyExc_RuntimeError, "Device index must not be negative"), NULL;
    if (i > INT16_MAX) return PyErr_Format(PyExc_RuntimeError, "Device index %lld is too large: no machine has so many devices", i);
    device.index = (int16_t)i;
    return fapy_device_new(device);
}

static fa_device device_of(PyObject *self) { return ((fapy_device_object *)self)->device; }
static const char *type_name(fa_device device) { return fa_device_text(fa_device_of_type(device.type, -1)); }

static PyObject *device_repr(PyObject *self)
{
    const fa_device d = device_of(self);
    if (d.index < 0) return PyUnicode_FromFormat("device(type='%s')", type_name(d));
    return PyUnicode_FromFormat("device(type='%s', index=%d)", type_name(d), d.index);
}

static PyObject *device_str(PyObject *self) { return PyUnicode_FromString(fa_device_text(device_of(self))); }
static Py_hash_t device_hash(PyObject *self) { return (Py_hash_t)(device_of(self).type - 1) << 16 | (device_of(self).index & 255); }
static PyObject *device_type(PyObject *self, void *unused) { (void)unused; return PyUnicode_FromString(type_name(device_of(self))); }

static PyObject *device_index(PyObject *self, void *unused)
{
    (void)unused;
    if (device_of(self).index < 0) Py_RETURN_NONE;
    return PyLong_FromLong(device_of(self).index);
}

static PyObject *device_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(a) != &fapy_Device || Py_TYPE(b) != &fapy_Device) Py_RETURN_NOTIMPLEMENTED;
    if (op != Py_EQ && op != Py_NE) return PyErr_SetString(PyExc_TypeError, "comparison not implemented"), NULL;
    return PyBool_FromLong(fa_device_equal(device_of(a), device_of(b)) == (op == Py_EQ));
}

static PyObject *device_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    fa_device_scope_open(device_of(self));
    if (fa_failed()) return fapy_raise();
    return Py_NewRef(self);
}

static PyObject *device_exit(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self, (void)args, (void)n;
    fa_device_scope_close();
    Py_RETURN_NONE;
}

static PyObject *device_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    const fa_device d = device_of(self);
    if (d.index < 0) return Py_BuildValue("O(s)", Py_TYPE(self), type_name(d));
    return Py_BuildValue("O(si)", Py_TYPE(self), type_name(d), d.index);
}

static PyGetSetDef device_attributes[] = {{"type", device_type, NULL, "The kind: 'cpu', 'cuda', ...", NULL},
                                          {"index", device_index, NULL, "Its number, or None.", NULL}, {0}};
static PyMethodDef device_methods[] = {{"__enter__", device_enter, METH_NOARGS, NULL},
                                       {"__exit__", (PyCFunction)(void (*)(void))device_exit, METH_FASTCALL, NULL},
                                       {"__reduce__", device_reduce, METH_NOARGS, NULL}, {0}};
PyTypeObject fapy_Device = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "device", .tp_basicsize = sizeof(fapy_device_object), .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = device_make, .tp_repr = device_repr, .tp_str = device_str, .tp_hash = device_hash, .tp_richcompare = device_compare,
    .tp_getset = device_attributes, .tp_methods = device_methods,
    .tp_doc = "device(type, index=None)\n--\n\nThe name of a device: device('cuda'), device('cuda:1'), device('cuda', 1). Making one needs no such device.\n"
              "As a context, `with torch.device('cuda'):` new tensors are made there.\n\n"
              ">>> torch.device('cuda', 1)\n"
              "device(type='cuda', index=1)\n"
              ">>> torch.device('cuda:1').index\n"
              "1"};

/* ---- dtype ---- */

static PyObject *dtypes[FA_DTYPE_COUNT];

PyObject *fapy_dtype_new(fa_dtype dtype) { return Py_NewRef(dtypes[dtype]); }

bool fapy_dtype_from(PyObject *o, const char *function, const char *argument, int position, fa_dtype *out)
{
    if (Py_TYPE(o) == &fapy_Dtype) return *out = ((fapy_dtype_object *)o)->dtype, true;
    if (o == (PyObject *)&PyFloat_Type) return *out = FA_FLOAT64, true;
    if (o == (PyObject *)&PyLong_Type) return *out = FA_INT64, true;
    if (o == (PyObject *)&PyBool_Type) return *out = FA_BOOL, true;
    if (position) PyErr_Format(PyExc_TypeError, "%s(): argument '%s' (position %d) must be torch.dtype, not %s", function, argument, position, Py_TYPE(o)->tp_name);
    else PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be torch.dtype, not %s", function, argument, Py_TYPE(o)->tp_name);
    return false;
}

static fa_dtype dtype_of(PyObject *self) { return ((fapy_dtype_object *)self)->dtype; }
static PyObject *dtype_repr(PyObject *self) { return PyUnicode_FromFormat("%s.%s", fapy_names, fa_dtype_name(dtype_of(self))); }
static PyObject *dtype_reduce(PyObject *self, PyObject *unused) { (void)unused; return PyUnicode_FromString(fa_dtype_name(dtype_of(self))); }
static PyObject *dtype_floating(PyObject *self, void *unused) { (void)unused; return PyBool_FromLong(fa_dtype_is_floating(dtype_of(self))); }
static PyObject *dtype_complex(PyObject *self, void *unused) { (void)self, (void)unused; Py_RETURN_FALSE; }
static PyObject *dtype_signed(PyObject *self, void *unused) { (void)unused; return PyBool_FromLong(dtype_of(self) != FA_BOOL && dtype_of(self) != FA_UINT8); }
static PyObject *dtype_itemsize(PyObject *self, void *unused) { (void)unused; return PyLong_FromSize_t(fa_dtype_size(dtype_of(self))); }

static PyGetSetDef dtype_attributes[] = {{"is_floating_point", dtype_floating, NULL, "", NULL}, {"is_complex", dtype_complex, NULL, "", NULL},
                                         {"is_signed", dtype_signed, NULL, "", NULL}, {"itemsize", dtype_itemsize, NULL, "Bytes of an element.", NULL}, {0}};
static PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, NULL}, {0}};
PyTypeObject fapy_Dtype = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dtype", .tp_basicsize = sizeof(fapy_dtype_object),
                           .tp_flags = Py_TPFLAGS_DEFAULT, .tp_repr = dtype_repr, .tp_getset = dtype_attributes, .tp_methods = dtype_methods,
                           .tp_doc = "The type of a tensor's elements.\n\n"
              ">>> torch.ones(1).dtype, torch.float16.itemsize\n"
              "(torch.float32, 2)"};

static bool add_dtypes(PyObject *module)
{
    static const struct { const char *name; fa_dtype dtype; } also[] = {
        {"uint8", FA_UINT8}, {"short", FA_INT16}, {"int", FA_INT32}, {"long", FA_INT64}, {"half", FA_FLOAT16}, {"float", FA_FLOAT32}, {"double", FA_FLOAT64}};
    for (int d = FA_BOOL; d < FA_DTYPE_COUNT; d++) {
        fapy_dtype_object *o = PyObject_New(fapy_dtype_object, &fapy_Dtype);
        if (!o) return false;
        o->dtype = (fa_dtype)d, o->name = fa_dtype_name((fa_dtype)d);
        dtypes[d] = (PyObject *)o;
        if (PyModule_AddObjectRef(module, o->name, dtypes[d])) return false;
    }
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        if (PyModule_AddObjectRef(module, also[i].name, dtypes[also[i].dtype])) return false;
    return true;
}

/* ---- Size: a tuple of ints ---- */

PyObject *fapy_size_new(int ndim, const int64_t *size)
{
    PyObject *o = PyTuple_Type.tp_alloc(&fapy_Size, ndim);
    for (int i = 0; o && i < ndim; i++) {
        PyObject *n = PyLong_FromLongLong(size[i]);
        if (!n) return Py_DECREF(o), NULL;
        PyTuple_SET_ITEM(o, i, n);
    }
    return o;
}

static PyObject *size_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *self = PyTuple_Type.tp_new(type, args, keywords);
    for (Py_ssize_t i = 0; self && i < PyTuple_GET_SIZE(self); i++) {
        PyObject *item = PyTuple_GET_ITEM(self, i);
        int64_t value;
        if (PyLong_Check(item)) continue;
        if (!fapy_int_from(item, &value)) {
            if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i, Py_TYPE(item)->tp_name);
            return Py_DECREF(self), NULL;
        }
        PyTuple_SET_ITEM(self, i, PyLong_FromLongLong(value));
        Py_DECREF(item);
    }
    return self;
}

static PyObject *size_repr(PyObject *self)
{
    PyObject *list = PySequence_List(self), *text = list ? PyUnicode_FromFormat("%s.Size(%R)", fapy_names, list) : NULL;
    Py_XDECREF(list);
    return text;
}

static PyObject *size_numel(PyObject *self, PyObject *unused)
{
    (void)unused;
    int64_t n = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); i++) n *= PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(n);
}

static PyObject *as_size(PyObject *tuple)
{
    if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
    PyObject *size = PyObject_CallOneArg((PyObject *)&fapy_Size, tuple);
    if (!size && PyErr_ExceptionMatches(PyExc_TypeError)) return PyErr_Clear(), tuple; /* joined with something else: a plain tuple */
    Py_DECREF(tuple);
    return size;
}

static PyObject *size_concat(PyObject *a, PyObject *b) { return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b)); }
static PyObject *size_repeat(PyObject *a, Py_ssize_t n) { return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(a, n)); }
static PyObject *size_subscript(PyObject *a, PyObject *key) { return as_size(PyTuple_Type.tp_as_mapping->mp_subscript(a, key)); }
static PyObject *size_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PySequence_List(self), *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple ? Py_BuildValue("O(N)", &fapy_Size, tuple) : NULL;
}

static PySequenceMethods size_sequence;
static PyMappingMethods size_mapping;
static PyMethodDef size_methods[] = {{"numel", size_numel, METH_NOARGS, "numel()\n--\n\nHow many elements a tensor of this size has."},
                                     {"__reduce__", size_reduce, METH_NOARGS, NULL}, {0}};
PyTypeObject fapy_Size = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "Size", .tp_base = &PyTuple_Type, .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                          .tp_new = size_make, .tp_repr = size_repr, .tp_methods = size_methods, .tp_doc = "The sizes of a tensor: a tuple of ints.\n\n"
              ">>> torch.Size([2, 3]).numel()\n"
              "6"};

/* ---- layout and memory format: names that are accepted; all of Facula's tensors are strided ---- */

typedef struct named { PyObject_HEAD const char *name; } named;
static PyObject *named_repr(PyObject *self) { return PyUnicode_FromFormat("%s.%s", fapy_names, ((named *)self)->name); }
static PyObject *named_reduce(PyObject *self, PyObject *unused) { (void)unused; return PyUnicode_FromString(((named *)self)->name); }
static PyMethodDef named_methods[] = {{"__reduce__", named_reduce, METH_NOARGS, NULL}, {0}};
PyTypeObject fapy_Layout = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "layout", .tp_basicsize = sizeof(named), .tp_flags = Py_TPFLAGS_DEFAULT,
                            .tp_repr = named_repr, .tp_methods = named_methods, .tp_doc = "How elements lie in memory.\n\n"
              ">>> torch.ones(1).layout\n"
              "torch.strided"};
PyTypeObject fapy_MemoryFormat = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "memory_format", .tp_basicsize = sizeof(named), .tp_flags = Py_TPFLAGS_DEFAULT,
                                  .tp_repr = named_repr, .tp_methods = named_methods, .tp_doc = "The order of dimensions in memory.\n\n"
              ">>> torch.channels_last\n"
              "torch.channels_last"};

PyObject *fapy_strided;
/* In the order of fapy_format. */
static const char *const formats[] = {"", "contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};

fapy_format fapy_format_of(PyObject *o)
{
    for (int f = FAPY_CONTIGUOUS; Py_TYPE(o) == &fapy_MemoryFormat && f <= FAPY_CHANNELS_LAST_3D; f++)
        if (((named *)o)->name == formats[f]) return (fapy_format)f;
    return FAPY_NO_FORMAT;
}

static bool add_named(PyObject *module, PyTypeObject *type, const char *name)
{
    named *o = PyObject_New(named, type);
    if (!o) return false;
    o->name = name;
    const int failed = PyModule_AddObjectRef(module, name, (PyObject *)o);
    if (type == &fapy_Layout) fapy_strided = (PyObject *)o;
    else Py_DECREF(o);
    return !failed;
}

/* ---- numbers ---- */

bool fapy_scalar_from(PyObject *o, fa_scalar *out)
{
    if (PyFloat_Check(o)) return *out = fa_scalar_of_float(PyFloat_AS_DOUBLE(o)), true;
    if (PyBool_Check(o)) return *out = fa_scalar_of_bool(o == Py_True), true;
    if (PyLong_Check(o)) {
        const long long value = PyLong_AsLongLong(o);
        if (value == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            PyErr_SetString(PyExc_RuntimeError, "Overflow when unpacking long long");
            return false;
        }
        return *out = fa_scalar_of_int(value), true;
    }
    if (fapy_tensor_check(o) || PyUnicode_Check(o) || PyTuple_Check(o) || PyList_Check(o)) return false;
    /* NumPy's numbers: a float has no __index__; arrays are no numbers */
    if (PyObject_CheckBuffer(o) && PyObject_HasAttrString(o, "ndim") && PyObject_HasAttrString(o, "tolist")) {
        PyObject *item = PyObject_CallMethod(o, "tolist", NULL);
        const bool fine = item && !PyList_Check(item) && !PyUnicode_Check(item) && fapy_scalar_from(item, out);
        Py_XDECREF(item);
        if (!fine) PyErr_Clear();
        return fine;
    }
    if (PyIndex_Check(o)) {
        PyObject *index = PyNumber_Index(o);
        const bool fine = index && fapy_scalar_from(index, out);
        Py_XDECREF(index);
        return fine;
    }
    return false;
}

bool fapy_int_from(PyObject *o, int64_t *out)
{
    if (PyLong_Check(o)) {
        *out = PyLong_AsLongLong(o);
        return !(*out == -1 && PyErr_Occurred());
    }
    if (PyFloat_Check(o) || !PyIndex_Check(o)) return false;
    PyObject *index = PyNumber_Index(o);
    if (!index) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();
        return false;
    }
    *out = PyLong_AsLongLong(index);
    Py_DECREF(index);
    return !(*out == -1 && PyErr_Occurred());
}

/* ---- set-up ---- */

/* tp_name carries the module's name; both outlive the process. */
static const char *qualified(const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "%s.%s", fapy_names, name);
    return strdup(text);
}

bool fapy_values_set_up(PyObject *module)
{
    static PyTypeObject *const types[] = {&fapy_Device, &fapy_Dtype, &fapy_Size, &fapy_Layout, &fapy_MemoryFormat};
    static const char *const names[] = {"device", "dtype", "Size", "layout", "memory_format"};
    size_sequence = *PyTuple_Type.tp_as_sequence, size_mapping = *PyTuple_Type.tp_as_mapping;
    size_sequence.sq_concat = size_concat, size_sequence.sq_repeat = size_repeat, size_mapping.mp_subscript = size_subscript;
    fapy_Size.tp_as_sequence = &size_sequence, fapy_Size.tp_as_mapping = &size_mapping;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        types[i]->tp_name = qualified(names[i]);
        if (!types[i]->tp_name || PyType_Ready(types[i]) || PyModule_AddObjectRef(module, names[i], (PyObject *)types[i])) return false;
    }
    for (int f = FAPY_CONTIGUOUS; f <= FAPY_CHANNELS_LAST_3D; f++)
        if (!add_named(module, &fapy_MemoryFormat, formats[f])) return false;
    return add_dtypes(module) && add_named(module, &fapy_Layout, "strided");
}
