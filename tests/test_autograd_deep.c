/* Graphs of a million nodes on a small stack: through plain operators, views, writes, writes through views and custom functions;
 * run backward or dropped; built in one thread and run in another. Nothing recurses, nothing stays behind. Then 300 random
 * programs of views, writes and reuse, whose gradients are compared with differences. */
/* test-tags: threads */
/* test-limit: 240 */
#include "support/check.h"
#include <pthread.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LENGTH = 20000, STACK = 2 << 20 };
#else
enum { LENGTH = 1000000, STACK = 256 << 10 };
#endif

/* ---- chains ---- */

static fa_tensor *same(fa_context *context, fa_tensor *const *inputs, int n, void *data) {
    (void)n, (void)data;
    fa_save_for_backward(context, inputs[0]);
    return fa_clone(inputs[0]);
}
static bool same_backward(fa_context *context, fa_tensor *grad, fa_tensor **grads, int n, void *data) {
    (void)n, (void)data;
    grads[0] = grad;
    return fa_saved(context, 0) != NULL;
}
static const fa_function same_function = {.name = "Same", .forward = same, .backward = same_backward};

static fa_tensor *plain_step(fa_tensor *t, int i) { return (void)i, fa_mul(t, t); }
static fa_tensor *scalar_step(fa_tensor *t, int i) { return (void)i, fa_mul_scalar(t, 1.0); }
static fa_tensor *view_step(fa_tensor *t, int i) { return i % 2 ? fa_squeeze_dim(t, 0) : fa_unsqueeze(t, 0); }
static fa_tensor *write_step(fa_tensor *t, int i) { return (void)i, fa_mul_scalar_(t, 1.0); }
static fa_tensor *view_write_step(fa_tensor *t, int i) { return fa_mul_scalar_(fa_select(t, 0, i % 2), 1.0) ? t : NULL; }
static fa_tensor *custom_step(fa_tensor *t, int i) { return (void)i, fa_apply(&same_function, &t, 1, NULL); }

typedef struct chain {
    const char *name;
    fa_tensor *(*step)(fa_tensor *, int);
    double gradient; /* of the sum of the result, towards each of two ones */
} chain;
static const chain chains[] = {
    {"scalars", scalar_step, 1},
    {"views", view_step, 1},
    {"writes", write_step, 1},
    {"custom functions", custom_step, 1},
    {"writes through views", view_write_step, 1},
    {"products", plain_step, INFINITY},
};
enum { CHAINS = sizeof chains / sizeof *chains };

/* The end of the chain, in the current scope. */
static fa_tensor *build(const chain *c, fa_tensor *x) {
    fa_tensor *t = fa_mul_scalar(x, 1.0);
    for (int i = 0; i < LENGTH && t; i++) {
        fa_scope_open();
        fa_tensor *next = c->step(t, i);
        const bool other = next != t;
        if (other) fa_keep(next);
        fa_scope_close();
        if (other) fa_drop(t);
        t = next;
    }
    return t;
}

typedef struct job {
    const chain *chain;
    bool backward, built_elsewhere;
    fa_tensor *root, *x;
    double gradient;
    bool failed;
} job;

static void *run_job(void *argument) {
    job *j = argument;
    fa_scope_open();
    if (!j->built_elsewhere) {
        j->x = fa_ones(FA_SHAPE(2), .requires_grad = true, .device = FA_CPU);
        j->root = fa_sum(build(j->chain, j->x));
    }
    if (j->backward && fa_backward(j->root)) {
        double both[2];
        j->gradient = fa_to_data(fa_grad(j->x), both, FA_FLOAT64) && (both[0] == both[1] || isinf(both[0])) ? both[0] : NAN;
    }
    j->failed = fa_failed();
    if (j->failed) fprintf(stderr, "%s: %s\n", j->chain->name, fa_error_take().text);
    fa_scope_close();
    return NULL;
}

static void on_small_stack(void *(*run)(void *), void *argument) {
    pthread_t thread;
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run, argument), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

