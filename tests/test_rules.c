/* The optimizers beside SGD and Adam against PyTorch's values: parameters after 20 steps, what is kept between them, states
 * that are saved and loaded on the way, options that are refused.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2
 * test-env-opencl: FACULA_OPENCL=cpu */
#include "optim/optim.h"
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "golden/rules.h"
#include "support/scope.h"

enum { STEPS = 20, SKIPPED = 2, FALL = 10, VALUES = 17 };

static const fai_rule *const rules[] = {&fai_rule_rmsprop, &fai_rule_adagrad, &fai_rule_adadelta, &fai_rule_adamax,
                                        &fai_rule_nadam,   &fai_rule_radam,   &fai_rule_asgd,     &fai_rule_rprop};
enum { RULES = sizeof rules / sizeof *rules, CASES = sizeof rule_cases / sizeof *rule_cases };

#define assert_error(want_code, want_text)                                                                                       \
    do {                                                                                                                         \
        fa_error e_ = fa_error_take();                                                                                           \
        assert_int_equal(e_.code, (want_code));                                                                                  \
        assert_memory_equal(e_.text, (want_text), strlen(want_text));                                                            \
    } while (0)

static const fai_rule *rule_of(const rule_case *c) {
    for (int i = 0; i < RULES; i++)
        if (strcmp(rules[i]->op, c->rule) == 0) return rules[i];
    fail_msg("no rule %s", c->rule);
    return NULL;
}

static fa_tensor *draw(uint64_t *s, fa_shape shape, fa_dtype dtype) {
    double values[12];
    const int n = shape.ndim == 2 ? 12 : 5;
    for (int i = 0; i < n; i++) {
        *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        values[i] = (double)(*s >> 40) / 4194304.0 - 2;
    }
    return fa_from_data(values, FA_FLOAT64, shape, .dtype = dtype, .device = fa_try_accelerator(1));
}

typedef struct pair {
    fa_tensor *p[2];
    uint64_t s;
    fa_dtype dtype;
} pair;

static pair draw_pair(uint64_t seed, fa_dtype dtype) {
    pair x = {.s = seed, .dtype = dtype};
    x.p[0] = fa_requires_grad(draw(&x.s, FA_SHAPE(3, 4), dtype), true);
    x.p[1] = fa_requires_grad(draw(&x.s, FA_SHAPE(5), dtype), true);
    assert_non_null(x.p[1]);
    return x;
}

static void step(pair *x, fa_optimizer *o, int number) {
    FA_SCOPE;
    if (number == FALL) assert_true(fa_set_option(o, -1, "lr", fa_get_option(o, 0, "lr") * 0.5));
    assert_true(fa_set_grad(x->p[0], draw(&x->s, FA_SHAPE(3, 4), x->dtype)));
    fa_tensor *second = draw(&x->s, FA_SHAPE(5), x->dtype);
    assert_true(fa_set_grad(x->p[1], number == SKIPPED ? NULL : second));
    assert_true(fa_step(o));
}

static void assert_torchs(const rule_case *c, const pair *x, const fa_optimizer *o, double tolerance) {
    const double *want = x->dtype == FA_FLOAT64 ? c->f64 : c->f32;
    double got[VALUES + FAI_RULE_KEPT];
    int n = VALUES;
    assert_true(fa_to_data(x->p[0], got, FA_FLOAT64) && fa_to_data(x->p[1], got + 12, FA_FLOAT64));
    for (int k = 0; k < FAI_RULE_KEPT && o->rule->kept[k]; k++) got[n++] = o->groups[0].trained[0].kept[k];
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= (i < VALUES ? tolerance : 1e-6) * (fabs(want[i]) + 0.1)))
            fail_msg("%s, seed %d: value %d is %.17g, PyTorch has %.17g", c->rule, (int)c->seed, i, got[i], want[i]);
}

static void twenty_steps_are_torchs(void **state) {
    (void)state;
    for (int k = 0; k < CASES; k++)
        for (int wide = 0; wide < 2; wide++) {
            FA_SCOPE;
            pair x = draw_pair(rule_cases[k].seed, wide ? FA_FLOAT64 : FA_FLOAT32);
            fa_optimizer *o = fai_optimizer_of(rule_of(&rule_cases[k]), x.p, 2, rule_cases[k].option);
            assert_non_null(o);
            for (int i = 0; i < STEPS; i++) step(&x, o, i);
            assert_torchs(&rule_cases[k], &x, o, wide ? 1e-12 : 2e-5);
        }
}

/* A second optimizer goes on with what the first had kept: by names for even cases, in PyTorch's structure for odd ones. */
static void states_go_on(void **state) {
    (void)state;
    for (int k = 0; k < CASES; k++) {
        FA_SCOPE;
        const rule_case *c = &rule_cases[k];
        double other[FAI_RULE_OPTIONS];
        memcpy(other, c->option, sizeof other);
        other[0] *= 3;
        pair x = draw_pair(c->seed, FA_FLOAT64);
        fa_optimizer *first = fai_optimizer_of(rule_of(c), x.p, 2, c->option),
                     *second = fai_optimizer_of(rule_of(c), x.p, 2, other);
        for (int i = 0; i < 5; i++) step(&x, first, i);
        if (k % 2 == 0) assert_true(fa_load_optimizer_state(second, fa_optimizer_state(first)));
        else assert_true(fa_load_optimizer_value(second, fa_optimizer_value(fa_values_new(), first)));
        for (int i = 5; i < STEPS; i++) step(&x, second, i);
        assert_torchs(c, &x, second, 1e-12);
    }
}

