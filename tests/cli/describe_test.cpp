// toy describe: the card, graphs in every format, memory over time, costs, the least time.
#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliDescribe : public Cli {
 protected:
  std::string out_of(const std::string& arguments) const {
    const Result r = toy("describe " + arguments);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.err;
    return r.out;
  }
  // Speeds that make times easy to tell: a FLOP takes 1 ns, memory counts for nothing.
  std::string slow_machine() const {
    return write("machine.json", R"({"fma_gflops": 1, "exp_gops": 1e15, "levels":
      [{"name": "memory", "bytes": 0, "read_gbs": 1e15, "copy_gbs": 1e15}]})");
  }
};

// A size goes before a run of its name, and says so.
TEST_F(CliDescribe, ASizeThatIsARunToo) {
  write("out/tiny/events.jsonl", "");
  const fs::path before = fs::current_path();
  fs::current_path(path());
  const Result r = toy("describe tiny");
  fs::current_path(before);
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "toy: tiny is the size; to describe the run: toy describe out/tiny\n");
}

TEST_F(CliDescribe, UnknownModelsAreComparedWithTheSizes) {
  refuses("describe tinny", {"'tinny'", "tiny, small, stories15m", "did you mean 'tiny'"});
  refuses("describe " + path("none.gguf"), {"none.gguf", "is not a file", "tiny"});
  refuses("describe " + path(), {"no model.gguf"});
}

TEST_F(CliDescribe, ARunIsItsFolder) {
  fs::create_directories(path("run"));
  fs::copy_file(TOY_GOLDEN, path("run/model.gguf"));
  EXPECT_EQ(out_of(path("run")), out_of(TOY_GOLDEN));
  // One that goes on, or was killed, is its newest checkpoint.
  fs::create_directories(path("killed/checkpoints/step_000002"));
  fs::create_directories(path("killed/checkpoints/step_000010"));
  fs::copy_file(TOY_GOLDEN, path("killed/checkpoints/step_000010/weights.gguf"));
  EXPECT_EQ(out_of(path("killed")), out_of(TOY_GOLDEN));
  EXPECT_EQ(out_of(path("killed/checkpoints/step_000010")), out_of(TOY_GOLDEN));
}

