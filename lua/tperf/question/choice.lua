--- The sizes, placement and schedule of a candidate: its part of a configuration.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local lazy = require "tperf.base.lazy"
local placement = require "tperf.question.placement"
local stated = require "tperf.describe.model.stated"
local sized = require "tperf.core".resource.sized

local choice = {}

local MOST_FIELDS <const> = 22 -- of what a candidate is

-- What of a strategy's axes a candidate needs: their names, whether they show at any size, the positions of those that
-- take GPUs of their own, and whether some cut the batch.
local facts_of = check.once(function(s)
  local facts = { shows = {}, multiply = {}, cuts_batch = false }
  for i, axis in ipairs(s.axes) do
    facts.shows[i] = axes.shows(axis)
    if not axis.folds then facts.multiply[#facts.multiply + 1] = i end
    facts.cuts_batch = facts.cuts_batch or axes.cuts(axis, "batch")
  end
  return facts
end)

-- A domain holds as many blocks (the GPUs placed together) as fit; its other GPUs are idle.
local function idle_of(gpus, placed, multiply, domain)
  if gpus <= domain then return 0 end
  local block = placed[1] * placed[2]
  for i = 1, #multiply do block = block * placed[2 + multiply[i]] end
  local in_domain = domain // block
  local domains = (gpus // block + in_domain - 1) // in_domain
  return domains * domain - gpus
end

--- The sizes of the strategy's axes.
---@param model table?  whose blocks may know the number of replicas, which is then `dp`
function choice.own(s, found, model)
  local own = { dp = model and stated.replicas(model, found.sizes[1]) }
  for i in ipairs(s.axes) do own[i] = found.sizes[2 + i] or 0 end
  return own
end

--- The micro-batches of a replica in an iteration.
---@return integer
function choice.microbatches(question, s, found)
  local parts = facts_of(s).cuts_batch and s.grid:batch(choice.own(s, found)) or 1
  return question.global_batch // (found.sizes[1] * parts) // found.micro_batch
end

--- Sets the fields that say what a candidate is.
---@return table c
function choice.add(c, question, s, found)
  local pipeline, facts = question.pipeline_list[found.pipeline], facts_of(s)
  local sizes, placed, names, shows = found.sizes, found.fast, s.axis_names, facts.shows
  local dp, micro_batch, gpus = sizes[1], found.micro_batch, question.gpus
  local fast = sized(2 + #names)
  fast.dp, fast.pp = placed[1], placed[2]
  c.strategy, c.gpus, c.global_batch = s.name, gpus, question.global_batch
  for i = 1, #names do
    local size = sizes[2 + i]
    if shows[i] or size and size > 0 then
      local name = names[i]
      c[name], fast[name] = size, placed[2 + i]
    end
  end
  c.dp, c.pp, c.micro_batch, c.zero = dp, pipeline.pp, micro_batch, found.zero
  c.schedule, c.virtual_stages = pipeline.schedule, pipeline.virtual_stages
  c.panels = s.panels and found.panels or nil
  c.microbatches = choice.microbatches(question, s, found)
  c.fast = fast
  placement.tell(c, question.placed, s)
  c.idle = idle_of(gpus, placed, facts.multiply, question.system.network.fast.domain)
  return c
end

--- The record of a candidate that a script may accept or reject: most are rejected by what they are, without a time.
---@param how fun(): table  the whole record
function choice.offered(question, s, found, how)
  return lazy.record(how, choice.add(sized(MOST_FIELDS), question, s, found))
end

return choice
