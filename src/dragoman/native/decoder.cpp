// One step of the decoder for all hypotheses of a batch, in blocks that fit the cache.

#include "decode.h"

namespace {

struct Step {
    const int64_t* tokens;      // [rows]
    int64_t rows, hypotheses;   // hypotheses of each sentence
    const int32_t* sentences;   // [rows / hypotheses], the place of each sentence among the sources
    const Source* sources;      // of all sentences
    int32_t* ancestors;         // [rows][room of the cache]: the slot of each position of the prefix
    int64_t length;             // positions before this one
};

}  // namespace

// logits [rows][V] of the step; block: rows that go through the layers together. A row's slot is its number.
extern "C" void decoder_step(const Model* model, const Cache* cache, const Step* step, int64_t block, float* logits) {
    const int64_t blocks = (step->rows + block - 1) / block;
#pragma omp parallel
    {
        Decoder decoder(*model, block);
        const Tiling tiling(model->output);
        std::vector<Prefix> prefixes(block);
#pragma omp for schedule(dynamic)
        for (int64_t n = 0; n < blocks; ++n) {
            const int64_t first = n * block, rows = std::min(block, step->rows - first);
            for (int64_t r = 0; r < rows; ++r) {
                const int64_t row = first + r;
                int32_t* slots = step->ancestors + row * cache->room;
                slots[step->length] = (int32_t)row;
                prefixes[r] = {step->tokens[row], step->length, slots,
                               step->sources + step->sentences[row / step->hypotheses]};
            }
            decoder.step(prefixes.data(), rows, *cache, logits + first * model->output.columns);
        }
    }
}

// Whether this processor has products of bf16, and of bytes, that the system lets us use.
extern "C" int32_t has_fast_products() { return FAST != 0 && tiles_allowed(); }
extern "C" int32_t has_byte_products() { return SHORT != 0 && (SHORT != 2 || tiles_allowed()); }
extern "C" int64_t panel_columns() { return PANEL; }
