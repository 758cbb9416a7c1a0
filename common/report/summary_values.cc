#include "common/report/summary_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "common/report/wire_text.h"

namespace cohort {
namespace {

constexpr int kFloat = 1, kDouble = 2;  // tensorflow.DataType
constexpr int kTensorClass = 2;         // tensorflow.DATA_CLASS_TENSOR
constexpr int kSuccess = 1;             // tensorboard.hparams.Status

std::string Message(int field, const std::string& message) {
  return Encode([&](CodedOutputStream* out) { WireFormatLite::WriteBytes(field, message, out); });
}

// TensorShapeProto.
std::string Shape(const std::vector<int64_t>& dims) {
  std::string shape;
  for (const int64_t size : dims) {
    shape += Message(
        2, Encode([&](CodedOutputStream* out) { WireFormatLite::WriteInt64(1, size, out); }));
  }
  return shape;
}

// TensorProto.
std::string TensorOf(int dtype, const std::vector<int64_t>& dims, const std::string& content) {
  return Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteEnum(1, dtype, out);
    WireFormatLite::WriteBytes(2, Shape(dims), out);
    WireFormatLite::WriteBytes(4, content, out);
  });
}

// Summary.Value of a plugin.
std::string ValueOf(const std::string& tag, const std::string& plugin, const std::string& content,
                    const std::string& tensor) {
  const std::string data = Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteString(1, plugin, out);
    if (!content.empty()) WireFormatLite::WriteBytes(2, content, out);
  });
  const std::string metadata = Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteBytes(1, data, out);
    WireFormatLite::WriteEnum(4, kTensorClass, out);
  });
  return Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteString(1, tag, out);
    WireFormatLite::WriteBytes(8, tensor, out);
    WireFormatLite::WriteBytes(9, metadata, out);
  });
}

// The plugin hparams reads its message from the metadata, and a tensor has to be there.
std::string HparamsValue(const std::string& tag, int field, const std::string& message) {
  return ValueOf(tag, "hparams", Message(field, message),
                 TensorOf(kFloat, {1}, std::string(sizeof(float), '\0')));
}

// google.protobuf.Value.
std::string NumberOrText(const Hparam& value) {
  return Encode([&](CodedOutputStream* out) {
    if (const auto* const number = std::get_if<double>(&value)) {
      WireFormatLite::WriteDouble(2, *number, out);
    } else if (const auto* const flag = std::get_if<bool>(&value)) {
      WireFormatLite::WriteBool(4, *flag, out);
    } else {
      WireFormatLite::WriteString(3, std::get<std::string>(value), out);
    }
  });
}

// An entry of map<string, ...>.
std::string Entry(const std::string& key, const std::string& value) {
  return Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteString(1, key, out);
    WireFormatLite::WriteBytes(2, value, out);
  });
}

// NodeDef.
std::string NodeOf(const GraphNode& node) {
  std::vector<int64_t> dims = {-1};
  dims.insert(dims.end(), node.dims.begin(), node.dims.end());
  const std::string shapes = Message(1, Message(7, Shape(dims)));  // AttrValue.list.shape
  const std::string params =
      Encode([&](CodedOutputStream* out) { WireFormatLite::WriteInt64(3, node.params, out); });
  return Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteString(1, node.name, out);
    WireFormatLite::WriteString(2, node.op, out);
    for (const std::string& input : node.inputs) WireFormatLite::WriteString(3, input, out);
    if (!node.device.empty()) WireFormatLite::WriteString(4, node.device, out);
    WireFormatLite::WriteBytes(5, Entry("_output_shapes", shapes), out);
    if (node.params > 0) WireFormatLite::WriteBytes(5, Entry("params", params), out);
  });
}

}  // namespace

void Histogram::AddRange(double value) {
  if (!std::isfinite(value)) return;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::Add(double value) {
  if (!std::isfinite(value)) return;
  const double width = (max_ - min_) / static_cast<double>(kBuckets);
  const double bucket = width > 0 ? (value - min_) / width : static_cast<double>(kBuckets);
  ++counts_[std::min(static_cast<size_t>(std::max(bucket, 0.0)), kBuckets - 1)];
}

std::string HistogramValue(const std::string& tag, const Histogram& histogram) {
  std::string content;
  std::vector<int64_t> dims = {0, 3};
  if (histogram.min() <= histogram.max()) {
    constexpr auto kCount = static_cast<double>(Histogram::kBuckets);
    const double range = histogram.max() - histogram.min();
    for (size_t i = 0; i < Histogram::kBuckets; ++i) {
      const double rows[] = {histogram.min() + range * static_cast<double>(i) / kCount,
                             i + 1 == Histogram::kBuckets
                                 ? histogram.max()
                                 : histogram.min() + range * static_cast<double>(i + 1) / kCount,
                             histogram.counts()[i]};
      content.append(reinterpret_cast<const char*>(rows), sizeof(rows));
    }
    dims[0] = static_cast<int64_t>(Histogram::kBuckets);
  }
  return ValueOf(tag, "histograms", "", TensorOf(kDouble, dims, content));
}

std::string GraphDefOf(const std::vector<GraphNode>& nodes) {
  std::string graph;
  for (const GraphNode& node : nodes) graph += Message(1, NodeOf(node));
  // VersionDef: TensorBoard refuses a graph without a producer.
  graph +=
      Message(4, Encode([](CodedOutputStream* out) { WireFormatLite::WriteInt32(1, 22, out); }));
  return graph;
}

std::string HparamsBegin(const std::map<std::string, Hparam>& hparams, double unix_seconds) {
  const std::string begin = Encode([&](CodedOutputStream* out) {
    for (const auto& [name, value] : hparams) {
      WireFormatLite::WriteBytes(1, Entry(name, NumberOrText(value)), out);
    }
    WireFormatLite::WriteDouble(5, unix_seconds, out);
  });
  return HparamsValue("_hparams_/session_start_info", 3, begin);
}

std::string HparamsEnd(double unix_seconds) {
  const std::string end = Encode([&](CodedOutputStream* out) {
    WireFormatLite::WriteEnum(1, kSuccess, out);
    WireFormatLite::WriteDouble(2, unix_seconds, out);
  });
  return HparamsValue("_hparams_/session_end_info", 4, end);
}

}  // namespace cohort
