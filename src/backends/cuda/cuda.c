/* The cuda backend: memory, copies, queues, events and launches over the CUDA driver API.
 *
 * Handles of the contract are the driver's own (a stream, an event, a module, a function), so nothing is allocated here. Each
 * device's primary context is taken at its first use. The default queue is the context's NULL stream; the others are
 * non-blocking, so no queue waits for another one unless an event says so. Texts of errors are kept per thread. */
#include "cuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int device_total;
static CUdevice handles[FAI_CUDA_DEVICES];
static _Atomic(CUcontext) contexts[FAI_CUDA_DEVICES];
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- errors ---- */

static const char *error_text(void) { return fai_cold_block()->backend_text; }

int fai_cuda_refused(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fai_cold_block()->backend_text, sizeof fai_cold_block()->backend_text, format, arguments);
    va_end(arguments);
    return FA_BACKEND_FAILED;
}

/* Errors that kill a context come back from every later call: ask for one that costs nothing and can't fail otherwise. */
bool fai_cuda_is_lost(void) {
    size_t unused, unused_too;
    return fai_cuda.memory_info(&unused, &unused_too) != CUDA_SUCCESS;
}

int fai_cuda_failed(CUresult code, const char *format, ...) {
    const char *name = NULL, *text = NULL, *more = fai_cuda_sim.error_text ? fai_cuda_sim.error_text() : "";
    char doing[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(doing, sizeof doing, format, arguments);
    va_end(arguments);
    fai_cuda.error_name(code, &name);
    fai_cuda.error_string(code, &text);
    snprintf(fai_cold_block()->backend_text, sizeof fai_cold_block()->backend_text, "CUDA error: %s (%s) while %s%s%s", text ? text : "unknown error", name ? name : "no name",
             doing, *more ? ": " : "", more);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return FA_BACKEND_NO_MEMORY;
    return fai_cuda_is_lost() ? FA_BACKEND_LOST : FA_BACKEND_FAILED;
}

/* ---- opening, contexts, properties ---- */

static void tell_none(char *why, size_t n) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        snprintf(why, n,
                 "No CUDA GPUs are available. The driver is there, but shows no device: CUDA_VISIBLE_DEVICES='%.100s' hides those that "
                 "there are. Unset it, or name one, as in CUDA_VISIBLE_DEVICES=0",
                 visible);
    else
        snprintf(why, n,
                 "No CUDA GPUs are available. The driver is there, but shows no device: see whether `nvidia-smi -L` lists one, and, in "
                 "a container, whether it was given one (docker run --gpus all)");
}

static int open_driver(int *count, char *why, size_t n) {
    *count = device_total = 0;
    if (n) why[0] = 0;
    if (!fai_cuda_load_driver(why, n)) return 0;
    CUresult code = fai_cuda.init(0);
    int found = 0;
    if (code == CUDA_SUCCESS) code = fai_cuda.device_count(&found);
    if (code == CUDA_ERROR_NO_DEVICE || (code == CUDA_SUCCESS && found == 0)) return tell_none(why, n), 0;
    if (found > FAI_CUDA_DEVICES) found = FAI_CUDA_DEVICES;
    for (int i = 0; i < found && code == CUDA_SUCCESS; i++) code = fai_cuda.device_get(&handles[i], i);
    if (code != CUDA_SUCCESS) {
        const size_t mark = !fai_cuda_sim.error_text && n > 1; /* a real driver that can't be used is worth a warning */
        fai_cuda_failed(code, "opening the driver");
        if (mark) why[0] = '!';
        snprintf(why + mark, n - mark, "%s", error_text());
        snprintf(fai_cuda_seen.problem, sizeof fai_cuda_seen.problem, "%.500s", error_text());
        return 0;
    }
    *count = device_total = fai_cuda_seen.devices = found;
    return 0;
}

