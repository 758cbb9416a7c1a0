// unique: ids[...] int64 -> keys (ascending, each once), inverse (ids[i] == keys[inverse[i]]). Ids
// that are `padding` have no key, and the inverse -1.
// Keys ascend so that those of one shard, a range of rows, lie together: pulls and pushes of a
// shard are slices of one array.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

struct Item {
  uint64_t id;  // less the smallest
  int64_t position;
};

class UniqueKernel : public Kernel {
 public:
  UniqueKernel(int64_t capacity, const int64_t* padding)
      : capacity_(capacity),
        table_size_(4 * static_cast<uint64_t>(capacity) + 1024),
        has_padding_(padding != nullptr),
        padding_(has_padding_ ? *padding : 0) {}

  absl::Status Run(const KernelContext& c) const override {
    const int64_t* ids = c.in(0).as<int64_t>();
    const int64_t n = c.in(0).elements;
    int64_t* keys = c.out(0).as<int64_t>();
    int64_t* inverse = c.out(1).as<int64_t>();
    if (!has_padding_) {
      *c.count = UniqueOf(ids, n, c.scratch, keys, inverse);
      return absl::OkStatus();
    }
    int64_t* const kept = reinterpret_cast<int64_t*>(c.scratch + AlgorithmBytes());
    int64_t m =
        std::copy_if(ids, ids + n, kept, [this](int64_t id) { return id != padding_; }) - kept;
    *c.count = UniqueOf(kept, m, c.scratch, keys, inverse);
    // From the end, so that no place is written before it is read.
    for (int64_t i = n; i-- > 0;) inverse[i] = ids[i] == padding_ ? -1 : inverse[--m];
    return absl::OkStatus();
  }

  size_t scratch_bytes() const override {
    return AlgorithmBytes() + (has_padding_ ? static_cast<size_t>(capacity_) * sizeof(int64_t) : 0);
  }

 private:
  size_t AlgorithmBytes() const {
    const size_t bytes = std::max(2 * static_cast<size_t>(capacity_) * sizeof(Item),
                                  static_cast<size_t>(table_size_) * sizeof(int32_t));
    return (bytes + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
  }

  // Returns the number of keys.
  int64_t UniqueOf(const int64_t* ids, int64_t n, uint8_t* scratch, int64_t* keys,
                   int64_t* inverse) const {
    if (n == 0) return 0;
    const auto [min, max] = std::minmax_element(ids, ids + n);
    // The difference of any two int64 fits uint64.
    const uint64_t range = static_cast<uint64_t>(*max) - static_cast<uint64_t>(*min);
    if (range < table_size_) {
      return ByTable(ids, n, *min, range, reinterpret_cast<int32_t*>(scratch), keys, inverse);
    }
    return ByRadixSort(ids, n, *min, range, reinterpret_cast<Item*>(scratch), keys, inverse);
  }

  // Ids that lie close together: one table entry per possible id.
  static int64_t ByTable(const int64_t* ids, int64_t n, int64_t min, uint64_t range, int32_t* table,
                         int64_t* keys, int64_t* inverse) {
    const auto cell = [min](int64_t id) {
      return static_cast<uint64_t>(id) - static_cast<uint64_t>(min);
    };
    std::memset(table, 0, (range + 1) * sizeof(int32_t));
    for (int64_t i = 0; i < n; ++i) table[cell(ids[i])] = 1;
    int32_t count = 0;
    for (uint64_t s = 0; s <= range; ++s) {
      if (table[s] == 0) continue;
      keys[count] = static_cast<int64_t>(static_cast<uint64_t>(min) + s);
      table[s] = count++;
    }
    for (int64_t i = 0; i < n; ++i) inverse[i] = table[cell(ids[i])];
    return count;
  }

  // Ids far apart: sorted digit by digit, stably, from the lowest.
  static int64_t ByRadixSort(const int64_t* ids, int64_t n, int64_t min, uint64_t range,
                             Item* items, int64_t* keys, int64_t* inverse) {
    Item* other = items + n;
    for (int64_t i = 0; i < n; ++i) {
      items[i] = {static_cast<uint64_t>(ids[i]) - static_cast<uint64_t>(min), i};
    }
    const int bits = std::bit_width(range);
    for (int shift = 0; shift < bits; shift += kDigitBits, std::swap(items, other)) {
      std::array<uint32_t, kDigits> begin{};
      const auto digit = [shift](const Item& item) { return (item.id >> shift) % kDigits; };
      for (int64_t i = 0; i < n; ++i) ++begin[digit(items[i])];
      uint32_t sum = 0;
      for (uint32_t& b : begin) sum += std::exchange(b, sum);
      for (int64_t i = 0; i < n; ++i) other[begin[digit(items[i])]++] = items[i];
    }
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (i == 0 || items[i].id != items[i - 1].id) {
        keys[count++] = static_cast<int64_t>(static_cast<uint64_t>(min) + items[i].id);
      }
      inverse[items[i].position] = count - 1;
    }
    return count;
  }

  const int64_t capacity_;
  const uint64_t table_size_;
  const bool has_padding_;
  const int64_t padding_;
};

}  // namespace

KernelOr CreateUniqueCpu(const Node& node, const Program& program) {
  const auto found = node.attrs.find("padding");
  return std::make_unique<UniqueKernel>(
      CapacityElements(program.type(node.inputs[0])),
      found == node.attrs.end() ? nullptr : std::get_if<int64_t>(&found->second));
}

}  // namespace cohort
