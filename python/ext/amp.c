/* Mixed precision for facula/amp.py: autocast's scopes and modes, by the type of a device; the gradient scaler, which serves any
 * Python object with param_groups and step: its address is the key. */
#include "face.h"
#include "autograd/autocast.h"
#include "optim/optim.h"

/* "cuda", or None: cuda, as torch's getters mean it. */
static bool type_from(PyObject *o, fa_device *device) {
    if (!o || Py_IsNone(o)) return *device = FA_CUDA(-1), true;
    const char *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
    if (!text) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "device_type must be str, not %s", Py_TYPE(o)->tp_name);
        return false;
    }
    *device = fa_device_parse(text);
    return device->type ? true : (fapy_raise(), false);
}

/* _autocast_usable(device_type, dtype): False, with a warning, where such autocast can't be on. */
static PyObject *usable(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *type, *dtype;
    fa_device device;
    fa_dtype d;
    if (!PyArg_ParseTuple(args, "OO", &type, &dtype) || !type_from(type, &device) || !fapy_dtype_from(dtype, "autocast", "dtype", 2, &d)) return NULL;
    const bool fine = fai_autocast_usable(device, d);
    return fa_failed() ? fapy_raise() : PyBool_FromLong(fine);
}

/* _autocast_open(device_type, dtype, enabled, cache_enabled): what the scope hides, for _autocast_close. */
static PyObject *open_scope(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *type, *dtype;
    int enabled, cached;
    fa_device device;
    fa_autocast_options o = {.struct_size = sizeof o};
    if (!PyArg_ParseTuple(args, "OOpp", &type, &dtype, &enabled, &cached) || !type_from(type, &device) ||
        !fapy_dtype_from(dtype, "autocast", "dtype", 2, &o.dtype))
        return NULL;
    o.enabled = enabled, o.cache_enabled = cached;
    const fa_autocast was = fai_autocast_begin(device, &o);
    return Py_BuildValue("iiii", was.type, was.dtype, was.enabled, was.cache_enabled);
}

static PyObject *close_scope(PyObject *self, PyObject *args) {
    (void)self;
    fa_autocast was = {0};
    int enabled, cached;
    if (!PyArg_ParseTuple(args, "iiii", &was.type, &was.dtype, &enabled, &cached)) return NULL;
    was.enabled = enabled, was.cache_enabled = cached;
    fa_autocast_close(&was);
    Py_RETURN_NONE;
}

static PyObject *is_enabled(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *type = NULL;
    fa_device device;
    if (!PyArg_ParseTuple(args, "|O:is_autocast_enabled", &type) || !type_from(type, &device)) return NULL;
    return PyBool_FromLong(fa_is_autocast_enabled(device));
}

static PyObject *set_enabled(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *first, *second = NULL;
    fa_device device;
    if (!PyArg_ParseTuple(args, "O|O:set_autocast_enabled", &first, &second) || !type_from(second ? first : NULL, &device)) return NULL;
    const int on = PyObject_IsTrue(second ? second : first);
    if (on < 0) return NULL;
    fa_set_autocast_enabled(device, on);
    Py_RETURN_NONE;
}

static PyObject *get_dtype(PyObject *self, PyObject *type) {
    (void)self;
    fa_device device;
    return type_from(type, &device) ? fapy_dtype_new(fa_autocast_dtype(device)) : NULL;
}

static PyObject *set_dtype(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *type, *dtype;
    fa_device device;
    fa_dtype d;
    if (!PyArg_ParseTuple(args, "OO:set_autocast_dtype", &type, &dtype) || !type_from(type, &device) ||
        !fapy_dtype_from(dtype, "set_autocast_dtype", "dtype", 2, &d))
        return NULL;
    fa_set_autocast_dtype(device, d);
    Py_RETURN_NONE;
}

static PyObject *is_cached(PyObject *self, PyObject *unused) { (void)self, (void)unused; return PyBool_FromLong(fa_is_autocast_cache_enabled()); }
static PyObject *set_cached(PyObject *self, PyObject *on) {
    (void)self;
    const int truth = PyObject_IsTrue(on);
    if (truth < 0) return NULL;
    fa_set_autocast_cache_enabled(truth);
    Py_RETURN_NONE;
}
static PyObject *clear_cache(PyObject *self, PyObject *unused) { (void)self, (void)unused; fa_clear_autocast_cache(); Py_RETURN_NONE; }

