// Rows on disk in RocksDB. All tables of a server share a database, so that it has one memory:
//   column family "default": shard (uint32) | row (uint64), big-endian: a record (row_record)
//   column family "clocks":  shard | clock (uint64) | row: nothing; if a table needs the oldest
// No write-ahead log: the files are scratch. Values are not packed.
#include <fcntl.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_buffer_manager.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/base/fnv1a.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/os/directory.h"
#include "common/os/identity.h"
#include "common/os/open_file.h"
#include "common/tablet/row_tier.h"

namespace cohort {
namespace {

// The directory is "<prefix><host>.<random>".
constexpr char kPrefix[] = "cohort-rows.";

// Parts of the limit. Rows in memory have the rest.
constexpr uint64_t kCachePart = 8;     // blocks, indices and filters that were read
constexpr uint64_t kBuffersPart = 16;  // rows that are not in files yet
constexpr uint64_t kLeastCache = uint64_t{1} << 20;

void PutBigEndian(uint64_t value, size_t bytes, char* out) {
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
}

uint64_t GetBigEndian(const char* from, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<uint8_t>(from[i]);
  return value;
}

// The key of a row (12 bytes) or of a clock and a row (20 bytes).
template <size_t kNumbers>
struct Key {
  std::array<char, 4 + 8 * kNumbers> bytes;

  Key(uint32_t shard, const std::array<uint64_t, kNumbers>& numbers) {
    PutBigEndian(shard, 4, bytes.data());
    for (size_t i = 0; i < kNumbers; ++i) PutBigEndian(numbers[i], 8, bytes.data() + 4 + 8 * i);
  }
  rocksdb::Slice slice() const { return {bytes.data(), bytes.size()}; }
};

Key<1> RowKey(uint32_t shard, int64_t row) { return {shard, {static_cast<uint64_t>(row)}}; }
Key<2> ClockKey(uint32_t shard, uint64_t clock, int64_t row) {
  return {shard, {clock, static_cast<uint64_t>(row)}};
}

class RocksDisk : public RowDisk, public std::enable_shared_from_this<RocksDisk> {
 public:
  explicit RocksDisk(const Options& options)
      : options_(options),
        cache_(rocksdb::NewLRUCache(std::max(options.memory_bytes / kCachePart, kLeastCache),
                                    /*num_shard_bits=*/4)),
        buffers_(std::make_shared<rocksdb::WriteBufferManager>(
            std::max<uint64_t>(options.memory_bytes / kBuffersPart, uint64_t{512} << 10))),
        memory_(options.memory_bytes - options.memory_bytes / kCachePart -
                options.memory_bytes / kBuffersPart) {}
  ~RocksDisk() override;

  absl::Status Open();

  std::unique_ptr<RowTier> AddTable(uint32_t shard, size_t record_bytes,
                                    bool keeps_clocks) override;
  TableMemory* memory() override { return &memory_; }
  uint64_t memory_bytes() const override { return cache_->GetUsage() + buffers_->memory_usage(); }
  uint64_t rows() const override { return rows_; }
  uint64_t file_bytes() const override {
    uint64_t bytes = 0;
    db_->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize, &bytes);
    return bytes;
  }
  void CountFound(uint64_t in_memory, uint64_t on_disk) override {
    if (options_.found_in_memory != nullptr) options_.found_in_memory->Increment(in_memory);
    if (options_.found_on_disk != nullptr) options_.found_on_disk->Increment(on_disk);
  }
  const std::string& directory() const override { return directory_; }
  bool in_memory() const override { return IsInMemory(directory_); }

  rocksdb::DB* db() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* of_rows() const { return families_[0]; }
  rocksdb::ColumnFamilyHandle* of_clocks() const { return families_[1]; }
  std::atomic<uint64_t>* row_count() { return &rows_; }
  absl::Status Error(const rocksdb::Status& status) const;

 private:
  absl::Status MakeDirectory();

