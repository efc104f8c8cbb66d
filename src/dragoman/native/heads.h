// What attention over a few positions is made of: products of small matrices and the softmax.

#pragma once

#include "vectors.h"

namespace {

// Rows of a head as float32, each padded with zeros to whole vectors.
template <class T>
void copy_rows(const T* from, int64_t distance, int64_t rows, int64_t d, float scale, float* to) {
    const int64_t wide = padded(d);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < d; c += W)
            store(to + i * wide + c, load(from + i * distance + c, std::min(W, d - c)) * scale);
}

template <int STEP>
struct Upper {
    static constexpr int of(int i) { return i & STEP ? W + (i ^ STEP) : i; }
};

template <int STEP>
struct Lower {
    static constexpr int of(int i) { return i & STEP ? W + i : i ^ STEP; }
};

// W vectors turned: afterwards v[c][i] is what v[i][c] was.
template <int STEP = 1>
inline void turn(Floats* v) {
    for (int i = 0; i < W; ++i) {
        if (i & STEP) continue;
        const Floats a = v[i], b = v[i + STEP];
        v[i] = picked<Upper<STEP>>(a, b);
        v[i + STEP] = picked<Lower<STEP>>(a, b);
    }
    if constexpr (2 * STEP < W) turn<2 * STEP>(v);
}

// Rows turned: to[c][i] = from[i][c], in rows of whole vectors, zeros after the last.
template <class T>
void copy_turned(const T* from, int64_t distance, int64_t rows, int64_t d, float* to) {
    const int64_t wide = padded(rows);
    for (int64_t i = 0; i < rows; i += W)
        for (int64_t c = 0; c < d; c += W) {
            Floats block[W];
            for (int64_t k = 0; k < W; ++k)
                block[k] = i + k < rows ? load(from + (i + k) * distance + c, std::min(W, d - c)) : Floats{};
            turn(block);
            for (int64_t k = 0; k < std::min(W, d - c); ++k) store(to + (c + k) * wide + i, block[k]);
        }
}

constexpr int64_t AT_ONCE = 4;  // rows whose products are summed side by side

// out[q][:] = sum_c left[q][c] * right[c][:] for N rows; right has rows of `wide` numbers.
template <int N>
void products(const float* left, int64_t left_wide, int64_t terms, const float* right, int64_t wide,
              float* out, int64_t out_wide) {
    for (int64_t j = 0; j < wide; j += W) {
        Floats sums[N] = {};
        for (int64_t t = 0; t < terms; ++t) {
            Floats r = load(right + t * wide + j);
            for (int q = 0; q < N; ++q) sums[q] = fused(left[q * left_wide + t], r, sums[q]);
        }
        for (int q = 0; q < N; ++q) store(out + q * out_wide + j, sums[q]);
    }
}

// Softmax of the legal ones of K scores, in place; zeros elsewhere, also where none is legal.
inline void softmax(float* scores, int64_t K, const uint8_t* legal) {
    const Floats least = fill(-__builtin_inff());
    Floats high = least;
    Ints any{};
    for (int64_t j = 0; j < K; j += W) {
        Ints counts = places_below(K - j);
        if (legal) counts &= places_of(legal + j, std::min(W, K - j));
        Floats s = choose(counts, load(scores + j), least);
        store(scores + j, s);
        high = larger(high, s);
        any |= counts;
    }
    const float top = largest(high);
    if (largest(choose(any, fill(1.0f), Floats{})) == 0.0f) {
        std::fill(scores, scores + padded(K), 0.0f);
        return;
    }
    Floats total{};
    for (int64_t j = 0; j < K; j += W) {
        Floats e = exponential(load(scores + j) - top);
        store(scores + j, e);
        total += e;
    }
    const float inverse = 1.0f / sum(total);
    for (int64_t j = 0; j < K; j += W) store(scores + j, load(scores + j) * inverse);
}

}  // namespace
