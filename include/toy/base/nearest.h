// Suggestions for unknown words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toy {

/// The candidate that is most like `word` (edit distance), or "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// The candidate that differs in one letter that is wrong, missing or too much, or "". A word that begins with a
/// candidate is another word: "user1", "tools".
std::string misspelt(std::string_view word, const std::vector<std::string>& candidates);

/// The same where candidates are choices that other programs have longer names for: also one that begins the word
/// ("cosine" of "cosine_with_restarts") or abbreviates it ("attn" of "attention") and has three letters or more.
std::string meant_choice(std::string_view word, const std::vector<std::string>& candidates);

/// The same as nearest() for names of files, whose endings are alike anyway: only the letters before the ending count.
std::string nearest_path(const std::string& path, const std::vector<std::string>& candidates);

/// What a name is that can be no path here, and what to do: an address of the web, a path of Windows, and a ~ or * that
/// the shell has not replaced. "" for any other.
std::string why_no_path(const std::string& path);

/// "PATH: no such file; " and what helps: the name in its folder that is most like it, the first folder of the path
/// that is missing, or to check the path.
std::string no_such_file(const std::string& path);

}  // namespace toy
