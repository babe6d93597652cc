/* NVIDIA's libraries in place of own kernels, by the simulator's stand-ins, which refuse every call that is not right: what they compute is
 * what the CPU computes, what they don't take the own kernels do and say why, their memory comes from the allocator and goes
 * back, and their failures are told by the operator's name.
 *
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=64MiB FACULA_SIM_LIBRARIES=cublaslt
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=64MiB FACULA_SIM_LIBRARIES=cublaslt FACULA_SIM_SEED=3
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=64MiB FACULA_SIM_LIBRARIES=cublaslt FACULA_CUBLAS=off
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=64MiB
 *   test-tags: threads */
#include "autograd/autograd.h"
#include "support/faults.h"
#include <math.h>
#include <pthread.h>

static bool products; /* cuBLASLt serves */

static fa_library_info library(const char *name) {
    fa_library_info info;
    for (int i = 0; fa_library_get(FA_DEVICE_CUDA, i, &info); i++)
        if (!strcmp(info.name, name)) return info;
    fail_msg("there is no library %s", name);
    return info;
}

static int begin(void **state) {
    (void)state;
    fa_manual_seed(1);
    fa_scope_open();
    return 0;
}

static int end(void **state) {
    (void)state;
    const fa_error e = fa_error_take();
    if (e.code) fprintf(stderr, "%s: %s\n", e.op, e.text);
    fa_set_math_modes(FA_MATH_CONV_TF32 | FA_MATH_MATMUL_LIBRARY | FA_MATH_CONV_LIBRARY, ~0u);
    fa_scope_close();
    sim_faults(NULL);
    return e.code ? -1 : 0;
}

/* Largest difference, relative to the largest element. */
static double distance(fa_tensor *found, fa_tensor *wanted) {
    if (!found || !wanted) return INFINITY;
    wanted = fa_cast(wanted, FA_FLOAT64);
    const double most = fa_item(fa_amax(fa_abs(wanted)));
    return fa_item(fa_amax(fa_abs(fa_sub(fa_cast(fa_to(found, FA_CPU), FA_FLOAT64), wanted)))) / (most > 0 ? most : 1);
}

static double tolerance(fa_dtype type) { return type == FA_FLOAT16 ? 2e-3 : type == FA_BFLOAT16 ? 1e-2 : type == FA_FLOAT32 ? 1e-5 : 1e-13; }

/* ---- products ---- */

typedef struct form { fa_tensor *a, *b; const char *why; } form; /* why: what it is declined for; NULL: it is taken */

static fa_tensor *r(fa_dtype type, fa_device where, fa_shape shape) { return fa_to(fa_cast(fa_randn(shape), type), where); }
#define R(...) r(type, where, FA_SHAPE(__VA_ARGS__))

/* The same numbers on each device, the same views of them. */
static int forms(fa_dtype type, fa_device where, form *f) {
    int n = 0;
    fa_manual_seed(3);
    f[n++] = (form){R(5, 7), R(7, 3), NULL};
    f[n++] = (form){fa_t(R(7, 5)), R(7, 3), NULL};
    f[n++] = (form){R(5, 7), fa_t(R(3, 7)), NULL};
    f[n++] = (form){fa_t(R(7, 5)), fa_t(R(3, 7)), NULL};
    f[n++] = (form){R(1, 7), R(7, 1), NULL};
    f[n++] = (form){R(6, 1), R(1, 4), NULL};
    f[n++] = (form){R(9, 100), R(100, 8), NULL}; /* long sums: it wants a workspace */
    f[n++] = (form){fa_narrow(R(5, 12), 1, 2, 7), fa_narrow(R(9, 3), 0, 1, 7), NULL};
    f[n++] = (form){R(4, 5, 7), R(4, 7, 3), NULL};
    f[n++] = (form){R(2, 4, 5, 7), R(7, 3), NULL};
    f[n++] = (form){R(5, 7), R(6, 7, 3), NULL}; /* one of them is the same for the whole batch */
    f[n++] = (form){R(2, 3, 5, 7), fa_transpose(R(2, 3, 4, 7), 2, 3), NULL};
    f[n++] = (form){R(2, 1, 5, 7), R(1, 3, 7, 4), "a batch has no common stride"};
    f[n++] = (form){fa_slice(R(5, 14), 1, 0, 14, 2), R(7, 3), "neither rows nor columns of a matrix are dense"};
    f[n++] = (form){fa_expand(R(1, 7), FA_SHAPE(5, 7)), R(7, 3), "neither rows nor columns of a matrix are dense"};
    f[n++] = (form){R(5, 0), R(0, 3), "there is nothing to sum"};
    return n;
}

