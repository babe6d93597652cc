/* NVIDIA's libraries in place of own kernels, by the simulator's stand-ins, which refuse every call that is not right: what they compute is
 * what the CPU computes, what they don't take the own kernels do and say why, their memory comes from the allocator and goes
 * back, and their failures are told by the operator's name.
 *
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=64MiB FACULA_SIM_LIBRARIES=cublaslt,cudnn
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=64MiB FACULA_SIM_LIBRARIES=cublaslt,cudnn FACULA_SIM_SEED=3
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=64MiB FACULA_SIM_LIBRARIES=cublaslt,cudnn FACULA_CUBLAS=off FACULA_CUDNN=off
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=64MiB
 *   test-tags: threads */
#include "autograd/autograd.h"
#include "support/faults.h"
#include <math.h>
#include <pthread.h>

static bool products, convolutions; /* cuBLASLt serves, cuDNN serves */

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

/* ---- convolutions ---- */

typedef struct shape { int64_t in[4], weight[4]; int stride, padding, dilation, groups; } shape;

static fa_tensor *conv(fa_tensor *x, fa_tensor *w, fa_tensor *b, const shape *s) {
    return fa_conv2d(x, w, .bias = b, .stride = FA_SHAPE(s->stride, s->stride), .padding = FA_SHAPE(s->padding, s->padding),
                     .dilation = FA_SHAPE(s->dilation, s->dilation), .groups = s->groups);
}

/* One convolution and its gradients there and on the CPU, with and without biases. */
static void compare_conv(const shape *s, fa_dtype type, bool biased, int line) {
    FA_SCOPE;
    fa_tensor *x[2], *w[2], *b[2] = {NULL, NULL}, *y[2];
    const fa_library_info before = library("cudnn");
    for (int i = 0; i < 2; i++) {
        const fa_device where = i ? device : FA_CPU;
        fa_manual_seed(11);
        x[i] = fa_requires_grad(r(type, where, FA_SHAPE(s->in[0], s->in[1], s->in[2], s->in[3])), true);
        w[i] = fa_requires_grad(r(type, where, FA_SHAPE(s->weight[0], s->weight[1], s->weight[2], s->weight[3])), true);
        if (biased) b[i] = fa_requires_grad(r(type, where, FA_SHAPE(s->weight[0])), true);
        y[i] = conv(x[i], w[i], b[i], s);
        assert_true(fa_backward(fa_sum(y[i])));
    }
    const double most = (type == FA_FLOAT16 || type == FA_BFLOAT16 ? 4 : 3) * tolerance(type);
    const double d[] = {distance(fa_detach(y[1]), fa_detach(y[0])), distance(fa_grad(x[1]), fa_grad(x[0])), distance(fa_grad(w[1]), fa_grad(w[0])),
                        biased ? distance(fa_grad(b[1]), fa_grad(b[0])) : 0};
    for (int k = 0; k < 4; k++)
        if (!(d[k] <= most)) fail_msg("shape %d, %s, %d: %g", line, fa_dtype_name(type), k, d[k]);
    const fa_library_info after = library("cudnn");
    assert_int_equal(after.calls - before.calls, convolutions ? 3 : 0);
    assert_int_equal(after.declined, before.declined);
}

static void convolutions_of_all_forms(void **state) {
    static const shape shapes[] = {{{2, 3, 7, 6}, {4, 3, 3, 3}, 1, 0, 1, 1}, {{2, 3, 9, 8}, {4, 3, 3, 2}, 2, 1, 1, 1},
                                   {{1, 4, 9, 9}, {6, 2, 3, 3}, 1, 2, 2, 2}, {{3, 4, 5, 5}, {4, 1, 2, 2}, 3, 1, 1, 4},
                                   {{2, 5, 1, 1}, {3, 5, 1, 1}, 1, 0, 1, 1}};
    (void)state;
    fa_set_math_modes(0, FA_MATH_CONV_TF32);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int t = 0; t < 4; t++)
            for (int biased = 0; biased < 2; biased++) compare_conv(&shapes[i], types[t], biased, (int)i);
}

static double conv_third(void) {
    return fa_item(fa_conv2d(fa_full(FA_SHAPE(1, 1, 1, 1), 1.0 / 3, .device = device), fa_ones(FA_SHAPE(1, 1, 1, 1), .device = device)));
}

static void tf32_in_convolutions_unless_forbidden(void **state) {
    (void)state;
    FA_SCOPE;
    assert_true(conv_third() == (convolutions ? 1365.0 / 4096 : (double)(1.0f / 3)));
    fa_set_math_modes(0, FA_MATH_CONV_TF32);
    assert_true(conv_third() == (double)(1.0f / 3));
    fa_set_math_modes(FA_MATH_CONV_TF32, FA_MATH_CONV_LIBRARY);
    assert_true(conv_third() == (double)(1.0f / 3));
    if (convolutions) assert_string_equal(library("cudnn").why, "the own kernels are preferred");
}

/* The most that a backward pass took beside its results: algorithm 1 wants a workspace, number 0 wants none. */
static uint64_t room_of_backward(unsigned modes) {
    FA_SCOPE;
    fa_set_math_modes(modes, 0);
    fa_tensor *g = fa_ones(FA_SHAPE(1, 2, 3, 3), .device = device), *w = fa_ones(FA_SHAPE(2, 2, 2, 2), .device = device);
    const uint64_t before = fa_memory_allocated(device);
    fa_reset_peak_memory_stats(device);
    assert_non_null(fa_conv2d_input(g, w, FA_SHAPE(1, 2, 4, 4), FA_SHAPE(1, 1), FA_SHAPE(0, 0), FA_SHAPE(1, 1), 1));
    const uint64_t most = fa_max_memory_allocated(device) - before;
    fa_set_math_modes(0, modes);
    return most;
}

