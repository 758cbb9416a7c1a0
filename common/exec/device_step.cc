#include "common/exec/device_step.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"
#include "common/exec/memory_plan.h"
#include "common/graph/op_registry.h"

namespace cohort {
absl::StatusOr<std::unique_ptr<DeviceStep>> DeviceStep::Make(const CompiledProgram& compiled,
                                                             std::shared_ptr<Device> device,
                                                             const ValueTable* host,
                                                             const Options& options) {
  std::unique_ptr<DeviceStep> step(new DeviceStep(compiled, std::move(device), host, options));
  COHORT_RETURN_IF_ERROR(step->Allocate());
  COHORT_RETURN_IF_ERROR(step->UploadConstants());
  if (options.variables != nullptr) COHORT_RETURN_IF_ERROR(step->AddVariables());
  return step;
}

DeviceStep::DeviceStep(const CompiledProgram& compiled, std::shared_ptr<Device> device,
                       const ValueTable* host, const Options& options)
    : compiled_(compiled),
      device_(std::move(device)),
      host_(host),
      share_(options.share),
      pool_(options.pool),
      variables_(options.variables),
      computed_(compiled.program.values.size(), false),
      argument_offsets_(compiled.program.arguments.size(), 0),
      constants_(compiled.program.nodes.size(), nullptr),
      lanes_(Index(options.lanes)) {
  for (const CompiledStep& from : compiled_.main) {
    const Node& node = compiled_.program.nodes[Index(from.node)];
    for (ValueId v : node.outputs) computed_[Index(compiled_.roots[Index(v)])] = true;
    Step step{.compiled = &from};
    if (from.device_kernel != nullptr && from.device_kernel->may_fail()) {
      step.error = errors_bytes_;
      errors_bytes_ += sizeof(KernelError);
    }
    steps_.push_back(std::move(step));
  }
  for (const int n : compiled_.reads) {
    const Node& node = compiled_.program.nodes[Index(n)];
    if (variables_ != nullptr && node.op == "read_rows") computed_[Index(node.outputs[0])] = true;
  }
  size_t offset = AlignUp(errors_bytes_);
  for (Step& step : steps_) {
    if (step.compiled->device_kernel == nullptr) continue;
    step.bodies = offset;
    offset += step.compiled->device_kernel->body_bytes();
  }
  ForEachInput([this](ValueId v) {
    const ValueLocation& location = compiled_.locations[Index(v)];
    if (location.in == Location::kArgument) used_arguments_.push_back(location.index);
  });
  first_argument_ = offset = AlignUp(offset);
  std::ranges::sort(used_arguments_);
  used_arguments_.erase(std::unique(used_arguments_.begin(), used_arguments_.end()),
                        used_arguments_.end());
  for (const int i : used_arguments_) {
    argument_offsets_[Index(i)] = offset;
    const ValueId v = compiled_.program.arguments[Index(i)].value;
    offset += AlignUp(CapacityBytes(compiled_.program.type(v)));
  }
  staged_bytes_ = AlignUp(offset);
}

template <typename Fn>
void DeviceStep::ForEachInput(const Fn& fn) const {
  for (const Step& step : steps_) {
    if (step.compiled->device_kernel == nullptr) continue;
    const Node& node = compiled_.program.nodes[Index(step.compiled->node)];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (step.compiled->device_kernel->reads_data(i)) fn(node.inputs[i]);
    }
  }
  if (variables_ == nullptr) return;
  for (const ValueId v : ResidentStep::Inputs(compiled_)) fn(v);
}

absl::Status DeviceStep::Allocate() {
  const std::string purpose = fmt::format("program \"{}\"", compiled_.program.name);
  size_t constant_bytes = 0;
  for (const Node& node : compiled_.program.nodes) {
    if (node.op == "constant") {
      constant_bytes += AlignUp(CapacityBytes(compiled_.program.type(node.outputs[0])));
    }
  }
  const size_t lane_bytes = lanes_.size() * compiled_.lane_bytes;
  const size_t bytes =
      compiled_.arena_bytes + lane_bytes + compiled_.push_area_bytes + constant_bytes;
  COHORT_ASSIGN_OR_RETURN(memory_, device_->Allocate(bytes, purpose));
  COHORT_ASSIGN_OR_RETURN(uploads_, device_->Allocate(lanes_.size() * staged_bytes_, purpose));
  COHORT_ASSIGN_OR_RETURN(staging_,
                          device_->AllocatePinned(lanes_.size() * staged_bytes_, purpose));
  COHORT_ASSIGN_OR_RETURN(errors_, device_->AllocatePinned(errors_bytes_, purpose));
  if (!share_.alone) {
    COHORT_ASSIGN_OR_RETURN(results_, device_->AllocatePinned(compiled_.push_area_bytes, purpose));
  }
  for (size_t s = 0; s < lanes_.size(); ++s) {
    std::memset(staged(static_cast<int>(s)), 0, first_argument_);
  }
  ValueTable::Memory memory;
  memory.arena = memory_.data();
  memory.lanes = memory.arena + compiled_.arena_bytes;
  memory.push_areas = memory.lanes + lane_bytes;
  memory.constants = &constants_;
  for (const VariableDecl& decl : compiled_.program.variables) {
    if (variables_ == nullptr) break;
    COHORT_ASSIGN_OR_RETURN(const ResidentVariables::Variable* variable, variables_->Find(decl));
    memory.variables.push_back(variable->at.value);
  }
  uint8_t* constant = memory.push_areas + compiled_.push_area_bytes;
  for (size_t n = 0; n < constants_.size(); ++n) {
    const Node& node = compiled_.program.nodes[n];
    if (node.op != "constant") continue;
    constants_[n] = constant;
    constant += AlignUp(CapacityBytes(compiled_.program.type(node.outputs[0])));
  }
  table_ = std::make_unique<ValueTable>(compiled_, memory);
  AddSteps();
  return absl::OkStatus();
}

