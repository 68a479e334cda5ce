"""The questions, one function each. Written by tools/write_python.lua from the registry of arguments."""

from __future__ import annotations

from typing import Any, Literal, Mapping, Sequence

from tperf.answer import Answer
from tperf.engine import ask

__all__ = ["infer", "rl", "search", "serve", "train"]


def _ask(name, given):
    fields = given.pop("fields")
    given.update(given.pop("more"))
    given = {key: value for key, value in given.items() if value is not None}
    question = {"ask": name, "with": given}
    if fields is not None:
        question["fields"] = list(fields)
    return ask(question)


def infer(
    *,
    generate: int,
    model: Any,
    prompt: int,
    system: Any,
    attention: Literal["flash", "unfused"] | None = None,
    batch: int | None = None,
    compute_dtype: Literal["bf16", "fp16", "fp8", "int8", "fp4"] | None = None,
    cp: int | None = None,
    cp_kind: Literal["all_gather", "ring", "all_to_all"] | None = None,
    dp: int | None = None,
    ep: int | None = None,
    etp: int | None = None,
    gpu_hour: float | None = None,
    kv_dtype: Literal["fp32", "fp16", "bf16", "fp8", "int8", "fp4", "int4"] | None = None,
    logits: Literal["last", "all"] | None = None,
    moe_dispatcher: Literal["alltoall", "allgather", "deepep", "hybridep"] | None = None,
    placement: Literal["stack", "best"] | None = None,
    pp: int | None = None,
    precision: Literal["bf16", "fp16", "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4", "fp8-tensorwise", "fp8-rowwise", "int8"] | Mapping[str, Any] | None = None,
    prefill_batch: int | None = None,
    rank_order: str | None = None,
    reserve: float | None = None,
    rules: Any | None = None,
    sequence_parallel: bool | None = None,
    software: Any | None = None,
    state_dtype: Literal["fp32", "bf16", "fp16"] | None = None,
    strategy: Any | None = None,
    tp: int | None = None,
    tp1: int | None = None,
    tp2: int | None = None,
    ulysses: int | None = None,
    weight_dtype: Literal["fp32", "fp16", "bf16", "fp8", "int8", "fp4", "int4", "iq4_nl", "iq4_xs", "mxfp4", "q2_k", "q3_k_l", "q3_k_m", "q3_k_s", "q4_0", "q4_1", "q4_k_m", "q4_k_s", "q5_0", "q5_1", "q5_k_m", "q5_k_s", "q6_k", "q8_0"] | None = None,
    fields: Sequence[str] | None = None,
    **more: Any,
) -> Answer:
    """Latency, throughput and memory of serving a fixed batch.

    generate: output tokens of a request
    model: a name, a file or a table
    prompt: input tokens of a request
    system: the system (`tperf list systems`, or a file)
    attention: flash (default) or unfused
    batch: sequences that one replica decodes at a time
    compute_dtype: dtype of products with weights (default: likewise)
    cp: context parallelism: the sequence
    cp_kind: how keys and values are exchanged
    dp: replicas (default: as many as share experts). Those that share experts run in step.
    ep: expert parallelism: GPUs that share the experts
    etp: GPUs that cut each expert
    gpu_hour: dollars per GPU-hour (the system's)
    kv_dtype: dtype of the KV cache (default bf16)
    logits: of which tokens of a prompt: last (default) or all. all: for the probabilities of a prompt's own
        tokens (vLLM's prompt_logprobs, scoring), without their softmax.
    moe_dispatcher: how tokens reach their experts
    placement: stack: in the engine's order of ranks (default); best: the fastest. Rules without
        `ranks_in_order` try every placement.
    pp: pipeline parallelism: stages
    precision: of layers: fp8-block, mxfp8 (default: the checkpoint's). A recipe's name or a table, as for
        tperf.train; scales are counted.
    prefill_batch: prompts that a replica prefills at a time (default 1)
    rank_order: neighbours first (default tp-cp-pp-dp, or the engine's)
    reserve: part of the memory to keep free (default 0.1)
    rules: modelling rules (`tperf list rules`)
    sequence_parallel: tp also shards the residual stream of prompts by tokens
    software: none, the only choice: kernels as timed in isolation
    state_dtype: dtype of recurrent layers' states (default: the model's or engine's)
    strategy: how a layer is split (default tensor). By default the first strategy that has the axes given.
        Searches take a list, or "all", which ranks them together.
    tp: tensor parallelism: heads and features
    tp1: columns of weights
    tp2: rows of weights
    ulysses: context parallelism by all-to-all, inside cp
    weight_dtype: dtype or GGUF mix of the stored weights (default: likewise)
    fields: the figures wanted, such as memory.total; all by default, op by op
    more: arguments of strategies of your own
    """
    return _ask("infer", locals())


