// safetensors (huggingface/safetensors, "Format"): named tensors as raw bytes after a JSON header. Python's libraries
// open these files.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/formats/mapped_file.h"
#include "toy/tensor/buffer.h"
#include "toy/tensor/shape.h"

namespace toy::safetensors {

/// "F32" for f32 and so on: toy's name of the type in capitals.
std::string type_name(DType t);

/// Writes a file atomically (AtomicFile). Tensors with the widest elements come first, otherwise in the order of add(),
/// so each is aligned to its elements.
class Writer {
 public:
  /// The bytes of `data` (contiguous), which must stay valid until finish(). Throws Error{bad_input} for a name that is
  /// taken or reserved and for a view that is not contiguous.
  void add(const std::string& name, const View& data);
  /// Takes the next bytes of a tensor.
  using Sink = std::function<void(std::span<const std::byte>)>;
  /// A tensor whose bytes `source` hands over, all of them and in order, when finish() calls it. What it throws ends
  /// finish(), and nothing remains.
  void add(const std::string& name, DType type, const Shape& shape, std::function<void(const Sink&)> source);
  /// Throws as AtomicFile does.
  void finish(const std::string& path) const;

 private:
  struct Item {
    std::string name;
    View view;  // without data where there is a source
    std::function<void(const Sink&)> source;
  };
  std::vector<Item> items_;
};

/// A tensor of a type that no View can have: U8, into which others pack what they like, such as MXFP4; BOOL, I64.
struct Bytes {
  const std::byte* data = nullptr;
  Shape shape;
  std::string type;
};

/// A file, memory-mapped read-only and validated once, when it is opened: header length, JSON, types, overflow-checked
/// sizes, offsets that cover the data without gaps or overlaps.
class File {
 public:
  /// Throws Error{bad_input}: path and what is wrong.
  static File open(const std::string& path);
  /// The same on bytes in memory (tests, fuzzing); `bytes` must outlive the File and be 8-byte aligned.
  static File parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  /// By name. The views' data may not be written, and live as long as the File: they are in the mapping, or copied
  /// where they are not aligned there.
  const std::map<std::string, View, std::less<>>& tensors() const { return tensors_; }
  /// Those of other types.
  const std::map<std::string, Bytes, std::less<>>& bytes() const { return bytes_; }

 private:
  std::string path_;
  MappedFile mapping_;
  std::vector<Buffer> copies_;
  std::map<std::string, View, std::less<>> tensors_;
  std::map<std::string, Bytes, std::less<>> bytes_;
};

}  // namespace toy::safetensors
