/* Tests of floor 1 over a backend for tests (fake_backend.h): names, the registry, allocators, the queue, launches and
 * generators. test-tags: threads */
#include "fake_backend.h"
#include <kernels_gen.h>
#include "../kernels/dialect.h"
#include "../kernels/status.h"
#undef item
#undef P
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static int fake_type;
static fa_device dev(int index) { return fa_device_of_type(fake_type, index); }

/* What a fresh process says to a value of FACULA_SIM when it is asked for a GPU. Only possible before this one has a device. */
static char sim_answer[4][512];

static void ask_with_sim(const char *value, char answer[512]) {
    int ends[2];
    if (pipe(ends) != 0) return;
    if (fork() == 0) {
        setenv("FACULA_SIM", value, 1);
        fa_device d = FA_CUDA(0);
        bool fine = fai_device_resolve(&d, "rand");
        const char *text = fine ? "fine" : fa_error_peek()->text;
        _exit(write(ends[1], text, strlen(text)) > 0 ? 0 : 1);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], answer, 511);
    answer[n > 0 ? n : 0] = 0;
    close(ends[0]);
    wait(NULL);
}

static int setup(void **state) {
    (void)state;
    static const char *const values[] = {"cuda", "cuda:0", "cuda:2;", "cuda:2,"};
    for (int i = 0; i < 4; i++) ask_with_sim(values[i], sim_answer[i]);
    unsetenv("FACULA_SIM");
    fake_type = fai_backend_add(&fake_backend, NULL);
    return fake_type ? 0 : -1;
}

static int clean(void **state) {
    (void)state;
    fa_test_fail_allocation(0, false);
    fa_error_take();
    fai_close_all_scopes();
    fake.fail_wait = fake.refuse_launch = 0;
    fake.on_launch = NULL;
    for (int i = 0; i < FAKE_DEVICES; i++) {
        fa_synchronize(dev(i));
        fa_error_take();
        fa_empty_cache(dev(i));
        fa_reset_peak_memory_stats(dev(i));
        if (fa_memory_allocated(dev(i)) || fa_memory_reserved(dev(i))) return -1;
    }
    return 0;
}

static void expect_error(fa_code code, const char *begins) {
    fa_error e = fa_error_take();
    if (e.code != code || strncmp(e.text, begins, strlen(begins)) != 0) fail_msg("got error %d: %s", e.code, e.text);
}

/* ---- names ---- */

static char warned[200];
static void note_warning(const char *op, const char *text) { snprintf(warned, sizeof warned, "%s", op ? text : ""); }

static void names_are_parsed_as_in_torch(void **state) {
    (void)state;
    assert_true(fa_device_equal(fa_device_parse("cuda"), FA_CUDA(-1)));
    assert_true(fa_device_equal(fa_device_parse("cuda:1"), FA_CUDA(1)));
    assert_true(fa_device_equal(fa_device_parse("cpu"), FA_CPU));
    assert_true(fa_device_equal(fa_device_parse("fake:12"), dev(12)));
    static const char *const invalid[] = {"cuda:", "cuda:-1", "cuda:x", "cuda:01", "cuda:1:2", "cuda: 1",
                                          " cuda", "cuda1",   ":1",     "float32", "3"};
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        char begins[120];
        assert_int_equal(fa_device_parse(invalid[i]).type, 0);
        snprintf(begins, sizeof begins, "Invalid device string: '%s'", invalid[i]);
        expect_error(FA_ERR_RUNTIME, begins);
    }
    static const char *const unknown[] = {"foo", "CUDA", "gpu"};
    for (size_t i = 0; i < 3; i++) {
        fa_device_parse(unknown[i]);
        assert_non_null(strstr(fa_error_peek()->text, unknown[i]));
        expect_error(
            FA_ERR_RUNTIME,
            "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, "
            "meta, hpu, mtia, privateuseone device type at start of device string: ");
    }
    fai_set_warn(note_warning);
    fa_device_parse("mkldnn");
    fai_set_warn(NULL);
    assert_int_equal(strncmp(warned, "'mkldnn' is no longer used as device type.", 42), 0);
    static const char *const unserved[] = {"ipu:0", "mkldnn", "opengl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy", "vulkan", "hpu", "mtia", "privateuseone:1"};
    for (size_t i = 0; i < sizeof unserved / sizeof *unserved; i++) { /* names that torch knows are names; using them tells that nothing is there */
        char begins[120];
        const fa_device named = fa_device_parse(unserved[i]);
        assert_string_equal(fa_device_text(named), unserved[i]);
        snprintf(begins, sizeof begins, "Found no %.*s device on your system: nothing in Facula serves this type.", (int)strcspn(unserved[i], ":") % 20, unserved[i]);
        assert_int_equal(fa_device_count(named.type), 0);
        assert_false(fai_device_resolve(&(fa_device){named.type, named.index}, "zeros"));
        expect_error(FA_ERR_UNSUPPORTED, begins);
    }
    assert_false(fai_device_resolve(&(fa_device){fa_device_parse("meta").type, -1}, "zeros"));
    expect_error(FA_ERR_UNSUPPORTED, "Tensors on the device meta, which have sizes and no data, are planned.");
    fa_device_parse("");
    expect_error(FA_ERR_RUNTIME, "Device string must not be empty");
    fa_device_parse("cuda:99999999999");
    expect_error(FA_ERR_RUNTIME, "Could not parse device index '99999999999' in device string 'cuda:99999999999'");
    fa_device_parse(NULL);
    expect_error(FA_ERR_TYPE, "device must be a text");
}

