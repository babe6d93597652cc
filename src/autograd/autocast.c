/* Autocast: mixed precision by a mode. While it is on for a type of device, an operator that src/ops/autocast.tab names meets its
 * inputs in the type that the table says, and everything inside that operator runs as if autocast were off. The casts are recorded,
 * so a weight in float32 gets its gradient in float32.
 *
 * Weights are cast once: while a scope is open, the cast of a float32 leaf is kept for its next use, and thrown away at the end of the
 * outermost scope. A kept cast serves only as long as the leaf is unchanged and as long as it can give the leaf its gradient, where
 * one is recorded. */
#include "autocast.h"
#include "generated.h"
#include <string.h>

/* ---- the thread's modes ---- */

static bool type_ok(const char *op, fa_device device) {
    if (device.type > 0 && device.type < 16) return true;
    return fai_fail(FA_ERR_VALUE, op, "argument 'device' is not given: say FA_CPU, FA_CUDA(-1), or what fa_device_parse reads.") != NULL;
}

bool fa_is_autocast_enabled(fa_device device) { return device.type > 0 && device.type < 16 && fai_tls.autocast >> device.type & 1; }

bool fa_set_autocast_enabled(fa_device device, bool on) {
    if (!type_ok("set_autocast_enabled", device)) return false;
    const bool was = fa_is_autocast_enabled(device);
    const uint16_t bit = (uint16_t)(1u << device.type);
    fai_tls.autocast = (uint16_t)(on ? fai_tls.autocast | bit : fai_tls.autocast & ~bit);
    return was;
}

fa_dtype fa_autocast_dtype(fa_device device) {
    if (!type_ok("autocast_dtype", device)) return FA_DTYPE_DEFAULT;
    const uint8_t chosen = fai_tls.autocast_dtype[device.type];
    return chosen ? (fa_dtype)chosen : device.type == FA_DEVICE_CPU ? FA_BFLOAT16 : FA_FLOAT16;
}

fa_dtype fa_set_autocast_dtype(fa_device device, fa_dtype dtype) {
    if (!type_ok("set_autocast_dtype", device)) return FA_DTYPE_DEFAULT;
    const fa_dtype was = fa_autocast_dtype(device);
    fai_tls.autocast_dtype[device.type] = (uint8_t)dtype;
    return was;
}

bool fa_is_autocast_cache_enabled(void) { return !fai_tls.autocast_uncached; }

bool fa_set_autocast_cache_enabled(bool on) {
    const bool was = !fai_tls.autocast_uncached;
    fai_tls.autocast_uncached = !on;
    return was;
}

/* Whether autocast can be on there: else the scope is switched off, with torch's warning. */
bool fai_autocast_usable(fa_device device, fa_dtype dtype) {
    char name[16];
    snprintf(name, sizeof name, "%s", fa_device_text(fa_device_of_type(device.type, -1)));
    for (char *c = name; *c; c++)
        if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
    if (device.type == FA_DEVICE_CUDA && !fa_device_is_available(device.type)) {
        fai_warn("autocast", "CUDA is not available or torch_xla is imported. Disabling autocast.");
        return false;
    }
    if (!fa_device_is_available(device.type) && device.type != FA_DEVICE_CPU) {
        fai_warn("autocast", "User provided device_type of '%s', but %s is not available. Disabling", fa_device_text(fa_device_of_type(device.type, -1)), name);
        return false;
    }
    if (dtype == FA_FLOAT16 || dtype == FA_BFLOAT16) return true;
    fai_warn("autocast", "In %s autocast, but the target dtype is not supported. Disabling autocast.\n%s Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
             name, name);
    return false;
}

fa_autocast fai_autocast_begin(fa_device device, const fa_autocast_options *options) {
    const fa_autocast was = {.type = device.type,
                             .dtype = fai_tls.autocast_dtype[device.type],
                             .enabled = fa_set_autocast_enabled(device, options->enabled),
                             .cache_enabled = fa_set_autocast_cache_enabled(options->cache_enabled)};
    fai_tls.autocast_dtype[device.type] = (uint8_t)options->dtype;
    fai_tls.autocast_depth++;
    return was;
}

