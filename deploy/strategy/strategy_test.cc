#include "deploy/strategy/strategy.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <numeric>

#include "chief/api/model.h"
#include "chief/api/partitioners.h"
#include "common/base/exit_code.h"
#include "common/cluster/free_ports.h"
#include "common/cluster/tf_config.h"
#include "common/graph/expr.h"
#include "common/testing/directory_test_util.h"
#include "deploy/in_process/in_process_task.h"

namespace cohort {
namespace {

using Catch::Contains;

void RequireOk(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  RequireOk(value.status());
  return *std::move(value);
}

struct Setup {
  std::string name;
  std::string devices = "cpu:0";
  int workers = 1;
  int parameter_servers = 1;

  std::unique_ptr<Strategy> Make(StrategyOptions options = {}) const {
    options.devices.devices = devices;
    for (int i = 1; name == "multi_worker_mirrored" || name == "parameter_server"; ++i) {
      if (i == workers) break;
      options.devices.devices += fmt::format(",cpu:{}", i);
    }
    options.workers = workers;
    options.parameter_servers = parameter_servers;
    return Value(Strategy::Create(name, std::move(options)));
  }
};

const Setup kOneDevice = {"one_device"};
const std::vector<Setup> kOthers = {
    {"central_storage", "cpu:0,cpu:1"},
    {"MirroredStrategy", "cpu:0,cpu:1,cpu:2"},
    {"multi_worker_mirrored", "cpu:0", 2},
    {"parameter_server", "cpu:0", 3, 2},
};

// Examples that no two strategies split alike by chance: y is a function of three features.
struct Examples {
  Examples(DType dtype, int64_t rows) : dtype(dtype) {
    std::vector<double> features, labels;
    for (int64_t i = 0; i < rows; ++i) {
      double label = 0.25;
      for (int64_t k = 0; k < 3; ++k) {
        features.push_back(std::sin(static_cast<double>(7 * i + 3 * k + 1)));
        label += features.back() * static_cast<double>(k - 1);
      }
      labels.push_back(label);
    }
    columns = {Make({rows, 3}, features), Make({rows, 1}, labels)};
  }
  Tensor Make(Dims dims, const std::vector<double>& values) const {
    if (dtype == DType::kFloat64) return Tensor::FromValues<double>(std::move(dims), values);
    const std::vector<float> floats(values.begin(), values.end());
    return Tensor::FromValues<float>(std::move(dims), floats);
  }

  DType dtype;
  std::vector<Tensor> columns;
};

// What a loop has computed: the loss of each global batch, then the variables.
struct Outcome {
  std::vector<double> losses;
  std::vector<double> weights;
  bool operator==(const Outcome&) const = default;
};

double Scalar(const Tensor& tensor) {
  return tensor.dtype() == DType::kFloat64 ? tensor.values<double>()[0]
                                           : static_cast<double>(tensor.values<float>()[0]);
}

std::vector<double> WeightsOf(Strategy* strategy) {
  std::vector<double> weights;
  for (const auto& [name, value] : Value(strategy->coordinator()->ReadVariables())) {
    for (int64_t i = 0; i < value.num_elements(); ++i) {
      const auto at = static_cast<size_t>(i);
      weights.push_back(value.dtype() == DType::kFloat64
                            ? value.values<double>()[at]
                            : static_cast<double>(value.values<float>()[at]));
    }
  }
  return weights;
}

// Two epochs of a model with two layers.
struct Loop {
  Loop(const Setup& setup, StrategyOptions options, double dropout = 0) : dtype(options.dtype) {
    options.seed = 3;
    strategy = setup.Make(std::move(options));
    const Model model =
        BuildModel(strategy->Scope(), {{"Dense", {{"units", 5}, {"activation", "tanh"}}},
                                       {"Dropout", {{"rate", dropout}}},
                                       {"Dense", {{"units", 1}, {"kernel_regularizer", "l2"}}}});
    train = Value(strategy->Trace("train", kBatch, [&](StepTrace* step) {
      const Expr x = step->Input("x", dtype, {3});
      const Expr y = step->Input("y", dtype, {1});
      const Expr losses = step->Loss("MeanSquaredError", model(step, x), y);
      step->Output("losses", losses);
      step->Output("loss", step->Minimize(losses));
    }));
    RequireOk(strategy->CreateVariables({"Adam", {{"learning_rate", 0.05}}}));
  }
  // One pass over 41 examples: the last batch is short.
  DistributedDataset Dataset() {
    return Value(strategy->DistributeDataset(Examples(dtype, 41).columns, kBatch));
  }
  double LossOf(const PerReplica& results, uint64_t examples) {
    const std::vector<MetricState> metrics = Value(strategy->ReduceMetrics(results));
    REQUIRE(metrics.at(0).name == "loss");
    CHECK(metrics[0].Scalar(kCount) == static_cast<double>(examples));
    return metrics[0].Value();
  }
  void Train(uint64_t epoch, Outcome* outcome) {
    for (const DistributedBatch& batch : Dataset().Epoch(epoch)) {
      const PerReplica results = Value(strategy->Run(train, batch));
      outcome->losses.push_back(LossOf(results, batch.examples()));
    }
  }
  Outcome Run() {
    Outcome outcome;
    for (uint64_t epoch = 0; epoch < 2; ++epoch) Train(epoch, &outcome);
    outcome.weights = WeightsOf(strategy.get());
    return outcome;
  }

