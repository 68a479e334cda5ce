-- The bench kit: what it measures of a device whose times follow a formula (a module in place of PyTorch, with a clock
-- of its own) comes back out of the system file that `tperf calibrate` makes of its tables.
local program = require "program"
local tperf = require "tperf"

local TORCH <const> = [==[
import sys, time, types
PEAK, REACHED, BANDWIDTH, STREAM, LAUNCH = 989.4e12, 0.7, 3.35e12, 0.8, 4e-6
clock = [0.0]
time.perf_counter = lambda: clock[0]
def spend(flops, bytes, reached=REACHED):
    clock[0] += LAUNCH + max(flops / (reached * PEAK), bytes / (STREAM * BANDWIDTH))
class Tensor:
    def __init__(self, *shape): self.shape, self.grad = shape, None
    T = property(lambda self: Tensor(*self.shape[::-1]))
    def __matmul__(self, other):
        (m, k), (_, n) = self.shape, other.shape
        spend(2 * m * n * k, 2 * (m * k + k * n + m * n))
        return Tensor(m, n)
    def copy_(self, other): spend(0, 3 * self.shape[0])
    def requires_grad_(self, yes): return self
    def backward(self): clock[0] += 0.02
    def chunk(self, n, axis): return self, self
    def __iter__(self): return iter((self, self, self))
    def __mul__(self, other): return self
    __add__ = __radd__ = __rmul__ = __mul__
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return lambda *a, **b: self
__version__, bfloat16, int8 = "0.fake", "bf16", "int8"
randn = empty = lambda *shape, device=None, dtype=None: Tensor(*shape)
rsqrt = lambda x: x
randint = lambda n, shape, device=None: Tensor(*shape)
class no: is_available = staticmethod(lambda: False)
backends = types.SimpleNamespace(mps=no)
cuda = types.SimpleNamespace(is_available=lambda: True, set_device=lambda n: None, synchronize=lambda: None,
    get_device_name=lambda n: "NVIDIA H100 80GB HBM3")
def attend(q, k, v, is_causal):
    if len(q.shape) != 4: return spend(0, 1e9) or q
    b, h, s, d = q.shape
    if s == 16384 and d == 128 and h == 32: raise RuntimeError("out of memory\nsecond line")
    spend(2 * b * h * s * s * d, 8 * b * h * s * d, 0.5)
    return Tensor(b, h, s, d)
def grad(out, inputs, g, retain_graph):
    b, h, s, d = out.shape
    spend(5 * b * h * s * s * d, 16 * b * h * s * d, 0.4)
nn = types.SimpleNamespace(functional=types.SimpleNamespace(scaled_dot_product_attention=attend,
    embedding=lambda a, b: a, linear=lambda a, b: a, silu=lambda a: a, cross_entropy=lambda a, b: a))
autograd = types.SimpleNamespace(grad=grad)
]==]

local python = program.shell("command -v python3").code == 0 and it or pending

-- Seconds of the device's product.
local function product(m, n, k)
  return 4e-6 + math.max(2.0 * m * n * k / (0.7 * 989.4e12), 2.0 * (m * k + k * n + m * n) / (0.8 * 3.35e12))
end

local function seconds(system, m, n, k)
  local compute, memory = require "tperf.core".machine(system):kernel("gemm", "bf16", 1, m, n, k)
  return compute + memory
end

describe("the bench kit", function()
  python("is a script whose tables calibrate a system", function()
    local folder = program.folder()
    program.write(folder .. "/torch.py", TORCH)
    local ran = program.shell("tperf calibrate --kit > kit.py && PYTHONPATH=. python3 kit.py --out measured && "
      .. "tperf calibrate h100-sxm measured/gemm.csv measured/memory.csv --keep -o mine.yaml && "
      .. "tperf calibrate h100-sxm measured/attention.csv --keep -o attends.yaml && "
      .. "tperf validate measured/steps.csv -s ./mine.yaml --software none", folder)
    assert.equal(0, ran.code, ran.err)
    assert.truthy(ran.err:find("NVIDIA H100 80GB HBM3, torch 0.fake", 1, true))
    assert.truthy(ran.err:find("left out: out of memory\n", 1, true))
    assert.truthy(ran.out:find "1 of 1 rows predicted")
    local system = tperf.system(folder .. "/mine.yaml")
    for _, n in ipairs { 2048, 8192, 16384 } do
      assert.near(1, seconds(system, n, n, n) / product(n, n, n), 0.05)
    end
    assert.near(1, seconds(system, 16, 28672, 4096) / product(16, 28672, 4096), 0.05)
    local stream = system.accelerator.hbm.stream
    assert.near(0.8, stream.efficiency, 1e-3)
    assert.near(4e-6, stream.setup, 1e-8)
    assert.equal("NVIDIA H100 80GB HBM3", program.slurp(folder .. "/measured/steps.csv"):match "\n([^,]*),torch")
    local attention = tperf.system(folder .. "/attends.yaml").accelerator.compute_efficiency.attention.bf16
    assert.same({ 64, 128 }, attention.head_dim)
    assert.near(1, attention.efficiency[2] * attention.sustained / 0.5, 0.1)
    program.remove(folder)
  end)

  it("goes by itself", function()
    for _, more in ipairs { "h100-sxm x.csv", "--software d", "--out y" } do
      local ran = program.ask("tperf calibrate --kit " .. more)
      assert.equal(2, ran.code)
      assert.truthy(ran.err:find("--kit goes by itself", 1, true))
    end
  end)

  it("needs a system that says its multiprocessors", function()
    local ran = program.ask "tperf calibrate tpu-v5e spec/data/measured/gemm_torch.csv"
    assert.truthy(ran.err:find("system 'tpu-v5e' does not say accelerator.units", 1, true), ran.err)
  end)
end)
