/* Matrix products: batches that broadcast, and a layer's product with its bias and relu in one go (kernels/gemm.k.h). Transposes
 * and broadcasts are strides here; nothing is copied but an input of fa_linear whose rows have no common stride. */
#include "ops.h"
#include "ops_gen.h"

/* ---- the plan ---- */

/* A matrix of the plan; its batch strides follow. t gives memory and type. */
static fa_plan_view *matrix(fa_plan *plan, int k, const fa_tensor *t, int batch, int64_t rows, int64_t cols, int64_t row_stride,
                            int64_t col_stride) {
    fa_plan_view *v = &plan->view[k];
    v->kind = FA_VIEW_TENSOR;
    v->dtype = t->dtype, v->writes = k == 0, v->ndim = batch + 2;
    v->size[batch] = rows, v->size[batch + 1] = cols;
    v->stride[batch] = row_stride, v->stride[batch + 1] = col_stride;
    v->low = v->high = 0;
    if (!fai_on_cpu(t)) { /* the CPU does not look at it */
        int64_t low, high;
        fai_span(t, &low, &high);
        v->low = low * fai_dtype_bytes[t->dtype], v->high = high * fai_dtype_bytes[t->dtype];
    }
    if (plan->nviews < k + 1) plan->nviews = k + 1;
    return v;
}

static void sizes(fa_plan *plan, int64_t m, int64_t n, int64_t k, int64_t matrices, int batch)
{
    plan->n[0] = m, plan->n[1] = n, plan->n[2] = k, plan->n[4] = matrices, plan->n[5] = batch;
    plan->n[6] = plan->n[7] = 1;
    plan->f[0] = plan->f[1] = 1;
    plan->numel = matrices * m * n;
    plan->groups = matrices * ((m + 63) / 64) * ((n + 63) / 64);
}

static bool run(fa_plan *plan, fa_tensor *const *operands, int n, const char *op)
{
    if (operands[0]->numel == 0) return true;
    return fai_run(FAI_K_gemm_f32 + fai_compute(operands[0]->dtype), plan, operands, n, op);
}

/* ---- checks ---- */
static bool no_bool(const char *op, const fa_tensor *t)
{
    if (FAI_LIKELY(t->dtype != FA_BOOL)) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, op,
                    "\"addmm_impl_%s\" not implemented for 'Bool'. Numbers can be multiplied: fa_cast(t, FA_FLOAT32)",
                    fai_on_cpu(t) ? "cpu_" : "cuda");
}

static bool same_dtype(const char *op, const fa_tensor *a, const fa_tensor *b)
{
    if (FAI_LIKELY(a->dtype == b->dtype)) return true;
    static const char *c_name[FA_DTYPE_COUNT] = {"",     "bool",      "unsigned char", "signed char", "short", "int",
                                                 "long", "c10::Half", "c10::BFloat16", "float",       "double"};
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "expected m1 and m2 to have the same dtype, but got: %s != %s. Matrix products do not promote: convert one of "
        "them, as by fa_cast(b, FA_%s)",
        c_name[a->dtype], c_name[b->dtype], a->dtype == FA_FLOAT64 ? "FLOAT64" : "FLOAT32");
}

static void *no_product(const char *op, int64_t rows, int64_t k, int64_t k2, int64_t cols)
{
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld). The columns of the first must be as many as "
        "the rows of the second: %lld and %lld here",
        (long long)rows, (long long)k, (long long)k2, (long long)cols, (long long)k, (long long)k2);
}

static bool multiplies(const char *op, const fa_tensor *a, const fa_tensor *b)
{
    const int da = a->ndim, db = b->ndim;
    if (da < 2 || db < 2)
        return fai_fail(FA_ERR_RUNTIME, op, "%s must be a matrix, but it has %d dimensions. fa_matmul takes vectors too",
                        da < 2 ? "self" : "mat2", da < 2 ? da : db);
    if (!no_bool(op, a) || !same_dtype(op, a, b)) return false;
    if (a->size[da - 1] == b->size[db - 2]) return true;
    if (da > 2 && db > 2)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld]. The columns of "
            "the first matrices must be as many as the rows of the second ones",
            (long long)b->size[db - 3], (long long)a->size[da - 1], (long long)b->size[db - 3], (long long)b->size[db - 2]);
    int64_t rows = 1;
    for (int i = 0; i < da - 1; i++) rows *= a->size[i];
    return no_product(op, rows, a->size[da - 1], b->size[db - 2], b->size[db - 1]);
}

/* ---- fa_gemm ---- */

