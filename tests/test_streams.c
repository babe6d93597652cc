/* Streams and events on simulated devices: who waits for whom, whose memory is used again when, and what a failure in one stream
 * means for another. The simulator runs nothing that nobody needs, and with a seed lets streams run ahead by chance: a program of
 * several streams gives the right numbers for every seed, and wrong ones for some seed as soon as one of its waits is left out.
 *
 *   test-env: FACULA_SIM=cuda:2
 *   test-tags: threads soak
 *   test-limit: 240 */
#include "backends/cuda/cuda.h"
#include "tensor/tensor.h"
#include "support/expect.h"
#include "support/faults.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>

static void (*sim_seed)(uint64_t seed);
static fa_stream none_such;

static int setup(void **state) {
    (void)state;
    find_simulator();
    if (!sim_faults) return -1;
    void *simulator = dlopen("libfacula_sim.so", RTLD_NOW | RTLD_NOLOAD);
    *(void **)&sim_seed = dlsym(simulator, "facula_sim_seed");
    none_such = (fa_stream){FA_CUDA(0), 90};
    return sim_seed ? 0 : -1;
}

static int clean(void **state) {
    (void)state;
    sim_faults(NULL);
    sim_seed(0);
    for (int i = 0; i < 2; i++) {
        fa_set_current_stream(fa_default_stream(FA_CUDA(i)));
        fa_synchronize(FA_CUDA(i));
    }
    fa_set_current_device(FA_CUDA(0));
    fa_error_take();
    return 0;
}


/* ---- names ---- */

static void streams_are_given_in_turn(void **state) {
    (void)state;
    const fa_stream main = fa_default_stream(FA_CUDA(-1)), first = fa_stream_new(FA_CUDA(0), 0), fast = fa_stream_new(FA_CUDA(1), -5);
    assert_true(fa_stream_equal(main, fa_current_stream(FA_CUDA(0))));
    assert_int_equal(main.id, 0);
    assert_null(fa_stream_native(main));
    assert_non_null(fa_stream_native(first));
    assert_int_equal(fa_stream_priority(first), 0);
    assert_int_equal(fa_stream_priority(fast), -1);
    assert_true(fa_device_equal(fast.device, FA_CUDA(1)));
    fa_stream last = first;
    for (int i = 0; i < 31; i++) {
        last = fa_stream_new(FA_CUDA(0), 0);
        assert_false(fa_stream_equal(last, first));
    }
    assert_true(fa_stream_equal(fa_stream_new(FA_CUDA(0), 0), first)); /* 32 of each priority */
    const fa_stream theirs = fa_stream_external(FA_CUDA(0), fa_stream_native(last));
    assert_true(fa_stream_equal(theirs, last)); /* known by its handle */
    assert_true(fa_stream_query(fa_stream_new(FA_CPU, 0)));
}

static void the_current_stream_is_the_threads_and_the_devices(void **state) {
    (void)state;
    const fa_stream side = fa_stream_new(FA_CUDA(1), 0);
    {
        FA_STREAM_SCOPE(side);
        assert_true(fa_stream_equal(fa_current_stream(FA_CUDA(1)), side));
        assert_int_equal(fa_current_stream(FA_CUDA(0)).id, 0);
        assert_int_equal(fa_current_device(FA_DEVICE_CUDA), 1);
    }
    assert_int_equal(fa_current_stream(FA_CUDA(1)).id, 0);
    assert_int_equal(fa_current_device(FA_DEVICE_CUDA), 0);
    assert_true(fa_set_current_stream(side));
    assert_int_equal(fa_current_stream(FA_CUDA(1)).id, side.id);
    assert_true(fa_set_current_stream(fa_default_stream(FA_CUDA(1))));
}

