// Greedy and beam search (6.1) as a whole: source sentences in, their best hypotheses out.
//
// The same hypotheses as search.beam and search.greedy over a step function. A thread has some sentences in hand and
// takes all their prefixes one token further, each at its own position; where one is done, the next takes its place. What
// becomes of a sentence does not depend on the others, so nothing depends on who takes which.

#include "continuations.h"
#include "decode.h"

#include <atomic>
#include <deque>
#include <exception>

namespace {

struct Rules {
    int64_t beam, n_best, min_length, bos, eos;
    const double* penalties;  // lp(0), lp(1), ..., one more than the largest limit; whichever lp it is
    int64_t longest_bounds;   // alpha >= 0, lp rises: what a prefix may reach is bounded by lp(limit), else by lp of the next length
    const uint8_t *banned, *banned_early;  // [V], early: before min_length, when EOS is too
};

struct Sentences {
    const int64_t *ids, *firsts, *limits;  // all ids; [count + 1], where each sentence begins; most tokens of an output
    int64_t count;
    const int32_t* choices;        // null, or the tokens each output may consist of, ascending
    const int64_t* choice_firsts;  // [count + 1]
};

// [count][n_best], best first; tokens of a sentence's k-th begin at firsts[sentence] + k * limit.
struct Answers {
    int64_t* tokens;
    const int64_t* firsts;
    int64_t* lengths;  // 0: there is none
    double *log_probabilities, *scores;
    uint8_t* finished;
};

struct Progress {
    int32_t stop;    // written by who waits: make an end
    int32_t broken;  // written here: a sentence whose logits are no distribution, or -1
    int32_t no_memory;
};

struct Hypothesis {
    std::vector<int32_t> tokens;
    double log_probability, score;
};

// Rows of numbers of which some go on as others.
struct Strands {
    int64_t width;
    std::vector<int32_t> now, next;
    Strands(int64_t rows, int64_t width) : width(width), now(rows * width), next(rows * width) {}
    int32_t* row(int64_t k) { return &now[k * width]; }
    void take(int64_t to, int64_t from, int64_t length) {
        std::copy_n(&now[from * width], length, &next[to * width]);
    }
    void turn() { now.swap(next); }
};

struct Sentence {
    int64_t number, limit, length = 0;  // length: tokens of each live prefix
    std::vector<float> memory;
    Source source;
    int64_t place = -1;                   // among the slots of the cache
    std::vector<double> log_probabilities{0.0};  // of the live prefixes, best first
    Strands tokens, slots;
    std::vector<Hypothesis> pool;  // the finished, best first
    const int32_t* choices = nullptr;  // of the output's tokens, if not all may come
    std::unique_ptr<Columns> output;   // and the output map to them
    std::vector<uint8_t> banned, banned_early;

    Sentence(const Model& model, const Sentences& all, const Rules& rules, int64_t number)
        : number(number),
          limit(all.limits[number]),
          memory(memory_size(model.sizes, padded(all.firsts[number + 1] - all.firsts[number]))),
          tokens(rules.beam, limit),
          slots(rules.beam, limit + 1) {
        const int64_t first = all.firsts[number], n = all.firsts[number + 1] - first;
        source = {all.ids + first, n, padded(n), memory.data()};
        if (!all.choices) return;
        choices = all.choices + all.choice_firsts[number];
        const int64_t some = all.choice_firsts[number + 1] - all.choice_firsts[number];
        output.reset(new Columns(model.output, choices, some));
        for (int64_t c = 0; c < some; ++c) {
            banned.push_back(rules.banned[choices[c]]);
            banned_early.push_back(rules.banned_early[choices[c]]);
        }
    }
    const Matrix& output_of(const Model& model) const { return output ? output->matrix : model.output; }
    int64_t width() const { return (int64_t)log_probabilities.size(); }

    void offer(Hypothesis h, int64_t most) {
        auto at = std::find_if(pool.begin(), pool.end(), [&](const Hypothesis& p) { return p.score < h.score; });
        pool.insert(at, std::move(h));  // behind those as good: they came earlier
        if ((int64_t)pool.size() > most) pool.pop_back();
    }

