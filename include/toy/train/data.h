// What a training run reads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "toy/base/options.h"
#include "toy/data/examples.h"
#include "toy/data/labelled.h"
#include "toy/data/masks.h"
#include "toy/data/pairs.h"
#include "toy/image/augment.h"

namespace toy {

/// The pictures of a run; docs/images.md.
struct ImageOptions {
  std::string path;  ///< as read_images() takes it
  int64_t size = 0;  ///< side that pictures get; 0: that of the data
  AugmentOptions augment = {};

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Data";
    Option path = text_option("data", "Folder of pictures with a subfolder for each class, or CIFAR's or MNIST's files",
                              k, "FOLDER");
    path.required = true;
    f(path, o.path);
    f({"image_size", "Side of the pictures in pixels; 0 takes that of the data", from_to(0, 4096), k}, o.size);
    AugmentOptions::fields(o.augment, f);
  }
};

/// The texts of a run and how rows are made of them; docs/data.md.
struct DataOptions {
  std::vector<std::string> corpus;  ///< files and folders; "-" is standard input
  /// Of each path of `corpus`, which is then a source of its own; empty: all of them are one source.
  std::vector<double> weights;
  /// Instead of `corpus`: JSON Lines files of examples, see toy/data/examples.h. Rows are packed.
  std::vector<std::string> examples;
  Preferences preferences = Preferences::none;  ///< which rows `examples` have
  bool questions = false;                       ///< rows of `examples` have their answers apart: reinforcement learning
  std::string map;                              ///< fields of rows with other names: "prompt=question"
  std::string chat_template;                    ///< file; "": the one of the model that the run begins with
  TrainOn train_on = TrainOn::assistant;
  enum BadRows { fail, skip } bad_rows = fail;  ///< what rows do that cannot be used
  std::vector<std::string> validation;  ///< files and folders; empty: the last `validation_fraction` of every source
  double validation_fraction = 0.05;
  std::string documents = "none";  ///< none, files, blank-lines, separator:TEXT
  bool pack = false;               ///< rows of whole documents, each a sequence of its own
  bool binary = false;             ///< files with NUL bytes are texts, too
  /// Folder of tokenized texts; "none": they stay in memory; "": in the user's cache folder above 64 MiB of text.
  std::string cache;
  std::optional<ImageOptions> images = {};      ///< pictures instead of all texts; `validation` is a folder of them
  std::optional<PairOptions> pairs = {};        ///< rows of `examples` are pairs of texts that belong together
  std::optional<MaskOptions> masks = {};        ///< tokens of texts are hidden, and learned from those on both sides
  std::optional<LabelOptions> labels = {};      ///< rows of `examples` are texts with the names of their classes
  int64_t tokenizer_bytes = int64_t(64) << 20;  ///< of training text that a new tokenizer is trained on, at most

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Data";
    f(text_option("corpus", "Text file or folder to train on; - reads standard input", k, "FILE"), o.corpus);
    f(text_option("data", "JSON Lines file of examples to train on", k, "FILE", "corpus"), o.examples);
    f({"corpus_weight", "Share of each --corpus or --data, such as 3 and 1 for 75/25", at_least(0), k}, o.weights);
    f({"train_on", "Targets of --data that count: assistant, or all", {}, k}, o.train_on);
    f({"bad_rows", "What to do with rows of --data that cannot be used", {}, k}, o.bad_rows);
    f({"map", "Fields of --data with other names, such as prompt=question,completion=reply", {}, k}, o.map);
    f(text_option("chat_template", "Chat template: {} or FILE (default: the model's)", k, "FILE"), o.chat_template);
    f(text_option("val", "Text file or folder to validate on (default: the end of each corpus)", k, "FILE"),
      o.validation);
    f(text_option("val_fraction", "Fraction of each corpus to validate on", k, "", "val", from_to_below(0, 1)),
      o.validation_fraction);
    f(text_option("documents", "How texts split: none, files, blank-lines or separator:TEXT", k,
                  "none|files|blank-lines|separator:"),
      o.documents);
    f({"pack", "Fill rows with complete documents that do not see each other", {}, k}, o.pack);
    f({"binary", "Also train on binary files, which have NUL bytes", {}, k}, o.binary);
    f(text_option("data_cache", "Folder for tokenized text, or none (default: ~/.cache/toy above 64 MiB)", k, "FOLDER"),
      o.cache);
  }
};
/// Their names.
template <>
struct NamesOf<DataOptions::BadRows> {
  static constexpr std::array list = {std::pair("fail", DataOptions::fail), std::pair("skip", DataOptions::skip)};
};

}  // namespace toy
