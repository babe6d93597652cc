/* The OpenCL backend: memory and copies, and the table of the contract's functions.
 *
 * OpenCL 1.2 has no addresses that hold on a device and on the host alike. The contract's are made here: the number of a memory
 * object above bit 40, an offset below. So an address and an offset may be added as usual, an object is found without a search, and a
 * kernel gets the object and the offset. A kernel that reads an address in memory gets the objects that the plan lists besides. */
#include "opencl.h"
#include <string.h>

static const char *error_text(void) { return fai_cold_block()->backend_text; }

/* Programs, kernels and memory go with the process: drivers are gone at its end before all handlers have run. */
static void close_driver(void) {}

/* ---- memory ---- */

bool fai_opencl_find_memory(const fai_opencl_device *d, fa_address address, cl_mem *object, size_t *offset) {
    const uint64_t place = (address >> FAI_OPENCL_SHIFT) - 1, rest = address & (((uint64_t)1 << FAI_OPENCL_SHIFT) - 1);
    if (place >= d->room || !d->memory[place].object || rest > d->memory[place].bytes) return false;
    *object = d->memory[place].object;
    *offset = (size_t)rest;
    return true;
}

/* With the lock held: a place in the table that is free; d->room if there is none and no memory for more. */
static unsigned free_place(fai_opencl_device *d) {
    for (unsigned i = 0; i < d->room; i++)
        if (!d->memory[i].object) return i;
    const unsigned room = d->room ? 2 * d->room : 64;
    fai_opencl_memory *more = fai_calloc(FAI_TAG_OTHER, room * sizeof *more);
    if (!more) return d->room;
    if (d->memory) {
        memcpy(more, d->memory, d->room * sizeof *more);
        fai_free(FAI_TAG_OTHER, d->memory, d->room * sizeof *more);
    }
    const unsigned first = d->room;
    d->memory = more;
    d->room = room;
    return first;
}

