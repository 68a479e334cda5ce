--- The bench kit: a script in Python, which measures one machine and writes the tables that tperf.calibrate reads. It
--- needs PyTorch or JAX and no other file.
return [==[
#!/usr/bin/env python3
"""Measures one accelerator for tperf: matrix products, copies, attention, both passes of two layers; with several
processes, collectives. Needs PyTorch or JAX, nothing else. Writes CSV tables that `tperf calibrate` reads.

    python3 kit.py --out measured                            # about ten minutes
    torchrun --nproc-per-node 8 kit.py --out measured        # also all GPUs of a node together (PyTorch)
    tperf calibrate SYSTEM measured/gemm.csv measured/memory.csv measured/attention.csv --keep -o mine.yaml
    tperf validate measured/steps.csv -s ./mine.yaml --software none

Between nodes, with https://github.com/NVIDIA/nccl-tests (rccl-tests on AMD): redirect its output to a log, which
`tperf calibrate` reads, too:

    mpirun -np 16 ./build/all_reduce_perf -b 64K -e 512M -f 2 -g 1 > all_reduce.log
"""
import argparse, csv, os, sys, time

VERSION = "1"
# Products: square ones, few rows, few columns, and layers of models; about 1e8 to 1e13 FLOP.
SQUARES = [512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384]
ROWS = [1, 16, 64, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384]
WIDTHS = [(4096, 4096), (28672, 4096), (4096, 14336), (1024, 8192), (8192, 1024), (6144, 5120)]
COPIES = [1 << i for i in range(10, 30, 2)]
LENGTHS = [256, 512, 1024, 2048, 4096, 8192, 16384]
MESSAGES = [1 << i for i in range(16, 30)]
LAYERS, HIDDEN, FFN, HEADS, SEQ, VOCAB = 2, 4096, 14336, 32, 4096, 32000


def say(text):
    print(text, file=sys.stderr, flush=True)


class Torch:
    """Kernels as PyTorch runs them. Each method returns a function that starts one run."""

    def __init__(self):
        import torch
        self.t, self.name = torch, "torch " + torch.__version__
        self.kind = next((k for k in ("cuda", "xpu", "hpu", "npu", "mps") if self.has(k)), "cpu")
        self.rank = int(os.environ.get("LOCAL_RANK", 0))
        self.device = self.kind if self.kind in ("cpu", "mps") else "%s:%d" % (self.kind, self.rank)
        if self.kind not in ("cpu", "mps"):
            getattr(torch, self.kind).set_device(self.rank)

    def has(self, kind):
        part = self.t.backends.mps if kind == "mps" else getattr(self.t, kind, None)
        return part is not None and part.is_available()

    def gpu(self):
        part = getattr(self.t, self.kind, None)
        return part.get_device_name(self.rank) if hasattr(part, "get_device_name") else self.kind

    def wait(self):
        part = getattr(self.t, self.kind, None)
        if hasattr(part, "synchronize"):
            part.synchronize()

    def full(self, *shape):
        return self.t.randn(*shape, device=self.device, dtype=self.t.bfloat16)

    def product(self, m, n, k):
        a, b = self.full(m, k), self.full(n, k)
        return lambda: a @ b.T

    def copy(self, n):
        a, b = self.full(n), self.t.empty(n, device=self.device, dtype=self.t.int8)
        return lambda: b.copy_(a)

    def attention(self, batch, heads, length, dim, backward):
        q, k, v = (self.full(batch, heads, length, dim).requires_grad_(backward) for _ in range(3))
        attend = self.t.nn.functional.scaled_dot_product_attention
        if not backward:
            return lambda: attend(q, k, v, is_causal=True)
        out, grad = attend(q, k, v, is_causal=True), self.full(batch, heads, length, dim)
        return lambda: self.t.autograd.grad(out, (q, k, v), grad, retain_graph=True)

    def step(self):
        """The forward and the backward pass of a decoder of two layers, without an optimizer."""
        t, f = self.t, self.t.nn.functional
        shapes = [(VOCAB, HIDDEN)] + [s for _ in range(LAYERS) for s in (
            (HIDDEN,), (3 * HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN,), (2 * FFN, HIDDEN), (HIDDEN, FFN))]
        shapes += [(HIDDEN,), (VOCAB, HIDDEN)]
        weights = [(self.full(*s) * 0.02).requires_grad_(True) for s in shapes]
        tokens = t.randint(VOCAB, (1, SEQ), device=self.device)

        def norm(x, w):
            return x * t.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w

        def run():
            x, w = f.embedding(tokens, weights[0]), weights[1:]
            for i in range(LAYERS):
                first, qkv, out, second, up, down = w[6 * i:6 * i + 6]
                q, k, v = f.linear(norm(x, first), qkv).view(1, SEQ, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
                a = f.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + f.linear(a.transpose(1, 2).reshape(1, SEQ, HIDDEN), out)
                gate, rest = f.linear(norm(x, second), up).chunk(2, -1)
                x = x + f.linear(f.silu(gate) * rest, down)
            logits = f.linear(norm(x, w[-2]), w[-1])
            f.cross_entropy(logits.float().view(-1, VOCAB), tokens.view(-1)).backward()
            for one in weights:
                one.grad = None
        return run

    def join(self):
        """Ranks, if torchrun started several."""
        ranks = int(os.environ.get("WORLD_SIZE", 1))
        if ranks > 1:
            self.t.distributed.init_process_group({"cuda": "nccl", "xpu": "xccl", "hpu": "hccl", "npu": "hccl"}.get(
                self.kind, "gloo"))
        return ranks

    def collective(self, kind, size, ranks, group):
        d = self.t.distributed
        whole = self.t.zeros(size // 4 // ranks * ranks, device=self.device)
        part = self.t.zeros(whole.numel() // ranks, device=self.device)
        return {"all_reduce": lambda: d.all_reduce(whole, group=group),
                "all_gather": lambda: d.all_gather_into_tensor(whole, part, group=group),
                "reduce_scatter": lambda: d.reduce_scatter_tensor(part, whole, group=group),
                "all_to_all": lambda: d.all_to_all_single(self.t.empty_like(whole), whole, group=group)}[kind]


class Jax:
    """The same, as JAX compiles it; layers and collectives are left to PyTorch."""

    def __init__(self):
        import jax
        self.jax, self.np, self.name, self.rank = jax, jax.numpy, "jax " + jax.__version__, 0
        self.device, self.last = jax.devices()[0], None

    def gpu(self):
        return self.device.device_kind

    def wait(self):
        self.jax.block_until_ready(self.last)

    def full(self, *shape):
        return self.jax.random.normal(self.jax.random.key(0), shape, self.np.bfloat16)

    def compiled(self, f, *arguments):
        f = self.jax.jit(f)

        def run():
            self.last = f(*arguments)
        return run

    def product(self, m, n, k):
        return self.compiled(lambda a, b: a @ b, self.full(m, k), self.full(k, n))

    def copy(self, n):
        return self.compiled(lambda a: a.astype(self.np.int8), self.full(n))

    def attention(self, batch, heads, length, dim, backward):
        q = self.full(batch, length, heads, dim)

        def attend(q, k, v):
            return self.jax.nn.dot_product_attention(q, k, v, is_causal=True)
        if not backward:
            return self.compiled(attend, q, q, q)
        out, back = self.jax.vjp(attend, q, q, q)
        return self.compiled(back, out)

    def step(self):
        return None

    def join(self):
        return 1


def seconds(lib, run, count=None):
    """Mean seconds of a run, the best of three trials after three runs to warm up: of `count` runs, as ranks that run
    together need it, or of as many as take 0.05 seconds."""
    for _ in range(3):
        run()
    lib.wait()
    start = time.perf_counter()
    run()
    lib.wait()
    took, best = time.perf_counter() - start, float("inf")
    count = count or max(1, min(1000, int(0.05 / max(took, 1e-6))))
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(count):
            run()
        lib.wait()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def timed(lib, make, count=None):
    """Seconds of what `make` prepares; None where the device cannot: out of memory, a kernel that it lacks."""
    try:
        run = make()
        return run and seconds(lib, run, count)
    except (RuntimeError, NotImplementedError, ValueError, MemoryError) as error:
        say("  left out: %s" % str(error).splitlines()[0][:120])


def products(lib):
    shapes = [(n, n, n) for n in SQUARES] + [(m, n, k) for m in ROWS for n, k in WIDTHS]
    for m, n, k in sorted(set(shapes)):
        yield {"dtype": "bf16", "m": m, "n": n, "k": k, "time_s": timed(lib, lambda: lib.product(m, n, k))}


def copies(lib):
    for n in COPIES:
        yield {"op": "scale_matrix", "elements": n, "bytes_min": 3 * n, "time_s": timed(lib, lambda: lib.copy(n))}


def attentions(lib):
    for dim in (64, 128):
        for heads in (8, 32):
            for length in LENGTHS:
                for phase in ("context", "context_backward"):
                    batch = max(1, 8192 // length // (heads // 8))
                    yield {"phase": phase, "attn_dtype": "bf16", "kv_dtype": "bf16", "kernel_source": "torch_sdpa",
                           "batch": batch, "seq_q": length, "kv_len": length, "heads": heads, "kv_heads": heads,
                           "head_dim": dim, "time_s": timed(lib, lambda: lib.attention(
                               batch, heads, length, dim, phase != "context"))}


def steps(lib):
    yield {"source": "kit", "workload": "pretrain", "gpus": 1, "model": "two layers", "layers": LAYERS,
           "hidden": HIDDEN, "ffn": FFN, "heads": HEADS, "kv_heads": HEADS, "seq": SEQ, "vocab": VOCAB,
           "mlp": "swiglu", "dtype": "bf16", "compile": "none", "tp": 1, "pp": 1, "micro_batch": 1,
           "global_batch": 1, "recompute": "none", "iter_s": timed(lib, lib.step)}


def collectives(lib, ranks):
    sizes = sorted({n for n in (2, 4, 8) if n < ranks} | {ranks})
    for count in sizes:
        group = lib.t.distributed.new_group(list(range(count)))
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
            for size in MESSAGES if lib.rank < count else []:
                took = timed(lib, lambda: lib.collective(kind, size, count, group), 20)
                yield {"collective": kind, "gpus": count, "nodes": 1, "size_bytes": size // 4 // count * count * 4,
                       "time_us": took and took * 1e6}


def write(lib, folder, name, rows):
    say(name + " ...")
    rows = [r for r in rows if r.get("time_s", r.get("iter_s", r.get("time_us")))]
    if rows and lib.rank == 0:
        rows = [dict(gpu=lib.gpu(), backend=lib.name, **r) for r in rows]
        with open(os.path.join(folder, name), "w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    say("  %d rows" % len(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="measured", help="folder for the tables (default: measured)")
    parser.add_argument("--library", choices=("torch", "jax"), help="default: PyTorch, else JAX")
    asked = parser.parse_args()
    try:
        lib = Jax() if asked.library == "jax" else Torch()
    except ImportError:
        if asked.library:
            raise
        lib = Jax()
    os.makedirs(asked.out, exist_ok=True)
    ranks = lib.join()
    say("tperf's kit %s: %s, %s" % (VERSION, lib.gpu(), lib.name))
    if ranks > 1:
        return write(lib, asked.out, "collectives.csv", collectives(lib, ranks))
    for name, rows in ("gemm", products), ("memory", copies), ("attention", attentions), ("steps", steps):
        write(lib, asked.out, name + ".csv", rows(lib))


if __name__ == "__main__":
    main()
]==]
