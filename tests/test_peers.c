/* Copies between two devices, which the host does not wait for: right numbers whatever the order in which the devices work, without
 * any wait of the program's own; and wrong ones at some seed for each kind of wait that is taken from them. Failures on one side
 * are told on the other one with the operator's name, and both go on afterwards.
 *
 *   test-env: FACULA_SIM=cuda:2
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_PEER=off
 *   test-tags: threads soak
 *   test-limit: 240 */
#include "backends/cuda/cuda.h"
#include "device/device.h"
#include "tensor/tensor.h"
#include "support/expect.h"
#include "support/faults.h"
#include <pthread.h>
#include <stdio.h>

static void (*sim_seed)(uint64_t seed);
static bool reach; /* whether the devices reach each other's memory: else pinned memory lies between them */

/* The cuda backend as a type of its own, of whose waits of one stream for another one can be left out. */
static int waits, skip;
static fa_device on[2];

static int maybe_wait(int d, fa_stream_handle stream, fa_event_handle event) {
    return ++waits == skip ? 0 : fai_backend_cuda()->stream_wait_event(d, stream, event);
}

static int there_are_two(int *count, char *why, size_t n) {
    (void)why, (void)n;
    *count = 2;
    return 0;
}

static int setup(void **state) {
    (void)state;
    static fa_backend backend;
    find_simulator();
    if (!sim_faults || fa_device_count(FA_DEVICE_CUDA) < 2) return -1;
    *(void **)&sim_seed = dlsym(dlopen("libfacula_sim.so", RTLD_NOW | RTLD_NOLOAD), "facula_sim_seed");
    const char *peer = getenv("FACULA_SIM_PEER");
    reach = !peer || strcmp(peer, "off") != 0;
    backend = *fai_backend_cuda();
    backend.name = "leaky";
    backend.open = there_are_two;
    backend.stream_wait_event = maybe_wait;
    const int type = fai_backend_add(&backend, NULL);
    for (int i = 0; i < 2; i++) on[i] = fa_device_of_type(type, i);
    return sim_seed && type ? 0 : -1;
}

static int clean(void **state) {
    (void)state;
    skip = 0;
    sim_faults(NULL);
    sim_seed(0);
    fa_test_caches(true);
    for (int i = 0; i < 2; i++) fa_synchronize(FA_CUDA(i)), fa_error_take();
    return 0;
}

static fa_tensor *filled(int64_t n, double value, fa_device where) { return fa_full(FA_SHAPE(n), value, .device = where, .dtype = FA_FLOAT32); }

static void the_host_does_not_wait(void **state) {
    (void)state;
    FA_SCOPE;
    fa_synchronize(FA_CUDA(0)), fa_synchronize(FA_CUDA(1));
    const uint64_t waited = fa_device_get_counts(FA_CUDA(0)).waits + fa_device_get_counts(FA_CUDA(1)).waits;
    const uint64_t between = sim_count("copy_between");
    fa_tensor *x = fa_mul_scalar(filled(3 << 20, 2, FA_CUDA(0)), 3), *there = fa_add_scalar(fa_to(x, FA_CUDA(1)), 1), *back = fa_to(there, FA_CUDA(0));
    assert_int_equal(fa_device_get_counts(FA_CUDA(0)).waits + fa_device_get_counts(FA_CUDA(1)).waits, waited);
    assert_int_equal(sim_count("copy_between") - between, reach ? 2 : 0);
    assert_true(fa_item(fa_mean(back)) == 7);
    assert_true(fa_item(fa_select(there, 0, -1)) == 7);
    assert_false(fa_failed());
}

/* ---- programs by seed ---- */

enum { THINGS = 8, STEPS = 40, LANES = 2, MOST = 700 };
typedef struct thing {
    fa_tensor *t;
    float value;
    int where;
} thing;

static uint64_t chance;
static unsigned draw(unsigned n) {
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(chance >> 33) % n;
}

