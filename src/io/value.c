/* Documents of values: one growing heap for each, from which nothing is given back before the whole document goes. So values may
 * be shared and may hold each other in circles without any counting. Lists and dicts are in containers.c. */
#include "value.h"
#include <string.h>

enum { FIRST_BLOCK = 4096, LAST_BLOCK = 1 << 20 };

struct fai_block {
    fai_block *next;
    size_t size, used;
};

/* ---- The heap ---- */

bool fai_values_charge(fa_values *s, uint64_t bytes) {
    if (bytes <= s->limit - s->used) {
        s->used += bytes;
        return true;
    }
    char limit[32];
    fai_text_bytes(limit, sizeof limit, s->limit);
    return fai_fail(
        FA_ERR_FORMAT, s->op,
        "the values and tensors of the file need more than the limit of %s of memory; if you trust the file, read it with "
        "a higher limit (fa_pt_options.limit; in Python torch.serialization.set_load_limit)",
        limit);
}

static fai_block *add_block(fa_values *s, size_t bytes) {
    size_t size = s->blocks == NULL ? FIRST_BLOCK : s->blocks->size >= LAST_BLOCK ? LAST_BLOCK : 2 * s->blocks->size;
    if (size < bytes + sizeof(fai_block)) size = bytes + sizeof(fai_block);
    fai_block *block = size < bytes ? NULL : fai_alloc(FAI_TAG_OBJECT, size);
    if (block == NULL) return fai_fail_memory(s->op, size);
    *block = (fai_block){s->blocks, size, sizeof *block};
    return s->blocks = block;
}

void *fai_values_take(fa_values *s, size_t bytes) {
    size_t padded = (bytes + 7) & ~(size_t)7;
    fai_block *block = s->blocks;
    if (padded < bytes || !fai_values_charge(s, padded)) return NULL;
    if ((block == NULL || block->size - block->used < padded) && (block = add_block(s, padded)) == NULL) return NULL;
    void *out = (char *)block + block->used;
    block->used += padded;
    return memset(out, 0, padded);
}

static void destroy(void *object) {
    fa_values *s = object;
    for (size_t i = 0; i < s->ntensors; i++) fai_unref(s->tensors[i]);
    fai_free(FAI_TAG_OBJECT, s->tensors, s->tensors_room * sizeof *s->tensors);
    for (fai_block *b = s->blocks, *next; b != NULL; b = next) {
        next = b->next;
        fai_free(FAI_TAG_OBJECT, b, b->size);
    }
    fai_free(FAI_TAG_OBJECT, s, sizeof *s);
}

fa_values *fa_values_new(void) {
    fai_set_destructor(FAI_VALUES, destroy);
    fa_values *s = fai_calloc(FAI_TAG_OBJECT, sizeof *s);
    if (s == NULL) return fai_fail_memory("values_new", sizeof *s);
    fai_object_init(s, FAI_VALUES);
    s->op = "values";
    s->limit = UINT64_MAX;
    s->seed = (uint64_t)(uintptr_t)s * 0x9e3779b97f4a7c15u;
    return fai_scope_add(s, "values_new") ? s : NULL;
}

fa_value *fa_values_root(const fa_values *s) { return s == NULL ? NULL : s->root; }
uint32_t fa_values_count(const fa_values *s) { return s == NULL ? 0 : s->count; }
fa_values *fa_values_of(const fa_value *v) { return v == NULL ? NULL : v->owner; }

bool fa_values_set_root(fa_values *s, fa_value *root) {
    if (s == NULL || root == NULL) return false;
    if (root->owner != s) return fai_fail(FA_ERR_VALUE, "values_set_root", "the root is a value of another document");
    s->root = root;
    return true;
}

/* ---- Making ---- */

fa_value *fai_values_make(fa_values *s, int kind) {
    if (s == NULL) return NULL;
    if (s->count == UINT32_MAX) return fai_fail(FA_ERR_VALUE, s->op, "a document can have at most 4,294,967,295 values");
    fa_value *v = fai_values_take(s, sizeof *v);
    if (v == NULL) return NULL;
    v->kind = (uint8_t)kind;
    v->index = s->count++;
    v->owner = s;
    return v;
}

/* None, True and False are one value each, as in Python. */
fa_value *fa_values_none(fa_values *s) {
    if (s != NULL && s->none == NULL) s->none = fai_values_make(s, FA_VALUE_NONE);
    return s == NULL ? NULL : s->none;
}

