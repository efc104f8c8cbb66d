// The best continuations of a sentence's prefixes over the whole vocabulary (6.1), in one pass.
//
// As candidates.best_continuations: log P of a continuation is that of its prefix plus (logit - log Z), in
// float64; among equals the lower parent, then the lower token, comes first.

#pragma once

#include "vectors.h"

#include <cmath>
#include <limits>

namespace {

typedef double Doubles __attribute__((vector_size(VECTOR_BYTES)));  // half as many as a vector of float32

template <int FIRST, int... I>
inline Doubles half(Floats x, std::integer_sequence<int, I...>) {
    return __builtin_convertvector(__builtin_shufflevector(x, x, (FIRST + I)...), Doubles);
}

// Half of a vector's numbers, from number FIRST on.
template <int FIRST>
inline Doubles half(Floats x) {
    return half<FIRST>(x, std::make_integer_sequence<int, W / 2>{});
}

constexpr double DEAD = -std::numeric_limits<double>::infinity();

constexpr int64_t CHUNK = 16 * W;  // tokens that are looked at or passed over together

// log sum exp of a row, NaN or infinite where that is what is in it; and the largest logit of each chunk.
inline double log_normalizer(const float* row, int64_t V, float* maxima) {
    const Floats least = fill(-std::numeric_limits<float>::infinity());
    float top = least[0];
    for (int64_t first = 0; first < V; first += CHUNK) {
        Floats most = least;
        const int64_t end = std::min(first + CHUNK, V);
        int64_t c = first;
        for (; c + W <= end; c += W) most = larger(most, load(row + c));
        if (c < end) most = larger(most, choose(places_below(end - c), load(row + c, end - c), least));
        maxima[first / CHUNK] = largest(most);
        top = std::max(top, maxima[first / CHUNK]);
    }
    // In float64 a sum of these is the same in any order, but for its very last bits: rows that hold the same logits in
    // another order must not come out as different.
    Doubles low{}, high{};
    auto add = [&](Floats e) {
        low += half<0>(e);
        high += half<W / 2>(e);
    };
    int64_t c = 0;
    for (; c + W <= V; c += W) add(exponential(load(row + c) - top));
    if (c < V) add(choose(places_below(V - c), exponential(load(row + c, V - c) - top), Floats{}));
    double Z = 0;
    for (int64_t k = 0; k < W / 2; ++k) Z += low[k] + high[k];
    return (double)top + std::log(Z);
}

struct Found {
    double* values;
    int64_t *parents, *tokens;
    int64_t count;

    // Puts a continuation behind all that are as good: they came earlier.
    void insert(double value, int64_t parent, int64_t token) {
        int64_t at = count - 1;
        for (; at > 0 && values[at - 1] < value; --at) {
            values[at] = values[at - 1];
            parents[at] = parents[at - 1];
            tokens[at] = tokens[at - 1];
        }
        values[at] = value;
        parents[at] = parent;
        tokens[at] = token;
    }
};

// Of one prefix's logits those that are among the best so far; the log P of the prefix and its log Z given.
inline void look_through(const float* row, int64_t V, const float* maxima, const uint8_t* banned, double prefix,
                         double log_Z, int64_t parent, Found found) {
    auto value_of = [&](float logit) { return prefix + ((double)logit - log_Z); };
    for (int64_t first = 0; first < V; first += CHUNK) {
        if (!(value_of(maxima[first / CHUNK]) > found.values[found.count - 1])) continue;
        for (int64_t c = first; c < std::min(first + CHUNK, V); c += W) {
            const int64_t n = std::min(W, V - c);
            // A logit well below what the worst of the best would be needs no closer look.
            const double least = found.values[found.count - 1] - prefix + log_Z;
            const Ints above = load(row + c, n) >= (float)(least - 1e-5 * std::abs(least));
            if (least > DEAD && !any(above)) continue;
            for (int64_t k = c; k < c + n; ++k) {
                const double value = value_of(row[k]);
                if (value > found.values[found.count - 1] && !banned[k]) found.insert(value, parent, k);
            }
        }
    }
}

// The best of one sentence, from logits [K][V] and log P of its prefixes; -inf where there are no more. Returns
// whether the logits of each live prefix are a distribution, else writes to `broken` [K] which are not.
inline bool best_of_sentence(const float* logits, const double* prefixes, const uint8_t* banned, int64_t K, int64_t V,
                             float* maxima, Found found, uint8_t* broken) {
    std::fill(found.values, found.values + found.count, DEAD);
    std::fill(found.parents, found.parents + found.count, 0);
    std::fill(found.tokens, found.tokens + found.count, 0);
    bool all = true;
    for (int64_t k = 0; k < K; ++k) {
        broken[k] = 0;
        if (prefixes[k] == DEAD) continue;
        const float* row = logits + k * V;
        const double log_Z = log_normalizer(row, V, maxima);
        broken[k] = !std::isfinite(log_Z);
        if (broken[k])
            all = false;
        else
            look_through(row, V, maxima, banned, prefixes[k], log_Z, k, found);
    }
    return all;
}

inline int64_t chunks_of(int64_t V) { return V / CHUNK + 1; }

}  // namespace
