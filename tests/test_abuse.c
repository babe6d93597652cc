/* Devices in rough hands: a device that is lost and comes back, forks, exits and exec in the middle of the work, sizes that overflow,
 * tensors of no elements, tensors that are dropped while the queue still needs them, thousands of streams and events, signals
 * during waits. Each gives right numbers or an error that says what is wrong, and the device goes on.
 *
 *   test-env: FACULA_SIM=cuda:2
 *   test-tags: threads
 *   test-limit: 120 */
#include "support/faults.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *program;

static int setup(void **state) {
    (void)state;
    find_simulator();
    return sim_faults && fa_device_count(FA_DEVICE_CUDA) == 2 ? 0 : -1;
}

static int clean(void **state) {
    (void)state;
    sim_faults(NULL);
    fa_test_caches(true);
    for (int i = 0; i < 2; i++) fa_synchronize(FA_CUDA(i)), fa_error_take();
    return 0;
}

static fa_tensor *filled(int64_t n, double value, fa_device where) { return fa_full(FA_SHAPE(n), value, .device = where, .dtype = FA_FLOAT32); }

static void goes_on(void) {
    for (int i = 0; i < 2; i++) {
        FA_SCOPE;
        fa_tensor *x = filled(100, 2, FA_CUDA(i));
        const double found = fa_item(fa_sum(fa_mul(x, x)));
        if (found != 400 || fa_failed()) fail_msg("cuda:%d does not go on: %g, %s", i, found, fa_failed() ? fa_error_peek()->text : "");
    }
}

static void told(const char *words, int line) {
    const fa_error e = fa_error_take();
    if (e.code != FA_ERR_DEVICE || !e.op[0] || !strstr(e.text, words)) fail_msg("line %d: '%s' was expected, not %d of '%s': %s", line, words, e.code, e.op, e.text);
}
#define TOLD(call, words) (void)(call), told((words), __LINE__)

/* ---- a device is lost ---- */

static void lose(fa_device which) {
    FA_SCOPE;
    sim_faults("lost:1");
    TOLD(filled(3, 1, which), "was lost");
}

static void parameters_of_a_lost_device(void **state) {
    (void)state;
    FA_SCOPE;
    char path[80], text[200];
    snprintf(path, sizeof path, "/tmp/facula_abuse_%d.safetensors", (int)getpid());
    fa_module *net = fa_nn_linear(3, 2), *other = fa_nn_linear(3, 2);
    assert_true(fa_module_to(net, FA_CUDA(0)) && fa_module_to(other, FA_CUDA(1)));
    fa_optimizer *optimizer = fa_adamw(net, .lr = 0.1);
    fa_tensor *x = fa_to(fa_ones(FA_SHAPE(4, 3)), FA_CUDA(0)), *weight = fa_detach(fa_get_parameter(net, "weight")), *never = fa_empty(FA_SHAPE(3), .device = FA_CUDA(0));
    fa_tensor *loss = fa_mean(fa_call(net, x));
    lose(FA_CUDA(0));
    static const char *const gone = "The driver gave up cuda:0 after this error";
    TOLD(fa_item(fa_select(fa_select(weight, 0, 0), 0, 0)), gone);
    TOLD(fa_add(weight, weight), gone);
    TOLD(fa_cpu(weight), gone);
    TOLD(fa_to(weight, FA_CUDA(1)), gone);
    TOLD(fa_copy_(weight, fa_zeros(FA_SHAPE(2, 3))), gone);
    TOLD(fa_copy_(fa_to(fa_zeros(FA_SHAPE(2, 3)), FA_CUDA(1)), weight), gone);
    TOLD(fa_to_text(weight, text, sizeof text), gone);
    TOLD(fa_save_module(path, net), gone);
    TOLD(fa_call(net, x), gone);
    TOLD(fa_backward(loss), gone);
    TOLD(fa_synchronize(FA_CUDA(0)), "lost");
    (void)fa_step(optimizer); /* without gradients there is nothing to do */
    (void)fa_error_take();
    assert_true(fa_save_module(path, other)); /* what is elsewhere is safe */
    sim_faults(NULL); /* it comes back, with nothing of what was there */
    static const char *const nothing = "the tensor on cuda:0 has no contents: the device was lost, as 'full' found";
    TOLD(fa_cpu(weight), nothing);
    TOLD(fa_to(weight, FA_CUDA(1)), nothing);
    TOLD(fa_item(fa_sum(fa_call(net, x))), nothing);
    TOLD(fa_save_module(path, net), nothing);
    (void)never;
    assert_true(fa_load_module(path, net)); /* what was saved of the other one makes it good */
    assert_true(fa_item(fa_sum(fa_detach(fa_get_parameter(net, "weight")))) == fa_item(fa_sum(fa_detach(fa_get_parameter(other, "weight")))));
    goes_on();
    remove(path);
}