/* How often cuBLASLt served and declined since before. */
static void check_use(const fa_library_info *before, uint64_t calls, uint64_t declined, const char *why, int line) {
    const fa_library_info now = library("cublaslt");
    if (!products) calls = declined = 0;
    if (now.calls - before->calls != calls || now.declined - before->declined != declined)
        fail_msg("line %d: served %d times, declined %d times: %s", line, (int)(now.calls - before->calls), (int)(now.declined - before->declined), now.why);
    if (products && why) assert_string_equal(now.why, why);
}

static const fa_dtype types[] = {FA_FLOAT32, FA_FLOAT64, FA_FLOAT16, FA_BFLOAT16};

static void products_of_all_forms(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++) {
        FA_SCOPE;
        form here[32], there[32];
        const int n = forms(types[t], FA_CPU, here);
        forms(types[t], device, there);
        for (int i = 0; i < n; i++) {
            FA_SCOPE;
            const fa_library_info before = library("cublaslt");
            fa_tensor *found = fa_gemm(there[i].a, there[i].b);
            check_use(&before, !there[i].why, there[i].why != NULL, there[i].why, i);
            const double d = distance(found, fa_gemm(here[i].a, here[i].b));
            if (!(d <= tolerance(types[t]))) fail_msg("form %d of %s: %g", i, fa_dtype_name(types[t]), d);
        }
    }
}

static void integers_are_ours(void **state) {
    (void)state;
    FA_SCOPE;
    const fa_library_info before = library("cublaslt");
    fa_tensor *a = fa_full(FA_SHAPE(4, 4), 3, .dtype = FA_INT32, .device = device);
    assert_true(fa_item(fa_sum(fa_matmul(a, a))) == 16 * 36);
    check_use(&before, 0, 0, NULL, __LINE__);
}

/* A layer's product with its bias, and the derivatives of both. */
static void layers_and_gradients(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int rows = 1; rows < 200; rows = rows * 5 + 2) {
            FA_SCOPE;
            fa_tensor *x[2], *w[2], *b[2], *y[2];
            for (int i = 0; i < 2; i++) {
                const fa_device where = i ? device : FA_CPU;
                fa_manual_seed(7);
                x[i] = fa_requires_grad(r(types[t], where, FA_SHAPE(rows, 70)), true);
                w[i] = fa_requires_grad(r(types[t], where, FA_SHAPE(9, 70)), true);
                b[i] = fa_requires_grad(r(types[t], where, FA_SHAPE(9)), true);
                const fa_library_info before = library("cublaslt");
                y[i] = fa_linear(x[i], w[i], b[i]);
                if (i) check_use(&before, t == 0, t == 1, t == 1 ? "it adds no biases to float64" : NULL, __LINE__);
                assert_true(fa_backward(fa_sum(fa_mul(y[i], y[i]))));
                if (i) check_use(&before, 2 + (t == 0), t == 1, NULL, __LINE__);
            }
            fa_tensor *const found[] = {y[1], fa_grad(x[1]), fa_grad(w[1]), fa_grad(b[1])},
                              *const wanted[] = {y[0], fa_grad(x[0]), fa_grad(w[0]), fa_grad(b[0])};
            for (int k = 0; k < 4; k++)
                if (!(distance(fa_detach(found[k]), fa_detach(wanted[k])) <= 3 * tolerance(types[t]))) fail_msg("%d rows, %d", rows, k);
        }
}

/* relu after a product keeps NaN, with a library too. */
static void relu_keeps_nan(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_full(FA_SHAPE(2, 3), NAN, .device = device), *w = fa_ones(FA_SHAPE(4, 3), .device = device);
    const fa_library_info before = library("cublaslt");
    assert_true(isnan(fa_item(fa_sum(fa_linear_relu(x, w, NULL)))));
    check_use(&before, 1, 0, NULL, __LINE__);
    fa_tensor *y = fa_linear_relu(fa_full(FA_SHAPE(2, 3), -1.0, .device = device), w, NULL);
    assert_true(fa_item(fa_sum(fa_abs(y))) == 0);
}

static double third(void) { /* 1/3 is rounded in TF32 */
    fa_tensor *a = fa_full(FA_SHAPE(1, 1), 1.0 / 3, .device = device), *b = fa_ones(FA_SHAPE(1, 1), .device = device);
    return fa_item(fa_matmul(a, b));
}