static void mistakes_are_told(void **state) {
    (void)state;
    FA_SCOPE;
    fa_event *plain = fa_event_new(false), *timed = fa_event_new(true), *other = fa_event_new(true);
    assert_false(fa_set_current_stream(none_such));
    EXPECT(FA_ERR_VALUE, "cuda:0 has no stream number 90: make streams by fa_stream_new(device, 0)");
    assert_false(fa_stream_synchronize((fa_stream){0}));
    EXPECT(FA_ERR_TYPE, "argument 'stream' is no stream: make one by fa_stream_new(device, 0)");
    assert_false(fa_event_record(NULL, fa_default_stream(FA_CUDA(0))));
    EXPECT(FA_ERR_TYPE, "argument 'event' is NULL: an event is needed, from fa_event_new");
    assert_false(fa_event_record(plain, fa_default_stream(FA_CPU)));
    EXPECT(FA_ERR_VALUE, "an event needs the stream of a device, but got the CPU's: its work is done at once");
    assert_true(isnan(fa_event_elapsed(plain, timed)));
    EXPECT(FA_ERR_VALUE, "Both events must be created with argument 'enable_timing=True'.");
    assert_true(isnan(fa_event_elapsed(timed, other)));
    EXPECT(FA_ERR_VALUE, "Both events must be recorded before calculating elapsed time.");
    assert_true(fa_event_record(timed, fa_default_stream(FA_CUDA(0))) && fa_event_record(other, fa_default_stream(FA_CUDA(1))));
    assert_true(isnan(fa_event_elapsed(timed, other)));
    EXPECT(FA_ERR_VALUE, "the events were recorded on cuda:0 and cuda:1: time can be measured on one device only");
    assert_false(fa_event_record(timed, fa_default_stream(FA_CUDA(1))));
    EXPECT(FA_ERR_RUNTIME, "Event device cuda:0 does not match recording stream's device cuda:1.");
    other = fa_event_new(true);
    assert_true(fa_event_record(other, fa_default_stream(FA_CUDA(0))));
    assert_true(isnan(fa_event_elapsed(timed, other)));
    EXPECT(FA_ERR_RUNTIME, "Both events must be completed before calculating elapsed time.");
    fa_tensor *x = fa_ones(FA_SHAPE(4), .device = FA_CUDA(0));
    assert_false(fa_record_stream(x, fa_default_stream(FA_CUDA(1))));
    EXPECT(FA_ERR_RUNTIME, "the tensor is on cuda:0 but the stream belongs to cuda:1: a stream uses memory of its own device");
    assert_false(fa_record_stream(x, fa_stream_new(FA_CPU, 0)));
    EXPECT(FA_ERR_RUNTIME, "the tensor is on cuda:0 but the stream belongs to cpu: a stream uses memory of its own device");
    assert_true(fa_record_stream(fa_ones(FA_SHAPE(2)), fa_default_stream(FA_CUDA(1)))); /* the CPU's: nothing to do */
}

static void other_libraries_streams_are_bounded(void **state) {
    (void)state;
    FA_SCOPE;
    for (int i = 0; i < 32; i++) {
        fa_stream_handle handle;
        void *theirs;
        assert_int_equal(fai_backend_cuda()->stream_create(1, 0, &handle), 0);
        memcpy(&theirs, &handle, sizeof theirs);
        const fa_stream s = fa_stream_external(FA_CUDA(1), theirs);
        if (i == 31) break;
        assert_true(s.device.type && fa_stream_equal(s, fa_stream_external(FA_CUDA(1), theirs)));
        FA_STREAM_SCOPE(s);
        assert_true(fa_item(fa_sum(fa_ones(FA_SHAPE(3), .device = FA_CUDA(1)))) == 3);
    }
    EXPECT(FA_ERR_RUNTIME, "cuda:1 has 31 streams of other libraries already, and there can be no more: use them again");
}

static void a_handle_that_is_no_stream(void **state) {
    (void)state;
    FA_SCOPE;
    assert_false(fa_stream_external(FA_CUDA(0), (void *)(uintptr_t)12345).device.type);
    EXPECT(FA_ERR_DEVICE, "CUDA error: invalid resource handle (CUDA_ERROR_INVALID_HANDLE)");
    assert_true(fa_synchronize(FA_CUDA(0))); /* nothing is spoiled by that */
}

/* ---- events ---- */

