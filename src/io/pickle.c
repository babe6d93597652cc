/* Writes values as a pickle of protocol 2, with the names of PyTorch, in the bytes that torch.save would write. What stands in
 * several places is written once and then referred to by its number, so that sharing and circles come back. */
#include "pickle.h"
#include "zip.h"
#include "../autograd/autograd.h"
#include <string.h>

enum { DEEPEST = 1000, BATCH = 1000 };
enum { PROTO = 0x80, TUPLE1 = 0x85, NEWTRUE = 0x88, NEWFALSE = 0x89, LONG1 = 0x8a, NEWOBJ = 0x81 };
#define IN_WORK UINT32_MAX

struct fai_said {
    const char *text;
    bool is_name;
    uint32_t number;
};

static bool save(fai_pickler *p, const fa_value *v, int depth);

/* ---- Bytes ---- */

static void put(fai_pickler *p, int opcode) { fai_put_little(&p->text, (uint64_t)opcode, 1); }

static void put_operand(fai_pickler *p, int opcode, uint64_t value, int bytes) {
    put(p, opcode);
    fai_put_little(&p->text, value, bytes);
}

static void put_number(fai_pickler *p, int short_opcode, int long_opcode, uint32_t number) {
    put_operand(p, number < 256 ? short_opcode : long_opcode, number, number < 256 ? 1 : 4);
}

/* The value on top of the stack gets the next number. */
static uint32_t remember(fai_pickler *p) {
    put_number(p, 'q', 'r', p->next);
    return p->next++;
}

static void refer(fai_pickler *p, uint32_t number) { put_number(p, 'h', 'j', number); }

static bool grow(fai_pickler *p, void **array, size_t *room, size_t n, size_t item) {
    size_t more = *room > 0 ? 2 * *room : 32;
    if (n <= *room) return true;
    if (more < n) more = n;
    void *bigger = fai_realloc(FAI_TAG_FILE, *array, *room * item, more * item);
    if (bigger == NULL) return fai_fail_memory(p->op, more * item);
    memset((char *)bigger + *room * item, 0, (more - *room) * item);
    *array = bigger;
    *room = more;
    return true;
}

/* A word or a name that came up before is referred to. True: it was; false: it has to be written, then remember_said. */
static bool said(fai_pickler *p, const char *text, bool is_name) {
    for (size_t i = 0; i < p->nsaid; i++) {
        if (p->said[i].is_name != is_name || strcmp(p->said[i].text, text) != 0) continue;
        refer(p, p->said[i].number);
        return true;
    }
    return false;
}

static bool remember_said(fai_pickler *p, const char *text, bool is_name) {
    if (!grow(p, (void **)&p->said, &p->said_room, p->nsaid + 1, sizeof *p->said)) return false;
    p->said[p->nsaid++] = (struct fai_said){text, is_name, remember(p)};
    return true;
}

static bool save_text(fai_pickler *p, const char *text, size_t n) {
    if (n > UINT32_MAX) return fai_fail(FA_ERR_UNSUPPORTED, p->op, "a text of %zu bytes; the format allows 4 GiB", n);
    put_operand(p, 'X', n, 4);
    fai_text_add_bytes(&p->text, text, n);
    return true;
}

/* text must live as long as the pickler. */
static bool save_word(fai_pickler *p, const char *text) {
    return said(p, text, false) || (save_text(p, text, strlen(text)) && remember_said(p, text, false));
}

/* "module.name" with this many letters of module. */
static bool save_name(fai_pickler *p, const char *full, size_t module) {
    if (said(p, full, true)) return true;
    put(p, 'c');
    fai_text_add(&p->text, "%.*s\n%s\n", (int)module, full, full + module + 1);
    return remember_said(p, full, true);
}

static bool save_known(fai_pickler *p, fai_meaning meaning, fa_dtype dtype) {
    const char *full = fai_global_name(meaning, dtype);
    return save_name(p, full, (size_t)(strrchr(full, '.') - full));
}

