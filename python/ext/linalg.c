/* Linear algebra for Python: what has more than two results, or is called in another way than in C. */
#include "bind.h"

fa_tensor *logdet(fa_tensor *a)
{
    fa_tensor *size, *sign = fa_linalg_slogdet(a, &size);
    fa_tensor *none = sign ? fa_full_like_with(sign, fa_scalar_of_float(NAN), NULL) : NULL;
    return none ? fa_where(fa_lt_scalar(sign, 0), none, size) : NULL;
}

fa_tensor *eigh(fa_tensor *a, const char *part, fa_tensor **vectors)
{
    *vectors = NULL;
    if (strcmp(part, "L") && strcmp(part, "U") && strcmp(part, "l") && strcmp(part, "u")) {
        PyErr_Format(PyExc_RuntimeError, "Expected UPLO argument to be 'L' or 'U', but got %s", part);
        return fapy_foreign(), NULL;
    }
    return fa_linalg_eigh(a, part[0] == 'U' || part[0] == 'u', vectors);
}

/* The three as torch's named tuple. */
static PyObject *three(const char *name, fa_tensor *u, fa_tensor *s, fa_tensor *v, uint32_t mark)
{
    fa_tensor *const parts[] = {u, s, v};
    if (!u || !s || !v || fa_failed()) return fapy_take(NULL, mark);
    PyObject *tuple = fapy_take_tuple(parts, 3, mark);
    PyObject *module = tuple ? PyImport_ImportModule("facula.return_types") : NULL;
    PyObject *result = module ? PyObject_CallMethod(module, name, "(O)", tuple) : NULL;
    Py_XDECREF(tuple);
    Py_XDECREF(module);
    return result;
}

FAPY_DO(linalg_svd)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *u, *vh, *s = fa_linalg_svd(v[0].as.t, !v[1].given || v[1].as.b, &u, &vh);
    return three("linalg_svd", u, s, vh, mark);
}

/* V, not its transpose; without compute_uv zeros in their places, as torch gives them. */
FAPY_DO(svd)
{
    const uint32_t mark = FAPY_MARK;
    const bool some = !v[1].given || v[1].as.b, vectors = !v[2].given || v[2].as.b;
    fa_tensor *a = v[0].as.t, *u = NULL, *vh = NULL, *s;
    if (vectors) return s = fa_linalg_svd(a, !some, &u, &vh), three("svd", u, s, vh ? fa_transpose(vh, -2, -1) : NULL, mark);
    s = fa_linalg_svd(a, false, NULL, NULL);
    fa_shape shape = fa_shape_of_tensor(a);
    const int d = a->ndim;
    if (s) {
        const int64_t m = shape.dim[d - 2], n = shape.dim[d - 1];
        shape.dim[d - 2] = shape.dim[d - 1] = m;
        u = fa_zeros_with(shape, FA_TENSOR_OPTIONS(.dtype = (fa_dtype)a->dtype, .device = a->device));
        shape.dim[d - 2] = shape.dim[d - 1] = n;
        vh = fa_zeros_with(shape, FA_TENSOR_OPTIONS(.dtype = (fa_dtype)a->dtype, .device = a->device));
    }
    return three("svd", u, s, vh, mark);
}