absl::Status DeviceStep::UploadConstants() {
  for (size_t n = 0; n < constants_.size(); ++n) {
    if (constants_[n] == nullptr) continue;
    const Tensor& value = *TensorAttr(compiled_.program.nodes[n], "value");
    COHORT_RETURN_IF_ERROR(device_->CopyToDevice(constants_[n], value.raw(), value.num_bytes()));
  }
  return absl::OkStatus();
}

// Each lane has its own keys and rows.
absl::Status DeviceStep::AddVariables() {
  for (size_t s = 0; s < lanes_.size(); ++s) {
    UseLane(static_cast<int>(s));
    COHORT_ASSIGN_OR_RETURN(lanes_[s].variables,
                            ResidentStep::Make(compiled_, table_.get(), *variables_));
  }
  return absl::OkStatus();
}

// Points the table to what belongs to a lane.
void DeviceStep::UseLane(int lane) {
  table_->UseLane(lane);
  for (const int i : used_arguments_) {
    table_->SetArgument(Index(i), uploaded(lane) + argument_offsets_[Index(i)]);
  }
}

void DeviceStep::AddSteps() {
  for (Step& step : steps_) {
    const Node& node = compiled_.program.nodes[Index(step.compiled->node)];
    for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs}) {
      for (ValueId v : *values) {
        step.host.push_back(&host_->view(v));
        step.device.push_back(&table_->view(v));
      }
    }
  }
}

size_t DeviceStep::memory_bytes() const { return memory_.bytes() + uploads_.bytes(); }

bool DeviceStep::Computes(ValueId v) const { return computed_[Index(compiled_.roots[Index(v)])]; }

const void* DeviceStep::result(ValueId v) const {
  return results_.data() + compiled_.locations[Index(v)].offset;
}

bool DeviceStep::IsOfExamples(ValueId v) const {
  const std::vector<Dim>& dims = compiled_.program.type(v).dims;
  return !dims.empty() && dims[0].symbol == 1;
}

// Where this device's part of a value lies in the host's memory, and its bytes at full capacity.
uint8_t* DeviceStep::ShareOf(ValueId v, size_t* bytes) const {
  uint8_t* const data = host_->view(v).as<uint8_t>();
  *bytes = CapacityBytes(compiled_.program.type(v));
  if (share_.alone || !IsOfExamples(v)) return data;
  const size_t example = *bytes / static_cast<size_t>(share_.examples);
  const int64_t examples = std::min(share_.examples, host_->capacity(1) - share_.first);
  *bytes = static_cast<size_t>(examples) * example;
  return data + static_cast<size_t>(share_.first) * example;
}

KernelContext DeviceStep::ContextOf(const Step& step, int lane) const {
  const Node& node = compiled_.program.nodes[Index(step.compiled->node)];
  KernelContext context;
  context.inputs = step.device.data();
  context.outputs = step.device.data() + node.inputs.size();
  context.scratch = memory_.data() + step.compiled->scratch_offset;
  context.random = &key_;
  context.first_example = share_.first;
  context.error = reinterpret_cast<KernelError*>(uploaded(lane) + step.error);
  return context;
}

