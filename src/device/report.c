/* What an out-of-memory error says: who has the memory, and what would help. */
#include "inside.h"

enum { REPORTED = 5 };

static size_t find_largest(const fai_dev *dev, const fai_block *largest[REPORTED]) {
    size_t found = 0;
    for (const fai_block *block = dev->live; block; block = block->after) {
        size_t at = found;
        while (at > 0 && largest[at - 1]->size < block->size) at--;
        if (at == REPORTED) continue;
        if (found < REPORTED) found++;
        for (size_t i = found - 1; i > at; i--) largest[i] = largest[i - 1];
        largest[at] = block;
    }
    return found;
}

static size_t add_text(char *out, size_t n, size_t used, const char *format, ...) FA_PRINTF(4, 5);
static size_t add_text(char *out, size_t n, size_t used, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int more = used < n ? vsnprintf(out + used, n - used, format, arguments) : 0;
    va_end(arguments);
    return used + (size_t)(more > 0 ? more : 0);
}

static size_t add_holders(fai_dev *dev, char *out, size_t n, size_t used) {
    const fai_block *largest[REPORTED];
    fai_block copy[REPORTED];
    pthread_mutex_lock(&dev->memory_lock);
    size_t found = find_largest(dev, largest);
    for (size_t i = 0; i < found; i++) copy[i] = *largest[i];
    pthread_mutex_unlock(&dev->memory_lock);
    char amount[32];
    if (found == 0) return add_text(out, n, used, "No tensor of this process lies there.");
    used = add_text(out, n, used, "The largest live buffers:");
    for (size_t i = 0; i < found; i++) {
        fai_text_bytes(amount, sizeof amount, copy[i].size);
        used = add_text(out, n, used, "%s %s made by '%s'", i ? "," : "", amount, copy[i].op);
    }
    return add_text(out, n, used, ".");
}

/* Everything unused was given back before this was called, so an emptied cache is no remedy any more; the text says so. */
void *fai_fail_device_memory(fai_dev *dev, size_t bytes, uint64_t released, const char *op) {
    uint64_t available = 0, total = 0, allocated = fa_memory_allocated(dev->name), reserved = fa_memory_reserved(dev->name);
    char tried[32], capacity[32], room[32], live[32], cached[32], gone[32], allowed[32] = "", upper[16], text[1600];
    dev->backend->memory_info(dev->ordinal, &available, &total);
    fai_text_bytes(tried, sizeof tried, bytes);
    fai_text_bytes(capacity, sizeof capacity, total);
    fai_text_bytes(room, sizeof room, available);
    fai_text_bytes(live, sizeof live, allocated);
    fai_text_bytes(cached, sizeof cached, reserved - allocated);
    fai_text_bytes(gone, sizeof gone, released);
    if (dev->limited) fai_text_bytes(allowed, sizeof allowed, dev->limit);
    fai_type_upper(upper, dev->name.type);
    size_t used =
        add_text(text, sizeof text, 0,
                 "%s out of memory. Tried to allocate %s. GPU %d has a total capacity of %s of which %s is free. %s%sOf the "
                 "allocated memory %s is allocated by Facula, and %s is reserved by Facula but unallocated. ",
                 upper, tried, dev->name.index, capacity, room, allowed, dev->limited ? " allowed; " : "", live, cached);
    used = add_holders(dev, text, sizeof text, used);
    if (released)
        used = add_text(text, sizeof text, used,
                        " The cache was emptied first (%s given back), so fa_empty_cache would not help.", gone);
    else if (reserved == allocated)
        used = add_text(text, sizeof text, used, " Nothing is cached, so fa_empty_cache would not help.");
    else
        used = add_text(text, sizeof text, used,
                        " fa_empty_cache would free nothing: what is cached lies between live buffers of the same segments.");
    add_text(text, sizeof text, used,
             " Use a smaller batch, drop what is no longer needed (a list of losses keeps every graph: keep fa_item(loss) "
             "instead), or compute without gradients where none are needed.");
    return fai_fail(FA_ERR_DEVICE_MEMORY, op, "%s", text);
}
