/* Softmax, norms, nll, scans, indexing, sorting and accumulation: the C build of every device text and every instruction set's
 * own form on the same plan must give the same bits, and both must agree with plain loops in double. */
#include "backends/cpu/cpu.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/dialect.h"
#include "kernels/math.h"

/* ---- the C builds of the texts ---- */
#undef FA_KERNEL_LINKAGE
#define FA_KERNEL_LINKAGE static
#define TEXT "kernels/scan.k.h"
#include "support/text.h"
#define TEXT "kernels/accumulate.k.h"
#include "support/text.h"
#define FLOATS_ONLY
#define TEXT "kernels/softmax.k.h"
#include "support/text.h"
#define TEXT "kernels/norm.k.h"
#include "support/text.h"
#define TEXT "kernels/loss.k.h"
#include "support/text.h"

#include "kernels/index.k.h"
#include "kernels/sort.k.h"
#undef P
#undef N

typedef void (*text_kernel)(const fa_plan *plan, char *const *pointers, fa_i64 group);
#define PAIR(name) name##_f32, name##_f64

/* ---- the tables of all instruction sets that this machine has ---- */
#if defined(__x86_64__)
extern const fai_cpu_kernel fai_cpu_kernels_sse2[], fai_cpu_kernels_avx2[], fai_cpu_kernels_avx512[];
static int tables(const fai_cpu_kernel *out[3]) {
    int n = 0;
    out[n++] = fai_cpu_kernels_sse2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) out[n++] = fai_cpu_kernels_avx2;
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        out[n++] = fai_cpu_kernels_avx512;
    return n;
}
#else
static int tables(const fai_cpu_kernel *out[3]) {
    out[0] = fai_cpu_table();
    return 1;
}
#endif

/* ---- arrays ---- */
enum { ROOM = 8 };
typedef struct array {
    char *data;
    int dtype;
    int64_t n;
    bool writes;
} array;

static uint64_t seed = 1;
static double next_number(void) { /* in [-2, 2) */
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 40) / 4194304.0 - 2.0;
}

static array make(int dtype, int64_t n) {
    const array a = {calloc((size_t)n + 1, fa_dtype_size((fa_dtype)dtype)), dtype, n, false};
    for (int64_t i = 0; i < n; i++) fa_store_f64(a.data, dtype, i, next_number());
    return a;
}
static array result(int dtype, int64_t n) {
    array a = make(dtype, n);
    a.writes = true;
    return a;
}
static array indices(int dtype, int64_t n, int64_t below) {
    const array a = make(dtype, n);
    for (int64_t i = 0; i < n; i++) fa_store_i64(a.data, dtype, i, (fa_i64)((next_number() + 2) / 4 * (double)below));
    return a;
}
static double at(const array *a, int64_t i) { return fa_load_f64(a->data, a->dtype, i); }
static void forget(int n, array *a) {
    for (int i = 0; i < n; i++) free(a[i].data);
}
static size_t bytes_of(const array *a) { return (size_t)a->n * fa_dtype_size((fa_dtype)a->dtype); }

/* ---- running ---- */
static fa_plan plan_of(int n, const array *a, int64_t groups) {
    fa_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.groups = groups;
    plan.nviews = n;
    for (int k = 0; k < n; k++) {
        plan.view[k] = (fa_plan_view){
            .ndim = 1, .dtype = a[k].dtype, .kind = a[k].data ? FA_VIEW_TENSOR : FA_VIEW_NONE, .writes = a[k].writes};
        plan.view[k].size[0] = a[k].n;
        plan.view[k].stride[0] = 1;
        plan.view[k].high = (fa_i64)bytes_of(&a[k]);
    }
    return plan;
}

static bool same(const array *a, const char *x, const char *y) {
    if (memcmp(x, y, bytes_of(a)) == 0) return true;
    for (int64_t i = 0; i < a->n; i++) {
        const double u = fa_load_f64(x, a->dtype, i), v = fa_load_f64(y, a->dtype, i);
        if (!(isnan(u) && isnan(v)) &&
            memcmp(x + i * (int64_t)fa_dtype_size((fa_dtype)a->dtype), y + i * (int64_t)fa_dtype_size((fa_dtype)a->dtype),
                   fa_dtype_size((fa_dtype)a->dtype)) != 0) {
            print_error("element %lld of %lld: text %.17g, own %.17g\n", (long long)i, (long long)a->n, u, v);
            return false;
        }
    }
    return true;
}

/* Runs text and own forms; the arrays hold the results afterwards. */
static void run(text_kernel text, int kernel, const fa_plan *plan, int n, array *a) {
    char *pointers[ROOM] = {0}, *before[ROOM] = {0}, *own[ROOM] = {0};
    for (int k = 0; k < n; k++) {
        pointers[k] = own[k] = a[k].data;
        if (!a[k].data || !a[k].writes) continue;
        before[k] = malloc(bytes_of(&a[k]) + 1);
        own[k] = malloc(bytes_of(&a[k]) + 1);
        memcpy(before[k], a[k].data, bytes_of(&a[k]));
    }
    for (fa_i64 group = 0; group < plan->groups; group++) text(plan, pointers, group);
    const fai_cpu_kernel *table[3];
    const int count = tables(table);
    for (int t = 0; t < count; t++) {
        for (int k = 0; k < n; k++)
            if (before[k]) memcpy(own[k], before[k], bytes_of(&a[k]));
        assert_non_null(table[t][kernel]);
        table[t][kernel](plan, own);
        for (int k = 0; k < n; k++)
            if (before[k] && !same(&a[k], a[k].data, own[k]))
                fail_msg("table %d, operand %d of %s", t, k, fai_kernels[kernel].name);
    }
    for (int k = 0; k < n; k++)
        if (before[k]) {
            free(before[k]);
            free(own[k]);
        }
}

