--- The catalogue of data files. Finds a file by name, reads it, checks it against a schema and makes an object of it.
-- "h100-sxm" of "systems" is systems/h100-sxm.yaml in the first root that has it (tperf.base.roots).
local io, next, setmetatable, getmetatable = io, next, setmetatable, getmetatable
local check = require "tperf.base.check"
local core = require "tperf.core"
local frozen = require "tperf.base.object.frozen"
local neutral = require "tperf.base.entry.neutral"
local refusal = require "tperf.base.refusal"
local roots = require "tperf.base.roots"

local stamp = core.resource.stamp

local catalogue = {}

local max_bytes, extensions = 16 << 20, { ".yaml", ".json" } -- the YAML reader's own limit

local function has_extension(name) return name:find "%.yaml$" ~= nil or name:find "%.json$" ~= nil end

local function collect(root, below, names, depth)
  for _, entry in ipairs(core.resource.entries(root .. "/" .. below) or {}) do
    local path = below .. "/" .. entry
    if has_extension(entry) and roots.exists(root .. "/" .. path) then
      names[path:gsub("^[^/]*/", ""):gsub("%.%w+$", "")] = true
    elseif entry:sub(1, 1) ~= "." and depth > 0 then
      collect(root, path, names, depth - 1)
    end
  end
end

