/* Functions whose arguments mean several things: max(x), max(x, dim), max(x, other); x.to(device), x.to(dtype), x.to(other). The values
 * come parsed, in the order of the signature in python/torch.tab. */
#include "bind.h"
#include "ops/random.h"

/* ---- numbers ---- */

static bool is_one(const fapy_value *v) { return !v->given || fa_scalar_float(v->as.num) == 1; }

static PyObject *arithmetic(int row, int scaled_row, fapy_value *v, bool in_place)
{
    const uint32_t mark = FAPY_MARK;
    const fai_operand operands[] = {v[0].as.operand, v[1].as.operand};
    const fa_tensor *a = operands[0].tensor, *b = operands[1].tensor;
    const bool scaled_by = !is_one(&v[2]);
    if (scaled_by && v[2].as.num.kind == FA_SCALAR_FLOAT && !(a && fai_is_float(a->dtype)) && !(b && fai_is_float(b->dtype)))
        return PyErr_SetString(PyExc_RuntimeError, "For integral input tensors, argument alpha must not be a floating point number."), NULL;
    const double alpha = scaled_by ? fa_scalar_float(v[2].as.num) : 1;
    return fapy_take((in_place ? fai_row_in_place : fai_row)(scaled_by ? scaled_row : row, 2, operands, scaled_by ? &alpha : NULL), mark);
}

FAPY_DO(add) { return arithmetic(FAI_ROW_add, FAI_ROW_add_alpha, v, false); }
FAPY_DO(add_in_place) { return arithmetic(FAI_ROW_add, FAI_ROW_add_alpha, v, true); }
FAPY_DO(sub) { return arithmetic(FAI_ROW_sub, FAI_ROW_sub_alpha, v, false); }
FAPY_DO(sub_in_place) { return arithmetic(FAI_ROW_sub, FAI_ROW_sub_alpha, v, true); }

FAPY_DO(rsub)
{
    const uint32_t mark = FAPY_MARK;
    const fai_operand operands[] = {v[1].as.operand, fai_of(v[0].as.t)};
    const double alpha = is_one(&v[2]) ? 1 : fa_scalar_float(v[2].as.num);
    return fapy_take(alpha == 1 ? fai_row(FAI_ROW_sub, 2, operands, NULL) : fai_row(FAI_ROW_sub_alpha, 2, operands, &alpha), mark);
}

static PyObject *divide(fapy_value *v, bool in_place)
{
    const uint32_t mark = FAPY_MARK;
    const fai_operand operands[] = {v[0].as.operand, v[1].as.operand};
    const char *mode = v[2].given ? v[2].as.text : "true";
    if (strcmp(mode, "floor") && strcmp(mode, "trunc") && strcmp(mode, "true"))
        return PyErr_Format(PyExc_RuntimeError, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'", mode);
    const int row = strcmp(mode, "true") == 0 ? FAI_ROW_div : strcmp(mode, "floor") == 0 ? FAI_ROW_div_floor : FAI_ROW_div_trunc;
    return fapy_take((in_place ? fai_row_in_place : fai_row)(row, 2, operands, NULL), mark);
}
FAPY_DO(div) { return divide(v, false); }
FAPY_DO(div_in_place) { return divide(v, true); }

static PyObject *rounded(fapy_value *v, bool in_place)
{
    const uint32_t mark = FAPY_MARK;
    const int decimals = v[1].given ? (int)v[1].as.i : 0;
    const fai_operand x = fai_of(v[0].as.t);
    if (decimals == 0) return fapy_take((in_place ? fai_row_in_place : fai_row)(FAI_ROW_round, 1, &x, NULL), mark);
    return fapy_take(in_place ? fa_round_decimals_(v[0].as.t, decimals) : fa_round_decimals(v[0].as.t, decimals), mark);
}
FAPY_DO(round) { return rounded(v, false); }
FAPY_DO(round_in_place) { return rounded(v, true); }

/* A bound of clamp: a tensor, a number, or none. */
static bool bound(const fapy_value *v, const char *name, fai_operand *out)
{
    if (!v->given) return true;
    if (fapy_tensor_check(v->as.o)) return (out->tensor = (fa_tensor *)v->as.o) != NULL;
    out->tensor = NULL;
    if (fapy_scalar_from(v->as.o, &out->scalar)) return true;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "clamp(): argument '%s' must be Number or Tensor, not %s", name, Py_TYPE(v->as.o)->tp_name);
    return false;
}

static PyObject *clamp_with(const char *op, fa_tensor *x, fai_operand low, fai_operand high, bool in_place)
{
    const uint32_t mark = FAPY_MARK;
    FAI_CALLED(op);
    return fapy_take((in_place ? fai_row_in_place : fai_row)(FAI_ROW_clamp, 3, (fai_operand[]){fai_of(x), low, high}, NULL), mark);
}

static PyObject *clamp_min(fa_tensor *x, fai_operand low, bool in_place) { return clamp_with("clamp_min", x, low, fai_no_bound(x, low, true), in_place); }
static PyObject *clamp_max(fa_tensor *x, fai_operand high, bool in_place) { return clamp_with("clamp_max", x, fai_no_bound(x, high, false), high, in_place); }
FAPY_DO(clamp_min) { return clamp_min(v[0].as.t, v[1].as.operand, false); }
FAPY_DO(clamp_min_in_place) { return clamp_min(v[0].as.t, v[1].as.operand, true); }
FAPY_DO(clamp_max) { return clamp_max(v[0].as.t, v[1].as.operand, false); }
FAPY_DO(clamp_max_in_place) { return clamp_max(v[0].as.t, v[1].as.operand, true); }

static PyObject *clamped(fapy_value *v, bool in_place)
{
    fai_operand low, high;
    fa_tensor *x = v[0].as.t;
    if (!bound(&v[1], "min", &low) || !bound(&v[2], "max", &high)) return NULL;
    if (!v[1].given && !v[2].given) return PyErr_SetString(PyExc_RuntimeError, "torch.clamp: At least one of 'min' or 'max' must not be None"), NULL;
    if (!v[2].given) return clamp_min(x, low, in_place);
    return v[1].given ? clamp_with("clamp", x, low, high, in_place) : clamp_max(x, high, in_place);
}
FAPY_DO(clamp) { return clamped(v, false); }
FAPY_DO(clamp_in_place) { return clamped(v, true); }

static PyObject *nan_to_num(fapy_value *v, bool in_place)
{
    static const double most[FA_DTYPE_COUNT] = {[FA_FLOAT16] = 65504, [FA_BFLOAT16] = 0x1.fep127, [FA_FLOAT32] = 0x1.fffffep127, [FA_FLOAT64] = 0x1.fffffffffffffp1023};
    const uint32_t mark = FAPY_MARK;
    fa_tensor *x = v[0].as.t;
    if (!fai_is_float(x->dtype)) return fapy_take(in_place ? x : fa_clone(x), mark);
    const double params[] = {v[1].given ? v[1].as.f : 0, v[2].given ? v[2].as.f : most[x->dtype], v[3].given ? v[3].as.f : -most[x->dtype]};
    return fapy_take((in_place ? fai_row_in_place : fai_row)(FAI_ROW_nan_to_num, 1, (fai_operand[]){fai_of(x)}, params), mark);
}
FAPY_DO(nan_to_num) { return nan_to_num(v, false); }
FAPY_DO(nan_to_num_in_place) { return nan_to_num(v, true); }

