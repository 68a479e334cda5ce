-- The gain from a mixture of experts: Mixtral against a dense model with as many active parameters and one with as many
-- in total, and expert parallelism swept.
local tperf = require "tperf"

local o = tperf.args {
  summary = "a mixture of experts against its dense equals, and expert parallelism swept", model = "mixtral-8x7b",
  system = "h100-sxm", gpus = 64, batch = 512, software = false,
}

local moe = tperf.model(o.model)
if not moe.experts then error(moe.name .. " has no experts", 0) end

-- The same model with one MLP per layer, as wide as that many experts.
local function dense(experts)
  local fields = {}
  for _, name in ipairs { "layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "seq", "context", "gated",
    "activation", "norm", "positions", "tied_embeddings" } do
    fields[name] = moe[name]
  end
  fields.name, fields.ffn = ("%d experts wide"):format(experts), experts * moe.experts.ffn
  return tperf.model(fields)
end

local function best(model, ep)
  return tperf.search {
    model = model, system = o.system, gpus = o.gpus, global_batch = o.batch, strategy = "tensor", ep = ep, top = 1,
    software = o.software,
  }
end

local report = tperf.report
local columns = {
  { key = "model" }, { key = "total", title = "parameters" }, { key = "active" },
  { key = function(line) return line.found and report.layout(line.found) or line.reason end, title = "layout" },
  { key = "found.memory.total", title = "memory", unit = "bytes" },
  { key = "found.time", title = "iteration", unit = "s" },
  { key = "found.tokens_per_second", title = "tokens/s" },
}

local function line_of(model, ep)
  local result, count = best(model, ep), model:parameters()
  return {
    model = model.name, ep = ep, total = count.total, active = count.active, found = result[1], reason = result.reason,
  }
end

local compared = { line_of(dense(moe.experts.top_k), 1), line_of(moe), line_of(dense(moe.experts.count), 1) }
local function runs_by() -- all use the same
  for _, line in ipairs(compared) do
    if line.found then return "software " .. line.found.software end
  end
  return "none fits"
end
report.print(compared, columns, {
  title = ("%s between its dense equals, %d GPUs, %s"):format(moe.name, o.gpus, runs_by()),
})

local swept, ep = {}, 1
while moe.experts.count % ep == 0 and ep <= o.gpus do
  swept[#swept + 1] = line_of(moe, ep)
  ep = 2 * ep
end
columns[1] = { key = "ep", title = "expert parallel" }
table.insert(columns, { key = "found.breakdown.tensor_comm", title = "exchange", unit = "s" })
print()
report.print(swept, columns, { title = "Experts spread over increasingly many GPUs, " .. runs_by() })
