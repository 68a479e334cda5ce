--- Checks the fields that blocks pass to a strategy's functions, and the results of those functions: either may be
--- custom, and a wrong value would fail far from its origin, or not at all.
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local refusal = require "tperf.base.refusal"
local is_op = require "tperf.core".op.is

local checked = {}

local MOST <const> = 1 << 31 -- of GPUs, shards and panels

local function is_finite(value) return type(value) == "number" and value - value == 0 end

local function is_count(value)
  local integer = type(value) == "number" and math.tointeger(value)
  return integer and integer >= 1 and integer <= MOST
end

-- A list without gaps whose items all pass the test.
local function is_list(value, test)
  if type(value) ~= "table" then return false end
  local count = 0
  for key, item in next, value do
    if key ~= "name" and not (math.type(key) == "integer" and test(item)) then return false end
    if key ~= "name" then count = count + 1 end
  end
  return count == rawlen(value)
end

local function is_text(value) return value == nil or type(value) == "string" end

-- The heads as attention sees them: { heads, kv_heads, queries, shards, gather?, projected? }.
local function is_cut(value)
  if type(value) ~= "table" then return false end
  for _, field in ipairs { "heads", "kv_heads", "queries", "shards" } do
    local number = rawget(value, field)
    if not is_finite(number) or number <= 0 then return false end
  end
  local projected = rawget(value, "projected")
  local batch = rawget(value, "batch")
  return is_text(rawget(value, "gather")) and (batch == nil or is_finite(batch) and batch > 0)
    and (projected == nil or is_cut { heads = type(projected) == "table" and rawget(projected, "heads"),
      kv_heads = type(projected) == "table" and rawget(projected, "kv_heads"), queries = 1, shards = 1 })
end

local OP = { test = is_op, what = "an op" }
local OPS = { test = function(value) return is_list(value, is_op) end, what = "a list of ops" }
local SIZE = { test = function(value) return is_finite(value) and value >= 0 end, what = "a number of at least 0" }
local ROWS = { test = function(value) return is_finite(value) and value > 0 end, what = "a number above 0" }
local CUT = { test = is_cut, what = "{ heads, kv_heads, queries, shards } with numbers above 0" }
local COUNT = { test = is_count, what = "an integer from 1 to 2147483648" }
local COUNTS = {
  test = function(value) return is_list(value, is_count) and rawlen(value) > 0 end,
  what = "a list of integers from 1 on",
}

local RESULTS = {
  column = OP, row = OP, replicated = OP, norm = OP, router = OP, embedding = OP, head = OP, cross_entropy = OP,
  inner_bias = OP, outer_bias = OP, scan = OPS, inner = SIZE, outer = SIZE, inner_tokens = ROWS, outer_tokens = SIZE,
  heads = CUT, boundary = SIZE, boundary_copies = COUNT, sequence_shards = COUNT, panels = COUNTS,
}

-- The fields that a block must give; FURTHER: optional numbers.
local PRODUCT = { "n_in", "n_out" }
local FIELDS = {
  column = PRODUCT, row = PRODUCT, replicated = PRODUCT, head = PRODUCT, norm = { "width" },
  router = { "width", "experts", "top_k" }, embedding = { "rows", "width" }, cross_entropy = { "vocab" },
  scan = { "heads", "head_dim", "groups", "state", "chunk" }, inner_bias = { "width" }, outer_bias = { "width" },
}
-- Further fields of each, besides `name`.
local function names_of(list)
  local set = { name = true, keeps = true }
  for name in list:gmatch "%S+" do set[name] = true end
  return set
end
local PRODUCTS <const> = "n_in n_out local_in local_out bias input input_kept_elsewhere gathered partial rows experts "
  .. "active tied weights_elsewhere shared_as parts weight_bits sparse on"
local ALLOWED <const> = {
  column = names_of(PRODUCTS), row = names_of(PRODUCTS), replicated = names_of(PRODUCTS), head = names_of(PRODUCTS),
  norm = names_of "width root_mean_square parameters input input_kept_elsewhere shared_as",
  router = names_of "width experts top_k bias dtype input",
  embedding = names_of "rows width tied shared_as weight_bits on",
  cross_entropy = names_of "vocab", scan = names_of "heads head_dim groups state chunk",
  inner_bias = names_of "width", outer_bias = names_of "width after_attention",
}

local library = {} -- functions of the library's strategies: true

--- Notes that a strategy's cuts are the library's.
function checked.trust(s)
  for cut in pairs(FIELDS) do
    if s[cut] then library[s[cut]] = true end
  end
end

local LOCAL = { n_in = "local_in", n_out = "local_out" } -- the local size on one GPU may replace it
local FURTHER = { "rows", "local_in", "local_out", "experts", "active" }
local PLAIN = { inner = 1, outer = 1, heads = 1, inner_tokens = 0 } -- cuts that take numbers, and how many are required

local function refuse_result(s, name, expected, value)
  check.fail("strategy '%s': %s returned %s, where %s must be", s.name, name, check.show(value), expected)
end

-- Sizes are integers, possibly as floats; counts of work need not be integers.
local function check_number(cut, name, value)
  if is_finite(value) and math.abs(value) <= 2 ^ 53 then return end
  check.fail("share:%s: %s must be a number, got %s", cut, name, check.show(value))
end

-- Refuses fields that change nothing.
local function check_names(cut, o)
  for name in next, o do
    if not ALLOWED[cut][name] then
      local names = check.names(ALLOWED[cut])
      check.fail("share:%s: unknown field %s%s; it has %s", cut, check.show(name), check.suggest(name, names),
        table.concat(names, ", "))
    end
  end
end

