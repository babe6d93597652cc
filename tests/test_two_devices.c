/* Two models train for twenty steps, each on a device of its own, by turns; and at one point something fails: a launch or a copy is
 * refused, a launch fails later, there is no memory, a device is lost, an event never comes (a watchdog of one second), a kernel does
 * not build, the driver is too old. At every point (make check-faults; a choice by seed otherwise) the error names the operator that was
 * launched and its device, nothing hangs, the other device trains on to the same bits as without a fault and can be saved, nothing
 * is left behind, and the same work then succeeds.
 *
 *   test-env: FACULA_SIM=cuda:2
 *   test-env: FACULA_SIM=cuda:2 FACULA_WATCHDOG=1
 *   test-tags: threads soak faults
 *   test-limit: 300 */
#include "support/faulty.h"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
enum { STEPS = 3 };
#else
enum { STEPS = 20 };
#endif
enum { DEVICES = 2, LAUNCHES = 16384, SECONDS = 30, PARAMETERS = 4 };

typedef struct kind {
    const char *name, *counted[5];
    int chosen; /* points without FACULA_SOAK */
} kind;
static const kind kinds[] = {
    {"launch", {"launch"}, 40}, {"late", {"launch"}, 40},  {"copy", {"copy", "fill"}, 20},
    {"alloc", {"alloc"}, 12},   {"lost", {"launch", "copy", "alloc", "fill"}, 30}, {"hang", {"wait"}, 2},
};
enum { KIND_LAUNCH, KIND_LATE, KIND_COPY, KIND_ALLOC, KIND_LOST, KIND_HANG, KINDS };

static char op_of[LAUNCHES][48]; /* who made each launch: what the refused ones told */
static char path[2][64];
static const char *program;

/* ---- the training ---- */

typedef struct run {
    fa_module *net[DEVICES];
    fa_optimizer *optimizer[DEVICES];
    double loss[DEVICES];
    int steps[DEVICES];
    int failed; /* the device; -1: none */
    fa_error error;
} run;

static bits reference[DEVICES];
static double reference_loss[DEVICES];

static int device_in(const char *text) {
    const bool first = strstr(text, "cuda:0") || strstr(text, "GPU 0 has"), second = strstr(text, "cuda:1") || strstr(text, "GPU 1 has");
    return first == second ? -1 : second;
}

static bool begin_one(run *r, int d) {
    r->net[d] = fa_sequential(fa_nn_linear(4, 8), fa_nn_relu(), fa_nn_dropout(0.1), fa_nn_linear(8, 3));
    return fa_module_to(r->net[d], FA_CUDA(d)) && (r->optimizer[d] = fa_adamw(r->net[d], .lr = 1e-2));
}

static bool one_step(run *r, int d) {
    FA_SCOPE;
    fa_tensor *x = fa_rand(FA_SHAPE(6, 4)), *y = fa_randint(0, 3, FA_SHAPE(6));
    fa_tensor *loss = fa_cross_entropy(fa_call(r->net[d], fa_to(x, FA_CUDA(d))), fa_to(y, FA_CUDA(d)));
    (void)fa_empty(FA_SHAPE(1 << 19), .device = FA_CUDA(d)); /* memory that is asked for in each step if nothing is kept */
    fa_zero_grad(r->optimizer[d]);
    fa_backward(loss);
    fa_step(r->optimizer[d]);
    const double now = fa_item(loss);
    if (fa_failed()) return false;
    r->loss[d] = now;
    r->steps[d]++;
    return true;
}

/* Both, by turns; what fails stops, and the other one goes on. Each draws from the CPU's generator set back for it. */
static void train(run *r) {
    *r = (run){.failed = -1};
    for (int step = -1; step < STEPS; step++) {
        for (int d = 0; d < DEVICES; d++) {
            if (r->failed == d) continue;
            fa_manual_seed((uint64_t)(step + 2) * 2 + (uint64_t)d);
            if (step < 0 ? begin_one(r, d) : one_step(r, d)) continue;
            const fa_error e = fa_error_take();
            if (r->failed >= 0) fail_msg("step %d on cuda:%d fails too, because of cuda:%d: %s: %s", step, d, r->failed, e.op, e.text);
            r->error = e;
            r->failed = d;
        }
    }
}

static int parameters(run *r, int d, fa_tensor *out[PARAMETERS]) {
    static const char *const names[PARAMETERS] = {"0.weight", "0.bias", "3.weight", "3.bias"};
    for (int i = 0; i < PARAMETERS; i++) out[i] = fa_detach(fa_get_parameter(r->net[d], names[i]));
    return PARAMETERS;
}

/* ---- what holds at every point ---- */

static void expect(bool right, const char *what, const char *name, int n, const run *r) {
    if (right) return;
    fail_msg("%s:%d (cuda:%d failed after %d steps): %s. The error was: code %d of '%s': %s. Now: %s", name, n, r->failed,
             r->failed >= 0 ? r->steps[r->failed] : 0, what, r->error.code, r->error.op, r->error.text, fa_failed() ? fa_error_peek()->text : "");
}

