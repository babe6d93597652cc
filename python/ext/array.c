/* Arrays of others: the buffer protocol, NumPy, DLPack. NumPy is asked for only when a user asks for it. */
#include "face.h"

typedef struct format { char code; fa_dtype dtype; } format;

/* The dtype of a buffer's element; 0: none of ours. */
static fa_dtype dtype_of_format(const Py_buffer *b)
{
    static const format formats[] = {{'?', FA_BOOL}, {'B', FA_UINT8}, {'b', FA_INT8}, {'e', FA_FLOAT16}, {'f', FA_FLOAT32}, {'d', FA_FLOAT64}};
    const char *f = b->format ? b->format : "B";
    if (*f == '@' || *f == '=' || *f == '<') f++;
    if (!*f || f[1]) return 0;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].code == *f) return formats[i].dtype;
    if (strchr("hilq", *f)) return b->itemsize == 2 ? FA_INT16 : b->itemsize == 4 ? FA_INT32 : FA_INT64;
    return 0;
}

static void release_buffer(void *context)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(context);
    PyMem_Free(context);
    PyGILState_Release(state);
}

/* A view of all the memory with the strides given. */
static fa_tensor *wrap(Py_buffer *b, fa_dtype dtype)
{
    fa_shape shape = {b->ndim, {0}}, strides = {b->ndim, {0}};
    int64_t span = b->itemsize, numel = 1;
    for (int i = 0; i < b->ndim; i++) {
        shape.dim[i] = b->shape[i], strides.dim[i] = b->strides[i] / b->itemsize, numel *= b->shape[i];
        span += b->shape[i] > 1 ? (b->shape[i] - 1) * b->strides[i] : 0;
    }
    fa_tensor *flat = fa_from_memory(b->buf, dtype, FA_SHAPE(numel ? span / b->itemsize : 0), release_buffer, b);
    if (!flat) {
        release_buffer(b);
        return NULL;
    }
    return numel ? fai_view("from_numpy", flat, shape.ndim, shape.dim, strides.dim, 0) : fa_view(flat, shape);
}

fa_tensor *fapy_from_buffer(PyObject *o)
{
    if (PyBytes_Check(o) || PyByteArray_Check(o) || !PyObject_CheckBuffer(o)) return NULL;
    Py_buffer *b = PyMem_Calloc(1, sizeof *b);
    if (!b) return PyErr_NoMemory(), NULL;
    if (PyObject_GetBuffer(o, b, PyBUF_FORMAT | PyBUF_STRIDES)) return PyMem_Free(b), PyErr_Clear(), NULL;
    const fa_dtype dtype = dtype_of_format(b);
    if (!dtype || b->ndim > FA_MAX_DIMS) {
        PyBuffer_Release(b);
        PyMem_Free(b);
        return NULL;
    }
    for (int i = 0; i < b->ndim; i++)
        if (b->strides[i] < 0) {
            PyBuffer_Release(b);
            PyMem_Free(b);
            fa_error_set(FA_ERR_VALUE, "from_numpy", "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. "
                         "(You can probably work around this by making a copy of your array  with array.copy().) ");
            return NULL;
        }
    return wrap(b, dtype);
}

/* ---- to NumPy ---- */

#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS
#define T(o) ((fa_tensor *)(o))

static const char *const buffer_formats[FA_DTYPE_COUNT] = {[FA_BOOL] = "?", [FA_UINT8] = "B", [FA_INT8] = "b", [FA_INT16] = "h", [FA_INT32] = "i",
                                                            [FA_INT64] = "l", [FA_FLOAT16] = "e", [FA_FLOAT32] = "f", [FA_FLOAT64] = "d"};

/* torch's sentences for tensors that can't be seen as an array. */
static bool array_ok(const fa_tensor *t)
{
    if (fa_is_requires_grad(t)) {
        static const char sentence[] = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.";
        if (fai_on_cpu(t)) return PyErr_SetString(PyExc_RuntimeError, sentence), false;
        return PyErr_Format(PyExc_RuntimeError, "%s It is on %s too: tensor.detach().cpu().numpy().", sentence, fa_device_text(t->device)), false;
    }
    if (!fai_on_cpu(t)) {
        PyErr_Format(PyExc_TypeError, "can't convert %s device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first. "
                     "Write tensor.cpu().numpy().", fa_device_text(t->device));
        return false;
    }
    if (!buffer_formats[t->dtype]) return PyErr_SetString(PyExc_TypeError, "Got unsupported ScalarType BFloat16. NumPy has no such type: use tensor.float().numpy()"), false;
    return true;
}

