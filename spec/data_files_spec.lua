-- Which data files an answer uses: never those of the current folder by name, and each that tperf does not ship is
-- named.
local program = require "program"
local core = require "tperf.core"

local ROOT <const> = require "lfs".currentdir()
local ASK <const> = "train gpt2 -b 64 --software none --json -s "

-- A folder with data of its own, among them another machine under the name of one that tperf ships.
local function with_data(test)
  local folder = program.folder()
  finally(function() program.remove(folder) end)
  program.shell("mkdir systems software models llama other other/systems", folder)
  local slower = program.slurp "systems/h100-sxm.yaml":gsub("capacity: [^\n]*", "capacity: 33 GB")
    :gsub("\n    visible: [^\n]*", "")
  for _, path in ipairs { "systems/h100-sxm.yaml", "systems/zz.yaml", "other/systems/zz.yaml", "mine.yaml" } do
    program.write(folder .. "/" .. path, slower)
  end
  program.write(folder .. "/software/vllm-99.1.yaml", program.slurp "software/vllm-0.11.yaml")
  program.write(folder .. "/models/mine.yaml", program.slurp "models/gpt2.yaml")
  program.write(folder .. "/llama/config.json", program.slurp "spec/data/hf/qwen2.5-7b.json")
  return test(function(command) return program.shell(command, folder) end, folder)
end

local function rows(result)
  assert.equal(0, result.code, result.err)
  return assert(core.yaml(result.out, "rows"))
end

local function contains(text, part) assert.truthy(text:find(part, 1, true), text) end

local function told(...)
  local lines = {}
  for i, path in ipairs { ... } do lines[i] = ('tperf: uses "%s", which tperf does not ship\n'):format(path) end
  return table.concat(lines)
end

local function sorted(list)
  table.sort(list)
  return list
end

describe("a name", function()
  it("of a shipped file means that, whatever the current folder has", function()
    with_data(function(shell)
      local result = shell("tperf show h100-sxm")
      assert.equal(ROOT .. "/systems/h100-sxm.yaml:\n", result.err)
      assert.equal(program.slurp "systems/h100-sxm.yaml", result.out)
      result = shell("tperf " .. ASK .. "h100-sxm")
      assert.is_nil(rows(result)[1].data_files)
      assert.equal("", result.err)
    end)
  end)

  it("of no shipped file is not looked for in the current folder", function()
    with_data(function(shell)
      for command, message in pairs {
        ["train gpt2 -b 64 -s zz"] = 'unknown system "zz"', ["train mine -s h100-sxm -b 64"] = 'unknown model "mine"',
        ["serve llama-3.1-8b -s h100-sxm --rate 1 --software vllm-99.1"] = 'unknown software "vllm-99.1"',
        ["params llama"] = '"./llama" is the folder here', ["show zz"] = "unknown model, system or software 'zz'",
      } do
        local result = shell("tperf " .. command)
        assert.equal(1, result.code, command)
        contains(result.err, message)
      end
      assert.is_nil(shell "tperf list systems".out:find "\nzz ")
      assert.is_nil(shell "tperf completion bash".out:find "%f[%w]zz%f[%W]")
    end)
  end)

  it("is looked for in --data first, then in TPERF_PATH, and the answer says so", function()
    with_data(function(shell)
      for _, case in ipairs {
        { "", " --data .", "./systems/zz.yaml" }, { "TPERF_PATH=. ", "", "./systems/zz.yaml" },
        { "TPERF_PATH=other:. ", "", "other/systems/zz.yaml" },
        { "TPERF_PATH=. ", " --data other", "other/systems/zz.yaml" },
      } do
        local result = shell(case[1] .. "tperf " .. ASK .. "zz" .. case[2])
        assert.same({ { case[3] }, told(case[3]) }, { rows(result)[1].data_files, result.err })
      end
      contains(shell("tperf " .. ASK .. "h100-sxm --data nowhere").err, '--data: "nowhere" has none of the folders')
    end)
  end)

  it("means in a copy of the program what an installation has, not what lies beside it", function()
    with_data(function(shell, folder)
      program.shell("cp -L " .. program.quote(program.absolute()) .. " copy", folder)
      local alone = shell("./copy " .. ASK .. "h100-sxm")
      assert.is_nil(alone.out:find "data_files") -- an installation below the prefix may answer
      if alone.code ~= 0 then contains(alone.err, "--data DIR or TPERF_PATH names a folder") end
      local asked = shell(("TPERF_PATH=%s ./copy %sh100-sxm --data ."):format(ROOT, ASK))
      assert.same({ "./systems/h100-sxm.yaml", ROOT .. "/models/gpt2.yaml" }, sorted(rows(asked)[1].data_files))
    end)
  end)

  it("means what share/tperf has, for a program in the bin beside it", function()
    with_data(function(shell, folder)
      program.shell(("mkdir bin share; cp -L %s bin/tperf; ln -s %s share/tperf"):format(
        program.quote(program.absolute()), ROOT), folder)
      local result = shell("bin/tperf " .. ASK .. "h100-sxm")
      assert.is_nil(rows(result)[1].data_files)
      assert.equal("", result.err)
    end)
  end)
end)

