--- tperf.strategy, as scripts have it: views of them, which nobody changes.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local several = require "tperf.describe.strategy.several"
local strategy = require "tperf.describe.strategy"

local public = { names = strategy.names }

local WHAT <const> = "tperf.strategy.share"

local function show_all(list)
  for i, s in ipairs(list) do list[i] = frozen.show(s) end
  return list
end

--- Registers a strategy by its name, so that searches find it. It cannot be changed afterwards.
---@param given table  as described above
---@return table strategy
function public.define(given) return frozen.show(strategy.define(given)) end

--- All strategies, in the order of their definition.
function public.all() return show_all(strategy.all()) end

--- A strategy by name, or one that strategy.define returned.
function public.of(value) return frozen.show(strategy.of(value)) end

--- A name, a list of names, or "all", as a list of strategies without repetition.
function public.list(value) return show_all(several(value)) end

--- One GPU's share of a layer, the argument of blocks.
---@param s table  the strategy
---@param model table
---@param micro_batch integer  sequences
---@param sizes integer[]  of the strategy's axes
---@param rules table  a set of rules from tperf.rules
---@param options table?  further fields:
---   group              the layer's group, a record of model:groups()
---   attention          "flash" (default), "unfused", "recompute", "summa"
---   recompute          "none" (default), "selective" (attention between its projections), "full"
---   sequence_parallel  whether the stream is cut by tokens over tp (true; false for decode)
---   mode               "train" (default), "prefill", "decode"
---   seq                new tokens of each sequence (the model's seq), and context: tokens before them, in the cache
---   dtype              of activations ("bf16"); matrix_dtype: of products with weights (dtype)
---   weight_dtype, kv_dtype   weight_dtype: of weights, kv_dtype: of cached keys and values ("bf16")
---   state_dtype        of the states that recurrent layers keep between tokens ("fp32")
function public.share(s, model, micro_batch, sizes, rules, options)
  s = strategy.of(s)
  local function need(value, name, expected) argument.table(WHAT, name, value, expected) end
  model, rules = frozen.plain(model), frozen.plain(rules)
  need(model, "model", "a model of tperf.model")
  if math.type(model.seq) ~= "integer" then check.fail("%s: 'model' must be a model of tperf.model", WHAT) end
  argument.of(WHAT, "micro_batch", micro_batch, check.integer { min = 1, max = 1 << 31 })
  if argument.list(WHAT, "sizes", sizes) > #s.axis_names then
    check.fail("%s: 'sizes' has more values than the strategy's axes: %s", WHAT, table.concat(s.axis_names, ", "))
  end
  argument.of(WHAT, "sizes", sizes, check.list(check.integer { min = 0, max = 1 << 31 }))
  need(rules, "rules", "a set of tperf.rules")
  if options ~= nil then need(options, "options") end
  local share = strategy.share(s, model, micro_batch, sizes, rules, options)
  share.model = frozen.show(model) -- for share:attention
  return share
end

return public
