#include "dialog/constraints.h"

#include <fmt/format.h>

#include <algorithm>

#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

// Everything that a constraint follows from.
std::string key_of(const AnswerRules& r, ThoughtState state) {
  ordered_json tools = ordered_json::array();
  if (calls_tools(r))
    for (const Tool& t : r.tools) tools.push_back({t.name, t.parameters, t.strict});
  return json_text(ordered_json{tools, int(r.tool_choice.kind), r.tool_choice.name, r.parallel_tool_calls, r.chat,
                                int(r.form.kind), r.form.schema, r.form.grammar, int(state)});
}

// The tools that may be called. What a schema says that cannot be expressed is left out, unless it is strict. All of
// them together may be too large.
std::vector<Tool> callable(const AnswerRules& r) {
  std::vector<Tool> tools;
  GrammarBudget budget;
  for (const Tool& t : r.tools) {
    if (!r.tool_choice.name.empty() && t.name != r.tool_choice.name) continue;
    tools.push_back(t);
    try {
      json_schema_grammar(t.parameters, fmt::format("'{}' of {}", t.field, t.name), &budget);
    } catch (const Error& e) {
      if (t.strict || budget.exceeded()) throw FieldError(e.what(), t.field);
      tools.back().parameters = {{"type", "object"}};
    }
  }
  return tools;
}

// The rule for an answer in a form that is JSON.
SchemaRule answer(const TextForm& form) {
  const ordered_json any_object{{"type", "object"}};
  const ordered_json& schema = form.kind == TextForm::json_object ? any_object : form.schema;
  return {"answer", std::make_shared<ordered_json>(schema), form.field};
}

// The expression of a complete answer in `form` whose content is the rule "answer".
std::string whole_answer(const CallForm* form, const ThoughtMarks& marks) {
  const std::string inside = form ? form->answer("answer") : "answer";
  const auto optional = [](std::string_view mark) { return mark.empty() ? "" : fmt::format("\"{}\"?", mark); };
  return fmt::format("{} {} {}", optional(marks.answer_open), inside, optional(marks.answer_close));
}

// Rules for a thought in front of the rule root.
std::string thought_rules(const ThoughtMarks& marks, ThoughtState state) {
  return text_until(marks.close, "toy", " [ \\n]{0,8}") +
         (state == ThoughtState::begun ? "toy-root ::= toy-0 root\n"
                                       : fmt::format("toy-root ::= ({} toy-0)? root\n", gbnf_literal(marks.open)));
}

// Control tokens among these texts; those that end a text are none.
void add_marks(const Tokenizer& tokenizer, const std::vector<std::string_view>& texts, std::vector<int32_t>& marks) {
  const std::vector<int32_t> ends = tokenizer.end_of_generation();
  for (const std::string_view mark : texts) {
    const std::vector<int32_t> ids = tokenizer.encode(mark, {.parse_special = true});
    if (ids.size() == 1 && tokenizer.token_bytes(ids[0]).empty() && std::ranges::find(ends, ids[0]) == ends.end())
      marks.push_back(ids[0]);
  }
}

size_t bytes_of(const std::string& text) { return sizeof text + (text.size() > 15 ? text.size() + 16 : 0); }

// Memory that a tree takes, about.
size_t bytes_of(const ordered_json& j) {
  constexpr size_t kOfAllocation = 40;
  size_t bytes = sizeof j;
  if (j.is_string()) return bytes + 16 + bytes_of(j.get_ref<const std::string&>());
  if (j.is_structured()) bytes += kOfAllocation;
  if (j.is_array())
    for (const ordered_json& value : j) bytes += bytes_of(value);
  if (j.is_object())
    for (const auto& [key, value] : j.items()) bytes += bytes_of(key) + bytes_of(value);
  return bytes;
}

[[noreturn]] void refuse_for_now() {
  throw ConstraintsBusy(
      "the schemas and grammars of other requests take all the memory that they may; try again later");
}

}  // namespace

bool calls_tools(const AnswerRules& r) { return !r.tools.empty() && r.tool_choice.kind != ToolChoice::none; }

Constraints::Constraints(const Tokenizer& tokenizer, const CallForm* form, const ThoughtMarks& thoughts,
                         const ConstraintLimits& limits)
    : tokenizer_(tokenizer), form_(form), thoughts_(thoughts), limits_(limits) {
  add_marks(tokenizer, thoughts.tokens, thought_marks_);
  marks_ = thought_marks_;
  if (form) add_marks(tokenizer, form->markers(), marks_);
}

const TokenTrie& Constraints::tokens(bool with_marks) {
  const std::scoped_lock lock(mutex_);
  std::optional<TokenTrie>& trie = with_marks && !marks_.empty() ? marked_ : plain_;
  if (!trie)
    trie.emplace(tokenizer_, &trie == &marked_ ? std::span<const int32_t>(marks_) : std::span<const int32_t>());
  return *trie;
}

