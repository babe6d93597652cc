/* Graphs on a simulated device: what is captured and replayed gives the same bits as the same work without a graph; memory of a
 * graph stays where it is; what can't be captured is refused in PyTorch's words and leaves everything usable; and nothing leaks,
 * also under faults.
 *
 *   test-env: FACULA_SIM=cuda:2
 *   test-env: FACULA_SIM=cuda:2 FACULA_GRAPHS=list
 *   test-env: FACULA_SIM=cuda:2 FACULA_FUSE=on
 *   test-env: FACULA_SIM=cuda:2 FACULA_SIM_LIBRARIES=cublaslt
 *   test-tags: soak
 *   test-limit: 240 */
#include "backends/cuda/cuda.h"
#include "device/inside.h"
#include "tensor/tensor.h"
#include "support/expect.h"
#include "support/faults.h"
#include <stdio.h>
#include <unistd.h>

static int setup(void **state) {
    (void)state;
    find_simulator();
    return sim_faults ? 0 : -1;
}

static int clean(void **state) {
    (void)state;
    sim_faults(NULL);
    fa_test_fail_allocation(0, false);
    fa_set_current_stream(fa_default_stream(device));
    fa_synchronize(device);
    fa_error_take();
    return 0;
}

#define CAPTURING "CUDA error: operation not permitted when stream is capturing"

static void no_error(int line) {
    if (fa_failed()) fail_msg("line %d: %s", line, fa_error_take().text);
}
#define FINE() no_error(__LINE__)

static void same(int line, fa_tensor *a, fa_tensor *b) {
    bits was;
    bits_take(&was, &a, 1);
    const int where = bits_differ(&was, &b);
    bits_free(&was);
    no_error(line);
    if (where >= 0) fail_msg("line %d: the bits differ", line);
}
static void number(int line, double found, double wanted) {
    no_error(line);
    if (found != wanted) fail_msg("line %d: got %g, not %g", line, found, wanted);
}
#define NUMBER(found, wanted) number(__LINE__, (found), (wanted))
#define SAME(a, b) same(__LINE__, (a), (b))

static double sum(fa_tensor *t) {
    FA_SCOPE;
    return fa_item(fa_sum(t));
}

static fa_stream side(void) { return fa_stream_new(device, 0); }

/* ---- plain work ---- */

static void a_replay_does_the_work_again(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_ones(FA_SHAPE(8), .device = device), *y = NULL;
    assert_false(fa_is_capturing(device));
    assert_true(fa_graph_begin(g, side(), 0));
    assert_true(fa_is_capturing(device));
    y = fa_add_scalar(fa_mul_scalar(x, 3.0), 1.0);
    fa_add_(x, y); /* 1 + 4 */
    const uint64_t before = fa_device_get_counts(device).launches;
    assert_true(fa_graph_end(g));
    FINE();
    assert_false(fa_is_capturing(device));
    assert_int_equal(fa_current_stream(device).id, 0);
    assert_int_equal(fa_device_get_counts(device).launches, before); /* noted down, not done */
    fa_graph_facts facts = fa_graph_get_facts(g);
    assert_true(facts.ready && facts.launches == 3 && facts.kept == 1);
    assert_true(fa_graph_replay(g));
    NUMBER(sum(x), 8 * 5.0);
    assert_true(fa_graph_replay(g));
    NUMBER(sum(x), 8 * 21.0);
    NUMBER(sum(y), 8 * 16.0);
    assert_int_equal(fa_device_get_counts(device).launches, before + 9); /* two replays of three, three sums */
    FINE();
}

static void new_numbers_at_the_old_place(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_zeros(FA_SHAPE(100), .device = device), *y = NULL;
    fa_graph_begin(g, side(), 0);
    y = fa_softmax(fa_exp(x), 0);
    fa_graph_end(g);
    for (int i = 0; i < 4; i++) {
        FA_SCOPE;
        fa_tensor *numbers = fa_randn(FA_SHAPE(100));
        fa_copy_(x, numbers);
        fa_graph_replay(g);
        SAME(y, fa_softmax(fa_exp(fa_to(numbers, device)), 0));
    }
    FINE();
}

/* ---- memory ---- */

static void memory_of_a_graph_stays_its_own(void **state) {
    (void)state;
    FA_SCOPE;
    fa_empty_cache(device);
    const uint64_t allocated = fa_memory_allocated(device), reserved = fa_memory_reserved(device);
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_ones(FA_SHAPE(1 << 18), .device = device);
    fa_graph_begin(g, side(), 0);
    fa_tensor *y = NULL;
    uint64_t inner;
    {
        FA_SCOPE;
        fa_tensor *a = fa_add_scalar(x, 1.0), *b = fa_add_scalar(a, 1.0);
        inner = a->buffer->address;
        fa_drop(a);
        fa_tensor *c = fa_add_scalar(b, 1.0); /* where a was: memory is used again within the graph */
        assert_int_equal(c->buffer->address, inner);
        y = fa_keep(fa_add_scalar(c, 1.0));
    }
    fa_graph_end(g);
    FINE();
    for (int i = 0; i < 5; i++) { /* nobody else gets it, whatever is made and dropped */
        FA_SCOPE;
        fa_empty_cache(device);
        for (int k = 0; k < 20; k++) {
            fa_tensor *t = fa_full(FA_SHAPE(1 << 18), 7.0, .device = device);
            assert_true(t->buffer->address != inner && t->buffer->address != y->buffer->address);
        }
        fa_fill_(x, (double)i);
        fa_graph_replay(g);
        NUMBER(sum(y), (double)(1 << 18) * (i + 4));
    }
    fa_graph_reset(g);
    NUMBER(sum(y), (double)(1 << 18) * 8); /* tensors outlive the graph */
    fa_drop(y), fa_drop(x), fa_drop(g);
    fa_empty_cache(device);
    assert_int_equal(fa_memory_allocated(device), allocated);
    assert_int_equal(fa_memory_reserved(device), reserved);
    FINE();
}

