/* A new kind of device, complete in one file: `npu`. docs/backend.md walks through it.
 *
 *   cc -shared -fPIC -O2 -pthread -Iinclude -o npu.so examples/plugin/npu.c
 *   FACULA_PLUGINS=./npu.so facula info
 *
 * There is no such chip in your machine: the device is made of threads, but it behaves as one behind a bus would. Its memory
 * can't be touched by the host (addresses are shifted out of reach, and shifted back only here), every queue works on a thread
 * of its own while the program goes on, and its kernels are compiled when they are first wanted, from Facula's texts in the
 * dialect "c", by the system's compiler (NPU_CC=clang names another). A real device replaces the bodies, not the shape. */
#define _GNU_SOURCE
#include <sys/fa_backend.h>
#include <sys/fa_plan.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#pragma GCC diagnostic ignored "-Wunused-parameter" /* the devices share all but their memory's size */

enum { NPUS = 2, HEADER = 512 };
#define MEMORY ((uint64_t)1 << 30) /* bytes of each device */
#define SHIFT  ((uint64_t)1 << 54) /* an address of the device is the host's plus this: no pointer of any process */

typedef void kernel_function(const fa_plan *plan, char *const *pointers, fa_i64 group); /* what the dialect "c" makes */
typedef struct fa_event_ { int refs; uint64_t recorded, reached; double time; } event;
typedef struct work {
    enum { COPY, FILL, LAUNCH, RECORD, WAIT } kind;
    char *to, *from;                 /* COPY, FILL: as this side sees them */
    size_t bytes;
    int byte;
    kernel_function *kernel;         /* LAUNCH */
    uint64_t groups, pointers[8];
    fa_plan plan;
    fa_table_entry *tables;          /* room for copies of all of the plan's tables */
    event *event;                    /* RECORD, WAIT: its record of this number */
    uint64_t number;
    struct work *next;
} work;
typedef struct fa_stream_ {
    pthread_t thread;
    work *first, *last;              /* what is not done; the first of them may be running */
    bool closing;
} queue;

/* One lock for all that the threads share; `changed` says that work came or ended. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static queue main_queue[NPUS];
static _Atomic uint64_t used[NPUS];
static _Thread_local char error[256] = "NPU error: nothing yet";

static int fail(int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(error, sizeof error, format, list);
    va_end(list);
    return code;
}
static const char *error_text(void) { return error; }
static int no_host_memory(void) { return fail(FA_BACKEND_FAILED, "NPU error: the host has no memory for its description"); }

/* ---- the queue: a list, and a thread that works it off ---- */

static char *here(uint64_t address) { return address ? (char *)(uintptr_t)(address - SHIFT) : NULL; }

/* A kernel gets pointers as this side sees them, also those that lie in a table of pointers (see fa_plan.h): a copy of it. */
static void run_kernel(work *w) {
    char *pointer[8];
    fa_table_entry *next = w->tables;
    for (int k = 0; k < 8; k++) {
        pointer[k] = here(w->pointers[k]);
        if (w->plan.view[k].kind != FA_VIEW_TABLE || !pointer[k]) continue;
        const fa_i64 count = w->plan.view[k].size[0];
        memcpy(next, pointer[k], (size_t)count * sizeof *next);
        for (fa_i64 i = 0; i < count; i++) next[i].address = (fa_i64)(uintptr_t)here((uint64_t)next[i].address);
        pointer[k] = (char *)next;
        next += count;
    }
    for (uint64_t group = 0; group < w->groups; group++) w->kernel(&w->plan, pointer, (fa_i64)group);
}

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void drop(event *e) { if (--e->refs == 0) free(e); }

static void run(work *w) { /* with the lock, which it lets go meanwhile */
    while (w->kind == WAIT && w->event->reached < w->number) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (w->kind == COPY) memmove(w->to, w->from, w->bytes);
    if (w->kind == FILL) memset(w->to, w->byte, w->bytes);
    if (w->kind == LAUNCH) run_kernel(w);
    pthread_mutex_lock(&lock);
    if (w->kind == RECORD) w->event->reached = w->number, w->event->time = milliseconds();
    if (w->event) drop(w->event);
}