  static constexpr int kBatch = 12;
  const DType dtype;
  std::unique_ptr<Strategy> strategy;
  DistributedStep train;
};

TEST_CASE("every strategy computes the same bits, if a global batch has as many shares") {
  const StrategyOptions options = {.num_replicas_in_sync = 8, .deterministic = true};
  const Outcome expected = Loop(kOneDevice, options, /*dropout=*/0.25).Run();
  REQUIRE(expected.losses.size() == 8);
  CHECK(expected.losses.back() < expected.losses.front());
  CHECK(expected.weights.size() == 3 * 5 + 5 + 5 + 1);
  for (const Setup& setup : kOthers) {
    INFO(setup.name);
    Loop loop(setup, options, /*dropout=*/0.25);
    CHECK(loop.strategy->num_replicas_in_sync() == 8);
    const Outcome outcome = loop.Run();
    CHECK(outcome.losses == expected.losses);
    CHECK(outcome.weights == expected.weights);
  }
}

TEST_CASE("every strategy trains by the mean of the global batch, however it is split") {
  const StrategyOptions options = {.dtype = DType::kFloat64};
  const Outcome expected = Loop(kOneDevice, options).Run();
  std::vector<int> replicas;
  for (const Setup& setup : kOthers) {
    INFO(setup.name);
    Loop loop(setup, options);
    replicas.push_back(loop.strategy->num_replicas_in_sync());
    const Outcome outcome = loop.Run();
    REQUIRE(outcome.losses.size() == expected.losses.size());
    for (size_t i = 0; i < outcome.losses.size(); ++i) {
      CHECK(outcome.losses[i] == Approx(expected.losses[i]).epsilon(0).margin(1e-9));
    }
    REQUIRE(outcome.weights.size() == expected.weights.size());
    for (size_t i = 0; i < outcome.weights.size(); ++i) {
      CHECK(outcome.weights[i] == Approx(expected.weights[i]).epsilon(0).margin(1e-9));
    }
  }
  CHECK(replicas == std::vector<int>{2, 3, 2, 3});
}

// "Distributed training with TensorFlow": Dense(1, kernel_regularizer=L2(1e-4)) on [[1.]] ->
// [[1.]], BinaryCrossentropy(from_logits=True), SGD. With one weight and one bias the steps can be
// written down.
TEST_CASE("the toy loop of TensorFlow's guide gives the losses of its formula") {
  std::vector<Setup> setups = kOthers;
  setups.push_back(kOneDevice);
  for (const Setup& setup : setups) {
    INFO(setup.name);
    const auto strategy = setup.Make({.dtype = DType::kFloat64});
    const Model model =
        BuildModel(strategy->Scope(), {{"Dense",
                                        {{"units", 1},
                                         {"kernel_initializer", "ones"},
                                         {"kernel_regularizer", {"L2", {{"l2", 1e-4}}}}}}});
    const DistributedStep train = Value(strategy->Trace("train", 6, [&](StepTrace* step) {
      const Expr x = step->Input("x", DType::kFloat64, {1});
      const Expr y = step->Input("y", DType::kFloat64, {1});
      step->Output("loss",
                   step->Minimize(step->Loss({"BinaryCrossentropy", {{"from_logits", true}}},
                                             model(step, x), y)));
    }));
    RequireOk(strategy->CreateVariables({"SGD", {{"learning_rate", 0.1}}}));
    const std::vector<double> ones(60, 1.0);
    const Tensor column = Tensor::FromValues<double>({60, 1}, ones);
    double kernel = 1, bias = 0;
    for (const DistributedBatch& batch :
         Value(strategy->DistributeDataset({column, column}, 6)).Epoch(0)) {
      const PerReplica losses = Value(strategy->Run(train, batch));
      const double expected = std::log1p(std::exp(-kernel - bias)) + 1e-4 * kernel * kernel;
      const double loss = Scalar(Value(strategy->Reduce(ReduceOp::kMean, losses, "loss")));
      CHECK(loss == Approx(expected).epsilon(0).margin(1e-9));
      const double slope = -1 / (1 + std::exp(kernel + bias));
      kernel -= 0.1 * (slope + 2e-4 * kernel);
      bias -= 0.1 * slope;
    }
    CHECK(kernel > 1.2);  // it has trained
  }
}

TEST_CASE("a distributed dataset gives each record to one replica of an epoch") {
  testing::TestDirectory directory;
  {
    std::ofstream file(directory / "ids.csv");
    file << "id\n";
    for (int i = 0; i < 53; ++i) file << i << "\n";
  }
  for (const Setup& setup : kOthers) {
    INFO(setup.name);
    const auto strategy = setup.Make({.data_dir = directory.path()});
    const Variable scale = strategy->Scope()->Add("scale", {1}, "ones");
    const DistributedStep read = Value(strategy->Trace("read", 10, [&](StepTrace* step) {
      step->Output("ids", step->Input("id", DType::kFloat32) * step->Read(scale));
    }));
    RequireOk(strategy->CreateVariables("SGD"));
    const DistributedDataset dataset =
        Value(strategy->DistributeDataset(DatasetBuilder::Csv("ids.csv").Batch(10, {"id"})));
    CHECK(dataset.records() == 53);
    CHECK(dataset.batches() == 6);
    std::vector<std::vector<float>> epochs;
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<float>& ids = epochs.emplace_back();
      float sum = 0;
      for (const DistributedBatch& batch : dataset.Epoch(epoch)) {
        const PerReplica results = Value(strategy->Run(read, batch));
        CHECK(results.size() == static_cast<size_t>(strategy->num_replicas_in_sync()));
        for (const Tensor& local : Value(strategy->LocalResults(results, "ids"))) {
          ids.insert(ids.end(), local.values<float>().begin(), local.values<float>().end());
        }
        sum += Value(strategy->Reduce(ReduceOp::kSum, results, "ids", 0)).values<float>()[0];
      }
      CHECK(sum == 52 * 53 / 2);
    }
    CHECK(epochs[0] != epochs[1]);  // each epoch has an order of its own
    std::vector<float> all(53);
    std::iota(all.begin(), all.end(), 0.0F);
    for (std::vector<float>& ids : epochs) {
      std::ranges::sort(ids);
      CHECK(ids == all);
    }
  }
}

TEST_CASE("a loop continues under another strategy") {
  const StrategyOptions options = {.num_replicas_in_sync = 4};
  const Outcome expected = Loop(kOneDevice, options, /*dropout=*/0.25).Run();
  testing::TestDirectory directory;
  StrategyOptions kept = options;
  kept.directory = directory.path();
  Outcome outcome;
  {
    Loop first(kOthers[1], kept, /*dropout=*/0.25);
    first.Train(0, &outcome);
    RequireOk(first.strategy->coordinator()->Checkpoint());
  }
  Loop second(kOthers[3], kept, /*dropout=*/0.25);
  second.Train(1, &outcome);
  outcome.weights = WeightsOf(second.strategy.get());
  CHECK(outcome.losses == expected.losses);
  CHECK(outcome.weights == expected.weights);
}

// The second of two replicas at these ports.
std::unique_ptr<InProcessTask> StartSecondReplica(const std::vector<int>& ports,
                                                  const std::string& directory) {
  ClusterSpec cluster;
  for (int i = 0; i < 2; ++i) {
    cluster.Set({Role::kWorker, i}, {"127.0.0.1", ports[static_cast<size_t>(i)]});
  }
  InProcessTaskOptions options;
  options.arguments = {"--devices=cpu", "--unix_socket_dir=none"};
  options.tf_config = MakeTfConfig(cluster, {Role::kWorker, 1});
  options.log_file = directory + "/worker-1.log";
  options.log_to_stderr = false;
  return Value(StartInProcessReplica(options));
}

TEST_CASE("a lost replica is an error, and the loop continues from the checkpoint") {
  const StrategyOptions options = {.num_replicas_in_sync = 4};
  const Outcome expected = Loop(kOneDevice, options, /*dropout=*/0.25).Run();
  testing::TestDirectory directory;
  const std::vector<int> ports = Value(ChooseFreePorts(2));
  auto replica = StartSecondReplica(ports, directory.path());
  StrategyOptions cluster = options;
  cluster.directory = directory.path();
  cluster.role.log_to_stderr = false;
  cluster.role.unix_socket_dir = "none";
  cluster.tf_config = fmt::format(
      R"({{"cluster": {{"chief": ["127.0.0.1:{}"], "worker": ["127.0.0.1:{}"]}}, "task": {{"type": "chief", "index": 0}}}})",
      ports[0], ports[1]);
  Loop loop({"multi_worker_mirrored"}, cluster, /*dropout=*/0.25);
  Strategy* const strategy = loop.strategy.get();
  Outcome outcome;
  loop.Train(0, &outcome);
  RequireOk(strategy->coordinator()->Checkpoint());

  replica.reset();  // as a kill
  const DistributedBatch batch = loop.Dataset().Batch(1, 0);
  const auto run = strategy->Run(loop.train, batch);
  const absl::Status lost = run.ok() ? strategy->LocalResults(*run).status() : run.status();
  CHECK(absl::IsUnavailable(lost));
  CHECK_THAT(std::string(lost.message()), Contains(fmt::format("127.0.0.1:{}", ports[1])));
  replica = StartSecondReplica(ports, directory.path());
  RequireOk(strategy->coordinator()->Restore());
  loop.Train(1, &outcome);
  outcome.weights = WeightsOf(strategy);
  CHECK(outcome.losses == expected.losses);
  CHECK(outcome.weights == expected.weights);
  RequireOk(strategy->Shutdown());
}

TEST_CASE("the first error of a step is returned once, and the loop continues") {
  for (const Setup& setup : {kOthers[1], kOthers[3]}) {
    INFO(setup.name);
    Loop loop(setup, {});
    Strategy* const strategy = loop.strategy.get();
    const std::vector<double> before = WeightsOf(strategy);
    const DistributedBatch wrong = Value(
        SplitBatch({Tensor::Zeros(DType::kFloat32, {6, 9}), Tensor::Zeros(DType::kFloat32, {6, 1})},
                   strategy->num_replicas_in_sync()));
    // Run returns it if a replica has failed before the shares of the others are scheduled.
    const absl::StatusOr<PerReplica> run = strategy->Run(loop.train, wrong);
    const absl::Status raised =
        run.ok() ? strategy->Reduce(ReduceOp::kMean, *run, "loss").status() : run.status();
    CHECK_THAT(std::string(raised.message()), Contains("is fed float32[2, 9]"));
    RequireOk(strategy->coordinator()->Join());  // nothing is left of it
    CHECK(WeightsOf(strategy) == before);
    Outcome outcome;
    loop.Train(0, &outcome);
    CHECK(outcome.losses.size() == 4);
  }
}

TEST_CASE("a loop that does not wait for its losses makes the same updates") {
  const StrategyOptions options = {.num_replicas_in_sync = 8};
  Outcome expected;
  Loop waits(kOthers[0], options);
  for (uint64_t epoch = 0; epoch < 2; ++epoch) waits.Train(epoch, &expected);
  Loop loop(kOthers[0], options);
  std::vector<std::pair<PerReplica, uint64_t>> runs;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (const DistributedBatch& batch : loop.Dataset().Epoch(epoch)) {
      runs.emplace_back(Value(loop.strategy->Run(loop.train, batch)), batch.examples());
    }
  }
  std::vector<double> losses;
  for (const auto& [results, examples] : runs) losses.push_back(loop.LossOf(results, examples));
  CHECK(losses == expected.losses);
  CHECK(WeightsOf(loop.strategy.get()) == WeightsOf(waits.strategy.get()));
}

