// Products of rounded numbers, by what the processor has for them: of weights and inputs in bf16 with sums in float32,
// where FAST is not 0; and of both as whole numbers of 8 bits with sums of 32, where SHORT is not 0.
//
// As in matrix.h a row's result does not depend on the rows beside it.

#pragma once

#include "vectors.h"

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define FAST 2  // AMX: tiles of 16 rows and 16 columns
#elif defined(__AVX512BF16__)
#include <immintrin.h>
#define FAST 1  // pairs of bf16, a vector at a time
#else
#define FAST 0
#endif

#if FAST == 2 && defined(__AMX_INT8__)
#define SHORT 2  // AMX
#elif defined(__AVX512VNNI__) && defined(__AVX512BW__)
#include <immintrin.h>
#define SHORT 1  // fours of bytes, a vector at a time
#elif defined(__AVX2__) && !defined(__AVX512F__)
#define SHORT 3  // pairs of bytes as numbers of 16 bits, a vector at a time
#else
#define SHORT 0
#endif

namespace {

constexpr int64_t SUMMED_ROWS = 6;  // whose sums are kept in registers together

// work(N) with N a constant: how many of the rows that are left are next, at most SUMMED_ROWS.
template <class Work>
inline void some_rows(int64_t left, Work work) {
    switch (left) {
        case 1: work(std::integral_constant<int, 1>{}); break;
        case 2: work(std::integral_constant<int, 2>{}); break;
        case 3: work(std::integral_constant<int, 3>{}); break;
        case 4: work(std::integral_constant<int, 4>{}); break;
        case 5: work(std::integral_constant<int, 5>{}); break;
        default: work(std::integral_constant<int, SUMMED_ROWS>{});
    }
}

constexpr int64_t TILE = 16;        // rows, and columns, of a tile
constexpr int64_t TILE_TERMS = 32;  // terms it sums over

// A matrix of `terms` times `columns`: [16 columns][32 terms][pair of terms][column][2], zeros beyond either.
struct Tiles {
    const uint16_t* data;
    int64_t terms, columns;
};

// The same of bytes: [16 columns][64 terms][four terms][column][4]; a column's numbers are its bytes times its scale.
struct ByteTiles {
    const int8_t* data;
    const float* scales;
    const int32_t* sums;  // of each column's bytes; where the processor multiplies by bytes without a sign
    int64_t terms, columns;
};

constexpr int64_t BYTE_TERMS = 64;

inline int64_t byte_terms(int64_t terms) { return (terms + BYTE_TERMS - 1) / BYTE_TERMS * BYTE_TERMS; }

inline int64_t tile_terms(int64_t terms) { return (terms + TILE_TERMS - 1) / TILE_TERMS * TILE_TERMS; }

// Rows as bf16, each padded with zeros to whole tiles; zero rows up to a whole tile.
inline const uint16_t* rounded_rows(const float* x, int64_t x_wide, int64_t rows, int64_t terms) {
    static thread_local std::vector<uint16_t> buffer;
    const int64_t wide = tile_terms(terms), all = (rows + TILE - 1) / TILE * TILE;
    buffer.assign(all * wide, 0);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t t = 0; t < terms; t += W) {
            const int64_t n = std::min(W, terms - t);
            store((bf16*)&buffer[r * wide + t], load(x + r * x_wide + t, n), n);
        }
    return buffer.data();
}

// Rows as bytes from -127 to 127 times a scale each, padded with zeros to whole tiles in both directions.
struct ByteRows {
    int8_t* data;
    float* scales;
};

typedef int8_t Signed __attribute__((vector_size(VECTOR_BYTES / 4)));

// Whole numbers from -128 to 127: in one instruction of AVX-512; elsewhere in two steps, for which GCC has vectors.
inline Signed as_bytes(Floats whole) {
    const Ints ints = __builtin_convertvector(whole, Ints);
#if defined(__AVX512F__)
    return __builtin_convertvector(ints, Signed);
#else
    return __builtin_convertvector(__builtin_convertvector(ints, Shorts), Signed);
#endif
}

