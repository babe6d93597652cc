/* Why a type of device is not there, step by step: what was tried, where it stopped, and how to mend it. */
#include "inside.h"
#include "../backends/cuda/why.h"
#include <stdlib.h>
#include <string.h>

/* Whether FACULA_SIM has an entry for devices of this name. */
static bool sim_names(const char *sim, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = sim; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (!strncmp(at, name, n) && at[n] == ':') return true;
    return false;
}

static void tell_simulated(const char *sim, const char *name, fai_text *out) {
    const char *mistake = fai_sim_mistake();
    if (*mistake) {
        fai_why_step(out, false, "%s", mistake);
        fai_why_mend(out, "FACULA_SIM=%s:2 for two simulated devices, or unset FACULA_SIM for real ones", name);
    } else if (!sim_names(sim, name)) {
        fai_why_step(out, false, "FACULA_SIM=%.200s: simulated devices in place of all real ones, and it names no %s", sim, name);
        fai_why_mend(out, "FACULA_SIM=%.200s,%s:1, or unset FACULA_SIM for real ones", sim, name);
    } else {
        fai_why_step(out, true, "FACULA_SIM=%.200s: simulated devices in place of all real ones", sim);
        fai_cuda_why(out);
    }
}

static void tell_opencl(int type, int count, fai_text *out) {
    if (count > 0) {
        fai_why_step(out, true, "OpenCL's drivers show %d of this kind", count);
        return;
    }
    fai_why_step(out, false, "%s", fai_why_none(type));
    const char *wish = getenv("FACULA_OPENCL");
    if (wish && !strcmp(wish, "off")) {
        fai_why_mend(out, "unset FACULA_OPENCL");
        return;
    }
    fai_why_mend(out, "install the OpenCL driver of your device (`clinfo -l` lists what drivers show)%s",
                 type == FA_DEVICE_OPENCL ? "; a driver for the processor itself, as PoCL, serves with FACULA_OPENCL=cpu" : "");
}

static void tell_plugin(int type, const char *name, int count, fai_text *out) {
    fa_plugin_info plugin;
    bool told = false;
    for (int i = 0; fa_plugin_get(i, &plugin); i++) {
        if (!plugin.problem[0] && strcmp(plugin.name, name)) continue;
        told = true;
        if (plugin.problem[0]) fai_why_step(out, false, "the plug-in %.200s can't be used: %.500s", plugin.path, plugin.problem);
        else fai_why_step(out, true, "the plug-in %.200s brings %d", plugin.path, plugin.devices);
    }
    if (count > 0) return;
    if (!told) fai_why_step(out, false, "%s", fai_why_none(type));
    fai_why_mend(out, "FACULA_PLUGINS=/path/to/%s.so, a plug-in from the device's maker or your own (docs/backend.md)", name);
}

static void tell(int type, const char *name, fai_text *out) {
    const char *sim = getenv("FACULA_SIM");
    const int count = fa_device_count(type);
    if (count) fai_text_add(out, "%s: %d device%s\n", name, count, count == 1 ? "" : "s");
    else fai_text_add(out, "%s: not there\n", name);
    if (type == FA_DEVICE_CPU) {
        fai_why_step(out, true, "the processor is always there");
        return;
    }
    const bool simulated = sim && *sim && !(type == FA_DEVICE_OPENCL && count) && !(type >= FA_DEVICE_NPU && count && !sim_names(sim, name));
    if (simulated) tell_simulated(sim, name, out);
    else if (type == FA_DEVICE_CUDA) fai_cuda_why(out);
    else if (type < FA_DEVICE_NPU) tell_opencl(type, count, out);
    else tell_plugin(type, name, count, out);
    if (!count && !simulated) fai_why_mend(out, "or learn without it: FACULA_SIM=%s:2 gives two simulated ones", name);
}

size_t fa_device_why_not(int type, char *out, size_t n) {
    fai_text text = {0};
    const char *name = fai_type_name(type);
    if (n) out[0] = 0;
    if (!name)
        return fai_fail(FA_ERR_VALUE, "device_why_not", "device type %d is unknown: give FA_DEVICE_CUDA or fa_device_parse(\"cuda\").type", type), 0;
    tell(type, name, &text);
    const size_t length = text.failed ? 0 : text.length;
    if (text.failed) fai_fail_memory("device_why_not", text.room * 2);
    else if (n) snprintf(out, n, "%s", text.data);
    fai_text_free(&text);
    return length;
}
