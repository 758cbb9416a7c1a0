#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_SERVER_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_SERVER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/exchange/exchange_message.h"
#include "proto/worker.pb.h"

namespace cohort::exchange_test {

// A PushPull message that owns its bytes.
struct Request {
  v1::PushPullHeader header;
  std::vector<std::string> payload;
};
struct Response {
  v1::PushPullResponseHeader header;
  std::vector<std::string> payload;
};

inline Request Copy(const ExchangeMessage& message) {
  Request copy{message.header, {}};
  for (const Bytes& bytes : message.payload) {
    copy.payload.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return copy;
}

// A tablet of float shards to which pushes add. Like a real one, it applies every id once.
struct ModelTablet {
  uint64_t term = 1;
  uint64_t timeline = 1;
  uint64_t version = 0;
  std::map<uint32_t, std::vector<float>> shards;
  std::map<uint32_t, size_t> row_elements;                    // by shard
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> applied;  // id -> attempt
  std::vector<std::tuple<uint64_t, uint32_t, uint32_t>> log;  // (closure, ordinal, attempt)
};

// The simplest model of what a parameter server does with a request.
class ModelServer {
 public:
  std::map<uint32_t, ModelTablet*> tablets;
  uint64_t generation = 1;
  size_t chunk_elements = 1 << 20;  // larger pulled entries are cut
  bool later = false;               // answers pulls in a separate message
  int duplicates = 0;

  // All messages of one request, in order.
  std::vector<Response> Handle(const std::vector<Request>& request) {
    std::vector<Response> responses(1);
    responses[0].header.set_sequence(request[0].header.sequence());
    responses[0].header.set_generation(generation);
    bool fenced = false;
    for (const Request& message : request) {
      fenced =
          fenced || (message.header.generation() != 0 && message.header.generation() < generation);
    }
    Push(request, fenced, &responses[0]);
    const Request& last = request.back();
    size_t field = 0;
    for (const auto& section : last.header.push().sections()) {
      for (const auto& entry : section.entries()) {
        if (entry.kind() != v1::RECORD_ONLY) field += entry.sparse() ? 2 : 1;
      }
    }
    if (later && last.header.pull().sections_size() > 0) {
      for (const auto& section : last.header.pull().sections()) {
        auto* result = responses[0].header.add_pulls();
        result->set_tablet(section.tablet());
        result->set_status(v1::LATER);
      }
      responses.emplace_back().header.CopyFrom(responses[0].header);
      responses[1].header.clear_pulls();
      responses[1].header.clear_pushes();
    }
    for (const auto& section : last.header.pull().sections()) {
      Pull(section, last, &field, fenced, &responses);
    }
    for (size_t i = 0; i + 1 < responses.size(); ++i) responses[i].header.set_more(true);
    return responses;
  }

 private:
  template <typename Result>
  ModelTablet* Check(uint32_t number, uint64_t term, bool fenced, Result* result) {
    result->set_tablet(number);
    const auto it = tablets.find(number);
    if (it == tablets.end()) {
      result->set_status(v1::MOVED);
      return nullptr;
    }
    result->set_term(it->second->term);
    result->set_timeline(it->second->timeline);
    if (fenced || term != it->second->term) {
      result->set_status(v1::FENCED);
      return nullptr;
    }
    result->set_status(v1::APPLIED);
    return it->second;
  }

  void Push(const std::vector<Request>& request, bool fenced, Response* response) {
    std::map<uint32_t, v1::PushResult> results;
    std::set<uint32_t> apply;
    for (const Request& message : request) {
      const auto& push = message.header.push();
      size_t field = 0;
      for (const auto& section : push.sections()) {
        const std::pair<uint64_t, uint32_t> id(push.id().closure(), push.id().ordinal());
        if (results.count(section.tablet()) == 0) {
          v1::PushResult& result = results[section.tablet()];
          ModelTablet* tablet = Check(section.tablet(), section.term(), fenced, &result);
          if (tablet != nullptr && push.timeline() < tablet->timeline) {
            result.set_status(v1::FENCED);
          } else if (tablet != nullptr && tablet->applied.count(id) != 0) {
            result.set_status(v1::DUPLICATE);
            result.set_applied_attempt(tablet->applied[id]);
            ++duplicates;
          } else if (tablet != nullptr) {
            apply.insert(section.tablet());
            tablet->applied[id] = push.attempt();
            tablet->log.emplace_back(id.first, id.second, push.attempt());
            result.set_staleness(tablet->version - section.pulled_version());
            result.set_version(++tablet->version);
          }
        }
        for (const auto& entry : section.entries()) {
          if (entry.kind() == v1::RECORD_ONLY) continue;
          const std::string* keys = entry.sparse() ? &message.payload[field++] : nullptr;
          const std::string& values = message.payload[field++];
          if (apply.count(section.tablet()) != 0) {
            Add(tablets[section.tablet()], entry, keys, values);
          }
        }
      }
    }
    for (auto& [tablet, result] : results) response->header.add_pushes()->Swap(&result);
  }

  static void Add(ModelTablet* tablet, const v1::PushEntry& entry, const std::string* keys,
                  const std::string& values) {
    std::vector<float>& shard = tablet->shards.at(entry.shard());
    const auto* v = reinterpret_cast<const float*>(values.data());
    if (keys == nullptr) {
      for (size_t i = 0; i < entry.count(); ++i) shard.at(entry.begin() + i) += v[i];
      return;
    }
    const size_t width = tablet->row_elements.at(entry.shard());
    for (size_t i = 0; i < entry.count(); ++i) {
      int64_t row;
      std::memcpy(&row, keys->data() + 8 * i, 8);
      for (size_t j = 0; j < width; ++j) {
        shard.at(static_cast<size_t>(row) * width + j) += v[i * width + j];
      }
    }
  }

  void Pull(const v1::PullSection& section, const Request& message, size_t* field, bool fenced,
            std::vector<Response>* responses) {
    auto* result = responses->back().header.add_pulls();
    ModelTablet* tablet = Check(section.tablet(), section.term(), fenced, result);
    if (tablet != nullptr) result->set_version(tablet->version);
    for (const auto& entry : section.entries()) {
      const std::string* keys = entry.rows() ? &message.payload[(*field)++] : nullptr;
      if (tablet == nullptr) continue;
      const std::vector<float>& shard = tablet->shards.at(entry.shard());
      const size_t width = entry.rows() ? tablet->row_elements.at(entry.shard()) : 1;
      std::vector<float> values;
      for (size_t i = 0; entry.rows() && i < entry.count(); ++i) {
        int64_t row;
        std::memcpy(&row, keys->data() + 8 * i, 8);
        const float* from = &shard.at(static_cast<size_t>(row) * width);
        values.insert(values.end(), from, from + width);
      }
      if (!entry.rows()) values = shard;
      const size_t units = values.size() / width;
      for (size_t begin = 0; begin < units; begin += chunk_elements) {
        if (begin > 0) {  // the rest of this tablet goes into a separate message
          v1::PushPullResponseHeader header;
          header.set_sequence(message.header.sequence());
          header.set_generation(generation);
          v1::PullResult again = *result;
          again.clear_entries();
          responses->emplace_back().header = header;
          result = responses->back().header.add_pulls();
          *result = again;
        }
        const size_t n = std::min(chunk_elements, units - begin);
        auto* pulled = result->add_entries();
        pulled->set_shard(entry.shard());
        pulled->set_begin(begin);
        pulled->set_count(n);
        responses->back().payload.emplace_back(
            reinterpret_cast<const char*>(values.data() + begin * width), n * width * 4);
      }
    }
  }
};

}  // namespace cohort::exchange_test

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_TEST_SERVER_H_
