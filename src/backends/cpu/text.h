/* The CPU's way to run a kernel that exists only as a text: its C build, with groups spread over threads. Read by the generated
 * cpu_text_isa.c, once for each instruction set. Groups of one launch never write to the same place, so threads can't be seen. */
#ifndef FAI_CPU_TEXT_H
#define FAI_CPU_TEXT_H

typedef struct text_call {
    const fa_plan *plan;
    char *const *pointers;
    void (*run)(const fa_plan *plan, char *const *pointers, fa_i64 group);
} text_call;

static void text_groups(void *context, int64_t begin, int64_t end) {
    const text_call *call = context;
    for (int64_t group = begin; group < end; group++) call->run(call->plan, call->pointers, group);
}

/* A group is a few thousand elements of work: two of them are worth a thread. */
#define TEXT_KERNEL(name)                                                    \
    static void text_##name(const fa_plan *plan, char *const *pointers) {    \
        text_call call = {plan, pointers, name};                             \
        fai_parallel(plan->groups, 2, text_groups, &call);                   \
    }

#endif
