-- What words at the prompt are completed to.
local words = require "tperf.cli.words"

describe("words at the prompt", function()
  local env = setmetatable({ tperf = { search = 1, serve = 2, system = 3 }, own = 4 },
    { __index = { print = print, pairs = pairs } })
  local complete = words(env, { "h100-sxm", "h200-sxm", "llama-3.1-70b", "own-machine" })

  for word, list in pairs {
    ["tperf.se"] = "tperf.search tperf.serve", ["tperf.s"] = "tperf.search tperf.serve tperf.system",
    ["tperf."] = "tperf.search tperf.serve tperf.system", pr = "print", p = "pairs print", th = "then",
    h = "h100-sxm h200-sxm", ["h1"] = "h100-sxm", own = "own own-machine", ["nothing.here."] = "", ["own.x"] = "",
    ["llama-3.1"] = "llama-3.1-70b", ["a b"] = "", ["tperf..se"] = "tperf..search tperf..serve", ["%."] = "",
  } do
    it("complete " .. word, function() assert.equal(list, table.concat(complete(word), " ")) end)
  end

  it("survive an environment that raises", function()
    local hostile = setmetatable({}, { __index = function() error "no" end })
    assert.same({}, words(setmetatable({ t = hostile }, {}), {}) "t.a.b")
  end)
end)
