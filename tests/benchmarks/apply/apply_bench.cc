// GB of dense gradient per second that a tablet applies, by one thread and with helpers, beside
// what the machine's memory allows: a copy of as many bytes. Interleaved, medians of short runs.
//   apply_bench                      all optimizers; 4 and 64 MB; 0 helpers and 1
//   apply_bench --rows               millions of random rows per second that one thread updates and
//                                    pulls, for rows of 8 to 128 floats, beside what the machine
//                                    allows: a loop over rows in one array of huge pages, each with
//                                    as many bytes as a row and its slots, which asks for the rows
//                                    ahead
//   apply_bench --table_memory N     the same for tables whose memory is N megabytes. The other
//                                    rows lie on disk, in $TMPDIR or /tmp
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/optimizers/optimizers.h"
#include "common/tablet/row_tier.h"
#include "common/tablet/tablet.h"
#include "common/tensor/table_rows.h"
#include "proto/parameter_server.pb.h"

namespace cohort::bench {
namespace {

using Clock = std::chrono::steady_clock;

v1::Layout MakeLayout(const std::string& optimizer, size_t bytes) {
  v1::Layout layout;
  auto* variable = layout.add_variables();
  variable->set_name("w");
  variable->set_dtype(v1::FLOAT32);
  variable->add_dims(static_cast<int64_t>(bytes / 1024));
  variable->add_dims(256);
  variable->set_trainable(true);
  variable->mutable_initializer()->set_class_name("Zeros");
  auto* shard = layout.add_shards();
  shard->set_rows(bytes / 1024);
  layout.add_tablets();
  *layout.add_optimizers() = OptimizerOf(optimizer, {{"learning_rate", ConfigOf(0.01)}});
  return layout;
}

// A tablet and a gradient for it.
class Subject {
 public:
  Subject(const std::string& optimizer, size_t bytes, ThreadPool* helpers)
      : pool_(BufferPool::Create(size_t{1} << 30)), gradient_(bytes / sizeof(float), 0.5f) {
    const v1::Layout layout = MakeLayout(optimizer, bytes);
    auto rules = LayoutRules::Create(layout);
    Tablet::Options options;
    options.shard.helpers = helpers;
    options.shard.split_bytes = size_t{1} << 20;  // all sizes here
    auto tablet = Tablet::Create(layout, *std::move(rules), pool_.get(), options);
    tablet_ = *std::move(tablet);
    if (!tablet_->Initialize(layout).ok()) std::abort();
    entry_.kind = PushKind::kGradient;
    entry_.count = gradient_.size();
    entry_.values = {reinterpret_cast<const uint8_t*>(gradient_.data()), bytes};
    section_.entries = {&entry_, 1};
    header_.weight = 32;
  }

  // GB/s over `count` applies.
  double Run(int count) {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < count; ++i) {
      header_.id = {++closure_, 0};
      header_.place = closure_;
      v1::PushResult result;
      tablet_->Push(0, closure_, header_, section_, &result);
      if (result.status() != v1::APPLIED) std::abort();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return 1e-9 * static_cast<double>(entry_.values.size()) * count / seconds;
  }

 private:
  BufferPool::Handle pool_;
  std::vector<float> gradient_;
  std::unique_ptr<Tablet> tablet_;
  PushEntryView entry_;
  PushSectionView section_;
  PushHeaderView header_;
  uint64_t closure_ = 0;
};

double Copy(std::vector<uint8_t>* to, const std::vector<uint8_t>& from, int count) {
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < count; ++i) std::memcpy(to->data(), from.data(), from.size());
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return 1e-9 * static_cast<double>(from.size()) * count / seconds;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Measure(const std::string& optimizer, size_t bytes, ThreadPool* helpers, int rounds) {
  Subject alone(optimizer, bytes, nullptr);
  Subject helped(optimizer, bytes, helpers);
  const std::vector<uint8_t> from(bytes, 1);
  std::vector<uint8_t> to(bytes, 2);
  const int count = std::max(1, static_cast<int>((size_t{256} << 20) / bytes));
  alone.Run(1);
  helped.Run(1);
  std::vector<double> rates[3];
  for (int round = 0; round < rounds; ++round) {
    rates[0].push_back(alone.Run(count));
    rates[1].push_back(helped.Run(count));
    rates[2].push_back(Copy(&to, from, count));
  }
  const double one = Median(rates[0]);
  const double more = Median(rates[1]);
  fmt::print(
      "{:<8} {:>3} MB   {:>6.1f} GB/s alone, {:>6.1f} with {} helper(s) ({:.2f} x); memcpy "
      "{:>6.1f}\n",
      optimizer, bytes >> 20, one, more, helpers->threads() - 1, more / one, Median(rates[2]));
}

// Pushes and pulls of random rows of a large embedding.
class Rows {
 public:
  static constexpr size_t kKeys = 4096;  // each push has
  static constexpr size_t kPushes = 64;  // with keys of their own

