/* What the environment says, the faults that tests inject, and what they may count.
 *
 *   FACULA_SIM=cuda:2 or cuda:2,xpu:1    devices, in this order
 *   CUDA_VISIBLE_DEVICES=1,0             which of the cuda ones are seen, as the real driver reads it; GPU-<uuid> too
 *   FACULA_SIM_MEMORY=256MiB             bytes of each device (KiB, MiB, GiB or plain bytes; 1 GiB if not given)
 *   FACULA_SIM_MODE=lazy|eager           lazy (the default): work runs only when something waits for it
 *   FACULA_SIM_SEED=7                    which stream goes first; 0 (the default): nothing runs earlier than it must
 *   FACULA_SIM_PEER=off                  no device can reach the memory of another one
 *   FACULA_SIM_FAULTS=alloc:5,late:7+    the 5th allocation fails; launches fail after they
 *                                        were accepted, from the 7th on; hang:3: the 3rd event
 *                                        that is recorded never comes
 *                        driver:11040    no call fails: the driver is of this version
 *                        nvrtc:1         NVRTC is not there
 *   FACULA_SIM_LIBRARIES=cublaslt,cudnn  stand-ins of these libraries, which check each call and compute slowly; without it
 *                                        they are not there */
#include "sim.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim_state sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static __thread char text[SIM_TEXT] __attribute__((tls_model("global-dynamic"))); /* no claim on the scarce room for early TLS */

CUresult sim_fail(CUresult error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error;
}

const char *facula_sim_error_text(void) { return text; }

uint64_t sim_draw(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- faults ---- */

enum { MAX_FAULTS = 64 };
static const char *const fault_names[SIM_FAULT_KINDS] = {"alloc", "launch", "late", "copy", "lost", "build", "flip", "hang", "driver", "nvrtc", "nvml"};
typedef struct fault {
    sim_fault kind;
    int n;
    bool sticky;
} fault;
static fault faults[MAX_FAULTS];
static int nfaults;
static int seen[SIM_FAULT_KINDS];

bool sim_fault_now(sim_fault kind, int *number) {
    *number = ++seen[kind];
    for (int i = 0; i < nfaults; i++) {
        if (faults[i].kind != kind || (faults[i].sticky ? *number < faults[i].n : *number != faults[i].n)) continue;
        sim.counts.injected++;
        return true;
    }
    return false;
}

static bool is_set(sim_fault kind, int *n) {
    bool found = false;
    pthread_mutex_lock(&sim.lock);
    for (int i = 0; i < nfaults && !found; i++)
        if ((found = faults[i].kind == kind)) *n = faults[i].n;
    pthread_mutex_unlock(&sim.lock);
    return found;
}

int sim_nvml_fault(void) {
    int which = 0;
    if (sim_open() == CUDA_SUCCESS) is_set(SIM_FAULT_NVML, &which);
    return which;
}

int facula_sim_has(const char *library) {
    const char *list = getenv("FACULA_SIM_LIBRARIES");
    const size_t n = strlen(library);
    int unused;
    if (!strcmp(library, "nvrtc")) return sim_open() != CUDA_SUCCESS || !is_set(SIM_FAULT_NVRTC, &unused);
    if (!strcmp(library, "nvml")) return sim_nvml_fault() != 1;
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && !strncmp(at, library, n)) return 1;
    return 0;
}

int sim_driver_version(void) {
    int version = 13000;
    if (sim_open() == CUDA_SUCCESS) is_set(SIM_FAULT_DRIVER, &version);
    return version;
}

static bool parse_fault(const char *word, size_t length, fault *out) {
    for (int kind = 0; kind < SIM_FAULT_KINDS; kind++) {
        size_t n = strlen(fault_names[kind]);
        if (length < n + 2 || strncmp(word, fault_names[kind], n) || word[n] != ':' || !isdigit((unsigned char)word[n + 1]))
            continue;
        char *end;
        long value = strtol(word + n + 1, &end, 10);
        out->kind = (sim_fault)kind;
        out->n = (int)value;
        out->sticky = *end == '+';
        return value > 0 && value < 1 << 30 && end + out->sticky == word + length;
    }
    return false;
}

static bool parse_faults(const char *spec, fault *out, int *count) {
    *count = 0;
    while (spec && *spec) {
        size_t n = strcspn(spec, ",");
        if (*count == MAX_FAULTS || !parse_fault(spec, n, &out[*count])) return false;
        ++*count;
        spec += n + (spec[n] == ',');
    }
    return true;
}

static void stop_hanging(void) {
    for (int i = 0; i < sim.ndevices; i++)
        for (CUstream s = sim.device[i].streams; s; s = s->next)
            for (sim_op *op = s->head; op; op = op->next) op->hang = false;
    pthread_cond_broadcast(&sim.work);
}

