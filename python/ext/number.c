/* Operators: a + b, a @ b, -a, a += b, comparisons, conversions to Python's numbers. The hot path of small tensors. */
#include "face.h"

/* False without an exception where o is no operand: Python then asks the other side. */
static inline bool operand(PyObject *o, fai_operand *out)
{
    if (FAI_LIKELY(fapy_tensor_check(o))) return out->tensor = (fa_tensor *)o, true;
    out->tensor = NULL;
    if (fapy_scalar_from(o, &out->scalar)) return true;
    if (PyErr_Occurred() || PyUnicode_Check(o) || !PyObject_CheckBuffer(o)) return false;
    return (out->tensor = fapy_from_buffer(o)) != NULL; /* an array: borrowed from the scope */
}

static PyObject *binary(int row, PyObject *a, PyObject *b)
{
    fai_operand operands[2];
    const uint32_t mark = FAPY_MARK;
    if (!operand(a, &operands[0]) || !operand(b, &operands[1])) {
        if (PyErr_Occurred()) return NULL;
        if (fa_failed()) return fapy_raise();
        Py_RETURN_NOTIMPLEMENTED;
    }
    return fapy_take(fai_row(row, 2, operands, NULL), mark);
}

static PyObject *in_place(int row, PyObject *a, PyObject *b)
{
    fai_operand operands[2] = {{.tensor = (fa_tensor *)a}};
    const uint32_t mark = FAPY_MARK;
    if (!operand(b, &operands[1])) {
        if (PyErr_Occurred()) return NULL;
        if (fa_failed()) return fapy_raise();
        Py_RETURN_NOTIMPLEMENTED;
    }
    return fapy_take(fai_row_in_place(row, 2, operands, NULL), mark);
}

static PyObject *unary(int row, PyObject *a)
{
    const uint32_t mark = FAPY_MARK;
    return fapy_take(fai_row1(row, fai_of((fa_tensor *)a)), mark);
}

#define BINARY(name, row) static PyObject *number_##name(PyObject *a, PyObject *b) { return binary(FAI_ROW_##row, a, b); }
#define IN_PLACE(name, row) static PyObject *number_in_place_##name(PyObject *a, PyObject *b) { return in_place(FAI_ROW_##row, a, b); }
#define BOTH(name, row) BINARY(name, row) IN_PLACE(name, row)
BOTH(add, add)
BOTH(subtract, sub)
BOTH(multiply, mul)
IN_PLACE(true_divide, div)
/* torch's number / tensor is reciprocal * number; that shows where autocast casts the one and not the other. */
static PyObject *number_true_divide(PyObject *a, PyObject *b)
{
    if (FAI_LIKELY(!fai_tls.autocast) || fapy_tensor_check(a) || !fapy_tensor_check(b)) return binary(FAI_ROW_div, a, b);
    PyObject *inverse = unary(FAI_ROW_reciprocal, b), *r = inverse ? binary(FAI_ROW_mul, inverse, a) : NULL;
    Py_XDECREF(inverse);
    return r;
}
BOTH(floor_divide, floor_divide)
BOTH(remainder, remainder)
BOTH(and, bitwise_and)
BOTH(or, bitwise_or)
BOTH(xor, bitwise_xor)
BOTH(lshift, bitwise_left_shift)
BOTH(rshift, bitwise_right_shift)

static bool no_modulus(PyObject *modulus)
{
    if (Py_IsNone(modulus)) return true;
    PyErr_SetString(PyExc_TypeError, "pow() of tensors takes no modulus");
    return false;
}
static PyObject *number_power(PyObject *a, PyObject *b, PyObject *modulus) { return no_modulus(modulus) ? binary(FAI_ROW_pow, a, b) : NULL; }
static PyObject *number_in_place_power(PyObject *a, PyObject *b, PyObject *modulus) { return no_modulus(modulus) ? in_place(FAI_ROW_pow, a, b) : NULL; }

static PyObject *number_matrix_multiply(PyObject *a, PyObject *b)
{
    if (!fapy_tensor_check(a) || !fapy_tensor_check(b)) Py_RETURN_NOTIMPLEMENTED;
    const uint32_t mark = FAPY_MARK;
    return fapy_take(fa_matmul((fa_tensor *)a, (fa_tensor *)b), mark);
}