static void what_a_graph_reads_is_kept_alive(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_full(FA_SHAPE(1000), 2.0, .device = device), *y;
    fa_graph_begin(g, side(), 0);
    y = fa_mul(x, x);
    fa_graph_end(g);
    fa_drop(x);
    fa_tensor *other = fa_full(FA_SHAPE(1000), 9.0, .device = device);
    fa_graph_replay(g);
    NUMBER(sum(y), 4000);
    NUMBER(sum(other), 9000);
    FINE();
}

static void graphs_may_share_a_pool(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *a = fa_graph_new(), *b = fa_graph_new();
    fa_tensor *x = fa_ones(FA_SHAPE(1 << 20), .device = device), *y, *z;
    const fa_stream s = side();
    fa_graph_begin(a, s, 0);
    {
        FA_SCOPE;
        y = fa_keep(fa_sum(fa_add_scalar(x, 1.0)));
    }
    fa_graph_end(a);
    const uint64_t reserved = fa_memory_reserved(device);
    assert_true(fa_graph_pool(a) != 0);
    fa_graph_begin(b, s, fa_graph_pool(a));
    {
        FA_SCOPE;
        z = fa_keep(fa_sum(fa_add_scalar(x, 2.0)));
    }
    fa_graph_end(b);
    assert_int_equal(fa_graph_pool(a), fa_graph_pool(b));
    assert_int_equal(fa_memory_reserved(device), reserved); /* the second takes no more */
    fa_graph_replay(a), fa_graph_replay(b);
    NUMBER(fa_item(y), 2 << 20);
    NUMBER(fa_item(z), 3 << 20);
    fa_graph_reset(a);
    fa_graph_replay(b); /* the pool lives on */
    NUMBER(fa_item(z), 3 << 20);
    FINE();
}

static void pools_keep_memory_apart(void **state) {
    (void)state;
    FA_SCOPE;
    fa_empty_cache(device);
    fa_mempool *pool = fa_mempool_new(device);
    fa_tensor *plain = fa_ones(FA_SHAPE(100), .device = device), *inside;
    assert_int_equal(fa_mempool_reserved(pool), 0);
    fa_mempool *before = fa_mempool_enter(pool);
    inside = fa_ones(FA_SHAPE(100), .device = device);
    fa_mempool_leave(before);
    assert_int_equal(fa_mempool_reserved(pool), 2 << 20);
    assert_true(plain->buffer->address >> 21 != inside->buffer->address >> 21);
    const uint64_t address = inside->buffer->address;
    fa_drop(inside);
    fa_empty_cache(device); /* it stays the pool's */
    assert_int_equal(fa_mempool_reserved(pool), 2 << 20);
    before = fa_mempool_enter(pool);
    fa_mempool *none = fa_mempool_enter(NULL); /* and from no pool within */
    fa_tensor *out = fa_ones(FA_SHAPE(100), .device = device);
    fa_mempool_leave(none);
    inside = fa_ones(FA_SHAPE(100), .device = device);
    fa_mempool_leave(before);
    assert_int_equal(inside->buffer->address, address);
    assert_true(out->buffer->address >> 21 != address >> 21);
    fa_drop(pool);
    NUMBER(sum(inside), 100);
    assert_null(fa_mempool_new(FA_CPU));
    EXPECT(FA_ERR_VALUE, "Expected an accelerator, but got: cpu");
    assert_int_equal(fa_mempool_id(NULL), 0);
    EXPECT(FA_ERR_TYPE, "argument 'pool' is NULL: one from fa_mempool_new(device) is needed");
}

/* ---- random numbers and training ---- */

static void random_numbers_go_on(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = NULL, *p = NULL, *u = NULL, *d = NULL;
    fa_tensor *ones = fa_ones(FA_SHAPE(1000), .device = device);
    fa_generator *own = fa_generator_new(device);
    fa_graph_begin(g, side(), 0);
    u = fa_rand(FA_SHAPE(5000), .device = device);
    x = fa_randn(FA_SHAPE(1000), .device = device, .generator = own);
    d = fa_dropout(ones, 0.5, true);
    p = fa_randperm(300, .device = device);
    fa_graph_end(g);
    FINE();
    fa_manual_seed(7);
    fa_generator_seed(own, 3);
    for (int i = 0; i < 3; i++) {
        if (i == 2) fa_manual_seed(11); /* the seed is looked up too */
        fa_graph_replay(g);
        if (i == 1) { FA_SCOPE; fa_rand(FA_SHAPE(10), .device = device); }
    }
    bits was;
    fa_tensor *all[] = {u, x, d, p};
    bits_take(&was, all, 4);
    fa_manual_seed(7);
    fa_generator_seed(own, 3);
    for (int i = 0; i < 3; i++) {
        if (i == 2) fa_manual_seed(11);
        all[0] = fa_rand(FA_SHAPE(5000), .device = device);
        all[1] = fa_randn(FA_SHAPE(1000), .device = device, .generator = own);
        all[2] = fa_dropout(ones, 0.5, true);
        all[3] = fa_randperm(300, .device = device);
        if (i == 1) { FA_SCOPE; fa_rand(FA_SHAPE(10), .device = device); }
    }
    FINE();
    assert_int_equal(bits_differ(&was, all), -1);
    bits_free(&was);
}

static void seeds_are_for_replays(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_generator *own = fa_generator_new(device);
    fa_generator_seed(own, 3);
    fa_manual_seed(4);
    fa_graph_begin(g, side(), 0);
    assert_true(fa_generator_seed(own, 3)); /* the same changes nothing */
    fa_manual_seed(4);
    FINE();
    assert_false(fa_generator_seed(own, 5));
    EXPECT(FA_ERR_RUNTIME, "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as the original seed. It is 3, and 5 was given");
    fa_manual_seed(6);
    EXPECT(FA_ERR_RUNTIME, "CUDAGeneratorImpl::set_current_seed can be called during stream capture only");
    assert_false(fai_generator_at_rest(own, "current_seed")); /* what Python's get_state asks */
    EXPECT(FA_ERR_RUNTIME, "Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture: where a replay begins is known at the replay.");
    fa_tensor *x = fa_randn(FA_SHAPE(100), .device = device, .generator = own); /* nothing is spoiled by that */
    assert_true(fa_graph_end(g) && fa_graph_replay(g));
    fa_generator_seed(own, 3);
    SAME(x, fa_randn(FA_SHAPE(100), .device = device, .generator = own));
    FINE();
}

