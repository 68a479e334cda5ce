-- Writes docs/accuracy.md: predictions against published measurements, by source. `make accuracy MEASURED=FOLDER`,
-- where FOLDER has the tables; tperf run --trust tools/write_accuracy.lua FILE.csv …
local output = require "tperf.report.output"
local tperf = require "tperf"
local software = require "tperf.resource".list "software"

local function percent(value) return ("%.1f"):format(100 * value) end

local function statistics_table(out, sources)
  out[#out + 1] = "| source | rows | median % | mean % | p90 % | max % | bias % |"
  out[#out + 1] = "|---|---:|---:|---:|---:|---:|---:|"
  for _, s in ipairs(sources) do
    out[#out + 1] = ("| %s | %d | %s | %s | %s | %s | %s |"):format(s.source, s.rows, percent(s.median),
      percent(s.mean), percent(s.p90), percent(s.max), percent(s.bias))
  end
  out[#out + 1] = ""
end

local TITLES = {
  gemm = "Matrix products", attention = "Attention kernels", moe = "Blocks of experts", mla = "Latent attention",
  memory = "Kernels that only read and write",
  collective = "Collectives", direct = "All-reduces of serving engines", step = "Training steps",
}

local function section(out, path)
  local result = tperf.validate { file = path }
  out[#out + 1] = ("## %s"):format(TITLES[result.kind])
  out[#out + 1] = ""
  out[#out + 1] = ("%d of %d rows predicted."):format(#result.cases, result.rows)
  out[#out + 1] = ""
  statistics_table(out, result.sources)
  if result.memory then
    out[#out + 1] = "Peak memory of a GPU, as the source measured it (allocated, reserved or as nvidia-smi shows it):\n"
    statistics_table(out, result.memory)
  end
  if #result.left_out > 0 then
    out[#out + 1] = "Left out:\n"
    for _, left in ipairs(result.left_out) do out[#out + 1] = ("* %d: %s"):format(left.rows, left.reason) end
    out[#out + 1] = ""
  end
end

local NUMBERS = { "compute", "attention", "memory", "comm", "host", "overlap" }

local function profiles(out)
  out[#out + 1] = "## Software profiles\n"
  out[#out + 1] = "Held back: the error on each third of the runs of a fit to the other two. It is what a new run"
  out[#out + 1] = "may expect, and what the interval of a prediction is made of.\n"
  out[#out + 1] = ("| stack | runs | %s | held back: median %% | p90 %% |"):format(table.concat(NUMBERS, " | "))
  out[#out + 1] = "|---|" .. ("---:|"):rep(#NUMBERS + 3)
  for _, name in ipairs(software) do
    local p, cells = tperf.software(name), {}
    for i, number in ipairs(NUMBERS) do
      cells[i] = number == "host" and ("%.1f us"):format(p.host * 1e6) or ("%.2f"):format(p[number])
    end
    out[#out + 1] = ("| %s | %d | %s | %s | %s |"):format(name, p.runs or 0, table.concat(cells, " | "),
      percent(p.error or 0), percent(p.error90 or 0))
  end
  out[#out + 1] = ""
end

local file = assert(io.open("docs/accuracy.in.md", "rb"))
local out = { file:read "a" }
file:close()
for _, path in ipairs(arg) do section(out, path) end
profiles(out)
output.write("docs/accuracy.md", table.concat(out, "\n"))
