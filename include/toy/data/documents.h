// Where one document of a text ends and the next begins.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace toy {

/// How a text falls into documents.
struct DocumentRule {
  enum Kind { none, files, blank_lines, separator } kind = none;
  std::string text;  ///< of separator
  /// As parse_documents() reads it.
  std::string str() const;
};
/// "none", "files", "blank-lines" or "separator:TEXT", in which a backslash with n, t or another one is read as in C.
/// Throws Error{bad_input} with these.
DocumentRule parse_documents(const std::string& text);

/// Cuts one file, which comes in parts, into documents, which go on in parts. Documents may be empty.
class DocumentCutter {
 public:
  /// Some of the current document; its first byte is at `offset` of the file.
  using Text = std::function<void(std::string_view part, uint64_t offset)>;
  using End = std::function<void()>;  ///< the current document is over
  /// `keep`: separators and the blank lines behind a document are its end; otherwise they are dropped.
  DocumentCutter(const DocumentRule& rule, bool keep, Text text, End end);
  /// More of the file.
  void push(std::string_view part);
  /// The file is over, and so is the document. The next push() begins another file.
  void finish();

 private:
  void push_lines(std::string_view part);
  void begin_line();
  void push_separated(std::string_view part);
  void give(std::string_view part, uint64_t offset);

  DocumentRule rule_;
  bool keep_;
  Text text_;
  End end_;
  uint64_t position_ = 0;  // bytes pushed
  std::string held_;       // the last of them, whose meaning the next part decides
  bool open_ = false;      // something of the current document was given
  bool line_begins_ = true;
};

}  // namespace toy
