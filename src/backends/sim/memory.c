/* Device memory. Addresses come from a range that is mapped without any access, so a host that follows one is stopped by the
 * processor. The memory behind an allocation is another mapping, known only here, and ends at an inaccessible page, so a
 * kernel that runs past the end is stopped too. Pages that nobody touches cost nothing. */
#define _GNU_SOURCE
#include "sim.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 512, GARBAGE = 0xFF, GARBAGE_BYTES = 1 << 20 };

/* Four times as many addresses as memory: holes between allocations never cause an out of memory that a real device, which
 * maps pages freely, would not report; and a freed address is not given out again soon. */
bool sim_reserve(sim_device *device) {
    device->room = (device->limit + ALIGNMENT) * 4;
    void *base = mmap(NULL, device->room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return false;
    device->base = device->cursor = (uint64_t)(uintptr_t)base;
    return true;
}

/* The first block whose address is greater. */
static size_t upper_bound(const sim_device *device, uint64_t address) {
    size_t low = 0, high = device->nblocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (device->blocks[middle].address > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

const sim_block *sim_find(const sim_device *device, uint64_t address) {
    size_t i = upper_bound(device, address);
    if (i == 0) return NULL;
    const sim_block *block = &device->blocks[i - 1];
    return address - block->address < block->bytes ? block : NULL;
}

char *sim_translate(const sim_device *device, uint64_t address, uint64_t bytes) {
    const sim_block *block = sim_find(device, address);
    if (!block || bytes > block->bytes - (address - block->address)) return NULL;
    return block->memory + (address - block->address);
}

static uint64_t rounded(uint64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* A free range of that many addresses at or after `from`, with an unused one behind it; 0 if there is none. */
static uint64_t find_gap(const sim_device *device, uint64_t from, uint64_t bytes) {
    size_t i = upper_bound(device, from);
    if (i > 0) {
        uint64_t end = device->blocks[i - 1].address + rounded(device->blocks[i - 1].bytes) + ALIGNMENT;
        if (end > from) from = end;
    }
    for (; i < device->nblocks; i++) {
        const sim_block *block = &device->blocks[i];
        if (block->address >= from && block->address - from >= bytes + ALIGNMENT) return from;
        from = block->address + rounded(block->bytes) + ALIGNMENT;
    }
    uint64_t end = device->base + device->room;
    return from <= end && end - from >= bytes + ALIGNMENT ? from : 0;
}

static bool map_memory(sim_block *block) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (rounded(block->bytes) + page - 1) / page * page;
    char *mapping = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return false;
    if (mprotect(mapping + page, size, PROT_READ | PROT_WRITE)) {
        munmap(mapping, size + 2 * page);
        return false;
    }
    block->mapping = mapping;
    block->mapped = size + 2 * page;
    block->memory = mapping + page + size - rounded(block->bytes);
    /* New device memory is not zero: NaN and -1 show where somebody relies on it. */
    memset(block->memory, GARBAGE, block->bytes < GARBAGE_BYTES ? block->bytes : GARBAGE_BYTES);
    return true;
}

static bool grow_table(sim_device *device) {
    if (device->nblocks < device->blocks_room) return true;
    size_t room = device->blocks_room ? device->blocks_room * 2 : 64;
    sim_block *blocks = realloc(device->blocks, room * sizeof *blocks);
    if (!blocks) return false;
    device->blocks = blocks;
    device->blocks_room = room;
    return true;
}

CUresult sim_allocate(sim_device *device, size_t bytes, uint64_t *address) {
    sim_block block = {.bytes = bytes};
    if (bytes > device->limit || rounded(bytes) > device->limit - device->used)
        return sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "%llu of %llu bytes are in use", (unsigned long long)device->used,
                        (unsigned long long)device->limit);
    block.address = find_gap(device, device->cursor, rounded(bytes));
    if (!block.address) block.address = find_gap(device, device->base, rounded(bytes));
    if (!block.address || !grow_table(device) || !map_memory(&block))
        return sim_fail(CUDA_ERROR_OUT_OF_MEMORY, "the host has no memory for it");
    size_t at = upper_bound(device, block.address);
    memmove(device->blocks + at + 1, device->blocks + at, (device->nblocks - at) * sizeof block);
    device->blocks[at] = block;
    device->nblocks++;
    device->used += rounded(bytes);
    device->cursor = block.address + rounded(bytes) + ALIGNMENT;
    *address = block.address;
    return CUDA_SUCCESS;
}

bool sim_free(sim_device *device, uint64_t address) {
    size_t at = upper_bound(device, address);
    if (at == 0 || device->blocks[at - 1].address != address) return false;
    sim_block block = device->blocks[--at];
    munmap(block.mapping, block.mapped);
    device->used -= rounded(block.bytes);
    device->nblocks--;
    memmove(device->blocks + at, device->blocks + at + 1, (device->nblocks - at) * sizeof block);
    return true;
}

void sim_free_all(sim_device *device) {
    while (device->nblocks) sim_free(device, device->blocks[device->nblocks - 1].address);
    free(device->blocks);
    device->blocks = NULL;
    device->blocks_room = 0;
}
