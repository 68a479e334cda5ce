-- Completions at the prompt.
local program = require "program"
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

describe("the prompt at a terminal", function()
  -- The screen after these keys are typed; nil without a terminal or libedit.
  local function shown(keys, libraries)
    local there = program.shell "script -qec 'test -t 2' /dev/null && ldconfig -p | grep -q 'libedit[.]so[.]2'"
    if there.code ~= 0 then return nil end
    local folder = program.folder()
    program.write(folder .. "/keys", keys)
    -- Without libedit the terminal echoes, which falls before or after the first prompt.
    local line = ("%s; TERM=dumb LD_LIBRARY_PATH=$PWD/lib script -qec '%s %s repl' /dev/null < keys"):format(
      libraries or ":", libraries and "stty -echo;" or "", program.absolute())
    local result = program.shell(line, folder)
    program.remove(folder)
    assert.equal(0, result.code)
    return (result.out:match "> .*":gsub("\r", ""))
  end

  it("completes, recalls and edits lines", function()
    local text = shown "tperf.units.par\t(\"1 KB\", \"bytes\")\n1+1\n\27[A\n\nnosuch.x\t\n2+\b+5\nos.exit(0)\n"
    if not text then pending "there is no terminal or no libedit here" end
    assert.truthy(text:find "\n1000%.?0?\n", text) -- of tperf.units.parse
    local _, twos = text:gsub("\n2\n", "\n\n2\n")
    assert.equal(2, twos, text) -- 1+1, and the same again
    assert.truthy(text:find("undeclared global 'nosuch'", 1, true), text)
    assert.truthy(text:find("\n7\n", 1, true), text)
  end)

  it("reads plain lines where libedit cannot be loaded, or is another library", function()
    for _, library in ipairs { "mkdir lib && echo no > lib/libedit.so.2",
      "mkdir lib && ln -s $(ldconfig -p | sed -n 's/.*libm[.]so[.]6 .*=> //p' | head -n 1) lib/libedit.so.2" } do
      local text = shown("1+1\n2+3\nos.exit(0)\n", library)
      if not text then pending "there is no terminal or no libedit here" end
      assert.truthy(text:find("> 2\n> 5\n> ", 1, true), text)
    end
  end)
end)

describe("the prompt", function()
  it("goes on after a value that cannot be shown", function()
    local values = { 'setmetatable({}, { __tostring = function() error "mine" end })',
      'setmetatable({ 1 }, { __len = function() return "a" end })',
      'setmetatable({ a = 1 }, { __pairs = function() error "mine" end })',
      'error(setmetatable({}, { __tostring = function() error "mine" end }))' }
    for _, value in ipairs(values) do
      local result = program.shell(("printf '%%s\\n' %s '20 + 3' | %s repl"):format(program.quote(value),
        program.quote(program.path)))
      assert.equal(0, result.code, value)
      assert.truthy(result.out:find("23\n$"), value)
      assert.truthy(result.err:find "^tperf: a[n ]" and not result.err:find("lua/tperf", 1, true), result.err)
    end
  end)

  it("has help and exit, and prints configurations as tables", function()
    local lines = { "help", "help bubble", 'tperf.train { model = "gpt2", system = "h100-sxm", global_batch = 8 }',
      "help = 3", "help", "exit", "print 'never'" }
    local result = program.shell(("printf '%%s\\n' %s | %s repl"):format(
      table.concat((function()
        local quoted = {}
        for i, line in ipairs(lines) do quoted[i] = program.quote(line) end
        return quoted
      end)(), " "), program.quote(program.path)))
    assert.equal("", result.err)
    assert.truthy(result.out:find "^Type an expression")
    assert.truthy(result.out:find "\nbubble\n  Time in which")
    assert.truthy(result.out:find "\ntp  pp  dp  mbs.*\nfields: breakdown, ")
    assert.truthy(result.out:find "\n3\n$")
  end)
end)