static void events_come_when_their_work_is_done(void **state) {
    (void)state;
    FA_SCOPE;
    const fa_stream side = fa_stream_new(FA_CUDA(0), 0);
    fa_event *start = fa_event_new(true), *end = fa_event_new(true);
    assert_true(fa_event_query(start)); /* never recorded */
    assert_true(fa_event_synchronize(start) && fa_event_wait(start, side));
    assert_int_equal(fa_event_device(start).type, 0);
    {
        FA_STREAM_SCOPE(side);
        assert_true(fa_event_record(start, side));
        fa_exp(fa_rand(FA_SHAPE(100, 100), .device = FA_CUDA(0)));
        assert_true(fa_event_record(end, side));
    }
    assert_false(fa_stream_query(side));
    assert_false(fa_event_query(end));
    assert_true(fa_event_synchronize(end));
    assert_true(fa_event_query(end) && fa_event_query(start) && fa_stream_query(side));
    assert_true(fa_event_elapsed(start, end) > 0 && fa_event_elapsed(start, end) < 10000);
    assert_true(fa_event_elapsed(end, start) < 0);
    assert_true(fa_device_equal(fa_event_device(end), FA_CUDA(0)));
    fa_exp(fa_rand(FA_SHAPE(10), .device = FA_CUDA(0)));
    int asked = 0;
    while (!fa_stream_query(fa_default_stream(FA_CUDA(0))) && asked < 100000) asked++; /* asking again and again ends */
    assert_true(asked < 100000);
    assert_false(fa_failed());
}

/* ---- memory ---- */

static uint64_t where(const fa_tensor *t) { return t->buffer->address; }

static void memory_is_used_again_on_its_own_stream_only(void **state) {
    (void)state;
    FA_SCOPE;
    fa_test_caches(true);
    const fa_stream side = fa_stream_new(FA_CUDA(0), 0);
    fa_tensor *x = fa_full(FA_SHAPE(1000), 1, .device = FA_CUDA(0));
    const uint64_t first = where(x);
    fa_drop(x);
    {
        FA_STREAM_SCOPE(side);
        fa_tensor *y = fa_full(FA_SHAPE(1000), 2, .device = FA_CUDA(0));
        assert_true(where(y) != first); /* the default stream's memory is not the side stream's */
        const uint64_t second = where(y);
        fa_drop(y);
        y = fa_full(FA_SHAPE(1000), 2, .device = FA_CUDA(0));
        assert_true(where(y) == second); /* at once, although the fill has not run */
        fa_drop(y);
    }
    x = fa_full(FA_SHAPE(1000), 3, .device = FA_CUDA(0));
    assert_true(where(x) == first);
    assert_true(fa_record_stream(x, side));
    {
        FA_STREAM_SCOPE(side);
        assert_true(fa_stream_wait_stream(side, fa_default_stream(FA_CUDA(0))));
        fa_add_scalar(x, 1);
    }
    const uint64_t before = fa_memory_allocated(FA_CUDA(0));
    fa_drop(x);
    assert_true(fa_memory_allocated(FA_CUDA(0)) < before); /* not a live tensor's any more */
    fa_tensor *z = fa_full(FA_SHAPE(1000), 4, .device = FA_CUDA(0));
    assert_true(where(z) != first); /* the side stream may read it still */
    assert_true(fa_stream_synchronize(side));
    fa_tensor *after = fa_full(FA_SHAPE(1000), 5, .device = FA_CUDA(0));
    assert_true(where(after) == first);
    assert_false(fa_failed());
}

static void more_streams_than_a_block_remembers(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_full(FA_SHAPE(1000), 3, .device = FA_CUDA(0));
    const uint64_t first = where(x);
    fa_tensor *sum[5];
    for (int i = 0; i < 5; i++) {
        const fa_stream side = fa_stream_new(FA_CUDA(0), 0);
        FA_STREAM_SCOPE(side);
        fa_stream_wait_stream(side, fa_default_stream(FA_CUDA(0)));
        sum[i] = fa_sum(x);
        assert_true(fa_record_stream(x, side));
    }
    fa_drop(x); /* waits */
    x = fa_full(FA_SHAPE(1000), 4, .device = FA_CUDA(0));
    assert_true(where(x) == first);
    for (int i = 0; i < 5; i++) assert_true(fa_item(sum[i]) == 3000);
    const uint64_t reserved = fa_memory_reserved(FA_CUDA(0));
    for (int i = 0; i < 5; i++) fa_drop(sum[i]);
    fa_drop(x);
    assert_true(fa_empty_cache(FA_CUDA(0)));
    assert_true(fa_memory_reserved(FA_CUDA(0)) < reserved);
}

