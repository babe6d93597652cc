/* Checkpoints: Python objects become the library's values (fa_value.h) and values become objects; files and file objects serve as
 * its readers and writers. What only Python knows, names of classes above all, is asked of facula/serialization.py.
 *
 * Nothing that a file names is looked up here: a value of the kind object goes to the builder, which knows the classes that the
 * program has listed and no others. */
#include "face.h"

#define T(o) ((fa_tensor *)(o))
enum { PIECE = 4 << 20 };

static PyObject *ordered_dict, *counter; /* collections' classes */

static bool find_classes(void)
{
    if (counter) return true;
    PyObject *collections = PyImport_ImportModule("collections");
    ordered_dict = collections ? PyObject_GetAttrString(collections, "OrderedDict") : NULL;
    counter = ordered_dict ? PyObject_GetAttrString(collections, "Counter") : NULL;
    Py_XDECREF(collections);
    return counter != NULL;
}

/* of.method(*args, signed=True); takes args. */
static PyObject *signed_call(PyObject *of, const char *method, PyObject *args)
{
    PyObject *f = args ? PyObject_GetAttrString(of, method) : NULL,
             *keywords = f ? Py_BuildValue("{s:O}", "signed", Py_True) : NULL;
    PyObject *result = keywords ? PyObject_Call(f, args, keywords) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(f);
    Py_XDECREF(keywords);
    return result;
}

/* ---- objects become values ---- */

typedef struct saving {
    fa_values *values;
    PyObject *memo;     /* id of an object: address of its value */
    PyObject *kept;     /* what was made on the way: ids stay theirs */
    PyObject *describe; /* of any other object: (module, name), or (callable, arguments, state, is_new) */
} saving;

static fa_value *save_value(saving *s, PyObject *o);

static fa_value *remember(saving *s, PyObject *o, fa_value *v)
{
    if (!v) return NULL;
    PyObject *key = PyLong_FromVoidPtr(o), *value = PyLong_FromVoidPtr(v);
    if (!key || !value || PyDict_SetItem(s->memo, key, value)) v = NULL;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return v;
}

static fa_value *recall(saving *s, PyObject *o)
{
    PyObject *key = PyLong_FromVoidPtr(o), *value = key ? PyDict_GetItemWithError(s->memo, key) : NULL;
    Py_XDECREF(key);
    return value ? PyLong_AsVoidPtr(value) : NULL;
}

static fa_value *save_int(saving *s, PyObject *o)
{
    int overflow;
    const long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) return i == -1 && PyErr_Occurred() ? NULL : fa_values_int(s->values, i);
    PyObject *bits = PyObject_CallMethod(o, "bit_length", NULL);
    const long bytes = bits ? PyLong_AsLong(bits) / 8 + 1 : -1;
    Py_XDECREF(bits);
    PyObject *data = bytes < 0 ? NULL : signed_call(o, "to_bytes", Py_BuildValue("(ls)", bytes, "little"));
    fa_value *v = data ? fa_values_big_int(s->values, PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data)) : NULL;
    Py_XDECREF(data);
    return v;
}

static fa_value *save_text(saving *s, PyObject *o)
{
    PyObject *bytes = PyUnicode_AsEncodedString(o, "utf-8", "surrogatepass");
    fa_value *v = bytes ? fa_values_text_of(s->values, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)) : NULL;
    Py_XDECREF(bytes);
    return remember(s, o, v);
}

/* Tuples, sizes, lists and sets: items is a list or tuple with them; takes it. */
static bool save_items(saving *s, fa_value *to, PyObject *items)
{
    bool fine = to && items;
    for (Py_ssize_t i = 0; fine && i < PySequence_Fast_GET_SIZE(items); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
        fine = fa_value_append(to, save_value(s, item));
        Py_DECREF(item);
    }
    Py_XDECREF(items);
    return fine;
}

static fa_value *save_list(saving *s, PyObject *o, fa_value_kind kind)
{
    fa_value *v = remember(s, o, fa_values_container(s->values, kind));
    return save_items(s, v, kind == FA_VALUE_SET ? PySequence_List(o) : Py_NewRef(o)) ? v : NULL;
}

