// toy serve: answer requests of OpenAI's clients.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/run/chat_template_option.h"
#include "cli/run/draft.h"
#include "cli/run/prompts.h"
#include "serve/encoder_server.h"
#include "serve/http/origin.h"
#include "serve/server.h"
#include "serve/states.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/memory.h"
#include "toy/base/run_files.h"
#include "toy/base/utf8.h"
#include "toy/chat/builtin.h"
#include "toy/decode/usual_sampling.h"
#include "toy/look/look.h"

namespace toy::cli {
namespace {

// A model with some of its adapters, on the weights of the other, which must outlive it.
class WithAdapters {
 public:
  WithAdapters(const Model& of, const std::vector<float>& factors)
      : model_{of.spec, std::unique_ptr<ParamStore>(of.params.get()), of.tokenizer} {
    std::vector<AdapterSpec> used;
    for (size_t i = 0; i < of.spec.adapters.size(); ++i)
      if (i >= factors.size() || factors[i] != 0) used.push_back(of.spec.adapters[i]);
    model_.spec.adapters = std::move(used);
  }
  ~WithAdapters() { (void)model_.params.release(); }
  WithAdapters(const WithAdapters&) = delete;
  WithAdapters& operator=(const WithAdapters&) = delete;
  const Model& operator*() const { return model_; }

 private:
  Model model_;
};

serve::ServerOptions::LookParts look_in_parts(Device& device, const Model& model, const std::vector<int32_t>& ids,
                                              const std::vector<float>& factors, const LookOptions& options) {
  const auto borrowed = std::make_shared<WithAdapters>(model, factors);
  const auto job = std::make_shared<LookJob>(device, **borrowed, ids, options);
  return [borrowed, job, tokenizer = model.tokenizer]() -> std::optional<std::string> {
    if (job->step()) return std::nullopt;
    return json_text(to_json(job->result(), tokenizer.get()));
  };
}

struct Serve : Command {
  std::string model_path, host = "127.0.0.1", key_file, state_folder, log = "text";
  std::vector<std::string> aliases, cors;
  bool strict = false, share_prefixes = false;
  serve::TlsFiles tls;
  int port = 8080;
  int64_t parallel = 8, queue = 1024;
  serve::HttpLimits http;
  AdapterOptions adapters;
  ChatTemplateOption chat_template;
  DeviceOptions device;
  DecodingOptions decoding;
  DraftOptions draft;

  void add(CLI::App& app) {
    add_model_option(app, model_path)->required();
    adapters.add(app, true);
    chat_template.add(app);
    add_option(app, "--alias", aliases,
               "Names of the model for clients, separated by commas (default: its file or folder)", not_empty())
        ->delimiter(',')
        ->option_text("NAME");
    app.add_flag("--strict", strict, "Refuse request fields without an effect, and unknown models");
    begin_group(app, "Network");
    add_option(app, "--host", host, "Address to listen on; 0.0.0.0 lets other machines connect", not_empty());
    add_option(app, "--port", port, "Port to listen on; 0 takes a free one", from_to(0, 65535));
    add_option(app, "--api-key-file", key_file, "File of keys, one per line; clients must send one of them",
               file_name());
    add_option(app, "--cors", cors,
               "Web pages of this origin may use the server, such as http://localhost:3000; * is any")
        ->option_text("ORIGIN");
    auto* certificate = add_option(app, "--tls-cert", tls.certificate,
                                   "Speak TLS with this certificate, a PEM file with its chain", file_name());
    auto* key =
        add_option(app, "--tls-key", tls.key, "Private key of --tls-cert, a PEM file without a password", file_name());
    certificate->needs(key);
    key->needs(certificate);
    add_option(app, "--grace", http.grace_seconds, "Seconds to finish requests after Ctrl-C or SIGTERM",
               from_to(0, 86400));
    add_option(app, "--log", log, "A line on stderr for each request", one_of({"text", "json", "off"}));
    begin_group(app, "Machine");
    add_option(app, "--parallel", parallel, "Texts to generate at once; others wait", from_to(1, 1024));
    add_option(app, "--queue", queue, "Texts that may wait; more are refused", from_to(1, 1000000));
    add_option(app, "--state", state_folder, "Folder where clients may save conversations (/v1/state)", not_empty())
        ->option_text("DIR");
    app.add_flag("--share-prefixes", share_prefixes,
                 "API keys share saved conversations, and what was computed for others");
    decoding.add(app, {"context", "cache"});
    device.add(app);
    draft.add(app);
    show_in_help(app, {"--lora", "--draft", "--alias", "--chat-template", "--host", "--port", "--api-key-file",
                       "--parallel", "--ctx", "--cache", "--state", "--threads"});
    app.footer(fmt::format("Endpoints: {}.\n\n", fmt::join(serve::endpoints(), ", ")) +
               "Examples:\n"
               "  toy serve chat.gguf\n"
               "  toy serve chat.gguf --lora out/letters --lora poems=poems.gguf:0.5\n"
               "  curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"Once upon a time\"}'");
  }

