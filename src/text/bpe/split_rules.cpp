#include "text/bpe/split_rules.h"

#include <algorithm>
#include <array>

namespace toy {
namespace {

using Rule = SplitRule;

constexpr ClassSet kBlankSet = any_of(kBlank), kBreaks = any_of(kBreak), kBreaksAndSlash = any_of(kBreak | kSlash);
constexpr ClassSet kNoBreakOrWord = none_of(kBreak | kLetter | kNumber);  // [^\r\n\p{L}\p{N}]
constexpr ClassSet kOther = none_of(kSpace | kLetter | kNumber);          // [^\s\p{L}\p{N}]
constexpr ClassSet kUpper = any_of(kLu | kLt | kLm | kLo | kMark);        // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
constexpr ClassSet kLower = any_of(kLl | kLm | kLo | kMark);              // [\p{Ll}\p{Lm}\p{Lo}\p{M}]

constexpr Rule runs_of(ClassSet set) { return {.kind = Rule::run, .set = set}; }
constexpr Rule runs_of(uint64_t classes) { return runs_of(any_of(classes)); }
constexpr Rule cased(bool contraction) {
  return {.kind = Rule::cased_word,
          .set = kUpper,
          .before = kNoBreakOrWord,
          .lower = kLower,
          .any_case = true,
          .with_contraction = contraction};
}
constexpr Rule kContraction = {.kind = Rule::contraction},
               kAnyContraction = {.kind = Rule::contraction, .any_case = true};
constexpr Rule kToBreak = {.kind = Rule::space_to_break}, kInnerSpace = {.kind = Rule::inner_space};
constexpr Rule kSpaces = runs_of(kSpace);                                 // \s+
constexpr Rule kWord = runs_of(kLetter).maybe_after(kNoBreakOrWord);      // [^\r\n\p{L}\p{N}]?\p{L}+
constexpr Rule kOthers = runs_of(kOther).maybe_after(kBlankSet);          //  ?[^\s\p{L}\p{N}]+
constexpr Rule kOtherToBreak = kOthers.then_any(kBreaks);                 //  ?[^\s\p{L}\p{N}]+[\r\n]*
constexpr Rule kOtherToBreakOrSlash = kOthers.then_any(kBreaksAndSlash);  //  ?[^\s\p{L}\p{N}]+[\r\n/]*
constexpr Rule kOneNumber = runs_of(kNumber).times(1, 1), kThreeNumbers = runs_of(kNumber).times(1, 3);

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
constexpr Rule kGpt2[] = {kContraction,
                          runs_of(kLetter).maybe_after(kBlankSet),
                          runs_of(kNumber).maybe_after(kBlankSet),
                          kOthers,
                          kInnerSpace,
                          kSpaces};
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
constexpr Rule kLlama3[] = {kAnyContraction, kWord, kThreeNumbers, kOtherToBreak, kToBreak, kInnerSpace, kSpaces};
// ...|\p{N}|...
constexpr Rule kQwen2[] = {kAnyContraction, kWord, kOneNumber, kOtherToBreak, kToBreak, kInnerSpace, kSpaces};
// ...|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|...
constexpr Rule kQwen35[] = {
    kAnyContraction, runs_of(kLetter | kMark).maybe_after(kNoBreakOrWord),
    kOneNumber,      runs_of(none_of(kSpace | kLetter | kMark | kNumber)).maybe_after(kBlankSet).then_any(kBreaks),
    kToBreak,        kInnerSpace,
    kSpaces};
// Without contractions.
constexpr Rule kUfakzeka[] = {kWord, kOneNumber, kOtherToBreak, kToBreak, kInnerSpace, kSpaces};
// ...|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|...
constexpr Rule kSeedCoder[] = {kAnyContraction, kWord, kOneNumber, kOthers, kToBreak, kInnerSpace, kSpaces};
// ...|\p{N}+|...
constexpr Rule kMiniCpm5[] = {kAnyContraction, kWord, runs_of(kNumber), kOtherToBreak, kToBreak, kInnerSpace, kSpaces};
// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
// \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+      (llama.cpp has an approximation of it)
constexpr Rule kGpt4o[] = {cased(true), kThreeNumbers, kOtherToBreakOrSlash, kToBreak, kInnerSpace, kSpaces};
// The same without contractions, and \p{N}.
constexpr Rule kTekken[] = {cased(false), kOneNumber, kOtherToBreakOrSlash, kToBreak, kInnerSpace, kSpaces};
// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
constexpr Rule kAsciiWord = runs_of(kAsciiLetter).always_after(any_of(kAsciiPunctuation));
constexpr Rule kMarkedWord = runs_of(kLetter | kMark).maybe_after(none_of(kBreak | kLetter | kPunctuation | kSymbol));
constexpr Rule kSigns = runs_of(kPunctuation | kSymbol).maybe_after(kBlankSet);
constexpr Rule kDeepSeek3[] = {kAsciiWord, kMarkedWord, kSigns.then_any(kBreaks), kToBreak, kInnerSpace, kSpaces};
// ...| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+
constexpr Rule kSpark[] = {kAsciiWord, kMarkedWord, kSigns, runs_of(kBreaks).times(1, 1), kInnerSpace, kSpaces};

// [\p{Han}]+|...[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}...&&[^\p{Han}]]+(?i:'s|...)?|...|\p{N}{1,3}|
//  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+      (llama.cpp has an approximation of it)
constexpr Rule kCasedNoHan = cased(true).without(kHan);
constexpr Rule kKimi2[] = {runs_of(kHan), kCasedNoHan, kThreeNumbers, kOtherToBreak, kToBreak, kInnerSpace, kSpaces};
// GPT-4o's with \p{N}
constexpr Rule kYoutu[] = {cased(true), kOneNumber, kOtherToBreakOrSlash, kToBreak, kInnerSpace, kSpaces};
// (?i:'s|...)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|...
constexpr Rule kSpacedWords = {.kind = Rule::spaced_words, .before = kNoBreakOrWord},
               kOtherToOne = kOthers.then_maybe(kBreaksAndSlash);
constexpr Rule kExaoneMoe[] = {kAnyContraction, kSpacedWords, kOneNumber, kOtherToOne, kToBreak, kInnerSpace, kSpaces};
// Llama 3's, with spaces in powers of two
constexpr Rule kSpacesByHalf = {.kind = Rule::spaces_by_half};
constexpr Rule kJais2[] = {kAnyContraction, kWord, kThreeNumbers, kOtherToBreak, kToBreak, kSpacesByHalf};
// Llama 3's, with [^\r\n\p{L}\p{N}]?(?:\p{L}|\p{M}|\u200C|\u200D)+
constexpr Rule kJoinedWord = runs_of(kLetter | kMark | kJoiner).maybe_after(kNoBreakOrWord);
constexpr Rule kK2Horizon[] = {kAnyContraction, kJoinedWord, kThreeNumbers, kOtherToBreak,
                               kToBreak,        kInnerSpace, kSpaces};

constexpr Rule kNumbers[] = {runs_of(kNumber)}, kNumberEach[] = {kOneNumber}, kNumberTriples[] = {kThreeNumbers};
constexpr Rule kDigitTriples[] = {runs_of(kAsciiDigit).times(3, 3)};  // [0-9][0-9][0-9]
constexpr Rule kBreakEach[] = {runs_of(kBreaks).times(1, 1)};         // [\r\n]
constexpr Rule kLines[] = {runs_of(none_of(kLf)), runs_of(kLf)};      // [^\n]+|[\n]+
constexpr Rule kHanKanaRuns[] = {runs_of(kHanKana)};
constexpr Rule kPunctuationRuns[] = {runs_of(kPunctuation | kMathSign)};         // [\p{P}\$\+<=>\^~\|]+
constexpr Rule kFalconRuns[] = {runs_of(kPunctuation | kMathSign | kBacktick)};  // [\p{P}\$\+<=>\^~\|`]+
constexpr Rule kBloomRuns[] = {
    runs_of(none_of(kSpace | kBloomStop)).maybe_after(kBlankSet)};  //  ?[^(\s|.,!?…。，、।۔،)]+
constexpr Rule kDeepSeekWords[] = {runs_of(kDeepSeekLetter).maybe_after(any_of(kSpace))};       // \s?[A-Za-zµÀ-...]+
constexpr Rule kDeepSeekSigns[] = {runs_of(kDeepSeekPunctuation).maybe_after(any_of(kSpace))};  // \s?[!-/:-~...]+
constexpr Rule kDeepSeekRuns[] = {runs_of(kDeepSeekCjk)};
constexpr Rule kFinalSpace[] = {{.kind = Rule::final_space}};                               // \s+$
constexpr Rule kSpacedLetters[] = {runs_of(kLetter).maybe_after(any_of(kSpace))};           // \s?\p{L}+
constexpr Rule kSpacedPunctuation[] = {runs_of(kPunctuation).maybe_after(any_of(kSpace))};  // \s?\p{P}+

constexpr Rule kTriple = {.kind = Rule::triple, .set = any_of(kNumber)};  // \p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))
constexpr Rule kTripleOfWord = {                                          // \d{1,3}(?=(?:\d{3})*\b)
    .kind = Rule::triple,
    .set = any_of(kDecimal),
    .not_before = any_of(kWordCharacter)};
constexpr Rule kToTriple = {.kind = Rule::to_triple, .set = any_of(kDecimal)};  // (?=(\d{3})+(?!\d))
constexpr Rule kTriples[] = {kTriple}, kTriplesOfWords[] = {kTripleOfWord}, kToTriples[] = {kToTriple};
constexpr Rule kAfmoeRuns[] = {runs_of(kAfmoeScript)};
constexpr Rule kYoutuRuns[] = {runs_of(kYoutuHangul), runs_of(kYoutuPunctuation), runs_of(kBopomofo),
                               runs_of(kHanKana)};

constexpr SplitPass kGpt2Passes[] = {kGpt2};
constexpr SplitPass kLlama3Passes[] = {kLlama3};
constexpr SplitPass kQwen2Passes[] = {kQwen2};
constexpr SplitPass kQwen35Passes[] = {kQwen35};
constexpr SplitPass kUfakzekaPasses[] = {kUfakzeka};
constexpr SplitPass kSeedCoderPasses[] = {kSeedCoder};
constexpr SplitPass kMiniCpm5Passes[] = {kNumberTriples, kMiniCpm5};
constexpr SplitPass kGpt4oPasses[] = {kGpt4o};
constexpr SplitPass kTekkenPasses[] = {kTekken};
constexpr SplitPass kDeepSeek3Passes[] = {kNumberTriples, kHanKanaRuns, kDeepSeek3};
constexpr SplitPass kSparkPasses[] = {kNumberTriples, kHanKanaRuns, kSpark, kNumberEach};
constexpr SplitPass kStarcoderPasses[] = {kNumberEach, kGpt2};
constexpr SplitPass kFalconPasses[] = {kFalconRuns, kGpt2, kDigitTriples};
constexpr SplitPass kDefaultPasses[] = {kPunctuationRuns, kGpt2, kNumbers, kDigitTriples};
constexpr SplitPass kBloomPasses[] = {kBloomRuns};
constexpr SplitPass kVikingPasses[] = {kBloomRuns, kNumberEach};
constexpr SplitPass kLagunaPasses[] = {kLines, kQwen2};
constexpr SplitPass kKimi2Passes[] = {kKimi2};
constexpr SplitPass kSuperBpePasses[] = {kNumbers, kToTriples};
constexpr SplitPass kYoutuPasses[] = {kYoutuRuns, kYoutu};
constexpr SplitPass kAfmoePasses[] = {kTriples, kAfmoeRuns, kDeepSeek3};
constexpr SplitPass kExaoneMoePasses[] = {kExaoneMoe};
constexpr SplitPass kTinyAyaPasses[] = {kTriplesOfWords, kGpt4o};
constexpr SplitPass kJais2Passes[] = {kJais2};
constexpr SplitPass kK2HorizonPasses[] = {kK2Horizon};
constexpr SplitPass kDeepSeekLlmPasses[] = {kBreakEach,  kDeepSeekWords, kDeepSeekSigns,
                                            kFinalSpace, kDeepSeekRuns,  kNumbers};
constexpr SplitPass kDeepSeekCoderPasses[] = {kBreakEach, kSpacedLetters, kSpacedPunctuation, kDeepSeekRuns,
                                              kNumberEach};

// Names and what goes with them: llama_vocab::impl::load in llama-vocab.cpp.
constexpr PreTokenizer kPreTokenizers[] = {
    {"default", kDefaultPasses},
    {"gpt-2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe gigachat a.x-4.0 mellum "
     "modern-bert exaone4 mpt olmo jais trillion granite-docling",
     kGpt2Passes},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", kLlama3Passes,
     PreTokenizer::kIgnoreMerges | PreTokenizer::kAddsBos},
    {"dbrx smaug-bpe chatglm-bpe", kLlama3Passes},
    {"glm4 glm5", kLlama3Passes, PreTokenizer::kIgnoreMerges},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 bailingmoe bailingmoe2 llada-moe",
     kQwen2Passes},
    {"qwen35", kQwen35Passes},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", kStarcoderPasses},
    {"falcon", kFalconPasses},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", kGpt4oPasses},
    {"granite-embed-multi-97m", kGpt4oPasses, PreTokenizer::kIgnoreMerges},
    {"tekken", kTekkenPasses, PreTokenizer::kIgnoreMerges | PreTokenizer::kAddsBos},
    {"deepseek-llm", kDeepSeekLlmPasses},
    {"deepseek-coder", kDeepSeekCoderPasses},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", kDeepSeek3Passes},
    {"spark2_5", kSparkPasses},
    {"bloom gpt3-finnish poro-chat", kBloomPasses},
    {"viking", kVikingPasses},
    {"seed-coder", kSeedCoderPasses},
    {"ufakzeka", kUfakzekaPasses},
    {"minicpm5", kMiniCpm5Passes, PreTokenizer::kIgnoreMerges},
    {"laguna", kLagunaPasses},
    {"kimi-k2", kKimi2Passes},
    {"superbpe", kSuperBpePasses},
    {"youtu", kYoutuPasses, PreTokenizer::kIgnoreMerges},
    {"afmoe", kAfmoePasses},
    {"exaone-moe", kExaoneMoePasses},
    {"tiny_aya cohere2moe", kTinyAyaPasses},
    {"jais-2", kJais2Passes},
    {"k2-horizon", kK2HorizonPasses},
};

