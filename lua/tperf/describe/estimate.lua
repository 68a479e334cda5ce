--- What SGLang's scheduler expects answers to need of the cache, under the names that SGLang has for it (environ.py and
--- schedule_policy.py of its 0.5; SGLANG_ and upper case). software/sglang-*.yaml state each release's; docs/serving.md
--- has the rules.
local check = require "tperf.base.check"

return check.record_of({
  -- Part of the running answers' remaining tokens that room is kept for, at first.
  init_new_token_ratio = check.number { min = 0, max = 1, default = 0.7 },
  -- Part of that which is left after new_token_ratio_decay_steps steps of decodes without a retraction.
  min_new_token_ratio_factor = check.number { min = 0, max = 1, default = 0.14 },
  new_token_ratio_decay_steps = check.integer { min = 1, max = 1000000, default = 600 },
  -- Tokens per request that a retraction looks ahead.
  retract_decode_steps = check.integer { min = 0, max = 1000000, default = 20 },
  -- The most tokens that an answer to come is expected to have (CLIP_MAX_NEW_TOKENS_ESTIMATION).
  clip_max_new_tokens = check.integer { min = 1, max = 1 << 30, default = 4096 },
}, { default = {} })
