local check = require "tperf.base.check"
local core = require "tperf.core"
local catalogue = require "tperf.base.catalogue"
local settings = require "tperf.cli.ask.settings"

require "tperf.describe.software" -- lets catalogue.find resolve former names of profiles

local KINDS = { "models", "systems", "software" }

local texts = {}

-- The text of an item's file, which may be a pipe and is read once.
local function text_of(item)
  if not texts[item.path] then
    local text, problem = catalogue.text(item.path)
    texts[item.path] = text or error(problem, 0)
  end
  return texts[item.path]
end

local TIER <const> = { "name", "size", "bandwidth", "latency", "efficiency", "topology", "axes", "nics_per_gpu" }

-- Prints the tiers of another tool's network, to be put into a system file; false: it is none.
local function print_network(item)
  local found = require "tperf.import.network".parse(text_of(item), item.path)
  if not found then return false end
  print(("# %s, as %s describes it"):format(item.path, found.format))
  for _, note in ipairs(found.notes) do print("# " .. note) end
  print "network:\n  tiers:"
  for _, tier in ipairs(found.tiers) do
    local fields = {}
    for _, field in ipairs(TIER) do
      local value = tier[field]
      if field == "bandwidth" and value then value = ("%.12g GB/s"):format(value / 1e9) end
      if type(value) == "table" then value = "[" .. table.concat(value, ", ") .. "]" end
      if value ~= nil then fields[#fields + 1] = field .. ": " .. tostring(value) end
    end
    print("    - { " .. table.concat(fields, ", ") .. " }")
  end
  return true
end

local POINTS <const> = { { key = "kind" }, { key = "gpus" }, { key = "nodes" }, { key = "bytes", unit = "bytes" },
  { key = "seconds", title = "time", unit = "s" }, { key = "algorithm", title = "algbw", unit = "bytes/s" },
  { key = "bus", title = "busbw", unit = "bytes/s" } }

-- Prints the points of a log of nccl-tests; false: it is none.
local function print_log(item)
  local logs = require "tperf.import.nccl_tests"
  local text = text_of(item)
  if not (logs.recognise(text) and text:find "busbw") then return false end
  local rows = logs.parse(text, item.path)
  require "tperf.cli.answer.table"({}, rows, POINTS)
  print(("%s; tperf calibrate SYSTEM %s … fits curves to it"):format(rows[1].gpu or "GPUs without a name", item.path))
  return true
end

-- The kind of object in an item's file, which its name does not tell.
local function kind_of(item)
  local path = item.path
  local content, problem = core.yaml(text_of(item), path)
  if type(content) ~= "table" then
    error(problem and type(problem) == "string" and problem or path .. ": is no model, system or software profile", 0)
  end
  return (content.accelerator or content.network) and "systems" or content.overlap and "software" or "models"
end

-- Whether a name is that of a regular file: a pipe is read once, as an object of tperf.
local function has_path(name) return name:find("/", 1, true) ~= nil end

local function is_file(name)
  return (name:find "%.%w+$" ~= nil or has_path(name)) and core.file.is_there(name)
end

-- All matches for a name; "models/gpt2" restricts the kind.
local function find_all(name)
  local found = {}
  for _, kind in ipairs(KINDS) do
    local below = name:match("^" .. kind .. "/(.+)$")
    local path = catalogue.find(kind, below or name)
    local last = found[#found]
    if path and last and last.path == path then
      last.kind = kind_of(last)
    elseif path then
      found[#found + 1] = { kind = kind, path = path, name = below or name }
    end
  end
  if found[1] and has_path(name) then kind_of(found[1]) end
  return found
end

local function all_names()
  local names = {}
  for _, kind in ipairs(KINDS) do
    local list = catalogue.list(kind)
    table.move(list, 1, #list, #names + 1, names)
  end
  return names
end

-- Prints the checked object, with the changes of --set, as JSON.
local function print_json(item, changes)
  local kind = item.kind:gsub("s$", "")
  local values, arguments = { set = changes, [kind] = item.path }, { kind == "model" and item.path or nil }
  local wrong = settings.apply(values, arguments)
  if wrong then return false, wrong end
  local object = kind == "model" and arguments[1] or values[kind]
  io.stdout:write(require "tperf.output.json".encode(require("tperf.describe." .. kind)(object)), "\n")
end

return {
  summary = "print a model, a system or a software profile with its sources; or a network",
  arguments = "NAME",
  from = { "models systems software files" },
  details = [[
NAME is a name from `tperf list models`, `systems` or `software`, or a file. Of a network as
ASTRA-sim, Calculon, InfraGraph, NCCL (NCCL_TOPO_DUMP_FILE) or `nvidia-smi topo -m` describes it, it
prints the tiers for a system file; of a log of nccl-tests, its points.]],
  options = { { long = "json", help = "print JSON: the checked values, in SI units" }, settings.option },
  run = function(values, arguments)
    local name = arguments[1]
    if not name then return false, "NAME is missing" end
    if arguments[2] then return false, "show takes one name" end
    if values.set and not values.json then return false, "--set goes with --json" end
    local file = is_file(name) and { path = name }
    if file and (print_log(file) or print_network(file)) then return end
    local found = find_all(name)
    if #found == 0 then
      error(("unknown model, system or software '%s'%s"):format(name, check.suggest(name, all_names())), 0)
    end
    for _, item in ipairs(found) do
      if values.json then return print_json(item, values.set) end
      io.stderr:write(item.path, ":\n")
      io.stdout:write(text_of(item))
    end
  end,
}
