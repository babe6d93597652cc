/* x[...] and x[...] = y. Numbers, slices, None and ... are views, taken one after the other; tensors, lists and arrays of indices
 * that are left over go to index or index_put in one call. */
#include "face.h"

enum { MOST = 2 * FA_MAX_DIMS };

typedef struct walk {
    fa_tensor *view;                /* what the views so far made of x */
    int dim;                        /* the next dimension of view */
    fa_tensor *index[MOST];         /* as fa_index takes them; NULL: a whole dimension of view */
    int n, nindex;                  /* entries; one more than the last that is a tensor */
} walk;

/* The next dimension of view is kept whole. */
static void keep_whole(walk *w)
{
    w->dim++;
    w->index[w->n++] = NULL;
}

static bool is_advanced(PyObject *o)
{
    if (fapy_tensor_check(o)) return ((fa_tensor *)o)->ndim > 0 || ((fa_tensor *)o)->dtype == FA_BOOL || ((fa_tensor *)o)->dtype == FA_UINT8;
    return PyList_Check(o) || PyTuple_Check(o) || (PyObject_CheckBuffer(o) && PyObject_HasAttrString(o, "ndim"));
}

/* How many dimensions an index takes: a mask as many as it has. */
static int dims_of(PyObject *o)
{
    if (Py_IsNone(o) || o == Py_Ellipsis || PyBool_Check(o)) return 0;
    if (fapy_tensor_check(o) && ((fa_tensor *)o)->dtype == FA_BOOL) return ((fa_tensor *)o)->ndim;
    return 1;
}

/* Python's rules for start and stop; step must be positive. */
static bool take_slice(walk *w, PyObject *slice)
{
    PySliceObject *s = (PySliceObject *)slice;
    const int64_t size = w->view->size[w->dim];
    int64_t start = 0, stop = size, step = 1;
    PyObject *const ends[] = {s->start, s->stop, s->step};
    int64_t *const to[] = {&start, &stop, &step};
    for (int i = 0; i < 3; i++) {
        if (Py_IsNone(ends[i])) continue;
        if (!fapy_int_from(ends[i], to[i])) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "slice indices must be integers or None or have an __index__ method");
            return false;
        }
    }
    if (step <= 0) return PyErr_SetString(PyExc_ValueError, "step must be greater than zero"), false;
    start = start < 0 ? start + size : start, stop = stop < 0 ? stop + size : stop;
    start = start < 0 ? 0 : start > size ? size : start;
    stop = stop < start ? start : stop > size ? size : stop;
    if (start != 0 || stop != size || step != 1) w->view = fa_slice(w->view, w->dim, start, stop, step);
    keep_whole(w);
    return w->view ? true : (fapy_raise(), false);
}

static bool take_number(walk *w, int64_t i)
{
    const int64_t size = w->view->size[w->dim];
    if (i < -size || i >= size) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %d with size %lld", (long long)i, w->dim, (long long)size);
        return false;
    }
    w->view = fa_select(w->view, w->dim, i);
    return w->view ? true : (fapy_raise(), false);
}

static bool take_tensor(walk *w, PyObject *o)
{
    fa_tensor *t = fapy_tensor_check(o) ? (fa_tensor *)o : fapy_tensor_of("index", o, FA_DTYPE_DEFAULT, FA_CPU);
    if (!t) return fapy_raise(), false;
    if (!fapy_tensor_check(o) && t->numel == 0) t = fa_cast(t, FA_INT64); /* [] is a list of no indices */
    if (t->dtype != FA_BOOL && t->dtype != FA_UINT8 && t->dtype != FA_INT32 && t->dtype != FA_INT64) {
        PyErr_Format(PyExc_IndexError, "tensors used as indices must be long, int, byte or bool tensors; this one is %s: index.long()", fa_dtype_name((fa_dtype)t->dtype));
        return false;
    }
    if (t->dtype == FA_UINT8) t = fa_cast(t, FA_BOOL);
    if (!t) return fapy_raise(), false;
    if (t->dtype != FA_BOOL && t->dtype != FA_INT64 && !(t = fa_cast(t, FA_INT64))) return fapy_raise(), false;
    if (!fa_device_equal(t->device, w->view->device)) {
        if (!fai_on_cpu(t)) {
            PyErr_Format(PyExc_RuntimeError, "indices should be either on cpu or on the same device as the indexed tensor (%s); found an index on %s. Move it: index.to('%s')",
                         fa_device_text(w->view->device), fa_device_text(t->device), fa_device_text(w->view->device));
            return false;
        }
        if (!(t = fa_to(t, w->view->device))) return fapy_raise(), false;
    }
    w->index[w->n++] = t;
    w->dim += t->dtype == FA_BOOL ? t->ndim : 1;
    w->nindex = w->n;
    return true;
}

