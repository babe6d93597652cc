/* Sorting rows on the CPU (kernels/order.k.h describes the plan). An element becomes an unsigned key that is in order, and a pair
 * of key and place is sorted: short rows by merging, long ones by a radix sort, both stable. Keys of up to 32 bits share a word
 * with their place. Where only the first few of a row are asked for, those that can't be among them are left out first. */
#include "../cpu.h"
#include "../../../../kernels/dialect.h"

enum { SHORT = 256, STACK_WORDS = 2 * SHORT * 2, HEAD_BITS = 11, HEADS = 1 << HEAD_BITS };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* ---- keys ---- */

/* Bits of a floating number, in order: negative ones are turned over; both zeros are one, NaN is the largest. */
ALWAYS_INLINE uint64_t float_key(uint64_t bits, int width, uint64_t infinity) {
    const uint64_t sign = 1ull << (width - 1), all = sign | (sign - 1);
    if ((bits & ~sign) > infinity) return all;
    if (bits == sign) bits = 0;
    return bits & sign ? ~bits & all : bits | sign;
}

ALWAYS_INLINE uint64_t key_of(const char *x, int dtype, int64_t i) {
    switch (dtype) {
    case FA_T_BOOL: return ((const uint8_t *)x)[i] != 0;
    case FA_T_UINT8: return ((const uint8_t *)x)[i];
    case FA_T_INT8: return ((const uint8_t *)x)[i] ^ 0x80u;
    case FA_T_INT16: return ((const uint16_t *)(const void *)x)[i] ^ 0x8000u;
    case FA_T_INT32: return ((const uint32_t *)(const void *)x)[i] ^ 0x80000000u;
    case FA_T_INT64: return ((const uint64_t *)(const void *)x)[i] ^ 1ull << 63;
    case FA_T_FLOAT16: return float_key(((const uint16_t *)(const void *)x)[i], 16, 0x7c00u);
    case FA_T_BFLOAT16: return float_key(((const uint16_t *)(const void *)x)[i], 16, 0x7f80u);
    case FA_T_FLOAT32: return float_key(((const uint32_t *)(const void *)x)[i], 32, 0x7f800000u);
    default: return float_key(((const uint64_t *)(const void *)x)[i], 64, 0x7ff0000000000000ull);
    }
}

static int key_bits(int dtype) {
    static const int bits[] = {0, 1, 8, 8, 16, 32, 64, 16, 16, 32, 64};
    return bits[dtype];
}

typedef struct order_job {
    const fa_plan *plan;
    const char *x;
    char *values;
    int64_t *places;
    uint64_t *work;
    int dtype, bits;
    uint64_t flip; /* all bits of a key where the largest is first */
} order_job;

/* Loops over keys, with the commonest type known to the compiler. */
#define FOR_DTYPE(job, call) ((job)->dtype == FA_T_FLOAT32 ? call(FA_T_FLOAT32) : call((job)->dtype))

ALWAYS_INLINE int count_heads(const order_job *job, const char *x, int64_t n, uint32_t *count, int dtype) {
    const int shift = job->bits > HEAD_BITS ? job->bits - HEAD_BITS : 0;
    for (int64_t i = 0; i < n; i++) count[(key_of(x, dtype, i) ^ job->flip) >> shift]++;
    return 0;
}

/* The keys' head decides first: of the places asked for none lies behind the head that is returned. */
static uint64_t last_head(const order_job *job, const char *x, int64_t n, int64_t wanted) {
    uint32_t count[HEADS] = {0};
    int64_t seen = 0;
#define COUNT(dtype) count_heads(job, x, n, count, dtype)
    (void)FOR_DTYPE(job, COUNT);
#undef COUNT
    for (uint64_t head = 0; head < HEADS; head++)
        if ((seen += count[head]) >= wanted) return head;
    return HEADS;
}

