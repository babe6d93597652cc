/* Floor 0: what every room above uses. Errors, the memory door, objects and scopes, threads, text, checked arithmetic. */
#ifndef FAI_BASE_H
#define FAI_BASE_H

#include <fa_base.h>
#include <fa_device.h> /* for the value type fa_device only: this floor calls nothing of it */
#include <stdarg.h>
#include <stdatomic.h>

#define FAI_LIKELY(x) __builtin_expect(!!(x), 1)
#define FAI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#if defined(__SANITIZE_ADDRESS__)
#define FAI_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FAI_ASAN 1
#endif
#endif
#ifndef FAI_ASAN
#define FAI_ASAN 0
#endif
#define FAI_COLD __attribute__((cold)) /* seldom called: small instead of fast */

/* ---- errors.c ---- */
/* Keeps the first error of the thread, counts later ones; returns NULL, so that `return fai_fail(...)` serves every pointer. */
void *fai_fail(fa_code code, const char *op, const char *format, ...) FA_PRINTF(3, 4);
void *fai_fail_memory(const char *op, size_t bytes); /* FA_ERR_MEMORY with the usual words */
bool fai_refuse_pending(const char *op);             /* true if an error is pending: state must not change; counts one */

/* ---- warn.c: allowed, but most likely a mistake; no error. Once for each op and format, or always to the handler if one is set. ---- */
void fai_warn(const char *op, const char *format, ...) FA_PRINTF(2, 3);
void fai_set_warn(void (*tell)(const char *op, const char *text));
bool fai_mute(bool mute); /* of this thread: who does such things on purpose; returns what was */

/* ---- memory.c: the one door to the host's memory. Sizes are given back at free, so accounting is exact. ---- */
typedef enum fai_tag { FAI_TAG_OBJECT, FAI_TAG_DATA, FAI_TAG_GRAPH, FAI_TAG_TEXT, FAI_TAG_FILE, FAI_TAG_OTHER, FAI_TAG_COUNT } fai_tag;
void *fai_alloc(fai_tag tag, size_t bytes);           /* NULL without an error set: the caller knows what it was for */
void *fai_calloc(fai_tag tag, size_t bytes);
void *fai_alloc_aligned(fai_tag tag, size_t bytes);   /* 64-byte lines, for elements */
void *fai_realloc(fai_tag tag, void *old, size_t old_bytes, size_t bytes);
void fai_free(fai_tag tag, void *block, size_t bytes);
void fai_free_aligned(fai_tag tag, void *block, size_t bytes);
void *fai_map(fai_tag tag, size_t bytes);             /* whole pages straight from the system, and back to it at once; bytes: a multiple of 2 MiB */
void fai_unmap(fai_tag tag, void *block, size_t bytes);
void *fai_zlib_alloc(void *opaque, unsigned items, unsigned size); /* zlib's memory comes through the door */
void fai_zlib_free(void *opaque, void *block);
bool fai_caches_on(void);
void fai_on_cache_drop(void (*drop)(void));           /* called by fa_test_caches(false) and fa_finish; at most 16 */
void fai_drop_caches(void);
uint64_t fai_tag_bytes(fai_tag tag);                  /* in use under one tag */

