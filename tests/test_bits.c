/* Equal bits. The same training with 1, 2, 3 and 7 threads ends in the same parameters, on sizes that the pool does split; every
 * elementwise row, reduction and movement gives the same bits on the CPU and on the simulated device, over element types and
 * ways in which operands lie in memory. Rows, reductions and operators come from the tables: a new one is compared without a
 * line here.
 *
 * test-env: FACULA_SIM=cuda:1
 * test-env: FACULA_OPENCL=cpu
 * test-limit: 300
 * test-tags: threads */
#include "autograd/generated.h"
#include "support/calls.h"
#include "support/device.h"
#include "support/scope.h"
#include <facula.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const fa_dtype types[] = {FA_FLOAT32, FA_FLOAT16, FA_BFLOAT16, FA_INT64, FA_INT32, FA_UINT8, FA_BOOL};
static const char layouts[] = "ctsfe"; /* contiguous, transposed, sliced, flipped, expanded */
enum { TYPES = sizeof types / sizeof *types, LAYOUTS = 5, DEEP = 3, MOST = 1 << 16 };

static long compared, refused, wrong;

/* ---- threads ---- */

static uint64_t hash_parameters(fa_module *net) {
    fa_tensor *parameters[64];
    const int n = fa_parameters(net, parameters, NULL, 64);
    uint64_t hash = 0;
    for (int i = 0; i < n; i++)
        hash =
            fai_hash(fa_data(parameters[i]), (size_t)fa_numel(parameters[i]) * fa_dtype_size(fa_dtype_of(parameters[i])), hash);
    return hash;
}

static uint64_t train(fa_module *net, fa_tensor *x, fa_tensor *y, int steps) {
    fa_optimizer *optimizer = fa_adamw(net, .lr = 1e-3);
    for (int i = 0; i < steps; i++) {
        FA_SCOPE;
        fa_tensor *loss = fa_cross_entropy(fa_call(net, x), y);
        fa_zero_grad(optimizer);
        fa_backward(loss);
        fa_step(optimizer);
    }
    if (fa_failed()) fail_msg("%s: %s", fa_error_peek()->op, fa_error_peek()->text);
    return hash_parameters(net);
}

static uint64_t train_mlp(void) {
    FA_SCOPE;
    fa_manual_seed(1);
    fa_module *net =
        fa_sequential(fa_nn_linear(256, 512), fa_nn_gelu(), fa_nn_layer_norm(512), fa_nn_dropout(0.1), fa_nn_linear(512, 10));
    return train(net, fa_randn(FA_SHAPE(256, 256)), fa_randint(0, 10, FA_SHAPE(256)), 4);
}

static uint64_t train_cnn(void) {
    FA_SCOPE;
    fa_manual_seed(2);
    fa_module *net =
        fa_sequential(fa_nn_conv2d(3, 16, 3, .padding = FA_DIMS(1)), fa_nn_batch_norm2d(16), fa_nn_relu(), fa_nn_max_pool2d(2),
                      fa_nn_conv2d(16, 24, 3), fa_nn_avg_pool2d(2), fa_nn_flatten(), fa_nn_linear(24 * 7 * 7, 10));
    return train(net, fa_randn(FA_SHAPE(64, 3, 32, 32)), fa_randint(0, 10, FA_SHAPE(64)), 2);
}

/* Sums, scans, softmax and sorting keys of a large tensor, all in one number. */
static uint64_t large_sums(void) {
    FA_SCOPE;
    fa_manual_seed(3);
    fa_tensor *x = fa_randn(FA_SHAPE(300, 1000)), *index = fa_randint(0, 50, FA_SHAPE(300));
    fa_tensor *all[] = {fa_sum(x),
                        fa_sum_dims(x, FA_DIMS(0), false),
                        fa_sum_dims(x, FA_DIMS(1), false),
                        fa_var(x),
                        fa_softmax(x, 0),
                        fa_cumsum(x, 0),
                        fa_logsumexp(x, FA_DIMS(0), false),
                        fa_index_add(fa_zeros(FA_SHAPE(50, 1000)), 0, index, x),
                        fa_matmul(x, fa_t(x)),
                        fa_sum(fa_cast(x, FA_FLOAT16)),
                        fa_prod(fa_mul_scalar(x, FA_NUM(1e-3)))};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i]) fail_msg("%s: %s", fa_error_peek()->op, fa_error_peek()->text);
        fa_tensor *t = fa_contiguous(all[i]);
        hash = fai_hash(fa_data(t), (size_t)fa_numel(t) * fa_dtype_size(fa_dtype_of(t)), hash);
    }
    return hash;
}

