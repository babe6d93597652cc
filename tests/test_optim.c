/* Optimizers, schedules and clipping against PyTorch's values; groups, options, errors, state, devices, no memory.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2
 * test-env: FACULA_OPENCL=cpu */
#include "optim/optim.h"
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "golden/training.h"
#include "support/scope.h"

enum { STEPS = 20, SKIPPED = 2, VALUES = 17 };

#define assert_error(want_code, want_text)                                                                                       \
    do {                                                                                                                         \
        fa_error e_ = fa_error_take();                                                                                           \
        assert_int_equal(e_.code, (want_code));                                                                                  \
        assert_memory_equal(e_.text, (want_text), strlen(want_text));                                                            \
    } while (0)

static fa_device here(void) { return fa_try_accelerator(1); } /* cuda:1 or the CPU */
static bool on_device(void) { return here().type != FA_DEVICE_CPU; }

static double draw_one(uint64_t *s) {
    *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*s >> 40) / 4194304.0 - 2;
}

static fa_tensor *draw(uint64_t *s, fa_shape shape, fa_dtype dtype) {
    double values[64];
    int64_t n = 1;
    for (int i = 0; i < shape.ndim; i++) n *= shape.dim[i];
    for (int64_t i = 0; i < n; i++) values[i] = draw_one(s);
    return fa_from_data(values, FA_FLOAT64, shape, .dtype = dtype, .device = here());
}

typedef struct pair {
    fa_tensor *p[2];
    uint64_t s;
} pair;

static pair draw_pair(uint64_t seed, fa_dtype dtype) {
    pair x = {.s = seed};
    x.p[0] = fa_requires_grad(draw(&x.s, FA_SHAPE(3, 4), dtype), true);
    x.p[1] = fa_requires_grad(draw(&x.s, FA_SHAPE(5), dtype), true);
    assert_non_null(x.p[1]);
    return x;
}

static void draw_grads(pair *x, fa_dtype dtype, int step) {
    FA_SCOPE;
    assert_true(fa_set_grad(x->p[0], draw(&x->s, FA_SHAPE(3, 4), dtype)));
    fa_tensor *second = draw(&x->s, FA_SHAPE(5), dtype);
    assert_true(fa_set_grad(x->p[1], step == SKIPPED ? NULL : second));
}

static void read_pair(const pair *x, double *values) {
    assert_true(fa_to_data(x->p[0], values, FA_FLOAT64));
    assert_true(fa_to_data(x->p[1], values + 12, FA_FLOAT64));
}

static void assert_close(const double *got, const double *want, int n, double tolerance, const char *name) {
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * (fabs(want[i]) + 0.1)))
            fail_msg("%s: value %d is %.17g, PyTorch has %.17g", name, i, got[i], want[i]);
}

static fa_optimizer *make(const training_case *c, fa_tensor *const *parameters, int n) {
    if (strcmp(c->rule, "sgd") == 0) return fa_sgd_of_with(parameters, n, &c->sgd);
    return strcmp(c->rule, "adam") == 0 ? fa_adam_of_with(parameters, n, &c->adam) : fa_adamw_of_with(parameters, n, &c->adam);
}

static void twenty_steps_are_torchs(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof training_cases / sizeof *training_cases; k++) {
        const training_case *c = &training_cases[k];
        for (int wide = 0; wide < 2; wide++) {
            FA_SCOPE;
            double got[VALUES];
            const fa_dtype dtype = wide ? FA_FLOAT64 : FA_FLOAT32;
            pair x = draw_pair(c->seed, dtype);
            fa_optimizer *o = make(c, x.p, 2);
            assert_non_null(o);
            for (int step = 0; step < STEPS; step++) {
                draw_grads(&x, dtype, step);
                assert_true(fa_step(o));
            }
            read_pair(&x, got);
            assert_close(got, wide ? c->f64 : c->f32, VALUES, wide ? 1e-12 : 1e-6, c->name);
        }
    }
}