/* ---- Numbers ---- */

static void save_int(fai_pickler *p, int64_t i) {
    if (i >= 0 && i < 256)
        put_operand(p, 'K', (uint64_t)i, 1);
    else if (i >= 0 && i < 65536)
        put_operand(p, 'M', (uint64_t)i, 2);
    else if (i >= INT32_MIN && i <= INT32_MAX)
        put_operand(p, 'J', (uint64_t)i, 4);
    else {
        int bytes = 8;
        while (bytes > 1 && i >> (8 * bytes - 9) == (i < 0 ? -1 : 0)) bytes--;
        put_operand(p, LONG1, (uint64_t)bytes, 1);
        fai_put_little(&p->text, (uint64_t)i, bytes);
    }
}

static bool save_big_int(fai_pickler *p, const fa_value *v) {
    size_t n = v->as.text.n;
    if (n > 255) return fai_fail(FA_ERR_UNSUPPORTED, p->op, "an int of %zu bytes; PyTorch reads at most 255", n);
    put_operand(p, LONG1, n, 1);
    fai_text_add_bytes(&p->text, v->as.text.data, n);
    return true;
}

static void save_float(fai_pickler *p, double f) {
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    put(p, 'G');
    for (int i = 7; i >= 0; i--) fai_put_little(&p->text, bits >> 8 * i, 1);
}

static void save_bool(fai_pickler *p, bool b) { put(p, b ? NEWTRUE : NEWFALSE); }

/* ---- Tuples and calls ---- */

static void begin_tuple(fai_pickler *p, size_t n) {
    if (n > 3) put(p, '(');
}

/* Of the n values on the stack; the empty tuple is never remembered. */
static uint32_t end_tuple(fai_pickler *p, size_t n) {
    put(p, n == 0 ? ')' : n > 3 ? 't' : TUPLE1 + (int)n - 1);
    return n == 0 ? 0 : remember(p);
}

static void save_ints(fai_pickler *p, int n, const int64_t *i) {
    begin_tuple(p, (size_t)n);
    for (int k = 0; k < n; k++) save_int(p, i[k]);
    end_tuple(p, (size_t)n);
}

static void note(fai_pickler *p, const fa_value *v) { p->memo[v->index] = 1 + remember(p); }

/* After the arguments' tuple: the call, whose result gets v's number. */
static bool call(fai_pickler *p, const fa_value *v) {
    put(p, 'R');
    note(p, v);
    return true;
}

/* An empty OrderedDict: a tensor's hooks, which are never saved. */
static bool save_no_hooks(fai_pickler *p) {
    if (!save_known(p, FAI_NAME_ORDERED_DICT, 0)) return false;
    put(p, ')');
    put(p, 'R');
    remember(p);
    return true;
}

/* ---- Tensors ---- */

static bool save_key(fai_pickler *p, int64_t storage) {
    char key[24];
    if (!grow(p, (void **)&p->keys, &p->keys_room, (size_t)storage + 1, sizeof *p->keys)) return false;
    if (p->keys[storage] != 0) {
        refer(p, p->keys[storage] - 1);
        return true;
    }
    snprintf(key, sizeof key, "%lld", (long long)storage);
    if (!save_text(p, key, strlen(key))) return false;
    p->keys[storage] = 1 + remember(p);
    return true;
}

/* A device's text is a passing one: the pickle's own copies are used from the second time on. */
static bool save_location(fai_pickler *p, fa_device device) {
    if (device.type == FA_DEVICE_CPU) return save_word(p, "cpu");
    const char *text = fa_device_text(device);
    if (!save_text(p, text, strlen(text))) return false;
    remember(p);
    return true;
}

