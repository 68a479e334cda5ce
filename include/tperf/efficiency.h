// efficiency.h: the fraction of a peak that a kernel or a message reaches, by the size and shape of the work. A curve
// is a handful of meaningful numbers fitted to measurements; a system without curves uses constants. `tperf calibrate`
// fitted all curves to kernels timed in isolation (docs/accuracy.md); they hold between the smallest and the largest
// size measured.
#ifndef TPERF_EFFICIENCY_H
#define TPERF_EFFICIENCY_H

#include <stdbool.h>

typedef enum tperf_dtype {
    TPERF_FP64,
    TPERF_FP32,
    TPERF_TF32,
    TPERF_FP16,
    TPERF_BF16,
    TPERF_FP8,
    TPERF_INT8,
    TPERF_FP4,
    TPERF_DTYPE_COUNT
} tperf_dtype;

// "fp64", "fp32" …: names in data files and scripts, in the order of tperf_dtype.
extern const char *const tperf_dtype_names[TPERF_DTYPE_COUNT];

double tperf_dtype_bytes(tperf_dtype dtype); // per element

// A matrix product of m x k by k x n on U units (streaming multiprocessors) of P/U FLOP/s each.
// The library picks, among tiles of 256 x 128 to 64 x 64, each with its k cut in up to `split` parts
// when there are fewer tiles than units, the one that ends first:
//   work(tile) = waves 2 t_m t_n (k/parts + depth) / (efficiency P/U) (1 + tile_loss (1/t_m + 1/t_n))
//   waves      = tiles/U, of which the part `quantisation` is rounded up to whole waves
// Parts are written and added up at the HBM's bandwidth; factors of 8 or 4 bits are made first from 16-bit
// activations, which are read and written once more. Results have 16 bits. 4-bit factors are read with their scales, a
// byte for 16 numbers (NVFP4). HBM traffic of t seconds takes t + sqrt(ramp t).
// Of 16-bit factors whose rows begin on multiples of 8 bytes only, or of fewer, the rate is the processor's part of P.
// After some time at full load the clock drops: work grows to work / sustained, half of the growth
// at sustained_after_s. Kernel = launch + longer + shorter^2 / (4 longer) of work and HBM traffic.
typedef struct tperf_gemm_curve {
    double efficiency; // fraction of the peak for an endless product; 0: no curve
    double tile_loss;  // elements: the cost of loading a tile's edges
    double depth;      // elements of k: the cost of starting and writing a tile
    double quantisation;
    double split;  // most parts that k is cut in; 0: 16
    double ramp_s; // the effective bandwidth grows with the bytes, as decoding's
    double sustained, sustained_after_s;
    // Fewest rows of a tile, which has them in 16s; 0: 64, or 16 where the second factor, of weights, is narrower than
    // the first, as kernels made for such weights have (MARLIN, arXiv 2408.11743).
    double rows;
    double
        memory; // part of the bandwidth that loads of narrow weights reach; 0: all, but they are unpacked
    double setup_s; // of experts' products: beyond the launch
} tperf_gemm_curve;

enum { TPERF_HEAD_SIZES_MAX = 8 };

// What a list with a number for each of n sizes, ascending, has for another: on the line between the logarithms of the
// two beside it; beyond the ends, that of the end.
double tperf_at_size(const double *sizes, const double *y, int n, double size);

// Fused attention of m queries and n keys, head size k, in blocks of 128 queries:
//   work = all blocks / U + longest (1 - 1/U) x the longest block, at least the longest block
// A block of q queries costs 4 q k (its keys + keys) FLOP at efficiency(k) P/U, in whole tiles: q in steps of 64, its
// keys of 128 (except under a causal mask), and k of 16. Clock and memory as above.
typedef struct tperf_attention_curve {
    int n_sizes; // 0: no curve
    // The efficiency is log-linear between the sizes.
    double head_size[TPERF_HEAD_SIZES_MAX], efficiency[TPERF_HEAD_SIZES_MAX];
    double setup_s; // beyond the launch
    double keys;    // the cost of starting and ending a block, in keys
    double longest; // the fraction of the longest block that load balancing does not hide
    double sustained, sustained_after_s;
    // The backward pass's efficiency at each head size, relative to the forward pass's, and its `keys`; 0: the same.
    double backward[TPERF_HEAD_SIZES_MAX], backward_keys;
    double tile; // elements of a block of queries, where it has fewer than 128; 0: it has 128
    // What a key beyond the window takes, relative to one within; 0: its tiles are skipped.
    double masked;
} tperf_attention_curve;