/* What a sum of n numbers may be off by, for a storage type. */
static double allowed(int dtype, double scale) {
    return (dtype == FA_T_FLOAT64   ? 1e-13
            : dtype == FA_T_FLOAT32 ? 4e-6
            : dtype == FA_T_FLOAT16 ? 2e-3
                                    : 1.6e-2) *
           (1 + fabs(scale));
}
/* scale: how large the numbers were that the element was made from. */
static void near_scaled(const array *a, int64_t i, double expected, double scale) {
    const double found = at(a, i);
    if (isnan(found) && isnan(expected)) return;
    if (!(fabs(found - expected) <= allowed(a->dtype, fabs(expected) + scale)))
        fail_msg("element %lld: %.9g, expected %.9g", (long long)i, found, expected);
}

static void near(const array *a, int64_t i, double expected) { near_scaled(a, i, expected, 0); }

static int compute(int dtype) { return dtype == FA_T_FLOAT64; }
static int64_t per_group_of(int64_t count) {
    const int64_t blocks = (count + FA_BLOCK - 1) / FA_BLOCK;
    int64_t rows = 16;
    while (rows > 1 && blocks > 16 / rows) rows /= 2;
    return rows;
}
static int64_t groups_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

static const int float_types[] = {FA_T_FLOAT32, FA_T_FLOAT64, FA_T_FLOAT16, FA_T_BFLOAT16};
#define EACH_FLOAT(t) for (int i_ = 0, t = float_types[0]; i_ < 4; t = float_types[++i_ & 3])

/* ---- softmax ---- */
static void check_softmax(int dtype, int64_t outer, int64_t dim, int64_t inner, bool log) {
    static const text_kernel forward[] = {PAIR(softmax)}, backward[] = {PAIR(softmax_backward)};
    const int64_t rows = outer * inner, n = rows * dim, each = per_group_of(dim);
    array a[3] = {result(dtype, n), make(dtype, n)};
    fa_plan plan = plan_of(2, a, groups_of(rows, each));
    plan.n[0] = rows, plan.n[1] = dim, plan.n[2] = inner, plan.n[3] = log, plan.n[4] = each;
    run(forward[compute(dtype)], FAI_K_softmax_f32 + compute(dtype), &plan, 2, a);
    array b[3] = {result(dtype, n), make(dtype, n), a[0]};
    b[2].writes = false;
    fa_plan back = plan_of(3, b, plan.groups);
    memcpy(back.n, plan.n, sizeof back.n);
    run(backward[compute(dtype)], FAI_K_softmax_backward_f32 + compute(dtype), &back, 3, b);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t base = row / inner * dim * inner + row % inner;
        double most = -INFINITY, total = 0, dot = 0;
        for (int64_t k = 0; k < dim; k++) most = fmax(most, at(&a[1], base + k * inner));
        for (int64_t k = 0; k < dim; k++) total += exp(at(&a[1], base + k * inner) - most);
        for (int64_t k = 0; k < dim; k++) {
            const double x = at(&a[1], base + k * inner) - most;
            near(&a[0], base + k * inner, log ? x - __builtin_log(total) : exp(x) / total);
            dot += at(&b[1], base + k * inner) * (log ? 1 : at(&a[0], base + k * inner));
        }
        for (int64_t k = 0; k < dim; k++) {
            const double g = at(&b[1], base + k * inner), y = at(&a[0], base + k * inner);
            near(&b[0], base + k * inner, log ? g - exp(y) * dot : y * (g - dot));
        }
    }
    forget(2, a);
    forget(2, b);
}

static void test_softmax(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},     {3, 10, 1},   {17, 16, 1},   {5, 33, 1}, {2, 1024, 1},
                                        {2, 1025, 1},  {1, 5000, 1}, {1, 40000, 1}, {2, 3, 7},  {3, 40, 32},
                                        {1, 1030, 33}, {2, 2, 100},  {0, 5, 1},     {3, 0, 2},  {4, 5, 0}};
    EACH_FLOAT(dtype)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int log = 0; log < 2; log++) check_softmax(dtype, shapes[i][0], shapes[i][1], shapes[i][2], log);
}