static bool save_storage(fai_pickler *p, fa_tensor *t) {
    int64_t elements, storage = p->storage(p, t, &elements);
    if (storage < 0) return false;
    put(p, '(');
    if (!save_word(p, "storage") || !save_known(p, FAI_NAME_STORAGE, (fa_dtype)t->dtype) || !save_key(p, storage) ||
        !save_location(p, t->device))
        return false;
    save_int(p, elements);
    put(p, 't');
    remember(p);
    put(p, 'Q');
    return true;
}

/* The tuple that a tensor is made of again. */
static bool save_parts(fai_pickler *p, fa_tensor *t, bool requires_grad) {
    put(p, '(');
    if (!save_storage(p, t)) return false;
    save_int(p, t->offset);
    save_ints(p, t->ndim, t->size);
    save_ints(p, t->ndim, t->stride);
    save_bool(p, requires_grad);
    if (!save_no_hooks(p)) return false;
    put(p, 't');
    remember(p);
    return true;
}

static bool save_tensor(fai_pickler *p, const fa_value *v, int depth) {
    fa_tensor *t = v->as.tensor.t;
    const fa_value *state = v->as.tensor.state;
    if (state == NULL) return save_known(p, FAI_NAME_TENSOR, 0) && save_parts(p, t, fa_is_requires_grad(t)) && call(p, v);
    if (!save_known(p, FAI_NAME_FROM_TYPE, 0)) return false;
    put(p, '(');
    if (!save_known(p, FAI_NAME_TENSOR, 0) || !save_name(p, "torch.Tensor", 5) || !save_parts(p, t, fa_is_requires_grad(t)) ||
        !save(p, state, depth))
        return false;
    put(p, 't');
    remember(p);
    return call(p, v);
}

static bool save_parameter(fai_pickler *p, const fa_value *v, int depth) {
    fa_tensor *t = v->as.tensor.t;
    const fa_value *state = v->as.tensor.state;
    if (!save_known(p, state == NULL ? FAI_NAME_PARAMETER : FAI_NAME_PARAMETER_STATE, 0)) return false;
    begin_tuple(p, state == NULL ? 3 : 4);
    if (!save_known(p, FAI_NAME_TENSOR, 0) || !save_parts(p, t, false)) return false;
    put(p, 'R');
    remember(p);
    save_bool(p, fa_is_requires_grad(t));
    if (!save_no_hooks(p) || (state != NULL && !save(p, state, depth))) return false;
    end_tuple(p, state == NULL ? 3 : 4);
    return call(p, v);
}

/* ---- Containers ---- */

/* Items, or keys and values in turns, in pieces of BATCH. rest: a piece of one is written without a mark, as for
 * subclasses of dict. */
static bool save_items(fai_pickler *p, const fa_value *v, bool rest, int depth) {
    const uint32_t width = fai_value_is_dict(v) ? 2 : 1, n = v->as.list.n / width;
    const char *const opcodes = width == 2 ? "su" : "ae";
    for (uint32_t begin = 0; begin < n; begin += BATCH) {
        const uint32_t end = n - begin < BATCH ? n : begin + BATCH;
        const bool one = end - begin == 1 && (rest || n == 1);
        if (!one) put(p, '(');
        for (uint32_t i = begin * width; i < end * width; i++) {
            if (!save(p, v->as.list.items[i], depth)) return false;
        }
        put(p, opcodes[!one]);
    }
    return true;
}

static bool save_list(fai_pickler *p, const fa_value *v, int depth) {
    put(p, v->kind == FA_VALUE_LIST ? ']' : '}');
    note(p, v);
    return save_items(p, v, false, depth);
}

static bool save_ordered_dict(fai_pickler *p, const fa_value *v, int depth) {
    if (!save_known(p, FAI_NAME_ORDERED_DICT, 0)) return false;
    put(p, ')');
    call(p, v);
    if (!save_items(p, v, true, depth)) return false;
    if (v->as.list.state == NULL) return true;
    if (!save(p, v->as.list.state, depth)) return false;
    put(p, 'b');
    return true;
}

