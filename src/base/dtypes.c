/* Element types: names, sizes, torch's promotion table, and conversion between any two of them. */
#include "base.h"
#include <sys/fa_plan.h>
#include "../../kernels/dialect.h"

static const struct { const char *name, *title; } types[FA_DTYPE_COUNT] = {
    [FA_DTYPE_DEFAULT] = {"default", "Undefined"},
    [FA_BOOL] = {"bool", "Bool"},
    [FA_UINT8] = {"uint8", "Byte"},
    [FA_INT8] = {"int8", "Char"},
    [FA_INT16] = {"int16", "Short"},
    [FA_INT32] = {"int32", "Int"},
    [FA_INT64] = {"int64", "Long"},
    [FA_FLOAT16] = {"float16", "Half"},
    [FA_BFLOAT16] = {"bfloat16", "BFloat16"},
    [FA_FLOAT32] = {"float32", "Float"},
    [FA_FLOAT64] = {"float64", "Double"},
};
const uint8_t fai_dtype_bytes[FA_DTYPE_COUNT] = {[FA_BOOL] = 1, [FA_UINT8] = 1, [FA_INT8] = 1, [FA_INT16] = 2, [FA_INT32] = 4, [FA_INT64] = 8,
                                                 [FA_FLOAT16] = 2, [FA_BFLOAT16] = 2, [FA_FLOAT32] = 4, [FA_FLOAT64] = 8};

static bool known(fa_dtype dtype) { return (unsigned)dtype < FA_DTYPE_COUNT; }

const char *fa_dtype_name(fa_dtype dtype) { return known(dtype) ? types[dtype].name : "unknown dtype"; }
const char *fai_dtype_title(fa_dtype dtype) { return known(dtype) ? types[dtype].title : "Undefined"; }
size_t fa_dtype_size(fa_dtype dtype) { return known(dtype) ? fai_dtype_bytes[dtype] : 0; }
bool fa_dtype_is_floating(fa_dtype dtype) { return known(dtype) && fai_is_float(dtype); }

/* Within a category the wider type wins; uint8 with a signed type needs one that holds both; so do the two 16-bit floats. */
fa_dtype fa_promote_types(fa_dtype a, fa_dtype b) {
    if (a == b || !known(a) || !known(b)) return a;
    fa_dtype low = a < b ? a : b, high = a < b ? b : a; /* the enum goes bool, integers, floats, each by width */
    if (low == FA_UINT8 && high == FA_INT8) return FA_INT16;
    if (low == FA_FLOAT16 && high == FA_BFLOAT16) return FA_FLOAT32;
    return high;
}

static _Atomic int default_dtype = FA_FLOAT32;

fa_dtype fa_default_dtype(void) { return (fa_dtype)atomic_load_explicit(&default_dtype, memory_order_relaxed); }

void fa_set_default_dtype(fa_dtype floating) {
    if (!fa_dtype_is_floating(floating)) {
        fai_fail(FA_ERR_TYPE, "set_default_dtype", "only floating-point types are supported as the default type, but got %s; "
                 "use float16, bfloat16, float32 or float64", fa_dtype_name(floating));
        return;
    }
    atomic_store(&default_dtype, floating);
}

fa_shape fa_shape_of(int ndim, const int64_t *sizes) {
    fa_shape shape = {.ndim = ndim};
    for (int d = 0; d < ndim && d < FA_MAX_DIMS; d++) shape.dim[d] = sizes[d];
    return shape;
}

/* ---- conversion ---- */

float fai_half_to_float(uint16_t h) { return fa_half_to_f32(h); }
uint16_t fai_float_to_half(float f) { return fa_f32_to_half(f); }
float fai_bfloat16_to_float(uint16_t h) { return fa_bf16_to_f32(h); }
uint16_t fai_float_to_bfloat16(float f) { return fa_f32_to_bf16(f); }

/* Any pair goes through a tile of float64 (from floating types) or int64 (from the others): both hold every value of their
 * sources, so nothing is rounded on the way in. Each case has its own loop, in which the dialect's switch folds away. */
enum { TILE = 256 };

#define EACH(function_call) for (int64_t i = 0; i < n; i++) { function_call; } break

