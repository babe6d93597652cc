/* Elementwise operators that run as one launch: the same bits as one by one, over random programs of many element types, shapes,
 * broadcasts, views, writes in place, dropped temporaries and two streams; how many launches there are; what is not stored; and
 * what a failure does: of the driver, of the compiler, of memory.
 *
 * test-env: FACULA_SIM=cuda:2
 * test-env-opencl: FACULA_OPENCL=cpu
 * test-tags: threads soak
 * test-limit: 240 */
#include "support/device.h"
#include "fake_backend.h"
#include "support/faults.h"
#include "tensor/tensor.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { POOL = 6, MOST_BYTES = 1 << 14 };

static fa_device_counts counts(void) { return fa_device_get_counts(device); }

/* ---- random programs ---- */

static uint64_t draws;
static unsigned draw(unsigned n) {
    draws = draws * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(draws >> 33) % n;
}

static fa_tensor *random_tensor(fa_dtype type, fa_shape shape) {
    float data[512];
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    for (int64_t i = 0; i < n; i++) data[i] = (float)((int)draw(1000) - 500) / 100;
    if (n > 3 && draw(3) == 0) data[draw((unsigned)n)] = NAN, data[draw((unsigned)n)] = INFINITY, data[draw((unsigned)n)] = 1e-40f;
    return fa_cast(fa_from_data(data, FA_FLOAT32, shape, .device = device), type);
}

typedef struct program {
    fa_tensor *pool[POOL];             /* all of one shape, of any type */
    fa_tensor *row, *column, *number;  /* what broadcasts to it */
    fa_stream stream[2];
    int64_t rows, columns;
    int nstreams;
} program;

static fa_tensor *operand(program *p) {
    fa_tensor *x = p->pool[draw(POOL)];
    switch (draw(9)) {
    case 0: return p->row;
    case 1: return p->column;
    case 2: return p->number;
    case 3: return p->rows == p->columns ? fa_t(x) : x;
    case 4: return p->rows > 1 ? fa_narrow(x, 0, draw((unsigned)p->rows), 1) : x;
    default: return x;
    }
}

/* A new tensor of the pool's shape, or NULL: the operator refuses these types. */
static fa_tensor *compute(program *p) {
    static fa_tensor *(*const unary[])(fa_tensor *) = {fa_relu, fa_neg, fa_exp, fa_tanh, fa_abs, fa_sigmoid, fa_gelu, fa_square, fa_floor};
    static fa_tensor *(*const binary[])(fa_tensor *, fa_tensor *) = {fa_add, fa_sub, fa_mul, fa_div, fa_maximum, fa_gt, fa_ne, fa_minimum};
    static const fa_dtype types[] = {FA_FLOAT32, FA_FLOAT16, FA_BFLOAT16, FA_FLOAT64, FA_INT32, FA_UINT8, FA_BOOL};
    fa_tensor *x = p->pool[draw(POOL)];
    switch (draw(12)) {
    case 0: return fa_where(fa_gt(x, operand(p)), operand(p), x);
    case 1: return fa_cast(x, types[draw(7)]);
    case 2: return fa_add_alpha(x, operand(p), 0.5 + draw(3));
    case 3: return fa_mul_scalar(x, draw(2) ? FA_NUM(1.25) : FA_NUM(3));
    case 4: return fa_softplus(x, 1 + draw(2), 20);
    case 5: return fa_relu(fa_add(fa_mul(x, operand(p)), operand(p)));
    case 6: case 7: case 8: return unary[draw(9)](x);
    default: return binary[draw(8)](x, operand(p));
    }
}

static void write_in_place(program *p) {
    fa_tensor *x = p->pool[draw(POOL)];
    switch (draw(6)) {
    case 0: fa_relu_(x); break;
    case 1: fa_mul_scalar_(x, FA_NUM(2)); break;
    case 2: fa_add_(x, operand(p)); break;
    case 3: fa_copy_(x, operand(p)); break;
    case 4: fa_add_scalar_(fa_narrow(x, 0, draw((unsigned)p->rows), 1), FA_NUM(1)); break; /* some of its elements */
    default: fa_sub_(fa_narrow(x, 1, 0, (p->columns + 1) / 2), p->column); break;
    }
}

