#include "toy/runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "runtime/finite.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

// Denormals cost a hundred cycles each and carry nothing here: they are flushed while a plan runs, on every thread.
class FlushDenormals {
 public:
#if defined(__SSE__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  FlushDenormals() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
    __asm__ volatile("msr fpcr, %0" : : "r"(before_ | (uint64_t(1) << 24)));
  }
  ~FlushDenormals() { __asm__ volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  uint64_t before_;
#endif
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Session::Session(Device& device, std::shared_ptr<const Plan> plan, std::initializer_list<const ParamStore*> stores,
                 std::shared_ptr<const Buffer> arena)
    : device_(device), plan_(std::move(plan)), arena_(std::move(arena)) {
  if (!arena_) arena_ = std::make_shared<const Buffer>(plan_->arena_bytes);
  check(arena_->bytes() >= plan_->arena_bytes, "session: an arena of {} bytes, the plan needs {}", arena_->bytes(),
        plan_->arena_bytes);
  for (const PlanLeaf& p : plan_->params) {
    const auto store = std::find_if(stores.begin(), stores.end(), [&](const ParamStore* s) { return s->has(p.name); });
    check(store != stores.end(), "session: the model has no tensor '{}', which its graph needs", p.name);
    check((*store)->type(p.name) == p.type, "session: tensor '{}' is {}, the graph needs {}", p.name,
          (*store)->type(p.name).str(), p.type.str());
    check(!p.updated || !(*store)->frozen(p.name),
          "session: tensor '{}' is mapped from a file and cannot be updated; load the "
          "model for training instead",
          p.name);
    params_.push_back((*store)->get(p.name));
  }
  for (const PlanLeaf& p : plan_->inputs)
    inputs_.emplace_back(size_t(p.type.count()) * size_of(device.storage(p.type.dtype)));
  for (const PlanLeaf& p : plan_->constants) {
    Buffer b(size_t(p.type.count()) * size_of(device.storage(p.type.dtype)));
    convert(View(const_cast<double*>(p.constant->data()), DType::f64, p.type.shape),
            View(b.data(), device.storage(p.type.dtype), p.type.shape));
    constants_.push_back(std::move(b));
  }
  for (const Graph::Rows& r : plan_->rows) rows_.push_back(r.max);
  times_.resize(plan_->steps.size());
}

Session::~Session() = default;

void Session::check_finite(bool on) {
  finite_ = on ? std::make_unique<FiniteWatch>(*plan_, device_.pool().size()) : nullptr;
}

void Session::set_rows(std::string_view name, int64_t n) {
  for (size_t i = 1; i < rows_.size(); ++i)
    if (plan_->rows[i].name == name) {
      check(n >= 0 && n <= plan_->rows[i].max, "session: {} {}, the plan was made for at most {}", n, name,
            plan_->rows[i].max);
      stale_ = stale_ || rows_[i] != n;
      rows_[i] = n;
      return;
    }
  fail("session: the plan has no row count '{}'", name);
}

size_t Session::input_index(std::string_view name) const {
  for (size_t i = 0; i < plan_->inputs.size(); ++i)
    if (plan_->inputs[i].name == name) return i;
  return plan_->inputs.size();  // an input that no step needs
}

void Session::set(std::string_view input, std::span<const int32_t> values) {
  const size_t i = input_index(input);
  if (i == plan_->inputs.size()) return;
  const PlanLeaf& p = plan_->inputs[i];
  check(p.type.dtype == DType::i32, "session: input '{}' is {}, got i32 values", input, name_of(p.type.dtype));
  check(int64_t(values.size()) <= p.type.count(), "session: {} values for input '{}' of type {}", values.size(), input,
        p.type.str());
  if (p.index_bound)
    for (size_t k = 0; k < values.size(); ++k)
      check(values[k] >= 0 && values[k] < p.index_bound, "{}: value {} at index {} is outside 0 to {}", input,
            values[k], k, p.index_bound - 1);
  std::copy(values.begin(), values.end(), reinterpret_cast<int32_t*>(inputs_[i].data()));
}

void Session::set(std::string_view input, std::span<const float> values) {
  const size_t i = input_index(input);
  if (i == plan_->inputs.size()) return;
  const PlanLeaf& p = plan_->inputs[i];
  check(p.type.dtype == DType::f32, "session: input '{}' is {}, got f32 values", input, name_of(p.type.dtype));
  check(int64_t(values.size()) <= p.type.count(), "session: {} values for input '{}' of type {}", values.size(), input,
        p.type.str());
  const Shape shape{int64_t(values.size())};
  convert(View(const_cast<float*>(values.data()), DType::f32, shape),
          View(inputs_[i].data(), device_.storage(DType::f32), shape));
}

View Session::resolve(const Operand& o) const {
  View v = o.view;
  std::byte* base = nullptr;
  switch (o.base) {
    case Operand::absent:
      v.data = nullptr;
      return v;
    case Operand::arena:
      base = arena_->data();
      break;
    case Operand::param:
      base = static_cast<std::byte*>(params_[size_t(o.index)].data);
      break;
    case Operand::input:
      base = inputs_[size_t(o.index)].data();
      break;
    case Operand::constant:
      base = constants_[size_t(o.index)].data();
      break;
  }
  v.data = base + o.offset;
  if (o.rows) v.shape[0] = rows_[size_t(o.rows)];
  return v;
}

void Session::bind_views() {
  calls_.clear();
  for (const PlanStep& s : plan_->steps) {
    Call c;
    for (const Operand& o : s.in) c.in.push_back(resolve(o));
    for (const Operand& o : s.out) c.out.push_back(resolve(o));
    calls_.push_back(std::move(c));
  }
  stale_ = false;
}

void Session::execute(int thread, KernelError& error) {
  const FlushDenormals flush;
  const ExecContext ctx{thread, device_.pool().size(), &device_.pool(), &error};
  const bool timed = profile_ && thread == 0;
  double before = timed ? seconds() : 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const PlanStep& s = plan_->steps[i];
    if (finite_) {
      finite_->before(thread, i, calls_[i].in);
      ctx.barrier();  // the kernel may overwrite its operands
    }
    s.kernel->run(ctx, {calls_[i].in, calls_[i].out, s.attrs, arena_->data() + s.workspace_offset});
    ctx.barrier();
    if (finite_ && !is_finite(ctx, i)) return;
    if (timed) {
      const double now = seconds();
      times_[i].seconds += now - before;
      times_[i].runs++;
      before = now;
    }
  }
}

// The same answer on every thread.
bool Session::is_finite(const ExecContext& ctx, size_t step) {
  finite_->after(ctx.thread, step, calls_[step].out);
  ctx.barrier();
  if (!finite_->wrong(ctx.thread, step)) return true;
  if (ctx.thread == 0) stopped_ = step;
  return false;
}

void Session::run() {
  if (stale_) bind_views();
  stopped_ = calls_.size();
  KernelError error;
  device_.pool().run([&](int thread) { execute(thread, error); });
  if (const char* what = error.what.load()) {
    const std::string text = fmt::format(fmt::runtime(what), error.index.load(), error.value.load());
    throw Error(error.input ? ErrorCode::bad_input : ErrorCode::failure, text);
  }
  if (stopped_ < calls_.size()) fail_internal("{}", finite_->text(*plan_, calls_[stopped_].out));
}

View Session::output(size_t i) const { return resolve(plan_->outputs[i]); }

float Session::scalar(size_t i) const { return float(element(output(i), 0)); }

std::vector<float> Session::values(size_t i) const {
  const View v = output(i);
  std::vector<float> out(size_t(v.count()));
  convert(v, View(out.data(), DType::f32, v.shape));
  return out;
}

}  // namespace toy