fa_autocast fa_autocast_open(fa_device device, const fa_autocast_options *options) {
    if (!type_ok("autocast", device) || !fai_options_ok("autocast", options ? options->struct_size : 0, sizeof *options)) return (fa_autocast){.type = 0};
    fa_autocast_options o = *options;
    if (!o.dtype) o.dtype = fa_autocast_dtype(device);
    o.enabled = o.enabled && fai_autocast_usable(device, o.dtype);
    return fai_autocast_begin(device, &o);
}

void fa_autocast_close(const fa_autocast *was) {
    if (!was || was->type <= 0) return; /* it could not be opened */
    if (fai_tls.autocast_depth && --fai_tls.autocast_depth == 0) fai_autocast_forget();
    fa_set_autocast_enabled(fa_device_of_type(was->type, -1), was->enabled);
    fai_tls.autocast_dtype[was->type] = (uint8_t)was->dtype;
    fai_tls.autocast_uncached = !was->cache_enabled;
}

/* ---- weights that were cast ---- */

typedef struct entry { fa_tensor *source, *cast; uint32_t version; } entry;
typedef struct fai_autocast_cache { size_t room, used; entry *at; } fai_autocast_cache;

void fai_autocast_forget(void) {
    fai_autocast_cache *cache = fai_cold_block()->autocast;
    if (!cache) return;
    fai_cold_block()->autocast = NULL; /* what dies may come here again */
    for (size_t i = 0; i < cache->room; i++) fai_unref(cache->at[i].cast), fai_unref(cache->at[i].source);
    fai_free(FAI_TAG_OBJECT, cache->at, cache->room * sizeof *cache->at);
    fai_free(FAI_TAG_OBJECT, cache, sizeof *cache);
}

void fa_clear_autocast_cache(void) { fai_autocast_forget(); }

static entry *place_of(entry *at, size_t room, const fa_tensor *source) {
    size_t i = (size_t)((uintptr_t)source / 64 * 0x9E3779B97F4A7C15u >> 20) & (room - 1);
    while (at[i].source && at[i].source != source) i = (i + 1) & (room - 1);
    return &at[i];
}

/* A place for source, or NULL if there is no memory for one: then it is cast each time, which is no error. */
static entry *cache_place(const fa_tensor *source) {
    fai_autocast_cache *cache = fai_cold_block()->autocast;
    if (!cache) {
        static atomic_bool asked;
        if (!atomic_exchange(&asked, true)) fai_on_thread_end(fai_autocast_forget);
        fai_watch_thread();
        if (!(cache = fai_calloc(FAI_TAG_OBJECT, sizeof *cache))) return NULL;
        fai_cold_block()->autocast = cache;
    }
    if (cache->used * 2 >= cache->room) {
        const size_t room = cache->room ? 2 * cache->room : 64;
        entry *more = fai_calloc(FAI_TAG_OBJECT, room * sizeof *more);
        if (!more) return NULL;
        for (size_t i = 0; i < cache->room; i++)
            if (cache->at[i].source) *place_of(more, room, cache->at[i].source) = cache->at[i];
        fai_free(FAI_TAG_OBJECT, cache->at, cache->room * sizeof *cache->at);
        cache->at = more, cache->room = room;
    }
    entry *e = place_of(cache->at, cache->room, source);
    if (!e->source) cache->used++, e->source = fai_ref((void *)source);
    return e;
}