static void change_stream(program *p) {
    const fa_stream before = fa_current_stream(device), next = p->stream[draw(2)];
    fa_stream_wait_stream(next, before);
    for (int i = 0; i < POOL; i++) fa_record_stream(p->pool[i], next);
    fa_set_current_stream(next);
}

static void step(program *p) {
    const unsigned what = draw(20);
    if (what < 3) {
        write_in_place(p);
    } else if (what == 3 && p->nstreams > 1) {
        change_stream(p);
    } else if (what == 4) {
        (void)fa_item(fa_sum(p->pool[draw(POOL)]));
    } else if (what == 5) {
        fa_tensor *x = p->pool[draw(POOL)];
        if (fa_dtype_of(x) == FA_FLOAT32) fa_softmax(x, 1);
    } else {
        fa_tensor *y = compute(p);
        const unsigned at = draw(POOL);
        bool is_new = y && fa_ndim(y) == 2 && fa_size(y, 0) == p->rows && fa_size(y, 1) == p->columns;
        for (int i = 0; i < POOL; i++) is_new &= y != p->pool[i]; /* a cast to the same type */
        if (is_new) {
            fa_drop(p->pool[at]);
            p->pool[at] = fa_keep(y);
            for (int i = 0; i < p->nstreams; i++) fa_record_stream(y, p->stream[i]);
        }
    }
    const fa_error e = fa_error_take();
    if (e.code == FA_ERR_DEVICE || e.code == FA_ERR_MEMORY) fail_msg("%s: %s", e.op, e.text);
}

/* Which of two NaNs a sum hands on is nobody's promise: all count as one. */
static void same_nans(void *data, int64_t n, fa_dtype type) {
    for (int64_t i = 0; i < n; i++) {
        float *f = (float *)data + i;
        double *d = (double *)data + i;
        uint16_t *h = (uint16_t *)data + i;
        if (type == FA_FLOAT32 && isnan(*f)) *f = NAN;
        else if (type == FA_FLOAT64 && isnan(*d)) *d = NAN;
        else if (type == FA_FLOAT16 && (*h & 0x7fff) > 0x7c00) *h = 0x7e00;
        else if (type == FA_BFLOAT16 && (*h & 0x7fff) > 0x7f80) *h = 0x7fc0;
    }
}

static uint64_t hash_of(fa_tensor *t, uint64_t hash) {
    static _Alignas(8) char data[MOST_BYTES];
    const size_t bytes = (size_t)fa_numel(t) * fa_dtype_size(fa_dtype_of(t));
    assert_true(bytes <= sizeof data);
    if (!fa_to_data(t, data, fa_dtype_of(t))) fail_msg("%s: %s", fa_error_peek()->op, fa_error_peek()->text);
    same_nans(data, fa_numel(t), fa_dtype_of(t));
    return fai_hash(data, bytes, hash + (uint64_t)fa_dtype_of(t));
}

static uint64_t run_program(uint64_t seed, int nstreams) {
    static const fa_dtype types[] = {FA_FLOAT32, FA_FLOAT32, FA_FLOAT16, FA_BFLOAT16, FA_FLOAT64, FA_INT64, FA_INT32, FA_UINT8};
    FA_SCOPE;
    draws = seed * 977 + 5;
    program p = {.rows = 1 + draw(7), .columns = 1 + draw(60), .nstreams = nstreams};
    if (draw(3) == 0) p.columns = p.rows;
    const fa_dtype type = types[draw(8)];
    for (int i = 0; i < nstreams; i++) p.stream[i] = i ? fa_stream_new(device, 0) : fa_default_stream(device);
    for (int i = 0; i < POOL; i++) p.pool[i] = random_tensor(draw(4) ? type : types[draw(8)], FA_SHAPE(p.rows, p.columns));
    p.row = random_tensor(type, FA_SHAPE(p.columns));
    p.column = random_tensor(type, FA_SHAPE(p.rows, 1));
    p.number = random_tensor(type, FA_SHAPE());
    for (int i = 0; i < nstreams; i++) fa_record_stream(p.row, p.stream[i]), fa_record_stream(p.column, p.stream[i]), fa_record_stream(p.number, p.stream[i]);
    for (int i = 0; i < 40; i++) {
        FA_SCOPE;
        step(&p);
    }
    uint64_t hash = 0;
    for (int i = 0; i < POOL; i++) hash = hash_of(p.pool[i], hash);
    fa_set_current_stream(fa_default_stream(device));
    return hash;
}

