/* Linear algebra: factorisations multiply out to the matrix again, derivatives of both orders agree with differences, batches,
 * wrong shapes and types, singular matrices; without LAPACK every call says how to get it and nothing else changes.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:1
 * test-env: FACULA_LAPACK=/no/such/file.so
 * test-env-opencl: FACULA_OPENCL=cpu */
#include "support/check.h"
#include "support/refused.h"
#include <facula.h>
#include <math.h>
#include <stdlib.h>

static bool without_lapack(void) { return getenv("FACULA_LAPACK") != NULL; }
static fa_tensor *turned(fa_tensor *t) { return fa_transpose(t, -2, -1); }
static fa_tensor *draw(fa_shape shape) { return fa_randn(shape, .dtype = FA_FLOAT64, .device = device); }
static fa_tensor *positive(fa_tensor *a) { return fa_add(fa_matmul(a, turned(a)), fa_eye(a->size[a->ndim - 1], a->size[a->ndim - 1], .dtype = FA_FLOAT64, .device = device)); }

static void close_to(fa_tensor *a, fa_tensor *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_true(fa_allclose(a, b, 1e-9, 1e-9, false));
}

static void products(void **state)
{
    (void)state;
    if (without_lapack()) skip();
    FA_SCOPE;
    fa_manual_seed(1);
    const fa_shape shapes[] = {FA_SHAPE(4, 4), FA_SHAPE(3, 5, 3), FA_SHAPE(2, 2, 3, 5), FA_SHAPE(1, 1), FA_SHAPE(0, 3, 3), FA_SHAPE(0, 0)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        fa_tensor *a = draw(shapes[i]), *u, *vh, *r, *s, *q;
        const int64_t m = a->size[a->ndim - 2], n = a->size[a->ndim - 1];
        s = fa_linalg_svd(a, false, &u, &vh);
        close_to(fa_matmul(fa_mul(u, fa_unsqueeze(s, -2)), vh), a);
        close_to(fa_linalg_svd(a, false, NULL, NULL), s);
        fa_linalg_svd(a, true, &u, &vh);
        assert_int_equal(u->size[a->ndim - 1], m);
        assert_int_equal(vh->size[a->ndim - 2], n);
        q = fa_linalg_qr(a, "reduced", &r);
        close_to(fa_matmul(q, r), a);
        q = fa_linalg_qr(a, "complete", &r);
        assert_int_equal(q->size[a->ndim - 1], m);
        close_to(fa_matmul(q, r), a);
        close_to(r, fa_triu(r, 0));
        close_to(fa_matmul(a, fa_matmul(fa_linalg_pinv(a, -1), a)), a);
        if (m != n) continue;
        fa_tensor *eye = fa_expand(fa_eye(n, n, .dtype = FA_FLOAT64, .device = device), shapes[i]), *p = positive(a), *v, *l, *logabs;
        close_to(fa_matmul(a, fa_linalg_inv(a)), eye);
        close_to(fa_matmul(fa_matrix_exp(a), fa_matrix_exp(fa_neg(a))), eye);
        if (a->numel) close_to(fa_log(fa_linalg_det(fa_matrix_exp(p))), fa_sum_dims(fa_diagonal(p, 0, -2, -1), FA_DIMS(-1), false));
        close_to(fa_matmul(a, fa_linalg_solve(a, p)), p);
        l = fa_linalg_cholesky(p, false);
        close_to(fa_matmul(l, turned(l)), p);
        close_to(turned(fa_linalg_cholesky(p, true)), l);
        s = fa_linalg_eigh(p, false, &v);
        close_to(fa_matmul(fa_mul(v, fa_unsqueeze(s, -2)), turned(v)), p);
        close_to(fa_linalg_eigh(p, true, NULL), s);
        fa_tensor *sign = fa_linalg_slogdet(a, &logabs);
        close_to(fa_mul(sign, fa_exp(logabs)), fa_linalg_det(a));
    }
    fa_tensor *low = fa_matmul(draw(FA_SHAPE(4, 2)), draw(FA_SHAPE(2, 5)));
    assert_int_equal((int)fa_item(fa_linalg_matrix_rank(low, -1)), 2);
}

/* ---- derivatives ---- */

