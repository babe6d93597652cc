/* Linear algebra: matrices of a batch go to LAPACK one after the other, column by column as Fortran has them; derivatives are
 * written in public operators, so that every order exists.
 *
 * A factorisation has several results, each of which is a node of its own over the matrix: derivatives are linear in the results'
 * gradients and simply add up. The factors that a node needs are kept; when a graph of the derivative is wanted they are computed
 * once more from the matrix, with a graph. */
#include "composite.h"
#include "ops/lapack.h"
#include <fa_linalg.h>
#include <math.h>

typedef struct job {
    const char *op;
    fa_dtype dtype;
    int m, n, columns; /* a is m x n; columns of b, or of Q */
    char mode;         /* of gesdd */
    bool lower;
    fa_tensor *a, *b, *c, *d; /* each [batch..., own sizes], on the host */
} job;
typedef bool one_fn(const job *j, int64_t i, int *info);

/* ---- batches ---- */

static fa_tensor *turned(fa_tensor *t) { return fa_transpose(t, -2, -1); }

/* Matrix (tail 2) or vector (1) number i. */
static char *matrix(const fa_tensor *t, int64_t i, int tail)
{
    int64_t size = (int64_t)fa_dtype_size((fa_dtype)t->dtype);
    for (int d = t->ndim - tail; d < t->ndim; d++) size *= t->size[d];
    return (char *)fai_host(t) + i * size;
}

static fa_tensor *room(const job *j, const fa_tensor *like, int tail, int64_t a, int64_t b)
{
    int64_t size[FA_MAX_DIMS];
    const int batch = like->ndim - 2;
    for (int d = 0; d < batch; d++) size[d] = like->size[d];
    size[batch] = a;
    if (tail > 1) size[batch + 1] = b;
    return fai_empty(j->op, j->dtype, FA_CPU, batch + tail, size);
}

/* A copy on the host whose matrices lie column by column. */
static fa_tensor *for_fortran(const job *j, fa_tensor *t)
{
    FAI_CALLED(j->op);
    fa_tensor *from = turned(fa_cpu(t)), *to = from ? fai_empty(j->op, j->dtype, FA_CPU, from->ndim, from->size) : NULL;
    return to && fai_copy(j->op, to, from) ? to : NULL;
}

/* Back: row by row, where the matrix was. */
static fa_tensor *from_fortran(const job *j, fa_tensor *t, const fa_tensor *like)
{
    fa_tensor *rows = t ? turned(t) : NULL, *whole = rows ? fai_contiguous(j->op, rows) : NULL;
    return whole ? fa_to_device(whole, like->device) : NULL;
}

static bool begin(job *j, const char *op, fa_tensor *a, bool square)
{
    *j = (job){.op = op};
    FAI_CALLED(op);
    if (!fai_begin1(op, "A", a)) return false;
    if (a->ndim < 2) return fai_fail(FA_ERR_RUNTIME, op, "%s: The input tensor A must have at least 2 dimensions.", op);
    const int64_t m = a->size[a->ndim - 2], n = a->size[a->ndim - 1];
    if (square && m != n)
        return fai_fail(FA_ERR_RUNTIME, op, "%s: A must be batches of square matrices, but they are %lld by %lld matrices", op, (long long)m, (long long)n);
    if (!fai_is_float((fa_dtype)a->dtype))
        return fai_fail(FA_ERR_RUNTIME, op, "%s: Expected a floating point or complex tensor as input. Got %s. Convert it: fa_cast(a, FA_FLOAT32).", op,
                        fai_dtype_title((fa_dtype)a->dtype));
    if (a->dtype != FA_FLOAT32 && a->dtype != FA_FLOAT64)
        return fai_fail(FA_ERR_RUNTIME, op, "%s: Low precision dtypes not supported. Got %s. Convert it: fa_cast(a, FA_FLOAT32).", op,
                        fai_dtype_title((fa_dtype)a->dtype));
    if (m > INT32_MAX / 4 || n > INT32_MAX / 4 || m * n > INT32_MAX)
        return fai_fail(FA_ERR_UNSUPPORTED, op, "%s: a matrix of %lld by %lld is larger than LAPACK can count", op, (long long)m, (long long)n);
    j->dtype = (fa_dtype)a->dtype, j->m = (int)m, j->n = (int)n;
    return true;
}