FAPY_DO(where)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *condition = v[0].as.t;
    if (!v[1].given && !v[2].given) {
        fapy_value only[2] = {v[0], {.given = true, .as.b = true}};
        return fapy_do_nonzero(only);
    }
    if (!v[1].given || !v[2].given) return PyErr_SetString(PyExc_TypeError, "where() takes the condition alone, or the condition and both 'input' and 'other'"), NULL;
    if (condition->dtype == FA_UINT8) condition = fa_cast(condition, FA_BOOL);
    else if (condition->dtype != FA_BOOL)
        return PyErr_Format(PyExc_RuntimeError, "where expected condition to be a boolean tensor, but got a tensor with dtype %s", fai_dtype_title((fa_dtype)condition->dtype));
    return fapy_take(fai_row3(FAI_ROW_where, fai_of(condition), v[1].as.operand, v[2].as.operand), mark);
}

FAPY_DO(relu)
{
    const uint32_t mark = FAPY_MARK;
    const fai_operand x = fai_of(v[0].as.t);
    return fapy_take((v[1].given && v[1].as.b ? fai_row_in_place : fai_row)(FAI_ROW_relu, 1, &x, NULL), mark);
}
FAPY_DO(relu_in_place)
{
    v[1] = (fapy_value){.given = true, .as.b = true};
    return fapy_do_relu(v);
}

FAPY_DO(gelu)
{
    const uint32_t mark = FAPY_MARK;
    const char *approximate = v[1].given ? v[1].as.text : "none";
    if (strcmp(approximate, "none") && strcmp(approximate, "tanh")) return PyErr_SetString(PyExc_RuntimeError, "approximate argument must be either none or tanh."), NULL;
    return fapy_take(fai_row1(strcmp(approximate, "tanh") ? FAI_ROW_gelu : FAI_ROW_gelu_tanh, fai_of(v[0].as.t)), mark);
}

/* ---- reductions ---- */

FAPY_DO(sum)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *x = cast_if(v[0].as.t, v[3].given, v[3].as.dtype);
    const bool keepdim = v[2].given && v[2].as.b;
    fa_tensor *r = x ? reduce(x, v[1].given, v[1].given ? v[1].as.shape : (fa_shape){0}, keepdim, false, 0, fa_sum, fa_sum_dims) : NULL;
    return fapy_take(r && v[3].given ? fa_cast(r, v[3].as.dtype) : r, mark);
}

/* (values, indices) as torch's named tuple. */
PyObject *values_and_indices(const char *name, fa_tensor *values, fa_tensor *indices, uint32_t mark)
{
    fa_tensor *const parts[] = {values, indices};
    if (!values || fa_failed()) return fapy_take(NULL, mark);
    PyObject *tuple = fapy_take_tuple(parts, 2, mark);
    if (!name || !tuple) return tuple;
    PyObject *module = PyImport_ImportModule("facula.return_types");
    PyObject *type = module ? PyObject_GetAttrString(module, name) : NULL, *result = type ? PyObject_CallOneArg(type, tuple) : NULL;
    Py_XDECREF(tuple);
    Py_XDECREF(module);
    Py_XDECREF(type);
    return result;
}

/* max(x), max(x, dim[, keepdim]), max(x, other) */
static PyObject *extreme(fapy_value *v, const char *name, int row, fa_tensor *(*all)(fa_tensor *), fa_tensor *(*along)(fa_tensor *, int64_t, bool, fa_tensor **))
{
    const uint32_t mark = FAPY_MARK;
    PyObject *other = v[3].given ? v[3].as.o : v[1].given && fapy_tensor_check(v[1].as.o) && ((fa_tensor *)v[1].as.o)->object.refs ? v[1].as.o : NULL;
    if (other && fapy_tensor_check(other)) return fapy_take(fai_row2(row, fai_of(v[0].as.t), fai_of((fa_tensor *)other)), mark);
    if (!v[1].given) return fapy_take(all(v[0].as.t), mark);
    int64_t dim;
    if (!fapy_int_from(v[1].as.o, &dim)) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%s(): argument 'dim' must be int, or 'other' a Tensor, not %s", name, Py_TYPE(v[1].as.o)->tp_name);
        return NULL;
    }
    fa_tensor *indices = NULL, *values = along(v[0].as.t, dim, v[2].given && v[2].as.b, &indices);
    return values_and_indices(name, values, indices, mark);
}
FAPY_DO(max) { return extreme(v, "max", FAI_ROW_maximum, fa_max, fa_max_dim); }
FAPY_DO(min) { return extreme(v, "min", FAI_ROW_minimum, fa_min, fa_min_dim); }

/* var(x, dim, unbiased, keepdim), and the old var(x, unbiased) */
static PyObject *spread(fapy_value *v, const char *name, fa_tensor *(*along)(fa_tensor *, fa_shape, int64_t, bool))
{
    const uint32_t mark = FAPY_MARK;
    fa_shape dims = {0, {0}};
    int64_t correction = v[4].given ? v[4].as.i : v[2].given ? v[2].as.b : 1;
    if (v[1].given && PyBool_Check(v[1].as.o)) correction = v[1].as.o == Py_True;
    else if (v[1].given && !fapy_shape_from(v[1].as.o, &dims)) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "%s(): argument 'dim' must be tuple of ints, not %s", name, Py_TYPE(v[1].as.o)->tp_name);
        return NULL;
    }
    return fapy_take(along(v[0].as.t, dims, correction, v[3].given && v[3].as.b), mark);
}
FAPY_DO(var) { return spread(v, "var", fa_var_dims); }
FAPY_DO(std) { return spread(v, "std", fa_std_dims); }

FAPY_DO(norm)
{
    const uint32_t mark = FAPY_MARK;
    double p = 2;
    fa_tensor *x = cast_if(v[0].as.t, v[4].given, v[4].as.dtype);
    if (v[1].given && PyUnicode_Check(v[1].as.o)) {
        if (PyUnicode_CompareWithASCIIString(v[1].as.o, "fro")) return PyErr_Format(PyExc_NotImplementedError, "norm(): p=%R is not in Facula; numbers and 'fro' are", v[1].as.o);
    } else if (v[1].given) {
        p = PyFloat_AsDouble(v[1].as.o);
        if (PyErr_Occurred()) return NULL;
    }
    const bool keepdim = v[3].given && v[3].as.b;
    return fapy_take(!x ? NULL : v[2].given || keepdim ? fa_norm_dims(x, p, v[2].given ? v[2].as.shape : (fa_shape){0}, keepdim) : fa_norm(x, p), mark);
}