/* What the device took back while it said that it could not is nobody's afterwards. */
static void memory_of_a_lost_device(void **state) {
    (void)state;
    for (int caches = 0; caches < 2; caches++) {
        fa_test_caches(caches);
        const uint64_t before = fa_memory_allocated(FA_CUDA(0));
        for (int round = 0; round < 3; round++) {
            FA_SCOPE;
            fa_tensor *small = filled(100, 1, FA_CUDA(0)), *large = filled(1 << 20, 1, FA_CUDA(0));
            lose(FA_CUDA(0));
            fa_drop(small), fa_drop(large);
            fa_empty_cache(FA_CUDA(0)), fa_error_take();
            sim_faults(NULL);
            small = filled(100, 3, FA_CUDA(0)), large = filled(1 << 20, 2, FA_CUDA(0));
            assert_true(fa_item(fa_sum(small)) == 300 && fa_item(fa_mean(large)) == 2);
        }
        fa_empty_cache(FA_CUDA(0));
        assert_int_equal(fa_memory_allocated(FA_CUDA(0)), before);
    }
    goes_on();
}

/* ---- sizes ---- */

static void sizes_that_overflow(void **state) {
    (void)state;
    const struct {
        int64_t size[3];
        fa_dtype dtype;
    } huge[] = {
        {{INT64_MAX, 1, 1}, FA_FLOAT32}, {{INT64_MAX, INT64_MAX, INT64_MAX}, FA_INT8}, {{(int64_t)1 << 31, (int64_t)1 << 31, 4}, FA_FLOAT64},
        {{(int64_t)1 << 40, 1, 1}, FA_FLOAT32}, {{(int64_t)1 << 62, 2, 1}, FA_BOOL}, {{-1, 4, 4}, FA_FLOAT32}, {{(int64_t)1 << 33, 0, (int64_t)1 << 33}, FA_FLOAT32},
    };
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        FA_SCOPE;
        const int64_t *s = huge[i].size;
        fa_tensor *t = fa_empty(FA_SHAPE(s[0], s[1], s[2]), .device = FA_CUDA(0), .dtype = huge[i].dtype);
        if (!t && !fa_failed()) fail_msg("size %zu: no tensor and no error", i);
        if (t && fa_numel(t) > 1 << 28) fail_msg("size %zu: there can't be so much memory", i);
        fa_error_take();
        fa_tensor *one = filled(1, 1, FA_CUDA(0)); /* of a view as large, which takes no memory, a copy is refused */
        fa_tensor *wide = s[0] > 0 ? fa_expand(one, FA_SHAPE(s[0] >> 8)) : NULL;
        if (wide && s[0] >> 8 > 1 << 28) assert_null(fa_clone(wide));
        fa_error_take();
        goes_on();
    }
}