def rl(
    *,
    gpus: int,
    model: Any,
    prompt: int,
    prompts: int,
    system: Any,
    algorithm: Literal["grpo", "dapo", "rloo", "ppo", "opd"] | None = None,
    epochs: int | None = None,
    gpu_hour: float | None = None,
    mini: int | None = None,
    mode: Literal["colocated", "split", "async"] | None = None,
    old: Literal["recompute", "none"] | None = None,
    packing: bool | None = None,
    park: bool | None = None,
    pass_rate: float | None = None,
    ref: bool | None = None,
    refit: Literal["auto", "ipc", "nccl", "broadcast", "reshard", "disk"] | None = None,
    response: int | Mapping[str, Any] | None = None,
    reward_time: float | str | None = None,
    rollout: Mapping[str, Any] | None = None,
    rules: Any | None = None,
    samples: int | None = None,
    sandboxes: int | None = None,
    seed: int | None = None,
    staleness: int | None = None,
    steps: int | None = None,
    tokens_per_gpu: int | None = None,
    tool_time: float | str | None = None,
    train: Mapping[str, Any] | None = None,
    train_gpus: int | None = None,
    turns: int | None = None,
    fields: Sequence[str] | None = None,
    **more: Any,
) -> Answer:
    """One step of reinforcement learning: its time, phases and memory.

    gpus: GPUs in all
    model: a name, a file or a table
    prompt: tokens of a prompt, on average
    prompts: prompts of a step
    system: the system (`tperf list systems`, or a file)
    algorithm: grpo (default), dapo, rloo, ppo (with a critic) or opd. opd: on-policy distillation, whose
        teacher is a reference as large as the model.
    epochs: times that a step's responses are trained on (default 1)
    gpu_hour: dollars per GPU-hour (the system's)
    mini: responses of an optimizer step (default: all of the step)
    mode: colocated (default), split, or async. By default what `staleness` (async) and `train_gpus` (split)
        ask for.
    old: log-probabilities of the old policy: recompute or none. none: the engine's own are taken, or
        training is strictly on policy.
    packing: one response in each micro-batch
    park: keep the trainer's weights and states on the GPU
    pass_rate: dynamic sampling: part of the prompts that is kept
    ref: whether a reference's log-probabilities are computed. By default of grpo, ppo and opd: dapo and
        rloo have no KL term.
    refit: how weights reach the engine (default: ipc or nccl). auto: ipc if colocated, else nccl. nccl: in
        buckets through all GPUs, as verl does; broadcast: as fast as one GPU's network sends, as NeMo-RL
        does; reshard: each GPU its own part.
    response: mean=,cv=,max=,clip= of responses, or one length. { mean =, cv =, max = longest, clip = part
        of them that is cut there, values = { … } of a trace }. With only max the answer is a range.
    reward_time: time of the rewards of a step
    rollout: an object of attention_dp, cp, cp_kind, ep, etp, kv_dtype, max_cudagraph_capture_size,
        max_num_seqs, memory_utilization, moe_dispatcher, pp, precision, software, tp, tp1, tp2, ulysses,
        weight_dtype
    rules: modelling rules (`tperf list rules`)
    samples: responses to each prompt (default 1)
    sandboxes: tools that run at once (default: as many as needed)
    seed: random seed (default 1)
    staleness: steps by which a rollout's weights may be old (async: 1)
    steps: steps of the run: adds hours and dollars
    tokens_per_gpu: token budget of a packed micro-batch (default: the longest)
    tool_time: time of the tools in each turn
    train: an object of cp, cp_kind, ep, etp, moe_dispatcher, offload_optimizer, overlap_tp, pp, precision,
        recompute, shard, software, tp, tp1, tp2, ulysses, zero
    train_gpus: GPUs of them that train, if the pools are apart (default: half)
    turns: turns of a trajectory, with tool_time between (default 1)
    fields: the figures wanted, such as memory.total; all by default, op by op
    more: arguments of strategies of your own
    """
    return _ask("rl", locals())