/* A constant that the library computes lies in the graph, and is itself again at each replay, also where the graph has written over it. */
static void constants_are_the_graphs_own(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_zeros(FA_SHAPE(4), .device = device), *two = fa_full(FA_SHAPE_0D, 2.0, .device = FA_CPU), *y = fa_zeros(FA_SHAPE(4), .device = device);
    fa_graph_begin(g, side(), 0);
    fa_tensor *places = fa_arange(0, 4, 1, .dtype = FA_FLOAT32, .device = device);
    fa_add_(x, places);
    fa_add_(places, fa_ones(FA_SHAPE(4), .device = device));
    fa_index_put_(y, (fa_tensor *const[]){fa_gt_scalar(places, 2)}, 1, two, false); /* a number of the CPU, as it is now */
    assert_true(fa_graph_end(g));
    FINE();
    fa_drop(places);
    fa_fill_(two, 5.0);
    for (int i = 0; i < 3; i++) fa_graph_replay(g);
    NUMBER(sum(x), 18);
    NUMBER(sum(y), 4);
}

typedef struct training { fa_module *net; fa_optimizer *opt; fa_grad_scaler *scaler; fa_tensor *x, *y, *loss; } training;

static fa_optimizer *optimizer_of(fa_module *net, int kind) {
    switch (kind) {
    case 0: return fa_sgd(net, .lr = 0.05);
    case 1: return fa_sgd(net, .lr = 0.05, .momentum = 0.9, .nesterov = true);
    case 2: return fa_adam(net, .lr = 0.01);
    case 3: return fa_adamw(net, .lr = 0.01, .amsgrad = true);
    case 4: return fa_nadam(net, .lr = 0.01);
    case 5: return fa_asgd(net, .lr = 0.01);
    default: return fa_rmsprop(net, .lr = 0.01, .momentum = 0.5);
    }
}

static training training_new(int kind) {
    training t;
    fa_manual_seed(5);
    t.net = fa_sequential(fa_nn_linear(10, 32), fa_nn_relu(), fa_nn_dropout(0.25), fa_nn_linear(32, 4));
    fa_module_to(t.net, device);
    t.opt = optimizer_of(t.net, kind);
    t.x = fa_zeros(FA_SHAPE(16, 10), .device = device);
    t.y = fa_zeros(FA_SHAPE(16), .device = device, .dtype = FA_INT64);
    t.loss = NULL;
    t.scaler = NULL;
    return t;
}

static void next_batch(training *t, int i) {
    FA_SCOPE;
    fa_generator *g = fa_generator_new(FA_CPU);
    fa_generator_seed(g, (uint64_t)i);
    fa_copy_(t->x, fa_randn(FA_SHAPE(16, 10), .generator = g));
    fa_copy_(t->y, fa_randint(0, 4, FA_SHAPE(16), .generator = g));
}

static void train(training *t) {
    fa_tensor *loss;
    {
        FA_SCOPE;
        loss = fa_keep(fa_cross_entropy(fa_call(t->net, t->x), t->y));
        fa_zero_grad(t->opt);
        fa_backward(t->scaler ? fa_grad_scaler_scale(t->scaler, loss) : loss);
        if (!t->scaler) fa_step(t->opt);
        else if (fa_grad_scaler_step(t->scaler, t->opt)) fa_grad_scaler_update(t->scaler);
    }
    t->loss = loss;
}

enum { STEPS = 6 };
static void final_bits(training *t, bits *out) {
    fa_tensor *all[8];
    const int n = fa_parameters(t->net, all, NULL, 7);
    all[n] = t->loss;
    bits_take(out, all, n + 1);
}

static void a_training_step_has_the_same_bits(void **state) {
    (void)state;
    for (int kind = 0; kind < 7; kind++) {
        FA_SCOPE;
        bits eager, graph;
        training t = training_new(kind);
        for (int i = 0; i < STEPS; i++) {
            if (i == 4) fa_set_option(t.opt, -1, "lr", 0.002);
            next_batch(&t, i);
            train(&t);
        }
        final_bits(&t, &eager);
        for (int warm = 0; warm < 2; warm++) { /* captured at once, or after a step */
            FA_SCOPE;
            fa_graph *g = fa_graph_new();
            t = training_new(kind);
            if (warm) next_batch(&t, 0), train(&t);
            assert_true(fa_graph_begin(g, side(), 0));
            train(&t);
            assert_true(fa_graph_end(g));
            FINE();
            for (int i = warm; i < STEPS; i++) {
                if (i == 4) fa_set_option(t.opt, -1, "lr", 0.002); /* the options of then count */
                next_batch(&t, i);
                assert_true(fa_graph_replay(g));
            }
            final_bits(&t, &graph);
            FINE();
            for (int i = 0; i < eager.n; i++)
                if (memcmp(eager.data[i], graph.data[i], eager.bytes[i]) != 0) fail_msg("optimizer %d, warm %d: tensor %d differs", kind, warm, i);
            bits_free(&graph);
            train(&t); /* and without the graph again */
            FINE();
        }
        bits_free(&eager);
    }
}

/* The second step's numbers are those after the first. */
static void two_steps_in_one_capture(void **state) {
    (void)state;
    for (int kind = 0; kind < 7; kind++) {
        FA_SCOPE;
        bits eager, graph;
        training t = training_new(kind);
        for (int i = 0; i < 6; i++) {
            if (i % 2 == 0) next_batch(&t, i);
            train(&t);
        }
        final_bits(&t, &eager);
        t = training_new(kind);
        fa_graph *g = fa_graph_new();
        assert_true(fa_graph_begin(g, side(), 0));
        train(&t), train(&t);
        assert_true(fa_graph_end(g));
        for (int i = 0; i < 6; i += 2) {
            next_batch(&t, i);
            assert_true(fa_graph_replay(g));
        }
        final_bits(&t, &graph);
        FINE();
        for (int i = 0; i < eager.n; i++)
            if (memcmp(eager.data[i], graph.data[i], eager.bytes[i]) != 0) fail_msg("optimizer %d: tensor %d differs", kind, i);
        bits_free(&graph);
        bits_free(&eager);
    }
}

