// What a step costs in copies and allocations between a worker's client and two parameter servers,
// over real sockets, after a warm-up. Printed, and asserted: over TCP the sender of a payload
// copies nothing but small pieces; between tasks of one host it copies a payload once, into the
// memory that both map, which stands for the socket's two copies. Its receiver copies it at most
// once, and neither end allocates.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "common/base/status.h"
#include "common/exchange/remote_access.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/placement.h"
#include "proto/job.pb.h"
#include "proto/worker.pb.h"
#include "tests/benchmarks/data_path/allocation_watch.h"
#include "tests/benchmarks/data_path/served_ps.h"

namespace cohort::bench {
namespace {

constexpr int64_t kInputs = 784;
constexpr int64_t kUnits = 128;
constexpr int64_t kTableRows = 1000;
constexpr int64_t kTableColumns = 16;
constexpr int kWarmUp = 100;
constexpr int kSteps = 300;

v1::VariableSpec Variable(const std::string& name, std::vector<int64_t> dims) {
  v1::VariableSpec variable;
  variable.set_name(name);
  variable.set_dtype(v1::FLOAT32);
  for (const int64_t dim : dims) variable.add_dims(dim);
  variable.set_trainable(true);
  variable.mutable_initializer()->set_class_name("Zeros");
  return variable;
}

VariableDecl Declare(const v1::VariableSpec& variable) {
  VariableDecl decl{variable.name(), {DType::kFloat32, {}}};
  for (const int64_t dim : variable.dims()) decl.type.dims.push_back({dim, 0});
  return decl;
}

v1::Layout MakeTestLayout(const std::vector<v1::VariableSpec>& variables) {
  v1::PartitionerSpec partitioner;
  partitioner.set_class_name("FixedShards");
  partitioner.set_num_shards(2);
  const v1::OptimizerSpec optimizer = OptimizerOf("Adam", {});
  PlacementOptions options;
  options.cores = {1, 1};
  auto layout = MakeLayout(variables, partitioner, {&optimizer, 1}, options);
  REQUIRE(layout.ok());
  return *std::move(layout);
}

// A dense kernel and its bias, and an embedding table of which each step uses other rows.
class Steps {
 public:
  Steps(const std::string& socket_directory, bool unix_sockets)
      : variables_({Variable("kernel", {kInputs, kUnits}), Variable("bias", {kUnits}),
                    Variable("table", {kTableRows, kTableColumns})}) {
    routes_.set_timeline(1);
    *routes_.mutable_layout() = MakeTestLayout(variables_);
    for (int tablet = 0; tablet < routes_.layout().tablets_size(); ++tablet) routes_.add_terms(1);
    for (uint32_t ps = 0; ps < 2; ++ps) {
      const std::string path = fmt::format("{}/ps-{}.sock", socket_directory, ps);
      ServedPs::Options options;
      options.index = ps;
      options.layout = routes_.layout();
      if (unix_sockets) options.listen.push_back("unix:" + path);
      servers_.push_back(std::make_unique<ServedPs>(options));
      v1::PsRoute* route = routes_.add_servers();
      route->set_ps(ps);
      route->set_incarnation(1 + ps);
      route->set_address(fmt::format("127.0.0.1:{}", servers_[ps]->port()));
      route->set_host_id("here");
      if (unix_sockets) route->set_unix_socket(path);
    }
    RemoteAccessOptions options;
    options.host_id = "here";
    remote_ = std::make_unique<RemoteAccess>(options);
    remote_->thread()->SetGeneration(1);
    remote_->thread()->SetRoutes(std::make_shared<v1::Routes>(routes_));
    std::vector<VariableDecl> decls;
    for (const v1::VariableSpec& variable : variables_) decls.push_back(Declare(variable));
    access_ = remote_->ForProgram(decls);
  }
  ~Steps() {
    access_.reset();
    remote_.reset();
  }

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) RunOne(++closure_);
  }

  // No chief settles: the servers remember every id, and with this one have room for all.
  void RunOneFarAhead() { RunOne(1 << 13); }

  RemoteAccess* remote() { return remote_.get(); }
  int64_t OfServers(std::atomic<int64_t> CodecCounters::*counter) {
    int64_t sum = 0;
    for (const auto& server : servers_) sum += server->server()->codec_counters().*counter;
    return sum;
  }

 private:
  void RunOne(uint64_t closure) {
    for (size_t i = 0; i < keys_.size(); ++i) {
      keys_[i] = static_cast<int64_t>((closure * 7 + i * 37) % kTableRows);
    }
    std::sort(keys_.begin(), keys_.end());  // as a worker's are
    pulls_[0] = {.variable = 0, .destination = kernel_.data()};
    pulls_[1] = {.variable = 1, .destination = bias_.data()};
    pulls_[2] = {.variable = 2, .rows = true, .keys = keys_, .destination = rows_.data()};
    pushes_[0] = {.variable = 0, .value = kernel_gradient_.data()};
    pushes_[1] = {.variable = 1, .value = bias_gradient_.data()};
    pushes_[2] = {
        .variable = 2, .sparse = true, .keys = pushed_keys_, .value = rows_gradient_.data()};
    PushStamp stamp;
    stamp.closure = closure;
    stamp.attempt = 1;
    stamp.place = closure;
    stamp.timeline = 1;
    stamp.weight = 32;
    const PushBatch push{stamp, pushes_};
    const PullBatch pull{closure, 0, pulls_};
    const auto result = access_->Exchange(&push, &pull);
    if (!result.ok() || result->push.applied == 0) FAIL(result.status().ToString());
    pushed_keys_ = keys_;
  }

