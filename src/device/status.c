/* Bad indices. A kernel that meets one leaves six words on the device (kernels/status.h), and the next wait makes the error of them, in
 * the name of the operator that was launched; what the host knows before a launch is told at the call in the same words. */
#include "inside.h"
#include "../../kernels/dialect.h"
#include "../../kernels/status.h"
#include <stdlib.h>
#include <string.h>

/* ---- operators by number: a kernel can keep no name ---- */

enum { OPS = 128 };
static _Atomic(const char *) ops[OPS]; /* names are literals and few; the same one may stand here twice */

int64_t fai_status_op(const char *op) {
    for (int i = 1; i < OPS; i++) {
        const char *there = atomic_load_explicit(&ops[i], memory_order_relaxed);
        if (there == op) return i;
        if (!there && atomic_compare_exchange_strong(&ops[i], &there, op)) return i;
        if (there == op) return i;
    }
    return 0;
}

static const char *op_of(int64_t number) {
    const char *op = number > 0 && number < OPS ? atomic_load(&ops[number]) : NULL;
    return op ? op : "index";
}

/* ---- the message ---- */

bool fai_fail_status(const char *op, const int64_t words[6]) {
    const long long index = words[1], dim = words[2], size = words[3], position = words[4];
    if (!op) op = op_of(words[5]);
    const char *caller = fai_tls.called ? fai_tls.called : op; /* whose words and arguments they are */
    const bool flat = !strcmp(caller, "take") || !strcmp(caller, "put_"), margin = !strcmp(caller, "multi_margin_loss");
    const char *name = words[0] == FA_STATUS_TARGET || margin ? "target" : words[0] == FA_STATUS_INDEX && !flat ? "indices" : "index";
    if (fai_other_face.argument) name = fai_other_face.argument(caller, name);
    if (flat)
        return fai_fail(FA_ERR_INDEX, op,
                        "out of range: tried to access index %lld on a tensor of %lld elements. Indices go from %lld to %lld. It is element "
                        "%lld of '%s'",
                        index, size, -size, size - 1, position, name);
    if (margin)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "target out of range. Target %lld was found, and there are %lld classes: targets go from 0 to %lld. It is element "
                        "%lld of '%s'",
                        index, size, size - 1, position, name);
    switch (words[0]) {
    case FA_STATUS_TARGET:
        return fai_fail(FA_ERR_INDEX, op,
                        "Target %lld is out of bounds. There are %lld classes: targets go from 0 to %lld. It is element %lld of '%s'",
                        index, size, size - 1, position, name);
    case FA_STATUS_SELF:
        return fai_fail(FA_ERR_INDEX, op,
                        "index out of range in self. Index %lld was found, and dimension %lld has size %lld: indices go from 0 to "
                        "%lld. It is element %lld of '%s'",
                        index, dim, size, size - 1, position, name);
    case FA_STATUS_PLACE:
        return fai_fail(FA_ERR_RUNTIME, op,
                        "index %lld is out of bounds for dimension %lld with size %lld. Indices go from 0 to %lld. It is element %lld "
                        "of '%s'",
                        index, dim, size, size - 1, position, name);
    case FA_STATUS_COPY:
        return fai_fail(FA_ERR_INDEX, op,
                        "index_copy_(): index %lld is out of bounds for dimension %lld with size %lld. Indices go from 0 to %lld. It is "
                        "element %lld of '%s'",
                        index, dim, size, size - 1, position, name);
    default:
        return fai_fail(FA_ERR_INDEX, op,
                        "index %lld is out of bounds for dimension %lld with size %lld. Indices go from %lld to %lld. It is element %lld "
                        "of '%s'",
                        index, dim, size, -size, size - 1, position, name);
    }
}

/* ---- when it is looked ---- */

fai_checking fai_check_mode(void) {
    static _Atomic int mode = -1;
    int m = atomic_load_explicit(&mode, memory_order_relaxed);
    if (FAI_LIKELY(m >= 0)) return (fai_checking)m;
    const char *text = getenv("FACULA_CHECK");
    m = text && !strcmp(text, "now") ? FAI_CHECK_NOW : text && !strcmp(text, "late") ? FAI_CHECK_LATE : FAI_CHECK_KNOWN;
    if (text && *text && m == FAI_CHECK_KNOWN && strcmp(text, "known") != 0)
        fai_warn("FACULA_CHECK", "'%s' is none of now, late and known: known is taken", text);
    atomic_store(&mode, m);
    return (fai_checking)m;
}

/* PyTorch's name for it, on every kind of device. */
bool fai_launches_wait(void) {
    static _Atomic int waits = -1;
    int w = atomic_load_explicit(&waits, memory_order_relaxed);
    if (FAI_LIKELY(w >= 0)) return w > 0;
    const char *text = getenv("CUDA_LAUNCH_BLOCKING");
    w = text && *text && strcmp(text, "0") != 0;
    atomic_store(&waits, w);
    return w > 0;
}

bool fai_stream_check(fa_device device, const char *op) {
    fai_dev *dev = fai_dev_get(device, op);
    return dev && (fai_capturing(device) || fai_stream_wait(fai_stream_now(dev), op));
}