TEST_CASE("many runs are ahead of the results") {
  Loop loop(kOthers[0], {.dtype = DType::kFloat32});
  const Examples examples(DType::kFloat32, 4);
  const DistributedBatch batch = Value(SplitBatch(examples.columns, 2));
  std::vector<PerReplica> results;
  for (int i = 0; i < 150; ++i) results.push_back(Value(loop.strategy->Run(loop.train, batch)));
  const auto loss_of = [&](const PerReplica& result) {
    const Tensor loss = Value(loop.strategy->Reduce(ReduceOp::kMean, result, "losses", 0));
    return Scalar(loss);
  };
  CHECK(loss_of(results.back()) < loss_of(results.front()));
  CHECK(loop.strategy->coordinator()->state().synchronous_steps == 150);
}

TEST_CASE("arguments beside the batch are equal for all replicas") {
  const auto strategy = kOthers[1].Make({});
  const Variable scale = strategy->Scope()->Add("scale", {1}, "ones");
  const DistributedStep step = Value(strategy->Trace("scaled", 5, [&](StepTrace* trace) {
    const Expr x = trace->Input("x", DType::kFloat32);
    const Expr factor = trace->builder()->Input("factor", {DType::kFloat32, {}});
    trace->Output("sum", ReduceSum(x * factor * trace->Read(scale)));
  }));
  RequireOk(strategy->CreateVariables("SGD"));
  const std::vector<float> values = {1, 2, 3, 4, 5};
  const DistributedBatch batch = Value(SplitBatch({Tensor::FromValues<float>({5}, values)}, 3));
  const PerReplica results = Value(strategy->Run(step, batch, {Tensor::Scalar<float>(10)}));
  CHECK(Scalar(Value(strategy->Reduce(ReduceOp::kSum, results, "sum"))) == 150);
}

