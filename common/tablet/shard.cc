#include "common/tablet/shard.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/base/status.h"
#include "common/placement/initializers.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// Sets every element of `out` to `value`.
template <typename T>
void FillWith(double value, std::span<uint8_t> out) {
  auto* elements = reinterpret_cast<T*>(out.data());
  std::fill_n(elements, out.size() / sizeof(T), static_cast<T>(value));
}

// The cache lines of a row, whose first one is asked for this many rows ahead.
constexpr uint64_t kRowsAhead = 16;

void PrefetchRow(const uint8_t* row, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 0);
}

// Copies `count` rows of kBytes bytes, which lie anywhere; kBytes 0: of `bytes` bytes.
template <size_t kBytes, typename RowOf>
void CopyRows(uint64_t count, size_t bytes, const RowOf& row_of, uint8_t* out) {
  if constexpr (kBytes != 0) bytes = kBytes;
  for (uint64_t i = 0; i < std::min(kRowsAhead, count); ++i) PrefetchRow(row_of(i), bytes);
  for (uint64_t i = 0; i < count; ++i) {
    if (i + kRowsAhead < count) PrefetchRow(row_of(i + kRowsAhead), bytes);
    std::memcpy(out + i * bytes, row_of(i), bytes);
  }
}

// The common widths are copied without a call.
template <typename RowOf>
void GatherRows(uint64_t count, size_t bytes, const RowOf& row_of, uint8_t* out) {
  switch (bytes) {
    case 32:
      return CopyRows<32>(count, bytes, row_of, out);
    case 64:
      return CopyRows<64>(count, bytes, row_of, out);
    case 128:
      return CopyRows<128>(count, bytes, row_of, out);
    default:
      return CopyRows<0>(count, bytes, row_of, out);
  }
}

// Makes `entry` one of the rows that have places. `memory` holds its values if some have none.
void DropUnplaced(size_t row_bytes, std::vector<int64_t>* places, PushEntryView* entry,
                  std::vector<uint8_t>* memory) {
  if (std::ranges::find(*places, TableRows::kNoPlace) != places->end()) {
    size_t kept = 0;
    memory->resize(places->size() * row_bytes);
    for (size_t i = 0; i < places->size(); ++i) {
      if ((*places)[i] == TableRows::kNoPlace) continue;
      std::memcpy(memory->data() + kept * row_bytes, entry->values.data() + i * row_bytes,
                  row_bytes);
      (*places)[kept++] = (*places)[i];
    }
    places->resize(kept);
    entry->values = {memory->data(), kept * row_bytes};
  }
  entry->count = places->size();
  entry->keys = {reinterpret_cast<const uint8_t*>(places->data()),
                 places->size() * sizeof(int64_t)};
}

