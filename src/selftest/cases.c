/* The table of cases.h, as a list and as a function: both readings count alike, so that a case's number is its place. */
#include "selftest.h"
#include <facula.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static fa_tensor *numbers(const double *values, int64_t n, fa_device device, fa_dtype dtype) {
    return fai_constant(fa_cast(fa_from_data(values, FA_FLOAT64, FA_SHAPE(n), .device = FA_CPU), dtype), device);
}

static fa_tensor *weights(fa_device device, fa_dtype dtype) {
    static const double values[] = {0.5, 1, 2, 1.5};
    return numbers(values, 4, device, dtype);
}

static fa_tensor *moments(int which, fa_device device, fa_dtype dtype) {
    static const double values[2][3] = {{0.1, -0.2, 0.3}, {0.8, 1.2, 0.5}};
    return numbers(values[which], 3, device, dtype);
}

#define class_weights()   weights(device, dtype)
#define statistics(which) moments(which, device, dtype)
#define ones(size)        fa_ones(size, .dtype = dtype, .device = device)

enum { BASE = __COUNTER__ + 1 };
#define NEXT                    __COUNTER__ - BASE
#define CASE(op, call, inputs)  case NEXT: return call;
#define FIXED(op, call, inputs) case NEXT: return call;
#define LARGE(op, call, inputs) case NEXT: return call;
#define FAMILY(name)            case NEXT: return NULL;
fa_tensor *fai_case_run(int number, fa_tensor *const x[FAI_CASE_INPUTS], fa_device device, fa_dtype dtype) {
    fa_tensor *a = x[0], *b = x[1], *c = x[2], *d = x[3];
    switch (number) {
#include "cases.h"
    }
    return NULL;
}
#undef CASE
#undef FIXED
#undef LARGE
#undef FAMILY

/* One text without pointers into it, which a library that is loaded would have to mend: kind, operator, call, inputs. */
#define CASE(op, call, inputs)  "0" #op "\0" #call "\0" inputs "\0"
#define FIXED(op, call, inputs) "1" #op "\0" #call "\0" inputs "\0"
#define LARGE(op, call, inputs) "2" #op "\0" #call "\0" inputs "\0"
#define FAMILY(name)            "3\0" name "\0\0"
static const char all[] =
#include "cases.h"
    ;
enum { END = __COUNTER__ };
const int fai_case_count = END - BASE;
static fai_case list[END - BASE];

static void read_all(void) {
    const char *at = all;
    for (int i = 0; i < fai_case_count; i++) {
        list[i].kind = *at - '0';
        list[i].op = *at == '3' ? NULL : at + 1;
        list[i].text = at += strlen(at) + 1;
        list[i].inputs = at += strlen(at) + 1;
        at += strlen(at) + 1;
    }
}

const fai_case *fai_case_list(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
    return list;
}

int fai_case_inputs(const char *text, fai_case_input inputs[FAI_CASE_INPUTS]) {
    int n = 0;
    while (*text && n < FAI_CASE_INPUTS) {
        fai_case_input *in = &inputs[n++];
        *in = (fai_case_input){.low = -2, .high = 2};
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
