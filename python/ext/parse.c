/* Arguments by signature: positional ones, keywords, defaults; errors in torch's words. */
#include "face.h"

static const char *const kind_names[] = {"Tensor", "Tensor", "tuple of Tensors", "int", "float", "bool", "Number", "tuple of ints",
                                         "torch.dtype", "torch.device", "str", "object"};

/* The type's name as PyTorch says it: its tensors' have no module. */
static const char *type_of(PyObject *o)
{
    return Py_TYPE(o) == &fapy_Tensor ? "Tensor" : Py_TYPE(o) == &fapy_Parameter ? "Parameter" : Py_TYPE(o)->tp_name;
}

/* position: among the positional arguments of the call, from 1; 0: it was given by its name. */
static bool refuse_as(const fapy_signature *s, int i, int position, const char *text)
{
    char where[32] = "";
    if (position) snprintf(where, sizeof where, " (position %d)", position);
    PyErr_Format(PyExc_TypeError, "%s(): argument '%s'%s must be %s", s->name, s->parameters[i].name, where, text);
    return false;
}

/* The element of a shape that is no int; the number of it. */
static bool refuse_element(const fapy_signature *s, int i, int position, Py_ssize_t at, PyObject *found)
{
    char text[120];
    if (at == 0) {
        snprintf(text, sizeof text, "tuple of ints, but found element of type %.60s at pos 0", type_of(found));
        return refuse_as(s, i, position, text);
    }
    PyErr_Format(PyExc_TypeError, "%s(): argument '%s' failed to unpack the object at pos %zd with error \"type must be tuple of ints,but got %s\"", s->name,
                 s->parameters[i].name, at + 1, type_of(found));
    return false;
}

static bool is_size(PyObject *o) { return PyIndex_Check(o) && !PyBool_Check(o) && !PyFloat_Check(o); }

static bool refuse(const fapy_signature *s, int i, int position, PyObject *found)
{
    const fapy_parameter *p = &s->parameters[i];
    char text[120];
    const bool list = PyTuple_Check(found) || PyList_Check(found);
    PyObject *items = list && (p->kind == FAPY_SHAPE || p->kind == FAPY_TS) ? PySequence_Tuple(found) : NULL;
    for (Py_ssize_t k = 0; items && k < PyTuple_GET_SIZE(items); k++) {
        PyObject *item = PyTuple_GET_ITEM(items, k);
        if (p->kind == FAPY_SHAPE && PyTuple_GET_SIZE(items) <= FA_MAX_DIMS && !is_size(item)) refuse_element(s, i, position, k, item);
        else if (p->kind == FAPY_TS && !fapy_tensor_check(item))
            PyErr_Format(PyExc_TypeError, "expected Tensor as element %zd in argument %d, but got %s", k, i, type_of(item));
        if (PyErr_Occurred()) return Py_DECREF(items), false;
    }
    if (items && p->kind == FAPY_SHAPE && PyTuple_GET_SIZE(items) > FA_MAX_DIMS)
        snprintf(text, sizeof text, "at most %d numbers, not %lld", FA_MAX_DIMS, (long long)PyTuple_GET_SIZE(items));
    else snprintf(text, sizeof text, "%s, not %.60s", kind_names[p->kind], type_of(found));
    Py_XDECREF(items);
    return refuse_as(s, i, position, text);
}

bool fapy_shape_from(PyObject *o, fa_shape *out)
{
    int64_t value;
    if (!PyTuple_Check(o) && !PyList_Check(o)) {
        if (PyBool_Check(o) || !fapy_int_from(o, &value)) return false;
        *out = (fa_shape){1, {value}};
        return true;
    }
    PyObject *items = PySequence_Tuple(o); /* an item's __index__ may change a list */
    if (!items) return false;
    const Py_ssize_t n = PyTuple_GET_SIZE(items);
    bool fine = n <= FA_MAX_DIMS;
    out->ndim = fine ? (int32_t)n : 0;
    for (Py_ssize_t i = 0; fine && i < n; i++) fine = !PyBool_Check(PyTuple_GET_ITEM(items, i)) && fapy_int_from(PyTuple_GET_ITEM(items, i), &out->dim[i]);
    Py_DECREF(items);
    return fine;
}

/* The tensors of a tuple or list, borrowed from the tuple that holder keeps. */
static bool read_tensors(PyObject *o, fapy_tensors *out)
{
    if (fapy_tensor_check(o) || PyUnicode_Check(o)) return false;
    PyObject *held = PySequence_Tuple(o);
    if (!held) return PyErr_Clear(), false;
    const Py_ssize_t n = PyTuple_GET_SIZE(held);
    bool fine = n <= INT32_MAX / 16;
    for (Py_ssize_t i = 0; fine && i < n; i++) fine = fapy_tensor_check(PyTuple_GET_ITEM(held, i)) || Py_IsNone(PyTuple_GET_ITEM(held, i));
    fa_tensor **at = fine ? PyMem_Malloc(((size_t)n + 1) * sizeof *at) : NULL;
    if (!at) return Py_DECREF(held), false;
    for (Py_ssize_t i = 0; i < n; i++) at[i] = Py_IsNone(PyTuple_GET_ITEM(held, i)) ? NULL : (fa_tensor *)PyTuple_GET_ITEM(held, i);
    *out = (fapy_tensors){at, (int)n, held};
    return true;
}