/// How rules are written as regular expressions: alternatives of a tokenizer.json. The first of a rule is the one that
/// we write. `X++` gives nothing back, as no rule does.
struct RuleText {
  std::string_view regex;
  Rule rule;
};
constexpr RuleText kRuleTexts[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d)", kContraction},
    {R"('(?:[sdmt]|ll|ve|re))", kContraction},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d))", kAnyContraction},
    {R"('(?i:[sdmt]|ll|ve|re))", kAnyContraction},
    {R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]))", kAnyContraction},
    {R"([^\r\n\p{L}\p{N}]?\p{L}+)", kWord},
    {R"([^\r\n\p{L}\p{N}]?+\p{L}+)", kWord},
    {R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+)", runs_of(kLetter | kMark).maybe_after(kNoBreakOrWord)},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)",
     cased(true)},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)",
     cased(false)},
    {R"([\p{Han}]+)", runs_of(kHan)},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)",
     kCasedNoHan},
    {R"([^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+)", kSpacedWords},
    {R"([^\r\n\p{L}\p{N}]?(?:\p{L}|\p{M}|\u200C|\u200D)+)", kJoinedWord},
    {R"( ?[^\s\p{L}\p{N}]+[\r\n/]?)", kOtherToOne},
    {R"(\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|)"
     R"(\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})",
     kSpacesByHalf},
    {R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))", kTriple},
    {R"(\d{1,3}(?=(?:\d{3})*\b))", kTripleOfWord},
    {R"((?=(\d{3})+(?!\d)))", kToTriple},
    {kAfmoeRegex, runs_of(kAfmoeScript)},
    {kYoutuHangulRegex, runs_of(kYoutuHangul)},
    {kYoutuPunctuationRegex, runs_of(kYoutuPunctuation)},
    {kBopomofoRegex, runs_of(kBopomofo)},
    {R"( ?\p{L}+)", runs_of(kLetter).maybe_after(kBlankSet)},
    {R"( ?\p{N}+)", runs_of(kNumber).maybe_after(kBlankSet)},
    {R"(\p{N}{1,3})", kThreeNumbers},
    {R"(\p{N}+)", runs_of(kNumber)},
    {R"(\p{N})", kOneNumber},
    {R"(\p{N}{1})", kOneNumber},
    {R"([0-9][0-9][0-9])", runs_of(kAsciiDigit).times(3, 3)},
    {R"( ?[^\s\p{L}\p{N}]+[\r\n/]*)", kOtherToBreakOrSlash},
    {R"( ?[^\s\p{L}\p{N}]+[\r\n]*)", kOtherToBreak},
    {R"( ?[^\s\p{L}\p{N}]++[\r\n]*)", kOtherToBreak},
    {R"( ?[^\s\p{L}\p{N}]+)", kOthers},
    {R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)",
     runs_of(none_of(kSpace | kLetter | kMark | kNumber)).maybe_after(kBlankSet).then_any(kBreaks)},
    {R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)", kAsciiWord},
    {R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)", kMarkedWord},
    {R"( ?[\p{P}\p{S}]+[\r\n]*)", kSigns.then_any(kBreaks)},
    {kHanKanaRegex, runs_of(kHanKana)},
    {R"(\s*[\r\n]+)", kToBreak},
    {R"(\s*[\r\n])", kToBreak},
    {R"(\s+(?!\S))", kInnerSpace},
    {R"(\s+$)", {.kind = Rule::final_space}},
    {R"(\s+)", kSpaces},
};

