// A chief with a training loop of its own: the custom training loop of TensorFlow's
// parameter-server tutorial, in C++. Start workers and parameter servers as for any job, then this
// instead of cohort-chief:
//
//   TF_CONFIG='...' cohort-custom-loop --checkpoint_dir /shared/ckpt
//
//   1. variables, a step function and a dataset on every worker;
//   2. epochs of Schedule and Join, the losses by Fetch;
//   3. an error: a step that cannot run is raised once, by Join, and the loop continues;
//   4. the trained values.
#include <cstdio>
#include <cstdlib>

#include "chief/api/coordinator.h"
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/cluster/role_flags.h"
#include "deploy/examples/custom_loop/recommender_step.h"

namespace cohort::examples {
namespace {

struct Flags {
  RoleFlags role;
  std::string checkpoint_dir = "checkpoints/custom_loop";
  int epochs = 4;
  int steps_per_epoch = 50;
};

// One epoch: its steps run on whatever workers are free, and read their worker's own dataset.
absl::StatusOr<double> TrainEpoch(ClusterCoordinator* coordinator, StepFunction step,
                                  PerWorkerDataset dataset, int steps) {
  std::vector<RemoteValue> values;
  for (int i = 0; i < steps; ++i) {
    COHORT_ASSIGN_OR_RETURN(RemoteValue value, coordinator->Schedule(step, dataset));
    values.push_back(std::move(value));
  }
  COHORT_RETURN_IF_ERROR(coordinator->Join());
  COHORT_ASSIGN_OR_RETURN(const std::vector<StepResult> results, Fetch(values));
  double sum = 0;
  for (const StepResult& result : results) sum += result.outputs[0].values<float>()[0];
  return sum / steps;
}

// A batch that does not fit the step: the error of its closure comes out of Join, once.
absl::Status RaiseAndRecover(ClusterCoordinator* coordinator, StepFunction step,
                             PerWorkerDataset dataset) {
  const Tensor words = Tensor::Zeros(DType::kInt64, {4, 99});
  const Tensor labels = Tensor::Zeros(DType::kFloat32, {4});
  COHORT_ASSIGN_OR_RETURN(const RemoteValue bad, coordinator->Schedule(step, {words, labels}));
  const absl::Status raised = coordinator->Join();
  if (raised.ok()) return Internal("a batch of the wrong shape was accepted");
  std::printf("raised once: %s\n", std::string(raised.message()).c_str());
  COHORT_RETURN_IF_ERROR(coordinator->Join());  // nothing is left of it
  COHORT_RETURN_IF_ERROR(TrainEpoch(coordinator, step, dataset, 1).status());
  std::printf("and the loop continues\n");
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags) {
  COHORT_ASSIGN_OR_RETURN(const RoleContext context,
                          MakeRoleContext(flags.role, Role::kChief, std::getenv("TF_CONFIG")));
  const RealClock clock;
  CoordinatorOptions options;
  options.cluster = context.cluster;
  options.job = "custom-loop";
  options.checkpoint_dir = flags.checkpoint_dir;
  options.chief_incarnation = context.incarnation;
  options.security = context.security;
  options.seed = 7;
  options.clock = &clock;
  options.log = context.log.get();
  options.on_wait = [](const std::string& what) { std::printf("%s\n", what.c_str()); };
  COHORT_ASSIGN_OR_RETURN(const auto coordinator, ClusterCoordinator::Start(options));

  v1::PartitionerSpec partitioner;
  partitioner.set_class_name("FixedShards");
  partitioner.set_num_shards(2);
  COHORT_RETURN_IF_ERROR(
      coordinator->CreateVariables(Variables(), Optimizer(), partitioner, "round_robin"));
  COHORT_ASSIGN_OR_RETURN(const Program program, TrainStep());
  COHORT_ASSIGN_OR_RETURN(const StepFunction step, coordinator->RegisterStep(program));
  COHORT_ASSIGN_OR_RETURN(
      const PerWorkerDataset dataset,
      coordinator->CreatePerWorkerDataset(Data(), {.batch_size = static_cast<uint32_t>(kBatch),
                                                   .features = {"features", "label"},
                                                   .seed = 7}));

  for (int epoch = 1; epoch <= flags.epochs; ++epoch) {
    COHORT_ASSIGN_OR_RETURN(const double loss,
                            TrainEpoch(coordinator.get(), step, dataset, flags.steps_per_epoch));
    std::printf("epoch %d/%d, loss %.4f\n", epoch, flags.epochs, loss);
  }
  COHORT_RETURN_IF_ERROR(RaiseAndRecover(coordinator.get(), step, dataset));
  COHORT_ASSIGN_OR_RETURN(const auto values, coordinator->ReadVariables());
  for (const auto& [name, value] : values) {
    std::printf("%-14s %s\n", name.c_str(), DimsToString(value.dims()).c_str());
  }
  return coordinator->Shutdown("the custom loop is done", /*job_finished=*/true);
}

}  // namespace
}  // namespace cohort::examples

int main(int argc, char** argv) {
  cohort::InstallTerminateHandler("cohort-custom-loop");
  cohort::examples::Flags options;
  cohort::FlagSet flags("cohort-custom-loop", "A chief with a training loop of its own.");
  cohort::AddRoleFlags(&flags, &options.role);
  flags.Add("checkpoint_dir", &options.checkpoint_dir, "seen by this chief and every ps");
  flags.Add("epochs", &options.epochs, "epochs to train");
  flags.Add("steps_per_epoch", &options.steps_per_epoch, "steps of one epoch, over all workers");
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  return cohort::ExitWith("cohort-custom-loop", cohort::examples::Run(options));
}
