# tperf: the whole build. `make help` lists the targets.
#
# Objects live in build/VARIANT/; the program is ./tperf (a link to the variant built last).
# CFLAGS, LDFLAGS and CC are the caller's; what the code needs is kept apart and always added.

VARIANT ?= release
PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= cc

VARIANTS := release debug asan tsan
ifeq ($(filter $(VARIANT),$(VARIANTS)),)
$(error VARIANT=$(VARIANT) is not one of: $(VARIANTS))
endif

B := build/$(VARIANT)
VERSION := $(shell cat VERSION)

# -ffp-contract=off: the same digits from every compiler and processor.
REQUIRED := -std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -fPIC -fvisibility=hidden -ffp-contract=off \
            -pthread -DTPERF_VERSION='"$(VERSION)"' -DTPERF_PREFIX='"$(PREFIX)"'
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
VARIANT_release := -O2 -g -DNDEBUG
VARIANT_debug   := -O0 -g3
VARIANT_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
VARIANT_tsan    := -O1 -g -fsanitize=thread

PKG_CFLAGS = $(shell pkg-config --cflags lua5.4 yaml-0.1)
PKG_LIBS   = $(shell pkg-config --libs lua5.4 yaml-0.1)
ALL_CFLAGS  = $(REQUIRED) $(WARNINGS) $(VARIANT_$(VARIANT)) $(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(VARIANT_$(VARIANT)) -pthread $(LDFLAGS)
LIBS = $(PKG_LIBS) -lm -ldl

SOURCES   := $(sort $(filter-out src/tools/%,$(wildcard src/*/*.c)))
OBJECTS   := $(SOURCES:src/%.c=$(B)/%.o) $(B)/embedded.o
LUA_FILES := $(sort $(shell find lua -name '*.lua'))

.PHONY: all run test check bench lint format deps deps-test install uninstall clean help FORCE
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

all: $(B)/tperf
	@ln -sfn $(B)/tperf tperf

$(B)/tperf: $(OBJECTS) $(B)/flags
	$(CC) $(ALL_LDFLAGS) -rdynamic -o $@ $(OBJECTS) $(LIBS)

$(B)/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/embedded.o: $(B)/embedded.c $(B)/flags
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(B)/embedded.c: $(B)/embed $(LUA_FILES) $(B)/lua-files
	$(B)/embed $(LUA_FILES) > $@

$(B)/embed: src/tools/embed.c $(B)/flags
	$(CC) $(REQUIRED) $(WARNINGS) -O1 -o $@ $<

# Stamps that change only when their content does, so that new flags or a removed Lua file rebuild.
$(B)/flags: FORCE
	@mkdir -p $(B)
	@echo '$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS)' > $@
$(B)/lua-files: FORCE
	@mkdir -p $(B)
	@echo '$(LUA_FILES)' | cmp -s - $@ || echo '$(LUA_FILES)' > $@
FORCE:

run: all
	./tperf run scripts/sweep_nvlink.lua

test: all
	./tperf run --trust spec/run.lua spec

-include $(OBJECTS:.o=.d)

clean:
	rm -rf build tperf
