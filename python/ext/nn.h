/* torch.nn for Python: what its files share. A module is one object for both languages, as a tensor is: the registry in C is the
 * truth, and each entry stands in the instance's dict too, so that self.fc1 costs what any attribute costs. */
#ifndef FAPY_NN_H
#define FAPY_NN_H

#include "face.h"

#define M(o) ((fa_module *)(o))
enum { FAPY_HELD_SLOTS = 8 };

/* ---- nn_module.c: the type, attributes, registration ---- */
extern PyTypeObject fapy_ModuleBase;
extern const fa_module_type fapy_python_module; /* of modules whose forward is Python's */
static inline bool fapy_module_check(PyObject *o) { return PyType_IsSubtype(Py_TYPE(o), &fapy_ModuleBase); }
static inline bool fapy_parameter_check(PyObject *o)
{
    return Py_TYPE(o) == &fapy_Parameter || PyType_IsSubtype(Py_TYPE(o), &fapy_Parameter);
}
PyObject *fapy_typename(PyObject *o);           /* "torch.FloatTensor", "int": as torch names what it found */
fai_entry *fapy_entry(fa_module *m, PyObject *name); /* NULL without an exception: there is none */
bool fapy_set_entry(PyObject *module, PyObject *name, fai_entry_kind kind, bool persistent, PyObject *value); /* or None */
bool fapy_unset_entry(PyObject *module, PyObject *name);
bool fapy_initialised(PyObject *module, const char *what); /* else the exception: Module.__init__ was not called */

/* ---- mistakes.c: what errors say of tensors and modules, in the user's words ---- */
void fapy_mistakes_set_up(void);
extern PyMethodDef fapy_mistakes_functions[];

/* ---- nn_entries.c: _parameters, _buffers, _modules; walks over a net ---- */
extern PyTypeObject fapy_Entries, fapy_Walk;
PyObject *fapy_entries_new(PyObject *module, fai_entry_kind kind);
extern PyMethodDef fapy_walk_methods[];         /* of a module */

/* ---- nn_layers.c: rows of layers as classes ---- */
extern PyTypeObject fapy_LayerBase;
extern PyMethodDef fapy_layer_functions[];
void *fapy_new_module(const char *name);        /* the seam's */
bool fapy_layer_built(void *module);
PyObject *fapy_layer_class(const char *name);   /* borrowed; NULL: facula.nn has none of that name */
int fapy_layer_attribute(PyObject *module, PyObject *name, PyObject *value); /* the C argument follows; -1: exception */

typedef enum fapy_layer_how {
    FAPY_ARGUMENT,  /* an argument of the row */
    FAPY_OTHER,     /* only an attribute; not its default: forward goes another way */
    FAPY_INPLACE,
    FAPY_LEGACY,    /* size_average, reduce */
    FAPY_DROP,      /* an entry that False leaves out */
    FAPY_DEVICE_OF, FAPY_DTYPE_OF,
    FAPY_KEPT       /* only an attribute */
} fapy_layer_how;
typedef struct fapy_layer_parameter {
    const char *name;
    uint8_t how;
    int8_t argument;    /* of the row, -1: none */
    const char *initial; /* a Python literal; NULL: required */
} fapy_layer_parameter;
typedef struct fapy_layer {
    const char *name, *where, *bases, *inputs, *repr, *doc;
    int layer, n, positional;
    const fapy_layer_parameter *parameters;
} fapy_layer;
extern const fapy_layer fapy_layers[]; /* generated from python/nn.tab and src/nn/layers.tab */
extern const int fapy_nlayers;

/* ---- nn_call.c: calling ---- */
extern PyTypeObject fapy_SequentialBase;
extern bool fapy_global_hooks;
PyObject *fapy_module_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names);
PyObject *fapy_module_call(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *fapy_layer_forward(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
bool fapy_is_plain(const void *module);
void *fapy_call_from_c(void *module, void *const *inputs, int ninputs);
bool fapy_call_set_up(void);

/* ---- nn_recurrent.c ---- */
extern PyMethodDef fapy_recurrent_functions[];

bool fapy_nn_set_up(PyObject *module);

#endif
