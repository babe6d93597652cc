/* The CUDA driver's functions. Each checks what a real driver checks, asks whether a fault is due, then queues the work or does
 * it. What CUDA does at once happens at once here too: host memory that is copied to a device is read before the call returns,
 * cuMemFree waits for the device; but copies to the host arrive no sooner than somebody waits. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef CUcontext context; /* a sim_device behind CUDA's name */
static __thread sim_device *current __attribute__((tls_model("global-dynamic")));
static pthread_mutex_t retain_lock = PTHREAD_MUTEX_INITIALIZER;

static sim_device *device_of(context c) { return (sim_device *)(void *)c; }

/* ---- errors ---- */

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
};

static CUresult find_error(CUresult code, const char **name, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].code != code) continue;
        if (name) *name = errors[i].name;
        if (text) *text = errors[i].text;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

SIM_API CUresult cuGetErrorName(CUresult code, const char **name) { return find_error(code, name, NULL); }

SIM_API CUresult cuGetErrorString(CUresult code, const char **text) { return find_error(code, NULL, text); }

/* ---- devices and contexts ---- */

static CUresult ready(void) {
    if (sim.forked)
        return sim_fail(CUDA_ERROR_NOT_INITIALIZED, "this process was forked from one that used the simulated devices");
    return sim_open();
}

SIM_API CUresult cuInit(unsigned flags) {
    (void)flags;
    CUresult bad = ready();
    if (bad) return bad;
    return sim.ndevices ? CUDA_SUCCESS : sim_fail(CUDA_ERROR_NO_DEVICE, "CUDA_VISIBLE_DEVICES hides all simulated devices");
}

SIM_API CUresult cuDriverGetVersion(int *version) {
    *version = sim_driver_version();
    return CUDA_SUCCESS;
}

/* NVRTC asks a driver for private tables; there are none. */
SIM_API CUresult cuGetExportTable(const void **table, const void *id) {
    (void)id;
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

SIM_API CUresult cuDeviceGetCount(int *count) {
    *count = sim.ndevices;
    return ready();
}

CUresult sim_check_device(CUdevice device) {
    CUresult bad = ready();
    if (bad) return bad;
    if (device >= 0 && device < sim.ndevices) return CUDA_SUCCESS;
    return sim_fail(CUDA_ERROR_INVALID_DEVICE, "device %d of %d", device, sim.ndevices);
}

SIM_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return sim_check_device(ordinal);
}

SIM_API CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
    CUresult bad = sim_check_device(device);
    if (!bad) snprintf(name, (size_t)room, "Facula simulated GPU %d", sim.device[device].index);
    return bad;
}

SIM_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CUresult bad = sim_check_device(device);
    if (!bad) *bytes = sim.device[device].limit;
    return bad;
}

SIM_API CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    CUresult bad = sim_check_device(device);
    if (bad) return bad;
    sim_device *d = &sim.device[device];
    pthread_mutex_lock(&retain_lock);
    pthread_mutex_lock(&sim.lock);
    if (d->lost)
        bad = sim_fail(d->dead, "%s", d->dead_text);
    else if (d->retained == 0)
        bad = sim_start(d);
    if (!bad) d->retained++;
    pthread_mutex_unlock(&sim.lock);
    pthread_mutex_unlock(&retain_lock);
    *out = bad ? NULL : (context)(void *)d;
    return bad;
}

SIM_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    CUresult bad = sim_check_device(device);
    if (bad) return bad;
    sim_device *d = &sim.device[device];
    pthread_mutex_lock(&retain_lock);
    if (d->retained == 0)
        bad = sim_fail(CUDA_ERROR_INVALID_CONTEXT, "device %d has no primary context", device);
    else if (--d->retained == 0)
        sim_stop(d);
    pthread_mutex_unlock(&retain_lock);
    return bad;
}

SIM_API CUresult cuCtxSetCurrent(CUcontext c) {
    CUresult bad = ready();
    if (!bad) current = device_of(c);
    return bad;
}

/* Takes the lock, and checks that the thread's context lives. On an error the lock is not held. */
static CUresult enter(void) {
    CUresult bad = ready();
    if (bad) return bad;
    if (!current) return sim_fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
    pthread_mutex_lock(&sim.lock);
    if (!current->streams)
        bad = sim_fail(CUDA_ERROR_INVALID_CONTEXT, "the context was released");
    else if (current->dead)
        bad = sim_fail(current->dead, "%s", current->dead_text);
    if (bad) pthread_mutex_unlock(&sim.lock);
    return bad;
}

