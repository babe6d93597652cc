/* The heavy kernels (matrix product, convolution, pooling): for many shapes, strides and storage types, the CPU's own function of
 * every instruction set that this machine has, and the C build of the kernel's text, against plain loops in float64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../src/backends/cpu/cpu.h"
#include "../kernels/dialect.h"

#define TEXT "kernels/gemm.k.h"
#include "support/text.h"
#define FLOATS_ONLY
#define TEXT "kernels/conv.k.h"
#include "support/text.h"
#define TEXT "kernels/pool.k.h"
#include "support/text.h"

typedef void (*text_kernel)(const fa_plan *plan, char *const *pointers, fa_i64 group);
#define OWN(name, isa) void fai_cpu_##name##_##isa(const fa_plan *, char *const *);
#define OWN_REAL(name, isa) OWN(name##_f32, isa) OWN(name##_f64, isa)
#define OWN_OF(isa)                                                                                                             \
    OWN_REAL(gemm, isa)                                                                                                         \
    OWN(gemm_i64, isa) OWN_REAL(conv2d, isa) OWN_REAL(conv2d_input, isa) OWN_REAL(conv2d_weight, isa) OWN_REAL(max_pool2d, isa) \
        OWN_REAL(max_pool2d_backward, isa) OWN_REAL(avg_pool2d, isa) OWN_REAL(avg_pool2d_backward, isa)
#if defined(__x86_64__)
OWN_OF(sse2) OWN_OF(avx2) OWN_OF(avx512)
#define OWN_FORMS(name) {fai_cpu_##name##_sse2, fai_cpu_##name##_avx2, fai_cpu_##name##_avx512}
#else
OWN_OF(generic)
#define OWN_FORMS(name) {fai_cpu_##name##_generic}
#endif

/* A kernel in all its forms; own NULL where this machine lacks the instructions. */
typedef struct forms { fai_cpu_kernel own[3]; text_kernel text; } forms;
#define FORMS(name) {OWN_FORMS(name), name}
static const char *form_name[] = {"sse2", "avx2", "avx512", "text"};

static bool machine_has(int form) {
#if !defined(__x86_64__)
    return form == 0 || form == 3;
#else
    if (form == 1) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    if (form == 2)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd");
    return true;
#endif
}

/* Runs one form; the CPU's own with several numbers of threads, which must give the same bits. outputs: how many of the pointers
 * are written, and their bytes; start: what lies there before. */
static void run_form(const forms *f, int form, const fa_plan *plan, char *const *pointers, int outputs, const size_t *bytes) {
    if (form == 3) {
        for (fa_i64 group = 0; group < plan->groups; group++) f->text(plan, pointers, group);
        return;
    }
    char *start[2], *first[2];
    for (int k = 0; k < outputs; k++) {
        start[k] = malloc(bytes[k] + 1), first[k] = malloc(bytes[k] + 1);
        memcpy(start[k], pointers[k], bytes[k]);
    }
    static const int threads[] = {1, 2, 3, 7};
    for (int t = 0; t < 4; t++) {
        fa_set_num_threads(threads[t]);
        for (int k = 0; k < outputs; k++) memcpy(pointers[k], start[k], bytes[k]);
        f->own[form](plan, pointers);
        for (int k = 0; k < outputs; k++) {
            if (t == 0) memcpy(first[k], pointers[k], bytes[k]);
            else if (memcmp(first[k], pointers[k], bytes[k]) != 0)
                fail_msg("%s: %d threads give other bits than one", form_name[form], threads[t]);
        }
    }
    for (int k = 0; k < outputs; k++) free(start[k]), free(first[k]);
}

/* ---- numbers from a fixed seed ---- */
static uint64_t state = 88172645463325252u;
static uint64_t next(void) { state ^= state << 13; state ^= state >> 7; state ^= state << 17; return state >> 11; }
static int64_t pick(int64_t low, int64_t high) { return low + (int64_t)(next() % (uint64_t)(high - low + 1)); }

static void fill(char *to, int dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        fa_store_f64(to, dtype, i, dtype >= FA_T_FLOAT16 ? (double)pick(-1000, 1000) / 1000 : (double)pick(-9, 9));
}