absl::StatusOr<ShardInfo> MakeInfo(const v1::Layout& layout, const v1::ShardSpec& spec) {
  if (spec.variable() >= static_cast<uint32_t>(layout.variables_size())) {
    return InvalidArgument("layout: shard {} is of variable {} of {}", spec.shard(),
                           spec.variable(), layout.variables_size());
  }
  const v1::VariableSpec& variable = layout.variables(static_cast<int>(spec.variable()));
  ShardInfo info;
  info.shard = spec.shard();
  info.variable = variable.name();
  info.dtype = static_cast<DType>(variable.dtype());
  info.dims.assign(variable.dims().begin(), variable.dims().end());
  info.row_elements = 1;
  // Sizes are bounded one by one, so that no product overflows.
  double bytes = static_cast<double>(SizeOf(info.dtype));
  for (size_t i = info.is_table() ? 1 : 0; i < info.dims.size(); ++i) {
    if (info.dims[i] < 0) bytes = std::numeric_limits<double>::infinity();
    bytes *= static_cast<double>(std::max<int64_t>(info.dims[i], 1));
    if (bytes > 1e15) break;
    if (i > 0) info.row_elements *= info.dims[i];
  }
  const uint64_t rows = info.dims.empty() ? 1 : static_cast<uint64_t>(info.dims[0]);
  if (bytes == 0 || bytes > 1e15) {
    return InvalidArgument("layout: variable '{}' has a dtype or size that cannot be served",
                           info.variable);
  }
  if (spec.row_begin() > rows || spec.rows() > rows - spec.row_begin()) {
    return InvalidArgument("layout: shard {} has rows [{}, {}) of '{}', which has {}", info.shard,
                           spec.row_begin(), spec.row_begin() + spec.rows(), info.variable, rows);
  }
  info.row_begin = static_cast<int64_t>(spec.row_begin());
  if (variable.hashed_rows()) {
    int64_t shards = 0;
    for (const v1::ShardSpec& other : layout.shards()) {
      if (other.variable() != spec.variable()) continue;
      ++shards;
      if (other.row_begin() < spec.row_begin()) ++info.part;
    }
    info.hashed = HashedRows(static_cast<int64_t>(rows), shards);
  }
  info.rows = static_cast<int64_t>(spec.rows());
  info.trainable = variable.trainable();
  info.row_reads = variable.row_reads();
  return info;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Shard>> Shard::Create(const v1::Layout& layout,
                                                     const v1::ShardSpec& spec,
                                                     const LayoutRules& rules, BufferPool* pool,
                                                     const ShardOptions& options) {
  COHORT_ASSIGN_OR_RETURN(ShardInfo info, MakeInfo(layout, spec));
  if (info.trainable && !IsFloating(info.dtype)) {
    return InvalidArgument("layout: variable '{}' is trainable, but {}", info.variable,
                           DTypeName(info.dtype));
  }
  const OptimizerRule* const rule = rules.Find(layout.variables(static_cast<int>(spec.variable())));
  if (info.trainable && rule == nullptr) {
    return InvalidArgument("layout: variable '{}' is trainable, but there is no optimizer",
                           info.variable);
  }
  if (rule != nullptr) info.slots.assign(rule->slots().begin(), rule->slots().end());
  std::unique_ptr<Shard> shard(
      new Shard(std::make_shared<const ShardInfo>(std::move(info)), rule, pool, options));
  if (shard->info_->is_table()) {
    if (rule != nullptr && rule->scope() == UpdateScope::kVariable) {
      return InvalidArgument(
          "layout: variable '{}' is a table without bounds, and its optimizer works on whole "
          "variables",
          shard->info_->variable);
    }
    COHORT_ASSIGN_OR_RETURN(
        Initializer initializer,
        Initializer::Create(layout.variables(static_cast<int>(spec.variable())).initializer(),
                            shard->info_->variable));
    if (options.disk != nullptr && rule != nullptr && !rule->touches_only_keys()) {
      return InvalidArgument(
          "layout: variable '{}' is a table without bounds, of which `strategy.table_memory_bytes` "
          "keeps a part on disk, and its optimizer changes all rows at each update: give it "
          "`sparse_update: lazy`, or leave out `strategy.table_memory_bytes`",
          shard->info_->variable);
    }
    const ShardInfo& table = *shard->info_;
    for (size_t s = 0; options.disk != nullptr && s < table.slots.size(); ++s) {
      if (table.slot_row_bytes(s) == table.row_bytes()) continue;
      return InvalidArgument(
          "layout: variable '{}' is a table without bounds, of which `strategy.table_memory_bytes` "
          "keeps a part on disk, and its optimizer keeps other numbers for a row than the row has: "
          "leave out `slot_dtype` and RowwiseAdagrad, or `strategy.table_memory_bytes`",
          table.variable);
    }
    const TableRules rules(layout.variables(static_cast<int>(spec.variable())).table(),
                           shard->info_->rows, kTableRows);
    shard->table_.emplace(shard->info_, rules, std::move(initializer), &shard->blocks_,
                          options.disk);
  }
  return shard;
}

absl::Status Shard::TakeIn(std::span<const PushEntryView> entries) {
  if (!table_.has_value() || !table_->has_disk() || !entries.front().sparse) {
    return absl::OkStatus();
  }
  if (entries.size() == 1) return table_->TakeIn(KeysOf(entries[0].keys), clock_, &places_);
  std::vector<int64_t> rows;
  for (const PushEntryView& entry : entries) {
    const std::span<const int64_t> keys = KeysOf(entry.keys);
    rows.insert(rows.end(), keys.begin(), keys.end());
  }
  return table_->TakeIn(rows, clock_, &places_);
}

bool Shard::Apply(std::span<const PushEntryView> entries, double weight, uint64_t step,
                  ApplyScratch* scratch) {
  if (!table_.has_value() || !entries.front().sparse) {
    return ApplyPush(entries, weight, step, rule_, &blocks_, scratch);
  }
  // The rule and the blocks know rows by their places.
  std::vector<std::vector<int64_t>> places(entries.size());
  std::vector<std::vector<uint8_t>> admitted(entries.size());
  std::vector<PushEntryView> placed(entries.begin(), entries.end());
  std::vector<int64_t> updated;
  auto taken_in = places_.begin();
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::span<const int64_t> rows = KeysOf(entries[i].keys);
    if (table_->has_disk()) {
      places[i].assign(taken_in, taken_in + static_cast<int64_t>(rows.size()));
      taken_in += static_cast<int64_t>(rows.size());
    } else {
      table_->Find(rows, clock_, &places[i]);
    }
    table_->Make(rows, clock_, places[i]);
    DropUnplaced(info_->row_bytes(), &places[i], &placed[i], &admitted[i]);
    updated.insert(updated.end(), places[i].begin(), places[i].end());
  }
  const bool non_finite = ApplyPush(placed, weight, step, rule_, &blocks_, scratch);
  table_->EndUpdate(updated, clock_);
  return non_finite;
}

