/* Named tensors, and the texts that go along with them: two lists in the order of adding, each with a table of hashes beside it
 * that finds a name in one step. */
#include "io.h"
#include <string.h>

typedef struct entry { char *name; size_t length; void *value; } entry;

typedef struct list {
    entry *entries;
    int64_t count, room;
    uint32_t *table;     /* 1 + place in entries, 0: free; twice as long as entries, a power of two */
} list;

struct fa_tensors {
    fai_object object;
    list tensors, notes;
};

static char *copy_text(const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = fai_alloc(FAI_TAG_TEXT, n);
    return copy == NULL ? NULL : memcpy(copy, text, n);
}

static void free_text(char *text) {
    if (text != NULL) fai_free(FAI_TAG_TEXT, text, strlen(text) + 1);
}

/* ---- A list ---- */

/* The place of a name in the table: where it is, or the free one where it would go. */
static uint32_t *find(const list *l, const char *name, size_t length) {
    uint64_t mask = 2 * (uint64_t)l->room - 1, at = fai_hash(name, length, 0) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t *place = &l->table[at];
        if (*place == 0) return place;
        const entry *e = &l->entries[*place - 1];
        if (e->length == length && memcmp(e->name, name, length) == 0) return place;
    }
}

static entry *lookup(const list *l, const char *name) {
    uint32_t place = l->count == 0 ? 0 : *find(l, name, strlen(name));
    return place == 0 ? NULL : &l->entries[place - 1];
}

static bool grow(list *l, const char *op) {
    int64_t room = l->room > 0 ? 2 * l->room : 8;
    size_t bytes = (size_t)room * sizeof(entry), table_bytes = (size_t)(2 * room) * sizeof(uint32_t);
    entry *entries = room > UINT32_MAX / 2 ? NULL : fai_alloc(FAI_TAG_OBJECT, bytes);
    uint32_t *table = entries == NULL ? NULL : fai_calloc(FAI_TAG_OBJECT, table_bytes);
    if (table == NULL) {
        fai_free(FAI_TAG_OBJECT, entries, bytes);
        return fai_fail_memory(op, bytes + table_bytes);
    }
    if (l->count > 0) memcpy(entries, l->entries, (size_t)l->count * sizeof *entries);
    fai_free(FAI_TAG_OBJECT, l->entries, (size_t)l->room * sizeof *entries);
    fai_free(FAI_TAG_OBJECT, l->table, (size_t)(2 * l->room) * sizeof *table);
    l->entries = entries;
    l->table = table;
    l->room = room;
    for (int64_t i = 0; i < l->count; i++) *find(l, entries[i].name, entries[i].length) = (uint32_t)(i + 1);
    return true;
}

/* The name must not be there yet. */
static bool append(list *l, const char *name, void *value, const char *op) {
    if (l->count == l->room && !grow(l, op)) return false;
    char *copy = copy_text(name);
    if (copy == NULL) return fai_fail_memory(op, strlen(name) + 1);
    *find(l, copy, strlen(copy)) = (uint32_t)(l->count + 1);
    l->entries[l->count++] = (entry){copy, strlen(copy), value};
    return true;
}

static const entry *entry_at(const list *l, int64_t i, const char *op) {
    if (i >= 0 && i < l->count) return &l->entries[i];
    return fai_fail(FA_ERR_INDEX, op, "index %lld is out of range; there are %lld", (long long)i, (long long)l->count);
}

static void free_list(list *l) {
    for (int64_t i = 0; i < l->count; i++) free_text(l->entries[i].name);
    fai_free(FAI_TAG_OBJECT, l->entries, (size_t)l->room * sizeof *l->entries);
    fai_free(FAI_TAG_OBJECT, l->table, (size_t)(2 * l->room) * sizeof *l->table);
}

/* ---- The object ---- */

static void destroy(void *object) {
    fa_tensors *s = object;
    for (int64_t i = 0; i < s->tensors.count; i++) fai_unref(s->tensors.entries[i].value);
    for (int64_t i = 0; i < s->notes.count; i++) free_text(s->notes.entries[i].value);
    free_list(&s->tensors);
    free_list(&s->notes);
    fai_free(FAI_TAG_OBJECT, s, sizeof *s);
}

