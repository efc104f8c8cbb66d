// The best continuations of a sentence's hypotheses over the whole vocabulary (6.1), in one pass.
//
// As candidates.best_continuations: log P of a continuation is that of its prefix plus (logit - log Z), in
// float64; among equals the lower parent, then the lower token, comes first.

#include "vectors.h"

#include <cmath>
#include <limits>

namespace {

typedef double Doubles __attribute__((vector_size(128)));

constexpr double DEAD = -std::numeric_limits<double>::infinity();

constexpr int64_t CHUNK = 16 * W;  // tokens that are looked at or passed over together

// log sum exp of a row, NaN or infinite where that is what is in it; and the largest logit of each chunk.
double log_normalizer(const float* row, int64_t V, float* maxima) {
    float top = -std::numeric_limits<float>::infinity();
    for (int64_t first = 0; first < V; first += CHUNK) {
        Floats high = fill(-std::numeric_limits<float>::infinity());
        for (int64_t c = first; c < std::min(first + CHUNK, V); c += W) {
            Floats x = load(row + c, std::min(W, V - c));
            if (V - c < W) x = choose(places_below(V - c), x, high);
            high = larger(high, x);
        }
        maxima[first / CHUNK] = largest(high);
        top = std::max(top, maxima[first / CHUNK]);
    }
    // In float64 a sum of these is the same in any order, but for its very last bits: rows that hold the same logits in
    // another order must not come out as different.
    Doubles total{};
    for (int64_t c = 0; c < V; c += W) {
        Floats e = exponential(load(row + c, std::min(W, V - c)) - top);
        if (V - c < W) e = choose(places_below(V - c), e, Floats{});
        total += __builtin_convertvector(e, Doubles);
    }
    double Z = 0;
    for (int64_t k = 0; k < W; ++k) Z += total[k];
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

void look_through(const float* row, int64_t V, const float* maxima, const uint8_t* banned, double prefix,
                  double log_Z, int64_t parent, Found found) {
    auto value_of = [&](float logit) { return prefix + ((double)logit - log_Z); };
    for (int64_t first = 0; first < V; first += CHUNK) {
        if (!(value_of(maxima[first / CHUNK]) > found.values[found.count - 1])) continue;
        for (int64_t c = first; c < std::min(first + CHUNK, V); ++c) {
            const double value = value_of(row[c]);
            if (value > found.values[found.count - 1] && !banned[c]) found.insert(value, parent, c);
        }
    }
}

}  // namespace

// logits [B][K][V], prefixes [B][K] (-inf: dead), banned [V] -> [B][count], best first, -inf where there are no
// more; broken [B][K] is 1 where a live prefix's logits are no distribution.
extern "C" void best_continuations(const float* logits, const double* prefixes, const uint8_t* banned, int64_t B,
                                   int64_t K, int64_t V, int64_t count, double* values, int64_t* parents,
                                   int64_t* tokens, uint8_t* broken) {
#pragma omp parallel
    {
        std::vector<float> maxima(V / CHUNK + 1);
#pragma omp for schedule(static)
        for (int64_t b = 0; b < B; ++b) {
            Found found{values + b * count, parents + b * count, tokens + b * count, count};
            std::fill(found.values, found.values + count, DEAD);
            std::fill(found.parents, found.parents + count, 0);
            std::fill(found.tokens, found.tokens + count, 0);
            for (int64_t k = 0; k < K; ++k) {
                const float* row = logits + (b * K + k) * V;
                const double prefix = prefixes[b * K + k];
                broken[b * K + k] = 0;
                if (prefix == DEAD) continue;
                const double log_Z = log_normalizer(row, V, maxima.data());
                broken[b * K + k] = !std::isfinite(log_Z);
                if (std::isfinite(log_Z)) look_through(row, V, maxima.data(), banned, prefix, log_Z, k, found);
            }
        }
    }
}