static bool save_state(saving *s, fa_value *v, PyObject *dict)
{
    if (!dict || !PyDict_Check(dict) || PyDict_GET_SIZE(dict) == 0) return true;
    return PyList_Append(s->kept, dict) == 0 && fa_value_set_state(v, save_value(s, dict));
}

static fa_value *save_dict(saving *s, PyObject *o, fa_value_kind kind)
{
    fa_value *v = remember(s, o, fa_values_container(s->values, kind));
    PyObject *items = v ? PyMapping_Items(o) : NULL;
    bool fine = items != NULL;
    for (Py_ssize_t i = 0; fine && i < PyList_GET_SIZE(items); i++) {
        PyObject *pair = PyList_GET_ITEM(items, i); /* of a Counter's own items(), which a program may have replaced */
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
            PyErr_Format(PyExc_TypeError, "save: items() of a %s must give pairs", Py_TYPE(o)->tp_name);
            fine = false;
            break;
        }
        fa_value *key = save_value(s, PyTuple_GET_ITEM(pair, 0)), *value = key ? save_value(s, PyTuple_GET_ITEM(pair, 1)) : NULL;
        fine = fa_value_put(v, key, value);
    }
    Py_XDECREF(items);
    if (fine && kind == FA_VALUE_ORDERED_DICT) {
        PyObject *dict = PyObject_GetAttrString(o, "__dict__");
        fine = dict && save_state(s, v, dict);
        Py_XDECREF(dict);
    }
    return fine ? v : NULL;
}

static fa_value *save_tensor(saving *s, PyObject *o)
{
    const bool parameter = Py_TYPE(o) == &fapy_Parameter;
    fa_value *v = remember(s, o, parameter ? fa_values_parameter(s->values, T(o)) : fa_values_tensor(s->values, T(o)));
    return v && save_state(s, v, T(o)->attributes) ? v : NULL;
}

/* A class or function becomes its name, an object what it is made of. */
static fa_value *save_other(saving *s, PyObject *o)
{
    PyObject *said = PyObject_CallFunctionObjArgs(s->describe, o, NULL);
    fa_value *v = NULL;
    if (!said || PyList_Append(s->kept, said)) return Py_XDECREF(said), NULL;
    if (PyTuple_GET_SIZE(said) == 2) {
        const char *module, *name;
        if (PyArg_ParseTuple(said, "ss", &module, &name)) v = remember(s, o, fa_values_global(s->values, module, name));
    } else {
        fa_value *class = save_value(s, PyTuple_GET_ITEM(said, 0)),
                 *arguments = class ? save_value(s, PyTuple_GET_ITEM(said, 1)) : NULL;
        PyObject *state = PyTuple_GET_ITEM(said, 2);
        v = remember(s, o, fa_values_object(s->values, class, arguments, PyTuple_GET_ITEM(said, 3) == Py_True));
        if (v && !Py_IsNone(state) && !fa_value_set_state(v, save_value(s, state))) v = NULL;
    }
    Py_DECREF(said);
    return v;
}

