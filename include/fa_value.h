/* Values: what a checkpoint holds beside tensors. Numbers, texts, lists, dicts and tensors, nested and shared, as plain C data.
 *
 * A document (fa_values) owns all values that were made in it, and goes with its scope. A value may stand in several places, and
 * a list or dict may hold itself: two places hold the same object if the pointers are equal (fa_value_index numbers the values of
 * a document from 0, for tables of what was seen already). Values of two documents don't mix.
 *
 * Functions that are given NULL return NULL, 0 or false, so that one check at the end is enough:
 *
 *     fa_values *c = fa_load_pt("checkpoint.pt");
 *     int64_t epoch = fa_value_int(fa_value_get(fa_values_root(c), "epoch"));
 *     fa_load_state_dict(net, fa_value_tensors(fa_value_get(fa_values_root(c), "model")), true);
 */
#ifndef FA_VALUE_H
#define FA_VALUE_H

#include "fa_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_values fa_values;   /* a document */
typedef struct fa_value fa_value;     /* lives as long as its document */
typedef struct fa_tensors fa_tensors; /* fa_io.h */

typedef enum fa_value_kind {
    FA_VALUE_NONE = 1,
    FA_VALUE_BOOL,
    FA_VALUE_INT,          /* fits into 64 bits */
    FA_VALUE_BIG_INT,      /* does not: fa_value_bytes gives it, two's complement, lowest byte first */
    FA_VALUE_FLOAT,
    FA_VALUE_COMPLEX,
    FA_VALUE_TEXT,         /* UTF-8; single surrogates are allowed, as in Python */
    FA_VALUE_BYTES,
    FA_VALUE_BYTE_ARRAY,
    FA_VALUE_TUPLE,
    FA_VALUE_SIZE,         /* torch.Size: a tuple of ints */
    FA_VALUE_LIST,
    FA_VALUE_SET,
    FA_VALUE_DICT,         /* in the order of adding; keys compare as in Python: 1, 1.0 and True are one key */
    FA_VALUE_ORDERED_DICT, /* collections.OrderedDict; may have a state, as {"_metadata": ...} */
    FA_VALUE_COUNTER,      /* collections.Counter */
    FA_VALUE_TENSOR,
    FA_VALUE_PARAMETER,    /* torch.nn.Parameter */
    FA_VALUE_DTYPE,
    FA_VALUE_DEVICE,
    FA_VALUE_GLOBAL,       /* a class or function by name, "module.name": never looked up, never called */
    FA_VALUE_OBJECT        /* what an allowed class or function would make: class, arguments, state, as they stand in the file */
} fa_value_kind;

/* ---- Documents ---- */

FA_API fa_values *fa_values_new(void);                    /* belongs to the scope */
FA_API fa_value *fa_values_root(const fa_values *values); /* what a file holds; NULL in a new document until it is set */
FA_API bool fa_values_set_root(fa_values *values, fa_value *root);
FA_API uint32_t fa_values_count(const fa_values *values); /* values in it: all indices are below */
FA_API fa_values *fa_values_of(const fa_value *v);        /* the document of a value */

/* ---- Asking. Another kind than the one asked for is an error that names both. ---- */

FA_API fa_value_kind fa_value_kind_of(const fa_value *v); /* 0 for NULL */
FA_API const char *fa_value_kind_name(fa_value_kind kind); /* "dict", as Python names the type */
FA_API uint32_t fa_value_index(const fa_value *v);
FA_API bool fa_value_bool(const fa_value *v);
FA_API int64_t fa_value_int(const fa_value *v);           /* of an int or bool */
FA_API double fa_value_float(const fa_value *v);          /* of a float, int or bool */
FA_API bool fa_value_complex(const fa_value *v, double parts[2]);
/* Of a text or a global. Ends with a 0, which length does not count; may hold zeros before it. length may be NULL. */
FA_API const char *fa_value_text(const fa_value *v, size_t *length);
FA_API const void *fa_value_bytes(const fa_value *v, size_t *length); /* of bytes, a byte array or a big int */
FA_API fa_tensor *fa_value_tensor(const fa_value *v);     /* of a tensor or parameter; borrowed */
FA_API fa_dtype fa_value_dtype(const fa_value *v);
FA_API fa_device fa_value_device(const fa_value *v);

