/* Autocast and the gradient scaler in C: types of results and gradients, scopes, the cache of weights, scaling, steps left out.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2
 * test-env-opencl: FACULA_OPENCL=cpu */
#include "autograd/autocast.h"
#include "nn/module.h"
#include "support/scope.h"
#include <facula.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static void assert_error(fa_code code, const char *begins) {
    const fa_error e = fa_error_take();
    if (e.code != code || strncmp(e.text, begins, strlen(begins)) != 0) fail_msg("expected %d %s, found %d %s", code, begins, e.code, e.text);
}

static fa_device device(void) { return fa_try_accelerator(0); }
static fa_device type(void) { return fa_device_of_type(device().type, -1); }
static fa_tensor *some(int64_t n) { return fa_rand(FA_SHAPE(n, n), .device = device()); }

static void scopes_set_the_thread_and_nest(void **state) {
    (void)state;
    const fa_dtype normal = device().type == FA_DEVICE_CPU ? FA_BFLOAT16 : FA_FLOAT16, other = normal == FA_FLOAT16 ? FA_BFLOAT16 : FA_FLOAT16;
    fa_tensor *x = some(4);
    assert_int_equal(fa_dtype_of(fa_matmul(x, x)), FA_FLOAT32);
    {
        FA_AUTOCAST_SCOPE(type());
        assert_true(fa_is_autocast_enabled(type()));
        assert_int_equal(fa_dtype_of(fa_matmul(x, x)), normal);
        assert_int_equal(fa_dtype_of(fa_mse_loss(fa_matmul(x, x), x)), FA_FLOAT32);
        {
            FA_AUTOCAST_SCOPE(type(), .dtype = other);
            assert_int_equal(fa_dtype_of(fa_matmul(x, x)), other);
            FA_AUTOCAST_SCOPE(type(), .enabled = false);
            assert_int_equal(fa_dtype_of(fa_matmul(x, x)), FA_FLOAT32);
        }
        assert_int_equal(fa_dtype_of(fa_matmul(x, x)), normal);
        fa_tensor *wide = fa_cast(x, FA_FLOAT64);
        assert_int_equal(fa_dtype_of(fa_matmul(wide, wide)), FA_FLOAT64);
        fa_tensor *both[] = {fa_matmul(x, x), x};
        assert_int_equal(fa_dtype_of(fa_cat(both, 2, 0)), FA_FLOAT32);
    }
    assert_false(fa_is_autocast_enabled(type()));
    assert_int_equal(fa_dtype_of(fa_matmul(x, x)), FA_FLOAT32);
    fa_device none = {0, 0};
    (void)fa_set_autocast_enabled(none, true);
    assert_error(FA_ERR_VALUE, "argument 'device' is not given");
}

static void gradients_have_the_parameters_types(void **state) {
    (void)state;
    fa_module *net = fa_sequential(fa_nn_linear(4, 8), fa_nn_relu(), fa_nn_linear(8, 1));
    fa_module_to(net, device());
    fa_tensor *x = fa_rand(FA_SHAPE(8, 4), .device = device()), *y = fa_rand(FA_SHAPE(8, 1), .device = device());
    fa_backward(fa_mse_loss(fa_call(net, x), y));
    fa_tensor *w = fa_get_parameter(net, "0.weight"), *exact = fa_clone(fa_grad(w));
    assert_true(fa_set_grad(w, NULL));
    FA_AUTOCAST_SCOPE(type());
    fa_backward(fa_mse_loss(fa_call(net, x), y));
    assert_non_null(fa_grad(w));
    assert_int_equal(fa_dtype_of(fa_grad(w)), FA_FLOAT32);
    assert_true(fa_allclose(fa_grad(w), exact, 0.05, 0.01, false));
    assert_false(fa_allclose(fa_grad(w), exact, 0, 0, false)); /* it was computed in the lower precision */
}

