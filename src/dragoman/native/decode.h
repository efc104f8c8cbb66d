// The decoder (3.1, 3.2.3, 3.3) for some prefixes, one token further each: the last token in, logits of the next out.
//
// The same values as DecoderLayer.step. The prefixes go through all layers in one piece, on one thread, while they are in
// the cache. Keys and values never move: each token writes its own slots, and a prefix knows the slots of its tokens.

#pragma once

#include "encode.h"

namespace {

// Keys and values of all prefixes: [layer][position][slot][h * d].
struct Cache {
    float *K, *V;
    int64_t room, slots;  // positions, and slots of each
    int64_t place(int64_t layer, int64_t position, int64_t slot) const {
        return (layer * room + position) * slots + slot;
    }
};

struct Prefix {
    int64_t token;         // to append
    int64_t length;        // tokens before it, which is its position
    const int32_t* slots;  // [length + 1]: of each token, this one included
    const Source* source;
};

template <int FIRST>
struct EachSecond {
    static constexpr int of(int i) { return 2 * i + FIRST; }
};

inline Floats pair_sums(Floats a, Floats b) { return picked<EachSecond<0>>(a, b) + picked<EachSecond<1>>(a, b); }

// The sums of W vectors, in their order.
inline Floats sums_of(Floats* v) {
    for (int64_t count = W; count > 1; count /= 2)
        for (int64_t k = 0; k < count / 2; ++k) v[k] = pair_sums(v[2 * k], v[2 * k + 1]);
    return v[0];
}

class Decoder {
  public:
    // For at most so many prefixes at once; `threads` share a product, where the caller has no other use for them.
    Decoder(const Model& model, int64_t rows, int threads = 1)
        : m(model),
          s(model.sizes),
          threads(threads),
          x(rows * s.d_model),
          wide(rows * std::max(s.h * (2 * s.d_k + s.d_v), s.d_ff)),
          heads(rows * s.h * s.d_v),
          f(rows * s.d_model) {}

    // logits: [rows][V].
    void step(const Prefix* prefixes, int64_t rows, const Cache& cache, float* logits) {
        layers(prefixes, rows, cache);
        output(m.output, 0, rows, logits);
    }

    // All but the output map, whose rows are kept for `output`.
    void layers(const Prefix* prefixes, int64_t rows, const Cache& cache) {
        int64_t room = 0;
        for (int64_t r = 0; r < rows; ++r) {
            const Prefix& p = prefixes[r];
            room = std::max({room, padded(p.length + 1), SIDE_BY_SIDE * p.source->S});
            embed(m.target_embedding, m.positions, p.token, p.length, s.d_model, &x[r * s.d_model]);
        }
        if (room > (int64_t)scores.size()) scores.resize(room);
        for (int64_t l = 0; l < s.layers; ++l) {
            self_attention(l, prefixes, rows, cache);
            cross_attention(l, prefixes, rows);
            network(m.decoder[l].feed_forward, x.data(), rows, s.d_model, wide.data(), f.data(), threads);
            add_and_norm(x.data(), f.data(), rows, s.d_model, m.decoder[l].norms[2], s.epsilon);
        }
    }

    // logits [rows][columns of the matrix] of some rows of `layers`.
    void output(const Matrix& matrix, int64_t first, int64_t rows, float* logits) {
        product(&x[first * s.d_model], s.d_model, rows, matrix, logits, matrix.columns, threads);
    }

  private:
    static constexpr int64_t SIDE_BY_SIDE = 4;  // prefixes of a sentence that look at its source together

    const Model& m;
    const Sizes& s;
    const int threads;
    std::vector<float> x, wide, heads, f, scores;

    // One head of one prefix over itself.
    void attend_to_prefix(const float* query, int64_t l, const Prefix& prefix, const Cache& cache, int64_t head,
                          float* out) {
        const int64_t keys = prefix.length + 1, d_k = s.d_k, d_v = s.d_v;
        const float scale = 1.0f / __builtin_sqrtf(d_k);
        for (int64_t first = 0; first < keys; first += W) {
            Floats dots[W] = {};
            for (int64_t p = first; p < std::min(first + W, keys); ++p) {
                const float* key = cache.K + (cache.place(l, p, prefix.slots[p]) * s.h + head) * d_k;
                for (int64_t c = 0; c < d_k; c += W) {
                    const int64_t n = std::min(W, d_k - c);
                    dots[p - first] = fused(load(query + c, n), load(key + c, n), dots[p - first]);
                }
            }
            store(&scores[first], sums_of(dots) * scale);
        }
        softmax(scores.data(), keys, nullptr);
        for (int64_t c = 0; c < d_v; c += W) {
            const int64_t n = std::min(W, d_v - c);
            Floats total{};
            for (int64_t p = 0; p < keys; ++p) {
                const float* value = cache.V + (cache.place(l, p, prefix.slots[p]) * s.h + head) * d_v;
                total = fused(scores[p], load(value + c, n), total);
            }
            store(out + c, total, n);
        }
    }

