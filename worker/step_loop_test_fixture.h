#ifndef COHORT_WORKER_STEP_LOOP_TEST_FIXTURE_H_
#define COHORT_WORKER_STEP_LOOP_TEST_FIXTURE_H_

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/cluster/protocol_version.h"
#include "common/graph/expr.h"
#include "common/graph/program_proto.h"
#include "common/schema/class_registry.h"
#include "worker/step_loop.h"

namespace cohort {

// One variable "w", a float32 scalar, to which pushes add; exchanges are recorded and can be made
// to fail.
class FakeVariables : public StepVariables {
 public:
  struct Call {
    std::optional<uint64_t> pushed;  // closure * 100 + ordinal
    bool pulled = false;
    bool polled = false;  // between its begin and its end
  };

  std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl>) override {
    return std::make_unique<Access>(this);
  }
  DenseSums* dense_sums() override { return sums; }
  void Wait(TimePoint) override {}

  float w = 0;
  uint64_t timeline = 1;
  std::vector<Call> calls;                        // that have ended
  std::function<absl::Status(const Call&)> fail;  // when an exchange ends; null: never
  std::function<void(const Call&)> on_begin;      // null: nothing
  std::function<void(const Call&)> on_poll;       // null: nothing
  std::vector<double> weights;
  DenseSums* sums = nullptr;                  // null: this worker has no part in a ring
  std::vector<std::optional<size_t>> summed;  // by push: how many sums it brings; none: all values
  uint64_t settled = 0;  // a push that the servers refuse as settled, as in Call

 private:
  class Access : public VariableAccess {
   public:
    explicit Access(FakeVariables* fake) : fake_(fake) {}

    absl::Status Begin(const PushBatch* push, const PullBatch* pull) override {
      REQUIRE_FALSE(std::exchange(fake_->busy_, true));
      call_ = {.pulled = pull != nullptr};
      values_.clear();
      pulls_.clear();
      if (push != nullptr) {
        stamp_ = push->stamp;
        call_.pushed = stamp_.closure * 100 + stamp_.ordinal;
        fake_->summed.emplace_back();
        if (push->sums_dense) fake_->summed.back() = push->sums.size();
        pushes_.assign(push->items.begin(), push->items.end());
        values_ = Values();
      }
      // Nobody may read the values before the exchange has ended.
      if (pull != nullptr) pulls_.assign(pull->items.begin(), pull->items.end());
      Fill(std::numeric_limits<float>::quiet_NaN());
      if (fake_->on_begin != nullptr) fake_->on_begin(call_);
      return absl::OkStatus();
    }

    absl::StatusOr<ExchangeResult> Finish() override {
      REQUIRE(std::exchange(fake_->busy_, false));
      fake_->calls.push_back(call_);
      if (fake_->fail != nullptr) COHORT_RETURN_IF_ERROR(fake_->fail(call_));
      ExchangeResult result;
      if (call_.pushed.has_value()) {
        CHECK(stamp_.timeline == fake_->timeline);
        CHECK(Values() == values_);  // the loop must not have changed them meanwhile
        for (const float value : values_) fake_->w += value;
        fake_->weights.push_back(stamp_.weight);
        (call_.pushed == fake_->settled ? result.push.settled : result.push.applied) = 3;
        result.push.max_staleness = stamp_.closure;
        result.push.sum_staleness = 2 * stamp_.closure;
      }
      Fill(fake_->w);
      result.pulled_timeline = fake_->timeline;
      return result;
    }
    void Poll() override {
      REQUIRE(fake_->busy_);
      call_.polled = true;
      if (fake_->on_poll != nullptr) fake_->on_poll(call_);
    }
    void Interrupt() override {}

   private:
    std::vector<float> Values() const {
      std::vector<float> values;
      for (const PushItem& item : pushes_) values.push_back(*static_cast<const float*>(item.value));
      return values;
    }
    void Fill(float value) {
      for (const PullItem& item : pulls_) *static_cast<float*>(item.destination) = value;
    }

    FakeVariables* const fake_;
    Call call_;
    PushStamp stamp_;
    std::vector<PushItem> pushes_;
    std::vector<float> values_;
    std::vector<PullItem> pulls_;
  };

  bool busy_ = false;
};

class Results : public WorkerEffects {
 public:
  void Send(Adoption::Connection, const v1::WorkerToChief& message) override {
    for (const auto& result : message.results().results()) results.push_back(result);
    for (const auto& reader : message.results().readers()) readers.push_back(reader);
    unreachable += message.has_ps_unreachable();
    if (message.request() == 50) resource_status = StatusFromProto(message.status());
  }
  void RoutesChanged(std::shared_ptr<const v1::Routes>) override {}
  void GenerationChanged(uint64_t) override {}
  void WatermarkChanged(uint64_t) override {}
  void Interrupt() override {}
  void WakeStep() override {}
  void Shutdown(bool, const std::string&) override {}

  std::vector<v1::ClosureResult> results;
  std::vector<v1::ReaderPosition> readers;
  int unreachable = 0;
  absl::Status resource_status;
};

