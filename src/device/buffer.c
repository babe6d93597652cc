/* One allocation on one device, counted by references. Counts are atomic: queues and worker threads hold buffers.
 *
 * Memory of a device goes back to its allocator at once, although kernels that use it may still wait in its stream: whoever
 * gets it next writes to it through the same stream, behind them. If other streams used it (fa_record_stream), it waits until they
 * are done with what they had when it was freed. Nothing is given back to the driver before a wait. */
#include "inside.h"
#include <string.h>

static void fill_in(fai_buffer *b, fa_device device, size_t bytes) {
    atomic_init(&b->refs, 1);
    b->version = 0;
    b->device = device;
    b->bytes = bytes;
    b->release = NULL;
    b->context = NULL;
    b->written = 0;
    b->ranged = 0;
    b->exported = false;
    b->pending = false;
    atomic_init(&b->held, 0);
}

static void nothing_to_release(void *context) { (void)context; }

fai_buffer *fai_buffer_new(fa_device device, size_t bytes, const char *op) {
    if (FAI_LIKELY(device.type == FA_DEVICE_CPU)) {
        fai_buffer *b = fai_host_buffer(bytes, op);
        if (FAI_LIKELY(b != NULL)) fill_in(b, device, bytes);
        return b;
    }
    fai_dev *dev = fai_dev_get(device, op);
    if (!dev) return NULL;
    fai_buffer *b = fai_host_header(op);
    if (!b) return NULL;
    fill_in(b, dev->name, bytes);
    b->address = b->room = 0;
    if (bytes == 0) return b;
    fai_heap *heap = fai_heap_now(dev, op);
    fai_block *block = heap ? fai_block_new(dev, heap, bytes, op) : NULL;
    if (!block) {
        fai_host_header_free(b);
        return NULL;
    }
    b->address = fai_block_address(block);
    b->room = fai_block_size(block);
    b->context = block;
    return b;
}

fai_buffer *fai_buffer_wrap(void *data, size_t bytes, void (*release)(void *), void *context, const char *op) {
    fai_buffer *b = fai_host_header(op);
    if (!b) return NULL;
    fill_in(b, FA_CPU, bytes);
    b->address = (uint64_t)(uintptr_t)data;
    b->room = bytes;
    b->release = release ? release : nothing_to_release;
    b->context = context;
    return b;
}

static void free_device_memory(fai_buffer *b) {
    fai_dev *dev = b->context && !fai_forked_child() ? fai_dev_find(b->device) : NULL;
    if (dev && FAI_UNLIKELY(atomic_load_explicit(&b->held, memory_order_relaxed) != 0)) fai_fuse_forget(dev, b);
    if (dev) fai_block_free(dev, b->context);
}

void fai_buffer_unref(fai_buffer *b) {
    if (!b) return;
    if (atomic_load_explicit(&b->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (FAI_LIKELY(b->device.type == FA_DEVICE_CPU && !b->release)) {
        fai_host_buffer_free(b);
        return;
    }
    if (b->release) b->release(b->context);
    else free_device_memory(b);
    fai_host_header_free(b);
}

bool fai_buffer_used_by(fai_buffer *b, fa_stream stream, const char *op) {
    const bool host = stream.device.type == FA_DEVICE_CPU; /* it has no queue to find */
    const fai_stream *s = host ? NULL : fai_stream_find(stream, op);
    if (!s && !host) return false;
    if (!b->context || b->device.type == FA_DEVICE_CPU) return true; /* no memory, or the host's */
    if (host || !fa_device_equal(b->device, s->dev->name))
        return fai_fail(FA_ERR_RUNTIME, op, "the tensor is on %s but the stream belongs to %s: a stream uses memory of its own device",
                        fa_device_text(b->device), fa_device_text(stream.device));
    fai_block_used_by(s->dev, b->context, s);
    return true;
}
