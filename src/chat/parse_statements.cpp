#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "chat/parser.h"
#include "toy/base/error.h"

namespace toy::chat {

void Parser::require_block_end() {
  if (peek().kind != Token::block_end) fail_expected("'%}'");
  next();
}

void Parser::end_statement(std::string_view name) {
  if (!take_name(name)) fail_expected(fmt::format("'{}'", name));
}

// Up to a {% with one of the names `ends`, which is the next word then.
Block Parser::block(std::initializer_list<std::string_view> ends) {
  const Deeper deeper(*this);
  Block out;
  for (;;) {
    const Token& t = peek();
    if (t.kind == Token::end) {
      if (ends.size() > 0) fail_expected(fmt::format("'{{% {} %}}'", fmt::join(ends, "' or '")));
      return out;
    }
    next();
    Statement s;
    s.place = t.place;
    if (t.kind == Token::text) {
      s.text_ = t.value;
    } else if (t.kind == Token::print_begin) {
      s.kind = Statement::print;
      s.expression = expressions();
      if (peek().kind != Token::print_end) fail_expected("'}}'");
      next();
    } else {
      if (peek().kind == Token::name && std::find(ends.begin(), ends.end(), peek().value) != ends.end()) return out;
      s = statement();
      s.place = t.place;
      require_block_end();
    }
    out.push_back(std::move(s));
  }
}

Statement Parser::statement() {
  const Token& t = peek();
  const std::string name = require_name("a statement, such as if, for or set");
  if (name == "if") return choose();
  if (name == "for") return loop();
  if (name == "set") return set();
  if (name == "macro") return macro();
  if (name == "call") return call();
  if (name == "with") return with();
  if (name == "block") return part();
  Statement s;
  if (name == "break" || name == "continue") {
    if (loops_ == 0) fail_at(name_, t.place, fmt::format("'{}' stands outside of a loop", name));
    s.kind = name == "break" ? Statement::jump_break : Statement::jump_continue;
    return s;
  }
  for (const char* other : {"include", "extends", "import", "from"})
    if (name == other)
      fail_at(name_, t.place, fmt::format("'{}' needs another template; a chat template is one", name));
  std::string_view end = "endgeneration";
  if (name == "generation") {
    marks_generation_ = true;
    s.kind = Statement::generation;
  } else if (name == "filter") {
    s.kind = Statement::filter;
    --at_;  // as if a | stood there
    s.expression = filter_chain();
    end = "endfilter";
  } else if (name == "autoescape") {
    s.kind = Statement::with;  // no text becomes HTML, and names that are set inside stay there
    if (!take_name("false") && !take_name("False"))
      fail_expected("'false' after autoescape, as chat templates write no HTML");
    end = "endautoescape";
  } else {
    fail_at(name_, t.place,
            fmt::format("'{}' is not known here; expected if, for, set, macro, call, filter, with, block, generation, "
                        "autoescape, break or continue",
                        shown(t).substr(1, shown(t).size() - 2)));
  }
  require_block_end();
  const int outside = std::exchange(loops_, 0);  // what is captured cannot leave a loop
  s.blocks.push_back(block({end}));
  loops_ = outside;
  next();
  return s;
}

Statement Parser::choose() {
  Statement s;
  s.kind = Statement::choose;
  do {
    s.conditions.push_back(expressions());
    require_block_end();
    s.blocks.push_back(block({"elif", "else", "endif"}));
  } while (take_name("elif"));
  if (take_name("else")) {
    require_block_end();
    s.otherwise = block({"endif"});
  }
  end_statement("endif");
  return s;
}

Statement Parser::loop() {
  Statement s;
  s.kind = Statement::loop;
  s.target = target(false);
  if (!take_name("in")) fail_expected("'in'");
  s.expression = expressions(false);
  if (take_name("if")) s.condition = expression();
  s.recursive = take_name("recursive");
  require_block_end();
  ++loops_;
  s.blocks.push_back(block({"else", "endfor"}));
  --loops_;
  if (take_name("else")) {
    require_block_end();
    s.otherwise = block({"endfor"});
  }
  end_statement("endfor");
  return s;
}

ExpressionPtr Parser::one_target(bool may_be_attribute) {
  const SourcePlace place = peek().place;
  if (take_symbol("(")) {
    ExpressionPtr inner = target(may_be_attribute);
    require_symbol(")");
    return inner;
  }
  const std::string name = require_name("a name");
  for (const char* word : {"true", "false", "none", "True", "False", "None"})
    if (name == word) fail_at(name_, place, fmt::format("'{}' cannot be set", name));
  std::vector<ExpressionPtr> kids;
  ExpressionPtr out = made(Expression::name, place, {}, name);
  if (!may_be_attribute || !take_symbol(".")) {
    count_name(name, true);
    return out;
  }
  kids.push_back(std::move(out));
  return made(Expression::attribute, place, std::move(kids), require_name("a name after '.'"));
}

ExpressionPtr Parser::target(bool may_be_attribute) {
  const Deeper deeper(*this);
  const SourcePlace place = peek().place;
  ExpressionPtr first = one_target(may_be_attribute);
  if (!is_symbol(",")) return first;
  std::vector<ExpressionPtr> all;
  all.push_back(std::move(first));
  while (take_symbol(",")) {
    if (is_name("in") || is_symbol("=") || is_symbol(")")) break;
    all.push_back(one_target(may_be_attribute));
  }
  return made(Expression::tuple, place, std::move(all));
}

// Filters without an operand: on what a block prints.
ExpressionPtr Parser::filter_chain() {
  ExpressionPtr chain = filter(nullptr);
  while (is_symbol("|")) chain = filter(std::move(chain));
  return chain;
}

Statement Parser::set() {
  Statement s;
  s.target = target(true);
  if (take_symbol("=")) {
    s.kind = Statement::set;
    s.expression = expressions();
    return s;
  }
  s.kind = Statement::set_block;
  if (is_symbol("|")) s.expression = filter_chain();
  if (peek().kind != Token::block_end) fail_expected("'=' or '%}'");
  next();
  const int outside = std::exchange(loops_, 0);
  s.blocks.push_back(block({"endset"}));
  loops_ = outside;
  next();
  return s;
}

std::vector<Parameter> Parser::parameters() {
  std::vector<Parameter> out;
  require_symbol("(");
  while (!is_symbol(")")) {
    const SourcePlace place = peek().place;
    Parameter p{require_name("the name of a parameter"), nullptr};
    if (std::ranges::any_of(out, [&](const Parameter& other) { return other.name == p.name; }))
      fail_at(name_, place, fmt::format("two parameters are named '{}'", p.name));
    count_name(p.name, true);
    if (take_symbol("="))
      p.otherwise = expression();
    else if (p.name == "caller")
      fail_expected("'=' and a default of 'caller'");
    else if (!out.empty() && out.back().otherwise)
      fail_expected("'=' and a default, as the parameter before has one");
    out.push_back(std::move(p));
    if (!take_symbol(",")) break;
  }
  require_symbol(")");
  return out;
}

// As Jinja finds it: a name that is read where no statement before has set it.
void Parser::count_name(const std::string& name, bool is_set) {
  for (bool Extras::*extra : {&Extras::varargs, &Extras::kwargs, &Extras::caller}) {
    if (name != (extra == &Extras::varargs ? "varargs" : extra == &Extras::kwargs ? "kwargs" : "caller")) continue;
    for (Body& b : bodies_) {
      if (is_set)
        b.set.*extra = true;
      else if (!(b.set.*extra))
        b.used.*extra = true;
    }
  }
}

void Parser::body(Statement& macro, std::string_view end) {
  require_block_end();
  const int outside = std::exchange(loops_, 0);
  bodies_.emplace_back();
  macro.blocks.push_back(block({end}));
  macro.extras = bodies_.back().used;
  bodies_.pop_back();
  loops_ = outside;
  next();
  for (const Parameter& p : macro.parameters) {
    if (p.name == "varargs") macro.extras.varargs = false;
    if (p.name == "kwargs") macro.extras.kwargs = false;
    if (p.name == "caller") macro.extras.caller = true;
  }
}

Statement Parser::macro() {
  Statement s;
  s.kind = Statement::macro;
  s.text_ = require_name("the name of a macro");
  s.parameters = parameters();
  body(s, "endmacro");
  return s;
}

Statement Parser::call() {
  Statement s;
  s.kind = Statement::call;
  if (is_symbol("(")) s.parameters = parameters();
  s.expression = expression();
  if (s.expression->kind != Expression::call) fail_at(name_, s.expression->place, "expected the call of a macro");
  body(s, "endcall");
  return s;
}

Statement Parser::with() {
  Statement s;
  s.kind = Statement::with;
  while (peek().kind != Token::block_end) {
    s.conditions.push_back(target(false));
    require_symbol("=");
    s.conditions.push_back(expression());
    if (!take_symbol(",")) break;
  }
  require_block_end();
  s.blocks.push_back(block({"endwith"}));
  next();
  return s;
}

Statement Parser::part() {
  Statement s;
  s.kind = Statement::part;
  const SourcePlace place = peek().place;
  s.text_ = require_name("the name of the block");
  if (!parts_.insert(s.text_).second) fail_at(name_, place, fmt::format("there are two blocks '{}'", s.text_));
  s.recursive = take_name("scoped");
  if (is_name("required"))
    fail_at(name_, peek().place, "a required block needs another template; a chat template is one");
  require_block_end();
  const int outside = std::exchange(loops_, 0);
  s.blocks.push_back(block({"endblock"}));
  loops_ = outside;
  next();
  take_name(s.text_);  // {% endblock name %}
  return s;
}

Block Parser::run() { return block({}); }

namespace {
void find_parts(const Block& block, std::map<std::string, const Statement*>& out) {
  for (const Statement& s : block) {
    if (s.kind == Statement::part) out[s.text_] = &s;
    for (const Block& inner : s.blocks) find_parts(inner, out);
    find_parts(s.otherwise, out);
  }
}
}  // namespace

std::shared_ptr<const Program> parse(const std::string& source, const std::string& name) {
  constexpr size_t kLongest = size_t(4) << 20;
  if (source.size() > kLongest)
    toy::fail("{}: it has {} bytes; templates have at most {}", name, source.size(), kLongest);
  auto program = std::make_shared<Program>();
  program->name = name;
  program->source = source;
  Parser parser(tokenize(source, name), program->name);
  program->block = parser.run();
  find_parts(program->block, program->parts);
  program->marks_generation = parser.marks_generation();
  program->named = std::move(parser.named());
  return program;
}

}  // namespace toy::chat