static void names_are_written(void **state) {
    (void)state;
    const char *first = fa_device_text(FA_CUDA(1));
    assert_string_equal(fa_device_text(FA_CPU), "cpu");
    assert_string_equal(fa_device_text(FA_CUDA(-1)), "cuda");
    assert_string_equal(fa_device_text(dev(0)), "fake:0");
    assert_string_equal(fa_device_text(fa_device_of_type(0, 0)), "not given");
    for (int i = 0; i < 3; i++) fa_device_text(FA_CPU);
    assert_string_equal(first, "cuda:1");
}

/* ---- what is there ---- */

static void missing_devices_say_how_to_get_one(void **state) {
    (void)state;
    if (fa_device_count(FA_DEVICE_CUDA)) skip();
    fa_device d = FA_CUDA(-1);
    assert_false(fai_device_resolve(&d, "rand"));
    assert_non_null(strstr(fa_error_peek()->text, "FACULA_SIM=cuda:2"));
    expect_error(FA_ERR_RUNTIME,
                 "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
                 "http://www.nvidia.com/Download/index.aspx. To learn without a GPU, run with FACULA_SIM=cuda:2 in the "
                 "environment: two simulated GPUs.");
    assert_false(fa_synchronize(fa_device_parse("xpu")));
    expect_error(FA_ERR_RUNTIME, "Found no xpu device on your system: ");
    if (!getenv("FACULA_PLUGINS")) {
        assert_false(fa_synchronize(fa_device_parse("npu")));
        expect_error(FA_ERR_RUNTIME, "Found no npu device on your system: it comes by a plug-in, and FACULA_PLUGINS is not set. To learn without a GPU");
    }
    assert_int_equal(fa_memory_allocated(FA_CUDA(0)), 0);
    assert_true(fa_empty_cache(FA_CUDA(0)));
    fa_device odd = fa_device_of_type(77, 0);
    assert_false(fai_device_resolve(&odd, "rand"));
    expect_error(FA_ERR_RUNTIME, "device type 77 is unknown");
}

static void bad_values_of_facula_sim_are_explained(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_non_null(strstr(sim_answer[i], "' is not understood. Write a device type, a colon and a number from 1 to 64"));
        assert_non_null(strstr(sim_answer[i], "FACULA_SIM=cuda:2"));
    }
}

static void devices_resolve(void **state) {
    (void)state;
    fa_device d = dev(-1);
    assert_true(fai_device_resolve(&d, "rand"));
    assert_int_equal(d.index, 0);
    assert_true(fa_set_current_device(dev(1)));
    d = dev(-1);
    assert_true(fai_device_resolve(&d, "rand"));
    assert_int_equal(d.index, 1);
    assert_int_equal(fa_current_device(fake_type), 1);
    assert_true(fa_set_current_device(dev(0)));
    d = dev(5);
    assert_false(fai_device_resolve(&d, "rand"));
    expect_error(
        FA_ERR_DEVICE,
        "FAKE error: invalid device ordinal. fake:5 was asked for, but there are 2 devices of this type: fake:0 to fake:1");
    d = fa_device_of_type(FA_DEVICE_CPU, 3);
    assert_true(fai_device_resolve(&d, "rand"));
    assert_true(fa_device_equal(d, FA_CPU));
    assert_false(fa_set_current_device(FA_CPU));
    expect_error(FA_ERR_VALUE, "Expected a cuda device, but got: cpu");
    assert_int_equal(fa_device_count(fake_type), 2);
    assert_int_equal(fa_device_count(FA_DEVICE_CPU), 1);
    assert_int_equal(fa_device_count(-3), 0);
    fa_device_properties p;
    assert_true(fa_device_get_properties(dev(1), &p));
    assert_string_equal(p.name, "Fake 1");
    assert_true(fa_device_get_properties(FA_CPU, &p));
    assert_true(p.total_memory > 0 && p.name[0]);
    if (fa_device_count(FA_DEVICE_CUDA)) return;
    assert_true(fa_device_equal(fa_accelerator(), dev(-1)));
    assert_true(fa_device_equal(fa_try_accelerator(1), dev(1)));
    assert_true(fa_device_equal(fa_try_accelerator(2), FA_CPU));
}

