/* Several threads at once, for the thread sanitizer: each trains its own network on the CPU, on a device of its own and on one
 * that they share; all read the same inputs; allocator, queue, generators and the pool serve all of them. What every thread
 * computes is what one alone computes.
 *
 * test-env: -
 * test-env: FACULA_SIM=cuda:2
 * test-tags: threads */
#include <facula.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, STEPS = 6, VALUES = 64 };

static fa_tensor *shared_x[3], *shared_y[3]; /* on the CPU, cuda:0, cuda:1: only read */
static fa_device devices[3];
static int ndevices;

typedef struct job {
    int device;
    double loss;
    char text[400];
} job;

/* A network of the thread's own, made from numbers that need no generator. Inputs lie in everybody's memory: a tensor belongs to
 * one thread, its memory to all, so that each thread takes a view of its own. */
static double train(int k) {
    FA_SCOPE;
    const fa_device on = devices[k];
    double start[VALUES];
    for (int i = 0; i < VALUES; i++) start[i] = (double)(i * 37 % 64) / 64 - 0.5;
    fa_tensor *w = fa_requires_grad(fa_from_data(start, FA_FLOAT64, FA_SHAPE(8, 8), .dtype = FA_FLOAT32, .device = on), true);
    fa_tensor *v = fa_requires_grad(fa_from_data(start, FA_FLOAT64, FA_SHAPE(4, 8), .dtype = FA_FLOAT32, .device = on), true);
    fa_tensor *parameters[] = {w, v}, *x = fa_detach(shared_x[k]), *y = fa_detach(shared_y[k]);
    fa_optimizer *optimizer = fa_adamw_of(parameters, 2, .lr = 1e-2);
    double loss_now = 0;
    for (int step = 0; step < STEPS; step++) {
        FA_SCOPE;
        fa_tensor *hidden = fa_gelu(fa_linear(x, w, NULL));
        fa_tensor *loss = fa_cross_entropy(fa_linear(hidden, v, NULL), y);
        fa_tensor *penalty = fa_mean(fa_mul(fa_select(w, 0, step % 8), fa_select(w, 0, 1)));
        fa_zero_grad(optimizer);
        fa_backward(fa_add(loss, penalty));
        fa_step(optimizer);
        loss_now = fa_item(loss);
    }
    return loss_now;
}

static void *run_job(void *argument) {
    job *j = argument;
    j->loss = train(j->device);
    const fa_error e = fa_error_take();
    snprintf(j->text, sizeof j->text, "%.390s", e.code ? e.text : "");
    return NULL;
}

static void each_trains_its_own(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        pthread_t thread[THREADS * 2];
        job jobs[THREADS * 2];
        double alone[3];
        for (int k = 0; k < ndevices; k++) alone[k] = train(k);
        assert_false(fa_failed());
        for (int i = 0; i < THREADS * 2; i++) {
            jobs[i] = (job){.device = i % ndevices};
            assert_int_equal(pthread_create(&thread[i], NULL, run_job, &jobs[i]), 0);
        }
        for (int i = 0; i < THREADS * 2; i++) pthread_join(thread[i], NULL);
        for (int i = 0; i < THREADS * 2; i++) {
            if (jobs[i].text[0]) fail_msg("thread %d: %s", i, jobs[i].text);
            assert_true(jobs[i].loss == alone[jobs[i].device]);
        }
    }
}

/* Large operations: the pool is asked by all at once, and serves one. */
static void *large(void *argument) {
    FA_SCOPE;
    double *sum = argument;
    fa_tensor *x = fa_arange(0, 300000, 1, .dtype = FA_FLOAT32);
    *sum = fa_item(fa_sum(fa_mul_scalar(fa_remainder_scalar(x, FA_NUM(7)), FA_NUM(2))));
    fa_tensor *m = fa_reshape(fa_narrow(x, 0, 0, 65536), FA_SHAPE(256, 256));
    *sum += fa_item(fa_amax(fa_matmul(m, fa_t(m))));
    return NULL;
}

static void the_pool_serves_all(void **state) {
    (void)state;
    pthread_t thread[THREADS];
    double sums[THREADS], alone;
    fa_set_num_threads(3);
    large(&alone);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, large, &sums[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) assert_true(sums[i] == alone);
}

/* Default generators are everybody's; who draws first is open, that nothing is drawn twice is not. */
static void *draw(void *argument) {
    FA_SCOPE;
    fa_tensor *r = fa_rand(FA_SHAPE(100), .device = devices[ndevices - 1]);
    return fa_to_data(r, argument, FA_FLOAT32) ? argument : NULL;
}

static void generators_are_shared(void **state) {
    (void)state;
    pthread_t thread[THREADS];
    float drawn[THREADS][100];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, draw, drawn[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *right;
        pthread_join(thread[i], &right);
        assert_non_null(right);
    }
    for (int i = 1; i < THREADS; i++) assert_memory_not_equal(drawn[0], drawn[i], sizeof drawn[0]);
}

/* An error belongs to the thread that made it. */
static void *make_mistake(void *argument) {
    FA_SCOPE;
    fa_tensor *r = fa_add(fa_ones(FA_SHAPE(2)), fa_ones(FA_SHAPE(3)));
    return !r && fa_error_take().code == FA_ERR_RUNTIME ? argument : NULL;
}

static void errors_are_the_threads_own(void **state) {
    (void)state;
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, make_mistake, &thread), 0);
    for (int i = 0; i < THREADS; i++) {
        void *right;
        pthread_join(thread[i], &right);
        assert_non_null(right);
    }
    assert_false(fa_failed());
}

static int prepare(void **state) {
    (void)state;
    fa_manual_seed(1);
    fa_tensor *x = fa_randn(FA_SHAPE(16, 8)), *y = fa_randint(0, 4, FA_SHAPE(16));
    devices[ndevices++] = FA_CPU;
    for (int i = 0; i < 2 && i < fa_device_count(FA_DEVICE_CUDA); i++) devices[ndevices++] = FA_CUDA(i);
    for (int k = 0; k < ndevices; k++) shared_x[k] = fa_to(x, devices[k]), shared_y[k] = fa_to(y, devices[k]);
    return fa_failed() ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_trains_its_own), cmocka_unit_test(the_pool_serves_all),
                                       cmocka_unit_test(generators_are_shared), cmocka_unit_test(errors_are_the_threads_own)};
    return cmocka_run_group_tests(tests, prepare, NULL) ? 1 : fa_finish("test_threads");
}
