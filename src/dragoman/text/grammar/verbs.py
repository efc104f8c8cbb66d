"""The verbs of the embedded grammar, in both languages, as a table.

Paper: none (infrastructure)

A line reads: English | German | kinds of subject | kinds of object. English: base form, then past and
participle where they are irregular ("-": not used, being unlike no other form), then "+particle" (moves
behind a pronoun) or "=preposition" (does not). German: "prefix:infinitive", third person singular,
participle, then what applies of "sein" (auxiliary), "sich", "auf/accusative" (preposition and case),
"past=", "ich=", "wir=".
"""

from __future__ import annotations

from dragoman.text.grammar.syntax import Case, EnglishVerb, Frame, GermanVerb, Verb

_TABLE = """
[alone]
sleep slept slept | schlafen schläft geschlafen | person animal |
work | arbeiten arbeitet gearbeitet | person |
laugh | lachen lacht gelacht | person |
dance | tanzen tanzt getanzt | person |
cook | kochen kocht gekocht | person |
arrive | an:kommen kommt gekommen sein | person vehicle |
get got gotten +up | auf:stehen steht gestanden sein | person |
wake woke woken +up | auf:wachen wacht gewacht sein | person animal |
come came come +back | zurück:kommen kommt gekommen sein | person animal |
disappear | verschwinden verschwindet verschwunden sein | person animal vehicle |
hurry | beeilen beeilt beeilt sich | person |
rest | aus:ruhen ruht geruht sich | person |
[accusative]
see saw seen | sehen sieht gesehen | person animal | person animal vehicle furniture thing room
find found found | finden findet gefunden | person | animal thing clothing text
look =for | suchen sucht gesucht | person | person animal thing clothing text room
buy bought bought | kaufen kauft gekauft | person | thing clothing furniture vehicle text food drink
sell sold sold | verkaufen verkauft verkauft | person | thing clothing furniture vehicle text food drink
need | brauchen braucht gebraucht past=brauchte | person | thing clothing furniture vehicle
forget forgot forgotten | vergessen vergisst vergessen | person | thing clothing text idea
lose lost lost | verlieren verliert verloren | person | thing clothing text
eat ate eaten | essen isst gegessen | person animal | food
drink drank drunk | trinken trinkt getrunken | person | drink
read - read | lesen liest gelesen | person | text
write wrote written | schreiben schreibt geschrieben | person | text
visit | besuchen besucht besucht | person | person town
meet met met | treffen trifft getroffen | person | person
love | lieben liebt geliebt | person | person animal
know knew known | kennen kennt gekannt past=kannte | person | person text town idea
have had had | haben hat gehabt past=hatte | person | animal thing clothing furniture vehicle idea
like | mögen mag gemocht past=mochte ich=mag | person | person animal food drink text town room
repair | reparieren repariert repariert | person | vehicle furniture
wash | waschen wäscht gewaschen | person | vehicle clothing
carry | tragen trägt getragen | person | thing furniture
call | an:rufen ruft gerufen | person | person
pick +up | ab:holen holt geholt | person | person
invite | ein:laden lädt geladen | person | person
throw threw thrown +away | weg:werfen wirft geworfen | person | thing clothing text food
bring brought brought +along | mit:bringen bringt gebracht | person | thing text food drink
try +on | an:probieren probiert probiert | person | clothing
put - put +on | an:ziehen zieht gezogen | person | clothing
clean +up | auf:räumen räumt geräumt | person | room
look =at | an:sehen sieht gesehen | person | vehicle thing town room
[dative]
help | helfen hilft geholfen | person | person animal
thank | danken dankt gedankt | person | person
answer | antworten antwortet geantwortet | person | person
trust | vertrauen vertraut vertraut | person | person
follow | folgen folgt gefolgt sein | person animal | person animal
congratulate | gratulieren gratuliert gratuliert | person | person
listen =to | zu:hören hört gehört | person | person
belong =to | gehören gehört gehört past=gehörte | thing clothing furniture vehicle text | person
[give]
give gave given | geben gibt gegeben | person | thing clothing text food
show showed shown | zeigen zeigt gezeigt | person | thing clothing text vehicle
send sent sent | schicken schickt geschickt | person | thing text
lend lent lent | leihen leiht geliehen | person | thing clothing text vehicle
sell_ sold sold | verkaufen verkauft verkauft | person | thing clothing vehicle furniture
offer | an:bieten bietet geboten | person | food drink
give_ gave given +back | zurück:geben gibt gegeben | person | thing clothing text
[preposition]
wait =for | warten wartet gewartet auf/accusative | person | person vehicle
think thought thought =of | denken denkt gedacht an/accusative | person | person animal idea
talk =about | sprechen spricht gesprochen über/accusative | person | person text event idea
dream =of | träumen träumt geträumt von/dative | person | person animal event
laugh_ =about | lachen lacht gelacht über/accusative | person | person animal text
tell told told =of | erzählen erzählt erzählt von/dative | person | person animal event text
hear_ heard heard =about | hören hört gehört von/dative | person | person event idea
remember | erinnern erinnert erinnert sich an/accusative | person | person event text
complain =about | beschweren beschwert beschwert sich über/accusative | person | person food event
look =forward to | freuen freut gefreut sich auf/accusative | person | event food
take took taken =part in | teil:nehmen nimmt genommen an/dative | person | event
[direction]
go went gone | gehen geht gegangen sein | person |
drive drove driven | fahren fährt gefahren sein | person |
run ran run | laufen läuft gelaufen sein | person animal |
come_ came come +along | mit:kommen kommt gekommen sein | person |
travel | reisen reist gereist sein | person |
return | zurück:kehren kehrt gekehrt sein | person |
[location]
stay | bleiben bleibt geblieben sein | person animal |
live | wohnen wohnt gewohnt | person |
sit sat sat | sitzen sitzt gesessen | person animal |
stand stood stood | stehen steht gestanden | furniture vehicle |
[placement]
lay laid laid | legen legt gelegt | person | text clothing
place | stellen stellt gestellt | person | furniture
[clause]
say said said | sagen sagt gesagt | person |
believe | glauben glaubt geglaubt | person |
know_ knew known | wissen weiß gewusst past=wusste ich=weiß | person |
hope | hoffen hofft gehofft | person |
hear heard heard | hören hört gehört | person |
ask | fragen fragt gefragt | person |
[infinitive]
try_ | versuchen versucht versucht | person |
forget_ forgot forgotten | vergessen vergisst vergessen | person |
promise | versprechen verspricht versprochen | person |
begin began begun | beginnen beginnt begonnen | person |
decide | beschließen beschließt beschlossen | person |
[predicate]
be - been | sein ist gewesen sein past=war ich=bin wir=sind | |
[amount]
cost - cost | kosten kostet gekostet | |
"""