/* Under autocast nothing inside is cast. On the CPU torch has these operators among what is computed in float32. */
static fa_tensor *apply(const fa_function *function, fa_tensor *const *inputs, int n, void *data)
{
    const uint16_t autocast = fai_tls.autocast;
    fai_tls.autocast = 0;
    fa_tensor *r = fa_apply(function, inputs, n, data);
    fai_tls.autocast = autocast;
    return r;
}
static fa_tensor *wide(fa_tensor *a)
{
    const bool low = a && (a->dtype == FA_FLOAT16 || a->dtype == FA_BFLOAT16) && fai_on_cpu(a);
    return low && fa_is_autocast_enabled(FA_CPU) ? fa_to_dtype(a, FA_FLOAT32) : a;
}

enum trouble { NOTHING, INVERSION, SOLVING, CHOLESKY, EIGENVALUES, SINGULAR_VALUES };

/* What info means, in torch's words; element: "", or which of the batch. */
static bool tell(const char *op, enum trouble trouble, const char *element, int info)
{
    switch (trouble) {
    case INVERSION:
        fai_fail(FA_ERR_RUNTIME, op, "%s: %sThe diagonal element %d is zero, the inversion could not be completed because the input matrix is singular.", op,
                 element, info);
        break;
    case SOLVING: fai_fail(FA_ERR_RUNTIME, op, "%s: %sThe solver failed because the input matrix is singular.", op, element); break;
    case CHOLESKY:
        fai_fail(FA_ERR_RUNTIME, op,
                 "%s: %sThe factorization could not be completed because the input is not positive-definite (the leading minor of order %d is not "
                 "positive-definite).",
                 op, element, info);
        break;
    case EIGENVALUES:
        fai_fail(FA_ERR_RUNTIME, op,
                 "%s: %sThe algorithm failed to converge because the input matrix is ill-conditioned, has too many repeated eigenvalues or is not finite "
                 "(error code: %d).",
                 op, element, info);
        break;
    default:
        fai_fail(FA_ERR_RUNTIME, op,
                 "%s: %sThe algorithm failed to converge because the input matrix is ill-conditioned, has too many repeated singular values or is not "
                 "finite (error code: %d).",
                 op, element, info);
    }
    return false;
}

/* Other threads of Python may run meanwhile: the matrices are copies that nobody else knows. */
static bool each(const job *j, one_fn *one, enum trouble trouble)
{
    int64_t count = 1, i = 0;
    int info = 0;
    for (int d = 0; d < j->a->ndim - 2; d++) count *= j->a->size[d];
    void *state = fai_other_face.unlock ? fai_other_face.unlock() : NULL;
    bool fine = true;
    for (; fine && i < count && !info; i++) fine = one(j, i, &info);
    if (fai_other_face.unlock) fai_other_face.lock(state);
    if (!fine || !info || trouble == NOTHING) return fine;
    char element[48] = "";
    if (j->a->ndim > 2) snprintf(element, sizeof element, "(Batch element %lld): ", (long long)i - 1);
    return tell(j->op, trouble, element, info);
}

static bool one_solve(const job *j, int64_t i, int *info)
{
    return fai_lapack_solve(j->op, j->dtype, j->n, j->columns, matrix(j->a, i, 2), matrix(j->b, i, 2), info);
}
static bool one_cholesky(const job *j, int64_t i, int *info) { return fai_lapack_cholesky(j->op, j->dtype, j->n, matrix(j->a, i, 2), info); }
static bool one_eigh(const job *j, int64_t i, int *info)
{
    return fai_lapack_eigh(j->op, j->dtype, j->n, matrix(j->a, i, 2), matrix(j->b, i, 1), j->lower, info);
}
static bool one_svd(const job *j, int64_t i, int *info)
{
    return fai_lapack_svd(j->op, j->dtype, j->mode, j->m, j->n, matrix(j->a, i, 2), matrix(j->b, i, 1), matrix(j->c, i, 2), matrix(j->d, i, 2),
                          info);
}
static bool one_qr(const job *j, int64_t i, int *info)
{
    *info = 0;
    const size_t bytes = (size_t)j->m * (size_t)j->n * fa_dtype_size(j->dtype); /* c has room for all of Q's columns */
    char *q = matrix(j->c, i, 2);
    memcpy(q, matrix(j->a, i, 2), bytes);
    return fai_lapack_qr(j->op, j->dtype, j->m, j->n, q, matrix(j->b, i, 2), j->columns);
}
/* Sign and logarithm of a determinant, in double. */
static bool one_det(const job *j, int64_t i, int *info)
{
    double *out = (double *)matrix(j->b, i, 1), sign = 1, logabs = 0;
    int *pivots = (int *)matrix(j->c, i, 1);
    const char *a = matrix(j->a, i, 2);
    if (!fai_lapack_lu(j->op, j->dtype, j->n, matrix(j->a, i, 2), pivots, info)) return false;
    for (int k = 0; k < j->n; k++) {
        double d;
        fai_convert(&d, FA_FLOAT64, a + (size_t)k * ((size_t)j->n + 1) * fa_dtype_size(j->dtype), j->dtype, 1);
        if (pivots[k] != k + 1) sign = -sign;
        sign *= d < 0 ? -1 : d > 0 ? 1 : d; /* 0 and NaN stay what they are */
        logabs += log(fabs(d));
    }
    *info = 0;
    out[0] = sign, out[1] = logabs;
    return true;
}

