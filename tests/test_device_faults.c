/* A device that fails: the n-th launch is refused, or is accepted and fails later; the n-th copy fails; the device is lost; there
 * is no memory from the n-th allocation on; a copy to the host brings a wrong bit. Each at every point of a training of twenty
 * steps on the first of two simulated devices. After each the error names the right operator and says where it happened, nothing
 * hangs, the other device and the CPU go on, parameters can be saved, nothing is left behind, and the same work then succeeds
 * and ends as it did the first time (a lost device: once it is there again).
 *
 * test-env: FACULA_SIM=cuda:2
 * test-limit: 300
 * test-tags: threads */
#include "support/faulty.h"
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
enum { STEPS = 2 }; /* what two threads do shows in the first steps */
#else
enum { STEPS = 20 };
#endif
enum { LAUNCHES = 8192, SECONDS = 20 };

typedef struct kind {
    const char *name, *counted[5];
    bool sticky;
} kind;
static const kind kinds[] = {
    {"launch", {"launch"}, false},     {"late", {"launch"}, false},
    {"copy", {"copy", "fill"}, false}, {"lost", {"launch", "copy", "alloc", "fill"}, false},
    {"alloc", {"alloc"}, true},        {"flip", {"copy_to_host"}, false},
};
enum { KIND_LAUNCH, KIND_LATE, KIND_COPY, KIND_LOST, KIND_ALLOC, KIND_FLIP, KINDS };

static char op_of[LAUNCHES][48]; /* which operator made each launch: what the refused launches told */
static char path[64];
static double reference; /* the last loss of a training without a fault */
static int last_step;    /* where the last training came to */
static fa_module *on_host;

/* ---- the training ---- */

/* Twenty steps; each batch comes from the CPU. The last loss; with an error set it means nothing. */
static double train(fa_module **out) {
    double loss_now = 0;
    fa_manual_seed(5);
    fa_module *net = fa_sequential(fa_nn_conv2d(1, 4, 3, .padding = FA_DIMS(1)), fa_nn_batch_norm2d(4), fa_nn_relu(),
                                   fa_nn_max_pool2d(2), fa_nn_flatten(), fa_nn_dropout(0.1), fa_nn_linear(16, 5));
    if (!fa_module_to(net, device)) return 0;
    *out = net;
    fa_optimizer *optimizer = fa_adamw(net, .lr = 1e-2);
    fa_tensor *x = fa_rand(FA_SHAPE(24, 1, 4, 4)), *y = fa_randint(0, 5, FA_SHAPE(24));
    fa_loader *loader = fa_loader(fa_tensor_dataset(x, y), .batch_size = 8, .shuffle = true);
    for (last_step = 0; last_step < STEPS && !fa_failed();) {
        FA_SCOPE;
        fa_tensor *batch[2];
        if (!fa_next(loader, batch)) continue; /* the end of an epoch */
        fa_tensor *loss = fa_cross_entropy(fa_call(net, fa_to(batch[0], device)), fa_to(batch[1], device));
        fa_zero_grad(optimizer);
        fa_backward(loss);
        fa_step(optimizer);
        loss_now = fa_item(loss);
        last_step++;
    }
    fa_zero_grad(optimizer);
    return loss_now;
}

/* ---- what holds after every fault ---- */

static bool works_on(fa_device on) {
    FA_SCOPE;
    fa_tensor *x = fa_full(FA_SHAPE(100), 2, .device = on, .dtype = FA_FLOAT32);
    return fa_item(fa_sum(fa_mul(x, x))) == 400 && !fa_failed();
}

static void expect(bool right, const char *what, const char *kind_name, int n, const fa_error *e) {
    if (right) return;
    fail_msg("%s:%d (step %d): %s. The error was: code %d of '%s': %s", kind_name, n, last_step, what, e->code, e->op, e->text);
}

static void check_message(int k, int n, uint64_t launched, const fa_error *e) {
    char number[48];
    const fa_code code = k == KIND_ALLOC ? FA_ERR_DEVICE_MEMORY : FA_ERR_DEVICE;
    expect(e->code == code && e->op[0], "not the code that was expected", kinds[k].name, n, e);
    expect(strstr(e->text, k == KIND_ALLOC ? "CUDA out of memory" : "cuda:0") != NULL, "the text does not say where",
           kinds[k].name, n, e);
    if (k == KIND_LAUNCH && n < LAUNCHES) snprintf(op_of[n], sizeof op_of[n], "%s", e->op);
    if (k != KIND_LATE) return;
    snprintf(number, sizeof number, "launch number %llu;", (unsigned long long)(launched + (uint64_t)n));
    expect(strstr(e->text, number) != NULL, "the text does not give the number of the launch", "late", n, e);
    if (op_of[n][0] && strcmp(op_of[n], e->op) != 0)
        fail_msg("late:%d: '%s' is named, but '%s' made that launch: %s", n, e->op, op_of[n], e->text);
}

