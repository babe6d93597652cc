/* Reads PyTorch's checkpoints (.pt, .pth): a zip archive with a pickle, data.pkl, and the bytes of each storage that the pickle
 * names, data/0, data/1, ... The pickle is interpreted (unpickle.c); when it makes the first tensor of a storage, the record's
 * bytes are read straight into that storage's memory, on the device where it goes. Tensors that share a storage in the file share
 * it here. */
#include "pt.h"
#include <stdlib.h>
#include <string.h>

#define bad fai_unpickle_bad

enum { LEAST_LIMIT = 256 << 20, LIMIT_PER_BYTE = 16, NEWEST_VERSION = 10 };

/* One for each key; value.as.i is its place in the list. */
typedef struct storage {
    const fai_record *record;
    fa_dtype dtype; /* 0: bytes, until the first tensor says what they are */
    uint64_t bytes;
    fa_device device;
    fa_tensor *base; /* all of it, once it was read */
} storage;

typedef struct reader {
    fai_file file;
    fa_values *values;
    fa_pt_options options;
    fai_records records;
    bool big_endian;
    fa_value *keys; /* key: storage */
    storage *storages;
    size_t nstorages, storages_room;
    char location[64]; /* the last one asked for, and what came out */
    fa_device device;
} reader;

/* ---- Where a storage goes ---- */

static const char *upper_type(const char *location) {
    return strncmp(location, "cuda", 4) == 0 ? "CUDA" : strncmp(location, "xpu", 3) == 0 ? "XPU" : NULL;
}

/* The saved device, if it is there. */
static bool default_device(const reader *r, const char *location, fa_device *device) {
    *device = fa_device_parse(location);
    if (device->type == 0) {
        fa_error_take();
        return fai_fail(
            FA_ERR_RUNTIME, r->file.op,
            "don't know how to restore data location of torch.storage.UntypedStorage (tagged with %s); say where it goes: "
            "map_location='cpu' (in C: fa_pt_options.device)",
            location);
    }
    const char *type = upper_type(location), *path = r->file.path;
    if (device->type == FA_DEVICE_CPU) return true;
    if (!fa_device_is_available(device->type)) {
        if (type == NULL) return fai_device_resolve(device, r->file.op);
        return fai_fail(
            FA_ERR_RUNTIME, r->file.op,
            "Attempting to deserialize object on a %s device but torch.%.4s.is_available() is False. If you are running on a "
            "CPU-only "
            "machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU%s%.200s%s. (In C: "
            "fa_pt_options.device. For a simulated device set FACULA_SIM=%.4s:1.)",
            type, type[0] == 'C' ? "cuda" : "xpu", path ? ": torch.load('" : "", path ? path : "", path ? "', map_location='cpu')" : "",
            type[0] == 'C' ? "cuda" : "xpu");
    }
    if (device->index < fa_device_count(device->type)) return fai_device_resolve(device, r->file.op);
    return fai_fail(FA_ERR_RUNTIME, r->file.op,
                    "Attempting to deserialize object on %s device %d but torch.%.8s.device_count() is %d. Please use torch.load "
                    "with map_location "
                    "to map your storages to an existing device. (In C: fa_pt_options.device.)",
                    type != NULL ? type : "this", device->index, type != NULL && type[0] == 'X' ? "xpu" : "cuda",
                    fa_device_count(device->type));
}

static bool find_device(reader *r, const char *location, fa_device *device) {
    if (r->location[0] != 0 && strcmp(r->location, location) == 0) {
        *device = r->device;
        return true;
    }
    *device = r->options.device;
    if (device->type == 0 && r->options.map_location != NULL && !r->options.map_location(r->options.context, location, device))
        return fa_failed() ? false : fai_fail(FA_ERR_FOREIGN, r->file.op, "map_location failed for \"%s\"", location);
    if (!default_device(r, device->type == 0 ? location : fa_device_text(*device), device)) return false;
    snprintf(r->location, sizeof r->location, "%s", location);
    r->device = *device;
    return true;
}

/* ---- Storages ---- */

static fa_value *wrong_id(const fai_unpickler *u) {
    return bad(u, "a persistent id is no tuple ('storage', class, key, location, number of elements)");
}

