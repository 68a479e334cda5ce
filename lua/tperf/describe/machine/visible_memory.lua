--- The memory of a system's GPU that a program can use, by which training and serving alike judge what fits: what the
--- device shows (`visible`), or the vendor's capacity where the system does not say. src/bind/describe/bind_system.c
--- gives the core the same.
---@param system table
---@return number bytes
return function(system)
  local hbm = system.accelerator.hbm
  return hbm.visible or hbm.capacity
end
