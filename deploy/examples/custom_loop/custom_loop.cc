// A chief with a training loop of its own. Start workers and parameter servers as for any job, then
// this instead of cohort-chief:
//
//   TF_CONFIG='...' cohort-custom-loop --checkpoint_dir /shared/ckpt
//
//   1. variables, a step function and a dataset on every worker;
//   2. epochs of Schedule and Join, the losses by Fetch;
//   3. an error: a step that cannot run is raised once, by Join, and the loop continues;
//   4. the trained values.
//
// tutorial.cc has the same loop with a cluster in its own process.
#include <cstdio>
#include <cstdlib>

#include "cohort/cohort.h"

namespace {

using namespace cohort;

constexpr int kBatch = 32;

struct Flags {
  RoleFlags role;
  std::string checkpoint_dir = "checkpoints/custom_loop";
  int epochs = 4;
  int steps_per_epoch = 50;
};

// What a step runs on.
struct Training {
  std::unique_ptr<ClusterCoordinator> coordinator;
  StepFunction step;
  PerWorkerDataset dataset;
};

absl::StatusOr<Training> Prepare(const Flags& flags, const RoleContext& context) {
  CoordinatorOptions options = CoordinatorOptionsOf(context);
  options.job = "custom-loop";
  options.checkpoint_dir = flags.checkpoint_dir;
  options.on_wait = [](const std::string& what) { std::printf("%s\n", what.c_str()); };
  Training training;
  COHORT_ASSIGN_OR_RETURN(training.coordinator, ClusterCoordinator::Start(options));

  VariableSet variables(/*seed=*/7);
  const Variable embedding = variables.AddEmbedding("embedding", 8, 20);
  const Variable kernel = variables.Add("dense/kernel", {20, 1}, "uniform");
  const Variable bias = variables.Add("dense/bias", {1}, "zeros");
  COHORT_RETURN_IF_ERROR(variables.CreateOn(training.coordinator.get(),
                                            {"RMSprop", {{"learning_rate", 0.1}}},
                                            FixedShardsPartitioner(2), "round_robin"));

  const auto trace = [&](StepTrace* step) {
    const Expr words = step->Input("features", DType::kInt64, {3});
    const Expr label = step->Input("label", DType::kFloat32);
    const Expr pooled = ReduceMean(step->Lookup(embedding, words), {1});
    const Expr logits = MatMul(pooled, step->Read(kernel)) + step->Read(bias);
    step->Output("loss", step->Minimize(SigmoidCrossEntropy(Reshape(label, {-1, 1}), logits)));
  };
  COHORT_ASSIGN_OR_RETURN(const Program program, TraceStep("custom_train", kBatch, trace));
  COHORT_ASSIGN_OR_RETURN(training.step, training.coordinator->RegisterStep(program));
  COHORT_ASSIGN_OR_RETURN(training.dataset,
                          DatasetBuilder::Generator("recommender", /*records=*/6400, /*seed=*/1)
                              .StringLookup("features", {"avenger", "ironman", "batman", "hulk",
                                                         "spiderman", "kingkong", "wonder_woman"})
                              .Equals("label", "yes")
                              .Batch(kBatch, {"features", "label"})
                              .CreateOn(training.coordinator.get()));
  return training;
}

// One epoch: its steps run on whatever workers are free, and read their worker's own dataset.
absl::StatusOr<double> TrainEpoch(const Training& training, int steps) {
  std::vector<RemoteValue> values;
  for (int i = 0; i < steps; ++i) {
    COHORT_ASSIGN_OR_RETURN(const RemoteValue value,
                            training.coordinator->Schedule(training.step, training.dataset));
    values.push_back(value);
  }
  COHORT_RETURN_IF_ERROR(training.coordinator->Join());
  COHORT_ASSIGN_OR_RETURN(const std::vector<StepResult> results, Fetch(values));
  double sum = 0;
  for (const StepResult& result : results) sum += result.outputs[0].values<float>()[0];
  return sum / steps;
}

// A batch that does not fit the step: the error of its closure comes out of Join, once.
absl::Status RaiseAndRecover(const Training& training) {
  const std::vector<Tensor> wrong = {Tensor::Zeros(DType::kInt64, {4, 99}),
                                     Tensor::Zeros(DType::kFloat32, {4})};
  COHORT_RETURN_IF_ERROR(training.coordinator->Schedule(training.step, wrong).status());
  const absl::Status raised = training.coordinator->Join();
  if (raised.ok()) return Internal("a batch of the wrong shape was accepted");
  std::printf("raised once: %s\n", std::string(raised.message()).c_str());
  COHORT_RETURN_IF_ERROR(training.coordinator->Join());  // nothing is left of it
  COHORT_RETURN_IF_ERROR(TrainEpoch(training, 1).status());
  std::printf("and the loop continues\n");
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags) {
  COHORT_ASSIGN_OR_RETURN(const RoleContext context,
                          MakeRoleContext(flags.role, Role::kChief, std::getenv("TF_CONFIG")));
  COHORT_ASSIGN_OR_RETURN(const Training training, Prepare(flags, context));
  for (int epoch = 1; epoch <= flags.epochs; ++epoch) {
    COHORT_ASSIGN_OR_RETURN(const double loss, TrainEpoch(training, flags.steps_per_epoch));
    std::printf("epoch %d/%d, loss %.4f\n", epoch, flags.epochs, loss);
  }
  COHORT_RETURN_IF_ERROR(RaiseAndRecover(training));
  COHORT_ASSIGN_OR_RETURN(const auto values, training.coordinator->ReadVariables());
  for (const auto& [name, value] : values) {
    std::printf("%-14s %s\n", name.c_str(), DimsToString(value.dims()).c_str());
  }
  return training.coordinator->Shutdown("the custom loop is done", /*job_finished=*/true);
}

}  // namespace

int main(int argc, char** argv) {
  PrepareProcess("cohort-custom-loop");
  Flags options;
  FlagSet flags("cohort-custom-loop", "A chief with a training loop of its own.");
  AddRoleFlags(&flags, &options.role);
  flags.Add("checkpoint_dir", &options.checkpoint_dir, "seen by this chief and every ps");
  flags.Add("epochs", &options.epochs, "epochs to train");
  flags.Add("steps_per_epoch", &options.steps_per_epoch, "steps of one epoch, over all workers");
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  return ExitWith("cohort-custom-loop", Run(options));
}
