// op.c: shared by all ops: sizes, collectives, the final check.
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/counts.h"

const char *const tperf_module_names[TPERF_MODULE_COUNT] = {
    "core_attn", "moe_act",        "layernorm",  "mla_up_proj", "mlp",
    "moe",       "shared_experts", "attn_norm",  "mlp_norm",    "qkv_linear",
    "attn_proj", "expert_fc1",     "moe_router", "mlp_act",
};

tperf_op tperf_op_new(const char *name, tperf_dtype dtype) {
    tperf_op op = {.dtype = dtype, .matrix_dtype = dtype};
    snprintf(op.name, sizeof op.name, "%s", name);
    return op;
}

tperf_status tperf_size_check(tperf_error *error, const char *field, int64_t size) {
    if (size >= 0) return TPERF_OK;
    return tperf_error_set(error, TPERF_INVALID, "'%s' must not be negative, got %lld", field,
                           (long long)size);
}

void tperf_pass_communicate(tperf_pass *pass, tperf_collective kind, const char *axis,
                            double bytes) {
    if (!axis || !*axis || bytes == 0) return;
    assert(pass->n_comms < TPERF_COMMS_MAX);
    tperf_comm *comm = &pass->comms[pass->n_comms++];
    comm->kind = kind;
    comm->bytes = bytes;
    snprintf(comm->axis, sizeof comm->axis, "%s", axis);
}

void tperf_pass_communicate_own(tperf_pass *pass, tperf_collective kind, const char *axis,
                                double bytes) {
    int n = pass->n_comms;
    tperf_pass_communicate(pass, kind, axis, bytes);
    if (pass->n_comms > n) pass->comms[n].own = true;
}

void tperf_op_hold(tperf_op *op, double parameters, double element) {
    op->parameters = parameters;
    op->weight_bytes = element * parameters;
}

void tperf_pass_kernel(tperf_pass *pass, tperf_kernel_kind kind, double batch, double m, double n,
                       double k) {
    assert(pass->n_kernels < TPERF_KERNELS_MAX);
    pass->kernels[pass->n_kernels++] =
        (tperf_kernel){.kind = kind, .batch = batch, .m = m, .n = n, .k = k};
}

static bool count_is_sound(double count) {
    return isfinite(count) && count >= 0;
}

static tperf_status validate_pass(const tperf_op *op, const tperf_pass *pass, const char *which,
                                  tperf_error *error) {
    bool sound = count_is_sound(pass->tensor_flops) && count_is_sound(pass->vector_flops) &&
                 count_is_sound(pass->bytes) && count_is_sound(pass->bytes_per_panel) &&
                 count_is_sound(pass->routed) && count_is_sound(pass->host_bytes);
    for (int i = 0; i < pass->n_comms; i++)
        sound = sound && count_is_sound(pass->comms[i].bytes);
    if (sound) return TPERF_OK;
    return tperf_error_set(
        error, TPERF_INVALID,
        "op '%s': a count of its %s pass is negative or not finite; a size that it "
        "is cut from is smaller than the number of GPUs that share it",
        op->name, which);
}

tperf_status tperf_op_validate(const tperf_op *op, tperf_error *error) {
    TPERF_TRY(validate_pass(op, &op->forward, "forward", error));
    TPERF_TRY(validate_pass(op, &op->backward, "backward", error));
    if (count_is_sound(op->weight_bytes) && count_is_sound(op->parameters) &&
        count_is_sound(op->saved_bytes) && count_is_sound(op->repeated_bytes))
        return TPERF_OK;
    return tperf_error_set(
        error, TPERF_INVALID,
        "op '%s': its weight, saved or repeated bytes are negative or not finite", op->name);
}

// Keeps the collectives of a backward pass that serve the parameters' gradients (own), or the others.
static void keep_comms(tperf_pass *pass, bool own) {
    int kept = 0;
    for (int i = 0; i < pass->n_comms; i++)
        if (pass->comms[i].own == own) pass->comms[kept++] = pass->comms[i];
    pass->n_comms = kept;
}

void tperf_op_freeze(tperf_op *op, double element, bool keeps_input) {
    tperf_pass *backward = &op->backward;
    bool stays = op->own_format && element > 0; // 0: others hold them
    if (element >= 0 && !stays) op->weight_bytes = element * op->parameters;
    bool has_any = op->parameters > 0 || op->own.n_kernels > 0;
    if (op->frozen || !has_any) return;
    op->frozen = true;
    backward->tensor_flops -= op->own.tensor_flops;
    backward->vector_flops -= op->own.vector_flops;
    backward->bytes -= op->own.bytes;
    backward->host_bytes -= op->own.host_bytes;
    backward->n_kernels -= op->own.n_kernels;
    if (!keeps_input) op->saved_bytes = fmax(op->saved_bytes - op->own.saved_bytes, 0);
    op->input_bytes = fmin(op->input_bytes, op->saved_bytes);
    keep_comms(backward, false);
    for (int i = 0; i < backward->n_comms && op->own.n_kernels > 0; i++)
        backward->comms[i].beside = false;
    op->own = (tperf_own_gradients){0};
    if (op->stopped) tperf_op_stop(op);
}

