/* The table of support/gradient_cases.h as a function and a list, and what draws its inputs. Included once by a test. */
#ifndef CASES_H
#define CASES_H

#include "check.h"

enum { MAX_INPUTS = 4 };

typedef struct input {
    fa_shape shape;
    double low, high;
    bool keeps_layout, is_bool;
} input;

static uint64_t seed;
static double uniform(double low, double high) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(seed >> 11) / 9007199254740992.0;
}

static fa_tensor *class_weights(void) {
    static const double values[] = {0.5, 1, 2, 1.5};
    return fa_to(fa_from_data(values, FA_FLOAT64, FA_SHAPE(4)), device);
}
static fa_tensor *ones(fa_shape shape) { return fa_ones(shape, .dtype = FA_FLOAT64, .device = device); }
static fa_tensor *statistics(int which) {
    const double values[2][3] = {{0.1, -0.2, 0.3}, {0.8, 1.2, 0.5}};
    return fa_to(fa_from_data(values[which], FA_FLOAT64, FA_SHAPE(3)), device);
}

/* The two readings of the list count in the same order: numbers of cases are places in the table. */
enum { BASE = __COUNTER__ + 1 };
#define CASE(op, call, inputs)                                                                                                   \
    case __COUNTER__ - BASE: return call;
static fa_tensor *run_case(int number, fa_tensor **x) {
    fa_tensor *a = x[0], *b = x[1], *c = x[2], *d = x[3];
    switch (number) {
#include "gradient_cases.h"
    }
    return NULL;
}
#undef CASE
#define CASE(op, call, inputs) {#op, #call, inputs},
static const struct {
    const char *op, *text, *inputs;
} cases[] = {
#include "gradient_cases.h"
};
enum { CASES = sizeof cases / sizeof *cases };

/* "2x3:0:1 4! ." */
static int parse_inputs(const char *text, input *inputs) {
    int n = 0;
    while (*text) {
        input *in = &inputs[n++];
        *in = (input){.low = -2, .high = 2};
        char *end;
        while (*text >= '0' && *text <= '9') {
            in->shape.dim[in->shape.ndim++] = strtol(text, &end, 10);
            text = end + (*end == 'x');
        }
        if (*text == '.') text++;
        if (*text == ':') {
            in->low = strtod(text + 1, &end);
            in->high = strtod(end + 1, &end);
            text = end;
        }
        if (*text == '!') in->keeps_layout = true, text++;
        while (*text == ' ') text++;
    }
    return n;
}

#endif