static void random_programs(int nstreams, uint64_t first, uint64_t count) {
    const fa_device_counts before = counts();
    const uint64_t memory = fa_memory_allocated(device);
    for (uint64_t seed = first; seed < first + count; seed++) {
        fa_set_fusing(FA_FUSE_OFF);
        const uint64_t expected = run_program(seed, nstreams);
        for (int round = 0; round < 3; round++) {
            fa_set_fusing(round ? FA_FUSE_ON : FA_FUSE_FIRST);
            if (run_program(seed, nstreams) != expected) fail_msg("program %d ends in other bits, round %d", (int)seed, round);
        }
    }
    assert_int_equal(fa_memory_allocated(device), memory);
    const fa_device_counts now = counts();
    print_message("%d programs: %d launches, %d spared\n", (int)count, (int)(now.launches - before.launches), (int)(now.fused - before.fused));
    assert_true(now.fused > before.fused + count / 4);
}

static uint64_t programs(uint64_t plain) { return test_on_opencl() ? 2 : getenv("FACULA_SOAK") ? plain * 50 : plain; }
static void one_stream(void **state) { (void)state, random_programs(1, 0, programs(200)); }
static void two_streams(void **state) {
    (void)state;
    if (test_on_opencl()) skip(); /* each program is compiled: the first test is slow enough */
    device.index = 1; /* which has room for programs: none is ever thrown away */
    random_programs(2, 5000, programs(100));
    device.index = 0;
}

/* ---- how many launches ---- */

static fa_tensor *chain(fa_tensor *a, fa_tensor *b, fa_tensor *c) {
    FA_SCOPE;
    return fa_keep(fa_relu(fa_add(fa_mul(a, b), c)));
}

static void three_operators_are_one_launch(void **state) {
    (void)state;
    fa_tensor *a = random_tensor(FA_FLOAT32, FA_SHAPE(8, 50)), *b = random_tensor(FA_FLOAT32, FA_SHAPE(8, 50)), *c = random_tensor(FA_FLOAT32, FA_SHAPE(50));
    static const int launches[] = {3, 1, 1};
    fa_set_fusing(FA_FUSE_OFF);
    const uint64_t expected = hash_of(chain(a, b, c), 0);
    fa_set_fusing(FA_FUSE_ON);
    for (int i = 0; i < 3; i++) {
        const fa_device_counts before = counts();
        fa_tensor *y = chain(a, b, c);
        const fa_device_counts now = counts();
        assert_int_equal(now.launches - before.launches, launches[i]);
        assert_int_equal(now.fused - before.fused, 3 - launches[i]);
        assert_true(hash_of(y, 0) == expected);
    }
}

/* What anything else in the stream sees is as if nothing had been held. */
static void all_else_comes_behind(void **state) {
    (void)state;
    fa_set_fusing(FA_FUSE_FIRST);
    fa_tensor *x = fa_full(FA_SHAPE(100), 2, .device = device, .dtype = FA_FLOAT32);
    assert_true(fa_item(fa_sum(fa_mul(x, x))) == 400);                           /* another kernel */
    fa_tensor *y = fa_mul(x, x);
    assert_true(fa_item(fa_select(y, 0, 7)) == 4);                               /* a copy to the host */
    y = fa_add(x, x);
    fa_zero_(x);                                                                 /* a fill */
    assert_true(fa_item(fa_sum(y)) == 400 && fa_item(fa_sum(x)) == 0);
    fa_tensor *z = fa_add_scalar(x, FA_NUM(1));
    fa_tensor *shifted = fa_add(fa_narrow(z, 0, 0, 50), fa_narrow(z, 0, 50, 50)); /* other elements of a result */
    assert_true(fa_item(fa_sum(shifted)) == 100);
    z = fa_add_scalar(x, FA_NUM(3));
    const fa_stream side = fa_stream_new(device, 0);
    fa_stream_wait_stream(side, fa_current_stream(device)); /* another stream */
    { FA_STREAM_SCOPE(side); assert_true(fa_item(fa_sum(z)) == 300); }
    fa_record_stream(z, side);
    z = fa_add_scalar(x, FA_NUM(5));
    fa_event *e = fa_stream_record_event(fa_current_stream(device)); /* an event */
    assert_true(fa_event_synchronize(e) && fa_event_query(e));
    assert_true(fa_item(fa_sum(z)) == 500);
    z = fa_add_scalar(x, FA_NUM(7)); /* a question: nobody waits in vain */
    int asked = 0;
    while (!fa_stream_query(fa_current_stream(device)) && ++asked < 100000000) {}
    assert_true(fa_stream_query(fa_current_stream(device)));
}

