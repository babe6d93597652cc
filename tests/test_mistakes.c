/* Mistakes with devices: which tensor is where, and by what name errors call it: given, or learned when a module registered it. */
/* test-env: FACULA_SIM=cuda:2 */
#include "support/check.h"
#include "support/refused.h"
#include <facula.h>

static void names(void **state) {
    (void)state;
    char text[300];
    fa_tensor *x = fa_ones(FA_SHAPE(2));
    assert_int_equal(fa_tensor_name(x, text, sizeof text), 0);
    assert_true(fa_tensor_set_name(x, "tokens"));
    assert_int_equal(fa_tensor_name(x, text, sizeof text), 6);
    assert_string_equal(text, "tokens");
    assert_int_equal(fa_tensor_name(x, text, 4), 6); /* as snprintf */
    assert_string_equal(text, "tok");
    assert_true(fa_tensor_set_name(x, NULL));
    assert_int_equal(fa_tensor_name(x, text, sizeof text), 0);
    char longer[400];
    memset(longer, 'a', sizeof longer - 1), longer[sizeof longer - 1] = 0;
    REFUSED(fa_tensor_set_name(x, longer) ? x : NULL, VALUE, "a tensor's name is at most 255 bytes long, but this one has 399");
}

/* Paths: from the root down; a module that goes takes its part of the path with it; shared tensors keep their first owner. */
static void paths(void **state) {
    (void)state;
    char text[300];
    fa_module *inner = fa_nn_linear(2, 3), *net = fa_sequential(fa_nn_relu(), fa_sequential(inner));
    fa_tensor *weight = fa_get_parameter(inner, "weight");
    fa_tensor_name(weight, text, sizeof text);
    assert_string_equal(text, "Sequential.1.0 (Linear), its parameter weight");
    fa_module *other = fa_sequential(inner); /* a second owner */
    fa_tensor_name(weight, text, sizeof text);
    assert_string_equal(text, "Sequential.1.0 (Linear), its parameter weight");
    fa_drop(other);
    fa_tensor_name(weight, text, sizeof text);
    assert_string_equal(text, "Sequential.1.0 (Linear), its parameter weight");
    fa_drop(net);
    fa_tensor_name(weight, text, sizeof text);
    assert_string_equal(text, "Sequential.0 (Linear), its parameter weight");
    fa_module *norm = fa_nn_batch_norm1d(2);
    fa_tensor_name(fa_get_parameter(norm, "running_mean"), text, sizeof text);
    assert_string_equal(text, "BatchNorm1d (BatchNorm1d), its buffer running_mean");
}

static void tells(const char *part, int line) {
    const fa_error *error = fa_error_peek();
    if (!error || !strstr(error->text, part)) fail_msg("line %d: the error does not say '%s': %s", line, part, error ? error->text : "no error");
}
#define TELLS(part) tells(part, __LINE__)

static void messages(void **state) {
    (void)state;
    const fa_device cuda = FA_CUDA(0);
    fa_module *net = fa_sequential(fa_nn_linear(3, 1));
    fa_module_to(net, cuda);
    fa_tensor *x = fa_ones(FA_SHAPE(2, 3));
    fa_tensor_set_name(x, "batch");
    assert_null(fa_call(net, x));
    TELLS("\n  input is a float32 tensor of shape [2, 3] on cpu: batch\n");
    TELLS("\n  weight is a float32 tensor of shape [1, 3] on cuda:0: Sequential.0 (Linear), its parameter weight\n");
    TELLS("\nMend it: input = fa_to(input, fa_device_parse(\"cuda:0\")).");
    fa_error_take();
    fa_module_to(net, FA_CPU);
    assert_null(fa_call(net, fa_to(x, cuda)));
    TELLS("but got weight is on cpu");
    TELLS("Mend it: move the whole module, fa_module_to(module, fa_device_parse(\"cuda:0\")).");
    fa_error_take();
    fa_tensor *image = watch(fa_ones(FA_SHAPE(1, 1, 4, 4))), *kernel = fa_ones(FA_SHAPE(1, 1, 3, 3), .device = cuda);
    REFUSED(fa_conv2d(image, kernel), RUNTIME, "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a "
                                               "MKLDNN tensor and weight is a dense tensor. Expected all tensors to be on the same device, but got x is on cpu");
    REFUSED(fa_conv2d(fa_to(image, cuda), fa_cpu(kernel)), RUNTIME,
            "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same. Expected all tensors to be on the same device, but got weight");
    fa_module *lstm = fa_nn_lstm(3, 4);
    fa_module_to(lstm, cuda);
    REFUSED(fa_call(lstm, x), RUNTIME,
            "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at cuda:0. Expected all tensors to be on the same device.");
}

static char told[400];
static int times;
static void tell(const char *op, const char *text) {
    (void)op;
    snprintf(told, sizeof told, "%s", text);
    times++;
}

/* Devices that are chosen after they were opened: told once. */
static void chosen_late(void **state) {
    (void)state;
    const char *was = getenv("CUDA_VISIBLE_DEVICES");
    char before[200];
    snprintf(before, sizeof before, "%s", was ? was : "");
    const int count = fa_device_count(FA_DEVICE_CUDA);
    fai_set_warn(tell);
    assert_int_equal(fa_device_count(FA_DEVICE_CUDA), count);
    assert_int_equal(times, 0);
    setenv("CUDA_VISIBLE_DEVICES", "1,0,1", 1);
    for (int i = 0; i < 3; i++) assert_int_equal(fa_device_count(FA_DEVICE_CUDA), count);
    fai_set_warn(NULL);
    if (was) setenv("CUDA_VISIBLE_DEVICES", before, 1);
    else unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(times, 1);
    assert_non_null(strstr(told, "CUDA_VISIBLE_DEVICES was changed to '1,0,1' after the devices had been opened with '"));
    assert_non_null(strstr(told, "': it is read once, at the first use of a device. Set it before that, best before the program starts."));
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin_watching, end)
static int begin_watching(void **state) {
    unwatch();
    return begin(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {T(names), T(paths), T(messages), T(chosen_late)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
