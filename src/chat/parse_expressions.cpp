#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "chat/parser.h"

namespace toy::chat {
namespace {

constexpr int kDeepest = 150;  // expressions in each other

template <class... Kids>
std::vector<ExpressionPtr> list_of(Kids... kids) {
  std::vector<ExpressionPtr> out;
  (out.push_back(std::move(kids)), ...);
  return out;
}

}  // namespace

Parser::Deeper::Deeper(Parser& parser) : parser_(parser) {
  if (parser.depth_ >= kDeepest) fail_at(parser.name_, parser.peek().place, "too much lies in each other here");
  ++parser.depth_;
}

bool Parser::is_symbol(std::string_view s, size_t ahead) const {
  return peek(ahead).kind == Token::symbol && peek(ahead).value == s;
}
bool Parser::is_name(std::string_view s, size_t ahead) const {
  return peek(ahead).kind == Token::name && peek(ahead).value == s;
}
bool Parser::take_symbol(std::string_view s) {
  if (!is_symbol(s)) return false;
  next();
  return true;
}
bool Parser::take_name(std::string_view s) {
  if (!is_name(s)) return false;
  next();
  return true;
}
void Parser::require_symbol(std::string_view s) {
  if (!take_symbol(s)) fail_expected(fmt::format("'{}'", s));
}
std::string Parser::require_name(std::string_view what) {
  if (peek().kind != Token::name) fail_expected(what);
  return next().value;
}
void Parser::fail_expected(std::string_view what) const {
  fail_at(name_, peek().place, fmt::format("expected {}, found {}", what, shown(peek())));
}

ExpressionPtr Parser::finished(Expression e) {
  for (const ExpressionPtr& kid : e.kids)
    if (kid) e.depth = std::max(e.depth, kid->depth + 1);
  if (e.depth > kDeepest) fail_at(name_, e.place, "the expression is too long");
  return std::make_unique<const Expression>(std::move(e));
}

ExpressionPtr Parser::made(Expression::Kind kind, SourcePlace place, std::vector<ExpressionPtr> kids,
                           std::string text) {
  Expression e;
  e.kind = kind, e.place = place, e.text = std::move(text), e.kids = std::move(kids);
  return finished(std::move(e));
}

ExpressionPtr Parser::constant(SourcePlace place, Value value) {
  Expression e;
  e.place = place, e.value = std::move(value);
  return finished(std::move(e));
}

ExpressionPtr Parser::expressions(bool with_condition) {
  const SourcePlace place = peek().place;
  ExpressionPtr first = expression(with_condition);
  if (!is_symbol(",")) return first;
  std::vector<ExpressionPtr> all = list_of(std::move(first));
  while (take_symbol(",")) {
    const Token::Kind kind = peek().kind;
    if (kind == Token::print_end || kind == Token::block_end || is_symbol(")") || is_symbol("=")) break;
    all.push_back(expression(with_condition));
  }
  return made(Expression::tuple, place, std::move(all));
}

ExpressionPtr Parser::expression(bool with_condition) {
  const Deeper deeper(*this);
  const SourcePlace place = peek().place;
  ExpressionPtr value = either();
  while (with_condition && take_name("if")) {
    ExpressionPtr condition = either(), otherwise;
    if (take_name("else")) otherwise = expression();
    value = made(Expression::conditional, place, list_of(std::move(value), std::move(condition), std::move(otherwise)));
  }
  return value;
}

ExpressionPtr Parser::either() {
  ExpressionPtr left = both();
  while (is_name("or")) {
    const SourcePlace place = next().place;
    left = made(Expression::binary, place, list_of(std::move(left), both()), "or");
  }
  return left;
}

ExpressionPtr Parser::both() {
  ExpressionPtr left = negation();
  while (is_name("and")) {
    const SourcePlace place = next().place;
    left = made(Expression::binary, place, list_of(std::move(left), negation()), "and");
  }
  return left;
}

ExpressionPtr Parser::negation() {
  if (!is_name("not")) return comparison();
  const Deeper deeper(*this);
  const SourcePlace place = next().place;
  return made(Expression::unary, place, list_of(negation()), "not");
}

ExpressionPtr Parser::comparison() {
  constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  Expression e;
  e.kind = Expression::compare, e.place = peek().place;
  e.kids.push_back(sum());
  for (;;) {
    const Token& t = peek();
    if (t.kind == Token::symbol &&
        std::find(std::begin(kOperators), std::end(kOperators), t.value) != std::end(kOperators)) {
      e.operators.push_back(next().value);
    } else if (take_name("in")) {
      e.operators.emplace_back("in");
    } else if (is_name("not") && is_name("in", 1)) {
      next(), next();
      e.operators.emplace_back("not in");
    } else {
      break;
    }
    e.kids.push_back(sum());
  }
  return e.operators.empty() ? std::move(e.kids[0]) : finished(std::move(e));
}

ExpressionPtr Parser::chain(ExpressionPtr (Parser::*one)(), std::initializer_list<std::string_view> symbols) {
  ExpressionPtr left = (this->*one)();
  while (peek().kind == Token::symbol && std::find(symbols.begin(), symbols.end(), peek().value) != symbols.end()) {
    const Token& op = next();
    ExpressionPtr right = (this->*one)();
    left = made(Expression::binary, op.place, list_of(std::move(left), std::move(right)), op.value);
  }
  return left;
}

ExpressionPtr Parser::sum() { return chain(&Parser::concatenation, {"+", "-"}); }
ExpressionPtr Parser::concatenation() { return chain(&Parser::product, {"~"}); }
ExpressionPtr Parser::product() { return chain(&Parser::power, {"*", "/", "//", "%"}); }

ExpressionPtr Parser::power() {
  ExpressionPtr left = sign();
  while (is_symbol("**")) {
    const SourcePlace place = next().place;
    ExpressionPtr right = sign();
    left = made(Expression::binary, place, list_of(std::move(left), std::move(right)), "**");
  }
  return left;
}

ExpressionPtr Parser::sign(bool with_filters) {
  const Deeper deeper(*this);
  ExpressionPtr inner;
  if (is_symbol("-") || is_symbol("+")) {
    const Token& op = next();
    inner = made(Expression::unary, op.place, list_of(sign(false)), op.value);
  } else {
    inner = primary();
  }
  inner = postfix(std::move(inner));
  return with_filters ? filters(std::move(inner)) : std::move(inner);
}

ExpressionPtr Parser::primary() {
  const Token& t = peek();
  const SourcePlace place = t.place;
  if (t.kind == Token::name) {
    const std::string name = next().value;
    if (name == "true" || name == "True") return constant(place, true);
    if (name == "false" || name == "False") return constant(place, false);
    if (name == "none" || name == "None") return constant(place, None{});
    count_name(name, false);
    named_.variables.insert(name);
    return made(Expression::name, place, {}, name);
  }
  if (t.kind == Token::string) {
    std::string text;
    while (peek().kind == Token::string) text += next().value;
    named_.fields.insert(text);
    return constant(place, std::move(text));
  }
  if (t.kind == Token::integer) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(t.value.data(), t.value.data() + t.value.size(), value);
    if (error != std::errc()) fail_at(name_, place, "the number is too large");
    next();
    return constant(place, value);
  }
  if (t.kind == Token::real) return constant(place, std::strtod(next().value.c_str(), nullptr));
  if (take_symbol("(")) {
    if (take_symbol(")")) return made(Expression::tuple, place, {});
    ExpressionPtr inner = expressions();
    require_symbol(")");
    return inner;
  }
  if (take_symbol("[")) {
    std::vector<ExpressionPtr> kids;
    while (!is_symbol("]")) {
      kids.push_back(expression());
      if (!take_symbol(",")) break;
    }
    require_symbol("]");
    return made(Expression::list, place, std::move(kids));
  }
  if (take_symbol("{")) return dict_literal(place);
  fail_expected("an expression");
}

