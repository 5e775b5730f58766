// Operands of the gated delta rule.
#pragma once

#include <cmath>
#include <string>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test {

/// Sizes of a case. `states`: how many sequences have one, 0 for none. gate, beta: how their values are chosen.
struct DeltaCase {
  int keys = 1, width = 1, heads = 1, values = 1;  ///< K, P, H, V
  int states = 0;
  std::string runs = "1@0";
  bool vector_gate = false;
  std::string gate = "range(-2,0)", beta = "range(0,1)", q = "", k = "", s0 = "";

  int rows() const {
    int n = 0;
    for (size_t at = 0; at < runs.size(); at = runs.find(',', at) + 1) {
      n += std::stoi(runs.substr(at));
      if (runs.find(',', at) == std::string::npos) break;
    }
    return n;
  }
  std::string shape(std::initializer_list<int> dims) const {
    std::string s = "[";
    for (const int d : dims) s += (s.size() > 1 ? "," : "") + std::to_string(d);
    return s + "]";
  }
  std::string keys_text(const std::string& name, const std::string& how) const {
    return " " + name + ":" + shape({rows(), keys, width}) + (how.empty() ? "" : "=" + how);
  }
  std::string float_text() const {
    const std::string g = vector_gate ? shape({rows(), heads, width}) : shape({rows(), heads});
    return keys_text("q", q) + keys_text("k", k) + " v:" + values_shape() + " g:" + g + "=" + gate +
           " beta:" + shape({rows(), heads}) + "=" + beta;
  }
  std::string values_shape() const { return shape({rows(), heads, values}); }
  std::string states_shape() const { return shape({states, heads, width, values}); }
  std::string state_text(const std::string& name) const {
    return " " + name + ":" + (states ? states_shape() + (s0.empty() || name != "s0" ? "" : "=" + s0) : "none");
  }
  std::string rows_text() const {
    const std::string ints = "i32" + shape({rows()}) + "=runs(" + runs + ")";
    return " seq:" + ints + " pos:" + ints;
  }
  std::string forward() const { return float_text() + state_text("s0") + rows_text(); }
  std::string update() const { return state_text("s") + float_text() + rows_text(); }
  std::string backward(bool d_o = true, bool ds = true) const {
    return float_text() + state_text("s0") + " do:" + (d_o ? values_shape() : "none") +
           (ds ? state_text("ds") : " ds:none") + rows_text();
  }
};

/// Keys of length 1, and queries of length 1/sqrt(P), as models have them.
inline void normalize_keys(std::vector<OperandData>& operands, const Attrs&) {
  for (OperandData& o : operands) {
    if ((o.name != "q" && o.name != "k") || o.order.rank() > 0) continue;
    const size_t width = size_t(o.stored[2]);
    for (size_t at = 0; at < o.values.size(); at += width) {
      double sum = 0;
      for (size_t i = 0; i < width; ++i) sum += o.values[at + i] * o.values[at + i];
      const double length = std::sqrt(sum) * (o.name == "q" ? std::sqrt(double(width)) : 1);
      for (size_t i = 0; i < width; ++i) o.values[at + i] = round_to(DType::f32, o.values[at + i] / length);
    }
  }
}

inline const DeltaRuleAttrs kInterleave{HeadMap::interleave}, kTile{HeadMap::tile};
/// Without the delta: Mamba-2's state space.
inline const DeltaRuleAttrs kPlain{HeadMap::interleave, false}, kPlainTile{HeadMap::tile, false};

/// Cases of every kind: one row, odd widths, runs of several sequences with states and without, shared keys, vector
/// gates, negative eigenvalues (beta above 1), with the delta and without.
inline std::vector<std::pair<DeltaCase, DeltaRuleAttrs>> delta_cases() {
  return {{{1, 1, 1, 1, 0, "1@0"}, kInterleave},
          {{1, 3, 1, 2, 1, "1@4"}, kInterleave},
          {{1, 3, 1, 2, 1, "2@5"}, kInterleave},
          {{1, 4, 2, 3, 0, "2@0"}, kInterleave},
          {{2, 5, 4, 3, 3, "3@0,1@7,4@2"}, kInterleave},
          {{2, 5, 4, 3, 3, "3@0,1@7,4@2"}, kTile},
          {{2, 5, 4, 3, 4, "3@0,1@7,4@2", true}, kTile},
          {{3, 2, 6, 5, 2, "5@9,4@0", true}, kInterleave},
          {{1, 17, 1, 33, 1, "9@3"}, kInterleave},
          {{1, 33, 1, 20, 1, "5@3", true}, kInterleave},
          {{1, 4, 1, 5, 0, "31@0"}, kInterleave},
          {{1, 3, 2, 4, 1, "32@1"}, kTile},
          {{1, 3, 1, 4, 2, "20@0,13@6", true}, kInterleave},
          {{2, 5, 4, 3, 3, "3@0,1@7,4@2", false, "range(-2,0)", "range(0,2)"}, kTile},
          {{1, 3, 1, 4, 2, "20@0,13@6", true, "range(-0.1,0)", "range(1.5,2)"}, kInterleave},
          {{1, 1, 1, 1, 0, "1@0"}, kPlain},
          {{1, 3, 1, 2, 1, "2@5"}, kPlain},
          {{2, 5, 4, 3, 3, "3@0,1@7,4@2"}, kPlain},
          {{2, 5, 4, 3, 4, "3@0,1@7,4@2", true}, kPlainTile},
          {{1, 4, 1, 5, 0, "31@0"}, kPlain},
          {{1, 3, 1, 4, 2, "20@0,13@6", true}, kPlain},
          {{1, 8, 2, 33, 1, "9@3"}, kPlain},
          {{2, 16, 2, 17, 2, "4@3,5@0"}, kPlainTile},
          {{1, 64, 2, 5, 1, "5@3"}, kPlain},
          {{1, 100, 1, 3, 1, "3@1"}, kPlain},
          {{1, 128, 3, 2, 1, "4@2"}, kPlain}};
}

/// Outputs within the suite's bound of the reference's, for cases that finite differences cannot take.
inline void expect_within_bound(const OpSuite& suite, const Case& c) {
  const Run run(suite, c);
  for (Device* device : {&cpu_device(2), emulated_devices()[1]}) {
    const Results y = Program(build_op(*find_op(suite.op), operands_of(suite, c), c.attrs), *device).run();
    for (int o = 0; o < run.outputs(); ++o) {
      std::vector<double> bound = suite.bound(run, o);
      for (double& b : bound) b *= 0x1p-24;
      expect_close(y[size_t(o)], run.out(o), bound, c.operands + ": output " + std::to_string(o));
    }
  }
}

/// Gates from none to a reset, and keys that are all the same with beta = 1.
inline std::vector<DeltaCase> extreme_cases() {
  std::vector<DeltaCase> cases;
  for (const char* gate : {"const(0)", "const(-1e-4)", "const(-20)", "const(-2000)", "const(-inf)", "range(-2,0)",
                           "list(-1,-40,0,-1e-3,-inf,-3,0,-1e-5,-2000,-0.7,-0.69,-0.68)"})
    for (const bool vector_gate : {false, true})
      for (const char* key : {"", "const(0.5)"}) {
        DeltaCase c{1, 4, vector_gate ? 1 : 2, 3, 1, "12@3", vector_gate, gate};
        if (std::string(gate).starts_with("list")) c.heads = 1, c.width = vector_gate ? 1 : 4;
        c.k = key;
        if (*key) c.beta = "const(1)";
        cases.push_back(c);
      }
  return cases;
}

}  // namespace toy::test
