/* Why there is no cuda device, or why one that is there can't be used: the steps of opening, from what they left behind. */
#include "cuda.h"
#include "why.h"
#include <stdlib.h>

fai_cuda_opening fai_cuda_seen;

void fai_why_step(fai_text *out, bool fine, const char *format, ...) {
    char line[1400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fai_text_add(out, "  %-5s %s\n", fine ? "ok" : "stop", line);
}

void fai_why_mend(fai_text *out, const char *format, ...) {
    char line[1400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fai_text_add(out, "  mend  %s\n", line);
}

static bool tell_driver(fai_text *out) {
    const fai_cuda_opening *seen = &fai_cuda_seen;
    if (!seen->found) {
        fai_why_step(out, false, "libcuda.so.1, a part of NVIDIA's driver, can't be opened: %s", seen->error);
        fai_why_mend(out, "install the driver of your GPU (http://www.nvidia.com/Download/index.aspx); in a container, give it the GPUs "
                          "(docker run --gpus all)");
        return false;
    }
    fai_why_step(out, true, "the driver's library is there: %s", seen->file);
    const bool fine = seen->version >= FAI_CUDA_OLDEST && !seen->missing;
    if (seen->missing) fai_why_step(out, false, "it is of CUDA %d.%d and has no function %s", seen->version / 1000, seen->version % 1000 / 10, seen->missing);
    else fai_why_step(out, fine, "it is of CUDA %d.%d (%d); %d.%d or newer is needed", seen->version / 1000, seen->version % 1000 / 10, seen->version,
                      FAI_CUDA_OLDEST / 1000, FAI_CUDA_OLDEST % 1000 / 10);
    if (!fine) fai_why_mend(out, "update the driver: http://www.nvidia.com/Download/index.aspx");
    return fine;
}

static bool tell_devices(fai_text *out) {
    const fai_cuda_opening *seen = &fai_cuda_seen;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (seen->problem[0]) {
        fai_why_step(out, false, "it does not start: %s", seen->problem);
        fai_why_mend(out, "see whether `nvidia-smi` works; after an update of the driver restart the machine");
        return false;
    }
    if (seen->devices > 0) {
        fai_why_step(out, true, "it shows %d device%s%s%.100s", seen->devices, seen->devices == 1 ? "" : "s",
                     visible ? "; CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "");
        return true;
    }
    if (visible) {
        fai_why_step(out, false, "it shows no device: CUDA_VISIBLE_DEVICES='%.100s' hides those that there are", visible);
        fai_why_mend(out, "unset CUDA_VISIBLE_DEVICES, or name one: CUDA_VISIBLE_DEVICES=0");
    } else {
        fai_why_step(out, false, "it shows no device");
        fai_why_mend(out, "see whether `nvidia-smi -L` lists one; in a container, give it the GPUs (docker run --gpus all)");
    }
    return false;
}

static void tell_compiler(fai_text *out) {
    char why[512];
    int major = 0, minor = 0;
    if (!fai_cuda_load_nvrtc(why, sizeof why)) {
        fai_why_step(out, false, "%s", why);
        fai_why_mend(out, "pip install nvidia-cuda-nvrtc-cu12 (for a driver of CUDA 12) or nvidia-cuda-nvrtc, or CUDA_HOME=/path/to/the/toolkit");
        return;
    }
    fai_cuda_nvrtc.version(&major, &minor);
    fai_why_step(out, true, "kernels are compiled by NVRTC %d.%d: %s", major, minor, fai_cuda_nvrtc_file());
}

static void tell_libraries(fai_text *out) {
    fa_library_info info;
    for (int i = 0; fai_cuda_library.get(i, &info); i++) {
        if (info.usable) fai_why_step(out, true, "%s %llu is used: %s", info.name, (unsigned long long)info.version, info.file);
        else fai_why_step(out, true, "%s is not used (%s); Facula's own kernels do its work", info.name, info.why);
    }
}

void fai_cuda_why(fai_text *out) {
    if (!tell_driver(out) || !tell_devices(out)) return;
    tell_compiler(out);
    tell_libraries(out);
}
