// Rows of a batch form runs: of one sequence, with positions that grow by one.
#ifndef TOY_GPU_RUNS_H
#define TOY_GPU_RUNS_H
#include "dialect.h"

// Is row i of the run of row i - 1?
DEVICE int resumes(GLOBAL const int* seq, GLOBAL const int* pos, int i) {
  return seq[i] == seq[i - 1] && pos[i] == pos[i - 1] + 1;
}
// The last row of [row, end) that lies in the run of `row`.
DEVICE int run_within(GLOBAL const int* seq, GLOBAL const int* pos, int row, int end) {
  while (row + 1 < end && resumes(seq, pos, row + 1)) ++row;
  return row;
}
// How many rows before this one are of its run; not more than `most` are looked at.
DEVICE int rows_before(GLOBAL const int* seq, GLOBAL const int* pos, int row, int most) {
  int n = 0;
  while (n < most && row - n > 0 && resumes(seq, pos, row - n)) ++n;
  return n;
}
// The first row of its run. Here and below all items of a group of 256 ask alike, and look at 256 rows at a time.
DEVICE int run_begin(GLOBAL const int* seq, GLOBAL const int* pos, int row, LOCAL_PTR float* parts,
                     LOCAL_PTR float* scratch) {
  for (; row > 0; row -= 256) {
    const int i = row - LID;
    const float begin = group_max(i > 0 && !resumes(seq, pos, i) ? (float)i : 0.0f, 256, parts, scratch);
    if (begin > 0.0f) return (int)begin;
  }
  return 0;
}
// The last row of its run among n.
DEVICE int run_end(GLOBAL const int* seq, GLOBAL const int* pos, int row, int n, LOCAL_PTR float* parts,
                   LOCAL_PTR float* scratch) {
  for (; row + 1 < n; row += 256) {
    const int i = row + 1 + LID;
    const float end = -group_max(i < n && !resumes(seq, pos, i) ? (float)-i : (float)-n, 256, parts, scratch);
    if (end < (float)n) return (int)end - 1;
  }
  return n - 1;
}
#endif