/* What an exported buffer needs as long as it is used: the memory, and sizes in bytes. */
typedef struct exported { fai_buffer *buffer; Py_ssize_t shape[FA_MAX_DIMS], strides[FA_MAX_DIMS]; } exported;

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    const fa_tensor *t = T(self);
    view->obj = NULL;
    if (!array_ok(t)) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        PyErr_Restore(type, value, trace);
        return -1;
    }
    if (!(flags & PyBUF_STRIDES) && !fa_is_contiguous(t)) return PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous: use tensor.contiguous()"), -1;
    exported *e = PyMem_Malloc(sizeof *e);
    if (!e) return PyErr_NoMemory(), -1;
    e->buffer = fai_buffer_ref(t->buffer);
    view->itemsize = (Py_ssize_t)fa_dtype_size((fa_dtype)t->dtype);
    for (int i = 0; i < t->ndim; i++) e->shape[i] = t->size[i], e->strides[i] = t->stride[i] * view->itemsize;
    view->buf = fai_host(t), view->len = t->numel * view->itemsize, view->readonly = 0, view->ndim = t->ndim;
    view->format = flags & PyBUF_FORMAT ? (char *)buffer_formats[t->dtype] : NULL;
    view->shape = flags & PyBUF_ND ? e->shape : NULL, view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? e->strides : NULL;
    view->suboffsets = NULL, view->internal = e;
    view->obj = Py_NewRef(self);
    return 0;
}

static void release_exported(PyObject *self, Py_buffer *view)
{
    exported *e = view->internal;
    (void)self;
    fai_buffer_unref(e->buffer);
    PyMem_Free(e);
}

PyBufferProcs fapy_buffer = {get_buffer, release_exported};

static PyObject *numpy_call(const char *name, PyObject *argument)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (!numpy) {
        if (PyErr_ExceptionMatches(PyExc_ImportError)) PyErr_SetString(PyExc_RuntimeError, "Numpy is not available. Install it: pip install numpy");
        return NULL;
    }
    PyObject *result = PyObject_CallMethod(numpy, name, "O", argument);
    Py_DECREF(numpy);
    return result;
}

static PyObject *tensor_numpy(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"force", FAPY_BOOL, FAPY_OPTIONAL | FAPY_KEYWORD}};
    static const fapy_signature signature = {"numpy", 1, parameters};
    fapy_value v[1];
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    PyObject *t = Py_NewRef(self);
    if (v[0].given && v[0].as.b) {
        const uint32_t mark = FAPY_MARK;
        Py_SETREF(t, fapy_take(fa_cpu(fa_detach(T(self))), mark));
        if (!t) return NULL;
    }
    if (!array_ok(T(t))) return Py_DECREF(t), NULL;
    PyObject *view = PyMemoryView_FromObject(t), *array = view ? numpy_call("asarray", view) : NULL;
    Py_DECREF(t);
    Py_XDECREF(view);
    return array;
}

/* For np.asarray(t, dtype) and ufuncs. */
static PyObject *tensor_array(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"dtype", FAPY_OBJ, FAPY_OPTIONAL | FAPY_NONE}, {"copy", FAPY_OBJ, FAPY_OPTIONAL | FAPY_NONE}};
    static const fapy_signature signature = {"__array__", 2, parameters};
    fapy_value v[2];
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    PyObject *array = tensor_numpy(self, NULL, 0, NULL);
    if (array && v[0].given) Py_SETREF(array, PyObject_CallMethod(array, "astype", "O", v[0].as.o));
    else if (array && v[1].given && v[1].as.o == Py_True) Py_SETREF(array, PyObject_CallMethod(array, "copy", NULL));
    return array;
}

