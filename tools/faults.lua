--- Lets each allocation of the main questions and commands fail once (see src/bind/bind_faults.c): the call says that
--- memory ran out, or answers as ever; it leaves nothing behind, and the next call answers as ever. Leaks in C are the
--- address sanitizer's to find, when the process ends.
local check = require "tperf.check"
local core = require "tperf.core"
local encode = require "tperf.report.json".encode
local program = require "program" -- spec/program.lua
local tperf = require "tperf"

local faults = { cases = {} }

local MODEL <const> = { name = "small", layers = 4, hidden = 256, heads = 8, kv_heads = 4, ffn = 512, vocab = 1000,
  seq = 128 }

local SYSTEM <const> = tperf.system "h100-sxm" -- read once: reading has a case of its own

-- small: so few allocations that specs try them all.
local function add(name, f, small) table.insert(faults.cases, { name = name, f = f, small = small }) end

add("tperf.model", function() return tperf.model "spec/data/hf/mixtral-8x7b.json":parameters() end)
add("tperf.system", function() return tperf.system("systems/h100-sxm.yaml").network end)
add("tperf.search", function()
  local found = tperf.search { model = MODEL, system = SYSTEM, gpus = 16, global_batch = 16, threads = 1,
    keep = "all", strategy = { "tensor", "summa" } }
  return { found.candidates, table.unpack(found) }
end)
add("tperf.search with two threads and a function", function()
  local both = tperf.search { model = MODEL, system = SYSTEM, gpus = { 4, 8 }, global_batch = 16, threads = 2,
    top = 2, where = function(c) return c.pp < 4 end }
  return { both[1][1], both[1][2], both[2][1], both[2][2] }
end)
add("a search that finds nothing that fits", function()
  local found = tperf.search { model = "llama-3-8b", system = SYSTEM, gpus = 1, global_batch = 1, threads = 1 }
  return { found.candidates, found.reason }
end)
add("tperf.train", function()
  return tperf.train { model = MODEL, system = SYSTEM, global_batch = 16, tp = 2, pp = 2, dp = 2,
    simulate = "1f1b" }
end)
add("tperf.infer", function()
  return tperf.infer { model = MODEL, system = SYSTEM, tp = 2, batch = 4, prompt = 64, generate = 16 }
end)
add("tperf.search_inference", function()
  return tperf.search_inference { model = MODEL, system = SYSTEM, gpus = 4, tp = { 1, 2 }, batch = { 1, 4 },
    prompt = 64, generate = 16, tpot = "20 ms" }
end)
add("tperf.collective", function()
  return tperf.collective { system = SYSTEM, kind = "all_reduce", bytes = "1 GB", gpus = 16 }
end)
add("tperf.schedule", function()
  local s = tperf.schedule { schedule = "zbv", devices = 2, microbatches = 4,
    times = { forward = 1, backward_input = 1, backward_weight = 1 } }
  return { s.makespan, s.bubble_rate }
end, true)
add("a schedule of pairs", function()
  return tperf.schedule { schedule = "dualpipe", devices = 2, microbatches = 4 }.makespan
end, true)
add("a deadlock", function()
  local _, message = check.attempt(tperf.schedule, { schedule = "interleaved_1f1b", devices = 4, stages = 16,
    microbatches = 16, group_size = 3 })
  return message
end, true)
add("tperf.sweep", function()
  return tperf.sweep { model = MODEL, system = SYSTEM, gpus = tperf.vary { 4, 8 }, global_batch = 16, tp = 2 }.rows
end)
add("tperf.validate", function() return #tperf.validate { file = "spec/data/fuzz/csv/bom_crlf.csv" }.cases end)
add("JSON", function()
  return (assert(core.yaml('{"\\ud83d\\ude00": [1, {"a": "b"}], "c": 1e5, "d": {"e": 1, "f": 2}}', "f")))
end, true)

-- What only the program has, for commands that are run within this one.
local host = { program = "tperf", exit = error, limits = {} }
function host.verbose() end

host.limits.memory, host.limits.instructions = host.verbose, host.verbose

local function command(line)
  local arguments = { [0] = "tperf" }
  for word in line:gmatch "%S+" do arguments[#arguments + 1] = word end
  return require "tperf.cli"(host, arguments)
end

-- What is printed while f runs.
-- luacheck: push ignore 121 122 (standard output is set)
local function printed_by(f)
  local before, sink, quiet = { io.stdout, io.stderr, print, io.output() }, io.tmpfile(), {}
  function quiet:write() return self end
  local function print_to_sink(...)
    for i = 1, select("#", ...) do sink:write(tostring((select(i, ...)))) end
    sink:write "\n"
  end
  io.stdout, io.stderr, print = sink, quiet, print_to_sink
  io.output(sink)
  f()
  io.stdout, io.stderr, print = table.unpack(before, 1, 3)
  io.output(before[4])
  sink:seek "set"
  local text = sink:read "a"
  sink:close()
  return text
end
-- luacheck: pop

for _, line in ipairs {
  "search gpt2 -s h100-sxm -g 8 -b 16 -j 1", "train gpt2 -s h100-sxm -b 16 --tp 2 --dp 4 --json",
  "memory gpt2 -s h100-sxm -b 16 --tp 2", "infer gpt2 -s h100-sxm -p 64 -n 16 --tp 2",
  "collective all_reduce -s h100-sxm -n 1MiB -g 8", "schedule 1f1b zbv -d 2 -m 4 --text", "params mixtral-8x7b --csv",
  "validate spec/data/fuzz/csv/bom_crlf.csv", "compat llm-analysis train --model_name facebook_opt-1.3b --json",
  "list systems", "show gpt2", "help search", "version",
} do
  add("tperf " .. line, function() return command(line) end)
end

local NEXT <const> = 8 -- after so many failures, and the last one, a call without one; those between are calls as well

local fail, count = core.faults and core.faults.fail, core.faults and core.faults.count

-- The answer and what was printed; a message when f raised one. A failure strikes the call only.
local function answer(f, kind, n)
  local ok, result, used
  local text = printed_by(function()
    fail(kind, n)
    ok, result = pcall(f)
    used = count(kind)
    fail(kind, 0)
  end)
  if not ok then return nil, tostring(result), used end
  return encode(result) .. text, nil, used
end

--- Tries a case: of its allocations of that kind all, or an even sample of so many. Raises what is wrong; else
--- how many failures were tried, and how many of them the caller heard of.
---@param case table    of faults.cases
---@param kind string   "core", "site" or "lua": see src/bind/bind_faults.c
---@param most integer? the sample
---@return integer tried
---@return integer heard
function faults.try(case, kind, most)
  local wanted = assert(answer(case.f, kind, 0)) -- also loads what is loaded once
  local _, _, total = answer(case.f, kind, 0)
  local stride = most and math.max(1, (total + most - 1) // most) or 1
  local tried, heard = 0, 0
  collectgarbage()
  collectgarbage()
  local before = collectgarbage "count"
  for n = 1 + total % stride, total, stride do
    local got, message = answer(case.f, kind, n)
    local where = ("%s: %s allocation %d of %d: "):format(case.name, kind, n, total)
    if got and got ~= wanted then error(where .. "another answer:\n" .. got, 0) end
    if message and not message:find "memory" then error(where .. message, 0) end
    if (n // stride) % NEXT == 0 or n + stride > total then
      local again, problem = answer(case.f, kind, 0)
      if again ~= wanted then error(where .. "the next call: " .. (problem or "another answer:\n" .. again), 0) end
    end
    tried, heard = tried + 1, heard + (message and 1 or 0)
  end
  collectgarbage()
  collectgarbage()
  local kept = collectgarbage "count" - before
  if kept > 200 then error(("%s: %d KB of Lua's are kept after %d failures"):format(case.name, kept, tried), 0) end
  return tried, heard
end

-- --- whole runs of the program, in a folder of their own ---

--- Command lines; what they write is in out.
faults.programs = {
  "tperf version", "tperf train gpt2 -s h100-sxm -b 16 --tp 2 --dp 4", "tperf schedule 1f1b -d 2 -m 4 --svg out.svg",
  "tperf run --out out script.lua",
}

local SCRIPT <const> = [[
local tperf = require "tperf"
local system = tperf.system "h100-sxm"
tperf.report.save("rows.csv", { { name = system.name, domain = system.network.fast.domain } })
print(system)
]]

local SANITIZERS <const> = "ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=exitcode=99:halt_on_error=1 "

local function outputs(folder)
  return program.shell("find . -type f ! -name script.lua ! -name '*.lua' -exec cksum {} + | sort", folder).out
end

local function run_program(line, folder, fault)
  program.shell("rm -rf out out.svg", folder)
  local result = program.shell(("export TPERF_FAULT=%s %s; %s"):format(fault, SANITIZERS, line), folder)
  result.files = outputs(folder)
  return result
end

-- How many allocations of that kind a run has: the least n of which no run fails, within a few percent.
local function count_allocations(line, folder, kind)
  local function fails(n) return run_program(line, folder, kind .. ":" .. n).code ~= 0 end
  local low, high = 0, 64
  while fails(high) do low, high = high, 4 * high end
  for _ = 1, 5 do
    local middle = (low + high) // 2
    if fails(middle) then low = middle else high = middle end
  end
  return high
end

--- As faults.try, with runs of the program: status 1 and a message, or all as ever; no half file.
---@param line string
---@param kind string
---@param most integer
---@return integer tried
function faults.try_program(line, kind, most)
  local folder = program.folder()
  program.write(folder .. "/script.lua", SCRIPT)
  local wanted = run_program(line, folder, "none")
  local total = count_allocations(line, folder, kind)
  local stride, tried = math.max(1, total // most), 0
  for n = 1 + total % stride, total, stride do
    local got = run_program(line, folder, kind .. ":" .. n)
    local where = ("%s: %s allocation %d of %d: "):format(line, kind, n, total)
    local told = got.code == 1 and got.err:find "^tperf: " and got.err:find "memory"
    local same = got.code == 0 and got.out == wanted.out
    if not told and not same then error(where .. ("status %d\n%s"):format(got.code, got.err), 0) end
    for file in got.files:gmatch "[^\n]+" do
      if not wanted.files:find(file, 1, true) then error(where .. "half a file: " .. file, 0) end
    end
    tried = tried + 1
  end
  program.remove(folder)
  return tried
end

return faults
