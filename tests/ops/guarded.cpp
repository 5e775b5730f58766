// Kernels called directly, with every operand in memory of its own between guard pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "ops/harness.h"
#include "testing/guarded.h"
#include "toy/backend/host_kernel.h"
#include "toy/ops/ops.h"
#include "toy/tensor/convert.h"

namespace toy::test {
namespace {

struct Setup {
  int threads = 1;
  size_t alignment = 64, shift = 0;  // of operands, in bytes
  std::vector<InPlace> in_place;     // outputs that lie on inputs
  std::vector<bool> left_out;        // outputs that nobody wants
};

std::vector<std::byte> content(const Guarded& memory) { return {memory.data(), memory.data() + memory.bytes()}; }

// One call of a record on a case.
class Call {
 public:
  Call(const KernelRecord& record, const Device& device, const Built& b, const std::vector<OperandData>& operands,
       const Attrs& attrs, const Setup& setup)
      : record_(record), attrs_(attrs), setup_(setup) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].absent) {
        in_.push_back({}), in_desc_.push_back({}), memory_.push_back(nullptr);
        continue;
      }
      in_.push_back(allocate(device.storage(operands[i].dtype), operands[i].seen_shape()));
      in_desc_.push_back({true, in_.back().dtype, in_.back().shape});
      std::vector<double> values = operands[i].seen();
      convert(View(values.data(), DType::f64, in_.back().shape), in_.back());
    }
    for (size_t o = 0; o < b.outputs.size(); ++o) add_output(o, b.outputs[o].type(), device);
  }

  bool accepted() const { return !record_.accepts || record_.accepts(query()); }

  void run(Device& device, ThreadPool& pool, const std::string& what) {
    const size_t bytes = record_.workspace ? record_.workspace(query()) : 0;
    const Guarded workspace(bytes);
    std::memset(workspace.data(), 0xFF, bytes);
    std::vector<std::vector<std::byte>> before;
    for (const auto& m : memory_) before.push_back(m ? content(*m) : std::vector<std::byte>{});
    void* const at = bytes ? workspace.data() : nullptr;
    if (HostKernel* const kernel = record_.code.as<HostKernel>()) {
      KernelError error;
      pool.run([&](int thread) {
        kernel({thread, pool.size(), &pool, &error, {}}, {in_, out_, attrs_, static_cast<std::byte*>(at)});
      });
      EXPECT_EQ(error.fault.load(), KernelFault::none) << what;
    } else {  // the emulated device, whose memory is the host's
      const KernelCall call{&record_, &attrs_, in_, out_, at};
      device.run(*device.prepare({&call, 1}));
      device.synchronize();
    }
    EXPECT_TRUE(workspace.intact()) << what << ": written outside of the workspace of " << bytes << " bytes";
    for (size_t m = 0; m < memory_.size(); ++m) {
      if (!memory_[m]) continue;
      const std::string name =
          (m < in_.size() ? "input " : "output ") + std::to_string(m < in_.size() ? m : m - in_.size());
      EXPECT_TRUE(memory_[m]->intact()) << what << ": written in front of or behind " << name;
      const bool may_change = m >= in_.size() || overwritten(m);
      EXPECT_TRUE(may_change || content(*memory_[m]) == before[m]) << what << ": " << name << " changed";
    }
  }

  std::vector<double> output(size_t o) const {
    std::vector<double> values(size_t(out_[o].count()));
    convert(out_[o], View(values.data(), DType::f64, out_[o].shape));
    return values;
  }

 private:
  View allocate(DType dtype, const Shape& shape) {
    memory_.push_back(
        std::make_unique<Guarded>(size_t(shape.count()) * size_of(dtype), setup_.alignment, setup_.shift));
    std::memset(memory_.back()->data(), 0xFF, memory_.back()->bytes());  // NaN, or -1: what a kernel leaves out is seen
    return View(memory_.back()->data(), dtype, shape);
  }
  void add_output(size_t o, const TensorType& type, const Device& device) {
    if (o < setup_.left_out.size() && setup_.left_out[o]) {
      out_.push_back({}), out_desc_.push_back({});
      return;
    }
    const auto alias =
        std::find_if(setup_.in_place.begin(), setup_.in_place.end(), [&](const InPlace& p) { return p.out == int(o); });
    if (alias != setup_.in_place.end())
      out_.push_back(in_[size_t(alias->in)]);
    else
      out_.push_back(allocate(device.storage(type.dtype), type.shape));
    out_desc_.push_back({true, out_.back().dtype, out_.back().shape});
  }
  bool overwritten(size_t input) const {
    return std::any_of(setup_.in_place.begin(), setup_.in_place.end(),
                       [&](const InPlace& p) { return p.in == int(input); });
  }
  KernelQuery query() const { return {in_desc_, out_desc_, attrs_, setup_.threads}; }

  const KernelRecord& record_;
  const Attrs& attrs_;
  Setup setup_;
  std::vector<std::unique_ptr<Guarded>> memory_;
  std::vector<View> in_, out_;
  std::vector<OperandDesc> in_desc_, out_desc_;
};

