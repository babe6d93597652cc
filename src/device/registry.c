/* Which devices are there. Backends are opened at the first question about a device that they may serve; from then on the
 * table of devices only grows (a plug-in may add to it). One backend may serve devices under several names: the simulator's
 * do, FACULA_SIM=cuda:2,xpu:1. */
#include "inside.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAI_BACKEND(name, type_of, types) const fa_backend *fai_backend_##name(void);
#include "backends.def"
#undef FAI_BACKEND
const char *fai_cuda_simulated_type(int device);
const char *fai_opencl_type(int device);
bool fai_opencl_counts(void);

static struct { const fa_backend *(*get)(void); const char *(*type_of)(int device), *types; bool opened; } builtin[] = {
#define FAI_BACKEND(name, type_of, types) {fai_backend_##name, type_of, types, false},
#include "backends.def"
#undef FAI_BACKEND
};

static fai_dev *devices[FAI_DEVICES];              /* all of them, in order of opening */
static atomic_int ndevices;
static fai_dev *by_type[FAI_TYPES][FAI_DEVICES];
static atomic_int count_of[FAI_TYPES];
static char why_none[FAI_TYPES][1024];             /* why a type has no device, in the backend's words */
static bool unusable[FAI_TYPES];                   /* something is there, but can't be used */
static char sim_mistake[512];                      /* what is wrong with FACULA_SIM */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint opened_for; /* bit t: every backend that may serve type t is open */
static atomic_bool forked_child;

/* ---- fork: a driver does not survive it ---- */

static void child_after_fork(void) {
    if (atomic_load(&ndevices) > 0) atomic_store(&forked_child, true);
}

bool fai_forked_child(void) { return FAI_UNLIKELY(atomic_load_explicit(&forked_child, memory_order_relaxed)); }

bool fai_fail_forked(const char *op) {
    return fai_fail(
        FA_ERR_RUNTIME, op,
        "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
        "'spawn' start method. The parent process had opened its devices before it forked; the CPU works here, or start the "
        "child as a new program (fork and exec), or fork before the first use of a device");
}

/* ---- opening ---- */

/* One entry of FACULA_SIM: letters, a colon, a number from 1 to 64. Returns what follows it, NULL if it is none. */
static const char *sim_entry(const char *text) {
    size_t n = 0;
    while ((text[n] >= 'a' && text[n] <= 'z') || text[n] == '_') n++;
    if (n == 0 || n > 15 || text[n] != ':' || text[n + 1] < '1' || text[n + 1] > '9') return NULL;
    char *end;
    long count = strtol(text + n + 1, &end, 10);
    return count > FAI_DEVICES ? NULL : end;
}

static bool sim_is_right(void) {
    const char *text = getenv("FACULA_SIM"), *at = text;
    if (!text || !*text) return true;
    while ((at = sim_entry(at)) && *at == ',') at++;
    if (at && !*at) return true;
    snprintf(sim_mistake, sizeof sim_mistake,
             "FACULA_SIM='%.100s' is not understood. Write a device type, a colon and a number from 1 to %d, or "
             "a list of these: FACULA_SIM=cuda:2 or FACULA_SIM=cuda:2,xpu:1",
             text, FAI_DEVICES);
    return false;
}

static fai_dev *new_device(const fa_backend *backend, int ordinal, int type) {
    fai_dev *dev = fai_calloc(FAI_TAG_OTHER, sizeof *dev);
    if (!dev) return NULL;
    dev->backend = backend;
    dev->ordinal = ordinal;
    dev->name = fa_device_of_type(type, atomic_load(&count_of[type]));
    fai_allocator_init(dev);
    pthread_mutex_init(&dev->streams_lock, NULL);
    pthread_mutex_init(&dev->launch_lock, NULL);
    pthread_mutex_init(&dev->build_lock, NULL);
    fai_stream_init(dev, &dev->main, 0);
    return dev;
}

