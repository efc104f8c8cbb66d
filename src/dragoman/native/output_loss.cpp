// The output map with the label-smoothed loss (3.4, 5.4) and its gradients, the logits never leaving the cache.
//
// As loss._OutputLoss, for tensors in bf16 where the processor has tiles of it (AMX). For a block of rows the logits
// are computed twice: once for log Z, and once more, some columns at a time, for p - q, which is used at once in
// both products with it. That is less work than writing all of them down and reading them again.

#include "fast_matrix.h"
#include "heads.h"

#include <cmath>

#ifdef _OPENMP
#include <omp.h>
#endif

extern "C" int32_t has_output_loss() { return FAST == 2 && tiles_allowed(); }

#if FAST == 2

namespace {

constexpr int64_t ROWS = 256;      // of a block, at most
constexpr int64_t COLUMNS = 1024;  // of the vocabulary at a time
constexpr int64_t CELL = TILE * TILE_TERMS;
constexpr float SAFE = 60.0f;  // e^60 times any vocabulary fits float32

struct Problem {
    const bf16 *hidden, *weight;
    const int64_t* targets;
    int64_t n, d, V;
    float high, low;
    int64_t terms() const { return tile_terms(d); }
    int64_t vocabulary() const { return (V + 2 * TILE - 1) / (2 * TILE) * (2 * TILE); }
};

// The weight in both orders that tiles want: for x E^T, pairs of its columns, and for G E, pairs of its rows.
struct Packed {
    std::vector<uint16_t> by_columns, by_rows;
    std::vector<float> sums;  // of each column of the weight
    float longest;            // norm of its longest row
};

inline int32_t word(const bf16* low, const bf16* high) {
    return (int32_t)((low ? low->bits : 0) | (uint32_t)(high ? high->bits : 0) << 16);
}

Packed pack(const Problem& p) {
    const int64_t terms = p.terms(), V = p.vocabulary(), d16 = terms / TILE;
    Packed made{std::vector<uint16_t>(V * terms), std::vector<uint16_t>(V * terms), std::vector<float>(terms), 0};
    float longest = 0;
#pragma omp parallel for schedule(static) reduction(max : longest)
    for (int64_t v = 0; v < V; v += TILE) {
        int32_t* to = (int32_t*)&made.by_columns[v * terms];
        for (int64_t k = 0; k < terms; k += TILE_TERMS)
            for (int64_t pair = 0; pair < TILE; ++pair)
                for (int64_t c = 0; c < TILE; ++c) {
                    const int64_t row = v + c, column = k + 2 * pair;
                    const bf16* at = p.weight + row * p.d + column;
                    const bool there = row < p.V;
                    *to++ = word(there && column < p.d ? at : nullptr, there && column + 1 < p.d ? at + 1 : nullptr);
                }
        for (int64_t row = v; row < std::min(v + TILE, p.V); ++row) {
            Floats squares{};
            for (int64_t k = 0; k < p.d; k += W) {
                Floats x = load(p.weight + row * p.d + k, std::min(W, p.d - k));
                squares = fused(x, x, squares);
            }
            longest = std::max(longest, std::sqrt(sum(squares)));
        }
    }
#pragma omp parallel for schedule(static)
    for (int64_t v = 0; v < V; v += TILE_TERMS)
        for (int64_t block = 0; block < d16; ++block) {
            int32_t* to = (int32_t*)&made.by_rows[(v / TILE_TERMS * d16 + block) * CELL];
            for (int64_t pair = 0; pair < TILE; ++pair)
                for (int64_t c = 0; c < TILE; ++c) {
                    const int64_t row = v + 2 * pair, column = block * TILE + c;
                    const bf16* at = p.weight + row * p.d + column;
                    const bool there = column < p.d;
                    *to++ = word(there && row < p.V ? at : nullptr, there && row + 1 < p.V ? at + p.d : nullptr);
                }
        }
    made.longest = longest;
    for (int64_t row = 0; row < p.V; ++row)
        for (int64_t k = 0; k < p.d; k += W) {
            const int64_t n = std::min(W, p.d - k);
            store(&made.sums[k], load(&made.sums[k]) + load(p.weight + row * p.d + k, n));
        }
    return made;
}

// One thread's room for a block of rows.
struct Block {
    std::vector<uint16_t> x, x_turned, G, G_pairs;  // [ROWS][terms], [terms][ROWS], [ROWS][COLUMNS], tiles
    std::vector<float> shift, log_Z, hidden_sums;   // of each row; [ROWS][terms]
    std::vector<float> weight_sums;                 // tiles [V / 16][terms / 16] of 16 terms and 16 columns
    std::vector<float> x_sums;                      // [terms], of all the rows this thread has seen
    explicit Block(const Problem& p)
        : x(ROWS * p.terms()),
          x_turned(ROWS * p.terms()),
          G(ROWS * COLUMNS),
          G_pairs(ROWS * COLUMNS),
          shift(ROWS),
          log_Z(ROWS),
          hidden_sums(ROWS * p.terms()),
          weight_sums(p.vocabulary() * p.terms()),
          x_sums(p.terms()) {}
};

// Rows first .. first + rows into the block, zeros up to `all` rows; and where e^logit cannot overflow.
void take_rows(const Problem& p, const Packed& packed, int64_t first, int64_t rows, int64_t all, Block& b) {
    const int64_t terms = p.terms();
    std::fill(b.x.begin(), b.x.begin() + all * terms, 0);
    for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(&b.x[r * terms], p.hidden + (first + r) * p.d, p.d * sizeof(bf16));
        Floats squares{};
        for (int64_t k = 0; k < p.d; k += W) {
            const int64_t n = std::min(W, p.d - k);
            Floats x = load(p.hidden + (first + r) * p.d + k, n);
            squares = fused(x, x, squares);
            store(&b.x_sums[k], load(&b.x_sums[k]) + x);
        }
        b.shift[r] = std::max(0.0f, std::sqrt(sum(squares)) * packed.longest - SAFE);
    }
    for (int64_t r = rows; r < all; ++r) b.shift[r] = 0;
    for (int64_t k = 0; k < terms; ++k)
        for (int64_t r = 0; r < all; ++r) b.x_turned[k * ROWS + r] = b.x[r * terms + k];
}