static void tensors_of_no_elements(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *none = filled(0, 1, FA_CUDA(0)), *wide = fa_zeros(FA_SHAPE(3, 0), .device = FA_CUDA(0)), *high = fa_zeros(FA_SHAPE(0, 4), .device = FA_CUDA(0));
    assert_int_equal(fa_numel(fa_add(none, none)), 0);
    assert_true(fa_item(fa_sum(none)) == 0 && isnan(fa_item(fa_mean(none))));
    fa_tensor *product = fa_matmul(wide, high);
    assert_int_equal(fa_size(product, 1), 4);
    assert_true(fa_item(fa_sum(fa_abs(product))) == 0);
    assert_int_equal(fa_numel(fa_to(none, FA_CUDA(1))), 0);
    assert_int_equal(fa_numel(fa_cpu(none)), 0);
    assert_non_null(fa_copy_(none, fa_zeros(FA_SHAPE(0))));
    assert_non_null(fa_fill_(none, 3));
    assert_int_equal(fa_numel(fa_index_select(filled(5, 1, FA_CUDA(0)), 0, fa_zeros(FA_SHAPE(0), .dtype = FA_INT64, .device = FA_CUDA(0)))), 0);
    fa_tensor *leaf = fa_requires_grad(filled(0, 1, FA_CUDA(0)), true);
    assert_true(fa_backward(fa_sum(fa_mul(leaf, leaf))));
    assert_int_equal(fa_numel(fa_grad(leaf)), 0);
    assert_false(fa_failed());
    goes_on();
}

/* ---- many ---- */

static void dropped_while_the_queue_needs_them(void **state) {
    (void)state;
    for (int caches = 0; caches < 2; caches++) {
        FA_SCOPE;
        fa_test_caches(caches);
        fa_tensor *sum[2] = {filled(300, 0, FA_CUDA(0)), filled(300, 0, FA_CUDA(1))};
        for (int i = 0; i < 300; i++) {
            FA_SCOPE;
            const int d = i % 2;
            fa_tensor *x = filled(300, i, FA_CUDA(d)), *y = fa_mul_scalar(x, 2), *z = i % 5 ? y : fa_to(y, FA_CUDA(1 - d));
            fa_drop(x);
            fa_add_(sum[i % 5 ? d : 1 - d], z);
        }
        assert_true(fa_item(fa_select(sum[0], 0, 7)) + fa_item(fa_select(sum[1], 0, 299)) == 300 * 299);
    }
    goes_on();
}

static void thousands_of_streams_and_events(void **state) {
    (void)state;
    FA_SCOPE;
    enum { MANY = 3000, EVENTS = 500 };
    static fa_event *event[EVENTS];
    double expected = 0;
    fa_tensor *sum = filled(10, 0, FA_CUDA(0));
    fa_stream before = fa_default_stream(FA_CUDA(0));
    for (int i = 0; i < MANY; i++) {
        FA_SCOPE;
        const fa_stream s = fa_stream_new(FA_CUDA(0), -(i % 2));
        assert_true(fa_stream_wait_stream(s, before));
        FA_STREAM_SCOPE(s);
        fa_add_scalar_(sum, i % 3);
        fa_record_stream(sum, s);
        expected += 10 * (i % 3);
        before = s;
    }
    assert_true(fa_stream_wait_stream(fa_default_stream(FA_CUDA(0)), before));
    assert_true(fa_item(fa_sum(sum)) == expected);
    for (int i = 0; i < EVENTS; i++) event[i] = fa_stream_record_event(fa_default_stream(FA_CUDA(i % 2)));
    for (int i = EVENTS - 1; i >= 0; i--) assert_true(fa_event_synchronize(event[i]) && fa_event_query(event[i]));
    goes_on();
}

/* ---- signals, forks, exits ---- */

static volatile sig_atomic_t rang;
static void ring(int number) { (void)number, rang++; }

