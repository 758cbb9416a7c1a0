// GB of dense gradient per second that a tablet applies, by one thread and with helpers, beside
// what the machine's memory allows: a copy of as many bytes. Interleaved, medians of short runs.
//   apply_bench                      all optimizers; 4 and 64 MB; 0 helpers and 1
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/optimizers/optimizers.h"
#include "common/tablet/tablet.h"
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

}  // namespace
}  // namespace cohort::bench

int main(int argc, char** argv) {
  int helpers = 1;
  int rounds = 9;
  CLI::App app("Apply benchmark");
  app.add_option("--helpers", helpers)->check(CLI::Range(0, 64));
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  cohort::ThreadPool pool(helpers + 1);
  for (const cohort::ClassSchema* optimizer : cohort::OptimizerSchemas().Schemas()) {
    for (const size_t bytes : {size_t{4} << 20, size_t{64} << 20}) {
      cohort::bench::Measure(optimizer->name, bytes, &pool, rounds);
    }
  }
  return 0;
}