static PyObject *middle(fapy_value *v, const char *name, fa_tensor *(*all)(fa_tensor *), fa_tensor *(*along)(fa_tensor *, int64_t, bool, fa_tensor **))
{
    const uint32_t mark = FAPY_MARK;
    if (!v[1].given) return fapy_take(all(v[0].as.t), mark);
    fa_tensor *indices = NULL, *values = along(v[0].as.t, v[1].as.i, v[2].given && v[2].as.b, &indices);
    return values_and_indices(name, values, indices, mark);
}
FAPY_DO(median) { return middle(v, "median", fa_median, fa_median_dim); }
FAPY_DO(nanmedian) { return middle(v, "nanmedian", fa_nanmedian, fa_nanmedian_dim); }

static PyObject *uniques(const fapy_value *inverse, const fapy_value *counts, fa_tensor *values, fa_tensor *where, fa_tensor *many, uint32_t mark)
{
    fa_tensor *parts[3] = {values};
    int n = 1;
    if (inverse->given && inverse->as.b) parts[n++] = where;
    if (counts->given && counts->as.b) parts[n++] = many;
    return n == 1 || !values ? fapy_take(values, mark) : fapy_take_tuple(parts, n, mark);
}
FAPY_DO(unique)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *where = NULL, *many = NULL, *x = v[0].as.t;
    fa_tensor *values = v[4].given ? fa_unique_dim(x, v[4].as.i, &where, &many) : fa_unique(x, &where, &many);
    return uniques(&v[2], &v[3], values, where, many, mark);
}
FAPY_DO(unique_consecutive)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *where = NULL, *many = NULL, *x = v[0].as.t;
    fa_tensor *values = v[3].given ? fa_unique_consecutive_dim(x, v[3].as.i, &where, &many) : fa_unique_consecutive(x, &where, &many);
    return uniques(&v[1], &v[2], values, where, many, mark);
}

int64_t implicit_dim(const char *function, const fa_tensor *x, bool given, int64_t dim)
{
    if (given) return dim;
    fai_warn(function, "Implicit dimension choice for %s has been deprecated. Change the call to include dim=X as an argument.", function);
    return x->ndim == 0 || x->ndim == 1 || x->ndim == 3 ? 0 : 1;
}

/* ---- views ---- */

/* The same bytes as other numbers: not recorded. */
static fa_tensor *view_as_dtype(fa_tensor *x, fa_dtype dtype)
{
    const int64_t from = (int64_t)fa_dtype_size((fa_dtype)x->dtype), to = (int64_t)fa_dtype_size(dtype), last = x->ndim - 1;
    fa_shape size = fa_shape_of_tensor(x), stride = fa_shape_of(x->ndim, x->stride);
    if (from != to) {
        const char *a = fai_dtype_title((fa_dtype)x->dtype), *b = fai_dtype_title(dtype);
        if (x->ndim == 0) return fai_fail(FA_ERR_RUNTIME, "view", "self.dim() cannot be 0 to view %s as %s (different element sizes)", a, b);
        if (x->stride[last] != 1) return fai_fail(FA_ERR_RUNTIME, "view", "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %lld", a, b, (long long)x->stride[last]);
        const int64_t bytes = size.dim[last] * from;
        if (bytes % to) return fai_fail(FA_ERR_RUNTIME, "view", "self.size(-1) must be divisible by %lld to view %s as %s (different element sizes), but got %lld", (long long)(to / from), a, b, (long long)size.dim[last]);
        size.dim[last] = bytes / to;
        for (int i = 0; i < last; i++) {
            if (stride.dim[i] * from % to) return fai_fail(FA_ERR_RUNTIME, "view", "self.stride(%d) must be divisible by %lld to view %s as %s", i, (long long)(to / from), a, b);
            stride.dim[i] = stride.dim[i] * from / to;
        }
        if (x->offset * from % to) return fai_fail(FA_ERR_RUNTIME, "view", "self.storage_offset() must be divisible by %lld to view %s as %s", (long long)(to / from), a, b);
    }
    fa_tensor *r = fai_view("view", x, size.ndim, size.dim, stride.dim, x->offset * from / to);
    if (r) r->dtype = (uint8_t)dtype;
    return r;
}

FAPY_DO(view)
{
    const uint32_t mark = FAPY_MARK;
    PyObject *o = PyTuple_GET_SIZE(v[1].as.o) == 1 ? PyTuple_GET_ITEM(v[1].as.o, 0) : v[1].as.o;
    fa_shape shape;
    if (Py_TYPE(o) == &fapy_Dtype) return fapy_take(view_as_dtype(v[0].as.t, ((fapy_dtype_object *)o)->dtype), mark);
    if (fapy_shape_from(o, &shape)) return fapy_take(fa_view(v[0].as.t, shape), mark);
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "view(): argument 'size' (position 1) must be tuple of ints, not %s", Py_TYPE(o)->tp_name);
    return NULL;
}

FAPY_DO(squeeze)
{
    const uint32_t mark = FAPY_MARK;
    if (!v[1].given) return fapy_take(fa_squeeze(v[0].as.t), mark);
    fa_tensor *r = v[0].as.t;
    bool squeezed[FA_MAX_DIMS];
    if (v[1].as.shape.ndim == 0) return fapy_take(fa_alias(r), mark);
    if (!fai_normalize_dims("squeeze", r, v[1].as.shape, squeezed)) return fapy_take(NULL, mark);
    if (r->ndim == 0) return fapy_take(fa_alias(r), mark);
    for (int i = r->ndim - 1; r && i >= 0; i--)
        if (squeezed[i]) r = fa_squeeze_dim(r, i);
    return fapy_take(r, mark);
}

FAPY_DO(vstack)
{
    const uint32_t mark = FAPY_MARK;
    const fapy_tensors *ts = &v[0].as.ts;
    for (int i = 0; i < ts->n; i++) {
        fa_tensor *t = ts->at[i];
        if (t && t->ndim < 2) ts->at[i] = fa_reshape(t, FA_SHAPE(1, t->numel));
    }
    return fapy_take(fa_cat(ts->at, ts->n, 0), mark);
}

/* Calls make with room for parts, twice if the first room is too small to count. */
static PyObject *parts_of(int n, uint32_t mark, int (*make)(void *context, fa_tensor **parts, int room), void *context)
{
    if (n < 0) return fapy_take(NULL, mark);
    fa_tensor **parts = PyMem_Malloc(((size_t)n + 1) * sizeof *parts);
    if (!parts) return PyErr_NoMemory();
    PyObject *tuple = make(context, parts, n) < 0 ? fapy_take(NULL, mark) : fapy_take_tuple(parts, n, mark);
    PyMem_Free(parts);
    return tuple;
}

