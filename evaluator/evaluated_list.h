#ifndef COHORT_EVALUATOR_EVALUATED_LIST_H_
#define COHORT_EVALUATOR_EVALUATED_LIST_H_

#include <absl/status/statusor.h>

#include <memory>
#include <set>
#include <string>

namespace cohort {

// Which checkpoints an evaluator has dealt with: a text file of their names ("ckpt-0-1-12"), one a
// line, appended to after each evaluation. One writer.
class EvaluatedList {
 public:
  // Reads what is there. A torn last line names no checkpoint and does no harm. Errors: exit 73.
  static absl::StatusOr<std::unique_ptr<EvaluatedList>> Open(const std::string& path);
  ~EvaluatedList();

  bool Contains(const std::string& name) const { return names_.count(name) != 0; }
  // Errors: exit 74 (a full disk); the name counts for this process all the same.
  absl::Status Add(const std::string& name);
  size_t size() const { return names_.size(); }

 private:
  EvaluatedList(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
  std::set<std::string> names_;
};

}  // namespace cohort

#endif  // COHORT_EVALUATOR_EVALUATED_LIST_H_
