// JSON Schema to a grammar. The keywords are those of draft 2020-12, and what older drafts had in their place.
#include "grammar/automaton.h"
#include "grammar/rule_maker.h"
#include "grammar/schema_draft.h"
#include "grammar/schema_rules.h"
#include "toy/grammar/grammar.h"

namespace toy {

std::vector<grammar::Rule> grammar::schema_rules(const nlohmann::ordered_json& schema, const std::string& name,
                                                 GrammarBudget& budget, const std::optional<std::string>& property) {
  SchemaDocument document(schema, name, budget);
  const int32_t node = property ? child(document, document.root(), "properties", &*property)
                       : schema.is_boolean()
                           ? (schema.get<bool>() ? SchemaDocument::kAnything : SchemaDocument::kNothing)
                           : document.root();
  return RuleMaker(document).make(both({holds(node)}, {}));
}

Grammar json_schema_grammar(const nlohmann::ordered_json& schema, const std::string& name, GrammarBudget* budget) {
  GrammarBudget own;
  GrammarBudget& b = budget ? *budget : own;
  const std::vector<grammar::Rule> rules = grammar::schema_rules(schema, name, b);
  return Grammar(std::make_shared<grammar::Automaton>(grammar::compile(rules, name, b)));
}

Grammar json_object_grammar() {
  const nlohmann::ordered_json any{{"type", "object"}};
  return json_schema_grammar(any, "JSON");
}

}  // namespace toy