ExpressionPtr Parser::dict_literal(SourcePlace place) {
  std::vector<ExpressionPtr> kids;
  while (!is_symbol("}")) {
    kids.push_back(expression());
    require_symbol(":");
    kids.push_back(expression());
    if (!take_symbol(",")) break;
  }
  require_symbol("}");
  return made(Expression::dict, place, std::move(kids));
}

ExpressionPtr Parser::postfix(ExpressionPtr inner) {
  for (;;) {
    const SourcePlace place = peek().place;
    if (take_symbol(".")) {
      if (peek().kind == Token::integer) {
        ExpressionPtr index = primary();
        inner = made(Expression::item, place, list_of(std::move(inner), std::move(index)));
      } else {
        std::string name = require_name("a name after '.'");
        named_.fields.insert(name);
        inner = made(Expression::attribute, place, list_of(std::move(inner)), std::move(name));
      }
    } else if (take_symbol("[")) {
      inner = subscript(std::move(inner), place);
    } else if (is_symbol("(")) {
      Expression e;
      e.kind = Expression::call, e.place = place;
      e.kids.push_back(std::move(inner));
      arguments(e);
      inner = finished(std::move(e));
    } else {
      return inner;
    }
  }
}

ExpressionPtr Parser::subscript(ExpressionPtr inner, SourcePlace place) {
  std::vector<ExpressionPtr> kids = list_of(std::move(inner));
  bool slice = false;
  for (int part = 0; part < 3; ++part) {
    const bool empty = is_symbol(":") || is_symbol("]");
    kids.push_back(empty ? nullptr : expression());
    if (!take_symbol(":")) break;
    slice = true;
  }
  if (!is_symbol("]")) fail_expected("']'");
  next();
  if (!slice && !kids[1]) fail_at(name_, place, "expected an index between the brackets");
  kids.resize(slice ? 4 : 2);
  return made(slice ? Expression::slice : Expression::item, place, std::move(kids));
}