static fa_value *save_new(saving *s, PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    if (Py_IsNone(o)) return fa_values_none(s->values);
    if (type == &PyBool_Type) return fa_values_bool(s->values, o == Py_True);
    if (type == &PyLong_Type) return save_int(s, o);
    if (type == &PyFloat_Type) return fa_values_float(s->values, PyFloat_AS_DOUBLE(o));
    if (type == &PyComplex_Type) return fa_values_complex(s->values, PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
    if (type == &PyUnicode_Type) return save_text(s, o);
    if (type == &fapy_Tensor || type == &fapy_Parameter) return save_tensor(s, o);
    if (type == &PyTuple_Type) return save_list(s, o, FA_VALUE_TUPLE);
    if (type == &PyList_Type) return save_list(s, o, FA_VALUE_LIST);
    if (type == &PyDict_Type) return save_dict(s, o, FA_VALUE_DICT);
    if ((PyObject *)type == ordered_dict) return save_dict(s, o, FA_VALUE_ORDERED_DICT);
    if ((PyObject *)type == counter) return save_dict(s, o, FA_VALUE_COUNTER);
    if (type == &PySet_Type) return save_list(s, o, FA_VALUE_SET);
    if (type == &fapy_Size) return save_list(s, o, FA_VALUE_SIZE);
    if (type == &PyBytes_Type)
        return remember(s, o, fa_values_bytes(s->values, FA_VALUE_BYTES, PyBytes_AS_STRING(o), (size_t)PyBytes_GET_SIZE(o)));
    if (type == &PyByteArray_Type)
        return remember(
            s, o, fa_values_bytes(s->values, FA_VALUE_BYTE_ARRAY, PyByteArray_AS_STRING(o), (size_t)PyByteArray_GET_SIZE(o)));
    if (type == &fapy_Dtype) return remember(s, o, fa_values_dtype(s->values, ((fapy_dtype_object *)o)->dtype));
    if (type == &fapy_Device) return remember(s, o, fa_values_device(s->values, ((fapy_device_object *)o)->device));
    return save_other(s, o);
}

static fa_value *save_value(saving *s, PyObject *o)
{
    fa_value *v = recall(s, o);
    if (v || PyErr_Occurred() || Py_EnterRecursiveCall(" while an object is saved")) return v;
    v = save_new(s, o);
    Py_LeaveRecursiveCall();
    return v;
}

/* ---- values become objects ---- */

typedef struct loading {
    PyObject **made; /* by index; IN_WORK while the arguments of an object are made */
    PyObject *builder;
} loading;
#define IN_WORK ((PyObject *)1)

static PyObject *load_value(loading *l, const fa_value *v);

static PyObject *note(loading *l, const fa_value *v, PyObject *o) { return l->made[fa_value_index(v)] = Py_XNewRef(o), o; }

static PyObject *load_big_int(const fa_value *v)
{
    size_t n;
    const char *bytes = fa_value_bytes(v, &n);
    return signed_call((PyObject *)&PyLong_Type, "from_bytes", Py_BuildValue("(y#s)", bytes, (Py_ssize_t)n, "little"));
}

/* A tuple may be met again while it is filled, through a list in it: it holds None till then. */
static PyObject *load_tuple(loading *l, const fa_value *v)
{
    const Py_ssize_t n = (Py_ssize_t)fa_value_length(v);
    PyObject *o = fa_value_kind_of(v) == FA_VALUE_SIZE ? PyTuple_Type.tp_alloc(&fapy_Size, n) : PyTuple_New(n);
    for (Py_ssize_t i = 0; o && i < n; i++) PyTuple_SET_ITEM(o, i, Py_NewRef(Py_None));
    note(l, v, o);
    for (Py_ssize_t i = 0; o && i < n; i++) {
        PyObject *item = load_value(l, fa_value_item(v, i)), *none = PyTuple_GET_ITEM(o, i);
        if (!item) return Py_DECREF(o), NULL;
        PyTuple_SET_ITEM(o, i, item);
        Py_DECREF(none);
    }
    return o;
}

static PyObject *load_list(loading *l, const fa_value *v, PyObject *o, int (*add)(PyObject *, PyObject *))
{
    note(l, v, o);
    for (int64_t i = 0; o && i < fa_value_length(v); i++) {
        PyObject *item = load_value(l, fa_value_item(v, i));
        const int failed = !item || add(o, item);
        Py_XDECREF(item);
        if (failed) return Py_DECREF(o), NULL;
    }
    return o;
}

/* into.__dict__.update(state) */
static bool load_state(loading *l, const fa_value *v, PyObject *into)
{
    const fa_value *state = fa_value_state(v);
    if (!state) return true;
    PyObject *from = load_value(l, state), *dict = from ? PyObject_GetAttrString(into, "__dict__") : NULL;
    const bool fine = dict && PyDict_Update(dict, from) == 0;
    if (fine && fapy_tensor_check(into)) fapy_track(into);
    Py_XDECREF(from);
    Py_XDECREF(dict);
    return fine;
}

static PyObject *load_dict(loading *l, const fa_value *v, PyObject *o)
{
    note(l, v, o);
    for (int64_t i = 0; o && i < fa_value_length(v); i++) {
        PyObject *key = load_value(l, fa_value_key(v, i)), *value = key ? load_value(l, fa_value_item(v, i)) : NULL;
        const int failed = !value || PyObject_SetItem(o, key, value);
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (failed) return Py_DECREF(o), NULL;
    }
    if (o && !load_state(l, v, o)) return Py_DECREF(o), NULL;
    return o;
}

static PyObject *load_tensor(loading *l, const fa_value *v)
{
    PyObject *o = Py_NewRef((PyObject *)fa_value_tensor(v));
    if (fa_value_kind_of(v) == FA_VALUE_PARAMETER) fapy_retype(o, &fapy_Parameter);
    note(l, v, o);
    return load_state(l, v, o) ? o : (Py_DECREF(o), NULL);
}

static PyObject *load_object(loading *l, const fa_value *v)
{
    l->made[fa_value_index(v)] = IN_WORK;
    PyObject *class = load_value(l, fa_value_class(v)), *arguments = class ? load_value(l, fa_value_arguments(v)) : NULL;
    PyObject *o = arguments ? PyObject_CallMethod(l->builder, "make", "OOi", class, arguments, fa_value_is_new(v)) : NULL;
    Py_XDECREF(class);
    Py_XDECREF(arguments);
    l->made[fa_value_index(v)] = NULL;
    note(l, v, o);
    if (!o || !fa_value_state(v)) return o;
    PyObject *state = load_value(l, fa_value_state(v)),
             *done = state ? PyObject_CallMethod(l->builder, "build", "OO", o, state) : NULL;
    if (!done) Py_CLEAR(o);
    Py_XDECREF(state);
    Py_XDECREF(done);
    return o;
}

static PyObject *load_new(loading *l, const fa_value *v)
{
    size_t n;
    double parts[2];
    const char *text;
    switch (fa_value_kind_of(v)) {
    case FA_VALUE_NONE: return Py_NewRef(Py_None);
    case FA_VALUE_BOOL: return PyBool_FromLong(fa_value_bool(v));
    case FA_VALUE_INT: return PyLong_FromLongLong(fa_value_int(v));
    case FA_VALUE_BIG_INT: return load_big_int(v);
    case FA_VALUE_FLOAT: return PyFloat_FromDouble(fa_value_float(v));
    case FA_VALUE_COMPLEX: return fa_value_complex(v, parts) ? PyComplex_FromDoubles(parts[0], parts[1]) : NULL;
    case FA_VALUE_TEXT:
        return text = fa_value_text(v, &n), note(l, v, PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "surrogatepass"));
    case FA_VALUE_BYTES: return text = fa_value_bytes(v, &n), note(l, v, PyBytes_FromStringAndSize(text, (Py_ssize_t)n));
    case FA_VALUE_BYTE_ARRAY: return text = fa_value_bytes(v, &n), note(l, v, PyByteArray_FromStringAndSize(text, (Py_ssize_t)n));
    case FA_VALUE_TUPLE:
    case FA_VALUE_SIZE: return load_tuple(l, v);
    case FA_VALUE_LIST: return load_list(l, v, PyList_New(0), PyList_Append);
    case FA_VALUE_SET: return load_list(l, v, PySet_New(NULL), PySet_Add);
    case FA_VALUE_DICT: return load_dict(l, v, PyDict_New());
    case FA_VALUE_ORDERED_DICT: return load_dict(l, v, PyObject_CallObject(ordered_dict, NULL));
    case FA_VALUE_COUNTER: return load_dict(l, v, PyObject_CallObject(counter, NULL));
    case FA_VALUE_TENSOR:
    case FA_VALUE_PARAMETER: return load_tensor(l, v);
    case FA_VALUE_DTYPE: return fapy_dtype_new(fa_value_dtype(v));
    case FA_VALUE_DEVICE: return note(l, v, fapy_device_new(fa_value_device(v)));
    case FA_VALUE_GLOBAL: return note(l, v, PyObject_CallMethod(l->builder, "resolve", "s", fa_value_text(v, NULL)));
    case FA_VALUE_OBJECT: return load_object(l, v);
    }
    return PyErr_Format(PyExc_RuntimeError, "load: a value of the unknown kind %d", (int)fa_value_kind_of(v));
}

