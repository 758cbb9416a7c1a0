#include "evaluator/restored_model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/shard_names.h"
#include "common/optimizers/optimizer_rules.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// No optimizer updates them here, so they have no slots. Rows that a table without bounds lacks
// have the values that `layout` (may be null) says.
absl::StatusOr<std::unique_ptr<LocalVariables>> VariablesOf(const Program& program,
                                                            const v1::Layout* layout = nullptr) {
  std::vector<v1::VariableSpec> specs;
  for (const VariableDecl& decl : program.variables) {
    v1::VariableSpec& spec = specs.emplace_back();
    spec.set_name(decl.name);
    spec.set_dtype(static_cast<v1::DType>(decl.type.dtype));
    for (const Dim& dim : decl.type.dims) spec.add_dims(dim.size);
    spec.set_row_reads(IsTable(decl.type));
    spec.mutable_initializer()->set_class_name("Zeros");
    if (layout == nullptr || !IsTable(decl.type)) continue;
    for (const v1::VariableSpec& variable : layout->variables()) {
      if (variable.name() == decl.name) *spec.mutable_initializer() = variable.initializer();
    }
  }
  return LocalVariables::Create(specs, {});
}

}  // namespace

std::string SlotToRead(const CheckpointReader& reader, const std::string& variable, bool averages) {
  return averages && reader.Find(variable, kAverageSlot) != nullptr ? kAverageSlot : "";
}

absl::StatusOr<std::unique_ptr<RestoredModel>> RestoredModel::Create(Program program, int threads) {
  std::unique_ptr<RestoredModel> model(new RestoredModel());
  COHORT_ASSIGN_OR_RETURN(model->variables_, VariablesOf(program));
  CompileOptions compile;
  compile.intra_op_threads = threads;
  COHORT_ASSIGN_OR_RETURN(model->executable_, Executable::Compile(std::move(program), compile));
  COHORT_ASSIGN_OR_RETURN(model->access_,
                          model->variables_->ForProgram(model->executable_->program()));
  return model;
}

absl::Status RestoredModel::Restore(const CheckpointReader& reader, bool averages,
                                    const std::function<void()>& on_progress) {
  // Tables grow: each checkpoint fills new ones.
  const Program& program = executable_->program();
  if (std::ranges::any_of(program.variables, [](const auto& v) { return IsTable(v.type); })) {
    access_ = nullptr;
    COHORT_ASSIGN_OR_RETURN(variables_, VariablesOf(program, &reader.manifest().layout()));
    COHORT_ASSIGN_OR_RETURN(access_, variables_->ForProgram(program));
  }
  COHORT_RETURN_IF_ERROR(variables_->tablet()->FillTables(
      [&](const ShardInfo& shard, Tablet::RowAdder add, Tablet::RowAdder /*add_counts*/) {
        const std::string slots[] = {SlotToRead(reader, shard.variable, averages)};
        const auto add_and_report = [&](auto rows, auto tensors) {
          if (on_progress) on_progress();
          return add(rows, tensors);
        };
        return reader.ReadTable(shard.variable, kKeysSlot, slots, 0,
                                static_cast<uint64_t>(shard.rows), add_and_report);
      }));
  return variables_->tablet()->Fill(
      [&](const ShardInfo& shard, int, int64_t row, int64_t rows, std::span<uint8_t> out) {
        if (on_progress) on_progress();
        return reader.ReadRows(shard.variable, SlotToRead(reader, shard.variable, averages),
                               shard.dtype, static_cast<uint64_t>(row), static_cast<uint64_t>(rows),
                               out);
      });
}

absl::Status RestoredModel::Run(std::span<const Tensor> tensors) {
  COHORT_RETURN_IF_ERROR(executable_->Bind(tensors));
  COHORT_RETURN_IF_ERROR(executable_->Prepare(RandomKey{}));
  const PullBatch pull{0, 0, executable_->pulls()};
  COHORT_RETURN_IF_ERROR(access_->Exchange(nullptr, &pull).status());
  return executable_->Run();
}

}  // namespace cohort