def _third(base: str) -> str:
    irregular = {"have": "has", "be": "is"}
    if base in irregular:
        return irregular[base]
    if base.endswith(("s", "sh", "ch", "x", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def _regular_past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + "ed"


def _english(text: str) -> EnglishVerb:
    head, _, preposition = text.partition("=")
    head, _, particle = head.partition("+")
    base, *irregular = head.split()
    base = base.rstrip("_")
    past, participle = irregular or [_regular_past(base)] * 2
    past = "" if past == "-" else past
    return EnglishVerb(base, _third(base), past, participle, particle.strip(), preposition.strip())


def _ich(infinitive: str) -> str:
    stem = infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]
    return stem + "e"


def _german(text: str) -> GermanVerb:
    infinitive, er, participle, *marks = text.split()
    prefix, _, infinitive = infinitive.rpartition(":")
    named = dict(mark.split("=") for mark in marks if "=" in mark)
    preposition, case = next((mark.split("/") for mark in marks if "/" in mark), ("", "accusative"))
    return GermanVerb(
        prefix=prefix,
        infinitive=infinitive,
        ich=named.get("ich", _ich(infinitive)),
        er=er,
        wir=named.get("wir", infinitive),
        participle=prefix + participle,
        auxiliary="sein" if "sein" in marks else "haben",
        preterite=named.get("past", ""),
        reflexive="sich" in marks,
        preposition=preposition,
        case=Case[case.upper()],
    )


def _verb(line: str, frame: Frame) -> Verb:
    english, german, subjects, *objects = (part.strip() for part in line.split("|"))
    verb = _german(german)
    return Verb(
        lemma=f"{' '.join(english.replace('_', '').split()[:1])}/{verb.prefix}{verb.infinitive}",
        english=_english(english),
        german=verb,
        frame=frame,
        subjects=tuple(subjects.split()),
        objects=tuple(" ".join(objects).split()),
    )


def _read(table: str) -> tuple[Verb, ...]:
    verbs: list[Verb] = []
    frame = Frame.ALONE
    for line in filter(None, table.splitlines()):
        if line.startswith("["):
            frame = Frame(line.strip("[]"))
        else:
            verbs.append(_verb(line, frame))
    return tuple(verbs)


VERBS: tuple[Verb, ...] = _read(_TABLE)


def verbs_of(*frames: Frame) -> tuple[Verb, ...]:
    """The verbs of any of these frames, in the table's order."""
    return tuple(verb for verb in VERBS if verb.frame in frames)


BE: Verb = verbs_of(Frame.PREDICATE)[0]
COST: Verb = verbs_of(Frame.AMOUNT)[0]