/* ---- object.c: counted objects and the scopes that own them ---- */
typedef enum fai_kind { FAI_TENSOR, FAI_MODULE, FAI_OPTIMIZER, FAI_GENERATOR, FAI_DATASET, FAI_LOADER, FAI_SCHEDULER, FAI_SCALER, FAI_TENSORS, FAI_VALUES, FAI_EVENT, FAI_GRAPH, FAI_MEMPOOL, FAI_KIND_COUNT } fai_kind;
/* The first two words are laid out as a PyObject's, so that one object can serve both languages; type is NULL in C. */
typedef struct fai_object {
    int64_t refs;
    void *type;
    uint8_t kind;
    uint8_t kept;       /* one scope longer */
    uint16_t flags;     /* the kind's own */
    uint32_t slot;      /* 1 + place in the owning thread's table, 0 if no scope owns it */
    struct fai_thread *owner;
} fai_object;
void fai_set_destructor(fai_kind kind, void (*destroy)(void *object));
bool fai_scope_add(void *object, const char *op);             /* hands the reference to the innermost scope; on failure drops it */
void fai_scope_take(void *object);                            /* the caller owns the scope's reference from now on */
/* The seam to a language whose objects these are too. All of it is zero in a C program. Set once, at load, before any object is made. */
typedef struct fai_face {
    void *types[FAI_KIND_COUNT];        /* what object.type is at birth */
    void *parameter_type;               /* and what it becomes when a plain tensor becomes a module's parameter */
    void (*dealloc)(void *object);      /* the last reference of an object with a type is gone; ends in fai_end */
    void *(*new_module)(const char *name); /* memory of a module, zeroed, type and count set; name: the layer's, "Linear" */
    void (*free_module)(void *module);
    bool (*entry_set)(void *module, const char *name, void *object, bool parameter); /* an entry got this object */
    bool (*built)(void *module);        /* a row's layer has its arguments and entries */
    bool (*plain)(const void *module);  /* calling it is its type's forward and nothing else */
    void *(*call)(void *module, void *const *inputs, int ninputs); /* of one that is not plain: a tensor of the scope, or NULL and the error */
    const char *(*module_name)(const void *module); /* the name of its class there, "Net" */
    /* For the message of tensors on several devices: what that language calls an argument of op; a variable that holds the root module;
     * the line that mends it, which is the library's own where this gives false. */
    const char *(*argument)(const char *op, const char *name);
    bool (*root_name)(void *module, char *out, size_t n);
    bool (*cure)(const char *name, void *odd, fa_device wanted, char *out, size_t n);
    void *(*unlock)(void);              /* around long work and waits: other threads of that language may run */
    void (*lock)(void *state);
    uint32_t (*site)(void);             /* the line of the program that runs now, as a small number; 0: unknown. Cheap */
    void (*site_text)(uint32_t site, char *out, size_t n); /* "train.py:12" */
    const char *(*class_name)(const void *module);  /* of a module that is that language's too */
} fai_face;
extern fai_face fai_other_face;
static inline void fai_object_init(void *object, fai_kind kind) /* refs = 1, owned by nobody */
{
    *(fai_object *)object = (fai_object){.refs = 1, .type = fai_other_face.types[kind], .kind = (uint8_t)kind};
}
void fai_end(void *object);                                   /* what fai_destroy does where there is no type */
static inline void *fai_ref(void *object) { if (object) ((fai_object *)object)->refs++; return object; }
void fai_destroy(void *object);
void fai_close_all_scopes(void);                              /* this thread's, the root scope too */
void fai_on_thread_end(void (*end)(void));                    /* for free lists: called on an ending thread that was watched; at most 16 */
bool fai_watch_thread(void); /* false: its end will not be seen */
static inline void fai_unref(void *object) { if (object && --((fai_object *)object)->refs == 0) fai_destroy(object); }

/* ---- the thread's own state; one struct, so that the hot path finds all of it behind one address ---- */
typedef struct fai_thread {
    bool grad_off, inference, anomaly;
    bool error_pending;
    bool muted;                         /* warnings go nowhere */
    bool constants;                     /* FAI_CONSTANTS: what is copied to a device is the library's own */
    bool non_blocking;                  /* copies between pinned memory and devices are queued and not waited for */
    const char *reader;                 /* FAI_READER: who asks for a device's numbers */
    const char *called;                 /* FAI_CALLED: the function whose name errors carry */
    int16_t current_device[32];         /* by type */
    uint8_t stream_of[64];              /* by device: the id of its current stream */
    void *memory_pool;                  /* the fa_mempool that this thread's memory comes from; NULL: none */
    fa_device default_device;           /* all zero: the process-wide one */
    int device_depth;
    uint16_t autocast;                  /* autograd/autocast.c: bit t is set where it is on for device type t */
    uint16_t autocast_depth;            /* open scopes */
    bool autocast_uncached;
    uint8_t autocast_dtype[16];         /* by type; 0: its default */
    fai_object **owned;                 /* the scopes' table */
    uint32_t nowned, owned_room;
    uint32_t *marks, nmarks, marks_room;/* where each open scope begins */
    uint32_t failed_scopes;             /* scopes that could not be opened: closes to ignore */
} fai_thread;
extern __thread fai_thread fai_tls __attribute__((tls_model("initial-exec")));

/* ---- cold.c: what a thread needs seldom; it is there even without memory ---- */
enum { FAI_DEVICE_SCOPES = 64, FAI_DEVICE_TEXTS = 8 };
typedef struct fai_cold {
    fa_error error;
    char backend_text[1536];                    /* of the backend's last error */
    char device_text[FAI_DEVICE_TEXTS][32];     /* what fa_device_text gave last */
    unsigned device_turn;
    fa_device outer[FAI_DEVICE_SCOPES];         /* what each open device scope hides */
    void *autocast;                             /* weights that were cast, while a scope is open */
} fai_cold;
fai_cold *fai_cold_block(void);
void fai_cold_end(void);

/* What a function with a scope of its own returns: a result made in that scope lives on in the caller's; an argument that is handed
 * through belongs to somebody else and stays where it is. */