/* ---- failures ---- */

static void a_failure_in_a_side_stream(void **state) {
    (void)state;
    FA_SCOPE;
    const fa_stream side = fa_stream_new(FA_CUDA(0), 0), main = fa_default_stream(FA_CUDA(0));
    fa_tensor *x = fa_full(FA_SHAPE(4), 3, .device = FA_CUDA(0)), *good, *bad, *after;
    assert_true(fa_stream_synchronize(main));
    good = fa_mul(x, x);
    sim_faults("late:1");
    {
        FA_STREAM_SCOPE(side);
        bad = fa_exp(x);
        after = fa_add_scalar(bad, 1);
    }
    fa_tensor *also_good = fa_add_scalar(good, 1);
    assert_true(fa_item(fa_sum(also_good)) == 40); /* the default stream knows nothing of it */
    assert_false(fa_stream_synchronize(side));
    const fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_DEVICE);
    assert_string_equal(e.op, "exp");
    sim_faults(NULL);
    assert_true(fa_item(fa_sum(good)) == 36);
    fa_item(fa_sum(bad));
    EXPECT(FA_ERR_DEVICE, "the tensor on cuda:0 has no contents: 'exp', which failed");
    fa_item(fa_sum(after));
    EXPECT(FA_ERR_DEVICE, "the tensor on cuda:0 has no contents: 'exp', which failed");
    FA_STREAM_SCOPE(side);
    assert_true(fa_item(fa_sum(x)) == 12);
}

static void a_failure_reaches_the_streams_that_waited_for_it(void **state) {
    (void)state;
    FA_SCOPE;
    const fa_stream side = fa_stream_new(FA_CUDA(0), 0), main = fa_default_stream(FA_CUDA(0));
    fa_tensor *x = fa_full(FA_SHAPE(4), 3, .device = FA_CUDA(0)), *before, *bad, *from_it;
    assert_true(fa_stream_synchronize(main));
    sim_faults("late:1");
    {
        FA_STREAM_SCOPE(side);
        bad = fa_exp(x);
    }
    before = fa_mul(x, x); /* runs: it comes before the wait */
    assert_true(fa_stream_wait_stream(main, side));
    from_it = fa_add_scalar(bad, 1);
    assert_false(fa_synchronize(FA_CUDA(0)));
    const fa_error e = fa_error_take();
    assert_string_equal(e.op, "exp");
    assert_non_null(strstr(e.text, "in a stream that this one waited for"));
    sim_faults(NULL);
    assert_true(fa_item(fa_sum(before)) == 36);
    fa_item(fa_sum(from_it));
    EXPECT(FA_ERR_DEVICE, "the tensor on cuda:0 has no contents: 'exp', which failed");
    assert_true(fa_item(fa_sum(fa_mul(x, x))) == 36);
}

/* The first stream that waits tells of an index that is not there. */
static void a_bad_index_in_a_side_stream(void **state) {
    (void)state;
    FA_SCOPE;
    const fa_stream side = fa_stream_new(FA_CUDA(0), 0);
    fa_tensor *x = fa_arange(0, 5, 1, .dtype = FA_FLOAT32, .device = FA_CUDA(0)), *bad = fa_mul_scalar(fa_to(fa_ints(1, 7), FA_CUDA(0)), 1);
    assert_true(fa_synchronize(FA_CUDA(0)));
    FA_STREAM_SCOPE(side);
    (void)fa_index_select(x, 0, bad);
    assert_true(fa_stream_synchronize(fa_default_stream(FA_CUDA(0))));
    assert_false(fa_stream_synchronize(side));
    assert_string_equal(fa_error_peek()->op, "index_select");
    assert_int_equal(fa_error_take().code, FA_ERR_INDEX);
    assert_true(fa_stream_synchronize(side));
}

/* ---- two devices ---- */

