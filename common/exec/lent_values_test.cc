// Values that the access lends: a step reads them where they are, and never writes them.
#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "common/exec/step_test_util.h"
#include "common/exec/test_device.h"

namespace cohort {
namespace {

// Memory that nobody can write after Seal: a step that writes it ends the test with a signal.
class SealedFloats {
 public:
  explicit SealedFloats(size_t count) : bytes_((count + 1) * sizeof(float)) {
    data_ = static_cast<float*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0));
    REQUIRE(data_ != MAP_FAILED);
  }
  ~SealedFloats() { munmap(data_, bytes_); }
  SealedFloats(const SealedFloats&) = delete;
  SealedFloats& operator=(const SealedFloats&) = delete;

  float* data() { return data_; }
  void Seal() { REQUIRE(mprotect(data_, bytes_, PROT_READ) == 0); }

 private:
  const size_t bytes_;
  float* data_;
};

std::unique_ptr<Executable> Compiled(const absl::StatusOr<Program>& program, int lanes) {
  REQUIRE(program.ok());
  auto executable = Executable::Compile(*program, testing::OnTestDevice({.lanes = lanes}));
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *std::move(executable);
}

// Lends all values that may be lent, and fills their destinations with NaN. Returns how many.
size_t LendPulls(Executable* e, std::vector<std::unique_ptr<SealedFloats>>* lent) {
  testing::FillPulls<float>(e);
  size_t count = 0;
  for (const PullItem& item : e->pulls()) {
    if (item.lent == nullptr) continue;
    const ValueType& type = e->program().variables[static_cast<size_t>(item.variable)].type;
    const auto n = static_cast<size_t>(CapacityElements(type));
    auto* const destination = static_cast<float*>(item.destination);
    lent->push_back(std::make_unique<SealedFloats>(n));
    std::copy_n(destination, n, lent->back()->data());
    lent->back()->Seal();
    std::fill_n(destination, n, NAN);
    *item.lent = lent->back()->data();
    ++count;
  }
  return count;
}

std::vector<float> PushedValues(const Executable& e) {
  std::vector<float> values;
  for (const PushItem& item : e.pushes()) {
    const ValueType& type = e.program().variables[static_cast<size_t>(item.variable)].type;
    int64_t n = CapacityElements(type);
    if (item.sparse) n = n / type.dims[0].size * static_cast<int64_t>(item.keys.size());
    const auto* from = static_cast<const float*>(item.value);
    values.insert(values.end(), from, from + n);
  }
  const Tensor output = e.output(0);
  values.insert(values.end(), output.values<float>().begin(), output.values<float>().end());
  values.insert(values.end(), e.metric_values().begin(), e.metric_values().end());
  return values;
}

// Runs steps in turn in all lanes, every third with copied values. Each must compute what it
// computes from copies alone.
void CheckLent(const absl::StatusOr<Program>& program, const std::vector<Tensor>& batch, int lanes,
               size_t lendable) {
  const auto copying = Compiled(program, 1);
  const auto lending = Compiled(program, lanes);
  std::vector<std::unique_ptr<SealedFloats>> lent;
  for (uint64_t step = 0; step < 7; ++step) {
    const auto prepare = [&](Executable* e, int lane) {
      e->UseLane(lane);
      REQUIRE(e->Bind(batch).ok());
      REQUIRE(e->Prepare({7, step, 0}).ok());
    };
    prepare(copying.get(), 0);
    testing::FillPulls<float>(copying.get());
    REQUIRE(copying->Run().ok());
    prepare(lending.get(), static_cast<int>(step) % lanes);
    if (step % 3 == 2) {
      testing::FillPulls<float>(lending.get());
    } else {
      const size_t count = LendPulls(lending.get(), &lent);
      const bool on_cpu = testing::OnTestDevice({}).devices.empty();
      REQUIRE(count == (on_cpu ? lendable : 0));
    }
    REQUIRE(lending->Run().ok());
    REQUIRE(PushedValues(*lending) == PushedValues(*copying));
  }
}

// Elementwise operations whose output could take over the memory of a variable that dies there, and
// a view of a variable.
absl::StatusOr<Program> PenaltyProgram() {
  ProgramBuilder b("penalty");
  const int batch = b.AddSymbol("batch", 4);
  const Expr x = b.Input("x", testing::Type(DType::kFloat32, {{4, batch}, {1}}));
  const Expr w = b.Read("w", testing::Type(DType::kFloat32, {{8}, {3}}));
  const Expr v = b.Read("v", testing::Type(DType::kFloat32, {{6}}));
  const Expr loss = ReduceSum(Exp(w)) + ReduceSum(Tanh(Reshape(v, {2, 3}))) + ReduceSum(x);
  b.SetLoss(DimSize(x, 0, DType::kFloat32));
  COHORT_RETURN_IF_ERROR(PushGradients(&b, loss));
  b.AddOutput("loss", loss);
  return std::move(b).Build();
}

TEST_CASE("a step reads lent values where they are and does not write them") {
  const std::vector<Tensor> x = {Tensor::FromValues<float>({2, 1}, std::vector<float>{1, 2})};
  for (const int lanes : {1, 3}) {
    CheckLent(testing::MlpProgram(DType::kFloat32, 16, 20, 12, 0.3),
              testing::MlpBatch<float>(16, 20, 1), lanes, 4);
    // The rows of the table are copied, whoever answers.
    CheckLent(testing::RecommenderProgram(DType::kFloat32, 32, 50, 4),
              testing::RecommenderBatch<float>(32, 50, 1), lanes, 2);
    CheckLent(PenaltyProgram(), x, lanes, 2);
  }
}

}  // namespace
}  // namespace cohort
