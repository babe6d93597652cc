/* The cuda backend on the simulated driver: memory, the guard, late work, waits, bounds, faults, limits, devices, threads.
 *
 *   test-env: FACULA_SIM=cuda:2,xpu:1 FACULA_SIM_MEMORY=64MiB
 *   test-env: FACULA_SIM=cuda:2,xpu:1 FACULA_SIM_MEMORY=64MiB FACULA_SIM_MODE=eager
 *   test-env: FACULA_SIM=cuda:2,xpu:1 FACULA_SIM_MEMORY=64MiB FACULA_SIM_SEED=7
 *   test-tags: threads */
#define _GNU_SOURCE
#include "backends/cuda/cuda.h"
#include "device/device.h"
#include <sys/fa_plan.h>
#include <kernels_gen.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1000, GROUPS = (N + 63) / 64 };
static const fa_backend *gpu;
static fa_program_handle program[3];
static fa_kernel_handle scale[3], sum[3], table[3];
static int (*set_faults)(const char *);
static uint64_t (*count)(const char *);
static bool lazy;
#define OK(call) assert_int_equal((call), 0)

/* ---- helpers ---- */

static const char *selftest_text(void) {
    static char text_of_it[32768];
    for (int i = 0; i < fai_program_count; i++) {
        if (text_of_it[0] || strcmp(fai_programs[i].family, "selftest")) continue;
        char *text = fai_program_text(&fai_programs[i], "test");
        assert_non_null(text);
        assert_true(strlen(text) < sizeof text_of_it);
        strcpy(text_of_it, text);
        fai_free(FAI_TAG_OTHER, text, fai_programs[i].bytes + 1);
    }
    return text_of_it;
}

static void load_kernels(int device) {
    char log[256];
    OK(gpu->build(device, "selftest", selftest_text(), NULL, &program[device], log, sizeof log));
    OK(gpu->find(device, program[device], "selftest_scale", &scale[device]));
    OK(gpu->find(device, program[device], "selftest_sum", &sum[device]));
    OK(gpu->find(device, program[device], "selftest_table", &table[device]));
}

static fa_plan_view floats(int64_t n, bool writes) {
    return (fa_plan_view){
        .size = {n}, .stride = {1}, .high = n * 4, .ndim = 1, .dtype = FA_T_FLOAT32, .kind = FA_VIEW_TENSOR, .writes = writes};
}

static fa_plan two_views(int64_t n, int64_t out, double factor) {
    fa_plan plan = {.groups = (n + 63) / 64, .numel = n, .nviews = 2, .f = {factor}};
    plan.view[0] = floats(out, true);
    plan.view[1] = floats(n, false);
    return plan;
}

static int launch_scale(int device, fa_stream_handle stream, fa_address out, fa_address x, double factor) {
    fa_plan plan = two_views(N, N, factor);
    const fa_address pointers[8] = {out, x};
    return gpu->launch(device, stream, scale[device], GROUPS, 64, &plan, sizeof plan, pointers);
}

static fa_address new_floats(int device, float first, float step) {
    float host[N];
    fa_address a;
    for (int i = 0; i < N; i++) host[i] = first + step * (float)i;
    OK(gpu->allocate(device, sizeof host, &a));
    OK(gpu->copy(device, NULL, FA_COPY_TO_DEVICE, a, host, 0, sizeof host));
    memset(host, 0, sizeof host); /* staged: the host may use its memory again at once */
    return a;
}

static void read_floats(int device, fa_stream_handle stream, float *out, fa_address a) {
    OK(gpu->copy(device, stream, FA_COPY_TO_HOST, a, out, 0, N * sizeof *out));
    OK(gpu->stream_wait(device, stream));
}

/* ---- tests ---- */

