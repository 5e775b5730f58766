// Search by meaning: passages of texts with their embeddings in a file, which is mapped and read from end to end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// A piece of a file.
struct Passage {
  std::string file;
  int64_t line = 1;  ///< where it begins
  std::string text;
};
/// Cuts a text at blank lines into passages of up to `most` tokens. Short paragraphs are joined while they fit, a
/// longer one is cut at its lines, and a longer line at its spaces. Passages without a letter or digit are left out.
std::vector<Passage> passages_of(std::string_view text, const std::string& file, const Tokenizer& tokenizer,
                                 int64_t most);

/// Of two vectors of as many numbers, in f64: of vectors of length 1, their cosine.
double inner_product(std::span<const float> a, std::span<const float> b);

/// With what the passages of an index were embedded.
struct SearchModel {
  std::string path;               ///< of its file, absolute
  uint64_t checksum = 0;          ///< XXH64 of that file
  std::string query_prefix = {};  ///< what is put before a text that is searched for
  std::string pooling = {};       ///< "mean", "cls" or "last"; "": as the model's file says
};

/// Writes an index, a GGUF of the architecture `search-index`: the tensor `vectors` f32 [passages,width], and the
/// passages as metadata. Throws Error{bad_input} where there is no passage, or not a vector of one width for each.
void write_search_index(const std::string& path, std::span<const Passage> passages,
                        std::span<const std::vector<float>> vectors, const SearchModel& model);

/// An index, mapped.
class SearchIndex {
 public:
  /// Throws Error{bad_input} naming the file and what is wrong with it.
  static SearchIndex open(const std::string& path);
  int64_t passages() const { return passages_; }
  int64_t width() const { return width_; }
  const SearchModel& model() const { return model_; }
  /// The passage of this number, from 0.
  Passage passage(int64_t i) const;

  /// A passage and its inner product with what is searched for.
  struct Hit {
    int64_t passage;
    double score;
  };
  /// The `most` passages with the largest inner products, the largest first, of equal ones the earlier. Exact: every
  /// vector is read. Throws Error{bad_input} for a vector of another width, and where a number is not finite.
  std::vector<Hit> nearest(std::span<const float> vector, int64_t most) const;

 private:
  explicit SearchIndex(gguf::File file) : file_(std::move(file)) {}
  gguf::File file_;
  int64_t passages_ = 0, width_ = 0;
  const float* vectors_ = nullptr;
  SearchModel model_;
};

/// Does a file begin as one?
bool is_search_index(const std::string& path);

}  // namespace toy
