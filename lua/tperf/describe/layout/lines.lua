--- Blocks of further micro-batches from those of two: where all ops of a job are known to keep to a straight line
-- (tperf/describe/layout/memo.lua), the core makes the block at once, and no list of its ops.
local block_on_line = require "tperf.core".block_on_line
local forms = require "tperf.describe.layout.forms"
local memo = require "tperf.describe.layout.memo"

local lines = {}

-- What a job's blocks of these sizes lie on: its line, with the blocks at its start and one step on; nil: unknown. What
-- is known once stays true. false: the same ops make other blocks for other sizes, and one list of them serves all.
local function base_of(grid, job, sizes)
  local kind, leaf = job.kind, job.leaf
  local line = leaf and leaf.line
  if kind.bent or job.version ~= kind.version or not line or not line.last then return nil end
  local first = forms.block(grid, leaf[line.from], sizes, memo.hold)
  line.block = line.block or first
  return line.block == first and {
    from = line.from, step = line.step, last = line.last, first = first,
    second = forms.block(grid, leaf[line.from + line.step], sizes, memo.hold),
  }
end

-- How many steps along its line the block of a share is; nil: it is not on it.
local function steps_of(job, base, share)
  local ahead = memo.key_of(job.kind, share) - base.from
  local steps = ahead // base.step
  return ahead >= 0 and ahead % base.step == 0 and steps <= base.last and steps or nil
end

--- The blocks of jobs whose other shares differ in the micro-batch alone, if all are known to be on lines.
---@param grid userdata   of the strategy
---@param jobs table      of memo.jobs
---@param model table
---@param share table
---@param sizes integer[]  the same for all these shares
---@return userdata[]? blocks  with the block's `name`; the same table next time
function lines.blocks(grid, jobs, model, share, sizes)
  local list = jobs.blocks
  for i = 1, #jobs do
    local job = jobs[i]
    if job.base == nil then job.base = base_of(grid, job, sizes) end
    local base = job.base
    local steps = base and steps_of(job, base, share)
    if not steps then return nil end
    local input = job.full and memo.kept_input(job, model, share)
    local made, copies = block_on_line(base.first, base.second, steps, input)
    if not made then return nil end
    if copies > 0 then memo.hold(copies) end
    list[i] = made
  end
  return list
end

return lines
