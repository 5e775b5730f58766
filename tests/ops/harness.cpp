#include "ops/harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "toy/base/philox.h"
#include "toy/ops/ops.h"

namespace toy::test {
namespace {

constexpr double kU = unit_roundoff(DType::f32), kU64 = unit_roundoff(DType::f64);
constexpr double kSmallest = 0x1p-126;  // below it the cpu flushes to zero

const OpDef& def_of(const OpSuite& s) {
  const OpDef* op = find_op(s.op);
  if (!op) throw std::invalid_argument("no op '" + s.op + "'");
  return *op;
}

// Where a device has no kernel, it runs the decomposition.
bool has_kernel(const Device& device, const OpSuite& s) {
  const auto kernels = device.kernels();
  return std::any_of(kernels.begin(), kernels.end(), [&](const KernelRecord& k) { return k.op == s.op; });
}
bool has_reference_kernel(const OpSuite& s) { return has_kernel(reference_device(), s); }

bool differentiable(const OpSuite& s) { return def_of(s).vjp && !s.loss_outputs.empty(); }

std::vector<Value> differentiable_leaves(const OpSuite& s, const Built& b, const std::vector<OperandData>& operands) {
  std::vector<Value> leaves;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool without = std::count(s.no_gradient.begin(), s.no_gradient.end(), operands[i].name) > 0;
    if (b.leaves[i] && operands[i].dtype == DType::f32 && !without) leaves.push_back(b.leaves[i]);
  }
  return leaves;
}

Built build_gradients(const OpSuite& s, const Case& c) {
  const auto operands = operands_of(s, c);
  Built b = build_op(def_of(s), operands, c.attrs);
  ask_for_gradients(b, s.loss_outputs, differentiable_leaves(s, b, operands));
  return b;
}

// The decomposition instead of the op; outputs that it does not give are left out of `given`.
Built build_decomposed(const OpSuite& s, const Case& c, std::vector<int>& given) {
  Built b = build_operands(operands_of(s, c));
  const auto values = def_of(s).decompose(*b.graph, b.operands, c.attrs);
  for (size_t o = 0; o < values.size(); ++o)
    if (values[o]) {
      b.outputs.push_back(values[o]);
      given.push_back(int(o));
    }
  return b;
}

std::vector<double> times(double factor, std::vector<double> v) {
  for (double& x : v) x *= factor;
  return v;
}

std::string label(const Case& c, const std::string& what, size_t o) {
  return c.operands + ": " + what + " " + std::to_string(o);
}

// Every device within the bound; the emulated one with equal bits in every order of the work-items.
void matches_reference(const OpSuite& s, const Case& c) {
  const Run run(s, c);
  const Built b = build_op(def_of(s), operands_of(s, c), c.attrs);
  const auto expect_within_bound = [&](const Results& actual, const std::string& what) {
    for (int o = 0; o < run.outputs(); ++o)
      expect_close(actual[size_t(o)], run.out(o), times(kU, s.bound(run, o)), label(c, what, size_t(o)));
  };
  expect_within_bound(Program(b, cpu_device(2)).run(), "output");
  if (!runs_on(*emulated_devices()[0], b)) return;
  const Results emulated = Program(b, *emulated_devices()[0]).run();
  expect_within_bound(emulated, "output of device emulated,");
  for (const size_t order : {1, 2}) {
    const Results same = Program(b, *emulated_devices()[order]).run();
    for (size_t o = 0; o < same.size(); ++o)
      expect_same(same[o], emulated[o], label(c, "another order of the items, output", o));
  }
}

// Five-point differences: the error is h^4/30 |f^(5)| and what rounding makes of it, (3/2h) times the error
// of one evaluation. The first is bounded by the difference to the same formula with step 2h, whose error is
// 16 times larger.
struct Difference {
  double slope, error;
};
template <class F>
Difference differentiate(const F& f, double x, double evaluation_error) {
  const double h = 0x1p-9 * std::max(std::fabs(x), 0.25);
  const double one = f(x + h) - f(x - h), two = f(x + 2 * h) - f(x - 2 * h), four = f(x + 4 * h) - f(x - 4 * h);
  const double fine = (8 * one - two) / (12 * h), coarse = (8 * two - four) / (24 * h);
  return {fine, std::fabs(fine - coarse) + 1.5 * evaluation_error / h};
}

void finite_differences(const OpSuite& s, const Case& c) {
  const auto operands = operands_of(s, c);
  const Built b = build_gradients(s, c);
  const Results gradient = Program(b, reference_device()).run();
  Built loss = build_op(def_of(s), operands, c.attrs);
  ask_for_gradients(loss, s.loss_outputs, {});
  Program program(loss, reference_device());
  const double at_rest = program.run()[0][0], moves = sensitivity(loss)[0][0];
  // One evaluation's error: relative errors of n 2^-53 in every value; |loss| itself is rounded as well.
  const double evaluation_error = kU64 * (double(longest_reduction(*loss.graph)) * moves + std::fabs(at_rest));

  size_t g = 1;
  for (const Value& leaf : differentiable_leaves(s, loss, operands)) {
    const std::string& name = loss.graph->node(leaf).name;
    const std::vector<double>& expected = gradient[g++];
    double largest = 0;
    for (const double v : expected) largest = std::max(largest, std::fabs(v));
    const Philox random(11, name);
    const size_t count = expected.size(), tried = std::min<size_t>(count, count > 2000 ? 6 : 40);
    for (size_t k = 0; k < tried; ++k) {
      const size_t i = tried == count ? k : size_t(random.below(k, count));
      const double x = loss.feed[name][i];
      double* slot = program.store().host(name).view().as<double>() + i;
      const auto f = [&](double v) {
        *slot = v;
        program.session().run();
        return program.session().output(0).view().as<double>()[0];
      };
      const Difference d = differentiate(f, x, evaluation_error);
      *slot = x;
      EXPECT_LE(std::fabs(d.slope - expected[i]), d.error)
          << c.operands << ": d loss / d " << name << "[" << i << "] is " << d.slope << ", gradients() gives "
          << expected[i];
      EXPECT_LE(d.error, 1e-6 * std::max(1.0, largest)) << c.operands << ": " << name << "[" << i << "]: a blunt test";
    }
  }
}

// Both sides are f64: relative errors of n 2^-53 in every value of the graph, n the longest reduction, bound
// the difference to first order; 8 for the few roundings of an element's formula and the estimate's own
// spread.
double f64_roundings(const Built& b) { return 8 * kU64 * double(longest_reduction(*b.graph) + 8); }

void compare_in_f64(const Built& fused, const Built& decomposed, const std::vector<int>& given, const Case& c,
                    const std::string& what) {
  const Results expected = Program(fused, reference_device()).run(),
                actual = Program(decomposed, reference_device()).run();
  const Results moves = sensitivity(fused);
  for (size_t i = 0; i < given.size(); ++i) {
    const size_t o = size_t(given[i]);
    expect_close(actual[i], expected[o], times(f64_roundings(decomposed), moves[o]), label(c, what, o));
  }
}

void decomposition(const OpSuite& s, const Case& c) {
  const OpDef& op = def_of(s);
  const auto operands = operands_of(s, c);
  std::vector<int> given;
  Built decomposed = build_decomposed(s, c, given);
  compare_in_f64(build_op(op, operands, c.attrs), decomposed, given, c, "output");
  if (!differentiable(s)) return;
  ask_for_gradients(decomposed, s.loss_outputs, differentiable_leaves(s, decomposed, operands));
  const Built fused = build_gradients(s, c);
  given.clear();
  for (size_t o = 0; o < fused.outputs.size(); ++o) given.push_back(int(o));
  compare_in_f64(fused, decomposed, given, c, "loss or gradient");
}

// Each value of the graph is within n + 16 roundings of what its operands say (n: the longest reduction; 16:
// the longest formula of one element), so the gradients move by that many times their sensitivity, twice for
// its spread.
void cpu_gradients(const OpSuite& s, const Case& c) {
  const Built b = build_gradients(s, c);
  const Results expected = Program(b, reference_device()).run(), actual = Program(b, cpu_device(2)).run();
  const Results moves = sensitivity(b);
  const double roundings = 2 * double(longest_reduction(*b.graph) + 16);
  for (size_t o = 0; o < expected.size(); ++o)
    expect_close(actual[o], expected[o], times(kU * roundings, moves[o]), label(c, "loss or gradient", o));
}

void threads_give_equal_bits(const OpSuite& s, const Case& c) {
  for (const Built& b : graphs_of(s, c)) {
    const Results one = Program(b, cpu_device(1)).run();
    for (const int threads : {2, 3}) {
      Program program(b, cpu_device(threads));
      for (int repeat = 0; repeat < 2; ++repeat) {
        const Results many = program.run();
        for (size_t o = 0; o < one.size(); ++o)
          expect_same(many[o], one[o], label(c, std::to_string(threads) + " threads, output", o));
      }
    }
  }
}

void bad_operands(const OpSuite& s) {
  for (const BadCase& bad : s.bad)
    for (const bool in_layer : {false, true}) {
      Built b = build_operands(parse_operands(bad.operands));
      const auto scope = b.graph->scope(in_layer ? "blk.3" : "");
      try {
        b.graph->apply(def_of(s), b.operands, bad.attrs);
        ADD_FAILURE() << bad.operands << ": accepted, expected the error: " << bad.message;
      } catch (const Error& e) {
        EXPECT_EQ(e.what(), (in_layer ? "blk.3: " : "") + bad.message) << bad.operands;
        EXPECT_EQ(e.code(), ErrorCode::bad_input) << bad.operands;
      }
    }
}

// The first n rows of the operands that have run-time rows.
std::vector<OperandData> first_rows(std::vector<OperandData> operands, const std::vector<std::string>& rows,
                                    int64_t n) {
  for (OperandData& o : operands)
    if (std::count(rows.begin(), rows.end(), o.name)) {
      o.stored[0] = n;
      o.values.resize(size_t(o.stored.count()));
    }
  return operands;
}

void run_time_rows(const OpSuite& s, const Case& c) {
  const auto operands = operands_of(s, c);
  int64_t most = -1;
  for (const OperandData& o : operands)
    if (std::count(s.rows.begin(), s.rows.end(), o.name) && !o.absent) {
      if (o.order.rank() > 0 && o.order[0] != 0) return;
      most = o.stored[0];
    }
  const Built b = build_op(def_of(s), operands, c.attrs, s.rows);
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[0]}) {
    if (s.fixed_rows && device == &reference_device()) continue;
    if (device == emulated_devices()[0] && !has_kernel(*device, s))
      continue;  // its decomposition may take no run-time rows
    Program program(b, *device);
    const Results all = program.run();
    for (const int64_t n : {most / 2, most - 1, int64_t(0), int64_t(1)}) {
      program.set_rows(n);
      const Results some = program.run();
      if (n == 0) continue;
      const Built exactly = build_op(def_of(s), first_rows(operands, s.rows, n), c.attrs);
      Results expected = Program(exactly, *device).run(), found = some;
      if (device == &reference_device() && !has_reference_kernel(s))  // a sum of one row may be left out: 0 + -0 = 0
        for (Results* r : {&expected, &found})
          for (auto& values : *r)
            for (double& v : values) v += 0.0;
      for (size_t o = 0; o < expected.size(); ++o) {
        const std::string what = label(c, std::to_string(n) + " rows, output", o);
        expect_same(found[o], expected[o], what);
        if (!s.row_wise || b.outputs[o].type().rows == 0) continue;
        expect_same(some[o], {all[o].begin(), all[o].begin() + int64_t(some[o].size())}, what + " of all rows");
      }
    }
  }
}

