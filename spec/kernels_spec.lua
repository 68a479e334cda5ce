-- Numbers of kernels, in kernels/*.yaml: what shipped files say, by the sources that they name, and that a file of a
-- user's own takes the place of one.
local program = require "program"
local tperf = require "tperf"

local kernels = require "tperf.describe.kernels"

local ASK <const> = "train llama-2-7b -s h100-sxm -b 64 --tp 8 --software megatron-core-2024 --json"

local function asked(extra, folder)
  local out = program.shell(("tperf %s %s"):format(ASK, extra or ""), folder)
  assert.equal(0, out.code, out.err)
  return require "tperf.input.json".decode(out.out)[1]
end

local function with_folder(f)
  local folder = program.folder()
  f(folder)
  program.remove(folder)
end

describe("kernels", function()
  it("has what counting steps gives", function()
    local of = kernels.of "experts"
    -- A score in fp32: softmax reads and writes, top-k reads, table and byte map are written, then read; less one
    -- transfer of the router's own op.
    assert.equal(4 + 4 + 4 + (4 + 1) + (4 + 1) - 4, of.choice.forward)
    assert.equal(3 * 4 + 4 - 4, of.choice.backward)
    assert.equal(4 + (4 + 2 + 4) + (4 + 4) + (4 + 2), of.bias.forward)
    assert.equal((2 + 4) + (4 + 2) + (2 + 2) + 2 * (4 + 4 + 4), of.bias.backward)
    local limits = kernels.of "eager".limits
    assert.same({ 2 * (2 + 2) + 2 * (2 + 2), 2 * (2 + 2 + 2) + 2 * (2 + 2) }, { limits.forward, limits.backward })
  end)

  it("has the sizes that libraries document", function()
    local memory, MIB = kernels.of "memory", 1 << 20
    assert.equal(32 * 4 * MIB, memory.nccl) -- NCCL_MAX_CTAS channels of NCCL_BUFFSIZE
    assert.equal(32 * MIB, memory.cublas.bytes)
    assert.equal((2 * 4096 + 8 * 16) * 1024, memory.cublas.older) -- 4096:2:16:8, in KiB
    assert.equal(2048, kernels.of "attention".softmax.keys)
    assert.equal(20, kernels.of "dispatch".deepep.sms)
  end)

  it("is all read, and each number has a unit or a count", function()
    for name, file in pairs(kernels.all()) do assert.is_string(file.source, name) end
  end)
end)

describe("a kernels file of one's own", function()
  it("takes the place of the shipped one, and the answer says so", function()
    with_folder(function(folder)
      assert(os.execute("mkdir -p " .. folder .. "/kernels"))
      local text = program.slurp "kernels/losses.yaml"
      program.write(folder .. "/kernels/losses.yaml",
        (text:gsub("in%-place: {[^}]*}", "in-place: { kept: 4, held: 2, forward: 86, backward: 16 }")))
      local before, after = asked(), asked("--data " .. folder)
      assert.truthy(after.data_files[1]:find "kernels/losses%.yaml$")
      -- 43 bytes more of every logit, of 32,000 / 8 for 4,096 tokens, in 64 micro-batches.
      local system, profile = tperf.system "h100-sxm", tperf.software "megatron-core-2024"
      local hbm = system.accelerator.hbm
      local more = 43 * 4096 * 4000 * profile.memory / (hbm.bandwidth * hbm.efficiency)
      assert.near(more * 64, after.time - before.time, 1e-9 * more * 64)
    end)
  end)

  it("is refused at its line where it is wrong", function()
    with_folder(function(folder)
      assert(os.execute("mkdir -p " .. folder .. "/kernels"))
      program.write(folder .. "/kernels/losses.yaml", "in-place: { kept: 4 }\n")
      local out = program.shell(("tperf %s --data %s"):format(ASK, folder))
      assert.equal(1, out.code)
      assert.truthy(out.err:find("losses.yaml:1", 1, true), out.err)
    end)
  end)

  it("is refused with the line that is no class of runs", function()
    with_folder(function(folder)
      assert(os.execute("mkdir -p " .. folder .. "/kernels"))
      for _, line in ipairs { "1.5 0.8 100 9 a=b", "0.8 1.5 100 a=b", "0.8 1.5 100 9 a", "0.8 1.5 100 9 a=b" } do
        local ok = line == "0.8 1.5 100 9 a=b"
        program.write(folder .. "/kernels/intervals.yaml", "source: mine\nclasses:\n  time: |\n    " .. line .. "\n")
        local out = program.shell(("tperf %s --data %s"):format(ASK, folder))
        assert.equal(ok and 0 or 1, out.code)
        assert.truthy(ok or out.err:find('got "' .. line .. '"', 1, true), out.err)
      end
    end)
  end)
end)