static void check_others(int k, int n, const fa_error *e) {
    expect(works_on(FA_CPU), "the CPU does not go on", kinds[k].name, n, e);
    expect(works_on(FA_CUDA(1)), "the other device does not go on", kinds[k].name, n, e);
    expect(fa_save_module(path, on_host), "parameters on the host can't be saved", kinds[k].name, n, e);
    if (k != KIND_LOST) expect(works_on(FA_CUDA(0)), "the device itself does not go on", kinds[k].name, n, e);
}

/* ---- one fault ---- */

/* False: there are no more points of this kind. */
static bool one_fault(int k, int n, bool train_again) {
    char spec[40];
    FA_SCOPE;
    snprintf(spec, sizeof spec, "%s:%d%s", kinds[k].name, n, kinds[k].sticky ? "+" : "");
    fa_empty_cache(device);
    const uint64_t allocated = fa_memory_allocated(device), launched = fa_device_get_counts(device).launches;
    alarm(SECONDS); /* nothing hangs */
    {
        FA_SCOPE;
        fa_module *net = NULL;
        sim_faults(spec);
        const double loss = train(&net);
        const bool fired = sim_count("injected") > 0;
        const fa_error e = fa_error_take();
        if (!fired) {
            expect(e.code == FA_OK && loss == reference, "without a fault it does not end as it did", kinds[k].name, n, &e);
            return false;
        }
        if (k == KIND_FLIP)
            expect(e.code == FA_OK, "a wrong bit is no error where nothing was promised", kinds[k].name, n, &e);
        else if (k != KIND_ALLOC || e.code)
            check_message(k, n, launched, &e);
        if (k == KIND_LOST)
            expect(!works_on(device) && fa_error_take().code == FA_ERR_DEVICE, "a lost device still works", "lost", n, &e);
        if (k == KIND_ALLOC) sim_faults(NULL);
        check_others(k, n, &e);
        if (k != KIND_LOST && net && e.code && !fa_save_module(path, net)) { /* what the launch took along is refused, not saved as garbage */
            const fa_error refusal = fa_error_take();
            expect(k == KIND_LATE && strstr(refusal.text, "has no contents") != NULL, "its parameters can't be saved", kinds[k].name, n, &e);
        }
    }
    sim_faults(NULL); /* and a lost device is there again */
    fa_synchronize(device);
    fa_error_take();
    const fa_error none = {0};
    if (k != KIND_LOST) expect(fa_memory_allocated(device) == allocated, "device memory is left", kinds[k].name, n, &none);
    if (train_again) {
        FA_SCOPE;
        fa_module *net;
        const double loss = train(&net);
        const fa_error e = fa_error_take();
        expect(e.code == FA_OK && loss == reference, "the same work does not succeed", kinds[k].name, n, &e);
    }
    alarm(0);
    return true;
}

/* How many points a training has. */
static int count_points(int k) {
    uint64_t before = 0, after = 0;
    {
        FA_SCOPE;
        fa_module *net;
        fa_empty_cache(device);
        for (int i = 0; i < 5 && kinds[k].counted[i]; i++) before += sim_count(kinds[k].counted[i]);
        assert_true(train(&net) == reference && !fa_failed());
    }
    for (int i = 0; i < 5 && kinds[k].counted[i]; i++) after += sim_count(kinds[k].counted[i]);
    return (int)(after - before);
}

static void every_point(int k) {
    fa_test_caches(k != KIND_ALLOC); /* else the allocator asks the driver once */
    const int points = count_points(k);
    for (int n = 1; n <= points; n++) assert_true(one_fault(k, n, n % 8 == 1 || n == points));
    assert_false(one_fault(k, points + 1, false));
    print_message("%-7s %d points\n", kinds[k].name, points);
}

static void launches_are_refused(void **state) { (void)state, every_point(KIND_LAUNCH); }
static void launches_fail_later(void **state) { (void)state, every_point(KIND_LATE); }
static void copies_fail(void **state) { (void)state, every_point(KIND_COPY); }
static void the_device_is_lost(void **state) { (void)state, every_point(KIND_LOST); }
static void memory_runs_out(void **state) { (void)state, every_point(KIND_ALLOC); }
static void bits_flip(void **state) { (void)state, every_point(KIND_FLIP); }

static int prepare(void **state) {
    fa_module *net;
    (void)state;
    find_simulator();
    if (!sim_faults || fa_device_count(FA_DEVICE_CUDA) < 2) return printf("two simulated devices are needed\n"), -1;
    snprintf(path, sizeof path, "/tmp/facula_device_faults_%d.safetensors", (int)getpid());
    device = FA_CUDA(0);
    on_host = fa_nn_linear(3, 4);
    if (!works_on(FA_CUDA(1))) return -1;
    FA_SCOPE;
    reference = train(&net);
    return fa_failed() ? -1 : 0;
}

static int finish(void **state) { return (void)state, remove(path); }

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(launches_are_refused), TEST(launches_fail_later), TEST(copies_fail),
                                       TEST(the_device_is_lost),   TEST(memory_runs_out),     TEST(bits_flip)};
    setenv("FACULA_SIM", "cuda:2", 0);
    return cmocka_run_group_tests(tests, prepare, finish) ? 1 : fa_finish("test_device_faults");
}
