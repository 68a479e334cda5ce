// op.c: what every op shares: sizes, collectives, the final check.
#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "op/counts.h"

const char *const tp_module_names[TP_MODULE_COUNT] = {
    "core_attn",      "moe_act",   "layernorm", "mla_up_proj", "mlp",       "moe",
    "shared_experts", "attn_norm", "mlp_norm",  "qkv_linear",  "attn_proj", "expert_fc1",
};

tp_status tp_size_check(tp_error *error, const char *field, int64_t size) {
    if (size >= 0) return TP_OK;
    return tp_error_set(error, TP_INVALID, "'%s' must not be negative, got %lld", field,
                        (long long)size);
}

void tp_pass_communicate(tp_pass *pass, tp_collective kind, const char *axis, double bytes) {
    if (!axis || !*axis || bytes == 0) return;
    assert(pass->n_comms < TP_COMMS_MAX);
    tp_comm *comm = &pass->comms[pass->n_comms++];
    comm->kind = kind;
    comm->bytes = bytes;
    snprintf(comm->axis, sizeof comm->axis, "%s", axis);
}

void tp_pass_communicate_own(tp_pass *pass, tp_collective kind, const char *axis, double bytes) {
    int n = pass->n_comms;
    tp_pass_communicate(pass, kind, axis, bytes);
    if (pass->n_comms > n) pass->comms[n].own = true;
}

void tp_op_hold(tp_op *op, double parameters, double element) {
    op->parameters = parameters;
    op->weight_bytes = element * parameters;
}

void tp_pass_kernel(tp_pass *pass, tp_kernel_kind kind, double batch, double m, double n,
                    double k) {
    assert(pass->n_kernels < TP_KERNELS_MAX);
    pass->kernels[pass->n_kernels++] =
        (tp_kernel){.kind = kind, .batch = batch, .m = m, .n = n, .k = k};
}

static bool count_is_sound(double count) {
    return isfinite(count) && count >= 0;
}

static tp_status validate_pass(const tp_op *op, const tp_pass *pass, const char *which,
                               tp_error *error) {
    bool sound = count_is_sound(pass->tensor_flops) && count_is_sound(pass->vector_flops) &&
                 count_is_sound(pass->bytes) && count_is_sound(pass->bytes_per_panel) &&
                 count_is_sound(pass->routed);
    for (int i = 0; i < pass->n_comms; i++)
        sound = sound && count_is_sound(pass->comms[i].bytes);
    if (sound) return TP_OK;
    return tp_error_set(error, TP_INVALID,
                        "op '%s': a count of its %s pass is negative or not finite; a size that it "
                        "is cut from is smaller than the number of GPUs that share it",
                        op->name, which);
}

tp_status tp_op_validate(const tp_op *op, tp_error *error) {
    TP_TRY(validate_pass(op, &op->forward, "forward", error));
    TP_TRY(validate_pass(op, &op->backward, "backward", error));
    if (count_is_sound(op->weight_bytes) && count_is_sound(op->parameters) &&
        count_is_sound(op->saved_bytes) && count_is_sound(op->repeated_bytes))
        return TP_OK;
    return tp_error_set(error, TP_INVALID,
                        "op '%s': its weight, saved or repeated bytes are negative or not finite",
                        op->name);
}

// Keeps the collectives of a backward pass that are for the gradients of parameters, or those that are not.
static void keep_comms(tp_pass *pass, bool own) {
    int kept = 0;
    for (int i = 0; i < pass->n_comms; i++)
        if (pass->comms[i].own == own) pass->comms[kept++] = pass->comms[i];
    pass->n_comms = kept;
}

void tp_op_freeze(tp_op *op, double element, bool keeps_input) {
    tp_pass *backward = &op->backward;
    if (element >= 0) op->weight_bytes = element * op->parameters;
    bool has_any = op->parameters > 0 || op->own.n_kernels > 0;
    if (op->frozen || !has_any) return;
    op->frozen = true;
    backward->tensor_flops -= op->own.tensor_flops;
    backward->vector_flops -= op->own.vector_flops;
    backward->bytes -= op->own.bytes;
    backward->n_kernels -= op->own.n_kernels;
    if (!keeps_input) op->saved_bytes = fmax(op->saved_bytes - op->own.saved_bytes, 0);
    op->input_bytes = fmin(op->input_bytes, op->saved_bytes);
    keep_comms(backward, false);
    for (int i = 0; i < backward->n_comms && op->own.n_kernels > 0; i++)
        backward->comms[i].beside = false;
    op->own = (tp_own_gradients){0};
    if (op->stopped) tp_op_stop(op);
}

void tp_op_stop(tp_op *op) {
    tp_pass *backward = &op->backward;
    op->stopped = true;
    if (op->parameters == 0 || op->frozen) {
        *backward = (tp_pass){.absent = true};
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
    keep_comms(backward, true);
    for (int i = 0; i < backward->n_comms; i++)
        backward->comms[i].beside = false;
}

void tp_op_recompute(tp_op *op, double saved_bytes) {
    if (op->backward.absent) return;
    op->recomputed = true;
    op->again_bytes += fmax(op->saved_bytes - saved_bytes, 0);
    op->saved_bytes = saved_bytes;
    op->input_bytes = fmin(op->input_bytes, saved_bytes);
}

void tp_op_drop_input(tp_op *op, double part) {
    double bytes = part * op->input_bytes;
    op->again_bytes += bytes;
    op->saved_bytes -= bytes;
    op->input_bytes -= bytes;
}

void tp_op_repeat(tp_op *op, double part, double output_bytes) {
    op->recomputed = part > 0;
    op->kept_part = 1 - part;
    op->saved_bytes += output_bytes;
}

void tp_op_offload(tp_op *op, bool input_alone) {
    double bytes = input_alone ? op->input_bytes : op->saved_bytes;
    op->offload_bytes += bytes;
    op->saved_bytes -= bytes;
    op->input_bytes = 0;
}