static PyObject *load_value(loading *l, const fa_value *v)
{
    PyObject *made = l->made[fa_value_index(v)];
    if (made == IN_WORK)
        return PyErr_SetString(PyExc_ValueError,
                               "load: an object of the file is made of itself: it stands among its own arguments"),
               NULL;
    if (made) return Py_NewRef(made);
    if (Py_EnterRecursiveCall(" while a file is loaded")) return NULL;
    made = load_new(l, v);
    Py_LeaveRecursiveCall();
    return made;
}

static PyObject *load_root(const fa_values *values, PyObject *builder)
{
    const uint32_t n = fa_values_count(values);
    loading l = {.made = PyMem_Calloc((size_t)n + 1, sizeof *l.made), .builder = builder};
    if (!l.made) return PyErr_NoMemory();
    PyObject *root = load_value(&l, fa_values_root(values));
    for (uint32_t i = 0; i < n; i++)
        if (l.made[i] != IN_WORK) Py_XDECREF(l.made[i]);
    PyMem_Free(l.made);
    return root;
}

/* ---- file objects ---- */

typedef struct source {
    PyObject *file;
    long long start;
} source;

/* Copies what read(n) gave; the bytes copied, 0 at the file's end, -1 with the exception. */
static Py_ssize_t take_bytes(PyObject *data, char *out, size_t room)
{
    Py_buffer buffer;
    if (!data || PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)) return -1;
    const Py_ssize_t n = buffer.len;
    if (n >= 0 && (size_t)n <= room) memcpy(out, buffer.buf, (size_t)n);
    PyBuffer_Release(&buffer);
    if ((size_t)n > room) return PyErr_Format(PyExc_ValueError, "load: read(%zu) of the file object gave %zd bytes", room, n), -1;
    return n;
}