  // `table`: the rows are those of a table without bounds. `disk`: for its rows; may be null.
  Rows(const std::string& optimizer, int64_t width, size_t bytes, bool table, RowDisk* disk)
      : pool_(BufferPool::Create(size_t{1} << 30)),
        row_bytes_(static_cast<size_t>(width) * sizeof(float)),
        rows_(bytes / row_bytes_),
        gradient_(kKeys * static_cast<size_t>(width), 0.5f) {
    v1::Layout layout = MakeLayout(optimizer, bytes);
    v1::VariableSpec* const variable = layout.mutable_variables(0);
    const int64_t all = table ? kTableRows : static_cast<int64_t>(rows_);
    variable->set_dims(0, all);
    variable->set_dims(1, width);
    variable->set_row_reads(true);
    layout.mutable_shards(0)->set_rows(static_cast<uint64_t>(all));
    layout.mutable_optimizers(0)->set_sparse_update("lazy");
    auto rules = LayoutRules::Create(layout);
    if (!rules.ok()) std::abort();
    slots_ = (*rules)->Find(*variable)->slots().size();
    Tablet::Options options;
    options.shard.disk = disk;
    auto tablet = Tablet::Create(layout, *std::move(rules), pool_.get(), options);
    tablet_ = *std::move(tablet);
    if (!tablet_->Initialize(layout).ok()) std::abort();
    DrawKeys(table);
    if (table) MakeRows();
  }

  // Chooses the keys of all pushes.
  void DrawKeys(bool table) {
    for (std::vector<int64_t>& keys : keys_) {
      keys.clear();
      for (size_t i = 0; i < kKeys; ++i) {
        const auto key = static_cast<int64_t>(random_() % rows_);
        keys.push_back(table ? RowOfKey(key) : key);
      }
      std::sort(keys.begin(), keys.end());
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    }
  }

  size_t record_bytes() const { return row_bytes_ * (1 + slots_); }

  // Million rows per second.
  double Push() {
    return Rate([this](const std::vector<int64_t>& keys) { PushRows(keys); });
  }
  double Pull() {
    PullEntryView entry;
    entry.rows = true;
    PullSectionView section;
    section.entries = {&entry, 1};
    return Rate([&](const std::vector<int64_t>& keys) {
      entry.count = keys.size();
      entry.keys = BytesOf(keys);
      v1::PullResult result;
      std::vector<PayloadSlice> payload;
      tablet_->Pull(0, 0, section, &result, &payload);
      if (result.status() != v1::APPLIED) std::abort();
    });
  }
  // Adds the gradient to each float of a row and its slots, in one array.
  double Limit() {
    constexpr size_t kAhead = 16;
    if (!array_) array_ = pool_->Allocate(rows_ * record_bytes());
    const size_t floats = record_bytes() / sizeof(float);
    auto* const all = reinterpret_cast<float*>(array_->data());
    const auto row_at = [&](int64_t key) {
      return all + static_cast<size_t>(key) % rows_ * floats;
    };
    return Rate([&](const std::vector<int64_t>& keys) {
      for (size_t i = 0; i < keys.size(); ++i) {
        if (i + kAhead < keys.size()) {
          const float* const next = row_at(keys[i + kAhead]);
          for (size_t at = 0; at < floats; at += 16) __builtin_prefetch(next + at, 1);
        }
        float* const row = row_at(keys[i]);
        for (size_t at = 0; at < floats; ++at) row[at] += 0.5f;
      }
    });
  }

 private:
  void PushRows(const std::vector<int64_t>& keys) {
    PushEntryView entry;
    entry.kind = PushKind::kGradient;
    entry.sparse = true;
    entry.count = keys.size();
    entry.keys = BytesOf(keys);
    entry.values = {reinterpret_cast<const uint8_t*>(gradient_.data()), keys.size() * row_bytes_};
    PushSectionView section;
    section.entries = {&entry, 1};
    PushHeaderView header;
    header.weight = 32;
    header.id = {++closure_, 0};
    header.place = closure_;
    v1::PushResult result;
    tablet_->Push(0, closure_, header, section, &result);
    if (result.status() != v1::APPLIED) std::abort();
  }
  void MakeRows() {
    for (size_t begin = 0; begin < rows_; begin += kKeys) {
      std::vector<int64_t> keys;
      for (size_t key = begin; key < std::min(rows_, begin + kKeys); ++key) {
        keys.push_back(RowOfKey(static_cast<int64_t>(key)));
      }
      std::sort(keys.begin(), keys.end());
      PushRows(keys);
    }
  }
  static std::span<const uint8_t> BytesOf(const std::vector<int64_t>& keys) {
    return {reinterpret_cast<const uint8_t*>(keys.data()), keys.size() * sizeof(int64_t)};
  }
  template <typename Work>
  double Rate(const Work& work) {
    size_t rows = 0;
    const Clock::time_point begin = Clock::now();
    for (const std::vector<int64_t>& keys : keys_) {
      work(keys);
      rows += keys.size();
    }
    return 1e-6 * static_cast<double>(rows) /
           std::chrono::duration<double>(Clock::now() - begin).count();
  }

