// ranks.c: the placement that an order of ranks implies, see tperf/grid.h and docs/model.md section 7.3.
#include "tperf/grid.h"

// GPUs of the largest host. A larger domain is a rack, of whose hosts a scheduler gives a job as many as hold whole
// groups (Slurm's segments).
enum { HOST = 16 };

static int64_t largest_divisor(int64_t number, int64_t most) {
    if (most >= number) return number;
    if (number % most == 0) return most;
    int64_t best = 1;
    for (int64_t i = 1; i <= number / i; i++) {
        if (number % i != 0) continue;
        if (i <= most && i > best) best = i;
        if (number / i <= most && number / i > best) best = number / i;
    }
    return best;
}

static bool folds(const tperf_grid *grid, int axis) {
    return grid->axes[axis].folds != 0;
}

static bool spreads(const tperf_grid *grid, int axis) {
    return folds(grid, axis) && grid->axes[axis].cuts & TPERF_CUTS_EXPERTS;
}

// Ranks that share a domain: all of a host's GPUs, if the ranks fill hosts; else as many whole groups as fit, the same
// in each domain.
static int64_t ranks_of_domain(const tperf_grid *grid, const tperf_rank_order *order,
                               const int64_t *sizes, int64_t domain) {
    int64_t ranks = 1, together = 1;
    for (int i = 0; i < grid->n; i++)
        if (!folds(grid, i)) ranks *= sizes[i];
    if (ranks <= domain) return ranks;
    if (domain <= HOST && ranks % domain == 0) return domain;
    for (int i = 0; i < order->n; i++) {
        if (folds(grid, order->axes[i])) continue;
        int64_t size = sizes[order->axes[i]], part = largest_divisor(size, domain / together);
        together *= part;
        if (part < size) break;
    }
    return together;
}

// The fewest of n GPUs, `stride` ranks apart, that share one of the domains that they touch. They lie in blocks of
// n x stride ranks. A domain's border cuts off multiples of gcd(n x stride, together) ranks from a block, and every
// multiple somewhere.
static int64_t fewest(int64_t n, int64_t stride, int64_t together) {
    int64_t least = tperf_gcd(n * stride, together) / stride;
    return least > 1 ? least : 1;
}

// GPUs that experts fold over and that follow each other in the order.
typedef struct run {
    int64_t size, stride;
} run;

// A grid in an order of ranks.
typedef struct ranked {
    const tperf_grid *grid;
    const int64_t *sizes;
    int64_t together; // ranks that share a domain
    unsigned view;    // the axes that experts fold over, as a mask
    int last;         // the last of these in the order
    unsigned distant; // the axes in the order that spread experts after it, as a mask
    bool named;       // the order has an axis that spreads experts
    // Others, of several GPUs, lie between the axes that experts fold over; GPUs of those that lie before them.
    bool apart;
    int64_t before;
    int n_runs;
    run runs[TPERF_AXES_MAX];
} ranked;

static void add_axis(ranked *r, int axis, int64_t stride) {
    run *end = r->n_runs ? &r->runs[r->n_runs - 1] : NULL;
    r->last = axis;
    r->distant = 0;
    if (r->sizes[axis] == 1) return;
    if (end && end->size * end->stride == stride)
        end->size *= r->sizes[axis];
    else
        r->runs[r->n_runs++] = (run){r->sizes[axis], stride};
}

static ranked ranked_of(const tperf_grid *grid, const tperf_rank_order *order, const int64_t *sizes,
                        int64_t domain) {
    ranked r = {.grid = grid,
                .sizes = sizes,
                .together = ranks_of_domain(grid, order, sizes, domain),
                .last = -1,
                .before = 1};
    int64_t stride = 1;
    bool others = false; // since the first of the axes that experts fold over
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++)
        if (spreads(grid, i)) r.view = grid->axes[i].folds;
    for (int i = 0; i < order->n; i++) {
        int axis = order->axes[i];
        r.named = r.named || folds(grid, axis);
        if (folds(grid, axis)) {
            r.distant |= 1u << axis;
            continue;
        }
        if (r.view >> axis & 1) {
            r.apart = others;
            if (!others) r.before *= sizes[axis];
            add_axis(&r, axis, stride);
        } else if (r.last >= 0 && sizes[axis] > 1) {
            others = true;
        }
        stride *= sizes[axis];
    }
    return r;
}