describe("a path", function()
  it("is that file, and the answer names it", function()
    with_data(function(shell)
      for _, path in ipairs { "./mine.yaml", "mine.yaml", "systems/zz.yaml", "./systems/h100-sxm.yaml" } do
        local result = shell("tperf " .. ASK .. path)
        assert.same({ { path }, told(path) }, { rows(result)[1].data_files, result.err })
      end
      local result = shell "tperf params ./llama --json"
      assert.same({ { "./llama/config.json" }, told "./llama/config.json" },
        { rows(result)[1].data_files, result.err })
    end)
  end)

  it("of a shipped file is named by no answer", function()
    for _, path in ipairs { "systems/h100-sxm.yaml", "./systems/h100-sxm.yaml", ROOT .. "/systems/h100-sxm.yaml" } do
      assert.equal("", program.shell("tperf " .. ASK .. path).err)
    end
  end)
end)

describe("an answer", function()
  it("names the files whatever is asked, also where scripts and several processes ask", function()
    with_data(function(shell, folder)
      program.write(folder .. "/s.lua", [[local tperf = require "tperf"
        local systems = tperf.vary { "./mine.yaml", "h100-sxm" }
        tperf.sweep { model = "gpt2", system = systems, gpus = 8, global_batch = 64 }]])
      for _, command in ipairs {
        "search gpt2 -g 8 -b 64 -s mine.yaml --json", "memory gpt2 -g 8 -b 64 -s mine.yaml --json",
        "infer gpt2 -p 100 -n 10 -s mine.yaml --json",
        "collective all_reduce -g 8 --bytes 1e9 -s mine.yaml --json",
        "serve gpt2 --rate 1 --count 20 --prompt 100 --output 10 -s mine.yaml --json", "run s.lua",
        "run --processes 2 s.lua", "validate " .. ROOT .. "/spec/data/measured/collectives.csv -s mine.yaml --json",
      } do
        local result = shell("tperf " .. command)
        assert.equal(0, result.code, command .. "\n" .. result.err)
        contains(result.err, 'which tperf does not ship')
        if command:find "json" then contains(result.out, '"data_files": ["mine.yaml"]') end
      end
    end)
  end)

  it("names no profile that it only looked through for one that fits better", function()
    with_data(function(shell)
      local result = shell "TPERF_PATH=. tperf train llama-3.1-8b -s a100-sxm-80gb -g 4096 -b 4096 --tp 8"
      contains(result.err, "the software profile whose runs are nearest")
      local named, count = result.err:gsub("does not ship", "")
      assert.equal(1, count, named) -- that of the links between nodes, whose curves both systems share
      contains(result.err, told "./systems/h100-sxm.yaml")
    end)
  end)

  it("is not noted in manifests as that of a shipped file", function()
    with_data(function(shell, folder)
      program.write(folder .. "/s.lua", 'print(require "tperf".system "zz")')
      assert.equal(0, shell("TPERF_PATH=. tperf run --out out s.lua").code)
      local manifest = assert(core.yaml(program.slurp(folder .. "/out/manifest.json"), "manifest"))
      assert.same({ "./systems/zz.yaml", false }, { manifest.inputs[1].file, manifest.inputs[1].shipped or false })
    end)
  end)
end)

