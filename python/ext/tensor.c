/* The type Tensor: birth and end, attributes, reading, printing. Operators and most methods are made from the tables (gen_py.py). */
#include "face.h"

#define T(o) ((fa_tensor *)(o))

/* ---- birth and end ---- */

/* A plain tensor becomes one of type: a subclass that Python made, or Parameter. Static types are not counted, others are. */
PyObject *fapy_retype(PyObject *t, PyTypeObject *type)
{
    if (!t || Py_TYPE(t) == type) return t;
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_INCREF(type);
    Py_SET_TYPE(t, type);
    return t;
}

/* Tensor(), Tensor(2, 3): uninitialised, as torch's old constructor; Tensor([1, 2]): float32 of that data. */
static PyObject *tensor_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    const uint32_t mark = FAPY_MARK;
    fa_device device = FA_CPU;
    PyObject *given = keywords ? PyDict_GetItemString(keywords, "device") : NULL;
    if (given && !Py_IsNone(given) && !fapy_device_from(given, "Tensor", "device", 0, &device)) return NULL;
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *first = n ? PyTuple_GET_ITEM(args, 0) : NULL;
    fa_shape shape = {1, {0}};
    if (n == 1 && fapy_tensor_check(first)) return fapy_retype(fapy_take(fa_alias(T(first)), mark), type);
    if (n == 1 && !PyLong_Check(first) && Py_TYPE(first) != &fapy_Size)
        return fapy_retype(fapy_take(fapy_tensor_of("Tensor", first, fa_default_dtype(), device), mark), type);
    if (n && !fapy_shape_from(n == 1 && Py_TYPE(first) == &fapy_Size ? first : args, &shape)) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "new(): data must be a sequence (got %s)", Py_TYPE(first)->tp_name);
        return NULL;
    }
    return fapy_retype(fapy_take(fa_empty_with(shape, FA_TENSOR_OPTIONS(.device = device)), mark), type);
}

static void tensor_dealloc(PyObject *self)
{
    if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
    if (T(self)->weak) PyObject_ClearWeakRefs(self);
    Py_CLEAR(T(self)->attributes);
    memset((char *)self - FAI_HEAD, 0, FAI_HEAD);
    fai_end(self);
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT((PyObject *)T(self)->attributes);
    Py_VISIT((PyObject *)T(self)->grad);
    return fapy_hooks_traverse(T(self), visit, arg);
}

static int tensor_clear(PyObject *self)
{
    Py_CLEAR(T(self)->attributes);
    fapy_hooks_clear(T(self));
    return 0;
}

void fapy_track(PyObject *tensor)
{
    if (!PyObject_GC_IsTracked(tensor)) PyObject_GC_Track(tensor);
}

/* Attributes make cycles possible: from then on the collector looks at the tensor. */
static int tensor_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    const int failed = PyObject_GenericSetAttr(self, name, value);
    if (!failed && T(self)->attributes) fapy_track(self);
    return failed;
}

/* ---- Parameter ---- */

static PyObject *parameter_make(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"data", "requires_grad", NULL};
    PyObject *data = Py_None;
    int requires_grad = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|Op:Parameter", names, &data, &requires_grad)) return NULL;
    const uint32_t mark = FAPY_MARK;
    if (!Py_IsNone(data) && !fapy_tensor_check(data))
        return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'detach'. Parameter takes a tensor: Parameter(torch.tensor(...))", Py_TYPE(data)->tp_name);
    if (requires_grad && !Py_IsNone(data) && !fai_is_float(T(data)->dtype))
        return PyErr_SetString(PyExc_RuntimeError, "Only Tensors of floating point and complex dtype can require gradients: Parameter(data, requires_grad=False) keeps others"), NULL;
    fa_tensor *t = Py_IsNone(data) ? fa_empty_with(FA_SHAPE(0), NULL) : fa_detach(T(data));
    if (t && requires_grad) t = fa_requires_grad(t, true);
    return fapy_retype(fapy_take(t, mark), type);
}

static PyObject *parameter_repr(PyObject *self)
{
    PyObject *text = fapy_Tensor.tp_repr(self);
    PyObject *whole = text ? PyUnicode_FromFormat("Parameter containing:\n%U", text) : NULL;
    Py_XDECREF(text);
    return whole;
}

/* ---- printing ---- */