void tperf_op_stop(tperf_op *op) {
    tperf_pass *backward = &op->backward;
    op->stopped = true;
    if (op->parameters == 0 || op->frozen) {
        *backward = (tperf_pass){.absent = true};
        op->saved_bytes = op->again_bytes = op->input_bytes = 0;
        op->recomputed = false;
        return;
    }
    int first = backward->n_kernels - op->own.n_kernels;
    for (int i = 0; i < op->own.n_kernels; i++)
        backward->kernels[i] = backward->kernels[first + i];
    backward->n_kernels = op->own.n_kernels;
    backward->tensor_flops = op->own.tensor_flops;
    backward->vector_flops = op->own.vector_flops;
    backward->bytes = op->own.bytes;
    backward->host_bytes = op->own.host_bytes;
    keep_comms(backward, true);
    for (int i = 0; i < backward->n_comms; i++)
        backward->comms[i].beside = false;
}

void tperf_op_recompute(tperf_op *op, double saved_bytes) {
    if (op->backward.absent) return;
    op->recomputed = true;
    op->again_bytes += fmax(op->saved_bytes - saved_bytes, 0);
    op->saved_bytes = saved_bytes;
    op->input_bytes = fmin(op->input_bytes, saved_bytes);
}

void tperf_op_drop_input(tperf_op *op, double part) {
    double bytes = part * op->input_bytes;
    op->again_bytes += bytes;
    op->saved_bytes -= bytes;
    op->input_bytes -= bytes;
}

void tperf_op_repeat(tperf_op *op, double part, double output_bytes) {
    op->recomputed = part > 0;
    op->kept_part = 1 - part;
    op->saved_bytes += output_bytes;
}

int64_t tperf_op_served_kernels(const tperf_op *op) {
    if (op->fused) return 0;
    double wide = tperf_dtype_bytes(op->dtype), narrow = tperf_dtype_bytes(op->matrix_dtype);
    return 1 + op->more_kernels + (op->product.rows > 0 && narrow < wide);
}

void tperf_op_offload(tperf_op *op, bool input_alone) {
    double bytes = input_alone ? op->input_bytes : op->saved_bytes;
    op->offloaded = true;
    op->offload_bytes += bytes;
    op->saved_bytes -= bytes;
    op->input_bytes = 0;
}

static double product_flops(const tperf_pass *pass) {
    double sum = 0;
    for (int i = 0; i < pass->n_kernels; i++) {
        const tperf_kernel *k = &pass->kernels[i];
        if (k->kind == TPERF_KERNEL_GEMM) sum += 2 * k->batch * k->m * k->n * k->k;
    }
    return sum;
}

tperf_model_flops tperf_op_model_flops(const tperf_op *op, bool all_pairs) {
    double forward = all_pairs ? op->pair_flops : op->seen_flops;
    if (forward == 0) forward = product_flops(&op->forward);
    bool by_kernels = forward > 0;
    if (!by_kernels) forward = op->forward.tensor_flops;
    double times = tperf_op_times(op);
    if (op->backward.absent) return (tperf_model_flops){times * forward, 0};
    double backward = by_kernels ? product_flops(&op->backward) : op->backward.tensor_flops;
    if (op->seen_flops > 0) backward = 2 * forward;
    return (tperf_model_flops){times * forward, times * fmin(backward, 2 * forward)};
}

void tperf_op_occur(tperf_op *op, double times) {
    op->times = tperf_op_times(op) * times;
    op->saved_bytes *= times;
    op->input_bytes *= times;
    op->again_bytes *= times;
    op->offload_bytes *= times;
    op->output_bytes *= times;
    op->own.saved_bytes *= times;
}

void tperf_op_to_host(tperf_op *op, double part) {
    double bytes = part * op->weights_read;
    op->on_host = true;
    op->forward.host_bytes = op->own.host_bytes = bytes;
    op->backward.host_bytes = op->table_rows > 0 ? bytes : 2 * bytes;
}

void tperf_op_borrow_input(tperf_op *op) {
    op->saved_bytes -= op->input_bytes;
    op->own.saved_bytes = fmax(op->own.saved_bytes - op->input_bytes, 0);
    op->input_bytes = 0;
}

void tperf_op_lend(tperf_op *op) {
    if (op->product.read_bytes == 0) op->product.read_bytes = op->weight_bytes;
    op->weight_bytes = op->parameters = op->copy_bytes = op->gather_bytes = op->step_bytes = 0;
    int kept = 0;
    for (int i = 0; i < op->backward.n_comms; i++)
        if (!tperf_comm_is_once(&op->backward.comms[i]))
            op->backward.comms[kept++] = op->backward.comms[i];
    op->backward.n_comms = kept;
}

void tperf_op_hold_alone(tperf_op *op) {
    tperf_op alone = {
        .dtype = op->dtype,
        .matrix_dtype = op->matrix_dtype,
        .weight_bytes = op->weight_bytes,
        .parameters = op->parameters,
        .copy_bytes = op->copy_bytes,
        .gather_bytes = op->gather_bytes,
        .step_bytes = op->step_bytes,
        .frozen = op->frozen,
        .expert = op->expert,
        .on_host = op->on_host,
    };
    memcpy(alone.name, op->name, sizeof alone.name);
    for (int i = 0; i < op->backward.n_comms; i++)
        if (tperf_comm_is_once(&op->backward.comms[i]))
            alone.backward.comms[alone.backward.n_comms++] = op->backward.comms[i];
    *op = alone;
}