class SuiteTest : public ::testing::Test {
 public:
  explicit SuiteTest(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

std::vector<const OpSuite*>& suites() {
  static std::vector<const OpSuite*> list;
  return list;
}

}  // namespace

bool runs_on(Device& device, const Built& b) {
  try {
    compile(*b.graph, b.outputs, {}, device);
    return true;
  } catch (const Error& e) {
    if (std::string_view(e.what()).find("has no kernel for these operands") == std::string_view::npos) throw;
    return false;
  }
}

std::vector<OperandData> operands_of(const OpSuite& s, const Case& c) {
  std::vector<OperandData> operands = parse_operands(c.operands);
  if (s.prepare) s.prepare(operands, c.attrs);
  return operands;
}

std::vector<Built> graphs_of(const OpSuite& s, const Case& c) {
  std::vector<Built> graphs;
  graphs.push_back(build_op(def_of(s), operands_of(s, c), c.attrs));
  if (differentiable(s)) graphs.push_back(build_gradients(s, c));
  return graphs;
}

Run::Run(const OpSuite& s, const Case& c) : op_(def_of(s)), attrs_(c.attrs), operands_(operands_of(s, c)) {
  const Built b = build_op(op_, operands_, attrs_);
  out_ = Program(b, reference_device()).run();
}

std::vector<double> Run::of_changed(int o, const std::function<void(int, std::vector<double>&)>& f) const {
  std::vector<OperandData> changed = operands_;
  for (size_t i = 0; i < changed.size(); ++i) f(int(i), changed[i].values);
  return Program(build_op(op_, changed, attrs_), reference_device()).run()[size_t(o)];
}

std::vector<double> Run::of_magnitudes(int o) const {
  return of_changed(o, [&](int i, std::vector<double>& values) {
    if (is_float(operands_[size_t(i)].dtype))
      for (double& v : values) v = std::fabs(v);
  });
}

std::vector<double> Run::moved(int o) const {
  if (moves_.empty()) moves_ = sensitivity(build_op(op_, operands_, attrs_));
  return moves_[size_t(o)];
}

Bound relative(double roundings) {
  return relative([=](const Run&) { return roundings; });
}
Bound relative(std::function<double(const Run&)> roundings) {
  return [=](const Run& r, int o) {
    std::vector<double> bound = r.out(o);
    for (double& v : bound) v = roundings(r) * std::fabs(v);
    return bound;
  };
}
Bound of_magnitudes(std::function<double(const Run&)> roundings) {
  return [=](const Run& r, int o) { return times(roundings(r), r.of_magnitudes(o)); };
}
Bound by_sensitivity() {
  return [](const Run& r, int o) {
    int64_t longest = 1;
    for (int i = 0; r.has(i); ++i)
      for (const int64_t d : r.shape(i)) longest = std::max(longest, d);
    return times(2 * double(longest + 16), r.moved(o));
  };
}
Bound exact() { return relative(0.0); }

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  const std::vector<double>& bound, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t j = 0; j < actual.size(); ++j) {
    if (actual[j] == expected[j] || (std::isnan(actual[j]) && std::isnan(expected[j]))) continue;
    ASSERT_LE(std::fabs(actual[j] - expected[j]), bound[j] + kSmallest)
        << what << ", element " << j << " of " << actual.size() << " is " << actual[j] << ", expected " << expected[j];
  }
}

