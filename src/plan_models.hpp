// What is known of models beyond their config.json. Source: the configuration classes of Hugging Face's transformers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace heed {

// What a class has where its file is silent, and that differs from the usual. 0 = nothing of its own.
struct Silent {
  std::string_view model_type;
  std::int64_t q_heads, kv_heads, head_dim, context, window, pattern;
};
inline constexpr std::array<Silent, 4> kSilent{{{"gemma", 16, 16, 256, 8192, 0, 0},
                                                {"gemma2", 8, 4, 256, 8192, 4096, 2},
                                                {"gemma3_text", 8, 4, 256, 131072, 4096, 6},
                                                {"cohere2", 0, 0, 0, 8192, 4096, 4}}};

// Keys of attention that is not counted by q, k, v and out projections in every layer.
struct Refused {
  std::string_view key, what;
};
inline constexpr std::array<Refused, 19> kRefused{
    {{"kv_lora_rank", "latent attention, whose keys and values are compressed"},
     {"num_kv_shared_layers", "layers that share keys and values"},
     {"global_head_dim", "layers that differ in their head_dim"},
     {"num_global_key_value_heads", "layers that differ in their kv_heads"},
     {"attention_chunk_size", "attention within chunks"},
     {"attention_window", "a window with global tokens"},
     {"blocksparse_block_size", "attention to chosen blocks"},
     {"intra_bottleneck_size", "projections of a size of their own"},
     {"head_ratio", "projections of a size of their own"},
     {"block_sizes", "layers that differ in their length"},
     {"full_attention_interval", "layers of linear attention"},
     {"linear_attn_config", "layers of linear attention"},
     {"attn_type_list", "layers of linear attention"},
     {"attn_layer_period", "layers without attention"},
     {"attn_layer_indices", "layers without attention"},
     {"full_attn_idxs", "layers without attention"},
     {"layers_block_type", "layers without attention"},
     {"block_types", "layers without attention"},
     {"hybrid_override_pattern", "layers without attention"}}};

// Where every token sees every other, unless is_decoder is set.
inline constexpr std::array<std::string_view, 29> kEncoders{"albert",
                                                            "beit",
                                                            "bert",
                                                            "camembert",
                                                            "clip_vision_model",
                                                            "deberta",
                                                            "deberta-v2",
                                                            "deit",
                                                            "dinov2",
                                                            "distilbert",
                                                            "electra",
                                                            "ernie",
                                                            "esm",
                                                            "flaubert",
                                                            "hubert",
                                                            "layoutlm",
                                                            "layoutlmv3",
                                                            "megatron-bert",
                                                            "modernbert",
                                                            "mpnet",
                                                            "nomic_bert",
                                                            "roberta",
                                                            "roformer",
                                                            "siglip_text_model",
                                                            "siglip_vision_model",
                                                            "vit",
                                                            "wav2vec2",
                                                            "xlm-roberta",
                                                            "xlm-roberta-xl"};

}  // namespace heed
