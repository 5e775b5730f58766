// What is restored when a part of a template is over.
#pragma once

#include <memory>
#include <utility>

#include "chat/interpreter.h"

namespace toy::chat {

/// Counts what runs inside of each other.
class Interpreter::Deeper {
 public:
  explicit Deeper(Interpreter& self) : self_(self) {
    if (self_.depth_ >= self_.limits_.depth) throw Problem("too many calls, loops or expressions in each other");
    ++self_.depth_;
  }
  ~Deeper() { --self_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Interpreter& self_;
};

/// A new scope within another.
class Interpreter::Inside {
 public:
  Inside(Interpreter& self, ScopePtr around) : self_(self), before_(self.scope_) {
    self_.scope_ = std::make_shared<Scope>(Scope{std::move(around), {}});
  }
  ~Inside() { self_.scope_ = std::move(before_); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Interpreter& self_;
  ScopePtr before_;
};

/// What is printed goes into a text of its own.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& self) : self_(self), before_(self.out_), text_(self.budget_) { self_.out_ = &text_; }
  ~Capture() { self_.out_ = before_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::string take() { return text_.take(); }

 private:
  Interpreter& self_;
  TextBuilder* before_;
  TextBuilder text_;
};

}  // namespace toy::chat