/* ---- one result ---- */

static bool save2(fa_context *context, fa_tensor *a, fa_tensor *b) { return fa_save_for_backward(context, a) && fa_save_for_backward(context, b); }

static fa_tensor *solve_forward(fa_context *context, fa_tensor *const *inputs, int n, void *data)
{
    (void)n;
    job j = *(const job *)data;
    FA_SCOPE;
    j.a = for_fortran(&j, inputs[0]), j.b = j.a ? for_fortran(&j, inputs[1]) : NULL;
    if (!j.b || !each(&j, one_solve, SOLVING)) return NULL;
    fa_tensor *r = from_fortran(&j, j.b, inputs[0]);
    return r && save2(context, inputs[0], r) ? fa_keep(r) : NULL;
}

static bool solve_backward(fa_context *context, fa_tensor *g, fa_tensor **grads, int n, void *data)
{
    (void)n, (void)data;
    fa_tensor *a = fa_saved(context, 0), *x = fa_saved(context, 1);
    fa_tensor *gb = fa_linalg_solve(turned(a), g);
    if (fa_needs_grad(context, 0)) grads[0] = fa_neg(fa_matmul(gb, turned(x)));
    if (fa_needs_grad(context, 1)) grads[1] = gb;
    return !fa_failed();
}

/* The sizes of the batch that both broadcast to, then rows and columns. */
static fa_shape batch_of(const fa_tensor *a, const fa_tensor *b, int64_t rows, int64_t columns)
{
    fa_shape s = {.ndim = 0};
    const int na = a->ndim - 2, nb = b->ndim - 2, most = na > nb ? na : nb;
    for (int d = 0; d < most; d++) {
        const int ia = d - (most - na), ib = d - (most - nb);
        const int64_t x = ia < 0 ? 1 : a->size[ia], y = ib < 0 ? 1 : b->size[ib];
        s.dim[s.ndim++] = x == 1 ? y : x;
    }
    s.dim[s.ndim++] = rows, s.dim[s.ndim++] = columns;
    return s;
}

static const fa_function solve_function = {.name = "LinalgSolveEx", .forward = solve_forward, .backward = solve_backward};

fa_tensor *fa_linalg_solve(fa_tensor *a, fa_tensor *b)
{
    job j;
    a = wide(a), b = wide(b);
    if (!begin(&j, "linalg.solve", a, true) || !fai_begin2(j.op, "A", a, "B", b)) return NULL;
    bool vector = b->ndim == 1 || b->ndim == a->ndim - 1;
    for (int d = 0; vector && b->ndim > 1 && d < b->ndim; d++) vector = b->size[d] == a->size[d];
    FA_SCOPE;
    if (vector) b = fa_unsqueeze(b, -1);
    if (!b) return NULL;
    const int64_t rows = b->ndim > 1 ? b->size[b->ndim - 2] : -1;
    if (rows != j.n || b->dtype != a->dtype) {
        if (b->dtype != a->dtype)
            return fai_fail(FA_ERR_RUNTIME, j.op, "linalg.solve: Expected A and B to have the same dtype, but found A of type %s and B of type %s instead",
                            fai_dtype_title((fa_dtype)a->dtype), fai_dtype_title((fa_dtype)b->dtype));
        return fai_fail(FA_ERR_RUNTIME, j.op, "linalg.solve: Incompatible shapes of A and B for the equation AX = B (%dx%d and %lldx%lld)", j.n, j.n, (long long)rows,
                        (long long)b->size[b->ndim - 1]);
    }
    j.columns = (int)b->size[b->ndim - 1];
    fa_tensor *inputs[] = {fa_expand(a, batch_of(a, b, j.n, j.n)), fa_expand(b, batch_of(a, b, j.n, j.columns))};
    if (!inputs[0] || !inputs[1]) return NULL;
    fa_tensor *r = apply(&solve_function, inputs, 2, &j);
    return fa_keep(vector && r ? fa_squeeze_dim(r, -1) : r);
}

/* [..., n, n] of a's kind. */
static fa_tensor *identity(fa_tensor *a)
{
    return fa_expand(fa_eye(a->size[a->ndim - 1], a->size[a->ndim - 1], .dtype = (fa_dtype)a->dtype, .device = a->device), fa_shape_of_tensor(a));
}

