/* Elementwise rows without derivatives: broadcast, promote, plan, run. Also the copies and fills that everything uses. */
#include "ops.h"
#include "../backends/cpu/cpu.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS_AT = 5, TINY = 4096, FEW = 256, DEVICE_GROUP = 1024 };

/* The iteration space after broadcasting: out is operand 0. Dimensions of size 1 are gone, neighbours that every operand walks
 * without a gap are one. */
typedef struct space {
    int ndim, n;
    int64_t size[FA_MAX_DIMS];
    int64_t stride[5][FA_MAX_DIMS];
} space;

static void add_operand(space *s, const fa_tensor *t, int ndim, const int64_t *size)
{
    int64_t *stride = s->stride[s->n++];
    for (int i = 0; i < ndim; i++) {
        int j = i - (ndim - (t ? t->ndim : 0));
        stride[i] = !t || j < 0 || (t->size[j] == 1 && size[i] != 1) ? 0 : t->stride[j];
    }
}

static void swap_dims(space *s, int a, int b)
{
    int64_t size = s->size[a];
    s->size[a] = s->size[b], s->size[b] = size;
    for (int k = 0; k < s->n; k++) {
        int64_t stride = s->stride[k][a];
        s->stride[k][a] = s->stride[k][b], s->stride[k][b] = stride;
    }
}

/* Outputs in their memory's order, so that inner loops write without gaps. */
static void sort_dims(space *s)
{
    for (int i = 1; i < s->ndim; i++)
        for (int j = i; j > 0 && llabs(s->stride[0][j - 1]) < llabs(s->stride[0][j]); j--) swap_dims(s, j - 1, j);
}

static bool mergeable(const space *s, int outer, int inner)
{
    for (int k = 0; k < s->n; k++)
        if (s->stride[k][outer] != s->stride[k][inner] * s->size[inner]) return false;
    return true;
}

static void collapse(space *s)
{
    int kept = 0;
    for (int i = 0; i < s->ndim; i++) {
        if (s->size[i] == 1) continue;
        if (kept != i) {
            s->size[kept] = s->size[i];
            for (int k = 0; k < s->n; k++) s->stride[k][kept] = s->stride[k][i];
        }
        if (kept > 0 && mergeable(s, kept - 1, kept)) {
            s->size[kept - 1] *= s->size[kept];
            for (int k = 0; k < s->n; k++) s->stride[k][kept - 1] = s->stride[k][kept];
        } else {
            kept++;
        }
    }
    if (kept == 0) {
        kept = 1;
        s->size[0] = 1;
        for (int k = 0; k < s->n; k++) s->stride[k][0] = 1;
    }
    s->ndim = kept;
}

static void plan_operand(fa_plan *plan, int k, const space *s, const fa_tensor *t, fa_scalar scalar)
{
    fa_plan_view *v = &plan->view[k];
    v->ndim = s->ndim;
    v->writes = k == 0;
    for (int i = 0; i < s->ndim; i++) v->size[i] = s->size[i], v->stride[i] = s->stride[k][i];
    if (t) {
        int64_t low, high, bytes = (int64_t)fa_dtype_size((fa_dtype)t->dtype);
        fai_span(t, &low, &high);
        v->kind = FA_VIEW_TENSOR;
        v->dtype = t->dtype;
        v->low = low * bytes, v->high = high * bytes;
    } else {
        v->kind = FA_VIEW_SCALAR;
        v->dtype = scalar.kind == FA_SCALAR_FLOAT ? FA_FLOAT64 : FA_INT64;
        plan->f[k] = fa_scalar_float(scalar);
        const bool truth = plan->view[0].dtype == FA_BOOL && scalar.kind == FA_SCALAR_FLOAT; /* 0.5 is true */
        plan->n[k] = truth ? scalar.as.f != 0 : fa_scalar_int(scalar);
    }
}

static bool small_like(const fa_tensor *t, const fa_tensor *like)
{
    if (!t || t->dtype != FA_FLOAT32 || t->ndim != like->ndim || !FAI_HAS(t, FAI_CONTIGUOUS) || !fai_on_cpu(t)) return false;
    for (int i = 0; i < t->ndim; i++)
        if (t->size[i] != like->size[i]) return false;
    return true;
}

