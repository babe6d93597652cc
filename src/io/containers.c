/* Lists and dicts of values. A dict is a list of keys and values in turns; beyond a few keys a table of hashes finds them. Keys
 * compare as in Python: numbers by value, texts by letters, tuples by their items. */
#include "value.h"
#include <math.h>
#include <string.h>

enum { FEW = 8, KEY_ITEMS = 256 };

bool fai_value_is_dict(const fa_value *v) {
    return v != NULL && (v->kind == FA_VALUE_DICT || v->kind == FA_VALUE_ORDERED_DICT || v->kind == FA_VALUE_COUNTER);
}

bool fai_value_is_list(const fa_value *v) {
    return v != NULL &&
           (v->kind == FA_VALUE_TUPLE || v->kind == FA_VALUE_SIZE || v->kind == FA_VALUE_LIST || v->kind == FA_VALUE_SET);
}

/* ---- Keys ---- */

/* The number that a key is, if it is one that an int can be equal to. */
static bool whole_number(const fa_value *k, int64_t *i) {
    if (k->kind == FA_VALUE_INT)
        *i = k->as.i;
    else if (k->kind == FA_VALUE_BOOL)
        *i = k->as.b;
    else if (k->kind == FA_VALUE_FLOAT && k->as.f[0] == floor(k->as.f[0]) && fabs(k->as.f[0]) < 9e18)
        *i = (int64_t)k->as.f[0];
    else
        return false;
    return true;
}

/* items: how many a tuple may still have, with those in it; a small file can stand for tuples of endless depth. */
static bool key_hash(const fa_value *k, uint64_t *h, int *items) {
    int64_t i;
    if (whole_number(k, &i)) {
        *h = fai_hash(&i, sizeof i, *h);
        return true;
    }
    switch (k->kind) {
    case FA_VALUE_FLOAT: *h = fai_hash(k->as.f, sizeof(double), *h); return true;
    case FA_VALUE_COMPLEX: *h = fai_hash(k->as.f, sizeof k->as.f, *h); return true;
    case FA_VALUE_TEXT:
    case FA_VALUE_BYTES:
    case FA_VALUE_BIG_INT: *h = fai_hash(k->as.text.data, k->as.text.n, *h + k->kind); return true;
    case FA_VALUE_DTYPE: *h = fai_hash(&k->as.dtype, sizeof k->as.dtype, *h + k->kind); return true;
    case FA_VALUE_DEVICE: *h = fai_hash(&k->as.device, sizeof k->as.device, *h + k->kind); return true;
    case FA_VALUE_GLOBAL: *h = fai_hash(k->as.global.name, strlen(k->as.global.name), *h + k->kind); return true;
    case FA_VALUE_NONE:
    case FA_VALUE_TENSOR:
    case FA_VALUE_PARAMETER:
    case FA_VALUE_OBJECT: *h = fai_hash(&k->index, sizeof k->index, *h + k->kind); return true;
    case FA_VALUE_TUPLE:
    case FA_VALUE_SIZE:
        for (uint32_t n = 0; n < k->as.list.n; n++) {
            if (--*items < 0)
                return fai_fail(FA_ERR_UNSUPPORTED, k->owner->op, "a key is a tuple of more than %d items", KEY_ITEMS);
            if (!key_hash(k->as.list.items[n], h, items)) return false;
        }
        *h = fai_hash(&k->as.list.n, sizeof k->as.list.n, *h);
        return true;
    default: return fai_fail(FA_ERR_TYPE, k->owner->op, "unhashable type: '%s'", fa_value_kind_name((fa_value_kind)k->kind));
    }
}