void facula_sim_seed(uint64_t seed) {
    pthread_mutex_lock(&sim.lock);
    sim.seed = seed;
    for (int i = 0; i < sim.ndevices; i++) sim.device[i].random = seed * 64 + (uint64_t)i;
    pthread_mutex_unlock(&sim.lock);
}

int facula_sim_faults(const char *spec) {
    fault parsed[MAX_FAULTS];
    int count;
    if (!parse_faults(spec, parsed, &count)) return -1;
    pthread_mutex_lock(&sim.lock);
    memcpy(faults, parsed, sizeof parsed[0] * (size_t)count);
    nfaults = count;
    memset(seen, 0, sizeof seen);
    sim.counts.injected = 0;
    stop_hanging();
    for (int i = 0; i < sim.ndevices; i++) { /* what a dead device still has in its queues is dropped, then it lives again */
        if (!sim.device[i].dead) continue;
        sim_drain(&sim.device[i]);
        sim.device[i].dead = CUDA_SUCCESS;
        sim.device[i].lost = false;
    }
    pthread_mutex_unlock(&sim.lock);
    return 0;
}

static uint64_t count_live(bool bytes) {
    uint64_t total = 0;
    for (int i = 0; i < sim.ndevices; i++)
        for (size_t k = 0; k < sim.device[i].nblocks; k++) total += bytes ? sim.device[i].blocks[k].bytes : 1;
    return total;
}

static uint64_t count_pending(void) {
    uint64_t total = 0;
    for (int i = 0; i < sim.ndevices; i++)
        for (CUstream s = sim.device[i].streams; s; s = s->next) total += (uint64_t)s->count;
    return total;
}

/* live: allocations; live_bytes: their bytes; pending: queued operations; run: kernels that have run; the rest are calls. */
uint64_t facula_sim_count(const char *kind) {
    pthread_mutex_lock(&sim.lock);
    const sim_counts *c = &sim.counts;
    const struct {
        const char *name;
        uint64_t value;
    } table[] = {
        {"alloc", c->alloc},
        {"free", c->free},
        {"launch", c->launch},
        {"run", c->run},
        {"copy_to_device", c->to_device},
        {"copy_to_host", c->to_host},
        {"copy_within", c->within},
        {"copy_between", c->between},
        {"fill", c->fill},
        {"copy", c->to_device + c->to_host + c->within + c->between},
        {"wait", c->wait},
        {"build", c->build},
        {"injected", c->injected},
        {"live", count_live(false)},
        {"live_bytes", count_live(true)},
        {"pending", count_pending()},
    };
    uint64_t value = UINT64_MAX; /* no such kind */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (!strcmp(kind, table[i].name)) value = table[i].value;
    pthread_mutex_unlock(&sim.lock);
    return value;
}

const char *facula_sim_device_type(int ordinal) {
    return ordinal >= 0 && ordinal < sim.ndevices ? sim.device[ordinal].type : NULL;
}

/* ---- the environment ---- */

static bool parse_bytes(const char *word, uint64_t *out) {
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    char *end;
    if (!isdigit((unsigned char)*word)) return false;
    unsigned long long value = strtoull(word, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit)) continue;
        *out = value << units[i].shift;
        return value > 0 && value <= ((uint64_t)1 << 43) >> units[i].shift; /* at most 8 TiB: addresses are 47 bits */
    }
    return false;
}

/* "cuda:2,xpu:1": adds the devices in order. */
static bool parse_devices(const char *spec) {
    for (const char *at = spec; *at;) {
        size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        if (n == 0 || n >= sizeof sim.device[0].type || at[n] != ':' || !isdigit((unsigned char)at[n + 1])) return false;
        char *end;
        long count = strtol(at + n + 1, &end, 10);
        if (count < 1 || count > SIM_DEVICES - sim.ndevices || (*end && *end != ',') || (*end && !end[1])) return false;
        for (long i = 0; i < count; i++) {
            sim_device *d = &sim.device[sim.ndevices++];
            d->physical = sim.ndevices - 1;
            memcpy(d->type, at, n);
            d->type[n] = 0;
        }
        at = end + (*end == ',');
    }
    return sim.ndevices > 0;
}

/* Which of the n cuda devices an entry of CUDA_VISIBLE_DEVICES names: by number, or by "GPU-" and how its uuid begins; -1: none, or more than
 * one. *end: what follows the entry. */