static void weights_are_cast_once(void **state) {
    (void)state;
    if (device().type == FA_DEVICE_CPU) skip(); /* launches are counted */
    fa_tensor *x = some(4), *w = fa_requires_grad(some(4), true);
    for (int cached = 0; cached < 2; cached++) {
        FA_AUTOCAST_SCOPE(type(), .cache_enabled = cached);
        fa_tensor *low = fa_cast(x, FA_FLOAT16);
        uint64_t launches[2];
        for (int i = 0; i < 2; i++) {
            const uint64_t before = fa_device_get_counts(device()).launches;
            assert_non_null(fa_matmul(low, w));
            launches[i] = fa_device_get_counts(device()).launches - before;
        }
        assert_int_equal(launches[0] - launches[1], cached);
        if (!cached) continue;
        { FA_NO_GRAD; fa_zero_(w); } /* a changed weight is cast anew */
        const float sum = (float)fa_item(fa_sum(fa_matmul(low, w)));
        assert_true(sum == 0);
    }
    { /* a cast without a record does not serve where one is needed */
        FA_AUTOCAST_SCOPE(type());
        { FA_NO_GRAD; assert_non_null(fa_matmul(x, w)); }
        assert_true(fa_is_requires_grad(fa_matmul(x, w)));
    }
    assert_null(fai_cold_block()->autocast); /* and nothing stays after the outermost scope */
}

static void unsafe_losses_are_refused_on_accelerators(void **state) {
    (void)state;
    fa_tensor *x = some(2);
    FA_AUTOCAST_SCOPE(type());
    fa_tensor *loss = fa_bce_loss(x, x);
    if (device().type == FA_DEVICE_CPU) assert_int_equal(fa_dtype_of(loss), FA_FLOAT32);
    else {
        assert_null(loss);
        assert_error(FA_ERR_RUNTIME, "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.");
    }
    assert_int_equal(fa_dtype_of(fa_bce_with_logits_loss(x, x)), FA_FLOAT32);
}

static void recurrent_networks_hand_their_states_out(void **state) {
    (void)state;
    fa_tensor *w[] = {fa_requires_grad(fa_rand(FA_SHAPE(12, 4), .device = device()), true), fa_requires_grad(fa_rand(FA_SHAPE(12, 3), .device = device()), true)};
    fa_tensor *h = NULL, *c = NULL, *x = fa_rand(FA_SHAPE(5, 2, 4), .device = device());
    FA_AUTOCAST_SCOPE(type());
    fa_tensor *y = fa_lstm_with(x, w, 2, &(fa_rnn_options){.struct_size = sizeof(fa_rnn_options), .num_layers = 1, .h_n = &h, .c_n = &c});
    assert_int_equal(fa_dtype_of(y), fa_autocast_dtype(type()));
    assert_true(fa_equal(fa_select(y, 0, -1), fa_select(h, 0, 0)));
    assert_int_equal(fa_ndim(c), 3);
    assert_true(fa_backward(fa_sum(y)));
    assert_int_equal(fa_dtype_of(fa_grad(w[0])), FA_FLOAT32);
}

/* ---- the scaler ---- */

static fa_tensor *trained(void) {
    fa_tensor *w = fa_requires_grad(fa_ones(FA_SHAPE(3), .device = device()), true);
    return w;
}

static void a_scaled_step_is_the_plain_step(void **state) {
    (void)state;
    fa_tensor *w = trained();
    fa_optimizer *opt = fa_sgd_of(&w, 1, .lr = 0.5);
    fa_grad_scaler *s = fa_grad_scaler(.init_scale = 8, .growth_interval = 2);
    for (int i = 0; i < 2; i++) {
        fa_zero_grad(opt);
        fa_tensor *loss = fa_grad_scaler_scale(s, fa_sum(fa_mul_scalar(w, 0.5)));
        assert_true(fa_backward(loss));
        assert_true(fa_item(fa_max(fa_grad(w))) == 4);
        if (i == 1) {
            assert_true(fa_grad_scaler_unscale(s, opt));
            assert_true(fa_item(fa_max(fa_grad(w))) == 0.5);
        }
        const uint64_t waits = fa_device_get_counts(device()).waits;
        assert_true(fa_grad_scaler_step(s, opt) && fa_grad_scaler_update(s));
        if (device().type != FA_DEVICE_CPU) assert_true(fa_device_get_counts(device()).waits - waits <= 1);
        assert_false(fa_grad_scaler_found_inf(s));
    }
    assert_true(fabs(fa_item(fa_max(w)) - 0.5) < 1e-6);
    assert_true(fa_grad_scaler_get(s).scale == 16); /* grown after two good steps */
    assert_int_equal(fa_grad_scaler_get(s).growth_tracker, 0);
}