static CUresult leave(CUresult result) {
    pthread_mutex_unlock(&sim.lock);
    return result;
}

/* Counts one operation; at the chosen one the device is gone, and with it all that is queued. */
static CUresult maybe_lost(void) {
    int number;
    char text[SIM_TEXT];
    if (!sim_fault_now(SIM_FAULT_LOST, &number)) return CUDA_SUCCESS;
    snprintf(text, sizeof text, "device %d was lost (injected fault lost:%d)", current->ordinal, number);
    current->lost = true;
    sim_kill(current, CUDA_ERROR_DEVICE_UNAVAILABLE, text);
    return sim_fail(CUDA_ERROR_DEVICE_UNAVAILABLE, "%s", text);
}

SIM_API CUresult cuCtxSynchronize(void) {
    CUresult bad = enter(), first = CUDA_SUCCESS;
    if (bad) return bad;
    sim.counts.wait++;
    sim_drain(current);
    if (current->dead) return leave(sim_fail(current->dead, "%s", current->dead_text));
    for (CUstream s = current->streams; s; s = s->next) {
        CUresult error = sim_wait(s);
        if (!first) first = error;
    }
    return leave(first);
}

/* ---- memory ---- */

SIM_API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    CUresult bad = enter();
    int number;
    uint64_t found = 0;
    if (bad) return bad;
    sim.counts.alloc++;
    if ((bad = maybe_lost()) != CUDA_SUCCESS) return leave(bad);
    if (sim_fault_now(SIM_FAULT_ALLOC, &number))
        bad = sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "injected fault alloc:%d", number);
    else if (bytes == 0)
        bad = sim_fail(CUDA_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
    else
        bad = sim_allocate(current, bytes, &found);
    *address = found;
    return leave(bad);
}

SIM_API CUresult cuMemFree_v2(CUdeviceptr address) {
    CUresult bad = ready();
    if (bad) return bad;
    if (!current) return sim_fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread");
    pthread_mutex_lock(&sim.lock);
    sim.counts.free++;
    sim_drain(current);
    bool found = sim_free(current, address); /* on a dead device too, so that counts of live memory stay true */
    if (current->dead)
        bad = sim_fail(current->dead, "%s", current->dead_text);
    else if (!found && address)
        bad = sim_fail(CUDA_ERROR_INVALID_VALUE, "0x%llx is not the start of a live allocation of device %d", address,
                       current->ordinal);
    return leave(bad);
}

/* Pinned memory: copies read and write it when they run, and not when they are asked for. */
typedef struct host_block {
    struct host_block *next;
    size_t bytes;
    _Alignas(64) char memory[];
} host_block;
static host_block *host_blocks;

static bool is_pinned(const void *memory, size_t bytes) {
    for (const host_block *b = host_blocks; b; b = b->next)
        if ((const char *)memory >= b->memory && (const char *)memory + bytes <= b->memory + b->bytes) return true;
    return false;
}

SIM_API CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    CUresult bad = enter();
    if (bad) return bad;
    const size_t whole = (sizeof(host_block) + bytes + 63) / 64 * 64;
    host_block *block = whole > bytes ? aligned_alloc(64, whole) : NULL;
    if (!block) return leave(sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for %zu pinned bytes", bytes));
    *block = (host_block){.next = host_blocks, .bytes = bytes};
    host_blocks = block;
    *memory = block->memory;
    return leave(CUDA_SUCCESS);
}

SIM_API CUresult cuMemFreeHost(void *memory) {
    CUresult bad = ready();
    if (bad) return bad;
    pthread_mutex_lock(&sim.lock);
    host_block **link = &host_blocks;
    while (*link && (*link)->memory != (char *)memory) link = &(*link)->next;
    host_block *found = *link;
    if (!found) return leave(sim_fail(CUDA_ERROR_INVALID_VALUE, "%p is no pinned memory", memory));
    *link = found->next;
    free(found);
    return leave(CUDA_SUCCESS);
}

SIM_API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    CUresult bad = enter();
    if (bad) return bad;
    *free_bytes = current->limit - current->used;
    *total_bytes = current->limit;
    return leave(CUDA_SUCCESS);
}

