// workload.c: see tperf/workload.h. Numbers Qn: tperf/rules.h.
#include "tperf/workload.h"

#include <math.h>
#include <string.h>

enum { FP32_BYTES = 4 };

static tperf_status join_pass(tperf_pass *pass, const char *op, const tperf_grid *grid,
                              const int64_t *sizes, unsigned *axes, tperf_error *error) {
    int kept = 0;
    for (int i = 0; i < pass->n_comms; i++) {
        tperf_comm comm = pass->comms[i];
        comm.axis_index = tperf_grid_find(grid, comm.axis);
        if (comm.axis_index < 0 || comm.axis_index == TPERF_AXIS_STAGES)
            return tperf_error_set(
                error, TPERF_INVALID,
                "op '%s' communicates over the axis '%s', which the strategy lacks", op, comm.axis);
        comm.inward = tperf_grid_inward(grid, comm.axis_index);
        *axes |= 1U << comm.axis_index;
        int64_t size = sizes[comm.axis_index];
        if (comm.share) comm.bytes *= (double)size;
        comm.share = false;
        if (size > 1) pass->comms[kept++] = comm;
    }
    pass->n_comms = kept;
    bool chunked = false;
    for (int i = 0; i < kept; i++)
        chunked = chunked || pass->comms[i].chunking != TPERF_UNCHUNKED;
    if (!chunked) pass->chunks = 0;
    return TPERF_OK;
}

tperf_status tperf_op_join(tperf_op *op, const tperf_grid *grid, const int64_t *sizes,
                           unsigned *axes, tperf_error *error) {
    TPERF_TRY(join_pass(&op->forward, op->name, grid, sizes, axes, error));
    return join_pass(&op->backward, op->name, grid, sizes, axes, error);
}

tperf_status tperf_block_join(tperf_block *block, tperf_op *op, tperf_error *error) {
    TPERF_TRY(tperf_op_join(op, block->grid, block->sizes, &block->axes, error));
    if (!(block->axes >> TPERF_AXIS_REPLICAS & 1) || block->replicas > 0) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID,
                           "op '%s' communicates over the axis 'dp', whose size its layers do not "
                           "know: give the architecture replicas = true",
                           op->name);
}

const char *tperf_workload_block(const tperf_workload *workload, size_t index) {
    const tperf_block_part *part = workload->parts;
    while (part->end <= index)
        part++;
    return part->name;
}

// Adds a product's matrices, m x n with m <= n, and the FLOPs of X <- a X + (b X X^T + c (X X^T)^2) X for each (arXiv
// 2502.16982, section 2.1): products of 2 m^2 n, 2 m^3 and 2 m^2 n.
static void add_matrices(tperf_weights *weights, const tperf_op *op) {
    const tperf_kernel *kernel = &op->forward.kernels[0];
    if (op->forward.n_kernels == 0 || kernel->kind != TPERF_KERNEL_GEMM || op->parameters == 0)
        return;
    double m = fmin(kernel->n, kernel->k), n = fmax(kernel->n, kernel->k);
    weights->matrices = floor(op->parameters / (m * n));
    weights->orthogonal = weights->matrices * (4 * m * m * n + 2 * m * m * m);
}

static tperf_weights weights_of(const tperf_op *op) {
    if (op->on_host) return (tperf_weights){0};
    if (op->frozen)
        return (tperf_weights){
            .bytes = op->weight_bytes, .frozen = op->weight_bytes, .copies = op->copy_bytes};
    bool narrow = op->weight_bytes < FP32_BYTES * op->parameters;
    tperf_weights weights = {
        .bytes = op->weight_bytes,
        .count = op->parameters,
        .narrow = narrow ? op->parameters : 0,
        .gathered = op->gather_bytes > 0 ? op->gather_bytes : op->weight_bytes,
        .copies = op->copy_bytes,
        .step = op->step_bytes,
    };
    add_matrices(&weights, op);
    return weights;
}

