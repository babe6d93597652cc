/* Files: .npy and .npz (NumPy), .safetensors, .pt (PyTorch). A save that fails or is cut off leaves the old file as it was; a
 * load believes nothing that a file says about itself before it has checked it. */
#ifndef FA_IO_H
#define FA_IO_H

#include "fa_value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Named tensors, in the order in which they were added. Belongs to the scope, holds its tensors. ---- */

FA_API fa_tensors *fa_tensors_new(void);
FA_API bool fa_tensors_add(fa_tensors *tensors, const char *name, fa_tensor *t); /* a name that is there already is an error */
FA_API fa_tensor *fa_tensors_get(const fa_tensors *tensors, const char *name);   /* borrowed; none of that name is an error */
FA_API fa_tensor *fa_tensors_find(const fa_tensors *tensors,
                                  const char *name); /* borrowed; NULL, and no error, if there is none */
FA_API int64_t fa_tensors_count(const fa_tensors *tensors);
FA_API const char *fa_tensors_name_at(const fa_tensors *tensors, int64_t i);     /* lives as long as tensors */
FA_API fa_tensor *fa_tensors_at(const fa_tensors *tensors, int64_t i);           /* borrowed */
/* Texts that .safetensors files carry along, {"format": "pt"}. */
FA_API bool fa_tensors_set_note(fa_tensors *tensors, const char *key, const char *text); /* replaces an older text */
FA_API const char *fa_tensors_note(const fa_tensors *tensors, const char *key);
FA_API int64_t fa_tensors_note_count(const fa_tensors *tensors);
FA_API const char *fa_tensors_note_key_at(const fa_tensors *tensors, int64_t i);

/* ---- Saving. Refused while an error is pending; tensors may lie on any device, in any layout. ---- */

typedef struct fa_npz_options {
    size_t struct_size;
    bool compressed; /* deflate, as numpy.savez_compressed does */
} fa_npz_options;
FA_API bool fa_save_npy(const char *path, fa_tensor *t);
FA_API bool fa_save_npz_with(const char *path, const fa_tensors *tensors, const fa_npz_options *options);
FA_API bool fa_save_safetensors(const char *path, const fa_tensors *tensors);

/* ---- Loading ---- */

typedef struct fa_load_options {
    size_t struct_size;
    fa_device device; /* default: the default device */
} fa_load_options;
FA_API fa_tensor *fa_load_npy_with(const char *path, const fa_load_options *options);
FA_API fa_tensors *fa_load_npz_with(const char *path, const fa_load_options *options);
FA_API fa_tensors *fa_load_safetensors_with(const char *path, const fa_load_options *options);

/* Named tensors in the format that the ending tells: .pt and .pth (a state dict), .safetensors or .npz. */
FA_API bool fa_save(const char *path, const fa_tensors *tensors);
FA_API fa_tensors *fa_load_with(const char *path, const fa_load_options *options);

/* ---- PyTorch's checkpoints ----
 * torch.load reads what fa_save_pt writes, with weights_only=True and mmap=True too; fa_load_pt reads what torch.save writes
 * since PyTorch 1.6. The pickle in it is data: opcodes of a closed list build values, and nothing that it names is imported or
 * called. */

typedef struct fa_pt_options {
    size_t struct_size;
    fa_device device;         /* where all tensors go; default: each where it was saved, which must be there */
    /* Instead: called with each saved location, "cpu" or "cuda:0"; sets *device, or leaves it to the default rule. False: an
     * error is set. */
    bool (*map_location)(void *context, const char *location, fa_device *device);
    void *context;
    /* Bytes that values and tensors may take together. Default: 256 MiB and 16 times the size of the file; only files that are
     * made to take memory need more. */
    uint64_t limit;
    const char *const *safe_globals; /* "module.name" of classes and functions that may be named: they become FA_VALUE_OBJECT */
    int nsafe_globals;
} fa_pt_options;
FA_API fa_values *fa_load_pt_with(const char *path, const fa_pt_options *options);
FA_API bool fa_save_pt(const char *path, const fa_value *root);
/* All globals that a checkpoint names and fa_load_pt would refuse, as a list of texts "module.name". */
FA_API fa_values *fa_pt_unsafe_globals(const char *path, const fa_pt_options *options);

/* Instead of files: anything that gives bytes at a place, and anything that takes them in order. False: an error is set. */
typedef struct fa_reader {
    void *context;
    uint64_t size;
    bool (*read)(void *context, uint64_t offset, void *out, size_t n);
} fa_reader;
typedef struct fa_writer {
    void *context;
    bool (*write)(void *context, const void *data, size_t n);
} fa_writer;
FA_API fa_reader fa_reader_of_memory(const void *data, size_t n);
FA_API fa_values *fa_load_pt_from(const fa_reader *reader, const fa_pt_options *options);
FA_API bool fa_save_pt_to(const fa_writer *writer, const fa_value *root);
FA_API fa_values *fa_pt_unsafe_globals_from(const fa_reader *reader, const fa_pt_options *options);

#ifndef __cplusplus
#define fa_load(path, ...) fa_load_with((path), FA_LOAD_OPTIONS(__VA_ARGS__))
#define fa_load_pt(path, ...) fa_load_pt_with((path), &(fa_pt_options){.struct_size = sizeof(fa_pt_options), __VA_ARGS__})
#define FA_LOAD_OPTIONS(...) (&(fa_load_options){.struct_size = sizeof(fa_load_options), __VA_ARGS__})
#define fa_save_npz(path, tensors, ...) \
    fa_save_npz_with((path), (tensors), &(fa_npz_options){.struct_size = sizeof(fa_npz_options), __VA_ARGS__})
#define fa_load_npy(path, ...) fa_load_npy_with((path), FA_LOAD_OPTIONS(__VA_ARGS__))
#define fa_load_npz(path, ...) fa_load_npz_with((path), FA_LOAD_OPTIONS(__VA_ARGS__))
#define fa_load_safetensors(path, ...) fa_load_safetensors_with((path), FA_LOAD_OPTIONS(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif
#endif