// Donated operands always share their memory with the output; what else a record permits is tried one by one
// and, as a planner may do, all at once.
std::vector<std::vector<InPlace>> in_place_uses(const KernelRecord& record, const OpDef& op, const Built& b) {
  std::vector<InPlace> donated;
  for (size_t o = 0; o < b.outputs.size(); ++o)
    if (const int i = op.signature.donor_of(int(o)); i >= 0) donated.push_back({int(o), i});
  std::vector<std::vector<InPlace>> uses{donated};
  std::vector<InPlace> together = donated;
  for (const InPlace& p : record.in_place) {
    const auto clashes = [&](const InPlace& q) { return q.out == p.out || q.in == p.in; };
    const bool fits = size_t(p.in) < b.operands.size() && b.operands[size_t(p.in)] &&
                      b.operands[size_t(p.in)].type() == b.outputs[size_t(p.out)].type();
    if (!fits || std::any_of(donated.begin(), donated.end(), clashes)) continue;
    uses.push_back(donated);
    uses.back().push_back(p);
    if (std::none_of(together.begin(), together.end(), clashes)) together.push_back(p);
  }
  uses.push_back(together);
  return uses;
}

// Nothing left out, then each optional output alone.
std::vector<std::vector<bool>> unused_outputs(const OpDef& op) {
  const auto& specs = op.signature.outputs();
  std::vector<std::vector<bool>> choices{std::vector<bool>(specs.size())};
  for (size_t o = 0; o < specs.size(); ++o)
    if (specs[o].optional) {
      choices.emplace_back(specs.size());
      choices.back()[o] = true;
    }
  return choices;
}

}  // namespace

void check_guards(const OpSuite& suite, const Case& c) {
  const OpDef& op = *find_op(suite.op);
  const auto operands = operands_of(suite, c);
  const Built b = build_op(op, operands, c.attrs);
  std::vector<Device*> devices{&cpu_device(1), &cpu_device(2), &cpu_device(3), &reference_device()};
  devices.push_back(emulated_devices()[2]);
  for (Device* device : devices) {
    const auto of_op = [&](const KernelRecord& k) { return k.op == suite.op; };
    const auto kernels = device->kernels();
    if (std::none_of(kernels.begin(), kernels.end(), of_op) || !runs_on(*device, b)) continue;
    const int threads = device->threads();
    ThreadPool pool(threads);
    const Results expected = Program(b, *device).run();
    for (const KernelRecord& record : kernels) {
      if (record.op != suite.op) continue;
      for (const auto& in_place : in_place_uses(record, op, b))
        for (const auto& left_out : unused_outputs(op)) {
          // Two threads meet operands that no vector is aligned to, three meet guard pages right at the operands' ends.
          const size_t element = size_of(device->compute());
          const size_t alignment = threads == 3 ? element : 64, shift = threads == 2 ? element : 0;
          Call call(record, *device, b, operands, c.attrs, {threads, alignment, shift, in_place, left_out});
          if (!call.accepted()) continue;
          const std::string what = c.operands + " on " + std::string(device->name());
          call.run(*device, pool, what);
          for (size_t o = 0; o < expected.size(); ++o)
            if (!left_out[o]) expect_same(call.output(o), expected[o], what + ": output " + std::to_string(o));
        }
    }
  }
}

}  // namespace toy::test
