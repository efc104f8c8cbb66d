// Dropout (5.4), by random bits that were drawn before.

#pragma once

#include "vectors.h"

namespace {

// Where dropout keeps an element: its 16 random bits, as a signed number, are at least the threshold.
inline Floats kept(const int16_t* bits, int32_t threshold, float scale, int64_t n) {
    Shorts drawn{};
    std::memcpy(&drawn, bits, n * sizeof(int16_t));
    Ints keep = __builtin_convertvector(drawn, Ints) >= threshold;
    return choose(keep, fill(scale), Floats{});
}

}  // namespace
