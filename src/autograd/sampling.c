/* Random choices whose law is in tensors: multinomial, bernoulli, normal with a mean and a spread for each element; and two writes in
 * place. On the CPU all numbers are torch's, bit for bit. Nothing here is recorded: there is no derivative towards a law. */
#include "composite.h"
#include "ops/random.h"
#include "ops/views.h"
#include <fa_functional.h>
#include <math.h>

/* Uniform numbers of the shape, and of the layout of `like` if there is one. */
static fa_tensor *uniform(const char *op, fa_dtype dtype, const fa_tensor *like, fa_shape shape, fa_device device,
                          fa_generator *g) {
    fa_tensor *u = like ? fai_empty_strided(op, dtype, device, like->ndim, like->size, like->stride)
                        : fai_empty(op, dtype, device, shape.ndim, shape.dim);
    return u && fai_fill_uniform(op, u, 0, 1, g) ? u : NULL;
}

/* ---- multinomial ---- */

static bool check_law(fa_tensor *p) {
    const char *op = "multinomial";
    FA_SCOPE;
    const fa_shape last = FA_DIMS(-1);
    if (p->numel == 0 || fai_capturing(p->device)) return true; /* there are no numbers yet */
    const double least = fa_item(fa_min(p)), most = fa_item(fa_max(p));
    if (fa_failed()) return false;
    if (!(least >= 0) || !(most < HUGE_VAL))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "probability tensor contains either `inf`, `nan` or element < 0: its elements are from %g to %g", least,
                        most);
    if (fa_item(fa_min(fa_sum_dims(p, last, false))) > 0 || fa_failed()) return !fa_failed();
    return fai_fail(FA_ERR_RUNTIME, op,
                    "invalid multinomial distribution (sum of probabilities <= 0): every row needs a positive element");
}

static bool check_multinomial(fa_tensor *p, int64_t n, bool replacement) {
    const char *op = "multinomial";
    if (!fai_begin1(op, "p", p)) return false;
    if (!fai_is_float(p->dtype))
        return fai_fail(FA_ERR_RUNTIME, op,
                        "multinomial only supports floating-point dtypes for input, got: %s; fa_cast(p, FA_FLOAT32)",
                        fai_dtype_title((fa_dtype)p->dtype));
    if (p->ndim != 1 && p->ndim != 2) return fai_fail(FA_ERR_RUNTIME, op, "prob_dist must be 1 or 2 dim; it has %d", p->ndim);
    if (n <= 0) return fai_fail(FA_ERR_RUNTIME, op, "cannot sample n_sample <= 0 samples; n is %lld", (long long)n);
    if (replacement || n <= p->size[p->ndim - 1]) return check_law(p);
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement: n is %lld, there are %lld to choose from",
        (long long)n, (long long)p->size[p->ndim - 1]);
}

/* Each category's chance is raced against an exponential number: the first n win. */
static fa_tensor *race(fa_tensor *p, int64_t n, fa_generator *g) {
    fa_tensor *q = fai_empty_strided("multinomial", (fa_dtype)p->dtype, p->device, p->ndim, p->size, p->stride), *places = NULL;
    if (!q || !fai_fill_exponential("multinomial", q, 1, g)) return NULL;
    q = fa_div(p, q);
    if (n == 1) return fa_argmax_dim(q, -1, true);
    return fa_topk(q, n, -1, true, &places) ? places : NULL;
}

/* The law's running sums over its whole sum, added one after the other as torch does. */
#define SUM_IN_ORDER(type)                                                                                                       \
    for (type *row = fai_host(sums), *end = row + sums->numel; row < end; row += n) {                                            \
        for (int64_t k = 1; k < n; k++) row[k] += row[k - 1];                                                                    \
        for (int64_t k = 0; k < n; k++) row[k] /= row[n - 1];                                                                    \
        row[n - 1] = 1;                                                                                                          \
    }
static fa_tensor *running_sums(fa_tensor *p) {
    const int64_t n = p->size[p->ndim - 1];
    if (!fai_on_cpu(p)) {
        fa_tensor *sums = fa_cumsum(p, -1);
        return fa_div(sums, fa_narrow(sums, -1, n - 1, 1));
    }
    fa_tensor *sums = fa_clone(p);
    if (!sums) return NULL;
    if (sums->dtype == FA_FLOAT64) {
        SUM_IN_ORDER(double)
    } else {
        SUM_IN_ORDER(float)
    }
    return sums;
}

/* The first category whose running sum is not below a uniform number. */
static fa_tensor *choose_again(fa_tensor *p, int64_t n, fa_generator *g) {
    fa_shape shape = fa_shape_of_tensor(p);
    fa_tensor *sums = running_sums(fai_widened(p));
    shape.dim[shape.ndim - 1] = n;
    fa_tensor *u = sums ? uniform("multinomial", FA_FLOAT64, NULL, shape, p->device, g) : NULL;
    fa_tensor *places = u ? fa_searchsorted(fa_to_dtype(sums, FA_FLOAT64), u, false, false) : NULL;
    return fa_clamp_max(places, p->size[p->ndim - 1] - 1);
}

fa_tensor *fa_multinomial(fa_tensor *p, int64_t n, bool replacement, fa_generator *generator) {
    FAI_CALLED("multinomial");
    if (!check_multinomial(p, n, replacement)) return NULL;
    FA_NO_GRAD;
    FA_SCOPE;
    if (p->numel == 0) {
        const int64_t size[2] = {p->size[0], n};
        return fa_keep(fai_empty("multinomial", FA_INT64, p->device, p->ndim, p->ndim == 2 ? size : &size[1]));
    }
    return fa_keep(replacement && n > 1 ? choose_again(p, n, generator) : race(p, n, generator));
}

/* ---- bernoulli ---- */

