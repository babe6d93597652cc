/* The Python face: what its files share. One tensor is one object for both languages: fa_tensor's first words are a PyObject's, so
 * a PyObject * to a tensor is its fa_tensor *, and one count serves both.
 *
 * How a binding calls the library: mark = FAPY_MARK; r = fa_softmax(...); return fapy_take(r, mark). What the library hands to the
 * scope since the mark is taken out of it again: Python's references own results, and the extension has no root scope. */
#ifndef FAPY_FACE_H
#define FAPY_FACE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x030A0000 /* what 3.10 brought */
static inline PyObject *fapy_new_ref(PyObject *o) { Py_INCREF(o); return o; }
static inline PyObject *fapy_xnew_ref(PyObject *o) { Py_XINCREF(o); return o; }
#define Py_NewRef(o) fapy_new_ref((PyObject *)(o))
#define Py_XNewRef(o) fapy_xnew_ref((PyObject *)(o))
#define Py_IsNone(o) ((o) == Py_None)
#define Py_TPFLAGS_DISALLOW_INSTANTIATION 0 /* a static type without tp_new has none there */
static inline int PyModule_AddObjectRef(PyObject *module, const char *name, PyObject *o)
{
    Py_XINCREF(o);
    if (o && PyModule_AddObject(module, name, o) == 0) return 0;
    Py_XDECREF(o);
    return -1;
}
#endif

#include "nn/module.h"
#include "ops/views.h"
#include <facula.h>

/* ---- face.c: the seam, errors ---- */
extern PyTypeObject fapy_Tensor, fapy_Parameter;
extern PyObject *fapy_OutOfMemoryError, *fapy_AcceleratorError;
extern const char *fapy_names;           /* "torch" under python -m facula, else "facula": the module that names are shown in */
bool fapy_seam_set_up(void);
void fapy_site_set_up(const char *folder); /* site.c: of the package */
PyObject *fapy_raise(void);              /* the pending error of the library as a Python exception; returns NULL */
bool fapy_foreign(void);                 /* in a callback of the library: keeps the Python exception as code FOREIGN; returns false */
void fapy_sweep(uint32_t mark);          /* lets go of what is above the mark */
#define FAPY_MARK (fai_tls.nowned)
static inline bool fapy_tensor_check(PyObject *o)
{
    return Py_TYPE(o) == &fapy_Tensor || Py_TYPE(o) == &fapy_Parameter || PyType_IsSubtype(Py_TYPE(o), &fapy_Tensor);
}
/* A result for Python: a new reference, or NULL and the exception. */
static inline PyObject *fapy_take(void *result, uint32_t mark)
{
    fai_object *o = result;
    if (FAI_UNLIKELY(!o || fai_tls.error_pending)) {
        fapy_sweep(mark);
        return fapy_raise();
    }
    if (o->slot > mark && o->owner == &fai_tls) fai_scope_take(o);
    else fai_ref(o);
    if (FAI_UNLIKELY(fai_tls.nowned > mark)) fapy_sweep(mark);
    return (PyObject *)o;
}
/* What the library made for an object of Python's, which owns it from now on; NULL: it failed. */
static inline void *fapy_own(void *made, uint32_t mark)
{
    if (made) fai_scope_take(made);
    fapy_sweep(mark);
    return made;
}
PyObject *fapy_take_tuple(fa_tensor *const *parts, int n, uint32_t mark);
PyObject *fapy_take_list(fa_tensor *const *parts, int n, uint32_t mark);
static inline PyObject *fapy_bool_or_raise(bool fine, uint32_t mark) /* None, or NULL and the exception */
{
    if (FAI_UNLIKELY(fai_tls.nowned > mark)) fapy_sweep(mark);
    if (!fine || fai_tls.error_pending) return fapy_raise();
    Py_RETURN_NONE;
}

/* ---- values.c: device, dtype, Size, layout, memory_format, Generator ---- */
typedef struct fapy_device_object { PyObject_HEAD fa_device device; } fapy_device_object;
typedef struct fapy_dtype_object { PyObject_HEAD fa_dtype dtype; const char *name; } fapy_dtype_object;
extern PyTypeObject fapy_Generator, fapy_Device, fapy_Dtype, fapy_Size, fapy_Layout, fapy_MemoryFormat;
bool fapy_values_set_up(PyObject *module);
extern PyObject *fapy_strided;
typedef enum fapy_format { FAPY_NO_FORMAT, FAPY_CONTIGUOUS, FAPY_PRESERVE, FAPY_CHANNELS_LAST, FAPY_CHANNELS_LAST_3D } fapy_format;
fapy_format fapy_format_of(PyObject *o); /* FAPY_NO_FORMAT: it is none */
PyObject *fapy_device_new(fa_device device);
PyObject *fapy_dtype_new(fa_dtype dtype);        /* the one object of that dtype */
PyObject *fapy_size_new(int ndim, const int64_t *size);
bool fapy_device_from(PyObject *o, const char *function, const char *argument, int position, fa_device *out); /* device, str, int */
bool fapy_dtype_from(PyObject *o, const char *function, const char *argument, int position, fa_dtype *out);   /* dtype, float, int, bool */
bool fapy_scalar_from(PyObject *o, fa_scalar *out);     /* numbers of Python and NumPy; false without an exception: something else */
bool fapy_int_from(PyObject *o, int64_t *out);          /* by __index__, also of one-element tensors; false without an exception */

