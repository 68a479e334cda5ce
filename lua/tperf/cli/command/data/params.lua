local account = require "tperf.describe.model.hf.account"
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local data_files = require "tperf.cli.answer.data_files"
local model = catalogue.shared(require "tperf.describe.model")
local options = require "tperf.input.options"
local report = require "tperf.report"
local settings = require "tperf.cli.ask.settings"
local stored = require "tperf.describe.stored"
local tensors = require "tperf.describe.model.hf.stored.tensors"

-- In the order in which a token passes through them.
local components = { "embedding", "positions", "patches", "conditioning", "projections", "modulation", "attention",
  "mamba", "delta", "mlp", "experts", "latents", "shared_experts", "router", "norms", "scales", "head" }

local count, active = { key = "parameters", digits = 15 }, { key = "active", digits = 15 }

-- The parts of a layer that components are stored as; all others have 16 bits.
local PARTS <const> = { attention = "attention", mamba = "recurrent", delta = "recurrent", mlp = "mlp",
  experts = "experts", latents = "latents", shared_experts = "shared_experts", head = "head", embedding = "table" }
local WIDE <const> = 2 -- bytes

-- Stored bytes of a component. bytes: per weight of each part.
local function bytes_in(p, name, all, bytes)
  if not p.stored then return all * (bytes[PARTS[name]] or WIDE) end
  local sum = all * WIDE -- of an architecture, whose blocks have products of several parts
  for part, n in pairs(p.stored[name] or {}) do sum = sum + n * ((bytes[part] or WIDE) - WIDE) end
  return sum
end

