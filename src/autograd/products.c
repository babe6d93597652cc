/* Matrix products: torch's family of functions, their checks and messages, over fa_gemm. */
#include "composite.h"
#include <fa_functional.h>

/* ---- messages ---- */

static const char *c_name(int dtype) {
    static const char *const names[FA_DTYPE_COUNT] = {"",         "bool",      "unsigned char", "signed char", "short int", "int",
                                                      "long int", "c10::Half", "c10::BFloat16", "float",       "double"};
    return names[dtype];
}

static bool same_dtype(const char *op, const fa_tensor *a, const fa_tensor *b) {
    if (a->dtype == b->dtype) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "expected m1 and m2 to have the same dtype, but got: %s != %s. Matrix products do not promote: use fa_cast.",
                    c_name(a->dtype), c_name(b->dtype));
}

static bool inner_sizes_fit(const char *op, int64_t m, int64_t k, int64_t k2, int64_t n) {
    if (k == k2) return true;
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld). The second size of the first matrix must "
        "be the first size of the second.",
        (long long)m, (long long)k, (long long)k2, (long long)n);
}

static bool vector_fits(const char *op, int64_t m, int64_t k, int64_t n) {
    if (k == n) return true;
    return fai_fail(FA_ERR_RUNTIME, op, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)", (long long)m,
                    (long long)m, (long long)k, (long long)n);
}

static bool lengths_fit(const char *op, const fa_tensor *a, const fa_tensor *b) {
    if (a->dtype != b->dtype)
        return fai_fail(FA_ERR_RUNTIME, op, "dot : expected both vectors to have same dtype, but found %s and %s",
                        fai_dtype_title((fa_dtype)a->dtype), fai_dtype_title((fa_dtype)b->dtype));
    if (a->numel == b->numel) return true;
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of elements, but got "
        "%lld and %lld elements respectively",
        (long long)a->numel, (long long)b->numel, (long long)a->numel, (long long)b->numel);
}

static bool batches_fit(const char *op, int64_t batch, int64_t k, int64_t batch2, int64_t k2) {
    if (batch == batch2 && k == k2) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld].",
                    (long long)batch, (long long)k, (long long)batch2, (long long)k2);
}

/* ---- two dimensions and fewer ---- */

static fa_tensor *vector_dot(fa_tensor *a, fa_tensor *b) {
    FA_SCOPE;
    fa_tensor *product = fa_gemm(fa_unsqueeze(a, 0), fa_unsqueeze(b, 1));
    return fa_keep(fa_reshape(product, FA_SHAPE_0D));
}

static fa_tensor *matrix_vector(fa_tensor *a, fa_tensor *b) {
    FA_SCOPE;
    return fa_keep(fa_squeeze_dim(fa_gemm(a, fa_unsqueeze(b, 1)), -1));
}

fa_tensor *fai_plain_mm(fa_tensor *a, fa_tensor *b) {
    if (!fai_begin2("mm", "a", a, "b", b)) return NULL;
    if (a->ndim != 2)
        return fai_fail(FA_ERR_RUNTIME, "mm",
                        "self must be a matrix; argument 'a' has %d dimensions. fa_matmul takes any number.", a->ndim);
    if (b->ndim != 2)
        return fai_fail(FA_ERR_RUNTIME, "mm",
                        "mat2 must be a matrix; argument 'b' has %d dimensions. fa_matmul takes any number.", b->ndim);
    if (!inner_sizes_fit("mm", a->size[0], a->size[1], b->size[0], b->size[1]) || !same_dtype("mm", a, b)) return NULL;
    return fa_gemm(a, b);
}

fa_tensor *fai_plain_bmm(fa_tensor *a, fa_tensor *b) {
    if (!fai_begin2("bmm", "a", a, "b", b)) return NULL;
    if (a->ndim != 3)
        return fai_fail(FA_ERR_RUNTIME, "bmm", "batch1 must be a 3D tensor; argument 'a' has %d dimensions", a->ndim);
    if (b->ndim != 3)
        return fai_fail(FA_ERR_RUNTIME, "bmm", "batch2 must be a 3D tensor; argument 'b' has %d dimensions", b->ndim);
    if (!batches_fit("bmm", a->size[0], a->size[2], b->size[0], b->size[1]) || !same_dtype("bmm", a, b)) return NULL;
    return fa_gemm(a, b);
}

