// Vectors of 16 numbers and what is done with them, for all kernels.
//
// Plain C++ with the vector types that GCC and Clang share: the compiler turns them into what the processor
// has. Computed in float32 whatever tensors hold; what is written to bf16 is rounded once.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr int64_t W = 16;  // numbers in a vector: 64 bytes of float32

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));
typedef int16_t Shorts __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(16)));

struct bf16 {
    uint16_t bits;
};

inline Floats fill(float x) { return Floats{} + x; }

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

// A vector's numbers folded upon each other until one is left: 8 pairs, 4, 2, 1.
template <class Join>
inline float folded(Floats x, Join join) {
    x = join(x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    x = join(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    x = join(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    x = join(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    return x[0];
}

inline float sum(Floats x) {
    return folded(x, [](Floats a, Floats b) { return a + b; });
}

inline float largest(Floats x) { return folded(x, larger); }

inline bool any(Ints places) {
    typedef int64_t Longs __attribute__((vector_size(64)));
    const Longs x = (Longs)places;
    return (x[0] | x[1] | x[2] | x[3] | x[4] | x[5] | x[6] | x[7]) != 0;
}

// e^x for x <= 88, to 2 units in the last place; 0 below -87, where float32 ends.
inline Floats exponential(Floats x) {
    const Floats magic = fill(12582912.0f);  // adding 1.5 * 2^23 rounds to a whole number
    Floats n = (x * 1.44269504f + magic) - magic;
    Floats r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;  // ln 2 in two parts, the first exact
    Floats p = fill(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    Ints power = (__builtin_convertvector(n, Ints) + 127) << 23;
    return choose(x < -87.0f, Floats{}, p * (Floats)power);  // NaN stays NaN
}

// The first n of a vector's places.
inline Ints places_below(int64_t n) {
    const Ints places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
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