static void schedules_are_torchs(void **state) {
    (void)state;
    FA_SCOPE;
    const double *want[] = {rates_step, rates_exponential, rates_cosine, rates_cosine_min};
    for (int k = 0; k < 4; k++) {
        fa_tensor *p = fa_zeros(FA_SHAPE(1), .requires_grad = true);
        fa_optimizer *o = fa_sgd_of(&p, 1, .lr = k == 3 ? 0.1 : 1);
        fa_scheduler *s = k == 0   ? fa_step_lr(o, 2, 0.1)
                          : k == 1 ? fa_exponential_lr(o, 0.5)
                          : k == 2 ? fa_cosine_lr(o, 4, 0)
                                   : fa_cosine_lr(o, 3, 0.01);
        for (int i = 0; i < 14; i++) {
            if (k < 2)
                assert_true(fa_last_lr(s) == want[k][i]);
            else
                assert_true(fabs(fa_last_lr(s) - want[k][i]) <= 1e-15);
            assert_true(fa_get_option(o, 0, "lr") == fa_last_lr(s));
            assert_true(fa_step(o) && fa_schedule_step(s));
        }
    }
}

static double factor(int64_t epoch, void *data) { return *(double *)data / (double)(epoch + 2); }

static void a_function_gives_the_rate(void **state) {
    (void)state;
    double one = 1;
    fa_tensor *p = fa_zeros(FA_SHAPE(1), .requires_grad = true);
    fa_optimizer *o = fa_sgd_of(&p, 1, .lr = 1);
    fa_scheduler *s = fa_lambda_lr(o, factor, &one);
    for (int i = 0; i < 14; i++) {
        assert_true(fa_last_lr(s) == rates_lambda[i]);
        assert_true(fa_step(o) && fa_schedule_step(s));
    }
    assert_int_equal(fa_schedule_epoch(s), 14);
    assert_true(fa_schedule_resume(s, 3) && fa_last_lr(s) == rates_lambda[3]);
}

static void clipping_is_torchs(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof clip_cases / sizeof *clip_cases; k++)
        for (int wide = 0; wide < 2; wide++) {
            FA_SCOPE;
            const clip_case *c = &clip_cases[k];
            double got[VALUES + 1];
            const fa_dtype dtype = wide ? FA_FLOAT64 : FA_FLOAT32;
            uint64_t seed = c->seed;
            pair x = draw_pair(1, dtype);
            x.s = seed;
            draw_grads(&x, dtype, 0);
            got[0] = fa_clip_grad_norm(x.p, 2, c->max_norm, c->norm_type);
            pair grads = {.p = {fa_grad(x.p[0]), fa_grad(x.p[1])}};
            read_pair(&grads, got + 1);
            assert_close(got, wide ? c->f64 : c->f32, VALUES + 1, wide ? 1e-12 : 1e-6, "clip_grad_norm");
        }
    fa_tensor *none = fa_zeros(FA_SHAPE(2), .requires_grad = true);
    assert_true(fa_clip_grad_norm(&none, 1, 1, 2) == 0);
    assert_true(fa_clip_grad_norm(&none, 1, NAN, 2) == -1);
    assert_error(FA_ERR_VALUE, "max_norm and norm_type must be numbers");
}

