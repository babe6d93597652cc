/* Tensors out of Python's data: torch.tensor and its kind. Shapes and types are found first, in one walk; then one buffer is filled. */
#include "face.h"

typedef struct found {
    fa_shape shape;
    int depth;            /* sizes known so far */
    fa_scalar_kind kind;  /* the highest category of the numbers */
    fa_dtype dtype;       /* of tensors and arrays inside, 0 if there were none */
} found;

static bool is_sequence(PyObject *o) { return PyList_Check(o) || PyTuple_Check(o) || PyRange_Check(o); }

static bool raise_length(int64_t expected, int dim, Py_ssize_t got)
{
    return PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)", (long long)expected, dim, got), false;
}

static bool note_size(found *f, int dim, int64_t n)
{
    if (dim >= FA_MAX_DIMS) return PyErr_Format(PyExc_ValueError, "too many dimensions: data is nested more than %d deep, the most that a tensor can have here", FA_MAX_DIMS), false;
    if (dim >= f->depth) return f->shape.dim[dim] = n, f->depth = f->shape.ndim = dim + 1, true;
    return f->shape.dim[dim] == n || raise_length(f->shape.dim[dim], dim, (Py_ssize_t)n);
}

static bool note_kind(found *f, fa_scalar_kind kind)
{
    if (kind > f->kind) f->kind = kind;
    return true;
}

/* Looks at all of data: shape, category of numbers. */
static bool look(found *f, PyObject *o, int dim)
{
    fa_scalar number;
    if (PyFloat_Check(o)) return note_kind(f, FA_SCALAR_FLOAT);
    if (PyBool_Check(o)) return note_kind(f, FA_SCALAR_BOOL);
    if (PyLong_Check(o)) return note_kind(f, FA_SCALAR_INT);
    if (fapy_tensor_check(o)) {
        fa_tensor *t = (fa_tensor *)o;
        for (int i = 0; i < t->ndim; i++)
            if (!note_size(f, dim + i, t->size[i])) return false;
        f->dtype = f->dtype ? fa_promote_types(f->dtype, (fa_dtype)t->dtype) : (fa_dtype)t->dtype;
        return true;
    }
    if (PyUnicode_Check(o)) return PyErr_SetString(dim ? PyExc_ValueError : PyExc_TypeError, dim ? "too many dimensions 'str'" : "new(): invalid data type 'str'"), false;
    PyObject *items = NULL;
    if (is_sequence(o)) items = PySequence_Fast(o, "");
    else if (fapy_scalar_from(o, &number)) return note_kind(f, number.kind);
    else if (PyErr_Occurred()) return false;
    else if (PySequence_Check(o) && PySequence_Size(o) >= 0 && !PyDict_Check(o)) items = PySequence_Fast(o, "data must be a sequence");
    else return PyErr_Clear(), PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(o)->tp_name), false;
    if (!items) return false;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(items);
    bool fine = note_size(f, dim, n);
    for (Py_ssize_t i = 0; fine && i < n; i++) {
        if (i >= PySequence_Fast_GET_SIZE(items)) fine = raise_length(n, dim, PySequence_Fast_GET_SIZE(items)); /* an item's own code took items away */
        if (!fine) break;
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
        if (dim + 1 < f->depth && !is_sequence(item) && (PyFloat_Check(item) || PyLong_Check(item)))
            fine = (PyErr_Format(PyExc_TypeError, "not a sequence: %s, where other elements at dim %d have length %lld",
                                 Py_TYPE(item)->tp_name, dim + 1, (long long)f->shape.dim[dim + 1]), false);
        else fine = look(f, item, dim + 1);
        Py_DECREF(item);
    }
    Py_DECREF(items);
    return fine;
}

typedef struct writer { char *at; const char *end; bool floating; fa_dtype dtype; } writer;

/* Python code that runs while numbers are read (__index__) may change the lists that they stand in. */
static bool raise_changed(void) { return PyErr_SetString(PyExc_RuntimeError, "tensor(): the data changed while it was read"), false; }

static bool write_all(writer *w, PyObject *o)
{
    fa_scalar number;
    if (fapy_tensor_check(o)) {
        fa_tensor *t = (fa_tensor *)o;
        if (t->numel > (w->end - w->at) / 8) return raise_changed();
        if (!fa_to_data(t, w->at, w->floating ? FA_FLOAT64 : FA_INT64)) return fapy_raise(), false;
        w->at += t->numel * 8;
        return true;
    }
    if (!is_sequence(o) && fapy_scalar_from(o, &number)) {
        if (w->at == w->end) return raise_changed();
        if (w->floating) memcpy(w->at, &(double){fa_scalar_float(number)}, 8);
        else memcpy(w->at, &(int64_t){fa_scalar_int(number)}, 8);
        if (w->dtype == FA_UINT8 || w->dtype == FA_INT8 || w->dtype == FA_INT16 || w->dtype == FA_INT32) {
            const int64_t v = fa_scalar_int(number), bits = 8 * (int64_t)fa_dtype_size(w->dtype);
            const int64_t high = w->dtype == FA_UINT8 ? 255 : (1LL << (bits - 1)) - 1, low = w->dtype == FA_UINT8 ? -255 : -high - 1;
            if (number.kind != FA_SCALAR_FLOAT && (v > high || v < low))
                return PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", fa_dtype_name(w->dtype)), false;
        }
        w->at += 8;
        return true;
    }
    if (PyErr_Occurred()) {
        if (!PyLong_Check(o)) return false;
        PyErr_Clear();
        return PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long"), false;
    }
    PyObject *items = PySequence_Fast(o, "data must be a sequence");
    if (!items || Py_EnterRecursiveCall(" while reading the data of a tensor")) return Py_XDECREF(items), false;
    bool fine = true;
    for (Py_ssize_t i = 0; fine && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
        fine = write_all(w, item);
        Py_DECREF(item);
    }
    Py_LeaveRecursiveCall();
    Py_DECREF(items);
    return fine;
}