static bool read_file(void *context, uint64_t offset, void *out, size_t n)
{
    source *s = context;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *at = PyObject_CallMethod(s->file, "seek", "L", s->start + (long long)offset);
    bool fine = at != NULL;
    Py_XDECREF(at);
    for (char *to = out; fine && n > 0;) {
        const size_t piece = n < PIECE ? n : PIECE;
        PyObject *data = PyObject_CallMethod(s->file, "read", "n", (Py_ssize_t)piece);
        const Py_ssize_t got = take_bytes(data, to, piece);
        Py_XDECREF(data);
        if (got == 0) PyErr_Format(PyExc_EOFError, "Ran out of input: the file object ended %zu bytes too early", n);
        if (got <= 0) fine = false;
        else to += got, n -= (size_t)got;
    }
    if (!fine) fapy_foreign();
    PyGILState_Release(state);
    return fine;
}

/* The bytes that write took: None says all. */
static bool write_piece(PyObject *file, const char *data, size_t n, size_t *done)
{
    PyObject *said = PyObject_CallMethod(file, "write", "y#", data, (Py_ssize_t)n);
    *done = n;
    if (said && PyLong_Check(said)) {
        const Py_ssize_t took = PyLong_AsSsize_t(said);
        if (took > 0 && (size_t)took <= n) *done = (size_t)took;
        else if (!PyErr_Occurred())
            PyErr_Format(PyExc_OSError, "save: write() of %zu bytes on the file object gave %zd", n, took);
    }
    Py_XDECREF(said);
    return !PyErr_Occurred();
}

static bool write_file(void *context, const void *data, size_t n)
{
    PyGILState_STATE state = PyGILState_Ensure();
    bool fine = true;
    for (size_t at = 0, done; fine && at < n; at += done)
        fine = write_piece(context, (const char *)data + at, n - at < PIECE ? n - at : PIECE, &done);
    if (!fine) fapy_foreign();
    PyGILState_Release(state);
    return fine;
}

/* ---- save, load ---- */

/* NULL with the exception that is pending, or the library's error as one. */
static PyObject *fail(uint32_t mark)
{
    fapy_sweep(mark);
    if (!PyErr_Occurred()) return fapy_raise();
    if (fa_failed()) fa_error_take();
    return NULL;
}

