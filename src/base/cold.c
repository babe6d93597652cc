/* What a thread needs seldom, and must have even when there is no memory: its error record and texts. It does not lie in thread-local
 * storage, whose room is scarce in a library that is loaded late (a Python extension); threads take blocks from a fixed pool. */
#include "base.h"
#include <stdlib.h>
#include <string.h>

enum { POOL = 64 };

static fai_cold pool[POOL], shared; /* shared: the last resort, when 64 threads are there and memory is not */
static atomic_bool taken[POOL];
static __thread fai_cold *mine __attribute__((tls_model("initial-exec")));

static fai_cold *take(void) {
    for (int i = 0; i < POOL; i++) {
        if (atomic_exchange(&taken[i], true)) continue;
        memset(&pool[i], 0, sizeof pool[i]);
        return &pool[i];
    }
    fai_cold *more = calloc(1, sizeof *more);
    return more ? more : &shared;
}

fai_cold *fai_cold_block(void) {
    if (FAI_UNLIKELY(!mine)) {
        mine = take();
        fai_watch_thread();
    }
    return mine;
}

void fai_cold_end(void) {
    fai_cold *block = mine;
    mine = NULL;
    if (!block || block == &shared) return;
    if (block >= pool && block < pool + POOL) atomic_store(&taken[block - pool], false);
    else free(block);
}
