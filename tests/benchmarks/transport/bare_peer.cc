// The bare path: slices of static memory over one long-lived stream on a completion queue, with
// nothing behind it: no messages, no handlers, no locks. What gRPC itself can do, tuned.
//
// A request is 16 bytes {payload of a pull, payload of a push} and, in the same message, the first
// chunk of what is pushed; the others follow. The answer is the payload of the pull, or 1 byte.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <thread>

#include "common/rpc/stream/grpc_tuning.h"
#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {
namespace {

using Words = std::array<uint64_t, 2>;

enum Tag : intptr_t { kStart = 1, kRead, kWrite };
void* ToTag(Tag tag) { return reinterpret_cast<void*>(tag); }

// Sends and receives byte ranges as messages of at most kChunk, one write in flight.
template <typename Call>
class Pipe {
 public:
  explicit Pipe(Call* call) : call_(call), room_(kLargest), memory_(kLargest, 'm') {}

  void Read() { call_->Read(&incoming_, ToTag(kRead)); }

  // Queues `bytes` of static memory.
  void Send(size_t bytes) {
    for (size_t at = 0; at < bytes; at += kChunk) {
      const grpc::Slice slice = Part(at, bytes);
      outgoing_.emplace_back(&slice, 1);
    }
    WriteNext();
  }
  void SendRequest(const Words& words) {
    const size_t pushed = words[1];
    const grpc::Slice slices[2] = {grpc::Slice(words.data(), sizeof(words)), Part(0, pushed)};
    outgoing_.emplace_back(slices, pushed == 0 ? 1 : 2);
    for (size_t at = kChunk; at < pushed; at += kChunk) {
      const grpc::Slice slice = Part(at, pushed);
      outgoing_.emplace_back(&slice, 1);
    }
    WriteNext();
  }
  void OnWritten() {
    writing_ = false;
    WriteNext();
  }
  // Copies the message that was read to offset `at` of the application's memory, where `words` is
  // given less the words that it begins with; returns the size of what was copied there.
  size_t Take(size_t at, Words* words = nullptr) {
    if (!incoming_.Dump(&slices_).ok()) Die("bare: unreadable");
    const size_t begin = at;
    size_t head = words == nullptr ? 0 : sizeof(*words);  // bytes of them that are to come
    for (const grpc::Slice& slice : slices_) {
      const size_t first = std::min(head, slice.size());
      if (first > 0) {
        std::memcpy(reinterpret_cast<char*>(words + 1) - head, slice.begin(), first);
        head -= first;
      }
      std::memcpy(room_.data() + at, slice.begin() + first, slice.size() - first);
      at += slice.size() - first;
    }
    slices_.clear();
    incoming_.Clear();
    return at - begin;
  }

 private:
  // The chunk at `at` of a payload of `bytes`.
  grpc::Slice Part(size_t at, size_t bytes) const {
    return grpc::Slice(memory_.data() + at, std::min(kChunk, bytes - at),
                       grpc::Slice::STATIC_SLICE);
  }
  void WriteNext() {
    if (writing_ || outgoing_.empty()) return;
    writing_ = true;
    call_->Write(outgoing_.front(), ToTag(kWrite));
    outgoing_.pop_front();
  }

  Call* const call_;
  std::vector<char> room_;
  std::vector<char> memory_;
  grpc::ByteBuffer incoming_;
  std::vector<grpc::Slice> slices_;
  std::deque<grpc::ByteBuffer> outgoing_;
  bool writing_ = false;
};

// Serves one stream, on one thread.
class BareServer final : public Server {
 public:
  explicit BareServer(const std::string& address) {
    grpc::ServerBuilder builder;
    ApplyTransportOptions({}, &builder);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) Die("the bare server cannot listen");
    std::thread([this] { Serve(queue_.get()); }).detach();
  }
  int port() const override { return port_; }

 private:
  void Serve(grpc::ServerCompletionQueue* queue) {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter call(&context);
    Pipe<grpc::GenericServerAsyncReaderWriter> pipe(&call);
    service_.RequestCall(&context, &call, queue, queue, ToTag(kStart));
    Words words = {};  // the request whose payload is coming
    size_t received = 0;
    void* tag = nullptr;
    bool ok = false;
    while (queue->Next(&tag, &ok)) {
      if (!ok) break;
      if (tag == ToTag(kStart)) {
        pipe.Read();
      } else if (tag == ToTag(kWrite)) {
        pipe.OnWritten();
      } else {
        received += pipe.Take(received, received == 0 ? &words : nullptr);
        pipe.Read();
        if (received < words[1]) continue;
        received = 0;
        pipe.Send(words[1] > 0 ? 1 : words[0]);
      }
    }
    // The client is gone, and the benchmark kills this process.
    while (queue->Next(&tag, &ok)) {
    }
  }

  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
};

class BareClient final : public Client {
 public:
  explicit BareClient(const std::string& address) {
    grpc::ChannelArguments arguments;
    ApplyTransportOptions({}, &arguments);
    const auto channel =
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    context_.set_wait_for_ready(true);
    call_ = grpc::GenericStub(channel).PrepareCall(&context_, "/bare/Echo", &queue_);
    call_->StartCall(ToTag(kStart));
    Next();
    pipe_ = std::make_unique<Pipe<grpc::GenericClientAsyncReaderWriter>>(call_.get());
    pipe_->Read();
  }

  ~BareClient() override {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  void Run(Op op, size_t bytes, int count, int in_flight) override {
    const size_t answer = op == Op::kPull ? bytes : 1;
    int sent = 0;
    size_t received = 0;
    for (int done = 0; done < count;) {
      for (; sent < count && sent - done < in_flight; ++sent) {
        pipe_->SendRequest({op == Op::kPull ? bytes : 0, op == Op::kPush ? bytes : 0});
      }
      const void* tag = Next();
      if (tag == ToTag(kWrite)) pipe_->OnWritten();
      if (tag != ToTag(kRead)) continue;
      received += pipe_->Take(received);
      pipe_->Read();
      if (received < answer) continue;
      received = 0;
      ++done;
    }
    // What was written last may still be reported; the next Run takes it as its own.
  }

 private:
  void* Next() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok) || !ok) Die("bare: the stream is lost");
    return tag;
  }

  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  std::unique_ptr<Pipe<grpc::GenericClientAsyncReaderWriter>> pipe_;
};

}  // namespace

std::unique_ptr<Server> ServeBare(const std::string& address) {
  return std::make_unique<BareServer>(address);
}
std::unique_ptr<Client> DialBare(const std::string& address) {
  return std::make_unique<BareClient>(address);
}

}  // namespace cohort::bench