static void threads_do_not_show(void **state) {
    static uint64_t (*const works[])(void) = {train_mlp, train_cnn, large_sums};
    static const int threads[] = {1, 2, 3, 7};
    (void)state;
    const int before = fa_num_threads();
    for (int w = 0; w < 3; w++) {
        uint64_t first = 0;
        for (int i = 0; i < 4; i++) {
            fa_set_num_threads(threads[i]);
            const uint64_t hash = works[w]();
            if (i == 0) first = hash;
            if (hash != first) fail_msg("work %d ends in other bits with %d threads", w, threads[i]);
        }
    }
    fa_set_num_threads(before);
}

/* ---- the CPU and the device ---- */

static uint64_t draws = 12345;
static double draw(void) {
    draws = draws * 6364136223846793005u + 1442695040888963407u;
    return (double)(draws >> 40) / (1 << 24);
}

/* What rows work on, and now and then what they meet seldom. */
static double any_value(fa_dtype type, bool positive) {
    static const double special[] = {0.0,  -0.0, 1,     -1,   0.5,      1e-40,     3e38, -1e30,
                                     88.5, -104, 65504, 1e-7, INFINITY, -INFINITY, NAN};
    if (type == FA_BOOL) return positive || draw() < 0.5;
    if (!fa_dtype_is_floating(type)) {
        const double v = floor(draw() * (positive ? 9 : 19)) + (positive ? 1 : -9);
        return type == FA_UINT8 ? fabs(v) : draw() < 0.05 ? v * 12345 : v;
    }
    if (draw() < 0.06) return positive ? fabs(special[(int)(draw() * 12)]) : special[(int)(draw() * 15)];
    const double v = (draw() - 0.5) * (draw() < 0.3 ? 20 : 4);
    return positive ? fabs(v) : v;
}

/* The same elements on both devices, laid out in the same way. */
typedef struct twin {
    fa_tensor *here, *there;
} twin;

static fa_tensor *lay_out(const double *values, fa_dtype type, fa_shape shape, char layout, fa_device on) {
    fa_shape room = shape;
    if (layout == 't') room.dim[0] = shape.dim[2], room.dim[2] = shape.dim[0];
    if (layout == 's') room.dim[2] = 2 * shape.dim[2] + 1;
    if (layout == 'e') room.dim[0] = 1;
    fa_tensor *t = fa_from_data(values, FA_FLOAT64, room, .dtype = type, .device = on);
    if (layout == 't') return fa_transpose(t, 0, 2);
    if (layout == 's') return fa_slice(t, 2, 1, room.dim[2], 2);
    if (layout == 'f') return fa_flip(t, FA_DIMS(0, 2));
    return layout == 'e' ? fa_expand(t, shape) : t;
}

static twin make_twin(fa_dtype type, fa_shape shape, char layout, bool positive) {
    const int64_t n = golden_numel(shape) * 3;
    double *values = malloc((size_t)n * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < n; i++) values[i] = any_value(type, positive);
    const twin t = {lay_out(values, type, shape, layout, FA_CPU), lay_out(values, type, shape, layout, fa_accelerator())};
    free(values);
    if (!t.here || !t.there) fail_msg("%s", fa_error_peek()->text);
    return t;
}

/* All NaN are one: whose sign it carries is nobody's promise. */
static bool same_element(const char *a, const char *b, fa_dtype type, size_t each) {
    double x, y;
    if (!memcmp(a, b, each)) return true;
    if (!fa_dtype_is_floating(type)) return false;
    fai_convert(&x, FA_FLOAT64, a, type, 1);
    fai_convert(&y, FA_FLOAT64, b, type, 1);
    return isnan(x) && isnan(y);
}