fa_value *fa_values_bool(fa_values *s, bool b) {
    if (s == NULL) return NULL;
    fa_value **one = b ? &s->yes : &s->no;
    if (*one == NULL && (*one = fai_values_make(s, FA_VALUE_BOOL)) != NULL) (*one)->as.b = b;
    return *one;
}

fa_value *fa_values_int(fa_values *s, int64_t i) {
    fa_value *v = fai_values_make(s, FA_VALUE_INT);
    if (v != NULL) v->as.i = i;
    return v;
}

fa_value *fa_values_float(fa_values *s, double f) {
    fa_value *v = fai_values_make(s, FA_VALUE_FLOAT);
    if (v != NULL) v->as.f[0] = f;
    return v;
}

fa_value *fa_values_complex(fa_values *s, double real, double imaginary) {
    fa_value *v = fai_values_make(s, FA_VALUE_COMPLEX);
    if (v != NULL) v->as.f[0] = real, v->as.f[1] = imaginary;
    return v;
}

static fa_value *make_text(fa_values *s, int kind, const void *bytes, size_t n) {
    fa_value *v = fai_values_make(s, kind);
    if (v == NULL || n == SIZE_MAX || (v->as.text.data = fai_values_take(s, n + 1)) == NULL) return NULL;
    v->as.text.n = n;
    if (n > 0) memcpy(v->as.text.data, bytes, n);
    return v;
}

fa_value *fa_values_big_int(fa_values *s, const void *bytes, size_t n) {
    const uint8_t *b = bytes;
    uint8_t sign = n > 0 && b[n - 1] & 0x80 ? 0xff : 0;
    while (n > 1 && b[n - 1] == sign && (b[n - 2] & 0x80) == (sign & 0x80)) n--;
    if (n > 8) return make_text(s, FA_VALUE_BIG_INT, bytes, n);
    uint64_t i = 0;
    for (size_t k = 0; k < 8; k++) i |= (uint64_t)(k < n ? b[k] : sign) << 8 * k;
    return fa_values_int(s, (int64_t)i);
}

/* Python's encoding "surrogatepass": UTF-8, in which single surrogates may be written too. */
bool fai_value_is_utf8(const char *text, size_t n) {
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const uint8_t *p = (const uint8_t *)text, *end = p + n;
    while (p < end) {
        if (*p < 0x80) {
            p++;
            continue;
        }
        int more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
        uint32_t c = *p & (0x3f >> more);
        if (*p < 0xc0 || *p > 0xf7 || end - p <= more) return false;
        for (int k = 1; k <= more; k++) {
            if ((p[k] & 0xc0) != 0x80) return false;
            c = c << 6 | (p[k] & 0x3f);
        }
        if (c < least[more] || c > 0x10ffff) return false;
        p += 1 + more;
    }
    return true;
}

fa_value *fa_values_text_of(fa_values *s, const char *text, size_t n) {
    if (s == NULL || text == NULL) return NULL;
    if (!fai_value_is_utf8(text, n)) return fai_fail(FA_ERR_VALUE, s->op, "a text is no UTF-8");
    return make_text(s, FA_VALUE_TEXT, text, n);
}

fa_value *fa_values_text(fa_values *s, const char *text) {
    return text == NULL ? NULL : fa_values_text_of(s, text, strlen(text));
}

fa_value *fa_values_bytes(fa_values *s, fa_value_kind kind, const void *bytes, size_t n) {
    if (s == NULL || (bytes == NULL && n > 0)) return NULL;
    if (kind != FA_VALUE_BYTES && kind != FA_VALUE_BYTE_ARRAY)
        return fai_fail(FA_ERR_VALUE, "values_bytes", "kind %d is neither FA_VALUE_BYTES nor FA_VALUE_BYTE_ARRAY", (int)kind);
    return make_text(s, kind, bytes, n);
}

fa_value *fai_values_tensor(fa_values *s, fa_tensor *t, fa_value_kind kind) {
    if (s == NULL || t == NULL) return NULL;
    if (s->ntensors == s->tensors_room) {
        size_t room = s->tensors_room > 0 ? 2 * s->tensors_room : 16;
        fa_tensor **more = fai_realloc(FAI_TAG_OBJECT, s->tensors, s->tensors_room * sizeof *more, room * sizeof *more);
        if (more == NULL) return fai_fail_memory(s->op, room * sizeof *more);
        s->tensors = more;
        s->tensors_room = room;
    }
    fa_value *v = fai_values_make(s, (int)kind);
    if (v == NULL || !fai_values_charge(s, sizeof *t + sizeof t)) return NULL;
    v->as.tensor.t = s->tensors[s->ntensors++] = fai_ref(t);
    return v;
}

