#ifndef COHORT_COMMON_DATA_FILE_BLOCKS_H_
#define COHORT_COMMON_DATA_FILE_BLOCKS_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace cohort {

// The contents of a file as blocks of whole records, one after another. A block can be read without
// the others, after the head: the header of a CSV file.
struct FileBlocks {
  struct Block {
    uint64_t bytes = 0;
    uint64_t records = 0;
  };
  uint64_t head = 0;
  std::vector<Block> blocks;
};

// Cuts records into blocks. All blocks but the last have full batches.
class BlockCutter {
 public:
  struct Options {
    uint64_t batch_size = 1;
    uint64_t block_bytes = 8 << 20;  // a block ends at the first batch that ends there, or later
    uint64_t most_blocks = 0;        // 0: all
  };
  explicit BlockCutter(const Options& options) : options_(options) {}

  // The first block begins after the head.
  void Begin(uint64_t head) { result_.head = begin_ = end_ = head; }
  // Adds the next record, which ends at this byte. Returns false if no more are wanted.
  bool Add(uint64_t end) {
    end_ = end;
    ++records_;
    if (end_ - begin_ >= options_.block_bytes && records_ % options_.batch_size == 0) EndBlock();
    return options_.most_blocks == 0 || result_.blocks.size() < options_.most_blocks;
  }
  FileBlocks Finish() {
    if (records_ > 0) EndBlock();
    return std::move(result_);
  }

 private:
  void EndBlock() {
    result_.blocks.push_back({end_ - begin_, records_});
    begin_ = end_;
    records_ = 0;
  }

  const Options options_;
  FileBlocks result_;
  uint64_t begin_ = 0;  // where the open block begins
  uint64_t end_ = 0;
  uint64_t records_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FILE_BLOCKS_H_