/* Drivers give memory at its first use: it is used at once, so that what is not there is told here. */
static int make_memory(int device, size_t bytes, cl_mem *out) {
    fai_opencl_device *d = &fai_opencl_devices[device];
    cl_int code = CL_SUCCESS;
    if (bytes > d->most) code = CL_INVALID_BUFFER_SIZE;
    else if (bytes > d->total - d->used) code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    *out = code == CL_SUCCESS ? fai_opencl.memory_create(d->context, CL_MEM_READ_WRITE, bytes, NULL, &code) : NULL;
    if (*out) code = fai_opencl.memory_migrate(d->queue.queue, 1, out, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
    if (*out && code == CL_SUCCESS) return 0;
    if (*out) fai_opencl.memory_release(*out);
    if (code == CL_OUT_OF_RESOURCES) code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return fai_opencl_failed(device, code, "allocating %zu bytes on device %d (%llu of %llu bytes in use, %llu at most at once)", bytes,
                             device, (unsigned long long)d->used, (unsigned long long)d->total, (unsigned long long)d->most);
}

static int allocate(int device, size_t bytes, fa_address *out) {
    cl_mem object;
    *out = 0;
    int bad = fai_opencl_enter(device);
    if (bad) return bad;
    fai_opencl_device *d = &fai_opencl_devices[device];
    pthread_mutex_lock(&d->lock);
    const unsigned place = free_place(d);
    bad = place < d->room ? make_memory(device, bytes, &object)
                          : fai_opencl_failed(device, CL_OUT_OF_HOST_MEMORY, "allocating on device %d", device);
    if (!bad) {
        d->memory[place] = (fai_opencl_memory){object, bytes};
        d->used += bytes;
        *out = (fa_address)(place + 1) << FAI_OPENCL_SHIFT;
    }
    pthread_mutex_unlock(&d->lock);
    return bad;
}

static int release(int device, fa_address address) {
    fai_opencl_device *d = &fai_opencl_devices[device];
    cl_mem object;
    size_t offset;
    int bad = 0;
    pthread_mutex_lock(&d->lock);
    if (fai_opencl_find_memory(d, address, &object, &offset) && offset == 0) {
        fai_opencl_memory *m = &d->memory[(address >> FAI_OPENCL_SHIFT) - 1];
        d->used -= m->bytes;
        *m = (fai_opencl_memory){NULL, 0};
        fai_opencl.memory_release(object); /* queued commands hold it until they are done */
    } else {
        bad = fai_opencl_refused("OpenCL error: freeing memory of device %d that is none", device);
    }
    pthread_mutex_unlock(&d->lock);
    return bad;
}

/* OpenCL does not tell how much is free: what this process has not taken. Asked of a lost device, too, to see whether it is back. */
static int memory_info(int device, uint64_t *free_bytes, uint64_t *total_bytes) {
    int bad = fai_opencl_enter(device);
    if (bad) return bad;
    fai_opencl_device *d = &fai_opencl_devices[device];
    cl_int code = fai_opencl.finish(d->queue.queue);
    *total_bytes = d->total;
    *free_bytes = d->total - d->used;
    return code == CL_SUCCESS ? 0 : fai_opencl_failed(device, code, "asking device %d for its free memory", device);
}

/* ---- copies ---- */

static int find(int device, fa_address address, cl_mem *object, size_t *offset) {
    int bad = fai_opencl_enter(device);
    if (bad) return bad;
    fai_opencl_device *d = &fai_opencl_devices[device];
    pthread_mutex_lock(&d->lock);
    if (!fai_opencl_find_memory(d, address, object, offset)) bad = fai_opencl_refused("OpenCL error: memory of device %d that is none", device);
    pthread_mutex_unlock(&d->lock);
    return bad;
}

static int copy(int device, fa_stream_handle stream, fa_copy_kind kind, fa_address address, void *host, fa_address other, size_t bytes) {
    cl_mem object, from;
    size_t offset, from_offset;
    int bad = find(device, address, &object, &offset);
    if (!bad && kind == FA_COPY_WITHIN) bad = find(device, other, &from, &from_offset);
    if (bad) return bad;
    cl_command_queue queue = fai_opencl_queue_of(device, stream)->queue;
    cl_int code = CL_SUCCESS;
    switch (kind) {
    case FA_COPY_TO_DEVICE: code = fai_opencl.write(queue, object, 0, offset, bytes, host, 0, NULL, NULL); break;
    case FA_COPY_TO_HOST: code = fai_opencl.read(queue, object, 0, offset, bytes, host, 0, NULL, NULL); break;
    case FA_COPY_WITHIN: code = fai_opencl.copy(queue, from, object, from_offset, offset, bytes, 0, NULL, NULL); break;
    }
    return code == CL_SUCCESS ? 0 : fai_opencl_failed(device, code, "copying %zu bytes to, from or within device %d", bytes, device);
}

static int fill(int device, fa_stream_handle stream, fa_address address, int byte, size_t bytes) {
    cl_mem object;
    size_t offset;
    unsigned char pattern = (unsigned char)byte;
    int bad = find(device, address, &object, &offset);
    if (bad) return bad;
    cl_int code = fai_opencl.fill(fai_opencl_queue_of(device, stream)->queue, object, &pattern, 1, offset, bytes, 0, NULL, NULL);
    return code == CL_SUCCESS ? 0 : fai_opencl_failed(device, code, "filling %zu bytes of device %d", bytes, device);
}

const fa_backend *fai_backend_opencl(void) {
    static const fa_backend backend = {
        .struct_size = sizeof(fa_backend),
        .abi = FA_BACKEND_ABI,
        .name = "opencl",
        .dialect = "opencl",
        .open = fai_opencl_open,
        .close = close_driver,
        .properties = fai_opencl_properties,
        .error_text = error_text,
        .allocate = allocate,
        .release = release,
        .memory_info = memory_info,
        .copy = copy,
        .fill = fill,
        .stream_create = fai_opencl_stream_create,
        .stream_destroy = fai_opencl_stream_destroy,
        .stream_wait = fai_opencl_stream_wait,
        .event_create = fai_opencl_event_create,
        .event_destroy = fai_opencl_event_destroy,
        .event_record = fai_opencl_event_record,
        .event_wait = fai_opencl_event_wait,
        .stream_wait_event = fai_opencl_stream_wait_event,
        .event_query = fai_opencl_event_query,
        .event_elapsed = fai_opencl_event_elapsed,
        .build = fai_opencl_build,
        .unload = fai_opencl_unload,
        .find = fai_opencl_find,
        .launch = fai_opencl_launch,
        .objects = true,
    };
    return &backend;
}
