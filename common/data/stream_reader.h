#ifndef COHORT_COMMON_DATA_STREAM_READER_H_
#define COHORT_COMMON_DATA_STREAM_READER_H_

#include <absl/status/status.h>

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/data/dataset.h"
#include "common/data/feature_type.h"

namespace cohort {

namespace v1 {
class FilePart;
}

// Reads the batches of a stream by lease. A lease names a block of a file. The block is opened when
// it is first announced, by a thread of its own, and dropped when later blocks are read. If the
// file IsLeftOut, its blocks that are not open yet have no records. One consumer.
class StreamReader {
 public:
  // Positions [begin, end) of the permutation of a block.
  struct Lease {
    uint64_t block = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    const v1::FilePart* part = nullptr;
  };

  // `features`: the columns of the batches. `options`: its `features` are not used.
  StreamReader(const v1::DatasetSpec& spec, std::vector<std::string> features,
               const BatchReader::Options& options, const DataOptions& data);
  ~StreamReader();

  // Names a lease that will be read after those announced before.
  void Announce(const Lease& lease);
  // Reads the batch of a lease; one without records and tensors if the file IsLeftOut and cannot be
  // read, or is not open yet. Errors: those of Dataset::Open, with the file; FailedPrecondition
  // if the file has changed since the chief took it; InvalidArgument if its columns differ from
  // those of the first file that was read here, or it has another number of records.
  absl::Status Read(const Lease& lease, BatchReader::Batch* batch);

 private:
  struct Opened {
    std::vector<FeatureType> features;
    std::unique_ptr<BatchReader> reader;  // null: the file is left out
  };
  struct Block {
    std::string path;
    std::future<absl::StatusOr<Opened>> opening;  // valid until the block is used
    Opened opened;
    uint64_t used = 0;  // the read that has used it last, or before which it was announced
  };

  absl::StatusOr<Opened> Open(const v1::FilePart& part) const;
  absl::StatusOr<Opened> OpenPart(const v1::FilePart& part) const;
  absl::Status ReadBlock(const Lease& lease, BatchReader::Batch* batch);
  Block* Find(const Lease& lease);
  // Waits until the block is open.
  absl::Status Finish(Block* block);
  absl::Status CheckFeatures(const Block& block);
  void DropOld();

  const std::unique_ptr<const v1::DatasetSpec> spec_;
  const std::vector<std::string> names_;
  const BatchReader::Options options_;
  const DataOptions data_;
  std::map<uint64_t, std::unique_ptr<Block>> blocks_;  // by number
  uint64_t reads_ = 0;
  std::vector<FeatureType> features_;  // those of the first block; none yet: empty
  std::string first_path_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_STREAM_READER_H_
