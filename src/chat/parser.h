// From words to a tree: recursive descent, with the precedence of Jinja.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "chat/ast.h"
#include "chat/lexer.h"

namespace toy::chat {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& name) : tokens_(std::move(tokens)), name_(name) {}
  /// The complete template.
  Block run();
  /// Was there a {% generation %}?
  bool marks_generation() const { return marks_generation_; }
  /// What the template names.
  Named& named() { return named_; }

 private:
  /// Counts what lies in each other, so that nothing recurses too deep.
  class Deeper {
   public:
    explicit Deeper(Parser& parser);
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };

  // Words.
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_symbol(std::string_view s, size_t ahead = 0) const;
  bool is_name(std::string_view s, size_t ahead = 0) const;
  bool take_symbol(std::string_view s);
  bool take_name(std::string_view s);
  void require_symbol(std::string_view s);
  std::string require_name(std::string_view what);
  void require_block_end();
  [[noreturn]] void fail_expected(std::string_view what) const;

  // Statements: parse_statements.cpp.
  Block block(std::initializer_list<std::string_view> ends);
  Statement statement();
  Statement choose();
  Statement loop();
  Statement set();
  Statement macro();
  Statement call();
  Statement with();
  Statement part();
  std::vector<Parameter> parameters();
  /// The block of a macro, up to `end`, and what it asks for.
  void body(Statement& macro, std::string_view end);
  void count_name(const std::string& name, bool is_set);
  ExpressionPtr target(bool may_be_attribute);
  ExpressionPtr one_target(bool may_be_attribute);
  ExpressionPtr filter_chain();
  void end_statement(std::string_view name);

  // Expressions: parse_expressions.cpp.
  ExpressionPtr expression(bool with_condition = true);
  /// One, or several with commas, which make a tuple.
  ExpressionPtr expressions(bool with_condition = true);
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr sign(bool with_filters = true);
  ExpressionPtr primary();
  ExpressionPtr postfix(ExpressionPtr inner);
  ExpressionPtr filters(ExpressionPtr inner);
  ExpressionPtr filter(ExpressionPtr inner);
  ExpressionPtr test(ExpressionPtr inner);
  ExpressionPtr subscript(ExpressionPtr inner, SourcePlace place);
  ExpressionPtr dict_literal(SourcePlace place);
  void arguments(Expression& of);
  /// Of the same level: `one` and, as long as one of `symbols` follows, another.
  ExpressionPtr chain(ExpressionPtr (Parser::*one)(), std::initializer_list<std::string_view> symbols);
  ExpressionPtr made(Expression::Kind kind, SourcePlace place, std::vector<ExpressionPtr> kids, std::string text = {});
  ExpressionPtr finished(Expression e);
  ExpressionPtr constant(SourcePlace place, Value value);

  std::vector<Token> tokens_;
  const std::string& name_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
  bool marks_generation_ = false;
  std::set<std::string> parts_;
  Named named_;
  struct Body {
    Extras used, set;
  };
  std::vector<Body> bodies_;  ///< of the macros around
};

}  // namespace toy::chat