/* One step is left out. */
static void scaled(int kind, bool graphed, bits *out, fa_grad_scaler_state *numbers) {
    training t = training_new(kind);
    fa_graph *g = fa_graph_new();
    t.scaler = fa_grad_scaler(.init_scale = 1 << 12, .growth_interval = 2);
    next_batch(&t, 0), train(&t);
    if (graphed) assert_true(fa_graph_begin(g, side(), 0) && (train(&t), fa_graph_end(g)));
    for (int i = 1; i < STEPS; i++) {
        next_batch(&t, i);
        if (i == 3) fa_fill_(fa_select(t.x, 0, 0), INFINITY);
        if (graphed) assert_true(fa_graph_replay(g));
        else train(&t);
        if (i == 3) assert_true(fa_grad_scaler_found_inf(t.scaler));
    }
    *numbers = fa_grad_scaler_get(t.scaler);
    if (graphed) fa_graph_reset(g);
    next_batch(&t, 0), train(&t); /* and without it */
    final_bits(&t, out);
    FINE();
}

static void a_scaled_step_has_the_same_bits(void **state) {
    (void)state;
    for (int kind = 0; kind < 7; kind++) {
        FA_SCOPE;
        bits eager, graph;
        fa_grad_scaler_state numbers, wanted;
        scaled(kind, false, &eager, &wanted);
        scaled(kind, true, &graph, &numbers);
        assert_true(numbers.scale == wanted.scale && numbers.growth_tracker == wanted.growth_tracker);
        for (int i = 0; i < eager.n; i++)
            if (memcmp(eager.data[i], graph.data[i], eager.bytes[i]) != 0) fail_msg("optimizer %d: tensor %d differs", kind, i);
        bits_free(&graph);
        bits_free(&eager);
    }
}

static void scaled_steps_are_one_for_a_capture(void **state) {
    (void)state;
    FA_SCOPE;
    training t = training_new(2);
    t.scaler = fa_grad_scaler();
    fa_graph *g = fa_graph_new();
    assert_true(fa_graph_begin(g, side(), 0));
    train(&t);
    FINE();
    assert_null(fa_grad_scaler_scale(t.scaler, t.loss));
    EXPECT(FA_ERR_UNSUPPORTED, "a loss that is scaled after update() in the same capture is planned");
    fa_graph_reset(g);
    t = training_new(2);
    t.scaler = fa_grad_scaler();
    assert_true(fa_graph_begin(g, side(), 0));
    fa_backward(fa_grad_scaler_scale(t.scaler, fa_cross_entropy(fa_call(t.net, t.x), t.y)));
    assert_true(fa_grad_scaler_step(t.scaler, t.opt));
    fa_grad_scaler *other = fa_grad_scaler();
    fa_backward(fa_grad_scaler_scale(other, fa_cross_entropy(fa_call(t.net, t.x), t.y)));
    assert_false(fa_grad_scaler_step(other, t.opt));
    EXPECT(FA_ERR_UNSUPPORTED, "two steps of an optimizer through a gradient scaler in one capture are planned");
    fa_graph_reset(g);
}

static void scalers_know_their_limits(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *w = fa_ones(FA_SHAPE(4), .device = device, .requires_grad = true);
    fa_tensor *v = fa_ones(FA_SHAPE(4), .device = FA_CUDA(1), .requires_grad = true), *both[] = {w, v};
    fa_grad_scaler *s = fa_grad_scaler();
    fa_optimizer *one = fa_sgd_of(both, 1, .lr = 0.1), *two = fa_sgd_of(both, 2, .lr = 0.1);
    fa_backward(fa_grad_scaler_scale(s, fa_sum(v)));
    assert_true(fa_graph_begin(g, side(), 0));
    fa_backward(fa_sum(w));
    assert_false(fa_grad_scaler_unscale(s, one));
    EXPECT(FA_ERR_UNSUPPORTED, "gradients of cuda:0 with a loss that was scaled elsewhere are planned for captures");
    fa_graph_reset(g);
    s = fa_grad_scaler();
    assert_true(fa_graph_begin(g, side(), 0));
    fa_backward(fa_grad_scaler_scale(s, fa_sum(w)));
    assert_false(fa_grad_scaler_step(s, two));
    EXPECT(FA_ERR_DEVICE, "gradients of one optimizer are on 2 devices, but a graph is of one device: capture a step for each");
    fa_graph_reset(g);
    s = fa_grad_scaler();
    assert_true(fa_graph_begin(g, side(), 0));
    fa_backward(fa_grad_scaler_scale(s, fa_sum(w)));
    for (int i = 0; i < 17; i++) assert_true(fa_grad_scaler_step(s, fa_sgd_of(both, 1, .lr = 0.1)));
    assert_false(fa_grad_scaler_update(s));
    EXPECT(FA_ERR_UNSUPPORTED, "more than 16 optimizers of one gradient scaler in a capture are planned");
    fa_graph_reset(g);
}

/* ---- what is not allowed ---- */

/* In a capture: the call fails in these words, the capture ends without a graph, and everything works as before. */
static void refused(int line, bool (*call)(fa_tensor *x), fa_code code, const char *begins) {
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_ones(FA_SHAPE(10), .device = device);
    assert_true(fa_graph_begin(g, side(), 0));
    fa_tensor *y = fa_add_scalar(x, 1.0);
    const bool fine = call(y);
    if (fine) fail_msg("line %d: it is allowed", line);
    expect_error(line, code, begins);
    assert_true(fa_is_capturing(device));
    assert_false(fa_graph_end(g));
    expect_error(line, FA_ERR_DEVICE, "CUDA error: operation failed due to a previous error during capture");
    assert_false(fa_is_capturing(device));
    assert_int_equal(fa_current_stream(device).id, 0);
    assert_false(fa_graph_replay(g));
    expect_error(line, FA_ERR_RUNTIME, "Called CUDAGraph::replay without a preceding successful capture.");
    number(line, sum(x), 10);
    assert_true(fa_graph_begin(g, side(), 0)); /* the same object again */
    y = fa_add_scalar(x, 1.0);
    assert_true(fa_graph_end(g) && fa_graph_replay(g));
    number(line, sum(y), 20);
}
#define REFUSED(call, code, begins) refused(__LINE__, (call), (code), (begins))

