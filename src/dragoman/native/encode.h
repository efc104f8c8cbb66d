// The encoder (3.1) over some sentences at once, and what the decoder keeps of its result: keys and values of each layer.
//
// The same values as Transformer.encode and DecoderLayer.start. Sentences lie one after another without padding and go
// through all layers on one thread while they are in the cache. A sentence's numbers do not depend on the others.

#pragma once

#include "heads.h"
#include "layers.h"

namespace {

// What the decoder keeps of a sentence: for each of its layers K (h, d_k, S), then V (h, S, d_v).
struct Source {
    const int64_t* ids;
    int64_t length;
    int64_t S;      // places there are for it, a multiple of 16
    float* memory;  // memory_size numbers, zeroed
};

inline int64_t memory_of_layer(const Sizes& s, int64_t S) { return s.h * (s.d_k + s.d_v) * S; }
inline int64_t memory_size(const Sizes& s, int64_t S) { return s.layers * memory_of_layer(s, S); }

class Encoder {
  public:
    // For at most so many positions at once, and sentences of at most so many.
    Encoder(const Model& model, int64_t rows, int64_t longest)
        : m(model),
          s(model.sizes),
          x(rows * s.d_model),
          wide(rows * std::max(s.h * (2 * s.d_k + s.d_v), s.d_ff)),
          heads(rows * s.h * s.d_v),
          f(rows * s.d_model),
          turned(s.d_k * padded(longest)),
          values(longest * padded(s.d_v)),
          query(QUERIES * padded(s.d_k)),
          scores(QUERIES * padded(longest)),
          sums(QUERIES * padded(s.d_v)) {}

    void encode(const Source* sources, int64_t count) {
        int64_t rows = 0;
        for (const Source* source = sources; source < sources + count; ++source)
            for (int64_t i = 0; i < source->length; ++i)
                embed(m.source_embedding, m.positions, source->ids[i], i, s.d_model, &x[rows++ * s.d_model]);
        for (int64_t l = 0; l < s.layers; ++l) layer(m.encoder[l], sources, count, rows);
        for (int64_t l = 0; l < s.layers; ++l) remember(l, sources, count, rows);
    }

  private:
    static constexpr int64_t QUERIES = 4;

    const Model& m;
    const Sizes& s;
    std::vector<float> x, wide, heads, f, turned, values, query, scores, sums;

    // One head of one sentence over itself: QKV rows of `distance`, heads into rows of `out_distance`.
    void attend(const float* Q, const float* K, const float* V, int64_t distance, int64_t n, float* out,
                int64_t out_distance) {
        const int64_t wide_keys = padded(n), wide_k = padded(s.d_k), wide_v = padded(s.d_v);
        const float scale = 1.0f / __builtin_sqrtf(s.d_k);
        copy_turned(K, distance, n, s.d_k, turned.data());
        copy_rows(V, distance, n, s.d_v, 1.0f, values.data());
        for (int64_t i = 0; i < n; i += QUERIES) {
            const int64_t count = std::min(QUERIES, n - i);
            copy_rows(Q + i * distance, distance, count, s.d_k, scale, query.data());
            products<QUERIES>(query.data(), wide_k, s.d_k, turned.data(), wide_keys, scores.data(), wide_keys);
            for (int64_t q = 0; q < count; ++q) softmax(&scores[q * wide_keys], n, nullptr);
            products<QUERIES>(scores.data(), wide_keys, n, values.data(), wide_v, sums.data(), wide_v);
            for (int64_t q = 0; q < count; ++q)
                std::memcpy(out + (i + q) * out_distance, &sums[q * wide_v], s.d_v * sizeof(float));
        }
    }

    void layer(const EncoderLayer& layer, const Source* sources, int64_t count, int64_t rows) {
        const int64_t width_k = s.h * s.d_k, width_v = s.h * s.d_v, all = 2 * width_k + width_v;
        product(x.data(), s.d_model, rows, layer.self_QKV, wide.data(), all);
        for (int64_t k = 0, first = 0; k < count; first += sources[k++].length)
            for (int64_t head = 0; head < s.h; ++head) {
                const float* Q = &wide[first * all] + head * s.d_k;
                attend(Q, Q + width_k, &wide[first * all] + 2 * width_k + head * s.d_v, all, sources[k].length,
                       &heads[first * width_v + head * s.d_v], width_v);
            }
        product(heads.data(), width_v, rows, layer.self_O, f.data(), s.d_model);
        add_and_norm(x.data(), f.data(), rows, s.d_model, layer.norms[0], s.epsilon);
        network(layer.feed_forward, x.data(), rows, s.d_model, wide.data(), f.data());
        add_and_norm(x.data(), f.data(), rows, s.d_model, layer.norms[1], s.epsilon);
    }

    // Keys, turned, and values of one decoder layer for the sentences whose rows are in x.
    void remember(int64_t l, const Source* sources, int64_t count, int64_t rows) {
        const int64_t width_k = s.h * s.d_k, all = width_k + s.h * s.d_v;
        product(x.data(), s.d_model, rows, m.decoder[l].cross_KV, wide.data(), all);
        const float* from = wide.data();
        for (const Source* source = sources; source < sources + count; from += source++->length * all)
            for (int64_t head = 0; head < s.h; ++head) {
                const int64_t S = source->S;
                float* K = source->memory + l * memory_of_layer(s, S) + head * s.d_k * S;
                float* V = source->memory + l * memory_of_layer(s, S) + width_k * S + head * S * s.d_v;
                for (int64_t i = 0; i < source->length; ++i) {
                    const float* row = from + i * all;
                    for (int64_t c = 0; c < s.d_k; ++c) K[c * S + i] = row[head * s.d_k + c];
                    std::memcpy(V + i * s.d_v, row + width_k + head * s.d_v, s.d_v * sizeof(float));
                }
            }
    }
};

}  // namespace
