// Downloads into a cache that Hugging Face's tools share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fetch/hub.h"

namespace toy::fetch {

/// What to get, from where and to where.
struct FetchOptions {
  std::string repo;       ///< "OWNER/NAME"
  std::string file = {};  ///< see choose_files()
  std::string revision = "main";
  std::string cache;  ///< holds models--OWNER--NAME
  std::string endpoint = "https://huggingface.co";
  std::string token = {};
  double retry_seconds = 0.5;                                        ///< before the second try; doubles each time
  std::function<void(uint64_t done, uint64_t total)> progress = {};  ///< bytes, of all files
  std::function<void(const std::string&)> retrying = {};             ///< why
  std::function<bool()> stop = {};                                   ///< asked often; true throws Stopped (http.h)
};

/// A file that is there now.
struct Fetched {
  RepoFile file;
  std::string path;
  bool was_there = false;
};

/// Downloads the files into `cache`/models--OWNER--NAME as huggingface_hub lays them out: blobs by their checksums, and
/// snapshots/COMMIT/FILE, which links to them. A file gets its name when its size and checksum are right. What was
/// downloaded of it before stays in blobs/SUM.incomplete, from where the next call resumes. Throws Error{bad_input} for
/// a repository or file that is not there or not accessible, a full disk, and Error{failure} where there is no network,
/// or it fails repeatedly.
std::vector<Fetched> fetch(const FetchOptions& options);

}  // namespace toy::fetch
