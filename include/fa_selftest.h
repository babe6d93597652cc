/* Is this device right? Every operator on a device against the CPU: what `facula selftest` runs, for the author of a plug-in and
 * for a test of one's own. */
#ifndef FA_SELFTEST_H
#define FA_SELFTEST_H

#include "fa_device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_selftest_failure {
    const char *op, *family; /* "softmax" of the "networks" */
    fa_dtype dtype;          /* of the inputs */
    const char *layout;      /* of the inputs in memory: "contiguous", "transposed", "sliced", "broadcast" */
    const char *inputs;      /* their shapes and the range of their values: "3x4:0.1:2 4" */
    bool backward;           /* a gradient is wrong, not the result */
    double ulp, allowed;     /* largest difference in units of the last place, and how large it may be; NAN: no number is there */
    const char *text;        /* the whole as a sentence */
} fa_selftest_failure;

typedef struct fa_selftest_result {
    int operators;         /* that were looked at */
    int failed;            /* of these, operators with at least one wrong result */
    int absent;            /* of these, operators that the device does not have and says so */
    int64_t checks, wrong; /* results and gradients that were compared; of these, wrong ones */
} fa_selftest_result;

typedef struct fa_selftest_options {
    size_t struct_size;
    const char *op;                                                     /* only this operator, as "softmax"; NULL: all */
    void (*line)(void *context, const char *text);                      /* gets the report line by line; NULL: it goes nowhere */
    void (*failure)(void *context, const fa_selftest_failure *first);  /* the first one of each operator; may be NULL */
    void *context;
} fa_selftest_options;

/* Runs every operator of the tables, forward and backward, in every element type and over several layouts, on the device and
 * on the CPU, and compares: units of the last place, against the largest element. Then random numbers (the same by seed, of the right
 * moments) and the rules of optimizers. Takes seconds. The seed of the default generators is another one afterwards.
 * True if nothing is wrong. False and an error: the device is not there, or there is no such operator. result: may be NULL. */
FA_API bool fa_selftest_with(fa_device device, fa_selftest_result *result, const fa_selftest_options *options);
#ifndef __cplusplus
#define fa_selftest(device, result, ...) \
    fa_selftest_with((device), (result), &(fa_selftest_options){.struct_size = sizeof(fa_selftest_options), __VA_ARGS__})
#endif

#ifdef __cplusplus
}
#endif
#endif
