/* Plug-ins: shared libraries that bring a kind of device, FACULA_PLUGINS=./npu.so:/opt/other.so. Each exports
 * `const fa_backend *fa_plugin(void)`. They are opened with the backends that are built in, and stay. One that can't be used is
 * told of once, as a warning, and again wherever a device is looked for in vain; the others are used all the same. */
#define _GNU_SOURCE
#include "inside.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { PLUGINS = 8 };
static fa_plugin_info plugins[PLUGINS];
static atomic_int nplugins;

/* What is missing in a backend, NULL if nothing is. The functions stand in a row, from open on; those of pinned memory may be
 * left out. */
static const char *missing_function(const fa_backend *backend) {
    static const char *const names[] = {
        "open", "close", "properties", "error_text", "allocate", "release", "memory_info", "copy", "fill", "stream_create",
        "stream_destroy", "stream_wait", "event_create", "event_destroy", "event_record", "event_wait", "stream_wait_event",
        "event_query", "event_elapsed", "build", "unload", "find", "launch"};
    const char *at = (const char *)backend + offsetof(fa_backend, open);
    _Static_assert(sizeof names / sizeof names[0] * sizeof(void (*)(void)) ==
                       offsetof(fa_backend, host_allocate) - offsetof(fa_backend, open),
                   "a name for each function of the contract");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void (*function)(void);
        memcpy(&function, at + i * sizeof function, sizeof function);
        if (!function) return names[i];
    }
    return NULL;
}

static bool is_dialect(const char *name) {
    return strcmp(name, "c") == 0 || strcmp(name, "cuda") == 0 || strcmp(name, "opencl") == 0;
}

static const fa_backend *load(const char *path, char *why, size_t n) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const fa_backend *(*function)(void) = NULL;
    const char *said = library ? "" : dlerror();
    if (!library) return snprintf(why, n, "it can't be opened: %.400s", said ? said : "no reason given"), NULL;
    *(void **)&function = dlsym(library, "fa_plugin");
    const fa_backend *backend = function ? function() : NULL;
    if (!function)
        snprintf(why, n, "it has no function 'fa_plugin': export `const fa_backend *fa_plugin(void)` (docs/backend.md)");
    else if (!backend) snprintf(why, n, "its function 'fa_plugin' gave NULL");
    else if (backend->abi != FA_BACKEND_ABI || backend->struct_size < FAI_BACKEND_LEAST)
        snprintf(why, n, "it was built for version %u of the contract (fa_backend of %u bytes), and this library has version %d (%zu "
                         "bytes): build it anew with this library's headers",
                 backend->abi, backend->struct_size, FA_BACKEND_ABI, sizeof *backend);
    else if (!backend->name || !backend->dialect || !is_dialect(backend->dialect))
        snprintf(why, n, "its backend '%.60s' names the dialect '%.60s', and there are \"c\", \"cuda\" and \"opencl\"",
                 backend->name ? backend->name : "without a name", backend->dialect ? backend->dialect : "none");
    else if (missing_function(backend))
        snprintf(why, n, "its backend '%.60s' leaves out the function '%s'", backend->name, missing_function(backend));
    else return backend;
    if (library) dlclose(library);
    return NULL;
}

static void open_plugin(fa_plugin_info *plugin, int (*add)(const fa_backend *backend, char *why, size_t n)) {
    const fa_backend *backend = load(plugin->path, plugin->problem, sizeof plugin->problem);
    if (!backend) return;
    snprintf(plugin->name, sizeof plugin->name, "%s", backend->name);
    plugin->devices = add(backend, plugin->problem, sizeof plugin->problem);
}

void fai_plugins_open(int (*add)(const fa_backend *backend, char *why, size_t n)) {
    const char *list = getenv("FACULA_PLUGINS");
    for (const char *at = list; at && *at;) {
        const size_t n = strcspn(at, ":");
        const int number = atomic_load(&nplugins);
        if (n > 0 && number < PLUGINS) {
            fa_plugin_info *plugin = &plugins[number];
            const bool bare = !memchr(at, '/', n); /* a name alone is a file of this folder, as for every other program */
            const int length = snprintf(plugin->path, sizeof plugin->path, "%s%.*s", bare ? "./" : "", (int)n, at);
            if (length < (int)sizeof plugin->path) open_plugin(plugin, add);
            else snprintf(plugin->problem, sizeof plugin->problem, "its path is longer than %zu letters", sizeof plugin->path - 1);
            atomic_store(&nplugins, number + 1);
        } else if (n > 0) {
            fa_plugin_info *last = &plugins[PLUGINS - 1];
            snprintf(last->problem, sizeof last->problem,
                     "FACULA_PLUGINS names more than %d plug-ins: those from the %dth on are left out", PLUGINS, PLUGINS + 1);
        }
        at += n + (at[n] == ':');
    }
}

void fai_plugins_warn(void) {
    fai_text text = {0};
    for (int i = 0; i < atomic_load(&nplugins); i++)
        if (plugins[i].problem[0]) fai_text_add(&text, "%s%s: %s", text.length ? "; " : "", plugins[i].path, plugins[i].problem);
    if (text.data) fai_warn("FACULA_PLUGINS", "a plug-in can't be used: %s", text.data);
    fai_text_free(&text);
}

bool fa_plugin_get(int number, fa_plugin_info *out) {
    fa_device_count(FA_DEVICE_CUDA); /* opens them */
    if (number < 0 || number >= atomic_load(&nplugins)) return false;
    *out = plugins[number];
    return true;
}

void fai_plugins_add_problems(char *text, size_t n) {
    size_t used = strlen(text);
    for (int i = 0; i < atomic_load(&nplugins) && used < n; i++)
        if (plugins[i].problem[0])
            used += (size_t)snprintf(text + used, n - used, ". The plug-in %.200s can't be used: %.400s", plugins[i].path,
                                     plugins[i].problem);
}