Bound Constraints::of(const AnswerRules& r, ThoughtState state) {
  if (!calls_tools(r) && r.form.kind == TextForm::any) return {};
  if (calls_tools(r) && form_ == nullptr)
    throw FieldError(
        "the model's chat template knows no tools, or writes calls in a form that this server does not read; "
        "remove 'tools'",
        "tools", "unsupported_parameter");
  const std::string key = key_of(r, state);
  if (key.size() > limits_.source)
    throw FieldError(fmt::format("a text's form has {} bytes of schemas, grammars and tools; use at most {}",
                                 key.size(), limits_.source),
                     calls_tools(r) ? "tools" : r.form.field);
  Known known = find(key);
  if (!known) {
    {
      const std::scoped_lock lock(mutex_);
      if (!make_room(1)) refuse_for_now();
    }
    auto made = std::make_shared<Shared>();
    made->constraint = make(r, state);
    made->bytes = bytes_of(key);
    if (calls_tools(r))
      for (const Tool& t : r.tools) {
        made->tools.push_back(
            {.name = t.name, .parameters = t.parameters, .strict = t.strict, .json = {}, .field = {}});
        made->bytes += sizeof t + bytes_of(t.name) + bytes_of(t.parameters);
      }
    known = keep(key, std::move(made));
  }
  return {{known, known->constraint.get()},
          calls_tools(r) ? std::shared_ptr<const std::vector<Tool>>(known, &known->tools) : nullptr};
}

Constraints::Known Constraints::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto at = known_.find(key);
  Known known = at == known_.end() ? nullptr : at->second.lock();
  if (!known) return nullptr;
  kept_.remove(known);
  kept_.push_front(known);
  return known;
}

// Forgets those that nobody uses, the latest last, until there is room for so many bytes more.
bool Constraints::make_room(size_t bytes) {
  while (true) {
    size_t all = bytes;
    std::erase_if(known_, [&](const auto& entry) {
      const Known known = entry.second.lock();
      if (known) all += known->bytes + toy::bytes_of(*known->constraint);
      return !known;
    });
    if (all <= limits_.bytes && kept_.size() <= limits_.kept) return true;
    if (kept_.empty()) return false;
    kept_.pop_back();
  }
}

Constraints::Known Constraints::keep(const std::string& key, Known made) {
  const size_t bytes = made->bytes + toy::bytes_of(*made->constraint);
  const std::scoped_lock lock(mutex_);
  std::weak_ptr<const Shared>& known = known_[key];
  if (Known other = known.lock()) return other;  // which another thread has made meanwhile
  if (!make_room(bytes)) refuse_for_now();
  known_[key] = made;
  kept_.push_front(made);
  return made;
}

std::shared_ptr<const TokenConstraint> Constraints::make(const AnswerRules& r, ThoughtState state) {
  const bool calls = calls_tools(r);
  try {
    return calls ? make_calls(r, state) : make_form(r, state);
  } catch (const FieldError&) {
    throw;
  } catch (const Error& e) {
    throw FieldError(e.what(), calls ? "tools" : r.form.field);
  }
}

// Of a grammar whose rule root is what follows a thought.
std::shared_ptr<const TokenConstraint> Constraints::after_thought(const std::string& gbnf, const std::string& name,
                                                                  const std::vector<SchemaRule>& rules,
                                                                  ThoughtState state) {
  if (state == ThoughtState::ended) return parse_gbnf(gbnf, name, rules).constraint(tokens(true));
  return parse_gbnf(gbnf + "\n" + thought_rules(thoughts_, state), name, rules, "toy-root").constraint(tokens(true));
}

std::shared_ptr<const TokenConstraint> Constraints::make_form(const AnswerRules& r, ThoughtState state) {
  const TextForm& form = r.form;
  const bool addressed = form_ && form_->addressed();
  const std::string whole =
      whole_answer(addressed ? form_ : nullptr, thoughts_) + "\n" + (addressed ? form_->common_rules() : "");
  if (state != ThoughtState::ended) {
    if (form.kind == TextForm::gbnf) return after_thought(form.grammar, form.field, {}, state);
    return after_thought("root ::= " + whole, form.field, {answer(form)}, state);
  }
  const bool is_wrapped = addressed || !thoughts_.answer_open.empty();
  if (r.chat && is_wrapped && form.kind != TextForm::gbnf)
    return parse_gbnf("root ::= " + whole, form.field, {answer(form)}).constraint(tokens(true));
  const Grammar g = form.kind == TextForm::json_object ? json_object_grammar()
                    : form.kind == TextForm::gbnf      ? parse_gbnf(form.grammar, form.field)
                                                       : json_schema_grammar(form.schema, form.field);
  return g.constraint(tokens(false));
}

// Nothing in a thought is a call, unless a call ends it.
Untriggered Constraints::untriggered(ThoughtState state) const {
  if (state == ThoughtState::ended || !thoughts_.call.empty()) return {};
  return {std::string(thoughts_.open), std::string(thoughts_.close), state == ThoughtState::begun};
}

// Calls that are forced, or an answer in a form or calls, or any text in which calls are right.
std::shared_ptr<const TokenConstraint> Constraints::make_calls(const AnswerRules& r, ThoughtState state) {
  if (r.form.kind == TextForm::gbnf)
    throw FieldError("'grammar' with 'tools' is not supported; use one of them", "grammar");
  std::vector<SchemaRule> rules;
  const bool forced = r.tool_choice.kind == ToolChoice::required,
             parallel = r.parallel_tool_calls && r.tool_choice.name.empty() && form_->parallel();
  std::string text = form_->gbnf(callable(r), parallel, rules);
  if (forced) return after_thought("root ::= calls\n" + text, "tools", rules, state);
  if (r.form.kind == TextForm::any)
    return parse_gbnf("root ::= unit\n" + text, "tools", rules)
        .constraint(tokens(true), form_->triggers(r.tools), !parallel, untriggered(state));
  const SchemaRule one = answer(r.form);
  try {
    json_schema_grammar(*one.schema, r.form.field);
  } catch (const Error& e) {
    throw FieldError(e.what(), r.form.field);
  }
  rules.push_back(one);
  return after_thought("root ::= " + whole_answer(form_, thoughts_) + " | calls\n" + text, "tools", rules, state);
}

}  // namespace toy::dialog
