/* Where a device's memory is, in words: what people ask who compare the sum of their tensors with what nvidia-smi shows. */
#include "inside.h"
#include <string.h>

enum { NAMED = 5 };

static void tell_live(fai_dev *dev, const fa_memory_stats *s, fai_text *out) {
    const uint64_t live = s->allocated_bytes[FA_POOL_ALL].current, count = s->allocation[FA_POOL_ALL].current;
    char amount[32];
    fai_text_bytes(amount, sizeof amount, live);
    fai_text_add(out, "live     %s in %llu buffers of tensors that live", amount, (unsigned long long)count);
    if (live) {
        fai_text_add(out, ":");
        fai_tell_holders(dev, NAMED, out);
    }
    fai_text_add(out, "\n");
}

static void tell_cached(fai_dev *dev, const fa_memory_stats *s, fai_text *out) {
    const uint64_t cached = s->reserved_bytes[FA_POOL_ALL].current - s->allocated_bytes[FA_POOL_ALL].current,
                   whole = fai_count_free(dev, FA_POOL_ALL).whole;
    char amount[32], back[32], rest[32];
    fai_text_bytes(amount, sizeof amount, cached);
    fai_text_bytes(back, sizeof back, whole);
    fai_text_bytes(rest, sizeof rest, cached - whole);
    fai_text_add(out, "cached   %s that tensors gave back and the next ones will get", amount);
    if (cached) fai_text_add(out, "; fa_empty_cache gives %s of it to the driver", back);
    if (cached > whole) fai_text_add(out, ", %s lie between live buffers", rest);
    fai_text_add(out, "\n");
}

static void tell_all(fai_dev *dev, fai_text *out) {
    fa_memory_stats s;
    fa_device_properties p;
    uint64_t available = 0, total = 0;
    char amount[32], name[96];
    if (!fa_memory_get_stats(dev->name, &s) || !fa_memory_info(dev->name, &available, &total) || !fa_device_get_properties(dev->name, &p)) return;
    const uint64_t reserved = s.reserved_bytes[FA_POOL_ALL].current, used = total - available, other = used > reserved ? used - reserved : 0;
    snprintf(name, sizeof name, "%s", fa_device_text(dev->name));
    fai_text_bytes(amount, sizeof amount, total);
    fai_text_add(out, "%s, %s: %s in all\n", name, p.name, amount);
    tell_live(dev, &s, out);
    tell_cached(dev, &s, out);
    fai_text_bytes(amount, sizeof amount, other);
    fai_text_add(out, "context  %s that the driver's context and other programs hold; they end with their programs\n", amount);
    fai_text_bytes(amount, sizeof amount, available);
    fai_text_add(out, "free     %s\n", amount);
    fai_text_bytes(amount, sizeof amount, used);
    fai_text_add(out, "nvidia-smi and its kind show live + cached + context: %s. Dropping a tensor moves its memory from live to cached.\n", amount);
}

size_t fa_memory_explain(fa_device device, char *out, size_t n) {
    fai_text text = {0};
    if (n) out[0] = 0;
    fai_dev *dev = fai_dev_get(device, "memory_explain");
    if (!dev) return 0;
    tell_all(dev, &text);
    if (text.failed) fai_fail_memory("memory_explain", text.room * 2);
    const size_t length = text.length;
    if (n && length && !fa_failed()) snprintf(out, n, "%s", text.data);
    fai_text_free(&text);
    return fa_failed() ? 0 : length;
}
