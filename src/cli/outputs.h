// Files that commands write: names that fit them, and what they may replace.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "cli/options.h"
#include "toy/base/error.h"

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

/// As refuse_replacing(), and where add_overwrite() or the like asked for nothing, throws Error{bad_input} for files of
/// the command's kind, too: all, or those that `again` does not write again. `again`: what the command's options write,
/// at least as long as `there`.
void refuse_losing(const std::string& option, const std::string& out, bool overwrite, const IsOwn& is_own,
                   const std::function<std::string(std::string_view there)>& again = {});
/// A file that people can read: UTF-8, perhaps cut at its end, without zeros.
bool begins_as_text(std::string_view beginning);

}  // namespace toy::cli