static bool read_item(fa_tensor *x) { return fa_item(fa_sum(x)) == 0 && !fa_failed(); }
static bool copy_to_cpu(fa_tensor *x) { return fa_to(x, FA_CPU) != NULL; }
static bool copy_to_other(fa_tensor *x) { return fa_to(x, FA_CUDA(1)) != NULL; }
static bool copy_from_other(fa_tensor *x) { return fa_copy_(x, fa_ones(FA_SHAPE(10), .device = FA_CUDA(1))) != NULL; }
static bool print_it(fa_tensor *x) {
    char text[400];
    fa_to_text(x, text, sizeof text);
    return !fa_failed();
}
static bool wait_for_device(fa_tensor *x) { return fa_synchronize(x->device); }
static bool wait_for_stream(fa_tensor *x) { return fa_stream_synchronize(fa_current_stream(x->device)); }
static bool ask_stream(fa_tensor *x) { return fa_stream_query(fa_current_stream(x->device)) || !fa_failed(); }
static bool count_nonzero(fa_tensor *x) { return fa_nonzero(x) != NULL; }
static bool from_pageable(fa_tensor *x) { return fa_copy_(x, fa_zeros(FA_SHAPE(10))) != NULL; }
static const float numbers_of_host[2];
static bool from_data(fa_tensor *x) { return fa_from_data(numbers_of_host, FA_FLOAT32, FA_SHAPE(2), .device = x->device) != NULL; }
static bool begin_again(fa_tensor *x) { return fa_graph_begin(fa_graph_new(), fa_current_stream(x->device), 0); }
static bool begin_beside(fa_tensor *x) { return fa_graph_begin(fa_graph_new(), fa_stream_new(x->device, 0), 0); }
static bool wait_for_uncaptured(fa_tensor *x) { return fa_stream_wait_stream(fa_current_stream(x->device), fa_default_stream(x->device)); }
static bool default_waits(fa_tensor *x) { return fa_stream_wait_stream(fa_default_stream(x->device), fa_current_stream(x->device)); }
static bool other_device_waits(fa_tensor *x) { return fa_stream_wait_stream(fa_stream_new(FA_CUDA(1), 0), fa_current_stream(x->device)); }
static bool ask_event(fa_tensor *x) { return fa_event_query(fa_stream_record_event(fa_current_stream(x->device))) || !fa_failed(); }
static bool wait_for_event(fa_tensor *x) { return fa_event_synchronize(fa_stream_record_event(fa_current_stream(x->device))); }
static void what_needs_numbers_is_refused(void **state) {
    (void)state;
    REFUSED(read_item, FA_ERR_DEVICE, CAPTURING ". 'item' ");
    REFUSED(copy_to_cpu, FA_ERR_DEVICE, CAPTURING);
    REFUSED(copy_to_other, FA_ERR_DEVICE,
            "CUDA error: operation not permitted when stream is capturing. Numbers of cuda:0 can't be copied to cuda:1 in a capture: a graph is of one device.");
    REFUSED(copy_from_other, FA_ERR_DEVICE,
            "CUDA error: operation not permitted when stream is capturing. Numbers of cuda:1 can't be copied to cuda:0 in a capture: a graph is of one device.");
    REFUSED(print_it, FA_ERR_DEVICE, CAPTURING);
    REFUSED(wait_for_device, FA_ERR_DEVICE, CAPTURING ". 'synchronize' ");
    REFUSED(wait_for_stream, FA_ERR_DEVICE, CAPTURING);
    REFUSED(ask_stream, FA_ERR_DEVICE, CAPTURING);
    REFUSED(count_nonzero, FA_ERR_DEVICE, CAPTURING ". 'nonzero' ");
    REFUSED(from_pageable, FA_ERR_RUNTIME, "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned.");
    REFUSED(from_data, FA_ERR_RUNTIME, "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned.");
}

static void what_mixes_captures_is_refused(void **state) {
    (void)state;
    REFUSED(begin_again, FA_ERR_DEVICE, CAPTURING ". A graph is begun or replayed on cuda:0 while another one is captured there,");
    REFUSED(begin_beside, FA_ERR_DEVICE, CAPTURING ". A graph is begun or replayed on cuda:0 while another one is captured there,");
    REFUSED(wait_for_uncaptured, FA_ERR_DEVICE, "CUDA error: dependency created on uncaptured work in another stream");
    REFUSED(default_waits, FA_ERR_DEVICE, "CUDA error: operation would make the legacy stream depend on a capturing blocking stream");
    REFUSED(other_device_waits, FA_ERR_DEVICE, "CUDA error: operation not permitted when stream is capturing. A stream of another device can't take part: a graph is of one device.");
    REFUSED(ask_event, FA_ERR_DEVICE, "CUDA error: operation not permitted on an event last recorded in a capturing stream");
    REFUSED(wait_for_event, FA_ERR_DEVICE, "CUDA error: operation not permitted on an event last recorded in a capturing stream");
}

static void two_captures_do_not_mix(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *a = fa_graph_new(), *b = fa_graph_new();
    const fa_stream one = side(), two = side();
    assert_true(fa_graph_begin(a, one, 0));
    fa_set_current_stream(fa_default_stream(device));
    assert_true(fa_graph_begin(b, two, 0)); /* at the same time, in another stream */
    assert_false(fa_stream_wait_stream(two, one));
    EXPECT(FA_ERR_DEVICE, "CUDA error: operation would result in a merge of separate capture sequences.");
    assert_false(fa_graph_end(b));
    EXPECT(FA_ERR_DEVICE, "CUDA error: operation failed due to a previous error during capture");
    fa_set_current_stream(one);
    assert_true(fa_graph_end(a));
    FINE();
}

