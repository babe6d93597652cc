/* Counted objects and the scopes that own them.
 *
 * Each thread has one table, fai_tls.owned; a scope is the part of it from its mark to the end. Adding a result is a store
 * and an increment; closing a scope walks its part from the newest to the oldest. An object remembers its place (slot) and
 * its table's thread (owner), so that dropping early needs no search. The rare object with several entries (an op that
 * returned its own argument, or entries in two threads' tables) carries the SHARED bit and is searched for. */
#include "base.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 1, SHARED = 2 }; /* bits of fai_object.kept */
enum { HOOKS = 16, FIRST_ROOM = 256, NOT_THERE = -1 };

__thread fai_thread fai_tls __attribute__((tls_model("initial-exec")));

static void (*_Atomic destructors[FAI_KIND_COUNT])(void *);
static void (*_Atomic thread_end_hooks[HOOKS])(void);
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;
static __thread bool thread_watched;

/* ---- objects ---- */

void fai_set_destructor(fai_kind kind, void (*destroy)(void *object)) { atomic_store(&destructors[kind], destroy); }

fai_face fai_other_face;

void fai_destroy(void *object) {
    if (((fai_object *)object)->type)
        fai_other_face.dealloc(object);
    else
        fai_end(object);
}

void fai_end(void *object) {
    void (*destroy)(void *) = atomic_load_explicit(&destructors[((fai_object *)object)->kind], memory_order_relaxed);
    if (destroy) destroy(object);
}

/* ---- the table ---- */

static uint32_t scope_begin(void) { return fai_tls.nmarks ? fai_tls.marks[fai_tls.nmarks - 1] : 0; }

static bool grow_table(void) {
    uint32_t room = fai_tls.owned_room ? fai_tls.owned_room * 2 : FIRST_ROOM;
    void *bigger =
        fai_realloc(FAI_TAG_OBJECT, fai_tls.owned, fai_tls.owned_room * sizeof(fai_object *), room * sizeof(fai_object *));
    if (!bigger) return false;
    fai_tls.owned = bigger;
    fai_tls.owned_room = room;
    fai_watch_thread();
    return true;
}

static int64_t search_table(const fai_object *object) {
    for (int64_t i = fai_tls.nowned; i-- > 0;)
        if (fai_tls.owned[i] == object) return i;
    return NOT_THERE;
}

static int64_t find_entry(const fai_object *object) {
    if (object->slot && object->owner == &fai_tls) return (int64_t)object->slot - 1;
    return object->slot || object->kept & SHARED ? search_table(object) : NOT_THERE;
}

/* The entry is gone from the table: the object forgets it, and remembers another one that it may have there. */
static void forget_entry(fai_object *object, uint32_t index) {
    if (object->owner != &fai_tls || object->slot != index + 1) return;
    int64_t other = object->kept & SHARED ? search_table(object) : NOT_THERE;
    object->slot = other == NOT_THERE ? 0 : (uint32_t)other + 1;
    if (other != NOT_THERE) return;
    object->owner = NULL;
    object->kept = object->kept & SHARED; /* another thread's table may hold it still */
}

/* A loop without a scope that drops what it makes must not grow the table. */
static inline void drop_gaps(uint32_t begin) {
    while (fai_tls.nowned > begin && !fai_tls.owned[fai_tls.nowned - 1]) fai_tls.nowned--;
}

static void remove_entry(fai_object *object, uint32_t index) {
    fai_tls.owned[index] = NULL;
    forget_entry(object, index);
    drop_gaps(scope_begin());
}

bool fai_scope_add(void *object, const char *op) {
    fai_object *o = object;
    if (FAI_UNLIKELY(fai_tls.nowned == fai_tls.owned_room) && !grow_table()) {
        fai_fail_memory(op, (size_t)fai_tls.owned_room * 2 * sizeof(fai_object *));
        fai_unref(object);
        return false;
    }
    fai_tls.owned[fai_tls.nowned++] = o;
    if (FAI_UNLIKELY(o->slot != 0 || o->kept & SHARED)) {
        o->kept |= SHARED;
        if (o->slot && o->owner != &fai_tls) return true; /* another thread's scope owns it too: its slot stays */
    }
    o->slot = fai_tls.nowned;
    o->owner = &fai_tls;
    return true;
}

void fai_scope_take(void *object) {
    fai_object *o = object;
    if (!o) return;
    const uint32_t begin = scope_begin();
    if (FAI_LIKELY(o->owner == &fai_tls && o->slot == fai_tls.nowned && o->slot > begin && !(o->kept & SHARED))) { /* the newest, as results are */
        fai_tls.nowned--;
        drop_gaps(begin);
        o->slot = 0, o->owner = NULL, o->kept = 0;
        return;
    }
    int64_t index = find_entry(o);
    if (index == NOT_THERE) {
        if (o->slot) o->refs++; /* another thread's scope keeps its reference: the caller gets one of its own */
        return;
    }
    remove_entry(o, (uint32_t)index);
}