static uint64_t bytes_in_use(void) {
    fa_test_caches(false); /* gives back what is cached */
    const uint64_t bytes = fa_host_memory_use().bytes;
    fa_test_caches(true);
    return bytes;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_chains(bool backward) {
    for (int i = 0; i < CHAINS; i++) {
        const uint64_t before = bytes_in_use();
        const double start = seconds();
        job j = {.chain = &chains[i], .backward = backward};
        on_small_stack(run_job, &j);
        print_message("%s: %.2f s\n", chains[i].name, seconds() - start);
        assert_false(j.failed);
        if (backward && isfinite(chains[i].gradient)) assert_true(j.gradient == chains[i].gradient);
        if (bytes_in_use() != before) fail_msg("%s: %lld bytes stay", chains[i].name, (long long)(bytes_in_use() - before));
    }
}
static void run_backward(void **state) { (void)state, run_chains(true); }
static void dropped(void **state) { (void)state, run_chains(false); }

/* ---- two threads ---- */

static void *build_job(void *argument) {
    job *j = argument;
    fa_scope_open();
    j->x = fai_ref(fa_ones(FA_SHAPE(2), .requires_grad = true, .device = FA_CPU));
    j->root = fai_ref(fa_sum(build(j->chain, j->x)));
    fa_scope_close();
    return NULL;
}

static void other_thread(void **state) {
    (void)state;
    for (int i = 0; i < CHAINS; i++) {
        const uint64_t before = bytes_in_use();
        job j = {.chain = &chains[i], .backward = true, .built_elsewhere = true};
        on_small_stack(build_job, &j);
        on_small_stack(run_job, &j);
        assert_false(j.failed);
        if (isfinite(chains[i].gradient)) assert_true(j.gradient == chains[i].gradient);
        fai_unref(j.root);
        fai_unref(j.x);
        assert_int_equal(bytes_in_use(), before);
    }
}

/* ---- random programs ---- */

enum { PROGRAMS = 300, LEAVES = 3, ELEMENTS = 6, MOST = 64 };
static uint64_t seed;
static unsigned draw(unsigned n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

/* What a program has made so far. */
typedef struct heap {
    fa_tensor *t[MOST];
    bool fixed[MOST]; /* names an element twice: may not be written */
    int n;
} heap;

static void push(heap *h, fa_tensor *t, bool fixed) {
    if (h->n < MOST) h->t[h->n] = t, h->fixed[h->n++] = fixed;
}

static fa_tensor *unary(fa_tensor *t, bool write) {
    switch (draw(5)) {
    case 0: return write ? fa_sin_(t) : fa_sin(t);
    case 1: return write ? fa_tanh_(t) : fa_tanh(t);
    case 2: return write ? fa_sigmoid_(t) : fa_sigmoid(t);
    case 3: return write ? fa_mul_scalar_(t, 0.7) : fa_mul_scalar(t, -1.3);
    default: return write ? fa_add_scalar_(t, 0.3) : fa_square(t);
    }
}

static fa_tensor *binary(fa_tensor *x, fa_tensor *y, bool write) {
    switch (draw(3)) {
    case 0: return write ? fa_add_(x, y) : fa_add(x, y);
    case 1: return write ? fa_mul_(x, y) : fa_mul(x, y);
    default: return write ? fa_sub_(x, y) : fa_sub(y, x);
    }
}

/* y with x's shape, whatever it has. */
static fa_tensor *fitted(fa_tensor *y, fa_tensor *x) {
    const fa_shape xs = fa_shape_of_tensor(x), ys = fa_shape_of_tensor(y);
    if (xs.ndim == ys.ndim && !memcmp(xs.dim, ys.dim, sizeof(int64_t) * (size_t)xs.ndim)) return y;
    return fa_numel(x) == fa_numel(y) ? fa_reshape(y, xs) : fa_mean(y);
}

static void step(heap *h) {
    const unsigned at = draw((unsigned)h->n);
    fa_tensor *x = h->t[at], *y = h->t[draw((unsigned)h->n)];
    const bool fixed = h->fixed[at];
    const int dims = fa_ndim(x), dim = dims ? (int)draw((unsigned)dims) : 0;
    switch (draw(14)) {
    case 0:
    case 1: push(h, unary(x, false), false); break;
    case 2: push(h, binary(x, fitted(y, x), false), false); break;
    case 3:
        if (!fixed) unary(x, true);
        break;
    case 4:
    case 5:
        if (!fixed) binary(x, fitted(y, x), true);
        break;
    case 6: push(h, fa_reshape(x, FA_SHAPE(-1)), fixed); break;
    case 7: push(h, fa_transpose(x, 0, -1), fixed); break;
    case 8:
        if (dims) push(h, fa_select(x, dim, (int64_t)draw((unsigned)fa_size(x, dim))), fixed);
        break;
    case 9:
        if (dims && fa_size(x, dim) > 1) push(h, fa_slice(x, dim, 1, INT64_MAX, 1 + draw(2)), fixed);
        break;
    case 10:
        if (dims < 3) push(h, fa_expand(fa_unsqueeze(x, 0), (fa_shape){dims + 1, {2, -1, -1}}), true);
        break;
    case 11: push(h, dims ? fa_sum_dims(x, FA_DIMS(dim), draw(2)) : fa_alias(x), !dims && fixed); break;
    case 12:
        if (dims == 2) push(h, fa_matmul(x, fa_transpose(x, 0, 1)), false);
        break;
    default: push(h, fa_cat((fa_tensor *[]){fa_reshape(x, FA_SHAPE(-1)), fa_reshape(y, FA_SHAPE(-1))}, 2, 0), false);
    }
}

/* The program of a number: leaves to one value, which depends on everything that is left. */
static fa_tensor *program(unsigned number, fa_tensor **leaves) {
    heap h = {.n = 0};
    seed = number * 7919u + 1;
    for (int i = 0; i < LEAVES; i++) push(&h, fa_mul_scalar(leaves[i], 1.0), false);
    const int length = 10 + (int)draw(31);
    for (int i = 0; i < length && !fa_failed(); i++) step(&h);
    fa_tensor *total = NULL;
    for (int i = 0; i < h.n; i++) {
        fa_tensor *part = fa_mul_scalar(fa_mean(h.t[i]), 0.5 + draw(10) / 10.0);
        total = total ? fa_add(total, part) : part;
    }
    return total;
}

static void make_leaves(unsigned number, double along, fa_tensor **leaves, double direction[LEAVES][ELEMENTS]) {
    seed = number + 99;
    for (int i = 0; i < LEAVES; i++) {
        double values[ELEMENTS];
        for (int k = 0; k < ELEMENTS; k++) {
            direction[i][k] = draw(2001) / 1000.0 - 1;
            values[k] = draw(2001) / 1000.0 - 1 + along * direction[i][k];
        }
        leaves[i] = fa_requires_grad(fa_from_data(values, FA_FLOAT64, i == 2 ? FA_SHAPE(3, 2) : FA_SHAPE(2, 3)), true);
    }
}

static double value(unsigned number, double along) {
    FA_SCOPE;
    FA_NO_GRAD; /* the memory's own meaning of views and writes */
    fa_tensor *leaves[LEAVES];
    double direction[LEAVES][ELEMENTS];
    make_leaves(number, along, leaves, direction);
    return fa_item(program(number, leaves));
}

/* False if the program writes what a derivative needs, or its values grow out of hand. */
static bool check_program(unsigned number, int *refused) {
    FA_SCOPE;
    const double h = 1e-4;
    fa_tensor *leaves[LEAVES], *grads[LEAVES];
    double direction[LEAVES][ELEMENTS], values[ELEMENTS], slope = 0, size = 1;
    const double middle = value(number, 0);
    if (fa_failed()) fail_msg("program %u: %s: %s", number, fa_error_peek()->op, fa_error_peek()->text);
    if (!(fabs(middle) < 1e4)) return false;
    make_leaves(number, 0, leaves, direction);
    fa_tensor *end = program(number, leaves);
    if (!fa_grad_of(&end, 1, leaves, LEAVES, grads, .materialize_grads = true)) {
        fa_error e = fa_error_take();
        if (!strstr(e.text, "modified by an inplace operation")) fail_msg("program %u: %s", number, e.text);
        ++*refused;
        return false;
    }
    for (int i = 0; i < LEAVES; i++) {
        fa_to_data(grads[i], values, FA_FLOAT64);
        for (int k = 0; k < ELEMENTS; k++) slope += values[k] * direction[i][k], size += fabs(values[k] * direction[i][k]);
    }
    const double near = value(number, h) - value(number, -h), far = value(number, 2 * h) - value(number, -2 * h);
    const double difference = (8 * near - far) / (12 * h);
    if (size > 1e4) return false;
    if (!(fabs(slope - difference) <= 1e-6 * size))
        fail_msg("program %u: gradient %.12g, difference %.12g", number, slope, difference);
    return true;
}

static void random_programs(void **state) {
    (void)state;
    int checked = 0, refused = 0;
    for (unsigned number = 0; checked < PROGRAMS; number++) {
        assert_true(number < 10 * PROGRAMS);
        checked += check_program(number, &refused);
    }
    print_message("%d programs, %d more whose writes a derivative could not bear\n", checked, refused);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_backward),
        cmocka_unit_test(dropped),
        cmocka_unit_test(other_thread),
        cmocka_unit_test_setup_teardown(random_programs, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
