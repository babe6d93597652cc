/* The table of torch.cuda.memory_summary: the same rows, widths and units. A column's unit is that of its first row in each group, the
 * largest in which that number has at least 750 of the next smaller. */
#include "inside.h"
#include <string.h>

typedef struct writer { char *out; size_t n, used; } writer;

static void add(writer *w, const char *format, ...) FA_PRINTF(2, 3);
static void add(writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t room = w->used < w->n ? w->n - w->used : 0;
    int more = vsnprintf(room ? w->out + w->used : NULL, room, format, arguments);
    va_end(arguments);
    w->used += (size_t)(more > 0 ? more : 0);
}

static void line(writer *w, char c) {
    char text[76];
    memset(text, c, 75);
    text[75] = 0;
    add(w, "|%s|\n", text);
}

enum { COLUMNS = 4 };
static uint64_t column(const fa_memory_count *c, int i) {
    return i == 0 ? c->current : i == 1 ? c->peak : i == 2 ? c->allocated : c->freed;
}

typedef struct units { uint64_t divisor; const char *name; } units;

static units unit_of(uint64_t value, bool bytes) {
    static const char *const of_bytes[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"}, *const of_counts[] = {" ", "K", "M"};
    uint64_t step = bytes ? 1024 : 1000;
    units u = {1, bytes ? of_bytes[0] : of_counts[0]};
    for (int i = 1; i < (bytes ? 6 : 3) && value >= 750 * step; i++, value /= step) {
        u.divisor *= step;
        u.name = bytes ? of_bytes[i] : of_counts[i];
    }
    return u;
}

static void row(writer *w, const char *name, const fa_memory_count *c, const units unit[COLUMNS], bool bytes) {
    add(w, "| %-21s |", name);
    for (int i = 0; i < COLUMNS; i++) {
        unsigned long long value = column(c, i) / unit[i].divisor;
        if (bytes) add(w, " %6llu %s |", value, unit[i].name);
        else add(w, " %7llu %s  |", value, unit[i].name);
    }
    add(w, "\n");
}

static void group(writer *w, const char *name, const fa_memory_count *c, bool bytes, bool pools) {
    units unit[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) unit[i] = unit_of(column(c, i), bytes);
    line(w, '-');
    row(w, name, c, unit, bytes);
    if (!pools) return;
    row(w, "      from large pool", &c[FA_POOL_LARGE], unit, bytes);
    row(w, "      from small pool", &c[FA_POOL_SMALL], unit, bytes);
}

size_t fai_memory_table(const fa_memory_stats *s, fa_device device, bool abbreviated, char *out, size_t n) {
    writer w = {out, n, 0};
    char kind[16], title[64];
    fai_type_upper(kind, device.type);
    snprintf(title, sizeof title, "PyTorch %s memory summary, device ID %d", kind, device.index);
    if (n) out[0] = 0;
    line(&w, '=');
    add(&w, "|                  %-57s|\n", title);
    line(&w, '-');
    add(&w, "|%16s OOMs: %-12llu |%18s retries: %-8llu  |\n", kind, (unsigned long long)s->num_ooms,
        device.type == FA_DEVICE_CUDA ? "cudaMalloc" : "malloc", (unsigned long long)s->num_alloc_retries);
    line(&w, '=');
    add(&w, "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n");
    group(&w, "Allocated memory", s->allocated_bytes, true, !abbreviated);
    group(&w, "Active memory", s->active_bytes, true, !abbreviated);
    group(&w, "Requested memory", s->requested_bytes, true, !abbreviated);
    group(&w, "GPU reserved memory", s->reserved_bytes, true, !abbreviated);
    group(&w, "Non-releasable memory", s->inactive_split_bytes, true, !abbreviated);
    group(&w, "Allocations", s->allocation, false, !abbreviated);
    group(&w, "Active allocs", s->active, false, !abbreviated);
    group(&w, "GPU reserved segments", s->segment, false, !abbreviated);
    group(&w, "Non-releasable allocs", s->inactive_split, false, !abbreviated);
    group(&w, "Oversize allocations", &s->oversize_allocations, false, false);
    group(&w, "Oversize GPU segments", &s->oversize_segments, false, false);
    line(&w, '=');
    return w.used;
}

size_t fa_memory_summary(fa_device device, bool abbreviated, char *out, size_t n) {
    fa_memory_stats stats;
    if (n) out[0] = 0;
    if (!fa_memory_get_stats(device, &stats)) return 0;
    return fai_memory_table(&stats, fai_dev_find(device)->name, abbreviated, out, n);
}
