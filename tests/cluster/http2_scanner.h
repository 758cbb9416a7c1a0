#ifndef COHORT_TESTS_CLUSTER_HTTP2_SCANNER_H_
#define COHORT_TESTS_CLUSTER_HTTP2_SCANNER_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string_view>

namespace cohort {

// Finds the starts of the data frames in one direction of an HTTP/2 connection (RFC 9113: a
// client's preface of 24 bytes, then frames with a head of 9: length in 3 bytes, type, flags,
// stream). Empty ones do not count: they only end a stream.
class Http2Scanner {
 public:
  explicit Http2Scanner(bool from_client) : skip_(from_client ? kPreface : 0) {}

  // The next bytes. Appends to `starts` the offsets of data frames from the beginning of the
  // connection.
  void Scan(std::string_view bytes, std::deque<uint64_t>* starts) {
    while (!bytes.empty()) {
      if (skip_ > 0) {
        const uint64_t n = std::min<uint64_t>(skip_, bytes.size());
        skip_ -= n;
        offset_ += n;
        bytes.remove_prefix(n);
        continue;
      }
      head_[head_size_++] = static_cast<uint8_t>(bytes.front());
      ++offset_;
      bytes.remove_prefix(1);
      if (head_size_ < kHead) continue;
      head_size_ = 0;
      skip_ = uint64_t{head_[0]} << 16 | uint64_t{head_[1]} << 8 | head_[2];
      if (head_[3] == kDataFrame && skip_ > 0) starts->push_back(offset_ - kHead);
    }
  }

 private:
  static constexpr uint64_t kPreface = 24;
  static constexpr size_t kHead = 9;
  static constexpr uint8_t kDataFrame = 0;

  uint64_t skip_;
  uint64_t offset_ = 0;
  uint8_t head_[kHead] = {};
  size_t head_size_ = 0;
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_HTTP2_SCANNER_H_