// Logits of 32 rows and 32 columns.
void logits_of(const uint16_t* x, const uint16_t* columns, int64_t terms, float (*out)[2][TILE][TILE]) {
    const uint16_t *lower = x + TILE * terms, *right = columns + TILE * terms;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < terms; k += TILE_TERMS) {
        _tile_loadd(4, x + k, terms * 2);
        _tile_loadd(5, lower + k, terms * 2);
        _tile_loadd(6, columns + k * TILE, 64);
        _tile_loadd(7, right + k * TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out[0][0], 64);
    _tile_stored(1, out[0][1], 64);
    _tile_stored(2, out[1][0], 64);
    _tile_stored(3, out[1][1], 64);
}

// log Z of each row of the block.
void normalize(const Problem& p, const Packed& packed, int64_t all, Block& b) {
    const int64_t terms = p.terms(), V = p.vocabulary();
    alignas(64) float logits[2][2][TILE][TILE];
    for (int64_t r = 0; r < all; r += 2 * TILE) {
        Floats sums[2 * TILE] = {};
        for (int64_t v = 0; v < V; v += 2 * TILE) {
            logits_of(&b.x[r * terms], &packed.by_columns[v * terms], terms, logits);
            for (int64_t half = 0; half < 2; ++half) {
                const int64_t left = p.V - v - half * TILE;
                if (left <= 0) continue;
                for (int64_t i = 0; i < 2 * TILE; ++i) {
                    Floats e = exponential(load(logits[i / TILE][half][i % TILE]) - b.shift[r + i]);
                    sums[i] += left < TILE ? choose(places_below(left), e, Floats{}) : e;
                }
            }
        }
        for (int64_t i = 0; i < 2 * TILE; ++i) b.log_Z[r + i] = b.shift[r + i] + std::log(sum(sums[i]));
    }
}

// Where all of a row's logits are far below what they might be, its sum has vanished: done again, slowly, exactly.
void mend(const Problem& p, int64_t first, int64_t rows, Block& b) {
    for (int64_t r = 0; r < rows; ++r) {
        if (!(b.log_Z[r] < b.shift[r] - 60.0f)) continue;
        std::vector<double> logits(p.V);
        double top = -INFINITY, total = 0;
        for (int64_t v = 0; v < p.V; ++v) {
            Floats products{};
            for (int64_t k = 0; k < p.d; k += W) {
                const int64_t n = std::min(W, p.d - k);
                products = fused(load(p.hidden + (first + r) * p.d + k, n), load(p.weight + v * p.d + k, n), products);
            }
            logits[v] = sum(products);
            top = std::max(top, logits[v]);
        }
        for (double logit : logits) total += std::exp(logit - top);
        b.log_Z[r] = (float)(top + std::log(total));
    }
}

