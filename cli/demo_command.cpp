// heed demo: attention of a real model on a real sentence, checked, explained and timed.
#include <algorithm>
#include <cmath>
#include <heed/runtime.hpp>
#include <heed/trace.hpp>
#include <iostream>
#include <memory>

#include "cli/command.hpp"
#include "cli/demo_model.hpp"
#include "cli/demo_speed.hpp"
#include "cli/files.hpp"
#include "cli/pattern.hpp"
#include "cli/report.hpp"

namespace heed::cli {
namespace {

struct DemoFlags {
  int sentence = 2;
  std::string word;
  std::optional<std::int64_t> head;
  bool is_untimed = false;
  bool wants_json = false;
};

// Everything the demo shows.
struct Demo {
  Terminal terminal;
  DemoInput input;
  DemoResult result;
  std::vector<Agreement> agreements;
  std::int64_t sentence = 0;
  std::vector<HeadFacts> heads;  // on this sentence
  std::int64_t query = 0, head = 0;
  Trace trace;
  std::vector<Timing> timings;
  bool holds = true;

  std::string token(std::int64_t i) const {
    return shown_token(input.tokens[static_cast<std::size_t>(sentence)][static_cast<std::size_t>(i)]);
  }
};

std::int64_t find_word(const Demo& demo, const std::string& word) {
  std::string words;
  for (std::int64_t i = 0; i < demo.input.length(demo.sentence); ++i) {
    if (demo.token(i) == word) return i;
    words += (i == 0 ? "" : " ") + demo.token(i);
  }
  refuse("demo", "--word", "'" + word + "' is not in sentence " + std::to_string(demo.sentence + 1) + ": " + words);
}

// The head in which the word looks hardest at one other word, collapsed heads aside: they do so for any word.
std::int64_t most_telling_head(const Demo& demo) {
  std::int64_t best = 0;
  double most = -1;
  for (std::int64_t h = 0; h < demo.input.heads(); ++h) {
    const HeadFacts& facts = demo.heads[static_cast<std::size_t>(h)];
    if (facts.mark == "collapsed") continue;
    for (const Link& link : facts.links)
      if (link.query == demo.query && link.weight > most) {
        most = link.weight;
        best = h;
      }
  }
  return best;
}

Demo make_demo(const DemoFlags& flags) {
  Demo demo;
  demo.terminal = stdout_terminal();
  demo.input = load_demo_input();
  const auto sentences = std::ssize(demo.input.sentences);
  if (flags.sentence < 1 || flags.sentence > sentences)
    refuse("demo", "--sentence", std::to_string(flags.sentence) + ", expected 1 to " + std::to_string(sentences));
  if (flags.head && (*flags.head < 0 || *flags.head >= demo.input.heads()))
    refuse("demo", "--head", std::to_string(*flags.head) + ", expected 0 to " + std::to_string(demo.input.heads() - 1));
  demo.sentence = flags.sentence - 1;
  demo.query = find_word(demo, !flags.word.empty() ? flags.word : flags.sentence == 1 ? "key" : "lamp");
  demo.result = run_demo(demo.input);
  demo.agreements = compare(demo.input, demo.result);
  for (const Agreement& agreement : demo.agreements) demo.holds = demo.holds && agreement.holds();
  for (std::int64_t h = 0; h < demo.input.heads(); ++h)
    demo.heads.push_back(head_facts(demo.input, demo.result, demo.sentence, h));
  demo.head = flags.head.value_or(most_telling_head(demo));
  const auto& shape = demo.input.q.shape();
  demo.trace =
      trace({shape[2], shape[2], demo.query, demo.sentence, demo.head, shape[0], shape[1]}, demo.input.options());
  if (!flags.is_untimed) demo.timings = time_demo(demo.input);
  return demo;
}

void print_heading(const Terminal& terminal, const std::string& text) {
  const std::string line = repeat(either(terminal, "─", "-"), kPageWidth - display_width(text) - 4);
  const std::string dash(either(terminal, "──", "--"));
  std::cout << '\n'
            << paint(terminal, Style::dim, dash) << ' ' << paint(terminal, Style::bold, text) << ' '
            << paint(terminal, Style::dim, line) << '\n';
}

void print_sentences(const Demo& demo) {
  const auto& input = demo.input;
  std::cout << paint(demo.terminal, Style::bold, "heed demo") << ": attention of a real model on real sentences\n\n"
            << "  Layer 0 of the sentence encoder all-MiniLM-L6-v2: " << input.heads() << " heads of "
            << input.q.shape()[3] << ", float32, " << isa_name(isa()) << ", heed " << kVersion << ".\n\n";
  for (std::size_t b = 0; b < input.sentences.size(); ++b) {
    const std::int64_t length = input.kv_lengths(b);
    const std::int64_t padding = input.q.shape()[2] - length;
    std::string text = std::to_string(b + 1) + "  " + paint(demo.terminal, Style::accent, input.sentences[b]) + "  (" +
                       std::to_string(length) + " tokens";
    if (padding > 0) text += " and " + std::to_string(padding) + " of padding";
    std::cout << "  " << wrap(text + ")", kPageWidth - 2, 5) << '\n';
  }
}

void print_agreement(const Demo& demo) {
  print_heading(demo.terminal, "Is it right?");
  std::cout << "  Every element against a float64 reference of the same layer, padded rows too:\n\n";
  Table table(
      demo.terminal,
      {{"result"}, {"largest error", Table::Side::right}, {"allowed", Table::Side::right}, {"used"}, {"where"}});
  for (const Agreement& agreement : demo.agreements) {
    const double used = agreement.error / agreement.allowed;
    const auto b = static_cast<std::size_t>(agreement.where[0]);
    table.add({agreement.name, scientific(agreement.error), scientific(agreement.allowed),
               bar(demo.terminal, used, 12) + pad_left(percent(used), 6),
               "sentence " + std::to_string(b + 1) + ", head " + std::to_string(agreement.where[1]) + ", \"" +
                   shown_token(demo.input.tokens[b][static_cast<std::size_t>(agreement.where[2])]) + "\""});
  }
  std::cout << table.text() << "\n  "
            << (demo.holds
                    ? paint(demo.terminal, Style::good, std::string(either(demo.terminal, "✓ ", "")) + "It agrees.")
                    : paint(demo.terminal, Style::bad,
                            std::string(either(demo.terminal, "✗ ", "")) + "IT DOES NOT AGREE."))
            << '\n';
}

// As many of the strongest links as fit: "keeper → lighthouse .73, lamp → lighthouse .63".
std::string links_text(const Demo& demo, const HeadFacts& facts, std::int64_t width) {
  std::string text;
  for (const Link& link : facts.links) {
    const std::string one = demo.token(link.query) + std::string(either(demo.terminal, " → ", " > ")) +
                            demo.token(link.key) + ' ' + fixed(link.weight, 2);
    const std::string longer = text.empty() ? one : text + ", " + one;
    if (display_width(longer) > width) break;
    text = longer;
  }
  return text;
}

void print_heads(const Demo& demo) {
  constexpr int kLinksWidth = 47;  // what the other columns leave of the page
  const Terminal& terminal = demo.terminal;
  const double most = std::log(static_cast<double>(demo.input.length(demo.sentence)));
  print_heading(terminal, "What do the heads attend to? Sentence " + std::to_string(demo.sentence + 1));
  Table table(terminal,
              {{"head", Table::Side::right},
               {"entropy"},
               {"to " + demo.token(0)},
               {"mark"},
               {"strongest links between words: from " + std::string(either(terminal, "→", ">")) + " to, weight"}});
  for (std::size_t h = 0; h < demo.heads.size(); ++h) {
    const HeadFacts& facts = demo.heads[h];
    const Style style = facts.mark == "collapsed" ? Style::bad : Style::bold;
    table.add({std::to_string(h), fixed(facts.entropy, 2) + ' ' + bar(terminal, facts.entropy / most, 10),
               pad_left(percent(facts.sink_mass), 5) + ' ' + bar(terminal, facts.sink_mass, 5),
               paint(terminal, style, facts.mark), links_text(demo, facts, kLinksWidth)});
  }
  std::cout << table.text() << '\n'
            << wrap("  Entropy in nats, the mean over the tokens: 0 is one key, " + fixed(most, 2) +
                        " all keys alike. Collapsed: under " + percent(kCollapsedShare) + " of that; uniform: over " +
                        percent(kUniformShare) + "; sink-like: " + demo.token(0) + ", the first key, gets " +
                        percent(kSinkShare) + " of the weight or more.",
                    kPageWidth, 2)
            << '\n';
  for (std::size_t h = 0; h < demo.heads.size(); ++h)
    if (demo.heads[h].previous_mass > 0.5)
      std::cout << wrap("  Head " + std::to_string(h) + " looks at the token just before: it gets " +
                            percent(demo.heads[h].previous_mass, 1) + " of the weight.",
                        kPageWidth, 2)
                << '\n';
}

// Weights from 1/20 up in four shades; two columns a key look square.
std::string shade(const Terminal& terminal, double weight) {
  constexpr std::array<double, 4> from{0.05, 0.15, 0.35, 0.65};
  constexpr std::array<std::string_view, 5> blocks{"  ", "░░", "▒▒", "▓▓", "██"}, letters{"  ", "..", "::", "++", "##"};
  const auto level = static_cast<std::size_t>(std::upper_bound(from.begin(), from.end(), weight) - from.begin());
  return std::string(either(terminal, blocks[level], letters[level]));
}

std::string map_row(const Demo& demo, std::int64_t query) {
  const Terminal& terminal = demo.terminal;
  const std::int64_t length = demo.input.length(demo.sentence);
  std::string row;
  for (std::int64_t j = 0; j < length; ++j)
    row += shade(terminal, demo.result.weights(demo.sentence, demo.head, query, j));
  row = paint(terminal, Style::accent, row);
  const std::string excluded = std::string(cell_of(terminal, Reason::length)) + ' ';
  return row + paint(terminal, Style::dim, repeat(excluded, demo.input.q.shape()[2] - length));
}

// The word's weights as bars beside the whole map of the head.
void print_word(const Demo& demo) {
  const Terminal& terminal = demo.terminal;
  const std::string word = "\"" + demo.token(demo.query) + "\"";
  const auto& shape = demo.input.q.shape();
  print_heading(terminal, "What does " + word + " see? Sentence " + std::to_string(demo.sentence + 1) + ", query " +
                              std::to_string(demo.query) + ", head " + std::to_string(demo.head));
  for (const TraceRange& range : demo.trace.ranges) {
    const bool is_visible = range.reason == Reason::visible;
    std::cout << "  " << pad_right(keys_text(terminal, range), 12) << ' '
              << (is_visible ? paint(terminal, Style::good, "visible ") : paint(terminal, Style::dim, "excluded"))
              << "  "
              << (is_visible ? "the tokens of the sentence"
                             : std::string(reason_name(range.reason)) + ": padding, " +
                                   explain(demo.trace, range, demo.input.options()))
              << '\n';
  }
  const std::int64_t length = demo.input.length(demo.sentence);
  std::int64_t label = 5;
  for (std::int64_t i = 0; i < length; ++i) label = std::max(label, display_width(demo.token(i)));
  const std::int64_t map_width = 2 * shape[2];
  const int bar_width = static_cast<int>(std::min<std::int64_t>(16, kPageWidth - 2 - 2 * label - 15 - map_width));
  const std::string dim_keys = "keys in order " + std::string(either(terminal, "→", ">"));
  std::cout << '\n'
            << "  " << paint(terminal, Style::dim, pad_right("weights of " + word, label + bar_width + 11))
            << paint(terminal, Style::dim, pad_left("query", label) + "  " + dim_keys) << '\n';
  for (std::int64_t i = 0; i < length; ++i) {
    const double weight = demo.result.weights(demo.sentence, demo.head, demo.query, i);
    const bool is_query = i == demo.query;
    const std::string name = pad_left(demo.token(i), label);
    std::cout << "  " << name << ' ' << bar(terminal, weight, bar_width) << ' ' << fixed(weight, 2) << "  "
              << (is_query ? either(terminal, " →", " >") : "  ") << ' '
              << (is_query ? paint(terminal, Style::bold, name) : name) << "  " << map_row(demo, i) << '\n';
  }
  std::cout << "\n  The map: from";
  for (const double from : {0.05, 0.15, 0.35, 0.65})
    std::cout << ' ' << fixed(from, 2) << ' ' << paint(terminal, Style::accent, shade(terminal, from));
  if (length < shape[2]) std::cout << ", " << cell_of(terminal, Reason::length) << " padding, never read";
  std::cout << '\n';
}

void print_speed(const Demo& demo) {
  if (demo.timings.empty()) return;
  const Terminal& terminal = demo.terminal;
  print_heading(terminal, "How fast? As a share of this machine's peak");
  Table table(terminal, {{"attention over"},
                         {"threads", Table::Side::right},
                         {"time", Table::Side::right},
                         {"GFLOP/s", Table::Side::right},
                         {"peak", Table::Side::right},
                         {"share of peak"}});
  std::string previous;
  for (const Timing& timing : demo.timings) {
    table.add({timing.what == previous ? "" : timing.what, std::to_string(timing.threads),
               seconds_text(terminal, timing.seconds), fixed(timing.rate() / 1e9, 1), fixed(timing.peak_flops / 1e9, 1),
               bar(terminal, timing.share(), 10) + pad_left(percent(timing.share()), 6)});
    previous = timing.what;
  }
  std::cout
      << table.text() << '\n'
      << wrap("  Timed: heed::attention alone, the fastest of up to " + grouped(demo.timings.front().calls) +
                  " calls. Counted: 4 x 32 additions and multiplications for every query, visible key and head, the"
                  " softmax not counted. Peak: float32 multiply-adds in registers, measured just before.",
              kPageWidth, 2)
      << '\n';
}

Json demo_json(const Demo& demo) {
  Json json{{"command", "demo"}, {"version", kVersion}, {"isa", isa_name(isa())}, {"holds", demo.holds}};
  json["sentence"] = demo.input.sentences[static_cast<std::size_t>(demo.sentence)];
  json["tokens"] = Json::array();
  for (std::int64_t i = 0; i < demo.input.length(demo.sentence); ++i) json["tokens"].push_back(demo.token(i));
  for (const Agreement& agreement : demo.agreements)
    json["agreement"].push_back({{"result", agreement.name},
                                 {"error", number(agreement.error)},
                                 {"allowed", agreement.allowed},
                                 {"sentence", agreement.where[0] + 1},
                                 {"head", agreement.where[1]},
                                 {"query", agreement.where[2]}});
  constexpr std::size_t kMostLinks = 5;  // the weak ones say nothing
  for (std::size_t h = 0; h < demo.heads.size(); ++h) {
    const HeadFacts& facts = demo.heads[h];
    Json head{{"head", h},
              {"entropy", number(facts.entropy)},
              {"sink_mass", number(facts.sink_mass)},
              {"mark", facts.mark},
              {"previous_mass", number(facts.previous_mass)}};
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

int run_demo_command(const DemoFlags& flags) {
  const Demo demo = make_demo(flags);
  if (flags.wants_json) {
    print_json(demo_json(demo));
  } else {
    print_sentences(demo);
    print_agreement(demo);
    print_heads(demo);
    print_word(demo);
    print_speed(demo);
  }
  return demo.holds ? kWell : kDoesNotHold;
}

}  // namespace

void add_demo_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App* command = app.add_subcommand("demo", "Attention of a real model on a real sentence, checked and explained");
  command->footer("Exit code 1 when the result does not agree with the reference.\n" +
                  example("heed demo\n  heed demo --sentence 1 --word weight --head 3"));
  command->add_option("--sentence", flags->sentence, "Which of the two sentences is shown (default 2)")
      ->type_name("1|2");
  command->add_option("--word", flags->word, "The word whose view is shown (default lamp, or key in sentence 1)")
      ->type_name("WORD");
  command
      ->add_option("--head", flags->head, "The head it is shown for (default: where it looks hardest at another word)")
      ->type_name("N");
  command->add_flag("--no-timing", flags->is_untimed, "Leave the speed out");
  command->add_flag("--json", flags->wants_json, "Report as JSON");
  command->callback([flags, &action] { action = [flags] { return run_demo_command(*flags); }; });
}

}  // namespace heed::cli