static void compare(const char *what, fa_dtype type, char layout, fa_tensor *here, fa_error error_here, fa_tensor *there,
                    fa_error error_there) {
    const char *where = fa_dtype_name(type);
    if (!here || !there) {
        refused++;
        if (here || there || error_here.code != error_there.code)
            wrong++, print_message("%s %s layout %c: the CPU says '%s', the device '%s'\n", what, where, layout,
                                   error_here.code ? error_here.text : "fine", error_there.code ? error_there.text : "fine");
        return;
    }
    const fa_dtype result = fa_dtype_of(here);
    const size_t each = fa_dtype_size(result), n = (size_t)fa_numel(here);
    if (fa_dtype_of(there) != result || (size_t)fa_numel(there) != n)
        fail_msg("%s %s layout %c: other type or size", what, where, layout);
    if (result == FA_FLOAT64) return; /* functions of float64 are the platform's */
    char *a = malloc(2 * n * each + 1), *b = a + n * each;
    assert_true(a && fa_to_data(here, a, result) && fa_to_data(there, b, result));
    compared++;
    for (size_t i = 0; i < n; i++) {
        if (same_element(a + i * each, b + i * each, result, each)) continue;
        double x = 0, y = 0;
        fai_convert(&x, FA_FLOAT64, a + i * each, result, 1);
        fai_convert(&y, FA_FLOAT64, b + i * each, result, 1);
        wrong++;
        print_message("%s %s layout %c: element %zu is %.17g on the CPU, %.17g on the device\n", what, where, layout, i, x, y);
        break;
    }
    free(a);
}

/* ---- rows ---- */

static void compare_row(int row, fa_dtype type, int layout) {
    FA_SCOPE;
    const fai_row_info *info = &fai_rows[row];
    const fa_shape shape = FA_SHAPE(5, 7, 30);
    const bool derivative = fai_row_apis[row].name == NULL;
    bool bool_result, divides = false; /* integers by 0: an error on the CPU, any number on a device, as in PyTorch */
    if (!derivative) fai_row_types(row, &bool_result, &divides);
    fai_operand here[4] = {{0}}, there[4] = {{0}};
    for (int k = 0; k < info->noperands; k++) {
        const twin t = make_twin(type, shape, layouts[(layout + k * (layout % 2)) % LAYOUTS], (derivative || divides) && k > 0);
        here[k].tensor = t.here, there[k].tensor = t.there;
    }
    const fa_dtype result = derivative ? type : FA_DTYPE_DEFAULT;
    fa_tensor *a = fai_row_raw(info->name, row, info->noperands, here, info->params, result);
    const fa_error error_a = fa_error_take();
    fa_tensor *b = fai_row_raw(info->name, row, info->noperands, there, info->params, result);
    if (b && !fa_synchronize(fa_accelerator())) b = NULL;
    compare(info->name, type, layouts[layout], a, error_a, b, fa_error_take());
}

static void rows_agree(void **state) {
    (void)state;
    compared = refused = wrong = 0;
    for (int row = 0; row < FAI_ROW_COUNT; row++)
        for (int t = 0; t < TYPES; t++) {
            if (!(fai_rows[row].computes >> fai_compute(types[t]) & 1)) continue;
            if (!fai_row_apis[row].name && !fa_dtype_is_floating(types[t]))
                continue; /* derivatives are of numbers that have them */
            for (int layout = 0; layout < LAYOUTS; layout++) compare_row(row, types[t], layout);
        }
    print_message("%d rows: %ld results compared, %ld refused alike\n", FAI_ROW_COUNT, compared, refused);
    assert_true(compared > FAI_ROW_COUNT);
    assert_int_equal(wrong, 0);
}

/* ---- reductions ---- */

static void compare_reduction(int reduction, fa_dtype type, int layout) {
    static const fa_shape dims[] = {{0, {0}}, {1, {0}}, {1, {1}}, {1, {2}}, {2, {0, 2}}, {2, {0, 1}}};
    FA_SCOPE;
    const char *name = fai_reduces[reduction].name;
    const twin x = make_twin(type, FA_SHAPE(33, 7, 130), layouts[layout], false);
    for (int d = 0; d < (int)(sizeof dims / sizeof *dims); d++) {
        fa_tensor *a = fai_reduction_forward(name, reduction, x.here, dims[d], false);
        const fa_error error_a = fa_error_take();
        fa_tensor *b = fai_reduction_forward(name, reduction, x.there, dims[d], false);
        compare(name, type, layouts[layout], a, error_a, b, fa_error_take());
    }
}

