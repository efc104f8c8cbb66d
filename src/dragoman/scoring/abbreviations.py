"""Words whose full stop the Moses tokenizer keeps: titles, abbreviations, initials, ordinals.

Paper: 6.1
Silent: which tokenizer made Table 2's BLEU. Moses' is assumed, as in the authors' own script; its lists for
German, English and French are given here as rules (initials, Roman numerals, ordinals) and words.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from functools import lru_cache

_INITIALS = frozenset(string.ascii_uppercase)

_ENGLISH = """
    Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Drs Ens Gen Gov Hon Hr
    Hosp Insp Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt Rep Reps Res Rev
    Rt Sen Sens Sfc Sgt Sr St Supt Surg v vs i.e rev e.g Nos Nr
"""
_ENGLISH_BEFORE_DIGITS = "No Art pp"

_GERMAN = """
    Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Ens Gen Gov Hon Hosp Insp
    Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord Pfc Ph Prof Pvt Rep Reps Res Rev Rt Sen Sens
    Sfc Sgt Sr St Supt Surg Mio Mrd bzw v vs usw d.h z.B u.a etc MwSt ggf d.J D.h m.E vgl I.F z.T sogen ff
    u.E g.U g.g.A c.-à-d Buchst u.s.w sog u.ä Std evtl Zt Chr u.U o.ä Ltd b.A z.Zt spp sen SA k.o jun
    i.H.v dgl dergl Co zzt usf s.p.a Dkr bzgl BSE No Nos Art Nr pp ca Ca
"""

_FRENCH = """
    A.C.N A.M art ann apr av auj lib B.P boul ca c.-à-d cf ch.-l chap contr C.P.I C.Q.F.D C.N C.N.S C.S
    dir éd e.g env al etc E.V ex fasc fém fig fr hab ibid id i.e inf LL.AA LL.AA.II LL.AA.RR LL.AA.SS L.D
    LL.EE LL.MM LL.MM.II.RR loc.cit masc MM ms N.B N.D.A N.D.L.R N.D.T n/réf NN.SS N.S N.D N.P.A.I p.c.c
    pl pp p.ex p.j P.S R.A.S R.-V R.P R.I.P SS S.S S.A S.A.I S.A.R S.A.S S.E sec sect sing S.M S.M.I.R sq
    sqq suiv sup suppl tél T.S.V.P vb vol vs X.O Z.I
"""


@dataclass(frozen=True)
class Abbreviations:
    """The words of one language whose full stop stays on them.

    Args:
        always: kept whatever follows.
        before_digits: kept only where the next word begins with a digit ("No. 5").
    """

    always: frozenset[str]
    before_digits: frozenset[str]


def _roman(number: int) -> str:
    """Write a number below 40 in Roman numerals."""
    units = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")[number % 10]
    return "X" * (number // 10) + units


def _german() -> Abbreviations:
    """Initials in both cases, Roman numerals to XX in both cases, ordinals 1 to 99 ("1." is "1st")."""
    letters = _INITIALS | frozenset(string.ascii_lowercase)
    roman = {_roman(number) for number in range(1, 21)}
    numerals = roman | {numeral.lower() for numeral in roman}
    ordinals = {str(number) for number in range(1, 100)}
    return Abbreviations(letters | numerals | ordinals | set(_GERMAN.split()), frozenset())


@lru_cache(maxsize=8)
def abbreviations(language: str) -> Abbreviations:
    """Return the abbreviations of a language.

    Args:
        language: a two-letter code. A language without a list has English's, as in Moses.

    Returns:
        The words that keep their full stop.
    """
    if language == "de":
        return _german()
    if language == "fr":
        # Every letter but "a", which is a French word and may well end a sentence ("il en a.").
        letters = _INITIALS | frozenset(string.ascii_lowercase[1:])
        return Abbreviations(letters | set(_FRENCH.split()), frozenset())
    return Abbreviations(_INITIALS | set(_ENGLISH.split()), frozenset(_ENGLISH_BEFORE_DIGITS.split()))


def has_own_list(language: str) -> bool:
    """Say whether a language has a list of its own here (others have English's)."""
    return language in ("de", "en", "fr")
