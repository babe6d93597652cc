/* What C programs are told of a device's memory: the report of an out-of-memory error, fa_memory_explain; and that memory is taken only
 * where it is used, printing included. (tests/python/test_memory.py has each claim's near misses.)
 *
 * test-env: FACULA_SIM=cuda:2 FACULA_SIM_MEMORY=64MiB */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <facula.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
static fa_device gpu(void) { return FA_CUDA(0); }

static int begin(void **state)
{
    (void)state;
    fa_scope_open();
    return 0;
}

static int end(void **state)
{
    (void)state;
    const bool clean = fa_error_take().code == FA_OK;
    fa_scope_close();
    return !clean || fa_memory_allocated(gpu()) != 0 || !fa_empty_cache(gpu());
}

/* The text of the error, which must be a lack of device memory. */
static const char *report(void)
{
    static fa_error e;
    e = fa_error_take();
    assert_int_equal(e.code, FA_ERR_DEVICE_MEMORY);
    assert_non_null(strstr(e.text, "CUDA out of memory. Tried to allocate "));
    return e.text;
}

static void expect(const char *text, const char *words)
{
    if (!strstr(text, words)) fail_msg("'%s' is not in: %s", words, text);
}

static void a_list_of_losses(void **state)
{
    (void)state;
    fa_module *net = fa_sequential(fa_nn_linear(64, 64), fa_nn_relu(), fa_nn_linear(64, 64), fa_nn_relu());
    fa_module_to(net, gpu());
    fa_tensor *x = fa_rand(FA_SHAPE(2048, 64), .device = gpu());
    int n = 0;
    for (fa_tensor *loss = x; loss; n += loss != NULL) {
        FA_SCOPE;
        loss = fa_keep(fa_mse_loss(fa_call(net, x), x));
    }
    char words[96];
    const char *text = report();
    snprintf(words, sizeof words, "%d single numbers, results of MseLossBackward0, are kept with their graphs, which hold ", n);
    expect(text, words);
    expect(text, "keep fa_item(loss) instead");
    expect(text, "parameters of Sequential (4, the largest '0.weight' with 16.00 KiB)");
    assert_null(strstr(text, "evaluation mode"));
    const double told = atof(strstr(text, "which hold ") + 11) * (double)MIB;
    const uint64_t before = fa_memory_allocated(gpu());
    fa_scope_close();
    fa_scope_open();
    const double gone = (double)(before - fa_memory_allocated(gpu()));
    assert_true(gone >= told && gone < told + 3 * (double)MIB); /* the rest: what was just being made, x, the parameters */
}

static void a_loop_with_a_scope_needs_no_advice(void **state)
{
    (void)state;
    fa_module *net = fa_nn_linear(64, 64);
    fa_module_to(net, gpu());
    fa_tensor *x = fa_rand(FA_SHAPE(2048, 64), .device = gpu());
    for (int i = 0; i < 200; i++) {
        FA_SCOPE;
        assert_non_null(fa_mse_loss(fa_call(net, x), x));
    }
    assert_null(fa_zeros(FA_SHAPE(70 << 18), .device = gpu()));
    const char *text = report();
    expect(text, "This is more than the whole device has.");
    assert_null(strstr(text, "graphs"));
    assert_null(strstr(text, "scope owns"));
}

static void one_scope_for_a_whole_loop(void **state)
{
    (void)state;
    fa_tensor *x = fa_rand(FA_SHAPE(1 << 17), .device = gpu());
    int n = 0;
    while (n < 1000 && fa_add(x, x)) n++;
    char words[160];
    snprintf(words, sizeof words, "The innermost scope owns %d tensors there, with %.2f MiB, which live until it closes: if they come from a loop, ", n + 1,
             (n + 1) / 2.0);
    expect(report(), words);
}

static void evaluation_that_records(void **state)
{
    (void)state;
    fa_module *net = fa_sequential(fa_nn_linear(64, 64), fa_nn_relu());
    fa_module_to(net, gpu());
    fa_train(net, false);
    fa_tensor *x = fa_rand(FA_SHAPE(2048, 64), .device = gpu());
    for (fa_tensor *y = x; y;) {
        FA_SCOPE;
        y = fa_keep(fa_mean(fa_call(net, x)));
    }
    expect(report(), " Sequential is in evaluation mode, and no backward has run since;");
}