static void default_device_and_scopes(void **state) {
    (void)state;
    assert_true(fa_device_equal(fa_default_device(), FA_CPU));
    {
        FA_DEVICE_SCOPE(dev(1));
        assert_true(fa_device_equal(fa_default_device(), dev(1)));
        {
            FA_DEVICE_SCOPE(FA_CPU);
            assert_true(fa_device_equal(fa_default_device(), FA_CPU));
        }
        fa_device d = {0, 0};
        assert_true(fai_device_resolve(&d, "rand"));
        assert_true(fa_device_equal(d, dev(1)));
    }
    assert_true(fa_device_equal(fa_default_device(), FA_CPU));
    fa_set_default_device(FA_CUDA(3)); /* not checked until it is used */
    assert_true(fa_device_equal(fa_default_device(), FA_CUDA(3)));
    fa_set_default_device(fa_device_of_type(0, 0));
    assert_true(fa_device_equal(fa_default_device(), FA_CPU));
    for (int i = 0; i < 100; i++) fa_device_scope_open(dev(0));
    assert_true(fa_failed());
    for (int i = 0; i < 100; i++) fa_device_scope_close();
    fa_device_scope_close();
    assert_true(fa_device_equal(fa_default_device(), FA_CPU));
}

/* ---- the CPU's memory ---- */

static void host_buffers_have_room_and_are_used_again(void **state) {
    (void)state;
    for (size_t bytes = 0; bytes < 300 * 1024; bytes = bytes * 5 / 4 + 1) {
        fai_buffer *b = fai_buffer_new(FA_CPU, bytes, "test");
        assert_int_equal(b->address % 64, 0);
        assert_true(b->room >= bytes && b->room % 64 == 0 && b->room <= bytes + bytes / 4 + 128);
        memset(fai_buffer_host(b), 1, b->room);
        uint64_t address = b->address;
        fai_buffer_unref(b);
        if (!fai_caches_on()) continue;
        b = fai_buffer_new(FA_CPU, bytes, "test");
        assert_int_equal(b->address, address);
        fai_buffer_unref(b);
    }
    fai_buffer_unref(NULL);
    assert_null(fai_buffer_new(FA_CPU, SIZE_MAX, "test"));
    expect_error(FA_ERR_MEMORY, "not enough memory");
    assert_null(fai_buffer_new(FA_CPU, SIZE_MAX / 2, "test"));
    expect_error(FA_ERR_MEMORY, "not enough memory");
}

static int released;
static void note_release(void *context) { released += *(int *)context; }

static void wrapped_memory_is_given_back(void **state) {
    (void)state;
    int data[100], three = 3;
    fai_buffer *b = fai_buffer_wrap(data, sizeof data, note_release, &three, "wrap");
    fai_buffer_ref(b);
    fai_buffer_unref(b);
    assert_int_equal(released, 0);
    assert_ptr_equal(fai_buffer_host(b), data);
    fai_buffer_unref(b);
    assert_int_equal(released, 3);
    fai_buffer_unref(fai_buffer_wrap(data, sizeof data, NULL, NULL, "wrap"));
    b = fai_buffer_new(FA_CPU, 10, "test"); /* the header came back whole */
    assert_int_equal(b->room, 64);
    fai_buffer_unref(b);
}

static void *many_buffers(void *seed) {
    fai_buffer *held[50] = {0};
    unsigned random = (unsigned)(uintptr_t)seed;
    for (int i = 0; i < 3000; i++) {
        random = random * 1664525u + 1013904223u;
        int at = (int)(random >> 8) % 50;
        fai_buffer_unref(held[at]);
        held[at] = fai_buffer_new(random & 64 ? FA_CPU : dev((int)(random >> 7 & 1)), (size_t)(random >> 16), "thread");
        assert_non_null(held[at]);
    }
    for (int i = 0; i < 50; i++) fai_buffer_unref(held[i]);
    return NULL;
}