/* Sizes of the result's leading dimensions, in size. */
static bool broadcast_batch(const char *op, const fa_tensor *a, const fa_tensor *b, int batch, int64_t *size)
{
    for (int i = 0; i < batch; i++) {
        const int ia = i - (batch - (a->ndim - 2)), ib = i - (batch - (b->ndim - 2));
        const int64_t sa = ia < 0 ? 1 : a->size[ia], sb = ib < 0 ? 1 : b->size[ib];
        if (sa != sb && sa != 1 && sb != 1)
            return fai_fail(
                FA_ERR_RUNTIME, op,
                "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d. Leading "
                "dimensions of a product broadcast: they are equal, or 1",
                (long long)sa, (long long)sb, i);
        size[i] = sa == 1 ? sb : sa;
    }
    return true;
}

static int64_t batch_stride(const fa_tensor *t, int batch, int i)
{
    const int at = i - (batch - (t->ndim - 2));
    return at < 0 || t->size[at] == 1 ? 0 : t->stride[at];
}

/* True if all dimensions but the last can be walked as one, with the stride of the one before the last. */
static bool rows_fold(const fa_tensor *t)
{
    for (int i = t->ndim - 3; i >= 0; i--)
        if (t->size[i] != 1 && t->stride[i] != t->stride[i + 1] * t->size[i + 1]) return false;
    return true;
}

fa_tensor *fai_gemm_forward(fa_tensor *a, fa_tensor *b)
{
    if (!multiplies("matmul", a, b)) return NULL;
    const int da = a->ndim, db = b->ndim;
    int batch = (da > db ? da : db) - 2;
    int64_t size[FA_MAX_DIMS], m = a->size[da - 2];
    const int64_t n = b->size[db - 1], k = a->size[da - 1];
    if (!broadcast_batch("matmul", a, b, batch, size)) return NULL;
    size[batch] = m, size[batch + 1] = n;
    fa_tensor *c = fai_empty("matmul", (fa_dtype)a->dtype, a->device, batch + 2, size);
    if (!c) return NULL;
    fa_plan plan;
    fai_plan_begin(&plan);
    if (db == 2 && da > 2 && rows_fold(a)) { /* one tall matrix */
        m = n ? c->numel / n : 0;
        batch = 0;
    }
    fa_plan_view *vc = matrix(&plan, 0, c, batch, m, n, n, 1);
    fa_plan_view *va = matrix(&plan, 1, a, batch, m, k, a->stride[da - 2], a->stride[da - 1]);
    fa_plan_view *vb = matrix(&plan, 2, b, batch, k, n, b->stride[db - 2], b->stride[db - 1]);
    int64_t matrices = 1;
    for (int i = 0; i < batch; i++) {
        vc->size[i] = va->size[i] = vb->size[i] = size[i];
        vc->stride[i] = c->stride[i];
        va->stride[i] = batch_stride(a, batch, i);
        vb->stride[i] = batch_stride(b, batch, i);
        matrices *= size[i];
    }
    sizes(&plan, m, n, k, matrices, batch);
    return run(&plan, (fa_tensor *const[3]){c, a, b}, 3, "matmul") ? c : NULL;
}

/* The rows of g [..., m] and of input [..., n], transposed rows by rows, give [m, n]: a layer's weight gradient, with no views
 * made for it. */
fa_tensor *fai_rows_product(const char *op, fa_tensor *g, fa_tensor *input)
{
    if (!rows_fold(g) && !(g = fai_contiguous(op, g))) return NULL;
    if (!rows_fold(input) && !(input = fai_contiguous(op, input))) return NULL;
    const int dg = g->ndim, di = input->ndim;
    const int64_t m = g->size[dg - 1], n = input->size[di - 1];
    int64_t k = 1;
    for (int i = 0; i < dg - 1; i++) k *= g->size[i];
    fa_tensor *c = fai_empty(op, (fa_dtype)g->dtype, g->device, 2, (const int64_t[2]){m, n});
    if (!c) return NULL;
    fa_plan plan;
    fai_plan_begin(&plan);
    matrix(&plan, 0, c, 0, m, n, n, 1);
    matrix(&plan, 1, g, 0, m, k, g->stride[dg - 1], dg > 1 ? g->stride[dg - 2] : m);
    matrix(&plan, 2, input, 0, k, n, di > 1 ? input->stride[di - 2] : n, input->stride[di - 1]);
    sizes(&plan, m, n, k, 1, 0);
    return run(&plan, (fa_tensor *const[3]){c, g, input}, 3, op) ? c : NULL;
}

