#include "evaluator/evaluator.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/run_note.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/model/job_file.h"
#include "common/model/model_builder.h"
#include "common/os/directory.h"
#include "common/schema/class_registry.h"
#include "common/testing/directory_test_util.h"
#include "evaluator/evaluator_options.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using testing::TestDirectory;

constexpr char kJob[] = R"(
name: recommender
model:
  sequential:
    - Input: {shape: [3], dtype: int64, feature: features}
    - Embedding: {input_dim: 8, output_dim: 4}
    - GlobalAveragePooling1D
    - Dense: {units: 1, activation: sigmoid}
compile:
  loss: binary_crossentropy
  optimizer: {RMSprop: {learning_rate: 0.1}}
  metrics: [accuracy]
data:
  batch_size: 32
  visitation: exactly_once
  train:
    generator: {name: recommender, records: 64, seed: 1}
    transforms:
      - column: features
        lookup: string
        vocabulary: [avenger, ironman, batman, hulk, spiderman, kingkong, wonder_woman]
      - {column: label, equals: "yes"}
    label: label
  validation:
    generator: {name: recommender, records: 75, seed: 2}
fit: {epochs: 1}
checkpoint: {directory: unused}
)";

struct Fixture {
  Fixture() {
    auto job = ParseJob(kJob, "job.yaml");
    INFO(job.status());
    REQUIRE(job.ok());
    spec = job->spec;
    auto dataset = Dataset::Open(spec.data().validation());
    REQUIRE(dataset.ok());
    auto model = BuildModel(spec, (*dataset)->features());
    REQUIRE(model.ok());
    variables = model->variables;
    validation_data = (*dataset)->fingerprint();
  }

  // A checkpoint in which every variable is 0 but the bias; each variable cut after its first row.
  // With `average`, each has an average, too.
  void Write(uint64_t cut, float bias, bool finished = false) {
    const CheckpointId id{0, 1, cut};
    const std::string dir = JoinPath(directory.path(), id.ToString());
    REQUIRE(MakeDirectories(dir).ok());
    std::vector<SafetensorsWriter::Entry> entries;
    std::vector<float> data;
    const auto add = [&](const v1::VariableSpec& variable, const std::string& slot, float value) {
      const Dims dims(variable.dims().begin(), variable.dims().end());
      const uint64_t rows = RowsOf(dims);
      for (uint64_t begin = 0; begin < rows; begin = begin == 0 ? 1 : rows) {
        const uint64_t end = begin == 0 ? 1 : rows;
        const Dims piece = PieceDims(dims, end - begin);
        entries.push_back({ShardTensorName{variable.name(), slot, begin, end}.ToString(),
                           DType::kFloat32, piece});
        data.insert(data.end(), static_cast<size_t>(NumElements(piece)),
                    dims.size() == 1 ? value : 0.0f);
      }
    };
    for (const v1::VariableSpec& variable : variables) {
      add(variable, "", bias);
      if (average.has_value()) add(variable, "average", *average);
    }
    auto writer = SafetensorsWriter::Create(JoinPath(dir, "ps-0.safetensors"), entries, {});
    REQUIRE(writer.ok());
    REQUIRE((*writer)->Append(data.data(), data.size() * 4).ok());
    const auto written = (*writer)->Finish();
    REQUIRE(written.ok());
    v1::Manifest manifest;
    manifest.set_format_version(1);
    manifest.set_job("recommender");
    manifest.set_generation(1);
    manifest.set_cut(cut);
    manifest.set_step(cut * 100);
    manifest.set_epoch(cut);
    manifest.set_finished(finished);
    *manifest.mutable_job_spec() = spec;
    *manifest.mutable_validation_data() = validation_data;
    for (const v1::VariableSpec& variable : variables) {
      *manifest.mutable_layout()->add_variables() = variable;
    }
    v1::SnapshotFile* file = manifest.add_files();
    file->set_name("ps-0.safetensors");
    file->set_bytes(written->bytes);
    file->set_crc32(written->crc32);
    const absl::Status committed = CommitManifest(dir, manifest);
    INFO(committed);
    REQUIRE(committed.ok());
  }