/* ---- queueing ---- */

/* The stream's own, or the NULL stream, which lies at the end of the list. */
static CUresult find_stream(CUstream *stream) {
    CUstream s = current->streams;
    while (s->next && s != *stream) s = s->next;
    if (*stream && s != *stream)
        return sim_fail(CUDA_ERROR_INVALID_HANDLE, "the stream is not one of device %d", current->ordinal);
    *stream = s;
    return CUDA_SUCCESS;
}

CUresult sim_enter_stream(CUstream *stream) {
    CUresult bad = enter();
    if (!bad && stream && (bad = find_stream(stream)) != CUDA_SUCCESS) pthread_mutex_unlock(&sim.lock);
    return bad;
}

CUresult sim_leave(CUresult result) { return leave(result); }
CUresult sim_maybe_lost(void) { return maybe_lost(); }

static CUresult check_range(CUdeviceptr address, size_t bytes) {
    if (sim_translate(current, address, bytes)) return CUDA_SUCCESS;
    return sim_fail(CUDA_ERROR_INVALID_VALUE, "bytes [0x%llx, 0x%llx) do not lie in one live allocation of device %d", address,
                    address + bytes, current->ordinal);
}

/* The part that all copies share; on success the lock is held, and the operation made and not yet queued. */
CUresult sim_begin_copy(sim_kind kind, CUdeviceptr to, CUdeviceptr from, size_t bytes, size_t data_bytes, CUstream *stream,
                        sim_op **out) {
    CUresult bad = enter();
    int number;
    if (bad) return bad;
    bad = find_stream(stream);
    if (!bad) bad = maybe_lost();
    if (!bad && sim_fault_now(SIM_FAULT_COPY, &number))
        bad = sim_fail(CUDA_ERROR_OPERATING_SYSTEM, "injected fault copy:%d", number);
    if (!bad && to) bad = check_range(to, bytes);
    if (!bad && from) bad = check_range(from, bytes);
    if (!bad && !to && !from) bad = sim_fail(CUDA_ERROR_INVALID_VALUE, "the device address is null");
    *out = bad ? NULL : sim_op_new(kind, data_bytes);
    if (!bad && !*out) bad = sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for a queued copy of %zu bytes", bytes);
    if (bad) return leave(bad);
    (*out)->pointer[0] = to;
    (*out)->pointer[1] = from;
    (*out)->bytes = bytes;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    sim_op *op;
    if (bytes == 0) return CUDA_SUCCESS;
    pthread_mutex_lock(&sim.lock);
    const bool pinned = is_pinned(from, bytes);
    pthread_mutex_unlock(&sim.lock);
    CUresult bad = sim_begin_copy(SIM_TO_DEVICE, to, 0, bytes, pinned ? 0 : bytes, &stream, &op);
    if (bad) return bad;
    if (pinned) memcpy(&op->host, &from, sizeof from);
    else memcpy(op->data, from, bytes); /* pageable memory is staged before the call returns */
    sim.counts.to_device++;
    sim_push(stream, op);
    return leave(CUDA_SUCCESS);
}

SIM_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    sim_op *op;
    int number;
    if (bytes == 0) return CUDA_SUCCESS;
    CUresult bad = sim_begin_copy(SIM_TO_HOST, 0, from, bytes, 0, &stream, &op);
    if (bad) return bad;
    op->host = to;
    op->flip = sim_fault_now(SIM_FAULT_FLIP, &number);
    sim.counts.to_host++;
    sim_push(stream, op);
    return leave(CUDA_SUCCESS);
}

SIM_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    sim_op *op;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!to || !from) return sim_fail(CUDA_ERROR_INVALID_VALUE, "a device address is null");
    CUresult bad = sim_begin_copy(SIM_WITHIN, to, from, bytes, 0, &stream, &op);
    if (bad) return bad;
    sim.counts.within++;
    sim_push(stream, op);
    return leave(CUDA_SUCCESS);
}

SIM_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream) {
    sim_op *op;
    if (bytes == 0) return CUDA_SUCCESS;
    CUresult bad = sim_begin_copy(SIM_FILL, to, 0, bytes, 0, &stream, &op);
    if (bad) return bad;
    op->byte = byte;
    sim.counts.fill++;
    sim_push(stream, op);
    return leave(CUDA_SUCCESS);
}

