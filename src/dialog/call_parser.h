// What the model writes, as text and calls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/call_forms.h"
#include "dialog/call_readers.h"
#include "dialog/output.h"
#include "toy/base/philox.h"

namespace toy::dialog {

/// Splits a text into what is for the reader, thoughts (of CallForm::channels) and calls, in one form. The result does
/// not depend on how the text is cut. What looks like a call and is none, or calls an unknown function, stays text.
/// Spaces around calls are dropped.
class CallParser {
 public:
  /// `tools` are the functions that may be called. `salt` makes the ids of calls differ from those of other texts.
  CallParser(const CallForm& form, std::shared_ptr<const std::vector<Tool>> tools, std::string_view salt);
  /// What these bytes add.
  Piece push(std::string_view bytes);
  /// The remainder at the end of the text. A call that was cut off keeps the arguments that came.
  Piece finish();
  /// Is the present message of CallForm::channels a thought?
  bool in_thought() const { return state_ == in_message && is_thought_; }

 private:
  enum State {
    text,
    before_call,
    in_call,
    before_end,
    after_call,
    before_close,
    in_header,
    in_message,
    after_arguments
  };
  void push(char c);
  void in_text(char c);
  void at_beginning();
  void open_unit();
  bool is_before_list() const;
  bool lists_objects() const { return form_.is_object() || form_.kind == CallForm::python; }
  void begin_call(std::string_view bytes);
  void read(char c);
  void follow(char c);
  bool is_header(std::string_view held) const;
  void header(char c);
  void begin_message();
  void begin_paragraph(bool is_thought);
  void message(char c);
  void write(std::string_view bytes);
  void give_back(char last);
  bool announce(std::string_view name);
  std::string numbered_id(std::string_view name, std::string_view number);
  void argue(std::string arguments);
  void end_call();
  void again();

  const CallForm& form_;
  std::shared_ptr<const std::vector<Tool>> tools_;
  Philox random_;  // for the ids of calls
  State state_ = text;
  std::string held_;  // text that may begin a call, or spaces in front of one; after one what may be a mark
  std::string raw_;   // of a call that is not announced: all of it
  std::unique_ptr<CallReader> reader_;
  const Tool* tool_ = nullptr;  // that is being called
  bool first_ = true;           // nothing but spaces has come
  bool is_later_ = false;       // the present call is in a list, after another
  bool has_arguments_ = false;  // the present call
  size_t calls_ = 0;
  std::vector<std::string> ids_;     // of the calls
  bool is_thought_ = false;          // the present message
  bool has_text_[2] = {};            // some message has, and some thought
  std::string_view separator_ = {};  // before what comes of the present message
  Piece out_;
};

}  // namespace toy::dialog