static void an_infinite_gradient_leaves_the_step_out(void **state) {
    (void)state;
    fa_tensor *w = trained();
    fa_optimizer *opt = fa_adam_of(&w, 1, .lr = 0.5);
    fa_grad_scaler *s = fa_grad_scaler();
    const double bad[] = {INFINITY, NAN};
    for (int i = 0; i < 2; i++) {
        assert_true(fa_backward(fa_grad_scaler_scale(s, fa_sum(fa_mul_scalar(w, bad[i])))));
        assert_true(fa_grad_scaler_step(s, opt));
        assert_true(fa_grad_scaler_found_inf(s));
        assert_true(fa_grad_scaler_update(s));
        fa_zero_grad(opt);
    }
    assert_true(fa_item(fa_min(w)) == 1 && fa_item(fa_max(w)) == 1);
    assert_true(fa_grad_scaler_get(s).scale == 16384);
    fa_grad_scaler_state kept = fa_grad_scaler_get(s);
    fa_grad_scaler *again = fa_grad_scaler();
    assert_true(fa_grad_scaler_set(again, &kept));
    assert_true(fa_grad_scaler_get(again).scale == 16384);
}

static void mistakes_are_told(void **state) {
    (void)state;
    fa_tensor *w = trained();
    fa_optimizer *opt = fa_sgd_of(&w, 1, .lr = 0.5);
    assert_false(fa_grad_scaler_update(NULL));
    assert_error(FA_ERR_TYPE, "argument 'scaler' is NULL");
    assert_null(fa_grad_scaler_with(&(fa_grad_scaler_options){.struct_size = 1}));
    assert_error(FA_ERR_VALUE, "the options have struct_size 1");
    fa_grad_scaler *s = fa_grad_scaler();
    assert_false(fa_grad_scaler_set(s, NULL));
    assert_error(FA_ERR_TYPE, "argument 'state' is NULL: what fa_grad_scaler_get gave is needed");
    assert_false(fa_grad_scaler_step(s, opt));
    assert_error(FA_ERR_ASSERTION, "Attempted step but _scale is None.");
    assert_null(fa_grad_scaler(.growth_factor = 1));
    assert_error(FA_ERR_ASSERTION, "The growth factor must be > 1.0.");
    assert_null(fa_grad_scaler(.backoff_factor = 1));
    assert_error(FA_ERR_ASSERTION, "The backoff factor must be < 1.0.");
    fa_tensor *scaled = fa_grad_scaler_scale(s, fa_sum(w));
    assert_false(fa_grad_scaler_step(s, opt));
    assert_error(FA_ERR_ASSERTION, "No inf checks were recorded for this optimizer.");
    assert_false(fa_grad_scaler_update(s));
    assert_error(FA_ERR_ASSERTION, "No inf checks were recorded prior to update.");
    s = fa_grad_scaler();
    scaled = fa_grad_scaler_scale(s, fa_sum(w));
    assert_true(fa_backward(scaled) && fa_grad_scaler_unscale(s, opt));
    assert_false(fa_grad_scaler_unscale(s, opt));
    assert_error(FA_ERR_RUNTIME, "unscale_() has already been called on this optimizer since the last update().");
    assert_true(fa_grad_scaler_step(s, opt));
    assert_false(fa_grad_scaler_step(s, opt));
    assert_error(FA_ERR_RUNTIME, "step() has already been called since the last update().");
    assert_false(fa_grad_scaler_unscale(s, opt));
    assert_error(FA_ERR_RUNTIME, "unscale_() is being called after step().");
    fa_tensor *half = fa_requires_grad(fa_cast(fa_detach(w), FA_FLOAT16), true);
    fa_optimizer *halves = fa_sgd_of(&half, 1, .lr = 0.5);
    assert_true(fa_backward(fa_grad_scaler_scale(s, fa_sum(half))));
    assert_false(fa_grad_scaler_unscale(s, halves));
    assert_error(FA_ERR_VALUE, "Attempting to unscale FP16 gradients.");
    fa_zero_grad(opt);
    assert_true(fa_backward(fa_sum(w)) && fa_step(opt)); /* -0.5: the next step begins from 0.5 again */
    { FA_NO_GRAD; fa_fill_(w, 1.0); }
    fa_zero_grad(opt);
    fa_grad_scaler *off = fa_grad_scaler(.enabled = false);
    fa_tensor *loss = fa_sum(w);
    assert_ptr_equal(fa_grad_scaler_scale(off, loss), loss);
    assert_true(fa_backward(loss) && fa_grad_scaler_step(off, opt) && fa_grad_scaler_update(off));
    assert_true(fa_item(fa_max(w)) == 0.5);
}