typedef struct cut { fa_tensor *x; int64_t size, dim; const int64_t *sizes; int nsizes; } cut;
static int cut_chunk(void *c, fa_tensor **parts, int room) { const cut *k = c; return fa_chunk(k->x, k->size, (int)k->dim, parts, room); }
static int cut_split(void *c, fa_tensor **parts, int room) { const cut *k = c; return fa_split(k->x, k->size, (int)k->dim, parts, room); }
static int cut_sizes(void *c, fa_tensor **parts, int room) { const cut *k = c; return fa_split_sizes(k->x, k->sizes, k->nsizes, (int)k->dim, parts, room); }
static int cut_unbind(void *c, fa_tensor **parts, int room) { const cut *k = c; return fa_unbind(k->x, (int)k->dim, parts, room); }

FAPY_DO(chunk)
{
    cut c = {v[0].as.t, v[1].as.i, v[2].given ? v[2].as.i : 0, NULL, 0};
    return parts_of(cut_chunk(&c, NULL, 0), FAPY_MARK, cut_chunk, &c);
}

FAPY_DO(unbind)
{
    cut c = {v[0].as.t, 0, v[1].given ? v[1].as.i : 0, NULL, 0};
    return parts_of(cut_unbind(&c, NULL, 0), FAPY_MARK, cut_unbind, &c);
}

static int64_t *read_sizes(PyObject *o, int *n)
{
    PyObject *items = PyTuple_Check(o) || PyList_Check(o) ? PySequence_Tuple(o) : NULL;
    if (!items && !PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "split(): argument 'split_size' must be int or a list of ints, not %s", Py_TYPE(o)->tp_name);
    if (!items) return NULL;
    *n = (int)PyTuple_GET_SIZE(items);
    int64_t *sizes = PyMem_Malloc(((size_t)*n + 1) * sizeof *sizes);
    bool fine = sizes != NULL;
    for (int i = 0; fine && i < *n; i++) fine = fapy_int_from(PyTuple_GET_ITEM(items, i), &sizes[i]);
    Py_DECREF(items);
    if (fine) return sizes;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "split(): argument 'split_size' must be int or a list of ints");
    PyMem_Free(sizes);
    return NULL;
}

FAPY_DO(split)
{
    cut c = {v[0].as.t, 0, v[2].given ? v[2].as.i : 0, NULL, 0};
    if (fapy_int_from(v[1].as.o, &c.size)) return parts_of(cut_split(&c, NULL, 0), FAPY_MARK, cut_split, &c);
    if (PyErr_Occurred()) return NULL;
    int64_t *sizes = read_sizes(v[1].as.o, &c.nsizes);
    if (!sizes) return NULL;
    c.sizes = sizes;
    PyObject *tuple = parts_of(c.nsizes, FAPY_MARK, cut_sizes, &c);
    PyMem_Free(sizes);
    return tuple;
}

/* By a number of parts (the first ones one larger) or by the places to cut at. */
FAPY_DO(tensor_split)
{
    cut c = {v[0].as.t, 0, v[2].given ? v[2].as.i : 0, NULL, 0};
    int dim, n;
    int64_t sections;
    const uint32_t mark = FAPY_MARK;
    if (c.x->ndim == 0) return PyErr_SetString(PyExc_RuntimeError, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"), NULL;
    if (!fai_wrap_dim("tensor_split", c.dim, c.x->ndim, &dim)) return fapy_take(NULL, mark);
    const int64_t size = c.x->size[dim];
    int64_t *sizes;
    if (fapy_int_from(v[1].as.o, &sections)) {
        if (sections <= 0) return PyErr_Format(PyExc_RuntimeError, "number of sections must be larger than 0, got %lld", (long long)sections);
        n = (int)sections;
        if (!(sizes = PyMem_Malloc((size_t)n * sizeof *sizes))) return PyErr_NoMemory();
        for (int i = 0; i < n; i++) sizes[i] = size / n + (i < size % n);
    } else {
        if (PyErr_Occurred() || !(sizes = read_sizes(v[1].as.o, &n))) return NULL;
        int64_t *more = PyMem_Realloc(sizes, ((size_t)n + 1) * sizeof *sizes), from = 0;
        if (!more) return PyMem_Free(sizes), PyErr_NoMemory();
        sizes = more;
        for (int i = 0; i <= n; i++) {
            int64_t at = i == n ? size : sizes[i] < 0 ? sizes[i] + size : sizes[i];
            at = at < from ? from : at > size ? size : at;
            sizes[i] = at - from, from = at;
        }
        n++;
    }
    c.sizes = sizes, c.nsizes = n;
    PyObject *tuple = parts_of(n, mark, cut_sizes, &c);
    PyMem_Free(sizes);
    return tuple;
}

FAPY_DO(repeat_interleave)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *x = v[0].as.t;
    const int64_t size = v[3].given ? v[3].as.i : -1;
    if (!v[1].given) /* repeat_interleave(repeats): the numbers 0, 1, ... each so often */
        return fapy_take(fai_repeat_interleave_sized(fa_arange_with(fa_scalar_of_int(0), fa_scalar_of_int(x->numel), fa_scalar_of_int(1), FA_TENSOR_OPTIONS(.device = x->device)), x, 0, size), mark);
    int64_t dim = v[2].given ? v[2].as.i : 0;
    if (!v[2].given) x = fa_flatten(x, 0, -1);
    if (!x) return fapy_take(NULL, mark);
    const fai_operand repeats = v[1].as.operand;
    return fapy_take(repeats.tensor ? fai_repeat_interleave_sized(x, repeats.tensor, dim, size) : fa_repeat_interleave(x, fa_scalar_int(repeats.scalar), dim), mark);
}

FAPY_DO(rot90)
{
    const uint32_t mark = FAPY_MARK;
    const fa_shape dims = v[2].given ? v[2].as.shape : FA_DIMS(0, 1);
    if (dims.ndim != 2) return PyErr_Format(PyExc_RuntimeError, "expected total rotation dims == 2, but got dims = %d", dims.ndim);
    return fapy_take(fa_rot90(v[0].as.t, v[1].given ? v[1].as.i : 1, dims.dim[0], dims.dim[1]), mark);
}

/* f(a, b, c) and f([a, b, c]): the tensors of both. */
static bool tensors_of(const char *name, PyObject *args, fapy_tensors *out)
{
    static const fapy_parameter parameters[] = {{"tensors", FAPY_TS, 0}};
    const fapy_signature signature = {name, 1, parameters};
    fapy_value one;
    PyObject *first = PyTuple_GET_SIZE(args) == 1 && !fapy_tensor_check(PyTuple_GET_ITEM(args, 0)) ? PyTuple_GET_ITEM(args, 0) : args;
    if (!fapy_parse(&signature, &first, 1, NULL, 0, &one)) return false;
    *out = one.as.ts;
    return true;
}
static void tensors_done(fapy_tensors *ts)
{
    PyMem_Free(ts->at);
    Py_CLEAR(ts->holder);
}

FAPY_DO(cartesian_prod)
{
    fapy_tensors ts;
    const uint32_t mark = FAPY_MARK;
    if (!tensors_of("cartesian_prod", v[0].as.o, &ts)) return NULL;
    PyObject *result = fapy_take(fa_cartesian_prod(ts.at, ts.n), mark);
    tensors_done(&ts);
    return result;
}