static PyObject *tensor_repr(PyObject *self)
{
    char small[512], *text = small;
    const bool own = Py_TYPE(self) != &fapy_Tensor && Py_TYPE(self) != &fapy_Parameter; /* a class of the user's shows its name */
    const char *name = own ? Py_TYPE(self)->tp_name : "tensor", *last = strrchr(name, '.');
    name = last ? last + 1 : name;
    const size_t length = fai_to_text_as(name, T(self), small, sizeof small);
    if (fa_failed()) return fapy_raise();
    if (length >= sizeof small) {
        text = PyMem_Malloc(length + 1);
        if (!text) return PyErr_NoMemory();
        fai_to_text_as(name, T(self), text, length + 1);
    }
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace");
    if (text != small) PyMem_Free(text);
    return result;
}

static PyObject *tensor_format(PyObject *self, PyObject *spec)
{
    if (!PyUnicode_Check(spec)) return PyErr_Format(PyExc_TypeError, "__format__() argument must be str, not %s", Py_TYPE(spec)->tp_name);
    if (T(self)->ndim == 0 && Py_TYPE(self) != &fapy_Parameter) {
        PyObject *item = fapy_item(T(self)), *text = item ? PyObject_Format(item, spec) : NULL;
        Py_XDECREF(item);
        return text;
    }
    if (PyUnicode_GetLength(spec) == 0) return PyObject_Str(self);
    return PyErr_SetString(PyExc_TypeError, "unsupported format string passed to Tensor.__format__"), NULL;
}

/* ---- reading ---- */

PyObject *fapy_item(fa_tensor *t)
{
    if (t->numel != 1) return PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar", (long long)t->numel);
    if (t->dtype == FA_BOOL) {
        const int64_t value = fa_item_int(t);
        return fa_failed() ? fapy_raise() : PyBool_FromLong(value != 0);
    }
    if (!fai_is_float(t->dtype)) {
        const int64_t value = fa_item_int(t);
        return fa_failed() ? fapy_raise() : PyLong_FromLongLong(value);
    }
    const double value = fa_item(t);
    return fa_failed() ? fapy_raise() : PyFloat_FromDouble(value);
}

static PyObject *tensor_item(PyObject *self, PyObject *unused) { (void)unused; return fapy_item(T(self)); }

