#ifndef COHORT_PS_SERVER_REQUEST_HEADERS_H_
#define COHORT_PS_SERVER_REQUEST_HEADERS_H_

#include <google/protobuf/arena.h>

#include <cstddef>
#include <memory>

#include "proto/parameter_server.pb.h"
#include "proto/shared_payload.pb.h"

namespace cohort {

// The protobuf messages of one request and its answer, in memory that each request reuses. Messages
// of the usual size cause no allocation.
class RequestHeaders {
 public:
  RequestHeaders() { Reset(); }
  RequestHeaders(const RequestHeaders&) = delete;
  RequestHeaders& operator=(const RequestHeaders&) = delete;

  v1::PushPullHeader* request() { return request_; }
  const v1::PushPullHeader& request() const { return *request_; }
  v1::PushPullResponseHeader* answer() { return answer_; }
  // A new description of shared payloads, which is valid until Reset.
  v1::SharedPayload* AddWord() {
    return google::protobuf::Arena::CreateMessage<v1::SharedPayload>(&arena_);
  }

  // Makes both headers empty. Invalidates everything that lies in the memory.
  void Reset() {
    arena_.Reset();
    request_ = google::protobuf::Arena::CreateMessage<v1::PushPullHeader>(&arena_);
    answer_ = google::protobuf::Arena::CreateMessage<v1::PushPullResponseHeader>(&arena_);
  }
  // Releases the memory that only unusually long headers need, with Reset.
  void Trim() {
    if (arena_.SpaceAllocated() > kArenaBytes) Reset();
  }
  // Memory that the headers take.
  size_t bytes() const { return arena_.SpaceAllocated(); }

 private:
  // Headers of usual requests and their answers fit.
  static constexpr size_t kArenaBytes = 32 << 10;

  static google::protobuf::ArenaOptions ArenaIn(char* memory) {
    google::protobuf::ArenaOptions options;
    options.initial_block = memory;
    options.initial_block_size = kArenaBytes;
    return options;
  }

  const std::unique_ptr<char[]> memory_ = std::make_unique<char[]>(kArenaBytes);
  google::protobuf::Arena arena_{ArenaIn(memory_.get())};
  v1::PushPullHeader* request_ = nullptr;
  v1::PushPullResponseHeader* answer_ = nullptr;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_REQUEST_HEADERS_H_