// G = p - high at the targets, for columns v .. v + COLUMNS: row by row, and in pairs of rows. The true logits too.
void gradients_of(const Problem& p, const Packed& packed, int64_t first, int64_t rows, int64_t all, int64_t v,
                  int64_t columns, Block& b, float* true_logits) {
    const int64_t terms = p.terms();
    alignas(64) float logits[2][2][TILE][TILE];
    for (int64_t r = 0; r < all; r += 2 * TILE)
        for (int64_t c = 0; c < columns; c += 2 * TILE) {
            logits_of(&b.x[r * terms], &packed.by_columns[(v + c) * terms], terms, logits);
            for (int64_t half = 0; half < 2; ++half) {
                const int64_t column = v + c + half * TILE;
                // The tile of 32 rows and 16 columns among those of the second product's right side.
                uint16_t* pairs = &b.G_pairs[((c / TILE + half) * (ROWS / TILE_TERMS) + r / TILE_TERMS) * CELL];
                for (int64_t i = 0; i < 2 * TILE; i += 2) {
                    Floats g[2];
                    for (int64_t k = 0; k < 2; ++k) {
                        const int64_t row = r + i + k;
                        Floats x = load(logits[(i + k) / TILE][half][(i + k) % TILE]);
                        g[k] = exponential(x - b.log_Z[row]);
                        if (p.V - column < TILE) g[k] = choose(places_below(std::max<int64_t>(p.V - column, 0)), g[k], Floats{});
                        if (row >= rows) {
                            g[k] = Floats{};
                            continue;
                        }
                        const int64_t place = p.targets[first + row] - column;
                        if (place < 0 || place >= TILE) continue;
                        true_logits[first + row] = x[place];
                        g[k][place] -= p.high;
                    }
                    const Words low = __builtin_convertvector(narrow(g[0]), Words);
                    const Words high = __builtin_convertvector(narrow(g[1]), Words);
                    const Words both = low | high << 16;
                    std::memcpy(pairs + i * TILE, &both, sizeof both);
                    store((bf16*)&b.G[(r + i) * COLUMNS + c + half * TILE], g[0]);
                    store((bf16*)&b.G[(r + i + 1) * COLUMNS + c + half * TILE], g[1]);
                }
            }
        }
}

// hidden_sums += G E, for these columns of G.
void add_hidden(const Problem& p, const Packed& packed, int64_t all, int64_t v, int64_t columns, Block& b) {
    const int64_t terms = p.terms(), d16 = terms / TILE;
    for (int64_t r = 0; r < all; r += 2 * TILE)
        for (int64_t k = 0; k < d16; k += 2) {
            float* to = &b.hidden_sums[r * terms + k * TILE];
            float *lower = to + TILE * terms, *right = to + TILE, *corner = lower + TILE;
            _tile_loadd(0, to, terms * 4);
            _tile_loadd(1, right, terms * 4);
            _tile_loadd(2, lower, terms * 4);
            _tile_loadd(3, corner, terms * 4);
            for (int64_t c = 0; c < columns; c += TILE_TERMS) {
                const uint16_t* weight = &packed.by_rows[((v + c) / TILE_TERMS * d16 + k) * CELL];
                _tile_loadd(4, &b.G[r * COLUMNS + c], COLUMNS * 2);
                _tile_loadd(5, &b.G[(r + TILE) * COLUMNS + c], COLUMNS * 2);
                _tile_loadd(6, weight, 64);
                _tile_loadd(7, weight + CELL, 64);
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, to, terms * 4);
            _tile_stored(1, right, terms * 4);
            _tile_stored(2, lower, terms * 4);
            _tile_stored(3, corner, terms * 4);
        }
}

// weight_sums += x^T G, for these columns of G.
void add_weight(const Problem& p, int64_t all, int64_t v, int64_t columns, Block& b) {
    const int64_t d16 = p.terms() / TILE, cell = TILE * TILE;
    for (int64_t c = 0; c < columns; c += 2 * TILE)
        for (int64_t k = 0; k < d16; k += 2) {
            float* to = &b.weight_sums[((v + c) / TILE * d16 + k) * cell];
            float *lower = to + cell, *right = to + d16 * cell, *corner = right + cell;
            _tile_loadd(0, to, 64);
            _tile_loadd(1, right, 64);
            _tile_loadd(2, lower, 64);
            _tile_loadd(3, corner, 64);
            const uint16_t* pairs = &b.G_pairs[c / TILE * (ROWS / TILE_TERMS) * CELL];
            for (int64_t r = 0; r < all; r += TILE_TERMS) {
                _tile_loadd(4, &b.x_turned[k * TILE * ROWS + r], ROWS * 2);
                _tile_loadd(5, &b.x_turned[(k + 1) * TILE * ROWS + r], ROWS * 2);
                _tile_loadd(6, pairs + r / TILE_TERMS * CELL, 64);
                _tile_loadd(7, pairs + (ROWS / TILE_TERMS + r / TILE_TERMS) * CELL, 64);
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, to, 64);
            _tile_stored(1, right, 64);
            _tile_stored(2, lower, 64);
            _tile_stored(3, corner, 64);
        }
}