static void same_as_without(run *r, int d, const char *name, int n) {
    FA_SCOPE;
    fa_tensor *now[PARAMETERS];
    parameters(r, d, now);
    expect(r->steps[d] == STEPS && r->loss[d] == reference_loss[d], "another loss than without a fault", name, n, r);
    expect(bits_differ(&reference[d], now) < 0 && !fa_failed(), "other parameters than without a fault", name, n, r);
}

static void check_message(int k, int n, const run *r) {
    const fa_error *e = &r->error;
    expect(e->code == (k == KIND_ALLOC ? FA_ERR_DEVICE_MEMORY : FA_ERR_DEVICE) && e->op[0], "not the code that was expected", kinds[k].name, n, r);
    expect(device_in(e->text) == r->failed, "the text does not say on which device", kinds[k].name, n, r);
    expect(k != KIND_HANG || strstr(e->text, "FACULA_WATCHDOG"), "the text does not speak of the watchdog", kinds[k].name, n, r);
    if (k == KIND_LAUNCH && n < LAUNCHES) snprintf(op_of[n], sizeof op_of[n], "%s", e->op);
    if (k == KIND_LATE && n < LAUNCHES && op_of[n][0]) expect(!strcmp(op_of[n], e->op), op_of[n], "late, which another operator launched:", n, r);
}

static bool works_on(fa_device on) {
    FA_SCOPE;
    fa_tensor *x = fa_full(FA_SHAPE(100), 2, .device = on, .dtype = FA_FLOAT32);
    return fa_item(fa_sum(fa_mul(x, x))) == 400 && !fa_failed();
}

/* The parameters of the one that failed are saved, or refused in words: never written as garbage. */
static void check_saving(run *r, int k, int n) {
    const int d = r->failed;
    expect(fa_save_module(path[1], r->net[1 - d]), "the other one's parameters can't be saved", kinds[k].name, n, r);
    if (!r->net[d] || fa_save_module(path[0], r->net[d])) return;
    const fa_error refusal = fa_error_take();
    const bool told = strstr(refusal.text, "has no contents") || strstr(refusal.text, "gave up cuda:") || strstr(refusal.text, "FACULA_WATCHDOG");
    expect(told && (k == KIND_LATE || k == KIND_LOST || k == KIND_HANG), refusal.text, kinds[k].name, n, r);
}

static void one_fault(int k, int n) {
    char spec[40];
    FA_SCOPE;
    run r;
    uint64_t allocated[DEVICES];
    snprintf(spec, sizeof spec, "%s:%d", kinds[k].name, n);
    for (int d = 0; d < DEVICES; d++) allocated[d] = fa_memory_allocated(FA_CUDA(d));
    alarm(SECONDS);
    {
        FA_SCOPE;
        sim_faults(spec);
        train(&r);
        expect(sim_count("injected") > 0, "there is no such point", kinds[k].name, n, &r);
        if (r.failed >= 0) {
            check_message(k, n, &r);
            check_saving(&r, k, n);
            expect(works_on(FA_CPU) && works_on(FA_CUDA(1 - r.failed)), "the rest does not go on", kinds[k].name, n, &r);
            if (k != KIND_LOST && k != KIND_HANG) expect(works_on(FA_CUDA(r.failed)), "the device itself does not go on", kinds[k].name, n, &r);
        } else {
            expect(k == KIND_ALLOC || k == KIND_HANG, "nothing failed", kinds[k].name, n, &r); /* memory of caches served; nobody waited for it */
        }
        for (int d = 0; d < DEVICES; d++)
            if (d != r.failed) same_as_without(&r, d, kinds[k].name, n);
    }
    sim_faults(NULL);
    for (int d = 0; d < DEVICES; d++) fa_synchronize(FA_CUDA(d)), fa_error_take();
    for (int d = 0; d < DEVICES; d++) expect(fa_memory_allocated(FA_CUDA(d)) == allocated[d], "device memory is left", kinds[k].name, n, &r);
    {
        FA_SCOPE;
        run again;
        train(&again);
        for (int d = 0; d < DEVICES; d++) same_as_without(&again, d, kinds[k].name, n);
    }
    alarm(0);
}

static int count_points(int k) {
    uint64_t before = 0, after = 0;
    FA_SCOPE;
    run r;
    train(&r); /* what is asked for once and kept is there now */
    for (int i = 0; i < 5 && kinds[k].counted[i]; i++) before += sim_count(kinds[k].counted[i]);
    train(&r);
    for (int i = 0; i < 5 && kinds[k].counted[i]; i++) after += sim_count(kinds[k].counted[i]);
    for (int d = 0; d < DEVICES; d++) same_as_without(&r, d, "none", 0);
    return (int)(after - before);
}