static PyObject *list_of(const fa_tensor *t, const char *values, fa_dtype as, int dim, int64_t *at)
{
    const size_t bytes = fa_dtype_size(as);
    if (dim == t->ndim) {
        const char *p = values + (size_t)(*at)++ * bytes;
        if (t->dtype == FA_BOOL) return PyBool_FromLong(*(const int64_t *)p != 0);
        return as == FA_INT64 ? PyLong_FromLongLong(*(const int64_t *)p) : PyFloat_FromDouble(*(const double *)p);
    }
    PyObject *list = PyList_New(t->size[dim]);
    for (int64_t i = 0; list && i < t->size[dim]; i++) {
        PyObject *item = list_of(t, values, as, dim + 1, at);
        if (!item) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *tensor_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    const fa_dtype as = fai_is_float(T(self)->dtype) ? FA_FLOAT64 : FA_INT64;
    char *values = PyMem_Malloc((size_t)T(self)->numel * fa_dtype_size(as) + 1);
    if (!values) return PyErr_NoMemory();
    int64_t at = 0;
    PyObject *list = fa_to_data(T(self), values, as) ? list_of(T(self), values, as, 0, &at) : fapy_raise();
    PyMem_Free(values);
    return list;
}

/* ---- attributes ---- */

#define GETTER(name, expression) static PyObject *get_##name(PyObject *self, void *unused) { fa_tensor *t = T(self); (void)unused, (void)t; return expression; }
GETTER(shape, fapy_size_new(t->ndim, t->size))
GETTER(dtype, fapy_dtype_new((fa_dtype)t->dtype))
GETTER(device, fapy_device_new(t->device))
GETTER(ndim, PyLong_FromLong(t->ndim))
GETTER(requires_grad, PyBool_FromLong(fa_is_requires_grad(t)))
GETTER(is_leaf, PyBool_FromLong(fa_is_leaf(t)))
GETTER(grad_fn, fapy_grad_fn(t))
GETTER(base, Py_NewRef(t->base ? (PyObject *)t->base : Py_None))
GETTER(output_nr, PyLong_FromLong(t->output))
GETTER(itemsize, PyLong_FromSize_t(fa_dtype_size((fa_dtype)t->dtype)))
GETTER(nbytes, PyLong_FromLongLong(t->numel * (int64_t)fa_dtype_size((fa_dtype)t->dtype)))
GETTER(retains_grad, PyBool_FromLong(FAI_HAS(t, FAI_RETAIN_GRAD) && !fa_is_leaf(t)))
GETTER(false, PyBool_FromLong(0))
GETTER(is_cpu, PyBool_FromLong(fai_on_cpu(t)))
GETTER(layout, Py_NewRef(fapy_strided))
GETTER(real, Py_NewRef(self))

/* A tensor that is no leaf never gets one: somebody expects what will not come. */
static PyObject *get_grad(PyObject *self, void *unused)
{
    const fa_tensor *t = T(self);
    (void)unused;
    if (t->grad) return fapy_track(self), Py_NewRef(t->grad); /* who holds it may make a cycle */
    if (FAI_UNLIKELY(!fa_is_leaf(T(self)) && !FAI_HAS(t, FAI_RETAIN_GRAD)) &&
        PyErr_WarnEx(PyExc_UserWarning, "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during "
                     "autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
                     "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.", 1)) return NULL;
    Py_RETURN_NONE;
}
static PyObject *get_version(PyObject *self, void *unused)
{
    (void)unused;
    if (!FAI_HAS(T(self), FAI_INFERENCE)) return PyLong_FromLong((long)fa_version_of(T(self)));
    return PyErr_SetString(PyExc_RuntimeError, "Inference tensors do not track version counter."), NULL;
}

static PyObject *get_is_device(PyObject *self, void *type) { return PyBool_FromLong(T(self)->device.type == (int)(intptr_t)type); }
static PyObject *get_data(PyObject *self, void *unused)
{
    (void)unused;
    const uint32_t mark = FAPY_MARK;
    return fapy_take(fa_data_of(T(self)), mark);
}
static PyObject *get_T(PyObject *self, void *unused)
{
    (void)unused;
    const uint32_t mark = FAPY_MARK;
    fa_shape dims = {T(self)->ndim, {0}};
    for (int i = 0; i < dims.ndim; i++) dims.dim[i] = dims.ndim - 1 - i;
    if (dims.ndim != 2 && dims.ndim != 0 &&
        PyErr_WarnEx(PyExc_UserWarning, "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an error in a future release. "
                     "Consider `x.mT` to transpose batches of matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.", 1)) return NULL;
    return fapy_take(fa_permute(T(self), dims), mark);
}
static PyObject *get_mT(PyObject *self, void *unused)
{
    (void)unused;
    const uint32_t mark = FAPY_MARK;
    if (T(self)->ndim < 2) return PyErr_Format(PyExc_RuntimeError, "tensor.mT is only supported on matrices or batches of matrices. Got %d-D tensor.", T(self)->ndim);
    return fapy_take(fa_transpose(T(self), -2, -1), mark);
}

static int deletes(PyObject *value, const char *name)
{
    if (!value) PyErr_Format(PyExc_RuntimeError, "cannot delete %s of a tensor", name);
    return !value;
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (deletes(value, "requires_grad")) return -1;
    if (!PyBool_Check(value)) return PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool"), -1;
    return fa_requires_grad(T(self), value == Py_True) ? 0 : (fapy_raise(), -1);
}

static int set_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (!value) value = Py_None;
    if (!Py_IsNone(value) && !fapy_tensor_check(value))
        return PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %s", Py_TYPE(value)->tp_name), -1;
    if (value == self) return PyErr_SetString(PyExc_RuntimeError, "can't assign Variable as its own grad"), -1;
    if (!fa_set_grad(T(self), Py_IsNone(value) ? NULL : T(value))) return fapy_raise(), -1;
    fapy_track(self);
    return 0;
}

