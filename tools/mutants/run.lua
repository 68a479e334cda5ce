-- `make mutants`: changes constants and comparisons of the core, of lua/tperf/describe and of lua/tperf/question one at
-- a time in a copy of the tree, and tells which changes no spec notices, of those that change some answer.
--   tperf run --trust tools/mutants/run.lua [N] [SEED] [PATTERN]
-- N: mutants that count; PATTERN: of the files to change. The copy is build/mutants; what survives is in
-- build/mutants/survivors.txt.
package.path = "./tools/mutants/?.lua;" .. package.path
local commands, sites = require "commands", require "sites"

local count, seed, wanted = tonumber(arg[1]) or 20, tonumber(arg[2]) or os.time(), arg[3] or "."
local COPY <const> = "build/mutants"
local ROOMS <const> = "src/machine src/grid src/op src/price src/plan src/schedule src/step src/search src/event "
  .. "src/serve src/base/units.c lua/tperf/describe lua/tperf/question"
-- What tests the build, the sandbox, files and hostile input, and computes little.
local NO_SPECS <const> =
  "processes page package build house mutation speed fuzz write_failure processor sandbox escape "
  .. "hostile launch_hostile locale files completion repl callbacks memory_limit mpi workers cache_files faults "
  .. "link stored wrong_types foreign program yaml sha256 shim messages domain"

local function computes(name)
  for start in NO_SPECS:gmatch "[%w_]+" do
    if name:sub(1, #start) == start then return false end
  end
  return true
end

math.randomseed(seed)

local function run(command)
  local pipe = assert(io.popen("cd " .. COPY .. " && { " .. command .. "; } 2>&1; echo; echo $?"))
  local text = pipe:read "a"
  pipe:close()
  local output, status = text:match "^(.-)\n(%d+)\n$"
  return output, tonumber(status)
end

local function lines(command)
  local pipe, list = assert(io.popen(command)), {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function build(path)
  if path:find "%.lua$" then return true end -- read from the copy's lua/
  local _, status = run "make -s >/dev/null"
  return status == 0
end

local function ask(command)
  return run(("TPERF_LUA_DIR=lua timeout 60 build/release/tperf %s </dev/null"):format(command))
end

-- Whether some answer differs from those of the tree as it is; commands that told mutants apart come first.
local function differs(answers)
  for i, command in ipairs(commands) do
    if ask(command) ~= answers[command] then
      table.insert(commands, 1, table.remove(commands, i))
      return command
    end
  end
end

local specs, kills = {}, {}
for _, path in ipairs(lines "ls spec/*_spec.lua") do
  local name = path:match "spec/(.-)_spec"
  if computes(name) then specs[#specs + 1], kills[path] = path, 0 end
end

-- Specs with a word of the file's name first, then those that killed most, then those of many closed forms.
local BROAD <const> = { train = 3, op = 3, infer = 3, pinned = 3, efficiency = 2, memory = 2, serve_scheduler = 2,
  simulate = 2, exact = 2, parts = 2, validate = 1, architecture = 1, collective = 2, goodput = 2, kernels = 2 }

local function ordered(path)
  local words, near = {}, {}
  for word in path:gmatch "%a%a%a+" do words[#words + 1] = word end
  for _, spec in ipairs(specs) do
    near[spec] = 4 * kills[spec] + (BROAD[spec:match "spec/(.-)_spec"] or 0)
    for i = math.max(#words - 3, 1), #words do
      if words[i] ~= "lua" and spec:find(words[i], 1, true) then near[spec] = near[spec] + 100 end
    end
  end
  table.sort(specs, function(a, b) return near[a] > near[b] or near[a] == near[b] and a < b end)
  return specs
end

local function passes(spec)
  local _, status = run(("TPERF_LUA_DIR=lua timeout 300 build/release/tperf run --trust spec/run.lua "
    .. "--no-keep-going %s </dev/null >/dev/null"):format(spec))
  return status == 0
end

local sound = {} -- specs that pass without a change, and so tell something by failing

-- The first spec that fails with the change; original(f) calls f without it.
local function killer(path, original)
  for _, spec in ipairs(table.move(ordered(path), 1, #specs, 1, {})) do
    if sound[spec] ~= false and not passes(spec) then
      if sound[spec] == nil then original(function() sound[spec] = passes(spec) end) end
      if sound[spec] then
        kills[spec] = kills[spec] + 1
        return spec
      end
      print("left out, since it fails without a change: " .. spec)
    end
  end
end

local function prepare()
  os.execute(("mkdir -p %s && { git ls-files -co --exclude-standard; } | tar c -T - 2>/dev/null | tar x -C %s"):format(
    COPY, COPY))
  os.execute(("mkdir -p %s/build && cp -a build/release %s/build/"):format(COPY, COPY))
  assert(select(2, run "make -s >/dev/null") == 0, "the copy does not build")
end

local function random_site(files)
  local path = files[math.random(#files)]
  local text = read(COPY .. "/" .. path)
  local list = sites.of(text, path:match "%.(%a+)$" == "c" and "c" or "lua", math.random)
  if #list == 0 or math.random() > #list / 60 then return nil end -- as many of a file as it has places
  return path, text, list[math.random(#list)]
end

local function described(path, text, site)
  local _, line = text:sub(1, site.from):gsub("\n", "")
  return ("%s:%d: %s -> %s"):format(path, line + 1, text:sub(site.from, site.to), site.new)
end

prepare()
local answers = {}
for _, command in ipairs(commands) do answers[command] = ask(command) end

local files = {}
local FIND <const> = "cd %s && find %s -not -path '*/test/*' '(' -name '*.c' -o -name '*.lua' ')' | sort"
for _, path in ipairs(lines(FIND:format(COPY, ROOMS))) do
  if path:find(wanted) then files[#files + 1] = path end
end

local counted, killed, equal = 0, 0, 0
local survivors = assert(io.open(COPY .. "/survivors.txt", "a"))
while counted < count do
  local path, text, site = random_site(files)
  if path then
    local shown, copy = described(path, text, site), COPY .. "/" .. path
    local other = text:sub(1, site.from - 1) .. site.new .. text:sub(site.to + 1)
    local function original(f)
      write(copy, text)
      build(path)
      f()
      write(copy, other)
      build(path)
    end
    write(copy, other)
    local command = build(path) and differs(answers)
    if command then
      counted = counted + 1
      local spec = killer(path, original)
      killed = killed + (spec and 1 or 0)
      print(("%s  %s  %s"):format(spec and "killed  " or "SURVIVED", shown, spec or command))
      if not spec then survivors:write(shown, "  ", command, "\n") end
    else
      equal = equal + 1
      print("the same  " .. shown)
    end
    io.stdout:flush()
    survivors:flush()
    write(copy, text)
    build(path)
  end
end
survivors:close()
print(("%d of %d mutants that change an answer were killed; %d change none, or do not build; seed %d"):format(killed,
  counted, equal, seed))