typedef int several_tensors(fa_tensor *const *tensors, int n, const char *how, fa_tensor **parts, int room);
static int broadcast_all(fa_tensor *const *tensors, int n, const char *how, fa_tensor **parts, int room) { return (void)how, fa_broadcast_tensors(tensors, n, parts, room); }

static PyObject *for_each(const char *name, PyObject *args, const char *how, several_tensors *make)
{
    fapy_tensors ts;
    const uint32_t mark = FAPY_MARK;
    if (!tensors_of(name, args, &ts)) return NULL;
    fa_tensor **parts = PyMem_Malloc(((size_t)ts.n + 1) * sizeof *parts);
    PyObject *result = !parts ? PyErr_NoMemory() : make(ts.at, ts.n, how, parts, ts.n) < 0 ? fapy_take(NULL, mark) : fapy_take_tuple(parts, ts.n, mark);
    PyMem_Free(parts);
    tensors_done(&ts);
    return result;
}
FAPY_DO(meshgrid) { return for_each("meshgrid", v[0].as.o, v[1].given ? v[1].as.text : "ij", fa_meshgrid); }
FAPY_DO(broadcast_tensors) { return for_each("broadcast_tensors", v[0].as.o, NULL, broadcast_all); }

/* dims: how many last dimensions of a meet the first of b, or the two lists. */
FAPY_DO(tensordot)
{
    const uint32_t mark = FAPY_MARK;
    fa_shape a = {0}, b = {0};
    int64_t n = 2;
    PyObject *o = v[2].given ? v[2].as.o : NULL;
    if (o && (PyTuple_Check(o) || PyList_Check(o)) && PySequence_Size(o) == 2) {
        PyObject *items = PySequence_Tuple(o);
        const bool fine = items && PyTuple_GET_SIZE(items) == 2 && fapy_shape_from(PyTuple_GET_ITEM(items, 0), &a) && fapy_shape_from(PyTuple_GET_ITEM(items, 1), &b);
        Py_XDECREF(items);
        if (!fine) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "tensordot(): argument 'dims' must be int or two lists of ints");
        return fapy_take(fa_tensordot(v[0].as.t, v[1].as.t, a, b), mark);
    }
    if (o && !fapy_int_from(o, &n)) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "tensordot(): argument 'dims' must be int or two lists of ints, not %s", Py_TYPE(o)->tp_name);
    if (n < 0 || n > v[0].as.t->ndim || n > v[1].as.t->ndim) return PyErr_Format(PyExc_RuntimeError, "tensordot expects dims >= 0, and at most as many as each tensor has, but got dims=%lld", (long long)n);
    for (int i = 0; i < n; i++) a.dim[a.ndim++] = v[0].as.t->ndim - n + i, b.dim[b.ndim++] = i;
    return fapy_take(fa_tensordot(v[0].as.t, v[1].as.t, a, b), mark);
}

FAPY_DO(einsum)
{
    fapy_tensors ts;
    const uint32_t mark = FAPY_MARK;
    if (!tensors_of("einsum", v[1].as.o, &ts)) return NULL;
    PyObject *result = fapy_take(fa_einsum(v[0].as.text, ts.at, ts.n), mark);
    tensors_done(&ts);
    return result;
}

fa_tensor *in_format(fa_tensor *t, PyObject *format)
{
    if (!t || !format) return t;
    const fapy_format f = fapy_format_of(format);
    if (!f) return fai_fail(FA_ERR_TYPE, "memory_format", "argument 'memory_format' must be torch.memory_format, not %.100s", Py_TYPE(format)->tp_name);
    const int rank = f == FAPY_CHANNELS_LAST ? 4 : 5;
    if (f == FAPY_PRESERVE) return t;
    if (f == FAPY_CONTIGUOUS) return fa_contiguous(t);
    if (t->ndim != rank)
        return fai_fail(FA_ERR_RUNTIME, "memory_format", "required rank %d tensor to use channels_last%s format; this one has %d dimensions", rank, rank == 5 ? "_3d" : "", t->ndim);
    return fa_channels_last(t);
}

fa_tensor *made_in_format(fa_tensor *t, PyObject *format)
{
    if (!t || !format) return t;
    FA_NO_GRAD;
    fa_tensor *r = in_format(t, format);
    if (r && r != t) fai_set_memory(t, r);
    return r ? t : NULL;
}

/* The first elements of the old memory stay where they are; more of it is made where it is needed. */
fa_tensor *resized(fa_tensor *t, fa_shape size)
{
    if (FAI_HAS(t, FAI_REQUIRES_GRAD) || t->node) return fai_fail(FA_ERR_RUNTIME, "resize_", "cannot resize variables that require grad");
    FA_NO_GRAD;
    fa_tensor *flat = fa_empty_with(size, FA_TENSOR_OPTIONS(.dtype = (fa_dtype)t->dtype, .device = t->device));
    if (!flat) return NULL;
    const size_t item = fa_dtype_size((fa_dtype)t->dtype), there = t->buffer->bytes - (size_t)t->offset * item, wanted = (size_t)flat->numel * item;
    if (wanted <= there) {
        fa_tensor *view = fai_view("resize_", t, size.ndim, size.dim, flat->stride, t->offset);
        return view ? fai_set_memory(t, view), t : NULL;
    }
    if (there && !fai_copy_within(flat->buffer, 0, t->buffer, (size_t)t->offset * item, there, "resize_")) return NULL;
    fai_set_memory(t, flat);
    return t;
}

/* ---- indexing ---- */

FAPY_DO(nonzero)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *r = fa_nonzero(v[0].as.t);
    if (!v[1].given || !v[1].as.b) return fapy_take(r, mark);
    if (!r) return fapy_take(NULL, mark);
    if (v[0].as.t->ndim == 0) r = fa_zeros_with(FA_SHAPE(r->size[0], 1), FA_TENSOR_OPTIONS(.dtype = FA_INT64, .device = r->device));
    cut c = {r, 0, 1, NULL, 0};
    PyObject *tuple = r ? parts_of((int)r->size[1], FAPY_MARK, cut_unbind, &c) : fapy_take(NULL, mark);
    fapy_sweep(mark);
    return tuple;
}

static PyObject *scattered(fapy_value *v, bool in_place)
{
    const uint32_t mark = FAPY_MARK;
    if (v[5].given) return PyErr_SetString(PyExc_NotImplementedError, "scatter(): reduce is not taken here; use scatter_reduce or scatter_add"), NULL;
    const fai_operand src = v[3].given ? v[3].as.operand : (fai_operand){.scalar = v[4].as.num};
    if (!v[3].given && !v[4].given) return PyErr_SetString(PyExc_TypeError, "scatter() needs 'src' or 'value'"), NULL;
    fa_tensor *x = v[0].as.t, *index = v[2].as.t;
    const int64_t dim = v[1].as.i;
    if (src.tensor) return fapy_take(in_place ? fa_scatter_(x, dim, index, src.tensor) : fa_scatter(x, dim, index, src.tensor), mark);
    return fapy_take(in_place ? fa_scatter_value_(x, dim, index, src.scalar) : fa_scatter_value(x, dim, index, src.scalar), mark);
}
FAPY_DO(scatter) { return scattered(v, false); }
FAPY_DO(scatter_in_place) { return scattered(v, true); }