/* Memory that goes to the driver meanwhile, and is freed while another stream may use it. */
static void memory_is_counted_as_without(void **state) {
    (void)state;
    uint64_t peak[2], now[2];
    for (int i = 0; i < 2; i++) {
        FA_SCOPE;
        fa_set_fusing(i ? FA_FUSE_FIRST : FA_FUSE_OFF);
        fa_synchronize(device);
        fa_empty_cache(device);
        fa_reset_peak_memory_stats(device);
        const uint64_t before = fa_memory_allocated(device);
        fa_tensor *x = fa_full(FA_SHAPE(1 << 16), 1, .device = device, .dtype = FA_FLOAT32);
        for (int j = 0; j < 20; j++) {
            fa_tensor *y = fa_keep(fa_add(x, x)), *z = fa_mul_scalar(y, FA_NUM(0.5));
            fa_drop(y);
            fa_drop(x);
            if (j % 7 == 3) fa_empty_cache(device);
            x = z;
        }
        now[i] = fa_memory_allocated(device) - before;
        peak[i] = fa_max_memory_allocated(device) - before;
        assert_true(fa_item(fa_sum(x)) == 1 << 16);
    }
    assert_int_equal(now[0], now[1]);
    assert_int_equal(peak[0], peak[1]);
}

/* ---- training: autograd, an optimizer, half precision ---- */

static uint64_t train(void) {
    FA_SCOPE;
    fa_manual_seed(7);
    fa_module *net = fa_sequential(fa_nn_linear(6, 16), fa_nn_gelu(), fa_nn_layer_norm(16), fa_nn_dropout(0.2), fa_nn_linear(16, 1));
    fa_tensor *x = fa_randn(FA_SHAPE(32, 6)), *y = fa_randn(FA_SHAPE(32, 1)), *parameters[8];
    assert_true(fa_module_to(net, device));
    x = fa_to(x, device), y = fa_to(y, device);
    fa_optimizer *optimizer = fa_adam(net, .lr = 1e-2);
    for (int i = 0; i < 6; i++) {
        FA_SCOPE;
        FA_AUTOCAST_SCOPE(device, .enabled = i % 2 == 1);
        fa_tensor *prediction = fa_call(net, x), *error = fa_sub(prediction, y);
        fa_tensor *loss = fa_mean(fa_add(fa_mul(error, error), fa_tanh(fa_abs(error))));
        fa_zero_grad(optimizer);
        fa_backward(loss);
        fa_step(optimizer);
    }
    uint64_t hash = 0;
    const int n = fa_parameters(net, parameters, NULL, 8);
    for (int i = 0; i < n; i++) hash = hash_of(parameters[i], hash);
    return hash;
}

static void training_ends_in_the_same_bits(void **state) {
    (void)state;
    if (test_on_opencl()) skip(); /* half a minute of compiling */
    fa_set_fusing(FA_FUSE_OFF);
    const uint64_t expected = train();
    fa_set_fusing(FA_FUSE_ON);
    const uint64_t before = counts().fused;
    assert_true(train() == expected);
    assert_true(train() == expected);
    assert_true(counts().fused > before + 20);
}

/* ---- what the driver gets: a backend that writes it down ---- */

