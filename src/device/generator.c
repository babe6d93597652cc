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

bool fa_generator_seed(fa_generator *generator, uint64_t seed) {
    if (!generator) {
        if (fa_failed()) return false;
        return fai_fail(FA_ERR_TYPE, "generator_seed",
                        "generator must not be NULL; make one with fa_generator_new(device) or take fa_default_generator");
    }
    if (fai_refuse_pending("generator_seed")) return false;
    pthread_mutex_lock(&lock);
    set_seed(generator, seed);
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
    pthread_mutex_lock(&lock);
    seed_given = true;
    given_seed = seed;
    set_seed(cpu, seed);
    fai_dev *dev;
    for (int i = 0; (dev = fai_dev_number(i)); i++)
        if (dev->generator) set_seed(dev->generator, seed);
    pthread_mutex_unlock(&lock);
}
