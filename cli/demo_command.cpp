// heed demo: the attention layer of a real model on a real sentence, checked, explained and timed.
#include <heed/runtime.hpp>
#include <memory>
#include <optional>

#include "cli/command.hpp"
#include "cli/demo.hpp"
#include "cli/files.hpp"

namespace heed::cli {
namespace {

struct DemoFlags {
  int sentence = 2;
  std::string word;
  std::optional<std::int64_t> head;
  bool is_untimed = false;
  bool wants_json = false;
};

std::int64_t find_word(const Demo& demo, const std::string& word) {
  std::string words;
  for (std::int64_t i = 0; i < demo.length(); ++i) {
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
  Demo demo{.input = load_demo_input()};
  const auto sentences = std::ssize(demo.input.sentences);
  if (flags.sentence < 1 || flags.sentence > sentences)
    refuse("demo", "--sentence", std::to_string(flags.sentence) + ", expected 1 to " + std::to_string(sentences));
  if (flags.head && (*flags.head < 0 || *flags.head >= demo.input.heads()))
    refuse("demo", "--head", std::to_string(*flags.head) + ", expected 0 to " + std::to_string(demo.input.heads() - 1));
  demo.sentence = flags.sentence - 1;
  const std::string usual_word = flags.sentence == 1 ? "key" : "lamp";
  demo.query = find_word(demo, flags.word.empty() ? usual_word : flags.word);

  demo.result = run_demo(demo.input);
  demo.agreements = compare(demo.input, demo.result);
  for (const Agreement& agreement : demo.agreements) demo.holds = demo.holds && agreement.holds();
  for (std::int64_t h = 0; h < demo.input.heads(); ++h)
    demo.heads.push_back(head_facts(demo.input, demo.result, demo.sentence, h));
  demo.head = flags.head.value_or(most_telling_head(demo));
  const std::int64_t len = demo.input.len();
  demo.trace =
      trace({len, len, demo.query, demo.sentence, demo.head, sentences, demo.input.heads()}, demo.input.visibility());
  if (!flags.is_untimed) demo.timings = time_demo(demo.input);
  return demo;
}

int run_demo_command(const DemoFlags& flags) {
  const Demo demo = make_demo(flags);
  if (flags.wants_json)
    print_json(demo_json(demo));
  else
    print_demo(stdout_terminal(), demo);
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
  command->add_option("--head", flags->head, "The head that is shown (default: where it looks hardest at a word)")
      ->type_name("N");
  command->add_flag("--no-timing", flags->is_untimed, "Leave the speed out");
  command->add_flag("--json", flags->wants_json, "Report as JSON");
  command->callback([flags, &action] { action = [flags] { return run_demo_command(*flags); }; });
}

}  // namespace heed::cli