static PyObject *from_array(PyObject *o)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *t = fapy_from_buffer(o);
    if (t || fa_failed() || PyErr_Occurred()) return PyErr_Occurred() ? NULL : fapy_take(t, mark);
    PyObject *dtype = PyObject_GetAttrString(o, "dtype"), *order = dtype ? PyObject_GetAttrString(dtype, "byteorder") : NULL;
    const bool swapped = order && PyUnicode_Check(order) && PyUnicode_CompareWithASCIIString(order, ">") == 0;
    PyErr_Clear();
    if (swapped) PyErr_SetString(PyExc_ValueError, "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported.");
    else if (dtype) {
        PyObject *name = PyObject_GetAttrString(dtype, "type"), *text = name ? PyObject_GetAttrString(name, "__name__") : NULL;
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "can't convert np.ndarray of type numpy.%S. The only supported types are: float64, float32, float16, complex64, complex128, int64, "
                     "int32, int16, int8, uint64, uint32, uint16, uint8, and bool. (Of these Facula has no complex numbers and no unsigned ones beside uint8.)", text ? text : Py_None);
        Py_XDECREF(name);
        Py_XDECREF(text);
    } else PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(o)->tp_name);
    Py_XDECREF(dtype);
    Py_XDECREF(order);
    return NULL;
}

static PyObject *from_numpy(PyObject *self, PyObject *o)
{
    (void)self;
    if (strcmp(Py_TYPE(o)->tp_name, "numpy.ndarray") && !PyObject_HasAttrString(o, "__array_interface__"))
        return PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(o)->tp_name);
    return from_array(o);
}

/* What a ufunc computed of tensors is a tensor again. */
static PyObject *tensor_array_wrap(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *array = PyTuple_GET_SIZE(args) ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (!array) return PyErr_SetString(PyExc_TypeError, "__array_wrap__() needs an array"), NULL;
    if (PyObject_CheckBuffer(array)) return from_array(array);
    const uint32_t mark = FAPY_MARK;
    return fapy_take(fapy_tensor_of("tensor", array, FA_DTYPE_DEFAULT, FA_CPU), mark);
}

static PyObject *from_buffer(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    enum { BUFFER, DTYPE, COUNT, OFFSET, GRAD };
    static const fapy_parameter parameters[] = {{"buffer", FAPY_OBJ, 0}, {"dtype", FAPY_DTYPE, FAPY_KEYWORD}, {"count", FAPY_INT, FAPY_OPTIONAL | FAPY_KEYWORD},
                                                {"offset", FAPY_INT, FAPY_OPTIONAL | FAPY_KEYWORD}, {"requires_grad", FAPY_BOOL, FAPY_OPTIONAL | FAPY_KEYWORD}};
    static const fapy_signature signature = {"frombuffer", 5, parameters};
    fapy_value v[5];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    Py_buffer *b = PyMem_Calloc(1, sizeof *b);
    if (!b) return PyErr_NoMemory();
    if (PyObject_GetBuffer(v[BUFFER].as.o, b, PyBUF_WRITABLE) && (PyErr_Clear(), PyObject_GetBuffer(v[BUFFER].as.o, b, PyBUF_SIMPLE))) {
        PyMem_Free(b);
        return NULL;
    }
    const int64_t item = (int64_t)fa_dtype_size(v[DTYPE].as.dtype), offset = v[OFFSET].given ? v[OFFSET].as.i : 0, bytes = b->len;
    int64_t count = v[COUNT].given ? v[COUNT].as.i : -1;
    char why[256] = "";
    if (bytes == 0 || count == 0) snprintf(why, sizeof why, "both buffer length (%lld) and count (%lld) must not be 0", (long long)bytes, (long long)count);
    else if (offset < 0 || offset >= bytes) snprintf(why, sizeof why, "offset (%lld bytes) must be non-negative and no greater than buffer length (%lld bytes) minus 1", (long long)offset, (long long)bytes);
    else if (count > 0 && count > (bytes - offset) / item) snprintf(why, sizeof why, "requested buffer length (%lld * %lld bytes) after offset (%lld bytes) must not be greater than actual buffer length (%lld bytes)", (long long)count, (long long)item, (long long)offset, (long long)bytes);
    else if (count < 0 && (bytes - offset) % item) snprintf(why, sizeof why, "buffer length (%lld bytes) after offset (%lld bytes) must be a multiple of element size (%lld)", (long long)bytes, (long long)offset, (long long)item);
    if (*why) {
        release_buffer(b);
        return PyErr_SetString(PyExc_ValueError, why), NULL;
    }
    if (count < 0) count = (bytes - offset) / item;
    const uint32_t mark = FAPY_MARK;
    fa_tensor *t = fa_from_memory((char *)b->buf + offset, v[DTYPE].as.dtype, FA_SHAPE(count), release_buffer, b);
    if (!t) release_buffer(b);
    if (t && v[GRAD].given && v[GRAD].as.b) t = fa_requires_grad(t, true);
    return fapy_take(t, mark);
}

