/* Products beyond matmul, and distances between rows: made of matrix products, broadcasts and norms. */
#include "composite.h"
#include <fa_functional.h>
#include <math.h>

/* ---- tensordot ---- */

static bool check_contracted(fa_tensor *a, fa_tensor *b, fa_shape dims_a, fa_shape dims_b, int *at_a, int *at_b) {
    const char *op = "tensordot";
    if (!fai_begin2(op, "a", a, "b", b)) return false;
    if (!fai_shape_ok(op, "dims_a", dims_a) || !fai_shape_ok(op, "dims_b", dims_b)) return false;
    if (dims_a.ndim != dims_b.ndim)
        return fai_fail(FA_ERR_RUNTIME, op, "both dimension lists should have same length: %d and %d", (int)dims_a.ndim,
                        (int)dims_b.ndim);
    if (a->dtype != b->dtype)
        return fai_fail(FA_ERR_RUNTIME, op, "both inputs should have same dtype: they are %s and %s",
                        fa_dtype_name((fa_dtype)a->dtype), fa_dtype_name((fa_dtype)b->dtype));
    uint32_t seen_a = 0, seen_b = 0;
    for (int i = 0; i < dims_a.ndim; i++) {
        if (!fai_wrap_dim(op, dims_a.dim[i], a->ndim, &at_a[i]) || !fai_wrap_dim(op, dims_b.dim[i], b->ndim, &at_b[i]))
            return false;
        if (seen_a >> at_a[i] & 1 || seen_b >> at_b[i] & 1)
            return fai_fail(FA_ERR_RUNTIME, op, "dim %d appears multiple times in the list of dims",
                            seen_a >> at_a[i] & 1 ? at_a[i] : at_b[i]);
        seen_a |= 1u << at_a[i], seen_b |= 1u << at_b[i];
        const int64_t in_a = a->ndim ? a->size[at_a[i]] : 1, in_b = b->ndim ? b->size[at_b[i]] : 1;
        if (in_a != in_b)
            return fai_fail(
                FA_ERR_RUNTIME, op,
                "contracted dimensions need to match, but first has size %lld in dim %lld and second has size %lld in dim %lld",
                (long long)in_a, (long long)dims_a.dim[i], (long long)in_b, (long long)dims_b.dim[i]);
    }
    return true;
}

/* Free dimensions, counted into one size, and contracted ones in the order of the list: a permutation of x, and shapes. */
static fa_tensor *as_matrix(fa_tensor *x, const int *at, int n, bool contracted_last, fa_shape *free) {
    fa_shape order = {.ndim = x->ndim};
    bool contracted[FA_MAX_DIMS] = {false};
    int64_t inner = 1, outer = 1;
    int to = contracted_last ? x->ndim - n : 0;
    if (x->ndim == 0) return fa_reshape(x, FA_SHAPE(1, 1));
    for (int i = 0; i < n; i++) contracted[at[i]] = true, order.dim[to++] = at[i], inner *= x->size[at[i]];
    to = contracted_last ? 0 : n;
    for (int d = 0; d < x->ndim; d++) {
        if (contracted[d]) continue;
        order.dim[to++] = d;
        outer *= x->size[d];
        if (free->ndim < FA_MAX_DIMS) free->dim[free->ndim] = x->size[d];
        free->ndim++;
    }
    return fa_reshape(fa_permute(x, order), contracted_last ? FA_SHAPE(outer, inner) : FA_SHAPE(inner, outer));
}

fa_tensor *fai_plain_tensordot(fa_tensor *a, fa_tensor *b, fa_shape dims_a, fa_shape dims_b) {
    int at_a[FA_MAX_DIMS], at_b[FA_MAX_DIMS];
    if (!check_contracted(a, b, dims_a, dims_b, at_a, at_b)) return NULL;
    FAI_CALLED("tensordot");
    FA_SCOPE;
    fa_shape free = {.ndim = 0};
    fa_tensor *left = as_matrix(a, at_a, dims_a.ndim, true, &free), *right = as_matrix(b, at_b, dims_b.ndim, false, &free);
    if (!fai_shape_ok("tensordot", "result", free)) return NULL;
    return fa_keep(fa_reshape(fa_mm(left, right), free));
}

fa_tensor *fa_inner(fa_tensor *a, fa_tensor *b) {
    if (!fai_begin2("inner", "a", a, "b", b)) return NULL;
    FAI_CALLED("inner");
    if (a->ndim == 0 || b->ndim == 0) return fa_mul(a, b);
    if (a->ndim == 1 && b->ndim == 1 && a->dtype == b->dtype) return fa_dot(a, b); /* as torch: under autocast the two differ */
    return fa_tensordot(a, b, FA_DIMS(-1), FA_DIMS(-1));
}