static void streams_of_two_devices_wait_for_each_other(void **state) {
    (void)state;
    FA_SCOPE;
    const fa_stream one = fa_stream_new(FA_CUDA(0), 0), other = fa_stream_new(FA_CUDA(1), 0);
    fa_event *ready = fa_event_new(false);
    fa_tensor *x, *there;
    {
        FA_STREAM_SCOPE(one);
        x = fa_full(FA_SHAPE(8), 2, .device = FA_CUDA(0));
        assert_true(fa_event_record(ready, one));
    }
    assert_true(fa_event_wait(ready, other));
    {
        FA_STREAM_SCOPE(other);
        const fa_tensor *waits = fa_full(FA_SHAPE(8), 1, .device = FA_CUDA(1));
        (void)waits;
    }
    assert_true(fa_stream_synchronize(other));
    assert_true(fa_event_query(ready)); /* the one came before the other */
    {
        FA_STREAM_SCOPE(one);
        there = fa_to(x, FA_CUDA(1));
    }
    assert_true(fa_item(fa_sum(there)) == 16);
    assert_false(fa_failed());
}

/* ---- programs by seed ---- */

enum { STREAMS = 4, THINGS = 6, STEPS = 24, ELEMENTS = 3 };

typedef struct thing {
    fa_tensor *t;
    float value;
    int writer, written;     /* by which stream, at which of its steps */
    int read[STREAMS];       /* the last step of each stream that read it since; 0: none */
    uint32_t users;          /* streams that must be done before it goes */
} thing;

typedef struct program {
    fa_stream stream[STREAMS];
    thing thing[THINGS];
    uint64_t random;
    int step[STREAMS], known[STREAMS][STREAMS]; /* how far each stream is; up to where it waited for each other one */
    int waits, skip; /* needed waits so far; which one is left out, 0: none */
} program;

static unsigned draw(program *p, unsigned n) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(p->random >> 33) % n;
}

/* What comes into `later` from now on needs what `earlier` did at its step `at`. */
static void order(program *p, int later, int earlier, int at) {
    if (later == earlier || p->known[later][earlier] >= at) return;
    for (int s = 0; s < STREAMS; s++)
        if (p->known[earlier][s] > p->known[later][s]) p->known[later][s] = p->known[earlier][s];
    p->known[later][earlier] = p->step[earlier];
    if (++p->waits == p->skip) return;
    if (draw(p, 2)) {
        fa_event *e = fa_stream_record_event(p->stream[earlier]);
        fa_event_wait(e, p->stream[later]);
        fa_drop(e);
    } else {
        fa_stream_wait_stream(p->stream[later], p->stream[earlier]);
    }
}

static void before_reading(program *p, thing *t, int stream) {
    order(p, stream, t->writer, t->written);
    t->read[stream] = p->step[stream] + 1;
    t->users |= 1u << stream;
}

static void forget(program *p, thing *t) {
    for (int s = 0; s < STREAMS; s++)
        if (t->users & 1u << s) fa_record_stream(t->t, p->stream[s]);
    fa_drop(t->t);
    *t = (thing){0};
}

static void make(program *p, thing *t, int stream) {
    if (t->t) forget(p, t);
    *t = (thing){.value = (float)draw(p, 8), .writer = stream, .written = ++p->step[stream]};
    FA_STREAM_SCOPE(p->stream[stream]);
    t->t = fa_full(FA_SHAPE(ELEMENTS), t->value, .device = FA_CUDA(0), .dtype = FA_FLOAT32);
}

/* c = a + b / 2 in a stream, into new memory or over what c was. */
static void combine(program *p, thing *a, thing *b, thing *c, int stream) {
    before_reading(p, a, stream);
    before_reading(p, b, stream);
    const float value = a->value + b->value / 2;
    FA_STREAM_SCOPE(p->stream[stream]);
    if (c == a && draw(p, 2)) {
        for (int s = 0; s < STREAMS; s++)
            if (a->read[s]) order(p, stream, s, a->read[s]);
        fa_add_(a->t, fa_mul_scalar(b->t, 0.5));
        a->value = value, a->writer = stream, a->written = p->step[stream] + 1;
        memset(a->read, 0, sizeof a->read);
        p->step[stream]++;
        return;
    }
    fa_tensor *sum = fa_add(a->t, fa_mul_scalar(b->t, 0.5));
    forget(p, c);
    *c = (thing){.t = sum, .value = value, .writer = stream, .written = ++p->step[stream]};
}