/* ---- streams and events ---- */

SIM_API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    (void)priority;
    CUresult bad = enter();
    if (bad) return bad;
    if (flags != CU_STREAM_NON_BLOCKING)
        return leave(sim_fail(CUDA_ERROR_NOT_SUPPORTED, "the simulator has only CU_STREAM_NON_BLOCKING streams"));
    *stream = sim_stream_new(current);
    return leave(*stream ? CUDA_SUCCESS : sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for a stream"));
}

/* What is still queued runs, and then the stream goes. */
SIM_API CUresult cuStreamDestroy_v2(CUstream stream) {
    CUresult bad = ready();
    if (bad) return bad;
    pthread_mutex_lock(&sim.lock);
    sim_stream_release(stream);
    if (current && current->dead) bad = sim_fail(current->dead, "%s", current->dead_text);
    return leave(bad);
}

SIM_API CUresult cuStreamSynchronize(CUstream stream) {
    CUresult bad = enter();
    if (bad) return bad;
    sim.counts.wait++;
    bad = find_stream(&stream);
    if (!bad && stream->capture) bad = sim_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is being captured");
    return leave(bad ? bad : sim_wait(stream));
}

SIM_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    (void)flags;
    CUresult bad = enter();
    if (bad) return bad;
    bad = find_stream(&stream);
    if (bad || !event->record) return leave(bad); /* an event that was never recorded holds nobody up */
    sim_op *op = sim_op_new(SIM_WAIT, 0);
    if (!op) return leave(sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for a queued wait"));
    op->record = event->record;
    op->record->refs++;
    sim_push(stream, op);
    return leave(CUDA_SUCCESS);
}

