-- Attempts to leave the sandbox, and their expected outcome. spec/escape_spec.lua runs each in a separate folder (see
-- there for its contents and surroundings) and checks everything afterwards.
--   { what, code, refusal }            the run ends with 1 and prints the refusal
--   { what, code, prints = TEXT }      the run ends with 0 and prints TEXT: the object asked for does not exist
-- More fields: options of `tperf run`; env, variables for the shell; before, a shell command; internal = true: an
-- undocumented module.
local COMPANION <const> = "SQLite takes a file of this name for a part of a database"
local ENDING <const> = "its name must end in .csv,"
local NAMED <const> = "other programs read such files by name (--out DIR names a folder for them, '--out .' the "
  .. "current one; --trust lifts this)"
local BUILD <const> = "it lies in the folder of a build"
local SHELL <const> = "its name has a character in it that shells obey"
local THERE <const> = "it is there already, and no run of tperf wrote it"
local DOT <const> = "it starts with a dot, or lies in a folder that does"
local OUTSIDE <const> = "it is outside the output folder"
local LINK <const> = "a symbolic link or a file is in its way"
local MANIFEST <const> = "that is where the run's manifest goes"
local CONTROL <const> = "its name has a control character in it"
local SPECIAL <const> = "scripts read regular files, none of /proc, /sys and /dev"
local GONE <const> = "not available to scripts"
local BINARY <const> = "attempt to load a binary chunk"

local list = {}

