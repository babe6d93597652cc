/* FACULA_FALLBACK=cpu: a kernel that a device has not, or can't compute (its compiler refuses the text, its plug-in lacks the kernel, it
 * has no float64), runs on the CPU instead. The bytes that the kernel may touch are copied to the host, the CPU's form of the same
 * kernel runs over them, and what it writes is copied back: slow, and the same bits where a device promises the CPU's. It happens only
 * when asked for; each operation is told of once and counted. */
#include "ops.h"
#include "../../kernels/status.h"
#include "../backends/cpu/cpu.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 }; /* operations that are counted one by one; the rest are one */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fa_fallback_info counted[MOST];
static int ncounted;

bool fa_fallback_get(int number, fa_fallback_info *out) {
    memset(out, 0, sizeof *out);
    pthread_mutex_lock(&lock);
    const bool there = number >= 0 && number < ncounted;
    if (there) *out = counted[number];
    pthread_mutex_unlock(&lock);
    return there;
}

uint64_t fa_fallback_count(void) {
    uint64_t total = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ncounted; i++) total += counted[i].count;
    pthread_mutex_unlock(&lock);
    return total;
}

/* Returns whether it is the first time. */
static bool count(const char *op, fa_device device, const char *reason) {
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < ncounted && (strncmp(counted[i].op, op, sizeof counted[i].op - 1) || !fa_device_equal(counted[i].device, device))) i++;
    const bool first = i == ncounted && ncounted < MOST;
    if (first) {
        snprintf(counted[i].op, sizeof counted[i].op, "%s", ncounted == MOST - 1 ? "others" : op);
        counted[i].device = device;
        snprintf(counted[i].reason, sizeof counted[i].reason, "%s", reason);
        ncounted++;
    }
    counted[i < MOST ? i : MOST - 1].count++;
    pthread_mutex_unlock(&lock);
    return first;
}

static bool is_on(void) {
    static atomic_int known; /* 0: not read yet, 1: off, 2: on */
    int state = atomic_load(&known);
    if (state) return state == 2;
    const char *text = getenv("FACULA_FALLBACK");
    state = text && !strcmp(text, "cpu") ? 2 : 1;
    if (text && *text && state == 1)
        fai_warn("fallback", "FACULA_FALLBACK='%.40s' is not understood, and nothing falls back: write FACULA_FALLBACK=cpu", text);
    atomic_store(&known, state);
    return state == 2;
}

/* ---- host memory in place of the device's ---- */

typedef struct mirror {
    fai_buffer *buffer;
    int64_t low, high; /* the bytes of it that are here */
    char *memory;
    bool writes;
} mirror;

typedef struct work {
    const char *op;
    fa_plan *plan;
    fai_buffer *const *buffers;
    const int64_t *offsets;
    mirror parts[8];
    int nparts, of[8];      /* which part is operand k's; -1: none */
    fai_buffer *entries[8]; /* for an operand that is a table: the memory behind each entry, as buffers */
    char **behind[8];       /* and here */
} work;

static int64_t entries_of(const work *w, int k) {
    return w->plan->view[k].kind == FA_VIEW_TABLE && w->of[k] >= 0 ? w->plan->view[k].size[0] : 0;
}

/* One part for each buffer, as wide as all its operands together. */
static void find_parts(work *w) {
    for (int k = 0; k < 8; k++) {
        const fa_plan_view *view = &w->plan->view[k];
        w->of[k] = -1;
        if (!w->buffers[k] || view->kind == FA_VIEW_NONE || view->kind == FA_VIEW_SCALAR) continue;
        const int64_t low = w->offsets[k] + view->low, high = w->offsets[k] + view->high;
        int i = 0;
        while (i < w->nparts && w->parts[i].buffer != w->buffers[k]) i++;
        mirror *m = &w->parts[i];
        if (i == w->nparts) *m = (mirror){.buffer = w->buffers[k], .low = low, .high = high}, w->nparts++;
        if (low < m->low) m->low = low;
        if (high > m->high) m->high = high;
        m->writes |= view->writes && view->kind != FA_VIEW_TABLE;
        w->of[k] = i;
    }
}

static bool load(work *w, mirror *m) {
    const size_t bytes = (size_t)(m->high - m->low);
    if (!bytes) return true;
    if (!(m->memory = fai_alloc_aligned(FAI_TAG_DATA, bytes))) return fai_fail_memory(w->op, bytes);
    return fai_copy_to_host(m->memory, m->buffer, (size_t)m->low, bytes, w->op);
}

static char *place(const work *w, int k) {
    if (w->of[k] < 0 || !w->parts[w->of[k]].memory) return NULL;
    return w->parts[w->of[k]].memory + (w->offsets[k] - w->parts[w->of[k]].low);
}

