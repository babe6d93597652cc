/* The backend contract, for people who bring a new kind of device. A backend owes five things: memory, copy, queue and
 * event, build this text, launch this. Everything else (ops, autograd, allocator, errors) stands above and comes for free.
 *
 * Every function returns 0, or a backend's own error number after calling fail(text); addresses are opaque 64-bit numbers
 * that the host never dereferences. Functions may be called from any thread; device is 0 .. count-1. */
#ifndef FA_BACKEND_H
#define FA_BACKEND_H

#include "../fa_device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FA_BACKEND_ABI 1

typedef uint64_t fa_address;             /* device memory; 0 is none */
typedef struct fa_stream_ *fa_stream_handle; /* a queue; NULL is the device's default queue */
typedef struct fa_event_ *fa_event_handle;
typedef struct fa_program_ *fa_program_handle;
typedef struct fa_kernel_ *fa_kernel_handle;
typedef struct fa_graph_ *fa_graph_handle;   /* work that is started as a whole */

typedef enum fa_copy_kind { FA_COPY_TO_DEVICE, FA_COPY_TO_HOST, FA_COPY_WITHIN } fa_copy_kind;

/* Libraries of the device's maker that do the work of some kernels (products of matrices, convolutions). They are asked before
 * Facula's own kernel is launched, with its plan; what they decline, the own kernel does. */
typedef struct fa_library_call {
    const char *name;                    /* of the function that will run: late errors are told by it */
    uint64_t workspace;                  /* bytes of the device's memory that it wants while it runs */
    int launches;                        /* run sets it: how many of the queue's operations it was, also when it failed on the way */
    void *state;                         /* the backend's own */
} fa_library_call;

typedef struct fa_library {
    /* Whether there is a library that may serve this kernel. Asked at each launch: quick. */
    bool (*knows)(const char *kernel);
    /* Looks at what is to be done, queues nothing. 0: *call is filled; FA_BACKEND_DECLINED: see get; else an error. modes: FA_MATH_... */
    int (*prepare)(int device, const char *kernel, const void *plan, const fa_address pointers[8], unsigned modes, fa_library_call *call);
    int (*run)(int device, fa_stream_handle stream, fa_library_call *call, const void *plan, const fa_address pointers[8], fa_address workspace);
    void (*drop)(fa_library_call *call); /* behind each prepare that returned 0, run or not */
    bool (*get)(int number, fa_library_info *out); /* what fa_library_get tells; false after the last one */
} fa_library;

typedef struct fa_backend {
    uint32_t struct_size, abi;           /* sizeof(fa_backend), FA_BACKEND_ABI */
    const char *name;                    /* the device type users write: "cuda" */
    const char *dialect;                 /* what build() takes: "cuda", "opencl" or "c" */

    /* Number of devices; 0 and a text in why (at most n bytes) when the driver is missing. Called once, before all else. A text
     * that begins with '!' is told as a warning too: something is there, and can't be used. */
    int (*open)(int *count, char *why, size_t n);
    void (*close)(void);
    int (*properties)(int device, fa_device_properties *out);
    /* The text of the last error on this thread, for messages. Never NULL. */
    const char *(*error_text)(void);

    /* 1. memory */
    int (*allocate)(int device, size_t bytes, fa_address *out); /* FA_BACKEND_NO_MEMORY when there is none left */
    int (*release)(int device, fa_address address);
    int (*memory_info)(int device, uint64_t *free_bytes, uint64_t *total_bytes);

    /* 2. copy: queued; a copy to the host is complete only after a wait. For COPY_WITHIN both are device addresses of the
     * same device. The host side of a queued copy must stay valid until the wait. */
    int (*copy)(int device, fa_stream_handle stream, fa_copy_kind kind, fa_address device_address, void *host, fa_address other, size_t bytes);
    int (*fill)(int device, fa_stream_handle stream, fa_address address, int byte, size_t bytes);

    /* 3. queue and event */
    int (*stream_create)(int device, int priority, fa_stream_handle *out);
    int (*stream_destroy)(int device, fa_stream_handle stream);
    int (*stream_wait)(int device, fa_stream_handle stream);     /* the host waits; returns late errors of that queue */
    int (*event_create)(int device, fa_event_handle *out);
    int (*event_destroy)(int device, fa_event_handle event);
    int (*event_record)(int device, fa_event_handle event, fa_stream_handle stream);
    int (*event_wait)(int device, fa_event_handle event);        /* the host waits */
    int (*stream_wait_event)(int device, fa_stream_handle stream, fa_event_handle event); /* of any device of this backend */
    int (*event_query)(int device, fa_event_handle event, bool *done);
    int (*event_elapsed)(int device, fa_event_handle start, fa_event_handle end, float *milliseconds);

    /* 4. build: text is a whole program in the dialect; name is its family, for messages and caches. log: at most n bytes */
    int (*build)(int device, const char *name, const char *text, const char *options, fa_program_handle *out, char *log, size_t n);
    int (*unload)(int device, fa_program_handle program);
    int (*find)(int device, fa_program_handle program, const char *kernel, fa_kernel_handle *out);

    /* 5. launch: every kernel takes (fa_plan by value, eight pointers). plan is copied before the call returns. */
    int (*launch)(int device, fa_stream_handle stream, fa_kernel_handle kernel, uint64_t groups, int group_size, const void *plan, size_t plan_bytes,
                  const fa_address pointers[8]);

    /* May be NULL: memory of the host that the device copies to and from by itself, so that such copies need not wait. */
    int (*host_allocate)(int device, size_t bytes, void **out); /* FA_BACKEND_NO_MEMORY when there is none left */
    int (*host_release)(int device, void *memory);

    const fa_library *library;           /* may be NULL */

    /* May be NULL: temperature, power and the like. FA_BACKEND_FAILED with a text where they can't be had. */
    int (*sensors)(int device, fa_device_sensors *out);

    /* May all be NULL: a list of launches, copies and fills that the device keeps and starts as a whole. From graph_begin to graph_end
     * what comes into the stream is noted down and not done; pinned memory is read and written when the graph runs. graph_end ends the
     * noting in any case, and gives NULL with an error. Without them the library gives the device the list anew each time. */
    int (*graph_begin)(int device, fa_stream_handle stream);
    int (*graph_end)(int device, fa_stream_handle stream, fa_graph_handle *out);
    int (*graph_launch)(int device, fa_graph_handle graph, fa_stream_handle stream);
    int (*graph_destroy)(int device, fa_graph_handle graph); /* what is queued of it still runs */

    /* May be NULL: a copy to another device of this backend, put into a stream of the device that it reads. The library lets that stream
     * wait for the other device's, and that one for it (stream_wait_event). FA_BACKEND_DECLINED where these two can't reach each other; asked with 0 bytes,
     * it answers only this. */
    int (*copy_between)(int device, fa_stream_handle stream, fa_address from, int to_device, fa_address to, size_t bytes);

    /* The dialect "opencl" only. True: texts are built with -DFA_OBJECTS, and kernels that take tables (FA_VIEW_TABLE) get the memory
     * objects that the plan lists as arguments behind the eight. False: no launch has a table. */
    bool objects;
} fa_backend;

enum { FA_BACKEND_DECLINED = 1, FA_BACKEND_NO_MEMORY = -2, FA_BACKEND_FAILED = -1, FA_BACKEND_LOST = -3 };

#ifdef __cplusplus
}
#endif
#endif
