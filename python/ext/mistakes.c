/* What the messages of mistakes say in Python's words: names of arguments, the user's own variables, where a tensor stands in a module.
 * Only an error that is being told comes here. The search through the caller's frames is Python's: facula/_mistakes.py. */
#include "nn.h"

/* The library's names of tensors where Python's differ; op NULL: of every other operator. */
static const struct { const char *op, *from, *to; } names[] = {
    {"where", "x", "condition"},   {"where", "y", "input"},        {"where", "z", "other"},         {"addcmul", "y", "tensor1"},
    {"addcmul", "z", "tensor2"},   {"addcdiv", "y", "tensor1"},    {"addcdiv", "z", "tensor2"},     {"lerp", "y", "end"},
    {"lerp", "z", "weight"},       {"masked_fill", "y", "mask"},   {"masked_fill", "z", "value"},   {"clamp_min", "y", "min"},
    {"clamp_max", "z", "max"}, {"clamp", "y", "min"}, {"clamp", "z", "max"},       {"pow", "y", "exponent"},       {"heaviside", "y", "values"},    {"mm", "b", "mat2"},
    {"bmm", "b", "mat2"},          {"mv", "b", "vec"},             {"dot", "b", "tensor"},          {"outer", "b", "vec2"},
    {"index_add", "src", "source"}, {"index_copy", "src", "source"}, {"masked_scatter", "src", "source"}, {"bilinear", "x1", "input1"},
    {"bilinear", "x2", "input2"},  {"take_along_dim", "index", "indices"}, {"prelu_element", "y", "weight"}, {"cdist", "a", "x1"},
    {"cdist", "b", "x2"},          {"cosine_similarity", "a", "x1"}, {"cosine_similarity", "b", "x2"}, {"isin", "x", "elements"},
    {"isin", "among", "test_elements"}, {"searchsorted", "sorted", "sorted_sequence"}, {"searchsorted", "values", "input"},
    {NULL, "x", "input"},           {NULL, "y", "other"},            {NULL, "a", "input"},
    {NULL, "b", "other"},          {NULL, "x1", "input1"},         {NULL, "x2", "input2"},          {NULL, "h0", "hx"},
    {NULL, "c0", "cx"},            {NULL, "like", "other"}};

/* "index_add_" is index_add. */
static bool is_op(const char *op, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(op, name, n) == 0 && (!op[n] || strcmp(op + n, "_") == 0);
}

static const char *argument(const char *op, const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].from) == 0 && (!names[i].op || is_op(op, names[i].op))) return names[i].to;
    return name;
}

static const char *module_name(const void *module)
{
    const char *name = Py_TYPE((PyObject *)(uintptr_t)module)->tp_name, *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* What facula._mistakes.function(...) says; false where it has nothing to say. No exception comes out of here: one is being made. */
static bool ask(PyObject *result, char *out, size_t n)
{
    const char *text = result && PyUnicode_Check(result) ? PyUnicode_AsUTF8(result) : NULL;
    if (text) snprintf(out, n, "%s", text);
    Py_XDECREF(result);
    PyErr_Clear();
    return text != NULL;
}

static PyObject *mistakes(void) { return PyErr_Occurred() ? NULL : PyImport_ImportModule("facula._mistakes"); }

static bool root_name(void *module, char *out, size_t n)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *m = mistakes();
    const bool told = ask(m ? PyObject_CallMethod(m, "name_of", "O", (PyObject *)module) : NULL, out, n);
    Py_XDECREF(m);
    PyGILState_Release(state);
    return told;
}

static bool cure(const char *name, void *odd, fa_device wanted, char *out, size_t n)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *m = mistakes();
    const bool told = ask(m ? PyObject_CallMethod(m, "cure", "sOs", name, (PyObject *)odd, fa_device_text(wanted)) : NULL, out, n);
    Py_XDECREF(m);
    PyGILState_Release(state);
    return told;
}

void fapy_mistakes_set_up(void)
{
    fai_other_face.argument = argument;
    fai_other_face.module_name = module_name;
    fai_other_face.root_name = root_name;
    fai_other_face.cure = cure;
}

/* _path_of(tensor) -> (root module, "layers.0", module, "weight", is_parameter) or None */
static PyObject *path_of(PyObject *self, PyObject *t)
{
    char path[256];
    fa_module *root, *owner;
    (void)self;
    const fai_entry *e = fapy_tensor_check(t) ? fai_path_of((fa_tensor *)t, path, sizeof path, &root, &owner) : NULL;
    if (!e) Py_RETURN_NONE;
    return Py_BuildValue("OsOsO", (PyObject *)root, path, (PyObject *)owner, e->name, e->kind == FAI_ENTRY_PARAMETER ? Py_True : Py_False);
}

/* _name_of(tensor) -> what errors call it, "" if nothing */
static PyObject *name_of(PyObject *self, PyObject *t)
{
    char text[400] = "";
    (void)self;
    if (fapy_tensor_check(t)) fai_text_name((fa_tensor *)t, text, sizeof text);
    return PyUnicode_FromString(text);
}

static PyObject *set_name(PyObject *self, PyObject *args)
{
    PyObject *t;
    const char *text;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!z:set_name", &fapy_Tensor, &t, &text)) return NULL;
    return fa_tensor_set_name((fa_tensor *)t, text) ? Py_NewRef(Py_None) : fapy_raise();
}

PyMethodDef fapy_mistakes_functions[] = {{"_path_of", path_of, METH_O, NULL}, {"_name_of", name_of, METH_O, NULL}, {"_set_name", set_name, METH_VARARGS, NULL}, {0}};