/* Small contiguous float32 tensors of one shape on the CPU, the daily bread of small networks: they need no plan. */
static bool all_small(int n, const fai_operand *operands)
{
    const fa_tensor *first = operands[0].tensor;
    if (!first || first->numel > TINY || first->numel == 0 || first->dtype != FA_FLOAT32 || !FAI_HAS(first, FAI_CONTIGUOUS) || !fai_on_cpu(first)) return false;
    for (int k = 1; k < n; k++)
        if (!small_like(operands[k].tensor, first)) return false;
    return true;
}

/* Fewer still, beside numbers and 0-d tensors, which are written out to the others' shape in room. Gives a tensor of that shape,
 * or NULL: not of this kind. */
static const fa_tensor *few_beside_numbers(int n, const fai_operand *operands, const void **pointer, float (*room)[FEW])
{
    const fa_tensor *like = NULL;
    for (int k = 0; k < n && !like; k++)
        if (operands[k].tensor && operands[k].tensor->ndim) like = operands[k].tensor;
    if (!like || like->numel > FEW || like->numel == 0) return NULL;
    for (int k = 0; k < n; k++) {
        const fa_tensor *t = operands[k].tensor;
        const fa_scalar number = operands[k].scalar;
        if (t && t->ndim) {
            if (!small_like(t, like)) return NULL;
            pointer[k] = fai_host(t);
            continue;
        }
        if (t ? t->dtype != FA_FLOAT32 || !fai_on_cpu(t) : number.kind != FA_SCALAR_FLOAT && number.kind != FA_SCALAR_INT) return NULL;
        const float value = t ? *(const float *)fai_host(t) : (float)fa_scalar_float(number);
        for (int64_t i = 0; i < like->numel; i++) room[k][i] = value;
        pointer[k] = room[k];
    }
    return like;
}

static void run_small(fai_cpu_row_f32 *run, fa_tensor *out, int n, const fai_operand *operands, const double *params)
{
    const void *pointer[4] = {NULL};
    for (int k = 0; k < n; k++) pointer[k] = fai_host(operands[k].tensor);
    run(out->numel, fai_host(out), pointer[0], pointer[1], pointer[2], pointer[3], params);
}

/* The loop for a result of float32, or NULL where the row's is another type. */
static fai_cpu_row_f32 *small_loop(int loop, fa_dtype result)
{
    bool bool_result, checks_zero;
    if (result != FA_DTYPE_DEFAULT && result != FA_FLOAT32) return NULL;
    fai_types types = fai_row_types(loop, &bool_result, &checks_zero);
    return bool_result || types == FAI_TYPES_INT ? NULL : fai_cpu_rows_table()->f32[loop];
}

static fa_tensor *run_few(const char *op, int loop, int n, const fai_operand *operands, const double *params, fa_dtype result)
{
    float room[4][FEW];
    const void *pointer[4] = {NULL};
    const fa_tensor *like = few_beside_numbers(n, operands, pointer, room);
    fai_cpu_row_f32 *run = like ? small_loop(loop, result) : NULL;
    fa_tensor *out = run ? fai_empty_like(op, like) : NULL;
    if (out) run(out->numel, fai_host(out), pointer[0], pointer[1], pointer[2], pointer[3], params);
    return out;
}

static bool run_planned(const char *op, int compute, int loop, fa_tensor *out, int n, const fai_operand *operands, const double *params)
{
    fa_plan plan;
    space s = {.ndim = out->ndim};
    fa_tensor *tensors[5] = {out};
    for (int i = 0; i < out->ndim; i++) s.size[i] = out->size[i];
    add_operand(&s, out, out->ndim, out->size);
    for (int k = 0; k < n; k++) {
        tensors[k + 1] = operands[k].tensor;
        add_operand(&s, operands[k].tensor, out->ndim, out->size);
    }
    if (!FAI_HAS(out, FAI_CONTIGUOUS)) sort_dims(&s);
    collapse(&s);
    fai_plan_begin(&plan);
    plan.row = loop, plan.ndim = s.ndim, plan.nviews = n + 1, plan.numel = out->numel;
    plan.groups = fai_groups(out->numel, DEVICE_GROUP);
    for (int i = 0; params && i < fai_rows[loop].nparams; i++) plan.f[PARAMS_AT + i] = params[i], plan.n[PARAMS_AT + i] = (int64_t)params[i];
    for (int k = 0; k <= n; k++) plan_operand(&plan, k, &s, tensors[k], k ? operands[k - 1].scalar : (fa_scalar){0});
    return fai_run(FAI_K_ew_f32 + compute, &plan, tensors, n + 1, op);
}

