-- A search over all axes at once returns the same with and without bounds.
local tperf = require "tperf"

local function search(prune)
  return tperf.search {
    model = "mixtral-8x7b", system = "gb200-nvl72", gpus = 72, global_batch = 72, micro_batch = { 1, 2 },
    strategy = "context", cp_kind = { "all_gather", "ring", "all_to_all" }, ulysses = { 1, 2 }, zero = { 0, 1, 2, 3 },
    schedule = "any", top = 50, prune = prune, threads = 1,
  }
end

describe("a search over all axes", function()
  it("finds the same with and without bounds", function()
    local pruned, all = search(true), search(false)
    assert.equal(all.candidates, pruned.candidates)
    assert.equal(all.feasible, pruned.feasible)
    assert.truthy(all.evaluated > 1e4)
    assert.equal(50, #pruned)
    for i, c in ipairs(all) do assert.same(c, pruned[i]) end
  end)
end)