static int set_data(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (deletes(value, "data")) return -1;
    if (!fapy_tensor_check(value)) return PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %s", Py_TYPE(value)->tp_name), -1;
    if (T(self)->base) return PyErr_SetString(PyExc_RuntimeError, "assigning .data to a view is not possible in Facula: assign to its base, or write into it: x.copy_(y)"), -1;
    fai_set_memory(T(self), T(value));
    return 0;
}

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "The sizes of the dimensions, as a Size.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements.", NULL},
    {"device", get_device, NULL, "Where the elements are.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether operations on it are recorded for backward.", NULL},
    {"is_leaf", get_is_leaf, NULL, "Made by the user and not by a recorded operation.", NULL},
    {"grad", get_grad, set_grad, "The gradient that backward() added up, or None.", NULL},
    {"grad_fn", get_grad_fn, NULL, "The recorded operation that made it, or None.", NULL},
    {"data", get_data, set_data, "The same memory without history.", NULL},
    {"T", get_T, NULL, "Dimensions in reverse order.", NULL},
    {"H", get_mT, NULL, "The matrix transposed.", NULL},
    {"mT", get_mT, NULL, "The last two dimensions swapped.", NULL},
    {"mH", get_mT, NULL, "The last two dimensions swapped.", NULL},
    {"_base", get_base, NULL, "The tensor whose view it is, or None.", NULL},
    {"_version", get_version, NULL, "Raised by every write in place.", NULL},
    {"output_nr", get_output_nr, NULL, "Which result of grad_fn it is.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of an element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"retains_grad", get_retains_grad, NULL, "retain_grad() was called.", NULL},
    {"layout", get_layout, NULL, "Always strided.", NULL},
    {"real", get_real, NULL, "Itself.", NULL},
    {"is_cpu", get_is_cpu, NULL, "Its device is the CPU.", NULL},
    {"is_cuda", get_is_device, NULL, "Its device is a CUDA device.", (void *)FA_DEVICE_CUDA},
    {"is_xpu", get_is_device, NULL, "Its device is an XPU.", (void *)FA_DEVICE_XPU},
    {"is_npu", get_is_device, NULL, "Its device is an NPU.", (void *)FA_DEVICE_NPU},
    {"is_mps", get_is_device, NULL, "Its device is an MPS device.", (void *)FA_DEVICE_MPS},
    {"is_sparse", get_false, NULL, "Never in Facula.", NULL},
    {"is_quantized", get_false, NULL, "Never in Facula.", NULL},
    {"is_meta", get_false, NULL, "Never in Facula.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"is_nested", get_false, NULL, "Never in Facula.", NULL},
    {0}};

/* ---- methods that no row makes ---- */

static PyObject *tensor_size(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"dim", FAPY_INT, FAPY_OPTIONAL | FAPY_NONE}};
    static const fapy_signature signature = {"size", 1, parameters};
    fapy_value v[1];
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    if (!v[0].given) return fapy_size_new(T(self)->ndim, T(self)->size);
    const int64_t size = fa_size(T(self), (int)v[0].as.i);
    return fa_failed() ? fapy_raise() : PyLong_FromLongLong(size);
}

static PyObject *tensor_stride(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"dim", FAPY_INT, FAPY_OPTIONAL | FAPY_NONE}};
    static const fapy_signature signature = {"stride", 1, parameters};
    fapy_value v[1];
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    if (v[0].given) {
        const int64_t stride = fa_stride(T(self), (int)v[0].as.i);
        return fa_failed() ? fapy_raise() : PyLong_FromLongLong(stride);
    }
    PyObject *size = fapy_size_new(T(self)->ndim, T(self)->stride), *list = size ? PySequence_List(size) : NULL;
    Py_XDECREF(size);
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

#define ASKER(name, expression) static PyObject *ask_##name(PyObject *self, PyObject *unused) { fa_tensor *t = T(self); (void)unused, (void)t; return expression; }
ASKER(dim, PyLong_FromLong(t->ndim))
ASKER(numel, PyLong_FromLongLong(t->numel))
ASKER(element_size, PyLong_FromSize_t(fa_dtype_size((fa_dtype)t->dtype)))
ASKER(storage_offset, PyLong_FromLongLong(t->offset))
ASKER(data_ptr, (fai_buffer_show(t->buffer), PyLong_FromUnsignedLongLong(t->buffer->address + (uint64_t)t->offset * fa_dtype_size((fa_dtype)t->dtype))))
ASKER(get_device, PyLong_FromLong(fai_on_cpu(t) ? -1 : t->device.index))
ASKER(is_floating_point, PyBool_FromLong(fai_is_float(t->dtype)))
ASKER(is_complex, PyBool_FromLong(0))
ASKER(is_signed, PyBool_FromLong(t->dtype != FA_BOOL && t->dtype != FA_UINT8))
ASKER(is_inference, PyBool_FromLong(FAI_HAS(t, FAI_INFERENCE)))