--- The names of "systems", "models" or "software" that can be loaded, sorted.
---@return string[]
function catalogue.list(kind)
  local names, sorted = {}, {}
  for _, root in ipairs(roots.list()) do collect(root, kind, names, 3) end
  for name in next, names do sorted[#sorted + 1] = name end
  table.sort(sorted)
  return sorted
end

-- ", which is a system": a hint where the name exists, but as another kind.
local function other_kind(kind, name)
  for _, other in ipairs { "models", "systems", "software" } do
    for _, known in ipairs(other ~= kind and catalogue.list(other) or {}) do
      if known == name then return (", which is a %s"):format(other == "software" and other or other:gsub("s$", "")) end
    end
  end
  return ""
end

local NO_DATA <const> = "; no %s are installed with this program: --data DIR or TPERF_PATH names a folder with them"

-- What else a name that is none may be: several names, or a file.
local function remedy(kind, name)
  if not name:find(",", 1, true) then
    local here = "./" .. name
    if kind == "models" and roots.exists(here .. "/config.json") then
      return ("; %s is the folder here"):format(check.show(here))
    end
    if not catalogue.list(kind)[1] then return NO_DATA:format(kind) end
    local there = core.resource.stamp(name)
    return there and ("; files of %s end in .yaml or .json, and --from reads launch files"):format(kind) or ""
  end
  for one in name:gmatch "[^,]+" do
    if not catalogue.find(kind, one) then return "" end
  end
  return "; ask for one at a time"
end

local renamed = {} -- kind -> old name -> new name

-- The file of a name, in the first root that has it.
local function in_roots(kind, name)
  if name:find("..", 1, true) or name:sub(1, 1) == "/" then return nil end
  for _, root in ipairs(roots.list()) do
    for _, extension in ipairs(extensions) do
      local path = string.format("%s/%s/%s%s", root, kind, name, extension)
      if roots.exists(path) then return path end
    end
  end
end

local told = {} -- deprecated names that this run has been warned about

-- The file that a deprecated name stands for. Warns once.
local function of_old_name(kind, name)
  local new = renamed[kind] and renamed[kind][name]
  local path = new and in_roots(kind, new)
  if path and not told[name] then
    told[name] = true
    io.stderr:write(("tperf: the %s '%s' is called %s now\n"):format(kind:gsub("s$", ""), name, new))
  end
  return path
end

--- The file of a name or a path; nil and a message if there is none.
---@param kind string
---@param name string
---@return string? path
---@return string? message
function catalogue.find(kind, name)
  if has_extension(name) then
    if roots.exists(name) then return name end
    local there = core.resource.stamp(name) and ", which is no regular file" or ""
    return nil, string.format("cannot open %s%s", check.show(name), there)
  end
  local path = in_roots(kind, name)
  if path then return path end
  if name:find("/", 1, true) then
    local checkpoint = name .. "/config.json" -- the folder of a Hugging Face model
    if kind == "models" and roots.exists(checkpoint) then return checkpoint end
    if roots.exists(name) then return name end
  end
  path = of_old_name(kind, name)
  if path then return path end
  return nil, string.format("unknown %s %s%s%s%s; `tperf list %s` shows them all", kind:gsub("s$", ""),
    check.show(name), check.suggest(name, catalogue.list(kind)), other_kind(kind, name), remedy(kind, name), kind)
end

--- The text of a data file; or nil and a message.
---@param path string
---@param open? fun(path: string): file*?, string?  default: core.file.open
---@return string?
---@return string?
function catalogue.text(path, open)
  local file, message = (open or core.file.open)(path)
  if not file then return nil, message end
  local text, problem = core.file.rest(file, max_bytes)
  file:close()
  if not text then return nil, string.format("%s: %s", path, problem) end
  if #text > max_bytes then return nil, string.format("%s: larger than %d MiB", path, max_bytes >> 20) end
  return text
end

--- The content of a YAML or JSON file, and where each value stands (see src/bind/base/bind_yaml.c); or nil and a
-- message.
---@param path string
---@param open? fun(path: string): file*?, string?  default: core.file.open
---@return any content
---@return table|string positions
function catalogue.read(path, open)
  local text, message = catalogue.text(path, open)
  if not text then return nil, message end
  return core.yaml(text, path)
end

--- "file:line:column: " of a value in the content, or of the nearest value around it.
local function place(origin, path, is_key)
  if not origin then return "" end
  local at = origin.positions[path]
  while not at do
    path = path:match "^(.*)[.%[]" or ""
    at, is_key = origin.positions[path], true
  end
  local key = is_key and at[3] > 0 and 2 or 0
  return string.format("%s:%d:%d: ", origin.path, at[key + 1], at[key + 2])
end

local function open(what, kind, name, elsewhere, remedy_of)
  if name:find "%.lua$" then
    check.fail("%s: %s is Lua, and data files are YAML or JSON: take what it returns, with dofile(%s)", what,
      check.show(name), check.show(name))
  end
  local path, message = catalogue.find(kind, name)
  if not path and elsewhere then
    local content, origin = elsewhere(name)
    if content then
      roots.use(origin.path)
      return content, origin
    end
  end
  if not path then check.fail("%s: %s%s", what, message, remedy_of and remedy_of(name) or "") end
  local content, positions = catalogue.read(path)
  if content == nil then check.fail("%s: %s", what, positions) end
  roots.use(path)
  return content, { path = path, positions = positions }
end

-- Whether a table's fields take the place of another's one by one: neither lists do, nor objects of one class, such as
-- architectures.
local function merges(value, old)
  if type(value) ~= "table" or type(old) ~= "table" or rawlen(old) > 0 then return false end
  local class = getmetatable(value)
  return class == nil or class ~= getmetatable(old)
end

-- A copy of base with changes applied: tables are merged, lists and objects replaced.
local function merge(what, base, changes, depth)
  if depth > 16 then check.fail("%s: nested too deep (or within itself)", what) end
  local copy = {}
  for key, value in next, base do copy[key] = value end
  for key, value in next, frozen.plain(changes) do
    local old = copy[key]
    value = frozen.plain(value)
    copy[key] = merges(value, old) and merge(what, old, value, depth + 1) or value
  end
  return copy
end

local schemas = {} -- kind -> schema
local owns = setmetatable({}, { __mode = "k" }) -- constructor -> function(value) -> the library's own object

--- The form of a constructor for the library's own use: it returns plain objects, for a name the same one as long as
--- the file has not changed. They are never changed, and scripts get views of them (base/object/frozen.lua).
---@return fun(value: any): table
function catalogue.shared(constructor) return owns[constructor] end

--- The unit of a field: "bytes" for "accelerator.hbm.capacity" of "systems"; nil if it has none.
---@param kind string
---@param path string
---@return string?
function catalogue.unit_at(kind, path)
  local schema, found = schemas[kind], nil
  for name in path:gmatch "[^.]+" do
    found = schema and schema[name] and check.describe(schema[name])
    schema = found and found.schema
  end
  return found and found.unit
end

catalogue.metatables = {} -- of objects that hold only data, by name, so that such objects can be sent between processes

-- The metatable of objects: absent fields come to __index, too.
local function metatable_of(what, methods, derived)
  local meta = {
    __index = function(object, key)
      local found = derived[key]
      if found then return found(object) end
      return methods[key]
    end,
    __tostring = function(object) return rawget(object, "name") or what end,
    __name = what,
  }
  catalogue.metatables[what] = meta
  return meta
end

-- The class of what scripts get of objects, whose method `with` gives them a view, too.
local function class_of(what, methods)
  local public = {}
  for name, method in next, methods do public[name] = method end
  function public.with(...) return frozen.show(methods.with(...)) end
  local class = frozen.class(function(_, name)
    check.fail("%s: an object is never changed, so '%s' cannot be set; its method `with` makes a changed copy", what,
      tostring(name))
  end, neutral.methods(public), what)
  function class.__tostring(view) return frozen.plain(view).name or what end
  return class
end

-- Objects of names, for as long as their files stay as they are.
local function sharing(construct, depends)
  local known = {}
  return function(value)
    if type(value) ~= "string" then return (construct(value)) end
    local key = depends and value .. "\0" .. depends() or value
    local one = known[key]
    if one then
      local moment, size, number = stamp(one.path)
      if moment == one.moment and size == one.size and number == one.number then
        roots.use(one.path)
        return one.object
      end
    end
    one = {}
    one.object, one.path = construct(value)
    one.moment, one.size, one.number = stamp(one.path)
    known[key] = one
    return one.object
  end
end

--- Makes a constructor of checked objects. It takes a name, a path, a table with the content of a file, or an object.
--- options: what ("tperf.system"), kind ("systems"), schema; optional: methods, renamed (deprecated name -> new name),
--- and the hooks
--- import(content, origin, construct) -> content, origin, run before the check, which may construct others;
--- merged(content, changes, object), run before the check of a changed copy's content: drops what the changes make
--- untrue of the object;
--- finish(object) -> message, path of what is wrong;
--- seal(object), run for each object that a question gets;
--- depends() -> a text: what else than its file decides what a name means;
--- elsewhere(name) -> content, origin of a name that the catalogue lacks; remedy(name) -> what its error says besides;
--- variant(object, keep) -> the object that stands for it in the library's own use, noted by keep.
---@return fun(value: string|table): table
function catalogue.constructor(options)
  local what, methods = options.what, options.methods or {}
  schemas[options.kind], renamed[options.kind] = options.schema, options.renamed
  local metatable, seal = metatable_of(what, methods, options.derived or {}), options.seal or function() end
  local class

  local function build(label, content, origin)
    local object, message, path, is_unknown = check.fields(content, "", options.schema)
    local raise = object and refusal.raise or check.fail -- each field is valid, but not with the others
    if object then
      setmetatable(object, metatable)
      if options.finish then message, path = options.finish(object) end
    end
    if message then
      local named = not origin and type(content) == "table" and type(content.name) == "string"
      local at = place(origin, path, is_unknown) .. (named and content.name .. ": " or "")
      raise("%s: %s%s", label, at, message)
    end
    return frozen.keep(object, class)
  end

  -- system:with { network = { fast = { domain = 64 } } }: a copy with changes applied
  local label = what .. ":with"
  function methods.with(object, changes)
    if getmetatable(object) ~= metatable then check.fail("%s: call it with a colon, on a %s", label, what) end
    if type(changes) ~= "table" then check.fail("%s needs a table of changes, got %s", label, check.show(changes)) end
    local content = merge(label, object, changes, 0)
    if options.merged then options.merged(content, changes, object) end
    return build(label, content)
  end

  local function construct(value) -- the object, and the path of the file it was made from
    local origin
    value = frozen.plain(value)
    if frozen.is(value, class) then return value end
    if type(value) == "string" then
      value, origin = open(what, options.kind, value, options.elsewhere, options.remedy)
    elseif type(value) ~= "table" then
      check.fail("%s needs a name, a path or a table, got %s", what, check.show(value))
    end
    local path = origin and origin.path
    if options.import and type(value) == "table" then
      value, origin = options.import(value, origin, construct)
    end
    return build(what, value, origin), path
  end

  class = class_of(what, methods)
  local shared, variant = sharing(construct, options.depends), options.variant
  local function keep(object) frozen.keep(object, class) end
  local function sealed(value)
    local object = shared(value)
    seal(object)
    return object
  end
  local function constructor(value) return frozen.show(sealed(value)) end
  owns[constructor] = variant and function(value) return variant(sealed(value), keep) end or sealed
  return constructor
end

return catalogue
