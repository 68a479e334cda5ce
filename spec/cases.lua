-- What a spec tries: by default a fixed sample, which has every kind of case; with TPERF_THOROUGH=1 all
-- (CONTRIBUTING.md). Often a number of cases.
---@generic T
---@param sample T
---@param all T
---@return T
return function(sample, all)
  if os.getenv "TPERF_THOROUGH" == "1" then return all end
  return sample
end
