-- The specs' own ways to run the program: what is asked in this process is what a process of its own prints.
local program = require "program"

describe("program.ask", function()
  for _, command in ipairs {
    "tperf", "tperf serach", "tperf help train", "tperf ''", "tperf version", "tperf list models --csv",
    "tperf train gpt2 -z", "tperf train gpt2 -s h100-sxm -b 8 --recompute ful", "tperf train gpt2 -s h100-sxm -b 8",
    "tperf search gpt2 -s h100-sxm -g 8 -b 8 -k 3 --json", "tperf search gpt2 -s h100-sxm -g 7 -b 8 --tp 2",
    "tperf infer gpt2 -s h100-sxm -p 8 -n 8 -g 4 --tp 5", "tperf show --json subramanian2024/A100",
    "tperf serve --step-time fixed=5ms --rate 1 --prompt 20 --output 5 --slo ttft=500", "tperf validate .",
    "tperf serve llama-3.1-8b -s h100-sxm --saturation --count 50 --prompt 30 --output 5", "tperf params gpt2 --json",
  } do
    it("answers as a process does: " .. command, function()
      assert.same(program.shell(command), program.ask(command))
    end)
  end

  it("leaves the streams as they were", function()
    local before = { io.stdout, io.stderr, io.output(), print }
    program.ask "tperf train gpt2 -s h100-sxm -b 0"
    assert.same(before, { io.stdout, io.stderr, io.output(), print })
  end)
end)
