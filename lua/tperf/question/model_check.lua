--- tperf.check: what the blocks of a model say, beside what its description says: parameters, FLOPs, cache and state,
--- how work and weights shrink with every axis, and in which modes each block works. docs/architectures.md.
local architecture = require "tperf.describe.arch"
local axes = require "tperf.describe.strategy.axes"
local cache = require "tperf.describe.arch.cache"
local composed = require "tperf.describe.arch.composed"
local check = require "tperf.base.check"
local model = require "tperf.base.catalogue".shared((require "tperf.describe.model"))
local rules = require("tperf.describe.rules.sets").of
local stated = require "tperf.describe.model.stated"
local strategy = require "tperf.describe.strategy"
local number = require "tperf.output.format"
local workload = require "tperf.describe.workload"

local model_check = {}

local ELEMENT_BYTES <const> = 2
-- Cached tokens at which a decode step is looked at: within all windows, and whole strides of 16 with the new token.
local NEAR <const>, FAR <const> = 15, 63
local MODES <const> = {
  { name = "train", sequence_parallel = true }, { name = "prefill", sequence_parallel = false },
  { name = "decode", seq = 1, context = NEAR, sequence_parallel = false },
}
local SIZES <const> = { 8, 4, 2 }
local STRATEGIES <const> = { "tensor", "context" }
local SAME <const> = 0.01 -- of counts: a hundredth