fa_value *fa_values_tensor(fa_values *s, fa_tensor *t) { return fai_values_tensor(s, t, FA_VALUE_TENSOR); }
fa_value *fa_values_parameter(fa_values *s, fa_tensor *t) { return fai_values_tensor(s, t, FA_VALUE_PARAMETER); }

fa_value *fa_values_dtype(fa_values *s, fa_dtype dtype) {
    if (fa_dtype_size(dtype) == 0) return s == NULL ? NULL : fai_fail(FA_ERR_TYPE, "values_dtype", "%d is no dtype", (int)dtype);
    fa_value *v = fai_values_make(s, FA_VALUE_DTYPE);
    if (v != NULL) v->as.dtype = dtype;
    return v;
}

fa_value *fa_values_device(fa_values *s, fa_device device) {
    fa_value *v = fai_values_make(s, FA_VALUE_DEVICE);
    if (v != NULL) v->as.device = device;
    return v;
}

/* A name as it may stand in a pickle: some letters without spaces or control characters. */
static bool is_name(const char *name) {
    size_t n = strlen(name);
    for (const char *c = name; *c != 0; c++) {
        if ((unsigned char)*c <= ' ' || *c == 127) return false;
    }
    return n > 0 && n <= 500 && fai_value_is_utf8(name, n);
}

fa_value *fa_values_global(fa_values *s, const char *module, const char *name) {
    if (s == NULL || module == NULL || name == NULL) return NULL;
    if (!is_name(module) || !is_name(name))
        return fai_fail(FA_ERR_VALUE, s->op, "\"%.100s.%.100s\" is no name of a class or function", module, name);
    fa_value *v = fai_values_make(s, FA_VALUE_GLOBAL);
    size_t n = strlen(module) + strlen(name) + 2;
    if (v == NULL || (v->as.global.name = fai_values_take(s, n)) == NULL) return NULL;
    snprintf(v->as.global.name, n, "%s.%s", module, name);
    v->as.global.module = strlen(module);
    return v;
}

fa_value *fa_values_object(fa_values *s, fa_value *global, fa_value *arguments, bool is_new) {
    const char *op = "values_object";
    if (s == NULL || global == NULL || arguments == NULL) return NULL;
    if (global->kind != FA_VALUE_GLOBAL || arguments->kind != FA_VALUE_TUPLE)
        return fai_fail(FA_ERR_TYPE, op, "an object is made of a global and a tuple; a %s and a %s were given",
                        fa_value_kind_name(global->kind), fa_value_kind_name(arguments->kind));
    if (global->owner != s || arguments->owner != s)
        return fai_fail(FA_ERR_VALUE, op, "the class or the arguments are values of another document");
    fa_value *v = fai_values_make(s, FA_VALUE_OBJECT);
    if (v == NULL) return NULL;
    v->as.object.global = global;
    v->as.object.arguments = arguments;
    v->is_new = is_new;
    return v;
}

/* ---- Asking ---- */

fa_value_kind fa_value_kind_of(const fa_value *v) { return v == NULL ? (fa_value_kind)0 : (fa_value_kind)v->kind; }
uint32_t fa_value_index(const fa_value *v) { return v == NULL ? 0 : v->index; }

const char *fa_value_kind_name(fa_value_kind kind) {
    static const char *const names[] = {"nothing",   "NoneType",    "bool",         "int",         "int",     "float",
                                        "complex",   "str",         "bytes",        "bytearray",   "tuple",   "torch.Size",
                                        "list",      "set",         "dict",         "OrderedDict", "Counter", "Tensor",
                                        "Parameter", "torch.dtype", "torch.device", "global",      "object"};
    if ((int)kind == FAI_VALUE_STORAGE) return "storage";
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "nothing";
}

static bool is(const fa_value *v, unsigned kinds, const char *op, const char *wanted) {
    if (v == NULL) return false;
    if (v->kind < 32 && kinds >> v->kind & 1) return true;
    return fai_fail(FA_ERR_TYPE, op, "%s was expected, but the value is of type %s", wanted, fa_value_kind_name((fa_value_kind)v->kind));
}

