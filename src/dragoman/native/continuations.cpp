// The best continuations of a batch of sentences.

#include "continuations.h"

// logits [B][K][V], prefixes [B][K] (-inf: dead), banned [V] -> [B][count], best first, -inf where there are no
// more; broken [B][K] is 1 where a live prefix's logits are no distribution.
extern "C" void best_continuations(const float* logits, const double* prefixes, const uint8_t* banned, int64_t B,
                                   int64_t K, int64_t V, int64_t count, double* values, int64_t* parents,
                                   int64_t* tokens, uint8_t* broken) {
#pragma omp parallel
    {
        std::vector<float> maxima(chunks_of(V));
#pragma omp for schedule(static)
        for (int64_t b = 0; b < B; ++b)
            best_of_sentence(logits + b * K * V, prefixes + b * K, banned, K, V, maxima.data(),
                             Found{values + b * count, parents + b * count, tokens + b * count, count}, broken + b * K);
    }
}