  Evaluator::Options Options() {
    Evaluator::Options options;
    options.checkpoint_dir = directory.path();
    options.log = log.get();
    options.print = [this](std::string_view line) {
      lines.emplace_back(line);
      return absl::OkStatus();
    };
    return options;
  }
  std::unique_ptr<Evaluator> Create(Evaluator::Options options) {
    auto evaluator = Evaluator::Create(std::move(options));
    INFO(evaluator.status());
    REQUIRE(evaluator.ok());
    return *std::move(evaluator);
  }
  static bool Poll(Evaluator* evaluator) {
    const auto again = evaluator->Poll();
    INFO(again.status());
    REQUIRE(again.ok());
    return *again;
  }

  TestDirectory directory;
  v1::JobSpec spec;
  v1::DataFingerprint validation_data;
  std::vector<v1::VariableSpec> variables;
  std::optional<float> average;  // that the bias has
  std::unique_ptr<Logger> log = Logger::Discard();
  std::vector<std::string> lines;
};

double Metric(const CheckpointEvaluator::Evaluation& evaluation, const std::string& name) {
  for (const auto& [metric, value] : evaluation.record.metrics) {
    if (metric.find(name) != std::string::npos) return value;
  }
  FAIL("no metric " << name);
  return 0;
}

TEST_CASE_METHOD(Fixture,
                 "figures of a checkpoint are those of its weights, over every example once") {
  Write(1, 0);
  Write(2, 1.5);
  CheckpointEvaluator evaluator{CheckpointEvaluator::Options()};
  const auto zero = evaluator.Evaluate(JoinPath(directory.path(), "ckpt-0-1-1"));
  INFO(zero.status());
  REQUIRE(zero.ok());
  CHECK(zero->examples == 75);
  CHECK(zero->record.step == 100);
  CHECK(Metric(*zero, "loss") == Approx(std::log(2)).epsilon(1e-5));
  const double positive = 1 - Metric(*zero, "accuracy");  // all are taken for "no"
  CHECK(positive > 0.1);
  CHECK(positive < 0.9);

  const auto other = evaluator.Evaluate(JoinPath(directory.path(), "ckpt-0-1-2"));
  REQUIRE(other.ok());
  const double p = 1 / (1 + std::exp(-1.5));
  CHECK(Metric(*other, "loss") ==
        Approx(-positive * std::log(p) - (1 - positive) * std::log(1 - p)).epsilon(1e-5));
  CHECK(Metric(*other, "accuracy") == Approx(positive));
}

TEST_CASE_METHOD(Fixture,
                 "every checkpoint is evaluated once, also by a successor, until the last") {
  const std::string logs = directory / "logs";
  Evaluator::Options options = Options();
  options.checkpoint_dir = directory.path();
  options.log_dir = logs;
  {
    auto evaluator = Create(options);
    CHECK_FALSE(Poll(evaluator.get()));  // none is there yet
    Write(1, 0);
    Write(2, 1);
    CHECK(Poll(evaluator.get()));
    CHECK(lines.size() == 1);
    CHECK(lines[0].find("\"step\":100") != std::string::npos);
  }
  auto evaluator = Create(options);
  CHECK(Poll(evaluator.get()));
  CHECK(lines.size() == 2);
  CHECK_FALSE(Poll(evaluator.get()));
  CHECK_FALSE(evaluator->done());
  Write(3, 1, /*finished=*/true);
  CHECK(Poll(evaluator.get()));
  CHECK(evaluator->done());
  std::ifstream jsonl(logs + "/metrics.jsonl");
  int written = 0;
  for (std::string line; std::getline(jsonl, line);) ++written;
  CHECK(written == 3);
  // One that comes when all is over ends at once.
  auto late = Create(options);
  CHECK_FALSE(Poll(late.get()));
  CHECK(late->done());
}