// Decoding: one query of every head against n cached keys, H heads of which `shared` read the same keys.
// With s seconds of HBM traffic at `efficiency`, and FLOPs at the efficiency that attention reaches:
//   work = max(H/shared x block_s (1/2 + k/256) / U, FLOPs)   each cache starts and ends a block
//   time = setup + longer + shorter^2 / (4 longer) of work and s + sqrt(ramp s)
// Kernels that cut caches share them out evenly. Those that leave them whole where there are `uncut` U and more, or
// where no two heads share one (FlashAttention 2, num_splits_heuristic), take them in waves of U, each no shorter than
// a unit needs for a cache: its bytes / `whole`. Kernels that cut caches into so many `pieces` at most (SGLang's in
// Triton, triton_attention_num_kv_splits = 8) take the pieces so.
typedef struct tperf_decode_curve {
    double efficiency; // fraction of the HBM's bandwidth for an endless cache; 0: no curve
    double setup_s;    // beyond the launch
    double block_s;    // that a unit spends on a head of 128 without keys
    double ramp_s;     // the effective bandwidth grows with the bytes
    double whole;      // bytes/s at which a unit reads a cache that stays whole; 0: caches are cut
    double pieces;     // into which each cache is cut at most, whichever kernel; 0: no limit
} tperf_decode_curve;

// A kernel that only reads and writes: setup + bytes at `efficiency`, launch included.
typedef struct tperf_stream_curve {
    double efficiency; // fraction of the HBM's bandwidth; 0: no curve
    double setup_s;
} tperf_stream_curve;

// A collective among n GPUs of one fast domain, x bytes through each GPU's port, V the vector.
// Two protocols, for small and for large messages (NCCL: LL128 and Simple):
//   small: latency + hop steps + x / (small B)            while V/n <= switch_bytes, if faster
//   large: latency + hop steps + extra + x / (large B)    B: bandwidth x (min(n, 8) / 2)^growth,
//                                                       capped at the port's bandwidth.
// The switch (NVLink SHARP) can reduce an all-reduce of more than 4 GPUs in the network (NCCL prefers rings for fewer);
// then (n + 1) / n V bytes pass a port at in_network x bandwidth.
typedef struct tperf_link_curve {
    double latency_s, hop_s, small, extra_s, large; // large = 0: no curve
    double switch_bytes, growth, in_network;        // in_network = 0: the switch cannot reduce
} tperf_link_curve;

// An all-reduce by kernels that read the peers' memory, as serving engines have (vLLM, SGLang, TensorRT-LLM): one-shot
// reads all vectors; two-shot reads one part of each, then the other parts' sums.
//   latency + hop (n - 1) + (n - 1) V / (one_shot B), or + extra + 2 (n - 1) / n V / (two_shot B)
typedef struct tperf_direct_curve {
    double latency_s, hop_s, one_shot, extra_s, two_shot; // one_shot = 0: no curve
} tperf_direct_curve;

enum {
    TPERF_LINK_ALL_REDUCE,
    TPERF_LINK_ALL_GATHER,
    TPERF_LINK_REDUCE_SCATTER,
    TPERF_LINK_ALL_TO_ALL,
    TPERF_LINK_CURVES
};

// Between domains: s seconds of bytes at `efficiency` of the NICs' bandwidth take
//   start + s + sqrt(ramp s)
// as the effective bandwidth grows with the message. NCCL reduces along trees and passes all else around rings: an
// all-reduce's start is latency + doubling log2(domains), any other's latency + hop (domains - 1), and each step within
// a domain adds its link's hop (src/machine/algorithms.c). A broadcast and a reduce take tperf_system's
// network.slow.chain_s for each GPU of the group instead of hops.
typedef struct tperf_slow_curve {
    double efficiency; // fraction of the NICs' bandwidth; 0: no curve
    double latency_s, doubling_s, hop_s, ramp_s;
} tperf_slow_curve;

// The curves of a system, which replace its constants where they exist: by dtype, and of links. A row of
// src/machine/curves.c says where each stands in a system's file.
typedef struct tperf_curves {
    tperf_gemm_curve gemm[TPERF_DTYPE_COUNT];
    tperf_gemm_curve experts[TPERF_DTYPE_COUNT]; // an engine's products of experts
    // Those with weights of 4 bits, by what activations have.
    tperf_gemm_curve experts4[TPERF_DTYPE_COUNT];
    tperf_attention_curve attention[TPERF_DTYPE_COUNT];
    // FlashAttention 2, where it is not what `attention` times: Hopper has faster instructions than it uses
    // (arXiv 2407.08608), and PyTorch's own kernels on AMD's GPUs are others.
    tperf_attention_curve flash2[TPERF_DTYPE_COUNT];
    tperf_decode_curve decode[TPERF_DTYPE_COUNT]; // by the dtype of the cache
    tperf_stream_curve stream;
    tperf_link_curve link[TPERF_LINK_CURVES];
    tperf_direct_curve direct; // for all-reduces, where it is faster, if the system serves
    tperf_slow_curve slow;
} tperf_curves;

