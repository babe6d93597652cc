/* The seam between the two languages: what becomes of a tensor whose last reference goes, who holds Python's lock, and errors. */
#include "face.h"

const char *fapy_names = "facula";
PyObject *fapy_OutOfMemoryError, *fapy_AcceleratorError;

/* ---- objects ---- */

static void dealloc(void *object) { Py_TYPE(object)->tp_dealloc(object); }

static void *unlock(void) { return PyEval_SaveThread(); }
static void lock(void *state) { PyEval_RestoreThread(state); }

static bool stop(void *data)
{
    (void)data;
    PyGILState_STATE state = PyGILState_Ensure();
    const bool interrupted = PyErr_CheckSignals() != 0;
    if (interrupted) fapy_foreign();
    PyGILState_Release(state);
    return interrupted;
}

/* A warning that a filter made an error stays pending as the library's error. */
static void warn(const char *op, const char *text)
{
    (void)op;
    PyGILState_STATE state = PyGILState_Ensure();
    if (PyErr_WarnEx(PyExc_UserWarning, text, 1) != 0) fapy_foreign();
    PyGILState_Release(state);
}

bool fapy_seam_set_up(void)
{
    fai_other_face.types[FAI_TENSOR] = &fapy_Tensor;
    fai_other_face.types[FAI_GENERATOR] = &fapy_Generator;
    fai_other_face.parameter_type = &fapy_Parameter;
    fai_other_face.dealloc = dealloc;
    fai_other_face.unlock = unlock;
    fai_other_face.lock = lock;
    fai_set_warn(warn);
    fa_set_poll(stop, NULL);
    return true;
}

/* ---- help ---- */

/* doc with the example of prefix + name behind it; what is made lives as long as the process. */
const char *fapy_with_example(const char *prefix, const char *name, const char *doc)
{
    const size_t length = strlen(prefix);
    for (const fapy_example *e = fapy_examples; doc && e->name; e++) {
        if (strncmp(e->name, prefix, length) || strcmp(e->name + length, name)) continue;
        const size_t room = strlen(doc) + strlen(e->text) + 3;
        char *both = malloc(room);
        if (both) snprintf(both, room, "%s\n\n%s", doc, e->text);
        return both ? both : doc;
    }
    return doc;
}

/* ---- results ---- */

void fapy_sweep(uint32_t mark)
{
    while (fai_tls.nowned > mark) {
        fai_object *object = fai_tls.owned[fai_tls.nowned - 1];
        if (object) fa_drop(object);
        else fai_tls.nowned--;
    }
}

static PyObject *take_all(PyObject *into, fa_tensor *const *parts, int n, uint32_t mark, bool list)
{
    if (fai_tls.error_pending || !into) {
        Py_XDECREF(into);
        fapy_sweep(mark);
        return fai_tls.error_pending ? fapy_raise() : NULL;
    }
    for (int i = 0; i < n; i++) {
        PyObject *part = Py_None;
        if (parts[i]) {
            if (parts[i]->object.slot > mark && parts[i]->object.owner == &fai_tls) fai_scope_take(parts[i]), part = (PyObject *)parts[i];
            else part = fai_ref(parts[i]);
        } else {
            Py_INCREF(part);
        }
        if (list) PyList_SET_ITEM(into, i, part);
        else PyTuple_SET_ITEM(into, i, part);
    }
    fapy_sweep(mark);
    return into;
}

PyObject *fapy_take_tuple(fa_tensor *const *parts, int n, uint32_t mark) { return take_all(PyTuple_New(n), parts, n, mark, false); }
PyObject *fapy_take_list(fa_tensor *const *parts, int n, uint32_t mark) { return take_all(PyList_New(n), parts, n, mark, true); }

/* ---- errors ---- */

static PyObject *class_of(fa_code code)
{
    switch (code) {
    case FA_ERR_VALUE: return PyExc_ValueError;
    case FA_ERR_TYPE: return PyExc_TypeError;
    case FA_ERR_INDEX: return PyExc_IndexError;
    case FA_ERR_MEMORY: return PyExc_MemoryError;
    case FA_ERR_DEVICE_MEMORY: return fapy_OutOfMemoryError;
    case FA_ERR_DEVICE: return fapy_AcceleratorError;
    case FA_ERR_FILE: return PyExc_OSError;
    case FA_ERR_UNSUPPORTED: return PyExc_NotImplementedError;
    case FA_ERR_KEY: return PyExc_KeyError;
    case FA_ERR_ATTRIBUTE: return PyExc_AttributeError;
    case FA_ERR_ASSERTION: return PyExc_AssertionError;
    case FA_ERR_INTERRUPTED: return PyExc_KeyboardInterrupt;
    default: return PyExc_RuntimeError;
    }
}

/* The cure in the user's language; NULL where the text has nothing of C in it, or Python is ending. */
static PyObject *translated(const char *text)
{
    if (!strstr(text, "fa_") && !strstr(text, "FA_") && !strstr(text, "In C") && !strstr(text, "NULL")) return NULL;
    PyObject *module = PyImport_ImportModule("facula._errors"), *result = module ? PyObject_CallMethod(module, "translate", "s", text) : NULL;
    Py_XDECREF(module);
    if (!result) PyErr_Clear();
    return result;
}

PyObject *fapy_raise(void)
{
    const fa_error error = fa_error_take();
    if (error.code == FA_ERR_FOREIGN && PyErr_Occurred()) return NULL;
    if (error.code == FA_OK) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "a function of Facula failed without saying why");
        return NULL;
    }
    PyObject *text = error.code == FA_ERR_MEMORY ? NULL : translated(error.text);
    if (text) PyErr_SetObject(class_of(error.code), text);
    else PyErr_SetString(class_of(error.code), error.text);
    Py_XDECREF(text);
    return NULL;
}

/* The exception itself stays where Python keeps it, on this thread. */
bool fapy_foreign(void)
{
    if (!fa_failed()) fa_error_set(FA_ERR_FOREIGN, "python", "a Python exception");
    return false;
}