static char told[1000];
static void tell(const char *op, const char *text) { snprintf(told, sizeof told, "%s: %s", op, text); }

static void what_can_not_be_is_off_and_told(void **state) {
    (void)state;
    fa_tensor *x = fa_ones(FA_SHAPE(2, 2));
    fai_set_warn(tell);
    {
        FA_AUTOCAST_SCOPE(FA_CPU, .dtype = FA_FLOAT64);
        assert_string_equal(told, "autocast: In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                                  "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.");
        assert_int_equal(fa_dtype_of(fa_matmul(x, x)), FA_FLOAT32);
        FA_AUTOCAST_SCOPE(fa_device_parse("xpu"));
        assert_string_equal(told, "autocast: User provided device_type of 'xpu', but XPU is not available. Disabling");
        if (!fa_device_is_available(FA_DEVICE_CUDA)) {
            FA_AUTOCAST_SCOPE(FA_CUDA(-1));
            assert_string_equal(told, "autocast: CUDA is not available or torch_xla is imported. Disabling autocast.");
            assert_false(fa_is_autocast_enabled(FA_CUDA(-1)));
        }
    }
    fai_set_warn(NULL);
}

/* Each allocation fails in turn: an error, no leak, and the modes are as before. */
static void memory_fails_at_every_point(void **state) {
    (void)state;
    fa_tensor *x = some(4), *w = fa_requires_grad(some(4), true);
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        FA_SCOPE;
        fa_test_fail_allocation(n, false);
        {
            FA_AUTOCAST_SCOPE(type());
            fa_grad_scaler *s = fa_grad_scaler();
            fa_tensor *both[] = {fa_matmul(x, w), x};
            fa_tensor *loss = fa_mse_loss(fa_cat(both, 2, 0), fa_cat(both, 2, 0));
            done = fa_backward(fa_grad_scaler_scale(s, loss));
        }
        fa_test_fail_allocation(0, false);
        assert_false(fa_is_autocast_enabled(type()));
        const fa_code code = fa_error_take().code;
        assert_true(done ? code == FA_OK : code == FA_ERR_MEMORY || code == FA_ERR_DEVICE_MEMORY);
        (void)fa_set_grad(w, NULL);
        assert_true(n < 400);
    }
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {T(scopes_set_the_thread_and_nest), T(gradients_have_the_parameters_types), T(weights_are_cast_once),
                                       T(unsafe_losses_are_refused_on_accelerators), T(recurrent_networks_hand_their_states_out),
                                       T(a_scaled_step_is_the_plain_step), T(an_infinite_gradient_leaves_the_step_out), T(mistakes_are_told), T(what_can_not_be_is_off_and_told),
                                       T(memory_fails_at_every_point)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
