/* Files: .npy and .npz (NumPy), .safetensors. A save that fails or is cut off leaves the old file as it was; a load believes
 * nothing that a file says about itself before it has checked it. */
#ifndef FA_IO_H
#define FA_IO_H

#include "fa_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Named tensors, in the order in which they were added. Belongs to the scope, holds its tensors. ---- */

typedef struct fa_tensors fa_tensors;
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

#ifndef __cplusplus
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
