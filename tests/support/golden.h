/* Reads tests/golden/<room>.golden.gz, what PyTorch computed: all rooms one after the other. tests/golden/README.md tells the
 * format. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <fa_autograd.h>
#include <glob.h>

#define GOLDEN_FILES "tests/golden/*.golden.gz"

enum { GOLDEN_MAX_TYPES = 12, GOLDEN_MAX_ARGS = 16, GOLDEN_MAX_TENSORS = 16, GOLDEN_MAX_OUT = 4 };

/* A tensor argument: its values are drawn by the generator below, or given. */
typedef struct golden_tensor {
    bool null;
    fa_dtype dtype;      /* FA_DTYPE_DEFAULT: that of the case */
    fa_shape shape;
    char kind;           /* u, g, i, p: drawn; v: given */
    double low, high;
    uint64_t seed;
    double *values;
    int64_t nvalues;
} golden_tensor;

typedef struct golden_spec {
    char name[32];
    char kind;           /* T tensor, L list, N null, O second result, I, F, B, S shape, V number, D dtype, X text */
    int first, n;        /* tensors of the case that belong to it */
    int64_t i;
    double f;
    fa_scalar scalar;
    fa_shape shape;
    fa_dtype dtype;
    char text[24];
} golden_spec;

typedef struct golden_values {
    int at;              /* results: their number; derivatives: the tensor; changes: the argument */
    fa_shape shape;
    double *values;
    int64_t n;
} golden_values;

typedef struct golden_case {
    char op[48], layouts[16];
    int line, ntypes, nargs, ntensors, nout, nchanges, nfirst, nsecond;
    fa_dtype types[GOLDEN_MAX_TYPES], results[GOLDEN_MAX_TYPES][GOLDEN_MAX_OUT];
    golden_spec args[GOLDEN_MAX_ARGS];
    golden_tensor tensors[GOLDEN_MAX_TENSORS];
    double ulp, near;
    bool bits, seeded, refused;
    uint64_t seed;
    golden_values out[GOLDEN_MAX_OUT], changes[GOLDEN_MAX_OUT], first[GOLDEN_MAX_TENSORS], second[GOLDEN_MAX_TENSORS];
    char gkind;          /* weights of the results in the sums whose derivatives are given */
    double glow, ghigh;
    uint64_t gseed;
} golden_case;

/* path and line: where the case that was read last stands. */
typedef struct golden_file {
    const char *path;
    int line;
    bool damaged;
    char *text, *at;
    glob_t all;
    size_t next;
} golden_file;

/* The files that a pattern names; false if there is none. */
bool golden_open(golden_file *file, const char *pattern);
/* The next case; false at the end, or at a line or file that can't be read: then damaged is set. */
bool golden_next(golden_file *file, golden_case *c);
void golden_free(golden_case *c);
void golden_close(golden_file *file);

/* n values as make_ops.py draws them: 0 on success, else -1 for a kind that is unknown. */
int golden_draw(char kind, double low, double high, uint64_t seed, int64_t n, double *out);
int64_t golden_numel(fa_shape shape);

#endif