static void buffers_of_many_threads(void **state) {
    (void)state;
    pthread_t thread[3];
    for (uintptr_t i = 0; i < 3; i++) pthread_create(&thread[i], NULL, many_buffers, (void *)(i + 1));
    many_buffers((void *)9);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
}

/* ---- the device's memory ---- */

static void allocator_shows_torchs_numbers(void **state) {
    (void)state;
    bool caches = fai_caches_on();
    fa_test_caches(true);
    fai_buffer *tiny = fai_buffer_new(dev(0), 1, "a");
    assert_int_equal(tiny->room, 512);
    assert_int_equal(fa_memory_allocated(dev(0)), 512);
    assert_int_equal(fa_memory_reserved(dev(0)), 2 * MIB);
    fai_buffer *small = fai_buffer_new(dev(0), MIB, "b");
    assert_int_equal(fa_memory_reserved(dev(0)), 2 * MIB);
    fai_buffer *middle = fai_buffer_new(dev(0), MIB + 1, "c");
    assert_int_equal(fa_memory_allocated(dev(0)), 512 + MIB + MIB + 512);
    assert_int_equal(fa_memory_reserved(dev(0)), 22 * MIB);
    fai_buffer *large = fai_buffer_new(dev(0), 11 * MIB, "d"); /* fits into the rest of the 20 MiB */
    assert_int_equal(fa_memory_reserved(dev(0)), 22 * MIB);
    fai_buffer *own = fai_buffer_new(dev(0), 11 * MIB, "e"); /* 12 MiB of its own, of which 1 MiB is too little to cut off */
    assert_int_equal(fa_memory_reserved(dev(0)), 34 * MIB);
    assert_int_equal(own->room, 12 * MIB);
    assert_int_equal(fa_max_memory_allocated(dev(0)), 512 + MIB + MIB + 512 + 23 * MIB);
    fai_buffer_unref(own);
    assert_int_equal(fa_memory_reserved(dev(0)), 34 * MIB);
    fa_empty_cache(dev(0));
    assert_int_equal(fa_memory_reserved(dev(0)), 22 * MIB);
    assert_int_equal(fake.used[0], 22 * MIB);
    fai_buffer_unref(small);
    fai_buffer_unref(middle);
    fai_buffer_unref(large);
    fai_buffer_unref(tiny);
    assert_int_equal(fa_memory_allocated(dev(0)), 0);
    assert_int_equal(fa_memory_reserved(dev(0)), 22 * MIB);
    assert_int_equal(fa_max_memory_reserved(dev(0)), 34 * MIB);
    fai_buffer *whole = fai_buffer_new(dev(0), 20 * MIB, "f"); /* neighbours became one again */
    assert_int_equal(fa_memory_reserved(dev(0)), 22 * MIB);
    fai_buffer_unref(whole);
    fa_reset_peak_memory_stats(dev(0));
    assert_int_equal(fa_max_memory_allocated(dev(0)), 0);
    fa_empty_cache(dev(0));
    assert_int_equal(fa_memory_reserved(dev(0)), 0);
    assert_int_equal(fake.segments[0], 0);
    assert_int_equal(fake.released_while_pending, 0);
    fa_test_caches(caches);
}

static void caches_off_keeps_nothing(void **state) {
    (void)state;
    bool caches = fai_caches_on();
    fa_test_caches(false);
    uint64_t bytes = fa_host_memory_use().bytes;
    fai_buffer *a = fai_buffer_new(dev(0), 100, "a"), *b = fai_buffer_new(dev(0), 100, "b"),
               *c = fai_buffer_new(FA_CPU, MIB, "c");
    fai_buffer_unref(a);
    fai_buffer_unref(b);
    fai_buffer_unref(c);
    assert_int_equal(fa_memory_reserved(dev(0)), 0);
    assert_int_equal(fa_host_memory_use().bytes, bytes);
    fa_test_caches(caches);
}

