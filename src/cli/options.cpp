#include "cli/options.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "bind/files.h"
#include "cli/console.h"
#include "cli/outputs.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/gguf_name.h"
#include "toy/base/memory.h"
#include "toy/base/shell_word.h"
#include "toy/base/threads.h"
#include "toy/base/utf8.h"
#include "toy/chat/builtin.h"
#include "toy/decode/repack.h"
#include "toy/models/save_as.h"
#include "toy/models/spec.h"

namespace toy::cli {

void DeviceOptions::add(CLI::App& app) {
  begin_group(app, "Machine");
  std::vector<std::string> names;
  for (const DeviceKind& kind : devices()) names.emplace_back(kind.name);
  add_option(app, "--device", device, fmt::format("{}; toy devices describes them", alternatives(names)),
             one_of(names));
  add_option(app, "--threads", threads, "Number of threads; 0 uses every core", from_to(0, 1024));
}

std::unique_ptr<Device> DeviceOptions::make() const {
  constexpr int kMany = 4;  // threads for each CPU: they wait for each other far longer than they work
  const int cpus = available_cpus();
  if (threads <= kMany * cpus) return make_device(device, {.threads = threads});
  to_stderr(
      fmt::format("toy: --threads {} would be slow on {}; {} threads are used\n", threads, counted(cpus, "CPU"), cpus));
  return make_device(device, {.threads = cpus});
}

std::optional<DType> type_named(std::string_view name) {
  const auto* type = std::ranges::find(kDTypes, name, &DTypeInfo::name);
  return type == std::end(kDTypes) ? std::nullopt : std::optional(type->type);
}

void DecodingOptions::add(CLI::App& app, std::initializer_list<std::string_view> more) {
  if (more.size() > 0) add_listed(app, decoder, more);
  add_listed(app, decoder, {"kv", "exact"});
  begin_group(app, "Machine");
  add_option(app, "--repack", repack, "Copy quantized weights into a faster order; auto if it pays",
             one_of({"auto", "off"}));
}

DecodingOptions DecodingOptions::with(std::string_view what, std::string_view list) const {
  DecodingOptions o = *this;
  if (list.empty()) return o;
  CLI::App app;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  o.add(app);
  std::vector<std::string> names, words;
  for (const CLI::Option* option : app.get_options())
    if (!is_help(*option)) names.push_back(option->get_lnames()[0]);
  for (const ListedWord& l : read_list(what, list, {.between = ',', .words = names})) {
    const CLI::Option& option = *app.get_option("--" + l.word);
    std::string value = is_flag(option) ? "true" : "", wrong;
    if (l.settings.size() == 1 && l.settings[0].first == l.word) value = l.settings[0].second;
    if (is_flag(option))
      wrong = value == "true" || value == "false" ? "" : fmt::format("is {}; use true or false", value);
    else
      wrong = violation(option, value);
    check(wrong.empty(), "{}: {} {}", what, l.word, wrong);
    words.insert(words.begin(), option.get_name() + "=" + value);  // the parser takes them from the back
  }
  app.parse(words);
  return o;
}

bool DecodingOptions::repacks(const Model& model, int64_t generated, int64_t scored) const {
  return repack != "off" && !decoder.exact && repack_pays(model, generated, scored);
}

size_t likely_cache(const Model& model, const DecoderOptions& options) {
  const DecodeShape shape = decode_shape(model, options);
  const double pages = double(shared_page_bytes(model.spec, shape)) * double(shape.pages()),
               snapshots = 8.0 * double(shape.sequences) * double(kept_state_bytes(model.spec, shape));
  const double more = snapshots > 0 ? 2 * std::max(pages, snapshots) - pages : 0,
               all = double(state_bytes(model.spec, shape)) + more;
  const size_t half = model.params->device().memory().free / 2;
  return half > 0 && all > double(half) ? half : size_t(all);
}

void ComputeOptions::add(CLI::App& app) {
  begin_group(app, "Machine");
  add_option(app, "--compute", compute, "Type of products: f32, bf16 or auto, the faster of them",
             one_of({"f32", "bf16", "auto"}));
}

DType ComputeOptions::choose(Device& device) const {
  if (compute != "auto") return compute == "f32" ? DType::f32 : DType::bf16;
  const auto [type, why] = faster_compute(device);
  to_stderr(why + "\n");
  return type;
}

std::vector<std::string> known_words(std::string_view option) {
  if (option == "size") return size_names();
  if (option == "stored") return stored_names();
  return option == "chat_template" ? builtin_chat_templates() : std::vector<std::string>();
}

namespace {

// The first 64 KiB.
std::string beginning_of(const std::string& path) {
  std::string beginning(size_t(64) << 10, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(beginning.data(), std::streamsize(beginning.size()));
  beginning.resize(size_t(file.gcount()));
  return beginning;
}

}  // namespace

void refuse_replacing(const std::string& option, const std::string& out, const IsOwn& is_own) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(out, error) || std::filesystem::file_size(out, error) == 0) return;
  check(is_own(beginning_of(out)),
        "{}: '{}' exists and was not written by this command; use another name, or remove it", option, out);
}

