/* Data: a dataset gives samples by number, a loader batches of them. */
#ifndef FA_DATA_H
#define FA_DATA_H

#include "fa_functional.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_dataset fa_dataset;
typedef struct fa_loader fa_loader;

#define FA_MAX_FIELDS 8

/* Sample i is row i of each tensor; all have the same first size. Holds the tensors, on any device. */
FA_API fa_dataset *fa_dataset_of(fa_tensor *const *tensors, int n);
#ifndef __cplusplus
#define fa_tensor_dataset(...) fa_dataset_of((fa_tensor *const[]){__VA_ARGS__}, (int)(sizeof((fa_tensor *const[]){__VA_ARGS__}) / sizeof(fa_tensor *)))
#endif
/* get fills fields[0 .. nfields) with the i-th sample (new tensors of the current scope); false after fa_error_set. */
/* release(data) is called when the dataset dies, also if it could not be made; it may be NULL. */
typedef bool (*fa_get_sample)(void *data, int64_t i, fa_tensor **fields);
FA_API fa_dataset *fa_dataset_from(int64_t length, int nfields, fa_get_sample get, void *data, void (*release)(void *data));
FA_API int64_t fa_dataset_length(const fa_dataset *dataset);
FA_API bool fa_dataset_get(fa_dataset *dataset, int64_t i, fa_tensor **fields);
/* The samples that an int64 tensor names, as a dataset of their own. */
FA_API fa_dataset *fa_dataset_subset(fa_dataset *dataset, fa_tensor *indices);

typedef struct fa_loader_options {
    size_t struct_size;
    int64_t batch_size;      /* 1 */
    bool shuffle;            /* a new order each epoch, by torch's draws */
    bool drop_last;          /* leave out a last batch that is not full */
    fa_generator *generator; /* default: the CPU's */
} fa_loader_options;
#define FA_LOADER_DEFAULTS .batch_size = 1
FA_API fa_loader *fa_loader_with(fa_dataset *dataset, const fa_loader_options *options);
#ifndef __cplusplus
#define fa_loader(dataset, ...) fa_loader_with((dataset), &FA_OPTIONS(fa_loader_options, FA_LOADER_DEFAULTS, __VA_ARGS__))
#endif
FA_API int64_t fa_loader_length(const fa_loader *loader); /* batches an epoch */
FA_API int64_t fa_loader_position(const fa_loader *loader); /* batches given out in this epoch */
/* The next batch's fields (results of the current scope). false at the end of the epoch, after which the next call begins a new
 * one, and after an error (fa_failed tells). FA_BATCHES below is the loop around it. */
FA_API bool fa_next(fa_loader *loader, fa_tensor **fields);

/* FA_BATCHES(loader, batch) { ... }: the block runs for every batch of an epoch, each time in a scope of its own; break, continue
 * and return close it. */
#if defined(__GNUC__) && !defined(__cplusplus)
typedef struct fa_batches {
    fa_loader *loader;
    bool open;
} fa_batches;
static inline void fa_batches_close(fa_batches *b)
{
    if (b->open) fa_scope_close();
    b->open = false;
}
static inline bool fa_batches_next(fa_batches *b, fa_tensor **fields)
{
    fa_batches_close(b);
    fa_scope_open();
    b->open = true;
    if (fa_next(b->loader, fields)) return true;
    fa_batches_close(b);
    return false;
}
#define FA_BATCHES(loader, fields) \
    for (__attribute__((cleanup(fa_batches_close))) fa_batches fa_batches_ = {(loader), false}; fa_batches_next(&fa_batches_, (fields));)
#endif

/* ---- Tables of numbers: text, one row a line, or such a text packed by gzip ---- */

typedef struct fa_csv_options {
    size_t struct_size;
    fa_dtype dtype;     /* default: the default dtype. Integers must be whole numbers that fit it */
    fa_device device;   /* default: the default device */
    char delimiter;     /* ',' */
    int64_t skip_rows;  /* lines at the start that are no numbers, such as names of columns; 0 */
} fa_csv_options;
#define FA_CSV_DEFAULTS .delimiter = ','
/* A tensor [rows, columns]; every row has as many columns as the first. Empty lines are passed over. */
FA_API fa_tensor *fa_load_csv_with(const char *path, const fa_csv_options *options);
#ifndef __cplusplus
#define fa_load_csv(path, ...) fa_load_csv_with((path), &FA_OPTIONS(fa_csv_options, FA_CSV_DEFAULTS, __VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif
#endif