static void no_device_memory_is_reported(void **state) {
    (void)state;
    fai_buffer *a = fai_buffer_new(dev(0), 30 * MIB, "matmul"), *b = fai_buffer_new(dev(0), 14 * MIB, "relu");
    fai_buffer *cached = fai_buffer_new(dev(0), 12 * MIB, "gone");
    fai_buffer_unref(cached);
    fai_buffer *c = fai_buffer_new(dev(0), 18 * MIB, "add"); /* only fits because the cache is given back */
    assert_non_null(c);
    assert_null(fai_buffer_new(dev(0), (size_t)20 << 30, "rand"));
    const char *text = fa_error_peek()->text;
    assert_non_null(
        strstr(text, "The largest holders: 30.00 MiB made by 'matmul', 18.00 MiB made by 'add', 14.00 MiB made by 'relu'."));
    assert_string_equal(fa_error_peek()->op, "rand");
    expect_error(
        FA_ERR_DEVICE_MEMORY,
        "FAKE out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 64.00 MiB of which 2.00 MiB is free. "
        "Of the allocated memory 62.00 MiB is allocated by Facula, and 0 bytes is reserved by Facula but unallocated. ");
    assert_null(fai_buffer_new(dev(0), (size_t)1 << 60, "rand"));
    expect_error(FA_ERR_DEVICE_MEMORY, "FAKE out of memory. Tried to allocate more than 1EB memory.");
    uint64_t free_bytes, total;
    assert_true(fa_memory_info(dev(0), &free_bytes, &total));
    assert_int_equal(free_bytes, 2 * MIB);
    fai_buffer_unref(a);
    fai_buffer_unref(b);
    fai_buffer_unref(c);
}

/* ---- copies ---- */

static void copies_arrive(void **state) {
    (void)state;
    enum { N = 3 << 20 }; /* more than what is copied aside */
    int *host = malloc(N * sizeof *host), *back = malloc(N * sizeof *back);
    for (int i = 0; i < N; i++) host[i] = i;
    fa_device_counts before = fa_device_get_counts(dev(0));
    fai_buffer *a = fai_buffer_new(dev(0), N * sizeof *host, "a"), *b = fai_buffer_new(dev(1), N * sizeof *host, "b");
    fai_buffer *c = fai_buffer_new(FA_CPU, N * sizeof *host, "c");
    assert_true(fai_copy_to_device(a, 0, host, N * sizeof *host, "to"));
    assert_true(fai_copy_within(b, 0, a, 0, N * sizeof *host, "to"));
    assert_true(fai_copy_within(c, 0, b, 0, N * sizeof *host, "cpu"));
    assert_memory_equal(fai_buffer_host(c), host, N * sizeof *host);
    int small[4] = {1, 2, 3, 4};
    assert_true(fai_copy_to_device(a, 8, small, sizeof small, "to"));
    memset(small, 0, sizeof small); /* may be used again at once */
    assert_true(fai_copy_within(a, 100, a, 8, sizeof small, "clone"));
    assert_true(fai_fill(a, 0, 0xff, 8, "fill"));
    assert_true(fai_copy_to_host(back, a, 0, 128, "cpu"));
    assert_int_equal(back[0], -1);
    assert_int_equal(back[2], 1);
    assert_int_equal(back[28], 4);
    fa_device_counts now = fa_device_get_counts(dev(0));
    assert_int_equal(now.copies_to_device - before.copies_to_device, 2);
    assert_int_equal(now.copies_within - before.copies_within, 1);
    assert_int_equal(now.copies_to_host - before.copies_to_host, 1 + 3); /* three pieces went to the other device */
    assert_false(fai_copy_to_host(back, a, N * sizeof *host - 4, 8, "cpu"));
    expect_error(FA_ERR_RUNTIME, "a copy of 8 bytes at byte ");
    fai_buffer_unref(a);
    fai_buffer_unref(b);
    fai_buffer_unref(c);
    free(host);
    free(back);
}

static void many_small_copies_do_not_pile_up(void **state) {
    (void)state;
    static char data[MIB];
    fai_buffer *a = fai_buffer_new(dev(0), MIB, "a");
    uint64_t bytes = fa_host_memory_use().bytes;
    for (int i = 0; i < 100; i++) {
        assert_true(fai_copy_to_device(a, 0, data, MIB, "to"));
        assert_true(fa_host_memory_use().bytes - bytes < 40 * MIB);
    }
    assert_true(fa_synchronize(dev(0)));
    assert_int_equal(fa_host_memory_use().bytes, bytes);
    fai_buffer_unref(a);
}

/* ---- launches and late errors ---- */

