--- What blocks of the library made, by the fields of the share that each reads: attention never reads the size of the
-- expert axis, so its ops for one size serve for the next. What a block has read so far decides what it reads next, so
-- shares that agree in all fields that it ever read have the same ops. Shapes that differ in the micro-batch alone
-- follow each other: the other fields are compared once for all of them. Ops that are remembered are never changed
-- again. A layer's ops, joined to the sizes of its axes, are shared by all workloads that have them.
--
-- Norms, routers and experts see nothing of the micro-batch but the tokens of this GPU's stream: four samples on four
-- GPUs are as many as two on two. A share offers them as its `stream`, and as long as a block reads that and not the
-- micro-batch, its ops are remembered by their number.
local axes = require "tperf.describe.strategy.axes"
local forms = require "tperf.describe.layout.forms"

local memo = {}

local MOST_OPS <const> = 49152 -- in all; each takes two KiB
local LARGE <const> = 128 << 10 -- KiB in use, from which what was forgotten goes at once: else as much may come again
local collectgarbage = collectgarbage -- scripts may lose it

local held, memories, listeners = 0, setmetatable({}, { __mode = "k" }), {}

--- Calls f whenever all that is remembered is forgotten: for whatever else keeps ops alive.
---@param f function
function memo.when_forgotten(f) listeners[#listeners + 1] = f end

--- Forgets all ops, and what keeps them alive.
function memo.forget()
  held = 0
  for memory in pairs(memories) do memory.classes, memory.joints = {}, {} end
  for _, f in ipairs(listeners) do f() end
end

--- Counts ops that are held in memory; forgets everything if they are too many.
---@param count integer
function memo.hold(count)
  if held > MOST_OPS then
    memo.forget()
    if collectgarbage "count" > LARGE then collectgarbage() end
  end
  held = held + count
end

-- Fields of shares that are the same in all of one layout, besides the axes of other strategies; those that most blocks
-- read: shares that agree in them are of one class; and those that follow from the micro-batch and the class.
local LAYOUT <const> = { "rules", "attention", "tuning", "exchange" }
local CLASS <const> = { "mode", "seq", "sequence_parallel", "dtype", "weight_dtype", "kv_dtype", "matrix_dtype",
  "recompute_modules", "offload_modules", "cuda_graphs", "part" }
local MICRO_BATCH <const> = { "micro_batch", "tokens" }

--- An empty memory of one layout: a model in one strategy, by some rules, with one attention and one tuning.
---@param s table  the strategy
---@return table memory
function memo.new(s)
  local foreign, fixed = {}, {}
  for _, name in ipairs((axes.words())) do foreign[#foreign + 1] = not s.index[name] and name or nil end
  for _, list in ipairs { LAYOUT, CLASS, MICRO_BATCH, { "stream", "group" } } do
    for _, name in ipairs(list) do fixed[name] = true end
  end
  local memory = { strategy = s, fixed = fixed, foreign = foreign, classes = {}, joints = {} }
  memories[memory] = true
  return memory
end

local function class_of(memory, share)
  local name = rawget(share, "class")
  if not name then
    local words = {}
    for i = 1, #CLASS do words[i] = tostring(rawget(share, CLASS[i])) end
    name = table.concat(words, " ")
    share.class = name
  end
  local class = memory.classes[name] or {}
  memory.classes[name] = class
  return class
end

-- What a block made for the shares of a class. fields: all that it ever read and that may differ between them; root: a
-- tree of their values, whose leaves have the list of ops for each stream or, once the block has read the micro-batch,
-- for each of these. A new field begins a new tree, of another version.
--
-- Groups of layers that agree in what the block reads of them share its ops: of_group are those fields.
local function new_kind(block)
  return {
    block = block, fields = {}, known = {}, of_group = {}, root = {}, version = 1, written = {}, by_stream = true,
  }
end

local function renew(kind) kind.root, kind.version = {}, kind.version + 1 end

local NONE <const> = {} -- a value that stands for nil

local function step(node, value)
  if value == nil then value = NONE end
  local after = node[value] or {}
  node[value] = after
  return after
end

local function leaf_of(kind, share)
  local fields, of_group, node, group = kind.fields, kind.of_group, kind.root, rawget(share, "group")
  for i = 1, #fields do node = step(node, rawget(share, fields[i])) end
  if not kind.known.group then return node end
  node = step(node, group ~= nil)
  for i = 1, #of_group do node = step(node, group and group[of_group[i]]) end
  return node
end

-- A proxy of the group of kind.share that lists what is read of it.
local function group_of(kind)
  local known, of_group = {}, kind.of_group
  return setmetatable({}, { __index = function(_, field)
    if not known[field] then known[field], of_group[#of_group + 1] = true, field end
    return kind.share.group[field]
  end })
end

-- A proxy of kind.share that lists the fields that were never read before: the others are in it already. What is the
-- same in the whole class stays there. Sizes of axes that the strategy lacks are false.
local function proxy_of(memory, kind)
  local fixed, own, known, s = memory.fixed, {}, kind.known, memory.strategy
  kind.group = kind.group or group_of(kind)
  for _, name in ipairs(memory.foreign) do own[name] = false end
  return setmetatable(own, {
    __index = function(proxy, field)
      if known[field] then return s[field] end
      if field == "micro_batch" or field == "tokens" then kind.by_stream = false end
      local value = rawget(kind.share, field)
      local same = fixed[field]
      if field == "group" then value = value and kind.group end
      if value == nil then
        value = kind.share[field] -- the strategy's
        same = same or value ~= nil
      end
      known[field] = true
      if not same then kind.fields[#kind.fields + 1] = field end
      rawset(proxy, field, value)
      return value
    end,
    __newindex = function(proxy, field, value) -- the share is for other blocks, too
      kind.written[#kind.written + 1] = field
      rawset(proxy, field, value)
    end,
  })
end

-- The kind's proxy, of this share. It is the caller's until `release`: after an error, another is made.
local function acquire(memory, kind, share)
  local proxy = kind.proxy or proxy_of(memory, kind)
  kind.proxy, kind.share = nil, share
  rawset(proxy, "block", kind.block.name)
  local fields, by_stream = kind.fields, kind.by_stream
  rawset(proxy, "stream", by_stream and rawget(share, "stream"))
  for i = 1, #MICRO_BATCH do
    rawset(proxy, MICRO_BATCH[i], not by_stream and rawget(share, MICRO_BATCH[i]) or nil)
  end
  for i = 1, #fields do rawset(proxy, fields[i], rawget(share, fields[i])) end
  rawset(proxy, "group", kind.known.group and rawget(share, "group") and kind.group or nil)
  return proxy
end

local function release(kind, proxy)
  local written = kind.written
  for i = #written, 1, -1 do
    rawset(proxy, written[i], nil)
    written[i] = nil
  end
  kind.proxy, kind.share = proxy, nil
end

local function build(memory, kind, model, share)
  local count, proxy, by_stream = #kind.fields + #kind.of_group, acquire(memory, kind, share), kind.by_stream
  local asked_group = kind.known.group
  share.block = kind.block.name -- for messages
  local made = kind.block.build(model, proxy)
  made.name = kind.block.name
  release(kind, proxy)
  if by_stream and not kind.by_stream then
    renew(kind)
    return build(memory, kind, model, share) -- now the fields that its stream follows from are read, too
  end
  if #kind.fields + #kind.of_group > count or asked_group ~= kind.known.group then renew(kind) end
  return made
end

--- The part of a share that the lists of a leaf are remembered by.
function memo.key_of(kind, share) return kind.by_stream and share.stream or share.micro_batch end

local key_of = memo.key_of

local function find_leaf(job, share)
  local kind = job.kind
  if job.version ~= kind.version then job.leaf, job.version = leaf_of(kind, share), kind.version end
  return job.leaf
end

local FAR <const>, MOST_TOKENS <const> = 4096, 1 << 30

-- What the block makes many times further from a line's start than the share is, and the steps there; nil: unknown.
local function far_of(memory, job, model, share, line)
  local key, micro_batch, tokens, stream = key_of(job.kind, share), share.micro_batch, share.tokens, share.stream
  local last = key + FAR * (key - line.from)
  local far = micro_batch * last // key
  if far * share.seq > MOST_TOKENS then return nil end
  share.micro_batch, share.tokens, share.stream = far, far * share.seq, nil
  share.stream = stream and share:outer_tokens()
  local made = key_of(job.kind, share) == last and build(memory, job.kind, model, share)
  share.micro_batch, share.tokens, share.stream = micro_batch, tokens, stream
  return job.version == job.kind.version and made or nil, (last - line.from) // line.step
end

-- Most blocks' counts grow with the tokens in a straight line, which the first two keys of a leaf begin. If a third one
-- far away lies on it to the last bit, so do all between: what is rounded or has a bound would have left it by then.
local function on_line(memory, job, model, share)
  local kind, leaf, key = job.kind, job.leaf, key_of(job.kind, share)
  local line = leaf.line
  if not line or kind.bent then return nil end
  local first, second = leaf[line.from], line.step and leaf[line.from + line.step]
  line.step = line.step or key > line.from and key - line.from or nil
  if not second or key < line.from or (key - line.from) % line.step ~= 0 then return nil end
  if not line.last then
    local far, steps = far_of(memory, job, model, share, line)
    if not far then return nil end
    line.last, kind.bent = steps, not forms.reaches(first, second, steps, far)
  end
  local t = (key - line.from) // line.step
  return not kind.bent and t <= line.last and forms.on_line(first, second, t) or nil
end

-- What the job's block makes for this share, whose fields differ from earlier ones in the micro-batch alone.
local function made_of(memory, job, model, share)
  local kind, group = job.kind, share.group
  share.group = job.group
  local made = find_leaf(job, share)[key_of(kind, share)]
  if not made then
    made = on_line(memory, job, model, share) or build(memory, kind, model, share)
    local leaf, key = find_leaf(job, share), key_of(kind, share)
    leaf[key], leaf.line = made, leaf.line or { from = key }
    memo.hold(#made + 1)
  end
  share.group = group
  return made
end

-- Whether all that may change a block's ops is their full recomputation.
local function is_plain(share)
  return share.recompute ~= "selective" and not share.tuning and not share.cuda_graphs
    and not share.offload and not share.offload_modules
end

-- Appends what it takes to make a block's ops. full: they are recomputed; opens: the layer's first op is among them.
local function append(class, block, model, share, jobs, group, full, opens)
  if block.unmarked and is_plain(share) then
    block, full, opens = block.unmarked, share.recompute == "full", block.opens
  end
  if block.pieces then
    for i, piece in ipairs(block.pieces(model, share)) do
      append(class, piece.block, model, share, jobs, piece.group or group, full, opens and i == 1)
    end
    return
  end
  local kind = class[block]
  if not kind then
    kind = new_kind(block)
    class[block] = kind
  end
  jobs[#jobs + 1] = { kind = kind, version = 0, group = group, full = full, opens = opens }
end

--- What it takes to make the ops of a block of the library for shares of one layer, variant and sizes, whatever the
--- micro-batch.
---@param memory table  of memo.new
---@param share table   of strategy.share
---@return table[] jobs  with the block's `name`
function memo.jobs(memory, block, model, share)
  local jobs = { name = block.name }
  append(class_of(memory, share), block, model, share, jobs, share.group)
  jobs.lists, jobs.blocks = { name = block.name }, { name = block.name }
  return jobs
end

--- Bytes of the layer's input that a job's block keeps under full recomputation.
function memo.kept_input(job, model, share) return job.opens and 2 * share:outer(model.hidden) or 0 end

--- The ops of a block, as block:ops returns them, in a list for each job.
---@param jobs table   of memo.jobs for such a share
---@param share table  the same but for its micro-batch
---@return table[] lists  with the block's `name`, for tperf/describe/layout/forms.lua alone; the same table next time
function memo.lists(memory, jobs, model, share)
  local lists, micro_batch, stream = jobs.lists, share.micro_batch, share.stream
  for i = 1, #jobs do
    local job = jobs[i]
    local kind = job.kind
    local made = job.version == kind.version and job.leaf[kind.by_stream and stream or micro_batch]
      or made_of(memory, job, model, share)
    lists[i] = job.full and forms.recomputed(made, memo.kept_input(job, model, share)) or made
  end
  return lists
end

return memo