/* ---- with an addition ---- */

static fa_tensor *scaled(fa_tensor *x, double by) {
    if (!x || by == 1) return x;
    if (fai_is_float(x->dtype)) return fai_multiply(x, by);
    return fai_row2(FAI_ROW_mul, fai_of(x), (fai_operand){.scalar = fa_scalar_of_int((int64_t)by)});
}

/* beta * input, spread to the product's shape, + alpha * product; beta 0: NaN of input do not count. The product of float16 and
 * bfloat16 is made of widened factors, so that the whole is rounded once. */
static fa_tensor *with_input(fa_tensor *input, fa_tensor *product, double beta, double alpha) {
    fa_tensor *wide = input && product ? fa_expand(fai_widened(input), fa_shape_of_tensor(product)) : NULL;
    if (!wide) return NULL;
    product = scaled(product, alpha);
    return fa_cast(beta == 0 ? product : fa_add(scaled(wide, beta), product), (fa_dtype)input->dtype);
}

static bool check_batches(const char *op, fa_tensor *input, fa_tensor *a, fa_tensor *b) {
    static const char *const names[] = {"input", "batch1", "batch2"};
    if (!fai_op_begin(op, 3, names, (fa_tensor *const[]){input, a, b}, 0)) return false;
    if (a->ndim != 3) return fai_fail(FA_ERR_RUNTIME, op, "batch1 must be a 3D tensor; it has %d dimensions", a->ndim);
    if (b->ndim != 3) return fai_fail(FA_ERR_RUNTIME, op, "batch2 must be a 3D tensor; it has %d dimensions", b->ndim);
    if (a->size[0] == b->size[0] && a->size[2] == b->size[1]) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld].",
                    (long long)a->size[0], (long long)a->size[2], (long long)b->size[0], (long long)b->size[1]);
}

fa_tensor *fai_plain_baddbmm(fa_tensor *input, fa_tensor *batch1, fa_tensor *batch2, double beta, double alpha) {
    if (!check_batches("baddbmm", input, batch1, batch2)) return NULL;
    FAI_CALLED("baddbmm");
    FA_SCOPE;
    return fa_keep(with_input(input, fa_bmm(fai_widened(batch1), fai_widened(batch2)), beta, alpha));
}

fa_tensor *fai_plain_addbmm(fa_tensor *input, fa_tensor *batch1, fa_tensor *batch2, double beta, double alpha) {
    if (!check_batches("addbmm", input, batch1, batch2)) return NULL;
    FAI_CALLED("addbmm");
    FA_SCOPE;
    const int64_t inner = batch1->size[0] * batch1->size[2]; /* one product: the sum over batches is inside it */
    fa_tensor *left = fa_reshape(fa_transpose(fai_widened(batch1), 0, 1), FA_SHAPE(batch1->size[1], inner));
    fa_tensor *product = fa_mm(left, fa_reshape(fai_widened(batch2), FA_SHAPE(inner, batch2->size[2])));
    return fa_keep(with_input(input, product, beta, alpha));
}