/* ---- torch.nn.functional ---- */

FAPY_DO(dropout)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *r = fa_dropout(v[0].as.t, v[1].given ? v[1].as.f : 0.5, v[2].given ? v[2].as.b : true);
    if (r && v[3].given && v[3].as.b) r = fa_copy_(v[0].as.t, r);
    return fapy_take(r, mark);
}

FAPY_DO(embedding)
{
    enum { INPUT, WEIGHT, PADDING, MAX_NORM, NORM_TYPE, SCALE, SPARSE };
    const uint32_t mark = FAPY_MARK;
    if (v[MAX_NORM].given || (v[SCALE].given && v[SCALE].as.b) || (v[SPARSE].given && v[SPARSE].as.b))
        return PyErr_SetString(PyExc_NotImplementedError, "embedding(): max_norm, scale_grad_by_freq and sparse are not in Facula"), NULL;
    int64_t padding = v[PADDING].given ? v[PADDING].as.i : -1;
    const int64_t rows = v[WEIGHT].as.t->ndim ? v[WEIGHT].as.t->size[0] : 0;
    if (v[PADDING].given && padding < 0) padding += rows;
    if (v[PADDING].given && (padding < 0 || padding >= rows)) return PyErr_SetString(PyExc_AssertionError, "Padding_idx must be within num_embeddings"), NULL;
    return fapy_take(fa_embedding(v[WEIGHT].as.t, v[INPUT].as.t, padding), mark);
}

/* padding as numbers, "valid", or "same": then conv_same pads, also unevenly. */
static PyObject *convolve(fapy_value *v, int n, const char *name)
{
    enum { INPUT, WEIGHT, BIAS, STRIDE, PADDING, DILATION, GROUPS };
    const uint32_t mark = FAPY_MARK;
    fa_tensor *x = v[INPUT].as.t, *weight = v[WEIGHT].as.t, *bias = v[BIAS].given ? v[BIAS].as.t : NULL;
    const fa_shape stride = several(v[STRIDE].given ? v[STRIDE].as.shape : FA_DIMS(1), n), dilation = several(v[DILATION].given ? v[DILATION].as.shape : FA_DIMS(1), n);
    const int64_t groups = v[GROUPS].given ? v[GROUPS].as.i : 1;
    fa_shape padding = FA_DIMS(0);
    if (v[PADDING].given && PyUnicode_Check(v[PADDING].as.o)) {
        const char *text = PyUnicode_AsUTF8(v[PADDING].as.o);
        if (!text) return NULL;
        if (strcmp(text, "same") == 0) {
            for (int i = 0; i < n; i++)
                if (stride.dim[i] != 1) return PyErr_SetString(PyExc_RuntimeError, "padding='same' is not supported for strided convolutions"), NULL;
            return fapy_take(fa_conv_same(x, weight, .bias = bias, .dilation = dilation, .groups = groups), mark);
        }
        if (strcmp(text, "valid")) return PyErr_Format(PyExc_RuntimeError, "Invalid padding string: '%s'", text);
    } else if (v[PADDING].given && !fapy_shape_from(v[PADDING].as.o, &padding)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "%s(): argument 'padding' must be tuple of ints or str, not %s", name, Py_TYPE(v[PADDING].as.o)->tp_name);
    }
    padding = several(padding, n);
    fa_tensor *r = n == 1 ? fa_conv1d(x, weight, .bias = bias, .stride = stride, .padding = padding, .dilation = dilation, .groups = groups)
                 : n == 2 ? fa_conv2d(x, weight, .bias = bias, .stride = stride, .padding = padding, .dilation = dilation, .groups = groups)
                          : fa_conv3d(x, weight, .bias = bias, .stride = stride, .padding = padding, .dilation = dilation, .groups = groups);
    return fapy_take(r, mark);
}
FAPY_DO(conv1d) { return convolve(v, 1, "conv1d"); }
FAPY_DO(conv2d) { return convolve(v, 2, "conv2d"); }
FAPY_DO(conv3d) { return convolve(v, 3, "conv3d"); }

/* A size of None keeps the input's. */
FAPY_DO(adaptive_avg_pool2d)
{
    const uint32_t mark = FAPY_MARK;
    const fa_tensor *x = v[0].as.t;
    PyObject *o = v[1].as.o;
    fa_shape size = {2, {0}};
    if (fapy_shape_from(o, &size)) return fapy_take(fa_adaptive_avg_pool2d(v[0].as.t, pair(size)), mark);
    if (PyErr_Occurred()) return NULL;
    for (int i = 0; i < 2; i++) {
        PyObject *one = PyTuple_Check(o) && PyTuple_GET_SIZE(o) == 2 ? PyTuple_GET_ITEM(o, i) : NULL;
        size.ndim = 2;
        if (one && Py_IsNone(one)) size.dim[i] = x->ndim > 2 - i ? x->size[x->ndim - 2 + i] : 0;
        else if (!one || !fapy_int_from(one, &size.dim[i]))
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "adaptive_avg_pool2d(): argument 'output_size' must be int or a tuple of two ints or None, not %s", Py_TYPE(o)->tp_name);
    }
    return fapy_take(fa_adaptive_avg_pool2d(v[0].as.t, size), mark);
}

FAPY_DO(interpolate)
{
    enum { INPUT, SIZE, SCALE, MODE, CORNERS, RECOMPUTE, ANTIALIAS };
    const uint32_t mark = FAPY_MARK;
    if (v[ANTIALIAS].given && v[ANTIALIAS].as.b) return PyErr_SetString(PyExc_NotImplementedError, "interpolate(): antialias is not in Facula"), NULL;
    if (v[SIZE].given == v[SCALE].given)
        return PyErr_SetString(PyExc_ValueError, v[SIZE].given ? "only one of size or scale_factor should be defined" : "either size or scale_factor should be defined"), NULL;
    const int n = v[INPUT].as.t->ndim - 2;
    fa_factors factors = {0};
    if (v[SCALE].given) {
        PyObject *o = v[SCALE].as.o, *items = PyTuple_Check(o) || PyList_Check(o) ? PySequence_Tuple(o) : PyTuple_Pack(1, o);
        if (!items) return NULL;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items) && i < 3; i++)
            factors.factor[factors.n++] = PyFloat_AsDouble(PyTuple_GET_ITEM(items, i));
        Py_DECREF(items);
        if (PyErr_Occurred()) return NULL;
        for (; factors.n < n && factors.n < 3; factors.n++) factors.factor[factors.n] = factors.factor[0];
    }
    return fapy_take(fa_interpolate(v[INPUT].as.t, .size = v[SIZE].given ? several(v[SIZE].as.shape, n) : (fa_shape){0}, .scale_factor = factors,
                                    .mode = v[MODE].given ? v[MODE].as.text : "nearest", .align_corners = v[CORNERS].given && v[CORNERS].as.b), mark);
}