static void *work_off(void *argument) {
    queue *q = argument;
    pthread_mutex_lock(&lock);
    for (work *w;;) {
        while (!q->first && !q->closing) pthread_cond_wait(&changed, &lock);
        if (!(w = q->first)) break;
        run(w);
        q->first = w->next;
        free(w->tables);
        free(w);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int push(int device, queue *q, work what) {
    work *w = malloc(sizeof *w);
    if (!w) return free(what.tables), no_host_memory();
    *w = what;
    if (!q) q = &main_queue[device];
    pthread_mutex_lock(&lock);
    if (w->event) w->number = w->event->recorded += w->kind == RECORD, w->event->refs++;
    if (q->first) q->last->next = w;
    else q->first = w;
    q->last = w;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return 0;
}
static int start(queue *q) {
    return pthread_create(&q->thread, NULL, work_off, q) ? fail(FA_BACKEND_FAILED, "NPU error: no thread for a queue") : 0;
}

/* ---- opening ---- */

static int open_npus(int *count, char *why, size_t n) {
    for (*count = 0; *count < NPUS; ++*count)
        if (start(&main_queue[*count])) return snprintf(why, n, "%s", error), FA_BACKEND_FAILED;
    return 0;
}
static void close_npus(void) {}

static int properties(int device, fa_device_properties *out) {
    snprintf(out->name, sizeof out->name, "Example NPU %d", device);
    snprintf(out->driver, sizeof out->driver, "npu.c");
    out->total_memory = MEMORY;
    out->multiprocessors = 4, out->threads_per_multiprocessor = 1024, out->warp_size = 32, out->major = 1;
    out->has_float64 = out->simulated = true;
    return 0;
}

/* ---- 1. memory: each block's size lies before it ---- */

static int allocate(int device, size_t bytes, fa_address *out) {
    char *block = bytes <= MEMORY ? aligned_alloc(HEADER, HEADER + (bytes + HEADER - 1) / HEADER * HEADER) : NULL;
    uint64_t before = used[device];
    while (block && bytes <= MEMORY - before && !atomic_compare_exchange_weak(&used[device], &before, before + bytes)) {}
    if (!block || bytes > MEMORY - before)
        return free(block), fail(FA_BACKEND_NO_MEMORY, "NPU error: out of memory: %zu bytes asked for", bytes);
    memcpy(block, &bytes, sizeof bytes);
    *out = (uintptr_t)block + HEADER + SHIFT;
    return 0;
}

static int release(int device, fa_address address) {
    size_t bytes;
    memcpy(&bytes, here(address) - HEADER, sizeof bytes);
    used[device] -= bytes;
    free(here(address) - HEADER);
    return 0;
}
static int memory_info(int device, uint64_t *free_bytes, uint64_t *total_bytes) {
    *free_bytes = MEMORY - used[device];
    *total_bytes = MEMORY;
    return 0;
}

/* ---- 2. copies ---- */

static int copy(int device, queue *q, fa_copy_kind kind, fa_address address, void *host, fa_address other, size_t bytes) {
    char *to = kind == FA_COPY_TO_HOST ? host : here(address);
    char *from = kind == FA_COPY_TO_HOST ? here(address) : kind == FA_COPY_TO_DEVICE ? host : here(other);
    return push(device, q, (work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}
static int fill(int device, queue *q, fa_address address, int byte, size_t bytes) {
    return push(device, q, (work){.kind = FILL, .to = here(address), .byte = byte, .bytes = bytes});
}

/* ---- 3. queues and events ---- */

static int stream_create(int device, int priority, queue **out) {
    return (*out = calloc(1, sizeof **out)) ? start(*out) : no_host_memory();
}
static int stream_destroy(int device, queue *q) {
    pthread_mutex_lock(&lock);
    q->closing = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(q->thread, NULL); /* after its last work */
    free(q);
    return 0;
}

static int stream_wait(int device, queue *q) {
    pthread_mutex_lock(&lock);
    if (!q) q = &main_queue[device];
    while (q->first) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int event_create(int device, event **out) {
    if (!(*out = calloc(1, sizeof **out))) return no_host_memory();
    return (*out)->refs = 1, 0;
}
static int event_destroy(int device, event *e) {
    pthread_mutex_lock(&lock);
    drop(e); /* a queue that still has it keeps it alive */
    pthread_mutex_unlock(&lock);
    return 0;
}
static int event_record(int device, event *e, queue *q) { return push(device, q, (work){.kind = RECORD, .event = e}); }
static int stream_wait_event(int device, queue *q, event *e) { return push(device, q, (work){.kind = WAIT, .event = e}); }

static int event_wait(int device, event *e) {
    pthread_mutex_lock(&lock);
    for (uint64_t number = e->recorded; e->reached < number;) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}
static int event_query(int device, event *e, bool *done) {
    pthread_mutex_lock(&lock);
    *done = e->reached == e->recorded;
    pthread_mutex_unlock(&lock);
    return 0;
}
static int event_elapsed(int device, event *from, event *to, float *out) { return *out = (float)(to->time - from->time), 0; }

/* ---- 4. build: the text is a whole program; the system's compiler makes a shared object of it ---- */

static int compile(const char *folder) {
    char command[512];
    const char *cc = getenv("NPU_CC");
    snprintf(command, sizeof command, "cd %s && %s -std=gnu11 -O1 -w -march=native -ffp-contract=off -fno-math-errno -shared -fPIC "
                                      "-o k.so k.c -lm 2>log", folder, cc ? cc : "cc");
    return system(command) == 0 ? 0 : fail(FA_BACKEND_FAILED, "NPU error: '%s' can't compile the kernels", cc ? cc : "cc");
}

static int build(int device, const char *name, const char *text, const char *options, fa_program_handle *out, char *log, size_t n) {
    char folder[] = "/tmp/npu-XXXXXX", path[3][32];
    if (!mkdtemp(folder)) return fail(FA_BACKEND_FAILED, "NPU error: no folder can be made in /tmp");
    for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/%s", folder, (const char *[]){"k.c", "k.so", "log"}[i]);
    FILE *file = fopen(path[0], "w");
    bool written = file && fputs(text, file) >= 0;
    if (file && fclose(file) != 0) written = false;
    int bad = written ? compile(folder) : fail(FA_BACKEND_FAILED, "NPU error: can't write %s", path[0]);
    if (bad && n && (file = fopen(path[2], "r"))) log[fread(log, 1, n - 1, file)] = 0, fclose(file);
    if (!bad && !(*out = dlopen(path[1], RTLD_NOW | RTLD_LOCAL))) bad = fail(FA_BACKEND_FAILED, "NPU error: %s", dlerror());
    for (int i = 0; i < 3; i++) unlink(path[i]);
    rmdir(folder);
    return bad;
}
static int unload(int device, fa_program_handle program) { return dlclose(program); }
static int find(int device, fa_program_handle program, const char *name, fa_kernel_handle *out) {
    return (*out = dlsym(program, name)) ? 0 : fail(FA_BACKEND_FAILED, "NPU error: the program has no kernel '%s'", name);
}

/* ---- 5. launch. The dialect "c" loops over the items of a group by itself. ---- */

static int launch(int device, queue *q, fa_kernel_handle kernel, uint64_t groups, int group_size, const void *plan, size_t bytes,
                  const fa_address pointers[8]) {
    work w = {.kind = LAUNCH, .kernel = (kernel_function *)kernel, .groups = groups};
    size_t entries = 0;
    if (bytes != sizeof w.plan) return fail(FA_BACKEND_FAILED, "NPU error: the plan has another size");
    memcpy(&w.plan, plan, bytes);
    memcpy(w.pointers, pointers, sizeof w.pointers);
    for (int k = 0; k < 8; k++) entries += w.plan.view[k].kind == FA_VIEW_TABLE ? (size_t)w.plan.view[k].size[0] : 0;
    if (entries && !(w.tables = malloc(entries * sizeof *w.tables))) return no_host_memory();
    return push(device, q, w);
}

/* ---- the one function that Facula looks for ---- */

const fa_backend *fa_plugin(void) {
    static const fa_backend npu = {
        sizeof npu, FA_BACKEND_ABI, "npu", "c", open_npus, close_npus, properties, error_text, allocate, release, memory_info, copy,
        fill, stream_create, stream_destroy, stream_wait, event_create, event_destroy, event_record, event_wait, stream_wait_event,
        event_query, event_elapsed, build, unload, find, launch, NULL, NULL, /* no memory of the host that copies need not wait for */
    };
    return &npu;
}