void expect_same(const std::vector<double>& actual, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t j = 0; j < actual.size(); ++j) {
    if (std::isnan(actual[j]) && std::isnan(expected[j])) continue;
    ASSERT_TRUE(actual[j] == expected[j] && std::signbit(actual[j]) == std::signbit(expected[j]))
        << what << ", element " << j << " of " << actual.size() << " is " << actual[j] << ", expected " << expected[j];
  }
}

const std::vector<const OpSuite*>& all_suites() { return suites(); }

bool register_suite(const OpSuite& suite) {
  suites().push_back(&suite);
  const auto add = [&](const char* name, std::function<void()> body) {
    ::testing::RegisterTest(("Ops_" + (suite.title.empty() ? suite.op : suite.title)).c_str(), name, nullptr, nullptr,
                            __FILE__, __LINE__, [=]() -> ::testing::Test* { return new SuiteTest(body); });
  };
  const auto add_for_cases = [&](const char* name, void (*check)(const OpSuite&, const Case&)) {
    add(name, [&suite, check] {
      for (const Case& c : suite.cases) {
        SCOPED_TRACE(c.operands);
        check(suite, c);
      }
    });
  };
  add_for_cases("MatchesReference", matches_reference);
  add_for_cases("Threads", threads_give_equal_bits);
  add_for_cases("Guards", check_guards);
  if (!suite.rows.empty()) add_for_cases("RuntimeRows", run_time_rows);
  if (def_of(suite).decompose && has_reference_kernel(suite)) add_for_cases("Decomposition", decomposition);
  if (differentiable(suite)) {
    add_for_cases("FiniteDifferences", finite_differences);
    add_for_cases("CpuGradients", cpu_gradients);
  }
  if (!suite.bad.empty()) add("BadOperands", [&suite] { bad_operands(suite); });
  return true;
}

}  // namespace toy::test