/* Both have a hash, so that tuples are small. */
static bool equal(const fa_value *a, const fa_value *b) {
    int64_t x, y;
    if (a == b) return true;
    if (whole_number(a, &x)) return whole_number(b, &y) && x == y;
    bool tuples =
        (a->kind == FA_VALUE_TUPLE || a->kind == FA_VALUE_SIZE) && (b->kind == FA_VALUE_TUPLE || b->kind == FA_VALUE_SIZE);
    if (tuples) {
        if (a->as.list.n != b->as.list.n) return false;
        for (uint32_t n = 0; n < a->as.list.n; n++) {
            if (!equal(a->as.list.items[n], b->as.list.items[n])) return false;
        }
        return true;
    }
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case FA_VALUE_FLOAT: return a->as.f[0] == b->as.f[0];
    case FA_VALUE_COMPLEX: return a->as.f[0] == b->as.f[0] && a->as.f[1] == b->as.f[1];
    case FA_VALUE_TEXT:
    case FA_VALUE_BYTES:
    case FA_VALUE_BIG_INT: return a->as.text.n == b->as.text.n && memcmp(a->as.text.data, b->as.text.data, a->as.text.n) == 0;
    case FA_VALUE_DTYPE: return a->as.dtype == b->as.dtype;
    case FA_VALUE_DEVICE: return fa_device_equal(a->as.device, b->as.device);
    case FA_VALUE_GLOBAL: return strcmp(a->as.global.name, b->as.global.name) == 0;
    case FA_VALUE_NONE: return true;
    default: return false;
    }
}

/* Steps from key to key: 2 in dicts, 1 in sets. */
static uint32_t width(const fa_value *v) { return fai_value_is_dict(v) ? 2 : 1; }

static uint64_t hash_of(const fa_value *holder, const fa_value *key, bool *ok) {
    uint64_t h = holder->owner->seed;
    int items = KEY_ITEMS;
    *ok = key_hash(key, &h, &items);
    return h;
}

static uint32_t *place_of(const fa_value *v, const fa_value *key, uint64_t hash) {
    uint32_t mask = v->as.list.table_room - 1;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        uint32_t *place = &v->as.list.table[at];
        if (*place == 0 || equal(v->as.list.items[*place - 1], key)) return place;
    }
}

/* Where the key stands among the items, or -1. False: the key can't be one. */
static bool find(const fa_value *v, const fa_value *key, int64_t *at) {
    bool ok;
    uint64_t hash = hash_of(v, key, &ok);
    *at = -1;
    if (!ok) return false;
    if (v->as.list.table != NULL) {
        *at = (int64_t)*place_of(v, key, hash) - 1;
        return true;
    }
    for (uint32_t i = 0; i < v->as.list.n && *at < 0; i += width(v)) {
        if (equal(v->as.list.items[i], key)) *at = i;
    }
    return true;
}

/* After a key was added at the end: the table gets it, and grows before it is half full. */
static bool note_key(fa_value *v, uint32_t at) {
    uint32_t keys = v->as.list.n / width(v), room = v->as.list.table_room, begin = at;
    bool ok = true;
    if (keys <= FEW) return true;
    if (2 * (uint64_t)keys > room) {
        if (keys > UINT32_MAX / 8)
            return fai_fail(FA_ERR_VALUE, v->owner->op, "a %s has too many keys", fa_value_kind_name(v->kind));
        for (room = 4 * FEW; room < 4 * keys; room *= 2) {}
        uint32_t *table = fai_values_take(v->owner, room * sizeof *table);
        if (table == NULL) return false;
        v->as.list.table = table;
        v->as.list.table_room = room;
        begin = 0;
    }
    for (uint32_t i = begin; i <= at && ok; i += width(v)) {
        uint64_t hash = hash_of(v, v->as.list.items[i], &ok);
        if (ok) *place_of(v, v->as.list.items[i], hash) = i + 1;
    }
    return ok;
}

/* ---- Adding ---- */

bool fai_value_reserve(fa_value *v, size_t more) {
    size_t needed = v->as.list.n + more, room = 2 * (size_t)v->as.list.room;
    if (needed <= v->as.list.room) return true;
    if (room < needed) room = needed;
    if (room < 4 && more == 1) room = 4;
    if (needed > UINT32_MAX / 4 || room > UINT32_MAX / 2)
        return fai_fail(FA_ERR_VALUE, v->owner->op, "a %s can have at most %u items", fa_value_kind_name(v->kind),
                        UINT32_MAX / 4);
    fa_value **items = fai_values_take(v->owner, room * sizeof *items);
    if (items == NULL) return false;
    if (v->as.list.n > 0) memcpy(items, v->as.list.items, v->as.list.n * sizeof *items);
    v->as.list.items = items;
    v->as.list.room = (uint32_t)room;
    return true;
}

