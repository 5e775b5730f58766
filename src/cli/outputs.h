// Files that commands write: names that fit them, and what they may replace.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "toy/base/error.h"
#include "toy/data/text_files.h"

namespace toy::cli {

/// Refuses a name that ends like a file of another kind than `what`, such as "a page of HTML", whose ending is `own`.
inline void refuse_other_ending(const char* option, const std::string& out, std::string_view own, const char* what) {
  std::string ending = std::filesystem::path(out).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  constexpr std::array kOthers{".png",  ".jpg", ".jpeg",        ".svg",   ".pdf", ".json",  ".jsonl",
                               ".csv",  ".tsv", ".txt",         ".md",    ".npy", ".xml",   ".docx",
                               ".html", ".htm", ".safetensors", ".model", ".bin", ".ipynb", ".gguf"};
  const bool is_other = ending != own && std::ranges::find(kOthers, std::string_view(ending)) != kOthers.end();
  check(!is_other, "{} is '{}', but the file is {}; use a name that ends with {}", option, out, what, own);
}

/// Refuses to replace a file without --overwrite, unless `is_own` says that all of it can be written again.
inline void refuse_replacing_other(const char* option, const std::string& out, bool overwrite,
                                   const std::function<bool(const std::string& text)>& is_own) {
  std::error_code error;
  if (overwrite || !std::filesystem::is_regular_file(out, error) || std::filesystem::file_size(out, error) == 0) return;
  check(is_own(read_text_file(out, true)),
        "{}: '{}' exists, and these options do not write it again; use another name, or --overwrite it", option, out);
}

}  // namespace toy::cli