    Hypothesis hypothesis(int64_t k, double log_probability, double penalty) {
        return {{tokens.row(k), tokens.row(k) + length}, log_probability, log_probability / penalty};
    }
};

class Search {
  public:
    Search(const Model& model, const Sentences& sentences, const Rules& rules, const Answers& answers, Progress& progress,
           std::atomic<int64_t>& next, int64_t places, int64_t room, int threads)
        : m(model),
          all(sentences),
          rules(rules),
          answers(answers),
          progress(progress),
          next(next),
          count(rules.beam == 1 ? 1 : 2 * rules.beam),
          encoder(model, most_positions(sentences), longest(sentences)),
          decoder(model, places * rules.beam, threads),
          keys(new float[model.sizes.layers * room * places * rules.beam * model.sizes.h * model.sizes.d_k]),
          values(new float[model.sizes.layers * room * places * rules.beam * model.sizes.h * model.sizes.d_v]),
          cache{keys.get(), this->values.get(), room, places * rules.beam},
          logits(places * rules.beam * model.output.columns),
          maxima(chunks_of(model.output.columns)),
          found_values(count),
          found_parents(count),
          found_tokens(count),
          broken(rules.beam) {
        for (int64_t k = places; k-- > 0;) free_places.push_back(k);
        prefixes.reserve(places * rules.beam);
    }

    void run() {
        while (admit() && !stopped()) {
            step();
            for (auto& sentence : active)
                if (is_done(*sentence)) {
                    answer(*sentence);
                    free_places.push_back(sentence->place);
                    sentence.reset();
                }
            active.erase(std::remove(active.begin(), active.end(), nullptr), active.end());
        }
    }

  private:
    static constexpr int64_t POSITIONS = 48;  // of sources, encoded together

    const Model& m;
    const Sentences& all;
    const Rules& rules;
    const Answers& answers;
    Progress& progress;
    std::atomic<int64_t>& next;
    const int64_t count;
    Encoder encoder;
    Decoder decoder;
    std::unique_ptr<float[]> keys, values;  // not touched before they are used
    Cache cache;
    std::vector<float> logits, maxima;
    std::vector<double> found_values;
    std::vector<int64_t> found_parents, found_tokens;
    std::vector<uint8_t> broken;
    std::vector<int64_t> free_places;
    std::deque<std::unique_ptr<Sentence>> waiting;
    std::vector<std::unique_ptr<Sentence>> active;
    std::vector<Prefix> prefixes;

    static int64_t longest(const Sentences& all) {
        int64_t most = 0;
        for (int64_t k = 0; k < all.count; ++k) most = std::max(most, all.firsts[k + 1] - all.firsts[k]);
        return most;
    }
    static int64_t most_positions(const Sentences& all) { return POSITIONS + longest(all); }

    bool stopped() const {
        return __atomic_load_n(&progress.stop, __ATOMIC_RELAXED) || __atomic_load_n(&progress.broken, __ATOMIC_RELAXED) >= 0;
    }

    // Fills the places; whether there is anything to do.
    bool admit() {
        while (!free_places.empty()) {
            if (waiting.empty()) encode_some();
            if (waiting.empty()) break;
            active.push_back(std::move(waiting.front()));
            waiting.pop_front();
            active.back()->place = free_places.back();
            free_places.pop_back();
        }
        return !active.empty();
    }

    void encode_some() {
        std::vector<Source> sources;
        int64_t positions = 0;
        while (positions < POSITIONS && waiting.size() < free_places.size()) {
            const int64_t number = next.fetch_add(1);
            if (number >= all.count) break;
            waiting.emplace_back(new Sentence(m, all, rules, number));
            sources.push_back(waiting.back()->source);
            positions += waiting.back()->source.length;
        }
        if (!sources.empty()) encoder.encode(sources.data(), sources.size());
    }

    void step() {
        prefixes.clear();
        for (auto& sentence : active)
            for (int64_t k = 0; k < sentence->width(); ++k) {
                int32_t* slots = sentence->slots.row(k);
                slots[sentence->length] = (int32_t)(sentence->place * rules.beam + k);
                const int64_t token = sentence->length ? sentence->tokens.row(k)[sentence->length - 1] : rules.bos;
                prefixes.push_back({token, sentence->length, slots, &sentence->source});
            }
        if (all.choices) {
            decoder.layers(prefixes.data(), prefixes.size(), cache);
            int64_t first = 0;
            for (auto& sentence : active) {
                const int64_t K = sentence->width();
                decoder.output(sentence->output->matrix, first, K, logits.data());
                go_on(*sentence, logits.data());
                first += K;
            }
            return;
        }
        decoder.step(prefixes.data(), prefixes.size(), cache, logits.data());
        const float* from = logits.data();
        for (auto& sentence : active) {
            const int64_t K = sentence->width();
            go_on(*sentence, from);
            from += K * m.output.columns;
        }
    }

