--- What a table of training runs leaves out, or copied wrongly, and its source says elsewhere: text by column.
local read = require "tperf.measured.read"

-- Meta's (arXiv 2407.21783, 3.3.2): chunks of one layer, the embedding and the head each in place of one; gradients are
-- sharded, weights stay gathered; keys are gathered.
local function llama(_)
  return { vp = "8", pp_layout = "account embedding=1 loss=1", zero_fsdp = "zero-2", cp_kind = "all_gather" }
end

-- { micro-batch, chunks of a stage } of a model: Megatron-LM's examples/sc21/run_table_1.sh.
local SC21 <const> = {
  ["GPT-1.7B"] = { 16, 1 }, ["GPT-3.6B"] = { 16, 1 }, ["GPT-7.5B"] = { 16, 1 }, ["GPT-18B"] = { 8, 1 },
  ["GPT-39B"] = { 4, 1 }, ["GPT-76B"] = { 2, 3 }, ["GPT-145B"] = { 2, 2 }, ["GPT-310B"] = { 1, 2 },
  ["GPT-530B"] = { 1, 3 }, ["GPT-1T"] = { 1, 1 },
}

local function sc21(row)
  local size = SC21[row.model]
  return size and { micro_batch = tostring(size[1]), vp = tostring(size[2]) }
end

-- The same models, GPUs and batches as half a year later, before stages were interleaved. Micro-batches are taken to
-- have been the same, too.
local function january_2021(row)
  local size = SC21[row.model]
  return size and { micro_batch = tostring(size[1]), vp = "1" }
end

-- NVIDIA announced the A100 of 80 GB in November 2020.
local function readme_2020(row) return row.gpu:find "A100" and { gpu = "A100 SXM 40GB" } or nil end

-- The sizes in the headings of BigScience's chronicles-prequel.md, { layers, hidden } by section and billions of
-- parameters. The table repeats one of them for all rows of a section, whose numbers of parameters contradict it.
local HEADINGS <const> = {
  ["GBS Variations"] = { [181] = { 72, 14336 } },
  ["Re-do"] = { [195] = { 106, 12288 } },
  ["Rebalancing layers"] = { [195] = { 106, 12288 }, [184] = { 100, 12288 }, [178] = { 82, 13312 },
    [203] = { 94, 13312 }, [176] = { 70, 14336 }, [206] = { 82, 14336 } },
}

-- "all NHEADS=64 (above too)"
local HEADS <const> = { ["48 node contenders"] = "64", ["Final round comparison"] = "64", ["GBS Variations"] = "64" }

-- --pp-partition-method 'type:transformer|embedding': both embeddings count as layers.
local BALANCED <const> = { ["Re-do"] = { [195] = true }, ["Rebalancing layers"] = HEADINGS["Rebalancing layers"] }

local function prequel(row)
  local billions = math.tointeger(tonumber(row.params_b))
  local size, balanced = (HEADINGS[row.table] or {})[billions], (BALANCED[row.table] or {})[billions]
  return {
    layers = size and tostring(size[1]), hidden = size and tostring(size[2]), ffn = size and tostring(4 * size[2]),
    heads = not read.count(row.heads) and HEADS[row.table] or nil,
    pp_layout = balanced and "account embedding=1 loss=1" or nil,
  }
end

-- train/tr11-176B-ml/tr11-176B-ml.slurm has the same partition.
local function bloom(_) return { pp_layout = "account embedding=1 loss=1" } end

-- maxtext/configure.sh: remat_policy = save_qkv_proj runs all of a layer again but the products of queries, keys and
-- values; the output projection is taken to be kept, too, in place of fc2, whose result no gradient needs.
local function dgx_cloud(row)
  if row.fsdp ~= "jax-fsdp" or row.recompute ~= "" then return nil end
  return { recompute = "selective", recompute_modules = "core_attn, layernorm, mlp" }
end

local SOURCES <const> = {
  { "^Llama 3 405B", llama }, { "SC21", sc21 }, { "^Megatron%-LM README Jan 2021", january_2021 },
  { "^Megatron%-LM README 2020", readme_2020 }, { "^BigScience BLOOM prequel", prequel },
  { "^BLOOM 176B final", bloom }, { "^NVIDIA DGX Cloud", dgx_cloud },
}

---@param row table      text by column
---@return table? columns  nil: none
return function(row)
  for _, source in ipairs(SOURCES) do
    if row.source:find(source[1]) then return source[2](row) end
  end
end
