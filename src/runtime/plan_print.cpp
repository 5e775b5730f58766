// A plan as text for people and as JSON for programs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "toy/graph/print.h"
#include "toy/runtime/plan.h"

namespace toy {
namespace {

std::string place(const Plan& plan, const Operand& o) {
  switch (o.base) {
    case Operand::absent:
      return "-";
    case Operand::arena:
      return fmt::format("@{}", o.offset);
    case Operand::param:
      return plan.params[size_t(o.index)].name;
    case Operand::input:
      return plan.inputs[size_t(o.index)].name;
    case Operand::constant:
      return fmt::format("const{}", o.index);
    case Operand::repacked:
      return plan.params[size_t(plan.repacked[size_t(o.index)].param)].name + " (repacked)";
  }
  return "?";
}

nlohmann::ordered_json to_json(const Plan& plan, const std::vector<Operand>& operands) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Operand& o : operands) {
    if (o.base == Operand::absent)
      list.push_back(nullptr);
    else
      list.push_back({{"place", place(plan, o)},
                      {"offset", o.offset},
                      {"dtype", name_of(o.view.dtype)},
                      {"shape", std::vector<int64_t>(o.view.shape.begin(), o.view.shape.end())}});
  }
  return list;
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::string s;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    std::string in, out;
    for (const Operand& o : step.in) in += (in.empty() ? "" : ", ") + place(plan, o);
    for (const Operand& o : step.out) out += (out.empty() ? "" : ", ") + place(plan, o) + o.view.shape.str();
    s += fmt::format("{:4} {} = {}({})", i, out, step.op, in);
    if (step.workspace_bytes) s += fmt::format(" workspace {} B @{}", step.workspace_bytes, step.workspace_offset);
    if (step.prepared_by >= 0) s += fmt::format(", prepared by {}", step.prepared_by);
    if (!step.layer.path.empty())
      s += fmt::format("  # {}{}", step.layer.path, step.phase == Phase::backward ? " (backward)" : "");
    s += "\n";
  }
  return s;
}

nlohmann::ordered_json to_json(const Plan& plan) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const PlanStep& s : plan.steps)
    steps.push_back(
        {{"op", s.op},
         {"layer", s.layer.path},
         {"backward", s.phase == Phase::backward},
         {"in", to_json(plan, s.in)},
         {"out", to_json(plan, s.out)},
         {"workspace_bytes", s.workspace_bytes},
         {"prepared_by", s.prepared_by < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(s.prepared_by)},
         {"cost", to_json(s.cost)}});
  return {{"steps", steps},
          {"arena_bytes", plan.arena_bytes},
          {"repacked_bytes", plan.repacked_bytes()},
          {"notes", plan.notes}};
}

}  // namespace toy
