#ifndef COHORT_COMMON_DATA_PARQUET_GROUP_CACHE_H_
#define COHORT_COMMON_DATA_PARQUET_GROUP_CACHE_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {

// The numbers of a row group, column by column, as a batch has them.
struct DecodedGroup {
  std::vector<std::vector<uint8_t>> columns;
  std::vector<absl::Status> errors;  // by column: why it cannot be read
  uint64_t bytes = 0;
};

// Keeps the row groups that were used last, up to a number of bytes, and at least one. Threads that
// need the same group at the same time wait until one of them has decoded it. Thread-safe.
class GroupCache {
 public:
  using Key = std::pair<const void*, size_t>;  // a file, and the number of a group there
  using Group = std::shared_ptr<const DecodedGroup>;

  explicit GroupCache(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Returns a group. Calls `decode` if the cache lacks it. Errors: those of `decode`, after which
  // the next call decodes again.
  absl::StatusOr<Group> Get(const Key& key, absl::FunctionRef<absl::StatusOr<Group>()> decode);

  // The bytes of the groups that are kept.
  uint64_t bytes() const;

 private:
  struct Slot {
    Mutex mu;
    Group group ABSL_GUARDED_BY(mu);  // null until it is decoded
  };
  // A slot enters `latest_` when its group is decoded. It is never dropped before, so that a key
  // has one slot, and its bytes are counted once.
  struct Entry {
    std::shared_ptr<Slot> slot;
    bool is_decoded = false;
    std::list<Key>::iterator use;  // in latest_
    uint64_t bytes = 0;
  };

  std::shared_ptr<Slot> SlotOf(const Key& key);
  void Keep(const Key& key, uint64_t bytes);

  const uint64_t most_bytes_;
  mutable Mutex mu_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::list<Key> latest_ ABSL_GUARDED_BY(mu_);  // the latest first
  uint64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_PARQUET_GROUP_CACHE_H_
