// What a training run reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toy/data/examples.h"

namespace toy {

/// The texts of a run and how rows are made of them; docs/data.md.
struct DataOptions {
  std::vector<std::string> corpus;  ///< files and folders; "-" is standard input
  /// Of each path of `corpus`, which is then a source of its own; empty: all of them are one source.
  std::vector<double> weights;
  /// Instead of `corpus`: JSON Lines files of examples, see toy/data/examples.h. Rows are packed.
  std::vector<std::string> examples;
  Preferences preferences = Preferences::none;  ///< which rows `examples` have
  std::string map;                              ///< fields of rows with other names: "prompt=question"
  std::string chat_template;                    ///< file; "": the one of the model that the run begins with
  std::string train_on = "assistant";           ///< assistant or all: parse_train_on()
  std::string bad_rows = "fail";                ///< fail or skip
  std::vector<std::string> validation;  ///< files and folders; empty: the last `validation_fraction` of every source
  double validation_fraction = 0.05;
  std::string documents = "none";  ///< none, files, blank-lines, separator:TEXT
  bool pack = false;               ///< rows of whole documents, each a sequence of its own
  bool binary = false;             ///< files with NUL bytes are texts, too
  /// Folder of tokenized texts; "none": they stay in memory; "": in the user's cache folder above 64 MiB of text.
  std::string cache;
  int64_t tokenizer_bytes = int64_t(64) << 20;  ///< of training text that a new tokenizer is trained on, at most
};

}  // namespace toy