fa_value *fa_values_container(fa_values *s, fa_value_kind kind) {
    if (kind >= FA_VALUE_TUPLE && kind <= FA_VALUE_COUNTER) return fai_values_make(s, (int)kind);
    return s == NULL
               ? NULL
               : fai_fail(FA_ERR_VALUE, "values_container", "kind %d is none of tuple, size, list, set and dicts", (int)kind);
}

bool fa_value_append(fa_value *v, fa_value *item) {
    const char *op = "value_append";
    if (v == NULL || item == NULL) return false;
    if (!fai_value_is_list(v))
        return fai_fail(FA_ERR_TYPE, op, "items are appended to tuples, lists and sets; this is a %s",
                        fa_value_kind_name(v->kind));
    if (item->owner != v->owner) return fai_fail(FA_ERR_VALUE, op, "the item is a value of another document");
    if (v->kind == FA_VALUE_SIZE && item->kind != FA_VALUE_INT)
        return fai_fail(FA_ERR_TYPE, op, "a torch.Size holds ints; this is a %s", fa_value_kind_name(item->kind));
    if (v->kind == FA_VALUE_SET) {
        int64_t at;
        if (!find(v, item, &at)) return false;
        if (at >= 0) return true;
    }
    if (!fai_value_reserve(v, 1)) return false;
    v->as.list.items[v->as.list.n++] = item;
    if (v->kind != FA_VALUE_SET || note_key(v, v->as.list.n - 1)) return true;
    v->as.list.n--;
    return false;
}

bool fa_value_put(fa_value *dict, fa_value *key, fa_value *value) {
    const char *op = "value_put";
    int64_t at;
    if (dict == NULL || key == NULL || value == NULL) return false;
    if (!fai_value_is_dict(dict))
        return fai_fail(FA_ERR_TYPE, op, "values are put into dicts by a key; this is a %s", fa_value_kind_name(dict->kind));
    if (key->owner != dict->owner || value->owner != dict->owner)
        return fai_fail(FA_ERR_VALUE, op, "the key or the value is one of another document");
    if (!find(dict, key, &at)) return false;
    if (at >= 0) {
        dict->as.list.items[at + 1] = value;
        return true;
    }
    if (!fai_value_reserve(dict, 2)) return false;
    dict->as.list.items[dict->as.list.n] = key;
    dict->as.list.items[dict->as.list.n + 1] = value;
    dict->as.list.n += 2;
    if (note_key(dict, dict->as.list.n - 2)) return true;
    dict->as.list.n -= 2;
    return false;
}

bool fa_value_set(fa_value *dict, const char *key, fa_value *value) {
    if (dict == NULL || key == NULL || value == NULL) return false;
    return fa_value_put(dict, fa_values_text(dict->owner, key), value);
}

/* ---- Asking ---- */

int64_t fa_value_length(const fa_value *v) {
    if (v == NULL) return 0;
    if (fai_value_is_dict(v)) return v->as.list.n / 2;
    if (fai_value_is_list(v)) return v->as.list.n;
    fai_fail(FA_ERR_TYPE, "value_length", "object of type '%s' has no len()", fa_value_kind_name(v->kind));
    return 0;
}

/* The place among the items of the i-th item or, shifted by 1, of the i-th pair's value. */
static fa_value *pick(const char *op, const fa_value *v, int64_t i, int shift) {
    int64_t n = fa_value_length(v), at = i < 0 ? i + n : i;
    if (v == NULL || (n == 0 && fa_failed())) return NULL;
    if (at < 0 || at >= n)
        return fai_fail(FA_ERR_INDEX, op, "index %lld is out of range; the %s has %lld items", (long long)i,
                        fa_value_kind_name((fa_value_kind)v->kind), (long long)n);
    return v->as.list.items[at * width(v) + shift];
}