static void test_softmax_special(void **state) {
    (void)state;
    array a[2] = {result(FA_T_FLOAT32, 80), make(FA_T_FLOAT32, 80)};
    float *x = (float *)(void *)a[1].data;
    x[3] = INFINITY;
    x[23] = NAN;
    for (int i = 40; i < 60; i++) x[i] = -INFINITY;
    x[61] = -INFINITY;
    x[62] = -200;
    fa_plan plan = plan_of(2, a, 1);
    plan.n[0] = 4, plan.n[1] = 20, plan.n[2] = 1, plan.n[4] = 16;
    run(softmax_f32, FAI_K_softmax_f32, &plan, 2, a);
    const float *y = (const float *)(const void *)a[0].data;
    assert_true(isnan(y[3]) && isnan(y[23]) && isnan(y[24]) && isnan(y[45]));
    assert_true(y[61] == 0 && !isnan(y[60]));
    forget(2, a);
}

/* ---- layer norm ---- */
static void check_layer_norm(int dtype, int64_t rows, int64_t width, bool weighted) {
    static const text_kernel forward[] = {PAIR(layer_norm)}, backward[] = {PAIR(layer_norm_backward)},
                             weights[] = {PAIR(layer_norm_weight_backward)};
    const int own = dtype == FA_T_FLOAT64 ? FA_T_FLOAT64 : FA_T_FLOAT32, c = compute(dtype);
    const array none = {0};
    array a[6] = {result(dtype, rows * width), result(own, rows), result(own, rows), make(dtype, rows * width)};
    a[4] = weighted ? make(dtype, width) : none;
    a[5] = weighted ? make(dtype, width) : none;
    fa_plan plan = plan_of(6, a, groups_of(rows, per_group_of(width)));
    plan.n[0] = rows, plan.n[1] = width, plan.n[2] = per_group_of(width), plan.f[0] = 1e-5;
    run(forward[c], FAI_K_layer_norm_f32 + c, &plan, 6, a);
    a[0].writes = a[1].writes = a[2].writes = false;
    array b[6] = {result(dtype, rows * width), make(dtype, rows * width), a[3], a[1], a[2], a[4]};
    fa_plan back = plan_of(6, b, plan.groups);
    memcpy(back.n, plan.n, sizeof back.n);
    run(backward[c], FAI_K_layer_norm_backward_f32 + c, &back, 6, b);
    array w[6] = {result(dtype, width), result(dtype, width), b[1], a[3], a[1], a[2]};
    fa_plan weight = plan_of(6, w, groups_of(width, per_group_of(rows)));
    weight.n[0] = rows, weight.n[1] = width, weight.n[2] = per_group_of(rows);
    run(weights[c], FAI_K_layer_norm_weight_backward_f32 + c, &weight, 6, w);
    for (int64_t row = 0; row < rows; row++) {
        double mean = 0, var = 0, sum_g = 0, sum_gx = 0;
        for (int64_t k = 0; k < width; k++) mean += at(&a[3], row * width + k) / (double)width;
        for (int64_t k = 0; k < width; k++) var += pow(at(&a[3], row * width + k) - mean, 2) / (double)width;
        const double rstd = 1 / sqrt(var + 1e-5);
        near(&a[1], row, mean);
        near_scaled(&a[2], row, rstd, rstd * rstd);
        for (int64_t k = 0; k < width; k++) {
            const double x = (at(&a[3], row * width + k) - mean) * rstd,
                         g = at(&b[1], row * width + k) * (weighted ? at(&a[4], k) : 1);
            near_scaled(&a[0], row * width + k, weighted ? x * at(&a[4], k) + at(&a[5], k) : x, 4 * rstd);
            sum_g += g / (double)width;
            sum_gx += g * x / (double)width;
        }
        for (int64_t k = 0; k < width && width > 1; k++) {
            const double x = (at(&a[3], row * width + k) - mean) * rstd,
                         g = at(&b[1], row * width + k) * (weighted ? at(&a[4], k) : 1);
            near_scaled(&b[0], row * width + k, (g - sum_g - x * sum_gx) * rstd, rstd * rstd * (4 + fabs(x)));
        }
    }
    for (int64_t k = 0; k < width; k++) {
        double sum_g = 0, sum_gx = 0, size = 0;
        for (int64_t row = 0; row < rows; row++) {
            const double g = at(&b[1], row * width + k), x = (at(&a[3], row * width + k) - at(&a[1], row)) * at(&a[2], row);
            sum_g += g;
            sum_gx += g * x;
            size += fabs(g * x) + fabs(g);
        }
        assert_true(fabs(at(&w[0], k) - sum_gx) <= allowed(dtype, size) && fabs(at(&w[1], k) - sum_g) <= allowed(dtype, size));
    }
    forget(6, a);
    forget(2, b);
    forget(2, w);
}

static void test_layer_norm(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {4, 7}, {33, 64}, {3, 1000}, {2, 1024}, {5, 2500}, {1100, 40}, {2100, 3}, {0, 4}};
    EACH_FLOAT(dtype)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int weighted = 0; weighted < 2; weighted++) check_layer_norm(dtype, shapes[i][0], shapes[i][1], weighted);
}

/* ---- batch norm ---- */
typedef struct batch_case {
    int dtype;
    int64_t batch, channels, space;
    bool weighted;
} batch_case;

