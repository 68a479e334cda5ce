--- The fields of a Hugging Face config.json that affect neither a model's counts nor its cost, each with the reason.
-- Names are those of the transformers configuration classes.
local harmless = {}

local function add(why, names)
  for name in names:gmatch "%S+" do harmless[name] = why end
end

add("it names the file, its code or its tokenizer", [[architectures model_type auto_map transformers_version
  torch_dtype dtype torchscript tokenizer_class prefix finetuning_task problem_type task_specific_params unsloth_version
  unsloth_fixed model_name]])
add("it decides how code runs, not what", [[attn_implementation use_flash_attn use_flash_attention_2 use_cache
  cache_implementation gradient_checkpointing pretraining_tp ep_size use_mamba_kernels mamba_ssm_cache_dtype
  for_llm_compression use_bfloat16 tf_legacy_loss masked_softmax_fusion bias_dropout_fusion skip_bias_add
  skip_bias_add_qkv slow_but_exact reorder_and_upcast_attn fused_add_norm chunk_size_feed_forward
  pad_vocab_size_multiple model_max_length use_grouped_mm]])
add("it says how weights are stored (see `stored`)", "quantization_config quantization compression_config")
add("it is of generation", [[max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty
  temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
  encoder_no_repeat_ngram_size bad_words_ids num_return_sequences return_dict return_dict_in_generate output_scores
  output_attentions output_hidden_states remove_invalid_values exponential_decay_length_penalty suppress_tokens
  begin_suppress_tokens is_decoder num_logits_to_keep]])
add("it is of heads that the model's class lacks", [[id2label label2id num_labels predict_special_tokens n_special
  tie_word_embeddings encoder_stride pooler_act pooler_output_size]])
add("it is of initial weights, losses or dropout", [[initializer_range initializer_factor init_std
  rescale_prenorm_residual dropout layerdrop classifier_dropout aux_loss_alpha seq_aux router_aux_loss_coef
  router_z_loss_coef router_jitter_noise input_jitter_noise output_router_logits]])
add("it is a constant of a formula, or chooses among scores that are computed anyway", [[scale_attn_weights
  scale_attn_by_inverse_layer_idx attn_scale floor_scale attn_temperature_tuning query_pre_attn_scalar
  attn_logit_softcapping final_logit_softcapping swiglu_limit swiglu_alpha norm_epsilon partial_rotary_factor
  initial_context_length offset_alibi attention_softmax_in_fp32 residual_in_fp32 norm_before_gate
  apply_residual_connection_post_layernorm rms_norm norm_topk_prob routed_scaling_factor scoring_func topk_method
  n_group topk_group]])
add("it is of the rotation of heads, which costs the same", [[original_max_position_embeddings indexer_rope_interleave
  yarn_only_types mscale mscale_all_dim beta_fast beta_slow]])
add("it is of images, audio or video beside the text model", "num_image_tokens image_token_index")

-- Families of names: "eos_token_id", "rope_theta", "attention_dropout" …
local FAMILIES <const> = {
  { "^_", "it is of the code that wrote the file" }, { "_token_id$", "it names a token" },
  { "_token_ids$", "it names tokens" }, { "_dropout$", "it is of dropout" }, { "_dropout_prob$", "it is of dropout" },
  { "_pdrop$", "it is of dropout" }, { "_eps$", "it is a constant of a norm" },
  { "_epsilon$", "it is a constant of a norm" }, { "^rope_", "it is of the rotation of heads, which costs the same" },
  { "^rotary_", "it is of the rotation of heads, which costs the same" },
  { "^summary_", "it is of heads that the model's class lacks" }, { "^time_step_", "it is of initial weights" },
}

--- Why a field has no effect on the model's counts and cost; nil: it may have one.
---@param name string
---@return string?
return function(name)
  if harmless[name] then return harmless[name] end
  for _, family in ipairs(FAMILIES) do
    if name:find(family[1]) then return family[2] end
  end
  return nil
end