static void arguments_are_checked(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    assert_false(fa_graph_begin(NULL, side(), 0));
    EXPECT(FA_ERR_TYPE, "argument 'graph' is NULL: one from fa_graph_new() is needed");
    assert_false(fa_graph_begin(g, fa_default_stream(FA_CPU), 0));
    EXPECT(FA_ERR_VALUE, "Expected a stream of an accelerator, but got the CPU's");
    assert_false(fa_graph_begin(g, fa_default_stream(device), 0));
    EXPECT(FA_ERR_RUNTIME, "CUDA graphs must be captured on a non-default stream.");
    assert_false(fa_graph_end(g));
    EXPECT(FA_ERR_RUNTIME, "The current stream is not currently capturing.");
    assert_int_equal(fa_graph_pool(g), 0);
    EXPECT(FA_ERR_RUNTIME, "Called CUDAGraph::pool() without a preceding successful capture.");
    assert_true(fa_graph_begin(g, side(), 0) && fa_graph_end(g)); /* empty */
    assert_true(fa_graph_replay(g));
    assert_false(fa_graph_begin(g, side(), 0));
    EXPECT(FA_ERR_RUNTIME, "This CUDAGraph instance already owns a captured graph.");
    assert_true(fa_graph_reset(g) && fa_graph_begin(g, side(), 0));
    assert_true(fa_set_current_stream(fa_default_stream(device)));
    assert_false(fa_graph_end(g));
    EXPECT(FA_ERR_RUNTIME, "Capture must end on the same stream it began on.");
    assert_false(fa_graph_dump(g, NULL));
    EXPECT(FA_ERR_TYPE, "argument 'path' is NULL: the name of a file to write is needed");
    assert_false(fa_graph_dump(g, "/no/such/folder/g.dot"));
    EXPECT(FA_ERR_FILE, "'/no/such/folder/g.dot' can't be written");
    assert_true(fa_graph_begin(g, side(), 0) && fa_graph_reset(g)); /* reset ends a capture too */
    assert_false(fa_is_capturing(device));
    fa_graph_begin(g, side(), 0);
    fa_drop(g); /* and so does the end of the object */
    assert_false(fa_is_capturing(device));
    FINE();
}

static void captures_end_while_an_error_is_pending(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_ones(FA_SHAPE(3), .device = device);
    fa_graph_begin(g, side(), 0);
    fa_add(x, fa_ones(FA_SHAPE(4), .device = device));
    assert_false(fa_graph_end(g));
    EXPECT(FA_ERR_RUNTIME, "The size of tensor a (3) must match");
    assert_false(fa_is_capturing(device));
    assert_false(fa_graph_get_facts(g).ready);
}

/* ---- streams ---- */

static void streams_take_part(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_ones(FA_SHAPE(100), .device = device), *a, *b;
    const fa_stream main = side(), other = side(), third = side();
    fa_graph_begin(g, main, 0);
    a = fa_add_scalar(x, 1.0);
    fa_stream_wait_stream(other, main); /* it joins */
    {
        FA_STREAM_SCOPE(other);
        assert_true(fa_is_capturing(device));
        b = fa_mul_scalar(a, 10.0);
        fa_event *e = fa_stream_record_event(other);
        fa_event_wait(e, third);
        FA_STREAM_SCOPE(third);
        fa_add_(b, x);
        fa_event_wait(fa_stream_record_event(third), main);
    }
    fa_add_(a, b);
    assert_true(fa_graph_end(g));
    FINE();
    fa_graph_replay(g);
    NUMBER(sum(a), 100 * 23);
    {
        FA_STREAM_SCOPE(other); /* a replay in another stream comes behind the one before */
        assert_false(fa_is_capturing(device));
        fa_fill_(x, 2.0);
        fa_graph_replay(g);
        NUMBER(sum(a), 100 * 35);
    }
    fa_graph_reset(g);
    fa_graph_begin(g, main, 0);
    fa_stream_wait_stream(other, main);
    {
        FA_STREAM_SCOPE(other);
        b = fa_mul_scalar(x, 10.0);
    }
    assert_false(fa_graph_end(g));
    EXPECT(FA_ERR_DEVICE, "CUDA error: capturing stream has unjoined work");
    {
        FA_STREAM_SCOPE(other);
        NUMBER(sum(x), 200);
    }
    fa_event *e;
    fa_graph_begin(g, main, 0);
    e = fa_stream_record_event(main);
    fa_graph_end(g);
    assert_false(fa_event_wait(e, other)); /* of a capture that is over */
    EXPECT(FA_ERR_DEVICE, "CUDA error: operation not permitted on an event last recorded in a capturing stream");
    assert_true(fa_event_record(e, other) && fa_event_wait(e, main) && fa_event_synchronize(e));
    FINE();
}

/* ---- copies, fills, reports of index kernels ---- */

static void pinned_memory_is_read_at_the_replay(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *in = fa_pin_memory(fa_zeros(FA_SHAPE(4))), *out = fa_pin_memory(fa_zeros(FA_SHAPE(4)));
    fa_tensor *x = fa_empty(FA_SHAPE(4), .device = device);
    fa_graph_begin(g, side(), 0);
    fa_copy_async_(x, in);
    fa_copy_async_(out, fa_mul_scalar(x, 2.0));
    fa_graph_end(g);
    FINE();
    for (int i = 1; i < 4; i++) {
        fa_fill_(in, (double)i);
        fa_graph_replay(g);
        NUMBER(sum(out), 8.0 * i);
    }
}

static void bad_indices_of_a_replay_are_told(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *table = fa_ones(FA_SHAPE(5, 2), .device = device), *i = fa_zeros(FA_SHAPE(3), .device = device, .dtype = FA_INT64), *y;
    fa_graph_begin(g, side(), 0);
    y = fa_embedding(table, i, -1);
    fa_graph_end(g);
    assert_true(fa_graph_replay(g));
    NUMBER(sum(y), 6);
    fa_fill_(i, 7);
    assert_true(fa_graph_replay(g));
    assert_false(fa_synchronize(device));
    EXPECT(FA_ERR_INDEX, "index out of range in self. Index 7 was found");
    fa_fill_(i, 1);
    assert_true(fa_graph_replay(g) && fa_synchronize(device));
    NUMBER(sum(y), 6);
}