static void check_batch_stats(const batch_case *t, array *x, array *mean, array *rstd) {
    static const text_kernel stats[] = {PAIR(batch_norm_stats)};
    const int64_t count = t->batch * t->space, c = compute(t->dtype);
    const int own = c ? FA_T_FLOAT64 : FA_T_FLOAT32;
    array a[5] = {result(own, t->channels), result(own, t->channels), result(own, t->channels), result(own, t->channels), *x};
    double *old = malloc(sizeof(double) * 2 * (size_t)t->channels);
    for (int64_t i = 0; i < t->channels; i++) old[2 * i] = at(&a[2], i), old[2 * i + 1] = at(&a[3], i);
    fa_plan plan = plan_of(5, a, groups_of(t->channels, per_group_of(count)));
    plan.n[0] = t->channels, plan.n[1] = t->batch, plan.n[2] = t->space, plan.n[3] = per_group_of(count), plan.f[0] = 1e-5,
    plan.f[1] = 0.1;
    run(stats[c], FAI_K_batch_norm_stats_f32 + (int)c, &plan, 5, a);
    for (int64_t i = 0; i < t->channels; i++) {
        double sum = 0, var = 0;
        for (int64_t k = 0; k < count; k++)
            sum += at(x, (k / t->space * t->channels + i) * t->space + k % t->space) / (double)count;
        for (int64_t k = 0; k < count; k++)
            var += pow(at(x, (k / t->space * t->channels + i) * t->space + k % t->space) - sum, 2);
        near(&a[0], i, sum);
        near(&a[1], i, 1 / sqrt(var / (double)count + 1e-5));
        near(&a[2], i, 0.9 * old[2 * i] + 0.1 * sum);
        near(&a[3], i, 0.9 * old[2 * i + 1] + 0.1 * var / (double)(count - 1));
    }
    *mean = a[0];
    *rstd = a[1];
    mean->writes = rstd->writes = false;
    forget(2, a + 2);
    free(old);
}

static void check_batch_norm(const batch_case *t, bool is_variance, bool training) {
    static const text_kernel forward[] = {PAIR(batch_norm)}, backward[] = {PAIR(batch_norm_backward)};
    const int64_t n = t->batch * t->channels * t->space, count = t->batch * t->space, c = compute(t->dtype);
    array x = make(t->dtype, n), mean, rstd;
    check_batch_stats(t, &x, &mean, &rstd);
    const array none = {0};
    array a[6] = {result(t->dtype, n), x, mean, rstd, none, none};
    if (t->weighted) a[4] = make(t->dtype, t->channels), a[5] = make(t->dtype, t->channels);
    fa_plan plan = plan_of(6, a, groups_of(n, 1024));
    plan.n[0] = t->channels, plan.n[1] = t->batch, plan.n[2] = t->space, plan.n[3] = per_group_of(count),
    plan.n[4] = is_variance + 2 * training;
    plan.f[0] = 1e-5;
    run(forward[c], FAI_K_batch_norm_f32 + (int)c, &plan, 6, a);
    array b[8] = {result(t->dtype, n),
                  result(t->dtype, t->channels),
                  result(t->dtype, t->channels),
                  make(t->dtype, n),
                  x,
                  mean,
                  rstd,
                  a[4]};
    fa_plan back = plan_of(8, b, groups_of(t->channels, per_group_of(count)));
    memcpy(back.n, plan.n, sizeof back.n);
    back.f[0] = 1e-5;
    run(backward[c], FAI_K_batch_norm_backward_f32 + (int)c, &back, 8, b);
    for (int64_t i = 0; i < t->channels; i++) {
        const double m = at(&mean, i), r = is_variance ? 1 / sqrt(at(&rstd, i) + 1e-5) : at(&rstd, i),
                     w = t->weighted ? at(&a[4], i) : 1;
        double sum_g = 0, sum_gx = 0, size = 0;
        for (int64_t k = 0; k < count; k++) {
            const int64_t e = (k / t->space * t->channels + i) * t->space + k % t->space;
            sum_g += at(&b[3], e);
            sum_gx += at(&b[3], e) * (at(&x, e) - m) * r;
            size += fabs(at(&b[3], e) * (at(&x, e) - m) * r) + fabs(at(&b[3], e));
        }
        assert_true(fabs(at(&b[1], i) - sum_gx) <= allowed(t->dtype, size) &&
                    fabs(at(&b[2], i) - sum_g) <= allowed(t->dtype, size));
        for (int64_t k = 0; k < count; k++) {
            const int64_t e = (k / t->space * t->channels + i) * t->space + k % t->space;
            const double hat = (at(&x, e) - m) * r, g = at(&b[3], e);
            near(&a[0], e, hat * w + (t->weighted ? at(&a[5], i) : 0));
            near(&b[0], e, training ? (g - sum_g / (double)count - hat * sum_gx / (double)count) * r * w : g * r * w);
        }
    }
    forget(6, a);
    forget(4, b);
}

static void test_batch_norm(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{4, 3, 1}, {1500, 5, 1}, {16, 70, 1}, {2, 3, 5}, {3, 2, 64}, {40, 2, 49}, {3, 4, 1100}};
    EACH_FLOAT(dtype)
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int flags = 0; flags < 4; flags++) {
            const batch_case t = {dtype, shapes[i][0], shapes[i][1], shapes[i][2], (flags & 1) != 0};
            check_batch_norm(&t, flags == 1, (flags & 2) != 0);
        }
}