/* What another thread's scope owns is left to it. */
void fa_drop(void *object) {
    fai_object *o = object;
    if (!o) return;
    if (FAI_UNLIKELY(o->refs <= 0)) { /* it lies in a free list */
        fai_fail(FA_ERR_VALUE, "drop", "the object was dropped before: drop a result once, or leave it to its scope");
        return;
    }
    int64_t index = find_entry(o);
    if (index == NOT_THERE && o->slot) return;
    if (index != NOT_THERE) remove_entry(o, (uint32_t)index);
    fai_unref(o);
}

void *fa_keep(void *object) {
    fai_object *o = object;
    if (o && o->slot && o->owner == &fai_tls && fai_tls.nmarks) o->kept |= KEPT;
    return object;
}

/* ---- scopes ---- */

void fa_scope_open(void) {
    if (fai_tls.failed_scopes) { /* inside a scope that could not be opened: closes must pair up */
        fai_tls.failed_scopes++;
        return;
    }
    if (fai_tls.nmarks == fai_tls.marks_room) {
        uint32_t room = fai_tls.marks_room ? fai_tls.marks_room * 2 : 32;
        void *bigger = fai_realloc(FAI_TAG_OBJECT, fai_tls.marks, fai_tls.marks_room * sizeof(uint32_t), room * sizeof(uint32_t));
        if (!bigger) {
            fai_tls.failed_scopes = 1;
            fai_fail_memory("scope_open", room * sizeof(uint32_t));
            return;
        }
        fai_tls.marks = bigger;
        fai_tls.marks_room = room;
        fai_watch_thread();
    }
    fai_tls.marks[fai_tls.nmarks++] = fai_tls.nowned;
}

static void set_entry(uint32_t index, fai_object *object, uint32_t from) {
    fai_tls.owned[index] = object;
    if (object && object->owner == &fai_tls && object->slot == from + 1) object->slot = index + 1;
}

/* Moves kept objects to the front of the closing scope and its mark behind them: they are the parent's now. */
static void hand_kept_to_parent(void) {
    uint32_t *mark = &fai_tls.marks[fai_tls.nmarks - 1];
    for (uint32_t i = *mark; i < fai_tls.nowned; i++) {
        fai_object *object = fai_tls.owned[i];
        if (!object || !(object->kept & KEPT)) continue;
        fai_object *other = fai_tls.owned[*mark];
        if (i != *mark) {
            fai_tls.owned[i] = NULL; /* so that no entry is looked at twice while slots change */
            set_entry(*mark, object, i);
            set_entry(i, other, *mark);
        }
        object->kept &= (uint8_t)~KEPT;
        ++*mark;
    }
}

/* A destructor may make and drop objects of its own; they land in the scope that closes and go with it. */
static void release_innermost(void) {
    while (fai_tls.nowned > scope_begin()) {
        uint32_t index = --fai_tls.nowned;
        fai_object *object = fai_tls.owned[index];
        if (!object) continue;
        fai_tls.owned[index] = NULL;
        forget_entry(object, index);
        fai_unref(object);
    }
}

void fa_scope_close(void) {
    if (FAI_UNLIKELY(fai_tls.failed_scopes)) {
        fai_tls.failed_scopes--;
        return;
    }
    if (!fai_tls.nmarks) { /* the root scope is fa_finish's */
        fai_warn("scope_close",
                 "there is no open scope: fa_scope_close was called more often than fa_scope_open; FA_SCOPE closes its own");
        return;
    }
    hand_kept_to_parent();
    release_innermost();
    fai_tls.nmarks--;
}

void fai_close_all_scopes(void) {
    while (fai_tls.nmarks) {
        release_innermost();
        fai_tls.nmarks--;
    }
    release_innermost();
    fai_tls.failed_scopes = 0;
    fai_free(FAI_TAG_OBJECT, fai_tls.owned, fai_tls.owned_room * sizeof(fai_object *));
    fai_free(FAI_TAG_OBJECT, fai_tls.marks, fai_tls.marks_room * sizeof(uint32_t));
    fai_tls.owned = NULL;
    fai_tls.marks = NULL;
    fai_tls.owned_room = fai_tls.marks_room = 0;
}

/* ---- the end of a thread ---- */

static void thread_ends(void *unused) {
    (void)unused;
    fai_close_all_scopes();
    for (int i = HOOKS - 1; i >= 0; i--) {
        void (*end)(void) = atomic_load(&thread_end_hooks[i]);
        if (end) end();
    }
    fai_cold_end();
    thread_watched = false;
}

static void make_thread_key(void) { pthread_key_create(&thread_key, thread_ends); }

bool fai_watch_thread(void) {
    if (FAI_LIKELY(thread_watched)) return true;
    pthread_once(&thread_key_once, make_thread_key);
    return thread_watched = pthread_setspecific(thread_key, &fai_tls) == 0;
}

void fai_on_thread_end(void (*end)(void)) {
    for (int i = 0; i < HOOKS; i++) {
        void (*there)(void) = NULL;
        if (atomic_compare_exchange_strong(&thread_end_hooks[i], &there, end) || there == end) return;
    }
    fputs("facula: more than 16 thread-end hooks\n", stderr);
    abort(); /* a mistake in the library itself, seen at the first start */
}