static double unit(int dtype) {
    return dtype == FA_T_FLOAT16    ? 1e-3
           : dtype == FA_T_BFLOAT16 ? 8e-3
           : dtype == FA_T_FLOAT32  ? 1e-6
           : dtype == FA_T_FLOAT64  ? 1e-14
                                    : 0;
}

static bool near(double got, double want, double size, int dtype) {
    if (isnan(want) || got == want) return isnan(got) == isnan(want);
    return fabs(got - want) <= unit(dtype) * (fabs(want) + 1 + size);
}

/* ---- matrix product ---- */
typedef struct gemm_case {
    int64_t m, n, k, batch[2];
    int compute, type[4];
    bool added, in_place;
    int act;
    double alpha, beta;
} gemm_case;

/* Strides of a matrix in memory: as it is, turned, with gaps, or repeated over the batch. Returns elements needed. */
static int64_t lay_out(fa_plan_view *v, const int64_t *batch, int64_t rows, int64_t cols, bool fixed_columns) {
    const int64_t gap = pick(0, 2) == 0 ? pick(1, 5) : 0, how = fixed_columns ? 0 : pick(0, 5);
    v->ndim = 4;
    v->size[0] = batch[0], v->size[1] = batch[1], v->size[2] = rows, v->size[3] = cols;
    int64_t matrix = rows * (cols + gap);
    v->stride[2] = cols + gap, v->stride[3] = 1;
    if (how == 1 || how == 2) v->stride[2] = 1, v->stride[3] = rows + gap, matrix = (rows + gap) * cols;
    if (how == 3) v->stride[2] = 2 * cols, v->stride[3] = 2, matrix = 2 * rows * cols;
    v->stride[1] = matrix, v->stride[0] = matrix * batch[1];
    if (!fixed_columns && pick(0, 3) == 0) v->stride[0] = 0;
    return matrix * batch[0] * batch[1] + 1;
}

static double at(char *const *p, const fa_plan *plan, int v, int64_t b0, int64_t b1, int64_t i, int64_t j) {
    const fa_plan_view *w = &plan->view[v];
    return fa_load_f64(p[v], w->dtype, b0 * w->stride[0] + b1 * w->stride[1] + i * w->stride[2] + j * w->stride[3]);
}

static void check_gemm(const forms *f, const gemm_case *c) {
    fa_plan plan = {.n = {c->m, c->n, c->k, c->act, c->batch[0] * c->batch[1], 2, (fa_i64)c->alpha, (fa_i64)c->beta},
                    .f = {c->alpha, c->beta}};
    plan.groups = plan.n[4] * ((c->m + 63) / 64) * ((c->n + 63) / 64);
    int64_t room[4];
    char *p[8] = {NULL}, *want_start;
    room[0] = lay_out(&plan.view[0], c->batch, c->m, c->n, true);
    room[1] = lay_out(&plan.view[1], c->batch, c->m, c->k, false);
    room[2] = lay_out(&plan.view[2], c->batch, c->k, c->n, false);
    room[3] = lay_out(&plan.view[3], c->batch, c->m, c->n, false);
    if (pick(0, 1)) plan.view[3].stride[2] = 0; /* a row of biases */
    else if (pick(0, 1)) plan.view[3].stride[3] = 0;
    for (int v = 0; v < 4; v++) {
        plan.view[v].kind = FA_VIEW_TENSOR, plan.view[v].dtype = c->type[v];
        p[v] = malloc((size_t)room[v] * 8);
        fill(p[v], c->type[v], room[v]);
    }
    want_start = malloc((size_t)room[0] * 8);
    memcpy(want_start, p[0], (size_t)room[0] * 8);
    if (c->in_place) { free(p[3]); p[3] = p[0]; plan.view[3] = plan.view[0]; }
    if (!c->added) plan.view[3].kind = FA_VIEW_NONE;
    double *want = malloc(sizeof(double) * (size_t)(plan.n[4] * c->m * c->n + 1)), *w = want;
    for (int64_t b0 = 0; b0 < c->batch[0]; b0++) for (int64_t b1 = 0; b1 < c->batch[1]; b1++)
        for (int64_t i = 0; i < c->m; i++) for (int64_t j = 0; j < c->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < c->k; k++) sum += at(p, &plan, 1, b0, b1, i, k) * at(p, &plan, 2, b0, b1, k, j);
            sum *= c->alpha;
            if (c->added && c->beta != 0) sum += c->beta * at(p, &plan, 3, b0, b1, i, j);
            *w++ = c->act == 1 && sum <= 0 ? 0 : sum;
        }
    for (int form = 0; form < 4; form++) {
        if (!machine_has(form)) continue;
        memcpy(p[0], want_start, (size_t)room[0] * 8);
        run_form(f, form, &plan, p, 1, (size_t[]){(size_t)room[0] * fa_dtype_size((fa_dtype)c->type[0])});
        w = want;
        for (int64_t b0 = 0; b0 < c->batch[0]; b0++) for (int64_t b1 = 0; b1 < c->batch[1]; b1++)
            for (int64_t i = 0; i < c->m; i++) for (int64_t j = 0; j < c->n; j++, w++) {
                const double got = at(p, &plan, 0, b0, b1, i, j);
                const double size = c->type[0] >= FA_T_FLOAT32 ? 2 * sqrt((double)c->k) : 0;
                if (!near(got, *w, size, c->type[0] >= FA_T_FLOAT16 && c->type[0] < FA_T_FLOAT32 ? c->type[0] : c->compute))
                    fail_msg("gemm %s [%ld %ld %ld] types %d %d %d %d, element %ld %ld: %.9g, expected %.9g", form_name[form],
                             (long)c->m, (long)c->k, (long)c->n, c->type[0], c->type[1], c->type[2], c->type[3], (long)i, (long)j,
                             got, *w);
            }
    }
    if (p[3] != p[0]) free(p[3]);
    for (int v = 0; v < 3; v++) free(p[v]);
    free(want), free(want_start);
}

