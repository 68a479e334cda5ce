--- tperf.strategy: how one layer is cut over GPUs. A strategy is a table, see tensor.lua for a short one:
--   name             its name in messages
--   summary          a line for lists
--   extends          the strategy that provides the missing fields (context.lua extends tensor)
--   axes             a list of { name =, meaning =, admits = function(model, share, rules) -> true | false, reason }:
--                    the ways of cutting a layer, in the order in which the search tries sizes. `share` has this
--                    axis and those before it. Only sizes that divide the number of GPUs are asked about. Also:
--                      cuts      what it cuts: "weights" (except experts'), "experts", "batch", "state" (what ZeRO
--                                shards); { "weights", "experts" }. Axes that do not cut a weight replicate it: its
--                                gradients are reduced over them. "tokens" and "features" say how activations are
--                                cut, for readers
--                      folds     { "tp", "dp" … }: its groups consist of the GPUs of these axes, neighbours first; it
--                                adds no GPUs. Such an axis cuts experts or state, and comes after those it folds over
--                      experts   true: short for cuts = { "experts" }, folds = { "dp" }
--                      apart     gradients are reduced over it separately, after the other replicas', with this part of
--                                their bytes: 0.25 if they are compressed to a quarter (1 at most)
--                      default   function(model, share, rules) -> its default size (1)
--                      tries     function(model, share, rules) -> the sizes that a search tries (all that divide)
--                      said      { search =, train = }: the default as shown in help
--   sequence_shards  function(share) -> integer: what must divide the sequence (rule shards_divide_sequence)
--   panels           function(model, share, rules) -> list of integers to try; nil: no panels
--   gradient_axes    the axes that cut no weights, for axes without `cuts`
--   same_as          { strategy =, without = { axis … } }: the strategy that it equals if all these axes are 1;
--                    searches of both leave that case to the other
--   attention        the variants of attention it can cut
--   boundary         function(share, width) -> elements that a micro-batch sends to the next pipeline stage
--   boundary_copies  function(share) -> integer: GPUs that hold the same elements (1)
--   exchange         function(share, cut, shape) -> ops before, ops after attention's kernels; nil: none. cut: the
--                    result of heads; shape: kv_heads, head_dim, value_dim
--   serves           false: it cuts sequences, so it cannot cut a decode step of one token (true)
--   options          { cp_kind = { axis = "cp", choices = { "all_gather", "ring" … } } }: named choices about an axis
--                    that its functions find in the share; the first is the default; searches take a list of them.
--                    meaning: in words; quiet = true: configurations show it only if it was asked for; serves = false:
--                    it has no effect on serving
--   trains           false: searches of "all" strategies leave it out (true)
--   features         the axis that cuts heads and features
--   rank_order       its axes, neighbours first: "tp-ulysses-cp" (as listed); with dp and pp in it, the whole order
--   column, row, replicated, norm, heads, router, scan, embedding, head, cross_entropy   cuts, see below
--   inner, outer, inner_tokens, outer_tokens, inner_bias, outer_bias                     cuts, see below
-- A prepared strategy also has the roles of its axes, which blocks ask for: roles.lua.
-- Its cuts are methods of the share that blocks call. "Outer" is the residual stream as sharded between blocks,
-- "inner" the activations between a column and a row product:
--   share:column{ name, n_in, n_out }  outer -> inner     share:row{ name, n_in, n_out }         inner -> outer
--   share:norm{ name, width }          outer -> outer     share:replicated{ name, n_in, n_out }  outer -> outer
--   share:embedding{ name, rows, width } -> outer         share:head{ name, n_in, n_out }        outer -> logits
--   share:cross_entropy{ name, vocab }                    share:router{ name, width, experts, top_k }
--   share:scan{ name, heads, head_dim, groups, state, chunk } -> a list of ops
--   share:heads(n, kv_heads) -> { heads, kv_heads, queries, shards, gather, batch, projected }
--     as attention sees them; batch: sequences, if it has a part of the micro-batch's; projected: as the preceding
--     products see them, if an exchange lies between
--   share:inner(width), share:outer(width) -> number of elements on one GPU
--   share:inner_tokens(), share:outer_tokens() -> number of rows
--   share:inner_bias{ name, width }    share:outer_bias{ name, width, after_attention }  as separate kernels
-- Products also take: bias; input_kept_elsewhere (another op keeps the same input); local_out, local_in (one GPU's
-- part of n_out, n_in); gathered (another column product gathers the same input); partial (the next row product
-- sums up both); rows (on this GPU, instead of the stream's); experts, active (see op.grouped_linear); tied,
-- weights_elsewhere; parts (the widths of the products fused in it, { q = 32, k = 8, v = 8 }). Norms:
-- root_mean_square, parameters, input_kept_elsewhere.
local check = require "tperf.base.check"
local checked = require "tperf.describe.strategy.checked"
local claims = require "tperf.base.lazy".module "tperf.describe.strategy.claims"
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local script_attention = lazy.module "tperf.describe.arch.script_attention"
local eager = require "tperf.describe.arch.eager"
local refusal = require "tperf.base.refusal"
local roles = require "tperf.describe.strategy.roles"
local frozen = require "tperf.base.object.frozen"
local stated = require "tperf.describe.model.stated"
local order = require "tperf.describe.strategy.order"

local strategy, known = {}, {}

local MOST_AXES <const> = 10 -- besides dp and pp

local axis_schema = {
  name = check.string { name = true }, meaning = check.string { optional = true }, admits = check.func(),
  experts = check.boolean { default = false },
  cuts = check.list(check.choice { { "tokens", "features", "weights", "experts", "batch", "state" } },
    { optional = true }),
  folds = check.list(check.string(), { optional = true, min = 1 }),
  apart = check.number { above = 0, max = 1, optional = true },
  default = check.func { optional = true }, tries = check.func { optional = true },
  said = check.record_of({ search = check.string { optional = true }, train = check.string { optional = true } },
    { optional = true }),
}
local schema = {
  name = check.string { name = true }, extends = check.any { optional = true },
  summary = check.string { optional = true },
  exchange = check.func { optional = true },
  axes = check.list(check.record_of(axis_schema), { min = 1, max = MOST_AXES }),
  sequence_shards = check.func(), panels = check.func { optional = true },
  gradient_axes = check.list(check.string(), { default = {} }),
  same_as = check.record_of({
    strategy = check.string(), without = check.list(check.string(), { min = 1 }),
  }, { optional = true }),
  attention = check.list(check.string(), { default = { "flash" } }), boundary = check.func(),
  boundary_copies = check.func { optional = true }, options = check.any { optional = true },
  features = check.string { optional = true }, rank_order = check.string { optional = true },
  serves = check.boolean { default = true }, trains = check.boolean { default = true },
}
local cuts = {
  "column", "row", "replicated", "inner", "outer", "inner_tokens", "outer_tokens", "inner_bias", "outer_bias", "norm",
  "heads", "router", "scan", "embedding", "head", "cross_entropy",
}
local is_cut = {}
for _, cut in ipairs(cuts) do
  schema[cut] = check.func { optional = true }
  is_cut[cut] = true
end

-- share.attention is the requested variant, a text, and share:attention { … } the kernels that go with it. Scripts have
-- had the first for long, so a text can be called if a share is what it is called with.
local ANSWERED <const> = { "kv_dtype", "fused_dtype", "exchange", "packing" } -- what the block then reads, too
local strings = debug.getmetatable ""
local earlier = strings.__call

function strings.__call(text, share, ...)
  if type(share) == "table" and share.attention == text and share.model then
    for _, field in ipairs(ANSWERED) do local _ = share[field] end
    return script_attention(rawget(share, "itself") or share, ...)
  end
  if earlier then return earlier(text, share, ...) end
  error("attempt to call a string value", 2)
end

-- Axes that every configuration has; a strategy's axes cannot have these names.
local reserved = { dp = true, pp = true }

-- Fills missing fields from the strategy that it extends.
local function extended(given)
  if type(given) ~= "table" or given.extends == nil then return given end
  local base, whole = strategy.of(given.extends), {}
  for field in pairs(schema) do whole[field] = base[field] end
  if given.axes ~= nil then whole.rank_order = nil end
  for field, value in pairs(given) do whole[field] = value end
  return whole
end

-- The core's bits for what an axis cuts.
local CUTS <const> = { weights = 1, experts = 2, batch = 4, state = 16 }

local function bits_of(list, value)
  local bits = 0
  for _, name in ipairs(list) do bits = bits | (value[name] or 0) end
  return bits
end

-- The axes as rows of the core's grid, each with its bit.
local function grid_of(s)
  local bit, rows = { dp = 1 }, {}
  for i, axis in ipairs(s.axes) do
    bit[axis.name] = 1 << (i + 1)
    for _, name in ipairs(axis.folds or {}) do
      if not bit[name] then
        check.fail("tperf.strategy '%s': axis '%s' folds over '%s', which is not an earlier axis", s.name, axis.name,
          name)
      end
    end
    rows[i] = {
      name = axis.name, cuts = bits_of(axis.cuts, CUTS), folds = bits_of(axis.folds or {}, bit),
      apart = axis.apart or 0,
    }
  end
  return core.grid(rows)
end

local option_schema = {
  axis = check.string(), choices = check.list(check.string(), { min = 1 }), quiet = check.boolean { default = false },
  meaning = check.string { optional = true },
  serves = check.boolean { default = true },
}

-- A checked copy of the options. own: they are the strategy's own; otherwise options about axes that it replaces are
-- left out.
local function options_of(s, index, own)
  local options = {}
  for name, option in next, type(s.options) == "table" and s.options or {} do
    if not own and not index[option.axis] then goto next end
    options[name] = check.record(("tperf.strategy '%s': option '%s'"):format(s.name, tostring(name)), option,
      option_schema)
    if type(name) ~= "string" or index[name] or not index[options[name].axis] then
      check.fail("tperf.strategy '%s': option '%s' must be about one of its axes, and not be called like one", s.name,
        tostring(name))
    end
    ::next::
  end
  return options
end

-- Fields of a share that may be nil, besides axes and options of other strategies and what the strategy itself has.
local SHARE <const> = {}
for name in ([[micro_batch seq tokens rules group attention recompute sequence_parallel mode context dtype matrix_dtype
  weight_dtype kv_dtype state_dtype logits block stream class input tuning referring part panels recompute_modules
  recompute_keep offload_modules offload cuda_graphs loss fused_activation fused_pointwise padded_vocabulary
  grouped_kernels eager norms scatter_messages routing expert_calls megatron_softmax overlap_shared_experts
  sampling delta eager_ops fused_dtype kept_element
  notes recalled model itself packing sent_element
  row_padding row_multiple fused_experts trained exchange boundary_copies]]):gmatch "%S+" do
  SHARE[name] = true
end

-- Refuses fields that no share has: a misspelt one would be nil.
local function check_known(s, key)
  if type(key) ~= "string" or SHARE[key] then return end
  local names = check.names(SHARE)
  for _, other in ipairs(order) do
    if other.index[key] or other.options[key] then return end
    for name in pairs(other.options) do names[#names + 1] = name end
  end
  if s.index[key] or s.options[key] or s.built_in == nil then return end
  if key == "dp" then
    check.fail "the share has no field 'dp': blocks know the number of replicas if the architecture has replicas = true"
  end
  table.move(s.axis_names, 1, #s.axis_names, #names + 1, names)
  table.move(cuts, 1, #cuts, #names + 1, names)
  check.fail("the share has no field '%s'%s; strategy '%s' has the axes %s", key, check.suggest(key, names), s.name,
    table.concat(s.axis_names, ", "))
end

-- The cut of a norm, as PyTorch without a compiler runs it where the share says so.
local function as_run(norm)
  return function(share, o)
    local one = norm(share, o)
    return share.norms and eager.norm(share, one, share:outer(o.width), o.root_mean_square) or one
  end
end

local function refuse_cut(s, share, key)
  refusal.raise("strategy '%s' does not cover block '%s': it has no cut '%s'", s.name, share.block or "?", key)
end

-- A script's share finds the cuts as checked methods. Fields that no share has are refused.
local function metatable_of(s)
  local methods = {}
  return {
    __index = function(share, key)
      local method = methods[key]
      if method then return method end
      local value = s[key]
      if value == nil and not is_cut[key] then check_known(s, key) end
      if not is_cut[key] then return type(value) == "table" and frozen.show(value, s) or value end
      if value == nil then refuse_cut(s, share, key) end
      method = checked.cut(s, key)
      methods[key] = key == "norm" and as_run(method) or method
      return methods[key]
    end,
  }
end

-- The share of the library's own blocks, without checks. Most fields that it is asked for are those that it lacks, and
-- these take no call.
local function own_metatable_of(s)
  local index = {}
  for _, key in ipairs(cuts) do
    index[key] = s[key] or function(share) refuse_cut(s, share, key) end
  end
  index.norm = s.norm and as_run(s.norm) or index.norm
  return { __index = setmetatable(index, { __index = s }) }
end

local function prepare(given)
  local s = check.record("tperf.strategy", extended(given), schema)
  local index = {}
  s.axis_names = {}
  for i, axis in ipairs(s.axes) do
    if reserved[axis.name] or index[axis.name] then
      check.fail("tperf.strategy '%s': two axes are called '%s'", s.name, axis.name)
    end
    index[axis.name], s.axis_names[i] = i, axis.name
    roles.complete(s, axis)
  end
  for _, name in ipairs(s.gradient_axes) do
    if not index[name] then check.fail("tperf.strategy '%s': no axis '%s' to reduce gradients over", s.name, name) end
  end
  s.index, s.grid = index, grid_of(s)
  roles.set(s)
  s.options = options_of(s, index, type(given) == "table" and rawget(given, "options") ~= nil)
  s.option_names = check.names(s.options)
  checked.install(s)
  s.share_metatable, s.own_metatable = metatable_of(s), own_metatable_of(s)
  return s
end

local function class_of(name)
  return frozen.class(function(_, field)
    check.fail("strategy '%s' is never changed, so '%s' cannot be set; define another that extends it: "
      .. "tperf.strategy.define { name = …, extends = \"%s\" … }", name, tostring(field), name)
  end)
end

local function add(given, own, refuse) -- own: the library's; refuse(s): raises if it is not what it claims
  local s = prepare(given)
  if known[s.name] then check.fail("tperf.strategy: '%s' is already defined", s.name) end
  s.built_in = own
  if own then checked.trust(s) end
  frozen.keep(s, class_of(s.name))
  if refuse then refuse(s, strategy.share) end
  known[s.name], order[#order + 1] = s, s
  return s
end

--- For scripts: see public.lua.
function strategy.define(given) return add(given, false, claims.check) end

--- All strategies, in the order of their definition.
function strategy.all() return table.move(order, 1, #order, 1, {}) end

--- Their names, in the same order.
---@return string[]
function strategy.names()
  local names = {}
  for i, s in ipairs(order) do names[i] = s.name end
  return names
end

local function is_list(value) return type(value) == "table" and value.name == nil end

--- A strategy by name, or one that strategy.define returned; of a list, its only one.
function strategy.of(value)
  if is_list(value) and rawlen(value) == 1 then value = value[1] end
  value = frozen.plain(value)
  if type(value) == "table" and known[value.name] == value then return value end
  local found = type(value) == "string" and known[value]
  if not found then
    if is_list(value) or value == "all" then
      check.fail("'strategy' must be one strategy, got %s; searches try several",
        value == "all" and '"all"' or ("a list of %d"):format(rawlen(value)))
    end
    check.fail("unknown strategy %s%s; there are: %s", check.show(value), check.suggest(value, strategy.names()),
      table.concat(strategy.names(), ", "))
  end
  return found
end

--- One GPU's share of a layer, the argument of blocks: as tperf.strategy.share (public.lua), unchecked.
function strategy.share(s, model, micro_batch, sizes, rules, options)
  local share = core.resource.sized(32)
  share.micro_batch, share.seq, share.rules = micro_batch, model.seq, rules
  if model.architecture or not s.built_in then -- functions of a script get it
    share.rules, share.model, share.dp = frozen.show(rules), frozen.show(model), stated.replicas(model, sizes.dp)
  end
  share.attention, share.recompute, share.mode, share.context = "flash", "none", "train", 0
  for name, value in pairs(options or {}) do share[name] = value end
  share.tokens = micro_batch * share.seq
  if share.sequence_parallel == nil then share.sequence_parallel = share.mode ~= "decode" end
  for i, name in ipairs(s.axis_names) do share[name] = sizes[i] or share[name] end
  for _, name in ipairs(s.option_names) do share[name] = share[name] or s.options[name].choices[1] end
  return setmetatable(share, s.share_metatable)
end

for _, name in ipairs { "tensor", "summa", "context", "stationary" } do
  add(require("tperf.describe.strategy." .. name), true)
end

return strategy