static void tf32_only_when_allowed(void **state) {
    (void)state;
    FA_SCOPE;
    assert_true(third() == (double)(1.0f / 3));
    assert_int_equal(fa_set_math_modes(FA_MATH_MATMUL_TF32, 0) & FA_MATH_MATMUL_TF32, 0);
    assert_true(third() == (products ? 1365.0 / 4096 : (double)(1.0f / 3)));
    assert_int_not_equal(fa_set_math_modes(0, FA_MATH_MATMUL_TF32) & FA_MATH_MATMUL_TF32, 0);
    assert_true(third() == (double)(1.0f / 3));
}

static void the_own_kernels_can_be_preferred(void **state) {
    (void)state;
    FA_SCOPE;
    fa_set_math_modes(0, FA_MATH_MATMUL_LIBRARY);
    const fa_library_info before = library("cublaslt");
    assert_true(third() == (double)(1.0f / 3));
    check_use(&before, 0, 1, "the own kernels are preferred", __LINE__);
    fa_set_math_modes(FA_MATH_MATMUL_LIBRARY, 0);
    assert_true(third() == (double)(1.0f / 3));
    check_use(&before, 1, 1, NULL, __LINE__);
}

/* ---- memory, faults ---- */

static void a_workspace_comes_from_the_allocator(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *a = fa_randn(FA_SHAPE(4, 4096), .device = device), *b = fa_randn(FA_SHAPE(4096, 4), .device = device);
    const uint64_t before = fa_memory_allocated(device);
    fa_reset_peak_memory_stats(device);
    for (int i = 0; i < 5; i++) {
        FA_SCOPE;
        assert_non_null(fa_matmul(a, b));
    }
    assert_int_equal(fa_memory_allocated(device), before);
    assert_int_equal(fa_max_memory_allocated(device) - before, 512 + (products ? 65536 : 0));
    assert_true(fa_synchronize(device));
}

static void failures_name_the_operator(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *a = fa_ones(FA_SHAPE(4, 4), .device = device);
    assert_true(fa_item(fa_sum(fa_matmul(a, a))) == 64);
    assert_int_equal(sim_faults("launch:1"), 0);
    assert_null(fa_matmul(a, a));
    fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_DEVICE);
    assert_string_equal(e.op, "matmul");
    if (products) {
        assert_int_equal(strncmp(e.text, "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasLtMatmul`: kernel cublasLtMatmul: injected fault launch:1", 115), 0);
        assert_non_null(strstr(e.text, "This happened on cuda:0 while calling cublasLtMatmul for 'matmul'"));
    }
    assert_int_equal(sim_faults("late:2"), 0);
    fa_tensor *c = fa_matmul(a, a), *d = fa_matmul(a, a), *x = fa_exp(a);
    assert_true(c && d && x);
    assert_false(fa_synchronize(device));
    e = fa_error_take();
    assert_string_equal(e.op, "matmul");
    assert_non_null(strstr(e.text, products ? "kernel cublasLtMatmul (launch " : "kernel gemm_f32 (launch "));
    assert_true(fa_item(fa_sum(c)) == 64);
    assert_false(fa_to(d, FA_CPU) != NULL);
    assert_non_null(strstr(fa_error_take().text, "'matmul', which failed, was to make it"));
    assert_true(fa_item(fa_sum(fa_matmul(a, a))) == 64);
}

static bool multiply_once(void *data) {
    FA_SCOPE;
    fa_tensor *const *ab = data;
    fa_tensor *c = fa_matmul(ab[0], ab[1]);
    return c && fa_synchronize(device) && !fa_failed();
}