static fa_tensor *sum_of(fa_tensor *t) { return fa_sum(fa_mul(t, fa_cos(t))); }
static fa_tensor *f_inv(fa_tensor *a) { return sum_of(fa_linalg_inv(a)); }
static fa_tensor *f_solve(fa_tensor *a) { return sum_of(fa_linalg_solve(a, fa_narrow(fa_sin(a), -1, 0, 2))); }
static fa_tensor *f_det(fa_tensor *a) { return sum_of(fa_linalg_det(a)); }
static fa_tensor *f_slogdet(fa_tensor *a)
{
    fa_tensor *logabs;
    return fa_linalg_slogdet(a, &logabs) ? sum_of(logabs) : NULL;
}
static fa_tensor *f_cholesky(fa_tensor *a) { return sum_of(fa_linalg_cholesky(positive(a), false)); }
static fa_tensor *f_qr(fa_tensor *a)
{
    fa_tensor *r, *q = fa_linalg_qr(a, "reduced", &r);
    return q ? fa_add(sum_of(fa_square(q)), sum_of(fa_square(r))) : NULL;
}
static fa_tensor *f_eigh(fa_tensor *a)
{
    fa_tensor *v, *l = fa_linalg_eigh(fa_add(a, turned(a)), false, &v);
    return l ? fa_add(sum_of(l), sum_of(fa_square(v))) : NULL;
}
static fa_tensor *f_svd(fa_tensor *a)
{
    fa_tensor *u, *vh, *s = fa_linalg_svd(a, false, &u, &vh);
    return s ? fa_add(sum_of(s), fa_add(sum_of(fa_square(u)), sum_of(fa_square(vh)))) : NULL;
}
static fa_tensor *f_values(fa_tensor *a) { return sum_of(fa_linalg_svd(a, true, NULL, NULL)); }
static fa_tensor *f_exp(fa_tensor *a) { return sum_of(fa_matrix_exp(a)); }
static fa_tensor *f_pinv(fa_tensor *a) { return sum_of(fa_linalg_pinv(a, -1)); }

static fa_tensor *derivative(fa_tensor *(*f)(fa_tensor *), fa_tensor *a, bool graph)
{
    fa_tensor *x = a, *grad = NULL;
    fa_tensor *y = f(x);
    assert_non_null(y);
    assert_true(fa_grad_of(&y, 1, &x, 1, &grad, .create_graph = graph));
    return grad;
}

static fa_tensor *(*second_of)(fa_tensor *);
static fa_tensor *first_summed(fa_tensor *a) { return sum_of(derivative(second_of, a, true)); }

static void agrees(fa_tensor *(*f)(fa_tensor *), fa_tensor *a)
{
    const double h = 1e-6;
    FA_SCOPE;
    fa_tensor *grad = fa_flatten(derivative(f, a, false), 0, -1);
    for (int64_t i = 0; i < a->numel; i++) {
        FA_SCOPE;
        double side[2];
        for (int k = 0; k < 2; k++) {
            fa_tensor *moved = fa_clone(fa_detach(a));
            fa_add_(fa_select(fa_reshape(moved, FA_SHAPE(-1)), 0, i), fa_full(FA_SHAPE_0D, k ? h : -h, .dtype = FA_FLOAT64, .device = device));
            side[k] = fa_item(f(fa_requires_grad(moved, true)));
        }
        const double found = fa_item(fa_select(grad, 0, i)), wanted = (side[1] - side[0]) / (2 * h);
        if (!(fabs(found - wanted) <= 2e-4 * (1 + fabs(wanted)))) fail_msg("element %d: %g, by differences %g", (int)i, found, wanted);
    }
}

static void derivatives(void **state)
{
    (void)state;
    if (without_lapack()) skip();
    fa_tensor *(*const of_square[])(fa_tensor *) = {f_inv, f_solve, f_det, f_slogdet, f_cholesky, f_qr, f_eigh, f_svd, f_pinv, f_exp};
    fa_tensor *(*const of_any[])(fa_tensor *) = {f_qr, f_svd, f_values, f_pinv};
    FA_SCOPE;
    fa_manual_seed(4);
    fa_tensor *square = fa_requires_grad(draw(FA_SHAPE(3, 3)), true);
    fa_tensor *others[] = {fa_requires_grad(draw(FA_SHAPE(4, 2)), true), fa_requires_grad(draw(FA_SHAPE(2, 2, 3)), true)};
    for (size_t i = 0; i < sizeof of_square / sizeof *of_square; i++) {
        agrees(of_square[i], square);
        second_of = of_square[i];
        agrees(first_summed, square);
    }
    for (size_t i = 0; i < sizeof of_any / sizeof *of_any; i++)
        for (int k = 0; k < 2; k++) {
            agrees(of_any[i], others[k]);
            second_of = of_any[i];
            agrees(first_summed, others[k]);
        }
    fa_tensor *singular = fa_requires_grad(fa_ones(FA_SHAPE(2, 2), .dtype = FA_FLOAT64, .device = device), true);
    close_to(derivative(f_det, singular, false), fa_from_data(((double[]){1, -1, -1, 1}), FA_FLOAT64, FA_SHAPE(2, 2), .dtype = FA_FLOAT64, .device = device));
}

