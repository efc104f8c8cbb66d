// Embeddings of training (3.4, 3.5, 5.4): Dropout(E[token] * scale + position), and the gradient by E.

#include "dropout.h"

namespace {

template <class T>
void embed_forward(const T* weight, const int64_t* ids, const int64_t* positions, const T* table, float scale,
                   const int16_t* bits, int32_t threshold, float keep, int64_t rows, int64_t d, T* out) {
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < d; c += W) {
            const int64_t n = std::min(W, d - c);
            // Rounded where PyTorch's steps are: the scaled row, then the sum.
            Floats x = rounded_to(out, load(weight + ids[r] * d + c, n) * scale);
            x = rounded_to(out, x + load(table + positions[r] * d + c, n));
            if (bits) x = x * kept(bits + r * d + c, threshold, keep, n);
            store(out + r * d + c, x, n);
        }
}

// sums (V, d) += the gradient of each row's token. Each thread has columns of its own, and takes the rows in order.
template <class T>
void embed_backward(const T* upstream, const int64_t* ids, float scale, const int16_t* bits, int32_t threshold,
                    float keep, int64_t rows, int64_t d, float* sums) {
#pragma omp parallel for schedule(static)
    for (int64_t c = 0; c < d; c += W) {
        const int64_t n = std::min(W, d - c);
        for (int64_t r = 0; r < rows; ++r) {
            Floats g = load(upstream + r * d + c, n);
            if (bits) g = g * kept(bits + r * d + c, threshold, keep, n);
            float* to = sums + ids[r] * d + c;
            store(to, load(to, n) + g * scale, n);
        }
    }
}

}  // namespace

#define EXPORT(T, NAME)                                                                                          \
    extern "C" void embed_forward_##NAME(const T* weight, const int64_t* ids, const int64_t* positions,          \
                                         const T* table, float scale, const int16_t* bits, int32_t threshold,    \
                                         float keep, int64_t rows, int64_t d, T* out) {                          \
        embed_forward(weight, ids, positions, table, scale, bits, threshold, keep, rows, d, out);                \
    }                                                                                                            \
    extern "C" void embed_backward_##NAME(const T* upstream, const int64_t* ids, float scale,                    \
                                          const int16_t* bits, int32_t threshold, float keep, int64_t rows,      \
                                          int64_t d, float* sums) {                                              \
        embed_backward(upstream, ids, scale, bits, threshold, keep, rows, d, sums);                              \
    }

EXPORT(float, float32)
EXPORT(bf16, bfloat16)
