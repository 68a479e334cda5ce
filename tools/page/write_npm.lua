-- Usage: tperf run --trust tools/page/write_npm.lua PAGE FOLDER. Writes the npm package into FOLDER: Emscripten's
-- module in PAGE, the parts in npm/, the data, and types from the registry of arguments.
local json = require "tperf.output.json"
local tperf = require "tperf"

local page, into = arg[1], arg[2]
local FOLDERS <const> = "models systems software kernels recipes"

local function slurp(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function write(name, text)
  local file <close> = assert(io.open(into .. "/" .. name, "wb"))
  assert(file:write(text))
end

local function lines_of(command)
  local pipe <close> = assert(io.popen(command, "r"))
  return pipe:read "a":gmatch "[^\n]+"
end

local function data()
  local files = {}
  for path in lines_of("find " .. FOLDERS .. " -type f | sort") do files[path] = slurp(path) end
  return json.encode(files, { indent = 0 })
end

-- --- types ---

local type_of

local SIMPLE <const> = { integer = "number", number = "number", string = "string", boolean = "boolean" }

local function names(map)
  local list = {}
  for name in pairs(map) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local function object_of(schema, indent)
  local required, lines = {}, { "{" }
  for _, name in ipairs(schema.required or {}) do required[name] = true end
  for _, name in ipairs(names(schema.properties)) do
    local one = schema.properties[name]
    if one.description then
      lines[#lines + 1] = ("%s  /** %s */"):format(indent, one.description:gsub("%*/", "* /"):gsub("%s+", " "))
    end
    lines[#lines + 1] = ("%s  %s%s: %s;"):format(indent, name:find "^[%a_][%w_]*$" and name or json.encode(name),
      required[name] and "" or "?", type_of(one, indent .. "  "))
  end
  lines[#lines + 1] = indent .. "}"
  return table.concat(lines, "\n")
end

function type_of(schema, indent)
  if schema.anyOf then
    local list, known = {}, {}
    for _, one in ipairs(schema.anyOf) do
      local text = type_of(one, indent)
      if not known[text] then list[#list + 1], known[text] = text, true end
    end
    return table.concat(list, " | ")
  end
  if schema.enum then
    local list = {}
    for i, value in ipairs(schema.enum) do list[i] = json.encode(value) end
    return table.concat(list, " | ")
  end
  if schema.type == "array" then return ("Array<%s>"):format(type_of(schema.items or {}, indent)) end
  if schema.properties then return object_of(schema, indent) end
  return SIMPLE[schema.type] or "unknown"
end

local HEAD <const> = [[
// What the package answers. Written by `make npm` from the registry of arguments.

/** A question: `with` has its arguments, `fields` the figures wanted (all by default), `id` comes back. */
export type Question =
%s  | { ask: string; with?: Record<string, unknown>; fields?: string[]; id?: unknown };

/** Figures by name, those of a list in `rows`; seconds and bytes (docs/ask.md). */
export interface Answer {
  ask: string;
  id?: unknown;
  version: string;
  schema: number;
  warnings?: string[];
  understood?: { read: string[]; assumed: Record<string, unknown>; ignored: Record<string, string> };
  rows?: Array<Record<string, any>>;
  [figure: string]: any;
}

/** A question that has no answer. */
export class TperfError extends Error {
  code: string;
  field?: string;
  value?: unknown;
  remedy?: string;
}

/** Answers a question; rejects with a TperfError. */
export function ask(question: Question): Promise<Answer>;

/** Answers a question in JSON with the line that `tperf ask` prints; an error is an answer with `error`. */
export function askText(question: string): Promise<string>;
]]

local function types()
  local union, parts = {}, {}
  for _, name in ipairs(names(require "tperf.question.rows")) do
    local title = name:sub(1, 1):upper() .. name:sub(2)
    union[#union + 1] = ('  | { ask: "%s"; with: %s; fields?: string[]; id?: unknown }\n'):format(name, title)
    parts[#parts + 1] = ("\n/** The arguments of `%s`. */\nexport interface %s %s\n"):format(name, title,
      object_of(tperf.schema(name), ""))
  end
  return HEAD:format(table.concat(union)) .. table.concat(parts)
end

-- --- the package ---

local engine = slurp(page .. "/tperf.js") .. slurp "npm/engine.js" .. slurp "npm/ask.js"
write("tperf.cjs", engine .. slurp "npm/node.js")
write("browser.mjs", engine .. slurp "npm/browser.js")
for _, name in ipairs { "index.mjs", "README.md" } do write(name, slurp("npm/" .. name)) end
write("LICENSE", slurp "LICENSE")
write("package.json", (slurp "npm/package.json":gsub("@VERSION@", tperf.version)))
write("tperf.d.ts", types())
write("tperf.wasm", slurp(page .. "/tperf.wasm"))
write("data.json", data())
assert(os.execute(("gzip -9nf %s/data.json"):format(into)))