/* ---- fa_linear ---- */
static bool linear_fits(const char *op, const fa_tensor *input, const fa_tensor *weight, const fa_tensor *bias)
{
    if (weight->ndim != 2)
        return fai_fail(FA_ERR_RUNTIME, op, "weight must be a matrix [out, in], but it has %d dimensions", weight->ndim);
    if (input->ndim < 1)
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "both arguments to linear need to be at least 1D, but they are 0D and 2D: the last dimension of input is multiplied");
    if (!no_bool(op, input)) return false;
    if (bias ? input->dtype != weight->dtype || bias->dtype != weight->dtype : input->dtype != weight->dtype) {
        if (!bias || input->dtype != weight->dtype)
            return fai_fail(
                FA_ERR_RUNTIME, op,
                "mat1 and mat2 must have the same dtype, but got %s and %s. "
                "Convert the input or the layer: fa_cast(input, ...), fa_module_to_dtype(net, ...)",
                fai_dtype_title((fa_dtype)input->dtype), fai_dtype_title((fa_dtype)weight->dtype));
        return fai_fail(FA_ERR_RUNTIME, op,
                        "self and mat2 must have the same dtype, but got %s and %s: bias and weight are of one type",
                        fai_dtype_title((fa_dtype)bias->dtype), fai_dtype_title((fa_dtype)weight->dtype));
    }
    const int64_t k = input->size[input->ndim - 1], out = weight->size[0];
    if (k != weight->size[1]) {
        char shape[96];
        fai_text_shape(shape, sizeof shape, input->ndim, input->size);
        return fai_fail(FA_ERR_RUNTIME, op,
                        "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld). The input has shape %s and the weight "
                        "[%lld, %lld]: the input's last size must be %lld. fa_flatten(input, 1, -1) makes images rows",
                        (long long)(k ? input->numel / k : 0), (long long)k, (long long)weight->size[1], (long long)out, shape,
                        (long long)out, (long long)weight->size[1], (long long)weight->size[1]);
    }
    if (bias && (bias->ndim > 1 || (bias->ndim == 1 && bias->size[0] != out && bias->size[0] != 1))) {
        char shape[96];
        fai_text_shape(shape, sizeof shape, bias->ndim, bias->size);
        return fai_fail(
            FA_ERR_RUNTIME, op,
            "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton dimension 1. "
            "bias has one element for each row of weight: shape [%lld], not %s",
            (long long)out, (long long)bias->size[0], (long long)out, shape);
    }
    return true;
}

static fa_tensor *linear(const char *op, fa_tensor *input, fa_tensor *weight, fa_tensor *bias, int activation)
{
    if (!linear_fits(op, input, weight, bias)) return NULL;
    const int d = input->ndim;
    int64_t size[FA_MAX_DIMS];
    for (int i = 0; i < d - 1; i++) size[i] = input->size[i];
    size[d - 1] = weight->size[0];
    if (d > 2 && !rows_fold(input) && !(input = fai_contiguous(op, input))) return NULL;
    fa_tensor *c = fai_empty(op, (fa_dtype)input->dtype, input->device, d, size);
    if (!c) return NULL;
    const int64_t n = weight->size[0], k = weight->size[1], m = n ? c->numel / n : 0;
    fa_plan plan;
    fai_plan_begin(&plan);
    matrix(&plan, 0, c, 0, m, n, n, 1);
    matrix(&plan, 1, input, 0, m, k, d > 1 ? input->stride[d - 2] : k, input->stride[d - 1]);
    matrix(&plan, 2, weight, 0, k, n, weight->stride[1], weight->stride[0]);
    if (bias)
        matrix(&plan, 3, bias, 0, m, n, 0, bias->ndim == 1 && bias->size[0] > 1 ? bias->stride[0] : bias->ndim == 1 && n == 1);
    sizes(&plan, m, n, k, 1, 0);
    plan.n[3] = activation;
    return run(&plan, (fa_tensor *const[4]){c, input, weight, bias}, bias ? 4 : 3, op) ? c : NULL;
}

fa_tensor *fai_linear_forward(fa_tensor *input, fa_tensor *weight, fa_tensor *bias) {
    return linear("linear", input, weight, bias, 0);
}
/* The product of integers takes no activation along, and a library's none that keeps NaN. */
static bool takes_relu(const fa_tensor *input) {
    if (!fai_is_float(input->dtype)) return false;
    return fai_on_cpu(input) || !fai_device_has_library(input->device, FAI_K_gemm_f32 + fai_compute(input->dtype));
}

fa_tensor *fai_linear_relu_forward(fa_tensor *input, fa_tensor *weight, fa_tensor *bias) {
    const char *op = "linear_relu";
    const bool relu = takes_relu(input);
    fa_tensor *r = linear(op, input, weight, bias, relu);
    if (!r || relu) return r;
    const fai_operand of = {.tensor = r};
    if (!fai_is_float(r->dtype)) return fai_row_raw(op, FAI_ROW_relu, 1, &of, NULL, (fa_dtype)r->dtype);
    return fai_row_into(op, FAI_ROW_relu, r, 1, &of, NULL) ? r : NULL;
}