// What a run would train, before it has: a project of `toy new`, and options in a file.
TEST_F(CliDescribe, ARunToComeIsItsOptions) {
  ASSERT_EQ(toy("new " + path("project")).code, 0);
  const std::string card = out_of(path("project"));
  EXPECT_NE(card.find("D=64"), std::string::npos) << card;
  EXPECT_NE(card.find("V=512"), std::string::npos) << card;  // of its tokenizer, spm:512
  EXPECT_EQ(out_of(path("project/train.json")), card);
  EXPECT_EQ(out_of(write("config.json", R"({"size": "small", "steps": 3})")), out_of("small"));
  // The step is the run's own, unless the command line says something else.
  const std::string step = write("step.json", R"({"size": "tiny", "tokenizer": "bytes", "batch": 3, "tokens": 40,
                                                  "optimizer": "sgd", "update": "streaming"})");
  const std::string same = " --batch 3 --tokens 40 --optimizer sgd --update streaming";
  EXPECT_EQ(out_of(step), out_of(step + same));
  EXPECT_NE(out_of(step).find("B=3 T=40"), std::string::npos) << out_of(step);
  EXPECT_NE(out_of(step + " --tokens 50").find("B=3 T=50"), std::string::npos);
  fs::create_directories(path("ended"));
  fs::copy_file(TOY_GOLDEN, path("ended/model.gguf"));
  fs::copy_file(step, path("ended/config.json"));
  EXPECT_NE(out_of(path("ended")).find("B=3 T=40"), std::string::npos) << out_of(path("ended"));
  fs::create_directories(path("step"));
  write("step/config.json", R"({"size": "tiny", "batch": 7})");  // of the folder above it: not this run's
  fs::create_directories(path("step/below/ended"));
  fs::copy_file(TOY_GOLDEN, path("step/below/ended/model.gguf"));
  EXPECT_EQ(out_of(path("step/below/ended")).find("B=7"), std::string::npos);
  fs::create_directories(path("stopped/checkpoints/step_000002"));
  fs::copy_file(TOY_GOLDEN, path("stopped/checkpoints/step_000002/weights.gguf"));
  fs::copy_file(step, path("stopped/config.json"));
  EXPECT_NE(out_of(path("stopped")).find("B=3 T=40"), std::string::npos) << out_of(path("stopped"));
  const json layers =
      json::parse(out_of(write("layers.json", R"({"size": "tiny", "layers": "gdn,attn"})") + " --json"));
  EXPECT_EQ(layers.at("layers"), json::parse(R"({"attention": 2, "gated_delta": 2})"));
  EXPECT_EQ(layers.at("model").at("architecture"), "toy");
  refuses("describe " + write("bad.json", R"({"size": "tiny", "batch": -3})"), {"batch is -3"});
  refuses("describe " + write("bad.json", R"({"size": "tiny", "batch": 18446744073709551615})"),
          {"batch is 18446744073709551615"});
  for (const char* tokenizer : {"spm:99999999999999999999", "spm:0", "spm:", "spm", "bpe:", "words:512", "spm:512x"})
    refuses("describe " + write("bad.json", R"({"size": "tiny", "tokenizer": ")" + std::string(tokenizer) + "\"}"),
            {"tokenizer is '" + std::string(tokenizer) + "'"});
  for (const char* context : {"18446744073709551615", "-1"})
    refuses("describe " + write("bad.json", R"({"size": "tiny", "context": )" + std::string(context) + "}"),
            {"context is " + std::string(context)});
  const std::string longer = out_of(write("c.json", R"({"size": "small", "tokenizer": "unigram:300", "context": 77})"));
  EXPECT_NE(longer.find("V=300  context 77"), std::string::npos) << longer;
  const std::string bytes = out_of(write("bytes.json", R"({"size": "gpt2-124m", "tokenizer": "bytes"})"));
  EXPECT_NE(bytes.find("V=256"), std::string::npos) << bytes;
  // A folder of that name does not stand before the size, and not every config.json holds options.
  fs::create_directory(path("small"));
  EXPECT_EQ(out_of(path("config.json")), out_of("small"));
  fs::create_directory(path("other"));
  write("other/config.json", R"({"hidden_size": 3})");
  refuses("describe " + path("other"), {"no model.gguf"});
  EXPECT_EQ(out_of(write("warm.json", R"({"init": ")" + std::string(TOY_GOLDEN) + R"(", "size": null})")),
            out_of(TOY_GOLDEN));
  refuses("describe " + write("loop.json", R"({"size": "loop.json"})"), {"loop.json", "d_model"});
}

TEST_F(CliDescribe, ARunIsFoundByItsId) {
  fs::create_directories(path("runs/first"));
  fs::copy_file(TOY_GOLDEN, path("runs/first/model.gguf"));
  const std::string command = "cd " + path() + " && " TOY_BINARY " describe first >card.txt 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << slurp(path("card.txt"));
  EXPECT_EQ(slurp(path("card.txt")), out_of(TOY_GOLDEN));
  // As `toy runs` finds it: further down, by the beginning of its id.
  fs::create_directories(path("runs/book/second-001"));
  fs::rename(path("runs/first/model.gguf"), path("runs/book/second-001/model.gguf"));
  write("runs/book/second-001/events.jsonl", "");
  const std::string further = "cd " + path() + " && " TOY_BINARY " describe second >card.txt 2>&1";
  EXPECT_EQ(std::system(further.c_str()), 0) << slurp(path("card.txt"));
}

TEST_F(CliDescribe, TheCardCountsByPartAndLayer) {
  const json j = json::parse(out_of("tiny --json"));
  int64_t sum = 0;
  for (const auto& [name, n] : j.at("parts").items()) sum += n.get<int64_t>();
  EXPECT_EQ(sum, j.at("parameters"));
  const json& each = j.at("parts_of_a_layer");
  EXPECT_EQ(each.at("attention"), 64 * 64 + 2 * 32 * 64 + 64 * 64);  // q, k and v, output
  EXPECT_EQ(each.at("ffn"), 3 * 64 * 176);
  EXPECT_EQ(j.at("parts").at("ffn"), 4 * 3 * 64 * 176);
  EXPECT_NE(out_of("tiny").find("33792 in each of 4 layers"), std::string::npos);
}

