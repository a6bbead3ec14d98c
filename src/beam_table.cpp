// A model as a table.
#include <algorithm>
#include <cmath>
#include <heed/beam_search.hpp>
#include <set>

#include "src/check.hpp"

namespace heed {
namespace {

constexpr std::string_view kName = "TableModel";

std::string prefix_text(const std::vector<std::string>& names) {
  std::string text = "(";
  for (std::size_t n = 0; n < names.size(); ++n) text += (n ? ", " : "") + names[n];
  return text + ")";
}

}  // namespace

TableModel::TableModel(const Table& table, const std::string& eos) {
  std::set<std::string> all{eos};
  for (const auto& [prefix, row] : table) {
    all.insert(prefix.begin(), prefix.end());
    for (const auto& [next, probability] : row) {
      if (!(probability >= 0 && probability <= 1))
        fail(kName, "table",
             std::to_string(probability) + " of " + next + " after " + prefix_text(prefix) +
                 " is not a probability between 0 and 1");
      all.insert(next);
    }
  }
  names_.assign(all.begin(), all.end());
  eos_ = token(eos);
  for (const auto& [prefix, row] : table) {
    std::vector<Token> tokens;
    for (const std::string& one : prefix) tokens.push_back(token(one));
    std::vector<TokenLogProb>& nexts = rows_[tokens];
    for (const auto& [next, probability] : row)
      if (probability > 0) nexts.push_back({token(next), std::log(probability)});
  }
}

Token TableModel::token(std::string_view name) const {
  const auto at = std::lower_bound(names_.begin(), names_.end(), name);
  if (at == names_.end() || *at != name) fail(kName, "name", "no token is called " + std::string(name));
  return static_cast<Token>(at - names_.begin());
}

const std::string& TableModel::name(Token token) const {
  if (token < 0 || token >= static_cast<Token>(names_.size()))
    fail(kName, "token", std::to_string(token) + " is not between 0 and " + std::to_string(names_.size() - 1));
  return names_[static_cast<std::size_t>(token)];
}

std::vector<std::string> TableModel::names(std::span<const Token> tokens) const {
  std::vector<std::string> all;
  for (const Token token : tokens) all.push_back(name(token));
  return all;
}

std::vector<TokenLogProb> TableModel::operator()(std::span<const Token> prefix) const {
  const auto row = rows_.find(std::vector<Token>(prefix.begin(), prefix.end()));
  if (row == rows_.end()) fail(kName, "prefix", prefix_text(names(prefix)) + " is not in the table");
  return row->second;
}

}  // namespace heed
