-- How many random cases a spec tries: a fixed sample that has every kind of case, or all with TPERF_THOROUGH=1
-- (CONTRIBUTING.md).
---@param sample integer
---@param all integer
---@return integer
return function(sample, all)
  return os.getenv "TPERF_THOROUGH" == "1" and all or sample
end
