// What kernels and their records share: structs that are arguments of kernels, and numbers that choose a variant. C,
// with `int64` defined before.
#ifndef TOY_GPU_ARGUMENTS_H
#define TOY_GPU_ARGUMENTS_H

// Where the elements of up to three operands lie that are walked together, in elements. The last dimension is [4].
typedef struct {
  int64 shape[5], a[5], b[5], c[5];
} Strided;

// Products that are computed side by side: how many along each dimension, and how far apart their operands begin. Those
// of the result follow each other.
typedef struct {
  int64 shape[3], a[3], b[3];
} Batch;

// The gated delta rule: N rows, K key heads of width P, H value heads of width V, states of S sequences, or -1.
// `parts` items share a column of a state.
typedef struct {
  int N, K, P, H, V, S, vector_gate, tile, delta, parts;
} Delta;

// hi + lo (pairs.h).
typedef struct {
  float hi, lo;
} FloatPair;
// A sum of squares: sum 4^e (pairs.h).
typedef struct {
  FloatPair sum;
  int e;
} Squares;
// A tensor of those that one launch goes over (tensors.h): how far behind the kernel's pointers its operands begin,
// in elements; how many elements it has; the first group that is its own; its weight decay.
typedef struct {
  int64 at[6], n;
  int first;
  float decay;
} TensorPlace;

// The types of weights (weights.h).
enum {
  WEIGHT_F32,
  WEIGHT_F16,
  WEIGHT_BF16,
  WEIGHT_Q4_0,
  WEIGHT_Q8_0,
  WEIGHT_Q4_K,
  WEIGHT_Q5_K,
  WEIGHT_Q6_K,
  WEIGHT_Q4_1,
  WEIGHT_Q5_0,
  WEIGHT_Q5_1,
  WEIGHT_Q2_K,
  WEIGHT_Q3_K,
  WEIGHT_IQ4_NL,
  WEIGHT_IQ4_XS,
  WEIGHT_MXFP4
};

// Functions of single elements (elementwise.k). The first are of several operands.
enum {
  ELEMENT_ADD,
  ELEMENT_SUB,
  ELEMENT_MUL,
  ELEMENT_DIV,
  ELEMENT_MAXIMUM,
  ELEMENT_MINIMUM,
  ELEMENT_GREATER,
  ELEMENT_EQUAL,
  ELEMENT_WHERE,
  ELEMENT_NEG,
  ELEMENT_ABS,
  ELEMENT_SIGN,
  ELEMENT_SQR,
  ELEMENT_EXP,
  ELEMENT_LOG,
  ELEMENT_SQRT,
  ELEMENT_RSQRT,
  ELEMENT_TANH,
  ELEMENT_SIGMOID,
  ELEMENT_RELU,
  ELEMENT_SILU,
  ELEMENT_GELU_TANH,
  ELEMENT_GELU_ERF,
  ELEMENT_ERF,
  ELEMENT_SOFTPLUS,
  ELEMENT_SIN,
  ELEMENT_COS,
  ELEMENT_SCALE,
  ELEMENT_CLAMP
};

// Work of one group of the kernels that go over single elements: 256 items, each several.
#define ELEMENTS_OF_A_GROUP 1024
// Of sum_squares().
#define ELEMENTS_OF_A_NORM 8192
// Candidates that a group of top_k_of_tiles() sorts at once.
#define TILE_OF_TOP_K 2048
// Columns of a head's results that a group of attention computes; wider heads take several, which share the scores.
#define COLUMNS_OF_A_HEAD 256
// The widest block of hadamard, and head that kv_append takes with its queries.
#define WIDEST_KEY 1024
// Numbers of a state of the gated delta rule that an item holds, and keys at most: so many lie in local memory.
#define ELEMENTS_OF_A_STATE 16
#define WIDEST_STATE 2048
// Rows between two states that its gradient keeps.
#define ROWS_OF_A_STATE 32
#endif