/* False without an exception: not of that kind. */
static bool convert(const fapy_signature *s, int i, int position, PyObject *o, fapy_value *v)
{
    const fapy_parameter *p = &s->parameters[i];
    fa_scalar number;
    switch ((fapy_kind)p->kind) {
    case FAPY_T: return v->as.t = (fa_tensor *)o, fapy_tensor_check(o);
    case FAPY_TN:
        v->as.operand.tensor = NULL;
        if (fapy_tensor_check(o)) return v->as.operand.tensor = (fa_tensor *)o, true;
        return fapy_scalar_from(o, &v->as.operand.scalar);
    case FAPY_TS: return read_tensors(o, &v->as.ts);
    case FAPY_INT: return !PyBool_Check(o) && fapy_int_from(o, &v->as.i);
    case FAPY_FLOAT:
        if (!fapy_scalar_from(o, &number)) {
            if (!fapy_tensor_check(o)) return false;
            v->as.f = PyFloat_AsDouble(o);
            return !PyErr_Occurred();
        }
        return v->as.f = fa_scalar_float(number), true;
    case FAPY_BOOL:
        if (PyBool_Check(o)) return v->as.b = o == Py_True, true;
        return fapy_scalar_from(o, &number) && number.kind == FA_SCALAR_BOOL && (v->as.b = number.as.i != 0, true); /* NumPy's */
    case FAPY_NUM:
        if (fapy_scalar_from(o, &v->as.num)) return true;
        if (!fapy_tensor_check(o) || ((fa_tensor *)o)->numel != 1) return false;
        PyObject *item = fapy_item((fa_tensor *)o);
        const bool fine = item && fapy_scalar_from(item, &v->as.num);
        Py_XDECREF(item);
        return fine;
    case FAPY_SHAPE: return fapy_shape_from(o, &v->as.shape);
    case FAPY_DTYPE: return fapy_dtype_from(o, s->name, p->name, position, &v->as.dtype);
    case FAPY_DEVICE: return fapy_device_from(o, s->name, p->name, position, &v->as.device);
    case FAPY_TEXT: return PyUnicode_Check(o) && (v->as.text = PyUnicode_AsUTF8(o)) != NULL;
    case FAPY_OBJ: return v->as.o = o, true;
    }
    return false;
}

static bool set(const fapy_signature *s, int i, int position, PyObject *o, fapy_value *v)
{
    if (Py_IsNone(o) && s->parameters[i].flags & FAPY_NONE) return true;
    if (FAI_LIKELY(convert(s, i, position, o, &v[i]))) return v[i].given = true;
    return PyErr_Occurred() ? false : refuse(s, i, position, o);
}

static bool missing(const fapy_signature *s, const fapy_value *v)
{
    char text[400] = "";
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (v[i].given || s->parameters[i].flags & FAPY_OPTIONAL) continue;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"%s\"", n++ ? ", " : "", s->parameters[i].name);
    }
    PyErr_Format(PyExc_TypeError, "%s() missing %d required positional arguments: %s", s->name, n, text);
    return false;
}

static int find(const fapy_signature *s, const char *name)
{
    /* numpy's words, which torch takes too */
    static const char *const also[][2] = {{"axis", "dim"}, {"axes", "dim"}, {"keepdims", "keepdim"}, {"x", "input"}, {"self", "input"},
                                          {"a", "input"}, {"x2", "other"}, {"axis", "dims"}};
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->parameters[i].name, name) == 0) return i;
    for (size_t k = 0; k < sizeof also / sizeof *also; k++) {
        if (strcmp(also[k][0], name) != 0) continue;
        for (int i = 0; i < s->n; i++)
            if (strcmp(s->parameters[i].name, also[k][1]) == 0) return i;
    }
    return -1;
}

