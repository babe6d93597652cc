/* What must hold whatever the values are: an operator of views gives the bits that it gives of copies; a reduction of two parts
 * joined is the join of their reductions; promotion does not depend on the order; what was saved comes back. */
/* test-env: - */
/* test-env: FACULA_SIM=cuda:1 */
/* test-env-opencl: FACULA_OPENCL=cpu */
#include "support/cases.h"
#include <fa_io.h>
#include <ops_list.h>
#include <unistd.h>

enum { ROUNDS = 4, DEPTH = 3, MOST = 16384 };

/* ---- views ---- */

static fa_tensor *filled(fa_shape shape, double low, double high, fa_dtype dtype) {
    static double values[MOST];
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    assert_true(n <= MOST);
    for (int64_t k = 0; k < n; k++) values[k] = uniform(low, high);
    return fa_from_data(values, FA_FLOAT64, shape, .dtype = dtype, .device = device);
}

/* A tensor of this shape that is a chain of depth random views of a larger, smaller or turned one. */
static fa_tensor *random_view(fa_shape shape, int depth, double low, double high, fa_dtype dtype) {
    if (depth == 0) return filled(shape, low, high, dtype);
    fa_shape from = shape;
    const int at = shape.ndim ? (int)uniform(0, shape.ndim) : 0, other = shape.ndim ? (int)uniform(0, shape.ndim) : 0;
    switch (shape.ndim ? (int)uniform(0, 5) : 4) {
    case 0:
        from.dim[at] = shape.dim[other], from.dim[other] = shape.dim[at];
        return fa_transpose(random_view(from, depth - 1, low, high, dtype), at, other);
    case 1: {
        const int64_t step = 1 + (int64_t)uniform(0, 2), start = (int64_t)uniform(0, 3);
        from.dim[at] = start + shape.dim[at] * step;
        return fa_slice(random_view(from, depth - 1, low, high, dtype), at, start, INT64_MAX, step);
    }
    case 2: from.dim[at] = 1; return fa_expand(random_view(from, depth - 1, low, high, dtype), shape);
    case 3: return fa_flip(random_view(shape, depth - 1, low, high, dtype), FA_DIMS(at));
    default:
        if (shape.ndim == FA_MAX_DIMS) return filled(shape, low, high, dtype);
        from.ndim++;
        memmove(from.dim + at + 1, from.dim + at, sizeof *from.dim * (size_t)(shape.ndim - at));
        from.dim[at] = 2;
        return fa_select(random_view(from, depth - 1, low, high, dtype), at, 1);
    }
}

/* The same values, in memory of their own and in order. */
static fa_tensor *copy_of(fa_tensor *t) { return fa_contiguous(fa_clone(t)); }

/* tolerance 0: the same bits. */
static void same(const char *what, fa_tensor *a, fa_tensor *b, double tolerance) {
    static double x[MOST], y[MOST];
    if (!a || !b) fail_msg("%s: %s", what, fa_error_peek() ? fa_error_peek()->text : "NULL");
    const fa_shape as = fa_shape_of_tensor(a), bs = fa_shape_of_tensor(b);
    assert_true(as.ndim == bs.ndim && !memcmp(as.dim, bs.dim, sizeof *as.dim * (size_t)as.ndim));
    assert_int_equal(fa_dtype_of(a), fa_dtype_of(b));
    assert_true(fa_numel(a) <= MOST && fa_to_data(a, x, FA_FLOAT64) && fa_to_data(b, y, FA_FLOAT64));
    for (int64_t k = 0; k < fa_numel(a); k++)
        if (x[k] != y[k] && !(isnan(x[k]) && isnan(y[k])) && !(fabs(x[k] - y[k]) <= tolerance * (1 + fabs(y[k]))))
            fail_msg("%s: element %d is %.17g of views, %.17g of copies", what, (int)k, x[k], y[k]);
}

