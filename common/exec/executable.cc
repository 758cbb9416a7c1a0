#include "common/exec/executable.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/exec/compiled_program.h"
#include "common/exec/device_group.h"
#include "common/exec/kernel_observer.h"
#include "common/exec/push_observer.h"
#include "common/exec/value_table.h"
#include "common/graph/op_registry.h"
#include "common/graph/segments.h"
#include "common/optimizers/resident_variables.h"

namespace cohort {
namespace {

// A kernel with everything that its run needs.
struct Step {
  const Kernel* kernel = nullptr;
  KernelContext context;
  int node = 0;
  int counted_symbol = 0;      // that the kernel counts; 0: none
  std::vector<size_t> pushes;  // whose values are final after it
};

double ReadScalar(const ValueView& view) {
  return view.dtype == DType::kFloat32 ? static_cast<double>(*view.as<float>())
                                       : *view.as<double>();
}

// Returns the position after what it has written.
double* ReadDoubles(const ValueView& view, double* to) {
  if (view.dtype == DType::kFloat32) return std::copy_n(view.as<float>(), view.elements, to);
  return std::copy_n(view.as<double>(), view.elements, to);
}

}  // namespace

class Executable::Impl : private ResidentUpdate {
 public:
  // Lanes, and push areas, lie one after another.
  struct HostMemory {
    BufferRef arena, lanes, push_areas;
    DeviceMemory pinned;  // lanes and then push areas, where a device copies from and to them
  };

  Impl(CompiledProgram compiled, HostMemory memory, const CompileOptions& options)
      : compiled_(std::move(compiled)),
        memory_(std::move(memory)),
        pool_(options.intra_op_threads),
        table_(compiled_, TableMemory(options.lanes)),
        lanes_(static_cast<size_t>(options.lanes)),
        pushes_(static_cast<size_t>(PushAreas(options.lanes))),
        pushed_area_(options.lanes) {
    if (options.variables != nullptr) {
      parts_ = {.update = compiled_.updates_itself() ? this : nullptr,
                .gradients = options.devices[0].get(),
                .reader = options.variables};
    }
    AddSteps(compiled_.prologue, &prologue_);
    if (options.devices.empty()) AddSteps(compiled_.main, &main_);
    AddPushes();
    NoteReadyPushes();
    AddReads();
    AddLanes();
    AddMetrics();
  }

  // Each lane has an area, and the pushes that are being sent have another one.
  static int PushAreas(int lanes) { return lanes + 1; }
  static absl::StatusOr<HostMemory> Allocate(const CompiledProgram& compiled,
                                             const CompileOptions& options);
  // With a device, before the first step.
  absl::Status MakeDevices(const CompileOptions& options);

  const Program& program() const { return compiled_.program; }
  void UseLane(int lane);
  absl::Status Bind(std::span<const Tensor> arguments);
  absl::Status Prepare(const RandomKey& key);
  absl::Status Run(PushObserver* observer);

  std::span<const PullItem> pulls() const { return lane().pulls; }
  std::span<const PushItem> next_pushes() const {
    return pushes_[static_cast<size_t>(lane().area)];
  }
  std::span<const PushItem> pushes() const { return pushes_[static_cast<size_t>(pushed_area_)]; }
  const DeviceParts& device_parts() const { return parts_; }
  double weight() const { return weight_; }
  int64_t batch_count() const { return program().symbols.empty() ? 0 : table_.count(1); }
  std::span<const double> metric_values() const { return metric_values_; }
  size_t memory_bytes() const {
    return memory_.arena->size() + memory_.lanes->size() + memory_.push_areas->size() +
           memory_.pinned.bytes() + (devices_ != nullptr ? devices_->memory_bytes() : 0);
  }
  int64_t transfer_bytes() const {
    return devices_ != nullptr ? devices_->transfer_bytes() : segment_bytes_;
  }
  Tensor output(size_t i) const;
  const void* output_data(size_t i) const { return table_.view(program().outputs[i].value).data; }
  void SetObserver(KernelObserver* observer) { observer_ = observer; }