static const forms gemm_forms[3] = {FORMS(gemm_f32), FORMS(gemm_f64), FORMS(gemm_i64)};

static void gemm_random(void **unused) {
    (void)unused;
    static const int compute[3] = {FA_T_FLOAT32, FA_T_FLOAT64, FA_T_INT64};
    static const int small_float[3] = {FA_T_FLOAT16, FA_T_BFLOAT16, FA_T_FLOAT32},
                     small_int[3] = {FA_T_INT32, FA_T_UINT8, FA_T_INT64};
    for (int round = 0; round < 900; round++) {
        const int which = round % 3;
        const int64_t limit = round % 10 == 0 ? 150 : round % 10 < 5 ? 40 : 9;
        gemm_case c = {.m = pick(1, limit),
                       .n = pick(1, limit),
                       .k = pick(round % 50 == 0 ? 0 : 1, limit),
                       .batch = {1, 1},
                       .compute = compute[which]};
        if (pick(0, 3) == 0) c.m = 1;
        if (pick(0, 3) == 0) c.n = 1;
        if (pick(0, 3) == 0) c.batch[0] = pick(1, 3), c.batch[1] = pick(1, 3);
        for (int v = 0; v < 4; v++) c.type[v] = compute[which];
        if (pick(0, 3) == 0)
            for (int v = 0; v < 4; v++)
                c.type[v] = which == 0   ? small_float[pick(0, 2)]
                            : which == 2 ? small_int[v ? pick(0, 2) : 2]
                                         : pick(FA_T_FLOAT32, FA_T_FLOAT64);
        c.added = pick(0, 1), c.in_place = c.added && pick(0, 1), c.act = which < 2 && pick(0, 1);
        c.alpha = pick(0, 1) ? 1 : -2, c.beta = pick(0, 2) == 0 ? 0 : pick(0, 1) ? 1 : 3;
        if (c.in_place) c.type[3] = c.type[0];
        if (which == 1 && c.type[0] == FA_T_FLOAT32) c.compute = FA_T_FLOAT32;
        check_gemm(&gemm_forms[which], &c);
    }
}

/* Sizes at which the ways change: panels, chunks, the split of k, threads. */
static void gemm_large(void **unused) {
    (void)unused;
    static const int64_t sizes[][3] = {{225, 33, 70}, {14, 513, 801}, {57, 129, 1700}, {1, 700, 900},
                                       {700, 1, 900}, {3, 97, 1300},  {449, 515, 40},  {230, 1030, 5}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int which = 0; which < 3; which++)
            for (int turn = 0; turn < 3; turn++) {
                const int type = which == 0 ? FA_T_FLOAT32 : which == 1 ? FA_T_FLOAT64 : FA_T_INT64;
                gemm_case c = {.m = sizes[i][0],
                               .n = sizes[i][1],
                               .k = sizes[i][2],
                               .batch = {1, 1},
                               .compute = type,
                               .type = {type, type, type, type},
                               .added = turn,
                               .alpha = 1,
                               .beta = 1,
                               .act = which < 2 && turn == 2};
                check_gemm(&gemm_forms[which], &c);
            }
}