/* ---- DLPack: the structures of its version 0, which all libraries exchange ---- */

typedef struct dl_tensor {
    void *data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed { dl_tensor tensor; void *context; void (*deleter)(struct dl_managed *self); } dl_managed;
enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

typedef struct dl_export { dl_managed managed; fai_buffer *buffer; int64_t shape[FA_MAX_DIMS], strides[FA_MAX_DIMS]; } dl_export;

static void dl_release(dl_managed *managed)
{
    dl_export *e = managed->context;
    fai_buffer_unref(e->buffer);
    free(e);
}

static void dl_capsule_end(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor")) return; /* somebody took it */
    dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
    if (m->deleter) m->deleter(m);
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const uint8_t codes[FA_DTYPE_COUNT] = {[FA_BOOL] = DL_BOOL, [FA_UINT8] = DL_UINT, [FA_INT8] = DL_INT, [FA_INT16] = DL_INT, [FA_INT32] = DL_INT, [FA_INT64] = DL_INT,
                                                  [FA_FLOAT16] = DL_FLOAT, [FA_BFLOAT16] = DL_BFLOAT, [FA_FLOAT32] = DL_FLOAT, [FA_FLOAT64] = DL_FLOAT};
    const fa_tensor *t = T(self);
    (void)args, (void)n, (void)names;
    if (fa_is_requires_grad(t)) return PyErr_SetString(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()"), NULL;
    if (!fai_on_cpu(t)) return PyErr_Format(PyExc_BufferError, "__dlpack__: tensors on %s are not exported; use tensor.cpu()", fa_device_text(t->device));
    dl_export *e = calloc(1, sizeof *e);
    if (!e) return PyErr_NoMemory();
    e->buffer = fai_buffer_ref(t->buffer);
    for (int i = 0; i < t->ndim; i++) e->shape[i] = t->size[i], e->strides[i] = t->stride[i];
    e->managed = (dl_managed){.tensor = {.data = fai_host(t), .device = {DL_CPU, 0}, .ndim = t->ndim, .shape = e->shape, .strides = e->strides,
                                         .dtype = {codes[t->dtype], (uint8_t)(8 * fa_dtype_size((fa_dtype)t->dtype)), 1}}, .context = e, .deleter = dl_release};
    PyObject *capsule = PyCapsule_New(&e->managed, "dltensor", dl_capsule_end);
    if (!capsule) dl_release(&e->managed);
    return capsule;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!fai_on_cpu(T(self))) return PyErr_Format(PyExc_ValueError, "__dlpack_device__: tensors on %s are not exported; use tensor.cpu()", fa_device_text(T(self)->device));
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

static fa_dtype dl_dtype(const dl_tensor *t)
{
    static const struct { uint8_t code, bits; fa_dtype dtype; } known[] = {
        {DL_BOOL, 8, FA_BOOL}, {DL_UINT, 8, FA_UINT8}, {DL_INT, 8, FA_INT8}, {DL_INT, 16, FA_INT16}, {DL_INT, 32, FA_INT32}, {DL_INT, 64, FA_INT64},
        {DL_FLOAT, 16, FA_FLOAT16}, {DL_BFLOAT, 16, FA_BFLOAT16}, {DL_FLOAT, 32, FA_FLOAT32}, {DL_FLOAT, 64, FA_FLOAT64}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (t->dtype.lanes == 1 && t->dtype.code == known[i].code && t->dtype.bits == known[i].bits) return known[i].dtype;
    return 0;
}

static void dl_give_back(void *context)
{
    dl_managed *m = context;
    PyGILState_STATE state = PyGILState_Ensure();
    if (m->deleter) m->deleter(m);
    PyGILState_Release(state);
}

static PyObject *from_dlpack(PyObject *self, PyObject *o)
{
    (void)self;
    PyObject *capsule = PyCapsule_CheckExact(o) ? Py_NewRef(o) : PyObject_CallMethod(o, "__dlpack__", NULL);
    dl_managed *m = capsule ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
    if (!m) return Py_XDECREF(capsule), NULL;
    const dl_tensor *d = &m->tensor;
    const fa_dtype dtype = dl_dtype(d);
    if (!dtype || d->device.type != DL_CPU || d->ndim > FA_MAX_DIMS || d->ndim < 0) {
        Py_DECREF(capsule);
        return PyErr_SetString(PyExc_BufferError, "from_dlpack: only tensors on the CPU of Facula's element types and at most 8 dimensions are taken"), NULL;
    }
    fa_shape size = fa_shape_of(d->ndim, d->shape), stride = {d->ndim, {0}};
    int64_t span = 1, numel = 1;
    if (d->strides) stride = fa_shape_of(d->ndim, d->strides);
    else fai_contiguous_strides(d->ndim, size.dim, stride.dim);
    bool negative = false;
    for (int i = 0; i < d->ndim; i++) {
        numel *= size.dim[i], span += size.dim[i] > 1 ? (size.dim[i] - 1) * stride.dim[i] : 0;
        negative = negative || stride.dim[i] < 0;
    }
    if (negative) return Py_DECREF(capsule), PyErr_SetString(PyExc_BufferError, "from_dlpack: negative strides are not supported; make a copy"), NULL;
    const uint32_t mark = FAPY_MARK;
    PyCapsule_SetName(capsule, "used_dltensor");
    Py_DECREF(capsule);
    fa_tensor *flat = fa_from_memory((char *)d->data + d->byte_offset, dtype, FA_SHAPE(numel ? span : 0), dl_give_back, m);
    if (!flat) dl_give_back(m);
    return fapy_take(!flat ? NULL : numel ? fai_view("from_dlpack", flat, size.ndim, size.dim, stride.dim, 0) : fa_view(flat, size), mark);
}

/* ---- copies and pickles ---- */

/* __deepcopy__: leaves only, as in torch; type, gradient and attributes are copied too. */
static PyObject *tensor_deepcopy(PyObject *self, PyObject *memo)
{
    if (!fa_is_leaf(T(self))) {
        PyErr_SetString(PyExc_RuntimeError, "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  If you were "
                        "attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001");
        return NULL;
    }
    PyObject *id = PyLong_FromVoidPtr(self), *known = id && PyDict_Check(memo) ? PyDict_GetItemWithError(memo, id) : NULL;
    if (known || !id) return Py_XDECREF(id), Py_XNewRef(known);
    const uint32_t mark = FAPY_MARK;
    fa_tensor *copy;
    {
        FA_NO_GRAD;
        copy = fa_clone(T(self));
    }
    if (copy && FAI_HAS(T(self), FAI_REQUIRES_GRAD)) copy = fa_requires_grad(copy, true);
    PyObject *result = fapy_retype(fapy_take(copy, mark), Py_TYPE(self));
    if (!result || (PyDict_Check(memo) && PyDict_SetItem(memo, id, result))) goto fail;
    Py_DECREF(id);
    if (T(self)->grad) {
        PyObject *grad = tensor_deepcopy((PyObject *)T(self)->grad, memo);
        if (!grad) return Py_DECREF(result), NULL;
        T(result)->grad = T(grad);
    }
    if (T(self)->attributes) {
        PyObject *copier = PyImport_ImportModule("copy"), *dict = copier ? PyObject_CallMethod(copier, "deepcopy", "OO", (PyObject *)T(self)->attributes, memo) : NULL;
        Py_XDECREF(copier);
        if (!dict) return Py_DECREF(result), NULL;
        T(result)->attributes = dict;
        fapy_track(result);
    }
    return result;
fail:
    Py_DECREF(id);
    Py_XDECREF(result);
    return NULL;
}

/* Pickled by value: elements in order, dtype, sizes; where it was and whether it wants a gradient. */
static PyObject *tensor_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    fa_tensor *t = T(self);
    const size_t bytes = (size_t)t->numel * fa_dtype_size((fa_dtype)t->dtype);
    if (!fa_is_leaf(t)) {
        PyErr_SetString(PyExc_RuntimeError, "cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing process boundaries.  "
                        "If you just want to transfer the data, call detach() on the tensor before serializing (e.g., putting it on the queue).");
        return NULL;
    }
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (!data) return NULL;
    if (!fa_to_data(t, PyBytes_AS_STRING(data), (fa_dtype)t->dtype)) return Py_DECREF(data), fapy_raise();
    PyObject *module = PyImport_ImportModule("facula._C"), *rebuild = module ? PyObject_GetAttrString(module, "_rebuild_tensor") : NULL;
    Py_XDECREF(module);
    if (!rebuild) return Py_DECREF(data), NULL;
    return Py_BuildValue("N(ONsNNOO)", rebuild, Py_TYPE(self), data, fa_dtype_name((fa_dtype)t->dtype), fapy_size_new(t->ndim, t->size), fapy_device_new(t->device),
                         FAI_HAS(t, FAI_REQUIRES_GRAD) ? Py_True : Py_False, t->attributes ? (PyObject *)t->attributes : Py_None);
}

static PyObject *rebuild_tensor(PyObject *self, PyObject *args)
{
    PyTypeObject *type;
    Py_buffer data;
    const char *name;
    PyObject *size, *device, *attributes;
    int grad;
    fa_shape shape;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!y*sO!O!pO", &PyType_Type, &type, &data, &name, &fapy_Size, &size, &fapy_Device, &device, &grad, &attributes)) return NULL;
    fa_dtype dtype = 0;
    for (int d = FA_BOOL; d < FA_DTYPE_COUNT; d++)
        if (strcmp(fa_dtype_name((fa_dtype)d), name) == 0) dtype = (fa_dtype)d;
    int64_t numel = 1;
    bool fine = PyType_IsSubtype(type, &fapy_Tensor) && dtype && fapy_shape_from(size, &shape);
    for (int i = 0; fine && i < shape.ndim; i++) fine = shape.dim[i] >= 0 && fai_mul(numel, shape.dim[i], &numel);
    if (!fine || numel != data.len / (Py_ssize_t)fa_dtype_size(dtype)) {
        PyBuffer_Release(&data);
        return PyErr_SetString(PyExc_ValueError, "the pickle of a tensor is damaged: sizes and data do not belong together"), NULL;
    }
    const uint32_t mark = FAPY_MARK;
    fa_tensor *t = fa_from_data_with(data.buf, dtype, shape, FA_TENSOR_OPTIONS(.dtype = dtype, .device = ((fapy_device_object *)device)->device));
    PyBuffer_Release(&data);
    if (t && grad) t = fa_requires_grad(t, true);
    PyObject *result = fapy_retype(fapy_take(t, mark), type);
    if (result && PyDict_Check(attributes) && PyDict_Size(attributes)) {
        T(result)->attributes = PyDict_Copy(attributes);
        fapy_track(result);
    }
    return result;
}

PyMethodDef fapy_array_methods[] = {
    {"numpy", FAST(tensor_numpy), "numpy(*, force=False)\n--\n\nThe tensor as a NumPy array that shares its memory; force: detached and on the CPU first."},
    {"__array__", FAST(tensor_array), NULL},
    {"__array_wrap__", tensor_array_wrap, METH_VARARGS, NULL},
    {"__dlpack__", FAST(tensor_dlpack), NULL},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, NULL},
    {"__deepcopy__", tensor_deepcopy, METH_O, NULL},
    {"__reduce__", tensor_reduce, METH_NOARGS, NULL},
    {0}};
PyMethodDef fapy_array_functions[] = {
    {"from_numpy", from_numpy, METH_O, "from_numpy(ndarray)\n--\n\nA tensor that shares the memory of a NumPy array."},
    {"frombuffer", FAST(from_buffer), "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\nA one-dimensional tensor that shares the memory of bytes, an mmap and their kind."},
    {"from_dlpack", from_dlpack, METH_O, "from_dlpack(ext_tensor)\n--\n\nA tensor that shares the memory of another library's, by DLPack."},
    {"_rebuild_tensor", rebuild_tensor, METH_VARARGS, NULL},
    {0}};
