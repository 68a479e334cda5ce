-- `tperf serve --from FILE` without a load.
local program = require "program"

describe("tperf serve --from a file without a load", function()
  it("answers for a usual one, and says which", function()
    program.within({ ["serve.sh"] = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 16 "
      .. "--max-model-len %s\n" }, function(tperf, folder)
      local function asked(length, more)
        program.write(folder .. "/serve.sh", ("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-num-seqs 16 "
          .. "--max-model-len %s\n"):format(length))
        return tperf("serve --from serve.sh -s h100-sxm --json" .. (more or ""))
      end
      local one = asked "32k"
      assert.equal(0, one.code, one.err)
      local said = "load not said: --concurrency 16 --count 128 --prompt 1024 --output 1024"
      assert.matches("assumed: " .. said, one.err, 1, true)
      assert.matches(said, one.out, 1, true) -- also in `understood`
      assert.matches("--prompt 500 --output 500", asked("1000").err, 1, true) -- what fits
      assert.matches("--prompt 100 --output 1024", asked("32k", " --prompt 100").err, 1, true)
      assert.is_nil(asked("32k", " --rate 2 --count 8 --prompt 100 --output 10").err:find "load not said")
    end)
  end)
end)