def search(
    *,
    global_batch: int,
    model: Any,
    system: Any,
    account_for_embedding: bool | None = None,
    account_for_loss: bool | None = None,
    attention: Literal["flash", "unfused", "recompute", "summa"] | None = None,
    bucket_size: float | None = None,
    compile: bool | None = None,
    cp: int | Sequence[int] | None = None,
    cp_kind: Literal["all_gather", "ring", "all_to_all"] | Sequence[Literal["all_gather", "ring", "all_to_all"]] | None = None,
    cuda_graphs: Literal["attn", "mlp", "mamba", "moe_router", "moe", "layer", "full_iteration"] | Sequence[Literal["attn", "mlp", "mamba", "moe_router", "moe", "layer", "full_iteration"]] | None = None,
    data_overlap: bool | None = None,
    delay_wgrad: bool | None = None,
    dp: int | Sequence[int] | None = None,
    ep: int | Sequence[int] | None = None,
    etp: int | Sequence[int] | None = None,
    fast: Any | None = None,
    first_stage_layers: int | None = None,
    frozen: Sequence[str] | None = None,
    gpus: int | Sequence[int] | None = None,
    gradient_reduce: Literal["reduce_scatter", "all_reduce"] | None = None,
    gradient_shard: bool | None = None,
    gradients: Literal["fp32", "bf16", "fp16"] | None = None,
    imbalance: float | None = None,
    infeasible: bool | None = None,
    keep: Literal["all", "best"] | None = None,
    last_stage_layers: int | None = None,
    loss: Literal["in-place", "native", "fused", "copied", "pytorch", "pytorch-16bit", "compiled", "chunked", "chunked-logits", "fused-linear"] | None = None,
    master: Literal["fp32", "bf16", "none"] | None = None,
    micro_batch: int | Sequence[int] | None = None,
    minimize: Any | None = None,
    moe_dispatcher: Literal["alltoall", "allgather", "deepep", "hybridep"] | Sequence[Literal["alltoall", "allgather", "deepep", "hybridep"]] | None = None,
    moments: Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4"] | None = None,
    objective: Literal["next_token", "dpo"] | None = None,
    offload_layers: int | None = None,
    offload_modules: Literal["attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"] | Sequence[Literal["attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"]] | None = None,
    offload_optimizer: float | None = None,
    offload_params: bool | None = None,
    optimizer: Literal["adafactor", "adam", "adam_8bit", "adamw", "adamw_8bit", "lion", "muon", "sgd", "sgd_without_momentum"] | None = None,
    overlap_grad_reduce: bool | None = None,
    overlap_moe_a2a: bool | None = None,
    overlap_p2p: bool | None = None,
    overlap_param_gather: bool | None = None,
    overlap_param_gather_with_optimizer_step: bool | None = None,
    overlap_shared_experts: bool | None = None,
    overlap_tp: Literal["bulk", "none", "ring", "async"] | Sequence[Literal["bulk", "none", "ring", "async"]] | None = None,
    packing: Any | None = None,
    panels: int | Sequence[int] | None = None,
    peft: Mapping[str, Any] | None = None,
    pipeline_layout: str | Sequence[int] | None = None,
    placement: Literal["stack", "best"] | None = None,
    pp: int | Sequence[int] | None = None,
    precision: Literal["bf16", "fp16", "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4", "fp8-tensorwise", "fp8-rowwise", "int8"] | Mapping[str, Any] | None = None,
    prune: bool | None = None,
    rank_order: str | None = None,
    recompute: Literal["none", "selective", "full"] | Sequence[Literal["none", "selective", "full"]] | None = None,
    recompute_keep: Literal["input", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "mlp_act", "expert_fc1", "moe_act"] | Sequence[Literal["input", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "mlp_act", "expert_fc1", "moe_act"]] | None = None,
    recompute_layers: int | None = None,
    recompute_method: Literal["uniform", "block", "every"] | None = None,
    recompute_modules: Literal["core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "op"] | Sequence[Literal["core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "op"]] | None = None,
    recompute_num_layers: int | None = None,
    reference: Literal["resident", "precomputed"] | None = None,
    reserve: float | None = None,
    reshard_after_forward: bool | None = None,
    routing: Literal["balanced", "pretraining", "mock", "finetuning"] | None = None,
    rules: Any | None = None,
    schedule: str | Sequence[str] | None = None,
    seq: int | None = None,
    sequence_parallel: bool | Sequence[bool] | None = None,
    shard: int | Sequence[int] | None = None,
    sharding: Literal["megatron", "deepspeed", "fsdp"] | None = None,
    simulate: bool | None = None,
    software: Any | None = None,
    strategy: Any | None = None,
    threads: int | None = None,
    top: int | None = None,
    tp: int | Sequence[int] | None = None,
    tp1: int | Sequence[int] | None = None,
    tp2: int | Sequence[int] | None = None,
    ulysses: int | Sequence[int] | None = None,
    virtual_stages: int | Sequence[int] | None = None,
    weights: Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4"] | None = None,
    zero: int | Sequence[int] | None = None,
    fields: Sequence[str] | None = None,
    **more: Any,
) -> Answer:
    """The fastest layouts to train a model; `rows` are ranked, best first.

    global_batch: global batch, in sequences
    model: a name, a file or a table
    system: the system (`tperf list systems`, or a file). A name, a file or a table; tperf.search takes a
        list of them, too.
    account_for_embedding: count the embedding as a layer when layers are placed
    account_for_loss: count the head and the loss as a layer, likewise
    attention: flash (default), unfused, recompute or summa
    bucket_size: parameters that are gathered or reduced together. Megatron-LM's --ddp-bucket-size; by
        default the larger of 40 million and a million for each replica.
    compile: false: PyTorch's eager kernels, which fuse no norms, rotations or gates. See section 2.5 of
        docs/model.md. true: a compiler or the stack's own kernels fuse them.
    cp: context parallelism: the sequence
    cp_kind: how keys and values are exchanged
    cuda_graphs: launched as graphs: attn, mlp, mamba, moe_router, layer .... See docs/parallelism.md.
    data_overlap: false: exchanges with replicas do not overlap with passes
    delay_wgrad: delay experts' weight gradients to hide more of their all-to-alls. They wait until the
        exchange has started (Megatron-LM's --delay-wgrad-compute).
    dp: data parallelism
    ep: expert parallelism: GPUs that share the experts
    etp: GPUs that cut each expert
    fast: GPUs of each axis in one fast domain. { tp =, dp =, pp = }, in place of the order of ranks; axes
        that are left open are placed as is fastest.
    first_stage_layers: layers of the first device. The other devices share the rest evenly.
    frozen: parts not trained: embedding, head, layers:1-20, mlp .... Also "layers", a block, or the key of
        a group of layers.
    gpus: GPUs. Of tperf.train, dp and gpus follow from each other.
    gradient_reduce: how ZeRO 1 reduces gradients (as the software does). DeepSpeed's BF16_Optimizer reduces
        them with all_reduce in pipelines.
    gradient_shard: keep the optimizer's shard of the gradients in fp32 (as the stack does)
    gradients: dtype of the gradients in memory (the software's, or fp32)
    imbalance: rows of the busiest GPU's experts over the mean (as routing)
    infeasible: also rank what does not fit
    keep: all: every candidate, feasible or not, ranked by closed forms
    last_stage_layers: layers of the last device
    loss: what cross-entropy keeps (the software's, or in-place). See tperf.software.
    master: the optimizer's copy of the weights (fp32 for shorter weights)
    micro_batch: sequences per micro-batch
    minimize: what to rank by: time (default), memory, dollars or energy of an iteration
    moe_dispatcher: how tokens reach their experts
    moments: dtype of the optimizer's moments (the optimizer's)
    objective: next_token (default), or dpo, whose samples are pairs of sequences. A frozen reference model
        runs both sequences of a pair, too.
    offload_layers: first layers of each chunk whose activations the host holds
    offload_modules: modules whose inputs the host holds: core_attn, moe_act .... See docs/memory.md.
    offload_optimizer: part of the optimizer's states that the host holds and updates
    offload_params: the host holds the shards of weights and all of the optimizer (ZeRO 3)
    optimizer: adam (default), adamw, adam_8bit, adafactor, lion, muon, sgd ...
    overlap_grad_reduce: reduce gradients in buckets during the backward pass (as the software)
    overlap_moe_a2a: hide expert all-to-alls behind another micro-batch's opposite pass. Megatron-LM's
        --overlap-moe-expert-parallel-comm. Schedules 1f1b and interleaved_1f1b pair passes for it;
        schedules that already overlap then hide only these collectives.
    overlap_p2p: send between interleaved stages while GPUs compute (as the software). Megatron-LM's
        default, which --no-overlap-p2p-communication turns off.
    overlap_param_gather: gather weights during the forward pass (as the software)
    overlap_param_gather_with_optimizer_step: gather the first bucket's weights during the optimizer's step
    overlap_shared_experts: run shared experts beside their own micro-batch's all-to-alls. The first product
        beside the dispatch, the last beside the combine (Megatron-LM's --moe-shared-expert-overlap, and
        refused where it refuses it).
    overlap_tp: its collectives' overlap with products
    packing: sequences are packed with documents of so many tokens on average. { mean = tokens } or {
        lengths = { … } }.
    panels: panels of a SUMMA multiplication. By default the fastest number.
    peft: adapters beside frozen weights: lora or qlora. { kind, bits, rank, alpha, targets, experts,
        dropout, rest, a2a, fused }. bits of qlora's weights are 4 or 8 (LLM.int8()); rest is the dtype of
        what it does not quantise: fp32, as PEFT's prepare_model_for_kbit_training makes it, or bf16, as
        qlora.py. experts = { targets, bits } is for routed experts that are one parameter, which targets do
        not name. Targets are Megatron-Bridge's names (linear_qkv …), Hugging Face PEFT's (q_proj …), or
        "all-linear"; by default rank 32 and the four of Megatron-Bridge's LoRA (docs/finetuning.md).
    pipeline_layout: layers of each stage: Megatron-LM's layout string, or 7,8,8,7. In "Et*3|(tt|)*29m|L", E
        is the embedding, t a layer, m a module of multi-token prediction, L the head and the loss, and |
        ends a stage. Stages are in the order of the model; virtual stages go round the devices.
    placement: stack: in its order of ranks (default); best: as is fastest. Rules without `ranks_in_order`
        try every placement.
    pp: pipeline parallelism: stages
    precision: of matrix products: bf16 (default), fp8-block, mxfp8 .... A recipe's name or a table
        (docs/model.md, section 1.10).
    prune: false: also time what bounds rule out
    rank_order: neighbours first: tp-cp-ep-dp-pp (the software's). An axis of the strategy that is not in it
        lies beside the one before it.
    recompute: none, selective or full. With unfused attention a search tries all three.
    recompute_keep: of selective recomputation: tensors that alone are kept: core_attn .... Tensors that a
        compiled layer keeps, by the module that reads them, or input, its own alone; docs/memory.md has
        MaxText's names.
    recompute_layers: older name of recompute_num_layers, under uniform
    recompute_method: of full recomputation: uniform (default), block or every. uniform: each group of
        recompute_num_layers layers keeps one input; block: the first so many layers of each chunk; every:
        every so many (docs/memory.md).
    recompute_modules: of selective recomputation: core_attn, mlp, moe, moe_act, layernorm .... See
        docs/memory.md.
    recompute_num_layers: layers recomputed as one (uniform), of each chunk (block), apart (every)
    reference: of dpo: its weights are resident (default), or its outputs precomputed. Adapters share the
        policy's weights.
    reserve: part of the memory to keep free, such as 0.1
    reshard_after_forward: false: ZeRO 3 keeps gathered weights until the backward pass. In a pipeline until
        the last one, like torchtitan's fsdp_reshard_after_forward = "never".
    routing: load of experts: balanced, pretraining, mock or finetuning. balanced: as benchmarks force it.
        pretraining: on text. mock: on random tokens. finetuning: on data of one kind, without a loss that
        balances it; docs/model.md, section 2.3, says how unequal each is.
    rules: modelling rules (`tperf list rules`). "default", "subramanian2024" or a table, see tperf.rules.
    schedule: pipeline schedules. "any" is each that has a closed form; a schedule without one, such as a
        custom schedule, is ranked by simulation.
    seq: sequence length (default: the model's)
    sequence_parallel: yes or no
    shard: replicas that ZeRO shards over: hybrid shards
    sharding: whose ZeRO: megatron (default), deepspeed or fsdp. What each keeps of a parameter, see
        docs/memory.md: the default of weights and gradients.
    simulate: true: rank by simulation, pass by pass; false: never
    software: training stack (default: by the layout; none: no stack). A profile's name, a file or a table,
        see tperf.software. By default the commonest stack that does what the arguments say, with `typical`
        numbers: on TPUs MaxText; one part per layer: with adapters in 16 bits transformers-4, with an
        optimizer on the host deepspeed-2026, under ZeRO 3 fsdp2-2026; ZeRO 1 and 2 over some replicas:
        internevo-0.5; else megatron-core-2026; eager kernels: typical. "none" is the default of rules
        without `typical_software`.
    strategy: how a layer is split (`tperf list strategies`; default tensor). By default the first strategy
        that has the axes given. tperf.search takes "all", too, and ranks them together.
    threads: number of threads (default: one per usable processor)
    top: how many to return
    tp: tensor parallelism: heads and features
    tp1: 2-D tensor parallelism: features, columns of weights
    tp2: 2-D tensor parallelism: the sequence, rows of weights
    ulysses: context parallelism by all-to-all, inside cp
    virtual_stages: chunks of layers per device, if interleaved. A search tries those that deal the layers
        out evenly.
    weights: dtype of the weights in memory (the software's, or bf16)
    zero: ZeRO stage, 0 to 3
    fields: the figures wanted, such as memory.total; all by default, op by op
    more: arguments of strategies of your own
    """
    return _ask("search", locals())