/* Ones with a diagonal of zeros. */
static fa_tensor *without_diagonal(fa_tensor *a) { return fai_row2(FAI_ROW_sub, fai_number(1), fai_of(identity(a))); }

static fa_tensor *inv_forward(fa_context *context, fa_tensor *const *inputs, int n, void *data)
{
    (void)n;
    job j = *(const job *)data;
    FA_SCOPE;
    fa_tensor *eye = identity(inputs[0]);
    j.columns = j.n;
    j.a = for_fortran(&j, inputs[0]), j.b = j.a && eye ? for_fortran(&j, eye) : NULL;
    if (!j.b || !each(&j, one_solve, INVERSION)) return NULL;
    fa_tensor *r = from_fortran(&j, j.b, inputs[0]);
    return r && fa_save_for_backward(context, r) ? fa_keep(r) : NULL;
}

static bool inv_backward(fa_context *context, fa_tensor *g, fa_tensor **grads, int n, void *data)
{
    (void)n, (void)data;
    fa_tensor *r = turned(fa_saved(context, 0));
    grads[0] = fa_neg(fa_matmul(r, fa_matmul(g, r)));
    return grads[0] != NULL;
}

static const fa_function inv_function = {.name = "LinalgInvEx", .forward = inv_forward, .backward = inv_backward};

fa_tensor *fa_linalg_inv(fa_tensor *a)
{
    job j;
    a = wide(a);
    return begin(&j, "linalg.inv", a, true) ? apply(&inv_function, &a, 1, &j) : NULL;
}

static fa_tensor *cholesky_forward(fa_context *context, fa_tensor *const *inputs, int n, void *data)
{
    (void)n;
    job j = *(const job *)data;
    FA_SCOPE;
    j.a = for_fortran(&j, inputs[0]);
    if (!j.a || !each(&j, one_cholesky, CHOLESKY))
        return NULL;
    fa_tensor *r = fa_tril(from_fortran(&j, j.a, inputs[0]), 0);
    return r && fa_save_for_backward(context, r) ? fa_keep(r) : NULL;
}

static bool cholesky_backward(fa_context *context, fa_tensor *g, fa_tensor **grads, int n, void *data)
{
    (void)n, (void)data;
    fa_tensor *l = fa_saved(context, 0), *x = fa_matmul(turned(l), g);
    if (!x) return false;
    fa_tensor *phi = fa_tril(fa_mul(x, fa_sub(fa_ones_like(x), fai_multiply(identity(x), 0.5))), 0);
    fa_tensor *left = fa_linalg_solve(turned(l), phi), *both = turned(fa_linalg_solve(turned(l), turned(left)));
    grads[0] = fai_multiply(fa_add(both, turned(both)), 0.5);
    return grads[0] != NULL;
}

static const fa_function cholesky_function = {.name = "LinalgCholeskyEx", .forward = cholesky_forward, .backward = cholesky_backward};

fa_tensor *fa_linalg_cholesky(fa_tensor *a, bool upper)
{
    job j;
    a = wide(a);
    if (!begin(&j, "linalg.cholesky", a, true)) return NULL;
    FA_SCOPE;
    fa_tensor *lower = upper ? turned(a) : a, *r = lower ? apply(&cholesky_function, &lower, 1, &j) : NULL;
    return fa_keep(upper && r ? turned(r) : r);
}

/* ---- determinants ---- */

/* [..., 2]: sign and logarithm, float64 on the host. */
static fa_tensor *sign_and_log(job *j, fa_tensor *a)
{
    FA_SCOPE;
    j->a = for_fortran(j, a);
    j->dtype = FA_FLOAT64;
    j->b = j->a ? room(j, a, 1, 2, 0) : NULL;
    j->dtype = FA_INT32;
    j->c = j->b ? room(j, a, 1, j->n > 0 ? j->n : 1, 0) : NULL;
    j->dtype = (fa_dtype)a->dtype;
    return j->c && each(j, one_det, NOTHING) ? fa_keep(j->b) : NULL;
}

static fa_tensor *part_of(fa_tensor *both, int64_t i, const fa_tensor *like) { return fa_to_device(fa_cast(fa_select(both, -1, i), (fa_dtype)like->dtype), like->device); }

static fa_tensor *det_forward(fa_context *context, fa_tensor *const *inputs, int n, void *data)
{
    (void)n;
    job j = *(const job *)data;
    FA_SCOPE;
    fa_tensor *both = sign_and_log(&j, inputs[0]);
    if (!both) return NULL;
    fa_tensor *det = fa_mul(fa_select(both, -1, 0), fa_exp(fa_select(both, -1, 1)));
    fa_tensor *r = det ? fa_to_device(fa_cast(det, (fa_dtype)inputs[0]->dtype), inputs[0]->device) : NULL;
    return r && save2(context, inputs[0], r) ? fa_keep(r) : NULL;
}