TEST_F(CliDescribe, AGraphOfTrainingHasAllPhasesInEveryFormat) {
  const std::string graph = "tiny --batch 1 --tokens 8 --graph train";
  const std::string mermaid = out_of(graph + " --format mermaid"), svg = out_of(graph + " --format svg"),
                    text = out_of(graph);
  for (const std::string phase : {"forward", "backward", "update"}) {
    EXPECT_NE(mermaid.find("  subgraph " + phase + "\n"), std::string::npos) << phase;
    EXPECT_NE(svg.find(">" + phase + ": "), std::string::npos) << phase;
  }
  EXPECT_NE(text.find("(backward)"), std::string::npos);
  EXPECT_NE(text.find("(update)"), std::string::npos);
  std::vector<std::string> phases;
  const json nodes = json::parse(out_of(graph + " --format json")).at("nodes");
  for (const auto& n : nodes)
    if (n.contains("phase")) phases.push_back(n.at("phase"));
  for (const std::string phase : {"forward", "backward", "update"})
    EXPECT_NE(std::find(phases.begin(), phases.end(), phase), phases.end()) << phase;
  EXPECT_NE(svg.find(">blk.0 to blk.3: 4 times<"), std::string::npos);
  EXPECT_NE(svg.find("class=\"residual\""), std::string::npos);
  for (const char* row : {"q", "k", "gradient of attn_q.weight", "gradient of ffn_gate.weight"})
    EXPECT_NE(svg.find(">" + std::string(row) + "<"), std::string::npos) << row;
  EXPECT_EQ(svg.find("f32[1024,0]"), std::string::npos);  // outputs without elements are nothing to see
  const std::string blocks = out_of("tiny --graph forward --format svg --detail blocks");
  for (const char* part : {">norm<", ">attention<", ">q [64,64]<", ">k [32,64]<", ">v [32,64]<", ">ffn<",
                           ">gate [176,64]<", ">+ what entered the branch<", ">blk.0 to blk.3: 4 times<"})
    EXPECT_NE(blocks.find(part), std::string::npos) << part << "\n" << blocks;
  refuses("describe tiny --graph forward --detail blocks", {"--detail", "--format svg"});
  const std::string decode = out_of("tiny --graph decode --format svg");
  EXPECT_NE(decode.find("class=\"title\">logits<"), std::string::npos);
  EXPECT_EQ(decode.find("class=\"title\">embedding<"), decode.rfind("class=\"title\">embedding<"));
  const std::string forward = out_of("tiny --batch 1 --tokens 8 --graph forward --format svg");
  EXPECT_EQ(forward.find(">backward: "), std::string::npos);
  EXPECT_EQ(forward.rfind("<svg ", 0), 0u);
}

TEST_F(CliDescribe, OptimizerAndUpdateAreChosen) {
  const std::string graph = "tiny --batch 1 --tokens 8 --graph train ";
  EXPECT_NE(out_of(graph).find("adamw("), std::string::npos);
  const std::string sgd = out_of(graph + "--optimizer sgd");
  EXPECT_NE(sgd.find(" = sgd"), std::string::npos);
  EXPECT_EQ(sgd.find("adamw("), std::string::npos);
  EXPECT_NE(sgd.find("global_norm"), std::string::npos);
  EXPECT_EQ(out_of(graph + "--update streaming").find("global_norm"), std::string::npos);
  const auto peak = [&](const std::string& update) {
    return json::parse(out_of("tiny --batch 1 --tokens 8 --memory train --json --update " + update))
        .at("peak_bytes")
        .get<int64_t>();
  };
  EXPECT_LT(peak("streaming"), peak("gathered"));
  refuses("describe tiny --optimizer adamx", {"--optimizer: there is no 'adamx'", "did you mean 'adamw'"});
  refuses("describe tiny --update later", {"--update is 'later'", "gathered or streaming"});
}

