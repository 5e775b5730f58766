#include "cli/data_options.h"

#include "cli/help.h"
#include "cli/options.h"

namespace toy::cli {

void add_data_options(CLI::App& app, DataOptions& data) {
  begin_group(app, "Data");
  app.add_option("--corpus", data.corpus, "Text file or folder to train on; - reads standard input")
      ->required()
      ->allow_extra_args(false)
      ->check(file_name());
  app.add_option("--corpus-weight", data.weights, "Share of each --corpus, such as 3 and 1 for 75/25")
      ->allow_extra_args(false)
      ->check(at_least(0));
  CLI::Option* texts =
      app.add_option("--val", data.validation, "Text file or folder to validate on (default: the end of each corpus)")
          ->allow_extra_args(false)
          ->check(file_name());
  app.add_option("--val-fraction", data.validation_fraction, "Fraction of each corpus to validate on")
      ->capture_default_str()
      ->check(from_to_below(0, 1))
      ->excludes(texts);
  app.add_option("--documents", data.documents, "How texts split: none, files, blank-lines or separator:TEXT")
      ->capture_default_str()
      ->check(suggested({"none", "files", "blank-lines", "separator:"}));
  app.add_flag("--pack", data.pack, "Fill rows with complete documents that do not see each other");
  app.add_flag("--binary", data.binary, "Also train on binary files, which have NUL bytes");
  app.add_option("--data-cache", data.cache, "Folder for tokenized text, or none (default: ~/.cache/toy above 64 MiB)")
      ->check(folder_name());
}

void add_tokenizer_bytes(CLI::App& app, DataOptions& data) {
  app.add_option("--tokenizer-bytes", data.tokenizer_bytes, "Bytes of the corpus to train the tokenizer on, at most")
      ->capture_default_str()
      ->check(at_least(1));
}

void refuse_overwriting_texts(const std::string& out, const DataOptions& data) {
  for (const std::string& path : data.corpus) refuse_overwriting("out", out, {{"--corpus", path}});
  for (const std::string& path : data.validation) refuse_overwriting("out", out, {{"--val", path}});
}

}  // namespace toy::cli