static bool launch(int kernel, fai_buffer *b, const char *op) {
    fa_plan plan = {.groups = 1, .numel = 1, .nviews = 1};
    plan.view[0].writes = 1;
    return fai_device_launch(dev(0), kernel, &plan, (fai_buffer *[8]){b}, (int64_t[8]){0}, op);
}

static void programs_are_built_once(void **state) {
    (void)state;
    fai_buffer *b = fai_buffer_new(dev(0), 64, "b"), *other = fai_buffer_new(dev(1), 64, "b");
    fa_device_counts before = fa_device_get_counts(dev(0));
    uint64_t builds = fake.builds;
    for (int i = 0; i < 5; i++) assert_true(launch(FAI_K_softmax_f32, b, "add"));
    assert_true(launch(FAI_K_softmax_f64, b, "add"));
    assert_int_equal(fake.builds - builds, 1);
    assert_true(launch(FAI_K_gemm_f32, b, "matmul"));
    assert_int_equal(fake.builds - builds, 2);
    assert_int_equal(fa_device_get_counts(dev(0)).launches - before.launches, 7);
    assert_false(launch(FAI_K_softmax_f32, other, "add"));
    expect_error(FA_ERR_RUNTIME,
                 "Expected all tensors to be on the same device, but found at least two devices, fake:0 and fake:1!");
    fai_buffer_unref(b);
    fai_buffer_unref(other);
}

static void a_plan_must_lie_within_its_buffers(void **state) {
    (void)state;
    fai_buffer *b = fai_buffer_new(dev(0), 64, "b");
    fa_plan plan = {.groups = 1};
    plan.view[0] = (fa_plan_view){.kind = FA_VIEW_TENSOR, .low = -8, .high = 56};
    fai_buffer *buffers[8] = {b};
    assert_true(fai_device_launch(dev(0), FAI_K_softmax_f32, &plan, buffers, (int64_t[8]){8}, "add"));
    assert_false(fai_device_launch(dev(0), FAI_K_softmax_f32, &plan, buffers, (int64_t[8]){4}, "add"));
    expect_error(FA_ERR_RUNTIME, "operand 0 of the kernel covers bytes -4 to 60 of a buffer of 64 bytes");
    assert_false(fai_device_launch(dev(0), FAI_K_softmax_f32, &plan, buffers, (int64_t[8]){12}, "add"));
    expect_error(FA_ERR_RUNTIME, "operand 0 of the kernel covers bytes 4 to 68 of a buffer of 64 bytes");
    fai_buffer_unref(b);
}

static void a_refused_launch_is_an_error_at_once(void **state) {
    (void)state;
    fai_buffer *b = fai_buffer_new(dev(0), 64, "b");
    fake.refuse_launch = FA_BACKEND_FAILED;
    assert_false(launch(FAI_K_softmax_f32, b, "add"));
    assert_string_equal(fa_error_peek()->op, "add");
    expect_error(FA_ERR_DEVICE, "FAKE error: the launch was refused");
    assert_true(launch(FAI_K_softmax_f32, b, "add"));
    fai_buffer_unref(b);
}

static void a_late_error_names_its_op(void **state) {
    (void)state;
    fai_buffer *b = fai_buffer_new(dev(0), 64, "b");
    char back[4];
    launch(FAI_K_softmax_f32, b, "add");
    launch(FAI_K_gemm_f32, b, "matmul");
    launch(FAI_K_softmax_f32, b, "relu");
    fake_fail(0, "FAKE error: kernel gemm_f32 read outside its memory");
    fake.fail_wait = FA_BACKEND_FAILED;
    assert_false(fai_copy_to_host(back, b, 0, 4, "item"));
    assert_string_equal(fa_error_peek()->op, "matmul");
    assert_non_null(strstr(fa_error_peek()->text, "seen by 'item'"));
    expect_error(FA_ERR_DEVICE, "FAKE error: kernel gemm_f32 read outside its memory");
    launch(FAI_K_softmax_f32, b, "mul");
    fake_fail(0, "FAKE error: something");
    fake.fail_wait = FA_BACKEND_FAILED;
    assert_false(fa_synchronize(dev(0)));
    assert_string_equal(fa_error_peek()->op, "mul");
    fa_error_take();
    assert_true(fa_synchronize(dev(0)));
    fai_buffer_unref(b);
}

static void report(const fa_address pointers[8]) {
    report_index((fa_i64 *)(uintptr_t)pointers[1], FA_STATUS_INDEX, 5, 0, 3, 7, fai_status_op("gather"));
}
static void report_target(const fa_address pointers[8]) {
    report_index((fa_i64 *)(uintptr_t)pointers[1], FA_STATUS_TARGET, 12, 1, 10, 0, fai_status_op("nll_loss"));
}

