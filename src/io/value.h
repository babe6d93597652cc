/* Values as they lie in memory. */
#ifndef FAI_VALUE_H
#define FAI_VALUE_H

#include "io.h"

typedef struct fai_block fai_block;

/* All values lie in blocks, which only grow and go together; of what they hold, only tensors need to be given back. */
struct fa_values {
    fai_object object;
    const char *op;         /* whose errors these are while a file is read */
    fai_block *blocks;
    uint64_t used, limit;   /* bytes taken, and how many may be */
    uint64_t seed;          /* of the tables of keys */
    uint32_t count;
    fa_value *root;
    fa_value *none, *no, *yes;
    fa_tensor **tensors;    /* held */
    size_t ntensors, tensors_room;
};

struct fa_value {
    uint8_t kind;
    bool is_new;            /* of an object */
    bool seen;              /* a walk was here */
    uint32_t index;
    fa_values *owner;
    union {
        bool b;
        int64_t i;
        double f[2];
        struct { char *data; size_t n; } text;  /* texts, bytes, big ints: with a 0 behind */
        struct { fa_value **items; uint32_t n, room, *table, table_room; fa_value *state; } list; /* dicts: key, value, ... */
        struct { fa_tensor *t; fa_value *state; } tensor;
        struct { char *name; const struct fai_global *known; size_t module; } global; /* "module.name"; module: its letters */
        struct { fa_value *global, *arguments, *state; } object;
        fa_dtype dtype;
        fa_device device;
    } as;
};

/* Within a reader: a storage, which only tensors are made of. */
enum { FAI_VALUE_STORAGE = 100 };

bool fai_values_charge(fa_values *values, uint64_t bytes);   /* false and an error beyond the limit */
void *fai_values_take(fa_values *values, size_t bytes);      /* memory that lives as long as the document; zeroed */
fa_value *fai_values_make(fa_values *values, int kind);
bool fai_value_reserve(fa_value *list, size_t more);
fa_value *fai_values_tensor(fa_values *values, fa_tensor *t, fa_value_kind kind); /* takes t out of its scope */
bool fai_value_is_dict(const fa_value *v);
bool fai_value_is_list(const fa_value *v); /* tuples, sizes, lists, sets */
bool fai_value_is_utf8(const char *text, size_t n);

#endif