/* Returns whether all numbers are right at the end. */
static bool run_program(uint64_t seed, uint64_t device_seed, int skip, int *waits) {
    FA_SCOPE;
    program p = {.random = seed * 977 + 5, .skip = skip};
    sim_seed(device_seed);
    for (int i = 0; i < STREAMS; i++) p.stream[i] = i ? fa_stream_new(FA_CUDA(0), -(i % 2)) : fa_default_stream(FA_CUDA(0));
    for (int i = 0; i < THINGS; i++) make(&p, &p.thing[i], (int)draw(&p, STREAMS));
    for (int step = 0; step < STEPS; step++) {
        const int stream = (int)draw(&p, STREAMS);
        thing *a = &p.thing[draw(&p, THINGS)], *b = &p.thing[draw(&p, THINGS)], *c = &p.thing[draw(&p, THINGS)];
        FA_SCOPE;
        if (draw(&p, 5) == 0) make(&p, c, stream);
        else combine(&p, a, b, draw(&p, 2) ? a : c, stream);
        if (a->t) fa_keep(a->t);
        if (c->t) fa_keep(c->t);
    }
    bool right = true;
    for (int i = 0; i < THINGS; i++) {
        float got[ELEMENTS] = {0};
        FA_STREAM_SCOPE(p.stream[p.thing[i].writer]); /* reading waits for this stream and no other */
        right &= fa_to_data(p.thing[i].t, got, FA_FLOAT32);
        for (int k = 0; k < ELEMENTS; k++) right &= got[k] == p.thing[i].value;
    }
    fa_synchronize(FA_CUDA(0));
    *waits = p.waits;
    for (int i = 0; i < THINGS; i++) forget(&p, &p.thing[i]);
    return right && !fa_failed();
}

static void every_seed_gives_the_same_numbers(void **state) {
    (void)state;
    const uint64_t seeds = getenv("FACULA_SOAK") ? 10000 : 100;
    int most = 0;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        int waits;
        if (!run_program(seed, seed, 0, &waits)) fail_msg("seed %llu: wrong numbers. %s", (unsigned long long)seed, fa_failed() ? fa_error_peek()->text : "");
        if (waits > most) most = waits;
    }
    assert_true(most > 10);
}

/* Not every wait shows in every program (another may stand in for it), but of many left out many must. */
static void a_wait_left_out_shows(void **state) {
    (void)state;
    int left_out = 0, seen = 0;
    for (uint64_t seed = 0; seed < 25; seed++) {
        int waits, unused;
        assert_true(run_program(seed, seed, 0, &waits));
        for (int k = 1; k <= waits; k += 2) {
            left_out++;
            bool right = true;
            for (uint64_t s = 0; s < 3 && right; s++) right = run_program(seed, s, k, &unused);
            seen += !right;
            fa_error_take();
        }
    }
    print_message("%d waits left out: %d showed at that seed\n", left_out, seen);
    assert_true(seen * 4 > left_out);
}

/* The simplest program: without its only wait it must fail at some seed. */
static bool one_wait(uint64_t seed, bool with) {
    FA_SCOPE;
    const fa_stream side = fa_stream_new(FA_CUDA(0), 0), main = fa_default_stream(FA_CUDA(0));
    sim_seed(seed);
    fa_tensor *x = fa_zeros(FA_SHAPE(ELEMENTS), .device = FA_CUDA(0)), *y;
    fa_synchronize(FA_CUDA(0));
    {
        FA_STREAM_SCOPE(side);
        fa_add_(x, fa_ones(FA_SHAPE(ELEMENTS), .device = FA_CUDA(0)));
    }
    if (with) fa_stream_wait_stream(main, side);
    y = fa_mul_scalar(x, 7);
    const bool right = fa_item(fa_sum(y)) == 21;
    fa_synchronize(FA_CUDA(0));
    return right;
}

static void the_only_wait_left_out_shows(void **state) {
    (void)state;
    bool without = true;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_true(one_wait(seed, true));
        without &= one_wait(seed, false);
    }
    assert_false(without);
}

