/* Named tensors in the format that a file's ending tells. */
#include "io.h"
#include <string.h>

typedef enum format { UNKNOWN, PT, SAFETENSORS, NPZ } format;

static format format_of(const char *op, const char *path) {
    static const struct {
        const char *ending;
        format format;
    } endings[] = {{".pt", PT}, {".pth", PT}, {".safetensors", SAFETENSORS}, {".npz", NPZ}};
    const size_t n = path == NULL ? 0 : strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t e = strlen(endings[i].ending);
        if (n >= e && strcmp(path + n - e, endings[i].ending) == 0) return endings[i].format;
    }
    fai_fail(FA_ERR_VALUE, op, "argument 'path' is \"%s\": the ending must be .pt, .pth, .safetensors or .npz",
             path == NULL ? "NULL" : path);
    return UNKNOWN;
}

static bool save_pt(const char *path, const fa_tensors *tensors) {
    FA_SCOPE;
    fa_values *values = fa_values_new();
    fa_value *root = fa_values_of_tensors(values, tensors);
    return root != NULL && fa_save_pt(path, root);
}

bool fa_save(const char *path, const fa_tensors *tensors) {
    const char *op = "save";
    if (fai_refuse_pending(op)) return false;
    if (tensors == NULL) return fai_fail(FA_ERR_VALUE, op, "tensors is NULL; make them by fa_tensors_new");
    switch (format_of(op, path)) {
    case PT: return save_pt(path, tensors);
    case SAFETENSORS: return fa_save_safetensors(path, tensors);
    case NPZ: return fa_save_npz_with(path, tensors, NULL);
    default: return false;
    }
}

static fa_tensors *load_pt(const char *path, const fa_load_options *options) {
    FA_SCOPE;
    fa_pt_options o = {.struct_size = sizeof o};
    if (!fai_load_device("load", options, &o.device)) return NULL;
    fa_values *values = fa_load_pt_with(path, &o);
    return fai_return(fa_value_tensors(fa_values_root(values)));
}

fa_tensors *fa_load_with(const char *path, const fa_load_options *options) {
    switch (format_of("load", path)) {
    case PT: return load_pt(path, options);
    case SAFETENSORS: return fa_load_safetensors_with(path, options);
    case NPZ: return fa_load_npz_with(path, options);
    default: return NULL;
    }
}