/* ---- errors ---- */

static void refusals(void **state)
{
    (void)state;
    unwatch();
    fa_tensor *a = watch(fa_eye(2, 2, .device = device)), *wide = fa_ones(FA_SHAPE(2, 3), .device = device);
    REFUSED(fa_linalg_inv(fa_ones(FA_SHAPE(3), .device = device)), RUNTIME, "linalg.inv: The input tensor A must have at least 2 dimensions.");
    REFUSED(fa_linalg_det(wide), RUNTIME, "linalg.det: A must be batches of square matrices, but they are 2 by 3 matrices");
    REFUSED(fa_linalg_svd(fa_cast(a, FA_INT64), false, NULL, NULL), RUNTIME, "linalg.svd: Expected a floating point or complex tensor as input. Got Long.");
    REFUSED(fa_linalg_svd(fa_cast(a, FA_FLOAT16), false, NULL, NULL), RUNTIME, "linalg.svd: Low precision dtypes not supported. Got Half.");
    REFUSED(fa_linalg_inv(fa_expand(fa_ones(FA_SHAPE(1, 1), .device = device), FA_SHAPE(50000, 50000))), UNSUPPORTED,
            "linalg.inv: a matrix of 50000 by 50000 is larger than LAPACK can count");
    REFUSED(fa_linalg_solve(a, fa_ones(FA_SHAPE(3, 1), .device = device)), RUNTIME,
            "linalg.solve: Incompatible shapes of A and B for the equation AX = B (2x2 and 3x1)");
    REFUSED(fa_linalg_solve(a, fa_cast(a, FA_FLOAT64)), RUNTIME,
            "linalg.solve: Expected A and B to have the same dtype, but found A of type Float and B of type Double instead");
    REFUSED(fa_linalg_qr(a, "thin", NULL), RUNTIME, "qr received unrecognized mode 'thin' but expected one of 'reduced' (default), 'r', or 'complete'");
    fa_tensor *leaf = fa_requires_grad(fa_ones(FA_SHAPE(3, 2), .device = device), true);
    REFUSED(fa_linalg_qr(leaf, "r", NULL), RUNTIME, "The derivative of linalg.qr depends on Q, which is not computed when mode='r'.");
    REFUSED(fa_matrix_exp(wide), RUNTIME,
            "linalg.matrix_exp: A must be batches of square matrices of floating point numbers, but it is a Float tensor of shape [2, 3]");
    if (without_lapack()) {
        REFUSED(fa_linalg_inv(a), UNSUPPORTED, "this needs LAPACK, which could not be loaded: /no/such/file.so");
        REFUSED(fa_linalg_svd(wide, true, NULL, NULL), UNSUPPORTED, "this needs LAPACK");
        REFUSED(fa_linalg_det(a), UNSUPPORTED, "this needs LAPACK");
        REFUSED(fa_linalg_qr(a, "reduced", NULL), UNSUPPORTED, "this needs LAPACK");
        REFUSED(fa_linalg_eigh(a, false, NULL), UNSUPPORTED, "this needs LAPACK");
        REFUSED(fa_linalg_cholesky(a, false), UNSUPPORTED, "this needs LAPACK");
        return;
    }
    fa_tensor *zeros = fa_zeros(FA_SHAPE(2, 2), .device = device);
    REFUSED(fa_linalg_inv(zeros), RUNTIME,
            "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular.");
    REFUSED(fa_linalg_solve(fa_stack(((fa_tensor *[]){a, zeros}), 2, 0), a), RUNTIME,
            "linalg.solve: (Batch element 1): The solver failed because the input matrix is singular.");
    REFUSED(fa_linalg_cholesky(fa_neg(a), false), RUNTIME,
            "linalg.cholesky: The factorization could not be completed because the input is not positive-definite (the leading minor of order 1 is not "
            "positive-definite).");
    fa_tensor *not_numbers = fa_full(FA_SHAPE(3, 3), NAN, .device = device);
    REFUSED(fa_linalg_svd(not_numbers, true, NULL, NULL), RUNTIME,
            "linalg.svd: The algorithm failed to converge because the input matrix is ill-conditioned, has too many repeated singular values or is not "
            "finite (error code: ");
    REFUSED(fa_linalg_eigh(not_numbers, false, NULL), RUNTIME,
            "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned, has too many repeated eigenvalues or is not finite "
            "(error code: ");
    fa_tensor *r, *q = fa_linalg_qr(leaf, "complete", &r), *grad = NULL, *y = fa_sum(q);
    (void)r;
    REFUSED(fa_grad_of(&y, 1, &leaf, 1, &grad), RUNTIME, "The QR decomposition is not differentiable when mode='complete' and nrows > ncols");
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {T(products), T(derivatives), T(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