/* ---- parse.c: arguments by signature ---- */
typedef enum fapy_kind {
    FAPY_T, FAPY_TN, FAPY_TS, FAPY_INT, FAPY_FLOAT, FAPY_BOOL, FAPY_NUM, FAPY_SHAPE, FAPY_DTYPE, FAPY_DEVICE, FAPY_TEXT, FAPY_OBJ
} fapy_kind;
enum { FAPY_OPTIONAL = 1, FAPY_NONE = 2, FAPY_KEYWORD = 4, FAPY_VARARGS = 8 };
typedef struct fapy_parameter { const char *name; uint8_t kind, flags; } fapy_parameter;
typedef struct fapy_signature {
    const char *name;
    int n;
    const fapy_parameter *parameters;
} fapy_signature;
enum { FAPY_MOST = 20, FAPY_MOST_TENSORS = 1024 };
typedef struct fapy_tensors { fa_tensor **at; int n; PyObject *holder; } fapy_tensors;
typedef struct fapy_value {
    bool given; /* and not None */
    union {
        fa_tensor *t; fai_operand operand; fapy_tensors ts; int64_t i; double f; bool b; fa_scalar num; fa_shape shape; fa_dtype dtype;
        fa_device device; const char *text; PyObject *o;
    } as;
} fapy_value;
/* Fills v[first .. signature->n). args are positional, then the values of the keywords in names (a tuple or NULL). False with the
 * exception. When it is true, fapy_done gives back what sequences of tensors hold. */
bool fapy_parse(const fapy_signature *signature, PyObject *const *args, Py_ssize_t nargs, PyObject *names, int first, fapy_value *v);
void fapy_done(const fapy_signature *signature, fapy_value *v);
bool fapy_shape_from(PyObject *o, fa_shape *out); /* a tuple, list or Size of ints, or an int; false without an exception: something else */
PyObject *fapy_to_out(const char *name, PyObject *result, PyObject *out); /* for out=: copies result there, returns out; takes result's reference */

/* ---- tensor.c, index.c, number.c, create.c, autograd.c ---- */
bool fapy_tensor_set_up(PyObject *module);
PyObject *fapy_getitem(PyObject *self, PyObject *key);
int fapy_setitem(PyObject *self, PyObject *key, PyObject *value);
extern PyNumberMethods fapy_number;
PyObject *fapy_richcompare(PyObject *a, PyObject *b, int op);
/* A tensor from any data, as torch.tensor makes it; borrowed from the scope. dtype, device: all zero where they are not given. */
fa_tensor *fapy_tensor_of(const char *function, PyObject *data, fa_dtype dtype, fa_device device);
PyObject *fapy_item(fa_tensor *t);
extern PyMethodDef fapy_create_functions[], fapy_system_functions[], fapy_memory_functions[];
bool fapy_autograd_set_up(PyObject *module);
bool fapy_function_set_up(PyObject *module); /* function.c */
extern PyMethodDef fapy_autograd_functions[], fapy_autograd_methods[];
PyObject *fapy_grad_fn(fa_tensor *t);
int fapy_hooks_traverse(fa_tensor *t, visitproc visit, void *arg); /* of the Python hooks on t */
void fapy_hooks_clear(fa_tensor *t);
PyObject *fapy_retype(PyObject *t, PyTypeObject *type); /* a fresh plain tensor becomes one of a subclass; NULL goes through */
extern PyBufferProcs fapy_buffer;
void fapy_track(PyObject *tensor);       /* the collector looks at it from now on: it may be part of a cycle */
extern PyMethodDef fapy_array_methods[], fapy_array_functions[]; /* array.c: NumPy, the buffer protocol, DLPack */
fa_tensor *fapy_from_buffer(PyObject *o); /* shares the memory of an array; NULL without an error: no array */

extern PyMethodDef fapy_serialize_functions[]; /* serialize.c: checkpoints and other files */
bool fapy_optim_set_up(PyObject *module);      /* optim.c */
bool fapy_streams_set_up(PyObject *module);    /* streams.c */
bool fapy_graphs_set_up(PyObject *module);     /* graphs.c */
extern PyMethodDef fapy_amp_functions[];       /* amp.c: autocast and the gradient scaler */

/* ---- generated from python/torch.tab, python/examples.tab and the tables of rows ---- */
typedef struct fapy_example { const char *name, *text; } fapy_example;
extern const fapy_example fapy_examples[]; /* of functions and methods written by hand: "torch.tensor", "Tensor.size" */
const char *fapy_with_example(const char *prefix, const char *name, const char *doc);
extern PyMethodDef fapy_functions[], fapy_methods[], fapy_nn_functions[];

#endif
