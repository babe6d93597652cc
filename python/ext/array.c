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

PyMethodDef fapy_array_methods[] = {{0}};
PyMethodDef fapy_array_functions[] = {{0}};
