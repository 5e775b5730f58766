// SentencePiece .model files: a ModelProto of the library's sentencepiece_model.proto, whose field numbers these are.
#include "text/spm/protobuf.h"
#include "text/spm/spm.h"
#include "toy/base/error.h"

namespace toy {
namespace {

enum class ModelType : int32_t { unigram = 1, bpe = 2, word = 3, chars = 4 };

/// What is needed of TrainerSpec and NormalizerSpec, with the defaults of the .proto.
struct Specs {
  ModelType model_type = ModelType::unigram;
  bool byte_fallback = false, space_as_suffix = false, escape_whitespaces = true;
  std::optional<int32_t> unk_id, bos_id, eos_id;  ///< as in the file; -1: there is none
  std::string bos_piece = "<s>", eos_piece = "</s>";
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;
  std::string chars_map, denormalizer_map;
};

void read_piece(protobuf::Reader piece, SpmVocabulary& v) {
  std::string text;
  float score = 0;
  int32_t type = int32_t(TokenType::normal);
  while (piece.next()) {
    switch (piece.field()) {
      case 1:
        text = piece.get_bytes("pieces.piece");
        break;
      case 2:
        score = piece.get_float("pieces.score");
        break;
      case 3:
        type = piece.get_int32("pieces.type");
        break;
    }
  }
  check(!text.empty(), "{}: pieces[{}] is empty", v.source, v.tokens.size());
  // A user-defined token is literal text for us, as in GGUF (convert_hf_to_gguf.py does the same).
  if (type == int32_t(TokenType::user_defined)) text = with_spaces(text);
  v.tokens.push_back(std::move(text));
  v.scores.push_back(score);
  v.types.push_back(type);
}

void read_trainer_spec(protobuf::Reader spec, Specs& specs) {
  while (spec.next()) {
    switch (spec.field()) {
      case 3:
        specs.model_type = ModelType(spec.get_int32("trainer_spec.model_type"));
        break;
      case 24:
        specs.space_as_suffix = spec.get_bool("trainer_spec.treat_whitespace_as_suffix");
        break;
      case 35:
        specs.byte_fallback = spec.get_bool("trainer_spec.byte_fallback");
        break;
      case 40:
        specs.unk_id = spec.get_int32("trainer_spec.unk_id");
        break;
      case 41:
        specs.bos_id = spec.get_int32("trainer_spec.bos_id");
        break;
      case 42:
        specs.eos_id = spec.get_int32("trainer_spec.eos_id");
        break;
      case 46:
        specs.bos_piece = spec.get_bytes("trainer_spec.bos_piece");
        break;
      case 47:
        specs.eos_piece = spec.get_bytes("trainer_spec.eos_piece");
        break;
    }
  }
}

void read_normalizer_spec(protobuf::Reader spec, Specs& specs) {
  while (spec.next()) {
    switch (spec.field()) {
      case 2:
        specs.chars_map = spec.get_bytes("normalizer_spec.precompiled_charsmap");
        break;
      case 3:
        specs.add_dummy_prefix = spec.get_bool("normalizer_spec.add_dummy_prefix");
        break;
      case 4:
        specs.remove_extra_whitespaces = spec.get_bool("normalizer_spec.remove_extra_whitespaces");
        break;
      case 5:
        specs.escape_whitespaces = spec.get_bool("normalizer_spec.escape_whitespaces");
        break;
    }
  }
}

void read_denormalizer_spec(protobuf::Reader spec, Specs& specs) {
  while (spec.next()) {
    if (spec.field() == 2) specs.denormalizer_map = spec.get_bytes("denormalizer_spec.precompiled_charsmap");
  }
}

/// What this library does not do, and would otherwise do wrong.
void check_supported(const Specs& specs, const std::string& source) {
  const ModelType type = specs.model_type;
  check(type != ModelType::word && type != ModelType::chars,
        "{}: a model of type {} is not supported (supported: unigram and bpe)", source,
        type == ModelType::word ? "word" : "char");
  check(type == ModelType::unigram || type == ModelType::bpe,
        "{}: trainer_spec.model_type is {}, which is no type (unigram is 1, bpe is 2)", source, int32_t(type));
  check(!specs.space_as_suffix, "{}: trainer_spec.treat_whitespace_as_suffix is set, which is not supported", source);
  check(specs.escape_whitespaces, "{}: normalizer_spec.escape_whitespaces is off, which is not supported", source);
  check(specs.denormalizer_map.empty(), "{}: denormalizer_spec has rules, which are not supported", source);
}

/// The library finds special tokens by type and name, and so do we; ids that are named must fit.
void find_special_ids(const Specs& specs, SpmVocabulary& v) {
  const size_t n = v.tokens.size();
  const auto check_id = [&](const char* name, std::optional<int32_t> id) {
    check(!id || *id < 0 || size_t(*id) < n, "{}: trainer_spec.{} is {}, outside the vocabulary of {} pieces", v.source,
          name, id.value_or(0), n);
  };
  check_id("unk_id", specs.unk_id);
  check_id("bos_id", specs.bos_id);
  check_id("eos_id", specs.eos_id);
  for (size_t id = 0; id < n; ++id) {
    const TokenType type = TokenType(v.types[id]);
    if (type == TokenType::unknown) {
      check(!v.unknown, "{}: there are two unknown pieces, with the ids {} and {}", v.source, v.unknown.value_or(0),
            id);
      v.unknown = int32_t(id);
    }
    if (type == TokenType::control && v.tokens[id] == specs.bos_piece) v.bos = int32_t(id);
    if (type == TokenType::control && v.tokens[id] == specs.eos_piece) v.eos = int32_t(id);
  }
  check(v.unknown.has_value(), "{}: there is no unknown piece (type 2)", v.source);
}

void check_bytes(const Specs& specs, const SpmVocabulary& v) {
  size_t bytes = 0;
  for (const int32_t type : v.types) bytes += type == int32_t(TokenType::byte);
  check(specs.byte_fallback || bytes == 0, "{}: there are byte pieces, but trainer_spec.byte_fallback is off",
        v.source);
  check(!specs.byte_fallback || bytes == 256,
        "{}: trainer_spec.byte_fallback is on, but there are {} byte pieces, not 256", v.source, bytes);
}

}  // namespace

SpmVocabulary parse_spm_model(std::string_view bytes, const std::string& source) {
  SpmVocabulary v;
  v.source = source;
  v.names = {"pieces", "pieces.score", "pieces.type"};
  Specs specs;
  protobuf::Reader model(source, bytes);
  while (model.next()) {
    switch (model.field()) {
      case 1:
        read_piece(model.get_message("pieces"), v);
        break;
      case 2:
        read_trainer_spec(model.get_message("trainer_spec"), specs);
        break;
      case 3:
        read_normalizer_spec(model.get_message("normalizer_spec"), specs);
        break;
      case 5:
        read_denormalizer_spec(model.get_message("denormalizer_spec"), specs);
        break;
    }
  }
  check(!v.tokens.empty(), "{}: not a SentencePiece model: there are no pieces", source);
  check_supported(specs, source);
  find_special_ids(specs, v);
  check_bytes(specs, v);
  v.model = specs.model_type == ModelType::bpe ? SpmModel::bpe : SpmModel::unigram;
  v.add_space_prefix = specs.add_dummy_prefix;
  v.remove_extra_whitespaces = specs.remove_extra_whitespaces;
  v.chars_map = std::move(specs.chars_map);
  v.add_bos = false;  // the file does not say, and the library adds none
  return v;
}

}  // namespace toy
