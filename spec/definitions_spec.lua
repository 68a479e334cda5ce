-- What a script defines or draws is refused where it could not mean what it says.
local tperf = require "tperf"

local function refuses(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok, "not refused: " .. text)
  assert.truthy(message:find(text, 1, true), message)
  assert.truthy(message:find("definitions_spec.lua:", 1, true), message)
end

local defined = 0

-- Strategy `tensor` with one more axis or other options.
local function define(axis, options)
  defined = defined + 1
  local given = { name = "definitions" .. defined, extends = "tensor", options = options }
  if axis then
    given.axes = {}
    for i, own in ipairs(tperf.strategy.of "tensor".axes) do
      given.axes[i] = { name = own.name, meaning = own.meaning, admits = own.admits, cuts = own.cuts, folds = own.folds,
        default = own.default, tries = own.tries }
    end
    axis.admits = function() return true end
    table.insert(given.axes, 2, axis)
  end
  local s = tperf.strategy.define(given)
  return s
end

describe("tperf.strategy.define", function()
  it("refuses axes and options that are called like an argument", function()
    for _, name in ipairs { "top", "seq", "gpus", "simulate", "zero", "where" } do
      refuses(("an axis cannot be called '%s', which is an argument"):format(name), define,
        { name = name, cuts = { "tokens" } })
    end
    refuses("an option cannot be called 'seq', which is an argument", define, nil,
      { seq = { axis = "tp", choices = { "a" } } })
    assert.truthy(define { name = "sheets", cuts = { "tokens" } })
  end)

  it("refuses an axis that claims to cut weights and does not", function()
    refuses("axis 'leaves' claims to cut weights", define, { name = "leaves" })
    refuses("axis 'leaves' claims to cut weights", define, { name = "leaves", cuts = { "weights" } })
    assert.truthy(define { name = "leaves", cuts = { "batch" } })
  end)
end)