static void the_switches_choose_the_algorithm(void **state) {
    (void)state;
    const uint64_t room = convolutions ? 32768 : 0;
    assert_int_equal(room_of_backward(0), 512 + room);
    assert_int_equal(room_of_backward(FA_MATH_CONV_DETERMINISTIC), 512);
    assert_int_equal(room_of_backward(FA_MATH_DETERMINISTIC), 512);
    assert_int_equal(room_of_backward(FA_MATH_CONV_BENCHMARK), 512); /* measured, the other one is faster */
    assert_int_equal(room_of_backward(0), 512 + room);
}

static void failures_of_convolutions_name_them(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_ones(FA_SHAPE(1, 2, 4, 4), .device = device), *w = fa_ones(FA_SHAPE(2, 2, 2, 2), .device = device), *b = fa_ones(FA_SHAPE(2), .device = device);
    assert_true(fa_item(fa_sum(fa_conv2d(x, w, .bias = b))) == 18 * 9);
    for (int n = 1; n <= 1 + convolutions; n++) { /* the convolution, its bias */
        assert_int_equal(sim_faults(n == 1 ? "launch:1" : "launch:2"), 0);
        assert_null(fa_conv2d(x, w, .bias = b));
        const fa_error e = fa_error_take();
        assert_string_equal(e.op, "conv2d");
        if (convolutions) assert_int_equal(strncmp(e.text, n == 1 ? "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED when calling `cudnnConvolutionForward`: " : "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED when calling `cudnnAddTensor`: ", 70), 0);
        sim_faults(NULL);
    }
    assert_int_equal(sim_faults("late:1"), 0);
    fa_tensor *y = fa_conv2d(x, w, .bias = b);
    assert_true(y && !fa_synchronize(device));
    assert_string_equal(fa_error_take().op, "conv2d");
    sim_faults(NULL);
    assert_true(fa_item(fa_sum(fa_conv2d(x, w, .bias = b))) == 18 * 9);
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
    const fa_library_info dnn = library("cudnn");
    assert_int_equal(dnn.usable, convolutions);
    assert_int_equal(dnn.version, convolutions ? 90300 : 0);
    if (!convolutions) assert_string_equal(dnn.why, there ? "FACULA_CUDNN=off" : "not found");
    assert_int_equal(info.usable, products);
    assert_int_equal(info.version, products ? 130000 : 0);
    if (products) assert_non_null(strstr(info.file, "libfacula_sim.so"));
    else assert_string_equal(info.why, there ? "FACULA_CUBLAS=off" : "not found");
    assert_false(fa_library_get(FA_DEVICE_CUDA, 99, &none));
    assert_false(fa_library_get(FA_DEVICE_XPU, 0, &none));
    assert_false(fa_library_get(FA_DEVICE_CPU, 0, &none));
}

static void why_not_tells_the_steps(void **state) {
    (void)state;
    char text[4096], little[16];
    const size_t n = fa_device_why_not(FA_DEVICE_CUDA, text, sizeof text);
    assert_int_equal(n, strlen(text));
    assert_int_equal(strncmp(text, "cuda: 2 devices\n  ok    FACULA_SIM=cuda:2: simulated devices", 59), 0);
    assert_non_null(strstr(text, "\n  ok    it shows 2 devices\n"));
    assert_non_null(strstr(text, products ? "\n  ok    cublaslt 130000 is used: " : getenv("FACULA_CUBLAS") ? "\n  ok    cublaslt is not used (FACULA_CUBLAS=off); " : "\n  ok    cublaslt is not used (not found); "));
    assert_int_equal(fa_device_why_not(FA_DEVICE_CUDA, little, sizeof little), n);
    assert_string_equal(little, "cuda: 2 devices");
    assert_int_equal(fa_device_why_not(FA_DEVICE_CUDA, NULL, 0), n);
    assert_true(fa_device_why_not(FA_DEVICE_CPU, text, sizeof text) > 0 && strstr(text, "the processor is always there"));
    assert_int_equal(fa_device_why_not(15, text, sizeof text), 0);
    assert_non_null(strstr(fa_error_take().text, "device type 15 is unknown: give FA_DEVICE_CUDA or fa_device_parse(\"cuda\").type"));
    fa_test_fail_allocation(1, true);
    assert_int_equal(fa_device_why_not(FA_DEVICE_CUDA, text, sizeof text), 0);
    fa_test_fail_allocation(0, false);
    assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
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
                                       TEST(convolutions_of_all_forms),
                                       TEST(tf32_in_convolutions_unless_forbidden),
                                       TEST(the_switches_choose_the_algorithm),
                                       TEST(failures_of_convolutions_name_them),
                                       TEST(a_workspace_comes_from_the_allocator),
                                       TEST(failures_name_the_operator),
                                       TEST(memory_fails),
                                       TEST(threads_and_devices),
                                       TEST(a_library_is_described),
                                       TEST(why_not_tells_the_steps)};
    find_simulator();
    if (!sim_faults) return 77;
    const char *wish = getenv("FACULA_SIM_LIBRARIES"), *off = getenv("FACULA_CUBLAS");
    products = wish && strstr(wish, "cublaslt") && !off;
    convolutions = wish && strstr(wish, "cudnn") && !getenv("FACULA_CUDNN");
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + fa_finish("test_libraries");
}