bool fa_value_bool(const fa_value *v) { return is(v, 1u << FA_VALUE_BOOL, "value_bool", "bool") && v->as.b; }

int64_t fa_value_int(const fa_value *v) {
    if (!is(v, 1u << FA_VALUE_INT | 1u << FA_VALUE_BOOL, "value_int", "int of at most 64 bits")) return 0;
    return v->kind == FA_VALUE_BOOL ? v->as.b : v->as.i;
}

double fa_value_float(const fa_value *v) {
    if (!is(v, 1u << FA_VALUE_FLOAT | 1u << FA_VALUE_INT | 1u << FA_VALUE_BOOL, "value_float", "number")) return 0;
    return v->kind == FA_VALUE_FLOAT ? v->as.f[0] : v->kind == FA_VALUE_INT ? (double)v->as.i : v->as.b;
}

bool fa_value_complex(const fa_value *v, double parts[2]) {
    if (!is(v, 1u << FA_VALUE_COMPLEX, "value_complex", "complex number")) return false;
    memcpy(parts, v->as.f, sizeof v->as.f);
    return true;
}

const char *fa_value_text(const fa_value *v, size_t *length) {
    if (length != NULL) *length = 0;
    if (!is(v, 1u << FA_VALUE_TEXT | 1u << FA_VALUE_GLOBAL, "value_text", "str")) return NULL;
    const char *text = v->kind == FA_VALUE_TEXT ? v->as.text.data : v->as.global.name;
    if (length != NULL) *length = v->kind == FA_VALUE_TEXT ? v->as.text.n : strlen(text);
    return text;
}

const void *fa_value_bytes(const fa_value *v, size_t *length) {
    if (length != NULL) *length = 0;
    if (!is(v, 1u << FA_VALUE_BYTES | 1u << FA_VALUE_BYTE_ARRAY | 1u << FA_VALUE_BIG_INT, "value_bytes", "bytes")) return NULL;
    if (length != NULL) *length = v->as.text.n;
    return v->as.text.data;
}

fa_tensor *fa_value_tensor(const fa_value *v) {
    return is(v, 1u << FA_VALUE_TENSOR | 1u << FA_VALUE_PARAMETER, "value_tensor", "Tensor") ? v->as.tensor.t : NULL;
}

fa_dtype fa_value_dtype(const fa_value *v) {
    return is(v, 1u << FA_VALUE_DTYPE, "value_dtype", "torch.dtype") ? v->as.dtype : FA_DTYPE_DEFAULT;
}

fa_device fa_value_device(const fa_value *v) {
    return is(v, 1u << FA_VALUE_DEVICE, "value_device", "torch.device") ? v->as.device : (fa_device){0, 0};
}

fa_value *fa_value_class(const fa_value *v) {
    return is(v, 1u << FA_VALUE_OBJECT, "value_class", "object") ? v->as.object.global : NULL;
}

fa_value *fa_value_arguments(const fa_value *v) {
    return is(v, 1u << FA_VALUE_OBJECT, "value_arguments", "object") ? v->as.object.arguments : NULL;
}

bool fa_value_is_new(const fa_value *v) { return is(v, 1u << FA_VALUE_OBJECT, "value_is_new", "object") && v->is_new; }

static fa_value *const *state_of(const fa_value *v) {
    switch (v->kind) {
    case FA_VALUE_ORDERED_DICT: return &v->as.list.state;
    case FA_VALUE_TENSOR:
    case FA_VALUE_PARAMETER: return &v->as.tensor.state;
    case FA_VALUE_OBJECT: return &v->as.object.state;
    default: return NULL;
    }
}

fa_value *fa_value_state(const fa_value *v) { return v == NULL || state_of(v) == NULL ? NULL : *state_of(v); }

bool fa_value_set_state(fa_value *v, fa_value *state) {
    const char *op = "value_set_state";
    if (v == NULL || state == NULL) return false;
    if (state->owner != v->owner) return fai_fail(FA_ERR_VALUE, op, "the state is a value of another document");
    fa_value *const *place = state_of(v);
    if (place == NULL) return fai_fail(FA_ERR_TYPE, op, "a %s has no state", fa_value_kind_name((fa_value_kind)v->kind));
    *(fa_value **)(uintptr_t)place = state;
    return true;
}
