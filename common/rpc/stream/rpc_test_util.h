#ifndef COHORT_COMMON_RPC_STREAM_RPC_TEST_UTIL_H_
#define COHORT_COMMON_RPC_STREAM_RPC_TEST_UTIL_H_

#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream.h"
#include "common/rpc/stream/stream_client.h"
#include "common/rpc/stream/stream_server.h"
#include "common/testing/time_test_util.h"

namespace cohort {

inline constexpr char kEchoMethod[] = "/cohort.test.Echo/Echo";
// With certificates: a method of ps:0 that workers may call.
inline constexpr char kWorkersMethod[] = "/cohort.v1.ParameterServer/PushPull";

// The time limit of a test's waits, scaled for slow machines.
inline std::chrono::milliseconds TestLimit() { return testing::Scaled(std::chrono::seconds(30)); }
inline CompletionLoop::Clock::time_point TestDeadline() {
  return CompletionLoop::Clock::now() + TestLimit();
}

inline Frame FrameOf(const std::string& text) {
  const grpc::Slice slice(text);
  return Frame(&slice, 1);
}
inline std::string TextOf(const Frame& frame) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (frame.size() == 0 || !frame.bytes().Dump(&slices).ok()) return text;
  for (const auto& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// A path for a unix socket of this process, short enough for the system.
inline std::string TestSocketPath(const std::string& name) {
  return "/tmp/cohort-rpc-" + std::to_string(getpid()) + "-" + name + ".sock";
}

// Records the events of a stream. The test's thread or another thread polls.
class Recorder : public StreamHandler {
 public:
  void OnConnected() override {
    MutexLock lock(&mu_);
    connected_ = true;
    changed_.SignalAll();
  }
  void OnFrame(Frame frame) override {
    MutexLock lock(&mu_);
    frames_.push_back(TextOf(frame));
    changed_.SignalAll();
  }
  void OnClosed(const absl::Status& status) override {
    MutexLock lock(&mu_);
    ++closed_;
    status_ = status;
    changed_.SignalAll();
  }

  size_t frame_count() const {
    MutexLock lock(&mu_);
    return frames_.size();
  }
  std::vector<std::string> frames() const {
    MutexLock lock(&mu_);
    return frames_;
  }
  bool connected() const {
    MutexLock lock(&mu_);
    return connected_;
  }
  int closed() const {
    MutexLock lock(&mu_);
    return closed_;
  }
  absl::Status status() const {
    MutexLock lock(&mu_);
    return status_;
  }
  // Waits for OnClosed while another thread polls. Returns false at the test's limit.
  bool AwaitClosed() const {
    const auto deadline = TestDeadline();
    MutexLock lock(&mu_);
    while (closed_ == 0) {
      if (!changed_.WaitUntil(&mu_, deadline)) return closed_ > 0;
    }
    return true;
  }

 private:
  mutable Mutex mu_;
  mutable CondVar changed_;
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  int closed_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> frames_ ABSL_GUARDED_BY(mu_);
};

// Sends every frame back, and forwards every event to a recorder that outlives it.
class EchoHandler : public StreamHandler {
 public:
  EchoHandler(std::shared_ptr<Stream> stream, Recorder* recorder, bool joins_pieces = false)
      : stream_(std::move(stream)), recorder_(recorder), joins_pieces_(joins_pieces) {}
  bool JoinsPieces() const override { return joins_pieces_; }
  void OnFrame(Frame frame) override {
    if (recorder_ != nullptr) recorder_->OnFrame(frame.Clone());
    stream_->Send(std::move(frame));
  }
  void OnClosed(const absl::Status& status) override {
    if (recorder_ != nullptr) recorder_->OnClosed(status);
  }

 private:
  const std::shared_ptr<Stream> stream_;
  Recorder* const recorder_;
  const bool joins_pieces_;
};

inline StreamServer::Methods EchoMethods(Recorder* recorder = nullptr,
                                         const std::string& method = kEchoMethod,
                                         bool joins_pieces = false) {
  return {{method, [recorder, joins_pieces](std::shared_ptr<Stream> stream, CompletionLoop*) {
             return std::make_unique<EchoHandler>(std::move(stream), recorder, joins_pieces);
           }}};
}

inline StreamServer::Options ListenOn(std::vector<std::string> addresses) {
  StreamServer::Options options;
  options.listen = std::move(addresses);
  return options;
}

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_RPC_TEST_UTIL_H_
