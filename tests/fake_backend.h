/* A backend for tests: two devices of type "fake" with 64 MiB each, whose memory is the host's. Copies and fills wait in a list
 * until somebody waits, so that a host buffer given up too early shows; launches are only counted, and can be made to fail. */
#ifndef FAKE_BACKEND_H
#define FAKE_BACKEND_H

#include "device/device.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_DEVICES = 2, FAKE_MOST = 4096 };
#define FAKE_MEMORY ((uint64_t)64 << 20)

typedef struct fake_work { fa_copy_kind kind; char *to; const char *from; int byte; size_t bytes; } fake_work;

static struct {
    pthread_mutex_t lock;
    uint64_t used[FAKE_DEVICES], segments[FAKE_DEVICES], builds;
    struct { void *address; size_t bytes; int device; } block[FAKE_MOST];
    fake_work work[FAKE_DEVICES][FAKE_MOST];
    int pending[FAKE_DEVICES], launched;
    bool lost;
    int refuse_launch, fail_wait; /* the code that the next launch or wait returns */
    int released_while_pending;
    void (*on_launch)(const fa_address pointers[8]);
    char text[256];
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .text = "FAKE error: nothing yet"};

static int fake_fail(int code, const char *text) { return snprintf(fake.text, sizeof fake.text, "%s", text) ? code : code; }
static const char *fake_error_text(void) { return fake.text; }
static void fake_close(void) {}
static int fake_open(int *count, char *why, size_t n) { if (n) why[0] = 0; *count = FAKE_DEVICES; return 0; }

static int fake_properties(int device, fa_device_properties *out) {
    snprintf(out->name, sizeof out->name, "Fake %d", device);
    out->total_memory = FAKE_MEMORY;
    out->simulated = out->has_float64 = true;
    return 0;
}

static int fake_allocate(int device, size_t bytes, fa_address *out) {
    pthread_mutex_lock(&fake.lock);
    int at = 0;
    while (at < FAKE_MOST && fake.block[at].address) at++;
    bool room = at < FAKE_MOST && fake.used[device] + bytes <= FAKE_MEMORY;
    if (room) {
        fake.block[at].address = malloc(bytes);
        fake.block[at].bytes = bytes;
        fake.block[at].device = device;
        fake.used[device] += bytes;
        fake.segments[device]++;
        *out = (fa_address)(uintptr_t)fake.block[at].address;
    }
    pthread_mutex_unlock(&fake.lock);
    return room ? 0 : fake_fail(FA_BACKEND_NO_MEMORY, "FAKE error: out of memory");
}

static int fake_release(int device, fa_address address) {
    pthread_mutex_lock(&fake.lock);
    fake.released_while_pending += fake.pending[device] > 0;
    for (int i = 0; i < FAKE_MOST; i++)
        if ((fa_address)(uintptr_t)fake.block[i].address == address) {
            free(fake.block[i].address);
            fake.block[i].address = NULL;
            fake.used[device] -= fake.block[i].bytes;
            fake.segments[device]--;
        }
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static int fake_memory_info(int device, uint64_t *free_bytes, uint64_t *total_bytes) {
    *free_bytes = FAKE_MEMORY - fake.used[device];
    *total_bytes = FAKE_MEMORY;
    return fake.lost && device == 1 ? FA_BACKEND_LOST : 0;
}

static int fake_push(int device, fake_work work) {
    pthread_mutex_lock(&fake.lock);
    bool room = fake.pending[device] < FAKE_MOST;
    if (room) fake.work[device][fake.pending[device]++] = work;
    pthread_mutex_unlock(&fake.lock);
    return room ? 0 : fake_fail(FA_BACKEND_FAILED, "FAKE error: the queue is full");
}

static char *fake_host(fa_address address) { return (char *)(uintptr_t)address; }

static int fake_copy(int device, fa_stream_handle s, fa_copy_kind kind, fa_address address, void *host, fa_address other,
                     size_t bytes) {
    (void)s;
    char *there = fake_host(address);
    return fake_push(device, kind == FA_COPY_TO_HOST ? (fake_work){kind, host, there, 0, bytes} :
                             (fake_work){kind, there, kind == FA_COPY_TO_DEVICE ? host : fake_host(other), 0, bytes});
}

static int fake_fill(int device, fa_stream_handle s, fa_address address, int byte, size_t bytes) {
    (void)s;
    return fake_push(device, (fake_work){FA_COPY_WITHIN, fake_host(address), NULL, byte, bytes});
}

static int fake_wait(int device, fa_stream_handle s) {
    (void)s;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < fake.pending[device]; i++) {
        fake_work *w = &fake.work[device][i];
        if (w->from) memcpy(w->to, w->from, w->bytes);
        else memset(w->to, w->byte, w->bytes);
    }
    fake.pending[device] = 0;
    int code = fake.fail_wait;
    fake.fail_wait = 0;
    pthread_mutex_unlock(&fake.lock);
    return code;
}

static int fake_build(int device, const char *name, const char *text, const char *options, fa_program_handle *out, char *log,
                      size_t n) {
    (void)device; (void)name; (void)options; (void)log; (void)n;
    fake.builds++;
    memcpy(out, &text, sizeof text);
    return 0;
}

static int fake_unload(int device, fa_program_handle program) { (void)device; (void)program; return 0; }

static int fake_find(int device, fa_program_handle program, const char *kernel, fa_kernel_handle *out) {
    (void)device; (void)program;
    memcpy(out, &kernel, sizeof kernel);
    return 0;
}

static int fake_launch(int device, fa_stream_handle s, fa_kernel_handle kernel, uint64_t groups, int group_size, const void *plan,
                       size_t bytes, const fa_address pointers[8]) {
    (void)device; (void)s; (void)kernel; (void)groups; (void)group_size; (void)plan; (void)bytes;
    int code = fake.refuse_launch;
    fake.refuse_launch = 0;
    fake.launched++;
    if (fake.on_launch) fake.on_launch(pointers);
    return code ? fake_fail(code, "FAKE error: the launch was refused") : 0;
}

static const fa_backend fake_backend = {
    .struct_size = sizeof(fa_backend),
    .abi = FA_BACKEND_ABI,
    .name = "fake",
    .dialect = "c",
    .open = fake_open,
    .close = fake_close,
    .properties = fake_properties,
    .error_text = fake_error_text,
    .allocate = fake_allocate,
    .release = fake_release,
    .memory_info = fake_memory_info,
    .copy = fake_copy,
    .fill = fake_fill,
    .stream_wait = fake_wait,
    .build = fake_build,
    .unload = fake_unload,
    .find = fake_find,
    .launch = fake_launch,
};

#endif
