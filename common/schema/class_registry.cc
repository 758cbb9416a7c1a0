#include "common/schema/class_registry.h"

#include <absl/strings/ascii.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/suggest.h"

namespace cohort {
namespace {

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }

bool ListsWord(std::string_view words, std::string_view word) {
  if (word.empty() || word.find(' ') != std::string_view::npos) return false;
  return fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

}  // namespace

bool SchemaSet::Means(const ClassSchema& schema, std::string_view name) const {
  if (schema.name == name) return true;
  if (std::find(schema.aliases.begin(), schema.aliases.end(), name) != schema.aliases.end()) {
    return true;
  }
  if (spelling_ == Spelling::kExact || schema.only_exact) return false;
  const std::string lower = absl::AsciiStrToLower(schema.name);
  if (SnakeCase(schema.name) == name || lower == name) return true;
  return spelling_ == Spelling::kAnyCase && absl::AsciiStrToLower(std::string(name)) == lower;
}

absl::StatusOr<const ClassSchema*> SchemaSet::FindSchema(std::string_view name) const {
  std::vector<std::string> names, likely;
  {
    MutexLock lock(&mu_);
    for (const ClassSchema* schema : schemas_) {
      if (Means(*schema, name)) return schema;
      names.push_back(schema->name);
      if (!schema->only_exact) likely.push_back(schema->name);
    }
  }
  if (const auto refused = refused_.find(std::string(name)); refused != refused_.end()) {
    return Unimplemented("{} \"{}\" is not supported: {}", kind_, name, refused->second);
  }
  if (ListsWord(planned_, name)) {
    return Unimplemented("{} \"{}\" is not supported yet; supported: {}", kind_, name,
                         fmt::join(names, ", "));
  }
  return InvalidArgument("there is no {} \"{}\"; there are {}{}", kind_, name.substr(0, 60),
                         fmt::join(names, ", "),
                         DidYouMean(name, std::span<const std::string>(likely)));
}

std::vector<const ClassSchema*> SchemaSet::Schemas() const {
  MutexLock lock(&mu_);
  return schemas_;
}

std::vector<std::string> SchemaSet::AddedNames() const {
  MutexLock lock(&mu_);
  return added_;
}

absl::Status SchemaSet::Add(const ClassSchema* schema) {
  std::vector<std::string> names = schema->aliases;
  names.push_back(schema->name);
  for (const ClassSchema* other : schemas_) {
    for (const std::string& name : names) {
      if (!Means(*other, name)) continue;
      return AlreadyExists("there is a {} \"{}\" already", kind_, name);
    }
    std::vector<std::string> taken = other->aliases;
    taken.push_back(other->name);
    if (spelling_ != Spelling::kExact && !other->only_exact) {
      taken.push_back(SnakeCase(other->name));
      taken.push_back(absl::AsciiStrToLower(other->name));
    }
    for (const std::string& name : taken) {
      if (!Means(*schema, name)) continue;
      return AlreadyExists("the {} \"{}\" would also be meant by \"{}\", a name of {}", kind_,
                           schema->name, name, other->name);
    }
  }
  const auto after = std::upper_bound(
      schemas_.begin(), schemas_.end(), schema,
      [](const ClassSchema* a, const ClassSchema* b) { return a->name < b->name; });
  schemas_.insert(after, schema);
  return absl::OkStatus();
}

absl::StatusOr<v1::ClassConfig> CompleteConfig(const SchemaSet& classes,
                                               const v1::ClassConfig& given) {
  COHORT_ASSIGN_OR_RETURN(const ClassSchema* schema, classes.FindSchema(given.class_name()));
  return CompleteConfig(*schema, given);
}

std::string SnakeCase(std::string_view name) {
  std::string snake;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool starts_word =
        IsUpper(c) && i > 0 &&
        (IsLower(name[i - 1]) || (i + 1 < name.size() && IsLower(name[i + 1])));
    if (starts_word && name[i - 1] != '_') snake += '_';
    snake += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return snake;
}

}  // namespace cohort