static void layouts_do_not_matter(void **state) {
    (void)state;
    double plain[12], turned[12];
    uint64_t s = 5, same = 5;
    fa_tensor *p = fa_requires_grad(draw(&s, FA_SHAPE(3, 4), FA_FLOAT32), true);
    fa_tensor *q = fa_contiguous(fa_transpose(draw(&same, FA_SHAPE(3, 4), FA_FLOAT32), 0, 1));
    q = fa_requires_grad(fa_detach(fa_transpose(q, 0, 1)), true);
    assert_false(fa_is_contiguous(q));
    fa_tensor *grad = draw(&s, FA_SHAPE(4, 3), FA_FLOAT32);
    fa_optimizer *o[] = {fa_adam_of(&p, 1, .lr = 0.1), fa_adam_of(&q, 1, .lr = 0.1)};
    for (int i = 0; i < 3; i++) {
        assert_true(fa_set_grad(p, fa_contiguous(fa_transpose(grad, 0, 1))) && fa_set_grad(q, fa_transpose(grad, 0, 1)));
        const uint32_t version = fa_version_of(q);
        assert_true(fa_step(o[0]) && fa_step(o[1]));
        assert_int_equal(fa_version_of(q), version + 1);
    }
    assert_true(fa_to_data(p, plain, FA_FLOAT64) && fa_to_data(q, turned, FA_FLOAT64));
    assert_memory_equal(plain, turned, sizeof plain);
}

/* ---- launches and memory ---- */

static void launches_do_not_grow(void **state) {
    (void)state;
    if (!on_device()) skip();
    uint64_t launches[2], copies[2];
    for (int k = 0; k < 2; k++) {
        FA_SCOPE;
        fa_tensor *p[40];
        const int n = k == 0 ? 2 : 40;
        for (int i = 0; i < n; i++) p[i] = fa_zeros(FA_SHAPE(i + 1), .device = here(), .requires_grad = true);
        fa_optimizer *o = fa_adam_of(p, n);
        fa_device_counts before = {0};
        for (int step = 0; step < 3; step++) {
            for (int i = 0; i < n; i++) assert_true(fa_set_grad(p[i], fa_ones_like(p[i])));
            before = fa_device_get_counts(here());
            assert_true(fa_step(o));
        }
        const fa_device_counts after = fa_device_get_counts(here());
        launches[k] = after.launches - before.launches;
        copies[k] = after.copies_to_device - before.copies_to_device;
        assert_int_equal(after.waits, before.waits);
        before = fa_device_get_counts(here()); /* the same gradients again: no address changed */
        assert_true(fa_step(o));
        assert_int_equal(fa_device_get_counts(here()).copies_to_device, before.copies_to_device);
    }
    assert_int_equal(launches[0], 1);
    assert_int_equal(launches[1], 1);
    assert_true(copies[0] <= 1 && copies[1] <= 1);
}

/* Parameter i: of a memory object of its own, if it has less than all of its memory; the last two are larger than what is worth a table. */
enum { APART = 12, MANY = APART + 2 };
static void make_apart(fa_tensor *p[MANY], fa_device device) {
    for (int i = 0; i < MANY; i++) {
        const int64_t n = i < APART ? i + 1 : 20000;
        fa_tensor *memory = fa_empty(FA_SHAPE(i < APART && device.type != FA_DEVICE_CPU ? 3 << 20 : n), .device = device);
        p[i] = fa_requires_grad(fa_detach(fa_fill_(fa_narrow(memory, 0, 0, n), fa_scalar_of_float(i + 0.25))), true);
        assert_non_null(p[i]);
    }
}

/* Where kernels see memory through objects a launch has eight: seven of parameters, and one that gradients and states share. */
static void a_step_reaches_memory_of_many_objects(void **state) {
    (void)state;
    if (!on_device()) skip();
    fa_tensor *there[MANY], *host[MANY];
    float a[20000], b[20000];
    make_apart(there, here()), make_apart(host, FA_CPU);
    fa_optimizer *o = fa_adamw_of(there, MANY, .lr = 0.1), *same = fa_adamw_of(host, MANY, .lr = 0.1);
    uint64_t launches = 0;
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < MANY; i++)
            assert_true(fa_set_grad(there[i], fa_full_like(there[i], step - i)) && fa_set_grad(host[i], fa_full_like(host[i], step - i)));
        launches = fa_device_get_counts(here()).launches;
        assert_true(fa_step(o) && fa_step(same));
        launches = fa_device_get_counts(here()).launches - launches;
    }
    assert_int_equal(launches, fai_device_objects(here()) == FA_PLAN_OBJECTS ? 4 : 1);
    for (int i = 0; i < MANY; i++) {
        assert_true(fa_to_data(there[i], a, FA_FLOAT32) && fa_to_data(host[i], b, FA_FLOAT32));
        assert_memory_equal(a, b, (size_t)fa_numel(there[i]) * sizeof *a);
    }
}