/* view(2, 3): the rest of the positional arguments is the shape; of objects, a tuple that fapy_done gives back. */
static bool set_varargs(const fapy_signature *s, int i, int first, PyObject *const *args, Py_ssize_t n, fapy_value *v)
{
    if (s->parameters[i].kind == FAPY_OBJ) {
        if (!(v[i].as.o = PyTuple_New(n))) return false;
        for (Py_ssize_t k = 0; k < n; k++) PyTuple_SET_ITEM(v[i].as.o, k, Py_NewRef(args[k]));
        return v[i].given = true;
    }
    fa_shape *shape = &v[i].as.shape;
    if (n > FA_MAX_DIMS) {
        PyErr_Format(PyExc_RuntimeError, "%s(): a tensor can have at most %d dimensions here, but %zd numbers were given", s->name, FA_MAX_DIMS, n);
        return false;
    }
    shape->ndim = (int32_t)n;
    for (Py_ssize_t k = 0; k < n; k++)
        if (PyBool_Check(args[k]) || !fapy_int_from(args[k], &shape->dim[k]))
            return PyErr_Occurred() ? false : k ? refuse_element(s, i, 0, k, args[k]) : refuse(s, i, i + 1 - first, args[k]);
    return v[i].given = true;
}

static bool set_keywords(const fapy_signature *s, PyObject *const *values, PyObject *names, int first, fapy_value *v)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); k++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, k));
        if (!name) return false;
        const int i = find(s, name);
        if (i < first) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", s->name, name);
            return false;
        }
        if (v[i].given) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'", s->name, name);
            return false;
        }
        const bool several = s->parameters[i].kind == FAPY_OBJ && s->parameters[i].flags & FAPY_VARARGS;
        if (!(several ? set_varargs(s, i, first, &values[k], 1, v) : set(s, i, 0, values[k], v))) return false;
    }
    return true;
}

bool fapy_parse(const fapy_signature *s, PyObject *const *args, Py_ssize_t nargs, PyObject *names, int first, fapy_value *v)
{
    for (int i = first; i < s->n; i++) {
        v[i].given = false;
        if (s->parameters[i].kind == FAPY_TS) v[i].as.ts = (fapy_tensors){NULL, 0, NULL};
    }
    Py_ssize_t k = 0;
    bool fine = true;
    for (int i = first; fine && k < nargs; i++) {
        if (i >= s->n || s->parameters[i].flags & FAPY_KEYWORD) {
            int most = first;
            while (most < s->n && !(s->parameters[most].flags & FAPY_KEYWORD)) most++;
            PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd were given", s->name, most, most == 1 ? "" : "s", nargs + first);
            fine = false;
        } else if (s->parameters[i].flags & FAPY_VARARGS && (nargs - k > 1 || PyLong_CheckExact(args[k]) || s->parameters[i].kind == FAPY_OBJ)) {
            fine = set_varargs(s, i, first, args + k, nargs - k, v);
            k = nargs;
        } else {
            fine = set(s, i, i + 1 - first, args[k], v);
            k++;
        }
    }
    if (fine && names) fine = set_keywords(s, args + nargs, names, first, v);
    for (int i = first; fine && i < s->n; i++)
        if (FAI_UNLIKELY(!v[i].given && !(s->parameters[i].flags & FAPY_OPTIONAL))) {
            if (s->parameters[i].flags & FAPY_VARARGS && s->parameters[i].kind == FAPY_SHAPE && nargs == 0 && !names) continue;
            fine = missing(s, v);
        }
    if (!fine) fapy_done(s, v);
    return fine;
}

void fapy_done(const fapy_signature *s, fapy_value *v)
{
    for (int i = 0; i < s->n; i++) {
        if (s->parameters[i].kind == FAPY_OBJ && s->parameters[i].flags & FAPY_VARARGS && v[i].given) Py_CLEAR(v[i].as.o);
        if (s->parameters[i].kind != FAPY_TS || !v[i].as.ts.holder) continue;
        PyMem_Free(v[i].as.ts.at);
        Py_CLEAR(v[i].as.ts.holder);
    }
}

PyObject *fapy_to_out(const char *name, PyObject *result, PyObject *out)
{
    if (!result || !out || Py_IsNone(out)) return result;
    if (!fapy_tensor_check(out) || !fapy_tensor_check(result)) {
        Py_DECREF(result);
        return PyErr_Format(PyExc_TypeError, "%s(): argument 'out' must be Tensor, not %s", name, type_of(out));
    }
    const uint32_t mark = FAPY_MARK;
    fa_tensor *r = (fa_tensor *)result, *t = (fa_tensor *)out;
    if (fai_recording() && (fai_wants_grad(r) || fai_wants_grad(t))) {
        Py_DECREF(result);
        PyErr_Format(PyExc_RuntimeError, "%s(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.", name);
        return NULL;
    }
    if (!fa_device_equal(t->device, r->device)) {
        static const char *const names[] = {"out", "result"};
        fai_fail_mixed(name, 2, names, (fa_tensor *[]){t, r}, 0, 1);
    } else if (t->numel == 0 && r->numel != 0) {
        fai_set_memory(t, r);
    }
    const bool fine = !fai_tls.error_pending && fa_copy_(t, r) != NULL;
    Py_DECREF(result);
    if (!fine) return fapy_sweep(mark), fapy_raise();
    fapy_sweep(mark);
    Py_INCREF(out);
    return out;
}
