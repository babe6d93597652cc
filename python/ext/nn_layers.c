/* Rows of src/nn/layers.tab as classes: constructors by torch's signature, attributes that the row's arguments follow, printing. */
#include "nn.h"

static int layer_init(PyObject *self, PyObject *args, PyObject *keywords);

static PyObject *classes; /* by name: what the modules that C makes are */
static PyObject *str_row;

static const fapy_layer *row_of(PyObject *self) {
    PyObject *number = str_row ? _PyType_Lookup(Py_TYPE(self), str_row) : NULL;
    const long row = number && PyLong_Check(number) ? PyLong_AsLong(number) : -1;
    if (row >= 0 && row < fapy_nlayers) return &fapy_layers[row];
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s is no layer of a row", Py_TYPE(self)->tp_name);
    return NULL;
}

/* ---- arguments ---- */

/* What a parameter is when it is not given. */
static PyObject *initial(const fapy_layer_parameter *p) {
    const char *text = p->initial;
    if (*text == '\'') return PyUnicode_FromStringAndSize(text + 1, (Py_ssize_t)strlen(text) - 2);
    if (strcmp(text, "None") == 0) return Py_NewRef(Py_None);
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) return PyBool_FromLong(*text == 'T');
    return strpbrk(text, ".e") ? PyFloat_FromDouble(strtod(text, NULL)) : PyLong_FromLong(strtol(text, NULL, 10));
}

/* Python's rules for calls, with Python's words. values: borrowed or NULL. */
static bool parse(const fapy_layer *row, PyObject *args, PyObject *keywords, PyObject **values) {
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n > row->positional) {
        int least = 1;
        while (least <= row->n && row->parameters[least - 1].initial == NULL) least++;
        if (least == row->positional + 1)
            PyErr_Format(PyExc_TypeError, "%s.__init__() takes %d positional arguments but %zd were given", row->name, least,
                         n + 1);
        else
            PyErr_Format(PyExc_TypeError, "%s.__init__() takes from %d to %d positional arguments but %zd were given", row->name,
                         least, row->positional + 1, n + 1);
        return false;
    }
    for (Py_ssize_t i = 0; i < row->n; i++) values[i] = i < n ? PyTuple_GET_ITEM(args, i) : NULL;
    PyObject *name, *value;
    for (Py_ssize_t at = 0; keywords && PyDict_Next(keywords, &at, &name, &value);) {
        int i = 0;
        while (i < row->n && PyUnicode_CompareWithASCIIString(name, row->parameters[i].name)) i++;
        if (i == row->n)
            return PyErr_Format(PyExc_TypeError, "%s.__init__() got an unexpected keyword argument '%U'", row->name, name), false;
        if (values[i])
            return PyErr_Format(PyExc_TypeError, "%s.__init__() got multiple values for argument '%U'", row->name, name), false;
        values[i] = value;
    }
    int missing = 0;
    char text[200] = "";
    for (int i = 0; i < row->n; i++) {
        if (values[i] || row->parameters[i].initial) continue;
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s'%s'", missing++ ? " and " : "", row->parameters[i].name);
    }
    if (missing)
        PyErr_Format(PyExc_TypeError, "%s.__init__() missing %d required positional argument%s: %s", row->name, missing,
                     missing == 1 ? "" : "s", text);
    return !missing;
}

static bool wrong(const fapy_layer *row, const char *name, const char *wanted, PyObject *found) {
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be %s, not %s", row->name, name, wanted, Py_TYPE(found)->tp_name);
    return false;
}

static bool factors_from(PyObject *o, fa_factors *out) {
    fa_scalar number;
    if (fapy_scalar_from(o, &number)) return *out = (fa_factors){1, {fa_scalar_float(number)}}, true;
    if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
    PyObject *items = PySequence_Tuple(o); /* an item's own code may change a list */
    bool fine = items && PyTuple_GET_SIZE(items) <= 3;
    out->n = fine ? (int32_t)PyTuple_GET_SIZE(items) : 0;
    for (int i = 0; fine && i < out->n; i++) {
        fine = fapy_scalar_from(PyTuple_GET_ITEM(items, i), &number);
        if (fine) out->factor[i] = fa_scalar_float(number);
    }
    Py_XDECREF(items);
    return fine;
}

