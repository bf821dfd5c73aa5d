"""Surface forms: cleaned for keeping, folded for look-up."""

import unicodedata
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medcoder.errors import ArtefactError
from medcoder.text import (
    FOLD_VERSION,
    LANGUAGE_TAGS,
    check_fold,
    clean,
    fold,
    fold_series,
    language_in,
    language_tag,
    not_a_term,
    nothing_meant,
)
from support.strings import texts


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("  two  spaces ", "two spaces"),
        ("tab\tand\nbreak\r\n", "tab and break"),
        ("line\u2028next\u0085last\u2029", "line next last"),
        ("nbsp\u00a0wide\u3000zero\u200bbom\ufeff", "nbsp wide zero bom"),
        ("nul\x00bell\x07del\x7f", "nul bell del"),
        ("e\u0301", "é"),
        ("ﬁ ½ Ａ", "ﬁ ½ Ａ"),
        ("Crohn\u2019s (NOS), \u201cstage 2\u201d", "Crohn\u2019s (NOS), \u201cstage 2\u201d"),
        ("", ""),
        (" \n", ""),
    ],
)
def test_clean(text, cleaned):
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Crohn's disease", "crohns disease"),
        ("Crohn\u2019s Disease", "crohns disease"),
        ("CROHN\u00b4S  DISEASE", "crohns disease"),
        ("Crohn\uff07s disease", "crohns disease"),
        ("Crohn`s disease", "crohns disease"),
        ("épilepsie", "epilepsie"),
        ("e\u0301pilepsie", "epilepsie"),
        ("Ménière-Krankheit", "meniere krankheit"),
        ("naïve Ångström", "naive angstrom"),
        ("Viêm phế quản", "viem phe quan"),
        ("Straße", "strasse"),
        ("İstanbul", "istanbul"),
        ("Łódź", "łodz"),
        ("Έμφραγμα του μυοκαρδίου", "εμφραγμα του μυοκαρδιου"),
        ("ΚΑΡΚΙΝΟΣ", "καρκινοσ"),
        ("καρκίνος", "καρκινοσ"),
        ("µg", "μg"),
        ("が", "が"),
        ("か\u3099", "が"),
        ("ｶﾞﾝ", "ガン"),
        ("かぜ", "かぜ"),
        ("เบาหวาน", "เบาหวาน"),
        ("หัวใจ", "หัวใจ"),
        ("मधुमेह", "मधुमेह"),
        ("क्षय", "क्षय"),
        ("й", "й"),
        ("и\u0306", "й"),
        ("심근경색", "심근경색"),
        ("\u1109\u1175\u11b7", "심"),
        ("ﬁbrillation", "fibrillation"),
        ("vitamin B₁₂", "vitamin b12"),
        ("½ dose", "1 2 dose"),
        ("Rh+", "rh+"),
        ("Rh-", "rh"),
        ("50% burn", "50% burn"),
        ("BMI <18.5", "bmi <18 5"),
        ("A&E", "a&e"),
        ("C_D", "c d"),
        ("1-(2-chlorophenyl)-3-methylurea", "1 2 chlorophenyl 3 methylurea"),
        ("(disorder)", "disorder"),
        ("hyper\u00adtension", "hypertension"),
        ("\u200fסוכרת\u200e", "סוכרת"),
        ("क्\u200dष", "क्ष"),
        ("zero\u200bwidth", "zero width"),
        ("NA", "na"),
        ("---", "---"),
        (" ( ) ", "( )"),
        ("'", "'"),
        ("\u00b4", "'"),
        ("…", "..."),
        ("", ""),
        (" \t\u2028", ""),
    ],
)
def test_fold(text, folded):
    assert fold(text) == folded


def test_marks_that_make_another_letter_keep_words_apart():
    assert fold("か") != fold("が")
    assert fold("и") != fold("й")
    assert fold("कि") != fold("क")
    assert fold("Rh+") != fold("Rh")


@given(texts)
@example("г'\u0301")
@example("ㄱ'ㅏ")
@example("か'\u3099")
@example("É\u05c1\u0304")
@example("\u0315'\u0301")
@example("a\u200d\u0301")
@example("`\u200b")
def test_folding_is_done_once(text):
    folded = fold(text)
    assert fold(folded) == folded
    assert fold(clean(text)) == folded
    assert folded == " ".join(folded.split())


@given(texts)
def test_the_form_of_normalisation_does_not_matter(text):
    for form in ("NFC", "NFD"):
        assert fold(unicodedata.normalize(form, text.replace("\u00b4", "'"))) == fold(text)


