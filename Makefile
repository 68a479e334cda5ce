# tperf: the whole build. `make help` lists the targets.
#
# Objects live in build/VARIANT/; the program is ./tperf (a link to the variant built last by `make`).
# CC, CFLAGS and LDFLAGS are the caller's; what the code needs is kept apart and always added.

VARIANT ?= release
PREFIX  ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
V       ?= 0

VARIANTS := release debug asan tsan
ifeq ($(filter $(VARIANT),$(VARIANTS)),)
$(error VARIANT=$(VARIANT) is not one of: $(VARIANTS))
endif

B := build/$(VARIANT)
VERSION := $(shell cat VERSION)
MAKEFLAGS += --no-print-directory
Q := $(if $(filter 1,$(V)),,@)

# -ffp-contract=off: the same digits from every compiler and processor.
REQUIRED := -std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -fPIC -fvisibility=hidden -ffp-contract=off \
            -pthread -DTPERF_VERSION='"$(VERSION)"' -DTPERF_PREFIX='"$(PREFIX)"'
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
VARIANT_release := -O2 -g -DNDEBUG
VARIANT_debug   := -O0 -g3
VARIANT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
VARIANT_tsan    := -O1 -g -fsanitize=thread

# Asked once, when first needed: `make deps` may just have installed pkg-config itself.
PACKAGES := lua5.4 yaml-0.1
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(shell pkg-config --cflags $(PACKAGES)))$(PKG_CFLAGS)
PKG_LIBS   = $(eval PKG_LIBS := $$(shell pkg-config --libs $(PACKAGES)))$(PKG_LIBS)
ALL_CFLAGS  = $(REQUIRED) $(WARNINGS) $(VARIANT_$(VARIANT)) $(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(VARIANT_$(VARIANT)) -pthread $(LDFLAGS)
LIBS = $(PKG_LIBS) -lm -ldl

SOURCES   := $(sort $(filter-out src/tools/%,$(wildcard src/*/*.c)))
OBJECTS   := $(SOURCES:src/%.c=$(B)/%.o) $(B)/embedded.o $(B)/sources.o
LUA_FILES := $(sort $(shell find lua -name '*.lua'))
C_FILES   := $(sort $(shell find include src -name '*.[ch]'))
MODULE    := $(B)/lua-module/tperf/core.so

.PHONY: all run test check accuracy docs bench fuzz gallery lint format lua-module deps deps-test deps-lint install install-lua \
        uninstall clean help FORCE
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

all: $(B)/tperf ## build ./tperf
	@ln -sfn $(B)/tperf tperf

# The sub-make starts after deps, so it sees what deps installed.
run: deps ## install what is missing, build, and run scripts/sweep_nvlink.lua
	@$(MAKE) all
	./tperf run scripts/sweep_nvlink.lua

test: deps deps-test ## install what is missing, build, and run the specs
	@$(MAKE) all
	$(Q)$(B)/tperf run --trust spec/run.lua spec

check: lint ## luacheck, clang-format, and the specs under address and undefined-behaviour sanitizers
	@$(MAKE) VARIANT=asan deps deps-test
	@$(MAKE) VARIANT=asan build/asan/tperf
	$(Q)build/asan/tperf run --trust spec/run.lua spec

accuracy: all ## write docs/accuracy.md from the tables of measurements in the folder MEASURED
	$(Q)$(B)/tperf run --trust tools/write_accuracy.lua $(MEASURED)/operators/gemm_visible.csv \
	  $(MEASURED)/operators/attention_visible.csv $(MEASURED)/operators/moe_visible.csv \
	  $(MEASURED)/operators/mla_visible.csv $(MEASURED)/operators/memory_ops_visible.csv \
	  $(MEASURED)/nccl_visible.csv $(MEASURED)/operators/custom_allreduce_visible.csv $(MEASURED)/measured_visible.csv

docs: all ## write docs/api.md and meta/tperf.lua from the library's comments and schemas
	$(Q)$(B)/tperf run --trust tools/write_docs.lua

bench: deps ## candidates and collectives per second, and the time of the main script
	@$(MAKE) all
	$(Q)$(B)/tperf run --trust bench/all.lua

fuzz: deps ## feed the YAML reader hostile bytes for FUZZ_SECONDS (needs clang)
	@mkdir -p build/fuzz/corpus
	$(Q)clang $(REQUIRED) $(WARNINGS) -g -O1 -fsanitize=fuzzer,address,undefined $(PKG_CFLAGS) -o build/fuzz/yaml \
	  src/tools/fuzz_yaml.c src/io/yaml_in.c src/base/error.c $(PKG_LIBS)
	build/fuzz/yaml -max_total_time=$(FUZZ_SECONDS) -max_len=4096 build/fuzz/corpus systems models

lint: deps-test deps-lint ## luacheck and clang-format, changing nothing
	$(Q)luacheck --no-color --quiet lua spec tools $(wildcard scripts bench)
	$(Q)clang-format --dry-run -Werror $(C_FILES)

format: deps-lint ## let clang-format rewrite the C files
	$(Q)clang-format -i $(C_FILES)

gallery: deps ## draw the pictures of docs/gallery.md again
	@$(MAKE) all
	@sed -n 's|^    \./tperf |$(B)/tperf |p' docs/gallery.md | while read -r line; do \
	  echo "  $$line"; $$line > /dev/null || exit 1; done
	@rm -f docs/gallery/*.csv docs/gallery/manifest.json docs/gallery/stdout.txt

lua-module: $(MODULE) ## build tperf/core.so, for stock lua5.4

# --- building ---

$(B)/tperf: $(OBJECTS) $(B)/flags
	@echo "  LD  $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -rdynamic -o $@ $(OBJECTS) $(LIBS)

# The interpreter that loads it brings Lua.
$(MODULE): $(filter-out $(B)/cli/%,$(OBJECTS)) $(B)/flags
	@mkdir -p $(@D)
	@echo "  LD  $@"
	$(Q)$(CC) $(ALL_LDFLAGS) -shared -o $@ $(filter %.o,$^) $(filter-out -llua%,$(LIBS))

$(B)/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  CC  $<"
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/embedded.o: $(B)/embedded.c $(B)/flags
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(B)/embedded.c: $(B)/embed $(LUA_FILES) $(B)/lua-files
	@echo "  LUA $@"
	$(Q)$(B)/embed $(LUA_FILES) > $@

$(B)/sources.o: $(B)/sources.c $(B)/flags
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# A checksum of everything that decides answers, so that caches of another build are not taken for this one's.
$(B)/sources.c: $(C_FILES) $(LUA_FILES) $(B)/lua-files $(B)/flags
	$(Q)echo '#include "bind/embedded.h"' > $@
	$(Q)echo "const char tp_embedded_sources[] = \"$$(cat $^ | cksum | tr ' ' -)\";" >> $@

$(B)/embed: src/tools/embed.c $(B)/flags
	$(Q)$(CC) $(REQUIRED) $(WARNINGS) -O1 -o $@ $<

# Stamps that change only when their content does, so that new flags or a removed Lua file rebuild.
$(B)/flags: FORCE
	@pkg-config --exists $(PACKAGES) 2>/dev/null || \
	  { echo "tperf: Lua 5.4 or libyaml is missing here; 'make deps' installs them" >&2; exit 1; }
	@mkdir -p $(B)
	@echo '$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS)' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(B)/lua-files: FORCE
	@mkdir -p $(B)
	@echo '$(LUA_FILES)' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:

-include $(OBJECTS:.o=.d)

# --- what the machine needs ---

# $(call install-packages,PACKAGES): through apt-get, as root or with sudo; says what it does, and where
# it can't, what to type.
define install-packages
{ echo "tperf needs: $(1)"; \
  if ! command -v apt-get > /dev/null; then \
    echo "there is no apt-get here: please install the equivalent packages and try again" >&2; exit 1; \
  elif [ "$$(id -u)" = 0 ]; then as_root=; \
  elif command -v sudo > /dev/null; then as_root="sudo "; \
  else echo "no rights to install them; as root, type: apt-get install $(1)" >&2; exit 1; fi; \
  install="$${as_root}env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1)"; \
  echo "+ $$install"; \
  $$install > /dev/null 2>&1 || { $${as_root}apt-get update -qq && $$install > /dev/null; } || \
    { echo "could not install them; as root, type: apt-get install $(1)" >&2; exit 1; }; }
endef

deps: ## install Lua 5.4, libyaml and pkg-config (apt), if missing
	@pkg-config --exists $(PACKAGES) 2> /dev/null || $(call install-packages,liblua5.4-dev libyaml-dev pkg-config)

deps-test: ## install lua5.4, busted and luacheck (apt), if missing
	@{ lua5.4 -e 'require "busted.core" require "lfs" require "term" require "system"' && \
	  command -v luacheck; } > /dev/null 2>&1 || $(call install-packages,lua5.4 lua-busted lua-check)

deps-lint: ## install clang-format (apt), if missing
	@command -v clang-format > /dev/null || $(call install-packages,clang-format)

# --- installing ---

SHARE := $(DESTDIR)$(PREFIX)/share/tperf
LUA_SHARE := $(DESTDIR)$(PREFIX)/share/lua/5.4
LUA_LIB   := $(DESTDIR)$(PREFIX)/lib/lua/5.4

install: $(B)/tperf ## install the program, its data and man page below PREFIX (after DESTDIR)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(SHARE)
	install -m 755 $(B)/tperf $(DESTDIR)$(PREFIX)/bin/tperf
	$(B)/tperf help --man > $(DESTDIR)$(PREFIX)/share/man/man1/tperf.1
	chmod 644 $(DESTDIR)$(PREFIX)/share/man/man1/tperf.1
	for d in $(wildcard models systems software recipes scripts meta); do rm -rf $(SHARE)/$$d && cp -R $$d $(SHARE)/ || exit 1; done

install-lua: $(MODULE) ## install the module for stock lua5.4 below PREFIX
	install -d $(LUA_LIB)/tperf $(LUA_SHARE)
	install -m 755 $(MODULE) $(LUA_LIB)/tperf/core.so
	rm -rf $(LUA_SHARE)/tperf && cp -R lua/tperf $(LUA_SHARE)/

uninstall: ## remove what install and install-lua put there
	rm -f $(DESTDIR)$(PREFIX)/bin/tperf $(DESTDIR)$(PREFIX)/share/man/man1/tperf.1
	rm -rf $(SHARE) $(LUA_LIB)/tperf $(LUA_SHARE)/tperf

clean: ## remove build/ and ./tperf
	rm -rf build tperf

help: ## this list
	@echo "make [VARIANT=release|debug|asan|tsan] [CC=…] [CFLAGS=…] [PREFIX=…] [DESTDIR=…] [V=1] TARGET"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | \
	  while IFS='|' read -r target text; do printf '  %-11s %s\n' "$$target" "$$text"; done