/* ---- negative log likelihood ---- */
static void check_nll(int dtype, int64_t batch, int64_t classes, int64_t space, int reduction, bool weighted) {
    static const text_kernel forward[] = {PAIR(nll_loss)}, backward[] = {PAIR(nll_loss_backward)};
    const int64_t n = batch * space, c = compute(dtype);
    const int own = c ? FA_T_FLOAT64 : FA_T_FLOAT32;
    const array none = {0};
    array a[6] = {result(dtype, reduction ? 1 : n), result(own, 1), make(dtype, n * classes),
                  indices(FA_T_INT64, n, classes),  none,           result(FA_T_INT64, FA_STATUS_WORDS)};
    if (weighted) a[4] = make(dtype, classes);
    memset(a[5].data, 0, FA_STATUS_WORDS * 8);
    if (n > 2) ((fa_i64 *)(void *)a[3].data)[1] = -100;
    fa_plan plan = plan_of(6, a, reduction ? 1 : groups_of(n, 256));
    plan.n[0] = batch, plan.n[1] = classes, plan.n[2] = space, plan.n[3] = reduction, plan.n[4] = -100;
    run(forward[c], FAI_K_nll_loss_f32 + (int)c, &plan, 6, a);
    a[1].writes = false;
    array b[5] = {result(dtype, n * classes), make(dtype, reduction ? 1 : n), a[3], a[4], a[1]};
    fa_plan back = plan_of(5, b, groups_of(n * classes, 1024));
    memcpy(back.n, plan.n, sizeof back.n);
    run(backward[c], FAI_K_nll_loss_backward_f32 + (int)c, &back, 5, b);
    double sum = 0, weight = 0, size = 0;
    for (int64_t k = 0; k < n; k++) {
        const fa_i64 t = ((fa_i64 *)(void *)a[3].data)[k];
        const double w = t < 0      ? 0
                         : weighted ? at(&a[4], t)
                                    : 1,
                     loss = t < 0 ? 0 : -w * at(&a[2], (k / space * classes + t) * space + k % space);
        if (!reduction) near(&a[0], k, loss);
        sum += loss;
        weight += w;
        size += fabs(loss) + fabs(w);
    }
    if (reduction == 2) assert_true(fabs(at(&a[0], 0) - sum) <= allowed(dtype, size));
    if (reduction == 1) assert_true(fabs(at(&a[0], 0) - sum / weight) <= allowed(dtype, size * (1 + 1 / (weight * weight))));
    for (int64_t i = 0; i < n * classes; i++) {
        const int64_t k = i / (classes * space) * space + i % space, t = ((fa_i64 *)(void *)a[3].data)[k];
        const double w = i / space % classes != t ? 0 : weighted ? at(&a[4], t) : 1;
        near(&b[0], i, w == 0 ? 0 : -w * at(&b[1], reduction ? 0 : k) / (reduction == 1 ? at(&a[1], 0) : 1));
    }
    forget(6, a);
    forget(2, b);
}

static void test_nll(void **state) {
    (void)state;
    EACH_FLOAT(dtype)
    for (int reduction = 0; reduction < 3; reduction++)
        for (int weighted = 0; weighted < 2; weighted++) {
            check_nll(dtype, 1, 3, 1, reduction, weighted);
            check_nll(dtype, 300, 10, 1, reduction, weighted);
            check_nll(dtype, 3, 4, 500, reduction, weighted);
        }
}

static void test_nll_bad_target(void **state) {
    (void)state;
    array a[6] = {result(FA_T_FLOAT32, 1), result(FA_T_FLOAT32, 1), make(FA_T_FLOAT32, 30), indices(FA_T_INT64, 10, 3), {0},
                  result(FA_T_INT64, FA_STATUS_WORDS)};
    memset(a[5].data, 0, FA_STATUS_WORDS * 8);
    ((fa_i64 *)(void *)a[3].data)[4] = 3;
    fa_plan plan = plan_of(6, a, 1);
    plan.n[0] = 10, plan.n[1] = 3, plan.n[2] = 1, plan.n[3] = 1, plan.n[4] = -100;
    run(nll_loss_f32, FAI_K_nll_loss_f32, &plan, 6, a);
    const fa_i64 *words = (const fa_i64 *)(const void *)a[5].data;
    assert_true(words[0] == FA_STATUS_TARGET && words[1] == 3 && words[3] == 3 && words[4] == 4);
    forget(6, a);
}