/// The alternatives of a regular expression; empty where one is not known.
std::vector<Rule> rules_of(std::string_view regex) {
  std::vector<Rule> rules;
  if (regex.starts_with('(') && regex.ends_with(')') && regex[1] != '?') regex = regex.substr(1, regex.size() - 2);
  while (!regex.empty()) {
    // Of two that fit, the longer one: texts of rules have bars, too.
    const RuleText* best = nullptr;
    for (const RuleText& text : kRuleTexts) {
      const std::string_view rest = regex.substr(std::min(text.regex.size(), regex.size()));
      if (regex.starts_with(text.regex) && (rest.empty() || rest[0] == '|') &&
          (!best || text.regex.size() > best->regex.size()))
        best = &text;
    }
    if (!best) return {};
    rules.push_back(best->rule);
    regex.remove_prefix(std::min(best->regex.size() + 1, regex.size()));
  }
  return rules;
}

/// Calls f(name) for each of the names of a row until it returns true.
template <class F>
bool any_name(std::string_view names, F f) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (f(names.substr(0, end))) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizer& row : kPreTokenizers) {
    if (any_name(row.names, [&](std::string_view n) { return n == name; })) return &row;
  }
  return nullptr;
}

const PreTokenizer* find_pre_tokenizer(std::span<const std::string> regexes, bool ignore_merges) {
  std::vector<std::vector<Rule>> passes;
  for (const std::string& regex : regexes) passes.push_back(rules_of(regex));
  const auto same = [](const SplitPass& a, const std::vector<Rule>& b) { return std::ranges::equal(a, b); };
  for (const PreTokenizer& row : kPreTokenizers) {
    const bool ignores = row.flags & PreTokenizer::kIgnoreMerges;
    if (ignores == ignore_merges && std::ranges::equal(row.passes, passes, same)) return &row;
  }
  return nullptr;
}

std::vector<std::string> regexes_of(const PreTokenizer& pre_tokenizer) {
  std::vector<std::string> regexes;
  for (const SplitPass& pass : pre_tokenizer.passes) {
    std::string& regex = regexes.emplace_back();
    for (const Rule& rule : pass) {
      const auto text = std::ranges::find(kRuleTexts, rule, &RuleText::rule);
      if (text == std::end(kRuleTexts)) return {};
      regex.append(regex.empty() ? "" : "|").append(text->regex);
    }
  }
  return regexes;
}

std::string first_name(const PreTokenizer& pre_tokenizer) {
  return std::string(pre_tokenizer.names.substr(0, pre_tokenizer.names.find(' ')));
}

std::string pre_tokenizer_names() {
  std::string all;
  for (const PreTokenizer& row : kPreTokenizers) {
    any_name(row.names, [&](std::string_view n) {
      all.append(all.empty() ? "" : ", ").append(n);
      return false;
    });
  }
  return all;
}

}  // namespace toy