/* ---- backward ---- */

/* Two branches in two streams, backward called in the default one: each node runs where its forward ran, and gradients are the
 * caller's afterwards, whatever the seed. */
static bool branches(uint64_t seed) {
    FA_SCOPE;
    const fa_stream left = fa_stream_new(FA_CUDA(0), 0), right = fa_stream_new(FA_CUDA(0), -1), main = fa_default_stream(FA_CUDA(0));
    sim_seed(seed);
    float got[6];
    fa_tensor *x = fa_requires_grad(fa_full(FA_SHAPE(6), 2.0, .device = FA_CUDA(0)), true), *a, *b;
    fa_stream_wait_stream(left, main);
    fa_stream_wait_stream(right, main);
    {
        FA_STREAM_SCOPE(left);
        a = fa_mul(fa_mul(x, x), x);
    }
    {
        FA_STREAM_SCOPE(right);
        b = fa_mul_scalar(fa_mul(x, x), 5);
    }
    fa_stream_wait_stream(main, left);
    fa_stream_wait_stream(main, right);
    fa_tensor *loss = fa_sum(fa_add(a, b));
    bool fine = fa_backward(loss, .retain_graph = true) && fa_backward(loss);
    fine &= fa_current_stream(FA_CUDA(0)).id == 0;
    fa_tensor *twice = fa_mul_scalar(fa_grad(x), 10);
    fine &= fa_to_data(twice, got, FA_FLOAT32);
    for (int i = 0; i < 6; i++) fine &= got[i] == 2 * (3 * 4 + 5 * 2 * 2) * 10;
    fa_tensor *again, *grad[1];
    {
        FA_STREAM_SCOPE(left);
        again = fa_sum(fa_mul_scalar(fa_mul(x, x), 7));
    }
    fa_stream_wait_stream(main, left);
    fine &= fa_grad_of((fa_tensor *const[]){again}, 1, (fa_tensor *const[]){x}, 1, grad);
    fine &= fa_item(fa_sum(grad[0])) == 6 * 28;
    fa_synchronize(FA_CUDA(0));
    return fine && !fa_failed();
}

static void backward_runs_on_the_forwards_streams(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++)
        if (!branches(seed)) fail_msg("seed %llu: %s", (unsigned long long)seed, fa_failed() ? fa_error_peek()->text : "wrong numbers");
}

/* Gradients that stay in side streams: those of tensors that are no leaves, where no leaf's gradient, which the caller's stream waits
 * for anyway, lies behind them. By fa_grad_of, by .inputs, and before a hook fails; also of more streams than backward notes singly. */
enum { SIDES = 20 };
typedef enum way { ASKED, INPUTS, FAILED, WAYS_OF_LEAVING } way;

static fa_tensor *no_gradient(fa_tensor *gradient, void *data) {
    (void)gradient, (void)data;
    fa_error_set(FA_ERR_FOREIGN, "hook", "it fails");
    return NULL;
}

static bool go_back(fa_tensor *total, fa_tensor **middle, fa_tensor **grad, int n, way how) {
    if (how == ASKED) return fa_grad_of((fa_tensor *const[]){total}, 1, middle, n, grad);
    bool fine = true;
    for (int i = 1; i < n && how == FAILED; i++) fine &= fa_retain_grad(middle[i]);
    if (how == FAILED) fine &= fa_register_hook(middle[0], no_gradient, NULL, NULL) > 0 && !fa_backward(total) && fa_error_take().code == FA_ERR_FOREIGN;
    else fine &= fa_backward(total, .inputs = middle, .ninputs = n);
    for (int i = 0; i < n; i++) grad[i] = fa_grad(middle[i]);
    return fine;
}