/* ---- the scaler, in a capsule ---- */

static const char capsule_name[] = "facula.grad_scaler";
static void drop_scaler(PyObject *capsule) { fai_unref(PyCapsule_GetPointer(capsule, capsule_name)); }
static fa_grad_scaler *scaler_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, capsule_name); }

static PyObject *scaler_new(PyObject *self, PyObject *args) {
    (void)self;
    fa_grad_scaler_options o = {.struct_size = sizeof o};
    int enabled;
    long long interval;
    const uint32_t mark = FAPY_MARK;
    if (!PyArg_ParseTuple(args, "dddLp", &o.init_scale, &o.growth_factor, &o.backoff_factor, &interval, &enabled)) return NULL;
    o.growth_interval = interval, o.enabled = enabled;
    fa_grad_scaler *s = fapy_own(fa_grad_scaler_with(&o), mark);
    if (!s) return fapy_raise();
    PyObject *capsule = PyCapsule_New(s, capsule_name, drop_scaler);
    if (!capsule) fai_unref(s);
    return capsule;
}

static PyObject *scaler_scale(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *loss;
    const uint32_t mark = FAPY_MARK;
    if (!PyArg_ParseTuple(args, "OO!", &capsule, &fapy_Tensor, &loss)) return NULL;
    fa_grad_scaler *s = scaler_of(capsule);
    return s ? fapy_take(fa_grad_scaler_scale(s, (fa_tensor *)loss), mark) : NULL;
}

/* _scaler_unscale(scaler, optimizer, parameters, name) */
static PyObject *scaler_unscale(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *key, *list;
    const char *op;
    const uint32_t mark = FAPY_MARK;
    if (!PyArg_ParseTuple(args, "OOO!s", &capsule, &key, &PyList_Type, &list, &op)) return NULL;
    fa_grad_scaler *s = scaler_of(capsule);
    const Py_ssize_t n = PyList_GET_SIZE(list);
    fa_tensor **parameters = s ? PyMem_Malloc(((size_t)n + 1) * sizeof *parameters) : NULL;
    if (!parameters) return s ? PyErr_NoMemory() : NULL;
    for (Py_ssize_t i = 0; i < n; i++) parameters[i] = fapy_tensor_check(PyList_GET_ITEM(list, i)) ? (fa_tensor *)PyList_GET_ITEM(list, i) : NULL;
    const bool fine = fai_scaler_unscale(strcmp(op, "step") == 0 ? "step" : "unscale_", s, key, parameters, (int)n);
    PyMem_Free(parameters);
    return fapy_bool_or_raise(fine, mark);
}

static PyObject *scaler_finite(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *key;
    bool finite;
    const uint32_t mark = FAPY_MARK;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &key)) return NULL;
    fa_grad_scaler *s = scaler_of(capsule);
    if (!s) return NULL;
    const bool fine = fai_scaler_finite("step", s, key, &finite);
    fapy_sweep(mark);
    return fine ? PyBool_FromLong(finite) : fapy_raise();
}

/* _scaler_guard(scaler, optimizer): in a capture the bool that the step shall depend on, else None. */
static PyObject *scaler_guard(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *key;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &key)) return NULL;
    fa_grad_scaler *s = scaler_of(capsule);
    PyObject *guard = s ? (PyObject *)fai_scaler_guard("step", s, key) : NULL;
    if (guard) return Py_NewRef(guard);
    if (!s || fa_failed()) return s ? fapy_raise() : NULL;
    Py_RETURN_NONE;
}

static PyObject *scaler_is_unscaled(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *key;
    bool unscaled;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &key)) return NULL;
    const fa_grad_scaler *s = scaler_of(capsule);
    if (!s) return NULL;
    return fai_scaler_is_unscaled("step", s, key, &unscaled) ? PyBool_FromLong(unscaled) : fapy_raise();
}

