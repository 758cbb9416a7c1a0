#ifndef COHORT_CHIEF_API_REMOTE_VALUE_H_
#define COHORT_CHIEF_API_REMOTE_VALUE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/metrics/metric_state.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The result of a closure.
struct StepResult {
  std::vector<Tensor> outputs;       // outputs of its last step, in the program's order
  std::vector<MetricState> metrics;  // folded over its steps
  uint64_t steps = 0;
  uint64_t examples = 0;
  bool end_of_data = false;
};

// Counts the calls of Fetch that wait. Thread-safe.
class FetchListener {
 public:
  virtual ~FetchListener() = default;
  virtual void AddWaiting(int calls) = 0;
};

// The future result of a closure. Copies share it; it outlives the coordinator. Thread-safe.
class RemoteValue {
 public:
  RemoteValue() = default;

  bool ready() const;
  // Waits for the result. Errors: those of the closure; Aborted if the error of another closure or
  // a rollback has cancelled it.
  absl::StatusOr<StepResult> Fetch() const;

 private:
  friend class ClosureResults;
  struct State {
    Mutex mu;
    CondVar changed;
    bool ready ABSL_GUARDED_BY(mu) = false;
    absl::Status status ABSL_GUARDED_BY(mu);
    StepResult result ABSL_GUARDED_BY(mu);
    std::shared_ptr<FetchListener> listener;  // constant; may be null
  };
  std::shared_ptr<State> state_;
};

// Fetch over structures. For a vector, map or pair of RemoteValues, it returns the same structure
// of results, or the first error.
inline absl::StatusOr<StepResult> Fetch(const RemoteValue& value) { return value.Fetch(); }

template <typename T>
auto Fetch(const std::vector<T>& values)
    -> absl::StatusOr<std::vector<typename decltype(Fetch(values[0]))::value_type>> {
  std::vector<typename decltype(Fetch(values[0]))::value_type> out;
  out.reserve(values.size());
  for (const T& value : values) {
    auto fetched = Fetch(value);
    if (!fetched.ok()) return fetched.status();
    out.push_back(*std::move(fetched));
  }
  return out;
}

template <typename K, typename T>
auto Fetch(const std::map<K, T>& values)
    -> absl::StatusOr<std::map<K, typename decltype(Fetch(values.begin()->second))::value_type>> {
  std::map<K, typename decltype(Fetch(values.begin()->second))::value_type> out;
  for (const auto& [key, value] : values) {
    auto fetched = Fetch(value);
    if (!fetched.ok()) return fetched.status();
    out.emplace(key, *std::move(fetched));
  }
  return out;
}

template <typename A, typename B>
auto Fetch(const std::pair<A, B>& values)
    -> absl::StatusOr<std::pair<typename decltype(Fetch(values.first))::value_type,
                                typename decltype(Fetch(values.second))::value_type>> {
  auto first = Fetch(values.first);
  if (!first.ok()) return first.status();
  auto second = Fetch(values.second);
  if (!second.ok()) return second.status();
  return std::make_pair(*std::move(first), *std::move(second));
}

}  // namespace cohort

#endif  // COHORT_CHIEF_API_REMOTE_VALUE_H_
