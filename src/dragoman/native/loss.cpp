// The gradient of the label-smoothed loss by the logits (5.4), in place.

#include "vectors.h"

namespace {

// Logits (n, V) become softmax(logits), less `high` at the true token; log_Z (n) is log sum exp.
// As loss._to_gradient.
template <class T>
void loss_gradient(T* logits, const int64_t* targets, float high, int64_t n, int64_t V, float* log_Z) {
#pragma omp parallel
    {
        std::vector<float> e(padded(V));
#pragma omp for schedule(static)
        for (int64_t r = 0; r < n; ++r) {
            T* row = logits + r * V;
            const Floats least = fill(-__builtin_inff());
            Floats high_ = least;
            for (int64_t c = 0; c < V; c += W) {
                Floats x = load(row + c, std::min(W, V - c));
                if (V - c < W) x = choose(places_below(V - c), x, least);
                store(&e[c], x);
                high_ = larger(high_, x);
            }
            const float top = largest(high_);
            Floats total{};
            for (int64_t c = 0; c < V; c += W) {
                Floats x = exponential(load(&e[c]) - top);
                store(&e[c], x);
                total += x;
            }
            const float Z = sum(total), inverse = 1.0f / Z;
            const float at_target = e[targets[r]] * inverse - high;
            for (int64_t c = 0; c < V; c += W) store(row + c, load(&e[c]) * inverse, std::min(W, V - c));
            const int64_t c = targets[r] / W * W, place = targets[r] - c;
            Floats last = load(row + c, std::min(W, V - c));
            last[place] = at_target;
            store(row + c, last, std::min(W, V - c));
            log_Z[r] = top + __builtin_logf(Z);
        }
    }
}

}  // namespace

#define EXPORT(T, NAME)                                                                                  \
    extern "C" void loss_gradient_##NAME(T* logits, const int64_t* targets, float high, int64_t n,       \
                                         int64_t V, float* log_Z) {                                      \
        loss_gradient(logits, targets, high, n, V, log_Z);                                               \
    }

EXPORT(float, float32)
EXPORT(bf16, bfloat16)
