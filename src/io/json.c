/* The part of JSON that files of tensors are made of: braces, strings, whole numbers. */
#include "json.h"
#include <string.h>

static void skip_space(fai_json *j) {
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r')) j->at++;
}

bool fai_json_follows(fai_json *json, char c) {
    skip_space(json);
    return json->at < json->end && *json->at == c;
}

bool fai_json_take(fai_json *json, char c) {
    if (!fai_json_follows(json, c)) return false;
    json->at++;
    return true;
}

bool fai_json_size(fai_json *json, uint64_t *out) {
    skip_space(json);
    const char *first = json->at;
    int64_t value = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        if (!fai_mul(value, 10, &value) || !fai_add(value, *json->at - '0', &value)) return false;
    }
    *out = (uint64_t)value;
    if (json->at == first || (*first == '0' && json->at > first + 1)) return false;
    return json->at == json->end || strchr(".eE", *json->at) == NULL || *json->at == 0;
}

/* ---- Strings ---- */

static void add_code_point(fai_text *out, uint32_t c) {
    char b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6) b[i] = (char)(0x80 | (c & 0x3f));
    b[0] = (char)(lead[n] | c);
    fai_text_add_bytes(out, b, n);
}

static bool hex4(fai_json *j, uint32_t *out) {
    if (j->end - j->at < 4) return false;
    *out = 0;
    for (int i = 0; i < 4; i++, j->at++) {
        if (memchr("0123456789abcdefABCDEF", *j->at, 22) == NULL) return false;
        *out = *out << 4 | (uint32_t)(*j->at <= '9' ? *j->at - '0' : (*j->at | 32) - 'a' + 10);
    }
    return true;
}

/* After \u: a code point, from one or two groups of four digits. */
static bool unicode_escape(fai_json *j, uint32_t *out) {
    uint32_t low;
    if (!hex4(j, out) || *out == 0) return false;
    if (*out < 0xd800 || *out > 0xdfff) return true;
    if (*out > 0xdbff || j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u') return false;
    j->at += 2;
    if (!hex4(j, &low) || low < 0xdc00 || low > 0xdfff) return false;
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static bool escape(fai_json *j, fai_text *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    uint32_t c;
    if (j->at >= j->end) return false;
    char letter = *j->at++;
    if (letter == 'u') {
        if (!unicode_escape(j, &c)) return false;
        add_code_point(out, c);
        return true;
    }
    const char *place = letter == 0 ? NULL : strchr(from, letter);
    if (place == NULL) return false;
    fai_text_add_bytes(out, &to[place - from], 1);
    return true;
}

/* One character of UTF-8 as the standard allows it: shortest form, no surrogates, up to 0x10ffff. */
static size_t utf8_length(const char *at, const char *end) {
    const uint8_t *p = (const uint8_t *)at;
    size_t left = (size_t)(end - at), n = p[0] < 0x80   ? 1
                                          : p[0] < 0xc2 ? 0
                                          : p[0] < 0xe0 ? 2
                                          : p[0] < 0xf0 ? 3
                                          : p[0] < 0xf5 ? 4
                                                        : 0;
    if (n == 0 || n > left) return 0;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
        (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

bool fai_json_string(fai_json *json, fai_text *out) {
    if (!fai_json_take(json, '"')) return false;
    out->length = 0;
    fai_text_add_bytes(out, "", 0);
    while (json->at < json->end && *json->at != '"') {
        const char *c = json->at;
        if (*c == '\\') {
            json->at++;
            if (!escape(json, out)) return false;
            continue;
        }
        size_t n = (uint8_t)*c < 0x20 ? 0 : utf8_length(c, json->end);
        if (n == 0) return false;
        fai_text_add_bytes(out, c, n);
        json->at += n;
    }
    return fai_json_take(json, '"') && !out->failed;
}

void fai_json_write_string(fai_text *out, const char *text) {
    fai_text_add_bytes(out, "\"", 1);
    for (const char *c = text; *c != 0; c++) {
        if (*c == '"' || *c == '\\') fai_text_add_bytes(out, "\\", 1);
        if ((uint8_t)*c < 0x20) fai_text_add(out, "\\u%04x", (unsigned)*c);
        else fai_text_add_bytes(out, c, 1);
    }
    fai_text_add_bytes(out, "\"", 1);
}