static fa_address seen[8];
static void see(const fa_address pointers[8]) { memcpy(seen, pointers, sizeof seen); }
static bool was_seen(fa_tensor *t) {
    for (int i = 0; i < 8; i++)
        if (seen[i] && seen[i] == t->buffer->address) return true;
    return false;
}

static void a_dropped_result_is_not_stored(void **state) {
    (void)state;
    const fa_device there = fa_device_of_type(fai_backend_add(&fake_backend, NULL), 0);
    fa_set_fusing(FA_FUSE_FIRST);
    fake.on_launch = see;
    fa_tensor *a = fa_empty(FA_SHAPE(64), .device = there, .dtype = FA_FLOAT32), *b = fa_empty(FA_SHAPE(64), .device = there, .dtype = FA_FLOAT32);
    fake.launched = 0;
    fa_tensor *kept = fa_mul(a, b), *dropped = fa_add(kept, b), *last = fa_relu(dropped);
    const fa_address address = dropped->buffer->address;
    fa_drop(dropped);
    assert_int_equal(fake.launched, 0); /* held until somebody asks */
    assert_true(fa_synchronize(there));
    assert_int_equal(fake.launched, 1);
    assert_true(was_seen(a) && was_seen(b) && was_seen(kept) && was_seen(last));
    for (int i = 0; i < 8; i++) assert_true(seen[i] != address);
    fa_tensor *y = fa_mul(a, b);
    fa_add_(y, b); /* twice the same memory: stored once */
    fa_synchronize(there);
    int stores = 0;
    for (int i = 0; i < 8; i++) stores += seen[i] == y->buffer->address;
    assert_int_equal(stores, 1);
    fa_tensor *shown = fa_mul(a, b);
    fai_buffer_show(shown->buffer); /* somebody may read it behind the library's back: no waiting from here on */
    fake.launched = 0;
    fa_add_(shown, b);
    assert_int_equal(fake.launched, 1);
    fake.on_launch = NULL;
    fake.refuse_launch = FA_BACKEND_FAILED;
    y = fa_relu(fa_mul(a, b));
    assert_non_null(y);
    assert_false(fa_synchronize(there));
    const fa_error e = fa_error_take();
    assert_non_null(strstr(e.text, "FAKE error: the launch was refused. This happened on fake:0 while launching 'mul', 'relu'"));
}

/* ---- failures ---- */

static char told[1000];
static int ntold;
static void tell(const char *op, const char *text) { snprintf(told, sizeof told, "%s: %s", op, text), ntold++; }

static void without_a_program_they_go_one_by_one(void **state) {
    (void)state;
    if (!sim_faults) skip();
    fa_tensor *a = random_tensor(FA_FLOAT32, FA_SHAPE(31)), *b = random_tensor(FA_FLOAT32, FA_SHAPE(31));
    fa_set_fusing(FA_FUSE_OFF);
    const uint64_t expected = hash_of(fa_atan2(fa_sin(a), fa_cos(b)), 0);
    fa_set_fusing(FA_FUSE_ON);
    fai_set_warn(tell);
    for (int i = 0; i < 4; i++) {
        FA_SCOPE;
        if (i == 1) sim_faults("build:1");
        const uint64_t before = counts().launches;
        fa_tensor *y = fa_atan2(fa_sin(a), fa_cos(b));
        assert_int_equal(counts().launches - before, 3);
        if (i == 1) sim_faults(NULL);
        assert_true(hash_of(y, 0) == expected);
    }
    fai_set_warn(NULL);
    assert_int_equal(ntold, 1); /* once is enough */
    assert_non_null(strstr(told, "run one by one, because their program could not be made: "));
    assert_non_null(strstr(told, "injected fault build:1"));
}