/* Each allocation of the host and of the driver fails: the product is there, or an error is; the next one works. */
static void memory_fails(void **state) {
    (void)state;
    FA_SCOPE;
    const uint64_t declined = library("cublaslt").declined;
    int refused = 0;
    for (int n = 1; n < 12; n++) {
        fa_tensor *ab[2] = {fa_randn(FA_SHAPE(3 + n, 70), .device = device), fa_randn(FA_SHAPE(70, 5), .device = device)};
        assert_true(fa_synchronize(device)); /* a shape that is new each time */
        fa_test_fail_allocation((uint64_t)n, false);
        const bool fine = multiply_once(ab);
        fa_test_fail_allocation(0, false);
        refused += !fine;
        const fa_error e = fa_error_take();
        assert_true(fine || e.code == FA_ERR_MEMORY);
        assert_true(multiply_once(ab));
    }
    if (products) assert_true(refused + library("cublaslt").declined > declined); /* what it keeps of a shape could not be kept */
    fa_tensor *ab[2] = {fa_ones(FA_SHAPE(2, 700), .device = device), fa_ones(FA_SHAPE(700, 2), .device = device)};
    assert_true(fa_synchronize(device) && fa_empty_cache(device));
    fa_tensor *room = fa_empty(FA_SHAPE(1024), .device = device);
    sim_faults("alloc:1+");
    for (int64_t size = 1 << 20; size >= 128; size /= 2) { /* pieces of all sizes until none is left */
        while (fa_empty(FA_SHAPE(size), .device = device)) continue;
        assert_true(fa_error_take().code == FA_ERR_DEVICE_MEMORY);
    }
    fa_drop(room); /* for the result */
    const bool fine = multiply_once(ab);
    const fa_error e = fa_error_take();
    assert_true(fine == !products);
    if (products) assert_true(e.code == FA_ERR_DEVICE_MEMORY && strstr(e.text, "CUDA out of memory. Tried to allocate 64.00 KiB") && !strcmp(e.op, "matmul"));
    sim_faults(NULL);
    assert_true(multiply_once(ab));
}

/* No kernel of ours is compiled for what the library does. */
static void no_compiler_is_needed(void **state) {
    (void)state;
    FA_SCOPE;
    const fa_device other = FA_CUDA(1);
    fa_tensor *a = fa_to(fa_ones(FA_SHAPE(4, 4)), other);
    assert_int_equal(sim_faults("nvrtc:1"), 0);
    fa_tensor *c = fa_matmul(a, a);
    if (products) assert_true(c && fa_item(fa_sum(fa_to(c, FA_CPU))) == 64);
    else assert_non_null(strstr(fa_error_take().text, "NVRTC, CUDA's run-time compiler, was not found"));
}

static void *work(void *where) {
    const fa_device mine = *(const fa_device *)where;
    fa_scope_open();
    for (int i = 0; i < 60; i++) {
        FA_SCOPE;
        fa_tensor *a = fa_full(FA_SHAPE(1 + i % 20, 70), 1, .device = mine), *b = fa_full(FA_SHAPE(70, 1 + i % 7), 2, .device = mine);
        fa_tensor *c = fa_matmul(a, b);
        if (!c || fa_item(fa_amax(c)) != 140 || fa_item(fa_amin(c)) != 140) return where;
    }
    fa_scope_close();
    return NULL;
}

static void threads_and_devices(void **state) {
    (void)state;
    pthread_t thread[4];
    fa_device where[4];
    for (int i = 0; i < 4; i++) {
        where[i] = FA_CUDA(i % 2);
        assert_int_equal(pthread_create(&thread[i], NULL, work, &where[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *bad = NULL;
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
}

/* ---- what is told ---- */

static void a_library_is_described(void **state) {
    (void)state;
    const fa_library_info info = library("cublaslt");
    const bool there = getenv("FACULA_SIM_LIBRARIES") != NULL;
    fa_library_info none;
    assert_int_equal(info.usable, products);
    assert_int_equal(info.version, products ? 130000 : 0);
    if (products) assert_non_null(strstr(info.file, "libfacula_sim.so"));
    else assert_string_equal(info.why, there ? "FACULA_CUBLAS=off" : "not found");
    assert_false(fa_library_get(FA_DEVICE_CUDA, 99, &none));
    assert_false(fa_library_get(FA_DEVICE_XPU, 0, &none));
    assert_false(fa_library_get(FA_DEVICE_CPU, 0, &none));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {TEST(no_compiler_is_needed),
                                       TEST(products_of_all_forms),
                                       TEST(integers_are_ours),
                                       TEST(layers_and_gradients),
                                       TEST(relu_keeps_nan),
                                       TEST(tf32_only_when_allowed),
                                       TEST(the_own_kernels_can_be_preferred),
                                       TEST(a_workspace_comes_from_the_allocator),
                                       TEST(failures_name_the_operator),
                                       TEST(memory_fails),
                                       TEST(threads_and_devices),
                                       TEST(a_library_is_described)};
    find_simulator();
    if (!sim_faults) return 77;
    const char *wish = getenv("FACULA_SIM_LIBRARIES"), *off = getenv("FACULA_CUBLAS");
    products = wish && strstr(wish, "cublaslt") && !off;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + fa_finish("test_libraries");
}
