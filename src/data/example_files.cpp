// Files of examples.
#include <fmt/format.h>

#include <algorithm>

#include "data/row_files.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/data/examples.h"

namespace toy {
namespace {

// Throws where a training does not take rows of this kind.
void require_kind(const ExampleRow& row, Preferences wanted) {
  const bool is_pair = row.kind == RowKind::preference, is_rated = row.kind == RowKind::rated;
  check(wanted != Preferences::none || !is_pair,
        "chosen and rejected are for preference training (toy train dpo); here rows have one answer");
  check(wanted != Preferences::none || !is_rated,
        "a completion with a label is for preference training (toy train dpo --loss kto); here all are learned");
  check(wanted != Preferences::pairs || !is_rated,
        "a completion with a label is for --loss kto; this loss compares 'chosen' with 'rejected'");
  check(wanted != Preferences::pairs || is_pair,
        "it states no preference; a row is {{\"prompt\": ..., \"chosen\": ..., \"rejected\": ...}}{}",
        row.kind == RowKind::messages ? ", and toy train lora learns conversations" : "");
  check(wanted != Preferences::rated || is_pair || is_rated,
        "it states no preference; needed are 'prompt', 'completion' and 'label' (true or false), or 'chosen' and "
        "'rejected'");
}

}  // namespace

int64_t read_examples(const TextFile& file, const ExampleMaker& maker, const ExampleReading& reading) {
  check(!is_plain_text(file),
        "{0}: a plain text, and no rows of JSON; --corpus {0} trains on it, toy eval MODEL --file {0} scores it",
        file.path);
  SkippedRows skipped(file.path, reading.warn);
  int64_t bad = 0, silent = 0;
  bool is_any_right = false;
  std::string first_silent;
  RowNotes notes(reading.warn);
  for_each_row(file, [&](int64_t number, const std::string& where, const GetRow& get) {
    ExampleRow row;
    bool is_question = false, is_row = false;
    try {
      auto given = get();
      is_question = given.is_object() && given.contains("answer") && given.contains("messages");
      row = maker.make_row(std::move(given));
      is_row = true;
      if (reading.preferences) require_kind(row, *reading.preferences);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::bad_input) throw;
      const std::string what =
          fmt::format("{}: {}{}", where, e.what(),
                      is_question ? "; questions with an answer are for toy train grpo and toy eval generate" : "");
      const bool helps = dynamic_cast<const NeedsTemplate*>(&e) == nullptr;  // else all rows like it would be skipped
      if (reading.bad && helps) {
        reading.bad(number, e.what());
        return ++bad > 0;
      }
      const bool are_others_like_it = is_row && !is_any_right;
      check(reading.skip_bad_rows, "{}{}", what,
            helps && !are_others_like_it ? "; --bad-rows skip passes over such rows, toy data check lists them" : "");
      skipped.add(what);
      return true;
    }
    is_any_right = true;
    notes.add(where, row.notes);
    if (row.says_nothing && ++silent == 1) first_silent = where;
    return reading.take(row, number);
  });
  if (silent > 0)
    reading.warn(
        fmt::format("{}: {} an empty answer, from which the model learns to say nothing (the first is {}); "
                    "fill or remove them",
                    file.path, counted(silent, "row has", "rows have"), first_silent));
  return bad + skipped.finish();
}

ExampleSet load_examples(const std::vector<TextFile>& files, const ExampleMaker& maker, double validation_fraction,
                         bool skip_bad_rows, const std::function<void(const std::string&)>& warn,
                         Preferences preferences) {
  ExampleSet out;
  std::vector<int32_t> ids;
  std::vector<uint64_t> begins;
  std::vector<size_t> row_begins;  // the first document of each row
  std::vector<HashedFile> hashed;
  const auto add = [&](const Example& e, bool chosen) {
    begins.push_back(ids.size());
    ids.insert(ids.end(), e.ids.begin(), e.ids.end());
    out.trained.insert(out.trained.end(), e.trained.begin(), e.trained.end());
    if (preferences != Preferences::none) out.chosen.push_back(chosen);
  };
  for (const TextFile& file : files) {
    const ExampleReading reading{skip_bad_rows, preferences, warn, {}, [&](const ExampleRow& row, int64_t) {
                                   row_begins.push_back(begins.size());
                                   add(row.example, row.good);
                                   if (row.rejected) add(*row.rejected, false);
                                   return true;
                                 }};
    out.skipped += read_examples(file, maker, reading);
    hashed.push_back({file, hash_of(file)});
  }
  check(!begins.empty(), "{}: there is no row to train on", files.empty() ? "data" : files[0].path);
  const auto rows = size_t(double(row_begins.size()) * std::clamp(validation_fraction, 0.0, 1.0));
  const size_t held = rows == 0 ? 0 : begins.size() - row_begins[row_begins.size() - rows];
  out.text = TokenizedText::of_documents(std::move(ids), std::move(begins), held, std::move(hashed));
  return out;
}

}  // namespace toy