// The shape of a kernel on the matrix units.
typedef enum tperf_kernel_kind {
    TPERF_KERNEL_GEMM,      // `batch` products of m x k by k x n
    TPERF_KERNEL_ATTENTION, // fused: `batch` heads of m queries, n keys and head size k
    TPERF_KERNEL_ATTENTION_CAUSAL,
} tperf_kernel_kind;

typedef enum tperf_panel_cut { TPERF_CUT_K, TPERF_CUT_N, TPERF_CUT_M } tperf_panel_cut;

typedef struct tperf_kernel {
    tperf_kernel_kind kind;
    double batch, m, n, k;
    double second;  // bytes of one element of the k x n factor, or of keys; 0: as of the others
    bool grouped;   // gemm: the products of experts, each with rows of its own
    double aligned; // gemm: its rows begin on multiples of so many elements; 0: of 16 bytes
    double shared;  // attention: heads that share their keys and values, in bytes; 0 or 1 = none
    // Attention: keys beyond a query's window, on average, that a mask without one would show.
    double masked;
    bool warm; // its operands still lie in the last-level cache
    bool made; // its factors come in the precision that it multiplies in: it makes none first
    bool wide; // multiplies in its op's own dtype, not in the precision of the others
    tperf_panel_cut cut; // what panels divide: each is a kernel of its own
} tperf_kernel;

// The accelerator as the curves see it.
typedef struct tperf_processor {
    double peak;          // FLOP/s at the kernel's dtype
    double units;         // streaming multiprocessors
    double bandwidth;     // bytes/s of the HBM: achieved or, for decoding, peak
    double unpack_s;      // seconds to unpack a weight narrower than activations
    double element;       // bytes per element of the kernel's dtype
    bool quantised;       // a separate kernel quantised the 16-bit activations
    double by_8, by_less; // parts of the peak with rows on multiples of 8 bytes, of fewer; 0: all
    double uncut;         // caches of a unit, from which on kernels that may leave them whole do so
} tperf_processor;

// The seconds of a kernel on the bare machine. HBM traffic passes beside the work; the longer of the two does not hide
// all of the shorter one, if not stated otherwise: longer + shorter^2 / (4 longer).
typedef struct tperf_kernel_time {
    double setup; // the launch, and what a curve adds: nothing passes beside it
    double work, traffic;
    double rest; // HBM traffic beside which nothing runs
    bool hides;  // the longer of work and traffic hides all of the shorter one
} tperf_kernel_time;

typedef struct tperf_kernel_cost {
    double compute; // setup and work
    double exposed_memory;
} tperf_kernel_cost;

// The cost of a kernel in software that takes `compute` times as long for its work, and `memory` times for its traffic.
tperf_kernel_cost tperf_kernel_cost_of(const tperf_kernel_time *time, double compute,
                                       double memory);

tperf_kernel_time tperf_gemm_time(const tperf_gemm_curve *curve, const tperf_processor *processor,
                                  const tperf_kernel *kernel);
tperf_kernel_time tperf_attention_time(const tperf_attention_curve *curve,
                                       const tperf_processor *processor, const tperf_kernel *kernel,
                                       bool backward);

tperf_kernel_time tperf_decode_time(const tperf_decode_curve *curve,
                                    const tperf_attention_curve *attention,
                                    const tperf_processor *processor, const tperf_kernel *kernel);
double tperf_stream_time(const tperf_stream_curve *curve, double bandwidth, double bytes);

// Steps of one pass over a domain's GPUs: around a ring of up to 8, and one more for each doubling beyond, as trees have.
double tperf_link_steps(double gpus);
// Seconds within one fast domain; `bandwidth` is that of one GPU's port.
double tperf_link_time(const tperf_link_curve *curve, bool all_reduce, double bandwidth,
                       double gpus, double bytes);
// Its bandwidth-bound part, which is what a collective over several domains spends inside each: `through` bytes pass
// the port of each of the domain's `gpus`, unless the switch reduces the vector of `bytes`.
// adds: whether it does, or NULL.
double tperf_link_stream(const tperf_link_curve *curve, bool all_reduce, double bandwidth,
                         double gpus, double through, double bytes, bool *adds);

// The same, if that part is known: stream, seconds.
double tperf_link_time_of(const tperf_link_curve *curve, bool all_reduce, double bandwidth,
                          double gpus, double bytes, double stream);

double tperf_one_shot_time(const tperf_direct_curve *curve, double bandwidth, double gpus,
                           double bytes);
double tperf_two_shot_time(const tperf_direct_curve *curve, double bandwidth, double gpus,
                           double bytes);
// Seconds before the bytes of a collective over several domains flow, along a tree or around a ring.
double tperf_tree_start(const tperf_slow_curve *curve, double domains);
double tperf_ring_start(const tperf_slow_curve *curve, double domains);
// part: of an all-reduce's ramp, which the curve was fitted to.
double tperf_slow_time(const tperf_slow_curve *curve, double start, double seconds, double part);

#endif