static PyObject *scaler_stepped(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule, *key;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &key)) return NULL;
    fa_grad_scaler *s = scaler_of(capsule);
    if (!s) return NULL;
    fai_scaler_stepped(s, key);
    Py_RETURN_NONE;
}

static PyObject *scaler_update(PyObject *self, PyObject *capsule) {
    (void)self;
    const uint32_t mark = FAPY_MARK;
    fa_grad_scaler *s = scaler_of(capsule);
    return s ? fapy_bool_or_raise(fa_grad_scaler_update(s), mark) : NULL;
}

/* (scale, growth_factor, backoff_factor, growth_interval, growth_tracker) */
static PyObject *scaler_get(PyObject *self, PyObject *capsule) {
    (void)self;
    const fa_grad_scaler *s = scaler_of(capsule);
    if (!s) return NULL;
    const fa_grad_scaler_state v = fa_grad_scaler_get(s);
    if (fa_failed()) return fapy_raise();
    return Py_BuildValue("dddLL", v.scale, v.growth_factor, v.backoff_factor, (long long)v.growth_interval, (long long)v.growth_tracker);
}

static PyObject *scaler_set(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *capsule;
    fa_grad_scaler_state v;
    long long interval, tracker;
    if (!PyArg_ParseTuple(args, "O(dddLL)", &capsule, &v.scale, &v.growth_factor, &v.backoff_factor, &interval, &tracker)) return NULL;
    v.growth_interval = interval, v.growth_tracker = tracker;
    fa_grad_scaler *s = scaler_of(capsule);
    return s ? fapy_bool_or_raise(fa_grad_scaler_set(s, &v), FAPY_MARK) : NULL;
}

PyMethodDef fapy_amp_functions[] = {
    {"_scaler_new", scaler_new, METH_VARARGS, NULL},
    {"_scaler_scale", scaler_scale, METH_VARARGS, NULL},
    {"_scaler_unscale", scaler_unscale, METH_VARARGS, NULL},
    {"_scaler_finite", scaler_finite, METH_VARARGS, NULL},
    {"_scaler_guard", scaler_guard, METH_VARARGS, NULL},
    {"_scaler_is_unscaled", scaler_is_unscaled, METH_VARARGS, NULL},
    {"_scaler_stepped", scaler_stepped, METH_VARARGS, NULL},
    {"_scaler_update", scaler_update, METH_O, NULL},
    {"_scaler_get", scaler_get, METH_O, NULL},
    {"_scaler_set", scaler_set, METH_VARARGS, NULL},
    {"_autocast_usable", usable, METH_VARARGS, NULL},
    {"_autocast_open", open_scope, METH_VARARGS, NULL},
    {"_autocast_close", close_scope, METH_VARARGS, NULL},
    {"is_autocast_enabled", is_enabled, METH_VARARGS, "is_autocast_enabled(device_type='cuda')\n--\n\nWhether autocast is on for that type of device on this thread."},
    {"set_autocast_enabled", set_enabled, METH_VARARGS, "set_autocast_enabled(device_type, enabled)\n--\n\nSwitches autocast for that type of device on this thread; `with torch.autocast(...)` is the usual way."},
    {"get_autocast_dtype", get_dtype, METH_O, "get_autocast_dtype(device_type)\n--\n\nThe lower precision of autocast there: bfloat16 on the CPU, else float16, unless it was set."},
    {"set_autocast_dtype", set_dtype, METH_VARARGS, "set_autocast_dtype(device_type, dtype)\n--\n\nThe lower precision of autocast there, float16 or bfloat16, for this thread."},
    {"is_autocast_cache_enabled", is_cached, METH_NOARGS, "is_autocast_cache_enabled()\n--\n\nWhether a weight is cast once for each outermost autocast."},
    {"set_autocast_cache_enabled", set_cached, METH_O, "set_autocast_cache_enabled(enabled)\n--\n\nWhether a weight is cast once for each outermost autocast, or at each use."},
    {"clear_autocast_cache", clear_cache, METH_NOARGS, "clear_autocast_cache()\n--\n\nLets go of the weights that autocast keeps cast."},
    {0}};