TEST_F(CliDescribe, MemoryOverTime) {
  const json j = json::parse(out_of("tiny --memory train --json"));
  const json card = json::parse(out_of("tiny --json"));
  EXPECT_EQ(j.at("arena_bytes"), card.at("train").at("arena_bytes"));
  EXPECT_EQ(j.at("live").size(), card.at("train").at("steps"));
  EXPECT_EQ(*std::max_element(j.at("live").begin(), j.at("live").end()), j.at("peak_bytes"));
  EXPECT_LE(j.at("peak_bytes"), j.at("arena_bytes"));
  EXPECT_EQ(j.at("phases").front(), "forward");
  EXPECT_EQ(j.at("phases").back(), "update");
  const std::string text = out_of("tiny --memory train"), svg = out_of("tiny --memory train --format svg");
  EXPECT_NE(text.find("█"), std::string::npos);
  EXPECT_NE(text.find("in use: step " + j.at("peak_step").dump()), std::string::npos);
  EXPECT_NE(svg.find("class=\"backward\""), std::string::npos);
  EXPECT_NE(svg.find("the peak, "), std::string::npos);
}

TEST_F(CliDescribe, CostsOfLayersAndTheLeastTime) {
  const std::string machine = slow_machine(), tiny = "tiny --batch 2 --tokens 8 ";
  const json j = json::parse(out_of(tiny + "--cost train --json --ceilings " + machine));
  double flops = 0, seconds = 0;
  int blocks = 0;
  for (const auto& l : j.at("layers")) {
    if (l.at("layer").get<std::string>().starts_with("blk.")) blocks += l.at("count").get<int>();
    for (const char* phase : {"forward", "backward", "update"}) {
      flops += l.at("count").get<double>() * l.at(phase).at("flops").get<double>();
      seconds += l.at("count").get<double>() * l.at(phase).at("least_seconds").get<double>();
    }
  }
  EXPECT_EQ(blocks, 4);
  EXPECT_DOUBLE_EQ(flops, j.at("total").at("flops"));  // whole numbers: exact
  EXPECT_NEAR(seconds, flops * 1e-9, flops * 1e-9 * 1e-12);
  const json card = json::parse(out_of(tiny + "--json --ceilings " + machine));
  EXPECT_NEAR(card.at("train").at("least_seconds").get<double>(), seconds, seconds * 1e-12);
  EXPECT_GT(card.at("decode").at("least_seconds_per_token").get<double>(), 0);
  EXPECT_NE(out_of(tiny + "--cost train --ceilings " + machine).find("at best"), std::string::npos);
  EXPECT_EQ(out_of(tiny + "--cost train").find("at best"), std::string::npos);
  EXPECT_NE(out_of(tiny + "--ceilings " + machine).find("tokens/s by the ceilings"), std::string::npos);
}

// Three layers of Gated DeltaNet and one of attention, D=64 with heads of width 16: 4 of queries, 2 of keys and values,
// 4 of each kind in Gated DeltaNet.
TEST_F(CliDescribe, NamesEveryMixer) {
  const std::string file = write("all.json", R"({"architecture": "toy", "n_layers": 8, "d_model": 32, "n_heads": 2,
      "n_kv": 1, "d_ff": 40, "vocab": 31, "context": 64, "layers": "gdn,kda,mla,mamba2,conv,longconv,attn,ffn"})");
  const json j = json::parse(out_of(file + " --json"));
  EXPECT_EQ(j.at("layers").size(), 8u) << j.at("layers");
  EXPECT_EQ(j.at("decode").at("recurrent_layers"), 5);  // latent attention keeps all positions
  const std::string card = out_of(file);
  for (const char* line :
       {"1 Kimi Delta", "1 ffn alone", "H=2 K=1 P=16 (query heads, kv heads, head width)",
        "\n  Gated DeltaNet: K=2 H=2 P=16 (key heads, value heads, head width), convolution of 4 positions\n",
        "\n  Mamba-2: H=4 P=16 S=64 G=1 (heads, head width, columns of a state, groups), convolution of 4 positions\n",
        "\n  short convolution: W=3 (positions)\n", "\n  long convolution: W=1024 (positions)\n",
        "\n  Kimi Delta: H=2 P=16 (heads, head width), convolution of 4 positions\n",
        "\n  latent attention: H=2 Z=64 K=16 S=0 V=16 (heads, latent width, key width, shared key width, value "
        "width)\n"})
    EXPECT_NE(card.find(line), std::string::npos) << line << "\n" << card;
  EXPECT_EQ(card.find("ffn alone:"), std::string::npos);
}

