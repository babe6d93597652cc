/* Floor 5, layers: the registry of a module, which is one array in the order of registration. */
#ifndef FAI_MODULE_H
#define FAI_MODULE_H

#include "../autograd/autograd.h"
#include "layers_gen.h"
#include "ops_gen.h"
#include <fa_nn.h>

typedef enum fai_entry_kind { FAI_ENTRY_PARAMETER, FAI_ENTRY_BUFFER, FAI_ENTRY_MODULE } fai_entry_kind;

typedef struct fai_entry {
    char *name;
    uint32_t hash;       /* of the name: a wide module is searched by it */
    fai_entry_kind kind;
    bool persistent;
    bool gone;           /* a layer's own that was taken away: it keeps its place, and nobody finds it */
    void *object;        /* fa_tensor or fa_module; NULL keeps its place */
} fai_entry;

/* An argument of a row's layer, for those who set it by name. */
typedef enum fai_argument_kind {
    FAI_ARGUMENT_INT, FAI_ARGUMENT_FLOAT, FAI_ARGUMENT_OPTIONAL_FLOAT, FAI_ARGUMENT_BOOL, FAI_ARGUMENT_WORD, FAI_ARGUMENT_SHAPE,
    FAI_ARGUMENT_FACTORS, FAI_ARGUMENT_TENSOR
} fai_argument_kind;
typedef struct fai_layer_argument {
    const char *name;
    uint8_t kind, sides;
    bool expand, required;
    uint16_t place;      /* in the arguments; of a tensor: which of the tensors that build takes */
    double number;       /* its default */
    const char *text;
    const char *const *words; /* of a word: what it may be */
} fai_layer_argument;
typedef struct fai_layer {
    const fa_module_type *type;
    size_t bytes;        /* of its arguments */
    int narguments, ninputs;
    bool writes;         /* it can write over its input: fa_module.inplace */
    const fai_layer_argument *arguments;
    /* Checks the arguments, which lie in m->data, completes them, adds parameters and buffers. False after an error. */
    bool (*build)(fa_module *m, fa_tensor *const *tensors);
    const char *op;      /* what its forward calls */
} fai_layer;
extern const fai_layer fai_layers[FAI_LAYER_COUNT];

struct fa_module {
    fai_object object;
    const fa_module_type *type;
    fai_entry *entries;
    int nentries, room;
    int nslots;          /* the first entries, which the layer's forward reads by number */
    bool training;
    bool inplace;        /* of layers that can: writes over its input */
    bool hooked, detour, own_forward; /* Python's: somebody listens; forward goes another way; so says the object itself */
    const fai_layer *layer; /* of a row's layer */
    void *data;          /* of a row's layer: its arguments, data_bytes long */
    size_t data_bytes;
    bool listed;         /* witness.c */
    void *maker;         /* the thread that made it */
    uint64_t serial;     /* no other module has it, whatever its address */
    fa_module *older, *newer;
    uint64_t evaluated_at; /* fai_backwards when it was put into evaluation mode */
    void *host;          /* Python's: hooks and the like */
    void *vectorcall;    /* Python's: how it is called */
    fa_module *parent;   /* the first that registered it; that one forgets it before it lets go */
};

static inline fa_tensor *fai_slot(const fa_module *m, int i) { return m->entries[i].object; }
/* Nobody changed what the module does when it is called: its type's forward is all. */
/* A module with parameters is called with x: that tells a training step's rows to the report of missing memory. */
void fai_module_rows(fa_module *m, const fa_tensor *x);
static inline void fai_note_call(fa_module *m, const fa_tensor *x)
{
    if (x && !fai_on_cpu(x) && x->ndim >= 2 && fai_recording() && fai_memory_wants_rows(x->device)) fai_module_rows(m, x);
}
static inline bool fai_is_plain(const fa_module *m) { return !m->object.type || fai_other_face.plain(m); }

/* ---- witness.c: modules that live, for reports of missing memory ---- */
void fai_module_list(fa_module *m);
void fai_module_unlist(fa_module *m);
void fai_module_mode(fa_module *m, bool training); /* of this one alone */