/* Windows may have None for a side that is kept (adaptive pooling): -1. */
static bool sides_from(PyObject *o, fa_shape *out) {
    if (!PyTuple_Check(o) && !PyList_Check(o)) return fapy_shape_from(o, out);
    PyObject *items = PySequence_Tuple(o); /* an item's own code may change a list */
    bool fine = items && PyTuple_GET_SIZE(items) <= FA_MAX_DIMS;
    out->ndim = fine ? (int32_t)PyTuple_GET_SIZE(items) : 0;
    for (int i = 0; fine && i < out->ndim; i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (Py_IsNone(item))
            out->dim[i] = -1;
        else
            fine = fapy_int_from(item, &out->dim[i]);
    }
    Py_XDECREF(items);
    return fine;
}

/* A text of the argument's list becomes the list's own text, which lives on. */
static bool word_from(const fapy_layer *row, const fai_layer_argument *a, PyObject *o, const char **out) {
    const char *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
    if (!text) return wrong(row, a->name, "str", o);
    for (int i = 0; a->words[i]; i++)
        if (strcmp(a->words[i], text) == 0) return *out = a->words[i], true;
    if (strcmp(a->name, "reduction") == 0)
        return PyErr_Format(PyExc_ValueError, "%s is not a valid value for reduction", text), false;
    const char *was = text;
    fai_layer_word(row->name, a->name, &was, a->words);
    return fapy_raise(), false;
}

/* Whether o holds, which its own code may refuse to say. */
static bool truth_of(PyObject *o, bool *out) {
    const int truth = PyObject_IsTrue(o);
    *out = truth == 1;
    return truth >= 0;
}

/* The argument in m->data follows the object. None where the row has no none: the layer goes another way. */
static bool follow(fa_module *m, const fapy_layer *row, const fai_layer_argument *a, PyObject *o) {
    void *at = (char *)m->data + a->place;
    fa_scalar number;
    switch ((fai_argument_kind)a->kind) {
    case FAI_ARGUMENT_INT:
        if (Py_IsNone(o)) return *(int64_t *)at = (int64_t)a->number, m->detour |= a->required || a->number != -1, true;
        return fapy_int_from(o, at) || wrong(row, a->name, "int", o);
    case FAI_ARGUMENT_FLOAT:
        if (Py_IsNone(o)) return *(double *)at = a->number, m->detour = true;
        if (!fapy_scalar_from(o, &number)) return wrong(row, a->name, "float", o);
        return *(double *)at = fa_scalar_float(number), true;
    case FAI_ARGUMENT_OPTIONAL_FLOAT:
        if (Py_IsNone(o)) return *(double *)at = -1, true;
        if (!fapy_scalar_from(o, &number)) return wrong(row, a->name, "float", o);
        return *(double *)at = fa_scalar_float(number), true;
    case FAI_ARGUMENT_BOOL: return truth_of(o, at);
    case FAI_ARGUMENT_WORD: return word_from(row, a, o, at);
    case FAI_ARGUMENT_SHAPE:
        ((fa_shape *)at)->ndim = 0;
        if (Py_IsNone(o) && !a->required) return true;
        return sides_from(o, at) || wrong(row, a->name, a->sides == 1 ? "int" : "tuple of ints", o);
    case FAI_ARGUMENT_FACTORS:
        ((fa_factors *)at)->n = 0;
        return Py_IsNone(o) || factors_from(o, at) || wrong(row, a->name, "float or tuple of floats", o);
    case FAI_ARGUMENT_TENSOR: return Py_IsNone(o) || fapy_tensor_check(o) || wrong(row, a->name, "Tensor", o);
    }
    return false;
}

static const fai_layer_argument *argument_named(const fai_layer *layer, const char *name) {
    for (int i = 0; i < layer->narguments; i++)
        if (strcmp(layer->arguments[i].name, name) == 0) return &layer->arguments[i];
    return NULL;
}

