-- One question in, one answer out: the same JSON text through Lua, the program, C, Python, Node and the Model Context
-- Protocol, and the same figures from the commands. tools/doors/questions.lua has the questions.
package.path = "./tools/?.lua;" .. package.path
local cases = require "cases"
local core = require "tperf.core"
local program = require "program"
local tperf = require "tperf"

local ask = require "tperf.door.ask"
local json = require "tperf.output.json"

local TEXTS <const> = require "doors.questions".list(cases(12, 300))
local BUILD <const> = program.shell("readlink -f " .. program.quote(program.absolute())).out:match "^(.*)/"
local LIBRARY <const> = BUILD .. "/libtperf.so"

local function read(text) return assert(core.yaml(text, "question")) end

-- What Lua answers, each as text.
local function wanted(texts)
  local list = {}
  for i, text in ipairs(texts) do list[i] = ask.line(tperf.ask(read(text))) end
  return list
end

local EXPECTED <const> = wanted(TEXTS)

-- The lines that a command prints for the texts on its standard input.
local function through(command, texts, files)
  local folder = program.folder()
  finally(function() program.remove(folder) end)
  for name, text in pairs(files or {}) do program.write(folder .. "/" .. name, text) end
  program.write(folder .. "/in", table.concat(texts, "\n") .. "\n")
  local result = program.shell(("TREE=%s LIBRARY=%s PROGRAM=%s; cd %s && { %s; } < in"):format(
    program.quote(program.shell("pwd").out:gsub("\n", "")), program.quote(LIBRARY),
    program.quote(program.absolute()), program.quote(folder), command))
  local lines = {}
  for line in result.out:gmatch "[^\n]+" do lines[#lines + 1] = line end
  assert.equal(#texts, #lines, result.err)
  return lines
end

local function same(command, files)
  for i, line in ipairs(through(command, TEXTS, files)) do assert.equal(EXPECTED[i], line, TEXTS[i]) end
end

local function with_tool(tool) return program.shell("command -v " .. tool).code == 0 and it or pending end

describe("the same question", function()
  setup(function()
    local variant = BUILD:match "/build/([^/]+)$"
    local made = program.shell(("make VARIANT=%s build/%s/libtperf.so"):format(variant, variant))
    assert.equal(0, made.code, made.err)
  end)

  it("has the same answer from the program, one by one and on all processors", function()
    same [["$PROGRAM" ask]]
    same [[while read -r line; do printf '%s\n' "$line"; sleep 0.001; done | "$PROGRAM" ask]]
  end)

  it("has the same answer from C", function()
    same([[cc -I "$TREE/include" lines.c "$LIBRARY" -Wl,-rpath,"${LIBRARY%/*}" -o lines && ./lines "$TREE"]], {
      ["lines.c"] = [[
#include <stdio.h>
#include <tperf/ask.h>
int main(int n, char **argument) {
    static char question[1 << 16];
    tperf_handle *tperf = tperf_open(argument[n - 1], NULL);
    while (tperf && fgets(question, sizeof question, stdin)) {
        char *line;
        if (tperf_ask(tperf, question, &line) != TPERF_OK) return 1;
        puts(line);
        tperf_free(line);
    }
    tperf_close(tperf);
    return 0;
}
]] })
  end)

  with_tool "python3" ("has the same answer from Python", function()
    same([[PYTHONPATH="$TREE/python" TPERF_LIBRARY="$LIBRARY" PYTHONDONTWRITEBYTECODE=1 python3 lines.py]], {
      ["lines.py"] = "import sys, tperf\nfor line in sys.stdin:\n    print(tperf.ask_text(line))\n" })
  end)

  -- `make check-npm` builds the package, with Emscripten, and names its folder.
  local with_package = os.getenv "TPERF_NPM" and it or pending
  with_package("has the same answer from Node", function()
    same([[node lines.mjs]], { ["lines.mjs"] = [[
const { askText } = await import(process.env.TPERF_NPM + "/index.mjs");
import { readFileSync } from "node:fs";
for (const line of readFileSync(0, "utf8").trimEnd().split("\n")) console.log(await askText(line));
]] })
  end)

  with_package("is asked from JavaScript as docs/ask.md shows", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    program.write(folder .. "/ask.mjs", program.slurp "docs/ask.md":match "```js\n(.-)```")
    local result = program.shell('mkdir node_modules && ln -s "$TPERF_NPM" node_modules/tperf && node ask.mjs', folder)
    local lines = {}
    for i, c in ipairs(tperf.search { model = "llama-3.1-8b", system = "h100-sxm", gpus = 64, global_batch = 128,
      top = 3 }) do
      lines[i] = ("%.3f s with tp %d, pp %d\n"):format(c.time, c.tp, c.pp)
    end
    assert.equal(table.concat(lines), result.out, result.err)
  end)

  it("has the same answer from an agent's tool", function()
    local calls, texts = {}, {}
    for _, text in ipairs(TEXTS) do
      local question = read(text)
      if require "tperf.question.rows"[question.ask] and question.with then
        local arguments = {}
        for name, value in pairs(question.with) do arguments[name] = value end
        arguments.fields, question.id = question.fields, nil
        texts[#texts + 1] = json.encode(question, { indent = 0 })
        calls[#calls + 1] = json.encode({ jsonrpc = "2.0", id = #texts, method = "tools/call",
          params = { name = question.ask, arguments = arguments } }, { indent = 0 })
      end
    end
    assert.truthy(#texts > #TEXTS // 2)
    local expected = wanted(texts)
    for i, line in ipairs(through([["$PROGRAM" mcp]], calls)) do
      assert.equal(expected[i], read(line).result.content[1].text, texts[i])
    end
  end)

  it("has the same figures from the command line", function()
    local lines <const> = {
      { "train gpt2 -s h100-sxm -g 8 -b 64 --tp 2", "train", { model = "gpt2", gpus = 8, global_batch = 64, tp = 2 } },
      { "search gpt2 -s h100-sxm -g 8 -b 64 --top 2", "search",
        { model = "gpt2", gpus = 8, global_batch = 64, top = 2 } },
      { "infer gpt2 -s h100-sxm -p 100 -n 10", "infer", { model = "gpt2", prompt = 100, generate = 10 } },
      { "serve gpt2 -s h100-sxm --rate 1 --count 100 --prompt 100 --output 10", "serve",
        { model = "gpt2", prompt = 100, output = 10, count = 100, load = { rate = 1 } } },
      { "rl llama-3.1-8b -s h100-sxm -g 16 --prompts 64 --samples 4 --prompt 500 --response 500", "rl",
        { model = "llama-3.1-8b", gpus = 16, prompts = 64, samples = 4, prompt = 500, response = 500 } },
      { "collective all_reduce -s h100-sxm -n 1e6 -g 8", "collective", { kind = "all_reduce", bytes = 1e6, gpus = 8 } },
    }
    for _, case in ipairs(lines) do
      local printed = read(program.shell(("tperf %s --json"):format(case[1])).out)
      printed = printed[1] and printed or { printed }
      case[3].system = "h100-sxm"
      local answer = tperf.ask { ask = case[2], with = case[3] }
      local rows = answer.rows or { answer }
      assert.equal(#rows, #printed)
      local ours <const> = { ask = true, sha256 = true, understood = true, schema = true }
      for i, row in ipairs(rows) do
        for name, value in pairs(row) do
          local text = json.encode(value, { indent = 0, nonfinite = "null" })
          if not ours[name] and not (name == "warnings" and text == "[]") then
            local other = json.encode(printed[i][name], { indent = 0, nonfinite = "null" })
            assert.equal(text, other, case[1] .. ": " .. name)
          end
        end
      end
    end
  end)
end)
