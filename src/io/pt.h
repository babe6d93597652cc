/* What reading and writing checkpoints have in common: the archive's records. */
#ifndef FAI_PT_H
#define FAI_PT_H

#include "pickle.h"
#include "zip.h"

/* ---- records.c: the records of an archive by name, without the folder that all of them lie in ---- */
typedef struct fai_record { char *name; uint64_t begin, end, bytes; uint32_t crc; bool deflated; } fai_record;
typedef struct fai_records { fai_record *all; size_t n, room; } fai_records;
/* Charged to the document, and in memory of it. */
bool fai_records_read(fai_records *records, const fai_file *file, fa_values *values);
void fai_records_free(fai_records *records);
const fai_record *fai_records_find(const fai_records *records, const char *name); /* NULL, and no error, if there is none */
/* All bytes of a record, in memory of the document, with a 0 behind. */
bool fai_record_bytes(const fai_record *record, const fai_file *file, fa_values *values, uint8_t **out);
/* Checks what came out of a source that was read to its end. */
bool fai_record_sum(const fai_record *record, const fai_source *source);

#endif