/* Conv's padding is numbers, or "same", or "valid". */
static bool follow_padding(fa_module *m, const fapy_layer *row, const fai_layer_argument *a, PyObject *o) {
    const fai_layer_argument *automatic = argument_named(m->layer, "auto_padding");
    const char **word = automatic ? (const char **)((char *)m->data + automatic->place) : NULL;
    if (!word || !PyUnicode_Check(o)) {
        if (word) *word = automatic->words[0];
        return follow(m, row, a, o);
    }
    for (int i = 1; automatic->words[i]; i++)
        if (PyUnicode_CompareWithASCIIString(o, automatic->words[i]) == 0) {
            *word = automatic->words[i];
            *(fa_shape *)((char *)m->data + a->place) = FA_DIMS(0);
            return true;
        }
    PyErr_Format(PyExc_ValueError, "Invalid padding string '%U', should be one of {'valid', 'same'}", o);
    return false;
}

/* ---- attributes ---- */

static PyObject *shape_object(const fa_shape *shape, bool tuple) {
    PyObject *o = PyTuple_New(shape->ndim);
    for (int i = 0; o && i < shape->ndim; i++) {
        PyObject *n = shape->dim[i] < 0 && !tuple ? Py_NewRef(Py_None) : PyLong_FromLongLong(shape->dim[i]);
        if (!n)
            Py_CLEAR(o);
        else
            PyTuple_SET_ITEM(o, i, n);
    }
    if (!o || tuple || shape->ndim != 1) return o;
    PyObject *one = Py_NewRef(PyTuple_GET_ITEM(o, 0));
    Py_DECREF(o);
    return one;
}

/* The argument as an object, from C. */
static PyObject *argument_object(const fa_module *m, const fai_layer_argument *a) {
    const void *at = (const char *)m->data + a->place;
    switch ((fai_argument_kind)a->kind) {
    case FAI_ARGUMENT_INT:
        return *(const int64_t *)at == -1 && a->number == -1 && !a->required ? Py_NewRef(Py_None)
                                                                             : PyLong_FromLongLong(*(const int64_t *)at);
    case FAI_ARGUMENT_OPTIONAL_FLOAT:
        if (*(const double *)at < 0) Py_RETURN_NONE;
        return PyFloat_FromDouble(*(const double *)at);
    case FAI_ARGUMENT_FLOAT: return PyFloat_FromDouble(*(const double *)at);
    case FAI_ARGUMENT_BOOL: return PyBool_FromLong(*(const bool *)at);
    case FAI_ARGUMENT_WORD: return PyUnicode_FromString(*(const char *const *)at);
    case FAI_ARGUMENT_SHAPE:
        if (((const fa_shape *)at)->ndim == 0) Py_RETURN_NONE;
        return shape_object(at, a->expand || a->sides == 0);
    case FAI_ARGUMENT_FACTORS: {
        const fa_factors *f = at;
        if (f->n == 0) Py_RETURN_NONE;
        if (f->n == 1) return PyFloat_FromDouble(f->factor[0]);
        return f->n == 2 ? Py_BuildValue("(dd)", f->factor[0], f->factor[1])
                         : Py_BuildValue("(ddd)", f->factor[0], f->factor[1], f->factor[2]);
    }
    default: Py_RETURN_NONE;
    }
}

static bool put(PyObject *self, const char *name, PyObject *value) {
    PyObject *text = value ? PyUnicode_InternFromString(name) : NULL;
    const int failed = !text || PyObject_GenericSetAttr(self, text, value);
    Py_XDECREF(text), Py_XDECREF(value);
    return !failed;
}

/* Attributes for the parameters of the constructor. values: what was given; NULL: all from C. */
static bool put_attributes(PyObject *self, const fapy_layer *row, PyObject *const *values) {
    const fa_module *m = M(self);
    for (int i = 0; i < row->n; i++) {
        const fapy_layer_parameter *p = &row->parameters[i];
        const fai_layer_argument *a = p->argument >= 0 ? &m->layer->arguments[p->argument] : NULL;
        PyObject *value = values ? values[i] : NULL;
        if (p->how == FAPY_LEGACY || p->how == FAPY_DROP || p->how == FAPY_DEVICE_OF || p->how == FAPY_DTYPE_OF ||
            fai_find_entry(m, p->name, strlen(p->name)))
            continue;
        const bool text = value && PyUnicode_Check(value);
        if (a && a->kind != FAI_ARGUMENT_TENSOR && !text &&
            (!value || a->kind == FAI_ARGUMENT_FACTORS || (a->kind == FAI_ARGUMENT_SHAPE && (a->sides || a->required))))
            value = argument_object(m, a);
        else
            value = value ? Py_NewRef(value) : initial(p);
        if (!put(self, p->name, value)) return false;
    }
    return true;
}

