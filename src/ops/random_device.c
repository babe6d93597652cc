/* Random numbers on accelerators: Philox, whose state is a seed and how far it has been used. Every thread of a launch draws
 * from a counter of its own, so what an element gets depends on its place, the seed, the offset and, for tensors larger than a
 * launch, on the device's size: the launch has torch's shape, so that the numbers are torch's. A launch that a graph repeats counts from
 * where the generator is at each replay, which it finds in memory. */
#include "ops.h"
#include "random.h"
#include <math.h>

enum { GROUP_SIZE = 256 };

/* Groups of a launch over n elements: as many as the device runs at once, at most. */
static int64_t launch_groups(fa_device device, int64_t n) {
    fa_device_properties properties;
    if (!fa_device_get_properties(device, &properties)) return 0;
    int64_t most = (int64_t)properties.multiprocessors * (properties.threads_per_multiprocessor / GROUP_SIZE);
    int64_t wanted = (n + GROUP_SIZE - 1) / GROUP_SIZE;
    if (most < 1) most = 1;
    return wanted < most ? wanted : most;
}

/* Where the numbers of a launch come from: the generator itself, or, of work that goes into a graph, its words there. */
typedef struct origin {
    uint64_t *offset;
    fa_tensor *words;
} origin;

/* What a launch uses up of a thread's stream, which is the same for all threads. */
static void advance(const origin *from, int64_t n, int64_t groups, int draws) {
    *from->offset += (uint64_t)((n - 1) / (groups * GROUP_SIZE * draws) + 1) * 4;
}

static bool find_origin(const char *op, fa_generator *g, fa_device device, origin *out) {
    *out = (origin){.offset = &g->offset};
    if (FAI_LIKELY(!fai_capturing(device))) return true;
    fai_buffer *words = fai_graph_generator(device, g, &out->offset, op);
    if (words) out->words = fai_tensor_of_words(op, words, 2);
    return out->words != NULL;
}

static void plan_draws(fa_plan *plan, fa_tensor *t, const fa_generator *g, const origin *from, int group, int64_t groups) {
    fai_plan_begin(plan);
    if (from->words) fai_plan_view(plan, 7, from->words, false);
    fai_plan_view(plan, 0, t, true);
    plan->view[0].ndim = fai_draw_order(t, (int64_t *)plan->view[0].size, (int64_t *)plan->view[0].stride);
    plan->numel = t->numel;
    plan->groups = groups;
    plan->n[0] = (fa_i64)g->seed;
    plan->n[1] = (fa_i64)(*from->offset / 4);
    plan->n[2] = group;
}

static int float_kernel(fai_law law, bool is_double) {
    switch (law) {
    case FAI_LAW_UNIFORM: return is_double ? FAI_K_uniform_f64 : FAI_K_uniform_f32;
    case FAI_LAW_NORMAL: return is_double ? FAI_K_normal_f64 : FAI_K_normal_f32;
    case FAI_LAW_BERNOULLI: return is_double ? FAI_K_bernoulli_f64 : FAI_K_bernoulli_f32;
    case FAI_LAW_EXPONENTIAL: return is_double ? FAI_K_exponential_f64 : FAI_K_exponential_f32;
    case FAI_LAW_INTEGER: break;
    }
    return FAI_K_randint;
}

bool fai_draw_device(const char *op, const fai_draw *draw, fa_tensor *t, fa_generator *g) {
    int64_t groups = launch_groups(t->device, t->numel);
    if (groups == 0) return false;
    fa_plan plan;
    origin from;
    if (!find_origin(op, g, t->device, &from)) return false;
    plan_draws(&plan, t, g, &from, draw->group, groups);
    plan.f[0] = draw->a;
    plan.f[1] = draw->b;
    plan.n[3] = draw->base;
    plan.n[4] = (fa_i64)draw->range;
    plan.n[5] = draw->wide;
    bool wide = draw->law == FAI_LAW_INTEGER ? draw->wide : t->dtype == FA_FLOAT64;
    const bool ok = fai_run(float_kernel(draw->law, wide), &plan, (fa_tensor *[8]){[0] = t, [7] = from.words}, 8, op);
    if (ok) advance(&from, t->numel, groups, wide ? 2 : 4);
    if (from.words) fa_drop(from.words);
    return ok;
}

/* ---- Permutations: sorted random keys. So many bits of a key count that all differ with probability 0.9. ---- */

static int key_bits(int64_t n) {
    double many = (double)n, bits = ceil(log2(many - (6.0 * many * many + 1.0) / (12.0 * log(0.9))));
    return bits < 64.0 ? (int)bits : 64;
}

static bool permute(const char *op, fa_tensor *t, fa_tensor *keys, fa_tensor *index, fa_generator *g) {
    int64_t half = t->numel, one = 1;
    fa_tensor *drawn = fai_view(op, keys, 1, &half, &one, 0);
    if (drawn == NULL) return false;
    int bits = key_bits(half);
    fai_draw draw = {.law = FAI_LAW_INTEGER, .range = bits <= 32 ? UINT32_MAX : UINT64_MAX, .wide = true, .group = 1};
    bool ok = fai_draw_device(op, &draw, drawn, g);
    fa_drop(drawn);
    if (!ok) return false;
    fa_plan plan;
    origin from;
    if (!find_origin(op, g, t->device, &from)) return false;
    plan_draws(&plan, t, g, &from, 1, 1);
    fai_plan_view(&plan, 1, keys, true);
    fai_plan_view(&plan, 2, index, true);
    plan.n[3] = bits;
    ok = fai_run(FAI_K_permute, &plan, (fa_tensor *[8]){t, keys, index, [7] = from.words}, 8, op);
    if (ok) *from.offset += (uint64_t)((half + 3) / 4 * 4);
    if (from.words) fa_drop(from.words);
    return ok;
}

bool fai_permute_device(const char *op, fa_tensor *t, fa_generator *g) {
    int64_t twice = 2 * t->numel;
    if (t->numel == 0) return true;
    if (t->numel > UINT32_MAX)
        return fai_fail(FA_ERR_UNSUPPORTED, op,
                        "n is %lld; permutations made on an accelerator have at most %u numbers, larger ones are made "
                        "on the CPU and moved",
                        (long long)t->numel, (unsigned)UINT32_MAX);
    uint64_t offset = g->offset;
    fa_tensor *keys = fai_empty(op, FA_INT64, t->device, 1, &twice);
    fa_tensor *index = keys == NULL ? NULL : fai_empty(op, FA_INT64, t->device, 1, &twice);
    bool ok = index != NULL && permute(op, t, keys, index, g);
    if (!ok) g->offset = offset;
    fa_drop(index);
    fa_drop(keys);
    return ok;
}
