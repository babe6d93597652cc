/* What the simulator lets us count: a launch returns before its kernel has run; no operator copies between the host and the
 * device or waits for it, forward or backward, save those whose result's shape or value the host must know; a step of an
 * optimizer is one launch, however many parameters it has.
 *
 * test-env: FACULA_SIM=cuda:1
 * test-limit: 300 */
#include "support/calls.h"
#include "support/faults.h"
#include "support/scope.h"

/* Operators that must ask the device, and why. */
static const struct {
    const char *op, *why;
} asking[] = {
    {"nonzero", "the shape of the result depends on values"},
    {"masked_select", "so does this one's"},
    {"index", "a mask among the indices is turned into positions"},
    {"index_put", "a mask among the indices is turned into positions"},
    {"one_hot", "without a number of classes it is the largest index"},
    {"to_device", "it is a copy"},
    {"arange", "its values are computed on the host"},
    {"linspace", "its values are computed on the host"},
    {"tril", "it compares two aranges"},
    {"triu", "it compares two aranges"},
    {"as_strided", "its derivative adds by places from arange"},
    {"bce_loss", "probabilities outside [0, 1] are refused at once"},
};

static bool may_ask(const char *op) {
    for (size_t i = 0; i < sizeof asking / sizeof *asking; i++)
        if (strcmp(asking[i].op, op) == 0) return true;
    return false;
}

static uint64_t traffic(void) { return sim_count("copy_to_host") + sim_count("copy_to_device") + sim_count("wait"); }

static long checked, asked;

static void check_case(const golden_case *c, const golden_call *call, char layout) {
    FA_SCOPE;
    fa_tensor *inputs[GOLDEN_MAX_TENSORS], *second = NULL, *leaves[GOLDEN_MAX_TENSORS], *grads[GOLDEN_MAX_TENSORS];
    int n = 0;
    for (int i = 0; i < c->ntensors; i++) {
        inputs[i] = c->tensors[i].null ? NULL : golden_input(c, i, c->types[0], layout, device);
        if (!inputs[i] && !c->tensors[i].null) fail_msg("%s: %s", c->op, fa_error_peek()->text);
        for (int k = 0; k < c->nfirst; k++)
            if (c->first[k].at == i && fa_dtype_is_floating(fa_dtype_of(inputs[i]))) {
                leaves[n++] = fa_requires_grad(inputs[i], true);
                break;
            }
    }
    fa_synchronize(device);
    const uint64_t before = traffic();
    fa_tensor *out = golden_run(c, call, c->types[0], device, inputs, &second);
    if (out && n > 0 && fa_is_requires_grad(out)) {
        fa_tensor *w = fa_ones_like(out);
        fa_grad_of(&out, 1, leaves, n, grads, .grad_outputs = &w, .allow_unused = true);
    }
    const uint64_t after = traffic();
    if (fa_failed()) fail_msg("%s (line %d): %s", c->op, c->line, fa_error_peek()->text);
    checked++;
    asked += after != before;
    if (after != before && !may_ask(c->op))
        broken++, print_message("%s (line %d), layout %c: %d copies and waits\n", c->op, c->line, layout, (int)(after - before));
}

static void operators_do_not_copy(void **state) {
    static golden_case c;
    golden_file file;
    char last[48] = "";
    int number = 0;
    (void)state;
    assert_true(golden_open(&file, getenv("GOLDEN") ? getenv("GOLDEN") : "tests/golden/ops.golden.gz"));
    for (; golden_next(&file, &c); golden_free(&c)) {
        if (strcmp(last, c.op) != 0) number = 0;
        snprintf(last, sizeof last, "%s", c.op);
        const golden_call *call = golden_find_call(c.op);
        if (!call || c.seeded || c.refused || number++ >= 4) continue;
        check_case(&c, call, c.layouts[0]);
        if (c.layouts[1]) check_case(&c, call, c.layouts[strlen(c.layouts) - 1]);
    }
    golden_free(&c);
    golden_close(&file);
    print_message("%ld calls, %ld of which ask the device\n", checked, asked);
    assert_true(checked > 300);
    assert_int_equal(broken, 0);
}

static void launches_return_before_their_kernels_end(void **state) {
    (void)state;
    fa_tensor *x = fa_ones(FA_SHAPE(1000), .device = device);
    fa_synchronize(device);
    const uint64_t launched = sim_count("launch"), run = sim_count("run");
    for (int i = 0; i < 10; i++) x = fa_add_scalar(x, FA_NUM(1));
    assert_int_equal(sim_count("launch"), launched + 10);
    assert_int_equal(sim_count("run"), run);
    assert_true(fa_item(fa_select(x, 0, 7)) == 11);
    assert_true(sim_count("run") >= run + 10);
}