/* ---- convolution ---- */
typedef struct conv_case {
    int64_t images, c, h, w, o, k[2], stride[2], padding[2], dilation[2], groups;
    int which, type[4];
    bool bias;
} conv_case;
static const forms conv_forms[3][2] = {{FORMS(conv2d_f32), FORMS(conv2d_f64)}, {FORMS(conv2d_input_f32), FORMS(conv2d_input_f64)},
                                       {FORMS(conv2d_weight_f32), FORMS(conv2d_weight_f64)}};
static const char *conv_name[3] = {"conv2d", "conv2d_input", "conv2d_weight"};

/* One walk over all products output += input * weight serves all three directions: each multiplies two and adds to the third. */
static void convolve_naive(const fa_i64 *n, int direction, const double *x, const double *w, const double *y, double *sum) {
    const int64_t cg = n[1] / n[15], og = n[4] / n[15];
    for (int64_t b = 0; b < n[0]; b++) for (int64_t o = 0; o < n[4]; o++) for (int64_t c = 0; c < cg; c++)
        for (int64_t oy = 0; oy < n[7]; oy++) for (int64_t ox = 0; ox < n[8]; ox++)
            for (int64_t i = 0; i < n[5]; i++) for (int64_t j = 0; j < n[6]; j++) {
                const int64_t iy = oy * n[9] - n[11] + i * n[13], ix = ox * n[10] - n[12] + j * n[14];
                if (iy < 0 || iy >= n[2] || ix < 0 || ix >= n[3]) continue;
                const int64_t at_x = ((b * n[1] + o / og * cg + c) * n[2] + iy) * n[3] + ix,
                              at_w = ((o * cg + c) * n[5] + i) * n[6] + j;
                const int64_t at_y = ((b * n[4] + o) * n[7] + oy) * n[8] + ox;
                if (direction == 0) sum[at_y] += x[at_x] * w[at_w];
                else if (direction == 1) sum[at_x] += y[at_y] * w[at_w];
                else sum[at_w] += y[at_y] * x[at_x];
            }
}

static double *as_double(const char *p, int dtype, int64_t n) {
    double *d = calloc((size_t)n + 1, sizeof(double));
    for (int64_t i = 0; i < n; i++) d[i] = fa_load_f64(p, dtype, i);
    return d;
}

static void check_conv(const conv_case *c, int direction) {
    fa_plan plan = {.n = {c->images, c->c, c->h, c->w, c->o, c->k[0], c->k[1], 0, 0, c->stride[0], c->stride[1], c->padding[0],
                          c->padding[1], c->dilation[0], c->dilation[1], c->groups}};
    for (int s = 0; s < 2; s++)
        plan.n[7 + s] = (plan.n[2 + s] + 2 * c->padding[s] - c->dilation[s] * (c->k[s] - 1) - 1) / c->stride[s] + 1;
    const int64_t nx = c->images * c->c * c->h * c->w, nw = c->o * (c->c / c->groups) * c->k[0] * c->k[1],
                  ny = c->images * c->o * plan.n[7] * plan.n[8];
    const int64_t counts[3][4] = {{ny, nx, nw, c->o}, {nx, ny, nw, c->c}, {nw, ny, nx, 0}};
    const int64_t *count = counts[direction];
    char *p[8] = {NULL};
    for (int v = 0; v < 4; v++) {
        p[v] = malloc((size_t)count[v] * 8 + 1);
        fill(p[v], c->type[v], count[v]);
        plan.view[v].kind = v < 3 || (c->bias && direction < 2) ? FA_VIEW_TENSOR : FA_VIEW_NONE;
        plan.view[v].dtype = c->type[v];
    }
    plan.groups = fa_conv_groups(plan.n, direction);
    double *want = calloc((size_t)count[0] + 1, sizeof(double)), *one = as_double(p[1], c->type[1], count[1]),
           *two = as_double(p[2], c->type[2], count[2]);
    convolve_naive(plan.n, direction, direction == 0 ? one : two, two, one, want);
    if (plan.view[3].kind) {
        const int64_t channels = direction == 0 ? c->o : c->c, plane = count[0] / c->images / channels;
        for (int64_t i = 0; i < count[0]; i++) want[i] += fa_load_f64(p[3], c->type[3], i / plane % channels);
    }
    for (int form = 0; form < 4; form++) {
        if (!machine_has(form)) continue;
        memset(p[0], 0x5a, (size_t)count[0] * 8);
        run_form(&conv_forms[direction][c->which], form, &plan, p, 1,
                 (size_t[]){(size_t)count[0] * fa_dtype_size((fa_dtype)c->type[0])});
        for (int64_t i = 0; i < count[0]; i++) {
            const double got = fa_load_f64(p[0], c->type[0], i);
            if (!near(got, want[i], 20, c->type[0]))
                fail_msg(
                    "%s %s images %ld, %ld -> %ld channels, %ld x %ld by %ld x %ld, stride %ld %ld, padding %ld %ld, "
                    "dilation %ld %ld, groups %ld: "
                    "element %ld is %.9g, expected %.9g",
                    conv_name[direction], form_name[form], (long)c->images, (long)c->c, (long)c->o, (long)c->h, (long)c->w,
                    (long)c->k[0], (long)c->k[1], (long)c->stride[0], (long)c->stride[1], (long)c->padding[0],
                    (long)c->padding[1], (long)c->dilation[0], (long)c->dilation[1], (long)c->groups, (long)i, got, want[i]);
        }
    }
    for (int v = 0; v < 4; v++) free(p[v]);
    free(want), free(one), free(two);
}

