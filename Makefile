# Builds Facula. There is no list of sources: what lies in a folder is built. `make help` tells the targets.
#
#   tools/gen_*.py  ->  build/<mode>/{include,gen}/  ->  libfacula.so.0, libfacula.a, libfacula_sim.so, bin/facula
#
# The loops of src/backends/cpu/isa/ and gen/*_isa.c are compiled once for each instruction set (tools/flags.mk).

MODE ?= release
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
CC ?= cc
CFLAGS ?=
LDFLAGS ?=
JOBS ?= 2

include tools/flags.mk
B := build/$(MODE)
VERSION := $(shell sed -n 's/^\#define FA_VERSION_TEXT "\(.*\)"/\1/p' include/fa_base.h)
comma := ,
TARGET := $(shell $(CC) -dumpmachine)
MACHINE := $(if $(findstring x86_64,$(TARGET)),x86_64,other)
ISAS := $(ISAS_$(MACHINE))

ifeq ($(FLAGS_$(MODE)),)
$(error MODE=$(MODE): choose release, debug, asan or tsan)
endif

# These do their work in a make of their own, after tools/setup.sh; nothing is generated for them here.
FRONT := help setup demo check check-opencl check-faults check-asan check-tsan soak clean
all:
.PHONY: all python $(FRONT) run-demo run-tests programs install install-strip dist compile_commands.json
.DELETE_ON_ERROR:

# ---- Generated files: made before this Makefile is read to its end, so that the wildcards below see them ---------------
# Files whose text did not change keep their date: a change to one row rebuilds what it touches and no more.
GENERATORS := $(sort $(wildcard tools/gen_*.py))
GENERATED_FROM := $(wildcard tools/*.py include/sys/fa_plan.h src/*/*.tab python/*.tab kernels/*.h kernels/*.tab) \
	$(shell find python/facula -name '*.py')
HAVE_PYTHON := $(shell command -v python3)
ifneq ($(filter-out $(FRONT),$(or $(MAKECMDGOALS),all)),)
-include $(B)/generated.mk
endif

ifneq ($(HAVE_PYTHON),)
$(B)/generated.mk: $(GENERATED_FROM) Makefile
	@rm -rf $(B)/fresh && mkdir -p $(B)/fresh $(B)/include $(B)/gen
	@set -e; for g in $(GENERATORS); do echo "  GEN  $$g"; python3 -B $$g --out $(B)/fresh; done
	@sh tools/sync.sh $(B)/fresh $(B) include gen docs && rm -rf $(B)/fresh
	@echo "# made by the generators in tools/" > $@
else ifneq ($(wildcard generated/include),)
$(B)/generated.mk: $(wildcard generated/*/*)
	@mkdir -p $(B) && cp -Rp generated/include generated/gen $(B)/ && echo "# copied from generated/" > $@
else
$(B)/generated.mk:
	$(error python3 is needed to make the generated files (a release tarball brings them along): run tools/setup.sh)
endif