fa_tensor *fai_plain_mv(fa_tensor *a, fa_tensor *b) {
    if (!fai_begin2("mv", "a", a, "b", b)) return NULL;
    if (a->ndim != 2 || b->ndim != 1)
        return fai_fail(FA_ERR_RUNTIME, "mv", "vector + matrix @ vector expected, got 1, %d, %d dimensions", a->ndim, b->ndim);
    if (!vector_fits("mv", a->size[0], a->size[1], b->size[0]) || !same_dtype("mv", a, b)) return NULL;
    return matrix_vector(a, b);
}

fa_tensor *fai_plain_dot(fa_tensor *a, fa_tensor *b) {
    if (!fai_begin2("dot", "a", a, "b", b)) return NULL;
    if (a->ndim != 1 || b->ndim != 1)
        return fai_fail(FA_ERR_RUNTIME, "dot", "1D tensors expected, but got %dD and %dD tensors", a->ndim, b->ndim);
    return lengths_fit("dot", a, b) ? vector_dot(a, b) : NULL;
}

fa_tensor *fa_outer(fa_tensor *a, fa_tensor *b) {
    if (!fai_begin2("outer", "a", a, "b", b)) return NULL;
    if (a->ndim != 1) return fai_fail(FA_ERR_RUNTIME, "outer", "outer: Expected 1-D argument self, but got %d-D", a->ndim);
    if (b->ndim != 1) return fai_fail(FA_ERR_RUNTIME, "outer", "outer: Expected 1-D argument vec2, but got %d-D", b->ndim);
    FA_SCOPE;
    return fa_keep(fa_mul(fa_unsqueeze(a, 1), b));
}

/* ---- batches ---- */

/* a [..., m, k] by b [k, n] or [k]: all rows of a in one product. */
static fa_tensor *fold(fa_tensor *a, fa_tensor *b) {
    const int64_t k = a->size[a->ndim - 1], rows = k ? a->numel / k : 0;
    int64_t m = 1;
    for (int d = 0; d + 1 < a->ndim; d++) m *= a->size[d];
    const bool vector = b->ndim == 1;
    if (vector ? !vector_fits("matmul", m, k, b->size[0]) : !inner_sizes_fit("matmul", m, k, b->size[0], b->size[1])) return NULL;
    if (!same_dtype("matmul", a, b)) return NULL;
    FA_SCOPE;
    fa_shape shape = fa_shape_of_tensor(a);
    if (vector)
        shape.ndim--;
    else
        shape.dim[shape.ndim - 1] = b->size[1];
    fa_tensor *matrix = fa_reshape(a, FA_SHAPE(k ? rows : m, k));
    return fa_keep(fa_reshape(fa_gemm(matrix, vector ? fa_unsqueeze(b, 1) : b), shape));
}

/* Leading dimensions broadcast; vectors become matrices for the time of the product. */
static fa_tensor *batched(fa_tensor *a, fa_tensor *b) {
    FA_SCOPE;
    const bool row = a->ndim == 1, column = b->ndim == 1;
    fa_tensor *left = row ? fa_unsqueeze(a, 0) : a, *right = column ? fa_unsqueeze(b, 1) : b;
    if (!left || !right) return NULL;
    fa_tensor left_batch = *left, right_batch = *right; /* for their leading sizes only */
    int64_t size[FA_MAX_DIMS], batch = 1;
    int ndim;
    left_batch.ndim -= 2;
    right_batch.ndim -= 2;
    if (!fai_broadcast("matmul", 2, (const fa_tensor *const[]){&left_batch, &right_batch}, &ndim, size)) return NULL;
    for (int d = 0; d < ndim; d++) batch *= size[d];
    if (!batches_fit("matmul", batch, left->size[left->ndim - 1], batch, right->size[right->ndim - 2]) ||
        !same_dtype("matmul", a, b))
        return NULL;
    fa_tensor *product = fa_gemm(left, right);
    if (row) product = fa_squeeze_dim(product, -2);
    if (column) product = fa_squeeze_dim(product, -1);
    return fa_keep(product);
}

fa_tensor *fai_plain_matmul(fa_tensor *a, fa_tensor *b) {
    const char *op = "matmul";
    if (!fai_begin2(op, "a", a, "b", b)) return NULL;
    if (a->ndim == 0 || b->ndim == 0)
        return fai_fail(FA_ERR_RUNTIME, op, "both arguments to matmul need to be at least 1D, but they are %dD and %dD", a->ndim,
                        b->ndim);
    if (a->ndim == 1 && b->ndim == 1) return lengths_fit(op, a, b) ? vector_dot(a, b) : NULL;
    if (a->ndim == 2 && b->ndim == 1)
        return vector_fits(op, a->size[0], a->size[1], b->size[0]) && same_dtype(op, a, b) ? matrix_vector(a, b) : NULL;
    if (a->ndim <= 2 && b->ndim == 2) {
        const int64_t m = a->ndim == 2 ? a->size[0] : 1;
        if (!inner_sizes_fit(op, m, a->size[a->ndim - 1], b->size[0], b->size[1]) || !same_dtype(op, a, b)) return NULL;
        return a->ndim == 2 ? fa_gemm(a, b) : batched(a, b);
    }
    return b->ndim <= 2 ? fold(a, b) : batched(a, b);
}

