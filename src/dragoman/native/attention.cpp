// Scaled dot-product attention (3.2.1, Eq. 1), forwards and backwards, a head of a sentence at a time.

#include "heads.h"

namespace {

// A tensor (B, h, L, d) whose last dimension is contiguous.
template <class T>
struct Heads {
    T* data;
    int64_t batch, head, row;  // distances
    T* at(int64_t b, int64_t h, int64_t i = 0) const { return data + b * batch + h * head + i * row; }
};

// True where a query may attend to a key: (B or 1, 1, Q or 1, K).
struct Mask {
    const uint8_t* data;
    int64_t batch, query;
};

// out[j][:] += sum_q left[q][j] * right[q][:] for AT_ONCE rows q.
inline void add_outer(const float* left, int64_t left_wide, int64_t count, const float* right, int64_t wide,
                      float* out) {
    for (int64_t c = 0; c < wide; c += W) {
        Floats r0 = load(right + c), r1 = load(right + wide + c), r2 = load(right + 2 * wide + c),
               r3 = load(right + 3 * wide + c);
        for (int64_t j = 0; j < count; ++j) {
            Floats o = load(out + j * wide + c);
            o += left[j] * r0 + left[left_wide + j] * r1;
            o += left[2 * left_wide + j] * r2 + left[3 * left_wide + j] * r3;
            store(out + j * wide + c, o);
        }
    }
}

// Attention (Eq. 1): weights = softmax(scale Q K^T), heads = weights V. As attention.attend_written_out.
// weights (B, h, Q, K) are kept for the gradient; null where there will be none.
template <class T>
void attention_forward(Heads<const T> Q, Heads<const T> K, Heads<const T> V, Mask mask, float scale,
                       int64_t B, int64_t h, int64_t queries, int64_t keys, int64_t d_k, int64_t d_v,
                       Heads<T> out, T* weights) {
    const int64_t wide_keys = padded(keys), wide_v = padded(d_v), wide_k = padded(d_k);
#pragma omp parallel
    {
        std::vector<float> turned(d_k * wide_keys), values(keys * wide_v), query(AT_ONCE * wide_k),
            scores(AT_ONCE * wide_keys), sums(AT_ONCE * wide_v);
#pragma omp for schedule(static)
        for (int64_t n = 0; n < B * h; ++n) {
            const int64_t b = n / h, head = n % h;
            copy_turned(K.at(b, head), K.row, keys, d_k, turned.data());
            copy_rows(V.at(b, head), V.row, keys, d_v, 1.0f, values.data());
            for (int64_t i = 0; i < queries; i += AT_ONCE) {
                const int64_t count = std::min(AT_ONCE, queries - i);
                copy_rows(Q.at(b, head, i), Q.row, count, d_k, scale, query.data());
                products<AT_ONCE>(query.data(), wide_k, d_k, turned.data(), wide_keys, scores.data(), wide_keys);
                for (int64_t q = 0; q < count; ++q) {
                    float* row = &scores[q * wide_keys];
                    const uint8_t* legal = mask.data ? mask.data + b * mask.batch + (i + q) * mask.query : nullptr;
                    softmax(row, keys, legal);
                    if (!weights) continue;
                    T* kept_row = weights + (n * queries + i + q) * keys;
                    for (int64_t j = 0; j < keys; j += W) {
                        Floats w = rounded_to(weights, load(row + j));
                        store(kept_row + j, w, std::min(W, keys - j));
                        store(row + j, w);
                    }
                }
                products<AT_ONCE>(scores.data(), wide_keys, keys, values.data(), wide_v, sums.data(), wide_v);
                for (int64_t q = 0; q < count; ++q)
                    for (int64_t c = 0; c < d_v; c += W)
                        store(out.at(b, head, i + q) + c, load(&sums[q * wide_v + c]), std::min(W, d_v - c));
            }
        }
    }
}

// The gradient of attention_forward, G being that by its result:
//   dV = W^T G,  dW = G V^T,  dS = W * (dW - rowsum(dW * W)),  dQ = scale dS K,  dK = scale dS^T Q
template <class T>
void attention_backward(Heads<const T> G, Heads<const T> Q, Heads<const T> K, Heads<const T> V,
                        const T* weights, float scale, int64_t B, int64_t h, int64_t queries, int64_t keys,
                        int64_t d_k, int64_t d_v, Heads<T> dQ, Heads<T> dK, Heads<T> dV) {
    const int64_t wide_keys = padded(keys), wide_v = padded(d_v), wide_k = padded(d_k);
#pragma omp parallel
    {
        std::vector<float> turned(d_v * wide_keys), keys_(keys * wide_k), query(AT_ONCE * wide_k),
            up(AT_ONCE * wide_v), w(AT_ONCE * wide_keys), slopes(AT_ONCE * wide_keys), sums(AT_ONCE * wide_k),
            key_sums(keys * wide_k), value_sums(keys * wide_v);
#pragma omp for schedule(static)
        for (int64_t n = 0; n < B * h; ++n) {
            const int64_t b = n / h, head = n % h;
            copy_turned(V.at(b, head), V.row, keys, d_v, turned.data());
            copy_rows(K.at(b, head), K.row, keys, d_k, scale, keys_.data());
            std::fill(key_sums.begin(), key_sums.end(), 0.0f);
            std::fill(value_sums.begin(), value_sums.end(), 0.0f);
            for (int64_t i = 0; i < queries; i += AT_ONCE) {
                const int64_t count = std::min(AT_ONCE, queries - i);
                if (count < AT_ONCE) {  // what is beyond the last query must add nothing
                    std::fill(query.begin(), query.end(), 0.0f);
                    std::fill(up.begin(), up.end(), 0.0f);
                    std::fill(w.begin(), w.end(), 0.0f);
                }
                copy_rows(Q.at(b, head, i), Q.row, count, d_k, scale, query.data());
                copy_rows(G.at(b, head, i), G.row, count, d_v, 1.0f, up.data());
                copy_rows(weights + (n * queries + i) * keys, keys, count, keys, 1.0f, w.data());
                products<AT_ONCE>(up.data(), wide_v, d_v, turned.data(), wide_keys, slopes.data(), wide_keys);
                for (int64_t q = 0; q < AT_ONCE; ++q) {
                    float *weight = &w[q * wide_keys], *slope = &slopes[q * wide_keys];
                    Floats along{};
                    for (int64_t j = 0; j < keys; j += W) along += load(weight + j) * load(slope + j);
                    const float total = sum(along);
                    for (int64_t j = 0; j < keys; j += W)
                        store(slope + j, load(weight + j) * (load(slope + j) - total));
                }
                products<AT_ONCE>(slopes.data(), wide_keys, keys, keys_.data(), wide_k, sums.data(), wide_k);
                for (int64_t q = 0; q < count; ++q)
                    for (int64_t c = 0; c < d_k; c += W)
                        store(dQ.at(b, head, i + q) + c, load(&sums[q * wide_k + c]), std::min(W, d_k - c));
                add_outer(slopes.data(), wide_keys, keys, query.data(), wide_k, key_sums.data());
                add_outer(w.data(), wide_keys, keys, up.data(), wide_v, value_sums.data());
            }
            for (int64_t j = 0; j < keys; ++j) {
                for (int64_t c = 0; c < d_k; c += W)
                    store(dK.at(b, head, j) + c, load(&key_sums[j * wide_k + c]), std::min(W, d_k - c));
                for (int64_t c = 0; c < d_v; c += W)
                    store(dV.at(b, head, j) + c, load(&value_sums[j * wide_v + c]), std::min(W, d_v - c));
            }
        }
    }
}

}  // namespace

#define EXPORT(T, NAME)                                                                                      \
    extern "C" void attention_forward_##NAME(                                                                \
        const Heads<const T>* Q, const Heads<const T>* K, const Heads<const T>* V, const Mask* mask,         \
        float scale, int64_t B, int64_t h, int64_t queries, int64_t keys, int64_t d_k, int64_t d_v,          \
        const Heads<T>* out, T* weights) {                                                                   \
        attention_forward(*Q, *K, *V, *mask, scale, B, h, queries, keys, d_k, d_v, *out, weights);           \
    }                                                                                                        \
    extern "C" void attention_backward_##NAME(                                                               \
        const Heads<const T>* G, const Heads<const T>* Q, const Heads<const T>* K, const Heads<const T>* V,  \
        const T* weights, float scale, int64_t B, int64_t h, int64_t queries, int64_t keys, int64_t d_k,     \
        int64_t d_v, const Heads<T>* dQ, const Heads<T>* dK, const Heads<T>* dV) {                           \
        attention_backward(*G, *Q, *K, *V, weights, scale, B, h, queries, keys, d_k, d_v, *dQ, *dK, *dV);    \
    }

EXPORT(float, float32)
EXPORT(bf16, bfloat16)