  // Secrets are for their owner.
  static void warn_of_readers(const std::string& secret) {
    struct stat s = {};
    if (!secret.empty() && ::stat(secret.c_str(), &s) == 0 && S_ISREG(s.st_mode) && (s.st_mode & 077) != 0)
      print_warnings(one_line(secret), {"other users of this machine can read it; chmod 600 keeps it secret"});
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    if (key_file.empty()) return keys;
    std::error_code error;
    check(key_file == "-" || std::filesystem::exists(key_file, error),
          "--api-key-file takes a file with one key per line, and '{}' is none; write echo KEY > keys.txt and "
          "--api-key-file keys.txt",
          key_file);
    warn_of_readers(key_file);
    std::istringstream lines(read_text(key_file, true));
    for (std::string line; std::getline(lines, line);) {
      CLI::detail::trim(line);
      if (!line.empty()) keys.push_back(line);
    }
    check(!keys.empty(), "{}: no API keys found; write one per line", key_file);
    return keys;
  }

  // What clients call the model: a folder of Hugging Face by its own name, and not by that of the file in the cache.
  std::string name_of_model(const std::string& given, const std::string& file) const {
    if (!aliases.empty()) return aliases.front();
    const bool is_folder = std::filesystem::exists(std::filesystem::path(given) / "config.json");
    return is_folder && !file.starts_with(given) ? std::filesystem::weakly_canonical(given).filename().string()
                                                 : name_of_model_file(file);
  }

  // Of --cache.
  size_t cache_bytes(const Device& dev) const {
    const size_t bytes = decoding.decoder.cache, have = dev.memory().free;
    check(have == 0 || bytes <= have,
          "cache: '{}' is more than the {} of memory that are free{}; use --cache {}M or less",
          parser->get_option("--cache")->as<std::string>(), format_bytes(have), where_memory_is(dev),
          (have >> 20) * 9 / 10);
    return bytes;
  }

  // What the cache holds.
  static std::string cache_text(const ModelSpec& spec, const DecodeState& state) {
    const DecodeShape& shape = state.shape();
    DecodeShape fixed = shape;  // what does not depend on --cache
    fixed.shared_pages = 1, fixed.snapshots = 0;
    const size_t states = state_bytes(spec, fixed) - shared_page_bytes(spec, fixed),
                 snapshot = kept_state_bytes(spec, shape);
    std::vector<std::string> parts;
    if (shape.shared_pages > 0)
      parts.push_back(fmt::format("{} pages of {} positions", shape.shared_pages, kPagePositions));
    if (snapshot > 0) {
      parts.push_back(fmt::format("{} snapshots of {}", shape.snapshots, format_bytes(snapshot)));
      parts.push_back(format_bytes(states) + " for windows and recurrent states");
    }
    return fmt::format("toy: cache of {}: {}\n", format_bytes(state.bytes()), fmt::join(parts, ", "));
  }

  // What clients call the adapters.
  std::vector<std::string> adapter_names(const std::vector<GivenAdapter>& given, const std::string& base) const {
    std::vector<std::string> names;
    const auto among = [](const std::vector<std::string>& list, const std::string& name) {
      return std::ranges::find(list, name) != list.end();
    };
    for (const GivenAdapter& g : given) {
      check(g.name != base && !among(aliases, g.name) && !among(names, g.name),
            "lora: two models are called '{}'; name this one with --lora NAME={}", g.name, g.path);
      names.push_back(g.name);
    }
    return names;
  }

  serve::ServerOptions server_options(const std::string& name, const std::vector<std::string>& api_keys) const {
    return {
        .name = name,
        .aliases = {aliases.begin() + !aliases.empty(), aliases.end()},
        .api_keys = api_keys,
        .most_waiting = size_t(queue),
        .http = http,
        .state_folder = state_folder,
        .strict = strict,
        .host = host,
        .tls = !tls.certificate.empty(),
        .cors = cors,
        .log = log == "json"   ? serve::LogForm::json
               : log == "text" ? serve::LogForm::text
                               : serve::LogForm::off,
        .share_prefixes = share_prefixes,
        .stuck =
            [] {
              to_stderr("toy: stopped; a request was given up\n");
              std::_Exit(0);  // its thread uses what would be gone
            },
        .stopping =
            [seconds = http.grace_seconds](size_t requests) {
              if (requests > 0)
                to_stderr(fmt::format("toy: stopping; {} request{} may take {} s (--grace); Ctrl-C again stops now\n",
                                      requests, requests == 1 ? "" : "s", seconds));
            }};
  }