/* 0-d tensors on the CPU may meet device tensors: they become numbers. */
static bool scalars_to_numbers(const char *op, int n, const fai_operand *operands, fai_operand *out, fa_device *device)
{
    static const char *const names[] = {"x", "y", "z", "w"};
    fa_tensor *tensors[4];
    bool mixed = false;
    *device = FA_CPU;
    for (int k = 0; k < n; k++) {
        tensors[k] = operands[k].tensor;
        out[k] = operands[k];
        if (tensors[k] && !fai_on_cpu(tensors[k])) *device = tensors[k]->device;
    }
    for (int k = 0; k < n; k++) mixed |= tensors[k] && !fa_device_equal(tensors[k]->device, *device);
    if (FAI_LIKELY(!mixed)) return true;
    if (!fai_same_device(op, n, names, tensors, true)) return false;
    for (int k = 0; k < n; k++) {
        const fa_tensor *t = tensors[k];
        if (!t || !fai_on_cpu(t)) continue;
        double f;
        int64_t i;
        out[k].tensor = NULL;
        if (fai_is_float(t->dtype)) {
            fai_convert(&f, FA_FLOAT64, fai_host(t), (fa_dtype)t->dtype, 1);
            out[k].scalar = fa_scalar_of_float(f);
        } else {
            fai_convert(&i, FA_INT64, fai_host(t), (fa_dtype)t->dtype, 1);
            out[k].scalar = fa_scalar_of_int(i);
        }
    }
    return true;
}

/* Conditions and masks have no say in the result's type; a fill keeps the tensor's. */
static bool has_say(int loop, int k)
{
    if (loop == FAI_ROW_where) return k > 0;
    if (loop == FAI_ROW_masked_fill) return k == 0;
    return true;
}

static fa_dtype promoted(int loop, int n, const fai_operand *operands)
{
    fai_operand voices[4] = {{0}};
    int count = 0;
    for (int k = 0; k < n; k++)
        if (has_say(loop, k)) voices[count++] = operands[k];
    return fai_result_type(count, voices);
}