/* PyTorch takes a device, warns, and looks at the accelerator's in any case. */
static PyObject *ask_is_pinned(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"device", FAPY_DEVICE, FAPY_OPTIONAL | FAPY_NONE}};
    static const fapy_signature signature = {"is_pinned", 1, parameters};
    fapy_value v[1];
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    if (v[0].given && PyErr_WarnEx(PyExc_DeprecationWarning, "The argument 'device' of Tensor.is_pinned() is deprecated. Please do not pass this argument.", 1)) return NULL;
    return PyBool_FromLong(fa_is_pinned(T(self)));
}

static PyObject *ask_is_contiguous(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const name = "memory_format";
    PyObject *format = names && PyTuple_GET_SIZE(names) == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), name) == 0 ? args[n] : NULL;
    if (n) return PyErr_Format(PyExc_TypeError, "is_contiguous() takes 0 positional arguments but %zd was given: write memory_format=", n);
    if (names && !format) return PyErr_SetString(PyExc_TypeError, "is_contiguous() takes one keyword argument, memory_format"), NULL;
    const fapy_format f = format && !Py_IsNone(format) ? fapy_format_of(format) : FAPY_CONTIGUOUS;
    if (!f) return PyErr_Format(PyExc_TypeError, "is_contiguous(): argument 'memory_format' must be torch.memory_format, not %s", Py_TYPE(format)->tp_name);
    if (f == FAPY_PRESERVE) return PyBool_FromLong(true);
    if (f == FAPY_CONTIGUOUS) return PyBool_FromLong(fa_is_contiguous(T(self)));
    return PyBool_FromLong(T(self)->ndim == (f == FAPY_CHANNELS_LAST ? 4 : 5) && fa_is_channels_last(T(self)));
}

/* Methods whose work is done in Python: facula.storage.<name>(self). */
static PyObject *in_python(const char *name, PyObject *self)
{
    PyObject *module = PyImport_ImportModule("facula.storage"), *result = module ? PyObject_CallMethod(module, name, "O", self) : NULL;
    Py_XDECREF(module);
    return result;
}
static PyObject *tensor_storage(PyObject *self, PyObject *unused) { (void)unused; return in_python("TypedStorage", self); }
static PyObject *tensor_untyped_storage(PyObject *self, PyObject *unused) { (void)unused; return in_python("UntypedStorage", self); }

/* All of the memory as bytes in a row. */
static PyObject *tensor_bytes(PyObject *self, PyObject *unused)
{
    (void)unused;
    const uint32_t mark = FAPY_MARK;
    fa_tensor *t = T(self);
    const int64_t size = (int64_t)t->buffer->bytes, stride = 1;
    fa_tensor *r = fai_view("storage", t, 1, &size, &stride, 0);
    if (r) r->dtype = FA_UINT8;
    return fapy_take(r, mark);
}

static PyObject *tensor_dir(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__dir__", "O", self);
}