/* _save_pt(object, path or None, file object or None, describe) */
static PyObject *save_pt(PyObject *self, PyObject *args)
{
    PyObject *o, *path, *file, *describe;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO", &o, &path, &file, &describe) || !find_classes()) return NULL;
    const uint32_t mark = FAPY_MARK;
    saving s = {.values = fa_values_new(), .memo = PyDict_New(), .kept = PyList_New(0), .describe = describe};
    fa_value *root = s.values && s.memo && s.kept ? save_value(&s, o) : NULL;
    PyObject *name = NULL;
    bool fine = root != NULL;
    if (fine && Py_IsNone(path)) fine = fa_save_pt_to(&(fa_writer){file, write_file}, root);
    else if (fine) fine = PyUnicode_FSConverter(path, &name) && fa_save_pt(PyBytes_AS_STRING(name), root);
    Py_XDECREF(name);
    Py_XDECREF(s.memo);
    Py_XDECREF(s.kept);
    if (!fine) return fail(mark);
    return fapy_bool_or_raise(true, mark);
}

/* The program's map_location: a device, or None for the saved location. */
static bool place(void *context, const char *location, fa_device *device)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *said = PyObject_CallFunction(context, "s", location);
    bool fine = said && (Py_IsNone(said) || fapy_device_from(said, "load", "map_location", 0, device));
    Py_XDECREF(said);
    if (!fine) fapy_foreign();
    PyGILState_Release(state);
    return fine;
}

/* Names as C wants them; they live as long as the tuple. */
static const char **names_of(PyObject *tuple)
{
    const Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    const char **names = PyMem_Calloc((size_t)n + 1, sizeof *names);
    if (!names) return (void *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(names[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i)))) return PyMem_Free(names), NULL;
    return names;
}

/* _load_pt(path or None, file object or None, start, size, place or None, names, limit, builder, globals_only) */
static PyObject *load_pt(PyObject *self, PyObject *args)
{
    PyObject *path, *file, *placer, *names, *builder, *name = NULL, *result = NULL;
    long long start, size;
    unsigned long long limit;
    int globals_only;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOLLOO!KOp", &path, &file, &start, &size, &placer, &PyTuple_Type, &names, &limit, &builder,
                          &globals_only))
        return NULL;
    if (!find_classes() || (!Py_IsNone(path) && !PyUnicode_FSConverter(path, &name))) return NULL;
    const uint32_t mark = FAPY_MARK;
    const char **safe = names_of(names);
    source from = {file, start};
    const fa_reader reader = {&from, (uint64_t)size, read_file};
    const fa_pt_options options = {.struct_size = sizeof options,
                                   .map_location = Py_IsNone(placer) ? NULL : place,
                                   .context = placer,
                                   .limit = limit,
                                   .safe_globals = safe,
                                   .nsafe_globals = (int)PyTuple_GET_SIZE(names)};
    fa_values *values = NULL;
    if (safe && globals_only)
        values = name ? fa_pt_unsafe_globals(PyBytes_AS_STRING(name), &options) : fa_pt_unsafe_globals_from(&reader, &options);
    else if (safe) values = name ? fa_load_pt_with(PyBytes_AS_STRING(name), &options) : fa_load_pt_from(&reader, &options);
    if (values && !fa_failed() && !PyErr_Occurred()) result = load_root(values, builder);
    PyMem_Free(safe);
    Py_XDECREF(name);
    if (!result) return fail(mark);
    fapy_sweep(mark);
    return result;
}

/* ---- named tensors: .safetensors, .npz, .pt by the ending ---- */

static bool add_tensors(fa_tensors *to, PyObject *dict)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; to && PyDict_Next(dict, &at, &key, &value);) {
        if (!PyUnicode_Check(key))
            return PyErr_Format(PyExc_TypeError, "the names of tensors must be str, not %s", Py_TYPE(key)->tp_name), false;
        if (!fapy_tensor_check(value))
            return PyErr_Format(PyExc_ValueError, "Key `%U` is invalid, expected torch.Tensor but received %R", key,
                                (PyObject *)Py_TYPE(value)),
                   false;
        const char *name = PyUnicode_AsUTF8(key);
        if (!name || !fa_tensors_add(to, name, T(value))) return false;
    }
    return to != NULL;
}

static bool add_notes(fa_tensors *to, PyObject *dict)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        const char *k = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL,
                   *text = k && PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : NULL;
        if (!text)
            return PyErr_Occurred() ? false : (PyErr_SetString(PyExc_TypeError, "metadata must be a dict of str and str"), false);
        if (!fa_tensors_set_note(to, k, text)) return false;
    }
    return true;
}

