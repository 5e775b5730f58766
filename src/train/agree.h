// The questions that the processes of a run must answer alike.
#pragma once

namespace toy {

/// The answer of all processes of a run to a question that each of them answers by its own clock, signals or numbers:
/// is it to stop, is its time over, was a step finite, is a validation better? There is one process, whose answer it
/// is.
inline bool agree(bool mine) { return mine; }

}  // namespace toy
