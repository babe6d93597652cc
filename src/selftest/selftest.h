/* Floor 5: the device against the CPU. A table of calls (cases.h and what it includes) is read here and by tests of
 * derivatives. */
#ifndef FAI_SELFTEST_H
#define FAI_SELFTEST_H

#include "../autograd/autograd.h"
#include <fa_selftest.h>

/* ---- cases.c ---- */
enum { FAI_CASE_INPUTS = 4 };
enum { FAI_CASE, FAI_CASE_FIXED, FAI_CASE_LARGE, FAI_CASE_FAMILY }; /* fixed: nothing to derive; large: too much for quotients */
typedef struct fai_case {
    const char *op;     /* NULL: a new family begins, whose name is text */
    const char *text;   /* the call */
    const char *inputs; /* "3x4:0:1 4! .": what fai_case_inputs reads */
    int kind;
} fai_case;
typedef struct fai_case_input {
    fa_shape shape;
    double low, high;
    bool keeps_layout;
} fai_case_input;
const fai_case *fai_case_list(void);
#define fai_cases fai_case_list()
extern const int fai_case_count;
fa_tensor *fai_case_run(int number, fa_tensor *const x[FAI_CASE_INPUTS], fa_device device, fa_dtype dtype);
int fai_case_inputs(const char *text, fai_case_input inputs[FAI_CASE_INPUTS]); /* returns how many */

/* ---- compare.c ---- */
typedef struct fai_difference { double ulp, allowed, found, expected; int64_t at; } fai_difference;
/* Both are read into the host's memory. False and an error if they can't be; else whether they are as near as they have to be.
 * sums: elements are made of several others. */
bool fai_compare(fa_tensor *found, fa_tensor *expected, bool sums, bool gradient, bool *near, fai_difference *out);

/* ---- more.c: what is no operator of the tables: each computes on a device and gives a tensor to be compared ---- */
typedef struct fai_more { const char *family, *name; fa_tensor *(*run)(fa_device device, fa_dtype dtype); } fai_more;
extern const fai_more fai_mores[];
extern const int fai_more_count;

#endif