// Where attention cannot have the dimensions that a recurrent model states and ignores, there is no comparison.
TEST_F(CliDescribe, DimensionsThatNoLayerUses) {
  for (const char* ignored :
       {R"("n_kv": 3)", R"("d_head": 1000000000000)", R"("rope_dims": 1000)", R"("n_heads": 3)"}) {
    const std::string file = write("ignored.json", std::string(R"({"architecture": "toy", "n_layers": 2, "d_model": 32,
        "n_heads": 2, "n_kv": 1, "d_head": 16, "d_ff": 40, "vocab": 31, "context": 64, "mixer": "gated_delta",
        "delta_key_heads": 2, "delta_value_heads": 2, "delta_width": 16, )") +
                                                       ignored + "}");
    out_of(file + " --cost");
  }
}

TEST_F(CliDescribe, TheCardOfAHybrid) {
  const json j = json::parse(out_of("hybrid-tiny --json"));
  EXPECT_EQ(j.at("layers"), json::parse(R"({"attention": 1, "gated_delta": 3})"));
  const int64_t attention = 2 * 64 * 64 + 2 * 32 * 64 + 64 * 64;                      // q and its gate, k and v, output
  const int64_t recurrent = (3 + 1 + 1) * 64 * 64 + 2 * 4 * 64 + 3 * 64 * 4 + 2 * 4;  // maps, beta and alpha, conv
  EXPECT_EQ(j.at("parts_of_a_layer").at("attention"), attention);
  EXPECT_EQ(j.at("parts_of_a_layer").at("recurrent"), recurrent);
  EXPECT_EQ(j.at("parts_of_a_layer").at("ffn"), 3 * 64 * 176);
  EXPECT_EQ(j.at("parts").at("recurrent"), 3 * recurrent);
  int64_t sum = 0;
  for (const auto& [name, n] : j.at("parts").items()) sum += n.get<int64_t>();
  EXPECT_EQ(sum, j.at("parameters"));
  const json& decode = j.at("decode");
  const int64_t state = 3 * 4 * (4 * 16 * 16 + 3 * 3 * 64), cache = 4 * 512 * 2 * 2 * 16;
  EXPECT_EQ(decode.at("recurrent_layers"), 3);
  EXPECT_EQ(decode.at("recurrent_state_bytes"), state);
  EXPECT_EQ(decode.at("recurrent_as_attention_bytes"), 3 * cache);
  EXPECT_EQ(decode.at("state_bytes"), state + cache);
  EXPECT_EQ(decode.at("snapshot_bytes"), state);
  const std::string text = out_of("hybrid-tiny");
  for (const char* words :
       {"4 layers (3 Gated DeltaNet, 1 gated causal attention)", "H=4 K=2 P=16", "K=4 H=4 P=16", "convolution of 4",
        "on 4 elements of a head", "in each of 3 layers", "384.0 KiB of keys", "a snapshot takes"})
    EXPECT_NE(text.find(words), std::string::npos) << words;
  EXPECT_EQ(text.find("a layer has"), std::string::npos);
  const std::string no_attention = out_of(write("gdn.json", R"({"architecture": "toy", "d_model": 32, "n_layers": 2,
      "n_heads": 2, "d_ff": 64, "mixer": "gated_delta", "delta_key_heads": 2, "delta_value_heads": 4,
      "delta_width": 8})"));
  EXPECT_NE(no_attention.find("2 layers of Gated DeltaNet and swiglu"), std::string::npos);
  EXPECT_NE(no_attention.find("K=2 H=4 P=8 (key heads, value heads, head width), no convolution"), std::string::npos);
  EXPECT_EQ(no_attention.find("query heads"), std::string::npos);
}