 private:
  // What one step has of its own.
  struct Lane {
    std::vector<Tensor> bound;  // the batch
    bool is_bound = false;
    std::vector<int64_t> counts;  // by symbol, while another lane is used
    RandomKey key;
    int area = 0;  // the push area into which the step writes
    std::vector<PullItem> pulls;
    std::vector<const void*> lent;  // by pull: where the access has lent the value, or null
  };

  ValueTable::Memory TableMemory(int lanes) const {
    uint8_t* const pinned = memory_.pinned.data();
    const size_t lane_bytes = static_cast<size_t>(lanes) * compiled_.lane_bytes;
    return {.arena = memory_.arena->data(),
            .lanes = pinned != nullptr ? pinned : memory_.lanes->data(),
            .push_areas = pinned != nullptr ? pinned + lane_bytes : memory_.push_areas->data()};
  }
  Lane& lane() { return lanes_[static_cast<size_t>(lane_)]; }
  const Lane& lane() const { return lanes_[static_cast<size_t>(lane_)]; }
  void AddSteps(const std::vector<CompiledStep>& compiled, std::vector<Step>* steps);
  void AddReads();
  void AddLanes();
  void AddPushes();
  void AddMetrics();
  absl::Status CheckArgument(size_t i, const Tensor& tensor) const;
  absl::Status SetCounts(size_t i, const Tensor& tensor, std::span<int64_t> counts) const;
  absl::Status RunSteps(const std::vector<Step>& steps, PushObserver* observer = nullptr);
  void NoteReadyPushes();
  void* DestinationOf(size_t read) const;
  void UseLentValues();
  void* PushedData(ValueId v, int area) const;
  void FinishPushes();
  bool StaysOnDevice(const Push& push) const {
    return compiled_.variables_on_device() && push.kind == PushKind::kGradient &&
           push.value != kNoValue;
  }
  absl::Status Apply(uint32_t group, uint64_t step) override {
    return devices_->ApplyPushes(group, step);
  }

  const CompiledProgram compiled_;
  const HostMemory memory_;
  ThreadPool pool_;
  ValueTable table_;
  std::unique_ptr<DeviceGroup> devices_;  // null: the main steps run here
  DeviceParts parts_;

  // What contexts point at: never resized after construction.
  std::vector<std::vector<const ValueView*>> operands_;
  std::vector<Step> prologue_;
  std::vector<Step> main_;
  RandomKey key_;
  int64_t counted_ = 0;

