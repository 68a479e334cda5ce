--- The sharing form of a constructor of checked objects: see tperf.base.catalogue.
local core = require "tperf.core"
local roots = require "tperf.base.roots"

local stamp, unchanged = core.resource.stamp, core.resource.unchanged

---@param construct fun(value: any): table, string  the checked object, and the path of its file
---@param objects table                 see tperf.base.object.checked
---@param seal fun(object: table)      called once for each object that this hands out
---@param hidden boolean?              see catalogue.shared
---@param part string?                 see catalogue.shared
---@return fun(value: any): table
return function(construct, objects, seal, hidden, part)
  local made, meant = objects.made, objects.meant
  local known, sealed = {}, setmetatable({}, { __mode = "k" })
  local function sealing(object)
    if not sealed[object] then seal(object) end
    sealed[object] = true
    return object
  end
  return function(value)
    if type(value) ~= "string" then
      local object = part and meant[value]
      if object and unchanged(made[value], value, part) then return sealing(object) end
      return sealing((construct(value)))
    end
    local one = known[value]
    if one then
      local moment, size, number = stamp(one.path)
      local still = moment == one.moment and size == one.size and number == one.number
      if still and (hidden or unchanged(made[one.object], one.object)) then
        roots.use(one.path)
        return one.object
      end
    end
    one = {}
    one.object, one.path = construct(value)
    one.moment, one.size, one.number = stamp(one.path)
    known[value] = one
    return sealing(one.object)
  end
end
