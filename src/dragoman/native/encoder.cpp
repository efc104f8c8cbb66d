// The encoder (3.1) over whole sentences, and what the decoder wants of its result: keys and values of each layer.
//
// The same values as Transformer.encode and DecoderLayer.start. Sentences lie one after another without padding; a
// group of some goes through all layers on one thread while it is in the cache. A sentence's numbers do not depend
// on the others.

#include "heads.h"
#include "layers.h"

#include <memory>

namespace {

struct Layer {
    Matrix self_QKV, self_O;
    Network feed_forward;
    Norm norms[2];
};

// One layer's cross-attention: the matrices of keys and values, and where to put these.
struct Memory {
    Matrix KV;
    float *K, *V;  // [sentence][h][d_k][S], [sentence][h][S][d_v]
};

struct Sources {
    const int64_t *ids, *lengths;  // [B][distance]; tokens of each
    int64_t B, distance;
    int64_t S;  // places a source has room for in Memory, a multiple of 16
};

constexpr int64_t QUERIES = 4;

struct Buffers {
    std::vector<float> x, wide, heads, f, turned, values, query, scores, sums;
    Buffers(const Sizes& s, int64_t rows, int64_t longest)
        : x(rows * s.d_model),
          wide(rows * std::max(s.h * (2 * s.d_k + s.d_v), s.d_ff)),
          heads(rows * s.h * s.d_v),
          f(rows * s.d_model),
          turned(s.d_k * padded(longest)),
          values(longest * padded(s.d_v)),
          query(QUERIES * padded(s.d_k)),
          scores(QUERIES * padded(longest)),
          sums(QUERIES * padded(s.d_v)) {}
};

// One head of one sentence over itself: QKV rows of `wide`, heads into rows of `out_wide`.
void attend(const float* Q, const float* K, const float* V, int64_t wide, const Sizes& s, int64_t n, float* out,
            int64_t out_wide, Buffers& b) {
    const int64_t wide_keys = padded(n), wide_k = padded(s.d_k), wide_v = padded(s.d_v);
    const float scale = 1.0f / __builtin_sqrtf(s.d_k);
    copy_turned(K, wide, n, s.d_k, b.turned.data());
    copy_rows(V, wide, n, s.d_v, 1.0f, b.values.data());
    for (int64_t i = 0; i < n; i += QUERIES) {
        const int64_t count = std::min(QUERIES, n - i);
        copy_rows(Q + i * wide, wide, count, s.d_k, scale, b.query.data());
        products<QUERIES>(b.query.data(), wide_k, s.d_k, b.turned.data(), wide_keys, b.scores.data(), wide_keys);
        for (int64_t q = 0; q < count; ++q) softmax(&b.scores[q * wide_keys], n, nullptr);
        products<QUERIES>(b.scores.data(), wide_keys, n, b.values.data(), wide_v, b.sums.data(), wide_v);
        for (int64_t q = 0; q < count; ++q)
            std::memcpy(out + (i + q) * out_wide, &b.sums[q * wide_v], s.d_v * sizeof(float));
    }
}

void encode_layer(const Layer& layer, const Sizes& s, const int64_t* lengths, int64_t sentences, int64_t rows,
                  Buffers& b) {
    const int64_t width_k = s.h * s.d_k, width_v = s.h * s.d_v, wide = 2 * width_k + width_v;
    product(b.x.data(), s.d_model, rows, layer.self_QKV, b.wide.data(), wide);
    for (int64_t k = 0, first = 0; k < sentences; first += lengths[k++])
        for (int64_t head = 0; head < s.h; ++head) {
            const float* Q = &b.wide[first * wide] + head * s.d_k;
            attend(Q, Q + width_k, &b.wide[first * wide] + 2 * width_k + head * s.d_v, wide, s, lengths[k],
                   &b.heads[first * width_v + head * s.d_v], width_v, b);
        }
    product(b.heads.data(), width_v, rows, layer.self_O, b.f.data(), s.d_model);
    add_and_norm(b.x.data(), b.f.data(), rows, s.d_model, layer.norms[0], s.epsilon);
    network(layer.feed_forward, b.x.data(), rows, s.d_model, b.wide.data(), b.f.data());
    add_and_norm(b.x.data(), b.f.data(), rows, s.d_model, layer.norms[1], s.epsilon);
}

// Keys, turned, and values of one decoder layer for the sentences whose rows are in b.x.
void remember(const Memory& memory, const Sizes& s, const Sources& sources, int64_t sentence, int64_t count,
              int64_t rows, Buffers& b) {
    const int64_t width_k = s.h * s.d_k, wide = width_k + s.h * s.d_v;
    product(b.x.data(), s.d_model, rows, memory.KV, b.wide.data(), wide);
    const float* from = b.wide.data();
    for (int64_t k = sentence; k < sentence + count; from += sources.lengths[k++] * wide)
        for (int64_t head = 0; head < s.h; ++head) {
            float* K = memory.K + (k * s.h + head) * s.d_k * sources.S;
            float* V = memory.V + (k * s.h + head) * sources.S * s.d_v;
            for (int64_t i = 0; i < sources.lengths[k]; ++i) {
                const float* row = from + i * wide;
                for (int64_t c = 0; c < s.d_k; ++c) K[c * sources.S + i] = row[head * s.d_k + c];
                std::memcpy(V + i * s.d_v, row + width_k + head * s.d_v, s.d_v * sizeof(float));
            }
        }
}

}  // namespace

// groups [count + 1]: the first sentence of each group, and B. memories: [decoder_layers], K and V zeroed.
extern "C" void encode_sources(const Sizes* sizes, const Layer* layers, const float* embedding, float scale,
                               const float* positions, const Sources* sources, const int64_t* groups,
                               int64_t group_count, const Memory* memories, int64_t decoder_layers) {
    const int64_t d = sizes->d_model;
    const int64_t longest = *std::max_element(sources->lengths, sources->lengths + sources->B);
    int64_t most = 0;
    for (int64_t g = 0; g < group_count; ++g) {
        int64_t rows = 0;
        for (int64_t k = groups[g]; k < groups[g + 1]; ++k) rows += sources->lengths[k];
        most = std::max(most, rows);
    }
#pragma omp parallel
    {
        Buffers b(*sizes, most, longest);
        const std::unique_ptr<TileScope> scope(layers->self_QKV.is_fast ? new TileScope : nullptr);
#pragma omp for schedule(dynamic)
        for (int64_t g = 0; g < group_count; ++g) {
            const int64_t sentence = groups[g], count = groups[g + 1] - sentence;
            int64_t rows = 0;
            for (int64_t k = sentence; k < sentence + count; ++k)
                for (int64_t i = 0; i < sources->lengths[k]; ++i)
                    embed(embedding + sources->ids[k * sources->distance + i] * d, scale, positions + i * d, d,
                          &b.x[rows++ * d]);
            for (int64_t l = 0; l < sizes->layers; ++l)
                encode_layer(layers[l], *sizes, sources->lengths + sentence, count, rows, b);
            for (int64_t l = 0; l < decoder_layers; ++l)
                remember(memories[l], *sizes, *sources, sentence, count, rows, b);
        }
    }
}