static bool refuse_type(const char *op, int loop, fa_dtype dtype, const char *allowed)
{
    if (dtype == FA_BOOL && (loop == FAI_ROW_sub || loop == FAI_ROW_sub_alpha))
        fai_fail(FA_ERR_RUNTIME, op, "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.");
    else if (dtype == FA_BOOL && loop == FAI_ROW_neg)
        fai_fail(FA_ERR_RUNTIME, op,
                 "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
    else
        fai_fail(FA_ERR_UNSUPPORTED, op, "\"%s\" not implemented for '%s': it takes %s. Convert the tensor with fa_cast first.", op, fai_dtype_title(dtype), allowed);
    return false;
}

/* A bool takes no part in a subtraction, nor is it shifted or divided with a remainder. */
static bool bools_pass(const char *op, int loop, fai_types types, bool checks_zero, int n, const fai_operand *operands, fa_dtype common)
{
    const bool shifts = loop == FAI_ROW_bitwise_left_shift || loop == FAI_ROW_bitwise_right_shift || loop == FAI_ROW_gcd || loop == FAI_ROW_lcm;
    if (common == FA_BOOL && (types == FAI_TYPES_NUMBER || checks_zero || shifts)) return refuse_type(op, loop, common, "numbers, no bools");
    for (int k = 0; k < n && (loop == FAI_ROW_sub || loop == FAI_ROW_sub_alpha); k++) {
        const fai_operand *x = &operands[k];
        if (x->tensor ? x->tensor->dtype != FA_BOOL : x->scalar.kind != FA_SCALAR_BOOL) continue;
        fai_fail(FA_ERR_RUNTIME, op,
                 "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` "
                 "operator instead. (In C: fa_logical_not; to count, fa_cast(x, FA_INT64).)");
        return false;
    }
    return true;
}

/* The type in which a row computes, which is the result's but for comparisons. */
static bool common_type(const char *op, int loop, int n, const fai_operand *operands, fa_dtype *common)
{
    bool bool_result, checks_zero;
    *common = promoted(loop, n, operands);
    const fai_types types = fai_row_types(loop, &bool_result, &checks_zero);
    if (!bools_pass(op, loop, types, checks_zero, n, operands, *common)) return false;
    switch (types) {
    case FAI_TYPES_FLOAT:
        if (!fai_is_float(*common)) *common = fa_default_dtype();
        return true;
    case FAI_TYPES_INT: return !fai_is_float(*common) || refuse_type(op, loop, *common, "integers and bools");
    case FAI_TYPES_REAL: return fai_is_float(*common) || refuse_type(op, loop, *common, "floating point tensors");
    default: return true;
    }
}

/* On the CPU an integer divided by zero is an error, as in torch. */
static bool check_divisor(const char *op, fai_operand divisor)
{
    if (!divisor.tensor) {
        if (fa_scalar_int(divisor.scalar) != 0) return true;
    } else {
        if (!fai_on_cpu(divisor.tensor) || divisor.tensor->numel == 0) return true;
        bool reduced[FA_MAX_DIMS];
        memset(reduced, 1, sizeof reduced);
        FA_SCOPE;
        fa_tensor *all = fai_reduce_raw(op, FAI_REDUCE_all, divisor.tensor, reduced, false, FA_BOOL);
        if (!all) return false;
        if (*(const uint8_t *)fai_host(all)) return true;
    }
    fai_fail(FA_ERR_RUNTIME, op, "ZeroDivisionError: an element of the integer divisor is 0");
    return false;
}

static bool integer_checks(const char *op, int loop, int n, const fai_operand *operands, const double *params, fa_dtype common)
{
    bool bool_result, checks_zero;
    if (fai_is_float(common)) return true;
    fai_row_types(loop, &bool_result, &checks_zero);
    if (checks_zero && !check_divisor(op, operands[n - 1])) return false;
    if (loop == FAI_ROW_pow && !operands[1].tensor && fa_scalar_int(operands[1].scalar) < 0) {
        fai_fail(FA_ERR_RUNTIME, op, "Integers to negative integer powers are not allowed. Use a floating point tensor or exponent.");
        return false;
    }
    if ((loop == FAI_ROW_add_alpha || loop == FAI_ROW_sub_alpha) && params[0] != (double)(int64_t)params[0]) {
        fai_fail(FA_ERR_RUNTIME, op, "For integral input tensors, argument alpha must not be a floating point number. It is %g: cast one tensor to FA_FLOAT32.", params[0]);
        return false;
    }
    return true;
}

/* A bool's complement is its negation, not the flip of all its bits. */
static int loop_for(int loop, fa_dtype common) { return loop == FAI_ROW_bitwise_not && common == FA_BOOL ? FAI_ROW_logical_not : loop; }

fa_tensor *fai_row_raw(const char *op, int loop, int noperands, const fai_operand *operands, const double *params, fa_dtype result)
{
    const fa_tensor *tensors[4];
    fai_operand numbers[4];
    fa_device device;
    fa_dtype common = result;
    int64_t size[FA_MAX_DIMS];
    int ndim;
    if (all_small(noperands, operands)) {
        fai_cpu_row_f32 *run = small_loop(loop, result);
        fa_tensor *small = run ? fai_empty_like(op, operands[0].tensor) : NULL;
        if (small) run_small(run, small, noperands, operands, params);
        if (run) return small;
    }
    fa_tensor *few = run_few(op, loop, noperands, operands, params, result);
    if (few || fa_failed()) return few;
    if (!scalars_to_numbers(op, noperands, operands, numbers, &device)) return NULL;
    if (result == FA_DTYPE_DEFAULT) {
        bool bool_result, checks_zero;
        if (!common_type(op, loop, noperands, operands, &common) || !integer_checks(op, loop, noperands, operands, params, common)) return NULL;
        fai_row_types(loop, &bool_result, &checks_zero);
        result = bool_result ? FA_BOOL : common;
    }
    for (int k = 0; k < noperands; k++) tensors[k] = operands[k].tensor;
    if (!fai_broadcast(op, noperands, tensors, &ndim, size)) return NULL;
    fa_tensor *out = fai_empty(op, result, device, ndim, size);
    if (!out || out->numel == 0) return out;
    loop = loop_for(loop, common);
    return run_planned(op, fai_compute(common), loop, out, noperands, numbers, params) ? out : NULL;
}

/* A tensor on the result's device, or a number; a result is never a number. */
static bool serves(const fa_tensor *t, const fa_tensor *out)
{
    return fa_device_equal(t->device, out->device) || (fai_on_cpu(t) && t->ndim == 0);
}

static bool fail_written(const char *op, fa_tensor *out, int n, const fai_operand *operands, int far)
{
    static const char *const names[] = {"out", "x", "y", "z", "w"};
    const int first = operands[0].tensor == out; /* in place: the result is x */
    fa_tensor *tensors[5] = {out};
    for (int k = first; k < n; k++) tensors[k + 1 - first] = operands[k].tensor;
    far += 1 - first;
    const bool forgotten = fai_on_cpu(out);
    return fai_fail_mixed(op, n + 1 - first, names + first, tensors, forgotten ? 0 : far, forgotten ? far : 0), false;
}

bool fai_row_into(const char *op, int loop, fa_tensor *out, int noperands, const fai_operand *operands, const double *params)
{
    fai_operand numbers[5];
    fa_device device;
    fa_dtype common;
    if (!fai_check_writable(op, out)) return false;
    if (all_small(noperands, operands) && all_small(1, &(fai_operand){.tensor = out}) && out->numel == operands[0].tensor->numel) {
        fai_cpu_row_f32 *run = small_loop(loop, FA_DTYPE_DEFAULT);
        if (run) return run_small(run, out, noperands, operands, params), true;
    }
    if (!scalars_to_numbers(op, noperands, operands, numbers, &device)) return false;
    if (!fa_device_equal(device, out->device)) {
        for (int k = 0; k < noperands; k++)
            if (operands[k].tensor && !serves(operands[k].tensor, out)) return fail_written(op, out, noperands, operands, k);
        /* only numbers and 0-d CPU tensors: they serve on any device */
        for (int k = 0; k < noperands; k++)
            if (numbers[k].tensor) {
                double f;
                fai_convert(&f, FA_FLOAT64, fai_host(numbers[k].tensor), (fa_dtype)numbers[k].tensor->dtype, 1);
                numbers[k] = (fai_operand){.scalar = fa_scalar_of_float(f)};
            }
    }
    if (!common_type(op, loop, noperands, operands, &common) || !integer_checks(op, loop, noperands, operands, params, common)) return false;
    if (out->numel == 0) return true;
    loop = loop_for(loop, common);
    return run_planned(op, fai_compute(common), loop, out, noperands, numbers, params);
}

/* ---- copies and fills ---- */

/* Between devices: both sides dense and of one type, then bytes. */
static bool copy_across(const char *op, fa_tensor *to, fa_tensor *from)
{
    FA_SCOPE;
    if (from->ndim != to->ndim || from->numel != to->numel) { /* broadcast where the data is */
        fa_tensor *full = fai_empty(op, (fa_dtype)from->dtype, from->device, to->ndim, to->size);
        if (!full || !fai_copy(op, full, from)) return false;
        from = full;
    }
    fa_tensor *source = fai_contiguous(op, from);
    if (source) source = fai_cast(op, source, (fa_dtype)to->dtype);
    fa_tensor *target = FAI_HAS(to, FAI_CONTIGUOUS) ? to : fai_empty_like(op, to);
    if (!source || !target) return false;
    const int64_t bytes = (int64_t)fa_dtype_size((fa_dtype)to->dtype);
    const size_t total = (size_t)(to->numel * bytes);
    const bool queued = FAI_UNLIKELY(fai_tls.non_blocking) &&
                        ((fai_on_cpu(source) && fai_buffer_is_pinned(source->buffer)) || (fai_on_cpu(target) && fai_buffer_is_pinned(target->buffer)));
    const bool busy = queued && source->buffer->pending; /* what is in it may still be on its way there */
    bool ok = queued ? fai_copy_queued(target->buffer, (size_t)(target->offset * bytes), source->buffer, (size_t)(source->offset * bytes), total, op)
              : fai_on_cpu(source) ? fai_copy_to_device(target->buffer, (size_t)(target->offset * bytes), fai_host(source), total, op)
              : fai_on_cpu(target) ? fai_copy_to_host(fai_host(target), source->buffer, (size_t)(source->offset * bytes), total, op)
                                   : fai_copy_within(target->buffer, (size_t)(target->offset * bytes), source->buffer, (size_t)(source->offset * bytes), total, op);
    if (ok && fai_on_cpu(source) && !busy) fai_note_range(target, (char *)(uintptr_t)source->buffer->address + source->offset * bytes);
    else if (ok) fai_pass_range(target, source);
    return ok && (target == to || fai_copy(op, to, target));
}

bool fai_copy(const char *op, fa_tensor *to, fa_tensor *from)
{
    if (to->numel == 0) return true;
    if (!fa_device_equal(to->device, from->device)) return copy_across(op, to, from);
    const fai_operand operand = {.tensor = from};
    if (!run_planned(op, fai_compute(from->dtype), FAI_ROW_positive, to, 1, &operand, NULL)) return false;
    fai_pass_range(to, from);
    return true;
}

fa_tensor *fai_contiguous(const char *op, fa_tensor *t)
{
    if (FAI_HAS(t, FAI_CONTIGUOUS)) return t;
    fa_tensor *out = fai_empty_like(op, t);
    return out && fai_copy(op, out, t) ? out : NULL;
}

fa_tensor *fai_cast(const char *op, fa_tensor *t, fa_dtype dtype)
{
    if (t->dtype == dtype) return t;
    fa_tensor *out = fai_empty(op, dtype, t->device, t->ndim, t->size);
    return out && fai_copy(op, out, t) ? out : NULL;
}

/* Whether a number can be written in a dtype, by torch's rule: an integer for an unsigned type may be negative and wraps. */
bool fai_number_fits(const char *op, fa_scalar value, fa_dtype dtype)
{
    static const struct {
        const char *name;
        double low, high;
    } range[FA_DTYPE_COUNT] = {[FA_UINT8] = {"uint8_t", 0, UINT8_MAX},
                               [FA_INT8] = {"int8_t", INT8_MIN, INT8_MAX},
                               [FA_INT16] = {"int16_t", INT16_MIN, INT16_MAX},
                               [FA_INT32] = {"int", INT32_MIN, INT32_MAX},
                               [FA_INT64] = {"int64_t", -0x1p63, 0x1.fffffffffffffp62},
                               [FA_FLOAT16] = {"c10::Half", -65504, 65504},
                               [FA_BFLOAT16] = {"c10::BFloat16", -0x1.fep127, 0x1.fep127},
                               [FA_FLOAT32] = {"float", -FLT_MAX, FLT_MAX}};
    if (!range[dtype].name || (value.kind != FA_SCALAR_FLOAT && dtype == FA_INT64)) return true;
    const double v = fa_scalar_float(value),
                 low = dtype == FA_UINT8 && value.kind != FA_SCALAR_FLOAT ? -UINT8_MAX : range[dtype].low;
    const bool fits =
        fai_is_float(dtype) ? !isfinite(v) || (v >= low && v <= range[dtype].high) : v >= low && v <= range[dtype].high;
    if (fits) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "value cannot be converted to type %s without overflow; found %g, and %s holds %g to %g",
                    range[dtype].name, v, fa_dtype_name(dtype), range[dtype].low, range[dtype].high);
}

