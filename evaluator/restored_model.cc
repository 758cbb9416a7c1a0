#include "evaluator/restored_model.h"

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/optimizers/optimizer_rules.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// No optimizer updates them here, so they have no slots.
absl::StatusOr<std::unique_ptr<LocalVariables>> VariablesOf(const Program& program) {
  std::vector<v1::VariableSpec> specs;
  for (const VariableDecl& decl : program.variables) {
    v1::VariableSpec& spec = specs.emplace_back();
    spec.set_name(decl.name);
    spec.set_dtype(static_cast<v1::DType>(decl.type.dtype));
    for (const Dim& dim : decl.type.dims) spec.add_dims(dim.size);
    spec.mutable_initializer()->set_class_name("Zeros");
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
