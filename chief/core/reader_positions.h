#ifndef COHORT_CHIEF_CORE_READER_POSITIONS_H_
#define COHORT_CHIEF_CORE_READER_POSITIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "proto/checkpoint.pb.h"

namespace cohort {

// The positions of the workers' readers of independent datasets, by resource and worker index. A
// position counts the batches up to the end of the last closure whose result this chief has. A
// worker that is away keeps its position; an unknown worker begins at 0.
class ReaderPositions {
 public:
  using Protos = google::protobuf::RepeatedPtrField<v1::ReaderPositions>;

  // Raises positions to those of a record or a manifest. TakeNews does not return them.
  void Add(const Protos& positions);
  // Raises a position to that of a worker's message. Returns false if it is not higher.
  bool Raise(std::string_view resource, uint32_t worker, uint64_t batches);
  uint64_t Of(std::string_view resource, uint32_t worker) const;

  // Adds all positions.
  void Fill(Protos* out) const { Collect(/*only_news=*/false, out); }
  // Adds the positions that were raised since the last call.
  void TakeNews(Protos* out);

 private:
  struct Position {
    uint64_t batches = 0;
    bool news = false;
  };
  using Readers = std::map<uint32_t, Position>;  // by worker
  Readers& Of(std::string_view resource);
  void Collect(bool only_news, Protos* out) const;

  std::map<std::string, Readers, std::less<>> readers_;  // by resource
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_READER_POSITIONS_H_
