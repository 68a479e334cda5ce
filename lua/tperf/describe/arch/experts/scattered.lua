--- Marks an op that passes over rows in their experts' order. Fused experts leave one kernel for all of a GPU's, with
-- places that are known beforehand.
---@param fused boolean?  of the experts
return function(one, fused) return fused and one or one:scatter() end
