// ContrastLimitedAdaptiveHistogramEqualization
// (keras/src/layers/preprocessing/image_preprocessing/clahe.py).
#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/data/images/colors.h"

namespace cohort {
namespace {

constexpr size_t kLevels = 256;

// One axis of the grid: tiles of `size` pixels, of which the last ones may lie outside of the
// image, which is reflected there.
struct TileAxis {
  int64_t pixels = 0;
  int64_t tiles = 0;
  int64_t size() const { return (pixels + tiles - 1) / tiles; }
  int64_t Inside(int64_t at) const { return at < pixels ? at : 2 * pixels - 1 - at; }

  // The two tiles between whose middles a pixel lies, and the share of the second one.
  struct Between {
    int64_t first = 0, second = 0;
    float share = 0;
  };
  Between At(int64_t pixel) const {
    const auto tile = static_cast<float>(size());
    const float place = (static_cast<float>(pixel) - tile / 2) / tile;
    const float first = std::floor(place);
    const auto tile_of = [this](float at) {
      return std::clamp<int64_t>(static_cast<int64_t>(at), 0, tiles - 1);
    };
    return {tile_of(first), tile_of(first + 1), place - first};
  }
};

struct ClaheOptions {
  TileAxis rows, columns;
  size_t channels = 1;
  double clip_limit = 4;
  ValueRange range;
};

size_t LevelOf(float x) { return static_cast<size_t>(std::clamp(x, 0.0F, 255.0F)); }

// What becomes of each level: a histogram, clipped, and the sums of it.
void MapLevels(const ClaheOptions& options, std::span<float> levels) {
  const auto area = static_cast<float>(options.rows.size() * options.columns.size());
  if (options.clip_limit > 0) {
    const auto limit = static_cast<float>(options.clip_limit * static_cast<double>(area) / kLevels);
    float excess = 0;
    for (float& count : levels) {
      excess += std::max(0.0F, count - limit);
      count = std::min(count, limit);
    }
    for (float& count : levels) count += excess / kLevels;
  }
  for (size_t i = 1; i < kLevels; ++i) levels[i] += levels[i - 1];
  const float least = levels[0];
  const float others = area - least == 0 ? 1 : area - least;
  for (float& sum : levels) sum = std::clamp((sum - least) * 255 / others, 0.0F, 255.0F);
}

// The levels of a tile, for one channel.
std::span<float> LevelsOf(const ClaheOptions& options, int64_t row, int64_t column, size_t channel,
                          std::vector<float>* levels) {
  const auto tile = static_cast<size_t>(row * options.columns.tiles + column);
  return std::span(*levels).subspan((tile * options.channels + channel) * kLevels, kLevels);
}

void Equalize(const ClaheOptions& options, size_t channel, const float* in, float* out) {
  const auto at = [&](int64_t row, int64_t column) {
    return static_cast<size_t>(row * options.columns.pixels + column) * options.channels + channel;
  };
  std::vector<float> levels(static_cast<size_t>(options.rows.tiles * options.columns.tiles) *
                            options.channels * kLevels);
  const TileAxis& rows = options.rows;
  const TileAxis& columns = options.columns;
  for (int64_t row = 0; row < rows.tiles * rows.size(); ++row) {
    for (int64_t column = 0; column < columns.tiles * columns.size(); ++column) {
      const float x = MapRange(in[at(rows.Inside(row), columns.Inside(column))], options.range, {});
      ++LevelsOf(options, row / rows.size(), column / columns.size(), channel, &levels)[LevelOf(x)];
    }
  }
  for (int64_t row = 0; row < rows.tiles; ++row) {
    for (int64_t column = 0; column < columns.tiles; ++column) {
      MapLevels(options, LevelsOf(options, row, column, channel, &levels));
    }
  }
  for (int64_t row = 0; row < rows.pixels; ++row) {
    const TileAxis::Between y = rows.At(row);
    for (int64_t column = 0; column < columns.pixels; ++column) {
      const TileAxis::Between x = columns.At(column);
      const size_t level = LevelOf(MapRange(in[at(row, column)], options.range, {}));
      const auto of = [&](int64_t tile_row, int64_t tile_column) {
        return LevelsOf(options, tile_row, tile_column, channel, &levels)[level];
      };
      const float top = of(y.first, x.first) * (1 - x.share) + of(y.first, x.second) * x.share;
      const float bottom = of(y.second, x.first) * (1 - x.share) + of(y.second, x.second) * x.share;
      out[at(row, column)] = MapRange(top * (1 - y.share) + bottom * y.share, {}, options.range);
    }
  }
}

absl::StatusOr<RecordTransform> OpenClahe(const Config& config,
                                          std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  const std::vector<int64_t> grid = config.Ints("tile_grid_size");
  if (grid.size() != 2) return InvalidArgument("tile_grid_size must be two numbers");
  ClaheOptions options = {.rows = {input.shape.height, grid[0]},
                          .columns = {input.shape.width, grid[1]},
                          .channels = static_cast<size_t>(input.shape.channels),
                          .clip_limit = config.Float("clip_limit")};
  COHORT_ASSIGN_OR_RETURN(options.range, ValueRangeOf(config));
  for (const TileAxis& axis : {options.rows, options.columns}) {
    if (axis.tiles * axis.size() <= 2 * axis.pixels) continue;
    return InvalidArgument("tile_grid_size: {} tiles are too many for {} pixels", axis.tiles,
                           axis.pixels);
  }
  return FloatImageTransform(input, input.shape.height, input.shape.width,
                             [options](const RecordContext&, const float* in, float* out) {
                               for (size_t channel = 0; channel < options.channels; ++channel) {
                                 Equalize(options, channel, in, out);
                               }
                             });
}

}  // namespace

TransformClass ContrastLimitedAdaptiveHistogramEqualizationTransform() {
  return {.schema = {.name = "ContrastLimitedAdaptiveHistogramEqualization",
                     .doc = "Spreads the numbers of each channel within tiles of the image, as "
                            "Keras' layer; float32.",
                     .arguments = {ValueRangeArgument(),
                                   Float("clip_limit",
                                         "The most that a level may have, as a multiple of the "
                                         "mean; 0: any.")
                                       .Default(4.0)
                                       .Between(0, 256),
                                   Ints("tile_grid_size", "Tiles along the height and the width.")
                                       .Default(std::vector<int64_t>{8, 8})
                                       .Between(1, 1024)}},
          .for_images = true,
          .open = OpenClahe};
}

}  // namespace cohort
