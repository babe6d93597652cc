/* The loader: an order of the samples for each epoch, cut into batches.
 *
 * Random numbers are drawn as PyTorch's DataLoader and RandomSampler draw them. An epoch first takes one int64 from the loader's
 * generator (there it seeds worker processes; here it only keeps the sequence the same). A shuffled epoch then permutes with that
 * generator, or, if none was given, with a new one that is seeded by another int64 from the default generator. When the sampler
 * there is asked for more than it has, it permutes once more and throws the result away; a generator of the user's sees that. */
#include "data.h"
#include "../ops/random.h"
#include <string.h>

struct fa_loader {
    fai_object object;
    fa_dataset *dataset;
    fa_loader_options options;
    fa_tensor *order; /* of this epoch; NULL where samples come as they are */
    int64_t given;    /* batches of this epoch */
    bool running;
    bool drained; /* the draws of this epoch's end are made */
};

static void destroy_loader(void *object) {
    fa_loader *l = object;
    fai_unref(l->dataset);
    fai_unref(l->options.generator);
    fai_unref(l->order);
    fai_free(FAI_TAG_OBJECT, l, sizeof *l);
}

__attribute__((constructor)) static void set_up(void) { fai_set_destructor(FAI_LOADER, destroy_loader); }

static bool check_options(const fa_dataset *d, const fa_loader_options *o) {
    if (o->batch_size < 1)
        return fai_fail(FA_ERR_VALUE, "loader", "batch_size should be a positive integer value, but got batch_size=%lld",
                        (long long)o->batch_size);
    if (o->shuffle && fa_dataset_length(d) == 0)
        return fai_fail(
            FA_ERR_VALUE, "loader",
            "num_samples should be a positive integer value, but got num_samples=0: an empty dataset can't be shuffled");
    if (o->generator && o->generator->device.type != FA_DEVICE_CPU)
        return fai_fail(FA_ERR_RUNTIME, "loader",
                        "Expected a 'cpu' device type for generator but found '%s'; make one by fa_generator_new(FA_CPU)",
                        fa_device_text(fa_device_of_type(o->generator->device.type, -1)));
    return true;
}

fa_loader *fa_loader_with(fa_dataset *dataset, const fa_loader_options *options) {
    fa_loader_options o = {.struct_size = sizeof o, FA_LOADER_DEFAULTS};
    if (options) memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    if (!fai_dataset_check("loader", dataset) || !check_options(dataset, &o)) return NULL;
    fa_loader *l = fai_calloc(FAI_TAG_OBJECT, sizeof *l);
    if (!l) return fai_fail_memory("loader", sizeof *l);
    fai_object_init(l, FAI_LOADER);
    l->dataset = fai_ref(dataset);
    l->options = o;
    fai_ref(o.generator);
    return fai_scope_add(l, "loader") ? l : NULL;
}

int64_t fa_loader_length(const fa_loader *l) {
    if (!l) return 0;
    const int64_t n = fa_dataset_length(l->dataset), size = l->options.batch_size;
    return n / size + (!l->options.drop_last && n % size != 0);
}

int64_t fa_loader_position(const fa_loader *l) { return l ? l->given : 0; }

/* ---- epochs ---- */

static bool draw_int64(fa_generator *g, int64_t *value) {
    fa_tensor *t = fai_empty("next", FA_INT64, FA_CPU, 0, NULL);
    if (!t || !fai_fill_random_full("next", t, g)) return false;
    *value = *(int64_t *)fai_host(t);
    return true;
}

static fa_tensor *draw_order(const fa_loader *l) {
    const int64_t n = fa_dataset_length(l->dataset);
    fa_generator *g = l->options.generator;
    if (!g) {
        int64_t seed;
        if (!draw_int64(NULL, &seed) || !(g = fa_generator_new(FA_CPU)) || !fa_generator_seed(g, (uint64_t)seed)) return NULL;
    }
    fa_tensor *order = fai_empty("next", FA_INT64, FA_CPU, 1, &n);
    if (!order || !fai_fill_randperm("next", order, g)) return NULL;
    return fa_to(order, fai_dataset_device(l->dataset)); /* once for all batches of the epoch */
}

static bool begin_epoch(fa_loader *l) {
    FA_SCOPE;
    FA_NO_GRAD;
    int64_t unused;
    fa_tensor *order = NULL;
    if (!draw_int64(l->options.generator, &unused)) return false;
    if (l->options.shuffle && !(order = draw_order(l))) return false;
    fai_unref(l->order);
    l->order = fai_ref(order);
    l->given = 0;
    l->running = true;
    l->drained = false;
    return true;
}

/* What PyTorch's sampler draws when it has no more samples. */
static bool drain(fa_loader *l) {
    FA_SCOPE;
    if (l->drained || !l->options.shuffle || !l->options.generator) return true;
    return l->drained = fa_randperm(fa_dataset_length(l->dataset), .generator = l->options.generator, .device = FA_CPU) != NULL;
}

static bool end_epoch(fa_loader *l) {
    if (!drain(l)) return false;
    l->running = false;
    fai_unref(l->order);
    l->order = NULL;
    return false;
}

static bool make_batch(fa_loader *l, int64_t begin, int64_t n, fa_tensor **batch) {
    if (l->order) return fai_dataset_gather(l->dataset, fa_narrow(l->order, 0, begin, n), batch);
    return fai_dataset_range(l->dataset, begin, n, batch);
}

bool fa_next(fa_loader *l, fa_tensor **fields) {
    if (!l) {
        if (!fa_failed())
            fai_fail(FA_ERR_TYPE, "next",
                     "argument 'loader' is NULL: a loader is needed, from fa_loader(dataset, .batch_size = 32) for example");
        return false;
    }
    if (fai_refuse_pending("next") || (!l->running && !begin_epoch(l))) return false;
    if (l->given >= fa_loader_length(l)) return end_epoch(l);
    const int64_t size = l->options.batch_size, begin = l->given * size, rest = fa_dataset_length(l->dataset) - begin;
    fa_tensor *batch[FA_MAX_FIELDS] = {NULL};
    FA_SCOPE;
    if (!make_batch(l, begin, rest < size ? rest : size, batch) || (rest < size && !drain(l))) return false;
    for (int k = 0; k < fai_dataset_fields(l->dataset); k++) fields[k] = fai_return(batch[k]);
    l->given++;
    return true;
}