void Parser::arguments(Expression& of) {
  require_symbol("(");
  while (!is_symbol(")")) {
    ArgumentKind kind;
    if (take_symbol("**")) {
      kind.kind = ArgumentKind::dict;
    } else if (take_symbol("*")) {
      kind.kind = ArgumentKind::list;
    } else if (peek().kind == Token::name && is_symbol("=", 1)) {
      kind = {ArgumentKind::named, next().value};
      next();
    } else if (!of.arguments.empty() && of.arguments.back().kind != ArgumentKind::positional) {
      fail_expected("NAME=VALUE after another one");
    }
    of.arguments.push_back(std::move(kind));
    of.kids.push_back(expression());
    if (!take_symbol(",")) break;
  }
  require_symbol(")");
}

ExpressionPtr Parser::filters(ExpressionPtr inner) {
  for (;;) {
    if (is_symbol("|"))
      inner = filter(std::move(inner));
    else if (is_name("is"))
      inner = test(std::move(inner));
    else if (is_symbol("(") || is_symbol("["))
      inner = postfix(std::move(inner));
    else
      return inner;
  }
}

ExpressionPtr Parser::filter(ExpressionPtr inner) {
  next();
  Expression e;
  e.kind = Expression::filter, e.place = peek().place;
  e.text = require_name("the name of a filter");
  e.kids.push_back(std::move(inner));
  if (is_symbol("(")) arguments(e);
  return finished(std::move(e));
}

// The argument of a test may stand without brackets: "x is divisibleby 3".
ExpressionPtr Parser::test(ExpressionPtr inner) {
  const SourcePlace place = next().place;
  const bool negated = take_name("not");
  Expression e;
  e.kind = Expression::test, e.place = peek().place;
  e.text = require_name("the name of a test");
  e.kids.push_back(std::move(inner));
  const Token& t = peek();
  const bool ends = is_name("else") || is_name("or") || is_name("and") || is_name("if") || is_name("is");
  if (is_symbol("(")) {
    arguments(e);
  } else if ((t.kind == Token::name && !ends) || t.kind == Token::string || t.kind == Token::integer ||
             t.kind == Token::real || is_symbol("[") || is_symbol("{")) {
    ExpressionPtr argument = primary();
    e.kids.push_back(postfix(std::move(argument)));
    e.arguments.emplace_back();
  }
  if (is_name("is")) fail_at(name_, peek().place, "tests cannot follow each other; join them with 'and'");
  ExpressionPtr result = finished(std::move(e));
  return negated ? made(Expression::unary, place, list_of(std::move(result)), "not") : std::move(result);
}

}  // namespace toy::chat