static PyMethodDef own_methods[] = {
    {"size", (PyCFunction)(void (*)(void))tensor_size, METH_FASTCALL | METH_KEYWORDS, "size(dim=None)\n--\n\nThe sizes, or the size of one dimension."},
    {"stride", (PyCFunction)(void (*)(void))tensor_stride, METH_FASTCALL | METH_KEYWORDS, "stride(dim=None)\n--\n\nHow many elements lie between neighbours along each dimension."},
    {"dim", ask_dim, METH_NOARGS, "dim()\n--\n\nThe number of dimensions."},
    {"ndimension", ask_dim, METH_NOARGS, "ndimension()\n--\n\nThe number of dimensions."},
    {"numel", ask_numel, METH_NOARGS, "numel()\n--\n\nThe number of elements."},
    {"nelement", ask_numel, METH_NOARGS, "nelement()\n--\n\nThe number of elements."},
    {"element_size", ask_element_size, METH_NOARGS, "element_size()\n--\n\nBytes of an element."},
    {"storage_offset", ask_storage_offset, METH_NOARGS, "storage_offset()\n--\n\nWhere its first element lies in its memory, in elements."},
    {"data_ptr", ask_data_ptr, METH_NOARGS, "data_ptr()\n--\n\nThe address of its first element."},
    {"get_device", ask_get_device, METH_NOARGS, "get_device()\n--\n\nThe number of its device, -1 for the CPU."},
    {"is_floating_point", ask_is_floating_point, METH_NOARGS, "is_floating_point()\n--\n\nIts elements are floating-point numbers."},
    {"is_complex", ask_is_complex, METH_NOARGS, "is_complex()\n--\n\nFalse: Facula has no complex numbers."},
    {"is_signed", ask_is_signed, METH_NOARGS, "is_signed()\n--\n\nIts elements can be negative."},
    {"is_inference", ask_is_inference, METH_NOARGS, "is_inference()\n--\n\nMade under inference_mode."},
    {"is_pinned", (PyCFunction)(void (*)(void))ask_is_pinned, METH_FASTCALL | METH_KEYWORDS, "is_pinned(device=None)\n--\n\nIts memory is pinned."},
    {"is_contiguous", (PyCFunction)(void (*)(void))ask_is_contiguous, METH_FASTCALL | METH_KEYWORDS, "is_contiguous(*, memory_format=None)\n--\n\nElements lie in C order without gaps; or, for torch.channels_last, with the channels next to each other."},
    {"item", tensor_item, METH_NOARGS, "item()\n--\n\nThe only element, as a Python number; waits for the device."},
    {"tolist", tensor_tolist, METH_NOARGS, "tolist()\n--\n\nThe elements as nested lists of Python numbers."},
    {"storage", tensor_storage, METH_NOARGS, "storage()\n--\n\nIts memory as a row of elements."},
    {"untyped_storage", tensor_untyped_storage, METH_NOARGS, "untyped_storage()\n--\n\nIts memory as a row of bytes."},
    {"_bytes", tensor_bytes, METH_NOARGS, NULL},
    {"__format__", tensor_format, METH_O, NULL},
    {"__dir__", tensor_dir, METH_NOARGS, NULL},
    {0}};

/* ---- sequence ---- */

static Py_ssize_t tensor_length(PyObject *self)
{
    if (T(self)->ndim == 0) return PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor"), -1;
    return T(self)->size[0];
}

static PyObject *tensor_iter(PyObject *self)
{
    if (T(self)->ndim == 0) return PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor"), NULL;
    const int n = (int)T(self)->size[0];
    const uint32_t mark = FAPY_MARK;
    fa_tensor **parts = PyMem_Malloc(((size_t)n + 1) * sizeof *parts);
    if (!parts) return PyErr_NoMemory();
    PyObject *list = fa_unbind(T(self), 0, parts, n) < 0 ? (fapy_sweep(mark), fapy_raise()) : fapy_take_tuple(parts, n, mark);
    PyMem_Free(parts);
    PyObject *iterator = list ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

static int tensor_contains(PyObject *self, PyObject *value)
{
    fa_scalar number;
    const uint32_t mark = FAPY_MARK;
    fa_tensor *equal = NULL;
    if (fapy_tensor_check(value)) equal = fa_eq(T(self), T(value));
    else if (fapy_scalar_from(value, &number)) equal = fa_eq_scalar(T(self), number);
    else return PyErr_Format(PyExc_RuntimeError, "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.", Py_TYPE(value)), -1;
    const bool found = equal && fa_item_int(fa_any(equal)) != 0;
    fapy_sweep(mark);
    return fa_failed() ? (fapy_raise(), -1) : found;
}

/* Python would name a type of C with its module. */
static PyObject *tensor_getattro(PyObject *self, PyObject *name)
{
    PyObject *value = PyObject_GenericGetAttr(self, name);
    const bool plain = Py_TYPE(self) == &fapy_Tensor;
    if (FAI_LIKELY(value != NULL) || (!plain && Py_TYPE(self) != &fapy_Parameter) || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyObject *const kind = (PyObject *)Py_TYPE(self), *known = PyUnicode_Check(name) ? _PyType_Lookup((PyTypeObject *)kind, name) : kind;
    if (known) return PyErr_Restore(type, error, trace), NULL; /* it is there, and raised this itself */
    Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
    PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", plain ? "Tensor" : "Parameter", name);
    return NULL;
}

static Py_hash_t tensor_hash(PyObject *self)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_HashPointer(self);
#else
    return _Py_HashPointer(self);
#endif
}

static PySequenceMethods sequence = {.sq_length = tensor_length, .sq_contains = tensor_contains};
static PyMappingMethods mapping = {.mp_length = tensor_length, .mp_subscript = fapy_getitem, .mp_ass_subscript = fapy_setitem};

enum { FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC };

PyTypeObject fapy_Tensor = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "Tensor", .tp_basicsize = sizeof(fa_tensor), .tp_flags = FLAGS,
    .tp_new = tensor_make, .tp_dealloc = tensor_dealloc, .tp_traverse = tensor_traverse, .tp_clear = tensor_clear,
    .tp_dictoffset = offsetof(fa_tensor, attributes), .tp_weaklistoffset = offsetof(fa_tensor, weak),
    .tp_getattro = tensor_getattro, .tp_setattro = tensor_setattro, .tp_repr = tensor_repr, .tp_hash = tensor_hash, .tp_richcompare = fapy_richcompare, .tp_iter = tensor_iter,
    .tp_as_number = &fapy_number, .tp_as_sequence = &sequence, .tp_as_mapping = &mapping, .tp_as_buffer = &fapy_buffer, .tp_getset = attributes,
    .tp_doc = "An array of numbers of one type, on one device, that derivatives can flow through.\n\n"
              ">>> torch.Tensor([[1, 2], [3, 4]])\n"
              "tensor([[1., 2.],\n"
              "        [3., 4.]])"};
