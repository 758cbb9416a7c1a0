#ifndef COHORT_COMMON_EXEC_DEVICE_STEP_H_
#define COHORT_COMMON_EXEC_DEVICE_STEP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/device/device.h"
#include "common/exec/compiled_program.h"
#include "common/exec/resident_step.h"
#include "common/exec/value_table.h"
#include "common/kernels/random_key.h"

namespace cohort {

class ThreadPool;

// The main steps of a program on a device. A run is one graph:
//
//   upload bodies, arguments and what lanes hold -> kernels -> download what is visible outside
//
// whose ops start as soon as the memory that they need is ready, so that copies and kernels
// overlap. There is a graph for each pair of a lane and a push area, made when it is first needed.
//
// In the memory of each lane on the device: errors | bodies | arguments | the lane's values. The
// host has the first three in pinned memory, too, from which they are uploaded together.
//
// If variables live on the device, rows are read within the graph, and pushes are applied by graphs
// of their own (resident_step.h).
class DeviceStep {
 public:
  // The examples of a batch that this device works on.
  struct Share {
    int64_t first = 0;
    int64_t examples = 0;  // at most
    bool alone = true;     // all of them: results go to the host's table
  };
  static Share All(const Program& program) {
    return {.examples = program.symbols.empty() ? 0 : program.symbols[0].capacity};
  }

  struct Options {
    Share share;
    int lanes = 1;
    ThreadPool* pool = nullptr;  // for steps on the CPU
    // Of the program, on this device; null unless it was compiled for that.
    const ResidentVariables* variables = nullptr;
  };

  // `compiled`: the program, or ProgramOfShare. `host`: the table of the whole program's values in
  // the host's memory. All outlive this object. Errors: ResourceExhausted: the device lacks memory;
  // those of ResidentStep::Make.
  static absl::StatusOr<std::unique_ptr<DeviceStep>> Make(const CompiledProgram& compiled,
                                                          std::shared_ptr<Device> device,
                                                          const ValueTable* host,
                                                          const Options& options);

  // Begins the main steps on what the host's table holds now, which uses this lane and push area.
  absl::Status Launch(int lane, int area, const RandomKey& key);
  // Waits for them. Errors: those of kernels, naming the node; those of the device.
  absl::Status Wait();
  // Applies the newest run's pushes to the variables of a group here, and waits. `step`: as in
  // DenseUpdate. Errors: those of the device.
  absl::Status ApplyPushes(uint32_t group, uint64_t step);

  // Returns true if a main step makes this value, or a read of rows on the device.
  bool Computes(ValueId v) const;
  // If the device is not alone: its part of a pushed value, in the host's memory, and its sizes.
  const void* result(ValueId v) const;
  const ValueView& result_view(ValueId v) const { return table_->view(v); }
  // The examples of this run.
  int64_t examples() const { return compiled_.program.symbols.empty() ? 0 : table_->count(1); }

  size_t memory_bytes() const;
  // What a run and its updates copy between host and device.
  int64_t transfer_bytes() const { return transfer_bytes_; }

 private:
  // A main step.
  struct Step {
    const CompiledStep* compiled = nullptr;
    std::vector<const ValueView*> host, device;  // inputs, then outputs
    size_t bodies = 0;                           // offset in a lane's memory
    size_t error = 0;                            // the same, if it may fail
  };
  struct Lane {
    bool written = false;                     // its bodies are
    std::vector<int64_t> counts;              // by symbol, for which they were written
    std::unique_ptr<ResidentStep> variables;  // null: the host has them
  };

  DeviceStep(const CompiledProgram& compiled, std::shared_ptr<Device> device,
             const ValueTable* host, const Options& options);
  void UseLane(int lane);
  // Calls fn with each value that is read on the device; some of them several times.
  template <typename Fn>
  void ForEachInput(const Fn& fn) const;
  absl::Status Allocate();
  absl::Status AddVariables();
  absl::Status UploadConstants();
  void AddSteps();
  KernelContext ContextOf(const Step& step, int lane) const;
  void WriteBodies(int lane);
  void StageArguments(int lane);
  GraphPlan PlanGraph(int lane);
  void PlanUploads(int lane, GraphPlan* plan) const;
  void PlanStep(const Step& step, int lane, GraphPlan* plan);
  void PlanHostStep(const Step& step, GraphPlan* plan);
  absl::Status StatusOfRun() const;
  bool IsOfExamples(ValueId v) const;
  uint8_t* ShareOf(ValueId v, size_t* bytes) const;
  MemoryRange RangeOf(const ValueView& view, ValueId v) const;
  uint8_t* staged(int lane) const { return staging_.data() + Index(lane) * staged_bytes_; }
  uint8_t* uploaded(int lane) const { return uploads_.data() + Index(lane) * staged_bytes_; }
  static size_t Index(int i) { return static_cast<size_t>(i); }

  const CompiledProgram& compiled_;
  const std::shared_ptr<Device> device_;
  const ValueTable* const host_;
  const Share share_;
  ThreadPool* const pool_;

  std::vector<Step> steps_;
  const ResidentVariables* const variables_;
  std::vector<bool> computed_;            // by root value: see Computes
  std::vector<int> used_arguments_;       // on the device
  std::vector<size_t> argument_offsets_;  // by argument
  size_t errors_bytes_ = 0;               // at the beginning of a lane's memory
  size_t first_argument_ = 0;             // offset in it
  size_t staged_bytes_ = 0;               // errors, bodies and arguments

  DeviceMemory staging_;          // pinned, by lane
  DeviceMemory errors_;           // pinned: downloaded
  DeviceMemory results_;          // pinned: the push area, downloaded, unless the device is alone
  DeviceMemory uploads_;          // on the device, by lane
  DeviceMemory memory_;           // on the device: the arena, the lanes, one push area, constants
  std::vector<void*> constants_;  // by node, on the device
  std::unique_ptr<ValueTable> table_;  // the values in the memory of the device
  std::vector<Lane> lanes_;
  RandomKey key_;
  int lane_ = 0;  // the lane that the run uses
  DeviceGraph* running_ = nullptr;
  std::map<std::pair<int, int>, std::unique_ptr<DeviceGraph>> graphs_;  // by lane and area
  // By lane and group, made when they are first needed.
  std::map<std::pair<int, uint32_t>, std::unique_ptr<DeviceGraph>> updates_;
  absl::Status host_status_;  // set by the steps that run on the CPU
  int64_t transfer_bytes_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_DEVICE_STEP_H_
