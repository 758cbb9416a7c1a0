#include "chief/api/task_links.h"

#include <atomic>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace cohort {

// The streams of one task, one after another.
class TaskLinks::Link : public StreamHandler {
 public:
  Link(TaskLinks* owner, Task task, std::unique_ptr<StreamClient> client)
      : owner_(owner), task_(task), client_(std::move(client)) {}

  void Dial() {
    if (owner_->stopped_) return;
    const char* method = task_.role == Role::kWorker ? "/cohort.v1.Worker/Control"
                                                     : "/cohort.v1.ParameterServer/Control";
    connected_ = false;
    auto stream = client_->Open(method, this, owner_->loop_, {.wait_for_ready = false});
    MutexLock lock(&mu_);
    stream_ = std::move(stream);
  }

  void Send(Frame frame) {
    std::shared_ptr<Stream> stream = Current();
    if (stream != nullptr) stream->Send(std::move(frame));
  }

  void Abort() {
    std::shared_ptr<Stream> stream = Current();
    if (stream != nullptr) stream->Abort();
  }

  void OnConnected() override {
    connected_ = true;
    owner_->callbacks_.on_connected(task_);
  }
  void OnFrame(Frame frame) override { owner_->callbacks_.on_frame(task_, std::move(frame)); }
  void OnClosed(const absl::Status& status) override {
    {
      MutexLock lock(&mu_);
      stream_ = nullptr;
    }
    owner_->callbacks_.on_closed(task_, status, std::exchange(connected_, false));
    owner_->loop_->After(owner_->options_.redial_after, [this] { Dial(); });
  }

 private:
  std::shared_ptr<Stream> Current() {
    MutexLock lock(&mu_);
    return stream_;
  }

  TaskLinks* const owner_;
  const Task task_;
  const std::unique_ptr<StreamClient> client_;
  bool connected_ = false;  // only the loop's thread uses it
  Mutex mu_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mu_);
};

TaskLinks::TaskLinks(const Options& options, CompletionLoop* loop, Callbacks callbacks)
    : options_(options), loop_(loop), callbacks_(std::move(callbacks)) {}

TaskLinks::~TaskLinks() = default;

absl::StatusOr<std::unique_ptr<TaskLinks>> TaskLinks::Create(const Options& options,
                                                             CompletionLoop* loop,
                                                             Callbacks callbacks) {
  std::unique_ptr<TaskLinks> links(new TaskLinks(options, loop, std::move(callbacks)));
  const auto add = [&](Role role, const std::vector<std::string>& addresses,
                       std::vector<std::unique_ptr<Link>>* out) -> absl::Status {
    for (size_t i = 0; i < addresses.size(); ++i) {
      const Task task{role, static_cast<int>(i)};
      auto client =
          StreamClient::Create(addresses[i], {.security = options.security, .task = task});
      if (!client.ok()) return Annotate(client.status(), task.ToString());
      out->push_back(std::make_unique<Link>(links.get(), task, *std::move(client)));
    }
    return absl::OkStatus();
  };
  COHORT_RETURN_IF_ERROR(add(Role::kPs, options.ps, &links->ps_));
  COHORT_RETURN_IF_ERROR(add(Role::kWorker, options.workers, &links->workers_));
  return links;
}

void TaskLinks::Start() {
  for (const auto& link : ps_) loop_->Post([l = link.get()] { l->Dial(); });
  for (const auto& link : workers_) loop_->Post([l = link.get()] { l->Dial(); });
}

TaskLinks::Link* TaskLinks::Find(Task task) const {
  const auto& links = task.role == Role::kWorker ? workers_ : ps_;
  return links[static_cast<size_t>(task.index)].get();
}

void TaskLinks::Send(Task task, Frame frame) { Find(task)->Send(std::move(frame)); }

void TaskLinks::Reconnect(Task task) { Find(task)->Abort(); }

void TaskLinks::Stop() { stopped_ = true; }

}  // namespace cohort