static void put(thing *x, fa_tensor *t, float value, int where) {
    if (!t) return;
    fa_keep(t);
    if (x->t) fa_drop(x->t);
    *x = (thing){t, value, where};
}

static void one_step(thing *all, int64_t n) {
    FA_SCOPE;
    thing *a = &all[draw(THINGS)], *b = &all[draw(THINGS)], *c = &all[draw(THINGS)];
    const int other = 1 - a->where;
    switch (draw(6)) {
    case 0:
        put(c, filled(n, a->value / 2, on[other]), a->value / 2, other);
        break;
    case 1:
        if (a->where == b->where) put(c, fa_add(a->t, b->t), a->value + b->value, a->where);
        break;
    case 2: /* into memory that the other device may still read */
        if (a->where != b->where) fa_copy_(b->t, a->t), b->value = a->value;
        break;
    case 3: /* and over memory that the copy may still read */
        put(c, fa_to(a->t, on[other]), a->value, other);
        fa_mul_scalar_(a->t, 0.5), a->value /= 2;
        break;
    case 4: /* which is given back at once */
        put(c, fa_mul_scalar(fa_to(fa_mul_scalar(a->t, 0.25), on[other]), 2), a->value / 2, other);
        break;
    default:
        put(c, fa_to(fa_to(a->t, on[other]), on[a->where]), a->value, a->where);
    }
}

static bool program(uint64_t seed, uint64_t device_seed, int64_t n, bool sides) {
    FA_SCOPE;
    thing all[THINGS] = {0};
    static float got[3 << 20];
    bool right = true;
    fa_stream_before before[2];
    waits = 0;
    chance = seed * 977 + 3;
    sim_seed(device_seed);
    for (int i = 0; i < 2 && sides; i++) before[i] = fa_stream_enter(fa_stream_new(on[i], 0));
    for (int i = 0; i < THINGS; i++) {
        const float value = (float)draw(8);
        put(&all[i], filled(n, value, on[i % 2]), value, i % 2);
    }
    for (int i = 0; i < STEPS; i++) one_step(all, n);
    for (int i = 0; i < THINGS; i++) {
        right &= fa_to_data(all[i].t, got, FA_FLOAT32);
        for (int64_t k = 0; k < n; k++) right &= got[k] == all[i].value;
        fa_drop(all[i].t);
    }
    for (int i = 1; i >= 0 && sides; i--) fa_stream_leave(&before[i]);
    for (int i = 0; i < 2; i++) right &= fa_synchronize(on[i]);
    return right && !fa_failed();
}

static void every_seed_gives_the_same_numbers(void **state) {
    (void)state;
    const uint64_t seeds = getenv("FACULA_SOAK") ? 10000 : 60;
    for (uint64_t seed = 0; seed < seeds; seed++)
        if (!program(seed, seed, 3 + (int64_t)(seed % 4) * 200, seed % 2))
            fail_msg("seed %llu: %s", (unsigned long long)seed, fa_failed() ? fa_error_peek()->text : "wrong numbers");
    fa_test_caches(false); /* memory goes back to the driver at once */
    for (uint64_t seed = 0; seed < 5; seed++) assert_true(program(seed, seed, 100, false));
}

/* ---- each wait is needed ---- */