  BufferPool::Handle pool_;
  const size_t row_bytes_;
  const size_t rows_;
  const std::vector<float> gradient_;
  std::mt19937_64 random_{7};
  size_t slots_ = 0;
  std::unique_ptr<Tablet> tablet_;
  std::array<std::vector<int64_t>, kPushes> keys_;
  BufferRef array_;
  uint64_t closure_ = 0;
};

void MeasureRows(const std::string& optimizer, int64_t width, size_t bytes, bool table,
                 int rounds) {
  Rows rows(optimizer, width, bytes, table, nullptr);
  std::vector<double> rates[3];
  for (int round = 0; round <= rounds; ++round) {
    const double rate[] = {rows.Push(), rows.Pull(), rows.Limit()};
    for (int i = 0; i < 3 && round > 0; ++i) rates[i].push_back(rate[i]);
  }
  fmt::print(
      "{:<17} {:>3} floats, {:<11}  {:>6.1f} million rows/s, {:>6.1f} pulled; array {:>6.1f}\n",
      optimizer, width, table ? "table" : "dense range", Median(rates[0]), Median(rates[1]),
      Median(rates[2]));
}

// Millions of rows per second, pushed and pulled: random ones, others in each round.
std::pair<double, double> RatesOfFresh(Rows* rows, int rounds) {
  std::vector<double> rates[2];
  for (int round = 0; round <= rounds; ++round) {
    rows->DrawKeys(true);
    const double push = rows->Push();
    rows->DrawKeys(true);
    const double pull = rows->Pull();
    if (round == 0) continue;
    rates[0].push_back(push);
    rates[1].push_back(pull);
  }
  return {Median(rates[0]), Median(rates[1])};
}

void MeasureDisk(const std::string& optimizer, int64_t width, size_t bytes, size_t memory,
                 int rounds) {
  MetricsRegistry registry;
  Counter* const in_memory = registry.AddCounter("memory", "");
  Counter* const on_disk = registry.AddCounter("disk", "");
  auto disk = RowDisk::Create({.parent = "",
                               .memory_bytes = memory,
                               .server = "apply_bench",
                               .found_in_memory = in_memory,
                               .found_on_disk = on_disk});
  if (!disk.ok()) {
    fmt::print(stderr, "{}\n", disk.status().ToString());
    std::exit(1);
  }
  Rows limited(optimizer, width, bytes, true, disk->get());
  const uint64_t made[] = {in_memory->value(), on_disk->value()};
  const auto [push, pull] = RatesOfFresh(&limited, rounds);
  const auto hits = static_cast<double>(in_memory->value() - made[0]);
  const auto misses = static_cast<double>(on_disk->value() - made[1]);
  Rows all(optimizer, width, bytes, true, nullptr);
  const auto [push_all, pull_all] = RatesOfFresh(&all, rounds);
  fmt::print(
      "{:<17} {:>3} floats  {:>7.3f} million rows/s, {:>7.3f} pulled; {} rows in memory, {} on "
      "disk, {:.0f} % found in memory; without a limit {:.3f}, {:.3f} pulled\n",
      optimizer, width, push, pull, (*disk)->rows_in_memory()->load(), (*disk)->rows(),
      100 * hits / (hits + misses), push_all, pull_all);
}

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) {
  int helpers = 1;
  int rounds = 9;
  CLI::App app("Apply benchmark");
  app.add_option("--helpers", helpers)->check(CLI::Range(0, 64));
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  bool rows = false;
  std::string only;
  size_t megabytes = 512;
  app.add_flag("--rows", rows);
  app.add_option("--optimizer", only, "This one only");
  size_t table_memory = 0;
  app.add_option("--table_memory", table_memory, "Megabytes of a table in memory");
  app.add_option("--megabytes", megabytes, "Values of the embedding")->check(CLI::Range(1, 65536));
  CLI11_PARSE(app, argc, argv);
  cohort::ThreadPool pool(helpers + 1);
  for (const cohort::ClassSchema* optimizer : cohort::OptimizerSchemas().Schemas()) {
    if (!only.empty() && optimizer->name != only) continue;
    if (rows || table_memory > 0) {
      if ((*cohort::Optimizers().Find(optimizer->name))->is_whole) continue;
      for (const int64_t width : {8, 16, 32, 64, 128}) {
        if (table_memory > 0) {
          cohort::bench::MeasureDisk(optimizer->name, width, megabytes << 20, table_memory << 20,
                                     rounds);
          continue;
        }
        for (const bool table : {false, true}) {
          cohort::bench::MeasureRows(optimizer->name, width, megabytes << 20, table, rounds);
        }
      }
      continue;
    }
    for (const size_t bytes : {size_t{4} << 20, size_t{64} << 20}) {
      cohort::bench::Measure(optimizer->name, bytes, &pool, rounds);
    }
  }
  return 0;
}