FAPY_DO(max_pool2d)
{
    const uint32_t mark = FAPY_MARK;
    const fa_shape kernel = pair(v[1].as.shape);
    fa_tensor *indices = NULL;
    const bool wanted = v[6].given && v[6].as.b;
    fa_tensor *r = fa_max_pool2d(v[0].as.t, kernel, .stride = v[2].given ? pair(v[2].as.shape) : kernel, .padding = pair(v[3].given ? v[3].as.shape : FA_DIMS(0)),
                                 .dilation = pair(v[4].given ? v[4].as.shape : FA_DIMS(1)), .ceil_mode = v[5].given && v[5].as.b, .indices = wanted ? &indices : NULL);
    if (!wanted || !r) return fapy_take(r, mark);
    return fapy_take_tuple((fa_tensor *const[]){r, indices}, 2, mark);
}

/* ---- making tensors ---- */

enum { GENERATOR_OUT = 2 }; /* generator and out stand before the options in $random */

static fa_tensor_options options_of(const fapy_value *v) /* dtype, layout, device, pin_memory, requires_grad */
{
    return (fa_tensor_options){.struct_size = sizeof(fa_tensor_options), .dtype = v[0].given ? v[0].as.dtype : FA_DTYPE_DEFAULT,
                               .device = v[2].given ? v[2].as.device : (fa_device){0, 0}, .requires_grad = v[4].given && v[4].as.b,
                               .pin_memory = v[3].given && v[3].as.b};
}

FAPY_DO(arange)
{
    const uint32_t mark = FAPY_MARK;
    const fa_tensor_options options = options_of(v + 4);
    const fa_scalar zero = fa_scalar_of_int(0), step = v[2].given ? v[2].as.num : fa_scalar_of_int(1);
    return fapy_take(fa_arange_with(v[1].given ? v[0].as.num : zero, v[1].given ? v[1].as.num : v[0].as.num, step, &options), mark);
}

FAPY_DO(new_tensor)
{
    const uint32_t mark = FAPY_MARK;
    const fa_tensor_options o = options_of(v + 3);
    const fa_tensor *like = v[0].as.t;
    fa_tensor *t = fapy_tensor_of("new_tensor", v[1].as.o, o.dtype ? o.dtype : (fa_dtype)like->dtype, o.device.type ? o.device : like->device);
    if (t && o.pin_memory) t = fa_pin_memory(t);
    if (t && o.requires_grad) t = fa_requires_grad(t, true);
    return fapy_take(t, mark);
}

/* row, col, offset, dtype, device, layout, pin_memory */
static PyObject *triangle(const fapy_value *v, fa_tensor *(*indices)(int64_t, int64_t, int64_t, fa_device))
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor *t = indices(v[0].as.i, v[1].as.i, v[2].given ? v[2].as.i : 0, v[4].given ? v[4].as.device : (fa_device){0, 0});
    if (t && v[3].given) t = fa_cast(t, v[3].as.dtype);
    if (t && v[6].given && v[6].as.b) t = fa_pin_memory(t);
    return fapy_take(t, mark);
}
FAPY_DO(tril_indices) { return triangle(v, fa_tril_indices); }
FAPY_DO(triu_indices) { return triangle(v, fa_triu_indices); }

/* randint(high, size), randint(low, high, size) */
FAPY_DO(randint)
{
    const uint32_t mark = FAPY_MARK;
    fa_tensor_options options = options_of(v + 3 + GENERATOR_OUT);
    options.generator = generator_of(&v[3]);
    PyObject *size = v[2].given ? v[2].as.o : v[1].given ? v[1].as.o : NULL;
    int64_t low = v[2].given && v[1].given ? v[0].as.i : 0, high = v[0].as.i;
    fa_shape shape;
    if (!size) return PyErr_SetString(PyExc_TypeError, "randint() missing 1 required positional arguments: \"size\""), NULL;
    if (v[2].given && v[1].given && !fapy_int_from(v[1].as.o, &high)) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "randint(): argument 'high' (position 2) must be int, not %s", Py_TYPE(v[1].as.o)->tp_name);
    if (PyLong_Check(size) || !fapy_shape_from(size, &shape))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "randint(): argument 'size' must be tuple of ints, not %s", Py_TYPE(size)->tp_name);
    return fapy_take(fa_randint_with(low, high, shape, &options), mark);
}

/* normal(mean, std), either a tensor or a number; normal(mean, std, size) */
FAPY_DO(normal)
{
    enum { MEAN, STD, SIZE, GENERATOR, OPTIONS };
    const uint32_t mark = FAPY_MARK;
    const fai_operand mean = v[MEAN].given ? v[MEAN].as.operand : fai_number(0), std = v[STD].given ? v[STD].as.operand : fai_number(1);
    fa_generator *generator = generator_of(&v[GENERATOR]);
    if (fa_failed()) return fapy_raise();
    if (mean.tensor && std.tensor) return fapy_take(fa_normal(mean.tensor, std.tensor, generator), mark);
    if (mean.tensor) return fapy_take(fa_normal_mean(mean.tensor, fa_scalar_float(std.scalar), generator), mark);
    if (std.tensor) return fapy_take(fa_normal_std(fa_scalar_float(mean.scalar), std.tensor, generator), mark);
    if (!v[SIZE].given) return PyErr_SetString(PyExc_TypeError, "normal() missing 1 required positional arguments: \"size\": with numbers for mean and std it says how many"), NULL;
    fa_tensor_options options = options_of(v + OPTIONS);
    options.requires_grad = false;
    if (!options.device.type) options.device = FA_CPU; /* PyTorch's does not follow the default device here */
    fa_tensor *t = fa_empty_with(v[SIZE].as.shape, &options);
    t = t && fai_fill_normal("normal", t, fa_scalar_float(mean.scalar), fa_scalar_float(std.scalar), generator) ? t : NULL;
    if (t && v[OPTIONS + 4].given && v[OPTIONS + 4].as.b) t = fa_requires_grad(t, true);
    return fapy_take(t, mark);
}

/* ---- conversions ---- */

typedef struct target { fa_dtype dtype; fa_device device; bool copy, non_blocking; PyObject *format; } target;

static bool note_target(PyObject *o, target *t)
{
    if (Py_IsNone(o)) return true;
    if (fapy_tensor_check(o)) return t->dtype = (fa_dtype)((fa_tensor *)o)->dtype, t->device = ((fa_tensor *)o)->device, true;
    if (Py_TYPE(o) == &fapy_Dtype || PyType_Check(o)) return fapy_dtype_from(o, "to", "dtype", 1, &t->dtype);
    return fapy_device_from(o, "to", "device", 1, &t->device);
}

static PyObject *moved(fa_tensor *x, const target *t, uint32_t mark)
{
    fa_tensor *r = x;
    if (t->dtype) r = fa_cast(r, t->dtype);
    if (r && t->device.type) r = t->non_blocking ? fa_to_async(r, t->device) : fa_to(r, t->device);
    if (r == x && t->copy) r = fa_clone(x);
    return fapy_take(in_format(r, t->format), mark);
}

