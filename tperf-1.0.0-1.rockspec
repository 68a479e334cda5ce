-- `luarocks --lua-version=5.4 make` builds the library for stock Lua 5.4 and installs it with its models, systems,
-- software profiles and tables of launch files. It needs make, a C compiler, pkg-config, and libyaml's headers.
rockspec_format = "3.0"
package = "tperf"
version = "1.0.0-1"
source = {
  url = "file://tperf-1.0.0.tar.gz", -- a release's archive
}
description = {
  summary = "Performance model of large transformers on GPU clusters",
  detailed = [[
Predicts how long training and serving a large transformer model take on a cluster of GPUs, whether it fits their
memory, and what a different machine would change.]],
  license = "MIT",
}
dependencies = { "lua ~> 5.4" }
external_dependencies = { YAML = { header = "yaml.h" } }
build = {
  type = "make",
  build_target = "lua-module",
  install_target = "install-lua",
  build_variables = { CC = "$(CC)" },
  install_variables = { CC = "$(CC)", LUA_SHARE = "$(LUADIR)", LUA_LIB = "$(LIBDIR)" },
}
