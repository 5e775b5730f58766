// Files of examples.
#include <fmt/format.h>

#include <algorithm>

#include "toy/base/error.h"
#include "toy/data/examples.h"

namespace toy {

int64_t read_examples(const TextFile& file, const ExampleMaker& maker, const ExampleReading& reading) {
  constexpr size_t kLongest = size_t(256) << 20;
  int64_t line = 0, skipped = 0;
  std::string pending;
  const auto one = [&](std::string_view text) {
    ++line;
    if (text.find_first_not_of(" \t\r") == text.npos) return true;
    ExampleRow row;
    try {
      row = maker.make(text);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::bad_input) throw;
      const std::string what = fmt::format("{}:{}: {}", file.path, line, e.what());
      check(reading.skip_bad_rows, "{}; --bad-rows skip passes over such rows", what);
      ++skipped;
      reading.warn(what + "; the row is skipped");
      return true;
    }
    return reading.take(row, line);
  };
  bool wanted = true;
  read_text(file, 0, file.bytes, [&](std::string_view part) {
    for (size_t end; wanted && (end = part.find('\n')) != part.npos; part.remove_prefix(end + 1)) {
      pending += part.substr(0, end);
      wanted = one(pending);
      pending.clear();
    }
    pending += part;
    check(pending.size() <= kLongest, "{}:{}: the line is longer than {} bytes", file.path, line + 1, kLongest);
    return wanted;
  });
  if (wanted && !pending.empty()) one(pending);
  return skipped;
}

ExampleSet load_examples(const std::vector<TextFile>& files, const ExampleMaker& maker, double validation_fraction,
                         bool skip_bad_rows, const std::function<void(const std::string&)>& warn) {
  ExampleSet out;
  std::vector<int32_t> ids;
  std::vector<uint64_t> begins;
  std::vector<HashedFile> hashed;
  for (const TextFile& file : files) {
    const ExampleReading reading{
        skip_bad_rows, warn, [&](const ExampleRow& row, int64_t line) {
          check(row.kind != RowKind::preference,
                "{}:{}: chosen and rejected are for preference training; here rows have one answer", file.path, line);
          begins.push_back(ids.size());
          ids.insert(ids.end(), row.example.ids.begin(), row.example.ids.end());
          out.trained.insert(out.trained.end(), row.example.trained.begin(), row.example.trained.end());
          return true;
        }};
    out.skipped += read_examples(file, maker, reading);
    hashed.push_back({file, hash_of(file)});
  }
  check(!begins.empty(), "{}: there is no row to train on", files.empty() ? "data" : files[0].path);
  const auto held = size_t(double(begins.size()) * std::clamp(validation_fraction, 0.0, 1.0));
  out.text = TokenizedText::of_documents(std::move(ids), std::move(begins), held, std::move(hashed));
  return out;
}

}  // namespace toy
