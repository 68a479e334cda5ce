local format = require "tperf.output.format"
local options = require "tperf.input.options"
local say = require "tperf.output.terminal".say

local function size_of(row)
  local billions = row.parameters / 1e9
  return billions < 1 and ("%.0fM"):format(1e3 * billions) or ("%.3gB"):format(billions)
end

-- 32768 as "32k"; "?" if comparable runs needed up to more than there is.
local function length_of(way)
  return function(row)
    local seq = row[way.name]
    if not seq then return seq == nil and "-" or nil end
    local text = seq % 1024 == 0 and ("%dk"):format(seq // 1024) or tostring(seq)
    return text .. (row.doubtful and row.doubtful[way.name] and "?" or "")
  end
end

local function columns_of(ways, csv)
  local columns = { { key = "model" }, csv and { key = "parameters" } or
    { key = size_of, title = "parameters", align = "right" } }
  for _, way in ipairs(ways) do
    columns[#columns + 1] = csv and { key = way.name } or
      { key = length_of(way), title = way.title, align = "right" }
  end
  return columns
end

return {
  summary = "which models a machine can train, fine-tune or serve",
  arguments = "[MODEL ...]",
  from = { "models files" },
  example = [[
tperf fits -s rtx-4090
tperf fits llama-3.1-8b qwen2.5-14b -s rtx-4090 -g 2]],
  details = [[
Prints the longest sequence that fits, of 2k tokens and its doubles up to the model's context. full, LoRA and QLoRA:
training with a micro-batch of one sequence, full recomputation and adapters of rank 16 on all products; several GPUs
shard it (ZeRO 3). 16-bit, 8-bit and 4-bit: serving one request, weights of so many bits, a cache of 16. "?": some
comparable runs needed more memory than there is. "-": no such question about this model, as serving one that
translates. Towers for images and sound are left out.]],
  options = options.join({
    { long = "system", short = "s", value = "NAME", from = "systems files",
      help = "the system (`tperf list systems`, or a file)" },
    { long = "gpus", short = "g", value = "N", kind = "integer", min = 1, help = "GPUs of it (default 1)" },
    { long = "seq", value = "N", kind = "integer", min = 2, help = "ask for sequences of this length alone" },
  }, options.formats),
  run = function(values, arguments)
    if not values.system then return false, "--system is missing" end
    local fits = require "tperf.question.fits"
    local rows = fits.run { system = values.system, gpus = values.gpus, seq = values.seq,
      models = arguments[1] and arguments or nil }
    require "tperf.cli.answer.table"(values, rows, columns_of(fits.ways, values.csv))
    if values.json or values.csv then return end
    local machine = require "tperf.describe.system"(values.system)
    say(("\nlongest sequence that fits in %s of each GPU, or nothing; ?: comparable runs "
      .. "may need more; -: not asked of such a model"):format(
      format.number(require "tperf.describe.machine.visible_memory"(machine), "bytes")))
    say "`tperf train MODEL --peft qlora …` and `tperf infer MODEL …` tell the time"
  end,
}
