// toy chat: talk to a model.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/run/chat_template_option.h"
#include "cli/run/prompts.h"
#include "cli/run/sampling.h"
#include "talk/history.h"
#include "talk/local.h"
#include "talk/plain_screen.h"
#include "talk/remote.h"
#include "talk/session.h"
#include "talk/terminal_screen.h"
#include "talk/tools.h"
#include "toy/base/error.h"
#include "toy/base/hub_address.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/utf8.h"
#include "toy/chat/builtin.h"
#include "toy/decode/text_stream.h"
#include "toy/grammar/grammar.h"
#include "toy/models/embedding_rule.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// Options of answers, which /set changes: a parser that starts again from all that was given.
struct AnswerOptions {
  SamplingOptions sampling;
  std::vector<std::string> stops;
  int64_t n = -1;

  void add(CLI::App& app) {
    sampling.add(app);
    add_option(app, "-n,--n", n, "Tokens of an answer at most (default: as many as fit)", at_least(1));
    add_text_option(app, "--stop", stops, "End an answer before this string");
  }
};

struct Given {
  std::vector<std::pair<std::string, std::string>> values;  // "--temperature", "0.7"

  static bool is_list(const CLI::Option& o) { return o.get_items_expected_max() > 1; }

  void take(const CLI::App& parser) {
    AnswerOptions known;
    CLI::App app;
    known.add(app);
    for (const CLI::Option* o : app.get_options())
      if (const CLI::Option* here = parser.get_option_no_throw(name_of(*o)); here && !is_help(*o))
        for (const std::string& value : here->results()) values.emplace_back(name_of(*o), value);
  }
  static std::string name_of(const CLI::Option& o) { return "--" + o.get_lnames().at(0); }

  bool has(const std::string& name) const {
    return std::any_of(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
  }

  void set(const std::string& name, const std::string& value) {
    AnswerOptions known;
    CLI::App app;
    known.add(app);
    std::vector<std::string> names;
    for (const CLI::Option* o : app.get_options())
      if (!is_help(*o)) names.insert(names.end(), o->get_lnames().begin(), o->get_lnames().end());
    const CLI::Option* option = std::count(names.begin(), names.end(), name) ? app.get_option("--" + name) : nullptr;
    if (option == nullptr) {
      const std::string near = nearest(name, names);
      fail("/set: unknown option '{}'; {}", one_line(name),
           near.empty() ? "/set lists them" : fmt::format("did you mean '{}'?", near));
    }
    Given changed = *this;
    if (!is_list(*option)) std::erase_if(changed.values, [&](const auto& v) { return v.first == name_of(*option); });
    if (name == "samplers") {  // what its brackets set was set before
      SamplerOptions s;
      const std::vector<std::string_view> listed = set_sampler_chain(s, value, "--samplers");
      SamplerOptions::fields(s, [&](const Option& o, const auto&) {
        if (!o.group.empty() && std::find(listed.begin(), listed.end(), o.name) != listed.end())
          std::erase_if(changed.values, [&](const auto& v) { return v.first == o.flag(); });
      });
    }
    changed.values.emplace_back(name_of(*option), value);
    changed.parsed();
    *this = changed;
  }

  // As OpenAI's API has them, and llama-server what that lacks.
  ordered_json fields() const {
    AnswerOptions o = parsed();
    ordered_json all = ordered_json::object();
    for (const auto& [name, value] : values) {
      std::string key = name == "--n"                      ? "max_tokens"
                        : name == "--dry-sequence-breaker" ? name.substr(2) + "s"
                                                           : name.substr(2);
      std::replace(key.begin(), key.end(), '-', '_');
      if (key == "stop" || key == "dry_sequence_breakers")
        all[key].push_back(value);
      else if (key == "samplers")
        all[key] = o.sampling.sampler.steps.empty()
                       ? ordered_json::array()
                       : ordered_json(CLI::detail::split(sampler_step_names(o.sampling.sampler.steps), ';'));
      else if (key == "logit_bias")
        for (const auto& [id, bias] : o.sampling.sampler.logit_bias)
          all[key][std::to_string(id)] = std::max(bias, -100.0);  // which forbids a token there
      else
        all[key] = parse_json<ordered_json>(value);
    }
    SamplerOptions::fields(o.sampling.sampler, [&](const Option& option, const auto& value) {
      if (o.sampling.is_listed(option)) all[std::string(option.name)] = value;
    });
    if (o.sampling.sampler.mirostat) all["mirostat"] = 2;
    return all;
  }

  AnswerOptions parsed() const {
    AnswerOptions o;
    CLI::App app;
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    o.add(app);
    std::vector<std::string> words;
    for (const auto& [name, value] : values) {
      const std::string wrong = violation(*app.get_option(name), value);
      check(wrong.empty(), "{} {}", name, wrong);
      words.push_back(name + "=" + value);
    }
    std::reverse(words.begin(), words.end());
    try {
      app.parse(words);
    } catch (const CLI::ParseError& e) {
      fail("{}", e.what());
    }
    o.sampling.read(app);
    const Sampler options_are_sound(o.sampling.sampler);
    const StopFilter stops_are_sound(o.stops);
    return o;
  }
};

// The message of a command line, and no other.
class OneMessage final : public talk::PlainScreen {
 public:
  explicit OneMessage(std::string text) : text_(std::move(text)) {}
  talk::LineRead read(const std::string&, const std::string&) override {
    talk::LineRead read;
    if (std::exchange(said_, true))
      read.kind = talk::LineRead::end;
    else
      read.line = text_;
    return read;
  }