PyTypeObject fapy_Parameter = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "Parameter", .tp_base = &fapy_Tensor, .tp_basicsize = sizeof(fa_tensor), .tp_flags = FLAGS,
    .tp_new = parameter_make, .tp_dealloc = tensor_dealloc, .tp_traverse = tensor_traverse, .tp_clear = tensor_clear, .tp_repr = parameter_repr,
    .tp_doc = "Parameter(data=None, requires_grad=True)\n--\n\nA tensor that belongs to a module: modules list it, optimizers train it.\n\n"
              ">>> p = nn.Parameter(torch.ones(2))\n>>> p.requires_grad, p.is_leaf\n(True, True)"};

static int no_init(PyObject *self, PyObject *args, PyObject *keywords) { (void)self, (void)args, (void)keywords; return 0; }

/* All methods in one table, as PyType_Ready wants it. */
static PyMethodDef *join_methods(void)
{
    PyMethodDef *const parts[] = {own_methods, fapy_methods, fapy_autograd_methods, fapy_array_methods};
    size_t n = 1, at = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        for (PyMethodDef *m = parts[p]; m->ml_name; m++) n++;
    PyMethodDef *all = calloc(n, sizeof *all);
    for (size_t p = 0; all && p < sizeof parts / sizeof *parts; p++)
        for (PyMethodDef *m = parts[p]; m->ml_name; m++) {
            all[at] = *m;
            if (parts[p] != fapy_methods) all[at].ml_doc = fapy_with_example("Tensor.", m->ml_name, m->ml_doc);
            at++;
        }
    return all;
}

static const char *qualified(const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "%s.%s", fapy_names, name);
    return strdup(text);
}

bool fapy_tensor_set_up(PyObject *module)
{
    fapy_Tensor.tp_methods = join_methods();
    for (PyGetSetDef *a = attributes; a->name; a++) a->doc = fapy_with_example("Tensor.", a->name, a->doc);
    fapy_Tensor.tp_name = qualified("Tensor"), fapy_Parameter.tp_name = qualified("nn.parameter.Parameter");
    fapy_Tensor.tp_init = fapy_Parameter.tp_init = no_init;
    if (!fapy_Tensor.tp_methods || !fapy_Tensor.tp_name || !fapy_Parameter.tp_name) return PyErr_NoMemory(), false;
    if (PyType_Ready(&fapy_Tensor) || PyDict_SetItemString(fapy_Tensor.tp_dict, "__array_priority__", PyLong_FromLong(1000))) return false; /* ahead of ndarray */
    return !PyType_Ready(&fapy_Tensor) && !PyType_Ready(&fapy_Parameter) &&
           !PyModule_AddObjectRef(module, "Tensor", (PyObject *)&fapy_Tensor) && !PyModule_AddObjectRef(module, "Parameter", (PyObject *)&fapy_Parameter);
}
