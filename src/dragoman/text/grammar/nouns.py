"""The nouns of the embedded grammar, in both languages, as a table.

Paper: none (infrastructure)

A line reads: English | English plural | article and German | genitive | German plural. "=" repeats the German
singular, "-" is none: a mass noun. A masculine noun whose genitive ends in -n is weak.
"""

from __future__ import annotations

from dragoman.text.grammar.syntax import Noun

_TABLE = """
[person]
man | men | der Mann | Mannes | Männer
woman | women | die Frau | = | Frauen
boy | boys | der Junge | Jungen | Jungen
girl | girls | das Mädchen | Mädchens | =
child | children | das Kind | Kindes | Kinder
father | fathers | der Vater | Vaters | Väter
mother | mothers | die Mutter | = | Mütter
brother | brothers | der Bruder | Bruders | Brüder
sister | sisters | die Schwester | = | Schwestern
son | sons | der Sohn | Sohnes | Söhne
daughter | daughters | die Tochter | = | Töchter
uncle | uncles | der Onkel | Onkels | =
aunt | aunts | die Tante | = | Tanten
grandmother | grandmothers | die Großmutter | = | Großmütter
neighbor | neighbors | der Nachbar | Nachbarn | Nachbarn
teacher | teachers | der Lehrer | Lehrers | =
doctor | doctors | der Arzt | Arztes | Ärzte
student | students | der Student | Studenten | Studenten
baker | bakers | der Bäcker | Bäckers | =
farmer | farmers | der Bauer | Bauern | Bauern
colleague | colleagues | der Kollege | Kollegen | Kollegen
friend | friends | der Freund | Freundes | Freunde
guest | guests | der Gast | Gastes | Gäste
king | kings | der König | Königs | Könige
queen | queens | die Königin | = | Königinnen
nurse | nurses | die Krankenschwester | = | Krankenschwestern
tourist | tourists | der Tourist | Touristen | Touristen
lawyer | lawyers | der Anwalt | Anwalts | Anwälte
police officer | police officers | der Polizist | Polizisten | Polizisten
bus driver | bus drivers | der Busfahrer | Busfahrers | =
[animal]
dog | dogs | der Hund | Hundes | Hunde
cat | cats | die Katze | = | Katzen
horse | horses | das Pferd | Pferdes | Pferde
bird | birds | der Vogel | Vogels | Vögel
cow | cows | die Kuh | = | Kühe
rabbit | rabbits | das Kaninchen | Kaninchens | =
goat | goats | die Ziege | = | Ziegen
bear | bears | der Bär | Bären | Bären
[food]
apple | apples | der Apfel | Apfels | Äpfel
pear | pears | die Birne | = | Birnen
egg | eggs | das Ei | Eies | Eier
potato | potatoes | die Kartoffel | = | Kartoffeln
tomato | tomatoes | die Tomate | = | Tomaten
sausage | sausages | die Wurst | = | Würste
roll | rolls | das Brötchen | Brötchens | =
cake | cakes | der Kuchen | Kuchens | =
apple cake | apple cakes | der Apfelkuchen | Apfelkuchens | =
plum cake | plum cakes | der Pflaumenkuchen | Pflaumenkuchens | =
bread | - | das Brot | Brotes | -
cheese | - | der Käse | Käses | -
meat | - | das Fleisch | Fleisches | -
[drink]
water | - | das Wasser | Wassers | -
milk | - | die Milch | = | -
coffee | - | der Kaffee | Kaffees | -
tea | - | der Tee | Tees | -
wine | - | der Wein | Weins | -
beer | - | das Bier | Bieres | -
apple juice | - | der Apfelsaft | Apfelsafts | -
orange juice | - | der Orangensaft | Orangensafts | -
[text]
book | books | das Buch | Buches | Bücher
letter | letters | der Brief | Briefes | Briefe
love letter | love letters | der Liebesbrief | Liebesbriefes | Liebesbriefe
newspaper | newspapers | die Zeitung | = | Zeitungen
poem | poems | das Gedicht | Gedichts | Gedichte
story | stories | die Geschichte | = | Geschichten
novel | novels | der Roman | Romans | Romane
report | reports | der Bericht | Berichts | Berichte
[thing]
lamp | lamps | die Lampe | = | Lampen
picture | pictures | das Bild | Bildes | Bilder
cup | cups | die Tasse | = | Tassen
coffee cup | coffee cups | die Kaffeetasse | = | Kaffeetassen
bottle | bottles | die Flasche | = | Flaschen
wine bottle | wine bottles | die Weinflasche | = | Weinflaschen
key | keys | der Schlüssel | Schlüssels | =
house key | house keys | der Hausschlüssel | Hausschlüssels | =
car key | car keys | der Autoschlüssel | Autoschlüssels | =
bag | bags | die Tasche | = | Taschen
ball | balls | der Ball | Balles | Bälle
box | boxes | die Kiste | = | Kisten
camera | cameras | die Kamera | = | Kameras
umbrella | umbrellas | der Regenschirm | Regenschirms | Regenschirme
gift | gifts | das Geschenk | Geschenks | Geschenke
knife | knives | das Messer | Messers | =
spoon | spoons | der Löffel | Löffels | =
plate | plates | der Teller | Tellers | =
[clothing]
coat | coats | der Mantel | Mantels | Mäntel
winter coat | winter coats | der Wintermantel | Wintermantels | Wintermäntel
hat | hats | der Hut | Hutes | Hüte
shirt | shirts | das Hemd | Hemdes | Hemden
dress | dresses | das Kleid | Kleides | Kleider
jacket | jackets | die Jacke | = | Jacken
[furniture]
table | tables | der Tisch | Tisches | Tische
kitchen table | kitchen tables | der Küchentisch | Küchentisches | Küchentische
chair | chairs | der Stuhl | Stuhls | Stühle
garden chair | garden chairs | der Gartenstuhl | Gartenstuhls | Gartenstühle
bed | beds | das Bett | Bettes | Betten
shelf | shelves | das Regal | Regals | Regale
[vehicle]
car | cars | das Auto | Autos | Autos
bicycle | bicycles | das Fahrrad | Fahrrads | Fahrräder
truck | trucks | der Lastwagen | Lastwagens | =
boat | boats | das Boot | Bootes | Boote
bus | buses | der Bus | Busses | Busse
train | trains | der Zug | Zuges | Züge
[room]
garden | gardens | der Garten | Gartens | Gärten
kitchen | kitchens | die Küche | = | Küchen
house | houses | das Haus | Hauses | Häuser
room | rooms | das Zimmer | Zimmers | =
office | offices | das Büro | Büros | Büros
[town]
city | cities | die Stadt | = | Städte
village | villages | das Dorf | Dorfes | Dörfer
park | parks | der Park | Parks | Parks
forest | forests | der Wald | Waldes | Wälder
school | schools | die Schule | = | Schulen
church | churches | die Kirche | = | Kirchen
museum | museums | das Museum | Museums | Museen
hotel | hotels | das Hotel | Hotels | Hotels
library | libraries | die Bibliothek | = | Bibliotheken
restaurant | restaurants | das Restaurant | Restaurants | Restaurants
[edge]
station | stations | der Bahnhof | Bahnhofs | Bahnhöfe
airport | airports | der Flughafen | Flughafens | Flughäfen
lake | lakes | der See | Sees | Seen
[event]
meeting | meetings | die Sitzung | = | Sitzungen
journey | journeys | die Reise | = | Reisen
concert | concerts | das Konzert | Konzerts | Konzerte
storm | storms | der Sturm | Sturmes | Stürme
[idea]
plan | plans | der Plan | Plans | Pläne
problem | problems | das Problem | Problems | Probleme
question | questions | die Frage | = | Fragen
rule | rules | die Regel | = | Regeln
mistake | mistakes | der Fehler | Fehlers | =
"""

_GENDERS = {"der": "m", "die": "f", "das": "n"}


def _noun(line: str, kind: str) -> Noun:
    english, english_plural, german, genitive, plural = (part.strip() for part in line.split("|"))
    article, nominative = german.split()
    gender = _GENDERS[article]
    return Noun(
        english=tuple(english.split()),
        english_plural=tuple(english_plural.split()),
        german=nominative,
        genitive=nominative if genitive == "=" else genitive,
        german_plural=nominative if plural == "=" else plural,
        gender=gender,
        kind=kind,
        weak=gender == "m" and genitive.endswith("n"),
        mass=plural == "-",
    )


def _read(table: str) -> tuple[Noun, ...]:
    nouns: list[Noun] = []
    kind = ""
    for line in filter(None, table.splitlines()):
        if line.startswith("["):
            kind = line.strip("[]")
        else:
            nouns.append(_noun(line, kind))
    return tuple(nouns)


NOUNS: tuple[Noun, ...] = _read(_TABLE)


def nouns_of(kinds: tuple[str, ...]) -> tuple[Noun, ...]:
    """The nouns of any of these kinds, in the table's order."""
    return tuple(noun for noun in NOUNS if noun.kind in kinds)
