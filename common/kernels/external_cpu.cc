// external: copies its inputs to memory that the process of the step maps, calls it, and copies
// what it has computed back.
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/kernels/cpu_kernels.h"
#include "common/kernels/external_process.h"

namespace cohort {
namespace {

constexpr size_t kAlignment = 64;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t BytesOf(const ValueView& view) {
  return static_cast<size_t>(view.elements) * SizeOf(view.dtype);
}

class ExternalKernel : public Kernel {
 public:
  struct Layout {
    std::vector<std::string> names;  // one for each input
    std::vector<size_t> inputs;      // offsets
    size_t results = 0;
    size_t gradients = 0;
    size_t columns = 0;
    bool training = false;
    uint64_t seed = 0;
  };

  ExternalKernel(Layout layout, std::unique_ptr<SharedRegion> region)
      : layout_(std::move(layout)),
        region_(std::move(region)),
        process_(ExternalProcess::OfThisTask()) {}

  absl::Status Run(const KernelContext& c) const override {
    nlohmann::json call = {{"region", region_->id()},
                           {"training", layout_.training},
                           {"columns", layout_.columns},
                           {"seed", layout_.seed ^ c.random->seed},
                           {"place", c.random->place + c.random->ordinal},
                           {"results", View(c.out(0), layout_.results)},
                           {"gradients", View(c.out(1), layout_.gradients)}};
    for (size_t i = 0; i < layout_.inputs.size(); ++i) {
      const ValueView& in = c.in(i);
      std::memcpy(region_->data() + layout_.inputs[i], in.data, BytesOf(in));
      nlohmann::json input = View(in, layout_.inputs[i]);
      input["name"] = layout_.names[i];
      call["inputs"].push_back(std::move(input));
    }
    COHORT_RETURN_IF_ERROR(process_->Call(*region_, call.dump()));
    std::memcpy(c.out(0).data, region_->data() + layout_.results, BytesOf(c.out(0)));
    if (layout_.training) {
      std::memcpy(c.out(1).data, region_->data() + layout_.gradients, BytesOf(c.out(1)));
    } else {
      std::memset(c.out(1).data, 0, BytesOf(c.out(1)));
    }
    return absl::OkStatus();
  }

 private:
  static nlohmann::json View(const ValueView& view, size_t offset) {
    return {{"offset", offset},
            {"dtype", DTypeName(view.dtype)},
            {"shape", std::vector<int64_t>(view.dims, view.dims + view.rank)}};
  }

  const Layout layout_;
  const std::unique_ptr<SharedRegion> region_;
  const std::shared_ptr<ExternalProcess> process_;
};

}  // namespace

KernelOr CreateExternalCpu(const Node& node, const Program& program) {
  ExternalKernel::Layout layout{.columns = static_cast<size_t>(IntAttr(node, "columns")),
                                .training = BoolAttr(node, "training"),
                                .seed = static_cast<uint64_t>(IntAttr(node, "seed"))};
  const auto names = nlohmann::json::parse(StringAttr(node, "names"), nullptr, false);
  if (!names.is_array() || names.size() != node.inputs.size()) {
    return InvalidArgument("\"names\" has no name for each of the {} inputs", node.inputs.size());
  }
  for (const auto& name : names) {
    layout.names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
  }
  size_t bytes = 0;
  const auto place = [&](ValueId value) {
    const ValueType& type = program.type(value);
    const size_t at = bytes;
    bytes += Aligned(static_cast<size_t>(CapacityElements(type)) * SizeOf(type.dtype));
    return at;
  };
  for (const ValueId input : node.inputs) layout.inputs.push_back(place(input));
  layout.results = place(node.outputs[0]);
  layout.gradients = place(node.outputs[1]);
  COHORT_ASSIGN_OR_RETURN(auto region, SharedRegion::Create(bytes));
  return std::make_unique<ExternalKernel>(std::move(layout), std::move(region));
}

}  // namespace cohort
