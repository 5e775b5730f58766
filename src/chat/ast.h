// A template as a tree.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "chat/value.h"

namespace toy::chat {

/// Where something stands in the template, from 1; columns count characters.
struct SourcePlace {
  int line = 1, column = 1;
};

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

/// An argument of a call: f(kids), f(name=...), f(*list), f(**dict).
struct ArgumentKind {
  enum Kind { positional, named, list, dict } kind = positional;
  std::string name;
};

/// An expression of any kind; `kids` are what it is made of, in the order of the template.
struct Expression {
  enum Kind {
    constant,     ///< value
    name,         ///< text
    list,         ///< kids
    tuple,        ///< kids
    dict,         ///< kids: key, value, key, value, ...
    attribute,    ///< kids[0].text
    item,         ///< kids[0][kids[1]]
    slice,        ///< kids[0][kids[1]:kids[2]:kids[3]], each of the three may be missing
    unary,        ///< text kids[0]: -, + or not
    binary,       ///< kids[0] text kids[1]: arithmetic, ~, and, or
    compare,      ///< kids[0] operators[0] kids[1] operators[1] kids[2] ...
    conditional,  ///< kids[0] if kids[1] else kids[2], which may be missing
    call,         ///< kids[0](arguments)
    filter,       ///< kids[0] | text(arguments)
    test,         ///< kids[0] is text(arguments)
  };
  Kind kind = constant;
  SourcePlace place;
  std::string text;
  Value value;
  std::vector<ExpressionPtr> kids;
  std::vector<ArgumentKind> arguments;  ///< of the last kids of call, filter and test
  std::vector<std::string> operators;
  int depth = 1;
};

struct Statement;
using Block = std::vector<Statement>;

/// A parameter of a macro.
struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  ///< nullptr: undefined
};

/// Which arguments beyond its parameters the text of a macro asks for.
struct Extras {
  bool varargs = false, kwargs = false, caller = false;
};

/// A statement of any kind.
struct Statement {
  enum Kind {
    text,        ///< text as it is
    print,       ///< {{ expression }}
    choose,      ///< if: a condition and a block each, then `otherwise`
    loop,        ///< for target in expression if condition: block, `otherwise`
    set,         ///< set target = expression
    set_block,   ///< set target, its filter as `expression` or none: block
    macro,       ///< macro text(parameters): block
    call,        ///< call(parameters) expression: block
    filter,      ///< filter: `expression` is a chain of filters on what the block prints
    with,        ///< with conditions[i] = expressions: block
    generation,  ///< block
    part,        ///< block text: block, within the scope around it where it is scoped (`recursive`)
    jump_break,
    jump_continue,
  };
  Kind kind = text;
  SourcePlace place;
  std::string text_;
  ExpressionPtr target, expression, condition;
  std::vector<ExpressionPtr> conditions;  ///< of choose; targets of with, each before its value
  std::vector<Block> blocks;              ///< of choose one for each condition, else one
  Block otherwise;
  std::vector<Parameter> parameters;
  Extras extras;
  bool recursive = false;
};

/// What a template names.
struct Named {
  std::set<std::string> variables;  ///< that it reads
  std::set<std::string> fields;     ///< attributes, and its texts, which may name items
};

/// A template that was read.
struct Program {
  std::string name, source;
  Block block;
  Named named;
  std::map<std::string, const Statement*> parts;  ///< by name, wherever they stand
  bool marks_generation = false;
};

/// Throws Error{bad_input} naming the place and what was expected there.
std::shared_ptr<const Program> parse(const std::string& source, const std::string& name);

}  // namespace toy::chat
