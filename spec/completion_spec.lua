-- `tperf completion`: the bash script in a real bash; those for fish and zsh where these shells are installed.
local cases = require "cases"
local program = require "program"

local scripts = {}
local function script(shell)
  scripts[shell] = scripts[shell] or program.shell("tperf completion " .. shell).out
  return scripts[shell]
end

local function installed(shell) return program.shell("command -v " .. shell).code == 0 end

-- Runs bash after it has loaded the script, in a folder with a few files.
local function bash(text)
  local folder = program.folder()
  finally(function() program.remove(folder) end)
  program.write(folder .. "/completion.bash", script "bash")
  program.write(folder .. "/own model.json", "")
  program.write(folder .. "/rows.csv", "")
  program.write(folder .. "/try.bash", "source ./completion.bash\n" .. text)
  local result = program.shell("mkdir runs; bash --noprofile --norc try.bash", folder)
  assert.are.equal("", result.err)
  return result.out
end

-- The candidates for the last word, one per line, from bash's own completion variables.
local function completed(...)
  local words = {}
  for i, word in ipairs { ... } do words[i] = program.quote(word) end
  local out = bash(([[
    COMP_WORDS=(%s) COMP_CWORD=%d
    _tperf
    for word in "${COMPREPLY[@]}"; do echo "$word"; done]]):format(table.concat(words, " "), #words - 1))
  local list = {}
  for line in out:gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

local function lines(command)
  local list = {}
  for line in program.ask(command).out:gmatch "[^\n]+" do list[#list + 1] = line:match "^%S+" end
  return list
end

describe("tperf completion bash", function()
  it("completes commands", function()
    assert.are.same({ "schedule", "schema", "search", "serve", "show", "sweep" }, completed("tperf", "s"))
    assert.are.same({ "train" }, completed("tperf", "help", "tr"))
    assert.are.same({}, completed("tperf", "nosuch", "x"))
  end)

  it("completes every option of every command, and no other", function()
    local commands = completed("tperf", "")
    assert.is_true(#commands > 15)
    for i = 1, #commands, cases(3, 1) do
      local command, expected = commands[i], {}
      for line in program.ask(("tperf help %s all"):format(command)).out:gmatch "\n  [^\n]*" do
        expected[#expected + 1] = line:match "^\n  %-?%w?,?%s*(%-%-[%w_-]+)"
      end
      assert.is_true(#expected >= 2, command)
      assert.are.same(expected, completed("tperf", command, "--"), command)
    end
  end)

  it("completes the names that `tperf list` prints", function()
    assert.are.same(lines "tperf list models", completed("tperf", "search", ""))
    local systems = lines "tperf list systems --csv | tail -n +2 | tr , ' '"
    assert.are.same(systems, completed("tperf", "search", "gpt3-175b", "--system", ""))
    assert.are.same(systems, completed("tperf", "infer", "-s", ""))
    local software = lines "tperf list software --csv | tail -n +2 | tr , ' '"
    table.sort(software)
    software[#software + 1] = "none"
    assert.are.same(software, completed("tperf", "train", "--software", ""))
    assert.are.same(lines "tperf list strategies", completed("tperf", "memory", "--strategy", ""))
    assert.are.same(lines "tperf list schedules", completed("tperf", "schedule", "1f1b", "gpipe", ""))
    assert.are.same({ "default", "subramanian2024" }, completed("tperf", "train", "--rules", ""))
  end)

  it("completes the names in TPERF_PATH", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    program.shell("mkdir systems; touch systems/of-my-own.yaml", folder)
    local out = program.shell("TPERF_PATH=. tperf completion bash", folder).out
    assert.is_truthy(out:find("of-my-own", 1, true))
  end)

  it("leaves out names that a shell would expand", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    program.shell([[mkdir systems; touch "systems/x'; touch ran; '.yaml" 'systems/$(touch ran).yaml']], folder)
    assert.is_truthy(program.shell("TPERF_PATH=. tperf list systems", folder).out:find("touch ran", 1, true))
    for _, shell in ipairs { "bash", "fish", "zsh" } do
      local out = program.shell("TPERF_PATH=. tperf completion " .. shell, folder).out
      assert.is_nil(out:find("ran", 1, true) and out:find("touch", 1, true), shell)
      assert.is_truthy(out:find("h100-sxm", 1, true), shell)
    end
  end)

  it("tells an option's value from an argument", function()
    assert.are.same({ "h100-nvl", "h100-pcie", "h100-sxm" }, completed("tperf", "search", "-s", "h100"))
    assert.are.same({ "--system=h100-nvl", "--system=h100-pcie", "--system=h100-sxm" },
      completed("tperf", "search", "--system=h100"))
    assert.are.same({ "h100-nvl", "h100-pcie", "h100-sxm" }, completed("tperf", "search", "--system", "=", "h100"))
    assert.are.same({ "gpt3-175b" }, completed("tperf", "search", "--system", "h100-sxm", "-g", "64", "gpt3-1"))
    assert.are.same({ "gpt3-175b" }, completed("tperf", "search", "--system", "=", "h100-sxm", "--all", "gpt3-1"))
    assert.are.same({}, completed("tperf", "search", "gpt3-175b", "h100"))
    assert.are.same({}, completed("tperf", "search", "--batch", ""))
    assert.are.same({ "tensor,summa" }, completed("tperf", "search", "--strategy", "tensor,su"))
    assert.are.same({ "none,full" }, completed("tperf", "search", "--recompute", "none,f"))
  end)

  it("completes files where files are expected", function()
    assert.are.same({ "own model.json" }, completed("tperf", "search", "own"))
    assert.are.same({ "rows.csv" }, completed("tperf", "validate", "ro"))
    assert.are.same({ "runs" }, completed("tperf", "verify", "r"))
    assert.are.same({ "rows.csv" }, completed("tperf", "calibrate", "h100-sxm", "rows.csv", "row"))
    assert.are.same({}, completed("tperf", "collective", "rows"))
  end)

  it("completes what compat takes", function()
    assert.are.same({ "train" }, completed("tperf", "compat", "llm-analysis", "tr"))
    assert.are.same({ "d841e40", "0571436" }, completed("tperf", "compat", "llm-analysis", "train", "--revision", ""))
    assert.are.same({ "true", "false" }, completed("tperf", "compat", "llm-analysis", "train", "--flash_attn", ""))
    assert.are.same({ "w8a8e16", "w8a8e32" }, completed("tperf", "compat", "llm-analysis", "infer", "--dtype", "w8a8"))
  end)

  it("works when Tab is pressed", function()
    if not installed "script" then return pending "needs script(1), which gives bash a terminal" end
    local typed = "tperf sea\\tgpt3\\t--syst\\th800\\t--strategy tensor,su\\t\\nexit\\n"
    local out = bash(([[
      { cat completion.bash; echo 'tperf() { echo "<$*>"; }'; } > rc
      printf '%s' | TERM=dumb script -qec 'bash --noprofile --rcfile rc -i' /dev/null 2>&1 |
        tr -d '\r']]):format(typed))
    assert.is_truthy(out:find("\n<search gpt3-175b --system h800-sxm --strategy tensor,summa>\n", 1, true), out)
  end)
end)

describe("tperf completion", function()
  it("prints a script that fish loads", function()
    if not installed "fish" then return pending "needs fish" end
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    program.write(folder .. "/c.fish", script "fish")
    local function offers(line)
      local command = ("HOME=. fish --no-config -c 'source c.fish; complete -C \"%s\"'"):format(line)
      local result = program.shell(command, folder)
      assert.are.equal("", result.err)
      local list = {}
      for name in result.out:gmatch "([^\t\n]+)[^\n]*\n" do list[#list + 1] = name end
      return list
    end
    assert.are.same({ "search" }, offers "tperf sea")
    assert.are.same({ "--system" }, offers "tperf search x --sys")
    assert.are.same({ "h100-nvl", "h100-pcie", "h100-sxm" }, offers "tperf search x --system h100")
    assert.are.same({ "tensor,summa" }, offers "tperf search --strategy tensor,su")
    assert.are.same({ "c.fish" }, offers "tperf validate c.")
  end)

  it("prints a script that zsh loads", function()
    if not installed "zsh" then return pending "needs zsh" end
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    program.write(folder .. "/_tperf", script "zsh")
    local result = program.shell([[zsh -f -c 'autoload -Uz compinit; compinit -u -D; source ./_tperf
      print $_comps[tperf]; whence -w _tperf']], folder)
    assert.are.same({ "", "_tperf\n_tperf: function\n" }, { result.err, result.out })
  end)

  it("passes every option with its help to fish and zsh", function()
    for _, shell in ipairs { "fish", "zsh" } do
      assert.is_truthy(script(shell):find("find the best configurations to train a model on a cluster", 1, true))
      assert.is_truthy(script(shell):find("global batch, in sequences", 1, true))
    end
  end)

  it("refuses another shell", function()
    local result = program.shell "tperf completion zhs"
    assert.are.same({ 2, "" }, { result.code, result.out })
    assert.is_truthy(result.err:find("unknown shell 'zhs' (did you mean 'zsh'?)", 1, true), result.err)
  end)
end)