static void reductions_agree(void **state) {
    (void)state;
    compared = refused = wrong = 0;
    for (int reduction = 0; reduction < FAI_REDUCE_COUNT; reduction++)
        for (int t = 0; t < TYPES; t++)
            for (int layout = 0; layout < LAYOUTS; layout++) compare_reduction(reduction, types[t], layout);
    print_message("%d reductions: %ld results compared, %ld refused alike\n", FAI_REDUCE_COUNT, compared, refused);
    assert_true(compared > FAI_REDUCE_COUNT);
    assert_int_equal(wrong, 0);
}

/* ---- views, copies and movement: what tensor.tab has in those two sections, on the golden file's arguments ---- */

static char movement[128][40];
static int nmovement;

static void read_movement(void) {
    char line[2048], section[80] = "";
    FILE *table = fopen("src/ops/tensor.tab", "r");
    if (!table) fail_msg("src/ops/tensor.tab can't be read: run from the root of the source");
    while (fgets(line, sizeof line, table)) {
        if (strncmp(line, "# -- ", 5) == 0) snprintf(section, sizeof section, "%.70s", line + 5);
        const bool wanted =
            strncmp(section, "views", 5) == 0 || strncmp(section, "copies", 6) == 0 || strncmp(section, "indexing", 8) == 0;
        if (line[0] != '#' && wanted && nmovement < 128 && sscanf(line, "%39[a-z0-9_]", movement[nmovement]) == 1) nmovement++;
    }
    fclose(table);
}

static bool moves(const char *op) {
    for (int i = 0; i < nmovement; i++)
        if (strcmp(movement[i], op) == 0) return true;
    return false;
}

static fa_tensor *run_case(const golden_case *c, const golden_call *call, fa_dtype type, char layout, fa_device on,
                           fa_error *error) {
    fa_tensor *inputs[GOLDEN_MAX_TENSORS], *second = NULL;
    for (int i = 0; i < c->ntensors; i++) {
        inputs[i] = c->tensors[i].null ? NULL : golden_input(c, i, type, layout, on);
        if (!inputs[i] && !c->tensors[i].null) fail_msg("%s (line %d): %s", c->op, c->line, fa_error_peek()->text);
    }
    fa_tensor *r = golden_run(c, call, type, on, inputs, &second);
    if (r && !fa_synchronize(on)) r = NULL;
    *error = fa_error_take();
    return r;
}

static void compare_case(const golden_case *c, const golden_call *call) {
    for (int t = 0; t < TYPES; t++)
        for (const char *layout = "ctsfeM"; *layout; layout++) {
            if (*layout == 'e' && !strchr(c->layouts, 'e') && c->ntensors && c->tensors[0].shape.ndim == 0) continue;
            FA_SCOPE;
            fa_error error_a, error_b;
            fa_tensor *a = run_case(c, call, types[t], *layout, FA_CPU, &error_a);
            fa_tensor *b = run_case(c, call, types[t], *layout, fa_accelerator(), &error_b);
            compare(c->op, types[t], *layout, a, error_a, b, error_b);
        }
}

static void movement_agrees(void **state) {
    static golden_case c;
    golden_file file;
    char last[48] = "";
    int number = 0;
    (void)state;
    read_movement();
    compared = refused = wrong = 0;
    assert_true(golden_open(&file, GOLDEN_FILES));
    for (; golden_next(&file, &c); golden_free(&c)) {
        if (strcmp(last, c.op) != 0) number = 0;
        snprintf(last, sizeof last, "%s", c.op);
        if (moves(c.op) && number++ < 3 && strcmp(c.op, "to_device") != 0) compare_case(&c, golden_find_call(c.op));
    }
    golden_free(&c);
    golden_close(&file);
    print_message("%d operators that move elements: %ld results compared, %ld refused alike\n", nmovement, compared, refused);
    assert_true(compared > nmovement);
    assert_int_equal(wrong, 0);
}


int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(threads_do_not_show), TEST(rows_agree), TEST(reductions_agree),
                                       TEST(movement_agrees)};
    if (!test_on_opencl()) setenv("FACULA_SIM", "cuda:1", 0);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : fa_finish("test_bits");
}
