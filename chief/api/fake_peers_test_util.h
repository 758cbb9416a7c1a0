#ifndef COHORT_CHIEF_API_FAKE_PEERS_TEST_UTIL_H_
#define COHORT_CHIEF_API_FAKE_PEERS_TEST_UTIL_H_

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/cluster/cluster_spec.h"
#include "common/rpc/stream/stream_server.h"
#include "proto/parameter_server.pb.h"
#include "proto/worker.pb.h"

namespace cohort {

// What a fake task reports as the memory of its process.
inline constexpr uint64_t kFakeMemoryBytes = uint64_t{1} << 20;

// A worker or parameter server that speaks the control stream over loopback and computes nothing:
// for tests of the coordinator with real streams. It uses one server thread.
class FakePeer {
 public:
  explicit FakePeer(Task task);
  virtual ~FakePeer();

  Task task() const { return task_; }
  Address address() const { return {"127.0.0.1", server_->port()}; }
  // The process dies: its streams break. Another FakePeer may take its place elsewhere.
  void Kill();
  // A worker ends in order.
  void Leave();
  // The reason of the shutdown; "": none has come.
  std::string shutdown_reason() const;
  // The number of open streams.
  int streams() const { return streams_; }

  // It cannot parse what it receives; it sends what nobody can parse.
  std::atomic<bool> cannot_parse{false};
  std::atomic<bool> sends_noise{false};

  // ---- a worker
  // Closures with this many arguments by value or more fail like a user's error.
  static constexpr int kTooMany = 3;
  std::atomic<bool> hold{false};  // it keeps its closures
  std::atomic<int> executed{0};
  std::atomic<uint64_t> heard_generation{0};   // the one that it reports
  std::vector<std::string> resources() const;  // that the chief has requested, by name

  // ---- a server
  std::atomic<bool> refuse_snapshots{false};
  std::atomic<uint64_t> timeline{0};
  // Replaces the search for the directory's token, which finds it.
  void SetSeesDirectory(std::function<bool(const std::string& token)> sees_directory);

 private:
  class Handler;
  void OnWorkerMessage(Stream* stream, const v1::ChiefToWorker& message);
  void OnPsMessage(Stream* stream, const v1::ChiefToPs& message);
  void Run(Stream* stream, const v1::Closure& closure);

  const Task task_;
  const uint64_t incarnation_;
  std::atomic<int> streams_{0};
  mutable Mutex mu_;
  std::string job_ ABSL_GUARDED_BY(mu_);
  std::string shutdown_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> resources_ ABSL_GUARDED_BY(mu_);
  std::set<uint32_t> tablets_ ABSL_GUARDED_BY(mu_);
  std::function<bool(const std::string& token)> sees_directory_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<StreamServer> server_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_FAKE_PEERS_TEST_UTIL_H_
