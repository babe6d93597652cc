/* Streams and events: the order in which a device does its work.
 *
 * A stream is a queue of one device. Work in one stream is done in the order in which it was given; work in different streams in
 * any order, or at once, unless an event or a wait says otherwise. Everything goes to the thread's current stream of its device,
 * which is the default one until it is changed. A result belongs to the stream that made it: before another stream reads or
 * writes it, that stream has to wait (fa_stream_wait_stream), and before it is dropped, fa_record_stream has to tell of the use.
 * The CPU has streams by name only: its work is done when a call returns. */
#ifndef FA_STREAM_H
#define FA_STREAM_H

#include "fa_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A stream's name as a value; it needs no freeing. All zero after an error. */
typedef struct fa_stream {
    fa_device device;
    int id; /* 0: the device's default stream */
} fa_stream;
static inline bool fa_stream_equal(fa_stream a, fa_stream b) { return fa_device_equal(a.device, b.device) && a.id == b.id; }

/* priority: 0, or below 0 for work that shall go first. A device has 32 streams of each kind; who asks for more gets one of
 * them again, as in torch. */
FA_API fa_stream fa_stream_new(fa_device device, int priority);
/* A stream that another library made on the device, by the driver's handle (a CUstream). It must outlive its use here. */
FA_API fa_stream fa_stream_external(fa_device device, void *handle);
FA_API fa_stream fa_default_stream(fa_device device);
FA_API fa_stream fa_current_stream(fa_device device);   /* this thread's */
FA_API bool fa_set_current_stream(fa_stream stream);    /* the current device becomes the stream's */
FA_API int fa_stream_priority(fa_stream stream);
FA_API void *fa_stream_native(fa_stream stream);        /* the driver's handle; NULL for the default stream */

FA_API bool fa_stream_query(fa_stream stream);          /* whether all its work is done; false with an error if it failed */
FA_API bool fa_stream_synchronize(fa_stream stream);    /* waits; false with the first late error of its work */
FA_API bool fa_stream_wait_stream(fa_stream stream, fa_stream other); /* what comes next waits for all that other has now */

/* Which stream, and which device, were current before; for fa_stream_leave. */
typedef struct fa_stream_before { fa_stream stream; int device_index; } fa_stream_before;
FA_API fa_stream_before fa_stream_enter(fa_stream stream);
FA_API void fa_stream_leave(const fa_stream_before *before);
#if defined(__GNUC__)
static inline void fa_stream_leave_cleanup(const fa_stream_before *before) { fa_stream_leave(before); }
/* FA_STREAM_SCOPE(side); for the rest of the block work goes to that stream, and its device is the current one. */
#define FA_STREAM_SCOPE(stream) \
    __attribute__((cleanup(fa_stream_leave_cleanup), unused)) const fa_stream_before FA_JOIN(fa_stream_scope_, __LINE__) = fa_stream_enter(stream)
#endif

/* ---- Hidden waits: an operator that needs numbers on the host makes it wait until the device has them ---- */

enum { FA_SYNC_ALLOWED, FA_SYNC_WARN, FA_SYNC_ERROR };
/* What shall come of them, on all threads: nothing, a warning, or an error; both name the operator and, in Python, the line.
 * Waits that are asked for (fa_synchronize and the like) are allowed. Any other number is an error. */
FA_API bool fa_set_sync_debug_mode(int mode);
FA_API int fa_sync_debug_mode(void);

/* ---- Events: marks in a stream ---- */

typedef struct fa_event fa_event;
/* Belongs to the scope. timing: its time is noted, for fa_event_elapsed. It gets its device when it is first recorded. */
FA_API fa_event *fa_event_new(bool timing);
FA_API bool fa_event_record(fa_event *event, fa_stream stream); /* behind all work of the stream so far; again: it moves */
FA_API fa_event *fa_stream_record_event(fa_stream stream);      /* a new one, without timing */
FA_API bool fa_event_wait(fa_event *event, fa_stream stream);   /* the stream's next work waits for it; never recorded: nothing to wait for */
FA_API bool fa_event_query(fa_event *event);                    /* whether it was reached; true before the first record */
FA_API bool fa_event_synchronize(fa_event *event);              /* waits for it; false with a late error of the work before it */
/* Milliseconds between two events that were both reached; negative if end came first. NAN with an error. */
FA_API double fa_event_elapsed(fa_event *start, fa_event *end);
FA_API fa_device fa_event_device(const fa_event *event);        /* all zero before the first record */

#ifdef __cplusplus
}
#endif
#endif