static const fapy_layer_parameter *parameter_named(const fapy_layer *row, PyObject *name) {
    for (int i = 0; i < row->n; i++)
        if (PyUnicode_CompareWithASCIIString(name, row->parameters[i].name) == 0) return &row->parameters[i];
    return NULL;
}

static bool is_initial(const fapy_layer_parameter *p, PyObject *value) {
    PyObject *first = initial(p);
    const int same = first ? PyObject_RichCompareBool(first, value, Py_EQ) : 0;
    Py_XDECREF(first);
    if (same < 0) PyErr_Clear();
    return same == 1;
}

/* layer.p = 0.3: what forward reads follows. What it can't be is kept as the attribute alone, and forward goes another way. */
int fapy_layer_attribute(PyObject *self, PyObject *name, PyObject *value) {
    fa_module *m = M(self);
    const fapy_layer *row = m->type == m->layer->type ? row_of(self) : NULL;
    const fapy_layer_parameter *p = row ? parameter_named(row, name) : NULL;
    if (!p || !value) return PyErr_Occurred() ? -1 : 0;
    if (p->how == FAPY_INPLACE && !truth_of(value, &m->inplace)) return -1;
    if (p->how == FAPY_OTHER) m->detour |= !is_initial(p, value);
    if (p->how != FAPY_ARGUMENT || p->argument < 0) return 0;
    const fai_layer_argument *a = &m->layer->arguments[p->argument];
    if (a->kind == FAI_ARGUMENT_TENSOR) return 0;
    if (!(strcmp(p->name, "padding") == 0 ? follow_padding(m, row, a, value) : follow(m, row, a, value))) return -1;
    fa_shape *shape = (fa_shape *)((char *)m->data + a->place);
    if (a->kind == FAI_ARGUMENT_SHAPE && a->sides && shape->ndim &&
        !fai_layer_sides(row->name, a->name, shape, a->sides, a->expand))
        return fapy_raise(), -1;
    return 0;
}

/* ---- making one ---- */

static bool legacy_reduction(PyObject *const *values, const fapy_layer *row, const char **word) {
    PyObject *average = NULL, *reduce = NULL;
    for (int i = 0; i < row->n; i++) {
        if (row->parameters[i].how != FAPY_LEGACY) continue;
        if (strcmp(row->parameters[i].name, "reduce") == 0)
            reduce = values[i];
        else
            average = values[i];
    }
    if ((!average || Py_IsNone(average)) && (!reduce || Py_IsNone(reduce))) return true;
    bool averages = true, reduces = true;
    if (average && !Py_IsNone(average) && !truth_of(average, &averages)) return false;
    if (reduce && !Py_IsNone(reduce) && !truth_of(reduce, &reduces)) return false;
    *word = !reduces ? "none" : averages ? "mean" : "sum";
    return !PyErr_WarnFormat(PyExc_UserWarning, 2,
                             "size_average and reduce args will be deprecated, please use reduction='%s' instead.", *word);
}

typedef struct place {
    fa_device device;
    fa_dtype dtype;
} place;

/* Arguments into m->data, tensors, what is only Python's; then the row's build. */
static bool fill(PyObject *self, const fapy_layer *row, PyObject **values, place *where, fa_tensor **tensors) {
    fa_module *m = M(self);
    for (int i = 0; i < row->n; i++) {
        const fapy_layer_parameter *p = &row->parameters[i];
        PyObject *value = values[i];
        const fai_layer_argument *a = p->argument >= 0 ? &m->layer->arguments[p->argument] : NULL;
        if (a && !(strcmp(p->name, "padding") == 0 ? follow_padding(m, row, a, value) : follow(m, row, a, value))) return false;
        if (a && a->kind == FAI_ARGUMENT_TENSOR) tensors[a->place] = Py_IsNone(value) ? NULL : (fa_tensor *)value;
        if (p->how == FAPY_INPLACE && !truth_of(value, &m->inplace)) return false;
        if (p->how == FAPY_OTHER) m->detour |= !is_initial(p, value);
        if (p->how == FAPY_DEVICE_OF && !Py_IsNone(value) && !fapy_device_from(value, row->name, "device", 0, &where->device))
            return false;
        if (p->how == FAPY_DTYPE_OF && !Py_IsNone(value) && !fapy_dtype_from(value, row->name, "dtype", 0, &where->dtype))
            return false;
    }
    const fai_layer_argument *reduction = argument_named(m->layer, "reduction");
    return !reduction || legacy_reduction(values, row, (const char **)((char *)m->data + reduction->place));
}

