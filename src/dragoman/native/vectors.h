// Vectors as wide as the processor's and what is done with them, for all kernels.
//
// Plain C++ with the vector types that GCC and Clang share: the compiler turns them into what the processor
// has. Computed in float32 whatever tensors hold; what is written to bf16 is rounded once.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

// A vector that is wider than a register would be kept in memory.
#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64, REGISTERS = 32;
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32, REGISTERS = 16;
#elif defined(__aarch64__)
constexpr int VECTOR_BYTES = 16, REGISTERS = 32;
#else
constexpr int VECTOR_BYTES = 16, REGISTERS = 16;
#endif

constexpr int64_t W = VECTOR_BYTES / 4;  // numbers in a vector of float32

typedef float Floats __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t Ints __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t Words __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t Halves __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef int16_t Shorts __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef uint8_t Bytes __attribute__((vector_size(VECTOR_BYTES / 4)));

struct bf16 {
    uint16_t bits;
};

inline Floats fill(float x) { return x - Floats{}; }  // not +: that would make a 0 of -0

// a * b + c, rounded once where the processor does that. Written out wherever it is wanted, and never left to the compiler,
// which would decide anew for each loop: a row's result must not depend on how many rows are computed with it.
inline Floats fused(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

inline Floats fused(float a, Floats b, Floats c) { return fused(fill(a), b, c); }

inline Floats choose(Ints condition, Floats yes, Floats no) { return condition ? yes : no; }

inline Floats widen(Halves bits) { return (Floats)(__builtin_convertvector(bits, Words) << 16); }

// To the nearest bf16, ties to even; NaN stays NaN.
inline Halves narrow(Floats x) {
    Words bits = (Words)x;
    Words rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return __builtin_convertvector((x == x ? rounded : Words{} + 0x7fc00000) >> 16, Halves);
}

inline Floats load(const float* from, int64_t n = W) {
    Floats x{};
    if (n == W) {
        std::memcpy(&x, from, sizeof x);
    } else {
        std::memcpy(&x, from, n * sizeof(float));
    }
    return x;
}

inline Floats load(const bf16* from, int64_t n = W) {
    Halves bits{};
    if (n == W) {
        std::memcpy(&bits, from, sizeof bits);
    } else {
        std::memcpy(&bits, from, n * sizeof(bf16));
    }
    return widen(bits);
}

inline void store(float* to, Floats x, int64_t n = W) {
    if (n == W) {
        std::memcpy(to, &x, sizeof x);
    } else {
        std::memcpy(to, &x, n * sizeof(float));
    }
}

inline void store(bf16* to, Floats x, int64_t n = W) {
    Halves bits = narrow(x);
    if (n == W) {
        std::memcpy(to, &bits, sizeof bits);
    } else {
        std::memcpy(to, &bits, n * sizeof(bf16));
    }
}

inline Floats rounded_to(const float*, Floats x) { return x; }
inline Floats rounded_to(const bf16*, Floats x) { return widen(narrow(x)); }

inline Floats larger(Floats x, Floats y) { return x > y ? x : y; }

template <class Place, int... I>
inline Floats picked(Floats a, Floats b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, Place::of(I)...);
}

// Number Place::of(i) of a's and then b's at each place i.
template <class Place>
inline Floats picked(Floats a, Floats b) {
    return picked<Place>(a, b, std::make_integer_sequence<int, W>{});
}

template <int STEP>
struct Exchanged {
    static constexpr int of(int i) { return i ^ STEP; }
};

// A vector's numbers folded upon each other until one is left: W / 2 pairs, W / 4, ..., 1.
template <int STEP = W / 2, class Join>
inline float folded(Floats x, Join join) {
    x = join(x, picked<Exchanged<STEP>>(x, x));
    if constexpr (STEP > 1)
        return folded<STEP / 2>(x, join);
    else
        return x[0];
}

inline float sum(Floats x) {
    return folded(x, [](Floats a, Floats b) { return a + b; });
}

inline float largest(Floats x) { return folded(x, larger); }

inline bool any(Ints places) {
    typedef int64_t Longs __attribute__((vector_size(VECTOR_BYTES)));
    const Longs x = (Longs)places;
    int64_t all = 0;
    for (int64_t k = 0; k < W / 2; ++k) all |= x[k];
    return all != 0;
}

// e^x for x <= 88, to 2 units in the last place; 0 below -87, where float32 ends.
inline Floats exponential(Floats x) {
    const Floats magic = fill(12582912.0f);  // adding 1.5 * 2^23 rounds to a whole number
    Floats n = fused(1.44269504f, x, magic) - magic;
    Floats r = fused(-0.693359375f, n, x);
    r = fused(2.12194440e-4f, n, r);  // ln 2 in two parts, the first exact
    Floats p = fill(1.9875691500e-4f);
    p = fused(p, r, fill(1.3981999507e-3f));
    p = fused(p, r, fill(8.3334519073e-3f));
    p = fused(p, r, fill(4.1665795894e-2f));
    p = fused(p, r, fill(1.6666665459e-1f));
    p = fused(p, r, fill(5.0000001201e-1f));
    p = fused(p * r, r, r) + 1.0f;
    Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
    return choose(x < -87.0f, Floats{}, p * (Floats)power);  // NaN stays NaN
}

// The first n of a vector's places.
inline Ints places_below(int64_t n) {
    Ints places;
    for (int k = 0; k < W; ++k) places[k] = k;
    return places < (int32_t)std::min(n, W);
}

// Places where a byte is not 0; there are n.
inline Ints places_of(const uint8_t* bytes, int64_t n) {
    Bytes some{};
    std::memcpy(&some, bytes, n);
    return __builtin_convertvector(some, Ints) != 0;
}

inline int64_t padded(int64_t n) { return (n + W - 1) / W * W; }

}  // namespace
