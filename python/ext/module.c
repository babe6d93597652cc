/* The extension facula._C: one per process, because the library's state is the process's. */
#include "nn.h"

static bool add_functions(PyObject *module, PyMethodDef *functions)
{
    for (PyMethodDef *m = functions; functions != fapy_functions && m->ml_name; m++) m->ml_doc = fapy_with_example("torch.", m->ml_name, m->ml_doc);
    return PyModule_AddFunctions(module, functions) == 0;
}

/* torch.nn.functional's functions, in a table of their own: some names stand in both. */
static bool add_functional(PyObject *module)
{
    PyObject *functional = PyModule_New("facula._C._nn");
    if (!functional || PyModule_AddFunctions(functional, fapy_nn_functions)) return Py_XDECREF(functional), false;
    const int failed = PyModule_AddObjectRef(module, "_nn", functional);
    Py_DECREF(functional);
    return !failed;
}

static bool add_errors(PyObject *module)
{
    char name[64];
    snprintf(name, sizeof name, "%s.OutOfMemoryError", fapy_names);
    fapy_OutOfMemoryError = PyErr_NewExceptionWithDoc(name, "There is not enough memory on a device.\n\n"
              ">>> try:\n"
              "...     x = torch.empty(2**40, device='cuda')\n"
              "... except torch.OutOfMemoryError as error:\n"
              "...     print(str(error)[:26])\n"
              "CUDA out of memory. Tried ", PyExc_RuntimeError, NULL);
    snprintf(name, sizeof name, "%s.AcceleratorError", fapy_names);
    fapy_AcceleratorError = PyErr_NewExceptionWithDoc(name, "A device or its driver failed.\n\n"
              ">>> issubclass(torch.AcceleratorError, RuntimeError)\n"
              "True", PyExc_RuntimeError, NULL);
    return fapy_OutOfMemoryError && fapy_AcceleratorError && !PyModule_AddObjectRef(module, "OutOfMemoryError", fapy_OutOfMemoryError) &&
           !PyModule_AddObjectRef(module, "AcceleratorError", fapy_AcceleratorError);
}

/* Under python -m facula users see torch's names: the launcher says so before anything is imported. */
static void choose_names(void)
{
    PyObject *names = PySys_GetObject("_facula_names");
    if (names && PyUnicode_Check(names) && strcmp(PyUnicode_AsUTF8(names), "torch") == 0) fapy_names = "torch";
}

static int set_up(PyObject *module)
{
    static bool done;
    if (done) return PyErr_SetString(PyExc_ImportError, "facula can be loaded once in a process: its memory and devices are the process's"), -1;
    done = true;
    choose_names();
    return add_errors(module) && fapy_seam_set_up() && fapy_values_set_up(module) && !PyType_Ready(&fapy_Generator) && !PyModule_AddObjectRef(module, "Generator", (PyObject *)&fapy_Generator) &&
           fapy_tensor_set_up(module) && fapy_autograd_set_up(module) && fapy_nn_set_up(module) && fapy_optim_set_up(module) && fapy_streams_set_up(module) && fapy_graphs_set_up(module) &&
           add_functions(module, fapy_functions) && add_functions(module, fapy_create_functions) && add_functions(module, fapy_autograd_functions) &&
           add_functions(module, fapy_array_functions) && add_functions(module, fapy_serialize_functions) && add_functions(module, fapy_system_functions) &&
           add_functions(module, fapy_memory_functions) && add_functions(module, fapy_amp_functions) && add_functional(module) &&
           !PyModule_AddStringConstant(module, "_names", fapy_names) && !PyModule_AddStringConstant(module, "__version__", fa_version()) ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, set_up}, {0}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "facula._C", .m_doc = "Facula's library for Python.", .m_slots = slots};
PyMODINIT_FUNC PyInit__C(void) { return PyModuleDef_Init(&definition); }