static void memory_comes_back(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        FA_SCOPE;
        fa_tensor *most = fa_empty(FA_SHAPE(40 << 18), .device = gpu());
        assert_non_null(most);
        assert_null(fa_add(most, most));
        report();
        fa_drop(most);
        assert_int_equal(fa_memory_allocated(gpu()), 0);
    }
}

static void memory_is_taken_where_it_is_used(void **state)
{
    (void)state;
    fa_device other = FA_CUDA(1);
    uint64_t free_bytes, total;
    fa_module *net = fa_sequential(fa_nn_linear(64, 64), fa_nn_relu());
    fa_module_to(net, other);
    fa_tensor *x = fa_rand(FA_SHAPE(32, 64), .device = other);
    fa_optimizer *opt = fa_adam(net, .lr = 0.1);
    fa_backward(fa_sum(fa_call(net, fa_cat((fa_tensor *[]){x, x}, 2, 0))));
    fa_step(opt);
    fa_item(fa_sum(x));
    assert_true(fa_memory_reserved(other) > 0);
    assert_int_equal(fa_max_memory_reserved(gpu()), 0);
    assert_true(fa_memory_info(gpu(), &free_bytes, &total));
    assert_int_equal(free_bytes, total);
    assert_int_equal(fa_device_get_counts(gpu()).launches + fa_device_get_counts(gpu()).copies_to_device, 0);
}

static void printing_copies_the_edges(void **state)
{
    (void)state;
    fa_tensor *x = fa_zeros(FA_SHAPE(2048, 2048), .device = gpu());
    char text[4096];
    fa_reset_peak_memory_stats(gpu());
    const fa_device_counts before = fa_device_get_counts(gpu());
    assert_true(fa_to_text(x, text, sizeof text) > 0);
    const fa_device_counts after = fa_device_get_counts(gpu());
    assert_int_equal(after.copies_to_host - before.copies_to_host, 4); /* one for each corner of 3 x 3 */
    assert_true(fa_max_memory_allocated(gpu()) - fa_memory_allocated(gpu()) <= 4 * 512);
}

static void where_memory_is_in_words(void **state)
{
    (void)state;
    char text[2048];
    fa_test_caches(true); /* off at start under a sanitizer */
    fa_tensor *x = fa_zeros(FA_SHAPE(3 << 18), .device = gpu()), *gone = fa_zeros(FA_SHAPE(30 << 18), .device = gpu());
    fa_drop(gone);
    assert_non_null(x);
    const size_t n = fa_memory_explain(gpu(), text, sizeof text);
    assert_int_equal(n, strlen(text));
    expect(text, "cuda:0, Facula simulated GPU 0: 64.00 MiB in all\n");
    expect(text, "live     3.00 MiB in 1 buffers of tensors that live: 3.00 MiB made by 'zeros'\n");
    expect(text, "cached   47.00 MiB that tensors gave back and the next ones will get; fa_empty_cache gives 30.00 MiB of it to the driver, "
                 "17.00 MiB lie between live buffers\n");
    expect(text, "context  0 bytes that");
    expect(text, "free     14.00 MiB\n");
    expect(text, "live + cached + context: 50.00 MiB.");
    fa_empty_cache(gpu()); /* and what was said is true */
    assert_int_equal(fa_memory_reserved(gpu()), 20 * MIB);
    assert_int_equal(fa_memory_explain(fa_device_of_type(FA_DEVICE_CUDA, 7), text, sizeof text), 0);
    assert_int_equal(fa_error_take().code, FA_ERR_DEVICE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(memory_is_taken_where_it_is_used), /* first: nothing was done on cuda:0 yet */
        TEST(a_list_of_losses), TEST(one_scope_for_a_whole_loop), TEST(a_loop_with_a_scope_needs_no_advice), TEST(evaluation_that_records), TEST(memory_comes_back),
        TEST(printing_copies_the_edges), TEST(where_memory_is_in_words),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fa_test_caches(false); /* gives all back */
    return failed;
}