TEST_F(CliDescribe, CostsOfATokenByPosition) {
  const json j = json::parse(out_of("hybrid-tiny --cost --json"));
  EXPECT_EQ(j, json::parse(out_of("hybrid-tiny --cost decode --json")));
  const json& layers = j.at("token").at("layers");
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].at("mixer"), "gated_delta");
  EXPECT_EQ(layers[0].at("count"), 3);
  EXPECT_EQ(layers[1].at("mixer"), "attention");
  const auto at = [&](int layer, int i, const char* key) {
    return layers[size_t(layer)].at("at")[size_t(i)].at(key).get<int64_t>();
  };
  const int64_t position = 4 * 2 * 2 * 16, row = 4 * 4 * 16;  // bytes and FLOPs that a position adds
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(at(0, i, "state_bytes"), 4 * (4 * 16 * 16 + 3 * 3 * 64));
    EXPECT_EQ(at(0, i, "flops"), at(0, 0, "flops"));
    EXPECT_EQ(at(1, i, "position"), (std::vector<int64_t>{1, 512, 8192})[size_t(i)]);
    EXPECT_EQ(at(1, i, "flops"), at(1, 0, "flops") + (at(1, i, "position") - 1) * row);
    EXPECT_EQ(at(1, i, "state_bytes"), std::max<int64_t>(64, at(1, i, "position")) * position);  // a page at least
  }
  EXPECT_GT(at(0, 0, "flops"), 2 * (5 * 64 * 64 + 3 * 64 * 176) + 7 * 4 * 16 * 16);  // maps, ffn, rule
  // The first position from which attention takes more.
  const int64_t from = j.at("token").at("recurrent_cheaper_from");
  EXPECT_GT(at(1, 0, "flops") + (from - 1) * row, at(0, 0, "flops"));
  EXPECT_LE(at(1, 0, "flops") + (from - 2) * row, at(0, 0, "flops"));
  // Where only FLOPs take time, the time says the same.
  const json timed = json::parse(out_of("hybrid-tiny --cost --json --ceilings " + slow_machine()));
  EXPECT_EQ(timed.at("token").at("recurrent_cheaper_from"), from);
  const json& last = timed.at("token").at("layers")[1].at("at")[2];
  EXPECT_NEAR(last.at("least_seconds").get<double>(), 1e-9 * double(at(1, 2, "flops")), 1e-18);
  const std::string text = out_of("hybrid-tiny --cost");
  EXPECT_NE(text.find("from position " + std::to_string(from) + " on"), std::string::npos);
  EXPECT_EQ(out_of("hybrid-tiny --cost train").find("position"), std::string::npos);
  // Within a context that is too short, there is none.
  EXPECT_TRUE(
      json::parse(out_of("hybrid-tiny --cost --json --ctx 16")).at("token").at("recurrent_cheaper_from").is_null());
}

TEST_F(CliDescribe, NamesWhatADeviceHasNoKernelFor) {
  const std::string card = out_of("gpt2-tiny --device emulated");
  EXPECT_NE(card.find("  emulated has no kernel for layer_norm, layer_norm_grad: their decompositions run\n"),
            card.npos)
      << card;
  const json all = json::parse(out_of("gpt2-tiny --device emulated --json"));
  EXPECT_EQ(all.at("train").at("decomposed"), json({"layer_norm", "layer_norm_grad"}));
  EXPECT_EQ(all.at("decode").at("decomposed"), json({"layer_norm"}));
  EXPECT_EQ(out_of("tiny --device emulated").find("no kernel"), std::string::npos);
}

TEST_F(CliDescribe, CostsOfATokenWithoutRecurrentLayers) {
  const json tiny = json::parse(out_of("tiny --cost --json")).at("token");
  EXPECT_FALSE(tiny.contains("recurrent_layers"));
  EXPECT_EQ(tiny.at("layers").size(), 1u);
  // Learned positions end at the context.
  EXPECT_EQ(json::parse(out_of("gpt2-tiny --cost --json")).at("token").at("layers")[0].at("at").size(), 2u);
  // A window is all that a token sees, and with a page or two all that is kept.
  const json at = json::parse(out_of(write("window.json", R"({"d_model": 64, "n_layers": 2, "n_heads": 4, "d_ff": 64,
      "window": 128})") + " --cost --json"))
                      .at("token")
                      .at("layers")[0]
                      .at("at");
  EXPECT_EQ(at[1].at("flops"), at[2].at("flops"));
  EXPECT_EQ(at[1].at("flops").get<int64_t>(), at[0].at("flops").get<int64_t>() + 127 * 4 * 64);
  EXPECT_LE(at[2].at("state_bytes").get<int64_t>(), (128 + 3 * 64) * 4 * 2 * 64);
}

TEST_F(CliDescribe, CeilingsOfABusyMachineAreDoubted) {
  const Result r = toy("describe tiny --ceilings " + write("busy.json", R"({"fma_gflops": 1, "exp_gops": 1, "levels":
      [{"name": "L1", "bytes": 65536, "read_gbs": 1, "copy_gbs": 1},
       {"name": "memory", "bytes": 0, "read_gbs": 10, "copy_gbs": 10}]})"));
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.err.find("the machine was busy"), std::string::npos) << r.err;
  EXPECT_EQ(toy("describe tiny --ceilings " + slow_machine()).err, "");
}

