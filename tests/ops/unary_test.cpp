// Functions of one element. Bounds: exp 1 ulp (2u), log 4 ulp, silu and sigmoid exp and two roundings, the
// others as they are rounded once or twice.
#include <gtest/gtest.h>

#include "ops/harness.h"

namespace toy::test {
namespace {

OpSuite suite(const std::string& op, const std::string& values, double roundings, const Attrs& attrs = {}) {
  OpSuite s{.op = op, .bound = roundings > 0 ? relative(roundings) : exact(), .rows = {"x"}};
  for (const char* shape : {"[1]", "[3]", "[2,31]", "[3,4,5]@(2,0,1)", "[17,9]@(1,0)", "[67,129]"})
    s.cases.push_back({"x:" + std::string(shape) + values, attrs});
  s.bad = {{"x:i32[3]=below(5)", op + ": x is i32, expected a float type"},
           {"", op + ": 0 inputs given, expected " + op + "(x:[*]) -> y:[*]"}};
  return s;
}

const OpSuite kSuites[] = {
    suite("neg", "", 0),
    suite("exp", "=range(-12,12)", 2),
    suite("log", "=range(0.25,30)", 8),
    suite("sqrt", "=range(0.25,30)", 1),
    suite("rsqrt", "=range(0.25,30)", 2),
    suite("sigmoid", "=range(-12,12)", 4),
    suite("silu", "=range(-12,12)", 5),
    suite("scale", "", 2, ScaleAttrs{-0.3}),
};

bool register_all() {
  for (const OpSuite& s : kSuites) register_suite(s);
  return true;
}
const bool kDone = register_all();

// Far ends: no NaN where the function has a value.
const OpSuite kSigmoidEnds{
    .op = "sigmoid", .cases = {{"x:[6]=list(-200,-90,-40,40,90,200)"}}, .bound = relative(4), .loss_outputs = {}};
const OpSuite kExpEnds{
    .op = "exp", .cases = {{"x:[6]=list(-200,-104,-80,0,80,88)"}}, .bound = relative(2), .loss_outputs = {}};
const bool kEndsDone = register_suite(kSigmoidEnds) && register_suite(kExpEnds);

}  // namespace
}  // namespace toy::test