/* ---- scan ---- */
static void check_scan(int dtype, int64_t outer, int64_t dim, int64_t inner, int product, int reverse) {
    static const text_kernel kernels[] = {scan_f32, scan_f64, scan_i64};
    const int c = dtype == FA_T_FLOAT64 ? FAI_F64 : dtype >= FA_T_FLOAT16 ? FAI_F32 : FAI_I64;
    const int64_t rows = outer * inner;
    array a[2] = {result(dtype, rows * dim), make(dtype, rows * dim)};
    if (product)
        for (int64_t i = 0; i < rows * dim; i++)
            fa_store_f64(a[1].data, dtype, i, c == FAI_I64 ? 1 + (i % 7 == 0) : 1 + next_number() / 50);
    fa_plan plan = plan_of(2, a, 0);
    plan.n[0] = rows, plan.n[1] = dim, plan.n[2] = inner, plan.n[3] = product, plan.n[4] = reverse, plan.n[5] = 256;
    while (plan.n[5] > 1 && dim > 256 / plan.n[5] * FA_SCAN_CHUNK) plan.n[5] /= 2;
    plan.groups = groups_of(rows, plan.n[5]);
    run(kernels[c], FAI_K_scan_f32 + c, &plan, 2, a);
    for (int64_t row = 0; row < rows; row++) {
        double sum = product, size = 0;
        fa_i64 whole = product;
        for (int64_t k = 0; k < dim; k++) {
            const int64_t e = row / inner * dim * inner + row % inner + (reverse ? dim - 1 - k : k) * inner;
            const fa_i64 v = fa_load_i64(a[1].data, dtype, e);
            sum = product ? sum * at(&a[1], e) : sum + at(&a[1], e);
            whole = (fa_i64)(product ? (fa_u64)whole * (fa_u64)v : (fa_u64)whole + (fa_u64)v);
            size += fabs(at(&a[1], e)) + fabs(sum);
            if (c == FAI_I64) {
                char stored[8];
                fa_store_i64(stored, dtype, 0, whole);
                assert_true(fa_load_i64(a[0].data, dtype, e) == fa_load_i64(stored, dtype, 0));
            } else
                assert_true(fabs(at(&a[0], e) - sum) <= allowed(dtype, size));
        }
    }
    forget(2, a);
}

static void test_scan(void **state) {
    (void)state;
    static const int types[] = {FA_T_FLOAT32, FA_T_FLOAT64, FA_T_FLOAT16, FA_T_BFLOAT16, FA_T_INT64, FA_T_INT32, FA_T_UINT8};
    static const int64_t shapes[][3] = {{1, 1, 1},    {3, 15, 1},  {2, 17, 3},   {1, 300, 1},
                                        {1, 5000, 1}, {300, 4, 1}, {2, 70, 130}, {0, 3, 1}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int way = 0; way < 4; way++) check_scan(types[t], shapes[i][0], shapes[i][1], shapes[i][2], way & 1, way >> 1);
}

/* ---- index ---- */
static void set_view(fa_plan *plan, int k, int ndim, const int64_t *size, const int64_t *stride) {
    plan->view[k].ndim = ndim;
    for (int d = 0; d < ndim; d++) plan->view[k].size[d] = size[d], plan->view[k].stride[d] = stride[d];
}

/* x[before, n, after] read and written at index[m]: out[before, m, after]. */
static void check_index(int dtype, int index_type, int64_t before, int64_t n, int64_t after, int64_t m) {
    array a[4] = {result(dtype, before * m * after), make(dtype, before * n * after), indices(index_type, m, n),
                  result(FA_T_INT64, FA_STATUS_WORDS)};
    memset(a[3].data, 0, FA_STATUS_WORDS * 8);
    if (m > 1) fa_store_i64(a[2].data, index_type, 1, -1);
    fa_plan plan = plan_of(4, a, groups_of(before * m * after, 1024));
    const int64_t size[3] = {before, m, after}, out[3] = {m * after, after, 1}, in[3] = {n * after, 0, 1}, index[3] = {0, 1, 0};
    plan.ndim = 3;
    plan.numel = before * m * after;
    set_view(&plan, 0, 3, size, out);
    set_view(&plan, 1, 3, size, in);
    set_view(&plan, 2, 3, size, index);
    plan.n[0] = (fa_i64)fa_dtype_size((fa_dtype)dtype), plan.n[1] = after, plan.n[2] = n, plan.n[3] = 1,
    plan.n[4] = FA_STATUS_INDEX;
    run(index_read, FAI_K_index_read, &plan, 4, a);
    const size_t bytes = (size_t)plan.n[0] * (size_t)after;
    for (int64_t b = 0; b < before; b++)
        for (int64_t k = 0; k < m; k++) {
            const fa_i64 i = fa_load_i64(a[2].data, index_type, k);
            assert_memory_equal(a[0].data + (size_t)(b * m + k) * bytes,
                                a[1].data + (size_t)(b * n + (i < 0 ? i + n : i)) * bytes, bytes);
        }
    assert_true(((fa_i64 *)(void *)a[3].data)[0] == 0);
    array w[4] = {result(dtype, before * n * after), a[0], a[2], a[3]}; /* written back, x appears where it was read */
    w[1].writes = false;
    plan.view[0] = plan.view[1], plan.view[1].stride[0] = m * after, plan.view[1].stride[1] = after;
    run(index_write, FAI_K_index_write, &plan, 4, w);
    for (int64_t b = 0; b < before; b++)
        for (int64_t k = 0; k < m; k++) {
            const fa_i64 i = fa_load_i64(a[2].data, index_type, k), place = b * n + (i < 0 ? i + n : i);
            assert_memory_equal(w[0].data + (size_t)place * bytes, a[1].data + (size_t)place * bytes, bytes);
        }
    forget(4, a);
    forget(1, w);
}

