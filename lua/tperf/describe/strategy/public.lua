--- tperf.strategy, as scripts have it: views of them, which nobody changes.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local several = require "tperf.describe.strategy.several"
local strategy = require "tperf.describe.strategy"

---@class tperf.keeps what a sequence keeps between steps of decoding
---@field token? number bytes for each token
---@field sequence? number bytes, whatever its tokens
---@field window? integer only the last tokens are kept

---@class tperf.group a run of equal layers, as an architecture states it and blocks find it; other fields are yours
---@field count integer layers
---@field key? string a name, the same for equal layers
---@field blocks? table[] of its layers
---@field seq? integer tokens of their sequence, if it is not the model's
---@field rate? number tokens of their sequence for each of the model's
---@field padded? boolean the sequence is padded where GPUs cannot share it equally
---@field width? integer features of the stream that enters its layers
---@field carries? number elements of a sequence that travel beside the stream to its layers
---@field keeps? any tperf.keeps, or function(model, share) -> that: what a sequence keeps of one layer
---@field window? integer keys that a query of the library's attention sees
---@field causal? boolean of the library's attention

---@class tperf.cut.product
---@field name? string
---@field n_in? number features of its input; or local_in
---@field n_out? number features of its output; or local_out
---@field local_in? number features on one GPU
---@field local_out? number features on one GPU
---@field bias? boolean
---@field input? string a name: ops that give their input one keep it once
---@field input_kept_elsewhere? boolean another op keeps the same input
---@field gathered? boolean another column product gathers the same input
---@field partial? boolean the next row product sums up both
---@field rows? number on this GPU, in place of the stream's
---@field experts? number
---@field active? number experts that get any token
---@field tied? boolean the weights are the embedding's
---@field weights_elsewhere? boolean another op of the block and the name holds the weights
---@field shared_as? string all ops of this name share one tensor
---@field parts? table widths of the products fused in it, { q = 32, k = 8, v = 8 }
---@field weight_bits? number bits of a stored weight, with its share of scales
---@field sparse? boolean 2:4, in serving
---@field on? "host" where the weights are
---@field keeps? tperf.keeps

---@class tperf.cut.norm
---@field name? string
---@field width number features
---@field root_mean_square? boolean
---@field parameters? number for each feature
---@field input? string as a product's
---@field input_kept_elsewhere? boolean as a product's
---@field shared_as? string as a product's
---@field keeps? tperf.keeps

---@class tperf.cut.router
---@field name? string
---@field width number features
---@field experts number
---@field top_k number experts for each token
---@field bias? boolean
---@field dtype? string
---@field input? string as a product's
---@field keeps? tperf.keeps

---@class tperf.cut.embedding
---@field name? string
---@field rows number
---@field width number features
---@field tied? boolean
---@field shared_as? string as a product's
---@field weight_bits? number as a product's
---@field on? "host" as a product's
---@field keeps? tperf.keeps

---@class tperf.cut.cross_entropy
---@field name? string
---@field vocab number
---@field keeps? tperf.keeps

---@class tperf.cut.scan
---@field name? string
---@field heads number
---@field head_dim number
---@field groups number
---@field state number
---@field chunk number
---@field keeps? tperf.keeps

---@class tperf.cut.inner_bias
---@field name? string
---@field width number
---@field keeps? tperf.keeps

---@class tperf.cut.outer_bias
---@field name? string
---@field width number
---@field after_attention? boolean
---@field keeps? tperf.keeps

---@class tperf.cut.attention of the whole layer
---@field name? string of the fused kernel
---@field heads integer
---@field kv_heads? integer as many as heads
---@field head_dim integer
---@field value_dim? integer head_dim
---@field causal? boolean the model's
---@field window? integer keys that a query sees
---@field keys? integer in place of the sequence's
---@field dropout? boolean
---@field sinks? boolean
---@field values_in_keys? boolean
---@field shared_as? string as a product's
---@field keeps? tperf.keeps

---@class tperf.heads a layer's heads on one GPU
---@field heads number
---@field kv_heads number
---@field queries number tokens
---@field shards number GPUs that share the sequence
---@field gather? string the axis that gathers keys and values
---@field batch? number sequences, if it has a part of the micro-batch's

---@class tperf.share one GPU's share of a layer, which blocks get; beside these, the size of each axis by its name
---@field micro_batch integer sequences
---@field seq integer new tokens of each
---@field tokens integer micro_batch x seq
---@field context integer tokens before them, in the cache
---@field mode "train"|"prefill"|"decode"
---@field group tperf.group
---@field rules table
---@field recompute "none"|"selective"|"full"
---@field sequence_parallel boolean whether the stream is cut by tokens over tp
---@field dtype? string of activations
---@field weight_dtype? string
---@field kv_dtype? string of cached keys and values
---@field tp integer
---@field cp? integer of strategy context
---@field ep? integer
---@field etp? integer
---@field dp? integer of an architecture with replicas = true
---@field attention fun(self: tperf.share, fields: tperf.cut.attention): table[]
---@field column fun(self: tperf.share, fields: tperf.cut.product): table
---@field row fun(self: tperf.share, fields: tperf.cut.product): table
---@field replicated fun(self: tperf.share, fields: tperf.cut.product): table
---@field head fun(self: tperf.share, fields: tperf.cut.product): table
---@field norm fun(self: tperf.share, fields: tperf.cut.norm): table
---@field router fun(self: tperf.share, fields: tperf.cut.router): table
---@field embedding fun(self: tperf.share, fields: tperf.cut.embedding): table
---@field cross_entropy fun(self: tperf.share, fields: tperf.cut.cross_entropy): table
---@field scan fun(self: tperf.share, fields: tperf.cut.scan): table[]
---@field inner_bias fun(self: tperf.share, fields: tperf.cut.inner_bias): table
---@field outer_bias fun(self: tperf.share, fields: tperf.cut.outer_bias): table
---@field heads fun(self: tperf.share, heads: integer, kv_heads: integer?): tperf.heads
---@field inner fun(self: tperf.share, width: number): number elements between a column and a row product
---@field outer fun(self: tperf.share, width: number): number elements of the stream
---@field inner_tokens fun(self: tperf.share): number rows between a column and a row product
---@field outer_tokens fun(self: tperf.share): number rows of the stream

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
---   logits             "all": of all tokens of a prompt (nil: of the last one)
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
