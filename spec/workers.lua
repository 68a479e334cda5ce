--- Runs each spec file in a separate process, as many at a time as there are processors, the slowest files first. Each
--- has its own folder for temporary files (TMPDIR). Output is printed in the order of the files' names.
local lfs = require "lfs"
local program = require "program"

local workers = {}

local instrumented <const> = require "tperf.core".faults ~= nil

local quote = program.quote

local function lines(command)
  local pipe, list = assert(io.popen(command)), {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function processors()
  return math.tointeger(tonumber(lines "nproc 2> /dev/null || getconf _NPROCESSORS_ONLN"[1])) or 1
end

local function read(path)
  local file = io.open(path, "rb")
  if not file then return "" end
  local text = file:read "a"
  file:close()
  return text
end

-- Files that look at texts, at the build, or at other programs (make, cc, dpkg, bash, Node): builds with sanitizers or
-- for coverage would see nothing of the core in them that the other files do not show. One that is named alone runs in
-- any case.
local TEXTS <const> = { "build", "completion", "doors", "house", "house_docs", "package", "page_link", "python",
  "site" }

-- Long simulations of code that shorter specs run, too: with SPEC_SHORT set, as by .ci/run, such builds leave them out.
local LONG <const> = { "launch_hostile", "serve_answers", "serve_steady", "serve_strategies", "strategies" }

local left_out = {}
for _, name in ipairs(TEXTS) do left_out[("spec/%s_spec.lua"):format(name)] = true end
for _, name in ipairs(os.getenv "SPEC_SHORT" and LONG or {}) do left_out[("spec/%s_spec.lua"):format(name)] = true end

-- The spec files among files and folders, sorted by path.
local function files_of(paths)
  local quoted, seen, list = {}, {}, {}
  for i, path in ipairs(paths) do quoted[i] = quote(path) end
  for _, path in ipairs(lines("find " .. table.concat(quoted, " ") .. " -name '*.lua' | sort")) do
    local wanted = path:find "_spec%.lua$"
    if left_out[path] and instrumented then wanted = false end
    for _, given in ipairs(paths) do wanted = wanted or path == given end
    if wanted and not seen[path] then list[#list + 1] = { path = path, name = path:match "([^/]*)%.lua$" } end
    seen[path] = true
  end
  return list
end

-- The time of each file in the last run; a file without one is ranked by its size, after those known to be slow.
local TIMES <const> = "build/spec-times"
local SLOW <const> = { "launch_hostile", "processes", "data_files", "package", "validate", "search_options", "files",
  "report_docs", "page_link", "cache_files", "launch_cli", "sandbox", "write_failure", "sweep", "launch_models",
  "scripts", "verify", "speed", "cli", "decode_functions" }

local function longest_first(files)
  local times, order = {}, {}
  for i, name in ipairs(SLOW) do times[("spec/%s_spec.lua"):format(name)] = 10 + #SLOW - i end
  for seconds, path in read(TIMES):gmatch "(%S+) ([^\n]*)" do times[path] = tonumber(seconds) end
  for i, file in ipairs(files) do
    file.expected = times[file.path] or #read(file.path) / 1e4
    order[i] = i
  end
  table.sort(order, function(a, b)
    local x, y = files[a], files[b]
    if x.expected ~= y.expected then return x.expected > y.expected end
    return x.path < y.path
  end)
  return order
end

local function keep_times(files)
  local list = {}
  for _, file in ipairs(files) do
    if file.seconds then list[#list + 1] = ("%.2f %s\n"):format(file.seconds, file.path) end
  end
  local name = ("%s.%s"):format(TIMES, lines "echo $PPID"[1]) -- another run may be keeping its own
  local file = io.open(name, "wb")
  if not file then return end -- no folder for it: next time goes by size again
  file:write(table.concat(list))
  file:close()
  os.rename(name, TIMES)
end

-- The process of a file: its temporary files in N/, its output in N.log, its tests in N.tests (see output.lua). It
-- prints "N STATUS" when it has ended. None begins after SPEC_UNTIL, in seconds since 1970: then it prints "N late".
local WORKER <const> = [[
folder=$1; program=$2; i=$3; shift 3
if [ "$(date +%s)" -ge "${SPEC_UNTIL:-99999999999}" ]; then echo "$i late"; exit; fi
TMPDIR="$folder/$i" SPEC_RECORD="$folder/$i.tests" "$program" run --trust spec/run.lua "$@" \
  < /dev/null > "$folder/$i.log" 2>&1
echo "$i $?"]]

-- A line of xargs' input for each file: the arguments of its process, which has a folder of its own.
local function write_list(folder, files, options)
  local text = {}
  for _, i in ipairs(longest_first(files)) do
    local words = { quote(folder), quote(program.absolute()), tostring(i), quote(files[i].path) }
    for _, option in ipairs(options) do words[#words + 1] = quote(option) end
    assert(lfs.mkdir(("%s/%d"):format(folder, i)))
    text[#text + 1] = ("sh -c %s worker %s"):format(quote(WORKER), table.concat(words, " "))
  end
  program.write(folder .. "/list", table.concat(text, "\0"))
end

-- Reads the outcome of a file's tests.
local function judge(file, folder, i, status)
  local log, tests = read(("%s/%d.log"):format(folder, i)), read(("%s/%d.tests"):format(folder, i))
  local passed, failed, seconds = tests:match "\nend (%d+) (%d+) (%S+)\n$"
  file.passed, file.failed, file.seconds = tonumber(passed) or 0, tonumber(failed) or 0, tonumber(seconds)
  file.log = log
  if passed and status == (file.failed > 0 and 1 or 0) then return end
  local reason = not status and "did not end" or status > 128 and "was ended by signal " .. status - 128
    or "ended with status " .. status
  local last = tests:match "test ([^\n]*)\n$" or "no test"
  file.failed = file.failed + 1
  file.crash = ("CRASHED %s: its process %s %s"):format(file.path, reason,
    passed and "after its last test" or "in " .. last)
end

local function print_line(file)
  if file.late then return print(("%-36s left out: no time is left"):format(file.name)) end
  local verdict = ("%4d passed"):format(file.passed)
  if file.failed > 0 then verdict = ("%s, %d failed"):format(verdict, file.failed) end
  print(("%-36s %s%s"):format(file.name, verdict, file.seconds and ("  %.1f s"):format(file.seconds) or ""))
end

-- Runs them all; prints a line for each, in order, as soon as those before it have ended.
local function run_all(folder, files, jobs)
  local command = ("xargs -0 -n 1 -P %d sh -c < %s"):format(jobs, quote(folder .. "/list"))
  local pipe, printed = assert(io.popen(command)), 0
  for line in pipe:lines() do
    local i, status = line:match "^(%d+) (%w+)$"
    local file = files[tonumber(i)]
    if file then
      if status == "late" then
        file.late, file.log, file.passed, file.failed = true, "", 0, 0
      else
        judge(file, folder, tonumber(i), tonumber(status))
      end
      while files[printed + 1] and files[printed + 1].log do
        printed = printed + 1
        print_line(files[printed])
      end
      io.flush()
    end
  end
  pipe:close()
  for i = printed + 1, #files do
    if not files[i].log then judge(files[i], folder, i) end
    print_line(files[i])
  end
end

-- Prints the whole output of a file, if there is any, and how it crashed.
local function print_rest(file)
  local text = file.log:gsub("%d+ passed, %d+ failed\n$", "")
  if text:find "%S" then print("\n--- " .. file.path .. "\n" .. text:gsub("^\n+", ""):gsub("\n+$", "")) end
  if file.crash then print((text:find "%S" and "" or "\n") .. file.crash) end
end

--- Runs the spec files of the paths, each with busted's options.
---@param paths string[]
---@param options string[]
---@param jobs? integer  processes at a time; as many as there are processors
---@return boolean  whether all passed
function workers.run(paths, options, jobs)
  local files, folder = files_of(paths), program.folder()
  write_list(folder, files, options)
  run_all(folder, files, jobs or processors())
  program.remove(folder)
  local passed, failed, late = 0, 0, 0
  for _, file in ipairs(files) do
    if file.failed == 0 then print_rest(file) end
    passed, failed, late = passed + file.passed, failed + file.failed, late + (file.late and 1 or 0)
  end
  for _, file in ipairs(files) do -- last, where they are seen
    if file.failed > 0 then print_rest(file) end
  end
  if passed + failed == 0 then failed = 1 end -- nothing ran: a typo in a name must not pass
  if #options == 0 and #files > 20 then keep_times(files) end -- not for a few files
  if late > 0 then print(("\n%d of %d files are left out: no time was left for them"):format(late, #files)) end
  print(("\n%d passed, %d failed"):format(passed, failed))
  return failed == 0
end

return workers