/* What reads a value copies once each time. */
static void reading_copies_once(void **state) {
    (void)state;
    fa_tensor *x = fa_ones(FA_SHAPE(3, 4), .device = device), *one = fa_sum(x);
    char text[500];
    fa_synchronize(device);
    uint64_t before = sim_count("copy_to_host");
    assert_true(fa_item(one) == 12);
    assert_int_equal(sim_count("copy_to_host") - before, 1);
    before = sim_count("copy_to_host");
    assert_true(fa_to_text(x, text, sizeof text) > 0);
    assert_true(sim_count("copy_to_host") - before >= 1 && sim_count("copy_to_host") - before <= 3);
    before = sim_count("copy_to_host");
    assert_non_null(fa_nonzero(x));
    assert_true(sim_count("copy_to_host") - before >= 1 && sim_count("copy_to_host") - before <= 2);
}

typedef fa_optimizer *maker(fa_tensor *const *parameters, int n);
static fa_optimizer *make_sgd(fa_tensor *const *p, int n) { return fa_sgd_of(p, n, .lr = 0.1); }
static fa_optimizer *make_momentum(fa_tensor *const *p, int n) { return fa_sgd_of(p, n, .lr = 0.1, .momentum = 0.9); }
static fa_optimizer *make_adam(fa_tensor *const *p, int n) { return fa_adam_of(p, n); }
static fa_optimizer *make_adamw(fa_tensor *const *p, int n) { return fa_adamw_of(p, n, .amsgrad = true); }

static uint64_t launches_of_a_step(maker *make, int n) {
    FA_SCOPE;
    fa_tensor *p[60];
    for (int i = 0; i < n; i++) p[i] = fa_zeros(FA_SHAPE(3 + i % 5, 4), .device = device, .requires_grad = true);
    fa_optimizer *o = make(p, n);
    for (int i = 0; i < n; i++) fa_set_grad(p[i], fa_ones_like(p[i]));
    assert_true(fa_step(o));
    const uint64_t before = sim_count("launch");
    assert_true(fa_step(o));
    return sim_count("launch") - before;
}

static void launches_of_an_optimizer_do_not_grow(void **state) {
    static maker *const makers[] = {make_sgd, make_momentum, make_adam, make_adamw};
    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(launches_of_a_step(makers[i], 1), 1);
        assert_int_equal(launches_of_a_step(makers[i], 60), 1);
    }
}

/* A training step from tensors that lie on the device: nothing is copied but the loss that is printed. */
static void a_training_step_copies_its_loss(void **state) {
    (void)state;
    fa_module *net = fa_sequential(fa_nn_conv2d(1, 4, 3), fa_nn_batch_norm2d(4), fa_nn_relu(), fa_nn_flatten(),
                                   fa_nn_dropout(0.5), fa_nn_linear(144, 10));
    fa_module_to(net, device);
    fa_optimizer *optimizer = fa_adamw(net, .lr = 1e-3);
    fa_tensor *x = fa_rand(FA_SHAPE(8, 1, 8, 8), .device = device), *y = fa_randint(0, 10, FA_SHAPE(8), .device = device);
    uint64_t to_host = 0, to_device = 0;
    for (int step = 0; step < 4; step++) {
        FA_SCOPE;
        to_host = sim_count("copy_to_host"), to_device = sim_count("copy_to_device");
        fa_tensor *loss = fa_cross_entropy(fa_call(net, x), y);
        fa_zero_grad(optimizer);
        fa_backward(loss);
        fa_step(optimizer);
        fa_item(loss);
    }
    assert_false(fa_failed());
    print_message("copies to the host %d, to the device %d\n", (int)(sim_count("copy_to_host") - to_host),
                  (int)(sim_count("copy_to_device") - to_device));
    assert_true(sim_count("copy_to_host") - to_host <= 2);     /* the loss; the status words of the labels' kernel */
    assert_true(sim_count("copy_to_device") - to_device <= 1); /* the optimizer's table, if gradients lie elsewhere now */
}

static int prepare(void **state) {
    (void)state;
    find_simulator();
    return sim_count ? 0 : (printf("a simulated device is needed\n"), -1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(launches_return_before_their_kernels_end), TEST(operators_do_not_copy),
                                       TEST(reading_copies_once), TEST(launches_of_an_optimizer_do_not_grow),
                                       TEST(a_training_step_copies_its_loss)};
    setenv("FACULA_SIM", "cuda:1", 0);
    return cmocka_run_group_tests(tests, prepare, NULL) ? 1 : fa_finish("test_copies");
}
