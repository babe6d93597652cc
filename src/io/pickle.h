/* Pickles, as checkpoints of PyTorch hold them: read by an interpreter that calls and imports nothing, and written. */
#ifndef FAI_PICKLE_H
#define FAI_PICKLE_H

#include "value.h"

/* ---- globals.c: the names that a pickle may hold, and what each of them stands for ---- */
typedef enum fai_meaning {
    FAI_NAME_CLASS,           /* may be named, makes nothing by itself */
    FAI_NAME_ORDERED_DICT,
    FAI_NAME_COUNTER,
    FAI_NAME_SET,
    FAI_NAME_COMPLEX,
    FAI_NAME_BYTES,
    FAI_NAME_BYTE_ARRAY,
    FAI_NAME_ENCODE,
    FAI_NAME_SIZE,
    FAI_NAME_DEVICE,
    FAI_NAME_DTYPE,
    FAI_NAME_STORAGE,         /* dtype 0: bytes */
    FAI_NAME_TENSOR,          /* the functions that make tensors */
    FAI_NAME_TENSOR_V3,
    FAI_NAME_PARAMETER,
    FAI_NAME_PARAMETER_STATE,
    FAI_NAME_FROM_TYPE,
    FAI_NAME_FOREIGN          /* allowed in PyTorch, of what does not exist here */
} fai_meaning;
typedef struct fai_global { const char *name; fai_meaning meaning; fa_dtype dtype; const char *why; } fai_global;
const fai_global *fai_find_global(const char *name);             /* "module.name"; NULL if it is none of them */
const char *fai_global_name(fai_meaning meaning, fa_dtype dtype); /* "module.name", as PyTorch writes it */

/* ---- unpickle.c ---- */
typedef struct fai_unpickler {
    fa_values *values;
    const char *name;                     /* of the file, for messages */
    const uint8_t *begin, *at, *end;
    const char *const *safe_globals;
    int nsafe_globals;
    /* What a persistent id stands for: a storage. */
    fa_value *(*persistent)(struct fai_unpickler *u, const fa_value *id);
    /* dtype 0: the storage's own. */
    fa_tensor *(*tensor)(struct fai_unpickler *u, const fa_value *storage, fa_dtype dtype, int64_t offset, const fa_shape *size,
                         const fa_shape *stride);
    void *context;
    fa_value **stack, **memo, *small[256]; /* small: ints from 0 to 255 */
    size_t depth, stack_room, memo_room;
    size_t *marks, nmarks, marks_room;     /* heights of the stack */
    bool stopped;
} fai_unpickler;
fa_value *fai_unpickle(fai_unpickler *u); /* the caller has filled in all above stack; NULL after an error */
void *fai_unpickle_bad(const fai_unpickler *u, const char *format, ...) FA_PRINTF(2, 3); /* FA_ERR_FORMAT; NULL */
/* Adds the names that fai_unpickle would refuse to a list, without building anything. */
bool fai_unpickle_list_globals(fai_unpickler *u, fa_value *list);

/* ---- reduce.c ---- */
fa_value *fai_reduce(fai_unpickler *u, const fa_value *global, fa_value *arguments);

/* ---- pickle.c ---- */
typedef struct fai_pickler {
    fa_values *values;
    const char *op;
    fai_text text;
    uint32_t *memo, next;                 /* by index of a value: 1 + its number in the pickle, IN_WORK, or 0 */
    struct fai_said *said;                /* names and words that came up, with their numbers */
    size_t nsaid, said_room;
    uint32_t *keys;                       /* the same of the storages' keys, by number of the storage */
    size_t keys_room;
    /* The number of the storage of t, in order of first use, or -1 after an error; *elements: in all of it. */
    int64_t (*storage)(struct fai_pickler *p, fa_tensor *t, int64_t *elements);
    void *context;
} fai_pickler;
bool fai_pickle(fai_pickler *p, const fa_value *root); /* fills text; the caller frees it by fai_pickle_end */
void fai_pickle_end(fai_pickler *p);

#endif