fa_value *fa_value_item(const fa_value *v, int64_t i) { return pick("value_item", v, i, fai_value_is_dict(v) ? 1 : 0); }

fa_value *fa_value_key(const fa_value *v, int64_t i) {
    if (v == NULL) return NULL;
    if (!fai_value_is_dict(v))
        return fai_fail(FA_ERR_TYPE, "value_key", "dicts have keys; this is a %s", fa_value_kind_name((fa_value_kind)v->kind));
    return pick("value_key", v, i, 0);
}

fa_value *fa_value_look_up(const fa_value *dict, const fa_value *key) {
    int64_t at;
    if (!fai_value_is_dict(dict) || key == NULL || !find(dict, key, &at) || at < 0) return NULL;
    return dict->as.list.items[at + 1];
}

fa_value *fa_value_find(const fa_value *dict, const char *key) {
    if (key == NULL) return NULL;
    const fa_value k = {.kind = FA_VALUE_TEXT, .as.text = {(char *)(uintptr_t)key, strlen(key)}};
    return fa_value_look_up(dict, &k);
}

fa_value *fa_value_get(const fa_value *dict, const char *key) {
    const char *op = "value_get";
    if (dict == NULL || key == NULL) return NULL;
    if (!fai_value_is_dict(dict))
        return fai_fail(FA_ERR_TYPE, op, "dicts have keys; this is a %s", fa_value_kind_name((fa_value_kind)dict->kind));
    fa_value *v = fa_value_find(dict, key);
    if (v != NULL) return v;
    char there[400] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < dict->as.list.n && used < 300; i += 2) {
        const fa_value *k = dict->as.list.items[i];
        if (k->kind == FA_VALUE_TEXT)
            used += (size_t)snprintf(there + used, sizeof there - used, "%s\"%.60s\"", used ? ", " : "", k->as.text.data);
    }
    return fai_fail(FA_ERR_KEY, op, "'%.200s': there is no such key among %u; there are: %s", key, dict->as.list.n / 2,
                    used ? there : "no texts");
}

/* ---- Named tensors ---- */

fa_value *fa_values_of_tensors(fa_values *s, const fa_tensors *tensors) {
    fa_value *dict = tensors == NULL ? NULL : fa_values_container(s, FA_VALUE_ORDERED_DICT);
    for (int64_t i = 0; dict != NULL && i < fa_tensors_count(tensors); i++) {
        if (!fa_value_set(dict, fa_tensors_name_at(tensors, i), fa_values_tensor(s, fa_tensors_at(tensors, i)))) return NULL;
    }
    return dict;
}

fa_tensors *fa_value_tensors(const fa_value *dict) {
    const char *op = "value_tensors";
    if (dict == NULL) return NULL;
    if (!fai_value_is_dict(dict))
        return fai_fail(FA_ERR_TYPE, op, "named tensors stand in a dict; this is a %s",
                        fa_value_kind_name((fa_value_kind)dict->kind));
    fa_tensors *out = fa_tensors_new();
    for (uint32_t i = 0; out != NULL && i < dict->as.list.n; i += 2) {
        const fa_value *k = dict->as.list.items[i], *v = dict->as.list.items[i + 1];
        if (k->kind != FA_VALUE_TEXT || strlen(k->as.text.data) != k->as.text.n) {
            fai_fail(FA_ERR_TYPE, op, "key number %u is a %s%s; named tensors have texts as keys", i / 2,
                     fa_value_kind_name((fa_value_kind)k->kind), k->kind == FA_VALUE_TEXT ? " with a zero in it" : "");
        } else if (v->kind != FA_VALUE_TENSOR && v->kind != FA_VALUE_PARAMETER) {
            fai_fail(
                FA_ERR_TYPE, op,
                "\"%.200s\" is of type %s, no tensor: this is no state dict; if one lies in it, read it by fa_load_pt and fa_value_get",
                k->as.text.data, fa_value_kind_name((fa_value_kind)v->kind));
        } else if (fa_tensors_add(out, k->as.text.data, v->as.tensor.t)) {
            continue;
        }
        fa_drop(out);
        out = NULL;
    }
    return out;
}
