/* An optimizer step for the compute type REAL. Included once for each type. Threads share all chunks of all parameters. */

/* Elements begin .. end-1 of one parameter whose storage type is not REAL: tile by tile. */
static void N(update_converted)(const update_call *c, char *const *at, int64_t begin, int64_t end) {
    REAL tile[5][TILE];
    const int dtype = c->plan->view[0].dtype;
    for (int64_t i = begin; i < end; i += TILE) {
        const int64_t n = end - i < TILE ? end - i : TILE;
        for (int k = 0; k < 5; k++)
            if (at[k]) FAI_NAME(N(fai_cpu_load))(tile[k], at[k] + i * c->bytes, dtype, n);
        N(updates)[c->plan->row](n, tile[0], tile[1], tile[2], tile[3], tile[4], c->plan->f);
        for (int k = 0; k < 5; k++)
            if (at[k] && k != 1) FAI_NAME(N(fai_cpu_store))(at[k] + i * c->bytes, dtype, tile[k], n);
    }
}

static void N(update_chunk)(const update_call *c, int64_t parameter, int64_t chunk) {
    char *at[5];
    const int64_t elements = update_elements(c, parameter), begin = chunk * CHUNK;
    const int64_t end = begin + CHUNK < elements ? begin + CHUNK : elements;
    for (int k = 0; k < 5; k++) at[k] = update_pointer(c, k, parameter);
    if (c->plan->view[0].dtype != OWN_DTYPE) {
        N(update_converted)(c, at, begin, end);
        return;
    }
    REAL *p[5];
    for (int k = 0; k < 5; k++) p[k] = at[k] ? (REAL *)(void *)at[k] + begin : NULL;
    N(updates)[c->plan->row](end - begin, p[0], p[1], p[2], p[3], p[4], c->plan->f);
}

static void N(update_chunks)(void *context, int64_t begin, int64_t end) {
    const update_call *c = context;
    int64_t parameter = 0, first = 0; /* chunk number of the parameter's first */
    for (int64_t at = begin; at < end; at++) {
        while (at >= first + update_chunks(c, parameter)) first += update_chunks(c, parameter++);
        N(update_chunk)(c, parameter, at - first);
    }
}

void FAI_NAME(N(fai_cpu_update))(const fa_plan *plan, char *const *pointers) {
    update_call c = {plan, pointers, fai_cpu_bytes(plan->view[0].dtype)};
    int64_t chunks = 0, elements = 0;
    for (int64_t i = 0; i < update_parameters(&c); i++) chunks += update_chunks(&c, i), elements += update_elements(&c, i);
    fai_parallel(chunks, 1 + WORTH_A_THREAD * chunks / (elements + 1), N(update_chunks), &c);
}

#undef REAL
#undef FA_SUFFIX
#undef OWN_DTYPE