static void conv_random(void **unused) {
    (void)unused;
    static const int stores[3] = {FA_T_FLOAT16, FA_T_BFLOAT16, FA_T_FLOAT32};
    for (int round = 0; round < 500; round++) {
        conv_case c = {.images = pick(1, round % 9 == 0 ? 20 : 3),
                       .groups = pick(0, 2) ? 1 : pick(1, 4),
                       .which = round % 2,
                       .bias = pick(0, 1)};
        c.c = c.groups * pick(1, 5), c.o = c.groups * pick(1, round % 7 == 0 ? 40 : 10);
        c.h = pick(1, 14), c.w = pick(1, round % 5 == 0 ? 50 : 14);
        for (int s = 0; s < 2; s++) {
            const int64_t side = s ? c.w : c.h;
            c.k[s] = pick(1, 4), c.stride[s] = pick(0, 1) ? 1 : pick(1, 3), c.padding[s] = pick(0, 1) ? 0 : pick(0, 4),
            c.dilation[s] = pick(0, 2) ? 1 : pick(1, 3);
            while (c.dilation[s] * (c.k[s] - 1) + 1 > side + 2 * c.padding[s]) c.padding[s]++;
        }
        for (int v = 0; v < 4; v++) c.type[v] = c.which ? FA_T_FLOAT64 : FA_T_FLOAT32;
        if (pick(0, 4) == 0)
            for (int v = 0; v < 4; v++) c.type[v] = c.which ? pick(FA_T_FLOAT32, FA_T_FLOAT64) : stores[pick(0, 2)];
        for (int direction = 0; direction < 3; direction++) check_conv(&c, direction);
    }
}

/* Sizes that networks have: images, channels, side, output channels, window, stride, padding, groups. */
static const int64_t usual[][8] = {{17, 1, 28, 8, 3, 1, 1, 1},  {33, 8, 8, 16, 3, 1, 1, 1},  {2, 16, 14, 100, 3, 2, 1, 1},
                                   {2, 70, 7, 90, 1, 1, 0, 1}, {3, 24, 16, 24, 3, 1, 1, 24}};

static void conv_usual(void **unused) {
    (void)unused;
    for (int which = 0; which < 2; which++) {
        const int t = which ? FA_T_FLOAT64 : FA_T_FLOAT32;
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
            for (int direction = 0; direction < 3; direction++) {
                const int64_t *u = usual[i];
                conv_case c = {.images = u[0], .c = u[1], .h = u[2], .w = u[2], .o = u[3], .k = {u[4], u[4]}, .dilation = {1, 1}};
                c.stride[0] = c.stride[1] = u[5], c.padding[0] = c.padding[1] = u[6], c.groups = u[7];
                c.which = which, c.bias = true;
                for (int v = 0; v < 4; v++) c.type[v] = t;
                check_conv(&c, direction);
            }
    }
}