/* True keeps all as one more dimension of size 1, False nothing of it. */
static bool take_bool(walk *w, bool value)
{
    w->view = fa_unsqueeze(w->view, w->dim);
    if (w->view && !value) w->view = fa_narrow(w->view, w->dim, 0, 0);
    keep_whole(w);
    return w->view ? true : (fapy_raise(), false);
}

static bool refuse(PyObject *o)
{
    if (PyUnicode_Check(o)) return PyErr_SetString(PyExc_TypeError, "new(): invalid data type 'str'"), false;
    PyErr_Format(PyExc_IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got %s)", Py_TYPE(o)->tp_name);
    return false;
}

static bool take_one(walk *w, PyObject *o, int missing)
{
    int64_t i;
    if (o == Py_Ellipsis) {
        while (missing-- > 0) keep_whole(w);
        return true;
    }
    if (Py_IsNone(o)) {
        if (w->view->ndim == FA_MAX_DIMS) return PyErr_Format(PyExc_IndexError, "x[None]: a tensor can have at most %d dimensions here", FA_MAX_DIMS), false;
        w->view = fa_unsqueeze(w->view, w->dim);
        keep_whole(w);
        return w->view ? true : (fapy_raise(), false);
    }
    if (PyBool_Check(o)) return take_bool(w, o == Py_True);
    if (w->dim >= w->view->ndim) return PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", w->view->ndim), false;
    if (PySlice_Check(o)) return take_slice(w, o);
    if (is_advanced(o)) return take_tensor(w, o);
    if (fapy_int_from(o, &i)) return take_number(w, i);
    return PyErr_Occurred() ? false : refuse(o);
}

static bool take_all(walk *w, PyObject *key)
{
    if (!PyTuple_Check(key)) return take_one(w, key, w->view->ndim);
    const Py_ssize_t n = PyTuple_GET_SIZE(key);
    int given = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyTuple_GET_ITEM(key, i);
        given += dims_of(o);
    }
    if (given > w->view->ndim || n > MOST) return PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", w->view->ndim), false;
    int missing = w->view->ndim - given; /* what the first ... stands for; a second one stands for nothing */
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!take_one(w, PyTuple_GET_ITEM(key, i), missing)) return false;
        if (PyTuple_GET_ITEM(key, i) == Py_Ellipsis) missing = 0;
    }
    return true;
}

static bool scalar_key(const fa_tensor *t, PyObject *key)
{
    if (t->ndim > 0 || !(PyLong_Check(key) && !PyBool_Check(key))) return false;
    PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
    return true;
}

PyObject *fapy_getitem(PyObject *self, PyObject *key)
{
    fa_tensor *t = (fa_tensor *)self;
    const uint32_t mark = FAPY_MARK;
    walk w = {.view = t};
    if (scalar_key(t, key)) return NULL;
    if (!take_all(&w, key)) return fapy_sweep(mark), NULL;
    if (w.nindex) return fapy_take(fa_index(w.view, w.index, w.nindex), mark);
    return fapy_take(w.view == t ? fa_alias(t) : w.view, mark);
}

int fapy_setitem(PyObject *self, PyObject *key, PyObject *value)
{
    fa_tensor *t = (fa_tensor *)self;
    const uint32_t mark = FAPY_MARK;
    walk w = {.view = t};
    fa_scalar number = {0};
    if (!value) return PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items"), -1;
    if (scalar_key(t, key)) return -1;
    if (!take_all(&w, key)) return fapy_sweep(mark), -1;
    fa_tensor *from = fapy_tensor_check(value) ? (fa_tensor *)value : NULL;
    const bool is_number = !from && fapy_scalar_from(value, &number);
    if (!from && !is_number) {
        if (PyErr_Occurred()) return fapy_sweep(mark), -1;
        from = fapy_tensor_of("__setitem__", value, FA_DTYPE_DEFAULT, FA_CPU);
        if (from) from = fa_to(from, t->device);
        if (!from) return fapy_sweep(mark), fapy_raise(), -1;
    }
    bool fine;
    if (!w.nindex) {
        fine = is_number ? fa_fill_(w.view, number) != NULL : fa_copy_(w.view, from) != NULL;
    } else {
        if (is_number) from = fa_full_with(FA_SHAPE_0D, number, FA_TENSOR_OPTIONS(.dtype = (fa_dtype)w.view->dtype, .device = w.view->device));
        if (from && from->dtype != w.view->dtype) from = fa_cast(from, (fa_dtype)w.view->dtype);
        fine = from && fa_index_put_(w.view, w.index, w.nindex, from, false) != NULL;
    }
    fapy_sweep(mark);
    return fine && !fa_failed() ? 0 : (fapy_raise(), -1);
}
