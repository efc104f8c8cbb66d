// Scaled dot-product attention (3.2.1, Eq. 1), forwards and backwards, a head of a sentence at a time.
//
// Two ways to say where a sentence's rows are: padded, (B, h, L, d) with any distances and a mask; and packed, rows of
// all sentences one after another, where every key of the sentence may be attended to, or those up to the query.

#include "heads.h"

namespace {

// Rows of numbers: those of one head of one sentence, `distance` apart.
template <class T>
struct Rows {
    T* data;
    int64_t distance;
    T* at(int64_t i) const { return data + i * distance; }
};

// Which keys a query may attend to: those whose byte is not 0 (data may be null), and, if causal, none after it.
struct Legal {
    const uint8_t* data;
    int64_t query;
    bool causal;
};

struct Sizes {
    int64_t queries, keys, d_k, d_v;
    float scale;
};

// out[j][:] += sum_q left[q][j] * right[q][:] for AT_ONCE rows q.
inline void add_outer(const float* left, int64_t left_wide, int64_t count, const float* right, int64_t wide,
                      float* out) {
    for (int64_t c = 0; c < wide; c += W) {
        Floats r0 = load(right + c), r1 = load(right + wide + c), r2 = load(right + 2 * wide + c),
               r3 = load(right + 3 * wide + c);
        for (int64_t j = 0; j < count; ++j) {
            Floats o = load(out + j * wide + c);
            o = fused(left[j], r0, o);
            o = fused(left[left_wide + j], r1, o);
            o = fused(left[2 * left_wide + j], r2, o);
            o = fused(left[3 * left_wide + j], r3, o);
            store(out + j * wide + c, o);
        }
    }
}

// One thread's room, for heads of at most so many keys.
struct Buffers {
    std::vector<float> turned, rows, query, up, weights, slopes, sums, key_sums, value_sums;
    Buffers(int64_t keys, int64_t d_k, int64_t d_v)
        : turned(std::max(d_k, d_v) * padded(keys)),
          rows(keys * padded(std::max(d_k, d_v))),
          query(AT_ONCE * padded(d_k)),
          up(AT_ONCE * padded(d_v)),
          weights(AT_ONCE * padded(keys)),
          slopes(AT_ONCE * padded(keys)),
          sums(AT_ONCE * padded(std::max(d_k, d_v))),
          key_sums(keys * padded(d_k)),
          value_sums(keys * padded(d_v)) {}
};

template <class T>
void write_row(const float* from, int64_t d, T* to) {
    for (int64_t c = 0; c < d; c += W) store(to + c, load(from + c), std::min(W, d - c));
}

// weights = softmax(scale Q K^T), heads = weights V. weights (queries, keys) are kept for the gradient.
template <class T>
void head_forward(Rows<const T> Q, Rows<const T> K, Rows<const T> V, Legal legal, const Sizes& s, Rows<T> out,
                  T* weights, Buffers& b) {
    const int64_t wide_keys = padded(s.keys), wide_v = padded(s.d_v), wide_k = padded(s.d_k);
    copy_turned(K.data, K.distance, s.keys, s.d_k, b.turned.data());
    copy_rows(V.data, V.distance, s.keys, s.d_v, 1.0f, b.rows.data());
    for (int64_t i = 0; i < s.queries; i += AT_ONCE) {
        const int64_t count = std::min(AT_ONCE, s.queries - i);
        copy_rows(Q.at(i), Q.distance, count, s.d_k, s.scale, b.query.data());
        products<AT_ONCE>(b.query.data(), wide_k, s.d_k, b.turned.data(), wide_keys, b.weights.data(), wide_keys);
        for (int64_t q = 0; q < count; ++q) {
            float* row = &b.weights[q * wide_keys];
            const int64_t reach = legal.causal ? std::min(i + q + 1, s.keys) : s.keys;
            softmax(row, reach, legal.data ? legal.data + (i + q) * legal.query : nullptr);
            std::fill(row + padded(reach), row + wide_keys, 0.0f);
            T* kept = weights + (i + q) * s.keys;
            for (int64_t j = 0; j < s.keys; j += W) {
                Floats w = rounded_to(weights, load(row + j));
                store(kept + j, w, std::min(W, s.keys - j));
                store(row + j, w);
            }
        }
        products<AT_ONCE>(b.weights.data(), wide_keys, s.keys, b.rows.data(), wide_v, b.sums.data(), wide_v);
        for (int64_t q = 0; q < count; ++q) write_row(&b.sums[q * wide_v], s.d_v, out.at(i + q));
    }
}

// G being the gradient by the heads:
//   dV = W^T G,  dW = G V^T,  dS = W * (dW - rowsum(dW * W)),  dQ = scale dS K,  dK = scale dS^T Q
template <class T>
void head_backward(Rows<const T> G, Rows<const T> Q, Rows<const T> K, Rows<const T> V, const T* weights,
                   const Sizes& s, Rows<T> dQ, Rows<T> dK, Rows<T> dV, Buffers& b) {
    const int64_t wide_keys = padded(s.keys), wide_v = padded(s.d_v), wide_k = padded(s.d_k);
    copy_turned(V.data, V.distance, s.keys, s.d_v, b.turned.data());
    copy_rows(K.data, K.distance, s.keys, s.d_k, s.scale, b.rows.data());
    std::fill_n(b.key_sums.data(), s.keys * wide_k, 0.0f);
    std::fill_n(b.value_sums.data(), s.keys * wide_v, 0.0f);
    for (int64_t i = 0; i < s.queries; i += AT_ONCE) {
        const int64_t count = std::min(AT_ONCE, s.queries - i);
        if (count < AT_ONCE) {  // what is beyond the last query must add nothing
            std::fill(b.query.begin(), b.query.end(), 0.0f);
            std::fill(b.up.begin(), b.up.end(), 0.0f);
            std::fill(b.weights.begin(), b.weights.end(), 0.0f);
        }
        copy_rows(Q.at(i), Q.distance, count, s.d_k, s.scale, b.query.data());
        copy_rows(G.at(i), G.distance, count, s.d_v, 1.0f, b.up.data());
        copy_rows(weights + i * s.keys, s.keys, count, s.keys, 1.0f, b.weights.data());
        products<AT_ONCE>(b.up.data(), wide_v, s.d_v, b.turned.data(), wide_keys, b.slopes.data(), wide_keys);
        for (int64_t q = 0; q < AT_ONCE; ++q) {
            float *weight = &b.weights[q * wide_keys], *slope = &b.slopes[q * wide_keys];
            Floats along{};
            for (int64_t j = 0; j < s.keys; j += W) along = fused(load(weight + j), load(slope + j), along);
            const float total = sum(along);
            for (int64_t j = 0; j < s.keys; j += W) store(slope + j, load(weight + j) * (load(slope + j) - total));
        }
        products<AT_ONCE>(b.slopes.data(), wide_keys, s.keys, b.rows.data(), wide_k, b.sums.data(), wide_k);
        for (int64_t q = 0; q < count; ++q) write_row(&b.sums[q * wide_k], s.d_k, dQ.at(i + q));
        add_outer(b.slopes.data(), wide_keys, s.keys, b.query.data(), wide_k, b.key_sums.data());
        add_outer(b.weights.data(), wide_keys, s.keys, b.up.data(), wide_v, b.value_sums.data());
    }
    for (int64_t j = 0; j < s.keys; ++j) {
        write_row(&b.key_sums[j * wide_k], s.d_k, dK.at(j));
        write_row(&b.value_sums[j * wide_v], s.d_v, dV.at(j));
    }
}

// A tensor (B, h, L, d) whose last dimension is contiguous.
template <class T>
struct Heads {
    T* data;
    int64_t batch, head, row;  // distances
    Rows<T> of(int64_t b, int64_t h) const { return {data + b * batch + h * head, row}; }
};

// True where a query may attend to a key: (B or 1, 1, Q or 1, K).
struct Mask {
    const uint8_t* data;
    int64_t batch, query;
    Legal of(int64_t b) const { return {data ? data + b * batch : nullptr, query, false}; }
};

// As attention.attend_written_out; weights (B, h, Q, K).
template <class T>
void attention_forward(Heads<const T> Q, Heads<const T> K, Heads<const T> V, Mask mask, float scale, int64_t B,
                       int64_t h, int64_t queries, int64_t keys, int64_t d_k, int64_t d_v, Heads<T> out,
                       T* weights) {
    const Sizes sizes{queries, keys, d_k, d_v, scale};
#pragma omp parallel
    {
        Buffers buffers(keys, d_k, d_v);
#pragma omp for schedule(static)
        for (int64_t n = 0; n < B * h; ++n) {
            const int64_t b = n / h, k = n % h;
            head_forward(Q.of(b, k), K.of(b, k), V.of(b, k), mask.of(b), sizes, out.of(b, k),
                         weights + n * queries * keys, buffers);
        }
    }
}

template <class T>
void attention_backward(Heads<const T> G, Heads<const T> Q, Heads<const T> K, Heads<const T> V, const T* weights,
                        float scale, int64_t B, int64_t h, int64_t queries, int64_t keys, int64_t d_k,
                        int64_t d_v, Heads<T> dQ, Heads<T> dK, Heads<T> dV) {
    const Sizes sizes{queries, keys, d_k, d_v, scale};
#pragma omp parallel
    {
        Buffers buffers(keys, d_k, d_v);
#pragma omp for schedule(static)
        for (int64_t n = 0; n < B * h; ++n) {
            const int64_t b = n / h, k = n % h;
            head_backward(G.of(b, k), Q.of(b, k), K.of(b, k), V.of(b, k), weights + n * queries * keys, sizes,
                          dQ.of(b, k), dK.of(b, k), dV.of(b, k), buffers);
        }
    }
}

// Packed sentences: rows of queries and of keys begin at these places, the last being the number of all rows; weights
// of a sentence, head after head, at theirs.
struct Packed {
    const int64_t *queries, *keys, *weights;
    int64_t B, h, d_k, d_v, causal;
    float scale;
    int64_t longest() const {
        int64_t most = 0;
        for (int64_t b = 0; b < B; ++b) most = std::max(most, keys[b + 1] - keys[b]);
        return most;
    }
    Sizes sizes(int64_t b) const { return {queries[b + 1] - queries[b], keys[b + 1] - keys[b], d_k, d_v, scale}; }
};

template <class T>
Rows<T> rows_of(const Rows<T>& all, int64_t first, int64_t head, int64_t d) {
    return {all.at(first) + head * d, all.distance};
}

// Calls work(sentence, head, sizes, place of its weights, buffers) for all of them.
template <class Work>
void for_each_head(const Packed& p, Work work) {
    const int64_t longest = p.longest();
#pragma omp parallel
    {
        Buffers buffers(longest, p.d_k, p.d_v);
#pragma omp for schedule(dynamic, 4)
        for (int64_t b = 0; b < p.B; ++b) {
            const Sizes s = p.sizes(b);
            for (int64_t k = 0; k < p.h; ++k) work(b, k, s, p.weights[b] + k * s.queries * s.keys, buffers);
        }
    }
}

template <class T>
void packed_forward(const Packed& p, Rows<const T> Q, Rows<const T> K, Rows<const T> V, Rows<T> out, T* weights) {
    for_each_head(p, [&](int64_t b, int64_t k, const Sizes& s, int64_t place, Buffers& buffers) {
        head_forward(rows_of(Q, p.queries[b], k, p.d_k), rows_of(K, p.keys[b], k, p.d_k),
                     rows_of(V, p.keys[b], k, p.d_v), Legal{nullptr, 0, p.causal != 0}, s,
                     rows_of(out, p.queries[b], k, p.d_v), weights + place, buffers);
    });
}

template <class T>
void packed_backward(const Packed& p, Rows<const T> G, Rows<const T> Q, Rows<const T> K, Rows<const T> V,
                     const T* weights, Rows<T> dQ, Rows<T> dK, Rows<T> dV) {
    for_each_head(p, [&](int64_t b, int64_t k, const Sizes& s, int64_t place, Buffers& buffers) {
        head_backward(rows_of(G, p.queries[b], k, p.d_v), rows_of(Q, p.queries[b], k, p.d_k),
                      rows_of(K, p.keys[b], k, p.d_k), rows_of(V, p.keys[b], k, p.d_v), weights + place, s,
                      rows_of(dQ, p.queries[b], k, p.d_k), rows_of(dK, p.keys[b], k, p.d_k),
                      rows_of(dV, p.keys[b], k, p.d_v), buffers);
    });
}

}  // namespace

