# The compiler's flags, for the Makefile and for CMakeLists.txt, which reads every line of the form "NAME := words".

# Equal bits on every machine and device need: no contraction of a * b + c, no errno, no traps. One thread-local block at a
# fixed offset (initial-exec) and hidden symbols keep the hot path short.
FLAGS_COMMON := -std=gnu11 -fPIC -pthread -ffp-contract=off -fno-math-errno -fno-trapping-math -fvisibility=hidden -ftls-model=initial-exec
FLAGS_WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes

# By MODE
FLAGS_release := -O2 -g1 -DNDEBUG -fno-asynchronous-unwind-tables
FLAGS_debug := -O1 -g -DFAI_DEBUG=1
FLAGS_asan := -O1 -g -DFAI_DEBUG=1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
FLAGS_tsan := -O1 -g -DFAI_DEBUG=1 -fno-omit-frame-pointer -fsanitize=thread

# CPU loops are compiled once for each instruction set, with FAI_ISA set to its name, and chosen at start.
ISAS_x86_64 := sse2 avx2 avx512
ISAS_other := generic
# for machines of before 2013: right, and small
ISA_sse2 := -Os -fno-tree-vectorize
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avx512 := -march=skylake-avx512 -mprefer-vector-width=512
ISA_generic :=
FLAGS_ISA := -O2 -ftree-vectorize
# The simulator runs every kernel as plain C over whole work-groups. gen/sim_any.c has all of them, gen/sim_own.c those of float32
# alone, which nearly all work needs: so only these come for the widest registers, and old machines go without.
SIM_ANY_x86_64 := sse2 avx2
SIM_OWN_x86_64 := avx2 avx512
SIM_ANY_other := generic
SIM_OWN_other := generic
FLAGS_SIM := -O3
# For single files (folder/name), behind the flags above. -O3 for all loops makes the library a quarter larger and only these
# faster; an instruction set's own flags come last, so that sse2 stays small.
FLAGS_isa/reduce.c := -O3
FLAGS_isa/scan.c := -O3
FLAGS_isa/recurrent.c := -O3
FLAGS_isa/attention.c := -O3
# Constructors of layers run once, and are many; files wait for disks. "folder/" is all of its files.
FLAGS_gen/layers_gen.c := -Os
FLAGS_io/ := -Os
FLAGS_data/ := -Os
FLAGS_selftest/ := -Os
FLAGS_optim/values.c := -Os
FLAGS_optim/state.c := -Os
FLAGS_nn/ := -Os
# Derivatives that cost far more to compute than to ask for; what every small step goes through stays at -O2.
FLAGS_autograd/ := -Os
FLAGS_autograd/activations.c := -O2
FLAGS_autograd/backwards.c := -O2
FLAGS_autograd/contractions.c := -O2
FLAGS_autograd/engine.c := -O2
FLAGS_autograd/generated.c := -O2
FLAGS_autograd/inplace.c := -O2
FLAGS_autograd/kept.c := -O2
FLAGS_autograd/losses.c := -O2
FLAGS_autograd/metadata.c := -O2
FLAGS_autograd/node.c := -O2
FLAGS_autograd/reductions.c := -O2
FLAGS_autograd/rows.c := -O2
FLAGS_autograd/shapes.c := -O2
FLAGS_autograd/tensors.c := -O2
FLAGS_autograd/writes.c := -O2

LINK_COMMON := -pthread -Wl,-z,relro,-z,now -Wl,-Bsymbolic-functions
LINK_release := -Wl,-z,defs -Wl,-z,noseparate-code
LINK_debug := -Wl,-z,defs
LINK_asan := -fsanitize=address,undefined
LINK_tsan := -fsanitize=thread
LIBS := -lz -ldl -lm
LIBS_SIM := -ldl -lm