inline ByteRows rounded_to_bytes(const float* x, int64_t x_wide, int64_t rows, int64_t terms) {
    static thread_local std::vector<int8_t> bytes;
    static thread_local std::vector<float> scales;
    const int64_t wide = byte_terms(terms), all = (rows + TILE - 1) / TILE * TILE;
    bytes.assign(all * wide, 0);
    scales.assign(all, 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
        const float* from = x + r * x_wide;
        Floats most{}, trouble{};
        for (int64_t t = 0; t < terms; t += W) {
            const Floats v = load(from + t, std::min(W, terms - t));
            most = larger(most, larger(v, -v));
            trouble += v * 0.0f;  // not 0 where v is infinite or no number
        }
        const float scale = largest(most) / 127.0f + sum(trouble);
        const float inverse = scale > 1e-30f ? 1.0f / scale : 0.0f;  // of what is smaller nothing is left
        scales[r] = scale;
        for (int64_t t = 0; t < terms; t += W) {
            const int64_t n = std::min(W, terms - t);
            const Floats magic = fill(12582912.0f);  // adding 1.5 * 2^23 rounds to a whole number
            const Floats v = (load(from + t, n) * inverse + magic) - magic;
            const Signed narrow = as_bytes(v);
            if (n == W)  // a copy of known length is an instruction, not a call
                std::memcpy(&bytes[r * wide + t], &narrow, W);
            else
                std::memcpy(&bytes[r * wide + t], &narrow, n);
        }
    }
    return {bytes.data(), scales.data()};
}

#if FAST == 2

// Whether the system lets this process use tiles; asked once.
inline bool tiles_allowed() {
    static const bool allowed = [] {
        const long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
        return syscall(SYS_arch_prctl, request, tile_data) == 0;
    }();
    return allowed;
}

// All eight tiles have 16 rows of 64 bytes, as long as this lives.
struct TileScope {
    TileScope() {
        alignas(64) uint8_t config[64] = {1};
        for (int k = 0; k < 8; ++k) {
            config[16 + 2 * k] = 64;
            config[48 + k] = TILE;
        }
        _tile_loadconfig(config);
    }
    ~TileScope() { _tile_release(); }
};

// Two tiles of rows and two of columns at a time.
template <class Finish>
void product(const float* x, int64_t x_wide, int64_t rows, Tiles W_, float* y, int64_t y_wide, Finish finish) {
    const int64_t wide = tile_terms(W_.terms), blocks = wide / TILE_TERMS, tile = TILE_TERMS * TILE;
    const uint16_t* a = rounded_rows(x, x_wide, rows, W_.terms);
    alignas(64) float sums[2][2][TILE][TILE];
    for (int64_t column = 0; column < W_.columns; column += 2 * TILE) {
        const bool two_columns = column + TILE < W_.columns;
        const uint16_t* left = W_.data + column / TILE * blocks * tile;
        const uint16_t* right = two_columns ? left + blocks * tile : left;
        for (int64_t r = 0; r < rows; r += 2 * TILE) {
            const bool two_rows = r + TILE < rows;
            const uint16_t* upper = a + r * wide;
            const uint16_t* lower = two_rows ? upper + TILE * wide : upper;
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            for (int64_t k = 0; k < blocks; ++k) {
                _tile_loadd(4, upper + k * TILE_TERMS, wide * 2);
                _tile_loadd(6, left + k * tile, 64);
                _tile_loadd(7, right + k * tile, 64);
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                if (!two_rows) continue;
                _tile_loadd(5, lower + k * TILE_TERMS, wide * 2);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, sums[0][0], 64);
            _tile_stored(1, sums[0][1], 64);
            if (two_rows) {
                _tile_stored(2, sums[1][0], 64);
                _tile_stored(3, sums[1][1], 64);
            }
            for (int64_t i = 0; i < std::min(2 * TILE, rows - r); ++i)
                for (int64_t c = 0; c < (two_columns ? 2 : 1); ++c) {
                    const int64_t at = column + c * TILE;
                    store(y + (r + i) * y_wide + at, finish(load(sums[i / TILE][c][i % TILE]), at),
                          std::min(W, W_.columns - at));
                }
        }
    }
}

#elif FAST == 1

inline bool tiles_allowed() { return true; }
struct TileScope {
    TileScope() {}
};

template <int N, class Finish>
void tile_product(const uint16_t* a, int64_t wide, const uint16_t* w, float* y, int64_t y_wide, int64_t columns,
                  int64_t column, Finish finish) {
    __m512 sums[N];
    for (int r = 0; r < N; ++r) sums[r] = _mm512_setzero_ps();
    for (int64_t t = 0; t < wide; t += 2, w += 2 * TILE) {
        const __m512bh weights = (__m512bh)_mm512_loadu_si512(w);
        for (int r = 0; r < N; ++r) {
            int32_t pair;
            std::memcpy(&pair, a + r * wide + t, sizeof pair);
            sums[r] = _mm512_dpbf16_ps(sums[r], (__m512bh)_mm512_set1_epi32(pair), weights);
        }
    }
    for (int r = 0; r < N; ++r)
        store(y + r * y_wide + column, finish((Floats)sums[r], column), std::min(W, columns - column));
}

