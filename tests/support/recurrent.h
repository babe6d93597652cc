/* What the tests of recurrent networks and transformers share: numbers drawn as the golden script draws them, comparison with its
 * results. Included after a golden header that has golden_values and golden_places. */
#include <facula.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static inline fa_device device(void) { return fa_try_accelerator(0); }
static inline bool on_device(void) { return device().type != FA_DEVICE_CPU; }

static inline void no_error(const char *name) {
    if (fa_failed()) fail_msg("%s: %s: %s", name, fa_error_peek()->op, fa_error_peek()->text);
}

/* A leaf of numbers in [0, 1), drawn on the CPU in float32. */
static inline fa_tensor *draw(fa_shape shape) {
    return fa_requires_grad(fa_to(fa_cast(fa_rand(shape), FA_FLOAT64), device()), true);
}

static inline fa_module *ready(fa_module *net) {
    fa_module_to_dtype(net, FA_FLOAT64);
    fa_module_to(net, device());
    no_error("making the network");
    return net;
}

static inline void matches(const char *name, const char *what, int number, fa_tensor *t) {
    char full[96], digits[12] = "";
    if (number >= 0) snprintf(digits, sizeof digits, "%d", number);
    snprintf(full, sizeof full, "%s %s%s", name, what, digits);
    no_error(full);
    if (!t) fail_msg("%s: no result", full);
    const struct golden_place *place = NULL;
    for (size_t i = 0; i < sizeof golden_places / sizeof *golden_places; i++)
        if (strcmp(golden_places[i].name, full) == 0) place = &golden_places[i];
    if (!place) fail_msg("%s is not in the file", full);
    const int64_t n = fa_numel(t), step = n / 7 > 1 ? n / 7 : 1;
    double *values = malloc(sizeof(double) * (size_t)(n + 1)), sum = 0, size = 1e-30;
    assert_true(fa_to_data(t, values, FA_FLOAT64));
    for (int64_t i = 0; i < n; i++) sum += values[i], size += fabs(values[i]);
    const double *expected = golden_values + place->at;
    if (!(fabs(sum - expected[0]) <= 1e-11 * size + 1e-13))
        fail_msg("%s: the sum is %.15g, expected %.15g", full, sum, expected[0]);
    assert_int_equal((n + step - 1) / step, place->n - 1);
    for (int64_t i = 0; i * step < n; i++)
        if (!(fabs(values[i * step] - expected[i + 1]) <= 1e-11 * fmax(1, fabs(expected[i + 1]))))
            fail_msg("%s[%lld] is %.15g, expected %.15g", full, (long long)(i * step), values[i * step], expected[i + 1]);
    free(values);
}

/* sum of t times sin(1), sin(2), ... */
static inline fa_tensor *weighted(fa_tensor *t) {
    fa_tensor *w = fa_sin(fa_arange(1.0, (double)fa_numel(t) + 1, 1.0, .dtype = FA_FLOAT64, .device = device()));
    return fa_sum(fa_mul(t, fa_reshape(w, fa_shape_of_tensor(t))));
}

/* First derivatives towards inputs and parameters; derivatives of the squares of those towards the inputs. */
static inline void derivatives(const char *name, fa_tensor *loss, fa_module *net, fa_tensor *const *inputs, int ninputs,
                               bool twice) {
    fa_tensor *towards[96], *grads[96] = {NULL}, *second[96] = {NULL}, *square = NULL;
    for (int i = 0; i < ninputs; i++) towards[i] = inputs[i];
    const int n = ninputs + fa_parameters(net, towards + ninputs, NULL, 96 - ninputs);
    assert_true(n <= 96);
    no_error(name);
    /* the fused derivatives and those that can be differentiated again are the same */
    for (int graph = 0; graph < 2; graph++) {
        fa_grad_of(&loss, 1, towards, n, grads, .create_graph = graph == 1, .retain_graph = true);
        for (int i = 0; i < n; i++) matches(name, "d", i, grads[i]);
        if (!twice || ninputs == 0) return;
    }
    for (int i = 0; i < ninputs; i++) {
        fa_tensor *part = fa_sum(fa_mul(grads[i], grads[i]));
        square = square ? fa_add(square, part) : part;
    }
    fa_grad_of(&square, 1, towards, n, second, .allow_unused = true);
    no_error(name);
    for (int i = 0; i < n; i++)
        if (second[i]) matches(name, "h", i, second[i]);
}

static inline void holds(fa_tensor *t, int n, const double *expected) {
    double values[64];
    no_error("values");
    assert_int_equal(fa_numel(t), n);
    assert_true(fa_to_data(t, values, FA_FLOAT64));
    for (int i = 0; i < n; i++)
        if (values[i] != expected[i]) fail_msg("[%d] is %g, expected %g", i, values[i], expected[i]);
}

static inline int64_t fa_int_item(fa_tensor *t, int64_t i) {
    int64_t values[16];
    assert_true(fa_numel(t) <= 16 && fa_to_data(t, values, FA_INT64));
    return values[i];
}

static inline void prints_as(fa_module *m, const char *wanted) {
    static char text[8000];
    fa_module_to_text(m, text, sizeof text);
    no_error("printing");
    assert_string_equal(text, wanted);
}

/* No result, and an error that begins so. */
static inline void refuses(const void *result, fa_code code, const char *begins) {
    assert_null(result);
    const fa_error e = fa_error_take();
    if (e.code != code || strncmp(e.text, begins, strlen(begins)) != 0)
        fail_msg("the error is %s: %s: %s; expected: %s", fa_code_name(e.code), e.op, e.text, begins);
}