  const std::vector<v1::VariableSpec> variables_;
  v1::Routes routes_;
  std::vector<std::unique_ptr<ServedPs>> servers_;
  std::unique_ptr<RemoteAccess> remote_;
  std::unique_ptr<VariableAccess> access_;
  uint64_t closure_ = 0;
  std::vector<int64_t> keys_ = std::vector<int64_t>(20, 0);
  std::vector<int64_t> pushed_keys_ = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                       11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  std::vector<float> kernel_ = std::vector<float>(kInputs * kUnits);
  std::vector<float> bias_ = std::vector<float>(kUnits);
  std::vector<float> rows_ = std::vector<float>(20 * kTableColumns);
  const std::vector<float> kernel_gradient_ = std::vector<float>(kInputs * kUnits, 0.5f);
  const std::vector<float> bias_gradient_ = std::vector<float>(kUnits, 0.5f);
  const std::vector<float> rows_gradient_ = std::vector<float>(20 * kTableColumns, 0.5f);
  PullItem pulls_[3];
  PushItem pushes_[3];
};

TEST_CASE("a step copies and allocates what it must, and no more") {
  const bool unix_sockets = GENERATE(false, true);
  const auto directory =
      std::filesystem::temp_directory_path() / fmt::format("cohort-counts-{}", getpid());
  std::filesystem::create_directories(directory);
  {
    Steps steps(directory.string(), unix_sockets);
    // Warm when a whole window has allocated nothing: how many buffers are on their way at a time
    // is the scheduler's, so a pool may get one more late. What allocates now and then never gets
    // there.
    steps.RunOneFarAhead();
    steps.Run(kWarmUp);
    for (int window = 0; window < 10; ++window) {
      StartCountingAllocations();
      steps.Run(kSteps);
      if (StopCountingAllocations().ours == 0) break;
    }
    const RemoteAccess::Counters before = steps.remote()->counters();
    const CodecCounters& client = steps.remote()->codec_counters();
    const int64_t inlined = client.bytes_inlined;
    const int64_t shared = client.bytes_shared;
    const int64_t staged = steps.OfServers(&CodecCounters::bytes_copied);
    const int64_t served = steps.OfServers(&CodecCounters::bytes_shared);
    const int64_t placed = client.bytes_placed;
    const int64_t served_placed = steps.OfServers(&CodecCounters::bytes_placed);
    const int64_t served_inline = steps.OfServers(&CodecCounters::bytes_inlined);
    StartCountingAllocations();
    steps.Run(kSteps);
    const AllocationCounts allocations = StopCountingAllocations();
    const RemoteAccess::Counters after = steps.remote()->counters();
    const auto pushed = static_cast<double>(after.bytes_sent - before.bytes_sent);
    const auto pulled = static_cast<double>(after.bytes_received - before.bytes_received);
    const auto copied = static_cast<double>(after.bytes_copied - before.bytes_copied);
    const auto per_step = [](auto bytes) { return static_cast<double>(bytes) / kSteps; };
    std::printf(
        "%s: per step %.0f B pushed, %.0f B pulled\n"
        "  sender of pushes:   %.0f B by reference, %.0f B of small pieces into the header, %.0f B "
        "into shared memory\n"
        "  receiver of pushes: %.3f copies of each byte\n"
        "  sender of pulls:    %.0f B by reference, %.0f B of small pieces into the header, %.0f B "
        "into shared memory\n"
        "  receiver of pulls:  %.3f copies of each byte\n"
        "  allocations: %.2f ours, %.2f gRPC's (operator new, both ends)\n",
        unix_sockets ? "unix" : "tcp", per_step(pushed), per_step(pulled),
        per_step(client.bytes_shared - shared), per_step(client.bytes_inlined - inlined),
        per_step(client.bytes_placed - placed),
        static_cast<double>(steps.OfServers(&CodecCounters::bytes_copied) - staged) / pushed,
        per_step(steps.OfServers(&CodecCounters::bytes_shared) - served),
        per_step(steps.OfServers(&CodecCounters::bytes_inlined) - served_inline),
        per_step(steps.OfServers(&CodecCounters::bytes_placed) - served_placed), copied / pulled,
        per_step(allocations.ours), per_step(allocations.grpc));
    CHECK(after.resends == before.resends);
    CHECK(copied <= pulled);
    CHECK(static_cast<double>(steps.OfServers(&CodecCounters::bytes_copied) - staged) <= pushed);
    // Pieces below PushPullEncoder::kInlineBytes travel in the header's slice. What is placed in
    // shared memory does not travel: that copy stands for the two of a socket.
    const int64_t large = kSteps * kInputs * kUnits * int64_t{4};
    if (unix_sockets) {
      CHECK(client.bytes_shared == shared);
      CHECK(static_cast<double>(client.bytes_placed - placed) == pushed);
      CHECK(steps.OfServers(&CodecCounters::bytes_placed) - served_placed >= large);
    } else {
      CHECK(client.bytes_shared - shared == large);
      CHECK(steps.OfServers(&CodecCounters::bytes_shared) - served == large);
      CHECK(client.bytes_placed == placed);
      // A large gradient is applied from where it was received.
      CHECK(static_cast<double>(steps.OfServers(&CodecCounters::bytes_copied) - staged) <=
            pushed - static_cast<double>(large));
    }
    INFO(allocations.first_of_ours);
    // Those of a pool, over all steps. Over TCP a server also counts each large answer until it has
    // left: 12 small blocks per step.
    CHECK(allocations.ours <= 2 + (unix_sockets ? 0 : 12 * kSteps));
    CHECK(allocations.grpc > 0);  // else the watch does not separate the two
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace cohort::bench