/* A table's entries name memory of the device; here each gets a copy of it. */
static bool load_table(work *w, int k) {
    const size_t n = (size_t)entries_of(w, k);
    fa_table_entry *table = (fa_table_entry *)(void *)place(w, k);
    if (!n || !table) return true;
    w->entries[k] = fai_calloc(FAI_TAG_OTHER, n * sizeof(fai_buffer));
    w->behind[k] = fai_calloc(FAI_TAG_OTHER, n * sizeof(char *));
    if (!w->entries[k] || !w->behind[k]) return fai_fail_memory(w->op, n * sizeof(fai_buffer));
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = (size_t)table[i].bytes;
        if (!table[i].address || !bytes) continue;
        fai_buffer *b = &w->entries[k][i];
        b->device = w->buffers[k]->device;
        b->address = (uint64_t)table[i].address;
        b->bytes = b->room = bytes;
        if (!(w->behind[k][i] = fai_alloc_aligned(FAI_TAG_DATA, bytes))) return fai_fail_memory(w->op, bytes);
        if (!fai_copy_to_host(w->behind[k][i], b, 0, bytes, w->op)) return false;
        table[i].address = (fa_i64)(uintptr_t)w->behind[k][i];
    }
    return true;
}

static bool store(work *w) {
    for (int i = 0; i < w->nparts; i++) {
        const mirror *m = &w->parts[i];
        if (m->writes && m->memory && !fai_copy_to_device(m->buffer, (size_t)m->low, m->memory, (size_t)(m->high - m->low), w->op)) return false;
    }
    for (int k = 0; k < 8; k++)
        for (int64_t i = 0; w->behind[k] && w->plan->view[k].writes && i < entries_of(w, k); i++)
            if (w->behind[k][i] && !fai_copy_to_device(&w->entries[k][i], 0, w->behind[k][i], w->entries[k][i].bytes, w->op)) return false;
    return true;
}

static void let_go(work *w) {
    for (int k = 0; k < 8; k++) {
        const size_t n = (size_t)entries_of(w, k);
        for (size_t i = 0; w->behind[k] && i < n; i++)
            if (w->behind[k][i]) fai_free_aligned(FAI_TAG_DATA, w->behind[k][i], w->entries[k][i].bytes);
        if (w->behind[k]) fai_free(FAI_TAG_OTHER, w->behind[k], n * sizeof(char *));
        if (w->entries[k]) fai_free(FAI_TAG_OTHER, w->entries[k], n * sizeof(fai_buffer));
    }
    for (int i = 0; i < w->nparts; i++)
        if (w->parts[i].memory) fai_free_aligned(FAI_TAG_DATA, w->parts[i].memory, (size_t)(w->parts[i].high - w->parts[i].low));
}

/* The words that kernels set on a bad index are looked at here: the waits that look at the device's have passed. */
static bool indices_are_right(work *w) {
    for (int i = 0; i < w->nparts; i++) {
        const mirror *m = &w->parts[i];
        if (!m->writes || m->high - m->low != FA_STATUS_WORDS * (int64_t)sizeof(int64_t) || m->buffer != fai_device_status(m->buffer->device, w->op)) continue;
        int64_t words[FA_STATUS_WORDS];
        memcpy(words, m->memory, sizeof words);
        if (words[0]) return fai_fail_status(w->op, words);
    }
    return true;
}

static bool run(work *w, int kernel) {
    char *pointers[8];
    find_parts(w);
    for (int i = 0; i < w->nparts; i++)
        if (!load(w, &w->parts[i])) return false;
    for (int k = 0; k < 8; k++)
        if (!load_table(w, k)) return false;
    for (int k = 0; k < 8; k++) pointers[k] = place(w, k);
    fai_cpu_table()[kernel](w->plan, pointers);
    return !fai_halted() && indices_are_right(w) && store(w);
}

/* The first sentence of an error says enough. */
static void first_sentence(char *text) {
    char *end = strstr(text, ". This happened"), *line = strchr(text, '\n');
    if (line && (!end || line < end)) end = line;
    if (end) *end = 0;
}

/* After a launch that failed. pending: an error was there before it. */
bool fai_fall_back(fa_device device, int kernel, fa_plan *plan, fai_buffer *const buffers[8], const int64_t offsets[8], const char *op,
                   bool pending) {
    const fa_error *error = pending ? NULL : fa_error_peek();
    if (!is_on() || !fai_device_lacks(device, kernel) || !fai_cpu_table()[kernel] || (error && error->code == FA_ERR_MEMORY)) return false;
    char reason[sizeof counted[0].reason];
    snprintf(reason, sizeof reason, "%.399s", error ? error->text : "it has no such kernel");
    first_sentence(reason);
    if (error) fa_error_take();
    if (count(op, device, reason))
        fai_warn(op, "%s can't compute this (%s). FACULA_FALLBACK=cpu lets the CPU do it, with copies there and back, which is slow. "
                     "Told once for each operation; fa_fallback_get counts them", fa_device_text(device), reason);
    work w = {.op = op, .plan = plan, .buffers = buffers, .offsets = offsets};
    const bool ok = run(&w, kernel);
    let_go(&w);
    return ok;
}
