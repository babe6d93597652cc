/* What tests of operators share: the device they run on, and checks of values, shapes and errors. Included once by a test. */
#ifndef CHECK_H
#define CHECK_H

#include "autograd/autograd.h"
#include <fa_functional.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static fa_device device; /* where the tests run: the accelerator if there is one */

static int begin(void **state) {
    (void)state;
    device = fa_try_accelerator(0);
    fa_set_grad_enabled(true); /* a test that failed may have left it off */
    fa_scope_open();
    return 0;
}

static int end(void **state) {
    (void)state;
    const bool clean = !fa_failed();
    if (!clean) fprintf(stderr, "%s: %s\n", fa_error_peek()->op, fa_error_peek()->text);
    fa_error_take();
    fa_scope_close();
    return clean ? 0 : -1;
}

/* t has this shape and these elements, in C order. */
__attribute__((unused)) static void check_values(fa_tensor *t, fa_shape shape, const double *expected, int n, int line) {
    double found[256];
    if (!t) fail_msg("line %d: %s", line, fa_error_peek() ? fa_error_peek()->text : "NULL");
    if (fa_ndim(t) != shape.ndim || fa_numel(t) != n)
        fail_msg("line %d: %d dimensions, %d elements", line, fa_ndim(t), (int)fa_numel(t));
    for (int d = 0; d < shape.ndim; d++)
        if (fa_size(t, d) != shape.dim[d]) fail_msg("line %d: size %d of dimension %d", line, (int)fa_size(t, d), d);
    assert_true(fa_to_data(t, found, FA_FLOAT64));
    for (int i = 0; i < n; i++)
        if (!(fabs(found[i] - expected[i]) <= 1e-5 * (1 + fabs(expected[i]))) && !(isnan(found[i]) && isnan(expected[i])) &&
            found[i] != expected[i])
            fail_msg("line %d: element %d is %g, expected %g", line, i, found[i], expected[i]);
}
#define CHECK(t, shape, ...)                                                                                                     \
    check_values((t), (shape), (double[]){__VA_ARGS__}, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), __LINE__)
#define CHECK_EMPTY(t, shape) check_values((t), (shape), NULL, 0, __LINE__)

/* The call failed with this code and a text that begins so. */
__attribute__((unused)) static void check_error(const void *result, fa_code code, const char *text, int line) {
    fa_error e = fa_error_take();
    if (result || e.code != code || strncmp(e.text, text, strlen(text)))
        fail_msg("line %d: code %d, text '%s', expected %d '%s'", line, e.code, e.text, code, text);
}
#define FAILS(call, code, text)       check_error((call), FA_ERR_##code, (text), __LINE__)
#define FAILS_COUNT(call, code, text) check_error((call) == -1 ? NULL : "", FA_ERR_##code, (text), __LINE__)

/* 0, 1, 2, ... in a shape. */
__attribute__((unused)) static fa_tensor *counting(fa_shape shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    return fa_reshape(fa_arange(0, n, 1, .dtype = FA_FLOAT32, .device = device), shape);
}

#endif