void one_block(const Problem& p, const Packed& packed, int64_t first, int64_t rows, Block& b, bf16* hidden_gradient,
               float* log_Z, float* true_logits) {
    const int64_t terms = p.terms(), all = (rows + 2 * TILE - 1) / (2 * TILE) * (2 * TILE);
    take_rows(p, packed, first, rows, all, b);
    normalize(p, packed, all, b);
    mend(p, first, rows, b);
    std::fill(b.hidden_sums.begin(), b.hidden_sums.begin() + all * terms, 0.0f);
    for (int64_t v = 0; v < p.vocabulary(); v += COLUMNS) {
        const int64_t columns = std::min(COLUMNS, p.vocabulary() - v);
        gradients_of(p, packed, first, rows, all, v, columns, b, true_logits);
        add_hidden(p, packed, all, v, columns, b);
        add_weight(p, all, v, columns, b);
    }
    for (int64_t r = 0; r < rows; ++r) {
        log_Z[first + r] = b.log_Z[r];
        for (int64_t k = 0; k < p.d; k += W)
            store(hidden_gradient + (first + r) * p.d + k,
                  load(&b.hidden_sums[r * terms + k]) - load(&packed.sums[k]) * p.low, std::min(W, p.d - k));
    }
}

// weight_gradient (V, d) from the tiles of all threads, in their order; what q has everywhere comes off at the end.
void join(const Problem& p, const std::vector<Block*>& blocks, float* weight_gradient) {
    const int64_t d16 = p.terms() / TILE;
    std::vector<float> x_sums(p.terms());
    for (const Block* block : blocks)
        for (int64_t k = 0; k < p.terms(); ++k) x_sums[k] += block->x_sums[k];
#pragma omp parallel for schedule(static)
    for (int64_t v = 0; v < p.V; v += TILE)
        for (int64_t block = 0; block < d16; ++block) {
            Floats tile[TILE] = {};
            for (const Block* part : blocks)
                for (int64_t k = 0; k < TILE; ++k)
                    tile[k] += load(&part->weight_sums[((v / TILE * d16 + block) * TILE + k) * TILE]);
            turn(tile);  // terms by columns become columns by terms
            const int64_t column = block * TILE;
            if (column >= p.d) continue;
            for (int64_t c = 0; c < std::min(TILE, p.V - v); ++c)
                store(weight_gradient + (v + c) * p.d + column, tile[c] - load(&x_sums[column]) * p.low,
                      std::min(W, p.d - column));
        }
}

}  // namespace

// hidden (n, d), weight (V, d) in bf16, targets (n) -> gradients by both (the second in float32), log Z and the true
// logits of each row. The loss of a row is log Z - high * true - low * (sum of its logits).
extern "C" void output_loss(const bf16* hidden, const bf16* weight, const int64_t* targets, int64_t n, int64_t d,
                            int64_t V, float high, float low, bf16* hidden_gradient, float* weight_gradient,
                            float* log_Z, float* true_logits) {
    const Problem p{hidden, weight, targets, n, d, V, high, low};
    const Packed packed = pack(p);
#ifdef _OPENMP
    const int64_t threads = omp_get_max_threads();
#else
    const int64_t threads = 1;
#endif
    const int64_t wanted = (n + threads - 1) / threads;
    const int64_t parts = std::max<int64_t>((wanted + ROWS - 1) / ROWS, 1) * threads;
    const int64_t each = std::min(ROWS, ((n + parts - 1) / parts + 2 * TILE - 1) / (2 * TILE) * (2 * TILE));
    std::vector<Block*> blocks(threads, nullptr);
#pragma omp parallel
    {
        const TileScope scope;
        auto* block = new Block(p);
#ifdef _OPENMP
        blocks[omp_get_thread_num()] = block;
#else
        blocks[0] = block;
#endif
#pragma omp for schedule(static)
        for (int64_t first = 0; first < n; first += each)
            one_block(p, packed, first, std::min(each, n - first), *block, hidden_gradient, log_Z, true_logits);
    }
    blocks.erase(std::remove(blocks.begin(), blocks.end(), nullptr), blocks.end());
    join(p, blocks, weight_gradient);
    for (Block* block : blocks) delete block;
}

#else

extern "C" void output_loss(const void*, const void*, const int64_t*, int64_t, int64_t, int64_t, float, float, void*,
                            float*, float*, float*) {}

#endif
