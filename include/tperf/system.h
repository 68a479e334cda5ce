// system.h: the machine being modelled: one accelerator's peaks, and a network of tiers.
// Everything is in SI units: FLOP/s, bytes/s, bytes, seconds, watts. Peaks are the vendor's dense figures (no
// sparsity); each efficiency is the fraction of a peak that a kernel or a message reaches. Bandwidths are per
// direction.
#ifndef TPERF_SYSTEM_H
#define TPERF_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "tperf/efficiency.h"
#include "tperf/error.h"

enum { TPERF_TORUS_AXES = 3, TPERF_TIERS_MAX = 8, TPERF_TIER_NAME_MAX = 32 };

// A network is an ordered list of tiers, from the innermost out. A GPU has ports to two of them: its fast port to the
// innermost, its NICs to the innermost between domains. Each other tier joins units of the tier inward through their
// uplinks: racks in a domain, leaves under a spine, sites. What passes it passes its GPUs' fast ports or NICs, too.
typedef struct tperf_tier {
    char name[TPERF_TIER_NAME_MAX];
    int64_t unit; // GPUs of each unit that it joins
    bool outside; // it joins domains, not parts of one
    bool
        alone; // one group has a unit's uplinks for itself; else each GPU of a unit has an equal part of them
    double bandwidth;  // bytes/s of uplinks per GPU of a unit and direction
    double efficiency; // part of it that is reached; 0: of the ports
    double latency_s;  // seconds per hop from unit to unit; at least those of the tier inward
    // How units are linked where no switch joins them: in a torus, the length from which each axis wraps (0 after the
    // last), with two links of a unit along each; or in a mesh of so many units, each with a link to each other one.
    double axes[TPERF_TORUS_AXES];
    int64_t mesh; // 0: none
} tperf_tier;

typedef struct tperf_system {
    bool serves;         // runs a serving engine, which has kernels of its own
    tperf_curves curves; // where they exist, they replace the constants below
    struct {
        double tensor[TPERF_DTYPE_COUNT]; // FLOP/s of matrix products, dense; 0 = unknown
        double vector[TPERF_DTYPE_COUNT]; // FLOP/s of the vector units; 0 = unknown
        bool sparse; // matrix products skip the zeros of weights of which 2 of 4 are zero
        double compute_efficiency; // part of either peak that a kernel reaches, in (0, 1]
        double units;              // streaming multiprocessors; 0 = unknown, and no curves
        // The FlashAttention that `attention` has become by tperf_system_flash; 0: as timed.
        int64_t flash;
        double launch_s; // fixed latency in seconds, per op and pass
        // What kernels reach of their rate where they cannot run as timed; 0: nothing is said, and nothing is lost.
        struct {
            double by_8,
                by_less; // 16-bit factors whose rows begin on multiples of 8 bytes, of fewer
        } unaligned;
        double converted; // products whose factors have fewer bits than the units multiply
        double chunkwise; // FLOP of a recurrence's products in chunks while the vector units do one
        double unpack;    // FLOP of the vector units per weight of fewer bits than activations
        double flash1;    // seconds of FlashAttention 1 relative to FlashAttention 2
        double
            overlap_sms; // multiprocessors that a collective takes from a product in chunks beside it
        double
            uncut; // caches of a multiprocessor, from which on kernels that may leave them whole do so
        struct {
            double bandwidth;  // bytes/s
            double capacity;   // bytes that a program can use
            double efficiency; // fraction of the bandwidth that a kernel reaches, in (0, 1]
            double scattered;  // part of that in training over rows in their experts' order; 0: all
        } hbm;
        struct {
            double bandwidth; // bytes/s of data still in it; 0 = unknown
            double capacity;  // bytes
        } cache;              // last level
        struct {
            double setup_s, pair_s;
        } routing; // sorting tokens to experts: seconds, and per token-expert pair; if `serves`
        double power_W; // watts, the board power limit (TDP); 0 = unknown
    } accelerator;
    struct {
        struct {              // within a domain: NVLink and NVSwitch, Infinity Fabric
            double bandwidth; // bytes/s per GPU and direction
            double efficiency;
            double latency_s; // seconds per hop
            double start_s;   // before a collective's bytes flow, beside its hops
            int64_t domain;   // GPUs that share the fast network
            bool mesh;        // a link between each pair of them, not a switch
            // A torus: the length from which each axis wraps around; 0 after the last, all 0: none.
            double axes[TPERF_TORUS_AXES];
            char name[TPERF_TIER_NAME_MAX]; // of its tier; empty: "fast"
        } fast;
        struct {              // between domains: InfiniBand, Ethernet
            double bandwidth; // bytes/s per NIC and direction
            double efficiency;
            double latency_s;    // seconds per hop
            double nics_per_gpu; // may be fractional: 0.5 = two GPUs share one NIC
            double
                chain_s; // per GPU of the chain along which a broadcast or a reduce passes chunks
            char name[TPERF_TIER_NAME_MAX]; // of its tier; empty: "slow"
        } slow;
        // Those without ports, from the innermost out: units grow. A network of two tiers has none.
        int64_t n_tiers;
        tperf_tier tiers[TPERF_TIERS_MAX - 2];
    } network;
    struct {
        // Bytes/s between one GPU and its host's memory, per direction; 0 = unknown.
        double bandwidth;
        double efficiency;
        double memory_bandwidth; // bytes/s of the host's memory, per GPU
        double slowness;         // time of its calls, relative to an HGX H100's host; 0: as long
    } host;
} tperf_system;

// Fills in what stands in for a missing dtype: the peaks and curves of fp16 and bf16 for each other, and for products of
// fp32 the vector units, where no matrix units take them. What is given stays; twice is as once.
void tperf_system_complete(tperf_system *system);

// Fails on an impossible machine: a NaN, an infinity, a zero or negative rate, a size beyond the limits in system.c.
// The message names the field as data files do ("network.fast.bandwidth").
tperf_status tperf_system_validate(const tperf_system *system, tperf_error *error);

// Lowers the clock to what back-to-back kernels sustain for hours, however short each of them is.
void tperf_system_sustain(tperf_system *system);
// Limits attention to what FlashAttention 1 or 2 sustains; 0: leaves it as it is. The same version again changes
// nothing.
void tperf_system_flash(tperf_system *system, int64_t version);

// Seconds of a kernel on the matrix units, launch included: compute, and exposed HBM traffic. False if the system has
// no curve for it.
bool tperf_system_kernel_time(const tperf_system *system, tperf_dtype dtype,
                              const tperf_kernel *kernel, bool backward, tperf_kernel_time *time);

// Seconds of a kernel that only reads and writes, launch included; `warm`: its data lies in the cache.
double tperf_system_stream_time(const tperf_system *system, double bytes, bool warm);

#endif
