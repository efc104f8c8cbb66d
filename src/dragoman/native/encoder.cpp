// The encoder over a batch of sentences, in groups that fit the cache.

#include "encode.h"

// groups [count + 1]: the first sentence of each group, and the number of sentences.
extern "C" void encode_sources(const Model* model, const Source* sources, const int64_t* groups, int64_t count) {
    int64_t most = 0, longest = 0;
    for (int64_t g = 0; g < count; ++g) {
        int64_t rows = 0;
        for (int64_t k = groups[g]; k < groups[g + 1]; ++k) {
            rows += sources[k].length;
            longest = std::max(longest, sources[k].length);
        }
        most = std::max(most, rows);
    }
#pragma omp parallel
    {
        Encoder encoder(*model, most, longest);
        const Tiling tiling(model->output);
#pragma omp for schedule(dynamic)
        for (int64_t g = 0; g < count; ++g) encoder.encode(sources + groups[g], groups[g + 1] - groups[g]);
    }
}
