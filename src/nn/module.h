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
    fai_entry_kind kind;
    bool persistent;
    void *object;        /* fa_tensor or fa_module; NULL keeps its place */
} fai_entry;

struct fa_module {
    fai_object object;
    const fa_module_type *type;
    fai_entry *entries;
    int nentries, room;
    bool training;
    void *data;          /* of a row's layer: its arguments, data_bytes long */
    size_t data_bytes;
    void *host;          /* Python's: hooks and the like */
};

static inline fa_tensor *fai_slot(const fa_module *m, int i) { return m->entries[i].object; }

/* ---- module.c ---- */
fa_module *fai_module_make(const fa_module_type *type, size_t data_bytes); /* data zeroed; in the scope */
/* The same into memory that is there: zeroed, its first two words set. What fai_module_clear ends. */
bool fai_module_init(fa_module *m, const fa_module_type *type, size_t data_bytes);
void fai_module_clear(fa_module *m);
fai_entry *fai_find_entry(const fa_module *m, const char *name, size_t length);
bool fai_module_check(const char *op, const fa_module *m);

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
bool fai_layer_word(const char *layer, const char *argument, const char **word, const char *const *words); /* becomes one of words */
int64_t fai_layer_least(fa_shape shape);              /* the smallest number */
bool fai_layer_is(fa_shape shape, int64_t value);     /* all numbers are value */
bool fai_layer_refuse(const char *layer, const char *format, ...) FA_PRINTF(2, 3); /* a ValueError; returns false */
fa_module *fai_layer_done(fa_module *m, bool ok);     /* m, or NULL and m given back */
fa_tensor *fai_batch_norm_layer(fa_module *m, fa_tensor *x);
fa_tensor *fai_instance_norm_layer(fa_module *m, fa_tensor *x);
fa_tensor *fai_dropout_channels_layer(fa_module *m, fa_tensor *x);
fa_tensor *fai_softmax2d_layer(fa_module *m, fa_tensor *x);
/* convolutions.c */
bool fai_convolution_check(const fa_module *m);
fa_tensor *fai_convolution_layer(fa_module *m, fa_tensor *x);
/* Text of an argument as torch prints it. */
void fai_text_float(char *out, size_t n, double v);
void fai_text_tuple(char *out, size_t n, fa_shape shape);   /* (2, 3) or (2,) */
void fai_text_window(char *out, size_t n, fa_shape shape);  /* 2 or (2, 3); -1 and nothing are None */
void fai_text_optional(char *out, size_t n, double v);      /* None below 0 */
void fai_text_factors(char *out, size_t n, fa_factors factors); /* 2.0 or (2.0, 3.0) */
void fai_layer_describe(char *text, size_t n, const char *format, ...) FA_PRINTF(3, 4); /* adds to text */

#endif
