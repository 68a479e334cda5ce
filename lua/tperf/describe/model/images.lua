--- The tokens that an image becomes (ViT, arXiv 2010.11929).
local images = {}

--- Learned tokens beside the patches, in every sequence.
---@param v table  a model's field `vision`
function images.extra_tokens(v) return (v.class_token and 1 or 0) + (v.distillation and 1 or 0) end

--- Learned vectors in all: also that which stands for masked patches, and a query that pools patches.
function images.vectors(v) return images.extra_tokens(v) + (v.mask_token and 1 or 0) + (v.probe and 1 or 0) end

--- Tokens of a sequence.
function images.tokens(v) return (v.image // v.patch) * (v.image // v.patch) + images.extra_tokens(v) end

return images
