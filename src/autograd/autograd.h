/* Floor 4: the graph. A node is one recorded op; edges point from it to the nodes that made its inputs.
 *
 * Order: node.rank is one more than the highest rank among its inputs, so that backward, which takes the highest rank first, meets
 * a node only after all its consumers. Leaves' accumulators have rank 0: gradients are committed at the end, all or none. */
#ifndef FAI_AUTOGRAD_H
#define FAI_AUTOGRAD_H

#include "../ops/ops.h"
#include <fa_autograd.h>


/* What is known of an input without keeping it: backward needs its shape and dtype. */
typedef struct fai_meta { uint8_t ndim, dtype; fa_device device; int64_t size[FA_MAX_DIMS]; } fai_meta;

/* What the library has computed on the CPU, where it is needed; also while a graph is captured there. */
static inline fa_tensor *fai_constant(fa_tensor *t, fa_device device)
{
    FAI_CONSTANTS;
    return fa_to(t, device);
}

/* A 0-d tensor of the CPU may meet tensors of a device: t where other is. */
static inline fa_tensor *fai_beside(fa_tensor *t, const fa_tensor *other)
{
    return t && other && t->ndim == 0 && fai_on_cpu(t) && !fai_on_cpu(other) ? fai_constant(t, other->device) : t;
}

typedef struct fai_edge { fai_node *node; bool needed; } fai_edge; /* node NULL: no gradient wanted */
typedef struct fai_kept { fa_tensor *tensor; uint32_t version; bool is_result; } fai_kept;

/* One kind of node; generated for the rows, written by hand for accumulators, custom functions and in-place on views. */
typedef struct fai_node_op {
    const char *name;      /* "Mul": MulBackward0 */
    /* Fills grads[i] (owned by the current scope) for every input whose edge wants one; NULL stays zero. False with an error. */
    bool (*backward)(fai_node *node, fa_tensor *g, fa_tensor **grads);
    void (*release)(fai_node *node); /* what params hold; may be NULL */
    const void *row;       /* elementwise rows: their derivative's table */
    bool bare;             /* shown by its name alone, without Backward0 */
} fai_node_op;

struct fai_node {
    int32_t refs;
    uint16_t ninputs, nkept;
    const fai_node_op *op;
    uint64_t rank;
    fai_node *next;        /* in the list of nodes to be freed */
    fai_edge *edges;       /* the three arrays lie behind the node in the same block */
    fai_kept *kept;
    fai_meta *metas;       /* of the inputs */
    void *params;          /* the row's numbers; a struct of the op's own */
    fai_meta result;
    struct fai_hook *hooks;/* of the result; also the wish to retain its gradient */
    fa_tensor *retains;    /* whose .grad this result's gradient goes to; borrowed */
    uint32_t block_bytes, params_bytes;
    void *task;            /* the backward that has an entry for this node, and which */
    uint32_t task_at;
    bool freed;            /* saved tensors are gone: a second backward is an error */
    bool saved_any;
    bool custom;           /* prints without the 0 */
    bool listed;           /* kept.c: its result lies on a device; made by this thread, at this line of the program */
    uint32_t site;
    void *maker;
    fai_node *older, *newer;
    uint8_t stream;        /* of the forward, on the result's device: where the backward runs too */
};

/* True if recording is on and one of the tensors needs a gradient. */
static inline bool fai_is_stale(const fa_tensor *t) { return t->base && t->view_version != (t->cell ? t->cell->version : t->buffer->version); }
static inline bool fai_wants_grad(const fa_tensor *t)
{
    return t && (t->node || FAI_HAS(t, FAI_REQUIRES_GRAD) || (fai_is_stale(t) && (t->base->node || FAI_HAS(t->base, FAI_REQUIRES_GRAD))));
}
static inline bool fai_recording(void) { return !fai_tls.grad_off && !fai_tls.inference; }

/* A node with room for inputs, kept tensors and params bytes (zeroed). NULL and an error if there is no memory. */
fai_node *fai_node_new(const fai_node_op *op, int ninputs, int nkept, size_t params_bytes);
bool fai_node_input(fai_node *node, int i, fa_tensor *t, bool differentiable); /* edge and meta; t may be NULL or need no gradient */
bool fai_node_keep(fai_node *node, int i, fa_tensor *t, bool is_result); /* saves t with its version; t may be NULL */
void fai_node_keep_hidden(fai_node *node, int i, fa_tensor *t);         /* a second result that nobody can write with a record: never fails */
bool fai_node_keep_alias(fai_node *node, int i);                      /* of a kept tensor that the node is about to be the maker of */
fa_tensor *fai_node_kept(fai_node *node, int i);                      /* version-checked; valid in the node's backward */
void fai_node_finish(fai_node *node, fa_tensor *result);              /* result.node = node; takes the node's reference */
static inline bool fai_node_needs(const fai_node *node, int i) { return node->edges[i].node && node->edges[i].needed; }
void fai_node_ref(fai_node *node);
void fai_node_unref(fai_node *node);
fai_node *fai_grad_node(fa_tensor *t);   /* the node that t's gradient goes to: its maker (remade for stale views) or accumulator; borrowed */
void fai_node_free_kept(fai_node *node); /* after its backward, unless the graph is retained */

