// What a Hugging Face server says about a repository, and what of it to get.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace toy::fetch {

/// A file of a repository.
struct RepoFile {
  std::string path;  ///< below the repository, without ".." and the like
  uint64_t bytes = 0;
  std::string sum;     ///< hexadecimal digits
  bool large = false;  ///< the sum is a SHA-256; else it is that of git, a SHA-1
};

/// A repository at one commit.
struct Repo {
  std::string commit;
  std::vector<RepoFile> files;  ///< by path
};

/// From the answer to api/models/OWNER/REPO/revision/REVISION?blobs=true. Throws Error{bad_input}, beginning with
/// `where`, for what is no such answer, and for names that would lead out of a folder.
Repo parse_repo(std::string_view text, const std::string& where);

/// The files that a name or a pattern (toy/base/glob.h) means. Without one: the only model in GGUF (not its projector
/// of images or importance matrix), or in a repository without any the files that `toy convert` reads. A model that is
/// split over files is all of them. Throws Error{bad_input} naming what there is.
std::vector<RepoFile> choose_files(const Repo& repo, const std::string& file, const std::string& where);

}  // namespace toy::fetch
