#include "cli/plan_report.hpp"

namespace heed::cli {
namespace {

Json phase_json(const PlanPhase& phase) {
  return {{"q_len", phase.q_len},
          {"kv_len", phase.kv_len},
          {"full_pairs", phase.full_pairs},
          {"window_pairs", phase.window_pairs},
          {"pairs", phase.pairs},
          {"projection_flop", phase.projection_flop},
          {"score_flop", phase.score_flop},
          {"value_flop", phase.value_flop},
          {"flop", phase.flop()},
          {"score_bytes", phase.score_bytes},
          {"workspace_bytes", phase.workspace_bytes},
          {"threads", phase.threads},
          {"read_bytes", phase.read_bytes}};
}

Json time_json(const PlanTime& time) {
  return {{"compute_seconds", number(time.compute)},
          {"memory_seconds", number(time.memory)},
          {"bound_seconds", number(time.bound())}};
}

template <class T, class Convert>
Json json_or_null(const std::optional<T>& value, Convert&& convert) {
  return value ? Json(convert(*value)) : Json(nullptr);
}

}  // namespace

Json plan_json(const PlanReport& report) {
  const Plan& p = report.plan;
  const PlanParameters& w = p.parameters;
  const auto same = [](const auto& value) { return value; };
  Json plan{{"model_dim", p.model_dim},
            {"q_heads", p.q_heads},
            {"kv_heads", p.kv_heads},
            {"head_dim", p.head_dim},
            {"value_dim", p.value_dim},
            {"layers", p.layers},
            {"window_layers", p.window_layers},
            {"window", p.window_layers > 0 ? Json{p.window.left, p.window.right} : Json(nullptr)},
            {"batch", p.batch},
            {"context", p.context},
            {"dtype", dtype_name(p.dtype)},
            {"causal", p.causal},
            {"bias", {{"q", p.bias.q}, {"k", p.bias.k}, {"v", p.bias.v}, {"out", p.bias.out}}},
            {"parameters",
             {{"q", w.q},
              {"k", w.k},
              {"v", w.v},
              {"out", w.out},
              {"bias", w.bias},
              {"layer", w.layer()},
              {"all", p.all_parameters},
              {"bytes", p.parameter_bytes}}},
            {"prefill", phase_json(p.prefill)},
            {"decode", json_or_null(p.decode, phase_json)},
            {"equal_context", json_or_null(p.equal_context, same)}};
  plan["cache"] = json_or_null(p.cache, [](const PlanCache& cache) {
    return Json{{"token_bytes", cache.token_bytes},
                {"bytes", cache.bytes},
                {"mha_bytes", cache.mha_bytes},
                {"ratio", cache.ratio()}};
  });
  plan["memory"] = json_or_null(p.memory, [&](const PlanMemory& memory) {
    return Json{
        {"bytes", memory.bytes}, {"tokens", json_or_null(memory.tokens, same)}, {"sequences", memory.sequences}};
  });
  plan["notes"] = Json::array();
  for (const PlanNote& note : p.notes) plan["notes"].push_back({{"about", note.about}, {"text", note.text}});

  Json json{
      {"command", "plan"}, {"version", kVersion}, {"from", report.from.empty() ? Json(nullptr) : Json(report.from)}};
  json["plan"] = plan;
  json["machine"] = json_or_null(report.machine, [&](const PlanMachine& machine) {
    return Json{{"threads", machine.threads},
                {"flops_per_second", number(machine.peak.flops)},
                {"read_bytes_per_second", number(machine.peak.read_bytes)},
                {"prefill", time_json(plan_time(p.prefill, p.dtype, machine.peak))},
                {"decode", json_or_null(p.decode, [&](const PlanPhase& decode) {
                   return time_json(plan_time(decode, p.dtype, machine.peak));
                 })}};
  });
  return json;
}

}  // namespace heed::cli
