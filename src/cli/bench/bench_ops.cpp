// toy bench ops: every op of a training step and of decoding, and how near it comes to what bounds it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/bench/bench.h"
#include "cli/console.h"
#include "cli/options.h"
#include "toy/decode/decoder.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// Calls of one op on operands of one shape.
struct OpTime {
  std::string phase, op, operands;
  int64_t calls = 0;
  double seconds = 0, best = 0;  // of all calls together
  Cost cost;                     // of one call
  std::string bound;
};

std::string operands_of(const PlanStep& s) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(2, s.in.size()); ++i)
    if (s.in[i].base != Operand::absent) text += (text.empty() ? "" : " ") + s.in[i].view.shape.str();
  if (s.in.size() > 8) text += fmt::format(" and {} more", s.in.size() - 2);
  return text;
}

// One row for each op and shape, the dearest first.
std::vector<OpTime> times_of(const Session& session, const Plan& plan, const std::string& phase,
                             const Ceilings& ceilings, DType products = DType::f32) {
  std::map<std::pair<std::string, std::string>, OpTime> rows;
  const std::vector<Ceilings::Best> best = best_times(plan, ceilings, products);
  for (size_t i = 0; i < session.profile().size(); ++i) {
    const StepTime& t = session.profile()[i];
    if (t.runs == 0) continue;
    const PlanStep& s = plan.steps[i];
    OpTime& r = rows[{s.op, operands_of(s)}];
    if (r.calls++ == 0) r.phase = phase, r.op = s.op, r.operands = operands_of(s), r.cost = s.cost;
    r.seconds += t.seconds / double(t.runs), r.best += best[i].seconds, r.bound = best[i].by;
  }
  std::vector<OpTime> result;
  for (auto& [key, row] : rows) result.push_back(std::move(row));
  std::sort(result.begin(), result.end(), [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  return result;
}

void print(const std::vector<OpTime>& rows) {
  double total = 0;
  for (const OpTime& r : rows) total += r.seconds;
  fmt::print("{}: {:.3f} ms in ops\n", rows.front().phase, 1e3 * total);
  fmt::print("  {:<18} {:<34} {:>5} {:>9} {:>6} {:>8} {:>7} {:>7}  {:<6} {:>5}\n", "op", "operands", "calls", "us each",
             "share", "GFLOP/s", "Gexp/s", "GB/s", "bound", "of it");
  for (const OpTime& r : rows) {
    const double each = r.seconds / double(r.calls), giga = 1e-9 / each;
    fmt::print("  {:<18} {:<34} {:>5} {:>9.2f} {:>5.1f}% {:>8.1f} {:>7.2f} {:>7.1f}  {:<6} {:>4.0f}%\n", r.op,
               r.operands, r.calls, 1e6 * each, 100 * r.seconds / total, r.cost.flops * giga,
               r.cost.transcendentals * giga, r.cost.bytes * giga, r.bound, 100 * r.best / r.seconds);
  }
}

ordered_json to_json(const std::vector<OpTime>& rows) {
  ordered_json list = ordered_json::array();
  for (const OpTime& r : rows)
    list.push_back({{"op", r.op},
                    {"operands", r.operands},
                    {"calls", r.calls},
                    {"us", 1e6 * r.seconds / double(r.calls)},
                    {"flops", r.cost.flops},
                    {"transcendentals", r.cost.transcendentals},
                    {"bytes", r.cost.bytes},
                    {"bound", r.bound},
                    {"fraction", r.best / r.seconds}});
  return list;
}

struct BenchOps : Command {
  std::string shape = "smollm2-135m";
  TrainerOptions trainer{.batch = 1, .tokens = 256, .optimizer = {}};
  int64_t context = 256, parallel = 1, steps = 5;
  DeviceOptions device;
  ComputeOptions compute;
  bool json = false;

  void add(CLI::App& app) {
    begin_group(app, "Model");
    add_option(app, "--shape", shape, fmt::format("Size or JSON file: {}", fmt::join(size_names(), ", ")),
               suggested(size_names(), true));
    begin_group(app, "Batch");
    add_option(app, "--batch", trainer.batch, "Sequences per training step", at_least(1));
    add_option(app, "--tokens", trainer.tokens, "Tokens per sequence", at_least(1));
    add_option(app, "--context", context, "Tokens in the cache while decoding", from_to(1, 1e6));
    add_option(app, "--parallel", parallel, "Sequences decoded together", from_to(1, 4096));
    add_option(app, "--steps", steps, "Steps to measure, after two of warmup", from_to(1, 1e6));
    begin_group(app, "Output");
    app.add_flag("--json", json, "Print a JSON object");
    compute.add(app);
    device.add(app);
    app.footer("Example:\n  toy bench ops --shape small --tokens 128");
  }

  void run() const {
    trainer.validate();
    const ModelSpec spec = model_spec(shape);
    const auto dev = device.make();
    const Ceilings ceilings(*dev);
    Model model = random_model(spec, *dev, 0);
    const std::vector<OpTime> decoding = decode(*dev, model, ceilings), training = train(*dev, model, ceilings);
    if (json) {
      const ordered_json j{{"shape", shape},
                           {"threads", dev->threads()},
                           {"fma_gflops", ceilings.fma},
                           {"bf16_gflops", ceilings.bf16},
                           {"exp_gops", ceilings.exp},
                           {"read_gbs", ceilings.levels.back().read},
                           {"training", to_json(training)},
                           {"decoding", to_json(decoding)}};
      return print_json(j);
    }
    fmt::print("ceilings: f32 multiply-add {:.0f} GFLOP/s, ", ceilings.fma);
    if (ceilings.bf16 > 0) fmt::print("bf16 {:.0f}, ", ceilings.bf16);
    fmt::print("exp {:.1f}e9/s, read", ceilings.exp);
    for (const MemoryLevel& l : ceilings.levels) fmt::print(" {} {:.0f}", l.name, l.read);
    fmt::print(" GB/s\n\n");
    print(training);
    fmt::print("\n");
    print(decoding);
  }

  std::vector<OpTime> train(Device& dev, Model& model, const Ceilings& ceilings) const {
    TrainerOptions options = trainer;
    options.compute = compute.choose(dev);
    Trainer engine(dev, model, options);
    const Windows w = random_windows(trainer.batch * trainer.tokens, model.spec.vocab);
    for (int64_t i = -2; i < steps; ++i) {
      engine.session().enable_profile(i >= 0);
      engine.step(w, 1e-4);
    }
    return times_of(engine.session(), plan_of_sequences(engine.session().plan(), trainer.batch),
                    fmt::format("training step, B={} T={}", trainer.batch, trainer.tokens), ceilings, options.compute);
  }

  std::vector<OpTime> decode(Device& dev, const Model& model, const Ceilings& ceilings) const {
    Decoder d(dev, model, {.sequences = int(parallel), .context = context + steps, .max_rows = parallel});
    for (int64_t i = 0; i < context + steps; ++i) {
      std::vector<DecodeRow> rows;
      for (int s = 0; s < int(parallel); ++s)
        rows.push_back({s, random_token(i * parallel + s, model.spec.vocab), true});
      d.session().enable_profile(i >= context);
      d.decode(rows);
    }
    return times_of(d.session(), d.session().plan(), fmt::format("decoding {} after {} tokens", parallel, context),
                    ceilings);
  }
};

}  // namespace

void add_bench_ops(CLI::App& app) {
  add_subcommand<BenchOps>(app, "ops", "Measure every op of a training step and of decoding");
}

}  // namespace toy::cli
