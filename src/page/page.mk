# tperf in a browser: the core, Lua and libyaml as WebAssembly, and the data, in one file with the page around them.
# Lua and libyaml are compiled from Debian's sources: no package has them as WebAssembly.

PAGE := build/page
PAGE_DEPS := $(PAGE)/deps
PAGE_SOURCES := $(sort $(filter-out src/tools/% src/door/% $(wildcard src/*/test/*.c) src/cli/interrupts.c src/io/store.c src/io/database/files.c src/io/database/temporary.c src/io/database/trial.c src/bind/base/bind_store.c $(FAULTS_FILE),$(wildcard src/*/*.c src/*/*/*.c)))
PAGE_LUA_SOURCES = $(filter-out %/lua.c %/luac.c,$(wildcard $(PAGE_DEPS)/lua/src/*.c))
PAGE_YAML_SOURCES = $(addprefix $(PAGE_DEPS)/yaml/src/,api.c parser.c reader.c scanner.c)
PAGE_OBJECTS = $(PAGE_SOURCES:src/%.c=$(PAGE)/%.o) $(PAGE)/embedded.o $(PAGE)/sources.o $(PAGE)/serve/schedulers.o \
  $(PAGE_LUA_SOURCES:%.c=%.o) $(PAGE_YAML_SOURCES:%.c=%.o)

# The optimiser is a script, which looks for its libraries where Debian keeps Node's.
EMCC := NODE_PATH=/usr/share/nodejs emcc
PAGE_CFLAGS := -O3 -DNDEBUG -mbulk-memory
PAGE_OWN_CFLAGS = $(filter-out -fPIC,$(REQUIRED)) -DTPERF_PREFIX='""' -I$(PAGE_DEPS)/lua/src \
  -I$(PAGE_DEPS)/yaml/include $(PAGE_CFLAGS) $(EXACT)
PAGE_YAML_CFLAGS := -DYAML_VERSION_STRING='"0.2"' -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 -DYAML_VERSION_PATCH=0
# One worker is one thread; nothing is evaluated at run time, so that the page's policy can forbid it.
PAGE_LDFLAGS := $(PAGE_CFLAGS) -s MODULARIZE=1 -s EXPORT_NAME=tperfEngine -s ENVIRONMENT=web,worker,node \
  -s DYNAMIC_EXECUTION=0 -s INITIAL_MEMORY=64MB -s ALLOW_MEMORY_GROWTH=1 -s MAXIMUM_MEMORY=2GB -s TOTAL_STACK=4MB -s INVOKE_RUN=0 \
  -s EXIT_RUNTIME=1 -s FORCE_FILESYSTEM=1 -s EXPORTED_FUNCTIONS=_main,_tperf_page_ask,_tperf_door_ask,_free \
  -s EXPORTED_RUNTIME_METHODS=FS,callMain,ccall,UTF8ToString,ExitStatus

# The package for Node and browsers, npm/: the same module, with the data.
NPM := build/npm
NPM_PARTS := $(wildcard npm/*)

# The rules of accessibility that the specs go by.
AXE := $(PAGE)/npm/node_modules/axe-core/axe.min.js

PAGE_PARTS := $(wildcard npm/engine.js src/page/*.js src/page/view/*.js src/page/*.css src/page/*.html)
PAGE_DATA := $(sort $(shell find models systems software kernels recipes scripts -type f))

.PHONY: page npm deps-page check-page check-npm deps-npm deps-page-test

page: deps deps-page ## build build/page/tperf.html: tperf in a browser, one file
	@$(MAKE) all $(PAGE)/tperf.html

check-page: page deps-page-test deps-test ## the specs of the page, in headless Chromium
	$(Q)TPERF_PAGE=$(CURDIR)/$(PAGE)/tperf.html TPERF_AXE=$(CURDIR)/$(AXE) \
	  $(B)/tperf run --trust spec/run.lua spec/page/page_spec.lua

npm: deps deps-page deps-npm ## build build/npm/tperf-VERSION.tgz: tperf for Node and browsers, as npm installs it (docs/ask.md)
	@$(MAKE) all $(NPM)/tperf-$(VERSION).tgz

check-npm: npm deps-test ## install that package offline and run its tests in Node
	$(Q)tools/page/check_npm.sh $(NPM)/tperf-$(VERSION).tgz $(B)/tperf
	$(Q)TPERF_NPM=$(CURDIR)/$(NPM)/package $(B)/tperf run --trust spec/run.lua spec/doors_spec.lua

$(NPM)/tperf-$(VERSION).tgz: $(PAGE)/tperf.wasm $(NPM_PARTS) $(PAGE_DATA) tools/page/write_npm.lua $(B)/tperf
	@echo "  NPM $@"
	$(Q)rm -rf $(NPM)/package && mkdir -p $(NPM)/package
	$(Q)$(B)/tperf run --trust tools/page/write_npm.lua $(PAGE) $(NPM)/package
	$(Q)cd $(NPM) && npm pack --silent --offline ./package > /dev/null

$(PAGE)/tperf.html: $(PAGE)/tperf.wasm $(PAGE_PARTS) $(PAGE_DATA) tools/page/write.lua $(B)/tperf
	@echo "  HTM $@"
	$(Q)$(B)/tperf run --trust tools/page/write.lua $(PAGE) $@.$$$$ && mv $@.$$$$ $@

# Also writes tperf.js beside it.
$(PAGE)/tperf.wasm: $(PAGE_OBJECTS) $(PAGE)/flags
	@echo "  LD  $@"
	$(Q)$(EMCC) $(PAGE_LDFLAGS) -o $(PAGE)/tperf.js $(PAGE_OBJECTS)

$(PAGE)/%.o: src/%.c $(PAGE)/flags
	@mkdir -p $(@D)
	@echo "  EM  $<"
	$(Q)$(EMCC) $(PAGE_OWN_CFLAGS) -MMD -MP -c -o $@ $<

# The library as text alone: a copy that is compiled, too, would make the page half as large again.
$(PAGE)/embed: src/tools/embed.c $(PAGE)/flags
	$(Q)$(HOSTCC) $(REQUIRED) $(WARNINGS) -O1 -o $@ $<

$(PAGE)/embedded.c: $(PAGE)/embed $(LUA_FILES) $(DATA_FILES) $(B)/lua-files
	@echo "  LUA $@"
	$(Q)$(PAGE)/embed $(LUA_FILES) $(DATA_FILES) > $@

$(PAGE)/embedded.o: $(PAGE)/embedded.c
	@echo "  EM  $<"
	$(Q)$(EMCC) $(PAGE_OWN_CFLAGS) -c -o $@ $<

$(PAGE)/%.o: $(B)/%.c $(PAGE)/flags
	@echo "  EM  $<"
	$(Q)$(EMCC) $(PAGE_OWN_CFLAGS) -c -o $@ $<

$(PAGE_DEPS)/lua/src/%.o: $(PAGE_DEPS)/lua/src/%.c $(PAGE)/flags
	@echo "  EM  $<"
	$(Q)$(EMCC) $(PAGE_CFLAGS) -DLUA_COMPAT_5_3 -DLUA_USE_POSIX -c -o $@ $<

$(PAGE_DEPS)/yaml/src/%.o: $(PAGE_DEPS)/yaml/src/%.c $(PAGE)/flags
	@echo "  EM  $<"
	$(Q)$(EMCC) $(PAGE_CFLAGS) $(PAGE_YAML_CFLAGS) -I$(PAGE_DEPS)/yaml/include -c -o $@ $<

$(PAGE)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(PAGE_OWN_CFLAGS) $(PAGE_YAML_CFLAGS) $(PAGE_LDFLAGS)' > $@.$$$$; $(call replace-if-new,$@)

-include $(PAGE_OBJECTS:.o=.d)

deps-page: deps ## install Emscripten (apt) and fetch Debian's sources of Lua and libyaml, if missing
	@command -v emcc > /dev/null || $(call install-packages,emscripten)
	@[ -f $(PAGE_DEPS)/yaml/src/api.c ] || $(MAKE) $(PAGE_DEPS)/sources

$(PAGE_DEPS)/sources:
	@command -v dpkg-source > /dev/null || $(call install-packages,dpkg-dev)
	$(Q)tools/page/sources.sh $(PAGE_DEPS)

deps-npm: ## install Node and npm (apt), if missing
	@command -v node > /dev/null || $(call install-packages,nodejs)
	@command -v npm > /dev/null || $(call install-packages,npm)

# Chromium's package brings no browser driver, and needs none: the specs speak its debugging protocol.
deps-page-test: ## install Chromium and Node (apt), and axe-core (npm), if missing
	@command -v chromium > /dev/null || $(call install-packages,chromium)
	@command -v node > /dev/null || $(call install-packages,nodejs)
	@[ -f $(AXE) ] || { command -v npm > /dev/null || $(call install-packages,npm); \
	  npm install --silent --no-audit --no-fund --prefix $(PAGE)/npm axe-core@4; }