TEST_F(CliDescribe, CeilingsOfThisMachine) {
  EXPECT_GT(json::parse(out_of("tiny --json --ceilings here")).at("train").at("least_seconds").get<double>(), 0);
}

// File names are any bytes; JSON and SVG are not.
TEST_F(CliDescribe, NamesThatAreNotUtf8) {
  const std::string name = "\"$(printf '" + path("m\\377\"\\n.gguf") + "')\"";
  ASSERT_EQ(std::system(("cp " + std::string(TOY_GOLDEN) + " " + name).c_str()), 0);
  for (const char* options : {" --graph train --format svg", " --memory train --format svg"}) {
    const std::string svg = out_of(name + options);
    EXPECT_EQ(svg.find('\xff'), std::string::npos) << options;
    EXPECT_NE(svg.find("m\xEF\xBF\xBD&quot;?.gguf"), std::string::npos) << options;
  }
  for (const std::string& command : {"describe " + name + " --json",
                                     "bench infer " + name + " --json --prompt 2 --decode 1 --repeat 1 --threads 1"}) {
    const Result r = toy(command);
    ASSERT_EQ(r.code, 0) << command << r.err;
    EXPECT_TRUE(json::accept(r.out)) << command;
  }
}

TEST_F(CliDescribe, OptionsThatWouldDoNothing) {
  for (const char* option : {"--batch 2", "--tokens 8", "--optimizer sgd", "--update streaming"})
    refuses("describe tiny --graph decode " + std::string(option),
            {std::string(option).substr(0, 7), "changes nothing", "'decode'"});
  for (const char* option : {"--ctx 64", "--rows 2"})
    refuses("describe tiny --memory train " + std::string(option),
            {std::string(option).substr(0, 5), "changes nothing", "'train'"});
  refuses("describe tiny --graph forward --optimizer sgd", {"--optimizer", "'forward'"});
  refuses("describe tiny --graph decode --ctx 64 --rows 65", {"--rows is 65", "1 to 64"});
}

TEST_F(CliDescribe, BadOptions) {
  refuses("describe tiny --graph traini", {"--graph", "'traini'", "'train'"});
  refuses("describe tiny --memory all", {"--memory", "'all'", "train, forward or decode"});
  refuses("describe tiny --graph train --plan train", {"--graph and --plan", "one of them"});
  refuses("describe tiny --graph train --memory train", {"--graph and --memory", "one of them"});
  refuses("describe tiny --graph train --format jsn", {"--format", "'jsn'", "'json'"});
  refuses("describe tiny --memory train --format mermaid", {"mermaid", "--graph"});
  refuses("describe tiny --format svg", {"svg", "--graph or --memory"});
  refuses("describe tiny --graph train --json --format svg", {"--json", "svg"});
  refuses("describe tiny --json --format text", {"--json", "text"});
  EXPECT_EQ(toy("describe tiny --json --format json").code, 0);
  const Result small = toy("describe tiny --limit 1M");  // --memory is something else here
  EXPECT_EQ(small.code, 2);
  EXPECT_NE(small.err.find("limit: 1.0 MiB is not enough"), std::string::npos) << small.err;
  EXPECT_NE(small.err.find("Use --limit "), std::string::npos) << small.err;
  refuses("describe tiny --rows 0", {"--rows is 0", "1 or more"});
  refuses("describe tiny --memory train --ceilings here", {"ceilings", "--cost"});
  refuses("describe tiny --ceilings " + path("none.json"), {"none.json"});
  refuses("describe tiny --ceilings " + write("text.json", "hello"), {"text.json", "toy bench machine --json"});
  refuses("describe tiny --ceilings " + write("part.json", R"({"fma_gflops": 1})"), {"exp_gops"});
  refuses("describe tiny --ceilings " + write("zero.json", R"({"fma_gflops": 0, "exp_gops": 1, "levels":
          [{"bytes": 0, "read_gbs": 1, "copy_gbs": 1}]})"),
          {"a speed is 0"});
}

}  // namespace
