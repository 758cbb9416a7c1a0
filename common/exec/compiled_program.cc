#include "common/exec/compiled_program.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/exec/memory_plan.h"
#include "common/exec/segment_runner.h"
#include "common/graph/fuse.h"
#include "common/graph/fuse_pooling.h"
#include "common/graph/op_registry.h"
#include "common/graph/segments.h"
#include "common/graph/validate.h"
#include "common/kernels/patch_convolution.h"

namespace cohort {
namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

bool IsRead(const Node& node) { return node.op == "read" || node.op == "read_rows"; }
bool RunsKernel(const Node& node) {
  return !IsRead(node) && node.op != "input" && node.op != "constant" && node.op != "reshape";
}

// Plans one program. Its methods are called in the order of Run, each building on the last.
class Planner {
 public:
  Planner(Program program, std::string_view device_kind, int lanes, const ProgramOptions& options)
      : device_kind_(device_kind),
        on_device_(device_kind != "cpu"),
        lanes_(lanes),
        segment_devices_(options.segment_devices) {
    out_.program = std::move(program);
    out_.host_pushes = options.host_pushes;
    out_.on_cpu = !on_device_;
  }

  absl::StatusOr<CompiledProgram> Run() {
    if (segment_devices_ != nullptr) {
      out_.program = CutAtDevices(std::move(out_.program), [this](const std::string& device) {
        return segment_devices_->Resolve(device);
      });
    }
    if (!on_device_) {
      out_.program = FusePooledConvolutions(std::move(out_.program), HasSmallPatches);
      out_.program = FuseElementwise(std::move(out_.program));
    }
    const size_t values = p().values.size();
    made_by_.resize(values);
    out_.roots.resize(values);
    out_.locations.resize(values);
    last_use_.assign(values, -1);
    block_of_.assign(values, -1);
    FindRoots();
    COHORT_RETURN_IF_ERROR(Schedule());
    COHORT_RETURN_IF_ERROR(CreateKernels());
    if (out_.variables_on_device()) COHORT_RETURN_IF_ERROR(CheckHostReads());
    CountUses();
    PlacePushes();
    PlaceLeaves();
    if (lanes_ > 1 || on_device_) LocateInLane();
    PlaceReads();
    PlaceSteps();
    PlaceArena();
    for (size_t v = 0; v < p().values.size(); ++v) {
      out_.locations[v] = out_.locations[Index(out_.roots[v])];
    }
    return std::move(out_);
  }

 private:
  const Program& p() const { return out_.program; }
  const Node& node(int n) const { return p().nodes[Index(n)]; }
  const Node& maker(ValueId v) const { return node(made_by_[Index(v)]); }
  ValueId root(ValueId v) const { return out_.roots[Index(v)]; }
  // Positions: prologue steps from 0, the pull, main steps.
  int pull_position() const { return static_cast<int>(out_.prologue.size()); }
  int end_position() const { return pull_position() + 1 + static_cast<int>(out_.main.size()); }

  void FindRoots() {
    for (size_t n = 0; n < p().nodes.size(); ++n) {
      const Node& made = p().nodes[n];
      for (ValueId v : made.outputs) {
        made_by_[Index(v)] = static_cast<int>(n);
        out_.roots[Index(v)] = made.op == "reshape" ? root(made.inputs[0]) : v;
      }
    }
  }

  // Marks `v` and all that it depends on.
  void MarkNeeded(ValueId v, std::vector<bool>* needed) const {
    std::vector<int> stack = {made_by_[Index(v)]};
    while (!stack.empty()) {
      const int n = stack.back();
      stack.pop_back();
      if ((*needed)[Index(n)]) continue;
      (*needed)[Index(n)] = true;
      for (ValueId input : node(n).inputs) stack.push_back(made_by_[Index(input)]);
    }
  }

  // The values that are pushed.
  std::vector<ValueId> Pushed() const {
    std::vector<ValueId> pushed;
    for (const Push& push : p().pushes) {
      if (push.value != kNoValue) pushed.push_back(push.value);
      if (push.keys != kNoValue) pushed.push_back(push.keys);
    }
    return pushed;
  }