static void half_precision_goes_too(void **state) {
    (void)state;
    for (int k = 0; k < CASES; k++)
        for (int kind = 0; kind < 2; kind++) {
            FA_SCOPE;
            double values[12], before[12];
            pair x = draw_pair(rule_cases[k].seed, kind ? FA_BFLOAT16 : FA_FLOAT16);
            fa_optimizer *o = fai_optimizer_of(rule_of(&rule_cases[k]), x.p, 2, rule_cases[k].option);
            assert_true(fa_to_data(x.p[0], before, FA_FLOAT64));
            for (int i = 0; i < 3; i++) step(&x, o, i);
            assert_true(fa_to_data(x.p[0], values, FA_FLOAT64));
            int moved = 0;
            for (int i = 0; i < 12; i++) {
                assert_true(isfinite(values[i]));
                moved += values[i] != before[i];
            }
            if (strcmp(rule_cases[k].rule, "adadelta") != 0 || rule_cases[k].option[2] > 1e-5) assert_true(moved > 0);
        }
}

/* The public functions: their defaults are PyTorch's, and options of an older, shorter struct are read so far as they go. */
static void defaults_are_torchs(void **state) {
    (void)state;
    fa_tensor *p = fa_zeros(FA_SHAPE(2), .requires_grad = true);
    fa_optimizer *made[] = {fa_rmsprop_of(&p, 1, .lr = 1e-2), fa_adagrad_of(&p, 1, .lr = 1e-2), fa_adadelta_of(&p, 1, .lr = 1.0),
                            fa_adamax_of(&p, 1, .lr = 2e-3),  fa_nadam_of(&p, 1, .lr = 2e-3),   fa_radam_of(&p, 1, .lr = 1e-3),
                            fa_asgd_of(&p, 1, .lr = 1e-2),    fa_rprop_of(&p, 1, .lr = 1e-2)};
    for (int i = 0; i < RULES; i++) {
        assert_non_null(made[i]);
        int k = 0;
        while (strcmp(rule_cases[k].rule, made[i]->rule->op) != 0) k++; /* the first case has the defaults */
        assert_memory_equal(made[i]->groups[0].option, rule_cases[k].option, sizeof rule_cases[k].option);
    }
    fa_rmsprop_options old = {.struct_size = offsetof(fa_rmsprop_options, alpha), .lr = 0.5, .alpha = 9};
    fa_optimizer *o = fa_rmsprop_of_with(&p, 1, &old);
    assert_true(fa_get_option(o, 0, "lr") == 0.5 && fa_get_option(o, 0, "alpha") == 0.99);
    fa_module *net = fa_nn_linear(2, 1);
    assert_non_null(fa_rprop(net, .eta_plus = 1.5));
    assert_non_null(fa_nadam(net, .decoupled_weight_decay = true));
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    fa_tensor *p = fa_zeros(FA_SHAPE(2), .requires_grad = true);
    assert_null(fa_rmsprop_of(&p, 1, .alpha = -1));
    assert_error(FA_ERR_VALUE, "Invalid alpha value: -1");
    assert_null(fa_adagrad_of(&p, 1, .lr_decay = -1));
    assert_error(FA_ERR_VALUE, "Invalid lr_decay value: -1");
    assert_null(fa_adagrad_of(&p, 1, .initial_accumulator_value = NAN));
    assert_error(FA_ERR_VALUE, "Invalid initial_accumulator_value value: nan");
    assert_null(fa_adadelta_of(&p, 1, .rho = 1.5));
    assert_error(FA_ERR_VALUE, "Invalid rho value: 1.5");
    assert_null(fa_adamax_of(&p, 1, .beta2 = 1));
    assert_error(FA_ERR_VALUE, "Invalid beta parameter at index 1: 1.0");
    assert_null(fa_nadam_of(&p, 1, .momentum_decay = -2));
    assert_error(FA_ERR_VALUE, "Invalid momentum_decay value: -2");
    assert_null(fa_radam_of(&p, 1, .eps = -1));
    assert_error(FA_ERR_VALUE, "Invalid epsilon value: -1");
    assert_null(fa_asgd_of(&p, 1, .lr = -1));
    assert_error(FA_ERR_VALUE, "Invalid learning rate: -1");
    assert_null(fa_rprop_of(&p, 1, .eta_plus = 0.9));
    assert_error(FA_ERR_VALUE, "Invalid eta values: 0.5, 0.9");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(twenty_steps_are_torchs, begin, end),
        cmocka_unit_test_setup_teardown(states_go_on, begin, end),
        cmocka_unit_test_setup_teardown(half_precision_goes_too, begin, end),
        cmocka_unit_test_setup_teardown(defaults_are_torchs, begin, end),
        cmocka_unit_test_setup_teardown(options_out_of_range_are_refused, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
