--- Conditions of closed loops that a row does not state, but the table does.
--
-- Copies: some of NVIDIA's rows are InferenceX's measurements without their date, with times in units of 10 us. A row
-- whose two times are those of another origin's row is that row. If a source has such copies, its other rows are that
-- origin's, too; MTP is as in the copies of the same layout.
--
-- Cached prompts: no engine multiplies at three quarters of the peak all the time, decodes included (the best of all
-- other sources: 0.46). If a source has a row whose prompts' products would, its prompts were in the cache: its client,
-- aiperf, sends 100 prompts again and again unless told otherwise (--num-dataset-entries), and the engine keeps
-- prefixes by default.
local read = require "tperf.measured.read"

local conditions = { PROMPTS = 100 } -- that a client repeats

local REACHED <const> = 0.75

local function rounded(seconds) return ("%.5f"):format(read.positive(seconds) or 0) end

local function times_of(row)
  return table.concat({ row.model, row.gpu, row.concurrency, rounded(row.ttft_s),
    rounded(row.tpot_s) }, ";")
end

local function source_of(row) return read.text(row.source, read.text(row.origin, "")) end

local function layout_of(row)
  return table.concat({ source_of(row), row.model, row.gpu, row.tp, read.text(row.moe_ep, "") }, ";")
end

-- Rows with a date, by their times.
local function dated(rows)
  local by_times = {}
  for _, row in ipairs(rows) do
    if read.text(row.date, "") ~= "" and read.positive(row.ttft_s) then by_times[times_of(row)] = row end
  end
  return by_times
end

--- The rows that repeat others, and what is known of other rows through them.
---@param rows table[]
---@return table<table, boolean> copies
---@return fun(row: table): string?, string?  a row's origin and MTP, if its copies tell
function conditions.copies(rows)
  local by_times, copies, origins, mtp = dated(rows), {}, {}, {}
  for _, row in ipairs(rows) do
    local of = read.text(row.date, "") == "" and by_times[times_of(row)]
    if of and of.origin ~= row.origin then
      copies[row], origins[source_of(row)], mtp[layout_of(row)] = true, of.origin, of.mtp
    end
  end
  return copies, function(row) return origins[source_of(row)], mtp[layout_of(row)] end
end

-- Part of the peak that the products of a row's prompts would reach if none were cached; nil if the row lacks a column.
local function part_of_peak(row, model, peak)
  local ttft, tpot, osl = read.positive(row.ttft_s), read.positive(row.tpot_s), read.positive(row.osl_mean)
  local c, isl, gpus = read.count(row.concurrency), read.count(row.isl), read.count(row.gpus)
  if not (ttft and tpot and osl and c and isl and gpus) then return nil end
  local products = model:parameters().active - (model.tied_embeddings and 1 or 2) * model.vocab * model.hidden
  return 2 * products * c * (isl + osl) / (ttft + (osl - 1) * tpot) / (gpus * peak)
end

--- The sources whose prompts were cached.
---@param rows table[]
---@param peak_of fun(row: table): table?, number?  a row's model and its GPU's peak in FLOP/s; nil: it is not predicted
---@return fun(row: table): boolean  whether a row's were
function conditions.cached(rows, peak_of)
  local sources = {}
  for _, row in ipairs(rows) do
    local model, peak = peak_of(row)
    local part = model and peak and part_of_peak(row, model, peak)
    if part and part > REACHED then sources[source_of(row)] = true end
  end
  return function(row) return sources[source_of(row)] or false end
end

return conditions