absl::Status DeviceStep::Launch(int lane, int area, const RandomKey& key) {
  key_ = key;
  lane_ = lane;
  UseLane(lane);
  for (size_t s = 1; s <= compiled_.program.symbols.size(); ++s) {
    const int64_t count = host_->count(static_cast<int>(s));
    const int64_t own = std::clamp<int64_t>(count - share_.first, 0, share_.examples);
    table_->SetCount(static_cast<int>(s), s == 1 ? own : count);
  }
  WriteBodies(lane);
  if (const auto& variables = lanes_[Index(lane)].variables; variables != nullptr) {
    COHORT_RETURN_IF_ERROR(variables->WriteReads(*host_));
  }
  StageArguments(lane);
  std::unique_ptr<DeviceGraph>& graph = graphs_[{lane, area}];
  if (graph == nullptr) {
    COHORT_ASSIGN_OR_RETURN(graph, device_->Instantiate(PlanGraph(lane)));
  }
  host_status_ = absl::OkStatus();
  COHORT_RETURN_IF_ERROR(graph->Launch());
  running_ = graph.get();
  return absl::OkStatus();
}

absl::Status DeviceStep::Wait() {
  DeviceGraph* const graph = std::exchange(running_, nullptr);
  if (graph == nullptr) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(graph->Wait());
  return StatusOfRun();
}

absl::Status DeviceStep::ApplyPushes(uint32_t group, uint64_t step) {
  ResidentStep* const variables = lanes_[Index(lane_)].variables.get();
  std::unique_ptr<DeviceGraph>& graph = updates_[{lane_, group}];
  if (graph == nullptr) {
    GraphPlan plan;
    variables->PlanPushes(group, &plan);
    if (plan.ops().empty()) return absl::OkStatus();
    COHORT_ASSIGN_OR_RETURN(graph, device_->Instantiate(plan));
  }
  variables->WritePushes(group, step);
  COHORT_RETURN_IF_ERROR(graph->Launch());
  return graph->Wait();
}

// Writes the bodies whose sizes or random keys have changed since the lane's last run.
void DeviceStep::WriteBodies(int lane) {
  Lane& s = lanes_[Index(lane)];
  std::vector<int64_t>& counts = s.counts;
  bool changed = !s.written;
  counts.resize(compiled_.program.symbols.size(), -1);
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t count = table_->count(static_cast<int>(i) + 1);
    changed |= counts[i] != count;
    counts[i] = count;
  }
  s.written = true;
  for (const Step& step : steps_) {
    const DeviceKernel* kernel = step.compiled->device_kernel.get();
    if (kernel == nullptr || !(changed || kernel->is_random())) continue;
    kernel->WriteBodies(ContextOf(step, lane), staged(lane) + step.bodies);
  }
}

void DeviceStep::StageArguments(int lane) {
  for (const int i : used_arguments_) {
    const ValueId v = compiled_.program.arguments[Index(i)].value;
    const ValueView& own = table_->view(v);
    if (own.elements == 0) continue;
    size_t capacity;
    std::memcpy(staged(lane) + argument_offsets_[Index(i)], ShareOf(v, &capacity),
                static_cast<size_t>(own.elements) * SizeOf(own.dtype));
  }
}

MemoryRange DeviceStep::RangeOf(const ValueView& view, ValueId v) const {
  return {view.data, CapacityBytes(compiled_.program.type(v))};
}

// The tables point to the lane, and the host's to the push area too.
GraphPlan DeviceStep::PlanGraph(int lane) {
  GraphPlan plan;
  PlanUploads(lane, &plan);
  const ResidentStep* const variables = lanes_[Index(lane)].variables.get();
  if (variables != nullptr) variables->PlanReads(&plan);
  for (const Step& step : steps_) {
    if (step.compiled->device_kernel != nullptr) {
      PlanStep(step, lane, &plan);
    } else {
      PlanHostStep(step, &plan);
    }
  }
  if (variables != nullptr) variables->PlanScale(&plan);
  for (size_t v = 0; v < computed_.size(); ++v) {
    const ValueId value = static_cast<ValueId>(v);
    if (!computed_[v] || compiled_.locations[v].in != Location::kPushed) continue;
    plan.AddCopy("download", {.to = share_.alone ? host_->view(value).data
                                                 : results_.data() + compiled_.locations[v].offset,
                              .from = table_->view(value).data,
                              .bytes = CapacityBytes(compiled_.program.type(value))});
  }
  plan.AddCopy("errors", {.to = errors_.data(), .from = uploaded(lane), .bytes = errors_bytes_});
  transfer_bytes_ = plan.bytes_to_device() + plan.bytes_to_host();
  if (variables != nullptr) transfer_bytes_ += static_cast<int64_t>(variables->push_bytes());
  return plan;
}