template <class Finish>
void product(const float* x, int64_t x_wide, int64_t rows, Tiles W_, float* y, int64_t y_wide, Finish finish) {
    const int64_t wide = tile_terms(W_.terms);
    const uint16_t* a = rounded_rows(x, x_wide, rows, W_.terms);
    for (int64_t column = 0; column < W_.columns; column += TILE) {
        const uint16_t* w = W_.data + column / TILE * wide * TILE;
        int64_t r = 0;
        for (; r + 16 <= rows; r += 16)
            tile_product<16>(a + r * wide, wide, w, y + r * y_wide, y_wide, W_.columns, column, finish);
        for (; r + 4 <= rows; r += 4)
            tile_product<4>(a + r * wide, wide, w, y + r * y_wide, y_wide, W_.columns, column, finish);
        for (; r < rows; ++r)
            tile_product<1>(a + r * wide, wide, w, y + r * y_wide, y_wide, W_.columns, column, finish);
    }
}

#else

inline bool tiles_allowed() { return false; }
struct TileScope {
    TileScope() {}
};

template <class Finish>
void product(const float*, int64_t, int64_t, Tiles, float*, int64_t, Finish) {}

#endif

#if SHORT == 2

template <class Finish>
void product(const float* x, int64_t x_wide, int64_t rows, ByteTiles W_, float* y, int64_t y_wide, Finish finish) {
    const int64_t wide = byte_terms(W_.terms), blocks = wide / BYTE_TERMS, tile = BYTE_TERMS * TILE;
    const ByteRows a = rounded_to_bytes(x, x_wide, rows, W_.terms);
    alignas(64) int32_t sums[2][2][TILE][TILE];
    for (int64_t column = 0; column < W_.columns; column += 2 * TILE) {
        const bool two_columns = column + TILE < W_.columns;
        const int8_t* left = W_.data + column / TILE * blocks * tile;
        const int8_t* right = two_columns ? left + blocks * tile : left;
        for (int64_t r = 0; r < rows; r += 2 * TILE) {
            const bool two_rows = r + TILE < rows;
            const int8_t* upper = a.data + r * wide;
            const int8_t* lower = two_rows ? upper + TILE * wide : upper;
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            for (int64_t k = 0; k < blocks; ++k) {
                _tile_loadd(4, upper + k * BYTE_TERMS, wide);
                _tile_loadd(6, left + k * tile, 64);
                _tile_loadd(7, right + k * tile, 64);
                _tile_dpbssd(0, 4, 6);
                _tile_dpbssd(1, 4, 7);
                if (!two_rows) continue;
                _tile_loadd(5, lower + k * BYTE_TERMS, wide);
                _tile_dpbssd(2, 5, 6);
                _tile_dpbssd(3, 5, 7);
            }
            _tile_stored(0, sums[0][0], 64);
            _tile_stored(1, sums[0][1], 64);
            if (two_rows) {
                _tile_stored(2, sums[1][0], 64);
                _tile_stored(3, sums[1][1], 64);
            }
            for (int64_t i = 0; i < std::min(2 * TILE, rows - r); ++i)
                for (int64_t c = 0; c < (two_columns ? 2 : 1); ++c) {
                    const int64_t at = column + c * TILE, n = std::min(W, W_.columns - at);
                    Ints total;
                    std::memcpy(&total, sums[i / TILE][c][i % TILE], sizeof total);
                    const Floats v = __builtin_convertvector(total, Floats) * a.scales[r + i] * load(W_.scales + at, n);
                    store(y + (r + i) * y_wide + at, finish(v, at), n);
                }
        }
    }
}

#elif SHORT == 1

