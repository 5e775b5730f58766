#include "sniff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace toy {
namespace {

struct Signature {
  std::string_view start;
  std::string_view sentence;
};

constexpr std::string_view kConvert =
    "save the model as safetensors (save_pretrained), and give its folder to toy convert";
constexpr Signature kSignatures[] = {
    {"FUGG", "it is a big-endian GGUF file; only little-endian files are supported"},
    {"lmgg", "it is a model of the time before GGUF (ggml); convert its source again"},
    {"fmgg", "it is a model of the time before GGUF (ggmf); convert its source again"},
    {"tjgg", "it is a model of the time before GGUF (ggjt); convert its source again"},
    {"algg", "it is an adapter of the time before GGUF (ggla); convert its source again"},
    {"version https://git-lfs", "it is a git-lfs pointer, not the file itself; fetch it with 'git lfs pull'"},
    {"\x1f\x8b", "it is a gzip archive; unpack it first"},
    {"%PDF", "it is a PDF, no model"},
    {"\x89PNG", "it is a picture, no model"},
    {"\xff\xd8\xff", "it is a picture, no model"},
    {"PAR1", "it is a Parquet file of rows, no model"},
    {"\x93NUMPY", "it is a file of NumPy, no model"},
};

bool looks_like_safetensors(std::string_view text) {
  uint64_t header = 0;
  if (text.size() < 9) return false;
  std::memcpy(&header, text.data(), sizeof header);
  return text[8] == '{' && header >= 2 && header <= 100'000'000;  // the limit of the safetensors library
}

// A ModelProto that begins with a piece: field 1, in it the text (field 1) and the score (field 2, four bytes).
bool looks_like_sentencepiece(std::string_view text) {
  if (text.size() < 5 || text[0] != '\x0A' || text[2] != '\x0A') return false;
  const size_t score = 4 + size_t(uint8_t(text[3]));
  return score < text.size() && text[score] == '\x15';
}

bool looks_like_text(std::string_view text) {
  text = text.substr(0, 256);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t' || uint8_t(c) >= 0x80;
  });
}

// Which text it is, as its first word tells.
std::string like_text(std::string_view text) {
  const auto begins = [&](std::string_view with) {
    return std::ranges::equal(text.substr(0, with.size()), with,
                              [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (begins("<!doctype") || begins("<html")) return "it is a web page; download the file itself again";
  if (text.starts_with("FROM ")) return "it looks like a Modelfile of Ollama; give the model that its line FROM names";
  if (text.starts_with('{') && text.find("\"weight_map\"") != text.npos)
    return "it is the index of a model in several files; give their folder";
  if (text.starts_with("{\"")) return "it looks like JSON";
  return "it looks like a text file";
}

}  // namespace

std::string describe_foreign_file(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 256));
  for (const Signature& s : kSignatures)
    if (text.starts_with(s.start)) return std::string(s.sentence);
  if (text.starts_with("PK\x03\x04") &&
      (text.find("[Content_Types].xml") != text.npos || text.find("mimetypeapplication/") != text.npos))
    return "it is a document of an office program, no model";
  if (text.starts_with("PK\x03\x04")) return fmt::format("it is a zip archive, perhaps a PyTorch model; {}", kConvert);
  if (text.starts_with("\x80\x02")) return fmt::format("it is a Python pickle, perhaps a PyTorch model; {}", kConvert);
  if (looks_like_safetensors(text))
    return "it looks like a safetensors file; convert its folder first (toy convert FOLDER OUT.gguf)";
  if (looks_like_sentencepiece(text))
    return "it looks like the model of a SentencePiece tokenizer, for 'toy tokenizer'";
  if (looks_like_text(text)) return like_text(text);
  return "";
}

}  // namespace toy
