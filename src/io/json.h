/* Reading JSON piece by piece, without building anything: the caller knows what must come. */
#ifndef FAI_JSON_H
#define FAI_JSON_H

#include "../base/base.h"

typedef struct fai_json { const char *start, *at, *end; } fai_json;

bool fai_json_take(fai_json *json, char c);                 /* this character, after any space */
bool fai_json_follows(fai_json *json, char c);
bool fai_json_string(fai_json *json, fai_text *out);        /* replaces out; escapes decoded, UTF-8 checked, no zero character */
bool fai_json_size(fai_json *json, uint64_t *out);          /* a whole number from 0 to 2^63 - 1, written as such */
void fai_json_write_string(fai_text *out, const char *text); /* with quotes and escapes */

#endif
