/* Failures by number: the n-th allocation of a piece of work fails, for n = 1, 2, ... until the work gets through without one.
 * Included once by a test. On a simulated device the driver's allocations fail too. */
#ifndef FAULTS_H
#define FAULTS_H

#include <facula.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static fa_device device;                    /* where the tests run: the first accelerator if there is one */
static int (*sim_faults)(const char *spec); /* NULL without the simulator */
static uint64_t (*sim_count)(const char *kind);

static void find_simulator(void) {
    fa_device_properties p;
    device = fa_try_accelerator(0);
    if (device.type == FA_DEVICE_CPU || !fa_device_get_properties(device, &p)) return; /* the driver is open now */
    void *simulator = dlopen("libfacula_sim.so", RTLD_NOW | RTLD_NOLOAD);
    if (!simulator) return;
    *(void **)&sim_faults = dlsym(simulator, "facula_sim_faults");
    *(void **)&sim_count = dlsym(simulator, "facula_sim_count");
}

/* ---- bits of tensors, in memory of the test's own ---- */
enum { BITS_MOST = 64 };
typedef struct bits {
    int n;
    size_t bytes[BITS_MOST];
    void *data[BITS_MOST];
} bits;

static void bits_take(bits *b, fa_tensor *const *tensors, int n) {
    memset(b, 0, sizeof *b);
    for (int i = 0; i < n && i < BITS_MOST; i++) {
        b->bytes[i] = tensors[i] ? (size_t)fa_numel(tensors[i]) * fa_dtype_size(fa_dtype_of(tensors[i])) : 0;
        b->data[i] = malloc(b->bytes[i] + 1);
        b->n = i + 1;
        if (tensors[i]) fa_to_data(tensors[i], b->data[i], fa_dtype_of(tensors[i]));
    }
}

static void bits_free(bits *b) {
    for (int i = 0; i < b->n; i++) free(b->data[i]);
    b->n = 0;
}

/* The first tensor that is not as it was, -1 if none. */
static inline int bits_differ(const bits *b, fa_tensor *const *tensors) {
    bits now;
    int where = -1;
    bits_take(&now, tensors, b->n);
    for (int i = 0; i < b->n && where < 0; i++)
        if (now.bytes[i] != b->bytes[i] || memcmp(now.data[i], b->data[i], b->bytes[i]) != 0) where = i;
    bits_free(&now);
    return where;
}

/* ---- the loop ---- */
enum { HOST_ONCE, HOST_FROM_THEN_ON, DEVICE_ONCE, DEVICE_FROM_THEN_ON, WAYS };
static const char *const way_names[WAYS] = {"once", "from then on", "on the device once", "on the device from then on"};

typedef struct scenario {
    const char *name;
    bool (*begin)(void *data); /* before, with nothing failing: makes what work changes; may be NULL */
    bool (*work)(void *data);  /* true: all of it was done, on the device too */
    void (*end)(void *data);   /* after, with nothing failing; may be NULL */
    /* After a failure, before end: false and a text if something is not as it was; may be NULL */
    const char *(*damage)(void *data);
    const char *(*result)(void *data); /* after success: the same if results are not what they always are; may be NULL */
    void *data;
    bool may_need_none; /* it may well allocate nothing */
} scenario;

static long injected, survived; /* failures made; works that got through in spite of one */
static long broken;             /* findings; each is printed */

static void finding(const scenario *s, int way, uint64_t n, const char *format, ...) FA_PRINTF(4, 5);
static void finding(const scenario *s, int way, uint64_t n, const char *format, ...) {
    va_list list;
    broken++;
    printf("FAILED %s, allocation %llu %s: ", s->name, (unsigned long long)n, way_names[way]);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
}

static void arm(int way, uint64_t n) {
    char spec[40];
    if (way == HOST_ONCE || way == HOST_FROM_THEN_ON) {
        fa_test_fail_allocation(n, way == HOST_FROM_THEN_ON);
        return;
    }
    snprintf(spec, sizeof spec, "alloc:%llu%s", (unsigned long long)n, way == DEVICE_FROM_THEN_ON ? "+" : "");
    sim_faults(spec);
}

