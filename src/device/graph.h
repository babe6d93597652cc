/* Inside the room: what a graph consists of. capture.c fills it, graph.c makes it, replays it and tells of it. */
#ifndef FAI_DEVICE_GRAPH_H
#define FAI_DEVICE_GRAPH_H

#include "inside.h"
#include <fa_graph.h>

typedef enum fai_step_kind { FAI_STEP_LAUNCH, FAI_STEP_COPY, FAI_STEP_FILL } fai_step_kind;
/* One piece of work, in the order in which it came: one order for all streams that take part, which every wait between them
 * agrees with. */
typedef struct fai_step {
    struct fai_step *next;
    fai_step_kind kind;
    fa_copy_kind copy;
    const char *op;
    fai_work work;                       /* of launches */
    fa_library_call call;                /* that work.library is, if it is one */
    int byte;
    fa_address address[8];               /* of launches; of copies and fills: to, from */
    void *host;                          /* pinned memory of a copy */
    size_t bytes, plan_bytes;
    fa_plan plan[];                      /* of launches: one */
} fai_step;

/* A buffer that is not the pool's: the graph keeps it. */
typedef enum fai_access { FAI_READS, FAI_WRITES, FAI_WRITES_ALL } fai_access;
typedef struct fai_kept { fai_buffer *buffer; bool reads, writes, whole; } fai_kept; /* reads: what was there before; whole: it is written anew */

typedef struct fai_drawn {               /* a generator that the graph draws from */
    struct fai_drawn *next;
    fa_generator *generator;
    fai_buffer *words;
    uint64_t used, seed, began;          /* began: the generator's offset when the replay under way was prepared */
} fai_drawn;

typedef struct fai_fed { struct fai_fed *next; fai_feed feed; bool ready; } fai_fed;

typedef enum fai_graph_state { FAI_GRAPH_EMPTY, FAI_GRAPH_CAPTURING, FAI_GRAPH_READY } fai_graph_state;
struct fa_graph {
    fai_object object;
    fai_graph_state state;
    fai_dev *dev;
    fai_mempool *pool;
    fai_heap *heap;                      /* of the captured stream, in the pool */
    fai_stream *origin, *last;           /* captured; replayed in last */
    uint64_t serial;                     /* of the capture, among all */
    fa_stream_before before;             /* what the thread had as its streams */
    const fai_thread *thread;            /* that began */

    pthread_mutex_t lock;                /* around steps, while several threads may add to them */
    fai_step *first, **end;
    uint64_t launches, copies, fills, replays;
    fai_kept *kept;                      /* a hash table by address */
    size_t nkept, kept_room;
    fai_fed *feeds;
    fai_drawn *drawn;
    fai_buffer *status;                  /* what index kernels of it report to */
    bool invalid;                        /* something could not be noted down */
    char why[96];                        /* what: an operator's name */
    fa_graph_handle exec;                /* NULL: the list is replayed */
};

/* ---- capture.c ---- */
bool fai_graph_is_its(const fa_graph *g, const fai_buffer *b); /* memory of its pool */

#endif
