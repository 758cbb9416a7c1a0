// The training loop of TensorFlow's parameter-server tutorial, in C++: a cluster of three workers
// and two parameter servers in this process, StringLookup, a model with an embedding, RMSprop, and
// an error that is raised once.
#include <cstdio>

#include "cohort/in_process.h"

namespace {

using namespace cohort;

constexpr int kBatch = 32, kEpochs = 4, kStepsPerEpoch = 50;

// Schedules an epoch of steps on whatever workers are free, and returns the mean of their losses.
absl::StatusOr<double> TrainEpoch(ClusterCoordinator* coordinator, StepFunction step,
                                  PerWorkerDataset dataset) {
  std::vector<RemoteValue> values;
  for (int i = 0; i < kStepsPerEpoch; ++i) {
    COHORT_ASSIGN_OR_RETURN(const RemoteValue value, coordinator->Schedule(step, dataset));
    values.push_back(value);
  }
  COHORT_RETURN_IF_ERROR(coordinator->Join());
  COHORT_ASSIGN_OR_RETURN(const auto results, Fetch(values));
  double sum = 0;
  for (const StepResult& result : results) sum += result.outputs[0].values<float>()[0];
  return sum / kStepsPerEpoch;
}

absl::Status Train() {
  COHORT_ASSIGN_OR_RETURN(const auto cluster,
                          InProcessCluster::Start({.workers = 3, .parameter_servers = 2}));
  COHORT_ASSIGN_OR_RETURN(const auto coordinator,
                          ClusterCoordinator::Start(cluster->coordinator_options()));

  VariableSet variables(/*seed=*/7);
  const Model model =
      BuildModel(&variables, {{"Input", {{"shape", {3}}, {"dtype", "int64"}}},
                              {"Embedding", {{"input_dim", 8}, {"output_dim", 20}}},
                              "GlobalAveragePooling1D",
                              {"Dense", {{"units", 1}, {"activation", "sigmoid"}}}});
  COHORT_RETURN_IF_ERROR(variables.CreateOn(
      coordinator.get(), {"RMSprop", {{"learning_rate", 0.1}}}, FixedShardsPartitioner(2)));

  COHORT_ASSIGN_OR_RETURN(
      const Program program, TraceStep("train", kBatch, [&](StepTrace* step) {
        const Expr prediction = model(step, step->Input("features", DType::kInt64, {3}));
        const Expr label = step->Input("label", DType::kFloat32);
        step->Output("loss", step->Minimize(step->Loss("BinaryCrossentropy", prediction, label)));
      }));
  COHORT_ASSIGN_OR_RETURN(const StepFunction step, coordinator->RegisterStep(program));
  COHORT_ASSIGN_OR_RETURN(const PerWorkerDataset dataset,
                          DatasetBuilder::Generator("recommender", /*records=*/6400, /*seed=*/1)
                              .StringLookup("features", {"avenger", "ironman", "batman", "hulk",
                                                         "spiderman", "kingkong", "wonder_woman"})
                              .Equals("label", "yes")
                              .Batch(kBatch, {"features", "label"})
                              .CreateOn(coordinator.get()));

  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    COHORT_ASSIGN_OR_RETURN(const double loss, TrainEpoch(coordinator.get(), step, dataset));
    std::printf("epoch %d/%d, loss %.4f\n", epoch, kEpochs, loss);
  }

  // A batch that does not fit the step: Join raises the error once, and the loop continues.
  const std::vector<Tensor> wrong = {Tensor::Zeros(DType::kInt64, {4, 99}),
                                     Tensor::Zeros(DType::kFloat32, {4})};
  COHORT_RETURN_IF_ERROR(coordinator->Schedule(step, wrong).status());
  std::printf("raised once: %s\n", std::string(coordinator->Join().message()).c_str());
  COHORT_ASSIGN_OR_RETURN(const double loss, TrainEpoch(coordinator.get(), step, dataset));
  std::printf("and the loop continues, loss %.4f\n", loss);
  return coordinator->Shutdown("the tutorial is done", /*job_finished=*/true);
}

}  // namespace

int main() { return ExitWith("tutorial", Train()); }
