/* The error record of a thread: the first error is kept until it is taken, later ones are counted. Nothing here allocates,
 * so that "no memory" can be said when there is none. */
#include "base.h"
#include <string.h>

static void keep_first(fa_code code, const char *op, const char *format, va_list arguments) {
    if (fai_tls.error_pending) {
        fai_cold_block()->error.later++;
        return;
    }
    fa_error *error = &fai_cold_block()->error;
    error->code = code;
    error->later = 0;
    snprintf(error->op, sizeof error->op, "%s", op ? op : "");
    vsnprintf(error->text, sizeof error->text, format, arguments);
    fai_tls.error_pending = true;
}

void *fai_fail(fa_code code, const char *op, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    keep_first(code, fai_tls.called ? fai_tls.called : op, format, arguments);
    va_end(arguments);
    return NULL;
}

void *fai_fail_memory(const char *op, size_t bytes) {
    char amount[32];
    fai_text_bytes(amount, sizeof amount, bytes);
    return fai_fail(FA_ERR_MEMORY, op, "not enough memory: tried to allocate %s of host memory. Free what is no longer needed "
                    "(fa_drop, or a smaller FA_SCOPE), or use smaller batches", amount);
}

bool fai_refuse_pending(const char *op) {
    (void)op; /* the record keeps the first error; who was refused after it is only counted */
    if (FAI_LIKELY(!fai_tls.error_pending)) return false;
    fai_cold_block()->error.later++;
    return true;
}

void fa_error_set(fa_code code, const char *op, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    keep_first(code == FA_OK ? FA_ERR_RUNTIME : code, op, format, arguments);
    va_end(arguments);
}

bool fa_failed(void) { return fai_tls.error_pending; }

const fa_error *fa_error_peek(void) { return fai_tls.error_pending ? &fai_cold_block()->error : NULL; }

fa_error fa_error_take(void) {
    fa_error taken = {.code = FA_OK};
    if (fai_tls.error_pending) taken = fai_cold_block()->error;
    fai_tls.error_pending = false;
    return taken;
}

const char *fa_code_name(fa_code code) {
    static const char *const names[] = {"no error",  "ValueError", "TypeError",     "IndexError",          "RuntimeError", "MemoryError",    "OutOfMemoryError",
                                        "AcceleratorError", "OSError",  "RuntimeError", "NotImplementedError", "KeyError",     "AttributeError", "KeyboardInterrupt",
                                        "an error of the caller's language"};
    return (size_t)code < sizeof names / sizeof *names ? names[code] : "unknown error";
}
