// Random bits as a function of a seed and a place (splitmix64): the same in any order, on any number of threads.
//
// As dropout.random_bits.

#include "vectors.h"

namespace {

typedef uint64_t Longs __attribute__((vector_size(VECTOR_BYTES)));
constexpr int64_t LANES = VECTOR_BYTES / 8;
constexpr uint64_t STEP = 0x9E3779B97F4A7C15, FIRST = 0xBF58476D1CE4E5B9, SECOND = 0x94D049BB133111EB;

}  // namespace

// words [count]: the 64 bits of places 0 .. count - 1.
extern "C" void random_words(uint64_t seed, int64_t count, uint64_t* words) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i += LANES) {
        Longs z;
        for (int k = 0; k < LANES; ++k) z[k] = k;
        z = (z + (uint64_t)i + 1) * STEP + seed;
        z = (z ^ (z >> 30)) * FIRST;
        z = (z ^ (z >> 27)) * SECOND;
        z = z ^ (z >> 31);
        const int64_t n = count - i < LANES ? count - i : LANES;
        std::memcpy(words + i, &z, n * sizeof(uint64_t));
    }
}