static inline void copy_element(char *to, int64_t t, const char *from, int64_t f, size_t bytes) {
    switch (bytes) {
    case 1: to[t] = from[f]; break;
    case 2: memcpy(to + 2 * t, from + 2 * f, 2); break;
    case 4: memcpy(to + 4 * t, from + 4 * f, 4); break;
    default: memcpy(to + 8 * t, from + 8 * f, 8);
    }
}

/* ---- pairs in one word: the key above, the place in the lower 32 bits ---- */
#define PAIR            uint64_t
#define PAIRS(name)     name##_word
#define PAIR_OF(key, i) ((key) << 32 | (uint64_t)(i))
#define KEY(p)          ((p) >> 32)
#define PLACE(p)        ((int64_t)((p)&0xffffffffu))
#include "order_pairs.h"

/* ---- and in two words ---- */
typedef struct wide_pair {
    uint64_t key, place;
} wide_pair;
#define PAIR            wide_pair
#define PAIRS(name)     name##_wide
#define PAIR_OF(key, i) ((wide_pair){(key), (uint64_t)(i)})
#define KEY(p)          ((p).key)
#define PLACE(p)        ((int64_t)(p).place)
#include "order_pairs.h"

static void order_some(void *context, int64_t begin, int64_t end) {
    const order_job *job = context;
    const fa_plan *plan = job->plan;
    const bool word = job->bits <= 32 && plan->n[1] <= UINT32_MAX;
    for (int64_t row = begin; row < end; row++) {
        uint64_t stack[STACK_WORDS], *work = plan->n[1] <= SHORT ? stack : job->work + row * plan->n[5];
        (word ? order_row_word : order_row_wide)(job, row, work);
    }
}

/* In blocks of n[4] <= SHORT elements, when the plan is a device's: each is put in order for itself. */
static void order_blocks(const order_job *whole) {
    const size_t bytes = (size_t)(whole->bits + 7) / 8;
    const int64_t n = whole->plan->n[1], block = whole->plan->n[4];
    fa_plan part = *whole->plan;
    order_job job = *whole;
    job.plan = &part;
    for (int64_t row = 0; row < whole->plan->n[0]; row++)
        for (int64_t begin = 0; begin < n; begin += block) {
            uint64_t stack[STACK_WORDS];
            const int64_t at = row * n + begin;
            part.n[1] = part.n[3] = n - begin < block ? n - begin : block;
            job.x = whole->x + (size_t)at * bytes, job.values = whole->values + (size_t)at * bytes, job.places = whole->places + at;
            (job.bits <= 32 ? order_row_word : order_row_wide)(&job, 0, stack);
            for (int64_t k = 0; k < part.n[1]; k++) job.places[k] += begin;
        }
}

void FAI_NAME(fai_cpu_order_rows)(const fa_plan *plan, char *const *pointers) {
    const int dtype = plan->view[2].dtype, bits = key_bits(dtype);
    order_job job = {plan,
                     pointers[2],
                     pointers[0],
                     (int64_t *)(void *)pointers[1],
                     (uint64_t *)(void *)pointers[3],
                     dtype,
                     bits,
                     plan->n[2] ? ~0ull >> (64 - bits) : 0};
    if (plan->n[4] < plan->n[1]) order_blocks(&job);
    else fai_parallel(plan->n[0], 1 + 2048 / (plan->n[1] + 1), order_some, &job);
}

/* Only instances of a family have a type in their name: the key does for all here. */
void FAI_NAME(fai_cpu_order_rows_f32)(const fa_plan *plan, char *const *pointers) {
    FAI_NAME(fai_cpu_order_rows)(plan, pointers);
}
void FAI_NAME(fai_cpu_order_rows_f64)(const fa_plan *plan, char *const *pointers) {
    FAI_NAME(fai_cpu_order_rows)(plan, pointers);
}
void FAI_NAME(fai_cpu_order_rows_i64)(const fa_plan *plan, char *const *pointers) {
    FAI_NAME(fai_cpu_order_rows)(plan, pointers);
}
