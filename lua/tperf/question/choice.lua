--- What a candidate is, without its time and memory: its part of a configuration.
local axes = require "tperf.describe.strategy.axes"
local lazy = require "tperf.base.lazy"
local sized = require "tperf.core".resource.sized

local choice = {}

local MOST_FIELDS <const> = 20 -- of what a candidate is

-- A domain holds as many blocks (the GPUs placed together) as fit; its other GPUs are idle.
local function idle_of(c, s, domain)
  if c.gpus <= domain then return 0 end
  local block = c.fast.dp * c.fast.pp
  for _, axis in ipairs(s.axes) do
    if not axis.folds then block = block * c.fast[axis.name] end
  end
  local in_domain = domain // block
  local domains = (c.gpus // block + in_domain - 1) // in_domain
  return domains * domain - c.gpus
end

--- The sizes of the strategy's axes.
function choice.own(s, found)
  local own = {}
  for i in ipairs(s.axes) do own[i] = found.sizes[2 + i] or 0 end
  return own
end

--- Sets the fields that say what a candidate is.
---@return table c
function choice.add(c, question, s, found)
  local pipeline = question.pipeline_list[found.pipeline]
  local sizes, placed = found.sizes, found.fast
  local fast, own = { dp = placed[1], pp = placed[2] }, {}
  c.strategy, c.gpus, c.global_batch = s.name, question.gpus, question.global_batch
  for i, axis in ipairs(s.axes) do
    local size = sizes[2 + i]
    own[i] = size or 0
    if axes.shows(axis, size) then c[axis.name], fast[axis.name] = size, placed[2 + i] end
  end
  c.dp, c.pp, c.micro_batch, c.zero = sizes[1], pipeline.pp, found.micro_batch, found.zero
  c.schedule, c.virtual_stages = pipeline.schedule, pipeline.virtual_stages
  c.panels = s.panels and found.panels or nil
  c.microbatches = question.global_batch // (c.dp * s.grid:batch(own)) // found.micro_batch
  c.fast = fast
  c.idle = idle_of(c, s, question.system.network.fast.domain)
  return c
end

--- The record of a candidate that a script may accept or reject: most are rejected by what they are, without a time.
---@param how fun(): table  the whole record
function choice.offered(question, s, found, how)
  return lazy.record(how, choice.add(sized(MOST_FIELDS), question, s, found))
end

return choice