ShardSnapshot Shard::Snapshot(const SnapshotRequest* request) {
  ShardSnapshot snapshot;
  snapshot.info = info_;
  snapshot.blocks = blocks_.Snapshot();
  // What changes on disk is not noted: such a table is whole in each checkpoint.
  const bool has_disk = table_.has_value() && table_->has_disk();
  if (request != nullptr && !has_disk) snapshot.changes = blocks_.TakeChanges(*request, clock_);
  if (!table_.has_value()) return snapshot;
  snapshot.rules = table_->rules();
  snapshot.counts = table_->counts();
  snapshot.clock = clock_;
  snapshot.on_disk = table_->ViewOfDisk();
  return snapshot;
}

absl::Status Shard::Initialize(const v1::InitializerSpec& spec) {
  auto initializer = Initializer::Create(spec, info_->variable);
  if (!initializer.ok()) {
    return Annotate(initializer.status(), fmt::format("variable '{}'", info_->variable));
  }
  return Fill([&](int slot, int64_t row, int64_t rows, std::span<uint8_t> out) {
    if (slot < 0 || info_->slots[static_cast<size_t>(slot)].is_copy) {
      // Rows that follow one another in the variable are filled at once.
      const int64_t at_once = info_->hashed.has_value() ? 1 : rows;
      for (int64_t done = 0; done < rows; done += at_once) {
        const auto begin = static_cast<uint64_t>(info_->RowOf(row + done) * info_->row_elements);
        initializer->Fill(info_->dtype, begin,
                          begin + static_cast<uint64_t>(at_once * info_->row_elements),
                          out.data() + static_cast<size_t>(done) * info_->row_bytes());
      }
    } else if (info_->dtype == DType::kFloat32) {
      FillWith<float>(info_->slots[static_cast<size_t>(slot)].initial_value, out);
    } else {
      FillWith<double>(info_->slots[static_cast<size_t>(slot)].initial_value, out);
    }
    return absl::OkStatus();
  });
}

absl::Status Shard::CheckKeys(std::span<const uint8_t> bytes) const {
  for (const int64_t key : KeysOf(bytes)) {
    if (key < 0 || key >= info_->rows) {
      return InvalidArgument("shard {} ({}): key {} is not one of its {} rows", info_->shard,
                             info_->variable, key, info_->rows);
    }
  }
  return absl::OkStatus();
}

absl::Status Shard::CheckSizes(const PushEntryView& entry) const {
  if (info_->is_table() && !entry.sparse) {
    return InvalidArgument("shard {} ({}): a push of a whole table without bounds", info_->shard,
                           info_->variable);
  }
  const uint64_t unit = entry.sparse ? info_->row_bytes() : SizeOf(info_->dtype);
  const auto limit = static_cast<uint64_t>(entry.sparse ? info_->rows : info_->elements());
  if (entry.count > limit || (!entry.sparse && entry.begin > limit - entry.count)) {
    return InvalidArgument("shard {} ({}): {} from {}, but it has {} {}", info_->shard,
                           info_->variable, entry.count, entry.begin, limit,
                           entry.sparse ? "rows" : "elements");
  }
  if (entry.value_bytes() != entry.count * unit) {
    return InvalidArgument("shard {} ({}): {} bytes of values for {} {} of {} bytes", info_->shard,
                           info_->variable, entry.value_bytes(), entry.count,
                           entry.sparse ? "rows" : "elements", unit);
  }
  if (!entry.sparse) return absl::OkStatus();
  if (entry.keys.size() != entry.count * sizeof(int64_t)) {
    return InvalidArgument("shard {} ({}): {} bytes of keys for {} rows", info_->shard,
                           info_->variable, entry.keys.size(), entry.count);
  }
  return CheckKeys(entry.keys);
}