static PyObject *number_negative(PyObject *a) { return unary(FAI_ROW_neg, a); }
static PyObject *number_positive(PyObject *a) { return Py_NewRef(a); }
static PyObject *number_absolute(PyObject *a) { return unary(FAI_ROW_abs, a); }
static PyObject *number_invert(PyObject *a)
{
    if (!fai_is_float(((fa_tensor *)a)->dtype)) return unary(FAI_ROW_bitwise_not, a);
    return PyErr_SetString(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors"), NULL;
}

static int number_bool(PyObject *a)
{
    fa_tensor *t = (fa_tensor *)a;
    if (t->numel != 1) {
        PyErr_Format(PyExc_RuntimeError, "Boolean value of Tensor with %s is ambiguous", t->numel ? "more than one value" : "no values");
        return -1;
    }
    const bool value = fai_is_float(t->dtype) ? fa_item(t) != 0 : fa_item_int(t) != 0;
    return fa_failed() ? (fapy_raise(), -1) : value;
}

static PyObject *only(PyObject *a)
{
    if (((fa_tensor *)a)->numel == 1) return fapy_item((fa_tensor *)a);
    return PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars"), NULL;
}
static PyObject *number_float(PyObject *a)
{
    if (FAI_UNLIKELY(fai_wants_grad((fa_tensor *)a) && ((fa_tensor *)a)->numel == 1) &&
        PyErr_WarnEx(PyExc_UserWarning, "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
                     "Consider using tensor.detach() first.", 1)) return NULL;
    PyObject *item = only(a), *value = item ? PyNumber_Float(item) : NULL;
    Py_XDECREF(item);
    return value;
}
static PyObject *number_int(PyObject *a)
{
    PyObject *item = only(a), *value = item ? PyNumber_Long(item) : NULL;
    Py_XDECREF(item);
    return value;
}
static PyObject *number_index(PyObject *a)
{
    if (((fa_tensor *)a)->numel == 1 && !fai_is_float(((fa_tensor *)a)->dtype)) return number_int(a);
    return PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index"), NULL;
}

PyNumberMethods fapy_number = {
    .nb_add = number_add, .nb_subtract = number_subtract, .nb_multiply = number_multiply, .nb_true_divide = number_true_divide,
    .nb_floor_divide = number_floor_divide, .nb_remainder = number_remainder, .nb_power = number_power, .nb_matrix_multiply = number_matrix_multiply,
    .nb_and = number_and, .nb_or = number_or, .nb_xor = number_xor, .nb_lshift = number_lshift, .nb_rshift = number_rshift,
    .nb_inplace_add = number_in_place_add, .nb_inplace_subtract = number_in_place_subtract, .nb_inplace_multiply = number_in_place_multiply,
    .nb_inplace_true_divide = number_in_place_true_divide, .nb_inplace_floor_divide = number_in_place_floor_divide,
    .nb_inplace_remainder = number_in_place_remainder, .nb_inplace_power = number_in_place_power, .nb_inplace_and = number_in_place_and,
    .nb_inplace_or = number_in_place_or, .nb_inplace_xor = number_in_place_xor, .nb_inplace_lshift = number_in_place_lshift,
    .nb_inplace_rshift = number_in_place_rshift, .nb_negative = number_negative, .nb_positive = number_positive,
    .nb_absolute = number_absolute, .nb_invert = number_invert, .nb_bool = number_bool, .nb_float = number_float, .nb_int = number_int,
    .nb_index = number_index};

PyObject *fapy_richcompare(PyObject *a, PyObject *b, int op)
{
    static const int rows[] = {[Py_LT] = FAI_ROW_lt, [Py_LE] = FAI_ROW_le, [Py_EQ] = FAI_ROW_eq, [Py_NE] = FAI_ROW_ne, [Py_GT] = FAI_ROW_gt, [Py_GE] = FAI_ROW_ge};
    return binary(rows[op], a, b);
}
