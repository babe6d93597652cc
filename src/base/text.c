/* A growing text, and the two forms in which shapes and amounts of memory are written. */
#include "base.h"
#include <string.h>

/* Room for n more bytes and the closing zero. */
static bool reserve(fai_text *text, size_t n) {
    if (text->failed) return false;
    if (text->length + n < text->room) return true;
    size_t room = text->room ? text->room : 64;
    while (room <= text->length + n) room *= 2;
    char *bigger = fai_realloc(FAI_TAG_TEXT, text->data, text->room, room);
    if (!bigger) {
        text->failed = true;
        return false;
    }
    if (!text->data) bigger[0] = 0;
    text->data = bigger;
    text->room = room;
    return true;
}

void fai_text_add(fai_text *text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    char small[128];
    int n = vsnprintf(small, sizeof small, format, arguments);
    if (n > 0 && reserve(text, (size_t)n)) {
        if ((size_t)n < sizeof small) memcpy(text->data + text->length, small, (size_t)n + 1);
        else vsnprintf(text->data + text->length, (size_t)n + 1, format, again);
        text->length += (size_t)n;
    }
    va_end(again);
    va_end(arguments);
}

void fai_text_add_bytes(fai_text *text, const char *bytes, size_t n) {
    if (!reserve(text, n)) return;
    memcpy(text->data + text->length, bytes, n);
    text->length += n;
    text->data[text->length] = 0;
}

void fai_text_free(fai_text *text) {
    fai_free(FAI_TAG_TEXT, text->data, text->room);
    memset(text, 0, sizeof *text);
}

void fai_text_shape(char *out, size_t n, int ndim, const int64_t *size) {
    size_t used = (size_t)snprintf(out, n, "[");
    for (int d = 0; d < ndim && used < n; d++)
        used += (size_t)snprintf(out + used, n - used, "%s%lld", d ? ", " : "", (long long)size[d]);
    if (used < n) snprintf(out + used, n - used, "]");
}

void fai_text_bytes(char *out, size_t n, uint64_t bytes) {
    static const char *const unit[] = {"KiB", "MiB", "GiB"};
    if (bytes < 1024) {
        snprintf(out, n, "%llu bytes", (unsigned long long)bytes);
        return;
    }
    int u = bytes >= (uint64_t)1 << 30 ? 2 : bytes >= (uint64_t)1 << 20 ? 1 : 0;
    snprintf(out, n, "%.2f %s", (double)bytes / (double)((uint64_t)1 << (10 * (u + 1))), unit[u]);
}