/* The derivative towards each element, by singular values: right for singular matrices too, which have no inverse. */
static fa_tensor *cofactors(fa_tensor *a)
{
    fa_tensor *u, *vh, *s = fa_linalg_svd(a, false, &u, &vh);
    if (!s) return NULL;
    fa_tensor *sizes = fa_mul(fa_linalg_det(u), fa_linalg_det(vh)), *eye = identity(a);
    fa_tensor *square = fa_expand(fa_unsqueeze(s, -2), fa_shape_of_tensor(a));
    fa_tensor *others = fa_prod_dims(fa_add(fa_mul(square, without_diagonal(a)), eye), FA_DIMS(-1), false);
    fa_tensor *signs = fa_unsqueeze(fa_unsqueeze(sizes, -1), -1);
    return fa_mul(signs, fa_matmul(fa_mul(u, fa_unsqueeze(others, -2)), vh));
}

static bool det_backward(fa_context *context, fa_tensor *g, fa_tensor **grads, int n, void *data)
{
    (void)n, (void)data;
    fa_tensor *a = fa_saved(context, 0), *r = fa_saved(context, 1);
    fa_tensor *each_element = fai_recording() ? fa_mul(fa_unsqueeze(fa_unsqueeze(r, -1), -1), turned(fa_linalg_inv(a))) : cofactors(a);
    grads[0] = fa_mul(fa_unsqueeze(fa_unsqueeze(g, -1), -1), each_element);
    return grads[0] != NULL;
}

static const fa_function det_function = {.name = "LinalgDet", .forward = det_forward, .backward = det_backward};

fa_tensor *fa_linalg_det(fa_tensor *a)
{
    job j;
    return begin(&j, "linalg.det", a, true) ? apply(&det_function, &a, 1, &j) : NULL;
}

static fa_tensor *logabs_forward(fa_context *context, fa_tensor *const *inputs, int n, void *data)
{
    (void)n, (void)data;
    return fa_save_for_backward(context, inputs[0]) ? inputs[1] : NULL;
}

static bool logabs_backward(fa_context *context, fa_tensor *g, fa_tensor **grads, int n, void *data)
{
    (void)n, (void)data;
    grads[0] = fa_mul(fa_unsqueeze(fa_unsqueeze(g, -1), -1), turned(fa_linalg_inv(fa_saved(context, 0))));
    return grads[0] != NULL;
}

static const fa_function logabs_function = {.name = "LinalgSlogdet", .forward = logabs_forward, .backward = logabs_backward};

fa_tensor *fa_linalg_slogdet(fa_tensor *a, fa_tensor **logabs)
{
    job j;
    fa_tensor *sign = NULL, *size = NULL;
    if (logabs) *logabs = NULL;
    if (!begin(&j, "linalg.slogdet", a, true)) return NULL;
    {
        FA_SCOPE;
        FA_NO_GRAD;
        fa_tensor *both = sign_and_log(&j, a);
        if (!both) return NULL;
        sign = fa_keep(part_of(both, 0, a)), size = fa_keep(part_of(both, 1, a));
    }
    if (logabs && size) *logabs = apply(&logabs_function, (fa_tensor *[]){a, size}, 2, NULL);
    return fa_failed() ? NULL : sign;
}

/* ---- factorisations: result number `part` as a node over the matrix; inputs: the matrix, then all factors ---- */

enum { PART = 3, FLAG = 4 };

static fa_tensor *factor_forward(fa_context *context, fa_tensor *const *inputs, int n, void *data)
{
    for (int i = 0; i < n; i++)
        if (!fa_save_for_backward(context, inputs[i])) return NULL;
    return inputs[1 + ((intptr_t)data & PART)];
}

static fa_tensor *as_factor(const fa_function *function, fa_tensor *a, fa_tensor *const *factors, int n, int part, bool flag)
{
    fa_tensor *inputs[4] = {a};
    for (int i = 0; i < n; i++) inputs[i + 1] = factors[i];
    return apply(function, inputs, n + 1, (void *)(intptr_t)(part | (flag ? FLAG : 0)));
}

/* s_j - s_i, and 1 where both are one. */
static fa_tensor *gaps(fa_tensor *s)
{
    fa_tensor *d = fa_sub(fa_unsqueeze(s, -2), fa_unsqueeze(s, -1));
    return d ? fa_add(d, identity(d)) : NULL;
}