absl::Status Shard::CheckPush(std::span<const PushEntryView> entries) const {
  const PushEntryView& first = entries.front();
  uint64_t next = 0;
  for (const PushEntryView& entry : entries) {
    if (entry.kind != first.kind || entry.sparse != first.sparse) {
      return InvalidArgument("shard {} ({}): entries of different kinds in one push", info_->shard,
                             info_->variable);
    }
    if (entry.kind == PushKind::kRecordOnly) continue;
    COHORT_RETURN_IF_ERROR(CheckSizes(entry));
    if (entry.kind == PushKind::kEma && !(entry.momentum >= 0 && entry.momentum <= 1)) {
      return InvalidArgument("shard {} ({}): momentum is {}; it is the old value's part of the new",
                             info_->shard, info_->variable, entry.momentum);
    }
    if (!entry.sparse &&
        (entry.kind == PushKind::kGradient ? entry.begin != next : entry.begin < next)) {
      return InvalidArgument("shard {} ({}): part from element {}, where {} comes next",
                             info_->shard, info_->variable, entry.begin, next);
    }
    next = entry.begin + entry.count;
  }
  if (first.kind == PushKind::kGradient) {
    if (!info_->trainable) {
      return InvalidArgument("shard {} ({}): a gradient, but the variable is not trainable",
                             info_->shard, info_->variable);
    }
    if (!first.sparse && next != static_cast<uint64_t>(info_->elements())) {
      return InvalidArgument("shard {} ({}): a gradient of {} of its {} elements", info_->shard,
                             info_->variable, next, info_->elements());
    }
  } else if (first.kind != PushKind::kRecordOnly && !IsFloating(info_->dtype) &&
             (first.kind == PushKind::kEma || SizeOf(info_->dtype) < 4)) {
    return InvalidArgument("shard {} ({}): {} variables take no such push", info_->shard,
                           info_->variable, DTypeName(info_->dtype));
  }
  return absl::OkStatus();
}

uint64_t Shard::BytesToCopy(std::span<const PushEntryView> entries) const {
  if (!entries.empty() && entries.front().kind == PushKind::kRecordOnly) return 0;
  const bool only_keys =
      !entries.empty() && entries.front().sparse &&
      (entries.front().kind != PushKind::kGradient || rule_->touches_only_keys());
  if (!only_keys) return blocks_.BytesToCopy();
  uint64_t bytes = 0;
  std::vector<int64_t> places;
  for (const PushEntryView& entry : entries) {
    std::span<const int64_t> keys = KeysOf(entry.keys);
    if (table_.has_value()) {
      table_->Find(keys, clock_, &places);
      const size_t unplaced = std::erase(places, TableRows::kNoPlace);
      table_->AppendFreePlaces(unplaced, &places);
      std::ranges::sort(places);  // those of a block lie together
      keys = places;
    }
    bytes += blocks_.BytesToCopy(keys);
  }
  return bytes;
}

absl::Status Shard::CheckPull(const PullEntryView& entry) const {
  if (!entry.rows && info_->is_table()) {
    return InvalidArgument("shard {} ({}): a pull of a whole table without bounds", info_->shard,
                           info_->variable);
  }
  if (!entry.rows) return absl::OkStatus();
  if (entry.keys.size() % sizeof(int64_t) != 0 ||
      entry.keys.size() / sizeof(int64_t) != entry.count) {
    return InvalidArgument("shard {} ({}): {} bytes of keys for {} rows", info_->shard,
                           info_->variable, entry.keys.size(), entry.count);
  }
  return CheckKeys(entry.keys);
}

uint64_t Shard::PulledBytes(const PullEntryView& entry) const {
  constexpr uint64_t kMost = uint64_t{1} << 63;
  const uint64_t row_bytes = info_->row_bytes();
  const uint64_t rows = entry.rows ? entry.count : static_cast<uint64_t>(info_->rows);
  return row_bytes > 0 && rows > kMost / row_bytes ? kMost : rows * row_bytes;
}