static void test_index(void **state) {
    (void)state;
    static const int types[] = {FA_T_BOOL, FA_T_FLOAT16, FA_T_FLOAT32, FA_T_INT64};
    for (int t = 0; t < 4; t++) {
        check_index(types[t], FA_T_INT64, 1, 10, 8, 5);
        check_index(types[t], FA_T_INT64, 3, 7, 1, 900);
        check_index(types[t], FA_T_INT32, 2, 50, 33, 400);
        check_index(types[t], FA_T_INT64, 1, 1, 1, 1);
    }
}

static void test_gather(void **state) {
    (void)state;
    enum { ROWS = 37, IN = 11, OUT = 6 };
    array a[4] = {result(FA_T_FLOAT32, ROWS * OUT), make(FA_T_FLOAT32, ROWS * IN), indices(FA_T_INT64, ROWS * OUT, IN),
                  result(FA_T_INT64, FA_STATUS_WORDS)};
    memset(a[3].data, 0, FA_STATUS_WORDS * 8);
    ((fa_i64 *)(void *)a[2].data)[20] = IN + 4;
    fa_plan plan = plan_of(4, a, 1);
    const int64_t size[2] = {ROWS, OUT}, whole[2] = {OUT, 1}, in[2] = {IN, 0};
    plan.ndim = 2;
    plan.numel = ROWS * OUT;
    set_view(&plan, 0, 2, size, whole);
    set_view(&plan, 1, 2, size, in);
    set_view(&plan, 2, 2, size, whole);
    plan.n[0] = 4, plan.n[1] = 1, plan.n[2] = IN, plan.n[3] = 1, plan.n[4] = FA_STATUS_INDEX;
    run(index_read, FAI_K_index_read, &plan, 4, a);
    const fa_i64 *words = (const fa_i64 *)(const void *)a[3].data, *index = (const fa_i64 *)(const void *)a[2].data;
    assert_true(words[0] == FA_STATUS_INDEX && words[1] == IN + 4 && words[2] == 1 && words[3] == IN);
    for (int i = 0; i < ROWS * OUT; i++) assert_true(at(&a[0], i) == at(&a[1], i / OUT * IN + (i == 20 ? 0 : index[i])));
    forget(4, a);
}

static void test_index_offset(void **state) {
    (void)state;
    array a[3] = {result(FA_T_INT64, 12), indices(FA_T_INT32, 4, 5), result(FA_T_INT64, FA_STATUS_WORDS)};
    memset(a[2].data, 0, FA_STATUS_WORDS * 8);
    fa_plan plan = plan_of(3, a, 1);
    const int64_t size[2] = {3, 4}, whole[2] = {4, 1}, repeated[2] = {0, 1};
    plan.ndim = 2;
    plan.numel = 12;
    set_view(&plan, 0, 2, size, whole);
    set_view(&plan, 1, 2, size, repeated);
    plan.n[1] = 7, plan.n[2] = 5, plan.n[4] = FA_STATUS_INDEX, plan.n[6] = 1, plan.n[8] = 100, plan.n[9] = 1;
    memset(a[0].data, 0, 96);
    run(index_offset, FAI_K_index_offset, &plan, 3, a);
    for (int i = 0; i < 12; i++) assert_true(at(&a[0], i) == 7 * at(&a[1], i % 4) + i / 4 * 100 + i % 4);
    forget(3, a);
}

static void test_nonzero(void **state) {
    (void)state;
    enum { A = 5, B = 7, C = 60, BLOCKS = 3 };
    array a[2] = {result(FA_T_INT64, BLOCKS), indices(FA_T_BOOL, A * B * C, 2)};
    fa_plan plan = plan_of(2, a, BLOCKS);
    const int64_t size[3] = {A, B, C}, stride[3] = {1, A, A * B};
    plan.ndim = 3;
    plan.numel = A * B * C;
    set_view(&plan, 1, 3, size, stride);
    run(nonzero_count, FAI_K_nonzero_count, &plan, 2, a);
    fa_i64 *counts = (fa_i64 *)(void *)a[0].data;
    for (int i = 1; i < BLOCKS; i++) counts[i] += counts[i - 1];
    array w[3] = {result(FA_T_INT64, counts[BLOCKS - 1] * 3), a[1], a[0]};
    w[2].writes = false;
    fa_plan write = plan_of(3, w, BLOCKS);
    write.ndim = 3;
    write.numel = plan.numel;
    set_view(&write, 1, 3, size, stride);
    run(nonzero_write, FAI_K_nonzero_write, &write, 3, w);
    int64_t found = 0;
    for (int64_t i = 0; i < A * B * C; i++) {
        const int64_t x = i / (B * C), y = i / C % B, z = i % C;
        if (at(&a[1], x + y * A + z * A * B) == 0) continue;
        assert_true(at(&w[0], found * 3) == (double)x && at(&w[0], found * 3 + 1) == (double)y &&
                    at(&w[0], found * 3 + 2) == (double)z);
        found++;
    }
    assert_true(found == counts[BLOCKS - 1]);
    forget(2, a);
    forget(1, w);
}

