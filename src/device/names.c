/* Device names as values: parsing "cuda:1" and writing it, with torch's rules and its sentences for what is wrong. */
#include "inside.h"
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 16 };

static char names[FAI_TYPES][NAME_SIZE] = {"", "cpu", "cuda", "xpu", "mps", "opencl", "npu"};
static atomic_int named = FA_DEVICE_NPU + 1;
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

/* What torch lists when it does not know a type; the order is its own. */
#define TORCH_TYPES                                                                                                              \
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "         \
    "privateuseone"

const char *fai_type_name(int type) { return type > 0 && type < atomic_load(&named) ? names[type] : NULL; }

int fai_type_of_name(const char *name, size_t n) {
    for (int type = 1; type < atomic_load(&named); type++)
        if (strlen(names[type]) == n && memcmp(names[type], name, n) == 0) return type;
    return 0;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

int fai_type_add(const char *name) {
    size_t n = 0;
    while (is_letter(name[n])) n++;
    if (n == 0 || name[n] || n >= NAME_SIZE) return 0;
    pthread_mutex_lock(&names_lock);
    int type = fai_type_of_name(name, n);
    if (!type && atomic_load(&named) < FAI_TYPES) {
        type = atomic_load(&named);
        memcpy(names[type], name, n + 1);
        atomic_store(&named, type + 1);
    }
    pthread_mutex_unlock(&names_lock);
    return type;
}

void fai_type_upper(char out[16], int type) {
    const char *name = fai_type_name(type);
    size_t i = 0;
    for (; name && name[i]; i++) out[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
    out[i] = 0;
}

static fa_device bad(void) { return fa_device_of_type(0, 0); }

/* torch knows types that no backend here serves: they can be named, and an error tells it where one is used. */
static bool is_torchs(const char *text, size_t n) {
    for (const char *at = TORCH_TYPES; *at; at += strcspn(at, ","), at += strspn(at, ", "))
        if (strcspn(at, ",") == n && !strncmp(at, text, n)) return true;
    return false;
}

static int add_torchs(const char *text, size_t n) {
    char name[NAME_SIZE] = "";
    if (n >= NAME_SIZE || !is_torchs(text, n)) return 0;
    memcpy(name, text, n);
    if (!strcmp(name, "mkldnn"))
        fai_warn("device", "'mkldnn' is no longer used as device type. So torch.device('mkldnn') will be deprecated and removed in the future. "
                           "Please use other valid device types instead.");
    return fai_type_add(name);
}

bool fai_fail_unserved(int type, const char *op) {
    const char *name = fai_type_name(type);
    if (type <= FA_DEVICE_NPU || !name || !is_torchs(name, strlen(name))) return false;
    if (!strcmp(name, "meta"))
        fai_fail(FA_ERR_UNSUPPORTED, op, "Tensors on the device meta, which have sizes and no data, are planned. For a model's sizes alone, make it on the CPU");
    else
        fai_fail(FA_ERR_UNSUPPORTED, op,
                 "Found no %s device on your system: nothing in Facula serves this type. FACULA_PLUGINS=/path/to/%s.so would bring it, "
                 "FACULA_SIM=%s:2 gives two simulated ones, and GPUs of every maker are 'opencl' where their OpenCL driver is",
                 name, name, name);
    return true;
}

static fa_device fail_type(const char *text) {
    fai_text known = {0};
    for (int type = 1; fai_type_name(type); type++) fai_text_add(&known, "%s%s", type > 1 ? ", " : "", fai_type_name(type));
    fai_fail(FA_ERR_RUNTIME, "device",
             "Expected one of " TORCH_TYPES " device type at start of device string: %s. Facula knows these types: "
             "%s; write one of them, with a number if you like: \"cuda\", \"cuda:1\"",
             text, known.data ? known.data : "cpu");
    fai_text_free(&known);
    return bad();
}

static fa_device fail_form(const char *text) {
    fai_fail(FA_ERR_RUNTIME, "device",
             "Invalid device string: '%s'. A device is written as a type, or a type, a colon and a number without "
             "leading zeros: \"cpu\", \"cuda\", \"cuda:1\"",
             text);
    return bad();
}

fa_device fa_device_parse(const char *text) {
    if (!text) {
        fai_fail(FA_ERR_TYPE, "device", "device must be a text such as \"cpu\" or \"cuda:1\", but got NULL");
        return bad();
    }
    if (!*text) {
        fai_fail(FA_ERR_RUNTIME, "device",
                 "Device string must not be empty. Write a type such as \"cpu\", \"cuda\" or \"cuda:1\"");
        return bad();
    }
    size_t n = 0;
    while (is_letter(text[n])) n++;
    if (n == 0 || (text[n] && text[n] != ':')) return fail_form(text);
    const char *digits = text + n + (text[n] == ':');
    size_t length = strspn(digits, "0123456789");
    if (text[n] == ':' && (length == 0 || digits[length] || (digits[0] == '0' && length > 1))) return fail_form(text);
    int type = fai_type_of_name(text, n);
    if (!type && n < NAME_SIZE) { /* the names of plug-ins and simulated devices are known once they are open */
        fai_open_backends(0);
        type = fai_type_of_name(text, n);
    }
    if (!type) type = add_torchs(text, n);
    if (!type) return fail_type(text);
    long index = text[n] ? (length > 5 ? 100000 : strtol(digits, NULL, 10)) : -1;
    if (index > INT16_MAX) {
        fai_fail(FA_ERR_RUNTIME, "device", "Could not parse device index '%s' in device string '%s'. The largest index is %d",
                 digits, text, INT16_MAX);
        return bad();
    }
    return fa_device_of_type(type, (int)index);
}

const char *fa_device_text(fa_device device) {
    fai_cold *cold = fai_cold_block();
    char *out = cold->device_text[cold->device_turn++ % FAI_DEVICE_TEXTS];
    const char *name = fai_type_name(device.type);
    if (device.type == 0) snprintf(out, sizeof cold->device_text[0], "not given");
    else if (!name) snprintf(out, sizeof cold->device_text[0], "unknown type %d", device.type);
    else if (device.index < 0) snprintf(out, sizeof cold->device_text[0], "%s", name);
    else snprintf(out, sizeof cold->device_text[0], "%s:%d", name, device.index);
    return out;
}