static void launch_index(const char *op, void (*on_launch)(const fa_address pointers[8])) {
    fa_plan plan = {.groups = 1};
    fai_buffer *status = fai_device_status(dev(0), op);
    fake_wait(0, NULL); /* the words are zeroed in queue order; the fake kernels run at once */
    fake.on_launch = on_launch;
    assert_true(fai_device_launch(dev(0), FAI_K_index_read, &plan, (fai_buffer *[8]){NULL, status}, (int64_t[8]){0}, op));
    fake.on_launch = NULL;
}

static void bad_indices_show_at_the_next_wait(void **state) {
    (void)state;
    launch_index("gather", report);
    assert_false(fa_failed());
    assert_false(fa_synchronize(dev(0)));
    assert_string_equal(fa_error_peek()->op, "gather");
    expect_error(FA_ERR_INDEX, "index 5 is out of bounds for dimension 0 with size 3");
    assert_true(fa_synchronize(dev(0)));
    launch_index("nll_loss", report_target);
    assert_false(fa_synchronize(dev(0)));
    expect_error(FA_ERR_INDEX, "Target 12 is out of bounds.");
    assert_true(fa_synchronize(dev(0)));
    assert_int_equal(fa_memory_allocated(dev(0)), 0); /* the words are not the allocator's */
}

/* ---- generators ---- */

static void generators_draw_torchs_numbers(void **state) {
    (void)state;
    fa_scope_open();
    fa_generator *g = fa_generator_new(FA_CPU);
    assert_int_equal(fa_initial_seed(g), UINT64_C(67280421310721));
    assert_true(fa_generator_seed(g, 5489)); /* the reference implementation's own test: the 10,000th word */
    for (int i = 0; i < 9999; i++) fai_mt19937_next(&g->mt);
    assert_int_equal(fai_mt19937_next(&g->mt), 4123659995u);
    fa_generator *d = fa_generator_new(dev(1));
    assert_int_equal(d->device.index, 1);
    d->offset = 8;
    assert_true(fa_generator_seed(d, 3));
    assert_int_equal(d->seed, 3);
    assert_int_equal(d->offset, 0);
    assert_false(fa_generator_seed(NULL, 1));
    expect_error(FA_ERR_TYPE, "generator must not be NULL");
    fa_scope_close();
}

static void manual_seed_reaches_every_device(void **state) {
    (void)state;
    fa_generator *first = fa_default_generator(dev(0));
    assert_ptr_equal(first, fa_default_generator(dev(0)));
    fa_manual_seed(42);
    assert_int_equal(fa_initial_seed(first), 42);
    assert_int_equal(fa_initial_seed(fa_default_generator(dev(1))), 42); /* made after the seed was given */
    assert_int_equal(fa_initial_seed(fa_default_generator(FA_CPU)), 42);
    assert_int_equal(fai_mt19937_next(&fa_default_generator(FA_CPU)->mt), 1608637542u);
    fa_drop(first); /* a default generator is nobody's to drop */
    assert_int_equal(fa_initial_seed(first), 42);
}

/* ---- failures ---- */

static bool use_device(void) {
    char host[100] = {0};
    fai_buffer *a = fai_buffer_new(dev(0), 100, "a"), *b = a ? fai_buffer_new(dev(0), 3 * MIB, "b") : NULL;
    fai_buffer *c = b ? fai_buffer_new(FA_CPU, 100000, "c") : NULL;
    bool fine = c && fai_copy_to_device(a, 0, host, 100, "to") && fai_copy_within(b, 0, a, 0, 100, "copy") &&
                launch(FAI_K_softmax_f32, b, "add") && fai_copy_within(c, 0, b, 0, 100, "cpu") &&
                fai_device_status(dev(0), "gather") && fa_default_generator(dev(0)) && fa_generator_new(dev(0));
    fai_buffer_unref(a);
    fai_buffer_unref(b);
    fai_buffer_unref(c);
    return fine;
}