/* ---- pooling ---- */
static const forms pool_forms[4][2] = {{FORMS(max_pool2d_f32), FORMS(max_pool2d_f64)},
                                       {FORMS(max_pool2d_backward_f32), FORMS(max_pool2d_backward_f64)},
                                       {FORMS(avg_pool2d_f32), FORMS(avg_pool2d_f64)},
                                       {FORMS(avg_pool2d_backward_f32), FORMS(avg_pool2d_backward_f64)}};
static const char *pool_name[4] = {"max_pool2d", "max_pool2d_backward", "avg_pool2d", "avg_pool2d_backward"};

/* x: input, values: output, at: indices; or back: values are added to x. */
static void pool_naive(const fa_i64 *n, bool max, bool back, double *x, double *values, int64_t *at) {
    for (int64_t p = 0; p < n[0]; p++) for (int64_t oy = 0; oy < n[3]; oy++) for (int64_t ox = 0; ox < n[4]; ox++) {
        const int64_t e = (p * n[3] + oy) * n[4] + ox, dy = max ? n[11] : 1, dx = max ? n[12] : 1;
        if (max && back) { x[p * n[1] * n[2] + at[e]] += values[e]; continue; }
        double best = -INFINITY, sum = 0;
        int64_t where = -1, inside = 0, counted = 0;
        for (int64_t i = 0; i < n[5]; i++) for (int64_t j = 0; j < n[6]; j++) {
            const int64_t iy = oy * n[7] - n[9] + i * dy, ix = ox * n[8] - n[10] + j * dx;
            if (iy < n[1] + n[9] && ix < n[2] + n[10]) counted++;
            if (iy < 0 || iy >= n[1] || ix < 0 || ix >= n[2]) continue;
            const double v = back ? 0 : x[(p * n[1] + iy) * n[2] + ix];
            inside++, sum += v;
            if (where < 0 || v > best || isnan(v)) best = v, where = iy * n[2] + ix;
        }
        const double divisor = n[12] ? (double)n[12] : n[11] ? (double)counted : (double)inside;
        if (max) values[e] = best, at[e] = where;
        else if (!back) values[e] = inside ? sum / divisor : 0;
        else
            for (int64_t i = 0; i < n[5]; i++) for (int64_t j = 0; j < n[6]; j++) {
                const int64_t iy = oy * n[7] - n[9] + i, ix = ox * n[8] - n[10] + j;
                if (iy >= 0 && iy < n[1] && ix >= 0 && ix < n[2]) x[(p * n[1] + iy) * n[2] + ix] += values[e] / divisor;
            }
    }
}

/* kernel: which of the four; all that is written is compared, the indices exactly. */
static void check_pool(fa_plan *plan, int kernel, int which, int type_x, int type_y, const double *x, const double *g,
                       const int64_t *want_at) {
    const fa_i64 *n = plan->n;
    const bool max = kernel < 2, back = kernel % 2;
    const int64_t nx = n[0] * n[1] * n[2], ny = n[0] * n[3] * n[4], nout = back ? nx : ny, nin = back ? ny : nx;
    const int in = max && !back ? 2 : 1, type_in = back ? type_y : type_x, type_out = back ? type_x : type_y;
    char *p[8] = {malloc((size_t)nout * 8 + 1), NULL, NULL};
    int64_t *at = malloc((size_t)ny * 8 + 8);
    memcpy(at, want_at, (size_t)ny * 8);
    memset(plan->view, 0, sizeof plan->view);
    if (max)
        p[back ? 2 : 1] = (char *)at, plan->view[back ? 2 : 1].kind = FA_VIEW_TENSOR, plan->view[back ? 2 : 1].dtype = FA_T_INT64;
    p[in] = malloc((size_t)nin * 8 + 1);
    plan->view[0].kind = plan->view[in].kind = FA_VIEW_TENSOR, plan->view[0].dtype = type_out, plan->view[in].dtype = type_in;
    for (int64_t i = 0; i < nin; i++) fa_store_f64(p[in], type_in, i, back ? g[i] : x[i]);
    double *read = as_double(p[in], type_in, nin), *want = calloc((size_t)nout + 1, sizeof(double));
    int64_t *expected_at = malloc((size_t)ny * 8 + 8);
    memcpy(expected_at, want_at, (size_t)ny * 8);
    pool_naive(n, max, back, back ? want : read, back ? read : want, expected_at);
    plan->groups = (nout + 255) / 256;
    for (int form = 0; form < 4; form++) {
        if (!machine_has(form)) continue;
        if (max && !back) memset(at, 0x5a, (size_t)ny * 8);
        memset(p[0], 0x5a, (size_t)nout * 8);
        run_form(&pool_forms[kernel][which], form, plan, p, max && !back ? 2 : 1,
                 (size_t[]){(size_t)nout * fa_dtype_size((fa_dtype)type_out), (size_t)ny * 8});
        for (int64_t i = 0; i < nout; i++) {
            const double got = fa_load_f64(p[0], type_out, i);
            if (!near(got, want[i], 1, type_out) || (max && !back && at[i] != expected_at[i]))
                fail_msg(
                    "%s %s %ld x %ld, window %ld %ld, stride %ld %ld, padding %ld %ld, %ld %ld: "
                         "element %ld is %.9g, expected %.9g",
                    pool_name[kernel], form_name[form], (long)n[1], (long)n[2], (long)n[5], (long)n[6], (long)n[7], (long)n[8],
                    (long)n[9], (long)n[10], (long)n[11], (long)n[12], (long)i, got, want[i]);
        }
    }
    free(p[0]), free(p[in]), free(at), free(read), free(want), free(expected_at);
}