static bool check_size(const reader *r, const storage *s, int64_t elements, fa_dtype dtype) {
    const uint64_t width = dtype == FA_DTYPE_DEFAULT ? 1 : fa_dtype_size(dtype);
    if (elements >= 0 && (uint64_t)elements == s->record->bytes / width && s->record->bytes % width == 0) return true;
    return fai_file_bad(&r->file, s->record->name,
                        "record size (%llu bytes) does not match expected size (%lld elements * %llu bytes/element) for dtype %s",
                        (unsigned long long)s->record->bytes, (long long)elements, (unsigned long long)width,
                        dtype == FA_DTYPE_DEFAULT ? "Byte" : fai_dtype_title(dtype));
}

static storage *add_storage(reader *r) {
    if (r->nstorages == r->storages_room) {
        size_t room = r->storages_room > 0 ? 2 * r->storages_room : 16;
        storage *more = fai_realloc(FAI_TAG_FILE, r->storages, r->storages_room * sizeof *more, room * sizeof *more);
        if (more == NULL) return fai_fail_memory(r->file.op, room * sizeof *more);
        r->storages = more;
        r->storages_room = room;
    }
    if (!fai_values_charge(r->values, sizeof(storage))) return NULL;
    r->storages[r->nstorages] = (storage){0};
    return &r->storages[r->nstorages++];
}

static bool fill_storage(reader *r, storage *s, const char *key, const char *location, int64_t elements, fa_dtype dtype) {
    char name[128];
    snprintf(name, sizeof name, "data/%s", key);
    s->record = fai_records_find(&r->records, name);
    if (s->record == NULL) return fai_file_bad(&r->file, NULL, "failed locating file %s: file not found", name);
    s->dtype = dtype;
    s->bytes = s->record->bytes;
    return check_size(r, s, elements, dtype) && find_device(r, location, &s->device);
}

/* ('storage', class, key, location, numel) */
static fa_value *find_storage(fai_unpickler *u, const fa_value *id) {
    reader *r = u->context;
    if (id->kind != FA_VALUE_TUPLE || id->as.list.n != 5) return wrong_id(u);
    fa_value *const *p = id->as.list.items, *key = p[2];
    const bool types = p[0]->kind == FA_VALUE_TEXT && p[1]->kind == FA_VALUE_GLOBAL && key->kind == FA_VALUE_TEXT &&
                       p[3]->kind == FA_VALUE_TEXT && p[4]->kind == FA_VALUE_INT;
    if (!types || strcmp(p[0]->as.text.data, "storage") != 0) return wrong_id(u);
    const fai_global *class = p[1]->as.global.known;
    if (class == NULL || class->meaning != FAI_NAME_STORAGE || key->as.text.n > 100 || p[3]->as.text.n > 60) return wrong_id(u);
    fa_value *v = fa_value_look_up(r->keys, key);
    if (v != NULL) {
        const storage *s = &r->storages[v->as.i];
        if (s->dtype == class->dtype || class->dtype == FA_DTYPE_DEFAULT)
            return check_size(r, s, p[4]->as.i, class->dtype) ? v : NULL;
        return bad(u, "the storage %s is said to hold elements of two types", key->as.text.data);
    }
    v = fai_values_make(u->values, FAI_VALUE_STORAGE);
    storage *s = v == NULL ? NULL : add_storage(r);
    if (s == NULL || !fill_storage(r, s, key->as.text.data, p[3]->as.text.data, p[4]->as.i, class->dtype)) return NULL;
    v->as.i = s - r->storages;
    return fa_value_put(r->keys, key, v) ? v : NULL;
}

static bool read_elements(void *context, void *out, uint64_t bytes) { return fai_source_read(context, out, bytes); }

/* All of it as one tensor, which stays the reader's. */
static bool read_storage(reader *r, storage *s) {
    const fai_record *record = s->record;
    const fa_shape shape = {1, {(int64_t)(s->bytes / fa_dtype_size(s->dtype))}};
    fai_source source;
    if (!fai_values_charge(r->values, s->bytes)) return false;
    if (!fai_source_member(&source, &r->file, record->name, record->begin, record->end, record->bytes, record->deflated))
        return false;
    fa_tensor *t = fai_read_tensor(r->file.op, s->dtype, s->device, &shape, false, r->big_endian, read_elements, &source);
    bool ok = t != NULL && fai_record_sum(record, &source);
    fai_source_close(&source);
    fai_scope_take(t);
    s->base = t;
    return ok;
}

