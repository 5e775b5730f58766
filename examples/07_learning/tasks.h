// Tasks whose answers are known, as sequences with a target where an answer is due.
#pragma once

#include <string>
#include <vector>

#include "toy/data/corpus.h"

/// A task and the sizes on which it is trained and tested.
struct Task {
  std::string name;
  int64_t vocab = 0;
  int64_t tokens = 0;          ///< of a sequence in training
  std::vector<int64_t> sizes;  ///< tested: pairs of mqar, tokens of the others
  int64_t trained_size = 0;    ///< the largest one in training
  double chance = 0;           ///< accuracy of guessing among the answers
  std::string size_name;       ///< what a size counts
};

/// mqar: pairs of a key and a value, then keys of them among as many blanks; the answer to a key is its value
/// (multi-query associative recall, Arora et al. 2023). parity: bits; the answer to each is the parity of all so far.
/// s3: swaps of two of three things; the answer to each is the order of the things. Throws for another name.
Task task_of(const std::string& name);
/// The batch of step `step` (from 0) of training: every answer counts. Sequences depend on (seed, step) only.
toy::Windows training_batch(const Task& task, int64_t batch, uint64_t seed, int64_t step);
/// Sequences of one size that no training sees. Of parity and s3 only the answers of the second half count.
toy::Windows test_batch(const Task& task, int64_t batch, int64_t size);
/// Tokens of a sequence in test_batch().
int64_t test_tokens(const Task& task, int64_t size);
