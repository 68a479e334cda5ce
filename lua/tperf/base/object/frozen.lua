--- Objects that nobody changes. The library works with plain tables, which scripts never get: a script has a view of
--- one, which reads as it does and refuses to be written. So whatever is remembered of an object stays true, and asking
--- whether it does costs nothing.
local frozen = {}

local weak = { __mode = "k" }
local inside = setmetatable({}, weak)  -- view -> the table that it shows
local views = setmetatable({}, weak)   -- table -> its view
local classes = setmetatable({}, weak) -- object -> the metatable of its view

local refusals = setmetatable({}, weak) -- metatable of views -> what refuses changes of them
local getmetatable = debug.getmetatable -- ignores __metatable

local show

-- The metatable of views of one class, without what only whole objects have.
local function metatable_of(refuse)
  local class = {
    __newindex = function(view, name) refuse(inside[view], name) end,
    __len = function(view) return #inside[view] end,
    __plain = function(view) return inside[view] end, -- for the core
    __metatable = false,
  }
  function class.__index(view, name)
    local value = inside[view][name]
    return type(value) == "table" and show(value, class.part or class) or value
  end
  refusals[class] = refuse
  function class.__pairs(view)
    local function following(_, name)
      local key = next(inside[view], name)
      if key ~= nil then return key, view[key] end
    end
    return following, view, nil
  end
  return class
end

--- A class of objects.
---@param refuse fun(object: table, name: any)  raises: somebody wants to set this field, or that of a table within
---@param methods table<string, function>?  which scripts call on views, and the library on objects
---@param name string?  of the class
---@return table class  the metatable of views; more events may be set
function frozen.class(refuse, methods, name)
  local class, own = metatable_of(refuse), {}
  local read = class.__index
  class.part, class.__name = metatable_of(refuse), name
  function class.__index(view, field)
    local method = methods and methods[field]
    if not method then return read(view, field) end
    own[method] = own[method] or function(self, ...) return method(frozen.plain(self), ...) end
    return own[method]
  end
  return class
end

--- Notes that an object is of a class, and that nothing changes it from now on.
---@param object table
---@param class table
---@return table object
function frozen.keep(object, class)
  classes[object] = class
  return object
end

--- Whether an object is of a class; any class if none is given.
function frozen.is(object, class)
  local own = classes[object]
  return own ~= nil and (class == nil or own == class)
end

-- Tables that hold a class of their own are of that one, wherever they lie.
function show(value, part)
  local class = classes[value] or part
  if not class or inside[value] then return value end
  local view = views[value]
  if not view then
    view = setmetatable({}, class)
    views[value], inside[view] = view, value
  end
  return view
end

--- What scripts get of a value: of an object, its view; any other value as it is.
---@param value any
---@param owner table?  the object that the value is a part of
---@return any
function frozen.show(value, owner)
  if type(value) ~= "table" then return value end
  local class = classes[owner]
  return show(value, class and class.part)
end

--- What a script's value stands for: of a view, what it shows; any other value as it is.
---@param value any
---@return any
function frozen.plain(value)
  local own = inside[value]
  if own == nil then return value end
  local name = next(value)
  if name ~= nil then refusals[getmetatable(value)](own, name) end -- set by rawset
  return own
end

return frozen