  // Those of them that the host needs.
  std::vector<ValueId> PushedToHost() const {
    if (!out_.variables_on_device()) return Pushed();
    std::vector<ValueId> pushed;
    for (const Push& push : p().pushes) {
      if (out_.updates_itself() || push.value == kNoValue) continue;
      if (push.kind != PushKind::kGradient) pushed.push_back(push.value);
      if (push.keys != kNoValue) pushed.push_back(push.keys);
    }
    return pushed;
  }

  // The values that are visible from outside, beside those that are pushed.
  std::vector<ValueId> Seen() const {
    std::vector<ValueId> results;
    for (const MetricPartial& metric : p().metrics) {
      for (const MetricAccumulator& a : metric.accumulators) results.push_back(a.value);
    }
    for (const Output& output : p().outputs) results.push_back(output.value);
    if (p().weight != kNoValue) results.push_back(p().weight);
    return results;
  }
  std::vector<ValueId> Results() const {
    std::vector<ValueId> results = Pushed();
    for (ValueId v : Seen()) results.push_back(v);
    return results;
  }

  // What the host reads it must have in its memory, so it reads no whole variable.
  absl::Status CheckHostReads() const {
    for (const CompiledStep& step : out_.main) {
      if (step.device_kernel != nullptr) continue;
      for (ValueId v : node(step.node).inputs) {
        if (maker(root(v)).op != "read") continue;
        return Unimplemented(
            "node {} \"{}\": op \"{}\" has no kernel for devices of kind \"{}\", so the variable "
            "that it "
            "reads cannot live there",
            step.node, node(step.node).name, node(step.node).op, device_kind_);
      }
    }
    for (const Push& push : p().pushes) {
      if (push.value == kNoValue || maker(root(push.value)).op != "read") continue;
      return Unimplemented(
          "program \"{}\" pushes the value of a whole variable, but variables live on the device",
          p().name);
    }
    for (ValueId v : Seen()) {
      if (maker(root(v)).op != "read") continue;
      return Unimplemented(
          "program \"{}\" returns a whole variable, but variables live on the device", p().name);
    }
    return absl::OkStatus();
  }

  absl::Status Schedule() {
    std::vector<bool> needed(p().nodes.size(), false), early(p().nodes.size(), false);
    for (ValueId v : Results()) MarkNeeded(v, &needed);
    for (size_t n = 0; n < p().nodes.size(); ++n) {
      if (!needed[n]) continue;
      if (p().nodes[n].op == "read_rows") MarkNeeded(p().nodes[n].inputs[0], &early);
      // The host must know all counts before the device begins.
      if (on_device_ && p().nodes[n].op == "unique") MarkNeeded(p().nodes[n].outputs[0], &early);
    }
    for (size_t n = 0; on_device_ && n < p().nodes.size(); ++n) {
      if (!early[n] || !IsRead(p().nodes[n])) continue;
      return Unimplemented(
          "node {} \"{}\": keys that depend on the values of variables cannot be made unique for a "
          "device; train this program on the CPU",
          n, p().nodes[n].name);
    }
    for (size_t n = 0; n < p().nodes.size(); ++n) {
      if (!needed[n]) continue;
      const Node& scheduled = p().nodes[n];
      if (IsRead(scheduled)) out_.reads.push_back(static_cast<int>(n));
      if (!RunsKernel(scheduled)) continue;
      (early[n] ? out_.prologue : out_.main).push_back({.node = static_cast<int>(n)});
    }
    return absl::OkStatus();
  }

  absl::Status CreateKernels() {
    for (std::vector<CompiledStep>* steps : {&out_.prologue, &out_.main}) {
      for (CompiledStep& step : *steps) {
        const Node& n = node(step.node);
        if (on_device_ && steps == &out_.main) {
          auto device_kernel = CreateDeviceKernel(n, p(), device_kind_);
          if (device_kernel.ok()) {
            step.device_kernel = *std::move(device_kernel);
            continue;
          }
        }
        auto kernel = n.op == "segment" ? CreateSegmentKernel(n, p(), segment_devices_)
                                        : CreateKernel(n, p());
        if (!kernel.ok()) {
          return Annotate(kernel.status(), fmt::format("node {} \"{}\"", step.node, n.name));
        }
        step.kernel = *std::move(kernel);
      }
    }
    return absl::OkStatus();
  }