static void a_step_like_the_last_allocates_nothing(void **state) {
    (void)state;
    if (on_device()) skip();
    pair x = draw_pair(3, FA_FLOAT32);
    fa_optimizer *o = fa_adamw_of(x.p, 2);
    draw_grads(&x, FA_FLOAT32, 0);
    assert_true(fa_step(o) && fa_step(o));
    const uint64_t calls = fa_host_memory_use().total_calls;
    for (int i = 0; i < 10; i++) assert_true(fa_step(o));
    assert_int_equal(fa_host_memory_use().total_calls, calls);
}

static void no_memory_leaves_all_as_it_was(void **state) {
    (void)state;
    int failures = 0;
    fa_test_caches(false);
    for (uint64_t n = 1; n < 200; n++) {
        FA_SCOPE;
        double before[VALUES], after[VALUES];
        pair x = draw_pair(4, FA_FLOAT32);
        draw_grads(&x, FA_FLOAT32, 0);
        read_pair(&x, before);
        const uint64_t bytes = fa_host_memory_use().bytes;
        fa_test_fail_allocation(n, false);
        {
            FA_SCOPE;
            fa_optimizer *o = fa_adam_of(x.p, 2, .amsgrad = true);
            const bool ok = o && fa_step(o);
            const bool failed = fa_test_failed_allocations() > 0;
            fa_test_fail_allocation(0, false);
            if (!failed) {
                assert_true(ok);
                assert_true(failures > 3);
                fa_test_caches(true);
                return;
            }
            if (!ok) {
                failures++;
                assert_int_equal(fa_error_take().code, FA_ERR_MEMORY);
                read_pair(&x, after);
                assert_memory_equal(before, after, sizeof before);
                if (o) assert_true(fa_step(o)); /* and the same work then succeeds */
            }
        }
        if (!on_device()) assert_int_equal(fa_host_memory_use().bytes, bytes);
    }
    fail_msg("allocations went on failing");
}

/* ---- groups, options, errors ---- */

static void groups_have_options_of_their_own(void **state) {
    (void)state;
    pair x = draw_pair(9, FA_FLOAT64);
    double before[VALUES], after[VALUES];
    fa_optimizer *o = fa_sgd_of(&x.p[0], 1, .lr = 0.5);
    assert_int_equal(fa_add_group(o, &x.p[1], 1), 1);
    assert_int_equal(fa_group_count(o), 2);
    assert_true(fa_set_option(o, 1, "lr", 0) && fa_get_option(o, 1, "lr") == 0 && fa_get_option(o, 0, "lr") == 0.5);
    draw_grads(&x, FA_FLOAT64, 0);
    read_pair(&x, before);
    assert_true(fa_step(o));
    read_pair(&x, after);
    assert_true(before[0] != after[0]);
    assert_memory_equal(before + 12, after + 12, 5 * sizeof(double));
    assert_true(fa_set_option(o, -1, "lr", 0.25) && fa_get_option(o, 0, "lr") == 0.25 && fa_get_option(o, 1, "lr") == 0.25);
    assert_int_equal(fa_add_group(o, &x.p[1], 1), -1);
    assert_error(FA_ERR_VALUE, "some parameters appear in more than one parameter group");
    assert_false(fa_set_option(o, 0, "lr", -1));
    assert_error(FA_ERR_VALUE, "Invalid learning rate: -1");
    assert_false(fa_set_option(o, 0, "eps", 1));
    assert_error(FA_ERR_KEY, "'eps' is no option of SGD, which has lr, momentum, dampening, weight_decay, nesterov, maximize");
    assert_false(fa_set_option(o, 2, "lr", 1));
    assert_error(FA_ERR_INDEX, "group 2 is out of range");
    assert_true(fa_zero_grad(o));
    assert_null(fa_grad(x.p[0]));
    assert_null(fa_grad(x.p[1]));
}