absl::Status Shard::Pull(const PullEntryView& entry, v1::PullResult* result,
                         std::vector<PayloadSlice>* payload) const {
  if (entry.rows) return PullRows(entry, result, payload);
  PullDense(entry, result, payload);
  return absl::OkStatus();
}

const BufferRef& Shard::Pulled(const PullEntryView& entry, const ShardBlock& block) const {
  return entry.average && average_.has_value() ? block.slots[*average_] : block.values;
}

void Shard::PullDense(const PullEntryView& entry, v1::PullResult* result,
                      std::vector<PayloadSlice>* payload) const {
  const size_t element = SizeOf(info_->dtype);
  const size_t piece = ShardOptions::kBlockBytes / element * element;
  for (const ShardBlock& block : blocks_.all()) {
    // A block is larger than a piece if one row is.
    const BufferRef& values = Pulled(entry, block);
    const size_t bytes = values->size();
    for (size_t offset = 0; offset < bytes; offset += piece) {
      const size_t size = std::min(piece, bytes - offset);
      v1::PulledEntry* pulled = result->add_entries();
      pulled->set_shard(info_->shard);
      pulled->set_begin(static_cast<uint64_t>(block.row_begin * info_->row_elements) +
                        offset / element);
      pulled->set_count(size / element);
      payload->push_back({values, offset, size});
    }
  }
}

absl::Status Shard::GatherFromTable(const PullEntryView& entry, std::span<const int64_t> keys,
                                    uint8_t* out) const {
  const size_t row_bytes = info_->row_bytes();
  std::vector<int64_t> places;
  table_->Find(keys, clock_, &places);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kRowsAhead < keys.size() && places[i + kRowsAhead] != TableRows::kNoPlace) {
      blocks_.Prefetch(places[i + kRowsAhead]);
    }
    if (places[i] == TableRows::kNoPlace) {
      table_->FirstValues(keys[i], out + i * row_bytes);
      continue;
    }
    const ShardBlock& block = blocks_.BlockOf(places[i]);
    const size_t offset = static_cast<size_t>(places[i] - block.row_begin) * row_bytes;
    std::memcpy(out + i * row_bytes, Pulled(entry, block)->data() + offset, row_bytes);
  }
  const size_t tensor = entry.average && average_.has_value() ? 1 + *average_ : 0;
  return table_->ReadCold(keys, places, clock_, [&](size_t i, const uint8_t* record) {
    std::memcpy(out + i * row_bytes, record + row_record::kTensorsAt + tensor * row_bytes,
                row_bytes);
  });
}

absl::Status Shard::CheckRows(std::span<const int64_t> rows) const {
  for (const int64_t row : rows) {
    if (row < 0 || row >= info_->rows) {
      return InvalidArgument("shard {} ({}): row {} is not one of its {} rows", info_->shard,
                             info_->variable, row, info_->rows);
    }
  }
  return absl::OkStatus();
}

// What a slot of new rows with these values begins with, in the form of checkpoints.
std::vector<uint8_t> Shard::FirstSlot(size_t slot, size_t rows,
                                      std::span<const uint8_t> values) const {
  const SlotInfo& info = info_->slots[slot];
  if (info.is_copy) return {values.begin(), values.end()};
  std::vector<uint8_t> bytes(rows * info_->stored_row_bytes(slot));
  if (info_->dtype == DType::kFloat32) {
    FillWith<float>(info.initial_value, bytes);
  } else {
    FillWith<double>(info.initial_value, bytes);
  }
  return bytes;
}

absl::Status Shard::FillRows(int slot, int64_t row_begin, int64_t rows,
                             std::span<const uint8_t> bytes) {
  const bool known = slot < static_cast<int>(info_->slots.size());
  const size_t row_bytes =
      slot < 0 || !known ? info_->row_bytes() : info_->slot_row_bytes(static_cast<size_t>(slot));
  const bool fits = !info_->is_table() && known && row_begin >= 0 && rows > 0 &&
                    row_begin <= info_->rows - rows &&
                    bytes.size() == static_cast<size_t>(rows) * row_bytes;
  if (!fits) {
    return DataLoss("shard {} ({}): {} bytes for rows {} to {} of slot {}", info_->shard,
                    info_->variable, bytes.size(), row_begin, row_begin + rows, slot);
  }
  while (rows > 0) {
    ShardBlock* const block = blocks_.MutableBlockOf(row_begin);
    const int64_t from = row_begin - block->row_begin;
    const int64_t part = std::min(rows, block->rows - from);
    const size_t part_bytes = static_cast<size_t>(part) * row_bytes;
    const BufferRef& buffer = slot < 0 ? block->values : block->slots[slot];
    std::memcpy(buffer->data() + static_cast<size_t>(from) * row_bytes, bytes.data(), part_bytes);
    bytes = bytes.subspan(part_bytes);
    row_begin += part;
    rows -= part;
  }
  return absl::OkStatus();
}

