--- What the name of a checkpoint says: the model of models/ that has its sizes, and how its weights are stored.
local catalogue = require "tperf.base.catalogue"
local roots = require "tperf.base.roots"

local checkpoints = {}

-- Names that stacks have for the models of models/, unless they are similar anyway.
local CALLED <const> = {
  ["llama3-8b"] = "llama-3.1-8b", ["llama3-70b"] = "llama-3.1-70b", ["llama3-405b"] = "llama-3.1-405b",
  ["deepseek-v3-671b"] = "deepseek-v3", ["llama4-17bx128e"] = "llama-4-maverick", ["llama31-405b"] = "llama-3.1-405b",
  ["llama3-1-405b"] = "llama-3.1-405b", ["gpt3"] = "gpt3-175b", ["deepseek-r1"] = "deepseek-v3",
  ["llama-3-3-70b"] = "llama-3.1-70b", ["kimi-k2-5"] = "kimi-k2", ["kimi-k2-thinking"] = "kimi-k2",
  ["llama-4-maverick-17b-128e"] = "llama-4-maverick", ["llama-4-scout-17b-16e"] = "llama-4-scout",
}

-- How published checkpoints say that their weights have fewer bits, as quantization methods of engines; the longer one
-- first. Marks of 8 and 4 bits for weights alone are those of GPTQ.
local STORED <const> = {
  { "fp8%-dynamic", "fp8" }, { "fp8%-kv", "fp8" }, { "fp8%-block", "fp8" }, { "fp8", "fp8" },
  { "nvfp4", "modelopt_fp4" }, { "mxfp4", "modelopt_fp4" }, { "fp4", "modelopt_fp4" },
  { "awq%-int4", "awq" }, { "awq%-4bit", "awq" }, { "awq", "awq" }, { "gptq%-int4", "gptq" },
  { "gptq%-int8", "gptq_int8" }, { "gptq%-4bit", "gptq" }, { "gptq", "gptq" }, { "bnb%-4bit", "gptq" },
  { "quantized%-w4a16", "gptq" }, { "w4a16", "gptq" }, { "quantized%-w8a16", "gptq_int8" }, { "w8a16", "gptq_int8" },
  { "quantized%-w8a8", "w8a8_int8" }, { "w8a8", "w8a8_int8" }, { "int4", "gptq" }, { "int8", "w8a8_int8" },
}
-- Checkpoints whose publisher stores them so, whatever the name says: experts in integers of 4 bits.
local PUBLISHED <const> = { ["kimi-k2-5"] = "gptq", ["kimi-k2-thinking"] = "gptq" }

-- Marks of fine-tuned or dated versions, which have the same sizes.
local VERSIONS <const> = { "hf", "instruct", "chat", "it", "base", "thinking", "original", "%d%d%d%d", "v0%-%d", "v%d",
  "v%d%-%d" }

local function plain(name) return (roots.last(name):lower():gsub("[^%w]+", "-"):gsub("%-$", "")) end

local function known(name)
  if CALLED[name] then return CALLED[name] end
  for _, one in ipairs(catalogue.list "models") do
    if plain(one) == name then return one end
  end
  return nil
end

-- The name without one mark of a list at its end, and the mark; nil: it has none.
local function without(name, marks)
  for _, mark in ipairs(marks) do
    local stem = name:match("^(.+)%-" .. (type(mark) == "table" and mark[1] or mark) .. "$")
    if stem then return stem, mark end
  end
end

-- Calls test(name) for a checkpoint's name, and for what is left of it without one mark after the other, until it
-- returns something.
local function first(name, test)
  if type(name) ~= "string" then return nil end
  name = plain(name):gsub("^meta%-", "")
  while name do
    local found = test(name)
    if found then return found end
    name = without(name, STORED) or without(name, VERSIONS)
  end
  return nil
end

--- The model of models/ that a launch refers to, or nil.
---@param name string?
---@param size string?
---@return string?
function checkpoints.model(name, size)
  return first(type(name) == "string" and size and name .. "-" .. size or name, known)
end

--- How the weights of a checkpoint are stored, by its name, as an engine's quantization method; nil: as usual.
---@param name string?
---@return string?
function checkpoints.quantization(name)
  return first(name, function(stem)
    local _, mark = without(stem, STORED)
    return mark and mark[2] or PUBLISHED[stem]
  end)
end

return checkpoints