-- The components in order: those of descriptions, then an architecture's other blocks by name.
local function in_order(p)
  local list, known = {}, {}
  for i, name in ipairs(components) do list[i], known[name] = name, true end
  for _, name in ipairs(check.names(p.components)) do
    if not known[name] then list[#list + 1] = name end
  end
  return list
end

-- A function that gives the stored bytes of a component, of a checkpoint whose tensors are known one by one.
local function of_tensors(m, rows, rules)
  local bytes, weights = {}, {}
  for _, one in ipairs(rows) do
    local name = one.part ~= "recurrent" and one.part or m.delta and "delta" or "mamba"
    bytes[name] = (bytes[name] or 0) + one.bytes
    weights[name] = (weights[name] or 0) + one.count * one.rows * one.columns
  end
  for name, format in pairs { head = rules.head, embedding = rules.tables } do
    if m.vocab and not m.embedding_width then
      weights[name] = m.vocab * m.hidden
      bytes[name] = tensors.bytes(format, m.hidden, m.vocab, rules)
    end
  end
  return function(name, all)
    if all < (weights[name] or 0) then return all * rules.wide end -- a tied head's bias
    return (bytes[name] or 0) + (all - (weights[name] or 0)) * rules.wide
  end
end

-- size(name, parameters): bytes of a component, if the checkpoint's formats are known; beside: towers around the model
local function by_component(p, size, beside)
  local bytes, whole = size ~= nil, p.total
  for _, tower in ipairs(beside) do whole = whole + tower.parameters end
  local rows, held = {}, bytes and 0
  local function add(name, all, met)
    local own = bytes and size(name, all)
    held = own and held + own
    rows[#rows + 1] = { component = name, parameters = all, share = all / whole, active = met, bytes = own }
  end
  for _, name in ipairs(in_order(p)) do
    local n = p.components[name] or 0
    local used = p.used and p.used[name] or name == "experts" and p.active_experts or n
    if n > 0 then add(name, n, used) end
  end
  if beside[1] then
    rows[#rows + 1] = { component = "text", parameters = p.total, share = p.total / whole, active = p.active,
      bytes = held }
  end
  for _, tower in ipairs(beside) do add(tower.name, tower.parameters, tower.parameters) end
  rows[#rows + 1] = { component = "total", parameters = whole, share = 1, active = p.active + whole - p.total,
    bytes = held }
  -- Not part of the total, as published counts exclude them: used only in training or to draft tokens.
  if p.mtp > 0 then rows[#rows + 1] = { component = "multi_token_prediction", parameters = p.mtp } end
  return rows, { "component", count, { key = "share", unit = "%" }, active,
    bytes and { key = "bytes", title = "stored", unit = "bytes" } or nil }
end

-- A function for the bytes of components; nil for models that state no format, and, with a message, for those whose is
-- not known.
local function sizes_of(m, p)
  local rows, rules = account.tensors(m)
  if rows then return of_tensors(m, rows, rules) end
  if rules and rules.tables then
    io.stderr:write "tperf: tables are quantised, too, which is not known of an architecture: bytes are left out\n"
    return nil
  end
  if rules and not m.stored then return function(_, all) return all * rules.wide end end
  local bytes = m.stored and stored.bytes(m)
  if m.stored and not bytes then
    io.stderr:write(("tperf: the weights are stored by '%s', which is not known: their bytes are left out\n"):format(
      m.stored.method))
  end
  return bytes and function(name, all) return bytes_in(p, name, all, bytes) end or nil
end

-- What the checkpoint's index of files says that its tensors take; nil: there is none beside config.json.
local function indexed(m)
  local folder = m.source and m.source:match "^(.*/)config%.json$"
  local path = folder and folder .. "model.safetensors.index.json"
  local text = path and catalogue.text(path)
  local size = text and text:match '"total_size"%s*:%s*(%d+)'
  return math.tointeger(tonumber(size))
end

-- Compares the counted bytes with the index's, on the row of the total.
local function compare(m, rows, columns, json)
  local size = indexed(m)
  for _, row in ipairs(rows) do
    if size and row.component == "total" and row.bytes then
      row.index_bytes = size
      if json then columns[#columns + 1] = "index_bytes" end
      io.stderr:write(("tperf: model.safetensors.index.json says %d bytes, %+.3f %% beside what is counted\n"):format(
        size, 100 * (size / row.bytes - 1)))
    end
  end
end

local function by_tensor(m)
  local rows, _, fault = account.tensors(m)
  if not rows then
    error(("--tensors: %s"):format(fault and ("%s is not understood"):format(fault)
      or "only a config.json of layers that tperf describes says what its tensors are"), 0)
  end
  return rows, { "part", "tensor", { key = "rows", digits = 15 }, { key = "columns", digits = 15 }, "format",
    { key = "count", digits = 15 }, { key = "bytes", unit = "bytes" } }
end

local function by_group(p)
  local rows, columns, windows = {}, { "first", "last", "kind", "attention", "mlp" }, false
  for i, group in ipairs(p.groups) do
    windows = windows or group.window ~= nil
    rows[i] = {
      first = group.first, last = group.first + group.count - 1, kind = group.kind,
      attention = group.delta and "delta" or group.mamba and group.attention ~= "none" and "mamba + " .. group.attention
        or group.attention,
      mlp = group.mlp, window = group.window, per_layer = group.layer_total, parameters = group.total,
      active = group.active,
    }
  end
  if windows then columns[#columns + 1] = "window" end
  table.move({ { key = "per_layer", digits = 15 }, count, active }, 1, 3, #columns + 1, columns)
  return rows, columns
end

local MODES <const> = { "train", "prefill", "decode" }

-- A row for each block, with a column for each axis along which blocks were tried.
local function by_block(found)
  local rows, columns, seen = {}, { { key = "kind" }, { key = "block" }, { key = "layers", wide = 1.5 }, count,
    { key = "flops", title = "FLOPs/token", unit = "FLOP" } }, {}
  for i, block in ipairs(found.blocks) do
    local row = { kind = block.kind, block = block.block, layers = block.layers, parameters = block.parameters,
      flops = block.flops_per_token }
    for name, one in pairs(block.axes or {}) do row[name], seen[name] = one.work, ("%s %d"):format(name, one.gpus) end
    for _, mode in ipairs(MODES) do row[mode] = block[mode] == true and "yes" or "no" end
    row.context = block.reads_context and "yes" or "no"
    rows[i] = row
  end
  for _, name in ipairs(require "tperf.base.check".names(seen)) do
    columns[#columns + 1] = { key = name, title = "work at " .. seen[name], unit = "%", digits = 3,
      wide = 2 + #columns }
  end
  for _, mode in ipairs(MODES) do columns[#columns + 1] = { key = mode, wide = 1 } end
  columns[#columns + 1] = { key = "context", title = "reads context", wide = -1 }
  return rows, columns
end

local function print_checked(m, values)
  local found = require "tperf.question.model_check".run(m)
  if values.json then
    io.write(report.json(found))
    return 0
  end
  local rows, columns = by_block(found)
  if values.csv then
    io.write(report.csv(rows, require "tperf.cli.answer.fitted".plain(columns)))
    return 0
  end
  require "tperf.cli.answer.table"(values, rows, columns)
  print()
  local totals = {}
  for _, name in ipairs { "parameters", "flops_per_token" } do
    totals[#totals + 1] = { what = name == "parameters" and name or "FLOPs per token, forward",
      blocks = found[name].counted, description = found[name].described }
  end
  report.print(totals, { { key = "what", title = "" }, { key = "blocks", digits = 15 },
    { key = "description", digits = 15 } })
  io.stdout:flush()
  for _, warning in ipairs(found.warnings) do io.stderr:write("tperf: ", warning, "\n") end
  return 0
end

return {
  summary = "count a model's parameters",
  arguments = "MODEL",
  from = { "models files" },
  details = [[
MODEL is the name of a model (`tperf list models`), a YAML file, a Hugging Face config.json
or its folder, or a Lua file that returns a model.
Counts are exact. "active" counts what one token uses: all except the experts it is not routed to.
"stored" is what a checkpoint's tensors take, as its config.json says; if its index of files lies
beside that, both are compared. --tensors lists the products of its layers by kind and format.
Multi-token prediction modules are not in the total. Where a model for images or sound has towers around
its text model, "text" is the latter, and the total has both.
--check lists the blocks: their parameters and forward FLOPs, the part of the work that one of
several GPUs of an axis does, the modes that they have ops for, and whether a decode step's
counts change with the context; then where blocks and description disagree.]],
  options = options.join({ { long = "groups", help = "by group of equal layers" },
    { long = "tensors", help = "by kind of a checkpoint's products, with their formats" },
    { long = "check", help = "what the blocks say, beside the description" }, settings.option,
    { long = "ignore", value = "NAME,...", kind = "list", help = "go on without these fields of config.json" },
  }, options.formats),
  run = function(values, arguments)
    if not arguments[1] then return false, "MODEL is missing" end
    if arguments[2] then return false, "params takes one MODEL" end
    if values.json and values.csv then return false, "--json and --csv exclude each other" end
    local wrong = settings.apply(values, arguments)
    if wrong then return false, wrong end
    local m = model(arguments[1])
    if values.check then return print_checked(m, values) end
    local p = m:parameters()
    local rows, columns
    if values.tensors then
      rows, columns = by_tensor(m)
    else
      if values.groups then rows, columns = by_group(p) else
        rows, columns = by_component(p, sizes_of(m, p), m.towers or {})
      end
      compare(m, rows, columns, values.json)
    end
    if values.json then
      local whole = rows[#rows] -- the total, or the last group or tensor
      for _, row in ipairs(rows) do whole = row.component == "total" and row or whole end
      data_files.name(rows, columns)
      if data_files.understood { whole } then columns[#columns + 1] = "understood" end
      return io.write(report.json(rows, columns)) and 0
    end
    if values.csv then return io.write(report.csv(rows, columns)) and 0 end
    report.print(rows, columns)
  end,
}