static bool save_tuple(fai_pickler *p, const fa_value *v, int depth) {
    const uint32_t n = v->as.list.n;
    p->memo[v->index] = IN_WORK;
    begin_tuple(p, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!save(p, v->as.list.items[i], depth)) return false;
    }
    const uint32_t number = end_tuple(p, n);
    p->memo[v->index] = n == 0 ? 0 : 1 + number;
    return true;
}

/* class(container of its items) */
static bool save_as_call(fai_pickler *p, const fa_value *v, fai_meaning meaning, int depth) {
    if (!save_known(p, meaning, 0)) return false;
    p->memo[v->index] = IN_WORK;
    if (v->kind == FA_VALUE_SIZE) {
        begin_tuple(p, v->as.list.n);
        for (uint32_t i = 0; i < v->as.list.n; i++) save_int(p, v->as.list.items[i]->as.i);
        end_tuple(p, v->as.list.n);
    } else {
        put(p, v->kind == FA_VALUE_SET ? ']' : '}');
        remember(p);
        if (!save_items(p, v, false, depth)) return false;
    }
    end_tuple(p, 1);
    return call(p, v);
}

static bool save_object(fai_pickler *p, const fa_value *v, int depth) {
    const fa_value *global = v->as.object.global;
    p->memo[v->index] = IN_WORK;
    if (!save(p, global, depth) || !save(p, v->as.object.arguments, depth)) return false;
    put(p, v->is_new ? NEWOBJ : 'R');
    note(p, v);
    if (v->as.object.state == NULL) return true;
    if (!save(p, v->as.object.state, depth)) return false;
    put(p, 'b');
    return true;
}

/* ---- Bytes, devices ---- */

/* encode(a text with one letter for each byte, "latin1") */
static bool save_encoded(fai_pickler *p, const fa_value *v) {
    fai_text letters = {0};
    if (!save_known(p, FAI_NAME_ENCODE, 0)) return false;
    for (size_t i = 0; i < v->as.text.n; i++) {
        const uint8_t c = (uint8_t)v->as.text.data[i];
        const char two[2] = {(char)(c < 0x80 ? c : 0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))};
        fai_text_add_bytes(&letters, two, c < 0x80 ? 1 : 2);
    }
    bool ok = letters.failed ? fai_fail_memory(p->op, letters.length) != NULL
                             : save_text(p, letters.data == NULL ? "" : letters.data, letters.length);
    fai_text_free(&letters);
    if (!ok) return false;
    remember(p);
    if (!save_word(p, "latin1")) return false;
    end_tuple(p, 2);
    put(p, 'R');
    return true;
}

static bool save_bytes(fai_pickler *p, const fa_value *v) {
    const bool array = v->kind == FA_VALUE_BYTE_ARRAY;
    if (array && !save_known(p, FAI_NAME_BYTE_ARRAY, 0)) return false;
    if (array && v->as.text.n == 0) {
        put(p, ')');
        return call(p, v);
    }
    if (!save_encoded(p, v)) return false;
    if (!array) {
        note(p, v);
        return true;
    }
    remember(p);
    end_tuple(p, 1);
    return call(p, v);
}

static bool save_device(fai_pickler *p, const fa_value *v) {
    const fa_device d = v->as.device;
    const char *type = fa_device_text(fa_device_of_type(d.type, -1));
    if (!save_known(p, FAI_NAME_DEVICE, 0) || !save_text(p, type, strlen(type))) return false;
    remember(p);
    if (d.index >= 0) save_int(p, d.index);
    end_tuple(p, d.index >= 0 ? 2 : 1);
    return call(p, v);
}

static bool save_complex(fai_pickler *p, const fa_value *v) {
    if (!save_known(p, FAI_NAME_COMPLEX, 0)) return false;
    save_float(p, v->as.f[0]);
    save_float(p, v->as.f[1]);
    end_tuple(p, 2);
    return call(p, v);
}

