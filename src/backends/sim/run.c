/* What the worker does with one operation. Before a launch every pointer is checked against the live allocations, by the spans
 * that the plan declares, and replaced by the memory behind it; kernels see nothing else. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const fa_plan *plan_of(const sim_op *op) { return (const fa_plan *)(const void *)op->data; }

/* What is wrong with an address that is not in a live allocation. */
static const char *reason(const sim_device *device, uint64_t address) {
    for (int i = 0; i < sim.ndevices; i++)
        if (&sim.device[i] != device && sim_find(&sim.device[i], address)) return "it belongs to another device";
    if (address >= device->base && address < device->base + device->room)
        return sim_find(device, address) ? "it runs past the end of its allocation"
                                         : "that memory is not allocated (freed, or past an end)";
    return address ? "it is no address of this device" : "it is null";
}

static CUresult illegal(const sim_device *device, const sim_op *op, int argument, uint64_t low, uint64_t high, uint64_t shown,
                        char *why, size_t n) {
    snprintf(why, n, "kernel %s (launch %llu), argument %d: bytes [0x%llx, 0x%llx) of device %d: %s", op->kernel->name,
             (unsigned long long)op->number, argument, (unsigned long long)low, (unsigned long long)high, device->ordinal,
             reason(device, shown));
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* A private copy of a table of pointers, translated. */
static CUresult prepare_table(sim_device *device, const sim_op *op, int k, const char *memory, sim_prepared *out, char *why,
                              size_t n) {
    const fa_plan_view *view = &plan_of(op)->view[k];
    size_t count = (size_t)view->size[0];
    fa_table_entry *copy = malloc(count * sizeof *copy + 1);
    if (!copy) {
        snprintf(why, n, "the host has no memory for the table of kernel %s", op->kernel->name);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    out->table[k] = copy;
    out->pointer[k] = (char *)copy;
    memcpy(copy, memory, count * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        uint64_t address = (uint64_t)copy[i].address, bytes = (uint64_t)copy[i].bytes;
        char *found = sim_translate(device, address, bytes);
        if (!found && (address || bytes)) {
            CUresult bad = illegal(device, op, k, address, address + bytes, address, why, n);
            size_t used = strlen(why);
            snprintf(why + used, n - used, " (entry %zu of the table)", i);
            return bad;
        }
        copy[i].address = (fa_i64)(intptr_t)found;
    }
    return CUDA_SUCCESS;
}

static CUresult prepare_pointer(sim_device *device, const sim_op *op, int k, sim_prepared *out, char *why, size_t n) {
    const fa_plan *plan = plan_of(op);
    const fa_plan_view *view = &plan->view[k];
    uint64_t address = op->pointer[k], low = address + (uint64_t)view->low, bytes = (uint64_t)(view->high - view->low);
    int kind = k < plan->nviews ? view->kind : FA_VIEW_NONE;
    bool table = kind == FA_VIEW_TABLE,
         spans = (kind == FA_VIEW_TENSOR && view->high > view->low) || (table && view->size[0] > 0);
    out->pointer[k] = NULL;
    if (kind == FA_VIEW_SCALAR) return CUDA_SUCCESS;
    if (!spans) { /* nothing may be touched through it, or the plan says nothing about it: a live address will do */
        const sim_block *block = sim_find(device, address);
        if (block) out->pointer[k] = block->memory + (address - block->address);
        if (block || address == 0 || kind != FA_VIEW_NONE) return CUDA_SUCCESS;
        return illegal(device, op, k, address, address + 1, address, why, n);
    }
    if (table && (view->low != 0 || view->high != view->size[0] * (fa_i64)sizeof(fa_table_entry))) {
        snprintf(why, n, "kernel %s, argument %d: a table of %lld entries with bytes [%lld, %lld)", op->kernel->name, k,
                 view->size[0], view->low, view->high);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    char *memory = address ? sim_translate(device, low, bytes) : NULL;
    if (!memory) return illegal(device, op, k, low, low + bytes, address ? low : 0, why, n);
    if (table) return prepare_table(device, op, k, memory, out, why, n);
    out->pointer[k] = (char *)((uintptr_t)memory - (uintptr_t)view->low); /* may lie outside: only [low, high) is touched */
    return CUDA_SUCCESS;
}

static CUresult prepare_copy(sim_device *device, const sim_op *op, sim_prepared *out, char *why, size_t n) {
    for (int k = 0; k < 2; k++) {
        if (!op->pointer[k]) continue;
        const sim_device *there = k == 0 && op->kind == SIM_BETWEEN ? op->peer : device;
        out->pointer[k] = sim_translate(there, op->pointer[k], op->bytes);
        if (out->pointer[k]) continue;
        snprintf(why, n, "copy of %zu bytes at 0x%llx of device %d: %s", op->bytes, (unsigned long long)op->pointer[k],
                 there->ordinal, reason(there, op->pointer[k]));
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

CUresult sim_prepare(sim_device *device, const sim_op *op, sim_prepared *out, char *why, size_t n) {
    memset(out, 0, sizeof *out);
    if (op->kind == SIM_RECORD || op->kind == SIM_WAIT) return CUDA_SUCCESS;
    if (op->kind != SIM_LAUNCH) return prepare_copy(device, op, out, why, n);
    CUresult bad = CUDA_SUCCESS;
    for (int k = 0; k < SIM_POINTERS && bad == CUDA_SUCCESS; k++) bad = prepare_pointer(device, op, k, out, why, n);
    for (int k = 0; k < SIM_POINTERS && bad != CUDA_SUCCESS; k++) {
        free(out->table[k]);
        out->table[k] = NULL;
    }
    return bad;
}

/* Whether all that the kernel reads and writes as numbers is float32. */
static bool all_float32(const fa_plan *plan, unsigned apart) {
    for (int k = 0; k < plan->nviews; k++) {
        bool memory = plan->view[k].kind == FA_VIEW_TENSOR || plan->view[k].kind == FA_VIEW_TABLE;
        if (memory && !(apart >> k & 1) && plan->view[k].dtype != FA_T_FLOAT32) return false;
    }
    return true;
}

static void run_kernel(const sim_op *op, sim_prepared *prepared) {
    const fa_plan *plan = plan_of(op);
    fa_kernel_fn run = op->kernel->run;
    if (!run) {
        const ptrdiff_t number = op->kernel - fa_kernel_table;
        const fa_kernel_fn own = sim.build->own ? sim.build->own[number] : NULL;
        run = own && all_float32(plan, op->kernel->apart) ? own : sim.build->any[number];
    }
    for (unsigned group = 0; group < op->groups; group++) run(plan, prepared->pointer, group);
    for (int k = 0; k < SIM_POINTERS; k++) free(prepared->table[k]);
}

void sim_run(const sim_op *op, sim_prepared *prepared) {
    switch (op->kind) {
    case SIM_LAUNCH: run_kernel(op, prepared); break;
    case SIM_TO_DEVICE: memcpy(prepared->pointer[0], op->host ? op->host : (const void *)op->data, op->bytes); break;
    case SIM_TO_HOST:
        memcpy(op->host, prepared->pointer[1], op->bytes);
        if (op->flip) ((char *)op->host)[op->bytes / 2] ^= 1;
        break;
    case SIM_BETWEEN:
    case SIM_WITHIN: memmove(prepared->pointer[0], prepared->pointer[1], op->bytes); break;
    case SIM_FILL: memset(prepared->pointer[0], op->byte, op->bytes); break;
    case SIM_RECORD:
    case SIM_WAIT: break;
    }
}
