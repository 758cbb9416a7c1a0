#ifndef COHORT_WORKER_RESOURCE_REGISTRY_H_
#define COHORT_WORKER_RESOURCE_REGISTRY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "worker/read_position.h"

namespace cohort {

namespace v1 {
class CreateResource;
class Results;
class WorkerHello;
}  // namespace v1

// The resources that the chief has asked this worker for, and how far the independent readers among
// them have been read. The step thread makes the resources (Resources). Not thread-safe.
//
//   Request ─► queue ─► TakeRequested ─► the step thread makes it ─► OnMade ─► answer to the chief
class ResourceRegistry {
 public:
  // Records what the chief wants. Returns true if the resource is already made: the caller answers
  // at once. Otherwise OnMade returns `request` later, unless a newer request for the same resource
  // has replaced it: that one alone is answered. On one timeline a reader of this process
  // continues, whatever position the chief names.
  bool Request(uint64_t request, v1::CreateResource wanted);
  // Returns the next resource that the step thread must make; null if there is none.
  std::shared_ptr<const v1::CreateResource> TakeRequested();
  // Records whether the step thread could make `made`, which TakeRequested returned. Returns the
  // request to answer; nullopt if another request has replaced the resource since.
  std::optional<uint64_t> OnMade(const v1::CreateResource& made, bool ok);

  // Moves an independent reader forward to the end of a successful closure. Ignores the position of
  // a reader that was replaced, which has another timeline.
  void MoveReader(const ReadPosition& position);
  // Adds the readers that have moved since they were last reported.
  void ReportReaders(v1::Results* results);
  // Adds the resources that are made, and the positions of their readers.
  void FillHello(v1::WorkerHello* hello) const;

  size_t size() const { return resources_.size(); }
  void Clear();

 private:
  struct Resource {
    std::shared_ptr<const v1::CreateResource> spec;
    uint64_t request = 0;  // to answer; 0: answered
    bool made = false;
    uint64_t read = 0;      // batches of an independent reader, at the end of successful closures
    uint64_t reported = 0;  // batches that the chief was sent
  };
  std::map<std::string, Resource, std::less<>> resources_;
  std::deque<std::string> to_make_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_RESOURCE_REGISTRY_H_