/* ---- sorting and accumulation ---- */
/* Sorted keys and positions, as the host does it on a device. */
static void sort_keys(int64_t n, fa_i64 *keys, fa_i64 *positions, int bits) {
    const int64_t blocks = groups_of(n, 1024);
    array counts = result(FA_T_INT64, 16 * blocks), sums = result(FA_T_INT64, 16 * blocks);
    array to[2] = {result(FA_T_INT64, n), result(FA_T_INT64, n)};
    for (int shift = 0; shift < bits; shift += 4) {
        array from = {(char *)keys, FA_T_INT64, n, false}, order = {shift ? (char *)positions : NULL, FA_T_INT64, n, false};
        array a[2] = {counts, from};
        fa_plan plan = plan_of(2, a, blocks);
        plan.n[0] = n, plan.n[1] = shift;
        run(sort_count, FAI_K_sort_count, &plan, 2, a);
        fa_i64 sum = 0;
        for (int64_t i = 0; i < 16 * blocks; i++) ((fa_i64 *)(void *)sums.data)[i] = sum += ((fa_i64 *)(void *)counts.data)[i];
        array b[5] = {to[0], to[1], from, order, sums};
        b[4].writes = false;
        fa_plan scatter = plan_of(5, b, blocks);
        scatter.n[0] = n, scatter.n[1] = shift;
        run(sort_scatter, FAI_K_sort_scatter, &scatter, 5, b);
        memcpy(keys, to[0].data, (size_t)n * 8);
        memcpy(positions, to[1].data, (size_t)n * 8);
    }
    free(counts.data), free(sums.data), forget(2, to);
}

static void check_accumulate(int dtype, int64_t rows, int64_t columns, int64_t n) {
    static const text_kernel kernels[] = {index_accumulate_f32, index_accumulate_f64, index_accumulate_i64};
    const int c = dtype == FA_T_FLOAT64 ? FAI_F64 : dtype >= FA_T_FLOAT16 ? FAI_F32 : FAI_I64;
    const bool rounds = dtype == FA_T_FLOAT16 || dtype == FA_T_BFLOAT16;
    array keys = indices(FA_T_INT64, n, rows), src = make(dtype, n * columns), start = make(dtype, rows * columns), none = {0};
    array sorted = make(FA_T_INT64, n), order = make(FA_T_INT64, n);
    memcpy(sorted.data, keys.data, (size_t)n * 8);
    int bits = 1;
    while (rows >> bits) bits++;
    sort_keys(n, (fa_i64 *)(void *)sorted.data, (fa_i64 *)(void *)order.data, bits);
    for (int64_t i = 1; i < n; i++)
        assert_true(at(&sorted, i - 1) < at(&sorted, i) ||
                    (at(&sorted, i - 1) == at(&sorted, i) && at(&order, i - 1) < at(&order, i)));
    array results[2];
    for (int way = rounds; way < 2; way++) { /* unsorted, then sorted */
        array a[4] = {result(dtype, rows * columns), src, way ? sorted : keys, way ? order : none};
        memcpy(a[0].data, start.data, bytes_of(&start));
        fa_plan plan = plan_of(4, a, way ? groups_of(n * columns, 256) : groups_of(columns, 256));
        const int64_t size[1] = {columns}, one[1] = {1};
        set_view(&plan, 0, 1, size, one);
        set_view(&plan, 1, 1, size, one);
        plan.n[0] = n, plan.n[1] = columns, plan.n[2] = columns, plan.n[3] = columns, plan.n[4] = 2;
        run(kernels[c], FAI_K_index_accumulate_f32 + c, &plan, 4, a);
        results[way] = a[0];
    }
    double *expected = malloc(sizeof(double) * (size_t)(rows * columns) * 2), *size = expected + rows * columns;
    for (int64_t i = 0; i < rows * columns; i++) expected[i] = at(&start, i), size[i] = fabs(expected[i]);
    for (int64_t i = 0; i < n * columns; i++) {
        const int64_t key = (int64_t)at(&keys, i / columns);
        if (key == 2) continue;
        expected[key * columns + i % columns] += at(&src, i);
        size[key * columns + i % columns] += fabs(at(&src, i)) + fabs(expected[key * columns + i % columns]);
    }
    for (int64_t i = 0; i < rows * columns; i++) assert_true(fabs(at(&results[1], i) - expected[i]) <= allowed(dtype, size[i]));
    if (!rounds) assert_memory_equal(results[0].data, results[1].data, bytes_of(&results[0]));
    if (!rounds) free(results[0].data);
    free(results[1].data), free(expected), free(keys.data), free(src.data), free(start.data), free(sorted.data), free(order.data);
}

static void test_accumulate(void **state) {
    (void)state;
    static const int types[] = {FA_T_FLOAT32, FA_T_FLOAT64, FA_T_FLOAT16, FA_T_BFLOAT16, FA_T_INT64, FA_T_INT32};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        check_accumulate(types[t], 5, 1, 1);
        check_accumulate(types[t], 10, 7, 100);
        check_accumulate(types[t], 300, 33, 2500);
        check_accumulate(types[t], 70000, 1, 3000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),    cmocka_unit_test(test_softmax_special),
        cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_nll),        cmocka_unit_test(test_nll_bad_target),
        cmocka_unit_test(test_scan),       cmocka_unit_test(test_index),
        cmocka_unit_test(test_gather),     cmocka_unit_test(test_index_offset),
        cmocka_unit_test(test_nonzero),    cmocka_unit_test(test_accumulate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