# ---- Sources -------------------------------------------------------------------------------------------------------------
ISA_SOURCES := $(wildcard src/backends/cpu/isa/*.c $(B)/gen/*_isa.c)
SIM_KERNELS := $(B)/gen/sim_any.c $(B)/gen/sim_own.c
SIM_SOURCES := $(wildcard src/backends/sim/*.c) $(B)/gen/sim_kernels_gen.c
LIB_SOURCES := $(filter-out $(ISA_SOURCES) $(SIM_SOURCES) $(SIM_KERNELS),$(wildcard src/*/*.c src/backends/*/*.c $(B)/gen/*.c))
CLI_SOURCES := $(wildcard cli/*.c)
TEST_SOURCES := $(wildcard tests/test_*.c)
# ONLY='nn* data' and TAG=threads choose among the tests: the rest is not even built.
TAGGED_TESTS := $(if $(TAG),$(shell grep -l 'test-tags:.*$(TAG)' tests/test_*.c),$(if $(OPENCL),$(shell grep -l 'test-env.*FACULA_OPENCL=cpu' tests/test_*.c),$(TEST_SOURCES)))
CHOSEN_TESTS := $(filter $(or $(patsubst %,tests/test_%.c,$(subst *,%,$(ONLY))),%),$(TAGGED_TESTS))
SUPPORT_SOURCES := $(wildcard tests/support/*.c)
EXAMPLE_SOURCES := $(wildcard examples/*.c)
BENCH_SOURCES := $(wildcard bench/*.c)

object = $(patsubst %.c,$(B)/obj/%.o,$(patsubst $(B)/%,%,$(1)))
isa_object = $(foreach isa,$(ISAS),$(patsubst %.c,$(B)/obj/$(isa)/%.o,$(patsubst $(B)/%,%,$(1))))
LIB_OBJECTS := $(call object,$(LIB_SOURCES)) $(call isa_object,$(ISA_SOURCES))
SIM_OBJECTS := $(call object,$(SIM_SOURCES)) $(foreach isa,$(SIM_ANY_$(MACHINE)),$(B)/obj/sim_$(isa)/gen/sim_any.o) \
	$(foreach isa,$(SIM_OWN_$(MACHINE)),$(B)/obj/sim_$(isa)/gen/sim_own.o)
TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(TEST_SOURCES))
EXAMPLES := $(patsubst examples/%.c,$(B)/examples/%,$(EXAMPLE_SOURCES))
BENCHES := $(patsubst bench/%.c,$(B)/bench/%,$(BENCH_SOURCES))

CPPFLAGS_ALL := -Iinclude -I$(B)/include -I$(B)/gen -Isrc -I. $(CPPFLAGS)
CFLAGS_ALL := $(FLAGS_COMMON) $(FLAGS_WARN) $(FLAGS_$(MODE)) $(CFLAGS)
LDFLAGS_ALL := $(LINK_COMMON) $(LDFLAGS)
own_flags = $(FLAGS_$(notdir $(patsubst %/,%,$(dir $(1))))/) $(FLAGS_$(notdir $(patsubst %/,%,$(dir $(1))))/$(notdir $(1)))
RECIPE_FILES := Makefile tools/flags.mk

# ---- Targets -------------------------------------------------------------------------------------------------------------
all: $(B)/libfacula.so $(B)/libfacula.a $(B)/libfacula_sim.so $(B)/bin/facula

$(B)/libfacula.so.0: $(LIB_OBJECTS) tools/facula.map
	@echo "  LINK $@"
	@$(CC) $(CFLAGS_ALL) -shared -Wl,-soname,libfacula.so.0 -Wl,--version-script=tools/facula.map $(LINK_$(MODE)) $(LDFLAGS_ALL) \
		-o $@ $(LIB_OBJECTS) $(LIBS)
$(B)/libfacula.so: $(B)/libfacula.so.0
	@ln -sf libfacula.so.0 $@
$(B)/libfacula.a: $(LIB_OBJECTS)
	@echo "  AR   $@"
	@rm -f $@ && $(AR) rcs $@ $(LIB_OBJECTS)
$(B)/libfacula_sim.so: $(SIM_OBJECTS) tools/facula_sim.map
	@echo "  LINK $@"
	@$(CC) $(CFLAGS_ALL) -shared -Wl,-soname,libfacula_sim.so -Wl,--version-script=tools/facula_sim.map $(LINK_$(MODE)) \
		$(LDFLAGS_ALL) -o $@ $(SIM_OBJECTS) $(LIBS_SIM)
$(B)/bin/facula: $(call object,$(CLI_SOURCES)) $(B)/libfacula.so
	@mkdir -p $(@D); echo "  LINK $@"
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(LINK_$(MODE)) -o $@ $(call object,$(CLI_SOURCES)) -L$(B) -lfacula \
		-Wl,-rpath,'$$ORIGIN/..:$$ORIGIN/../lib' $(LIBS)

# Tests see the insides: they link the archive. The simulator is looked for beside the program, so it lies there too.
$(TESTS): $(B)/tests/%: $(B)/obj/tests/%.o $(call object,$(SUPPORT_SOURCES)) $(B)/libfacula.a $(B)/tests/libfacula_sim.so
	@echo "  LINK $@"
	@$(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL) $(LINK_$(MODE)) -o $@ $(filter %.o,$^) $(B)/libfacula.a -lcmocka $(LIBS)
$(B)/tests/libfacula_sim.so: $(B)/libfacula_sim.so
	@mkdir -p $(@D); ln -sf ../libfacula_sim.so $@
# Examples and benchmarks are users: only the public headers and the shared library.
$(EXAMPLES): $(B)/examples/%: examples/%.c $(B)/libfacula.so $(RECIPE_FILES)
	@mkdir -p $(@D); echo "  CC   $@"
	@$(CC) -std=c11 -O2 $(FLAGS_WARN) $(LINK_$(MODE)) -pthread -Iinclude -I$(B)/include -MMD -MP -o $@ $< -L$(B) -lfacula \
		-Wl,-rpath,$(abspath $(B)) -lm
$(BENCHES): $(B)/bench/%: bench/%.c $(B)/libfacula.so $(RECIPE_FILES)
	@mkdir -p $(@D); echo "  CC   $@"
	@$(CC) $(CFLAGS_ALL) $(LINK_$(MODE)) -Iinclude -I$(B)/include -MMD -MP -o $@ $< -L$(B) -lfacula -Wl,-rpath,$(abspath $(B)) -lm
# The Python package, as it is imported: PYTHONPATH=$(B)/python. The extension holds the library itself.
PYTHON ?= python3
PY_INCLUDE := $(shell $(PYTHON) -c "import sysconfig; print(sysconfig.get_paths()['include'])" 2>/dev/null)
PY_SUFFIX := $(shell $(PYTHON) -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))" 2>/dev/null)
PY_SOURCES := $(wildcard python/ext/*.c $(B)/gen/py/*.c)
PY_FILES := $(shell find python/facula -name '*.py' -o -name '*.pyi' -o -name py.typed 2>/dev/null)
PY_OBJECTS := $(call object,$(PY_SOURCES))
PY_STUBS := $(patsubst $(B)/gen/py/%,$(B)/python/facula/%,$(shell find $(B)/gen/py -name '*.pyi' 2>/dev/null))
python: $(B)/python/facula/libfacula_sim.so $(PY_STUBS) $(patsubst python/%,$(B)/python/%,$(PY_FILES)) $(B)/python/facula/_C$(PY_SUFFIX)
$(B)/python/facula/_C$(PY_SUFFIX): $(LIB_OBJECTS) $(PY_OBJECTS)
	@mkdir -p $(@D); echo "  LINK $@"
	@$(CC) $(CFLAGS_ALL) -shared $(LDFLAGS_ALL) $(filter-out -Wl$(comma)-z$(comma)defs,$(LINK_$(MODE))) -o $@ $^ $(LIBS)
$(B)/python/facula/libfacula_sim.so: $(B)/libfacula_sim.so
	@mkdir -p $(@D); cp $< $@
$(PY_STUBS): $(B)/python/facula/%: $(B)/gen/py/%
	@mkdir -p $(@D); cp $< $@
$(B)/python/facula/%: python/facula/%
	@mkdir -p $(@D); cp $< $@
$(PY_OBJECTS): CPPFLAGS_ALL += -I$(PY_INCLUDE)
programs: all $(EXAMPLES) $(BENCHES)

$(B)/obj/gen/%.o: $(B)/gen/%.c $(RECIPE_FILES)
	@mkdir -p $(@D); echo "  CC   $<"
	@$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(call own_flags,$<) -MMD -MP -c -o $@ $<
$(B)/obj/%.o: %.c $(RECIPE_FILES)
	@mkdir -p $(@D); echo "  CC   $<"
	@$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(call own_flags,$<) -MMD -MP -c -o $@ $<
define sim_rules
$(B)/obj/sim_$(1)/gen/%.o: $(B)/gen/%.c $(RECIPE_FILES)
	@mkdir -p $$(@D); echo "  CC   $$< ($(1))"
	@$$(CC) $$(CPPFLAGS_ALL) $$(CFLAGS_ALL) $$(FLAGS_SIM) $$(ISA_$(1)) -DFAI_ISA=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(sort $(SIM_ANY_$(MACHINE)) $(SIM_OWN_$(MACHINE))),$(eval $(call sim_rules,$(isa))))
define isa_rules
$(B)/obj/$(1)/gen/%.o: $(B)/gen/%.c $(RECIPE_FILES)
	@mkdir -p $$(@D); echo "  CC   $$< ($(1))"
	@$$(CC) $$(CPPFLAGS_ALL) $$(CFLAGS_ALL) $$(FLAGS_ISA) $$(call own_flags,$$<) $$(ISA_$(1)) -DFAI_ISA=$(1) -MMD -MP -c -o $$@ $$<
$(B)/obj/$(1)/%.o: %.c $(RECIPE_FILES)
	@mkdir -p $$(@D); echo "  CC   $$< ($(1))"
	@$$(CC) $$(CPPFLAGS_ALL) $$(CFLAGS_ALL) $$(FLAGS_ISA) $$(call own_flags,$$<) $$(ISA_$(1)) -DFAI_ISA=$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach isa,$(ISAS),$(eval $(call isa_rules,$(isa))))
-include $(patsubst %.o,%.d,$(LIB_OBJECTS) $(SIM_OBJECTS) $(call object,$(CLI_SOURCES) $(TEST_SOURCES) $(SUPPORT_SOURCES)))
-include $(addsuffix .d,$(EXAMPLES) $(BENCHES)) $(PY_OBJECTS:.o=.d)
.SECONDARY:

# ---- For people ----------------------------------------------------------------------------------------------------------
SUB = @$(MAKE) --no-print-directory -j$(JOBS)
help:
	@echo "make                build the library and the command      make MODE=debug|asan|tsan   in another mode"
	@echo "make demo           build, then train on real digits       make programs               examples and benchmarks too"
	@echo "make check          build and run every test               make check ONLY='autograd*' tests by name"
	@echo "make check-asan     the same under ASan and UBSan          make check-tsan             the concurrent ones under TSan"
	@echo "make check-opencl   all tests of OpenCL, on PoCL           make soak               those tagged soak, at length (minutes)"
	@echo "make check-faults   a fault at every point (a minute)"
	@echo "make install        PREFIX=/usr/local LIBDIR= DESTDIR=     make install-strip          without debug information"
	@echo "make dist           a tarball that needs only cc and make  make compile_commands.json  for editors and clang-tidy"
	@echo "make setup          install what is missing                make clean"
setup:
	@sh tools/setup.sh tests
demo:
	@sh tools/setup.sh
	$(SUB) MODE=$(MODE) run-demo
run-demo: all
	@$(B)/bin/facula demo
check:
	@sh tools/setup.sh tests
	$(SUB) MODE=$(MODE) run-tests
# All tests of OpenCL devices, on PoCL; make check runs some of them.
check-opencl:
	@sh tools/setup.sh tests
	$(SUB) MODE=$(MODE) OPENCL=1 run-tests
# A fault at every point of a training on two devices; make check tries some of them.
check-faults:
	@sh tools/setup.sh tests
	@FACULA_SOAK=1 $(MAKE) --no-print-directory -j$(JOBS) MODE=$(MODE) TAG=faults run-tests
check-asan:
	@sh tools/setup.sh tests
	$(SUB) MODE=asan run-tests
check-tsan:
	@sh tools/setup.sh tests
	$(SUB) MODE=tsan TAG=threads run-tests
# The long runs: tests tagged soak, which do a hundred times as much when FACULA_SOAK is set.
soak:
	@sh tools/setup.sh tests
	@FACULA_SOAK=1 $(MAKE) --no-print-directory -j$(JOBS) MODE=$(MODE) TAG=soak run-tests
run-tests: $(if $(TAG)$(OPENCL),all,programs) $(if $(TAG),,$(if $(filter release,$(MODE)),python)) $(patsubst tests/%.c,$(B)/tests/%,$(CHOSEN_TESTS))
	@MODE=$(MODE) BUILD=$(B) JOBS=$(JOBS) TAG="$(TAG)" OPENCL="$(OPENCL)" ONLY="$(ONLY)" CC="$(CC)" sh tests/run.sh

INSTALL ?= install
INCLUDE_TO = $(DESTDIR)$(PREFIX)/include/facula
LIB_TO = $(DESTDIR)$(LIBDIR)
fill_in = sed -e 's|@VERSION@|$(VERSION)|g' -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g'
install: all
	$(INSTALL) -d $(INCLUDE_TO)/sys $(LIB_TO)/pkgconfig $(LIB_TO)/cmake/Facula $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/facula
	$(INSTALL) -m 644 include/*.h $(wildcard $(B)/include/fa_*.h) $(INCLUDE_TO)
	$(INSTALL) -m 644 include/sys/*.h $(INCLUDE_TO)/sys
	$(INSTALL) $(STRIP_OPTION) -m 755 $(B)/libfacula.so.0 $(B)/libfacula_sim.so $(LIB_TO)
	ln -sf libfacula.so.0 $(LIB_TO)/libfacula.so
	$(INSTALL) -m 644 $(B)/libfacula.a $(LIB_TO)
	$(INSTALL) $(STRIP_OPTION) -m 755 $(B)/bin/facula $(DESTDIR)$(PREFIX)/bin
	$(INSTALL) -m 644 data/digits.csv.gz data/README.md $(DESTDIR)$(PREFIX)/share/facula
	$(fill_in) facula.pc.in > $(LIB_TO)/pkgconfig/facula.pc
	$(INSTALL) -m 644 cmake/FaculaConfig.cmake $(LIB_TO)/cmake/Facula
	$(fill_in) cmake/FaculaConfigVersion.cmake.in > $(LIB_TO)/cmake/Facula/FaculaConfigVersion.cmake
install-strip:
	@$(MAKE) --no-print-directory install STRIP_OPTION=-s

DIST := facula-$(VERSION)
dist: all
	@rm -rf build/dist && mkdir -p build/dist/$(DIST)/generated
	@git archive HEAD | tar -x -C build/dist/$(DIST)
	@cp -R $(B)/include $(B)/gen build/dist/$(DIST)/generated/
	@tar -C build/dist --sort=name --owner=0 --group=0 --numeric-owner -czf build/$(DIST).tar.gz $(DIST)
	@rm -rf build/dist; echo "build/$(DIST).tar.gz"

ENTRY := {"directory": "$(CURDIR)", "file": "%s", "command": "$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) %s -c %s"},\n
BEST := $(lastword $(ISAS))
compile_commands.json:
	@{ for s in $(LIB_SOURCES) $(SIM_SOURCES) $(CLI_SOURCES) $(TEST_SOURCES) $(SUPPORT_SOURCES) $(EXAMPLE_SOURCES) \
		$(BENCH_SOURCES); do printf '$(ENTRY)' $$s '' $$s; done; \
	   for s in $(ISA_SOURCES); do printf '$(ENTRY)' $$s '$(ISA_$(BEST)) -DFAI_ISA=$(BEST)' $$s; done; } \
	 | sed -e '1s/^/[\n/' -e '$$s/,$$/\n]/' > $@; echo $@
clean:
	@rm -rf build compile_commands.json