static void test_properties(void **state) {
    (void)state;
    fa_device_properties p;
    OK(gpu->properties(1, &p));
    assert_string_equal(p.name, "Facula simulated GPU 1");
    assert_true(p.simulated && p.has_float64);
    assert_int_equal(p.total_memory, 64 << 20);
    assert_int_equal(p.multiprocessors, 4);
    assert_int_equal(p.threads_per_multiprocessor, 1024);
    assert_int_equal(p.warp_size, 32);
    assert_int_equal(p.major * 10 + p.minor, 80);
    assert_string_equal(p.driver, "simulator");
    OK(gpu->properties(2, &p));
    assert_string_equal(p.name, "Facula simulated GPU 0");
    assert_string_equal(fai_cuda_simulated_type(1), "cuda");
    assert_string_equal(fai_cuda_simulated_type(2), "xpu");
    assert_int_equal(gpu->properties(3, &p), FA_BACKEND_FAILED);
    assert_non_null(strstr(gpu->error_text(), "invalid device ordinal"));
}

static void test_kernels(void **state) {
    (void)state;
    float got[N];
    fa_address x = new_floats(0, 1, 1), y = new_floats(0, 0, 0);
    OK(launch_scale(0, NULL, y, x, 2.0));
    read_floats(0, NULL, got, y);
    for (int i = 0; i < N; i++) assert_true(got[i] == 2.0f * (float)(i + 1));
    fa_plan plan = two_views(N, GROUPS, 0);
    const fa_address pointers[8] = {y, x};
    OK(gpu->launch(0, NULL, sum[0], GROUPS, 64, &plan, sizeof plan, pointers));
    read_floats(0, NULL, got, y);
    assert_true(got[0] == 64 * 65 / 2);
    assert_true(got[1] == 64 * 65 / 2 + 64 * 64);
    OK(gpu->release(0, x));
    OK(gpu->release(0, y));
}

static void test_table(void **state) {
    (void)state;
    float got[N];
    fa_address a = new_floats(0, 0, 1), b = new_floats(0, 100, 1), t;
    const fa_table_entry entries[3] = {{(fa_i64)a, 400}, {(fa_i64)b + 4, 8}, {0, 0}};
    fa_plan plan = {.groups = 3, .nviews = 1, .f = {0.5}};
    plan.view[0] = (fa_plan_view){.size = {3}, .ndim = 1, .kind = FA_VIEW_TABLE, .high = sizeof entries};
    OK(gpu->allocate(0, sizeof entries, &t));
    OK(gpu->copy(0, NULL, FA_COPY_TO_DEVICE, t, (void *)(uintptr_t)entries, 0, sizeof entries));
    const fa_address pointers[8] = {t};
    OK(gpu->launch(0, NULL, table[0], 3, 64, &plan, sizeof plan, pointers));
    read_floats(0, NULL, got, a);
    assert_true(got[0] == 0.5f && got[99] == 99.5f && got[100] == 100.0f);
    read_floats(0, NULL, got, b);
    assert_true(got[0] == 100 && got[1] == 101.5f && got[2] == 102.5f && got[3] == 103);
    OK(gpu->release(0, a));
    OK(gpu->release(0, b));
    OK(gpu->release(0, t));
}

static void stop_at_fault(int signal_number) {
    (void)signal_number;
    _exit(42);
}