static void a_dump_shows_the_steps(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    char text[2000] = "";
    fa_tensor *x = fa_ones(FA_SHAPE(4), .device = device);
    fa_graph_begin(g, side(), 0);
    fa_add_scalar(fa_mul_scalar(x, 2.0), 1.0);
    fa_graph_end(g);
    char name[] = "/tmp/facula_graph_XXXXXX";
    const int descriptor = mkstemp(name);
    assert_true(descriptor >= 0 && fa_graph_dump(g, name));
    FILE *file = fdopen(descriptor, "r");
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file), unlink(name);
    assert_non_null(strstr(text, "digraph"));
    assert_non_null(strstr(text, "1: mul"));
    assert_non_null(strstr(text, "step1 -> step2"));
}

/* ---- faults ---- */

/* A launch that fails at the replay: by the driver's object nothing of it has run, by the list what came before. */
static void a_launch_fails_at_the_replay(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_zeros(FA_SHAPE(4), .device = device);
    fa_graph_begin(g, side(), 0);
    fa_add_(x, fa_rand(FA_SHAPE(4), .device = device));
    fa_add_scalar_(x, 1.0);
    fa_graph_end(g);
    const bool whole = fa_graph_get_facts(g).native != NULL;
    fa_manual_seed(1);
    sim_faults(whole ? "launch:1" : "launch:3");
    assert_false(fa_graph_replay(g));
    sim_faults(NULL);
    EXPECT(FA_ERR_DEVICE, "CUDA error: too many resources requested for launch");
    if (whole) NUMBER(sum(x), 0);
    fa_fill_(x, 0.0);
    assert_true(fa_graph_replay(g)); /* and the generator is where it was */
    fa_manual_seed(1);
    fa_tensor *again = fa_add_scalar(fa_rand(FA_SHAPE(4), .device = device), 1.0);
    SAME(again, x);
}

static void a_late_failure_names_its_operator(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_ones(FA_SHAPE(4), .device = device), *y, *z = fa_ones(FA_SHAPE(4), .device = device);
    fa_graph_begin(g, side(), 0);
    y = fa_softmax(fa_mul_scalar(x, 2.0), 0);
    fa_copy_(z, y);
    fa_graph_end(g);
    fa_graph_replay(g);
    fa_synchronize(device);
    sim_faults("late:2");
    assert_true(fa_graph_replay(g));
    assert_false(fa_synchronize(device));
    sim_faults(NULL);
    const fa_error e = fa_error_take();
    assert_string_equal(e.op, "softmax");
    assert_non_null(strstr(e.text, "running 'softmax', launch number"));
    fa_sum(y);
    assert_true(fa_item(fa_sum(y)) == 0 && fa_failed()); /* it has no contents, in the pool and outside */
    EXPECT(FA_ERR_DEVICE, "the tensor on cuda:0 has no contents: 'softmax'");
    assert_true(fa_item(fa_sum(z)) == 0 && fa_failed());
    EXPECT(FA_ERR_DEVICE, "the tensor on cuda:0 has no contents: 'softmax'");
    assert_true(fa_graph_replay(g)); /* the next one makes it */
    NUMBER(sum(y), 1);
}

static void the_report_tells_of_pools(void **state) {
    (void)state;
    FA_SCOPE;
    fa_graph *g = fa_graph_new();
    fa_tensor *x = fa_ones(FA_SHAPE(1 << 20), .device = device), *y;
    fa_graph_begin(g, side(), 0);
    y = fa_add(x, x);
    assert_null(fa_empty(FA_SHAPE((int64_t)1 << 33), .device = device)); /* also in a capture, which goes on */
    const fa_error e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_DEVICE_MEMORY);
    assert_non_null(strstr(e.text, "is allocated by Facula, with 4.00 MiB allocated in private pools (e.g., CUDA Graphs), and"));
    assert_true(fa_graph_end(g) && fa_graph_replay(g));
    NUMBER(sum(y), 2 << 20);
}

static void hidden_waits_are_told(void **state) {
    (void)state;
    FA_SCOPE;
    fa_tensor *x = fa_ones(FA_SHAPE(3), .device = device), *one = fa_sum(x);
    assert_true(fa_set_sync_debug_mode(FA_SYNC_ERROR) && fa_sync_debug_mode() == FA_SYNC_ERROR);
    assert_true(fa_item(one) == 0 && fa_failed());
    EXPECT(FA_ERR_RUNTIME, "called a synchronizing CUDA operation: 'item' waits until cuda:0 has its numbers.");
    assert_true(fa_synchronize(device)); /* it is asked for */
    assert_true(fa_set_sync_debug_mode(FA_SYNC_WARN));
    NUMBER(fa_item(one), 3); /* "called a synchronizing CUDA operation: 'item' waits until cuda:0 has its numbers" */
    assert_true(fa_set_sync_debug_mode(FA_SYNC_ALLOWED));
    assert_false(fa_set_sync_debug_mode(3));
    EXPECT(FA_ERR_RUNTIME, "invalid value of debug_mode, expected one of `default`, `warn`, `error`; in C FA_SYNC_ALLOWED, FA_SYNC_WARN or FA_SYNC_ERROR, and not 3");
}

typedef struct faulty { training t; fa_graph *g; } faulty;
static faulty faulty_state;
static fa_stream faulty_stream;

static bool faulty_begin(void *data) {
    faulty *f = data;
    f->t = training_new(2);
    f->t.scaler = fa_grad_scaler();
    f->g = fa_graph_new();
    next_batch(&f->t, 0);
    return f->g && !fa_failed();
}

static bool faulty_work(void *data) {
    faulty *f = data;
    const bool fine = fa_graph_begin(f->g, faulty_stream, 0);
    if (fine) train(&f->t);
    if (!fa_graph_end(f->g)) return false;
    for (int i = 0; i < 2; i++)
        if (!fa_graph_replay(f->g)) return false;
    return fine && fa_synchronize(device);
}

static const char *faulty_damage(void *data) {
    const faulty *f = data;
    if (fa_is_capturing(device)) return "it is still capturing";
    if (fa_current_stream(device).id != 0) return "the current stream is another one";
    return fa_graph_get_facts(f->g).capturing ? "the graph is still capturing" : NULL;
}

static void faulty_end(void *data) { fa_graph_reset(((faulty *)data)->g); }

