/* Facula: errors, scopes, numbers and element types. Every other public header includes this one. */
#ifndef FA_BASE_H
#define FA_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FA_VERSION_MAJOR 0
#define FA_VERSION_MINOR 1
#define FA_VERSION_PATCH 0
#define FA_VERSION_TEXT "0.1.0"

#if defined(__GNUC__)
#define FA_API __attribute__((visibility("default")))
#define FA_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define FA_API
#define FA_PRINTF(format_at, first_at)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_tensor fa_tensor;
typedef struct fa_module fa_module;
typedef struct fa_optimizer fa_optimizer;

/* "0.1.0": the version of the library that runs, which may be newer than the header. */
FA_API const char *fa_version(void);

/* ---- Element types ------------------------------------------------------------------------------------------------ */

typedef enum fa_dtype {
    FA_DTYPE_DEFAULT = 0, /* "not given": float32 unless fa_set_default_dtype said otherwise, or inferred */
    FA_BOOL, FA_UINT8, FA_INT8, FA_INT16, FA_INT32, FA_INT64, FA_FLOAT16, FA_BFLOAT16, FA_FLOAT32, FA_FLOAT64,
    FA_DTYPE_COUNT
} fa_dtype;

FA_API const char *fa_dtype_name(fa_dtype dtype); /* "float32" */
FA_API size_t fa_dtype_size(fa_dtype dtype);      /* bytes an element takes; 0 for FA_DTYPE_DEFAULT */
FA_API bool fa_dtype_is_floating(fa_dtype dtype);
FA_API fa_dtype fa_promote_types(fa_dtype a, fa_dtype b); /* torch's table */
FA_API fa_dtype fa_default_dtype(void);
FA_API void fa_set_default_dtype(fa_dtype floating);

/* ---- Numbers: the second operand of fa_add_scalar and its kind. The category decides promotion, as in torch. ------ */

typedef enum fa_scalar_kind { FA_SCALAR_BOOL = 1, FA_SCALAR_INT, FA_SCALAR_FLOAT } fa_scalar_kind;
typedef struct fa_scalar {
    fa_scalar_kind kind;
    union { int64_t i; double f; } as;
} fa_scalar;

static inline fa_scalar fa_scalar_of_float(double value)  { fa_scalar s; s.kind = FA_SCALAR_FLOAT; s.as.f = value; return s; }
static inline fa_scalar fa_scalar_of_int(int64_t value)   { fa_scalar s; s.kind = FA_SCALAR_INT; s.as.i = value; return s; }
static inline fa_scalar fa_scalar_of_bool(bool value)     { fa_scalar s; s.kind = FA_SCALAR_BOOL; s.as.i = value; return s; }
static inline fa_scalar fa_scalar_of_scalar(fa_scalar s)  { return s; }
static inline double fa_scalar_float(fa_scalar s)         { return s.kind == FA_SCALAR_FLOAT ? s.as.f : (double)s.as.i; }
static inline int64_t fa_scalar_int(fa_scalar s)          { return s.kind == FA_SCALAR_FLOAT ? (int64_t)s.as.f : s.as.i; }

#ifndef __cplusplus
/* FA_NUM(2) is an integer, FA_NUM(2.0) a float, FA_NUM((bool)true) a bool (true alone is an int in C11), and an fa_scalar
 * stays what it is. */
#define FA_NUM(x) (_Generic((x), bool: fa_scalar_of_bool, float: fa_scalar_of_float, double: fa_scalar_of_float, \
                            fa_scalar: fa_scalar_of_scalar, default: fa_scalar_of_int)(x))
#endif

/* ---- Shapes ------------------------------------------------------------------------------------------------------- */

#define FA_MAX_DIMS 8

/* Sizes of a tensor, or a list of dimensions. By value; at most FA_MAX_DIMS entries, more is an error when it is used. */
typedef struct fa_shape {
    int32_t ndim;
    int64_t dim[FA_MAX_DIMS];
} fa_shape;

#ifndef __cplusplus
#define FA_SHAPE(...) ((fa_shape){(int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define FA_DIMS(...) FA_SHAPE(__VA_ARGS__)
#define FA_SHAPE_0D ((fa_shape){0, {0}})
#endif
/* Scale factors, one for all dimensions or one each: FA_FACTORS(2), FA_FACTORS(1.5, 2). */
typedef struct fa_factors {
    int32_t n;
    double factor[3];
} fa_factors;
#ifndef __cplusplus
#define FA_FACTORS(...) ((fa_factors){(int32_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), {__VA_ARGS__}})
#endif
FA_API fa_shape fa_shape_of(int ndim, const int64_t *sizes); /* the same for sizes known at run time, and for C++ */

/* Optional arguments: fa_sgd(net, .lr = 0.1). Later initialisers override the defaults, silently in the user's code. The result lies
 * in an array of one, so that its address can be passed on. */
#define FA_OPTIONS(type, defaults, ...)                                                                             \
    (*(type[1]){__extension__({                                                                                     \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wpragmas\"")                               \
        _Pragma("GCC diagnostic ignored \"-Wunknown-warning-option\"")                                               \
        _Pragma("GCC diagnostic ignored \"-Woverride-init\"")                                                        \
        _Pragma("GCC diagnostic ignored \"-Winitializer-overrides\"")                                                \
        type fa_options_ = {.struct_size = sizeof(type), defaults, __VA_ARGS__};                                    \
        _Pragma("GCC diagnostic pop")                                                                               \
        fa_options_; })})