/* A contract of an older header ends earlier: what it leaves out is NULL. */
static const fa_backend *completed(const fa_backend *backend) {
    if (backend->struct_size >= sizeof *backend) return backend;
    fa_backend *whole = fai_calloc(FAI_TAG_OTHER, sizeof *whole);
    if (whole) memcpy(whole, backend, backend->struct_size);
    return whole;
}

/* The choice of devices as it was when they were opened; a later one is not read any more. */
static struct { bool read, warned; char text[256]; } visible;

static const char *visible_now(void) {
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    return text ? text : "";
}

static void warn_of_late_choice(void) {
    if (!visible.read || __atomic_load_n(&visible.warned, __ATOMIC_RELAXED) || strncmp(visible.text, visible_now(), sizeof visible.text - 1) == 0) return;
    if (__atomic_exchange_n(&visible.warned, true, __ATOMIC_RELAXED)) return;
    fai_warn("device_count", "CUDA_VISIBLE_DEVICES was changed to '%.100s' after the devices had been opened with '%.100s': it is read once, at the first use of a "
             "device. Set it before that, best before the program starts.", visible_now(), visible.text);
}

/* With the lock held. A device that there is no memory for counts as absent, and the reason says so. */
static int add_devices(const fa_backend *backend, const char *(*type_of)(int)) {
    int own_type = fai_type_add(backend->name), count = 0;
    if (!own_type) return 0;
    if (backend->struct_size < FAI_BACKEND_LEAST || backend->abi != FA_BACKEND_ABI) {
        snprintf(why_none[own_type], sizeof why_none[own_type], "the backend '%s' was built for another version of the contract",
                 backend->name);
        return own_type;
    }
    if (!(backend = completed(backend))) {
        snprintf(why_none[own_type], sizeof why_none[own_type], "no memory for the description of its backend");
        return own_type;
    }
    if (own_type == FA_DEVICE_CUDA && !visible.read) {
        snprintf(visible.text, sizeof visible.text, "%s", visible_now());
        __atomic_store_n(&visible.read, true, __ATOMIC_RELEASE);
    }
    if (backend->open(&count, why_none[own_type], sizeof why_none[own_type]) != 0) count = 0;
    if (why_none[own_type][0] == '!') {
        unusable[own_type] = true;
        memmove(why_none[own_type], why_none[own_type] + 1, strlen(why_none[own_type]));
    }
    for (int i = 0; i < count; i++) {
        const char *name = type_of ? type_of(i) : NULL;
        int type = name ? fai_type_add(name) : own_type, total = atomic_load(&ndevices);
        fai_dev *dev = type && total < FAI_DEVICES ? new_device(backend, i, type) : NULL;
        if (!dev) {
            snprintf(why_none[own_type], sizeof why_none[own_type], "no room for the description of device %d of '%s'", i,
                     backend->name);
            break;
        }
        dev->number = total;
        devices[total] = by_type[type][dev->name.index] = dev;
        atomic_store(&ndevices, total + 1);
        atomic_store(&count_of[type], dev->name.index + 1);
    }
    return own_type;
}

/* A plug-in's. What is wrong is written into why. */
static int add_plugin(const fa_backend *backend, char *why, size_t n) {
    int type = fai_type_add(backend->name), before = type ? atomic_load(&count_of[type]) : 0;
    if (!type || type == FA_DEVICE_CPU || before > 0) {
        if (!type)
            snprintf(why, n, "'%.60s' can't be a device's name: 1 to 15 letters, and at most %d names in all", backend->name,
                     FAI_TYPES - 1);
        else if (type == FA_DEVICE_CPU) snprintf(why, n, "the name '%.60s' is taken", backend->name);
        else snprintf(why, n, "the name '%.60s' is taken: there are devices of that name already", backend->name);
        return 0;
    }
    add_devices(backend, NULL);
    int count = atomic_load(&count_of[type]);
    if (!count) snprintf(why, n, "it finds no device%s%.300s", why_none[type][0] ? ": " : "", why_none[type]);
    return count;
}