 private:
  std::string text_;
  bool said_ = false;
};

constexpr const char* kHint = "/help lists the commands";

struct Chat : Command {
  std::string model_path, message, url, system, tools_file, schema_file, grammar_file;
  talk::ToolCommand tool_command;
  ordered_json tools;
  dialog::TextForm form;
  ChatTemplateOption chat_template;
  AnswerOptions answers;
  AdapterOptions adapters;
  DeviceOptions device;
  DecodingOptions decoding;

  void add(CLI::App& app) {
    add_model_option(app, model_path);
    add_option(app, "text", message, "Message: its answer is printed, and that is all");
    add_option(app, "--url", url, "Talk to the model of a server instead, such as http://127.0.0.1:8080", not_empty());
    adapters.add(app);
    chat_template.add(app);
    begin_group(app, "Conversation");
    add_text_option(app, "--system", system, "System message: what the model is told first");
    CLI::Option* schema =
        add_option(app, "--json-schema", schema_file, "File with a JSON Schema that answers follow", file_name());
    add_option(app, "--grammar", grammar_file, "File with a grammar (GBNF) that answers follow", file_name())
        ->excludes(schema);
    answers.add(app);
    begin_group(app, "Tools");
    add_option(app, "--tools", tools_file, "JSON file with a list of tools that the model may call", file_name());
    add_text_option(app, "--tool-command", tool_command.command,
                    "Command for sh that answers calls: {\"name\", \"arguments\"} comes in, the result goes out");
    app.add_flag("--yes-to-tools", tool_command.always, "Run --tool-command without asking");
    decoding.add(app, {"context"});
    device.add(app);
    show_in_help(app, {"--url", "--lora", "--chat-template", "--system", "--json-schema", "--tools", "--tool-command",
                       "--temperature", "--top-p", "--seed", "--n", "--ctx", "--threads"});
    app.footer(
        "/help lists the commands of a chat. Without a terminal, each line of standard input is a message. With --url, "
        "the key comes from TOY_API_KEY or OPENAI_API_KEY.\n\n"
        "Examples:\n"
        "  toy chat chat.gguf --system \"Answer in one sentence.\"\n"
        "  toy chat chat.gguf \"What is a badger?\"\n"
        "  echo \"What is a badger?\" | toy chat chat.gguf --temperature 0\n"
        "  toy chat chat.gguf --tools weather.json --tool-command ./weather.py\n"
        "  toy chat --url http://127.0.0.1:8080");
  }

  ChatTemplate the_template(const Model& model) const {
    std::optional<ChatTemplate> found = chat_template.load(model, model_path);
    check(found.has_value(), "{}: the model has no chat template; add {}, or use toy infer", model_path,
          chat_template_option(*model.tokenizer));
    return *std::move(found);
  }

  void run() {
    Given given;
    given.take(*parser);
    given.parsed();
    answers.sampling.read(*parser);
    read_rules();
    note_text(system, "");
    note_text(message, "");
    if (!url.empty()) return talk_to_server(given);
    check(!model_path.empty(), "model is missing; name a file, or a server with --url");
    answers.sampling.check_together(*parser);
    talk_to_model(given);
  }

