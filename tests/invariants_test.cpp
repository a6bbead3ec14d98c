// The ten invariants: they hold for Heed, and each fails on the mistake it is there for, alone.
#include "verify/invariants.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "verify/invariant_mutants.hpp"

namespace heed::verify {
namespace {

TEST(Invariants, AreTenWithNamesOfTheirOwn) {
  std::set<std::string_view> names, claims;
  for (const Invariant invariant : all_invariants())
    names.insert(invariant_name(invariant)), claims.insert(invariant_claim(invariant));
  EXPECT_EQ(all_invariants().size(), 10u);
  EXPECT_EQ(names.size(), 10u);
  EXPECT_EQ(claims.size(), 10u);
}

TEST(Invariants, HoldForHeed_OnEveryInstructionSet) {
  const Isa before = isa();
  const auto results = run_invariants();
  EXPECT_EQ(isa(), before);
  EXPECT_EQ(results.size(), 10 * available_isas().size());
  for (const InvariantResult& result : results) {
    EXPECT_TRUE(result.holds) << isa_name(result.isa) << ' ' << invariant_name(result.invariant) << ": "
                              << result.failure;
    EXPECT_TRUE(result.failure.empty());
    EXPECT_FALSE(result.seen.empty());
  }
  EXPECT_TRUE(all_hold(results));
}

// Of the mutant in one type, Heed in the other: each type is looked at by itself.
template <class T>
Algorithms only_in(const Algorithms& mutant) {
  Algorithms candidate = heed_algorithms();
  candidate.of<T>() = mutant.of<T>();
  return candidate;
}

TEST(Invariants, EachFailsOnItsMutant_AndNoOtherDoes) {
  const auto mutants = invariant_mutants();
  ASSERT_EQ(mutants.size(), all_invariants().size());
  for (const Isa isa : available_isas())
    for (const InvariantMutant& mutant : mutants)
      for (const char* type : {"float32", "float64"}) {
        const bool is_float32 = std::string_view(type) == "float32";
        const auto results = run_invariants(
            {.candidate = is_float32 ? only_in<float>(mutant.candidate) : only_in<double>(mutant.candidate),
             .isas = {isa}});
        EXPECT_FALSE(all_hold(results));
        for (const InvariantResult& result : results) {
          EXPECT_EQ(result.holds, result.invariant != mutant.meant)
              << isa_name(isa) << ", " << mutant.mistake << ", " << invariant_name(result.invariant) << ": "
              << result.failure;
          EXPECT_EQ(result.failure.find(type) == 0, result.invariant == mutant.meant) << result.failure;
        }
      }
}

TEST(Invariants, Exception_IsAFailure) {
  Algorithms throws = heed_algorithms();
  throws.f64.kmeans = [](auto, auto) -> KMeansResult<double> { throw std::runtime_error("no such luck"); };
  for (const InvariantResult& result : run_invariants({.candidate = throws, .isas = {isa()}})) {
    const bool uses_it = result.invariant == Invariant::cluster_means || result.invariant == Invariant::empty_cluster;
    EXPECT_EQ(result.holds, !uses_it) << result.failure;
    EXPECT_EQ(result.failure.find("no such luck") != std::string::npos, uses_it);
  }
}

}  // namespace
}  // namespace heed::verify