@given(texts)
def test_cleaning_is_done_once_and_leaves_one_line(text):
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert len(cleaned.splitlines()) <= 1


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        ("ENG", "en"),
        ("eng", "en"),
        ("en", "en"),
        (" EN ", "en"),
        ("FRE", "fr"),
        ("fra", "fr"),
        ("CHI", "zh"),
        ("zh_TW", "zh-tw"),
        ("en-US", "en-us"),
        ("ENG-GB", "en-gb"),
        ("SCR", "hr"),
        ("tlh", "tlh"),
        ("", ""),
    ],
)
def test_language_tags(code, tag):
    assert language_tag(code) == tag


@given(st.sampled_from([*LANGUAGE_TAGS, "xx", "en-us"]))
def test_a_tag_of_a_tag_is_itself(code):
    assert language_tag(language_tag(code)) == language_tag(code.upper()) == language_tag(code)


def test_a_variety_is_in_its_language():
    assert language_in("pt", ["pt"])
    assert language_in("pt-br", ["en", "pt"])
    assert language_in("pt-br", ["pt-br"])
    assert not language_in("pt", ["pt-br"])
    assert not language_in("ptx", ["pt"])


# The version of fold


@pytest.mark.parametrize("meta", [{}, {"fold": FOLD_VERSION}])
def test_a_directory_of_this_fold_opens(meta):
    check_fold(meta, Path("x.kg"), command="medcoder kg build")


def test_a_directory_of_another_fold_says_how_to_build_it_again():
    with pytest.raises(ArtefactError) as caught:
        check_fold({"fold": 7, "made_by": "medcoder 9"}, Path("x.kg"), command="medcoder kg build")
    assert (caught.value.where, caught.value.values) == ("x.kg", "fold 7, not 1")
    assert "Build it again with: medcoder kg build" in str(caught.value)
    assert "(medcoder 9)" in str(caught.value)


@given(st.lists(texts | st.text(st.characters(codec="ascii"), max_size=8)))
@example(["'", "a_b", "A'B`c", "\x00", "--", "", "\x1f", "a ' b", "É", "K"])
def test_a_folded_column_is_its_folded_rows(column):
    series = pl.Series("term", column, dtype=pl.String)
    assert fold_series(series).to_list() == [fold(text) for text in column]


NO_TERMS = """277|3.5|-2,5|1e5|120/80|120/80 mmHg|5 mg|5MG|37.5 \u00b0C|37 C|12/03/2019|10:30 am|5pm
2019-03-12T10:00:00Z|12 March 2019|12-MAR-19|3. Mai 2020|12 de marzo de 2019
2019\u5e743\u670812\u65e5|\u0663\u0664|\uff11\uff12|\u00bd|3 x 500 mg|5 x10^9/L|<5 mg
25 kg/m2|mg/dL|mmHg|80/min|24 h|5 \u00b5g|10 cmH2O|50%|...|?!|\U0001f600|x|A|(b)|\u03b1
\u0411|\u00e9|"Y"|cccc|AAAAA|5 \u043c\u0433|1/2|3rd|[277]"""
TERMS = """trisomy 21|diabetes type 2|stage 4|HbA1c|22q11.2 deletion|22q11.2|T4|B12|C3|L5|P53|H1N1
CO2|G6PD|A1C|MS|45,X|47,XXX|K+|A-|Rh+|5-FU|6 MP|3H|14C|18F|\u764c|\u75db|\ud1b5|1p36
24 h urine|5 mg prednisone|2D echo|AAA|MG|mg|day|Mg 2+|May-Thurner|COVID-19|I21.9|IgG4
2\u578b\u7cd6\u5c3f\u75c5|Ca 19-9|H2O|Q fever|hepatitis B|h/o|37 weeks gestation"""


@pytest.mark.parametrize("text", NO_TERMS.replace("\n", "|").split("|"))
def test_numbers_dates_units_signs_and_single_letters_are_no_terms(text):
    assert not_a_term(text) is not None


@pytest.mark.parametrize("text", TERMS.replace("\n", "|").split("|"))
def test_numbers_beside_words_are_terms(text):
    assert not_a_term(text) is None
    assert nothing_meant(text) is None


def test_identifiers_and_addresses_mean_nothing_but_may_be_names():
    for text in ("MRN 0048213", "PF-06651600", "anna@example.org", "https://example.org/x"):
        assert not_a_term(text) is None
        assert nothing_meant(text) is not None