/* ---- module.c ---- */
fa_module *fai_module_make(const fa_module_type *type, size_t data_bytes); /* data zeroed; in the scope */
/* The same into memory that is there: zeroed, its first two words set. What fai_module_clear ends. */
bool fai_module_init(fa_module *m, const fa_module_type *type, size_t data_bytes);
void fai_module_clear(fa_module *m);
void fai_module_disown(const fa_module *m, const fai_entry *entry); /* before m lets go of the entry's object */
/* Of a registered tensor: the dotted path of its module below the root ("layers.0", "" for the root itself), the entry and the root. */
const fai_entry *fai_path_of(const fa_tensor *t, char *path, size_t n, fa_module **root, fa_module **owner);
fai_entry *fai_find_entry(const fa_module *m, const char *name, size_t length);
bool fai_module_check(const char *op, const fa_module *m);
/* Puts object under name without asking what it is: a new entry at the end, or the old one's place. */
bool fai_module_set(fa_module *m, const char *op, const char *name, fai_entry_kind kind, bool persistent, void *object);
void fai_module_unset(fa_module *m, fai_entry *entry); /* takes the entry away */

/* Calls visit for every tensor entry below m, own first, with its dotted path; stops at false. */
typedef bool fai_visit(void *context, const char *path, fa_module *owner, fai_entry *entry);
bool fai_walk(fa_module *m, fai_visit *visit, void *context);
/* A tensor once, however many modules share it: fills the list, returns the count. */
int fai_list_tensors(fa_module *m, fai_entry_kind kind, fa_tensor **out, fa_path *names, int room);

/* ---- layers.c: what the generated layers lean on ---- */
bool fai_layer_parameter(fa_module *m, const char *name, bool wanted, int ndim, const int64_t *size, const char *init, double number);
bool fai_layer_buffer(fa_module *m, const char *name, bool wanted, int ndim, const int64_t *size, double value);
bool fai_layer_counter(fa_module *m, const char *name, bool wanted);
bool fai_layer_inputs(const fa_module *m, fa_tensor *const *inputs, int ninputs, int wanted);
static inline fa_tensor *fai_layer_input(const fa_module *m, fa_tensor *const *inputs, int ninputs)
{
    return fai_layer_inputs(m, inputs, ninputs, 1) ? inputs[0] : NULL;
}
/* One number or as many as there are sides; expand: one becomes that many. */
bool fai_layer_sides(const char *layer, const char *argument, fa_shape *given, int sides, bool expand);
int64_t fai_layer_least(fa_shape shape);              /* the smallest number */
bool fai_layer_is(fa_shape shape, int64_t value);     /* all numbers are value */
bool fai_layer_refuse(const char *layer, const char *format, ...) FA_PRINTF(2, 3); /* a ValueError; returns false */
fa_module *fai_layer_make(int layer);                 /* by number: with room for its arguments; in the scope */
fa_module *fai_layer_done(fa_module *m, bool ok);     /* m, or NULL and m given back */
bool fai_layer_is_blank(void);
void fai_layer_blank(bool on);                        /* this thread's layers are built without values: theirs come from elsewhere */
void fai_layer_dtype(fa_dtype dtype);                 /* of the parameters that this thread's layers are built with; 0: the default */
bool fai_layer_word(const char *layer, const char *argument, const char **word, const char *const *words); /* becomes one of words */
fa_tensor *fai_batch_norm_layer(fa_module *m, fa_tensor *x);
fa_tensor *fai_instance_norm_layer(fa_module *m, fa_tensor *x);
fa_tensor *fai_dropout_channels_layer(fa_module *m, fa_tensor *x);
fa_tensor *fai_softmax2d_layer(fa_module *m, fa_tensor *x);
/* convolutions.c */
bool fai_convolution_check(const fa_module *m);
fa_tensor *fai_convolution_layer(fa_module *m, fa_tensor *x);
/* attention.c: the layer in a module that is there and has no type yet */
struct fa_nn_multihead_attention_options;
bool fai_multihead_attention_build(fa_module *m, int64_t embed_dim, int64_t num_heads, const struct fa_nn_multihead_attention_options *options);
bool fai_is_multihead_attention(const fa_module *m);
/* Text of an argument as torch prints it. */
void fai_text_float(char *out, size_t n, double v);
void fai_text_tuple(char *out, size_t n, fa_shape shape);   /* (2, 3) or (2,) */
void fai_text_window(char *out, size_t n, fa_shape shape);  /* 2 or (2, 3); -1 and nothing are None */
void fai_text_optional(char *out, size_t n, double v);      /* None below 0 */
void fai_text_factors(char *out, size_t n, fa_factors factors); /* 2.0 or (2.0, 3.0) */
void fai_layer_describe(char *text, size_t n, const char *format, ...) FA_PRINTF(3, 4); /* adds to text */

#endif