/* ---- Errors ------------------------------------------------------------------------------------------------------- */
/* The first error of a thread is kept until it is taken; later ones are only counted. Ops given NULL return NULL at once,
 * so one check at the end of a program is enough. What changes state (backward, step, in-place, load) refuses while an
 * error is pending. Nothing here allocates. */

typedef enum fa_code {
    FA_OK = 0,
    FA_ERR_VALUE,     /* an argument's value is not allowed          (Python: ValueError)            */
    FA_ERR_TYPE,      /* an argument is of the wrong kind            (TypeError)                     */
    FA_ERR_INDEX,     /* an index or dimension is out of range       (IndexError)                    */
    FA_ERR_RUNTIME,   /* shapes, dtypes, devices, autograd's rules   (RuntimeError)                  */
    FA_ERR_MEMORY,    /* no host memory                              (MemoryError)                   */
    FA_ERR_DEVICE_MEMORY, /* no device memory                        (torch.OutOfMemoryError)        */
    FA_ERR_DEVICE,    /* the driver or a kernel failed               (torch.AcceleratorError)        */
    FA_ERR_FILE,      /* the operating system refused a file         (OSError)                       */
    FA_ERR_FORMAT,    /* a file is damaged or not what it should be  (RuntimeError)                  */
    FA_ERR_UNSUPPORTED, /* not there for this dtype or device        (NotImplementedError)           */
    FA_ERR_KEY,       /* a name is not there                         (KeyError)                      */
    FA_ERR_ATTRIBUTE, /* an object has no such part                  (AttributeError)                */
    FA_ERR_INTERRUPTED, /* the poll callback asked to stop           (KeyboardInterrupt)             */
    FA_ERR_FOREIGN,   /* a callback failed; its language has the details                             */
    FA_ERR_ASSERTION  /* steps in the wrong order                    (AssertionError)                */
} fa_code;

typedef struct fa_error {
    fa_code code;
    uint32_t later;       /* errors since then, only counted */
    char op[48];          /* the function that the user called, "matmul" */
    char text[2000];      /* what was wrong, what is allowed, how to mend it; ends without a newline */
} fa_error;

FA_API const char *fa_code_name(fa_code code); /* the class Python raises: "RuntimeError", "IndexError", ... */
FA_API bool fa_failed(void);                  /* an error is pending on this thread */
FA_API const fa_error *fa_error_peek(void);   /* NULL if there is none */
FA_API fa_error fa_error_take(void);          /* returns it (code FA_OK if none) and clears it */
FA_API void fa_error_set(fa_code code, const char *op, const char *format, ...) FA_PRINTF(3, 4); /* for callbacks */
/* The last call of a program: waits for all devices, prints "name: op: text" to stderr if an error is pending, frees what
 * this thread's root scope owns. Returns 0, or 1 after an error: return fa_finish("train"); */
FA_API int fa_finish(const char *program);

/* ---- Scopes: who owns a result -------------------------------------------------------------------------------------- */
/* A tensor, module or optimizer belongs to the innermost open scope of its thread and is released when that closes;
 * outside scopes to the thread's root scope, which fa_finish closes. Modules hold their parameters, tensors their graph. */

FA_API void fa_scope_open(void);
FA_API void fa_scope_close(void);
FA_API void *fa_keep(void *object); /* lives one scope longer than its scope; returns its argument; NULL is allowed */
FA_API void fa_drop(void *object);  /* give it up early; NULL is allowed */

#if defined(__GNUC__)
static inline void fa_scope_close_cleanup(const int *unused) { (void)unused; fa_scope_close(); }
#define FA_JOIN_(a, b) a##b
#define FA_JOIN(a, b) FA_JOIN_(a, b)
/* Opens a scope for the rest of the block; break, continue and return close it too. */
#define FA_SCOPE __attribute__((cleanup(fa_scope_close_cleanup), unused)) const int FA_JOIN(fa_scope_, __LINE__) = (fa_scope_open(), 0)
#endif

/* ---- Threads, memory, long work -------------------------------------------------------------------------------------- */

FA_API int fa_num_threads(void);       /* OMP_NUM_THREADS or FACULA_NUM_THREADS, else the number of cores */
FA_API void fa_set_num_threads(int n); /* results do not depend on it */
FA_API void fa_set_poll(bool (*stop)(void *), void *data); /* asked now and then on the calling thread during long work */

typedef struct fa_memory_use { uint64_t bytes, blocks, peak_bytes, total_calls; } fa_memory_use;
FA_API fa_memory_use fa_host_memory_use(void);
/* For tests: the n-th host allocation from now fails (n = 1 the next), all later ones too if sticky. n = 0: off. */
FA_API void fa_test_fail_allocation(uint64_t n, bool sticky);
FA_API uint64_t fa_test_failed_allocations(void); /* how many were made to fail since the last call of the above */
/* Give every cached block back and, if off, keep none from now on: for leak checks. */
FA_API void fa_test_caches(bool on);

#ifdef __cplusplus
}
#endif
#endif