static inline void *fai_return(void *object)
{
    const fai_object *o = object;
    if (o && o->owner == &fai_tls && o->slot && fai_tls.nmarks && o->slot > fai_tls.marks[fai_tls.nmarks - 1]) fa_keep(object);
    return object;
}

/* FAI_CALLED("cross_entropy"); for the rest of the block errors carry this name, of the function that the user called, and not those
 * of the functions that it is made of. The outermost wins. */
static inline const char *fai_called_begin(const char *op)
{
    const char *was = fai_tls.called;
    if (!was) fai_tls.called = op;
    return was;
}
static inline void fai_called_end(const char *const *was) { fai_tls.called = *was; }
#define FAI_CALLED(op) __attribute__((cleanup(fai_called_end), unused)) const char *const FA_JOIN(fai_called_, __LINE__) = fai_called_begin(op)

/* FAI_READER("item"); for the rest of the block it is item that waits for a device, and not the function that it reads by: for messages about
 * waits. An error that a wait finds keeps the name of its operator. The outermost wins, FAI_CALLED too. */
static inline const char *fai_reader_begin(const char *op)
{
    const char *was = fai_tls.reader;
    if (!was && !fai_tls.called) fai_tls.reader = op;
    return was;
}
static inline void fai_reader_end(const char *const *was) { fai_tls.reader = *was; }
#define FAI_READER(op) __attribute__((cleanup(fai_reader_end), unused)) const char *const FA_JOIN(fai_reader_, __LINE__) = fai_reader_begin(op)

/* ---- threads.c ---- */
/* body(context, begin, end) over pieces of [0, n), none smaller than grain, on the pool and the calling thread; pieces never
 * depend on the number of threads in a way that a result could show. Nested calls run on the caller. */
void fai_parallel(int64_t n, int64_t grain, void (*body)(void *context, int64_t begin, int64_t end), void *context);
bool fai_poll(const char *op); /* true: stop, an error is set */
bool fai_halted(void);         /* a job of this thread was asked to stop and left its results unfinished; told once */
void fai_stop_pool(void);      /* fa_finish's; the next fai_parallel starts it anew */

/* ---- finish.c ---- */
void fai_on_finish(void (*finish)(void)); /* fa_finish calls it first, to wait for devices; it may set an error; at most 16 */

/* ---- text.c: a growing text; on no memory it stays valid, short, and `failed` is set ---- */
typedef struct fai_text { char *data; size_t length, room; bool failed; } fai_text;
void fai_text_add(fai_text *text, const char *format, ...) FA_PRINTF(2, 3);
void fai_text_add_bytes(fai_text *text, const char *bytes, size_t n);
void fai_text_free(fai_text *text);
void fai_text_shape(char *out, size_t n, int ndim, const int64_t *size);   /* "[2, 3]" */
void fai_text_bytes(char *out, size_t n, uint64_t bytes);                  /* "20.00 GiB", torch's words */

/* ---- hash.c ---- */
uint64_t fai_hash(const void *data, size_t n, uint64_t seed);
uint32_t fai_crc32(uint32_t crc, const void *data, size_t n);

/* ---- checked arithmetic: false on overflow ---- */
static inline bool fai_mul(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool fai_add(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

/* ---- dtypes.c ---- */
/* Converts n elements, torch's casts (float to int truncates, out of range as x86 does; to bool: != 0). Any pair of dtypes. */
void fai_convert(void *to, fa_dtype to_type, const void *from, fa_dtype from_type, int64_t n);
float fai_half_to_float(uint16_t h);
uint16_t fai_float_to_half(float f);       /* round to nearest even */
float fai_bfloat16_to_float(uint16_t h);
uint16_t fai_float_to_bfloat16(float f);
const char *fai_dtype_title(fa_dtype dtype); /* "Float", "Long": as torch's messages name them */
static inline bool fai_is_float(int dtype) { return dtype >= FA_FLOAT16; }
extern const uint8_t fai_dtype_bytes[FA_DTYPE_COUNT]; /* fa_dtype_size where the type is known to be one */

/* ---- disk_cache.c: what a compiler made. A key begins as {{0}}; add all that the result depends on. ---- */
typedef struct fai_cache_key { uint64_t half[2]; } fai_cache_key;
fai_cache_key fai_cache_key_add(fai_cache_key key, const void *data, size_t n);
bool fai_cache_read(fai_cache_key key, void **data, size_t *bytes); /* fai_free(FAI_TAG_OTHER, *data, *bytes); false: not there */
void fai_cache_write(fai_cache_key key, const void *data, size_t bytes);
void fai_cache_forget(fai_cache_key key);                           /* what was read is worth nothing */
bool fai_cache_folder(char *out, size_t n);                         /* false: there is no cache */
bool fai_cache_is_named(void);                                      /* FACULA_CACHE names a folder */

#endif