static void a_failed_launch_is_told_late(void **state) {
    (void)state;
    static const char *const faults[] = {"launch:1", "late:1"};
    if (!sim_faults) skip();
    fa_set_fusing(FA_FUSE_FIRST);
    for (int i = 0; i < 2; i++) {
        FA_SCOPE;
        fa_tensor *x = fa_full(FA_SHAPE(100), 3, .device = device, .dtype = FA_FLOAT32);
        fa_synchronize(device);
        sim_faults(faults[i]);
        fa_tensor *y = fa_relu(fa_mul(x, x));
        assert_true(y && !fa_failed());
        assert_false(fa_synchronize(device));
        sim_faults(NULL);
        const fa_error e = fa_error_take();
        assert_int_equal(e.code, FA_ERR_DEVICE);
        assert_non_null(strstr(e.text, i ? "running 'mul, relu', launch number" : "while launching 'mul', 'relu'"));
        fa_item(fa_sum(y)); /* it has no contents, and says so */
        assert_non_null(strstr(fa_error_take().text, "has no contents: '"));
        assert_true(fa_item(fa_sum(fa_relu(fa_mul(x, x)))) == 900); /* and all goes on */
    }
}

static fa_tensor *worked_on;
static bool work(void *data) {
    (void)data;
    fa_tensor *y = fa_mul(worked_on, worked_on);
    y = y ? fa_add_scalar(y, FA_NUM(1)) : NULL;
    y = y ? fa_relu(y) : NULL;
    return y && fa_synchronize(device) && fa_item(fa_sum(y)) == 500;
}

static void memory_runs_out(void **state) {
    (void)state;
    fa_set_fusing(FA_FUSE_FIRST);
    worked_on = fa_full(FA_SHAPE(100), 2, .device = device, .dtype = FA_FLOAT32);
    const scenario s = {.name = "a chain", .work = work};
    fa_add_scalar(fa_mul(worked_on, worked_on), FA_NUM(1)); /* what is left of it where the third operator fails: its names stay */
    fa_synchronize(device);
    fa_test_caches(false);
    for (int way = 0; way < DEVICE_ONCE; way++)
        if (!fail_everywhere(&s, way)) fail_msg("nothing was made to fail %s", way_names[way]);
    fa_test_caches(true);
    assert_int_equal(broken, 0);
}

/* ---- threads: all on the default stream ---- */

static void *many_chains(void *data) {
    const int me = *(int *)data;
    for (int i = 0; i < 200; i++) {
        FA_SCOPE;
        fa_tensor *x = fa_full(FA_SHAPE(64), me, .device = device, .dtype = FA_FLOAT32);
        fa_tensor *y = chain(x, x, x);
        if (i % 8 == 0 && fa_item(fa_sum(y)) != 64 * (me * me + me)) return data;
    }
    return fa_failed() ? data : NULL;
}

static void threads_share_a_stream(void **state) {
    (void)state;
    pthread_t thread[3];
    int number[3] = {1, 2, 3};
    fa_set_fusing(FA_FUSE_ON);
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, many_chains, &number[i]);
    for (int i = 0; i < 3; i++) {
        void *bad;
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
}

static void the_environment_says_how_it_begins(void **state) {
    (void)state;
    const char *text = getenv("FACULA_FUSE");
    assert_int_equal(*(int *)*state, !text ? FA_FUSE_OFF : !strcmp(text, "on") ? FA_FUSE_ON : !strcmp(text, "first") ? FA_FUSE_FIRST : FA_FUSE_OFF);
}

static int began_as;
static int prepare(void **state) {
    (void)state;
    began_as = (int)fa_get_fusing();
    find_simulator();
    device = test_device();
    return 0;
}
static int begin(void **state) {
    (void)state;
    fa_scope_open();
    *state = &began_as;
    return 0;
}
static int end(void **state) {
    (void)state;
    if (sim_faults) sim_faults(NULL);
    fa_test_caches(true);
    fa_set_fusing(FA_FUSE_OFF);
    const fa_error e = fa_error_take();
    if (e.code) fprintf(stderr, "left over: %s: %s\n", e.op, e.text);
    fa_scope_close();
    return e.code == FA_OK ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_environment_says_how_it_begins), TEST(three_operators_are_one_launch), TEST(all_else_comes_behind),
        TEST(memory_is_counted_as_without), TEST(training_ends_in_the_same_bits),
        TEST(a_dropped_result_is_not_stored), TEST(without_a_program_they_go_one_by_one), TEST(a_failed_launch_is_told_late),
        TEST(memory_runs_out), TEST(threads_share_a_stream), TEST(one_stream), TEST(two_streams),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