static void rows_of_views(void **state) {
    (void)state;
    static const fa_dtype dtypes[] = {FA_FLOAT64, FA_FLOAT32, FA_BFLOAT16, FA_INT32, FA_INT64, FA_UINT8};
    static const fa_shape shapes[] = {{2, {3, 5}}, {1, {5}}, {3, {2, 1, 5}}};
    int run = 0;
    for (size_t k = 0; k < sizeof listed_rows / sizeof *listed_rows; k++)
        for (int i = 0; i < ROUNDS * 6; i++) {
            FA_SCOPE;
            const struct listed_row *row = &listed_rows[k];
            fai_operand views[3], copies[3];
            for (int o = 0; o < row->operands; o++) {
                const bool condition = row->derivatives && !(row->derivatives >> o & 1);
                fa_tensor *v = random_view(shapes[(o + i) % 3], DEPTH, row->low[o], row->high[o], dtypes[i % 6]);
                if (condition) v = fa_gt_scalar(v, 0.5);
                views[o] = fai_of(v), copies[o] = fai_of(copy_of(v));
            }
            fa_tensor *of_views = fai_row(row->row, row->operands, views, NULL);
            if (!of_views) { /* not for this type, or a zero divisor: of copies it is not either */
                fa_error_take();
                assert_null(fai_row(row->row, row->operands, copies, NULL));
                fa_error_take();
                continue;
            }
            run++;
            same(row->name, of_views, fai_row(row->row, row->operands, copies, NULL), 0);
        }
    assert_true(run > 1500);
}

/* Products sum in an order that may depend on the layout. */
static bool is_product(const char *op) {
    static const char *const parts[] = {"mm",   "mv",     "matmul", "dot",  "conv",   "linear",    "einsum", "inner", "outer",
                                        "addr", "kron",   "dist",   "cov",  "corr",   "attention", "cosine", "cross", "lstm"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(op, parts[i])) return true;
    return false;
}

static void operators_of_views(void **state) {
    (void)state;
    for (int number = 0; number < fai_case_count; number++)
        for (int round = 0; is_case(number) && round < ROUNDS; round++) {
            FA_SCOPE;
            input inputs[MAX_INPUTS];
            fa_tensor *views[MAX_INPUTS] = {NULL}, *copies[MAX_INPUTS] = {NULL};
            const int n = parse_inputs(fai_cases[number].inputs, inputs);
            bool keeps = false;
            for (int i = 0; i < n; i++) {
                keeps |= inputs[i].keeps_layout;
                views[i] = random_view(inputs[i].shape, DEPTH, inputs[i].low, inputs[i].high, FA_FLOAT64);
                copies[i] = copy_of(views[i]);
            }
            if (keeps || strstr(fai_cases[number].op, "dropout"))
                continue; /* random numbers fall in the order of memory, as in torch */
            fa_tensor *of_views = run_case(number, views);
            same(fai_cases[number].text, of_views, run_case(number, copies), is_product(fai_cases[number].op) ? 1e-13 : 0);
        }
}

/* ---- reductions of parts ---- */

static fa_tensor *joined(int reduction, fa_tensor *a, fa_tensor *b) {
    fa_tensor *both = fa_stack((fa_tensor *[]){a, b}, 2, 0);
    return reduction == 0 ? fa_sum(both) : reduction == 1 ? fa_prod(both) : reduction == 2 ? fa_amax(both) : fa_amin(both);
}