/* Elements from offset on that the tensor touches, [offset, *end); false if it touches others, or more than can be counted. */
static bool reach(int64_t offset, const fa_shape *size, const fa_shape *stride, int64_t *end) {
    int64_t last = offset, step, numel = 1;
    bool empty = false;
    for (int d = 0; d < size->ndim; d++) {
        if (size->dim[d] < 0 || stride->dim[d] < 0) return false;
        if (size->dim[d] == 0)
            empty = true;
        else if (!fai_mul(numel, size->dim[d], &numel))
            return false;
        if (size->dim[d] > 0 && (!fai_mul(size->dim[d] - 1, stride->dim[d], &step) || !fai_add(last, step, &last))) return false;
    }
    if (numel > INT64_MAX / 16) return false;
    *end = empty ? offset : last;
    return offset >= 0 && (empty || fai_add(last, 1, end));
}

static fa_tensor *make_tensor(fai_unpickler *u, const fa_value *v, fa_dtype dtype, int64_t offset, const fa_shape *size,
                              const fa_shape *stride) {
    reader *r = u->context;
    storage *s = &r->storages[v->as.i];
    char a[200], b[200];
    int64_t end;
    if (dtype == FA_DTYPE_DEFAULT) dtype = s->dtype;
    if (s->dtype == FA_DTYPE_DEFAULT && dtype != FA_DTYPE_DEFAULT && s->bytes % fa_dtype_size(dtype) == 0) s->dtype = dtype;
    if (s->dtype == FA_DTYPE_DEFAULT || s->dtype != dtype)
        return bad(u, "a tensor of %s is to be made of the storage %s, which holds something else",
                                fa_dtype_name(dtype), s->record->name);
    fai_text_shape(a, sizeof a, size->ndim, size->dim);
    fai_text_shape(b, sizeof b, stride->ndim, stride->dim);
    if (!reach(offset, size, stride, &end) || (uint64_t)end > s->bytes / fa_dtype_size(dtype))
        return bad(
            u, "a tensor of sizes %s, strides %s and offset %lld does not lie in its storage %s of %llu elements", a, b,
            (long long)offset, s->record->name, (unsigned long long)(s->bytes / fa_dtype_size(dtype)));
    if (s->base == NULL && !read_storage(r, s)) return NULL;
    return fai_view(r->file.op, s->base, size->ndim, size->dim, stride->dim, offset);
}

/* ---- The archive ---- */

