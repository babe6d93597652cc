/* Random generators: which ones there are and how they are seeded. The CPU's is a Mersenne Twister (mt19937.c), an
 * accelerator's a pair of numbers (seed, offset) for Philox; who draws from them lives on the floor of ops.
 *
 * Default generators start from a seed of the system's. fa_manual_seed reaches devices that are not open yet: the seed is
 * kept for the moment when their generator is made. */
#include "inside.h"
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define DEFAULT_SEED UINT64_C(67280421310721) /* of torch.Generator() */
#define FOREVER ((int64_t)1 << 48)            /* a count of references that no fa_drop brings to 0 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* around everything that reads or moves a generator */
static fa_generator cpu_generator;
static bool cpu_ready, seed_given;
static uint64_t given_seed;

void fai_generators_lock(void) { pthread_mutex_lock(&lock); }
void fai_generators_unlock(void) { pthread_mutex_unlock(&lock); }

static uint64_t seed_of_the_system(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed) return seed;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return fai_hash(&now, sizeof now, (uint64_t)(uintptr_t)&now);
}

static void set_seed(fa_generator *g, uint64_t seed) {
    g->seed = seed;
    g->offset = 0;
    if (g->device.type == FA_DEVICE_CPU) fai_mt19937_seed(&g->mt, seed);
}

static void make_default(fa_generator *g, fa_device device) {
    fai_object_init(g, FAI_GENERATOR);
    g->object.refs = FOREVER;
    g->device = device;
    set_seed(g, seed_given ? given_seed : seed_of_the_system());
}

static void destroy(void *object) { fai_free(FAI_TAG_OBJECT, object, sizeof(fa_generator)); }

fa_generator *fa_generator_new(fa_device device) {
    fai_set_destructor(FAI_GENERATOR, destroy);
    if (!fai_device_resolve(&device, "generator")) return NULL;
    fa_generator *g = fai_calloc(FAI_TAG_OBJECT, sizeof *g);
    if (!g) return fai_fail_memory("generator", sizeof *g);
    fai_object_init(g, FAI_GENERATOR);
    g->device = device;
    set_seed(g, DEFAULT_SEED);
    return fai_scope_add(g, "generator") ? g : NULL;
}

/* A replay goes on from wherever the generator is then, so what a capture does to it would be lost. In torch's words. */
static bool may_seed(const fa_generator *g, uint64_t seed, const char *op) {
    if (FAI_LIKELY(!fai_capturing(g->device)) || g->seed == seed) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as the original seed. It is %llu, and %llu was "
                    "given: seed before a replay instead, each replay begins where the generator is then",
                    (unsigned long long)g->seed, (unsigned long long)seed);
}

bool fai_generator_at_rest(const fa_generator *g, const char *op) {
    if (FAI_LIKELY(!fai_capturing(g->device))) return true;
    return fai_fail(FA_ERR_RUNTIME, op,
                    "Cannot call CUDAGeneratorImpl::%s during CUDA graph capture: where a replay begins is known at the replay. Do it before or after; "
                    "checkpoint needs preserve_rng_state=False here",
                    op);
}

/* Of a capture: what it has drawn so far is no number of the generator's own. */
static void seed_one(fa_generator *g, uint64_t seed) {
    if (!fai_capturing(g->device)) set_seed(g, seed);
}

bool fa_generator_seed(fa_generator *generator, uint64_t seed) {
    if (!generator) {
        if (fa_failed()) return false;
        return fai_fail(FA_ERR_TYPE, "generator_seed",
                        "generator must not be NULL; make one with fa_generator_new(device) or take fa_default_generator");
    }
    if (fai_refuse_pending("generator_seed") || !may_seed(generator, seed, "generator_seed")) return false;
    pthread_mutex_lock(&lock);
    seed_one(generator, seed);
    pthread_mutex_unlock(&lock);
    return true;
}

uint64_t fa_initial_seed(fa_generator *generator) {
    if (generator) {
        pthread_mutex_lock(&lock);
        uint64_t seed = generator->seed;
        pthread_mutex_unlock(&lock);
        return seed;
    }
    if (!fa_failed()) fai_fail(FA_ERR_TYPE, "initial_seed", "generator must not be NULL; make one with fa_generator_new(device)");
    return 0;
}

static fa_generator *default_of_cpu(void) {
    pthread_mutex_lock(&lock);
    if (!cpu_ready) make_default(&cpu_generator, FA_CPU);
    cpu_ready = true;
    pthread_mutex_unlock(&lock);
    return &cpu_generator;
}

static fa_generator *default_of_device(fai_dev *dev) {
    pthread_mutex_lock(&lock);
    if (!dev->generator && (dev->generator = fai_calloc(FAI_TAG_OTHER, sizeof *dev->generator)))
        make_default(dev->generator, dev->name);
    fa_generator *g = dev->generator;
    pthread_mutex_unlock(&lock);
    return g ? g : fai_fail_memory("default_generator", sizeof *g);
}

fa_generator *fa_default_generator(fa_device device) {
    if (!fai_device_resolve(&device, "default_generator")) return NULL;
    if (device.type == FA_DEVICE_CPU) return default_of_cpu();
    return default_of_device(fai_dev_find(device));
}

void fa_manual_seed(uint64_t seed) {
    fa_generator *cpu = default_of_cpu();
    fai_dev *dev;
    for (int i = 0; (dev = fai_dev_number(i)); i++)
        if (dev->generator && !may_seed(dev->generator, seed, "manual_seed")) return;
    pthread_mutex_lock(&lock);
    seed_given = true;
    given_seed = seed;
    set_seed(cpu, seed);
    for (int i = 0; (dev = fai_dev_number(i)); i++)
        if (dev->generator) seed_one(dev->generator, seed);
    pthread_mutex_unlock(&lock);
}