def serve(
    *,
    attention: Literal["fused", "portable"] | None = None,
    attention_dp: int | None = None,
    cold: bool | None = None,
    compute_dtype: Literal["bf16", "fp16", "fp8", "int8", "fp4"] | None = None,
    count: int | None = None,
    cp: int | None = None,
    cp_kind: Literal["all_gather", "ring", "all_to_all"] | None = None,
    engine: Mapping[str, Any] | None = None,
    ep: int | None = None,
    etp: int | None = None,
    experts: Literal["fused", "grouped", "portable"] | None = None,
    gpu_hour: float | None = None,
    host: Mapping[str, Any] | None = None,
    keep: Literal["requests", "steps"] | None = None,
    kv_dtype: Literal["fp32", "fp16", "bf16", "fp8", "int8", "fp4", "int4"] | None = None,
    load: Mapping[str, Any] | None = None,
    memory_utilization: float | None = None,
    model: Any | None = None,
    moe_dispatcher: Literal["alltoall", "allgather", "deepep", "hybridep"] | None = None,
    output: int | Mapping[str, Any] | None = None,
    placement: Literal["stack", "best"] | None = None,
    pp: int | None = None,
    precision: Literal["bf16", "fp16", "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4", "fp8-tensorwise", "fp8-rowwise", "int8"] | Mapping[str, Any] | None = None,
    prefix: Mapping[str, Any] | None = None,
    prompt: int | Mapping[str, Any] | None = None,
    rank_order: str | None = None,
    replicas: int | None = None,
    requests: Any | None = None,
    router: Literal["round_robin", "least_loaded", "prefix"] | None = None,
    rules: Any | None = None,
    sampling: Literal["greedy", "random", "top_p", "none"] | None = None,
    seed: int | None = None,
    slo: Mapping[str, Any] | None = None,
    software: Any | None = None,
    state_dtype: Literal["fp32", "bf16", "fp16"] | None = None,
    step_time: Mapping[str, Any] | None = None,
    strategy: Any | None = None,
    system: Any | None = None,
    threads: int | None = None,
    tp: int | None = None,
    tp1: int | None = None,
    tp2: int | None = None,
    ulysses: int | None = None,
    weight_dtype: Literal["fp32", "fp16", "bf16", "fp8", "int8", "fp4", "int4", "iq4_nl", "iq4_xs", "mxfp4", "q2_k", "q3_k_l", "q3_k_m", "q3_k_s", "q4_0", "q4_1", "q4_k_m", "q4_k_s", "q5_0", "q5_1", "q5_k_m", "q5_k_s", "q6_k", "q8_0"] | None = None,
    fields: Sequence[str] | None = None,
    **more: Any,
) -> Answer:
    """A simulation of a serving engine under a load.

    attention: kernels of attention: fused (default), or portable (Triton). As with SGLang's
        --attention-backend triton: they take several times as long, and windows as long as none.
    attention_dp: data-parallel attention ranks per replica (default 1). Each has its own queue and cache
        and the GPUs of the axes; they step together, and experts are spread over them. Without it, as many
        replicas as ep and etp span are ranks.
    cold: the engine has just started: it compiles kernels as steps need them. They take its profile's
        `compile`.
    compute_dtype: dtype of products with weights (default: likewise)
    count: number of random requests (default: until figures settle). From 1,000 on, until twice as many
        give the same rates and percentiles.
    cp: context parallelism: the sequence
    cp_kind: how keys and values are exchanged
    engine: an object of async_scheduling, batch_wait_max_tokens_ratio, batch_wait_timeout_iters,
        block_size, chunked_prefill, front_ends, groups, kv_cache_memory, long_prefill_token_threshold,
        max_cudagraph_capture_size, max_model_len, max_num_batched_tokens, max_num_seqs, mixed_chunk,
        num_blocks, policy, pooled, prefix_caching, receive_interval, reserved, scheduler, speculation,
        swa_full_tokens_ratio
    ep: expert parallelism: GPUs that share the experts
    etp: GPUs that cut each expert
    experts: kernels of experts (default: the engine's). fused: FlashInfer's TensorRT-LLM kernels on
        Blackwell; portable: Triton, where the system has a curve for them; grouped: CUTLASS, DeepGEMM.
    gpu_hour: dollars per GPU-hour (the system's)
    host: host times: front_end, front_end_token, step, request, token. In seconds: for each request in the
        front end's event loop, for each token of its prompt in the tokenizer, for each step, for each
        request and each token in a step (the engine's; 0 for fields left out).
    keep: the records to return: "requests", or "steps" for both
    kv_dtype: dtype of the KV cache (default bf16)
    load: an object of burst, concurrency, cv, process, rate, stages, think
    memory_utilization: fraction of the memory for the engine (default: the engine's). engine.num_blocks
        follows from it.
    model: a name, a file or a table
    moe_dispatcher: how tokens reach their experts
    output: the same for answers
    placement: stack: in the engine's order of ranks (default); best: the fastest. Rules without
        `ranks_in_order` try every placement.
    pp: pipeline parallelism: stages
    precision: of layers: fp8-block, mxfp8 (default: the checkpoint's). A recipe's name or a table, as for
        tperf.train; scales are counted.
    prefix: a shared prefix before each prompt, the same within a group: { tokens =, groups = }
    prompt: 512, 100..2000, mean=500 (exponential), mean=500,cv=1 (lognormal). Tokens, or { uniform = { 100,
        200 } }, { lognormal = { median =, sigma = } } (or mean and cv), { exponential = mean }, { values =
        { … } }, each with min and max.
    rank_order: neighbours first (default tp-cp-pp-dp, or the engine's)
    replicas: engines behind a router (default 1)
    requests: the requests: CSV or JSON lines. A file, or a list of { arrival =, prompt =, output =,
        priority =, segments = }.
    router: round_robin (default), least_loaded or prefix. prefix: the longest cached prefix.
    rules: modelling rules (`tperf list rules`)
    sampling: how tokens are sampled (default greedy). "none" takes no time.
    seed: random seed (default 1)
    slo: limits of ttft, tpot and e2e, such as ttft=500ms,tpot=30ms. In seconds; quantile: the part of
        requests that must keep them (0.99).
    software: the engine: vllm (default), sglang, tensorrt-llm. The newest release of it, one by name
        ("vllm-0.11"), a file or a table, see tperf.software.
    state_dtype: dtype of recurrent layers' states (default: the model's or engine's)
    step_time: or: fixed, per_token, per_context_token, per_prefill_pair. In place of a model: seconds of a
        step, and for each token that it computes, each key that a decode reads, each pair of a query and a
        key in a prefill.
    strategy: how a layer is split (default tensor). By default the first strategy that has the axes given.
        Searches take a list, or "all", which ranks them together.
    system: the system (`tperf list systems`, or a file)
    threads: threads (default: one per usable core). The result does not depend on it.
    tp: tensor parallelism: heads and features
    tp1: columns of weights
    tp2: rows of weights
    ulysses: context parallelism by all-to-all, inside cp
    weight_dtype: dtype or GGUF mix of the stored weights (default: likewise)
    fields: the figures wanted, such as memory.total; all by default, op by op
    more: arguments of strategies of your own
    """
    return _ask("serve", locals())


