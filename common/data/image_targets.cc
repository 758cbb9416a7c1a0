#include "common/data/image_targets.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/data/transform.h"
#include "common/data/transform_class.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// The transforms, by number, that have changed a column of images and what belongs to it.
using Changes = std::map<std::string, std::set<int>>;

const TransformClass* TransformClassOf(const v1::ColumnTransform& transform) {
  const auto found = Transforms().Find(transform.transform_class().class_name());
  return found.ok() ? *found : nullptr;
}

Changes ChangesOf(const v1::DatasetSpec& spec) {
  Changes changes;
  for (int i = 0; i < spec.transforms_size(); ++i) {
    const v1::ColumnTransform& transform = spec.transforms(i);
    std::set<int> of_output = changes[transform.column()];
    for (const std::string& column : transform.columns()) {
      of_output.insert(changes[column].begin(), changes[column].end());
    }
    const TransformClass* const its_class = TransformClassOf(transform);
    if (its_class != nullptr && its_class->changes_targets()) {
      of_output.insert(i);
      for (const std::string& name : {transform.segmentation_masks(), transform.labels()}) {
        if (!name.empty()) changes[name].insert(i);
      }
    }
    changes[OutputOf(transform)] = std::move(of_output);
  }
  return changes;
}

const Column* FindIn(const Table& table, const std::string& name) {
  const auto found =
      std::ranges::find_if(table.columns, [&](const Column& c) { return c.name == name; });
  return found == table.columns.end() ? nullptr : &*found;
}

// The column that a user names: a layer inside a model reads one that was made for it.
std::string ImagesOf(const v1::DatasetSpec& spec, const v1::ColumnTransform& transform) {
  for (const v1::ColumnTransform& before : spec.transforms()) {
    if (before.output() == transform.column() && before.output().ends_with("/input")) {
      return before.column();
    }
  }
  return transform.column();
}

bool HaveSameSize(const Column& images, const Column& masks) {
  return images.dims.size() >= 2 && masks.dims.size() >= 2 && images.dims[0] == masks.dims[0] &&
         images.dims[1] == masks.dims[1];
}

}  // namespace

absl::Status CheckImageTargets(const v1::DatasetSpec& spec, const Table& table) {
  Changes changes = ChangesOf(spec);
  const std::vector<std::string> labels = LabelsOf(spec);
  for (const auto& [name, of_images] : changes) {
    const Column* const images = FindIn(table, name);
    if (images == nullptr || std::ranges::count(labels, name) > 0) continue;
    for (const std::string& label : labels) {
      const Column* const target = FindIn(table, label);
      if (target == nullptr) continue;
      for (const int i : of_images) {
        if (changes[label].contains(i)) continue;
        const v1::ColumnTransform& transform = spec.transforms(i);
        const TransformClass& its_class = *TransformClassOf(transform);
        const bool is_mask = HaveSameSize(*images, *target);
        if (!is_mask && !its_class.open_labels) continue;
        const char* const key = is_mask ? "segmentation_masks" : "labels";
        return InvalidArgument(
            "transform of \"{}\": {} {} the images, and the label \"{}\" would stay as it is: "
            "write "
            "`{{column: {}, {}: {}, {}: ...}}` among the transforms of the data",
            OutputOf(transform), its_class.schema.name, its_class.open_labels ? "mixes" : "moves",
            label, ImagesOf(spec, transform), key, label, its_class.schema.name);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace cohort