  template <typename Fn>
  void ForEachStep(const Fn& fn) {
    int position = 0;
    for (CompiledStep& step : out_.prologue) fn(step, position++);
    ++position;
    for (CompiledStep& step : out_.main) fn(step, position++);
  }

  void Use(ValueId v, int position) {
    int& last = last_use_[Index(root(v))];
    last = std::max(last, position);
  }

  void CountUses() {
    ForEachStep([&](CompiledStep& step, int position) {
      const Node& n = node(step.node);
      for (size_t i = 0; i < n.inputs.size(); ++i) {
        if (step.traits().reads_data(i)) Use(n.inputs[i], position);
      }
      for (ValueId v : n.outputs) Use(v, position);
    });
    for (int n : out_.reads) {
      Use(node(n).outputs[0], pull_position());
      for (ValueId keys : node(n).inputs) Use(keys, pull_position());
    }
    for (ValueId v : Results()) Use(v, end_position());
  }

  size_t AppendToPushArea(ValueId v) {
    const size_t offset = out_.push_area_bytes;
    out_.push_area_bytes += AlignUp(CapacityBytes(p().type(v)));
    return offset;
  }

  // Pushed values outlive their step; a constant never changes, an argument is copied.
  void PlacePushes() {
    std::vector<ValueId> moved;
    if (on_device_) moved = PushedToHost();
    for (ValueId v : on_device_ ? Seen() : std::vector<ValueId>()) moved.push_back(v);
    for (ValueId v : moved) {
      const std::string& op = maker(root(v)).op;
      ValueLocation& location = out_.locations[Index(root(v))];
      if (op == "input" || op == "constant" || location.in != Location::kNowhere) continue;
      location = {Location::kPushed, AppendToPushArea(root(v)), 0};
    }
    for (ValueId v : PushedToHost()) {
      const std::string& op = maker(root(v)).op;
      ValueLocation& location = out_.locations[Index(root(v))];
      if (op == "input") {
        out_.push_copies.push_back({v, AppendToPushArea(v)});
      } else if (op != "constant" && location.in == Location::kNowhere) {
        location = {Location::kPushed, AppendToPushArea(root(v)), 0};
      }
    }
  }

  void PlaceLeaves() {
    for (size_t n = 0; n < p().nodes.size(); ++n) {
      const Node& leaf = p().nodes[n];
      if (leaf.op == "input") {
        out_.locations[Index(leaf.outputs[0])] = {Location::kArgument, 0,
                                                  static_cast<int>(IntAttr(leaf, "index"))};
      } else if (leaf.op == "constant") {
        out_.locations[Index(leaf.outputs[0])] = {Location::kConstant, 0, static_cast<int>(n)};
      } else if (leaf.op == "read" && out_.variables_on_device()) {
        out_.locations[Index(leaf.outputs[0])] = {Location::kVariable, 0,
                                                  static_cast<int>(IntAttr(leaf, "variable"))};
      }
    }
  }

  // The values that live across the pull.
  void LocateInLane() {
    const auto place = [this](ValueId v) {
      ValueLocation& at = out_.locations[Index(v)];
      if (at.in != Location::kNowhere || last_use_[Index(v)] < pull_position()) return;
      at = {Location::kLane, out_.lane_bytes, 0};
      out_.lane_bytes += AlignUp(CapacityBytes(p().type(v)));
    };
    for (const CompiledStep& step : out_.prologue) {
      for (ValueId v : node(step.node).outputs) place(v);
    }
    for (int n : out_.reads) place(node(n).outputs[0]);
  }

  void PlaceReads() {
    for (int n : out_.reads) PlaceInArena(node(n).outputs[0], pull_position());
  }

  void PlaceInArena(ValueId v, int position) {
    ValueLocation& location = out_.locations[Index(v)];
    if (location.in != Location::kNowhere) return;
    location.in = Location::kArena;
    block_of_[Index(v)] = static_cast<int>(blocks_.size());
    blocks_.push_back({CapacityBytes(p().type(v)), position, last_use_[Index(v)]});
  }