static void close_driver(void) {
    fai_cuda_vendors_close();
    for (int i = 0; i < device_total; i++)
        if (atomic_exchange(&contexts[i], NULL)) fai_cuda.context_release(handles[i]);
}

int fai_cuda_enter(int device) {
    if (device < 0 || device >= device_total)
        return fai_cuda_refused("CUDA error: invalid device ordinal: device %d of %d", device, device_total);
    CUcontext context = atomic_load_explicit(&contexts[device], memory_order_acquire);
    CUresult code = CUDA_SUCCESS;
    if (!context) {
        pthread_mutex_lock(&contexts_lock);
        context = atomic_load(&contexts[device]);
        if (!context && (code = fai_cuda.context_retain(&context, handles[device])) == CUDA_SUCCESS)
            atomic_store(&contexts[device], context);
        pthread_mutex_unlock(&contexts_lock);
    }
    if (code == CUDA_SUCCESS) code = fai_cuda.context_set(context);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "opening device %d", device);
}

int fai_cuda_attribute(int device, int which) {
    int value = 0;
    return fai_cuda.device_attribute(&value, which, handles[device]) == CUDA_SUCCESS ? value : 0;
}

void fai_cuda_capability(int device, int *major, int *minor) {
    *major = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

/* What a driver need not know. */
static void more_properties(int device, fa_device_properties *out) {
    CUuuid uuid;
    out->threads_per_block = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    out->registers_per_multiprocessor = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    out->l2_cache = (uint64_t)fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    out->shared_memory_per_block = (uint64_t)fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    out->shared_memory_per_multiprocessor =
        (uint64_t)fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    out->clock_rate = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    out->memory_clock_rate = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    out->memory_bus_width = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    out->pci_domain = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
    out->pci_bus = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    out->pci_device = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    out->integrated = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
    out->multi_board = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD) != 0;
    if (fai_cuda.device_uuid(&uuid, handles[device]) == CUDA_SUCCESS) memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
}

static int properties(int device, fa_device_properties *out) {
    size_t bytes = 0;
    int version = 0;
    memset(out, 0, sizeof *out);
    if (device < 0 || device >= device_total)
        return fai_cuda_refused("CUDA error: invalid device ordinal: device %d of %d", device, device_total);
    CUresult code = fai_cuda.device_name(out->name, sizeof out->name, handles[device]);
    if (code == CUDA_SUCCESS) code = fai_cuda.device_memory(&bytes, handles[device]);
    if (code == CUDA_SUCCESS) code = fai_cuda.driver_version(&version);
    if (code != CUDA_SUCCESS) return fai_cuda_failed(code, "asking for the properties of device %d", device);
    out->total_memory = bytes;
    out->multiprocessors = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    out->threads_per_multiprocessor = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    out->warp_size = fai_cuda_attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    fai_cuda_capability(device, &out->major, &out->minor);
    more_properties(device, out);
    out->has_float64 = true;
    out->simulated = fai_cuda_sim.error_text != NULL;
    if (out->simulated)
        snprintf(out->driver, sizeof out->driver, "simulator");
    else
        snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    return 0;
}

const char *fai_cuda_simulated_type(int device) { return fai_cuda_sim.device_type ? fai_cuda_sim.device_type(device) : NULL; }

/* ---- memory and copies ---- */

static int allocate(int device, size_t bytes, fa_address *out) {
    CUdeviceptr address = 0;
    int bad = fai_cuda_enter(device);
    *out = 0;
    if (bad) return bad;
    CUresult code = fai_cuda.memory_allocate(&address, bytes);
    if (code != CUDA_SUCCESS) return fai_cuda_failed(code, "allocating %zu bytes on device %d", bytes, device);
    *out = address;
    return 0;
}

static int release(int device, fa_address address) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.memory_free(address);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "freeing memory of device %d", device);
}

