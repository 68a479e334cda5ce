--- What kernels and libraries of software read, write, hold and reach: kernels/*.yaml, each number with its source.
--- A file of the same name in a folder of --data or TPERF_PATH takes its place. The program has its own copy of those
--- that tperf ships, so that it needs no files to answer questions about tables of a script.
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local core = require "tperf.core"
local roots = require "tperf.base.roots"

local MOST <const> = 1e6 -- of bytes for each element, and of kernels

local function bytes() return check.number { min = 0, max = MOST } end

local function count() return check.integer { min = 0, max = MOST } end

local function part() return check.number { above = 0, max = 1 } end

local function size() return check.number { min = 0, max = 1e15, unit = "bytes" } end

-- Bytes for each element, or kernels, of both passes, with further fields.
local function passes(more)
  local fields = { forward = bytes(), backward = bytes() }
  for name, one in pairs(more or {}) do fields[name] = one end
  return check.record_of(fields)
end

-- A list of kernels { name = bytes }, as lists { name, bytes }.
local function list()
  local each = check.list(check.any(), { min = 1, max = 64 })
  return function(value, path)
    local kernels, message, where = each(value, path)
    if message then return nil, message, where end
    local result = {}
    for i, kernel in ipairs(kernels) do
      local name, number = next(type(kernel) == "table" and kernel or {})
      local amount = type(name) == "string" and bytes()(number, path) or nil
      if not amount or next(kernel, name) ~= nil then
        return nil, ("'%s[%d]' must be a kernel's name with its bytes for each logit, such as { softmax: 8 }"):format(
          path, i), path
      end
      result[i] = { name, amount }
    end
    return result
  end
end

local rate = check.number { above = 0, max = 1e15, unit = "bytes/s", default = 0 }
local function loss()
  -- whole: whether all of a micro-batch's logits are in memory at once
  return passes { kept = bytes(), held = bytes(), whole = check.boolean { default = true } }
end

-- Conditions, features with their values, as a table; nil: they are none. known: those of earlier lines, many of which
-- have the same.
local function conditions_of(text, known)
  local where = known[text]
  if where then return where end
  where = {}
  local length = 0 -- of all of them
  for name, value in text:gmatch "([%w_-]+)=([%w_-]+)" do
    where[name], length = value, length + #name + #value + 2
  end
  known[text] = where
  return length == #text + 1 and where or nil -- with a space between each two
end

-- A class of runs as a line has it: two quantiles of measured / predicted, the number of runs and of their sources, and
-- conditions; nil: it has none.
local function class_of(line, known)
  local low, high, runs, sources, text = line:match "^([%d.]+) ([%d.]+) (%d+) (%d+) (.+)$"
  low, high = tonumber(low), tonumber(high)
  local where = low and high and 0 < low and low <= high and conditions_of(text, known)
  return where and { where = where, low = low, high = high, runs = math.tointeger(runs),
    sources = math.tointeger(sources) } or nil
end

local conditions = {} -- those of earlier lines

-- The classes of a text, one a line.
local function classes_of(text, path)
  local all = {}
  for line in text:gmatch "[^\n]+" do
    local class = class_of(line, conditions)
    if not class then
      check.fail("kernels/intervals.yaml: '%s' must be lines such as \"0.8 1.5 100 9 model=dense scale=node\": the "
        .. "ends, runs, sources and conditions of a class; got \"%s\"", path, line)
    end
    all[#all + 1] = class
  end
  return all
end

-- Classes of runs by figure, which are lines of text. A figure's are read when somebody asks for them: a question about
-- training never asks for those of serving.
local function classes(value, path)
  if type(value) ~= "table" then return nil, ("'%s' must be classes by figure"):format(path), path end
  for figure, text in pairs(value) do
    if type(figure) ~= "string" or type(text) ~= "string" then
      return nil, ("'%s.%s' must be lines, one for each class"):format(path, check.show(figure)), path
    end
  end
  return setmetatable({}, { __index = function(all, figure)
    local found = value[figure] and classes_of(value[figure], path .. "." .. figure)
    rawset(all, figure, found)
    return found
  end })
end

-- A schema is made when its file is first read.
local SCHEMAS <const> = {
  eager = function() -- PyTorch without a compiler
    return {
      rotary = passes(), gate = passes(),
      norms = check.record_of { pytorch = passes(), copied = passes { kept = bytes() } },
      limits = passes { kept = bytes() }, steps = passes { kept = bytes() }, softmax = passes { kept = bytes() },
    }
  end,
  losses = function() -- of profiles: what cross-entropy keeps, holds and moves
    return {
      ["in-place"] = loss(), native = loss(), copied = loss(), pytorch = loss(), ["pytorch-16bit"] = loss(),
      compiled = loss(), chunked = loss(), ["chunked-logits"] = loss(), ["fused-linear"] = loss(), fused = loss(),
    }
  end,
  dispatch = function()
    return {
      -- Multiprocessors that the kernels occupy; bytes/s that each of these relays between domains, and passes on
      -- within one, a GPU's own tokens too (0: as fast as links are); the part of a port's bandwidth that they reach
      -- (0: as an all-to-all's).
      deepep = check.record_of {
        sms = count(), relayed = rate, passed = rate,
        -- In serving, for a GPU's batch of so many tokens at most: beyond an all-to-all's latency, what each doubling
        -- of the nodes takes more; and the part of a port's bandwidth.
        low_latency = check.record_of {
          tokens = count(), doubling = check.number { min = 0, max = 1, unit = "s" }, ports = part(),
        },
      },
      hybridep = check.record_of { sms = count(), relayed = rate, ports = part() },
    }
  end,
  intervals = function() -- errors of runs that no fit saw
    return { classes = classes }
  end,
  experts = function()
    return { choice = passes(), bias = passes { held = bytes() }, sorts = count() }
  end,
  sampling = function()
    return {
      widen = bytes(), largest = bytes(), copies = count(), draw = list(), sort = list(), cut = list(), reject = list(),
    }
  end,
  attention = function()
    return {
      softmax = passes { heads = check.integer { min = 1, max = MOST }, keys = count(), calls = count() },
      aligned = check.integer { min = 1, max = MOST }, scan = passes(), delta = passes(),
    }
  end,
  rl = function() -- between rollout and training
    local fields = {}
    for _, name in ipairs { "park", "unpark", "sleep", "wake", "asleep", "floor", "steps", "unaccounted", "ipc",
      "nccl", "broadcast", "reshard", "reshard_start", "disk", "length_cv", "length_mean", "colocated_utilization",
      "split_utilization" } do
      local one = check.number { min = 0, max = 1e15 }
      fields[name] = check.record_of { value = one, low = one, high = one }
    end
    return fields
  end,
  memory = function()
    return {
      reserved = check.number { min = 1, max = 100 }, context = size(), nccl = size(), logit = bytes(),
      cublas = check.record_of { bytes = size(), older = size(), threads = count() },
      engine = check.record_of { bytes = size(), older = size() },
      older = check.list(check.string()), -- generations of GPUs
      growth = check.record_of { library = part(), script = part() },
    }
  end,
}

local source = check.string { optional = true }

-- The path of somebody's own file: one that differs from what tperf ships.
local function own(path)
  local found = roots.find(path)
  return found and catalogue.text(found) ~= core.files[path] and found or nil
end

local function made(name)
  local path, schema = ("kernels/%s.yaml"):format(name), SCHEMAS[name]()
  schema.source = source
  local construct = catalogue.constructor { what = path, kind = "kernels", schema = schema }
  return construct(own(path) or (core.yaml(core.files[path], path)))
end

local known = {}

local kernels = {}

--- The numbers of kernels/NAME.yaml.
---@param name string
---@return table
function kernels.of(name)
  local one = known[name] or made(name)
  known[name] = one
  return one
end

--- All of them, by name: what decides answers beside a question's own objects.
---@return table<string, table>
function kernels.all()
  local all = {}
  for name in pairs(SCHEMAS) do all[name] = kernels.of(name) end
  return all
end

return kernels
