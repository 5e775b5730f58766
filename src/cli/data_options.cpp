#include "cli/data_options.h"

#include "cli/options.h"

namespace toy::cli {

void add_data_options(CLI::App& app, DataOptions& data) {
  app.add_option(
         "--corpus", data.corpus,
         "text file or folder to train on, repeatable; -: standard input. Folders are read in the order of their "
         "paths, without hidden, empty and binary files")
      ->required()
      ->allow_extra_args(false);
  app.add_option("--corpus-weight", data.weights,
                 "for each --corpus, in the same order: rows come from it in this proportion, as 3 and 1 for three "
                 "quarters and one. Absent: all of them are one text")
      ->allow_extra_args(false);
  CLI::Option* texts =
      app.add_option("--val", data.validation,
                     "a text file or a folder to validate on; may be given again (default: the end of each corpus)")
          ->allow_extra_args(false);
  app.add_option("--val-fraction", data.validation_fraction, "part of each corpus kept for validation")
      ->capture_default_str()
      ->excludes(texts);
  app.add_option("--documents", data.documents,
                 "what a document is: none (one running text), files, blank-lines, or separator:TEXT, as "
                 "'separator:<|endoftext|>'. Documents end with the tokenizer's end-of-sequence token")
      ->capture_default_str();
  app.add_flag(
      "--pack", data.pack,
      "fill rows with whole documents: each sees only itself, and its positions begin at 0. Needs --documents");
  app.add_flag("--binary", data.binary, "also train on files that are not text (with NUL bytes)");
  app.add_option("--data-cache", data.cache,
                 "folder for tokenized texts, which later runs find again; none: keep them in memory. Default: "
                 "~/.cache/toy for more than 64 MiB of text, else memory");
}

void add_tokenizer_bytes(CLI::App& app, DataOptions& data) {
  app.add_option("--tokenizer-bytes", data.tokenizer_bytes,
                 "train the tokenizer on at most so many bytes, from all over the corpus")
      ->capture_default_str();
}

void refuse_overwriting_texts(const std::string& out, const DataOptions& data) {
  for (const std::string& path : data.corpus) refuse_overwriting("out", out, {{"--corpus", path}});
  for (const std::string& path : data.validation) refuse_overwriting("out", out, {{"--val", path}});
}

}  // namespace toy::cli
