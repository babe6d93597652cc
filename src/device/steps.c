/* Would a smaller batch have fitted? What is known of training steps: they end with the optimizer's; their rows are the first dimension of
 * what the first module with parameters gets, or the first operation on a parameter: the call is noted before anything in it can run out
 * of memory. Steps of one kind, with rows of the same sizes for the same model and optimizer, can be compared; replay.c does. */
#include "inside.h"

static void begin(fai_steps *s, uint64_t what) {
    s->begun_what = what;
    s->begun_step = s->count;
    s->begun_number = s->now.taken;
}

bool fai_memory_wants_rows(fa_device device) {
    fai_dev *dev = fai_dev_find(device);
    return dev && !__atomic_load_n(&dev->step.rows, __ATOMIC_RELAXED);
}

void fai_memory_rows(fa_device device, int64_t rows, uint64_t what) {
    fai_dev *dev = fai_dev_find(device);
    if (!dev || __atomic_load_n(&dev->step.rows, __ATOMIC_RELAXED)) return; /* nearly always, and then without the lock */
    pthread_mutex_lock(&dev->memory.lock);
    if (!dev->step.rows) {
        dev->step.kind.what = what;
        if (what != dev->step.begun_what) begin(&dev->step, what);
        __atomic_store_n(&dev->step.rows, rows, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&dev->memory.lock);
}

static void end_step(fai_dev *dev, const void *optimizer) {
    pthread_mutex_lock(&dev->memory.lock);
    dev->step.kind.optimizer = optimizer;
    fai_trace_end(&dev->step);
    __atomic_store_n(&dev->step.rows, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&dev->memory.lock);
}

void fai_memory_step(const void *optimizer) {
    fai_dev *dev;
    for (int i = 0; (dev = fai_dev_number(i)); i++)
        if (atomic_load(&dev->touched) && !fai_forked_child()) end_step(dev, optimizer);
}

static void tell(int64_t rows, const fai_replayed *r, fai_text *out) {
    const int64_t here = r->here, anew = r->anew, most = here > anew ? here : anew;
    char needed[32];
    fai_text_bytes(needed, sizeof needed, r->needed);
    fai_text_add(out, " A batch of %lld rows needs %s, going by the steps before; ", (long long)rows, needed);
    if (here == anew) fai_text_add(out, "one of %lld fits, one of %lld does not.", (long long)here, (long long)here + 1);
    else fai_text_add(out, "one of %lld fits now, one of %lld in a new run, and one of %lld in neither.", (long long)here, (long long)anew, (long long)most + 1);
}

void fai_tell_batch(fai_dev *dev, uint64_t capacity, size_t asked, fai_text *out) {
    pthread_mutex_lock(&dev->memory.lock);
    const int64_t rows = dev->step.rows;
    const bool fitted = fai_trace_has(&dev->step, rows);
    __atomic_store_n(&dev->step.rows, 0, __ATOMIC_RELAXED); /* if the step is tried again, then with rows of its own */
    pthread_mutex_unlock(&dev->memory.lock);
    const fai_replayed r = fai_replay(dev, capacity, rows, asked);
    if (fitted) fai_text_add(out, " Steps of %lld rows fitted before: what is held besides them has grown.", (long long)rows);
    else if (r.known && r.here && r.anew) tell(rows, &r, out);
}
