/* Would a smaller batch have fitted? Told only where it follows from what was seen: the most bytes that were live during a training step,
 * for two sizes of the batch that ran through, each twice in a row (so that what the step before left behind is of the same size), with
 * rows of the same sizes for the same model and optimizer.
 * Between and beyond them need is a straight line of the number of rows: parameters, their gradients and states do not depend on it, the rest is in
 * proportion to it. A step ends with the optimizer's; its rows are the first dimension of what the first module with parameters gets, or the
 * first operation on a parameter: the call is noted before anything in it can run out of memory.
 *
 * What the allocator rounds up and what lies idle between blocks is not known beforehand. So two sizes are told: one that fits with room for
 * that, and one of which the live buffers alone would be too many. */
#include "inside.h"
#include <string.h>

enum { SLACK_PART = 16 };
#define SLACK ((uint64_t)22 << 20) /* one begun segment of each shared kind */

bool fai_memory_wants_rows(fa_device device) {
    fai_dev *dev = fai_dev_find(device);
    return dev && !__atomic_load_n(&dev->step.rows, __ATOMIC_RELAXED);
}

void fai_memory_rows(fa_device device, int64_t rows, uint64_t what) {
    fai_dev *dev = fai_dev_find(device);
    if (!dev || __atomic_load_n(&dev->step.rows, __ATOMIC_RELAXED)) return; /* nearly always, and then without the lock */
    pthread_mutex_lock(&dev->memory_lock);
    if (!dev->step.rows) {
        dev->step.kind.what = what;
        __atomic_store_n(&dev->step.rows, rows, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&dev->memory_lock);
}

static bool same(fai_step_sort a, fai_step_sort b) { return a.what == b.what && a.optimizer == b.optimizer; }

/* The lock is held. The larger one stands second. */
static void remember(fai_steps *s, fai_step_seen seen) {
    if (!same(s->kind, s->seen_kind)) memset(s->seen, 0, sizeof s->seen);
    s->seen_kind = s->kind;
    for (int i = 0; i < 2; i++)
        if (s->seen[i].rows == seen.rows) {
            s->seen[i] = seen;
            return;
        }
    if (seen.rows > s->seen[1].rows) s->seen[0] = s->seen[1], s->seen[1] = seen;
    else if (seen.rows > s->seen[0].rows) s->seen[0] = seen;
}

static void end_step(fai_dev *dev, const void *optimizer) {
    fai_steps *s = &dev->step;
    pthread_mutex_lock(&dev->memory_lock);
    const uint64_t live = dev->stats.allocated_bytes[FA_POOL_ALL].current;
    s->kind.optimizer = optimizer;
    if (s->rows && s->rows == s->rows_before && same(s->kind, s->kind_before) && s->count > 0) remember(s, (fai_step_seen){s->rows, s->peak, s->begin});
    s->rows_before = s->rows;
    s->kind_before = s->kind;
    __atomic_store_n(&s->rows, 0, __ATOMIC_RELAXED);
    s->peak = s->begin = live;
    s->count++;
    pthread_mutex_unlock(&dev->memory_lock);
}

void fai_memory_step(const void *optimizer) {
    fai_dev *dev;
    for (int i = 0; (dev = fai_dev_number(i)); i++)
        if (atomic_load(&dev->touched) && !fai_forked_child()) end_step(dev, optimizer);
}

/* Live bytes that a step with so many rows needs at its most. */
static double need(const fai_steps *s, double rows) {
    const double slope = ((double)s->seen[1].peak - (double)s->seen[0].peak) / (double)(s->seen[1].rows - s->seen[0].rows);
    return (double)s->seen[1].peak + slope * (rows - (double)s->seen[1].rows);
}

static int64_t last_below(const fai_steps *s, double bytes, int64_t most) {
    int64_t low = 0, high = most;
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        if (need(s, (double)middle) <= bytes) low = middle;
        else high = middle - 1;
    }
    return low;
}

void fai_tell_batch(fai_dev *dev, uint64_t capacity, fai_text *out) {
    pthread_mutex_lock(&dev->memory_lock);
    const fai_steps s = dev->step;
    dev->step.rows_before = 0; /* this step's peak is of no use; and if it is tried again, then with rows of its own */
    __atomic_store_n(&dev->step.rows, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&dev->memory_lock);
    const int64_t rows = s.rows;
    if (!rows || !s.seen[0].rows || !same(s.kind, s.seen_kind)) return;
    if (rows <= s.seen[1].rows) {
        if (rows == s.seen[1].rows)
            fai_text_add(out, " Steps of %lld rows fitted before: what is held besides them has grown.", (long long)rows);
        return;
    }
    if (need(&s, (double)rows) <= (double)capacity || s.seen[1].peak <= s.seen[0].peak) return; /* it should have fitted: another cause */
    if (s.begin > s.seen[1].begin + s.seen[1].begin / SLACK_PART + SLACK) return;             /* more is held than when it was measured */
    const double room = (double)capacity - (double)SLACK - (double)capacity / SLACK_PART;
    const int64_t fits = last_below(&s, room, rows), fails = last_below(&s, (double)capacity, rows) + 1;
    char needed[32];
    if (fits < s.seen[1].rows) return; /* no better than what ran before */
    fai_text_bytes(needed, sizeof needed, (uint64_t)need(&s, (double)rows));
    fai_text_add(out, " A batch of %lld rows needs %s, going by the steps before; one of %lld fits, one of %lld or more does not.", (long long)rows,
                 needed, (long long)fits, (long long)fails);
}