fa_tensor *fai_plain_addmv(fa_tensor *input, fa_tensor *mat, fa_tensor *vec, double beta, double alpha) {
    static const char *const names[] = {"input", "mat", "vec"};
    if (!fai_op_begin("addmv", 3, names, (fa_tensor *const[]){input, mat, vec}, 0)) return NULL;
    if (mat->ndim != 2 || vec->ndim != 1 || input->ndim > 1)
        return fai_fail(FA_ERR_RUNTIME, "addmv", "vector + matrix @ vector expected, got %d, %d, %d", input->ndim, mat->ndim,
                        vec->ndim);
    if (mat->size[1] != vec->size[0])
        return fai_fail(FA_ERR_RUNTIME, "addmv", "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                        (long long)mat->size[0], (long long)mat->size[0], (long long)mat->size[1], (long long)vec->size[0]);
    FAI_CALLED("addmv");
    FA_SCOPE;
    return fa_keep(with_input(input, fa_mv(fai_widened(mat), fai_widened(vec)), beta, alpha));
}

fa_tensor *fai_plain_addr(fa_tensor *input, fa_tensor *vec1, fa_tensor *vec2, double beta, double alpha) {
    static const char *const names[] = {"input", "vec1", "vec2"};
    if (!fai_op_begin("addr", 3, names, (fa_tensor *const[]){input, vec1, vec2}, 0)) return NULL;
    if (vec1->ndim != 1) return fai_fail(FA_ERR_RUNTIME, "addr", "addr: Expected 1-D argument vec1, but got %d-D", vec1->ndim);
    if (vec2->ndim != 1) return fai_fail(FA_ERR_RUNTIME, "addr", "addr: Expected 1-D argument vec2, but got %d-D", vec2->ndim);
    FAI_CALLED("addr");
    FA_SCOPE;
    const fa_dtype products = fa_promote_types((fa_dtype)vec1->dtype, (fa_dtype)vec2->dtype); /* alone of its kind, addr promotes */
    input = fa_cast(input, fa_promote_types((fa_dtype)input->dtype, products));
    return fa_keep(with_input(input, fa_outer(fai_widened(vec1), fai_widened(vec2)), beta, alpha));
}

/* ---- kron and cross ---- */

/* a [m, n] and b [p, q] as [m, 1, n, 1] times [1, p, 1, q]: [m p, n q]. */
fa_tensor *fai_plain_kron(fa_tensor *a, fa_tensor *b) {
    if (!fai_begin2("kron", "a", a, "b", b)) return NULL;
    const int n = a->ndim > b->ndim ? a->ndim : b->ndim;
    if (2 * n > FA_MAX_DIMS)
        return fai_fail(FA_ERR_UNSUPPORTED, "kron", "tensors of %d dimensions: at most %d are supported", n, FA_MAX_DIMS / 2);
    FAI_CALLED("kron");
    FA_SCOPE;
    fa_shape of_a = {.ndim = 2 * n}, of_b = of_a, shape = {.ndim = n};
    for (int d = 0; d < n; d++) {
        const int from_a = d - (n - a->ndim), from_b = d - (n - b->ndim);
        of_a.dim[2 * d] = from_a < 0 ? 1 : a->size[from_a], of_a.dim[2 * d + 1] = 1;
        of_b.dim[2 * d] = 1, of_b.dim[2 * d + 1] = from_b < 0 ? 1 : b->size[from_b];
        shape.dim[d] = of_a.dim[2 * d] * of_b.dim[2 * d + 1];
    }
    return fa_keep(fa_reshape(fa_mul(fa_reshape(a, of_a), fa_reshape(b, of_b)), shape));
}

fa_tensor *fai_plain_cross(fa_tensor *a, fa_tensor *b, int64_t dim) {
    const char *op = "cross";
    int at, of_b;
    if (!fai_begin2(op, "a", a, "b", b)) return NULL;
    if (a->ndim != b->ndim)
        return fai_fail(FA_ERR_RUNTIME, op, "linalg.cross: inputs must have the same number of dimensions; they have %d and %d",
                        a->ndim, b->ndim);
    if (!fai_wrap_dim(op, dim, a->ndim, &at) || !fai_wrap_dim(op, dim, b->ndim, &of_b)) return NULL;
    if (a->ndim == 0 || a->size[at] != 3 || b->size[at] != 3)
        return fai_fail(FA_ERR_RUNTIME, op, "linalg.cross: inputs dimension %d must have length 3. Got %lld and %lld", at,
                        a->ndim ? (long long)a->size[at] : 1LL, b->ndim ? (long long)b->size[at] : 1LL);
    FAI_CALLED(op);
    FA_SCOPE;
    const fa_dtype dtype = fa_promote_types((fa_dtype)a->dtype, (fa_dtype)b->dtype);
    a = fai_widened(a), b = fai_widened(b);
    fa_tensor *first = fa_mul(fa_roll(a, -1, at), fa_roll(b, -2, at)), *second = fa_mul(fa_roll(a, -2, at), fa_roll(b, -1, at));
    return fa_keep(fa_cast(fa_sub(first, second), dtype));
}

/* ---- distances ---- */

fa_tensor *fai_plain_dist(fa_tensor *a, fa_tensor *b, double p) {
    if (!fai_begin2("dist", "a", a, "b", b)) return NULL;
    FAI_CALLED("dist");
    FA_SCOPE;
    return fa_keep(fa_norm(fa_sub(a, b), p));
}

fa_tensor *fai_plain_pairwise_distance(fa_tensor *a, fa_tensor *b, double p, double eps, bool keepdim) {
    if (!fai_begin2("pairwise_distance", "a", a, "b", b)) return NULL;
    FAI_CALLED("pairwise_distance");
    FA_SCOPE;
    return fa_keep(fa_norm_dims(fai_add_number(fa_sub(a, b), eps), p, FA_DIMS(-1), keepdim));
}

/* Over its length, which is at least eps and takes no part in the derivative then. */
static fa_tensor *with_length_one(fa_tensor *x, int dim, double eps) {
    return fa_div(x, fa_clamp_min(fa_norm_dims(x, 2, FA_DIMS(dim), true), eps));
}

fa_tensor *fai_plain_cosine_similarity(fa_tensor *a, fa_tensor *b, int64_t dim, double eps) {
    const char *op = "cosine_similarity";
    fa_shape shape = {0};
    int at, ndim;
    if (!fai_begin2(op, "a", a, "b", b)) return NULL;
    const fa_dtype common = fa_promote_types((fa_dtype)a->dtype, (fa_dtype)b->dtype);
    if (!fai_is_float(common))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "expected common dtype to be floating point, yet common dtype is %s: fa_cast(a, FA_FLOAT32)",
                        fai_dtype_title(common));
    if (!fai_broadcast(op, 2, (const fa_tensor *const[]){a, b}, &ndim, shape.dim) || !fai_wrap_dim(op, dim, ndim, &at))
        return NULL;
    shape.ndim = ndim;
    FAI_CALLED(op);
    FA_SCOPE;
    fa_tensor *first = fa_expand(fai_widened(fa_cast(a, common)), shape),
              *second = fa_expand(fai_widened(fa_cast(b, common)), shape);
    fa_tensor *product = fa_mul(with_length_one(first, at, eps), with_length_one(second, at, eps));
    return fa_keep(fa_cast(fa_sum_dims(product, FA_DIMS(at), false), common));
}

