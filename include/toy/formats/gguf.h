// GGUF version 3, in and out. Shapes are row-major here ([rows, columns]); the file's innermost-first order is
// reversed only in the reader and the writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "toy/base/atomic_file.h"
#include "toy/tensor/dtype.h"
#include "toy/tensor/shape.h"

namespace toy::gguf {

/// Arrays keep their element type; strings are bytes, not necessarily UTF-8.
using Array = std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
                           std::vector<uint32_t>, std::vector<int32_t>, std::vector<uint64_t>, std::vector<int64_t>,
                           std::vector<float>, std::vector<double>, std::vector<bool>, std::vector<std::string>>;
using Value = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, float, double,
                           bool, std::string, Array>;

/// One tensor of a file. `data` points into the mapping and lives as long as the File (or a copy of `keep_alive()`).
struct TensorInfo {
  std::string name;
  uint32_t ggml_type = 0;      ///< type number as in the file
  std::string type_name;       ///< "F32", "F16", "BF16", "Q8_0", ...
  std::optional<DType> dtype;  ///< set for the types a View can hold: all that DType has
  Shape shape;                 ///< row-major, outermost first
  const std::byte* data = nullptr;
  size_t bytes = 0;
};

/// What the first metadata of a file say that it is, without reading the rest: general.type ("model", "adapter",
/// "imatrix", ...), or "mmproj" for the architecture clip. "" where they do not say, and for what is no GGUF.
std::string type_of_file(const std::string& path);

/// What GGUF calls a type: "F32", "Q4_K", ...
std::string_view type_name(DType type);

/// A GGUF file, memory-mapped read-only and validated once, when it is opened: counts, overflow-checked sizes, offsets
/// against the file's length, types, alignment, duplicate names, overlaps. After that every TensorInfo is safe to use.
class File {
 public:
  /// Throws Error{bad_input}: path, what is wrong, where in the file. A part of a split model
  /// ("NAME-00002-of-00005.gguf") opens all parts as one file, without their split.* keys; one that is missing is
  /// named.
  static File open(const std::string& path);
  /// The same on bytes in memory (tests, fuzzing); `bytes` must outlive the File and be 8-byte aligned.
  static File parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const;
  size_t file_bytes() const;
  /// Metadata by key, sorted by key.
  const std::map<std::string, Value, std::less<>>& metadata() const;
  const std::vector<TensorInfo>& tensors() const;  ///< in file order
  /// nullptr if there is none of this name.
  const TensorInfo* find(std::string_view name) const;
  /// Throws naming the file and the tensor.
  const TensorInfo& require(std::string_view name) const;

  /// Is there metadata of this key?
  bool has(std::string_view key) const;
  /// @{
  /// Typed metadata. get_* throw naming file, key, expected and actual type; with a default, an absent key gives it.
  uint32_t get_u32(std::string_view key) const;
  uint32_t get_u32(std::string_view key, uint32_t otherwise) const;
  float get_f32(std::string_view key) const;
  float get_f32(std::string_view key, float otherwise) const;
  bool get_bool(std::string_view key, bool otherwise) const;
  std::string get_string(std::string_view key) const;
  std::string get_string(std::string_view key, std::string_view otherwise) const;
  const std::vector<std::string>& get_strings(std::string_view key) const;
  const std::vector<float>& get_f32s(std::string_view key) const;
  const std::vector<int32_t>& get_i32s(std::string_view key) const;
  /// @}

  /// Maps what of the file is in memory already, in a thread of its own: for whoever is going to read most of it.
  void map_ahead() const;
  /// Shares ownership of the mapping, for views that outlive the File.
  std::shared_ptr<const void> keep_alive() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Writes a file atomically: a temporary file next to it, fsync, rename, fsync of the folder. Metadata first, then all
/// tensor infos, then data at 32-byte alignment, streamed from the views given (which must stay valid until finish()).
class Writer {
 public:
  /// `architecture` becomes general.architecture, the first key.
  explicit Writer(std::string architecture);
  bool has(std::string_view key) const;    ///< was it set?
  void set(std::string key, Value value);  ///< replaces an earlier value; keys are written in order of first set()
  /// The values of `data` (contiguous), stored as `stored`: converted by convert() when the file is written, with f64
  /// rounded to f32 first. Throws on a duplicate name, rows that are not whole blocks, and i32 to or from other types.
  void add(std::string name, const View& data, DType stored);
  /// One tensor of several views that differ only in their first dimension; their rows follow each other.
  void add(std::string name, std::span<const View> parts, DType stored);
  /// Takes the next bytes of a tensor.
  using Sink = std::function<void(std::span<const std::byte>)>;
  /// A tensor whose bytes `source` hands over, all of them and in order, when finish() calls it: data that do not exist
  /// before. What it throws ends finish().
  void add(std::string name, const Shape& shape, DType stored, std::function<void(const Sink&)> source);
  /// Throws Error{bad_input} for an unwritable folder or a full disk; then nothing remains, and
  /// an earlier file of the same name is unchanged. Returns how many bytes the file has.
  uint64_t finish(const std::string& path, FileAccess access = FileAccess::usual);

 private:
  struct Item {
    std::string name;
    std::vector<View> parts;
    Shape shape;
    DType stored;
    std::function<void(const Sink&)> source;  // of what is not in `parts`
  };
  void check_new(const std::string& name, const Shape& shape, DType stored) const;
  std::string architecture_;
  std::vector<std::pair<std::string, Value>> metadata_;
  std::vector<Item> items_;
};

}  // namespace toy::gguf
