// Products of a few rows with a matrix that is used again and again, laid out for it.
//
// Each result is summed over its terms in their order, whatever rows are beside it: a row's result is the same
// alone and among others, to the last bit.

#pragma once

#include "fast_matrix.h"
#include "vectors.h"

namespace {

constexpr int64_t PANEL = 4 * W;  // columns whose sums are kept in registers
constexpr int ROWS = 6;           // and rows: 24 of the 32 registers there are

// A matrix of `terms` times `columns` in panels of PANEL columns: [panel][term][column], zeros after the last.
struct Panels {
    const float* data;
    int64_t terms, columns;
};

template <int N, class Store>
void panel_product(const float* x, int64_t x_wide, const float* panel, int64_t terms, Store done) {
    Floats sums[N][4] = {};
    for (int64_t t = 0; t < terms; ++t) {
        Floats w0 = load(panel), w1 = load(panel + W), w2 = load(panel + 2 * W), w3 = load(panel + 3 * W);
        panel += PANEL;
        for (int r = 0; r < N; ++r) {
            const float value = x[r * x_wide + t];
            sums[r][0] += value * w0;
            sums[r][1] += value * w1;
            sums[r][2] += value * w2;
            sums[r][3] += value * w3;
        }
    }
    for (int r = 0; r < N; ++r)
        for (int k = 0; k < 4; ++k) done(r, k, sums[r][k]);
}

// A matrix in one of its layouts.
struct Matrix {
    const void* data;
    int64_t terms, columns;
    int64_t is_fast;  // Tiles, else Panels
};

// y = x W (rows, columns), then `finish` (a function of the sums and their first column) on each vector.
template <class Finish>
void product(const float* x, int64_t x_wide, int64_t rows, Panels W_, float* y, int64_t y_wide, Finish finish) {
    for (int64_t first = 0; first < W_.columns; first += PANEL) {
        const float* panel = W_.data + first * W_.terms;
        for (int64_t r = 0; r < rows; r += ROWS) {
            auto done = [&](int row, int k, Floats sums) {
                const int64_t column = first + k * W;
                if (column < W_.columns)
                    store(y + (r + row) * y_wide + column, finish(sums, column),
                          std::min(W, W_.columns - column));
            };
            const float* from = x + r * x_wide;
            switch (std::min<int64_t>(ROWS, rows - r)) {
                case 1: panel_product<1>(from, x_wide, panel, W_.terms, done); break;
                case 2: panel_product<2>(from, x_wide, panel, W_.terms, done); break;
                case 3: panel_product<3>(from, x_wide, panel, W_.terms, done); break;
                case 4: panel_product<4>(from, x_wide, panel, W_.terms, done); break;
                case 5: panel_product<5>(from, x_wide, panel, W_.terms, done); break;
                default: panel_product<6>(from, x_wide, panel, W_.terms, done);
            }
        }
    }
}

template <class Finish>
void product(const float* x, int64_t x_wide, int64_t rows, const Matrix& M, float* y, int64_t y_wide, Finish finish) {
    if (M.is_fast)
        product(x, x_wide, rows, Tiles{(const uint16_t*)M.data, M.terms, M.columns}, y, y_wide, finish);
    else
        product(x, x_wide, rows, Panels{(const float*)M.data, M.terms, M.columns}, y, y_wide, finish);
}

inline void product(const float* x, int64_t x_wide, int64_t rows, const Matrix& W_, float* y, int64_t y_wide) {
    product(x, x_wide, rows, W_, y, y_wide, [](Floats sums, int64_t) { return sums; });
}

}  // namespace