-- own: the cut is the library's, whose fields are known.
local function check_fields(cut, o, own)
  if type(o) ~= "table" then check.fail("share:%s needs a table of fields, got %s", cut, check.show(o)) end
  if own then check_names(cut, o) end
  for _, field in ipairs(FIELDS[cut]) do
    local elsewhere = LOCAL[field] and o[LOCAL[field]] ~= nil
    if not elsewhere then check_number(cut, "'" .. field .. "'", o[field]) end
  end
  for _, field in ipairs(FURTHER) do
    if o[field] ~= nil then check_number(cut, "'" .. field .. "'", o[field]) end
  end
end

-- Fields that say how weights are stored, and what tells whether an op has it from them.
local STORED <const> = { weight_bits = "has_own_format", sparse = "is_sparse" }

-- Fields that are names, and what gives an op each.
local NAMED <const> = { shared_as = "share_as", input = "read" }

-- Blocks of the library that attend by kernels of their own, for all sequences of a micro-batch.
local OTHERS <const> = { "mla", "sparse", "mamba", "mamba1", "delta" }

-- Refuses heads of a part of a micro-batch that is no number of sequences, or that a block does not follow.
local function check_batch(s, share, cut)
  if cut.batch % 1 ~= 0 then
    refusal.raise("strategy '%s' leaves %g of %d sequences to attention on a GPU: give a 'micro_batch' that it divides",
      s.name, cut.batch, share.micro_batch)
  end
  for _, field in ipairs(share.model.architecture and {} or OTHERS) do
    if share.model[field] then
      refusal.raise("strategy '%s' gives attention a part of the sequences, which '%s' does not follow", s.name, field)
    end
  end
end

-- The ops of a cut; the first of them keeps, and shares its weights, as the block says.
local function marked(cut, value, o)
  local one = is_op(value) and value or value[1]
  for field, done in pairs(STORED) do
    if o[field] and not one[done](one) then
      check.fail("share:%s: the strategy's cut does not read '%s'", cut, field)
    end
  end
  if o.keeps ~= nil then
    if type(o.keeps) ~= "table" then
      check.fail("share:%s: 'keeps' must be a table, got %s", cut, check.show(o.keeps))
    end
    one:keep(o.keeps)
  end
  if o.on ~= nil then
    if type(o.on) ~= "string" then check.fail("share:%s: 'on' must be \"host\", got %s", cut, check.show(o.on)) end
    one:put(o.on, o.rows)
  end
  for field, name in pairs(NAMED) do
    if o[field] ~= nil then
      if type(o[field]) ~= "string" then
        check.fail("share:%s: '%s' must be a name, got %s", cut, field, check.show(o[field]))
      end
      one[name](one, o[field])
    end
  end
  return value
end

--- A cut as blocks see it, with checks.
---@param s table  the strategy
---@param cut string
---@return function
function checked.cut(s, cut)
  local f, result, plain = s[cut], RESULTS[cut], PLAIN[cut]
  return function(share, first, second, ...)
    if type(share) ~= "table" or frozen.plain(share.axis_names) ~= s.axis_names then
      check.fail("share.%s is a method: call it as share:%s(…)", cut, cut)
    end
    if FIELDS[cut] then
      check_fields(cut, first, library[f])
    elseif plain then
      if plain > 0 or first ~= nil then check_number(cut, "the argument", first) end
      if second ~= nil then check_number(cut, "the second number", second) end
    end
    local value = f(share, first, second, ...)
    if not result.test(value) then refuse_result(s, cut, result.what, value) end
    if cut == "heads" and value.batch then check_batch(s, share, value) end
    return FIELDS[cut] and marked(cut, value, first) or value
  end
end

-- Another function of a strategy, with its result checked.
local function with_result(s, name, f)
  local result = RESULTS[name]
  return function(...)
    local value = f(...)
    if not result.test(value) then refuse_result(s, name, result.what, value) end
    return value
  end
end

local function exchange(s, f)
  return function(...)
    local before, after = f(...)
    for _, list in ipairs { before or false, after or false } do
      if not OPS.test(list) then refuse_result(s, "exchange", "two lists of ops", list or nil) end
    end
    return before, after
  end
end

-- A function(model, share, rules), which may be a script's.
local function with_rules(s, f)
  return f and function(model, share, rules)
    if s.built_in then return f(model, share, rules) end
    return f(frozen.show(model), share, frozen.show(rules))
  end
end

local function admits(s, axis, f)
  local name = ("admits of axis '%s'"):format(axis.name)
  local own_rules = f
  f = with_rules(s, f)
  return function(model, share, rules)
    local own = rawget(model, "architecture")
    if own and own.admits then return true end -- asked of the whole layout: stated.lua
    if s.built_in then return own_rules(model, share, rules) end
    local admitted, reason = f(model, share, rules)
    if type(admitted) ~= "boolean" then refuse_result(s, name, "true, or false and a reason", admitted) end
    if not admitted and not is_text(reason) then refuse_result(s, name, "false and a text", reason) end
    return admitted, reason
  end
end

--- Wraps the functions of a strategy that the library itself calls in checks.
---@param s table
function checked.install(s)
  s.panels = with_rules(s, s.panels)
  for _, name in ipairs { "boundary", "boundary_copies", "sequence_shards", "panels" } do
    if s[name] then s[name] = with_result(s, name, s[name]) end
  end
  if s.exchange then s.exchange = exchange(s, s.exchange) end
  for _, axis in ipairs(s.axes) do
    axis.admits, axis.default, axis.tries = admits(s, axis, axis.admits), with_rules(s, axis.default),
      with_rules(s, axis.tries)
  end
end

return checked
