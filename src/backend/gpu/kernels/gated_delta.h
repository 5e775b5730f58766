// One token of the gated delta rule, for its forward and backward kernels. The columns of a state [P][V] do not meet: a
// group takes some of them, `parts` items share a column, and an item holds elements part, part + parts, ... of it.
//
// Sums over P are one chain of fma for each part, then the parts in order. So a row's bits depend on P and on what was
// before it in its sequence, not on how that came into calls.
#ifndef TOY_GPU_GATED_DELTA_H
#define TOY_GPU_GATED_DELTA_H
#include "runs.h"
#define ELEMENTS 32   // of an item
#define STAGED 2048   // numbers of rows of keys in local memory

// This item: the head, its column of the state and of the group, its part.
typedef struct {
  int head, key_head, column, columns, col, part;
} Share;

DEVICE Share share_of(const Delta* d, int head, int block) {
  Share s;
  s.head = head, s.key_head = d->tile ? head % d->K : head / (d->H / d->K);
  s.columns = 256 / d->parts, s.col = LID % s.columns, s.part = LID / s.columns;
  s.column = block * s.columns + s.col;
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

DEVICE void load_state(float* own, GLOBAL const float* state, const Delta* d, const Share* s, int64 stride) {
  UNROLL for (int i = 0; i < ELEMENTS; ++i) {
    const int p = s->part + d->parts * i;
    own[i] = state && p < d->P && s->column < d->V ? state[p * stride] : 0.0f;
  }
}
DEVICE void store_state(const float* own, GLOBAL float* state, const Delta* d, const Share* s, int64 stride) {
  UNROLL for (int i = 0; i < ELEMENTS; ++i) {
    const int p = s->part + d->parts * i;
    if (p < d->P && s->column < d->V) state[p * stride] = own[i];
  }
}

// The sum of all parts of a column. One barrier: `sums` may be written again after another one.
DEVICE float over_parts(float part, LOCAL_PTR float* sums, const Delta* d, const Share* s) {
  sums[LID] = part;
  BARRIER();
  float sum = 0.0f;
  for (int i = 0; i < d->parts; ++i) sum += sums[i * s->columns + s->col];
  return sum;
}

// own <- a own, then k (beta e)^T onto it; returns e = v - own^T k, or v without the delta. at: where the row's keys
// are staged. decayed: where a own is kept, or null.
DEVICE float advance(float* own, const Staged* t, const Delta* d, const Share* s, int at, float v, float beta,
                     GLOBAL float* decayed) {
  float part = 0.0f;
  UNROLL for (int i = 0; i < ELEMENTS; ++i) {
    const int p = s->part + d->parts * i;
    if (p >= d->P) continue;
    own[i] *= t->a[at + p];
    if (decayed) decayed[p * s->columns + s->col] = own[i];
    part = fma(own[i], t->k[at + p], part);
  }
  const float predicted = over_parts(part, t->sums, d, s), e = d->delta ? v - predicted : v, by = beta * e;
  UNROLL for (int i = 0; i < ELEMENTS; ++i) {
    const int p = s->part + d->parts * i;
    if (p < d->P) own[i] = fma(t->k[at + p], by, own[i]);
  }
  return e;
}

// Of the run that begins at row n: is it the first of its sequence, has that a state, is there a later one?
typedef struct {
  int end, known, first, last, loads;
} Run;
DEVICE Run run_at(const Delta* d, GLOBAL const int* seq, GLOBAL const int* pos, int n, LOCAL_PTR float* parts,
                  LOCAL_PTR float* scratch) {
  Run r;
  r.end = run_end(seq, pos, n, d->N, parts, scratch) + 1;
  r.known = seq[n] >= 0 && seq[n] < d->S;
  r.first = r.known && next_of(seq[n], seq, 0, n, parts, scratch) == n;
  r.last = r.known && next_of(seq[n], seq, r.end, d->N, parts, scratch) == d->N;
  r.loads = r.first && pos[n] != 0;
  return r;
}
#endif
