--- The fields of a Hugging Face config.json that do not affect a model's computation or its cost: names, fields read
-- only by generation, initialisation or the training loss, constants of formulas, and the packing of stored weights.
-- Names are those of the transformers configuration classes.
local harmless = {}

local function add(names)
  for name in names:gmatch "%S+" do harmless[name] = true end
end

-- Origin of the file, execution of its code, and packing of its stored weights.
add [[architectures model_type auto_map transformers_version torch_dtype dtype torchscript tokenizer_class prefix
  finetuning_task problem_type task_specific_params attn_implementation use_flash_attn use_flash_attention_2
  use_cache cache_implementation gradient_checkpointing quantization_config quantization compression_config
  unsloth_version unsloth_fixed pretraining_tp ep_size use_mamba_kernels mamba_ssm_cache_dtype for_llm_compression
  use_bfloat16 tf_legacy_loss masked_softmax_fusion bias_dropout_fusion skip_bias_add skip_bias_add_qkv slow_but_exact
  reorder_and_upcast_attn fused_add_norm chunk_size_feed_forward pad_vocab_size_multiple model_max_length]]

-- Generation and classification heads, which the language model does not have.
add [[max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p
  typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
  num_return_sequences return_dict return_dict_in_generate output_scores output_attentions output_hidden_states
  remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens is_decoder id2label
  label2id num_labels num_logits_to_keep predict_special_tokens n_special tie_word_embeddings encoder_stride pooler_act
  pooler_output_size]]

-- Initial weights, losses and dropout rates.
add [[initializer_range initializer_factor init_std rescale_prenorm_residual dropout layerdrop classifier_dropout
  aux_loss_alpha seq_aux router_aux_loss_coef router_z_loss_coef router_jitter_noise input_jitter_noise
  output_router_logits]]

-- Constants of formulas that do not affect cost, and selection among scores that are computed anyway.
add [[scale_attn_weights scale_attn_by_inverse_layer_idx attn_scale floor_scale attn_temperature_tuning
  query_pre_attn_scalar attn_logit_softcapping final_logit_softcapping swiglu_limit swiglu_alpha norm_epsilon
  partial_rotary_factor original_max_position_embeddings initial_context_length offset_alibi
  attention_softmax_in_fp32 residual_in_fp32 norm_before_gate apply_residual_connection_post_layernorm rms_norm
  norm_topk_prob routed_scaling_factor scoring_func topk_method n_group topk_group]]

-- Families of names: "eos_token_id", "rope_theta", "attention_dropout" …
local FAMILIES = {
  "^_", "_token_id$", "_token_ids$", "_dropout$", "_dropout_prob$", "_pdrop$", "_eps$", "_epsilon$", "^rope_",
  "^rotary_", "^summary_", "^time_step_",
}

--- Whether a field has no effect on the model's computation.
---@param name string
---@return boolean
return function(name)
  if harmless[name] then return true end
  for _, pattern in ipairs(FAMILIES) do
    if name:find(pattern) then return true end
  end
  return false
end