/* As PyTorch does when it is asked how many devices there are. */
static void warn_of_unusable(void) {
    char upper[16];
    for (int type = 1; type < FAI_TYPES; type++) {
        if (!unusable[type] || type >= FA_DEVICE_NPU) continue; /* plug-ins have a warning of their own */
        fai_type_upper(upper, type);
        fai_warn(fai_type_name(type), "%s initialization: %s", upper, why_none[type]);
    }
}

static void finish_devices(void) {
    for (int i = 0; !fai_forked_child() && i < atomic_load(&ndevices); i++) {
        if (!atomic_load(&devices[i]->touched)) continue; /* waiting would make its driver set it up */
        fai_queue_wait(devices[i], "synchronize");
        fai_queue_end(devices[i]);
    }
}

static void drop_device_caches(void) {
    for (int i = 0; !fai_forked_child() && i < atomic_load(&ndevices); i++) {
        fai_release_unused(devices[i]);
        fai_trace_drop(devices[i]);
    }
}

static void open_hooks(void) {
    static bool hooked;
    if (hooked) return;
    hooked = true;
    fai_on_finish(finish_devices);
    fai_on_cache_drop(drop_device_caches);
    pthread_atfork(NULL, NULL, child_after_fork);
}

static bool may_serve(const char *types, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = types; at && (at = strstr(at, name)); at += n)
        if ((at == types || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return !types;
}

void fai_open_backends(int type) {
    const unsigned bit = 1u << type;
    const char *name = fai_type_name(type);
    if (FAI_LIKELY(atomic_load_explicit(&opened_for, memory_order_acquire) & bit) || fai_forked_child()) return;
    pthread_mutex_lock(&open_lock);
    const bool first = !atomic_load(&opened_for), right = sim_is_right();
    open_hooks();
    for (size_t i = 0; right && i < sizeof builtin / sizeof builtin[0]; i++) {
        if (builtin[i].opened || !may_serve(builtin[i].types, name ? name : "-")) continue;
        builtin[i].opened = true;
        add_devices(builtin[i].get(), builtin[i].type_of);
    }
    if (first) fai_plugins_open(add_plugin);
    atomic_fetch_or_explicit(&opened_for, bit, memory_order_release);
    pthread_mutex_unlock(&open_lock);
    if (first) warn_of_unusable();
    if (first) fai_plugins_warn();
}

int fai_backend_add(const fa_backend *backend, const char *(*type_of)(int device)) {
    pthread_mutex_lock(&open_lock);
    open_hooks();
    int type = add_devices(backend, type_of);
    pthread_mutex_unlock(&open_lock);
    return type;
}

/* ---- asking ---- */

static int count_of_type(int type) {
    if (type == FA_DEVICE_CPU) return 1;
    if (type < 1 || type >= FAI_TYPES) return 0;
    fai_open_backends(type);
    return atomic_load(&count_of[type]);
}

int fa_device_count(int type) {
    const int count = count_of_type(type);
    if (type == FA_DEVICE_CUDA) warn_of_late_choice();
    return count;
}

bool fa_device_is_available(int type) { return count_of_type(type) > 0; }

fa_device fa_accelerator(void) {
    static const int first[] = {FA_DEVICE_CUDA, FA_DEVICE_XPU, FA_DEVICE_MPS};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        if (count_of_type(first[i]) > 0) return fa_device_of_type(first[i], -1);
    for (int type = FA_DEVICE_NPU; type < FAI_TYPES; type++)
        if (count_of_type(type) > 0) return fa_device_of_type(type, -1);
    if (count_of_type(FA_DEVICE_OPENCL) > 0 && fai_opencl_counts()) return fa_device_of_type(FA_DEVICE_OPENCL, -1);
    return fa_device_of_type(0, 0);
}

fa_device fa_try_accelerator(int index) {
    fa_device device = fa_accelerator();
    if (!device.type || index < 0 || index >= count_of_type(device.type)) return FA_CPU;
    return fa_device_of_type(device.type, index);
}

fai_dev *fai_dev_number(int n) { return n < atomic_load(&ndevices) ? devices[n] : NULL; }

fai_dev *fai_dev_find(fa_device device) {
    if (device.type <= FA_DEVICE_CPU || device.type >= FAI_TYPES) return NULL;
    int index = device.index < 0 ? fai_tls.current_device[device.type] : device.index;
    return index < count_of_type(device.type) ? by_type[device.type][index] : NULL;
}

const char *fai_why_none(int type) {
    const char *list = getenv("FACULA_PLUGINS");
    if (why_none[type][0]) return why_none[type];
    if (type >= FA_DEVICE_NPU) return list && *list ? "no plug-in of FACULA_PLUGINS brings it" : "it comes by a plug-in, and FACULA_PLUGINS is not set";
    if (type != FA_DEVICE_XPU && type != FA_DEVICE_MPS) return "";
    if (why_none[FA_DEVICE_OPENCL][0]) return why_none[FA_DEVICE_OPENCL];
    return type == FA_DEVICE_XPU ? "OpenCL's drivers show devices, as opencl:0, but none is an Intel GPU"
                                 : "OpenCL's drivers show devices, as opencl:0, but none is Apple's GPU";
}
const char *fai_sim_mistake(void) { return sim_mistake; }

static bool fail_none(int type, const char *op) {
    char why[2048];
    const char *name = fai_type_name(type), *sim = getenv("FACULA_SIM");
    snprintf(why, sizeof why, "%s", name ? fai_why_none(type) : "");
    const char *const problems = why + strlen(why); /* of plug-ins, behind the reason */
    fai_plugins_add_problems(why, sizeof why);
    if (sim_mistake[0]) return fai_fail(FA_ERR_RUNTIME, op, "%s", sim_mistake);
    if (!name)
        return fai_fail(FA_ERR_RUNTIME, op,
                        "device type %d is unknown; make devices with fa_device_parse(\"cuda\") or FA_CUDA(0)", type);
    if (!why_none[type][0] && fai_fail_unserved(type, op)) return false;
    if (unusable[type] || strncmp(why, "No CUDA GPUs are available", 26) == 0) { /* PyTorch's sentences for these */
        const size_t used = strlen(why);
        if (!sim || !*sim) snprintf(why + used, sizeof why - used, ", or learn without a GPU: FACULA_SIM=%s:2 in the environment", name);
        return fai_fail(FA_ERR_RUNTIME, op, "%s", why);
    }
    if (sim && *sim && why_none[FA_DEVICE_CUDA][0])
        return fai_fail(FA_ERR_RUNTIME, op, "the simulated devices of FACULA_SIM=%.100s could not be opened: %s", sim,
                        why_none[FA_DEVICE_CUDA]);
    if (sim && *sim)
        return fai_fail(FA_ERR_RUNTIME, op, "Found no %s device: FACULA_SIM=%.100s names none. Add one: FACULA_SIM=%.100s,%s:1%s",
                        name, sim, sim, name, problems);
    char learn[160];
    snprintf(learn, sizeof learn, "To learn without a GPU, run with FACULA_SIM=%s:2 in the environment: two simulated GPUs.",
             name);
    if (type != FA_DEVICE_CUDA)
        return fai_fail(FA_ERR_RUNTIME, op, "Found no %s device on your system%s%s. %s", name, *why ? ": " : "", why, learn);
    return fai_fail(FA_ERR_RUNTIME, op,
                    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver "
                    "from http://www.nvidia.com/Download/index.aspx. %s%s%s%s",
                    learn, *why ? " (" : "", why, *why ? ")" : "");
}

static bool fail_ordinal(fa_device device, int count, const char *op) {
    char upper[16];
    const char *name = fai_type_name(device.type);
    fai_type_upper(upper, device.type);
    if (count == 1)
        return fai_fail(FA_ERR_DEVICE, op,
                        "%s error: invalid device ordinal. %s:%d was asked for, but there is 1 device of this type: "
                        "%s:0",
                        upper, name, device.index, name);
    return fai_fail(FA_ERR_DEVICE, op,
                    "%s error: invalid device ordinal. %s:%d was asked for, but there are %d devices of this type: %s:0 to %s:%d",
                    upper, name, device.index, count, name, name, count - 1);
}

/* A driver that answers a simple question again has brought the device back (a reset; the simulator after a test's fault). */
static bool is_back(fai_dev *dev) {
    uint64_t free_bytes, total_bytes;
    if (dev->backend->memory_info(dev->ordinal, &free_bytes, &total_bytes) != 0) return false;
    atomic_store(&dev->lost, false);
    return true;
}

static void fail_lost(const fai_dev *dev, const char *op) {
    fai_fail(FA_ERR_DEVICE, op,
             "%s. The driver gave up %s after this error: nothing more can be done on it in this process; save what is on "
             "other devices and start again",
             dev->lost_text, fa_device_text(dev->name));
}

fai_dev *fai_dev_get(fa_device device, const char *op) {
    if (fai_forked_child()) {
        fai_fail_forked(op);
        return NULL;
    }
    int type = device.type, count = count_of_type(type);
    if (device.index < 0 && count > 0) device.index = fai_tls.current_device[type];
    if (count == 0 || device.index >= count) {
        if (count == 0) fail_none(type, op);
        else fail_ordinal(device, count, op);
        return NULL;
    }
    fai_dev *dev = by_type[type][device.index];
    if (FAI_LIKELY(!atomic_load_explicit(&dev->lost, memory_order_relaxed)) || is_back(dev)) return dev;
    fail_lost(dev, op);
    return NULL;
}

bool fai_device_resolve(fa_device *device, const char *op) {
    if (device->type == 0) *device = fa_default_device();
    if (FAI_LIKELY(device->type == FA_DEVICE_CPU)) {
        device->index = -1;
        return true;
    }
    fai_dev *dev = fai_dev_get(*device, op);
    if (dev) *device = dev->name;
    return dev != NULL;
}

/* ---- what went wrong ---- */

bool fai_fail_backend(fai_dev *dev, int code, const char *op, const char *doing) {
    const char *text = dev->backend->error_text();
    if (code == FA_BACKEND_LOST && !atomic_load(&dev->lost)) {
        snprintf(dev->lost_text, sizeof dev->lost_text, "%s", text);
        fai_spoil_lost(dev, op);
        atomic_store(&dev->lost, true);
    }
    return fai_fail(FA_ERR_DEVICE, op, "%s. This happened on %s while %s", text, fa_device_text(dev->name), doing);
}

/* ---- properties ---- */

static bool cpu_properties(fa_device_properties *out) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name%*[^:]: %127[^\n]", out->name) == 1) break;
    if (file) fclose(file);
    if (!out->name[0]) snprintf(out->name, sizeof out->name, "CPU");
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), cores = sysconf(_SC_NPROCESSORS_ONLN);
    out->total_memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    out->multiprocessors = cores > 0 ? (int)cores : 1;
    out->threads_per_multiprocessor = out->warp_size = 1;
    out->has_float64 = true;
    snprintf(out->driver, sizeof out->driver, "host");
    return true;
}

bool fa_device_get_properties(fa_device device, fa_device_properties *out) {
    memset(out, 0, sizeof *out);
    if (!fai_device_resolve(&device, "get_device_properties")) return false;
    if (device.type == FA_DEVICE_CPU) return cpu_properties(out);
    fai_dev *dev = fai_dev_find(device);
    int code = dev->backend->properties(dev->ordinal, out);
    return code == 0 || fai_fail_backend(dev, code, "get_device_properties", "asking for its properties");
}