/* What is read there is what was computed here, which takes memory that was in use there and gives back its own at once. */
static bool once(uint64_t seed, int64_t n) {
    FA_SCOPE;
    static float got[3 << 20];
    sim_seed(seed);
    waits = 0;
    fa_tensor *old = fa_arange(0, (double)n, 1, .dtype = FA_FLOAT32, .device = on[1]), *x = fa_arange(0, (double)n, 1, .dtype = FA_FLOAT32, .device = on[0]), *spare = filled(n, 0, on[0]);
    bool right = fa_synchronize(on[0]) && fa_synchronize(on[1]);
    fa_tensor *doubled = fa_mul_scalar(old, 2); /* not run yet */
    fa_mul_scalar_(x, 3);
    fa_copy_(old, x);
    if (seed % 2) fa_synchronize(on[0]); /* one side runs ahead, */
    if (seed % 4 == 2) fa_item(fa_select(old, 0, 0)); /* or the other one */
    fa_tensor *after = fa_add_scalar(old, 1);
    fa_mul_scalar_(x, 0);
    fa_tensor *held = fa_add_scalar(spare, 7); /* not run yet either */
    fa_copy_(spare, doubled);
    if (seed % 3) fa_synchronize(on[1]);
    right &= fa_to_data(held, got, FA_FLOAT32);
    for (int64_t i = 0; i < n; i++) right &= got[i] == 7;
    right &= fa_to_data(spare, got, FA_FLOAT32);
    for (int64_t i = 0; i < n; i++) right &= got[i] == (float)(2 * i);
    right &= fa_to_data(after, got, FA_FLOAT32);
    for (int64_t i = 0; i < n; i++) right &= got[i] == (float)(3 * i + 1);
    right &= fa_to_data(doubled, got, FA_FLOAT32);
    for (int64_t i = 0; i < n; i++) right &= got[i] == (float)(2 * i);
    return fa_synchronize(on[0]) && fa_synchronize(on[1]) && right;
}

static void each_wait_is_needed(void **state) {
    (void)state;
    const int64_t sizes[] = {100, (9 << 20) / 4}; /* the second goes in three pieces where pinned memory lies between */
    int total = 0;
    for (int k = 0; k < 2; k++) {
        assert_true(once(1, sizes[k]));
        const int all = waits;
        total += all;
        for (int i = 1; i <= all; i++) {
            bool right = true;
            skip = i;
            for (uint64_t seed = 0; seed < 30 && right; seed++) right = once(seed, sizes[k]);
            skip = 0;
            fa_error_take();
            if (right) fail_msg("%lld numbers: without wait %d of %d nothing shows", (long long)sizes[k], i, all);
        }
    }
    print_message("%d waits of one stream for another one, each left out once\n", total);
    assert_true(total >= 8);
}

/* ---- failures ---- */

static fa_error expect_within(const char *words) {
    const fa_error e = fa_error_take();
    if (e.code != FA_ERR_DEVICE || !strstr(e.text, words)) fail_msg("'%s' was expected in error %d of '%s': %s", words, e.code, e.op, e.text);
    return e;
}

static void a_failure_on_the_side_that_is_read(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = filled(4, 3, FA_CUDA(0)), *y = filled(4, 2, FA_CUDA(1));
    assert_true(fa_synchronize(FA_CUDA(0)) && fa_synchronize(FA_CUDA(1)));
    for (int i = 0; i < 3; i++) y = fa_mul(y, y); /* other launches with the same numbers */
    assert_true(fa_item(fa_sum(y)) == 1024);
    sim_faults("late:1");
    fa_tensor *there = fa_to(fa_exp(x), FA_CUDA(1)), *more = fa_add(there, y);
    assert_false(fa_synchronize(FA_CUDA(1)));
    const fa_error e = expect_within(" of cuda:0; it was seen by 'synchronize'");
    assert_string_equal(e.op, "exp");
    sim_faults(NULL);
    fa_item(fa_sum(more));
    EXPECT(FA_ERR_DEVICE, "the tensor on cuda:1 has no contents: 'exp', which failed");
    assert_false(fa_synchronize(FA_CUDA(0)));
    expect_within("an injected fault");
    assert_true(fa_item(fa_sum(fa_add(y, fa_to(x, FA_CUDA(1))))) == 1036);
    fa_copy_(there, x); /* all of it anew: good again */
    assert_true(fa_item(fa_sum(there)) == 12);
}