static PyObject *refuse_to(PyObject *args)
{
    PyObject *types = PyList_New(0);
    for (Py_ssize_t i = 0; types && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *o = PyTuple_GET_ITEM(args, i), *name = PyUnicode_FromString(fapy_tensor_check(o) ? "Tensor" : Py_TYPE(o)->tp_name);
        if (!name || PyList_Append(types, name)) Py_CLEAR(types);
        Py_XDECREF(name);
    }
    PyObject *comma = types ? PyUnicode_FromString(", ") : NULL, *text = comma ? PyUnicode_Join(comma, types) : NULL;
    Py_XDECREF(types), Py_XDECREF(comma);
    if (!text) return NULL;
    PyErr_Format(PyExc_TypeError, "to() received an invalid combination of arguments - got (%U), but expected one of:\n"
                 " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
                 " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
                 " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n", text);
    Py_DECREF(text);
    return NULL;
}

/* to(device), to(dtype), to(device, dtype), to(other); non_blocking and copy follow. */
FAPY_DO(to)
{
    const uint32_t mark = FAPY_MARK;
    target t = {.copy = v[5].given && v[5].as.b, .non_blocking = v[4].given && v[4].as.b};
    if (v[2].given && !note_target(v[2].as.o, &t)) return NULL;
    if (v[3].given && !note_target(v[3].as.o, &t)) return NULL;
    PyObject *all = v[1].given ? v[1].as.o : NULL;
    bool device_first = true;
    for (Py_ssize_t i = 0, bools = 0; all && i < PyTuple_GET_SIZE(all); i++) {
        PyObject *o = PyTuple_GET_ITEM(all, i);
        const bool dtype = Py_TYPE(o) == &fapy_Dtype || PyType_Check(o), device = Py_TYPE(o) == &fapy_Device || PyUnicode_Check(o) || PyLong_Check(o);
        if (i && PyBool_Check(o)) *(++bools == 2 ? &t.copy : &t.non_blocking) = o == Py_True; /* non_blocking, then copy */
        else if (i > 1 || bools || (i == 1 && (!device_first || !(dtype || Py_IsNone(o))))) return refuse_to(all);
        else if (PyBool_Check(o) || !(dtype || device || fapy_tensor_check(o) || PyFloat_Check(o) || Py_IsNone(o))) return refuse_to(all);
        else if (PyFloat_Check(o)) t.dtype = FA_FLOAT64; /* a number stands for a tensor of it */
        else if (!note_target(o, &t)) return NULL;
        if (i == 0) device_first = device || Py_IsNone(o);
    }
    t.format = v[6].given ? v[6].as.o : NULL;
    return moved(v[0].as.t, &t, mark);
}

/* x.cuda(), x.xpu(), x.npu(): a number is a device of that type. */
static PyObject *moved_to_type(fapy_value *v, int type, const char *name)
{
    const uint32_t mark = FAPY_MARK;
    target t = {.device = fa_device_of_type(type, -1), .non_blocking = v[2].given && v[2].as.b, .format = v[3].given ? v[3].as.o : NULL};
    if (v[1].given && PyLong_Check(v[1].as.o)) {
        if (!fapy_device_from(v[1].as.o, name, "device", 1, &t.device)) return NULL;
        t.device.type = type;
    } else if (v[1].given && !note_target(v[1].as.o, &t)) return NULL;
    if (t.device.type != type) return PyErr_Format(PyExc_RuntimeError, "Invalid device, must be %s device", name);
    return moved(v[0].as.t, &t, mark);
}
FAPY_DO(cuda) { return moved_to_type(v, FA_DEVICE_CUDA, "cuda"); }
FAPY_DO(xpu) { return moved_to_type(v, FA_DEVICE_XPU, "xpu"); }
FAPY_DO(npu) { return moved_to_type(v, FA_DEVICE_NPU, "npu"); }

static const char *const type_names[FA_DTYPE_COUNT] = {[FA_BOOL] = "Bool", [FA_UINT8] = "Byte", [FA_INT8] = "Char", [FA_INT16] = "Short", [FA_INT32] = "Int",
    [FA_INT64] = "Long", [FA_FLOAT16] = "Half", [FA_BFLOAT16] = "BFloat16", [FA_FLOAT32] = "Float", [FA_FLOAT64] = "Double"};

/* "torch.FloatTensor", "torch.cuda.LongTensor" and the classes of those names, which say the device too */
static bool type_from(PyObject *o, target *t)
{
    if (Py_TYPE(o) == &fapy_Dtype || o == (PyObject *)&PyFloat_Type || o == (PyObject *)&PyLong_Type) return fapy_dtype_from(o, "type", "dtype", 1, &t->dtype);
    if (!PyUnicode_Check(o) && !PyType_Check(o)) return PyErr_SetString(PyExc_TypeError, "dtype must be a type, str, or dtype object"), false;
    PyObject *kind = PyUnicode_Check(o) ? NULL : PyObject_GetAttrString(o, "_device"), *last = PyUnicode_Check(o) ? NULL : PyObject_GetAttrString(o, "__name__");
    PyErr_Clear();
    PyObject *name = kind && last ? PyUnicode_FromFormat("torch.%S.%S", kind, last) : Py_NewRef(last ? last : o);
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL, *dot = text ? strrchr(text, '.') : NULL;
    char wanted[32], device[32] = "cpu";
    for (int d = FA_BOOL; dot && d < FA_DTYPE_COUNT; d++) {
        snprintf(wanted, sizeof wanted, "%sTensor", type_names[d]);
        if (strcmp(dot + 1, wanted) == 0 && strncmp(text, "torch.", 6) == 0) t->dtype = (fa_dtype)d;
    }
    if (t->dtype && dot - text > 6) snprintf(device, sizeof device, "%.*s", (int)(dot - text - 6), text + 6);
    if (t->dtype && !(t->device = fa_device_parse(device)).type) fa_error_take(), t->dtype = 0;
    if (!t->dtype && text) PyErr_Format(PyExc_ValueError, "invalid type: '%s'. Such a type is written 'torch.FloatTensor' or 'torch.cuda.FloatTensor'; or give a dtype", text);
    Py_XDECREF(kind), Py_XDECREF(last), Py_XDECREF(name);
    return t->dtype != 0;
}

FAPY_DO(type)
{
    const uint32_t mark = FAPY_MARK;
    const fa_tensor *x = v[0].as.t;
    target t = {0};
    if (v[1].given) return type_from(v[1].as.o, &t) ? moved(v[0].as.t, &t, mark) : NULL;
    char device[32] = "";
    if (!fai_on_cpu(x)) snprintf(device, sizeof device, "%s.", fa_device_text(fa_device_of_type(x->device.type, -1)));
    return PyUnicode_FromFormat("torch.%s%sTensor", device, type_names[x->dtype]);
}