static void pool_random(void **unused) {
    (void)unused;
    static const int stores[3] = {FA_T_FLOAT16, FA_T_BFLOAT16, FA_T_FLOAT32};
    for (int round = 0; round < 600; round++) {
        const bool max = round % 2, ceil_mode = pick(0, 1);
        const int which = round / 2 % 2, convert = pick(0, 3) == 0;
        const int type_x = convert ? which ? FA_T_FLOAT32 : stores[pick(0, 2)] : which ? FA_T_FLOAT64 : FA_T_FLOAT32;
        fa_plan plan = {.n = {pick(1, 5), pick(1, 20), pick(1, round % 5 == 0 ? 300 : 20)}};
        fa_i64 *n = plan.n;
        n[11] = max ? pick(1, 2) : pick(0, 1), n[12] = max ? pick(1, 2) : pick(0, 3) ? 0 : pick(1, 9);
        for (int s = 0; s < 2; s++) {
            n[5 + s] = pick(1, 4), n[7 + s] = pick(1, 3), n[9 + s] = pick(0, n[5 + s] / 2);
            const int64_t reach = max ? (n[5 + s] - 1) * n[11 + s] + 1 : n[5 + s];
            if (n[1 + s] < reach) n[1 + s] = reach;
            const int64_t over = n[1 + s] + 2 * n[9 + s] - reach;
            n[3 + s] = (ceil_mode ? over + n[7 + s] - 1 : over) / n[7 + s] + 1;
            if (ceil_mode && (n[3 + s] - 1) * n[7 + s] >= n[1 + s] + n[9 + s]) n[3 + s]--;
        }
        const int64_t nx = n[0] * n[1] * n[2], ny = n[0] * n[3] * n[4];
        double *x = malloc(sizeof(double) * (size_t)nx), *y = malloc(sizeof(double) * (size_t)ny),
               *g = malloc(sizeof(double) * (size_t)ny);
        int64_t *at = calloc((size_t)ny, 8);
        for (int64_t i = 0; i < nx; i++) x[i] = (double)pick(-8, 8) / 4; /* many equal maxima */
        if (round % 7 == 0) x[pick(0, nx - 1)] = NAN, x[pick(0, nx - 1)] = NAN, x[pick(0, nx - 1)] = -INFINITY;
        for (int64_t i = 0; i < ny; i++) g[i] = (double)pick(-16, 16) / 8;
        if (max) pool_naive(n, true, false, x, y, at);
        for (int back = 0; back < 2; back++) check_pool(&plan, (max ? 0 : 2) + back, which, type_x, type_x, x, g, at);
        free(x), free(y), free(g), free(at);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_random), cmocka_unit_test(gemm_large),  cmocka_unit_test(conv_random),
        cmocka_unit_test(conv_usual),  cmocka_unit_test(pool_random),
    };
    return cmocka_run_group_tests_name("heavy", tests, NULL, NULL);
}