// Whether the experts' groups go with the order. One that names the experts' axis stands for two grids with the same
// stages (Megatron-Core's), so that experts must spread over just the GPUs before those stages, if replicas follow them,
// be it only one.
static bool goes(const ranked *r) {
    int64_t spread = tperf_grid_spread(r->grid, r->sizes);
    return !r->named || !r->apart || spread == 1 || (r->n_runs <= 2 && spread == r->before);
}

// The fewest of n GPUs of the runs that share a domain, with `inside` GPUs between them.
static int64_t fewest_in_runs(const ranked *r, int64_t n, int64_t inside) {
    int64_t least = 1;
    for (int i = 0; i < r->n_runs && n > 1; i++) {
        int64_t size = r->runs[i].size, left = size / inside;
        if (inside % size == 0) {
            inside /= size;
            continue;
        }
        if (size % inside != 0 || (left % n != 0 && n % left != 0)) break;
        int64_t part = n < left ? n : left;
        least *= fewest(part, r->runs[i].stride * inside, r->together);
        n /= part;
        inside = 1;
    }
    return least;
}

// Sets the parts of the axes that spread experts, of GPUs of which `product` share a domain; false: it would leave more
// copies of an expert together than there are.
static bool fold(const ranked *r, int64_t product, int64_t *fast) {
    int64_t inside = 1, copies = 1, left = product, spread = tperf_grid_spread(r->grid, r->sizes);
    for (int i = 0; i < r->n_runs; i++)
        copies *= r->runs[i].size;
    copies /= spread;
    int64_t copies_from = 1;
    for (int distant = 0; distant < 2; distant++) {
        for (int i = TPERF_AXIS_OWN; i < r->grid->n; i++) {
            if (!spreads(r->grid, i) || (int)(r->distant >> i & 1) != distant) continue;
            int64_t most = fewest_in_runs(r, r->sizes[i], inside);
            fast[i] = largest_divisor(tperf_gcd(r->sizes[i], left), most);
            left /= fast[i];
            inside *= r->sizes[i];
        }
        if (distant) break;
        copies_from = inside;
        inside *= copies;
        if (r->distant)
            left /=
                largest_divisor(tperf_gcd(copies, left), fewest_in_runs(r, copies, copies_from));
    }
    return product / tperf_grid_spread(r->grid, fast) <= fewest_in_runs(r, copies, copies_from);
}

// The same, with fewer GPUs of the axes that they fold over together where hosts cut groups unevenly.
static void place_experts(const ranked *r, const tperf_rank_order *order, int64_t *fast) {
    for (int i = order->n; i >= 0; i--) {
        int64_t product = 1;
        for (int axis = 0; axis < r->grid->n; axis++)
            if (r->view >> axis & 1) product *= fast[axis];
        if (fold(r, product, fast)) return;
        if (i > 0 && r->view >> order->axes[i - 1] & 1) fast[order->axes[i - 1]] = 1;
    }
}

bool tperf_grid_rank(const tperf_grid *grid, const tperf_rank_order *order, const int64_t *sizes,
                     int64_t domain, int64_t *fast) {
    ranked r = ranked_of(grid, order, sizes, domain);
    if (!goes(&r)) return false;
    int64_t stride = 1;
    for (int i = 0; i < grid->n; i++)
        fast[i] = 1;
    for (int i = 0; i < order->n; i++) {
        int axis = order->axes[i];
        if (folds(grid, axis)) continue;
        fast[axis] = largest_divisor(sizes[axis], fewest(sizes[axis], stride, r.together));
        stride *= sizes[axis];
    }
    if (r.view) place_experts(&r, order, fast);
    return true;
}
