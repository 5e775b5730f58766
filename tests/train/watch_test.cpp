// Looking into a run: patterns, names, statistics, and that looking changes nothing.
#include "toy/train/watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "testing/errors.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/glob.h"
#include "toy/graph/op_def.h"
#include "toy/models/adapter.h"
#include "toy/runtime/session.h"
#include "train_testing.h"

namespace toy::watch_test {
namespace {

using testing::error_of;

ModelSpec small_spec(bool tied = true, int64_t layers = 2) {
  return testing::small_model("tiny", {.vocab = 61,
                                       .d_model = 24,
                                       .context = 32,
                                       .tied = tied,
                                       .layers = layers,
                                       .heads = 2,
                                       .kv_heads = 1,
                                       .d_head = 12,
                                       .d_ff = 40});
}

TEST(Watch, Patterns) {
  for (const auto& [pattern, name, fits] :
       {std::tuple("*", "", true), std::tuple("*", "anything", true),
        std::tuple("blk.*.attn_q*", "blk.11.attn_q.weight", true),
        std::tuple("blk.*.attn_q", "blk.1.attn_q.weight", false), std::tuple("blk.?.out", "blk.1.out", true),
        std::tuple("blk.?.out", "blk.11.out", false), std::tuple("a*b*c", "abbbc", true),
        std::tuple("a*b*c", "acb", false), std::tuple("blk.[01].x", "blk.1.x", true),
        std::tuple("blk.[01].x", "blk.2.x", false), std::tuple("a", "a", true), std::tuple("a", "ab", false)})
    EXPECT_EQ(matches(pattern, name), fits) << pattern << " " << name;
}

TEST(Watch, PatternsWithPeriods) {
  const Watch plain = parse_watch("tap", "x_final"), every = parse_watch("tap", "blk.*:50");
  EXPECT_EQ(plain.pattern, "x_final");
  EXPECT_EQ(plain.every, 10);
  EXPECT_EQ(every.pattern, "blk.*");
  EXPECT_EQ(every.every, 50);
  for (const auto& [step, due] : {std::pair(1, true), std::pair(2, false), std::pair(50, true), std::pair(51, false)})
    EXPECT_EQ(every.due(step), due) << step;
  for (const char* bad : {"", ":5", "a:0", "a:-1", "a:x", "a:1.5", "a:", "a:99999999999999999999"})
    EXPECT_NE(error_of([&] { parse_watch("tap", bad); }).find("tap: '"), std::string::npos) << bad;
}

TEST(Watch, StatisticsAreTheirDefinitions) {
  const std::vector<float> v{-2, 0, 1, 5, NAN, INFINITY};
  const runs::TensorStats s = stats_of(v);
  EXPECT_EQ(s.count, 6);
  EXPECT_EQ(s.nonfinite, 2);
  EXPECT_EQ(s.mean, 1);
  EXPECT_EQ(s.rms, std::sqrt(30.0 / 4));
  EXPECT_EQ(s.min, -2);
  EXPECT_EQ(s.max, 5);
  EXPECT_EQ(s.absmax, 5);
  std::vector<int64_t> counts(16, 0);
  counts[0] = counts[4] = counts[6] = counts[15] = 1;  // (0+2)/7*16 = 4.6, (1+2)/7*16 = 6.9, the top in the last bin
  EXPECT_EQ(s.histogram.counts, counts);
  const runs::TensorStats constant = stats_of(std::vector<float>(3, 2.0f));
  EXPECT_EQ(constant.histogram.counts[0], 3);
  EXPECT_TRUE(std::isnan(stats_of({}).mean));
  EXPECT_TRUE(std::isnan(stats_of(std::vector<float>{NAN}).rms));
}

TEST(Watch, NamesFollowTheWeights) {
  const TrainGraph t = build_train_graph(small_spec(), testing::all_f32, {.batch = 1, .tokens = 8});
  std::set<std::string> names;
  for (const auto& [name, value] : named_values(*t.graph)) {
    EXPECT_TRUE(names.insert(name).second) << name << " twice";
    EXPECT_EQ(t.graph->node(value).phase, Phase::forward) << name;
  }
  for (const char* name : {"x_embed", "blk.0.attn_norm", "blk.0.attn_q", "blk.0.attention", "blk.1.ffn_down",
                           "blk.0.out", "blk.1.out", "x_final"})
    EXPECT_TRUE(names.contains(name)) << name;
}

// What a training of some steps tells and computes.
struct Told {
  std::vector<double> losses, norms;
  std::vector<float> weights;
  std::vector<runs::Event> events;
};

const TrainerOptions kPlain{.batch = 2, .tokens = 16, .optimizer = {}, .seed = 3};

// `first_alone`: of a step that sums over several batches, all but the first are padding.
Told train(const WatchOptions& watch, const TrainerOptions& options = kPlain, const ModelSpec& spec = small_spec(),
           bool first_alone = false) {
  const auto device = make_test_device(2);
  Model model = random_model(spec, *device, 9);
  const auto ids = testing::random_ids(800, 61, Philox(5, "ids"));
  const WindowSampler sampler(ids, options.batch * options.accumulate, options.tokens, 1);
  Trainer trainer(*device, model, options);
  Watcher watcher(watch, *device, model, options);
  Told told;
  const auto tell = [&](const runs::Event& e) { told.events.push_back(e); };
  for (int64_t step = 1; step <= 6; ++step) {
    Windows w = sampler.batch(step - 1);
    for (int32_t i = 0; first_alone && i < int32_t(w.inputs.size()); ++i) {
      w.sequence.push_back(i < options.batch * options.tokens ? i / int32_t(options.tokens) : -1);
      w.position.push_back(i % int32_t(options.tokens));
    }
    watcher.before(step, w, trainer, tell);
    const StepResult r = trainer.step(w, 1e-2);
    watcher.after(step, trainer, tell);
    told.losses.push_back(r.loss);
    told.norms.push_back(r.grad_norm.value_or(NAN));
  }
  told.weights = model.params->read("blk.1.ffn_down.weight");
  return told;
}

const WatchOptions kEverything{.taps = {{"*", 3}}, .grads = {{"*", 2}}, .drifts = {{"*", 1}}, .op_timings = {{"*", 2}}};

TEST(Watcher, LookingChangesNoBit) {
  TrainerOptions accumulate = kPlain, streaming = kPlain;
  accumulate.accumulate = 2;
  streaming.updates = TrainerOptions::streaming, streaming.optimizer.clip = 0;
  std::set<std::string> first_taps;
  for (const TrainerOptions& options : {kPlain, accumulate, streaming}) {
    const Told without = train({}, options), with = train(kEverything, options);
    EXPECT_TRUE(without.events.empty());
    EXPECT_EQ(with.losses, without.losses);
    EXPECT_EQ(with.weights, without.weights);
    if (options.updates == TrainerOptions::gathered) {
      EXPECT_EQ(with.norms, without.norms);
    }
    // What is there to look at depends neither on how gradients are summed nor on how they are used.
    std::set<std::string> taps;
    for (const runs::Event& e : with.events)
      if (const runs::Tap* t = e.as<runs::Tap>()) taps.insert(t->name);
    EXPECT_FALSE(taps.empty());
    if (first_taps.empty()) first_taps = taps;
    EXPECT_EQ(taps, first_taps);
  }
}

// The gradients that are told are the step's own: their norm is the step's, with dropout too. Of several batches they
// are the first one's, with its dropout.
TEST(Watcher, GradientsAreTheSteps) {
  for (const auto& [dropout, accumulate] : {std::pair(0.0, 1), {0.2, 1}, {0.2, 2}}) {
    TrainerOptions options = kPlain;
    options.dropout = dropout, options.accumulate = accumulate;
    const Told told = train({.grads = {{"*", 1}}}, options, small_spec(false), accumulate > 1);
    std::map<int64_t, double> squares;
    std::map<int64_t, double> count;
    for (const runs::Event& e : told.events) {
      const runs::Grad* g = e.as<runs::Grad>();
      ASSERT_TRUE(g);
      squares[*e.step] += g->rms * g->rms * double(g->count);
      count[*e.step] += double(g->count);
    }
    ASSERT_EQ(squares.size(), 6u);
    // The step sums squares in f32 in some order: at most one rounding a term, half of that in the root.
    for (const auto& [step, sum] : squares) {
      const double norm = told.norms[size_t(step - 1)];
      EXPECT_NEAR(std::sqrt(sum), norm, norm * count[step] / 2 * 0x1p-24) << step;
    }
  }
}

TEST(Watcher, EachPatternHasItsPeriod) {
  const Told told = train({.taps = {{"x_final", 2}, {"logits", 5}}});
  std::map<std::string, std::vector<int64_t>> steps;
  for (const runs::Event& e : told.events) {
    const runs::Tap* t = e.as<runs::Tap>();
    ASSERT_TRUE(t);
    steps[t->name].push_back(*e.step);
    EXPECT_EQ(t->count, 2 * 16 * (t->name == "logits" ? 61 : 24));
    EXPECT_EQ(t->nonfinite, 0);
    EXPECT_GT(t->rms, 0);
  }
  EXPECT_EQ(steps["x_final"], (std::vector<int64_t>{1, 2, 4, 6}));
  EXPECT_EQ(steps["logits"], (std::vector<int64_t>{1, 5}));
}

// With an adapter of the output, a divisor and a softcap: the logits of the first step are those of the forward pass.
TEST(Watcher, LogitsAreTheModels) {
  const auto device = make_test_device(2);
  ModelSpec spec = small_spec();
  spec.architecture = "toy", spec.logit_divisor = 3, spec.logit_softcap = 2;
  Model model = random_model(spec, *device, 9, 4);
  model.spec.adapters = {lora_adapter(model.spec, {.rank = 4, .targets = {"output", "attn_q"}})};
  model.spec.roles.train = {"*.lora_[ab]"};
  add_adapter_weights(model, 5);
  const Philox random(3, "b");
  std::vector<float> b = model.params->read("output.weight.lora_b");
  for (size_t i = 0; i < b.size(); ++i) b[i] = float(random.normal(i));
  model.params->write("output.weight.lora_b", b);

  const auto ids = testing::random_ids(800, 61, Philox(5, "ids"));
  const Windows w = WindowSampler(ids, kPlain.batch, kPlain.tokens, 1).batch(0);
  const LossGraph l = build_loss_graph(model.spec, testing::all_f32, kPlain.batch, kPlain.tokens);
  Session session(*device, std::make_shared<const Plan>(compile(*l.graph, std::vector<Value>{l.logits}, {}, *device)),
                  {model.params.get()});
  std::vector<int32_t> sequence, position;
  for (int32_t i = 0; i < 32; ++i) sequence.push_back(i / 16), position.push_back(i % 16);
  session.set("tokens", w.inputs), session.set("sequence", sequence), session.set("position", position);
  session.run();
  const runs::TensorStats want = stats_of(session.values(0));

  Trainer trainer(*device, model, kPlain);
  Watcher watcher({.taps = {{"logits", 1}}}, *device, model, kPlain);
  std::vector<runs::Event> events;
  watcher.before(1, w, trainer, [&](const runs::Event& e) { events.push_back(e); });
  ASSERT_EQ(events.size(), 1u);
  const runs::Tap& tap = *events[0].as<runs::Tap>();
  EXPECT_EQ(tap.count, 2 * 16 * 61);
  EXPECT_EQ(tap.rms, want.rms);
  EXPECT_EQ(tap.min, want.min);
  EXPECT_EQ(tap.max, want.max);
  EXPECT_LE(want.absmax, 2);
  EXPECT_GT(want.absmax, 1);
}

// x_final is an rms_norm with gains of one: at the first step its rms is 1, but for epsilon and rounding.
TEST(Watcher, TapsSeeTheValues) {
  const Told told = train({.taps = {{"x_final", 100}}});
  ASSERT_EQ(told.events.size(), 1u);
  const double rms = told.events[0].as<runs::Tap>()->rms;
  EXPECT_LE(rms, 1 + 32 * 0x1p-24);
  EXPECT_GT(rms, 0.9);  // epsilon 1e-5 beside a mean square of at least 1e-4
}

// ---- recurrences

ModelSpec recurrent_spec() {
  ModelSpec s = small_spec(true, 3);
  set_layers(s, "gdn(delta_key_heads=1,delta_value_heads=2,delta_width=8),kda(delta_width=8),mamba2");
  return s;
}

// Two windows of 16: documents of 9 and 7 tokens, and one of 12 before padding.
Windows packed() {
  const auto ids = testing::random_ids(33, 61, Philox(5, "ids"));
  Windows w{{ids.begin(), ids.end() - 1}, {ids.begin() + 1, ids.end()}};
  for (const auto& [sequence, count] : {std::pair(0, 9), {1, 7}, {2, 12}, {-4, 4}})
    for (int32_t i = 0; i < count; ++i) w.sequence.push_back(sequence), w.position.push_back(i);
  return w;
}

// The operands of every recurrence of the first step, and what they say of decay, beta and the norms of states: plain
// loops over tokens, in double.
std::map<std::string, std::vector<float>> plain_recurrences(Device& device, const Model& model) {
  const TrainGraph t = build_train_graph(model.spec, testing::all_f32, kPlain);
  std::vector<Value> outputs;
  std::vector<std::pair<std::string, DeltaRuleAttrs>> ops;
  for (const Node& n : t.graph->nodes())
    if (n.kind == NodeKind::op && n.op->name() == "gated_delta_rule") {
      ops.emplace_back(n.layer.path, n.attrs.as<DeltaRuleAttrs>());
      outputs.insert(outputs.end(), n.inputs.begin() + 1, n.inputs.begin() + 5);
    }
  Session s(device, std::make_shared<const Plan>(compile(*t.graph, outputs, {}, device, {})), {model.params.get()});
  const Windows w = packed();
  s.set("tokens", w.inputs);
  s.set("sequence", w.sequence);
  s.set("position", w.position);
  s.run();
  std::map<std::string, std::vector<float>> result;
  for (size_t op = 0; op < ops.size(); ++op) {
    const auto& [path, attrs] = ops[op];
    const auto k = s.values(4 * op), v = s.values(4 * op + 1), g = s.values(4 * op + 2), beta = s.values(4 * op + 3);
    const int64_t K = outputs[4 * op].dim(1), P = outputs[4 * op].dim(2), H = outputs[4 * op + 1].dim(1),
                  V = outputs[4 * op + 1].dim(2), gates = int64_t(g.size()) / 32 / H;
    for (const float x : g) result[path + ".decay"].push_back(std::exp(x));
    result[path + ".beta"].assign(beta.begin(), beta.end());
    for (int64_t window = 0; window < 2; ++window)
      for (int64_t h = 0; h < H; ++h) {
        const int64_t key = attrs.heads == HeadMap::tile ? h % K : h / (H / K);
        std::vector<double> state(size_t(P * V));
        for (int64_t n = 16 * window; n < 16 * window + 16 && w.sequence[size_t(n)] >= 0; ++n) {
          if (w.position[size_t(n)] == 0) std::fill(state.begin(), state.end(), 0);
          for (int64_t j = 0; j < V; ++j) {
            double error = v[size_t((n * H + h) * V + j)];
            for (int64_t i = 0; i < P; ++i) {
              double& x = state[size_t(i * V + j)];
              x *= std::exp(double(g[size_t((n * H + h) * gates + i % gates)]));
              if (attrs.delta) error -= x * k[size_t((n * K + key) * P + i)];
            }
            for (int64_t i = 0; i < P; ++i)
              state[size_t(i * V + j)] += k[size_t((n * K + key) * P + i)] * beta[size_t(n * H + h)] * error;
          }
        }
        double squares = 0;
        for (const double x : state) squares += x * x;
        result[path + ".state_norm"].push_back(float(std::sqrt(squares)));
      }
  }
  return result;
}

TEST(Watcher, RecurrencesAreWhatTheyAreCalled) {
  const auto device = make_test_device(2);
  Model model = random_model(recurrent_spec(), *device, 9);
  const auto expected = plain_recurrences(*device, model);
  ASSERT_EQ(expected.size(), 9u);
  Trainer trainer(*device, model, kPlain);
  Watcher watcher({.taps = {{"blk.*.decay"}, {"blk.*.beta"}, {"blk.*.state_norm"}}}, *device, model, kPlain);
  std::map<std::string, runs::TensorStats> told;
  watcher.before(1, packed(), trainer,
                 [&](const runs::Event& e) { told[e.as<runs::Tap>()->name] = *e.as<runs::Tap>(); });
  ASSERT_EQ(told.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const runs::TensorStats plain = stats_of(values);
    ASSERT_TRUE(told.contains(name)) << name;
    const runs::TensorStats& seen = told.at(name);
    EXPECT_EQ(seen.count, plain.count) << name;
    // 16 tokens of sums of at most 16 terms, which a state forgets again.
    const double room = 16 * (16 + 8) * 0x1p-24 * plain.absmax;
    EXPECT_NEAR(seen.mean, plain.mean, room) << name;
    EXPECT_NEAR(seen.rms, plain.rms, room) << name;
    EXPECT_NEAR(seen.min, plain.min, room) << name;
    EXPECT_NEAR(seen.max, plain.max, room) << name;
    EXPECT_GT(plain.max - plain.min, 100 * room) << name;
  }
}

TEST(Watcher, LookingAtRecurrencesChangesNoBit) {
  const Told without = train({}, kPlain, recurrent_spec()), with = train(kEverything, kPlain, recurrent_spec());
  EXPECT_EQ(with.losses, without.losses);
  EXPECT_EQ(with.norms, without.norms);
  EXPECT_EQ(with.weights, without.weights);
}

TEST(Watcher, DriftIsItsDefinition) {
  const auto device = make_test_device(1);
  Model model = random_model(small_spec(), *device, 9);
  const TrainerOptions options{.batch = 1, .tokens = 8};
  Trainer trainer(*device, model, options);
  Watcher watcher({.drifts = {{"token_embd.weight", 1}, {"blk.0.attn_norm.weight", 1}}}, *device, model, options);
  std::vector<float> w = model.params->read("token_embd.weight");
  const std::vector<float> init = w;
  for (size_t i = 0; i < 24; ++i) w[5 * 24 + i] *= -1;  // one row turned around
  model.params->write("token_embd.weight", w);
  std::map<std::string, runs::Drift> drifts;
  watcher.after(1, trainer, [&](const runs::Event& e) { drifts[e.as<runs::Drift>()->name] = *e.as<runs::Drift>(); });
  ASSERT_EQ(drifts.size(), 2u);
  double all = 0, row = 0;
  for (size_t i = 0; i < init.size(); ++i) all += double(init[i]) * init[i];
  for (size_t i = 0; i < 24; ++i) row += double(init[5 * 24 + i]) * init[5 * 24 + i];
  const runs::Drift& d = drifts["token_embd.weight"];
  const double tiny = double(init.size()) * 0x1p-52;
  EXPECT_NEAR(d.l2_to_init, 2 * std::sqrt(row), 2 * std::sqrt(row) * tiny);
  EXPECT_NEAR(d.cos_to_init, 1 - 2 * row / all, tiny);
  EXPECT_NEAR(d.l2, std::sqrt(all), std::sqrt(all) * tiny);
  ASSERT_TRUE(d.rows);
  EXPECT_EQ(d.rows->size(), 8u);
  EXPECT_EQ(d.rows->front().row, 5);
  EXPECT_NEAR(d.rows->front().cos_to_init, -1, tiny);
  EXPECT_EQ(drifts["blk.0.attn_norm.weight"].l2_to_init, 0);
  EXPECT_FALSE(drifts["blk.0.attn_norm.weight"].rows);
}

TEST(Watcher, TimesEveryOp) {
  TrainerOptions accumulate = kPlain;  // the optimizer is a plan of its own
  accumulate.accumulate = 2;
  for (const TrainerOptions& options : {kPlain, accumulate}) {
    const Told told = train({.op_timings = {{"*", 3}}}, options);
    std::set<int64_t> steps;
    std::set<std::string> passes;
    for (const runs::Event& e : told.events) {
      const runs::OpTiming* o = e.as<runs::OpTiming>();
      ASSERT_TRUE(o);
      steps.insert(*e.step), passes.insert(o->pass);
      EXPECT_GT(o->calls, 0);
      EXPECT_GE(o->us, 0);
    }
    EXPECT_EQ(steps, (std::set<int64_t>{1, 3, 6}));
    EXPECT_EQ(passes, (std::set<std::string>{"backward", "forward", "update"}));
  }
}

TEST(Watcher, TimesOpsByName) {
  std::map<std::string, std::set<int64_t>> steps;
  for (const runs::Event& e : train({.op_timings = {{"linear*", 2}, {"adamw", 5}}}).events)
    steps[e.as<runs::OpTiming>()->op].insert(*e.step);
  EXPECT_EQ(steps.at("linear"), (std::set<int64_t>{1, 2, 4, 6}));
  EXPECT_EQ(steps.at("linear_grad_w"), (std::set<int64_t>{1, 2, 4, 6}));
  EXPECT_EQ(steps.at("adamw"), (std::set<int64_t>{1, 5}));
  EXPECT_FALSE(steps.contains("attention"));
}

TEST(Watcher, RefusesPatternsThatFitNothing) {
  EXPECT_NE(error_of([] {
              train({.op_timings = {{"*", 0}}});
            }).find("every 0 steps, expected at least 1"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              train({.taps = {{"x_finale", 1}}});
            }).find("tap: no name fits 'x_finale'; there are"),
            std::string::npos);
  EXPECT_NE(error_of([] { train({.taps = {{"x_finale", 1}}}); }).find("Did you mean 'x_final'?"), std::string::npos);
  EXPECT_NE(error_of([] { train({.grads = {{"blk.9.*", 1}}}); }).find("grads: no name fits"), std::string::npos);
  EXPECT_NE(error_of([] { train({.drifts = {{"q", 1}}}); }).find("drift: no name fits"), std::string::npos);
}

}  // namespace
}  // namespace toy::watch_test
