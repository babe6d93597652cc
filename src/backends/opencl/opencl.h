/* Shared by the files of the OpenCL backend, and its door to the outside. */
#ifndef FAI_OPENCL_H
#define FAI_OPENCL_H

#include "../../base/base.h"
#include <sys/fa_backend.h>
#include <sys/fa_plan.h>
#include "api.h"
#include <pthread.h>

enum { FAI_OPENCL_DEVICES = 64 };

const fa_backend *fai_backend_opencl(void);
const char *fai_opencl_type(int device);   /* "xpu" for Intel's GPUs, "mps" for Apple's, else "opencl" */
bool fai_opencl_counts(void);              /* whether its first device of type opencl is one that a program may choose by itself */

/* What a kernel gets beside its eight memory objects (FA_BLOCK_ARGUMENT of kernels/dialect.h): offsets into these, in bytes. */
typedef struct fai_opencl_block { fa_plan plan; int64_t offset[8]; } fai_opencl_block;

/* A queue of the driver, in order, and the plans that it has not read yet. */
enum { FAI_OPENCL_PLANS = 64 };
typedef struct fai_opencl_queue {
    cl_command_queue queue;
    cl_mem plan;                           /* where kernels read theirs: it is written before each launch, in the queue */
    fai_opencl_block *blocks;              /* a ring of FAI_OPENCL_PLANS, which those writes read */
    cl_event read[2];                      /* the last write from each half of it */
    unsigned next;
} fai_opencl_queue;

typedef struct fai_opencl_memory { cl_mem object; size_t bytes; } fai_opencl_memory;

typedef struct fai_opencl_device {
    cl_device_id id;
    bool is_cpu, has_float64, by_value;    /* by_value: a plan is an argument, not memory */
    uint64_t total, most;                  /* bytes of memory; of one object */
    bool is_pocl;                          /* whose programs cost seconds to read back: it compiles them again */
    bool exact;                            /* division and square root are rounded correctly, small numbers are not flushed */
    char type[8];

    pthread_mutex_t lock;                  /* over all below, and while a kernel's arguments are set */
    cl_context context;                    /* made at the first use */
    fai_opencl_queue queue;                /* the default one */
    fai_opencl_memory *memory;             /* of address a: number (a >> FAI_OPENCL_SHIFT) - 1 */
    unsigned room;
    uint64_t used;
} fai_opencl_device;

/* ---- library.c ---- */
extern fai_opencl_api fai_opencl;
bool fai_opencl_load(char *why, size_t n);

/* ---- devices.c: what is there, and its errors ---- */
extern fai_opencl_device fai_opencl_devices[FAI_OPENCL_DEVICES];
extern int fai_opencl_count;
int fai_opencl_open(int *count, char *why, size_t n);
int fai_opencl_properties(int device, fa_device_properties *out);
int fai_opencl_failed(int device, cl_int code, const char *format, ...) FA_PRINTF(3, 4); /* keeps the text, returns the code */
int fai_opencl_refused(const char *format, ...) FA_PRINTF(1, 2);
void fai_opencl_words(cl_device_id id, cl_uint what, char *out, size_t n); /* a text of the driver's, cut; "" if it has none */
int fai_opencl_enter(int device);          /* context and default queue are there; 0 or an error */

/* ---- queue.c ---- */
int fai_opencl_queue_open(int device, fai_opencl_queue *queue);
void fai_opencl_queue_close(fai_opencl_queue *queue);
int fai_opencl_stream_create(int device, int priority, fa_stream_handle *out);
int fai_opencl_stream_destroy(int device, fa_stream_handle stream);
int fai_opencl_stream_wait(int device, fa_stream_handle stream);
int fai_opencl_event_create(int device, fa_event_handle *out);
int fai_opencl_event_destroy(int device, fa_event_handle event);
int fai_opencl_event_record(int device, fa_event_handle event, fa_stream_handle stream);
int fai_opencl_event_wait(int device, fa_event_handle event);
int fai_opencl_stream_wait_event(int device, fa_stream_handle stream, fa_event_handle event);
int fai_opencl_event_query(int device, fa_event_handle event, bool *done);
int fai_opencl_event_elapsed(int device, fa_event_handle start, fa_event_handle end, float *milliseconds);
static inline fai_opencl_queue *fai_opencl_queue_of(int device, fa_stream_handle stream) {
    return stream ? (fai_opencl_queue *)(void *)stream : &fai_opencl_devices[device].queue;
}

/* ---- kernels.c ---- */
int fai_opencl_build(int device, const char *name, const char *text, const char *options, fa_program_handle *out, char *log, size_t n);
int fai_opencl_unload(int device, fa_program_handle program);
int fai_opencl_find(int device, fa_program_handle program, const char *kernel, fa_kernel_handle *out);
int fai_opencl_launch(int device, fa_stream_handle stream, fa_kernel_handle kernel, uint64_t groups, int group_size, const void *plan,
                      size_t plan_bytes, const fa_address pointers[8]);

/* ---- opencl.c ---- */
enum { FAI_OPENCL_SHIFT = FA_OBJECT_SHIFT };
/* With the device's lock held: the object that an address lies in and the offset there; false if there is none. */
bool fai_opencl_find_memory(const fai_opencl_device *d, fa_address address, cl_mem *object, size_t *offset);

#endif