#define EXPORT(T, NAME)                                                                                        \
    extern "C" void attention_forward_##NAME(                                                                  \
        const Heads<const T>* Q, const Heads<const T>* K, const Heads<const T>* V, const Mask* mask,           \
        float scale, int64_t B, int64_t h, int64_t queries, int64_t keys, int64_t d_k, int64_t d_v,            \
        const Heads<T>* out, T* weights) {                                                                     \
        attention_forward(*Q, *K, *V, *mask, scale, B, h, queries, keys, d_k, d_v, *out, weights);             \
    }                                                                                                          \
    extern "C" void attention_backward_##NAME(                                                                 \
        const Heads<const T>* G, const Heads<const T>* Q, const Heads<const T>* K, const Heads<const T>* V,    \
        const T* weights, float scale, int64_t B, int64_t h, int64_t queries, int64_t keys, int64_t d_k,       \
        int64_t d_v, const Heads<T>* dQ, const Heads<T>* dK, const Heads<T>* dV) {                             \
        attention_backward(*G, *Q, *K, *V, weights, scale, B, h, queries, keys, d_k, d_v, *dQ, *dK, *dV);      \
    }                                                                                                          \
    extern "C" void packed_forward_##NAME(const Packed* p, const Rows<const T>* Q, const Rows<const T>* K,     \
                                          const Rows<const T>* V, const Rows<T>* out, T* weights) {            \
        packed_forward(*p, *Q, *K, *V, *out, weights);                                                         \
    }                                                                                                          \
    extern "C" void packed_backward_##NAME(const Packed* p, const Rows<const T>* G, const Rows<const T>* Q,    \
                                           const Rows<const T>* K, const Rows<const T>* V, const T* weights,   \
                                           const Rows<T>* dQ, const Rows<T>* dK, const Rows<T>* dV) {          \
        packed_backward(*p, *G, *Q, *K, *V, weights, *dQ, *dK, *dV);                                           \
    }

EXPORT(float, float32)
EXPORT(bf16, bfloat16)