describe("tperf page", function()
  it("leaves nothing that others can read, and after a minute nothing", function()
    with_data(function(shell, folder)
      program.shell(("mkdir -p bin share/tperf/page own; cp -L %s bin/tperf; touch share/tperf/page/tperf.html"):format(
        program.quote(program.absolute())), folder)
      program.write(folder .. "/bin/xdg-open", '#!/bin/sh\ncp "$1" opened; stat -c %a "$1" "${1%/*}" > modes\n')
      program.write(folder .. "/bin/sleep", '#!/bin/sh\necho $1 > slept\n')
      local result = shell [[chmod +x bin/*; echo 'print "secret"' > s.lua; export TMPDIR=$PWD/own BROWSER=
        export PATH="$PWD/bin:$PATH"; bin/tperf page run s.lua; code=$?
        for i in $(seq 500); do rmdir own 2> /dev/null && exit $code; command -p sleep 0.02; done; ls own/* >&2]]
      assert.same({ "", 0 }, { result.err, result.code })
      assert.same({ "600\n700\n", "60\n" }, { program.slurp(folder .. "/modes"), program.slurp(folder .. "/slept") })
      contains(program.slurp(folder .. "/opened"), result.out:match "#script?[^&\n]*")
    end)
  end)
end)

describe("what is no regular file", function()
  local KINDS <const> = {
    { "a pipe", "mkfifo %s" }, { "a link to a device", "ln -s /dev/zero %s" }, { "a link to nothing", "ln -s gone %s" },
    { "a link to a file of the kernel", "ln -s /proc/kmsg %s" }, { "a folder", "mkdir %s" },
    { "a link to itself", "ln -s $(basename %s) %s" }, { "a link to a pipe", "mkfifo pipe; ln -s $PWD/pipe %s" },
    { "a link to standard input", "ln -s /dev/stdin %s" },
  }
  local FILES <const> = { "models/aa.yaml", "systems/aa.yaml", "software/aa.yaml", "recipes/aa.yaml", "models/bb.json",
    "systems/h100-sxm.yaml", "models/gpt2.yaml", "recipes/harnesses.yaml" }
  local EXE <const> = program.quote(program.absolute())

  -- Commands with data of such a folder must end without reading what has no end, and say what they cannot use.
  local function check(shell, make)
    shell "mkdir -p odd/models odd/systems odd/software odd/recipes; rm -rf pipe"
    for _, file in ipairs(FILES) do
      shell(("rm -rf odd/%s; rm -f pipe; "):format(file) .. make:gsub("%%s", "odd/" .. file))
    end
    local function ask(command) return shell(("TPERF_PATH=odd timeout 20 %s %s < /dev/null"):format(EXE, command)) end
    for _, command in ipairs { "list models", "list systems", "list recipes", "list software", "completion bash",
      "train gpt2 -b 64 --software none -s h100-sxm", "show h100-sxm", "params gpt2",
      "search gpt2 -g 8 -b 8 -s h100-sxm", "train nosuch -s h100-sxm -b 8", "show nosuch" } do
      local result = ask(command)
      assert.equal(command:find "nosuch" and 1 or 0, result.code, command .. "\n" .. result.err)
      assert.is_nil(result.out:find "%f[%w]aa%f[%W]", command)
    end
    for _, command in ipairs { "train odd/models/aa.yaml -s h100-sxm -b 8", "show odd/systems/aa.yaml",
      "params odd/models/bb.json", "train gpt2 -b 8 -s ./odd/systems/h100-sxm.yaml", "train aa -b 8 -s h100-sxm" } do
      local result = ask(command)
      assert.equal(1, result.code, command .. "\n" .. result.err)
    end
  end

  for _, kind in ipairs(KINDS) do
    it("in a folder of data is none of them: " .. kind[1], function()
      with_data(function(shell) check(shell, kind[2]) end)
    end)
  end

  it("beside a file that the user names is not read either", function()
    with_data(function(shell, folder)
      shell "mkfifo llama/hf_quant_config.json other/runs.json other/t.config.json other/other.csv"
      program.write(folder .. "/other/t.requests.csv",
        "input_tokens,output_tokens,queued_s,scheduled_s,first_token_s,last_token_s\n1,1,0,0,1,1\n")
      local result = shell(("timeout 20 %s params ./llama"):format(EXE))
      assert.equal(0, result.code, result.err)
      result = shell(("timeout 20 %s validate other/t.requests.csv"):format(EXE))
      assert.equal(1, result.code)
      contains(result.err, "other/t.config.json: a regular file is needed")
    end)
  end)

  it("is still what the user gives: a command's output, or a pipe with a table", function()
    with_data(function(shell)
      local result = shell(("bash -c '%s params <(cat models/mine.yaml) --json'"):format(program.absolute()))
      assert.equal(0, result.code, result.err)
      assert.equal(0, shell("tperf params /dev/stdin < models/mine.yaml").code)
      assert.equal(0, shell("cat models/mine.yaml | tperf show /dev/stdin").code)
    end)
  end)
end)