static void every_allocation_may_fail(void **state) {
    (void)state;
    const scenario s = {.name = "capture and replay", .begin = faulty_begin, .work = faulty_work, .end = faulty_end, .damage = faulty_damage, .data = &faulty_state};
    faulty_stream = side();
    fa_test_caches(false);
    for (int way = 0; way < WAYS; way++) assert_true(fail_everywhere(&s, way));
    fa_test_caches(true);
    assert_int_equal(broken, 0);
}

/* ---- a device that fails: in the capture, between replays and in them ---- */

/* A scaled training, captured and replayed; false with an error at the first fault. */
static bool failing_work(bits *out) {
    training t = training_new(2);
    fa_graph *g = fa_graph_new();
    if (!g || fa_failed()) return false;
    t.scaler = fa_grad_scaler(.init_scale = 1 << 12, .growth_interval = 2);
    const bool begun = fa_graph_begin(g, faulty_stream, 0);
    if (begun) train(&t);
    if (!fa_graph_end(g) || !begun) return false;
    for (int i = 0; i < 3; i++) {
        next_batch(&t, i);
        if (!fa_graph_replay(g)) return false;
    }
    if (!fa_synchronize(device) || fa_grad_scaler_get(t.scaler).scale != 1 << 13 || fa_failed()) return false;
    final_bits(&t, out);
    if (fa_failed()) bits_free(out);
    return !fa_failed();
}

/* False: there are no more points of the kind. */
static bool fails_at(const char *kind, int n, const bits *wanted) {
    char spec[40];
    bits found;
    snprintf(spec, sizeof spec, "%s:%d", kind, n);
    const uint64_t before = fa_memory_allocated(device);
    {
        FA_SCOPE;
        sim_faults(spec);
        const bool fine = failing_work(&found);
        const bool fired = sim_count("injected") > 0;
        const fa_error e = fa_error_take();
        if (fine == (e.code != 0) || (!fired && !fine)) fail_msg("%s: it returned %d with code %d: %s", spec, fine, e.code, e.text);
        if (fine) bits_free(&found);
        if (fa_is_capturing(device) || fa_current_stream(device).id != 0) fail_msg("%s: it is still capturing", spec);
        if (!fired) return sim_faults(NULL), false;
        FA_SCOPE;
        if (fa_item(fa_sum(fa_ones(FA_SHAPE(5), .device = FA_CUDA(1)))) != 5) fail_msg("%s: the other device does not go on", spec);
    }
    sim_faults(NULL); /* and a lost device is there again */
    fa_synchronize(device);
    fa_error_take();
    if (strcmp(kind, "lost") && fa_memory_allocated(device) != before) fail_msg("%s: device memory is left", spec);
    if (n % 8) return true;
    FA_SCOPE;
    if (!failing_work(&found)) fail_msg("%s: the same work does not succeed: %s", spec, fa_error_take().text);
    for (int i = 0; i < found.n; i++)
        if (memcmp(found.data[i], wanted->data[i], found.bytes[i])) fail_msg("%s: tensor %d is another afterwards", spec, i);
    bits_free(&found);
    return true;
}

static void a_device_fails_at_every_point(void **state) {
    (void)state;
    static const char *const kinds[] = {"launch", "copy", "late", "lost", "alloc"};
    static const int least[] = {50, 30, 50, 50, 2};
    bits wanted;
    faulty_stream = side();
    {
        FA_SCOPE;
        assert_true(failing_work(&wanted));
    }
    for (int k = 0; k < 5; k++) {
        fa_empty_cache(device);
        fa_test_caches(strcmp(kinds[k], "alloc") != 0); /* else the allocator asks the driver once */
        int n = 1;
        while (fails_at(kinds[k], n, &wanted)) n++;
        if (n <= least[k]) fail_msg("%s: only %d points", kinds[k], n - 1);
    }
    fa_test_caches(true);
    bits_free(&wanted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_replay_does_the_work_again, clean),
        cmocka_unit_test_teardown(new_numbers_at_the_old_place, clean),
        cmocka_unit_test_teardown(memory_of_a_graph_stays_its_own, clean),
        cmocka_unit_test_teardown(what_a_graph_reads_is_kept_alive, clean),
        cmocka_unit_test_teardown(graphs_may_share_a_pool, clean),
        cmocka_unit_test_teardown(pools_keep_memory_apart, clean),
        cmocka_unit_test_teardown(random_numbers_go_on, clean),
        cmocka_unit_test_teardown(seeds_are_for_replays, clean),
        cmocka_unit_test_teardown(constants_are_the_graphs_own, clean),
        cmocka_unit_test_teardown(a_training_step_has_the_same_bits, clean),
        cmocka_unit_test_teardown(two_steps_in_one_capture, clean),
        cmocka_unit_test_teardown(a_scaled_step_has_the_same_bits, clean),
        cmocka_unit_test_teardown(scaled_steps_are_one_for_a_capture, clean),
        cmocka_unit_test_teardown(scalers_know_their_limits, clean),
        cmocka_unit_test_teardown(what_needs_numbers_is_refused, clean),
        cmocka_unit_test_teardown(what_mixes_captures_is_refused, clean),
        cmocka_unit_test_teardown(two_captures_do_not_mix, clean),
        cmocka_unit_test_teardown(arguments_are_checked, clean),
        cmocka_unit_test_teardown(captures_end_while_an_error_is_pending, clean),
        cmocka_unit_test_teardown(streams_take_part, clean),
        cmocka_unit_test_teardown(pinned_memory_is_read_at_the_replay, clean),
        cmocka_unit_test_teardown(bad_indices_of_a_replay_are_told, clean),
        cmocka_unit_test_teardown(a_dump_shows_the_steps, clean),
        cmocka_unit_test_teardown(a_launch_fails_at_the_replay, clean),
        cmocka_unit_test_teardown(a_late_failure_names_its_operator, clean),
        cmocka_unit_test_teardown(the_report_tells_of_pools, clean),
        cmocka_unit_test_teardown(hidden_waits_are_told, clean),
        cmocka_unit_test_teardown(every_allocation_may_fail, clean),
        cmocka_unit_test_teardown(a_device_fails_at_every_point, clean),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
