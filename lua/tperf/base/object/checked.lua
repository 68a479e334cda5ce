--- Objects that a constructor has checked, and what scripts have of them.
local resource = require "tperf.core".resource
local unread = require "tperf.base.object.unread"

local snapshot, unchanged = resource.snapshot, resource.unchanged

local checked = {}
checked.__index = checked

--- The objects of one constructor.
---@param private boolean?  scripts get copies of them
---@return table objects  { made = object -> its content when checked: unchanged, it needs no check; meant = a script's
---  own object -> the checked one of which it has a copy; shown = checked object -> what scripts get of it }
function checked.new(private)
  local function weak() return setmetatable({}, { __mode = "k" }) end
  return setmetatable({ private = private, made = weak(), meant = weak(), shown = weak() }, checked)
end

--- Notes an object as it is now.
function checked:keep(object) self.made[object] = snapshot(object) end

--- Gives a script's object its fields, if nobody has read it before. Returns it.
function checked:reveal(object)
  local own = unread.open(object)
  if own then
    self:keep(object)
    self.meant[object] = own
  end
  return object
end

--- The checked object that a value is or stands for; nil: it is none, or somebody has changed it.
---@param value any
---@return table? object
function checked:of(value)
  local object = unread.object(value)
  if object then return object end
  local known, meant = self.made[value], self.meant[value]
  if known and self.private and not meant then return value end -- the library's own, which no script has
  return known and unchanged(known, value) and (meant or value) or nil
end

--- What a script may get of an object: the same as before, unless somebody has changed that.
---@param object table  a checked one
---@return table
function checked:show(object)
  if not self.private then return object end
  local known = self.shown[object]
  if not known or self:of(known) ~= object then
    known = unread.new(object)
    self.shown[object] = known
  end
  return known
end

return checked
