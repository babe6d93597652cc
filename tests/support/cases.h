/* The table of src/selftest/cases.h for tests in float64, and what draws its inputs. Included once by a test. */
#ifndef CASES_H
#define CASES_H

#include "check.h"
#include "selftest/selftest.h"

enum { MAX_INPUTS = FAI_CASE_INPUTS };

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

static fa_tensor *run_case(int number, fa_tensor **x) { return fai_case_run(number, x, device, FA_FLOAT64); }

static bool is_case(int number) { return fai_cases[number].op && fai_cases[number].kind == FAI_CASE; }

static int parse_inputs(const char *text, input *inputs) {
    fai_case_input found[FAI_CASE_INPUTS];
    const int n = fai_case_inputs(text, found);
    for (int i = 0; i < n; i++) inputs[i] = (input){found[i].shape, found[i].low, found[i].high, found[i].keeps_layout, false};
    return n;
}

#endif
