// The questions that the processes of a run must answer alike.
#pragma once

namespace toy {

/// The answer of all processes of a run to a question that each of them could answer by its own clock, signals or
/// numbers: is it to stop, is its time over, was a step finite, is a validation better? Clocks, signals and validations
/// are rank 0's alone, which tells the others what to do (src/train/crew.h). Whether a step was finite each of them
/// sees by the same bits; Crew::collect() compares them.
inline bool agree(bool mine) { return mine; }

}  // namespace toy
