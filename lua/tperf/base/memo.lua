--- Memories of what functions worked out.
local memo = {}

--- Values that are worked out once for each text, and forgotten when there are more than `most`.
---@param most integer
---@return fun(key: string, make: fun(): any): any value  what make returned when the key was new; never nil
function memo.by_text(most)
  local values, count = {}, 0
  return function(key, make)
    local value = values[key]
    if value == nil then
      value = make()
      if count >= most then values, count = {}, 0 end
      values[key], count = value, count + 1
    end
    return value
  end
end

return memo