    // One head of N prefixes of a sentence over its source. query and out have rows of h * d_k and h * d_v.
    template <int N>
    void attend_to_source(const float* query, int64_t l, const Source& source, int64_t head, float* out) {
        const int64_t S = source.S, used = padded(source.length), width_k = s.h * s.d_k, width_v = s.h * s.d_v;
        const float* memory = source.memory + l * memory_of_layer(s, S);
        const float *keys = memory + head * s.d_k * S, *values = memory + width_k * S + head * S * s.d_v;
        const float scale = 1.0f / __builtin_sqrtf(s.d_k);
        for (int64_t j = 0; j < used; j += W) {
            Floats sums[N] = {};
            for (int64_t t = 0; t < s.d_k; ++t) {
                Floats key = load(keys + t * S + j);
                for (int q = 0; q < N; ++q) sums[q] = fused(query[q * width_k + t], key, sums[q]);
            }
            for (int q = 0; q < N; ++q) store(&scores[q * S + j], sums[q] * scale);
        }
        for (int q = 0; q < N; ++q) softmax(&scores[q * S], source.length, nullptr);
        for (int64_t c = 0; c < s.d_v; c += W) {
            const int64_t n = std::min(W, s.d_v - c);
            Floats sums[N] = {};
            for (int64_t p = 0; p < source.length; ++p) {
                Floats value = load(values + p * s.d_v + c, n);
                for (int q = 0; q < N; ++q) sums[q] = fused(scores[q * S + p], value, sums[q]);
            }
            for (int q = 0; q < N; ++q) store(out + q * width_v + c, sums[q], n);
        }
    }

    void self_attention(int64_t l, const Prefix* prefixes, int64_t rows, const Cache& cache) {
        const DecoderLayer& layer = m.decoder[l];
        const int64_t width_k = s.h * s.d_k, width_v = s.h * s.d_v, all = 2 * width_k + width_v;
        product(x.data(), s.d_model, rows, layer.self_QKV, wide.data(), all, threads);
        for (int64_t r = 0; r < rows; ++r) {
            const float* from = &wide[r * all];
            const Prefix& prefix = prefixes[r];
            const int64_t place = cache.place(l, prefix.length, prefix.slots[prefix.length]);
            std::memcpy(cache.K + place * width_k, from + width_k, width_k * sizeof(float));
            std::memcpy(cache.V + place * width_v, from + 2 * width_k, width_v * sizeof(float));
            for (int64_t head = 0; head < s.h; ++head)
                attend_to_prefix(from + head * s.d_k, l, prefix, cache, head, &heads[r * width_v + head * s.d_v]);
        }
        product(heads.data(), width_v, rows, layer.self_O, f.data(), s.d_model, threads);
        add_and_norm(x.data(), f.data(), rows, s.d_model, layer.norms[0], s.epsilon);
    }

    void cross_attention(int64_t l, const Prefix* prefixes, int64_t rows) {
        const DecoderLayer& layer = m.decoder[l];
        const int64_t width_k = s.h * s.d_k, width_v = s.h * s.d_v;
        product(x.data(), s.d_model, rows, layer.cross_Q, wide.data(), width_k, threads);
        for (int64_t r = 0; r < rows;) {
            const Source& source = *prefixes[r].source;
            int64_t count = 1;
            while (count < SIDE_BY_SIDE && r + count < rows && prefixes[r + count].source == &source) ++count;
            for (int64_t head = 0; head < s.h; ++head) {
                const float* query = &wide[r * width_k + head * s.d_k];
                float* out = &heads[r * width_v + head * s.d_v];
                switch (count) {
                    case 1: attend_to_source<1>(query, l, source, head, out); break;
                    case 2: attend_to_source<2>(query, l, source, head, out); break;
                    case 3: attend_to_source<3>(query, l, source, head, out); break;
                    default: attend_to_source<4>(query, l, source, head, out);
                }
            }
            r += count;
        }
        product(heads.data(), width_v, rows, layer.cross_O, f.data(), s.d_model, threads);
        add_and_norm(x.data(), f.data(), rows, s.d_model, layer.norms[1], s.epsilon);
    }
};

}  // namespace
