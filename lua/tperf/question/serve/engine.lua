--- The serving engine: a profile of software/ and the times that its host adds. docs/serving.md.
local check = require "tperf.base.check"
local catalogue = require "tperf.base.catalogue"
local visible_memory = require "tperf.describe.machine.visible_memory"
local software = require "tperf.base.catalogue".shared(require "tperf.describe.software")

local engine = { USUAL = "vllm" }

local WHAT <const> = "tperf.serve"

local seconds = check.number { min = 0, max = 1, unit = "s", default = 0 }
local HOST <const> = { "front_end", "front_end_token", "step", "request", "token" }

local host = {}
for _, name in ipairs(HOST) do host[name] = seconds end
engine.host_checker = check.record_of(host, { optional = true })

-- A sort key of versions: "1.10" comes after "1.9".
local function release_of(name)
  return (name:gsub("%d+", function(digits) return ("%08d"):format(math.tointeger(tonumber(digits)) or 0) end))
end

-- The newest release of an engine in software/, such as "vllm".
local function newest(name)
  local found
  for _, known in ipairs(catalogue.list "software") do
    local of_it = known:sub(1, #name + 1) == name .. "-" and known:sub(#name + 2):find "^%d"
    if of_it and (not found or release_of(known) > release_of(found)) then found = known end
  end
  return found
end

--- The profile of an engine given by name (with or without a release), by file or as a table.
function engine.of(value)
  value = value == "llama.cpp" and "llama-cpp" or value or engine.USUAL
  if type(value) == "string" and value:find "^[%a-]+$" then value = newest(value) or value end
  local profile = software(value)
  if not profile.engine then
    check.fail("%s: software '%s' is a stack for training; engines are \"vllm\", \"sglang\", "
      .. "\"tensorrt-llm\" and \"llama-cpp\"", WHAT,
      profile.name)
  end
  return profile
end

--- The host's times: those given, else the engine profile's, for one GPU or several that step together.
function engine.host(profile, given, several)
  if given then return given end
  local times = {}
  for _, name in ipairs(HOST) do times[name] = profile.engine[name] end
  if several then times.step = times.step + profile.engine.step_parallel end
  return times
end

local ALWAYS <const> = { max_num_seqs = 1024, max_num_batched_tokens = 8192 } -- where no profile says more
local FEW <const> = 4 -- GPUs of an engine, below which some take smaller graphs

-- Whether a row of a profile's limits is of a system.
local function holds(row, system)
  local named = not row.systems
  for _, part in ipairs(row.systems or {}) do named = named or system.name:find(part, 1, true) ~= nil end
  return named and (not row.below or visible_memory(system) < row.below)
end

-- What the engine takes on a system where its command says nothing.
local function limits_of(profile, system)
  for _, row in ipairs(profile.engine.limits) do
    if holds(row, system) then return row end
  end
  return {}
end

--- Sets the limits of an engine that its command leaves open.
---@param settings table  the checked settings of an engine
---@param profile table?  nil: step times are given
---@param system table?
---@param gpus integer?   of an engine
---@return table taken  those that were set, by name
function engine.fill(settings, profile, system, gpus)
  local row, taken = profile and limits_of(profile, system) or {}, {}
  for name, usual in pairs(ALWAYS) do
    if settings[name] == nil then
      settings[name] = row[name] or usual
      taken[name] = settings[name]
    end
  end
  local graph = gpus and gpus < FEW and row.graph_tokens_few or row.graph_tokens
  if graph and settings.max_cudagraph_capture_size == nil then
    settings.max_cudagraph_capture_size = math.min(graph, 2 * settings.max_num_seqs)
    taken.max_cudagraph_capture_size = settings.max_cudagraph_capture_size
  end
  return taken
end

-- Tokens of a step for which vLLM's tuned configurations of experts in Triton give a tile; others take the nearest.
local TILES <const> = { 256, 512, 1024, 1536, 2048, 3072, 4096 }
local ALIGNED <const> = 16 -- rows of experts: Triton compiles a multiple of it apart from other numbers

--- What an engine that has just started has not compiled: the ends of the ranges of a step's tokens with a tile each,
--- the first of them what its graphs cover, and of which number of tokens multiples are compiled apart.
---@param p table       of tperf.question.serve.priced
---@param o table       checked arguments of tperf.serve
---@param graph integer tokens of the largest graph, 0: none
---@return number[] shapes  empty: all is compiled
---@return integer even
function engine.uncompiled(p, o, graph)
  local experts, plain = p.model.experts, o.compute_dtype == "bf16" and not p.weights
  if not (o.cold and experts and (plain or o.experts == "portable")) then return {}, 1 end
  local shapes, even = { graph }, ALIGNED
  for i = 2, #TILES do
    local between = (TILES[i - 1] + TILES[i]) / 2
    if between > graph then shapes[#shapes + 1] = between end
  end
  while even > 1 and experts.top_k * even // 2 % ALIGNED == 0 do even = even // 2 end
  return shapes, even
end

return engine