static void options_are_checked(void **state) {
    (void)state;
    fa_tensor *p = fa_zeros(FA_SHAPE(2), .requires_grad = true), *twice[] = {p, p}, *none = NULL;
    assert_null(fa_sgd_of(NULL, 0));
    assert_error(FA_ERR_VALUE, "optimizer got an empty parameter list");
    assert_null(fa_sgd(fa_nn_relu()));
    assert_error(FA_ERR_VALUE, "optimizer got an empty parameter list");
    assert_null(fa_sgd(NULL));
    assert_error(FA_ERR_TYPE, "argument 'module' is NULL");
    assert_null(fa_sgd_of(&none, 1));
    assert_error(FA_ERR_TYPE, "optimizer can only optimize Tensors, but one of the params is NULL");
    fa_tensor *made = fa_mul_scalar(p, 2);
    assert_null(fa_sgd_of(&made, 1));
    assert_error(FA_ERR_VALUE, "can't optimize a non-leaf Tensor");
    assert_null(fa_sgd_of(&p, 1, .lr = -1));
    assert_error(FA_ERR_VALUE, "Invalid learning rate: -1");
    assert_null(fa_sgd_of(&p, 1, .lr = NAN));
    assert_error(FA_ERR_VALUE, "Invalid learning rate: nan");
    assert_null(fa_sgd_of(&p, 1, .momentum = -1));
    assert_error(FA_ERR_VALUE, "Invalid momentum value: -1");
    assert_null(fa_sgd_of(&p, 1, .nesterov = true));
    assert_error(FA_ERR_VALUE, "Nesterov momentum requires a momentum and zero dampening");
    assert_null(fa_sgd_of(&p, 1, .momentum = 0.9, .dampening = 0.1, .nesterov = true));
    assert_error(FA_ERR_VALUE, "Nesterov momentum requires a momentum and zero dampening");
    assert_null(fa_sgd_of(&p, 1, .weight_decay = -1));
    assert_error(FA_ERR_VALUE, "Invalid weight_decay value: -1");
    assert_null(fa_adam_of(&p, 1, .beta1 = 1));
    assert_error(FA_ERR_VALUE, "Invalid beta parameter at index 0: 1.0");
    assert_null(fa_adamw_of(&p, 1, .beta2 = 1.5));
    assert_error(FA_ERR_VALUE, "Invalid beta parameter at index 1: 1.5");
    assert_null(fa_adam_of(&p, 1, .eps = -1));
    assert_error(FA_ERR_VALUE, "Invalid epsilon value: -1");
    fa_optimizer *o = fa_sgd_of(twice, 2, .lr = 1); /* a warning; trained once */
    assert_true(fa_set_grad(p, fa_ones_like(p)) && fa_step(o));
    assert_true(fa_item(fa_sum(p)) == -2);
    assert_null(fa_step_lr(o, 0, 0.1));
    assert_error(FA_ERR_VALUE, "step_size must be a positive number");
    assert_null(fa_step_lr(NULL, 1, 0.1));
    assert_error(FA_ERR_TYPE, "argument 'optimizer' is NULL");
}

