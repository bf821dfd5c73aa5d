"""Cues of what is said of a thing, in nine languages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.errors import ArtefactError
from medcoder.normalize.parse import cues as cues_module
from medcoder.normalize.parse.qualifiers import attributes, find_cues, readings, without
from medcoder.types import Attribute

# What is written, its kinds and values in order, and what is left of it.
CASES = [
    ("h/o asthma", "history", "asthma"),
    ("FHx of breast ca", "family", "breast ca"),
    ("no evidence of PE", "negated", "PE"),
    ("? PE", "doubt", "PE"),
    ("s/p L hip fracture 2014", "history side=left date=2014", "hip fracture"),
    ("PE excluded", "negated", "PE"),
    ("Z.n. Herzinfarkt 2014", "history date=2014", "Herzinfarkt"),
    ("V.a. Pneumonie re.", "doubt side=right", "Pneumonie"),
    ("mild to moderate AS", "severity=moderate", "AS"),
    ("72-year-old with pain in left knee", "date=72-year context side=left", "pain in knee"),
    ("known asthma since 2014", "context date=2014", "asthma"),
    ("10 yr hx of DM", "date=10 yr", "DM"),
    ("frattura femore sx", "side=left", "frattura femore"),
    ("Sin fiebre", "negated", "fiebre"),
    ("fractura izq", "side=left", "fractura"),
    ("gonartrosi sin", "side=left", "gonartrosi"),
    ("spalla dx", "side=right", "spalla"),
    ("dx: asthma", "context", "asthma"),
    ("otite aiguë G", "course=acute side=left", "otite"),
    ("Fracture of left hip, old", "side=left history", "Fracture of hip"),
    ("состояние после инфаркта миокарда", "history", "инфаркта миокарда"),
    ("хр. бронхит, в стадии обострения", "course=chronic course=exacerbation", "бронхит"),
    ("podejrzenie zapalenia płuc", "doubt", "zapalenia płuc"),
    ("ACUTE PAIN RT KNEE", "course=acute side=right", "PAIN KNEE"),
    ("FH: asthma", "family", "asthma"),
    ("fracture poignet D", "side=right", "fracture poignet"),
    ("knee pain and R hip", "side=right", "knee pain and hip"),
    ("Familienanamnese: Diabetes", "family", "Diabetes"),
    ("F.n. Appendizitis", "doubt", "Appendizitis"),
    ("kein Anhalt für Pneumonie", "negated", "Pneumonie"),
    ("bek. art. Hypertonie", "context", "art. Hypertonie"),
    ("chron. Niereninsuffizienz bds.", "course=chronic side=both", "Niereninsuffizienz"),
    ("li. Schulterschmerz seit 3 Tagen", "side=left date=3 Tagen", "Schulterschmerz"),
    ("St.p. Appendektomie", "history", "Appendektomie"),
    ("Z. n. Apoplex vor 2 Jahren", "history date=2 Jahren", "Apoplex"),
    ("schwere Aortenstenose", "severity=severe", "Aortenstenose"),
    ("antecedentes de infarto", "history", "infarto"),
    ("antecedentes familiares de cáncer de mama", "family", "cáncer de mama"),
    ("niega dolor torácico", "negated", "dolor torácico"),
    ("sospecha de neumonía", "doubt", "neumonía"),
    ("dolor hombro dcho hace 3 dias", "side=right date=3 dias", "dolor hombro"),
    ("gonartrosis bilateral moderada", "side=both severity=moderate", "gonartrosis"),
    ("insuficiencia renal crónica", "course=chronic", "insuficiencia renal"),
    ("ATCD d'infarctus", "history", "infarctus"),
    ("ATCD familiaux de diabète", "family", "diabète"),
    ("pas de fièvre", "negated", "fièvre"),
    ("suspicion d'embolie pulmonaire", "doubt", "embolie pulmonaire"),
    ("asthme connu depuis 2 ans", "context date=2 ans", "asthme"),
    ("douleur épaule gauche", "side=left", "douleur épaule"),
    ("embolie pulmonaire éliminée", "negated", "embolie pulmonaire"),
    ("voorgeschiedenis: hartinfarct", "history", "hartinfarct"),
    ("VG: CVA", "history", "CVA"),
    ("geen koorts", "negated", "koorts"),
    ("verdenking op longembolie", "doubt", "longembolie"),
    ("bekend met DM", "context", "DM"),
    ("fractuur li pols", "side=left", "fractuur pols"),
    ("bdz oedeem", "side=both", "oedeem"),
    ("moeder met borstkanker", "family", "borstkanker"),
    ("ernstige hoofdpijn sinds 2 weken", "severity=severe date=2 weken", "hoofdpijn"),
    ("pregresso IMA", "history", "IMA"),
    ("esiti di frattura", "history", "frattura"),
    ("sospetta polmonite", "doubt", "polmonite"),
    ("nega febbre", "negated", "febbre"),
    ("anamnesi familiare: diabete", "family", "diabete"),
    (
        "insufficienza renale cronica riacutizzata",
        "course=chronic course=exacerbation",
        "insufficienza renale",
    ),
    ("coxartrosi dx da 3 anni", "side=right date=3 anni", "coxartrosi"),
    ("história familiar de AVC", "family", "AVC"),
    ("HPP: asma", "history", "asma"),
    ("sem febre", "negated", "febre"),
    ("suspeita de pneumonia", "doubt", "pneumonia"),
    ("dor no joelho esquerdo", "side=left", "dor no joelho"),
    ("bronquite crônica há 3 anos", "course=chronic date=3 anos", "bronquite"),
    ("stan po zawale", "history", "zawale"),
    ("wywiad rodzinny: cukrzyca", "family", "cukrzyca"),
    ("zaprzecza bólom", "negated", "bólom"),
    ("nie ma gorączki", "negated", "gorączki"),
    ("przewlekła choroba nerek", "course=chronic", "choroba nerek"),
    ("ból kolana lewego od 3 dni", "side=left date=3 dni", "ból kolana"),
    ("перенесенный инсульт", "history", "инсульт"),
    ("семейный анамнез: диабет", "family", "диабет"),
    ("нет лихорадки", "negated", "лихорадки"),
    ("отрицает аллергию", "negated", "аллергию"),
    ("подозрение на пневмонию", "doubt", "пневмонию"),
    ("левосторонняя пневмония", "side=left", "пневмония"),
    ("острый бронхит", "course=acute", "бронхит"),
    ("инфаркт миокарда в анамнезе", "history", "инфаркт миокарда"),
    ("тяжёлая астма", "severity=severe", "астма"),
    ("боль в колене справа", "side=right", "боль в колене"),
    ("c/o chest pain x 3/52", "context date=3/52", "chest pain"),
    ("pt with ?TIA", "context doubt", "TIA"),
    ("Worried about rash", "context", "rash"),
    ("dd pneumonia", "context", "pneumonia"),
    ("DD pneumonia", "doubt", "pneumonia"),
    ("r/o MI", "doubt", "MI"),
    ("cannot exclude fracture", "doubt", "fracture"),
    ("appendicitis ruled out", "negated", "appendicitis"),
    ("PE - neg", "negated", "PE"),
    ("depression in remission", "course=remission", "depression"),
    ("re: chest pain", "context", "chest pain"),
    ("pain (R) knee", "side=right", "pain knee"),
    ("old MI", "history", "MI"),
    ("bilateral OME", "side=both", "OME"),
    ("pain in left and right knees", "side=both", "pain in knees"),
    ("h/o von Willebrand disease", "history", "von Willebrand disease"),
    ("h/o a fib", "history", "a fib"),
    ("breast ca 2014", "date=2014", "breast ca"),
    ("12.03.2019 Fraktur", "date=12.03.2019", "Fraktur"),
    ("(1998) MI", "date=1998", "MI"),
    ("MI (1998)", "date=1998", "MI"),
    ("since childhood asthma", "date=since childhood", "asthma"),
    ("no wheeze, mild cough", "negated severity=mild", "wheeze, cough"),
    ("VA Lungenembolie", "doubt", "Lungenembolie"),
    ("mother had CVA", "family", "CVA"),
    ("rec. UTI", "course=recurrent", "UTI"),
    ("COPD exacerbation", "course=exacerbation", "COPD"),
    ("DVT, left leg, Mar 2019", "side=left date=Mar 2019", "DVT, leg"),
    ("B/L knee pain x10y", "side=both date=10y", "knee pain"),
    ("ant. de asma", "history", "asma"),
    ("family history of breast cancer", "family", "breast cancer"),
    ("hx of stroke", "history", "stroke"),
    ("PMH: gout", "history", "gout"),
    ("status post appendectomy", "history", "appendectomy"),
    ("MI (old)", "history", "MI"),
    ("previous DVT, left", "history side=left", "DVT"),
    ("asthma, resolved", "history", "asthma"),
    ("FH of MI", "family", "MI"),
    ("sister with lupus", "family", "lupus"),
    ("denies chest pain", "negated", "chest pain"),
    ("w/o fever", "negated", "fever"),
    ("negative for TB", "negated", "TB"),
    ("HIV - neg", "negated", "HIV"),
    ("no signs of infection", "negated", "infection"),
    ("absence of menses", "negated", "menses"),
    ("pt denies SOB", "context negated", "SOB"),
    ("poss. fracture", "doubt", "fracture"),
    ("pneumonia ??", "doubt", "pneumonia"),
    ("probable viral gastroenteritis", "doubt", "viral gastroenteritis"),
    ("?R/O sepsis", "doubt", "sepsis"),
    ("likely UTI", "doubt", "UTI"),
    ("L wrist pain", "side=left", "wrist pain"),
    ("knee pain R", "side=right", "knee pain"),
    ("rt. ankle sprain", "side=right", "ankle sprain"),
    ("left-sided weakness", "side=left", "weakness"),
    ("both ears blocked", "side=both", "ears blocked"),
    ("severe AS", "severity=severe", "AS"),
    ("mod. MR", "severity=moderate", "MR"),
    ("acute renal failure", "course=acute", "renal failure"),
    ("subacute endocarditis", "course=subacute", "endocarditis"),
    ("new onset diabetes", "course=new", "diabetes"),
    ("longstanding back pain", "course=longstanding", "back pain"),
    ("known COPD", "context", "COPD"),
    ("Dx: gout", "context", "gout"),
    ("admitted for chest pain", "context", "chest pain"),
    ("presents with cough for 2 weeks", "context date=2 weeks", "cough"),
    ("headaches since 2014", "date=2014", "headaches"),
    ("gout 03/2019", "date=03/2019", "gout"),
    ("acute bronchitis 5/7", "course=acute date=5/7", "bronchitis"),
    ("Zustand nach Apoplex", "history", "Apoplex"),
    ("V. a. Lungenembolie", "doubt", "Lungenembolie"),
    ("Verdacht auf Appendizitis", "doubt", "Appendizitis"),
    ("Ausschluss von Lungenembolie", "negated", "Lungenembolie"),
    ("Lungenembolie ausgeschlossen", "negated", "Lungenembolie"),
    ("ohne Hinweis auf Fraktur", "negated", "Fraktur"),
    ("fraglich Pneumonie", "doubt", "Pneumonie"),
    ("Diagnose: Gicht", "context", "Gicht"),
    ("rechte Hüftfraktur", "side=right", "Hüftfraktur"),
    ("mittelgradige Mitralinsuffizienz", "severity=moderate", "Mitralinsuffizienz"),
    ("rez. Harnwegsinfekt", "course=recurrent", "Harnwegsinfekt"),
    ("Mutter mit Brustkrebs", "family", "Brustkrebs"),
    ("Asthma anamnestisch", "history", "Asthma"),
    ("sin evidencia de TEP", "negated", "TEP"),
    ("a descartar neumonía", "doubt", "neumonía"),
    ("posible apendicitis", "doubt", "apendicitis"),
    ("TEP descartado", "negated", "TEP"),
    ("dolor rodilla izq.", "side=left", "dolor rodilla"),
    ("asma leve", "severity=mild", "asma"),
    ("otitis aguda recurrente", "course=acute course=recurrent", "otitis"),
    ("madre con diabetes", "family", "diabetes"),
    ("diabetes conocida", "context", "diabetes"),
    ("sans fièvre", "negated", "fièvre"),
    ("absence de thrombose", "negated", "thrombose"),
    ("antécédents de phlébite", "history", "phlébite"),
    ("phlébite à éliminer", "doubt", "phlébite"),
    ("asthme sévère", "severity=severe", "asthme"),
    ("bronchite aiguë", "course=acute", "bronchite"),
    ("hanche droite douloureuse", "side=right", "hanche douloureuse"),
    ("état après AVC", "history", "AVC"),
    ("otite bilatérale récidivante", "side=both course=recurrent", "otite"),
    ("doorgemaakt hartinfarct", "history", "hartinfarct"),
    ("status na CVA", "history", "CVA"),
    ("zonder koorts", "negated", "koorts"),
    ("longembolie uitgesloten", "negated", "longembolie"),
    ("mogelijk fractuur", "doubt", "fractuur"),
    ("pijn knie re", "side=right", "pijn knie"),
    ("matige mitralisinsufficiëntie", "severity=moderate", "mitralisinsufficiëntie"),
    ("chronische nierinsufficiëntie", "course=chronic", "nierinsufficiëntie"),
    ("familieanamnese: diabetes", "family", "diabetes"),
    ("stato dopo ictus", "history", "ictus"),
    ("senza febbre", "negated", "febbre"),
    ("assenza di dolore", "negated", "dolore"),
    ("possibile frattura", "doubt", "frattura"),
    ("spalla sinistra dolente", "side=left", "spalla dolente"),
    ("asma grave", "severity=severe", "asma"),
    ("bronchite acuta", "course=acute", "bronchite"),
    ("madre con diabete", "family", "diabete"),
    ("ipertensione nota dal 2014", "context date=2014", "ipertensione"),
    ("antecedentes de asma", "history", "asma"),
    ("ausência de febre", "negated", "febre"),
    ("provável pneumonia", "doubt", "pneumonia"),
    ("ombro direito doloroso", "side=right", "ombro doloroso"),
    ("asma moderada", "severity=moderate", "asma"),
    ("gastrite aguda", "course=acute", "gastrite"),
    ("mãe com diabetes", "family", "diabetes"),
    ("przebyty zawał", "history", "zawał"),
    ("zawał w wywiadzie", "history", "zawał"),
    ("bez gorączki", "negated", "gorączki"),
    ("wykluczono zator", "negated", "zator"),
    ("prawdopodobnie zapalenie", "doubt", "zapalenie"),
    ("złamanie prawej ręki", "side=right", "złamanie ręki"),
    ("lekka astma", "severity=mild", "astma"),
    ("ostre zapalenie", "course=acute", "zapalenie"),
    ("cukrzyca od 2014 r.", "date=2014 r.", "cukrzyca"),
    ("без температуры", "negated", "температуры"),
    ("инфаркт исключен", "negated", "инфаркт"),
    ("вероятно пневмония", "doubt", "пневмония"),
    ("двусторонняя пневмония", "side=both", "пневмония"),
    ("боль в животе слева", "side=left", "боль в животе"),
    ("хронический гастрит", "course=chronic", "гастрит"),
    ("астма средней тяжести", "severity=moderate", "астма"),
    ("гастрит с 2014 г.", "date=2014 г.", "гастрит"),
    ("состояние после операции", "history", "операции"),
    ("рецидивирующий отит", "course=recurrent", "отит"),
    ("psoriasis of both", "side=both", "psoriasis"),
    ("h/o the measles", "history", "measles"),
    ("no h/o seizures", "negated", "seizures"),
    ("CKD dx'd in 2015", "date=2015", "CKD"),
    ("ACUTE LEFT OTITIS", "course=acute side=left", "OTITIS"),
    ("12 Mar 2019 fracture", "date=12 Mar 2019", "fracture"),
    ("2016 hip replacement", "date=2016", "hip replacement"),
]
NOTHING = [
    "FH",
    "h/o",
    "no",
    "Raynaud's phenomenon",
    "22q11 deletion",
    "type 2 diabetes",
    "No. 3",
    "non-Hodgkin lymphoma",
    "post-traumatic stress disorder",
    "disease, not otherwise specified",
    "vitamin D",
    "hepatitis B, acute on chronic",
    "migraine without aura",
    "migraña sin aura",
    "hépatite D",
    "L5/S1",
    "no 3",
    "2019-nCoV",
    "RT for cancer",
    "Hepatitis B and D",
    "old age",
    "trisomy 21",
    "factor 8",
    "NYHA III",
    "T2",
    "AF",
    "FA paroxystique",
    "Zn deficiency",
    "query fever",
    "Li-Fraumeni syndrome",
    "Grave's disease",
    "vitamin B12 and D",
    "34 weeks gestation",
    "VA 6/12",
    "infant of diabetic mother",
    "AC joint pain",
    "Chr 21 deletion",
    "ant. uveitis",
    "not elsewhere classified",
    "hepatitis D",
    "Rh D",
    "blood group D",
    "post operative pain",
    "post-operative ileus",
    "post partum haemorrhage",
    "factor 5 Leiden",
    "stage 4",
    "grade III",
    "T-cell lymphoma",
    "L-dopa",
    "R-on-T",
    "triple negative breast cancer",
    "diabetes mellitus no insulinodependiente",
    "2000 mg",
    "acute-on-chronic liver failure",
]

# Any characters, and strings that are made of what cues are made of.
WORDS = st.sampled_from(
    [
        "h/o",
        "no",
        "left",
        "chronic",
        "mild",
        "?",
        "(R)",
        "L,",
        "Z.n.",
        "sin",
        "dx",
        "of",
        "de",
        "since",
        "2014",
        "x",
        "3/52",
        "asthma",
        "excluded",
        "not",
        "known",
        "(",
        ")",
        "[",
        "-",
        ":",
        ",",
        "pain",
        "D",
        "d'fièvre",
        "нет",
        "слева",
        "V.a.",
        "İ",
        "ﬁ",
        "\u0301",
    ]
)
TEXTS = st.text(max_size=40) | st.lists(WORDS, max_size=14).map(" ".join)


def said(cues):
    return " ".join(f"{cue.kind}={cue.value}" if cue.value else cue.kind for cue in cues)


@pytest.mark.parametrize(("text", "kinds", "rest"), CASES)
def test_cues_are_found_and_taken_off(text, kinds, rest):
    cues = find_cues(text)
    assert (said(cues), without(text, cues)) == (kinds, rest)


@pytest.mark.parametrize("text", NOTHING)
def test_what_belongs_to_a_name_is_no_cue(text):
    assert find_cues(text) == []


def test_there_are_many_cases():
    assert len(CASES) >= 120


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("Fracture R wrist", "right"),
        ("(L) otitis", "left"),
        ("knee pain L", "left"),
        ("hanche (G)", "left"),
        ("entorse cheville D", "right"),
    ],
)
def test_single_letters_are_sides_where_nothing_speaks_against_it(text, side):
    assert said(find_cues(text)) == f"side={side}"


def test_case_counts_for_single_letters_and_marked_cues():
    assert find_cues("pain l") == []
    assert said(find_cues("FH: gout")) == "family"
    assert find_cues("Zn poisoning") == []
    assert said(find_cues("Zn Apoplex")) == "history"


def test_a_cue_needs_something_to_be_said_of():
    assert said(find_cues("h/o old")) == "history"
    assert said(find_cues("? PMH")) == "doubt"


def test_accents_and_typographic_signs_do_not_count():
    assert said(find_cues("bronchite aigue")) == said(find_cues("BRONCHITE AIGUË"))
    assert said(find_cues("suspicion d\u2019embolie")) == "doubt"


def test_readings_take_off_what_decides_first():
    text = "known h/o severe acute left otitis"
    forms = [form for form, _ in readings(text, find_cues(text))]
    assert forms == [
        "known h/o severe acute left otitis",
        "h/o severe acute left otitis",
        "known severe acute left otitis",
        "severe acute left otitis",
        "acute left otitis",
        "severe acute otitis",
        "severe left otitis",
        "acute otitis",
        "left otitis",
        "severe otitis",
        "otitis",
    ]


def test_readings_tell_what_they_are_without():
    text = "PE excluded, 2014"
    removed = {form: [cue.text for cue in cues] for form, cues in readings(text, find_cues(text))}
    assert removed == {
        "PE excluded, 2014": [],
        "PE excluded": ["2014"],
        "PE, 2014": ["excluded"],
        "PE": ["excluded", "2014"],
    }


def test_forms_without_letters_are_not_given():
    assert list(readings("left 2014", find_cues("left 2014")))[1:] == [
        ("left", (find_cues("left 2014")[1],))
    ]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("h/o: , asthma", "asthma"),
        ("MI (old, 2014)", "MI"),
        ("MI (left anterior)", "MI (anterior)"),
        ("otitis media, left, chronic", "otitis media"),
        ("pain on the right", "pain"),
        ("h/o a stroke", "stroke"),
        ("Z.n. von Willebrand", "von Willebrand"),
        ("mild to moderate or severe asthma", "asthma"),
    ],
)
def test_nothing_hangs_where_a_cue_was(text, rest):
    assert without(text, find_cues(text)) == rest


def test_without_nothing_a_string_is_only_tidied():
    assert without("de Quervain  tenosynovitis (left ,", ()) == "de Quervain tenosynovitis (left"


def test_attributes_are_of_what_is_said():
    assert attributes(find_cues("known h/o left DVT")) == (
        Attribute("history", "", "h/o"),
        Attribute("side", "left", "left"),
    )


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_cues_of_any_text_are_in_order_and_as_written(text):
    cues = find_cues(text)
    assert all(text[cue.start : cue.end] == cue.text != "" for cue in cues)
    assert all(cue.kind in cues_module.KINDS for cue in cues)
    edges = [edge for cue in cues for edge in (cue.start, cue.end)]
    assert edges == sorted(edges)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_readings_of_any_text_are_few_and_distinct(text):
    forms = [form for form, _ in readings(text, find_cues(text))]
    assert forms[0] == text
    assert len(forms) == len(set(forms)) <= 12
    assert all(any(map(str.isalpha, form)) for form in forms[1:])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["acute", "pancreatitis", "5/7", "(old)", "B, C"])).map(" ".join))
def test_without_nothing_a_tidy_text_stays(text):
    assert without(text, ()) == text


def test_each_row_of_the_table_can_be_met():
    rows = list(cues_module._rows())
    languages = {language for row in rows for language in row["language"].split()}
    assert languages == {"en", "de", "es", "fr", "nl", "it", "pt", "pl", "ru"}
    for row in rows:
        assert row["cue"] == row["cue"].strip() != ""
        assert row["kind"] in (*cues_module.KINDS, "name")
        assert row["place"] in (("",) if row["kind"] in ("date", "name") else cues_module.PLACES)


def test_no_cue_means_two_things_in_one_place():
    meant, names = {}, set()
    for row in list(cues_module._rows()):
        key = row["cue"] if row["cue"].startswith("=") else cues_module.plain(row["cue"])
        if row["kind"] == "name":
            names.add(key)
        elif row["kind"] != "date":
            meaning = (row["kind"], row["value"])
            assert meant.setdefault((key, row["place"]), meaning) == meaning, key
    assert not names & {key for key, _ in meant}


def test_a_table_that_cannot_be_read_is_an_error(monkeypatch, tmp_path):
    table = tmp_path / "cues.tsv"
    table.write_text("cue\tkind\nh/o\thistory\n", "utf-8")
    monkeypatch.setattr(cues_module, "FILE", table)
    with pytest.raises(ArtefactError, match="columns"):
        list(cues_module._rows())
