// The operands of a test case, written as text:
//
//   "x:[4,5,256]@(1,0,2) w:f16[256] bias:none ids:i32[7]=below(11)"
//
// name:dtype[stored shape], f32 where no dtype is written; `@(1,0,2)` hands the op a permuted view of what is
// stored; `none` is an absent optional operand; `=` chooses the values (floats are uniform in (-1.5, 1.5)
// without it):
//   range(lo,hi)  steps(lo,hi,step): lo plus multiples of step, to stay clear of kinks  const(v)  angles: cos and sin
//   of random angles, in pairs below(n)  targets(n): from -1 to n-1  list(1,2,...)  pages(n): distinct numbers below n,
//   shuffled runs(5@0,3@60): runs of rows; an operand named seq gets the run's number, any other the positions from 0,
//   from 60
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "toy/graph/graph.h"

namespace toy::test {

struct OperandData {
  std::string name;
  bool absent = false;
  DType dtype = DType::f32;
  Shape stored;
  Shape order;                 ///< permutation of the stored dimensions; rank 0: none
  std::vector<double> values;  ///< of the stored tensor, exact in `dtype`

  /// Shape and values as the op sees them.
  Shape seen_shape() const;
  std::vector<double> seen() const;
};

/// Throws std::invalid_argument on a malformed text. The values depend on the text alone.
std::vector<OperandData> parse_operands(std::string_view text);

/// Nearest value of a dtype.
double round_to(DType t, double v);

}  // namespace toy::test