/* ---- Everything ---- */

static bool save_new(fai_pickler *p, const fa_value *v, int depth) {
    switch (v->kind) {
    case FA_VALUE_NONE: put(p, 'N'); return true;
    case FA_VALUE_BOOL: save_bool(p, v->as.b); return true;
    case FA_VALUE_INT: save_int(p, v->as.i); return true;
    case FA_VALUE_BIG_INT: return save_big_int(p, v);
    case FA_VALUE_FLOAT: save_float(p, v->as.f[0]); return true;
    case FA_VALUE_COMPLEX: return save_complex(p, v);
    case FA_VALUE_TEXT:
        if (!save_text(p, v->as.text.data, v->as.text.n)) return false;
        note(p, v);
        return true;
    case FA_VALUE_BYTES:
    case FA_VALUE_BYTE_ARRAY: return save_bytes(p, v);
    case FA_VALUE_TUPLE: return save_tuple(p, v, depth);
    case FA_VALUE_SIZE: return save_as_call(p, v, FAI_NAME_SIZE, depth);
    case FA_VALUE_SET: return save_as_call(p, v, FAI_NAME_SET, depth);
    case FA_VALUE_COUNTER: return save_as_call(p, v, FAI_NAME_COUNTER, depth);
    case FA_VALUE_LIST:
    case FA_VALUE_DICT: return save_list(p, v, depth);
    case FA_VALUE_ORDERED_DICT: return save_ordered_dict(p, v, depth);
    case FA_VALUE_TENSOR: return save_tensor(p, v, depth);
    case FA_VALUE_PARAMETER: return save_parameter(p, v, depth);
    case FA_VALUE_DTYPE: return save_known(p, FAI_NAME_DTYPE, v->as.dtype);
    case FA_VALUE_DEVICE: return save_device(p, v);
    case FA_VALUE_GLOBAL: return save_name(p, v->as.global.name, v->as.global.module);
    case FA_VALUE_OBJECT: return save_object(p, v, depth);
    default: return fai_fail(FA_ERR_UNSUPPORTED, p->op, "a %s can't be saved", fa_value_kind_name((fa_value_kind)v->kind));
    }
}

static bool save(fai_pickler *p, const fa_value *v, int depth) {
    const uint32_t number = p->memo[v->index];
    if (number == IN_WORK)
        return fai_fail(FA_ERR_UNSUPPORTED, p->op, "a %s holds itself, which PyTorch does not read; lists and dicts may",
                        fa_value_kind_name((fa_value_kind)v->kind));
    if (number != 0) {
        refer(p, number - 1);
        return true;
    }
    if (depth == DEEPEST)
        return fai_fail(FA_ERR_VALUE, p->op, "maximum recursion depth exceeded: values are nested more than %d deep", DEEPEST);
    return save_new(p, v, depth + 1) && (!p->text.failed || fai_fail_memory(p->op, p->text.room) != NULL);
}

bool fai_pickle(fai_pickler *p, const fa_value *root) {
    size_t bytes = (size_t)p->values->count * sizeof *p->memo;
    p->memo = fai_calloc(FAI_TAG_FILE, bytes);
    if (p->memo == NULL) return fai_fail_memory(p->op, bytes);
    put_operand(p, PROTO, 2, 1);
    if (!save(p, root, 0)) return false;
    put(p, '.');
    return !p->text.failed || fai_fail_memory(p->op, p->text.room) != NULL;
}

void fai_pickle_end(fai_pickler *p) {
    fai_text_free(&p->text);
    fai_free(FAI_TAG_FILE, p->memo, (size_t)p->values->count * sizeof *p->memo);
    fai_free(FAI_TAG_FILE, p->said, p->said_room * sizeof *p->said);
    fai_free(FAI_TAG_FILE, p->keys, p->keys_room * sizeof *p->keys);
}
