/* Zip archives, as far as .npz and .pt files need them. */
#ifndef FAI_ZIP_H
#define FAI_ZIP_H

#include "io.h"

void fai_put_little(fai_text *text, uint64_t value, int bytes); /* the lowest byte first */

/* ---- Writing: members one after the other, then the directory ---- */
typedef struct fai_zip {
    fai_writer writer;
    fai_text directory;
    uint64_t members;
} fai_zip;
bool fai_zip_open(fai_zip *zip, const char *path, const char *op);
/* A member made of two pieces of memory. */
bool fai_zip_add(fai_zip *zip, const char *name, const void *head, uint64_t head_bytes, const void *body, uint64_t body_bytes,
                 bool compressed);
bool fai_zip_close(fai_zip *zip, bool ok);

/* ---- Reading: calls visit for every member, after the whole directory has been checked ---- */
typedef struct fai_member {
    char *name;
    uint64_t begin, end;  /* of its bytes in the file */
    uint64_t bytes;       /* what they become */
    uint32_t crc;
    bool deflated;
} fai_member;
bool fai_zip_read(const fai_file *file, bool (*visit)(void *context, const fai_file *file, const fai_member *member),
                  void *context);

#endif