TEST_CASE_METHOD(Fixture, "a finished run from which the chief continues is not the end") {
  Write(1, 0, /*finished=*/true);
  REQUIRE(WriteRunNote(directory.path(), {.launch = "", .begins_after = {0, 1, 1}}).ok());
  auto evaluator = Create(Options());
  CHECK(Poll(evaluator.get()));
  CHECK_FALSE(evaluator->done());
  Write(2, 1, /*finished=*/true);
  CHECK(Poll(evaluator.get()));
  CHECK(evaluator->done());
}

TEST_CASE_METHOD(Fixture, "an evaluator reads nothing before the chief of its launch is ready") {
  Write(1, 0, /*finished=*/true);  // a former run left it, and the chief may delete it
  Evaluator::Options options = Options();
  options.launch = "second";
  auto evaluator = Create(options);
  CHECK_FALSE(Poll(evaluator.get()));
  REQUIRE(WriteRunNote(directory.path(), {.launch = "first", .begins_after = {}}).ok());
  CHECK_FALSE(Poll(evaluator.get()));
  CHECK_FALSE(evaluator->done());
  REQUIRE(WriteRunNote(directory.path(), {.launch = "second", .begins_after = {0, 1, 1}}).ok());
  CHECK(Poll(evaluator.get()));
  CHECK_FALSE(evaluator->done());
}

TEST_CASE_METHOD(Fixture, "only the newest, a limited number, only once") {
  Write(1, 0);
  Write(2, 0);
  Write(3, 0);
  Evaluator::Options options = Options();
  SECTION("latest_only") {
    options.latest_only = true;
    auto evaluator = Create(options);
    CHECK(Poll(evaluator.get()));
    CHECK_FALSE(Poll(evaluator.get()));
    CHECK(lines.size() == 1);
    CHECK(lines[0].find("\"step\":300") != std::string::npos);
  }
  SECTION("max_evaluations") {
    options.max_evaluations = 2;
    auto evaluator = Create(options);
    CHECK(Poll(evaluator.get()));
    CHECK_FALSE(evaluator->done());
    CHECK(Poll(evaluator.get()));
    CHECK(evaluator->done());
  }
  SECTION("once") {
    options.once = true;
    auto evaluator = Create(options);
    CHECK(Poll(evaluator.get()));
    CHECK(evaluator->done());
    CHECK(lines[0].find("\"step\":300") != std::string::npos);
  }
}

TEST_CASE_METHOD(Fixture, "evaluations wait as the flags say, and the last one does not") {
  Evaluator::Options options = Options();
  options.throttle = std::chrono::seconds(1000);
  auto evaluator = Create(options);
  Write(1, 0);
  CHECK(Poll(evaluator.get()));
  Write(2, 0);
  Write(3, 0);
  CHECK_FALSE(Poll(evaluator.get()));
  Write(4, 0, /*finished=*/true);
  CHECK(Poll(evaluator.get()));
  CHECK(evaluator->done());
  CHECK(lines.size() == 2);
  CHECK(lines[1].find("\"step\":400") != std::string::npos);

  options.start_delay = std::chrono::seconds(1000);
  Write(5, 0);
  auto later = Create(options);
  CHECK_FALSE(Poll(later.get()));
}

