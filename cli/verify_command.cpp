// heed verify: is this build right on this machine?
#include <heed/runtime.hpp>
#include <iostream>
#include <memory>

#include "cli/command.hpp"
#include "cli/files.hpp"
#include "cli/report.hpp"
#include "verify/invariants.hpp"
#include "verify/proofs.hpp"

namespace heed::cli {
namespace {

using verify::InvariantResult;
using verify::ProofResult;

struct VerifyFlags {
  std::vector<std::string> isas;
  bool invariants = false;
  bool wants_json = false;
};

std::string verdict(const Terminal& terminal, bool holds) {
  return holds ? paint(terminal, Style::good, std::string(either(terminal, "✓ holds", "holds")))
               : paint(terminal, Style::bad, std::string(either(terminal, "✗ FAILS", "FAILS")));
}

void print_proofs(const std::vector<ProofResult>& results) {
  const Terminal terminal = stdout_terminal();
  Table table(terminal,
              {{"isa"}, {"of"}, {"proof"}, {"", Table::Side::left}, {"cases", Table::Side::right}, {"worst seen"}});
  const ProofResult* previous = nullptr;
  for (const ProofResult& result : results) {
    const bool is_same_isa = previous && previous->isa == result.isa;
    const bool is_same_subject = is_same_isa && previous->subject == result.subject;
    table.add({is_same_isa ? "" : std::string(isa_name(result.isa)),
               is_same_subject ? "" : std::string(verify::subject_name(result.subject)),
               std::string(verify::proof_name(result.proof)), verdict(terminal, result.holds), grouped(result.cases),
               result.worst});
    previous = &result;
  }
  std::cout << table.text() << '\n';
  for (const ProofResult& result : results)
    if (!result.holds)
      std::cout << wrap("  ", std::string(isa_name(result.isa)) + ", " +
                                  std::string(verify::subject_name(result.subject)) + ", " +
                                  std::string(verify::proof_name(result.proof)) + ": " + result.failure)
                << '\n';
  std::cout << wrap("", verify::summary_paragraph(results));
}

Json proofs_json(const std::vector<ProofResult>& results) {
  Json json{{"command", "verify"}, {"version", kVersion}, {"holds", verify::all_hold(results)}};
  json["proofs"] = Json::array();
  for (const ProofResult& result : results)
    json["proofs"].push_back({{"isa", isa_name(result.isa)},
                              {"subject", verify::subject_name(result.subject)},
                              {"proof", verify::proof_name(result.proof)},
                              {"claim", verify::proof_claim(result.subject, result.proof)},
                              {"holds", result.holds},
                              {"cases", result.cases},
                              {"worst", result.worst},
                              {"failure", result.failure}});
  json["summary"] = verify::summary_paragraph(results);
  return json;
}

void print_invariants(const std::vector<InvariantResult>& results) {
  const Terminal terminal = stdout_terminal();
  Table table(terminal, {{"isa"}, {"invariant"}, {""}, {"seen"}});
  const InvariantResult* previous = nullptr;
  for (const InvariantResult& result : results) {
    const bool is_same_isa = previous && previous->isa == result.isa;
    table.add({is_same_isa ? "" : std::string(isa_name(result.isa)),
               std::string(verify::invariant_name(result.invariant)), verdict(terminal, result.holds), result.seen});
    previous = &result;
  }
  std::cout << table.text() << '\n';
  for (const InvariantResult& result : results)
    if (!result.holds)
      std::cout << wrap("  ", std::string(isa_name(result.isa)) + ", " +
                                  std::string(verify::invariant_name(result.invariant)) + ": " + result.failure)
                << '\n';
  for (const verify::Invariant invariant : verify::all_invariants())
    std::cout << wrap(pad_right(verify::invariant_name(invariant), 15), verify::invariant_claim(invariant));
}

Json invariants_json(const std::vector<InvariantResult>& results) {
  Json json{{"command", "verify"}, {"version", kVersion}, {"holds", verify::all_hold(results)}};
  json["invariants"] = Json::array();
  for (const InvariantResult& result : results)
    json["invariants"].push_back({{"isa", isa_name(result.isa)},
                                  {"invariant", verify::invariant_name(result.invariant)},
                                  {"claim", verify::invariant_claim(result.invariant)},
                                  {"holds", result.holds},
                                  {"seen", result.seen},
                                  {"failure", result.failure}});
  return json;
}

template <class Results, class Print, class ToJson>
int report(const Results& results, bool wants_json, Print print, ToJson to_json) {
  wants_json ? print_json(to_json(results)) : print(results);
  return verify::all_hold(results) ? kWell : kDoesNotHold;
}

int run_verify(const VerifyFlags& flags) {
  std::vector<Isa> isas;
  for (const std::string& name : flags.isas) isas.push_back(isa_from_name(name));
  if (flags.invariants)
    return report(verify::run_invariants({.isas = isas}), flags.wants_json, print_invariants, invariants_json);
  return report(verify::run_proofs({.isas = isas}), flags.wants_json, print_proofs, proofs_json);
}

}  // namespace

void add_verify_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = app.add_subcommand("verify", "Prove this build right on this machine, on every instruction set");
  command->footer(
      "Shape, float64 equivalence, bitwise causality, no NaN on padding: of attention, and of the\nmulti-head module "
      "around it. With --invariants ten small facts of attention, softmax, k-means,\nAdam and beam search. "
      "Exit code 1 when one fails.\n" +
      example("heed verify\n  heed verify --isa avx2 --json\n  heed verify --invariants"));
  command->add_option("--isa", flags->isas, "Only this instruction set; may be given several times")
      ->type_name("avx512|avx2|neon|portable");
  command->add_flag("--invariants", flags->invariants, "The ten invariants, in place of the proofs");
  command->add_flag("--json", flags->wants_json, "Report as JSON");
  command->callback([flags, &action] { action = [flags] { return run_verify(*flags); }; });
}

}  // namespace heed::cli
