// The connection around each sub-layer (3.1, 5.4), forwards and backwards, each in one pass over memory.
//
// Sizes are in elements. Nothing here allocates what it returns, and nothing remembers anything.

#include "dropout.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace {

int threads() {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

int thread() {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

// z = x + Dropout(f); y = LayerNorm(z) = gain * (z - mean) / sqrt(var + epsilon) + bias, row by row.
// As residual.PostNorm. bits is null where nothing is dropped.
template <class T>
void residual_forward(const T* x, const T* f, const int16_t* bits, int32_t threshold, float scale,
                      const T* gain, const T* bias, float epsilon, int64_t rows, int64_t d, T* z, T* y,
                      float* mean, float* deviation) {
#pragma omp parallel
    {
        std::vector<float> row(padded(d));
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t at = r * d;
            Floats total{};
            for (int64_t c = 0; c < d; c += W) {
                const int64_t n = std::min(W, d - c);
                Floats v = load(f + at + c, n);
                if (bits) v = v * kept(bits + at + c, threshold, scale, n);
                v = rounded_to(x, load(x + at + c, n) + v);
                store(z + at + c, v, n);
                store(&row[c], v);
                total += v;
            }
            const float m = sum(total) / d;
            Floats squares{};
            for (int64_t c = 0; c < d; c += W) {
                Floats v = load(&row[c]) - m;
                if (d - c < W) v = choose(places_below(d - c), v, Floats{});
                squares = fused(v, v, squares);
            }
            const float inverse = 1.0f / __builtin_sqrtf(sum(squares) / d + epsilon);
            for (int64_t c = 0; c < d; c += W) {
                const int64_t n = std::min(W, d - c);
                Floats v = (load(&row[c]) - m) * inverse;
                store(y + at + c, fused(v, load(gain + c, n), load(bias + c, n)), n);
            }
            mean[r] = m;
            deviation[r] = inverse;  // 1 / sqrt(var + epsilon)
        }
    }
}

// The gradient of residual_forward: by z (which is that by x), by f, and summed over rows by gain and bias.
// f_gradient is null where nothing is dropped: it is z_gradient then.
template <class T>
void residual_backward(const T* upstream, const T* z, const float* mean, const float* deviation,
                       const T* gain, const int16_t* bits, int32_t threshold, float scale, int64_t rows,
                       int64_t d, T* z_gradient, T* f_gradient, float* gain_gradient,
                       float* bias_gradient) {
    const int64_t wide = padded(d);
    std::vector<float> sums(threads() * 2 * wide);
#pragma omp parallel
    {
        float* gains = &sums[thread() * 2 * wide];
        float* biases = gains + wide;
        std::vector<float> normed(wide), scaled(wide);
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t at = r * d;
            const float m = mean[r], inverse = deviation[r];
            Floats total{}, along{};
            for (int64_t c = 0; c < d; c += W) {
                const int64_t n = std::min(W, d - c);
                Floats up = load(upstream + at + c, n);
                Floats v = (load(z + at + c, n) - m) * inverse;
                if (n < W) v = choose(places_below(n), v, Floats{});
                Floats g = up * load(gain + c, n);
                store(&normed[c], v);
                store(&scaled[c], g);
                total += g;
                along = fused(g, v, along);
                store(gains + c, fused(up, v, load(gains + c)));
                store(biases + c, load(biases + c) + up);
            }
            const float average = sum(total) / d, slope = sum(along) / d;
            for (int64_t c = 0; c < d; c += W) {
                const int64_t n = std::min(W, d - c);
                Floats g = fused(-slope, load(&normed[c]), load(&scaled[c]) - average) * inverse;
                g = rounded_to(z, g);
                store(z_gradient + at + c, g, n);
                if (f_gradient) store(f_gradient + at + c, g * kept(bits + at + c, threshold, scale, n), n);
            }
        }
    }
    for (int64_t c = 0; c < d; ++c) {
        float gains = 0, biases = 0;
        for (int t = 0; t < threads(); ++t) {
            gains += sums[t * 2 * wide + c];
            biases += sums[t * 2 * wide + wide + c];
        }
        gain_gradient[c] = gains;
        bias_gradient[c] = biases;
    }
}

}  // namespace

#define EXPORT(T, NAME)                                                                                      \
    extern "C" void residual_forward_##NAME(                                                                 \
        const T* x, const T* f, const int16_t* bits, int32_t threshold, float scale, const T* gain,          \
        const T* bias, float epsilon, int64_t rows, int64_t d, T* z, T* y, float* mean, float* deviation) {  \
        residual_forward(x, f, bits, threshold, scale, gain, bias, epsilon, rows, d, z, y, mean, deviation); \
    }                                                                                                        \
    extern "C" void residual_backward_##NAME(                                                                \
        const T* upstream, const T* z, const float* mean, const float* deviation, const T* gain,             \
        const int16_t* bits, int32_t threshold, float scale, int64_t rows, int64_t d, T* z_gradient,         \
        T* f_gradient, float* gain_gradient, float* bias_gradient) {                                         \
        residual_backward(upstream, z, mean, deviation, gain, bits, threshold, scale, rows, d, z_gradient,   \
                          f_gradient, gain_gradient, bias_gradient);                                         \
    }

EXPORT(float, float32)
EXPORT(bf16, bfloat16)
