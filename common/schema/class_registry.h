#ifndef COHORT_COMMON_SCHEMA_CLASS_REGISTRY_H_
#define COHORT_COMMON_SCHEMA_CLASS_REGISTRY_H_

#include <absl/status/statusor.h>

#include <cassert>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/schema/class_schema.h"

namespace cohort {

// The classes of one kind ("layer", "optimizer") by name, without what makes them. Thread-safe.
class SchemaSet {
 public:
  // How a name may be written. kKeras: also in snake case or lower case, as Keras' strings
  // ("glorot_uniform", "adam"). kAnyCase: ignoring case, as Keras reads optimizers.
  enum class Spelling { kExact, kKeras, kAnyCase };

  // `planned`: the names that Keras has and this version does not, separated by spaces. `refused`:
  // names that no version has, and what to use instead.
  SchemaSet(std::string kind, Spelling spelling, std::string planned,
            std::map<std::string, std::string> refused = {})
      : kind_(std::move(kind)),
        spelling_(spelling),
        planned_(std::move(planned)),
        refused_(std::move(refused)) {}
  SchemaSet(const SchemaSet&) = delete;
  SchemaSet& operator=(const SchemaSet&) = delete;

  const std::string& kind() const { return kind_; }
  // Errors: Unimplemented for a planned or refused class, else InvalidArgument with the nearest
  // name; both list the names that there are.
  absl::StatusOr<const ClassSchema*> FindSchema(std::string_view name) const;
  // In the order of their names.
  std::vector<const ClassSchema*> Schemas() const;
  // The names of the classes that Register has added, as those of plugins.
  std::vector<std::string> AddedNames() const;

 protected:
  ~SchemaSet() = default;
  // Errors: AlreadyExists for a name or an alias that is taken. `schema` must live as long as this.
  absl::Status Add(const ClassSchema* schema) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable Mutex mu_;
  std::vector<std::string> added_ ABSL_GUARDED_BY(mu_);

 private:
  bool Means(const ClassSchema& schema, std::string_view name) const;

  const std::string kind_;
  const Spelling spelling_;
  const std::string planned_;
  const std::map<std::string, std::string> refused_;
  std::vector<const ClassSchema*> schemas_ ABSL_GUARDED_BY(mu_);  // in the order of their names
};

// The classes of one kind with what makes them: `Class` has a member `schema` (a ClassSchema) and,
// beside it, the factory of its kind. Classes are added at the start, from the list of the kind, or
// later by Register, and never removed. Thread-safe.
template <typename Class>
class ClassRegistry : public SchemaSet {
 public:
  ClassRegistry(std::string kind, Spelling spelling, std::string planned,
                std::vector<Class> classes, std::map<std::string, std::string> refused = {})
      : SchemaSet(std::move(kind), spelling, std::move(planned), std::move(refused)) {
    for (Class& c : classes) {
      [[maybe_unused]] const absl::Status added = Register(std::move(c));
      assert(added.ok());  // names of the tree differ
    }
    MutexLock lock(&mu_);
    added_.clear();
  }

  // Errors: AlreadyExists; those of Class::CheckClass, if it has this function: what the class
  // lacks.
  absl::Status Register(Class c) {
    if constexpr (requires { c.CheckClass(); }) {
      const absl::Status complete = c.CheckClass();
      if (!complete.ok()) return complete;
    }
    MutexLock lock(&mu_);
    classes_.push_back(std::move(c));
    const absl::Status added = Add(&classes_.back().schema);
    if (added.ok()) {
      added_.push_back(classes_.back().schema.name);
    } else {
      classes_.pop_back();
    }
    return added;
  }

  // Errors: those of FindSchema.
  absl::StatusOr<const Class*> Find(std::string_view name) const {
    auto schema = FindSchema(name);
    if (!schema.ok()) return schema.status();
    MutexLock lock(&mu_);
    for (const Class& c : classes_) {
      if (&c.schema == *schema) return &c;
    }
    return Internal("the {} \"{}\" has no factory", kind(), name);
  }

 private:
  std::deque<Class> classes_ ABSL_GUARDED_BY(mu_);  // addresses do not change
};

// Finds the class of a config and completes its arguments. Errors: those of FindSchema and
// CompleteConfig.
absl::StatusOr<v1::ClassConfig> CompleteConfig(const SchemaSet& classes,
                                               const v1::ClassConfig& given);

// "GlobalAveragePooling1D" -> "global_average_pooling1d" (to_snake_case of
// keras/src/utils/naming.py).
std::string SnakeCase(std::string_view name);

}  // namespace cohort

#endif  // COHORT_COMMON_SCHEMA_CLASS_REGISTRY_H_