static bool eigh_backward(fa_context *context, fa_tensor *g, fa_tensor **grads, int n, void *data)
{
    (void)n;
    fa_tensor *l = fa_saved(context, 1), *v = fa_saved(context, 2);
    if (fai_recording()) l = fa_linalg_eigh(fa_saved(context, 0), (intptr_t)data & FLAG, &v);
    if (!l || !v) return false;
    if (((intptr_t)data & PART) == 0) grads[0] = fa_matmul(fa_mul(v, fa_unsqueeze(g, -2)), turned(v));
    else {
        fa_tensor *x = fa_matmul(turned(v), g);
        fa_tensor *skew = fai_multiply(fa_sub(x, turned(x)), 0.5); /* a rotation of the vectors: nothing else keeps them orthonormal */
        grads[0] = fa_matmul(v, fa_matmul(fa_div(skew, gaps(l)), turned(v)));
    }
    return grads[0] != NULL;
}

static const fa_function eigh_function = {.name = "LinalgEigh", .forward = factor_forward, .backward = eigh_backward};

fa_tensor *fa_linalg_eigh(fa_tensor *a, bool upper, fa_tensor **vectors)
{
    job j;
    a = wide(a);
    fa_tensor *factors[2];
    if (vectors) *vectors = NULL;
    if (!begin(&j, "linalg.eigh", a, true)) return NULL;
    j.lower = !upper;
    {
        FA_SCOPE;
        FA_NO_GRAD;
        j.a = for_fortran(&j, a), j.b = j.a ? room(&j, a, 1, j.n, 0) : NULL;
        if (!j.b || !each(&j, one_eigh, EIGENVALUES))
            return NULL;
        factors[0] = fa_keep(fa_to_device(j.b, a->device)), factors[1] = fa_keep(from_fortran(&j, j.a, a));
    }
    if (!factors[0] || !factors[1]) return NULL;
    if (vectors && !(*vectors = as_factor(&eigh_function, a, factors, 2, 1, upper))) return NULL;
    return as_factor(&eigh_function, a, factors, 2, 0, upper);
}

/* With thin u and vh; g_u, g_vh: at most one is not NULL. */
static fa_tensor *svd_of_vectors(fa_tensor *u, fa_tensor *s, fa_tensor *vh, fa_tensor *gu, fa_tensor *gvh)
{
    fa_tensor *inner = gu ? fa_matmul(turned(u), gu) : fa_matmul(vh, turned(gvh)), *r;
    inner = fa_div(fa_sub(inner, turned(inner)), gaps(fa_square(s)));
    r = fa_matmul(u, fa_matmul(gu ? fa_mul(inner, fa_unsqueeze(s, -2)) : fa_mul(fa_unsqueeze(s, -1), inner), vh));
    if (!r) return NULL;
    const int64_t m = r->size[r->ndim - 2], n = r->size[r->ndim - 1], k = s->size[s->ndim - 1];
    if (gu && m > k) {
        fa_tensor *scaled = fa_div(gu, fa_unsqueeze(s, -2));
        r = fa_add(r, fa_matmul(fa_sub(scaled, fa_matmul(u, fa_matmul(turned(u), scaled))), vh));
    }
    if (gvh && n > k) {
        fa_tensor *scaled = fa_div(gvh, fa_unsqueeze(s, -1));
        r = fa_add(r, fa_matmul(u, fa_sub(scaled, fa_matmul(fa_matmul(scaled, turned(vh)), vh))));
    }
    return r;
}

static bool svd_backward(fa_context *context, fa_tensor *g, fa_tensor **grads, int n, void *data)
{
    (void)n;
    const int part = (intptr_t)data & PART;
    fa_tensor *s = fa_saved(context, 1), *u = fa_saved(context, 2), *vh = fa_saved(context, 3);
    if (fai_recording()) s = fa_linalg_svd(fa_saved(context, 0), false, &u, &vh);
    if (!s || !u || !vh) return false;
    const int64_t k = s->size[s->ndim - 1];
    u = fa_narrow(u, -1, 0, k), vh = fa_narrow(vh, -2, 0, k);
    if (part == 0) grads[0] = fa_matmul(fa_mul(u, fa_unsqueeze(g, -2)), vh);
    else grads[0] = svd_of_vectors(u, s, vh, part == 1 ? fa_narrow(g, -1, 0, k) : NULL, part == 2 ? fa_narrow(g, -2, 0, k) : NULL);
    return grads[0] != NULL;
}

static const fa_function svd_function = {.name = "LinalgSvd", .forward = factor_forward, .backward = svd_backward};

