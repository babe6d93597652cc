/* The records of a checkpoint: a zip archive whose members lie in one folder of any name, the first member's. */
#include "pt.h"
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    fai_records *records;
    fa_values *values;
    size_t folder;
    char *first;
} reading;

static bool add(void *context, const fai_file *file, const fai_member *m) {
    reading *r = context;
    fai_records *all = r->records;
    if (r->first == NULL) {
        const char *slash = strchr(m->name, '/');
        if (slash == NULL || slash == m->name) return fai_file_bad(file, m->name, "the first record lies in no folder");
        r->folder = (size_t)(slash - m->name) + 1;
        if ((r->first = fai_values_take(r->values, r->folder + 1)) == NULL) return false;
        memcpy(r->first, m->name, r->folder);
    }
    if (strncmp(m->name, r->first, r->folder) != 0) return true; /* something else that lies in the archive */
    if (all->n == all->room) {
        size_t room = all->room > 0 ? 2 * all->room : 16;
        fai_record *more = fai_realloc(FAI_TAG_FILE, all->all, all->room * sizeof *more, room * sizeof *more);
        if (more == NULL) return fai_fail_memory(file->op, room * sizeof *more);
        all->all = more;
        all->room = room;
    }
    size_t n = strlen(m->name + r->folder) + 1;
    char *name = fai_values_charge(r->values, sizeof(fai_record)) ? fai_values_take(r->values, n) : NULL;
    if (name == NULL) return false;
    memcpy(name, m->name + r->folder, n);
    all->all[all->n++] = (fai_record){name, m->begin, m->end, m->bytes, m->crc, m->deflated};
    return true;
}

static int by_name(const void *a, const void *b) { return strcmp(((const fai_record *)a)->name, ((const fai_record *)b)->name); }

bool fai_records_read(fai_records *records, const fai_file *file, fa_values *values) {
    reading r = {records, values, 0, NULL};
    if (!fai_zip_read(file, add, &r)) return false;
    if (records->n > 1) qsort(records->all, records->n, sizeof *records->all, by_name);
    for (size_t i = 1; i < records->n; i++) {
        if (strcmp(records->all[i].name, records->all[i - 1].name) == 0)
            return fai_file_bad(file, records->all[i].name, "the name stands for two records");
    }
    return true;
}

void fai_records_free(fai_records *records) { fai_free(FAI_TAG_FILE, records->all, records->room * sizeof *records->all); }

const fai_record *fai_records_find(const fai_records *records, const char *name) {
    const fai_record wanted = {.name = (char *)(uintptr_t)name};
    return records->n == 0 ? NULL : bsearch(&wanted, records->all, records->n, sizeof wanted, by_name);
}

/* PyTorch can be told to write no checksums: then they are 0. */
bool fai_record_sum(const fai_record *record, const fai_source *source) {
    if (source->crc == record->crc || record->crc == 0) return true;
    return fai_file_bad(source->file, record->name, "its checksum is %08x, the archive says %08x; the data are damaged",
                        source->crc, record->crc);
}

bool fai_record_bytes(const fai_record *record, const fai_file *file, fa_values *values, uint8_t **out) {
    fai_source source;
    *out = record->bytes > SIZE_MAX - 1 ? NULL : fai_values_take(values, (size_t)record->bytes + 1);
    if (*out == NULL) return false;
    if (!fai_source_member(&source, file, record->name, record->begin, record->end, record->bytes, record->deflated))
        return false;
    bool ok = fai_source_read(&source, *out, record->bytes) && fai_record_sum(record, &source);
    fai_source_close(&source);
    return ok;
}