static fa_tensor *foreign(void)
{
    fapy_foreign();
    return NULL;
}

fa_tensor *fapy_tensor_of(const char *function, PyObject *data, fa_dtype dtype, fa_device device)
{
    if (fapy_tensor_check(data)) {
        FA_NO_GRAD;
        fa_tensor *t = (fa_tensor *)data, *copy = fa_clone(t);
        if (copy && dtype) copy = fa_cast(copy, dtype);
        return copy && device.type ? fa_to(copy, device) : copy;
    }
    fa_tensor *array = fapy_from_buffer(data); /* NULL without an error: no array */
    if (array) {
        FA_NO_GRAD;
        array = fa_clone(array);
        if (array && dtype) array = fa_cast(array, dtype);
        return array ? fa_to(array, device.type ? device : fa_default_device()) : NULL;
    }
    if (PyErr_Occurred() || fa_failed()) return PyErr_Occurred() ? foreign() : NULL;
    found f = {.shape = {0, {0}}};
    if (!look(&f, data, 0)) return foreign();
    fa_dtype inferred = f.kind == FA_SCALAR_FLOAT || !f.kind ? fa_default_dtype() : f.kind == FA_SCALAR_BOOL ? FA_BOOL : FA_INT64;
    if (f.dtype) inferred = f.kind == FA_SCALAR_FLOAT && !fai_is_float(f.dtype) ? fa_default_dtype() : f.dtype;
    if (!dtype) dtype = inferred;
    int64_t numel = 1;
    for (int i = 0; i < f.shape.ndim; i++) numel *= f.shape.dim[i];
    double one;
    char *values = numel == 1 ? (char *)&one : PyMem_Malloc((size_t)numel * 8 + 8);
    if (!values) return PyErr_NoMemory(), foreign();
    writer w = {values, values + numel * 8, fai_is_float(inferred) || (f.kind == FA_SCALAR_FLOAT), dtype};
    fa_tensor *t = NULL;
    if (!write_all(&w, data) || (w.at != w.end && !raise_changed())) foreign();
    else t = fa_from_data_with(values, w.floating ? FA_FLOAT64 : FA_INT64, f.shape, FA_TENSOR_OPTIONS(.dtype = dtype, .device = device));
    if (values != (char *)&one) PyMem_Free(values);
    (void)function;
    return t;
}

/* ---- torch.tensor, as_tensor ---- */

static const fapy_parameter tensor_parameters[] = {{"data", FAPY_OBJ, 0}, {"dtype", FAPY_DTYPE, FAPY_OPTIONAL | FAPY_NONE | FAPY_KEYWORD},
    {"device", FAPY_DEVICE, FAPY_OPTIONAL | FAPY_NONE | FAPY_KEYWORD}, {"requires_grad", FAPY_BOOL, FAPY_OPTIONAL | FAPY_KEYWORD},
    {"pin_memory", FAPY_BOOL, FAPY_OPTIONAL | FAPY_KEYWORD}};

static PyObject *create_tensor(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_signature signature = {"tensor", 5, tensor_parameters};
    fapy_value v[5];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    if (fapy_tensor_check(v[0].as.o) &&
        PyErr_WarnEx(PyExc_UserWarning, "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                     "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).", 1)) return NULL;
    const uint32_t mark = FAPY_MARK;
    fa_tensor *t = fapy_tensor_of("tensor", v[0].as.o, v[1].given ? v[1].as.dtype : 0, v[2].given ? v[2].as.device : (fa_device){0, 0});
    if (t && v[4].given && v[4].as.b) t = fa_pin_memory(t);
    if (t && v[3].given && v[3].as.b) t = fa_requires_grad(t, true);
    return fapy_take(t, mark);
}

static PyObject *create_as_tensor(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const fapy_parameter parameters[] = {{"data", FAPY_OBJ, 0}, {"dtype", FAPY_DTYPE, FAPY_OPTIONAL | FAPY_NONE}, {"device", FAPY_DEVICE, FAPY_OPTIONAL | FAPY_NONE}};
    static const fapy_signature signature = {"as_tensor", 3, parameters};
    fapy_value v[3];
    (void)self;
    if (!fapy_parse(&signature, args, n, names, 0, v)) return NULL;
    const uint32_t mark = FAPY_MARK;
    fa_tensor *t = fapy_tensor_check(v[0].as.o) ? (fa_tensor *)v[0].as.o : fapy_from_buffer(v[0].as.o);
    if (!t && (fa_failed() || PyErr_Occurred())) return PyErr_Occurred() ? NULL : fapy_raise();
    if (!t) t = fapy_tensor_of("as_tensor", v[0].as.o, v[1].given ? v[1].as.dtype : 0, v[2].given ? v[2].as.device : (fa_device){0, 0});
    if (t && v[1].given) t = fa_cast(t, v[1].as.dtype);
    if (t && v[2].given) t = fa_to(t, v[2].as.device);
    return fapy_take(t, mark);
}

#define FAST(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL | METH_KEYWORDS
PyMethodDef fapy_create_functions[] = {
    {"tensor", FAST(create_tensor), "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n--\n\n"
     "A new tensor of numbers, nested lists of numbers, or arrays; always a copy. The type is that of the data: bool, int64, the default float type."},
    {"as_tensor", FAST(create_as_tensor), "as_tensor(data, dtype=None, device=None)\n--\n\nThe tensor of data, without a copy where that is possible."},
    {0}};