static bool svd_factors(job *j, fa_tensor *a, bool full, bool vectors, fa_tensor **factors)
{
    const int k = j->m < j->n ? j->m : j->n;
    FA_SCOPE;
    FA_NO_GRAD;
    j->mode = !vectors ? 'N' : full ? 'A' : 'S';
    j->a = for_fortran(j, a), j->b = j->a ? room(j, a, 1, k, 0) : NULL;
    j->c = j->b ? room(j, a, 2, vectors ? full ? j->m : k : 0, j->m) : NULL;
    j->d = j->c ? room(j, a, 2, vectors ? j->n : 0, full ? j->n : k) : NULL;
    if (!j->d || (k > 0 && !each(j, one_svd, SINGULAR_VALUES)))
        return false;
    factors[0] = fa_keep(fa_to_device(j->b, a->device));
    factors[1] = fa_keep(from_fortran(j, j->c, a)), factors[2] = fa_keep(from_fortran(j, j->d, a));
    return factors[0] && factors[1] && factors[2];
}

fa_tensor *fa_linalg_svd(fa_tensor *a, bool full, fa_tensor **u, fa_tensor **vh)
{
    job j;
    a = wide(a);
    fa_tensor *factors[3];
    if (u) *u = NULL;
    if (vh) *vh = NULL;
    if (!begin(&j, "linalg.svd", a, false)) return NULL;
    const bool vectors = u || vh || (fai_recording() && fai_wants_grad(a));
    if (!svd_factors(&j, a, full && (u || vh), vectors, factors)) return NULL;
    if (!vectors) return factors[0];
    if (u && !(*u = as_factor(&svd_function, a, factors, 3, 1, full))) return NULL;
    if (vh && !(*vh = as_factor(&svd_function, a, factors, 3, 2, full))) return NULL;
    return as_factor(&svd_function, a, factors, 3, 0, full);
}

/* x -> x + x^T with x's own diagonal. */
static fa_tensor *mirrored(fa_tensor *x) { return x ? fa_mul(fa_add(x, turned(x)), fa_sub(fa_ones_like(x), fai_multiply(identity(x), 0.5))) : NULL; }

/* Of a [m, n] with m >= n. */
static fa_tensor *qr_of_tall(fa_tensor *q, fa_tensor *r, fa_tensor *gq, fa_tensor *gr)
{
    fa_tensor *x = gr ? fa_matmul(gr, turned(r)) : NULL, *y = gq ? fa_matmul(turned(q), gq) : NULL;
    fa_tensor *both = x && y ? fa_sub(x, y) : x ? x : fa_neg(y);
    fa_tensor *sum = fa_matmul(q, mirrored(fa_triu(both, 0)));
    if (gq) sum = fa_add(gq, sum);
    return turned(fa_linalg_solve(r, turned(sum))); /* sum r^-T */
}

static bool qr_backward(fa_context *context, fa_tensor *g, fa_tensor **grads, int count, void *data)
{
    (void)count;
    const bool of_q = ((intptr_t)data & PART) == 0, complete = (intptr_t)data & FLAG;
    fa_tensor *a = fa_saved(context, 0), *q = fa_saved(context, 1), *r = fa_saved(context, 2);
    if (a && fai_recording()) q = fa_linalg_qr(a, "reduced", &r);
    if (!a || !q || !r) return false;
    const int64_t m = a->size[a->ndim - 2], n = a->size[a->ndim - 1];
    if (complete && m > n)
        return fai_fail(FA_ERR_RUNTIME, "linalg.qr", "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"), false;
    if (m >= n) return (grads[0] = qr_of_tall(q, r, of_q ? g : NULL, of_q ? NULL : g)) != NULL;
    fa_tensor *square = fa_narrow(r, -1, 0, m), *rest;
    if (of_q) {
        rest = fa_zeros_like(fa_narrow(a, -1, m, n - m));
        square = qr_of_tall(q, square, g, NULL);
    } else {
        fa_tensor *gv = fa_narrow(g, -1, m, n - m);
        rest = fa_matmul(q, gv);
        square = qr_of_tall(q, square, fa_matmul(fa_narrow(a, -1, m, n - m), turned(gv)), fa_narrow(g, -1, 0, m));
    }
    return square && rest && (grads[0] = fa_cat((fa_tensor *[]){square, rest}, 2, -1)) != NULL;
}

static const fa_function qr_function = {.name = "LinalgQr", .forward = factor_forward, .backward = qr_backward};

