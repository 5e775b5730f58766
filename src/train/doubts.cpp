#include "train/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "toy/base/counted.h"
#include "toy/base/utf8.h"
#include "toy/data/examples.h"
#include "toy/train/epochs_text.h"

namespace toy {
namespace {

constexpr size_t kFiles = 100, kBytes = 65536;  // that are looked at

std::string beginning_of(const TextFile& file) {
  std::string text;
  read_text(file, 0, std::min<uint64_t>(file.bytes, kBytes), [&](std::string_view piece) {
    text += piece;
    return true;
  });
  return text;
}

// Where a byte is no part of a character; a character at the end may be cut off.
std::optional<size_t> first_wrong_byte(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = utf8_character(text.substr(at));
    if (bytes == 0) return utf8_cut_off(text.substr(at)) ? std::nullopt : std::optional(at);
    at += bytes;
  }
  return std::nullopt;
}

void look_at(const TextFile& file, bool examples, std::vector<std::string>& doubts) {
  const std::string text = beginning_of(file);
  if (const auto at = first_wrong_byte(text))
    doubts.push_back(fmt::format(
        "{}: byte {} is not UTF-8, so the model learns single bytes there, no letters; convert the text first, such "
        "as with iconv -f latin1 -t utf-8",
        file.path, *at));
  if (!examples && is_json_lines(text))
    doubts.push_back(
        fmt::format("{}: these are JSON Lines, and the model learns to write JSON; --data {} trains on what they hold "
                    "(from scratch with --chat-template chatml)",
                    file.path, file.path));
  if (examples) return;
  if (is_json_list(text))
    doubts.push_back(fmt::format(
        "{0}: this is a list of JSON objects, and the model learns to write JSON; --data {0} trains on what "
        "it holds",
        file.path));
  if (file.path.ends_with(".csv") || file.path.ends_with(".tsv"))
    doubts.push_back(fmt::format(
        "{0}: this is a table, and the model learns to write tables; --data {0} trains on its rows", file.path));
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<!doctype") || text.starts_with("<html"))
    doubts.push_back(fmt::format(
        "{}: this is HTML, and the model learns to write its tags; save the page as text first", file.path));
  const auto lines = std::ranges::count(text, '\n');
  if (const size_t windows = text.find("\r\n"); windows != text.npos && windows < text.find('\n') && lines > 1)
    doubts.push_back(fmt::format(
        "{}: its lines end as in Windows, and the model learns the extra character; dos2unix removes it", file.path));
}

bool is_rows_of_json(const TextFile& file) {
  const std::string text = beginning_of(file);
  return is_json_lines(text) || is_json_list(text);
}

}  // namespace

std::vector<std::string> doubts_of(const DataOptions& options, const std::vector<DataSource>& sources,
                                   const DataSource* validation) {
  std::vector<std::string> doubts;
  std::error_code error;
  std::set<std::string> seen;
  for (const DataSource& source : sources)
    for (const TextFile& f : source.files.files)
      if (!seen.insert(std::filesystem::absolute(f.path, error).lexically_normal().string()).second)
        doubts.push_back(
            fmt::format("{}: it is given twice, so that text which is validated on is trained on, too; remove one{}",
                        f.path, options.examples.empty() ? ", or give it a larger --corpus-weight" : ""));
  for (const DataSource& source : sources) {
    const auto& files = source.files.files;
    for (size_t i = 0; i < std::min(files.size(), kFiles) && doubts.empty() && !options.binary; ++i)
      if (!files[i].text) look_at(files[i], !options.examples.empty(), doubts);
    for (const TextFile& f : files)
      for (const TextFile& v : validation ? validation->files.files : std::vector<TextFile>())
        if (f.bytes == v.bytes && std::filesystem::equivalent(f.path, v.path, error))
          doubts.push_back(fmt::format(
              "{}: it is trained on and validated on, so its loss does not tell what the model does with new text",
              v.path));
  }
  if (validation && options.examples.empty() && !options.binary && !validation->files.files.empty())
    if (const TextFile& v = validation->files.files[0]; !v.text && is_rows_of_json(v))
      doubts.push_back(fmt::format(
          "{}: these are rows of JSON, and the validation loss is that of writing JSON; give a text like those of "
          "--corpus",
          v.path));
  if (!validation && options.validation_fraction > 0.5)
    doubts.push_back(fmt::format("--val-fraction {:.6g} keeps more than half of the text for validation; 0.05 is usual",
                                 options.validation_fraction));
  return doubts;
}

std::string doubt_of_epochs(const std::string& name, double taken, int64_t rows) {
  constexpr double kMost = 10;
  const double epochs = taken / double(std::max<int64_t>(1, rows));
  if (epochs <= 1.01 * kMost) return {};  // a whole number of steps may be a little more
  return fmt::format(
      "{}: {} epochs of {}, so the model may learn it by heart; use fewer --steps or --epochs, more data, or "
      "--patience",
      name, epochs_text(epochs), counted(rows, "row"));
}

}  // namespace toy