static void a_pending_error_stops_the_step(void **state) {
    (void)state;
    fa_tensor *p = fa_zeros(FA_SHAPE(2), .device = here(), .requires_grad = true);
    fa_optimizer *o = fa_sgd_of(&p, 1, .lr = 1);
    assert_true(fa_set_grad(p, fa_ones_like(p)));
    fa_scheduler *s = fa_exponential_lr(o, 0.5);
    fa_error_set(FA_ERR_VALUE, "test", "something before");
    assert_false(fa_step(o));
    assert_false(fa_zero_grad(o));
    assert_false(fa_schedule_step(s));
    assert_false(fa_set_option(o, 0, "lr", 2));
    assert_error(FA_ERR_VALUE, "something before");
    assert_non_null(fa_grad(p));
    assert_true(fa_item(fa_sum(p)) == 0 && fa_last_lr(s) == 1);
    assert_false(fa_step(NULL));
    assert_error(FA_ERR_TYPE, "argument 'optimizer' is NULL");
}

/* ---- state ---- */

static void train_more(fa_optimizer *o, pair *x, int steps) {
    for (int i = 0; i < steps; i++) {
        draw_grads(x, FA_FLOAT32, 0);
        assert_true(fa_step(o));
    }
}

static void go_on_from_a_file(void **state) {
    (void)state;
    char path[] = "/tmp/facula-optim-XXXXXX.safetensors";
    const int file = mkstemps(path, 12);
    assert_true(file >= 0);
    close(file);
    for (size_t k = 0; k < sizeof training_cases / sizeof *training_cases; k++) {
        FA_SCOPE;
        const training_case *c = &training_cases[k];
        double want[VALUES], got[VALUES];
        pair x = draw_pair(c->seed, FA_FLOAT32);
        fa_optimizer *o = make(c, x.p, 2);
        assert_true(fa_set_option(o, 0, "lr", 0.07));
        train_more(o, &x, 3);
        assert_true(fa_save_safetensors(path, fa_optimizer_state(o)));
        pair y = {.s = x.s};
        for (int i = 0; i < 2; i++) y.p[i] = fa_requires_grad(fa_clone(fa_detach(x.p[i])), true);
        fa_optimizer *again = make(c, y.p, 2);
        assert_true(fa_load_optimizer_state(again, fa_load_safetensors(path)));
        assert_true(fa_get_option(again, 0, "lr") == 0.07);
        train_more(o, &x, 4);
        train_more(again, &y, 4);
        read_pair(&x, want);
        read_pair(&y, got);
        assert_memory_equal(want, got, sizeof want);
    }
    unlink(path);
}

static void wrong_states_are_refused(void **state) {
    (void)state;
    pair x = draw_pair(2, FA_FLOAT32);
    fa_optimizer *adam = fa_adam_of(x.p, 2), *sgd = fa_sgd_of(x.p, 2, .momentum = 0.9), *one = fa_adam_of(x.p, 1);
    train_more(adam, &x, 2);
    fa_tensors *all = fa_optimizer_state(adam);
    assert_non_null(fa_tensors_get(all, "0.exp_avg"));
    assert_int_equal(fa_item_int(fa_tensors_get(all, "1.step")), 2);
    assert_false(fa_load_optimizer_state(sgd, all));
    assert_error(FA_ERR_KEY, "\"group.0.momentum\" is missing: the state is not one of SGD");
    assert_false(fa_load_optimizer_state(one, all));
    assert_error(FA_ERR_VALUE, "loaded state dict contains a parameter group that doesn't match the size of optimizer's group");
    assert_true(fa_add_group(one, &x.p[1], 1) == 1);
    fa_tensors *first = fa_tensors_new();
    assert_false(fa_load_optimizer_state(one, first));
    assert_error(FA_ERR_VALUE, "loaded state dict has a different number of parameter groups");
    for (int left_out = 0; left_out < fa_tensors_count(all); left_out++) {
        fa_tensors *part = fa_tensors_new();
        for (int i = 0; i < fa_tensors_count(all); i++)
            if (i != left_out) assert_true(fa_tensors_add(part, fa_tensors_name_at(all, i), fa_tensors_at(all, i)));
        fa_optimizer *fresh = fa_adam_of(x.p, 2);
        assert_false(fa_load_optimizer_state(fresh, part));
        assert_non_null(strstr(fa_error_peek()->text, fa_tensors_name_at(all, left_out)));
        fa_error_take();
    }
    fa_optimizer *other = fa_adam_of(&x.p[1], 1);
    assert_true(fa_add_group(other, &x.p[0], 1) == 1);
    assert_true(fa_tensors_add(all, "7.exp_avg", fa_zeros(FA_SHAPE(1))));
    assert_false(fa_load_optimizer_state(adam, all));
    assert_error(FA_ERR_KEY, "the state holds 1 names that Adam of 2 parameters does not know");
    assert_false(fa_load_optimizer_state(adam, NULL));
    assert_error(FA_ERR_TYPE, "argument 'state' is NULL");
}