/* _save_tensors(path, dict of tensors, dict of notes) */
static PyObject *save_tensors(PyObject *self, PyObject *args)
{
    PyObject *path, *dict, *notes;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&O!O!", PyUnicode_FSConverter, &path, &PyDict_Type, &dict, &PyDict_Type, &notes)) return NULL;
    const uint32_t mark = FAPY_MARK;
    fa_tensors *tensors = fa_tensors_new();
    const bool fine = add_tensors(tensors, dict) && add_notes(tensors, notes) && fa_save(PyBytes_AS_STRING(path), tensors);
    Py_DECREF(path);
    return fine ? fapy_bool_or_raise(true, mark) : fail(mark);
}

static bool path_and_device(PyObject *args, PyObject **path, fa_load_options *options)
{
    PyObject *device;
    *options = (fa_load_options){.struct_size = sizeof *options};
    return PyArg_ParseTuple(args, "O&O", PyUnicode_FSConverter, path, &device) &&
           (Py_IsNone(device) || fapy_device_from(device, "load", "device", 2, &options->device) || (Py_DECREF(*path), false));
}

/* _load_tensors(path, device or None): (dict of tensors, dict of notes) */
static PyObject *load_tensors(PyObject *self, PyObject *args)
{
    PyObject *path;
    fa_load_options options;
    (void)self;
    if (!path_and_device(args, &path, &options)) return NULL;
    const uint32_t mark = FAPY_MARK;
    fa_tensors *tensors = fa_load_with(PyBytes_AS_STRING(path), &options);
    Py_DECREF(path);
    PyObject *dict = tensors ? PyDict_New() : NULL, *notes = dict ? PyDict_New() : NULL;
    bool fine = notes != NULL;
    for (int64_t i = 0; fine && i < fa_tensors_count(tensors); i++)
        fine = PyDict_SetItemString(dict, fa_tensors_name_at(tensors, i), (PyObject *)fa_tensors_at(tensors, i)) == 0;
    for (int64_t i = 0; fine && i < fa_tensors_note_count(tensors); i++) {
        const char *key = fa_tensors_note_key_at(tensors, i);
        PyObject *text = PyUnicode_FromString(fa_tensors_note(tensors, key));
        fine = text && PyDict_SetItemString(notes, key, text) == 0;
        Py_XDECREF(text);
    }
    if (fine) return fapy_sweep(mark), Py_BuildValue("NN", dict, notes);
    Py_XDECREF(dict);
    Py_XDECREF(notes);
    return fail(mark);
}

static PyObject *load_npy(PyObject *self, PyObject *args)
{
    PyObject *path;
    fa_load_options options;
    (void)self;
    if (!path_and_device(args, &path, &options)) return NULL;
    const uint32_t mark = FAPY_MARK;
    fa_tensor *t = fa_load_npy_with(PyBytes_AS_STRING(path), &options);
    Py_DECREF(path);
    return fapy_take(t, mark);
}

static PyObject *save_npy(PyObject *self, PyObject *args)
{
    PyObject *path, *t;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&O", PyUnicode_FSConverter, &path, &t)) return NULL;
    if (!fapy_tensor_check(t))
        return Py_DECREF(path), PyErr_Format(PyExc_TypeError, "save_npy(): a tensor is needed, not %s", Py_TYPE(t)->tp_name);
    const bool fine = fa_save_npy(PyBytes_AS_STRING(path), T(t));
    Py_DECREF(path);
    return fine ? Py_NewRef(Py_None) : fapy_raise();
}

PyMethodDef fapy_serialize_functions[] = {
    {"_save_pt", save_pt, METH_VARARGS, NULL},
    {"_load_pt", load_pt, METH_VARARGS, NULL},
    {"_save_tensors", save_tensors, METH_VARARGS, NULL},
    {"_load_tensors", load_tensors, METH_VARARGS, NULL},
    {"_load_npy", load_npy, METH_VARARGS, NULL},
    {"_save_npy", save_npy, METH_VARARGS, NULL},
    {0}};