TEST_CASE("what does not fit is refused before it runs") {
  const auto message = [](const absl::Status& status) { return std::string(status.message()); };
  CHECK_THAT(message(Strategy::Create("miror", {}).status()),
             Contains("no strategy \"miror\"; there are") && Contains("central_storage"));
  StrategyOptions two;
  two.devices.devices = "cpu:0,cpu:1";
  CHECK_THAT(message(Strategy::Create("one_device", two).status()),
             Contains("one_device has one device, not 2"));
  CHECK_THAT(message(Strategy::Create("mirrored", {.num_replicas_in_sync = -1}).status()),
             Contains("num_replicas_in_sync"));

  const auto strategy = kOneDevice.Make({});
  const Variable w = strategy->Scope()->Add("w", {1}, "ones");
  const DistributedStep step = Value(strategy->Trace("step", 2, [&](StepTrace* trace) {
    trace->Output("y", trace->Input("x", DType::kFloat32) * trace->Read(w));
  }));
  const DistributedBatch batch = Value(SplitBatch({Tensor::Zeros(DType::kFloat32, {2})}, 1));
  CHECK_THAT(message(strategy->Run(step, batch).status()), Contains("call CreateVariables"));
  RequireOk(strategy->CreateVariables("SGD"));
  const PerReplica results = Value(strategy->Run(step, batch));
  CHECK_THAT(message(strategy->LocalResults(results, "z").status()), Contains("no output \"z\""));
  const DistributedBatch large = Value(SplitBatch({Tensor::Zeros(DType::kFloat32, {3})}, 1));
  CHECK_THAT(message(strategy->Run(step, large).status()), Contains("3 examples") && Contains("2"));
  const DistributedBatch split = Value(SplitBatch({Tensor::Zeros(DType::kFloat32, {2})}, 2));
  CHECK_THAT(message(strategy->Run(step, split).status()), Contains("2 shares for 1 replicas"));
  CHECK_THAT(message(strategy->Run(step, {}).status()), Contains("empty"));
  CHECK_THAT(message(strategy->DistributeDataset(DatasetBuilder::Csv("a.csv")).status()),
             Contains("call Batch"));
  CHECK_THAT(
      message(strategy->DistributeDataset(DatasetBuilder::Csv("a.csv").Repeat(2).Batch(2, {"x"}))
                  .status()),
      Contains("instead of Repeat"));
}

TEST_CASE("the loop runs in the first replica, with a directory that all tasks see") {
  testing::TestDirectory directory;
  StrategyOptions options;
  options.tf_config =
      R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}, "task": {"type": "worker", "index": 1}})";
  const auto without = Strategy::Create("multi_worker_mirrored", options).status();
  CHECK_THAT(std::string(without.message()), Contains("needs a directory"));
  CHECK(ExitCodeOf(without) == ExitCode::kConfig);
  options.directory = directory.path();
  const auto second = Strategy::Create("multi_worker_mirrored", options).status();
  CHECK_THAT(std::string(second.message()),
             Contains("worker:1") && Contains("first replica") && Contains("cohort run"));
  CHECK(ExitCodeOf(second) == ExitCode::kConfig);
}

}  // namespace
}  // namespace cohort