static bool left_in_sides(uint64_t seed, int n, way how) {
    FA_SCOPE;
    const fa_stream main = fa_default_stream(FA_CUDA(0));
    fa_tensor *middle[SIDES], *part[SIDES], *grad[SIDES], *x = fa_requires_grad(fa_full(FA_SHAPE(6), 2.0, .device = FA_CUDA(0)), true);
    fa_tensor *total = fa_zeros(FA_SHAPE(6), .device = FA_CUDA(0));
    float got[6];
    sim_seed(seed);
    for (int i = 0; i < n; i++) {
        const fa_stream side = fa_stream_new(FA_CUDA(0), 0);
        fa_stream_wait_stream(side, main);
        {
            FA_STREAM_SCOPE(side);
            middle[i] = fa_mul_scalar(i ? fa_neg(fa_neg(x)) : x, i + 1); /* backward comes to the first one last */
            part[i] = fa_mul(middle[i], middle[i]);
        }
        fa_stream_wait_stream(main, side);
        total = fa_add(total, part[i]);
    }
    bool fine = go_back(fa_sum(total), middle, grad, n, how);
    for (int i = n - 1; i >= (how == FAILED); i--) {
        fine &= grad[i] && fa_to_data(fa_mul_scalar(grad[i], 10), got, FA_FLOAT32); /* in the default stream */
        for (int k = 0; k < 6; k++) fine &= got[k] == 2 * 2 * (float)(i + 1) * 10;
    }
    fa_synchronize(FA_CUDA(0));
    return fine && !fa_failed();
}

static void gradients_left_in_side_streams_are_the_callers(void **state) {
    (void)state;
    for (int how = 0; how < WAYS_OF_LEAVING; how++)
        for (uint64_t seed = 0; seed < 20; seed++)
            for (int n = 2; n <= SIDES; n += SIDES - 2)
                if (!left_in_sides(seed, n, (way)how))
                    fail_msg("way %d, %d streams, seed %llu: %s", how, n, (unsigned long long)seed, fa_failed() ? fa_error_peek()->text : "wrong numbers");
}

/* ---- threads ---- */

static void *in_a_thread(void *number) {
    const double k = (double)(uintptr_t)number;
    const fa_stream own = fa_stream_new(FA_CUDA(0), 0);
    bool right = fa_current_stream(FA_CUDA(0)).id == 0 && fa_set_current_stream(own);
    for (int i = 0; i < 40; i++) {
        FA_SCOPE;
        fa_tensor *x = fa_full(FA_SHAPE(200), k, .device = FA_CUDA(0), .dtype = FA_FLOAT32);
        right &= fa_item(fa_sum(fa_mul_scalar(fa_add_scalar(x, 1), 2))) == 400 * (k + 1);
    }
    return right && !fa_failed() ? number : NULL;
}

static void threads_with_streams_of_their_own(void **state) {
    (void)state;
    pthread_t thread[4];
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&thread[i], NULL, in_a_thread, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(thread[i], &result);
        assert_non_null(result);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(streams_are_given_in_turn, clean),
        cmocka_unit_test_teardown(the_current_stream_is_the_threads_and_the_devices, clean),
        cmocka_unit_test_teardown(mistakes_are_told, clean),
        cmocka_unit_test_teardown(events_come_when_their_work_is_done, clean),
        cmocka_unit_test_teardown(memory_is_used_again_on_its_own_stream_only, clean),
        cmocka_unit_test_teardown(more_streams_than_a_block_remembers, clean),
        cmocka_unit_test_teardown(a_failure_in_a_side_stream, clean),
        cmocka_unit_test_teardown(a_failure_reaches_the_streams_that_waited_for_it, clean),
        cmocka_unit_test_teardown(a_bad_index_in_a_side_stream, clean),
        cmocka_unit_test_teardown(streams_of_two_devices_wait_for_each_other, clean),
        cmocka_unit_test_teardown(every_seed_gives_the_same_numbers, clean),
        cmocka_unit_test_teardown(a_wait_left_out_shows, clean),
        cmocka_unit_test_teardown(the_only_wait_left_out_shows, clean),
        cmocka_unit_test_teardown(backward_runs_on_the_forwards_streams, clean),
        cmocka_unit_test_teardown(gradients_left_in_side_streams_are_the_callers, clean),
        cmocka_unit_test_teardown(threads_with_streams_of_their_own, clean),
        cmocka_unit_test_teardown(other_libraries_streams_are_bounded, clean),
        cmocka_unit_test_teardown(a_handle_that_is_no_stream, clean),
    };
    const int failed = cmocka_run_group_tests(tests, setup, NULL);
    return failed + fa_finish("test_streams");
}