TEST_CASE_METHOD(Fixture, "exporters write the weights of evaluated checkpoints") {
  const std::string logs = directory / "logs";
  Evaluator::Options options = Options();
  options.exporters = {"latest", "best", "final"};
  options.exports_to_keep = 2;
  options.log_dir = logs;
  Write(1, 3);
  {
    auto evaluator = Create(options);
    CHECK(Poll(evaluator.get()));
  }
  auto evaluator = Create(options);  // it finds the best export again
  for (uint64_t cut = 2; cut <= 4; ++cut) {
    Write(cut, cut == 3 ? 0.0F : 5.0F, /*finished=*/cut == 4);
    CHECK(Poll(evaluator.get()));
  }
  const auto exports = [&](const std::string& exporter) {
    std::set<std::string> names;
    std::error_code ignored;
    for (const auto& entry :
         std::filesystem::directory_iterator(logs + "/export/" + exporter, ignored)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  };
  CHECK(exports("latest") == std::set<std::string>{"ckpt-0-1-3", "ckpt-0-1-4"});
  CHECK(exports("best") == std::set<std::string>{"ckpt-0-1-1", "ckpt-0-1-3"});
  CHECK(exports("final") == std::set<std::string>{"ckpt-0-1-4"});
  const auto reader = SafetensorsReader::Open(logs + "/export/best/ckpt-0-1-1/model.safetensors");
  REQUIRE(reader.ok());
  std::set<std::string> names;
  for (const TensorInfo& info : (*reader)->tensors()) names.insert(info.name);
  CHECK(names == std::set<std::string>{"embedding/embeddings", "dense/kernel", "dense/bias"});
  float bias = 0;
  REQUIRE((*reader)->ReadBytes(*(*reader)->Find("dense/bias"), 0, 4, &bias).ok());
  CHECK(bias == 3);

  EvaluatorFlags flags;
  flags.exporters = "latest,nothing";
  CHECK_THAT(std::string(CheckEvaluatorFlags(flags).message()),
             Catch::Contains("\"nothing\" is none of latest, best, final"));
  flags.exporters = "latest";
  CHECK_THAT(std::string(CheckEvaluatorFlags(flags).message()), Catch::Contains("--log_dir"));
}

TEST_CASE_METHOD(Fixture,
                 "SwapEMAWeights evaluates averages, and exports them with swap_on_epoch") {
  const std::string logs = directory / "logs";
  Evaluator::Options options = Options();
  options.exporters = {"latest"};
  options.log_dir = logs;
  (*spec.mutable_compile()->mutable_optimizer_class()->mutable_config())["use_ema"] =
      ConfigOf(true);
  const bool swaps = GENERATE(true, false);
  const bool on_epoch = GENERATE(true, false);
  if (swaps) {
    *spec.mutable_fit()->add_callbacks() =
        ClassOf("SwapEMAWeights", {{"swap_on_epoch", ConfigOf(on_epoch)}});
  }
  average = 0.0F;
  Write(1, 3);
  CheckpointEvaluator evaluator{CheckpointEvaluator::Options()};
  const auto evaluation = evaluator.Evaluate(JoinPath(directory.path(), "ckpt-0-1-1"));
  INFO(evaluation.status());
  REQUIRE(evaluation.ok());
  CHECK((Metric(*evaluation, "loss") == Approx(std::log(2)).epsilon(1e-5)) == swaps);

  CHECK(Poll(Create(options).get()));
  const auto reader = SafetensorsReader::Open(logs + "/export/latest/ckpt-0-1-1/model.safetensors");
  REQUIRE(reader.ok());
  CHECK((*reader)->tensors().size() == 3);
  float bias = 0;
  REQUIRE((*reader)->ReadBytes(*(*reader)->Find("dense/bias"), 0, 4, &bias).ok());
  CHECK(bias == (swaps && on_epoch ? 0 : 3));
}

// The status page of the admin port.
std::string StatusPage(int port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0);
  const std::string request = "GET /statusz HTTP/1.0\r\n\r\n";
  REQUIRE(send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size()));
  std::string page;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;) {
    page.append(buffer, static_cast<size_t>(n));
  }
  return page;
}