static bool check_cdist(fa_tensor *a, fa_tensor *b, double p) {
    const char *op = "cdist";
    if (!fai_begin2(op, "a", a, "b", b)) return false;
    const fa_tensor *both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        if (!fai_is_float(both[i]->dtype))
            return fai_fail(FA_ERR_RUNTIME, op, "cdist only supports floating-point dtypes, X%d got: %s", i + 1,
                            fai_dtype_title((fa_dtype)both[i]->dtype));
        if (both[i]->ndim < 2)
            return fai_fail(FA_ERR_RUNTIME, op, "cdist only supports at least 2D tensors, X%d got: %dD", i + 1, both[i]->ndim);
    }
    const int64_t in_a = a->size[a->ndim - 1], in_b = b->size[b->ndim - 1];
    if (in_a != in_b)
        return fai_fail(FA_ERR_RUNTIME, op, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld", (long long)in_a,
                        (long long)in_b);
    if (a->ndim == FA_MAX_DIMS || b->ndim == FA_MAX_DIMS)
        return fai_fail(FA_ERR_UNSUPPORTED, op, "tensors of %d dimensions: at most %d are supported", FA_MAX_DIMS,
                        FA_MAX_DIMS - 1);
    return p >= 0 ? true : fai_fail(FA_ERR_RUNTIME, op, "cdist only supports non-negative p values, and p is %g", p) != NULL;
}

/* sqrt(|a|^2 + |b|^2 - 2 a b): one matrix product, for many rows. Near 0 it is less exact, and there its derivative is 0. */
static fa_tensor *euclidean(fa_tensor *a, fa_tensor *b) {
    const fa_shape last = FA_DIMS(-1);
    fa_tensor *of_a = fa_sum_square_dims(a, last, true), *of_b = fa_transpose(fa_sum_square_dims(b, last, true), -2, -1);
    fa_tensor *square = fa_add(fai_multiply(fa_matmul(a, fa_transpose(b, -2, -1)), -2), fa_add(of_a, of_b));
    fa_tensor *apart = fa_gt_scalar(square, 0);
    return fai_choose(apart, fa_sqrt(fai_choose(apart, square, 1)), 0);
}

fa_tensor *fai_plain_cdist(fa_tensor *a, fa_tensor *b, double p) {
    enum { MANY = 25 };
    if (!check_cdist(a, b, p)) return NULL;
    FAI_CALLED("cdist");
    FA_SCOPE;
    const bool many = a->size[a->ndim - 2] > MANY || b->size[b->ndim - 2] > MANY;
    if (p == 2 && many) return fa_keep(euclidean(a, b));
    return fa_keep(fa_norm_dims(fa_sub(fa_unsqueeze(a, -2), fa_unsqueeze(b, -3)), p, FA_DIMS(-1), false));
}