static void every_host_allocation_may_fail(void **state) {
    (void)state;
    bool caches = fai_caches_on();
    fa_test_caches(false);
    assert_true(use_device()); /* tables that stay */
    fai_close_all_scopes();
    fa_synchronize(dev(0));
    for (int sticky = 0; sticky < 2; sticky++) {
        int seen = 0;
        for (uint64_t n = 1, again = 1; again; n++) {
            uint64_t bytes = fa_host_memory_use().bytes;
            fa_test_fail_allocation(n, sticky);
            bool fine = use_device();
            again = fa_test_failed_allocations() > 0;
            fa_test_fail_allocation(0, false);
            if (fine != !again) fail_msg("allocation %d failed unseen", (int)n);
            expect_error(again ? FA_ERR_MEMORY : FA_OK, "");
            seen += (int)again;
            fai_close_all_scopes();
            fa_synchronize(dev(0));
            assert_int_equal(fa_memory_reserved(dev(0)), 0);
            assert_int_equal(fa_host_memory_use().bytes, bytes);
        }
        assert_true(seen >= 10);
    }
    fa_test_caches(caches);
}

static void a_forked_child_has_only_the_cpu(void **state) {
    (void)state;
    fai_buffer *held = fai_buffer_new(dev(0), 100, "held");
    pid_t child = fork();
    if (child == 0) {
        fa_device d = dev(0);
        if (fai_device_resolve(&d, "rand")) _exit(1);
        if (strncmp(fa_error_take().text,
                    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
                    "start method",
                    60) != 0)
            _exit(2);
        fai_buffer_unref(held);
        fai_buffer *b = fai_buffer_new(FA_CPU, 300000, "b");
        if (!b) _exit(3);
        fai_buffer_unref(b);
        if (fa_empty_cache(d) || fa_synchronize(d) || fa_default_generator(d)) _exit(4);
        fa_error_take();
        fa_manual_seed(1);
        _exit(fa_finish("child") == 0 ? 0 : 5);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    fai_buffer_unref(held);
}

static void finish_gives_everything_back(void **state) {
    (void)state;
    fai_buffer *b = fai_buffer_new(dev(0), 64, "b");
    launch_index("gather", report);
    assert_int_equal(fa_finish("this line about 'gather' is meant to be printed"), 1);
    fai_buffer_unref(b);
    assert_int_equal(fa_finish("test"), 0);
    assert_int_equal(fake.segments[0], 0);
    assert_int_equal(fake.segments[1], 0);
    assert_int_equal(fake.released_while_pending, 0);
}

static void a_lost_device_says_so(void **state) {
    (void)state;
    fai_buffer *b = fai_buffer_new(dev(1), 64, "b");
    fake_fail(0, "FAKE error: the device fell off the bus");
    fake.fail_wait = FA_BACKEND_LOST;
    fake.lost = true;
    assert_false(fa_synchronize(dev(1)));
    expect_error(FA_ERR_DEVICE, "FAKE error: the device fell off the bus");
    assert_null(fai_buffer_new(dev(1), 64, "rand"));
    expect_error(FA_ERR_DEVICE, "FAKE error: the device fell off the bus. The driver gave up fake:1 after this error");
    fai_buffer_unref(b);
    b = fai_buffer_new(dev(0), 64, "b"); /* the other one works */
    assert_non_null(b);
    fai_buffer_unref(b);
    fake.lost = false;
    b = fai_buffer_new(dev(1), 64, "b"); /* and this one too, once its driver has brought it back */
    assert_non_null(b);
    fai_buffer_unref(b);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        TEST(names_are_parsed_as_in_torch),
        TEST(names_are_written),
        TEST(missing_devices_say_how_to_get_one),
        TEST(bad_values_of_facula_sim_are_explained),
        TEST(devices_resolve),
        TEST(default_device_and_scopes),
        TEST(host_buffers_have_room_and_are_used_again),
        TEST(wrapped_memory_is_given_back),
        TEST(buffers_of_many_threads),
        TEST(allocator_shows_torchs_numbers),
        TEST(caches_off_keeps_nothing),
        TEST(no_device_memory_is_reported),
        TEST(copies_arrive),
        TEST(many_small_copies_do_not_pile_up),
        TEST(programs_are_built_once),
        TEST(a_plan_must_lie_within_its_buffers),
        TEST(a_refused_launch_is_an_error_at_once),
        TEST(a_late_error_names_its_op),
        TEST(bad_indices_show_at_the_next_wait),
        TEST(generators_draw_torchs_numbers),
        TEST(manual_seed_reaches_every_device),
        TEST(every_host_allocation_may_fail),
        TEST(a_forked_child_has_only_the_cpu),
        TEST(finish_gives_everything_back),
        TEST(a_lost_device_says_so),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
