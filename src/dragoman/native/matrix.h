// Products of a few rows with a matrix that is used again and again, laid out for it.
//
// Each result is summed over its terms in their order, whatever rows are beside it: a row's result is the same
// alone and among others, to the last bit.

#pragma once

#include "fast_matrix.h"
#include "vectors.h"

#include <memory>
#include <omp.h>

namespace {

// Sums of VECTORS for each of SUMMED_ROWS fill three quarters of the registers.
constexpr int VECTORS = REGISTERS / 8;
constexpr int64_t PANEL = VECTORS * W;  // columns
constexpr int64_t LINE = 16;            // numbers that come into the cache together
constexpr int64_t SHARES = std::max<int64_t>(PANEL / LINE, 1);  // of a panel, a line a term each

// A matrix of `terms` times `columns` in panels of PANEL columns: [panel][term][column], zeros after the last.
struct Panels {
    const float* data;
    int64_t terms, columns;
};

// ahead: a line for each term, fetched into the cache of the core meanwhile.
template <int N, class Store>
void panel_product(const float* x, int64_t x_wide, const float* panel, int64_t terms, const float* ahead, Store done) {
    Floats sums[N][VECTORS] = {};
    for (int64_t t = 0; t < terms; ++t) {
        __builtin_prefetch(ahead + t * LINE, 0, 2);
        Floats w[VECTORS];
        for (int k = 0; k < VECTORS; ++k) w[k] = load(panel + k * W);
        panel += PANEL;
        for (int r = 0; r < N; ++r) {
            const Floats value = fill(x[r * x_wide + t]);
            for (int k = 0; k < VECTORS; ++k) sums[r][k] = fused(value, w[k], sums[r][k]);
        }
    }
    for (int r = 0; r < N; ++r)
        for (int k = 0; k < VECTORS; ++k) done(r, k, sums[r][k]);
}

enum Layout : int64_t { PANELS, TILES, BYTE_TILES };

// A matrix in one of its layouts.
struct Matrix {
    const void* data;
    int64_t terms, columns;
    int64_t layout;
    const float* scales;  // of each column, and the sums of its bytes: of bytes alone
    const int32_t* sums;
};

// Some columns of a matrix, in the same layout.
class Columns {
  public:
    Matrix matrix{};

    // columns: which, ascending; their number is that of the new matrix's.
    Columns(const Matrix& M, const int32_t* columns, int64_t count) {
        // Every layout is made of groups of columns, in which 4 bytes of each column lie beside those of the others.
        const int64_t group = M.layout == PANELS ? PANEL : TILE;
        const int64_t pieces = M.layout == PANELS  ? M.terms
                               : M.layout == TILES ? tile_terms(M.terms) / 2
                                                   : byte_terms(M.terms) / 4;
        data.assign((count + group - 1) / group * group * pieces, 0);
        const int32_t* from = (const int32_t*)M.data;
        for (int64_t c = 0; c < count; ++c) {
            const int32_t* old = from + columns[c] / group * group * pieces + columns[c] % group;
            int32_t* to = &data[c / group * group * pieces + c % group];
            for (int64_t k = 0; k < pieces; ++k) to[k * group] = old[k * group];
        }
        matrix = {data.data(), M.terms, count, M.layout, nullptr, nullptr};
        if (M.layout != BYTE_TILES) return;
        for (int64_t c = 0; c < count; ++c) {
            scales.push_back(M.scales[columns[c]]);
            sums.push_back(M.sums[columns[c]]);
        }
        matrix.scales = scales.data();
        matrix.sums = sums.data();
    }
    Columns(const Columns&) = delete;

  private:
    std::vector<int32_t> data, sums;
    std::vector<float> scales;
};

// The tiles of this thread, as long as this lives, if the matrix is in tiles; not for a thread that has them.
class Tiling {
  public:
    explicit Tiling(const Matrix& M, bool has_them = false)
        : scope(M.layout != PANELS && !has_them ? new TileScope : nullptr) {}

  private:
    const std::unique_ptr<TileScope> scope;
};

// y = x W (rows, columns), then `finish` (a function of the sums and their first column) on each vector.
template <class Finish>
void product(const float* x, int64_t x_wide, int64_t rows, Panels W_, float* y, int64_t y_wide, Finish finish) {
    for (int64_t first = 0; first < W_.columns; first += PANEL) {
        const float* panel = W_.data + first * W_.terms;
        for (int64_t r = 0; r < rows; r += SUMMED_ROWS) {
            auto done = [&](int row, int k, Floats sums) {
                const int64_t column = first + k * W;
                if (column < W_.columns)
                    store(y + (r + row) * y_wide + column, finish(sums, column),
                          std::min(W, W_.columns - column));
            };
            const float* from = x + r * x_wide;
            // A share of the next panel with each of the first groups of rows; beyond the last nothing is read.
            const float* ahead = panel + PANEL * W_.terms + std::min(r / SUMMED_ROWS, SHARES - 1) * W_.terms * LINE;
            some_rows(rows - r, [&](auto count) {
                panel_product<count.value>(from, x_wide, panel, W_.terms, ahead, done);
            });
        }
    }
}

// The same by a matrix in either layout, from column `first` up to `last`, both multiples of SHARE or the end.
template <class Finish>
void part_of_product(const float* x, int64_t x_wide, int64_t rows, const Matrix& M, int64_t first, int64_t last,
                     float* y, int64_t y_wide, Finish finish) {
    auto shifted = [&](Floats sums, int64_t column) { return finish(sums, first + column); };
    if (M.layout == TILES) {
        const uint16_t* data = (const uint16_t*)M.data + first * tile_terms(M.terms);
        product(x, x_wide, rows, Tiles{data, M.terms, last - first}, y + first, y_wide, shifted);
    } else if (M.layout == BYTE_TILES) {
        const int8_t* data = (const int8_t*)M.data + first * byte_terms(M.terms);
        const ByteTiles part{data, M.scales + first, M.sums + first, M.terms, last - first};
        product(x, x_wide, rows, part, y + first, y_wide, shifted);
    } else {
        const float* data = (const float*)M.data + first * M.terms;
        product(x, x_wide, rows, Panels{data, M.terms, last - first}, y + first, y_wide, shifted);
    }
}

constexpr int64_t SHARE = 64;               // columns are shared out in multiples of this: whole panels and tiles
constexpr int64_t WORTH_SHARING = 1 << 16;  // numbers of a matrix, below which another thread costs more than it saves

// By `threads` threads, each some of the columns: the same result whatever their number.
template <class Finish>
void product(const float* x, int64_t x_wide, int64_t rows, const Matrix& M, float* y, int64_t y_wide, int threads,
             Finish finish) {
    if (threads == 1 || M.terms * M.columns < WORTH_SHARING) {
        part_of_product(x, x_wide, rows, M, 0, M.columns, y, y_wide, finish);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; ++t) {
        const int64_t shares = (M.columns + SHARE - 1) / SHARE;
        const int64_t first = shares * t / threads * SHARE;
        const int64_t last = std::min(shares * (t + 1) / threads * SHARE, M.columns);
        if (first >= last) continue;
        const Tiling tiling(M, omp_get_thread_num() == 0);
        part_of_product(x, x_wide, rows, M, first, last, y, y_wide, finish);
    }
}

inline void product(const float* x, int64_t x_wide, int64_t rows, const Matrix& M, float* y, int64_t y_wide,
                    int threads = 1) {
    product(x, x_wide, rows, M, y, y_wide, threads, [](Floats sums, int64_t) { return sums; });
}

}  // namespace
