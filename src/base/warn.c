/* Warnings: what is allowed and most likely a mistake. Told once for each function and kind, to stderr, or every time to a
 * handler that does its own counting (the Python face: UserWarning). */
#include "base.h"

enum { KINDS = 64 };

static void (*_Atomic handler)(const char *op, const char *text);
static _Atomic uint64_t told[KINDS]; /* hashes of what was told; a full table tells again */

void fai_set_warn(void (*tell)(const char *op, const char *text)) { atomic_store(&handler, tell); }

bool fai_mute(bool mute) {
    const bool was = fai_tls.muted;
    fai_tls.muted = mute;
    return was;
}

static bool told_before(uint64_t what) {
    for (int i = 0; i < KINDS; i++) {
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&told[i], &there, what)) return false;
        if (there == what) return true;
    }
    return false;
}

void fai_warn(const char *op, const char *format, ...) {
    char text[1000];
    void (*tell)(const char *, const char *) = atomic_load(&handler);
    if (fai_tls.muted) return;
    if (!tell && told_before(fai_hash(&format, sizeof format, fai_hash(&op, sizeof op, 1)) | 1)) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (tell)
        tell(op, text);
    else
        fprintf(stderr, "facula: warning: %s: %s\n", op, text);
}