static int named_device(const char *entry, const int place[], int n, const char **end) {
    *end = entry + strcspn(entry, ",");
    if (isdigit((unsigned char)*entry)) {
        long k = strtol(entry, NULL, 10);
        return k < n ? (int)k : -1;
    }
    size_t length = (size_t)(*end - entry);
    int found = -1;
    for (int i = 0; i < n && length > 4; i++) {
        CUuuid uuid;
        char name[48] = "GPU-";
        sim_uuid(&uuid, sim.device[place[i]].physical);
        for (int k = 0, at = 4; k < 16; k++)
            at += snprintf(name + at, sizeof name - (size_t)at, "%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "",
                           (unsigned char)uuid.bytes[k]);
        if (length >= sizeof name || strncmp(name, entry, length)) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

/* Keeps the cuda devices that the list names, in its order, up to the first entry that is none of them. One that is named twice hides
 * all: so do NVIDIA's driver and PyTorch. */
static void hide_devices(const char *visible) {
    sim_device kept[SIM_DEVICES];
    bool taken[SIM_DEVICES] = {false};
    int place[SIM_DEVICES], ncuda = 0, n = 0;
    for (int i = 0; i < sim.ndevices; i++)
        if (!strcmp(sim.device[i].type, "cuda")) place[ncuda++] = i;
    while (*visible) {
        const int k = named_device(visible, place, ncuda, &visible);
        if (k < 0) break;
        if (taken[k]) {
            n = 0;
            break;
        }
        taken[k] = true;
        kept[n++] = sim.device[place[k]];
        visible += *visible == ',';
    }
    for (int i = 0; i < sim.ndevices; i++)
        if (strcmp(sim.device[i].type, "cuda")) kept[n++] = sim.device[i];
    memcpy(sim.device, kept, sizeof kept[0] * (size_t)n);
    sim.ndevices = n;
}

static CUresult opened;
static char opened_text[SIM_TEXT];

static void in_child(void) { sim.forked = true; }

static CUresult read_environment(void) {
    const char *spec = getenv("FACULA_SIM"), *memory = getenv("FACULA_SIM_MEMORY"), *mode = getenv("FACULA_SIM_MODE");
    const char *peer = getenv("FACULA_SIM_PEER"), *seed = getenv("FACULA_SIM_SEED"), *wrong = getenv("FACULA_SIM_FAULTS"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    uint64_t limit = (uint64_t)1 << 30;
    char *end = NULL;
    if (!spec || !parse_devices(spec))
        return sim_fail(CUDA_ERROR_INVALID_VALUE,
                        "FACULA_SIM='%s' is not understood: write a device type and a number of devices, as in "
                        "cuda:2 or cuda:2,xpu:1 (at most %d devices)",
                        spec ? spec : "", SIM_DEVICES);
    if (memory && !parse_bytes(memory, &limit))
        return sim_fail(CUDA_ERROR_INVALID_VALUE,
                        "FACULA_SIM_MEMORY='%s' is not understood: write bytes, as in 268435456, 256MiB or 2GiB", memory);
    if (mode && strcmp(mode, "lazy") && strcmp(mode, "eager"))
        return sim_fail(CUDA_ERROR_INVALID_VALUE, "FACULA_SIM_MODE='%s' is not understood: write lazy or eager", mode);
    if (seed) sim.seed = strtoull(seed, &end, 10);
    if (seed && (end == seed || *end))
        return sim_fail(CUDA_ERROR_INVALID_VALUE, "FACULA_SIM_SEED='%s' is not understood: write a whole number", seed);
    if (wrong && !parse_faults(wrong, faults, &nfaults))
        return sim_fail(CUDA_ERROR_INVALID_VALUE,
                        "FACULA_SIM_FAULTS='%s' is not understood: write kinds (alloc, launch, late, copy, lost, build, "
                        "flip, hang, driver, nvrtc, nvml) with the number of the call that fails, as in alloc:5,late:7+ (+: and all later ones)",
                        wrong);
    if (peer && strcmp(peer, "on") && strcmp(peer, "off"))
        return sim_fail(CUDA_ERROR_INVALID_VALUE, "FACULA_SIM_PEER='%s' is not understood: write on or off", peer);
    sim.strangers = peer && !strcmp(peer, "off");
    sim.eager = mode && !strcmp(mode, "eager");
    sim.build = sim_choose_build();
    if (visible) hide_devices(visible);
    for (int i = 0; i < sim.ndevices; i++) {
        sim.device[i].ordinal = i;
        for (int k = 0; k < i; k++) sim.device[i].index += !strcmp(sim.device[k].type, sim.device[i].type);
        sim.device[i].limit = limit;
        sim.device[i].random = sim.seed * 64 + (uint64_t)i;
        if (!sim_reserve(&sim.device[i]))
            return sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "no room in the address space for device %d of %llu bytes", i,
                            (unsigned long long)limit);
    }
    pthread_atfork(NULL, NULL, in_child);
    return CUDA_SUCCESS;
}

static void open_once(void) {
    opened = read_environment();
    if (opened != CUDA_SUCCESS) {
        sim.ndevices = 0;
        snprintf(opened_text, sizeof opened_text, "%s", text);
    }
}

CUresult sim_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return opened == CUDA_SUCCESS ? CUDA_SUCCESS : sim_fail(opened, "%s", opened_text);
}