TEST_CASE_METHOD(Fixture, "the status page shows the activity and the last evaluation") {
  CHECK(Create(Options())->admin_port() == -1);
  Evaluator::Options options = Options();
  options.admin_address = "127.0.0.1:0";
  std::unique_ptr<Evaluator> evaluator;
  const auto page = [&] { return StatusPage(evaluator->admin_port()); };
  std::string meanwhile;
  options.print = [&](std::string_view) {
    meanwhile = page();
    return absl::OkStatus();
  };
  evaluator = Create(options);
  const std::string waiting = "waiting for a checkpoint (" + directory.path() + "), ";
  CHECK_FALSE(Poll(evaluator.get()));
  CHECK_THAT(page(), Catch::Contains(waiting) && Catch::Contains("\nnothing was evaluated yet\n"));
  Write(1, 0);
  std::ofstream(directory / "ckpt-0-1-1/ps-0.safetensors", std::ios::trunc) << "torn";
  CHECK(Poll(evaluator.get()));
  CHECK_THAT(page(), Catch::Contains("\nckpt-0-1-1 was refused: "));
  Write(2, 0);
  CHECK(Poll(evaluator.get()));
  CHECK_THAT(meanwhile, Catch::Contains("evaluating ckpt-0-1-2, "));
  CHECK_FALSE(Poll(evaluator.get()));
  CHECK_THAT(page(), Catch::Contains(waiting) &&
                         Catch::Contains("\nevaluated ckpt-0-1-2, step 200, 75 examples, ") &&
                         Catch::Contains("loss 0.69314"));
}

TEST_CASE_METHOD(Fixture, "what cannot be evaluated") {
  Evaluator::Options options = Options();
  SECTION("a torn checkpoint is passed over") {
    Write(1, 0);
    Write(2, 0);
    std::ofstream(directory / "ckpt-0-1-1/ps-0.safetensors", std::ios::trunc) << "torn";
    auto evaluator = Create(options);
    CHECK(Poll(evaluator.get()));
    CHECK(lines.empty());
    CHECK(Poll(evaluator.get()));
    CHECK(lines.size() == 1);
  }
  SECTION("no checkpoint, once") {
    options.once = true;
    CHECK(absl::IsNotFound(Create(options)->Poll().status()));
  }
  SECTION("no checkpoint in time") {
    options.wait = std::chrono::nanoseconds(1);
    auto evaluator = Create(options);
    absl::Status status;
    for (int i = 0; i < 1000 && status.ok(); ++i) status = evaluator->Poll().status();
    CHECK(absl::IsDeadlineExceeded(status));
  }
  SECTION("no validation set") {
    spec.mutable_data()->clear_validation();
    Write(1, 0);
    CHECK(absl::IsFailedPrecondition(Create(options)->Poll().status()));
  }
  SECTION("a missing data file is not the fault of the checkpoint") {
    *spec.mutable_data()->mutable_validation()->mutable_source_class() =
        ClassOf("csv", {{"path", ConfigOf(directory / "none.csv")}});
    Write(1, 0);
    const absl::Status status = Create(options)->Poll().status();
    CHECK(ExitCodeOf(status) == ExitCode::kNoInput);
    CHECK(testing::Contains(status.ToString(), "none.csv"));
  }
  SECTION("other data than the chief's") {
    validation_data.set_records(76);
    Write(1, 0);
    const absl::Status status = Create(options)->Poll().status();
    CHECK(ExitCodeOf(status) == ExitCode::kData);
    CHECK(
        testing::Contains(status.ToString(), "data.validation: the data differ: 75 records here"));
  }
  SECTION("what it remembers is a FIFO") {
    options.log_dir = directory / "logs";
    std::filesystem::create_directory(options.log_dir);
    REQUIRE(::mkfifo((options.log_dir + "/evaluated.txt").c_str(), 0600) == 0);
    const absl::Status status = Evaluator::Create(options).status();
    CHECK(ExitCodeOf(status) == ExitCode::kCantCreate);
    CHECK(testing::Contains(status.ToString(), "evaluated.txt is a FIFO, not a regular file"));
  }
  SECTION("no directory named") {
    options.checkpoint_dir = "";
    CHECK(absl::IsInvalidArgument(Evaluator::Create(options).status()));
  }
}

}  // namespace
}  // namespace cohort