---@class tperf.checked what the blocks of a model say, beside its description
---@field blocks table[] for each block of each kind of layer, and of both ends: { kind, block, layers, parameters and
---   flops_per_token (of a layer, forward), train, prefill, decode (true, or why it has no ops there), reads_context
---   (whether a decode step's counts change with it), axes = { NAME = { gpus, work, weights, folds } }: of one of so
---   many GPUs, as parts of one GPU's; folds: these GPUs hold other samples anyway }
---@field kinds table[] { key, layers }
---@field parameters table { counted, described }: of the ops, of the model; described is nil if nothing states it
---@field flops_per_token table { counted, described }: of a forward pass
---@field cache table[] for each kind: { key, layers, read, token, state }: bytes that a decode step's ops read more for
---   each cached token of one sequence, and bytes per token and of state that memory counts, of a layer
---@field warnings string[] where both disagree, and what does not shrink

local function sizes_of(s, m, set, name, size)
  local sizes, share = {}, strategy.share(s, m, 1, {}, set, {})
  for i, axis in ipairs(s.axes) do
    sizes[i] = axes.cuts(axis, "state") and 0 or 1
    if axis.name == name then
      sizes[i] = size
    elseif axis.default and not axes.cuts(axis, "state") then
      sizes[i] = axes.default(axis, m, share, set)
    end
    share[axis.name] = sizes[i]
  end
  return sizes, share
end

-- A section's share: of one kind of layer, or of an end.
local function share_of(t, s, sizes, group, mode)
  local options = { seq = mode.seq or group and group.seq, mode = mode.name, context = mode.context,
    sequence_parallel = mode.sequence_parallel }
  local share = strategy.share(s, t.model, 1, sizes, t.rules, options)
  share.group = group
  return share
end

-- A block's counts: parameters (those of tied weights once, in the embedding), flops in forward and in both passes,
-- bytes, those of one run of each op, those of one key of ops that do not read all of them (read: a whole number), and
-- parameters by the name that ops share; nil and the reason if it has no ops.
local function counts_of(t, block, share)
  local ok, list = pcall(block.ops, block, t.model, share)
  if not ok then return nil, (tostring(list):gsub("^[^\n]-:%d+: ", "")) end
  local sum = { parameters = 0, forward = 0, bytes = 0, once = 0, key = 0, tied = 0, shared = {} }
  for _, op in ipairs(list) do
    local c, name = op:counts(), op:shared_as()
    if name then sum.shared[name] = math.max(sum.shared[name] or 0, c.parameters) end
    sum.once = sum.once + c.forward.bytes / op:times()
    local _, _, _, keys, key_bytes = op:kept()
    if share.mode == "decode" and keys > 0 and keys ~= share.context + 1 then sum.key = sum.key + key_bytes end
    sum.parameters = sum.parameters + c.parameters
    sum.tied = sum.tied + (c.tied and c.parameters or 0)
    sum.forward = sum.forward + c.forward.tensor_flops
    sum.bytes = sum.bytes + c.forward.bytes
  end
  return sum
end

local function part(one, all) return all > 0 and one / all or nil end

-- A size of an axis that its strategy admits; nil: none.
local function admitted(t, s, axis)
  for _, size in ipairs(SIZES) do
    local sizes, share = sizes_of(s, t.model, t.rules, axis.name, size)
    if axis.admits(t.model, share, t.rules) and stated.admits(t.model, s, share) then return size, sizes end
  end
end

-- How a block's work and weights shrink along the axes of the strategies.
local function scaling_of(t, block, group, whole)
  local list = {}
  for _, name in ipairs(STRATEGIES) do
    local s = strategy.of(name)
    for _, axis in ipairs(s.axes) do
      local cuts = not (axes.cuts(axis, "state") or axes.cuts(axis, "batch") or axis.default or list[axis.name])
      local size, sizes = nil, nil
      if cuts then size, sizes = admitted(t, s, axis) end
      local one = size and counts_of(t, block, share_of(t, s, sizes, group, MODES[1]))
      if one then
        local work = part(one.forward, whole.forward) or part(one.bytes, whole.bytes)
        list[axis.name] = { gpus = size, work = work, weights = part(one.parameters, whole.parameters),
          folds = axis.folds and true or nil }
      end
    end
  end
  return list
end

-- A row of a block, and its counts.
local function row_of(t, kind, block, group, layers)
  local s = strategy.of(STRATEGIES[1])
  local sizes = sizes_of(s, t.model, t.rules)
  local row, counts = { kind = kind, block = block.name, layers = layers }, {}
  for _, mode in ipairs(MODES) do
    local one, reason = counts_of(t, block, share_of(t, s, sizes, group, mode))
    counts[mode.name], row[mode.name] = one, one and true or reason
  end
  local train = counts.train
  if train then
    row.parameters = train.parameters
    row.flops_per_token = train.forward / (group and group.seq or t.model.seq)
    row.axes = scaling_of(t, block, group, train)
  end
  local far = counts.decode and counts_of(t, block, share_of(t, s, sizes, group, setmetatable({ context = FAR },
    { __index = MODES[3] })))
  if far then
    row.reads_context = far.forward ~= counts.decode.forward or far.bytes ~= counts.decode.bytes
    counts.read, counts.rounded = (far.once - counts.decode.once) / (FAR - NEAR), far.key / (FAR - NEAR)
  end
  return row, counts
end

-- The parameters of so many layers with a block; a tensor that ops share counts where it is met first.
local function parameters_of(t, counts, layers, at_end)
  local own, first = counts.parameters - (at_end and counts.tied or 0), 0
  for name, parameters in pairs(counts.shared) do
    own = own - parameters
    first = first + (t.shared[name] and 0 or parameters)
    t.shared[name] = true
  end
  return layers * own + first
end

local function add(t, kind, blocks, group, layers, at_end)
  local read, rounded = 0, 0
  for _, block in ipairs(blocks) do
    local row, counts = row_of(t, kind, block, group, layers)
    t.blocks[#t.blocks + 1] = row
    if counts.train then
      t.parameters = t.parameters + parameters_of(t, counts.train, layers, at_end)
      local counts_as_model = block.name ~= "mtp" -- the description's FLOPs leave these modules out
      t.flops = t.flops + (counts_as_model and layers * counts.train.forward or 0)
    end
    read, rounded = read + (counts.read or 0), rounded + (counts.rounded or 0)
  end
  return read, rounded
end

-- What a layer of each kind keeps of one sequence, as the description says.
local function described_caches(t)
  local s, list = strategy.of(STRATEGIES[1]), {}
  local share = strategy.share(s, t.model, 1, sizes_of(s, t.model, t.rules), t.rules, { mode = "decode", seq = 1 })
  for i, kind in ipairs(t.kinds) do
    local one = cache.of(t.model, share, kind.group)
    list[i] = { token = ELEMENT_BYTES * one.elements, state = one.state_bytes }
  end
  return list
end

-- The same as an architecture's ops and groups say; nothing, if it has no ops in decoding, of which its row tells.
local function said_caches(t)
  local s, list = strategy.of(STRATEGIES[1]), {}
  for i = 1, #t.kinds do list[i] = { token = 0, state = 0 } end
  local done, said = pcall(function()
    return workload.of(t.model, s, "flash", t.rules).caches(sizes_of(s, t.model, t.rules), function(context)
      return { mode = "decode", seq = 1, context = context, recompute = "none", sequence_parallel = false }
    end)
  end)
  for _, one in ipairs(done and said or {}) do
    local sum = list[one.section]
    if sum then sum.token, sum.state = sum.token + one.token_bytes, sum.state + one.state_bytes end
  end
  return list
end

local function add_kinds(t, parts)
  local at = {}
  for _, group in ipairs(parts.groups) do
    if at[group.key] then
      at[group.key].layers = at[group.key].layers + group.count
    else
      local kind = { key = group.key, layers = group.count, group = group }
      at[group.key], t.kinds[#t.kinds + 1] = kind, kind
    end
  end
  local kept = t.model.architecture and said_caches(t) or described_caches(t)
  for i, kind in ipairs(t.kinds) do
    local read, rounded = add(t, kind.key, kind.group.blocks, kind.group, kind.layers)
    t.cache[#t.cache + 1] = { key = kind.key, layers = kind.layers, read = read, token = kept[i].token,
      state = kept[i].state }
    t.rounded[i] = rounded
    kind.group = nil
  end
end

local function warn(t, format, ...) t.warnings[#t.warnings + 1] = format:format(...) end

local function differs(a, b) return math.abs(a - b) > SAME * math.max(math.abs(a), math.abs(b)) end

local function percent(a, b) return ("%+.3g %%"):format(100 * (a / b - 1)) end

local function warn_of_totals(t, own)
  for _, name in ipairs { "parameters", "flops_per_token" } do
    local one, unit = t[name], name == "parameters" and name or "FLOPs per token in a forward pass"
    if one.described and differs(one.counted, one.described) then
      warn(t, "the blocks have %s %s, the %s says %s (%s)", number.number(one.counted, nil, 4), unit,
        own and own[name] and "architecture" or "description", number.number(one.described, nil, 4),
        percent(one.described, one.counted))
    end
  end
end

local function warn_of_cache(t)
  for i, one in ipairs(t.cache) do
    if differs(one.read, one.token) and math.abs(one.read - one.token) > t.rounded[i] then
      warn(t, "a layer '%s' reads %s for each cached token of a sequence in decoding, and memory counts %s", one.key,
        number.number(one.read, "bytes"), number.number(one.token, "bytes"))
    end
  end
end

local function warn_of_blocks(t)
  for _, row in ipairs(t.blocks) do
    for _, mode in ipairs(MODES) do
      local asked = mode.name ~= "decode" or t.model.causal -- others have no decode steps
      if row[mode.name] ~= true and asked then
        warn(t, "block '%s' of '%s' has no ops in mode '%s': %s", row.block, row.kind, mode.name, row[mode.name])
      end
    end
    for _, name in ipairs(check.names(row.axes or {})) do
      local one = row.axes[name]
      if not one.folds and one.work and one.work > 1 - SAME and (row.flops_per_token or 0) > 0 then
        warn(t, "block '%s' of '%s' does all of its work on each of %d GPUs of %s", row.block, row.kind, one.gpus, name)
      end
    end
  end
end

-- What the architecture states, or else the description says of its own layers; nil: nothing does. A description
-- without heads describes no layers.
local function described(t, name, ...)
  local m, own = t.model, t.model.architecture
  if own and (composed.is(own) or not own[name] and not m.heads) then return nil end
  if own and not own[name] then
    m = setmetatable({}, getmetatable(m))
    for field, value in next, t.model do m[field] = value end
    m.architecture = nil
  end
  local ok, value = pcall(m[name], m, ...)
  return ok and value or nil
end

--- See tperf.check (report/near.lua).
function model_check.run(value)
  local t = { model = model(value), rules = rules(), blocks = {}, kinds = {}, cache = {}, warnings = {} }
  t.parameters, t.flops, t.shared, t.rounded = 0, 0, {}, {}
  local parts = architecture.of(t.model, t.rules)
  add(t, "first", parts.first, nil, 1)
  add_kinds(t, parts)
  add(t, "last", parts.last, nil, 1, true)
  local counted = described(t, "parameters")
  local flops = described(t, "flops_per_token", { convention = "matmul", backward = false })
  t.parameters = { counted = t.parameters, described = counted and counted.total + counted.mtp }
  t.flops_per_token = { counted = t.flops / t.model.seq, described = flops and flops.total }
  warn_of_totals(t, t.model.architecture)
  warn_of_cache(t)
  warn_of_blocks(t)
  t.model, t.rules, t.flops, t.shared, t.rounded = nil, nil, nil, nil, nil
  return t
end

return model_check