/* ---- with an addition ---- */

static bool check_addmm(fa_tensor *input, fa_tensor *mat1, fa_tensor *mat2) {
    const char *op = "addmm", *const names[] = {"input", "mat1", "mat2"};
    if (!fai_op_begin(op, 3, names, (fa_tensor *const[]){input, mat1, mat2}, 0)) return false;
    if (mat1->ndim != 2) return fai_fail(FA_ERR_RUNTIME, op, "mat1 must be a matrix, got %d-D tensor", mat1->ndim);
    if (mat2->ndim != 2) return fai_fail(FA_ERR_RUNTIME, op, "mat2 must be a matrix, got %d-D tensor", mat2->ndim);
    if (mat1->dtype != mat2->dtype)
        return fai_fail(FA_ERR_RUNTIME, op, "mat1 and mat2 must have the same dtype, but got %s and %s",
                        fai_dtype_title((fa_dtype)mat1->dtype), fai_dtype_title((fa_dtype)mat2->dtype));
    if (input->dtype != mat2->dtype)
        return fai_fail(FA_ERR_RUNTIME, op, "self and mat2 must have the same dtype, but got %s and %s",
                        fai_dtype_title((fa_dtype)input->dtype), fai_dtype_title((fa_dtype)mat2->dtype));
    return inner_sizes_fit(op, mat1->size[0], mat1->size[1], mat2->size[0], mat2->size[1]);
}

/* x times a number that integers take as an integer, as torch does. */
static fa_tensor *scaled(fa_tensor *x, double by) {
    if (!x || by == 1) return x;
    if (fai_is_float(x->dtype)) return fai_multiply(x, by);
    return fai_row2(FAI_ROW_mul, fai_of(x), (fai_operand){.scalar = fa_scalar_of_int((int64_t)by)});
}

fa_tensor *fai_plain_addmm(fa_tensor *input, fa_tensor *mat1, fa_tensor *mat2, double beta, double alpha) {
    if (!check_addmm(input, mat1, mat2)) return NULL;
    FA_SCOPE;
    if (mat1->dtype == FA_FLOAT16 || mat1->dtype == FA_BFLOAT16) { /* rounded once, after the addition */
        fa_tensor *sum = fai_addmm(fa_cast(input, FA_FLOAT32), fa_cast(mat1, FA_FLOAT32), fa_cast(mat2, FA_FLOAT32), beta, alpha);
        return fa_keep(fa_cast(sum, (fa_dtype)mat1->dtype));
    }
    fa_tensor *wide = fa_expand(input, FA_SHAPE(mat1->size[0], mat2->size[1]));
    if (!wide) return NULL;
    fa_tensor *product = scaled(fa_gemm(mat1, mat2), alpha);
    return fa_keep(beta == 0 ? product : fa_add(scaled(wide, beta), product)); /* beta 0: input's NaN do not count */
}

fa_tensor *fa_addmm_with_(fa_tensor *t, fa_tensor *mat1, fa_tensor *mat2, const fa_addmm_options *options) {
    FAI_CALLED("addmm_");
    if (!fai_options_ok("addmm_", options ? options->struct_size : 0, sizeof *options) || !check_addmm(t, mat1, mat2) ||
        fai_refuse_pending("addmm_"))
        return NULL;
    const int64_t size[] = {mat1->size[0], mat2->size[1]};
    if (!fai_has_shape(t, 2, size)) {
        char found[160], wanted[160];
        fai_text_shape(found, sizeof found, t->ndim, t->size);
        fai_text_shape(wanted, sizeof wanted, 2, size);
        return fai_fail(FA_ERR_RUNTIME, "addmm_", "Bad in-place call: input tensor size %s and output tensor size %s should match", found, wanted);
    }
    FA_SCOPE;
    if (!fai_in_place_check("addmm_", t)) return NULL;
    fa_tensor *result = fai_addmm(t, mat1, mat2, options->beta, options->alpha);
    return result ? fa_copy_(t, result) : NULL;
}