absl::Status Shard::AddRows(std::span<const int64_t> rows,
                            std::span<const std::span<const uint8_t>> tensors) {
  COHORT_RETURN_IF_ERROR(CheckRows(rows));
  const size_t of_rows = 1 + info_->slots.size();
  std::vector<std::vector<uint8_t>> first_slots;
  std::vector<std::span<const uint8_t>> completed;
  if (tensors.size() == 1 && of_rows > 1) {
    completed.push_back(tensors[0]);
    for (size_t s = 0; s + 1 < of_rows; ++s) {
      first_slots.push_back(FirstSlot(s, rows.size(), tensors[0]));
    }
    completed.insert(completed.end(), first_slots.begin(), first_slots.end());
    tensors = completed;
  }
  bool fits = tensors.size() == of_rows || tensors.size() == of_rows + 1;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const size_t bytes = t == 0        ? info_->row_bytes()
                         : t < of_rows ? info_->stored_row_bytes(t - 1)
                                       : sizeof(uint64_t);
    fits = fits && tensors[t].size() == rows.size() * bytes;
  }
  if (!fits) {
    return DataLoss(
        "shard {} ({}): {} rows of a table that do not have {} bytes each, in {} tensors",
        info_->shard, info_->variable, rows.size(), info_->row_bytes(), of_rows);
  }
  return table_->Add(rows, tensors, clock_);
}

absl::Status Shard::AddCounts(std::span<const int64_t> rows,
                              std::span<const std::span<const uint8_t>> tensors) {
  COHORT_RETURN_IF_ERROR(CheckRows(rows));
  const size_t bytes = rows.size() * sizeof(uint64_t);
  if (tensors.size() != 2 || tensors[0].size() != bytes || tensors[1].size() != bytes) {
    return DataLoss("shard {} ({}): counts of a table that are not two numbers for each key",
                    info_->shard, info_->variable);
  }
  const auto numbers = [](std::span<const uint8_t> bytes) {
    return std::span(reinterpret_cast<const uint64_t*>(bytes.data()),
                     bytes.size() / sizeof(uint64_t));
  };
  // The rules may have changed since they were counted.
  if (table_->rules().min_count < 2) return absl::OkStatus();
  table_->AddCounts(rows, numbers(tensors[0]), numbers(tensors[1]));
  return absl::OkStatus();
}

absl::Status Shard::PullRows(const PullEntryView& entry, v1::PullResult* result,
                             std::vector<PayloadSlice>* payload) const {
  const auto* keys = reinterpret_cast<const int64_t*>(entry.keys.data());
  const size_t row_bytes = info_->row_bytes();
  const uint64_t rows_of_piece =
      std::max<uint64_t>(1, ShardOptions::kBlockBytes / std::max<size_t>(row_bytes, 1));
  for (uint64_t begin = 0; begin < entry.count; begin += rows_of_piece) {
    const uint64_t count = std::min(rows_of_piece, entry.count - begin);
    BufferRef buffer = blocks_.pool()->Allocate(count * row_bytes);
    const auto row_of = [&](uint64_t i) {
      const int64_t key = keys[begin + i];
      const ShardBlock& block = blocks_.BlockOf(key);
      return Pulled(entry, block)->data() + static_cast<size_t>(key - block.row_begin) * row_bytes;
    };
    if (table_.has_value()) {
      COHORT_RETURN_IF_ERROR(GatherFromTable(entry, {keys + begin, count}, buffer->data()));
    } else {
      GatherRows(count, row_bytes, row_of, buffer->data());
    }
    v1::PulledEntry* pulled = result->add_entries();
    pulled->set_shard(info_->shard);
    pulled->set_begin(begin);
    pulled->set_count(count);
    payload->push_back({std::move(buffer), 0, count * row_bytes});
  }
  return absl::OkStatus();
}

}  // namespace cohort