def train(
    *,
    global_batch: int,
    model: Any,
    system: Any,
    account_for_embedding: bool | None = None,
    account_for_loss: bool | None = None,
    attention: Literal["flash", "unfused", "recompute", "summa"] | None = None,
    bucket_size: float | None = None,
    compile: bool | None = None,
    cp: int | None = None,
    cp_kind: Literal["all_gather", "ring", "all_to_all"] | None = None,
    cuda_graphs: Literal["attn", "mlp", "mamba", "moe_router", "moe", "layer", "full_iteration"] | Sequence[Literal["attn", "mlp", "mamba", "moe_router", "moe", "layer", "full_iteration"]] | None = None,
    data_overlap: bool | None = None,
    delay_wgrad: bool | None = None,
    dp: int | None = None,
    ep: int | None = None,
    etp: int | None = None,
    fast: Any | None = None,
    first_stage_layers: int | None = None,
    frozen: Sequence[str] | None = None,
    gpus: int | None = None,
    gradient_reduce: Literal["reduce_scatter", "all_reduce"] | None = None,
    gradient_shard: bool | None = None,
    gradients: Literal["fp32", "bf16", "fp16"] | None = None,
    imbalance: float | None = None,
    last_stage_layers: int | None = None,
    loss: Literal["in-place", "native", "fused", "copied", "pytorch", "pytorch-16bit", "compiled", "chunked", "chunked-logits", "fused-linear"] | None = None,
    master: Literal["fp32", "bf16", "none"] | None = None,
    micro_batch: int | None = None,
    moe_dispatcher: Literal["alltoall", "allgather", "deepep", "hybridep"] | None = None,
    moments: Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4"] | None = None,
    objective: Literal["next_token", "dpo"] | None = None,
    offload_layers: int | None = None,
    offload_modules: Literal["attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"] | Sequence[Literal["attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"]] | None = None,
    offload_optimizer: float | None = None,
    offload_params: bool | None = None,
    optimizer: Literal["adafactor", "adam", "adam_8bit", "adamw", "adamw_8bit", "lion", "muon", "sgd", "sgd_without_momentum"] | None = None,
    overlap_grad_reduce: bool | None = None,
    overlap_moe_a2a: bool | None = None,
    overlap_p2p: bool | None = None,
    overlap_param_gather: bool | None = None,
    overlap_param_gather_with_optimizer_step: bool | None = None,
    overlap_shared_experts: bool | None = None,
    overlap_tp: Literal["bulk", "none", "ring", "async"] | None = None,
    packing: Any | None = None,
    panels: int | None = None,
    peft: Mapping[str, Any] | None = None,
    pipeline_layout: str | Sequence[int] | None = None,
    placement: Literal["stack", "best"] | None = None,
    pp: int | None = None,
    precision: Literal["bf16", "fp16", "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4", "fp8-tensorwise", "fp8-rowwise", "int8"] | Mapping[str, Any] | None = None,
    rank_order: str | None = None,
    recompute: Literal["none", "selective", "full"] | None = None,
    recompute_keep: Literal["input", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "mlp_act", "expert_fc1", "moe_act"] | Sequence[Literal["input", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "mlp_act", "expert_fc1", "moe_act"]] | None = None,
    recompute_layers: int | None = None,
    recompute_method: Literal["uniform", "block", "every"] | None = None,
    recompute_modules: Literal["core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "op"] | Sequence[Literal["core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "op"]] | None = None,
    recompute_num_layers: int | None = None,
    reference: Literal["resident", "precomputed"] | None = None,
    reserve: float | None = None,
    reshard_after_forward: bool | None = None,
    routing: Literal["balanced", "pretraining", "mock", "finetuning"] | None = None,
    rules: Any | None = None,
    schedule: str | None = None,
    seq: int | None = None,
    sequence_parallel: bool | None = None,
    shard: int | None = None,
    sharding: Literal["megatron", "deepspeed", "fsdp"] | None = None,
    software: Any | None = None,
    strategy: Any | None = None,
    tp: int | None = None,
    tp1: int | None = None,
    tp2: int | None = None,
    ulysses: int | None = None,
    virtual_stages: int | None = None,
    weights: Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4"] | None = None,
    zero: int | None = None,
    fields: Sequence[str] | None = None,
    **more: Any,
) -> Answer:
    """Time and memory of training a model with one parallel layout.

    global_batch: global batch, in sequences
    model: a name, a file or a table
    system: the system (`tperf list systems`, or a file). A name, a file or a table; tperf.search takes a
        list of them, too.
    account_for_embedding: count the embedding as a layer when layers are placed
    account_for_loss: count the head and the loss as a layer, likewise
    attention: flash (default), unfused, recompute or summa
    bucket_size: parameters that are gathered or reduced together. Megatron-LM's --ddp-bucket-size; by
        default the larger of 40 million and a million for each replica.
    compile: false: PyTorch's eager kernels, which fuse no norms, rotations or gates. See section 2.5 of
        docs/model.md. true: a compiler or the stack's own kernels fuse them.
    cp: context parallelism: the sequence
    cp_kind: how keys and values are exchanged
    cuda_graphs: launched as graphs: attn, mlp, mamba, moe_router, layer .... See docs/parallelism.md.
    data_overlap: false: exchanges with replicas do not overlap with passes
    delay_wgrad: delay experts' weight gradients to hide more of their all-to-alls. They wait until the
        exchange has started (Megatron-LM's --delay-wgrad-compute).
    dp: data parallelism
    ep: expert parallelism: GPUs that share the experts
    etp: GPUs that cut each expert
    fast: GPUs of each axis in one fast domain. { tp =, dp =, pp = }, in place of the order of ranks; axes
        that are left open are placed as is fastest.
    first_stage_layers: layers of the first device. The other devices share the rest evenly.
    frozen: parts not trained: embedding, head, layers:1-20, mlp .... Also "layers", a block, or the key of
        a group of layers.
    gpus: GPUs. Of tperf.train, dp and gpus follow from each other.
    gradient_reduce: how ZeRO 1 reduces gradients (as the software does). DeepSpeed's BF16_Optimizer reduces
        them with all_reduce in pipelines.
    gradient_shard: keep the optimizer's shard of the gradients in fp32 (as the stack does)
    gradients: dtype of the gradients in memory (the software's, or fp32)
    imbalance: rows of the busiest GPU's experts over the mean (as routing)
    last_stage_layers: layers of the last device
    loss: what cross-entropy keeps (the software's, or in-place). See tperf.software.
    master: the optimizer's copy of the weights (fp32 for shorter weights)
    micro_batch: sequences per micro-batch
    moe_dispatcher: how tokens reach their experts
    moments: dtype of the optimizer's moments (the optimizer's)
    objective: next_token (default), or dpo, whose samples are pairs of sequences. A frozen reference model
        runs both sequences of a pair, too.
    offload_layers: first layers of each chunk whose activations the host holds
    offload_modules: modules whose inputs the host holds: core_attn, moe_act .... See docs/memory.md.
    offload_optimizer: part of the optimizer's states that the host holds and updates
    offload_params: the host holds the shards of weights and all of the optimizer (ZeRO 3)
    optimizer: adam (default), adamw, adam_8bit, adafactor, lion, muon, sgd ...
    overlap_grad_reduce: reduce gradients in buckets during the backward pass (as the software)
    overlap_moe_a2a: hide expert all-to-alls behind another micro-batch's opposite pass. Megatron-LM's
        --overlap-moe-expert-parallel-comm. Schedules 1f1b and interleaved_1f1b pair passes for it;
        schedules that already overlap then hide only these collectives.
    overlap_p2p: send between interleaved stages while GPUs compute (as the software). Megatron-LM's
        default, which --no-overlap-p2p-communication turns off.
    overlap_param_gather: gather weights during the forward pass (as the software)
    overlap_param_gather_with_optimizer_step: gather the first bucket's weights during the optimizer's step
    overlap_shared_experts: run shared experts beside their own micro-batch's all-to-alls. The first product
        beside the dispatch, the last beside the combine (Megatron-LM's --moe-shared-expert-overlap, and
        refused where it refuses it).
    overlap_tp: its collectives' overlap with products
    packing: sequences are packed with documents of so many tokens on average. { mean = tokens } or {
        lengths = { … } }.
    panels: panels of a SUMMA multiplication. By default the fastest number.
    peft: adapters beside frozen weights: lora or qlora. { kind, bits, rank, alpha, targets, experts,
        dropout, rest, a2a, fused }. bits of qlora's weights are 4 or 8 (LLM.int8()); rest is the dtype of
        what it does not quantise: fp32, as PEFT's prepare_model_for_kbit_training makes it, or bf16, as
        qlora.py. experts = { targets, bits } is for routed experts that are one parameter, which targets do
        not name. Targets are Megatron-Bridge's names (linear_qkv …), Hugging Face PEFT's (q_proj …), or
        "all-linear"; by default rank 32 and the four of Megatron-Bridge's LoRA (docs/finetuning.md).
    pipeline_layout: layers of each stage: Megatron-LM's layout string, or 7,8,8,7. In "Et*3|(tt|)*29m|L", E
        is the embedding, t a layer, m a module of multi-token prediction, L the head and the loss, and |
        ends a stage. Stages are in the order of the model; virtual stages go round the devices.
    placement: stack: in its order of ranks (default); best: as is fastest. Rules without `ranks_in_order`
        try every placement.
    pp: pipeline parallelism: stages
    precision: of matrix products: bf16 (default), fp8-block, mxfp8 .... A recipe's name or a table
        (docs/model.md, section 1.10).
    rank_order: neighbours first: tp-cp-ep-dp-pp (the software's). An axis of the strategy that is not in it
        lies beside the one before it.
    recompute: none, selective or full. With unfused attention a search tries all three.
    recompute_keep: of selective recomputation: tensors that alone are kept: core_attn .... Tensors that a
        compiled layer keeps, by the module that reads them, or input, its own alone; docs/memory.md has
        MaxText's names.
    recompute_layers: older name of recompute_num_layers, under uniform
    recompute_method: of full recomputation: uniform (default), block or every. uniform: each group of
        recompute_num_layers layers keeps one input; block: the first so many layers of each chunk; every:
        every so many (docs/memory.md).
    recompute_modules: of selective recomputation: core_attn, mlp, moe, moe_act, layernorm .... See
        docs/memory.md.
    recompute_num_layers: layers recomputed as one (uniform), of each chunk (block), apart (every)
    reference: of dpo: its weights are resident (default), or its outputs precomputed. Adapters share the
        policy's weights.
    reserve: part of the memory to keep free, such as 0.1
    reshard_after_forward: false: ZeRO 3 keeps gathered weights until the backward pass. In a pipeline until
        the last one, like torchtitan's fsdp_reshard_after_forward = "never".
    routing: load of experts: balanced, pretraining, mock or finetuning. balanced: as benchmarks force it.
        pretraining: on text. mock: on random tokens. finetuning: on data of one kind, without a loss that
        balances it; docs/model.md, section 2.3, says how unequal each is.
    rules: modelling rules (`tperf list rules`). "default", "subramanian2024" or a table, see tperf.rules.
    schedule: pipeline schedules. "any" is each that has a closed form; a schedule without one, such as a
        custom schedule, is ranked by simulation.
    seq: sequence length (default: the model's)
    sequence_parallel: yes or no
    shard: replicas that ZeRO shards over: hybrid shards
    sharding: whose ZeRO: megatron (default), deepspeed or fsdp. What each keeps of a parameter, see
        docs/memory.md: the default of weights and gradients.
    software: training stack (default: by the layout; none: no stack). A profile's name, a file or a table,
        see tperf.software. By default the commonest stack that does what the arguments say, with `typical`
        numbers: on TPUs MaxText; one part per layer: with adapters in 16 bits transformers-4, with an
        optimizer on the host deepspeed-2026, under ZeRO 3 fsdp2-2026; ZeRO 1 and 2 over some replicas:
        internevo-0.5; else megatron-core-2026; eager kernels: typical. "none" is the default of rules
        without `typical_software`.
    strategy: how a layer is split (`tperf list strategies`; default tensor). By default the first strategy
        that has the axes given. tperf.search takes "all", too, and ranks them together.
    tp: tensor parallelism: heads and features
    tp1: 2-D tensor parallelism: features, columns of weights
    tp2: 2-D tensor parallelism: the sequence, rows of weights
    ulysses: context parallelism by all-to-all, inside cp
    virtual_stages: chunks of layers per device, if interleaved. A search tries those that deal the layers
        out evenly.
    weights: dtype of the weights in memory (the software's, or bf16)
    zero: ZeRO stage, 0 to 3
    fields: the figures wanted, such as memory.total; all by default, op by op
    more: arguments of strategies of your own
    """
    return _ask("train", locals())
