// One step of the decoder (3.1, 3.2.3, 3.3) for all hypotheses: tokens in, logits of the next tokens out.
//
// The same values as DecoderLayer.step. Hypotheses are taken in blocks; a block goes through all layers in one
// piece, on one thread, while it is in the cache. Keys and values of the prefix never move: each step writes its
// own slots, and a hypothesis knows the slots of its ancestors.

#include "heads.h"
#include "layers.h"

#include <memory>

namespace {

struct Layer {
    Matrix self_QKV, self_O, cross_Q, cross_O;
    Network feed_forward;
    Norm norms[3];
    float *K, *V;                         // of the prefix: [position][slot][h * d]
    const float *source_K, *source_V;     // of the sources: [sentence][h][d_k][S], [sentence][h][S][d_v]
};

struct Step {
    const int64_t* tokens;          // [rows]
    const float* position;          // [d_model], of this position
    int64_t rows, hypotheses;       // hypotheses of each sentence
    const int32_t* sentences;       // [rows / hypotheses], the place of each sentence among the sources
    const int64_t* source_lengths;  // of all sources
    int64_t S;                      // places a source has room for, a multiple of 16
    int32_t* ancestors;             // [rows][room]: the slot of each position of the prefix
    int64_t room, slots, length;    // length: positions before this one
};

// The sums of 16 vectors, in their order.
inline Floats pair_sums(Floats a, Floats b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

inline Floats sums_of(Floats* v) {
    for (int64_t count = W; count > 1; count /= 2)
        for (int64_t k = 0; k < count / 2; ++k) v[k] = pair_sums(v[2 * k], v[2 * k + 1]);
    return v[0];
}

// One head of one hypothesis over its own prefix, this position included.
void attend_to_prefix(const float* query, const Layer& layer, const Sizes& sizes, const Step& step,
                      const int32_t* slots, int64_t head, float* scores, float* out) {
    const int64_t keys = step.length + 1, d_k = sizes.d_k, d_v = sizes.d_v, h = sizes.h;
    const float scale = 1.0f / __builtin_sqrtf(d_k);
    for (int64_t first = 0; first < keys; first += W) {
        Floats dots[W] = {};
        for (int64_t p = first; p < std::min(first + W, keys); ++p) {
            const float* key = layer.K + ((p * step.slots + slots[p]) * h + head) * d_k;
            for (int64_t c = 0; c < d_k; c += W) {
                const int64_t n = std::min(W, d_k - c);
                dots[p - first] += load(query + c, n) * load(key + c, n);
            }
        }
        store(scores + first, sums_of(dots) * scale);
    }
    softmax(scores, keys, nullptr);
    for (int64_t c = 0; c < d_v; c += W) {
        const int64_t n = std::min(W, d_v - c);
        Floats total{};
        for (int64_t p = 0; p < keys; ++p)
            total += scores[p] * load(layer.V + ((p * step.slots + slots[p]) * h + head) * d_v + c, n);
        store(out + c, total, n);
    }
}

// One head of N hypotheses of a sentence over its source. query and out have rows of `wide` and `out_wide`.
template <int N>
void attend_to_source(const float* query, int64_t wide, const Layer& layer, const Sizes& sizes, int64_t S,
                      int64_t sentence, int64_t length, int64_t head, float* scores, float* out,
                      int64_t out_wide) {
    const float* keys = layer.source_K + (sentence * sizes.h + head) * sizes.d_k * S;
    const float* values = layer.source_V + (sentence * sizes.h + head) * S * sizes.d_v;
    const float scale = 1.0f / __builtin_sqrtf(sizes.d_k);
    const int64_t used = padded(length);
    for (int64_t j = 0; j < used; j += W) {
        Floats sums[N] = {};
        for (int64_t t = 0; t < sizes.d_k; ++t) {
            Floats key = load(keys + t * S + j);
            for (int q = 0; q < N; ++q) sums[q] += query[q * wide + t] * key;
        }
        for (int q = 0; q < N; ++q) store(scores + q * S + j, sums[q] * scale);
    }
    for (int q = 0; q < N; ++q) softmax(scores + q * S, length, nullptr);
    for (int64_t c = 0; c < sizes.d_v; c += W) {
        const int64_t n = std::min(W, sizes.d_v - c);
        Floats sums[N] = {};
        for (int64_t p = 0; p < length; ++p) {
            Floats value = load(values + p * sizes.d_v + c, n);
            for (int q = 0; q < N; ++q) sums[q] += scores[q * S + p] * value;
        }
        for (int q = 0; q < N; ++q) store(out + q * out_wide + c, sums[q], n);
    }
}

struct Buffers {
    std::vector<float> x, wide, heads, f, scores;
    Buffers(const Sizes& s, const Step& step, int64_t rows)
        : x(rows * s.d_model),
          wide(rows * std::max(s.h * (2 * s.d_k + s.d_v), s.d_ff)),
          heads(rows * s.h * s.d_v),
          f(rows * s.d_model),
          scores(std::max(padded(step.length + 1), 4 * step.S)) {}
};

void self_attention(const Layer& layer, const Sizes& sizes, const Step& step, int64_t first, int64_t rows,
                    Buffers& b) {
    const int64_t width_k = sizes.h * sizes.d_k, width_v = sizes.h * sizes.d_v, wide = 2 * width_k + width_v;
    product(b.x.data(), sizes.d_model, rows, layer.self_QKV, b.wide.data(), wide);
    for (int64_t r = 0; r < rows; ++r) {
        const float* from = &b.wide[r * wide];
        const int64_t slot = step.length * step.slots + first + r;
        std::memcpy(layer.K + slot * width_k, from + width_k, width_k * sizeof(float));
        std::memcpy(layer.V + slot * width_v, from + 2 * width_k, width_v * sizeof(float));
        const int32_t* slots = step.ancestors + (first + r) * step.room;
        for (int64_t head = 0; head < sizes.h; ++head)
            attend_to_prefix(from + head * sizes.d_k, layer, sizes, step, slots, head, b.scores.data(),
                             &b.heads[r * width_v + head * sizes.d_v]);
    }
    product(b.heads.data(), width_v, rows, layer.self_O, b.f.data(), sizes.d_model);
    add_and_norm(b.x.data(), b.f.data(), rows, sizes.d_model, layer.norms[0], sizes.epsilon);
}

void cross_attention(const Layer& layer, const Sizes& sizes, const Step& step, int64_t first, int64_t rows,
                     Buffers& b) {
    const int64_t width_k = sizes.h * sizes.d_k, width_v = sizes.h * sizes.d_v;
    product(b.x.data(), sizes.d_model, rows, layer.cross_Q, b.wide.data(), width_k);
    for (int64_t r = 0; r < rows;) {
        const int64_t sentence = step.sentences[(first + r) / step.hypotheses];
        const int64_t length = step.source_lengths[sentence];
        const int64_t left = step.hypotheses - (first + r) % step.hypotheses;
        const int64_t count = std::min({left, rows - r, (int64_t)4});
        for (int64_t head = 0; head < sizes.h; ++head) {
            const float* query = &b.wide[r * width_k + head * sizes.d_k];
            float* out = &b.heads[r * width_v + head * sizes.d_v];
            auto attend = count == 1   ? attend_to_source<1>
                          : count == 2 ? attend_to_source<2>
                          : count == 3 ? attend_to_source<3>
                                       : attend_to_source<4>;
            attend(query, width_k, layer, sizes, step.S, sentence, length, head, b.scores.data(), out, width_v);
        }
        r += count;
    }
    product(b.heads.data(), width_v, rows, layer.cross_O, b.f.data(), sizes.d_model);
    add_and_norm(b.x.data(), b.f.data(), rows, sizes.d_model, layer.norms[1], sizes.epsilon);
}

void feed_forward(const Layer& layer, const Sizes& sizes, int64_t rows, Buffers& b) {
    network(layer.feed_forward, b.x.data(), rows, sizes.d_model, b.wide.data(), b.f.data());
    add_and_norm(b.x.data(), b.f.data(), rows, sizes.d_model, layer.norms[2], sizes.epsilon);
}

}  // namespace

// logits [rows][V] of the step; block: rows that go through the layers together.
extern "C" void decoder_step(const Sizes* sizes, const Layer* layers, const float* embedding, float scale,
                             const Matrix* output, const Step* step, int64_t block, float* logits) {
    const int64_t d = sizes->d_model, blocks = (step->rows + block - 1) / block;
#pragma omp parallel
    {
        Buffers buffers(*sizes, *step, block);
        const std::unique_ptr<TileScope> scope(output->is_fast ? new TileScope : nullptr);
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < blocks; ++n) {
            const int64_t first = n * block, rows = std::min(block, step->rows - first);
            for (int64_t r = 0; r < rows; ++r) {
                step->ancestors[(first + r) * step->room + step->length] = (int32_t)(first + r);
                embed(embedding + step->tokens[first + r] * d, scale, step->position, d, &buffers.x[r * d]);
            }
            for (int64_t l = 0; l < sizes->layers; ++l) {
                self_attention(layers[l], *sizes, *step, first, rows, buffers);
                cross_attention(layers[l], *sizes, *step, first, rows, buffers);
                feed_forward(layers[l], *sizes, rows, buffers);
            }
            product(buffers.x.data(), d, rows, *output, logits + first * output->columns, output->columns);
        }
    }
}

// Whether this processor has products of bf16 that the system lets us use.
extern "C" int32_t has_fast_products() { return FAST != 0 && tiles_allowed(); }