fa_tensors *fa_tensors_new(void) {
    fai_set_destructor(FAI_TENSORS, destroy);
    fa_tensors *s = fai_calloc(FAI_TAG_OBJECT, sizeof *s);
    if (s == NULL) return fai_fail_memory("tensors_new", sizeof *s);
    fai_object_init(s, FAI_TENSORS);
    return fai_scope_add(s, "tensors_new") ? s : NULL;
}

/* NULL among the arguments: passed over in silence after an earlier error, else one itself. */
static bool given(const char *op, const char *argument, const void *value) {
    if (value == NULL && !fa_failed()) fai_fail(FA_ERR_VALUE, op, "%s is NULL", argument);
    return value != NULL;
}

bool fa_tensors_add(fa_tensors *tensors, const char *name, fa_tensor *t) {
    const char *op = "tensors_add";
    if (!fai_check(op, "t", t) || !given(op, "tensors", tensors) || !given(op, "name", name)) return false;
    if (lookup(&tensors->tensors, name) != NULL)
        return fai_fail(FA_ERR_VALUE, op, "name \"%.200s\" is there already; every name can stand for one tensor only", name);
    if (!append(&tensors->tensors, name, t, op)) return false;
    fai_ref(t);
    return true;
}

fa_tensor *fa_tensors_find(const fa_tensors *tensors, const char *name) {
    const entry *e = tensors == NULL || name == NULL ? NULL : lookup(&tensors->tensors, name);
    return e == NULL ? NULL : e->value;
}

fa_tensor *fa_tensors_get(const fa_tensors *tensors, const char *name) {
    const char *op = "tensors_get";
    if (!given(op, "tensors", tensors) || !given(op, "name", name)) return NULL;
    const entry *e = lookup(&tensors->tensors, name);
    if (e != NULL) return e->value;
    if (tensors->tensors.count == 0) return fai_fail(FA_ERR_KEY, op, "there is no \"%.200s\": no tensor is there at all", name);
    return fai_fail(FA_ERR_KEY, op,
                    "there is no \"%.200s\" among %lld names, of which the first is \"%.200s\"; fa_tensors_name_at tells all",
                    name, (long long)tensors->tensors.count, tensors->tensors.entries[0].name);
}

int64_t fa_tensors_count(const fa_tensors *tensors) { return tensors == NULL ? 0 : tensors->tensors.count; }

const char *fa_tensors_name_at(const fa_tensors *tensors, int64_t i) {
    const entry *e = given("tensors_name_at", "tensors", tensors) ? entry_at(&tensors->tensors, i, "tensors_name_at") : NULL;
    return e == NULL ? NULL : e->name;
}

fa_tensor *fa_tensors_at(const fa_tensors *tensors, int64_t i) {
    const entry *e = given("tensors_at", "tensors", tensors) ? entry_at(&tensors->tensors, i, "tensors_at") : NULL;
    return e == NULL ? NULL : e->value;
}

bool fa_tensors_set_note(fa_tensors *tensors, const char *key, const char *text) {
    const char *op = "tensors_set_note";
    if (!given(op, "tensors", tensors) || !given(op, "key", key) || !given(op, "text", text)) return false;
    char *copy = copy_text(text);
    if (copy == NULL) return fai_fail_memory(op, strlen(text) + 1);
    entry *e = lookup(&tensors->notes, key);
    if (e != NULL) {
        free_text(e->value);
        e->value = copy;
        return true;
    }
    if (append(&tensors->notes, key, copy, op)) return true;
    free_text(copy);
    return false;
}

const char *fa_tensors_note(const fa_tensors *tensors, const char *key) {
    const entry *e = tensors == NULL || key == NULL ? NULL : lookup(&tensors->notes, key);
    return e == NULL ? NULL : e->value;
}

int64_t fa_tensors_note_count(const fa_tensors *tensors) { return tensors == NULL ? 0 : tensors->notes.count; }

const char *fa_tensors_note_key_at(const fa_tensors *tensors, int64_t i) {
    const entry *e =
        given("tensors_note_key_at", "tensors", tensors) ? entry_at(&tensors->notes, i, "tensors_note_key_at") : NULL;
    return e == NULL ? NULL : e->name;
}
