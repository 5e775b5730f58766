// The test of an op is one declaration: cases, bad cases, and a bound for the error of one f32 evaluation.
//
//   const OpSuite kRmsNorm{.op = "rms_norm",
//                          .cases = {{"x:[1,1] w:[1]"}, {"x:[4,5,256]@(1,0,2) w:[256]",
//                          RmsNormAttrs{1e-3f}}}, .bad = {{"x:[2,8] w:[7]", "rms_norm: w has D=7, x has
//                          D=8"}}, .bound = relative(...)};
//   const bool kDone = register_suite(kRmsNorm);
//
// What follows from it, each as a test of its own:
//   MatchesReference         every output of the cpu within the bound of the reference's f64; and of the kernels of
//                            GPUs, where they are there (coverage_test.cpp), in every order of the work-items
//   FiniteDifferences        gradients() against central differences of the reference
//   Decomposition            the op's decomposition against its reference kernel, if it has one: values and gradients
//   CpuGradients             gradients() on the cpu against the same graph on the reference
//   Threads                  1, 2 and 3 threads: equal bits, outputs and gradients
//   Guards                   kernels called directly: nothing written outside of the outputs and the
//   workspace, any
//                            alignment, every permitted in-place use, unused outputs left out: the same bits
//   BadOperands              the message of each bad case, alone and inside a layer
//   RuntimeRows              a plan for N rows run with fewer gives the bits of a plan for exactly that many
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/program.h"
#include "toy/ops/attrs/structs.h"

namespace toy::test {

struct Case {
  std::string operands;  ///< see operands.h
  Attrs attrs = {};
};

struct BadCase {
  std::string operands;
  std::string message;
  Attrs attrs = {};
};

struct OpSuite;

/// A case and what the reference computed for it.
class Run {
 public:
  Run(const OpSuite& suite, const Case& c);
  const Attrs& attrs() const { return attrs_; }
  bool has(int i) const { return size_t(i) < operands_.size() && !operands_[size_t(i)].absent; }
  /// Operand i as the op sees it.
  std::vector<double> in(int i) const { return operands_[size_t(i)].seen(); }
  Shape shape(int i) const { return operands_[size_t(i)].seen_shape(); }
  const std::vector<double>& out(int o) const { return out_[size_t(o)]; }
  int outputs() const { return int(out_.size()); }
  /// Output o of the op on the absolute values of its float operands: what rounding errors of sums scale
  /// with.
  std::vector<double> of_magnitudes(int o) const;
  /// Output o where f changes the values of operands first (given an operand's index and its stored values).
  std::vector<double> of_changed(int o, const std::function<void(int, std::vector<double>&)>& f) const;
  /// How far independent roundings move output o: sensitivity() of the op.
  std::vector<double> moved(int o) const;

 private:
  const OpDef& op_;
  Attrs attrs_;
  std::vector<OperandData> operands_;
  Results out_;
  mutable Results moves_;
};

/// Largest absolute error of each element of output o, in units of the f32 unit roundoff u = 2^-24.
using Bound = std::function<std::vector<double>(const Run&, int o)>;

/// roundings u |y|.
Bound relative(double roundings);
/// roundings(run) u |y|.
Bound relative(std::function<double(const Run&)> roundings);
/// roundings(run) u op(|operands|): sums of products. Any order of n additions and one product each is within
/// n + 1 roundings (Higham 2002, section 3.1).
Bound of_magnitudes(std::function<double(const Run&)> roundings);
/// For formulas of several sums: every value of the decomposition (where there is one) is within n + 16
/// roundings of what its operands say (n: the longest reduction, 16: the longest formula of an element), so
/// the result moves by that many times its sensitivity; twice, for the spread of the estimate.
Bound by_sensitivity();
/// No error at all.
Bound exact();

struct OpSuite {
  std::string op;
  std::vector<Case> cases;
  std::vector<BadCase> bad = {};
  Bound bound = exact();
  std::vector<int> loss_outputs = {0};        ///< outputs that have gradients; empty: no gradient is tested
  std::vector<std::string> no_gradient = {};  ///< float operands without one
  std::vector<std::string> rows = {};         ///< operands whose dimension 0 may be a run-time row count
  bool fixed_rows = false;                    ///< its decomposition, which the reference runs, has no run-time rows
  bool row_wise = true;                       ///< a row's result does not depend on the rows behind it
  void (*prepare)(std::vector<OperandData>&, const Attrs&) = nullptr;  ///< computes operands from others
  std::string title = {};  ///< what its tests are called, where it is not the only one of its op
};

/// The op on the operands of a case, and its gradients where it has some.
std::vector<Built> graphs_of(const OpSuite& suite, const Case& c);
std::vector<OperandData> operands_of(const OpSuite& suite, const Case& c);

/// Registers the suite's tests with googletest. The suite must live as long as the program.
bool register_suite(const OpSuite& suite);
/// The suites of this program.
const std::vector<const OpSuite*>& all_suites();

/// Fails the test where |a - b| > bound, naming the first such element. NaN equals NaN.
void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  const std::vector<double>& bound, const std::string& what);
/// The same bits (NaN equals NaN).
void expect_same(const std::vector<double>& actual, const std::vector<double>& expected, const std::string& what);

/// Not where the device has neither a kernel nor one for each part of the decomposition.
bool runs_on(Device& device, const Built& b);

/// The check behind "Guards" (guarded.cpp).
void check_guards(const OpSuite& suite, const Case& c);

}  // namespace toy::test