/* How many allocations were made to fail. */
static uint64_t disarm(int way) {
    const bool host = way == HOST_ONCE || way == HOST_FROM_THEN_ON;
    const uint64_t failed = host ? fa_test_failed_allocations() : sim_count("injected");
    fa_test_fail_allocation(0, false);
    if (sim_faults) sim_faults(NULL);
    return failed;
}

typedef struct books {
    fa_memory_use host;
    uint64_t device, live;
} books;
static books read_books(void) {
    books b = {.host = fa_host_memory_use(), .device = fa_memory_allocated(device)};
    if (sim_count) b.live = sim_count("live");
    return b;
}

static void check_books(const scenario *s, int way, uint64_t n, books before) {
    if (!fa_synchronize(device))
        finding(s, way, n, "the device tells of an error afterwards: %s",
                fa_error_take().text); /* copies are held until a wait */
    const books now = read_books();
    if (now.host.bytes != before.host.bytes || now.host.blocks != before.host.blocks)
        finding(s, way, n, "%lld bytes and %lld blocks of host memory are left", (long long)(now.host.bytes - before.host.bytes),
                (long long)(now.host.blocks - before.host.blocks));
    if (now.device != before.device)
        finding(s, way, n, "%lld bytes of device memory are left", (long long)(now.device - before.device));
    if (now.live != before.live)
        finding(s, way, n, "%lld allocations of the driver are left", (long long)(now.live - before.live));
}

static void check_error(const scenario *s, int way, uint64_t n) {
    const fa_error e = fa_error_take();
    const bool right = e.code == FA_ERR_MEMORY || (e.code == FA_ERR_DEVICE_MEMORY && way >= DEVICE_ONCE);
    if (!right)
        finding(s, way, n, "error code %d of '%s': %s", e.code, e.op, e.text);
    else if (!e.op[0] || !e.text[0])
        finding(s, way, n, "an error without %s", e.op[0] ? "a text" : "the name of its function");
}

/* One failure; false when the work got through without meeting it. */
static bool one_failure(const scenario *s, int way, uint64_t n) {
    FA_SCOPE;
    if (s->begin && !s->begin(s->data)) {
        finding(s, way, n, "the work can't begin: %s", fa_error_take().text);
        return false;
    }
    arm(way, n);
    bool ok;
    {
        FA_SCOPE;
        ok = s->work(s->data);
    }
    const uint64_t failed = disarm(way);
    injected += (long)failed;
    if (ok && failed) survived++;
    const char *other = ok && s->result ? s->result(s->data) : NULL;
    if (other) finding(s, way, n, "%s", other);
    if (ok && fa_failed()) finding(s, way, n, "it was done, and an error is set: %s", fa_error_take().text);
    if (!ok && !failed)
        finding(s, way, n, "nothing failed, and the work did: %s: %s", fa_error_peek() ? fa_error_peek()->op : "",
                fa_error_take().text);
    if (!ok && failed) {
        check_error(s, way, n);
        const char *damage = s->damage ? s->damage(s->data) : NULL;
        if (damage) finding(s, way, n, "%s", damage);
    }
    if (s->end) s->end(s->data);
    return failed > 0;
}

static void without_failures(const scenario *s, int way, uint64_t n) {
    FA_SCOPE;
    bool ok = !s->begin || s->begin(s->data);
    if (ok) {
        FA_SCOPE;
        ok = s->work(s->data);
    }
    const char *other = ok && s->result ? s->result(s->data) : NULL;
    if (other) finding(s, way, n, "%s", other);
    if (!ok || fa_failed()) finding(s, way, n, "the same work does not succeed: %s", fa_error_take().text);
    if (s->end) s->end(s->data);
}

/* All failures of a scenario; false if there was none. Caches are off. */
static inline bool fail_everywhere(const scenario *s, int way) {
    const long before = injected, broken_before = broken;
    without_failures(s, way, 0); /* what is made once and stays */
    fa_synchronize(device);
    const books books_before = read_books();
    for (uint64_t n = 1; n < 100000; n++) {
        const bool met = one_failure(s, way, n);
        check_books(s, way, n, books_before);
        if (broken > broken_before + 2) break; /* said enough of this one */
        if (!met) break;
        if (n < 20 || n % 7 == 0) without_failures(s, way, n);
    }
    return injected > before;
}

#endif