static fa_tensor *cast_weight(fa_tensor *t, fa_dtype dtype) {
    entry *e = cache_place(t);
    if (!e) return fa_to_dtype(t, dtype);
    const bool serves = e->cast && e->cast->dtype == dtype && e->version == *fai_version(t) && fa_device_equal(e->cast->device, t->device) &&
                        (!fai_recording() || e->cast->node);
    if (serves) return e->cast;
    fa_tensor *cast = fa_to_dtype(t, dtype);
    if (!cast) return NULL;
    fai_unref(e->cast);
    e->cast = fai_ref(cast), e->version = *fai_version(t);
    return cast;
}

/* ---- at an operator's door ---- */

static bool castable(const fa_tensor *t, int type) {
    return t && t->device.type == type && fai_is_float(t->dtype) && t->dtype != FA_FLOAT64;
}

static fa_tensor *cast_to(fa_tensor *t, fa_dtype dtype) {
    const bool weight = t->dtype == FA_FLOAT32 && dtype != FA_FLOAT32 && FAI_HAS(t, FAI_REQUIRES_GRAD) && !t->node && !t->base;
    return weight && fai_tls.autocast_depth && !fai_tls.autocast_uncached ? cast_weight(t, dtype) : fa_to_dtype(t, dtype);
}

static bool refuse(const char *op) {
    return fai_fail(FA_ERR_RUNTIME, op,
                    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
                    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
                    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
                    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
                    "safe to autocast.") != NULL;
}

/* Where the operator will run: an accelerator if any tensor is on one. 0: autocast is off there. */
static int type_of(fa_tensor *const *tensors, int n) {
    int type = 0;
    for (int i = 0; i < n; i++)
        if (tensors[i] && (!type || tensors[i]->device.type != FA_DEVICE_CPU)) type = tensors[i]->device.type;
    return type && fai_tls.autocast >> type & 1 ? type : 0;
}

bool fai_cast_begin(fai_casting *c, const char *op, uint8_t casts, fa_tensor **tensors, int n) {
    *c = (fai_casting){.was = fai_tls.autocast};
    const int type = type_of(tensors, n), how = type == FA_DEVICE_CPU ? casts >> 4 : casts & 15;
    if (!type || how == FAI_CAST_NONE) return true;
    if (how == FAI_CAST_REFUSE) return refuse(op);
    if (how == FAI_CAST_OWN) return fai_tls.autocast = 0, true;
    fa_dtype dtype = how == FAI_CAST_LOWER ? fa_autocast_dtype(fa_device_of_type(type, -1)) : FA_FLOAT32;
    bool found = how != FAI_CAST_WIDEST;
    for (int i = 0; i < n && !found; i++) found = castable(tensors[i], type) && tensors[i]->dtype == FA_FLOAT32;
    fai_tls.autocast = 0;
    fa_scope_open();
    c->scoped = true;
    for (int i = 0; i < n && found; i++)
        if (castable(tensors[i], type) && tensors[i]->dtype != dtype && !(tensors[i] = cast_to(tensors[i], dtype))) return false;
    return true;
}

bool fai_cast_begin_list(fai_casting *c, const char *op, uint8_t casts, fa_tensor *const **tensors, int n) {
    const size_t bytes = (size_t)(n > 0 ? n : 0) * sizeof(fa_tensor *);
    fa_tensor **copy = bytes && *tensors ? fai_alloc(FAI_TAG_OBJECT, bytes) : NULL;
    *c = (fai_casting){.was = fai_tls.autocast};
    if (!bytes || !*tensors) return true; /* the operator says what is wrong with it */
    if (!copy) return fai_fail_memory(op, bytes) != NULL;
    memcpy(copy, *tensors, bytes);
    *tensors = copy;
    const bool fine = fai_cast_begin(c, op, casts, copy, n);
    c->list = copy, c->nlist = n;
    return fine;
}

fa_tensor *fai_cast_end(fai_casting *c, fa_tensor *result) {
    if (c->list) fai_free(FAI_TAG_OBJECT, c->list, (size_t)c->nlist * sizeof *c->list);
    fai_tls.autocast = c->was;
    if (!c->scoped) return result;
    fai_return(result);
    fa_scope_close();
    return result;
}
