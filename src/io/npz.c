/* .npz: a zip archive with one .npy member for each named array. */
#include "zip.h"
#include <string.h>

static bool add_member(fai_zip *zip, const char *name, fa_tensor *t, bool compressed) {
    const char *op = zip->writer.op;
    char header[FAI_NPY_HEADER];
    size_t length;
    const void *bytes;
    fai_text member = {0};
    if (!fai_npy_header(op, t, header, &length)) return false;
    fai_text_add(&member, "%s.npy", name);
    if (member.failed) return fai_fail_memory(op, strlen(name) + 5);
    bool ok = fai_borrow_bytes(op, t, &bytes);
    if (ok) {
        ok = fai_zip_add(zip, member.data, header, length, bytes, (uint64_t)t->numel * fa_dtype_size((fa_dtype)t->dtype),
                         compressed);
        fai_return_bytes(t, bytes);
    }
    fai_text_free(&member);
    return ok;
}

bool fa_save_npz_with(const char *path, const fa_tensors *tensors, const fa_npz_options *options) {
    const char *op = "save_npz";
    fai_zip zip;
    fa_npz_options o = {0};
    if (fai_refuse_pending(op)) return false;
    if (tensors == NULL) return fai_fail(FA_ERR_VALUE, op, "tensors is NULL; make them by fa_tensors_new");
    if (options != NULL) memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    bool ok = fai_zip_open(&zip, path, op);
    for (int64_t i = 0; ok && i < fa_tensors_count(tensors); i++)
        ok = add_member(&zip, fa_tensors_name_at(tensors, i), fa_tensors_at(tensors, i), o.compressed);
    return fai_zip_close(&zip, ok);
}

/* ---- Loading ---- */

typedef struct loading { fa_tensors *out; fa_device device; } loading;

static bool check_sum(const fai_source *source, const fai_member *m) {
    if (source->crc == m->crc) return true;
    return fai_file_bad(source->file, m->name, "its checksum is %08x, the archive says %08x; the data are damaged", source->crc,
                        m->crc);
}

/* A small member may claim to become a large one: then it is unpacked once for nothing, before memory is taken for it. */
static bool is_true_to_size(const fai_file *file, const fai_member *m) {
    fai_source source;
    if (!m->deflated || m->bytes <= 2 * file->size + (1 << 20)) return true;
    bool ok = fai_source_member(&source, file, m->name, m->begin, m->end, m->bytes, true) && fai_source_skip(&source) &&
              check_sum(&source, m);
    fai_source_close(&source);
    return ok;
}

static bool load_member(void *context, const fai_file *file, const fai_member *m) {
    loading *l = context;
    fai_source source;
    size_t length = strlen(m->name);
    if (length < 4 || strcmp(m->name + length - 4, ".npy") != 0) return true; /* something else that lies in the archive */
    if (!is_true_to_size(file, m)) return false;
    if (!fai_source_member(&source, file, m->name, m->begin, m->end, m->bytes, m->deflated)) return false;
    fa_tensor *t = fai_npy_read(&source, l->device);
    bool ok = t != NULL && fai_source_skip(&source) && check_sum(&source, m);
    fai_source_close(&source);
    if (ok) {
        m->name[length - 4] = 0;
        if (fa_tensors_find(l->out, m->name) != NULL) ok = fai_file_bad(file, m->name, "the name stands for two arrays");
        ok = ok && fa_tensors_add(l->out, m->name, t);
    }
    fa_drop(t);
    return ok;
}

fa_tensors *fa_load_npz_with(const char *path, const fa_load_options *options) {
    const char *op = "load_npz";
    fai_file file;
    loading l = {0};
    if (!fai_load_device(op, options, &l.device) || !fai_file_open(&file, path, op)) return NULL;
    l.out = fa_tensors_new();
    bool ok = l.out != NULL && fai_zip_read(&file, load_member, &l);
    fai_file_close(&file);
    if (ok) return l.out;
    fa_drop(l.out);
    return NULL;
}
