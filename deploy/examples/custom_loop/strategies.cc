// The toy loop of TensorFlow's guide "Distributed training", Dense(1) on [[1.]] -> [[1.]], under
// any strategy:
//
//   cohort-strategies --strategy mirrored --devices cpu:0,cpu:1
//   cohort-strategies --strategy parameter_server --workers 3
//   TF_CONFIG='...' cohort-strategies --strategy multi_worker_mirrored --directory /shared/loop
//
// With TF_CONFIG this program is the chief, or the first replica of multi_worker_mirrored. `cohort
// run` starts the other tasks.
#include <cstdio>
#include <cstdlib>

#include "cohort/strategy.h"

namespace {

using namespace cohort;

constexpr int kExamples = 64, kGlobalBatch = 16, kEpochs = 2;

absl::Status Train(const std::string& name, const StrategyOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const auto strategy, Strategy::Create(name, options));
  std::printf("%s, %d replicas in sync\n", std::string(strategy->name()).c_str(),
              strategy->num_replicas_in_sync());

  const Model model =
      BuildModel(strategy->Scope(),
                 {{"Dense", {{"units", 1}, {"kernel_regularizer", {"L2", {{"l2", 1e-4}}}}}}});
  const auto train_step = [&](StepTrace* step) {
    const Expr features = step->Input("features", DType::kFloat32, {1});
    const Expr labels = step->Input("labels", DType::kFloat32, {1});
    const KerasClass loss_object = {"BinaryCrossentropy", {{"from_logits", true}}};
    const Expr losses = step->Loss(loss_object, model(step, features), labels);
    step->Output("loss", step->Minimize(losses));
  };
  COHORT_ASSIGN_OR_RETURN(const DistributedStep train,
                          strategy->Trace("train", kGlobalBatch, train_step));
  COHORT_RETURN_IF_ERROR(strategy->CreateVariables({"SGD", {{"learning_rate", 0.1}}}));

  const std::vector<float> ones(kExamples, 1.0F);
  const Tensor column = Tensor::FromValues<float>({kExamples, 1}, ones);
  COHORT_ASSIGN_OR_RETURN(const DistributedDataset dataset,
                          strategy->DistributeDataset({column, column}, kGlobalBatch));
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (const DistributedBatch& batch : dataset.Epoch(epoch)) {
      COHORT_ASSIGN_OR_RETURN(const PerReplica losses, strategy->Run(train, batch));
      COHORT_ASSIGN_OR_RETURN(const Tensor loss, strategy->Reduce(ReduceOp::kMean, losses, "loss"));
      std::printf("loss %.9g\n", loss.values<float>()[0]);
    }
  }
  return strategy->Shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  PrepareProcess("cohort-strategies");
  std::string name = "one_device";
  StrategyOptions options;
  FlagSet flags("cohort-strategies", "One training loop under every strategy.");
  AddStrategyFlags(&flags, &name, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  const char* const tf_config = std::getenv("TF_CONFIG");
  if (tf_config != nullptr) options.tf_config = tf_config;
  return ExitWith("cohort-strategies", Train(name, options));
}