static int memory_info(int device, uint64_t *free_bytes, uint64_t *total_bytes) {
    size_t unused = 0, total = 0;
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.memory_info(&unused, &total);
    *free_bytes = unused;
    *total_bytes = total;
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "asking device %d for its free memory", device);
}

static int host_allocate(int device, size_t bytes, void **out) {
    int bad = fai_cuda_enter(device);
    *out = NULL;
    if (bad) return bad;
    CUresult code = fai_cuda.host_allocate(out, bytes, CU_MEMHOSTALLOC_PORTABLE);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "pinning %zu bytes of host memory", bytes);
}

static int host_release(int device, void *memory) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.host_free(memory);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "freeing pinned memory");
}

static int copy(int device, fa_stream_handle stream, fa_copy_kind kind, fa_address address, void *host, fa_address other,
                size_t bytes) {
    CUstream queue = (CUstream)stream;
    CUresult code = CUDA_ERROR_INVALID_VALUE;
    const char *where = "";
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    switch (kind) {
    case FA_COPY_TO_DEVICE:
        code = fai_cuda.copy_to_device(address, host, bytes, queue);
        where = "to";
        break;
    case FA_COPY_TO_HOST:
        code = fai_cuda.copy_to_host(host, address, bytes, queue);
        where = "from";
        break;
    case FA_COPY_WITHIN:
        code = fai_cuda.copy_within(address, other, bytes, queue);
        where = "within";
        break;
    }
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "copying %zu bytes %s device %d", bytes, where, device);
}

/* Whether the first may read and write the second's memory. Asked once; access that the driver then refuses makes copies slower and
 * nothing else: it brings them through the host by itself. */
static bool can_reach(int device, int peer) {
    enum { UNKNOWN, YES, NO };
    static _Atomic unsigned char answers[FAI_CUDA_DEVICES][FAI_CUDA_DEVICES];
    int answer = atomic_load_explicit(&answers[device][peer], memory_order_relaxed), can = 0;
    if (answer != UNKNOWN) return answer == YES;
    if (fai_cuda.can_reach(&can, handles[device], handles[peer]) != CUDA_SUCCESS) can = 0;
    if (can) fai_cuda.reach(atomic_load(&contexts[peer]), 0);
    atomic_store(&answers[device][peer], can ? YES : NO);
    return can;
}

/* In a stream of the device that is read, as PyTorch does. */
static int copy_between(int device, fa_stream_handle stream, fa_address from, int to_device, fa_address to, size_t bytes) {
    int bad = fai_cuda_enter(to_device); /* it has a context from now on */
    if (!bad) bad = fai_cuda_enter(device);
    if (bad) return bad;
    if (!can_reach(device, to_device)) return FA_BACKEND_DECLINED;
    if (bytes == 0) return 0;
    CUresult code = fai_cuda.copy_between(to, atomic_load(&contexts[to_device]), from, atomic_load(&contexts[device]), bytes, (CUstream)stream);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "copying %zu bytes of device %d to device %d", bytes, device, to_device);
}

static int fill(int device, fa_stream_handle stream, fa_address address, int byte, size_t bytes) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.fill(address, (unsigned char)byte, bytes, (CUstream)stream);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "filling %zu bytes of device %d", bytes, device);
}

/* ---- queues and events ---- */

static int stream_create(int device, int priority, fa_stream_handle *out) {
    CUstream stream = NULL;
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING, priority);
    *out = (fa_stream_handle)stream;
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "creating a stream on device %d", device);
}

static int stream_destroy(int device, fa_stream_handle stream) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.stream_destroy((CUstream)stream);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "destroying a stream of device %d", device);
}

static int stream_wait(int device, fa_stream_handle stream) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.stream_synchronize((CUstream)stream);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "waiting for a stream of device %d", device);
}

static int event_create(int device, fa_event_handle *out) {
    CUevent event = NULL;
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.event_create(&event, CU_EVENT_DEFAULT);
    *out = (fa_event_handle)event;
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "creating an event on device %d", device);
}

