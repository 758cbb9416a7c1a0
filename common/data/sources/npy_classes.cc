// One array for each class, as the bitmaps of Quick, Draw!
#include <algorithm>
#include <numeric>

#include "common/base/status.h"
#include "common/data/arrays/array_source.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

// Which row of which array a record is. The first rows of all arrays come first, then the second
// ones, so that `skip` and `take` keep the shares of the classes.
class ClassOrder {
 public:
  // `rows` of each array.
  explicit ClassOrder(const std::vector<uint64_t>& rows) : longest_first_(rows.size()) {
    std::iota(longest_first_.begin(), longest_first_.end(), size_t{0});
    std::stable_sort(longest_first_.begin(), longest_first_.end(),
                     [&](size_t a, size_t b) { return rows[a] > rows[b]; });
    uint64_t row = 0;
    for (size_t arrays = rows.size(); arrays > 0; --arrays) {
      const uint64_t end = rows[longest_first_[arrays - 1]];
      if (end > row) {
        Span& span = spans_.emplace_back();
        span.first_record = records_;
        span.first_row = row;
        span.arrays.assign(longest_first_.begin(),
                           longest_first_.begin() + static_cast<ptrdiff_t>(arrays));
        std::sort(span.arrays.begin(), span.arrays.end());
        records_ += (end - row) * arrays;
        row = end;
      }
    }
  }

  uint64_t records() const { return records_; }
  struct Place {
    size_t array = 0;
    uint64_t row = 0;
  };
  Place Of(uint64_t record) const {
    const auto after =
        std::upper_bound(spans_.begin(), spans_.end(), record,
                         [](uint64_t r, const Span& span) { return r < span.first_record; });
    const Span& span = *std::prev(after);
    const uint64_t at = record - span.first_record;
    return {span.arrays[at % span.arrays.size()], span.first_row + at / span.arrays.size()};
  }

 private:
  // Rows that the same arrays have.
  struct Span {
    uint64_t first_record = 0;
    uint64_t first_row = 0;
    std::vector<size_t> arrays;
  };
  std::vector<size_t> longest_first_;
  std::vector<Span> spans_;
  uint64_t records_ = 0;
};

class NpyClasses : public RecordSource {
 public:
  NpyClasses(std::vector<NpyArray> arrays, const std::vector<uint64_t>& rows,
             std::string fingerprint)
      : arrays_(std::move(arrays)),
        order_(rows),
        columns_({{"image", arrays_[0].dtype(), arrays_[0].dims()}, {"label", DType::kInt64, {}}}),
        fingerprint_(std::move(fingerprint)) {}

  uint64_t num_records() const override { return order_.records(); }
  const std::vector<FeatureType>& columns() const override { return columns_; }
  std::string fingerprint() const override { return fingerprint_; }
  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    const ClassOrder::Place place = order_.Of(context.record);
    const auto label = static_cast<int64_t>(place.array);
    if (!values[1].empty()) std::memcpy(values[1].data(), &label, sizeof(label));
    return values[0].empty() ? absl::OkStatus()
                             : arrays_[place.array].ReadRow(place.row, values[0]);
  }

 private:
  const std::vector<NpyArray> arrays_;
  const ClassOrder order_;
  const std::vector<FeatureType> columns_;
  const std::string fingerprint_;
};

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenNpyClasses(const Config& config,
                                                                   const SourceContext& context) {
  std::vector<NpyArray> arrays;
  std::vector<uint64_t> rows;
  std::string fingerprint;
  for (const std::string& path : config.Strings("files")) {
    COHORT_ASSIGN_OR_RETURN(NpyArray array, OpenNpyFile({path, config.String("url"), ""},
                                                        context.options, &fingerprint));
    if (!arrays.empty() &&
        (array.dtype() != arrays[0].dtype() || array.dims() != arrays[0].dims())) {
      return InvalidArgument("{} has rows {} {}, {} has {} {}: all classes need the same",
                             arrays[0].name(), DTypeName(arrays[0].dtype()),
                             DimsToString(arrays[0].dims()), array.name(), DTypeName(array.dtype()),
                             DimsToString(array.dims()));
    }
    rows.push_back(array.rows());
    if (!config.IsNone("max_per_class")) {
      rows.back() = std::min(rows.back(), static_cast<uint64_t>(config.Int("max_per_class")));
    }
    arrays.push_back(std::move(array));
  }
  if (arrays.empty()) return InvalidArgument("`files` names no file");
  auto source = std::make_shared<NpyClasses>(std::move(arrays), rows, std::move(fingerprint));
  if (source->num_records() == 0) return InvalidArgument("the files of all classes have no rows");
  return source;
}

}  // namespace

SourceClass NpyClassesSource() {
  return {
      .schema =
          {.name = "npy_classes",
           .doc = "An array of `numpy.save` for each class: columns `image`, a row (axis 0), and "
                  "`label`, the number of the file. The records are the first row of each file, "
                  "then the second of each, and so on. Rows are read when they are used.",
           .arguments = {Strings("files",
                                 "Files below `COHORT_DATA_DIR`, or absolute, in the order of "
                                 "their labels."),
                         Int("max_per_class", "The rows to use of each file; none: all.")
                             .Optional()
                             .AtLeast(1),
                         String("url", "Shown in the error if a file is missing.").Optional()}},
      .no_record_arguments = {"url"},
      .open = OpenNpyClasses};
}

}  // namespace cohort
