/* Calls every operator of the tables by name, with the arguments and inputs that a case of the golden file describes. The calls
 * themselves are generated: a new row is called without a line of C. */
#ifndef CALLS_H
#define CALLS_H

#include "golden.h"

/* What the generated calls get: arguments by the position that the row gives them. */
typedef struct golden_arg {
    bool given;
    fa_tensor *tensor, **out;
    fa_tensor *const *list;
    int nlist;
    int64_t i;
    double f;
    fa_scalar scalar;
    fa_shape shape;
    fa_factors factors; /* one, from a float */
    fa_dtype dtype;
    fa_device device;
    const char *text;
} golden_arg;

typedef struct golden_call {
    const char *name;
    int nargs;
    const char *args[GOLDEN_MAX_ARGS];
    fa_tensor *(*call)(const golden_arg *a);
} golden_call;

const golden_call *golden_find_call(const char *name); /* NULL: no such operator in the tables */
int golden_call_count(void);
const golden_call *golden_call_at(int i);

/* Input number index of a case, laid out as the README of tests/golden/ tells; NULL, with an error if one is pending. */
fa_tensor *golden_input(const golden_case *c, int index, fa_dtype type, char layout, fa_device device);
/* Calls it on the inputs; second: where a second result goes. NULL without an error: argument names are not those of the row. */
fa_tensor *golden_run(const golden_case *c, const golden_call *call, fa_dtype type, fa_device device, fa_tensor *const *inputs,
                      fa_tensor **second);
/* Random weights as the file's derivatives have them, of the shape and type of a tensor. */
fa_tensor *golden_weights(const golden_case *c, fa_tensor *of, uint64_t seed);
/* Whether the operator has an in-place form that can take the place of the case's call in its i-th type; its name. */
bool golden_in_place(const golden_case *c, int type, char name[64]);

#endif
