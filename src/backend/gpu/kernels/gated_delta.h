// One token of the gated delta rule, for its forward and backward kernels. The columns of a state [P][V] do not meet: a
// group takes some of them, `parts` items share a column, and an item holds elements part, part + parts, ... of it.
//
// Sums over P are one chain of fma for each part, then the parts in order. So a row's bits depend on P and on what was
// before it in its sequence, not on how that came into calls.
#ifndef TOY_GPU_GATED_DELTA_H
#define TOY_GPU_GATED_DELTA_H
#include "runs.h"
#define ELEMENTS ELEMENTS_OF_A_STATE
#define STAGED WIDEST_STATE  // numbers of rows of keys in local memory

// This item: the head, its column of the state and of the group, its part, how many elements it has. Element j of part
// p is element p + parts j of a column, and number LID + 256 j of the group's.
typedef struct {
  int head, key_head, column, columns, col, part, count;
} Share;
#define EACH(j) UNROLL for (int j = 0; j < ELEMENTS; ++j) if (j < at->count)

DEVICE Share share_of(const Delta* d, int head, int block) {
  Share s;
  s.head = head, s.key_head = d->tile ? head % d->K : head / (d->H / d->K);
  s.columns = 256 / d->parts, s.col = LID % s.columns, s.part = LID / s.columns;
  s.column = block * s.columns + s.col;
  s.count = s.part < d->P ? (d->P - s.part + d->parts - 1) / d->parts : 0;
  return s;
}
DEVICE int64 key_at(const Delta* d, const Share* s, int n) { return ((int64)n * d->K + s->key_head) * d->P; }
DEVICE int64 value_at(const Delta* d, const Share* s, int n) { return ((int64)n * d->H + s->head) * d->V + s->column; }
DEVICE int64 state_at(const Delta* d, const Share* s, int sequence) {
  return ((int64)sequence * d->H + s->head) * d->P * d->V + s->column;
}
DEVICE int64 gate_at(const Delta* d, const Share* s, int n, int p) {
  return d->vector_gate ? ((int64)n * d->H + s->head) * d->P + p : (int64)n * d->H + s->head;
}
// Rows whose keys lie in local memory together.
DEVICE int staged_rows(const Delta* d) { return STAGED / d->P < 16 ? STAGED / d->P : 16; }

// The local memory of a group: keys, queries and decays of rows [first, first + count), sums of parts.
typedef struct {
  LOCAL_PTR float *k, *q, *a, *sums;
} Staged;

DEVICE void stage_rows(const Staged* to, const Delta* d, const Share* s, GLOBAL const float* q, GLOBAL const float* k,
                       GLOBAL const float* g, int first, int count) {
  BARRIER();
  for (int e = LID; e < count * d->P; e += 256) {
    const int n = first + e / d->P, p = e % d->P;
    const int64 at = key_at(d, s, n) + p;
    to->k[e] = k[at], to->q[e] = q[at], to->a[e] = EXP(g[gate_at(d, s, n, p)]);
  }
  BARRIER();
}

// Where element j of this item lies in memory with rows of `stride`.
DEVICE int64 element_at(const Delta* d, const Share* at, int j, int64 stride) {
  return (at->part + (int64)d->parts * j) * stride;
}
DEVICE void load_state(float* own, GLOBAL const float* state, const Delta* d, const Share* at, int64 stride) {
  UNROLL for (int j = 0; j < ELEMENTS; ++j) own[j] =
      state && j < at->count && at->column < d->V ? state[element_at(d, at, j, stride)] : 0.0f;
}
DEVICE void store_state(const float* own, GLOBAL float* state, const Delta* d, const Share* at, int64 stride) {
  if (at->column >= d->V) return;
  EACH(j) state[element_at(d, at, j, stride)] = own[j];
}

// The sum of all parts of a column. One barrier: `sums` may be written again after another one.
DEVICE float over_parts(float part, LOCAL_PTR float* sums, const Delta* d, const Share* s) {
  sums[LID] = part;
  BARRIER();
  float sum = 0.0f;
  for (int i = 0; i < d->parts; ++i) sum += sums[i * s->columns + s->col];
  return sum;
}

// own <- a own, then k (beta e)^T onto it; returns e = v - own^T k, or v without the delta. row: where the row's
// keys are staged. decayed: where a own is kept, or null.
DEVICE float advance(float* own, const Staged* t, const Delta* d, const Share* at, int row, float v, float beta,
                     GLOBAL float* decayed) {
  LOCAL_PTR const float *k = t->k + row + at->part, *a = t->a + row + at->part;
  float part = 0.0f;
  EACH(j) {
    own[j] *= a[d->parts * j];
    if (decayed) decayed[LID + 256 * j] = own[j];
    part = fma(own[j], k[d->parts * j], part);
  }
  const float predicted = over_parts(part, t->sums, d, at), e = d->delta ? v - predicted : v, by = beta * e;
  EACH(j) own[j] = fma(k[d->parts * j], by, own[j]);
  return e;
}

// What delta_runs() says of the run that begins at row n: its end, has its sequence a state, is it the first of that
// sequence, where does the next begin (N: there is none).
typedef struct {
  int end, known, first, next;
} Run;
// list[0] runs begin at list[1], list[2], ...; after those of N rows come their Runs.
DEVICE GLOBAL Run* run_at(GLOBAL int* list, int N, int n) { return (GLOBAL Run*)(list + 4 + N / 4 * 4 + 4 * (int64)n); }
#endif