/* The host can't follow a device address. */
static void test_guard(void **state) {
    (void)state;
    fa_address a = new_floats(0, 1, 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, stop_at_fault);
        signal(SIGBUS, stop_at_fault);
        volatile char read = *(volatile char *)(uintptr_t)a;
        _exit(read == 1 ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    OK(gpu->release(0, a));
}

/* In the child of a process that used a device, calls fail and do not hang. */
static void test_fork(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        fa_address a;
        _exit(gpu->allocate(0, 16, &a) != 0 && strstr(gpu->error_text(), "forked") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A launch returns before its kernel ends; a copy to the host has not come before somebody waits; freeing waits. */
static void test_late_work(void **state) {
    (void)state;
    float got[N];
    fa_address x = new_floats(0, 1, 0), y = new_floats(0, 5, 0);
    OK(gpu->stream_wait(0, NULL));
    uint64_t before = count("run");
    memset(got, 0, sizeof got);
    OK(launch_scale(0, NULL, y, x, 3.0));
    OK(gpu->copy(0, NULL, FA_COPY_TO_HOST, y, got, 0, sizeof got));
    if (lazy) {
        usleep(20000);
        assert_int_equal(count("run"), before);
        assert_int_equal(count("pending"), 2);
        assert_true(got[0] == 0.0f);
    }
    OK(gpu->stream_wait(0, NULL));
    assert_true(got[0] == 3.0f && got[N - 1] == 3.0f);
    assert_int_equal(count("run"), before + 1);
    OK(launch_scale(0, NULL, y, x, 4.0));
    OK(gpu->release(0, x));
    assert_int_equal(count("run"), before + 2);
    OK(gpu->release(0, y));
}

/* Two streams: y = 2 x on a, then z = 10 y on b. With the event z is right; without it the seed shows the mistake. */
static int two_streams(bool with_event) {
    float got[N];
    fa_stream_handle a, b;
    fa_event_handle done;
    fa_address x = new_floats(0, 1, 0), y = new_floats(0, 0, 0), z = new_floats(0, 0, 0);
    OK(gpu->stream_create(0, 0, &a));
    OK(gpu->stream_create(0, -1, &b));
    OK(gpu->event_create(0, &done));
    OK(gpu->stream_wait(0, NULL));
    OK(launch_scale(0, a, y, x, 2.0));
    OK(gpu->event_record(0, done, a));
    if (with_event) OK(gpu->stream_wait_event(0, b, done));
    OK(launch_scale(0, b, z, y, 10.0));
    read_floats(0, b, got, z);
    OK(gpu->event_destroy(0, done));
    OK(gpu->stream_destroy(0, a));
    OK(gpu->stream_destroy(0, b));
    OK(gpu->release(0, x));
    OK(gpu->release(0, y));
    OK(gpu->release(0, z));
    return got[0] == 20.0f;
}

static void test_removed_wait(void **state) {
    (void)state;
    int right = 0;
    for (int i = 0; i < 50; i++) assert_true(two_streams(true));
    if (!lazy) return; /* whether it shows is then a matter of time */
    for (int i = 0; i < 50; i++) right += two_streams(false);
    assert_true(right < 50);
}

/* Who asks often enough sees the event come, though nobody waits. */
static void test_events(void **state) {
    (void)state;
    fa_event_handle start, end;
    bool done = true;
    float ms;
    fa_address x = new_floats(0, 1, 0), y = new_floats(0, 0, 0);
    OK(gpu->event_create(0, &start));
    OK(gpu->event_create(0, &end));
    OK(gpu->event_query(0, start, &done));
    assert_true(done); /* never recorded */
    OK(gpu->event_record(0, start, NULL));
    OK(launch_scale(0, NULL, y, x, 2.0));
    OK(gpu->event_record(0, end, NULL));
    OK(gpu->event_query(0, end, &done));
    if (lazy) {
        assert_false(done);
        assert_int_equal(gpu->event_elapsed(0, start, end, &ms), FA_BACKEND_FAILED);
    }
    for (int i = 0; i < 2000 && !done; i++) {
        usleep(1000);
        OK(gpu->event_query(0, end, &done));
    }
    assert_true(done);
    OK(gpu->event_wait(0, end));
    OK(gpu->event_elapsed(0, start, end, &ms));
    assert_true(ms >= 0 && ms < 60000);
    OK(gpu->event_destroy(0, start));
    OK(gpu->event_destroy(0, end));
    OK(gpu->release(0, x));
    OK(gpu->release(0, y));
}

/* A long row of launches is held back by the queue's length, and all of them run. */
static void test_full_queue(void **state) {
    (void)state;
    float got[N];
    fa_address x = new_floats(0, 1, 0);
    for (int i = 0; i < 3000; i++) OK(launch_scale(0, NULL, x, x, i % 2 ? 0.5 : 2.0));
    assert_true(count("pending") <= 1025);
    read_floats(0, NULL, got, x);
    assert_true(got[0] == 1.0f);
    OK(gpu->release(0, x));
}

static void test_memory_limit(void **state) {
    (void)state;
    uint64_t free_bytes, total;
    fa_address a, b, c;
    OK(gpu->allocate(1, 40 << 20, &a));
    OK(gpu->memory_info(1, &free_bytes, &total));
    assert_int_equal(total, 64 << 20);
    assert_int_equal(free_bytes, 24 << 20);
    assert_int_equal(gpu->allocate(1, (24 << 20) + 1, &b), FA_BACKEND_NO_MEMORY);
    assert_int_equal(b, 0);
    assert_non_null(strstr(gpu->error_text(), "out of memory"));
    OK(gpu->allocate(1, 24 << 20, &b));
    assert_int_equal(gpu->allocate(1, SIZE_MAX, &c), FA_BACKEND_NO_MEMORY);
    OK(gpu->allocate(0, 40 << 20, &c)); /* each device has its own */
    OK(gpu->release(0, c));
    OK(gpu->release(1, b));
    OK(gpu->release(1, a));
}

static void test_bad_arguments(void **state) {
    (void)state;
    char log[512], host[8];
    fa_program_handle none;
    fa_kernel_handle kernel;
    fa_stream_handle other;
    fa_address x = new_floats(0, 1, 0);
    fa_plan plan = two_views(N, N, 1);
    const fa_address pointers[8] = {x, x};
    assert_int_equal(gpu->launch(0, NULL, scale[0], GROUPS, 128, &plan, sizeof plan, pointers), FA_BACKEND_FAILED);
    assert_non_null(strstr(gpu->error_text(), "work-groups of 64"));
    assert_int_equal(gpu->launch(0, NULL, scale[1], GROUPS, 64, &plan, sizeof plan, pointers), FA_BACKEND_FAILED);
    assert_int_equal(gpu->copy(0, NULL, FA_COPY_TO_HOST, x + N * 4 - 4, host, 0, 8), FA_BACKEND_FAILED);
    assert_int_equal(gpu->copy(1, NULL, FA_COPY_TO_HOST, x, host, 0, 8), FA_BACKEND_FAILED);
    assert_int_equal(gpu->release(0, x + 4), FA_BACKEND_FAILED);
    assert_int_equal(gpu->build(0, "mine", "KERNEL(mine, 64) {}", NULL, &none, log, sizeof log), FA_BACKEND_FAILED);
    assert_non_null(strstr(log, "this text is not one of them"));
    assert_non_null(strstr(gpu->error_text(), "the simulator needs no compiler"));
    assert_int_equal(gpu->build(0, "selftest", selftest_text(), "-DX=1", &none, log, sizeof log), FA_BACKEND_FAILED);
    assert_int_equal(gpu->find(0, program[0], "selftest_nothing", &kernel), FA_BACKEND_FAILED);
    OK(gpu->stream_create(1, 0, &other));
    assert_int_equal(launch_scale(0, other, x, x, 1), FA_BACKEND_FAILED); /* another device's stream */
    OK(gpu->stream_destroy(1, other));
    OK(launch_scale(0, NULL, x, x, 1)); /* none of it did harm */
    OK(gpu->stream_wait(0, NULL));
    OK(gpu->release(0, x));
}

/* A span that leaves its allocation, freed memory, another device's memory, null, a bad table entry: each kills the context as an
 * illegal address does on a real device, and names the kernel, the argument and the span. */
static void expect_illegal(fa_plan plan, fa_kernel_handle kernel, fa_address p0, fa_address p1, const char *reason) {
    const fa_address pointers[8] = {p0, p1};
    fa_address none;
    OK(gpu->launch(0, NULL, kernel, 1, 64, &plan, sizeof plan, pointers));
    assert_int_equal(gpu->stream_wait(0, NULL), FA_BACKEND_LOST);
    assert_non_null(strstr(gpu->error_text(), "CUDA error: an illegal memory access was encountered"));
    assert_non_null(strstr(gpu->error_text(), "kernel selftest_"));
    if (!strstr(gpu->error_text(), reason)) fail_msg("%s", gpu->error_text());
    assert_int_equal(gpu->allocate(0, 16, &none), FA_BACKEND_LOST); /* all later calls */
    assert_int_equal(set_faults(""), 0);
    OK(gpu->stream_wait(0, NULL));
}

static void test_bounds(void **state) {
    (void)state;
    fa_address x = new_floats(0, 1, 0), gone = new_floats(0, 1, 0), far_away = new_floats(1, 1, 0), t;
    fa_plan plan = two_views(N, N, 1), entries = {.groups = 1, .nviews = 1};
    const fa_table_entry bad = {(fa_i64)x + 8, N * 4};
    OK(gpu->release(0, gone));
    plan.view[1].high += 1;
    expect_illegal(plan, scale[0], x, x, "argument 1");
    expect_illegal(plan, scale[0], x, x, "runs past the end");
    plan = two_views(N, N, 1);
    plan.view[0].low = -4;
    expect_illegal(plan, scale[0], x, x, "argument 0");
    plan = two_views(N, N, 1);
    expect_illegal(plan, scale[0], x, gone, "not allocated");
    expect_illegal(plan, scale[0], x, far_away, "belongs to another device");
    expect_illegal(plan, scale[0], 0, x, "it is null");
    expect_illegal(plan, scale[0], x, 4096, "no address of this device");
    OK(gpu->allocate(0, sizeof bad, &t));
    OK(gpu->copy(0, NULL, FA_COPY_TO_DEVICE, t, (void *)(uintptr_t)&bad, 0, sizeof bad));
    entries.view[0] = (fa_plan_view){.size = {1}, .ndim = 1, .kind = FA_VIEW_TABLE, .high = sizeof bad};
    expect_illegal(entries, table[0], t, 0, "entry 0 of the table");
    OK(gpu->release(0, x));
    OK(gpu->release(0, t));
    OK(gpu->release(1, far_away));
}

static void test_refusals(void **state) {
    (void)state;
    float host[N];
    fa_program_handle none;
    char log[256];
    fa_address x = new_floats(0, 1, 0), y;
    assert_int_equal(set_faults("alloc:2,launch:2,copy:3+,build:1"), 0);
    OK(gpu->allocate(0, 64, &y));
    OK(gpu->release(0, y));
    assert_int_equal(gpu->allocate(0, 64, &y), FA_BACKEND_NO_MEMORY);
    OK(launch_scale(0, NULL, x, x, 1));
    assert_int_equal(launch_scale(0, NULL, x, x, 1), FA_BACKEND_FAILED);
    assert_non_null(strstr(gpu->error_text(), "injected fault launch:2"));
    OK(launch_scale(0, NULL, x, x, 1));
    for (int i = 1; i <= 4; i++)
        assert_int_equal(gpu->copy(0, NULL, FA_COPY_TO_HOST, x, host, 0, sizeof host), i < 3 ? 0 : FA_BACKEND_FAILED);
    assert_int_equal(gpu->build(0, "selftest", selftest_text(), NULL, &none, log, sizeof log), FA_BACKEND_FAILED);
    assert_non_null(strstr(log, "injected fault build:1"));
    assert_int_equal(count("injected"), 5);
    assert_int_equal(set_faults("alloc:0"), -1);
    assert_int_equal(set_faults("nothing:3"), -1);
    assert_int_equal(set_faults(NULL), 0);
    OK(gpu->stream_wait(0, NULL));
    OK(gpu->release(0, x));
}

/* An accepted launch that fails later: told once by the wait, what was queued behind it does not run, then all is well. */
static void test_late_failure(void **state) {
    (void)state;
    float got[N];
    fa_stream_handle other;
    fa_event_handle event;
    fa_address x = new_floats(0, 1, 0);
    OK(gpu->stream_create(0, 0, &other));
    OK(gpu->event_create(0, &event));
    assert_int_equal(set_faults("late:2,late:4"), 0);
    for (int i = 0; i < 3; i++) OK(launch_scale(0, NULL, x, x, 2));
    OK(gpu->event_record(0, event, NULL));
    assert_int_equal(gpu->stream_wait(0, NULL), FA_BACKEND_FAILED);
    assert_non_null(strstr(gpu->error_text(), "CUDA error: unspecified launch failure"));
    assert_non_null(strstr(gpu->error_text(), "selftest_scale"));
    OK(gpu->stream_wait(0, NULL));
    OK(gpu->event_wait(0, event));
    read_floats(0, NULL, got, x);
    assert_true(got[0] == 2.0f);

    OK(launch_scale(0, NULL, x, x, 2)); /* the 4th: told by an event, and carried into the stream that waits for it */
    OK(gpu->event_record(0, event, NULL));
    OK(gpu->stream_wait_event(0, other, event));
    OK(launch_scale(0, other, x, x, 2));
    assert_int_equal(gpu->event_wait(0, event), FA_BACKEND_FAILED);
    OK(gpu->stream_wait(0, NULL));
    assert_int_equal(gpu->stream_wait(0, other), FA_BACKEND_FAILED);
    OK(gpu->stream_wait(0, other));
    read_floats(0, NULL, got, x);
    assert_true(got[0] == 2.0f);
    assert_int_equal(set_faults(""), 0);
    OK(gpu->event_destroy(0, event));
    OK(gpu->stream_destroy(0, other));
    OK(gpu->release(0, x));
}

static void test_lost(void **state) {
    (void)state;
    float got[N];
    fa_address x = new_floats(0, 1, 0), far_away = new_floats(1, 3, 0), none;
    OK(gpu->stream_wait(0, NULL));
    assert_int_equal(set_faults("lost:2"), 0);
    OK(launch_scale(0, NULL, x, x, 2));
    assert_int_equal(gpu->copy(0, NULL, FA_COPY_TO_HOST, x, got, 0, sizeof got), FA_BACKEND_LOST);
    assert_non_null(strstr(gpu->error_text(), "was lost"));
    for (int i = 0; i < 3; i++) assert_int_equal(gpu->stream_wait(0, NULL), FA_BACKEND_LOST);
    assert_int_equal(gpu->allocate(0, 16, &none), FA_BACKEND_LOST);
    assert_int_equal(gpu->release(0, x), FA_BACKEND_LOST); /* and yet the memory is given back */
    read_floats(1, NULL, got, far_away);                   /* other devices go on */
    assert_true(got[0] == 3.0f);
    assert_int_equal(set_faults(""), 0);
    OK(gpu->release(1, far_away));
}

static void test_flip(void **state) {
    (void)state;
    float got[N];
    int wrong = 0;
    fa_address x = new_floats(0, 1, 0);
    assert_int_equal(set_faults("flip:1"), 0);
    read_floats(0, NULL, got, x);
    for (int i = 0; i < N; i++) wrong += got[i] != 1.0f;
    assert_int_equal(wrong, 1);
    assert_int_equal(set_faults(""), 0);
    OK(gpu->release(0, x));
}

static void *train(void *argument) {
    int device = *(int *)argument;
    float got[N];
    fa_stream_handle stream;
    bool right = gpu->stream_create(device, 0, &stream) == 0;
    for (int i = 0; right && i < 100; i++) {
        fa_address x, y;
        float host[N] = {(float)i};
        right = gpu->allocate(device, sizeof host, &x) == 0 && gpu->allocate(device, sizeof host, &y) == 0 &&
                gpu->copy(device, stream, FA_COPY_TO_DEVICE, x, host, 0, sizeof host) == 0 &&
                launch_scale(device, stream, y, x, 2) == 0 &&
                gpu->copy(device, stream, FA_COPY_TO_HOST, y, got, 0, sizeof got) == 0 && gpu->stream_wait(device, stream) == 0 &&
                got[0] == 2.0f * (float)i && gpu->release(device, x) == 0 && gpu->release(device, y) == 0;
    }
    return right && gpu->stream_destroy(device, stream) == 0 ? argument : NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t thread[4];
    int device[4] = {0, 0, 1, 2};
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, train, &device[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *right = NULL;
        assert_int_equal(pthread_join(thread[i], &right), 0);
        assert_non_null(right);
    }
}

static void test_nothing_left(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) OK(gpu->unload(i, program[i]));
    assert_int_equal(count("live"), 0);
    assert_int_equal(count("pending"), 0);
    gpu->close();
}

/* ---- the environment: each in a process of its own, before this one opens the driver ---- */

static int open_with(const char *devices, const char *visible, const char *memory, const char *expected) {
    pid_t child = fork();
    if (child == 0) {
        int devices_found = -1;
        char why[512];
        setenv("FACULA_SIM", devices, 1);
        if (visible) setenv("CUDA_VISIBLE_DEVICES", visible, 1);
        if (memory) setenv("FACULA_SIM_MEMORY", memory, 1);
        fai_backend_cuda()->open(&devices_found, why, sizeof why);
        if (!strstr(why, expected)) printf("expected '%s', got '%s'\n", expected, why);
        fflush(stdout);
        _exit(strstr(why, expected) ? devices_found : 99);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static void test_environment(void **state) {
    (void)state;
    assert_int_equal(open_with("cuda:2", NULL, "1024", ""), 2);
    assert_int_equal(open_with("cuda:3,xpu:2", NULL, "2GiB", ""), 5);
    assert_int_equal(open_with("cuda:3,xpu:2", "2,0", NULL, ""), 4);
    assert_int_equal(open_with("cuda:2", "1,5,0", NULL, ""), 1);
    assert_int_equal(open_with("cuda:2", "", NULL, "CUDA_VISIBLE_DEVICES"), 0);
    assert_int_equal(open_with("cuda", NULL, NULL, "FACULA_SIM='cuda' is not understood"), 0);
    assert_int_equal(open_with("cuda:x", NULL, NULL, "not understood"), 0);
    assert_int_equal(open_with("cuda:0", NULL, NULL, "not understood"), 0);
    assert_int_equal(open_with("cuda:1,", NULL, NULL, "not understood"), 0);
    assert_int_equal(open_with("cuda:65", NULL, NULL, "at most 64"), 0);
    assert_int_equal(open_with("cuda:1", NULL, "12 apples", "FACULA_SIM_MEMORY='12 apples'"), 0);
    assert_int_equal(open_with("cuda:1", NULL, "0", "FACULA_SIM_MEMORY='0'"), 0);
}

static int open_gpu(void **state) {
    (void)state;
    int devices = 0;
    char why[512];
    gpu = fai_backend_cuda();
    if (gpu->open(&devices, why, sizeof why) || devices != 3) return printf("%d devices: %s\n", devices, why), -1;
    void *simulator = dlopen("libfacula_sim.so", RTLD_NOW | RTLD_NOLOAD);
    if (!simulator) return printf("%s\n", dlerror()), -1;
    *(void **)&set_faults = dlsym(simulator, "facula_sim_faults");
    *(void **)&count = dlsym(simulator, "facula_sim_count");
    for (int i = 0; i < 3; i++) load_kernels(i);
    return 0;
}

int main(void) {
    const char *mode = getenv("FACULA_SIM_MODE");
    lazy = !mode || strcmp(mode, "eager") != 0;
    if (!getenv("FACULA_SIM")) setenv("FACULA_SIM", "cuda:2,xpu:1", 1), setenv("FACULA_SIM_MEMORY", "64MiB", 1);
    const struct CMUnitTest before[] = {cmocka_unit_test(test_environment)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_properties),   cmocka_unit_test(test_kernels),       cmocka_unit_test(test_table),
        cmocka_unit_test(test_guard),        cmocka_unit_test(test_fork),          cmocka_unit_test(test_late_work),
        cmocka_unit_test(test_removed_wait), cmocka_unit_test(test_events),        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_bad_arguments), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_late_failure),  cmocka_unit_test(test_lost),
        cmocka_unit_test(test_flip),         cmocka_unit_test(test_threads),       cmocka_unit_test(test_nothing_left),
    };
    int failed = cmocka_run_group_tests(before, NULL, NULL);
    return failed + cmocka_run_group_tests(tests, open_gpu, NULL);
}
