--- A server of the Model Context Protocol: questions as tools, what tperf ships as resources. A message is one line of
--- JSON-RPC 2.0 (modelcontextprotocol.io, revisions 2024-11-05 to 2025-06-18).
local ask = require "tperf.door.ask"
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local core = require "tperf.core"
local json = require "tperf.output.json"
local rows_of = require "tperf.question.rows"
local schema = require "tperf.question.schema"

local mcp = {}

local REVISIONS <const> = { "2025-06-18", "2025-03-26", "2024-11-05" } -- newest first

-- Codes of JSON-RPC.
local UNREADABLE <const>, INVALID <const>, NO_METHOD <const>, WRONG <const> = -32700, -32600, -32601, -32602

local ABOUT <const> = {
  train = "Time, memory, throughput and MFU of training a model with one parallel layout.",
  search = "The fastest layouts to train a model on a number of GPUs; the answer's rows are ranked.",
  infer = "Latency, throughput and memory of serving a fixed batch.",
  serve = "A simulation of a serving engine under a load: TTFT, TPOT, throughput.",
}

local LISTS <const> = { models = "models that tperf knows by name", systems = "machines that it knows by name",
  software = "software profiles" }

local SCHEME <const> = "tperf://"

local GUIDE <const> = [[
# Asking tperf

Name a model and a system (resources `models`, `systems`) and the numbers that the tool's schema requires. Times are in
seconds, memory in bytes, rates per second. `fields` chooses figures (`time`, `memory.total`, `tpot`): without it an
answer has every op, and is long.

* `understood.assumed` has the defaults that an answer rests on: repeat those that matter to the reader;
  `understood.ignored` has what has no effect, and why.
* `intervals.FIGURE` = { low, high } holds nine tenths of comparable runs: quote it beside a predicted time.
* `warnings` are part of the answer. `error` has `field`, `remedy` and `message`: change that argument and ask again.
* A layout that does not fit has `feasible` = false or an error with code `infeasible`, which names what is too much.
]]

local function fail(code, format, ...) error({ code = code, message = format:format(...) }, 0) end

--- The time for each call: { seconds, set: function(seconds), which ends what runs then }; nil: no limit.
mcp.limits = nil

-- The answer of a call within the limit.
local function limited(call)
  local limits, start = mcp.limits, core.clock()
  if not limits then return call() end
  limits.set(limits.seconds)
  local answer = call()
  limits.set(0)
  if answer.error and core.clock() - start >= limits.seconds then
    answer.error = { code = "time_limit", field = "seconds", value = limits.seconds,
      message = ("the call took longer than %d s"):format(limits.seconds),
      remedy = "ask for less: fewer values of an argument, fewer requests; or start `tperf mcp --seconds N`" }
  end
  return answer
end

local methods = {}

function methods.initialize(params)
  local asked, chosen = params.protocolVersion, REVISIONS[1]
  for _, revision in ipairs(REVISIONS) do
    if revision == asked then chosen = revision end
  end
  return {
    protocolVersion = chosen, serverInfo = { name = "tperf", version = core.version },
    capabilities = { tools = { listChanged = false }, resources = { listChanged = false, subscribe = false } },
    instructions = "Each tool is a question about training or serving a transformer; see its inputSchema. Times are in "
      .. "seconds, memory in bytes. `understood.assumed` says what was taken for granted.",
  }
end

function methods.ping() return json.EMPTY end

methods["tools/list"] = function()
  local tools = {}
  for i, name in ipairs(check.names(rows_of)) do
    local input = schema(name)
    input.properties.fields = { type = "array", items = { type = "string" }, minItems = 1,
      description = "figures to answer with, such as time or memory.total; all by default, op by op" }
    tools[i] = { name = name, description = ABOUT[name], inputSchema = input }
  end
  return { tools = tools }
end

methods["tools/call"] = function(params)
  if not rows_of[params.name] then
    fail(WRONG, "unknown tool %s; there are %s", check.show(params.name), table.concat(check.names(rows_of), ", "))
  end
  local given = params.arguments == nil and {} or params.arguments
  if type(given) ~= "table" then fail(WRONG, "'arguments' must be an object, got %s", check.show(given)) end
  local fields = given.fields
  given.fields = nil
  local answer = limited(function() return ask.answer { ask = params.name, with = given, fields = fields } end)
  return { content = { { type = "text", text = ask.line(answer) } }, structuredContent = answer,
    isError = answer.error ~= nil }
end

-- What is to be read about an answer: the schema of each question.
local function documents()
  local list = {}
  for _, name in ipairs(check.names(rows_of)) do
    list["schema/" .. name] = { about = ("the arguments of %s, as JSON Schema"):format(name),
      text = function() return json.encode(schema(name)) end }
  end
  list.guide = { about = "how questions and answers look, and what figures mean", mime = "text/markdown",
    text = function() return GUIDE end }
  return list
end

methods["resources/list"] = function()
  local list = {}
  for i, name in ipairs(check.names(LISTS)) do
    list[i] = { uri = SCHEME .. name, name = name, description = LISTS[name], mimeType = "application/json" }
  end
  local extra = documents()
  for _, name in ipairs(check.names(extra)) do
    list[#list + 1] = { uri = SCHEME .. name, name = name, description = extra[name].about,
      mimeType = extra[name].mime or "application/json" }
  end
  return { resources = list }
end

methods["resources/read"] = function(params)
  local uri = params.uri
  local name = type(uri) == "string" and uri:sub(1, #SCHEME) == SCHEME and uri:sub(#SCHEME + 1)
  local document = name and documents()[name]
  if document then
    return { contents = { { uri = uri, mimeType = document.mime or "application/json", text = document.text() } } }
  end
  if not (name and LISTS[name]) then fail(WRONG, "unknown resource %s; resources/list names them", check.show(uri)) end
  return { contents = { { uri = uri, mimeType = "application/json", text = json.encode(catalogue.list(name)) } } }
end

local function reply(id, result, problem)
  return json.encode({ jsonrpc = "2.0", id = id, result = result, error = problem },
    { indent = 0, nonfinite = "null" })
end

--- The reply to a message; nil to a notification, which wants none.
---@param line string
---@return string?
function mcp.reply(line)
  local ok, message = pcall(core.yaml, line, "message")
  if not ok or type(message) ~= "table" then
    return (reply(nil, nil, { code = UNREADABLE, message = "a message is one line of JSON" })
      :gsub("^{", '{"id":null,', 1))
  end
  local id, method, params = message.id, message.method, message.params or {}
  if type(method) ~= "string" or type(params) ~= "table" then
    if id == nil then return nil end
    return reply(id, nil, { code = INVALID, message = "a request has a method, and its params are an object" })
  end
  if id == nil then return nil end
  local run = methods[method]
  if not run then return reply(id, nil, { code = NO_METHOD, message = ("no method '%s'"):format(method) }) end
  local done, result = pcall(run, params)
  if done then return reply(id, result) end
  if type(result) == "table" then return reply(id, nil, result) end
  error(result, 0)
end

return mcp