fa_tensor *fa_bernoulli(fa_tensor *p, fa_generator *generator) {
    const char *op = "bernoulli";
    if (!fai_begin1(op, "p", p)) return NULL;
    if (!fai_is_float(p->dtype))
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "\"bernoulli_tensor_cpu_p_\" not implemented for '%s'; probabilities are floating: "
                        "fa_cast(p, FA_FLOAT32)",
                        fai_dtype_title((fa_dtype)p->dtype));
    FAI_CALLED(op);
    FA_NO_GRAD;
    FA_SCOPE;
    if (p->numel > 0 && !fai_capturing(p->device)) {
        const double least = fa_item(fa_min(p)), most = fa_item(fa_max(p));
        if (fa_failed()) return NULL;
        if (!(least >= 0 && most <= 1))
            return fai_fail(FA_ERR_RUNTIME, op,
                            "Expected p_in >= 0 && p_in <= 1 to be true, but got false. The probabilities are from "
                            "%g to %g.",
                            least, most);
    }
    const fa_dtype wide = p->dtype == FA_FLOAT64 ? FA_FLOAT64 : FA_FLOAT32;
    fa_tensor *u = uniform(op, wide, p, FA_SHAPE_0D, p->device, generator);
    return fa_keep(fa_to_dtype(fa_lt(u, p), (fa_dtype)p->dtype));
}

/* ---- normal ---- */

static bool check_normal(const char *name, fa_tensor *t) {
    if (!t || fai_is_float(t->dtype)) return true;
    return fai_fail(FA_ERR_UNSUPPORTED, "normal",
                    "\"normal_kernel_cpu\" not implemented for '%s'; argument '%s' is a floating tensor: "
                    "fa_cast(%s, FA_FLOAT32)",
                    fai_dtype_title((fa_dtype)t->dtype), name, name);
}

/* mean + std * normal number, in the type of mean where it is a tensor; one of the two may be the number given. */
static fa_tensor *normal(fa_tensor *mean, double mean_number, fa_tensor *std, double std_number, fa_generator *g) {
    const char *op = "normal";
    fa_shape shape = {0};
    int ndim;
    if (!check_normal("mean", mean) || !check_normal("std", std)) return NULL;
    if (!fai_broadcast(op, 2, (const fa_tensor *const[]){mean, std}, &ndim, shape.dim)) return NULL;
    FAI_CALLED(op);
    FA_NO_GRAD;
    FA_SCOPE;
    if (std && std->numel > 0 && !fai_capturing(std->device)) {
        const double least = fa_item(fa_min(std));
        if (fa_failed()) return NULL;
        if (!(least >= 0))
            return fai_fail(FA_ERR_RUNTIME, op, "normal expects all elements of std >= 0.0; the smallest is %g", least);
    }
    const fa_tensor *of = mean ? mean : std;
    const fa_dtype dtype = (fa_dtype)of->dtype;
    fa_tensor *r = fai_empty(op, dtype, of->device, ndim, shape.dim);
    if (!r || !fai_fill_normal(op, r, 0, std ? 1 : std_number, g)) return NULL;
    if (std) r = fa_mul(r, std);
    return fa_keep(mean ? fa_cast(fa_add(r, mean), dtype) : fai_add_number(r, mean_number));
}

fa_tensor *fa_normal(fa_tensor *mean, fa_tensor *std, fa_generator *generator) {
    return fai_begin2("normal", "mean", mean, "std", std) ? normal(mean, 0, std, 1, generator) : NULL;
}
fa_tensor *fa_normal_mean(fa_tensor *mean, double std, fa_generator *generator) {
    return fai_begin1("normal", "mean", mean) ? normal(mean, 0, NULL, std, generator) : NULL;
}
fa_tensor *fa_normal_std(double mean, fa_tensor *std, fa_generator *generator) {
    return fai_begin1("normal", "std", std) ? normal(NULL, mean, std, 1, generator) : NULL;
}

/* ---- in place ---- */

typedef struct law {
    enum { EXPONENTIAL, ALL_INTEGERS, SOME_INTEGERS } kind;
    double lambda;
    int64_t low, high;
    fa_generator *generator;
} law;

static bool fill(const char *op, fa_tensor *t, const law *with) {
    if (with->kind == EXPONENTIAL) return fai_fill_exponential(op, t, with->lambda, with->generator);
    if (with->kind == ALL_INTEGERS) return fai_fill_random_full(op, t, with->generator);
    return fai_fill_randint(op, t, with->low, with->high, with->generator);
}

/* A tensor with a gradient is written by way of a copy, so that what made it gets none. */
static fa_tensor *filled(const char *op, fa_tensor *t, const law *with) {
    if (!fai_check(op, "t", t) || fai_refuse_pending(op) || !fai_in_place_check(op, t)) return NULL;
    if (fai_recording() && fai_wants_grad(t)) {
        FA_SCOPE;
        fa_tensor *values = fai_empty_like(op, t);
        return values && fill(op, values, with) ? fa_copy_(t, values) : NULL;
    }
    if (!fill(op, t, with)) return NULL;
    ++*fai_version(t);
    return t;
}

fa_tensor *fa_exponential_(fa_tensor *t, double lambda, fa_generator *generator) {
    return filled("exponential_", t, &(law){.kind = EXPONENTIAL, .lambda = lambda, .generator = generator});
}
fa_tensor *fa_random_(fa_tensor *t, fa_generator *generator) {
    return filled("random_", t, &(law){.kind = ALL_INTEGERS, .generator = generator});
}
fa_tensor *fa_random_range_(fa_tensor *t, int64_t low, int64_t high, fa_generator *generator) {
    return filled("random_", t, &(law){.kind = SOME_INTEGERS, .low = low, .high = high, .generator = generator});
}