// The processor multiplies bytes without a sign by bytes with one: 128 more on the left, taken off the sums.
template <int N, class Finish>
void byte_product(const ByteRows& a, int64_t row, int64_t wide, const ByteTiles& W_, int64_t column, float* y,
                  int64_t y_wide, Finish finish) {
    const int64_t n = std::min(W, W_.columns - column);
    const int8_t* w = W_.data + column / TILE * wide * TILE;
    __m512i sums[N];
    for (int r = 0; r < N; ++r) sums[r] = _mm512_setzero_si512();
    for (int64_t t = 0; t < wide; t += 4, w += 4 * TILE) {
        const __m512i weights = _mm512_loadu_si512(w);
        for (int r = 0; r < N; ++r) {
            uint32_t four;
            std::memcpy(&four, a.data + (row + r) * wide + t, sizeof four);
            sums[r] = _mm512_dpbusd_epi32(sums[r], _mm512_set1_epi32((int32_t)(four ^ 0x80808080u)), weights);
        }
    }
    Ints more{};
    std::memcpy(&more, W_.sums + column, n * sizeof(int32_t));
    for (int r = 0; r < N; ++r) {
        const Ints total = (Ints)sums[r] - more * 128;
        const Floats v = __builtin_convertvector(total, Floats) * a.scales[row + r] * load(W_.scales + column, n);
        store(y + (row + r) * y_wide + column, finish(v, column), n);
    }
}

template <class Finish>
void product(const float* x, int64_t x_wide, int64_t rows, ByteTiles W_, float* y, int64_t y_wide, Finish finish) {
    const int64_t wide = byte_terms(W_.terms);
    const ByteRows a = rounded_to_bytes(x, x_wide, rows, W_.terms);
    for (int64_t column = 0; column < W_.columns; column += TILE) {
        int64_t r = 0;
        for (; r + 16 <= rows; r += 16) byte_product<16>(a, r, wide, W_, column, y, y_wide, finish);
        for (; r + 4 <= rows; r += 4) byte_product<4>(a, r, wide, W_, column, y, y_wide, finish);
        for (; r < rows; ++r) byte_product<1>(a, r, wide, W_, column, y, y_wide, finish);
    }
}

#elif SHORT == 3

// Rows of bytes as numbers of 16 bits.
inline const int16_t* widened(const int8_t* bytes, int64_t count) {
    static thread_local std::vector<int16_t> buffer;
    buffer.resize(std::max<int64_t>(buffer.size(), count));
    for (int64_t k = 0; k < count; ++k) buffer[k] = bytes[k];
    return buffer.data();
}

// N rows and half a tile of columns: no product of bytes is left out, and no sum of 32 bits can overflow.
// a: the first row, widened; w: the half of the tile.
template <int N, class Store>
void byte_product(const int16_t* a, int64_t wide, const int8_t* w, Store done) {
    __m256i sums[N][2];
    for (int r = 0; r < N; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
    for (int64_t t = 0; t < wide; t += 4, w += 4 * TILE) {
        const __m256i left = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)w));
        const __m256i right = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)w + 1));
        for (int r = 0; r < N; ++r) {
            int64_t four;
            std::memcpy(&four, a + r * wide + t, sizeof four);
            const __m256i terms = _mm256_set1_epi64x(four);
            sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(left, terms));
            sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(right, terms));
        }
    }
    // Two sums of each column lie side by side; those of four columns in a half of each vector.
    for (int r = 0; r < N; ++r)
        done(r, (Ints)_mm256_permute4x64_epi64(_mm256_hadd_epi32(sums[r][0], sums[r][1]), 0b11011000));
}

template <class Finish>
void product(const float* x, int64_t x_wide, int64_t rows, ByteTiles W_, float* y, int64_t y_wide, Finish finish) {
    const int64_t wide = byte_terms(W_.terms);
    const ByteRows a = rounded_to_bytes(x, x_wide, rows, W_.terms);
    const int16_t* terms = widened(a.data, rows * wide);
    for (int64_t column = 0; column < W_.columns; column += W) {
        const int8_t* w = W_.data + column / TILE * wide * TILE + column % TILE * 4;
        const int64_t n = std::min(W, W_.columns - column);
        for (int64_t r = 0; r < rows; r += SUMMED_ROWS) {
            auto done = [&](int row, Ints total) {
                const Floats scale = a.scales[r + row] * load(W_.scales + column, n);
                const Floats v = __builtin_convertvector(total, Floats) * scale;
                store(y + (r + row) * y_wide + column, finish(v, column), n);
            };
            const int16_t* from = terms + r * wide;
            some_rows(rows - r, [&](auto count) { byte_product<count.value>(from, wide, w, done); });
        }
    }
}

#else

template <class Finish>
void product(const float*, int64_t, int64_t, ByteTiles, float*, int64_t, Finish) {}

#endif

}  // namespace