tperf_block_bytes tperf_block_bytes_of(const tperf_op *const *ops, size_t n) {
    tperf_block_bytes sum = {.whole = true};
    for (size_t i = 0; i < n; i++) {
        const tperf_op *op = ops[i];
        tperf_weights weights = weights_of(op);
        tperf_weights_add(op->expert ? &sum.experts : &sum.weights, &weights, 1);
        if (op->tied) tperf_weights_add(&sum.tied, &weights, 1);
        sum.saved += op->saved_bytes;
        sum.again += op->again_bytes;
        sum.offload += op->offload_bytes;
        sum.whole = sum.whole && (op->recomputed || op->backward.absent);
        double panels = op->panels ? op->forward.bytes_per_panel : 0;
        double read = op->product.read_bytes > 0 ? op->product.read_bytes : op->weight_bytes;
        if (op->on_host) read = 0; // they are copied
        double kept = op->saved_bytes + op->again_bytes + op->offload_bytes;
        double work = op->forward.bytes + panels - op->repeated_bytes - read - kept;
        if (op->passing_bytes > 0) work = op->passing_bytes;
        sum.work = fmax(sum.work, work);
    }
    return sum;
}

tperf_status tperf_block_check(const tperf_block *block, const tperf_grid *grid,
                               const int64_t *sizes, tperf_error *error) {
    if (block->grid != grid)
        return tperf_error_set(error, TPERF_INVALID, "a block is of another strategy's layers");
    if (block->axes >> TPERF_AXIS_REPLICAS & 1 && block->replicas != sizes[TPERF_AXIS_REPLICAS])
        return tperf_error_set(error, TPERF_INVALID, "a block is of another number of replicas");
    for (int i = TPERF_AXIS_OWN; i < grid->n; i++)
        if (block->axes >> i & 1 && block->sizes[i] != sizes[i])
            return tperf_error_set(error, TPERF_INVALID,
                                   "a block is of layers of another size along '%s'",
                                   grid->axes[i].name);
    return TPERF_OK;
}

size_t tperf_workload_size(size_t n_ops, size_t n_parts) {
    return sizeof(tperf_workload) + n_ops * sizeof(const tperf_op *) +
           n_parts * sizeof(tperf_block_part);
}

tperf_workload *tperf_workload_new(void *room, const tperf_grid *grid, const int64_t *sizes,
                                   int n_kinds, size_t n_ops) {
    tperf_workload *workload = room;
    *workload = (tperf_workload){
        .grid = *grid, .boundary_parts = 1, .n_kinds = n_kinds, .n_sections = n_kinds + 2};
    memcpy(workload->sizes, sizes, sizeof workload->sizes);
    workload->parts = (const tperf_block_part *)&workload->ops[n_ops];
    return workload;
}

void tperf_workload_add(tperf_workload *workload, const tperf_block *block, const char *name) {
    for (size_t i = 0; i < block->n; i++)
        workload->ops[workload->n_ops++] = block->ops[i];
    tperf_block_part *part = (tperf_block_part *)&workload->parts[workload->n_parts++];
    unsigned inward = 0;
    for (int i = 0; i < workload->grid.n; i++)
        if (block->axes >> i & 1) inward |= tperf_grid_inward(&workload->grid, i);
    *part = (tperf_block_part){
        block->id, block->axes, inward, workload->n_ops, name ? name : block->name, &block->bytes};
}

void tperf_workload_end(tperf_workload *workload, int section) {
    workload->section_end[section] = workload->n_ops;
    workload->part_end[section] = workload->n_parts;
}

void tperf_workload_bytes(const tperf_workload *workload, tperf_layer_cost *costs) {
    size_t part = 0;
    for (int section = 0; section < workload->n_sections; section++) {
        tperf_layer_cost sum = {0};
        bool whole = true;
        for (; part < workload->part_end[section]; part++) {
            const tperf_block_bytes *block = workload->parts[part].bytes;
            tperf_weights_add(&sum.weights, &block->weights, 1);
            tperf_weights_add(&sum.experts, &block->experts, 1);
            tperf_weights_add(&sum.tied, &block->tied, 1);
            sum.saved_bytes += block->saved;
            sum.again_bytes += block->again;
            sum.offload_bytes += block->offload;
            sum.work_bytes = fmax(sum.work_bytes, block->work);
            whole = whole && block->whole;
        }
        sum.input_bytes = whole ? sum.saved_bytes : 0;
        costs[section] = sum;
    }
}

void tperf_workload_work(const tperf_workload *workload, const tperf_platform *on, int64_t panels,
                         tperf_op_work *works) {
    for (size_t i = 0; i < workload->n_ops; i++)
        works[i] = tperf_op_work_of(workload->ops[i], on, panels);
}

