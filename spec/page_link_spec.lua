-- Links into the page, which may be anybody's: what is read of them, by its own functions in Node.
local program = require "program"
local core = require "tperf.core"

local node = program.shell("command -v node").code == 0
local check = node and it or pending

-- The result of JavaScript, which has the functions of these files of src/page.
local function eval(files, code)
  local folder = program.folder()
  local text = {}
  for i, name in ipairs(files) do text[i] = program.slurp("src/page/" .. name):gsub('"use strict";', "") end
  program.write(folder .. "/x.mjs", table.concat(text) .. "\nconst filesOf = view => view === 'plan' ? ['config.json', "
    .. "'system.yaml'] : view === 'script' ? ['script.lua'] : [];\n"
    .. "const put = value => process.stdout.write(JSON.stringify(value));\n" .. code)
  local result = program.shell("timeout 60 node x.mjs", folder)
  program.remove(folder)
  assert.same({ "", 0 }, { result.err, result.code })
  return assert(core.yaml(result.out, "result"))
end

describe("a link", function()
  check("brings the options and texts of its view's form", function()
    local state = eval({ "state.js", "unpack.js" }, [[
      const values = { model: "config.json", gpus: "8", fast: "tp=8" };
      put(await readState(await writeState("plan", values, { "config.json": "{ é }" }), filesOf, unpack));]])
    assert.same({ view = "plan", values = { model = "config.json", gpus = "8", fast = "tp=8" },
      texts = { ["config.json"] = "{ é }" }, problems = {} }, state)
  end)

  check("writes no file that the form does not know", function()
    for _, name in ipairs { "../../share/tperf/systems/h100-sxm.yaml", "systems/h100-sxm.yaml", "script.lua",
      "/share/tperf/systems/h100-sxm.yaml", "__proto__", "config.json/../x", "", "Config.json", "config.json " } do
      local state = eval({ "state.js" },
        ("put(parseState('#plan?gpus=8&file.' + encodeURIComponent(%q) + '=AwA', filesOf));"):format(name))
      assert.same({}, state.codes, name)
      assert.same({ gpus = "8" }, state.values)
      assert.truthy(state.problems[1]:find("a text that no field takes", 1, true))
    end
  end)

  check("has no options whose names cannot be any", function()
    local state = eval({ "state.js" },
      "put(parseState('#plan?__proto__=1&A=2&a%20b=3&%2Fx=4&constructor=5', filesOf));")
    assert.same({ constructor = "5" }, state.values)
    assert.equal(4, #state.problems)
  end)

  check("is read in little time, whatever is in it", function()
    local seen = eval({ "state.js" }, [[
      const many = "#plan?" + Array.from({ length: 20000 }, (_, i) => `a${i}=1`).join("&");
      const files = "#plan?" + Array.from({ length: 20000 }, (_, i) => `file.a${i}=AwA`).join("&");
      const start = performance.now(), list = [many, files, "#plan?a=" + "x".repeat(1 << 20),
        "#plan?gpus=8&b=" + "x".repeat(3 << 20)].map(hash => parseState(hash, filesOf));
      put({ ms: performance.now() - start, kept: list.map(s => Object.keys(s.values).length),
        told: list.map(s => s.problems.length) });]])
    assert.same({ 100, 0, 0, 0 }, seen.kept)
    assert.same({ 1, 101, 1, 1 }, seen.told)
    assert.is_true(seen.ms < 2000)
  end)

  check("inflates to no more than its limit", function()
    local seen = eval({ "state.js", "unpack.js" }, [[
      const bomb = await encode("0".repeat(200 << 20)), fits = await encode("0".repeat(4 << 20));
      const start = performance.now();
      const { texts, problems } = await unpack({ a: bomb, b: fits, c: bomb.slice(0, 99), d: "%%%", e: "" });
      put({ ms: performance.now() - start, code: bomb.length, names: Object.keys(texts), size: texts.b.length,
        problems });]])
    assert.is_true(seen.code < 400000)
    assert.same({ "b" }, seen.names)
    assert.equal(4 << 20, seen.size)
    assert.equal("The link's copy of a inflates to more than 4 MiB.", seen.problems[1])
    for i, name in ipairs { "c", "d", "e" } do
      assert.equal(("The link's copy of %s cannot be read: it is damaged."):format(name), seen.problems[i + 1])
    end
    assert.is_true(seen.ms < 3000)
  end)
end)

describe("the page's worker", function()
  check("writes texts only into its own folder", function()
    local text = program.slurp "src/page/worker.js"
    local seen = eval({}, "const HOME = '/home/tperf';\n" .. text:match "function place.-\n}\n" .. [[
      const at = name => { try { return place(name); } catch (problem) { return "refused"; } };
      put(["config.json", "script.lua", "moe.lua", "../x", "a/b", "", ".x", "..", "/x", "a\n"].map(at));]])
    assert.same({ "/home/tperf/config.json", "/home/tperf/script.lua", "/home/tperf/moe.lua", "refused", "refused",
      "refused", "refused", "refused", "refused", "refused" }, seen)
  end)
end)