local function add(attempts)
  for _, attempt in ipairs(attempts) do list[#list + 1] = attempt end
end

-- --- names that may not be written ---

local function writes(path, mode) return ("assert(io.open(%q, %q)):write 'evil'"):format(path, mode or "w") end

add {
  { "append to git's configuration", writes(".git/config", "a"), DOT },
  { "replace git's configuration", writes ".git/config", DOT },
  { "update git's configuration", writes(".git/config", "r+"), DOT },
  { "add a hook", writes ".git/hooks/post-commit", DOT },
  { "append to the shell's profile", writes(".bashrc", "a"), DOT },
  { "make a profile", writes ".profile", DOT },
  { "make a .envrc further down", writes "sub/.envrc", DOT },
  { "a file in a dot folder", writes ".hidden/x", DOT },
  { "a dot file after ./", writes "././.x", DOT },
  { "a dot file by a detour", writes "sub/../.x", DOT },
  { "a dot folder by a detour", writes "sub/../.git/x", DOT },
  { "two dots and a name", writes "..x", DOT },
  { "three dots", writes "...", DOT },
  { "git's folder in capitals", writes ".GIT/config", DOT },
  { "the journal of runs", writes(".tperf-written", "a"), DOT },
  { "a journal further down", writes "sub/.tperf-written", DOT },
  { "a new GNUmakefile, which make prefers to the Makefile", writes "GNUmakefile", ENDING },
  { "a new makefile further down", writes "sub/makefile", ENDING },
  { "a module that Lua finds in the current folder", writes "luassert.lua", ENDING },
  { "a module that Python finds in the current folder", writes "sub/json.py", ENDING },
  { "a module in capitals", writes "JSON.PY", ENDING },
  { "a list of a build's files", writes "bare/embedded.d", ENDING },
  { "a source file", writes "sub/x.c", ENDING },
  { "a header", writes "sub/x.h", ENDING },
  { "a build of Gradle", writes "settings.gradle", ENDING },
  { "a file without an ending", writes "Dockerfile", ENDING },
  { "a file whose name ends in a dot", writes "x.csv.", ENDING },
  { "a file whose name ends in a blank", writes "x.csv ", ENDING },
  { "a journal of a database", writes "x.sqlite-journal", COMPANION },
  { "a lock file of npm", writes "package-lock.json", NAMED },
  { "presets of CMake", writes "CMakeUserPresets.json", NAMED },
  { "containers to be composed", writes "docker-compose.yml", NAMED },
  { "requirements", writes "sub/requirements.txt", NAMED },
  { "a crate", writes "Cargo.toml", NAMED },
  { "a shell script", writes "run.sh", NAMED },
  { "a job", writes "run.slurm", NAMED },
  { "a document of LaTeX", writes "main.tex", NAMED },
  { "a job in capitals", writes "RUN.SLURM", NAMED },
  { "what an agent obeys", writes "AGENTS.md", NAMED },
  { "what an agent obeys, besides", writes "claude.local.md", NAMED },
  { "what an agent obeys first", writes "AGENTS.override.md", NAMED },
  { "what another agent obeys", writes "sub/Agent.md", NAMED },
  { "what an editor asks", writes "sub/review.prompt.md", NAMED },
  { "what an editor obeys", writes "copilot-instructions.md", NAMED },
  { "a file of npm by renaming", [[io.open("a.csv", "w"):close() assert(os.rename("a.csv", "package.json"))]], NAMED },
  { "a table among a build's files", writes "build/release/x.csv", BUILD, before = "mkdir -p build/release" },
  { "a table among modules of npm", writes "node_modules/x.csv", BUILD, before = "mkdir node_modules" },
  { "a table where CMake builds", writes "bare/x.csv", BUILD, before = "touch bare/CMakeCache.txt" },
  { "a table among a program's settings", writes "logrotate.d/x.csv", "whose name ends in .d",
    before = "mkdir logrotate.d" },
  { "a source file that --out allows", writes "x.c", ENDING, options = "--out ." },
  { "a build's file that --out allows", writes "build/x.json", BUILD, options = "--out .", before = "mkdir build" },
  { "a name that is an option of tar", writes "--checkpoint-action=exec=x.csv", "its name starts as options do" },
  { "a name that is a command", writes "$(touch x).csv", SHELL },
  { "a name that ends a command", writes "x;touch y;.csv", SHELL },
  { "a name with a C1 control", writes "x\xC2\x9Bm.csv", CONTROL },
  { "a name that reads backwards", writes "x\u{202E}vsc.csv", CONTROL },
  { "a name that is not UTF-8", writes "x\x9Bm.csv", CONTROL },
  { "a module by renaming", [[io.open("a.csv", "w"):close() assert(os.rename("a.csv", "a.py"))]], ENDING },
  { "append to a Makefile", writes("Makefile", "a"), THERE },
  { "replace a Makefile", writes "Makefile", THERE },
  { "update a Makefile", writes("Makefile", "r+"), THERE },
  { "truncate a Makefile", writes("Makefile", "w+b"), THERE },
  { "update by appending", writes("Makefile", "a+b"), THERE },
  { "the script itself", writes "script.lua", THERE },
  { "a file by its absolute name", "io.open(io.open('here'):read() .. '/Makefile', 'w')", THERE },
  { "a file by a detour", writes "sub/../Makefile", THERE },
  { "an empty file", writes("empty", "a"), THERE },
  { "a file further down", writes("sub/setup.py", "a"), THERE },
  { "io.output on a file", "io.output 'Makefile'", THERE },
  { "io.output on a dot file", "io.output '.x'", DOT },
  { "a file that has changed since a run wrote it", writes "own.csv", "it has changed since a run of tperf wrote it",
    before = "echo \"io.open('own.csv', 'w'):write '1'\" > a.lua && tperf run a.lua && echo 2 >> own.csv" },
  { "a file that another script wrote", writes "own.csv", "another script wrote it",
    before = "echo \"io.open('own.csv', 'w'):write '1'\" > a.lua && tperf run a.lua" },
  { "an absolute name", writes "/tmp/tperf-escape", OUTSIDE },
  { "the folder above", writes "../x", OUTSIDE },
  { "a file above", writes("../other/file", "a"), OUTSIDE },
  { "above by a detour", writes "sub/../../other/x", OUTSIDE },
  { "far above", writes(("../"):rep(40) .. "etc/x"), OUTSIDE },
  { "a folder whose name begins as the output folder's", "io.open(io.open('here'):read() .. '2/x', 'w')", OUTSIDE },
  { "a zero byte", writes "x\0/../../other/x", OUTSIDE },
  { "a name with a line end", writes "x\ny", CONTROL },
  { "a name with a terminal escape", writes "\27]0;x", CONTROL },
  { "a very long name", writes(("x"):rep(256)), "its name is too long" },
  { "a very long path", writes(("sub/../"):rep(700) .. "x"), "its name is too long" },
  { "a slash at the end", writes "x/", "it names a folder" },
  { "the output folder", writes ".", "it is the output folder itself" },
  { "nothing", writes "", "it is the output folder itself" },
  { "a folder", writes "sub", "Is a directory" },
  { "a file as a folder", writes "Makefile/x", LINK },
  { "a device", writes "/dev/full", OUTSIDE },
  { "the terminal", writes "/dev/tty", OUTSIDE },
  { "its own memory", writes("/proc/self/mem", "r+"), OUTSIDE },
  { "a descriptor", writes "/proc/self/fd/1", OUTSIDE },
  { "below a link to a folder", writes "out_link/x", LINK },
  { "a file below a link", writes("out_link/file", "a"), LINK },
  { "through a link to a file", writes "file_link", LINK },
  { "through a link to nowhere", writes "dangling", LINK },
  { "through a link that stays inside", writes "make_link", LINK },
  { "through a link to itself", writes "loop", LINK },
  { "below a link by a detour", writes "sub/../out_link/x", LINK },
  { "a pipe", writes "pipe", "pipe: Operation not permitted" },
  { "a second name of a file elsewhere", writes "hard", "hard: Operation not permitted" },
  { "appending to a second name", writes("hard", "a"), "hard: Operation not permitted" },
  { "an invalid mode", "io.open('x.csv', 'w\\0')", "invalid mode" },
  { "a manifest", writes "manifest.json", MANIFEST },
  { "a manifest in capitals", writes "MANIFEST.json", MANIFEST },
  { "a manifest further down", writes "sub/manifest.json", MANIFEST },
  { "the output that --out keeps", writes "stdout.txt", "that is where what the script prints goes",
    options = "--out results" },
}

-- --- removing and renaming ---

add {
  { "remove a file", "os.remove 'Makefile'", THERE },
  { "remove a dot file", "os.remove '.bashrc'", DOT },
  { "remove a file above", "os.remove '../other/file'", OUTSIDE },
  { "remove below a link", "os.remove 'out_link/file'", LINK },
  { "remove a link", "os.remove 'file_link'", LINK },
  { "remove a folder", "assert(os.remove 'bare')", "bare: Is a directory" },
  { "remove the output folder", "os.remove '.'", "it is the output folder itself" },
  { "remove a pipe", "assert(os.remove 'pipe')", "pipe: Operation not permitted" },
  { "rename a file away", "os.rename('Makefile', 'x')", THERE },
  { "rename a dot file", "os.rename('.bashrc', 'x')", DOT },
  { "rename from above", "os.rename('../other/file', 'x')", OUTSIDE },
  { "rename a link", "os.rename('file_link', 'x')", LINK },
  { "rename a folder", "assert(os.rename('bare', 'x'))", "bare: Is a directory" },
}

local function renames(to) return ("io.open('own.csv', 'w'):close() assert(os.rename('own.csv', %q))"):format(to) end
add {
  { "rename onto a file", renames "Makefile", THERE },
  { "rename onto a dot file", renames ".bashrc", DOT },
  { "rename into git's folder", renames ".git/hooks/pre-commit", DOT },
  { "rename out of the folder", renames "../x", OUTSIDE },
  { "rename below a link", renames "out_link/x", LINK },
  { "rename onto a link", renames "file_link", LINK },
  { "rename into a manifest", renames "manifest.json", MANIFEST },
  { "rename into a journal", renames ".tperf-written", DOT },
  { "rename onto a folder", renames "sub", "sub: Is a directory" },
  { "rename onto the output that --out keeps", renames "stdout.txt", "that is where what the script prints goes",
    options = "--out results" },
}

-- --- files that SQLite takes for a part of a database ---

local PARTED <const> = "would become a part of it"
add {
  { "a journal", writes "data.db-journal", COMPANION },
  { "a journal of a database that is there", writes "sub/existing.db-journal", COMPANION,
    before = "echo keep > sub/existing.db" },
  { "a journal in capitals", writes "data.db-JOURNAL", COMPANION },
  { "a journal in a short name", writes "data.nal", COMPANION },
  { "a journal without a database's name", writes "-journal", COMPANION },
  { "a log of changes", writes "data.db-wal", COMPANION },
  { "a log of changes that is appended to", writes("data.db-wal", "a"), COMPANION },
  { "the memory that a database's users share", writes "data.db-shm", COMPANION },
  { "a journal of several databases", writes "data.db-mj0A1B2C9D4", COMPANION },
  { "a journal by renaming", renames "data.db-journal", COMPANION },
  { "a log of changes by renaming", renames "sub/data.db-wal", COMPANION },
  { "a journal of several databases by renaming", renames "data.db-mj000000900", COMPANION },
  { "a journal that is its own already", writes "own.db-journal", COMPANION,
    before = "printf x > own.db-journal; printf '%s  own.db-journal\t\n' $(printf x | sha256sum | cut -c -64) "
      .. "> .tperf-written" },
  { "removing a journal", "os.remove 'data.db-journal'", COMPANION, before = "echo keep > data.db-journal" },
  { "renaming a journal away", "os.rename('data.db-journal', 'x')", COMPANION, before = "echo keep > data.db-journal" },
  { "a database for a journal that is there", writes "data.db", PARTED, before = "echo keep > data.db-journal" },
  { "a database for a log that is there", writes "sub/data.db", PARTED, before = "echo keep > sub/data.db-wal" },
  { "a database for a link to a log", writes "data.db", PARTED, before = "ln -s ../other/file data.db-wal" },
  { "a database for a journal, by renaming", renames "data.db", PARTED, before = "echo keep > data.db-journal" },
}

-- --- the library's writers ---

local T <const> = "local tperf = require 'tperf' "
local function saves(path) return T .. ("tperf.report.save(%q, { { a = 1 } }, { 'a' })"):format(path) end
local function plots(path)
  return T .. ("tperf.plot.bars { rows = { { a = 1, b = 'x' } }, x = 'b', y = 'a' }:save(%q)"):format(path)
end
local function caches(path)
  return T .. "tperf.sweep { key = 'k', run = function() return 'evil\\n' end, gpus = tperf.vary { 1 }, "
    .. ("cache = %q }"):format(path)
end
local NO_CACHE <const> = "is there and is no cache of sweeps"
add {
  { "a report over a file", saves "existing.csv", THERE },
  { "a report in a dot file", saves ".x.csv", DOT },
  { "a report above", saves "../x.csv", OUTSIDE },
  { "a report through a link", saves "link.csv", LINK },
  { "a report as a manifest", saves "manifest.json", MANIFEST },
  { "a plot over a file", plots "existing.svg", THERE },
  { "a plot in a dot folder", plots ".git/x.svg", DOT },
  { "a plot above", plots "../x.svg", OUTSIDE },
  { "a plot as a PNG above", plots "../x.png", "cannot write '../x.png'" },
  { "a document over a file", T .. "tperf.report.new { title = 'x' }:text('y'):save 'existing.md'", THERE },
  { "a timeline over a file", T .. "tperf.schedule { schedule = '1f1b', devices = 2, microbatches = 2 }"
    .. ":save 'existing.svg'",
    THERE },
  { "a cache over a file", caches "Makefile", NO_CACHE },
  { "a cache over an empty file", caches "empty", NO_CACHE },
  { "a cache in a dot file", caches ".git/x", DOT },
  { "a cache above", caches "../x", OUTSIDE },
  { "a cache through a link", caches "file_link", LINK },
  { "a cache below a link", caches "out_link/x", LINK },
  { "a cache in a second name of a file", caches "hard", "Operation not permitted" },
  { "a cache in a pipe", caches "pipe", "Operation not permitted" },
  { "a cache as a manifest", caches "manifest.json", MANIFEST },
  { "a cache as a journal", caches "existing.db-journal", COMPANION },
  { "a cache as a log of changes", caches "sub/existing.db-wal", COMPANION },
  { "a cache as a journal of several databases", caches "existing.db-mj0A1B2C9D4", COMPANION },
  { "llm-analysis' files above", "require('tperf.compat.llm_analysis').train { model_name = 'facebook_opt-125m', "
    .. "output_dir = '..' }", OUTSIDE },
}

-- --- what may not be read ---

local function reads(path) return ("print(assert(io.open(%q)):read 'a')"):format(path) end
add {
  { "the environment by /proc", reads "/proc/self/environ", SPECIAL },
  { "its memory's map", reads "/proc/self/maps", SPECIAL },
  { "its memory", reads "/proc/self/mem", SPECIAL },
  { "another's command line", reads "/proc/1/cmdline", SPECIAL },
  { "a file by way of /proc", reads "/proc/self/cwd/Makefile", SPECIAL },
  { "the root by way of /proc", reads "/proc/self/root/etc/passwd", SPECIAL },
  { "/proc with more slashes", reads "//proc///self/environ", SPECIAL },
  { "/proc by a detour", reads "/tmp/../proc/self/environ", SPECIAL },
  { "/proc from here", reads(("../"):rep(40) .. "proc/self/environ"), SPECIAL },
  { "the kernel's files", reads "/sys/kernel/notes", SPECIAL },
  { "an endless device", reads "/dev/zero", SPECIAL },
  { "unseeded random numbers", reads "/dev/urandom", SPECIAL },
  { "the terminal", reads "/dev/tty", SPECIAL },
  { "standard input by its name", reads "/dev/stdin", SPECIAL },
  { "a descriptor", reads "/dev/fd/0", SPECIAL },
  { "a link to /proc", reads "env_link", SPECIAL },
  { "a link to a device", reads "zero_link", SPECIAL },
  { "below a link to /proc", reads "proc_link/self/environ", SPECIAL },
  { "a link to itself", reads "loop", "Too many levels of symbolic links" },
  { "a pipe, which would wait", reads "pipe", SPECIAL },
  { "a folder", reads "sub", "Is a directory" },
  { "a zero byte in a name", reads "Makefile\0x", "No such file or directory" },
  { "io.lines on /proc", "for line in io.lines '/proc/self/environ' do print(line) end", SPECIAL },
  { "io.lines on a pipe", "io.lines 'pipe'", SPECIAL },
  { "io.input on /proc", "io.input '/proc/self/environ' print(io.read 'a')", SPECIAL },
  { "loadfile on /proc", "assert(loadfile '/proc/self/cmdline')", SPECIAL },
  { "dofile on a pipe", "dofile 'pipe'", SPECIAL },
  { "require of a device", "package.path = '/dev/?' require 'zero'", "module 'zero' not found" },
  { "package.searchpath on /proc", "print(package.searchpath('environ', '/proc/self/?') == nil)", prints = "true\n" },
  { "a system that is a device", T .. "tperf.system 'zero.yaml'", "zero.yaml" },
  { "measurements that are a device", T .. "tperf.validate { file = '/dev/zero' }", SPECIAL },
}

-- --- processes, native and binary code ---

add {
  { "a process", "os.execute 'touch ../witness'", GONE },
  { "a pipe to a process", "io.popen('touch ../witness', 'w')", GONE },
  { "a native library", "package.loadlib('libc.so.6', 'system')", GONE },
  { "a native module by package.cpath", "package.cpath = '/usr/lib/x86_64-linux-gnu/lua/5.4/?.so' require 'lfs'",
    "module 'lfs' not found" },
  { "a native module by the environment", "require 'lfs'", "module 'lfs' not found",
    env = "LUA_CPATH_5_4='/usr/lib/x86_64-linux-gnu/lua/5.4/?.so'" },
  { "code in LUA_INIT", "print(1)", prints = "1\n", env = "LUA_INIT=\"os.execute('touch ../witness')\"" },
  { "the loaders of modules", "print(package.searchers, package.cpath == '')", prints = "nil\ttrue\n" },
  { "bytecode of a function", "string.dump(function() end)", GONE },
  { "bytecode by a method", "print((''):dump(print))", GONE },
  { "a binary chunk", "assert(load '\\27Lua')", BINARY },
  { "a binary chunk that is asked for", "load('\\27Lua', 'x', 'b')", GONE },
  { "a binary chunk of both kinds", "assert(load('\\27Lua', 'x', 'bt'))", BINARY },
  { "a binary chunk in pieces", "local i = 0 assert(load(function() i = i + 1 return ({ '\\27', 'Lua' })[i] end))",
    BINARY },
  { "a binary file", "assert(loadfile 'code.luac')", BINARY },
  { "a binary file after a comment", "assert(loadfile 'comment.luac')", BINARY },
  { "a binary file that is asked for", "loadfile('code.luac', 'b')", GONE },
  { "a binary file by dofile", "dofile 'code.luac'", BINARY },
  { "a binary module", "package.path = '?.luac' require 'code'", BINARY },
  { "the debug library", "debug.getregistry()", GONE },
  { "the debug library by require", "require 'debug'", "module 'debug' not found" },
  { "the debug library among what is loaded", "print(package.loaded.debug)", prints = "nil\n" },
  { "the debug library from a loaded chunk", "load 'return debug.sethook' ()", GONE },
  { "the debug library from a module", "require 'wants_debug'", GONE },
  { "the real globals from a loaded chunk", "print(load('return _G', 'x', 't')() == _G, load 'return _ENV' () == _G)",
    prints = "true\ttrue\n" },
  { "the real globals by require", "print(require '_G' == _G)", prints = "true\n" },
  { "the real globals from a coroutine", "print(coroutine.wrap(function() return _ENV end)() == _G)",
    prints = "true\n" },
  { "a global put back", "rawset(_G, 'debug', require 'debug')", "module 'debug' not found" },
}

-- --- the environment, the clock, chance ---

add {
  { "the environment", "os.getenv 'HOME'", GONE },
  { "the clock", "print(os.time())", GONE },
  { "the date", "print(os.date())", GONE },
  { "processor time", "os.clock()", GONE },
  { "the locale", "os.setlocale 'C'", GONE },
  { "a temporary name", "os.tmpname()", GONE },
  { "a temporary file", "io.tmpfile()", GONE },
  { "random numbers without a seed", "math.random()", "call math.randomseed(NUMBER) first" },
  { "a random seed", "math.randomseed()", "needs a number" },
  { "the collector stopped", "collectgarbage 'stop'", GONE },
  { "the collector's mode", "collectgarbage('generational')", GONE },
  { "arguments as a way out", "print(type(arg[0]), getmetatable(arg))", prints = "string\tnil\n" },
}

-- --- metatables, coroutines, finalizers ---

add {
  { "the metatable of strings", "print(getmetatable '')", prints = "false\n" },
  { "the methods of strings", "getmetatable('').__index.rep = print", "attempt to index a boolean value" },
  { "the metatable of files", "getmetatable(io.stdout).__index.write = print", "attempt to index a boolean value" },
  { "another metatable of a file", "setmetatable(io.stdout, {})", "table expected" },
  { "the metatable of an opened file", "print(getmetatable(io.open 'Makefile'))", prints = "false\n" },
  { "the metatable of a file being written", "print(getmetatable(io.open('x.csv', 'w')))", prints = "false\n" },
  { "the globals without strictness", "setmetatable(_G, nil)", "cannot change a protected metatable" },
  { "a finalizer", "setmetatable({}, { __gc = function() end })", GONE },
  { "a finalizer by another name", "setmetatable({}, setmetatable({ __gc = true }, {}))", GONE },
  { "a finalizer set late", "local m = {} setmetatable({}, m) m.__gc = function() print 'ran' end "
    .. "collectgarbage() print 'end'", prints = "end\n" },
  { "a finalizer behind __index", "setmetatable({}, setmetatable({}, { __index = function() return print end })) "
    .. "collectgarbage() print 'end'", prints = "end\n" },
  { "code that runs when a coroutine closes", "local c = coroutine.create(function() local x <close> = "
    .. "setmetatable({}, { __close = function() os.execute 'touch ../witness' end }) coroutine.yield() end) "
    .. "coroutine.resume(c) print(coroutine.close(c))", prints = "false\tscript.lua:1: os.execute is not available to "
    .. "scripts (tperf run --trust lifts this)\n" },
  { "code that runs as an error is printed", "error(setmetatable({}, { __tostring = function() os.execute 'x' end }))",
    "the error is a table value" },
  { "warnings", "warn '@on' warn 'x' print(os.execute == warn)", prints = "false\n", talks = true },
  { "writing to standard input", "print(io.stdin:write 'x' == nil)", prints = "true\n" },
  { "a file of its own after it is closed", "local f = io.open('x.csv', 'w') f:close() f:write 'y'", "closed file" },
}

-- --- the library's own code ---

add {
  { "code for the library", writes("lib/tperf/x.lua"), "it is in TPERF_LUA_DIR", env = "TPERF_LUA_DIR=lib" },
  { "code beside the library", writes("lib/x.lua"), "it is in TPERF_LUA_DIR", env = "TPERF_LUA_DIR=lib" },
  { "code for the library that --out names", writes("x.lua"), "it is in TPERF_LUA_DIR", env = "TPERF_LUA_DIR=lib",
    options = "--out lib/tperf" },
  { "a module of the library's name beside the script", "print(require 'tperf'.version ~= nil)", prints = "true\n",
    env = "TPERF_LUA_DIR=lib", before = "mkdir -p tperf/cli/sandbox && echo \"os.execute 'touch ../witness'\" "
    .. "> tperf/init.lua && cp tperf/init.lua tperf/cli/sandbox/init.lua" },
  { "the core", "require 'tperf.core'", GONE },
  { "the core with another name", "require 'tperf/core'", "tperf/core" },
  { "the core in package.loaded", "print(package.loaded['tperf.core'])", prints = "nil\n" },
  { "the core by package.preload", "print(package.preload['tperf.core'])", prints = "nil\n" },
  { "the command line", "require 'tperf.cli'", GONE },
  { "the sandbox", "require 'tperf.cli.sandbox'", GONE },
  { "the recorder", "require 'tperf.cli.sandbox.recorder'", GONE },
  { "the renderer's driver", "require 'tperf.output.render'", GONE },
  { "a name that is a table", "require(setmetatable({}, { __tostring = function() return 'tperf.core' end }))",
    "a module's name is needed" },
}
for _, name in ipairs { "base.check", "describe.workload", "question.problem", "output.json", "output.file",
  "base.catalogue", "question.sweep.cache", "question.sweep.store", "question.sweep.runner", "timeline" } do
  add { { "tperf." .. name, ("require 'tperf.%s'"):format(name), "tperf." .. name, internal = true } }
end

-- --- launch files, and what is written for launches ---

-- Prints the value that a launch script gives its variable X.
local function launch_script(text)
  return T .. ([[
    local script = %q .. "\ntorchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 256 "
      .. "--num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 --micro-batch-size 1 "
      .. "--global-batch-size 16 --vocab-size 1000 --secret $X"
    local launch = tperf.import.launch { files = { { name = "run.sh", text = script } } }
    for _, list in ipairs { launch.refused, launch.unknown } do
      for _, one in ipairs(list) do
        if one.option == "--secret" then print(one.value) return end
      end
    end
    print "nothing"]]):format(text)
end
local function launch_file(path) return T .. ("tperf.import.launch { files = { %q } }"):format(path) end
local UP <const> = ("../"):rep(40)
add {
  { "a launch file that is the environment", launch_file "/proc/self/environ", SPECIAL },
  { "a launch file that is the environment, from here", launch_file(UP .. "proc/self/environ"), SPECIAL },
  { "a launch file that is a link to the environment", launch_file "env_link", SPECIAL },
  { "a launch file that is a pipe", launch_file "pipe", SPECIAL },
  { "a launch file that is a device", launch_file "zero.yaml", SPECIAL },
  { "a launch script's environment", launch_script "X=$HOME", prints = "${HOME}\n" },
  { "a launch script that reads the environment", launch_script("X=$(cat " .. UP .. "proc/self/environ)"),
    prints = "$(cat)\n" },
  { "a launch script that sources the environment", launch_script("source " .. UP .. "proc/self/environ; X=$PATH"),
    prints = "${PATH}\n" },
  { "a launch script that reads a pipe", launch_script "X=$(cat pipe)", prints = "$(cat)\n" },
  { "a launch script that runs a command", launch_script "X=$(touch ../witness)", prints = "$(touch ../witness)\n" },
  { "a launch script that runs a command on its way", launch_script "touch ../witness; eval 'touch ../witness'; X=1",
    prints = "1\n" },
  { "a launch script that runs a command at its end", launch_script "trap 'touch ../witness' EXIT; X=1",
    prints = "1\n" },
  { "a launch script that writes a file", launch_script "echo evil > Makefile; echo evil >> ../other/file; X=1",
    prints = "1\n" },
  { "a launch script that writes a document", launch_script "cat > Makefile <<E\nevil\nE\nX=1", prints = "1\n" },
  { "a launch script that opens a socket", launch_script "exec 3<>/dev/tcp/127.0.0.1/9; X=1", prints = "1\n" },
  { "a launch in Python that runs", T .. "tperf.import.launch { files = { { name = 'a.py', text = "
    .. "'import os\\nos.system(\"touch ../witness\")\\n' } } }", "a.py: of no stack that is known" },
  { "a launch in YAML that runs", T .. "tperf.import.launch { files = { { name = 'a.yaml', text = "
    .. "'a: !!python/object/apply:os.system [\"touch ../witness\"]' } } }", "tags ('!name') are not supported" },
  { "options of a launch that are the environment", T .. "tperf.import.launch { files = { { name = 'a.sh', "
    .. "text = 'x' } }, options = '/proc/self/environ' }", "unknown recipe" },
  { "the library's own readers of launches", "require 'tperf.import.launch.files'", GONE },
  { "the shell of launch scripts", "require 'tperf.import.launch.shell'", GONE },
  { "a launch that runs what a model's name says", T .. "local text = tperf.report.launch({ tp = 1, pp = 1, dp = 1 }, "
    .. "'vllm', { model = { name = \"x'; touch ../witness #$(touch ../witness)\", layers = 4, hidden = 256, heads = 8, "
    .. "ffn = 512, vocab = 1000, seq = 128 } }) print(text:find '\\n[^#\\n]*touch')", prints = "nil\n" },
  { "a launch that runs the second line of a model's name", T .. "tperf.model { name = 'x\\ntouch ../witness #', "
    .. "layers = 4, hidden = 256, heads = 8, ffn = 512, vocab = 1000, seq = 128 }",
    "'name' must be a text without control characters" },
  { "a launch that runs what a configuration says", T .. "tperf.report.launch({ tp = 1, pp = 1, dp = 1, "
    .. "micro_batch = 1, global_batch = 1, zero = '1, \\nEOF\\ntouch ../witness\\n' }, 'deepspeed')",
    "'zero' must be one of 1, 0, 2, 3" },
  { "a launch that runs what a type's name says", T .. "tperf.report.launch({ tp = 1, pp = 1, dp = 1 }, 'vllm', "
    .. "{ kv_dtype = 'fp8\\ntouch ../witness' })", "'kv_dtype' must be a type's name" },
  { "a stack that is a path", T .. "tperf.report.launch({ tp = 1 }, '../../tperf/cli')", "no stack" },
}

-- --- traces of requests, profiles ---

local function serves(field) return T .. "tperf.serve { step_time = { fixed = 1 }, " .. field .. " }" end
add {
  { "a trace that is the environment", serves "requests = '/proc/self/environ'", SPECIAL },
  { "a trace that is the environment, from here", serves(("requests = %q"):format(UP .. "proc/self/environ")),
    SPECIAL },
  { "a trace in JSON that is a link", serves "requests = 'env_link'", SPECIAL },
  { "a trace that is a pipe", serves "requests = 'pipe'", SPECIAL },
  { "a trace that is standard input", serves "requests = '/dev/stdin'", SPECIAL },
  { "a host's profile that is a path", T .. "tperf.serve { model = 'gpt2', system = 'h100-sxm', host = "
    .. "'../../../proc/self/environ', requests = { { arrival = 0, prompt = 1, output = 1 } } }",
    "'host' must be" },
  { "a software profile that is the environment", T .. "tperf.train { model = 'gpt2', system = 'h100-sxm', "
    .. "global_batch = 8, software = '/proc/self/environ' }", "unknown software" },
  { "requests that change while they are read", T .. "local list = { { arrival = 0, prompt = 1, output = 1 } } "
    .. "setmetatable(list, { __len = function() for i = 2, 9999 do rawset(list, i, 1) end return 1 end }) "
    .. "print(tperf.serve { step_time = { fixed = 1 }, requests = list }.finished)", prints = "1\n" },
}

-- --- databases ---

local function queries(sql)
  return T .. "tperf.sweep { key = 'k', run = function() return 1 end, gpus = tperf.vary { 1 }, cache = 'c.db' } "
    .. ("print(#tperf.report.query('c.db', %q))"):format(sql)
end
local NOT_ALLOWED <const> = "not authorized"
add {
  { "a database attached elsewhere", queries "ATTACH '../other/x' AS x", NOT_ALLOWED },
  { "a database in memory attached", queries "ATTACH ':memory:' AS x", NOT_ALLOWED },
  { "a database detached", queries "DETACH main", NOT_ALLOWED },
  { "a copy of a database elsewhere", queries "VACUUM INTO '../other/x'", "a query reads" },
  { "a database vacuumed", queries "VACUUM", "a query reads" },
  { "a native library in SQL", queries "SELECT load_extension('libc.so.6')", NOT_ALLOWED },
  { "an editor in SQL", queries "SELECT edit('x', 'touch ../witness')", "no such function: edit" },
  { "a file read in SQL", queries "SELECT readfile('Makefile')", "no such function: readfile" },
  { "a file written in SQL", queries "SELECT writefile('../other/x', 'y')", "no such function: writefile" },
  { "the schema in SQL", queries "PRAGMA writable_schema = 1", NOT_ALLOWED },
  { "a journal that stays", queries "PRAGMA journal_mode = PERSIST", NOT_ALLOWED },
  { "files for sorting elsewhere", queries "PRAGMA temp_store_directory = '../other'", NOT_ALLOWED },
  { "pragmas as tables", queries "SELECT * FROM pragma_database_list", NOT_ALLOWED },
  { "pages as a table", queries "SELECT * FROM sqlite_dbpage", "report.query" },
  { "tokenizers, which are pointers", queries "SELECT fts3_tokenizer('simple', x'0000000000000000')", NOT_ALLOWED },
  { "a table in a temporary file", queries "CREATE TEMP TABLE x (a)", NOT_ALLOWED },
  { "rows changed by a query", queries "UPDATE records SET record = 'evil'", NOT_ALLOWED },
  { "rows changed by a common table expression", queries "WITH x AS (SELECT 1) DELETE FROM points", NOT_ALLOWED },
  { "a second statement", queries "SELECT 1; DROP TABLE points", "one statement of SQL" },
  { "a transaction that stays open", queries "BEGIN IMMEDIATE", NOT_ALLOWED },
  { "the clock in SQL", queries "SELECT datetime('now')", NOT_ALLOWED },
  { "the clock in SQL by another name", queries "SELECT current_timestamp", NOT_ALLOWED },
  { "random numbers in SQL", queries "SELECT random()", NOT_ALLOWED },
  { "a gigabyte in SQL", queries "SELECT randomblob(1000000000)", NOT_ALLOWED },
  { "a gigabyte printed in SQL", queries "SELECT printf('%1000000000d', 1)", NOT_ALLOWED },
  { "rows without end", queries "WITH RECURSIVE c AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT count(*) FROM c",
    "more than 2000000 instructions", options = "--max-instructions 2e6" },
  { "the release of SQLite", queries "SELECT sqlite_source_id()", NOT_ALLOWED },
  { "how SQLite was compiled", queries "SELECT sqlite_compileoption_get(1)", NOT_ALLOWED },
  { "a gigabyte of zeros in SQL", queries "SELECT hex(zeroblob(400000000))", NOT_ALLOWED },
  { "a text that grows in SQL", queries "SELECT replace('xxxx', 'x', 'yyyy')", NOT_ALLOWED },
  { "tables of JSON in SQL", queries "SELECT * FROM json_each('[1]')", "vtable constructor failed" },
  { "a savepoint that stays", queries "SAVEPOINT x", NOT_ALLOWED },
  { "statistics written by a query", queries "ANALYZE", NOT_ALLOWED },
  { "a query of the environment", T .. "tperf.report.query('/proc/self/environ', 'SELECT 1')", SPECIAL },
  { "a query of a pipe", T .. "tperf.report.query('pipe', 'SELECT 1')", SPECIAL },
  { "a query of a file by a URI", T .. "tperf.report.query('file:c.db?mode=rwc', 'SELECT 1')", "No such file" },
  { "a cache in a folder that is not there", caches "nosuch/c.db", "'run' returned" }, -- which is made
  { "a cache below a file", caches "Makefile/c.db", LINK },
  { "a cache with a zero byte", caches "c\0.db", OUTSIDE },
  { "a cache whose journal is another file", caches "c.db", "for a part of it", before = "echo keep > c.db-journal" },
  { "a cache whose journal is a link", caches "c.db", "for a part of it", before = "ln -s ../other/file c.db-journal" },
  { "a cache whose shared memory is a link", caches "c.db", "for a part of it", before = "ln -s ../other/x c.db-shm" },
  { "a cache with a name too long for its journal", caches(("c"):rep(247) .. ".db"), "File name too long" },
}

-- --- more names ---

add {
  { "a name with a delete", writes "x\127", CONTROL },
  { "a dot file after many slashes", writes "sub////.x", DOT },
  { "below a pipe", writes "pipe/x", LINK },
  { "below a link to /proc", writes "proc_link/self/x", LINK },
  { "memory that all processes share", writes "/dev/shm/tperf-escape", OUTSIDE },
  { "its folder by /proc", writes "/proc/self/cwd/x", OUTSIDE },
  { "a mode to read and write", "io.open('x', 'rw')", "invalid mode" },
  { "a mode that updates twice", "io.open('x.csv', 'w++')", "invalid mode" },
  { "an exclusive mode", "io.open('x.csv', 'wx')", "invalid mode" },
  { "updating a missing file", "print((select(2, io.open('nosuch.csv', 'r+'))))",
    prints = "nosuch.csv: No such file or directory\n" },
  { "git's folder as the output folder", writes "config", THERE, options = "--out .git" },
  { "a link as the output folder", writes "file", THERE, options = "--out out_link" },
  { "a second name removed", "assert(os.remove 'hard')", "hard: Operation not permitted" },
  { "a second name moved", "assert(os.rename('hard', 'x'))", "hard: Operation not permitted" },
  { "its file onto a pipe", renames "pipe", "pipe: Operation not permitted" },
  { "its file onto a second name", renames "hard", "hard: Operation not permitted" },
  { "its file below a missing folder",
    "io.open('own.csv', 'w'):close() print((select(2, os.rename('own.csv', 'nosuch/x'))))",
    prints = "nosuch/x: No such file or directory\n" },
  { "a table as git's configuration", saves ".git/config", "must be a name that ends in" },
  { "a table with a zero byte", saves "x\0.csv", "the name of a file is needed" },
  { "a document above by a detour", T .. "tperf.report.new { title = 'x' }:text('y'):save 'sub/../../x.html'",
    OUTSIDE },
  { "a timeline in a dot folder", T .. "tperf.schedule { schedule = '1f1b', devices = 2, microbatches = 2 }"
    .. ":save '.git/hooks/x.html'", DOT },
}

-- --- limits reached inside pcall or in rarely checked places ---

local LIMITED <const>, SPENT <const> = "--max-instructions 2e6", "more than 2000000 instructions"
local function endless(what, code) add { { what, code, SPENT, options = LIMITED } } end
endless("catching the end", "while true do pcall(function() while true do end end) end")
endless("handling the end", "xpcall(function() while true do end end, function() while true do end end)")
endless("going on in coroutines", "local function f() while true do end end "
  .. "while true do coroutine.resume(coroutine.create(f)) end")
endless("going on while a variable closes", "local x <close> = setmetatable({}, "
  .. "{ __close = function() while true do end end }) while true do end")
endless("going on while a coroutine closes", "local c = coroutine.wrap(function() local x <close> = setmetatable({}, "
  .. "{ __close = function() while true do end end }) error 'x' end) pcall(c)")
endless("an endless comparator", "table.sort({ 3, 1, 2 }, function() while true do end end)")
endless("an endless replacement", "('x'):gsub('x', function() while true do end end)")
endless("an endless reader", "load(function() return ' ' end)")
endless("an endless iterator", "for _ in function() return 1 end do end")
endless("an endless metamethod", "local t = setmetatable({}, { __index = function() while true do end end }) "
  .. "print(t.x)")
endless("an endless text", "print(setmetatable({}, { __tostring = function() while true do end end }))")
endless("an endless filter of a search", T .. "tperf.search { model = 'gpt2', system = 'h100-sxm', gpus = 8, "
  .. "global_batch = 8, where = function() while true do end end }")
endless("an endless run of a sweep", T .. "tperf.sweep { run = function() while true do end end, "
  .. "gpus = tperf.vary { 1, 2 } }")
endless("an endless strategy", T .. "tperf.strategy.define { name = 'evil', extends = 'tensor', "
  .. "boundary = function() while true do end end } tperf.train { model = 'gpt2', system = 'h100-sxm', "
  .. "global_batch = 8, pp = 2, strategy = 'evil' }")
endless("long texts compared in pieces", "local s = ('x'):rep(1e6) while true do s:find('y', 1, true) end")
endless("long texts compared by order", "local a, b = ('x'):rep(2e6) .. 'a', ('x'):rep(2e6) .. 'b' "
  .. "while true do local _ = a < b end")
endless("long texts compared", "local a, b = ('x'):rep(2e6) .. 'a', ('x'):rep(2e6) .. 'b' "
  .. "while true do local _ = a == b end")
endless("long texts compared by rawequal", "local a, b = ('x'):rep(2e6) .. 'a', ('x'):rep(2e6) .. 'a' "
  .. "while true do local _ = rawequal(a, b) end")
endless("long texts as keys", "local a, b = ('x'):rep(2e6) .. 'a', ('x'):rep(2e6) .. 'a' local t = { [a] = 1 } "
  .. "while true do local _ = t[b] end")
endless("arithmetic on long texts", "local s = ('9'):rep(1e6) while true do local _ = s + 0 end")
endless("a table that was large", "local t = {} for i = 1, 1e5 do t['k' .. i] = 1 end "
  .. "for i = 1, 1e5 do t['k' .. i] = nil end while true do next(t) end")
endless("many values passed on and on", "local t = {} for i = 1, 2e5 do t[i] = i end "
  .. "local function f(...) while true do local _ = select('#', ...) end end f(table.unpack(t))")
endless("a long chain of __index", "local t = {} for _ = 1, 1900 do t = setmetatable({}, { __index = t }) end "
  .. "while true do local _ = t.x end")
endless("coroutines that end before they are looked at", "local function f() for _ = 1, 300 do end end "
  .. "while true do coroutine.wrap(f)() end")
endless("coroutines that are made only", "while true do coroutine.create(print) end")
endless("a chunk in long pieces", "local s = (' '):rep(1e6) load(function() return s end)")
endless("a chunk that is one long comment", "local s, i = ('-'):rep(1e6), 0 load(function() return s end)")
endless("the sine of a long text", "local s = ('9'):rep(1e6) while true do math.sin(s) end")
endless("a file that grows without end",
  "local s, f = (' '):rep(1e6), io.open('x.csv', 'w') while true do f:write(s) end")
endless("a long number read again and again", "local f = io.open('x.csv', 'w') f:write(('1'):rep(1e6)) f:close() "
  .. "f = io.open 'x.csv' while true do f:seek 'set' f:read 'n' end")
endless("a list moved without end", "local t = {} for i = 1, 1000 do t[i] = i end "
  .. "while true do table.move(t, 1, 1000, 2) end")

add {
  { "a yield out of a filter", T .. "print(coroutine.resume(coroutine.create(function() tperf.search { model = 'gpt2', "
    .. "system = 'h100-sxm', gpus = 8, global_batch = 8, where = coroutine.yield } end)))",
    prints = "false\tattempt to yield across a C-call boundary\n" },
  { "a text of a gigabyte", "print(pcall(string.rep, 'x', 1 << 40))", prints = "false\tresulting string too large\n" },
  { "a list with a false length", "print((pcall(table.insert, setmetatable({}, { "
    .. "__len = function() return 1 << 53 end }), 1, 0)))", prints = "false\n" },
}

-- --- modules, again ---

add {
  { "a module above", "require '../other/file'", "module '../other/file' not found" },
  { "a module by its absolute name", "require '/etc/passwd'", "module '/etc/passwd' not found" },
  { "a module above by the library's name", "require 'tperf.../../other/file'", "tperf.../../other/file" },
  { "the core after a zero byte", "require 'tperf.core\0x'", GONE },
  { "a system of its own under a shipped name", "local f = io.open('h100-sxm.yaml', 'w') f:write 'name: evil' "
    .. "f:close() " .. T .. "print(tperf.system 'h100-sxm'.name)", prints = "h100-sxm\n", options = "--out ." },
  { "the core put into package.loaded", "package.loaded['tperf.core'] = false print(require 'tperf.core')",
    prints = "false\n" },
  { "a library of its own under the library's name", "package.preload.tperf = function() return { evil = 1 } end "
    .. "print(pcall(function() return require 'tperf'.evil end))",
    prints = "false\tscript.lua:1: tperf has no 'evil'\n" },
  { "functions of strings taken from the library", "string.format, table.concat, pairs = nil, nil, nil " .. T
    .. "print(tperf.report.csv { { a = 1 } })", prints = "a\n1\n\n" },
  { "the library's own table", T .. "tperf.report = nil print(#require('tperf').report.csv { { a = 1 } })",
    "tperf has no 'report'" },
  { "a chunk in a table", "load(setmetatable({}, { __call = function() return '\\27Lua' end }))",
    "a string or a function expected, got table" },
  { "a chunk with globals of its own", "print(load('return debug, os, require', 'x', 't', {})())",
    prints = "nil\tnil\tnil\n" },
}

-- --- files that others read ---

local function model_text(text)
  return ("local f = io.open('m.yaml', 'w') f:write(%q) f:close() "):format(text) .. T .. "tperf.model 'm.yaml'"
end
add {
  { "a billion laughs in YAML", model_text "a: &a [x, x]\nb: [*a, *a]\n", "anchors ('&name') are not supported",
    options = "--out ." },
  { "an object in YAML", model_text "!!python/object/apply:os.system ['touch ../witness']\n", "tags",
    options = "--out ." },
  { "deep nesting in YAML", model_text(("["):rep(1000)), "nested more than 64 levels deep", options = "--out ." },
  { "a script in a page", T .. "tperf.report.new { title = '</title><script>evil()</script>' }"
    .. ":text('<img src=x onerror=evil()>'):table({ { ['<svg/onload=evil()>'] = '<script>' } }):save 'x.html' "
    .. "local page = io.open('x.html'):read 'a' print(page:find '<script' or page:find '<img' or page:find '<svg')",
    prints = "nil\n" },
  { "a script in a picture", T .. "local svg = tperf.plot.bars { rows = { { a = 1, "
    .. "b = '</text><script>x</script>' } }, x = 'b', y = 'a', title = ']]><script>1</script>' }:svg() "
    .. "print(svg:find '<script')", prints = "nil\n" },
  { "a terminal escape in a model's name", T .. "tperf.model { name = '\27]0;x\7', layers = 4, hidden = 256, "
    .. "heads = 8, ffn = 512, vocab = 1000, seq = 128 }", "'name' must be a text without control characters" },
  { "a terminal escape in a system's name", T .. "tperf.system 'h100-sxm':with { name = '\27[2J' }",
    "'name' must be a text without control characters" },
  { "a terminal escape in a file's field", model_text '"\\e[2J": 1\n', [[unknown field '\27[2J']],
    options = "--out ." },
  { "values that share their parts 40 deep", T .. "local t = { 1 } for _ = 1, 40 do t = { t, t } end "
    .. "tperf.sweep { run = function() return 1 end, gpus = tperf.vary { 1 }, box = t }", "nested too deep" },
  { "a million threads", T .. "tperf.search { model = 'gpt2', system = 'h100-sxm', gpus = 8, global_batch = 8, "
    .. "threads = 1000000 }", "'threads' must be an integer from 1 to 1024" },
  { "traces of execution above", T .. "local _, t = tperf.train { model = 'gpt2', system = 'h100-sxm', "
    .. "global_batch = 8, pp = 2, simulate = true } t:chakra '../other'", OUTSIDE },
  { "traces among the user's folders", T .. "local _, t = tperf.train { model = 'gpt2', system = 'h100-sxm', "
    .. "global_batch = 8, pp = 2, simulate = true } t:chakra 'sub/evil'", NAMED },
  { "an invalid figure", T .. "tperf.report.new { title = 'x' }:figure { svg = function() return '<script>' end }",
    "needs a plot" },
  { "a link in Markdown", T .. "tperf.report.new { title = 'x' }:table({ { a = '[x](javascript:evil())' } })"
    .. ":save 'x.md' print(io.open('x.md'):read('a'):find('[x](', 1, true))", prints = "nil\n" },
}

-- --- journals that others made ---

local function journals(what, before, refusal)
  add { { "a file where the journal is " .. what, "assert(io.open('x.csv', 'w')):close()", refusal, before = before } }
end
journals("a pipe", "mkfifo .tperf-written", "No such device or address")
journals("a second name of a file", "ln ../other/file .tperf-written", "Operation not permitted")
journals("a folder", "mkdir .tperf-written", "Is a directory")
journals("a link", "ln -s ../other/file .tperf-written", "Too many levels of symbolic links")
journals("a link to nowhere", "ln -s ../other/nothing .tperf-written", "Too many levels of symbolic links")
add {
  { "a file that a journal without lines names", writes "own.csv", THERE,
    before = "echo 1 > own.csv && printf 'own.csv\n\n\town.csv\t' > .tperf-written" },
  { "a file that a huge journal names", writes "own.csv", THERE,
    before = "echo 1 > own.csv && truncate -s 17M .tperf-written" },
  { "an empty mode", "io.open('x', '')", "invalid mode" },
  { "an unknown mode", "io.open('x', 'x')", "invalid mode" },
  { "a table in a pipe", saves "pipe.csv", "Operation not permitted", before = "mkfifo pipe.csv" },
  { "a table in a folder", saves "dir.csv", "Is a directory", before = "mkdir dir.csv" },
  { "a table where there is no folder, which is made", saves "nosuch/x.csv", prints = "" },
}

return list
