// heed verify: is this build right on this machine?
#include <heed/runtime.hpp>
#include <iostream>
#include <memory>

#include "cli/command.hpp"
#include "cli/files.hpp"
#include "cli/report.hpp"
#include "verify/proofs.hpp"

namespace heed::cli {
namespace {

using verify::ProofResult;

struct VerifyFlags {
  std::vector<std::string> isas;
  bool wants_json = false;
};

void print_proofs(const std::vector<ProofResult>& results) {
  const Terminal terminal = stdout_terminal();
  Table table(terminal,
              {{"isa"}, {"of"}, {"proof"}, {"", Table::Side::left}, {"cases", Table::Side::right}, {"worst seen"}});
  const ProofResult* previous = nullptr;
  for (const ProofResult& result : results) {
    const std::string verdict = result.holds
                                    ? paint(terminal, Style::good, std::string(either(terminal, "✓ holds", "holds")))
                                    : paint(terminal, Style::bad, std::string(either(terminal, "✗ FAILS", "FAILS")));
    const bool is_same_isa = previous && previous->isa == result.isa;
    const bool is_same_subject = is_same_isa && previous->subject == result.subject;
    table.add({is_same_isa ? "" : std::string(isa_name(result.isa)),
               is_same_subject ? "" : std::string(verify::subject_name(result.subject)),
               std::string(verify::proof_name(result.proof)), verdict, grouped(result.cases), result.worst});
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

int run_verify(const VerifyFlags& flags) {
  verify::ProofOptions options;
  for (const std::string& name : flags.isas) options.isas.push_back(isa_from_name(name));
  const auto results = verify::run_proofs(options);
  if (flags.wants_json)
    print_json(proofs_json(results));
  else
    print_proofs(results);
  return verify::all_hold(results) ? kWell : kDoesNotHold;
}

}  // namespace

void add_verify_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command = app.add_subcommand("verify", "Prove this build right on this machine, on every instruction set");
  command->footer(
      "Shape, float64 equivalence, bitwise causality, no NaN on padding: of attention, and of the\nmulti-head module "
      "around it. Exit code 1 when a proof fails.\n" +
      example("heed verify\n  heed verify --isa avx2 --json"));
  command->add_option("--isa", flags->isas, "Only this instruction set; may be given several times")
      ->type_name("avx512|avx2|neon|portable");
  command->add_flag("--json", flags->wants_json, "Report as JSON");
  command->callback([flags, &action] { action = [flags] { return run_verify(*flags); }; });
}

}  // namespace heed::cli