bool fai_fill_scalar(const char *op, fa_tensor *t, fa_scalar value)
{
    if (t->numel == 0) return true;
    const bool exact = value.kind == FA_SCALAR_FLOAT || (value.kind == FA_SCALAR_INT && llabs(value.as.i) < 1 << 24);
    if (exact && t->numel <= TINY && small_like(t, t)) {
        float *p = fai_host(t);
        const float f = (float)fa_scalar_float(value);
        for (int64_t i = 0; i < t->numel; i++) p[i] = f;
        return true;
    }
    const fai_operand operand = {.scalar = value};
    int compute = value.kind == FA_SCALAR_FLOAT ? (fai_is_float(t->dtype) ? fai_compute(t->dtype) : FAI_F64) : FAI_I64;
    if (!run_planned(op, compute, FAI_ROW_positive, t, 1, &operand, NULL)) return false;
    if (value.kind != FA_SCALAR_FLOAT) fai_note_bounds(t, fa_scalar_int(value), fa_scalar_int(value));
    return true;
}

bool fai_zero(const char *op, fa_tensor *t)
{
    if (t->numel == 0) return true;
    if (!FAI_HAS(t, FAI_CONTIGUOUS)) return fai_fill_scalar(op, t, fa_scalar_of_int(0));
    const size_t bytes = fa_dtype_size((fa_dtype)t->dtype);
    return fai_fill(t->buffer, (size_t)t->offset * bytes, 0, (size_t)t->numel * bytes, op) && (fai_note_bounds(t, 0, 0), true);
}