  // The input whose memory output 0 of a step may take over, or kNoValue: it dies here, has the
  // same layout, and no other input is another view of the same memory.
  ValueId InputToReuse(const CompiledStep& step, int position) const {
    const Node& n = node(step.node);
    const ValueType& type = p().type(n.outputs[0]);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const ValueId input = n.inputs[i];
      const ValueId from = root(input);
      if (!step.traits().in_place(i) || out_.locations[Index(from)].in != Location::kArena ||
          last_use_[Index(from)] != position || p().type(input).dims != type.dims ||
          SizeOf(p().type(input).dtype) != SizeOf(type.dtype)) {
        continue;
      }
      if (maker(from).op == "read") continue;  // it may be lent, and then nobody writes it
      const bool other_view = std::ranges::any_of(n.inputs, [&](ValueId other) {
        return root(other) == from && p().type(other).dims != type.dims;
      });
      if (!other_view) return from;
    }
    return kNoValue;
  }

  void PlaceSteps() {
    ForEachStep([&](CompiledStep& step, int position) {
      const Node& n = node(step.node);
      const ValueId out = n.outputs[0];
      const ValueId reused = InputToReuse(step, position);
      if (reused != kNoValue && out_.locations[Index(out)].in == Location::kNowhere) {
        const int block = block_of_[Index(reused)];
        out_.locations[Index(out)].in = Location::kArena;
        block_of_[Index(out)] = block;
        blocks_[Index(block)].last = std::max(blocks_[Index(block)].last, last_use_[Index(out)]);
      }
      for (ValueId v : n.outputs) PlaceInArena(v, position);
      if (step.traits().scratch_bytes() > 0) {
        scratch_.push_back({&step, blocks_.size()});
        blocks_.push_back({step.traits().scratch_bytes(), position, position});
      }
    });
  }

  void PlaceArena() {
    const MemoryPlan plan = PlanMemory(blocks_);
    out_.arena_bytes = plan.bytes;
    for (size_t v = 0; v < block_of_.size(); ++v) {
      if (block_of_[v] >= 0) out_.locations[v].offset = plan.offsets[Index(block_of_[v])];
    }
    for (const auto& [step, block] : scratch_) step->scratch_offset = plan.offsets[block];
  }

  const std::string_view device_kind_;
  const bool on_device_;
  const int lanes_;
  SegmentDevices* const segment_devices_;  // null: the program is not cut
  CompiledProgram out_;
  std::vector<int> made_by_;   // node, by value
  std::vector<int> last_use_;  // position, by root value; -1: none
  std::vector<int> block_of_;  // by root value; -1: not in the arena
  std::vector<MemoryBlock> blocks_;
  std::vector<std::pair<CompiledStep*, size_t>> scratch_;  // with their blocks
};

}  // namespace

size_t CapacityBytes(const ValueType& type) {
  return static_cast<size_t>(CapacityElements(type)) * SizeOf(type.dtype);
}

absl::StatusOr<CompiledProgram> CompileProgram(Program program, std::string_view device_kind,
                                               int lanes, const ProgramOptions& options) {
  COHORT_RETURN_IF_ERROR(ValidateProgram(program));
  return CompileValidProgram(std::move(program), device_kind, lanes, options);
}

absl::StatusOr<CompiledProgram> CompileValidProgram(Program program, std::string_view device_kind,
                                                    int lanes, const ProgramOptions& options) {
  return Planner(std::move(program), device_kind, lanes, options).Run();
}

absl::StatusOr<Program> ProgramOfShare(const Program& program, int64_t examples) {
  Program share = program;
  const int64_t capacity = program.symbols[0].capacity;
  share.symbols[0].capacity = examples;
  for (size_t v = 0; v < share.values.size(); ++v) {
    for (size_t d = 0; d < share.values[v].dims.size(); ++d) {
      Dim& dim = share.values[v].dims[d];
      if (dim.symbol != 1) continue;
      if (d > 0) {
        return Unimplemented(
            "program \"{}\": value {} has its examples along axis {}, so that several devices "
            "cannot "
            "share a batch; use one device",
            program.name, v, d);
      }
      dim.size = dim.size / capacity * examples;
    }
  }
  return share;
}

}  // namespace cohort