  // What answers may be.
  void read_rules() {
    check(tool_command.command.empty() || tool_command.always || is_on_terminal(),
          "--tool-command runs a command for every call, and without a terminal nobody is asked; add --yes-to-tools");
    check(!tool_command.always || !tool_command.command.empty(),
          "--yes-to-tools is about --tool-command; add one, or remove it");
    if (!tools_file.empty()) tools = talk::load_tools(tools_file);
    if (!schema_file.empty()) {
      form = {.kind = dialog::TextForm::json_schema, .field = schema_file};
      form.schema = read_schema(schema_file);
    } else if (!grammar_file.empty()) {
      check(tools_file.empty(), "--grammar with --tools is not supported; use one of them");
      form = {.kind = dialog::TextForm::gbnf, .grammar = read_grammar(grammar_file), .field = grammar_file};
    }
  }

  // Fields of OpenAI's API, and llama-server's name for a grammar.
  void add_form(ordered_json& fields) const {
    if (form.kind == dialog::TextForm::json_schema)
      fields["response_format"] = {{"type", "json_schema"},
                                   {"json_schema", {{"name", "answer"}, {"schema", form.schema}, {"strict", true}}}};
    if (form.kind == dialog::TextForm::gbnf) fields["grammar"] = form.grammar;
  }

  void talk_to_server(Given& given) {
    for (const char* local :
         {"--lora", "--chat-template", "--ctx", "--kv", "--exact", "--repack", "--device", "--threads"})
      check(!parser->count(local), "{} is up to the server; remove it, or --url", local);
    take_word_as_message();
    if (!message.empty() && !model_path.empty()) note_other_model();
    if (std::error_code error; std::filesystem::is_regular_file(model_path, error))
      to_stderr(fmt::format("toy: {} is not loaded, as the model of the server answers; leave it out, or --url\n",
                            one_line(model_path)));
    talk::RemoteModel replier(url, model_path, api_key());
    if (is_terminal(STDERR_FILENO) && message.empty())
      to_stderr(fmt::format("{}; {}\n", one_line(replier.model()), kHint));
    talk_to(replier, given, [&](const AnswerOptions& o) {
      talk::ReplySettings settings{.fields = given.fields()};
      add_form(settings.fields);
      settings.generate.sampler.seed = o.sampling.sampler.seed;
      return settings;
    });
  }

  static bool input_has_messages() {
    struct stat st {};
    return ::fstat(STDIN_FILENO, &st) == 0 &&
           (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size > 0));
  }

  // One word with --url may be the message: it is, where the server has no such model, and no other message comes.
  void take_word_as_message() {
    if (model_path.empty() || !message.empty()) return;
    const bool is_text = model_path.find(' ') != model_path.npos;  // no model has such a name
    if (!is_text) {
      if (input_has_messages()) return;
      const std::vector<std::string> models = models_of_server();
      for (const char* tag : {"", ":latest"})
        if ((models.empty() && is_terminal(STDIN_FILENO)) ||
            std::ranges::find(models, model_path + tag) != models.end())
          return;
      if (is_terminal(STDIN_FILENO))
        return to_stderr(
            fmt::format("toy: the server lists no model '{}' (models: {}); a message goes between quotes, "
                        "after the model\n",
                        one_line(model_path), one_line(fmt::format("{}", fmt::join(models, ", ")))));
      if (!models.empty())
        to_stderr(fmt::format("toy: the server has no model '{}', so it is the message (models: {})\n",
                              one_line(model_path), one_line(fmt::format("{}", fmt::join(models, ", ")))));
    }
    std::swap(model_path, message);
  }

  // Servers may answer for any name.
  void note_other_model() const {
    const std::vector<std::string> models = models_of_server();
    const auto is_named = [&](const std::string& m) { return m == model_path || m == model_path + ":latest"; };
    if (!models.empty() && std::ranges::none_of(models, is_named))
      to_stderr(fmt::format("toy: the server lists no model '{}'; it may answer with another one (models: {})\n",
                            one_line(model_path), one_line(fmt::format("{}", fmt::join(models, ", ")))));
  }

  // None where it does not list them.
  std::vector<std::string> models_of_server() const try {
    return talk::RemoteModel::models(url, api_key());
  } catch (const Error&) {
    return {};
  }

  static std::string api_key() {
    for (const char* name : {"TOY_API_KEY", "OPENAI_API_KEY"})
      if (const char* key = std::getenv(name); key && *key) return key;
    return {};
  }

