-- Are the effects of a larger micro-batch and of more GPUs predicted as published runs show them?
--   make effects MEASURED=FOLDER
--   tperf run --trust tools/effects.lua TABLE.csv [SOFTWARE]
-- Micro-batch: pairs of rows that differ in it alone, by over 3 % in time; how many are ordered rightly.
-- Weak scaling: series of rows that differ in the number of GPUs alone, with the same batch for each GPU; the loss is
-- how much longer a step takes on the most GPUs than on the fewest, if over 5 %, and beside it the part predicted.
local tperf = require "tperf"

local SIGN <const>, LOSS <const> = 0.03, 0.05
-- Columns of what was measured, or of where it was said.
local SAID <const> = { id = true, line = true, split = true, url = true, table = true, iter_s = true,
  iter_derived = true, tflops_gpu = true, tflops_kind = true, mfu = true, hfu = true, tokens_s_gpu = true,
  samples_s = true, notes = true, peak_mem_gib = true, mem_note = true, mem_reserved_gib = true, recipe_source = true,
  recipe_confidence = true, filled = true, hparams_source = true, cuda_max_connections = true }

-- Cases by all columns of their rows but those left out.
local function groups(cases, left_out, extra)
  local by, list = {}, {}
  for _, case in ipairs(cases) do
    local words = { extra and extra(case.row) or "" }
    local names = {}
    for name in pairs(case.row) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      if not (SAID[name] or left_out[name]) then words[#words + 1] = tostring(case.row[name]) end
    end
    local key = table.concat(words, "\0")
    if not by[key] then
      by[key] = {}
      list[#list + 1] = by[key]
    end
    table.insert(by[key], case)
  end
  return list
end

local function told(case) return ("%s, %s, %s"):format(case.source:sub(1, 24), case.row.model, case.row.gpu) end

local function micro_batches(cases)
  local pairs_seen, right = 0, 0
  for _, group in ipairs(groups(cases, { micro_batch = true })) do
    for i, x in ipairs(group) do
      for k = 1, i - 1 do
        local y = group[k]
        local fast, slow = x, y
        if y.measured < x.measured then fast, slow = y, x end
        if x.row.micro_batch ~= y.row.micro_batch and slow.measured > (1 + SIGN) * fast.measured then
          local is_right = fast.predicted < slow.predicted
          pairs_seen, right = pairs_seen + 1, right + (is_right and 1 or 0)
          print(("%s %s: micro-batch %s against %s, %s and %s: measured %.3f, predicted %.3f"):format(
            is_right and "right" or "WRONG", told(x), fast.row.micro_batch, slow.row.micro_batch, fast.row.id,
            slow.row.id, slow.measured / fast.measured, slow.predicted / fast.predicted))
        end
      end
    end
  end
  print(("micro-batch: %d of %d pairs right\n"):format(right, pairs_seen))
end

local function weak_scaling(cases)
  local series, half = 0, 0
  local function share(row) return ("%.9g"):format(tonumber(row.global_batch) / tonumber(row.gpus)) end
  local scaled = {}
  for _, case in ipairs(cases) do
    if tonumber(case.row.global_batch) and tonumber(case.row.gpus) then scaled[#scaled + 1] = case end
  end
  for _, group in ipairs(groups(scaled, { gpus = true, dp = true, global_batch = true }, share)) do
    table.sort(group, function(x, y) return tonumber(x.row.gpus) < tonumber(y.row.gpus) end)
    local first, last = group[1], group[#group]
    local measured, predicted = last.measured / first.measured - 1, last.predicted / first.predicted - 1
    if first.row.gpus ~= last.row.gpus and measured > LOSS then
      local is_half = predicted >= measured / 2
      series, half = series + 1, half + (is_half and 1 or 0)
      print(("%s %s: %s to %s GPUs, %s and %s: loses %.1f %%, predicted %.1f %%"):format(is_half and "half" or "LESS",
        told(first), first.row.gpus, last.row.gpus, first.row.id, last.row.id, 100 * measured, 100 * predicted))
    end
  end
  print(("weak scaling: at least half of the loss predicted in %d of %d series"):format(half, series))
end

-- Sums over one layer, whose source calls them measured (lua/tperf/measured/run/stacks.lua), are no runs.
local function are_runs(case) return not case.source:find "ground_truth_single" end

local file, software = (...) or arg[1], select(2, ...) or arg[2]
local cases = {}
for _, case in ipairs(tperf.validate({ file = file, software = software }).cases) do
  cases[#cases + 1] = are_runs(case) and case or nil
end
micro_batches(cases)
weak_scaling(cases)