static void reductions_of_parts(void **state) {
    (void)state;
    static fa_tensor *(*const reductions[])(fa_tensor *) = {fa_sum, fa_prod, fa_amax, fa_amin};
    static const int sizes[] = {1, 15, 17, 1000, 1024, 1025, 3000};
    for (int r = 0; r < 4; r++)
        for (int s = 0; s < 7; s++)
            for (int whole = 0; whole < 2; whole++) {
                FA_SCOPE;
                const fa_dtype dtype = whole ? FA_INT64 : FA_FLOAT64;
                const double low = r == 1 ? 0.99 : -9, high = r == 1 ? 1.01 : 9;
                fa_tensor *a = random_view(FA_SHAPE(sizes[s]), 1, low, high, dtype), *b = filled(FA_SHAPE(700), low, high, dtype);
                fa_tensor *together = reductions[r](fa_cat((fa_tensor *[]){a, b}, 2, 0));
                same("reduction of parts", together, joined(r, reductions[r](a), reductions[r](b)), whole || r > 1 ? 0 : 1e-12);
            }
    fa_tensor *a = fa_gt_scalar(filled(FA_SHAPE(1500), 0, 1, FA_FLOAT64), 0.9995), *b = fa_logical_not(a);
    fa_tensor *both = fa_cat((fa_tensor *[]){a, b}, 2, 0);
    same("any", fa_any(both), fa_logical_or(fa_any(a), fa_any(b)), 0);
    same("all", fa_all(both), fa_logical_and(fa_all(a), fa_all(b)), 0);
    same("count_nonzero", fa_count_nonzero(both), fa_add(fa_count_nonzero(a), fa_count_nonzero(b)), 0);
}

/* ---- promotion ---- */

static void promotion(void **state) {
    (void)state;
    for (int a = FA_BOOL; a < FA_DTYPE_COUNT; a++) {
        assert_int_equal(fa_promote_types(a, a), a);
        assert_int_equal(fa_promote_types(a, FA_BOOL), a);
        for (int b = FA_BOOL; b < FA_DTYPE_COUNT; b++) {
            const fa_dtype both = fa_promote_types(a, b);
            assert_int_equal(both, fa_promote_types(b, a));
            assert_int_equal(fa_promote_types(both, a), both);
            fa_tensor *x = fa_ones(FA_SHAPE(2), .dtype = a, .device = device),
                      *y = fa_ones(FA_SHAPE(2), .dtype = b, .device = device);
            assert_int_equal(fa_dtype_of(fa_add(x, y)), both);
            assert_int_equal(fa_dtype_of(fa_mul(y, x)), both);
            for (int c = FA_BOOL; c < FA_DTYPE_COUNT; c++)
                assert_int_equal(fa_promote_types(both, c), fa_promote_types(a, fa_promote_types(b, c)));
        }
    }
}

/* ---- files ---- */

static void saved_and_loaded(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/facula_properties_%d", (int)getpid());
    static const fa_shape shapes[] = {{0, {0}}, {1, {7}}, {2, {3, 4}}, {3, {2, 0, 3}}, {4, {2, 3, 1, 4}}};
    for (int dtype = FA_BOOL; dtype < FA_DTYPE_COUNT; dtype++)
        for (int s = 0; s < 5; s++)
            for (int form = 0; form < 3; form++) {
                FA_SCOPE;
                fa_tensor *t = random_view(shapes[s], s == 3 ? 0 : DEPTH, 0, 100, dtype), *back = NULL;
                fa_tensors *list = fa_tensors_new();
                assert_true(fa_tensors_add(list, "t", t));
                if (form == 0 && dtype == FA_BFLOAT16) continue; /* NumPy's formats have no such type */
                if (form == 1 && dtype == FA_BFLOAT16) continue;
                if (form == 0) back = fa_save_npy(path, t) ? fa_load_npy(path, .device = device) : NULL;
                if (form == 1) back = fa_save_npz(path, list) ? fa_tensors_get(fa_load_npz(path, .device = device), "t") : NULL;
                if (form == 2)
                    back =
                        fa_save_safetensors(path, list) ? fa_tensors_get(fa_load_safetensors(path, .device = device), "t") : NULL;
                same(fa_dtype_name(dtype), back, t, 0);
                assert_true(fa_device_equal(fa_device_of(back), device));
            }
    unlink(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(rows_of_views), TEST(operators_of_views), TEST(reductions_of_parts), TEST(promotion), TEST(saved_and_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
