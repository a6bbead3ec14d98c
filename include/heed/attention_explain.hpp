// What a call of attention will do, and why, without making it.
#pragma once

#include <cstdint>
#include <heed/array.hpp>
#include <heed/attention.hpp>
#include <heed/runtime.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

// What the lanes of a vector hold while scores and weights are computed: the rows of a tile, or the keys of a block.
enum class AttentionKernel { query_lanes, key_lanes };

std::string_view attention_kernel_name(AttentionKernel kernel);  // "query_lanes", "key_lanes"

// Tiles of one size. The rows of a tile go through the keys together; they are neighbouring queries of all the heads
// that share a kv head.
struct AttentionTiles {
  std::int64_t count = 0;  // in the whole call
  std::int64_t rows = 0;   // of each
  AttentionKernel kernel = AttentionKernel::query_lanes;
  std::int64_t vectors = 0;  // that the rows of one fill, a lane each
  friend bool operator==(const AttentionTiles&, const AttentionTiles&) = default;
};

// One sentence: what is done, and because of what.
struct AttentionNote {
  std::string about;   // the arguments or options it comes from: "k", "mask", "causal, window"
  bool costs = false;  // whether the call takes longer for it than a plain one
  std::string text;
  friend bool operator==(const AttentionNote&, const AttentionNote&) = default;
};

struct AttentionExplanation {
  Isa isa = Isa::portable;
  std::string isa_reason;  // see Info
  DType dtype = DType::f32;
  std::int64_t lanes = 0;  // elements in a vector

  std::int64_t rows_per_kv_head = 0;  // q_len * q_heads / kv_heads
  std::int64_t tile_rows = 0;         // the most of a tile
  std::vector<AttentionTiles> tiles;  // the full ones, then those of the rows left over

  std::int64_t key_block = 0;     // keys per step of the softmax
  std::int64_t key_chunk = 0;     // keys after which a row's state is closed and merged
  std::int64_t chunks = 0;        // of a row
  bool chunks_are_tasks = false;  // whether threads share the chunks of a tile

  // What length, causal and window leave. Mask, bias and segments may hide more: that takes a look at their elements.
  double visible_share = 0;             // of all pairs of a query and a key
  bool may_hide_more = false;           // whether there are mask, bias or segments
  std::int64_t key_blocks = 0;          // over all tiles
  std::int64_t key_blocks_skipped = 0;  // that no row of their tile sees
  std::int64_t key_blocks_cut = 0;      // that some rows of their tile do not see whole

  double operations = 0;   // additions and multiplications of both products, hidden pairs too
  std::int64_t tasks = 0;  // that threads take one by one: tiles, or chunks of tiles
  int threads = 0;         // that the call uses; 0 when there is nothing to compute
  int thread_limit = 0;    // the most it may use: the smaller of options.threads and num_threads()
  std::string threads_reason;
  std::int64_t workspace_bytes_per_thread = 0;
  std::int64_t state_bytes = 0;      // of the chunks, when they are tasks
  std::int64_t workspace_bytes = 0;  // in all: what the call allocates

  std::vector<AttentionNote> notes;
  friend bool operator==(const AttentionExplanation&, const AttentionExplanation&) = default;
};

// What attention does with the same arguments, from the plan it would make. Reads no element but kv_lengths: all other
// data may be null. Throws the Error that attention throws, word for word, but for null data; data that is null
// overlaps nothing. What depends on elements is not told: blocks hidden by a mask, and rows whose scores leave their
// type, which are computed again in a wider one. Takes the time to count up to q_len, for each sequence under
// kv_lengths.
AttentionExplanation explain_attention(TensorView<const float, 4> q, TensorView<const float, 4> k,
                                       TensorView<const float, 4> v, TensorView<float, 4> out,
                                       const AttentionOptions<float>& options = {});
AttentionExplanation explain_attention(TensorView<const double, 4> q, TensorView<const double, 4> k,
                                       TensorView<const double, 4> v, TensorView<double, 4> out,
                                       const AttentionOptions<double>& options = {});

}  // namespace heed