static void state_follows_its_parameter(void **state) {
    (void)state;
    if (!on_device()) skip();
    double want[15], got[15];
    for (int moved = 0; moved < 2; moved++) {
        FA_SCOPE;
        fa_manual_seed(0);
        fa_module *net = fa_nn_linear(4, 3);
        fa_optimizer *o = fa_adam(net, .lr = 0.1);
        uint64_t s = 11;
        for (int step = 0; step < 6; step++) {
            FA_SCOPE;
            if (moved && step == 2) assert_true(fa_module_to(net, here()));
            if (moved && step == 4) assert_true(fa_module_to(net, fa_try_accelerator(0)));
            fa_tensor *weight = fa_get_parameter(net, "weight"), *bias = fa_get_parameter(net, "bias");
            assert_true(fa_set_grad(weight, fa_to(draw(&s, FA_SHAPE(3, 4), FA_FLOAT32), fa_device_of(weight))));
            assert_true(fa_set_grad(bias, fa_to(draw(&s, FA_SHAPE(3), FA_FLOAT32), fa_device_of(bias))));
            assert_true(fa_step(o));
        }
        double *out = moved ? got : want;
        assert_true(fa_to_data(fa_get_parameter(net, "weight"), out, FA_FLOAT64));
        assert_true(fa_to_data(fa_get_parameter(net, "bias"), out + 12, FA_FLOAT64));
        fa_tensor *average = fa_tensors_get(fa_optimizer_state(o), "0.exp_avg");
        if (moved) assert_true(fa_device_equal(fa_device_of(average), fa_try_accelerator(0)));
    }
    assert_memory_equal(want, got, sizeof want); /* an element's update gives the same bits everywhere */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(twenty_steps_are_torchs, begin, end),
        cmocka_unit_test_setup_teardown(schedules_are_torchs, begin, end),
        cmocka_unit_test_setup_teardown(a_function_gives_the_rate, begin, end),
        cmocka_unit_test_setup_teardown(clipping_is_torchs, begin, end),
        cmocka_unit_test_setup_teardown(layouts_do_not_matter, begin, end),
        cmocka_unit_test_setup_teardown(launches_do_not_grow, begin, end),
        cmocka_unit_test_setup_teardown(a_step_reaches_memory_of_many_objects, begin, end),
        cmocka_unit_test_setup_teardown(a_step_like_the_last_allocates_nothing, begin, end),
        cmocka_unit_test_setup_teardown(no_memory_leaves_all_as_it_was, begin, end),
        cmocka_unit_test_setup_teardown(groups_have_options_of_their_own, begin, end),
        cmocka_unit_test_setup_teardown(options_are_checked, begin, end),
        cmocka_unit_test_setup_teardown(a_pending_error_stops_the_step, begin, end),
        cmocka_unit_test_setup_teardown(go_on_from_a_file, begin, end),
        cmocka_unit_test_setup_teardown(wrong_states_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(state_follows_its_parameter, begin, end),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fa_finish("test_optim") || failed ? 1 : 0;
}