// Seconds of a pass's expert exchanges, less the slowdown of kernels beside them.
static double exchanges_of(const tperf_pass *pass, const tperf_platform *on, const int64_t *sizes,
                           const tperf_placement *placement) {
    double sum = 0;
    for (int i = 0; i < pass->n_comms; i++)
        if (pass->comms[i].exchanges)
            sum += (1 - tperf_comm_share(&pass->comms[i], on)) *
                   tperf_comm_time(&pass->comms[i], on, sizes, placement, 1);
    return sum;
}

static double kernels_of(const tperf_pass_cost *pass) {
    return pass->compute + pass->exposed_memory;
}

static bool pass_exchanges(const tperf_pass *pass) {
    for (int i = 0; i < pass->n_comms; i++)
        if (pass->comms[i].exchanges) return true;
    return false;
}

tperf_op_price tperf_op_price_of(const tperf_op *op, const tperf_op_work *work,
                                 const tperf_platform *on) {
    return (tperf_op_price){
        .cost = tperf_op_kernels_of(op, work, on),
        .flops = work->flops,
        .exchanging = pass_exchanges(&op->forward) || pass_exchanges(&op->backward),
    };
}

void tperf_op_price_place(tperf_op_price *price, const tperf_op *op, const tperf_platform *on,
                          const int64_t *sizes, const tperf_placement *placement) {
    tperf_op_cost_place(&price->cost, op, on, sizes, placement);
    if (!price->exchanging) return;
    price->exchanges[0] = exchanges_of(&op->forward, on, sizes, placement);
    price->exchanges[1] = exchanges_of(&op->backward, on, sizes, placement);
}

// Adds an op to its block's expert exchanges.
static void add_exchange(tperf_block_price *block, const tperf_op_price *price) {
    const tperf_op_cost *cost = &price->cost;
    tperf_expert_cost *sum = &block->exchange;
    bool exchange = price->exchanges[0] > 0 || price->exchanges[1] > 0, inside = block->inside;
    double *seconds = inside ? sum->combine : sum->dispatch;
    double *work = inside && !exchange ? sum->inside : sum->outside;
    seconds[0] += price->exchanges[0];
    seconds[1] += price->exchanges[1];
    work[0] += kernels_of(&cost->forward);
    work[1] += kernels_of(&cost->backward);
    if (inside && !exchange) sum->inside_grad += cost->weight_grad;
    if (exchange) block->inside = !inside;
}

void tperf_block_price_add(tperf_block_price *sum, const tperf_op_price *price) {
    tperf_pass_cost_add(&sum->forward, &price->cost.forward, 1);
    tperf_pass_cost_add(&sum->backward, &price->cost.backward, 1);
    sum->weight_grad += price->cost.weight_grad;
    sum->weight_launches += price->cost.weight_launches;
    sum->late_split += price->cost.late_split;
    sum->flops += price->flops;
    add_exchange(sum, price);
}

// The price inside an exchange of ops that exchange nothing themselves.
static tperf_block_price carry_inside(const tperf_block_price *outside) {
    const double *work = outside->exchange.outside;
    tperf_block_price inside = *outside;
    inside.exchange =
        (tperf_expert_cost){.inside = {work[0], work[1]}, .inside_grad = outside->weight_grad};
    inside.inside = true;
    return inside;
}

// Adds a block to its layer's cost.
static void add_block(tperf_layer_cost *sum, const tperf_block_price *block) {
    tperf_pass_cost_add(&sum->forward, &block->forward, 1);
    tperf_pass_cost_add(&sum->backward, &block->backward, 1);
    sum->weight_grad += block->weight_grad;
    sum->weight_launches += block->weight_launches;
    sum->late_split += block->late_split;
    sum->flops += block->flops;
    for (int way = 0; way < 2; way++) {
        sum->exchange.dispatch[way] += block->exchange.dispatch[way];
        sum->exchange.combine[way] += block->exchange.combine[way];
        sum->exchange.inside[way] += block->exchange.inside[way];
        sum->exchange.outside[way] += block->exchange.outside[way];
    }
    sum->exchange.inside_grad += block->exchange.inside_grad;
}

// A layer's pass waits for the part of its launches, and of copies to or from the host, that outlasts it. The host is
// never further ahead than a layer, so that what hides behind a pass is known layer by layer.
static void wait_for_host(tperf_pass_cost *pass, double bytes, const tperf_platform *on) {
    double late = tperf_launch_time(on, pass->launches) - pass->time;
    if (late > 0) {
        pass->host += late;
        pass->time += late;
    }
    if (!(bytes > 0)) return;
    late = tperf_copy_time(on->system, bytes) - pass->time;
    if (!(late > 0)) return;
    pass->offload += late;
    pass->time += late;
}