static void load_f64(double *tile, const char *from, fa_dtype type, int64_t n) {
    switch (type) {
    case FA_FLOAT16: EACH(tile[i] = fa_load_f64(from, FA_T_FLOAT16, i));
    case FA_BFLOAT16: EACH(tile[i] = fa_load_f64(from, FA_T_BFLOAT16, i));
    case FA_FLOAT32: EACH(tile[i] = fa_load_f64(from, FA_T_FLOAT32, i));
    default: EACH(tile[i] = fa_load_f64(from, FA_T_FLOAT64, i));
    }
}

static void load_i64(int64_t *tile, const char *from, fa_dtype type, int64_t n) {
    switch (type) {
    case FA_BOOL: EACH(tile[i] = fa_load_i64(from, FA_T_BOOL, i));
    case FA_UINT8: EACH(tile[i] = fa_load_i64(from, FA_T_UINT8, i));
    case FA_INT8: EACH(tile[i] = fa_load_i64(from, FA_T_INT8, i));
    case FA_INT16: EACH(tile[i] = fa_load_i64(from, FA_T_INT16, i));
    case FA_INT32: EACH(tile[i] = fa_load_i64(from, FA_T_INT32, i));
    default: EACH(tile[i] = fa_load_i64(from, FA_T_INT64, i));
    }
}

static void store_f64(char *to, fa_dtype type, const double *tile, int64_t n) {
    switch (type) {
    case FA_BOOL: EACH(fa_store_f64(to, FA_T_BOOL, i, tile[i]));
    case FA_UINT8: EACH(fa_store_f64(to, FA_T_UINT8, i, tile[i]));
    case FA_INT8: EACH(fa_store_f64(to, FA_T_INT8, i, tile[i]));
    case FA_INT16: EACH(fa_store_f64(to, FA_T_INT16, i, tile[i]));
    case FA_INT32: EACH(fa_store_f64(to, FA_T_INT32, i, tile[i]));
    case FA_INT64: EACH(fa_store_f64(to, FA_T_INT64, i, tile[i]));
    case FA_FLOAT16: EACH(fa_store_f64(to, FA_T_FLOAT16, i, tile[i]));
    case FA_BFLOAT16: EACH(fa_store_f64(to, FA_T_BFLOAT16, i, tile[i]));
    case FA_FLOAT32: EACH(fa_store_f64(to, FA_T_FLOAT32, i, tile[i]));
    default: EACH(fa_store_f64(to, FA_T_FLOAT64, i, tile[i]));
    }
}

static void store_i64(char *to, fa_dtype type, const int64_t *tile, int64_t n) {
    switch (type) {
    case FA_BOOL: EACH(fa_store_i64(to, FA_T_BOOL, i, tile[i]));
    case FA_UINT8: EACH(fa_store_i64(to, FA_T_UINT8, i, tile[i]));
    case FA_INT8: EACH(fa_store_i64(to, FA_T_INT8, i, tile[i]));
    case FA_INT16: EACH(fa_store_i64(to, FA_T_INT16, i, tile[i]));
    case FA_INT32: EACH(fa_store_i64(to, FA_T_INT32, i, tile[i]));
    case FA_INT64: EACH(fa_store_i64(to, FA_T_INT64, i, tile[i]));
    case FA_FLOAT16: EACH(fa_store_i64(to, FA_T_FLOAT16, i, tile[i]));
    case FA_BFLOAT16: EACH(fa_store_i64(to, FA_T_BFLOAT16, i, tile[i]));
    case FA_FLOAT32: EACH(fa_store_i64(to, FA_T_FLOAT32, i, tile[i]));
    default: EACH(fa_store_i64(to, FA_T_FLOAT64, i, tile[i]));
    }
}

void fai_convert(void *to, fa_dtype to_type, const void *from, fa_dtype from_type, int64_t n) {
    size_t to_size = fa_dtype_size(to_type), from_size = fa_dtype_size(from_type);
    if (to_type == from_type) {
        memmove(to, from, (size_t)n * to_size);
        return;
    }
    union { double f[TILE]; int64_t i[TILE]; } tile;
    for (int64_t done = 0; done < n; done += TILE) {
        int64_t now = n - done < TILE ? n - done : TILE;
        const char *source = (const char *)from + (size_t)done * from_size;
        char *target = (char *)to + (size_t)done * to_size;
        if (fai_is_float(from_type)) {
            load_f64(tile.f, source, from_type, now);
            store_f64(target, to_type, tile.f, now);
        } else {
            load_i64(tile.i, source, from_type, now);
            store_i64(target, to_type, tile.i, now);
        }
    }
}