    // One token further: what ends enters the pool, the best others live on.
    void go_on(Sentence& s, const float* rows) {
        const bool early = s.length + 1 < rules.min_length;
        const uint8_t* banned = early ? rules.banned_early : rules.banned;
        if (s.choices) banned = (early ? s.banned_early : s.banned).data();
        Found found{found_values.data(), found_parents.data(), found_tokens.data(), count};
        if (!best_of_sentence(rows, s.log_probabilities.data(), banned, s.width(), s.output_of(m).columns, maxima.data(),
                              found, broken.data()))
            report_broken(s.number);
        const double penalty = rules.penalties[s.length + 1];
        s.log_probabilities.clear();
        for (int64_t c = 0; c < count && found.values[c] > DEAD; ++c) {
            const int64_t parent = found.parents[c], width = s.width();
            const int64_t token = s.choices ? s.choices[found.tokens[c]] : found.tokens[c];
            if (token == rules.eos) {
                Hypothesis h = s.hypothesis(parent, found.values[c], penalty);
                h.tokens.push_back((int32_t)token);
                s.offer(std::move(h), rules.beam);
            } else if (width < rules.beam) {
                s.tokens.take(width, parent, s.length);
                s.slots.take(width, parent, s.length + 1);
                s.tokens.next[width * s.tokens.width + s.length] = (int32_t)token;
                s.log_probabilities.push_back(found.values[c]);
            }
        }
        s.tokens.turn();
        s.slots.turn();
        ++s.length;
    }

    // The first of them, if there are more.
    void report_broken(int64_t number) {
#pragma omp critical
        if (progress.broken < 0 || number < progress.broken)
            __atomic_store_n(&progress.broken, (int32_t)number, __ATOMIC_RELAXED);
    }

    // Whether no live prefix can change what will be returned, or the limit is reached.
    bool is_done(const Sentence& s) const {
        if (s.width() == 0 || s.length == s.limit) return true;
        if (rules.beam == 1) return !s.pool.empty();
        const double bound = s.log_probabilities[0] / rules.penalties[rules.longest_bounds ? s.limit : s.length + 1];
        return (int64_t)s.pool.size() >= rules.n_best && s.pool[rules.n_best - 1].score >= bound;
    }

    // Writes the n_best: the finished, then, cut, the live.
    void answer(Sentence& s) {
        std::vector<Hypothesis>& best = s.pool;
        const int64_t finished = std::min((int64_t)best.size(), rules.n_best);
        best.resize(finished);
        for (int64_t k = 0; k < s.width() && (int64_t)best.size() < rules.n_best; ++k)
            best.push_back(s.hypothesis(k, s.log_probabilities[k], rules.penalties[s.length]));
        for (int64_t k = 0; k < (int64_t)best.size(); ++k) {
            const int64_t at = s.number * rules.n_best + k;
            std::copy(best[k].tokens.begin(), best[k].tokens.end(), answers.tokens + answers.firsts[s.number] + k * s.limit);
            answers.lengths[at] = best[k].tokens.size();
            answers.log_probabilities[at] = best[k].log_probability;
            answers.scores[at] = best[k].score;
            answers.finished[at] = k < finished;
        }
    }
};

}  // namespace

// places: sentences a thread has in hand. Threads that would have none share the products of the only one that has.
extern "C" void search(const Model* model, const Sentences* sentences, const Rules* rules, const Answers* answers,
                       Progress* progress, int64_t places, int64_t threads) {
    std::atomic<int64_t> next{0};
    int64_t room = 0;
    for (int64_t k = 0; k < sentences->count; ++k) room = std::max(room, sentences->limits[k]);
    places = std::max<int64_t>(1, std::min(places, (sentences->count + threads - 1) / threads));
    const int64_t workers = std::min(threads, (sentences->count + places - 1) / places);
    auto work = [&](int sharing) {
        try {
            const Tiling tiling(model->output);
            Search(*model, *sentences, *rules, *answers, *progress, next, places, room, sharing).run();
        } catch (const std::exception&) {  // nothing here throws but what asks for memory
            __atomic_store_n(&progress->no_memory, 1, __ATOMIC_RELAXED);
            __atomic_store_n(&progress->stop, 1, __ATOMIC_RELAXED);
        }
    };
    if (workers == 1) {  // not within a parallel region, in which sharing would start new threads at each product
        work((int)threads);
        return;
    }
#pragma omp parallel num_threads((int)workers)
    work(1);
}