static bool drop_left_out(PyObject *self, const fapy_layer *row, PyObject *const *values) {
    for (int i = 0; i < row->n; i++) {
        bool keeps = true;
        if (row->parameters[i].how == FAPY_DROP && !truth_of(values[i], &keeps)) return false;
        if (keeps) continue;
        PyObject *name = PyUnicode_FromString(row->parameters[i].name);
        const bool fine = name && fapy_set_entry(self, name, FAI_ENTRY_PARAMETER, true, Py_None);
        Py_XDECREF(name);
        if (!fine) return false;
    }
    return true;
}

static bool build(PyObject *self, const fapy_layer *row, PyObject **values) {
    fa_module *m = M(self);
    place where = {0};
    fa_tensor *tensors[4] = {NULL};
    for (int i = 0; i < m->layer->narguments; i++) { /* those that Python's signature lacks */
        const fai_layer_argument *a = &m->layer->arguments[i];
        if (a->kind == FAI_ARGUMENT_WORD) *(const char **)((char *)m->data + a->place) = a->text;
        if (a->kind == FAI_ARGUMENT_INT) *(int64_t *)((char *)m->data + a->place) = (int64_t)a->number;
    }
    if (!fill(self, row, values, &where, tensors)) return false;
    const uint32_t mark = FAPY_MARK;
    if (where.device.type) fa_device_scope_open(where.device);
    const bool opened = where.device.type && !fa_failed();
    fai_layer_dtype(where.dtype);
    const bool fine = !fa_failed() && m->layer->build(m, tensors);
    fai_layer_dtype(FA_DTYPE_DEFAULT);
    if (opened) fa_device_scope_close();
    fapy_sweep(mark);
    m->nslots = m->nentries;
    if (!fine) return fapy_raise(), false;
    return drop_left_out(self, row, values);
}

static int layer_init(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *values[FAPY_MOST] = {NULL}, *nothing = PyTuple_New(0);
    const fapy_layer *row = row_of(self);
    if (!row || !nothing || !parse(row, args, keywords, values) || fapy_ModuleBase.tp_init(self, nothing, NULL))
        return Py_XDECREF(nothing), -1;
    Py_DECREF(nothing);
    fa_module *m = M(self);
    const fai_layer *layer = &fai_layers[row->layer];
    const bool training = m->training;
    fai_module_clear(m);
    if (!fai_module_init(m, layer->type, layer->bytes)) return fapy_raise(), -1;
    m->layer = layer, m->training = training, m->detour = m->inplace = false;
    bool fine = true;
    int n = 0;
    for (; fine && n < row->n; n++) fine = (values[n] = values[n] ? Py_NewRef(values[n]) : initial(&row->parameters[n])) != NULL;
    fine = fine && build(self, row, values) && put_attributes(self, row, values);
    for (int i = 0; i < n; i++) Py_XDECREF(values[i]);
    if (!fine) m->type = NULL; /* as if __init__ had not been called; entries go with the module */
    return fine ? 0 : -1;
}

/* A new object becomes its class's layer again, with the attributes of a dict; nothing is drawn. */
static PyObject *restore_layer(PyObject *unused, PyObject *args) {
    PyObject *self, *state, *values[FAPY_MOST] = {NULL}, *nothing = NULL;
    (void)unused;
    if (!PyArg_ParseTuple(args, "O!O!", &fapy_LayerBase, &self, &PyDict_Type, &state)) return NULL;
    const fapy_layer *row = row_of(self);
    if (!row) return NULL;
    for (int i = 0; i < row->n; i++) {
        const fapy_layer_parameter *p = &row->parameters[i];
        values[i] = PyDict_GetItemString(state, p->name);
        const fai_layer_argument *a = p->argument >= 0 ? &fai_layers[row->layer].arguments[p->argument] : NULL;
        if (a && a->kind == FAI_ARGUMENT_TENSOR) values[i] = NULL;
        if (!values[i] && !p->initial)
            return PyErr_Format(PyExc_AttributeError, "the state of a %s has no attribute '%s'", row->name, p->name);
    }
    PyObject *keywords = PyDict_New();
    bool fine = keywords && (nothing = PyTuple_New(0));
    for (int i = 0; fine && i < row->n; i++)
        if (values[i]) fine = !PyDict_SetItemString(keywords, row->parameters[i].name, values[i]);
    fai_layer_blank(true);
    fine = fine && !layer_init(self, nothing, keywords);
    fai_layer_blank(false);
    Py_XDECREF(keywords), Py_XDECREF(nothing);
    if (!fine) return NULL;
    Py_RETURN_NONE;
}