  void say_where(const std::string& name, uint16_t at) const {
    const bool v6 = host.find(':') != std::string::npos;
    to_stderr(fmt::format("toy: serving {} at {}://{}{}{}:{}; Ctrl-C stops\n", name,
                          tls.certificate.empty() ? "http" : "https", v6 ? "[" : "", host, v6 ? "]" : "", at));
  }

  // Options of texts that are generated have no meaning.
  void serve_an_encoder(serve::HttpServer& server, Device& dev, const Model& model,
                        const std::vector<std::string>& api_keys, const std::string& name) const {
    for (const char* option : {"--lora", "--state", "--cache", "--ctx", "--draft", "--chat-template"})
      check(!given(option), "{} is for models that generate text; {} {}, so remove it", option, model_path,
            model.spec.score.there() ? "ranks texts" : "is an encoder");
    print_warnings(model_path, model.warnings);
    const EncoderOptions how{.exact = decoding.decoder.exact};
    const serve::ServerOptions o = server_options(name, api_keys);
    if (model.spec.score.there()) {
      Ranker ranker(dev, model, how);
      say_where(name, server.port());
      serve::serve_ranker(server, ranker, model, o);
    } else {
      Encoder encoder(dev, model, how);
      say_where(name, server.port());
      serve::serve_encoder(server, encoder, model, o);
    }
    to_stderr("toy: stopped\n");
  }

  void run() {
    const std::vector<std::string> api_keys = keys();
    warn_of_readers(tls.key);
    for (std::string& origin : cors) origin = serve::origin_of(origin);
    serve::HttpServer server(host, uint16_t(port), http, tls);  // a port in use is told before a model is loaded
    std::optional<serve::StateFolder> states;
    if (!state_folder.empty()) states.emplace(state_folder);
    const std::string asked = model_path;
    model_path = model_file(model_path);
    const std::vector<GivenAdapter> given = adapters.given();
    const std::string name = name_of_model(asked, model_path);
    const std::vector<std::string> names = adapter_names(given, name);
    const auto dev = device.make();
    require_room_to_decode(*dev, model_path, {.context = kPagePositions});  // the least; the rest is cache
    Model model = load_model(model_path, *dev);
    apply_adapters(model, given);
    require_tokenizer(model, model_path);
    check(!model.spec.score.classifies(),
          "{}: it classifies texts, which toy serve does not do; use toy infer --prompt TEXT", model_path);
    if (!model.spec.causal || model.spec.score.there()) return serve_an_encoder(server, *dev, model, api_keys, name);
    const std::optional<ChatTemplate> chat = chat_template.load(model, model_path);
    if (chat) warn_of_template(model, *chat, model_path);
    print_warnings(model_path, model.warnings);
    constexpr int64_t kRowsOfCall = 256;  // bounds how long running texts wait for the prompts of others
    Draft proposes = draft.load(*dev, model);
    DecoderOptions options{.sequences = int(parallel),
                           .context = decoding.decoder.context,
                           .max_rows = std::max(proposes.rows(parallel), kRowsOfCall),
                           .kv = decoding.decoder.kv,
                           .exact = decoding.decoder.exact,
                           .adapters_by_sequence = !names.empty(),
                           .repack = decoding.repacks(model, INT32_MAX, 0),
                           .hidden = true};
    warn_of_long_context(model_path, model.spec, options.context);  // at once: a large cache takes its time
    options.cache = parser->count("--cache") > 0 ? cache_bytes(*dev) : likely_cache(model, options);
    Decoder decoder(*dev, model, options);
    proposes.follow(*dev, decoder, decoding, INT32_MAX);
    serve::ServerOptions o = server_options(name, api_keys);
    // The chosen token and the one that follows it are all that the page shows the attention of.
    const LookOptions looks{.rows = 2, .exact = decoding.decoder.exact, .output = LookOptions::json};
    o.look = [&](const std::vector<int32_t>& ids, const std::vector<float>& factors) {
      return look_in_parts(*dev, model, ids, factors, looks);
    };
    o.adapters = names, o.speculation = proposes.options;
    to_stderr(cache_text(model.spec, decoder.state()));
    if (!chat)
      print_warnings(model_path, {fmt::format("the model has no chat template, so it answers /v1/completions, but no "
                                              "conversations; {} gives it one",
                                              chat_template_option(*model.tokenizer))});
    if (stated_pooling(model.metadata).empty())
      to_stderr(
          "toy: the model's file states no pooling, so embeddings are the mean of all tokens; \"pooling\" in a "
          "request says another\n");
    to_stderr(fmt::format("toy: requests that do not say how they are sampled use {}\n",
                          usual_sampling(model.metadata).text()));
    say_where(o.name, server.port());
    serve::serve(server, decoder, model, chat, o);
    to_stderr("toy: stopped\n");
  }
};

}  // namespace

void add_serve(CLI::App& app) { add_subcommand<Serve>(app, "serve", "Serve a model over HTTP, as OpenAI's API"); }

}  // namespace toy::cli