void DeviceStep::PlanUploads(int lane, GraphPlan* plan) const {
  plan->AddCopy(
      "bodies",
      {.to = uploaded(lane), .from = staged(lane), .bytes = first_argument_, .to_device = true});
  for (const int i : used_arguments_) {
    const size_t offset = argument_offsets_[Index(i)];
    const ValueId v = compiled_.program.arguments[Index(i)].value;
    plan->AddCopy(compiled_.program.arguments[Index(i)].name,
                  {.to = uploaded(lane) + offset,
                   .from = staged(lane) + offset,
                   .bytes = CapacityBytes(compiled_.program.type(v)),
                   .to_device = true});
  }
  std::vector<bool> done(computed_.size(), false);
  ForEachInput([&](ValueId input) {
    const ValueId v = compiled_.roots[Index(input)];
    const Location location = compiled_.locations[Index(v)].in;
    const bool lies_in_host_memory = location == Location::kLane || location == Location::kPushed;
    if (done[Index(v)] || Computes(v) || !lies_in_host_memory) return;
    done[Index(v)] = true;
    size_t bytes;
    const uint8_t* const from = ShareOf(v, &bytes);
    plan->AddCopy("upload",
                  {.to = table_->view(v).data, .from = from, .bytes = bytes, .to_device = true});
  });
}

void DeviceStep::PlanStep(const Step& step, int lane, GraphPlan* plan) {
  const DeviceKernel& kernel = *step.compiled->device_kernel;
  const Node& node = compiled_.program.nodes[Index(step.compiled->node)];
  std::vector<MemoryRange> reads, writes;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const MemoryRange range = RangeOf(*step.device[i], node.inputs[i]);
    if (kernel.reads_data(i)) reads.push_back(range);
    if (kernel.writes_tail(i)) writes.push_back(range);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    writes.push_back(RangeOf(*step.device[node.inputs.size() + i], node.outputs[i]));
  }
  const KernelContext context = ContextOf(step, lane);
  reads.push_back({uploaded(lane) + step.bodies, kernel.body_bytes()});
  if (kernel.scratch_bytes() > 0) writes.push_back({context.scratch, kernel.scratch_bytes()});
  if (kernel.may_fail()) writes.push_back({context.error, sizeof(KernelError)});
  plan->Begin(fmt::format("{} \"{}\"", node.op, node.name), std::move(reads), std::move(writes));
  kernel.AddTo(plan, context, uploaded(lane) + step.bodies);
}

// What the step reads is copied to the same place in the host's memory, and what it makes back.
void DeviceStep::PlanHostStep(const Step& step, GraphPlan* plan) {
  const CompiledStep& compiled = *step.compiled;
  const Node& node = compiled_.program.nodes[Index(compiled.node)];
  // One at a time: they share the threads and the status.
  std::vector<MemoryRange> reads, writes = {{&host_status_, sizeof(host_status_)}};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!compiled.kernel->reads_data(i)) continue;
    const MemoryRange range = RangeOf(*step.host[i], node.inputs[i]);
    if (Computes(node.inputs[i])) {
      plan->AddCopy("to the CPU",
                    {.to = step.host[i]->data, .from = step.device[i]->data, .bytes = range.bytes});
      reads.push_back(range);
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    writes.push_back(RangeOf(*step.host[node.inputs.size() + i], node.outputs[i]));
  }
  KernelContext context;
  context.inputs = step.host.data();
  context.outputs = step.host.data() + node.inputs.size();
  context.scratch = host_->arena() + compiled.scratch_offset;
  context.pool = pool_;
  context.random = &key_;
  if (compiled.kernel->scratch_bytes() > 0) {
    writes.push_back({context.scratch, compiled.kernel->scratch_bytes()});
  }
  const std::string name = fmt::format("node {} \"{}\" ({})", compiled.node, node.name, node.op);
  plan->Begin(name, std::move(reads), std::move(writes));
  plan->Add(HostCall{[this, context, &kernel = *compiled.kernel, name] {
    if (!host_status_.ok()) return;
    host_status_ = Annotate(kernel.Run(context), name);
  }});
  for (size_t i = node.inputs.size(); i < step.host.size(); ++i) {
    const ValueId v = node.outputs[i - node.inputs.size()];
    plan->AddCopy("from the CPU", {.to = step.device[i]->data,
                                   .from = step.host[i]->data,
                                   .bytes = CapacityBytes(compiled_.program.type(v)),
                                   .to_device = true});
  }
}

absl::Status DeviceStep::StatusOfRun() const {
  COHORT_RETURN_IF_ERROR(host_status_);
  for (const Step& step : steps_) {
    const DeviceKernel* kernel = step.compiled->device_kernel.get();
    if (kernel == nullptr || !kernel->may_fail()) continue;
    KernelError error;
    std::memcpy(&error, errors_.data() + step.error, sizeof(error));
    if (error.reported == 0) continue;
    const Node& node = compiled_.program.nodes[Index(step.compiled->node)];
    return Annotate(kernel->StatusOf(error, ContextOf(step, lane_)),
                    fmt::format("node {} \"{}\" ({})", step.compiled->node, node.name, node.op));
  }
  return absl::OkStatus();
}

}  // namespace cohort