  void talk_to_model(Given& given) {
    if (form.kind == dialog::TextForm::json_schema) json_schema_grammar(form.schema, schema_file);
    if (form.kind == dialog::TextForm::gbnf) parse_gbnf(form.grammar, grammar_file);
    const bool is_address = model_path.starts_with("http://") || model_path.starts_with("https://");
    check(!is_address || model_path.ends_with(".gguf") || !fetch_of_address(model_path).empty(),
          "{0}: it is an address; toy chat --url {0} talks to a server", model_path);
    model_path = model_file(model_path, message);
    const auto dev = device.make();
    require_room_to_decode(*dev, model_path, {.context = kPagePositions});  // the least; the rest is cache
    Model model = load_model(model_path, *dev);
    require_causal(model.spec);
    adapters.apply(model);
    require_tokenizer(model, model_path);
    const ChatTemplate chat = the_template(model);
    warn_of_template(model, chat, model_path);
    print_warnings(model_path, model.warnings);
    constexpr int64_t kRowsOfCall = 256;  // bounds how long Ctrl-C waits while a prompt is computed
    DecoderOptions options{.context = decoding.decoder.context,
                           .max_rows = kRowsOfCall,
                           .kv = decoding.decoder.kv,
                           .exact = decoding.decoder.exact,
                           .repack = decoding.repacks(model, INT32_MAX, 0)};
    options.cache = likely_cache(model, options);
    Decoder decoder(*dev, model, options);
    warn_of_long_context(model_path, model.spec, decoder.context());
    talk::LocalModel replier(decoder, model, chat);
    if (const std::string chosen = answers.sampling.chosen(model); !chosen.empty())
      to_stderr(fmt::format("toy: {}\n", chosen));
    if (!given.has("--seed")) given.set("seed", std::to_string(answers.sampling.sampler.seed));
    if (is_on_terminal() && message.empty())
      to_stderr(fmt::format("{} ({:.3g} M parameters, context {}); {}\n", one_line(name_of_model_file(model_path)),
                            double(parameter_count(model.spec)) / 1e6, decoder.context(), kHint));
    talk_to(replier, given, [&](const AnswerOptions& o) {
      return talk::ReplySettings{.generate = {.max_tokens = o.n, .sampler = o.sampling.of(model), .logprobs = false},
                                 .stops = o.stops,
                                 .form = form};
    });
  }

  static bool is_on_terminal() { return is_terminal(STDIN_FILENO) && is_terminal(STDOUT_FILENO); }
  std::unique_ptr<talk::Screen> make_screen() const {
    if (!message.empty()) return std::make_unique<OneMessage>(message);
    if (!is_on_terminal()) return std::make_unique<talk::PlainScreen>();
    return std::make_unique<talk::TerminalScreen>(
        talk::Look{.color = has_color(STDOUT_FILENO), .unicode = has_unicode()}, talk::default_history_path());
  }

  void talk_to(talk::Replier& replier, Given& given,
               const std::function<talk::ReplySettings(const AnswerOptions&)>& settings_of) const {
    if (!message.empty()) note_unread_input("a message", "\"$(cat FILE) MESSAGE\" is both");
    talk::Settings settings;
    settings.get = [&] { return settings_of(given.parsed()); };
    settings.set = [&](const std::string& name, const std::string& value) {
      Given changed = given;
      changed.set(name, value);
      settings_of(changed.parsed());
      given = changed;
    };
    settings.list = [&] { return list(given); };
    talk::Conversation conversation;
    conversation.set_system(system);
    conversation.set_tools(tools);
    replier.require_tools(tools);
    const auto screen = make_screen();
    talk::Session session(*screen, replier, settings, std::move(conversation), tool_command);
    session.run();
  }

  std::string list(const Given& given) const {
    AnswerOptions known;
    CLI::App app;
    known.add(app);
    std::string text;
    for (const CLI::Option* o : app.get_options()) {
      if (is_help(*o)) continue;
      std::string value = url.empty() ? o->get_default_str() : "";  // a server has its own defaults
      for (const auto& [name, v] : given.values)
        if (name == Given::name_of(*o)) value = v;
      if (value.empty()) value = "-";
      text += fmt::format("{:<21} {:<8} {}\n", o->get_lnames()[0], one_line(value), o->get_description());
    }
    return text;
  }
};

}  // namespace

void add_chat(CLI::App& app) { add_subcommand<Chat>(app, "chat", "Talk to a model"); }

}  // namespace toy::cli