static void signals_during_waits(void **state) {
    (void)state;
    FA_SCOPE;
    struct sigaction act = {.sa_handler = ring}, old; /* without SA_RESTART: calls of the system come back early */
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &act, &old);
    setitimer(ITIMER_REAL, &often, NULL);
    bool right = true;
    for (int i = 0; (i < 200 || rang < 10) && i < 100000; i++) {
        FA_SCOPE;
        fa_tensor *x = filled(2000, i % 7, FA_CUDA(i % 2));
        right &= fa_item(fa_sum(fa_to(fa_mul(x, x), FA_CUDA(1 - i % 2)))) == 2000.0 * (i % 7) * (i % 7);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &old, NULL);
    assert_true(right && rang >= 10);
}

static int ended_with(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* The child has what the parent queued, but no device; the parent goes on as if nothing had been. */
static void a_fork_in_the_middle_of_the_work(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = filled(500, 3, FA_CUDA(0)), *there = fa_to(fa_mul(x, x), FA_CUDA(1));
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        fa_tensor *host = fa_ones(FA_SHAPE(10));
        if (fa_add(x, x) || !strstr(fa_error_take().text, "Cannot re-initialize")) _exit(1);
        if (fa_item(fa_select(there, 0, 0)) == 9 || fa_error_take().code == FA_OK) _exit(2);
        if (fa_to(there, FA_CPU) || fa_error_take().code == FA_OK) _exit(3);
        fa_drop(x);
        _exit(fa_item(fa_sum(host)) == 10 ? 0 : 4);
    }
    assert_int_equal(ended_with(child), 0);
    assert_true(fa_item(fa_sum(there)) == 4500);
    goes_on();
}

/* Leaves with work in the queues and nothing waited for. */
static int leave(int how) {
    alarm(20);
    fa_scope_open();
    for (int i = 0; i < 200; i++) {
        fa_tensor *x = filled(5000, i, FA_CUDA(i % 2));
        (void)fa_to(fa_exp(x), FA_CUDA(1 - i % 2));
    }
    if (how == 0) return 7;
    if (how == 1) exit(7);
    if (how == 2) _exit(7);
    if (how == 3) quick_exit(7);
    if (how == 4) sim_faults("lost:1"), (void)filled(3, 1, FA_CUDA(0)), (void)fa_error_take();
    return 7;
}

static void exits_without_waiting(void **state) {
    (void)state;
    for (int how = 0; how < 5; how++) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            const char number[2] = {(char)('0' + how), 0};
            execl(program, program, number, (char *)NULL);
            _exit(127);
        }
        const int code = ended_with(child);
        if (code != 7) fail_msg("way %d of leaving: %d", how, code);
    }
}

static void *leave_a_thread(void *number) {
    fa_scope_open();
    fa_tensor *x = filled(1000, 2, FA_CUDA((int)(uintptr_t)number));
    (void)fa_to(fa_exp(x), FA_CUDA(1 - (int)(uintptr_t)number));
    fa_scope_close();
    return NULL; /* with its work in the queue, and an error that nobody takes */
}

static void threads_that_end_in_the_middle_of_the_work(void **state) {
    (void)state;
    for (int i = 0; i < 40; i++) {
        pthread_t thread[2];
        for (uintptr_t k = 0; k < 2; k++) pthread_create(&thread[k], NULL, leave_a_thread, (void *)k);
        for (int k = 0; k < 2; k++) pthread_join(thread[k], NULL);
    }
    goes_on();
}

int main(int argc, char **argv) {
#define TEST(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        TEST(parameters_of_a_lost_device),        TEST(memory_of_a_lost_device),          TEST(sizes_that_overflow),  TEST(tensors_of_no_elements),
        TEST(dropped_while_the_queue_needs_them), TEST(thousands_of_streams_and_events), TEST(signals_during_waits), TEST(a_fork_in_the_middle_of_the_work),
        TEST(exits_without_waiting),              TEST(threads_that_end_in_the_middle_of_the_work),
    };
    program = argv[0];
    if (argc > 1) return find_simulator(), leave(argv[1][0] - '0');
    const int failed = cmocka_run_group_tests(tests, setup, NULL);
    return failed + fa_finish("test_abuse");
}