void tperf_workload_time(const tperf_workload *workload, const tperf_platform *on,
                         const tperf_placement *placement, const tperf_op_work *works,
                         tperf_layer_cost *costs) {
    tperf_workload_bytes(workload, costs);
    tperf_workload_add_times(workload, on, placement, works, costs);
}

// Copies from the host are of what the first half reads.
static void wait_for_hosts(tperf_layer_cost *sum, const tperf_platform *on) {
    tperf_pass_cost input = {.time = sum->backward.time - sum->weight_grad + sum->late_split,
                             .launches = sum->backward.launches - sum->weight_launches};
    wait_for_host(&sum->forward, sum->offload_bytes, on);
    wait_for_host(&sum->backward, sum->offload_bytes, on);
    wait_for_host(&input, sum->offload_bytes, on);
    sum->input_half = input.time;
    sum->weight_half = fmax(sum->weight_grad, tperf_launch_time(on, sum->weight_launches));
}

void tperf_workload_add_times(const tperf_workload *workload, const tperf_platform *on,
                              const tperf_placement *placement, const tperf_op_work *works,
                              tperf_layer_cost *costs) {
    size_t part = 0, i = 0;
    for (int section = 0; section < workload->n_sections; section++) {
        bool inside = false;
        for (; part < workload->part_end[section]; part++) {
            tperf_block_price block = {.inside = inside};
            for (; i < workload->parts[part].end; i++) {
                const tperf_op *op = workload->ops[i];
                tperf_op_work work = works ? works[i] : tperf_op_work_of(op, on, placement->panels);
                tperf_op_price price = tperf_op_price_of(op, &work, on);
                tperf_op_price_place(&price, op, on, workload->sizes, placement);
                tperf_block_price_add(&block, &price);
            }
            add_block(&costs[section], &block);
            inside = block.inside;
        }
        wait_for_hosts(&costs[section], on);
    }
}

void tperf_workload_add_prices(const tperf_workload *workload, const tperf_platform *on,
                               const tperf_either_price *const *prices, tperf_layer_cost *costs) {
    size_t part = 0;
    for (int section = 0; section < workload->n_sections; section++) {
        bool inside = false;
        for (; part < workload->part_end[section]; part++) {
            const tperf_either_price *price = prices[part];
            const tperf_block_price *block = inside ? &price->inside : &price->outside;
            tperf_block_price carried;
            if (inside && !price->exchanging) {
                carried = carry_inside(&price->outside);
                block = &carried;
            }
            add_block(&costs[section], block);
            inside = block->inside;
        }
        wait_for_hosts(&costs[section], on);
    }
}

tperf_status tperf_workload_check_system(const tperf_workload *workload, const tperf_system *system,
                                         tperf_error *error) {
    for (size_t i = 0; i < workload->n_ops; i++) {
        const tperf_op *op = workload->ops[i];
        if (op->offload_bytes > 0 && !(system->host.bandwidth > 0))
            return tperf_error_set(error, TPERF_INVALID,
                                   "op '%s' offloads to the host, whose bandwidth is not given",
                                   op->name);
        bool reaches = system->host.bandwidth > 0 && system->host.efficiency > 0;
        if (op->on_host && !reaches)
            return tperf_error_set(
                error, TPERF_INVALID,
                "op '%s' has its weights on the host, whose bandwidth is not given", op->name);
        if (op->sparse && !system->accelerator.sparse)
            return tperf_error_set(
                error, TPERF_INVALID,
                "op '%s' multiplies sparse weights, and the system does not say "
                "that its matrix units skip the zeros: accelerator.sparse = true",
                op->name);
        bool tensor = op->forward.tensor_flops > 0 || op->backward.tensor_flops > 0;
        bool vector = op->forward.vector_flops > 0 || op->backward.vector_flops > 0;
        tensor = tensor && !(system->accelerator.tensor[op->matrix_dtype] > 0);
        vector = vector && !(system->accelerator.vector[op->dtype] > 0);
        if (tensor || vector)
            return tperf_error_set(
                error, TPERF_INVALID,
                "op '%s' needs the system's accelerator.%s.%s, which is not given", op->name,
                tensor ? "tensor" : "vector",
                tperf_dtype_names[tensor ? op->matrix_dtype : op->dtype]);
    }
    return TPERF_OK;
}