/* kept.c: what graphs on devices keep alive, for reports */
void fai_graph_list(fai_node *node, const fa_tensor *result);
void fai_graph_unlist(fai_node *node);
/* Bytes of the device that would be free if nobody held results any more whose graphs lead to a leaf that is wanted. */
uint64_t fai_graph_bytes(fa_device device, bool (*wanted)(void *context, const fa_tensor *leaf), void *context);
extern __thread uint64_t fai_backwards; /* how many backwards this thread has begun */

/* hooks.c */
typedef struct fai_hook { struct fai_hook *next; int id; fa_grad_hook call; void *data; void (*release)(void *); } fai_hook;
struct fai_extra { fai_hook *hooks; };
fa_tensor *fai_call_hooks(const fai_hook *hooks, fa_tensor *grad); /* NULL and an error if one fails */
void fai_free_hooks(fai_hook *hooks);

extern const fai_node_op fai_accumulate_op;
static inline fa_tensor *fai_accumulated(const fai_node *node) { return node->kept[0].tensor; } /* the leaf of an accumulator */
/* Marks result as a view of x that derivatives know: base, version. Called by the generated code of `view` rows. */
void fai_mark_view(fa_tensor *result, fa_tensor *x);
bool fai_remake_view(fa_tensor *view); /* after its base was written: a node that reads the view out of the base */

/* ---- rows.c: elementwise rows, recorded ---- */
struct fai_row_api {
    fai_node_op node;
    const char *name, *in_place; /* "add", "add_" */
    int row;
    fai_types types;
    bool bool_result, checks_zero;
    int noperands, nparams;
    double defaults[3];
    fai_row_grad d[3];        /* towards x, y, z; loop 0 and graph NULL: none */
};
extern const fai_row_api fai_row_apis[FAI_ROW_COUNT];
/* With broadcast and promotion. params: the row's numbers, NULL for its defaults. The second form writes into operands[0]. */
fa_tensor *fai_row(int row, int noperands, const fai_operand *operands, const double *params);
/* The mean or the sum of a row over two operands of which no derivative reads the result, as one node. */
fa_tensor *fai_row_reduced(int row, int noperands, const fai_operand *operands, const double *params, bool mean);
fa_tensor *fai_row_in_place(int row, int noperands, const fai_operand *operands, const double *params);
bool fai_row_backward(fai_node *node, fa_tensor *g, fa_tensor **grads);
static inline fai_operand fai_of(fa_tensor *t) { fai_operand o = {.tensor = t}; return o; }
static inline fai_operand fai_number(double v) { fai_operand o = {.scalar = fa_scalar_of_float(v)}; return o; }
fai_operand fai_no_bound(const fa_tensor *x, fai_operand other, bool upper); /* of clamp: one that holds nothing back, of the type of both */
static inline fa_tensor *fai_row1(int row, fai_operand a) { return fai_row(row, 1, &a, NULL); }
static inline fa_tensor *fai_row2(int row, fai_operand a, fai_operand b) { fai_operand o[] = {a, b}; return fai_row(row, 2, o, NULL); }
static inline fa_tensor *fai_row3(int row, fai_operand a, fai_operand b, fai_operand c) { fai_operand o[] = {a, b, c}; return fai_row(row, 3, o, NULL); }

/* ---- in place ---- */
enum { FAI_VIEW_OF_GRAD = 256 }; /* beside tensor.h's flags: a view that no_grad made of a tensor that needs a gradient */
/* Before: may t be changed? Leaf that needs a gradient, inference tensor, one of several views: torch's sentences. */
bool fai_in_place_allowed(const char *op, fa_tensor *t);
bool fai_in_place_check(const char *op, fa_tensor *t); /* may it be written? As above, and its memory does not overlap */
/* Everything that may fail, before t is written: the nodes that the write will put in place. Takes node if it returns true. */
typedef struct fai_write { fai_node *node, *through, *reread; } fai_write; /* all NULL: nothing is recorded */
bool fai_in_place_begin(fa_tensor *t, fai_node *node, fai_write *write);
void fai_in_place_cancel(fai_write *write);
/* After: raises the version and makes the node the maker of t, or of its base, by writing through the view. */
void fai_in_place_done(fa_tensor *t, fai_write *write);

/* ---- writes.c: fa_uniform_ and its kind by a generator; NULL: the device's default one ---- */
fa_tensor *fai_uniform_(fa_tensor *t, double low, double high, fa_generator *g);
fa_tensor *fai_normal_(fa_tensor *t, double mean, double std, fa_generator *g);
fa_tensor *fai_bernoulli_(fa_tensor *t, double p, fa_generator *g);

#endif