static void some_points(int k) {
    fa_test_caches(k != KIND_ALLOC);
    const int points = count_points(k), chosen = getenv("FACULA_SOAK") && k != KIND_HANG ? points : kinds[k].chosen;
    uint64_t random = 7 * (uint64_t)k + 1;
    for (int i = 0; i < chosen && i < points; i++) {
        const int low = (int)((int64_t)points * i / chosen), high = (int)((int64_t)points * (i + 1) / chosen);
        random = random * 6364136223846793005u + 1442695040888963407u;
        one_fault(k, low + 1 + (int)((random >> 33) % (uint64_t)(high > low ? high - low : 1)));
    }
    print_message("%-7s %d of %d points\n", kinds[k].name, chosen < points ? chosen : points, points);
}

static void launches_are_refused(void **state) { (void)state, some_points(KIND_LAUNCH); }
static void launches_fail_later(void **state) { (void)state, some_points(KIND_LATE); }
static void copies_fail(void **state) { (void)state, some_points(KIND_COPY); }
static void memory_runs_out(void **state) { (void)state, some_points(KIND_ALLOC); }
static void a_device_is_lost(void **state) { (void)state, some_points(KIND_LOST); }
static void an_event_never_comes(void **state) { (void)state, some_points(KIND_HANG); }

/* ---- what is only there once in a process: in processes of their own ---- */

/* Exit code: 10 + the device that failed, 20: none did, 30: there are no devices; anything else is wrong. */
static int in_a_process(const char *faults) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setenv("FACULA_SIM_FAULTS", faults, 1);
        setenv("FACULA_CACHE", "", 1);
        execl(program, program, "one", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

static int fail_in_process(const char *what, const run *r) {
    printf("%s: '%s': %s\n", what, r->error.op, r->error.text);
    return 1;
}

static int one_process(void) {
    run r;
    fa_scope_open();
    alarm(SECONDS);
    if (fa_device_count(FA_DEVICE_CUDA) == 0) {
        const bool refused = !fa_ones(FA_SHAPE(2), .device = FA_CUDA(0));
        const fa_error e = fa_error_take();
        return refused && strstr(e.text, "The NVIDIA driver on your system is too old") && works_on(FA_CPU) ? 30 : 1;
    }
    train(&r);
    if (r.failed < 0) return 20;
    if (!strstr(r.error.text, "injected fault build")) return fail_in_process("not the compiler's words", &r);
    if (!r.error.op[0] || device_in(r.error.text) != r.failed) return fail_in_process("not the device", &r);
    if (r.steps[1 - r.failed] != STEPS || !works_on(FA_CPU)) return fail_in_process("the other one does not go on", &r);
    run again; /* the next try builds it */
    train(&again);
    if (again.failed >= 0) return fail_in_process("the same work does not succeed", &again);
    for (int d = 0; d < DEVICES; d++)
        if (again.loss[d] != r.loss[d] && d != r.failed) return fail_in_process("other numbers", &again);
    return fa_finish("one") ? 1 : 10 + r.failed;
}

static void a_kernel_does_not_build(void **state) {
    (void)state;
    const int step = getenv("FACULA_SOAK") ? 1 : 3;
    int met[DEVICES] = {0}, code = 0;
    for (int n = 1; n < 200 && code != 20; n += step) {
        char spec[24];
        snprintf(spec, sizeof spec, "build:%d", n);
        code = in_a_process(spec);
        if (code != 20 && code != 10 && code != 11) fail_msg("%s ended with %d", spec, code);
        if (code < 20) met[code - 10]++;
    }
    print_message("build   %d and %d points\n", met[0], met[1]);
    assert_true(met[0] > 0 && met[1] > 0 && code == 20);
}

static void the_driver_is_too_old(void **state) {
    (void)state;
    assert_int_equal(in_a_process("driver:11040"), 30);
}

static int prepare(void **state) {
    (void)state;
    find_simulator();
    if (!sim_faults || fa_device_count(FA_DEVICE_CUDA) < DEVICES) return printf("two simulated devices are needed\n"), -1;
    for (int i = 0; i < 2; i++) snprintf(path[i], sizeof path[i], "/tmp/facula_two_devices_%d_%d.safetensors", (int)getpid(), i);
    FA_SCOPE;
    run r;
    train(&r);
    if (r.failed >= 0) return printf("%s: %s\n", r.error.op, r.error.text), -1;
    for (int d = 0; d < DEVICES; d++) {
        fa_tensor *all[PARAMETERS];
        bits_take(&reference[d], all, parameters(&r, d, all));
        reference_loss[d] = r.loss[d];
    }
    return 0;
}

static int finish(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) remove(path[i]), bits_free(&reference[i]);
    return 0;
}

int main(int argc, char **argv) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(launches_are_refused), TEST(launches_fail_later),     TEST(copies_fail),          TEST(memory_runs_out),
                                       TEST(a_device_is_lost),     TEST(a_kernel_does_not_build), TEST(the_driver_is_too_old)};
    const struct CMUnitTest watched[] = {TEST(an_event_never_comes)};
    program = argv[0];
    if (argc > 1) return one_process();
    if (getenv("FACULA_WATCHDOG")) return cmocka_run_group_tests(watched, prepare, finish) ? 1 : fa_finish("test_two_devices");
    return cmocka_run_group_tests(tests, prepare, finish) ? 1 : fa_finish("test_two_devices");
}
