#include "verify/case_grid.hpp"

#include <algorithm>
#include <string>

#include "verify/random.hpp"

namespace heed::verify {
namespace {

constexpr Align kTopLeft = Align::top_left;
constexpr Align kBottomRight = Align::bottom_right;
constexpr Sizes kSquare = {
    .batch = 2, .q_heads = 4, .kv_heads = 2, .q_len = 33, .kv_len = 33, .head_dim = 16, .value_dim = 12};
constexpr Sizes kMoreKeys = {
    .batch = 2, .q_heads = 4, .kv_heads = 2, .q_len = 17, .kv_len = 40, .head_dim = 16, .value_dim = 12};
constexpr Sizes kMoreQueries = {
    .batch = 2, .q_heads = 2, .kv_heads = 1, .q_len = 40, .kv_len = 17, .head_dim = 16, .value_dim = 12};
// Axes of size 1, in the order (batch, q_heads, q_len, kv_len).
constexpr std::array<bool, 4> kNone = {};
constexpr std::array<bool, 4> kPerKey = {false, true, true, false};

std::string join(std::initializer_list<std::string_view> parts) {
  std::string whole;
  for (const std::string_view part : parts) whole += part;
  return whole;
}

std::string name(std::string_view what, std::int64_t one, std::int64_t other) {
  return join({what, "-", std::to_string(one), "x", std::to_string(other)});
}

// Every option by itself, as small as it can be seen: a mistake shows first where it is easiest to look at.
void add_small(std::vector<CaseSpec>& grid) {
  const CaseSpec plain{.sizes = {2, 4, 2, 5, 7, 4, 3}};
  const auto add = [&](const char* what, auto change) {
    CaseSpec spec = plain;
    spec.name = join({"small-", what});
    change(spec);
    grid.push_back(spec);
  };
  add("plain", [](auto&) {});
  add("square", [](auto& spec) { spec.sizes.kv_len = 5, spec.causal = true; });
  add("top-left", [](auto& spec) { spec.causal = true, spec.align = kTopLeft; });
  add("bottom-right", [](auto& spec) { spec.causal = true, spec.align = kBottomRight; });
  add("mask", [](auto& spec) { spec.mask = {2, kNone}; });
  add("window", [](auto& spec) { spec.window = Window{2, 1}, spec.align = kTopLeft; });
  add("kv-lengths", [](auto& spec) { spec.lengths = Lengths::mixed, spec.data_seed = 4; });
  add("segments", [](auto& spec) { spec.segments = true; });
  add("bias", [](auto& spec) { spec.bias = {2, kNone}, spec.bias_masks = true; });
  add("alibi", [](auto& spec) { spec.alibi = true, spec.align = kTopLeft; });
  add("scale", [](auto& spec) { spec.scale = 0.75; });
  add("softcap", [](auto& spec) { spec.softcap = 1.0; });
  add("softcap-mask", [](auto& spec) { spec.softcap = 1.0, spec.mask = {2, kNone}; });
  add("softcap-bias", [](auto& spec) { spec.softcap = 1.0, spec.bias = {2, kNone}; });
  add("sinks", [](auto& spec) { spec.sinks = Sinks::ordinary; });
  add("dropout", [](auto& spec) { spec.dropout = 0.4, spec.seed = 5; });
  add("empty-row", [](auto& spec) { spec.mask = {2, kNone}, spec.mask_empties_rows = true; });
  add("empty-row-mean", [](auto& spec) {
    spec.mask = {2, kNone}, spec.mask_empties_rows = true;
    spec.empty_row = EmptyRow::mean;
  });
}

// Lengths about the places where tiles of 16, 48 and 128 begin and end, 0 and 1, primes.
void add_lengths(std::vector<CaseSpec>& grid) {
  const std::pair<std::int64_t, std::int64_t> lengths[] = {
      {1, 1},   {1, 2},   {2, 1},    {7, 7},    {1, 15},   {1, 16},   {1, 17},  {1, 127},   {1, 128},   {1, 129},
      {15, 16}, {16, 16}, {17, 15},  {31, 37},  {47, 49},  {48, 48},  {49, 47}, {127, 129}, {128, 128}, {129, 127},
      {3, 257}, {2, 640}, {97, 101}, {5, 1031}, {200, 13}, {255, 64}, {1, 383}, {64, 256}};
  for (const auto& [q_len, kv_len] : lengths) {
    const Sizes sizes{.q_heads = 2, .kv_heads = 1, .q_len = q_len, .kv_len = kv_len, .head_dim = 16, .value_dim = 24};
    grid.push_back({.name = name("lengths", q_len, kv_len), .sizes = sizes});
    if (q_len == kv_len)
      grid.push_back({.name = name("causal", q_len, kv_len), .sizes = sizes, .causal = true});
    else
      for (const Align align : {kTopLeft, kBottomRight})
        grid.push_back({.name = name(align == kTopLeft ? "causal-top-left" : "causal-bottom-right", q_len, kv_len),
                        .sizes = sizes,
                        .values = Values::diffuse,
                        .causal = true,
                        .align = align});
  }
  const std::pair<const char*, Sizes> empty[] = {{"no-batch", {.batch = 0, .q_len = 3, .kv_len = 4}},
                                                 {"no-heads", {.q_heads = 0, .kv_heads = 0, .q_len = 3, .kv_len = 4}},
                                                 {"no-queries", {.q_len = 0, .kv_len = 4}},
                                                 {"no-keys", {.q_len = 3, .kv_len = 0}},
                                                 {"nothing", {.q_len = 0, .kv_len = 0}},
                                                 {"no-values", {.q_len = 3, .kv_len = 4, .value_dim = 0}}};
  for (const auto& [which, sizes] : empty) grid.push_back({.name = which, .sizes = sizes});
  const Sizes no_keys = empty[3].second;
  grid.push_back({.name = "no-keys-sinks", .sizes = no_keys, .sinks = Sinks::ordinary});
  grid.push_back({.name = "no-keys-mean", .sizes = no_keys, .empty_row = EmptyRow::mean});
  // Long enough to be cut into parts: beyond 4096 and 8192 keys, with a part of one key.
  const Sizes very_long{.q_len = 2, .kv_len = 8193, .head_dim = 4, .value_dim = 4};
  grid.push_back({.name = "very-long", .sizes = very_long});
  grid.push_back({.name = "very-long-causal",
                  .sizes = very_long,
                  .values = Values::peaked,
                  .causal = true,
                  .align = kBottomRight,
                  .sinks = Sinks::ordinary});
}

void add_shapes(std::vector<CaseSpec>& grid) {
  for (const std::int64_t head_dim : {1, 2, 3, 5, 8, 15, 17, 64, 80, 128, 160})
    grid.push_back({.name = join({"head-dim-", std::to_string(head_dim)}),
                    .sizes = {.q_len = 9, .kv_len = 21, .head_dim = head_dim, .value_dim = 8}});
  for (const std::int64_t value_dim : {1, 2, 3, 5, 15, 16, 17, 31, 63, 64, 65, 80, 128, 257})
    grid.push_back({.name = join({"value-dim-", std::to_string(value_dim)}),
                    .sizes = {.q_len = 9, .kv_len = 21, .head_dim = 8, .value_dim = value_dim}});
  grid.push_back({.name = "head-dim-0", .sizes = {.q_len = 5, .kv_len = 9, .head_dim = 0}, .scale = 1.0});
  const std::pair<std::int64_t, std::int64_t> heads[] = {{1, 1}, {2, 2}, {4, 2}, {6, 2}, {8, 1}, {6, 3}, {12, 4}};
  for (const auto& [q_heads, kv_heads] : heads)
    for (const bool causal : {false, true})
      grid.push_back({.name = name(causal ? "heads-causal" : "heads", q_heads, kv_heads),
                      .sizes = {.batch = 3, .q_heads = q_heads, .kv_heads = kv_heads, .q_len = 11, .kv_len = 11},
                      .causal = causal});
}

void add_values(std::vector<CaseSpec>& grid) {
  const Sizes sizes{
      .batch = 1, .q_heads = 4, .kv_heads = 2, .q_len = 33, .kv_len = 65, .head_dim = 64, .value_dim = 65};
  for (const Values values : {Values::integers, Values::diffuse, Values::peaked, Values::one_hot, Values::far_below})
    for (const bool causal : {false, true})
      grid.push_back({.name = join({values_name(values), causal ? "-causal" : ""}),
                      .sizes = sizes,
                      .values = values,
                      .causal = causal,
                      .align = causal ? std::optional(kBottomRight) : std::nullopt});
  // Means of powers of two of small integers: exact.
  for (const std::int64_t kv_len : {1, 2, 16, 64, 128, 256, 1024})
    grid.push_back({.name = join({"exact-mean-", std::to_string(kv_len)}),
                    .sizes = {.q_heads = 2, .q_len = 5, .kv_len = kv_len, .value_dim = 17},
                    .values = Values::uniform,
                    .is_exact = true});
  grid.push_back({.name = "huge-products", .sizes = sizes, .values = Values::huge_products, .beyond_naive = true});
  grid.push_back({.name = "huge-products-softcap",
                  .sizes = sizes,
                  .values = Values::huge_products,
                  .softcap = 2.0,
                  .beyond_naive = true});
  grid.push_back({.name = "huge-scores", .sizes = sizes, .values = Values::huge_scores, .scale = 1.0});
  grid.push_back({.name = "huge-scores-negative", .sizes = sizes, .values = Values::huge_scores, .scale = -1.0});
  grid.push_back({.name = "huge-bias", .sizes = sizes, .bias = {4, kNone}, .bias_is_huge = true});
  for (const double scale : {0.0, -0.25, 1.0, 3.0})
    grid.push_back({.name = join({"scale-", std::to_string(scale)}), .sizes = kMoreKeys, .scale = scale});
}

void add_layouts(std::vector<CaseSpec>& grid) {
  for (const Layout layout :
       {Layout::heads_inside, Layout::padded, Layout::reversed, Layout::channels_outside, Layout::shared}) {
    const Layout out_layout = layout == Layout::shared ? Layout::padded : layout;
    grid.push_back({.name = join({"layout-", layout_name(layout)}),
                    .sizes = kMoreKeys,
                    .layout = layout,
                    .out_layout = out_layout});
    grid.push_back({.name = join({"layout-options-", layout_name(layout)}),
                    .sizes = kSquare,
                    .layout = layout,
                    .out_layout = out_layout,
                    .causal = true,
                    .mask = {4, kNone},
                    .bias = {4, kNone}});
  }
}

void add_visibility(std::vector<CaseSpec>& grid) {
  // Windows, with and without causal, by every alignment.
  for (const Window window : {Window{0, 0}, Window{3, 0}, Window{4, 2}, Window{-1, 3}, Window{5, -1}, Window{-1, -1},
                              Window::last(7), Window{1000, 1000}})
    for (const bool causal : {false, true}) {
      const std::string prefix =
          join({"window-", std::to_string(window.left), ",", std::to_string(window.right), causal ? "-causal" : ""});
      grid.push_back({.name = prefix, .sizes = kSquare, .causal = causal, .window = window});
      for (const Sizes& sizes : {kMoreKeys, kMoreQueries})
        grid.push_back({.name = join({prefix, sizes.q_len < sizes.kv_len ? "-bottom-right" : "-top-left"}),
                        .sizes = sizes,
                        .causal = causal,
                        .align = sizes.q_len < sizes.kv_len ? kBottomRight : kTopLeft,
                        .window = window});
    }
  grid.push_back(
      {.name = "window-bottom-right-40x17", .sizes = kMoreQueries, .align = kBottomRight, .window = Window{2, 1}});

  // Masks of every rank and every pattern of broadcasting.
  for (const int rank : {2, 3, 4})
    for (unsigned ones = 0; ones < 16; ++ones) {
      const std::array<bool, 4> axes{(ones & 1) != 0, (ones & 2) != 0, (ones & 4) != 0, (ones & 8) != 0};
      if ((rank < 4 && axes[1]) || (rank < 3 && axes[0])) continue;
      const std::string which = join({std::to_string(rank), "-", std::to_string(ones)});
      const Sizes sizes{.batch = 3, .q_heads = 4, .kv_heads = 2, .q_len = 9, .kv_len = 20};
      grid.push_back({.name = join({"mask-", which}), .sizes = sizes, .data_seed = 2, .mask = {rank, axes}});
      grid.push_back(
          {.name = join({"bias-", which}), .sizes = sizes, .bias = {rank, axes}, .bias_masks = ones % 2 == 1});
    }
  for (const Sizes& sizes : {kSquare, kMoreKeys, kMoreQueries}) {
    const std::string which = name("", sizes.q_len, sizes.kv_len);
    for (const Lengths lengths : {Lengths::mixed, Lengths::some_zero}) {
      const std::string prefix = lengths == Lengths::mixed ? "kv-lengths" : "kv-lengths-zero";
      grid.push_back({.name = join({prefix, which}), .sizes = sizes, .lengths = lengths});
      for (const Align align : {kTopLeft, kBottomRight})
        grid.push_back({.name = join({prefix, align == kTopLeft ? "-top-left" : "-bottom-right", which}),
                        .sizes = sizes,
                        .causal = true,
                        .align = align,
                        .lengths = lengths});
    }
    grid.push_back({.name = join({"segments", which}), .sizes = sizes, .segments = true});
  }
  grid.push_back({.name = "kv-lengths-no-align", .sizes = kSquare, .causal = true, .lengths = Lengths::mixed});
  grid.push_back({.name = "segments-causal", .sizes = kSquare, .causal = true, .segments = true});
}

void add_empty_rows(std::vector<CaseSpec>& grid) {
  for (const EmptyRow empty_row : {EmptyRow::zero, EmptyRow::mean})
    for (const Sinks sinks : {Sinks::none, Sinks::ordinary, Sinks::one_infinite}) {
      const std::string which =
          std::string(empty_row == EmptyRow::zero ? "-zero" : "-mean") + (sinks == Sinks::none       ? ""
                                                                          : sinks == Sinks::ordinary ? "-sinks"
                                                                                                     : "-sinks-inf");
      const CaseSpec plain{.sizes = kMoreKeys, .sinks = sinks, .empty_row = empty_row};
      const auto add = [&](const char* what, auto change) {
        CaseSpec spec = plain;
        spec.name = join({what, which});
        change(spec);
        grid.push_back(spec);
      };
      add("empty-rows-mask", [](auto& spec) { spec.mask = {2, kNone}, spec.mask_empties_rows = true; });
      add("empty-rows-padding", [](auto& spec) {
        spec.sizes.batch = 3;
        spec.mask = {4, kPerKey}, spec.mask_empties_rows = true;
      });
      add("empty-rows-lengths", [](auto& spec) { spec.lengths = Lengths::some_zero; });
      add("empty-rows-causal", [](auto& spec) {
        spec.sizes = kMoreQueries;
        spec.causal = true, spec.align = kBottomRight;
      });
      add("empty-rows-segments", [](auto& spec) {
        spec.segments = true, spec.window = Window{1, 0}, spec.align = kTopLeft;
      });
    }
}

void add_scores(std::vector<CaseSpec>& grid) {
  for (const Values values : {Values::ordinary, Values::peaked}) {
    const std::string which = join({"-", values_name(values)});
    const auto add = [&](const char* what, auto change) {
      for (const bool causal : {false, true}) {
        CaseSpec spec{.name = join({what, which, causal ? "-causal" : ""}), .sizes = kMoreKeys, .values = values};
        spec.causal = causal, spec.align = kBottomRight;
        change(spec);
        grid.push_back(spec);
      }
    };
    add("softcap", [](auto& spec) { spec.softcap = 1.5; });
    add("softcap-mask", [](auto& spec) { spec.softcap = 30.0, spec.mask = {4, kNone}; });
    add("softcap-bias-alibi", [](auto& spec) { spec.softcap = 2.0, spec.bias = {4, kNone}, spec.alibi = true; });
    add("alibi", [](auto& spec) { spec.alibi = true; });
    add("alibi-lengths", [](auto& spec) { spec.alibi = true, spec.lengths = Lengths::mixed; });
    add("sinks", [](auto& spec) { spec.sinks = Sinks::ordinary; });
    add("sinks-softcap-scale", [](auto& spec) { spec.sinks = Sinks::ordinary, spec.softcap = 1.0, spec.scale = 0.5; });
    add("dropout", [](auto& spec) { spec.dropout = 0.3, spec.seed = 0x123456789abcdef0; });
    add("dropout-sinks", [](auto& spec) { spec.dropout = 0.5, spec.seed = 7, spec.sinks = Sinks::one_infinite; });
  }
  grid.push_back({.name = "alibi-two-sided", .sizes = kSquare, .alibi = true});
  grid.push_back({.name = "alibi-six-heads",
                  .sizes = {.q_heads = 6, .kv_heads = 3, .q_len = 20, .kv_len = 20},
                  .causal = true,
                  .alibi = true});
  grid.push_back({.name = "alibi-top-left-40x17", .sizes = kMoreQueries, .align = kTopLeft, .alibi = true});
  grid.push_back({.name = "dropout-all", .sizes = kMoreKeys, .dropout = 1.0, .seed = 3});
  grid.push_back({.name = "dropout-long",
                  .sizes = {.q_len = 3, .kv_len = 300},
                  .values = Values::diffuse,
                  .dropout = 0.1,
                  .seed = 11});
}

void add_visible_non_finite(std::vector<CaseSpec>& grid) {
  const std::pair<const char*, Visible> what[] = {
      {"nan-in-q", Visible::nan_in_q},          {"nan-in-k", Visible::nan_in_k},
      {"nan-in-v", Visible::nan_in_v},          {"inf-in-v", Visible::inf_in_v},
      {"inf-in-k", Visible::inf_in_k},          {"minus-inf-key", Visible::minus_inf_key},
      {"minus-inf-all", Visible::minus_inf_all}};
  for (const auto& [which, visible] : what) {
    grid.push_back({.name = which, .sizes = kMoreKeys, .visible = visible});
    grid.push_back({.name = join({which, "-causal"}), .sizes = kSquare, .causal = true, .visible = visible});
    grid.push_back({.name = join({which, "-mask-sinks"}),
                    .sizes = kSquare,
                    .mask = {4, kNone},
                    .mask_empties_rows = true,
                    .sinks = Sinks::ordinary,
                    .visible = visible});
  }
}

}  // namespace

std::vector<CaseSpec> random_cases(int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<CaseSpec> cases;
  for (int i = 0; i < count; ++i) {
    CaseSpec spec;
    spec.name = join({"random-", std::to_string(i)});
    spec.data_seed = random.next();
    const std::int64_t group = random.between(1, 3);
    spec.sizes.batch = random.between(1, 3);
    spec.sizes.kv_heads = random.between(1, 2);
    spec.sizes.q_heads = spec.sizes.kv_heads * group;
    spec.sizes.q_len = random.between(1, 40);
    spec.sizes.kv_len = random.chance(0.3) ? spec.sizes.q_len : random.between(1, 150);
    spec.sizes.head_dim = random.between(1, 20);
    spec.sizes.value_dim = random.between(1, 20);
    const Values values[] = {Values::ordinary, Values::integers, Values::diffuse, Values::peaked, Values::one_hot};
    spec.values = values[random.below(5)];
    spec.layout = static_cast<Layout>(random.below(6));
    spec.out_layout = static_cast<Layout>(random.below(5));  // not shared
    spec.causal = random.chance(0.4);
    if (random.chance(0.3)) spec.window = Window{random.between(-1, 30), random.between(-1, 10)};
    spec.alibi = random.chance(0.2);
    if (spec.sizes.q_len != spec.sizes.kv_len || random.chance(0.3))
      spec.align = random.chance(0.5) ? kTopLeft : kBottomRight;
    const auto broadcast = [&] {
      Broadcast b{static_cast<int>(random.between(2, 4)), {}};
      for (bool& one : b.ones) one = random.chance(0.25);
      return b;
    };
    if (random.chance(0.35)) spec.mask = broadcast();
    spec.mask_empties_rows = random.chance(0.3);
    if (random.chance(0.3)) spec.bias = broadcast();
    spec.bias_masks = random.chance(0.5);
    spec.lengths = random.chance(0.3) ? (random.chance(0.3) ? Lengths::some_zero : Lengths::mixed) : Lengths::all;
    spec.segments = random.chance(0.2);
    if (random.chance(0.3)) spec.scale = 2 * random.uniform() - 0.5;
    if (random.chance(0.2)) spec.softcap = 0.5 + 20 * random.uniform();
    if (random.chance(0.25)) spec.sinks = random.chance(0.3) ? Sinks::one_infinite : Sinks::ordinary;
    if (random.chance(0.15)) spec.dropout = random.uniform(), spec.seed = random.next();
    // What dropout does to the mean of an empty row is not settled.
    if (spec.dropout == 0 && random.chance(0.3)) spec.empty_row = EmptyRow::mean;
    cases.push_back(spec);
  }
  return cases;
}

std::vector<CaseSpec> case_grid() {
  std::vector<CaseSpec> grid;
  add_small(grid);
  add_lengths(grid);
  add_shapes(grid);
  add_values(grid);
  add_layouts(grid);
  add_visibility(grid);
  add_empty_rows(grid);
  add_scores(grid);
  add_visible_non_finite(grid);
  for (CaseSpec& spec : random_cases(60, 2024)) grid.push_back(std::move(spec));
  return grid;
}

}  // namespace heed::verify