SIM_API CUresult cuEventCreate(CUevent *event, unsigned flags) {
    (void)flags;
    CUresult bad = enter();
    if (bad) return bad;
    *event = calloc(1, sizeof **event);
    if (*event) (*event)->device = current;
    return leave(*event ? CUDA_SUCCESS : sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for an event"));
}

SIM_API CUresult cuEventDestroy_v2(CUevent event) {
    CUresult bad = ready();
    if (bad) return bad;
    pthread_mutex_lock(&sim.lock);
    sim_record_drop(event->record);
    if (event->device->dead) bad = sim_fail(event->device->dead, "%s", event->device->dead_text);
    free(event);
    return leave(bad);
}

SIM_API CUresult cuEventRecord(CUevent event, CUstream stream) {
    CUresult bad = enter();
    if (bad) return bad;
    bad = find_stream(&stream);
    if (!bad && event->device != current)
        bad = sim_fail(CUDA_ERROR_INVALID_HANDLE, "the event belongs to device %d", event->device->ordinal);
    if (bad) return leave(bad);
    int number;
    sim_op *op = sim_op_new(SIM_RECORD, 0);
    sim_record *record = calloc(1, sizeof *record);
    if (!op || !record) {
        free(op);
        free(record);
        return leave(sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for a queued event"));
    }
    record->refs = 2; /* the event and the operation */
    sim_record_drop(event->record);
    event->record = op->record = record;
    op->hang = sim_fault_now(SIM_FAULT_HANG, &number);
    sim_push(stream, op);
    return leave(CUDA_SUCCESS);
}

SIM_API CUresult cuEventSynchronize(CUevent event) {
    CUresult bad = enter();
    if (bad) return bad;
    sim.counts.wait++;
    sim_record *record = event->record;
    if (!record) return leave(CUDA_SUCCESS);
    record->refs++;
    bad = sim_wait_record(record, event->device);
    sim_record_drop(record);
    return leave(bad);
}

/* A real device works on its own, so a program may ask until the event has come: the second question makes it needed. */
SIM_API CUresult cuEventQuery(CUevent event) {
    CUresult bad = enter();
    if (bad) return bad;
    sim_record *record = event->record;
    if (!record) return leave(CUDA_SUCCESS);
    if (record->done) return leave(sim_wait_record(record, event->device));
    if (++record->queries > 1) sim_demand(record->stream, record->seq);
    return leave(sim_fail(CUDA_ERROR_NOT_READY, "%s", ""));
}

SIM_API CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    CUresult bad = enter();
    if (bad) return bad;
    if (!start->record || !end->record) return leave(sim_fail(CUDA_ERROR_INVALID_HANDLE, "an event was never recorded"));
    if (!start->record->done || !end->record->done)
        return leave(sim_fail(CUDA_ERROR_NOT_READY, "an event has not come yet: wait for it first"));
    *milliseconds = (float)((double)((int64_t)(end->record->nanoseconds - start->record->nanoseconds)) / 1e6);
    return leave(CUDA_SUCCESS);
}

/* ---- programs and launches ---- */

/* f32, f64, i64 are instances 0, 1, 2; a name without one of them is in all. */
static bool in_instance(const char *name, int instance) {
    static const char *const suffixes[] = {"_f32", "_f64", "_i64"};
    size_t n = strlen(name);
    for (int i = 0; i < 3; i++)
        if (n > 4 && !strcmp(name + n - 4, suffixes[i])) return instance < 0 || instance == i;
    return true;
}

static void fill_module(CUmodule module, sim_device *device, const char *family, const sim_image *image) {
    module->device = device;
    module->family = family;
    module->image = *image;
    for (int i = 0; i < fa_kernel_table_count; i++) {
        const fa_kernel_entry *entry = &fa_kernel_table[i];
        const bool chain = strncmp(entry->name, "chain_", 6) == 0;
        if (strcmp(entry->family, family) || !in_instance(entry->name, image->instance) || chain != (image->chain > 0)) continue;
        module->functions[module->nfunctions++] = (struct CUfunc_st){entry, device, image->row, &module->image};
    }
}

SIM_API CUresult cuModuleLoadData(CUmodule *module, const void *data) {
    sim_image image;
    CUresult bad = enter();
    if (bad) return bad;
    const char *family = sim_read_image(data, &image);
    if (!family) return leave(sim_fail(CUDA_ERROR_INVALID_IMAGE, "the simulator runs only what its own compiler made"));
    CUmodule made = calloc(1, sizeof *made + (size_t)fa_kernel_table_count * sizeof made->functions[0]);
    if (!made) return leave(sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for a module"));
    fill_module(made, current, family, &image);
    *module = made;
    return leave(CUDA_SUCCESS);
}

SIM_API CUresult cuModuleUnload(CUmodule module) {
    CUresult bad = ready();
    if (bad) return bad;
    pthread_mutex_lock(&sim.lock);
    if (module->device->dead) bad = sim_fail(module->device->dead, "%s", module->device->dead_text);
    free(module);
    return leave(bad);
}

SIM_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CUresult bad = enter();
    if (bad) return bad;
    for (int i = 0; i < module->nfunctions; i++) {
        if (strcmp(module->functions[i].kernel->name, name)) continue;
        *function = &module->functions[i];
        return leave(CUDA_SUCCESS);
    }
    return leave(sim_fail(CUDA_ERROR_NOT_FOUND, "the program '%s' has no kernel '%s'", module->family, name));
}

static CUresult check_launch(CUfunction function, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                             void **arguments, void **extra) {
    const fa_kernel_entry *kernel = function->kernel;
    if (function->device != current)
        return sim_fail(CUDA_ERROR_INVALID_HANDLE, "kernel %s was loaded on device %d", kernel->name, function->device->ordinal);
    if (!arguments || extra)
        return sim_fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: arguments must come as a list of pointers", kernel->name);
    if (grid[0] < 1 || grid[0] > INT32_MAX || grid[1] != 1 || grid[2] != 1)
        return sim_fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: a grid of %u x %u x %u", kernel->name, grid[0], grid[1], grid[2]);
    if (block[0] != (unsigned)kernel->group_size || block[1] != 1 || block[2] != 1 || shared_bytes)
        return sim_fail(CUDA_ERROR_INVALID_VALUE,
                        "kernel %s has work-groups of %d, the launch of %u x %u x %u with %u bytes of shared memory",
                        kernel->name, kernel->group_size, block[0], block[1], block[2], shared_bytes);
    const fa_plan *plan = arguments[0];
    if (function->row >= 0 && plan->row != function->row)
        return sim_fail(CUDA_ERROR_INVALID_VALUE, "kernel %s was built for row %d, the plan is for row %d", kernel->name,
                        function->row, plan->row);
    const sim_image *image = function->image;
    if (image->chain && (plan->n[8] != image->chain || plan->n[9] != image->views || memcmp(plan->n, image->step, sizeof image->step)))
        return sim_fail(CUDA_ERROR_INVALID_VALUE, "kernel %s was built for another chain than the plan's", kernel->name);
    if (plan->nviews < 0 || plan->nviews > FA_PLAN_VIEWS)
        return sim_fail(CUDA_ERROR_INVALID_VALUE, "kernel %s: a plan of %d views", kernel->name, plan->nviews);
    return CUDA_SUCCESS;
}

void sim_count_launch(sim_op *op) {
    int number;
    sim.counts.launch++;
    op->number = ++current->launches;
    op->fail_late = sim_fault_now(SIM_FAULT_LATE, &number);
}

/* The part that launches share with the calls of libraries; the lock is held. pointers: SIM_POINTERS addresses. */
static CUresult push_launch(const fa_kernel_entry *kernel, unsigned groups, CUstream stream, const fa_plan *plan,
                            const CUdeviceptr *pointers) {
    int number;
    CUresult bad = maybe_lost();
    if (!bad && sim_fault_now(SIM_FAULT_LAUNCH, &number))
        bad = sim_fail(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "kernel %s: injected fault launch:%d", kernel->name, number);
    sim_op *op = bad ? NULL : sim_op_new(SIM_LAUNCH, sizeof(fa_plan));
    if (!bad && !op) bad = sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for a queued launch");
    if (bad) return bad;
    op->kernel = kernel;
    op->groups = groups;
    if (!stream->capture) sim_count_launch(op);
    memcpy(op->data, plan, sizeof *plan);
    memcpy(op->pointer, pointers, sizeof op->pointer);
    sim_push(stream, op);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **arguments,
                                void **extra) {
    const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    CUdeviceptr pointers[SIM_POINTERS];
    CUresult bad = enter();
    if (bad) return bad;
    bad = find_stream(&stream);
    if (!bad) bad = check_launch(function, grid, block, shared_bytes, arguments, extra);
    if (bad) return leave(bad);
    for (int k = 0; k < SIM_POINTERS; k++) memcpy(&pointers[k], arguments[k + 1], sizeof pointers[k]);
    return leave(push_launch(function->kernel, grid_x, stream, arguments[0], pointers));
}

CUresult sim_call(const fa_kernel_entry *kernel, CUstream stream, const fa_plan *plan, const CUdeviceptr *pointers) {
    CUresult bad = enter();
    if (bad) return bad;
    bad = find_stream(&stream);
    return leave(bad ? bad : push_launch(kernel, 1, stream, plan, pointers));
}

sim_device *sim_current(void) {
    if (enter()) return NULL;
    leave(CUDA_SUCCESS);
    return current;
}

/* The compiler's proof that these are the functions that the backend calls. */
const fai_cuda_driver sim_driver_check = {
    cuInit,
    cuDriverGetVersion,
    cuGetErrorName,
    cuGetErrorString,
    cuDeviceGetCount,
    cuDeviceGet,
    cuDeviceGetName,
    cuDeviceTotalMem_v2,
    cuDeviceGetAttribute,
    cuDeviceGetUuid_v2,
    cuDevicePrimaryCtxRetain,
    cuDevicePrimaryCtxRelease_v2,
    cuCtxSetCurrent,
    cuCtxSynchronize,
    cuMemAlloc_v2,
    cuMemFree_v2,
    cuMemHostAlloc,
    cuMemFreeHost,
    cuMemGetInfo_v2,
    cuMemcpyHtoDAsync_v2,
    cuMemcpyDtoHAsync_v2,
    cuMemcpyDtoDAsync_v2,
    cuDeviceCanAccessPeer,
    cuCtxEnablePeerAccess,
    cuMemcpyPeerAsync,
    cuMemsetD8Async,
    cuStreamCreateWithPriority,
    cuStreamDestroy_v2,
    cuStreamSynchronize,
    cuStreamWaitEvent,
    cuEventCreate,
    cuEventDestroy_v2,
    cuEventRecord,
    cuEventSynchronize,
    cuEventQuery,
    cuEventElapsedTime,
    cuModuleLoadData,
    cuModuleUnload,
    cuModuleGetFunction,
    cuLaunchKernel,
    cuStreamBeginCapture_v2,
    cuStreamEndCapture,
    cuGraphInstantiateWithFlags,
    cuGraphLaunch,
    cuGraphExecDestroy,
    cuGraphDestroy,
};
