#include "toy/runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "runtime/finite.h"
#include "toy/tensor/convert.h"

namespace toy {

Session::Session(Device& device, std::shared_ptr<const Plan> plan, std::initializer_list<const ParamStore*> stores,
                 std::shared_ptr<const DeviceBuffer> arena)
    : device_(device), plan_(std::move(plan)), arena_(std::move(arena)) {
  check(plan_ != nullptr, "session: there is no plan");
  for (const ParamStore* s : stores) check(s != nullptr, "session: one of the stores is a null pointer");
  if (!arena_) arena_ = std::make_shared<const DeviceBuffer>(device, plan_->arena_bytes);
  check(arena_->bytes() >= plan_->arena_bytes, "session: an arena of {} bytes, the plan needs {}", arena_->bytes(),
        plan_->arena_bytes);
  for (const PlanLeaf& p : plan_->params) {
    const auto store = std::find_if(stores.begin(), stores.end(), [&](const ParamStore* s) { return s->has(p.name); });
    check(store != stores.end(), "session: the model has no tensor '{}', which its graph needs", p.name);
    check((*store)->type(p.name) == p.type, "session: tensor '{}' is {}, the graph needs {}", p.name,
          (*store)->type(p.name).str(), p.type.str());
    const DType held = (*store)->stored(p.name), needed = device.storage(p.type.dtype);
    check(held == needed,
          "session: tensor '{}' was made for the device '{}', which holds {} as {}; '{}' needs {}. Load or make the "
          "model on the device that runs it",
          p.name, (*store)->device().name(), name_of(p.type.dtype), name_of(held), device.name(), name_of(needed));
    check(!p.updated || !(*store)->frozen(p.name),
          "session: tensor '{}' is mapped from a file and cannot be updated; load the "
          "model for training instead",
          p.name);
    params_.push_back((*store)->place(p.name));
  }
  given_.assign(plan_->inputs.size(), false);
  inputs_ = DeviceBuffer(device, plan_->fed_bytes);
  if (!device.host_visible()) mirror_ = Buffer(plan_->fed_bytes);
  for (const PlanLeaf& p : plan_->constants) {
    const DType stored = device.storage(p.type.dtype);
    constants_.emplace_back(device, bytes_of(stored, p.type.shape));
    store_values(device, constants_.back().at(), stored,
                 View(const_cast<double*>(p.constant->data()), DType::f64, p.type.shape));
  }
  for (const Graph::Rows& r : plan_->rows) rows_.push_back(r.max);
  times_.resize(plan_->steps.size());
  repack(stores);
}

// Makes the copies, and gives mapped originals back as it goes: few steps read them.
void Session::repack(std::initializer_list<const ParamStore*> stores) {
  if (plan_->repacked.empty()) return;
  repacked_ = DeviceBuffer(device_, plan_->repacked_bytes());
  for (const RepackedParam& r : plan_->repacked) {
    const PlanLeaf& p = plan_->params[size_t(r.param)];
    View from(device_.address(params_[size_t(r.param)]), device_.storage(p.type.dtype), p.type.shape), to = from;
    to.data = device_.address(repacked_.at(r.offset));
    const Attrs none;
    const KernelCall call{r.how->write, &none, {&from, 1}, {&to, 1}};
    device_.run(*device_.prepare({&call, 1}));
    device_.synchronize();
    for (const ParamStore* s : stores)
      if (s->has(p.name)) {
        s->release(p.name);
        break;
      }
  }
}

Session::~Session() = default;

void Session::check_finite(bool on) { finite_ = on ? std::make_unique<FiniteWatch>() : nullptr; }

void Session::set_rows(std::string_view name, int64_t n) {
  for (size_t i = 1; i < rows_.size(); ++i)
    if (plan_->rows[i].name == name) {
      check(n >= 0 && n <= plan_->rows[i].max, "session: {} {}, the plan was made for at most {}", n, name,
            plan_->rows[i].max);
      rows_[i] = n;
      return;
    }
  fail("session: the plan has no row count '{}'", name);
}

// nullptr: no step needs this input.
const PlanLeaf* Session::input_of(std::string_view name, DType dtype, size_t values) {
  const auto found =
      std::find_if(plan_->inputs.begin(), plan_->inputs.end(), [&](const PlanLeaf& p) { return p.name == name; });
  if (found == plan_->inputs.end()) {
    const auto& unused = plan_->unused_inputs;
    check(std::find(unused.begin(), unused.end(), name) != unused.end(), "session: the graph has no input '{}'", name);
    return nullptr;
  }
  const TensorType& t = found->type;
  check(t.dtype == dtype, "session: input '{}' is {}, got {} values", name, name_of(t.dtype), name_of(dtype));
  const int64_t n = int64_t(values);
  check(t.rows ? n <= t.count() : n == t.count(), "session: {} values for input '{}' of type {}", n, name, t.str());
  given_[size_t(found - plan_->inputs.begin())] = true;
  return &*found;
}

void Session::set(std::string_view input, std::span<const int32_t> values) {
  const PlanLeaf* p = input_of(input, DType::i32, values.size());
  if (!p) return;
  if (p->index_bound)
    for (size_t k = 0; k < values.size(); ++k)
      check(values[k] >= 0 && values[k] < p->index_bound, "{}: value {} at index {} is outside 0 to {}", input,
            values[k], k, p->index_bound - 1);
  if (!values.empty()) std::memcpy(staged(*p, values.size_bytes()), values.data(), values.size_bytes());
}

void Session::set(std::string_view input, std::span<const float> values) {
  const PlanLeaf* p = input_of(input, DType::f32, values.size());
  if (!p) return;
  const DType stored = device_.storage(DType::f32);
  const Shape shape{int64_t(values.size())};
  convert(View(const_cast<float*>(values.data()), DType::f32, shape),
          View(staged(*p, bytes_of(stored, shape)), stored, shape));
}

// Where the host writes the first bytes of an input, so that the next run sees them.
void* Session::staged(const PlanLeaf& input, size_t bytes) {
  if (device_.host_visible()) return device_.host(inputs_.at(input.offset));
  if (changed_begin_ == changed_end_) changed_begin_ = changed_end_ = input.offset;
  changed_begin_ = std::min(changed_begin_, input.offset);
  changed_end_ = std::max(changed_end_, input.offset + bytes);
  return mirror_.data() + input.offset;
}

Place Session::place_of(const Operand& o) const {
  switch (o.base) {
    case Operand::arena:
      return arena_->at(o.offset);
    case Operand::param:
      return params_[size_t(o.index)] + o.offset;
    case Operand::input:
      return inputs_.at(plan_->inputs[size_t(o.index)].offset + o.offset);
    case Operand::constant:
      return constants_[size_t(o.index)].at(o.offset);
    case Operand::repacked:
      return repacked_.at(plan_->repacked[size_t(o.index)].offset + o.offset);
    case Operand::absent:
      break;
  }
  return {};
}

// With the actual rows and the device's address.
View Session::resolve(const Operand& o) const {
  View v = o.view;
  v.data = o.base == Operand::absent ? nullptr : device_.address(place_of(o));
  if (o.rows) v.shape[0] = rows_[size_t(o.rows)];
  return v;
}

// Steps with the actual rows.
std::unique_ptr<Program> Session::prepare(size_t first, size_t steps) const {
  const std::span all = std::span(plan_->steps).subspan(first, steps);
  size_t count = 0;
  for (const PlanStep& s : all) count += s.in.size() + s.out.size();
  std::vector<View> views;
  views.reserve(count);
  std::vector<KernelCall> calls;
  const auto resolved = [&](const std::vector<Operand>& operands) {
    for (const Operand& o : operands) views.push_back(resolve(o));
    return std::span<const View>(views).last(operands.size());
  };
  for (const PlanStep& s : all) {
    const auto in = resolved(s.in), out = resolved(s.out);
    void* workspace = s.workspace_bytes > 0 ? device_.address(arena_->at(s.workspace_offset)) : nullptr;
    // A program before this one may have run on another number of threads.
    const bool prepared = s.prepared_by >= 0 && size_t(s.prepared_by) >= first;
    calls.push_back({s.kernel, &s.attrs, in, out, workspace, prepared});
  }
  return device_.prepare(calls);
}

// Decoding alternates between few numbers of rows, and a device may take long to prepare a program.
const Session::Bound& Session::bound(std::span<const size_t> ends) {
  constexpr size_t kMost = 16;
  const auto found = std::find_if(bound_.begin(), bound_.end(),
                                  [&](const Bound& b) { return b.rows == rows_ && std::ranges::equal(b.ends, ends); });
  if (found != bound_.end()) {
    std::rotate(bound_.begin(), found, found + 1);
  } else {
    if (bound_.size() == kMost) bound_.pop_back();
    Bound made{rows_, {ends.begin(), ends.end()}, {}};
    size_t begin = 0;
    for (const size_t end : ends) {
      made.pieces.push_back(prepare(begin, end - begin));
      begin = end;
    }
    made.pieces.push_back(prepare(begin, plan_->steps.size() - begin));
    bound_.insert(bound_.begin(), std::move(made));
  }
  return bound_.front();
}

void Session::run(std::span<const size_t> ends, const std::function<void(size_t)>& done) {
  if (const auto missing = std::find(given_.begin(), given_.end(), false); missing != given_.end())
    fail("session: input '{}' was never set; set() it before run()",
         plan_->inputs[size_t(missing - given_.begin())].name);
  if (changed_begin_ < changed_end_)
    device_.upload(inputs_.at(changed_begin_), mirror_.data() + changed_begin_, changed_end_ - changed_begin_);
  changed_begin_ = changed_end_ = 0;
  std::vector<double> seconds(profile_ ? plan_->steps.size() : 0);
  has_run_ = true;
  const Bound* const ready = finite_ ? nullptr : &bound(ends);
  size_t begin = 0;
  for (size_t i = 0; i <= ends.size(); ++i) {
    const size_t end = i < ends.size() ? ends[i] : plan_->steps.size();
    const std::span<double> times = profile_ ? std::span(seconds).subspan(begin, end - begin) : std::span<double>();
    if (finite_) {
      run_watched(begin, end, times);
    } else {
      device_.run(*ready->pieces[i], times);
      device_.synchronize();
    }
    begin = end;
    if (i < ends.size()) done(i);
  }
  for (size_t i = 0; i < seconds.size(); ++i) times_[i].seconds += seconds[i], ++times_[i].runs;
}

// Step by step, for the host looks at what lies between.
void Session::run_watched(size_t begin, size_t end, std::span<double> seconds) {
  const auto seen = [&](const std::vector<Operand>& operands) {
    std::vector<HostTensor> all;
    for (const Operand& o : operands) all.emplace_back(device_, place_of(o), resolve(o));
    return all;
  };
  for (size_t i = begin; i < end; ++i) {
    const PlanStep& s = plan_->steps[i];
    finite_->before(s, seen(s.in));
    device_.run(*prepare(i, 1), seconds.empty() ? seconds : seconds.subspan(i - begin, 1));
    device_.synchronize();
    if (const std::string wrong = finite_->after(s, seen(s.out)); !wrong.empty()) fail_internal("{}", wrong);
  }
}

HostTensor Session::output(size_t i) const {
  check(i < plan_->outputs.size(), "session: output {} of {}", i, plan_->outputs.size());
  check(has_run_, "session: output {} has no value before run()", i);
  const Operand& o = plan_->outputs[i];
  return {device_, place_of(o), resolve(o)};
}

float Session::scalar(size_t i) const {
  const HostTensor t = output(i);
  check(t.view().count() == 1, "session: output {} of shape {} is not a scalar", i, t.view().shape.str());
  return float(element(t.view(), 0));
}

std::vector<float> Session::values(size_t i) const {
  const HostTensor t = output(i);
  std::vector<float> out(size_t(t.view().count()));
  convert(t.view(), View(out.data(), DType::f32, t.view().shape));
  return out;
}

}  // namespace toy