  const Options options_;
  const std::shared_ptr<rocksdb::Cache> cache_;
  const std::shared_ptr<rocksdb::WriteBufferManager> buffers_;
  TableMemory memory_;
  std::string directory_;
  UniqueFd lock_;  // locks the directory while this process lives
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  std::atomic<uint64_t> rows_{0};
};

absl::Status RocksDisk::Error(const rocksdb::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  const std::string text =
      fmt::format("{}: rows of tables in {}: {}", options_.server, directory_, status.ToString());
  if (status.IsNoSpace()) {
    return ResourceExhausted("{}: free space there, or choose another `strategy.table_directory`",
                             text);
  }
  if (status.IsCorruption()) return DataLoss("{}", text);
  return Unavailable("{}: mend the disk, or choose another `strategy.table_directory`", text);
}

// The begin of the names of this host's directories. Hosts may share the storage, and there a lock
// may hold on one host alone.
std::string NameOfHost() { return fmt::format("{}{:016x}", kPrefix, Fnv1a(HostId())); }

// Removes the directories of this host's processes that have ended. A process that has just made
// one, and has not locked it yet, finds that it is gone, and makes another one.
void RemoveDead(const std::filesystem::path& parent) {
  const std::string prefix = NameOfHost() + ".";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const UniqueFd fd(
        ::open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.ok() || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

// Where rows lie if the user names no directory.
std::string DefaultParent() {
  constexpr char kOnDisk[] = "/var/tmp";
  std::error_code error;
  const std::string temporary = std::filesystem::temp_directory_path(error).string();
  const bool fits = IsInMemory(temporary) && ::access(kOnDisk, W_OK | X_OK) == 0;
  return fits && !IsInMemory(kOnDisk) ? kOnDisk : temporary;
}

absl::Status RocksDisk::MakeDirectory() {
  if (!options_.parent.empty()) COHORT_RETURN_IF_ERROR(MakeDirectories(options_.parent));
  const std::string parent = options_.parent.empty() ? DefaultParent() : options_.parent;
  RemoveDead(parent);
  for (int tries = 0; tries < 100; ++tries) {
    COHORT_ASSIGN_OR_RETURN(directory_, MakeTemporaryDirectory(NameOfHost(), parent));
    lock_ = UniqueFd(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock_.ok()) continue;
    ::flock(lock_.get(), LOCK_EX);
    struct stat locked = {};
    struct stat there = {};
    if (::fstat(lock_.get(), &locked) == 0 && ::stat(directory_.c_str(), &there) == 0 &&
        locked.st_ino == there.st_ino) {
      return absl::OkStatus();
    }
  }
  return Unavailable("{}: cannot keep a directory for rows of tables below {}", options_.server,
                     parent);
}

rocksdb::Options DatabaseOptions(uint64_t memory, const std::shared_ptr<rocksdb::Cache>& cache,
                                 const std::shared_ptr<rocksdb::WriteBufferManager>& buffers) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.info_log_level = rocksdb::FATAL_LEVEL;
  options.keep_log_file_num = 1;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.max_bgerror_resume_count = 0;  // an error ends the job
  options.max_background_jobs = 2;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_manager = buffers;
  options.write_buffer_size =
      std::clamp<uint64_t>(memory / kBuffersPart / 4, uint64_t{128} << 10, uint64_t{64} << 20);
  options.max_write_buffer_number = 3;
  // Most rows that are asked for are not in a buffer.
  options.memtable_prefix_bloom_size_ratio = 0.1;
  options.memtable_whole_key_filtering = true;
  options.level_compaction_dynamic_level_bytes = true;
  options.target_file_size_base =
      std::clamp<uint64_t>(memory / 32, uint64_t{2} << 20, uint64_t{64} << 20);
  options.max_bytes_for_level_base = 4 * options.target_file_size_base;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.cache_index_and_filter_blocks = true;
  table.cache_index_and_filter_blocks_with_high_priority = true;
  table.pin_top_level_index_and_filter = true;
  table.format_version = 5;
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

absl::Status RocksDisk::Open() {
  COHORT_RETURN_IF_ERROR(MakeDirectory());
  const rocksdb::Options options = DatabaseOptions(options_.memory_bytes, cache_, buffers_);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, options}, {"clocks", options}};
  rocksdb::DB* db = nullptr;
  COHORT_RETURN_IF_ERROR(
      Error(rocksdb::DB::Open(options, directory_ + "/rocksdb", families, &families_, &db)));
  db_.reset(db);
  return absl::OkStatus();
}

RocksDisk::~RocksDisk() {
  for (rocksdb::ColumnFamilyHandle* const family : families_) {
    db_->DestroyColumnFamilyHandle(family);
  }
  if (db_ != nullptr) db_->Close();
  db_.reset();
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

class RocksCursor : public RowCursor {
 public:
  RocksCursor(const std::shared_ptr<const RocksDisk>& disk, const rocksdb::Snapshot* snapshot,
              uint32_t shard)
      : disk_(disk), end_(RowKey(shard + 1, 0)), end_slice_(end_.slice()) {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot;
    read.iterate_upper_bound = &end_slice_;
    read.fill_cache = false;
    read.readahead_size = size_t{2} << 20;
    iterator_.reset(disk_->db()->NewIterator(read, disk_->of_rows()));
    first_ = RowKey(shard, 0).bytes;
  }

  bool Next() override {
    if (started_) {
      iterator_->Next();
    } else {
      iterator_->Seek({first_.data(), first_.size()});
      started_ = true;
    }
    return iterator_->Valid();
  }
  int64_t row() const override {
    return static_cast<int64_t>(GetBigEndian(iterator_->key().data() + 4, 8));
  }
  const uint8_t* record() const override {
    return reinterpret_cast<const uint8_t*>(iterator_->value().data());
  }
  absl::Status status() const override { return disk_->Error(iterator_->status()); }

 private:
  const std::shared_ptr<const RocksDisk> disk_;
  const Key<1> end_;
  const rocksdb::Slice end_slice_;
  std::array<char, 12> first_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
  bool started_ = false;
};

class RocksView : public RowView {
 public:
  RocksView(std::shared_ptr<const RocksDisk> disk, uint32_t shard, uint64_t rows)
      : disk_(std::move(disk)), shard_(shard), rows_(rows), snapshot_(disk_->db()->GetSnapshot()) {}
  ~RocksView() override { disk_->db()->ReleaseSnapshot(snapshot_); }

  uint64_t rows() const override { return rows_; }
  absl::StatusOr<uint64_t> CountOlder(uint64_t clock) const override {
    const Key<2> end = ClockKey(shard_, clock, 0);
    const rocksdb::Slice end_slice = end.slice();
    rocksdb::ReadOptions read;
    read.snapshot = snapshot_;
    read.iterate_upper_bound = &end_slice;
    const std::unique_ptr<rocksdb::Iterator> it(disk_->db()->NewIterator(read, disk_->of_clocks()));
    uint64_t count = 0;
    for (it->Seek(ClockKey(shard_, 0, 0).slice()); it->Valid(); it->Next()) ++count;
    COHORT_RETURN_IF_ERROR(disk_->Error(it->status()));
    return count;
  }
  std::unique_ptr<RowCursor> Rows() const override {
    return std::make_unique<RocksCursor>(disk_, snapshot_, shard_);
  }

 private:
  const std::shared_ptr<const RocksDisk> disk_;
  const uint32_t shard_;
  const uint64_t rows_;
  const rocksdb::Snapshot* const snapshot_;
};

class RocksTier : public RowTier {
 public:
  RocksTier(std::shared_ptr<RocksDisk> disk, uint32_t shard, size_t record_bytes, bool clocks)
      : disk_(std::move(disk)), shard_(shard), record_bytes_(record_bytes), clocks_(clocks) {}
  ~RocksTier() override { *disk_->row_count() -= rows_; }

  absl::Status Read(std::span<const int64_t> rows, std::vector<uint8_t>* records,
                    std::vector<uint8_t>* found) override;
  absl::Status Put(std::span<const int64_t> rows, std::span<const uint8_t> records) override;
  absl::Status Remove(std::span<const int64_t> rows, std::span<const uint64_t> clocks) override;
  absl::StatusOr<std::vector<std::pair<uint64_t, int64_t>>> Oldest(uint64_t from,
                                                                   size_t most) override;
  std::shared_ptr<const RowView> View() override {
    return std::make_shared<RocksView>(disk_, shard_, rows_);
  }
  uint64_t rows() const override { return rows_; }

 private:
  absl::Status Write(rocksdb::WriteBatch* batch) {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    return disk_->Error(disk_->db()->Write(options, batch));
  }

  const std::shared_ptr<RocksDisk> disk_;
  const uint32_t shard_;
  const size_t record_bytes_;
  const bool clocks_;
  std::atomic<uint64_t> rows_{0};
};

absl::Status RocksTier::Read(std::span<const int64_t> rows, std::vector<uint8_t>* records,
                             std::vector<uint8_t>* found) {
  constexpr size_t kAtOnce = 256;
  records->resize(rows.size() * record_bytes_);
  found->assign(rows.size(), 0);
  std::vector<Key<1>> keys;
  std::vector<rocksdb::Slice> slices;
  std::array<rocksdb::PinnableSlice, kAtOnce> values;
  std::array<rocksdb::Status, kAtOnce> statuses;
  for (size_t begin = 0; begin < rows.size(); begin += kAtOnce) {
    const size_t count = std::min(kAtOnce, rows.size() - begin);
    keys.clear();
    slices.clear();
    for (size_t i = 0; i < count; ++i) keys.push_back(RowKey(shard_, rows[begin + i]));
    for (const Key<1>& key : keys) slices.push_back(key.slice());
    const bool sorted = std::ranges::is_sorted(rows.subspan(begin, count));
    disk_->db()->MultiGet(rocksdb::ReadOptions(), disk_->of_rows(), count, slices.data(),
                          values.data(), statuses.data(), sorted);
    for (size_t i = 0; i < count; ++i) {
      if (statuses[i].IsNotFound()) continue;
      COHORT_RETURN_IF_ERROR(disk_->Error(statuses[i]));
      if (values[i].size() != record_bytes_) {
        return DataLoss("{}: a row has {} bytes instead of {}", disk_->directory(),
                        values[i].size(), record_bytes_);
      }
      std::memcpy(records->data() + (begin + i) * record_bytes_, values[i].data(), record_bytes_);
      (*found)[begin + i] = 1;
      values[i].Reset();
    }
  }
  return absl::OkStatus();
}

absl::Status RocksTier::Put(std::span<const int64_t> rows, std::span<const uint8_t> records) {
  rocksdb::WriteBatch batch;
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint8_t* const record = records.data() + i * record_bytes_;
    batch.Put(disk_->of_rows(), RowKey(shard_, rows[i]).slice(),
              {reinterpret_cast<const char*>(record), record_bytes_});
    if (!clocks_) continue;
    batch.Put(disk_->of_clocks(), ClockKey(shard_, row_record::ClockOf(record), rows[i]).slice(),
              {});
  }
  COHORT_RETURN_IF_ERROR(Write(&batch));
  rows_ += rows.size();
  *disk_->row_count() += rows.size();
  return absl::OkStatus();
}

absl::Status RocksTier::Remove(std::span<const int64_t> rows, std::span<const uint64_t> clocks) {
  rocksdb::WriteBatch batch;
  for (size_t i = 0; i < rows.size(); ++i) {
    batch.Delete(disk_->of_rows(), RowKey(shard_, rows[i]).slice());
    if (clocks_) batch.Delete(disk_->of_clocks(), ClockKey(shard_, clocks[i], rows[i]).slice());
  }
  COHORT_RETURN_IF_ERROR(Write(&batch));
  rows_ -= rows.size();
  *disk_->row_count() -= rows.size();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<uint64_t, int64_t>>> RocksTier::Oldest(uint64_t from,
                                                                            size_t most) {
  const Key<2> end = ClockKey(shard_ + 1, 0, 0);
  const rocksdb::Slice end_slice = end.slice();
  rocksdb::ReadOptions read;
  read.iterate_upper_bound = &end_slice;
  const std::unique_ptr<rocksdb::Iterator> it(disk_->db()->NewIterator(read, disk_->of_clocks()));
  std::vector<std::pair<uint64_t, int64_t>> oldest;
  for (it->Seek(ClockKey(shard_, from, 0).slice()); it->Valid() && oldest.size() < most;
       it->Next()) {
    oldest.emplace_back(GetBigEndian(it->key().data() + 4, 8),
                        static_cast<int64_t>(GetBigEndian(it->key().data() + 12, 8)));
  }
  COHORT_RETURN_IF_ERROR(disk_->Error(it->status()));
  return oldest;
}

std::unique_ptr<RowTier> RocksDisk::AddTable(uint32_t shard, size_t record_bytes,
                                             bool keeps_clocks) {
  memory_.AddTable();
  return std::make_unique<RocksTier>(shared_from_this(), shard, record_bytes, keeps_clocks);
}

}  // namespace

absl::StatusOr<std::shared_ptr<RowDisk>> RowDisk::Create(const Options& options) {
  auto disk = std::make_shared<RocksDisk>(options);
  COHORT_RETURN_IF_ERROR(disk->Open());
  return disk;
}

}  // namespace cohort