static int event_destroy(int device, fa_event_handle event) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.event_destroy((CUevent)event);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "destroying an event of device %d", device);
}

static int event_record(int device, fa_event_handle event, fa_stream_handle stream) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.event_record((CUevent)event, (CUstream)stream);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "recording an event on device %d", device);
}

static int event_wait(int device, fa_event_handle event) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.event_synchronize((CUevent)event);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "waiting for an event of device %d", device);
}

static int stream_wait_event(int device, fa_stream_handle stream, fa_event_handle event) {
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    CUresult code = fai_cuda.stream_wait_event((CUstream)stream, (CUevent)event, 0);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "making a stream of device %d wait for an event", device);
}

static int event_query(int device, fa_event_handle event, bool *done) {
    int bad = fai_cuda_enter(device);
    *done = false;
    if (bad) return bad;
    CUresult code = fai_cuda.event_query((CUevent)event);
    *done = code == CUDA_SUCCESS;
    if (code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY) return 0;
    return fai_cuda_failed(code, "asking for an event of device %d", device);
}

static int event_elapsed(int device, fa_event_handle start, fa_event_handle end, float *milliseconds) {
    int bad = fai_cuda_enter(device);
    *milliseconds = 0;
    if (bad) return bad;
    CUresult code = fai_cuda.event_elapsed(milliseconds, (CUevent)start, (CUevent)end);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "measuring the time between two events of device %d", device);
}

/* ---- launch ---- */

static int launch(int device, fa_stream_handle stream, fa_kernel_handle kernel, uint64_t groups, int group_size, const void *plan,
                  size_t plan_bytes, const fa_address pointers[8]) {
    CUdeviceptr address[8];
    void *arguments[9];
    (void)plan_bytes; /* the kernel's own declaration says how much the driver copies */
    int bad = fai_cuda_enter(device);
    if (bad) return bad;
    if (groups == 0) return 0;
    if (groups > INT32_MAX)
        return fai_cuda_refused("CUDA error: a launch of %llu groups; at most %d", (unsigned long long)groups, INT32_MAX);
    memcpy(&arguments[0], &plan, sizeof plan);
    for (int i = 0; i < 8; i++) {
        address[i] = pointers[i];
        arguments[i + 1] = &address[i];
    }
    CUresult code = fai_cuda.launch((CUfunction)kernel, (unsigned)groups, 1, 1, (unsigned)group_size, 1, 1, 0, (CUstream)stream,
                                    arguments, NULL);
    return code == CUDA_SUCCESS ? 0 : fai_cuda_failed(code, "launching a kernel on device %d", device);
}

const fa_backend *fai_backend_cuda(void) {
    static const fa_backend backend = {
        .struct_size = sizeof(fa_backend),
        .abi = FA_BACKEND_ABI,
        .name = "cuda",
        .dialect = "cuda",
        .open = open_driver,
        .close = close_driver,
        .properties = properties,
        .error_text = error_text,
        .allocate = allocate,
        .release = release,
        .memory_info = memory_info,
        .copy = copy,
        .fill = fill,
        .stream_create = stream_create,
        .stream_destroy = stream_destroy,
        .stream_wait = stream_wait,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .event_wait = event_wait,
        .stream_wait_event = stream_wait_event,
        .event_query = event_query,
        .event_elapsed = event_elapsed,
        .build = fai_cuda_build,
        .unload = fai_cuda_unload,
        .find = fai_cuda_find,
        .launch = launch,
        .host_allocate = host_allocate,
        .host_release = host_release,
        .library = &fai_cuda_library,
        .sensors = fai_cuda_sensors,
        .graph_begin = fai_cuda_graph_begin,
        .graph_end = fai_cuda_graph_end,
        .graph_launch = fai_cuda_graph_launch,
        .graph_destroy = fai_cuda_graph_destroy,
        .copy_between = copy_between,
    };
    return &backend;
}
