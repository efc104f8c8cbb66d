"""Text in, text out: as many as were given, in order, and with the scores they really have."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import pairs, tiny_facts, tiny_recipe, write_random_bundle

from dragoman import native
from dragoman.bundle import open_bundle
from dragoman.data.shortlist import learn_shortlist
from dragoman.errors import CheckpointError, ConfigError, DataError, DragomanError
from dragoman.model.transformer import Transformer
from dragoman.native.build import SWITCH
from dragoman.pipeline import train
from dragoman.recipe import SearchSection
from dragoman.search.length import length_penalty
from dragoman.text.subwords import Subwords
from dragoman.translator import Translation, Translator, check_units, usable_device

BLANKS = ["", " ", "\t", "\u3000\u00a0", "  \u2003 "]
UNITS = [source for source, _ in pairs(8, seed=3)]


def random_translator(corpus, *, seed: int = 1, dtype: torch.dtype = torch.float64, **options) -> Translator:
    """An untrained model whose weights are drawn wide, so that its distributions are far from even."""
    facts = tiny_facts(corpus)
    model = Transformer(facts.config, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(2.5)
    return Translator(model.to(dtype).eval(), facts.source_subwords, facts.target_subwords, **options)


@pytest.fixture(scope="module")
def translator(corpus) -> Translator:
    return random_translator(corpus)


@pytest.fixture(scope="module")
def trained(small_corpus, tmp_path_factory) -> Path:
    """A run long enough for translations that end."""
    out = tmp_path_factory.mktemp("translator") / "run"
    changes = ["training.max_steps=40", "training.checkpoint_steps=none", "optimizer.factor=1.0"]
    train(small_corpus, out, recipe=tiny_recipe(), changes=changes)
    return out


def test_a_translation_of_each_in_order(translator):
    found = translator.translate(UNITS, max_extra=3)
    assert [t.source for t in found] == UNITS
    for unit, translation in zip(UNITS, found, strict=True):
        (alone,) = translator.translate([unit], max_extra=3)
        assert alone.text == translation.text
        assert alone.score == pytest.approx(translation.score, abs=1e-6)
        assert translation.parts == 1
        assert not translation.split
    assert translator.translate([]) == []
    assert len({t.text for t in found}) > 1


@settings(max_examples=10)
@given(
    units=st.lists(st.sampled_from([*UNITS[:3], *BLANKS, "x\u2028y", "\x00", "\u2581", "a\r\nb"]), max_size=6)
)
def test_n_in_n_out_with_blanks(translator, units):
    """I02: blank gives an empty text, and neighbors do not notice."""
    found = translator.translate(units, beam_size=2, max_extra=2)
    assert [t.source for t in found] == units
    for unit, translation in zip(units, found, strict=True):
        assert "\n" not in translation.text
        if unit in BLANKS:
            assert translation == Translation(unit, "", 0.0, 0.0, (), truncated=False, parts=0)
        else:
            assert translation.parts == 1
            (alone,) = translator.translate([unit], beam_size=2, max_extra=2)
            assert alone.text == translation.text


def test_blank_units_need_no_model(translator, monkeypatch):
    monkeypatch.setattr(Transformer, "encode", lambda *_: pytest.fail("the model was called"))
    assert [t.text for t in translator.translate(BLANKS)] == [""] * len(BLANKS)
    assert [t.text for t in translator.sample(BLANKS, seed=1)] == [""] * len(BLANKS)
    assert translator.score(BLANKS, BLANKS) == [0.0] * len(BLANKS)
    assert translator.score([" ", ""], ["", "\t\t"]) == [0.0, 0.0]


def test_text_does_not_depend_on_the_batch(corpus):
    """I20, B45, B46: sizes of batches, neighbors and order."""
    units = [*UNITS, "", "one", "two three four five six seven eight nine ten eleven twelve"]
    reference = random_translator(corpus).translate(units, beam_size=3, max_extra=4)
    expected = {t.source: t for t in reference}
    draw = random.Random(1)
    for batch_tokens in (1, 20, 60, 10_000):
        translator = random_translator(corpus, batch_tokens=batch_tokens)
        shuffled = draw.sample(units, len(units))
        for translation in translator.translate(shuffled, beam_size=3, max_extra=4):
            other = expected[translation.source]
            assert translation.text == other.text
            assert translation.pieces == other.pieces
            assert translation.score == pytest.approx(other.score, abs=1e-6)


def test_batches_hold_what_fits_longest_first(corpus):
    """Those of one padded length share a batch, whatever else is there."""
    translator = random_translator(corpus, batch_tokens=48)
    lengths = [3, 9, 4, 30, 5, 5, 17]
    assert list(translator._batches(lengths)) == [[3], [6], [1, 4, 5], [2, 0]]
    assert list(replace(translator, batch_rows=2)._batches(lengths)) == [[3], [6], [1, 4], [5, 2], [0]]
    assert list(translator._batches([])) == []


LONG = " ".join(f"{source}." if k % 3 == 0 else source for k, (source, _) in enumerate(pairs(12, seed=5)))


def test_a_unit_that_is_too_long_is_split_and_flagged(corpus):
    """B57, B58: cut by a stated rule, and told; its neighbors as if it were not there."""
    translator = random_translator(corpus, max_source_tokens=16)
    neighbors = ["one two", "three"]
    found = translator.translate([neighbors[0], LONG, neighbors[1]], max_extra=2)
    alone = translator.translate(neighbors, max_extra=2)
    assert [found[0].text, found[2].text] == [t.text for t in alone]
    middle = found[1]
    assert middle.split
    assert "split" in middle.flags
    assert middle.parts > 3
    ids = translator.source_subwords.encode(LONG)
    parts = translator._parts(0, LONG)
    assert len(parts) == middle.parts
    assert [i for part in parts for i in part.ids if i != Subwords.EOS_ID] == ids
    assert all(part.ids[-1] == Subwords.EOS_ID and len(part.ids) <= 16 for part in parts)
    texts = [translator.source_subwords.decode(part.ids) for part in parts]
    pieces = translator.translate(texts, max_extra=2)
    assert middle.text == " ".join(t.text for t in pieces)
    assert middle.pieces == tuple(piece for t in pieces for piece in t.pieces)
    assert middle.log_probability == pytest.approx(sum(t.log_probability for t in pieces), abs=1e-6)
    assert middle.truncated == any(t.truncated for t in pieces)


def test_a_unit_of_just_the_longest_length_is_not_split(corpus):
    length = len(random_translator(corpus).source_subwords.encode(LONG)) + 1
    for longest, parts in ((length, 1), (length - 1, 2)):
        translator = random_translator(corpus, max_source_tokens=longest)
        (translation,) = translator.translate([LONG], beam_size=1, max_extra=0)
        assert translation.parts == parts
        assert translation.split == (parts > 1)


def test_a_text_without_spaces_is_split_too(corpus):
    translator = random_translator(corpus, max_source_tokens=20)
    (translation,) = translator.translate(["x" * 500], beam_size=1, max_extra=0)
    assert translation.split
    assert translation.parts > 20


def test_n_best(translator):
    """I25, B47: asking for more does not change the first."""
    for n in (1, 2, 4):
        for unit, one, many in zip(
            UNITS,
            translator.translate(UNITS, max_extra=3),
            translator.translate(UNITS, n_best=n, max_extra=3),
            strict=True,
        ):
            assert many.source == unit
            assert (many.text, many.pieces, many.truncated) == (one.text, one.pieces, one.truncated)
            assert many.score == pytest.approx(one.score, abs=1e-9)
            assert len(many.alternatives) == n - 1
            ranked = [(many.truncated, many.score), *((a.truncated, a.score) for a in many.alternatives)]
            assert [truncated for truncated, _ in ranked] == sorted(truncated for truncated, _ in ranked)
            for kind in (False, True):
                scores = [score for truncated, score in ranked if truncated == kind]
                assert scores == sorted(scores, reverse=True)
            tokens = {(many.truncated, many.pieces), *((a.truncated, a.pieces) for a in many.alternatives)}
            assert len(tokens) == n


def test_blank_units_are_given_back_as_often_as_asked_for(translator):
    """I02: n-best gives n per unit."""
    for found in (translator.translate(["one", " "], n_best=3), translator.sample(["one", " "], seed=1, n=3)):
        assert [len(t.alternatives) for t in found] == [2, 2]
        assert [a.text for a in found[1].alternatives] == ["", ""]
        assert {a.score for a in found[1].alternatives} == {0.0}


def test_n_best_of_a_split_unit(corpus):
    translator = random_translator(corpus, max_source_tokens=16)
    (one,), (many,) = (translator.translate([LONG], n_best=n, max_extra=2) for n in (1, 3))
    assert many.text == one.text
    assert many.score == pytest.approx(one.score, abs=1e-9)
    assert len(many.alternatives) == 2
    assert len({many.pieces, *(a.pieces for a in many.alternatives)}) == 3


def test_what_is_not_given_is_as_the_recipe_has_it(corpus, translator):
    own = random_translator(corpus, search=SearchSection(beam_size=2, alpha=1.3, max_extra=2))
    given = {"beam_size": 2, "alpha": 1.3, "max_extra": 2}
    assert own.translate(UNITS) == translator.translate(UNITS, **given)
    assert own.translate(UNITS) != translator.translate(UNITS)
    del given["beam_size"]
    assert own.sample(UNITS, seed=3) == translator.sample(UNITS, seed=3, **given)
    pieces = [t.pieces for t in own.translate(UNITS)]
    assert own.score_pieces(UNITS, pieces) == translator.score_pieces(UNITS, pieces, 1.3)
    assert own.score(UNITS, UNITS) == translator.score(UNITS, UNITS, 1.3)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_reported_scores_are_reproduced_from_the_pieces(trained, alpha):
    """B50, I24: one pass over all positions gives what the search added up."""
    translator = Translator.load(trained)
    units = [source for source, _ in pairs(20, seed=8)]
    found = translator.translate(units, alpha=alpha, n_best=2)
    whole = [t for t in found if not t.truncated]
    assert len(whole) > 10
    scores = translator.score_pieces([t.source for t in whole], [t.pieces for t in whole], alpha)
    assert scores == pytest.approx([t.score for t in whole], abs=1e-4)
    seconds = [(t.source, a) for t in found for a in t.alternatives if not a.truncated]
    scores = translator.score_pieces([unit for unit, _ in seconds], [a.pieces for _, a in seconds], alpha)
    assert scores == pytest.approx([a.score for _, a in seconds], abs=1e-4)
    for translation in whole:
        n = len(translation.pieces) + 1
        assert translation.score == pytest.approx(translation.log_probability / length_penalty(n, alpha))


def test_the_score_of_a_text_is_of_its_canonical_segmentation(translator):
    targets = ["nul een", "tri .", ""]
    sources = ["one two", "three .", "x"]
    pieces = [translator.target_subwords.pieces(translator.target_subwords.encode(t)) for t in targets]
    assert translator.score(sources, targets) == translator.score_pieces(sources, pieces)
    by_hand = []
    for source, target in zip(sources, targets, strict=True):
        ids = [*translator.target_subwords.encode(target), 1]
        source_ids = torch.tensor([[*translator.source_subwords.encode(source), 1]])
        logits = translator.model(source_ids, torch.tensor([[2, *ids[:-1]]]))
        log_p = logits[0].float().log_softmax(-1)[range(len(ids)), ids].sum().item()
        by_hand.append(log_p / length_penalty(len(ids), 0.6))
    assert translator.score(sources, targets) == pytest.approx(by_hand, abs=1e-4)


def test_scores_do_not_depend_on_the_batch(corpus):
    sources, targets = map(list, zip(*pairs(12, seed=4), strict=True))
    expected = random_translator(corpus).score(sources, targets)
    for batch_tokens in (1, 30):
        other = random_translator(corpus, batch_tokens=batch_tokens)
        assert other.score(sources, targets) == pytest.approx(expected, abs=1e-5)
        assert other.score(sources[::-1], targets[::-1]) == pytest.approx(expected[::-1], abs=1e-5)


def test_a_text_of_any_length_is_scored_whole(corpus):
    translator = random_translator(corpus, max_source_tokens=8)
    (score,) = translator.score([LONG], [LONG])
    assert score == pytest.approx(random_translator(corpus).score([LONG], [LONG])[0], abs=1e-6)


def test_length_limits_are_those_of_the_source(translator):
    for max_extra in (0, 2):
        for translation in translator.translate(UNITS, max_extra=max_extra):
            S = len(translator.source_subwords.encode(translation.source)) + 1
            n = len(translation.pieces) + (not translation.truncated)
            assert n <= S + max_extra
            assert ("truncated" in translation.flags) == translation.truncated
    for translation in translator.translate(UNITS, min_length=6, max_extra=8):
        assert len(translation.pieces) + (not translation.truncated) >= 6


def test_draws_are_repeatable_and_independent_of_the_batch(corpus):
    """Part k draws from (seed, k), whatever batch it is in."""
    one = random_translator(corpus).sample(UNITS, seed=5, n=2, max_extra=3)
    assert random_translator(corpus).sample(UNITS, seed=5, n=2, max_extra=3) == one
    for other in (
        random_translator(corpus, batch_tokens=1).sample(UNITS, seed=5, n=2, max_extra=3),
        random_translator(corpus).sample([*UNITS, "one more", "and more"], seed=5, n=2, max_extra=3)[:-2],
    ):
        assert [(t.text, [a.text for a in t.alternatives]) for t in other] == [
            (t.text, [a.text for a in t.alternatives]) for t in one
        ]
    again = random_translator(corpus).sample(UNITS, seed=6, n=2, max_extra=3)
    assert [t.text for t in again] != [t.text for t in one]
    twice = random_translator(corpus).sample(["one two"] * 2, seed=5, max_extra=3)
    assert twice[0].text != twice[1].text
    assert all(len(t.alternatives) == 1 for t in one)


def test_cold_draws_are_greedy(translator):
    drawn = translator.sample(UNITS, seed=1, temperature=1e-3, max_extra=3)
    greedy = translator.translate(UNITS, beam_size=1, max_extra=3)
    assert [t.text for t in drawn] == [t.text for t in greedy]
    top = translator.sample(UNITS, seed=1, top_k=1, max_extra=3)
    assert [t.text for t in top] == [t.text for t in greedy]


@pytest.mark.parametrize(
    ("units", "said"),
    [
        ("one text", "one text, not a list"),
        (b"bytes", r"units\[0\] is int"),
        ([b"bytes"], r"units\[0\] is bytes"),
        (["a", None], r"units\[1\] is NoneType"),
        (["a", ["b"]], r"units\[1\] is list"),
        ([1.5], r"units\[0\] is float"),
        (None, "NoneType, not a list"),
        (7, "int, not a list"),
        ({"a": "b"}, "dict, not a list"),
        ((unit for unit in ["a"]), "generator, not a list"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(translator, units, said):
    """B65; a generator would be empty after the check, and its texts lost."""
    for call in (
        lambda: check_units(units, "units"),
        lambda: translator.translate(units),
        lambda: translator.sample(units, seed=1),
    ):
        with pytest.raises(ConfigError, match=said):
            call()


def test_lists_that_do_not_match_are_refused(translator):
    with pytest.raises(ConfigError, match="2 sources but 1 targets"):
        translator.score(["a", "b"], ["c"])
    with pytest.raises(ConfigError, match="1 sources but 2 targets"):
        translator.score_pieces(["a"], [["\u2581a"], []])
    with pytest.raises(ConfigError, match="targets is one text"):
        translator.score(["a"], "b")
    with pytest.raises(ConfigError, match="sources is one text"):
        translator.score("a", ["b"])
    with pytest.raises(ConfigError, match=r"pieces\[0\] is one text"):
        translator.score_pieces(["a"], ["nul"])
    with pytest.raises(DataError, match="nosuchpiece"):
        translator.score_pieces(["a"], [["nosuchpiece"]])


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 0},
        {"n_best": 5},
        {"alpha": 11.0},
        {"max_extra": -1},
        {"min_length": 0},
    ],
)
def test_wrong_options_are_refused(translator, options):
    with pytest.raises(ConfigError):
        translator.translate(["a"], **options)


def test_a_model_that_can_say_nothing_is_told(translator):
    every_id = tuple(k for k in range(340) if k != Subwords.EOS_ID)

    class Mute:
        forbidden_ids = every_id

    mute = replace(translator, target_subwords=Mute())  # type: ignore[arg-type]
    with pytest.raises(DragomanError, match="no token that may be produced"):
        mute.translate(["one"], min_length=3)


def test_a_diverged_model_is_told(corpus):
    translator = random_translator(corpus)
    with torch.no_grad():
        next(translator.model.parameters()).fill_(float("nan"))
    with pytest.raises(DragomanError):
        translator.translate(["one"])


@pytest.mark.parametrize("name", ["cuda:99", "nonsense", "mps:3", "meta", "", "cpu:x"])
def test_a_device_that_is_not_there_is_an_error_of_ours(name):
    with pytest.raises(ConfigError) as caught:
        usable_device(name)
    assert repr(name) in caught.value.what
    assert "\n" not in caught.value.what
    assert caught.value.cure == "use --device cpu"


def test_the_processor_is_always_there():
    assert usable_device("cpu") == torch.device("cpu")


def test_loading_a_run_a_model_and_a_checkpoint(trained):
    whole = Translator.load(trained)
    assert whole.path == trained / "model"
    assert (whole.source_language, whole.target_language) == ("en", "xx")
    assert whole.max_source_tokens == 40
    assert whole.standing.startswith("Vaswani et al. 2017")
    assert not whole.model.training
    assert Translator.load(str(trained / "model")).translate(UNITS) == whole.translate(UNITS)
    checkpoint = trained / "checkpoints" / "step-00000040"
    assert Translator.load(checkpoint).path == checkpoint
    # Either the kernels round what goes into products, or PyTorch computes in bf16 throughout.
    rounded = Translator.load(trained, precision="bf16")
    kernels = native.kernels()
    fast = kernels is not None and "bf16" in kernels.formats
    assert rounded.model.dtype == (torch.float32 if fast else torch.bfloat16)
    source = UNITS[0]
    assert rounded.translate([source])[0].score == pytest.approx(whole.translate([source])[0].score, rel=0.05)


def test_int8_where_there_is_what_computes_it_and_else_an_error(trained, monkeypatch):
    kernels = native.kernels()
    if kernels is not None and "int8" in kernels.formats:
        exact = Translator.load(trained).translate(UNITS)
        rounded = Translator.load(trained, precision="int8").translate(UNITS)
        assert [t.score for t in rounded] == pytest.approx([t.score for t in exact], rel=0.5)
        assert [t.score for t in rounded] != [t.score for t in exact]
    monkeypatch.setattr(native, "kernels", lambda: None)
    monkeypatch.delenv(SWITCH, raising=False)
    with pytest.raises(ConfigError, match="8-bit .* want a C"):
        Translator.load(trained, precision="int8")
    monkeypatch.setenv(SWITCH, "0")
    with pytest.raises(ConfigError, match="8-bit .*: DRAGOMAN_NATIVE is 0"):
        Translator.load(trained, precision="int8")


def test_a_shortlist_holds_for_both_engines(small_corpus, trained, tmp_path):
    """Few enough likely subwords that translations change, and the same with the search step by step."""
    path = tmp_path / "likely"
    learn_shortlist(small_corpus, likeliest=1, most_frequent=3).save(path)
    free = Translator.load(trained).translate(UNITS)
    fast = Translator.load(trained, shortlist=path)
    exact = Translator.load(trained, shortlist=str(path), engine="exact")
    found = fast.translate(UNITS)
    assert [t.pieces for t in found] == [t.pieces for t in exact.translate(UNITS)]
    assert [t.pieces for t in found] != [t.pieces for t in free]
    pieces = fast.target_subwords.pieces(range(fast.target_subwords.vocab_size))
    for unit, translation in zip(UNITS, found, strict=True):
        ids = [*fast.source_subwords.encode(unit), Subwords.EOS_ID]
        assert set(translation.pieces) <= {pieces[k] for k in fast.shortlist.choices(ids).tolist()}
    assert [t.pieces for t in replace(fast, batch_rows=1).translate(UNITS)] == [t.pieces for t in found]


def test_auto_is_the_format_that_was_measured(trained, monkeypatch):
    monkeypatch.setattr("dragoman.translator.fastest_products", lambda _model: "bf16")
    assert Translator.load(trained, precision="auto").products == "bf16"
    assert Translator.load(trained, precision="auto").model.dtype == torch.float32


def test_the_exact_engine_says_the_same(corpus):
    """The same choices where they are not near to ties: weights are drawn wide."""
    fast = random_translator(corpus, dtype=torch.float32)
    reference = replace(fast, engine="exact")
    assert reference._packed is None
    options = {"beam_size": 3, "n_best": 3, "max_extra": 4}
    for one, other in zip(
        fast.translate(UNITS, **options), reference.translate(UNITS, **options), strict=True
    ):
        assert one.pieces == other.pieces
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert [a.text for a in one.alternatives] == [a.text for a in other.alternatives]


def test_loading_what_is_no_model(tmp_path, bundle_maker):
    (tmp_path / "file").write_text("nonsense")
    for place in (tmp_path, tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(CheckpointError):
            Translator.load(str(place))
    with pytest.raises(ConfigError, match="no precision 'fp8'"):
        Translator.load(bundle_maker(), precision="fp8")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no engine 'quick'"):
        Translator.load(bundle_maker(), engine="quick")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="exact engine computes in fp32"):
        Translator.load(bundle_maker(), engine="exact", precision="bf16")
    damaged = bundle_maker()
    (damaged / "subwords.model").write_bytes(b"")
    with pytest.raises(CheckpointError, match="damaged"):
        Translator.load(damaged)


def test_bf16_translates_as_many(corpus, tmp_path):
    path = write_random_bundle(tmp_path / "m", tiny_facts(corpus))
    found = Translator.load(path, precision="bf16").translate([*UNITS, ""], max_extra=2)
    assert [t.source for t in found] == [*UNITS, ""]


def test_of_takes_all_from_the_bundle(corpus, tmp_path):
    facts = tiny_facts(corpus, tiny_recipe("batch.max_length=33"))
    bundle = open_bundle(write_random_bundle(tmp_path / "m", facts))
    translator = Translator.of(bundle, device=torch.device("cpu"), precision="fp32")
    assert translator.max_source_tokens == 33
    assert translator.source_subwords == facts.source_subwords
