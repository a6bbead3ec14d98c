#include <algorithm>
#include <array>
#include <cmath>
#include <heed/runtime.hpp>
#include <iostream>
#include <set>

#include "cli/demo.hpp"
#include "cli/pattern.hpp"

namespace heed::cli {
namespace {

void print_heading(const Terminal& terminal, const std::string& text) {
  const std::string line = repeat(either(terminal, "─", "-"), kPageWidth - display_width(text) - 4);
  std::cout << '\n'
            << paint(terminal, Style::dim, either(terminal, "──", "--")) << ' ' << paint(terminal, Style::bold, text)
            << ' ' << paint(terminal, Style::dim, line) << '\n';
}

std::string arrow(const Terminal& terminal) {
  return std::string(either(terminal, "→", ">"));
}

std::string sentence_name(std::int64_t sentence) {
  return "sentence " + std::to_string(sentence + 1);
}

void print_sentences(const Terminal& terminal, const Demo& demo) {
  const DemoInput& input = demo.input;
  std::cout << paint(terminal, Style::bold, "heed demo")
            << ": the attention layer of a real model on real sentences\n\n"
            << wrap("  ", "Layer 0 of all-MiniLM-L6-v2 (Apache-2.0), projections and all: " +
                              std::to_string(input.x.shape()[2]) + " wide, " + std::to_string(input.heads()) +
                              " heads of " + std::to_string(input.head_dim()) + ", " +
                              grouped(input.module.parameter_count()) + " parameters, float32, heed " +
                              std::string(kVersion) + " with " + std::string(isa_name(isa())) + ".")
            << '\n';
  for (std::int64_t b = 0; b < std::ssize(input.sentences); ++b) {
    const std::int64_t padding = input.len() - input.length(b);
    std::string text = paint(terminal, Style::accent, input.sentences[static_cast<std::size_t>(b)]) + " (" +
                       std::to_string(input.length(b)) + " tokens";
    if (padding > 0) text += " and " + std::to_string(padding) + " of padding";
    std::cout << wrap("  " + std::to_string(b + 1) + "  ", text + ")");
  }
}

void print_agreement(const Terminal& terminal, const Demo& demo) {
  print_heading(terminal, "Is it right?");
  std::cout << "  Every element against a float64 reference of the same layer, padded rows too.\n\n";
  Table table(terminal, {{"result"},
                         {"largest error", Table::Side::right},
                         {"allowed", Table::Side::right},
                         {"used"},
                         {"where it is largest"}});
  for (const Agreement& agreement : demo.agreements) {
    const double used = agreement.error / agreement.allowed;
    const auto& [b, h, i] = agreement.where;
    table.add({agreement.name, scientific(agreement.error), scientific(agreement.allowed),
               bar(terminal, used, 12) + pad_left(percent(used), 6),
               sentence_name(b) + (h < 0 ? "" : ", head " + std::to_string(h)) + ", \"" +
                   shown_token(demo.input.tokens[static_cast<std::size_t>(b)][static_cast<std::size_t>(i)]) + "\""});
  }
  const std::string verdict = demo.holds
                                  ? std::string(either(terminal, "✓ ", "")) + "Yes: float32 rounding explains it."
                                  : std::string(either(terminal, "✗ ", "")) + "NO: more than rounding explains.";
  std::cout << table.text() << "\n  " << paint(terminal, demo.holds ? Style::good : Style::bad, verdict) << '\n';
}

// As many of the strongest links as fit: "keeper → lighthouse 0.73, lamp → lighthouse 0.63".
std::string links_text(const Terminal& terminal, const Demo& demo, const HeadFacts& facts, std::int64_t width) {
  std::string text;
  std::set<std::string> said;  // a word that occurs twice can make the same link twice
  for (const Link& link : facts.links) {
    const std::string words = demo.token(link.query) + ' ' + arrow(terminal) + ' ' + demo.token(link.key);
    if (!said.insert(words).second) continue;
    const std::string longer = text + (text.empty() ? "" : ", ") + words + ' ' + fixed(link.weight, 2);
    if (display_width(longer) > width) break;
    text = longer;
  }
  return text;
}

void print_heads(const Terminal& terminal, const Demo& demo) {
  constexpr int kLinksWidth = 51;  // what the other columns leave of the page
  const double most = std::log(static_cast<double>(demo.length()));
  print_heading(terminal, "What do the heads attend to? Heads of " + sentence_name(demo.sentence));
  Table table(terminal, {{"head", Table::Side::right},
                         {"entropy"},
                         {"sink mass"},
                         {"mark"},
                         {"strongest links between words: from " + arrow(terminal) + " to, weight"}});
  for (std::size_t h = 0; h < demo.heads.size(); ++h) {
    const HeadFacts& facts = demo.heads[h];
    table.add({std::to_string(h), fixed(facts.entropy, 2) + ' ' + bar(terminal, facts.entropy / most, 10),
               pad_left(percent(facts.sink_mass), 5) + ' ' + bar(terminal, facts.sink_mass, 5),
               paint(terminal, facts.mark == "collapsed" ? Style::bad : Style::bold, facts.mark),
               links_text(terminal, demo, facts, kLinksWidth)});
  }
  std::cout << table.text() << '\n'
            << wrap("  ", "Entropy in nats, the mean over the tokens: 0 is one key, " + fixed(most, 2) +
                              " all keys alike. Collapsed: under " + percent(kCollapsedShare) +
                              " of that; uniform: over " + percent(kUniformShare) + ". Sink mass: the weight that " +
                              demo.token(0) + ", the first key, gets; sink-like: " + percent(kSinkShare) + " or more.");
  for (std::size_t h = 0; h < demo.heads.size(); ++h)
    if (demo.heads[h].previous_mass > kPreviousShare)
      std::cout << wrap("  ", "Head " + std::to_string(h) + " looks at the token just before, which gets " +
                                  percent(demo.heads[h].previous_mass, 1) + " of the weight.");
}

// From which weight on a shade is used; below the first: blank. Halves of the eye's choosing, more shades there are
// not.
constexpr std::array<double, 4> kShadeFrom{0.05, 0.15, 0.35, 0.65};

// Two columns a key look square.
std::string_view shade(const Terminal& terminal, double weight) {
  constexpr std::array<std::string_view, 5> blocks{"  ", "░░", "▒▒", "▓▓", "██"};
  constexpr std::array<std::string_view, 5> letters{"  ", "..", "::", "++", "##"};
  const auto level = std::upper_bound(kShadeFrom.begin(), kShadeFrom.end(), weight) - kShadeFrom.begin();
  return either(terminal, blocks[static_cast<std::size_t>(level)], letters[static_cast<std::size_t>(level)]);
}

std::string map_row(const Terminal& terminal, const Demo& demo, std::int64_t query) {
  std::string row;
  for (std::int64_t j = 0; j < demo.length(); ++j)
    row += shade(terminal, demo.result.weights(demo.sentence, demo.head, query, j));
  row = paint(terminal, Style::accent, row);
  if (demo.length() == demo.input.len()) return row;
  std::string excluded = repeat(std::string(cell_of(terminal, Reason::length)) + ' ', demo.input.len() - demo.length());
  excluded.pop_back();
  return row + paint(terminal, Style::dim, excluded);
}

void print_ranges(const Terminal& terminal, const Demo& demo) {
  for (const TraceRange& range : demo.trace.ranges) {
    const bool is_visible = range.reason == Reason::visible;
    std::cout << "  " << pad_right(keys_text(terminal, range), 12) << "  "
              << paint(terminal, is_visible ? Style::good : Style::dim, is_visible ? "visible " : "excluded") << "  "
              << (is_visible ? "the tokens of the sentence"
                             : std::string(reason_name(range.reason)) + ": padding behind the sentence's " +
                                   std::to_string(demo.length()) + " tokens")
              << '\n';
  }
}

// The word's weights as bars, beside them the whole map of the head.
void print_word(const Terminal& terminal, const Demo& demo) {
  const std::string word = "\"" + demo.token(demo.query) + "\"";
  print_heading(terminal, "What does " + word + " see? Query " + std::to_string(demo.query) + " of " +
                              sentence_name(demo.sentence) + ", head " + std::to_string(demo.head));
  print_ranges(terminal, demo);
  std::int64_t label = 5;
  std::string initials;  // of the keys, above the map
  for (std::int64_t i = 0; i < demo.length(); ++i) {
    label = std::max(label, display_width(demo.token(i)));
    initials += demo.token(i).substr(0, 1) + " ";
  }
  // Indent, label, bar, number, marker, label and map fill the page.
  const std::int64_t room = kPageWidth - 2 - (label + 1) - 5 - 6 - (label + 2) - 2 * demo.input.len();
  const int bar_width = static_cast<int>(std::clamp<std::int64_t>(room, 4, 16));
  std::cout << '\n'
            << "  " << paint(terminal, Style::dim, pad_right("weights from " + word, label + bar_width + 12))
            << paint(terminal, Style::dim, pad_left("map", label) + "  " + initials) << '\n';
  for (std::int64_t i = 0; i < demo.length(); ++i) {
    const double weight = demo.result.weights(demo.sentence, demo.head, demo.query, i);
    const bool is_query = i == demo.query;
    const std::string name = pad_left(demo.token(i), label);
    std::cout << "  " << name << ' ' << bar(terminal, weight, bar_width) << ' ' << fixed(weight, 2) << "    "
              << (is_query ? arrow(terminal) : " ") << ' ' << (is_query ? paint(terminal, Style::bold, name) : name)
              << "  " << map_row(terminal, demo, i) << '\n';
  }
  std::cout << "\n  Map: rows are queries, columns keys; from";
  for (const double from : kShadeFrom)
    std::cout << ' ' << fixed(from, 2) << ' ' << paint(terminal, Style::accent, shade(terminal, from));
  if (demo.length() < demo.input.len())
    std::cout << "; " << cell_of(terminal, Reason::length) << " padding, never read";
  std::cout << '\n';
}

void print_speed(const Terminal& terminal, const Demo& demo) {
  if (demo.timings.empty()) return;
  print_heading(terminal, "How fast?");
  Table table(terminal, {{"the layer over"},
                         {"threads", Table::Side::right},
                         {"time", Table::Side::right},
                         {"GFLOP/s", Table::Side::right},
                         {"peak here", Table::Side::right},
                         {"share of peak"}});
  std::string previous;
  for (const Timing& timing : demo.timings) {
    table.add({timing.what == previous ? "" : timing.what, std::to_string(timing.threads),
               seconds_text(terminal, timing.seconds), fixed(timing.rate() / 1e9, 1), fixed(timing.peak_flops / 1e9, 1),
               bar(terminal, timing.share(), 10) + pad_left(percent(timing.share()), 6)});
    previous = timing.what;
  }
  std::cout << table.text() << '\n'
            << wrap("  ",
                    "Timed: heed::MultiHeadAttention, the fastest of many calls. Counted: the additions and "
                    "multiplications of the four projections, and 4 x " +
                        std::to_string(demo.input.head_dim()) +
                        " for every query, visible key and head; the softmax is not counted. Peak: float32 "
                        "multiply-adds in registers, measured just before.");
}

}  // namespace

void print_demo(const Terminal& terminal, const Demo& demo) {
  print_sentences(terminal, demo);
  print_agreement(terminal, demo);
  print_heads(terminal, demo);
  print_word(terminal, demo);
  print_speed(terminal, demo);
  std::cout << "\n  Next: heed demo --sentence 1 --word key, heed verify, heed attend --help\n";
}

Json demo_json(const Demo& demo) {
  Json json{{"command", "demo"}, {"version", kVersion}, {"isa", isa_name(isa())}, {"holds", demo.holds}};
  json["sentence"] = demo.input.sentences[static_cast<std::size_t>(demo.sentence)];
  json["tokens"] = Json::array();
  for (std::int64_t i = 0; i < demo.length(); ++i) json["tokens"].push_back(demo.token(i));
  for (const Agreement& agreement : demo.agreements)
    json["agreement"].push_back({{"result", agreement.name},
                                 {"error", number(agreement.error)},
                                 {"allowed", agreement.allowed},
                                 {"sentence", agreement.where[0] + 1},
                                 {"head", agreement.where[1] < 0 ? Json() : Json(agreement.where[1])},
                                 {"query", agreement.where[2]}});
  constexpr std::size_t kMostLinks = 5;  // the weak ones say nothing
  for (std::size_t h = 0; h < demo.heads.size(); ++h) {
    const HeadFacts& facts = demo.heads[h];
    Json head{{"head", h},
              {"entropy", number(facts.entropy)},
              {"sink_mass", number(facts.sink_mass)},
              {"previous_mass", number(facts.previous_mass)},
              {"mark", facts.mark},
              {"links", Json::array()}};
    for (std::size_t i = 0; i < std::min(kMostLinks, facts.links.size()); ++i)
      head["links"].push_back({{"from", demo.token(facts.links[i].query)},
                               {"to", demo.token(facts.links[i].key)},
                               {"query", facts.links[i].query},
                               {"key", facts.links[i].key},
                               {"weight", number(facts.links[i].weight)}});
    json["heads"].push_back(head);
  }
  json["word"] = {{"word", demo.token(demo.query)}, {"query", demo.query}, {"head", demo.head}};
  for (const TraceRange& range : demo.trace.ranges)
    json["word"]["ranges"].push_back(
        {{"begin", range.begin}, {"end", range.end}, {"reason", reason_name(range.reason)}});
  for (std::int64_t i = 0; i < demo.length(); ++i)
    json["word"]["weights"].push_back(number(demo.result.weights(demo.sentence, demo.head, demo.query, i)));
  json["timings"] = Json::array();
  for (const Timing& timing : demo.timings)
    json["timings"].push_back({{"what", timing.what},
                               {"threads", timing.threads},
                               {"flop", timing.flop},
                               {"seconds", timing.seconds},
                               {"calls", timing.calls},
                               {"flops_per_second", timing.rate()},
                               {"peak_flops_per_second", timing.peak_flops}});
  return json;
}

}  // namespace heed::cli