// Pushes the sum of x to w; metric: the mean of x; output: w as it was pulled.
inline Program AddingProgram(const std::string& name) {
  ProgramBuilder b(name);
  const int batch = b.AddSymbol("batch", 4);
  Expr x = b.Input("x", {DType::kFloat32, {{4, batch}}});
  const ValueType type{DType::kFloat32, {}};
  Expr w = b.Read("w", type);
  Push push;
  push.variable = b.DeclareVariable("w", type);
  push.kind = PushKind::kAssignAdd;
  push.value = ReduceSum(x).id();
  b.AddPush(push);
  b.AddMetric("mean", ReduceSum(x), DimSize(x, 0));
  b.AddOutput("w", w);
  auto program = std::move(b).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  return *std::move(program);
}

struct StepLoopFixture {
  StepLoopFixture() {
    Adopt(/*pull_ahead=*/0);
    Register(AddingProgram("train"));
    Register(AddingProgram("other"));
  }
  void Adopt(uint32_t pull_ahead) {
    v1::ChiefToWorker message;
    message.set_generation(1);
    message.mutable_adopt()->set_job("job");
    message.mutable_adopt()->set_pull_ahead(pull_ahead);
    SetProtocolVersion(message.mutable_adopt());
    core.OnMessage(1, &message);
  }
  void Register(const Program& program) {
    v1::ChiefToWorker message;
    message.set_generation(1);
    fingerprints.push_back(Fingerprint(program));
    message.mutable_program()->set_fingerprint(fingerprints.back());
    ProgramToProto(program, message.mutable_program()->mutable_program());
    core.OnMessage(1, &message);
  }
  v1::Closure Closure(uint64_t id, std::vector<float> x, bool training = true, int program = 0) {
    v1::Closure closure;
    closure.set_id(id);
    closure.set_attempt(1);
    closure.set_timeline(1);
    closure.set_steps(1);
    closure.set_training(training);
    closure.set_program(fingerprints[static_cast<size_t>(program)]);
    TensorToProto(Tensor::FromValues<float>({static_cast<int64_t>(x.size())}, x),
                  closure.add_arguments());
    return closure;
  }
  void Dispatch(const std::vector<v1::Closure>& closures) {
    v1::ChiefToWorker message;
    message.set_generation(1);
    for (const auto& closure : closures) *message.mutable_dispatch()->add_closures() = closure;
    core.OnMessage(1, &message);
  }
  void RunAll() {
    for (int i = 0; i < 1000 && loop.RunOnce(); ++i) {
    }
    core.Flush();
  }
  static float Output(const v1::ClosureResult& result) {
    float w;
    REQUIRE(result.outputs_size() == 1);
    std::memcpy(&w, result.outputs(0).data().data(), 4);
    return w;
  }

  RealClock clock;
  std::unique_ptr<Logger> log = Logger::Discard();
  Results effects;
  WorkerCore core{WorkerCore::Options{}, &clock, log.get(), &effects};
  FakeVariables variables;
  MetricsRegistry registry;
  StepMetrics metrics{&registry};
  StepLoop loop{StepLoop::Options{}, &core, &variables, &clock, &metrics, log.get()};
  std::vector<std::string> fingerprints;
};

// Ten records in batches of four, read independently.
inline v1::ClassConfig RecommenderOf(int64_t records) {
  return ClassOf("generator", {{"name", ConfigOf(std::string_view("recommender"))},
                               {"records", ConfigOf(records)}});
}

inline v1::ClassConfig IsYes() {
  return ClassOf("Equals", {{"value", ConfigOf(std::string_view("yes"))}});
}

struct DatasetFixture : StepLoopFixture {
  void Make(uint64_t repeat, uint64_t begin = 0, uint64_t timeline = 1) {
    v1::ChiefToWorker message;
    message.set_generation(1);
    message.set_request(50);
    v1::CreateResource* resource = message.mutable_resource();
    resource->set_name("train");
    resource->set_visitation(v1::INDEPENDENT);
    resource->set_batch_size(4);
    resource->set_begin(begin);
    resource->set_timeline(timeline);
    *resource->mutable_dataset()->mutable_source_class() = RecommenderOf(10);
    resource->mutable_dataset()->set_repeat(repeat);
    v1::ColumnTransform* label = resource->mutable_dataset()->add_transforms();
    label->set_column("label");
    *label->mutable_transform_class() = IsYes();
    label->set_dtype("float32");
    resource->mutable_dataset()->set_label("label");
    resource->add_features("label");
    core.OnMessage(1, &message);
  }
  v1::Closure Reading(uint64_t id, uint32_t steps = 1) {
    v1::Closure closure = Closure(id, {});
    closure.clear_arguments();
    closure.set_resource("train");
    closure.set_steps(steps);
    closure.set_timeline(variables.timeline);
    return closure;
  }
  uint64_t ExamplesOf(uint64_t id) const {
    for (const auto& result : effects.results) {
      if (result.id() == id) return result.examples();
    }
    return 0;
  }
};

}  // namespace cohort

#endif  // COHORT_WORKER_STEP_LOOP_TEST_FIXTURE_H_
