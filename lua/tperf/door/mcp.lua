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

local function fail(code, format, ...) error({ code = code, message = format:format(...) }, 0) end

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
  local answer = ask.answer { ask = params.name, with = given, fields = fields }
  return { content = { { type = "text", text = ask.line(answer) } }, structuredContent = answer,
    isError = answer.error ~= nil }
end

methods["resources/list"] = function()
  local list = {}
  for i, name in ipairs(check.names(LISTS)) do
    list[i] = { uri = SCHEME .. name, name = name, description = LISTS[name], mimeType = "application/json" }
  end
  return { resources = list }
end

methods["resources/read"] = function(params)
  local uri = params.uri
  local name = type(uri) == "string" and uri:sub(1, #SCHEME) == SCHEME and uri:sub(#SCHEME + 1)
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