static bool check_start(const fai_file *file) {
    static const uint8_t legacy[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    uint8_t start[sizeof legacy] = {0};
    if (file->size == 0) return fai_file_bad(file, NULL, "Ran out of input: the file is empty");
    if (!fai_file_read(file, 0, start, file->size < sizeof start ? file->size : sizeof start)) return false;
    if (memcmp(start, "PK\3\4", 4) == 0) return true;
    if (memcmp(start, legacy, sizeof legacy) == 0)
        return fai_file_foreign(file, NULL,
                                "the file is in the format that PyTorch wrote before version 1.6, which is not read here; load "
                                "it in PyTorch and save "
                                "it again without _use_new_zipfile_serialization=False");
    return fai_file_bad(
        file, NULL,
        "the file is no checkpoint of PyTorch: it begins with the bytes %02x %02x %02x %02x, a zip archive with 50 4b 03 04",
        start[0], start[1], start[2], start[3]);
}

static bool check_version(reader *r) {
    const fai_record *record = fai_records_find(&r->records, "version");
    uint8_t *text;
    if (record == NULL) record = fai_records_find(&r->records, ".data/version");
    if (record == NULL) return fai_file_bad(&r->file, NULL, "Expected hasRecord(\"version\") to be true, but got false");
    if (record->bytes > 20) return fai_file_bad(&r->file, record->name, "it is no number");
    if (!fai_record_bytes(record, &r->file, r->values, &text)) return false;
    char *end;
    long version = strtol((char *)text, &end, 10);
    if (end == (char *)text || version < 1) return fai_file_bad(&r->file, record->name, "it is no number");
    return version <= NEWEST_VERSION ||
           fai_file_foreign(
               &r->file, NULL,
               "Attempted to read a PyTorch file with version %ld, but the maximum supported version for reading is %d", version,
               NEWEST_VERSION);
}

static bool check_order(reader *r) {
    const fai_record *record = fai_records_find(&r->records, "byteorder");
    uint8_t *text;
    if (record == NULL) return true;
    if (record->bytes > 100) return fai_file_bad(&r->file, record->name, "it is neither \"little\" nor \"big\"");
    if (!fai_record_bytes(record, &r->file, r->values, &text)) return false;
    r->big_endian = strcmp((char *)text, "big") == 0;
    if (r->big_endian || strcmp((char *)text, "little") == 0) return true;
    return fai_fail(FA_ERR_VALUE, r->file.op, "Unknown endianness type: %.100s (%s)", (char *)text, r->file.path);
}

/* The bytes of data.pkl. */
static bool open_archive(reader *r, const fai_record **record, uint8_t **pickle) {
    r->file.lead = "Weights only load failed";
    if (!check_start(&r->file)) return false;
    r->file.lead = "PytorchStreamReader failed reading zip archive";
    if (!fai_records_read(&r->records, &r->file, r->values)) return false;
    r->file.lead = "PytorchStreamReader failed";
    if (fai_records_find(&r->records, "constants.pkl") != NULL)
        return fai_file_foreign(&r->file, NULL,
                                "the file is a TorchScript archive, a program; save the module's state_dict() by torch.save");
    if (!check_version(r) || !check_order(r)) return false;
    *record = fai_records_find(&r->records, "data.pkl");
    if (*record == NULL) return fai_file_bad(&r->file, NULL, "failed locating file data.pkl: file not found");
    return fai_record_bytes(*record, &r->file, r->values, pickle);
}

static void unpickler_of(reader *r, fai_unpickler *u, const uint8_t *pickle, uint64_t n) {
    *u = (fai_unpickler){.values = r->values,
                         .name = r->file.path,
                         .begin = pickle,
                         .at = pickle,
                         .end = pickle + n,
                         .safe_globals = r->options.safe_globals,
                         .nsafe_globals = r->options.safe_globals == NULL ? 0 : r->options.nsafe_globals,
                         .persistent = find_storage,
                         .tensor = make_tensor,
                         .context = r};
}

static fa_value *read_values(reader *r) {
    const fai_record *record = NULL;
    uint8_t *pickle = NULL;
    fai_unpickler u;
    if (!open_archive(r, &record, &pickle)) return NULL;
    unpickler_of(r, &u, pickle, record->bytes);
    r->keys = fa_values_container(r->values, FA_VALUE_DICT);
    return r->keys == NULL ? NULL : fai_unpickle(&u);
}

static fa_value *read_unsafe_globals(reader *r) {
    const fai_record *record = NULL;
    uint8_t *pickle = NULL;
    fai_unpickler u;
    if (!open_archive(r, &record, &pickle)) return NULL;
    unpickler_of(r, &u, pickle, record->bytes);
    fa_value *list = fa_values_container(r->values, FA_VALUE_LIST);
    return list != NULL && fai_unpickle_list_globals(&u, list) ? list : NULL;
}

/* ---- From files and readers ---- */

/* r->file is open; it is closed. */
static fa_values *read_all(reader *r, const fa_pt_options *options, fa_value *(*read)(reader *r)) {
    const uint64_t by_size = r->file.size > UINT64_MAX / 64 ? UINT64_MAX : LIMIT_PER_BYTE * r->file.size + LEAST_LIMIT;
    if (options != NULL)
        memcpy(&r->options, options, options->struct_size < sizeof r->options ? options->struct_size : sizeof r->options);
    r->values = fa_values_new();
    if (r->values != NULL) {
        r->values->op = r->file.op;
        r->values->limit = r->options.limit > 0 ? r->options.limit : by_size;
        r->values->root = read(r);
        r->values->limit = UINT64_MAX;
        r->values->op = "values";
    }
    for (size_t i = 0; i < r->nstorages; i++) fai_unref(r->storages[i].base);
    fai_free(FAI_TAG_FILE, r->storages, r->storages_room * sizeof *r->storages);
    fai_records_free(&r->records);
    fai_file_close(&r->file);
    if (r->values == NULL || r->values->root != NULL) return r->values;
    fa_drop(r->values);
    return NULL;
}

fa_values *fa_load_pt_with(const char *path, const fa_pt_options *options) {
    reader r = {0};
    return fai_file_open(&r.file, path, "load") ? read_all(&r, options, read_values) : NULL;
}

fa_values *fa_load_pt_from(const fa_reader *from, const fa_pt_options *options) {
    reader r = {0};
    return fai_file_from(&r.file, from, "load") ? read_all(&r, options, read_values) : NULL;
}

fa_values *fa_pt_unsafe_globals(const char *path, const fa_pt_options *options) {
    reader r = {0};
    return fai_file_open(&r.file, path, "get_unsafe_globals_in_checkpoint") ? read_all(&r, options, read_unsafe_globals) : NULL;
}

fa_values *fa_pt_unsafe_globals_from(const fa_reader *from, const fa_pt_options *options) {
    reader r = {0};
    return fai_file_from(&r.file, from, "get_unsafe_globals_in_checkpoint") ? read_all(&r, options, read_unsafe_globals) : NULL;
}