  // By read: its value and the views of it, if the value may be lent; else empty.
  std::vector<std::vector<ValueId>> lendable_;
  std::vector<Lane> lanes_;
  int lane_ = 0;
  std::vector<int64_t> new_counts_;
  std::vector<std::vector<PushItem>> pushes_;  // by area
  int pushed_area_;                            // that of the step that ran last
  std::vector<size_t> late_pushes_;            // that are final at the end of a run
  double weight_ = 0;
  int64_t segment_bytes_ = 0;                   // that the last run has copied
  std::vector<const ValueView*> accumulators_;  // by metric
  std::vector<double> metric_values_;
  KernelObserver* observer_ = nullptr;
};

void Executable::Impl::AddSteps(const std::vector<CompiledStep>& compiled,
                                std::vector<Step>* steps) {
  for (const CompiledStep& from : compiled) {
    const Node& node = program().nodes[static_cast<size_t>(from.node)];
    std::vector<const ValueView*> operands;
    for (ValueId v : node.inputs) operands.push_back(&table_.view(v));
    for (ValueId v : node.outputs) operands.push_back(&table_.view(v));
    operands_.push_back(std::move(operands));
    Step step;
    step.kernel = from.kernel.get();
    step.node = from.node;
    step.context.inputs = operands_.back().data();
    step.context.outputs = operands_.back().data() + node.inputs.size();
    step.context.scratch = table_.arena() + from.scratch_offset;
    step.context.pool = &pool_;
    step.context.random = &key_;
    step.context.count = &counted_;
    if (node.op == "unique") step.counted_symbol = static_cast<int>(IntAttr(node, "symbol"));
    steps->push_back(step);
  }
}

// A device reads values from pinned memory. A value that is pushed itself lies in a push area.
void Executable::Impl::AddReads() {
  lendable_.resize(compiled_.reads.size());
  for (size_t i = 0; i < lendable_.size(); ++i) {
    const Node& node = program().nodes[static_cast<size_t>(compiled_.reads[i])];
    const ValueId value = node.outputs[0];
    const Location location = compiled_.locations[static_cast<size_t>(value)].in;
    const bool moves = location == Location::kArena || location == Location::kLane;
    if (node.op != "read" || !moves || !compiled_.on_cpu) continue;
    for (size_t v = 0; v < compiled_.roots.size(); ++v) {
      if (compiled_.roots[v] == value) lendable_[i].push_back(static_cast<ValueId>(v));
    }
  }
}

void Executable::Impl::AddLanes() {
  for (size_t s = 0; s < lanes_.size(); ++s) {
    Lane& lane = lanes_[s];
    lane.bound.resize(program().arguments.size());
    lane.counts.resize(program().symbols.size());
    lane.area = static_cast<int>(s);
    if (compiled_.variables_on_device()) continue;
    lane.lent.resize(compiled_.reads.size());
    for (size_t i = 0; i < compiled_.reads.size(); ++i) {
      const Node& node = program().nodes[static_cast<size_t>(compiled_.reads[i])];
      PullItem item;
      item.variable = static_cast<int>(IntAttr(node, "variable"));
      item.rows = node.op == "read_rows";
      if (!lendable_[i].empty()) item.lent = &lane.lent[i];
      lane.pulls.push_back(item);
    }
  }
}

void Executable::Impl::UseLane(int s) {
  if (s == lane_) return;
  for (size_t i = 0; i < lane().counts.size(); ++i) {
    lane().counts[i] = table_.count(static_cast<int>(i) + 1);
  }
  lane_ = s;
  table_.UseLane(s);
  table_.UsePushArea(lane().area);
  for (size_t i = 0; lane().is_bound && i < lane().bound.size(); ++i) {
    table_.SetArgument(i, const_cast<void*>(std::as_const(lane().bound[i]).raw()));
  }
  for (size_t i = 0; i < lane().counts.size(); ++i) {
    table_.SetCount(static_cast<int>(i) + 1, lane().counts[i]);
  }
  key_ = lane().key;
}

// Returns the memory of a pushed value in an area. The view of the value points to the current
// area.
void* Executable::Impl::PushedData(ValueId v, int area) const {
  for (const PushCopy& copy : compiled_.push_copies) {
    if (copy.value == v) return table_.push_area(area) + copy.offset;
  }
  const ValueLocation& location = compiled_.locations[static_cast<size_t>(v)];
  if (location.in == Location::kPushed) return table_.push_area(area) + location.offset;
  return table_.view(v).data;  // a constant
}

void Executable::Impl::AddPushes() {
  if (compiled_.updates_itself()) return;
  for (size_t area = 0; area < pushes_.size(); ++area) {
    for (const Push& push : program().pushes) {
      PushItem item;
      item.variable = push.variable;
      item.kind = push.kind;
      item.momentum = push.momentum;
      item.sparse = push.keys != kNoValue;
      if (push.value != kNoValue && !StaysOnDevice(push)) {
        item.value = PushedData(push.value, static_cast<int>(area));
      }
      pushes_[area].push_back(item);
    }
  }
}

// A value in a push area has memory of its own, so it is final when the last kernel has run that
// writes it, or a view of it.
void Executable::Impl::NoteReadyPushes() {
  for (size_t p = 0; p < program().pushes.size() && !compiled_.variables_on_device(); ++p) {
    const ValueId value = program().pushes[p].value;
    Step* writer = nullptr;
    const bool in_area = value != kNoValue &&
                         compiled_.locations[static_cast<size_t>(value)].in == Location::kPushed;
    for (Step& step : main_) {
      for (const ValueId out : program().nodes[static_cast<size_t>(step.node)].outputs) {
        if (in_area && compiled_.roots[static_cast<size_t>(out)] ==
                           compiled_.roots[static_cast<size_t>(value)]) {
          writer = &step;
        }
      }
    }
    if (writer != nullptr) {
      writer->pushes.push_back(p);
    } else {
      late_pushes_.push_back(p);
    }
  }
}

void Executable::Impl::AddMetrics() {
  size_t elements = 0;
  for (const MetricPartial& metric : program().metrics) {
    for (const MetricAccumulator& a : metric.accumulators) {
      accumulators_.push_back(&table_.view(a.value));
      elements += static_cast<size_t>(CapacityElements(program().type(a.value)));
    }
  }
  metric_values_.resize(elements);
}

absl::Status Executable::Impl::CheckArgument(size_t i, const Tensor& tensor) const {
  const ProgramArgument& argument = program().arguments[i];
  const ValueType& type = program().type(argument.value);
  bool fits = tensor.dtype() == type.dtype && tensor.dims().size() == type.dims.size();
  for (size_t d = 0; fits && d < type.dims.size(); ++d) {
    const int64_t size = tensor.dims()[d];
    fits =
        type.dims[d].bounded() ? size >= 0 && size <= type.dims[d].size : size == type.dims[d].size;
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("argument \"{}\" is {}, but is fed {}{}", argument.name,
                         TypeToString(type), DTypeName(tensor.dtype()),
                         DimsToString(tensor.dims()));
}

// Records the counts that the bounded axes of argument `i` give to their symbols; -1: not known
// yet.
absl::Status Executable::Impl::SetCounts(size_t i, const Tensor& tensor,
                                         std::span<int64_t> counts) const {
  const ProgramArgument& argument = program().arguments[i];
  const ValueType& type = program().type(argument.value);
  for (size_t d = 0; d < type.dims.size(); ++d) {
    if (!type.dims[d].bounded()) continue;
    const size_t symbol = static_cast<size_t>(type.dims[d].symbol - 1);
    const int64_t unit = type.dims[d].size / program().symbols[symbol].capacity;
    const int64_t count = tensor.dims()[d] / unit;
    if (count * unit != tensor.dims()[d]) {
      return InvalidArgument("argument \"{}\": axis {} has size {}, not a multiple of {}",
                             argument.name, d, tensor.dims()[d], unit);
    }
    if (counts[symbol] >= 0 && counts[symbol] != count) {
      return InvalidArgument("argument \"{}\" has {} of \"{}\", but another argument has {}",
                             argument.name, count, program().symbols[symbol].name, counts[symbol]);
    }
    counts[symbol] = count;
  }
  return absl::OkStatus();
}

absl::Status Executable::Impl::Bind(std::span<const Tensor> arguments) {
  std::vector<Tensor>& bound = lane().bound;
  if (arguments.size() != bound.size()) {
    return InvalidArgument("program \"{}\" takes {} arguments, but is fed {}", program().name,
                           bound.size(), arguments.size());
  }
  new_counts_.assign(program().symbols.size(), -1);
  for (size_t i = 0; i < arguments.size(); ++i) {
    COHORT_RETURN_IF_ERROR(CheckArgument(i, arguments[i]));
    COHORT_RETURN_IF_ERROR(SetCounts(i, arguments[i], new_counts_));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    bound[i] = arguments[i];
    table_.SetArgument(i, const_cast<void*>(std::as_const(bound[i]).raw()));
  }
  lane().is_bound = true;
  for (size_t s = 0; s < new_counts_.size(); ++s) {
    if (new_counts_[s] >= 0) table_.SetCount(static_cast<int>(s) + 1, new_counts_[s]);
  }
  return absl::OkStatus();
}

absl::Status Executable::Impl::RunSteps(const std::vector<Step>& steps, PushObserver* observer) {
  for (const Step& step : steps) {
    if (observer_ != nullptr) observer_->OnBegin(step.node);
    absl::Status status = step.kernel->Run(step.context);
    if (observer_ != nullptr) observer_->OnEnd(step.node);
    if (!status.ok()) {
      const Node& node = program().nodes[static_cast<size_t>(step.node)];
      return Annotate(std::move(status),
                      fmt::format("node {} \"{}\" ({})", step.node, node.name, node.op));
    }
    segment_bytes_ += step.kernel->transfer_bytes();
    if (step.counted_symbol != 0) table_.SetCount(step.counted_symbol, counted_);
    for (size_t i = 0; observer != nullptr && i < step.pushes.size(); ++i) {
      observer->OnPushReady(step.pushes[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status Executable::Impl::Prepare(const RandomKey& key) {
  key_ = lane().key = key;
  table_.UsePushArea(lane().area);
  COHORT_RETURN_IF_ERROR(RunSteps(prologue_));
  std::vector<PullItem>& pulls = lane().pulls;
  for (size_t i = 0; i < pulls.size(); ++i) {
    const Node& node = program().nodes[static_cast<size_t>(compiled_.reads[i])];
    PullItem& item = pulls[i];
    item.destination = DestinationOf(i);
    lane().lent[i] = nullptr;
    if (!item.rows) continue;
    const ValueView& keys = table_.view(node.inputs[0]);
    item.keys = {keys.as<const int64_t>(), static_cast<size_t>(keys.elements)};
  }
  return absl::OkStatus();
}

// The view of a value that was lent in an earlier step does not point to the value's own memory.
void* Executable::Impl::DestinationOf(size_t read) const {
  const Node& node = program().nodes[static_cast<size_t>(compiled_.reads[read])];
  const ValueLocation& location = compiled_.locations[static_cast<size_t>(node.outputs[0])];
  if (lendable_[read].empty()) return table_.view(node.outputs[0]).data;
  return (location.in == Location::kArena ? table_.arena() : table_.lane(lane_)) + location.offset;
}

// Kernels only read their inputs, and no output takes over the memory of a read.
void Executable::Impl::UseLentValues() {
  for (size_t i = 0; i < lendable_.size(); ++i) {
    if (lendable_[i].empty()) continue;
    const void* const lent = lane().lent[i];
    table_.SetData(lendable_[i], lent != nullptr ? const_cast<void*>(lent) : DestinationOf(i));
  }
}

absl::Status Executable::Impl::Run(PushObserver* observer) {
  UseLentValues();
  segment_bytes_ = 0;
  COHORT_RETURN_IF_ERROR(devices_ != nullptr ? devices_->Run(lane_, lane().area, key_)
                                             : RunSteps(main_, observer));
  FinishPushes();
  for (size_t i = 0; observer != nullptr && i < late_pushes_.size(); ++i) {
    observer->OnPushReady(late_pushes_[i]);
  }
  std::swap(lane().area, pushed_area_);
  double* to = metric_values_.data();
  for (const ValueView* view : accumulators_) to = ReadDoubles(*view, to);
  if (program().weight != kNoValue) weight_ = ReadScalar(table_.view(program().weight));
  return absl::OkStatus();
}

void Executable::Impl::FinishPushes() {
  const int area = lane().area;
  for (const PushCopy& copy : compiled_.push_copies) {
    const ValueView& view = table_.view(copy.value);
    std::memcpy(table_.push_area(area) + copy.offset, view.data,
                static_cast<size_t>(view.elements) * SizeOf(view.dtype));
  }
  for (size_t i = 0; i < pushes_[static_cast<size_t>(area)].size(); ++i) {
    const Push& push = program().pushes[i];
    if (StaysOnDevice(push)) {
      pushes_[static_cast<size_t>(area)][i].value = devices_->DeviceData(push.value);
    }
    const ValueId keys = push.keys;
    if (keys == kNoValue) continue;
    pushes_[static_cast<size_t>(area)][i].keys = {
        static_cast<const int64_t*>(PushedData(keys, area)),
        static_cast<size_t>(table_.view(keys).elements)};
  }
}

Tensor Executable::Impl::output(size_t i) const {
  const ValueView& view = table_.view(program().outputs[i].value);
  Tensor copy(view.dtype, Dims(view.dims, view.dims + view.rank));
  std::memcpy(copy.raw(), view.data, copy.num_bytes());
  return copy;
}

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::~Executable() = default;

absl::StatusOr<std::unique_ptr<Executable>> Executable::Compile(Program program,
                                                                const CompileOptions& given) {
  const std::string name = program.name;
  CompileOptions options = given;
  if (!NamesDevices(program)) options.segment_devices = nullptr;
  if (options.segment_devices != nullptr) {
    if (options.variables != nullptr) {
      return Unimplemented(
          "program \"{}\": its layers name devices, so its variables cannot live on {}", name,
          options.variables->device()->name());
    }
    options.devices.clear();  // on which the nodes run that belong there
  }
  HostPushes host_pushes = HostPushes::kAll;
  if (options.variables != nullptr) {
    const std::shared_ptr<Device>& home = options.variables->device();
    if (options.devices.empty()) {
      return InvalidArgument("program \"{}\": its variables live on {}, but it runs on the CPU",
                             name, home->name());
    }
    if (options.devices.size() > 1 || options.devices[0] != home) {
      return Unimplemented("the variables live on {}, so that steps must run on it alone",
                           home->name());
    }
    host_pushes = options.sums_elsewhere ? HostPushes::kAllButGradients : HostPushes::kNone;
  }
  auto compiled = CompileProgram(
      std::move(program), options.devices.empty() ? "cpu" : options.devices[0]->kind(),
      options.lanes, {.host_pushes = host_pushes, .segment_devices = options.segment_devices});
  if (!compiled.ok()) return Annotate(compiled.status(), fmt::format("program \"{}\"", name));
  COHORT_ASSIGN_OR_RETURN(Impl::HostMemory memory, Impl::Allocate(*compiled, options));
  auto impl = std::make_unique<Impl>(*std::move(compiled), std::move(memory), options);
  if (!options.devices.empty()) COHORT_RETURN_IF_ERROR(impl->MakeDevices(options));
  return std::unique_ptr<Executable>(new Executable(std::move(impl)));
}

// Pages of the arena that no step on the CPU uses are never touched.
absl::StatusOr<Executable::Impl::HostMemory> Executable::Impl::Allocate(
    const CompiledProgram& compiled, const CompileOptions& options) {
  const size_t lanes = static_cast<size_t>(options.lanes) * compiled.lane_bytes;
  const size_t pushed = static_cast<size_t>(PushAreas(options.lanes)) * compiled.push_area_bytes;
  const size_t moved = lanes + pushed;
  const bool on_cpu = options.devices.empty();
  HostMemory memory;
  try {
    memory.arena = BufferRef::Allocate(compiled.arena_bytes);
    memory.lanes = BufferRef::Allocate(on_cpu ? lanes : 0);
    if (on_cpu && options.allocate_push_areas) {
      memory.push_areas = options.allocate_push_areas(pushed);
    }
    if (!memory.push_areas) memory.push_areas = BufferRef::Allocate(on_cpu ? pushed : 0);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("program \"{}\" needs {} bytes of memory for one step",
                             compiled.program.name, compiled.arena_bytes + moved);
  }
  if (!options.devices.empty()) {
    COHORT_ASSIGN_OR_RETURN(memory.pinned,
                            options.devices[0]->AllocatePinned(
                                moved, fmt::format("program \"{}\"", compiled.program.name)));
  }
  return memory;
}

absl::Status Executable::Impl::MakeDevices(const CompileOptions& options) {
  COHORT_ASSIGN_OR_RETURN(
      devices_,
      DeviceGroup::Make(compiled_, options.devices, &table_,
                        {.lanes = options.lanes, .pool = &pool_, .variables = options.variables}));
  return absl::OkStatus();
}

const Program& Executable::program() const { return impl_->program(); }
void Executable::UseLane(int lane) { impl_->UseLane(lane); }
absl::Status Executable::Bind(std::span<const Tensor> arguments) { return impl_->Bind(arguments); }
absl::Status Executable::Prepare(const RandomKey& key) { return impl_->Prepare(key); }
std::span<const PullItem> Executable::pulls() const { return impl_->pulls(); }
absl::Status Executable::Run(PushObserver* observer) { return impl_->Run(observer); }
std::span<const PushItem> Executable::next_pushes() const { return impl_->next_pushes(); }
std::span<const PushItem> Executable::pushes() const { return impl_->pushes(); }
DeviceParts Executable::device_parts() { return impl_->device_parts(); }
double Executable::weight() const { return impl_->weight(); }
int64_t Executable::batch_count() const { return impl_->batch_count(); }
size_t Executable::memory_bytes() const { return impl_->memory_bytes(); }
const void* Executable::output_data(size_t i) const { return impl_->output_data(i); }
int64_t Executable::transfer_bytes() const { return impl_->transfer_bytes(); }
std::span<const double> Executable::metric_values() const { return impl_->metric_values(); }
Tensor Executable::output(size_t i) const { return impl_->output(i); }
void Executable::SetObserver(KernelObserver* observer) { impl_->SetObserver(observer); }

}  // namespace cohort