fa_tensor *fa_linalg_qr(fa_tensor *a, const char *mode, fa_tensor **r)
{
    job j;
    a = wide(a);
    fa_tensor *factors[2];
    if (r) *r = NULL;
    if (!begin(&j, "linalg.qr", a, false)) return NULL;
    const bool complete = mode && !strcmp(mode, "complete"), alone = mode && !strcmp(mode, "r");
    if (!mode || (!complete && !alone && strcmp(mode, "reduced")))
        return fai_fail(FA_ERR_RUNTIME, j.op, "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'", mode ? mode : "NULL");
    if (alone && fai_recording() && fai_wants_grad(a))
        return fai_fail(FA_ERR_RUNTIME, j.op, "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced')");
    j.columns = complete || j.m < j.n ? j.m : j.n;
    {
        FA_SCOPE;
        FA_NO_GRAD;
        const int most = j.columns > j.n ? j.columns : j.n;
        j.a = for_fortran(&j, a), j.b = j.a ? room(&j, a, 2, j.n, j.columns) : NULL, j.c = j.b ? room(&j, a, 2, most, j.m) : NULL;
        if (!j.c || (j.m > 0 && j.columns > 0 && !each(&j, one_qr, NOTHING))) return NULL;
        fa_tensor *q = fa_narrow(j.c, -2, 0, j.columns);
        factors[0] = fa_keep(q ? from_fortran(&j, q, a) : NULL), factors[1] = fa_keep(from_fortran(&j, j.b, a));
    }
    if (!factors[0] || !factors[1]) return NULL;
    if (r && !(*r = as_factor(&qr_function, a, factors, 2, 1, complete))) return NULL;
    return alone ? fai_zeros_of(a, FA_SHAPE(0)) : as_factor(&qr_function, a, factors, 2, 0, complete);
}

/* ---- by singular values ---- */

static double tolerance(const job *j, double rtol)
{
    return rtol >= 0 ? rtol : (j->m > j->n ? j->m : j->n) * (j->dtype == FA_FLOAT32 ? 1.1920928955078125e-07 : 2.220446049250313e-16);
}

static fa_tensor *pinv_forward(fa_context *context, fa_tensor *const *inputs, int n, void *data)
{
    (void)n;
    FA_SCOPE;
    fa_tensor *u, *vh, *s = fa_linalg_svd(inputs[0], false, &u, &vh);
    if (!s) return NULL;
    fa_tensor *limit = s->size[s->ndim - 1] ? fai_multiply(fa_narrow(s, -1, 0, 1), *(const double *)data) : s;
    fa_tensor *inverse = fa_where(fa_gt(s, limit), fa_reciprocal(s), fa_zeros_like(s));
    fa_tensor *r = fa_matmul(fa_mul(turned(vh), fa_unsqueeze(inverse, -2)), turned(u));
    return r && save2(context, inputs[0], r) ? fa_keep(r) : NULL;
}

static bool pinv_backward(fa_context *context, fa_tensor *g, fa_tensor **grads, int n, void *data)
{
    (void)n, (void)data;
    fa_tensor *a = fa_saved(context, 0), *p = fa_saved(context, 1), *pt = turned(p), *gt = turned(g);
    if (!a || !pt || !gt) return false;
    fa_tensor *first = fa_matmul(pt, fa_matmul(g, pt));
    fa_tensor *right = fa_matmul(gt, fa_matmul(p, pt)), *left = fa_matmul(pt, fa_matmul(p, gt));
    fa_tensor *second = fa_sub(right, fa_matmul(a, fa_matmul(p, right))), *third = fa_sub(left, fa_matmul(fa_matmul(left, p), a));
    grads[0] = fa_sub(fa_add(second, third), first);
    return grads[0] != NULL;
}

static const fa_function pinv_function = {.name = "LinalgPinv", .forward = pinv_forward, .backward = pinv_backward};

fa_tensor *fa_linalg_pinv(fa_tensor *a, double rtol)
{
    job j;
    a = wide(a);
    if (!begin(&j, "linalg.pinv", a, false)) return NULL;
    rtol = tolerance(&j, rtol);
    return apply(&pinv_function, &a, 1, &rtol);
}

fa_tensor *fa_linalg_matrix_rank(fa_tensor *a, double rtol)
{
    job j;
    a = wide(a);
    if (!begin(&j, "linalg.matrix_rank", a, false)) return NULL;
    FA_SCOPE;
    FA_NO_GRAD;
    fa_tensor *s = fa_linalg_svd(a, false, NULL, NULL);
    if (!s) return NULL;
    fa_tensor *limit = s->size[s->ndim - 1] ? fai_multiply(fa_narrow(s, -1, 0, 1), tolerance(&j, rtol)) : s;
    return fa_keep(fa_sum_dims(fa_cast(fa_gt(s, limit), FA_INT64), FA_DIMS(-1), false));
}