bool fapy_layer_built(void *module) {
    PyObject *self = module;
    if (!M(self)->layer || Py_TYPE(self) == &fapy_ModuleBase) return true;
    const fapy_layer *row = row_of(self);
    return (row && put_attributes(self, row, NULL)) || fapy_foreign();
}

PyObject *fapy_layer_class(const char *name) { return classes ? PyDict_GetItemString(classes, name) : NULL; }

void *fapy_new_module(const char *name) {
    PyObject *class = fapy_layer_class(name);
    if (!class) class = fapy_layer_class("Module");
    PyTypeObject *type = class ? (PyTypeObject *)class : &fapy_ModuleBase;
    PyObject *module = type->tp_new(type, NULL, NULL);
    if (!module) fapy_foreign();
    return module;
}

/* ---- printing: the row's repr column, over the attributes ---- */

static bool add_text(PyObject **text, PyObject *more) {
    PyUnicode_AppendAndDel(text, more);
    return *text != NULL;
}

/* Appends from to end, {name} as the attribute prints. False with an exception, or where an attribute is not there. */
static bool add_part(PyObject *self, PyObject **text, const char *at, const char *end) {
    while (at < end) {
        const char *open = memchr(at, '{', (size_t)(end - at));
        if (!open) return add_text(text, PyUnicode_FromStringAndSize(at, end - at));
        const char *close = memchr(open, '}', (size_t)(end - open));
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(close - open - 1), open + 1);
        PyObject *value = PyObject_GetAttrString(self, name), *shown = NULL;
        if (!value) return false;
        /* of an entry: is it there? */
        const bool flag = fapy_tensor_check(value) || (Py_IsNone(value) && fai_find_entry(M(self), name, strlen(name)));
        shown = flag ? PyUnicode_FromString(Py_IsNone(value) ? "False" : "True") : PyObject_Str(value);
        Py_DECREF(value);
        if (!shown || !add_text(text, PyUnicode_FromStringAndSize(at, open - at)) || !add_text(text, shown)) return false;
        at = close + 1;
    }
    return true;
}

/* "[...]?name" is printed where the attribute is not what it is by default. */
static bool differs(PyObject *self, const fapy_layer *row, const char *name) {
    PyObject *text = PyUnicode_FromString(name), *value = text ? PyObject_GetAttr(self, text) : NULL;
    const fapy_layer_parameter *p = text ? parameter_named(row, text) : NULL;
    bool different = false;
    if (value && p && p->initial) {
        const bool entry = fapy_entry(M(self), text) != NULL;
        if (entry)
            different = Py_IsNone(value) == (strcmp(p->initial, "True") == 0);
        else if (PyTuple_Check(value)) {
            PyObject *first = initial(p);
            for (Py_ssize_t i = 0; first && i < PyTuple_GET_SIZE(value); i++)
                different |= PyObject_RichCompareBool(first, PyTuple_GET_ITEM(value, i), Py_NE) == 1;
            Py_XDECREF(first);
        } else
            different = !is_initial(p, value);
    }
    PyErr_Clear();
    Py_XDECREF(text), Py_XDECREF(value);
    return different;
}