static void what_is_known_to_be_worth_nothing_is_not_copied(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = filled(4, 3, FA_CUDA(0));
    assert_true(fa_synchronize(FA_CUDA(0)));
    sim_faults("late:1");
    fa_tensor *bad = fa_exp(x);
    assert_false(fa_synchronize(FA_CUDA(0)));
    fa_error_take();
    assert_null(fa_to(bad, FA_CUDA(1)));
    EXPECT(FA_ERR_DEVICE, "the tensor on cuda:0 has no contents: 'exp', which failed");
    assert_true(fa_synchronize(FA_CUDA(1)));
}

static void a_copy_that_is_refused(void **state) {
    (void)state;
    for (int n = 1; n <= (reach ? 1 : 2); n++) {
        FA_SCOPE;
        char spec[16];
        fa_tensor *x = filled(4, 3, FA_CUDA(0));
        snprintf(spec, sizeof spec, "copy:%d", n);
        sim_faults(spec);
        assert_null(fa_to(x, FA_CUDA(1)));
        expect_within("injected fault copy:");
        sim_faults(NULL);
        assert_true(fa_item(fa_sum(fa_to(x, FA_CUDA(1)))) == 12);
    }
}

static void a_device_is_lost(void **state) {
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        FA_SCOPE;
        fa_tensor *x = filled(1000, 3, FA_CUDA(0)), *y = filled(1000, 2, FA_CUDA(1)), *there = fa_to(fa_mul_scalar(x, 2), FA_CUDA(1));
        fa_tensor *sum = fa_add(there, y), *left = fa_item(fa_sum(gone ? x : y)) > 0 ? fa_mul_scalar(gone ? x : y, 2) : NULL;
        there = fa_to(fa_mul_scalar(x, 2), FA_CUDA(1));
        sum = fa_add(there, y);
        sim_faults("lost:1");
        assert_null(filled(3, 1, FA_CUDA(gone))); /* a fill */
        expect_within("was lost");
        fa_item(fa_sum(gone ? left : sum)); /* the other side tells of it where it waits for the first time, */
        const fa_error e = fa_error_take();
        if (!gone) assert_int_equal(e.code, FA_ERR_DEVICE);
        if (!gone) assert_non_null(strstr(e.text, "lost"));
        assert_true(fa_item(fa_sum(fa_mul(gone ? x : y, gone ? x : y))) == (gone ? 9000 : 4000)); /* and goes on */
        sim_faults(NULL);
        fa_synchronize(FA_CUDA(0)), fa_error_take();
        fa_synchronize(FA_CUDA(1)), fa_error_take();
    }
}

/* ---- threads ---- */

static void *to_and_fro(void *number) {
    const int first = (int)(uintptr_t)number - 1;
    bool right = true;
    for (int i = 0; i < 30; i++) {
        FA_SCOPE;
        fa_tensor *x = filled(500, i, FA_CUDA(first)), *there = fa_add_scalar(fa_to(x, FA_CUDA(1 - first)), 1);
        right &= fa_item(fa_sum(fa_to(there, FA_CUDA(first)))) == 500 * (i + 1);
    }
    return right && !fa_failed() ? number : NULL;
}

static void threads_copy_both_ways(void **state) {
    (void)state;
    pthread_t thread[2];
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&thread[i], NULL, to_and_fro, (void *)(i + 1));
    for (int i = 0; i < 2; i++) {
        void *result;
        pthread_join(thread[i], &result);
        assert_non_null(result);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, clean)
    const struct CMUnitTest tests[] = {
        TEST(the_host_does_not_wait),
        TEST(a_failure_on_the_side_that_is_read), /* the simulator counts the launches of both types: before the other one has any */
        TEST(what_is_known_to_be_worth_nothing_is_not_copied),
        TEST(a_copy_that_is_refused),
        TEST(a_device_is_lost),
        TEST(threads_copy_both_ways),
        TEST(every_seed_gives_the_same_numbers),
        TEST(each_wait_is_needed),
    };
    const int failed = cmocka_run_group_tests(tests, setup, NULL);
    return failed + fa_finish("test_peers");
}
