// What encoder and decoder layers have in common, for a block of rows on one thread.

#pragma once

#include "matrix.h"

namespace {

struct Sizes {
    int64_t layers, d_model, h, d_k, d_v, d_ff;
    float epsilon;
};

struct Norm {
    const float *gain, *bias;
};

struct Network {
    Matrix W_1, W_2;
    const float *b_1, *b_2;
};

struct Embedding {
    const float* weight;
    float scale;
};

struct EncoderLayer {
    Matrix self_QKV, self_O;
    Network feed_forward;
    Norm norms[2];
};

struct DecoderLayer {
    Matrix self_QKV, self_O, cross_Q, cross_KV, cross_O;
    Network feed_forward;
    Norm norms[3];
};

// All of a model that does not change while it translates.
struct Model {
    Sizes sizes;
    const EncoderLayer* encoder;
    const DecoderLayer* decoder;
    Embedding source_embedding, target_embedding;
    const float* positions;  // a row of d_model for each position there may be
    Matrix output;
};

// Embedding of one token, without dropout: E[token] * scale + position (3.4, 3.5).
inline void embed(Embedding E, const float* positions, int64_t token, int64_t position, int64_t d, float* x) {
    for (int64_t c = 0; c < d; c += W) {
        const int64_t n = std::min(W, d - c);
        store(x + c, load(E.weight + token * d + c, n) * E.scale + load(positions + position * d + c, n), n);
    }
}

// x = LayerNorm(x + f), row by row.
inline void add_and_norm(float* x, const float* f, int64_t rows, int64_t d, Norm norm, float epsilon) {
    for (int64_t r = 0; r < rows; ++r, x += d, f += d) {
        Floats total{};
        for (int64_t c = 0; c < d; c += W) {
            const int64_t n = std::min(W, d - c);
            Floats v = load(x + c, n) + load(f + c, n);
            store(x + c, v, n);
            total += v;
        }
        const float mean = sum(total) / d;
        Floats squares{};
        for (int64_t c = 0; c < d; c += W) {
            Floats v = load(x + c, std::min(W, d - c)) - mean;
            if (d - c < W) v = choose(places_below(d - c), v, Floats{});
            squares = fused(v, v, squares);
        }
        const float inverse = 1.0f / __builtin_sqrtf(sum(squares) / d + epsilon);
        for (int64_t c = 0; c < d; c += W) {
            const int64_t n = std::min(W, d - c);
            const Floats v = (load(x + c, n) - mean) * inverse;
            store(x + c, fused(v, load(norm.gain + c, n), load(norm.bias + c, n)), n);
        }
    }
}

// out = max(0, x W_1 + b_1) W_2 + b_2 (3.3, Eq. 2).
inline void network(const Network& net, const float* x, int64_t rows, int64_t d, float* hidden, float* out,
                    int threads = 1) {
    const int64_t d_ff = net.W_1.columns;
    product(x, d, rows, net.W_1, hidden, d_ff, threads, [&](Floats sums, int64_t column) {
        sums += load(net.b_1 + column, std::min(W, d_ff - column));
        return choose(sums < 0.0f, Floats{}, sums);  // NaN stays NaN
    });
    product(hidden, d_ff, rows, net.W_2, out, d, threads, [&](Floats sums, int64_t column) {
        return sums + load(net.b_2 + column, std::min(W, d - column));
    });
}

}  // namespace