static PyObject *extra_repr(PyObject *self, PyObject *unused) {
    (void)unused;
    const fapy_layer *row = row_of(self);
    PyObject *text = row ? PyUnicode_FromString("") : NULL;
    const char *at = row ? row->repr : NULL;
    while (text && at && *at) {
        if (*at != '[') {
            const char *end = at + strcspn(at, "[");
            if (!add_part(self, &text, at, end)) return Py_XDECREF(text), NULL;
            at = end;
            continue;
        }
        const char *close = strstr(at, "]?");
        char name[64];
        const size_t length = strspn(close + 2, "abcdefghijklmnopqrstuvwxyz_0123456789");
        snprintf(name, sizeof name, "%.*s", (int)length, close + 2);
        if (differs(self, row, name) && !add_part(self, &text, at + 1, close)) return Py_XDECREF(text), NULL;
        at = close + 2 + length;
    }
    return text;
}

/* ---- the type, and making the classes ---- */

/* The same initial values drawn anew: parameters and buffers stay the same objects. */
static PyObject *reset_parameters(PyObject *self, PyObject *unused) {
    (void)unused;
    fa_module *m = M(self);
    if (!m->layer) Py_RETURN_NONE;
    const uint32_t mark = FAPY_MARK;
    fa_tensor *tensors[4] = {NULL}, *old[FAPY_MOST];
    const int n = m->nslots < FAPY_MOST ? m->nslots : FAPY_MOST;
    fa_module *fresh = fai_layer_make((int)(m->layer - fai_layers));
    if (!fresh) return fapy_raise();
    memcpy(fresh->data, m->data, m->data_bytes);
    bool fine = m->layer->build(fresh, tensors);
    const bool was = fa_set_grad_enabled(false);
    for (int i = 0; fine && i < n && i < fresh->nentries; i++) {
        old[i] = m->entries[i].kind == FAI_ENTRY_MODULE ? NULL : m->entries[i].object;
        fa_tensor *new = fresh->entries[i].object;
        if (old[i] && new && !m->entries[i].gone) fine = fa_copy_(old[i], new) != NULL;
    }
    fa_set_grad_enabled(was);
    return fapy_bool_or_raise(fine, mark);
}

static PyMethodDef layer_methods[] = {
    {"forward", (PyCFunction)(void (*)(void))fapy_layer_forward, METH_FASTCALL | METH_KEYWORDS,
     "forward(input)\n--\n\nWhat the layer computes."},
    {"extra_repr", extra_repr, METH_NOARGS, "extra_repr()\n--\n\nWhat is printed between the parentheses."},
    {"reset_parameters", reset_parameters, METH_NOARGS, "reset_parameters()\n--\n\nDraws the initial values anew."},
    {0}};
PyTypeObject fapy_LayerBase = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "facula._C._LayerBase",
                               .tp_basicsize = sizeof(fa_module),
                               .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                               .tp_init = layer_init,
                               .tp_methods = layer_methods,
                               .tp_call = fapy_module_call,
                               .tp_doc = "What the layers made from rows are."};

static PyObject *layer_rows(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *list = PyList_New(fapy_nlayers);
    for (int i = 0; list && i < fapy_nlayers; i++) {
        const fapy_layer *r = &fapy_layers[i];
        PyObject *item = Py_BuildValue("(ssss)", r->name, r->where, r->bases, r->doc);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *set_classes(PyObject *self, PyObject *given) {
    (void)self;
    if (!PyDict_Check(given)) return PyErr_SetString(PyExc_TypeError, "a dict of classes is needed"), NULL;
    if (!str_row && !(str_row = PyUnicode_InternFromString("_row"))) return NULL;
    Py_XSETREF(classes, Py_NewRef(given));
    Py_RETURN_NONE;
}

static PyObject *layer_blank(PyObject *self, PyObject *on) {
    (void)self;
    bool blank;
    if (!truth_of(on, &blank)) return NULL;
    fai_layer_blank(blank);
    Py_RETURN_NONE;
}

static PyObject *set_global_hooks(PyObject *self, PyObject *on) {
    (void)self;
    return truth_of(on, &fapy_global_hooks) ? Py_NewRef(Py_None) : NULL;
}

PyMethodDef fapy_layer_functions[] = {
    {"_layer_rows", layer_rows, METH_NOARGS, NULL},        {"_restore_layer", restore_layer, METH_VARARGS, NULL},
    {"_layer_blank", layer_blank, METH_O, NULL},           {"_set_layer_classes", set_classes, METH_O, NULL},
    {"_set_global_hooks", set_global_hooks, METH_O, NULL}, {0}};