void refuse_replacing_model(const std::string& option, const std::string& out, bool overwrite) {
  refuse_losing(option, out, overwrite, [](std::string_view beginning) { return beginning.starts_with("GGUF"); });
}

void add_overwrite(CLI::App& app, bool& overwrite) {
  app.add_flag("--overwrite", overwrite, std::string(bind::kOverwrite.help));
}

void add_parse_special(CLI::App& app, bool& value) {
  app.add_flag("--parse-special,!--no-parse-special", value,
               "Read names of control tokens in the text as tokens (default: on)");
}

CLI::Option* add_context_option(CLI::App& app, int64_t& context, const char* help) {
  constexpr int64_t kMost = int64_t(1) << 24;  // as ModelSpec::validate
  return add_option(app, "--ctx", context, help, from_to(0, kMost));
}

void warn_of_long_context(const std::string& path, const ModelSpec& spec, int64_t positions) {
  if (positions > spec.context)
    to_stderr(fmt::format("toy: {}: the model was trained for {} positions; expect worse predictions with {}\n", path,
                          spec.context, positions));
}

namespace {

// $'...' of bash with line breaks for "\n", everything else as it is; "" for what is long or would act on a terminal.
std::string with_line_breaks(const std::string& text) {
  constexpr size_t kLongest = 60;
  if (text.size() > kLongest || one_line(text) != text) return {};
  std::string word = "$'";
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_break = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == 'n';
    if ((text[i] == '\\' && !is_break) || text[i] == '\'') word += '\\';
    word += text[i];
  }
  return word + "'";
}

void note_if_file(const std::string& text, const std::string& option) {
  std::error_code error;
  if (text.find('/') != text.npos && std::filesystem::is_directory(text, error))
    return to_stderr(fmt::format("toy: '{}' is taken as a text, not as a folder\n", one_line(text)));
  const std::string file = text.substr(text.starts_with('@'));  // as curl has it
  if (!std::filesystem::path(file).has_extension() || !std::filesystem::is_regular_file(file, error)) return;
  const bool reads = begins_as_text(beginning_of(file));  // no model or picture
  to_stderr(fmt::format("toy: '{}' is taken as a text{}\n", one_line(text),
                        !reads           ? ", not as a file"
                        : option.empty() ? fmt::format("; \"$(cat {})\" is what the file holds", shell_quoted(file))
                                         : fmt::format("; {} {} reads the file", option, shell_quoted(file))));
}

}  // namespace

// Those of code stand in strings.
void note_line_breaks(const std::string& text) {
  const size_t at = text.find("\\n");
  if (at == text.npos || std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '"') % 2 == 1) return;
  const std::string word = with_line_breaks(text);
  to_stderr(fmt::format("toy: \\n in the text is a backslash and an n; for a line break write {}\n",
                        word.empty() ? "$'...\\n...'" : word));
}

void note_text(const std::string& text, const std::string& option) {
  note_if_file(text, option);
  note_line_breaks(text);
}

bool has_piped_input() {
  struct stat st {};
  return ::fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

void note_unread_input(const std::string& there_is, const std::string& how) {
  struct stat st {};
  int bytes = 0;
  if (::fstat(STDIN_FILENO, &st) == 0 && S_ISFIFO(st.st_mode) && ::ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 &&
      bytes > 0)
    to_stderr(fmt::format("toy: standard input is not read, as there is {}; {}\n", there_is, how));
}

void print_warnings(const std::string& path, const std::vector<std::string>& warnings) {
  for (const std::string& w : warnings) to_stderr(fmt::format("toy: {}: {}\n", path, one_line(w)));
}

namespace {

constexpr const char* kTextOptions[] = {"--prompt", "--text", "--stop",
                                        "--system"};  // without letters, see protect_texts
constexpr char kMark = '\x01';                        // protect_texts puts it before a value, the option removes it

}  // namespace

bool takes_any_text(const std::string& word) {
  return word == "-p" || std::find(std::begin(kTextOptions), std::end(kTextOptions), word) != std::end(kTextOptions);
}

std::vector<std::string> protect_texts(const std::vector<std::string>& given) {
  std::vector<std::string> words;
  for (size_t i = 0; i < given.size(); ++i) {
    std::string word = given[i] == "-p" ? "--prompt" : given[i];
    // -n=3 is --n=3; the parser would take "=3".
    if (word.size() > 3 && word[0] == '-' && word[1] != '-' && word[2] == '=') word.erase(2, 1);
    const size_t equals = word.find('=');
    const bool is_text = takes_any_text(word.substr(0, equals)) && given[0] != "bench";  // its --prompt is a number
    if (is_text && equals != word.npos)
      word.insert(equals + 1, 1, kMark);
    else if (is_text && i + 1 < given.size())
      word += std::string("=") + kMark + given[++i];
    words.push_back(word);
  }
  return words;
}

CLI::Validator unmarked() {
  const auto remove = [](std::string& text) {
    if (text.starts_with(kMark)) text.erase(0, 1);
    return std::string();
  };
  return {remove, "", ""};
}

}  // namespace toy::cli