/* Of tuples, sizes, lists and sets; of the dicts: pairs. */
FA_API int64_t fa_value_length(const fa_value *v);
FA_API fa_value *fa_value_item(const fa_value *v, int64_t i); /* of a dict: the i-th pair's value; -1 is the last */
FA_API fa_value *fa_value_key(const fa_value *v, int64_t i);
FA_API fa_value *fa_value_get(const fa_value *dict, const char *key);  /* no such key is an error that names some */
FA_API fa_value *fa_value_find(const fa_value *dict, const char *key); /* NULL, and no error, if it is not there */
FA_API fa_value *fa_value_look_up(const fa_value *dict, const fa_value *key); /* the same for keys of any kind, of any document */
/* What was set on an object beside its contents (in Python its __dict__): of ordered dicts, tensors, parameters and objects. */
FA_API fa_value *fa_value_state(const fa_value *v);       /* NULL, and no error, if there is none */
FA_API fa_value *fa_value_class(const fa_value *object);  /* a global */
FA_API fa_value *fa_value_arguments(const fa_value *object); /* a tuple */
FA_API bool fa_value_is_new(const fa_value *object);      /* made by class.__new__(class, *arguments), not by class(*arguments) */

/* ---- Making ---- */

FA_API fa_value *fa_values_none(fa_values *values);
FA_API fa_value *fa_values_bool(fa_values *values, bool b);
FA_API fa_value *fa_values_int(fa_values *values, int64_t i);
FA_API fa_value *fa_values_big_int(fa_values *values, const void *bytes, size_t n); /* becomes an int if it fits into one */
FA_API fa_value *fa_values_float(fa_values *values, double f);
FA_API fa_value *fa_values_complex(fa_values *values, double real, double imaginary);
FA_API fa_value *fa_values_text(fa_values *values, const char *text);
FA_API fa_value *fa_values_text_of(fa_values *values, const char *text, size_t n);
FA_API fa_value *fa_values_bytes(fa_values *values, fa_value_kind kind, const void *bytes, size_t n); /* bytes or byte array */
FA_API fa_value *fa_values_tensor(fa_values *values, fa_tensor *t);    /* holds t */
FA_API fa_value *fa_values_parameter(fa_values *values, fa_tensor *t); /* the same, as a torch.nn.Parameter */
FA_API fa_value *fa_values_dtype(fa_values *values, fa_dtype dtype);
FA_API fa_value *fa_values_device(fa_values *values, fa_device device);
FA_API fa_value *fa_values_global(fa_values *values, const char *module, const char *name);
FA_API fa_value *fa_values_object(fa_values *values, fa_value *global, fa_value *arguments, bool is_new);
FA_API fa_value *fa_values_container(fa_values *values, fa_value_kind kind); /* an empty tuple, size, list, set or dict */
FA_API fa_value *fa_values_of_tensors(fa_values *values, const fa_tensors *tensors); /* an ordered dict: a state dict */

FA_API bool fa_value_append(fa_value *container, fa_value *item); /* to tuples, sizes, lists and sets */
FA_API bool fa_value_put(fa_value *dict, fa_value *key, fa_value *value); /* a key that is there keeps its place */
FA_API bool fa_value_set(fa_value *dict, const char *key, fa_value *value);
FA_API bool fa_value_set_state(fa_value *v, fa_value *state);

/* A dict of texts and tensors as named tensors; anything else in it is an error that names it. */
FA_API fa_tensors *fa_value_tensors(const fa_value *dict);

#ifdef __cplusplus
}
#endif
#endif
