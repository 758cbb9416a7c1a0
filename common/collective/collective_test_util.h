#ifndef COHORT_COMMON_COLLECTIVE_COLLECTIVE_TEST_UTIL_H_
#define COHORT_COMMON_COLLECTIVE_COLLECTIVE_TEST_UTIL_H_

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/collective/collective_group.h"
#include "common/collective/peer_service.h"
#include "common/collective/peer_transport.h"
#include "common/rpc/stream/rpc_test_util.h"

// For tests only.
namespace cohort {

// How the ranks of a test reach each other. All but kSharedMemory pretend to have hosts of their
// own.
enum class TestPath : uint8_t { kSockets, kGrpc, kSharedMemory };

// The servers of several ranks in this process, and what each knows of the others.
class TestRanks {
 public:
  TestRanks(int count, TestPath by) : path_(by) {
    for (int rank = 0; rank < count; ++rank) {
      services_.push_back(std::make_unique<PeerService>());
      const std::string path = TestSocketPath("rank" + std::to_string(rank));
      servers_.push_back(nullptr);
      Serve(rank, {"127.0.0.1:0", "unix:" + path});
      CollectiveRank one;
      one.index = rank;
      one.address = servers_.back()->addresses()[0];
      one.unix_socket = path;
      one.host_id = by == TestPath::kSharedMemory ? "host" : "host" + std::to_string(rank);
      one.incarnation = 100 + static_cast<uint64_t>(rank);
      ranks_.push_back(one);
    }
  }

  // Starts a server that other ranks reach under the same address as before.
  void Serve(int rank, std::vector<std::string> listen) {
    const PeerService& service = *services_[static_cast<size_t>(rank)];
    StreamServer::Options options = ListenOn(std::move(listen));
    options.take_socket = service.SocketTaker();
    auto server = StreamServer::Start(options, service.Methods());
    REQUIRE(server.ok());
    servers_[static_cast<size_t>(rank)] = *std::move(server);
  }

  // The rank is dead from now on.
  void StopServing(int rank) { servers_[static_cast<size_t>(rank)] = nullptr; }

  CollectiveGroupOptions Options(int rank, uint64_t epoch) const {
    CollectiveGroupOptions options;
    options.ranks = ranks_;
    options.rank = rank;
    options.group = {1, 1, epoch};
    options.start_deadline = TestLimit();
    options.deadline = TestLimit();
    if (path_ == TestPath::kGrpc) {
      options.transport = [] { return MakeGrpcPeerTransport(Security::LoopbackOnly()); };
    }
    return options;
  }
  PeerService* service(int rank) { return services_[static_cast<size_t>(rank)].get(); }
  std::vector<CollectiveRank>& ranks() { return ranks_; }
  int count() const { return static_cast<int>(ranks_.size()); }

  // Starts a group of all ranks and runs `body(group)` for each on a thread of its own.
  template <typename Body>
  void Run(uint64_t epoch, const Body& body, const CollectiveGroupOptions& like = {}) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count(); ++rank) {
      threads.emplace_back([&, rank] {
        CollectiveGroupOptions options = Options(rank, epoch);
        options.chunk_bytes = like.chunk_bytes;
        options.early_bytes = like.early_bytes;
        options.window_bytes = like.window_bytes;
        options.deadline = std::min(options.deadline, like.deadline);
        auto group = CollectiveGroup::Start(options, service(rank));
        if (group.ok()) return body(group->get());
        std::lock_guard<std::mutex> lock(mu_);
        errors_.push_back(group.status().ToString());
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(errors_ == std::vector<std::string>());
    errors_.clear();
  }

  // Records a failed expectation of a body: Catch's macros are for the main thread.
  void Expect(bool met, const std::string& what) {
    if (met) return;
    std::lock_guard<std::mutex> lock(mu_);
    errors_.push_back(what);
  }
  void ExpectOk(const absl::Status& status, const std::string& what) {
    Expect(status.ok(), what + ": " + status.ToString());
  }

 private:
  const TestPath path_;
  std::vector<std::unique_ptr<PeerService>> services_;
  std::vector<std::unique_ptr<StreamServer>> servers_;
  std::vector<CollectiveRank> ranks_;
  std::mutex mu_;
  std::vector<std::string> errors_;
};

// What rank `rank` contributes in element `i`.
template <typename T>
T TestValue(int rank, size_t i) {
  return static_cast<T>(i % 97) / static_cast<T>(7) + static_cast<T>(rank) / static_cast<T>(3);
}

template <typename T>
std::vector<T> TestBuffer(int rank, size_t elements) {
  std::vector<T> buffer(elements);
  for (size_t i = 0; i < elements; ++i) buffer[i] = TestValue<T>(rank, i);
  return buffer;
}

// By rank the end of its part: all have the same number of elements, but the last ones fewer or
// none.
inline std::vector<uint64_t> EqualParts(int ranks, uint64_t elements) {
  const uint64_t count = static_cast<uint64_t>(ranks);
  const uint64_t size = (elements + count - 1) / count;
  std::vector<uint64_t> ends;
  for (uint64_t rank = 1; rank <= count; ++rank) ends.push_back(std::min(elements, rank * size));
  return ends;
}

// True if the own part of a buffer has the bits of a ring's sum (ReduceScatter).
template <typename T>
bool HasSums(const CollectiveGroup& group, const std::vector<T>& buffer,
             std::span<const uint64_t> ends) {
  const int ranks = group.ranks();
  const size_t rank = static_cast<size_t>(group.rank());
  for (size_t i = rank == 0 ? 0 : ends[rank - 1]; i < ends[rank]; ++i) {
    T sum = TestValue<T>((group.rank() + 1) % ranks, i);
    for (int k = 2; k <= ranks; ++k) sum += TestValue<T>((group.rank() + k) % ranks, i);
    if (std::memcmp(&sum, &buffer[i], sizeof(T)) != 0) return false;
  }
  return true;
}

// Begins a reduce-scatter and waits for it.
inline absl::Status Sum(CollectiveGroup* group, const OperationName& name, ElementSpan buffer,
                        std::span<const uint64_t> ends) {
  COHORT_RETURN_IF_ERROR(group->Begin({.name = name, .buffer = buffer, .part_ends = ends}));
  return group->Wait(name);
}

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_COLLECTIVE_TEST_UTIL_H_
